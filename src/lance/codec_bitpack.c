/*
 * Bit packing in FastLanes order (Afroozeh and Boncz, "The FastLanes Compression Layout", VLDB
 * 2023): a block of 1024 values is spread over 1024/T lanes so that unpacking is the same shift and
 * mask on whole vectors, for any width. The loops over lanes have a constant trip count and
 * vectorise; the shift of a row is the same for all lanes.
 */
#include "codec.h"

#include <string.h>

/* Where the r-th row of eight starts within a block: rows come in this order of groups. */
static const uint16_t group_order[8] = {0, 4, 2, 6, 1, 5, 3, 7};

#define ROW_START(row) ((size_t)group_order[(row) / 8] * 16 + (size_t)((row) % 8) * 128)

#define FASTLANES(type, T)                                                                       \
    static void unpack##T(uint32_t width, const type *restrict packed, type *restrict out)       \
    {                                                                                            \
        enum {                                                                                   \
            LANES = LANCE_BLOCK_VALUES / T                                                       \
        };                                                                                       \
        if (width == 0) {                                                                        \
            memset(out, 0, LANCE_BLOCK_VALUES * sizeof(type));                                   \
            return;                                                                              \
        }                                                                                        \
        const type mask = (type)((type) ~(type)0 >> (T - width));                                \
        for (uint32_t row = 0; row < T; row++) {                                                 \
            const uint32_t bit = row * width, shift = bit % T;                                   \
            const type *low = packed + (size_t)(bit / T) * LANES;                                \
            type *to = out + ROW_START(row);                                                     \
            if (shift + width <= T) {                                                            \
                for (uint32_t lane = 0; lane < LANES; lane++)                                    \
                    to[lane] = (type)((type)(low[lane] >> shift) & mask);                        \
            } else {                                                                             \
                const type *high = low + LANES;                                                  \
                const uint32_t back = T - shift;                                                 \
                for (uint32_t lane = 0; lane < LANES; lane++)                                    \
                    to[lane] =                                                                   \
                        (type)((type)((type)(low[lane] >> shift) | (type)(high[lane] << back)) & \
                               mask);                                                            \
            }                                                                                    \
        }                                                                                        \
    }                                                                                            \
    static void pack##T(uint32_t width, const type *restrict values, type *restrict packed)      \
    {                                                                                            \
        enum {                                                                                   \
            LANES = LANCE_BLOCK_VALUES / T                                                       \
        };                                                                                       \
        memset(packed, 0, (size_t)width *LANES * sizeof(type));                                  \
        if (width == 0)                                                                          \
            return;                                                                              \
        for (uint32_t row = 0; row < T; row++) {                                                 \
            const uint32_t bit = row * width, shift = bit % T;                                   \
            type *low = packed + (size_t)(bit / T) * LANES;                                      \
            const type *from = values + ROW_START(row);                                          \
            for (uint32_t lane = 0; lane < LANES; lane++)                                        \
                low[lane] |= (type)(from[lane] << shift);                                        \
            if (shift + width > T) {                                                             \
                type *high = low + LANES;                                                        \
                const uint32_t back = T - shift;                                                 \
                for (uint32_t lane = 0; lane < LANES; lane++)                                    \
                    high[lane] |= (type)(from[lane] >> back);                                    \
            }                                                                                    \
        }                                                                                        \
    }                                                                                            \
    static uint32_t needed##T(const uint8_t *values, uint64_t count)                             \
    {                                                                                            \
        type all = 0;                                                                            \
        for (uint64_t i = 0; i < count; i++) {                                                   \
            type value;                                                                          \
            memcpy(&value, values + i * sizeof(type), sizeof(type));                             \
            all |= value;                                                                        \
        }                                                                                        \
        return all == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(all);                               \
    }

FASTLANES(uint8_t, 8)
FASTLANES(uint16_t, 16)
FASTLANES(uint32_t, 32)
FASTLANES(uint64_t, 64)

/* Words must be aligned for the typed loops: pages are read at any offset, so they may not be. */
static bool aligned_for(const void *p, uint32_t type_bits)
{
    return (uintptr_t)p % (type_bits / 8) == 0;
}

static void unpack_aligned(uint32_t type_bits, uint32_t width, const void *packed, void *out)
{
    if (type_bits == 8)
        unpack8(width, packed, out);
    else if (type_bits == 16)
        unpack16(width, packed, out);
    else if (type_bits == 32)
        unpack32(width, packed, out);
    else
        unpack64(width, packed, out);
}

void lance_bits_unpack(uint32_t type_bits, uint32_t width, const uint8_t *packed, uint8_t *out)
{
    uint64_t in_words[LANCE_BLOCK_VALUES], out_words[LANCE_BLOCK_VALUES];
    const void *from = packed;
    void *to = out;
    if (!aligned_for(packed, type_bits)) {
        memcpy(in_words, packed, (size_t)128 * width);
        from = in_words;
    }
    if (!aligned_for(out, type_bits))
        to = out_words;
    unpack_aligned(type_bits, width, from, to);
    if (to != out)
        memcpy(out, out_words, (size_t)128 * type_bits);
}

void lance_bits_pack(uint32_t type_bits, uint32_t width, const uint8_t *values, uint8_t *packed)
{
    uint64_t in_words[LANCE_BLOCK_VALUES], out_words[LANCE_BLOCK_VALUES];
    memcpy(in_words, values, (size_t)128 * type_bits);
    if (type_bits == 8)
        pack8(width, (const uint8_t *)in_words, (uint8_t *)out_words);
    else if (type_bits == 16)
        pack16(width, (const uint16_t *)in_words, (uint16_t *)out_words);
    else if (type_bits == 32)
        pack32(width, (const uint32_t *)in_words, (uint32_t *)out_words);
    else
        pack64(width, in_words, out_words);
    memcpy(packed, out_words, (size_t)128 * width);
}

uint32_t lance_bits_needed(uint32_t type_bits, const uint8_t *values, uint64_t count)
{
    if (type_bits == 8)
        return needed8(values, count);
    if (type_bits == 16)
        return needed16(values, count);
    if (type_bits == 32)
        return needed32(values, count);
    return needed64(values, count);
}

static lake_status check_type(uint64_t declared, uint64_t bits, struct lake_error *err)
{
    if ((bits != 8 && bits != 16 && bits != 32 && bits != 64) || declared != bits)
        return lake_fail(err, LAKE_DATA_LOSS,
                         "bit packing of %llu-bit values where the type has %llu bits",
                         (unsigned long long)declared, (unsigned long long)bits);
    return LAKE_OK;
}

/* ---- inline: one word with the width, then one block ---- */

static lake_status inline_block_fixed(struct lance_codec_context *context,
                                      const struct lance_encoding *encoding, struct lake_bytes data,
                                      uint64_t count, uint64_t bits, uint8_t *out,
                                      struct lake_error *err)
{
    uint64_t block[LANCE_BLOCK_VALUES];
    uint64_t width = 0;
    (void)context;
    lake_status status = check_type(encoding->bits, bits, err);
    if (status != LAKE_OK)
        return status;
    size_t word = (size_t)bits / 8;
    if (count == 0)
        return LAKE_OK;
    if (count > LANCE_BLOCK_VALUES || data.size < word)
        return lake_fail(err, LAKE_DATA_LOSS, "a bit-packed block of %llu values in %zu bytes",
                         (unsigned long long)count, data.size);
    memcpy(&width, data.data, word);
    if (width > bits || data.size - word < 128 * width)
        return lake_fail(err, LAKE_DATA_LOSS, "a bit-packed block of width %llu has only %zu bytes",
                         (unsigned long long)width, data.size);
    if (count == LANCE_BLOCK_VALUES) {
        lance_bits_unpack((uint32_t)bits, (uint32_t)width, data.data + word, out);
        return LAKE_OK;
    }
    lance_bits_unpack((uint32_t)bits, (uint32_t)width, data.data + word, (uint8_t *)block);
    memcpy(out, block, (size_t)count * word);
    return LAKE_OK;
}

static lake_status inline_chunk_fixed(struct lance_codec_context *context,
                                      const struct lance_encoding *encoding,
                                      struct lance_chunk_buffers buffers, uint64_t count,
                                      uint64_t bits, uint8_t *out, struct lake_error *err)
{
    return inline_block_fixed(context, encoding, buffers.buffers[0], count, bits, out, err);
}

const struct lance_codec lance_codec_inline = {.kind = LANCE_ENCODING_INLINE_BITPACKING,
                                               .chunk_fixed = inline_chunk_fixed,
                                               .block_fixed = inline_block_fixed};

/* ---- out of line: the width is in the description, blocks follow each other ---- */

/* The tail after the last whole block is either one more (padded) block or raw values; the buffer's
 * length tells, and raw wins when both have the same length. */
static lake_status out_of_line_block_fixed(struct lance_codec_context *context,
                                           const struct lance_encoding *encoding,
                                           struct lake_bytes data, uint64_t count, uint64_t bits,
                                           uint8_t *out, struct lake_error *err)
{
    uint64_t block[LANCE_BLOCK_VALUES];
    (void)context;
    lake_status status = check_type(encoding->bits, bits, err);
    if (status != LAKE_OK)
        return status;
    const struct lance_encoding *inner = encoding->values;
    if (inner == NULL || inner->kind != LANCE_ENCODING_FLAT || inner->compressed ||
        inner->bits > bits)
        return lake_fail(err, LAKE_DATA_LOSS, "out-of-line bit packing without a valid width");
    uint32_t width = (uint32_t)inner->bits;
    size_t word = (size_t)bits / 8, block_bytes = (size_t)128 * width;
    uint64_t whole = count / LANCE_BLOCK_VALUES, tail = count % LANCE_BLOCK_VALUES;
    if (block_bytes > 0 && whole > data.size / block_bytes)
        return lake_fail(err, LAKE_DATA_LOSS, "%llu values packed to %u bits in %zu bytes",
                         (unsigned long long)count, width, data.size);
    size_t left = data.size - (size_t)whole * block_bytes;
    for (uint64_t i = 0; i < whole; i++)
        lance_bits_unpack((uint32_t)bits, width, data.data + i * block_bytes,
                          out + i * LANCE_BLOCK_VALUES * word);
    out += whole * LANCE_BLOCK_VALUES * word;
    const uint8_t *rest = data.data + whole * block_bytes;
    if (tail > 0 && left == tail * word) {
        memcpy(out, rest, left);
    } else if (tail > 0 && left >= block_bytes) {
        lance_bits_unpack((uint32_t)bits, width, rest, (uint8_t *)block);
        memcpy(out, block, tail * word);
    } else if (tail > 0) {
        return lake_fail(err, LAKE_DATA_LOSS, "the last %llu packed values have %zu bytes",
                         (unsigned long long)tail, left);
    }
    return LAKE_OK;
}

const struct lance_codec lance_codec_out_of_line = {.kind = LANCE_ENCODING_OUT_OF_LINE_BITPACKING,
                                                    .block_fixed = out_of_line_block_fixed};
