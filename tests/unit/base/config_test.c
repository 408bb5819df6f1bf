/* Settings from the environment, and log lines. */
#include "base_internal.h"
#include <base/base.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void numbers_are_read_within_their_range(void **state)
{
    (void)state;
    uint64_t value = 0;
    struct lake_error err = {0};
    (void)unsetenv("LAKE_TEST_SETTING");
    assert_int_equal(base_config_u64("LAKE_TEST_SETTING", 9, 1, 5, &value, &err), LAKE_OK);
    assert_int_equal(value, 9);
    (void)setenv("LAKE_TEST_SETTING", "", 1);
    assert_int_equal(base_config_u64("LAKE_TEST_SETTING", 8, 1, 5, &value, &err), LAKE_OK);
    assert_int_equal(value, 8);
    (void)setenv("LAKE_TEST_SETTING", "1", 1);
    assert_int_equal(base_config_u64("LAKE_TEST_SETTING", 8, 1, 5, &value, &err), LAKE_OK);
    assert_int_equal(value, 1);
    (void)setenv("LAKE_TEST_SETTING", "5", 1);
    assert_int_equal(base_config_u64("LAKE_TEST_SETTING", 8, 1, 5, &value, &err), LAKE_OK);
    assert_int_equal(value, 5);
    static const char *const bad[] = {"0", "6", "-1", "3x", " 3", "0x3", "99999999999999999999"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++) {
        (void)setenv("LAKE_TEST_SETTING", bad[i], 1);
        assert_int_equal(base_config_u64("LAKE_TEST_SETTING", 8, 1, 5, &value, &err),
                         LAKE_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "LAKE_TEST_SETTING"));
        assert_non_null(strstr(err.message, "from 1 to 5"));
    }
    assert_int_equal(value, 5);
}

static void booleans_and_texts_are_read(void **state)
{
    (void)state;
    bool value = false;
    struct lake_error err = {0};
    (void)unsetenv("LAKE_TEST_SETTING");
    assert_int_equal(base_config_bool("LAKE_TEST_SETTING", true, &value, &err), LAKE_OK);
    assert_true(value);
    assert_string_equal(base_config_string("LAKE_TEST_SETTING", "else"), "else");
    static const struct {
        const char *text;
        bool value;
    } good[] = {{"true", true}, {"1", true}, {"false", false}, {"0", false}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(good); i++) {
        (void)setenv("LAKE_TEST_SETTING", good[i].text, 1);
        assert_int_equal(base_config_bool("LAKE_TEST_SETTING", !good[i].value, &value, &err),
                         LAKE_OK);
        assert_int_equal(value, good[i].value);
    }
    (void)setenv("LAKE_TEST_SETTING", "yes", 1);
    assert_int_equal(base_config_bool("LAKE_TEST_SETTING", true, &value, &err),
                     LAKE_INVALID_ARGUMENT);
    assert_string_equal(base_config_string("LAKE_TEST_SETTING", "else"), "yes");
}

static size_t format_line(char *out, size_t room, const char *message, ...)
{
    va_list pairs;
    va_start(pairs, message);
    size_t size = base_log_format(out, room, 1645557742123, BASE_LOG_WARN, message, pairs);
    va_end(pairs);
    return size;
}

static void log_line_is_one_json_object(void **state)
{
    (void)state;
    char line[8192];
    size_t size = format_line(line, sizeof(line), "said \"hi\"\n", "name", "a\x01\xFF", "none",
                              (const char *)NULL, (const char *)NULL);
    const char *expected = "{\"ts\":\"2022-02-22T19:22:22.123Z\",\"level\":\"warn\","
                           "\"msg\":\"said \\\"hi\\\"\\n\",\"name\":\"a\\u0001\xEF\xBF\xBD\","
                           "\"none\":null}\n";
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(line, expected, size);
}

static void log_line_stays_json_when_it_is_too_long(void **state)
{
    (void)state;
    char value[4000];
    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    for (size_t room = 120; room < 3000; room += 7) {
        char line[3000];
        size_t size =
            format_line(line, room, "m", "a", value, "b", value, "c", "short", (const char *)NULL);
        assert_true(size <= room);
        assert_int_equal(line[size - 1], '\n');
        json_t *object;
        assert_int_equal(
            base_json_parse((struct lake_bytes){(uint8_t *)line, size}, 8192, &object, NULL),
            LAKE_OK);
        assert_string_equal(json_string_value(json_object_get(object, "msg")), "m");
        /* Below a long value's size there is room for nothing but the short pair. */
        if (room < 1000)
            assert_string_equal(json_string_value(json_object_get(object, "c")), "short");
        if (room > 1200)
            assert_int_equal(json_string_length(json_object_get(object, "a")), 1024);
        json_decref(object);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read_within_their_range),
        cmocka_unit_test(booleans_and_texts_are_read),
        cmocka_unit_test(log_line_is_one_json_object),
        cmocka_unit_test(log_line_stays_json_when_it_is_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
