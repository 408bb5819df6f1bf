/*
 * The next version's manifest: a transaction applied to the newest version. The same transaction is
 * applied again when another writer was faster, so nothing of it is changed here: fragments without
 * an id are copied before they get one.
 */
#include "index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct builder {
    struct storage_store *store;
    const struct lance_manifest *current; /* NULL: none yet */
    const char *storage_version;
    struct base_arena *arena;
    struct lance_next_manifest *next;
    uint64_t next_fragment_id;
};

static lake_status no_memory(struct lake_error *err)
{
    return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "out of memory while a version is published");
}

static bool has_stable_row_ids(const LancePb__Manifest *pb)
{
    return (pb->reader_feature_flags & LANCE_FLAG_STABLE_ROW_IDS) != 0;
}

/* ---- fragments ---- */

/* The next free fragment id: ids are never given twice, not even after a deletion. */
static uint64_t next_fragment_id(const LancePb__Manifest *pb)
{
    uint64_t next = pb->has_max_fragment_id ? (uint64_t)pb->max_fragment_id + 1 : 0;
    for (size_t i = 0; i < pb->n_fragments; i++) {
        next = BASE_MAX(next, pb->fragments[i]->id + 1);
    }
    return next;
}

/* Copies of new fragments, with their ids and row ids, to out[0…]. */
static lake_status add_new(struct builder *builder, LancePb__DataFragment *const *fragments,
                           size_t count, LancePb__DataFragment **out, struct lake_error *err)
{
    LancePb__Manifest *pb = &builder->next->pb;
    if (builder->next_fragment_id + count > UINT32_MAX) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "the table has used up its fragment ids");
    }
    for (size_t i = 0; i < count; i++) {
        LancePb__DataFragment *fragment = base_arena_alloc(builder->arena, sizeof(*fragment));
        if (fragment == NULL) {
            return no_memory(err);
        }
        *fragment = *fragments[i];
        fragment->has_id = true;
        fragment->id = builder->next_fragment_id++;
        if (has_stable_row_ids(pb)) {
            pb->has_next_row_id = true;
            lake_status status =
                lance_row_ids_give(builder->arena, fragment, &pb->next_row_id, pb->version, err);
            if (status != LAKE_OK) {
                return status;
            }
        }
        out[i] = fragment;
    }
    return LAKE_OK;
}

/* What becomes of fragments that are there, by id. */
struct change {
    uint64_t id;
    LancePb__DataFragment *updated; /* NULL: removed */
    size_t group;                   /* of a rewrite */
};

static int compare_changes(const void *a, const void *b)
{
    const struct change *left = a;
    const struct change *right = b;
    return (left->id > right->id) - (left->id < right->id);
}

static struct change *find_change(struct change *changes, size_t count, uint64_t id)
{
    const struct change key = {.id = id};
    return count == 0 ? NULL : bsearch(&key, changes, count, sizeof(key), compare_changes);
}

static struct change *changes_new(struct builder *builder, size_t count)
{
    return base_arena_calloc_array(builder->arena, count + 1, sizeof(struct change));
}

static lake_status gone(struct lake_error *err)
{
    return lake_fail(err, LAKE_ABORTED,
                     "a fragment that was to be changed is gone; do it again from the newest "
                     "version");
}

/* Updates and removes fragments in place, then adds the new ones at the end. */
static lake_status change_fragments(struct builder *builder, struct change *changes, size_t count,
                                    LancePb__DataFragment *const *added, size_t added_count,
                                    struct lake_error *err)
{
    LancePb__Manifest *pb = &builder->next->pb;
    LancePb__DataFragment **all =
        base_arena_calloc_array(builder->arena, pb->n_fragments + added_count + 1, sizeof(*all));
    size_t kept = 0;
    size_t met = 0;
    if (all == NULL) {
        return no_memory(err);
    }
    if (count > 0) {
        qsort(changes, count, sizeof(*changes), compare_changes);
    }
    for (size_t i = 0; i < pb->n_fragments; i++) {
        struct change *change = find_change(changes, count, pb->fragments[i]->id);
        met += change != NULL;
        if (change == NULL || change->updated != NULL) {
            all[kept++] = change == NULL ? pb->fragments[i] : change->updated;
        }
    }
    if (met != count) {
        return gone(err);
    }
    lake_status status = add_new(builder, added, added_count, all + kept, err);
    pb->fragments = all;
    pb->n_fragments = kept + added_count;
    return status;
}

/* Fragments in a new form and fragments that go, beside new ones: what deletes and updates say. */
static lake_status replace_fragments(struct builder *builder, LancePb__DataFragment *const *updated,
                                     size_t updated_count, const uint64_t *removed_ids,
                                     size_t removed_count, LancePb__DataFragment **added,
                                     size_t added_count, struct lake_error *err)
{
    struct change *changes = changes_new(builder, updated_count + removed_count);
    if (changes == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < updated_count; i++) {
        changes[i] = (struct change){.id = updated[i]->id, .updated = updated[i]};
    }
    for (size_t i = 0; i < removed_count; i++) {
        changes[updated_count + i].id = removed_ids[i];
    }
    return change_fragments(builder, changes, updated_count + removed_count, added, added_count,
                            err);
}

static lake_status apply_delete(struct builder *builder, const LancePb__DeleteOperation *op,
                                struct lake_error *err)
{
    return replace_fragments(builder, op->updated_fragments, op->n_updated_fragments,
                             op->deleted_fragment_ids, op->n_deleted_fragment_ids, NULL, 0, err);
}

static lake_status apply_update(struct builder *builder, const LancePb__UpdateOperation *op,
                                struct lake_error *err)
{
    return replace_fragments(builder, op->updated_fragments, op->n_updated_fragments,
                             op->removed_fragment_ids, op->n_removed_fragment_ids,
                             op->new_fragments, op->n_new_fragments, err);
}

/* ---- indices ---- */

static lake_status set_index_section(struct builder *builder, LancePb__IndexSection *section,
                                     struct lake_error *err)
{
    size_t size = lance_pb__index_section__get_packed_size(section);
    uint8_t *bytes = base_arena_alloc(builder->arena, size + 1);
    if (bytes == NULL) {
        return no_memory(err);
    }
    (void)lance_pb__index_section__pack(section, bytes);
    builder->next->index_section =
        section->n_indices == 0 ? (struct lake_bytes){NULL, 0} : (struct lake_bytes){bytes, size};
    return LAKE_OK;
}

static bool has_field(const LancePb__Manifest *pb, int32_t id)
{
    for (size_t i = 0; i < pb->n_fields; i++) {
        if (pb->fields[i]->id == id) {
            return true;
        }
    }
    return false;
}

/* Indices on columns that are no longer there go with them. */
static lake_status drop_orphaned_indices(struct builder *builder, struct lake_error *err)
{
    LancePb__IndexSection *section;
    lake_status status =
        lance_index_section_parse(builder->next->index_section, builder->arena, &section, err);
    if (status != LAKE_OK || section == NULL) {
        return status;
    }
    size_t kept = 0;
    for (size_t i = 0; i < section->n_indices; i++) {
        bool whole = true;
        for (size_t j = 0; j < section->indices[i]->n_fields; j++) {
            whole = whole && has_field(&builder->next->pb, section->indices[i]->fields[j]);
        }
        if (whole) {
            section->indices[kept++] = section->indices[i];
        }
    }
    section->n_indices = kept;
    return set_index_section(builder, section, err);
}

/* ---- rewrite ---- */

struct rewrite {
    const LancePb__RewriteOperation *op;
    struct change *old; /* sorted by id */
    size_t old_count;
    bool *done; /* by group: its new fragments are in place */
};

/* What was rewritten is no longer covered: most indices hold addresses, also where row ids are
 * stable. */
static void clear_bits(const struct rewrite *rewrite, uint64_t *words)
{
    for (size_t i = 0; i < rewrite->old_count; i++) {
        uint64_t id = rewrite->old[i].id;
        words[id / 64] &= ~(UINT64_C(1) << (id % 64));
    }
}

static lake_status rewrite_indices(struct builder *builder, const struct rewrite *rewrite,
                                   struct lake_error *err)
{
    LancePb__IndexSection *section;
    uint64_t max_id = builder->next_fragment_id == 0 ? 0 : builder->next_fragment_id - 1;
    size_t kept = 0;
    lake_status status =
        lance_index_section_parse(builder->next->index_section, builder->arena, &section, err);
    if (status != LAKE_OK || section == NULL) {
        return status;
    }
    for (size_t i = 0; i < section->n_indices && status == LAKE_OK; i++) {
        LancePb__IndexMetadata *index = section->indices[i];
        struct base_buffer bytes;
        uint64_t *words = NULL;
        if (!lance_index_is_system(index) && !index->has_fragment_bitmap) {
            continue; /* it may cover what is rewritten, and cannot be told that it no longer does
                       */
        }
        section->indices[kept++] = index;
        if (lance_index_is_system(index)) {
            continue;
        }
        base_buffer_init(&bytes, LANCE_MAX_MANIFEST_BYTES);
        status = lance_fragment_bitmap_decode(index, max_id, &words, err);
        if (status == LAKE_OK) {
            clear_bits(rewrite, words);
            status = lance_roaring_encode(words, max_id + 1, &bytes, err);
        }
        uint8_t *copy = status == LAKE_OK ? base_arena_alloc(builder->arena, bytes.size + 1) : NULL;
        if (status == LAKE_OK && copy == NULL) {
            status = no_memory(err);
        } else if (status == LAKE_OK) {
            memcpy(copy, bytes.data, bytes.size);
            index->fragment_bitmap = (ProtobufCBinaryData){.len = bytes.size, .data = copy};
        }
        base_free(words);
        base_buffer_fini(&bytes);
    }
    section->n_indices = kept;
    return status == LAKE_OK ? set_index_section(builder, section, err) : status;
}

static lake_status plan_rewrite(struct builder *builder, const LancePb__RewriteOperation *op,
                                struct rewrite *out, size_t *new_count, struct lake_error *err)
{
    size_t count = 0;
    *out = (struct rewrite){.op = op};
    *new_count = 0;
    for (size_t g = 0; g < op->n_groups; g++) {
        count += op->groups[g]->n_old_fragments;
        *new_count += op->groups[g]->n_new_fragments;
    }
    out->old = changes_new(builder, count);
    out->done = base_arena_calloc_array(builder->arena, op->n_groups + 1, sizeof(bool));
    if (out->old == NULL || out->done == NULL) {
        return no_memory(err);
    }
    for (size_t g = 0; g < op->n_groups; g++) {
        for (size_t i = 0; i < op->groups[g]->n_old_fragments; i++) {
            out->old[out->old_count++] =
                (struct change){.id = op->groups[g]->old_fragments[i]->id, .group = g};
        }
    }
    qsort(out->old, out->old_count, sizeof(*out->old), compare_changes);
    return LAKE_OK;
}

static int compare_fragments(const void *a, const void *b)
{
    uint64_t left = (*(LancePb__DataFragment *const *)a)->id;
    uint64_t right = (*(LancePb__DataFragment *const *)b)->id;
    return (left > right) - (left < right);
}

/* Ascending ids, as the reference puts fragments at its every commit and wants them to be found:
 * the new ones come behind those that stay. */
static lake_status apply_rewrite(struct builder *builder, const LancePb__RewriteOperation *op,
                                 struct lake_error *err)
{
    LancePb__Manifest *pb = &builder->next->pb;
    struct rewrite rewrite;
    size_t new_count;
    size_t kept = 0;
    size_t met = 0;
    lake_status status = plan_rewrite(builder, op, &rewrite, &new_count, err);
    if (status != LAKE_OK) {
        return status;
    }
    LancePb__DataFragment **all =
        base_arena_calloc_array(builder->arena, pb->n_fragments + new_count + 1, sizeof(*all));
    if (all == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < pb->n_fragments && status == LAKE_OK; i++) {
        struct change *old = find_change(rewrite.old, rewrite.old_count, pb->fragments[i]->id);
        if (old == NULL) {
            all[kept++] = pb->fragments[i];
            continue;
        }
        met++;
        if (!rewrite.done[old->group]) {
            const LancePb__RewriteGroup *group = op->groups[old->group];
            rewrite.done[old->group] = true;
            status =
                add_new(builder, group->new_fragments, group->n_new_fragments, all + kept, err);
            kept += group->n_new_fragments;
        }
    }
    if (status == LAKE_OK && met != rewrite.old_count) {
        status = gone(err);
    }
    qsort(all, kept, sizeof(LancePb__DataFragment *), compare_fragments);
    pb->fragments = all;
    pb->n_fragments = kept;
    return status == LAKE_OK ? rewrite_indices(builder, &rewrite, err) : status;
}

/* ---- schemas ---- */

static void set_fields(struct builder *builder, LancePb__Field **fields, size_t count)
{
    LancePb__Manifest *pb = &builder->next->pb;
    pb->fields = fields;
    pb->n_fields = count;
    for (size_t i = 0; pb->has_max_allocated_field_id && i < count; i++) {
        pb->max_allocated_field_id = BASE_MAX(pb->max_allocated_field_id, fields[i]->id);
    }
}

static lake_status apply_merge(struct builder *builder, const LancePb__MergeOperation *op,
                               struct lake_error *err)
{
    LancePb__Manifest *pb = &builder->next->pb;
    set_fields(builder, op->schema, op->n_schema);
    pb->fragments = op->fragments;
    pb->n_fragments = op->n_fragments;
    if (op->n_schema_metadata > 0) {
        pb->schema_metadata = op->schema_metadata;
        pb->n_schema_metadata = op->n_schema_metadata;
    }
    return drop_orphaned_indices(builder, err);
}

static bool holds_any(const LancePb__DataFile *file, LancePb__Field *const *fields, size_t count)
{
    for (size_t i = 0; i < file->n_fields; i++) {
        for (size_t j = 0; j < count; j++) {
            if (fields[j]->id == file->fields[i]) {
                return true;
            }
        }
    }
    return false;
}

/* A file that holds none of the columns any more goes, as the reference has it. */
static lake_status drop_orphaned_files(struct builder *builder, struct lake_error *err)
{
    LancePb__Manifest *pb = &builder->next->pb;
    LancePb__DataFragment **all =
        base_arena_calloc_array(builder->arena, pb->n_fragments + 1, sizeof(*all));
    if (all == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < pb->n_fragments; i++) {
        const LancePb__DataFragment *old = pb->fragments[i];
        size_t kept = 0;
        all[i] = pb->fragments[i];
        for (size_t j = 0; j < old->n_files; j++) {
            kept += holds_any(old->files[j], pb->fields, pb->n_fields);
        }
        if (kept == old->n_files) {
            continue;
        }
        all[i] = base_arena_calloc_array(builder->arena, 1, sizeof(*all[i]));
        LancePb__DataFile **files =
            base_arena_calloc_array(builder->arena, kept + 1, sizeof(*files));
        if (all[i] == NULL || files == NULL) {
            return no_memory(err);
        }
        *all[i] = *old;
        all[i]->files = files;
        all[i]->n_files = 0;
        for (size_t j = 0; j < old->n_files; j++) {
            if (holds_any(old->files[j], pb->fields, pb->n_fields)) {
                files[all[i]->n_files++] = old->files[j];
            }
        }
    }
    pb->fragments = all;
    return LAKE_OK;
}

static lake_status apply_project(struct builder *builder, const LancePb__ProjectOperation *op,
                                 struct lake_error *err)
{
    set_fields(builder, op->schema, op->n_schema);
    lake_status status = drop_orphaned_files(builder, err);
    return status == LAKE_OK ? drop_orphaned_indices(builder, err) : status;
}

static lake_status merge_config(struct builder *builder, const LancePb__OverwriteOperation *op,
                                struct lake_error *err)
{
    LancePb__Manifest *pb = &builder->next->pb;
    LancePb__BytesEntry **all = base_arena_calloc_array(
        builder->arena, pb->n_config + op->n_config_upsert_values + 1, sizeof(*all));
    if (all == NULL) {
        return no_memory(err);
    }
    size_t count = 0;
    for (size_t i = 0; i < pb->n_config; i++) {
        bool replaced = false;
        for (size_t j = 0; j < op->n_config_upsert_values; j++) {
            replaced = replaced || base_str_equal(lance_pb_str(pb->config[i]->key),
                                                  lance_pb_str(op->config_upsert_values[j]->key));
        }
        if (!replaced) {
            all[count++] = pb->config[i];
        }
    }
    for (size_t i = 0; i < op->n_config_upsert_values; i++) {
        all[count++] = op->config_upsert_values[i];
    }
    pb->config = all;
    pb->n_config = count;
    return LAKE_OK;
}

static lake_status apply_overwrite(struct builder *builder, const LancePb__OverwriteOperation *op,
                                   struct lake_error *err)
{
    struct lance_next_manifest *next = builder->next;
    LancePb__Manifest *pb = &next->pb;
    if (builder->storage_version != NULL) {
        lance_pb__data_storage_format__init(&next->format);
        next->format.has_file_format = true;
        next->format.file_format = lance_pb_text("lance");
        next->format.has_version = true;
        next->format.version = lance_pb_text(builder->storage_version);
        pb->data_format = &next->format;
    }
    set_fields(builder, op->schema, op->n_schema);
    pb->schema_metadata = op->schema_metadata;
    pb->n_schema_metadata = op->n_schema_metadata;
    next->index_section = (struct lake_bytes){NULL, 0};
    pb->fragments =
        base_arena_calloc_array(builder->arena, op->n_fragments + 1, sizeof(*pb->fragments));
    pb->n_fragments = op->n_fragments;
    if (pb->fragments == NULL) {
        return no_memory(err);
    }
    lake_status status = merge_config(builder, op, err);
    return status == LAKE_OK ? add_new(builder, op->fragments, op->n_fragments, pb->fragments, err)
                             : status;
}

/* ---- restore ---- */

/* The old content under the new number. What must never fall does not. */
static lake_status apply_restore(struct builder *builder, uint64_t version, struct lake_error *err)
{
    struct lance_next_manifest *next = builder->next;
    const LancePb__Manifest newest = next->pb;
    lake_status status = lance_manifest_read(builder->store, builder->current->naming, version,
                                             &next->restored, err);
    if (status == LAKE_NOT_FOUND) {
        return lake_fail_wrap(err, LAKE_NOT_FOUND,
                              "version %" PRIu64 ", which was to be restored, is not there",
                              version);
    }
    if (status == LAKE_OK) {
        status = lance_manifest_check_changeable(next->restored, err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    LancePb__Manifest *pb = &next->pb;
    *pb = *next->restored->pb;
    next->index_section = next->restored->index_section;
    pb->version = newest.version;
    pb->timestamp = newest.timestamp;
    pb->has_branch = newest.has_branch;
    pb->branch = newest.branch;
    pb->has_next_row_id = pb->has_next_row_id || newest.has_next_row_id;
    pb->next_row_id = BASE_MAX(pb->next_row_id, newest.next_row_id);
    builder->next_fragment_id = BASE_MAX(builder->next_fragment_id, next_fragment_id(pb));
    if (newest.has_max_allocated_field_id) {
        pb->max_allocated_field_id =
            pb->has_max_allocated_field_id
                ? BASE_MAX(pb->max_allocated_field_id, newest.max_allocated_field_id)
                : newest.max_allocated_field_id;
        pb->has_max_allocated_field_id = true;
        pb->writer_feature_flags |= newest.writer_feature_flags & LANCE_FLAG_UNIQUE_FIELD_IDS;
    }
    return LAKE_OK;
}

/* ---- the whole ---- */

static void set_flags(LancePb__Manifest *pb)
{
    uint64_t both = 0;
    for (size_t i = 0; i < pb->n_fragments; i++) {
        both |= pb->fragments[i]->deletion_file != NULL ? LANCE_FLAG_DELETIONS : 0;
    }
    both |= pb->n_base_paths > 0 ? LANCE_FLAG_BASE_PATHS : 0;
    const uint64_t computed = LANCE_FLAG_DELETIONS | LANCE_FLAG_BASE_PATHS | LANCE_FLAG_CONFIG;
    pb->reader_feature_flags = (pb->reader_feature_flags & ~computed) | both;
    pb->writer_feature_flags = (pb->writer_feature_flags & ~computed) | both;
    pb->writer_feature_flags |= pb->n_config > 0 ? LANCE_FLAG_CONFIG : 0;
    pb->has_reader_feature_flags = true;
    pb->has_writer_feature_flags = true;
}

/* Now, but never before the version below: `asof` relies on the order. */
static void set_timestamp(LancePb__TableTimestamp *out, const LancePb__TableTimestamp *before)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    lance_pb__table_timestamp__init(out);
    out->has_seconds = true;
    out->has_nanos = true;
    out->seconds = now.tv_sec;
    out->nanos = (int32_t)now.tv_nsec;
    if (before != NULL && (before->seconds > out->seconds ||
                           (before->seconds == out->seconds && before->nanos > out->nanos))) {
        out->seconds = before->seconds;
        out->nanos = before->nanos;
    }
}

static lake_status apply_append(struct builder *builder, const LancePb__AppendOperation *op,
                                struct lake_error *err)
{
    return change_fragments(builder, NULL, 0, op->fragments, op->n_fragments, err);
}

static lake_status apply(struct builder *builder, const LancePb__Transaction *transaction,
                         struct lake_error *err)
{
    switch (lance_transaction_operation(transaction)) {
    case LANCE_OP_APPEND:
        return apply_append(builder, transaction->append, err);
    case LANCE_OP_DELETE:
        return apply_delete(builder, transaction->delete_rows, err);
    case LANCE_OP_OVERWRITE:
        return apply_overwrite(builder, transaction->overwrite, err);
    case LANCE_OP_REWRITE:
        return apply_rewrite(builder, transaction->rewrite, err);
    case LANCE_OP_MERGE:
        return apply_merge(builder, transaction->merge, err);
    case LANCE_OP_RESTORE:
        return apply_restore(builder, transaction->restore->version, err);
    case LANCE_OP_UPDATE:
        return apply_update(builder, transaction->update, err);
    case LANCE_OP_PROJECT:
        return apply_project(builder, transaction->project, err);
    default:
        return lake_fail(err, LAKE_INTERNAL, "operation %" PRIu32 " cannot be applied",
                         lance_transaction_operation(transaction));
    }
}

static void start(struct builder *builder)
{
    struct lance_next_manifest *next = builder->next;
    if (builder->current == NULL) {
        lance_pb__manifest__init(&next->pb);
        next->pb.has_version = true;
        next->pb.version = 1;
        return;
    }
    next->pb = *builder->current->pb; /* fields that are not known travel along */
    next->pb.version++;
    next->index_section = builder->current->index_section;
    builder->next_fragment_id = next_fragment_id(&next->pb);
}

void lance_next_manifest_finish(struct lance_next_manifest *next)
{
    LancePb__Manifest *pb = &next->pb;
    set_flags(pb);
    set_timestamp(&next->timestamp, pb->timestamp);
    pb->timestamp = &next->timestamp;
    lance_pb__writer_version__init(&next->writer);
    next->writer.has_library = true;
    next->writer.library = lance_pb_text("lake");
    next->writer.has_version = true;
    next->writer.version = lance_pb_text(LAKE_VERSION);
    pb->writer_version = &next->writer;
}

lake_status lance_next_manifest_build(struct storage_store *store,
                                      const struct lance_manifest *current,
                                      const LancePb__Transaction *transaction,
                                      const char *storage_version, struct base_arena *arena,
                                      struct lance_next_manifest *out, struct lake_error *err)
{
    struct builder builder = {.store = store,
                              .current = current,
                              .storage_version = storage_version,
                              .arena = arena,
                              .next = out};
    memset(out, 0, sizeof(*out));
    start(&builder);
    lake_status status = apply(&builder, transaction, err);
    if (status != LAKE_OK) {
        return status;
    }
    LancePb__Manifest *pb = &out->pb;
    if (builder.next_fragment_id > 0) {
        pb->has_max_fragment_id = true;
        pb->max_fragment_id = (uint32_t)(builder.next_fragment_id - 1);
    }
    lance_next_manifest_finish(out);
    return LAKE_OK;
}

void lance_next_manifest_fini(struct lance_next_manifest *next)
{
    lance_manifest_unref(next->restored);
    next->restored = NULL;
}
