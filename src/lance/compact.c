/*
 * Compaction: runs of small fragments become one each, and fragments with many deleted rows are
 * written anew without them. Rows keep their ids where these are stable; fragments stand in
 * order of their own ids, so that rewritten rows come behind the others.
 *
 * The plan takes neighbours until they have the target number of rows, so a new fragment has less
 * than twice as many, is no candidate again, and what is held in memory (a batch, and the row ids
 * of one group) is bounded. Nothing is changed before the one commit.
 */
#include "table.h"

#include <inttypes.h>
#include <string.h>

#define DEFAULT_TARGET_ROWS     (UINT64_C(1) << 20)
#define DEFAULT_DELETED_PERCENT 10

struct group { /* fragments [first, first + count) of the base */
    size_t first;
    size_t count;
    uint64_t live_rows;
    size_t first_file; /* among the new files */
    size_t file_count;
};

struct compaction {
    struct lance_dataset *base;
    uint64_t target_rows;
    uint32_t deleted_percent;
    const struct lance_compact_options *options;
    struct group *groups;
    size_t group_count;
    struct lance_data_files files;
    struct base_arena *arena; /* messages, row ids */
};

void lance_compact_options_init(struct lance_compact_options *options)
{
    *options = (struct lance_compact_options){.target_rows = DEFAULT_TARGET_ROWS,
                                              .deleted_percent = DEFAULT_DELETED_PERCENT};
    lance_commit_options_init(&options->commit);
}

/* ---- plan ---- */

/* Keeps the group when rewriting it is of use. */
static void close_group(struct compaction *compaction, struct group *open, bool full_of_deleted)
{
    if (open->count > 1 || (open->count == 1 && full_of_deleted)) {
        compaction->groups[compaction->group_count++] = *open;
    }
    *open = (struct group){.count = 0};
}

static lake_status plan(struct compaction *compaction, struct lake_error *err)
{
    struct lance_dataset *base = compaction->base;
    size_t count = base->manifest->pb->n_fragments;
    struct group open = {.count = 0};
    bool open_is_full = false; /* of deleted rows */
    compaction->groups = base_calloc_array(count + 1, sizeof(*compaction->groups));
    if (compaction->groups == NULL) {
        return base_fail_no_memory(err, count * sizeof(*compaction->groups));
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t deleted = 0;
        lake_status status = lance_dataset_deleted_rows(base, i, &deleted, err);
        if (status != LAKE_OK) {
            return status;
        }
        uint64_t rows = base->fragment_rows[i];
        uint64_t live = rows - deleted;
        bool is_full = deleted > 0 && deleted * 100 > rows * compaction->deleted_percent;
        bool is_small = live < compaction->target_rows;
        if (!is_small || open.live_rows >= compaction->target_rows) {
            close_group(compaction, &open, open_is_full);
        }
        if (!is_small && !is_full) {
            continue;
        }
        open.first = open.count == 0 ? i : open.first;
        open_is_full = is_full;
        open.count++;
        open.live_rows += live;
        if (!is_small) {
            close_group(compaction, &open, true);
        }
    }
    close_group(compaction, &open, open_is_full);
    return LAKE_OK;
}

static lake_status plan_by_tiers(struct compaction *compaction, struct lake_error *err)
{
    struct lance_dataset *base = compaction->base;
    struct group group = {.count = 0};
    lake_status status = lance_tiers_find(base, &group.first, &group.count, err);
    for (size_t i = 0; i < group.count && status == LAKE_OK; i++) {
        uint64_t deleted = 0;
        status = lance_dataset_deleted_rows(base, group.first + i, &deleted, err);
        group.live_rows += base->fragment_rows[group.first + i] - deleted;
    }
    if (status != LAKE_OK || group.count == 0) {
        return status;
    }
    compaction->groups = base_calloc_array(1, sizeof(*compaction->groups));
    if (compaction->groups == NULL) {
        return base_fail_no_memory(err, sizeof(*compaction->groups));
    }
    compaction->groups[compaction->group_count++] = group;
    return LAKE_OK;
}

/* ---- rows ---- */

static bool goes_on(const struct lance_compact_options *options)
{
    return options->go_on == NULL || options->go_on(options->context);
}

static lake_status copy_rows(struct compaction *compaction, const struct group *group,
                             struct lake_error *err)
{
    struct lance_dataset *base = compaction->base;
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    struct lance_task *task = NULL;
    lance_scan_options_init(&options);
    options.column_count = LANCE_ALL_COLUMNS;
    options.first_fragment = group->first;
    options.fragment_count = group->count;
    lake_status status = lance_scan_new(base, &options, &scan, err);
    while (status == LAKE_OK) {
        status = lance_scan_next_task(scan, &task, err);
        if (status != LAKE_OK || task == NULL) {
            break;
        }
        bool end = false;
        while (status == LAKE_OK && !end) {
            struct ArrowArray batch = {.release = NULL};
            status = lance_task_next(task, &batch, &end, err);
            if (status == LAKE_OK && !end) {
                status = lance_data_files_write(&compaction->files, &batch, err);
                ArrowArrayRelease(&batch);
            }
            if (status == LAKE_OK && !goes_on(compaction->options)) {
                status = lake_fail(err, LAKE_CANCELLED, "the compaction was told to stop");
            }
        }
        lance_task_free(task);
    }
    lance_scan_free(scan);
    return status;
}

/* ---- stable row ids ---- */

/* Appends the identities of a fragment's live rows behind the first `at`. There is room for all of
 * its rows. */
static lake_status add_identities(struct compaction *compaction, size_t index,
                                  struct lance_row_identity *rows, uint64_t *at,
                                  struct lake_error *err)
{
    const LancePb__DataFragment *fragment = compaction->base->manifest->pb->fragments[index];
    uint64_t row_count = compaction->base->fragment_rows[index];
    struct lance_deletions *deletions = NULL;
    const struct lance_row_identity room = {rows->ids + *at, rows->created + *at,
                                            rows->updated + *at};
    lake_status status = lance_row_ids_of(fragment, row_count, &room, err);
    if (status == LAKE_OK) {
        status = lance_dataset_open_deletions(compaction->base, index, &deletions, err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    uint64_t from = *at;
    for (uint64_t i = 0; i < row_count; i++) {
        if (deletions == NULL || !lance_deletions_has(deletions, i)) {
            rows->ids[*at] = rows->ids[from + i];
            rows->created[*at] = rows->created[from + i];
            rows->updated[*at] = rows->updated[from + i];
            (*at)++;
        }
    }
    lance_deletions_unref(deletions);
    return LAKE_OK;
}

static lake_status keep_identities(struct compaction *compaction, const struct group *group,
                                   LancePb__DataFragment **fragments, struct lake_error *err)
{
    uint64_t most = group->live_rows;
    uint64_t count = 0;
    for (size_t i = 0; i < group->count; i++) {
        most += compaction->base->fragment_rows[group->first + i];
    }
    uint64_t *memory = base_alloc_array(3, (size_t)(most + 1) * sizeof(*memory));
    if (memory == NULL) {
        return base_fail_no_memory(err, (size_t)most * 3 * sizeof(*memory));
    }
    struct lance_row_identity rows = {memory, memory + most, memory + 2 * most};
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < group->count && status == LAKE_OK; i++) {
        status = add_identities(compaction, group->first + i, &rows, &count, err);
    }
    for (size_t i = 0; i < group->file_count && status == LAKE_OK; i++) {
        uint64_t part = fragments[i]->physical_rows;
        if (part > count) {
            status = lake_fail(err, LAKE_INTERNAL, "a compaction wrote more rows than it read");
            break;
        }
        status = lance_row_ids_set(compaction->arena, fragments[i], &rows, (size_t)part, err);
        rows.ids += part;
        rows.created += part;
        rows.updated += part;
        count -= part;
    }
    base_free(memory);
    return status;
}

/* ---- the transaction ---- */

static lake_status make_groups(struct compaction *compaction, LancePb__RewriteOperation *op,
                               struct lake_error *err)
{
    const LancePb__Manifest *pb = compaction->base->manifest->pb;
    bool stable = (pb->reader_feature_flags & LANCE_FLAG_STABLE_ROW_IDS) != 0;
    LancePb__RewriteGroup *items =
        base_arena_calloc_array(compaction->arena, compaction->group_count + 1, sizeof(*items));
    op->groups = base_arena_calloc_array(compaction->arena, compaction->group_count + 1,
                                         sizeof(*op->groups));
    LancePb__DataFragment **fragments;
    if (items == NULL || op->groups == NULL) {
        return base_fail_no_memory(err, compaction->group_count * sizeof(*items));
    }
    lake_status status =
        lance_data_files_messages(&compaction->files, 0, compaction->arena, &fragments, err);
    for (size_t i = 0; i < compaction->group_count && status == LAKE_OK; i++) {
        const struct group *group = &compaction->groups[i];
        lance_pb__rewrite_group__init(&items[i]);
        items[i].old_fragments = pb->fragments + group->first;
        items[i].n_old_fragments = group->count;
        items[i].new_fragments = fragments + group->first_file;
        items[i].n_new_fragments = group->file_count;
        op->groups[op->n_groups++] = &items[i];
        if (stable) {
            status = keep_identities(compaction, group, fragments + group->first_file, err);
        }
    }
    return status;
}

static lake_status publish(struct compaction *compaction,
                           const struct lance_commit_options *options, bool *keep_files,
                           uint64_t *version, struct lake_error *err)
{
    LancePb__Transaction transaction;
    LancePb__RewriteOperation op;
    struct lance_manifest *manifest = NULL;
    lance_pb__transaction__init(&transaction);
    lance_pb__rewrite_operation__init(&op);
    transaction.rewrite = &op;
    struct lance_publication publication = {
        .store = compaction->base->store,
        .base = compaction->base->manifest,
        .transaction = &transaction,
        .options = options,
    };
    lake_status status = make_groups(compaction, &op, err);
    if (status == LAKE_OK) {
        status = lance_publish(&publication, &manifest, keep_files, err);
    }
    if (status == LAKE_OK) {
        *version = manifest->pb->version;
        lance_dataset_cache_manifest(compaction->base, manifest);
        lance_manifest_unref(manifest);
    }
    return status;
}

static lake_status rewrite(struct compaction *compaction, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < compaction->group_count && status == LAKE_OK; i++) {
        struct group *group = &compaction->groups[i];
        group->first_file = compaction->files.count;
        status = copy_rows(compaction, group, err);
        if (status == LAKE_OK) {
            status = lance_data_files_finish(&compaction->files, err);
        }
        group->file_count = compaction->files.count - group->first_file;
    }
    return status == LAKE_OK ? BASE_FAULT("lance.compact.after_data", err) : status;
}

static void describe(const struct compaction *compaction, uint64_t version,
                     struct lance_compaction *out)
{
    *out =
        (struct lance_compaction){.version = version, .fragments_added = compaction->files.count};
    for (size_t i = 0; i < compaction->group_count; i++) {
        const struct group *group = &compaction->groups[i];
        out->fragments_removed += group->count;
        out->rows_rewritten += group->live_rows;
        for (size_t j = 0; j < group->count; j++) {
            out->rows_dropped += compaction->base->fragment_rows[group->first + j];
        }
        out->rows_dropped -= group->live_rows;
    }
}

lake_status lance_compact(struct lance_dataset *base, const struct lance_compact_options *options,
                          struct lance_compaction *out, struct lake_error *err)
{
    struct lance_compact_options defaults;
    const struct lance_manifest *manifest = base->manifest;
    uint64_t version = lance_dataset_version(base);
    bool keep_files = false;
    lance_compact_options_init(&defaults);
    options = options == NULL ? &defaults : options;
    struct compaction compaction = {
        .base = base,
        .target_rows = options->target_rows == 0 ? DEFAULT_TARGET_ROWS : options->target_rows,
        .deleted_percent = options->deleted_percent,
        .options = options,
    };
    lance_data_files_init(
        &compaction.files, base->store, &manifest->schema, manifest->storage_version,
        lance_profile_of(manifest->config, manifest->config_count, &manifest->schema));
    compaction.files.max_file_rows = UINT64_MAX; /* a group is one file */
    lake_status status = lance_manifest_check_writable(manifest, err);
    if (status == LAKE_OK) {
        status = base_arena_new(LANCE_MAX_MANIFEST_BYTES, &compaction.arena, err);
    }
    if (status == LAKE_OK) {
        status = options->tiers ? plan_by_tiers(&compaction, err) : plan(&compaction, err);
    }
    if (status == LAKE_OK && compaction.group_count > 0) {
        status = rewrite(&compaction, err);
        if (status == LAKE_OK) {
            status = publish(&compaction, &options->commit, &keep_files, &version, err);
        }
    }
    if (status == LAKE_OK) {
        describe(&compaction, version, out);
    }
    lance_data_files_fini(&compaction.files, keep_files);
    base_arena_free(compaction.arena);
    base_free(compaction.groups);
    return status;
}
