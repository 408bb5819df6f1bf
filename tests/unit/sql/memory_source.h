/*
 * A table in memory for the tests of sql: its rows come from a statement that a plain DuckDB runs,
 * so that the same statement there is the oracle. Records what the engine asked of it.
 */
#ifndef MEMORY_SOURCE_H
#define MEMORY_SOURCE_H

#include "sql_internal.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMORY_MAX_BATCHES 4096
#define MEMORY_MAX_FILTERS 16

struct memory_source {
    struct ArrowSchema schema;
    struct ArrowArray arrays[MEMORY_MAX_BATCHES];
    size_t batch_count;
    size_t batches_per_task;
    uint64_t rows;
    atomic_int references;
    atomic_int open_scans;
    atomic_int open_tasks;

    pthread_mutex_t lock; /* of what was asked last */
    size_t column_count;
    uint32_t columns[64];
    size_t filter_count;
    uint32_t filter_columns[MEMORY_MAX_FILTERS];
    enum sql_filter_op filter_ops[MEMORY_MAX_FILTERS];
    struct sql_value filter_values[MEMORY_MAX_FILTERS];
    atomic_uint batches_read;

    /* what to do */
    bool apply;       /* filters `=` on int64 columns are applied and said to be */
    lake_status fail; /* of the nth batch */
    unsigned fail_at; /* 1 is the first */
    int64_t delay_us; /* before each batch; `stop` is polled */
    bool endless;     /* the last batch of a task comes again and again */
    uint64_t runs;    /* said to be of every column; 0: not known */
};

struct memory_scan {
    struct memory_source *source;
    size_t column_count;
    uint32_t columns[64];
    const bool *stop;
    bool apply;
    size_t apply_filter;
    uint32_t apply_column;
    int64_t apply_value;
    atomic_size_t next;
};

struct memory_task {
    struct memory_scan *scan;
    size_t index;
    size_t batch;
};

/* A view on one child that keeps nothing alive: the source outlives every batch in these tests. */
static void view_release(struct ArrowArray *array)
{
    for (int64_t i = 0; i < array->n_children; i++) {
        if (array->children[i]->release != NULL) {
            array->children[i]->release(array->children[i]);
        }
        free(array->children[i]);
    }
    free(array->children);
    free(array->private_data);
    array->release = NULL;
}

/* DuckDB's own bitmaps end with their last bit; those of a source have a byte more (scan.h). */
static void view_validity(const struct ArrowArray *from, struct ArrowArray *to)
{
    size_t pointers = (size_t)from->n_buffers * sizeof(void *);
    size_t bytes = ((size_t)(from->offset + from->length) + 7) / 8;
    char *copy = calloc(1, pointers + bytes + 1);
    memcpy(copy, from->buffers, pointers);
    memcpy(copy + pointers, from->buffers[0], bytes);
    to->private_data = copy;
    to->buffers = (const void **)(void *)copy;
    to->buffers[0] = copy + pointers;
}

static void view_child(const struct ArrowArray *from, struct ArrowArray *to)
{
    *to = *from;
    to->children = from->n_children > 0 ? calloc((size_t)from->n_children, sizeof(void *)) : NULL;
    to->private_data = NULL;
    if (from->null_count != 0 && from->n_buffers > 0 && from->buffers[0] != NULL) {
        view_validity(from, to);
    }
    for (int64_t i = 0; i < from->n_children; i++) {
        to->children[i] = calloc(1, sizeof(struct ArrowArray));
        view_child(from->children[i], to->children[i]);
    }
    to->release = view_release;
}

static const struct ArrowSchema *memory_schema(const void *source)
{
    return &((const struct memory_source *)source)->schema;
}

static uint64_t memory_row_count(const void *source)
{
    return ((const struct memory_source *)source)->rows;
}

static uint64_t memory_row_bytes(const void *source)
{
    (void)source;
    return 0;
}

static uint64_t memory_column_runs(const void *source, uint32_t column, uint64_t most)
{
    uint64_t runs = ((const struct memory_source *)source)->runs;
    (void)column;
    return runs <= most ? runs : 0;
}

static void memory_unref(void *source)
{
    atomic_fetch_sub(&((struct memory_source *)source)->references, 1);
}

static void remember(struct memory_source *source, const struct sql_scan_request *request)
{
    (void)pthread_mutex_lock(&source->lock);
    source->column_count = request->column_count;
    for (size_t i = 0; i < request->column_count; i++) {
        source->columns[i] = request->columns[i];
    }
    source->filter_count = BASE_MIN(request->filter_count, MEMORY_MAX_FILTERS);
    for (size_t i = 0; i < source->filter_count; i++) {
        const struct sql_filter *filter = &request->filters[i];
        source->filter_columns[i] = filter->column;
        source->filter_ops[i] = filter->op;
        if (filter->value_count > 0) {
            source->filter_values[i] = filter->values[0];
        }
    }
    (void)pthread_mutex_unlock(&source->lock);
}

static lake_status memory_open(void *object, const struct sql_scan_request *request, void **out,
                               struct lake_error *err)
{
    struct memory_source *source = object;
    struct memory_scan *scan = calloc(1, sizeof(*scan));
    (void)err;
    scan->source = source;
    scan->stop = request->stop;
    scan->column_count = request->column_count;
    for (size_t i = 0; i < request->column_count; i++) {
        scan->columns[i] = request->columns[i];
    }
    for (size_t i = 0; source->apply && i < request->filter_count; i++) {
        const struct sql_filter *filter = &request->filters[i];
        if (filter->op == SQL_FILTER_EQ &&
            strcmp(source->schema.children[filter->column]->format, "l") == 0) {
            scan->apply = true;
            scan->apply_filter = i;
            scan->apply_column = filter->column;
            scan->apply_value = filter->values[0].i64;
        }
    }
    remember(source, request);
    atomic_fetch_add(&source->open_scans, 1);
    *out = scan;
    return LAKE_OK;
}

static bool memory_filter_applied(const void *object, size_t index)
{
    const struct memory_scan *scan = object;
    return scan->apply && index == scan->apply_filter;
}

static size_t memory_task_count(const void *object)
{
    const struct memory_source *source = ((const struct memory_scan *)object)->source;
    return (source->batch_count + source->batches_per_task - 1) / source->batches_per_task;
}

static lake_status memory_next_task(void *object, void **out, struct lake_error *err)
{
    struct memory_scan *scan = object;
    (void)err;
    size_t index = atomic_fetch_add(&scan->next, 1);
    if (index >= memory_task_count(scan)) {
        *out = NULL;
        return LAKE_OK;
    }
    struct memory_task *task = calloc(1, sizeof(*task));
    task->scan = scan;
    task->index = index;
    task->batch = index * scan->source->batches_per_task;
    atomic_fetch_add(&scan->source->open_tasks, 1);
    *out = task;
    return LAKE_OK;
}

static uint64_t memory_task_index(const void *task)
{
    return ((const struct memory_task *)task)->index;
}

/* The first row of `batch` that passes, as a one-row view, or false: enough for unique keys. */
static bool memory_apply(const struct memory_scan *scan, const struct ArrowArray *batch,
                         int64_t *row)
{
    const struct ArrowArray *keys = batch->children[scan->apply_column];
    const int64_t *values = keys->buffers[1];
    for (int64_t i = 0; i < batch->length; i++) {
        if (values[keys->offset + i] == scan->apply_value) {
            *row = i;
            return true;
        }
    }
    return false;
}

static lake_status memory_next_batch(void *object, struct ArrowArray *out, bool *end,
                                     struct lake_error *err)
{
    struct memory_task *task = object;
    struct memory_scan *scan = task->scan;
    struct memory_source *source = scan->source;
    size_t last = BASE_MIN((task->index + 1) * source->batches_per_task, source->batch_count);
    int64_t row = -1;
    for (;;) {
        if (task->batch == last) {
            if (!source->endless) {
                *end = true;
                return LAKE_OK;
            }
            task->batch = last - 1;
        }
        for (int64_t waited = 0; waited < source->delay_us; waited += 1000) {
            if (__atomic_load_n(scan->stop, __ATOMIC_RELAXED)) {
                return lake_fail(err, LAKE_CANCELLED, "the scan was stopped");
            }
            base_sleep_ms(1);
        }
        unsigned nth = atomic_fetch_add(&source->batches_read, 1) + 1;
        if (source->fail != LAKE_OK && nth == source->fail_at) {
            return lake_fail(err, source->fail, "batch %u is broken", nth);
        }
        if (!scan->apply || memory_apply(scan, &source->arrays[task->batch], &row)) {
            break;
        }
        task->batch++;
    }
    const struct ArrowArray *batch = &source->arrays[task->batch++];
    *end = false;
    *out = (struct ArrowArray){.length = row >= 0 ? 1 : batch->length,
                               .n_buffers = 1,
                               .n_children = (int64_t)scan->column_count,
                               .buffers = calloc(1, sizeof(void *)),
                               .children = calloc(scan->column_count + 1, sizeof(void *)),
                               .release = view_release};
    out->private_data = (void *)out->buffers;
    for (size_t i = 0; i < scan->column_count; i++) {
        out->children[i] = calloc(1, sizeof(struct ArrowArray));
        view_child(batch->children[scan->columns[i]], out->children[i]);
        if (row >= 0) {
            out->children[i]->offset += row;
            out->children[i]->length = 1;
        }
    }
    return LAKE_OK;
}

static void memory_task_free(void *task)
{
    atomic_fetch_sub(&((struct memory_task *)task)->scan->source->open_tasks, 1);
    free(task);
}

static void memory_scan_free(void *scan)
{
    atomic_fetch_sub(&((struct memory_scan *)scan)->source->open_scans, 1);
    free(scan);
}

static const struct sql_source_methods MEMORY_METHODS = {
    .schema = memory_schema,
    .row_count = memory_row_count,
    .row_bytes = memory_row_bytes,
    .column_runs = memory_column_runs,
    .unref = memory_unref,
    .open = memory_open,
    .filter_applied = memory_filter_applied,
    .task_count = memory_task_count,
    .next_task = memory_next_task,
    .task_index = memory_task_index,
    .next_batch = memory_next_batch,
    .task_free = memory_task_free,
    .scan_free = memory_scan_free,
};

/* ---- making one, and the plain engine beside it ---- */

struct plain_engine {
    duckdb_database database;
    duckdb_connection connection;
};

static inline void plain_open(struct plain_engine *plain)
{
    assert_int_equal(duckdb_open(NULL, &plain->database), DuckDBSuccess);
    assert_int_equal(duckdb_connect(plain->database, &plain->connection), DuckDBSuccess);
    duckdb_result result;
    assert_int_equal(duckdb_query(plain->connection, "SET TimeZone='UTC'", &result), DuckDBSuccess);
    duckdb_destroy_result(&result);
}

static inline void plain_close(struct plain_engine *plain)
{
    duckdb_disconnect(&plain->connection);
    duckdb_close(&plain->database);
}

static inline void plain_run(struct plain_engine *plain, const char *sql)
{
    duckdb_result result;
    if (duckdb_query(plain->connection, sql, &result) != DuckDBSuccess) {
        fail_msg("%s: %s", sql, duckdb_result_error(&result));
    }
    duckdb_destroy_result(&result);
}

/* The rows of `sql` as a table of batches of 2,048 rows. */
static inline struct memory_source *memory_source_new(struct plain_engine *plain, const char *sql,
                                                      size_t batches_per_task)
{
    struct memory_source *source = calloc(1, sizeof(*source));
    struct ArrowSchema made;
    duckdb_result result;
    assert_int_equal(pthread_mutex_init(&source->lock, NULL), 0);
    if (duckdb_query(plain->connection, sql, &result) != DuckDBSuccess) {
        fail_msg("%s: %s", sql, duckdb_result_error(&result));
    }
    duckdb_arrow_options options = duckdb_result_get_arrow_options(&result);
    idx_t columns = duckdb_column_count(&result);
    duckdb_logical_type *types = calloc(columns, sizeof(*types));
    const char **names = calloc(columns, sizeof(*names));
    for (idx_t i = 0; i < columns; i++) {
        types[i] = duckdb_column_logical_type(&result, i);
        names[i] = duckdb_column_name(&result, i);
    }
    duckdb_error_data error = duckdb_to_arrow_schema(options, types, names, columns, &made);
    assert_null(error);
    assert_int_equal(ArrowSchemaDeepCopy(&made, &source->schema), NANOARROW_OK);
    made.release(&made);
    duckdb_data_chunk chunk;
    while ((chunk = duckdb_fetch_chunk(result)) != NULL) {
        assert_true(source->batch_count < MEMORY_MAX_BATCHES);
        struct ArrowArray *array = &source->arrays[source->batch_count++];
        error = duckdb_data_chunk_to_arrow(options, chunk, array);
        assert_null(error);
        source->rows += (uint64_t)array->length;
        duckdb_destroy_data_chunk(&chunk);
    }
    for (idx_t i = 0; i < columns; i++) {
        duckdb_destroy_logical_type(&types[i]);
    }
    free(types);
    free(names);
    duckdb_destroy_arrow_options(&options);
    duckdb_destroy_result(&result);
    source->batches_per_task = batches_per_task;
    return source;
}

static inline void memory_source_free(struct memory_source *source)
{
    assert_int_equal(atomic_load(&source->references), 0);
    assert_int_equal(atomic_load(&source->open_scans), 0);
    assert_int_equal(atomic_load(&source->open_tasks), 0);
    for (size_t i = 0; i < source->batch_count; i++) {
        source->arrays[i].release(&source->arrays[i]);
    }
    source->schema.release(&source->schema);
    (void)pthread_mutex_destroy(&source->lock);
    free(source);
}

static inline struct sql_source_table memory_table(struct memory_source *source, const char *schema,
                                                   const char *table)
{
    atomic_fetch_add(&source->references, 1);
    return (struct sql_source_table){.catalog = "lake",
                                     .schema = schema,
                                     .table = table,
                                     .source = {.methods = &MEMORY_METHODS, .object = source}};
}

/* ---- results as text ---- */

/* All rows of an Arrow stream's batches through the plain engine's own rendering would need a scan;
 * tests compare counts, sums and hashes that the statement itself computes, rendered here. */
static inline void render_value(const struct ArrowArrayView *view, int64_t row,
                                struct base_buffer *out)
{
    if (ArrowArrayViewIsNull(view, row)) {
        (void)base_buffer_append(out, "NULL", 4, NULL);
        return;
    }
    switch (view->storage_type) {
    case NANOARROW_TYPE_STRING:
    case NANOARROW_TYPE_BINARY:
    case NANOARROW_TYPE_LARGE_STRING:
    case NANOARROW_TYPE_LARGE_BINARY:
    case NANOARROW_TYPE_FIXED_SIZE_BINARY: {
        struct ArrowStringView text = ArrowArrayViewGetStringUnsafe(view, row);
        (void)base_buffer_append(out, text.data, (size_t)text.size_bytes, NULL);
        return;
    }
    case NANOARROW_TYPE_HALF_FLOAT:
    case NANOARROW_TYPE_FLOAT:
    case NANOARROW_TYPE_DOUBLE:
        (void)base_buffer_printf(out, NULL, "%.17g", ArrowArrayViewGetDoubleUnsafe(view, row));
        return;
    case NANOARROW_TYPE_DECIMAL128: {
        struct ArrowDecimal decimal;
        struct ArrowBuffer digits;
        ArrowDecimalInit(&decimal, 128, 38, 0);
        ArrowBufferInit(&digits);
        ArrowArrayViewGetDecimalUnsafe(view, row, &decimal);
        assert_int_equal(ArrowDecimalAppendDigitsToBuffer(&decimal, &digits), NANOARROW_OK);
        (void)base_buffer_append(out, digits.data, (size_t)digits.size_bytes, NULL);
        ArrowBufferReset(&digits);
        return;
    }
    case NANOARROW_TYPE_STRUCT:
        for (int64_t i = 0; i < view->n_children; i++) {
            (void)base_buffer_append(out, i == 0 ? "{" : ",", 1, NULL);
            render_value(view->children[i], row + view->offset, out);
        }
        (void)base_buffer_append(out, "}", 1, NULL);
        return;
    case NANOARROW_TYPE_FIXED_SIZE_LIST:
        for (int64_t i = 0; i < view->layout.child_size_elements; i++) {
            (void)base_buffer_append(out, i == 0 ? "<" : ",", 1, NULL);
            render_value(view->children[0],
                         (view->offset + row) * view->layout.child_size_elements + i, out);
        }
        (void)base_buffer_append(out, ">", 1, NULL);
        return;
    case NANOARROW_TYPE_LIST:
        (void)base_buffer_append(out, "[", 1, NULL);
        for (int64_t i = ArrowArrayViewListChildOffset(view, row);
             i < ArrowArrayViewListChildOffset(view, row + 1); i++) {
            render_value(view->children[0], i, out);
            (void)base_buffer_append(out, ";", 1, NULL);
        }
        (void)base_buffer_append(out, "]", 1, NULL);
        return;
    default:
        (void)base_buffer_printf(out, NULL, "%lld",
                                 (long long)ArrowArrayViewGetIntUnsafe(view, row));
    }
}

static inline void render_batch(const struct ArrowSchema *schema, const struct ArrowArray *batch,
                                struct base_buffer *out)
{
    struct ArrowArrayView view;
    struct ArrowError error;
    assert_int_equal(ArrowArrayViewInitFromSchema(&view, schema, &error), NANOARROW_OK);
    if (ArrowArrayViewSetArray(&view, batch, &error) != NANOARROW_OK ||
        ArrowArrayViewValidate(&view, NANOARROW_VALIDATION_LEVEL_FULL, &error) != NANOARROW_OK) {
        fail_msg("invalid batch: %s", error.message);
    }
    for (int64_t row = 0; row < batch->length; row++) {
        for (int64_t i = 0; i < view.n_children; i++) {
            if (i > 0) {
                (void)base_buffer_append(out, "|", 1, NULL);
            }
            render_value(view.children[i], row, out);
        }
        (void)base_buffer_append(out, "\n", 1, NULL);
    }
    ArrowArrayViewReset(&view);
}

static inline char *take_text(struct base_buffer *buffer)
{
    char *text = calloc(1, buffer->size + 1);
    if (buffer->size > 0) {
        memcpy(text, buffer->data, buffer->size);
    }
    base_buffer_fini(buffer);
    return text;
}

/* The oracle: the same statement by the plain engine, rendered the same way. */
static inline char *plain_text(struct plain_engine *plain, const char *sql)
{
    struct memory_source *rows = memory_source_new(plain, sql, 1);
    struct base_buffer text;
    base_buffer_init(&text, 64 * 1024 * 1024);
    for (size_t i = 0; i < rows->batch_count; i++) {
        render_batch(&rows->schema, &rows->arrays[i], &text);
    }
    memory_source_free(rows);
    return take_text(&text);
}

/* Runs to the end; rows are `a|b|c` a line. */
static inline lake_status query_text(struct sql_query *query, struct base_buffer *out,
                                     struct lake_error *err)
{
    base_buffer_init(out, 64 * 1024 * 1024);
    for (;;) {
        struct ArrowArray batch = {0};
        bool end = false;
        lake_status status = sql_query_next(query, &batch, &end, err);
        if (status != LAKE_OK || end) {
            return status;
        }
        render_batch(sql_query_schema(query), &batch, out);
        batch.release(&batch);
    }
}

/* The statement's rows as text, by Lake over `tables`. Free with free(). */
static inline lake_status lake_text(struct sql_engine *engine, const char *sql,
                                    const struct sql_source_table *tables, size_t count, char **out,
                                    struct lake_error *err)
{
    struct sql_query *query = NULL;
    lake_status status =
        sql_query_prepare_sources(engine, base_str_of(sql), tables, count, NULL, &query, err);
    if (status != LAKE_OK) {
        return status;
    }
    struct base_buffer text;
    status = query_text(query, &text, err);
    if (status == LAKE_OK) {
        *out = take_text(&text);
    } else {
        base_buffer_fini(&text);
    }
    sql_query_free(query);
    return status;
}

#endif
