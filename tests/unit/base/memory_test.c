/* Allocation, checked sizes, buffers and arenas. */
#include <base/base.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void checked_sizes_refuse_overflow_and_leave_the_result(void **state)
{
    (void)state;
    size_t size = 7;
    assert_true(base_size_add(SIZE_MAX - 1, 1, &size));
    assert_true(size == SIZE_MAX);
    size = 7;
    assert_false(base_size_add(SIZE_MAX, 1, &size));
    assert_false(base_size_mul(SIZE_MAX / 2 + 1, 2, &size));
    assert_int_equal(size, 7);
    assert_true(base_size_mul(SIZE_MAX / 2, 2, &size));
    assert_true(size == SIZE_MAX - 1);
    uint64_t number = 7;
    assert_false(base_u64_add(UINT64_MAX, 1, &number));
    assert_false(base_u64_mul(UINT64_MAX, 2, &number));
    assert_int_equal(number, 7);
    assert_true(base_u64_mul(UINT64_MAX, 1, &number));
    assert_true(number == UINT64_MAX);
    assert_int_equal(BASE_ALIGN_UP(17u, 16u), 32);
    assert_int_equal(BASE_ALIGN_UP(16u, 16u), 16);
}

static void arrays_whose_size_overflows_are_refused(void **state)
{
    (void)state;
    assert_null(base_alloc_array(SIZE_MAX / 2, 3));
    assert_null(base_calloc_array(SIZE_MAX / 2, 3));
    assert_null(base_realloc_array(NULL, SIZE_MAX / 2, 3));
    void *empty = base_alloc(0);
    assert_non_null(empty);
    base_free(empty);
    uint8_t *zeros = base_calloc_array(4, 4);
    for (int i = 0; i < 16; i++)
        assert_int_equal(zeros[i], 0);
    base_free(zeros);
}

static void large_blocks_are_whole_and_may_fail(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, (2 << 20) - 1, 2 << 20, (5 << 20) + 1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint8_t *block = base_alloc_large(sizes[i]);
        assert_non_null(block);
        memset(block, 0xA5, sizes[i]);
        if (sizes[i] >= 2 << 20)
            assert_int_equal((uintptr_t)block % (2 << 20), 0);
        base_free(block);
        base_fault_fail_nth_alloc(1);
        assert_null(base_alloc_large(sizes[i]));
    }
    assert_null(base_alloc_large(SIZE_MAX));
}

static void strings_are_copied_and_formatted(void **state)
{
    (void)state;
    char *copy = base_strndup("abcdef", 3);
    assert_string_equal(copy, "abc");
    base_free(copy);
    copy = base_strndup(NULL, 0);
    assert_string_equal(copy, "");
    base_free(copy);
    copy = base_format("%s-%d", "part", 12);
    assert_string_equal(copy, "part-12");
    base_free(copy);
}

static void buffer_takes_exactly_its_maximum(void **state)
{
    (void)state;
    struct base_buffer buffer;
    struct lake_error err;
    base_buffer_init(&buffer, 1000);
    assert_int_equal(base_buffer_append_zeros(&buffer, 999, &err), LAKE_OK);
    assert_int_equal(base_buffer_append(&buffer, "xy", 2, &err), LAKE_RESOURCE_EXHAUSTED);
    assert_int_equal(buffer.size, 999);
    assert_int_equal(base_buffer_append(&buffer, "x", 1, &err), LAKE_OK);
    assert_int_equal(buffer.size, 1000);
    assert_int_equal(buffer.data[999], 'x');
    assert_int_equal(base_buffer_reserve(&buffer, SIZE_MAX, &err), LAKE_RESOURCE_EXHAUSTED);
    base_buffer_clear(&buffer);
    assert_int_equal(base_buffer_view(&buffer).size, 0);
    base_buffer_fini(&buffer);
}

static void buffer_printf_fills_to_the_limit_and_handles_long_texts(void **state)
{
    (void)state;
    struct base_buffer buffer;
    struct lake_error err;
    base_buffer_init(&buffer, 5);
    assert_int_equal(base_buffer_printf(&buffer, &err, "%d", 12345), LAKE_OK);
    assert_memory_equal(buffer.data, "12345", 5);
    assert_int_equal(base_buffer_printf(&buffer, &err, "6"), LAKE_RESOURCE_EXHAUSTED);
    base_buffer_fini(&buffer);
    base_buffer_init(&buffer, 3000);
    assert_int_equal(base_buffer_printf(&buffer, &err, "%2000d", 7), LAKE_OK);
    assert_int_equal(buffer.size, 2000);
    assert_int_equal(buffer.data[1999], '7');
    size_t size;
    uint8_t *taken = base_buffer_take(&buffer, &size);
    assert_int_equal(size, 2000);
    assert_null(buffer.data);
    base_free(taken);
    base_buffer_fini(&buffer);
}

/* Protobuf's encoding guide: 150 is 96 01. */
static void varints_are_those_of_protobuf(void **state)
{
    (void)state;
    struct base_buffer buffer;
    base_buffer_init(&buffer, 100);
    assert_int_equal(base_buffer_append_varint(&buffer, 150, NULL), LAKE_OK);
    assert_int_equal(base_buffer_append_varint(&buffer, 0, NULL), LAKE_OK);
    assert_int_equal(base_buffer_append_varint(&buffer, UINT64_MAX, NULL), LAKE_OK);
    static const uint8_t expected[] = {0x96, 0x01, 0x00, 0xFF, 0xFF, 0xFF, 0xFF,
                                       0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01};
    assert_int_equal(buffer.size, sizeof(expected));
    assert_memory_equal(buffer.data, expected, sizeof(expected));
    base_buffer_fini(&buffer);
}

static void buffer_is_as_before_when_memory_runs_out(void **state)
{
    (void)state;
    struct base_buffer buffer;
    struct lake_error err;
    base_buffer_init(&buffer, 10000);
    assert_int_equal(base_buffer_append(&buffer, "abc", 3, &err), LAKE_OK);
    base_fault_fail_nth_alloc(1);
    assert_int_equal(base_buffer_append_zeros(&buffer, 5000, &err), LAKE_RESOURCE_EXHAUSTED);
    base_fault_fail_nth_alloc(0);
    assert_int_equal(buffer.size, 3);
    assert_memory_equal(buffer.data, "abc", 3);
    base_buffer_fini(&buffer);
}

static void arena_pieces_are_aligned_apart_and_zeroed_on_request(void **state)
{
    (void)state;
    struct base_arena *arena;
    assert_int_equal(base_arena_new(10 * 1024 * 1024, &arena, NULL), LAKE_OK);
    uint8_t *pieces[3000];
    for (size_t i = 0; i < BASE_ARRAY_LEN(pieces); i++) {
        size_t size = i % 300 == 299 ? 20000 : i % 97;
        pieces[i] = base_arena_alloc(arena, size);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        memset(pieces[i], (int)(i & 0xFF), size);
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(pieces); i++) {
        size_t size = i % 300 == 299 ? 20000 : i % 97;
        for (size_t j = 0; j < size; j++)
            assert_int_equal(pieces[i][j], i & 0xFF);
    }
    uint32_t *zeros = base_arena_calloc_array(arena, 100, sizeof(*zeros));
    for (int i = 0; i < 100; i++)
        assert_int_equal(zeros[i], 0);
    assert_string_equal(base_arena_strndup(arena, "abcdef", 3), "abc");
    assert_null(base_arena_calloc_array(arena, SIZE_MAX, 2));
    assert_null(base_arena_alloc(arena, SIZE_MAX));
    base_arena_free(arena);
    base_arena_free(NULL);
}

static void arena_gives_its_maximum_and_not_a_byte_more(void **state)
{
    (void)state;
    struct base_arena *arena;
    assert_int_equal(base_arena_new(64, &arena, NULL), LAKE_OK);
    assert_non_null(base_arena_alloc(arena, 48));
    assert_null(base_arena_alloc(arena, 17));
    assert_non_null(base_arena_alloc(arena, 16));
    assert_null(base_arena_alloc(arena, 0));
    base_arena_free(arena);
}

static void arena_survives_every_failing_allocation(void **state)
{
    (void)state;
    uint64_t nth = 1;
    for (bool more = true; more; nth++) {
        base_fault_fail_nth_alloc(nth);
        struct base_arena *arena;
        if (base_arena_new(1 << 20, &arena, NULL) == LAKE_OK) {
            for (int i = 0; i < 10; i++)
                (void)base_arena_alloc(arena, 3000);
            base_arena_free(arena);
        }
        more = base_fault_alloc_count() >= nth;
        base_fault_fail_nth_alloc(0);
    }
    assert_true(nth > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checked_sizes_refuse_overflow_and_leave_the_result),
        cmocka_unit_test(arrays_whose_size_overflows_are_refused),
        cmocka_unit_test(large_blocks_are_whole_and_may_fail),
        cmocka_unit_test(strings_are_copied_and_formatted),
        cmocka_unit_test(buffer_takes_exactly_its_maximum),
        cmocka_unit_test(buffer_printf_fills_to_the_limit_and_handles_long_texts),
        cmocka_unit_test(varints_are_those_of_protobuf),
        cmocka_unit_test(buffer_is_as_before_when_memory_runs_out),
        cmocka_unit_test(arena_pieces_are_aligned_apart_and_zeroed_on_request),
        cmocka_unit_test(arena_gives_its_maximum_and_not_a_byte_more),
        cmocka_unit_test(arena_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
