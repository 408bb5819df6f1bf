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

static lake_status flat_block_fixed(struct lance_codec_context *context,
                                    const struct lance_encoding *encoding, struct lake_bytes data,
                                    uint64_t count, uint64_t bits, uint8_t *out,
                                    struct lake_error *err)
{
    uint64_t need;
    (void)context;
    if (encoding->compressed)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "compression inside a flat encoding");
    if (encoding->bits != bits)
        return lake_fail(err, LAKE_DATA_LOSS, "flat values have %llu bits where the type has %llu",
                         (unsigned long long)encoding->bits, (unsigned long long)bits);
    if (!bytes_of(count, bits, &need) || need > data.size)
        return lake_fail(err, LAKE_DATA_LOSS, "%llu flat values of %llu bits in %zu bytes",
                         (unsigned long long)count, (unsigned long long)bits, data.size);
    if (need > 0)
        memcpy(out, data.data, (size_t)need);
    return LAKE_OK;
}

static lake_status flat_chunk_fixed(struct lance_codec_context *context,
                                    const struct lance_encoding *encoding,
                                    struct lance_chunk_buffers buffers, uint64_t count,
                                    uint64_t bits, uint8_t *out, struct lake_error *err)
{
    return flat_block_fixed(context, encoding, buffers.buffers[0], count, bits, out, err);
}

const struct lance_codec lance_codec_flat = {
    .kind = LANCE_ENCODING_FLAT, .chunk_fixed = flat_chunk_fixed, .block_fixed = flat_block_fixed};

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

/* Values are written in whole words of their width; `total` stops a run that would overrun. */
#define EXPAND_RUNS(name, type)                                                      \
    static uint64_t name(const uint8_t *values, const uint8_t *lengths, size_t runs, \
                         uint64_t total, uint8_t *out)                               \
    {                                                                                \
        uint64_t at = 0;                                                             \
        for (size_t i = 0; i < runs; i++) {                                          \
            type value;                                                              \
            uint64_t length = lengths[i];                                            \
            if (length > total - at)                                                 \
                return UINT64_MAX;                                                   \
            memcpy(&value, values + i * sizeof(type), sizeof(type));                 \
            for (uint64_t k = 0; k < length; k++)                                    \
                memcpy(out + (at + k) * sizeof(type), &value, sizeof(type));         \
            at += length;                                                            \
        }                                                                            \
        return at;                                                                   \
    }
EXPAND_RUNS(expand_runs8, uint8_t)
EXPAND_RUNS(expand_runs16, uint16_t)
EXPAND_RUNS(expand_runs32, uint32_t)
EXPAND_RUNS(expand_runs64, uint64_t)

static lake_status rle_expand(const struct lance_encoding *encoding, struct lake_bytes values,
                              struct lake_bytes lengths, uint64_t count, uint64_t bits,
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
    if (bits == 8)
        written = expand_runs8(values.data, lengths.data, lengths.size, count, out);
    else if (bits == 16)
        written = expand_runs16(values.data, lengths.data, lengths.size, count, out);
    else if (bits == 32)
        written = expand_runs32(values.data, lengths.data, lengths.size, count, out);
    else
        written = expand_runs64(values.data, lengths.data, lengths.size, count, out);
    if (written != count)
        return lake_fail(err, LAKE_DATA_LOSS, "runs do not add up to the chunk's %llu values",
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
    return rle_expand(encoding, buffers.buffers[0], buffers.buffers[1], count, bits, out, err);
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
    return rle_expand(encoding, values, lengths, count, bits, out, err);
}

const struct lance_codec lance_codec_rle = {
    .kind = LANCE_ENCODING_RLE, .chunk_fixed = rle_chunk_fixed, .block_fixed = rle_block_fixed};

/* ---- byte stream split ---- */

/* Portable vectors of the compiler: a tree of byte interleavings turns planes into values. */
typedef uint8_t v16 __attribute__((vector_size(16)));
#define INTERLEAVE_LOW(a, b) \
    __builtin_shufflevector((a), (b), 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define INTERLEAVE_HIGH(a, b) \
    __builtin_shufflevector((a), (b), 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

static inline v16 load16(const uint8_t *p)
{
    v16 v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static inline void store16(uint8_t *p, v16 v)
{
    memcpy(p, &v, sizeof(v));
}

static uint64_t join4(uint64_t count, const uint8_t *planes, uint8_t *out)
{
    uint64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        v16 p0 = load16(planes + i), p1 = load16(planes + count + i);
        v16 p2 = load16(planes + 2 * count + i), p3 = load16(planes + 3 * count + i);
        v16 a = INTERLEAVE_LOW(p0, p2), b = INTERLEAVE_HIGH(p0, p2);
        v16 c = INTERLEAVE_LOW(p1, p3), d = INTERLEAVE_HIGH(p1, p3);
        store16(out + 4 * i, INTERLEAVE_LOW(a, c));
        store16(out + 4 * i + 16, INTERLEAVE_HIGH(a, c));
        store16(out + 4 * i + 32, INTERLEAVE_LOW(b, d));
        store16(out + 4 * i + 48, INTERLEAVE_HIGH(b, d));
    }
    return i;
}

/* Four words of two planes each, woven twice more, are sixteen 8-byte values. */
static uint64_t join8(uint64_t count, const uint8_t *planes, uint8_t *out)
{
    uint64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        v16 p[8], q[8], r[8];
        for (unsigned k = 0; k < 8; k++)
            p[k] = load16(planes + k * count + i);
        for (unsigned k = 0; k < 4; k++) {
            q[2 * k] = INTERLEAVE_LOW(p[k], p[k + 4]);
            q[2 * k + 1] = INTERLEAVE_HIGH(p[k], p[k + 4]);
        }
        /* q: pairs (0,4) (1,5) (2,6) (3,7), each low then high half of the values */
        for (unsigned half = 0; half < 2; half++) {
            r[4 * half + 0] = INTERLEAVE_LOW(q[half], q[4 + half]);
            r[4 * half + 1] = INTERLEAVE_HIGH(q[half], q[4 + half]);
            r[4 * half + 2] = INTERLEAVE_LOW(q[2 + half], q[6 + half]);
            r[4 * half + 3] = INTERLEAVE_HIGH(q[2 + half], q[6 + half]);
        }
        for (unsigned half = 0; half < 2; half++) {
            uint8_t *to = out + 8 * i + 64 * half;
            store16(to, INTERLEAVE_LOW(r[4 * half], r[4 * half + 2]));
            store16(to + 16, INTERLEAVE_HIGH(r[4 * half], r[4 * half + 2]));
            store16(to + 32, INTERLEAVE_LOW(r[4 * half + 1], r[4 * half + 3]));
            store16(to + 48, INTERLEAVE_HIGH(r[4 * half + 1], r[4 * half + 3]));
        }
    }
    return i;
}

void lance_bytes_join(uint32_t value_bytes, uint64_t count, const uint8_t *planes, uint8_t *out)
{
    uint64_t done = 0;
    if (value_bytes == 4)
        done = join4(count, planes, out);
    else if (value_bytes == 8)
        done = join8(count, planes, out);
    for (uint64_t i = done; i < count; i++)
        for (uint32_t k = 0; k < value_bytes; k++)
            out[i * value_bytes + k] = planes[k * count + i];
}

void lance_bytes_split(uint32_t value_bytes, uint64_t count, const uint8_t *values, uint8_t *out)
{
    for (uint32_t k = 0; k < value_bytes; k++) {
        uint8_t *plane = out + k * count;
        const uint8_t *from = values + k;
        for (uint64_t i = 0; i < count; i++)
            plane[i] = from[i * value_bytes];
    }
}

static lake_status bss_chunk_fixed(struct lance_codec_context *context,
                                   const struct lance_encoding *encoding,
                                   struct lance_chunk_buffers buffers, uint64_t count,
                                   uint64_t bits, uint8_t *out, struct lake_error *err)
{
    uint64_t need;
    struct lake_bytes data = buffers.buffers[0];
    const struct lance_encoding *inner = encoding->values;
    (void)context;
    if ((bits != 32 && bits != 64) || inner == NULL || inner->kind != LANCE_ENCODING_FLAT ||
        inner->bits != bits)
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "byte stream split other than of flat 32 or 64-bit values");
    if (!bytes_of(count, bits, &need) || need > data.size)
        return lake_fail(err, LAKE_DATA_LOSS, "%llu split values of %llu bits in %zu bytes",
                         (unsigned long long)count, (unsigned long long)bits, data.size);
    lance_bytes_join((uint32_t)bits / 8, count, data.data, out);
    return LAKE_OK;
}

const struct lance_codec lance_codec_byte_stream_split = {.kind = LANCE_ENCODING_BYTE_STREAM_SPLIT,
                                                          .chunk_fixed = bss_chunk_fixed};

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
