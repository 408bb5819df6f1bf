/* The versions of a table: restored, listed and compared. */
#include "append.h"

#include <string.h>

#define MAX_REQUEST_BYTES ((size_t)64 * 1024)

/* ---- restore ---- */

lake_status lake_restore_table(lake_client *client, const char *table, uint64_t version,
                               const char *operation_id, struct lake_change_result *result,
                               struct lake_error *err)
{
    LakePb__RestoreTableRequest request = LAKE_PB__RESTORE_TABLE_REQUEST__INIT;
    LakePb__TableName name;
    struct lake_change_result filled = {0};
    struct base_buffer body;
    lake_error_clear(err);
    base_buffer_init(&body, MAX_REQUEST_BYTES);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK)
        status = client_operation_id(operation_id, filled.operation_id, err);
    if (status == LAKE_OK) {
        request.name = &name;
        request.has_operation_id = request.has_version = 1;
        request.operation_id = client_binary(base_str_of(filled.operation_id));
        request.version = version;
        status = client_pack(&request.base, &body, err);
    }
    if (status == LAKE_OK) {
        status = client_change_commit(client, "lake.restore_table", base_buffer_view(&body),
                                      &filled, result, err);
        lake_schema_cache_invalidate(client, table);
    }
    base_buffer_fini(&body);
    return status;
}

/* ---- history ---- */

static void copy_text(ProtobufCBinaryData from, char *out, size_t out_bytes)
{
    size_t size = BASE_MIN(from.len, out_bytes - 1);
    if (size > 0)
        memcpy(out, from.data, size);
    out[size] = '\0';
}

static lake_status copy_history(const LakePb__HistoryReply *reply, struct lake_history *out,
                                struct lake_error *err)
{
    struct lake_version_info *versions =
        base_calloc_array(reply->n_versions + 1, sizeof(*versions));
    if (versions == NULL)
        return base_fail_no_memory(err, reply->n_versions * sizeof(*versions));
    for (size_t i = 0; i < reply->n_versions; i++) {
        const LakePb__VersionEntry *from = reply->versions[i];
        struct lake_version_info *to = &versions[i];
        to->version = from->version;
        to->timestamp_unix_ms = from->timestamp_unix_ms;
        to->row_count = from->row_count;
        to->fragment_count = from->fragment_count;
        copy_text(from->operation, to->operation, sizeof(to->operation));
        copy_text(from->operation_id, to->operation_id, sizeof(to->operation_id));
    }
    *out = (struct lake_history){versions, reply->n_versions, reply->next_before};
    return LAKE_OK;
}

lake_status lake_table_history(lake_client *client, const char *table, uint64_t before,
                               uint32_t limit, struct lake_history *out, struct lake_error *err)
{
    LakePb__HistoryRequest request = LAKE_PB__HISTORY_REQUEST__INIT;
    LakePb__TableName name;
    ProtobufCMessage *answer = NULL;
    lake_error_clear(err);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK) {
        request.name = &name;
        request.has_before = before != 0;
        request.before = before;
        request.has_limit = 1;
        request.limit = limit;
        status = client_ask(client, "lake.table_history", &request.base,
                            &lake_pb__history_reply__descriptor, &answer, err);
    }
    if (status == LAKE_OK)
        status = copy_history((const LakePb__HistoryReply *)answer, out, err);
    client_answer_free(answer);
    return status;
}

void lake_history_fini(struct lake_history *history)
{
    base_free(history->versions);
    *history = (struct lake_history){NULL, 0, 0};
}

/* ---- diff ---- */

static void names_fini(struct lake_column_names *columns)
{
    for (size_t i = 0; i < columns->count; i++)
        base_free(columns->names[i]);
    base_free(columns->names);
    *columns = (struct lake_column_names){NULL, 0};
}

static lake_status copy_names(const ProtobufCBinaryData *from, size_t count,
                              struct lake_column_names *out, struct lake_error *err)
{
    out->names = base_calloc_array(count + 1, sizeof(*out->names));
    if (out->names == NULL)
        return base_fail_no_memory(err, count * sizeof(*out->names));
    while (out->count < count) {
        size_t size = from[out->count].len;
        char *name = base_strndup((const char *)from[out->count].data, size);
        if (name == NULL)
            return base_fail_no_memory(err, size);
        out->names[out->count++] = name;
    }
    return LAKE_OK;
}

static lake_status copy_diff(const LakePb__DiffReply *reply, struct lake_version_diff *out,
                             struct lake_error *err)
{
    struct lake_version_diff diff = {.rows_added = reply->rows_added,
                                     .rows_removed = reply->rows_removed,
                                     .rows_rewritten = reply->rows_rewritten,
                                     .fragments_added = reply->fragments_added,
                                     .fragments_removed = reply->fragments_removed,
                                     .fragments_changed = reply->fragments_changed};
    lake_status status =
        copy_names(reply->columns_added, reply->n_columns_added, &diff.columns_added, err);
    if (status == LAKE_OK)
        status = copy_names(reply->columns_removed, reply->n_columns_removed, &diff.columns_removed,
                            err);
    if (status == LAKE_OK)
        status = copy_names(reply->columns_changed, reply->n_columns_changed, &diff.columns_changed,
                            err);
    if (status == LAKE_OK)
        *out = diff;
    else
        lake_version_diff_fini(&diff);
    return status;
}

lake_status lake_diff_versions(lake_client *client, const char *table, uint64_t from, uint64_t to,
                               struct lake_version_diff *out, struct lake_error *err)
{
    LakePb__DiffRequest request = LAKE_PB__DIFF_REQUEST__INIT;
    LakePb__TableName name;
    ProtobufCMessage *answer = NULL;
    lake_error_clear(err);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK) {
        request.name = &name;
        request.has_from = request.has_to = 1;
        request.from = from;
        request.to = to;
        status = client_ask(client, "lake.diff_versions", &request.base,
                            &lake_pb__diff_reply__descriptor, &answer, err);
    }
    if (status == LAKE_OK)
        status = copy_diff((const LakePb__DiffReply *)answer, out, err);
    client_answer_free(answer);
    return status;
}

void lake_version_diff_fini(struct lake_version_diff *diff)
{
    names_fini(&diff->columns_added);
    names_fini(&diff->columns_removed);
    names_fini(&diff->columns_changed);
}
