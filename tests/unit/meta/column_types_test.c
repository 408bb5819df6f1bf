/* Which types a table may have: every one that SQL answers, and no other (NAT-2, docs/types.md). */
#include "meta_fixture.h"

/* A table of the columns `id` and `c`. */
static lake_status check_column(struct ArrowSchema *column, struct lake_error *err)
{
    struct ArrowSchema table;
    ArrowSchemaInit(&table);
    assert_int_equal(ArrowSchemaSetTypeStruct(&table, 2), NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetType(table.children[0], NANOARROW_TYPE_INT64), NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetName(table.children[0], "id"), NANOARROW_OK);
    ArrowSchemaRelease(table.children[1]);
    ArrowSchemaMove(column, table.children[1]);
    lake_status status = meta_column_types_check(&table, err);
    ArrowSchemaRelease(&table);
    return status;
}

static lake_status check_type(const char *text, struct lake_error *err)
{
    struct ArrowSchema column;
    if (arrow_type_parse(base_str_of(text), "c", &column, err) != LAKE_OK) {
        fail_msg("%s: %s", text, err->message);
    }
    return check_column(&column, err);
}

static void refused(const char *text, const char *path, const char *why)
{
    struct lake_error err = {0};
    assert_int_equal(check_type(text, &err), LAKE_INVALID_ARGUMENT);
    if (strstr(err.message, path) == NULL || strstr(err.message, why) == NULL) {
        fail_msg("%s: %s", text, err.message);
    }
}

static void accepted(const char *text)
{
    struct lake_error err = {0};
    if (check_type(text, &err) != LAKE_OK) {
        fail_msg("%s: %s", text, err.message);
    }
}

static void what_sql_answers_is_accepted(void **state)
{
    (void)state;
    static const char *const types[] = {"null",
                                        "bool",
                                        "int8",
                                        "uint64",
                                        "float16",
                                        "double",
                                        "utf8",
                                        "large_utf8",
                                        "binary",
                                        "large_binary",
                                        "date32",
                                        "date64",
                                        "time32[s]",
                                        "time64[ns]",
                                        "duration[ns]",
                                        "timestamp[s]",
                                        "timestamp[ns, UTC]",
                                        "decimal(1, 0)",
                                        "decimal(38, 38)",
                                        "decimal(38, 0)",
                                        "fixed_size_binary[1]",
                                        "fixed_size_binary[67108864]",
                                        "list<null>",
                                        "large_list<int8>",
                                        "struct<a: struct<b: null>>",
                                        "map<utf8, list<duration[s]>>",
                                        "FILE",
                                        "list<FILE>",
                                        "int8[100000]",
                                        "uint8[224][224][3]",
                                        "float[480][640]",
                                        "decimal(10, 2)[2]",
                                        "bool[9]",
                                        "fixed_size_binary[3][2]",
                                        "timestamp[us, UTC][2]",
                                        "dictionary<uint64, large_utf8>",
                                        "dictionary<int8, float16>",
                                        "dictionary<int32, int64>",
                                        "list<dictionary<int8, binary>>"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(types); i++) {
        accepted(types[i]);
    }
}

static void what_sql_cannot_answer_is_refused_by_name(void **state)
{
    (void)state;
    refused("decimal(39, 1)", "column c cannot be of type decimal256(39,1)", "decimal(38, 10)");
    refused("decimal(5, -2)", "column c cannot be of type decimal(5,-2)", "scale of 0");
    refused("list<decimal(76, 0)>", "column c.item cannot", "precision of 1 to 38");
    refused("struct<a: int8, b: map<utf8, decimal(5, -1)>>", "column c.b.entries.value cannot",
            "decimal(38, 10)");
    refused("decimal(40, 0)[2]", "column c", "decimal(38, 10)");
    refused("int8[100001]", "int8>[100001]", "at most 100000 items");
    refused("int8[2000000000]", "column c", "at most 100000 items");
    refused("int8[2][100001]", "column c", "at most 100000 items");
    refused("int8[65536][65]", "column c", "at most 4 MiB");
    refused("list<double[100000][100000]>", "column c.item", "at most 4 MiB");
    refused("fixed_size_binary[67108865]", "column c", "FILE column");
    refused("utf8[2]", "column c", "use list<T>");
    refused("null[2]", "column c", "use list<T>");
    refused("list<int8>[2]", "column c", "use list<T>");
    refused("struct<a: int8>[2]", "column c", "use list<T>");
    refused("dictionary<int8, utf8>[2]", "column c", "use list<T>");
    refused("dictionary<int32, bool>", "dictionary<int32, bool>", "integers or floats");
    refused("dictionary<int32, date32>", "column c", "integers or floats");
    refused("dictionary<int32, decimal(10, 2)>", "column c", "integers or floats");
    refused("dictionary<int32, list<int8>>", "column c", "integers or floats");
    refused("interval_months", "column c", "duration[us]");
    refused("interval_month_day_nano", "column c", "duration[us]");
}

static void time_zones_are_those_that_readers_know(void **state)
{
    (void)state;
    static const char *const known[] = {"UTC",
                                        "Europe/Paris",
                                        "Etc/GMT+5",
                                        "PST8PDT",
                                        "GMT",
                                        "America/Argentina/ComodRivadavia",
                                        "Africa/Abidjan",
                                        "Zulu",
                                        "+00:00",
                                        "-11:30",
                                        "+23:59"};
    static const char *const unknown[] = {
        "Mars/Phobos", "utc",   "europe/paris", "Europe/Pari", "Europe/Parisx", "+25:00", "+02:60",
        "+0200",       "UTC+2", "+2:00",        "02:00",       "+02:00 ",       "Europe", "Z"};
    char type[128];
    for (size_t i = 0; i < BASE_ARRAY_LEN(known); i++) {
        (void)snprintf(type, sizeof(type), "timestamp[ns, %s]", known[i]);
        accepted(type);
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(unknown); i++) {
        (void)snprintf(type, sizeof(type), "struct<at: timestamp[us, %s]>", unknown[i]);
        refused(type, "column c.at cannot", "IANA");
    }
}

static void types_that_nobody_can_write_as_text_are_refused_too(void **state)
{
    (void)state;
    static const enum ArrowType types[] = {
        NANOARROW_TYPE_INTERVAL_DAY_TIME, NANOARROW_TYPE_LIST_VIEW, NANOARROW_TYPE_LARGE_LIST_VIEW};
    struct lake_error err = {0};
    struct ArrowSchema column;
    for (size_t i = 0; i < BASE_ARRAY_LEN(types); i++) {
        ArrowSchemaInit(&column);
        assert_int_equal(ArrowSchemaSetType(&column, types[i]), NANOARROW_OK);
        assert_int_equal(ArrowSchemaSetName(&column, "c"), NANOARROW_OK);
        if (column.n_children == 1) {
            assert_int_equal(ArrowSchemaSetType(column.children[0], NANOARROW_TYPE_INT8),
                             NANOARROW_OK);
        }
        assert_int_equal(check_column(&column, &err), LAKE_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "column c cannot be of type "));
    }
    ArrowSchemaInit(&column);
    assert_int_equal(ArrowSchemaSetTypeStruct(&column, 0), NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetName(&column, "c"), NANOARROW_OK);
    assert_int_equal(check_column(&column, &err), LAKE_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "at least one field"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_sql_answers_is_accepted),
        cmocka_unit_test(what_sql_cannot_answer_is_refused_by_name),
        cmocka_unit_test(time_zones_are_those_that_readers_know),
        cmocka_unit_test(types_that_nobody_can_write_as_text_are_refused_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
