/* Variable-width values, and FSST (Boncz, Neumann, Leis, "FSST: Fast Random Access String
 * Compression", VLDB 2020), whose strings are stored like any others and expanded when copied. */
#include "codec.h"

#include <string.h>

static lake_status offsets_width(const struct lance_encoding *encoding, uint32_t *out,
                                 struct lake_error *err)
{
    const struct lance_encoding *offsets = encoding->lengths;
    if (encoding->compressed || offsets == NULL || offsets->kind != LANCE_ENCODING_FLAT ||
        offsets->compressed || (offsets->bits != 32 && offsets->bits != 64))
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "variable-width values with other than flat 32 or 64-bit offsets");
    *out = (uint32_t)offsets->bits / 8;
    return LAKE_OK;
}

static lake_status offsets_fit(uint64_t count, uint32_t width, size_t size, struct lake_error *err)
{
    if (count >= size / width)
        return lake_fail(err, LAKE_DATA_LOSS, "%llu offsets of %u bytes in a buffer of %zu",
                         (unsigned long long)count + 1, width, size);
    return LAKE_OK;
}

/* In a chunk the offsets count from the start of the buffer, which they are the first part of. */
static lake_status variable_chunk(struct lance_codec_context *context,
                                  const struct lance_encoding *encoding,
                                  struct lance_chunk_buffers buffers, uint64_t count,
                                  struct lance_variable_view *out, struct lake_error *err)
{
    struct lake_bytes data = buffers.buffers[0];
    uint32_t width;
    (void)context;
    lake_status status = offsets_width(encoding, &width, err);
    if (status == LAKE_OK)
        status = offsets_fit(count, width, data.size, err);
    if (status != LAKE_OK)
        return status;
    *out = (struct lance_variable_view){.offsets = data.data,
                                        .offset_bytes = width,
                                        .base = data.data,
                                        .base_bytes = data.size,
                                        .count = count};
    return LAKE_OK;
}

static uint64_t load_word(const uint8_t *at, uint32_t width)
{
    return width == 4 ? base_load_u32le(at) : base_load_u64le(at);
}

/* A block says its offset width and where the bytes start, then count + 1 offsets from there. */
static lake_status variable_block(struct lance_codec_context *context,
                                  const struct lance_encoding *encoding, struct lake_bytes data,
                                  uint64_t count, struct lance_variable_view *out,
                                  struct lake_error *err)
{
    uint32_t width;
    (void)context;
    lake_status status = offsets_width(encoding, &width, err);
    if (status != LAKE_OK)
        return status;
    if (data.size < 1 + 2 * (size_t)width)
        return lake_fail(err, LAKE_DATA_LOSS, "a block of strings has only %zu bytes", data.size);
    /* Storage 2.1 of Lance 0.33: the width as one byte, the count, the start. */
    bool counted = load_word(data.data, width) != 8 * (uint64_t)width &&
                   data.data[0] == 8 * width && load_word(data.data + 1, width) == count;
    size_t head = 2 * (size_t)width + counted;
    uint64_t bits = counted ? data.data[0] : load_word(data.data, width);
    uint64_t start = load_word(data.data + head - width, width);
    if (bits != 8 * (uint64_t)width || start > data.size || start < head)
        return lake_fail(err, LAKE_DATA_LOSS, "a block of strings has a broken header");
    status = offsets_fit(count, width, (size_t)start - head, err);
    if (status != LAKE_OK)
        return status;
    *out = (struct lance_variable_view){.offsets = data.data + head,
                                        .offset_bytes = width,
                                        .base = data.data + start,
                                        .base_bytes = data.size - (size_t)start,
                                        .count = count};
    return LAKE_OK;
}

const struct lance_codec lance_codec_variable = {.kind = LANCE_ENCODING_VARIABLE,
                                                 .chunk_variable = variable_chunk,
                                                 .block_variable = variable_block};

/* ---- FSST ---- */

#define FSST_MAGIC       0x46535354U
#define FSST_TABLE_BYTES (8 + 256 * 8 + 256)
#define FSST_ESCAPE      255

lake_status lance_fsst_table_parse(struct lake_bytes bytes, struct lance_fsst_table *out,
                                   struct lake_error *err)
{
    if (bytes.size != FSST_TABLE_BYTES)
        return lake_fail(err, LAKE_DATA_LOSS, "an FSST symbol table has %zu bytes, not %d",
                         bytes.size, FSST_TABLE_BYTES);
    uint64_t header = base_load_u64le(bytes.data);
    if (header >> 32 != FSST_MAGIC)
        return lake_fail(err, LAKE_DATA_LOSS, "an FSST symbol table has the wrong magic number");
    out->enabled = (header >> 24 & 1) != 0;
    out->symbol_count = (uint32_t)(header & 0xFF);
    for (uint32_t i = 0; i < out->symbol_count; i++) {
        out->symbols[i] = base_load_u64le(bytes.data + 8 + 8 * (size_t)i);
        out->lengths[i] = bytes.data[8 + 8 * (size_t)out->symbol_count + i];
        if (out->lengths[i] < 1 || out->lengths[i] > 8)
            return lake_fail(err, LAKE_DATA_LOSS, "FSST symbol %u has length %u", i,
                             out->lengths[i]);
    }
    return LAKE_OK;
}

bool lance_fsst_decode(const struct lance_fsst_table *table, const uint8_t *data, size_t size,
                       uint8_t *out, size_t *out_bytes)
{
    size_t at = 0;
    for (size_t i = 0; i < size; i++) {
        uint8_t code = data[i];
        if (code < table->symbol_count) {
            memcpy(out + at, &table->symbols[code], 8);
            at += table->lengths[code];
        } else if (code == FSST_ESCAPE && i + 1 < size) {
            out[at++] = data[++i];
        } else {
            return false;
        }
    }
    *out_bytes = at;
    return true;
}

static lake_status fsst_chunk(struct lance_codec_context *context,
                              const struct lance_encoding *encoding,
                              struct lance_chunk_buffers buffers, uint64_t count,
                              struct lance_variable_view *out, struct lake_error *err)
{
    struct lance_variable_view view;
    lake_status status =
        lance_chunk_decode_variable(context, encoding->values, buffers, count, &view, err);
    if (status != LAKE_OK)
        return status;
    view.fsst = encoding;
    *out = view;
    return LAKE_OK;
}

static lake_status fsst_block(struct lance_codec_context *context,
                              const struct lance_encoding *encoding, struct lake_bytes data,
                              uint64_t count, struct lance_variable_view *out,
                              struct lake_error *err)
{
    struct lance_variable_view view;
    lake_status status =
        lance_block_decode_variable(context, encoding->values, data, count, &view, err);
    if (status != LAKE_OK)
        return status;
    view.fsst = encoding;
    *out = view;
    return LAKE_OK;
}

const struct lance_codec lance_codec_fsst = {
    .kind = LANCE_ENCODING_FSST, .chunk_variable = fsst_chunk, .block_variable = fsst_block};
