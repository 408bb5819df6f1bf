/* libs: sql */
/* Runs of one value: found by a plain loop, and statements over columns of them against a plain
 * DuckDB. Runs are 700 to 3,000 rows long, so that they begin and end within vectors and batches.
 */
#include "memory_source.h"

#include <math.h>

#define RUNS                                                                                      \
    "SELECT i AS id, CASE WHEN i < 12000 THEN (i // 700)::INTEGER ELSE (i // 3000 + 100) END AS " \
    "part, (i // 900)::TINYINT AS small, (i // 1500 * 0.5)::DOUBLE AS level, "                    \
    "(i // 2500)::FLOAT AS force, i // 1100 % 2 = 0 AS closed, "                                  \
    "CASE WHEN i // 800 % 3 = 0 THEN NULL ELSE i // 800 % 5 END::BIGINT AS maybe, "               \
    "CASE WHEN i // 1300 % 4 = 0 THEN NULL ELSE i // 1300 % 2 = 0 END AS maybe_closed, "          \
    "CASE i // 1000 % 4 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'pick up the red block' "     \
    "ELSE 'lay down a green ball' END AS task, 'robot ' || (i // 2000 % 3) AS robot, "            \
    "encode(repeat(chr((97 + i // 600 % 3)::INTEGER), 16)) AS raw, "                              \
    "(i // 1700)::DECIMAL(9, 2) AS price, (i // 1700)::DECIMAL(38, 2) AS wide, "                  \
    "(i // 1000)::UBIGINT AS u, DATE '1969-12-25' + (i // 1400)::INTEGER AS day, "                \
    "TIMESTAMP '1969-12-31 23:59:00' + to_seconds(i // 1250) AS ts, "                             \
    "[i // 1000, NULL] AS around, {'x': i // 1000} AS state, "                                    \
    "NULL::INTEGER AS nothing, 'same' AS same, "                                                  \
    "CASE WHEN i = 11111 THEN NULL ELSE 7 END AS nearly FROM range(20000) r(i)"

static const char *const STATEMENTS[] = {
    "SELECT * FROM runs",
    "SELECT part, task FROM runs LIMIT 100 OFFSET 650",
    "SELECT * FROM runs LIMIT 1500 OFFSET 9999",
    "SELECT part, count(*), sum(id), min(id), max(id) FROM runs GROUP BY part ORDER BY part",
    "SELECT part, robot, count(*), sum(id) FROM runs GROUP BY ALL ORDER BY ALL",
    "SELECT id, count(*), sum(small) FROM runs GROUP BY id ORDER BY id",
    "SELECT part, sum(id) FROM runs WHERE id % 7 = 3 GROUP BY part ORDER BY part",
    "SELECT part AS p, min(task), max(id) FROM runs WHERE level > 2 GROUP BY p ORDER BY 1",
    "SELECT part, count(*) FROM runs WHERE part = 4 GROUP BY part",
    "SELECT part, count(*) FROM runs WHERE id < 0 GROUP BY part",
    ("SELECT part, sum(n) FROM (SELECT part, small, count(*) AS n FROM runs GROUP BY part, small) "
     "GROUP BY part ORDER BY part"),
    "SELECT task, count(*), sum(id), any_value(robot) IS NULL FROM runs GROUP BY task ORDER BY ALL",
    "SELECT maybe, count(*), count(maybe_closed), sum(id) FROM runs GROUP BY maybe ORDER BY maybe",
    "SELECT maybe_closed, closed, count(*), sum(id) FROM runs GROUP BY ALL ORDER BY ALL",
    "SELECT raw, count(*), max(id) FROM runs GROUP BY raw ORDER BY raw",
    "SELECT wide, price, count(*) FROM runs GROUP BY ALL ORDER BY ALL",
    "SELECT day, ts, sum(u), count(*) FROM runs GROUP BY ALL ORDER BY ALL",
    "SELECT nothing, same, nearly, count(*), sum(id) FROM runs GROUP BY ALL ORDER BY ALL",
    "SELECT around, state, count(*) FROM runs GROUP BY ALL ORDER BY ALL",
    "SELECT small, count(*) FILTER (WHERE closed), sum(level) FROM runs GROUP BY small ORDER BY 1",
    "SELECT small, count(DISTINCT robot) FROM runs GROUP BY small ORDER BY small",
    ("SELECT part % 3, count(*), list(DISTINCT part ORDER BY part) FROM runs GROUP BY ALL "
     "ORDER BY ALL"),
    "SELECT robot, part, count(*), sum(id) FROM runs GROUP BY ROLLUP (robot, part) ORDER BY ALL",
    ("SELECT sum(part), sum(level), sum(force), avg(level), min(task), max(task), count(maybe), "
     "count(nothing), sum(nearly), min(price), max(wide), bool_or(closed), count(DISTINCT day), "
     "string_agg(DISTINCT robot, ',' ORDER BY robot) FROM runs"),
    "SELECT count(*) FROM runs WHERE closed",
    "SELECT count(*), sum(id) FROM runs WHERE NOT maybe_closed AND task <> ''",
    "SELECT id FROM runs WHERE task = '' AND part % 2 = 1",
    "SELECT id, part FROM runs WHERE part = 5",
    "SELECT count(*) FROM runs WHERE maybe IS NULL OR level > 4.5",
    "SELECT count(*) FROM runs WHERE nothing IS NULL AND nearly IS NOT NULL",
    "SELECT id FROM runs WHERE nearly IS NULL",
    "SELECT count(*) FROM runs WHERE task LIKE '%block' AND robot IN ('robot 1', 'robot 2')",
    "SELECT count(*) FROM runs WHERE ts > TIMESTAMP '1970-01-01' OR day < DATE '1969-12-30'",
    "SELECT upper(task), length(robot), part + 1, level / 2, closed AND maybe_closed FROM runs",
    "SELECT CASE WHEN closed THEN task ELSE robot END, coalesce(maybe, -1) FROM runs",
    "SELECT DISTINCT part, robot FROM runs ORDER BY ALL",
    ("SELECT count(*), sum(a.id) FROM runs a JOIN (SELECT DISTINCT part FROM runs WHERE closed) b "
     "USING (part)"),
    ("SELECT a.task, count(*) FROM (SELECT DISTINCT task FROM runs) a JOIN runs b ON "
     "a.task = b.task GROUP BY ALL ORDER BY ALL"),
    ("SELECT count(*) FROM (SELECT DISTINCT maybe FROM runs) a, runs b WHERE a.maybe IS NOT "
     "DISTINCT FROM b.maybe"),
    "SELECT count(*), sum(id) FROM runs WHERE part IN (SELECT part FROM runs WHERE force = 3)",
    "SELECT id, part FROM runs WHERE id < 90 UNION ALL SELECT id, small FROM runs WHERE id > 19500",
    "SELECT part FROM runs UNION SELECT small FROM runs ORDER BY 1",
    "SELECT robot FROM runs EXCEPT SELECT robot FROM runs WHERE part < 5 ORDER BY 1",
    ("SELECT id, part, first_value(id) OVER (PARTITION BY part ORDER BY id), "
     "lag(task) OVER (ORDER BY id) FROM runs ORDER BY id LIMIT 3000"),
    "SELECT part, task FROM runs ORDER BY task DESC NULLS LAST, part, id LIMIT 2100",
    "SELECT unnest(around), state.x FROM runs WHERE part = 4",
    "SELECT unnest([part, small]) FROM runs WHERE id % 1000 = 0",
    ("WITH RECURSIVE r AS (SELECT 0 AS part UNION ALL SELECT r.part + 1 FROM r, runs WHERE "
     "runs.id = r.part * 700 AND runs.part = r.part AND r.part < 9) FROM r"),
};

static void statements_over_runs_answer_as_the_plain_engine_does(void **state)
{
    (void)state;
    struct sql_engine *engine = NULL;
    struct sql_engine_options options;
    struct plain_engine plain;
    struct lake_error err = {0};
    sql_engine_options_init(&options);
    options.threads = 4;
    assert_int_equal(sql_engine_open(&options, &engine, &err), LAKE_OK);
    plain_open(&plain);
    plain_run(&plain, "CREATE TABLE runs AS " RUNS);
    struct memory_source *source = memory_source_new(&plain, "FROM runs", 2);
    for (size_t i = 0; i < 2 * BASE_ARRAY_LEN(STATEMENTS); i++) {
        struct sql_source_table tables[] = {memory_table(source, "main", "runs")};
        const char *sql = STATEMENTS[i / 2];
        char *found = NULL;
        char *expected = plain_text(&plain, sql);
        source->runs = i % 2; /* aggregates by runs, also where there are as many as rows */
        if (lake_text(engine, sql, tables, 1, &found, &err) != LAKE_OK) {
            fail_msg("%s: %s", sql, err.message);
        }
        if (strcmp(found, expected) != 0) {
            fail_msg("%s: expected\n%.500s\nfound\n%.500s", sql, expected, found);
        }
        free(found);
        free(expected);
    }
    memory_source_free(source);
    sql_engine_free(engine);
    plain_close(&plain);
}

/* ---- the search itself ---- */

static bool same_row(const struct ArrowArrayView *view, int64_t a, int64_t b)
{
    bool null = ArrowArrayViewIsNull(view, a);
    if (null || ArrowArrayViewIsNull(view, b)) {
        return null && ArrowArrayViewIsNull(view, b);
    }
    struct ArrowBufferView left = ArrowArrayViewGetBytesUnsafe(view, a);
    struct ArrowBufferView right = ArrowArrayViewGetBytesUnsafe(view, b);
    return left.size_bytes == right.size_bytes &&
           memcmp(left.data.data, right.data.data, (size_t)left.size_bytes) == 0;
}

static bool same_number(const struct ArrowArrayView *view, int64_t a, int64_t b)
{
    bool null = ArrowArrayViewIsNull(view, a);
    if (null || ArrowArrayViewIsNull(view, b)) {
        return null && ArrowArrayViewIsNull(view, b);
    }
    return ArrowArrayViewGetIntUnsafe(view, a) == ArrowArrayViewGetIntUnsafe(view, b);
}

/* Runs of a length that varies with the row, of nulls among others. */
static void make(enum ArrowType type, bool nulls, struct ArrowSchema *schema,
                 struct ArrowArray *array)
{
    static const char *const TEXTS[] = {"", "a", "b", "cc", "dd", "the longest of all of them"};
    ArrowSchemaInit(schema);
    bool strings = type == NANOARROW_TYPE_STRING || type == NANOARROW_TYPE_LARGE_STRING ||
                   type == NANOARROW_TYPE_FIXED_SIZE_BINARY;
    if (type == NANOARROW_TYPE_FIXED_SIZE_BINARY) {
        assert_int_equal(ArrowSchemaSetTypeFixedSize(schema, type, 3), NANOARROW_OK);
    } else {
        assert_int_equal(ArrowSchemaSetType(schema, type), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayInitFromSchema(array, schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(array), NANOARROW_OK);
    uint64_t seed = 7;
    for (int64_t row = 0; row < 3000;) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        int64_t count = 1 + (int64_t)(seed >> 60 < 8 ? seed >> 33 & 1 : seed >> 33 & 255);
        size_t value = (size_t)(seed >> 42) % 6;
        struct ArrowStringView text = ArrowCharView(TEXTS[value]);
        if (type == NANOARROW_TYPE_FIXED_SIZE_BINARY) {
            text = (struct ArrowStringView){&"abcdefgh"[value / 2], 3};
        }
        for (; count > 0; count--, row++) {
            ArrowErrorCode code = nulls && value == 5 ? ArrowArrayAppendNull(array, 1)
                                  : strings           ? ArrowArrayAppendString(array, text)
                                            : ArrowArrayAppendInt(array, type == NANOARROW_TYPE_BOOL
                                                                             ? value < 3
                                                                             : (int64_t)value);
            if (type == NANOARROW_TYPE_FIXED_SIZE_BINARY && !(nulls && value == 5)) {
                code = ArrowArrayAppendBytes(
                    array, (struct ArrowBufferView){{text.data}, text.size_bytes});
            }
            assert_int_equal(code, NANOARROW_OK);
        }
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(array, NULL), NANOARROW_OK);
}

static void runs_are_those_of_a_plain_loop(void **state)
{
    (void)state;
    static const enum ArrowType TYPES[] = {
        NANOARROW_TYPE_BOOL,   NANOARROW_TYPE_INT8,         NANOARROW_TYPE_UINT16,
        NANOARROW_TYPE_INT32,  NANOARROW_TYPE_INT64,        NANOARROW_TYPE_FLOAT,
        NANOARROW_TYPE_STRING, NANOARROW_TYPE_LARGE_STRING, NANOARROW_TYPE_FIXED_SIZE_BINARY};
    for (size_t i = 0; i < 2 * BASE_ARRAY_LEN(TYPES); i++) {
        struct ArrowSchema schema;
        struct ArrowArray array;
        struct ArrowArrayView view;
        bool bytes = i / 2 >= 6;
        make(TYPES[i / 2], i % 2 == 1, &schema, &array);
        array.offset = 5; /* never so in a batch of a scan, but arrays may have it */
        array.length -= 5;
        assert_int_equal(ArrowArrayViewInitFromSchema(&view, &schema, NULL), NANOARROW_OK);
        assert_int_equal(ArrowArrayViewSetArray(&view, &array, NULL), NANOARROW_OK);
        struct sql_run_layout layout = sql_run_layout_of(&schema);
        for (int64_t row = 0; row < array.length; row++) {
            int64_t most = BASE_MIN(array.length - row, 1 + row * 7 % 400);
            int64_t run = 1;
            while (run < most &&
                   (bytes ? same_row(&view, row, row + run) : same_number(&view, row, row + run))) {
                run++;
            }
            assert_int_equal(sql_run_length(layout, &array, (size_t)row, (size_t)most), run);
        }
        ArrowArrayViewReset(&view);
        array.release(&array);
        schema.release(&schema);
    }
}

/* Bits count, not numbers: 0.0 and -0.0 are two values, a NaN is one with itself. */
static void floats_are_compared_by_their_bits(void **state)
{
    (void)state;
    const double values[] = {0.0, 0.0, -0.0, (double)NAN, (double)NAN};
    const void *buffers[] = {NULL, values};
    struct ArrowArray array = {.length = 5, .n_buffers = 2, .buffers = buffers};
    struct sql_run_layout layout = {.item_bits = 64};
    assert_int_equal(sql_run_length(layout, &array, 0, 5), 2);
    assert_int_equal(sql_run_length(layout, &array, 2, 3), 1);
    assert_int_equal(sql_run_length(layout, &array, 3, 2), 2);
}

static void nested_types_are_not_looked_into(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    ArrowSchemaInit(&schema);
    assert_int_equal(ArrowSchemaSetType(&schema, NANOARROW_TYPE_LIST), NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetType(schema.children[0], NANOARROW_TYPE_INT32), NANOARROW_OK);
    struct sql_run_layout layout = sql_run_layout_of(&schema);
    struct ArrowArray array = {.length = 9};
    assert_int_equal(sql_run_length(layout, &array, 0, 9), 1);
    schema.release(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_those_of_a_plain_loop),
        cmocka_unit_test(floats_are_compared_by_their_bits),
        cmocka_unit_test(nested_types_are_not_looked_into),
        cmocka_unit_test(statements_over_runs_answer_as_the_plain_engine_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
