/* The container of a data file: footer, tables of offsets, column metadata. */
#include "file_read.h"
#include "zones.h"

#include <string.h>

#define FOOTER_BYTES         40
#define MAX_COLUMNS          (LANCE_MAX_FIELDS * 4)
#define MAX_GLOBAL_BUFFERS   (1U << 16)
#define MAX_METADATA_BYTES   ((uint64_t)1 << 30)
#define MAX_ARENA_BYTES      ((size_t)4 << 30)
#define ARENA_BYTES          4096 /* that it takes, however little is in it */
#define BUFFER_ALIGNMENT     64
#define MAX_STATISTICS_BYTES ((uint64_t)256 << 20)
#define MAX_PAGE_ROWS        ((uint64_t)1 << 40)
#define DIRECT_ENCODING_TAG  2

struct footer {
    uint64_t columns_at;
    uint64_t column_table_at;
    uint64_t global_table_at;
    uint32_t global_count;
    uint32_t column_count;
    uint16_t major;
    uint16_t minor;
};

/* The end of the file in memory: [start, size of the file). */
struct tail {
    uint8_t *data;
    uint64_t start;
    size_t size;
};

static lake_status parse_footer(const struct tail *tail, struct footer *out, struct lake_error *err)
{
    const uint8_t *at = tail->data + tail->size - FOOTER_BYTES;
    if (memcmp(at + 36, "LANC", 4) != 0)
        return lake_fail(err, LAKE_DATA_LOSS, "the file does not end with Lance's magic number");
    *out = (struct footer){.columns_at = base_load_u64le(at),
                           .column_table_at = base_load_u64le(at + 8),
                           .global_table_at = base_load_u64le(at + 16),
                           .global_count = base_load_u32le(at + 24),
                           .column_count = base_load_u32le(at + 28),
                           .major = base_load_u16le(at + 32),
                           .minor = base_load_u16le(at + 34)};
    if (out->major == 0 && out->minor == 3) { /* what files of 2.0 say */
        out->major = 2;
        out->minor = 0;
    }
    if (out->major != 2 || out->minor > 2)
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "file version %u.%u cannot be read: 2.0, 2.1 and 2.2 can", out->major,
                         out->minor);
    return LAKE_OK;
}

static lake_status check_footer(const struct footer *footer, uint64_t size_bytes,
                                struct lake_error *err)
{
    uint64_t end = size_bytes - FOOTER_BYTES;
    uint64_t column_table = (uint64_t)footer->column_count * 16;
    uint64_t global_table = (uint64_t)footer->global_count * 16;
    if (footer->column_count > MAX_COLUMNS || footer->global_count > MAX_GLOBAL_BUFFERS ||
        footer->global_count < 1)
        return lake_fail(err, LAKE_DATA_LOSS, "the footer counts %u columns, %u global buffers",
                         footer->column_count, footer->global_count);
    if (footer->column_table_at > end || end - footer->column_table_at < column_table ||
        footer->global_table_at > end || end - footer->global_table_at < global_table ||
        footer->columns_at > footer->column_table_at ||
        end - BASE_MIN(footer->columns_at, end) > MAX_METADATA_BYTES)
        return lake_fail(err, LAKE_DATA_LOSS, "the footer's positions lie outside the file");
    return LAKE_OK;
}

/* Makes [from, end of file) present in the tail. */
static lake_status extend_tail(struct storage_store *store, struct lake_str key, uint64_t from,
                               struct tail *tail, struct lake_error *err)
{
    if (from >= tail->start)
        return LAKE_OK;
    size_t more = (size_t)(tail->start - from);
    uint8_t *grown = base_alloc(more + tail->size);
    if (grown == NULL)
        return base_fail_no_memory(err, more + tail->size);
    lake_status status = storage_read_range(store, key, from, more, grown, err);
    if (status != LAKE_OK) {
        base_free(grown);
        return status;
    }
    memcpy(grown + more, tail->data, tail->size);
    base_free(tail->data);
    *tail = (struct tail){.data = grown, .start = from, .size = more + tail->size};
    return LAKE_OK;
}

/* [position, position + length) of the file, which must be within the tail. */
static bool tail_view(const struct tail *tail, uint64_t position, uint64_t length,
                      struct lake_bytes *out)
{
    if (position < tail->start || position - tail->start > tail->size ||
        length > tail->size - (position - tail->start))
        return false;
    *out = (struct lake_bytes){tail->data + (position - tail->start), (size_t)length};
    return true;
}

/* ---- column metadata ---- */

static lake_status broken(uint32_t column, struct lake_error *err)
{
    return lake_fail(err, LAKE_DATA_LOSS, "the metadata of column %u is broken", column);
}

/* A packed or plain repeated uint64. `values` has room for LANCE_MAX_PAGE_BUFFERS. */
static bool read_numbers(struct base_cursor *cursor, uint32_t wire_type, uint64_t *values,
                         size_t *count)
{
    struct lake_bytes bytes;
    struct base_cursor inner;
    if (wire_type == 0) {
        if (*count == LANCE_MAX_PAGE_BUFFERS)
            return false;
        return base_cursor_varint(cursor, &values[(*count)++]);
    }
    if (wire_type != 2 || !base_cursor_length_delimited(cursor, &bytes))
        return false;
    inner = base_cursor_of(bytes);
    while (base_cursor_left(&inner) > 0) {
        if (*count == LANCE_MAX_PAGE_BUFFERS || !base_cursor_varint(&inner, &values[*count]))
            return false;
        (*count)++;
    }
    return true;
}

/* A packed or plain repeated uint64 of any length: the first one, and how many there are. */
static bool read_first_number(struct base_cursor *cursor, uint32_t wire_type, uint64_t *first,
                              size_t *count)
{
    struct base_cursor inner = *cursor;
    struct lake_bytes bytes;
    uint64_t value;
    if (wire_type == 2 && base_cursor_length_delimited(cursor, &bytes))
        inner = base_cursor_of(bytes);
    else if (wire_type != 0)
        return false;
    while (base_cursor_left(&inner) > 0) {
        if (!base_cursor_varint(&inner, &value))
            return false;
        *first = *count == 0 ? value : *first;
        (*count)++;
        if (wire_type == 0) {
            *cursor = inner;
            return true;
        }
    }
    return wire_type == 2;
}

/* The bytes field `field` of a message, the last one if repeated; empty when there is none. */
static bool find_bytes(struct lake_bytes message, uint32_t field, struct lake_bytes *out)
{
    struct base_cursor cursor = base_cursor_of(message);
    *out = (struct lake_bytes){0};
    while (base_cursor_left(&cursor) > 0) {
        uint32_t number, wire_type;
        if (!base_cursor_tag(&cursor, &number, &wire_type))
            return false;
        if (number == field && wire_type == 2) {
            if (!base_cursor_length_delimited(&cursor, out))
                return false;
        } else if (!base_cursor_skip_field(&cursor, wire_type)) {
            return false;
        }
    }
    return true;
}

/* Encoding { direct { Any { type_url, value } } } to the value. */
static lake_status layout_of(const struct lance_file *file, struct lake_bytes encoding,
                             uint32_t column, struct lake_bytes *out, struct lake_error *err)
{
    const char *expected =
        file->minor == 0 ? "/lance.encodings.ArrayEncoding" : "/lance.encodings21.PageLayout";
    struct lake_bytes direct, any, url;
    if (!find_bytes(encoding, DIRECT_ENCODING_TAG, &direct) || !find_bytes(direct, 1, &any) ||
        !find_bytes(any, 1, &url) || !find_bytes(any, 2, out))
        return broken(column, err);
    if (!base_str_equal_c((struct lake_str){(const char *)url.data, url.size}, expected))
        return lake_fail(err, LAKE_UNIMPLEMENTED, "a page of column %u has layout type %.*s",
                         column, (int)BASE_MIN(url.size, (size_t)80),
                         url.data == NULL ? "" : (const char *)url.data);
    return LAKE_OK;
}

static lake_status store_page(struct lance_file *file, uint32_t column, const uint64_t *offsets,
                              const uint64_t *sizes, struct lance_file_page *page,
                              struct lake_error *err)
{
    size_t count = page->buffer_count;
    page->offsets = base_arena_calloc_array(file->arena, count + 1, sizeof(uint64_t));
    page->sizes = base_arena_calloc_array(file->arena, count + 1, sizeof(uint64_t));
    uint8_t *layout = base_arena_alloc(file->arena, page->layout.size + 1);
    if (page->offsets == NULL || page->sizes == NULL || layout == NULL)
        return base_fail_no_memory(err, page->layout.size);
    for (size_t i = 0; i < count; i++) {
        if (sizes[i] > file->size_bytes || offsets[i] > file->size_bytes - sizes[i] ||
            (offsets[i] % BUFFER_ALIGNMENT != 0 && file->minor > 0))
            return lake_fail(err, LAKE_DATA_LOSS,
                             "a page of column %u has a buffer at %llu of %llu bytes, outside the "
                             "file or not aligned to %d",
                             column, (unsigned long long)offsets[i], (unsigned long long)sizes[i],
                             BUFFER_ALIGNMENT);
        page->offsets[i] = offsets[i];
        page->sizes[i] = sizes[i];
        file->columns[column].encoded_bytes += sizes[i];
    }
    if (page->layout.size > 0)
        memcpy(layout, page->layout.data, page->layout.size);
    page->layout.data = layout;
    file->memory_bytes += page->layout.size + 2 * count * sizeof(uint64_t) + sizeof(*page);
    return LAKE_OK;
}

static lake_status parse_page(struct lance_file *file, uint32_t column, struct lake_bytes message,
                              struct lance_file_page *page, struct lake_error *err)
{
    uint64_t offsets[LANCE_MAX_PAGE_BUFFERS], sizes[LANCE_MAX_PAGE_BUFFERS];
    size_t offset_count = 0, size_count = 0;
    struct lake_bytes encoding = {0};
    struct base_cursor cursor = base_cursor_of(message);
    while (base_cursor_left(&cursor) > 0) {
        uint32_t number, wire_type;
        bool good = base_cursor_tag(&cursor, &number, &wire_type);
        if (good && number == 1)
            good = read_numbers(&cursor, wire_type, offsets, &offset_count);
        else if (good && number == 2)
            good = read_numbers(&cursor, wire_type, sizes, &size_count);
        else if (good && number == 3 && wire_type == 0)
            good = base_cursor_varint(&cursor, &page->row_count);
        else if (good && number == 4 && wire_type == 2)
            good = base_cursor_length_delimited(&cursor, &encoding);
        else if (good)
            good = base_cursor_skip_field(&cursor, wire_type);
        if (!good)
            return broken(column, err);
    }
    if (offset_count != size_count || page->row_count > MAX_PAGE_ROWS)
        return broken(column, err);
    lake_status status = layout_of(file, encoding, column, &page->layout, err);
    if (status != LAKE_OK)
        return status;
    page->buffer_count = offset_count;
    return store_page(file, column, offsets, sizes, page, err);
}

static bool count_pages(struct lake_bytes message, size_t *out)
{
    struct base_cursor cursor = base_cursor_of(message);
    *out = 0;
    while (base_cursor_left(&cursor) > 0) {
        uint32_t number, wire_type;
        if (!base_cursor_tag(&cursor, &number, &wire_type) ||
            !base_cursor_skip_field(&cursor, wire_type))
            return false;
        *out += number == 2 && wire_type == 2;
    }
    return true;
}

static lake_status parse_column(struct lance_file *file, uint32_t index, struct lake_bytes message,
                                struct lake_error *err)
{
    struct lance_file_column *column = &file->columns[index];
    struct base_cursor cursor = base_cursor_of(message);
    uint64_t offset = 0, size = 0;
    size_t page_count, offset_count = 0, size_count = 0;
    if (!count_pages(message, &page_count))
        return broken(index, err);
    column->pages = base_arena_calloc_array(file->arena, page_count + 1, sizeof(*column->pages));
    if (column->pages == NULL)
        return base_fail_no_memory(err, page_count * sizeof(*column->pages));
    while (base_cursor_left(&cursor) > 0) {
        uint32_t number, wire_type;
        struct lake_bytes page_message;
        if (!base_cursor_tag(&cursor, &number, &wire_type))
            return broken(index, err);
        if (number == 3 || number == 4) {
            if (!read_first_number(&cursor, wire_type, number == 3 ? &offset : &size,
                                   number == 3 ? &offset_count : &size_count))
                return broken(index, err);
            continue;
        }
        if (number != 2 || wire_type != 2) {
            if (!base_cursor_skip_field(&cursor, wire_type))
                return broken(index, err);
            continue;
        }
        if (!base_cursor_length_delimited(&cursor, &page_message))
            return broken(index, err);
        struct lance_file_page *page = &column->pages[column->page_count];
        page->first_row = column->row_count;
        lake_status status = parse_page(file, index, page_message, page, err);
        if (status != LAKE_OK)
            return status;
        if (!base_u64_add(column->row_count, page->row_count, &column->row_count))
            return broken(index, err);
        column->page_count++;
    }
    /* The column's own buffer, perhaps statistics; lance_file_zones looks whose it is. */
    if (offset_count == 1 && size_count == 1 && size <= MAX_STATISTICS_BYTES &&
        size <= file->size_bytes && offset <= file->size_bytes - size) {
        column->statistics_offset = offset;
        column->statistics_bytes = (size_t)size;
        file->memory_bytes += (size_t)size;
    } else { /* what observe.c may come to keep */
        file->memory_bytes +=
            (size_t)(column->row_count / LANCE_ZONE_ROWS) * sizeof(struct lance_zone);
    }
    return LAKE_OK;
}

static lake_status parse_columns(struct lance_file *file, const struct footer *footer,
                                 const struct tail *tail, struct lake_error *err)
{
    struct lake_bytes table;
    if (!tail_view(tail, footer->column_table_at, (uint64_t)footer->column_count * 16, &table))
        return lake_fail(err, LAKE_DATA_LOSS, "the table of columns lies outside the file");
    file->columns = base_arena_calloc_array(file->arena, (size_t)footer->column_count + 1,
                                            sizeof(*file->columns));
    if (file->columns == NULL)
        return base_fail_no_memory(err, footer->column_count * sizeof(*file->columns));
    file->column_count = footer->column_count;
    for (uint32_t i = 0; i < footer->column_count; i++) {
        struct lake_bytes message;
        uint64_t position = base_load_u64le(table.data + 16 * (size_t)i);
        uint64_t length = base_load_u64le(table.data + 16 * (size_t)i + 8);
        if (!tail_view(tail, position, length, &message))
            return broken(i, err);
        lake_status status = parse_column(file, i, message, err);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

/* Global buffer 0 is FileDescriptor { 1 schema, 2 length }. It may lie before the tail. */
static lake_status parse_descriptor(struct lance_file *file, const struct footer *footer,
                                    const struct tail *tail, struct lake_error *err)
{
    struct lake_bytes table, message;
    struct base_cursor cursor;
    uint8_t *read = NULL;
    lake_status status = LAKE_OK;
    if (!tail_view(tail, footer->global_table_at, 16, &table))
        return lake_fail(err, LAKE_DATA_LOSS, "the table of buffers lies outside the file");
    uint64_t position = base_load_u64le(table.data), length = base_load_u64le(table.data + 8);
    if (length > MAX_METADATA_BYTES || length > file->size_bytes ||
        position > file->size_bytes - length)
        return lake_fail(err, LAKE_DATA_LOSS, "the file's descriptor lies outside the file");
    file->descriptor_offset = position;
    file->descriptor_bytes = (size_t)length;
    if (!tail_view(tail, position, length, &message)) {
        read = base_alloc((size_t)length);
        if (read == NULL)
            return base_fail_no_memory(err, (size_t)length);
        status = storage_read_range(file->store, file->key, position, (size_t)length, read, err);
        message = (struct lake_bytes){read, (size_t)length};
    }
    cursor = base_cursor_of(message);
    while (status == LAKE_OK && base_cursor_left(&cursor) > 0) {
        uint32_t number, wire_type;
        bool good = base_cursor_tag(&cursor, &number, &wire_type);
        if (good && number == 2 && wire_type == 0)
            good = base_cursor_varint(&cursor, &file->row_count);
        else if (good)
            good = base_cursor_skip_field(&cursor, wire_type);
        if (!good)
            status = lake_fail(err, LAKE_DATA_LOSS, "the file's descriptor is broken");
    }
    base_free(read);
    return status;
}

/* ---- opening ---- */

static lake_status read_tail(struct lance_file *file, struct tail *tail, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (file->size_bytes == 0) {
        struct storage_object_info info;
        status = storage_stat(file->store, file->key, &info, err);
        if (status != LAKE_OK)
            return status;
        file->size_bytes = info.size_bytes;
    }
    if (file->size_bytes < FOOTER_BYTES)
        return lake_fail(err, LAKE_DATA_LOSS, "%llu bytes are too few for a Lance file",
                         (unsigned long long)file->size_bytes);
    size_t size = (size_t)BASE_MIN(file->size_bytes, (uint64_t)LANCE_TAIL_BYTES);
    tail->start = file->size_bytes - size;
    if (tail->data != NULL && tail->size == size)
        return LAKE_OK;
    base_free(tail->data);
    tail->size = size;
    tail->data = base_alloc(tail->size);
    if (tail->data == NULL)
        return base_fail_no_memory(err, tail->size);
    return storage_read_range(file->store, file->key, tail->start, tail->size, tail->data, err);
}

static lake_status parse_file(struct lance_file *file, struct tail *tail, struct lake_error *err)
{
    struct footer footer = {0};
    lake_status status = read_tail(file, tail, err);
    if (status == LAKE_OK)
        status = parse_footer(tail, &footer, err);
    if (status == LAKE_OK)
        status = check_footer(&footer, file->size_bytes, err);
    if (status != LAKE_OK)
        return status;
    file->major = footer.major;
    file->minor = footer.minor;
    uint64_t first = BASE_MIN(footer.columns_at, footer.column_table_at);
    status =
        extend_tail(file->store, file->key, BASE_MIN(first, footer.global_table_at), tail, err);
    if (status == LAKE_OK)
        status = parse_descriptor(file, &footer, tail, err);
    if (status == LAKE_OK)
        status = parse_columns(file, &footer, tail, err);
    return status;
}

lake_status lance_file_open(struct storage_store *store, struct lake_str key, uint64_t size_bytes,
                            struct lance_file **out, struct lake_error *err)
{
    struct lance_tail none = {NULL, 0};
    return lance_file_open_by(store, key, size_bytes, &none, out, err);
}

/* Opening a small file has read all of it, which a far store need not be asked for again. */
static void keep_whole(struct lance_file *file, struct tail *tail)
{
    if (tail->start > 0 || tail->size > LANCE_TAIL_BYTES || !storage_can_fetch(file->store))
        return;
    file->whole = tail->data;
    file->memory_bytes += tail->size;
    tail->data = NULL;
}

lake_status lance_file_read_range(struct lance_file *file, uint64_t offset, size_t size_bytes,
                                  uint8_t *out, struct lake_error *err)
{
    if (file->whole == NULL || size_bytes > file->size_bytes ||
        offset > file->size_bytes - size_bytes)
        return storage_read_range(file->store, file->key, offset, size_bytes, out, err);
    memcpy(out, file->whole + offset, size_bytes);
    return LAKE_OK;
}

lake_status lance_file_open_by(struct storage_store *store, struct lake_str key,
                               uint64_t size_bytes, struct lance_tail *given,
                               struct lance_file **out, struct lake_error *err)
{
    struct tail tail = {.data = given->data, .size = given->size};
    struct lance_file *file = base_calloc_array(1, sizeof(*file));
    *given = (struct lance_tail){NULL, 0};
    if (file == NULL) {
        base_free(tail.data);
        return base_fail_no_memory(err, sizeof(*file));
    }
    file->reference_count = 1;
    file->store = storage_store_ref(store);
    file->size_bytes = size_bytes;
    lake_status status = base_arena_new(MAX_ARENA_BYTES, &file->arena, err);
    if (status != LAKE_OK)
        goto out;
    file->key.data = base_arena_strndup(file->arena, key.data, key.size);
    file->key.size = key.size;
    if (file->key.data == NULL) {
        status = base_fail_no_memory(err, key.size);
        goto out;
    }
    file->memory_bytes = sizeof(*file) + ARENA_BYTES + key.size;
    status = parse_file(file, &tail, err);
    if (status == LAKE_OUT_OF_RANGE)
        status = lake_fail_wrap(err, LAKE_DATA_LOSS, "data file %.*s is shorter than was written",
                                LAKE_STR_FMT(key));
    else if (status != LAKE_OK)
        status = lake_fail_wrap(err, status, "data file %.*s cannot be opened", LAKE_STR_FMT(key));
    file->memory_bytes += file->column_count * sizeof(*file->columns);
    if (status == LAKE_OK)
        keep_whole(file, &tail);
out:
    base_free(tail.data);
    if (status == LAKE_OK)
        *out = file;
    else
        lance_file_unref(file);
    return status;
}

struct lance_file *lance_file_ref(struct lance_file *file)
{
    __atomic_fetch_add(&file->reference_count, 1, __ATOMIC_RELAXED);
    return file;
}

void lance_file_unref(struct lance_file *file)
{
    if (file == NULL || __atomic_sub_fetch(&file->reference_count, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (uint32_t i = 0; file->columns != NULL && i < file->column_count; i++) {
        lance_zones_free(file->columns[i].zones);
        lance_zone_collector_free(file->columns[i].collector);
    }
    storage_store_unref(file->store);
    base_arena_free(file->arena);
    base_free(file->whole);
    base_free(file);
}

/* ---- statistics ---- */

static lake_status read_zones(struct lance_file *file, const struct lance_file_column *column,
                              size_t size, struct lance_zones **out, struct lake_error *err)
{
    uint8_t *bytes = base_alloc(size);
    if (bytes == NULL)
        return base_fail_no_memory(err, size);
    lake_status status = lance_file_read_range(file, column->statistics_offset, size, bytes, err);
    if (status == LAKE_OK)
        status = lance_zones_parse((struct lake_bytes){bytes, size}, column->row_count, out, err);
    base_free(bytes);
    return status;
}

lake_status lance_file_zones(struct lance_file *file, uint32_t index,
                             const struct lance_zones **out, struct lake_error *err)
{
    struct lance_zones *zones = NULL, *there = NULL;
    *out = NULL;
    if (index >= file->column_count)
        return LAKE_OK;
    struct lance_file_column *column = &file->columns[index];
    *out = __atomic_load_n(&column->zones, __ATOMIC_ACQUIRE);
    size_t size = __atomic_load_n(&column->statistics_bytes, __ATOMIC_RELAXED);
    if (*out != NULL || size == 0)
        return LAKE_OK;
    lake_status status = read_zones(file, column, size, &zones, err);
    if (status == LAKE_UNIMPLEMENTED) { /* another's buffer */
        __atomic_store_n(&column->statistics_bytes, 0, __ATOMIC_RELAXED);
        return LAKE_OK;
    }
    if (status != LAKE_OK)
        return lake_fail_wrap(err, status, "column %u of data file %.*s", index,
                              LAKE_STR_FMT(file->key));
    if (!__atomic_compare_exchange_n(&column->zones, &there, zones, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        lance_zones_free(zones); /* another thread was first */
        zones = there;
    }
    *out = zones;
    return LAKE_OK;
}

uint64_t lance_file_row_count(const struct lance_file *file)
{
    return file->row_count;
}

size_t lance_file_memory_bytes(const struct lance_file *file)
{
    return file->memory_bytes;
}

uint32_t lance_file_column_count(const struct lance_file *file)
{
    return file->column_count;
}
