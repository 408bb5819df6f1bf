/* Statements over tables in memory, against a plain DuckDB as the oracle. */
#include "memory_source.h"

static struct sql_engine *engine;
static struct plain_engine plain;

static int setup(void **state)
{
    (void)state;
    struct sql_engine_options options;
    struct lake_error err = {0};
    sql_engine_options_init(&options);
    options.threads = 4;
    if (sql_engine_open(&options, &engine, &err) != LAKE_OK) {
        fail_msg("%s", err.message);
    }
    plain_open(&plain);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sql_engine_free(engine);
    plain_close(&plain);
    return 0;
}

static void expect_rows(const char *sql, struct memory_source *source, const char *expected)
{
    struct lake_error err = {0};
    char *text = NULL;
    struct sql_source_table table = memory_table(source, "main", "t");
    if (lake_text(engine, sql, &table, 1, &text, &err) != LAKE_OK) {
        fail_msg("%s: %s", sql, err.message);
    }
    assert_string_equal(text, expected);
    free(text);
}

static void rows_of_a_bound_table_come_back(void **state)
{
    (void)state;
    struct memory_source *source =
        memory_source_new(&plain, "SELECT i, 'row ' || i AS name FROM range(3) r(i)", 1);
    expect_rows("SELECT i, name FROM t ORDER BY i", source, "0|row 0\n1|row 1\n2|row 2\n");
    memory_source_free(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_a_bound_table_come_back),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
