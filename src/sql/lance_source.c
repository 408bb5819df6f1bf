/* A Lance dataset as a source of the bridge. */
#include "sql_internal.h"

#include <string.h>
#include <strings.h>

#define NO_ADDRESS     SIZE_MAX
#define MANY_FRAGMENTS 1000
#define FEW_ROWS       256
#define VECTOR_BYTES   UINT64_C(1024) /* it touches a page; four times the usual may wait */

struct source {
    struct lance_dataset *dataset;
    bool half;                 /* some column holds half floats */
    bool addresses;            /* a column of row addresses follows the table's */
    struct ArrowSchema schema; /* of the two: with floats in their place, with that column */
};

struct scan {
    struct lance_scan *scan;
    bool half;
    bool exact;        /* some column asked for may hold what the engine would round */
    size_t address_at; /* the place of the row addresses in the output; NO_ADDRESS: not asked for */
    size_t
        *filters; /* of each filter asked for, its place in the scan; NO_ADDRESS: not passed on */
};

struct task {
    struct lance_task *task;
    const struct scan *scan;
};

static const struct ArrowSchema *source_schema(const void *object)
{
    const struct source *source = object;
    return source->schema.release != NULL ? &source->schema : lance_dataset_schema(source->dataset);
}

static uint64_t source_row_count(const void *object)
{
    return lance_dataset_row_count(((const struct source *)object)->dataset);
}

/* A batch ends with its fragment, and takes a vector for each column while it waits to be read,
 * however few its rows are: that is what a row takes in a table of many small fragments. */
static uint64_t source_row_bytes(const void *object)
{
    const struct lance_dataset *dataset = ((const struct source *)object)->dataset;
    uint64_t bytes = lance_dataset_row_bytes(dataset);
    uint64_t fragments = lance_dataset_fragment_count(dataset);
    if (fragments < MANY_FRAGMENTS || lance_dataset_row_count(dataset) / fragments > FEW_ROWS) {
        return bytes;
    }
    uint64_t columns = (uint64_t)lance_dataset_schema(dataset)->n_children;
    return BASE_MAX(bytes, columns * VECTOR_BYTES);
}

static uint64_t source_column_runs(const void *object, uint32_t column, uint64_t most)
{
    return lance_dataset_column_runs(((const struct source *)object)->dataset, column, most);
}

static void source_unref(void *object)
{
    struct source *source = object;
    lance_dataset_unref(source->dataset);
    if (source->schema.release != NULL) {
        ArrowSchemaRelease(&source->schema);
    }
    base_free(source);
}

static enum lance_filter_op to_lance_op(enum sql_filter_op op)
{
    static const enum lance_filter_op OPS[] = {
        [SQL_FILTER_EQ] = LANCE_EQ,
        [SQL_FILTER_LT] = LANCE_LT,
        [SQL_FILTER_LE] = LANCE_LE,
        [SQL_FILTER_GT] = LANCE_GT,
        [SQL_FILTER_GE] = LANCE_GE,
        [SQL_FILTER_NE] = LANCE_NE,
        [SQL_FILTER_IN] = LANCE_IN,
        [SQL_FILTER_IS_NULL] = LANCE_IS_NULL,
        [SQL_FILTER_IS_NOT_NULL] = LANCE_IS_NOT_NULL,
    };
    return OPS[op];
}

static struct lance_value to_lance_value(const struct sql_value *value)
{
    switch (value->kind) {
    case SQL_VALUE_INT64:
        return (struct lance_value){.kind = LANCE_VALUE_INT64, .i64 = value->i64};
    case SQL_VALUE_UINT64:
        return (struct lance_value){.kind = LANCE_VALUE_UINT64, .u64 = value->u64};
    case SQL_VALUE_DOUBLE:
        return (struct lance_value){.kind = LANCE_VALUE_DOUBLE, .f64 = value->f64};
    case SQL_VALUE_BYTES:
    default:
        return (struct lance_value){
            .kind = LANCE_VALUE_BYTES,
            .bytes = {.data = value->bytes.data, .size = value->bytes.size}};
    }
}

/* What the scan of a dataset is asked, all freed by the caller, also on failure. */
struct asked {
    uint32_t *columns;
    size_t column_count;
    struct lance_filter *filters;
    struct lance_value *values;
    size_t filter_count;
};

static void asked_fini(struct asked *asked)
{
    base_free(asked->columns);
    base_free(asked->filters);
    base_free(asked->values);
}

/* The scan gives row addresses behind all columns, and takes no filters on them. */
static lake_status ask(const struct source *source, const struct sql_scan_request *request,
                       struct scan *scan, struct asked *out, struct lake_error *err)
{
    size_t address = source->addresses ? (size_t)source->schema.n_children - 1 : NO_ADDRESS;
    size_t value_count = 0;
    for (size_t i = 0; i < request->filter_count; i++) {
        value_count += request->filters[i].value_count;
    }
    out->columns = base_alloc_array(request->column_count + 1, sizeof(*out->columns));
    out->filters = base_calloc_array(request->filter_count + 1, sizeof(*out->filters));
    out->values = base_calloc_array(value_count + 1, sizeof(*out->values));
    scan->filters = base_alloc_array(request->filter_count + 1, sizeof(*scan->filters));
    if (out->columns == NULL || out->filters == NULL || out->values == NULL ||
        scan->filters == NULL) {
        return base_fail_no_memory(err, value_count * sizeof(*out->values));
    }
    scan->address_at = NO_ADDRESS;
    for (size_t i = 0; i < request->column_count; i++) {
        if (request->columns[i] == address) {
            scan->address_at = i;
        } else {
            out->columns[out->column_count++] = request->columns[i];
        }
    }
    struct lance_value *next = out->values;
    for (size_t i = 0; i < request->filter_count; i++) {
        const struct sql_filter *from = &request->filters[i];
        scan->filters[i] = NO_ADDRESS;
        if (from->column == address) {
            continue;
        }
        scan->filters[i] = out->filter_count;
        out->filters[out->filter_count++] = (struct lance_filter){.column = from->column,
                                                                  .op = to_lance_op(from->op),
                                                                  .values = next,
                                                                  .value_count = from->value_count};
        for (size_t j = 0; j < from->value_count; j++) {
            *next++ = to_lance_value(&from->values[j]);
        }
    }
    return LAKE_OK;
}

static void scan_free(void *object)
{
    struct scan *scan = object;
    lance_scan_free(scan->scan);
    base_free(scan->filters);
    base_free(scan);
}

static lake_status source_open(void *object, const struct sql_scan_request *request, void **out,
                               struct lake_error *err)
{
    struct source *source = object;
    struct asked asked = {.columns = NULL};
    struct scan *scan = base_calloc_array(1, sizeof(*scan));
    if (scan == NULL) {
        return base_fail_no_memory(err, sizeof(*scan));
    }
    lake_status status = ask(source, request, scan, &asked, err);
    if (status == LAKE_OK) {
        struct lance_scan_options options;
        lance_scan_options_init(&options);
        options.columns = asked.columns;
        options.column_count = asked.column_count;
        options.row_columns = scan->address_at == NO_ADDRESS ? 0 : LANCE_ROW_ADDRESS;
        options.filters = asked.filters;
        options.filter_count = asked.filter_count;
        options.stop = request->stop;
        status = lance_scan_new(source->dataset, &options, &scan->scan, err);
    }
    if (status == LAKE_OK) {
        scan->half = source->half;
        scan->exact = sql_exact_needs_check(lance_scan_schema(scan->scan));
        *out = scan;
    } else {
        scan_free(scan);
    }
    asked_fini(&asked);
    return status;
}

static bool scan_filter_applied(const void *object, size_t index)
{
    const struct scan *scan = object;
    size_t place = scan->filters[index];
    return place != NO_ADDRESS && lance_scan_filter_applied(scan->scan, place);
}

static size_t scan_task_count(const void *scan)
{
    return lance_scan_task_count(((const struct scan *)scan)->scan);
}

static lake_status scan_next_task(void *object, void **out, struct lake_error *err)
{
    struct scan *scan = object;
    struct task *task = base_calloc_array(1, sizeof(*task));
    if (task == NULL) {
        return base_fail_no_memory(err, sizeof(*task));
    }
    task->scan = scan;
    lake_status status = lance_scan_next_task(scan->scan, &task->task, err);
    if (status != LAKE_OK || task->task == NULL) {
        base_free(task);
        task = NULL;
    }
    if (status == LAKE_OK) {
        *out = task;
    }
    return status;
}

static uint64_t task_index(const void *task)
{
    return lance_task_index(((const struct task *)task)->task);
}

/* To where it was asked for. */
static void move_address(const struct scan *scan, struct ArrowArray *batch)
{
    if (scan->address_at == NO_ADDRESS) {
        return;
    }
    size_t last = (size_t)batch->n_children - 1;
    struct ArrowArray *address = batch->children[last];
    memmove(batch->children + scan->address_at + 1, batch->children + scan->address_at,
            (last - scan->address_at) * sizeof(struct ArrowArray *));
    batch->children[scan->address_at] = address;
}

static lake_status task_next_batch(void *object, struct ArrowArray *out, bool *end,
                                   struct lake_error *err)
{
    struct task *task = object;
    struct ArrowArray batch = {0};
    lake_status status = lance_task_next(task->task, &batch, end, err);
    if (status != LAKE_OK || *end) {
        return status;
    }
    if (task->scan->exact) {
        status = sql_exact_check(lance_scan_schema(task->scan->scan), &batch, err);
    }
    if (status == LAKE_OK && task->scan->half) {
        status = sql_half_widen(lance_scan_schema(task->scan->scan), &batch, err);
    }
    if (status == LAKE_OK) {
        move_address(task->scan, &batch);
        ArrowArrayMove(&batch, out);
    } else {
        ArrowArrayRelease(&batch);
    }
    return status;
}

static void task_free(void *object)
{
    struct task *task = object;
    lance_task_free(task->task);
    base_free(task);
}

/* A copy of the table's schema with what the engine sees instead. */
static lake_status make_schema(struct source *source, struct lake_error *err)
{
    const struct ArrowSchema *schema = lance_dataset_schema(source->dataset);
    struct ArrowSchema made = {.release = NULL};
    int64_t columns = schema->n_children + (source->addresses ? 1 : 0);
    ArrowSchemaInit(&made);
    ArrowErrorCode code = ArrowSchemaSetTypeStruct(&made, columns);
    for (int64_t i = 0; i < schema->n_children && code == NANOARROW_OK; i++) {
        if (source->addresses && strcasecmp(schema->children[i]->name, SQL_ROW_ADDRESS) == 0) {
            ArrowSchemaRelease(&made);
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "the table has a column called \"" SQL_ROW_ADDRESS
                             "\", as row addresses are: rename it");
        }
        ArrowSchemaRelease(made.children[i]);
        code = ArrowSchemaDeepCopy(schema->children[i], made.children[i]);
    }
    if (code == NANOARROW_OK && source->addresses) {
        struct ArrowSchema *address = made.children[columns - 1];
        code = ArrowSchemaSetType(address, NANOARROW_TYPE_UINT64);
        if (code == NANOARROW_OK) {
            code = ArrowSchemaSetName(address, SQL_ROW_ADDRESS);
        }
        address->flags &= ~(int64_t)ARROW_FLAG_NULLABLE;
    }
    lake_status status = code == NANOARROW_OK ? LAKE_OK : base_fail_no_memory(err, sizeof(made));
    if (status == LAKE_OK && source->half) {
        status = sql_half_widen_schema(&made, err);
    }
    if (status == LAKE_OK) {
        ArrowSchemaMove(&made, &source->schema);
    } else {
        ArrowSchemaRelease(&made);
    }
    return status;
}

/* A source that holds a reference to `dataset`. */
static lake_status source_new(struct lance_dataset *dataset, bool row_addresses,
                              struct sql_source *out, struct lake_error *err)
{
    static const struct sql_source_methods METHODS = {
        .schema = source_schema,
        .row_count = source_row_count,
        .row_bytes = source_row_bytes,
        .column_runs = source_column_runs,
        .unref = source_unref,
        .open = source_open,
        .filter_applied = scan_filter_applied,
        .task_count = scan_task_count,
        .next_task = scan_next_task,
        .task_index = task_index,
        .next_batch = task_next_batch,
        .task_free = task_free,
        .scan_free = scan_free,
    };
    struct source *source = base_calloc_array(1, sizeof(*source));
    if (source == NULL) {
        return base_fail_no_memory(err, sizeof(*source));
    }
    source->dataset = lance_dataset_ref(dataset);
    source->half = sql_half_in(lance_dataset_schema(dataset));
    source->addresses = row_addresses;
    lake_status status = source->half || source->addresses ? make_schema(source, err) : LAKE_OK;
    if (status != LAKE_OK) {
        source_unref(source);
        return status;
    }
    *out =
        (struct sql_source){.methods = &METHODS, .object = source, .hides_last = source->addresses};
    return LAKE_OK;
}

lake_status sql_query_prepare(struct sql_engine *engine, struct lake_str sql,
                              const struct sql_table *tables, size_t table_count,
                              const struct sql_query_options *options, struct sql_query **out,
                              struct lake_error *err)
{
    if (table_count > SQL_MAX_REFERENCES) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "%zu tables for one statement; at most %d",
                         table_count, SQL_MAX_REFERENCES);
    }
    struct sql_source_table *sources =
        base_calloc_array(BASE_MAX(table_count, 1), sizeof(*sources));
    if (sources == NULL) {
        return base_fail_no_memory(err, table_count * sizeof(*sources));
    }
    lake_status status = LAKE_OK;
    size_t made = 0;
    for (; status == LAKE_OK && made < table_count; made++) {
        sources[made] = (struct sql_source_table){.catalog = tables[made].catalog,
                                                  .schema = tables[made].schema,
                                                  .table = tables[made].table,
                                                  .at_version = tables[made].at_version};
        status = source_new(tables[made].dataset, tables[made].row_addresses, &sources[made].source,
                            err);
    }
    if (status == LAKE_OK) {
        status = sql_query_prepare_sources(engine, sql, sources, table_count, options, out, err);
    } else {
        for (size_t i = 0; i + 1 < made; i++) { /* the last one is the one that failed */
            source_unref(sources[i].source.object);
        }
    }
    base_free(sources);
    return status;
}
