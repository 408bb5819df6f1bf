/* Statements over tables in memory, against a plain DuckDB as the oracle. */
#include "memory_source.h"

static struct sql_engine *engine;
static struct plain_engine plain;
static struct memory_source *frames;
static struct memory_source *episodes;

#define FRAMES                                                                                    \
    "SELECT i AS id, (i // 100)::INTEGER AS episode, (i % 100)::SMALLINT AS frame, "              \
    "i / 7.0::DOUBLE AS reward, (i * 37 % 1000)::FLOAT AS force, "                                \
    "CASE WHEN i % 11 = 0 THEN NULL ELSE 'robot ' || (i % 13) END AS robot, "                     \
    "CASE WHEN i % 5 = 0 THEN NULL ELSE i % 2 = 0 END AS grasped, "                               \
    "DATE '1969-12-25' + (i % 20)::INTEGER AS day, "                                              \
    "TIMESTAMP '1969-12-31 23:59:00' + to_milliseconds(i * 33) AS ts, "                           \
    "(i % 1000 / 4)::DECIMAL(9, 2) AS price, encode('b' || i % 3) AS raw, "                       \
    "[i, i + 1, NULL] AS around, [i, i * 2, i * 3]::BIGINT[3] AS pose, "                          \
    "CASE WHEN i % 3 = 0 THEN NULL ELSE {'x': i, 'y': 'p' || i % 4} END AS state, "               \
    "CASE WHEN i % 17 = 0 THEN 'nan'::DOUBLE ELSE i % 10 END AS noisy, (i * 1000)::UBIGINT AS u " \
    "FROM range(20000) r(i)"
#define EPISODES                                                                      \
    "SELECT e::INTEGER AS episode, 'task ' || (e % 4) AS task, e % 3 = 0 AS success " \
    "FROM range(200) r(e)"

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
    plain_run(&plain, "CREATE TABLE frames AS " FRAMES);
    plain_run(&plain, "CREATE TABLE episodes AS " EPISODES);
    frames = memory_source_new(&plain, "FROM frames", 2);
    episodes = memory_source_new(&plain, "FROM episodes", 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    memory_source_free(frames);
    memory_source_free(episodes);
    sql_engine_free(engine);
    plain_close(&plain);
    return 0;
}

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

static const char *const STATEMENTS[] = {
    /* order of rows as stored, over four threads */
    "SELECT id FROM frames",
    "SELECT id, robot FROM frames WHERE robot = 'robot 5'",
    "SELECT * FROM frames LIMIT 5000 OFFSET 3000",

    /* every type comes back */
    "SELECT id, episode, frame, reward, force, robot, grasped, day, ts, price, raw, around, pose, "
    "state, noisy, u FROM frames",

    /* filters: each comparison, each type, nulls, ranges, IN, prefixes, NaN, several columns */
    "SELECT id FROM frames WHERE id = 777",
    "SELECT id FROM frames WHERE id <> 777 AND id < 1000",
    "SELECT id FROM frames WHERE id >= 19990 OR id <= 10",
    "SELECT count(*) FROM frames WHERE episode BETWEEN 17 AND 42",
    "SELECT id FROM frames WHERE frame = 5 AND episode > 190",
    "SELECT count(*), sum(id) FROM frames WHERE reward > 1000.5",
    "SELECT count(*) FROM frames WHERE force <= 12.5",
    "SELECT count(*) FROM frames WHERE robot > 'robot 3'",
    "SELECT count(*) FROM frames WHERE robot LIKE 'robot 1%'",
    "SELECT count(*) FROM frames WHERE robot IN ('robot 1', 'robot 12', 'none')",
    "SELECT count(*) FROM frames WHERE id IN (1, 5, 777, 19999, 50000)",
    "SELECT count(*) FROM frames WHERE robot IS NULL",
    "SELECT count(*) FROM frames WHERE robot IS NOT NULL AND grasped IS NULL",
    "SELECT count(*) FROM frames WHERE grasped",
    "SELECT count(*) FROM frames WHERE NOT grasped",
    "SELECT count(*) FROM frames WHERE day = DATE '1970-01-01'",
    "SELECT count(*) FROM frames WHERE day < DATE '1970-01-01'",
    "SELECT count(*) FROM frames WHERE ts >= TIMESTAMP '1970-01-01 00:00:30.5'",
    "SELECT count(*) FROM frames WHERE price = 12.25",
    "SELECT count(*) FROM frames WHERE price > 100",
    "SELECT count(*) FROM frames WHERE raw = encode('b1')",
    "SELECT count(*) FROM frames WHERE noisy > 5",
    "SELECT count(*) FROM frames WHERE noisy >= 'nan'::DOUBLE",
    "SELECT count(*) FROM frames WHERE noisy = 'nan'::DOUBLE",
    "SELECT count(*) FROM frames WHERE noisy < 5",
    "SELECT count(*) FROM frames WHERE u > 15000000",
    "SELECT count(*) FROM frames WHERE state.x = 1000",
    "SELECT count(*) FROM frames WHERE state.y = 'p1' AND state.x > 500",
    "SELECT count(*) FROM frames WHERE state IS NULL",
    "SELECT id, state FROM frames WHERE state IS NULL AND id < 20",
    "SELECT id, state FROM frames WHERE id < 20",
    "SELECT count(*) FROM frames WHERE (id = 5 AND episode = 0) OR robot = 'robot 2'",
    "SELECT count(*) FROM frames WHERE id % 7 = 3 AND id > 100",
    "SELECT count(*) FROM frames WHERE id > 100 AND false",
    "SELECT robot FROM frames WHERE id > 100 AND id < 110", /* the filter's column is dropped */

    /* aggregates, joins, windows, sets */
    "SELECT count(*) FROM frames",
    "SELECT count(*), count(robot), min(id), max(id), sum(id) FROM frames",
    "SELECT episode, count(*), max(reward) FROM frames GROUP BY episode ORDER BY episode",
    "SELECT task, count(*), sum(id) FROM frames JOIN episodes USING (episode) WHERE success "
    "GROUP BY task ORDER BY task",
    "SELECT f.id, e.task FROM frames f JOIN episodes e ON f.episode = e.episode "
    "WHERE e.episode = 150 ORDER BY f.id",
    "SELECT count(*) FROM frames f LEFT JOIN (FROM episodes WHERE success) e USING (episode) "
    "WHERE e.task IS NULL",
    "SELECT a.id, b.id FROM frames a JOIN frames b ON a.id = b.id * 2 WHERE b.id > 9990 "
    "ORDER BY 1",
    "SELECT id, reward - lag(reward) OVER (PARTITION BY episode ORDER BY frame) AS step "
    "FROM frames WHERE episode IN (3, 5) ORDER BY id",
    "SELECT id FROM frames QUALIFY row_number() OVER (PARTITION BY episode ORDER BY id DESC) = 1 "
    "ORDER BY id",
    "SELECT id, reward FROM frames ORDER BY force DESC, id LIMIT 10", /* a top-n's own filter */
    "SELECT id FROM frames ORDER BY id DESC LIMIT 3",
    "SELECT id FROM frames WHERE id < 5 UNION ALL SELECT episode FROM episodes WHERE episode < 3 "
    "ORDER BY 1",
    "WITH frames AS (SELECT * FROM frames WHERE id < 10) SELECT sum(id) FROM frames",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 10) "
    "SELECT sum(n), (SELECT count(*) FROM episodes) FROM r",
    "SELECT id, (SELECT task FROM episodes e WHERE e.episode = f.episode) FROM frames f "
    "WHERE id % 1000 = 0 ORDER BY id",
    "SELECT e.episode, l.top FROM episodes e, LATERAL (SELECT max(reward) AS top FROM frames f "
    "WHERE f.episode = e.episode) l WHERE e.episode < 5 ORDER BY 1",
    "SELECT * FROM (PIVOT (SELECT episode % 2 AS odd, grasped, id FROM frames) "
    "ON grasped IN (true, false) USING count(id)) ORDER BY odd",
    "SELECT list_sum(list_transform(around, x -> coalesce(x, 0) + 1)) FROM frames WHERE id < 10",
    "SELECT sum(p) FROM (SELECT unnest(pose) AS p FROM frames)",
    "SELECT frames.id, main.frames.robot FROM main.frames WHERE main.frames.id = 3",
    "SELECT column_name, count FROM (SUMMARIZE episodes)",
    "SELECT column_name, column_type FROM (DESCRIBE frames)",
    "SELECT a.id FROM frames a POSITIONAL JOIN (SELECT id FROM frames) b WHERE a.id <> b.id",
    "SELECT count(*) FROM frames a ASOF JOIN episodes b ON a.id >= b.episode",
    "SELECT DISTINCT robot FROM frames ORDER BY robot",
    "SELECT max(ts), min(day), max(price) FROM frames",
    "SELECT timezone('Europe/Berlin', ts::TIMESTAMPTZ) FROM frames WHERE id = 5",
    "SELECT regexp_extract(robot, '[0-9]+'), strftime(ts, '%Y'), date_trunc('minute', ts), "
    "extract(epoch FROM ts), ts + INTERVAL 1 DAY, position('o' IN robot), trim(robot) "
    "FROM frames WHERE id = 1",
    "SELECT robot SIMILAR TO 'robot [0-9]', robot NOT LIKE '%9', robot ILIKE 'ROBOT%', "
    "robot[1:3], around[1], state['y'], {'a': 1}.a, MAP {'k': 2}['k'], -id, +id, ~id, 2 ** 3, "
    "5 // 2, 'a' || 'b', 4!, id IS DISTINCT FROM 3, CASE id WHEN 1 THEN 2 END, "
    "nullif(id, 1), ifnull(robot, ''), if(true, 1, 2), '{\"a\": [1]}'::JSON -> 'a' ->> 0, "
    "row(1, 'x'), array_agg(id) OVER (), list_contains(around, 1), [x * 2 FOR x IN pose] "
    "FROM frames WHERE id = 1",
    "SELECT * FROM range(3) JOIN generate_series(1, 2) g ON true",
    "SELECT * FROM json_each('{\"a\": 1}')",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id), quantile_cont(id, 0.9), "
    "mode(frame // 99), "
    "round(stddev(id), 6), string_agg(DISTINCT robot, ',' ORDER BY robot) FROM frames",
    "SELECT grouping(episode), count(*) FROM frames WHERE episode < 2 GROUP BY ROLLUP (episode) "
    "ORDER BY 1, 2",
};

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
        "SELECT * FROM range(current_date::TIMESTAMP - INTERVAL 2 DAY, today()::TIMESTAMP, "
        "INTERVAL 1 DAY)",
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
        cmocka_unit_test(a_plan_answers_the_same_each_time_it_runs),
        cmocka_unit_test(a_plan_whose_rows_change_with_time_is_not_run_again),
        cmocka_unit_test(a_run_that_did_not_end_is_not_followed_by_another),
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
        cmocka_unit_test(running_out_of_memory_fails_cleanly),
        cmocka_unit_test(memory_does_not_grow_with_the_result),
        cmocka_unit_test(explain_shows_the_pushed_filter),
        cmocka_unit_test(sources_are_released_on_every_path),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
