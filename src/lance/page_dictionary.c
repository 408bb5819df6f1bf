/* Dictionaries of mini-block pages: indices to values, or to the keys of Arrow's dictionaries. */
#include "file_read.h"

#include <string.h>

uint64_t lance_highest_index(const uint8_t *indices, uint64_t bits, uint64_t count)
{
    uint64_t top = (uint64_t)1 << (bits - 1), mask = top | (top - 1);
    int64_t low, high;
    lance_kernels()->range_unsigned[lance_kernel_index((uint32_t)bits)](indices, count, &low,
                                                                        &high);
    return count == 0 ? 0 : ((uint64_t)high ^ top) & mask;
}

#define SHORT_STRING 16 /* copied whole, into the slack behind the last string */

/* The strings of `count` indices to `to`, and their ends counted from `end`; all of one width each,
 * so that the loop has no other branch than the one for long strings. */
#define GATHER(name, index_type, offset_type)                                                     \
    static void name(const struct lance_leaf_values *items, const uint8_t *indices,               \
                     uint64_t count, uint8_t *to, uint8_t *ends, uint64_t end)                    \
    {                                                                                             \
        const uint8_t *bytes = items->data.data, *last = bytes + items->data.size;                \
        for (uint64_t i = 0; i < count; i++) {                                                    \
            index_type index;                                                                     \
            offset_type range[2];                                                                 \
            memcpy(&index, indices + i * sizeof(index), sizeof(index));                           \
            memcpy(range, items->offsets.data + (size_t)index * sizeof(range[0]), sizeof(range)); \
            const uint8_t *from = bytes + range[0];                                               \
            const size_t size = (size_t)(range[1] - range[0]);                                    \
            if (size <= SHORT_STRING && last - from >= SHORT_STRING)                              \
                memcpy(to, from, SHORT_STRING);                                                   \
            else if (size > 0)                                                                    \
                memcpy(to, from, size);                                                           \
            to += size;                                                                           \
            end += size;                                                                          \
            const offset_type stored = (offset_type)end;                                          \
            memcpy(ends + i * sizeof(stored), &stored, sizeof(stored));                           \
        }                                                                                         \
    }
GATHER(gather_8_4, uint8_t, uint32_t)
GATHER(gather_16_4, uint16_t, uint32_t)
GATHER(gather_32_4, uint32_t, uint32_t)
GATHER(gather_64_4, uint64_t, uint32_t)
GATHER(gather_8_8, uint8_t, uint64_t)
GATHER(gather_16_8, uint16_t, uint64_t)
GATHER(gather_32_8, uint32_t, uint64_t)
GATHER(gather_64_8, uint64_t, uint64_t)

/* Looks up strings: sizes first, so that the bytes go where there is room for all of them. */
static lake_status gather_variable(const struct lance_leaf_values *items, const uint8_t *indices,
                                   uint64_t bits, uint64_t count, struct lance_leaf_values *out,
                                   struct lake_error *err)
{
    static void (*const gather[4][2])(const struct lance_leaf_values *items, const uint8_t *indices,
                                      uint64_t count, uint8_t *to, uint8_t *ends,
                                      uint64_t end) = {{gather_8_4, gather_8_8},
                                                       {gather_16_4, gather_16_8},
                                                       {gather_32_4, gather_32_8},
                                                       {gather_64_4, gather_64_8}};
    uint64_t total = 0, start, end;
    uint32_t width = out->type->offset_bytes;
    uint8_t *to;
    for (uint64_t i = 0; i < count; i++) {
        lance_leaf_values_range(items, lance_index_at(indices, bits, i), &start, &end);
        total += end - start;
    }
    lake_status status = lance_leaf_values_reserve_variable(out, count, total, &to, err);
    if (status != LAKE_OK)
        return status;
    gather[lance_kernel_index((uint32_t)bits)][width == 8](
        items, indices, count, to, out->offsets.data + out->offsets.size, out->data.size);
    out->data.size += (size_t)total;
    out->offsets.size += (size_t)count * width;
    out->count += count;
    return LAKE_OK;
}

static lake_status gather_fixed(const struct lance_leaf_values *items, const uint8_t *indices,
                                uint64_t bits, uint64_t count, struct lance_leaf_values *out,
                                struct lake_error *err)
{
    uint8_t *to;
    size_t width = (size_t)(items->type->item_bits / 8);
    lake_status status = lance_leaf_values_reserve(out, count, &to, err);
    if (status != LAKE_OK)
        return status;
    if (width == 8) {
        for (uint64_t i = 0; i < count; i++)
            memcpy(to + 8 * i, items->fixed.data + 8 * lance_index_at(indices, bits, i), 8);
    } else {
        for (uint64_t i = 0; i < count; i++)
            memcpy(to + width * i, items->fixed.data + width * lance_index_at(indices, bits, i),
                   width);
    }
    lance_leaf_values_grew(out, count);
    return LAKE_OK;
}

/* Arrow dictionary columns: a read that spans pages holds the pages' dictionaries one after the
 * other, and this page's keys are moved up by where its items start. */
lake_status lance_dictionary_place(struct lance_leaf_reader *reader, struct lake_error *err)
{
    struct lance_leaf_values *all = &reader->dictionary;
    const struct lance_leaf_values *page = &reader->page_dictionary;
    if (reader->dictionary_placed)
        return LAKE_OK;
    /* Pages written from one batch repeat the same items. */
    if (lance_leaf_values_start_with(all, page)) {
        reader->dictionary_base = 0;
        reader->dictionary_placed = true;
        return LAKE_OK;
    }
    reader->dictionary_base = all->count;
    reader->dictionary_placed = true;
    return lance_leaf_values_append_slice(all, page, 0, page->count, err);
}

static lake_status append_keys(struct lance_leaf_reader *reader, const uint8_t *indices,
                               uint64_t bits, uint64_t count, struct lance_leaf_values *out,
                               struct lake_error *err)
{
    uint64_t key_bits = reader->type.item_bits;
    uint64_t limit = lance_leaf_key_limit(&reader->type);
    uint8_t *to;
    if (reader->dictionary.count > limit + 1)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "%llu dictionary items in one read are too many for the key type: read "
                         "fewer rows at a time",
                         (unsigned long long)reader->dictionary.count);
    lake_status status = lance_leaf_values_reserve(out, count, &to, err);
    if (status != LAKE_OK)
        return status;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t key = lance_index_at(indices, bits, i) + reader->dictionary_base;
        memcpy(to + i * (key_bits / 8), &key, key_bits / 8); /* little endian */
    }
    lance_leaf_values_grew(out, count);
    return LAKE_OK;
}

lake_status lance_dictionary_look_up(struct lance_leaf_reader *reader, const uint8_t *indices,
                                     uint64_t bits, uint64_t count, struct lance_leaf_values *out,
                                     struct lake_error *err)
{
    const struct lance_leaf_values *items = &reader->page_dictionary;
    if (reader->type.kind == LANCE_LEAF_DICTIONARY)
        return append_keys(reader, indices, bits, count, out, err);
    if (reader->type.kind == LANCE_LEAF_VARIABLE)
        return gather_variable(items, indices, bits, count, out, err);
    return gather_fixed(items, indices, bits, count, out, err);
}
