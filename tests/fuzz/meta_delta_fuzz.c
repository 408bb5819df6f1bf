/* libs: meta */
/* Reference deltas: any bytes are refused or decode to a delta that encodes to the same bytes. The
 * digest at the end is put right first, so that the fuzzer gets behind it. */
#include "meta_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_entries(struct meta_uri_set *set, const struct meta_delta_entry *entries,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (uint64_t n = 0; n < entries[i].references; n++) {
            if (meta_uri_set_add(set, entries[i].uri, NULL) != LAKE_OK)
                abort();
        }
    }
}

static uint64_t references_of(const struct meta_delta *delta)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < delta->added_count && sum < 100000; i++)
        sum += BASE_MIN(delta->added[i].references, 100000U);
    for (size_t i = 0; i < delta->removed_count && sum < 100000; i++)
        sum += BASE_MIN(delta->removed[i].references, 100000U);
    return sum;
}

static void encode_again(const struct meta_delta *delta, struct lake_bytes original)
{
    struct meta_uri_set added = {NULL, 0, 0};
    struct meta_uri_set removed = {NULL, 0, 0};
    struct base_buffer out;
    base_buffer_init(&out, 1 << 24);
    add_entries(&added, delta->added, delta->added_count);
    add_entries(&removed, delta->removed, delta->removed_count);
    if (meta_delta_encode(delta->version, delta->flags, &added, &removed, &out, NULL) != LAKE_OK ||
        !base_bytes_equal(base_buffer_view(&out), original))
        abort();
    base_buffer_fini(&out);
    meta_uri_set_fini(&removed);
    meta_uri_set_fini(&added);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base_arena *arena = NULL;
    struct meta_delta delta;
    if (size > (1 << 20) || base_arena_new(1 << 22, &arena, NULL) != LAKE_OK)
        return 0;
    (void)meta_delta_decode((struct lake_bytes){data, size}, arena, &delta, NULL);
    if (size >= BASE_SHA256_BYTES) {
        uint8_t *copy = base_alloc(size);
        if (copy == NULL)
            abort();
        memcpy(copy, data, size);
        struct lake_bytes content = {copy, size - BASE_SHA256_BYTES};
        if (base_sha256_once(content, copy + content.size, NULL) != LAKE_OK)
            abort();
        struct lake_bytes bytes = {copy, size};
        if (meta_delta_decode(bytes, arena, &delta, NULL) == LAKE_OK &&
            references_of(&delta) < 100000)
            encode_again(&delta, bytes);
        base_free(copy);
    }
    base_arena_free(arena);
    return 0;
}
