/*
 * What the fuzz targets of Lance's data files share: a file in memory, a column of every kind, and
 * reading rows of it. Whatever the bytes are, reading ends in an error or in arrays that pass
 * Arrow's full validation.
 *
 * A page as input: u8 kind of column, u8 minor version (where the target lets it choose, 1 or 2:
 * odd, even), then the page: u16 rows, u8 number of buffers, u16 bytes of the layout, u32 bytes of
 * each buffer, the layout, the buffers. What follows is a second page, of the column below.
 */
#ifndef LANCE_FUZZ_H
#define LANCE_FUZZ_H

#include "file_read.h"

#include "lance_file.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_MAX_ROWS 4096

struct fuzz_memory {
    const uint8_t *data;
    size_t size;
};
static struct fuzz_memory fuzz_memory;
static struct storage_store *fuzz_store;
static struct lance_schema fuzz_schema;

static lake_status fuzz_stat(void *context, struct lake_str key, struct storage_object_info *out,
                             struct lake_error *err)
{
    (void)context;
    (void)key;
    (void)err;
    *out = (struct storage_object_info){.size_bytes = fuzz_memory.size};
    return LAKE_OK;
}

static lake_status fuzz_read_range(void *context, struct lake_str key, uint64_t offset,
                                   size_t size_bytes, uint8_t *out, struct lake_error *err)
{
    (void)context;
    (void)key;
    if (offset > fuzz_memory.size || size_bytes > fuzz_memory.size - offset)
        return lake_fail(err, LAKE_OUT_OF_RANGE, "beyond the end");
    memcpy(out, fuzz_memory.data + offset, size_bytes);
    return LAKE_OK;
}

static void fuzz_free(void *context)
{
    (void)context;
}

static inline void must(int code)
{
    if (code != 0)
        abort();
}

/* Kinds of columns that no Arrow schema asks for, as Lance's own fields. */
struct fuzz_field {
    const char *logical_type;
    int parent; /* index in the same list, or -1 */
    const char *key;
    const char *value;
};

/* The order of both lists is what seeds refer to: add at the end of the second. */
static const char *const fuzz_types[] = {"int32",
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
static const struct fuzz_field fuzz_fields[] = {
    {"struct", -1, "lance-encoding:packed", "true"}, /* fixed members only */
    {"int32", 0, NULL, NULL},
    {"fixed_size_binary:3", 0, NULL, NULL},
    {"struct", -1, "lance-encoding:packed", "true"}, /* a variable one and a vector with holes */
    {"float", 3, NULL, NULL},
    {"binary", 3, NULL, NULL},
    {"fixed_size_list:int16:3", 3, NULL, NULL},
    {"large_binary", -1, "lance-encoding:blob", "true"},
    {"struct", -1, "ARROW:extension:name", "lance.blob.v2"},
    {"json", -1, "ARROW:extension:name", "lance.json"},
    {"fixed_size_list:struct:2", -1, NULL, NULL},
    {"struct", 10, NULL, NULL},
    {"int32", 11, NULL, NULL},
    {"list", -1, NULL, NULL}, /* of packed rows */
    {"struct", 13, "lance-encoding:packed", "true"},
    {"int32", 14, NULL, NULL},
    {"binary", 14, NULL, NULL},
    {"null", -1, NULL, NULL},
    {"fixed_size_list:fixed_size_list:int8:2:3", -1, NULL, NULL},
};

static inline ProtobufCBinaryData fuzz_text(const char *text)
{
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
}

static LancePb__Field *fuzz_make_field(const struct fuzz_field *from, int32_t first, int32_t id,
                                       struct base_arena *arena)
{
    LancePb__Field *field = base_arena_calloc_array(arena, 1, sizeof(*field));
    LancePb__BytesEntry *entry = base_arena_calloc_array(arena, 1, sizeof(*entry));
    LancePb__BytesEntry **entries = base_arena_calloc_array(arena, 1, sizeof(*entries));
    char *name = base_arena_calloc_array(arena, 16, 1);
    must(field == NULL || entry == NULL || entries == NULL || name == NULL);
    (void)snprintf(name, 16, "f%d", (int)id);
    lance_pb__field__init(field);
    lance_pb__bytes_entry__init(entry);
    field->has_name = field->has_logical_type = field->has_id = field->has_parent_id = true;
    field->has_nullable = field->nullable = true;
    field->name = fuzz_text(name);
    field->logical_type = fuzz_text(from->logical_type);
    field->id = id;
    field->parent_id = from->parent < 0 ? -1 : first + from->parent;
    if (from->key != NULL) {
        entry->has_key = entry->has_value = true;
        entry->key = fuzz_text(from->key);
        entry->value = fuzz_text(from->value);
        entries[0] = entry;
        field->metadata = entries;
        field->n_metadata = 1;
    }
    return field;
}

static inline void fuzz_make_schema(void)
{
    struct lake_error err = {0};
    struct lance_schema plain;
    struct ArrowSchema arrow;
    struct base_arena *arena = NULL;
    LancePb__Field **fields = NULL;
    size_t count = 0;
    ArrowSchemaInit(&arrow);
    must(ArrowSchemaSetTypeStruct(&arrow, (int64_t)BASE_ARRAY_LEN(fuzz_types)));
    for (size_t i = 0; i < BASE_ARRAY_LEN(fuzz_types); i++) {
        char name[16];
        ArrowSchemaRelease(arrow.children[i]);
        must((int)arrow_type_parse(base_str_of(fuzz_types[i]), "c", arrow.children[i], &err));
        (void)snprintf(name, sizeof(name), "c%zu", i);
        must(ArrowSchemaSetName(arrow.children[i], name));
    }
    must((int)lance_schema_from_arrow(&arrow, "2.2", &plain, &err));
    must((int)base_arena_new((size_t)64 << 20, &arena, &err));
    must((int)lance_schema_to_fields(&plain, arena, &fields, &count, &err));
    int32_t first = plain.max_field_id + 1;
    for (size_t i = 0; i < BASE_ARRAY_LEN(fuzz_fields); i++)
        fields[count++] = fuzz_make_field(&fuzz_fields[i], first, first + (int32_t)i, arena);
    must((int)lance_schema_from_fields(fields, count, NULL, 0, &fuzz_schema, &err));
    ArrowSchemaRelease(&arrow);
    lance_schema_fini(&plain);
    base_arena_free(arena);
}

static inline void fuzz_set_up(const uint8_t *data, size_t size)
{
    static const struct storage_methods methods = {
        .stat = fuzz_stat, .read_range = fuzz_read_range, .free = fuzz_free};
    static const uint8_t nothing[1];
    if (fuzz_store == NULL) {
        struct lake_error err = {0};
        must((int)storage_store_new(&methods, NULL, "memory:", &fuzz_store, &err));
        fuzz_make_schema();
    }
    fuzz_memory = (struct fuzz_memory){size == 0 ? nothing : data, size};
}

/* A reader answers for what can be read, not for the digits of a decimal or the hours of a day:
 * such columns are seen as bytes and numbers of their width. */
static inline void fuzz_forget_meaning(struct ArrowSchema *type)
{
    const char *format = type->format;
    const char *plain = strncmp(format, "d:", 2) == 0     ? "w:16"
                        : strncmp(format, "tt", 2) != 0   ? NULL
                        : strchr("sm", format[2]) != NULL ? "i"
                                                          : "l";
    if (plain != NULL)
        must(ArrowSchemaSetFormat(type, plain));
    for (int64_t i = 0; i < type->n_children; i++)
        fuzz_forget_meaning(type->children[i]);
    if (type->dictionary != NULL)
        fuzz_forget_meaning(type->dictionary);
}

static inline void fuzz_check_array(const struct ArrowSchema *type, struct ArrowArray *array)
{
    struct lake_error err = {0};
    if (arrow_array_validate(type, array, &err) != LAKE_OK) {
        (void)fprintf(stderr, "%s: %s\n", type->format, err.message);
        abort();
    }
    array->release(array);
}

/* Every node of the field's tree is read from the column that stands at its place in pre-order, or
 * from the last one. Returns what became of reading all rows. */
static inline lake_status fuzz_read_field(struct lance_file *file, const struct lance_field *field,
                                          uint32_t first, bool descriptions)
{
    struct lake_error err = {0};
    struct lance_field_reader *reader = NULL;
    struct lance_column_source sources[16];
    struct ArrowSchema type = {.release = NULL};
    struct ArrowArray array;
    size_t nodes = lance_field_node_count(field);
    must(nodes > BASE_ARRAY_LEN(sources));
    for (size_t i = 0; i < nodes; i++) {
        uint32_t column = (uint32_t)BASE_MIN(first + i, file->column_count - 1);
        sources[i] = (struct lance_column_source){file, (int32_t)column};
    }
    uint64_t rows = BASE_MIN(file->columns[first].row_count, (uint64_t)FUZZ_MAX_ROWS);
    if (field->kind == LANCE_NODE_FSL_STRUCT)
        rows /= 2; /* its columns have a row for each of its two items */
    lake_status status = lance_field_reader_new(field, sources, descriptions, NULL, &reader, &err);
    if (status != LAKE_OK)
        return status;
    must(descriptions ? (int)lance_field_description_type(field, &type, &err)
                      : ArrowSchemaDeepCopy(field->arrow, &type));
    fuzz_forget_meaning(&type);
    status = lance_field_reader_read(reader, 0, rows, &array, &err);
    if (status == LAKE_OK)
        fuzz_check_array(&type, &array);
    for (uint64_t row = 0; row < rows; row += rows / 3 + 1)
        if (lance_field_reader_read(reader, row, (rows - row + 1) / 2, &array, &err) == LAKE_OK)
            fuzz_check_array(&type, &array);
    lance_field_reader_free(reader);
    type.release(&type);
    return status;
}

struct fuzz_page {
    struct lance_file_page page;
    uint64_t offsets[LANCE_MAX_PAGE_BUFFERS];
    uint64_t sizes[LANCE_MAX_PAGE_BUFFERS];
};

static inline bool fuzz_parse_page(struct base_cursor *cursor, struct fuzz_page *out)
{
    uint16_t rows = 0, layout_bytes = 0;
    uint8_t buffers = 0;
    uint32_t size;
    struct lake_bytes buffer;
    if (!base_cursor_u16le(cursor, &rows) || !base_cursor_u8(cursor, &buffers) ||
        !base_cursor_u16le(cursor, &layout_bytes) || buffers > LANCE_MAX_PAGE_BUFFERS)
        return false;
    for (uint8_t i = 0; i < buffers; i++) {
        if (!base_cursor_u32le(cursor, &size))
            return false;
        out->sizes[i] = size;
    }
    out->page = (struct lance_file_page){
        .row_count = rows, .buffer_count = buffers, .offsets = out->offsets, .sizes = out->sizes};
    if (!base_cursor_take(cursor, layout_bytes, &out->page.layout))
        return false;
    for (uint8_t i = 0; i < buffers; i++) {
        out->offsets[i] = cursor->position;
        if (!base_cursor_take(cursor, (size_t)out->sizes[i], &buffer))
            return false;
    }
    return true;
}

/* A page of any layout (`layout` 0), or of one whose body the input gives. `minor` 3: the input
 * says 1 or 2. */
static inline void fuzz_read_pages(const uint8_t *data, size_t size, uint32_t layout,
                                   uint32_t minor)
{
    fuzz_set_up(data, size);
    struct base_cursor cursor = base_cursor_of((struct lake_bytes){fuzz_memory.data, size});
    struct fuzz_page pages[2];
    struct base_buffer wrapped;
    uint8_t kind = 0, odd = 0;
    uint32_t count = 0;
    if (!base_cursor_u8(&cursor, &kind) || !base_cursor_u8(&cursor, &odd))
        return;
    while (count < 2 && base_cursor_left(&cursor) > 0 && fuzz_parse_page(&cursor, &pages[count]))
        count++;
    if (count == 0)
        return;
    base_buffer_init(&wrapped, 1U << 20);
    if (layout != 0) {
        struct lake_bytes body = pages[0].page.layout;
        must((int)base_buffer_append_varint(&wrapped, layout << 3 | 2, NULL));
        must((int)base_buffer_append_varint(&wrapped, body.size, NULL));
        must((int)base_buffer_append(&wrapped, body.data, body.size, NULL));
        pages[0].page.layout = base_buffer_view(&wrapped);
    }
    struct lance_file_column columns[2];
    for (uint32_t i = 0; i < count; i++)
        columns[i] = (struct lance_file_column){
            .pages = &pages[i].page, .page_count = 1, .row_count = pages[i].page.row_count};
    struct lance_file file = {.reference_count = 2,
                              .store = fuzz_store,
                              .key = LAKE_STR("f"),
                              .size_bytes = size,
                              .major = 2,
                              .minor = minor != 3     ? minor
                                       : odd % 2 == 0 ? 2
                                                      : 1,
                              .row_count = pages[0].page.row_count,
                              .columns = columns,
                              .column_count = count};
    (void)fuzz_read_field(&file, &fuzz_schema.fields[kind % fuzz_schema.field_count], 0, odd > 127);
    base_buffer_fini(&wrapped);
}

#endif
