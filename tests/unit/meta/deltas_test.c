/* Reference deltas (NAT-12): their bytes, checked against a layout written out here. */
#include "meta_fixture.h"

#include <openssl/sha.h>

static void put_u32(uint8_t **at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        *(*at)++ = (uint8_t)(value >> (8 * i));
}

static void put_u64(uint8_t **at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        *(*at)++ = (uint8_t)(value >> (8 * i));
}

static void put_entry(uint8_t **at, uint64_t references, const char *uri)
{
    put_u64(at, references);
    put_u32(at, (uint32_t)strlen(uri));
    memcpy(*at, uri, strlen(uri));
    *at += strlen(uri);
}

static void encode(struct base_buffer *out, const char *const *added, size_t added_count,
                   const char *const *removed, size_t removed_count, uint32_t flags)
{
    struct meta_uri_set plus = {NULL, 0, 0};
    struct meta_uri_set minus = {NULL, 0, 0};
    for (size_t i = 0; i < added_count; i++)
        assert_int_equal(meta_uri_set_add(&plus, base_str_of(added[i]), NULL), LAKE_OK);
    for (size_t i = 0; i < removed_count; i++)
        assert_int_equal(meta_uri_set_add(&minus, base_str_of(removed[i]), NULL), LAKE_OK);
    base_buffer_init(out, 1 << 20);
    assert_int_equal(meta_delta_encode(7, flags, &plus, &minus, out, NULL), LAKE_OK);
    meta_uri_set_fini(&minus);
    meta_uri_set_fini(&plus);
}

static void bytes_are_the_documented_layout(void **state)
{
    (void)state;
    static const char *const added[] = {"b", "a", "b"};
    static const char *const removed[] = {"zz"};
    struct base_buffer bytes;
    encode(&bytes, added, 3, removed, 1, 0);

    uint8_t expected[256];
    uint8_t *at = expected;
    memcpy(at, "LKDELTA1", 8);
    at += 8;
    put_u32(&at, 1);
    put_u32(&at, 0);
    put_u64(&at, 7);
    put_u64(&at, 2);
    put_u64(&at, 1);
    put_entry(&at, 1, "a");
    put_entry(&at, 2, "b");
    put_entry(&at, 1, "zz");
    SHA256(expected, (size_t)(at - expected), at);
    at += 32;
    assert_int_equal(bytes.size, at - expected);
    assert_memory_equal(bytes.data, expected, bytes.size);
    base_buffer_fini(&bytes);
}

static void decoding_gives_back_what_was_encoded(void **state)
{
    (void)state;
    static const char *const added[] = {"file:///o/tenants/t/b", "file:///o/tenants/t/a"};
    struct base_buffer bytes;
    encode(&bytes, added, 2, NULL, 0, META_DELTA_REMOVES_ALL);
    struct base_arena *arena;
    struct meta_delta delta;
    assert_int_equal(base_arena_new(1 << 20, &arena, NULL), LAKE_OK);
    assert_int_equal(meta_delta_decode(base_buffer_view(&bytes), arena, &delta, NULL), LAKE_OK);
    assert_int_equal(delta.version, 7);
    assert_int_equal(delta.flags, META_DELTA_REMOVES_ALL);
    assert_int_equal(delta.added_count, 2);
    assert_int_equal(delta.removed_count, 0);
    assert_true(base_str_equal_c(delta.added[0].uri, "file:///o/tenants/t/a"));
    assert_true(base_str_equal_c(delta.added[1].uri, "file:///o/tenants/t/b"));
    assert_int_equal(delta.added[0].references, 1);
    base_arena_free(arena);
    base_buffer_fini(&bytes);
}

static void every_changed_byte_and_every_cut_is_noticed(void **state)
{
    (void)state;
    static const char *const added[] = {"one", "two"};
    struct base_buffer bytes;
    encode(&bytes, added, 2, NULL, 0, 0);
    struct base_arena *arena;
    struct meta_delta delta;
    assert_int_equal(base_arena_new(1 << 20, &arena, NULL), LAKE_OK);
    for (size_t i = 0; i < bytes.size; i++) {
        bytes.data[i] ^= 0x10;
        assert_int_not_equal(meta_delta_decode(base_buffer_view(&bytes), arena, &delta, NULL),
                             LAKE_OK);
        bytes.data[i] ^= 0x10;
        struct lake_bytes cut = {bytes.data, i};
        assert_int_equal(meta_delta_decode(cut, arena, &delta, NULL), LAKE_DATA_LOSS);
    }
    base_arena_free(arena);
    base_buffer_fini(&bytes);
}

/* With a right digest, so that only the entries are wrong. */
static lake_status decode_entries(uint64_t count, const char *first, const char *second)
{
    uint8_t bytes[256];
    uint8_t *at = bytes;
    memcpy(at, "LKDELTA1", 8);
    at += 8;
    put_u32(&at, 1);
    put_u32(&at, 0);
    put_u64(&at, 1);
    put_u64(&at, count);
    put_u64(&at, 0);
    put_entry(&at, 1, first);
    put_entry(&at, 1, second);
    SHA256(bytes, (size_t)(at - bytes), at);
    at += 32;
    struct base_arena *arena;
    struct meta_delta delta;
    assert_int_equal(base_arena_new(1 << 20, &arena, NULL), LAKE_OK);
    lake_status status =
        meta_delta_decode((struct lake_bytes){bytes, (size_t)(at - bytes)}, arena, &delta, NULL);
    base_arena_free(arena);
    return status;
}

static void unsorted_repeated_or_miscounted_entries_are_data_loss(void **state)
{
    (void)state;
    assert_int_equal(decode_entries(2, "a", "b"), LAKE_OK);
    assert_int_equal(decode_entries(2, "b", "a"), LAKE_DATA_LOSS);
    assert_int_equal(decode_entries(2, "a", "a"), LAKE_DATA_LOSS);
    assert_int_equal(decode_entries(1, "a", "b"), LAKE_DATA_LOSS);
    assert_int_equal(decode_entries(3, "a", "b"), LAKE_DATA_LOSS);
    assert_int_equal(decode_entries(UINT64_MAX, "a", "b"), LAKE_DATA_LOSS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_the_documented_layout),
        cmocka_unit_test(decoding_gives_back_what_was_encoded),
        cmocka_unit_test(every_changed_byte_and_every_cut_is_noticed),
        cmocka_unit_test(unsorted_repeated_or_miscounted_entries_are_data_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
