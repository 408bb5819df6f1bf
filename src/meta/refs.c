/* Tags and branches of a table, made and removed under its gate, for which a drop waits, and that
 * of its history: a version that a clean-up is about to remove gets none. */
#include "meta_internal.h"

#include <inttypes.h>
#include <string.h>

/* A table whose gates are held. */
struct entered {
    struct meta_claim history_claim;
    struct meta_claim table_claim;
    struct meta_table table;
};

static void leave(struct meta_authority *authority, struct entered *entered)
{
    meta_table_close(&entered->table);
    meta_gate_leave(&authority->gates, &entered->table_claim);
    meta_gate_leave(&authority->gates, &entered->history_claim);
}

/* On success the caller leaves; on failure nothing is held. */
static lake_status enter(struct meta_authority *authority, const struct meta_identity *identity,
                         const struct meta_wait *wait, const LakePb__TableName *asked,
                         struct entered *entered, struct lake_error *err)
{
    struct meta_name name;
    lake_status status = meta_identity_name(identity, asked, &name, err);
    if (status == LAKE_OK)
        status = meta_history_enter(authority, &name, wait, &entered->history_claim, err);
    if (status != LAKE_OK)
        return status;
    status = meta_table_enter(authority, &name, wait, &entered->table_claim, err);
    if (status == LAKE_OK) {
        status = meta_table_open(authority, &name, &entered->table, err);
        if (status == LAKE_OK)
            return LAKE_OK;
        meta_gate_leave(&authority->gates, &entered->table_claim);
    }
    meta_gate_leave(&authority->gates, &entered->history_claim);
    return status;
}

/* After a listing that found nothing: a directory that was moved away by hand has no tags either.
 */
static lake_status check_there(const struct meta_table *table, struct lake_error *err)
{
    uint64_t version;
    lake_status status = lance_latest_version(table->store, 0, &version, NULL, err);
    return status != LAKE_NOT_FOUND
               ? status
               : lake_fail(err, LAKE_DATA_LOSS,
                           "table %s.%s is registered but its dataset is not there",
                           table->registration.name.namespace_name, table->registration.name.table);
}

static lake_status copy_name(ProtobufCBinaryData from, const char *what,
                             char out[LANCE_REF_NAME_BYTES], struct lake_error *err)
{
    struct lake_str name = meta_str_of_pb(from);
    if (name.size == 0 || name.size >= LANCE_REF_NAME_BYTES || memchr(name.data, '\0', name.size))
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a %s's name has 1 to %d bytes", what,
                         LANCE_REF_NAME_BYTES - 1);
    memcpy(out, name.data, name.size);
    out[name.size] = '\0';
    return LAKE_OK;
}

/* What the engine says of a directory, said of the table. Branch NULL: main; version 0: the newest.
 */
static lake_status no_version(const struct meta_registration *registration, const char *branch,
                              uint64_t version, struct lake_error *err)
{
    const char *table = registration->name.table;
    const char *schema = registration->name.namespace_name;
    if (version == 0)
        return lake_fail(err, LAKE_NOT_FOUND, "table %s.%s has no branch %s", schema, table,
                         branch == NULL ? "main" : branch);
    if (branch == NULL)
        return lake_fail(err, LAKE_NOT_FOUND, "table %s.%s has no version %" PRIu64, schema, table,
                         version);
    return lake_fail(err, LAKE_NOT_FOUND,
                     "table %s.%s has no branch %s, or that has no version %" PRIu64, schema, table,
                     branch, version);
}

/* ---- tags ---- */

lake_status meta_tag_create(struct meta_authority *authority, const struct meta_identity *identity,
                            const struct meta_wait *wait, const LakePb__TagRequest *request,
                            struct base_buffer *out, struct lake_error *err)
{
    char tag[LANCE_REF_NAME_BYTES];
    struct lance_dataset *newest = NULL;
    struct entered held;
    uint64_t recorded = 0;
    lake_status status = copy_name(request->tag, "tag", tag, err);
    if (status == LAKE_OK)
        status = enter(authority, identity, wait, request->name, &held, err);
    if (status != LAKE_OK)
        return status;
    status = meta_dataset_newest(authority, &held.table.registration, held.table.store, &recorded,
                                 &newest, err);
    if (status == LAKE_OK) {
        LakePb__Tag made = LAKE_PB__TAG__INIT;
        made.has_tag = made.has_version = true;
        made.tag = meta_pb_of_str(tag);
        made.version = request->has_version ? request->version : lance_dataset_version(newest);
        status = lance_tag_create(held.table.store, tag, NULL, made.version, err);
        if (status == LAKE_NOT_FOUND)
            status = no_version(&held.table.registration, NULL, made.version, err);
        if (status == LAKE_OK)
            status = meta_pb_pack(&made.base, out, err);
    }
    lance_dataset_unref(newest);
    leave(authority, &held);
    return status;
}

lake_status meta_tag_delete(struct meta_authority *authority, const struct meta_identity *identity,
                            const struct meta_wait *wait, const LakePb__TagRequest *request,
                            struct lake_error *err)
{
    char tag[LANCE_REF_NAME_BYTES];
    struct entered held;
    lake_status status = copy_name(request->tag, "tag", tag, err);
    if (status == LAKE_OK)
        status = enter(authority, identity, wait, request->name, &held, err);
    if (status == LAKE_OK) {
        status = lance_tag_delete(held.table.store, tag, err);
        leave(authority, &held);
    }
    return status;
}

static lake_status pack_tags(const struct lance_tag *tags, size_t count, struct base_buffer *out,
                             struct lake_error *err)
{
    LakePb__ListTagsReply reply = LAKE_PB__LIST_TAGS_REPLY__INIT;
    LakePb__Tag *items = base_calloc_array(count + 1, sizeof(*items));
    LakePb__Tag **pointers = base_calloc_array(count + 1, sizeof(*pointers));
    lake_status status = LAKE_OK;
    if (items == NULL || pointers == NULL)
        status = base_fail_no_memory(err, count * sizeof(*items));
    for (size_t i = 0; i < count && status == LAKE_OK; i++) {
        lake_pb__tag__init(&items[i]);
        items[i].has_tag = items[i].has_version = true;
        items[i].tag = meta_pb_of_str(tags[i].name);
        items[i].version = tags[i].version;
        items[i].has_branch = tags[i].branch[0] != '\0';
        items[i].branch = meta_pb_of_str(tags[i].branch);
        pointers[i] = &items[i];
    }
    if (status == LAKE_OK) {
        reply.n_tags = count;
        reply.tags = pointers;
        status = meta_pb_pack(&reply.base, out, err);
    }
    base_free((void *)pointers);
    base_free(items);
    return status;
}

lake_status meta_tags_list(struct meta_authority *authority, const struct meta_identity *identity,
                           const struct meta_wait *wait, const LakePb__TableName *request,
                           struct base_buffer *out, struct lake_error *err)
{
    struct lance_tag *tags = NULL;
    struct entered held;
    size_t count = 0;
    lake_status status = enter(authority, identity, wait, request, &held, err);
    if (status == LAKE_OK) {
        status = lance_tags_list(held.table.store, &tags, &count, err);
        if (status == LAKE_OK && count == 0)
            status = check_there(&held.table, err);
        leave(authority, &held);
    }
    if (status == LAKE_OK)
        status = pack_tags(tags, count, out, err);
    base_free(tags);
    return status;
}

/* ---- branches ---- */

/* Borrows from `branch`. */
static void describe(const struct lance_branch *branch, LakePb__Branch *out)
{
    lake_pb__branch__init(out);
    out->has_branch = out->has_parent_version = out->has_created_unix_ms = true;
    out->branch = meta_pb_of_str(branch->name);
    out->has_parent = branch->parent[0] != '\0';
    out->parent = meta_pb_of_str(branch->parent);
    out->parent_version = branch->parent_version;
    out->created_unix_ms = branch->created_unix_s * 1000;
}

lake_status meta_branch_create(struct meta_authority *authority,
                               const struct meta_identity *identity, const struct meta_wait *wait,
                               const LakePb__BranchRequest *request, struct base_buffer *out,
                               struct lake_error *err)
{
    char branch[LANCE_REF_NAME_BYTES];
    char parent[LANCE_REF_NAME_BYTES];
    struct lance_dataset *newest = NULL;
    struct lance_branch made;
    struct entered held;
    uint64_t recorded = 0;
    lake_status status = copy_name(request->branch, "branch", branch, err);
    if (status == LAKE_OK && request->has_parent)
        status = copy_name(request->parent, "branch", parent, err);
    if (status == LAKE_OK)
        status = enter(authority, identity, wait, request->name, &held, err);
    if (status != LAKE_OK)
        return status;
    uint64_t version = request->has_version ? request->version : 0;
    /* Main's newest version is the one that the registry answers for. */
    status = meta_dataset_newest(authority, &held.table.registration, held.table.store, &recorded,
                                 &newest, err);
    if (status == LAKE_OK && version == 0 && !request->has_parent)
        version = lance_dataset_version(newest);
    if (status == LAKE_OK)
        status = lance_branch_create(held.table.store, branch, request->has_parent ? parent : NULL,
                                     version, &made, err);
    if (status == LAKE_NOT_FOUND)
        status =
            no_version(&held.table.registration, request->has_parent ? parent : NULL, version, err);
    if (status == LAKE_OK) {
        LakePb__Branch reply;
        describe(&made, &reply);
        status = meta_pb_pack(&reply.base, out, err);
    }
    lance_dataset_unref(newest);
    leave(authority, &held);
    return status;
}

lake_status meta_branch_delete(struct meta_authority *authority,
                               const struct meta_identity *identity, const struct meta_wait *wait,
                               const LakePb__BranchRequest *request, struct lake_error *err)
{
    char branch[LANCE_REF_NAME_BYTES];
    struct entered held;
    lake_status status = copy_name(request->branch, "branch", branch, err);
    if (status == LAKE_OK)
        status = enter(authority, identity, wait, request->name, &held, err);
    if (status == LAKE_OK) {
        status = lance_branch_delete(held.table.store, branch, err);
        leave(authority, &held);
    }
    return status;
}

static lake_status pack_branches(const struct lance_branch *branches, size_t count,
                                 struct base_buffer *out, struct lake_error *err)
{
    LakePb__ListBranchesReply reply = LAKE_PB__LIST_BRANCHES_REPLY__INIT;
    LakePb__Branch *items = base_calloc_array(count + 1, sizeof(*items));
    LakePb__Branch **pointers = base_calloc_array(count + 1, sizeof(*pointers));
    lake_status status = LAKE_OK;
    if (items == NULL || pointers == NULL)
        status = base_fail_no_memory(err, count * sizeof(*items));
    for (size_t i = 0; i < count && status == LAKE_OK; i++) {
        describe(&branches[i], &items[i]);
        pointers[i] = &items[i];
    }
    if (status == LAKE_OK) {
        reply.n_branches = count;
        reply.branches = pointers;
        status = meta_pb_pack(&reply.base, out, err);
    }
    base_free((void *)pointers);
    base_free(items);
    return status;
}

lake_status meta_branches_list(struct meta_authority *authority,
                               const struct meta_identity *identity, const struct meta_wait *wait,
                               const LakePb__TableName *request, struct base_buffer *out,
                               struct lake_error *err)
{
    struct lance_branch *branches = NULL;
    struct entered held;
    size_t count = 0;
    lake_status status = enter(authority, identity, wait, request, &held, err);
    if (status == LAKE_OK) {
        status = lance_branches_list(held.table.store, &branches, &count, err);
        if (status == LAKE_OK && count == 0)
            status = check_there(&held.table, err);
        leave(authority, &held);
    }
    if (status == LAKE_OK)
        status = pack_branches(branches, count, out, err);
    base_free(branches);
    return status;
}
