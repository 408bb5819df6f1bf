/*
 * The actions of Metasrv: each is one message in and one out, translated to a function of this
 * folder that takes the identity first.
 */
#include "meta_internal.h"

#define SMALL_REQUEST_BYTES (64u * 1024)

struct request {
    struct meta_authority *authority;
    const struct meta_identity *identity;
    const struct meta_wait *wait;
    void *message; /* of the action's type */
};

static lake_status create_table(const struct request *request, struct base_buffer *out,
                                struct lake_error *err)
{
    LakePb__CreateTableRequest *pb = request->message;
    struct meta_name name;
    struct meta_registration registration;
    meta_registration_init(&registration);
    lake_status status = meta_name_from_pb(pb->name, &name, err);
    const char *storage_version = "2.2";
    struct lake_str asked = meta_str_of_pb(pb->storage_version);
    if (base_str_equal_c(asked, "2.1"))
        storage_version = "2.1";
    else if (status == LAKE_OK && asked.size != 0 && !base_str_equal_c(asked, "2.2"))
        status =
            lake_fail(err, LAKE_INVALID_ARGUMENT, "the storage version must be \"2.1\" or \"2.2\"");
    if (status == LAKE_OK)
        status = meta_table_create(request->authority, request->identity, request->wait, &name,
                                   (struct lake_bytes){pb->schema_ipc.data, pb->schema_ipc.len},
                                   pb->if_not_exists, storage_version, &registration, err);
    if (status == LAKE_OK)
        status = base_buffer_append(out, registration.raw.data, registration.raw.size, err);
    meta_registration_fini(&registration);
    return status;
}

static lake_status drop_table(const struct request *request, struct base_buffer *out,
                              struct lake_error *err)
{
    (void)out;
    LakePb__DropTableRequest *pb = request->message;
    struct meta_name name;
    lake_status status = meta_name_from_pb(pb->name, &name, err);
    if (status == LAKE_OK)
        status = meta_table_drop(request->authority, request->identity, request->wait, &name,
                                 pb->if_exists, err);
    return status;
}

static lake_status compact_table(const struct request *request, struct base_buffer *out,
                                 struct lake_error *err)
{
    LakePb__CompactTableRequest *pb = request->message;
    struct meta_name name;
    struct lance_compaction done;
    lake_status status = meta_name_from_pb(pb->name, &name, err);
    if (status == LAKE_OK)
        status = meta_table_compact(request->authority, request->identity, request->wait, &name,
                                    &done, err);
    if (status == LAKE_OK) {
        LakePb__CompactTableReply reply = LAKE_PB__COMPACT_TABLE_REPLY__INIT;
        reply.has_version = reply.has_fragments_removed = reply.has_fragments_added = true;
        reply.has_rows_rewritten = reply.has_rows_dropped = true;
        reply.version = done.version;
        reply.fragments_removed = done.fragments_removed;
        reply.fragments_added = done.fragments_added;
        reply.rows_rewritten = done.rows_rewritten;
        reply.rows_dropped = done.rows_dropped;
        status = meta_pb_pack(&reply.base, out, err);
    }
    return status;
}

static lake_status cleanup_table(const struct request *request, struct base_buffer *out,
                                 struct lake_error *err)
{
    LakePb__CleanupTableRequest *pb = request->message;
    return meta_table_cleanup(request->authority, request->identity, request->wait, pb, out, err);
}

static lake_status list_tables(const struct request *request, struct base_buffer *out,
                               struct lake_error *err)
{
    LakePb__ListTablesRequest *pb = request->message;
    return meta_list_tables(request->authority, request->identity, pb, out, err);
}

static lake_status resolve_tables(const struct request *request, struct base_buffer *out,
                                  struct lake_error *err)
{
    LakePb__ResolveTablesRequest *pb = request->message;
    return meta_resolve_tables(request->authority, request->identity, pb, out, err);
}

static lake_status table_schema(const struct request *request, struct base_buffer *out,
                                struct lake_error *err)
{
    LakePb__TableName *pb = request->message;
    return meta_table_schema(request->authority, request->identity, pb, out, err);
}

static lake_status catalog_snapshot(const struct request *request, struct base_buffer *out,
                                    struct lake_error *err)
{
    LakePb__CatalogSnapshotRequest *pb = request->message;
    return meta_catalog_snapshot(request->authority, request->identity, request->wait, pb,
                                 META_REPLY_MAX_BYTES, out, err);
}

static lake_status pack_change(const struct meta_append_result *result, struct base_buffer *out,
                               struct lake_error *err)
{
    LakePb__ChangeRowsResult reply = LAKE_PB__CHANGE_ROWS_RESULT__INIT;
    reply.has_version = reply.has_row_count = reply.has_replayed = true;
    reply.version = result->version;
    reply.row_count = result->row_count;
    reply.replayed = result->replayed;
    return meta_pb_pack(&reply.base, out, err);
}

static lake_status change_rows(const struct request *request, struct base_buffer *out,
                               struct lake_error *err)
{
    LakePb__ChangeRowsRequest *pb = request->message;
    struct meta_append_result result;
    lake_status status =
        meta_rows_change(request->authority, request->identity, request->wait, pb, &result, err);
    if (status == LAKE_OK)
        status = pack_change(&result, out, err);
    return status;
}

static lake_status restore_table(const struct request *request, struct base_buffer *out,
                                 struct lake_error *err)
{
    LakePb__RestoreTableRequest *pb = request->message;
    struct meta_append_result result;
    lake_status status =
        meta_table_restore(request->authority, request->identity, request->wait, pb, &result, err);
    if (status == LAKE_OK)
        status = pack_change(&result, out, err);
    return status;
}

static lake_status create_tag(const struct request *request, struct base_buffer *out,
                              struct lake_error *err)
{
    LakePb__TagRequest *pb = request->message;
    return meta_tag_create(request->authority, request->identity, request->wait, pb, out, err);
}

static lake_status delete_tag(const struct request *request, struct base_buffer *out,
                              struct lake_error *err)
{
    (void)out;
    LakePb__TagRequest *pb = request->message;
    return meta_tag_delete(request->authority, request->identity, request->wait, pb, err);
}

static lake_status list_tags(const struct request *request, struct base_buffer *out,
                             struct lake_error *err)
{
    LakePb__TableName *pb = request->message;
    return meta_tags_list(request->authority, request->identity, request->wait, pb, out, err);
}

static lake_status create_branch(const struct request *request, struct base_buffer *out,
                                 struct lake_error *err)
{
    LakePb__BranchRequest *pb = request->message;
    return meta_branch_create(request->authority, request->identity, request->wait, pb, out, err);
}

static lake_status delete_branch(const struct request *request, struct base_buffer *out,
                                 struct lake_error *err)
{
    (void)out;
    LakePb__BranchRequest *pb = request->message;
    return meta_branch_delete(request->authority, request->identity, request->wait, pb, err);
}

static lake_status list_branches(const struct request *request, struct base_buffer *out,
                                 struct lake_error *err)
{
    LakePb__TableName *pb = request->message;
    return meta_branches_list(request->authority, request->identity, request->wait, pb, out, err);
}

static lake_status table_history(const struct request *request, struct base_buffer *out,
                                 struct lake_error *err)
{
    LakePb__HistoryRequest *pb = request->message;
    return meta_table_history(request->authority, request->identity, pb, out, err);
}

static lake_status diff_versions(const struct request *request, struct base_buffer *out,
                                 struct lake_error *err)
{
    LakePb__DiffRequest *pb = request->message;
    return meta_versions_diff(request->authority, request->identity, pb, out, err);
}

static lake_status stage(const struct request *request, struct base_buffer *out,
                         struct lake_error *err)
{
    return meta_stage_describe(request->authority, request->identity, out, err);
}

static const struct action {
    const char *type;
    const char *description;
    size_t max_body_bytes;
    const ProtobufCMessageDescriptor *request; /* NULL: what comes is not looked at */
    lake_status (*run)(const struct request *request, struct base_buffer *out,
                       struct lake_error *err);
} actions[] = {
    {"lake.create_table", "CreateTableRequest -> Registration",
     META_SCHEMA_MAX_BYTES + SMALL_REQUEST_BYTES, &lake_pb__create_table_request__descriptor,
     create_table},
    {"lake.drop_table", "DropTableRequest -> empty", SMALL_REQUEST_BYTES,
     &lake_pb__drop_table_request__descriptor, drop_table},
    {"lake.compact_table", "CompactTableRequest -> CompactTableReply", SMALL_REQUEST_BYTES,
     &lake_pb__compact_table_request__descriptor, compact_table},
    {"lake.cleanup_table", "CleanupTableRequest -> CleanupTableReply", SMALL_REQUEST_BYTES,
     &lake_pb__cleanup_table_request__descriptor, cleanup_table},
    {"lake.list_tables", "ListTablesRequest -> ListTablesReply, one page", SMALL_REQUEST_BYTES,
     &lake_pb__list_tables_request__descriptor, list_tables},
    {"lake.resolve_tables", "ResolveTablesRequest -> ResolveTablesReply", 2 * SMALL_REQUEST_BYTES,
     &lake_pb__resolve_tables_request__descriptor, resolve_tables},
    {"lake.table_schema", "TableName -> Registration", SMALL_REQUEST_BYTES,
     &lake_pb__table_name__descriptor, table_schema},
    {"lake.catalog_snapshot", "CatalogSnapshotRequest -> CatalogSnapshotReply", SMALL_REQUEST_BYTES,
     &lake_pb__catalog_snapshot_request__descriptor, catalog_snapshot},
    {"lake.change_rows", "ChangeRowsRequest -> ChangeRowsResult", META_APPEND_MAX_BYTES,
     &lake_pb__change_rows_request__descriptor, change_rows},
    {"lake.restore_table", "RestoreTableRequest -> ChangeRowsResult", SMALL_REQUEST_BYTES,
     &lake_pb__restore_table_request__descriptor, restore_table},
    {"lake.create_tag", "TagRequest -> Tag", SMALL_REQUEST_BYTES, &lake_pb__tag_request__descriptor,
     create_tag},
    {"lake.delete_tag", "TagRequest -> empty", SMALL_REQUEST_BYTES,
     &lake_pb__tag_request__descriptor, delete_tag},
    {"lake.list_tags", "TableName -> ListTagsReply", SMALL_REQUEST_BYTES,
     &lake_pb__table_name__descriptor, list_tags},
    {"lake.create_branch", "BranchRequest -> Branch", SMALL_REQUEST_BYTES,
     &lake_pb__branch_request__descriptor, create_branch},
    {"lake.delete_branch", "BranchRequest -> empty", SMALL_REQUEST_BYTES,
     &lake_pb__branch_request__descriptor, delete_branch},
    {"lake.list_branches", "TableName -> ListBranchesReply", SMALL_REQUEST_BYTES,
     &lake_pb__table_name__descriptor, list_branches},
    {"lake.table_history", "HistoryRequest -> HistoryReply, one page", SMALL_REQUEST_BYTES,
     &lake_pb__history_request__descriptor, table_history},
    {"lake.diff_versions", "DiffRequest -> DiffReply", SMALL_REQUEST_BYTES,
     &lake_pb__diff_request__descriptor, diff_versions},
    {"lake.stage", "empty -> StageDescriptor", SMALL_REQUEST_BYTES, NULL, stage},
};

static const struct action *find_action(struct lake_str type)
{
    for (size_t i = 0; i < BASE_ARRAY_LEN(actions); i++) {
        if (base_str_equal_c(type, actions[i].type))
            return &actions[i];
    }
    return NULL;
}

size_t meta_action_count(void)
{
    return BASE_ARRAY_LEN(actions);
}

struct flight_action_type meta_action_type(size_t i)
{
    return (struct flight_action_type){base_str_of(actions[i].type),
                                       base_str_of(actions[i].description)};
}

lake_status meta_action_run(struct meta_authority *authority, const struct meta_identity *identity,
                            const struct meta_wait *wait, const struct flight_action *asked,
                            struct base_buffer *out, struct lake_error *err)
{
    const struct action *action = find_action(asked->type);
    if (action == NULL)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "Metasrv has no such action; see ListActions");
    if (asked->body.size > action->max_body_bytes)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "%s takes at most %zu bytes, not %zu",
                         action->type, action->max_body_bytes, asked->body.size);
    ProtobufCMessage *message = NULL;
    if (action->request != NULL) {
        message =
            protobuf_c_message_unpack(action->request, NULL, asked->body.size, asked->body.data);
        if (message == NULL)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "the request does not parse (%zu bytes)",
                             asked->body.size);
    }
    struct request request = {authority, identity, wait, message};
    lake_status status = action->run(&request, out, err);
    if (message != NULL)
        protobuf_c_message_free_unpacked(message, NULL);
    return status;
}
