/* One holder a key, in order of arrival. */
/* labels: concurrent */
#include "meta_fixture.h"

#define THREADS 8
#define ROUNDS  200

struct shared {
    struct meta_gates gates;
    int inside; /* written only under the gate of "k" */
    int entered;
    bool gone;
};

static void *contend(void *context)
{
    struct shared *shared = context;
    for (int i = 0; i < ROUNDS; i++) {
        struct meta_claim claim;
        if (meta_gate_enter(&shared->gates, &claim, "k", &patient, NULL) != LAKE_OK)
            abort();
        if (++shared->inside != 1)
            abort();
        shared->entered++;
        shared->inside--;
        meta_gate_leave(&shared->gates, &claim);
    }
    return NULL;
}

static void only_one_is_inside_at_a_time(void **state)
{
    (void)state;
    struct shared shared = {.inside = 0};
    assert_int_equal(meta_gates_init(&shared.gates, NULL), LAKE_OK);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, contend, &shared), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(shared.entered, THREADS * ROUNDS);
    assert_null(shared.gates.first);
    meta_gates_fini(&shared.gates);
}

static void other_keys_are_not_held_up(void **state)
{
    (void)state;
    struct meta_gates gates;
    struct meta_claim first;
    struct meta_claim second;
    struct meta_wait now = {.timeout_ms = 0};
    assert_int_equal(meta_gates_init(&gates, NULL), LAKE_OK);
    assert_int_equal(meta_gate_enter(&gates, &first, "a", &now, NULL), LAKE_OK);
    assert_int_equal(meta_gate_enter(&gates, &second, "b", &now, NULL), LAKE_OK);
    meta_gate_leave(&gates, &first);
    meta_gate_leave(&gates, &second);
    meta_gates_fini(&gates);
}

static void waiter_gives_up_when_its_time_is_over(void **state)
{
    (void)state;
    struct meta_gates gates;
    struct meta_claim first;
    struct meta_claim second;
    struct meta_wait brief = {.timeout_ms = 80};
    assert_int_equal(meta_gates_init(&gates, NULL), LAKE_OK);
    assert_int_equal(meta_gate_enter(&gates, &first, "a", &patient, NULL), LAKE_OK);
    int64_t start_us = base_clock_monotonic_us();
    assert_int_equal(meta_gate_enter(&gates, &second, "a", &brief, NULL), LAKE_RESOURCE_EXHAUSTED);
    assert_true(base_clock_monotonic_us() - start_us >= 80000);
    meta_gate_leave(&gates, &first);
    assert_int_equal(meta_gate_enter(&gates, &second, "a", &brief, NULL), LAKE_OK);
    meta_gate_leave(&gates, &second);
    assert_null(gates.first);
    meta_gates_fini(&gates);
}

static bool is_gone(void *context)
{
    return *(bool *)context;
}

static void waiter_whose_caller_went_away_is_cancelled(void **state)
{
    (void)state;
    bool gone = true;
    struct meta_gates gates;
    struct meta_claim first;
    struct meta_claim second;
    struct meta_wait wait = {60000, is_gone, &gone};
    assert_int_equal(meta_gates_init(&gates, NULL), LAKE_OK);
    assert_int_equal(meta_gate_enter(&gates, &first, "a", &patient, NULL), LAKE_OK);
    assert_int_equal(meta_gate_enter(&gates, &second, "a", &wait, NULL), LAKE_CANCELLED);
    meta_gate_leave(&gates, &first);
    meta_gates_fini(&gates);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_one_is_inside_at_a_time),
        cmocka_unit_test(other_keys_are_not_held_up),
        cmocka_unit_test(waiter_gives_up_when_its_time_is_over),
        cmocka_unit_test(waiter_whose_caller_went_away_is_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
