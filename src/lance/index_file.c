/*
 * An index, opened: the schema of its files, and the small table that says where values are, which
 * is decoded once and kept with the opened index in the cache.
 */
#include "file_read.h"
#include "index.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_TABLE_BYTES  ((size_t)64 << 20)
#define MAX_TABLE_ROWS   (UINT64_C(1) << 20)
#define MAX_SCHEMA_BYTES ((size_t)1 << 20)
#define SLICE_ROWS       4096
#define MAX_PAGE_ROWS    (UINT64_C(1) << 20)

struct layout {
    int32_t newest_version;
    const char *table;
    const char *pages; /* NULL: none */
    struct {
        const char *name;   /* NULL: not there */
        const char *format; /* NULL: that of the values */
    } columns[LANCE_INDEX_COLUMNS];
};

static const struct layout layouts[] = {
    [LANCE_INDEX_BTREE] = {.newest_version = 1,
                           .table = "page_lookup.lance",
                           .pages = "page_data.lance",
                           .columns = {[LANCE_INDEX_LOW] = {"min", NULL},
                                       [LANCE_INDEX_HIGH] = {"max", NULL},
                                       [LANCE_INDEX_NULLS] = {"null_count", "I"},
                                       [LANCE_INDEX_PAGE] = {"page_idx", "I"}}},
    [LANCE_INDEX_BITMAP] = {.newest_version = 0,
                            .table = "bitmap_page_lookup.lance",
                            .columns = {[LANCE_INDEX_LOW] = {"keys", NULL}}},
    [LANCE_INDEX_ZONE_MAP] = {.newest_version = 0,
                              .table = "zonemap.lance",
                              .columns = {[LANCE_INDEX_LOW] = {"min", NULL},
                                          [LANCE_INDEX_HIGH] = {"max", NULL},
                                          [LANCE_INDEX_NULLS] = {"null_count", "I"},
                                          [LANCE_INDEX_NANS] = {"nan_count", "I"},
                                          [LANCE_INDEX_FRAGMENT] = {"fragment_id", "L"},
                                          [LANCE_INDEX_START] = {"zone_start", "L"},
                                          [LANCE_INDEX_LENGTH] = {"zone_length", "L"}}},
};

/* ---- files ---- */

static void file_fini(struct lance_index_file *file)
{
    if (file->schema.arena != NULL) {
        lance_schema_fini(&file->schema);
    }
    lance_file_unref(file->file);
}

static lake_status read_schema(struct lance_file *file, struct lance_schema *out,
                               struct lake_error *err)
{
    struct base_arena *arena = NULL;
    LancePb__FileDescriptor *descriptor = NULL;
    uint8_t *bytes = NULL;
    size_t size = file->descriptor_bytes;
    if (size > MAX_SCHEMA_BYTES) {
        return lake_fail(err, LAKE_DATA_LOSS, "the schema of an index has %zu bytes", size);
    }
    lake_status status = base_arena_new(16 * MAX_SCHEMA_BYTES, &arena, err);
    if (status == LAKE_OK) {
        bytes = base_arena_alloc(arena, size + 1);
        status = bytes == NULL ? base_fail_no_memory(err, size)
                               : storage_read_range(file->store, file->key, file->descriptor_offset,
                                                    size, bytes, err);
    }
    if (status == LAKE_OK) {
        ProtobufCAllocator allocator = lance_pb_allocator(arena);
        descriptor = lance_pb__file_descriptor__unpack(&allocator, size, bytes);
        if (descriptor == NULL && base_arena_out_of_memory(arena)) {
            status = base_fail_no_memory(err, size);
        } else if (descriptor == NULL || descriptor->schema == NULL) {
            status = lake_fail(err, LAKE_DATA_LOSS, "an index does not say what its columns are");
        }
    }
    if (status == LAKE_OK) {
        const LancePb__FileSchema *schema = descriptor->schema;
        status = lance_schema_from_fields(schema->fields, schema->n_fields, schema->metadata,
                                          schema->n_metadata, out, err);
    }
    base_arena_free(arena);
    return status;
}

/* Only leaves, so that fields and columns go side by side. */
static lake_status open_file(struct storage_store *store, const char *directory, const char *name,
                             const LancePb__IndexMetadata *entry, struct lance_index_file *out,
                             struct lake_error *err)
{
    char key[STORAGE_MAX_KEY_BYTES + 1];
    uint64_t size = 0; /* not known */
    int length = snprintf(key, sizeof(key), "%s/%s", directory, name);
    if (length < 0 || (size_t)length >= sizeof(key)) {
        return lake_fail(err, LAKE_DATA_LOSS, "an index lies at no valid path");
    }
    for (size_t i = 0; i < entry->n_files; i++) {
        if (base_str_equal_c(lance_pb_str(entry->files[i]->path), name)) {
            size = entry->files[i]->size_bytes;
        }
    }
    lake_status status = lance_file_open(store, base_str_of(key), size, &out->file, err);
    if (status == LAKE_OK) {
        status = read_schema(out->file, &out->schema, err);
    }
    bool plain = status == LAKE_OK && out->schema.field_count == out->file->column_count;
    for (size_t i = 0; plain && i < out->schema.field_count; i++) {
        plain = out->schema.fields[i].kind == LANCE_NODE_LEAF &&
                out->schema.fields[i].stored == LANCE_STORED_PLAIN &&
                out->file->columns[i].row_count == out->file->row_count;
    }
    return status != LAKE_OK || plain
               ? status
               : lake_fail(err, LAKE_UNIMPLEMENTED, "%s has other columns than are known", key);
}

static const struct lance_field *find_field(const struct lance_index_file *file, const char *name,
                                            uint32_t *column)
{
    for (size_t i = 0; i < file->schema.field_count; i++) {
        if (strcmp(file->schema.fields[i].name, name) == 0) {
            *column = (uint32_t)i;
            return &file->schema.fields[i];
        }
    }
    return NULL;
}

lake_status lance_index_reader_new(const struct lance_index_file *file, const char *name,
                                   const char *format, struct lance_read_counters *counters,
                                   struct lance_field_reader **out, struct lake_error *err)
{
    uint32_t column = 0;
    const struct lance_field *field = find_field(file, name, &column);
    if (field == NULL || field->arrow->dictionary != NULL ||
        strcmp(field->arrow->format, format) != 0) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "%.*s has no column %s, or one of another type than %s",
                         LAKE_STR_FMT(file->file->key), name, format);
    }
    struct lance_column_source source = {file->file, (int32_t)column};
    return lance_field_reader_new(field, &source, false, counters, out, err);
}

/* A number in the metadata of a file's schema; `otherwise` when it is not there. */
static uint64_t number_of(const struct lance_index_file *file, const char *key, uint64_t otherwise)
{
    uint64_t number = otherwise;
    for (size_t i = 0; i < file->schema.metadata_count; i++) {
        if (strcmp(file->schema.metadata[i].key, key) == 0 &&
            !base_str_to_u64(base_str_of(file->schema.metadata[i].value), &number)) {
            number = 0;
        }
    }
    return number;
}

/* ---- the table ---- */

static const char *format_of(const struct lance_index *index, size_t column)
{
    const char *format = layouts[index->kind].columns[column].format;
    return format == NULL ? index->values->format : format;
}

static size_t array_bytes(const char *format, const struct ArrowArray *array)
{
    size_t bytes = (size_t)array->length * 17; /* no fixed width is larger than a decimal's */
    if (strchr("uz", format[0]) != NULL && array->buffers[1] != NULL) {
        bytes += (size_t)((const int32_t *)array->buffers[1])[array->length];
    } else if (strchr("UZ", format[0]) != NULL && array->buffers[1] != NULL) {
        bytes += (size_t)((const int64_t *)array->buffers[1])[array->length];
    }
    return bytes;
}

static lake_status make_readers(const struct lance_index *index,
                                struct lance_read_counters *counters,
                                struct lance_field_reader *readers[LANCE_INDEX_COLUMNS],
                                struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t c = 0; c < LANCE_INDEX_COLUMNS && status == LAKE_OK; c++) {
        const char *name = layouts[index->kind].columns[c].name;
        if (name != NULL) {
            status = lance_index_reader_new(&index->table, name, format_of(index, c), counters,
                                            &readers[c], err);
        }
    }
    return status;
}

static lake_status read_slice(struct lance_index *index,
                              struct lance_field_reader *const readers[LANCE_INDEX_COLUMNS],
                              uint64_t start, struct lake_error *err)
{
    struct lance_index_slice *slice = &index->slices[index->slice_count++];
    lake_status status = LAKE_OK;
    slice->row_count = BASE_MIN(index->table.file->row_count - start, (uint64_t)SLICE_ROWS);
    for (size_t c = 0; c < LANCE_INDEX_COLUMNS && status == LAKE_OK; c++) {
        if (readers[c] == NULL) {
            continue;
        }
        status =
            lance_field_reader_read(readers[c], start, slice->row_count, &slice->columns[c], err);
        if (status == LAKE_OK) {
            index->memory_bytes += array_bytes(format_of(index, c), &slice->columns[c]);
        }
    }
    if (status == LAKE_OK && index->memory_bytes > MAX_TABLE_BYTES) {
        status = lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "%.*s is larger than %zu bytes",
                           LAKE_STR_FMT(index->table.file->key), MAX_TABLE_BYTES);
    }
    return status;
}

static lake_status read_table(struct lance_index *index, struct lance_read_counters *counters,
                              struct lake_error *err)
{
    struct lance_field_reader *readers[LANCE_INDEX_COLUMNS] = {NULL};
    uint64_t row_count = index->table.file->row_count;
    if (row_count > MAX_TABLE_ROWS) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "%.*s has %" PRIu64 " rows",
                         LAKE_STR_FMT(index->table.file->key), row_count);
    }
    lake_status status = make_readers(index, counters, readers, err);
    index->slices = base_calloc_array((size_t)row_count / SLICE_ROWS + 1, sizeof(*index->slices));
    if (status == LAKE_OK && index->slices == NULL) {
        status = base_fail_no_memory(err, (size_t)row_count);
    }
    for (uint64_t start = 0; start < row_count && status == LAKE_OK; start += SLICE_ROWS) {
        status = read_slice(index, readers, start, err);
    }
    for (size_t c = 0; c < LANCE_INDEX_COLUMNS; c++) {
        lance_field_reader_free(readers[c]);
    }
    return status;
}

/* ---- the whole ---- */

static lake_status open_pages(struct lance_index *index, struct storage_store *store,
                              const char *key, const LancePb__IndexMetadata *entry,
                              struct lake_error *err)
{
    const struct lance_schema *schema = &index->table.schema;
    for (size_t i = 0; i < schema->metadata_count; i++) {
        if (strcmp(schema->metadata[i].key, "range_partitioned") == 0 &&
            strcmp(schema->metadata[i].value, "false") != 0) {
            return lake_fail(err, LAKE_UNIMPLEMENTED, "an index at %s is partitioned", key);
        }
    }
    index->page_rows = number_of(&index->table, "batch_size", 4096);
    if (index->page_rows == 0 || index->page_rows > MAX_PAGE_ROWS) {
        return lake_fail(err, LAKE_DATA_LOSS, "an index at %s has pages of no valid size", key);
    }
    return open_file(store, key, layouts[index->kind].pages, entry, &index->pages, err);
}

lake_status lance_index_open(struct storage_store *store, const char *key,
                             const LancePb__IndexMetadata *entry,
                             struct lance_read_counters *counters, struct lance_index **out,
                             struct lake_error *err)
{
    enum lance_index_kind kind = lance_index_kind_of(entry);
    if (kind == LANCE_INDEX_OTHER || entry->index_version > layouts[kind].newest_version) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "an index at %s is of a kind or version (%" PRId32 ") that is not known",
                         key, entry->index_version);
    }
    struct lance_index *index = base_calloc_array(1, sizeof(*index));
    if (index == NULL) {
        return base_fail_no_memory(err, sizeof(*index));
    }
    atomic_init(&index->references, 1);
    index->kind = kind;
    index->memory_bytes = sizeof(*index);
    lake_status status = open_file(store, key, layouts[kind].table, entry, &index->table, err);
    if (status == LAKE_OK) {
        uint32_t column;
        const char *name = layouts[kind].columns[LANCE_INDEX_LOW].name;
        const struct lance_field *field = find_field(&index->table, name, &column);
        index->values = field == NULL ? NULL : field->arrow;
        if (field == NULL || field->arrow->dictionary != NULL) {
            status = lake_fail(err, LAKE_UNIMPLEMENTED, "an index at %s has no plain values", key);
        }
    }
    if (status == LAKE_OK && layouts[kind].pages != NULL) {
        status = open_pages(index, store, key, entry, err);
    }
    if (status == LAKE_OK) {
        status = read_table(index, counters, err);
    }
    if (status != LAKE_OK) {
        lance_index_unref(index);
        return status;
    }
    index->memory_bytes += lance_file_memory_bytes(index->table.file);
    if (index->pages.file != NULL) {
        index->memory_bytes += lance_file_memory_bytes(index->pages.file);
    }
    *out = index;
    return LAKE_OK;
}

struct lance_index *lance_index_ref(struct lance_index *index)
{
    atomic_fetch_add_explicit(&index->references, 1, memory_order_relaxed);
    return index;
}

void lance_index_unref(struct lance_index *index)
{
    if (index == NULL ||
        atomic_fetch_sub_explicit(&index->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < index->slice_count; i++) {
        for (size_t c = 0; c < LANCE_INDEX_COLUMNS; c++) {
            if (index->slices[i].columns[c].release != NULL) {
                index->slices[i].columns[c].release(&index->slices[i].columns[c]);
            }
        }
    }
    base_free(index->slices);
    file_fini(&index->table);
    file_fini(&index->pages);
    base_free(index);
}

lake_status lance_index_ask(const struct lance_index *index,
                            const struct lance_index_question *question, struct lance_row_set *out,
                            struct lake_error *err)
{
    switch (index->kind) {
    case LANCE_INDEX_BTREE:
        return lance_index_ask_btree(index, question, out, err);
    case LANCE_INDEX_BITMAP:
        return lance_index_ask_bitmap(index, question, out, err);
    case LANCE_INDEX_ZONE_MAP:
        return lance_index_ask_zone_map(index, question, out, err);
    case LANCE_INDEX_OTHER:
        break;
    }
    return lake_fail(err, LAKE_INTERNAL, "an index of no known kind was opened");
}
