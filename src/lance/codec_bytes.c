/* The codecs that move whole bytes: flat, constant, run-length, byte stream split. */
#include "codec.h"

#include <string.h>

static bool bytes_of(uint64_t count, uint64_t bits, uint64_t *out)
{
    uint64_t total;
    if (!base_u64_mul(count, bits, &total) || total > UINT64_MAX - 7)
        return false;
    *out = (total + 7) / 8;
    return true;
}

/* ---- flat ---- */

static lake_status check_flat(const struct lance_encoding *encoding, struct lake_bytes data,
                              uint64_t count, uint64_t bits, uint64_t *need, struct lake_error *err)
{
    if (encoding->compressed)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "compression inside a flat encoding");
    if (encoding->bits != bits)
        return lake_fail(err, LAKE_DATA_LOSS, "flat values have %llu bits where the type has %llu",
                         (unsigned long long)encoding->bits, (unsigned long long)bits);
    if (!bytes_of(count, bits, need) || *need > data.size)
        return lake_fail(err, LAKE_DATA_LOSS, "%llu flat values of %llu bits in %zu bytes",
                         (unsigned long long)count, (unsigned long long)bits, data.size);
    return LAKE_OK;
}

static lake_status flat_block_fixed(struct lance_codec_context *context,
                                    const struct lance_encoding *encoding, struct lake_bytes data,
                                    uint64_t count, uint64_t bits, uint8_t *out,
                                    struct lake_error *err)
{
    uint64_t need = 0;
    (void)context;
    lake_status status = check_flat(encoding, data, count, bits, &need, err);
    if (status == LAKE_OK && need > 0)
        memcpy(out, data.data, (size_t)need);
    return status;
}

/* Values of whole bytes. */
static lake_status flat_range(const struct lance_encoding *encoding, struct lake_bytes data,
                              uint64_t total, uint64_t first, uint64_t count, uint64_t bits,
                              uint8_t *out, struct lake_error *err)
{
    uint64_t need;
    lake_status status = check_flat(encoding, data, total, bits, &need, err);
    if (status == LAKE_OK && count > 0)
        memcpy(out, data.data + first * (bits / 8), (size_t)(count * (bits / 8)));
    return status;
}

static lake_status flat_chunk_fixed(struct lance_codec_context *context,
                                    const struct lance_encoding *encoding,
                                    struct lance_chunk_buffers buffers, uint64_t count,
                                    uint64_t bits, uint8_t *out, struct lake_error *err)
{
    return flat_block_fixed(context, encoding, buffers.buffers[0], count, bits, out, err);
}

const struct lance_codec lance_codec_flat = {.kind = LANCE_ENCODING_FLAT,
                                             .chunk_fixed = flat_chunk_fixed,
                                             .range_fixed = flat_range,
                                             .block_fixed = flat_block_fixed};

/* ---- constant ---- */

static lake_status constant_block_fixed(struct lance_codec_context *context,
                                        const struct lance_encoding *encoding,
                                        struct lake_bytes data, uint64_t count, uint64_t bits,
                                        uint8_t *out, struct lake_error *err)
{
    (void)context;
    (void)data;
    if (bits == 1 && encoding->bytes.size == 1) {
        memset(out, encoding->bytes.data[0] != 0 ? 0xFF : 0, (size_t)((count + 7) / 8));
        return LAKE_OK;
    }
    if (bits % 8 != 0 || encoding->bytes.size != bits / 8)
        return lake_fail(err, LAKE_DATA_LOSS,
                         "a constant of %zu bytes where the type has %llu bits",
                         encoding->bytes.size, (unsigned long long)bits);
    for (uint64_t i = 0; i < count; i++)
        memcpy(out + i * encoding->bytes.size, encoding->bytes.data, encoding->bytes.size);
    return LAKE_OK;
}

const struct lance_codec lance_codec_constant = {.kind = LANCE_ENCODING_CONSTANT,
                                                 .block_fixed = constant_block_fixed};

/* ---- run-length ---- */

/* The runs of a `chunk` may hold more than its values: older releases of Lance begin the next chunk
 * with the rest of a run that passed the end of one, which they leave whole where it began. */
static lake_status rle_expand(const struct lance_encoding *encoding, struct lake_bytes values,
                              struct lake_bytes lengths, uint64_t count, uint64_t bits, bool chunk,
                              uint8_t *out, struct lake_error *err)
{
    const struct lance_encoding *inner = encoding->values;
    uint64_t written;
    if (inner == NULL || inner->kind != LANCE_ENCODING_FLAT || inner->bits != bits ||
        encoding->lengths == NULL || encoding->lengths->kind != LANCE_ENCODING_FLAT ||
        encoding->lengths->bits != 8)
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "run-length encoding other than of flat values with 8-bit lengths");
    if (values.size / (bits / 8) < lengths.size)
        return lake_fail(err, LAKE_DATA_LOSS, "%zu runs have only %zu bytes of values",
                         lengths.size, values.size);
    written = lance_kernels()->expand_runs[lance_kernel_index((uint32_t)bits)](
        values.data, lengths.data, lengths.size, count, out);
    if (written != count && !(chunk && written == UINT64_MAX))
        return lake_fail(err, LAKE_DATA_LOSS, "runs do not add up to the %llu values there",
                         (unsigned long long)count);
    return LAKE_OK;
}

static lake_status check_word(uint64_t bits, struct lake_error *err)
{
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
        return lake_fail(err, LAKE_DATA_LOSS, "run-length encoding of %llu-bit values",
                         (unsigned long long)bits);
    return LAKE_OK;
}

static lake_status rle_chunk_fixed(struct lance_codec_context *context,
                                   const struct lance_encoding *encoding,
                                   struct lance_chunk_buffers buffers, uint64_t count,
                                   uint64_t bits, uint8_t *out, struct lake_error *err)
{
    (void)context;
    lake_status status = check_word(bits, err);
    if (status != LAKE_OK)
        return status;
    if (buffers.count < 2)
        return lake_fail(err, LAKE_DATA_LOSS, "a run-length chunk has only one buffer");
    return rle_expand(encoding, buffers.buffers[0], buffers.buffers[1], count, bits, true, out,
                      err);
}

static lake_status rle_block_fixed(struct lance_codec_context *context,
                                   const struct lance_encoding *encoding, struct lake_bytes data,
                                   uint64_t count, uint64_t bits, uint8_t *out,
                                   struct lake_error *err)
{
    (void)context;
    lake_status status = check_word(bits, err);
    if (status != LAKE_OK)
        return status;
    if (data.size < 8 || base_load_u64le(data.data) > data.size - 8)
        return lake_fail(err, LAKE_DATA_LOSS, "a run-length block of %zu bytes is cut short",
                         data.size);
    size_t values_bytes = (size_t)base_load_u64le(data.data);
    struct lake_bytes values = {data.data + 8, values_bytes};
    struct lake_bytes lengths = {data.data + 8 + values_bytes, data.size - 8 - values_bytes};
    return rle_expand(encoding, values, lengths, count, bits, false, out, err);
}

const struct lance_codec lance_codec_rle = {
    .kind = LANCE_ENCODING_RLE, .chunk_fixed = rle_chunk_fixed, .block_fixed = rle_block_fixed};

/* ---- byte stream split ---- */

void lance_bytes_join(uint32_t value_bytes, uint64_t count, const uint8_t *planes, uint8_t *out)
{
    lance_kernels()->join[value_bytes == 8](count, planes, out);
}

void lance_bytes_split(uint32_t value_bytes, uint64_t count, const uint8_t *values, uint8_t *out)
{
    lance_kernels()->split[value_bytes == 8](count, values, out);
}

#define RANGE_BLOCK 256 /* values whose bytes are brought together at a time */

static lake_status check_split(const struct lance_encoding *encoding, struct lake_bytes data,
                               uint64_t count, uint64_t bits, struct lake_error *err)
{
    uint64_t need;
    const struct lance_encoding *inner = encoding->values;
    if ((bits != 32 && bits != 64) || inner == NULL || inner->kind != LANCE_ENCODING_FLAT ||
        inner->bits != bits)
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "byte stream split other than of flat 32 or 64-bit values");
    if (!bytes_of(count, bits, &need) || need > data.size)
        return lake_fail(err, LAKE_DATA_LOSS, "%llu split values of %llu bits in %zu bytes",
                         (unsigned long long)count, (unsigned long long)bits, data.size);
    return LAKE_OK;
}

static lake_status bss_chunk_fixed(struct lance_codec_context *context,
                                   const struct lance_encoding *encoding,
                                   struct lance_chunk_buffers buffers, uint64_t count,
                                   uint64_t bits, uint8_t *out, struct lake_error *err)
{
    (void)context;
    lake_status status = check_split(encoding, buffers.buffers[0], count, bits, err);
    if (status == LAKE_OK)
        lance_bytes_join((uint32_t)bits / 8, count, buffers.buffers[0].data, out);
    return status;
}

static lake_status bss_range(const struct lance_encoding *encoding, struct lake_bytes data,
                             uint64_t total, uint64_t first, uint64_t count, uint64_t bits,
                             uint8_t *out, struct lake_error *err)
{
    uint8_t block[RANGE_BLOCK * 8];
    uint32_t width = (uint32_t)bits / 8;
    lake_status status = check_split(encoding, data, total, bits, err);
    while (status == LAKE_OK && count > 0) {
        size_t some = (size_t)BASE_MIN(count, (uint64_t)RANGE_BLOCK);
        for (uint32_t plane = 0; plane < width; plane++)
            memcpy(block + plane * some, data.data + plane * total + first, some);
        lance_bytes_join(width, some, block, out);
        out += some * width;
        first += some;
        count -= some;
    }
    return status;
}

const struct lance_codec lance_codec_byte_stream_split = {.kind = LANCE_ENCODING_BYTE_STREAM_SPLIT,
                                                          .chunk_fixed = bss_chunk_fixed,
                                                          .range_fixed = bss_range};

/* ---- packed structs ---- */

/* Rows of all members, decoded as values of their total width and taken apart later. */
static lake_status packed_chunk_fixed(struct lance_codec_context *context,
                                      const struct lance_encoding *encoding,
                                      struct lance_chunk_buffers buffers, uint64_t count,
                                      uint64_t bits, uint8_t *out, struct lake_error *err)
{
    return lance_chunk_decode_fixed(context, encoding->values, buffers, count, bits, out, err);
}

const struct lance_codec lance_codec_packed_struct = {.kind = LANCE_ENCODING_PACKED_STRUCT,
                                                      .chunk_fixed = packed_chunk_fixed};
