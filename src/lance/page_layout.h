/*
 * How one page of a data file is encoded: the message lance.encodings21.PageLayout as a tree.
 *
 * Parsed by hand rather than by protobuf-c because the message is recursive and comes from outside:
 * depth, member count and memory are bounded here. A parsed layout lives in the arena it was parsed
 * into and its byte views borrow from the message.
 */
#ifndef LANCE_PAGE_LAYOUT_H
#define LANCE_PAGE_LAYOUT_H

#include "schema.h"

#define LANCE_MAX_ENCODING_DEPTH 16
#define LANCE_MAX_LAYERS         (LANCE_MAX_NESTING + 2)
#define LANCE_MAX_PACKED_MEMBERS 1024

/* The numbers are those of the oneof CompressiveEncoding. */
enum lance_encoding_kind {
    LANCE_ENCODING_FLAT = 1,
    LANCE_ENCODING_VARIABLE = 2,
    LANCE_ENCODING_CONSTANT = 3,
    LANCE_ENCODING_OUT_OF_LINE_BITPACKING = 4,
    LANCE_ENCODING_INLINE_BITPACKING = 5,
    LANCE_ENCODING_FSST = 6,
    LANCE_ENCODING_DICTIONARY = 7,
    LANCE_ENCODING_RLE = 8,
    LANCE_ENCODING_BYTE_STREAM_SPLIT = 9,
    LANCE_ENCODING_GENERAL = 10,
    LANCE_ENCODING_FIXED_SIZE_LIST = 11,
    LANCE_ENCODING_PACKED_STRUCT = 12,
    LANCE_ENCODING_VARIABLE_PACKED_STRUCT = 13
};

enum lance_compression {
    LANCE_LZ4 = 1,
    LANCE_ZSTD = 2
};

struct lance_encoding;

struct lance_packed_member { /* of a variable packed struct */
    const struct lance_encoding *value;
    uint64_t bits; /* of the value, or of the length in front of it */
    bool variable;
};

struct lance_fsst_table; /* codec.h */
struct lance_encoding {
    enum lance_encoding_kind kind;
    uint64_t bits;     /* flat: of a value; bitpackings: of a value before packing */
    uint64_t items;    /* fixed-size list: items in a row */
    bool has_validity; /* fixed-size list: items may be null */
    uint32_t scheme;   /* general: enum lance_compression */
    bool compressed;   /* a buffer compression inside a leaf codec, which 2.1 and 2.2 never use */
    struct lake_bytes bytes;                /* fsst: symbol table; constant: the value */
    const struct lance_fsst_table *symbols; /* fsst: the same, of an encoding that was parsed */
    const struct lance_encoding *values;    /* what is inside, or NULL */
    const struct lance_encoding *lengths;   /* variable: offsets; rle: run lengths */
    uint64_t *member_bits;                  /* packed struct: bits of each member */
    struct lance_packed_member *members;    /* variable packed struct */
    size_t member_count;                    /* of either */
};

enum lance_layer {
    LANCE_ALL_VALID_ITEM = 1,
    LANCE_ALL_VALID_LIST = 2,
    LANCE_NULLABLE_ITEM = 3,
    LANCE_NULLABLE_LIST = 4,
    LANCE_EMPTYABLE_LIST = 5,
    LANCE_NULL_AND_EMPTY_LIST = 6
};

/* The numbers are those of the oneof PageLayout. */
enum lance_layout_kind {
    LANCE_MINI_BLOCK = 1,
    LANCE_CONSTANT_PAGE = 2,
    LANCE_FULL_ZIP = 3,
    LANCE_BLOB_PAGE = 4
};

struct lance_page_layout {
    enum lance_layout_kind kind;
    uint8_t layers[LANCE_MAX_LAYERS]; /* leaf first */
    size_t layer_count;
    const struct lance_encoding *rep; /* NULL: no repetition levels */
    const struct lance_encoding *def;
    const struct lance_encoding *values;
    /* mini-block */
    const struct lance_encoding *dictionary;
    uint64_t dictionary_items;
    uint64_t buffers_per_chunk;
    uint32_t repetition_index_depth;
    uint64_t item_count;
    bool has_large_chunk;
    /* full-zip; item_count too */
    uint32_t bits_rep;
    uint32_t bits_def;
    uint64_t bits_per_value;  /* 0: not fixed */
    uint32_t bits_per_offset; /* 0: not variable */
    uint64_t visible_item_count;
    /* constant */
    bool has_inline_value;
    struct lake_bytes inline_value;
    uint64_t rep_value_count;
    uint64_t def_value_count;
    /* blob: how the descriptions are stored; its layers are those of one item */
    const struct lance_page_layout *descriptions;
};

bool lance_layer_is_list(uint8_t layer);
/* How many definition levels a layer takes: 0, 1, or 2 for null and empty. */
uint32_t lance_layer_def_levels(uint8_t layer);

/* DATA_LOSS for a broken message, UNIMPLEMENTED for a layout or encoding of no known version. */
lake_status lance_page_layout_parse(struct lake_bytes message, struct base_arena *arena,
                                    struct lance_page_layout *out, struct lake_error *err);
/* Appends the serialized PageLayout. */
lake_status lance_page_layout_print(const struct lance_page_layout *layout, struct base_buffer *out,
                                    struct lake_error *err);
const char *lance_encoding_name(enum lance_encoding_kind kind);

#endif
