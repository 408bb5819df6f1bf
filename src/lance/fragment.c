/*
 * A fragment of a scan: which file holds which column, opened, with the deletion vector; and what
 * the opened files' statistics say of a column as a whole.
 */
#include "parallel.h"
#include "table.h"
#include "zones.h"

#include <inttypes.h>

#define MAX_COUNTED_FRAGMENTS 64 /* whose runs are worth asking for before a statement runs */

void lance_open_fragment_unref(struct lance_open_fragment *opened)
{
    if (opened == NULL ||
        atomic_fetch_sub_explicit(&opened->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; opened->files != NULL && i < opened->file_count; i++) {
        lance_file_unref(opened->files[i]);
    }
    for (size_t i = 0; opened->sources != NULL && i < opened->column_count; i++) {
        base_free(opened->sources[i]);
    }
    lance_deletions_unref(opened->deletions);
    base_free(opened->files);
    base_free(opened->sources);
    base_free(opened->stored);
    base_free(opened);
}

/* The file of the fragment that holds the field, or -1. A later file supersedes nothing: Lance
 * marks the superseded column in the earlier one by a negative id. */
static int find_field(const LancePb__DataFragment *fragment, int32_t id, int32_t *column)
{
    for (size_t f = 0; f < fragment->n_files; f++) {
        const LancePb__DataFile *file = fragment->files[f];
        for (size_t i = 0; i < file->n_fields; i++) {
            if (file->fields[i] == id && file->column_indices[i] >= 0) {
                *column = file->column_indices[i];
                return (int)f;
            }
        }
    }
    return -1;
}

static bool holds(const LancePb__DataFragment *fragment, size_t index,
                  const struct lance_field *field)
{
    int32_t column;
    if (find_field(fragment, field->id, &column) == (int)index) {
        return true;
    }
    for (size_t i = 0; field->kind != LANCE_NODE_LEAF && i < field->child_count; i++) {
        if (holds(fragment, index, &field->children[i])) {
            return true;
        }
    }
    return false;
}

bool lance_fragment_file_holds(const LancePb__DataFragment *fragment, size_t index,
                               const struct lance_field *const *fields, size_t field_count)
{
    for (size_t i = 0; i < field_count; i++) {
        if (holds(fragment, index, fields[i])) {
            return true;
        }
    }
    return false;
}

/* The fragment's data file `index`, opened once. */
static lake_status open_file(struct lance_dataset *dataset, size_t fragment_index, size_t index,
                             struct lance_open_fragment *opened, struct lance_tail *tails,
                             struct lance_file **out, struct lake_error *err)
{
    const LancePb__DataFragment *fragment = dataset->manifest->pb->fragments[fragment_index];
    uint64_t rows = dataset->fragment_rows[fragment_index];
    lake_status status = LAKE_OK;
    if (opened->files[index] == NULL) {
        struct lance_tail none = {NULL, 0};
        status = lance_dataset_open_file_by(dataset, fragment->files[index],
                                            tails == NULL ? &none : &tails[index],
                                            &opened->files[index], err);
    }
    if (status == LAKE_OK && lance_file_row_count(opened->files[index]) != rows) {
        return lake_fail(err, LAKE_DATA_LOSS,
                         "a data file of fragment %" PRIu64 " has %" PRIu64
                         " rows, the manifest says %" PRIu64,
                         fragment->id, lance_file_row_count(opened->files[index]), rows);
    }
    if (status == LAKE_OK) {
        *out = opened->files[index];
    }
    return status;
}

/* What is being located: the nodes of one column's tree. */
struct locator {
    struct lance_dataset *dataset;
    size_t fragment_index;
    struct lance_open_fragment *opened;
    struct lance_tail *tails; /* NULL: none is here */
    struct lance_column_source *next;
    bool stored;
};

static lake_status locate(struct locator *locator, const struct lance_field *field,
                          struct lake_error *err)
{
    const LancePb__DataFragment *fragment =
        locator->dataset->manifest->pb->fragments[locator->fragment_index];
    struct lance_column_source *source = locator->next++;
    *source = (struct lance_column_source){.file = NULL, .column = -1};
    int index = find_field(fragment, field->id, &source->column);
    lake_status status = LAKE_OK;
    if (index >= 0) {
        status = open_file(locator->dataset, locator->fragment_index, (size_t)index,
                           locator->opened, locator->tails, &source->file, err);
        locator->stored = true;
    }
    for (size_t i = 0;
         status == LAKE_OK && field->kind != LANCE_NODE_LEAF && i < field->child_count; i++) {
        status = locate(locator, &field->children[i], err);
    }
    return status;
}

static lake_status open_column(struct lance_dataset *dataset, size_t fragment_index,
                               const struct lance_field *field, size_t index,
                               struct lance_tail *tails, struct lance_open_fragment *opened,
                               struct lake_error *err)
{
    size_t nodes = lance_field_node_count(field);
    opened->sources[index] = base_calloc_array(nodes + 1, sizeof(struct lance_column_source));
    if (opened->sources[index] == NULL) {
        return base_fail_no_memory(err, (nodes + 1) * sizeof(struct lance_column_source));
    }
    struct locator locator = {.dataset = dataset,
                              .fragment_index = fragment_index,
                              .opened = opened,
                              .tails = tails,
                              .next = opened->sources[index]};
    lake_status status = locate(&locator, field, err);
    opened->stored[index] = locator.stored;
    return status;
}

lake_status lance_fragment_open(struct lance_dataset *dataset, size_t fragment_index,
                                const struct lance_field *const *fields, size_t field_count,
                                struct lance_open_fragment **out, struct lake_error *err)
{
    return lance_fragment_open_by(dataset, fragment_index, fields, field_count, NULL, out, err);
}

lake_status lance_fragment_open_by(struct lance_dataset *dataset, size_t fragment_index,
                                   const struct lance_field *const *fields, size_t field_count,
                                   struct lance_tail *tails, struct lance_open_fragment **out,
                                   struct lake_error *err)
{
    struct lance_open_fragment *opened = base_calloc_array(1, sizeof(*opened));
    if (opened == NULL) {
        return base_fail_no_memory(err, sizeof(*opened));
    }
    atomic_init(&opened->references, 1);
    opened->column_count = field_count;
    opened->file_count = dataset->manifest->pb->fragments[fragment_index]->n_files;
    opened->files = base_calloc_array(opened->file_count + 1, sizeof(struct lance_file *));
    opened->sources = base_calloc_array(field_count + 1, sizeof(struct lance_column_source *));
    opened->stored = base_calloc_array(field_count + 1, sizeof(bool));
    bool enough = opened->files != NULL && opened->sources != NULL && opened->stored != NULL;
    lake_status status = !enough ? base_fail_no_memory(err, field_count * sizeof(void *)) : LAKE_OK;
    if (status == LAKE_OK) {
        status = lance_dataset_open_deletions(dataset, fragment_index, &opened->deletions, err);
    }
    for (size_t i = 0; status == LAKE_OK && i < field_count; i++) {
        status = open_column(dataset, fragment_index, fields[i], i, tails, opened, err);
    }
    if (status != LAKE_OK) {
        lance_open_fragment_unref(opened);
        return status;
    }
    *out = opened;
    return LAKE_OK;
}

/* ---- runs ---- */

struct run_count {
    struct lance_dataset *dataset;
    const struct lance_field *field;
    uint64_t *runs; /* by fragment; 0: not known */
};

static lake_status count_fragment_runs(void *context, size_t index, size_t worker,
                                       struct lake_error *err)
{
    struct run_count *count = context;
    struct lance_open_fragment *opened = NULL;
    (void)worker;
    lake_status status = lance_fragment_open(count->dataset, index, &count->field, 1, &opened, err);
    if (status != LAKE_OK) {
        return status;
    }
    const struct lance_column_source *source = opened->sources[0];
    const struct lance_zones *zones = NULL;
    if (source->file == NULL || source->column < 0) {
        count->runs[index] = 1; /* all null */
    } else {
        status = lance_file_zones(source->file, (uint32_t)source->column, &zones, err);
        count->runs[index] = zones == NULL ? 0 : zones->runs;
    }
    lance_open_fragment_unref(opened);
    return status;
}

uint64_t lance_dataset_column_runs(struct lance_dataset *dataset, uint32_t column, uint64_t most)
{
    const struct lance_schema *schema = &dataset->manifest->schema;
    size_t count = lance_dataset_fragment_count(dataset);
    if (column >= schema->field_count || count > MAX_COUNTED_FRAGMENTS ||
        schema->fields[column].kind != LANCE_NODE_LEAF) {
        return 0;
    }
    uint64_t runs[MAX_COUNTED_FRAGMENTS] = {0};
    struct run_count context = {dataset, &schema->fields[column], runs};
    if (lance_parallel(count, LANCE_MAX_WORKERS, count_fragment_runs, &context, NULL) != LAKE_OK) {
        return 0; /* the scan will say why */
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (runs[i] == 0) {
            return 0;
        }
        sum += runs[i];
    }
    return sum <= most ? sum : 0;
}
