/*
 * Portable 32-bit roaring bitmaps, written, and the one of an index. Reading is in deletion.c.
 */
#include "table.h"

#include <inttypes.h>
#include <string.h>

#define COOKIE_PLAIN     12346u
#define ARRAY_MAX        4096 /* values of a container; above: as 65,536 bits */
#define CONTAINER_WORDS  1024
#define CONTAINER_BYTES  8192
#define MAX_FRAGMENT_IDS (UINT64_C(1) << 28) /* 32 MiB of bits */

static uint32_t count_container(const uint64_t *words, size_t word_count)
{
    uint32_t count = 0;
    for (size_t i = 0; i < word_count; i++) {
        count += (uint32_t)__builtin_popcountll(words[i]);
    }
    return count;
}

static void put_u16(uint8_t **at, uint32_t value)
{
    base_store_u16le(*at, (uint16_t)value);
    *at += 2;
}

static void put_u32(uint8_t **at, uint32_t value)
{
    base_store_u32le(*at, value);
    *at += 4;
}

static void put_container(uint8_t **at, const uint64_t *words, size_t word_count, uint32_t count)
{
    if (count > ARRAY_MAX) {
        memset(*at, 0, CONTAINER_BYTES);
        for (size_t i = 0; i < word_count; i++) {
            base_store_u64le(*at + i * 8, words[i]);
        }
        *at += CONTAINER_BYTES;
        return;
    }
    for (size_t i = 0; i < word_count; i++) {
        for (uint64_t left = words[i]; left != 0; left &= left - 1) {
            put_u16(at, (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(left));
        }
    }
}

lake_status lance_roaring_encode(const uint64_t *words, uint64_t bit_count, struct base_buffer *out,
                                 struct lake_error *err)
{
    size_t word_count = (size_t)((bit_count + 63) / 64);
    size_t containers = 0;
    size_t size = 8;
    for (size_t start = 0; start < word_count; start += CONTAINER_WORDS) {
        uint32_t count =
            count_container(words + start, BASE_MIN(word_count - start, (size_t)CONTAINER_WORDS));
        if (count > 0) {
            containers++;
            size += 8 + (count > ARRAY_MAX ? CONTAINER_BYTES : count * 2);
        }
    }
    lake_status status = base_buffer_reserve(out, size, err);
    if (status != LAKE_OK) {
        return status;
    }
    uint8_t *header = out->data + out->size;
    put_u32(&header, COOKIE_PLAIN);
    put_u32(&header, (uint32_t)containers);
    uint8_t *offset = header + containers * 4;
    uint8_t *at = offset + containers * 4;
    for (size_t start = 0; start < word_count; start += CONTAINER_WORDS) {
        size_t length = BASE_MIN(word_count - start, (size_t)CONTAINER_WORDS);
        uint32_t count = count_container(words + start, length);
        if (count > 0) {
            put_u16(&header, (uint32_t)(start / CONTAINER_WORDS));
            put_u16(&header, count - 1);
            put_u32(&offset, (uint32_t)(at - (out->data + out->size)));
            put_container(&at, words + start, length, count);
        }
    }
    out->size += size;
    return LAKE_OK;
}

lake_status lance_fragment_bitmap_decode(const LancePb__IndexMetadata *index,
                                         uint64_t max_fragment_id, uint64_t **words,
                                         struct lake_error *err)
{
    if (max_fragment_id >= MAX_FRAGMENT_IDS) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "indices of a table with fragment ids up to %" PRIu64 " cannot be kept up",
                         max_fragment_id);
    }
    size_t count = (size_t)max_fragment_id / 64 + 1;
    uint64_t *bits = base_calloc_array(count, sizeof(*bits));
    if (bits == NULL) {
        return base_fail_no_memory(err, count * sizeof(*bits));
    }
    struct lake_bytes bytes = {index->fragment_bitmap.data, index->fragment_bitmap.len};
    lake_status status = lance_roaring_decode(bytes, max_fragment_id + 1, bits, err);
    if (status != LAKE_OK) {
        base_free(bits);
        return lake_fail_wrap(err, status, "the fragments that index %.*s covers cannot be read",
                              LAKE_STR_FMT(lance_pb_str(index->name)));
    }
    *words = bits;
    return LAKE_OK;
}
