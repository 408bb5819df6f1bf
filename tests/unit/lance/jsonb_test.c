/* JSON text to its binary form and back. The binary forms were read from a file of pylance 14.0.2.
 */
#include "jsonb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *text, *stored, *shown;
} documents[] = {
    {"null", "2000000000000000", "null"},
    {" true\n", "2000000040000000", "true"},
    {"false", "2000000030000000", "false"},
    {"0", "200000002000000100", "0"},
    {"-0", "200000002000000100", "0"},
    {"-0.0", "2000000020000009608000000000000000", "-0.0"},
    {"100", "20000000200000025064", "100"},
    {"1e2", "2000000020000009604059000000000000", "100.0"},
    {"12345678901234567", "200000002000000950002bdc545d6b4b87", "12345678901234567"},
    {"18446744073709551616", "20000000200000096043f0000000000000", "1.8446744073709552e+19"},
    {"NaN", "200000002000000110", "null"},
    {"Infinity", "200000002000000120", "null"},
    {"-Infinity", "200000002000000130", "null"},
    {"\"x\\u0041\\n\\ud83d\\ude00\"", "200000001000000778410af09f9880", "\"xA\\n😀\""},
    {"[]", "80000000", "[]"},
    {"{ }", "40000000", "{}"},
    {" [ 1 , 2 ] ", "80000002200000022000000250015002", "[1,2]"},
    {"{\"a\":1,\"aa\":2,\"B\":3,\"\xc3\xa9\":4}",
     "40000004100000011000000110000002100000022000000220000002200000022000000242616161c3a9"
     "5003500150025004",
     "{\"B\":3,\"a\":1,\"aa\":2,\"\xc3\xa9\":4}"},
};

static void documents_are_stored_as_the_reference_stores_them(void **state)
{
    (void)state;
    struct lance_jsonb_encoder encoder;
    struct lake_error err;
    lance_jsonb_encoder_init(&encoder);
    for (size_t i = 0; i < BASE_ARRAY_LEN(documents); i++) {
        struct lake_bytes stored;
        struct base_buffer shown;
        char hex[200];
        base_buffer_init(&shown, 1000);
        if (lance_jsonb_of_text(&encoder, base_str_of(documents[i].text), &stored, &err) != LAKE_OK)
            fail_msg("%s: %s", documents[i].text, err.message);
        base_hex_encode(stored, hex);
        assert_string_equal(hex, documents[i].stored);
        assert_int_equal(lance_jsonb_to_text(stored, &shown, &err), LAKE_OK);
        assert_int_equal(shown.size, strlen(documents[i].shown));
        assert_memory_equal(shown.data, documents[i].shown, shown.size);
        base_buffer_fini(&shown);
    }
    lance_jsonb_encoder_fini(&encoder);
}

static void what_is_no_json_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t at;
    } wrong[] = {
        {"", 0},
        {"  ", 2},
        {"nul", 0},
        {"1 2", 2},
        {"[1,]", 3},
        {"[1", 2},
        {"{\"a\"}", 4},
        {"{\"a\":}", 5},
        {"{'a':1}", 1},
        {"{\"a\":1,}", 7},
        {"01", 1},
        {"+1", 0},
        {".5", 0},
        {"5.", 2},
        {"1e", 2},
        {"-", 1},
        {"1e400", 5},
        {"\"a\nb\"", 2},
        {"\"abc", 4},
        {"\"\\x\"", 2},
        {"\"\\u12g4\"", 5},
        {"\"\\ud800\"", 7},
        {"\"\\ude00\"", 7},
        {"//", 0},
        {"\"\xff\"", 0},
        {"{\"a\":1,\"a\":2}", 13},
    };
    struct lance_jsonb_encoder encoder;
    struct lake_error err;
    struct lake_bytes stored;
    char place[40];
    lance_jsonb_encoder_init(&encoder);
    for (size_t i = 0; i < BASE_ARRAY_LEN(wrong); i++) {
        assert_int_equal(lance_jsonb_of_text(&encoder, base_str_of(wrong[i].text), &stored, &err),
                         LAKE_INVALID_ARGUMENT);
        (void)snprintf(place, sizeof(place), " at byte %zu ", wrong[i].at);
        if (strstr(err.message, place) == NULL)
            fail_msg("%s: %s, not%s", wrong[i].text, err.message, place);
    }
    lance_jsonb_encoder_fini(&encoder);
}

static void no_bytes_are_null(void **state)
{
    (void)state;
    struct base_buffer shown;
    base_buffer_init(&shown, 100);
    assert_int_equal(lance_jsonb_to_text((struct lake_bytes){NULL, 0}, &shown, NULL), LAKE_OK);
    assert_int_equal(shown.size, 4);
    assert_memory_equal(shown.data, "null", 4);
    base_buffer_fini(&shown);
}

static void nesting_ends_at_256_levels(void **state)
{
    (void)state;
    char text[2 * (LANCE_MAX_JSON_DEPTH + 1)];
    struct lance_jsonb_encoder encoder;
    struct lake_bytes stored;
    struct base_buffer shown;
    lance_jsonb_encoder_init(&encoder);
    base_buffer_init(&shown, sizeof(text));
    for (size_t depth = LANCE_MAX_JSON_DEPTH; depth <= LANCE_MAX_JSON_DEPTH + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(
            lance_jsonb_of_text(&encoder, (struct lake_str){text, 2 * depth}, &stored, NULL),
            depth <= LANCE_MAX_JSON_DEPTH ? LAKE_OK : LAKE_INVALID_ARGUMENT);
        if (depth > LANCE_MAX_JSON_DEPTH)
            continue;
        assert_int_equal(lance_jsonb_to_text(stored, &shown, NULL), LAKE_OK);
        assert_int_equal(shown.size, 2 * depth);
        assert_memory_equal(shown.data, text, 2 * depth);
    }
    base_buffer_fini(&shown);
    lance_jsonb_encoder_fini(&encoder);
}

static void every_failing_allocation_is_an_error(void **state)
{
    (void)state;
    static const char text[] = "{\"b\": [1, 2.5, {\"c\": \"text\"}], \"a\": null}";
    lake_status status = LAKE_RESOURCE_EXHAUSTED;
    for (unsigned nth = 1; status != LAKE_OK; nth++) {
        struct lance_jsonb_encoder encoder;
        struct lake_bytes stored;
        lance_jsonb_encoder_init(&encoder);
        base_fault_fail_nth_alloc(nth);
        status = lance_jsonb_of_text(&encoder, LAKE_STR(text), &stored, NULL);
        base_fault_fail_nth_alloc(0);
        assert_true(status == LAKE_OK || status == LAKE_RESOURCE_EXHAUSTED);
        assert_true(status != LAKE_OK || nth > 3);
        lance_jsonb_encoder_fini(&encoder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_are_stored_as_the_reference_stores_them),
        cmocka_unit_test(what_is_no_json_is_refused_with_its_place),
        cmocka_unit_test(no_bytes_are_null),
        cmocka_unit_test(nesting_ends_at_256_levels),
        cmocka_unit_test(every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
