/* libs: lance */
/* labels: concurrent */
#include "parallel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ITEMS   500
#define CALLERS 6

struct work {
    int done[ITEMS];             /* by item; atomic */
    int busy[LANCE_MAX_WORKERS]; /* by worker; atomic */
    size_t fail_at;
};

static lake_status do_item(void *context, size_t index, size_t worker, struct lake_error *err)
{
    struct work *work = context;
    if (worker >= LANCE_MAX_WORKERS ||
        __atomic_fetch_add(&work->busy[worker], 1, __ATOMIC_SEQ_CST) != 0)
        return lake_fail(err, LAKE_INTERNAL, "worker %zu has two threads", worker);
    __atomic_fetch_add(&work->done[index], 1, __ATOMIC_RELAXED);
    if (index % 50 == 0)
        (void)usleep(200);
    __atomic_fetch_sub(&work->busy[worker], 1, __ATOMIC_SEQ_CST);
    if (index == work->fail_at)
        return lake_fail(err, LAKE_DATA_LOSS, "item %zu is broken", index);
    return LAKE_OK;
}

static void every_item_is_done_once(void **state)
{
    (void)state;
    for (size_t workers = 0; workers <= LANCE_MAX_WORKERS + 3; workers++) {
        for (size_t count = 0; count <= ITEMS; count += 100) {
            struct work work = {.fail_at = SIZE_MAX};
            struct lake_error err = {0};
            assert_int_equal(lance_parallel(count, workers, do_item, &work, &err), LAKE_OK);
            for (size_t i = 0; i < ITEMS; i++)
                assert_int_equal(work.done[i], i < count);
        }
    }
}

static void a_failure_ends_the_work_and_is_told(void **state)
{
    (void)state;
    for (size_t workers = 1; workers <= LANCE_MAX_WORKERS; workers++) {
        struct work work = {.fail_at = 40};
        struct lake_error err = {0};
        size_t done = 0;
        assert_int_equal(lance_parallel(ITEMS, workers, do_item, &work, &err), LAKE_DATA_LOSS);
        assert_string_equal(err.message, "item 40 is broken");
        for (size_t i = 0; i < ITEMS; i++)
            done += (size_t)work.done[i];
        assert_in_range(done, 41, ITEMS); /* what others had begun is finished */
        assert_int_equal(work.done[40], 1);
        if (workers == 1)
            assert_int_equal(done, 41);
    }
}

static void *call(void *context)
{
    struct lake_error err = {0};
    for (int i = 0; i < 20; i++) {
        struct work work = {.fail_at = SIZE_MAX};
        if (lance_parallel(ITEMS / 10, LANCE_MAX_WORKERS, do_item, &work, &err) != LAKE_OK)
            __atomic_fetch_add((int *)context, 1, __ATOMIC_RELAXED);
        for (size_t k = 0; k < ITEMS / 10; k++)
            if (work.done[k] != 1)
                __atomic_fetch_add((int *)context, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void callers_share_the_helpers(void **state)
{
    pthread_t threads[CALLERS];
    int problems = 0;
    (void)state;
    for (size_t i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call, &problems), 0);
    for (size_t i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(problems, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_done_once),
        cmocka_unit_test(a_failure_ends_the_work_and_is_told),
        cmocka_unit_test(callers_share_the_helpers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
