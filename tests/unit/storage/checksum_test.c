/* The checksums against their catalogue's check values, and the instruction against plain loops. */
#include "checksum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static struct lake_bytes nine(void)
{
    return base_bytes_of_str(LAKE_STR("123456789"));
}

static void check_values_are_those_of_the_catalogue(void **state)
{
    (void)state;
    assert_int_equal(checksum_crc32c(0, nine()), 0xE3069283u);
    assert_int_equal(checksum_crc32c_portable(0, nine()), 0xE3069283u);
    assert_true(checksum_crc64nvme(0, nine()) == 0xAE8B14860A799888ull);
    assert_int_equal(checksum_crc32c(0, (struct lake_bytes){NULL, 0}), 0);
    assert_true(checksum_crc64nvme(0, (struct lake_bytes){NULL, 0}) == 0);
}

static void texts_are_big_endian_base64(void **state)
{
    (void)state;
    char text[CHECKSUM_BASE64_BYTES];
    checksum_crc32c_text(0xE3069283u, text); /* E3 06 92 83 */
    assert_string_equal(text, "4waSgw==");
    checksum_crc64nvme_text(0xAE8B14860A799888ull, text);
    assert_string_equal(text, "rosUhgp5mIg=");
}

static void instruction_and_loops_agree_at_every_size_and_split(void **state)
{
    (void)state;
    enum {
        SIZE = 100000
    };
    uint8_t *data = malloc(SIZE);
    assert_non_null(data);
    uint32_t seed = 12345;
    for (size_t i = 0; i < SIZE; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (uint8_t)(seed >> 24);
    }
    static const size_t sizes[] = {1, 7, 8, 9, 63, 8191, 24575, 24576, 24577, 49152, 73727, 99990};
    for (size_t i = 0; i < BASE_ARRAY_LEN(sizes); i++) {
        for (size_t start = 0; start < 9; start++) {
            struct lake_bytes whole = {data + start, sizes[i]};
            struct lake_bytes head = {whole.data, whole.size / 3};
            struct lake_bytes tail = {whole.data + head.size, whole.size - head.size};
            uint32_t expected = checksum_crc32c_portable(0, whole);
            assert_int_equal(checksum_crc32c(0, whole), expected);
            assert_int_equal(checksum_crc32c(checksum_crc32c(0, head), tail), expected);
            assert_true(checksum_crc64nvme(checksum_crc64nvme(0, head), tail) ==
                        checksum_crc64nvme(0, whole));
        }
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_values_are_those_of_the_catalogue),
        cmocka_unit_test(texts_are_big_endian_base64),
        cmocka_unit_test(instruction_and_loops_agree_at_every_size_and_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
