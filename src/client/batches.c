/*
 * append_batches (SDK-4): the caller's Arrow batches, exactly of the table's schema but for views
 * of text and bytes, checked and then encoded straight from the caller's memory.
 */
#include "append.h"

#include <string.h>

/* ---- how much the rows refer to ---- */

static lake_status add_bytes(uint64_t *total, uint64_t bytes, struct lake_error *err)
{
    if (base_u64_add(*total, bytes, total) && *total <= CLIENT_MAX_APPEND_BYTES)
        return LAKE_OK;
    return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                     "the batches hold more than %llu bytes, the limit of one append: append fewer "
                     "rows at a time",
                     (unsigned long long)CLIENT_MAX_APPEND_BYTES);
}

static int64_t offset_at(const struct ArrowArray *array, int64_t bits, int64_t slot)
{
    return bits == 32 ? ((const int32_t *)array->buffers[1])[slot]
                      : ((const int64_t *)array->buffers[1])[slot];
}

static lake_status count_array(const struct ArrowSchema *field, const struct ArrowArray *array,
                               int64_t from, int64_t length, uint64_t *total,
                               struct lake_error *err);

/* Which rows of its children a range of slots refers to; of views and unions all of them. */
static lake_status count_children(const struct ArrowSchema *field, const struct ArrowArray *array,
                                  const struct ArrowSchemaView *view, int64_t slot, int64_t length,
                                  uint64_t *total, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (int64_t i = 0; i < array->n_children && status == LAKE_OK; i++) {
        const struct ArrowArray *child = array->children[i];
        int64_t from = 0;
        int64_t count = child->length;
        int64_t bits = view->layout.element_size_bits[1];
        if (view->type == NANOARROW_TYPE_STRUCT) {
            from = slot;
            count = length;
        } else if (view->type == NANOARROW_TYPE_FIXED_SIZE_LIST) {
            from = slot * view->fixed_size;
            count = length * view->fixed_size;
        } else if (view->layout.buffer_type[1] == NANOARROW_BUFFER_TYPE_DATA_OFFSET && length > 0) {
            from = offset_at(array, bits, slot);
            count = offset_at(array, bits, slot + length) - from;
        }
        status = count_array(field->children[i], child, from, count, total, err);
    }
    return status;
}

/* Bytes of the buffers that rows [from, from + length) of a valid array refer to. A large array
 * that a small slice was cut from does not count. */
static lake_status count_array(const struct ArrowSchema *field, const struct ArrowArray *array,
                               int64_t from, int64_t length, uint64_t *total,
                               struct lake_error *err)
{
    struct ArrowSchemaView view;
    int64_t slot = array->offset + from;
    if (ArrowSchemaViewInit(&view, field, NULL) != NANOARROW_OK)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the schema of the batches is malformed");
    lake_status status = LAKE_OK;
    for (int i = 0; i < NANOARROW_MAX_FIXED_BUFFERS && status == LAKE_OK; i++) {
        enum ArrowBufferType type = view.layout.buffer_type[i];
        uint64_t bits = (uint64_t)view.layout.element_size_bits[i];
        uint64_t count = (uint64_t)length;
        if (type == NANOARROW_BUFFER_TYPE_NONE || i >= array->n_buffers ||
            array->buffers[i] == NULL)
            continue;
        if (type == NANOARROW_BUFFER_TYPE_DATA_OFFSET)
            count++;
        if (type == NANOARROW_BUFFER_TYPE_DATA && bits == 0 && length > 0) {
            uint64_t start = (uint64_t)offset_at(array, view.layout.element_size_bits[1], slot);
            count =
                (uint64_t)offset_at(array, view.layout.element_size_bits[1], slot + length) - start;
            bits = 8;
        }
        status = add_bytes(total, (count * bits + 7) / 8, err);
    }
    if (status == LAKE_OK)
        status = count_children(field, array, &view, slot, length, total, err);
    if (status == LAKE_OK && array->dictionary != NULL)
        status = count_array(field->dictionary, array->dictionary, 0, array->dictionary->length,
                             total, err);
    return status;
}

/* ---- borrowing a batch ---- */

static void release_nothing(struct ArrowArray *array)
{
    array->release = NULL;
}

/* The caller's array, which stays the caller's. */
static struct ArrowArray borrow(const struct ArrowArray *array)
{
    struct ArrowArray borrowed = *array;
    borrowed.release = release_nothing;
    borrowed.private_data = NULL;
    return borrowed;
}

/* A row of a table is there or not; it is never null. */
static bool has_null_rows(const struct ArrowArray *batch)
{
    return batch->null_count != 0 && batch->n_buffers > 0 && batch->buffers[0] != NULL &&
           ArrowBitCountSet(batch->buffers[0], batch->offset, batch->length) != batch->length;
}

/* What the batches come to. */
struct sums {
    int64_t rows;
    uint64_t bytes;
    uint64_t left_plain_bytes; /* what their views may still refer to */
};

/* A batch over the caller's array, which was checked; with text and bytes where that has views. */
static lake_status take_batch(const struct ArrowArray *batch, const struct ArrowSchema *given,
                              const struct ArrowSchema *schema, struct sums *sums,
                              struct arrow_batch **out, struct lake_error *err)
{
    struct ArrowArray rows = borrow(batch);
    lake_status status = LAKE_OK;
    if (given != schema)
        status = arrow_plain_array(given, schema, &rows, &sums->left_plain_bytes, err);
    if (status != LAKE_OK)
        return status;
    status = count_array(schema, &rows, 0, rows.length, &sums->bytes, err);
    if (status == LAKE_OK)
        return arrow_batch_new(&rows, out, err);
    rows.release(&rows);
    return status;
}

static lake_status take_batches(const struct ArrowArray *const *batches,
                                const struct ArrowSchema *given, struct client_append *append,
                                struct lake_error *err)
{
    struct sums sums = {.left_plain_bytes = CLIENT_MAX_APPEND_BYTES};
    for (size_t i = 0; i < append->batch_count; i++) {
        const struct ArrowArray *batch = batches[i];
        if (batch == NULL || batch->release == NULL || batch->length <= 0)
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "batch %zu is empty or released: every batch needs a row", i + 1);
        sums.rows += BASE_MIN(batch->length, (int64_t)CLIENT_MAX_APPEND_ROWS + 1);
        if (sums.rows > CLIENT_MAX_APPEND_ROWS)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "one append takes 1 to %d rows: split it",
                             CLIENT_MAX_APPEND_ROWS);
        lake_status status = arrow_array_validate(given, batch, err);
        if (status == LAKE_OK && has_null_rows(batch))
            status =
                lake_fail(err, LAKE_INVALID_ARGUMENT,
                          "batch %zu has rows that are null as a whole: leave them out", i + 1);
        if (status == LAKE_OK)
            status = take_batch(batch, given, append->schema, &sums, &append->batches[i], err);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

/* ---- the schema ---- */

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

/* Whether the rows are of the table's columns, with text and bytes where they have views: then
 * `plain`, which starts without a schema, has theirs. */
static lake_status compare_schema(const struct ArrowSchema *table, const struct ArrowSchema *given,
                                  struct ArrowSchema *plain, bool *equal, char *path,
                                  size_t path_bytes, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (plain->release != NULL)
        plain->release(plain);
    if (arrow_schema_has_views(given))
        status = arrow_plain_schema(given, table, plain, err);
    if (status == LAKE_OK)
        *equal =
            client_columns_equal(table, plain->release != NULL ? plain : given, path, path_bytes);
    return status;
}

/* A schema in the cache may be that of a table which has been dropped and created again since. */
static lake_status check_schema(lake_client *client, const struct ArrowSchema *given,
                                struct client_append *append, struct ArrowSchema *plain,
                                struct lake_error *err)
{
    char path[256] = "";
    bool equal = false;
    size_t dictionaries = 0;
    lake_status status = count_dictionaries(given, 0, &dictionaries, err);
    for (int i = 0; i < 2 && status == LAKE_OK && !equal; i++) {
        struct client_schema *registered = NULL;
        if (i > 0)
            client_schema_forget(client, append->namespace_name, append->table);
        status =
            client_table_schema(client, append->namespace_name, append->table, &registered, err);
        if (status == LAKE_OK)
            status =
                compare_schema(&registered->arrow, given, plain, &equal, path, sizeof(path), err);
        if (equal)
            memcpy(append->incarnation, registered->incarnation, sizeof(append->incarnation));
        client_schema_unref(registered);
    }
    if (status == LAKE_OK && !equal)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "the batches' schema is not the table's: they differ at '%s' (names, "
                           "types, nullability and field metadata must be equal)",
                           path);
    append->schema = plain->release != NULL ? plain : given;
    return status;
}

lake_status lake_append_batches(lake_client *client, const char *table,
                                const struct ArrowSchema *schema,
                                const struct ArrowArray *const *batches, size_t batch_count,
                                const char *operation_id, struct lake_insert_result *result,
                                struct lake_error *err)
{
    struct client_append append = {.batch_count = batch_count, .borrowed = true};
    struct lake_insert_result filled = LAKE_INSERT_RESULT_INIT;
    struct ArrowSchema plain = {.release = NULL};
    lake_error_clear(err);
    if (batch_count < 1 || batch_count > CLIENT_MAX_APPEND_ROWS)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "one append takes 1 to %d batches, not %zu",
                         CLIENT_MAX_APPEND_ROWS, batch_count);
    lake_status status = client_split_name(table, &append.namespace_name, &append.table, err);
    if (status == LAKE_OK)
        status = check_schema(client, schema, &append, &plain, err);
    if (status != LAKE_OK)
        goto out;
    append.batches = base_calloc_array(batch_count, sizeof(struct arrow_batch *));
    if (append.batches == NULL) {
        status = base_fail_no_memory(err, batch_count * sizeof(struct arrow_batch *));
        goto out;
    }
    status = take_batches(batches, schema, &append, err);
    if (status == LAKE_OK)
        status = client_append_commit(client, &append, operation_id, &filled, err);
    for (size_t i = 0; i < batch_count; i++)
        arrow_batch_unref(append.batches[i]);
    base_free(append.batches);
    client_append_hand_over(&filled, status, result);
out:
    if (plain.release != NULL)
        plain.release(&plain);
    return status;
}
