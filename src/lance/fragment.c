/*
 * A fragment of a scan: which file holds which column, opened, with the deletion vector.
 */
#include "table.h"

#include <inttypes.h>

void lance_open_fragment_unref(struct lance_open_fragment *opened)
{
    if (opened == NULL ||
        atomic_fetch_sub_explicit(&opened->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < opened->column_count; i++) {
        if (opened->files != NULL && opened->files[i] != NULL) {
            lance_file_unref(opened->files[i]);
        }
        if (opened->columns != NULL) {
            base_free(opened->columns[i]);
        }
    }
    lance_deletions_unref(opened->deletions);
    base_free(opened->files);
    base_free(opened->file_index);
    base_free(opened->columns);
    base_free(opened);
}

/* The file of the fragment that holds the leaf, or -1. A later file supersedes nothing: Lance marks
 * the superseded column in the earlier one. */
static int find_leaf(const LancePb__DataFragment *fragment, int32_t id, int32_t *column)
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

/* Fills `columns` with the file's columns of the field's leaves; *file_index -1: none is there. */
static lake_status locate_column(const LancePb__DataFragment *fragment,
                                 const struct lance_field *field, int32_t *columns, int *file_index,
                                 struct lake_error *err)
{
    size_t count = lance_field_leaf_count(field);
    int found = -1;
    lance_field_leaf_ids(field, columns);
    for (size_t i = 0; i < count; i++) {
        int32_t column = -1;
        int file = find_leaf(fragment, columns[i], &column);
        columns[i] = file < 0 ? -1 : column;
        if (file >= 0 && found >= 0 && file != found) {
            return lake_fail(err, LAKE_UNIMPLEMENTED,
                             "the parts of column %s lie in different data files of fragment "
                             "%" PRIu64 ", which is not supported; compact the table",
                             field->name, fragment->id);
        }
        found = file >= 0 ? file : found;
    }
    *file_index = found;
    return LAKE_OK;
}

static lake_status open_column(struct lance_dataset *dataset, size_t fragment_index,
                               const struct lance_field *field, size_t index,
                               struct lance_open_fragment *opened, struct lake_error *err)
{
    const LancePb__DataFragment *fragment = dataset->manifest->pb->fragments[fragment_index];
    size_t leaves = lance_field_leaf_count(field);
    opened->columns[index] = base_alloc_array(leaves + 1, sizeof(int32_t));
    if (opened->columns[index] == NULL) {
        return base_fail_no_memory(err, (leaves + 1) * sizeof(int32_t));
    }
    int *file_index = &opened->file_index[index];
    lake_status status = locate_column(fragment, field, opened->columns[index], file_index, err);
    if (status != LAKE_OK || *file_index < 0) {
        return status;
    }
    for (size_t i = 0; i < index; i++) {
        if (opened->file_index[i] == *file_index) {
            opened->files[index] = lance_file_ref(opened->files[i]);
            return LAKE_OK;
        }
    }
    status =
        lance_dataset_open_file(dataset, fragment->files[*file_index], &opened->files[index], err);
    uint64_t rows = dataset->fragment_rows[fragment_index];
    if (status == LAKE_OK && lance_file_row_count(opened->files[index]) != rows) {
        return lake_fail(err, LAKE_DATA_LOSS,
                         "a data file of fragment %" PRIu64 " has %" PRIu64
                         " rows, the manifest says %" PRIu64,
                         fragment->id, lance_file_row_count(opened->files[index]), rows);
    }
    return status;
}

lake_status lance_fragment_open(struct lance_dataset *dataset, size_t fragment_index,
                                const struct lance_field *const *fields, size_t field_count,
                                struct lance_open_fragment **out, struct lake_error *err)
{
    struct lance_open_fragment *opened = base_calloc_array(1, sizeof(*opened));
    if (opened == NULL) {
        return base_fail_no_memory(err, sizeof(*opened));
    }
    atomic_init(&opened->references, 1);
    opened->column_count = field_count;
    opened->files = base_calloc_array(field_count + 1, sizeof(struct lance_file *));
    opened->file_index = base_calloc_array(field_count + 1, sizeof(int));
    opened->columns = base_calloc_array(field_count + 1, sizeof(int32_t *));
    bool enough = opened->files != NULL && opened->file_index != NULL && opened->columns != NULL;
    lake_status status = !enough ? base_fail_no_memory(err, field_count * sizeof(void *)) : LAKE_OK;
    if (status == LAKE_OK) {
        status = lance_dataset_open_deletions(dataset, fragment_index, &opened->deletions, err);
    }
    for (size_t i = 0; status == LAKE_OK && i < field_count; i++) {
        status = open_column(dataset, fragment_index, fields[i], i, opened, err);
    }
    if (status != LAKE_OK) {
        lance_open_fragment_unref(opened);
        return status;
    }
    *out = opened;
    return LAKE_OK;
}
