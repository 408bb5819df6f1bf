/*
 * Deleted rows: deletion files for fragments that keep some rows, no fragment where none is left.
 *
 * The new vectors are written before the commit. When others deleted rows of the same fragments
 * meanwhile, the rows that are ours are what our vector has more than the one it was made from;
 * they are put on top of theirs, unless a row is in both (conflict.c, LANCE_REBASE_ROWS).
 */
#include "table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARRAY_ROWS     5000 /* as the reference: above, a bitmap */
#define MAX_DELETION_BYTES ((size_t)600 << 20)

/* ---- deletion files ---- */

static lake_status encode_array(const uint64_t *words, uint64_t row_count, uint64_t deleted,
                                struct base_buffer *out, struct lake_error *err)
{
    struct ArrowSchema schema = {.release = NULL};
    struct ArrowArray rows = {.release = NULL};
    struct arrow_batch *batch = NULL;
    lake_status status = arrow_type_parse(LAKE_STR("struct<row_id: uint32!>"), "", &schema, err);
    if (status != LAKE_OK) {
        return status;
    }
    ArrowErrorCode code = ArrowArrayInitFromSchema(&rows, &schema, NULL);
    if (code == NANOARROW_OK) {
        code = ArrowArrayStartAppending(&rows);
    }
    if (code == NANOARROW_OK) {
        code = ArrowArrayReserve(rows.children[0], (int64_t)deleted);
    }
    for (uint64_t row = 0; row < row_count && code == NANOARROW_OK; row++) {
        if ((words[row / 64] >> (row % 64) & 1) != 0) {
            code = ArrowArrayAppendUInt(rows.children[0], row);
            rows.length++;
        }
    }
    if (code == NANOARROW_OK) {
        code = ArrowArrayFinishBuildingDefault(&rows, NULL);
    }
    if (code != NANOARROW_OK) {
        status = base_fail_no_memory(err, (size_t)deleted * sizeof(uint32_t));
        if (rows.release != NULL) {
            ArrowArrayRelease(&rows);
        }
    } else {
        status = arrow_batch_new(&rows, &batch, err);
    }
    if (status == LAKE_OK) {
        status = arrow_ipc_file_append(&schema, batch, out, err);
    }
    if (batch != NULL) {
        arrow_batch_unref(batch);
    }
    ArrowSchemaRelease(&schema);
    return status;
}

/* Writes a fragment's vector, durable when it returns, and fills its message. */
static lake_status write_vector(struct storage_store *store, uint64_t fragment_id,
                                uint64_t read_version, const uint64_t *words, uint64_t row_count,
                                LancePb__DeletionFile *out, struct lake_error *err)
{
    char key[LANCE_DELETION_KEY_BYTES];
    struct base_buffer bytes;
    uint64_t deleted = 0;
    for (uint64_t i = 0; i < (row_count + 63) / 64; i++) {
        deleted += (uint64_t)__builtin_popcountll(words[i]);
    }
    lance_pb__deletion_file__init(out);
    out->has_file_type = out->has_read_version = out->has_id = out->has_num_deleted_rows = true;
    out->file_type = deleted > MAX_ARRAY_ROWS ? 1 : 0;
    out->read_version = read_version;
    out->num_deleted_rows = deleted;
    base_buffer_init(&bytes, MAX_DELETION_BYTES);
    lake_status status = base_random_bytes(&out->id, sizeof(out->id), err);
    if (status == LAKE_OK) {
        status = out->file_type == 1 ? lance_roaring_encode(words, row_count, &bytes, err)
                                     : encode_array(words, row_count, deleted, &bytes, err);
    }
    if (status == LAKE_OK) {
        lance_deletion_key(fragment_id, out, key);
        status = storage_put(store, base_str_of(key), base_buffer_view(&bytes), err);
    }
    base_buffer_fini(&bytes);
    return status;
}

/* ---- what is deleted ---- */

void lance_row_deletes_init(struct lance_row_deletes *deletes, struct lance_dataset *base)
{
    *deletes =
        (struct lance_row_deletes){.dataset = base, .basis = lance_manifest_ref(base->manifest)};
}

static void remove_file(struct lance_row_deletes *deletes, const struct lance_row_delete *item)
{
    char key[LANCE_DELETION_KEY_BYTES];
    if (item->has_file) {
        lance_deletion_key(item->fragment.id, &item->file, key);
        (void)storage_remove(deletes->dataset->store, base_str_of(key), NULL);
    }
}

void lance_row_deletes_fini(struct lance_row_deletes *deletes, bool keep)
{
    for (size_t i = 0; i < deletes->count && !keep; i++) {
        remove_file(deletes, &deletes->items[i]);
    }
    lance_manifest_unref(deletes->basis);
    base_free(deletes->items);
    base_free(deletes->updated);
    base_free(deletes->removed);
}

/* The vector of a fragment as a manifest has it; *out NULL: nothing is deleted. */
static lake_status read_vector(struct lance_row_deletes *deletes,
                               const LancePb__DataFragment *fragment, uint64_t row_count,
                               struct lance_deletions **out, struct lake_error *err)
{
    struct lance_place place;
    *out = NULL;
    if (fragment->deletion_file == NULL) {
        return LAKE_OK;
    }
    lake_status status = lance_dataset_place_deletions(deletes->dataset, fragment, &place, err);
    return status == LAKE_OK ? lance_deletions_read(place.store, fragment->id,
                                                    fragment->deletion_file, row_count, out, err)
                             : status;
}

/* Sets what becomes of `basis`, a fragment of the basis, when exactly `words` are deleted. */
static lake_status set_item(struct lance_row_deletes *deletes, struct lance_row_delete *item,
                            const LancePb__DataFragment *basis, const uint64_t *words,
                            uint64_t row_count, struct lake_error *err)
{
    uint64_t deleted = 0;
    struct lance_row_delete made = {.basis = basis, .fragment = *basis, .row_count = row_count};
    for (uint64_t i = 0; i < (row_count + 63) / 64; i++) {
        deleted += (uint64_t)__builtin_popcountll(words[i]);
    }
    if (deleted < row_count) {
        lake_status status = write_vector(deletes->dataset->store, basis->id,
                                          deletes->dataset->manifest->pb->version, words, row_count,
                                          &made.file, err);
        if (status != LAKE_OK) {
            return status;
        }
        made.has_file = true;
    }
    *item = made;
    return LAKE_OK;
}

lake_status lance_row_deletes_add(struct lance_row_deletes *deletes, size_t fragment_index,
                                  uint64_t *words, struct lake_error *err)
{
    const LancePb__DataFragment *fragment = deletes->basis->pb->fragments[fragment_index];
    uint64_t row_count = deletes->dataset->fragment_rows[fragment_index];
    struct lance_deletions *before = NULL;
    if (deletes->count == deletes->capacity) {
        size_t capacity = deletes->capacity == 0 ? 8 : deletes->capacity * 2;
        struct lance_row_delete *items =
            base_realloc_array(deletes->items, capacity, sizeof(*items));
        if (items == NULL) {
            return base_fail_no_memory(err, capacity * sizeof(*items));
        }
        deletes->items = items;
        deletes->capacity = capacity;
    }
    lake_status status =
        lance_dataset_open_deletions(deletes->dataset, fragment_index, &before, err);
    if (status != LAKE_OK) {
        return status;
    }
    for (size_t i = 0; before != NULL && i < (row_count + 63) / 64; i++) {
        words[i] |= before->words[i];
    }
    lance_deletions_unref(before);
    status = set_item(deletes, &deletes->items[deletes->count], fragment, words, row_count, err);
    if (status == LAKE_OK) {
        deletes->count++;
    }
    return status;
}

lake_status lance_row_deletes_messages(struct lance_row_deletes *deletes, struct lake_error *err)
{
    LancePb__DataFragment **updated =
        base_realloc_array(deletes->updated, deletes->count + 1, sizeof(*updated));
    if (updated != NULL) {
        deletes->updated = updated;
    }
    uint64_t *removed = base_realloc_array(deletes->removed, deletes->count + 1, sizeof(*removed));
    if (removed != NULL) {
        deletes->removed = removed;
    }
    if (updated == NULL || removed == NULL) {
        return base_fail_no_memory(err, deletes->count * sizeof(*updated));
    }
    deletes->updated_count = 0;
    deletes->removed_count = 0;
    for (size_t i = 0; i < deletes->count; i++) {
        struct lance_row_delete *item = &deletes->items[i];
        if (item->has_file) {
            item->fragment.deletion_file = &item->file;
            updated[deletes->updated_count++] = &item->fragment;
        } else {
            removed[deletes->removed_count++] = item->fragment.id;
        }
    }
    return LAKE_OK;
}

/* ---- on top of what others deleted ---- */

static bool same_deletions(const LancePb__DataFragment *a, const LancePb__DataFragment *b)
{
    const LancePb__DeletionFile *left = a->deletion_file;
    const LancePb__DeletionFile *right = b->deletion_file;
    return left == NULL || right == NULL
               ? left == right
               : left->id == right->id && left->read_version == right->read_version;
}

static bool same_files(const LancePb__DataFragment *a, const LancePb__DataFragment *b)
{
    bool same = a->n_files == b->n_files;
    for (size_t i = 0; same && i < a->n_files; i++) {
        const LancePb__DataFile *left = a->files[i];
        const LancePb__DataFile *right = b->files[i];
        same = base_str_equal(lance_pb_str(left->path), lance_pb_str(right->path)) &&
               left->n_fields == right->n_fields &&
               memcmp(left->fields, right->fields, left->n_fields * sizeof(int32_t)) == 0;
    }
    return same;
}

static lake_status not_apart(uint64_t fragment_id, struct lake_error *err)
{
    return lake_fail(err, LAKE_ABORTED,
                     "rows of fragment %" PRIu64 " were changed by another writer meanwhile; do it "
                     "again from the newest version",
                     fragment_id);
}

/* words = theirs + (ours - base); false when a row of ours is also one of theirs. */
static bool merge_words(const struct lance_deletions *base, const struct lance_deletions *theirs,
                        uint64_t *words, uint64_t row_count)
{
    uint64_t both = 0;
    for (size_t i = 0; i < (row_count + 63) / 64; i++) {
        uint64_t before = base == NULL ? 0 : base->words[i];
        uint64_t other = theirs == NULL ? 0 : theirs->words[i];
        uint64_t own = words[i] & ~before;
        both |= own & other & ~before;
        words[i] = own | other;
    }
    return both == 0;
}

static lake_status rebase_item(struct lance_row_deletes *deletes, struct lance_row_delete *item,
                               const LancePb__DataFragment *theirs, struct lake_error *err)
{
    struct lance_deletions *base = NULL;
    struct lance_deletions *other = NULL;
    struct lance_deletions *own = NULL;
    const struct lance_row_delete old = *item;
    uint64_t id = theirs->id;
    bool same = same_deletions(item->basis, theirs);
    if (!same_files(item->basis, theirs) || (!same && !item->has_file)) {
        return not_apart(id, err);
    }
    if (same) {
        item->basis = theirs;
        item->fragment = *theirs;
        return LAKE_OK;
    }
    lake_status status = read_vector(deletes, item->basis, item->row_count, &base, err);
    if (status == LAKE_OK) {
        status = read_vector(deletes, theirs, item->row_count, &other, err);
    }
    if (status == LAKE_OK) {
        status = lance_deletions_read(deletes->dataset->store, id, &item->file, item->row_count,
                                      &own, err);
    }
    if (status == LAKE_OK && !merge_words(base, other, own->words, item->row_count)) {
        status = not_apart(id, err);
    }
    if (status == LAKE_OK) {
        status = set_item(deletes, item, theirs, own->words, item->row_count, err);
    }
    if (status == LAKE_OK) {
        remove_file(deletes, &old); /* no version refers to it, and none will */
    }
    lance_deletions_unref(base);
    lance_deletions_unref(other);
    lance_deletions_unref(own);
    return status;
}

lake_status lance_row_deletes_rebase(struct lance_row_deletes *deletes,
                                     const struct lance_manifest *current, struct lake_error *err)
{
    const LancePb__Manifest *pb = current->pb;
    size_t at = 0; /* both lists are in nearly the same order */
    for (size_t i = 0; i < deletes->count; i++) {
        uint64_t id = deletes->items[i].fragment.id;
        const LancePb__DataFragment *theirs = NULL;
        for (size_t j = 0; j < pb->n_fragments && theirs == NULL; j++) {
            theirs = pb->fragments[at]->id == id ? pb->fragments[at] : NULL;
            at = at + 1 == pb->n_fragments ? 0 : at + 1;
        }
        lake_status status = theirs == NULL ? not_apart(id, err)
                                            : rebase_item(deletes, &deletes->items[i], theirs, err);
        if (status != LAKE_OK) {
            return status;
        }
    }
    struct lance_manifest *before = deletes->basis;
    deletes->basis = lance_manifest_ref((struct lance_manifest *)(uintptr_t)current);
    lance_manifest_unref(before);
    return lance_row_deletes_messages(deletes, err);
}

/* ---- the operation ---- */

static lake_status rebase_delete(void *context, const struct lance_manifest *current,
                                 LancePb__Transaction *transaction, struct lake_error *err)
{
    struct lance_row_deletes *deletes = context;
    lake_status status = lance_row_deletes_rebase(deletes, current, err);
    if (status == LAKE_OK) {
        LancePb__DeleteOperation *op = transaction->delete_rows;
        op->n_updated_fragments = deletes->updated_count;
        op->updated_fragments = deletes->updated;
        op->n_deleted_fragment_ids = deletes->removed_count;
        op->deleted_fragment_ids = deletes->removed;
    }
    return status;
}

static lake_status publish_delete(struct lance_row_deletes *deletes,
                                  const struct lance_commit_options *options, bool *keep,
                                  uint64_t *version, struct lake_error *err)
{
    struct lance_commit_options defaults;
    LancePb__Transaction transaction;
    LancePb__DeleteOperation op;
    struct lance_manifest *manifest = NULL;
    lance_commit_options_init(&defaults);
    lance_pb__transaction__init(&transaction);
    lance_pb__delete_operation__init(&op);
    transaction.delete_rows = &op;
    op.has_predicate = true; /* text of the reference's own; the rows are what counts */
    op.predicate = lance_pb_text("");
    lake_status status = lance_row_deletes_messages(deletes, err);
    if (status != LAKE_OK) {
        return status;
    }
    op.n_updated_fragments = deletes->updated_count;
    op.updated_fragments = deletes->updated;
    op.n_deleted_fragment_ids = deletes->removed_count;
    op.deleted_fragment_ids = deletes->removed;
    struct lance_publication publication = {
        .store = deletes->dataset->store,
        .base = deletes->dataset->manifest,
        .transaction = &transaction,
        .rebase = rebase_delete,
        .context = deletes,
        .options = options == NULL ? &defaults : options,
    };
    status = BASE_FAULT("lance.delete.after_vectors", err);
    if (status == LAKE_OK) {
        status = lance_publish(&publication, &manifest, keep, err);
    }
    if (status == LAKE_OK) {
        *version = manifest->pb->version;
        lance_dataset_cache_manifest(deletes->dataset, manifest);
        lance_manifest_unref(manifest);
    }
    return status;
}

lake_status lance_words_for(const struct lance_dataset *dataset, uint64_t **out,
                            struct lake_error *err)
{
    uint64_t most = 0;
    for (size_t i = 0; i < dataset->manifest->pb->n_fragments; i++) {
        most = BASE_MAX(most, dataset->fragment_rows[i]);
    }
    *out = base_calloc_array((size_t)(most / 64) + 1, sizeof(uint64_t));
    return *out != NULL ? LAKE_OK : base_fail_no_memory(err, (size_t)(most / 8));
}

lake_status lance_delete(struct lance_dataset *base, const struct lance_filter *filters,
                         size_t filter_count, const struct lance_commit_options *options,
                         struct lance_change *out, struct lake_error *err)
{
    struct lance_row_deletes deletes;
    struct lance_selector *selector = NULL;
    struct lance_change change = {.version = lance_dataset_version(base)};
    uint64_t *words = NULL;
    bool keep = false;
    lance_row_deletes_init(&deletes, base);
    lake_status status = lance_manifest_check_changeable(base->manifest, err);
    if (status == LAKE_OK) {
        status = lance_words_for(base, &words, err);
    }
    if (status == LAKE_OK) {
        status = lance_selector_new(base, filters, filter_count, &selector, err);
    }
    for (size_t i = 0; i < base->manifest->pb->n_fragments && status == LAKE_OK; i++) {
        uint64_t count = 0;
        status = lance_selector_run(selector, i, words, &count, err);
        if (status == LAKE_OK && count > 0) {
            status = lance_row_deletes_add(&deletes, i, words, err);
        }
        change.row_count += count;
    }
    if (status == LAKE_OK && change.row_count > 0) {
        status = publish_delete(&deletes, options, &keep, &change.version, err);
    }
    if (status == LAKE_OK) {
        *out = change;
    }
    lance_row_deletes_fini(&deletes, keep);
    lance_selector_free(selector);
    base_free(words);
    return status;
}

/* ---- by address ---- */

static int compare_addresses(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static lake_status sort_addresses(const uint64_t *addresses, size_t count,
                                  struct lance_addresses *out, struct lake_error *err)
{
    uint64_t *items = base_alloc_array(count + 1, sizeof(*items));
    if (items == NULL) {
        return base_fail_no_memory(err, count * sizeof(*items));
    }
    out->count = count;
    if (count > 0) {
        memcpy(items, addresses, count * sizeof(*items));
        qsort(items, count, sizeof(*items), compare_addresses);
    }
    out->items = items;
    return LAKE_OK;
}

size_t lance_addresses_from(const struct lance_addresses *addresses, uint64_t address)
{
    size_t low = 0;
    size_t high = addresses->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (addresses->items[middle] < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

lake_status lance_addresses_mark(struct lance_dataset *base, size_t fragment_index,
                                 struct lance_addresses *addresses, uint64_t *words,
                                 uint64_t *marked, struct lake_error *err)
{
    uint64_t id = base->manifest->pb->fragments[fragment_index]->id;
    uint64_t row_count = base->fragment_rows[fragment_index];
    struct lance_deletions *before = NULL;
    lake_status status = LAKE_OK;
    memset(words, 0, (size_t)((row_count + 63) / 64) * sizeof(*words));
    *marked = 0;
    for (size_t i = lance_addresses_from(addresses, id << 32);
         i < addresses->count && addresses->items[i] >> 32 == id; i++) {
        uint64_t row = addresses->items[i] & UINT32_MAX;
        if (row >= row_count) {
            return lake_fail(err, LAKE_OUT_OF_RANGE,
                             "fragment %" PRIu64 " has %" PRIu64 " rows, not a row %" PRIu64, id,
                             row_count, row);
        }
        *marked += (words[row / 64] >> (row % 64) & 1) == 0;
        words[row / 64] |= UINT64_C(1) << (row % 64);
        addresses->met++;
    }
    if (*marked > 0) {
        status = lance_dataset_open_deletions(base, fragment_index, &before, err);
    }
    for (size_t i = 0; before != NULL && i < (row_count + 63) / 64; i++) {
        *marked -= (uint64_t)__builtin_popcountll(words[i] & before->words[i]);
        words[i] &= ~before->words[i];
    }
    lance_deletions_unref(before);
    return status;
}

lake_status lance_delete_addresses(struct lance_dataset *base, const uint64_t *addresses,
                                   size_t count, const struct lance_commit_options *options,
                                   struct lance_change *out, struct lake_error *err)
{
    struct lance_row_deletes deletes;
    struct lance_change change = {.version = lance_dataset_version(base)};
    struct lance_addresses sorted = {.items = NULL};
    uint64_t *words = NULL;
    bool keep = false;
    lance_row_deletes_init(&deletes, base);
    lake_status status = lance_manifest_check_changeable(base->manifest, err);
    if (status == LAKE_OK) {
        status = sort_addresses(addresses, count, &sorted, err);
    }
    if (status == LAKE_OK) {
        status = lance_words_for(base, &words, err);
    }
    for (size_t i = 0; i < base->manifest->pb->n_fragments && status == LAKE_OK; i++) {
        uint64_t marked = 0;
        status = lance_addresses_mark(base, i, &sorted, words, &marked, err);
        if (status == LAKE_OK && marked > 0) {
            status = lance_row_deletes_add(&deletes, i, words, err);
        }
        change.row_count += marked;
    }
    if (status == LAKE_OK && sorted.met < count) {
        status = lake_fail(err, LAKE_OUT_OF_RANGE,
                           "%zu of the addresses lie in no fragment of version %" PRIu64,
                           count - sorted.met, lance_dataset_version(base));
    }
    if (status == LAKE_OK && change.row_count > 0) {
        status = publish_delete(&deletes, options, &keep, &change.version, err);
    }
    if (status == LAKE_OK) {
        *out = change;
    }
    lance_row_deletes_fini(&deletes, keep);
    base_free(words);
    base_free((void *)(uintptr_t)sorted.items);
    return status;
}
