/*
 * Merge-insert: rows of a batch put in place of those with the same key, the others added. The keys
 * of the batch are one hash table; the table's key column is read once.
 */
#include "array_build.h"
#include "table.h"

#include <inttypes.h>
#include <string.h>

#define BATCH_ROWS 16384
#define NO_ROW     UINT32_MAX

/* ---- keys ---- */

struct key_type {
    size_t width; /* of a fixed one; 0: text or bytes */
    bool large;   /* 64-bit offsets */
};

static bool key_type_of(const struct ArrowSchema *schema, struct key_type *out)
{
    static const struct {
        const char *format;
        size_t width;
    } fixed[] = {{"c", 1}, {"C", 1},   {"s", 2},   {"S", 2},   {"i", 4},   {"I", 4},   {"l", 8},
                 {"L", 8}, {"tdD", 4}, {"tdm", 8}, {"tts", 4}, {"ttm", 4}, {"ttu", 8}, {"ttn", 8}};
    const char *format = schema->format;
    if (schema->dictionary != NULL) {
        return false;
    }
    *out = (struct key_type){0, strcmp(format, "U") == 0 || strcmp(format, "Z") == 0};
    for (size_t i = 0; i < BASE_ARRAY_LEN(fixed); i++) {
        if (strcmp(format, fixed[i].format) == 0) {
            out->width = fixed[i].width;
            return true;
        }
    }
    if (strncmp(format, "ts", 2) == 0) {
        out->width = 8;
        return true;
    }
    return out->large || strcmp(format, "u") == 0 || strcmp(format, "z") == 0;
}

/* False for a null. */
static bool key_at(const struct key_type *type, const struct ArrowArray *array, int64_t row,
                   struct lake_bytes *out)
{
    int64_t at = array->offset + row;
    if (array->null_count != 0 && array->buffers[0] != NULL &&
        !ArrowBitGet(array->buffers[0], at)) {
        return false;
    }
    if (type->width > 0) {
        const uint8_t *values = array->buffers[1];
        *out = (struct lake_bytes){values + (size_t)at * type->width, type->width};
        return true;
    }
    int64_t start = type->large ? ((const int64_t *)array->buffers[1])[at]
                                : ((const int32_t *)array->buffers[1])[at];
    int64_t end = type->large ? ((const int64_t *)array->buffers[1])[at + 1]
                              : ((const int32_t *)array->buffers[1])[at + 1];
    const uint8_t *values = array->buffers[2];
    *out = (struct lake_bytes){values == NULL ? (const uint8_t *)"" : values + start,
                               (size_t)(end - start)};
    return true;
}

static uint64_t hash_key(struct lake_bytes key)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < key.size; i++) {
        hash = (hash ^ key.data[i]) * UINT64_C(1099511628211);
    }
    return (hash ^ (hash >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
}

/* ---- the batch by its keys ---- */

struct merge {
    struct lance_row_update update;
    const struct lance_merge_options *options;
    const struct ArrowArray *batch;
    const struct ArrowArray *key; /* its column */
    struct key_type type;
    uint32_t *slots; /* rows of the batch, by hash */
    size_t slot_count;
    bool *matched; /* by row of the batch */
    uint64_t *ids; /* of the first row that it matched; only where ids are stable */
    uint64_t *created;
};

static size_t find_slot(const struct merge *merge, struct lake_bytes key)
{
    size_t slot = (size_t)(hash_key(key) >> 8) & (merge->slot_count - 1);
    while (merge->slots[slot] != NO_ROW) {
        struct lake_bytes other;
        if (key_at(&merge->type, merge->key, merge->slots[slot], &other) &&
            base_bytes_equal(key, other)) {
            break;
        }
        slot = (slot + 1) & (merge->slot_count - 1);
    }
    return slot;
}

static lake_status index_batch(struct merge *merge, struct lake_error *err)
{
    size_t rows = (size_t)merge->batch->length;
    merge->slot_count = 16;
    while (merge->slot_count < rows * 2) {
        merge->slot_count *= 2;
    }
    merge->slots = base_alloc_array(merge->slot_count, sizeof(*merge->slots));
    merge->matched = base_calloc_array(rows + 1, sizeof(*merge->matched));
    merge->ids = base_calloc_array(rows + 1, sizeof(*merge->ids));
    merge->created = base_calloc_array(rows + 1, sizeof(*merge->created));
    if (merge->slots == NULL || merge->matched == NULL || merge->ids == NULL ||
        merge->created == NULL) {
        return base_fail_no_memory(err, merge->slot_count * sizeof(*merge->slots));
    }
    memset(merge->slots, 0xff, merge->slot_count * sizeof(*merge->slots));
    for (size_t row = 0; row < rows; row++) {
        struct lake_bytes key;
        if (!key_at(&merge->type, merge->key, (int64_t)row, &key)) {
            continue;
        }
        size_t slot = find_slot(merge, key);
        if (merge->slots[slot] != NO_ROW) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "rows %u and %zu of the batch have the same key", merge->slots[slot],
                             row);
        }
        merge->slots[slot] = (uint32_t)row;
    }
    return LAKE_OK;
}

/* ---- the table's rows ---- */

/* Sets the bits of rows [start, …) of the fragment whose key is one of the batch. `all` says who
 * the fragment's rows are, where that is kept. */
static void match_rows(struct merge *merge, const struct ArrowArray *keys, uint64_t start,
                       const struct lance_deletions *deletions,
                       const struct lance_row_identity *all, uint64_t *words, uint64_t *count)
{
    for (int64_t i = 0; i < keys->length; i++) {
        uint64_t row = start + (uint64_t)i;
        struct lake_bytes key;
        if ((deletions != NULL && lance_deletions_has(deletions, row)) ||
            !key_at(&merge->type, keys, i, &key)) {
            continue;
        }
        uint32_t found = merge->slots[find_slot(merge, key)];
        if (found == NO_ROW) {
            continue;
        }
        if (!merge->matched[found] && all->ids != NULL) {
            merge->ids[found] = all->ids[row];
            merge->created[found] = all->created[row];
        }
        merge->matched[found] = true;
        words[row / 64] |= UINT64_C(1) << (row % 64);
        (*count)++;
    }
}

static lake_status identities_of(struct merge *merge, size_t index, struct lance_row_identity *out,
                                 struct lake_error *err)
{
    struct lance_dataset *base = merge->update.base;
    uint64_t rows = base->fragment_rows[index];
    out->ids = base_alloc_array((size_t)rows + 1, sizeof(uint64_t));
    out->created = base_alloc_array((size_t)rows + 1, sizeof(uint64_t));
    return out->ids == NULL || out->created == NULL
               ? base_fail_no_memory(err, (size_t)rows * sizeof(uint64_t))
               : lance_row_ids_of(base->manifest->pb->fragments[index], rows, out, err);
}

static lake_status match_fragment(struct merge *merge, size_t index, uint64_t *words,
                                  uint64_t *count, struct lake_error *err)
{
    struct lance_dataset *base = merge->update.base;
    const struct lance_field *field = &base->manifest->schema.fields[merge->options->key];
    uint64_t row_count = base->fragment_rows[index];
    struct lance_open_fragment *opened = NULL;
    struct lance_field_reader *reader = NULL;
    struct lance_read_counters counters = {0};
    struct lance_row_identity all = {.ids = NULL};
    memset(words, 0, (size_t)((row_count + 63) / 64) * sizeof(*words));
    lake_status status = lance_fragment_open(base, index, &field, 1, &opened, err);
    if (status == LAKE_OK && merge->update.stable) {
        status = identities_of(merge, index, &all, err);
    }
    if (status == LAKE_OK && opened->stored[0]) { /* else all keys are null */
        status = lance_field_reader_new(field, opened->sources[0], false, &counters, &reader, err);
    }
    for (uint64_t start = 0; status == LAKE_OK && reader != NULL && start < row_count;
         start += BATCH_ROWS) {
        struct ArrowArray keys = {.release = NULL};
        status = lance_field_reader_read(
            reader, start, BASE_MIN(row_count - start, (uint64_t)BATCH_ROWS), &keys, err);
        if (status == LAKE_OK) {
            match_rows(merge, &keys, start, opened->deletions, &all, words, count);
            ArrowArrayRelease(&keys);
        }
    }
    lance_field_reader_free(reader);
    lance_open_fragment_unref(opened);
    base_free(all.ids);
    base_free(all.created);
    return status;
}

static lake_status match_all(struct merge *merge, struct lake_error *err)
{
    struct lance_dataset *base = merge->update.base;
    uint64_t *words = NULL;
    lake_status status = lance_words_for(base, &words, err);
    for (size_t i = 0; i < base->manifest->pb->n_fragments && status == LAKE_OK; i++) {
        uint64_t count = 0;
        status = match_fragment(merge, i, words, &count, err);
        if (status == LAKE_OK && count > 0 && !merge->options->keep_matched) {
            status = lance_row_deletes_add(&merge->update.deletes, i, words, err);
        }
    }
    base_free(words);
    return status;
}

/* ---- the batch's rows ---- */

/* Writes the rows of the batch that did, or did not, match. */
static lake_status write_rows(struct merge *merge, bool matched, uint64_t *count,
                              struct lake_error *err)
{
    const struct ArrowSchema *schema = lance_dataset_schema(merge->update.base);
    size_t rows = (size_t)merge->batch->length;
    struct lance_run *runs = base_alloc_array(rows + 1, sizeof(*runs));
    struct ArrowArray part = {.release = NULL};
    size_t run_count = 0;
    if (runs == NULL) {
        return base_fail_no_memory(err, rows * sizeof(*runs));
    }
    for (size_t row = 0; row < rows; row++) {
        if (merge->matched[row] == matched) {
            runs[run_count++] = (struct lance_run){row, 1};
        }
    }
    *count = run_count;
    lake_status status = LAKE_OK;
    if (run_count > 0) {
        status = lance_array_take(schema, merge->batch, runs, run_count, &part, err);
    }
    if (status == LAKE_OK && run_count > 0) {
        status = lance_data_files_write(&merge->update.files, &part, err);
    }
    if (status == LAKE_OK) {
        status = lance_data_files_finish(&merge->update.files, err);
    }
    if (part.release != NULL) {
        ArrowArrayRelease(&part);
    }
    base_free(runs);
    return status;
}

/* The identities of the rows that matched, in the order in which they were written. */
static void keep_identities(struct merge *merge)
{
    struct lance_row_update *update = &merge->update;
    for (int64_t row = 0; update->stable && row < merge->batch->length; row++) {
        if (merge->matched[row]) {
            merge->ids[update->row_count] = merge->ids[row];
            merge->created[update->row_count++] = merge->created[row];
        }
    }
    update->rows.ids = merge->ids;
    update->rows.created = merge->created;
    merge->ids = NULL;
    merge->created = NULL;
}

static lake_status run(struct merge *merge, struct lance_merge *done, bool *keep,
                       struct lake_error *err)
{
    lake_status status = index_batch(merge, err);
    if (status == LAKE_OK) {
        status = match_all(merge, err);
    }
    if (status == LAKE_OK && !merge->options->keep_matched) {
        status = write_rows(merge, true, &done->rows_updated, err);
        keep_identities(merge);
    }
    if (status == LAKE_OK && !merge->options->skip_unmatched) {
        status = write_rows(merge, false, &done->rows_inserted, err);
    }
    if (status == LAKE_OK && done->rows_updated + done->rows_inserted > 0) {
        status = lance_row_update_publish(&merge->update, true, &merge->options->commit, keep,
                                          &done->version, err);
    }
    return status;
}

void lance_merge_options_init(struct lance_merge_options *options)
{
    *options = (struct lance_merge_options){.key = 0};
    lance_commit_options_init(&options->commit);
}

lake_status lance_merge_insert(struct lance_dataset *base, const struct ArrowArray *batch,
                               const struct lance_merge_options *options, struct lance_merge *out,
                               struct lake_error *err)
{
    const struct lance_schema *schema = &base->manifest->schema;
    struct lance_merge done = {.version = lance_dataset_version(base)};
    struct merge merge = {.options = options, .batch = batch};
    bool keep = false;
    if (options->key >= schema->field_count || batch->n_children != (int64_t)schema->field_count ||
        batch->length >= NO_ROW || batch->offset != 0) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a merge needs a batch with the table's %zu columns, of which the key is "
                         "one",
                         schema->field_count);
    }
    if (!key_type_of(schema->fields[options->key].arrow, &merge.type)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "column %s (%s) cannot be the key of a merge",
                         schema->fields[options->key].name,
                         schema->fields[options->key].logical_type);
    }
    merge.key = batch->children[options->key];
    lance_row_update_init(&merge.update, base);
    lake_status status = lance_manifest_check_writable(base->manifest, err);
    if (status == LAKE_OK) {
        status = run(&merge, &done, &keep, err);
    }
    if (status == LAKE_OK) {
        *out = done;
    }
    lance_row_update_fini(&merge.update, keep);
    base_free(merge.slots);
    base_free(merge.matched);
    base_free(merge.ids);
    base_free(merge.created);
    return status;
}
