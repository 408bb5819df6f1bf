/* labels: concurrent */
/* Many statements at once, and statements that are stopped (Q09, F10, SQL-3). */
#include "memory_source.h"

#include <pthread.h>

#define THREADS 8

static struct sql_engine *engine;
static struct plain_engine plain;

static int setup(void **state)
{
    (void)state;
    struct sql_engine_options options;
    struct lake_error err = {0};
    sql_engine_options_init(&options);
    options.threads = 2;
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

/* cmocka's assertions jump, so threads count what is wrong instead. */
struct worker {
    pthread_t thread;
    unsigned number;
    struct memory_source *source;
    struct sql_query *query;
    int64_t after_us;
    unsigned wrong;
    char message[256];
};

static void note(struct worker *worker, const char *what, const struct lake_error *err)
{
    worker->wrong++;
    (void)snprintf(worker->message, sizeof(worker->message), "%s: %.150s", what, err->message);
}

static void run_workers(struct worker *workers, void *(*body)(void *))
{
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].number = i;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, body, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        if (workers[i].wrong != 0) {
            fail_msg("thread %u: %u wrong, last %s", i, workers[i].wrong, workers[i].message);
        }
    }
}

/* Runs to the end without looking at the rows. */
static lake_status drain(struct sql_query *query, int64_t *rows, struct lake_error *err)
{
    *rows = 0;
    for (;;) {
        struct ArrowArray batch = {0};
        bool end = false;
        lake_status status = sql_query_next(query, &batch, &end, err);
        if (status != LAKE_OK || end) {
            return status;
        }
        *rows += batch.length;
        batch.release(&batch);
    }
}

static void *failing_and_empty(void *context)
{
    struct worker *worker = context;
    static const struct {
        const char *sql;
        lake_status status;
    } STATEMENTS[] = {
        {"SELECT * FROM t WHERE i < 0", LAKE_OK},
        {"SELEC 1", LAKE_INVALID_ARGUMENT},
        {"SELECT * FROM missing", LAKE_NOT_FOUND},
        {"SELECT missing FROM t", LAKE_INVALID_ARGUMENT},
        {"SELECT error('wrong ' || i) FROM t", LAKE_INVALID_ARGUMENT},
        {"DROP TABLE t", LAKE_INVALID_ARGUMENT},
        {"SELECT * FROM read_csv('x')", LAKE_PERMISSION_DENIED},
        {"SELECT s FROM t WHERE false", LAKE_OK},
        {"SELECT i FROM t LIMIT 0", LAKE_OK},
        {"SELECT CAST(s AS INTEGER) FROM t", LAKE_INVALID_ARGUMENT},
    };
    for (unsigned i = 0; i < 130; i++) {
        struct lake_error err = {0};
        struct sql_query *query = NULL;
        int64_t rows = 0;
        const char *sql = STATEMENTS[i % BASE_ARRAY_LEN(STATEMENTS)].sql;
        struct sql_source_table table = memory_table(worker->source, "main", "t");
        lake_status status =
            sql_query_prepare_sources(engine, base_str_of(sql), &table, 1, NULL, &query, &err);
        if (status == LAKE_OK) {
            status = drain(query, &rows, &err);
        }
        if (status != STATEMENTS[i % BASE_ARRAY_LEN(STATEMENTS)].status || rows != 0) {
            note(worker, sql, &err);
        }
        sql_query_free(query);
    }
    return NULL;
}

static void case_Q09_a_thousand_failing_and_empty_statements_leave_nothing_behind(void **state)
{
    (void)state;
    struct worker workers[THREADS] = {0};
    struct memory_source *source =
        memory_source_new(&plain, "SELECT i, 'x' || i AS s FROM range(5000) r(i)", 1);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].source = source;
    }
    run_workers(workers, failing_and_empty);
    memory_source_free(source); /* asserts that every reference, scan and task is gone */
}

static void *own_tables(void *context)
{
    struct worker *worker = context;
    for (int i = 0; i < 50; i++) {
        struct lake_error err = {0};
        char *text = NULL;
        char expected[32];
        struct sql_source_table table = memory_table(worker->source, "main", "t");
        (void)snprintf(expected, sizeof(expected), "%u|%u|5000\n", worker->number, worker->number);
        if (lake_text(engine, "SELECT min(who), max(who), count(who) FROM t", &table, 1, &text,
                      &err) != LAKE_OK ||
            strcmp(text, expected) != 0) {
            note(worker, "own table", &err);
        }
        free(text);
    }
    return NULL;
}

/* SQL-3: the same name in two statements at the same time is two tables. */
static void statements_see_their_own_tables_only(void **state)
{
    (void)state;
    struct worker workers[THREADS] = {0};
    for (unsigned i = 0; i < THREADS; i++) {
        char sql[96];
        (void)snprintf(sql, sizeof(sql), "SELECT %u::BIGINT AS who FROM range(5000)", i);
        workers[i].source = memory_source_new(&plain, sql, 1);
    }
    run_workers(workers, own_tables);
    for (unsigned i = 0; i < THREADS; i++) {
        memory_source_free(workers[i].source);
    }
}

static void *interrupt_later(void *context)
{
    struct worker *worker = context;
    base_sleep_ms(worker->after_us / 1000);
    worker->after_us = base_clock_monotonic_us();
    sql_query_interrupt(worker->query);
    return NULL;
}

/* The time from the interrupt to the statement's end, in microseconds. */
static int64_t interrupted_after(struct memory_source *source, const char *sql, int64_t wait_ms)
{
    struct lake_error err = {0};
    struct worker worker = {.after_us = wait_ms * 1000};
    int64_t rows;
    struct sql_source_table table;
    if (source != NULL) {
        table = memory_table(source, "main", "t");
    }
    assert_int_equal(sql_query_prepare_sources(engine, base_str_of(sql), &table,
                                               source == NULL ? 0 : 1, NULL, &worker.query, &err),
                     LAKE_OK);
    assert_int_equal(pthread_create(&worker.thread, NULL, interrupt_later, &worker), 0);
    lake_status status = drain(worker.query, &rows, &err);
    int64_t ended = base_clock_monotonic_us();
    assert_int_equal(pthread_join(worker.thread, NULL), 0);
    assert_int_equal(status, LAKE_CANCELLED);
    assert_int_equal(drain(worker.query, &rows, &err), LAKE_CANCELLED); /* it stays so */
    sql_query_free(worker.query);
    return ended - worker.after_us;
}

/* F10. The bound is loose for a loaded machine; the usual time is printed. */
static void case_F10_an_interrupt_ends_a_statement_at_once(void **state)
{
    (void)state;
    static const char *const STATEMENTS[] = {
        "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range + b.range = 3",
        "SELECT a.range FROM range(100000000000) a",
        "SELECT max(md5(a.range::VARCHAR)) FROM range(100000000000) a",
        "SELECT * FROM range(100000000) a ORDER BY hash(a.range)",
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i FROM r) SELECT max(i) FROM r",
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(STATEMENTS); i++) {
        int64_t took_us = interrupted_after(NULL, STATEMENTS[i], 30);
        print_message("%lld us: %s\n", (long long)took_us, STATEMENTS[i]);
        assert_true(took_us < 1000000);
    }
}

static void an_interrupt_stops_the_scan_too(void **state)
{
    (void)state;
    struct memory_source *source = memory_source_new(&plain, "SELECT * FROM range(8192) r(i)", 1);
    source->endless = true;
    source->delay_us = 300000; /* polls its stop flag every millisecond */
    int64_t took_us = interrupted_after(source, "SELECT sum(i) FROM t", 30);
    print_message("%lld us: a scan that waits\n", (long long)took_us);
    assert_true(took_us < 200000);
    source->delay_us = 0;
    took_us = interrupted_after(source, "SELECT sum(i) FROM t", 30);
    print_message("%lld us: a scan that never ends\n", (long long)took_us);
    assert_true(took_us < 1000000);
    took_us = interrupted_after(source, "SELECT sum(i) FROM t WHERE i % 8192 = 8192", 30);
    assert_true(took_us < 1000000);
    memory_source_free(source);
}

static void an_interrupt_before_or_between_batches_counts(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct sql_query *query = NULL;
    struct ArrowArray batch = {0};
    bool end = false;
    const char *sql = "SELECT range FROM range(10000000)";
    assert_int_equal(
        sql_query_prepare_sources(engine, base_str_of(sql), NULL, 0, NULL, &query, &err), LAKE_OK);
    sql_query_interrupt(query);
    sql_query_interrupt(query);
    assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_CANCELLED);
    sql_query_free(query);

    assert_int_equal(
        sql_query_prepare_sources(engine, base_str_of(sql), NULL, 0, NULL, &query, &err), LAKE_OK);
    assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_OK);
    batch.release(&batch);
    sql_query_interrupt(query);
    assert_int_equal(sql_query_next(query, &batch, &end, &err), LAKE_CANCELLED);
    sql_query_free(query);
}

static void *random_interrupts(void *context)
{
    struct worker *worker = context;
    static const char *const STATEMENTS[] = {
        "SELECT i, s FROM t",
        "SELECT count(DISTINCT s) FROM t",
        "SELECT a.i FROM t a JOIN t b USING (i) ORDER BY a.s",
    };
    for (unsigned i = 0; i < 40; i++) {
        struct lake_error err = {0};
        struct worker killer = {.after_us = (int64_t)((i * 7 + worker->number * 3) % 12) * 1000};
        int64_t rows;
        const char *sql = STATEMENTS[i % BASE_ARRAY_LEN(STATEMENTS)];
        struct sql_source_table table = memory_table(worker->source, "main", "t");
        if (sql_query_prepare_sources(engine, base_str_of(sql), &table, 1, NULL, &killer.query,
                                      &err) != LAKE_OK) {
            note(worker, "prepare", &err);
            continue;
        }
        if (pthread_create(&killer.thread, NULL, interrupt_later, &killer) != 0) {
            note(worker, "thread", &err);
        }
        lake_status status = drain(killer.query, &rows, &err);
        if (status != LAKE_OK && status != LAKE_CANCELLED) {
            note(worker, sql, &err);
        }
        (void)pthread_join(killer.thread, NULL);
        sql_query_free(killer.query);
    }
    return NULL;
}

static void interrupts_at_any_moment_leave_nothing_behind(void **state)
{
    (void)state;
    struct worker workers[THREADS] = {0};
    struct memory_source *source =
        memory_source_new(&plain, "SELECT i, 'x' || i AS s FROM range(60000) r(i)", 2);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].source = source;
    }
    run_workers(workers, random_interrupts);
    memory_source_free(source);
}

/* A statement's overhead: connection, parsing, binding, one row, and all of it gone again. */
static void a_small_statement_is_cheap(void **state)
{
    (void)state;
    struct memory_source *source = memory_source_new(&plain, "SELECT 1::BIGINT AS i", 1);
    enum {
        ROUNDS = 500
    };
    int64_t started = base_clock_monotonic_us();
    for (int i = 0; i < ROUNDS; i++) {
        struct lake_error err = {0};
        char *text = NULL;
        struct sql_source_table table = memory_table(source, "main", "t");
        assert_int_equal(lake_text(engine, "SELECT i FROM t WHERE i = 1", &table, 1, &text, &err),
                         LAKE_OK);
        assert_string_equal(text, "1\n");
        free(text);
    }
    int64_t each_us = (base_clock_monotonic_us() - started) / ROUNDS;
    print_message("%lld us a statement\n", (long long)each_us);
#ifndef LAKE_SANITIZED
    assert_true(each_us < 5000); /* usually well below 1000 */
#endif
    memory_source_free(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_Q09_a_thousand_failing_and_empty_statements_leave_nothing_behind),
        cmocka_unit_test(statements_see_their_own_tables_only),
        cmocka_unit_test(case_F10_an_interrupt_ends_a_statement_at_once),
        cmocka_unit_test(an_interrupt_stops_the_scan_too),
        cmocka_unit_test(an_interrupt_before_or_between_batches_counts),
        cmocka_unit_test(interrupts_at_any_moment_leave_nothing_behind),
        cmocka_unit_test(a_small_statement_is_cheap),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
