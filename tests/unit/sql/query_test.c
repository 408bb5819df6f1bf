/* Statements over tables in memory, against a plain DuckDB as the oracle. */
#include "frames_fixture.h"

static struct sql_query *prepare_over(struct memory_source *source, const char *sql)
{
    struct lake_error err = {0};
    struct sql_query *query = NULL;
    struct sql_source_table tables[] = {memory_table(source, "main", "t")};
    if (sql_query_prepare_sources(engine, base_str_of(sql), tables, 1, NULL, &query, &err) !=
        LAKE_OK) {
        fail_msg("%s: %s", sql, err.message);
    }
    return query;
}

static lake_status run_over(const char *sql, char **text, struct lake_error *err)
{
    struct sql_source_table tables[] = {memory_table(frames, "main", "frames"),
                                        memory_table(episodes, "main", "episodes")};
    return lake_text(engine, sql, tables, 2, text, err);
}

static void statements_answer_as_the_plain_engine_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_LEN(STATEMENTS); i++) {
        struct lake_error err = {0};
        char *found = NULL;
        char *expected = plain_text(&plain, STATEMENTS[i]);
        if (run_over(STATEMENTS[i], &found, &err) != LAKE_OK) {
            fail_msg("%s: %s", STATEMENTS[i], err.message);
        }
        if (strcmp(found, expected) != 0) {
            fail_msg("%s: expected\n%.500s\nfound\n%.500s", STATEMENTS[i], expected, found);
        }
        free(found);
        free(expected);
    }
}

/* SQL-4 */
static void only_needed_columns_are_asked_for(void **state)
{
    (void)state;
    char *text;
    struct lake_error err = {0};
    assert_int_equal(run_over("SELECT robot FROM frames", &text, &err), LAKE_OK);
    assert_int_equal(frames->column_count, 1);
    assert_int_equal(frames->columns[0], 5);
    free(text);
    assert_int_equal(run_over("SELECT max(reward) FROM frames WHERE episode = 5", &text, &err),
                     LAKE_OK);
    assert_int_equal(frames->column_count, 2); /* the source does not apply the filter itself */
    free(text);
}

static void counting_all_rows_reads_nothing(void **state)
{
    (void)state;
    char *text;
    struct lake_error err = {0};
    unsigned before = atomic_load(&frames->batches_read);
    assert_int_equal(run_over("SELECT count(*) FROM frames", &text, &err), LAKE_OK);
    assert_string_equal(text, "20000\n");
    assert_int_equal(atomic_load(&frames->batches_read), before);
    free(text);
    assert_int_equal(run_over("SELECT count(*) FROM frames, range(2)", &text, &err), LAKE_OK);
    assert_string_equal(text, "40000\n");
    assert_int_equal(frames->column_count, 0);
    free(text);
}

static void filters_reach_the_source(void **state)
{
    (void)state;
    char *text;
    struct lake_error err = {0};
    assert_int_equal(run_over("SELECT sum(id) FROM frames WHERE episode > 5 AND episode <= 7 AND "
                              "robot = 'robot 1'",
                              &text, &err),
                     LAKE_OK);
    free(text);
    bool lower = false;
    bool upper = false;
    bool equal = false;
    for (size_t i = 0; i < frames->filter_count; i++) {
        uint32_t column = frames->filter_columns[i];
        enum sql_filter_op op = frames->filter_ops[i];
        const struct sql_value *value = &frames->filter_values[i];
        lower |=
            column == 1 && op == SQL_FILTER_GT && value->kind == SQL_VALUE_INT64 && value->i64 == 5;
        upper |= column == 1 && op == SQL_FILTER_LE && value->i64 == 7;
        equal |= column == 5 && op == SQL_FILTER_EQ && value->kind == SQL_VALUE_BYTES;
    }
    assert_true(lower && upper && equal);

    assert_int_equal(run_over("SELECT sum(id) FROM frames WHERE state IS NULL", &text, &err),
                     LAKE_OK);
    free(text);
    assert_int_equal(frames->filter_count, 1);
    assert_int_equal(frames->filter_columns[0], 13);
    assert_int_equal(frames->filter_ops[0], SQL_FILTER_IS_NULL);

    /* what the build side of a join knows comes as a range */
    assert_int_equal(run_over("SELECT sum(id) FROM frames JOIN (SELECT episode FROM episodes WHERE "
                              "episode >= 190 AND success) USING (episode)",
                              &text, &err),
                     LAKE_OK);
    free(text);
    lower = false;
    for (size_t i = 0; i < frames->filter_count; i++) {
        lower |= frames->filter_columns[i] == 1 && frames->filter_ops[i] == SQL_FILTER_GE &&
                 frames->filter_values[i].i64 >= 190;
    }
    assert_true(lower);
}

static void a_filter_that_the_source_applies_is_not_read_for(void **state)
{
    (void)state;
    char *text;
    struct lake_error err = {0};
    frames->apply = true;
    assert_int_equal(run_over("SELECT robot FROM frames WHERE id = 777", &text, &err), LAKE_OK);
    assert_string_equal(text, "robot 10\n");
    assert_int_equal(frames->column_count, 1);
    assert_int_equal(frames->columns[0], 5);
    free(text);
    assert_int_equal(run_over("SELECT robot FROM frames WHERE id = 777 AND frame = 1", &text, &err),
                     LAKE_OK);
    assert_string_equal(text, "");
    free(text);
    frames->apply = false;
}

static void names_are_found_without_regard_to_case_and_by_default_schema(void **state)
{
    (void)state;
    struct sql_query_options options;
    struct lake_error err = {0};
    struct sql_query *query = NULL;
    struct base_buffer text;
    sql_query_options_init(&options);
    options.default_schema = "robots";
    const char *sql =
        "SELECT EPISODES.Episode, lake.robots.episodes.task FROM lake.Robots.Episodes "
        "WHERE episode = 3 UNION ALL SELECT episode, task FROM episodes WHERE "
        "episode = 4 ORDER BY 1";
    struct sql_source_table table = memory_table(episodes, "robots", "episodes");
    assert_int_equal(
        sql_query_prepare_sources(engine, base_str_of(sql), &table, 1, &options, &query, &err),
        LAKE_OK);
    assert_int_equal(query_text(query, &text, &err), LAKE_OK);
    char *rows = take_text(&text);
    assert_string_equal(rows, "3|task 3\n4|task 0\n");
    free(rows);
    sql_query_free(query);
}

static void a_version_is_its_own_table(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct memory_source *old = memory_source_new(&plain, "SELECT 1::BIGINT AS i", 1);
    struct memory_source *new_one = memory_source_new(&plain, "FROM range(2, 4) r(i)", 1);
    struct sql_source_table tables[] = {memory_table(old, "main", "t"),
                                        memory_table(new_one, "main", "t")};
    tables[0].at_version = 7;
    char *text = NULL;
    assert_string_equal(err.message, "");
    assert_int_equal(lake_text(engine,
                               "SELECT (SELECT sum(i) FROM t), (SELECT sum(i) FROM t AT "
                               "(VERSION => 7)), (SELECT count(*) FROM t a AT (VERSION => 7))",
                               tables, 2, &text, &err),
                     LAKE_OK);
    assert_string_equal(text, "5|1|1\n");
    free(text);
    struct sql_source_table one[] = {memory_table(old, "main", "t")};
    assert_int_equal(lake_text(engine, "FROM t AT (VERSION => 8)", one, 1, &text, &err),
                     LAKE_NOT_FOUND);
    memory_source_free(old);
    memory_source_free(new_one);
}

static void a_wrong_name_is_told_without_telling_others(void **state)
{
    (void)state;
    struct lake_error err = {0};
    char *text = NULL;
    assert_int_equal(run_over("SELECT * FROM frame", &text, &err), LAKE_NOT_FOUND);
    assert_string_equal(err.message, "table frame does not exist");
    memset(&err, 0, sizeof(err));
    assert_int_equal(run_over("SELECT * FROM other.ns.frames", &text, &err), LAKE_NOT_FOUND);
    memset(&err, 0, sizeof(err));
    assert_int_equal(run_over("SELECT rewards FROM frames", &text, &err), LAKE_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "reward"));
    assert_null(strstr(err.message, "task"));
    memset(&err, 0, sizeof(err));
    assert_int_equal(run_over("SELECT 1 / 'x'::INT FROM frames", &text, &err),
                     LAKE_INVALID_ARGUMENT);
    memset(&err, 0, sizeof(err));
    assert_int_equal(run_over("SELECT nothing(1)", &text, &err), LAKE_PERMISSION_DENIED);
}

static void the_schema_is_known_before_anything_runs(void **state)
{
    (void)state;
    unsigned before = atomic_load(&frames->batches_read);
    struct sql_query *query =
        prepare_over(frames, "SELECT id, robot AS name, price, pose, state, count(*) OVER () n "
                             "FROM t WHERE id < 0");
    const struct ArrowSchema *schema = sql_query_schema(query);
    static const char *const FORMATS[] = {"l", "u", "d:9,2", "+w:3", "+s", "l"};
    static const char *const NAMES[] = {"id", "name", "price", "pose", "state", "n"};
    assert_int_equal(schema->n_children, 6);
    for (int i = 0; i < 6; i++) {
        assert_string_equal(schema->children[i]->format, FORMATS[i]);
        assert_string_equal(schema->children[i]->name, NAMES[i]);
    }
    assert_int_equal(atomic_load(&frames->batches_read), before);
    struct ArrowArray batch = {0};
    struct lake_error err = {0};
    bool end = false;
    assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_OK);
    assert_true(end);
    assert_null(batch.release);
    assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_OK);
    assert_true(end);
    sql_query_free(query);
}

/* Q07 */
static void case_Q07_timestamps_keep_their_unit_and_zone(void **state)
{
    (void)state;
    struct memory_source *source = memory_source_new(
        &plain,
        "SELECT TIMESTAMP_S '1960-02-29 12:34:56' AS s, TIMESTAMP_MS '1960-02-29 12:34:56.789' AS "
        "ms, TIMESTAMP '1960-02-29 12:34:56.789012' AS us, TIMESTAMP_NS "
        "'1960-02-29 12:34:56.789012345' AS ns, TIMESTAMPTZ '1960-02-29 12:34:56.789012+00' AS tz "
        "UNION ALL SELECT NULL, NULL, NULL, NULL, NULL",
        1);
    struct sql_query *query = prepare_over(
        source, "SELECT s, ms, us, ns, tz FROM t WHERE ns = TIMESTAMP_NS "
                "'1960-02-29 12:34:56.789012345' AND s < TIMESTAMP_S '1960-02-29 12:34:57' AND "
                "tz = TIMESTAMPTZ '1960-02-29 14:34:56.789012+02'");
    static const char *const FORMATS[] = {"tss:", "tsm:", "tsu:", "tsn:", "tsu:UTC"};
    static const int64_t VALUES[] = {-310476304, -310476303211, -310476303210988,
                                     -310476303210987655, -310476303210988};
    struct ArrowArray batch = {0};
    struct lake_error err = {0};
    bool end = false;
    assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_OK);
    assert_false(end);
    assert_int_equal(batch.length, 1);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(sql_query_schema(query)->children[i]->format, FORMATS[i]);
        assert_true(((const int64_t *)batch.children[i]->buffers[1])[0] == VALUES[i]);
    }
    batch.release(&batch);
    sql_query_free(query);
    memory_source_free(source);
}

/* NAT-3 */
static void file_columns_keep_their_mark_until_something_is_computed(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct memory_source *source = memory_source_new(
        &plain,
        "SELECT 1::BIGINT AS id, {'uri': 'u', 'media_type': 'video/mp4', 'size_bytes': 5::BIGINT, "
        "'sha256': 'ab'} AS video",
        1);
    source->schema.children[1]->release(source->schema.children[1]);
    assert_int_equal(arrow_file_schema_init(source->schema.children[1], "video", true, &err),
                     LAKE_OK);
    struct sql_query *query = prepare_over(
        source, "WITH c AS (SELECT video AS v, id FROM t ORDER BY id LIMIT 5) SELECT v, v.uri, "
                "[v], struct_pack(uri := v.uri, media_type := v.media_type, size_bytes := "
                "v.size_bytes, sha256 := v.sha256), (SELECT max(video) FROM t) FROM c "
                "WHERE v IS NOT NULL");
    const struct ArrowSchema *schema = sql_query_schema(query);
    assert_true(arrow_file_schema_is(schema->children[0]));
    assert_string_equal(schema->children[0]->name, "v");
    assert_false(arrow_file_schema_is(schema->children[1]));
    assert_true(arrow_file_schema_is(schema->children[2]->children[0]));
    assert_false(arrow_file_schema_is(schema->children[3]));
    struct base_buffer text;
    assert_int_equal(query_text(query, &text, &err), LAKE_OK);
    char *rows = take_text(&text);
    assert_string_equal(rows, "{u,video/mp4,5,ab}|u|[{u,video/mp4,5,ab};]|{u,video/mp4,5,ab}|"
                              "{u,video/mp4,5,ab}\n");
    free(rows);
    sql_query_free(query);
    memory_source_free(source);
}

static int64_t string_bytes(const struct ArrowArray *column)
{
    const int32_t *offsets = column->buffers[1];
    return offsets[column->offset + column->length] - offsets[column->offset];
}

/* Q05, with a limit that a test can afford. */
static void case_Q05_batches_are_bounded_by_rows_and_bytes(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct sql_query_options options;
    struct sql_query *query = NULL;
    sql_query_options_init(&options);
    options.batch_rows = 3000;
    options.batch_bytes = 1 << 20;
    const char *sql = "SELECT i, repeat('x', 1000 + (i % 5) * 300) AS s FROM range(10000) r(i)";
    assert_int_equal(
        sql_query_prepare_sources(engine, base_str_of(sql), NULL, 0, &options, &query, &err),
        LAKE_OK);
    int64_t rows = 0;
    for (;;) {
        struct ArrowArray batch = {0};
        bool end = false;
        assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_OK);
        if (end) {
            break;
        }
        assert_true(batch.length <= 3000 && (batch.length > 500 || rows + batch.length == 10000));
        assert_true(string_bytes(batch.children[1]) <= 1 << 20);
        assert_int_equal(((const int64_t *)batch.children[0]->buffers[1])[0], rows);
        rows += batch.length;
        batch.release(&batch);
    }
    assert_int_equal(rows, 10000);
    sql_query_free(query);

    sql = "SELECT i FROM range(10000) r(i)";
    assert_int_equal(
        sql_query_prepare_sources(engine, base_str_of(sql), NULL, 0, &options, &query, &err),
        LAKE_OK);
    struct ArrowArray batch = {0};
    bool end = false;
    assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_OK);
    assert_int_equal(batch.length, 3000);
    batch.release(&batch);
    sql_query_free(query);
}

static void strings_past_the_offset_limit_split_the_batch_or_fail_by_name(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct sql_query_options options;
    struct sql_query *query = NULL;
    struct ArrowArray batch = {0};
    bool end = false;
    sql_query_options_init(&options);
    options.batch_bytes = 1 << 30;
    const char *sql = "SELECT repeat('x', 700) AS s, [repeat('y', 30)] AS l FROM range(3)";
    assert_int_equal(
        sql_query_prepare_sources(engine, base_str_of(sql), NULL, 0, &options, &query, &err),
        LAKE_OK);
    sql_query_set_offset_limit(query, 1600);
    assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_OK);
    assert_int_equal(batch.length, 2);
    batch.release(&batch);
    assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_OK);
    assert_int_equal(batch.length, 1);
    batch.release(&batch);
    assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_OK);
    assert_true(end);
    sql_query_free(query);

    assert_int_equal(
        sql_query_prepare_sources(engine, base_str_of(sql), NULL, 0, &options, &query, &err),
        LAKE_OK);
    sql_query_set_offset_limit(query, 600);
    assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.message, "one row"));
    sql_query_free(query);
}

/* Q06 */
static void long_lists_of_nulls_count_towards_the_bytes(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct sql_query_options options;
    struct sql_query *query = NULL;
    struct ArrowArray batch = {0};
    bool end = false;
    sql_query_options_init(&options);
    options.batch_bytes = 100000;
    const char *sql = "SELECT list_transform(range(60000), x -> NULL::BOOLEAN) AS l FROM range(4)";
    assert_int_equal(
        sql_query_prepare_sources(engine, base_str_of(sql), NULL, 0, &options, &query, &err),
        LAKE_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_OK);
        assert_int_equal(batch.length, 1);
        batch.release(&batch);
    }
    sql_query_free(query);
}

static void an_error_of_the_scan_keeps_its_status(void **state)
{
    (void)state;
    static const lake_status STATUSES[] = {LAKE_DATA_LOSS, LAKE_NOT_FOUND, LAKE_UNAVAILABLE,
                                           LAKE_UNIMPLEMENTED, LAKE_RESOURCE_EXHAUSTED};
    for (size_t i = 0; i < BASE_ARRAY_LEN(STATUSES); i++) {
        struct lake_error err = {0};
        char *text = NULL;
        frames->fail = STATUSES[i];
        frames->fail_at = atomic_load(&frames->batches_read) + 4;
        assert_int_equal(run_over("SELECT sum(id) FROM frames", &text, &err), STATUSES[i]);
        assert_non_null(strstr(err.message, "is broken"));
        frames->fail_at = atomic_load(&frames->batches_read) + 1;
        assert_int_equal(run_over("SELECT id FROM frames", &text, &err), STATUSES[i]);
        frames->fail = LAKE_OK;
    }
    char *text = NULL;
    struct lake_error err = {0};
    assert_int_equal(run_over("SELECT count(id) FROM frames", &text, &err), LAKE_OK);
    free(text);
}

/* The engine interrupts all its threads when one fails; which of the two this side sees first is a
 * matter of luck, so it is tried often. */
static void a_failure_on_an_engine_thread_is_told_as_it_was(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        char *text = NULL;
        struct lake_error err = {0};
        lake_status status = run_over("SELECT (CASE WHEN i = 299999 THEN 'x' ELSE i::VARCHAR END)"
                                      "::INTEGER FROM range(300000) t(i)",
                                      &text, &err);
        assert_int_equal(status, LAKE_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "'x'"));
    }
}

static void running_out_of_memory_fails_cleanly(void **state)
{
    (void)state;
    struct sql_engine_options options;
    struct sql_engine *small = NULL;
    struct lake_error err = {0};
    char *text = NULL;
    sql_engine_options_init(&options);
    options.threads = 2;
    options.memory_limit_bytes = 32 << 20;
    assert_int_equal(sql_engine_open(&options, &small, &err), LAKE_OK);
    assert_int_equal(lake_text(small,
                               "SELECT count(*) FROM (SELECT DISTINCT i, repeat('x', 40) || "
                               "i FROM range(3000000) r(i))",
                               NULL, 0, &text, &err),
                     LAKE_RESOURCE_EXHAUSTED);
    assert_int_equal(lake_text(small, "SELECT 42", NULL, 0, &text, &err), LAKE_OK);
    assert_string_equal(text, "42\n");
    free(text);
    sql_engine_free(small);
}

static long resident_bytes(void)
{
    long total = 0;
    long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &total, &resident), 2);
    assert_int_equal(fclose(file), 0);
    return resident * 4096;
}

/* SQL-9 */
static void memory_does_not_grow_with_the_result(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct sql_query *query = NULL;
    const char *sql = "SELECT i, repeat('x', 100) AS s FROM range(5000000) r(i)";
    assert_int_equal(
        sql_query_prepare_sources(engine, base_str_of(sql), NULL, 0, NULL, &query, &err), LAKE_OK);
    int64_t rows = 0;
    long before = 0;
    for (;;) {
        struct ArrowArray batch = {0};
        bool end = false;
        assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_OK);
        if (end) {
            break;
        }
        rows += batch.length;
        batch.release(&batch);
        if (before == 0) {
            before = resident_bytes();
        }
    }
    assert_int_equal(rows, 5000000);
#ifdef LAKE_SANITIZED
    const long allowed = 400L << 20; /* freed memory waits in the sanitizer's quarantine */
#else
    const long allowed = 100L << 20;
#endif
    assert_true(resident_bytes() - before < allowed); /* the result is 580 MB */
    sql_query_free(query);
}

static void explain_shows_the_pushed_filter(void **state)
{
    (void)state;
    struct lake_error err = {0};
    char *text = NULL;
    assert_int_equal(run_over("EXPLAIN SELECT robot FROM frames WHERE episode = 5", &text, &err),
                     LAKE_OK);
    assert_non_null(strstr(text, "main.frames"));
    assert_non_null(strstr(text, "episode=5"));
    free(text);
    assert_int_equal(run_over("EXPLAIN ANALYZE SELECT sum(id) FROM frames", &text, &err), LAKE_OK);
    assert_non_null(strstr(text, "20,000"));
    free(text);
}

static void sources_are_released_on_every_path(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct sql_query *query = NULL;
    struct ArrowArray batch = {0};
    bool end = false;
    static const char *const FAILING[] = {"SELEC", "SELECT * FROM nothing", "SELECT nothing FROM t",
                                          "DROP TABLE t", ""};
    for (size_t i = 0; i < BASE_ARRAY_LEN(FAILING); i++) {
        struct sql_source_table tables[] = {memory_table(frames, "main", "t"),
                                            memory_table(frames, "main", "u")};
        assert_int_not_equal(sql_query_prepare_sources(engine, base_str_of(FAILING[i]), tables, 2,
                                                       NULL, &query, &err),
                             LAKE_OK);
        assert_int_equal(atomic_load(&frames->references), 0);
    }
    query = prepare_over(frames, "SELECT * FROM t");
    assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_OK);
    sql_query_free(query); /* in the middle of its result */
    assert_int_equal(atomic_load(&frames->references), 0);
    assert_int_equal(atomic_load(&frames->open_scans), 0);
    assert_int_equal(batch.length, batch.children[0]->length); /* outlives the query */
    batch.release(&batch);
    query = prepare_over(frames, "SELECT * FROM t");
    sql_query_free(query); /* never started */
    assert_int_equal(atomic_load(&frames->references), 0);
    sql_query_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statements_answer_as_the_plain_engine_does),
        cmocka_unit_test(only_needed_columns_are_asked_for),
        cmocka_unit_test(counting_all_rows_reads_nothing),
        cmocka_unit_test(filters_reach_the_source),
        cmocka_unit_test(a_filter_that_the_source_applies_is_not_read_for),
        cmocka_unit_test(names_are_found_without_regard_to_case_and_by_default_schema),
        cmocka_unit_test(a_version_is_its_own_table),
        cmocka_unit_test(a_wrong_name_is_told_without_telling_others),
        cmocka_unit_test(the_schema_is_known_before_anything_runs),
        cmocka_unit_test(case_Q07_timestamps_keep_their_unit_and_zone),
        cmocka_unit_test(file_columns_keep_their_mark_until_something_is_computed),
        cmocka_unit_test(case_Q05_batches_are_bounded_by_rows_and_bytes),
        cmocka_unit_test(strings_past_the_offset_limit_split_the_batch_or_fail_by_name),
        cmocka_unit_test(long_lists_of_nulls_count_towards_the_bytes),
        cmocka_unit_test(an_error_of_the_scan_keeps_its_status),
        cmocka_unit_test(a_failure_on_an_engine_thread_is_told_as_it_was),
        cmocka_unit_test(running_out_of_memory_fails_cleanly),
        cmocka_unit_test(memory_does_not_grow_with_the_result),
        cmocka_unit_test(explain_shows_the_pushed_filter),
        cmocka_unit_test(sources_are_released_on_every_path),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
