/* Views, UTF-8 and decimal numbers. */
#include <base/base.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void comparison_is_by_bytes_and_length(void **state)
{
    (void)state;
    struct lake_str empty = base_str_of(NULL);
    assert_true(base_str_equal(empty, LAKE_STR("")));
    assert_true(base_str_equal_c(LAKE_STR("ab"), "ab"));
    assert_false(base_str_equal_c(LAKE_STR("ab"), "abc"));
    assert_true(base_str_has_prefix(LAKE_STR("abc"), "ab"));
    assert_true(base_str_has_prefix(empty, ""));
    assert_false(base_str_has_prefix(LAKE_STR("a"), "ab"));
    assert_true(base_str_has_suffix(LAKE_STR("abc"), "bc"));
    assert_false(base_str_has_suffix(LAKE_STR("c"), "bc"));
    assert_true(base_str_has_suffix(empty, ""));
    assert_true(base_str_equal_c(base_str_trim(LAKE_STR(" \t a b\t \r")), "a b"));
    assert_true(base_str_equal_c(base_str_trim(LAKE_STR("\r\t ")), ""));
    assert_true(base_str_equal_c(base_str_trim(empty), ""));
    assert_true(base_bytes_equal((struct lake_bytes){NULL, 0}, base_bytes_of_str(LAKE_STR(""))));
    assert_false(
        base_bytes_equal(base_bytes_of_str(LAKE_STR("a\0b")), base_bytes_of_str(LAKE_STR("a\0c"))));
}

/* Unicode 15, table 3-7, both ends of every range, and what lies just outside. */
static void utf8_is_valid_exactly_as_the_standard_says(void **state)
{
    (void)state;
    static const char *const good[] = {"",
                                       "a",
                                       "\x7F",
                                       "\xC2\x80",
                                       "\xDF\xBF",
                                       "\xE0\xA0\x80",
                                       "\xED\x9F\xBF",
                                       "\xEE\x80\x80",
                                       "\xEF\xBF\xBF",
                                       "\xF0\x90\x80\x80",
                                       "\xF4\x8F\xBF\xBF"};
    static const char *const bad[] = {"\x80",
                                      "\xBF",
                                      "\xC0\x80",
                                      "\xC1\xBF",
                                      "\xC2",
                                      "\xC2\x41",
                                      "\xE0\x9F\xBF",
                                      "\xED\xA0\x80",
                                      "\xED\xBF\xBF",
                                      "\xE1\x80",
                                      "\xE1\x80\xC0",
                                      "\xF0\x8F\xBF\xBF",
                                      "\xF4\x90\x80\x80",
                                      "\xF5\x80\x80\x80",
                                      "\xF1\x80\x80",
                                      "\xFF"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(good); i++)
        assert_true(base_utf8_valid(base_str_of(good[i])));
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++)
        assert_false(base_utf8_valid(base_str_of(bad[i])));
    assert_true(base_utf8_valid(LAKE_STR("a\0b")));
}

static void decimal_numbers_parse_up_to_the_largest_and_no_further(void **state)
{
    (void)state;
    uint64_t value = 5;
    assert_true(base_str_to_u64(LAKE_STR("0"), &value));
    assert_int_equal(value, 0);
    assert_true(base_str_to_u64(LAKE_STR("18446744073709551615"), &value));
    assert_true(value == UINT64_MAX);
    value = 5;
    static const char *const bad[] = {
        "", "18446744073709551616", "99999999999999999999", "-1", "+1", " 1", "1 ", "0x1", "1.0"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++)
        assert_false(base_str_to_u64(base_str_of(bad[i]), &value));
    assert_int_equal(value, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparison_is_by_bytes_and_length),
        cmocka_unit_test(utf8_is_valid_exactly_as_the_standard_says),
        cmocka_unit_test(decimal_numbers_parse_up_to_the_largest_and_no_further),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
