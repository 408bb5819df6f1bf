/*
 * Storage 2.0: the encodings of values, by the type of the leaf they are read into.
 */
#include "v20_page.h"

#include <string.h>

/* Where decoded values go: the leaf's own, or those of a dictionary. */
struct target {
    struct lance_leaf_values *values;
    struct lance_bits *valid; /* a bit for each value */
};

static lake_status append(struct lance_v20_leaf *leaf, const struct lance_v20_encoding *encoding,
                          uint64_t first, uint64_t count, struct target out,
                          struct lake_error *err);

static lake_status unexpected(const struct lance_v20_encoding *encoding,
                              const struct lance_leaf_type *type, struct lake_error *err)
{
    return lake_fail(err, LAKE_UNIMPLEMENTED, "encoding %d of values of type \"%s\"",
                     (int)encoding->kind, type->arrow == NULL ? "?" : type->arrow->format);
}

/* Bits [first, first + count) of a validity bitmap. */
static lake_status append_bits(struct lance_v20_leaf *leaf,
                               const struct lance_v20_encoding *encoding, uint64_t first,
                               uint64_t count, struct lance_bits *out, struct lake_error *err)
{
    struct base_buffer bits;
    if (count > lance_v20_capacity(&leaf->column, encoding))
        return lake_fail(err, LAKE_DATA_LOSS, "a page lacks validity");
    base_buffer_init(&bits, LANCE_MAX_DECODED_BYTES);
    lake_status status = base_buffer_append_zeros(&bits, (size_t)(count + 7) / 8 + 1, err);
    if (status == LAKE_OK)
        status = lance_v20_read_fixed(&leaf->column, encoding, first, count, 1, bits.data, err);
    if (status == LAKE_OK)
        status = lance_bits_append(out, bits.data, 0, count, err);
    base_buffer_fini(&bits);
    return status;
}

/* ---- fixed width ---- */

/* `items` fixed-width items from item `first`, which are `rows` values of the type. */
static lake_status append_items(struct lance_v20_leaf *leaf,
                                const struct lance_v20_encoding *encoding, uint64_t first,
                                uint64_t items, uint64_t rows, struct lance_leaf_values *out,
                                struct lake_error *err)
{
    const struct lance_leaf_type *type = out->type;
    uint8_t *to;
    lake_status status;
    if (items > lance_v20_capacity(&leaf->column, encoding))
        return lake_fail(err, LAKE_DATA_LOSS, "a page lacks values");
    if (type->item_bits == 1) {
        status = append_bits(leaf, encoding, first, items, &out->booleans, err);
        if (status == LAKE_OK)
            out->count += rows;
        return status;
    }
    status = lance_leaf_values_reserve(out, rows, &to, err);
    if (status == LAKE_OK)
        status =
            lance_v20_read_fixed(&leaf->column, encoding, first, items, type->item_bits, to, err);
    if (status == LAKE_OK)
        lance_leaf_values_grew(out, rows);
    return status;
}

/* Lists of which every item is null: layer `depth` has said so. */
static lake_status append_null_items(uint32_t depth, uint64_t rows, struct lance_leaf_values *out,
                                     struct lake_error *err)
{
    const struct lance_leaf_type *type = out->type;
    lake_status status = LAKE_OK;
    for (uint32_t d = depth + 1; status == LAKE_OK && d < type->fsl_depth; d++)
        if (out->item_nulls[d])
            status = lance_bits_append_run(&out->item_valid[d], true,
                                           rows * lance_leaf_items_at(type, d), err);
    if (status == LAKE_OK && type->item_bits == 1)
        status = lance_bits_append_run(&out->booleans, false, rows * type->items, err);
    else if (status == LAKE_OK)
        status =
            base_buffer_append_zeros(&out->fixed, (size_t)rows * lance_leaf_row_bytes(type), err);
    if (status == LAKE_OK)
        out->count += rows;
    return status;
}

/* Layer `depth` of fixed-size lists, down to the items. */
static lake_status append_lists(struct lance_v20_leaf *leaf,
                                const struct lance_v20_encoding *encoding, uint32_t depth,
                                uint64_t first, uint64_t count, uint64_t rows,
                                struct lance_leaf_values *out, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    uint64_t size = out->type->fsl_sizes[depth];
    if (encoding->kind != LANCE_V20_FIXED_SIZE_LIST)
        return unexpected(encoding, out->type, err);
    if (encoding->count != size || !base_u64_mul(first, size, &first) ||
        !base_u64_mul(count, size, &count))
        return lake_fail(err, LAKE_DATA_LOSS, "lists of %llu items where the type has %llu",
                         (unsigned long long)encoding->count, (unsigned long long)size);
    const struct lance_v20_encoding *items = encoding->values, *validity = NULL;
    bool all_null = false;
    while (items != NULL && items->kind == LANCE_V20_NULLABLE && !all_null) {
        if (items->nulls == LANCE_V20_SOME_NULLS)
            validity = items->validity;
        all_null = items->nulls == LANCE_V20_ALL_NULLS;
        items = items->values;
    }
    if (validity != NULL || all_null)
        status = lance_leaf_values_need_item_validity(out, depth, err);
    if (status == LAKE_OK && all_null)
        status = lance_bits_append_run(&out->item_valid[depth], false, count, err);
    else if (status == LAKE_OK && validity != NULL)
        status = append_bits(leaf, validity, first, count, &out->item_valid[depth], err);
    else if (status == LAKE_OK && out->item_nulls[depth])
        status = lance_bits_append_run(&out->item_valid[depth], true, count, err);
    if (status != LAKE_OK)
        return status;
    if (all_null)
        return append_null_items(depth, rows, out, err);
    if (depth + 1 < out->type->fsl_depth)
        return append_lists(leaf, items, depth + 1, first, count, rows, out, err);
    return append_items(leaf, items, first, count, rows, out, err);
}

static lake_status append_packed(struct lance_v20_leaf *leaf,
                                 const struct lance_v20_encoding *encoding, uint64_t first,
                                 uint64_t count, struct lance_leaf_values *out,
                                 struct lake_error *err)
{
    struct lance_v20_encoding rows = {
        .kind = LANCE_V20_FLAT, .bits = out->type->item_bits, .buffer = encoding->buffer};
    struct base_buffer bytes;
    if (rows.bits == 0)
        return unexpected(encoding, out->type, err);
    if (count > lance_v20_capacity(&leaf->column, &rows))
        return lake_fail(err, LAKE_DATA_LOSS, "a page lacks packed rows");
    base_buffer_init(&bytes, LANCE_MAX_DECODED_BYTES);
    lake_status status = base_buffer_reserve(&bytes, (size_t)(count * (rows.bits / 8)) + 1, err);
    if (status == LAKE_OK)
        status =
            lance_v20_read_fixed(&leaf->column, &rows, first, count, rows.bits, bytes.data, err);
    if (status == LAKE_OK)
        status = lance_leaf_values_append_packed(out, bytes.data, count, err);
    base_buffer_fini(&bytes);
    return status;
}

/* ---- variable width ---- */

/* Reads the bytes that `count` offsets in `offsets` (from 0 on, u64) span, from `start` on. */
static lake_status append_bytes(struct lance_v20_leaf *leaf, const struct lance_v20_encoding *bytes,
                                uint64_t start, const uint8_t *offsets, uint64_t count,
                                struct lance_leaf_values *out, struct lake_error *err)
{
    uint8_t *to;
    uint64_t total = base_load_u64le(offsets + 8 * count);
    if (total > lance_v20_capacity(&leaf->column, bytes))
        return lake_fail(err, LAKE_DATA_LOSS, "a page lacks bytes of its strings");
    lake_status status = lance_leaf_values_reserve_variable(out, count, total, &to, err);
    if (status == LAKE_OK)
        status = lance_v20_read_fixed(&leaf->column, bytes, start, total, 8, to, err);
    for (uint64_t i = 0; status == LAKE_OK && i < count; i++)
        lance_leaf_values_push_size(out, (size_t)(base_load_u64le(offsets + 8 * (i + 1)) -
                                                  base_load_u64le(offsets + 8 * i)));
    return status;
}

/* Ends of values, each with `null_adjustment` added where it is null; the value before the first
 * says where that one starts. *start is where the bytes of value `first` start; `offsets` count
 * from there. */
static lake_status read_ends(struct lance_v20_column *column, const struct lance_v20_encoding *ends,
                             uint64_t null_adjustment, uint64_t first, uint64_t count,
                             struct base_buffer *offsets, uint64_t *start, struct lance_bits *valid,
                             struct lake_error *err)
{
    uint64_t before = first > 0, base = 0;
    base_buffer_clear(offsets);
    if (count > lance_v20_capacity(column, ends))
        return lake_fail(err, LAKE_DATA_LOSS, "a page lacks offsets");
    lake_status status = base_buffer_append_zeros(offsets, (size_t)(count + 1) * 8, err);
    if (status == LAKE_OK)
        status = lance_v20_read_fixed(column, ends, first - before, count + before, 64,
                                      offsets->data + 8 * (1 - before), err);
    for (uint64_t i = 0; status == LAKE_OK && i <= count; i++) {
        uint8_t *at = offsets->data + 8 * i;
        uint64_t end = base_load_u64le(at);
        bool null = null_adjustment > 0 && end >= null_adjustment;
        end -= null ? null_adjustment : 0;
        if (end < base || (null && end >= null_adjustment))
            return lake_fail(err, LAKE_DATA_LOSS, "offsets of a page fall");
        if (i == 0)
            *start = end;
        else
            status = lance_bits_append_run(valid, !null, 1, err);
        base_store_u64le(at, end - *start);
        base = end;
    }
    return status;
}

lake_status lance_v20_read_list_ends(struct lance_v20_column *column, uint64_t first,
                                     uint64_t count, struct base_buffer *offsets, uint64_t *start,
                                     struct lance_bits *valid, struct lake_error *err)
{
    const struct lance_v20_encoding *list = column->encoding;
    if (list->kind != LANCE_V20_LIST)
        return lake_fail(err, LAKE_DATA_LOSS, "encoding %d of a list", (int)list->kind);
    return read_ends(column, list->values, list->null_adjustment, first, count, offsets, start,
                     valid, err);
}

static lake_status append_binary(struct lance_v20_leaf *leaf,
                                 const struct lance_v20_encoding *encoding, uint64_t first,
                                 uint64_t count, struct target out, struct lake_error *err)
{
    struct base_buffer offsets;
    uint64_t start = 0;
    base_buffer_init(&offsets, LANCE_MAX_DECODED_BYTES);
    lake_status status = read_ends(&leaf->column, encoding->values, encoding->null_adjustment,
                                   first, count, &offsets, &start, out.valid, err);
    if (status == LAKE_OK)
        status = append_bytes(leaf, encoding->items, start, offsets.data, count, out.values, err);
    base_buffer_fini(&offsets);
    return status;
}

/* Strings that all have one length. */
static lake_status append_fixed_binary(struct lance_v20_leaf *leaf,
                                       const struct lance_v20_encoding *encoding, uint64_t first,
                                       uint64_t count, struct target out, struct lake_error *err)
{
    uint64_t start, total;
    uint8_t *to;
    if (!base_u64_mul(first, encoding->count, &start) ||
        !base_u64_mul(count, encoding->count, &total) ||
        total > lance_v20_capacity(&leaf->column, encoding->values))
        return lake_fail(err, LAKE_DATA_LOSS, "a page lacks bytes of its strings");
    lake_status status = lance_leaf_values_reserve_variable(out.values, count, total, &to, err);
    if (status == LAKE_OK)
        status = lance_v20_read_fixed(&leaf->column, encoding->values, start, total, 8, to, err);
    for (uint64_t i = 0; status == LAKE_OK && i < count; i++)
        lance_leaf_values_push_size(out.values, (size_t)encoding->count);
    if (status == LAKE_OK)
        status = lance_bits_append_run(out.valid, true, count, err);
    return status;
}

static lake_status append_fsst(struct lance_v20_leaf *leaf,
                               const struct lance_v20_encoding *encoding, uint64_t first,
                               uint64_t count, struct target out, struct lake_error *err)
{
    static const struct lance_leaf_type binary = {
        .kind = LANCE_LEAF_VARIABLE, .items = 1, .offset_bytes = 8};
    struct lance_fsst_table symbols;
    struct lance_encoding table = {.kind = LANCE_ENCODING_FSST, .symbols = &symbols};
    struct lance_leaf_values packed;
    lance_leaf_values_init(&packed, &binary);
    lake_status status = lance_fsst_table_parse(encoding->symbols, &symbols, err);
    if (status == LAKE_OK)
        status =
            append(leaf, encoding->values, first, count, (struct target){&packed, out.valid}, err);
    struct lance_variable_view view = {.offsets = packed.offsets.data,
                                       .offset_bytes = 8,
                                       .base = packed.data.data,
                                       .base_bytes = packed.data.size,
                                       .count = packed.count,
                                       .fsst = &table};
    if (status == LAKE_OK)
        status = lance_leaf_values_append_view(out.values, &view, 0, count, err);
    lance_leaf_values_fini(&packed);
    return status;
}

/* ---- dictionaries ---- */

static lake_status read_items(struct lance_v20_leaf *leaf,
                              const struct lance_v20_encoding *encoding, struct lake_error *err)
{
    if (leaf->page_has_items)
        return LAKE_OK;
    if (encoding->count > lance_v20_capacity(&leaf->column, encoding->items))
        return lake_fail(err, LAKE_DATA_LOSS, "a dictionary claims %llu items",
                         (unsigned long long)encoding->count);
    if (leaf->reading_items)
        return lake_fail(err, LAKE_DATA_LOSS, "a dictionary within a dictionary");
    leaf->reading_items = true;
    lake_status status = append(leaf, encoding->items, 0, encoding->count,
                                (struct target){&leaf->page_items, &leaf->page_items_valid}, err);
    leaf->reading_items = false;
    leaf->page_has_items = status == LAKE_OK;
    return status;
}

static uint64_t load_index(const uint8_t *at, uint64_t width)
{
    uint64_t index = 0;
    memcpy(&index, at, (size_t)width); /* little endian */
    return index;
}

/* A dictionary that Lance made of strings: index 0 is null, i is item i - 1. */
static lake_status append_looked_up(struct lance_v20_leaf *leaf, const uint8_t *indices,
                                    uint64_t width, uint64_t count, struct target out,
                                    struct lake_error *err)
{
    const struct lance_leaf_values *items = &leaf->page_items;
    lake_status status = LAKE_OK;
    for (uint64_t i = 0; status == LAKE_OK && i < count; i++) {
        uint64_t index = load_index(indices + i * width, width);
        if (index > items->count)
            return lake_fail(err, LAKE_DATA_LOSS, "a dictionary index beyond its %llu items",
                             (unsigned long long)items->count);
        bool valid =
            index > 0 &&
            (leaf->page_items_valid.bytes.data[(index - 1) / 8] >> ((index - 1) % 8) & 1) != 0;
        status = valid ? lance_leaf_values_append_slice(out.values, items, index - 1, 1, err)
                       : lance_leaf_values_append_zeros(out.values, 1, err);
        if (status == LAKE_OK)
            status = lance_bits_append_run(out.valid, valid, 1, err);
    }
    return status;
}

/* An Arrow dictionary: keys from 0; a null is a key of a null item. The items of the pages of one
 * read stand one after the other, and keys are moved up by where their page's start. */
static lake_status append_keys(struct lance_v20_leaf *leaf, const uint8_t *keys, uint64_t width,
                               uint64_t count, struct target out, struct lake_error *err)
{
    struct lance_leaf_values *all = &leaf->dictionary;
    const struct lance_leaf_values *items = &leaf->page_items;
    uint64_t base = 0, limit = lance_leaf_key_limit(&leaf->type);
    uint8_t *to;
    lake_status status = LAKE_OK;
    if (!lance_leaf_values_start_with(all, items)) {
        base = all->count;
        status = lance_leaf_values_append_slice(all, items, 0, items->count, err);
    }
    if (status == LAKE_OK && all->count > limit + 1)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "%llu dictionary items in one read are too many for the key type: read "
                         "fewer rows at a time",
                         (unsigned long long)all->count);
    if (status == LAKE_OK)
        status = lance_leaf_values_reserve(out.values, count, &to, err);
    for (uint64_t i = 0; status == LAKE_OK && i < count; i++) {
        uint64_t key = load_index(keys + i * width, width);
        if (key >= items->count)
            return lake_fail(err, LAKE_DATA_LOSS, "a dictionary key beyond its %llu items",
                             (unsigned long long)items->count);
        bool valid = (leaf->page_items_valid.bytes.data[key / 8] >> (key % 8) & 1) != 0;
        key = valid ? key + base : 0;
        memcpy(to + i * width, &key, (size_t)width);
        status = lance_bits_append_run(out.valid, valid, 1, err);
    }
    if (status == LAKE_OK)
        lance_leaf_values_grew(out.values, count);
    return status;
}

static lake_status append_dictionary(struct lance_v20_leaf *leaf,
                                     const struct lance_v20_encoding *encoding, uint64_t first,
                                     uint64_t count, struct target out, struct lake_error *err)
{
    bool arrow = out.values->type->kind == LANCE_LEAF_DICTIONARY;
    const struct lance_v20_encoding *flat = encoding->values;
    struct base_buffer indices;
    lake_status status = read_items(leaf, encoding, err);
    if (status != LAKE_OK)
        return status;
    while (flat->kind == LANCE_V20_NULLABLE && flat->nulls == LANCE_V20_NO_NULLS)
        flat = flat->values;
    uint64_t bits = flat->kind == LANCE_V20_FLAT ? flat->bits : flat->value_bits;
    if ((arrow && bits != leaf->type.item_bits) ||
        (bits != 8 && bits != 16 && bits != 32 && bits != 64))
        return lake_fail(err, LAKE_DATA_LOSS, "dictionary indices of %llu bits",
                         (unsigned long long)bits);
    if (count > lance_v20_capacity(&leaf->column, flat))
        return lake_fail(err, LAKE_DATA_LOSS, "a page lacks dictionary indices");
    base_buffer_init(&indices, LANCE_MAX_DECODED_BYTES);
    status = base_buffer_reserve(&indices, (size_t)(count * (bits / 8)) + 1, err);
    if (status == LAKE_OK)
        status = lance_v20_read_fixed(&leaf->column, flat, first, count, bits, indices.data, err);
    if (status == LAKE_OK)
        status = arrow ? append_keys(leaf, indices.data, bits / 8, count, out, err)
                       : append_looked_up(leaf, indices.data, bits / 8, count, out, err);
    base_buffer_fini(&indices);
    return status;
}

/* ---- any ---- */

static lake_status append_values(struct lance_v20_leaf *leaf,
                                 const struct lance_v20_encoding *encoding, uint64_t first,
                                 uint64_t count, struct target out, struct lake_error *err)
{
    lake_status status;
    switch (out.values->type->kind) {
    case LANCE_LEAF_FIXED:
        status = append_items(leaf, encoding, first, count, count, out.values, err);
        break;
    case LANCE_LEAF_FSL:
        status = append_lists(leaf, encoding, 0, first, count, count, out.values, err);
        break;
    case LANCE_LEAF_PACKED:
        if (encoding->kind != LANCE_V20_PACKED_STRUCT)
            return unexpected(encoding, out.values->type, err);
        status = append_packed(leaf, encoding, first, count, out.values, err);
        break;
    default:
        return unexpected(encoding, out.values->type, err);
    }
    return status == LAKE_OK ? lance_bits_append_run(out.valid, true, count, err) : status;
}

static lake_status append_nullable(struct lance_v20_leaf *leaf,
                                   const struct lance_v20_encoding *encoding, uint64_t first,
                                   uint64_t count, struct target out, struct lake_error *err)
{
    struct lance_bits unused;
    lake_status status;
    switch (encoding->nulls) {
    case LANCE_V20_NO_NULLS:
        return append(leaf, encoding->values, first, count, out, err);
    case LANCE_V20_ALL_NULLS:
        status = lance_leaf_values_append_zeros(out.values, count, err);
        return status == LAKE_OK ? lance_bits_append_run(out.valid, false, count, err) : status;
    default:
        break;
    }
    status = append_bits(leaf, encoding->validity, first, count, out.valid, err);
    if (status != LAKE_OK)
        return status;
    lance_bits_init(&unused); /* this layer has said what is null */
    status =
        append(leaf, encoding->values, first, count, (struct target){out.values, &unused}, err);
    lance_bits_fini(&unused);
    return status;
}

static lake_status append(struct lance_v20_leaf *leaf, const struct lance_v20_encoding *encoding,
                          uint64_t first, uint64_t count, struct target out, struct lake_error *err)
{
    enum lance_leaf_kind kind = out.values->type->kind;
    if (encoding->kind == LANCE_V20_NULLABLE)
        return append_nullable(leaf, encoding, first, count, out, err);
    if (encoding->kind == LANCE_V20_DICTIONARY &&
        (kind == LANCE_LEAF_DICTIONARY || (kind == LANCE_LEAF_VARIABLE && leaf->type.kind == kind)))
        return append_dictionary(leaf, encoding, first, count, out, err);
    if (kind != LANCE_LEAF_VARIABLE)
        return append_values(leaf, encoding, first, count, out, err);
    switch (encoding->kind) {
    case LANCE_V20_BINARY:
        return append_binary(leaf, encoding, first, count, out, err);
    case LANCE_V20_FSST:
        return append_fsst(leaf, encoding, first, count, out, err);
    case LANCE_V20_FIXED_SIZE_BINARY:
        return append_fixed_binary(leaf, encoding, first, count, out, err);
    default:
        return unexpected(encoding, out.values->type, err);
    }
}

lake_status lance_v20_append_rows(struct lance_v20_leaf *leaf, uint64_t first, uint64_t count,
                                  struct lake_error *err)
{
    return append(leaf, leaf->column.encoding, first, count,
                  (struct target){&leaf->values, &leaf->valid}, err);
}
