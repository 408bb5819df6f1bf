/* The plan of a scan: columns, filters, and tasks over fragments and row ranges, in row order. */
#include "scan.h"

#include <string.h>

#define DEFAULT_BATCH_ROWS  16384
#define MAX_BATCH_ROWS      (1u << 20)
#define DEFAULT_BATCH_BYTES ((size_t)8 << 20)
#define DEFAULT_TASK_ROWS   131072

void lance_scan_options_init(struct lance_scan_options *options)
{
    *options = (struct lance_scan_options){.batch_rows = DEFAULT_BATCH_ROWS,
                                           .batch_bytes = DEFAULT_BATCH_BYTES,
                                           .task_rows = DEFAULT_TASK_ROWS};
}

/* ---- plan ---- */

static lake_status find_column(struct lance_scan *scan, const struct lance_field *field,
                               struct scan_column **out, struct lake_error *err)
{
    for (size_t i = 0; i < scan->column_count; i++) {
        if (scan->columns[i].field == field) {
            *out = &scan->columns[i];
            return LAKE_OK;
        }
    }
    scan->fields[scan->column_count] = field;
    struct scan_column *column = &scan->columns[scan->column_count++];
    *column = (struct scan_column){.field = field, .type = field->arrow, .output = LANCE_NO_OUTPUT};
    *out = column;
    if (!scan->blob_descriptions) {
        return LAKE_OK;
    }
    column->type = &column->owned_type;
    return lance_field_description_type(field, &column->owned_type, err);
}

static lake_status plan_filters(struct lance_scan *scan, const struct lance_scan_options *options,
                                struct lake_error *err)
{
    const struct lance_schema *schema = &scan->dataset->manifest->schema;
    for (size_t i = 0; i < options->filter_count; i++) {
        const struct lance_filter *filter = &options->filters[i];
        struct lance_predicate *predicate = NULL;
        if (filter->column >= schema->field_count) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "a filter names column %u of %zu",
                             filter->column, schema->field_count);
        }
        const struct lance_field *field = &schema->fields[filter->column];
        struct scan_column *column;
        lake_status status = lance_predicate_new(filter, field->arrow, &predicate, err);
        if (status != LAKE_OK) {
            return status;
        }
        if (predicate == NULL) {
            continue;
        }
        status = find_column(scan, field, &column, err);
        if (status != LAKE_OK) {
            lance_predicate_free(predicate);
            return status;
        }
        if (column->predicates == NULL) {
            column->predicates =
                base_calloc_array(options->filter_count, sizeof(*column->predicates));
        }
        if (column->predicates == NULL) {
            lance_predicate_free(predicate);
            return base_fail_no_memory(err, options->filter_count * sizeof(void *));
        }
        column->predicates[column->predicate_count++] = predicate;
        scan->applied[i] = true;
    }
    scan->filtered_count = scan->column_count;
    return LAKE_OK;
}

static lake_status plan_columns(struct lance_scan *scan, const struct lance_scan_options *options,
                                struct lake_error *err)
{
    const struct lance_schema *schema = &scan->dataset->manifest->schema;
    size_t row_columns = lance_row_column_count(scan->row_columns);
    bool all = options->column_count == LANCE_ALL_COLUMNS;
    scan->output_count = all ? schema->field_count : options->column_count;
    ArrowSchemaInit(&scan->schema);
    if (ArrowSchemaSetTypeStruct(&scan->schema, (int64_t)(scan->output_count + row_columns)) !=
        NANOARROW_OK) {
        return base_fail_no_memory(err, scan->output_count * sizeof(struct ArrowSchema));
    }
    scan->schema.flags = 0;
    if (ArrowSchemaSetMetadata(&scan->schema, schema->arrow.metadata) != NANOARROW_OK) {
        return base_fail_no_memory(err, sizeof(struct ArrowSchema));
    }
    for (size_t i = 0; i < scan->output_count; i++) {
        size_t index = all ? i : options->columns[i];
        if (index >= schema->field_count) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "the projection names column %zu of %zu",
                             index, schema->field_count);
        }
        const struct lance_field *field = &schema->fields[index];
        struct scan_column *column;
        lake_status status = find_column(scan, field, &column, err);
        if (status != LAKE_OK) {
            return status;
        }
        if (column->output != LANCE_NO_OUTPUT) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "the projection names column %s twice",
                             field->name);
        }
        column->output = i;
        scan->schema.children[i]->release(scan->schema.children[i]);
        if (ArrowSchemaDeepCopy(column->type, scan->schema.children[i]) != NANOARROW_OK) {
            return base_fail_no_memory(err, sizeof(struct ArrowSchema));
        }
    }
    return row_columns == 0
               ? LAKE_OK
               : lance_row_column_types(scan->row_columns,
                                        scan->schema.children + scan->output_count, err);
}

/* What indices say of the filtered columns. */
static lake_status plan_candidates(struct lance_scan *scan, struct lake_error *err)
{
    struct lance_index_filter *filters =
        base_alloc_array(scan->filtered_count + 1, sizeof(*filters));
    if (filters == NULL) {
        return base_fail_no_memory(err, scan->filtered_count * sizeof(*filters));
    }
    for (size_t i = 0; i < scan->filtered_count; i++) {
        const struct scan_column *column = &scan->columns[i];
        filters[i] =
            (struct lance_index_filter){column->field, column->predicates, column->predicate_count};
    }
    lake_status status = lance_candidates_find(scan->dataset, filters, scan->filtered_count,
                                               &scan->counters, &scan->candidates, err);
    base_free(filters);
    return status;
}

static bool may_have_rows(const struct lance_scan *scan, size_t fragment)
{
    const struct lance_candidates *candidates = &scan->candidates;
    return candidates->used == 0 || !candidates->known[fragment] ||
           candidates->first[fragment + 1] > candidates->first[fragment];
}

static lake_status plan_tasks(struct lance_scan *scan, const struct lance_scan_options *options,
                              struct lake_error *err)
{
    size_t limit = options->fragment_count == 0 ? SIZE_MAX : options->fragment_count;
    size_t count = lance_dataset_fragment_count(scan->dataset);
    scan->fragment_count = count;
    scan->first_task = base_calloc_array(count + 1, sizeof(*scan->first_task));
    scan->slots = base_calloc_array(count + 1, sizeof(*scan->slots));
    if (scan->first_task == NULL || scan->slots == NULL) {
        return base_fail_no_memory(err, (count + 1) * sizeof(*scan->slots));
    }
    for (size_t i = 0; i < count; i++) {
        bool within = i >= options->first_fragment && i - options->first_fragment < limit &&
                      may_have_rows(scan, i);
        uint64_t rows = within ? scan->dataset->fragment_rows[i] : 0;
        uint64_t tasks = rows / scan->task_rows + (rows % scan->task_rows != 0);
        scan->slots[i].tasks_left = tasks;
        scan->first_task[i + 1] = scan->first_task[i] + tasks;
    }
    return LAKE_OK;
}

static lake_status scan_alloc(struct lance_dataset *dataset,
                              const struct lance_scan_options *options, struct lance_scan **out,
                              struct lake_error *err)
{
    struct lance_scan *scan = base_calloc_array(1, sizeof(*scan));
    if (scan == NULL) {
        return base_fail_no_memory(err, sizeof(*scan));
    }
    if (pthread_mutex_init(&scan->mutex, NULL) != 0) {
        base_free(scan);
        return lake_fail(err, LAKE_INTERNAL, "a mutex could not be made");
    }
    scan->dataset = lance_dataset_ref(dataset);
    scan->batch_rows = BASE_MIN(options->batch_rows == 0 ? DEFAULT_BATCH_ROWS : options->batch_rows,
                                MAX_BATCH_ROWS);
    scan->batch_bytes = options->batch_bytes == 0 ? DEFAULT_BATCH_BYTES : options->batch_bytes;
    scan->task_rows = options->task_rows == 0 ? DEFAULT_TASK_ROWS : options->task_rows;
    scan->stop = options->stop;
    scan->blob_descriptions = options->blob_descriptions;
    scan->row_columns = options->row_columns & LANCE_ROW_ALL;
    scan->filter_count = options->filter_count;
    scan->applied = base_calloc_array(options->filter_count + 1, sizeof(bool));
    size_t columns = options->column_count == LANCE_ALL_COLUMNS
                         ? dataset->manifest->schema.field_count
                         : options->column_count;
    size_t count = options->filter_count + columns + 1;
    scan->columns = base_calloc_array(count, sizeof(*scan->columns));
    scan->fields = base_calloc_array(count, sizeof(*scan->fields));
    *out = scan;
    return scan->applied == NULL || scan->columns == NULL || scan->fields == NULL
               ? base_fail_no_memory(err, count * sizeof(*scan->columns))
               : LAKE_OK;
}

lake_status lance_scan_new(struct lance_dataset *dataset, const struct lance_scan_options *options,
                           struct lance_scan **out, struct lake_error *err)
{
    struct lance_scan *scan = NULL;
    lake_status status = scan_alloc(dataset, options, &scan, err);
    if (status == LAKE_OK) {
        status = plan_filters(scan, options, err);
    }
    if (status == LAKE_OK) {
        status = plan_columns(scan, options, err);
    }
    if (status == LAKE_OK && !options->without_indices) {
        status = plan_candidates(scan, err);
    }
    if (status == LAKE_OK) {
        status = plan_tasks(scan, options, err);
    }
    if (status != LAKE_OK) {
        lance_scan_free(scan);
        return status;
    }
    *out = scan;
    return LAKE_OK;
}

void lance_scan_free(struct lance_scan *scan)
{
    if (scan == NULL) {
        return;
    }
    lance_scan_drop_tails(scan);
    for (size_t i = 0; scan->slots != NULL && i < scan->fragment_count; i++) {
        lance_open_fragment_unref(scan->slots[i].opened);
    }
    for (size_t i = 0; scan->columns != NULL && i < scan->column_count; i++) {
        for (size_t j = 0; j < scan->columns[i].predicate_count; j++) {
            lance_predicate_free(scan->columns[i].predicates[j]);
        }
        base_free(scan->columns[i].predicates);
        if (scan->columns[i].owned_type.release != NULL) {
            scan->columns[i].owned_type.release(&scan->columns[i].owned_type);
        }
    }
    if (scan->schema.release != NULL) {
        ArrowSchemaRelease(&scan->schema);
    }
    (void)pthread_mutex_destroy(&scan->mutex);
    lance_candidates_fini(&scan->candidates);
    base_free(scan->slots);
    base_free(scan->first_task);
    base_free(scan->columns);
    base_free(scan->fields);
    base_free(scan->applied);
    lance_dataset_unref(scan->dataset);
    base_free(scan);
}

const struct ArrowSchema *lance_scan_schema(const struct lance_scan *scan)
{
    return &scan->schema;
}

bool lance_scan_filter_applied(const struct lance_scan *scan, size_t index)
{
    return index < scan->filter_count && scan->applied[index];
}

size_t lance_scan_task_count(const struct lance_scan *scan)
{
    return (size_t)scan->first_task[scan->fragment_count];
}

void lance_scan_get_stats(const struct lance_scan *scan, struct lance_scan_stats *out)
{
    out->bytes_read = __atomic_load_n(&scan->counters.bytes_read, __ATOMIC_RELAXED);
    out->pages_read = __atomic_load_n(&scan->counters.pages_read, __ATOMIC_RELAXED);
    out->indices_used = scan->candidates.used;
    out->rows_scanned = atomic_load_explicit(&scan->rows_scanned, memory_order_relaxed);
}
