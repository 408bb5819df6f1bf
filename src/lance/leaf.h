/*
 * A leaf (one physical column of a data file): its type, and growing runs of its values.
 *
 * `lance_leaf_values` is where decoders put values and where the writer gathers them: Arrow's
 * layout, with one slot for every visible value, null or not (nulls are levels, not slots).
 */
#ifndef LANCE_LEAF_H
#define LANCE_LEAF_H

#include "codec.h"

#define LANCE_MAX_FSL_DEPTH   8
#define LANCE_MAX_VALUE_BYTES (64U << 20) /* of one fixed-width row */

enum lance_leaf_kind {
    LANCE_LEAF_NULL,
    LANCE_LEAF_FIXED,    /* primitives, booleans, decimals, fixed-size binary */
    LANCE_LEAF_VARIABLE, /* strings and binaries */
    LANCE_LEAF_FSL,      /* fixed-size list of fixed-width items */
    LANCE_LEAF_DICTIONARY,
    LANCE_LEAF_PACKED /* a struct stored as one column of rows; members are never null */
};

struct lance_leaf_type {
    enum lance_leaf_kind kind;
    uint64_t item_bits; /* of one fixed item or dictionary key; 1 for booleans; of a packed row, 0
                           when a member is variable */
    uint64_t items;     /* items in a row: the product of fsl_sizes; 1 without */
    uint32_t fsl_depth;
    uint64_t fsl_sizes[LANCE_MAX_FSL_DEPTH]; /* outermost first */
    uint32_t offset_bytes;                   /* variable: 4 or 8, of the Arrow type */
    bool integer;                            /* integers and temporal values: worth bit packing */
    const struct ArrowSchema *arrow;
    const struct ArrowSchema *dictionary; /* value type, borrowed */
};
/* UNIMPLEMENTED for a type that has no single column. */
lake_status lance_leaf_type_of(const struct ArrowSchema *arrow, struct lance_leaf_type *out,
                               struct lake_error *err);

/* A bitmap that grows bit by bit; bits past `count` in its last byte are zero, and one byte more
 * may be read, which the SQL engine does. */
struct lance_bits {
    struct base_buffer bytes;
    uint64_t count;
};
void lance_bits_init(struct lance_bits *bits);
void lance_bits_fini(struct lance_bits *bits);
void lance_bits_clear(struct lance_bits *bits);
lake_status lance_bits_append_run(struct lance_bits *bits, bool value, uint64_t count,
                                  struct lake_error *err);
/* `count` bits of a bitmap from its bit `start`. */
lake_status lance_bits_append(struct lance_bits *bits, const uint8_t *from, uint64_t start,
                              uint64_t count, struct lake_error *err);
/* Copies bits; `to` is only written within [to_start, to_start + count). */
void lance_bits_copy(uint8_t *to, uint64_t to_start, const uint8_t *from, uint64_t from_start,
                     uint64_t count);
uint64_t lance_bits_count_set(const uint8_t *bits, uint64_t start, uint64_t count);

struct lance_leaf_values {
    const struct lance_leaf_type *type; /* borrowed */
    uint64_t count;
    struct base_buffer fixed;   /* fixed, FSL and dictionary keys, when item_bits >= 8 */
    struct lance_bits booleans; /* instead of `fixed` when item_bits == 1 */
    struct base_buffer offsets; /* variable: count + 1 once anything is there */
    struct base_buffer data;
    struct lance_bits item_valid[LANCE_MAX_FSL_DEPTH]; /* FSL: validity of each layer's items */
    bool item_nulls[LANCE_MAX_FSL_DEPTH]; /* false: all valid so far, bitmap not kept */
    struct lance_leaf_values *members;    /* packed structs: each with `count` slots */
    struct lance_leaf_type *member_types; /* what they borrow */
    size_t member_count;
};
void lance_leaf_values_init(struct lance_leaf_values *values, const struct lance_leaf_type *type);
/* What init leaves out for a packed struct: its members. Nothing to do for another type. */
lake_status lance_leaf_values_init_members(struct lance_leaf_values *values,
                                           struct lake_error *err);
/* Takes `count` rows of fixed-width members, back to back, apart. */
lake_status lance_leaf_values_append_packed(struct lance_leaf_values *values, const uint8_t *rows,
                                            uint64_t count, struct lake_error *err);
void lance_leaf_values_fini(struct lance_leaf_values *values);
void lance_leaf_values_clear(struct lance_leaf_values *values);
/* Room for `count` more fixed values; *out is where they go (item_bits >= 8 only). The caller
 * fills them and calls lance_leaf_values_grew. */
lake_status lance_leaf_values_reserve(struct lance_leaf_values *values, uint64_t count,
                                      uint8_t **out, struct lake_error *err);
void lance_leaf_values_grew(struct lance_leaf_values *values, uint64_t count);
/* `count` slots of zeros, empty strings or valid zero items. */
lake_status lance_leaf_values_append_zeros(struct lance_leaf_values *values, uint64_t count,
                                           struct lake_error *err);
/* Slots [start, start + count) of another run of the same type. */
lake_status lance_leaf_values_append_slice(struct lance_leaf_values *values,
                                           const struct lance_leaf_values *from, uint64_t start,
                                           uint64_t count, struct lake_error *err);
/* Values [start, start + count) of a view, checked: offsets must not fall and must stay inside. */
lake_status lance_leaf_values_append_view(struct lance_leaf_values *values,
                                          const struct lance_variable_view *view, uint64_t start,
                                          uint64_t count, struct lake_error *err);
lake_status lance_leaf_values_append_one(struct lance_leaf_values *values, const uint8_t *data,
                                         size_t size, struct lake_error *err);
/* Room for `count` variable values of `total` bytes, and 16 bytes of slack behind them; *out is
 * where the bytes go, each value announced by lance_leaf_values_push_size. */
lake_status lance_leaf_values_reserve_variable(struct lance_leaf_values *values, uint64_t count,
                                               uint64_t total, uint8_t **out,
                                               struct lake_error *err);
/* Makes item validity bitmaps of layer `depth` explicit (all valid so far). */
lake_status lance_leaf_values_need_item_validity(struct lance_leaf_values *values, uint32_t depth,
                                                 struct lake_error *err);
/* Bytes of one row of fixed-width items of whole bytes. */
static inline size_t lance_leaf_row_bytes(const struct lance_leaf_type *type)
{
    return (size_t)(type->items * (type->item_bits / 8));
}
/* Items of FSL layer `depth` in one row: the product of the sizes down to it. */
uint64_t lance_leaf_items_at(const struct lance_leaf_type *type, uint32_t depth);
/* The highest key of an Arrow dictionary type. */
uint64_t lance_leaf_key_limit(const struct lance_leaf_type *type);
/* Whether the first slots are exactly those of `prefix`; fixed and variable types only. */
bool lance_leaf_values_start_with(const struct lance_leaf_values *values,
                                  const struct lance_leaf_values *prefix);
/* Start and end of variable value i. */
static inline void lance_leaf_values_range(const struct lance_leaf_values *values, uint64_t i,
                                           uint64_t *start, uint64_t *end)
{
    const uint8_t *offsets = values->offsets.data;
    if (values->type->offset_bytes == 4) {
        *start = base_load_u32le(offsets + 4 * i);
        *end = base_load_u32le(offsets + 4 * i + 4);
    } else {
        *start = base_load_u64le(offsets + 8 * i);
        *end = base_load_u64le(offsets + 8 * i + 8);
    }
}
/* The value whose bytes follow those of the last one, in reserved room. */
static inline void lance_leaf_values_push_size(struct lance_leaf_values *values, size_t size)
{
    uint8_t *to = values->offsets.data + values->offsets.size;
    values->data.size += size;
    if (values->type->offset_bytes == 4)
        base_store_u32le(to, (uint32_t)values->data.size);
    else
        base_store_u64le(to, values->data.size);
    values->offsets.size += values->type->offset_bytes;
    values->count++;
}

#endif
