/*
 * Updated rows: the old ones are deleted by vectors (delete.c), the new ones appended as fragments,
 * in one version. Where row ids are stable, the new rows keep those of the old ones.
 */
#include "table.h"

#include <inttypes.h>
#include <string.h>

#define UPDATE_BATCH_ROWS  16384
#define UPDATE_BATCH_BYTES ((uint64_t)16 << 20) /* as on disk */

/* ---- stable row ids ---- */

static lake_status reserve_rows(struct lance_row_update *update, size_t more,
                                struct lake_error *err)
{
    size_t needed = update->row_count + more;
    if (needed <= update->row_capacity) {
        return LAKE_OK;
    }
    size_t capacity = BASE_MAX(needed, update->row_capacity * 2);
    uint64_t *ids = base_realloc_array(update->rows.ids, capacity, sizeof(*ids));
    if (ids != NULL) {
        update->rows.ids = ids;
    }
    uint64_t *created = base_realloc_array(update->rows.created, capacity, sizeof(*created));
    if (created != NULL) {
        update->rows.created = created;
    }
    if (ids == NULL || created == NULL) {
        return base_fail_no_memory(err, capacity * sizeof(*ids));
    }
    update->row_capacity = capacity;
    return LAKE_OK;
}

/* Remembers who the rows of `words` are. */
static lake_status note_identities(struct lance_row_update *update, size_t fragment_index,
                                   const uint64_t *words, uint64_t count, struct lake_error *err)
{
    const LancePb__DataFragment *fragment = update->base->manifest->pb->fragments[fragment_index];
    uint64_t row_count = update->base->fragment_rows[fragment_index];
    struct lance_row_identity all = {.ids = NULL};
    all.ids = base_alloc_array((size_t)row_count + 1, sizeof(uint64_t));
    all.created = base_alloc_array((size_t)row_count + 1, sizeof(uint64_t));
    lake_status status = all.ids == NULL || all.created == NULL
                             ? base_fail_no_memory(err, (size_t)row_count * sizeof(uint64_t))
                             : reserve_rows(update, (size_t)count, err);
    if (status == LAKE_OK) {
        status = lance_row_ids_of(fragment, row_count, &all, err);
    }
    for (uint64_t row = 0; status == LAKE_OK && row < row_count; row++) {
        if ((words[row / 64] >> (row % 64) & 1) != 0) {
            update->rows.ids[update->row_count] = all.ids[row];
            update->rows.created[update->row_count++] = all.created[row];
        }
    }
    base_free(all.ids);
    base_free(all.created);
    return status;
}

static lake_status give_identities(struct lance_row_update *update, struct base_arena *arena,
                                   LancePb__DataFragment **fragments, struct lake_error *err)
{
    struct lance_row_identity rows = update->rows;
    size_t left = update->row_count;
    lake_status status = LAKE_OK;
    for (size_t i = 0; left > 0 && i < update->files.count && status == LAKE_OK; i++) {
        size_t count = (size_t)fragments[i]->physical_rows;
        if (count > left) {
            return lake_fail(err, LAKE_INTERNAL, "an update wrote more rows than it read");
        }
        status = lance_row_ids_set(arena, fragments[i], &rows, count, err);
        rows.ids += count;
        rows.created += count;
        left -= count;
    }
    return status;
}

/* ---- the two passes ---- */

static lake_status delete_old(struct lance_row_update *update, const struct lance_filter *filters,
                              size_t filter_count, uint64_t *updated, struct lake_error *err)
{
    struct lance_selector *selector = NULL;
    uint64_t *words = NULL;
    lake_status status = lance_words_for(update->base, &words, err);
    if (status == LAKE_OK) {
        status = lance_selector_new(update->base, filters, filter_count, &selector, err);
    }
    for (size_t i = 0; i < update->base->manifest->pb->n_fragments && status == LAKE_OK; i++) {
        uint64_t count = 0;
        status = lance_selector_run(selector, i, words, &count, err);
        if (status == LAKE_OK && count > 0 && update->stable) {
            status = note_identities(update, i, words, count, err);
        }
        if (status == LAKE_OK && count > 0) {
            status = lance_row_deletes_add(&update->deletes, i, words, err);
        }
        *updated += count;
    }
    lance_selector_free(selector);
    base_free(words);
    return status;
}

/* Writes a batch that was changed with `status`, and releases it in every case. */
static lake_status write_changed(struct lance_row_update *update, struct ArrowArray *batch,
                                 int64_t length, lake_status status, struct lake_error *err)
{
    if (status == LAKE_OK && batch->length != length) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "an update of %" PRId64 " rows gave %" PRId64, length, batch->length);
    }
    if (status == LAKE_OK) {
        status = lance_data_files_write(&update->files, batch, err);
    }
    if (batch->release != NULL) {
        ArrowArrayRelease(batch);
    }
    return status;
}

static lake_status write_batch(struct lance_row_update *update, struct lance_task *task,
                               lance_update_change change, void *context, bool *end,
                               struct lake_error *err)
{
    struct ArrowArray batch = {.release = NULL};
    lake_status status = lance_task_next(task, &batch, end, err);
    if (status != LAKE_OK || *end) {
        return status;
    }
    int64_t length = batch.length;
    status = change(context, &batch, err);
    return write_changed(update, &batch, length, status, err);
}

static lake_status write_new(struct lance_row_update *update, const struct lance_filter *filters,
                             size_t filter_count, lance_update_change change, void *context,
                             struct lake_error *err)
{
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    lance_scan_options_init(&options);
    options.column_count = LANCE_ALL_COLUMNS;
    options.filters = filters;
    options.filter_count = filter_count;
    lake_status status = lance_scan_new(update->base, &options, &scan, err);
    while (status == LAKE_OK) {
        struct lance_task *task = NULL;
        bool end = false;
        status = lance_scan_next_task(scan, &task, err);
        if (status != LAKE_OK || task == NULL) {
            break;
        }
        while (status == LAKE_OK && !end) {
            status = write_batch(update, task, change, context, &end, err);
        }
        lance_task_free(task);
    }
    lance_scan_free(scan);
    return status == LAKE_OK ? lance_data_files_finish(&update->files, err) : status;
}

/* ---- the transaction ---- */

static void set_deletes(const struct lance_row_deletes *deletes, LancePb__UpdateOperation *op)
{
    op->n_updated_fragments = deletes->updated_count;
    op->updated_fragments = deletes->updated;
    op->n_removed_fragment_ids = deletes->removed_count;
    op->removed_fragment_ids = deletes->removed;
}

static lake_status rebase(void *context, const struct lance_manifest *current,
                          LancePb__Transaction *transaction, struct lake_error *err)
{
    struct lance_row_update *update = context;
    lake_status status = lance_row_deletes_rebase(&update->deletes, current, err);
    if (status == LAKE_OK) {
        set_deletes(&update->deletes, transaction->update);
    }
    return status;
}

lake_status lance_row_update_publish(struct lance_row_update *update, bool sees_inserts,
                                     const struct lance_commit_options *options, bool *keep,
                                     uint64_t *version, struct lake_error *err)
{
    struct lance_commit_options defaults;
    LancePb__Transaction transaction;
    LancePb__UpdateOperation op;
    struct base_arena *arena = NULL;
    struct lance_manifest *manifest = NULL;
    lance_commit_options_init(&defaults);
    lance_pb__transaction__init(&transaction);
    lance_pb__update_operation__init(&op);
    transaction.update = &op;
    op.has_update_mode = true;
    op.update_mode = 0; /* whole rows */
    struct lance_publication publication = {
        .store = update->base->store,
        .base = update->base->manifest,
        .transaction = &transaction,
        .rebase = rebase,
        .context = update,
        .sees_inserts = sees_inserts,
        .options = options == NULL ? &defaults : options,
    };
    lake_status status = base_arena_new(LANCE_MAX_MANIFEST_BYTES, &arena, err);
    if (status == LAKE_OK) {
        status = lance_data_files_messages(&update->files, 0, arena, &op.new_fragments, err);
        op.n_new_fragments = update->files.count;
    }
    if (status == LAKE_OK && update->stable) {
        status = give_identities(update, arena, op.new_fragments, err);
    }
    if (status == LAKE_OK) {
        status = lance_row_deletes_messages(&update->deletes, err);
    }
    if (status == LAKE_OK) {
        set_deletes(&update->deletes, &op);
        status = BASE_FAULT("lance.update.after_data", err);
    }
    if (status == LAKE_OK) {
        status = lance_publish(&publication, &manifest, keep, err);
    }
    if (status == LAKE_OK) {
        *version = manifest->pb->version;
        lance_dataset_cache_manifest(update->base, manifest);
        lance_manifest_unref(manifest);
    }
    base_arena_free(arena);
    return status;
}

void lance_row_update_init(struct lance_row_update *update, struct lance_dataset *base)
{
    const struct lance_manifest *manifest = base->manifest;
    *update = (struct lance_row_update){
        .base = base,
        .stable = (manifest->pb->reader_feature_flags & LANCE_FLAG_STABLE_ROW_IDS) != 0};
    lance_row_deletes_init(&update->deletes, base);
    lance_data_files_init(
        &update->files, base->store, &manifest->schema, manifest->storage_version,
        lance_profile_of(manifest->config, manifest->config_count, &manifest->schema));
}

void lance_row_update_fini(struct lance_row_update *update, bool keep)
{
    lance_row_deletes_fini(&update->deletes, keep);
    lance_data_files_fini(&update->files, keep);
    base_free(update->rows.ids);
    base_free(update->rows.created);
}

lake_status lance_update(struct lance_dataset *base, const struct lance_filter *filters,
                         size_t filter_count, lance_update_change change, void *context,
                         const struct lance_commit_options *options, struct lance_change *out,
                         struct lake_error *err)
{
    struct lance_change done = {.version = lance_dataset_version(base)};
    struct lance_row_update update;
    bool keep = false;
    lance_row_update_init(&update, base);
    lake_status status = lance_manifest_check_writable(base->manifest, err);
    if (status == LAKE_OK) {
        status = delete_old(&update, filters, filter_count, &done.row_count, err);
    }
    if (status == LAKE_OK && done.row_count > 0) {
        status = write_new(&update, filters, filter_count, change, context, err);
        if (status == LAKE_OK) {
            status = lance_row_update_publish(&update, false, options, &keep, &done.version, err);
        }
    }
    if (status == LAKE_OK) {
        *out = done;
    }
    lance_row_update_fini(&update, keep);
    return status;
}

/* ---- by address ---- */

struct addressed {
    struct lance_addresses addresses;
    lance_update_rows change;
    void *context;
    size_t batch_rows;
};

/* Writes anew the rows of addresses [first, first + count), of one fragment. */
static lake_status write_taken(struct lance_row_update *update, const struct addressed *rows,
                               size_t first, size_t count, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t done = 0; done < count && status == LAKE_OK;) {
        size_t most = BASE_MIN(count - done, rows->batch_rows);
        struct ArrowArray batch = {.release = NULL};
        status =
            lance_take(update->base, LANCE_TAKE_ADDRESSES, rows->addresses.items + first + done,
                       most, NULL, LANCE_ALL_COLUMNS, &batch, err);
        if (status == LAKE_OK) {
            status = rows->change(rows->context, first + done, &batch, err);
            status = write_changed(update, &batch, (int64_t)most, status, err);
        }
        done += most;
    }
    return status;
}

/* In the manifest's order of fragments, in which rows keep their identities. */
static lake_status update_fragments(struct lance_row_update *update, struct addressed *rows,
                                    uint64_t *words, uint64_t *updated, struct lake_error *err)
{
    struct lance_dataset *base = update->base;
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < base->manifest->pb->n_fragments && status == LAKE_OK; i++) {
        uint64_t id = base->manifest->pb->fragments[i]->id;
        size_t first = lance_addresses_from(&rows->addresses, id << 32);
        size_t met = rows->addresses.met;
        uint64_t live = 0;
        status = lance_addresses_mark(base, i, &rows->addresses, words, &live, err);
        size_t count = rows->addresses.met - met;
        if (status != LAKE_OK || count == 0) {
            continue;
        }
        if (update->stable) {
            status = note_identities(update, i, words, live, err);
        }
        if (status == LAKE_OK) {
            status = write_taken(update, rows, first, count, err);
        }
        if (status == LAKE_OK) {
            status = lance_row_deletes_add(&update->deletes, i, words, err);
        }
        *updated += count;
    }
    if (status == LAKE_OK && rows->addresses.met < rows->addresses.count) {
        status = lake_fail(
            err, LAKE_OUT_OF_RANGE, "%zu of the addresses lie in no fragment of version %" PRIu64,
            rows->addresses.count - rows->addresses.met, lance_dataset_version(base));
    }
    return status == LAKE_OK ? lance_data_files_finish(&update->files, err) : status;
}

static lake_status check_ascending(const uint64_t *addresses, size_t count, struct lake_error *err)
{
    for (size_t i = 1; i < count; i++) {
        if (addresses[i - 1] >= addresses[i]) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "the addresses of rows to be updated do not ascend at place %zu", i);
        }
    }
    return LAKE_OK;
}

lake_status lance_update_addresses(struct lance_dataset *base, const uint64_t *addresses,
                                   size_t count, lance_update_rows change, void *context,
                                   const struct lance_commit_options *options,
                                   struct lance_change *out, struct lake_error *err)
{
    struct lance_change done = {.version = lance_dataset_version(base)};
    uint64_t row_bytes = BASE_MAX(lance_dataset_row_bytes(base), (uint64_t)1);
    uint64_t batch_rows = BASE_MIN(UPDATE_BATCH_BYTES / row_bytes, (uint64_t)UPDATE_BATCH_ROWS);
    struct addressed rows = {.addresses = {.items = addresses, .count = count},
                             .change = change,
                             .context = context,
                             .batch_rows = (size_t)BASE_MAX(batch_rows, (uint64_t)1)};
    struct lance_row_update update;
    uint64_t *words = NULL;
    bool keep = false;
    lance_row_update_init(&update, base);
    lake_status status = lance_manifest_check_writable(base->manifest, err);
    if (status == LAKE_OK) {
        status = check_ascending(addresses, count, err);
    }
    if (status == LAKE_OK) {
        status = lance_words_for(base, &words, err);
    }
    if (status == LAKE_OK) {
        status = update_fragments(&update, &rows, words, &done.row_count, err);
    }
    if (status == LAKE_OK && done.row_count > 0) {
        status = lance_row_update_publish(&update, false, options, &keep, &done.version, err);
    }
    if (status == LAKE_OK) {
        *out = done;
    }
    lance_row_update_fini(&update, keep);
    base_free(words);
    return status;
}
