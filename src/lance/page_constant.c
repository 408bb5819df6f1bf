/*
 * Reading constant pages: one value, or null, for every slot; levels, if any, are stored whole.
 *
 * Buffers: the value when it is too large for the description (2.2), then levels: none, or
 * repetition and definition, either of which may be empty.
 */
#include "file_read.h"

#include <string.h>

static lake_status read_levels(struct lance_leaf_reader *reader, size_t buffer,
                               const struct lance_encoding *encoding, uint64_t declared,
                               uint16_t **out, uint64_t *count, struct lake_error *err)
{
    struct lake_bytes data;
    lake_status status = lance_page_read_buffer(reader, buffer, &data, err);
    if (status != LAKE_OK)
        return status;
    uint64_t levels = encoding == NULL ? data.size / sizeof(uint16_t) : declared;
    /* Run-length levels expand at most 255 to 2 bytes of value and 1 of length. */
    if (encoding != NULL && levels / 256 > data.size * 8)
        return lake_fail(err, LAKE_DATA_LOSS, "%llu levels in %zu bytes",
                         (unsigned long long)levels, data.size);
    *count = levels;
    if (levels == 0)
        return LAKE_OK;
    uint16_t *decoded = lance_page_alloc(reader, levels + 8, sizeof(*decoded));
    if (decoded == NULL)
        return base_fail_no_memory(err, (size_t)levels * sizeof(*decoded));
    if (encoding == NULL)
        memcpy(decoded, data.data, (size_t)levels * sizeof(*decoded));
    else
        status = lance_block_decode_fixed(&reader->codec, encoding, data, levels, 16,
                                          (uint8_t *)decoded, err);
    if (status == LAKE_OK)
        *out = decoded;
    return status;
}

/* The page's value goes into reader->cache as its only slot. */
static lake_status read_inline_value(struct lance_leaf_reader *reader, struct lake_error *err)
{
    struct lake_bytes value = reader->layout.inline_value;
    const struct lance_leaf_type *type = &reader->type;
    uint64_t row_bytes = (type->items * type->item_bits + 7) / 8;
    if ((type->kind != LANCE_LEAF_FIXED && type->kind != LANCE_LEAF_FSL) || value.size != row_bytes)
        return lake_fail(err, LAKE_DATA_LOSS, "a constant of %zu bytes in a column of type \"%s\"",
                         value.size, type->arrow->format);
    uint8_t bit = value.size > 0 && value.data[0] != 0;
    if (type->kind == LANCE_LEAF_FIXED && type->item_bits == 1)
        return lance_leaf_append_flat(&reader->cache, &bit, 1, err);
    return lance_leaf_append_flat(&reader->cache, value.data, 1, err);
}

/* u32 number of Arrow buffers, their u32 sizes, then the buffers one after the other. */
static lake_status read_value_buffer(struct lance_leaf_reader *reader, struct lake_error *err)
{
    struct lake_bytes data, buffers[2] = {{0}};
    uint32_t count, sizes[2] = {0, 0};
    const struct lance_leaf_type *type = &reader->type;
    lake_status status = lance_page_read_buffer(reader, 0, &data, err);
    if (status != LAKE_OK)
        return status;
    struct base_cursor cursor = base_cursor_of(data);
    uint32_t expected = type->kind == LANCE_LEAF_VARIABLE ? 2 : 1;
    bool good = base_cursor_u32le(&cursor, &count) && count == expected;
    for (uint32_t i = 0; good && i < expected; i++)
        good = base_cursor_u32le(&cursor, &sizes[i]);
    for (uint32_t i = 0; good && i < expected; i++)
        good = base_cursor_take(&cursor, sizes[i], &buffers[i]);
    if (!good)
        return lake_fail(err, LAKE_DATA_LOSS, "the constant of a page is broken");
    if (type->kind == LANCE_LEAF_VARIABLE) {
        uint32_t width = type->offset_bytes;
        struct lance_variable_view view = {.offsets = buffers[0].data,
                                           .offset_bytes = width,
                                           .base = buffers[1].data,
                                           .base_bytes = buffers[1].size,
                                           .count = 1};
        if (buffers[0].size < 2 * (size_t)width)
            return lake_fail(err, LAKE_DATA_LOSS, "the constant string of a page has no offsets");
        return lance_leaf_values_append_view(&reader->cache, &view, 0, 1, err);
    }
    if ((type->kind != LANCE_LEAF_FIXED && type->kind != LANCE_LEAF_FSL) ||
        buffers[0].size != (type->items * type->item_bits + 7) / 8)
        return lake_fail(err, LAKE_DATA_LOSS, "a constant of %zu bytes in a column of type \"%s\"",
                         buffers[0].size, type->arrow->format);
    return lance_leaf_append_flat(&reader->cache, buffers[0].data, 1, err);
}

static lake_status index_rows(struct lance_leaf_reader *reader, struct lake_error *err)
{
    uint64_t rows = lance_page_of(reader)->row_count, found = 0;
    if (rows > reader->page_entries)
        return lake_fail(err, LAKE_DATA_LOSS, "%llu levels for %llu rows",
                         (unsigned long long)reader->page_entries, (unsigned long long)rows);
    reader->row_entries = lance_page_alloc(reader, rows + 1, sizeof(uint64_t));
    if (reader->row_entries == NULL)
        return base_fail_no_memory(err, (size_t)rows * sizeof(uint64_t));
    for (uint64_t i = 0; i < reader->page_entries; i++) {
        if (reader->page_rep[i] != reader->max_rep)
            continue;
        if (found < rows)
            reader->row_entries[found] = i;
        found++;
    }
    if (found != rows || reader->row_entries[0] != 0)
        return lake_fail(err, LAKE_DATA_LOSS, "levels show %llu rows of %llu",
                         (unsigned long long)found, (unsigned long long)rows);
    reader->row_entries[rows] = reader->page_entries;
    return LAKE_OK;
}

static lake_status open_levels(struct lance_leaf_reader *reader, size_t first,
                               struct lake_error *err)
{
    const struct lance_page_layout *layout = &reader->layout;
    uint64_t rep_count = 0, def_count = 0, rows = lance_page_of(reader)->row_count;
    lake_status status = read_levels(reader, first, layout->rep, layout->rep_value_count,
                                     &reader->page_rep, &rep_count, err);
    if (status == LAKE_OK)
        status = read_levels(reader, first + 1, layout->def, layout->def_value_count,
                             &reader->page_def, &def_count, err);
    if (status != LAKE_OK)
        return status;
    reader->page_entries = rep_count > 0 ? rep_count : rows;
    if ((rep_count > 0) != (reader->max_rep > 0 && rows > 0) ||
        (def_count > 0 && def_count != reader->page_entries))
        return lake_fail(err, LAKE_DATA_LOSS, "%llu repetition and %llu definition levels",
                         (unsigned long long)rep_count, (unsigned long long)def_count);
    return rep_count > 0 ? index_rows(reader, err) : LAKE_OK;
}

static lake_status constant_open(struct lance_leaf_reader *reader, struct lake_error *err)
{
    const struct lance_page_layout *layout = &reader->layout;
    size_t buffers = lance_page_of(reader)->buffer_count;
    bool value_buffer = buffers == 1 || buffers == 3;
    lake_status status = LAKE_OK;
    reader->page_rep = reader->page_def = NULL;
    reader->row_entries = NULL;
    reader->page_entries = lance_page_of(reader)->row_count;
    lance_leaf_values_clear(&reader->cache);
    if (buffers > 3 || (value_buffer && layout->has_inline_value))
        return lake_fail(err, LAKE_DATA_LOSS, "a constant page with %zu buffers", buffers);
    if ((value_buffer || layout->has_inline_value) && reader->file->minor < 2)
        return lake_fail(err, LAKE_DATA_LOSS, "a constant value in storage version 2.1");
    if (layout->has_inline_value)
        status = read_inline_value(reader, err);
    else if (value_buffer)
        status = read_value_buffer(reader, err);
    if (status != LAKE_OK)
        return status;
    if (buffers >= 2)
        return open_levels(reader, value_buffer, err);
    if (reader->max_rep > 0)
        return lake_fail(err, LAKE_DATA_LOSS, "a constant page of lists has no levels");
    return LAKE_OK;
}

static uint64_t count_visible(const struct lance_leaf_reader *reader, uint64_t from, uint64_t to)
{
    uint64_t visible = 0;
    if (reader->page_def == NULL)
        return to - from;
    for (uint64_t i = from; i < to; i++)
        visible += reader->page_def[i] <= reader->visible_level;
    return visible;
}

static lake_status append_null_levels(struct lance_leaf_reader *reader, uint64_t count,
                                      struct lake_error *err)
{
    const uint16_t null = 1;
    lake_status status = LAKE_OK;
    if (reader->layout.layers[0] != LANCE_NULLABLE_ITEM)
        return reader->type.kind == LANCE_LEAF_NULL
                   ? LAKE_OK
                   : lake_fail(err, LAKE_DATA_LOSS, "a page of nulls whose values cannot be null");
    for (uint64_t i = 0; status == LAKE_OK && i < count; i++)
        status = base_buffer_append(&reader->def, &null, sizeof(null), err);
    return status;
}

/* A page without a value has nulls only. */
static lake_status check_nulls(const struct lance_leaf_reader *reader, uint64_t from, uint64_t to,
                               struct lake_error *err)
{
    if (reader->type.kind == LANCE_LEAF_NULL || from == to)
        return LAKE_OK;
    bool nulls = reader->page_def != NULL || reader->page_rep == NULL;
    for (uint64_t i = from; nulls && reader->page_def != NULL && i < to; i++)
        nulls = reader->page_def[i] != 0;
    return nulls ? LAKE_OK
                 : lake_fail(err, LAKE_DATA_LOSS, "a page of nulls has rows that are not null");
}

static lake_status append_constant(struct lance_leaf_reader *reader, uint64_t count,
                                   struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (reader->cache.count == 0)
        return lance_leaf_values_append_zeros(&reader->values, count, err);
    if (reader->type.kind == LANCE_LEAF_FIXED && reader->type.item_bits == 1) {
        status = lance_bits_append_run(&reader->values.booleans,
                                       (reader->cache.booleans.bytes.data[0] & 1) != 0, count, err);
        if (status == LAKE_OK)
            reader->values.count += count;
        return status;
    }
    if (reader->type.kind == LANCE_LEAF_VARIABLE) { /* refuses what is too much before it starts */
        uint8_t *unused;
        uint64_t total;
        if (!base_u64_mul(count, reader->cache.data.size, &total))
            total = UINT64_MAX;
        status = lance_leaf_values_reserve_variable(&reader->values, count, total, &unused, err);
    }
    for (uint64_t i = 0; status == LAKE_OK && i < count; i++)
        status = lance_leaf_values_append_slice(&reader->values, &reader->cache, 0, 1, err);
    return status;
}

static lake_status constant_read(struct lance_leaf_reader *reader, uint64_t row, uint64_t count,
                                 struct lake_error *err)
{
    uint64_t from = row, to = row + count;
    lake_status status = LAKE_OK;
    if (reader->row_entries != NULL) {
        from = reader->row_entries[row];
        to = reader->row_entries[row + count];
    }
    size_t bytes = (size_t)(to - from) * sizeof(uint16_t);
    if (reader->cache.count == 0)
        status = check_nulls(reader, from, to, err);
    if (status == LAKE_OK && reader->page_rep != NULL)
        status = base_buffer_append(&reader->rep, reader->page_rep + from, bytes, err);
    if (status == LAKE_OK && reader->page_def != NULL)
        status = base_buffer_append(&reader->def, reader->page_def + from, bytes, err);
    else if (status == LAKE_OK && reader->cache.count == 0 && reader->page_rep == NULL)
        status = append_null_levels(reader, count, err);
    return status != LAKE_OK ? status
                             : append_constant(reader, count_visible(reader, from, to), err);
}

const struct lance_page_methods lance_constant_methods = {constant_open, constant_read};
