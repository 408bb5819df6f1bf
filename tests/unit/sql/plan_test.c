/* Plans that run again, and those that must not. */
#include "frames_fixture.h"

static struct sql_query *prepare_both(const char *sql)
{
    struct lake_error err = {0};
    struct sql_query *query = NULL;
    struct sql_source_table tables[] = {memory_table(frames, "main", "frames"),
                                        memory_table(episodes, "main", "episodes")};
    if (sql_query_prepare_sources(engine, base_str_of(sql), tables, 2, NULL, &query, &err) !=
        LAKE_OK) {
        fail_msg("%s: %s", sql, err.message);
    }
    return query;
}

static void check_text(struct sql_query *query, const char *sql, const char *expected)
{
    struct lake_error err = {0};
    struct base_buffer text;
    if (query_text(query, &text, &err) != LAKE_OK) {
        fail_msg("%s: %s", sql, err.message);
    }
    char *found = take_text(&text);
    if (strcmp(found, expected) != 0) {
        fail_msg("%s: expected\n%.500s\nfound\n%.500s", sql, expected, found);
    }
    free(found);
}

static void a_plan_answers_the_same_each_time_it_runs(void **state)
{
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_LEN(STATEMENTS); i++) {
        char *expected = plain_text(&plain, STATEMENTS[i]);
        struct sql_query *query = prepare_both(STATEMENTS[i]);
        assert_true(sql_query_rewind(query)); /* it has not run at all */
        for (int run = 0; run < 3; run++) {
            check_text(query, STATEMENTS[i], expected);
            if (!sql_query_rewind(query)) {
                fail_msg("%s is not run again", STATEMENTS[i]);
            }
        }
        sql_query_free(query);
        free(expected);
    }
}

static void a_plan_whose_rows_change_with_time_is_not_run_again(void **state)
{
    (void)state;
    static const char *const CHANGING[] = {
        "SELECT now()",
        "SELECT main.now()",
        "SELECT id FROM frames WHERE ts < current_timestamp",
        "SELECT current_date + 1",
        "SELECT CURRENT_TIME::VARCHAR",
        "SELECT localtimestamp",
        "SELECT * FROM range(current_date::TIMESTAMP, today()::TIMESTAMP, INTERVAL 1 DAY)",
        "SELECT id FROM frames LIMIT extract(day FROM now())::BIGINT",
        "SELECT age(TIMESTAMP '2020-01-01')",
        "SELECT ago(INTERVAL 1 DAY)",
        "SELECT random()",
        "SELECT setseed(0.5)",
        "SELECT uuid()",
        "WITH c AS (SELECT gen_random_uuid() AS u) SELECT count(DISTINCT u) FROM c, range(3)",
        "SELECT count(*) FROM frames TABLESAMPLE 10%",
        "SELECT count(*) FROM frames USING SAMPLE 10 ROWS",
        "EXPLAIN SELECT 1",
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(CHANGING); i++) {
        struct sql_query *query = prepare_both(CHANGING[i]);
        if (sql_query_rewind(query)) {
            fail_msg("%s would run again", CHANGING[i]);
        }
        sql_query_free(query);
    }
}

static void a_run_that_did_not_end_is_not_followed_by_another(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct ArrowArray batch;
    bool end = false;
    struct sql_query *query = prepare_both("SELECT id FROM frames");
    sql_query_interrupt(query);
    assert_false(sql_query_rewind(query));
    sql_query_free(query);

    query = prepare_both("SELECT a.id FROM frames a, frames b");
    assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_OK);
    assert_false(end);
    batch.release(&batch);
    assert_false(sql_query_rewind(query)); /* left early */
    sql_query_free(query);

    query = prepare_both("SELECT error('no') FROM frames");
    assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_INVALID_ARGUMENT);
    assert_false(sql_query_rewind(query));
    sql_query_free(query);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_answers_the_same_each_time_it_runs),
        cmocka_unit_test(a_plan_whose_rows_change_with_time_is_not_run_again),
        cmocka_unit_test(a_run_that_did_not_end_is_not_followed_by_another),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
