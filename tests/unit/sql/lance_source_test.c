/* Statements over real Lance tables, against a plain DuckDB on the same rows (SQL-4, L17). */
#include "memory_source.h"

#include <storage/storage.h>

static struct sql_engine *engine;
static struct plain_engine plain;
static char directory[64];

#define ROWS                                                                                       \
    "SELECT i AS id, (i // 100)::INTEGER AS episode, (i % 7)::UTINYINT AS gear, "                  \
    "i / 7.0::DOUBLE AS reward, CASE WHEN i % 17 = 0 THEN 'nan'::FLOAT ELSE i % 10 END AS noisy, " \
    "CASE WHEN i % 11 = 0 THEN NULL ELSE 'robot ' || (i % 13) END AS robot, "                      \
    "CASE WHEN i % 5 = 0 THEN NULL ELSE i % 2 = 0 END AS grasped, "                                \
    "DATE '1969-12-25' + (i % 20)::INTEGER AS day, "                                               \
    "TIMESTAMP '1969-12-31 23:59:00' + to_milliseconds(i * 33) AS ts, "                            \
    "(TIMESTAMP '1969-12-31 23:59:00' + to_milliseconds(i * 33))::TIMESTAMPTZ AS tz, "             \
    "make_timestamp_ns(i * 1000003 - 5000) AS ns, (i % 1000 / 4)::DECIMAL(9, 2) AS price, "        \
    "encode('b' || i % 3) AS raw, [i, i + 1] AS around, "                                          \
    "[i, i * 2, i * 3]::FLOAT[3] AS pose, "                                                        \
    "CASE WHEN i % 3 = 0 THEN NULL ELSE {'x': i, 'y': 'p' || i % 4} END AS state, "                \
    "(i * 1000)::UBIGINT AS u "

static int setup(void **state)
{
    (void)state;
    struct sql_engine_options options;
    struct lake_error err = {0};
    sql_engine_options_init(&options);
    options.threads = 2;
    assert_int_equal(sql_engine_open(&options, &engine, &err), LAKE_OK);
    plain_open(&plain);
    (void)snprintf(directory, sizeof(directory), "/tmp/lake_sql_lance_XXXXXX");
    assert_non_null(mkdtemp(directory));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    sql_engine_free(engine);
    plain_close(&plain);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", directory);
    return system(command) == 0 ? 0 : -1;
}

/* A stream over a source's batches, moved out. */
struct source_stream {
    struct memory_source *source;
    size_t next;
};

static int source_stream_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    return ArrowSchemaDeepCopy(&((struct source_stream *)self->private_data)->source->schema, out);
}

static int source_stream_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    struct source_stream *stream = self->private_data;
    memset(out, 0, sizeof(*out));
    if (stream->next < stream->source->batch_count) {
        view_child(&stream->source->arrays[stream->next++], out);
    }
    return 0;
}

static const char *source_stream_error(struct ArrowArrayStream *self)
{
    (void)self;
    return NULL;
}

static void source_stream_release(struct ArrowArrayStream *self)
{
    self->release = NULL;
}

static void write_rows(struct storage_store *store, struct memory_source *source, bool append)
{
    struct lance_create_options options;
    struct lake_error err = {0};
    struct source_stream rows = {.source = source};
    struct ArrowArrayStream stream = {.get_schema = source_stream_schema,
                                      .get_next = source_stream_next,
                                      .get_last_error = source_stream_error,
                                      .release = source_stream_release,
                                      .private_data = &rows};
    uint64_t version = 0;
    lance_create_options_init(&options);
    if (lance_write_stream(store, &stream, &options,
                           append ? LANCE_WRITE_APPEND : LANCE_WRITE_CREATE, &version,
                           &err) != LAKE_OK) {
        fail_msg("%s", err.message);
    }
    if (stream.release != NULL) {
        stream.release(&stream);
    }
}

static struct storage_store *open_store(const char *name)
{
    char path[128];
    struct lake_error err = {0};
    struct storage_store *store = NULL;
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    if (storage_local_open(path, true, &store, &err) != LAKE_OK) {
        fail_msg("%s", err.message);
    }
    return store;
}

static struct lance_dataset *open_dataset(struct storage_store *store, uint64_t version)
{
    struct lake_error err = {0};
    struct lance_dataset *dataset = NULL;
    if (lance_dataset_open(store, NULL, NULL, version, &dataset, &err) != LAKE_OK) {
        fail_msg("%s", err.message);
    }
    return dataset;
}

static char *dataset_text(struct lance_dataset *dataset, const char *sql)
{
    struct lake_error err = {0};
    struct sql_query *query = NULL;
    struct base_buffer text;
    struct sql_table table = {
        .catalog = "lake", .schema = "main", .table = "t", .dataset = dataset};
    if (sql_query_prepare(engine, base_str_of(sql), &table, 1, NULL, &query, &err) != LAKE_OK ||
        query_text(query, &text, &err) != LAKE_OK) {
        fail_msg("%s: %s", sql, err.message);
    }
    sql_query_free(query);
    return take_text(&text);
}

static const char *const STATEMENTS[] = {
    "SELECT * FROM t",
    "SELECT count(*) FROM t",
    "SELECT id FROM t WHERE id = 777",
    "SELECT id, robot, state FROM t WHERE id BETWEEN 40 AND 60",
    "SELECT count(*) FROM t WHERE episode <> 5",
    "SELECT count(*) FROM t WHERE gear >= 5",
    "SELECT count(*), sum(id) FROM t WHERE reward > 1000.5",
    "SELECT count(*) FROM t WHERE noisy > 5",
    "SELECT count(*) FROM t WHERE noisy >= 'nan'::FLOAT",
    "SELECT count(*) FROM t WHERE noisy <> 3",
    "SELECT count(*) FROM t WHERE robot = 'robot 5'",
    "SELECT count(*) FROM t WHERE robot >= 'robot 5' AND robot < 'robot 7'",
    "SELECT count(*) FROM t WHERE robot LIKE 'robot 1%'",
    "SELECT count(*) FROM t WHERE robot IN ('robot 1', 'robot 12', 'none')",
    "SELECT count(*) FROM t WHERE robot IS NULL",
    "SELECT count(*) FROM t WHERE robot IS NOT NULL AND grasped IS NULL",
    "SELECT count(*) FROM t WHERE grasped",
    "SELECT count(*) FROM t WHERE NOT grasped",
    "SELECT count(*) FROM t WHERE day < DATE '1970-01-01'",
    "SELECT count(*) FROM t WHERE ts >= TIMESTAMP '1970-01-01 00:00:30.5'",
    "SELECT count(*) FROM t WHERE tz >= TIMESTAMPTZ '1970-01-01 01:00:30.5+01'",
    "SELECT count(*) FROM t WHERE ns > make_timestamp_ns(5000000000)",
    "SELECT count(*) FROM t WHERE price = 12.25",
    "SELECT count(*) FROM t WHERE raw = encode('b1')",
    "SELECT count(*) FROM t WHERE u > 15000000",
    "SELECT count(*) FROM t WHERE state IS NULL",
    "SELECT count(*) FROM t WHERE state IS NOT NULL AND state.x % 2 = 1",
    "SELECT id, state FROM t WHERE state IS NULL AND id < 40",
    "SELECT count(*) FROM t WHERE state.x = 1000",
    "SELECT episode, count(*), max(reward) FROM t GROUP BY episode ORDER BY episode",
    "SELECT a.id, b.id FROM t a JOIN t b ON a.id = b.id * 2 WHERE b.id > 9990 ORDER BY 1",
    "SELECT id, reward FROM t ORDER BY noisy DESC, id LIMIT 10",
    "SELECT sum(p) FROM (SELECT unnest(pose)::DOUBLE AS p FROM t)",
    "SELECT id FROM t LIMIT 10 OFFSET 12345",
};

static void statements_over_lance_answer_as_the_plain_engine_does(void **state)
{
    (void)state;
    struct storage_store *store = open_store("rows");
    struct memory_source *first = memory_source_new(&plain, ROWS "FROM range(15000) r(i)", 1);
    struct memory_source *second =
        memory_source_new(&plain, ROWS "FROM range(15000, 20000) r(i)", 1);
    write_rows(store, first, false);
    write_rows(store, second, true);
    struct lance_dataset *dataset = open_dataset(store, 0);
    plain_run(&plain, "CREATE TABLE t AS " ROWS "FROM range(20000) r(i)");
    for (size_t i = 0; i < BASE_ARRAY_LEN(STATEMENTS); i++) {
        char *expected = plain_text(&plain, STATEMENTS[i]);
        char *found = dataset_text(dataset, STATEMENTS[i]);
        if (strcmp(found, expected) != 0) {
            size_t at = 0;
            while (found[at] == expected[at]) {
                at++;
            }
            at = at < 100 ? 0 : at - 100;
            fail_msg("%s: expected\n…%.300s\nfound\n…%.300s", STATEMENTS[i], expected + at,
                     found + at);
        }
        free(found);
        free(expected);
    }
    plain_run(&plain, "DROP TABLE t");
    lance_dataset_unref(dataset);
    storage_store_unref(store);
    memory_source_free(first);
    memory_source_free(second);
}

#define LONG_RUNS                                                                                 \
    "SELECT (i // 4000)::INTEGER AS episode, i % 4000 AS step, 'task ' || (i // 12000) AS task, " \
    "CASE WHEN i // 9000 % 2 = 0 THEN NULL ELSE i // 9000 END AS maybe "

/* Two fragments; an episode goes on from one into the other; `step` has no runs. */
static void rows_that_lie_together_are_aggregated_run_by_run(void **state)
{
    static const char *const GROUPED[] = {
        "SELECT episode, count(*), sum(step), max(task), min(maybe) FROM t GROUP BY ALL ORDER BY 1",
        "SELECT task, count(*), sum(step) FROM t WHERE step > 700 GROUP BY task ORDER BY task",
        "SELECT maybe, episode, count(*) FROM t GROUP BY maybe, episode ORDER BY ALL",
    };
    char sql[256];
    (void)state;
    struct storage_store *store = open_store("runs");
    struct memory_source *first = memory_source_new(&plain, LONG_RUNS "FROM range(50000) r(i)", 1);
    struct memory_source *second =
        memory_source_new(&plain, LONG_RUNS "FROM range(50000, 100000) r(i)", 1);
    write_rows(store, first, false);
    write_rows(store, second, true);
    struct lance_dataset *dataset = open_dataset(store, 0);
    plain_run(&plain, "CREATE TABLE t AS " LONG_RUNS "FROM range(100000) r(i)");
    for (size_t i = 0; i < BASE_ARRAY_LEN(GROUPED); i++) {
        (void)snprintf(sql, sizeof(sql), "EXPLAIN %s", GROUPED[i]);
        char *plan = dataset_text(dataset, sql);
        assert_non_null(strstr(plan, "PARTITIONED_AGGREGATE"));
        char *expected = plain_text(&plain, GROUPED[i]);
        char *found = dataset_text(dataset, GROUPED[i]);
        assert_string_equal(found, expected);
        free(plan);
        free(expected);
        free(found);
    }
    char *plan = dataset_text(dataset, "EXPLAIN SELECT step, count(*) FROM t GROUP BY step");
    assert_null(strstr(plan, "PARTITIONED_AGGREGATE"));
    free(plan);
    plain_run(&plain, "DROP TABLE t");
    lance_dataset_unref(dataset);
    storage_store_unref(store);
    memory_source_free(first);
    memory_source_free(second);
}

/* SQL-3: a version read is the version that was bound, whatever came after. */
static void an_older_version_keeps_its_rows(void **state)
{
    (void)state;
    struct storage_store *store = open_store("versions");
    struct memory_source *rows = memory_source_new(&plain, "FROM range(10) r(id)", 1);
    write_rows(store, rows, false);
    struct lance_dataset *old = open_dataset(store, 0);
    write_rows(store, rows, true);
    struct lance_dataset *new_one = open_dataset(store, 0);
    char *text = dataset_text(old, "SELECT count(*), sum(id), count(id) FROM t");
    assert_string_equal(text, "10|45|10\n");
    free(text);
    text = dataset_text(new_one, "SELECT count(*), sum(id), count(id) FROM t");
    assert_string_equal(text, "20|90|20\n");
    free(text);
    lance_dataset_unref(old);
    lance_dataset_unref(new_one);
    storage_store_unref(store);
    memory_source_free(rows);
}

static void half_floats_are_read_as_floats(void **state)
{
    (void)state;
    struct storage_store *store = open_store("half");
    struct memory_source *rows =
        memory_source_new(&plain,
                          "SELECT i AS id, i::SMALLINT AS h, [i, i + 1]::SMALLINT[2] AS v "
                          "FROM range(3) r(i)",
                          1);
    /* the bits of 0.5, 1.0, 1.5 and 2.0 in the place of numbers */
    static const uint16_t BITS[] = {0x3800, 0x3c00, 0x3e00, 0x4000};
    uint16_t *leaf = (uint16_t *)rows->arrays[0].children[1]->buffers[1];
    uint16_t *items = (uint16_t *)rows->arrays[0].children[2]->children[0]->buffers[1];
    for (int i = 0; i < 3; i++) {
        leaf[i] = BITS[i];
        items[i * 2] = BITS[i];
        items[i * 2 + 1] = BITS[i + 1];
    }
    assert_int_equal(ArrowSchemaSetFormat(rows->schema.children[1], "e"), NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetFormat(rows->schema.children[2]->children[0], "e"),
                     NANOARROW_OK);
    write_rows(store, rows, false);
    struct lance_dataset *dataset = open_dataset(store, 0);
    char *text = dataset_text(dataset, "SELECT id, h, v, v[1] + h FROM t WHERE h >= 1");
    assert_string_equal(text, "1|1|<1,1.5>|2\n2|1.5|<1.5,2>|3\n");
    free(text);
    lance_dataset_unref(dataset);
    storage_store_unref(store);
    memory_source_free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statements_over_lance_answer_as_the_plain_engine_does),
        cmocka_unit_test(rows_that_lie_together_are_aggregated_run_by_run),
        cmocka_unit_test(an_older_version_keeps_its_rows),
        cmocka_unit_test(half_floats_are_read_as_floats),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
