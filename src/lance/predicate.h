/* A filter made ready for its column: filter.c makes and applies it, prune.c asks statistics and
 * the bounds of indices. */
#ifndef LANCE_PREDICATE_H
#define LANCE_PREDICATE_H

#include "table.h"

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

enum predicate_kind {
    ON_NULLNESS,
    ON_INTEGER,
    ON_FLOAT,
    ON_BYTES
};

enum storage { /* of the column (of its dictionary, when it has one) */
    AS_OTHER,
    AS_BOOL,
    AS_I8,
    AS_U8,
    AS_I16,
    AS_U16,
    AS_I32,
    AS_U32,
    AS_I64,
    AS_U64,
    AS_I128,
    AS_F32,
    AS_F64,
    AS_BYTES32,
    AS_BYTES64,
    AS_BYTES_FIXED
};

struct lance_predicate {
    enum predicate_kind kind;
    enum storage storage;
    enum lance_filter_op op;
    bool is_null_type;
    bool has_dictionary;
    char index_format; /* of a dictionary's indices */
    size_t fixed_bytes;
    /* ON_INTEGER: low <= v && v <= high, negated; for LANCE_IN any of the set */
    wide low;
    wide high;
    bool negated;
    bool never; /* no value passes */
    wide *set;  /* ascending */
    double *floats;
    struct lake_bytes *bytes; /* ascending; data owned by `owned` */
    size_t count;             /* of set, floats or bytes */
    uint8_t *owned;
};

/* A value of an array of the column's type (of its dictionary), which is not null. */
wide lance_predicate_load_wide(const struct lance_predicate *predicate,
                               const struct ArrowArray *array, uint64_t i);
double lance_predicate_load_float(const struct lance_predicate *predicate,
                                  const struct ArrowArray *array, uint64_t i);
struct lake_bytes lance_predicate_load_bytes(const struct lance_predicate *predicate,
                                             const struct ArrowArray *array, uint64_t i);
int lance_compare_bytes(struct lake_bytes a, struct lake_bytes b);

#endif
