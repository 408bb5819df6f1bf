/* labels: concurrent */
/* The worker pool. */
#include <base/base.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
    int entered;
    atomic_int done;
};

static void wait_at_gate(void *context)
{
    struct gate *gate = context;
    (void)pthread_mutex_lock(&gate->lock);
    gate->entered++;
    (void)pthread_cond_broadcast(&gate->changed);
    while (!gate->open)
        (void)pthread_cond_wait(&gate->changed, &gate->lock);
    (void)pthread_mutex_unlock(&gate->lock);
    (void)atomic_fetch_add(&gate->done, 1);
}

static void await_entered(struct gate *gate, int count)
{
    (void)pthread_mutex_lock(&gate->lock);
    while (gate->entered < count)
        (void)pthread_cond_wait(&gate->changed, &gate->lock);
    (void)pthread_mutex_unlock(&gate->lock);
}

static void open_gate(struct gate *gate)
{
    (void)pthread_mutex_lock(&gate->lock);
    gate->open = true;
    (void)pthread_cond_broadcast(&gate->changed);
    (void)pthread_mutex_unlock(&gate->lock);
}

static void full_queue_refuses_and_free_runs_what_was_queued(void **state)
{
    (void)state;
    struct gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    struct base_pool *pool;
    struct lake_error err = {0};
    assert_int_equal(base_pool_new(2, 3, &pool, &err), LAKE_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(base_pool_submit(pool, wait_at_gate, &gate, &err), LAKE_OK);
    await_entered(&gate, 2); /* both threads are busy, the queue is empty */
    for (int i = 0; i < 3; i++)
        assert_int_equal(base_pool_submit(pool, wait_at_gate, &gate, &err), LAKE_OK);
    assert_int_equal(base_pool_submit(pool, wait_at_gate, &gate, &err), LAKE_RESOURCE_EXHAUSTED);
    open_gate(&gate);
    base_pool_free(pool);
    assert_int_equal(atomic_load(&gate.done), 5);
    base_pool_free(NULL);
}

static void count_up(void *context)
{
    (void)atomic_fetch_add((atomic_int *)context, 1);
}

struct submitter {
    struct base_pool *pool;
    atomic_int *ran;
    int accepted;
};

static void *submit_many(void *argument)
{
    struct submitter *submitter = argument;
    for (int i = 0; i < 5000; i++) {
        if (base_pool_submit(submitter->pool, count_up, submitter->ran, NULL) == LAKE_OK)
            submitter->accepted++;
    }
    return NULL;
}

static void every_accepted_task_runs_once(void **state)
{
    (void)state;
    atomic_int ran = 0;
    struct base_pool *pool;
    assert_int_equal(base_pool_new(4, 64, &pool, NULL), LAKE_OK);
    struct submitter submitters[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        submitters[i] = (struct submitter){pool, &ran, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, &submitters[i]), 0);
    }
    int accepted = 0;
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
        accepted += submitters[i].accepted;
    }
    base_pool_free(pool);
    assert_true(accepted > 0);
    assert_int_equal(atomic_load(&ran), accepted);
}

static void sizes_outside_their_limits_are_refused(void **state)
{
    (void)state;
    struct base_pool *pool;
    assert_int_equal(base_pool_new(0, 1, &pool, NULL), LAKE_INVALID_ARGUMENT);
    assert_int_equal(base_pool_new(1025, 1, &pool, NULL), LAKE_INVALID_ARGUMENT);
    assert_int_equal(base_pool_new(1, 0, &pool, NULL), LAKE_INVALID_ARGUMENT);
    assert_int_equal(base_pool_new(1, (1u << 20) + 1, &pool, NULL), LAKE_INVALID_ARGUMENT);
    assert_int_equal(base_pool_new(1, 1, &pool, NULL), LAKE_OK);
    base_pool_free(pool);
}

static void out_of_memory_is_an_error(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth <= 2; nth++) {
        struct base_pool *pool;
        base_fault_fail_nth_alloc(nth);
        assert_int_equal(base_pool_new(1, 1, &pool, NULL), LAKE_RESOURCE_EXHAUSTED);
        base_fault_fail_nth_alloc(0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_queue_refuses_and_free_runs_what_was_queued),
        cmocka_unit_test(every_accepted_task_runs_once),
        cmocka_unit_test(sizes_outside_their_limits_are_refused),
        cmocka_unit_test(out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
