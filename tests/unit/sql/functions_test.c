/*
 * The lists of functions.c against the pinned engine: what an engine update brings has to be looked
 * at and put on one of the two sides.
 */
#include "memory_source.h"

/* clang-format off */
static const char *const REFUSED[] = {
    "can_cast_implicitly", "cast_to_type", "col_description", "combine", "constant_or_null",
    "create_sort_key", "current_catalog", "current_connection_id", "current_database",
    "current_query", "current_query_id", "current_role", "current_schema", "current_schemas",
    "current_setting", "current_transaction_id", "current_user", "currval", "finalize",
    "format_pg_type", "format_type", "get_block_size", "get_type", "getvariable",
    "has_any_column_privilege", "has_column_privilege", "has_database_privilege",
    "has_foreign_data_wrapper_privilege", "has_function_privilege", "has_language_privilege",
    "has_schema_privilege", "has_sequence_privilege", "has_server_privilege",
    "has_table_privilege", "has_tablespace_privilege", "icu_sort_key", "in_search_path",
    "inet_client_addr", "inet_client_port", "inet_server_addr", "inet_server_port",
    "json_deserialize_sql", "json_serialize_plan", "json_serialize_sql", "make_type",
    "map_to_pg_oid", "nextval", "obj_description", "parse_duckdb_log_message",
    "pg_collation_is_visible", "pg_conf_load_time", "pg_conversion_is_visible",
    "pg_function_is_visible", "pg_get_constraintdef", "pg_get_expr", "pg_get_viewdef",
    "pg_has_role", "pg_is_other_temp_schema", "pg_my_temp_schema", "pg_opclass_is_visible",
    "pg_operator_is_visible", "pg_opfamily_is_visible", "pg_postmaster_start_time", "pg_sleep",
    "pg_table_is_visible", "pg_ts_config_is_visible", "pg_ts_dict_is_visible",
    "pg_ts_parser_is_visible", "pg_ts_template_is_visible", "pg_type_is_visible", "replace_type",
    "session_user", "shobj_description", "sleep_ms", "st_asbinary", "st_astext", "st_aswkb",
    "st_aswkt", "st_crs", "st_geomfromwkb", "st_intersects_extent", "st_setcrs", "stats",
    "timetz_byte_comparable", "txid_current", "user", "variant_bytes_to_variant",
    "variant_normalize", "variant_to_parquet_variant", "vector_type", "version", "write_log",
};
/* clang-format on */

static bool is_refused(const char *name)
{
    if (strncmp(name, "__internal_", 11) == 0 || strncmp(name, "icu_collate_", 12) == 0) {
        return true;
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(REFUSED); i++) {
        if (strcmp(REFUSED[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void each_name(const char *types, void (*visit)(const char *name, unsigned *wrong),
                      size_t at_least)
{
    struct plain_engine plain;
    duckdb_result result;
    unsigned wrong = 0;
    size_t count = 0;
    struct base_buffer sql;
    base_buffer_init(&sql, 4096);
    plain_open(&plain);
    (void)base_buffer_printf(&sql, NULL,
                             "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE "
                             "function_type IN (%s)",
                             types);
    (void)base_buffer_append(&sql, "", 1, NULL);
    assert_int_equal(duckdb_query(plain.connection, (const char *)sql.data, &result),
                     DuckDBSuccess);
    for (; count < duckdb_row_count(&result); count++) {
        char *name = duckdb_value_varchar(&result, 0, count);
        visit(name, &wrong);
        duckdb_free(name);
    }
    assert_true(count > at_least);
    assert_int_equal(wrong, 0);
    duckdb_destroy_result(&result);
    base_buffer_fini(&sql);
    plain_close(&plain);
}

static void one_side_only(const char *name, unsigned *wrong)
{
    if (sql_function_allowed(name) == is_refused(name)) {
        print_error("neither allowed nor refused, or both: %s\n", name);
        (*wrong)++;
    }
}

static void every_function_of_the_engine_has_been_looked_at(void **state)
{
    (void)state;
    each_name("'scalar', 'aggregate', 'macro'", one_side_only, 700);
}

static void taken_for_repeatable(const char *name, unsigned *wrong)
{
    /* It ends the statement, and so answers nothing. */
    if (strcmp(name, "error") != 0 && sql_function_allowed(name) && sql_function_repeatable(name)) {
        print_error("its answer changes, and its plans are kept: %s\n", name);
        (*wrong)++;
    }
}

static void what_the_engine_calls_changing_is_not_repeatable(void **state)
{
    (void)state;
    each_name("'scalar', 'aggregate') AND stability <> 'CONSISTENT' AND function_type IN ('scalar'",
              taken_for_repeatable, 15);
    assert_true(sql_function_repeatable("sum"));
}

static void taken_for_one_value(const char *name, unsigned *wrong)
{
    if (sql_function_allowed(name) && !sql_function_makes_rows(name)) {
        print_error("it makes rows, and is taken for a value: %s\n", name);
        (*wrong)++;
    }
}

static void what_the_engine_makes_of_unnest_makes_rows(void **state)
{
    (void)state;
    each_name("'macro') AND macro_definition ILIKE '%unnest(%' AND macro_definition NOT ILIKE "
              "'%select%' AND function_type IN ('macro'",
              taken_for_one_value, 1);
    assert_true(sql_function_makes_rows("unnest"));
    assert_true(sql_function_makes_rows("unlist"));
    assert_false(sql_function_makes_rows("len"));
}

static void not_a_reader(const char *name, unsigned *wrong)
{
    static const char *const FORBIDDEN[] = {"read_",   "scan",   "duckdb_", "pragma_",      "query",
                                            "glob",    "secret", "log",     "parquet",      "sniff",
                                            "execute", "check",  "profil",  "auto_complete"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(FORBIDDEN); i++) {
        if (strstr(name, FORBIDDEN[i]) != NULL && sql_table_function_allowed(name)) {
            print_error("allowed: %s\n", name);
            (*wrong)++;
        }
    }
}

static void no_table_function_that_reads_elsewhere_is_allowed(void **state)
{
    (void)state;
    each_name("'table', 'table_macro', 'pragma'", not_a_reader, 100);
    assert_true(sql_table_function_allowed("range"));
    assert_true(sql_table_function_allowed("unnest"));
    assert_false(sql_table_function_allowed("read_csv"));
    assert_false(sql_table_function_allowed(""));
    assert_false(sql_function_allowed(""));
    assert_false(sql_function_allowed("getenv")); /* the shell's; not in the library */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_of_the_engine_has_been_looked_at),
        cmocka_unit_test(what_the_engine_calls_changing_is_not_repeatable),
        cmocka_unit_test(what_the_engine_makes_of_unnest_makes_rows),
        cmocka_unit_test(no_table_function_that_reads_elsewhere_is_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
