/*
 * Versions that change no data: columns dropped, renamed or added as nulls, and an old version
 * restored. Data files keep the ids of dropped columns; a column that no file has reads as null.
 */
#include "table.h"

#include <inttypes.h>
#include <string.h>

static lake_status publish(struct lance_dataset *base, LancePb__Transaction *transaction,
                           const struct lance_commit_options *options, uint64_t *version,
                           struct lake_error *err)
{
    struct lance_commit_options defaults;
    struct lance_manifest *manifest = NULL;
    bool keep_files;
    lance_commit_options_init(&defaults);
    struct lance_publication publication = {
        .store = base->store,
        .base = base->manifest,
        .transaction = transaction,
        .options = options == NULL ? &defaults : options,
    };
    lake_status status = lance_manifest_check_changeable(base->manifest, err);
    if (status == LAKE_OK) {
        status = lance_publish(&publication, &manifest, &keep_files, err);
    }
    if (status == LAKE_OK) {
        *version = manifest->pb->version;
        lance_dataset_cache_manifest(base, manifest);
        lance_manifest_unref(manifest);
    }
    return status;
}

lake_status lance_restore(struct lance_dataset *base, uint64_t version,
                          const struct lance_commit_options *options, uint64_t *new_version,
                          struct lake_error *err)
{
    LancePb__Transaction transaction;
    LancePb__RestoreOperation op;
    lance_pb__transaction__init(&transaction);
    lance_pb__restore_operation__init(&op);
    op.has_version = true;
    op.version = version;
    transaction.restore = &op;
    return publish(base, &transaction, options, new_version, err);
}

/* ---- columns ---- */

static LancePb__Field *find_column(const LancePb__Manifest *pb, const char *name)
{
    for (size_t i = 0; i < pb->n_fields; i++) {
        if (pb->fields[i]->parent_id < 0 &&
            base_str_equal_c(lance_pb_str(pb->fields[i]->name), name)) {
            return pb->fields[i];
        }
    }
    return NULL;
}

static lake_status require_column(const struct lance_dataset *base, const char *name,
                                  LancePb__Field **out, struct lake_error *err)
{
    *out = find_column(base->manifest->pb, name);
    return *out != NULL ? LAKE_OK
                        : lake_fail(err, LAKE_NOT_FOUND, "version %" PRIu64 " has no column %.200s",
                                    lance_dataset_version(base), name);
}

static lake_status require_free(const struct lance_dataset *base, const char *name,
                                struct lake_error *err)
{
    if (name[0] == '\0' || strchr(name, '.') != NULL) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "'%.200s' cannot name a column: a name is not empty and has no dot", name);
    }
    return find_column(base->manifest->pb, name) == NULL
               ? LAKE_OK
               : lake_fail(err, LAKE_ALREADY_EXISTS, "there is already a column %.200s", name);
}

static lake_status project(struct lance_dataset *base, LancePb__Field **fields, size_t count,
                           const struct lance_commit_options *options, uint64_t *version,
                           struct lake_error *err)
{
    LancePb__Transaction transaction;
    LancePb__ProjectOperation op;
    lance_pb__transaction__init(&transaction);
    lance_pb__project_operation__init(&op);
    op.schema = fields;
    op.n_schema = count;
    op.has_preserves_nullability = true;
    op.preserves_nullability = true;
    transaction.project = &op;
    return publish(base, &transaction, options, version, err);
}

/* The fields without `dropped` and what is below it: parents stand before their children. */
static size_t without(const LancePb__Manifest *pb, const LancePb__Field *dropped,
                      LancePb__Field **out)
{
    size_t kept = 0;
    for (size_t i = 0; i < pb->n_fields; i++) {
        LancePb__Field *field = pb->fields[i];
        bool has_parent = field->parent_id < 0;
        for (size_t j = 0; j < kept && !has_parent; j++) {
            has_parent = out[j]->id == field->parent_id;
        }
        if (field != dropped && has_parent) {
            out[kept++] = field;
        }
    }
    return kept;
}

lake_status lance_drop_column(struct lance_dataset *base, const char *name,
                              const struct lance_commit_options *options, uint64_t *version,
                              struct lake_error *err)
{
    const LancePb__Manifest *pb = base->manifest->pb;
    LancePb__Field *dropped;
    LancePb__Field **fields = base_calloc_array(pb->n_fields + 1, sizeof(*fields));
    lake_status status = fields == NULL ? base_fail_no_memory(err, pb->n_fields * sizeof(*fields))
                                        : require_column(base, name, &dropped, err);
    if (status == LAKE_OK) {
        size_t count = without(pb, dropped, fields);
        status = count > 0 ? project(base, fields, count, options, version, err)
                           : lake_fail(err, LAKE_FAILED_PRECONDITION,
                                       "%.200s is the table's only column, which cannot be dropped",
                                       name);
    }
    base_free(fields);
    return status;
}

lake_status lance_rename_column(struct lance_dataset *base, const char *name, const char *new_name,
                                const struct lance_commit_options *options, uint64_t *version,
                                struct lake_error *err)
{
    const LancePb__Manifest *pb = base->manifest->pb;
    LancePb__Field *old;
    LancePb__Field **fields = base_calloc_array(pb->n_fields + 1, sizeof(*fields));
    lake_status status = fields == NULL ? base_fail_no_memory(err, pb->n_fields * sizeof(*fields))
                                        : require_column(base, name, &old, err);
    if (status == LAKE_OK) {
        status = require_free(base, new_name, err);
    }
    if (status == LAKE_OK) {
        LancePb__Field renamed = *old;
        renamed.has_name = true;
        renamed.name = lance_pb_text(new_name);
        for (size_t i = 0; i < pb->n_fields; i++) {
            fields[i] = pb->fields[i] == old ? &renamed : pb->fields[i];
        }
        status = project(base, fields, pb->n_fields, options, version, err);
    }
    base_free(fields);
    return status;
}

/* The table's fields with those of `added` behind them, allocated from `arena`. */
static lake_status merge_fields(const LancePb__Manifest *pb, struct lance_schema *added,
                                struct base_arena *arena, LancePb__MergeOperation *op,
                                struct lake_error *err)
{
    LancePb__Field **new_fields;
    size_t new_count;
    lake_status status = lance_shift_field_ids(added, pb, err);
    if (status == LAKE_OK) {
        status = lance_schema_to_fields(added, arena, &new_fields, &new_count, err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    LancePb__Field **all =
        base_arena_calloc_array(arena, pb->n_fields + new_count + 1, sizeof(*all));
    if (all == NULL) {
        return base_fail_no_memory(err, (pb->n_fields + new_count) * sizeof(*all));
    }
    if (pb->n_fields > 0) {
        memcpy(all, pb->fields, pb->n_fields * sizeof(*all));
    }
    memcpy(all + pb->n_fields, new_fields, new_count * sizeof(*all));
    op->schema = all;
    op->n_schema = pb->n_fields + new_count;
    op->fragments = pb->fragments;
    op->n_fragments = pb->n_fragments;
    op->schema_metadata = pb->schema_metadata;
    op->n_schema_metadata = pb->n_schema_metadata;
    op->has_preserves_nullability = true;
    op->preserves_nullability = true;
    return LAKE_OK;
}

/* A schema of the one column. */
static lake_status schema_of(const struct lance_dataset *base, const struct ArrowSchema *column,
                             struct lance_schema *out, struct lake_error *err)
{
    struct ArrowSchema schema = {.release = NULL};
    ArrowSchemaInit(&schema);
    ArrowErrorCode code = ArrowSchemaSetTypeStruct(&schema, 1);
    if (code == NANOARROW_OK) {
        ArrowSchemaRelease(schema.children[0]);
        code = ArrowSchemaDeepCopy(column, schema.children[0]);
    }
    lake_status status =
        code != NANOARROW_OK
            ? base_fail_no_memory(err, sizeof(schema))
            : lance_schema_from_arrow(&schema, base->manifest->storage_version, out, err);
    ArrowSchemaRelease(&schema);
    return status;
}

lake_status lance_add_column(struct lance_dataset *base, const struct ArrowSchema *column,
                             const struct lance_commit_options *options, uint64_t *version,
                             struct lake_error *err)
{
    struct lance_schema added = {0};
    struct base_arena *arena = NULL;
    LancePb__Transaction transaction;
    LancePb__MergeOperation op;
    lance_pb__transaction__init(&transaction);
    lance_pb__merge_operation__init(&op);
    transaction.merge = &op;
    lake_status status = require_free(base, column->name == NULL ? "" : column->name, err);
    if (status == LAKE_OK && (column->flags & ARROW_FLAG_NULLABLE) == 0) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "column %.200s is to be null in every row there is, so it must allow "
                           "nulls",
                           column->name);
    }
    if (status == LAKE_OK) {
        status = schema_of(base, column, &added, err);
    }
    if (status == LAKE_OK) {
        status = base_arena_new(LANCE_MAX_MANIFEST_BYTES, &arena, err);
    }
    if (status == LAKE_OK) {
        status = merge_fields(base->manifest->pb, &added, arena, &op, err);
    }
    if (status == LAKE_OK) {
        status = publish(base, &transaction, options, version, err);
    }
    base_arena_free(arena);
    lance_schema_fini(&added);
    return status;
}
