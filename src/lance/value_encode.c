/*
 * Choosing and running value codecs of mini-blocks.
 *
 * Candidates are measured on the page itself: bit packing and runs exactly, compression on a few
 * chunks. Compressed forms must save enough to pay for their decoding: the default balances scan
 * speed and size.
 */
#include "file_write.h"

#include <string.h>

#define SCRATCH          (LANCE_CHUNK_BUFFERS - 1) /* of the chunk's buffers, never written out */
#define SAMPLE_CHUNKS    4
#define FLAT_BYTES_2_1   ((uint64_t)16 << 10)
#define FLAT_BYTES_2_2   ((uint64_t)64 << 10)
#define SPLIT_BYTES_2_1  ((uint64_t)32 << 10)
#define STRING_BYTES_2_1 ((uint64_t)16 << 10)
#define STRING_BYTES_2_2 ((uint64_t)64 << 10)
#define MAX_STRING_LOG2  13
#define MAX_RUN          255
#define MAX_DICTIONARY   65536
#define DICTIONARY_PROBE 4096 /* values after which a hopeless dictionary is given up */

void lance_value_plan_init(struct lance_value_plan *plan)
{
    *plan = (struct lance_value_plan){.buffer_count = 1};
    base_buffer_init(&plan->indices, SIZE_MAX / 2);
    base_buffer_init(&plan->dictionary_block, SIZE_MAX / 2);
}

void lance_value_plan_fini(struct lance_value_plan *plan)
{
    base_buffer_fini(&plan->indices);
    base_buffer_fini(&plan->dictionary_block);
}

/* ---- encoders ---- */

static lake_status encode_flat(const struct lance_value_source *source,
                               const struct lance_encoding *encoding, uint64_t start,
                               uint64_t count, struct base_buffer *buffers, struct lake_error *err)
{
    (void)encoding;
    if (source->bits == 1) {
        size_t bytes = (size_t)(count + 7) / 8;
        lake_status status = base_buffer_append_zeros(&buffers[0], bytes, err);
        if (status == LAKE_OK)
            lance_bits_copy(buffers[0].data + buffers[0].size - bytes, 0,
                            source->values->booleans.bytes.data, start, count);
        return status;
    }
    size_t width = (size_t)source->bits / 8;
    return base_buffer_append(&buffers[0], source->fixed + start * width, (size_t)count * width,
                              err);
}

static lake_status encode_inline(const struct lance_value_source *source,
                                 const struct lance_encoding *encoding, uint64_t start,
                                 uint64_t count, struct base_buffer *buffers,
                                 struct lake_error *err)
{
    uint64_t block[LANCE_BLOCK_VALUES] = {0};
    uint32_t bits = (uint32_t)source->bits;
    size_t word = bits / 8;
    (void)encoding;
    memcpy(block, source->fixed + start * word, (size_t)count * word);
    uint64_t width = lance_bits_needed(bits, (const uint8_t *)block, count);
    lake_status status = base_buffer_reserve(&buffers[0], word + 128 * (size_t)width, err);
    if (status != LAKE_OK)
        return status;
    memcpy(buffers[0].data + buffers[0].size, &width, word);
    lance_bits_pack(bits, (uint32_t)width, (const uint8_t *)block,
                    buffers[0].data + buffers[0].size + word);
    buffers[0].size += word + 128 * (size_t)width;
    return LAKE_OK;
}

static lake_status encode_rle(const struct lance_value_source *source,
                              const struct lance_encoding *encoding, uint64_t start, uint64_t count,
                              struct base_buffer *buffers, struct lake_error *err)
{
    size_t width = (size_t)source->bits / 8;
    const uint8_t *at = source->fixed + start * width;
    lake_status status = LAKE_OK;
    (void)encoding;
    for (uint64_t i = 0; status == LAKE_OK && i < count;) {
        uint64_t run = i + 1;
        while (run < count && run - i < MAX_RUN &&
               memcmp(at + i * width, at + run * width, width) == 0)
            run++;
        uint8_t length = (uint8_t)(run - i);
        status = base_buffer_append(&buffers[0], at + i * width, width, err);
        if (status == LAKE_OK)
            status = base_buffer_append(&buffers[1], &length, 1, err);
        i = run;
    }
    return status;
}

static lake_status encode_split(const struct lance_value_source *source,
                                const struct lance_encoding *encoding, uint64_t start,
                                uint64_t count, struct base_buffer *buffers, struct lake_error *err)
{
    size_t width = (size_t)source->bits / 8, bytes = (size_t)count * width;
    struct base_buffer *scratch = &buffers[SCRATCH];
    base_buffer_clear(scratch);
    lake_status status = base_buffer_reserve(scratch, bytes, err);
    if (status != LAKE_OK)
        return status;
    lance_bytes_split((uint32_t)width, count, source->fixed + start * width, scratch->data);
    return lance_compress(encoding->scheme, (struct lake_bytes){scratch->data, bytes}, &buffers[0],
                          err);
}

static lake_status encode_flat_general(const struct lance_value_source *source,
                                       const struct lance_encoding *encoding, uint64_t start,
                                       uint64_t count, struct base_buffer *buffers,
                                       struct lake_error *err)
{
    size_t width = (size_t)source->bits / 8;
    return lance_compress(encoding->scheme,
                          (struct lake_bytes){source->fixed + start * width, (size_t)count * width},
                          &buffers[0], err);
}

static lake_status encode_variable(const struct lance_value_source *source,
                                   const struct lance_encoding *encoding, uint64_t start,
                                   uint64_t count, struct base_buffer *buffers,
                                   struct lake_error *err)
{
    struct base_buffer *out = &buffers[0];
    size_t width = source->values->type->offset_bytes, begin = out->size;
    size_t header = ((size_t)count + 1) * width;
    uint64_t first, from, to = 0;
    (void)encoding;
    lake_status status = base_buffer_append_zeros(out, header, err);
    if (status != LAKE_OK)
        return status;
    uint8_t *offsets = out->data + begin;
    lance_leaf_values_range(source->values, start, &first, &from);
    for (uint64_t i = 0; i <= count; i++) {
        if (i > 0)
            lance_leaf_values_range(source->values, start + i - 1, &from, &to);
        uint64_t offset = header + (i > 0 ? to - first : 0);
        if (width == 4)
            base_store_u32le(offsets + 4 * i, (uint32_t)offset);
        else
            base_store_u64le(offsets + 8 * i, offset);
    }
    if (to > first)
        status =
            base_buffer_append(out, source->values->data.data + first, (size_t)(to - first), err);
    size_t pad = BASE_ALIGN_UP(out->size, width) - out->size;
    return status != LAKE_OK ? status : base_buffer_append_zeros(out, pad, err);
}

static lake_status encode_variable_general(const struct lance_value_source *source,
                                           const struct lance_encoding *encoding, uint64_t start,
                                           uint64_t count, struct base_buffer *buffers,
                                           struct lake_error *err)
{
    struct base_buffer *scratch = &buffers[SCRATCH];
    base_buffer_clear(scratch);
    lake_status status = encode_variable(source, encoding, start, count, scratch, err);
    return status != LAKE_OK
               ? status
               : lance_compress(encoding->scheme, base_buffer_view(scratch), &buffers[0], err);
}

static lake_status encode_fsl(const struct lance_value_source *source,
                              const struct lance_encoding *encoding, uint64_t start, uint64_t count,
                              struct base_buffer *buffers, struct lake_error *err)
{
    const struct lance_leaf_values *values = source->values;
    const struct lance_leaf_type *type = values->type;
    size_t next = 0, bytes;
    lake_status status;
    (void)encoding;
    for (uint32_t depth = 0; depth < type->fsl_depth; depth++) {
        uint64_t items = lance_leaf_items_at(type, depth);
        if (!values->item_nulls[depth])
            continue;
        bytes = (size_t)(count * items + 7) / 8;
        status = base_buffer_append_zeros(&buffers[next], bytes, err);
        if (status != LAKE_OK)
            return status;
        lance_bits_copy(buffers[next++].data, 0, values->item_valid[depth].bytes.data,
                        start * items, count * items);
    }
    if (type->item_bits != 1) {
        bytes = (size_t)(type->items * (type->item_bits / 8));
        return base_buffer_append(&buffers[next], values->fixed.data + start * bytes,
                                  (size_t)count * bytes, err);
    }
    bytes = (size_t)(count * type->items + 7) / 8;
    status = base_buffer_append_zeros(&buffers[next], bytes, err);
    if (status == LAKE_OK)
        lance_bits_copy(buffers[next].data, 0, values->booleans.bytes.data, start * type->items,
                        count * type->items);
    return status;
}

static const struct lance_value_codec flat_codec = {"flat", encode_flat};
static const struct lance_value_codec inline_codec = {"inline bitpacking", encode_inline};
static const struct lance_value_codec rle_codec = {"rle", encode_rle};
static const struct lance_value_codec split_codec = {"split, compressed", encode_split};
static const struct lance_value_codec flat_general_codec = {"compressed", encode_flat_general};
static const struct lance_value_codec variable_codec = {"variable", encode_variable};
static const struct lance_value_codec variable_general_codec = {"variable, compressed",
                                                                encode_variable_general};
static const struct lance_value_codec fsl_codec = {"fixed-size list", encode_fsl};

/* ---- choosing ---- */

/* The largest power of two of values of `bits` within `bytes`, from 2 to 32768. */
static uint32_t log2_within(uint64_t bytes, uint64_t bits)
{
    uint32_t log2 = 15;
    while (log2 > 1 && ((uint64_t)1 << log2) * bits > bytes * 8)
        log2--;
    return log2;
}

static uint64_t flat_bytes(const struct lance_page_plan *page)
{
    return page->minor >= 2 ? FLAT_BYTES_2_2 : FLAT_BYTES_2_1;
}

/* What a codec makes of the whole source, by its size on a few chunks of it. */
static lake_status sample(const struct lance_value_codec *codec,
                          const struct lance_encoding *encoding,
                          const struct lance_value_source *source, uint64_t chunk,
                          uint64_t *estimate, struct lake_error *err)
{
    struct base_buffer buffers[LANCE_CHUNK_BUFFERS];
    uint64_t chunks = source->count / chunk, taken = 0, bytes = 0;
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < LANCE_CHUNK_BUFFERS; i++)
        base_buffer_init(&buffers[i], SIZE_MAX / 2);
    uint64_t step = BASE_MAX(chunks / SAMPLE_CHUNKS, (uint64_t)1);
    for (uint64_t i = 0; status == LAKE_OK && i * chunk < source->count; i += step) {
        uint64_t count = BASE_MIN(chunk, source->count - i * chunk);
        base_buffer_clear(&buffers[0]);
        status = codec->encode(source, encoding, i * chunk, count, buffers, err);
        taken += count;
        bytes += buffers[0].size;
    }
    for (size_t i = 0; i < LANCE_CHUNK_BUFFERS; i++)
        base_buffer_fini(&buffers[i]);
    if (status == LAKE_OK)
        *estimate =
            taken == 0 ? 0 : (uint64_t)((double)bytes / (double)taken * (double)source->count);
    return status;
}

static uint64_t inline_bytes(const struct lance_value_source *source)
{
    uint64_t bytes = 0, word = source->bits / 8;
    for (uint64_t i = 0; i < source->count; i += LANCE_BLOCK_VALUES) {
        uint64_t count = BASE_MIN(source->count - i, (uint64_t)LANCE_BLOCK_VALUES);
        uint32_t width = lance_bits_needed((uint32_t)source->bits, source->fixed + i * word, count);
        bytes += word + (uint64_t)128 * width + 8;
    }
    return bytes;
}

/* How often a value differs from the one before it, per width so that the loop vectorises. */
#define COUNT_CHANGES(name, type)                                       \
    static uint64_t name(const uint8_t *at, uint64_t count)             \
    {                                                                   \
        uint64_t changes = 0;                                           \
        for (uint64_t i = 1; i < count; i++) {                          \
            type before, now;                                           \
            memcpy(&before, at + (i - 1) * sizeof(type), sizeof(type)); \
            memcpy(&now, at + i * sizeof(type), sizeof(type));          \
            changes += before != now;                                   \
        }                                                               \
        return changes;                                                 \
    }
COUNT_CHANGES(count_changes8, uint8_t)
COUNT_CHANGES(count_changes16, uint16_t)
COUNT_CHANGES(count_changes32, uint32_t)
COUNT_CHANGES(count_changes64, uint64_t)

static uint64_t rle_bytes(const struct lance_value_source *source)
{
    uint64_t changes;
    if (source->bits == 8)
        changes = count_changes8(source->fixed, source->count);
    else if (source->bits == 16)
        changes = count_changes16(source->fixed, source->count);
    else if (source->bits == 32)
        changes = count_changes32(source->fixed, source->count);
    else
        changes = count_changes64(source->fixed, source->count);
    return (1 + source->count / MAX_RUN + changes) * (source->bits / 8 + 1);
}

static lake_status out_of_memory(struct lake_error *err)
{
    return base_fail_no_memory(err, sizeof(struct lance_encoding));
}

/* The encodings of the candidates for fixed values, or NULL out of memory. */
static const struct lance_encoding *flat_encoding(struct base_arena *arena, uint64_t bits)
{
    return lance_encoding_new(arena, LANCE_ENCODING_FLAT, bits, NULL);
}

static const struct lance_encoding *general_encoding(struct base_arena *arena,
                                                     const struct lance_encoding *inner)
{
    struct lance_encoding *node =
        inner == NULL ? NULL : lance_encoding_new(arena, LANCE_ENCODING_GENERAL, 0, inner);
    if (node != NULL)
        node->scheme = LANCE_LZ4;
    return node;
}

static const struct lance_encoding *rle_encoding(struct base_arena *arena, uint64_t bits)
{
    struct lance_encoding *node =
        lance_encoding_new(arena, LANCE_ENCODING_RLE, 0, flat_encoding(arena, bits));
    if (node != NULL)
        node->lengths = flat_encoding(arena, 8);
    return node == NULL || node->values == NULL || node->lengths == NULL ? NULL : node;
}

static const struct lance_encoding *split_encoding(struct base_arena *arena, uint64_t bits)
{
    const struct lance_encoding *flat = flat_encoding(arena, bits);
    return flat == NULL
               ? NULL
               : general_encoding(
                     arena, lance_encoding_new(arena, LANCE_ENCODING_BYTE_STREAM_SPLIT, 0, flat));
}

static void take(struct lance_value_plan *out, const struct lance_value_codec *codec,
                 const struct lance_encoding *encoding, uint32_t max_log2, size_t buffer_count)
{
    out->codec = codec;
    out->encoding = encoding;
    out->max_log2 = max_log2;
    out->buffer_count = buffer_count;
}

/* Compression in place of `best` bytes, if it saves a fifth. */
static lake_status try_compression(const struct lance_page_plan *page, bool split, uint64_t best,
                                   struct lance_value_plan *out, struct lake_error *err)
{
    const struct lance_value_source *source = &out->source;
    uint64_t limit = split && page->minor < 2 ? SPLIT_BYTES_2_1 : flat_bytes(page), estimate;
    uint32_t log2 = log2_within(limit, source->bits);
    const struct lance_value_codec *codec = split ? &split_codec : &flat_general_codec;
    const struct lance_encoding *encoding =
        split ? split_encoding(page->arena, source->bits)
              : general_encoding(page->arena, flat_encoding(page->arena, source->bits));
    if (encoding == NULL)
        return out_of_memory(err);
    lake_status status = sample(codec, encoding, source, (uint64_t)1 << log2, &estimate, err);
    if (status == LAKE_OK && estimate < best - best / 5)
        take(out, codec, encoding, log2, 1);
    return status;
}

/* out->source holds fixed values of 8 bits or more. */
static lake_status choose_fixed(const struct lance_page_plan *page, bool integer, bool splittable,
                                struct lance_value_plan *out, struct lake_error *err)
{
    const struct lance_value_source *source = &out->source;
    uint64_t best = source->count * (source->bits / 8);
    const struct lance_encoding *encoding = flat_encoding(page->arena, source->bits);
    if (encoding == NULL)
        return out_of_memory(err);
    take(out, &flat_codec, encoding, log2_within(flat_bytes(page), source->bits), 1);
    if (integer) {
        uint64_t packed = inline_bytes(source), runs = rle_bytes(source);
        if (packed < best - best / 20 && packed <= runs * 2) {
            encoding = lance_encoding_new(page->arena, LANCE_ENCODING_INLINE_BITPACKING,
                                          source->bits, NULL);
            take(out, &inline_codec, encoding, 10, 1);
            best = packed;
        } else if (runs < best / 4) {
            encoding = rle_encoding(page->arena, source->bits);
            take(out, &rle_codec, encoding, 12, 2);
            best = runs;
        }
        if (encoding == NULL)
            return out_of_memory(err);
    }
    if (splittable)
        return try_compression(page, true, best, out, err);
    if (!integer && source->bits >= 16)
        return try_compression(page, false, best, out, err);
    return LAKE_OK;
}

static lake_status choose_fsl(const struct lance_page_plan *page, struct lance_value_plan *out,
                              struct lake_error *err)
{
    const struct lance_leaf_values *values = &page->rows->values;
    const struct lance_leaf_type *type = values->type;
    const struct lance_encoding *inner = flat_encoding(page->arena, type->item_bits);
    size_t buffers = 1;
    for (uint32_t depth = type->fsl_depth; inner != NULL && depth-- > 0;) {
        struct lance_encoding *node =
            lance_encoding_new(page->arena, LANCE_ENCODING_FIXED_SIZE_LIST, 0, inner);
        if (node == NULL)
            return out_of_memory(err);
        node->items = type->fsl_sizes[depth];
        node->has_validity = values->item_nulls[depth];
        buffers += node->has_validity;
        inner = node;
    }
    if (inner == NULL)
        return out_of_memory(err);
    uint64_t row_bits = BASE_MAX(type->items * type->item_bits, (uint64_t)1);
    take(out, &fsl_codec, inner, log2_within(flat_bytes(page), row_bits), buffers);
    return LAKE_OK;
}

/* ---- strings ---- */

static uint64_t hash_bytes(const uint8_t *data, size_t size)
{
    uint64_t hash = 0x9E3779B97F4A7C15ULL ^ size;
    for (; size >= 8; data += 8, size -= 8)
        hash = (hash ^ base_load_u64le(data)) * 0xD6E8FEB86659FD93ULL, hash ^= hash >> 32;
    uint64_t rest = 0;
    if (size > 0)
        memcpy(&rest, data, size);
    hash = (hash ^ rest) * 0xD6E8FEB86659FD93ULL;
    return hash ^ hash >> 29;
}

struct dictionary {
    uint32_t *table; /* 1 + item number, 0 empty; a power of two, at most half full */
    uint64_t mask;
    struct lance_leaf_values items;
};

/* The number of the string among the items, added if it is new. */
static lake_status intern(struct dictionary *dictionary, const uint8_t *data, size_t size,
                          uint32_t *out, struct lake_error *err)
{
    uint64_t at = hash_bytes(data, size) & dictionary->mask;
    for (; dictionary->table[at] != 0; at = (at + 1) & dictionary->mask) {
        uint64_t start, end;
        *out = dictionary->table[at] - 1;
        lance_leaf_values_range(&dictionary->items, *out, &start, &end);
        if (end - start == size &&
            (size == 0 || memcmp(dictionary->items.data.data + start, data, size) == 0))
            return LAKE_OK;
    }
    *out = (uint32_t)dictionary->items.count;
    dictionary->table[at] = *out + 1;
    return lance_leaf_values_append_one(&dictionary->items, data, size, err);
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
        node->lengths = flat_encoding(arena, bits);
    return node == NULL || node->lengths == NULL ? NULL : node;
}

/* Fills out->indices; *worth false when too many values differ. */
static lake_status build_dictionary(const struct lance_leaf_values *values,
                                    struct dictionary *dictionary, struct lance_value_plan *out,
                                    bool *worth, struct lake_error *err)
{
    uint64_t limit = BASE_MIN(values->count / 4, (uint64_t)MAX_DICTIONARY);
    lake_status status =
        base_buffer_reserve(&out->indices, (size_t)values->count * sizeof(uint32_t), err);
    *worth = true;
    for (uint64_t i = 0; status == LAKE_OK && *worth && i < values->count; i++) {
        uint64_t start, end;
        uint32_t index;
        lance_leaf_values_range(values, i, &start, &end);
        status = intern(dictionary, values->data.data + start, (size_t)(end - start), &index, err);
        if (status != LAKE_OK)
            break;
        base_store_u32le(out->indices.data + out->indices.size, index); /* reserved above */
        out->indices.size += sizeof(index);
        uint64_t unique = dictionary->items.count;
        *worth = unique <= limit && (i != DICTIONARY_PROBE || unique <= DICTIONARY_PROBE / 2);
    }
    return status;
}

static lake_status try_dictionary(const struct lance_page_plan *page, struct lance_value_plan *out,
                                  bool *worth, struct lake_error *err)
{
    const struct lance_leaf_values *values = &page->rows->values;
    struct dictionary dictionary = {0};
    uint64_t slots = 1024, plain = values->data.size + values->offsets.size;
    *worth = false;
    if (values->count < 64)
        return LAKE_OK;
    while (slots < 2 * BASE_MIN(values->count / 4 + 2, (uint64_t)MAX_DICTIONARY + 2))
        slots *= 2;
    dictionary.mask = slots - 1;
    dictionary.table = base_calloc_array((size_t)slots, sizeof(uint32_t));
    if (dictionary.table == NULL)
        return base_fail_no_memory(err, (size_t)slots * sizeof(uint32_t));
    lance_leaf_values_init(&dictionary.items, values->type);
    lake_status status = build_dictionary(values, &dictionary, out, worth, err);
    if (status != LAKE_OK || !*worth)
        goto out;
    const struct lance_leaf_values *items = &dictionary.items;
    struct lance_value_source indices = {
        .fixed = out->indices.data, .bits = 32, .count = values->count};
    uint64_t bytes = items->data.size + items->offsets.size + inline_bytes(&indices);
    *worth = bytes < plain - plain / 5;
    if (!*worth)
        goto out;
    out->source = indices;
    out->dictionary = variable_encoding(page->arena, 8 * (uint64_t)values->type->offset_bytes);
    out->dictionary_items = items->count;
    status = out->dictionary == NULL ? out_of_memory(err)
                                     : put_variable_block(items, &out->dictionary_block, err);
    if (status == LAKE_OK)
        status = choose_fixed(page, true, false, out, err);
out:
    lance_leaf_values_fini(&dictionary.items);
    base_free(dictionary.table);
    return status;
}

static lake_status choose_variable(const struct lance_page_plan *page, struct lance_value_plan *out,
                                   struct lake_error *err)
{
    const struct lance_leaf_values *values = &page->rows->values;
    uint64_t plain = values->data.size + values->offsets.size, estimate;
    bool worth;
    lake_status status = try_dictionary(page, out, &worth, err);
    if (status != LAKE_OK || worth)
        return status;
    const struct lance_encoding *encoding =
        variable_encoding(page->arena, 8 * (uint64_t)values->type->offset_bytes);
    const struct lance_encoding *general =
        encoding == NULL ? NULL : general_encoding(page->arena, encoding);
    if (general == NULL)
        return out_of_memory(err);
    take(out, &variable_codec, encoding, MAX_STRING_LOG2, 1);
    out->max_raw_bytes = page->minor >= 2 ? STRING_BYTES_2_2 : STRING_BYTES_2_1;
    uint64_t average = plain / BASE_MAX(values->count, (uint64_t)1) + 1;
    uint64_t chunk = BASE_MAX(out->max_raw_bytes / average, (uint64_t)2);
    status = sample(&variable_general_codec, general, &out->source, chunk, &estimate, err);
    if (status == LAKE_OK && estimate < plain - plain / 10)
        take(out, &variable_general_codec, general, MAX_STRING_LOG2, 1);
    return status;
}

/* Arrow dictionary columns: keys as indices, the items as they came. */
static lake_status choose_dictionary(const struct lance_page_plan *page,
                                     struct lance_value_plan *out, struct lake_error *err)
{
    const struct lance_leaf_values *items = &page->rows->dictionary;
    lake_status status;
    if (items->type->kind == LANCE_LEAF_VARIABLE) {
        out->dictionary = variable_encoding(page->arena, 8 * (uint64_t)items->type->offset_bytes);
        status = put_variable_block(items, &out->dictionary_block, err);
    } else {
        out->dictionary = flat_encoding(page->arena, items->type->item_bits);
        status =
            base_buffer_append(&out->dictionary_block, items->fixed.data, items->fixed.size, err);
    }
    out->dictionary_items = items->count;
    if (status == LAKE_OK && out->dictionary == NULL)
        status = out_of_memory(err);
    return status != LAKE_OK ? status : choose_fixed(page, true, false, out, err);
}

lake_status lance_value_plan_choose(const struct lance_page_plan *page,
                                    struct lance_value_plan *out, struct lake_error *err)
{
    const struct lance_leaf_values *values = &page->rows->values;
    const struct lance_leaf_type *type = values->type;
    out->source = (struct lance_value_source){.values = values,
                                              .fixed = values->fixed.data,
                                              .bits = type->item_bits,
                                              .count = values->count};
    switch (type->kind) {
    case LANCE_LEAF_VARIABLE:
        return choose_variable(page, out, err);
    case LANCE_LEAF_FSL:
        return choose_fsl(page, out, err);
    case LANCE_LEAF_DICTIONARY:
        return choose_dictionary(page, out, err);
    case LANCE_LEAF_FIXED:
        if (type->item_bits >= 8)
            return choose_fixed(page, type->integer, type->splittable, out, err);
        take(out, &flat_codec, flat_encoding(page->arena, 1), log2_within(flat_bytes(page), 1), 1);
        return out->encoding != NULL ? LAKE_OK : out_of_memory(err);
    default:
        return lake_fail(err, LAKE_INTERNAL, "values in a column of nulls");
    }
}
