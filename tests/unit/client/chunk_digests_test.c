/* libs: client storage base */
/* Digests of chunks (OBJ-6): the records were made by Python's hashlib, with at most four digests.
 */
#define CHUNK_MAX_DIGESTS ((size_t)4)
#include "chunk_digests.c" /* NOLINT(bugprone-suspicious-include): with fewer digests */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SIZE (17 * 65536 + 100)

static uint8_t bytes[SIZE];

static const struct expected {
    int64_t size;
    int level;
    const char *record_sha256;
} expected[] = {
    {65537, 0, "362adb24ce402ef4a8c22e32930389fbf8dbbd285902ecf680f4d1a1f7e36031"},
    {131072, 0, "0b6853e52650850fedcfaabfd5b88c000b16aeb9fac4f2101c2c4e3fb04fa7b9"},
    {262144, 0, "1cf4813ea398b09b7943b959753c5a01bf5c23c033a00ff52f57d1d27b5fd251"},
    {262145, 1, "470489a2f6050558038afd54b1199674800dc7121b2ea92c698207096f25d465"},
    {327680, 1, "3726ede2fb245df7aabd5af3ed843d5d7f65fccdd9bff0c7d245b32353052990"},
    {458761, 1, "6d9b6621cd617a4c0013bbb627259670ad50e16e26dec38ac54bb54431c3c587"},
    {524288, 1, "6348ab760c14774a20daf208ddc39cad1b7899fc8e5fa4c4444ece619b7db7b0"},
    {524289, 2, "6f4c95d6b5c2b7332cc29eec197939e741a5101f6a8f96e8947185222c7481f5"},
    {589831, 2, "5d512deded2e37f15d89f49159c1da0ef0a0c44a789dac3181c25ccb8973c239"},
    {851968, 2, "039e3f4191827d7841d774c5eab40f17810965a0027afe74b0d4f5aa5577f951"},
    {1048576, 2, "cc573144875b5c9d60924e570a59031b618d022a924a7b5848455345a873b857"},
    {1048581, 3, "ab1ce8494783775cfe80b620281a48e983e128c345c9514c53aa51b54b3aef96"},
    {1114212, 3, "02c4aee4400cdc0eca82320877bb1db42b294538a4f8f4716552161d03dcb9cb"},
};

static void make_record(int64_t size, size_t piece, struct base_buffer *out)
{
    struct chunk_builder *builder = NULL;
    uint8_t sha256[BASE_SHA256_BYTES];
    uint8_t made[BASE_SHA256_BYTES];
    base_buffer_init(out, CHUNK_MAX_RECORD_BYTES);
    assert_int_equal(base_sha256_once((struct lake_bytes){bytes, (size_t)size}, sha256, NULL), 0);
    assert_int_equal(chunk_builder_new(&builder, NULL), LAKE_OK);
    for (size_t at = 0; at < (size_t)size; at += piece) {
        struct lake_bytes data = {bytes + at, BASE_MIN(piece, (size_t)size - at)};
        assert_int_equal(chunk_builder_update(builder, data, NULL), LAKE_OK);
    }
    assert_int_equal(chunk_builder_finish(builder, made, out, NULL), LAKE_OK);
    assert_memory_equal(made, sha256, sizeof(made));
    chunk_builder_free(builder);
}

static void records_are_those_of_hashlib(void **state)
{
    static const size_t pieces[] = {SIZE, 65536, 100003, 1000};
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_LEN(expected); i++) {
        for (size_t k = 0; k < BASE_ARRAY_LEN(pieces); k++) {
            struct base_buffer record;
            uint8_t digest[BASE_SHA256_BYTES];
            char hex[BASE_SHA256_HEX_BYTES];
            make_record(expected[i].size, pieces[k], &record);
            assert_int_equal(record.size, chunk_record_bytes(expected[i].size));
            assert_int_equal(base_sha256_once(base_buffer_view(&record), digest, NULL), LAKE_OK);
            base_hex_encode((struct lake_bytes){digest, sizeof(digest)}, hex);
            assert_string_equal(hex, expected[i].record_sha256);
            base_buffer_fini(&record);
        }
    }
}

static void objects_of_one_chunk_need_no_record(void **state)
{
    struct base_buffer record;
    (void)state;
    make_record(CHUNK_BYTES, SIZE, &record);
    assert_int_equal(record.size, 0);
    assert_int_equal(chunk_record_bytes(CHUNK_BYTES), 0);
    assert_int_equal(chunk_record_bytes(0), 0);
    base_buffer_fini(&record);
}

static void a_flipped_bit_of_any_chunk_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_LEN(expected); i++) {
        int64_t size = expected[i].size;
        struct base_buffer record;
        struct chunk_digests *digests = NULL;
        make_record(size, SIZE, &record);
        assert_int_equal(chunk_digests_parse(base_buffer_view(&record), &digests, NULL), LAKE_OK);
        assert_int_equal(digests->chunk_bytes, 65536 << expected[i].level);
        assert_int_equal(
            chunk_digests_check(digests, 0, (struct lake_bytes){bytes, (size_t)size}, NULL), 0);
        for (int64_t at = 0; at < size; at += digests->chunk_bytes) {
            size_t length = (size_t)BASE_MIN(digests->chunk_bytes, size - at);
            struct lake_bytes chunk = {bytes + at, length};
            assert_int_equal(chunk_digests_check(digests, at, chunk, NULL), LAKE_OK);
            bytes[at + (int64_t)length - 1] ^= 1;
            assert_int_equal(chunk_digests_check(digests, at, chunk, NULL), LAKE_DATA_LOSS);
            bytes[at + (int64_t)length - 1] ^= 1;
        }
        chunk_digests_free(digests);
        base_buffer_fini(&record);
    }
}

static void records_that_are_not_whole_are_refused(void **state)
{
    struct base_buffer record;
    struct chunk_digests *digests = NULL;
    (void)state;
    make_record(13 * CHUNK_BYTES, SIZE, &record);
    for (size_t size = 0; size < record.size; size++)
        assert_int_equal(
            chunk_digests_parse((struct lake_bytes){record.data, size}, &digests, NULL),
            LAKE_DATA_LOSS);
    for (size_t i = 0; i < record.size; i++) {
        record.data[i] ^= 4;
        lake_status status = chunk_digests_parse(base_buffer_view(&record), &digests, NULL);
        bool version = i >= MAGIC_BYTES && i < MAGIC_BYTES + 4;
        assert_int_equal(status, version ? LAKE_UNIMPLEMENTED : LAKE_DATA_LOSS);
        record.data[i] ^= 4;
    }
    assert_null(digests);
    base_buffer_fini(&record);
}

int main(void)
{
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)((uint64_t)i * 2654435761u >> 13);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_those_of_hashlib),
        cmocka_unit_test(objects_of_one_chunk_need_no_record),
        cmocka_unit_test(a_flipped_bit_of_any_chunk_is_found),
        cmocka_unit_test(records_that_are_not_whole_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
