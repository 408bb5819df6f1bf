/*
 * Must show 7 (SQL-5, SQL-6): every attack first succeeds on an engine opened with plain
 * duckdb_open, and is then refused by Lake, with its stable status. What DuckDB's own settings or
 * the check after binding block is shown a second time on Lake's instance itself, past the parser's
 * gate: the lines of defence hold one by one.
 */
#include "memory_source.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64];
static struct sql_engine *engine;

static void write_file(const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* `{}` in a statement stands for the directory. */
static char *in_directory(const char *sql)
{
    struct base_buffer text;
    base_buffer_init(&text, 1 << 20);
    for (const char *at = sql; *at != '\0'; at++) {
        if (at[0] == '{' && at[1] == '}') {
            assert_int_equal(base_buffer_printf(&text, NULL, "%s", directory), LAKE_OK);
            at++;
        } else {
            assert_int_equal(base_buffer_append(&text, at, 1, NULL), LAKE_OK);
        }
    }
    assert_int_equal(base_buffer_append(&text, "", 1, NULL), LAKE_OK);
    size_t size;
    return (char *)base_buffer_take(&text, &size);
}

static int setup(void **state)
{
    (void)state;
    (void)snprintf(directory, sizeof(directory), "/tmp/lake_lockdown_XXXXXX");
    assert_non_null(mkdtemp(directory));
    struct plain_engine plain;
    plain_open(&plain);
    write_file("secret.csv", "a,b\n1,2\n");
    write_file("secret.json", "{\"a\":1}\n");
    char *sql = in_directory("COPY (SELECT 1 AS a) TO '{}/secret.parquet' (FORMAT parquet)");
    plain_run(&plain, sql);
    base_free(sql);
    sql = in_directory("ATTACH '{}/other.db' AS other; CREATE TABLE other.t AS SELECT 1 AS a; "
                       "DETACH other");
    plain_run(&plain, sql);
    base_free(sql);
    sql = in_directory("EXPORT DATABASE '{}/exported'");
    plain_run(&plain, sql);
    base_free(sql);
    plain_close(&plain);

    struct sql_engine_options options;
    struct lake_error err = {0};
    sql_engine_options_init(&options);
    options.threads = 2;
    options.temp_directory = directory; /* files in it stay readable for DuckDB's own settings */
    if (sql_engine_open(&options, &engine, &err) != LAKE_OK) {
        fail_msg("%s", err.message);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sql_engine_free(engine);
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", directory);
    return system(command) == 0 ? 0 : -1;
}

enum refused_by {
    GATE_ONLY,  /* only the parser's gate is in the way (or what it needs cannot be made) */
    ENGINE_TOO, /* Lake's instance refuses it as well: settings or the check after binding */
};

struct attack {
    const char *before; /* runs first on the plain engine, may be NULL */
    const char *sql;
    lake_status status;
    enum refused_by by;
};

static const struct attack ATTACKS[] = {
    /* files and URLs */
    {NULL, "SELECT * FROM read_csv('{}/secret.csv')", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM read_csv_auto('{}/secret.csv')", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM sniff_csv('{}/secret.csv')", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM read_text('{}/secret.csv')", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM read_blob('{}/secret.csv')", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM read_json('{}/secret.json')", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM read_ndjson('{}/secret.json')", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM read_json_objects('{}/secret.json')", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM read_parquet('{}/secret.parquet')", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM parquet_scan('{}/secret.parquet')", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM parquet_metadata('{}/secret.parquet')", LAKE_PERMISSION_DENIED,
     ENGINE_TOO},
    {NULL, "SELECT * FROM parquet_schema('{}/secret.parquet')", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM parquet_kv_metadata('{}/secret.parquet')", LAKE_PERMISSION_DENIED,
     ENGINE_TOO},
    {NULL, "SELECT * FROM read_duckdb('{}/other.db', table_name='t')", LAKE_PERMISSION_DENIED,
     ENGINE_TOO},
    {NULL, "SELECT * FROM glob('{}/*')", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM read_text('file://{}/secret.csv')", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM '{}/secret.csv'", LAKE_NOT_FOUND, ENGINE_TOO},
    {NULL, "FROM '{}/secret.parquet'", LAKE_NOT_FOUND, ENGINE_TOO},
    {NULL, "SELECT * FROM \"{}/secret.json\"", LAKE_NOT_FOUND, ENGINE_TOO},
    {NULL, "SELECT (SELECT content FROM read_text('{}/secret.csv'))", LAKE_PERMISSION_DENIED,
     ENGINE_TOO},
    {NULL, "SELECT 1 WHERE EXISTS (FROM '{}/secret.csv')", LAKE_NOT_FOUND, ENGINE_TOO},
    {NULL, "WITH x AS (FROM read_text('{}/secret.csv')) FROM x", LAKE_PERMISSION_DENIED,
     ENGINE_TOO},
    {NULL, "SUMMARIZE FROM read_csv('{}/secret.csv')", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "DESCRIBE FROM '{}/secret.csv'", LAKE_NOT_FOUND, ENGINE_TOO},
    {NULL, "EXPLAIN ANALYZE SELECT * FROM read_text('{}/secret.csv')", LAKE_PERMISSION_DENIED,
     ENGINE_TOO},
    {"CREATE SEQUENCE seq0", "SELECT list_transform([1], x -> x + nextval('seq0'))",
     LAKE_PERMISSION_DENIED, GATE_ONLY},
    {NULL, "COPY (SELECT 1) TO '{}/stolen.csv'", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {"CREATE TABLE in1 (a INT, b INT)", "COPY in1 FROM '{}/secret.csv'", LAKE_INVALID_ARGUMENT,
     ENGINE_TOO},
    {NULL, "EXPORT DATABASE '{}/stolen'", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "IMPORT DATABASE '{}/exported'", LAKE_INVALID_ARGUMENT, GATE_ONLY},
    {NULL, "ATTACH '{}/other.db' AS stolen", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "LOAD json", LAKE_INVALID_ARGUMENT, ENGINE_TOO},

    /* settings */
    {NULL, "SET memory_limit = '1GB'", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "SET GLOBAL threads = 1", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "RESET threads", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "PRAGMA threads = 2", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "SET search_path = 'main'", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "SET VARIABLE v = 1", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {"SET VARIABLE w = 1", "SELECT getvariable('w')", LAKE_PERMISSION_DENIED, GATE_ONLY},
    {NULL, "SELECT current_setting('memory_limit')", LAKE_PERMISSION_DENIED, GATE_ONLY},
    {NULL, "USE memory", LAKE_INVALID_ARGUMENT, ENGINE_TOO},

    /* secrets */
    {"SET secret_directory = '{}/secrets'",
     "CREATE PERSISTENT SECRET s1 (TYPE http, BEARER_TOKEN 'x')", LAKE_INVALID_ARGUMENT,
     ENGINE_TOO},
    {NULL, "CREATE SECRET s2 (TYPE http, BEARER_TOKEN 'x')", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "CREATE TEMPORARY SECRET s3 (TYPE http, BEARER_TOKEN 'x')", LAKE_INVALID_ARGUMENT,
     ENGINE_TOO},
    {NULL, "SELECT * FROM duckdb_secrets()", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM which_secret('http://a', 'http')", LAKE_PERMISSION_DENIED, ENGINE_TOO},

    /* other catalogs, writes, DDL */
    {NULL, "ATTACH ':memory:' AS extra", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {"ATTACH ':memory:' AS extra2", "DETACH extra2", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "CREATE TABLE c1 (a INT)", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "CREATE TABLE c2 AS SELECT 1 AS a", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "CREATE TEMP TABLE c3 (a INT)", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "CREATE VIEW v1 AS SELECT 1", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "CREATE MACRO m1(x) AS x + 1", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "CREATE MACRO m2() AS TABLE FROM read_text('{}/secret.csv')", LAKE_INVALID_ARGUMENT,
     ENGINE_TOO},
    {NULL, "CREATE SCHEMA sch", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "CREATE SEQUENCE seq1", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {"CREATE SEQUENCE seq2", "SELECT nextval('seq2')", LAKE_PERMISSION_DENIED, GATE_ONLY},
    {NULL, "CREATE TYPE ty AS ENUM ('a')", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {"CREATE TABLE w1 (a INT)", "INSERT INTO w1 VALUES (1)", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {"CREATE TABLE w2 (a INT)", "UPDATE w2 SET a = 1", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {"CREATE TABLE w3 (a INT)", "DELETE FROM w3", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {"CREATE TABLE w4 (a INT)", "TRUNCATE w4", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {"CREATE TABLE w5 (a INT)", "DROP TABLE w5", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {"CREATE TABLE w6 (a INT)", "ALTER TABLE w6 ADD COLUMN b INT", LAKE_INVALID_ARGUMENT,
     ENGINE_TOO},
    {"CREATE TABLE w7 (a INT)", "CREATE INDEX i7 ON w7 (a)", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {"CREATE TABLE w8 (a INT)",
     "MERGE INTO w8 USING (SELECT 1 AS a) s ON w8.a = s.a WHEN NOT MATCHED THEN INSERT VALUES (1)",
     LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {"CREATE TABLE w9 (a INT)", "EXPLAIN ANALYZE INSERT INTO w9 VALUES (1)", LAKE_INVALID_ARGUMENT,
     ENGINE_TOO},
    {NULL, "CHECKPOINT", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "FORCE CHECKPOINT", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "BEGIN", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "VACUUM", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "PREPARE p AS SELECT 1", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {"PREPARE q AS SELECT 1", "EXECUTE q", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {"CREATE TABLE hidden (a INT)", "SELECT * FROM hidden", LAKE_NOT_FOUND, ENGINE_TOO},
    {"CREATE TABLE hidden2 (a INT)", "SELECT * FROM memory.main.hidden2", LAKE_NOT_FOUND,
     ENGINE_TOO},

    /* logging and profiling */
    {NULL, "CALL enable_logging(storage = 'file', storage_path = '{}/logs')", LAKE_INVALID_ARGUMENT,
     ENGINE_TOO},
    {NULL, "CALL enable_logging()", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "CALL disable_logging()", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "SELECT write_log('poison')", LAKE_PERMISSION_DENIED, GATE_ONLY},
    {NULL, "SELECT * FROM duckdb_logs()", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "PRAGMA enable_profiling = 'no_output'", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "PRAGMA profiling_output = '{}/profile.txt'", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "PRAGMA disable_optimizer", LAKE_INVALID_ARGUMENT, ENGINE_TOO},

    /* SQL inside SQL, and what the engine knows of itself and others */
    {NULL, "SELECT * FROM query('SELECT 42')", LAKE_PERMISSION_DENIED, GATE_ONLY},
    {NULL, "SELECT * FROM query('FROM read_text(''{}/secret.csv'')')", LAKE_PERMISSION_DENIED,
     ENGINE_TOO},
    {"CREATE TABLE qt (a INT)", "SELECT * FROM query_table('qt')", LAKE_PERMISSION_DENIED,
     ENGINE_TOO},
    {"CREATE TABLE ht (a INT)", "SELECT * FROM histogram_values(ht, a)", LAKE_PERMISSION_DENIED,
     ENGINE_TOO},
    {NULL, "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 42'))",
     LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT json_serialize_plan('FROM read_text(''{}/secret.csv'')')",
     LAKE_PERMISSION_DENIED, GATE_ONLY},
    {NULL, "SELECT * FROM duckdb_settings()", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM duckdb_tables()", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM duckdb_tables", LAKE_NOT_FOUND, ENGINE_TOO},
    {NULL, "SELECT * FROM duckdb_databases()", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM duckdb_functions()", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM duckdb_memory()", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM duckdb_temporary_files()", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM duckdb_prepared_statements()", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM pragma_version()", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM pragma_database_size()", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT * FROM information_schema.tables", LAKE_NOT_FOUND, ENGINE_TOO},
    {NULL, "SELECT * FROM system.information_schema.tables", LAKE_NOT_FOUND, ENGINE_TOO},
    {NULL, "SELECT * FROM pg_catalog.pg_tables", LAKE_NOT_FOUND, ENGINE_TOO},
    {NULL, "SELECT * FROM sqlite_master", LAKE_NOT_FOUND, ENGINE_TOO},
    {NULL, "SHOW TABLES", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SHOW ALL TABLES", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SHOW DATABASES", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "FROM (SHOW TABLES)", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "PRAGMA database_list", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "PRAGMA show_tables", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "PRAGMA version", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "CALL pragma_version()", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
    {NULL, "SELECT * FROM sql_auto_complete('SEL')", LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {NULL, "SELECT system.main.current_query()", LAKE_PERMISSION_DENIED, GATE_ONLY},
    {NULL, "SELECT sleep_ms(1)", LAKE_PERMISSION_DENIED, GATE_ONLY},
    {NULL, "SELECT pg_sleep(0)", LAKE_PERMISSION_DENIED, GATE_ONLY},

    /* files that DuckDB's own settings leave open: the engine's temp_directory */
    {"SET temp_directory = '{}'", "SELECT * FROM read_text('{}/secret.csv')",
     LAKE_PERMISSION_DENIED, ENGINE_TOO},
    {"SET temp_directory = '{}'", "COPY (SELECT 1) TO '{}/again.csv'", LAKE_INVALID_ARGUMENT,
     ENGINE_TOO},

    /* several statements at once */
    {NULL, "SELECT 1; COPY (SELECT 1) TO '{}/second.csv'", LAKE_INVALID_ARGUMENT, ENGINE_TOO},
};

/* All of the list is tried, then the test fails with every line of it that did not hold. */
static unsigned failures;

static bool runs(duckdb_connection connection, const char *sql, char *message, size_t size)
{
    duckdb_result result;
    bool ok = duckdb_query(connection, sql, &result) == DuckDBSuccess;
    if (!ok) {
        (void)snprintf(message, size, "%s", duckdb_result_error(&result));
    }
    duckdb_destroy_result(&result);
    return ok;
}

static void succeeds_on_a_plain_engine(const struct attack *attack, const char *sql)
{
    struct plain_engine plain;
    char message[512] = "";
    plain_open(&plain);
    if (attack->before != NULL) {
        char *before = in_directory(attack->before);
        if (!runs(plain.connection, before, message, sizeof(message))) {
            failures++;
            print_error("before the attack: %s: %s\n", before, message);
        }
        base_free(before);
    }
    if (!runs(plain.connection, sql, message, sizeof(message))) {
        failures++;
        print_error("is no attack, a plain engine refuses it: %s: %s\n", sql, message);
    }
    plain_close(&plain);
}

static void is_refused_by_lake(const struct attack *attack, const char *sql)
{
    struct lake_error err = {0};
    struct sql_query *query = NULL;
    lake_status status =
        sql_query_prepare_sources(engine, base_str_of(sql), NULL, 0, NULL, &query, &err);
    if (status != attack->status) {
        failures++;
        print_error("%s: expected %s, found %s: %s\n", sql, lake_status_name(attack->status),
                    lake_status_name(status), err.message);
        return;
    }
    assert_int_equal(err.code, attack->status);
    assert_true(err.message[0] != '\0');
    assert_null(query);
}

static void is_refused_past_the_gate(const struct attack *attack, const char *sql)
{
    char message[512] = "";
    duckdb_connection connection;
    assert_int_equal(duckdb_connect(engine->current->database, &connection), DuckDBSuccess);
    if (attack->before != NULL) {
        char *before = in_directory(attack->before);
        (void)runs(connection, before, message, sizeof(message));
        base_free(before);
    }
    if (runs(connection, sql, message, sizeof(message))) {
        failures++;
        print_error("works on the locked engine: %s\n", sql);
    }
    duckdb_disconnect(&connection);
}

static void every_attack_succeeds_on_a_plain_engine_and_is_refused_by_lake(void **state)
{
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_LEN(ATTACKS); i++) {
        const struct attack *attack = &ATTACKS[i];
        char *sql = in_directory(attack->sql);
        char command[256];
        succeeds_on_a_plain_engine(attack, sql);
        is_refused_by_lake(attack, sql);
        if (attack->by == ENGINE_TOO) {
            is_refused_past_the_gate(attack, sql);
        }
        base_free(sql);
        (void)snprintf(command, sizeof(command), "rm -rf '%s/stolen' '%s/logs' '%s/secrets'",
                       directory, directory, directory);
        assert_int_equal(system(command), 0);
    }
    assert_int_equal(failures, 0);
}

/* The extension that would carry the request is not on the machine, so the plain engine shows the
 * attack by reaching for it. */
static void attaching_a_remote_catalog_is_refused_before_anything_is_reached_for(void **state)
{
    (void)state;
    static const char SQL[] =
        "ATTACH 'warehouse' AS forged (TYPE iceberg, ENDPOINT 'http://127.0.0.1:9/')";
    struct plain_engine plain;
    struct lake_error err = {0};
    struct sql_query *query = NULL;
    char message[512] = "";
    plain_open(&plain);
    assert_false(runs(plain.connection, SQL, message, sizeof(message)));
    assert_non_null(strstr(message, "iceberg"));
    assert_non_null(strstr(message, "xtension"));
    plain_close(&plain);
    assert_int_equal(
        sql_query_prepare_sources(engine, base_str_of(SQL), NULL, 0, NULL, &query, &err),
        LAKE_INVALID_ARGUMENT);
    assert_string_equal(err.message, SQL_READ_ONLY_MESSAGE);
}

static void ddl_and_dml_have_one_stable_message(void **state)
{
    (void)state;
    static const char *const STATEMENTS[] = {
        "CREATE TABLE ns.t (a INT)",
        "DROP TABLE ns.t",
        "INSERT INTO ns.t VALUES (1)",
        "UPDATE ns.t SET a = 1",
        "DELETE FROM ns.t",
        "ALTER TABLE ns.t RENAME TO u",
        "EXPLAIN DELETE FROM ns.t",
        "COPY ns.t TO 'x'",
        "ATTACH 'x'",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "SET threads = 1",
        "COMMIT",
        "CREATE INDEX i ON ns.t (a)",
        "WITH a AS (SELECT 1) INSERT INTO ns.t SELECT * FROM a",
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(STATEMENTS); i++) {
        struct lake_error err = {0};
        struct sql_references references;
        assert_int_equal(
            sql_references_parse(engine, base_str_of(STATEMENTS[i]), &references, &err),
            LAKE_INVALID_ARGUMENT);
        assert_string_equal(err.message, SQL_READ_ONLY_MESSAGE);
    }
}

static void a_connection_without_tables_sees_none(void **state)
{
    (void)state;
    char message[512] = "";
    duckdb_connection connection;
    assert_int_equal(duckdb_connect(engine->current->database, &connection), DuckDBSuccess);
    assert_false(runs(connection, "SELECT * FROM lake.main.t", message, sizeof(message)));
    assert_false(runs(connection, "CREATE TABLE lake.main.t (a INT)", message, sizeof(message)));
    assert_false(runs(connection, "CREATE SCHEMA lake.x", message, sizeof(message)));
    assert_non_null(strstr(message, SQL_READ_ONLY_MESSAGE));
    duckdb_disconnect(&connection);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_attack_succeeds_on_a_plain_engine_and_is_refused_by_lake),
        cmocka_unit_test(attaching_a_remote_catalog_is_refused_before_anything_is_reached_for),
        cmocka_unit_test(ddl_and_dml_have_one_stable_message),
        cmocka_unit_test(a_connection_without_tables_sees_none),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
