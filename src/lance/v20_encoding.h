/*
 * Storage 2.0: how one page of a column is encoded, the message lance.encodings.ArrayEncoding as a
 * tree. As with page_layout.h it is recursive and comes from outside, so depth and memory are
 * bounded here; a parsed tree lives in the arena and borrows from the message.
 */
#ifndef LANCE_V20_ENCODING_H
#define LANCE_V20_ENCODING_H

#include "schema.h"

#define LANCE_V20_MAX_DEPTH 32

/* The numbers are those of the oneof ArrayEncoding. */
enum lance_v20_kind {
    LANCE_V20_FLAT = 1,
    LANCE_V20_NULLABLE = 2,
    LANCE_V20_FIXED_SIZE_LIST = 3,
    LANCE_V20_LIST = 4,
    LANCE_V20_STRUCT = 5,
    LANCE_V20_BINARY = 6,
    LANCE_V20_DICTIONARY = 7,
    LANCE_V20_FSST = 8,
    LANCE_V20_PACKED_STRUCT = 9,
    LANCE_V20_BITPACKED = 10,
    LANCE_V20_FIXED_SIZE_BINARY = 11,
    LANCE_V20_BITPACKED_NON_NEGATIVE = 12
};

enum lance_v20_nulls { /* the numbers are those of the oneof Nullable */
    LANCE_V20_NO_NULLS = 1,
    LANCE_V20_SOME_NULLS = 2,
    LANCE_V20_ALL_NULLS = 3
};

struct lance_v20_encoding {
    enum lance_v20_kind kind;
    enum lance_v20_nulls nulls; /* nullable */
    uint64_t bits;              /* flat: of a value; bit-packed: of a packed value */
    uint64_t value_bits;        /* bit-packed: of a value */
    bool is_signed;             /* bit-packed: the highest bit is a sign */
    uint32_t buffer;            /* flat, packed struct, bit-packed: which page buffer */
    uint32_t scheme;            /* flat: how the buffer is compressed, enum lance_compression */
    uint64_t count; /* list: items; dictionary: items; fixed-size list, binary: width of a value */
    uint64_t null_adjustment;                  /* list, binary */
    struct lake_bytes symbols;                 /* fsst */
    const struct lance_v20_encoding *validity; /* nullable with some nulls */
    const struct lance_v20_encoding *values;   /* what is inside; of binary, dictionary: indices */
    const struct lance_v20_encoding *items;    /* binary: bytes; dictionary: items */
};

/* DATA_LOSS for a broken message; UNIMPLEMENTED names an encoding that 2.0 does not have. */
lake_status lance_v20_encoding_parse(struct lake_bytes message, struct base_arena *arena,
                                     const struct lance_v20_encoding **out, struct lake_error *err);

#endif
