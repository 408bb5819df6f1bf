/* Two tables in memory beside a plain DuckDB that holds the same, and statements over them. */
#ifndef FRAMES_FIXTURE_H
#define FRAMES_FIXTURE_H

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

#endif
