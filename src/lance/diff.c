/*
 * What makes two versions of a dataset differ, told from their fragments and deletion vectors: no
 * row is read.
 */
#include "table.h"

#include <stdlib.h>
#include <string.h>

struct numbered {
    uint64_t id;
    size_t index; /* in the manifest */
};

struct side {
    struct lance_dataset *dataset;
    struct numbered *fragments; /* by id */
    size_t count;
};

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = ((const struct numbered *)a)->id;
    uint64_t y = ((const struct numbered *)b)->id;
    return (x > y) - (x < y);
}

static lake_status side_init(struct side *side, struct lance_dataset *dataset,
                             struct lake_error *err)
{
    const LancePb__Manifest *pb = dataset->manifest->pb;
    side->dataset = dataset;
    side->count = pb->n_fragments;
    side->fragments = base_alloc_array(side->count + 1, sizeof(*side->fragments));
    if (side->fragments == NULL) {
        return base_fail_no_memory(err, side->count * sizeof(*side->fragments));
    }
    for (size_t i = 0; i < side->count; i++) {
        side->fragments[i] = (struct numbered){pb->fragments[i]->id, i};
    }
    qsort(side->fragments, side->count, sizeof(*side->fragments), compare_ids);
    return LAKE_OK;
}

static bool same_file(const LancePb__DataFile *a, const LancePb__DataFile *b)
{
    return base_str_equal(lance_pb_str(a->path), lance_pb_str(b->path)) &&
           a->n_fields == b->n_fields &&
           (a->n_fields == 0 ||
            memcmp(a->fields, b->fields, a->n_fields * sizeof(*a->fields)) == 0);
}

/* How many of `a`'s files `b` has, too. */
static size_t common_files(const LancePb__DataFragment *a, const LancePb__DataFragment *b)
{
    size_t count = 0;
    for (size_t i = 0; i < a->n_files; i++) {
        size_t j = 0;
        while (j < b->n_files && !same_file(a->files[i], b->files[j])) {
            j++;
        }
        count += j < b->n_files;
    }
    return count;
}

static lake_status live_rows(const struct side *side, size_t at, uint64_t *out,
                             struct lake_error *err)
{
    uint64_t deleted = 0;
    size_t index = side->fragments[at].index;
    lake_status status = lance_dataset_deleted_rows(side->dataset, index, &deleted, err);
    if (status == LAKE_OK) {
        *out = side->dataset->fragment_rows[index] - deleted;
    }
    return status;
}

/* One fragment of both versions, of the same rows: those deleted in one of them only. */
static lake_status compare_deletions(const struct side *from, size_t from_at, const struct side *to,
                                     size_t to_at, struct lance_diff *out, struct lake_error *err)
{
    struct lance_deletions *before = NULL;
    struct lance_deletions *after = NULL;
    size_t from_index = from->fragments[from_at].index;
    size_t to_index = to->fragments[to_at].index;
    uint64_t rows =
        BASE_MIN(from->dataset->fragment_rows[from_index], to->dataset->fragment_rows[to_index]);
    lake_status status = lance_dataset_open_deletions(from->dataset, from_index, &before, err);
    if (status == LAKE_OK) {
        status = lance_dataset_open_deletions(to->dataset, to_index, &after, err);
    }
    for (uint64_t word = 0; status == LAKE_OK && word < (rows + 63) / 64; word++) {
        uint64_t was = before == NULL ? 0 : before->words[word];
        uint64_t is = after == NULL ? 0 : after->words[word];
        out->rows_removed += (uint64_t)__builtin_popcountll(is & ~was);
        out->rows_added += (uint64_t)__builtin_popcountll(was & ~is);
    }
    lance_deletions_unref(after);
    lance_deletions_unref(before);
    return status;
}

static lake_status compare_fragment(const struct side *from, size_t from_at, const struct side *to,
                                    size_t to_at, struct lance_diff *out, struct lake_error *err)
{
    const LancePb__DataFragment *before =
        from->dataset->manifest->pb->fragments[from->fragments[from_at].index];
    const LancePb__DataFragment *after =
        to->dataset->manifest->pb->fragments[to->fragments[to_at].index];
    size_t common = common_files(before, after);
    struct lance_diff changed = *out;
    uint64_t gone = 0;
    uint64_t live = 0;
    lake_status status = live_rows(from, from_at, &gone, err);
    if (status == LAKE_OK) {
        status = live_rows(to, to_at, &live, err);
    }
    if (status == LAKE_OK && common == 0) { /* the number was given again */
        changed.rows_removed += gone;
        changed.rows_added += live;
    } else if (status == LAKE_OK) {
        status = compare_deletions(from, from_at, to, to_at, &changed, err);
        if (common < before->n_files || common < after->n_files) {
            changed.rows_rewritten += live - (changed.rows_added - out->rows_added);
        }
    }
    if (status == LAKE_OK) {
        bool differs = changed.rows_added != out->rows_added ||
                       changed.rows_removed != out->rows_removed || common < before->n_files ||
                       common < after->n_files;
        changed.fragments_changed += differs;
        *out = changed;
    }
    return status;
}

lake_status lance_diff(struct lance_dataset *from, struct lance_dataset *to, struct lance_diff *out,
                       struct lake_error *err)
{
    struct side before = {.count = 0};
    struct side after = {.count = 0};
    struct lance_diff diff = {0};
    size_t i = 0;
    size_t j = 0;
    lake_status status = side_init(&before, from, err);
    if (status == LAKE_OK) {
        status = side_init(&after, to, err);
    }
    while (status == LAKE_OK && (i < before.count || j < after.count)) {
        uint64_t rows = 0;
        if (j == after.count ||
            (i < before.count && before.fragments[i].id < after.fragments[j].id)) {
            status = live_rows(&before, i++, &rows, err);
            diff.rows_removed += rows;
            diff.fragments_removed++;
        } else if (i == before.count || after.fragments[j].id < before.fragments[i].id) {
            status = live_rows(&after, j++, &rows, err);
            diff.rows_added += rows;
            diff.fragments_added++;
        } else {
            status = compare_fragment(&before, i++, &after, j++, &diff, err);
        }
    }
    if (status == LAKE_OK) {
        *out = diff;
    }
    base_free(after.fragments);
    base_free(before.fragments);
    return status;
}

/* ---- operations ---- */

static const char *name_of(uint32_t operation)
{
    static const struct {
        uint32_t operation;
        const char *name;
    } names[] = {{LANCE_OP_APPEND, "append"},
                 {LANCE_OP_DELETE, "delete"},
                 {LANCE_OP_OVERWRITE, "overwrite"},
                 {LANCE_OP_CREATE_INDEX, "create_index"},
                 {LANCE_OP_REWRITE, "rewrite"},
                 {LANCE_OP_MERGE, "merge"},
                 {LANCE_OP_RESTORE, "restore"},
                 {LANCE_OP_RESERVE_FRAGMENTS, "reserve_fragments"},
                 {LANCE_OP_UPDATE, "update"},
                 {LANCE_OP_PROJECT, "project"},
                 {LANCE_OP_UPDATE_CONFIG, "update_config"},
                 {LANCE_OP_DATA_REPLACEMENT, "data_replacement"},
                 {LANCE_OP_CLONE, "clone"}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(names); i++) {
        if (names[i].operation == operation) {
            return names[i].name;
        }
    }
    return "unknown";
}

lake_status lance_dataset_operation(const struct lance_dataset *dataset, const char **out,
                                    struct lake_error *err)
{
    struct base_arena *arena = NULL;
    LancePb__Transaction *transaction = NULL;
    lake_status status = base_arena_new(LANCE_MAX_MANIFEST_BYTES, &arena, err);
    if (status == LAKE_OK) {
        status =
            lance_transaction_read(dataset->store, dataset->manifest, arena, &transaction, err);
    }
    if (status == LAKE_OK) {
        *out = name_of(lance_transaction_operation(transaction));
    } else if (status == LAKE_NOT_FOUND || status == LAKE_DATA_LOSS) {
        *out = "unknown";
        status = LAKE_OK;
    }
    base_arena_free(arena);
    return status;
}
