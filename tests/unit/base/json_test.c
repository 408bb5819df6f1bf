/* JSON: limits on both sides, and strings that jansson reads back. */
#include <base/base.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static lake_status parse(const char *text, json_t **out, struct lake_error *err)
{
    return base_json_parse(base_bytes_of_str(base_str_of(text)), 100000, out, err);
}

static void values_are_parsed(void **state)
{
    (void)state;
    json_t *value;
    struct lake_error err = {0};
    assert_int_equal(parse("{\"a\": [1, \"x\", null]}", &value, &err), LAKE_OK);
    json_t *list = json_object_get(value, "a");
    assert_int_equal(json_array_size(list), 3);
    assert_int_equal(json_integer_value(json_array_get(list, 0)), 1);
    json_decref(value);
    assert_int_equal(parse("9223372036854775807", &value, &err), LAKE_OK);
    assert_true(json_integer_value(value) == INT64_MAX);
    json_decref(value);
}

static void malformed_texts_are_refused_without_being_quoted(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "{",
                                      "[1,]",
                                      "{\"secret\":}",
                                      "nul",
                                      "\"a",
                                      "{\"a\":1,\"a\":2}",
                                      "1 2",
                                      "\"\xFF\"",
                                      "[1] x",
                                      "9223372036854775808",
                                      "1e999",
                                      "{secret:1}",
                                      "'secret'",
                                      "\"\\u0000\"",
                                      "NaN"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++) {
        json_t *value = NULL;
        struct lake_error err = {0};
        assert_int_equal(parse(bad[i], &value, &err), LAKE_INVALID_ARGUMENT);
        assert_null(value);
        assert_null(strstr(err.message, "secret"));
    }
}

static char *nested(size_t depth)
{
    char *text = calloc(depth + 1, 2);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    return text;
}

static void depth_is_64_and_no_deeper(void **state)
{
    (void)state;
    json_t *value;
    char *text = nested(64);
    assert_int_equal(parse(text, &value, NULL), LAKE_OK);
    json_decref(value);
    free(text);
    text = nested(65);
    assert_int_equal(parse(text, &value, NULL), LAKE_INVALID_ARGUMENT);
    free(text);
    /* Brackets within strings do not count, escaped quotes do not end them. */
    char in_string[300];
    memset(in_string, '[', sizeof(in_string));
    memcpy(in_string, "\"\\\"", 3);
    memcpy(in_string + 298, "\"", 2);
    assert_int_equal(parse(in_string, &value, NULL), LAKE_OK);
    json_decref(value);
}

static void size_is_bounded(void **state)
{
    (void)state;
    json_t *value;
    assert_int_equal(base_json_parse(base_bytes_of_str(LAKE_STR("[1]")), 3, &value, NULL), LAKE_OK);
    json_decref(value);
    assert_int_equal(base_json_parse(base_bytes_of_str(LAKE_STR("[1]")), 2, &value, NULL),
                     LAKE_INVALID_ARGUMENT);
    assert_int_equal(base_json_parse((struct lake_bytes){NULL, 0}, 2, &value, NULL),
                     LAKE_INVALID_ARGUMENT);
}

static void *failing_malloc(size_t size)
{
    return base_alloc(size);
}

static void parsing_survives_every_failing_allocation(void **state)
{
    (void)state;
    json_set_alloc_funcs(failing_malloc, base_free);
    uint64_t nth = 1;
    for (bool more = true; more; nth++) {
        json_t *value = NULL;
        base_fault_fail_nth_alloc(nth);
        lake_status status = parse("{\"a\": [1, 2.5, \"x\", {\"b\": true}]}", &value, NULL);
        more = base_fault_alloc_count() >= nth;
        base_fault_fail_nth_alloc(0);
        if (!more)
            assert_int_equal(status, LAKE_OK);
        if (status == LAKE_OK)
            json_decref(value);
    }
    assert_true(nth > 5);
    json_set_alloc_funcs(malloc, free);
}

/* jansson is the oracle: what it reads back must be the text. */
static void written_strings_are_read_back(void **state)
{
    (void)state;
    char every[256 + 16];
    size_t size = 0;
    for (int c = 1; c < 128; c++)
        every[size++] = (char)c;
    memcpy(every + size, "\xC3\xA9\xE2\x82\xAC\xF0\x9F\xA4\x96", 9);
    size += 9;
    struct base_buffer buffer;
    base_buffer_init(&buffer, 10000);
    assert_int_equal(base_json_append_string(&buffer, (struct lake_str){every, size}, NULL),
                     LAKE_OK);
    json_t *value;
    assert_int_equal(base_json_parse(base_buffer_view(&buffer), 10000, &value, NULL), LAKE_OK);
    assert_int_equal(json_string_length(value), size);
    assert_memory_equal(json_string_value(value), every, size);
    json_decref(value);
    base_buffer_clear(&buffer);
    assert_int_equal(base_json_append_string(&buffer, LAKE_STR("a\0\xFF\xE2\x82z"), NULL), LAKE_OK);
    const char *expected = "\"a\\u0000\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz\"";
    assert_int_equal(buffer.size, strlen(expected));
    assert_memory_equal(buffer.data, expected, strlen(expected));
    base_buffer_clear(&buffer);
    assert_int_equal(base_json_append_string(&buffer, base_str_of(NULL), NULL), LAKE_OK);
    assert_memory_equal(buffer.data, "\"\"", 2);
    base_buffer_fini(&buffer);
}

static void string_that_does_not_fit_leaves_the_buffer(void **state)
{
    (void)state;
    for (size_t max = 0; max < 12; max++) {
        struct base_buffer buffer;
        base_buffer_init(&buffer, max);
        lake_status status = base_json_append_string(&buffer, LAKE_STR("ab\ncd\x01"), NULL);
        assert_int_equal(status, LAKE_RESOURCE_EXHAUSTED);
        assert_int_equal(buffer.size, 0);
        base_buffer_fini(&buffer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_parsed),
        cmocka_unit_test(malformed_texts_are_refused_without_being_quoted),
        cmocka_unit_test(depth_is_64_and_no_deeper),
        cmocka_unit_test(size_is_bounded),
        cmocka_unit_test(parsing_survives_every_failing_allocation),
        cmocka_unit_test(written_strings_are_read_back),
        cmocka_unit_test(string_that_does_not_fit_leaves_the_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
