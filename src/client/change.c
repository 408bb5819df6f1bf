/* Deletes, updates and what else changes rows: one action of Query, asked for again under the same
 * operation ID (NAT-6). */
#include "append.h"

#define ATTEMPTS          4
#define FIRST_BACKOFF_MS  100
#define CHANGE_TIMEOUT_MS (10 * 60 * 1000) /* the predicate, then the rows */

static lake_status ask(lake_client *client, const char *type, struct lake_bytes command,
                       struct lake_change_result *result, struct lake_error *err)
{
    struct flight_action action = {base_str_of(type), command};
    struct base_buffer reply;
    base_buffer_init(&reply, CLIENT_MAX_METADATA_BYTES);
    int64_t timeout_ms = BASE_MAX(client->timeout_ms, (int64_t)CHANGE_TIMEOUT_MS);
    lake_status status =
        flight_do_action(client->channel, NULL, 0, timeout_ms, &action, &reply, err);
    if (status == LAKE_OK) {
        LakePb__ChangeRowsResult *answer =
            lake_pb__change_rows_result__unpack(NULL, reply.size, reply.data);
        if (answer == NULL) {
            status = lake_fail(err, LAKE_OUTCOME_UNKNOWN, "the change's answer is unreadable");
        } else {
            result->version = answer->version;
            result->row_count = answer->row_count;
            result->replayed = answer->replayed != 0;
            lake_pb__change_rows_result__free_unpacked(answer, NULL);
        }
    }
    base_buffer_fini(&reply);
    return status;
}

/* Where what was asked for may have been done. */
static bool is_in_doubt(lake_status status)
{
    return status == LAKE_OUTCOME_UNKNOWN || status == LAKE_UNAVAILABLE ||
           status == LAKE_DEADLINE_EXCEEDED;
}

lake_status client_change_commit(lake_client *client, const char *type, struct lake_bytes command,
                                 struct lake_change_result *filled,
                                 struct lake_change_result *result, struct lake_error *err)
{
    lake_status status = LAKE_UNAVAILABLE;
    for (int i = 0; i < ATTEMPTS && is_in_doubt(status); i++) {
        if (i > 0)
            base_sleep_ms((int64_t)FIRST_BACKOFF_MS << (i - 1));
        status = ask(client, type, command, filled, err);
    }
    if (status == LAKE_OK)
        lake_error_clear(err); /* of the attempts before */
    if (result != NULL && (status == LAKE_OK || is_in_doubt(status)))
        *result = *filled;
    return status;
}

static lake_status change_rows(lake_client *client, const char *table,
                               LakePb__ChangeRowsCommand *command, const char *predicate,
                               const char *operation_id, struct lake_change_result *result,
                               struct lake_error *err)
{
    LakePb__TableName name;
    struct lake_change_result filled = {0};
    struct base_buffer body;
    base_buffer_init(&body, CLIENT_MAX_METADATA_BYTES);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK && base_str_trim(base_str_of(predicate)).size == 0)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "which rows? The predicate is empty; \"true\" is all of them");
    if (status == LAKE_OK)
        status = client_operation_id(operation_id, filled.operation_id, err);
    if (status != LAKE_OK)
        return status;
    command->name = &name;
    command->has_operation_id = command->has_predicate = true;
    command->operation_id = client_binary(base_str_of(filled.operation_id));
    command->predicate = client_binary(base_str_of(predicate));
    status = client_pack(&command->base, &body, err);
    if (status == LAKE_OK)
        status = client_change_commit(client, "lake.change_rows", base_buffer_view(&body), &filled,
                                      result, err);
    base_buffer_fini(&body);
    return status;
}

lake_status lake_delete_rows(lake_client *client, const char *table, const char *predicate,
                             const char *operation_id, struct lake_change_result *result,
                             struct lake_error *err)
{
    LakePb__ChangeRowsCommand command = LAKE_PB__CHANGE_ROWS_COMMAND__INIT;
    lake_error_clear(err);
    return change_rows(client, table, &command, predicate, operation_id, result, err);
}

lake_status lake_update_rows(lake_client *client, const char *table,
                             const struct lake_assignment *assignments, size_t assignment_count,
                             const char *predicate, const char *operation_id,
                             struct lake_change_result *result, struct lake_error *err)
{
    LakePb__ChangeRowsCommand command = LAKE_PB__CHANGE_ROWS_COMMAND__INIT;
    lake_error_clear(err);
    if (assignment_count == 0)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "an update sets at least one column");
    LakePb__Assignment *items = base_calloc_array(assignment_count, sizeof(*items));
    LakePb__Assignment **pointers = base_calloc_array(assignment_count, sizeof(*pointers));
    lake_status status = LAKE_OK;
    if (items == NULL || pointers == NULL)
        status = base_fail_no_memory(err, assignment_count * sizeof(*items));
    for (size_t i = 0; i < assignment_count && status == LAKE_OK; i++) {
        lake_pb__assignment__init(&items[i]);
        items[i].has_column = items[i].has_expression = true;
        items[i].column = client_binary(base_str_of(assignments[i].column));
        items[i].expression = client_binary(base_str_of(assignments[i].expression));
        pointers[i] = &items[i];
    }
    if (status == LAKE_OK) {
        command.n_assignments = assignment_count;
        command.assignments = pointers;
        status = change_rows(client, table, &command, predicate, operation_id, result, err);
    }
    base_free((void *)pointers);
    base_free(items);
    return status;
}
