/* Reads rows of one leaf column, page after page. */
#include "file_read.h"

#include <string.h>

/* What a sequential reader asks for at a time: of a local file little, so that it is decoded while
 * it is in the processor's cache; of a far one enough to be worth a request. */
#define LOCAL_WINDOW_BYTES ((uint64_t)64 << 10)
#define FAR_WINDOW_BYTES   ((uint64_t)1 << 20)
#define MAX_WINDOW_BYTES   ((uint64_t)8 << 20)
/* Bytes that cost no more to read than one more request. */
#define LOCAL_GAP_BYTES ((uint64_t)12 << 10)
#define FAR_GAP_BYTES   ((uint64_t)512 << 10)
/* Of what is said to be wanted. */
#define SMALL_BUFFER_BYTES ((uint64_t)64 << 10)
#define MAX_TABLE_BYTES    ((uint64_t)1 << 20) /* of chunks, rows or a dictionary */
#define CHUNK_BYTES        ((uint64_t)32 << 10)
#define MAX_PAGE_ARENA     ((size_t)8 << 30)
#define MAX_LEVEL_BYTES    ((size_t)1 << 40)

lake_status lance_leaf_reader_init(struct lance_leaf_reader *reader, struct lance_file *file,
                                   uint32_t column_index, const struct ArrowSchema *arrow,
                                   const bool *layer_is_list, size_t layer_count,
                                   struct lance_read_counters *counters, struct lake_error *err)
{
    struct lance_leaf_type type, dictionary_type = {.items = 1};
    lake_status status = lance_leaf_type_of(arrow, &type, err);
    if (status == LAKE_OK && type.kind == LANCE_LEAF_DICTIONARY)
        status = lance_leaf_type_of(type.dictionary, &dictionary_type, err);
    if (status != LAKE_OK)
        return status;
    *reader = (struct lance_leaf_reader){.file = file,
                                         .column = &file->columns[column_index],
                                         .column_index = column_index,
                                         .type = type,
                                         .dictionary_type = dictionary_type,
                                         .counters = counters,
                                         .page_index = SIZE_MAX,
                                         .cached_chunk = UINT64_MAX};
    bool local = strncmp(storage_store_uri(file->store), "file://", 7) == 0;
    reader->window_bytes = local ? LOCAL_WINDOW_BYTES : FAR_WINDOW_BYTES;
    reader->gap_bytes = local ? LOCAL_GAP_BYTES : FAR_GAP_BYTES;
    lance_codec_context_init(&reader->codec);
    const struct lance_leaf_type *items =
        type.kind == LANCE_LEAF_DICTIONARY ? &reader->dictionary_type : &reader->type;
    lance_leaf_values_init(&reader->values, &reader->type);
    lance_leaf_values_init(&reader->cache, &reader->type);
    lance_leaf_values_init(&reader->dictionary, items);
    lance_leaf_values_init(&reader->page_dictionary, items);
    lance_layers_init(&reader->layers, layer_is_list, layer_count);
    base_buffer_init(&reader->rep, MAX_LEVEL_BYTES);
    base_buffer_init(&reader->def, MAX_LEVEL_BYTES);
    base_buffer_init(&reader->cache_rep, MAX_LEVEL_BYTES);
    base_buffer_init(&reader->cache_def, MAX_LEVEL_BYTES);
    base_buffer_init(&reader->window, MAX_LEVEL_BYTES);
    base_buffer_init(&reader->scratch, MAX_LEVEL_BYTES);
    base_buffer_init(&reader->open_chunk.data, MAX_LEVEL_BYTES);
    base_buffer_init(&reader->cache_indices, MAX_LEVEL_BYTES);
    status = lance_leaf_values_init_members(&reader->values, err);
    if (status == LAKE_OK)
        status = lance_leaf_values_init_members(&reader->cache, err);
    if (status != LAKE_OK)
        lance_leaf_reader_fini(reader);
    return status;
}

void lance_leaf_reader_fini(struct lance_leaf_reader *reader)
{
    lance_codec_context_fini(&reader->codec);
    lance_leaf_values_fini(&reader->values);
    lance_leaf_values_fini(&reader->cache);
    lance_leaf_values_fini(&reader->dictionary);
    lance_leaf_values_fini(&reader->page_dictionary);
    lance_layers_fini(&reader->layers);
    base_buffer_fini(&reader->rep);
    base_buffer_fini(&reader->def);
    base_buffer_fini(&reader->cache_rep);
    base_buffer_fini(&reader->cache_def);
    base_buffer_fini(&reader->window);
    base_buffer_fini(&reader->scratch);
    base_buffer_fini(&reader->open_chunk.data);
    base_buffer_fini(&reader->cache_indices);
    base_arena_free(reader->page_arena);
    reader->page_arena = NULL;
}

/* ---- bytes of the current page ---- */

uint64_t lance_page_buffer_size(const struct lance_leaf_reader *reader, size_t buffer)
{
    const struct lance_file_page *page = lance_page_of(reader);
    return buffer < page->buffer_count ? page->sizes[buffer] : 0;
}

lake_status lance_page_buffer_count(struct lance_leaf_reader *reader, size_t expected,
                                    struct lake_error *err)
{
    size_t found = lance_page_of(reader)->buffer_count;
    if (found != expected)
        return lake_fail(err, LAKE_DATA_LOSS, "the page has %zu buffers, its layout needs %zu",
                         found, expected);
    return LAKE_OK;
}

lake_status lance_page_read_at(struct lance_leaf_reader *reader, size_t buffer, uint64_t offset,
                               size_t size_bytes, uint8_t *out, struct lake_error *err)
{
    const struct lance_file_page *page = lance_page_of(reader);
    uint64_t size = lance_page_buffer_size(reader, buffer);
    if (offset > size || size_bytes > size - offset)
        return lake_fail(err, LAKE_DATA_LOSS, "%zu bytes at %llu lie outside page buffer %zu",
                         size_bytes, (unsigned long long)offset, buffer);
    if (size_bytes == 0)
        return LAKE_OK;
    if (reader->counters != NULL)
        __atomic_fetch_add(&reader->counters->bytes_read, size_bytes, __ATOMIC_RELAXED);
    if (reader->ahead != NULL)
        return lance_read_ahead_read(reader->ahead, reader->file, page->offsets[buffer] + offset,
                                     size_bytes, out, err);
    return lance_file_read_range(reader->file, page->offsets[buffer] + offset, size_bytes, out,
                                 err);
}

void *lance_page_alloc(struct lance_leaf_reader *reader, uint64_t count, size_t item_bytes)
{
    if (count > SIZE_MAX)
        return NULL;
    return base_arena_calloc_array(reader->page_arena, (size_t)count, item_bytes);
}

lake_status lance_page_read_buffer(struct lance_leaf_reader *reader, size_t buffer,
                                   struct lake_bytes *out, struct lake_error *err)
{
    uint64_t size = lance_page_buffer_size(reader, buffer);
    if (size > MAX_PAGE_ARENA)
        return lake_fail(err, LAKE_DATA_LOSS, "page buffer %zu has %llu bytes", buffer,
                         (unsigned long long)size);
    /* Slack at the end: decoders may read whole words. */
    uint8_t *data = base_arena_alloc(reader->page_arena, (size_t)size + 16);
    if (data == NULL)
        return base_fail_no_memory(err, (size_t)size);
    lake_status status = lance_page_read_at(reader, buffer, 0, (size_t)size, data, err);
    if (status == LAKE_OK)
        *out = (struct lake_bytes){data, (size_t)size};
    return status;
}

lake_status lance_page_window(struct lance_leaf_reader *reader, size_t buffer, uint64_t start,
                              uint64_t end, uint64_t wanted_end, struct lake_bytes *out,
                              struct lake_error *err)
{
    uint64_t size = lance_page_buffer_size(reader, buffer);
    struct base_buffer *window = &reader->window;
    if (start > end || end > size)
        return lake_fail(err, LAKE_DATA_LOSS, "bytes %llu to %llu lie outside page buffer %zu",
                         (unsigned long long)start, (unsigned long long)end, buffer);
    if (start == end) {
        *out = (struct lake_bytes){0};
        return LAKE_OK;
    }
    if (buffer != reader->window_buffer || start < reader->window_start ||
        end > reader->window_start + window->size) {
        uint64_t stop = BASE_MAX(end, BASE_MIN(wanted_end, start + MAX_WINDOW_BYTES));
        /* Only who reads on gets more than was asked for: scattered reads stay small. */
        if (!reader->scattered && buffer == reader->window_buffer && window->size > 0 &&
            start >= reader->window_start && start <= reader->window_start + window->size)
            stop = BASE_MAX(stop, start + reader->window_bytes);
        stop = BASE_MIN(stop, size);
        if (reader->ahead != NULL) {
            uint64_t base = lance_page_of(reader)->offsets[buffer];
            stop = lance_read_ahead_reach(reader->ahead, reader->file, base + start, base + end,
                                          base + stop) -
                   base;
        }
        base_buffer_clear(window);
        lake_status status = base_buffer_reserve(window, (size_t)(stop - start) + 16, err);
        if (status == LAKE_OK)
            status = lance_page_read_at(reader, buffer, start, (size_t)(stop - start), window->data,
                                        err);
        if (status != LAKE_OK)
            return status;
        window->size = (size_t)(stop - start);
        reader->window_start = start;
        reader->window_buffer = buffer;
    }
    *out =
        (struct lake_bytes){window->data + (start - reader->window_start), (size_t)(end - start)};
    return LAKE_OK;
}

/* ---- pages ---- */

/* Lance 2 to 7 names a layer of the members of a blob's rows, too, which are never null. */
static void drop_layer_of_members(struct lance_leaf_reader *reader)
{
    struct lance_page_layout *layout = &reader->layout;
    if (reader->type.kind != LANCE_LEAF_PACKED || layout->layer_count != reader->layers.count + 1 ||
        layout->layers[0] != LANCE_ALL_VALID_ITEM)
        return;
    layout->layer_count--;
    memmove(layout->layers, layout->layers + 1, layout->layer_count);
}

static lake_status check_layers(struct lance_leaf_reader *reader, struct lake_error *err)
{
    drop_layer_of_members(reader);
    const struct lance_page_layout *layout = &reader->layout;
    bool match = layout->layer_count == reader->layers.count;
    for (size_t i = 0; match && i < layout->layer_count; i++)
        match = lance_layer_is_list(layout->layers[i]) == reader->layers.layers[i].is_list;
    if (!match)
        return lake_fail(err, LAKE_DATA_LOSS,
                         "the page's %zu layers are not those of the field's %zu",
                         layout->layer_count, reader->layers.count);
    memcpy(reader->page_layers, layout->layers, layout->layer_count);
    reader->blob_page = layout->kind == LANCE_BLOB_PAGE;
    if (reader->blob_page) {
        struct lance_page_layout descriptions = *layout->descriptions;
        reader->layout = descriptions;
    }
    layout = &reader->layout;
    reader->max_rep = lance_max_rep_level(layout->layers, layout->layer_count);
    reader->visible_level = lance_visible_level(layout->layers, layout->layer_count);
    return LAKE_OK;
}

/* A blob page keeps the levels in its descriptions: size 0 and position != 0 is def << 16 | rep. */
static lake_status blob_levels(struct lance_leaf_reader *reader, uint64_t from,
                               struct lake_error *err)
{
    const struct lance_leaf_values *values = &reader->values;
    if (values->member_count != 2 || values->members[0].type->item_bits != 64 ||
        values->members[1].type->item_bits != 64)
        return lake_fail(err, LAKE_DATA_LOSS, "a blob page in a column of another type");
    for (uint64_t i = from; i < values->count; i++) {
        uint64_t position = base_load_u64le(values->members[0].fixed.data + 8 * i);
        uint64_t size = base_load_u64le(values->members[1].fixed.data + 8 * i);
        uint16_t def = size == 0 ? (uint16_t)(position >> 16) : 0;
        if (size == 0 && (position & 0xFFFF) != 0)
            return lake_fail(err, LAKE_UNIMPLEMENTED, "blobs within lists cannot be read");
        lake_status status = base_buffer_append(&reader->def, &def, sizeof(def), err);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

static void close_page(struct lance_leaf_reader *reader)
{
    reader->page_index = SIZE_MAX;
    base_arena_free(reader->page_arena);
    reader->page_arena = NULL;
    base_buffer_clear(&reader->window);
    reader->window_start = 0;
    reader->cached_chunk = UINT64_MAX;
    reader->page_has_dictionary = false;
    reader->dictionary_placed = false;
    lance_leaf_values_clear(&reader->page_dictionary);
}

static lake_status open_page(struct lance_leaf_reader *reader, size_t index, struct lake_error *err)
{
    if (reader->page_index == index)
        return LAKE_OK;
    close_page(reader);
    lake_status status = base_arena_new(MAX_PAGE_ARENA, &reader->page_arena, err);
    if (status != LAKE_OK)
        return status;
    reader->page_index = index;
    status = lance_page_layout_parse(lance_page_of(reader)->layout, reader->page_arena,
                                     &reader->layout, err);
    if (status == LAKE_OK)
        status = check_layers(reader, err);
    if (status != LAKE_OK)
        goto out;
    if (reader->layout.kind == LANCE_MINI_BLOCK)
        reader->methods = &lance_mini_block_methods;
    else if (reader->layout.kind == LANCE_FULL_ZIP)
        reader->methods = &lance_full_zip_methods;
    else
        reader->methods = &lance_constant_methods;
    status = reader->methods->open(reader, err);
    if (status == LAKE_OK && reader->counters != NULL)
        __atomic_fetch_add(&reader->counters->pages_read, 1, __ATOMIC_RELAXED);
out:
    if (status != LAKE_OK)
        close_page(reader);
    return status;
}

static lake_status read_page_rows(struct lance_leaf_reader *reader, uint64_t row, uint64_t count,
                                  struct lake_error *err)
{
    base_buffer_clear(&reader->rep);
    base_buffer_clear(&reader->def);
    uint64_t before = reader->values.count;
    lake_status status = reader->methods->read(reader, row, count, err);
    if (status == LAKE_OK && reader->blob_page)
        status = blob_levels(reader, before, err);
    if (status != LAKE_OK)
        return status;
    const uint16_t *rep =
        reader->rep.size > 0 ? (const uint16_t *)(const void *)reader->rep.data : NULL;
    const uint16_t *def =
        reader->def.size > 0 ? (const uint16_t *)(const void *)reader->def.data : NULL;
    uint64_t entries = rep != NULL ? reader->rep.size / 2 : count;
    if (def != NULL && reader->def.size / 2 != entries)
        return lake_fail(err, LAKE_DATA_LOSS, "the page has %zu definition levels for %llu entries",
                         reader->def.size / 2, (unsigned long long)entries);
    status = lance_layers_append(&reader->layers, reader->page_layers, rep, def, entries, err);
    if (status != LAKE_OK)
        return status;
    if (reader->layers.layers[0].length != reader->values.count)
        return lake_fail(err, LAKE_DATA_LOSS, "the page's levels show %llu values, it holds %llu",
                         (unsigned long long)(reader->layers.layers[0].length - before),
                         (unsigned long long)(reader->values.count - before));
    return LAKE_OK;
}

size_t lance_find_page(const struct lance_file_column *column, uint64_t row)
{
    size_t low = 0, high = column->page_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (column->pages[middle].first_row <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Which bytes of a buffer rows [first, end) of its page need, as far as that can be said before the
 * page is open: a small one is needed as a whole, and of the one with the values the part that lies
 * where such rows would be if all were alike, and a chunk on both sides of it. */
static void find_part(const struct lance_file_page *page, size_t buffer, uint64_t first,
                      uint64_t end, uint64_t *start, uint64_t *stop)
{
    uint64_t size = page->sizes[buffer];
    uint64_t largest = 0;
    for (size_t i = 0; i < page->buffer_count; i++)
        largest = BASE_MAX(largest, page->sizes[i]);
    *start = 0;
    *stop = size;
    if (size <= SMALL_BUFFER_BYTES || (size < largest && size <= MAX_TABLE_BYTES) ||
        (first == 0 && end == page->row_count))
        return;
    double row_bytes = (double)size / (double)page->row_count;
    uint64_t from = BASE_MIN((uint64_t)((double)first * row_bytes), size);
    uint64_t to = BASE_MIN((uint64_t)((double)end * row_bytes), size);
    from -= BASE_MIN(from, CHUNK_BYTES);
    to += BASE_MIN(size - to, CHUNK_BYTES);
    if (to - from > size / 2) /* the rest comes with it */
        return;
    *start = from;
    *stop = to;
}

lake_status lance_leaf_reader_want(struct lance_leaf_reader *reader, struct lance_read_ahead *ahead,
                                   uint64_t start, uint64_t count, uint64_t rows_per_row,
                                   struct lake_error *err)
{
    lake_status status = LAKE_OK;
    uint64_t all = reader->column->row_count;
    uint64_t end = start + BASE_MIN(count, all - BASE_MIN(start, all));
    if (reader->file->whole != NULL || !storage_can_fetch(reader->file->store))
        return LAKE_OK;
    reader->ahead = ahead;
    while (status == LAKE_OK && start < end) {
        const struct lance_file_page *page =
            &reader->column->pages[lance_find_page(reader->column, start)];
        uint64_t page_end = page->first_row + page->row_count;
        uint64_t stop = BASE_MIN(end, page_end);
        for (size_t i = 0; status == LAKE_OK && i < page->buffer_count; i++) {
            uint64_t from, to;
            find_part(page, i, start - page->first_row, stop - page->first_row, &from, &to);
            bool whole = from == 0 && to == page->sizes[i];
            status = lance_read_ahead_want(ahead, reader->file, page->offsets[i] + from,
                                           page->offsets[i] + to,
                                           ((whole ? page_end : stop) - 1) / rows_per_row + 1, err);
        }
        start = stop;
    }
    return status;
}

void lance_leaf_reader_start(struct lance_leaf_reader *reader)
{
    lance_leaf_values_clear(&reader->values);
    lance_leaf_values_clear(&reader->dictionary);
    lance_layers_clear(&reader->layers);
    reader->dictionary_placed = false;
}

lake_status lance_leaf_reader_add(struct lance_leaf_reader *reader, uint64_t start, uint64_t count,
                                  struct lake_error *err)
{
    uint64_t end;
    lake_status status = LAKE_OK;
    if (!base_u64_add(start, count, &end) || end > reader->column->row_count)
        return lake_fail(err, LAKE_OUT_OF_RANGE,
                         "rows %llu and the next %llu of column %u, which has %llu",
                         (unsigned long long)start, (unsigned long long)count, reader->column_index,
                         (unsigned long long)reader->column->row_count);
    while (status == LAKE_OK && start < end) {
        size_t index = lance_find_page(reader->column, start);
        const struct lance_file_page *page = &reader->column->pages[index];
        uint64_t row = start - page->first_row;
        uint64_t take = BASE_MIN(end - start, page->row_count - row);
        status = open_page(reader, index, err);
        if (status == LAKE_OK)
            status = read_page_rows(reader, row, take, err);
        if (status != LAKE_OK)
            return lake_fail_wrap(err, status, "page %zu of column %u of data file %.*s", index,
                                  reader->column_index, LAKE_STR_FMT(reader->file->key));
        start += take;
    }
    return status;
}
