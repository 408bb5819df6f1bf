/*
 * Reading full-zip pages: entry after entry, a control word (levels) and the value. For large
 * values, where a chunk would make random access expensive.
 *
 * Buffer 0 holds the entries; buffer 1, the row index, is there when rows differ in size: with
 * repetition or variable-width values.
 */
#include "file_read.h"

#include <string.h>

#define STEP_BYTES ((uint64_t)8 << 20)

static uint32_t control_width(uint32_t bits)
{
    if (bits == 0)
        return 0;
    if (bits <= 8)
        return 1;
    return bits <= 16 ? 2 : 4;
}

/* Items that are all one value, or of which none counts, have no bytes of their own. */
static bool is_constant(const struct lance_leaf_type *type, const struct lance_encoding *node)
{
    return (type->kind == LANCE_LEAF_FSL || type->kind == LANCE_LEAF_FIXED) && node != NULL &&
           node->kind == LANCE_ENCODING_CONSTANT &&
           (node->bytes.size == 0 ||
            (type->item_bits >= 8 && node->bytes.size == type->item_bits / 8));
}

/* Bytes of one fixed value: items and, for fixed-size lists, their validity in front. */
static lake_status fixed_value_bytes(const struct lance_leaf_type *type,
                                     const struct lance_encoding *node, uint64_t declared_bits,
                                     uint64_t *out, struct lake_error *err)
{
    uint64_t bytes = 0;
    for (uint32_t depth = 0; depth < type->fsl_depth && !is_constant(type, node);
         depth++, node = node->values) {
        if (node == NULL || node->kind != LANCE_ENCODING_FIXED_SIZE_LIST ||
            node->items != type->fsl_sizes[depth])
            return lake_fail(err, LAKE_DATA_LOSS, "the page's lists are not those of the type");
        if (node->has_validity)
            bytes += (lance_leaf_items_at(type, depth) + 7) / 8;
    }
    if (type->kind == LANCE_LEAF_PACKED && node != NULL &&
        node->kind == LANCE_ENCODING_PACKED_STRUCT)
        node = node->values;
    bool constant = is_constant(type, node);
    if (node == NULL || (node->kind != LANCE_ENCODING_FLAT && !constant))
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "fixed-width values encoded as %s in a full-zip "
                         "page",
                         node == NULL ? "nothing" : lance_encoding_name(node->kind));
    if (!constant)
        bytes += type->item_bits == 1 && type->kind == LANCE_LEAF_FIXED
                     ? 1
                     : (type->items * type->item_bits + 7) / 8;
    if (declared_bits != bytes * 8)
        return lake_fail(err, LAKE_DATA_LOSS, "values of %llu bits where the type has %llu bytes",
                         (unsigned long long)declared_bits, (unsigned long long)bytes);
    *out = bytes;
    return LAKE_OK;
}

static bool is_length_bits(uint64_t bits)
{
    return bits == 32 || bits == 64;
}

/* Members of a packed struct of which one at least is variable: what the page says of each against
 * its type. */
static lake_status check_members(const struct lance_leaf_reader *reader, struct lake_error *err)
{
    const struct lance_encoding *node = reader->layout.values;
    if (node->kind != LANCE_ENCODING_VARIABLE_PACKED_STRUCT ||
        node->member_count != reader->values.member_count)
        return lake_fail(err, LAKE_DATA_LOSS, "packed rows of %zu members encoded as %s of %zu",
                         reader->values.member_count, lance_encoding_name(node->kind),
                         node->member_count);
    for (size_t i = 0; i < node->member_count; i++) {
        const struct lance_packed_member *member = &node->members[i];
        const struct lance_leaf_type *type = reader->values.members[i].type;
        uint64_t bytes;
        if (member->variable != (type->kind == LANCE_LEAF_VARIABLE) ||
            (member->variable && !is_length_bits(member->bits)))
            return lake_fail(err, LAKE_DATA_LOSS, "member %zu of packed rows is not of its type",
                             i);
        lake_status status =
            member->variable ? LAKE_OK
                             : fixed_value_bytes(type, member->value, member->bits, &bytes, err);
        if (status != LAKE_OK)
            return lake_fail_wrap(err, status, "member %zu of packed rows", i);
    }
    return LAKE_OK;
}

/* Whether entries say their own length. */
static bool is_variable(const struct lance_leaf_reader *reader)
{
    return reader->type.kind == LANCE_LEAF_VARIABLE ||
           (reader->type.kind == LANCE_LEAF_PACKED && reader->type.item_bits == 0) ||
           reader->layout.values->kind == LANCE_ENCODING_VARIABLE_PACKED_STRUCT;
}

static lake_status open_row_index(struct lance_leaf_reader *reader, struct lake_error *err)
{
    uint64_t entries = lance_page_of(reader)->row_count + 1;
    lake_status status = lance_page_read_buffer(reader, 1, &reader->row_index, err);
    if (status != LAKE_OK)
        return status;
    uint64_t width = reader->row_index.size / entries;
    if (width * entries != reader->row_index.size ||
        (width != 1 && width != 2 && width != 4 && width != 8))
        return lake_fail(err, LAKE_DATA_LOSS, "the row index has %zu bytes for %llu rows",
                         reader->row_index.size, (unsigned long long)entries - 1);
    reader->row_index_width = (uint32_t)width;
    return LAKE_OK;
}

static lake_status full_zip_open(struct lance_leaf_reader *reader, struct lake_error *err)
{
    const struct lance_page_layout *layout = &reader->layout;
    bool variable = is_variable(reader);
    bool indexed = variable || reader->max_rep > 0;
    lake_status status = LAKE_OK;
    reader->row_index_width = 0;
    reader->stride_bytes = 0;
    if (reader->type.kind != LANCE_LEAF_VARIABLE && reader->type.kind != LANCE_LEAF_FIXED &&
        reader->type.kind != LANCE_LEAF_FSL && reader->type.kind != LANCE_LEAF_PACKED)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "a full-zip page of type \"%s\"",
                         reader->type.arrow->format);
    if (layout->bits_rep > 16 || layout->bits_def > 16 ||
        (layout->bits_rep > 0) != (reader->max_rep > 0))
        return lake_fail(err, LAKE_DATA_LOSS, "levels of %u and %u bits", layout->bits_rep,
                         layout->bits_def);
    reader->control_bytes = control_width(layout->bits_rep + layout->bits_def);
    if (variable && !is_length_bits(layout->bits_per_offset))
        return lake_fail(err, LAKE_DATA_LOSS, "lengths of %u bits", layout->bits_per_offset);
    status = lance_page_buffer_count(reader, 1U + indexed, err);
    if (status == LAKE_OK && !variable)
        status = fixed_value_bytes(&reader->type, layout->values, layout->bits_per_value,
                                   &reader->stride_bytes, err);
    else if (status == LAKE_OK && reader->type.kind != LANCE_LEAF_VARIABLE)
        status = check_members(reader, err);
    if (status == LAKE_OK && indexed)
        status = open_row_index(reader, err);
    return status;
}

/* Where row `row` starts in buffer 0; row_count gives the end. */
static uint64_t row_offset(const struct lance_leaf_reader *reader, uint64_t row)
{
    const uint8_t *at = reader->row_index.data;
    switch (reader->row_index_width) {
    case 0:
        return row * (reader->control_bytes + reader->stride_bytes);
    case 1:
        return at[row];
    case 2:
        return base_load_u16le(at + 2 * row);
    case 4:
        return base_load_u32le(at + 4 * row);
    default:
        return base_load_u64le(at + 8 * row);
    }
}

/* ---- values ---- */

static lake_status append_constant_row(const struct lance_encoding *node,
                                       struct lance_leaf_values *out, struct lake_error *err)
{
    const struct lance_leaf_type *type = out->type;
    size_t width = (size_t)type->item_bits / 8;
    uint8_t *to;
    lake_status status;
    if (type->item_bits == 1) {
        status = lance_bits_append_run(&out->booleans, false, type->items, err);
        out->count += status == LAKE_OK;
        return status;
    }
    status = lance_leaf_values_reserve(out, 1, &to, err);
    if (status != LAKE_OK)
        return status;
    memset(to, 0, lance_leaf_row_bytes(type));
    for (uint64_t i = 0; node->bytes.size > 0 && i < type->items; i++)
        memcpy(to + i * width, node->bytes.data, width);
    lance_leaf_values_grew(out, 1);
    return LAKE_OK;
}

/* Whether the items at `depth`, whose list is `node`, are null in every row. Where no row has an
 * item Lance 0.38 to 10 wrote a constant without a value in place of the list itself. */
static bool items_are_null(const struct lance_leaf_type *type, uint32_t depth,
                           const struct lance_encoding *node)
{
    if (node->kind == LANCE_ENCODING_FIXED_SIZE_LIST && depth + 1 == type->fsl_depth)
        node = node->values;
    return node->kind == LANCE_ENCODING_CONSTANT && node->bytes.size == 0;
}

static lake_status append_item_validity(struct lance_leaf_values *out, uint32_t depth,
                                        const uint8_t *bits, bool all, struct lake_error *err)
{
    uint64_t items = lance_leaf_items_at(out->type, depth);
    if (bits == NULL && all && !out->item_nulls[depth])
        return LAKE_OK;
    lake_status status = lance_leaf_values_need_item_validity(out, depth, err);
    if (status != LAKE_OK)
        return status;
    return bits != NULL ? lance_bits_append(&out->item_valid[depth], bits, 0, items, err)
                        : lance_bits_append_run(&out->item_valid[depth], all, items, err);
}

/* One row of fixed-size lists: validity bytes of each nullable layer, then the items. */
static lake_status append_fsl_row(const struct lance_encoding *node, const uint8_t *at,
                                  struct lance_leaf_values *out, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (uint32_t depth = 0; depth < out->type->fsl_depth; depth++) {
        bool list = node->kind == LANCE_ENCODING_FIXED_SIZE_LIST; /* else a constant from here on */
        bool stored = list && node->has_validity;
        bool null = items_are_null(out->type, depth, node);
        status = append_item_validity(out, depth, stored && !null ? at : NULL, !null, err);
        if (status != LAKE_OK)
            return status;
        if (stored)
            at += (lance_leaf_items_at(out->type, depth) + 7) / 8;
        node = list ? node->values : node;
    }
    if (node->kind == LANCE_ENCODING_CONSTANT)
        return append_constant_row(node, out, err);
    return lance_leaf_append_flat(out, at, 1, err);
}

static lake_status append_fixed(const struct lance_encoding *node, const uint8_t *at,
                                struct lance_leaf_values *out, struct lake_error *err)
{
    if (out->type->kind == LANCE_LEAF_FSL)
        return append_fsl_row(node, at, out, err);
    if (out->type->kind == LANCE_LEAF_PACKED)
        return lance_leaf_values_append_packed(out, at, 1, err);
    if (node->kind == LANCE_ENCODING_CONSTANT)
        return append_constant_row(node, out, err);
    if (out->type->item_bits == 1) {
        uint8_t bit = at[0] != 0;
        return lance_leaf_append_flat(out, &bit, 1, err);
    }
    return lance_leaf_append_flat(out, at, 1, err);
}

/* Values are compressed one by one; an empty one may be stored as nothing at all. */
static lake_status append_variable(struct lance_leaf_reader *reader,
                                   const struct lance_encoding *node, struct lake_bytes value,
                                   struct lance_leaf_values *out, struct lake_error *err)
{
    size_t opened = 0;
    lake_status status = LAKE_OK;
    while (status == LAKE_OK && node != NULL && node->kind == LANCE_ENCODING_GENERAL) {
        if (reader->codec.depth == LANCE_MAX_GENERAL_DEPTH) {
            status = lake_fail(err, LAKE_UNIMPLEMENTED, "compression is nested too deep");
            break;
        }
        if (value.size > 0) {
            struct base_buffer *scratch = &reader->codec.scratch[reader->codec.depth];
            status = lance_decompress(&reader->codec, node->scheme, value,
                                      LANCE_MAX_DECODED_BYTES - 16, scratch, err);
            value = base_buffer_view(scratch);
            reader->codec.depth++;
            opened++;
        }
        node = node->values;
    }
    if (status == LAKE_OK && node != NULL && node->kind == LANCE_ENCODING_FSST) {
        uint8_t offsets[16];
        struct lance_variable_view view = {.offsets = offsets,
                                           .offset_bytes = 8,
                                           .base = value.data,
                                           .base_bytes = value.size,
                                           .count = 1,
                                           .fsst = node};
        base_store_u64le(offsets, 0);
        base_store_u64le(offsets + 8, value.size);
        status = lance_leaf_values_append_view(out, &view, 0, 1, err);
    } else if (status == LAKE_OK && node != NULL && node->kind == LANCE_ENCODING_VARIABLE) {
        status = lance_leaf_values_append_one(out, value.data, value.size, err);
    } else if (status == LAKE_OK) {
        status = lake_fail(err, LAKE_UNIMPLEMENTED,
                           "variable-width values encoded as %s in a full-zip page",
                           node == NULL ? "nothing" : lance_encoding_name(node->kind));
    }
    reader->codec.depth -= opened;
    return status;
}

/* ---- entries ---- */

static bool take_control(struct base_cursor *cursor, uint32_t width, uint32_t *out)
{
    uint16_t word;
    uint8_t byte;
    switch (width) {
    case 0:
        *out = 0;
        return true;
    case 1:
        if (!base_cursor_u8(cursor, &byte))
            return false;
        *out = byte;
        return true;
    case 2:
        if (!base_cursor_u16le(cursor, &word))
            return false;
        *out = word;
        return true;
    default:
        return base_cursor_u32le(cursor, out);
    }
}

static bool take_length(struct base_cursor *cursor, uint32_t bits, uint64_t *out)
{
    uint32_t word;
    if (bits == 64)
        return base_cursor_u64le(cursor, out);
    if (!base_cursor_u32le(cursor, &word))
        return false;
    *out = word;
    return true;
}

static lake_status cut_short(struct lake_error *err)
{
    return lake_fail(err, LAKE_DATA_LOSS, "an entry of a full-zip page is cut short");
}

/* One row of a packed struct with variable members: member after member. */
static lake_status append_members(struct lance_leaf_reader *reader, struct lake_bytes row,
                                  struct lake_error *err)
{
    const struct lance_encoding *node = reader->layout.values;
    struct base_cursor cursor = base_cursor_of(row);
    lake_status status = LAKE_OK;
    for (size_t i = 0; status == LAKE_OK && i < node->member_count; i++) {
        const struct lance_packed_member *member = &node->members[i];
        struct lance_leaf_values *out = &reader->values.members[i];
        uint64_t size = member->bits / 8;
        struct lake_bytes value;
        if ((member->variable && !take_length(&cursor, (uint32_t)member->bits, &size)) ||
            size > SIZE_MAX || !base_cursor_take(&cursor, (size_t)size, &value))
            return cut_short(err);
        status = member->variable ? append_variable(reader, member->value, value, out, err)
                                  : append_fixed(member->value, value.data, out, err);
    }
    if (status == LAKE_OK && base_cursor_left(&cursor) > 0)
        status = lake_fail(err, LAKE_DATA_LOSS, "a packed row is longer than its members");
    reader->values.count++;
    return status;
}

static lake_status read_value(struct lance_leaf_reader *reader, struct base_cursor *cursor,
                              uint32_t def, struct lake_error *err)
{
    struct lake_bytes value;
    uint64_t length;
    if (def > reader->visible_level)
        return LAKE_OK;
    if (!is_variable(reader)) {
        if (!base_cursor_take(cursor, (size_t)reader->stride_bytes, &value))
            return cut_short(err);
        return append_fixed(reader->layout.values, value.data, &reader->values, err);
    }
    if (def != 0)
        return lance_leaf_values_append_zeros(&reader->values, 1, err);
    if (!take_length(cursor, reader->layout.bits_per_offset, &length) || length > SIZE_MAX ||
        !base_cursor_take(cursor, (size_t)length, &value))
        return cut_short(err);
    if (reader->type.kind == LANCE_LEAF_PACKED)
        return append_members(reader, value, err);
    return append_variable(reader, reader->layout.values, value, &reader->values, err);
}

static lake_status read_entries(struct lance_leaf_reader *reader, struct lake_bytes bytes,
                                struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(bytes);
    const uint32_t bits_def = reader->layout.bits_def, mask = (1U << bits_def) - 1;
    const uint32_t rep_mask = (1U << reader->layout.bits_rep) - 1;
    lake_status status = LAKE_OK;
    while (status == LAKE_OK && base_cursor_left(&cursor) > 0) {
        uint32_t control;
        uint16_t def, rep;
        if (!take_control(&cursor, reader->control_bytes, &control))
            return cut_short(err);
        def = (uint16_t)(control & mask);
        rep = (uint16_t)(control >> bits_def & rep_mask);
        if (reader->layout.bits_rep > 0)
            status = base_buffer_append(&reader->rep, &rep, sizeof(rep), err);
        if (status == LAKE_OK && bits_def > 0)
            status = base_buffer_append(&reader->def, &def, sizeof(def), err);
        if (status == LAKE_OK)
            status = read_value(reader, &cursor, def, err);
    }
    return status;
}

/* Rows of equal size without levels or validity are the Arrow buffer itself. */
static bool is_plain(const struct lance_leaf_reader *reader)
{
    const struct lance_leaf_type *type = &reader->type;
    const struct lance_encoding *node = reader->layout.values;
    for (; node != NULL && node->kind == LANCE_ENCODING_FIXED_SIZE_LIST; node = node->values)
        if (node->has_validity)
            return false;
    return node != NULL && node->kind == LANCE_ENCODING_FLAT && reader->control_bytes == 0 &&
           reader->row_index_width == 0 && type->item_bits >= 8 &&
           type->kind != LANCE_LEAF_PACKED &&
           reader->stride_bytes == type->items * (type->item_bits / 8);
}

static lake_status read_plain(struct lance_leaf_reader *reader, uint64_t row, uint64_t count,
                              struct lake_error *err)
{
    uint8_t *out;
    size_t bytes = (size_t)(count * reader->stride_bytes);
    for (uint32_t depth = 0; depth < reader->type.fsl_depth; depth++) {
        uint64_t items = count * lance_leaf_items_at(&reader->type, depth);
        if (!reader->values.item_nulls[depth])
            continue;
        lake_status status =
            lance_bits_append_run(&reader->values.item_valid[depth], true, items, err);
        if (status != LAKE_OK)
            return status;
    }
    if (row * reader->stride_bytes > lance_page_buffer_size(reader, 0) ||
        bytes > lance_page_buffer_size(reader, 0) - row * reader->stride_bytes)
        return cut_short(err);
    lake_status status = lance_leaf_values_reserve(&reader->values, count, &out, err);
    if (status == LAKE_OK)
        status = lance_page_read_at(reader, 0, row * reader->stride_bytes, bytes, out, err);
    if (status == LAKE_OK)
        lance_leaf_values_grew(&reader->values, count);
    return status;
}

static lake_status reserve_rows(struct lance_leaf_reader *reader, uint64_t row, uint64_t count,
                                struct lake_error *err)
{
    uint8_t *unused;
    uint64_t start = row_offset(reader, row), end = row_offset(reader, row + count);
    if (start > end || end > lance_page_buffer_size(reader, 0))
        return cut_short(err);
    const struct base_buffer *data = &reader->values.data;
    if (end - start + 16 > data->max_bytes - data->size) /* their values alone may still fit */
        return LAKE_OK;
    return lance_leaf_values_reserve_variable(&reader->values, 0, end - start, &unused, err);
}

static lake_status full_zip_read(struct lance_leaf_reader *reader, uint64_t row, uint64_t count,
                                 struct lake_error *err)
{
    lake_status status = LAKE_OK;
    uint64_t end = row + count;
    if (reader->control_bytes + reader->stride_bytes == 0 && reader->row_index_width == 0) {
        for (; status == LAKE_OK && row < end; row++)
            status = append_fixed(reader->layout.values, NULL, &reader->values, err);
        return status;
    }
    if (is_plain(reader))
        return read_plain(reader, row, count, err);
    if (reader->type.kind == LANCE_LEAF_VARIABLE) /* at once; what is compressed makes it grow */
        status = reserve_rows(reader, row, count, err);
    while (status == LAKE_OK && row < end) {
        struct lake_bytes bytes;
        uint64_t start = row_offset(reader, row), stop = row + 1, last = row_offset(reader, end);
        while (stop < end && row_offset(reader, stop + 1) - start <= STEP_BYTES)
            stop++;
        status = lance_page_window(reader, 0, start, row_offset(reader, stop), last, &bytes, err);
        if (status == LAKE_OK)
            status = read_entries(reader, bytes, err);
        row = stop;
    }
    return status;
}

const struct lance_page_methods lance_full_zip_methods = {full_zip_open, full_zip_read};
