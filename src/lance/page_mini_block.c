/*
 * Reading mini-block pages: chunks of up to 32768 values, each with its levels and value buffers.
 *
 * Page buffers: chunk words, chunks, dictionary (if any), repetition index (if any). A chunk that a
 * read covers whole is decoded straight into the result; one that it covers in part is decoded into
 * the reader's cache, where the next read finds it.
 */
#include "file_read.h"

#include <string.h>

#define MAX_CHUNK_BUFFERS 16
#define MAX_CHUNK_LOG2    15

/* ---- opening a page: the chunk index, the dictionary ---- */

static lake_status read_chunk_words(struct lance_leaf_reader *reader, struct lake_error *err)
{
    const struct lance_page_layout *layout = &reader->layout;
    size_t width = layout->has_large_chunk ? 4 : 2;
    struct lake_bytes words;
    lake_status status = lance_page_read_buffer(reader, 0, &words, err);
    if (status != LAKE_OK)
        return status;
    if (words.size % width != 0)
        return lake_fail(err, LAKE_DATA_LOSS, "the chunk table has %zu bytes", words.size);
    reader->chunk_count = words.size / width;
    reader->chunks = lance_page_alloc(reader, reader->chunk_count + 1, sizeof(*reader->chunks));
    if (reader->chunks == NULL)
        return base_fail_no_memory(err, words.size);
    uint64_t offset = 0, values = 0;
    for (uint64_t i = 0; i < reader->chunk_count; i++) {
        const uint8_t *at = words.data + i * width;
        uint32_t word = width == 4 ? base_load_u32le(at) : base_load_u16le(at);
        uint32_t log2 = word & 15;
        reader->chunks[i].offset = offset;
        reader->chunks[i].first_value = values;
        offset += 8 * ((uint64_t)(word >> 4) + 1);
        if (i + 1 < reader->chunk_count && (log2 == 0 || log2 > MAX_CHUNK_LOG2))
            return lake_fail(err, LAKE_DATA_LOSS, "chunk %llu claims 2^%u values",
                             (unsigned long long)i, log2);
        if (log2 == 0 || i + 1 == reader->chunk_count)
            values = BASE_MAX(values, layout->item_count);
        else
            values += (uint64_t)1 << log2;
        if (i + 1 == reader->chunk_count && log2 != 0 &&
            values - reader->chunks[i].first_value != (uint64_t)1 << log2)
            return lake_fail(err, LAKE_DATA_LOSS, "the last chunk claims 2^%u values", log2);
    }
    uint64_t last =
        reader->chunk_count == 0 ? 0 : values - reader->chunks[reader->chunk_count - 1].first_value;
    if (last > (uint64_t)1 << MAX_CHUNK_LOG2)
        return lake_fail(err, LAKE_DATA_LOSS, "the last chunk holds %llu values",
                         (unsigned long long)last);
    reader->chunks[reader->chunk_count] =
        (struct lance_chunk){.offset = offset, .first_value = values};
    if (values != layout->item_count || offset > lance_page_buffer_size(reader, 1))
        return lake_fail(err, LAKE_DATA_LOSS,
                         "the chunk table covers %llu values of %llu and %llu bytes of %llu",
                         (unsigned long long)values, (unsigned long long)layout->item_count,
                         (unsigned long long)offset,
                         (unsigned long long)lance_page_buffer_size(reader, 1));
    return LAKE_OK;
}

/* Per chunk {rows that end in it, entries after the last row start if that row goes on}. */
static lake_status read_repetition_index(struct lance_leaf_reader *reader, size_t buffer,
                                         struct lake_error *err)
{
    struct lake_bytes index;
    uint64_t rows = 0;
    bool goes_on = false;
    size_t stride = ((size_t)reader->layout.repetition_index_depth + 1) * 8;
    lake_status status = lance_page_read_buffer(reader, buffer, &index, err);
    if (status != LAKE_OK)
        return status;
    if (index.size / stride < reader->chunk_count)
        return lake_fail(err, LAKE_DATA_LOSS, "the repetition index has %zu bytes", index.size);
    for (uint64_t i = 0; i < reader->chunk_count; i++) {
        uint64_t ended = base_load_u64le(index.data + i * stride);
        uint64_t left_over = base_load_u64le(index.data + i * stride + 8);
        reader->chunks[i].first_row = rows;
        if (ended > UINT32_MAX || (ended == 0 && left_over == 0))
            return lake_fail(err, LAKE_DATA_LOSS, "the repetition index is broken at chunk %llu",
                             (unsigned long long)i);
        /* Row starts: what ends or goes on here, less what came in from the chunk before. */
        rows += ended + (left_over > 0) - goes_on;
        goes_on = left_over > 0;
    }
    reader->chunks[reader->chunk_count].first_row = rows;
    if (rows != lance_page_of(reader)->row_count || goes_on)
        return lake_fail(err, LAKE_DATA_LOSS, "the repetition index shows %llu rows of %llu",
                         (unsigned long long)rows,
                         (unsigned long long)lance_page_of(reader)->row_count);
    return LAKE_OK;
}

static lake_status read_dictionary(struct lance_leaf_reader *reader, struct lake_error *err)
{
    const struct lance_page_layout *layout = &reader->layout;
    struct lance_leaf_values *items = &reader->page_dictionary;
    const struct lance_leaf_type *type = items->type;
    struct lake_bytes data;
    uint8_t *out;
    lake_status status = lance_page_read_buffer(reader, 2, &data, err);
    if (status != LAKE_OK)
        return status;
    uint64_t count = layout->dictionary_items;
    if (type->kind == LANCE_LEAF_VARIABLE) {
        struct lance_variable_view view;
        status = lance_block_decode_variable(&reader->codec, layout->dictionary, data, count, &view,
                                             err);
        if (status == LAKE_OK)
            status = lance_leaf_values_append_view(items, &view, 0, count, err);
    } else if (type->kind == LANCE_LEAF_FIXED && type->item_bits >= 8) {
        /* Not even constant values make a dictionary larger than its indices can reach. */
        if (count > (uint64_t)LANCE_MAX_DECODED_BYTES / (type->item_bits / 8))
            return lake_fail(err, LAKE_DATA_LOSS, "a dictionary claims %llu items",
                             (unsigned long long)count);
        status = lance_leaf_values_reserve(items, count, &out, err);
        if (status == LAKE_OK)
            status = lance_block_decode_fixed(&reader->codec, layout->dictionary, data, count,
                                              type->item_bits, out, err);
        if (status == LAKE_OK)
            lance_leaf_values_grew(items, count);
    } else {
        status = lake_fail(err, LAKE_UNIMPLEMENTED, "a dictionary of values of type \"%s\"",
                           type->arrow == NULL ? "?" : type->arrow->format);
    }
    reader->page_has_dictionary = true;
    return status;
}

static lake_status mini_block_open(struct lance_leaf_reader *reader, struct lake_error *err)
{
    const struct lance_page_layout *layout = &reader->layout;
    bool dictionary = layout->dictionary != NULL;
    bool index = layout->repetition_index_depth > 0;
    if (layout->has_large_chunk != (reader->file->minor >= 2))
        return lake_fail(err, LAKE_DATA_LOSS, "chunks of the wrong size for storage version 2.%u",
                         reader->file->minor);
    if (layout->repetition_index_depth > LANCE_MAX_NESTING ||
        layout->buffers_per_chunk > MAX_CHUNK_BUFFERS || layout->buffers_per_chunk == 0)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "chunks with %llu value buffers",
                         (unsigned long long)layout->buffers_per_chunk);
    if ((layout->rep != NULL) != (reader->max_rep > 0) || index != (reader->max_rep > 0))
        return lake_fail(err, LAKE_DATA_LOSS,
                         "a page with lists lacks repetition levels, or one "
                         "without has them");
    lake_status status = lance_page_buffer_count(reader, 2U + dictionary + index, err);
    if (status == LAKE_OK)
        status = read_chunk_words(reader, err);
    if (status == LAKE_OK && dictionary)
        status = read_dictionary(reader, err);
    if (status == LAKE_OK && index)
        status = read_repetition_index(reader, 2U + dictionary, err);
    if (status == LAKE_OK && !index && layout->item_count != lance_page_of(reader)->row_count)
        status = lake_fail(err, LAKE_DATA_LOSS, "the page holds %llu values for %llu rows",
                           (unsigned long long)layout->item_count,
                           (unsigned long long)lance_page_of(reader)->row_count);
    return status;
}

/* ---- one chunk ---- */

struct chunk_view {
    uint64_t levels;
    struct lake_bytes rep, def;
    struct lake_bytes buffers[MAX_CHUNK_BUFFERS];
    size_t buffer_count;
};

static bool take_padded(struct base_cursor *cursor, size_t size, struct lake_bytes *out)
{
    size_t pad = BASE_ALIGN_UP(cursor->position, (size_t)8) - cursor->position;
    return base_cursor_skip(cursor, BASE_MIN(pad, base_cursor_left(cursor))) &&
           base_cursor_take(cursor, size, out);
}

static lake_status parse_chunk(struct lance_leaf_reader *reader, struct lake_bytes bytes,
                               struct chunk_view *out, struct lake_error *err)
{
    const struct lance_page_layout *layout = &reader->layout;
    struct base_cursor cursor = base_cursor_of(bytes);
    uint16_t levels = 0, rep = 0, def = 0, small;
    uint32_t sizes[MAX_CHUNK_BUFFERS];
    bool good = base_cursor_u16le(&cursor, &levels);
    if (good && layout->rep != NULL)
        good = base_cursor_u16le(&cursor, &rep);
    if (good && layout->def != NULL)
        good = base_cursor_u16le(&cursor, &def);
    out->buffer_count = (size_t)layout->buffers_per_chunk;
    for (size_t i = 0; good && i < out->buffer_count; i++) {
        if (layout->has_large_chunk) {
            good = base_cursor_u32le(&cursor, &sizes[i]);
        } else {
            good = base_cursor_u16le(&cursor, &small);
            sizes[i] = small;
        }
    }
    if (good && layout->rep != NULL)
        good = take_padded(&cursor, rep, &out->rep);
    if (good && layout->def != NULL)
        good = take_padded(&cursor, def, &out->def);
    for (size_t i = 0; good && i < out->buffer_count; i++)
        good = take_padded(&cursor, sizes[i], &out->buffers[i]);
    if (!good)
        return lake_fail(err, LAKE_DATA_LOSS, "a chunk of %zu bytes is shorter than its buffers",
                         bytes.size);
    out->levels = levels;
    return LAKE_OK;
}

static lake_status read_chunk(struct lance_leaf_reader *reader, uint64_t index, uint64_t last_index,
                              struct chunk_view *out, struct lake_error *err)
{
    struct lake_bytes bytes;
    const struct lance_chunk *chunk = &reader->chunks[index];
    lake_status status = lance_page_window(reader, 1, chunk->offset, chunk[1].offset,
                                           reader->chunks[last_index + 1].offset, &bytes, err);
    return status != LAKE_OK ? status : parse_chunk(reader, bytes, out, err);
}

static lake_status decode_levels(struct lance_leaf_reader *reader,
                                 const struct lance_encoding *encoding, struct lake_bytes data,
                                 uint64_t count, struct base_buffer *out, struct lake_error *err)
{
    size_t bytes = (size_t)count * sizeof(uint16_t);
    if (count == 0)
        return LAKE_OK;
    lake_status status = base_buffer_reserve(out, bytes, err);
    if (status == LAKE_OK)
        status = lance_block_decode_fixed(&reader->codec, encoding, data, count, 16,
                                          out->data + out->size, err);
    if (status == LAKE_OK)
        out->size += bytes;
    return status;
}

/* ---- values of a chunk ---- */

lake_status lance_leaf_append_flat(struct lance_leaf_values *out, const uint8_t *from,
                                   uint64_t rows, struct lake_error *err)
{
    const struct lance_leaf_type *type = out->type;
    uint8_t *to;
    lake_status status;
    if (type->item_bits == 1) {
        status = lance_bits_append(&out->booleans, from, 0, rows * type->items, err);
        if (status == LAKE_OK)
            out->count += rows;
        return status;
    }
    status = lance_leaf_values_reserve(out, rows, &to, err);
    if (status != LAKE_OK)
        return status;
    size_t bytes = (size_t)(rows * type->items * (type->item_bits / 8));
    if (bytes > 0)
        memcpy(to, from, bytes);
    lance_leaf_values_grew(out, rows);
    return LAKE_OK;
}

static lake_status decode_fixed_items(struct lance_leaf_reader *reader,
                                      const struct lance_encoding *encoding,
                                      struct lance_chunk_buffers buffers, uint64_t rows,
                                      struct lance_leaf_values *out, struct lake_error *err)
{
    const struct lance_leaf_type *type = out->type;
    uint64_t items = rows * type->items;
    uint8_t *to;
    lake_status status;
    if (items / 8 * type->item_bits > LANCE_MAX_DECODED_BYTES)
        return lake_fail(err, LAKE_DATA_LOSS, "a chunk claims %llu values of %llu bits",
                         (unsigned long long)items, (unsigned long long)type->item_bits);
    if (type->item_bits != 1) {
        status = lance_leaf_values_reserve(out, rows, &to, err);
        if (status == LAKE_OK)
            status = lance_chunk_decode_fixed(&reader->codec, encoding, buffers, items,
                                              type->item_bits, to, err);
        if (status == LAKE_OK)
            lance_leaf_values_grew(out, rows);
        return status;
    }
    base_buffer_clear(&reader->scratch);
    status = base_buffer_reserve(&reader->scratch, (size_t)(items + 7) / 8 + 8, err);
    if (status == LAKE_OK)
        status = lance_chunk_decode_fixed(&reader->codec, encoding, buffers, items, 1,
                                          reader->scratch.data, err);
    return status != LAKE_OK ? status
                             : lance_leaf_append_flat(out, reader->scratch.data, rows, err);
}

/* One layer of fixed-size lists: its items' validity, if the page has it. */
static lake_status fsl_validity(const struct lance_encoding *encoding, uint32_t depth,
                                struct lance_chunk_buffers *buffers, uint64_t items,
                                struct lance_leaf_values *out, struct lake_error *err)
{
    lake_status status;
    if (!encoding->has_validity) {
        return out->item_nulls[depth]
                   ? lance_bits_append_run(&out->item_valid[depth], true, items, err)
                   : LAKE_OK;
    }
    if (buffers->count < 2 || buffers->buffers[0].size < (items + 7) / 8)
        return lake_fail(err, LAKE_DATA_LOSS, "validity of list items is missing in a chunk");
    status = lance_leaf_values_need_item_validity(out, depth, err);
    if (status == LAKE_OK)
        status =
            lance_bits_append(&out->item_valid[depth], buffers->buffers[0].data, 0, items, err);
    buffers->buffers++;
    buffers->count--;
    return status;
}

/* The values of a chunk of an FSL leaf: consumes validity buffers and appends items. */
static lake_status decode_lists(struct lance_leaf_reader *reader,
                                const struct lance_encoding *encoding,
                                struct lance_chunk_buffers buffers, uint64_t rows,
                                struct lance_leaf_values *out, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    uint64_t items = rows;
    size_t opened = 0;
    for (uint32_t depth = 0; status == LAKE_OK && depth < out->type->fsl_depth;) {
        struct lake_bytes plain;
        if (encoding == NULL || buffers.count == 0) {
            status = lake_fail(err, LAKE_DATA_LOSS, "a fixed-size list has no items");
        } else if (encoding->kind == LANCE_ENCODING_FIXED_SIZE_LIST) {
            if (encoding->items != out->type->fsl_sizes[depth]) {
                status = lake_fail(err, LAKE_DATA_LOSS,
                                   "lists of %llu items where the type has "
                                   "%llu",
                                   (unsigned long long)encoding->items,
                                   (unsigned long long)out->type->fsl_sizes[depth]);
                break;
            }
            items *= encoding->items;
            status = fsl_validity(encoding, depth++, &buffers, items, out, err);
        } else if (encoding->kind == LANCE_ENCODING_GENERAL &&
                   reader->codec.depth < LANCE_MAX_GENERAL_DEPTH) {
            struct base_buffer *scratch = &reader->codec.scratch[reader->codec.depth];
            status = lance_decompress(&reader->codec, encoding->scheme, buffers.buffers[0],
                                      LANCE_MAX_DECODED_BYTES - 16, scratch, err);
            plain = base_buffer_view(scratch);
            buffers.buffers[0] = plain;
            reader->codec.depth++;
            opened++;
        } else {
            status = lake_fail(err, LAKE_UNIMPLEMENTED, "fixed-size lists encoded as %s",
                               lance_encoding_name(encoding->kind));
        }
        if (encoding != NULL)
            encoding = encoding->values;
    }
    if (status == LAKE_OK)
        status = decode_fixed_items(reader, encoding, buffers, rows, out, err);
    reader->codec.depth -= opened;
    return status;
}

/* ---- dictionaries ---- */

/* Indices in reader->scratch that lead out of the dictionary: what null slots hold means nothing
 * and becomes 0; a value's index is an error. */
static lake_status clear_hidden_indices(struct lance_leaf_reader *reader,
                                        const struct chunk_view *chunk, uint64_t bits,
                                        uint64_t count, struct lake_error *err)
{
    struct base_buffer levels;
    uint64_t slot = 0;
    lake_status status = LAKE_OK;
    base_buffer_init(&levels, (size_t)UINT16_MAX * 2);
    if (reader->layout.def != NULL)
        status = decode_levels(reader, reader->layout.def, chunk->def, chunk->levels, &levels, err);
    const uint16_t *def = (const uint16_t *)(const void *)levels.data;
    for (uint64_t i = 0; status == LAKE_OK && i < levels.size / 2 && slot < count; i++) {
        if (def[i] > reader->visible_level)
            continue;
        if (def[i] != 0)
            memset(reader->scratch.data + slot * (bits / 8), 0, (size_t)bits / 8);
        else if (lance_index_at(reader->scratch.data, bits, slot) >= reader->page_dictionary.count)
            break;
        slot++;
    }
    base_buffer_fini(&levels);
    if (status == LAKE_OK && slot < count)
        status = lake_fail(err, LAKE_DATA_LOSS, "a dictionary index beyond its %llu items",
                           (unsigned long long)reader->page_dictionary.count);
    return status;
}

/* Into reader->scratch, all inside the dictionary if it has any items. */
static lake_status decode_indices(struct lance_leaf_reader *reader, const struct chunk_view *chunk,
                                  struct lance_chunk_buffers buffers, uint64_t count,
                                  struct lake_error *err)
{
    const struct lance_encoding *encoding = reader->layout.values;
    uint64_t bits = lance_encoding_value_bits(encoding);
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
        return lake_fail(err, LAKE_DATA_LOSS, "dictionary indices of %llu bits",
                         (unsigned long long)bits);
    base_buffer_clear(&reader->scratch);
    lake_status status =
        base_buffer_reserve(&reader->scratch, (size_t)(count * (bits / 8)) + 8, err);
    if (status == LAKE_OK)
        status = lance_chunk_decode_fixed(&reader->codec, encoding, buffers, count, bits,
                                          reader->scratch.data, err);
    if (status == LAKE_OK &&
        lance_highest_index(reader->scratch.data, bits, count) >= reader->page_dictionary.count)
        status = clear_hidden_indices(reader, chunk, bits, count, err);
    if (status == LAKE_OK)
        reader->scratch.size = (size_t)(count * (bits / 8));
    return status;
}

/* What indices [first, first + count) stand for. */
static lake_status look_up(struct lance_leaf_reader *reader, const struct base_buffer *indices,
                           uint64_t first, uint64_t count, struct lance_leaf_values *out,
                           struct lake_error *err)
{
    uint64_t bits = lance_encoding_value_bits(reader->layout.values);
    if (count == 0)
        return LAKE_OK;
    if (reader->page_dictionary.count == 0)
        return lance_leaf_values_append_zeros(out, count, err);
    return lance_dictionary_look_up(reader, indices->data + first * (bits / 8), bits, count, out,
                                    err);
}

static lake_status decode_packed(struct lance_leaf_reader *reader,
                                 struct lance_chunk_buffers buffers, uint64_t count,
                                 struct lance_leaf_values *out, struct lake_error *err)
{
    uint64_t row_bits = reader->type.item_bits;
    if (row_bits == 0)
        return lake_fail(err, LAKE_DATA_LOSS,
                         "packed rows with variable-width members in a mini-block page");
    if (count > LANCE_MAX_DECODED_BYTES / (row_bits / 8))
        return lake_fail(err, LAKE_DATA_LOSS, "a chunk claims %llu packed rows of %llu bits",
                         (unsigned long long)count, (unsigned long long)row_bits);
    base_buffer_clear(&reader->scratch);
    lake_status status =
        base_buffer_reserve(&reader->scratch, (size_t)(count * (row_bits / 8)) + 8, err);
    if (status == LAKE_OK)
        status = lance_chunk_decode_fixed(&reader->codec, reader->layout.values, buffers, count,
                                          row_bits, reader->scratch.data, err);
    return status != LAKE_OK
               ? status
               : lance_leaf_values_append_packed(out, reader->scratch.data, count, err);
}

static lake_status decode_values(struct lance_leaf_reader *reader, struct chunk_view *chunk,
                                 uint64_t count, struct lance_leaf_values *out,
                                 struct lake_error *err)
{
    struct lance_chunk_buffers buffers = {chunk->buffers, chunk->buffer_count};
    struct lance_variable_view view;
    lake_status status;
    if (reader->page_has_dictionary) {
        status = decode_indices(reader, chunk, buffers, count, err);
        return status != LAKE_OK ? status : look_up(reader, &reader->scratch, 0, count, out, err);
    }
    switch (reader->type.kind) {
    case LANCE_LEAF_VARIABLE:
        status = lance_chunk_decode_variable(&reader->codec, reader->layout.values, buffers, count,
                                             &view, err);
        return status != LAKE_OK ? status
                                 : lance_leaf_values_append_view(out, &view, 0, count, err);
    case LANCE_LEAF_PACKED:
        return decode_packed(reader, buffers, count, out, err);
    case LANCE_LEAF_FIXED:
        return decode_fixed_items(reader, reader->layout.values, buffers, count, out, err);
    case LANCE_LEAF_FSL:
        return decode_lists(reader, reader->layout.values, buffers, count, out, err);
    case LANCE_LEAF_DICTIONARY:
        return lake_fail(err, LAKE_DATA_LOSS, "a page of a dictionary column has no dictionary");
    default:
        return lake_fail(err, LAKE_DATA_LOSS, "values in a column of nulls");
    }
}

/* ---- rows ---- */

/* The last chunk for which `first` (values or rows before it) is not above `position`. */
static uint64_t find_chunk(const struct lance_leaf_reader *reader, uint64_t position, bool by_row)
{
    uint64_t low = 0, high = reader->chunk_count;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        uint64_t first =
            by_row ? reader->chunks[middle].first_row : reader->chunks[middle].first_value;
        if (first <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The last chunk to read with chunks [index, last]: those of the rows that follow, as long as
 * little lies between. */
static uint64_t read_with(const struct lance_leaf_reader *reader, uint64_t index, uint64_t last,
                          bool by_row)
{
    const struct lance_file_page *page = lance_page_of(reader);
    const struct lance_chunk *chunks = reader->chunks;
    bool in_window = reader->window_buffer == 1 && chunks[index].offset >= reader->window_start &&
                     chunks[last + 1].offset <= reader->window_start + reader->window.size;
    for (size_t i = 0; !in_window && i < reader->next_run_count; i++) {
        const struct lance_run *run = &reader->next_runs[i];
        uint64_t start = run->start - page->first_row; /* runs ascend */
        if (start >= page->row_count)
            break;
        uint64_t chunk = find_chunk(reader, start, by_row);
        uint64_t end = BASE_MIN(start + run->count, page->row_count);
        if (chunks[chunk].offset > chunks[last + 1].offset + reader->gap_bytes ||
            chunks[chunk].offset > chunks[index].offset + reader->window_bytes)
            break;
        last = BASE_MAX(last, find_chunk(reader, end - 1, by_row));
    }
    return last;
}

static uint64_t chunk_values(const struct lance_leaf_reader *reader, uint64_t index)
{
    return reader->chunks[index + 1].first_value - reader->chunks[index].first_value;
}

/* Whether parts of the page's chunks are decoded when they are wanted. */
static bool has_ranges(const struct lance_leaf_reader *reader)
{
    return !reader->page_has_dictionary && reader->type.kind == LANCE_LEAF_FIXED &&
           reader->type.item_bits >= 8 && lance_chunk_has_ranges(reader->layout.values);
}

/* A chunk of a page without lists as far as its parts have it in common. */
static lake_status cache_flat(struct lance_leaf_reader *reader, struct chunk_view *chunk,
                              uint64_t count, struct lake_error *err)
{
    struct lance_chunk_buffers buffers = {chunk->buffers, chunk->buffer_count};
    if (has_ranges(reader))
        return lance_chunk_open(&reader->codec, reader->layout.values, chunk->buffers[0], count,
                                reader->type.item_bits, &reader->open_chunk, err);
    if (!reader->page_has_dictionary)
        return decode_values(reader, chunk, count, &reader->cache, err);
    lake_status status = decode_indices(reader, chunk, buffers, count, err);
    if (status == LAKE_OK) {
        struct base_buffer indices = reader->scratch;
        reader->scratch = reader->cache_indices;
        reader->cache_indices = indices;
    }
    return status;
}

static lake_status append_cached(struct lance_leaf_reader *reader, uint64_t first, uint64_t count,
                                 struct lake_error *err)
{
    struct lance_leaf_values *out = &reader->values;
    uint8_t *to;
    if (reader->page_has_dictionary)
        return look_up(reader, &reader->cache_indices, first, count, out, err);
    if (!has_ranges(reader))
        return lance_leaf_values_append_slice(out, &reader->cache, first, count, err);
    lake_status status = lance_leaf_values_reserve(out, count, &to, err);
    if (status == LAKE_OK)
        status = lance_chunk_decode_range(&reader->open_chunk, first, count, to, err);
    if (status == LAKE_OK)
        lance_leaf_values_grew(out, count);
    return status;
}

/* Loads a chunk into the cache, unless it is there. */
static lake_status load_cache(struct lance_leaf_reader *reader, uint64_t index, uint64_t last_index,
                              struct lake_error *err)
{
    struct chunk_view chunk;
    bool flat = reader->layout.rep == NULL;
    uint64_t count = chunk_values(reader, index);
    /* Keys that are decoded for good hold for one read. */
    if (reader->cached_chunk == index && (flat || reader->type.kind != LANCE_LEAF_DICTIONARY))
        return LAKE_OK;
    reader->cached_chunk = UINT64_MAX;
    lance_leaf_values_clear(&reader->cache);
    base_buffer_clear(&reader->cache_rep);
    base_buffer_clear(&reader->cache_def);
    reader->cached_place = (struct lance_chunk_place){0, 0, 0};
    lake_status status = read_chunk(reader, index, last_index, &chunk, err);
    if (status == LAKE_OK && reader->layout.rep != NULL)
        status = decode_levels(reader, reader->layout.rep, chunk.rep, chunk.levels,
                               &reader->cache_rep, err);
    if (status == LAKE_OK && reader->layout.def != NULL)
        status = decode_levels(reader, reader->layout.def, chunk.def, chunk.levels,
                               &reader->cache_def, err);
    if (status == LAKE_OK)
        status = flat ? cache_flat(reader, &chunk, count, err)
                      : decode_values(reader, &chunk, count, &reader->cache, err);
    if (status == LAKE_OK)
        reader->cached_chunk = index;
    return status;
}

/* `count` values of a chunk, and their definition levels, of a page without lists. */
static lake_status read_flat_part(struct lance_leaf_reader *reader, uint64_t index,
                                  uint64_t last_index, uint64_t skip, uint64_t count,
                                  struct lake_error *err)
{
    struct chunk_view chunk;
    uint64_t all = chunk_values(reader, index);
    lake_status status;
    if (count == all) {
        status = read_chunk(reader, index, last_index, &chunk, err);
        if (status == LAKE_OK && reader->layout.def != NULL && chunk.levels != count)
            status = lake_fail(err, LAKE_DATA_LOSS, "a chunk has %llu levels for %llu values",
                               (unsigned long long)chunk.levels, (unsigned long long)count);
        if (status == LAKE_OK && reader->layout.def != NULL)
            status = decode_levels(reader, reader->layout.def, chunk.def, count, &reader->def, err);
        return status != LAKE_OK ? status
                                 : decode_values(reader, &chunk, count, &reader->values, err);
    }
    status = load_cache(reader, index, last_index, err);
    if (status != LAKE_OK)
        return status;
    if (reader->layout.def != NULL) {
        if (reader->cache_def.size != all * sizeof(uint16_t))
            return lake_fail(err, LAKE_DATA_LOSS, "a chunk has %zu levels for %llu values",
                             reader->cache_def.size / 2, (unsigned long long)all);
        status = base_buffer_append(&reader->def, reader->cache_def.data + skip * 2,
                                    (size_t)count * 2, err);
    }
    return status != LAKE_OK ? status : append_cached(reader, skip, count, err);
}

static lake_status read_flat_rows(struct lance_leaf_reader *reader, uint64_t row, uint64_t count,
                                  struct lake_error *err)
{
    uint64_t end = row + count;
    uint64_t index = find_chunk(reader, row, false);
    uint64_t last = read_with(reader, index, find_chunk(reader, end - 1, false), false);
    lake_status status = LAKE_OK;
    /* Room for all of it at once; pages that follow make the buffer grow by doubling. */
    if (reader->type.kind == LANCE_LEAF_FIXED && reader->type.item_bits >= 8) {
        uint8_t *unused;
        status = lance_leaf_values_reserve(&reader->values, count, &unused, err);
    }
    for (; status == LAKE_OK && row < end; index++) {
        uint64_t skip = row - reader->chunks[index].first_value;
        uint64_t take = BASE_MIN(chunk_values(reader, index) - skip, end - row);
        status = read_flat_part(reader, index, last, skip, take, err);
        row += take;
    }
    return status;
}

/* The position of the `nth` (from 0) row start of the cached chunk at or after `from`, or the
 * number of its levels. */
static uint64_t find_row_start(const struct lance_leaf_reader *reader, uint64_t from, uint64_t nth)
{
    const uint16_t *rep = (const uint16_t *)(const void *)reader->cache_rep.data;
    uint64_t seen = 0, i = from;
    for (; i < reader->cache_rep.size / sizeof(uint16_t); i++)
        if (rep[i] == reader->max_rep && seen++ == nth)
            break;
    return i;
}

static uint64_t count_visible(const struct lance_leaf_reader *reader, uint64_t from, uint64_t to)
{
    uint64_t visible = 0;
    if (reader->cache_def.size == 0)
        return to - from;
    const uint16_t *def = (const uint16_t *)(const void *)reader->cache_def.data;
    for (uint64_t i = from; i < to; i++)
        visible += def[i] <= reader->visible_level;
    return visible;
}

/* Of the levels [from, to). */
static uint64_t count_row_starts(const uint16_t *rep, uint64_t from, uint64_t to, uint32_t max_rep)
{
    uint64_t starts = 0;
    for (uint64_t i = from; i < to; i++)
        starts += rep[i] == max_rep;
    return starts;
}

/* Moves the place in the cached chunk on to `entry`. */
static void pass_entries(struct lance_leaf_reader *reader, uint64_t entry)
{
    struct lance_chunk_place *place = &reader->cached_place;
    const uint16_t *rep = (const uint16_t *)(const void *)reader->cache_rep.data;
    *place = (struct lance_chunk_place){
        entry, place->row_starts + count_row_starts(rep, place->entry, entry, reader->max_rep),
        place->values + count_visible(reader, place->entry, entry)};
}

/* Appends entries [place, to), at least one, of the cached chunk, and passes them. */
static lake_status append_entries(struct lance_leaf_reader *reader, uint64_t to,
                                  struct lake_error *err)
{
    const struct lance_chunk_place from = reader->cached_place;
    size_t start = (size_t)from.entry * 2, bytes = (size_t)(to - from.entry) * 2;
    pass_entries(reader, to);
    lake_status status =
        base_buffer_append(&reader->rep, reader->cache_rep.data + start, bytes, err);
    if (status == LAKE_OK && reader->layout.def != NULL)
        status = base_buffer_append(&reader->def, reader->cache_def.data + start, bytes, err);
    return status != LAKE_OK
               ? status
               : lance_leaf_values_append_slice(&reader->values, &reader->cache, from.values,
                                                reader->cached_place.values - from.values, err);
}

/* Appends all entries of a chunk, decoded where they are wanted. */
static lake_status append_chunk(struct lance_leaf_reader *reader, uint64_t index,
                                uint64_t last_index, uint64_t *started, struct lake_error *err)
{
    struct chunk_view chunk;
    size_t before = reader->rep.size;
    lake_status status = read_chunk(reader, index, last_index, &chunk, err);
    if (status == LAKE_OK)
        status =
            decode_levels(reader, reader->layout.rep, chunk.rep, chunk.levels, &reader->rep, err);
    if (status == LAKE_OK && reader->layout.def != NULL)
        status =
            decode_levels(reader, reader->layout.def, chunk.def, chunk.levels, &reader->def, err);
    if (status == LAKE_OK)
        status = decode_values(reader, &chunk, chunk_values(reader, index), &reader->values, err);
    if (status == LAKE_OK)
        *started += count_row_starts((const uint16_t *)(const void *)reader->rep.data,
                                     before / sizeof(uint16_t), reader->rep.size / sizeof(uint16_t),
                                     reader->max_rep);
    return status;
}

/* Appends what is wanted of a chunk from its `skip`-th row start on (of the first chunk) or from
 * its beginning; *done when a row that is not wanted begins in it. Rows that are read in their
 * order are found from where the last one ended. */
static lake_status append_part(struct lance_leaf_reader *reader, uint64_t index,
                               uint64_t last_index, bool first, uint64_t skip, uint64_t left,
                               uint64_t *started, bool *done, struct lake_error *err)
{
    struct lance_chunk_place *place = &reader->cached_place;
    lake_status status = load_cache(reader, index, last_index, err);
    if (status != LAKE_OK)
        return status;
    if (!first || skip < place->row_starts)
        *place = (struct lance_chunk_place){0, 0, 0};
    if (first)
        pass_entries(reader, find_row_start(reader, place->entry, skip - place->row_starts));
    uint64_t to = find_row_start(reader, place->entry, left), before = place->row_starts;
    status = to == place->entry ? LAKE_OK : append_entries(reader, to, err);
    *started += place->row_starts - before;
    *done = to < reader->cache_rep.size / sizeof(uint16_t);
    return status;
}

static lake_status read_list_rows(struct lance_leaf_reader *reader, uint64_t row, uint64_t count,
                                  struct lake_error *err)
{
    uint64_t index = find_chunk(reader, row, true), end = row + count;
    uint64_t last = read_with(reader, index, find_chunk(reader, end - 1, true), true);
    uint64_t skip = row - reader->chunks[index].first_row, started = 0;
    bool first = true, done = false;
    lake_status status = LAKE_OK;
    for (; status == LAKE_OK && !done && index < reader->chunk_count; index++, first = false) {
        uint64_t last_index = BASE_MAX(index, last);
        /* After the first chunk, one in which only wanted rows begin is wanted whole. */
        if (!first && started < count && reader->chunks[index + 1].first_row <= end &&
            index != reader->cached_chunk)
            status = append_chunk(reader, index, last_index, &started, err);
        else
            status = append_part(reader, index, last_index, first, skip, count - started, &started,
                                 &done, err);
    }
    if (status == LAKE_OK && started != count)
        status = lake_fail(err, LAKE_DATA_LOSS,
                           "chunks hold %llu of the %llu rows that the "
                           "repetition index promises",
                           (unsigned long long)started, (unsigned long long)count);
    return status;
}

static lake_status mini_block_read(struct lance_leaf_reader *reader, uint64_t row, uint64_t count,
                                   struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (reader->chunk_count == 0)
        return lake_fail(err, LAKE_DATA_LOSS, "a page of %llu rows has no chunks",
                         (unsigned long long)lance_page_of(reader)->row_count);
    if (reader->type.kind == LANCE_LEAF_DICTIONARY && reader->page_has_dictionary)
        status = lance_dictionary_place(reader, err);
    if (status != LAKE_OK)
        return status;
    if (reader->layout.rep == NULL)
        return read_flat_rows(reader, row, count, err);
    return read_list_rows(reader, row, count, err);
}

const struct lance_page_methods lance_mini_block_methods = {mini_block_open, mini_block_read};
