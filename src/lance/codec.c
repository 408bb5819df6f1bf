#include "codec.h"

#include <lz4.h>
#include <string.h>
#include <zstd.h>

/* ---- the table ---- */

static const struct lance_codec *const codecs[] = {
    [LANCE_ENCODING_FLAT] = &lance_codec_flat,
    [LANCE_ENCODING_VARIABLE] = &lance_codec_variable,
    [LANCE_ENCODING_CONSTANT] = &lance_codec_constant,
    [LANCE_ENCODING_OUT_OF_LINE_BITPACKING] = &lance_codec_out_of_line,
    [LANCE_ENCODING_INLINE_BITPACKING] = &lance_codec_inline,
    [LANCE_ENCODING_FSST] = &lance_codec_fsst,
    [LANCE_ENCODING_RLE] = &lance_codec_rle,
    [LANCE_ENCODING_BYTE_STREAM_SPLIT] = &lance_codec_byte_stream_split,
    [LANCE_ENCODING_GENERAL] = &lance_codec_general,
    [LANCE_ENCODING_PACKED_STRUCT] = &lance_codec_packed_struct,
};

static const struct lance_codec no_codec;

static const struct lance_codec *find(const struct lance_encoding *encoding)
{
    size_t kind = encoding == NULL ? 0 : (size_t)encoding->kind;
    return kind < BASE_ARRAY_LEN(codecs) && codecs[kind] != NULL ? codecs[kind] : &no_codec;
}

static lake_status unsupported(const struct lance_encoding *encoding, const char *use,
                               struct lake_error *err)
{
    if (encoding == NULL)
        return lake_fail(err, LAKE_DATA_LOSS, "an encoding has nothing inside it for %s", use);
    return lake_fail(err, LAKE_UNIMPLEMENTED, "encoding %s is not known for %s",
                     lance_encoding_name(encoding->kind), use);
}

lake_status lance_chunk_decode_fixed(struct lance_codec_context *context,
                                     const struct lance_encoding *encoding,
                                     struct lance_chunk_buffers buffers, uint64_t count,
                                     uint64_t bits, uint8_t *out, struct lake_error *err)
{
    const struct lance_codec *codec = find(encoding);
    if (codec->chunk_fixed == NULL)
        return unsupported(encoding, "fixed-width values", err);
    if (buffers.count == 0)
        return lake_fail(err, LAKE_DATA_LOSS, "a chunk has too few value buffers");
    return codec->chunk_fixed(context, encoding, buffers, count, bits, out, err);
}

lake_status lance_chunk_decode_variable(struct lance_codec_context *context,
                                        const struct lance_encoding *encoding,
                                        struct lance_chunk_buffers buffers, uint64_t count,
                                        struct lance_variable_view *out, struct lake_error *err)
{
    const struct lance_codec *codec = find(encoding);
    if (codec->chunk_variable == NULL)
        return unsupported(encoding, "variable-width values", err);
    if (buffers.count == 0)
        return lake_fail(err, LAKE_DATA_LOSS, "a chunk has too few value buffers");
    return codec->chunk_variable(context, encoding, buffers, count, out, err);
}

lake_status lance_block_decode_fixed(struct lance_codec_context *context,
                                     const struct lance_encoding *encoding, struct lake_bytes data,
                                     uint64_t count, uint64_t bits, uint8_t *out,
                                     struct lake_error *err)
{
    const struct lance_codec *codec = find(encoding);
    if (codec->block_fixed == NULL)
        return unsupported(encoding, "a block of fixed-width values", err);
    return codec->block_fixed(context, encoding, data, count, bits, out, err);
}

lake_status lance_block_decode_variable(struct lance_codec_context *context,
                                        const struct lance_encoding *encoding,
                                        struct lake_bytes data, uint64_t count,
                                        struct lance_variable_view *out, struct lake_error *err)
{
    const struct lance_codec *codec = find(encoding);
    if (codec->block_variable == NULL)
        return unsupported(encoding, "a block of variable-width values", err);
    return codec->block_variable(context, encoding, data, count, out, err);
}

uint64_t lance_encoding_value_bits(const struct lance_encoding *encoding)
{
    while (encoding != NULL) {
        switch (encoding->kind) {
        case LANCE_ENCODING_FLAT:
        case LANCE_ENCODING_INLINE_BITPACKING:
        case LANCE_ENCODING_OUT_OF_LINE_BITPACKING:
            return encoding->bits;
        case LANCE_ENCODING_GENERAL:
        case LANCE_ENCODING_RLE:
        case LANCE_ENCODING_BYTE_STREAM_SPLIT:
            encoding = encoding->values;
            break;
        default:
            return 0;
        }
    }
    return 0;
}

/* ---- context ---- */

void lance_codec_context_init(struct lance_codec_context *context)
{
    *context = (struct lance_codec_context){0};
    for (size_t i = 0; i < LANCE_MAX_GENERAL_DEPTH; i++)
        base_buffer_init(&context->scratch[i], LANCE_MAX_DECODED_BYTES);
}

void lance_codec_context_fini(struct lance_codec_context *context)
{
    for (size_t i = 0; i < LANCE_MAX_GENERAL_DEPTH; i++)
        base_buffer_fini(&context->scratch[i]);
    ZSTD_freeDCtx(context->zstd);
    context->zstd = NULL;
}

/* ---- general: LZ4 and Zstandard ---- */

#define ZSTD_FRAME_MAGIC 0xFD2FB528U
/* What a byte of compressed data can become at most: more is a lie, refused before memory is taken.
 * LZ4 adds at most 255 to a length with each byte; Zstandard's smallest block of a run is 4 bytes
 * for 128 KiB. */
#define LZ4_MAX_EXPANSION  255
#define ZSTD_MAX_EXPANSION 65536

static lake_status too_large(uint64_t size, size_t max_bytes, struct lake_error *err)
{
    return lake_fail(err, LAKE_DATA_LOSS,
                     "a compressed buffer claims %llu bytes where at most %zu can be",
                     (unsigned long long)size, max_bytes);
}

static lake_status decompress_lz4(struct lake_bytes data, size_t max_bytes, struct base_buffer *out,
                                  struct lake_error *err)
{
    if (data.size < 4 || data.size > INT32_MAX)
        return lake_fail(err, LAKE_DATA_LOSS, "an LZ4 buffer has %zu bytes", data.size);
    uint32_t size = base_load_u32le(data.data);
    if (size > max_bytes || size / LZ4_MAX_EXPANSION > data.size)
        return too_large(size, BASE_MIN(max_bytes, data.size * LZ4_MAX_EXPANSION), err);
    /* Sixteen bytes of slack: decoders downstream may read whole words. */
    lake_status status = base_buffer_reserve(out, (size_t)size + 16, err);
    if (status != LAKE_OK)
        return status;
    int written = LZ4_decompress_safe((const char *)data.data + 4, (char *)out->data,
                                      (int)data.size - 4, (int)size);
    if (written < 0 || (uint32_t)written != size)
        return lake_fail(err, LAKE_DATA_LOSS, "an LZ4 buffer does not decompress to its %u bytes",
                         size);
    out->size = size;
    return LAKE_OK;
}

/* A frame that does not say how much is in it, as a stream: what earlier releases wrote. */
static lake_status decompress_stream(struct lance_codec_context *context, struct lake_bytes data,
                                     size_t max_bytes, struct base_buffer *out,
                                     struct lake_error *err)
{
    ZSTD_inBuffer in = {data.data, data.size, 0};
    size_t left = 1;
    (void)ZSTD_DCtx_reset(context->zstd, ZSTD_reset_session_only);
    while (left != 0) {
        size_t room = BASE_MIN(ZSTD_DStreamOutSize(), max_bytes - out->size);
        lake_status status = base_buffer_reserve(out, room + 16, err);
        if (status != LAKE_OK)
            return status;
        ZSTD_outBuffer to = {out->data + out->size, room, 0};
        size_t before = in.pos;
        left = ZSTD_decompressStream(context->zstd, &to, &in);
        out->size += to.pos;
        if (ZSTD_isError(left))
            return lake_fail(err, LAKE_DATA_LOSS, "a Zstandard buffer does not decompress: %s",
                             ZSTD_getErrorName(left));
        if (left != 0 && to.pos == 0 && in.pos == before)
            return room == 0 ? too_large(out->size + 1, max_bytes, err)
                             : lake_fail(err, LAKE_DATA_LOSS, "a Zstandard buffer is cut short");
    }
    return LAKE_OK;
}

static lake_status decompress_zstd(struct lance_codec_context *context, struct lake_bytes data,
                                   size_t max_bytes, struct base_buffer *out,
                                   struct lake_error *err)
{
    uint64_t size;
    size_t start = 8;
    if (data.size >= 4 && base_load_u32le(data.data) == ZSTD_FRAME_MAGIC) {
        start = 0;
        size = ZSTD_getFrameContentSize(data.data, data.size);
        if (size == ZSTD_CONTENTSIZE_ERROR)
            return lake_fail(err, LAKE_DATA_LOSS, "a Zstandard frame's header is broken");
    } else if (data.size >= 8) {
        size = base_load_u64le(data.data);
    } else {
        return lake_fail(err, LAKE_DATA_LOSS, "a Zstandard buffer has only %zu bytes", data.size);
    }
    if (context->zstd == NULL && (context->zstd = ZSTD_createDCtx()) == NULL)
        return base_fail_no_memory(err, 1U << 17);
    if (start == 0 && size == ZSTD_CONTENTSIZE_UNKNOWN)
        return decompress_stream(context, data, max_bytes, out, err);
    if (size > max_bytes || size / ZSTD_MAX_EXPANSION > data.size)
        return too_large(size, BASE_MIN(max_bytes, data.size * ZSTD_MAX_EXPANSION), err);
    lake_status status = base_buffer_reserve(out, (size_t)size + 16, err);
    if (status != LAKE_OK)
        return status;
    size_t written = ZSTD_decompressDCtx(context->zstd, out->data, (size_t)size, data.data + start,
                                         data.size - start);
    if (ZSTD_isError(written) || written != size)
        return lake_fail(err, LAKE_DATA_LOSS,
                         "a Zstandard buffer does not decompress to its %llu bytes: %s",
                         (unsigned long long)size,
                         ZSTD_isError(written) ? ZSTD_getErrorName(written) : "it is shorter");
    out->size = (size_t)size;
    return LAKE_OK;
}

lake_status lance_decompress(struct lance_codec_context *context, uint32_t scheme,
                             struct lake_bytes data, size_t max_bytes, struct base_buffer *out,
                             struct lake_error *err)
{
    base_buffer_clear(out);
    if (scheme == LANCE_LZ4)
        return decompress_lz4(data, max_bytes, out, err);
    if (scheme == LANCE_ZSTD)
        return decompress_zstd(context, data, max_bytes, out, err);
    return lake_fail(err, LAKE_UNIMPLEMENTED, "unknown compression scheme %u", scheme);
}

void lance_compressor_fini(struct lance_compressor *compressor)
{
    ZSTD_freeCCtx(compressor->zstd);
    compressor->zstd = NULL;
}

/* One frame; each part ends a block, so that it has entropy tables of its own and a part without
 * any order is stored as it is. */
static lake_status compress_zstd(struct lance_compressor *compressor, struct lake_bytes data,
                                 size_t parts, uint8_t *out, size_t bound, size_t *written,
                                 struct lake_error *err)
{
    ZSTD_outBuffer to = {out, bound, 0};
    if (compressor->zstd == NULL && (compressor->zstd = ZSTD_createCCtx()) == NULL)
        return base_fail_no_memory(err, 1U << 20);
    size_t result = ZSTD_CCtx_reset(compressor->zstd, ZSTD_reset_session_only);
    if (!ZSTD_isError(result))
        result =
            ZSTD_CCtx_setParameter(compressor->zstd, ZSTD_c_compressionLevel, compressor->level);
    if (!ZSTD_isError(result))
        result = ZSTD_CCtx_setPledgedSrcSize(compressor->zstd, data.size);
    for (size_t i = 0; !ZSTD_isError(result) && i < parts; i++) {
        size_t start = data.size / parts * i;
        size_t end = i + 1 == parts ? data.size : start + data.size / parts;
        ZSTD_inBuffer from = {data.data + start, end - start, 0};
        result = ZSTD_compressStream2(compressor->zstd, &to, &from,
                                      i + 1 == parts ? ZSTD_e_end : ZSTD_e_flush);
        if (!ZSTD_isError(result) && result != 0) /* there was room for everything */
            return lake_fail(err, LAKE_INTERNAL, "Zstandard needs more than %zu bytes", bound);
    }
    if (ZSTD_isError(result))
        return lake_fail(err, LAKE_INTERNAL, "Zstandard cannot compress: %s",
                         ZSTD_getErrorName(result));
    *written = to.pos;
    return LAKE_OK;
}

lake_status lance_compress(struct lance_compressor *compressor, uint32_t scheme,
                           struct lake_bytes data, size_t parts, struct base_buffer *out,
                           struct lake_error *err)
{
    if (data.size > LZ4_MAX_INPUT_SIZE)
        return lake_fail(err, LAKE_INTERNAL, "a buffer of %zu bytes is too large to compress",
                         data.size);
    bool lz4 = scheme == LANCE_LZ4;
    size_t prefix = lz4 ? 4 : 8, written = 0;
    size_t bound = lz4 ? (size_t)LZ4_compressBound((int)data.size)
                       : ZSTD_compressBound(data.size) + 64 * parts; /* headers of more blocks */
    lake_status status = base_buffer_reserve(out, prefix + bound, err);
    if (status != LAKE_OK)
        return status;
    uint8_t *start = out->data + out->size;
    if (lz4) {
        base_store_u32le(start, (uint32_t)data.size);
        written = (size_t)LZ4_compress_default((const char *)data.data, (char *)start + prefix,
                                               (int)data.size, (int)bound);
        if (written == 0)
            return lake_fail(err, LAKE_INTERNAL, "LZ4 cannot compress %zu bytes", data.size);
    } else {
        base_store_u64le(start, data.size);
        status = compress_zstd(compressor, data, parts, start + prefix, bound, &written, err);
    }
    if (status == LAKE_OK)
        out->size += prefix + written;
    return status;
}

/* Opens the next scratch level and decompresses into it. The caller lowers context->depth when what
 * it decoded no longer refers to the scratch, or leaves that to the caller of the dispatcher. */
static lake_status open_general(struct lance_codec_context *context,
                                const struct lance_encoding *encoding, struct lake_bytes data,
                                size_t max_bytes, struct lake_bytes *out, struct lake_error *err)
{
    if (context->depth == LANCE_MAX_GENERAL_DEPTH)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "compression is nested deeper than %d",
                         LANCE_MAX_GENERAL_DEPTH);
    struct base_buffer *scratch = &context->scratch[context->depth];
    lake_status status = lance_decompress(context, encoding->scheme, data, max_bytes, scratch, err);
    if (status == LAKE_OK)
        *out = base_buffer_view(scratch);
    return status;
}

/* No fixed-width encoding takes more than its values flat, rounded up to whole bit-packed blocks.
 */
static size_t fixed_limit(uint64_t count, uint64_t bits)
{
    uint64_t rounded = BASE_ALIGN_UP(count, (uint64_t)LANCE_BLOCK_VALUES);
    uint64_t bytes;
    if (!base_u64_mul(rounded, bits, &bytes) || bytes / 8 > LANCE_MAX_DECODED_BYTES - 4096)
        return LANCE_MAX_DECODED_BYTES;
    return (size_t)(bytes / 8) + 4096;
}

static lake_status general_chunk_fixed(struct lance_codec_context *context,
                                       const struct lance_encoding *encoding,
                                       struct lance_chunk_buffers buffers, uint64_t count,
                                       uint64_t bits, uint8_t *out, struct lake_error *err)
{
    struct lake_bytes saved = buffers.buffers[0], opened;
    lake_status status =
        open_general(context, encoding, saved, fixed_limit(count, bits), &opened, err);
    if (status != LAKE_OK)
        return status;
    context->depth++;
    buffers.buffers[0] = opened;
    status = lance_chunk_decode_fixed(context, encoding->values, buffers, count, bits, out, err);
    buffers.buffers[0] = saved;
    context->depth--;
    return status;
}

static const struct lance_encoding *below_general(const struct lance_encoding *encoding)
{
    return encoding != NULL && encoding->kind == LANCE_ENCODING_GENERAL ? encoding->values
                                                                        : encoding;
}

bool lance_chunk_has_ranges(const struct lance_encoding *encoding)
{
    return find(below_general(encoding))->range_fixed != NULL;
}

lake_status lance_chunk_open(struct lance_codec_context *context,
                             const struct lance_encoding *encoding, struct lake_bytes data,
                             uint64_t count, uint64_t bits, struct lance_open_chunk *chunk,
                             struct lake_error *err)
{
    lake_status status;
    base_buffer_clear(&chunk->data);
    chunk->encoding = below_general(encoding);
    chunk->count = count;
    chunk->bits = bits;
    if (encoding->kind == LANCE_ENCODING_GENERAL)
        status = lance_decompress(context, encoding->scheme, data, fixed_limit(count, bits),
                                  &chunk->data, err);
    else
        status = base_buffer_append(&chunk->data, data.data, data.size, err);
    return status;
}

lake_status lance_chunk_decode_range(const struct lance_open_chunk *chunk, uint64_t first,
                                     uint64_t count, uint8_t *out, struct lake_error *err)
{
    return find(chunk->encoding)
        ->range_fixed(chunk->encoding, base_buffer_view(&chunk->data), chunk->count, first, count,
                      chunk->bits, out, err);
}

static lake_status general_chunk_variable(struct lance_codec_context *context,
                                          const struct lance_encoding *encoding,
                                          struct lance_chunk_buffers buffers, uint64_t count,
                                          struct lance_variable_view *out, struct lake_error *err)
{
    struct lake_bytes saved = buffers.buffers[0], opened;
    lake_status status =
        open_general(context, encoding, saved, LANCE_MAX_DECODED_BYTES - 16, &opened, err);
    if (status != LAKE_OK)
        return status;
    context->depth++;
    buffers.buffers[0] = opened;
    status = lance_chunk_decode_variable(context, encoding->values, buffers, count, out, err);
    buffers.buffers[0] = saved;
    context->depth--;
    return status;
}

static lake_status general_block_fixed(struct lance_codec_context *context,
                                       const struct lance_encoding *encoding,
                                       struct lake_bytes data, uint64_t count, uint64_t bits,
                                       uint8_t *out, struct lake_error *err)
{
    struct lake_bytes opened;
    lake_status status =
        open_general(context, encoding, data, fixed_limit(count, bits), &opened, err);
    if (status != LAKE_OK)
        return status;
    context->depth++;
    status = lance_block_decode_fixed(context, encoding->values, opened, count, bits, out, err);
    context->depth--;
    return status;
}

static lake_status general_block_variable(struct lance_codec_context *context,
                                          const struct lance_encoding *encoding,
                                          struct lake_bytes data, uint64_t count,
                                          struct lance_variable_view *out, struct lake_error *err)
{
    struct lake_bytes opened;
    lake_status status =
        open_general(context, encoding, data, LANCE_MAX_DECODED_BYTES - 16, &opened, err);
    if (status != LAKE_OK)
        return status;
    context->depth++;
    status = lance_block_decode_variable(context, encoding->values, opened, count, out, err);
    context->depth--;
    return status;
}

const struct lance_codec lance_codec_general = {
    .kind = LANCE_ENCODING_GENERAL,
    .chunk_fixed = general_chunk_fixed,
    .chunk_variable = general_chunk_variable,
    .block_fixed = general_block_fixed,
    .block_variable = general_block_variable,
};
