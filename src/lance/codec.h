/*
 * The compressive encodings: one table of methods, indexed by the encoding's number.
 *
 * Two uses with different byte layouts: *chunk* (the values of one mini-block chunk, in one or more
 * buffers) and *block* (levels and dictionaries, one buffer). Values are either fixed-width (`bits`
 * each, booleans being one bit) or variable (offsets and bytes). A method that is NULL is a use the
 * format does not have; the dispatchers refuse it by name.
 *
 * Everything decoded here comes from outside: each method checks buffer sizes before it reads and
 * writes at most what `count` and `bits` allow. A context belongs to one thread.
 */
#ifndef LANCE_CODEC_H
#define LANCE_CODEC_H

#include "kernels.h"
#include "page_layout.h"

/* No decompressed chunk, dictionary or level buffer is larger. */
#define LANCE_MAX_DECODED_BYTES (1U << 30)
#define LANCE_MAX_GENERAL_DEPTH 3

struct lance_codec_context {
    struct base_buffer scratch[LANCE_MAX_GENERAL_DEPTH]; /* decompressed bytes, by depth */
    size_t depth;
    void *zstd; /* ZSTD_DCtx, made when first needed */
};
void lance_codec_context_init(struct lance_codec_context *context);
void lance_codec_context_fini(struct lance_codec_context *context);

/* FSST's symbols, parsed from an encoding's table. */
struct lance_fsst_table {
    bool enabled; /* false: strings are stored as they are */
    uint32_t symbol_count;
    uint64_t symbols[256];
    uint8_t lengths[256];
};

/* Decoded variable-width values, borrowed from a buffer or from the context's scratch: value i is
 * base[offset i .. offset i+1), or its FSST expansion. Offsets are not yet checked. */
struct lance_variable_view {
    const uint8_t *offsets; /* count + 1, little endian, any alignment */
    uint32_t offset_bytes;  /* 4 or 8 */
    const uint8_t *base;
    size_t base_bytes;
    uint64_t count;
    const struct lance_encoding *fsst; /* or NULL */
};

/* The buffers of a chunk that are left to decode; methods consume from the front. */
struct lance_chunk_buffers {
    struct lake_bytes *buffers;
    size_t count;
};

struct lance_codec {
    enum lance_encoding_kind kind;
    lake_status (*chunk_fixed)(struct lance_codec_context *context,
                               const struct lance_encoding *encoding,
                               struct lance_chunk_buffers buffers, uint64_t count, uint64_t bits,
                               uint8_t *out, struct lake_error *err);
    /* Values [first, first + count) of the `total` in `data`. */
    lake_status (*range_fixed)(const struct lance_encoding *encoding, struct lake_bytes data,
                               uint64_t total, uint64_t first, uint64_t count, uint64_t bits,
                               uint8_t *out, struct lake_error *err);
    lake_status (*chunk_variable)(struct lance_codec_context *context,
                                  const struct lance_encoding *encoding,
                                  struct lance_chunk_buffers buffers, uint64_t count,
                                  struct lance_variable_view *out, struct lake_error *err);
    lake_status (*block_fixed)(struct lance_codec_context *context,
                               const struct lance_encoding *encoding, struct lake_bytes data,
                               uint64_t count, uint64_t bits, uint8_t *out, struct lake_error *err);
    lake_status (*block_variable)(struct lance_codec_context *context,
                                  const struct lance_encoding *encoding, struct lake_bytes data,
                                  uint64_t count, struct lance_variable_view *out,
                                  struct lake_error *err);
};

/* `out` has room for ceil(count * bits / 8) bytes, all of which are written. */
lake_status lance_chunk_decode_fixed(struct lance_codec_context *context,
                                     const struct lance_encoding *encoding,
                                     struct lance_chunk_buffers buffers, uint64_t count,
                                     uint64_t bits, uint8_t *out, struct lake_error *err);
lake_status lance_chunk_decode_variable(struct lance_codec_context *context,
                                        const struct lance_encoding *encoding,
                                        struct lance_chunk_buffers buffers, uint64_t count,
                                        struct lance_variable_view *out, struct lake_error *err);
/* A chunk that is read in parts: its values, decompressed but not decoded, and how they are encoded
 * then. Borrows from the encoding it was opened with. */
struct lance_open_chunk {
    const struct lance_encoding *encoding;
    struct base_buffer data;
    uint64_t count;
    uint64_t bits;
};
/* Whether values in the middle of a chunk can be decoded without those before them. */
bool lance_chunk_has_ranges(const struct lance_encoding *encoding);
/* For an encoding that has ranges; chunk->data is initialised. */
lake_status lance_chunk_open(struct lance_codec_context *context,
                             const struct lance_encoding *encoding, struct lake_bytes data,
                             uint64_t count, uint64_t bits, struct lance_open_chunk *chunk,
                             struct lake_error *err);
/* Values [first, first + count), which the chunk has. */
lake_status lance_chunk_decode_range(const struct lance_open_chunk *chunk, uint64_t first,
                                     uint64_t count, uint8_t *out, struct lake_error *err);
lake_status lance_block_decode_fixed(struct lance_codec_context *context,
                                     const struct lance_encoding *encoding, struct lake_bytes data,
                                     uint64_t count, uint64_t bits, uint8_t *out,
                                     struct lake_error *err);
lake_status lance_block_decode_variable(struct lance_codec_context *context,
                                        const struct lance_encoding *encoding,
                                        struct lake_bytes data, uint64_t count,
                                        struct lance_variable_view *out, struct lake_error *err);

/* Bits of the fixed values that an encoding yields, looking through wrappers; 0: not fixed. */
uint64_t lance_encoding_value_bits(const struct lance_encoding *encoding);
/* Decompresses a general-compressed buffer (framing included) of at most max_bytes into `out`,
 * which is cleared first. */
lake_status lance_decompress(struct lance_codec_context *context, uint32_t scheme,
                             struct lake_bytes data, size_t max_bytes, struct base_buffer *out,
                             struct lake_error *err);
/* What compression keeps between buffers. Belongs to one thread. */
struct lance_compressor {
    int level;  /* Zstandard's */
    void *zstd; /* ZSTD_CCtx, made when first needed */
};
void lance_compressor_fini(struct lance_compressor *compressor);
/* Appends the framing and the compressed bytes. `parts` of equal size that differ in kind, such as
 * byte planes, are told apart where the scheme can: their statistics are not mixed then. */
lake_status lance_compress(struct lance_compressor *compressor, uint32_t scheme,
                           struct lake_bytes data, size_t parts, struct base_buffer *out,
                           struct lake_error *err);

/* ---- the single codecs ---- */

extern const struct lance_codec lance_codec_flat;
extern const struct lance_codec lance_codec_variable;
extern const struct lance_codec lance_codec_constant;
extern const struct lance_codec lance_codec_out_of_line;
extern const struct lance_codec lance_codec_inline;
extern const struct lance_codec lance_codec_fsst;
extern const struct lance_codec lance_codec_rle;
extern const struct lance_codec lance_codec_byte_stream_split;
extern const struct lance_codec lance_codec_packed_struct;
extern const struct lance_codec lance_codec_general;

/* The kernels of kernels.h, by type. FastLanes: 1024 values of T = 8, 16, 32 or 64 bits from and to
 * packed words of width w <= T. `packed` holds 128 * w bytes. */
void lance_bits_unpack(uint32_t type_bits, uint32_t width, const uint8_t *packed, uint8_t *out);
void lance_bits_pack(uint32_t type_bits, uint32_t width, const uint8_t *values, uint8_t *packed);
/* The width that the widest of `count` values needs. */
uint32_t lance_bits_needed(uint32_t type_bits, const uint8_t *values, uint64_t count);

/* Values of 4 or 8 bytes. */
void lance_bytes_split(uint32_t value_bytes, uint64_t count, const uint8_t *values, uint8_t *out);
void lance_bytes_join(uint32_t value_bytes, uint64_t count, const uint8_t *planes, uint8_t *out);

lake_status lance_fsst_table_parse(struct lake_bytes bytes, struct lance_fsst_table *out,
                                   struct lake_error *err);
/* Writes at most 8 * size bytes (with up to 7 more of slack) and returns how many count;
 * false for a code without a symbol or an escape without its byte. */
bool lance_fsst_decode(const struct lance_fsst_table *table, const uint8_t *data, size_t size,
                       uint8_t *out, size_t *out_bytes);

#endif
