/*
 * Statistics of a column: for each zone of some thousand rows the least and the greatest value, how
 * many are null, and perhaps a Bloom filter of what occurs. A filter that no value of a zone can
 * pass skips its rows unread. And of all rows: how many runs of one value they make, when few.
 *
 * Our writer keeps them in a buffer of the column (ColumnMetadata.buffer_offsets), which other
 * readers do not look at; the buffer begins with a magic number, so that another's is not taken for
 * ours. For other writers' files they come from scanning (observe.c).
 *
 * Only top-level columns of fixed width up to 64 bits and of strings have them. Low and high are
 * bounds: a string's are its first eight bytes.
 */
#ifndef LANCE_ZONES_H
#define LANCE_ZONES_H

#include "leaf.h"

#define LANCE_ZONE_ROWS 8192

enum lance_zone_kind { /* of low and high; the numbers stand in files */
    LANCE_ZONES_NONE = 0,
    LANCE_ZONES_SIGNED = 1,   /* int64 */
    LANCE_ZONES_UNSIGNED = 2, /* uint64; booleans */
    LANCE_ZONES_FLOAT = 3,    /* double; NaN is the greatest of all values */
    LANCE_ZONES_BYTES = 4     /* the first 8 bytes, padded with zeros, as a big-endian number */
};

struct lance_zone {
    uint64_t low; /* bits of the kind's type; meaningless when all rows are null */
    uint64_t high;
    uint32_t row_count;
    uint32_t null_count;
};

struct lance_zones { /* immutable once a file has it */
    enum lance_zone_kind kind;
    uint32_t zone_rows; /* of every zone but the last */
    size_t count;
    struct lance_zone *zones;
    uint32_t bloom_bytes; /* of each zone, a power of two; 0: no filters */
    uint8_t *blooms;
    uint32_t runs; /* at most so many runs of one value or null; 0: not known, or many */
};

void lance_zones_free(struct lance_zones *zones); /* NULL is allowed */
/* UNIMPLEMENTED for another's buffer, DATA_LOSS for a broken one of ours. */
lake_status lance_zones_parse(struct lake_bytes bytes, uint64_t row_count, struct lance_zones **out,
                              struct lake_error *err);
/* What a Bloom filter is asked for: the hash of a value, from its bits as in `low`, or all bytes.
 */
uint64_t lance_zone_hash(uint64_t value);
uint64_t lance_zone_hash_bytes(struct lake_bytes value);
/* The first 8 bytes, padded with zeros, as a big-endian number. */
uint64_t lance_zone_prefix(struct lake_bytes value);
/* False: no row of the zone has a value of that hash. */
bool lance_zones_may_have(const struct lance_zones *zones, size_t zone, uint64_t hash);

/* ---- making them ---- */

struct lance_zone_builder {
    const struct lance_leaf_type *type; /* borrowed */
    enum lance_zone_kind kind;
    struct base_buffer zones;  /* struct lance_zone, the last one perhaps not full */
    struct base_buffer blooms; /* of all zones; empty when given up */
    bool no_blooms;
    bool no_runs;
    uint64_t runs; /* of one value or null; a run that goes on from one call into the next is two */
    uint64_t rows;
    struct base_buffer work;
};
void lance_zone_builder_init(struct lance_zone_builder *builder,
                             const struct lance_leaf_type *type);
void lance_zone_builder_fini(struct lance_zone_builder *builder);
/* The next rows: one slot each; `def` not 0 (or NULL) marks the nulls. */
lake_status lance_zone_builder_add(struct lance_zone_builder *builder,
                                   const struct lance_leaf_values *values, const uint16_t *def,
                                   struct lake_error *err);
/* Appends the buffer that lance_zones_parse reads; nothing when the column has no statistics. */
lake_status lance_zone_builder_print(struct lance_zone_builder *builder, struct base_buffer *out,
                                     struct lake_error *err);

#endif
