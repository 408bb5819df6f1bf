/*
 * insert and insert_many (SDK-3): every row is checked before the first upload, all files are
 * uploaded before the append, and all rows are one batch and one version.
 */
#include "append.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

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

/* ---- rows to one batch ---- */

struct rows {
    const struct client_insert *insert;
    const struct client_schema *table;
    const struct ArrowSchema *schema; /* the table's */
    const struct lake_value *values;
    size_t row_count;
    int64_t *places; /* for each column of the schema its place in a row's values, or -1 */
};

/* As SQL compares names; a table has no two columns that differ in case only. */
static bool same_name(struct lake_str a, const char *b)
{
    return strlen(b) == a.size && strncasecmp(a.data, b, a.size) == 0;
}

static lake_status find_places(struct rows *rows, struct lake_error *err)
{
    const struct client_insert *insert = rows->insert;
    for (int64_t c = 0; c < rows->schema->n_children; c++)
        rows->places[c] = -1;
    for (size_t i = 0; i < insert->column_count; i++) {
        int64_t c = 0;
        while (c < rows->schema->n_children &&
               !same_name(insert->columns[i], rows->schema->children[c]->name))
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

/* What all rows come to, and what the inserted files will. */
struct sums {
    size_t file_count;
    uint64_t given_bytes;
    uint64_t location_bytes;
};

static lake_status too_much(const char *what, struct lake_error *err)
{
    return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                     "the %s of one insert are limited to %llu bytes: insert fewer rows at a time, "
                     "or use lake_append_batches",
                     what, (unsigned long long)CLIENT_MAX_METADATA_BYTES);
}

static lake_status check_path(const char *path, struct lake_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return base_fail_errno(err, errno, "cannot open %s", path);
    if (!S_ISREG(info.st_mode))
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "%s is not a regular file: give its bytes through a source", path);
    return LAKE_OK;
}

static lake_status check_value(lake_client *client, const struct ArrowSchema *field,
                               const struct lake_value *value, struct sums *sums,
                               struct lake_error *err)
{
    struct storage_store *stage;
    struct lake_str key;
    lake_status status = client_value_check(field, value, err);
    if (status != LAKE_OK)
        return status;
    if (client_value_is_file(value)) {
        bool path = value->kind == LAKE_VALUE_FILE_PATH;
        sums->file_count++;
        sums->location_bytes += client_location_bytes(
            client, path ? value->as.file_path.media_type : value->as.file_source.media_type);
        status = client_stage(client, &stage, err);
        if (status == LAKE_OK && path)
            status = check_path(value->as.file_path.path, err);
    } else if (value->kind == LAKE_VALUE_LOCATION && client->stage_uri != NULL) {
        status = client_location_key(client, value->as.location, &key, err);
    }
    sums->given_bytes += client_value_bytes(value);
    if (status == LAKE_OK && sums->given_bytes > CLIENT_MAX_METADATA_BYTES)
        status = too_much("values", err);
    if (status == LAKE_OK && sums->location_bytes > CLIENT_MAX_METADATA_BYTES)
        status = too_much("locations", err);
    return status;
}

/* Everything that can be known before the first upload. */
static lake_status check_rows(lake_client *client, const struct rows *rows, struct sums *sums,
                              struct lake_error *err)
{
    for (size_t r = 0; r < rows->row_count; r++) {
        for (int64_t c = 0; c < rows->schema->n_children; c++) {
            const struct ArrowSchema *field = rows->schema->children[c];
            lake_status status = check_value(client, field, value_at(rows, r, c), sums, err);
            if (status != LAKE_OK)
                return at_place(err, status, r, base_str_of(field->name));
        }
    }
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
        }
    }
    return LAKE_OK;
}

/* After a failure without doubt: no row will ever refer to what was uploaded for it. */
static void remove_uploads(lake_client *client, struct lake_insert_result *result)
{
    struct storage_store *stage;
    struct lake_str key;
    for (size_t i = 0; i < result->location_count; i++) {
        if (client_stage(client, &stage, NULL) == LAKE_OK &&
            client_location_key(client, &result->locations[i], &key, NULL) == LAKE_OK)
            (void)storage_remove(stage, key, NULL);
    }
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

/* ---- the append ---- */

static lake_status insert_rows(lake_client *client, struct rows *rows,
                               struct lake_insert_result *result, struct lake_error *err)
{
    struct arrow_batch *batch = NULL;
    struct sums sums = {0};
    rows->places = base_calloc_array((size_t)rows->schema->n_children + 1, sizeof(*rows->places));
    if (rows->places == NULL)
        return base_fail_no_memory(err, (size_t)rows->schema->n_children * sizeof(*rows->places));
    lake_status status = find_places(rows, err);
    if (status == LAKE_OK)
        status = check_rows(client, rows, &sums, err);
    if (status == LAKE_OK)
        status = upload_files(client, rows, sums.file_count, result, err);
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
        memcpy(append.incarnation, rows->table->incarnation, sizeof(append.incarnation));
        status = client_append_commit(client, &append, NULL, result, err);
    }
    if (status != LAKE_OK && status != LAKE_OUTCOME_UNKNOWN)
        remove_uploads(client, result);
    arrow_batch_unref(batch);
    base_free(rows->places);
    return status;
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
        struct rows rows = {&insert, schema, &schema->arrow, values, row_count, NULL};
        status = insert_rows(client, &rows, &filled, err);
    }
    client_schema_unref(schema);
    client_insert_fini(&insert);
    client_append_hand_over(&filled, status, result);
    return status;
}

lake_status lake_insert(lake_client *client, const char *sql, const struct lake_value *values,
                        size_t value_count, struct lake_insert_result *result,
                        struct lake_error *err)
{
    return lake_insert_many(client, sql, values, 1, value_count, result, err);
}
