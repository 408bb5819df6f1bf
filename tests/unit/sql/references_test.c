/* Table references from the parsed tree, before planning (SQL-7). */
#include "memory_source.h"

/* References as "catalog.schema.table@version" joined by blanks, in order of first appearance. */
struct reference_case {
    const char *sql;
    const char *expected;
};

static const struct reference_case CASES[] = {
    {"SELECT 1", ""},
    {"VALUES (1), (2)", ""},
    {"SELECT * FROM t", "t"},
    {"FROM t", "t"},
    {"TABLE t", "t"},
    {"FROM ns.t SELECT a WHERE b > 1", "ns.t"},
    {"SELECT * FROM lake.ns.t", "lake.ns.t"},
    {"SELECT * FROM \"My Space\".\"T\"", "My Space.T"},
    {"SELECT * FROM t AS x, t AS y", "t"},
    {"SELECT * FROM t, T, \"t\"", "t"}, /* names are matched without regard to case */
    {"SELECT x.a FROM a.t x", "a.t"},
    {"SELECT * FROM 'file.parquet'", "file.parquet"},
    {"SELECT * FROM \"https://host/x.csv\"", "https://host/x.csv"},

    /* joins */
    {"SELECT * FROM a JOIN b ON a.i = b.i LEFT JOIN c USING (i)", "a b c"},
    {"SELECT * FROM a NATURAL JOIN b", "a b"},
    {"SELECT * FROM a POSITIONAL JOIN b", "a b"},
    {"SELECT * FROM a ASOF JOIN b ON a.t >= b.t", "a b"},
    {"SELECT * FROM a SEMI JOIN b USING (i)", "a b"},
    {"SELECT * FROM a ANTI JOIN (SELECT * FROM b) s USING (i)", "a b"},
    {"SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.i = a.i) l", "a b"},
    {"SELECT * FROM a JOIN b ON a.i = (SELECT max(i) FROM c)", "a b c"},
    {"SELECT * FROM (a CROSS JOIN b)", "a b"},

    /* subqueries in every corner of a statement */
    {"SELECT (SELECT max(i) FROM a), i IN (SELECT i FROM b) FROM c", "a b c"},
    {"SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.i = a.i)", "b a"},
    {"SELECT * FROM a WHERE i > ALL (SELECT i FROM b)", "b a"},
    {"SELECT count(*) FILTER (WHERE i IN (SELECT i FROM b)) FROM a", "b a"},
    {"SELECT array_agg(i ORDER BY (SELECT j FROM b)) FROM a", "b a"},
    {"SELECT i FROM a GROUP BY i, (SELECT 1 FROM b)", "b a"},
    {"SELECT i FROM a GROUP BY i HAVING count(*) > (SELECT 1 FROM b)", "b a"},
    {"SELECT i FROM a ORDER BY (SELECT 1 FROM b)", "a b"},
    {"SELECT i FROM a LIMIT (SELECT 1 FROM b) OFFSET (SELECT 1 FROM c)", "a b c"},
    {"SELECT DISTINCT ON ((SELECT 1 FROM b)) i FROM a", "a b"},
    {"SELECT i FROM a QUALIFY row_number() OVER (ORDER BY (SELECT 1 FROM b)) = 1", "b a"},
    {"SELECT sum(i) OVER (PARTITION BY (SELECT 1 FROM b) ORDER BY (SELECT 1 FROM c)) FROM a",
     "b c a"},
    {"SELECT lag(i, 1, (SELECT 0 FROM b)) OVER () FROM a", "b a"},
    {"SELECT CASE WHEN (SELECT true FROM a) THEN (SELECT 1 FROM b) ELSE (SELECT 2 FROM c) END",
     "a b c"},
    {"SELECT (SELECT 1 FROM a) BETWEEN (SELECT 0 FROM b) AND (SELECT 2 FROM c)", "a b c"},
    {"SELECT CAST((SELECT 1 FROM a) AS VARCHAR), [(SELECT 1 FROM b)], {'x': (SELECT 1 FROM c)}",
     "a b c"},
    {"SELECT * REPLACE ((SELECT 1 FROM b) AS i) FROM a", "b a"},
    {"SELECT COLUMNS(c -> c LIKE 'x%') FROM a", "a"},
    {"SELECT list_transform(l, x -> x + 1) FROM a", "a"},
    {"SELECT list_filter(l, lambda x: x > (SELECT 1 FROM b)) FROM a", "b a"},
    {"SELECT [x + 1 FOR x IN l IF x > 0] FROM a", "a"},
    {"SELECT (VALUES (1)), (FROM a)", "a"},
    {"SELECT * FROM (VALUES ((SELECT 1 FROM a))) v", "a"},
    {"SELECT * FROM range((SELECT max(i) FROM a))", "a"},
    {"SELECT unnest((SELECT l FROM a))", "a"},
    {"SELECT * FROM unnest((SELECT l FROM a))", "a"},
    {"SELECT ARRAY (SELECT i FROM a)", "a"},

    /* CTEs */
    {"WITH c AS (SELECT * FROM a) SELECT * FROM c", "a"},
    {"WITH t AS (SELECT * FROM t) SELECT * FROM t", "t"}, /* the inner one is the table */
    {"WITH t AS (SELECT 1 AS i) SELECT * FROM t", ""},
    {"WITH T AS (SELECT 1 AS i) SELECT * FROM t", ""},
    {"WITH t AS (SELECT 1 AS i) SELECT * FROM ns.t", "ns.t"},
    {"WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b", ""},
    {"WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a, b", "b"},
    {"WITH a AS (SELECT 1) SELECT * FROM (WITH b AS (SELECT * FROM a) SELECT * FROM b) s", ""},
    {"SELECT * FROM (WITH b AS (SELECT 1) SELECT * FROM b) s, b", "b"},
    {"WITH a AS (SELECT 1 AS i) SELECT (SELECT i FROM a), (SELECT i FROM b)", "b"},
    {"WITH a AS MATERIALIZED (SELECT * FROM x) SELECT * FROM a, a AS b", "x"},
    {"WITH a AS NOT MATERIALIZED (SELECT * FROM x) SELECT * FROM a", "x"},
    {"WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 9) FROM r", ""},
    {"WITH RECURSIVE r AS (SELECT i FROM t UNION SELECT r.i + 1 FROM r JOIN u USING (i)) FROM r",
     "t u"},
    {"WITH RECURSIVE r AS (SELECT i FROM r UNION ALL SELECT i FROM r WHERE false) FROM r", "r"},
    {"WITH RECURSIVE r(i, n) USING KEY (i) AS (SELECT 1, 1 UNION ALL SELECT i, n + 1 FROM "
     "recurring.r WHERE n < 3) FROM r",
     ""},
    {"WITH a AS (SELECT 1) SELECT * FROM a UNION ALL SELECT * FROM b", "b"},

    /* set operations, pivots, descriptions */
    {"SELECT * FROM a UNION SELECT * FROM b EXCEPT SELECT * FROM c INTERSECT SELECT * FROM d",
     "a b c d"},
    {"SELECT * FROM a UNION BY NAME SELECT * FROM b ORDER BY (SELECT 1 FROM c)", "a b c"},
    {"PIVOT a ON c IN ('x', 'y') USING sum(v)", "a"},
    {"SELECT * FROM (PIVOT ns.a ON c IN ('x') USING sum(v) GROUP BY g)", "ns.a"},
    {"SELECT * FROM a PIVOT (sum(v) FOR c IN ('x', 'y'))", "a"},
    {"UNPIVOT a ON x, y INTO NAME n VALUE v", "a"},
    {"SELECT * FROM a UNPIVOT (v FOR n IN (x, y))", "a"},
    {"SUMMARIZE a", "a"},
    {"SUMMARIZE SELECT * FROM a JOIN b USING (i)", "a b"},
    {"DESCRIBE ns.a", "ns.a"},
    {"DESCRIBE SELECT * FROM a", "a"},
    {"SELECT * FROM (DESCRIBE a)", "a"},
    {"SELECT * FROM (SUMMARIZE ns.a) WHERE column_name = 'i'", "ns.a"},
    {"SELECT * FROM a TABLESAMPLE 10%", "a"},
    {"SELECT * FROM a USING SAMPLE 5 ROWS", "a"},
    {"EXPLAIN SELECT * FROM a", "a"},
    {"EXPLAIN ANALYZE SELECT * FROM a", "a"},

    /* versions */
    {"SELECT * FROM t AT (VERSION => 7)", "t@7"},
    {"SELECT * FROM ns.t AT (VERSION => 7) JOIN ns.t USING (i)", "ns.t@7 ns.t"},
    {"SELECT * FROM t a AT (VERSION => 1), t b AT (VERSION => 2), t c AT (VERSION => 1)",
     "t@1 t@2"},
};

static struct sql_references parse(const char *sql)
{
    struct sql_references references;
    struct lake_error err = {0};
    if (sql_references_parse(NULL, base_str_of(sql), &references, &err) != LAKE_OK) {
        fail_msg("%s: %s", sql, err.message);
    }
    return references;
}

static void references_are_those_of_the_real_tables(void **state)
{
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_LEN(CASES); i++) {
        struct base_buffer text;
        base_buffer_init(&text, 1 << 16);
        struct sql_references references = parse(CASES[i].sql);
        for (size_t j = 0; j < references.count; j++) {
            const struct sql_table_ref *ref = &references.refs[j];
            (void)base_buffer_printf(&text, NULL, "%s%s%s%s%s%s", j == 0 ? "" : " ", ref->catalog,
                                     ref->catalog[0] == '\0' ? "" : ".", ref->schema,
                                     ref->schema[0] == '\0' ? "" : ".", ref->table);
            if (ref->at_version != 0) {
                (void)base_buffer_printf(&text, NULL, "@%llu", (unsigned long long)ref->at_version);
            }
        }
        (void)base_buffer_append(&text, "", 1, NULL);
        if (strcmp((const char *)text.data, CASES[i].expected) != 0) {
            fail_msg("%s: expected '%s', found '%s'", CASES[i].sql, CASES[i].expected,
                     (const char *)text.data);
        }
        base_buffer_fini(&text);
        sql_references_fini(&references);
    }
}

/* The walk and the binder agree: with exactly the references bound, no statement of the corpus
 * fails for a table; with one fewer it always does. */
static void every_reference_is_needed_and_no_other_is(void **state)
{
    (void)state;
    struct sql_engine_options options;
    struct sql_engine *engine = NULL;
    struct plain_engine plain;
    struct lake_error err = {0};
    sql_engine_options_init(&options);
    assert_int_equal(sql_engine_open(&options, &engine, &err), LAKE_OK);
    plain_open(&plain);
    struct memory_source *source = memory_source_new(
        &plain,
        "SELECT 1::BIGINT AS i, 2 AS j, 'c' AS c, 3 AS v, 4 AS g, 5 AS b, 6 AS a, 7 AS x, 8 AS y, "
        "[1, 2] AS l, TIMESTAMP '2020-01-01' AS t, 'e' AS e",
        1);
    for (size_t i = 0; i < BASE_ARRAY_LEN(CASES); i++) {
        struct sql_references references = parse(CASES[i].sql);
        for (size_t missing = 0; missing <= references.count; missing++) {
            struct sql_source_table tables[16];
            size_t count = 0;
            for (size_t j = 0; j < references.count; j++) {
                const struct sql_table_ref *ref = &references.refs[j];
                if (j == missing) {
                    continue;
                }
                const char *schema = ref->schema[0] == '\0' ? "main" : ref->schema;
                tables[count] = memory_table(source, schema, ref->table);
                tables[count++].at_version = ref->at_version;
            }
            struct sql_query *query = NULL;
            memset(&err, 0, sizeof(err));
            lake_status status = sql_query_prepare_sources(engine, base_str_of(CASES[i].sql),
                                                           tables, count, NULL, &query, &err);
            if (missing < references.count && status != LAKE_NOT_FOUND) {
                fail_msg("%s without %s: %s", CASES[i].sql, references.refs[missing].table,
                         err.message);
            }
            if (missing == references.count &&
                (status == LAKE_NOT_FOUND || strstr(err.message, "does not exist") != NULL)) {
                fail_msg("%s: %s", CASES[i].sql, err.message);
            }
            sql_query_free(query);
        }
        sql_references_fini(&references);
    }
    memory_source_free(source);
    sql_engine_free(engine);
    plain_close(&plain);
}

static lake_status refuse(const char *sql, struct lake_error *err)
{
    struct sql_references references;
    memset(err, 0, sizeof(*err));
    lake_status status = sql_references_parse(NULL, base_str_of(sql), &references, err);
    if (status == LAKE_OK) {
        fail_msg("accepted: %s", sql);
    }
    return status;
}

static void a_syntax_error_names_its_position(void **state)
{
    (void)state;
    struct lake_error err;
    assert_int_equal(refuse("SELECT 1 FORM t WHERE", &err), LAKE_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "syntax error"));
    assert_non_null(strstr(err.message, "LINE 1"));
    assert_int_equal(refuse("SELECT 'open", &err), LAKE_INVALID_ARGUMENT);
}

static void nothing_and_several_statements_are_refused(void **state)
{
    (void)state;
    struct lake_error err;
    assert_int_equal(refuse("", &err), LAKE_INVALID_ARGUMENT);
    assert_int_equal(refuse(" ; -- nothing", &err), LAKE_INVALID_ARGUMENT);
    assert_int_equal(refuse("SELECT 1; SELECT 2", &err), LAKE_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "one statement"));
    struct sql_references one = parse("SELECT 1;");
    assert_int_equal(one.count, 0);
    sql_references_fini(&one);
}

static void explain_is_told_apart(void **state)
{
    (void)state;
    struct sql_references plain_one = parse("SELECT * FROM t");
    struct sql_references explained = parse("EXPLAIN SELECT * FROM t");
    assert_false(plain_one.explain);
    assert_true(explained.explain);
    sql_references_fini(&plain_one);
    sql_references_fini(&explained);
}

static void functions_that_reach_outside_are_named(void **state)
{
    (void)state;
    struct lake_error err;
    static const char *const STATEMENTS[] = {
        "SELECT * FROM read_csv('x')",
        "SELECT i FROM t WHERE i = (SELECT count(*) FROM READ_CSV('x'))",
        "SELECT * FROM t, LATERAL (FROM read_csv(t.name))",
        "SELECT * FROM t ORDER BY (SELECT 1 FROM read_csv('x'))",
        "WITH a AS (FROM read_csv('x')) SELECT 1",
        "SELECT * FROM main.read_csv('x')",
        "SELECT * FROM system.main.\"read_csv\"('x')",
        "PIVOT (FROM read_csv('x')) ON a IN (1) USING sum(b)",
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(STATEMENTS); i++) {
        if (refuse(STATEMENTS[i], &err) != LAKE_PERMISSION_DENIED ||
            strstr(err.message, "read_csv") == NULL) {
            fail_msg("%s: %s", STATEMENTS[i], err.message);
        }
    }
    static const char *const SCALARS[] = {
        "SELECT current_setting('threads')",
        "SELECT ('threads').current_setting()",
        "SELECT * FROM t WHERE CURRENT_SETTING('threads') = '1'",
        "SELECT max(i) FILTER (WHERE current_setting('threads') = '1') FROM t",
        "SELECT list_transform(l, x -> current_setting(x)) FROM t",
        "SELECT * FROM range(current_setting('threads')::INT)",
        "SELECT sum(1) OVER (ORDER BY current_setting('threads'))",
        "SELECT * FROM t LIMIT current_setting('threads')::INT",
        "SELECT * FROM a JOIN b ON current_setting('threads') = a.x",
        "VALUES (current_setting('threads'))",
        "SELECT main.current_setting('threads')",
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(SCALARS); i++) {
        if (refuse(SCALARS[i], &err) != LAKE_PERMISSION_DENIED ||
            strstr(err.message, "current_setting") == NULL) {
            fail_msg("%s: %s", SCALARS[i], err.message);
        }
    }
}

static void what_is_not_supported_says_so(void **state)
{
    (void)state;
    struct lake_error err;
    assert_int_equal(refuse("SELECT $1", &err), LAKE_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "parameters"));
    assert_int_equal(refuse("SELECT * FROM t WHERE i = ?", &err), LAKE_INVALID_ARGUMENT);
    assert_int_equal(refuse("PIVOT t ON c USING sum(v)", &err), LAKE_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "PIVOT needs its values"));
    assert_int_equal(refuse("SELECT * FROM t AT (TIMESTAMP => '2020-01-01')", &err),
                     LAKE_INVALID_ARGUMENT);
    assert_int_equal(refuse("SELECT * FROM t AT (VERSION => 0)", &err), LAKE_INVALID_ARGUMENT);
    assert_int_equal(refuse("SELECT * FROM t AT (VERSION => -1)", &err), LAKE_INVALID_ARGUMENT);
    static const char *const others[] = {
        "SELECT * FROM t AT (VERSION => 'x')", "SELECT * FROM t AT (TIMESTAMP => now())",
        "SELECT * FROM t AT (TAG => 'x')", "SELECT * FROM t at\n( branch =>'x')"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(others); i++) {
        assert_int_equal(refuse(others[i], &err), LAKE_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "AT (VERSION => n)"));
    }
    assert_int_equal(refuse("SELECT 'at (tag => 1' FROM WHERE", &err), LAKE_INVALID_ARGUMENT);
    assert_null(strstr(err.message, "AT (VERSION => n)"));
    assert_int_equal(refuse("SELECT * FROM t AT (VERSION => (SELECT 1))", &err),
                     LAKE_INVALID_ARGUMENT);
}

static void limits_are_exact(void **state)
{
    (void)state;
    struct lake_error err;
    struct base_buffer sql;
    base_buffer_init(&sql, 4 << 20);
    (void)base_buffer_printf(&sql, NULL, "SELECT 1 FROM t0");
    for (int i = 1; i < SQL_MAX_REFERENCES; i++) {
        (void)base_buffer_printf(&sql, NULL, ", t%d", i);
    }
    (void)base_buffer_append(&sql, "", 1, NULL);
    struct sql_references references = parse((const char *)sql.data);
    assert_int_equal(references.count, SQL_MAX_REFERENCES);
    sql_references_fini(&references);
    sql.size--;
    (void)base_buffer_append(&sql, ", one_more", 11, NULL);
    assert_int_equal(refuse((const char *)sql.data, &err), LAKE_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "256"));

    base_buffer_clear(&sql);
    (void)base_buffer_printf(&sql, NULL, "SELECT '%*s'", SQL_MAX_STATEMENT_BYTES - 9, "");
    assert_int_equal(sql.size, SQL_MAX_STATEMENT_BYTES);
    struct lake_str text = {(const char *)sql.data, sql.size};
    assert_int_equal(sql_references_parse(NULL, text, &references, &err), LAKE_OK);
    sql_references_fini(&references);
    (void)base_buffer_append(&sql, " ", 1, NULL);
    text = (struct lake_str){(const char *)sql.data, sql.size};
    assert_int_equal(sql_references_parse(NULL, text, &references, &err), LAKE_INVALID_ARGUMENT);
    base_buffer_fini(&sql);
}

static void deep_statements_are_refused_not_crashed_on(void **state)
{
    (void)state;
    static const char *const OPENERS[] = {"(", "SELECT (", "-",        "NOT ",
                                          "[", "{'a':",    "(SELECT ", "CASE WHEN "};
    for (size_t i = 0; i < BASE_ARRAY_LEN(OPENERS); i++) {
        struct base_buffer sql;
        struct lake_error err;
        base_buffer_init(&sql, 4 << 20);
        (void)base_buffer_printf(&sql, NULL, "SELECT ");
        for (int j = 0; j < 20000; j++) {
            (void)base_buffer_printf(&sql, NULL, "%s", OPENERS[i]);
        }
        (void)base_buffer_append(&sql, "1", 2, NULL);
        assert_int_equal(refuse((const char *)sql.data, &err), LAKE_INVALID_ARGUMENT);
        base_buffer_fini(&sql);
    }
    struct base_buffer sql;
    struct lake_error err;
    base_buffer_init(&sql, 4 << 20);
    (void)base_buffer_printf(&sql, NULL, "SELECT 1");
    for (int j = 0; j < 20000; j++) {
        (void)base_buffer_printf(&sql, NULL, "+1");
    }
    (void)base_buffer_append(&sql, "", 1, NULL);
    assert_int_equal(refuse((const char *)sql.data, &err), LAKE_INVALID_ARGUMENT);
    base_buffer_fini(&sql);
}

static void bytes_that_are_not_text_are_refused(void **state)
{
    (void)state;
    struct lake_error err;
    struct sql_references references;
    assert_int_equal(sql_references_parse(NULL, LAKE_STR("SELECT '\xff'"), &references, &err),
                     LAKE_INVALID_ARGUMENT);
    assert_int_equal(sql_references_parse(NULL, LAKE_STR("SELECT 1\0; DROP"), &references, &err),
                     LAKE_INVALID_ARGUMENT);
    assert_int_equal(sql_references_parse(NULL, (struct lake_str){0}, &references, &err),
                     LAKE_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(references_are_those_of_the_real_tables),
        cmocka_unit_test(every_reference_is_needed_and_no_other_is),
        cmocka_unit_test(a_syntax_error_names_its_position),
        cmocka_unit_test(nothing_and_several_statements_are_refused),
        cmocka_unit_test(explain_is_told_apart),
        cmocka_unit_test(functions_that_reach_outside_are_named),
        cmocka_unit_test(what_is_not_supported_says_so),
        cmocka_unit_test(limits_are_exact),
        cmocka_unit_test(deep_statements_are_refused_not_crashed_on),
        cmocka_unit_test(bytes_that_are_not_text_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
