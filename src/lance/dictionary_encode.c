/*
 * Dictionaries and strings: values that repeat become indices into a block of their distinct
 * values; other strings are stored as they are, compressed, or as FSST symbols.
 */
#include "file_write.h"
#include "fsst_encode.h"

#include <string.h>

#define MAX_DICTIONARY       65536 /* strings */
#define MAX_FIXED_DICTIONARY 4096  /* read whole before the first value: kept small */
#define DICTIONARY_PROBE     4096  /* values after which a hopeless dictionary is given up */
#define MIN_DICTIONARY_ROWS  64
#define MAX_STRING_LOG2      13
#define MIN_FSST_BYTES       (16U << 10) /* of strings: the table of symbols must pay */
#define MIN_BLOCK_TO_SHRINK  4096 /* bytes of a dictionary below which compressing it is no use */

#define HASH_FACTOR 0xD6E8FEB86659FD93ULL

/* A word from each end of 1 to 16 bytes: together they are all of them, since they may overlap. */
static inline void load_ends(const uint8_t *data, size_t size, uint64_t *first, uint64_t *last)
{
    if (size >= 8) {
        *first = base_load_u64le(data);
        *last = base_load_u64le(data + size - 8);
    } else if (size >= 4) {
        *first = base_load_u32le(data);
        *last = base_load_u32le(data + size - 4);
    } else {
        *first = data[0] | (uint64_t)data[size / 2] << 8;
        *last = data[size - 1];
    }
}

static inline uint64_t hash_bytes(const uint8_t *data, size_t size)
{
    uint64_t hash = 0x9E3779B97F4A7C15ULL ^ size, first, last;
    for (; size > 16; data += 8, size -= 8)
        hash = (hash ^ base_load_u64le(data)) * HASH_FACTOR, hash ^= hash >> 32;
    if (size > 0) {
        load_ends(data, size, &first, &last);
        hash = (hash ^ first) * HASH_FACTOR;
        hash = ((hash ^ hash >> 32) ^ last) * HASH_FACTOR;
    }
    return hash ^ hash >> 29;
}

static inline bool same_bytes(struct lake_bytes a, struct lake_bytes b)
{
    uint64_t a_first, a_last, b_first, b_last;
    if (a.size != b.size)
        return false;
    if (a.size == 0)
        return true;
    if (a.size > 16)
        return memcmp(a.data, b.data, a.size) == 0;
    load_ends(a.data, a.size, &a_first, &a_last);
    load_ends(b.data, b.size, &b_first, &b_last);
    return a_first == b_first && a_last == b_last;
}

struct dictionary {
    uint32_t *table; /* 1 + item number, 0 empty; a power of two, at most half full */
    uint64_t mask;
    uint64_t limit; /* of items worth having */
    struct lance_leaf_values items;
};

/* The bytes of value `i`. */
static inline struct lake_bytes value_at(const struct lance_leaf_values *values, uint64_t i)
{
    uint64_t start, end;
    if (values->type->kind == LANCE_LEAF_VARIABLE) {
        lance_leaf_values_range(values, i, &start, &end);
        return (struct lake_bytes){values->data.data + start, (size_t)(end - start)};
    }
    size_t width = (size_t)values->type->item_bits / 8;
    return (struct lake_bytes){values->fixed.data + i * width, width};
}

static lake_status add_item(struct dictionary *dictionary, struct lake_bytes value,
                            struct lake_error *err)
{
    struct lance_leaf_values *items = &dictionary->items;
    if (items->type->kind == LANCE_LEAF_VARIABLE)
        return lance_leaf_values_append_one(items, value.data, value.size, err);
    items->count++;
    return base_buffer_append(&items->fixed, value.data, value.size, err);
}

/* The number of the value among the items, added if it is new. */
static inline lake_status intern(struct dictionary *dictionary, struct lake_bytes value,
                                 uint32_t *out, struct lake_error *err)
{
    uint64_t at = hash_bytes(value.data, value.size) & dictionary->mask;
    for (; dictionary->table[at] != 0; at = (at + 1) & dictionary->mask) {
        *out = dictionary->table[at] - 1;
        if (same_bytes(value_at(&dictionary->items, *out), value))
            return LAKE_OK;
    }
    *out = (uint32_t)dictionary->items.count;
    dictionary->table[at] = *out + 1;
    return add_item(dictionary, value, err);
}

static lake_status dictionary_init(struct dictionary *dictionary,
                                   const struct lance_leaf_values *values, uint64_t limit,
                                   struct lake_error *err)
{
    uint64_t slots = 1024;
    *dictionary = (struct dictionary){.limit = limit};
    while (slots < 2 * (limit + 2))
        slots *= 2;
    dictionary->mask = slots - 1;
    dictionary->table = base_calloc_array((size_t)slots, sizeof(uint32_t));
    if (dictionary->table == NULL)
        return base_fail_no_memory(err, (size_t)slots * sizeof(uint32_t));
    lance_leaf_values_init(&dictionary->items, values->type);
    return LAKE_OK;
}

static void dictionary_fini(struct dictionary *dictionary)
{
    if (dictionary->table != NULL)
        lance_leaf_values_fini(&dictionary->items);
    base_free(dictionary->table);
}

/* Fills out->indices; *worth false when too many values differ. */
static lake_status build_dictionary(const struct lance_leaf_values *values,
                                    struct dictionary *dictionary, struct lance_value_plan *out,
                                    bool *worth, struct lake_error *err)
{
    struct lake_bytes before = {0};
    uint32_t index = 0;
    base_buffer_clear(&out->indices);
    lake_status status =
        base_buffer_reserve(&out->indices, (size_t)values->count * sizeof(uint32_t), err);
    *worth = true;
    for (uint64_t i = 0; status == LAKE_OK && *worth && i < values->count; i++) {
        struct lake_bytes value = value_at(values, i);
        /* Runs are common: the last index is right when the value is the last one. */
        if (i == 0 || !same_bytes(value, before))
            status = intern(dictionary, value, &index, err);
        if (status != LAKE_OK)
            break;
        before = value;
        base_store_u32le(out->indices.data + out->indices.size, index); /* reserved above */
        out->indices.size += sizeof(index);
        uint64_t unique = dictionary->items.count;
        *worth = unique <= dictionary->limit &&
                 (i != DICTIONARY_PROBE || unique <= DICTIONARY_PROBE / 2);
    }
    return status;
}

/* Block form of variable values: offset width, where the bytes start, offsets from 0, bytes. */
static lake_status put_variable_block(const struct lance_leaf_values *items,
                                      struct base_buffer *out, struct lake_error *err)
{
    uint32_t width = items->type->offset_bytes;
    uint64_t start = ((uint64_t)items->count + 3) * width;
    uint64_t header[2] = {8 * (uint64_t)width, start};
    lake_status status = base_buffer_append(out, &header[0], width, err);
    if (status == LAKE_OK)
        status = base_buffer_append(out, &header[1], width, err);
    if (status == LAKE_OK && items->count == 0)
        status = base_buffer_append_zeros(out, width, err);
    if (status == LAKE_OK)
        status = base_buffer_append(out, items->offsets.data, items->offsets.size, err);
    return status != LAKE_OK ? status
                             : base_buffer_append(out, items->data.data, items->data.size, err);
}

static const struct lance_encoding *variable_encoding(struct base_arena *arena, uint64_t bits)
{
    struct lance_encoding *node = lance_encoding_new(arena, LANCE_ENCODING_VARIABLE, 0, NULL);
    if (node != NULL)
        node->lengths = lance_encoding_flat(arena, bits);
    return node == NULL || node->lengths == NULL ? NULL : node;
}

/* Compresses the block if that makes it smaller; storage 2.1 has no such blocks. */
static lake_status shrink_block(const struct lance_page_plan *page, struct lance_value_plan *out,
                                struct lake_error *err)
{
    struct base_buffer *block = &out->dictionary_block, small;
    const struct lance_encode_options *options = page->options;
    if (options->minor < 2 || options->scheme == 0 || block->size < MIN_BLOCK_TO_SHRINK)
        return LAKE_OK;
    base_buffer_init(&small, SIZE_MAX / 2);
    lake_status status =
        lance_compress(page->compressor, options->scheme, base_buffer_view(block), 1, &small, err);
    if (status == LAKE_OK && small.size < block->size - block->size / 100 * options->min_saving) {
        out->dictionary = lance_encoding_general(page->arena, options->scheme, out->dictionary);
        if (out->dictionary == NULL)
            status = lance_encoding_out_of_memory(err);
        struct base_buffer swap = *block;
        *block = small;
        small = swap;
    }
    base_buffer_fini(&small);
    return status;
}

/* The items as the page's dictionary, and its encoding. */
static lake_status put_items(const struct lance_page_plan *page,
                             const struct lance_leaf_values *items, struct lance_value_plan *out,
                             struct lake_error *err)
{
    lake_status status;
    out->dictionary_items = items->count;
    if (items->type->kind == LANCE_LEAF_VARIABLE) {
        out->dictionary = variable_encoding(page->arena, 8 * (uint64_t)items->type->offset_bytes);
        status = put_variable_block(items, &out->dictionary_block, err);
    } else {
        out->dictionary = lance_encoding_flat(page->arena, items->type->item_bits);
        status =
            base_buffer_append(&out->dictionary_block, items->fixed.data, items->fixed.size, err);
    }
    if (status == LAKE_OK && out->dictionary == NULL)
        status = lance_encoding_out_of_memory(err);
    return status != LAKE_OK ? status : shrink_block(page, out, err);
}

lake_status lance_try_dictionary(const struct lance_page_plan *page, uint64_t plain,
                                 struct lance_value_plan *out, bool *worth, struct lake_error *err)
{
    const struct lance_leaf_values *values = &page->rows->values;
    bool variable = values->type->kind == LANCE_LEAF_VARIABLE;
    struct dictionary dictionary;
    *worth = false;
    if (values->count < MIN_DICTIONARY_ROWS)
        return LAKE_OK;
    uint64_t limit = BASE_MIN(values->count / page->options->dictionary_divisor,
                              (uint64_t)(variable ? MAX_DICTIONARY : MAX_FIXED_DICTIONARY));
    lake_status status = dictionary_init(&dictionary, values, limit, err);
    if (status == LAKE_OK)
        status = build_dictionary(values, &dictionary, out, worth, err);
    if (status != LAKE_OK || !*worth)
        goto out;
    const struct lance_leaf_values *items = &dictionary.items;
    struct lance_value_source indices = {.fixed = out->indices.data,
                                         .bits = 32,
                                         .count = values->count,
                                         .compressor = page->compressor};
    uint64_t bytes =
        items->data.size + items->offsets.size + items->fixed.size + lance_inline_bytes(&indices);
    *worth = (double)bytes < (double)plain * page->options->dictionary_ratio;
    if (!*worth)
        goto out;
    out->source = indices;
    status = put_items(page, items, out, err);
    if (status == LAKE_OK)
        status = lance_choose_fixed(page, true, out, &bytes, err);
out:
    dictionary_fini(&dictionary);
    return status;
}

/* ---- strings ---- */

lake_status lance_try_symbols(const struct lance_page_plan *page,
                              const struct lance_encoding *variable, uint64_t *best,
                              struct lance_value_plan *out, struct lake_error *err)
{
    const struct lance_leaf_values *values = &page->rows->values;
    bool text = strchr("uU", values->type->arrow->format[0]) != NULL;
    if (!page->options->fsst || !text || values->data.size < MIN_FSST_BYTES)
        return LAKE_OK;
    struct lance_fsst_encoder *encoder = NULL;
    struct lance_encoding *encoding = NULL;
    uint8_t *table = NULL;
    lake_status status = lance_fsst_encoder_new(values, &encoder, err);
    if (status != LAKE_OK)
        return status;
    uint64_t estimate = lance_fsst_estimate(encoder, values);
    if (estimate >= *best)
        goto out;
    *best = estimate;
    encoding = lance_encoding_new(page->arena, LANCE_ENCODING_FSST, 0, variable);
    table = base_arena_alloc(page->arena, LANCE_FSST_TABLE_BYTES);
    if (encoding == NULL || table == NULL) {
        status = lance_encoding_out_of_memory(err);
        goto out;
    }
    lance_fsst_print_table(encoder, table);
    encoding->bytes = (struct lake_bytes){table, LANCE_FSST_TABLE_BYTES};
    lance_leaf_values_init(&out->symbols, values->type);
    status = lance_fsst_encode(encoder, values, &out->symbols, err);
    out->source.values = &out->symbols;
    lance_value_plan_take(out, &lance_variable_values, encoding, MAX_STRING_LOG2, 1);
out:
    lance_fsst_encoder_free(encoder);
    return status;
}

static lake_status try_compressed_strings(const struct lance_page_plan *page,
                                          const struct lance_encoding *variable, uint64_t *best,
                                          struct lance_value_plan *out, struct lake_error *err)
{
    const struct lance_leaf_values *values = &page->rows->values;
    const struct lance_encoding *general =
        lance_encoding_general(page->arena, page->options->scheme, variable);
    uint64_t average = *best / BASE_MAX(values->count, (uint64_t)1) + 1, estimate;
    if (general == NULL)
        return lance_encoding_out_of_memory(err);
    uint64_t chunk = BASE_MAX(out->max_raw_bytes / average, (uint64_t)2);
    lake_status status = lance_value_sample(&lance_general_variable_values, general, &out->source,
                                            chunk, &estimate, err);
    if (status == LAKE_OK && estimate < *best - *best / 100 * page->options->min_saving) {
        lance_value_plan_take(out, &lance_general_variable_values, general, MAX_STRING_LOG2, 1);
        *best = estimate;
    }
    return status;
}

lake_status lance_choose_variable(const struct lance_page_plan *page, struct lance_value_plan *out,
                                  struct lake_error *err)
{
    const struct lance_encode_options *options = page->options;
    const struct lance_leaf_values *values = &page->rows->values;
    uint64_t plain = values->data.size + values->offsets.size, best = plain;
    bool worth;
    lake_status status = lance_try_dictionary(page, plain, out, &worth, err);
    if (status != LAKE_OK || worth)
        return status;
    const struct lance_encoding *encoding =
        variable_encoding(page->arena, 8 * (uint64_t)values->type->offset_bytes);
    if (encoding == NULL)
        return lance_encoding_out_of_memory(err);
    lance_value_plan_take(out, &lance_variable_values, encoding, MAX_STRING_LOG2, 1);
    out->max_raw_bytes = options->chunk_bytes;
    if (options->scheme != 0)
        status = try_compressed_strings(page, encoding, &best, out, err);
    best = best == plain ? plain - plain / 100 * options->min_saving : best;
    return status != LAKE_OK ? status : lance_try_symbols(page, encoding, &best, out, err);
}

/* Arrow dictionary columns: keys as indices, the items as they came. */
lake_status lance_choose_arrow_dictionary(const struct lance_page_plan *page,
                                          struct lance_value_plan *out, struct lake_error *err)
{
    uint64_t bytes;
    lake_status status = put_items(page, &page->rows->dictionary, out, err);
    return status != LAKE_OK ? status : lance_choose_fixed(page, true, out, &bytes, err);
}
