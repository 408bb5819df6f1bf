/* The INSERT statement that the client understands (SDK-3). */
#include "client_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void parses(const char *sql, const char *namespace_name, const char *table, size_t columns,
                   const char *last)
{
    struct client_insert insert;
    struct lake_error error = {0};
    if (client_insert_parse(sql, &insert, &error) != LAKE_OK)
        fail_msg("%s: %s", sql, error.message);
    assert_true(base_str_equal_c(insert.namespace_name, namespace_name));
    assert_true(base_str_equal_c(insert.table, table));
    assert_int_equal(insert.column_count, columns);
    assert_true(base_str_equal_c(insert.columns[columns - 1], last));
    client_insert_fini(&insert);
}

static void statements_are_understood(void **state)
{
    (void)state;
    parses("INSERT INTO ns.t (a) VALUES (?)", "ns", "t", 1, "a");
    parses("insert\n into\tns . t(a ,b,c)values( ?,? , ?) ; ", "ns", "t", 3, "c");
    parses("INSERT INTO \"my ns\".\"t\"\"x\" (\"a b\") VALUES (?)", "my ns", "t\"x", 1, "a b");
    parses("INSERT INTO ns.t (größe) VALUES (?)", "ns", "t", 1, "größe");
    parses("INSERT INTO into.values (values) VALUES (?)", "into", "values", 1, "values");
}

static void others_are_refused_with_a_position(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "SELECT 1",
        "INSERT",
        "INSERTINTO ns.t (a) VALUES (?)",
        "INSERT INTO t (a) VALUES (?)",
        "INSERT INTO a.b.c (a) VALUES (?)",
        "INSERT INTO ns.t VALUES (?)",
        "INSERT INTO ns.t () VALUES ()",
        "INSERT INTO ns.t (a) VALUES (1)",
        "INSERT INTO ns.t (a) VALUES (?, ?)",
        "INSERT INTO ns.t (a, b) VALUES (?)",
        "INSERT INTO ns.t (a,) VALUES (?)",
        "INSERT INTO ns.t (a) VALUES (?) extra",
        "INSERT INTO ns.t (a) VALUES (?); DROP TABLE ns.t",
        "INSERT INTO ns.t (a) VALUES (?), (?)",
        "INSERT INTO ns.\"t (a) VALUES (?)",
        "INSERT INTO ns.\"\" (a) VALUES (?)",
        "INSERT INTO ns.t (1a) VALUES (?)",
        "INSERT INTO ns.t (a) VALUES (\xff)",
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++) {
        struct client_insert insert;
        struct lake_error error = {0};
        assert_int_equal(client_insert_parse(bad[i], &insert, &error), LAKE_INVALID_ARGUMENT);
        assert_true(error.message[0] != '\0');
    }
    struct client_insert insert;
    assert_int_equal(client_insert_parse(NULL, &insert, NULL), LAKE_INVALID_ARGUMENT);
}

/* ---- values ---- */

static lake_status check(const char *type, struct lake_value value)
{
    struct ArrowSchema field;
    assert_int_equal(arrow_type_parse(base_str_of(type), "c", &field, NULL), LAKE_OK);
    lake_status status = client_value_check(&field, &value, NULL);
    field.release(&field);
    return status;
}

static struct lake_value whole(int64_t number)
{
    return (struct lake_value){.kind = LAKE_VALUE_INT64, .as.int64 = number};
}

static void integers_fit_exactly_their_range(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        int64_t min, max;
    } ranges[] = {
        {"int8", INT8_MIN, INT8_MAX},     {"uint8", 0, UINT8_MAX},
        {"int16", INT16_MIN, INT16_MAX},  {"uint16", 0, UINT16_MAX},
        {"int32", INT32_MIN, INT32_MAX},  {"uint32", 0, UINT32_MAX},
        {"date32", INT32_MIN, INT32_MAX}, {"time32[ms]", 0, 86399999},
        {"time32[s]", 0, 86399},
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(ranges); i++) {
        assert_int_equal(check(ranges[i].type, whole(ranges[i].min)), LAKE_OK);
        assert_int_equal(check(ranges[i].type, whole(ranges[i].max)), LAKE_OK);
        assert_int_equal(check(ranges[i].type, whole(ranges[i].min - 1)), LAKE_INVALID_ARGUMENT);
        assert_int_equal(check(ranges[i].type, whole(ranges[i].max + 1)), LAKE_INVALID_ARGUMENT);
    }
    assert_int_equal(check("int64", whole(INT64_MIN)), LAKE_OK);
    assert_int_equal(check("uint64", whole(INT64_MAX)), LAKE_OK);
    assert_int_equal(check("uint64", whole(-1)), LAKE_INVALID_ARGUMENT);
    assert_int_equal(check("timestamp[us]", whole(-1)), LAKE_OK);
    assert_int_equal(check("utf8", whole(1)), LAKE_INVALID_ARGUMENT);
    assert_int_equal(check("double", whole(1)), LAKE_INVALID_ARGUMENT);
}

static void other_values_fit_their_types(void **state)
{
    (void)state;
    static const double numbers[] = {1, 2, 3};
    struct lake_value null_value = {.kind = LAKE_VALUE_NULL};
    struct lake_value text = {.kind = LAKE_VALUE_TEXT, .as.text = {"é", 2}};
    struct lake_value broken = {.kind = LAKE_VALUE_TEXT, .as.text = {"\xc3", 1}};
    struct lake_value bytes = {.kind = LAKE_VALUE_BYTES, .as.bytes = {(const uint8_t *)"abcd", 4}};
    struct lake_value list = {.kind = LAKE_VALUE_FLOAT_LIST, .as.floats = {numbers, 3}};
    struct lake_value file = {.kind = LAKE_VALUE_FILE_PATH, .as.file_path = {.path = "x"}};
    struct lake_value number = {.kind = LAKE_VALUE_DOUBLE, .as.float64 = 0.5};
    assert_int_equal(check("int64", null_value), LAKE_OK);
    assert_int_equal(check("int64!", null_value), LAKE_INVALID_ARGUMENT);
    assert_int_equal(check("utf8", text), LAKE_OK);
    assert_int_equal(check("utf8", broken), LAKE_INVALID_ARGUMENT);
    assert_int_equal(check("binary", text), LAKE_INVALID_ARGUMENT);
    assert_int_equal(check("binary", bytes), LAKE_OK);
    assert_int_equal(check("fixed_size_binary[4]", bytes), LAKE_OK);
    assert_int_equal(check("fixed_size_binary[5]", bytes), LAKE_INVALID_ARGUMENT);
    assert_int_equal(check("float[3]", list), LAKE_OK);
    assert_int_equal(check("float[4]", list), LAKE_INVALID_ARGUMENT);
    assert_int_equal(check("list<double>", list), LAKE_OK);
    assert_int_equal(check("list<int32>", list), LAKE_INVALID_ARGUMENT);
    assert_int_equal(check("FILE", file), LAKE_OK);
    assert_int_equal(check("utf8", file), LAKE_INVALID_ARGUMENT);
    assert_int_equal(check("float", number), LAKE_OK);
    assert_int_equal(check("int32", number), LAKE_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statements_are_understood),
        cmocka_unit_test(others_are_refused_with_a_position),
        cmocka_unit_test(integers_fit_exactly_their_range),
        cmocka_unit_test(other_values_fit_their_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
