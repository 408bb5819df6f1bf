/* Shared files, times, and answers of credentials services. Services are in the integration tests.
 */
#include "credentials.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static lake_status parse(struct profile *profile, const char *text, const char *name,
                         bool is_config)
{
    struct lake_error err = {.code = LAKE_OK};
    lake_status status =
        profile_parse(profile, base_str_of(text), "the file", name, is_config, &err);
    assert_null(strstr(err.message, "secret")); /* no line of a file is in a message */
    return status;
}

static void assert_value(const struct profile *profile, const char *name, const char *expected)
{
    const char *value = profile_get(profile, name);
    if (expected == NULL) {
        assert_null(value);
        return;
    }
    assert_non_null(value);
    assert_string_equal(value, expected);
}

static void profiles_are_found_by_the_names_of_each_file(void **state)
{
    (void)state;
    struct profile profile = {.count = 0};
    assert_int_equal(parse(&profile,
                           "# comment\n[default]\naws_access_key_id=D\n\n[lab]\r\n"
                           "aws_access_key_id = L \r\naws_secret_access_key=a+/b==\r\n",
                           "lab", false),
                     LAKE_OK);
    assert_int_equal(parse(&profile,
                           "[default]\nregion=us-west-1\n[lab]\nregion=wrong\n"
                           "[ profile  lab ]\nregion=eu-central-1\ns3 =\n"
                           "  addressing_style = path\n ; comment\nendpoint_url=http://h:1\n"
                           "aws_access_key_id=second\n[profile lab2]\nregion=x\n",
                           "lab", true),
                     LAKE_OK);
    assert_true(profile.found);
    assert_value(&profile, "aws_access_key_id", "L");
    assert_value(&profile, "aws_secret_access_key", "a+/b==");
    assert_value(&profile, "region", "eu-central-1");
    assert_value(&profile, "s3.addressing_style", "path");
    assert_value(&profile, "endpoint_url", "http://h:1");
    assert_value(&profile, "addressing_style", NULL);
    profile_fini(&profile);

    assert_int_equal(parse(&profile, "[default]\nregion = d", "default", true), LAKE_OK);
    assert_value(&profile, "region", "d");
    profile_fini(&profile);
    assert_int_equal(parse(&profile, "[profile x]\na=b\n", "y", true), LAKE_OK);
    assert_false(profile.found);
}

static void malformed_files_are_refused_by_line(void **state)
{
    (void)state;
    struct profile profile = {.count = 0};
    struct lake_error err = {.code = LAKE_OK};
    assert_int_equal(profile_parse(&profile, LAKE_STR("[a]\nsecret\n"), "f", "a", false, &err),
                     LAKE_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "f, line 2"));
    assert_null(strstr(err.message, "secret"));
    assert_int_equal(parse(&profile, "[a\n", "a", false), LAKE_INVALID_ARGUMENT);
    assert_int_equal(parse(&profile, "[]\n", "a", false), LAKE_INVALID_ARGUMENT);
    assert_int_equal(parse(&profile, "[b]\nsecret\n", "a", false), LAKE_OK); /* another's section */
    assert_int_equal(profile_parse(&profile, (struct lake_str){"[a]\0", 4}, "f", "a", false, NULL),
                     LAKE_INVALID_ARGUMENT);
    profile_fini(&profile);
}

static void settings_of_a_profile_are_bounded(void **state)
{
    (void)state;
    for (int count = PROFILE_MAX_VALUES; count <= PROFILE_MAX_VALUES + 1; count++) {
        struct profile profile = {.count = 0};
        char text[1024] = "[a]\n";
        for (int i = 0; i < count; i++) {
            char line[8] = {'k', (char)('a' + i / 26), (char)('a' + i % 26), '=', 'v', '\n', '\0'};
            (void)strncat(text, line, sizeof(text) - strlen(text) - 1);
        }
        assert_int_equal(parse(&profile, text, "a", false),
                         count == PROFILE_MAX_VALUES ? LAKE_OK : LAKE_INVALID_ARGUMENT);
        profile_fini(&profile);
    }
}

static void times_are_read_in_both_forms(void **state)
{
    (void)state;
    int64_t ms = 0;
    assert_true(time_parse_iso(LAKE_STR("2026-11-30T01:02:03Z"), &ms));
    assert_true(ms == 1796000523000);
    assert_true(time_parse_iso(LAKE_STR("2026-11-30T01:02:03.456Z"), &ms));
    assert_true(ms == 1796000523456);
    assert_true(time_parse_http(LAKE_STR("Mon, 30 Nov 2026 01:02:03 GMT"), &ms));
    assert_true(ms == 1796000523000);
    static const char *const bad[] = {"",
                                      "2026-11-30",
                                      "2026-13-30T01:02:03Z",
                                      "2026-11-30T01:02:03",
                                      "2026-11-30T25:02:03Z",
                                      "2026-11-30T01:02:03+02:00"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++)
        assert_false(time_parse_iso(base_str_of(bad[i]), &ms));
    assert_false(time_parse_http(LAKE_STR("Mon, 30 Nox 2026 01:02:03 GMT"), &ms));
    assert_false(time_parse_http(LAKE_STR("Mon, 30 Nov 2026 01:02:03 CET"), &ms));
    assert_true(ms == 1796000523000); /* untouched */
}

static void answers_of_services_are_read(void **state)
{
    (void)state;
    struct credentials *credentials = NULL;
    assert_int_equal(credentials_parse_json(base_bytes_of_str(LAKE_STR(
                                                "{\"Code\": \"Success\", \"AccessKeyId\": \"A\", "
                                                "\"SecretAccessKey\": \"S\", \"Token\": \"T\", "
                                                "\"Expiration\": \"2026-11-30T01:02:03Z\"}")),
                                            &credentials, NULL),
                     LAKE_OK);
    struct sign_identity identity = credentials_identity(credentials);
    assert_true(base_str_equal_c(identity.access_key_id, "A"));
    assert_memory_equal(identity.secret_key.data, "S", 1);
    assert_true(base_str_equal_c(identity.session_token, "T"));
    assert_true(credentials->expires_unix_ms == 1796000523000);
    credentials_destroy(credentials);

    static const char sts[] =
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
        "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>B</AccessKeyId>"
        "<SecretAccessKey>x&amp;y</SecretAccessKey><SessionToken>U</SessionToken>"
        "<Expiration>2026-11-30T01:02:03Z</Expiration></Credentials>"
        "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
    assert_int_equal(credentials_parse_sts(base_bytes_of_str(base_str_of(sts)), &credentials, NULL),
                     LAKE_OK);
    identity = credentials_identity(credentials);
    assert_memory_equal(identity.secret_key.data, "x&y", 3);
    assert_true(base_str_equal_c(identity.session_token, "U"));
    credentials_destroy(credentials);
}

static void bad_answers_of_services_do_not_show_what_they_hold(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "", "[]", "{\"AccessKeyId\": \"A\"}", "{\"SecretAccessKey\": \"hush\"",
        "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"hush\", \"Expiration\": \"soon\"}"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(answers); i++) {
        struct lake_error err = {.code = LAKE_OK};
        struct credentials *credentials = NULL;
        struct lake_bytes text = base_bytes_of_str(base_str_of(answers[i]));
        assert_int_equal(credentials_parse_json(text, &credentials, &err), LAKE_UNAUTHENTICATED);
        assert_null(strstr(err.message, "hush"));
        assert_null(strstr(err.cause, "hush"));
        assert_int_equal(credentials_parse_sts(text, &credentials, &err), LAKE_UNAUTHENTICATED);
        assert_null(strstr(err.message, "hush"));
        assert_null(credentials);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char answer[] = "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"S\", "
                                 "\"Token\": \"T\"}";
    lake_status status = LAKE_UNKNOWN;
    for (uint64_t nth = 1; status != LAKE_OK; nth++) {
        struct credentials *credentials = NULL;
        struct lake_error err = {.code = LAKE_OK};
        base_fault_fail_nth_alloc(nth);
        status = credentials_parse_json(base_bytes_of_str(base_str_of(answer)), &credentials, &err);
        base_fault_fail_nth_alloc(0);
        assert_true(nth < 100);
        if (status == LAKE_OK)
            credentials_destroy(credentials);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_are_found_by_the_names_of_each_file),
        cmocka_unit_test(malformed_files_are_refused_by_line),
        cmocka_unit_test(settings_of_a_profile_are_bounded),
        cmocka_unit_test(times_are_read_in_both_forms),
        cmocka_unit_test(answers_of_services_are_read),
        cmocka_unit_test(bad_answers_of_services_do_not_show_what_they_hold),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
