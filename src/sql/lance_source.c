/* A Lance dataset as a source of the bridge. */
#include "sql_internal.h"

static const struct ArrowSchema *source_schema(const void *source)
{
    return lance_dataset_schema(source);
}

static uint64_t source_row_count(const void *source)
{
    return lance_dataset_row_count(source);
}

static void source_unref(void *source)
{
    lance_dataset_unref(source);
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

/* Both arrays are freed by the caller, also on failure. */
static lake_status to_lance_filters(const struct sql_scan_request *request,
                                    struct lance_filter **filters, struct lance_value **values,
                                    struct lake_error *err)
{
    size_t value_count = 0;
    for (size_t i = 0; i < request->filter_count; i++) {
        value_count += request->filters[i].value_count;
    }
    *filters = base_calloc_array(BASE_MAX(request->filter_count, 1), sizeof(**filters));
    *values = base_calloc_array(BASE_MAX(value_count, 1), sizeof(**values));
    if (*filters == NULL || *values == NULL) {
        return base_fail_no_memory(err, value_count * sizeof(**values));
    }
    struct lance_value *next = *values;
    for (size_t i = 0; i < request->filter_count; i++) {
        const struct sql_filter *from = &request->filters[i];
        (*filters)[i] = (struct lance_filter){.column = from->column,
                                              .op = to_lance_op(from->op),
                                              .values = next,
                                              .value_count = from->value_count};
        for (size_t j = 0; j < from->value_count; j++) {
            *next++ = to_lance_value(&from->values[j]);
        }
    }
    return LAKE_OK;
}

static lake_status source_open(void *source, const struct sql_scan_request *request, void **scan,
                               struct lake_error *err)
{
    struct lance_filter *filters = NULL;
    struct lance_value *values = NULL;
    struct lance_scan *opened = NULL;
    lake_status status = to_lance_filters(request, &filters, &values, err);
    if (status == LAKE_OK) {
        struct lance_scan_options options;
        lance_scan_options_init(&options);
        options.columns = request->columns;
        options.column_count = request->column_count;
        options.filters = filters;
        options.filter_count = request->filter_count;
        options.stop = request->stop;
        status = lance_scan_new(source, &options, &opened, err);
    }
    if (status == LAKE_OK) {
        *scan = opened;
    }
    base_free(values);
    base_free(filters);
    return status;
}

static bool scan_filter_applied(const void *scan, size_t index)
{
    return lance_scan_filter_applied(scan, index);
}

static size_t scan_task_count(const void *scan)
{
    return lance_scan_task_count(scan);
}

static lake_status scan_next_task(void *scan, void **task, struct lake_error *err)
{
    struct lance_task *claimed = NULL;
    lake_status status = lance_scan_next_task(scan, &claimed, err);
    if (status == LAKE_OK) {
        *task = claimed;
    }
    return status;
}

static uint64_t task_index(const void *task)
{
    return lance_task_index(task);
}

static lake_status task_next_batch(void *task, struct ArrowArray *out, bool *end,
                                   struct lake_error *err)
{
    return lance_task_next(task, out, end, err);
}

static void task_free(void *task)
{
    lance_task_free(task);
}

static void scan_free(void *scan)
{
    lance_scan_free(scan);
}

struct sql_source sql_lance_source(struct lance_dataset *dataset)
{
    static const struct sql_source_methods METHODS = {
        .schema = source_schema,
        .row_count = source_row_count,
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
    return (struct sql_source){.methods = &METHODS, .object = lance_dataset_ref(dataset)};
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
    for (size_t i = 0; i < table_count; i++) {
        sources[i] = (struct sql_source_table){.catalog = tables[i].catalog,
                                               .schema = tables[i].schema,
                                               .table = tables[i].table,
                                               .at_version = tables[i].at_version,
                                               .source = sql_lance_source(tables[i].dataset)};
    }
    lake_status status =
        sql_query_prepare_sources(engine, sql, sources, table_count, options, out, err);
    base_free(sources);
    return status;
}
