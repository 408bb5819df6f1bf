/* Status names, messages and their causes. */
#include <base/base.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

static void status_names_are_those_of_grpc(void **state)
{
    (void)state;
    static const char *const names[] = {"OK",
                                        "CANCELLED",
                                        "UNKNOWN",
                                        "INVALID_ARGUMENT",
                                        "DEADLINE_EXCEEDED",
                                        "NOT_FOUND",
                                        "ALREADY_EXISTS",
                                        "PERMISSION_DENIED",
                                        "RESOURCE_EXHAUSTED",
                                        "FAILED_PRECONDITION",
                                        "ABORTED",
                                        "OUT_OF_RANGE",
                                        "UNIMPLEMENTED",
                                        "INTERNAL",
                                        "UNAVAILABLE",
                                        "DATA_LOSS",
                                        "UNAUTHENTICATED"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(names); i++)
        assert_string_equal(lake_status_name((lake_status)i), names[i]);
    assert_string_equal(lake_status_name(LAKE_OUTCOME_UNKNOWN), "OUTCOME_UNKNOWN");
    assert_string_equal(lake_status_name((lake_status)999), "UNKNOWN");
}

static void fail_fills_code_and_message_and_clears_the_cause(void **state)
{
    (void)state;
    struct lake_error err = {.cause = "old"};
    assert_int_equal(lake_fail(&err, LAKE_NOT_FOUND, "no %s %d", "table", 7), LAKE_NOT_FOUND);
    assert_int_equal(err.code, LAKE_NOT_FOUND);
    assert_string_equal(err.message, "no table 7");
    assert_string_equal(err.cause, "");
    lake_error_clear(&err);
    assert_int_equal(err.code, LAKE_OK);
    assert_string_equal(err.message, "");
}

static void every_function_accepts_null_for_the_error(void **state)
{
    (void)state;
    assert_int_equal(lake_fail(NULL, LAKE_ABORTED, "x"), LAKE_ABORTED);
    assert_int_equal(lake_fail_wrap(NULL, LAKE_ABORTED, "x"), LAKE_ABORTED);
    assert_int_equal(base_fail_errno(NULL, ENOENT, "x"), LAKE_NOT_FOUND);
    assert_int_equal(base_fail_no_memory(NULL, 1), LAKE_RESOURCE_EXHAUSTED);
    lake_error_clear(NULL);
}

static void message_may_be_built_from_the_message_it_replaces(void **state)
{
    (void)state;
    struct lake_error err = {.message = "inner"};
    lake_fail(&err, LAKE_INTERNAL, "outer (%s)", err.message);
    assert_string_equal(err.message, "outer (inner)");
}

static void message_too_long_is_cut_at_a_character(void **state)
{
    (void)state;
    /* 1022 ASCII bytes, then a three-byte character of which only one byte would fit. */
    char text[1100];
    memset(text, 'a', sizeof(text));
    memcpy(text + 1022, "\xE2\x82\xAC", 4);
    struct lake_error err;
    lake_fail(&err, LAKE_INTERNAL, "%s", text);
    assert_int_equal(strlen(err.message), 1022);
    /* One byte earlier it still fits whole. */
    memset(text, 'a', sizeof(text));
    memcpy(text + 1020, "\xE2\x82\xACzzzz", 8);
    lake_fail(&err, LAKE_INTERNAL, "%s", text);
    assert_int_equal(strlen(err.message), 1023);
    assert_true(base_utf8_valid(base_str_of(err.message)));
}

static void wrapping_makes_the_message_the_cause_and_keeps_older_causes(void **state)
{
    (void)state;
    struct lake_error err;
    lake_fail(&err, LAKE_NOT_FOUND, "innermost");
    lake_fail_wrap(&err, LAKE_INTERNAL, "middle of %s", err.message);
    assert_string_equal(err.message, "middle of innermost");
    assert_string_equal(err.cause, "innermost");
    lake_fail_wrap(&err, LAKE_UNAVAILABLE, "outer");
    assert_string_equal(err.message, "outer");
    assert_string_equal(err.cause, "middle of innermost: innermost");
    assert_int_equal(err.code, LAKE_UNAVAILABLE);
}

static void wrapping_cuts_a_cause_that_does_not_fit(void **state)
{
    (void)state;
    struct lake_error err;
    char text[1000];
    memset(text, 'b', sizeof(text));
    text[999] = '\0';
    lake_fail(&err, LAKE_NOT_FOUND, "%s", text);
    lake_fail_wrap(&err, LAKE_INTERNAL, "outer");
    assert_int_equal(strlen(err.cause), LAKE_ERROR_CAUSE_BYTES - 1);
}

static void errno_values_map_to_the_documented_statuses(void **state)
{
    (void)state;
    static const struct {
        int number;
        lake_status status;
    } cases[] = {
        {ENOENT, LAKE_NOT_FOUND},          {EEXIST, LAKE_ALREADY_EXISTS},
        {ENOSPC, LAKE_RESOURCE_EXHAUSTED}, {EDQUOT, LAKE_RESOURCE_EXHAUSTED},
        {EMFILE, LAKE_RESOURCE_EXHAUSTED}, {ENOMEM, LAKE_RESOURCE_EXHAUSTED},
        {EACCES, LAKE_PERMISSION_DENIED},  {EPERM, LAKE_PERMISSION_DENIED},
        {EADDRINUSE, LAKE_ALREADY_EXISTS}, {EIO, LAKE_UNAVAILABLE},
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(cases); i++)
        assert_int_equal(base_status_of_errno(cases[i].number), cases[i].status);
    struct lake_error err;
    base_fail_errno(&err, ENOENT, "file %s", "f");
    assert_string_equal(err.message, "file f: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_names_are_those_of_grpc),
        cmocka_unit_test(fail_fills_code_and_message_and_clears_the_cause),
        cmocka_unit_test(every_function_accepts_null_for_the_error),
        cmocka_unit_test(message_may_be_built_from_the_message_it_replaces),
        cmocka_unit_test(message_too_long_is_cut_at_a_character),
        cmocka_unit_test(wrapping_makes_the_message_the_cause_and_keeps_older_causes),
        cmocka_unit_test(wrapping_cuts_a_cause_that_does_not_fit),
        cmocka_unit_test(errno_values_map_to_the_documented_statuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
