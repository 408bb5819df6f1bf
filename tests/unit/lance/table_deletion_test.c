/* Deletion vectors: the roaring format against a plain array of booleans. */
#include "table_fixture.h"

#include <stdlib.h>

#define ROWS 200000u

static void put_u16(struct base_buffer *out, uint32_t value)
{
    uint8_t bytes[2] = {(uint8_t)value, (uint8_t)(value >> 8)};
    assert_int_equal(base_buffer_append(out, bytes, 2, NULL), LAKE_OK);
}

static void put_u32(struct base_buffer *out, uint32_t value)
{
    put_u16(out, value & 0xffff);
    put_u16(out, value >> 16);
}

static uint32_t count_in(const bool *rows, uint32_t container)
{
    uint32_t count = 0;
    for (uint32_t i = container << 16; i < BASE_MIN((container + 1) << 16, ROWS); i++) {
        count += rows[i];
    }
    return count;
}

static void put_array(struct base_buffer *out, const bool *rows, uint32_t container)
{
    for (uint32_t i = container << 16; i < BASE_MIN((container + 1) << 16, ROWS); i++) {
        if (rows[i]) {
            put_u16(out, i & 0xffff);
        }
    }
}

static void put_bitmap(struct base_buffer *out, const bool *rows, uint32_t container)
{
    uint8_t bits[8192] = {0};
    for (uint32_t i = container << 16; i < BASE_MIN((container + 1) << 16, ROWS); i++) {
        if (rows[i]) {
            bits[(i & 0xffff) / 8] |= (uint8_t)(1u << (i % 8));
        }
    }
    assert_int_equal(base_buffer_append(out, bits, sizeof(bits), NULL), LAKE_OK);
}

static void put_runs(struct base_buffer *out, const bool *rows, uint32_t container)
{
    struct base_buffer runs;
    uint32_t count = 0;
    uint32_t end = BASE_MIN((container + 1) << 16, ROWS);
    base_buffer_init(&runs, 1 << 20);
    for (uint32_t i = container << 16; i < end; i++) {
        if (rows[i]) {
            uint32_t start = i;
            while (i + 1 < end && rows[i + 1]) {
                i++;
            }
            put_u16(&runs, start & 0xffff);
            put_u16(&runs, i - start);
            count++;
        }
    }
    put_u16(out, count);
    assert_int_equal(base_buffer_append(out, runs.data, runs.size, NULL), LAKE_OK);
    base_buffer_fini(&runs);
}

/* `as_runs`: containers of that bit are written as runs; 0: the plain form. */
static void build(struct base_buffer *out, const bool *rows, uint32_t as_runs)
{
    uint32_t keys[4];
    uint32_t count = 0;
    for (uint32_t i = 0; i < 4; i++) {
        if (count_in(rows, i) > 0) {
            keys[count++] = i;
        }
    }
    if (as_runs != 0) {
        uint8_t flags = 0;
        for (uint32_t i = 0; i < count; i++) {
            flags |= (uint8_t)((as_runs >> keys[i] & 1) << i);
        }
        put_u32(out, 12347u | (count - 1) << 16);
        assert_int_equal(base_buffer_append(out, &flags, 1, NULL), LAKE_OK);
    } else {
        put_u32(out, 12346);
        put_u32(out, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        put_u16(out, keys[i]);
        put_u16(out, count_in(rows, keys[i]) - 1);
    }
    for (uint32_t i = 0; (as_runs == 0 || count >= 4) && i < count; i++) {
        put_u32(out, 0); /* offsets, which a sequential reader does not need */
    }
    for (uint32_t i = 0; i < count; i++) {
        if ((as_runs >> keys[i] & 1) != 0) {
            put_runs(out, rows, keys[i]);
        } else if (count_in(rows, keys[i]) <= 4096) {
            put_array(out, rows, keys[i]);
        } else {
            put_bitmap(out, rows, keys[i]);
        }
    }
}

static void assert_decodes(const bool *rows, uint32_t as_runs)
{
    struct base_buffer bytes;
    struct lake_error err = {0};
    uint64_t *words = calloc((ROWS + 63) / 64, sizeof(*words));
    base_buffer_init(&bytes, 4 << 20);
    build(&bytes, rows, as_runs);
    assert_int_equal(lance_roaring_decode(base_buffer_view(&bytes), ROWS, words, &err), LAKE_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        if ((words[i / 64] >> (i % 64) & 1) != rows[i]) {
            fail_msg("row %u is wrong", i);
        }
    }
    for (size_t cut = 0; cut < bytes.size; cut += 1 + cut / 8) { /* every cut is an error */
        struct lake_bytes part = {bytes.data, cut};
        memset(words, 0, (ROWS + 63) / 64 * sizeof(*words));
        assert_int_equal(lance_roaring_decode(part, ROWS, words, &err), LAKE_DATA_LOSS);
    }
    free(words);
    base_buffer_fini(&bytes);
}

static void every_container_form_decodes(void **state)
{
    (void)state;
    bool *rows = calloc(ROWS, 1);
    uint64_t seed = 7;
    for (uint32_t i = 0; i < 65536; i++) { /* container 0: dense, a bitmap */
        rows[i] = random_next(&seed) % 2 == 0;
    }
    for (uint32_t i = 65536; i < 131072; i++) { /* 1: sparse, an array */
        rows[i] = random_next(&seed) % 100 == 0;
    }
    for (uint32_t i = 131072; i < 196608; i++) { /* 2: long runs */
        rows[i] = i / 700 % 3 == 0;
    }
    rows[ROWS - 1] = true; /* 3: one row, the last */
    for (uint32_t as_runs = 0; as_runs < 16; as_runs++) {
        assert_decodes(rows, as_runs);
    }
    memset(rows, 0, 131072); /* fewer than four containers: runs come without offsets */
    for (uint32_t as_runs = 0; as_runs < 16; as_runs += 4) {
        assert_decodes(rows, as_runs);
    }
    free(rows);
}

/* {0, 1, 2, 65535, 65536, 100000} as the reference implementation's Python binding serializes it.
 */
static void a_bitmap_that_croaring_serialized_decodes(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x3a, 0x30, 0, 0, 2,  0, 0,    0,    0,  0, 3,    0,
                                    1,    0,    1, 0, 24, 0, 0,    0,    32, 0, 0,    0,
                                    0,    0,    1, 0, 2,  0, 0xff, 0xff, 0,  0, 0xa0, 0x86};
    static const uint32_t expected[] = {0, 1, 2, 65535, 65536, 100000};
    uint64_t words[(100001 + 63) / 64] = {0};
    uint64_t count = 0;
    assert_int_equal(
        lance_roaring_decode((struct lake_bytes){bytes, sizeof(bytes)}, 100001, words, NULL),
        LAKE_OK);
    for (size_t i = 0; i < BASE_ARRAY_LEN(words); i++) {
        count += (uint64_t)__builtin_popcountll(words[i]);
    }
    assert_int_equal(count, BASE_ARRAY_LEN(expected));
    for (size_t i = 0; i < BASE_ARRAY_LEN(expected); i++) {
        assert_true((words[expected[i] / 64] >> (expected[i] % 64) & 1) != 0);
    }
    /* one row fewer in the fragment, and the last row lies outside */
    assert_int_equal(
        lance_roaring_decode((struct lake_bytes){bytes, sizeof(bytes)}, 100000, words, NULL),
        LAKE_DATA_LOSS);
}

/* {10..4999, 70000} after run_optimize(). */
static void a_bitmap_with_runs_that_croaring_serialized_decodes(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {59, 48, 1, 0, 1,  0, 0,   125, 19,  1, 0,
                                    0,  0,  1, 0, 10, 0, 125, 19,  112, 17};
    uint64_t words[(70001 + 63) / 64] = {0};
    assert_int_equal(
        lance_roaring_decode((struct lake_bytes){bytes, sizeof(bytes)}, 70001, words, NULL),
        LAKE_OK);
    for (uint32_t row = 0; row < 70001; row++) {
        bool expected = (row >= 10 && row < 5000) || row == 70000;
        assert_int_equal(words[row / 64] >> (row % 64) & 1, expected);
    }
}

static void rows_outside_the_fragment_are_refused(void **state)
{
    (void)state;
    bool *rows = calloc(ROWS, 1);
    uint64_t *words = calloc((ROWS + 63) / 64, sizeof(*words));
    for (uint32_t as_runs = 0; as_runs < 16; as_runs += 5) {
        struct base_buffer bytes;
        base_buffer_init(&bytes, 4 << 20);
        for (uint32_t i = 0; i < ROWS; i++) {
            rows[i] = i % 3 != 0;
        }
        build(&bytes, rows, as_runs);
        for (uint64_t fewer = 1; fewer < ROWS; fewer = fewer * 3 + 2) {
            uint64_t row_count = ROWS - fewer - 1;
            memset(words, 0, (ROWS + 63) / 64 * sizeof(*words));
            assert_int_equal(lance_roaring_decode(base_buffer_view(&bytes), row_count, words, NULL),
                             LAKE_DATA_LOSS);
            for (uint64_t i = BASE_ALIGN_UP(row_count, 64) / 64; i < (ROWS + 63) / 64; i++) {
                assert_int_equal(words[i], 0); /* nothing is written outside */
            }
        }
        base_buffer_fini(&bytes);
    }
    free(words);
    free(rows);
}

static void unknown_kinds_and_missing_files_are_errors(void **state)
{
    struct fixture *f = *state;
    struct lance_deletions *deletions = NULL;
    LancePb__DeletionFile file;
    lance_pb__deletion_file__init(&file);
    file.file_type = 1;
    assert_int_equal(lance_deletions_read(f->store, 0, &file, 10, &deletions, &f->err),
                     LAKE_DATA_LOSS);
    file.file_type = 0;
    assert_int_equal(lance_deletions_read(f->store, 0, &file, 10, &deletions, &f->err),
                     LAKE_DATA_LOSS);
    file.file_type = 2;
    assert_int_equal(lance_deletions_read(f->store, 0, &file, 10, &deletions, &f->err),
                     LAKE_UNIMPLEMENTED);
    assert_null(deletions);
}

/* The manifest's count is a check on what the file holds. */
static void a_count_that_differs_from_the_manifest_is_refused(void **state)
{
    struct fixture *f = *state;
    struct lance_deletions *deletions = NULL;
    static const uint8_t bytes[] = {0x3a, 0x30, 0,  0, 1, 0, 0, 0, 0, 0,
                                    1,    0,    16, 0, 0, 0, 2, 0, 5, 0};
    LancePb__DeletionFile file;
    lance_pb__deletion_file__init(&file);
    file.file_type = 1;
    file.read_version = 4;
    file.id = 9;
    OK(storage_put(f->store, LAKE_STR("_deletions/3-4-9.bin"),
                   (struct lake_bytes){bytes, sizeof(bytes)}, &f->err));
    file.num_deleted_rows = 3;
    assert_int_equal(lance_deletions_read(f->store, 3, &file, 10, &deletions, &f->err),
                     LAKE_DATA_LOSS);
    file.num_deleted_rows = 2;
    OK(lance_deletions_read(f->store, 3, &file, 10, &deletions, &f->err));
    assert_int_equal(deletions->deleted_count, 2);
    for (uint64_t row = 0; row < 10; row++) {
        assert_int_equal(lance_deletions_has(deletions, row), row == 2 || row == 5);
    }
    lance_deletions_unref(deletions);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_container_form_decodes),
        cmocka_unit_test(a_bitmap_that_croaring_serialized_decodes),
        cmocka_unit_test(a_bitmap_with_runs_that_croaring_serialized_decodes),
        cmocka_unit_test(rows_outside_the_fragment_are_refused),
        TEST(unknown_kinds_and_missing_files_are_errors),
        TEST(a_count_that_differs_from_the_manifest_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
