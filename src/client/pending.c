/* Appends that were written down and not answered: found, sent again, forgotten (SDK-5). */
#include "append.h"

#include <string.h>

/* The ID as files are named by it; nothing else gets into a path. */
static lake_status check(const lake_client *client, const char *operation_id,
                         char out[LAKE_OPERATION_ID_BYTES], struct lake_error *err)
{
    struct base_uuid uuid;
    lake_error_clear(err);
    if (client->upload_checkpoint_dir == NULL)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "this client has no checkpoint directory, in which appends would be "
                         "pending: set upload_checkpoint_dir when connecting");
    if (out == NULL)
        return LAKE_OK;
    if (operation_id == NULL || !base_uuid_parse(base_str_of(operation_id), &uuid))
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the operation ID is not a UUID");
    base_uuid_format(&uuid, out);
    return LAKE_OK;
}

lake_status lake_pending_append_ids(lake_client *client, struct lake_pending_appends *out,
                                    struct lake_error *err)
{
    struct lake_pending_appends found = {0};
    lake_status status = check(client, NULL, NULL, err);
    if (status != LAKE_OK)
        return status;
    found.operation_ids = base_calloc_array(LAKE_MAX_PENDING_APPENDS, LAKE_OPERATION_ID_BYTES);
    if (found.operation_ids == NULL)
        return base_fail_no_memory(err, LAKE_MAX_PENDING_APPENDS * LAKE_OPERATION_ID_BYTES);
    status = pending_file_list(client->upload_checkpoint_dir, found.operation_ids,
                               LAKE_MAX_PENDING_APPENDS, &found.count, err);
    if (status == LAKE_OK)
        *out = found;
    else
        lake_pending_appends_fini(&found);
    return status;
}

void lake_pending_appends_fini(struct lake_pending_appends *pending)
{
    base_free(pending->operation_ids);
    *pending = (struct lake_pending_appends){0};
}

lake_status lake_resume_pending_append(lake_client *client, const char *operation_id,
                                       struct lake_insert_result *result, struct lake_error *err)
{
    char id[LAKE_OPERATION_ID_BYTES];
    struct pending_record record;
    struct client_append append = {.operation_id = id, .recorded = &record};
    struct lake_insert_result filled = LAKE_INSERT_RESULT_INIT;
    lake_status status = check(client, operation_id, id, err);
    if (status == LAKE_OK)
        status =
            pending_file_open(client->upload_checkpoint_dir, id, &append.pending, &record, err);
    if (status != LAKE_OK)
        return status;
    append.namespace_name = record.namespace_name;
    append.table = record.table;
    if (base_str_equal_c(record.lake, client->lake_uri))
        status = client_append_resume(client, &append, &filled, err);
    else
        status = lake_fail(err, LAKE_FAILED_PRECONDITION,
                           "this append was made for the lake with the stage %.*s, not for this "
                           "one",
                           LAKE_STR_FMT(record.lake));
    pending_file_free(append.pending);
    client_append_hand_over(&filled, status, result);
    return status;
}

lake_status lake_drop_pending_append(lake_client *client, const char *operation_id,
                                     struct lake_error *err)
{
    char id[LAKE_OPERATION_ID_BYTES];
    struct pending_file *file = NULL;
    lake_status status = check(client, operation_id, id, err);
    if (status == LAKE_OK)
        status = pending_file_lock(client->upload_checkpoint_dir, id, &file, err);
    if (status == LAKE_OK)
        status = pending_file_remove(file, err);
    pending_file_free(file);
    return status;
}
