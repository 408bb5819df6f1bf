/* UUIDs against RFC 9562, and clocks. */
#include "base_internal.h"
#include <base/base.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

/* RFC 9562, appendix A.6: 2022-02-22T19:22:22Z, rand_a CC3, rand_b 18C4DC0C0C07398F. */
static void rfc9562_example_of_version_7_is_reproduced(void **state)
{
    (void)state;
    static const uint8_t random[16] = {0,    0,    0,    0,    0,    0,    0x0C, 0xC3,
                                       0x18, 0xC4, 0xDC, 0x0C, 0x0C, 0x07, 0x39, 0x8F};
    struct base_uuid7_state sequence = {0};
    struct base_uuid uuid;
    char text[BASE_UUID_TEXT_BYTES];
    base_uuid7_next(&sequence, 0x017F22E279B0, random, &uuid);
    base_uuid_format(&uuid, text);
    assert_string_equal(text, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
    assert_int_equal(base_uuid_version(&uuid), 7);
    assert_true(base_uuid7_unix_ms(&uuid) == 1645557742000);
}

static void version_7_grows_when_the_clock_stands_or_goes_back(void **state)
{
    (void)state;
    static const uint8_t ones[16] = {255, 255, 255, 255, 255, 255, 255, 255,
                                     255, 255, 255, 255, 255, 255, 255, 255};
    struct base_uuid7_state sequence = {0};
    struct base_uuid last;
    base_uuid7_next(&sequence, 1000, ones, &last);
    /* The tail is at its largest: the next one must carry into the time. */
    static const uint64_t clocks[] = {1000, 1000, 999, 0, 1000, 1001, 5000, 10};
    for (size_t i = 0; i < BASE_ARRAY_LEN(clocks); i++) {
        struct base_uuid next;
        base_uuid7_next(&sequence, clocks[i], ones, &next);
        assert_true(memcmp(next.bytes, last.bytes, 16) > 0);
        assert_int_equal(base_uuid_version(&next), 7);
        assert_int_equal(next.bytes[8] >> 6, 2);
        last = next;
    }
}

static void version_7_of_one_process_grow_and_carry_the_time(void **state)
{
    (void)state;
    int64_t before = base_clock_unix_ms();
    struct base_uuid last;
    assert_int_equal(base_uuid7_new(&last, NULL), LAKE_OK);
    assert_in_range(base_uuid7_unix_ms(&last), before, before + 10000);
    for (int i = 0; i < 100000; i++) {
        struct base_uuid next;
        assert_int_equal(base_uuid7_new(&next, NULL), LAKE_OK);
        assert_true(memcmp(next.bytes, last.bytes, 16) > 0);
        last = next;
    }
}

static void version_4_has_its_bits_and_differs_every_time(void **state)
{
    (void)state;
    struct base_uuid a;
    struct base_uuid b;
    assert_int_equal(base_uuid4_new(&a, NULL), LAKE_OK);
    assert_int_equal(base_uuid4_new(&b, NULL), LAKE_OK);
    assert_int_equal(base_uuid_version(&a), 4);
    assert_int_equal(a.bytes[8] >> 6, 2);
    assert_memory_not_equal(a.bytes, b.bytes, 16);
}

static void text_is_parsed_in_either_case_and_nothing_else(void **state)
{
    (void)state;
    struct base_uuid uuid;
    char text[BASE_UUID_TEXT_BYTES];
    assert_true(base_uuid_parse(LAKE_STR("C232AB00-9414-11EC-b3c8-9f6bdeced846"), &uuid));
    base_uuid_format(&uuid, text);
    assert_string_equal(text, "c232ab00-9414-11ec-b3c8-9f6bdeced846");
    static const char *const bad[] = {"",
                                      "c232ab00-9414-11ec-b3c8-9f6bdeced84",
                                      "c232ab00-9414-11ec-b3c8-9f6bdeced8460",
                                      "c232ab00-9414-11ec-b3c8-9f6bdeced84g",
                                      "c232ab009414-11ec-b3c8-9f6bdeced8466-",
                                      "{232ab00-9414-11ec-b3c8-9f6bdeced846}",
                                      "c232ab0009414-11ec-b3c8-9f6bdeced846"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++)
        assert_false(base_uuid_parse(base_str_of(bad[i]), &uuid));
}

static void monotonic_clock_and_sleep_agree(void **state)
{
    (void)state;
    int64_t before = base_clock_monotonic_us();
    base_sleep_ms(20);
    base_sleep_ms(0);
    base_sleep_ms(-5);
    assert_true(base_clock_monotonic_us() - before >= 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc9562_example_of_version_7_is_reproduced),
        cmocka_unit_test(version_7_grows_when_the_clock_stands_or_goes_back),
        cmocka_unit_test(version_7_of_one_process_grow_and_carry_the_time),
        cmocka_unit_test(version_4_has_its_bits_and_differs_every_time),
        cmocka_unit_test(text_is_parsed_in_either_case_and_nothing_else),
        cmocka_unit_test(monotonic_clock_and_sleep_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
