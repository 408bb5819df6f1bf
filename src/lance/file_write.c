/* The container of a data file being written: pages as they fill, then the metadata. */
#include "file_write.h"
#include "parallel.h"
#include "zones.h"

#include "lance_file.pb-c.h"
#include <string.h>

#define ALIGNMENT          64
#define MAX_METADATA_BYTES ((size_t)1 << 30)
#define DESCRIPTOR_ARENA   ((size_t)256 << 20)
#define PAGE_ROWS_SLICE    ((uint64_t)1 << 22) /* so that levels of empty rows stay bounded */
/* What all columns' unfinished pages may hold together, so that a wide table does not take more
 * memory than a narrow one; a page is not cut below MIN_PAGE_BYTES for it. */
#define GATHERED_BYTES ((uint64_t)64 << 20)
#define MIN_PAGE_BYTES ((uint64_t)256 << 10)
/* A page of numbers is some hundred thousand rows, whose memory stays in the caches of one core
 * while it is encoded; one of long values should still be a request worth making. */
#define NUMBER_PAGE_BYTES ((uint64_t)1 << 20)
#define OTHER_PAGE_BYTES  ((uint64_t)4 << 20)
#define PARALLEL_BYTES    ((uint64_t)1 << 20) /* of values: less is not worth waking a thread */
#define LARGE_BATCH       256 /* a batch of this part of a page's bytes, in rows, fills many */
#define STATISTICS_ROWS   256 /* fewer are read sooner than their statistics */
#define PAGE_TYPE_URL     "/lance.encodings21.PageLayout"
#define COLUMN_TYPE_URL   "/lance.encodings.ColumnEncoding"

struct column {
    struct lance_page_rows rows;
    struct lance_encode_options options;
    uint64_t page_bytes;             /* at which a page is full */
    struct lance_zone_builder zones; /* statistics; of no kind below structs and lists */
    struct base_buffer pages;        /* serialized ColumnMetadata.pages fields so far */
};

/* What one thread needs to encode pages, whichever column they are of. */
struct encoder {
    struct lance_compressor compressor;
    struct lance_encoded_page page;
};

struct lance_file_writer {
    /* Guards `out` and `position` while columns are encoded by several threads. The file is one
     * stream: whoever holds the lock writes a page to it, and the others have to wait for that
     * anyway. */
    pthread_mutex_t lock;
    struct storage_writer *out;
    uint64_t position;
    const struct lance_schema *schema; /* borrowed */
    struct lance_file_options options;
    uint64_t row_count;
    struct column *columns;
    size_t column_count;
    size_t ready_count; /* columns that are initialised */
    struct encoder encoders[LANCE_MAX_WORKERS];
};

/* ---- protobuf ---- */

static lake_status put_number(struct base_buffer *out, uint32_t field, uint64_t value,
                              struct lake_error *err)
{
    lake_status status = base_buffer_append_varint(out, (uint64_t)field << 3, err);
    return status != LAKE_OK ? status : base_buffer_append_varint(out, value, err);
}

static lake_status put_bytes(struct base_buffer *out, uint32_t field, const void *data, size_t size,
                             struct lake_error *err)
{
    lake_status status = base_buffer_append_varint(out, (uint64_t)field << 3 | 2, err);
    if (status == LAKE_OK)
        status = base_buffer_append_varint(out, size, err);
    return status != LAKE_OK ? status : base_buffer_append(out, data, size, err);
}

/* Encoding { direct { Any { type_url, value } } } as field `field`. */
static lake_status put_any(struct base_buffer *out, uint32_t field, const char *type_url,
                           struct lake_bytes value, struct lake_error *err)
{
    struct base_buffer any, direct, encoding;
    base_buffer_init(&any, MAX_METADATA_BYTES);
    base_buffer_init(&direct, MAX_METADATA_BYTES);
    base_buffer_init(&encoding, MAX_METADATA_BYTES);
    lake_status status = put_bytes(&any, 1, type_url, strlen(type_url), err);
    if (status == LAKE_OK)
        status = put_bytes(&any, 2, value.data, value.size, err);
    if (status == LAKE_OK)
        status = put_bytes(&direct, 1, any.data, any.size, err);
    if (status == LAKE_OK)
        status = put_bytes(&encoding, 2, direct.data, direct.size, err);
    if (status == LAKE_OK)
        status = put_bytes(out, field, encoding.data, encoding.size, err);
    base_buffer_fini(&encoding);
    base_buffer_fini(&direct);
    base_buffer_fini(&any);
    return status;
}

static lake_status put_packed(struct base_buffer *out, uint32_t field, const uint64_t *values,
                              size_t count, struct lake_error *err)
{
    struct base_buffer packed;
    lake_status status = LAKE_OK;
    if (count == 0)
        return LAKE_OK;
    base_buffer_init(&packed, MAX_METADATA_BYTES);
    for (size_t i = 0; status == LAKE_OK && i < count; i++)
        status = base_buffer_append_varint(&packed, values[i], err);
    if (status == LAKE_OK)
        status = put_bytes(out, field, packed.data, packed.size, err);
    base_buffer_fini(&packed);
    return status;
}

/* ---- bytes of the file ---- */

static lake_status put_file(struct lance_file_writer *writer, struct lake_bytes bytes,
                            struct lake_error *err)
{
    if (bytes.size == 0)
        return LAKE_OK;
    lake_status status = storage_writer_write(writer->out, bytes, err);
    if (status == LAKE_OK)
        writer->position += bytes.size;
    return status;
}

static lake_status align_file(struct lance_file_writer *writer, struct lake_error *err)
{
    static const uint8_t zeros[ALIGNMENT];
    uint64_t pad = BASE_ALIGN_UP(writer->position, (uint64_t)ALIGNMENT) - writer->position;
    return put_file(writer, (struct lake_bytes){zeros, (size_t)pad}, err);
}

static lake_status describe_page(struct column *column, const struct lance_encoded_page *encoded,
                                 const uint64_t *offsets, const uint64_t *sizes,
                                 struct lake_error *err)
{
    struct base_buffer page;
    base_buffer_init(&page, MAX_METADATA_BYTES);
    lake_status status = put_packed(&page, 1, offsets, encoded->buffer_count, err);
    if (status == LAKE_OK)
        status = put_packed(&page, 2, sizes, encoded->buffer_count, err);
    if (status == LAKE_OK)
        status = put_number(&page, 3, column->rows.row_count, err);
    if (status == LAKE_OK)
        status = put_any(&page, 4, PAGE_TYPE_URL, base_buffer_view(&encoded->layout), err);
    if (status == LAKE_OK && column->rows.first_row > 0)
        status = put_number(&page, 5, column->rows.first_row, err);
    if (status == LAKE_OK)
        status = put_bytes(&column->pages, 2, page.data, page.size, err);
    base_buffer_fini(&page);
    return status;
}

static lake_status put_page(struct lance_file_writer *writer, struct column *column,
                            const struct lance_encoded_page *page, struct lake_error *err)
{
    uint64_t offsets[LANCE_PAGE_BUFFERS], sizes[LANCE_PAGE_BUFFERS];
    lake_status status = LAKE_OK;
    (void)pthread_mutex_lock(&writer->lock);
    for (size_t i = 0; status == LAKE_OK && i < page->buffer_count; i++) {
        status = align_file(writer, err);
        offsets[i] = writer->position;
        sizes[i] = page->buffers[i].size;
        if (status == LAKE_OK)
            status = put_file(writer, base_buffer_view(&page->buffers[i]), err);
    }
    (void)pthread_mutex_unlock(&writer->lock);
    return status != LAKE_OK ? status : describe_page(column, page, offsets, sizes, err);
}

static lake_status flush_page(struct lance_file_writer *writer, struct column *column,
                              struct encoder *encoder, struct lake_error *err)
{
    if (column->rows.row_count == 0)
        return LAKE_OK;
    const uint16_t *def =
        column->rows.has_def ? (const uint16_t *)(const void *)column->rows.def.data : NULL;
    lake_status status = lance_zone_builder_add(&column->zones, &column->rows.values, def, err);
    if (status == LAKE_OK)
        status = lance_page_encode(&column->rows, &column->options, &encoder->compressor,
                                   &encoder->page, err);
    if (status == LAKE_OK)
        status = put_page(writer, column, &encoder->page, err);
    lance_page_rows_clear(&column->rows);
    return status;
}

/* ---- opening ---- */

static lake_status add_columns(struct lance_file_writer *writer, const struct lance_field *field,
                               struct lance_leaf_path *path, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    size_t layer = path->layer_count;
    if (layer == LANCE_MAX_LAYERS)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "field \"%s\" is nested deeper than %d",
                         field->name, LANCE_MAX_NESTING);
    if (field->kind == LANCE_NODE_FSL_STRUCT)
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "field \"%s\": fixed-size lists of structs cannot be written",
                         field->name);
    path->is_list[layer] = field->kind == LANCE_NODE_LIST || field->kind == LANCE_NODE_MAP;
    path->large_list[layer] = strcmp(field->arrow->format, "+L") == 0;
    path->has_required[layer] = false;
    for (size_t i = 0; !path->is_list[layer] && i < field->child_count; i++)
        path->has_required[layer] |= !field->children[i].nullable;
    path->layer_count++;
    if (field->kind == LANCE_NODE_LEAF) {
        struct column *column = &writer->columns[writer->ready_count];
        struct lake_error why = {.code = LAKE_OK};
        status = lance_page_rows_init(&column->rows, field, path, &why);
        if (status != LAKE_OK)
            return lake_fail(err, status, "field \"%s\" cannot be written: %s", field->name,
                             why.message);
        base_buffer_init(&column->pages, MAX_METADATA_BYTES);
        lance_encode_options_of(writer->options.profile, writer->options.minor, field,
                                &writer->schema->fields[path->field_index], &column->options);
        uint64_t share = BASE_MAX(GATHERED_BYTES / writer->column_count, MIN_PAGE_BYTES);
        column->page_bytes =
            BASE_MIN(share, column->rows.type.kind == LANCE_LEAF_FIXED ? NUMBER_PAGE_BYTES
                                                                       : OTHER_PAGE_BYTES);
        lance_zone_builder_init(&column->zones, &column->rows.type);
        if (path->layer_count > 1 || field->stored != LANCE_STORED_PLAIN)
            column->zones.kind = LANCE_ZONES_NONE;
        writer->ready_count++;
    }
    for (size_t i = 0;
         field->kind != LANCE_NODE_LEAF && status == LAKE_OK && i < field->child_count; i++) {
        path->child_index[layer] = i;
        status = add_columns(writer, &field->children[i], path, err);
    }
    path->layer_count--;
    return status;
}

static lake_status open_columns(struct lance_file_writer *writer, struct lake_error *err)
{
    const struct lance_schema *schema = writer->schema;
    for (size_t i = 0; i < schema->field_count; i++)
        writer->column_count += lance_field_leaf_count(&schema->fields[i]);
    writer->columns = base_calloc_array(writer->column_count + 1, sizeof(*writer->columns));
    if (writer->columns == NULL)
        return base_fail_no_memory(err, writer->column_count * sizeof(*writer->columns));
    for (size_t i = 0; i < schema->field_count; i++) {
        struct lance_leaf_path path = {.field_index = i};
        lake_status status = add_columns(writer, &schema->fields[i], &path, err);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

static void free_writer(struct lance_file_writer *writer)
{
    for (size_t i = 0; i < writer->ready_count; i++) {
        lance_page_rows_fini(&writer->columns[i].rows);
        lance_zone_builder_fini(&writer->columns[i].zones);
        base_buffer_fini(&writer->columns[i].pages);
    }
    base_free(writer->columns);
    for (size_t i = 0; i < LANCE_MAX_WORKERS; i++) {
        lance_encoded_page_fini(&writer->encoders[i].page);
        lance_compressor_fini(&writer->encoders[i].compressor);
    }
    (void)pthread_mutex_destroy(&writer->lock);
    base_free(writer);
}

lake_status lance_file_writer_new(struct storage_store *store, struct lake_str key,
                                  const struct lance_schema *schema,
                                  const struct lance_file_options *options,
                                  struct lance_file_writer **out, struct lake_error *err)
{
    if (options->minor != 1 && options->minor != 2)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "storage version 2.%u cannot be written: 2.1 and 2.2 can", options->minor);
    struct lance_file_writer *writer = base_calloc_array(1, sizeof(*writer));
    if (writer == NULL)
        return base_fail_no_memory(err, sizeof(*writer));
    if (pthread_mutex_init(&writer->lock, NULL) != 0) {
        base_free(writer);
        return lake_fail(err, LAKE_INTERNAL, "a mutex could not be made");
    }
    writer->schema = schema;
    writer->options = *options;
    for (size_t i = 0; i < LANCE_MAX_WORKERS; i++)
        lance_encoded_page_init(&writer->encoders[i].page);
    lake_status status = open_columns(writer, err);
    if (status == LAKE_OK)
        status = storage_writer_open(store, key, true, &writer->out, err);
    if (status == LAKE_OK)
        *out = writer;
    else
        free_writer(writer);
    return status;
}

/* ---- rows ---- */

static lake_status write_column(struct lance_file_writer *writer, struct column *column,
                                struct encoder *encoder, const struct ArrowArray *field,
                                uint64_t start, uint64_t count, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (count >= column->page_bytes / LARGE_BATCH)
        status = lance_page_rows_reserve(&column->rows, column->page_bytes, err);
    while (status == LAKE_OK && count > 0) {
        uint64_t have = lance_page_rows_bytes(&column->rows), take;
        if (column->rows.row_count > 0 &&
            (have >= column->page_bytes || column->rows.row_count >= PAGE_ROWS_SLICE ||
             lance_page_rows_must_flush(&column->rows, field))) {
            status = flush_page(writer, column, encoder, err);
            continue;
        }
        take =
            lance_page_rows_fitting(&column->rows, field, start, BASE_MIN(count, PAGE_ROWS_SLICE),
                                    column->page_bytes - BASE_MIN(have, column->page_bytes));
        status = lance_page_rows_append(&column->rows, field, start, take, err);
        start += take;
        count -= take;
    }
    return status;
}

struct batch_write {
    struct lance_file_writer *writer;
    const struct ArrowArray *batch;
};

static lake_status write_item(void *context, size_t index, size_t worker, struct lake_error *err)
{
    const struct batch_write *write = context;
    struct column *column = &write->writer->columns[index];
    const struct ArrowArray *field = write->batch->children[column->rows.path.field_index];
    return write_column(write->writer, column, &write->writer->encoders[worker], field,
                        (uint64_t)write->batch->offset, (uint64_t)write->batch->length, err);
}

lake_status lance_file_writer_write(struct lance_file_writer *writer,
                                    const struct ArrowArray *batch, struct lake_error *err)
{
    struct batch_write write = {writer, batch};
    uint64_t count = (uint64_t)batch->length, about;
    if (batch->n_children != (int64_t)writer->schema->field_count)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a batch of %lld columns, the table has %zu",
                         (long long)batch->n_children, writer->schema->field_count);
    bool large = !base_u64_mul(count, writer->column_count * sizeof(uint64_t), &about) ||
                 about >= PARALLEL_BYTES;
    lake_status status = lance_parallel(writer->column_count, large ? LANCE_MAX_WORKERS : 1,
                                        write_item, &write, err);
    if (status == LAKE_OK)
        writer->row_count += count;
    return status;
}

uint64_t lance_file_writer_row_count(const struct lance_file_writer *writer)
{
    return writer->row_count;
}

/* ---- the end of the file ---- */

static lake_status put_descriptor(struct lance_file_writer *writer, uint64_t *position,
                                  uint64_t *length, struct lake_error *err)
{
    struct base_arena *arena = NULL;
    LancePb__FileSchema schema = LANCE_PB__FILE_SCHEMA__INIT;
    LancePb__FileDescriptor descriptor = LANCE_PB__FILE_DESCRIPTOR__INIT;
    lake_status status = base_arena_new(DESCRIPTOR_ARENA, &arena, err);
    if (status == LAKE_OK)
        status =
            lance_schema_to_fields(writer->schema, arena, &schema.fields, &schema.n_fields, err);
    if (status == LAKE_OK)
        status = lance_schema_metadata_to_entries(writer->schema, arena, &schema.metadata,
                                                  &schema.n_metadata, err);
    if (status != LAKE_OK)
        goto out;
    descriptor.schema = &schema;
    descriptor.has_length = 1;
    descriptor.length = writer->row_count;
    size_t size = lance_pb__file_descriptor__get_packed_size(&descriptor);
    uint8_t *packed = base_arena_alloc(arena, size + 1);
    if (packed == NULL) {
        status = base_fail_no_memory(err, size);
        goto out;
    }
    (void)lance_pb__file_descriptor__pack(&descriptor, packed);
    status = align_file(writer, err);
    *position = writer->position;
    *length = size;
    if (status == LAKE_OK)
        status = put_file(writer, (struct lake_bytes){packed, size}, err);
out:
    base_arena_free(arena);
    return status;
}

/* Statistics as a buffer of the column, which other readers pass by; their place goes behind the
 * column's pages, into ColumnMetadata { …, buffer_offsets, buffer_sizes }. */
static lake_status put_statistics(struct lance_file_writer *writer, struct column *column,
                                  struct lake_error *err)
{
    struct base_buffer statistics;
    base_buffer_init(&statistics, MAX_METADATA_BYTES);
    lake_status status = lance_zone_builder_print(&column->zones, &statistics, err);
    if (status == LAKE_OK && statistics.size > 0) {
        uint64_t size = statistics.size;
        status = align_file(writer, err);
        if (status == LAKE_OK)
            status = put_packed(&column->pages, 3, &writer->position, 1, err);
        if (status == LAKE_OK)
            status = put_packed(&column->pages, 4, &size, 1, err);
        if (status == LAKE_OK)
            status = put_file(writer, base_buffer_view(&statistics), err);
    }
    base_buffer_fini(&statistics);
    return status;
}

/* ColumnMetadata { encoding, pages…, buffers } of one column; its place goes into the table. */
static lake_status put_column(struct lance_file_writer *writer, const struct column *column,
                              struct base_buffer *table, struct lake_error *err)
{
    static const uint8_t plain[2] = {0x0A, 0x00}; /* ColumnEncoding { 1: {} } */
    struct base_buffer message;
    uint64_t place[2] = {writer->position, 0};
    base_buffer_init(&message, MAX_METADATA_BYTES);
    lake_status status =
        put_any(&message, 1, COLUMN_TYPE_URL, (struct lake_bytes){plain, sizeof(plain)}, err);
    if (status == LAKE_OK)
        status = base_buffer_append(&message, column->pages.data, column->pages.size, err);
    place[1] = message.size;
    if (status == LAKE_OK)
        status = put_file(writer, base_buffer_view(&message), err);
    if (status == LAKE_OK)
        status = base_buffer_append(table, place, sizeof(place), err);
    base_buffer_fini(&message);
    return status;
}

static lake_status put_end(struct lance_file_writer *writer, struct lake_error *err)
{
    struct base_buffer table;
    uint64_t descriptor[2];
    uint8_t footer[40];
    base_buffer_init(&table, MAX_METADATA_BYTES);
    lake_status status = LAKE_OK;
    for (size_t i = 0;
         status == LAKE_OK && writer->row_count >= STATISTICS_ROWS && i < writer->column_count; i++)
        status = put_statistics(writer, &writer->columns[i], err);
    if (status == LAKE_OK)
        status = put_descriptor(writer, &descriptor[0], &descriptor[1], err);
    base_store_u64le(footer, writer->position);
    for (size_t i = 0; status == LAKE_OK && i < writer->column_count; i++)
        status = put_column(writer, &writer->columns[i], &table, err);
    base_store_u64le(footer + 8, writer->position);
    if (status == LAKE_OK)
        status = put_file(writer, base_buffer_view(&table), err);
    base_store_u64le(footer + 16, writer->position);
    if (status == LAKE_OK)
        status = put_file(
            writer, (struct lake_bytes){(const uint8_t *)descriptor, sizeof(descriptor)}, err);
    base_store_u32le(footer + 24, 1);
    base_store_u32le(footer + 28, (uint32_t)writer->column_count);
    base_store_u16le(footer + 32, 2);
    base_store_u16le(footer + 34, (uint16_t)writer->options.minor);
    memcpy(footer + 36, "LANC", 4);
    if (status == LAKE_OK)
        status = put_file(writer, (struct lake_bytes){footer, sizeof(footer)}, err);
    base_buffer_fini(&table);
    return status;
}

static lake_status make_result(const struct lance_file_writer *writer,
                               struct lance_file_result *out, struct lake_error *err)
{
    size_t count = writer->column_count, at = 0;
    int32_t *ids = base_calloc_array(count + 1, sizeof(*ids));
    int32_t *indices = base_calloc_array(count + 1, sizeof(*indices));
    if (ids == NULL || indices == NULL) {
        base_free(ids);
        base_free(indices);
        return base_fail_no_memory(err, count * sizeof(*ids));
    }
    for (size_t i = 0; i < writer->schema->field_count; i++) {
        const struct lance_field *field = &writer->schema->fields[i];
        lance_field_leaf_ids(field, ids + at);
        at += lance_field_leaf_count(field);
    }
    for (size_t i = 0; i < count; i++)
        indices[i] = (int32_t)i;
    *out = (struct lance_file_result){.row_count = writer->row_count,
                                      .size_bytes = writer->position,
                                      .field_ids = ids,
                                      .column_indices = indices,
                                      .column_count = count};
    return LAKE_OK;
}

static lake_status flush_item(void *context, size_t index, size_t worker, struct lake_error *err)
{
    struct lance_file_writer *writer = context;
    return flush_page(writer, &writer->columns[index], &writer->encoders[worker], err);
}

static lake_status flush_columns(struct lance_file_writer *writer, struct lake_error *err)
{
    uint64_t gathered = 0;
    for (size_t i = 0; i < writer->column_count; i++)
        gathered += lance_page_rows_bytes(&writer->columns[i].rows);
    return lance_parallel(writer->column_count, gathered >= PARALLEL_BYTES ? LANCE_MAX_WORKERS : 1,
                          flush_item, writer, err);
}

lake_status lance_file_writer_finish(struct lance_file_writer *writer,
                                     struct lance_file_result *out, struct lake_error *err)
{
    struct lance_file_result result = {0};
    lake_status status = flush_columns(writer, err);
    if (status == LAKE_OK)
        status = put_end(writer, err);
    if (status == LAKE_OK)
        status = make_result(writer, &result, err);
    if (status == LAKE_OK)
        status = storage_writer_commit(writer->out, err);
    else
        storage_writer_abort(writer->out);
    if (status == LAKE_OK)
        *out = result;
    else
        lance_file_result_fini(&result);
    free_writer(writer);
    return status;
}

void lance_file_writer_abort(struct lance_file_writer *writer)
{
    if (writer == NULL)
        return;
    storage_writer_abort(writer->out);
    free_writer(writer);
}

void lance_file_result_fini(struct lance_file_result *result)
{
    base_free(result->field_ids);
    base_free(result->column_indices);
    *result = (struct lance_file_result){0};
}
