/* libs: lance */
/*
 * One page from outside, read under every kind of column. Whatever the bytes are, reading ends in
 * an error or in arrays that pass Arrow's full validation.
 *
 * Input: u8 kind of column, u8 minor version (even: 2, odd: 1), u16 rows, u8 number of buffers, u16
 * bytes of the layout, u32 bytes of each buffer, the layout, the buffers. An input that ends with
 * "LANC" is also opened as a whole data file.
 */
#include "file_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory_file {
    const uint8_t *data;
    size_t size;
};
static struct memory_file memory_file;
static struct storage_store *store;
static struct lance_schema schema;

static lake_status memory_stat(void *context, struct lake_str key, struct storage_object_info *out,
                               struct lake_error *err)
{
    (void)context;
    (void)key;
    (void)err;
    *out = (struct storage_object_info){.size_bytes = memory_file.size};
    return LAKE_OK;
}

static lake_status memory_read(void *context, struct lake_str key, uint64_t offset,
                               size_t size_bytes, uint8_t *out, struct lake_error *err)
{
    (void)context;
    (void)key;
    if (offset > memory_file.size || size_bytes > memory_file.size - offset)
        return lake_fail(err, LAKE_OUT_OF_RANGE, "beyond the end");
    memcpy(out, memory_file.data + offset, size_bytes);
    return LAKE_OK;
}

static void memory_free(void *context)
{
    (void)context;
}

static void must(int code)
{
    if (code != 0)
        abort();
}

/* The order is what seeds refer to: add at the end. */
static void set_up(void)
{
    static const struct storage_methods methods = {
        .stat = memory_stat, .read_range = memory_read, .free = memory_free};
    static const char *const types[] = {"int32",
                                        "int64",
                                        "bool",
                                        "binary",
                                        "large_binary",
                                        "float[3]",
                                        "list<int32>",
                                        "list<list<binary>>",
                                        "float",
                                        "struct<a: int32>",
                                        "list<struct<a: int16>>",
                                        "decimal(20,4)",
                                        "dictionary<int32, binary>",
                                        "uint8",
                                        "bool[5]"};
    struct lake_error err = {0};
    struct ArrowSchema arrow;
    must((int)storage_store_new(&methods, NULL, "memory:", &store, &err));
    ArrowSchemaInit(&arrow);
    must(ArrowSchemaSetTypeStruct(&arrow, (int64_t)BASE_ARRAY_LEN(types)));
    for (size_t i = 0; i < BASE_ARRAY_LEN(types); i++) {
        ArrowSchemaRelease(arrow.children[i]);
        must((int)arrow_type_parse(base_str_of(types[i]), "c", arrow.children[i], &err));
        char name[16];
        (void)snprintf(name, sizeof(name), "c%zu", i);
        must(ArrowSchemaSetName(arrow.children[i], name));
    }
    must((int)lance_schema_from_arrow(&arrow, "2.2", &schema, &err));
    ArrowSchemaRelease(&arrow);
}

static void check_array(const struct lance_field *field, struct ArrowArray *array)
{
    struct lake_error err = {0};
    if (arrow_array_validate(field->arrow, array, &err) != LAKE_OK) {
        (void)fprintf(stderr, "%s: %s\n", field->arrow->format, err.message);
        abort();
    }
    array->release(array);
}

static void read_field(struct lance_file *file, const struct lance_field *field, int32_t column)
{
    struct lake_error err = {0};
    struct lance_field_reader *reader = NULL;
    struct ArrowArray array;
    struct lance_column_source sources[4];
    for (size_t i = 0; i < BASE_ARRAY_LEN(sources); i++)
        sources[i] = (struct lance_column_source){file, column};
    uint64_t rows = file->columns[column].row_count;
    rows = rows > 4096 ? 4096 : rows;
    if (lance_field_reader_new(field, sources, false, NULL, &reader, &err) != LAKE_OK)
        return;
    if (lance_field_reader_read(reader, 0, rows, &array, &err) == LAKE_OK)
        check_array(field, &array);
    for (uint64_t row = 0; row < rows; row += rows / 3 + 1)
        if (lance_field_reader_read(reader, row, (rows - row + 1) / 2, &array, &err) == LAKE_OK)
            check_array(field, &array);
    lance_field_reader_free(reader);
}

static void read_whole_file(void)
{
    struct lake_error err = {0};
    struct lance_file *file = NULL;
    if (lance_file_open(store, LAKE_STR("f"), 0, &file, &err) != LAKE_OK)
        return;
    for (uint32_t i = 0; i < lance_file_column_count(file) && i < 4; i++)
        for (size_t k = 0; k < schema.field_count; k++)
            read_field(file, &schema.fields[k], (int32_t)i);
    lance_file_unref(file);
}

static void read_page(const uint8_t *data, size_t size)
{
    struct base_cursor cursor = base_cursor_of((struct lake_bytes){data, size});
    uint8_t kind = 0, minor = 0, buffers = 0;
    uint16_t rows = 0, layout_bytes = 0;
    uint32_t sizes[LANCE_MAX_PAGE_BUFFERS];
    uint64_t offsets[LANCE_MAX_PAGE_BUFFERS], wide[LANCE_MAX_PAGE_BUFFERS];
    struct lake_bytes layout, buffer;
    if (!base_cursor_u8(&cursor, &kind) || !base_cursor_u8(&cursor, &minor) ||
        !base_cursor_u16le(&cursor, &rows) || !base_cursor_u8(&cursor, &buffers) ||
        !base_cursor_u16le(&cursor, &layout_bytes) || buffers > LANCE_MAX_PAGE_BUFFERS)
        return;
    for (uint8_t i = 0; i < buffers; i++)
        if (!base_cursor_u32le(&cursor, &sizes[i]))
            return;
    if (!base_cursor_take(&cursor, layout_bytes, &layout))
        return;
    for (uint8_t i = 0; i < buffers; i++) {
        offsets[i] = cursor.position;
        wide[i] = sizes[i];
        if (!base_cursor_take(&cursor, sizes[i], &buffer))
            return;
    }
    struct lance_file_page page = {.row_count = rows,
                                   .buffer_count = buffers,
                                   .offsets = offsets,
                                   .sizes = wide,
                                   .layout = layout};
    struct lance_file_column column = {.pages = &page, .page_count = 1, .row_count = rows};
    struct lance_file file = {.reference_count = 2,
                              .store = store,
                              .key = LAKE_STR("f"),
                              .size_bytes = size,
                              .major = 2,
                              .minor = minor % 2 == 0 ? 2 : 1,
                              .row_count = rows,
                              .columns = &column,
                              .column_count = 1};
    read_field(&file, &schema.fields[kind % schema.field_count], 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t nothing[1];
    if (store == NULL)
        set_up();
    memory_file = (struct memory_file){size == 0 ? nothing : data, size};
    read_page(memory_file.data, size);
    if (size >= 4 && memcmp(data + size - 4, "LANC", 4) == 0)
        read_whole_file();
    return 0;
}
