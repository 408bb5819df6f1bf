/* labels: concurrent */
/* Admission (ADM-1..ADM-5). */
#include "admission.h"
#include "watchdog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct query_admission *open_gate(uint32_t all, uint32_t each, uint32_t tenants,
                                         uint32_t timeout_ms)
{
    struct query_admission_limits limits = {all, each, tenants, timeout_ms};
    struct query_admission *admission = NULL;
    assert_int_equal(query_admission_new(&limits, &admission, NULL), LAKE_OK);
    return admission;
}

static void one_tenant_gets_its_share_and_not_one_more(void **state)
{
    (void)state;
    struct query_admission *admission = open_gate(64, 8, 4096, 20);
    struct query_permit *permits[8];
    struct query_permit *other = NULL;
    struct query_permit *refused = NULL;
    struct lake_error error = {0};
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(query_admission_acquire(admission, "a", &permits[i], NULL), LAKE_OK);
    assert_int_equal(query_admission_acquire(admission, "a", &refused, &error),
                     LAKE_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(error.message, "LAKE_QUERY_MAX_CONCURRENT_PER_TENANT"));
    assert_null(strstr(error.message, "\"a\""));
    assert_int_equal(query_admission_acquire(admission, "b", &other, NULL), LAKE_OK);
    assert_int_equal(query_admission_running(admission), 9);
    query_permit_release(permits[0]);
    assert_int_equal(query_admission_acquire(admission, "a", &permits[0], NULL), LAKE_OK);
    for (size_t i = 0; i < 8; i++)
        query_permit_release(permits[i]);
    query_permit_release(other);
    assert_int_equal(query_admission_running(admission), 0);
    query_admission_free(admission);
}

static void all_places_taken_refuses_after_the_queue_timeout(void **state)
{
    (void)state;
    struct query_admission *admission = open_gate(64, 64, 4096, 50);
    struct query_permit *permits[64];
    struct query_permit *refused = NULL;
    struct lake_error error = {0};
    char tenant[16];
    for (size_t i = 0; i < 64; i++) {
        snprintf(tenant, sizeof(tenant), "t%zu", i % 16);
        assert_int_equal(query_admission_acquire(admission, tenant, &permits[i], NULL), LAKE_OK);
    }
    int64_t started_us = base_clock_monotonic_us();
    assert_int_equal(query_admission_acquire(admission, "late", &refused, &error),
                     LAKE_RESOURCE_EXHAUSTED);
    int64_t waited_us = base_clock_monotonic_us() - started_us;
    assert_true(waited_us >= 49000);
    assert_non_null(strstr(error.message, "LAKE_QUERY_MAX_CONCURRENT)"));
    for (size_t i = 0; i < 64; i++)
        query_permit_release(permits[i]);
    query_admission_free(admission);
}

/* ADM-5: gates without users are gone, and a full tracker refuses a new tenant at once. */
static void a_full_tracker_refuses_and_idle_gates_are_pruned(void **state)
{
    (void)state;
    struct query_admission *admission = open_gate(64, 8, 4, 5000);
    struct query_permit *permits[4];
    struct query_permit *fifth = NULL;
    struct lake_error error = {0};
    const char *const tenants[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(query_admission_acquire(admission, tenants[i], &permits[i], NULL),
                         LAKE_OK);
    int64_t started_us = base_clock_monotonic_us();
    assert_int_equal(query_admission_acquire(admission, "e", &fifth, &error),
                     LAKE_RESOURCE_EXHAUSTED);
    assert_true(base_clock_monotonic_us() - started_us < 1000000);
    assert_non_null(strstr(error.message, "LAKE_QUERY_MAX_TRACKED_TENANTS"));
    assert_int_equal(query_admission_tracked(admission), 4);
    query_permit_release(permits[3]);
    assert_int_equal(query_admission_tracked(admission), 3);
    assert_int_equal(query_admission_acquire(admission, "e", &fifth, NULL), LAKE_OK);
    for (size_t i = 0; i < 3; i++)
        query_permit_release(permits[i]);
    query_permit_release(fifth);
    assert_int_equal(query_admission_tracked(admission), 0);
    query_admission_free(admission);
}

struct noisy {
    struct query_admission *admission;
    atomic_uint refused;
    atomic_uint admitted;
    atomic_uint most;
    uint32_t rounds;
    uint32_t hold_ms;
    const char *tenant;
};

static void *make_noise(void *context)
{
    struct noisy *noisy = context;
    for (uint32_t i = 0; i < noisy->rounds; i++) {
        struct query_permit *permit = NULL;
        if (query_admission_acquire(noisy->admission, noisy->tenant, &permit, NULL) != LAKE_OK) {
            atomic_fetch_add(&noisy->refused, 1);
            continue;
        }
        atomic_fetch_add(&noisy->admitted, 1);
        unsigned running = query_admission_running(noisy->admission);
        unsigned most = atomic_load(&noisy->most);
        while (running > most && !atomic_compare_exchange_weak(&noisy->most, &most, running))
            continue;
        base_sleep_ms(noisy->hold_ms);
        query_permit_release(permit);
    }
    return NULL;
}

/* ADM-2: twelve threads of one tenant wait for its two shares; another tenant is served at once. */
static void a_noisy_tenant_holds_no_place_while_it_waits_for_its_share(void **state)
{
    (void)state;
    struct query_admission *admission = open_gate(3, 2, 16, 5000);
    struct noisy noisy = {.admission = admission, .rounds = 6, .hold_ms = 5, .tenant = "noisy"};
    struct noisy calm = {.admission = admission, .rounds = 30, .hold_ms = 0, .tenant = "calm"};
    pthread_t threads[12];
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_noise, &noisy), 0);
    int64_t started_us = base_clock_monotonic_us();
    make_noise(&calm);
    int64_t calm_us = base_clock_monotonic_us() - started_us;
    for (size_t i = 0; i < 12; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&calm.admitted), 30);
    assert_int_equal(atomic_load(&noisy.admitted), 72);
    assert_true(atomic_load(&noisy.most) <= 3);
    /* Behind the noise in one queue it would take 30 of its turns of 5 ms each. */
    assert_true(calm_us < 30 * 5000);
    assert_int_equal(query_admission_tracked(admission), 0);
    query_admission_free(admission);
}

static void many_threads_leave_nothing_behind(void **state)
{
    (void)state;
    struct query_admission *admission = open_gate(4, 3, 8, 2);
    struct noisy groups[4] = {
        {.admission = admission, .rounds = 200, .tenant = "a"},
        {.admission = admission, .rounds = 200, .tenant = "b"},
        {.admission = admission, .rounds = 200, .hold_ms = 1, .tenant = "c"},
        {.admission = admission, .rounds = 200, .tenant = "d"},
    };
    pthread_t threads[16];
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_noise, &groups[i % 4]), 0);
    for (size_t i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(atomic_load(&groups[i].admitted) + atomic_load(&groups[i].refused), 800);
        assert_true(atomic_load(&groups[i].most) <= 4);
    }
    assert_int_equal(query_admission_running(admission), 0);
    assert_int_equal(query_admission_tracked(admission), 0);
    query_admission_free(admission);
}

static int64_t count_look(void *context, uint32_t times)
{
    assert_int_equal(atomic_fetch_add((atomic_uint *)context, 1), times);
    return times == 0 ? 30 : 60000;
}

static void the_watchdog_looks_at_what_is_due_and_only_that(void **state)
{
    (void)state;
    struct query_watchdog *watchdog = NULL;
    struct query_watch early, late, never;
    atomic_uint early_times = 0, late_times = 0, never_times = 0;
    assert_int_equal(query_watchdog_new(&watchdog, NULL), LAKE_OK);
    query_watchdog_add(watchdog, &never, 60000, count_look, &never_times);
    query_watchdog_add(watchdog, &late, 60, count_look, &late_times);
    query_watchdog_add(watchdog, &early, 20, count_look, &early_times);
    base_sleep_ms(400);
    assert_int_equal(query_watchdog_remove(watchdog, &early), 2);
    assert_int_equal(query_watchdog_remove(watchdog, &late), 2);
    assert_int_equal(query_watchdog_remove(watchdog, &never), 0);
    assert_int_equal(atomic_load(&early_times), 2);
    assert_int_equal(atomic_load(&late_times), 2);
    assert_int_equal(atomic_load(&never_times), 0);
    query_watchdog_free(watchdog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_tenant_gets_its_share_and_not_one_more),
        cmocka_unit_test(all_places_taken_refuses_after_the_queue_timeout),
        cmocka_unit_test(a_full_tracker_refuses_and_idle_gates_are_pruned),
        cmocka_unit_test(a_noisy_tenant_holds_no_place_while_it_waits_for_its_share),
        cmocka_unit_test(many_threads_leave_nothing_behind),
        cmocka_unit_test(the_watchdog_looks_at_what_is_due_and_only_that),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
