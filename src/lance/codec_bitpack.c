/* Bit packing in blocks of 1024 values; kernel_loops.inc has the order of bits. */
#include "codec.h"

#include <string.h>

void lance_bits_unpack(uint32_t type_bits, uint32_t width, const uint8_t *packed, uint8_t *out)
{
    lance_kernels()->unpack[lance_kernel_index(type_bits)](width, packed, out);
}

void lance_bits_pack(uint32_t type_bits, uint32_t width, const uint8_t *values, uint8_t *packed)
{
    lance_kernels()->pack[lance_kernel_index(type_bits)](width, values, packed);
}

uint32_t lance_bits_needed(uint32_t type_bits, const uint8_t *values, uint64_t count)
{
    uint64_t all = lance_kernels()->combine[lance_kernel_index(type_bits)](values, count);
    return all == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(all);
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
