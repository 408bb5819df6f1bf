/* Plans kept for the next time. */
#include "plans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define IDLE_PLANS 64 /* plans.c's own number */

static struct sql_engine *engine;
static struct query_plans *plans;

static int setup(void **state)
{
    (void)state;
    struct sql_engine_options options;
    sql_engine_options_init(&options);
    options.threads = 2;
    assert_int_equal(sql_engine_open(&options, &engine, NULL), LAKE_OK);
    assert_int_equal(query_plans_new(&plans, NULL), LAKE_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    query_plans_free(plans);
    sql_engine_free(engine);
    return 0;
}

static struct query_plan *make(const char *sql)
{
    struct lake_error err = {0};
    struct query_resolved nothing = {0};
    struct query_plan *plan = NULL;
    if (query_plan_new(engine, base_str_of(sql), &nothing, &plan, &err) != LAKE_OK)
        fail_msg("%s: %s", sql, err.message);
    return plan;
}

static int64_t run(struct query_plan *plan)
{
    struct ArrowArray batch;
    bool end = false;
    assert_int_equal(sql_query_next(plan->query, &batch, &end, NULL), LAKE_OK);
    assert_false(end);
    int64_t value = ((const int64_t *)batch.children[0]->buffers[1])[0];
    batch.release(&batch);
    assert_int_equal(sql_query_next(plan->query, &batch, &end, NULL), LAKE_OK);
    assert_true(end);
    return value;
}

static struct query_plan *take(const char *sql)
{
    return query_plans_take(plans, base_str_of(sql), NULL, 0);
}

static void a_plan_that_ran_to_its_end_is_taken_once_and_runs_again(void **state)
{
    (void)state;
    const char *sql = "SELECT 41::BIGINT + 1";
    assert_null(take(sql));
    struct query_plan *plan = make(sql);
    assert_int_equal(run(plan), 42);
    query_plans_give(plans, plan);
    assert_ptr_equal(take(sql), plan);
    assert_null(take(sql)); /* it is out */
    assert_int_equal(run(plan), 42);
    query_plans_give(plans, plan);
    query_plan_free(take(sql));
}

static void a_plan_is_of_its_text_and_its_pins_only(void **state)
{
    (void)state;
    const char *sql = "SELECT 1::BIGINT";
    const struct query_pin pin = {.schema = LAKE_STR("s"), .table = LAKE_STR("t"), .version = 1};
    query_plans_give(plans, make(sql));
    assert_null(take("SELECT 2::BIGINT"));
    assert_null(take("SELECT 1::BIGINT "));
    assert_null(query_plans_take(plans, base_str_of(sql), &pin, 1));
    query_plan_free(take(sql));
}

static void a_plan_that_cannot_run_again_is_not_kept(void **state)
{
    (void)state;
    query_plans_give(plans, make("SELECT now()"));
    assert_null(take("SELECT now()"));
    struct query_plan *plan = make("SELECT 1::BIGINT");
    sql_query_interrupt(plan->query);
    query_plans_give(plans, plan);
    assert_null(take("SELECT 1::BIGINT"));
}

static void the_longest_idle_plans_make_room(void **state)
{
    (void)state;
    char sql[64];
    for (int i = 0; i < IDLE_PLANS + 3; i++) {
        (void)snprintf(sql, sizeof(sql), "SELECT %d::BIGINT", i);
        query_plans_give(plans, make(sql));
    }
    for (int i = 0; i < IDLE_PLANS + 3; i++) {
        (void)snprintf(sql, sizeof(sql), "SELECT %d::BIGINT", i);
        struct query_plan *plan = take(sql);
        assert_int_equal(plan != NULL, i >= 3);
        if (plan != NULL)
            assert_int_equal(run(plan), i);
        query_plan_free(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_that_ran_to_its_end_is_taken_once_and_runs_again),
        cmocka_unit_test(a_plan_is_of_its_text_and_its_pins_only),
        cmocka_unit_test(a_plan_that_cannot_run_again_is_not_kept),
        cmocka_unit_test(the_longest_idle_plans_make_room),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
