/*
 * insert, insert_many and append_batches (SDK-3, SDK-4): every row is checked before the first
 * upload, all files are uploaded before the append, and all rows are one batch and one version.
 */
#include "append.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

void lake_insert_result_fini(struct lake_insert_result *result)
{
    for (size_t i = 0; i < result->location_count; i++)
        lake_data_location_fini(&result->locations[i]);
    base_free(result->locations);
    *result = (struct lake_insert_result){0};
}

/* Rewrites the message in place with where it happened. */
static lake_status at_place(struct lake_error *err, lake_status status, size_t row,
                            struct lake_str column)
{
    char detail[LAKE_ERROR_MESSAGE_BYTES];
    snprintf(detail, sizeof(detail), "%s", err == NULL ? "" : err->message);
    return lake_fail(err, status, "row %zu, column %.*s: %s", row + 1, LAKE_STR_FMT(column),
                     detail);
}

/* ---- rows to one batch
 * ------------------------------------------------------------------------------ */

struct rows {
    const struct client_insert *insert;
    const struct ArrowSchema *schema;
    const struct lake_value *values;
    size_t row_count;
    int64_t *places; /* for each column of the schema its place in a row's values, or -1 */
};

static lake_status find_places(struct rows *rows, struct lake_error *err)
{
    const struct client_insert *insert = rows->insert;
    for (int64_t c = 0; c < rows->schema->n_children; c++)
        rows->places[c] = -1;
    for (size_t i = 0; i < insert->column_count; i++) {
        int64_t c = 0;
        while (c < rows->schema->n_children &&
               !base_str_equal_c(insert->columns[i], rows->schema->children[c]->name))
            c++;
        if (c == rows->schema->n_children)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "the table %.*s.%.*s has no column %.*s",
                             LAKE_STR_FMT(insert->namespace_name), LAKE_STR_FMT(insert->table),
                             LAKE_STR_FMT(insert->columns[i]));
        if (rows->places[c] >= 0)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "the column %.*s is named twice",
                             LAKE_STR_FMT(insert->columns[i]));
        rows->places[c] = (int64_t)i;
    }
    for (int64_t c = 0; c < rows->schema->n_children; c++) {
        const struct ArrowSchema *field = rows->schema->children[c];
        if (rows->places[c] < 0 && (field->flags & ARROW_FLAG_NULLABLE) == 0)
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "the column %s takes no nulls and must be named", field->name);
    }
    return LAKE_OK;
}

static const struct lake_value *value_at(const struct rows *rows, size_t row, int64_t column)
{
    static const struct lake_value null_value = {.kind = LAKE_VALUE_NULL};
    int64_t place = rows->places[column];
    return place < 0 ? &null_value
                     : &rows->values[row * rows->insert->column_count + (size_t)place];
}

static lake_status check_rows(const struct rows *rows, size_t *file_count, struct lake_error *err)
{
    size_t files = 0;
    for (size_t r = 0; r < rows->row_count; r++) {
        for (int64_t c = 0; c < rows->schema->n_children; c++) {
            const struct ArrowSchema *field = rows->schema->children[c];
            const struct lake_value *value = value_at(rows, r, c);
            lake_status status = client_value_check(field, value, err);
            if (status != LAKE_OK)
                return at_place(err, status, r, base_str_of(field->name));
            files += client_value_is_file(value);
        }
    }
    *file_count = files;
    return LAKE_OK;
}

static lake_status upload_value(lake_client *client, const struct lake_value *value,
                                struct lake_data_location *out, struct lake_error *err)
{
    if (value->kind == LAKE_VALUE_FILE_PATH)
        return lake_upload_path(client, value->as.file_path.path, value->as.file_path.media_type,
                                value->as.file_path.progress, value->as.file_path.progress_context,
                                out, err);
    return lake_upload_source(client, value->as.file_source.source,
                              value->as.file_source.media_type, value->as.file_source.progress,
                              value->as.file_source.progress_context, out, err);
}

/* In the order of the statement: row by row, left to right. */
static lake_status upload_files(lake_client *client, const struct rows *rows, size_t file_count,
                                struct lake_insert_result *result, struct lake_error *err)
{
    result->locations = base_calloc_array(file_count + 1, sizeof(*result->locations));
    if (result->locations == NULL)
        return base_fail_no_memory(err, file_count * sizeof(*result->locations));
    uint64_t bytes = 0;
    for (size_t r = 0; r < rows->row_count; r++) {
        for (size_t i = 0; i < rows->insert->column_count; i++) {
            const struct lake_value *value = &rows->values[r * rows->insert->column_count + i];
            if (!client_value_is_file(value))
                continue;
            struct lake_data_location *location = &result->locations[result->location_count];
            lake_status status = upload_value(client, value, location, err);
            if (status != LAKE_OK)
                return at_place(err, status, r, rows->insert->columns[i]);
            result->location_count++;
            bytes += strlen(location->uri) + strlen(location->media_type) + sizeof(*location);
            if (bytes > CLIENT_MAX_METADATA_BYTES)
                return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                                 "the locations of one insert are limited to %llu bytes: insert "
                                 "fewer rows at a time",
                                 (unsigned long long)CLIENT_MAX_METADATA_BYTES);
        }
    }
    return LAKE_OK;
}

/* Which uploaded location the value at statement place `place` of row `row` became. */
static const struct lake_data_location *location_of(const struct rows *rows,
                                                    const struct lake_insert_result *result,
                                                    const size_t *first_of_row, size_t row,
                                                    int64_t column)
{
    const struct lake_value *value = value_at(rows, row, column);
    if (value->kind == LAKE_VALUE_LOCATION)
        return value->as.location;
    if (!client_value_is_file(value))
        return NULL;
    size_t index = first_of_row[row];
    for (size_t i = 0; i < (size_t)rows->places[column]; i++)
        index += client_value_is_file(&rows->values[row * rows->insert->column_count + i]);
    return &result->locations[index];
}

static lake_status append_rows(const struct rows *rows, const struct lake_insert_result *result,
                               struct ArrowArray *array, struct lake_error *err)
{
    size_t *first_of_row = base_calloc_array(rows->row_count + 1, sizeof(*first_of_row));
    lake_status status = LAKE_OK;
    if (first_of_row == NULL)
        return base_fail_no_memory(err, rows->row_count * sizeof(*first_of_row));
    size_t width = rows->insert->column_count;
    for (size_t i = 0; i < rows->row_count * width; i++)
        first_of_row[i / width + 1] += client_value_is_file(&rows->values[i]);
    for (size_t r = 1; r <= rows->row_count; r++)
        first_of_row[r] += first_of_row[r - 1];
    for (size_t r = 0; r < rows->row_count && status == LAKE_OK; r++) {
        for (int64_t c = 0; c < rows->schema->n_children && status == LAKE_OK; c++) {
            status = client_value_append(rows->schema->children[c], array->children[c],
                                         value_at(rows, r, c),
                                         location_of(rows, result, first_of_row, r, c), err);
            if (status != LAKE_OK)
                status = at_place(err, status, r, base_str_of(rows->schema->children[c]->name));
        }
        if (status == LAKE_OK && ArrowArrayFinishElement(array) != NANOARROW_OK)
            status = base_fail_no_memory(err, 64);
    }
    base_free(first_of_row);
    return status;
}

static lake_status build_batch(const struct rows *rows, const struct lake_insert_result *result,
                               struct arrow_batch **out, struct lake_error *err)
{
    struct ArrowArray array = {0};
    if (ArrowArrayInitFromSchema(&array, rows->schema, NULL) != NANOARROW_OK ||
        ArrowArrayStartAppending(&array) != NANOARROW_OK) {
        if (array.release != NULL)
            array.release(&array);
        return base_fail_no_memory(err, sizeof(array));
    }
    lake_status status = append_rows(rows, result, &array, err);
    if (status == LAKE_OK && ArrowArrayFinishBuildingDefault(&array, NULL) != NANOARROW_OK)
        status = base_fail_no_memory(err, sizeof(array));
    if (status != LAKE_OK) {
        array.release(&array);
        return status;
    }
    return arrow_batch_new(&array, out, err);
}

/* ---- the limits of an append, and the append
 * ------------------------------------------------------------- */

static lake_status check_size(const struct ArrowSchema *schema, struct arrow_batch **batches,
                              size_t batch_count, struct lake_error *err)
{
    struct arrow_ipc_encoder *encoder = NULL;
    uint64_t total = 0;
    lake_status status = arrow_ipc_encoder_new(schema, &encoder, err);
    for (size_t i = 0; i < batch_count && status == LAKE_OK; i++) {
        uint64_t bytes = 0;
        status = arrow_ipc_batch_bytes(encoder, batches[i], &bytes, err);
        if (status == LAKE_OK &&
            (!base_u64_add(total, bytes, &total) || total > CLIENT_MAX_APPEND_BYTES))
            status =
                lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                          "the rows are more than %llu bytes encoded, the limit of one append: "
                          "append fewer rows at a time",
                          (unsigned long long)CLIENT_MAX_APPEND_BYTES);
    }
    arrow_ipc_encoder_free(encoder);
    return status;
}

static lake_status use_operation_id(const char *given, char out[LAKE_OPERATION_ID_BYTES],
                                    struct lake_error *err)
{
    struct base_uuid uuid;
    if (given == NULL) {
        lake_status status = base_uuid7_new(&uuid, err);
        if (status != LAKE_OK)
            return status;
    } else if (!base_uuid_parse(base_str_of(given), &uuid) || base_uuid_version(&uuid) != 7) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the operation ID '%s' is not a UUIDv7",
                         given);
    }
    base_uuid_format(&uuid, out);
    return LAKE_OK;
}

static lake_status run_append(lake_client *client, struct client_append *append,
                              const char *operation_id, struct lake_insert_result *result,
                              struct lake_error *err)
{
    lake_status status = check_size(append->schema, append->batches, append->batch_count, err);
    if (status == LAKE_OK)
        status = use_operation_id(operation_id, result->operation_id, err);
    append->operation_id = result->operation_id;
    if (status == LAKE_OK)
        status = client_append_run(client, append, result, err);
    return status;
}

static lake_status insert_rows(lake_client *client, struct rows *rows,
                               struct lake_insert_result *result, struct lake_error *err)
{
    struct arrow_batch *batch = NULL;
    size_t file_count = 0;
    rows->places = base_calloc_array((size_t)rows->schema->n_children + 1, sizeof(*rows->places));
    if (rows->places == NULL)
        return base_fail_no_memory(err, (size_t)rows->schema->n_children * sizeof(*rows->places));
    lake_status status = find_places(rows, err);
    if (status == LAKE_OK)
        status = check_rows(rows, &file_count, err);
    if (status == LAKE_OK)
        status = upload_files(client, rows, file_count, result, err);
    if (status == LAKE_OK)
        status = build_batch(rows, result, &batch, err);
    if (status == LAKE_OK) {
        struct client_append append = {
            .namespace_name = rows->insert->namespace_name,
            .table = rows->insert->table,
            .schema = rows->schema,
            .batches = &batch,
            .batch_count = 1,
        };
        status = run_append(client, &append, NULL, result, err);
    }
    arrow_batch_unref(batch);
    base_free(rows->places);
    return status;
}

/* Gives the result out, or drops it: only the operation ID is left to a caller that must retry. */
static void hand_over(struct lake_insert_result *from, lake_status status,
                      struct lake_insert_result *to)
{
    if (to != NULL && status == LAKE_OK) {
        *to = *from;
        return;
    }
    lake_insert_result_fini(from);
}

lake_status lake_insert_many(lake_client *client, const char *sql, const struct lake_value *values,
                             size_t row_count, size_t values_per_row,
                             struct lake_insert_result *result, struct lake_error *err)
{
    struct client_insert insert = {0};
    struct client_schema *schema = NULL;
    struct lake_insert_result filled = LAKE_INSERT_RESULT_INIT;
    lake_error_clear(err);
    if (row_count < 1 || row_count > CLIENT_MAX_APPEND_ROWS)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "one insert takes 1 to %d rows, not %zu",
                         CLIENT_MAX_APPEND_ROWS, row_count);
    lake_status status = client_insert_parse(sql, &insert, err);
    if (status == LAKE_OK && insert.column_count != values_per_row)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "the statement has %zu columns, but %zu values were given for a row",
                           insert.column_count, values_per_row);
    if (status == LAKE_OK)
        status = client_table_schema(client, insert.namespace_name, insert.table, &schema, err);
    if (status == LAKE_OK) {
        struct rows rows = {&insert, &schema->arrow, values, row_count, NULL};
        status = insert_rows(client, &rows, &filled, err);
    }
    client_schema_unref(schema);
    client_insert_fini(&insert);
    hand_over(&filled, status, result);
    return status;
}

lake_status lake_insert(lake_client *client, const char *sql, const struct lake_value *values,
                        size_t value_count, struct lake_insert_result *result,
                        struct lake_error *err)
{
    return lake_insert_many(client, sql, values, 1, value_count, result, err);
}

/* ---- append_batches
 * --------------------------------------------------------------------------------------- */

/* Copies a caller's array: the transport may hold buffers a little longer than the call lasts,
 * which the caller's memory need not. Counts what it copies against the limit (SDK-4). */
static lake_status copy_array(const struct ArrowArrayView *from, struct ArrowArray *to,
                              uint64_t *copied_bytes, struct lake_error *err)
{
    for (int64_t i = 0; i < to->n_buffers; i++) {
        struct ArrowBufferView view = from->buffer_views[i];
        *copied_bytes += (uint64_t)BASE_MAX(view.size_bytes, 0);
        if (*copied_bytes > CLIENT_MAX_APPEND_BYTES)
            return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                             "the batches hold more than %llu bytes, the limit of one append: "
                             "append fewer rows at a time",
                             (unsigned long long)CLIENT_MAX_APPEND_BYTES);
        if (view.data.data == NULL || view.size_bytes <= 0)
            continue;
        if (i == 0 && from->layout.buffer_type[0] == NANOARROW_BUFFER_TYPE_VALIDITY)
            ArrowArrayValidityBitmap(to)->size_bits = view.size_bytes * 8;
        if (ArrowBufferAppend(ArrowArrayBuffer(to, i), view.data.data, view.size_bytes) !=
            NANOARROW_OK)
            return base_fail_no_memory(err, (size_t)view.size_bytes);
    }
    to->length = from->length;
    to->offset = from->offset;
    to->null_count = from->null_count;
    lake_status status = LAKE_OK;
    for (int64_t i = 0; i < to->n_children && status == LAKE_OK; i++)
        status = copy_array(from->children[i], to->children[i], copied_bytes, err);
    if (status == LAKE_OK && to->dictionary != NULL)
        status = copy_array(from->dictionary, to->dictionary, copied_bytes, err);
    return status;
}

static lake_status copy_batch(const struct ArrowSchema *schema, const struct ArrowArray *array,
                              uint64_t *copied_bytes, struct arrow_batch **out,
                              struct lake_error *err)
{
    struct ArrowArrayView view;
    struct ArrowArray copy = {0};
    lake_status status = LAKE_OK;
    ArrowArrayViewInitFromType(&view, NANOARROW_TYPE_UNINITIALIZED);
    if (ArrowArrayViewInitFromSchema(&view, schema, NULL) != NANOARROW_OK ||
        ArrowArrayViewSetArray(&view, array, NULL) != NANOARROW_OK ||
        ArrowArrayInitFromSchema(&copy, schema, NULL) != NANOARROW_OK)
        status =
            lake_fail(err, LAKE_INVALID_ARGUMENT, "the batch does not have its schema's shape");
    if (status == LAKE_OK)
        status = copy_array(&view, &copy, copied_bytes, err);
    if (status == LAKE_OK &&
        ArrowArrayFinishBuilding(&copy, NANOARROW_VALIDATION_LEVEL_NONE, NULL) != NANOARROW_OK)
        status =
            lake_fail(err, LAKE_INVALID_ARGUMENT, "the batch does not have its schema's shape");
    ArrowArrayViewReset(&view);
    if (status != LAKE_OK) {
        if (copy.release != NULL)
            copy.release(&copy);
        return status;
    }
    return arrow_batch_new(&copy, out, err);
}

static lake_status copy_batches(const struct ArrowArray *const *batches, size_t batch_count,
                                const struct ArrowSchema *schema, struct arrow_batch **out,
                                struct lake_error *err)
{
    int64_t rows = 0;
    uint64_t copied_bytes = 0;
    for (size_t i = 0; i < batch_count; i++) {
        if (batches[i] == NULL || batches[i]->release == NULL || batches[i]->length <= 0)
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "batch %zu is empty or released: every batch needs a row", i + 1);
        rows += BASE_MIN(batches[i]->length, (int64_t)CLIENT_MAX_APPEND_ROWS + 1);
        if (rows > CLIENT_MAX_APPEND_ROWS)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "one append takes 1 to %d rows: split it",
                             CLIENT_MAX_APPEND_ROWS);
        lake_status status = arrow_array_validate(schema, batches[i], err);
        if (status == LAKE_OK)
            status = copy_batch(schema, batches[i], &copied_bytes, &out[i], err);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

static lake_status count_dictionaries(const struct ArrowSchema *schema, size_t depth, size_t *count,
                                      struct lake_error *err)
{
    if (depth > 64)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the schema nests deeper than 64 levels");
    if (schema->dictionary != NULL && ++*count > CLIENT_MAX_DICTIONARY_NODES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the schema has more than %d dictionary columns",
                         CLIENT_MAX_DICTIONARY_NODES);
    lake_status status = LAKE_OK;
    if (schema->dictionary != NULL)
        status = count_dictionaries(schema->dictionary, depth + 1, count, err);
    for (int64_t i = 0; i < schema->n_children && status == LAKE_OK; i++)
        status = count_dictionaries(schema->children[i], depth + 1, count, err);
    return status;
}

static lake_status check_schema(lake_client *client, const struct client_append *append,
                                struct lake_error *err)
{
    struct client_schema *registered = NULL;
    char path[256] = "";
    size_t dictionaries = 0;
    lake_status status = count_dictionaries(append->schema, 0, &dictionaries, err);
    if (status == LAKE_OK)
        status =
            client_table_schema(client, append->namespace_name, append->table, &registered, err);
    if (status == LAKE_OK &&
        !arrow_schema_equal(&registered->arrow, append->schema, path, sizeof(path)))
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "the batches' schema is not the table's: they differ at '%s'", path);
    client_schema_unref(registered);
    return status;
}

lake_status lake_append_batches(lake_client *client, const char *table,
                                const struct ArrowSchema *schema,
                                const struct ArrowArray *const *batches, size_t batch_count,
                                const char *operation_id, struct lake_insert_result *result,
                                struct lake_error *err)
{
    struct client_append append = {.schema = schema, .batch_count = batch_count};
    struct lake_insert_result filled = LAKE_INSERT_RESULT_INIT;
    lake_error_clear(err);
    if (batch_count < 1 || batch_count > CLIENT_MAX_APPEND_ROWS)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "one append takes 1 to %d batches, not %zu",
                         CLIENT_MAX_APPEND_ROWS, batch_count);
    lake_status status = client_split_name(table, &append.namespace_name, &append.table, err);
    if (status == LAKE_OK)
        status = check_schema(client, &append, err);
    if (status != LAKE_OK)
        return status;
    append.batches = base_calloc_array(batch_count, sizeof(struct arrow_batch *));
    if (append.batches == NULL)
        return base_fail_no_memory(err, batch_count * sizeof(struct arrow_batch *));
    status = copy_batches(batches, batch_count, schema, append.batches, err);
    if (status == LAKE_OK)
        status = run_append(client, &append, operation_id, &filled, err);
    for (size_t i = 0; i < batch_count; i++)
        arrow_batch_unref(append.batches[i]);
    base_free(append.batches);
    hand_over(&filled, status, result);
    return status;
}
