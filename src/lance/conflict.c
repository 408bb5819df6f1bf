/*
 * The conflict matrix of Lance: may a transaction go on top of one that was committed since the
 * version it read?
 */
#include "table.h"

#include <stdlib.h>
#include <string.h>

enum cell {
    X, /* incompatible */
    O, /* on top as it is */
    R, /* retry from the newest version */
    F, /* retry when the same fragments are touched */
    W, /* rows: fragments that both touch are looked at row by row */
    I, /* retry when indices of the same name are made */
    P, /* retry when a column that ours rewrites was dropped */
    C, /* incompatible when the same configuration is changed */
};

#define FIRST_OPERATION LANCE_OP_APPEND
#define OPERATIONS      (LANCE_OP_DATA_OVERLAY - LANCE_OP_APPEND + 1)

/* Row: ours; column: theirs, both by number. Whatever is not named is X: Clone, UpdateBases and the
 * write-ahead log are not operations of ours, and overlays are refused by readers. */
static const uint8_t matrix[OPERATIONS][OPERATIONS] = {
    /*   Append Delete Overwrite CreateIndex Rewrite Merge Restore Reserve Update Project Config
         DataReplacement MemWal Clone UpdateBases DataOverlay */
    [LANCE_OP_APPEND - FIRST_OPERATION] = {O, O, X, O, O, O, X, O, O, O, O, O, R, O, O, X},
    [LANCE_OP_DELETE - FIRST_OPERATION] = {O, W, X, O, F, R, X, O, W, O, O, F, R, O, O, X},
    [LANCE_OP_OVERWRITE - FIRST_OPERATION] = {O, O, R, O, O, O, O, O, O, O, C, O, O, O, O, O},
    [LANCE_OP_CREATE_INDEX - FIRST_OPERATION] = {O, O, X, I, F, O, X, O, O, O, O, F, R, O, O, X},
    [LANCE_OP_REWRITE - FIRST_OPERATION] = {O, F, X, F, F, R, X, O, F, O, O, F, R, O, O, X},
    [LANCE_OP_MERGE - FIRST_OPERATION] = {R, R, X, O, R, R, X, O, R, X, O, R, R, O, O, X},
    [LANCE_OP_RESTORE - FIRST_OPERATION] = {O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O},
    [LANCE_OP_RESERVE_FRAGMENTS -
        FIRST_OPERATION] = {O, O, X, O, O, O, X, O, O, O, O, O, O, O, O, O},
    [LANCE_OP_UPDATE - FIRST_OPERATION] = {O, W, X, O, F, R, X, O, W, P, O, F, R, O, O, X},
    [LANCE_OP_PROJECT - FIRST_OPERATION] = {O, O, X, O, O, R, X, O, O, R, O, R, R, O, O, X},
    [LANCE_OP_UPDATE_CONFIG - FIRST_OPERATION] = {O, O, C, O, O, O, O, O, O, O, C, O, O, O, O, O},
};

/* ---- fragments touched ---- */

struct ids {
    uint64_t *items;
    size_t count;
    LancePb__IndexMetadata *const *indices; /* their bitmaps, too */
    size_t index_count;
};

static void add_id(struct ids *ids, uint64_t id)
{
    if (ids->items != NULL) {
        ids->items[ids->count] = id;
    }
    ids->count++;
}

static void add_fragments(struct ids *ids, LancePb__DataFragment *const *fragments, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        add_id(ids, fragments[i]->id);
    }
}

/* Counts, or fills when there is memory. */
static void collect_ids(const LancePb__Transaction *transaction, struct ids *ids)
{
    ids->count = 0;
    if (transaction->delete_rows != NULL) {
        const LancePb__DeleteOperation *op = transaction->delete_rows;
        add_fragments(ids, op->updated_fragments, op->n_updated_fragments);
        for (size_t i = 0; i < op->n_deleted_fragment_ids; i++) {
            add_id(ids, op->deleted_fragment_ids[i]);
        }
    } else if (transaction->update != NULL) {
        const LancePb__UpdateOperation *op = transaction->update;
        add_fragments(ids, op->updated_fragments, op->n_updated_fragments);
        for (size_t i = 0; i < op->n_removed_fragment_ids; i++) {
            add_id(ids, op->removed_fragment_ids[i]);
        }
    } else if (transaction->rewrite != NULL) {
        for (size_t i = 0; i < transaction->rewrite->n_groups; i++) {
            const LancePb__RewriteGroup *group = transaction->rewrite->groups[i];
            add_fragments(ids, group->old_fragments, group->n_old_fragments);
        }
    } else if (transaction->data_replacement != NULL) {
        const LancePb__DataReplacementOperation *op = transaction->data_replacement;
        for (size_t i = 0; i < op->n_replacements; i++) {
            add_id(ids, op->replacements[i]->fragment_id);
        }
    } else if (transaction->create_index != NULL) {
        ids->indices = transaction->create_index->new_indices;
        ids->index_count = transaction->create_index->n_new_indices;
    }
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static lake_status ids_of(const LancePb__Transaction *transaction, struct ids *out,
                          struct lake_error *err)
{
    *out = (struct ids){.items = NULL};
    collect_ids(transaction, out);
    out->items = base_alloc_array(out->count + 1, sizeof(uint64_t));
    if (out->items == NULL) {
        return base_fail_no_memory(err, (out->count + 1) * sizeof(uint64_t));
    }
    collect_ids(transaction, out);
    qsort(out->items, out->count, sizeof(uint64_t), compare_ids);
    return LAKE_OK;
}

/* Whether an index of `with` covers one of the fragments; without a bitmap it may cover any. */
static lake_status covers(const struct ids *with, const struct ids *fragments,
                          uint64_t max_fragment_id, bool *out, struct lake_error *err)
{
    for (size_t i = 0; i < with->index_count && !*out; i++) {
        const LancePb__IndexMetadata *index = with->indices[i];
        uint64_t *words = NULL;
        if (!index->has_fragment_bitmap) {
            *out = fragments->count > 0;
            continue;
        }
        lake_status status = lance_fragment_bitmap_decode(index, max_fragment_id, &words, err);
        if (status != LAKE_OK) {
            return status;
        }
        for (size_t j = 0; j < fragments->count && !*out; j++) {
            uint64_t id = fragments->items[j];
            *out = id <= max_fragment_id && (words[id / 64] >> (id % 64) & 1) != 0;
        }
        base_free(words);
    }
    return LAKE_OK;
}

static lake_status overlap(const LancePb__Transaction *ours, const LancePb__Transaction *theirs,
                           uint64_t max_fragment_id, bool *out, struct lake_error *err)
{
    struct ids a = {.items = NULL};
    struct ids b = {.items = NULL};
    *out = false;
    lake_status status = ids_of(ours, &a, err);
    if (status == LAKE_OK) {
        status = ids_of(theirs, &b, err);
    }
    for (size_t i = 0, j = 0; status == LAKE_OK && i < a.count && j < b.count;) {
        *out = *out || a.items[i] == b.items[j];
        if (a.items[i] < b.items[j]) {
            i++;
        } else {
            j++;
        }
    }
    if (status == LAKE_OK) {
        status = covers(&a, &b, max_fragment_id, out, err);
    }
    if (status == LAKE_OK) {
        status = covers(&b, &a, max_fragment_id, out, err);
    }
    base_free(a.items);
    base_free(b.items);
    return status;
}

/* ---- names, columns, keys ---- */

static bool same_index_name(const LancePb__CreateIndexOperation *ours,
                            const LancePb__CreateIndexOperation *theirs)
{
    for (size_t i = 0; i < ours->n_new_indices; i++) {
        for (size_t j = 0; j < theirs->n_new_indices; j++) {
            if (base_str_equal(lance_pb_str(ours->new_indices[i]->name),
                               lance_pb_str(theirs->new_indices[j]->name))) {
                return true;
            }
        }
    }
    return false;
}

static bool column_dropped(const LancePb__UpdateOperation *ours,
                           const LancePb__ProjectOperation *theirs)
{
    for (size_t i = 0; i < ours->n_fields_modified; i++) {
        bool kept = false;
        for (size_t j = 0; j < theirs->n_schema; j++) {
            kept = kept || (uint32_t)theirs->schema[j]->id == ours->fields_modified[i];
        }
        if (!kept) {
            return true;
        }
    }
    return false;
}

static bool map_has(const LancePb__UpdateMap *map, ProtobufCBinaryData key)
{
    if (map == NULL) {
        return false;
    }
    bool found = map->replace;
    for (size_t i = 0; i < map->n_entries && !found; i++) {
        found = base_str_equal(lance_pb_str(map->entries[i]->key), lance_pb_str(key));
    }
    return found;
}

static bool maps_meet(const LancePb__UpdateMap *a, const LancePb__UpdateMap *b)
{
    bool meet = a != NULL && b != NULL && (a->replace || b->replace);
    for (size_t i = 0; a != NULL && i < a->n_entries && !meet; i++) {
        meet = map_has(b, a->entries[i]->key);
    }
    return meet;
}

/* Fields of the message that are not declared are the metadata of columns. */
static bool changes_columns(const LancePb__UpdateConfigOperation *op)
{
    return op->base.n_unknown_fields > 0;
}

static bool overwrite_meets(const LancePb__OverwriteOperation *overwrite,
                            const LancePb__UpdateConfigOperation *config)
{
    for (size_t i = 0; i < overwrite->n_config_upsert_values; i++) {
        if (map_has(config->config, overwrite->config_upsert_values[i]->key)) {
            return true;
        }
    }
    return false;
}

static bool same_configuration(const LancePb__Transaction *ours, const LancePb__Transaction *theirs)
{
    const LancePb__UpdateConfigOperation *a = ours->update_config;
    const LancePb__UpdateConfigOperation *b = theirs->update_config;
    if (a == NULL) {
        return overwrite_meets(ours->overwrite, b);
    }
    if (b == NULL) {
        return a->schema_metadata != NULL || changes_columns(a) ||
               overwrite_meets(theirs->overwrite, a);
    }
    return maps_meet(a->config, b->config) || maps_meet(a->table_metadata, b->table_metadata) ||
           maps_meet(a->schema_metadata, b->schema_metadata) ||
           (changes_columns(a) && changes_columns(b));
}

/* ---- the verdict ---- */

static bool may_forbid_nulls(const LancePb__Transaction *transaction)
{
    return (transaction->merge != NULL && !transaction->merge->preserves_nullability) ||
           (transaction->project != NULL && !transaction->project->preserves_nullability);
}

static bool writes_values(uint32_t operation)
{
    return operation == LANCE_OP_APPEND || operation == LANCE_OP_UPDATE ||
           operation == LANCE_OP_MERGE || operation == LANCE_OP_DATA_REPLACEMENT;
}

lake_status lance_transaction_conflict(const LancePb__Transaction *ours,
                                       const LancePb__Transaction *theirs, uint64_t max_fragment_id,
                                       enum lance_verdict *out, struct lake_error *err)
{
    uint32_t own = lance_transaction_operation(ours);
    uint32_t other = lance_transaction_operation(theirs);
    uint8_t cell = X;
    bool both = false;
    lake_status status = LAKE_OK;
    if (own >= FIRST_OPERATION && own - FIRST_OPERATION < OPERATIONS && other >= FIRST_OPERATION &&
        other - FIRST_OPERATION < OPERATIONS) {
        cell = matrix[own - FIRST_OPERATION][other - FIRST_OPERATION];
    }
    /* a column may have become one that forbids the nulls which the other writes */
    if ((may_forbid_nulls(theirs) && writes_values(own)) ||
        (may_forbid_nulls(ours) && writes_values(other))) {
        cell = cell == X ? X : R;
    }
    if (cell == F || cell == W) {
        status = overlap(ours, theirs, max_fragment_id, &both, err);
        *out = !both ? LANCE_REBASE : cell == F ? LANCE_RETRY : LANCE_REBASE_ROWS;
        return status;
    }
    switch (cell) {
    case O:
        *out = LANCE_REBASE;
        break;
    case R:
        *out = LANCE_RETRY;
        break;
    case I:
        *out =
            same_index_name(ours->create_index, theirs->create_index) ? LANCE_RETRY : LANCE_REBASE;
        break;
    case P:
        *out = column_dropped(ours->update, theirs->project) ? LANCE_RETRY : LANCE_REBASE;
        break;
    case C:
        *out = same_configuration(ours, theirs) ? LANCE_INCOMPATIBLE : LANCE_REBASE;
        break;
    default:
        *out = LANCE_INCOMPATIBLE;
        break;
    }
    return LAKE_OK;
}
