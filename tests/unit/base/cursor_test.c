/* The cursor: what fits is read, what does not moves nothing. */
#include <base/base.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void fixed_width_numbers_are_little_endian(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    struct base_cursor cursor = base_cursor_of((struct lake_bytes){bytes, sizeof(bytes)});
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    assert_true(base_cursor_u8(&cursor, &u8));
    assert_true(base_cursor_u16le(&cursor, &u16));
    assert_true(base_cursor_u32le(&cursor, &u32));
    assert_true(base_cursor_u64le(&cursor, &u64));
    assert_int_equal(u8, 1);
    assert_int_equal(u16, 0x0302);
    assert_int_equal(u32, 0x07060504);
    assert_true(u64 == 0x0F0E0D0C0B0A0908u);
    assert_int_equal(base_cursor_left(&cursor), 0);
    assert_false(base_cursor_u8(&cursor, &u8));
}

/* Every reader at every length below its need, in a block of exactly that size, so that a
 * sanitizer sees a single byte too many. */
static void nothing_moves_when_too_few_bytes_are_left(void **state)
{
    (void)state;
    for (size_t size = 0; size < 8; size++) {
        uint8_t *bytes = malloc(size == 0 ? 1 : size);
        memset(bytes, 0xFF, size);
        struct base_cursor cursor = base_cursor_of((struct lake_bytes){bytes, size});
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        struct lake_bytes view;
        assert_false(base_cursor_u64le(&cursor, &u64));
        if (size < 4)
            assert_false(base_cursor_u32le(&cursor, &u32));
        if (size < 2)
            assert_false(base_cursor_u16le(&cursor, &u16));
        assert_false(base_cursor_varint(&cursor, &u64));
        assert_false(base_cursor_take(&cursor, size + 1, &view));
        assert_false(base_cursor_take(&cursor, SIZE_MAX, &view));
        assert_false(base_cursor_skip(&cursor, size + 1));
        assert_false(base_cursor_length_delimited(&cursor, &view));
        assert_int_equal(cursor.position, 0);
        assert_true(base_cursor_take(&cursor, size, &view));
        assert_int_equal(view.size, size);
        free(bytes);
    }
}

static void empty_view_of_null_reads_nothing(void **state)
{
    (void)state;
    struct base_cursor cursor = base_cursor_of((struct lake_bytes){NULL, 0});
    struct lake_bytes view = {(const uint8_t *)"x", 1};
    assert_true(base_cursor_take(&cursor, 0, &view));
    assert_int_equal(view.size, 0);
    uint8_t u8;
    assert_false(base_cursor_u8(&cursor, &u8));
}

static bool varint_of(const char *bytes, size_t size, uint64_t *value, size_t *used)
{
    struct base_cursor cursor = base_cursor_of((struct lake_bytes){(const uint8_t *)bytes, size});
    bool ok = base_cursor_varint(&cursor, value);
    *used = cursor.position;
    return ok;
}

static void varints_of_up_to_64_bits_are_read_and_longer_ones_refused(void **state)
{
    (void)state;
    uint64_t value;
    size_t used;
    assert_true(varint_of("\x96\x01", 2, &value, &used));
    assert_int_equal(value, 150);
    assert_true(varint_of("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 10, &value, &used));
    assert_true(value == UINT64_MAX);
    assert_int_equal(used, 10);
    /* 65 bits; eleven bytes; cut short. */
    assert_false(varint_of("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", 10, &value, &used));
    assert_false(varint_of("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11, &value, &used));
    assert_false(varint_of("\x80", 1, &value, &used));
    assert_int_equal(used, 0);
}

static void varints_survive_writing_and_reading(void **state)
{
    (void)state;
    for (unsigned shift = 0; shift < 64; shift++) {
        for (int delta = -1; delta <= 1; delta++) {
            uint64_t value = ((uint64_t)1 << shift) + (uint64_t)delta;
            struct base_buffer buffer;
            base_buffer_init(&buffer, 10);
            assert_int_equal(base_buffer_append_varint(&buffer, value, NULL), LAKE_OK);
            struct base_cursor cursor = base_cursor_of(base_buffer_view(&buffer));
            uint64_t back = 0;
            assert_true(base_cursor_varint(&cursor, &back));
            assert_true(back == value);
            assert_int_equal(base_cursor_left(&cursor), 0);
            base_buffer_fini(&buffer);
        }
    }
}

static bool tag_of(uint64_t tag, uint32_t *field, uint32_t *type)
{
    struct base_buffer buffer;
    base_buffer_init(&buffer, 10);
    assert_int_equal(base_buffer_append_varint(&buffer, tag, NULL), LAKE_OK);
    struct base_cursor cursor = base_cursor_of(base_buffer_view(&buffer));
    bool ok = base_cursor_tag(&cursor, field, type);
    assert_int_equal(cursor.position, ok ? buffer.size : 0);
    base_buffer_fini(&buffer);
    return ok;
}

static void tags_are_read_within_protobufs_limits(void **state)
{
    (void)state;
    uint32_t field;
    uint32_t type;
    assert_true(tag_of(0x12, &field, &type)); /* field 2, length-delimited */
    assert_int_equal(field, 2);
    assert_int_equal(type, 2);
    assert_true(tag_of(((uint64_t)1 << 32) - 8 + 5, &field, &type)); /* field 2^29 - 1 */
    assert_int_equal(field, (1 << 29) - 1);
    assert_false(tag_of((uint64_t)1 << 32, &field, &type)); /* field 2^29 */
    assert_false(tag_of(0x02, &field, &type));              /* field 0 */
    static const uint64_t unknown_types[] = {3, 4, 6, 7};
    for (size_t i = 0; i < BASE_ARRAY_LEN(unknown_types); i++)
        assert_false(tag_of(8 | unknown_types[i], &field, &type));
}

static void fields_are_skipped_by_their_wire_type(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x96, 0x01, 1, 2, 3, 4, 5, 6, 7, 8, 2, 'h', 'i', 1, 2, 3, 4, 9};
    struct base_cursor cursor = base_cursor_of((struct lake_bytes){bytes, sizeof(bytes)});
    assert_true(base_cursor_skip_field(&cursor, 0));
    assert_int_equal(cursor.position, 2);
    assert_true(base_cursor_skip_field(&cursor, 1));
    assert_int_equal(cursor.position, 10);
    assert_true(base_cursor_skip_field(&cursor, 2));
    assert_int_equal(cursor.position, 13);
    assert_true(base_cursor_skip_field(&cursor, 5));
    assert_int_equal(cursor.position, 17);
    assert_false(base_cursor_skip_field(&cursor, 2)); /* says 9 bytes, has none */
    assert_false(base_cursor_skip_field(&cursor, 3));
    assert_int_equal(cursor.position, 17);
}

static void length_that_would_wrap_is_refused(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 1};
    struct base_cursor cursor = base_cursor_of((struct lake_bytes){bytes, sizeof(bytes)});
    struct lake_bytes view;
    assert_false(base_cursor_length_delimited(&cursor, &view));
    assert_int_equal(cursor.position, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_width_numbers_are_little_endian),
        cmocka_unit_test(nothing_moves_when_too_few_bytes_are_left),
        cmocka_unit_test(empty_view_of_null_reads_nothing),
        cmocka_unit_test(varints_of_up_to_64_bits_are_read_and_longer_ones_refused),
        cmocka_unit_test(varints_survive_writing_and_reading),
        cmocka_unit_test(tags_are_read_within_protobufs_limits),
        cmocka_unit_test(fields_are_skipped_by_their_wire_type),
        cmocka_unit_test(length_that_would_wrap_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
