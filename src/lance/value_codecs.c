/* Value codecs of mini-blocks: each appends the values of one chunk to its buffers. */
#include "file_write.h"

#include <string.h>

#define SCRATCH (LANCE_CHUNK_BUFFERS - 1) /* of the chunk's buffers, never written out */
#define MAX_RUN 255

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

/* How many of at most `limit` values from `at` on equal the first. */
static uint64_t run_length(const uint8_t *at, uint64_t limit, size_t width)
{
    uint64_t run = 1;
    while (run < limit && memcmp(at, at + run * width, width) == 0)
        run++;
    return run;
}

static lake_status encode_rle(const struct lance_value_source *source,
                              const struct lance_encoding *encoding, uint64_t start, uint64_t count,
                              struct base_buffer *buffers, struct lake_error *err)
{
    size_t width = (size_t)source->bits / 8;
    const uint8_t *at = source->fixed + start * width;
    (void)encoding;
    lake_status status = base_buffer_reserve(&buffers[0], (size_t)count * width, err);
    if (status == LAKE_OK)
        status = base_buffer_reserve(&buffers[1], (size_t)count, err);
    if (status != LAKE_OK)
        return status;
    uint8_t *values = buffers[0].data + buffers[0].size;
    uint8_t *lengths = buffers[1].data + buffers[1].size;
    size_t runs = 0;
    for (uint64_t i = 0; i < count; runs++) {
        uint64_t limit = BASE_MIN(count - i, (uint64_t)MAX_RUN), run;
        const uint8_t *from = at + i * width;
        if (width == 4) /* a comparison of known width costs an instruction */
            run = run_length(from, limit, 4);
        else if (width == 8)
            run = run_length(from, limit, 8);
        else
            run = run_length(from, limit, width);
        memcpy(values + runs * width, from, width);
        lengths[runs] = (uint8_t)run;
        i += run;
    }
    buffers[0].size += runs * width;
    buffers[1].size += runs;
    return LAKE_OK;
}

/* Flat values or their byte planes, compressed. */
static lake_status encode_general(const struct lance_value_source *source,
                                  const struct lance_encoding *encoding, uint64_t start,
                                  uint64_t count, struct base_buffer *buffers,
                                  struct lake_error *err)
{
    size_t width = (size_t)source->bits / 8;
    struct lake_bytes data = {source->fixed + start * width, (size_t)count * width};
    struct base_buffer *scratch = &buffers[SCRATCH];
    size_t parts = 1;
    if (encoding->values->kind == LANCE_ENCODING_BYTE_STREAM_SPLIT) {
        base_buffer_clear(scratch);
        lake_status status = base_buffer_reserve(scratch, data.size, err);
        if (status != LAKE_OK)
            return status;
        lance_bytes_split((uint32_t)width, count, data.data, scratch->data);
        data.data = scratch->data;
        parts = width;
    }
    return lance_compress(source->compressor, encoding->scheme, data, parts, &buffers[0], err);
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
    return status != LAKE_OK ? status
                             : lance_compress(source->compressor, encoding->scheme,
                                              base_buffer_view(scratch), 1, &buffers[0], err);
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

const struct lance_value_codec lance_flat_values = {"flat", encode_flat};
const struct lance_value_codec lance_inline_values = {"inline bitpacking", encode_inline};
const struct lance_value_codec lance_rle_values = {"rle", encode_rle};
const struct lance_value_codec lance_general_values = {"compressed", encode_general};
const struct lance_value_codec lance_variable_values = {"variable", encode_variable};
const struct lance_value_codec lance_general_variable_values = {"variable, compressed",
                                                                encode_variable_general};
const struct lance_value_codec lance_fsl_values = {"fixed-size list", encode_fsl};
