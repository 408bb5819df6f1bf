/*
 * One append: measured, sent through DoPut, answered with the version that holds it. The operation
 * ID makes a retry safe (NAT-6), so a lost answer is asked for again a few times before the caller
 * hears that the outcome is unknown (L21). With a checkpoint directory it is written down before it
 * is sent, and stays so until the server has answered for it (SDK-5).
 */
#include "append.h"

#include <string.h>

#define ATTEMPTS         4
#define FIRST_BACKOFF_MS 100
#define APPEND_TYPE_URL  "type.lake/AppendCommand"
#define COMMAND_BYTES    ((size_t)64 * 1024)

static lake_status encode_descriptor(const struct client_append *append, struct base_buffer *out,
                                     struct lake_error *err)
{
    LakePb__AppendCommand command = LAKE_PB__APPEND_COMMAND__INIT;
    LakePb__TableName name = LAKE_PB__TABLE_NAME__INIT;
    struct base_buffer message;
    struct base_buffer any;
    base_buffer_init(&message, COMMAND_BYTES);
    base_buffer_init(&any, COMMAND_BYTES);
    name.has_namespace_name = name.has_table = 1;
    name.namespace_name = client_binary(append->namespace_name);
    name.table = client_binary(append->table);
    command.name = &name;
    command.has_operation_id = 1;
    command.operation_id = client_binary(base_str_of(append->operation_id));
    command.has_expected_incarnation = append->pending != NULL && append->incarnation[0] != '\0';
    command.expected_incarnation = client_binary(base_str_of(append->incarnation));
    lake_status status = client_pack(&command.base, &message, err);
    if (status == LAKE_OK)
        status = flight_any_pack(APPEND_TYPE_URL, base_buffer_view(&message), &any, err);
    if (status == LAKE_OK) {
        struct flight_descriptor descriptor = {.type = FLIGHT_DESCRIPTOR_CMD,
                                               .command = base_buffer_view(&any)};
        status = flight_descriptor_encode(&descriptor, out, err);
    }
    base_buffer_fini(&message);
    base_buffer_fini(&any);
    return status;
}

/* Whether the rows are there cannot be known from an answer like this (L21). */
static lake_status unreadable(struct lake_error *err)
{
    return lake_fail(err, LAKE_OUTCOME_UNKNOWN, "the append's answer is unreadable");
}

static lake_status take_answer(struct lake_bytes message, bool *answered,
                               struct lake_insert_result *result, struct lake_error *err)
{
    struct lake_bytes metadata;
    if (flight_put_result_decode(message, &metadata, NULL) != LAKE_OK)
        return unreadable(err);
    if (metadata.size == 0)
        return LAKE_OK;
    LakePb__AppendResult *answer =
        lake_pb__append_result__unpack(NULL, metadata.size, metadata.data);
    if (answer == NULL)
        return unreadable(err);
    result->version = answer->version;
    result->row_count = answer->row_count;
    result->replayed = answer->replayed != 0;
    *answered = true;
    lake_pb__append_result__free_unpacked(answer, NULL);
    return LAKE_OK;
}

/* Once the answer is there the append is committed, however the call ends. */
static lake_status read_answer(struct rpc_client_call *call, struct lake_insert_result *result,
                               struct lake_error *err)
{
    bool answered = false;
    bool end = false;
    lake_status status = LAKE_OK;
    while (status == LAKE_OK && !end) {
        struct rpc_payload payload = {0};
        status = rpc_client_call_receive(call, &payload, &end, err);
        if (status == LAKE_OK && !end)
            status = take_answer(payload.bytes, &answered, result, err);
        rpc_payload_fini(&payload);
    }
    if (answered)
        return LAKE_OK;
    if (status == LAKE_OK)
        status =
            lake_fail(err, LAKE_OUTCOME_UNKNOWN, "the server ended the append without an answer");
    return status;
}

/* ---- sending ---- */

/* A caller's memory is free again when the call returns, and the transport may hold what it sends a
 * little longer: borrowed rows are copied as they go, message by message. */
static lake_status send_copied(void *context, struct rpc_part *parts, size_t part_count,
                               struct lake_error *err)
{
    const struct flight_sender *sender = context;
    for (size_t i = 0; i < part_count; i++)
        parts[i].copy = true;
    return sender->send(sender->context, parts, part_count, err);
}

/* What one append may be, counted as it would be sent (SDK-3, SDK-4). */
struct measure {
    uint64_t bytes;
    uint64_t messages;
    struct pending_file *pending; /* NULL: only measured */
};

static lake_status check_measure(const struct measure *measure, struct lake_error *err)
{
    if (measure->messages > CLIENT_MAX_MESSAGES)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "the rows take more than %d messages, the limit of one append: give them "
                         "in fewer batches",
                         CLIENT_MAX_MESSAGES);
    if (measure->bytes > CLIENT_MAX_APPEND_BYTES)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "the rows are more than %llu bytes encoded, the limit of one append: "
                         "append fewer rows at a time",
                         (unsigned long long)CLIENT_MAX_APPEND_BYTES);
    return LAKE_OK;
}

static lake_status count_message(void *context, struct rpc_part *parts, size_t part_count,
                                 struct lake_error *err)
{
    struct measure *measure = context;
    measure->messages++;
    for (size_t i = 0; i < part_count; i++)
        measure->bytes += parts[i].size;
    lake_status status = check_measure(measure, err);
    if (status == LAKE_OK && measure->pending != NULL)
        status = pending_file_add(measure->pending, parts, part_count, err);
    for (size_t i = 0; i < part_count; i++) {
        if (parts[i].release != NULL)
            parts[i].release(parts[i].context);
    }
    return status;
}

static lake_status write_stream(const struct client_append *append, struct flight_sender sender,
                                struct lake_bytes descriptor, struct lake_error *err)
{
    struct flight_stream_writer *writer = NULL;
    struct flight_stream_options options;
    flight_stream_options_init(&options);
    options.max_message_bytes = UINT64_MAX; /* the whole is limited, and one row may be all of it */
    lake_status status = flight_stream_writer_new(sender, append->schema, &options, &writer, err);
    if (status == LAKE_OK)
        status = flight_stream_writer_begin(writer, descriptor, (struct lake_bytes){0}, err);
    for (size_t i = 0; i < append->batch_count && status == LAKE_OK; i++)
        status = flight_stream_writer_write(writer, append->batches[i], err);
    flight_stream_writer_free(writer);
    return status;
}

/* Encodes everything once without sending it, so that what is too large never leaves, and what may
 * leave is written down if it is to be. */
static lake_status check_size(const struct client_append *append, struct lake_bytes descriptor,
                              struct lake_error *err)
{
    struct measure measure = {.pending = append->pending};
    return write_stream(append, (struct flight_sender){count_message, &measure}, descriptor, err);
}

static lake_status send_recorded(const struct pending_record *recorded, struct flight_sender sender,
                                 struct lake_error *err)
{
    struct lake_bytes rest = recorded->messages;
    struct lake_bytes message;
    lake_status status = LAKE_OK;
    while (status == LAKE_OK && pending_record_next(&rest, &message))
        status = flight_send_bytes(sender, message, err);
    return status;
}

/* An error that the server sent before the stream ended is better than "could not send". */
static lake_status send_batches(const struct client_append *append, struct rpc_client_call *call,
                                struct lake_bytes descriptor, struct lake_error *err)
{
    struct flight_sender sender = flight_sender_of_client(call);
    struct flight_sender copying = {send_copied, &sender};
    if (append->recorded != NULL)
        return send_recorded(append->recorded, sender, err);
    return write_stream(append, append->borrowed ? copying : sender, descriptor, err);
}

/* ---- attempts ---- */

/* Statuses by which a server says that it did nothing. The others come from one that stops or fails
 * at the wrong moment. */
static bool leaves_no_doubt(lake_status status)
{
    switch (status) {
    case LAKE_UNAVAILABLE:
    case LAKE_DEADLINE_EXCEEDED:
    case LAKE_CANCELLED:
    case LAKE_INTERNAL:
    case LAKE_UNKNOWN:
    case LAKE_OUTCOME_UNKNOWN:
        return false;
    default:
        return true;
    }
}

static lake_status attempt(lake_client *client, const struct client_append *append,
                           struct lake_bytes descriptor, struct lake_insert_result *result,
                           struct lake_error *err)
{
    struct rpc_client_call *call = NULL;
    bool all_sent = false;
    lake_status status = rpc_client_call_start(client->channel, FLIGHT_METHOD_DO_PUT, NULL, 0,
                                               client->timeout_ms, &call, err);
    if (status == LAKE_OK)
        status = send_batches(append, call, descriptor, err);
    if (status == LAKE_OK) { /* before the stream's end nothing is committed */
        all_sent = true;
        status = rpc_client_call_finish_sending(call, err);
    }
    if (status == LAKE_OK)
        status = read_answer(call, result, err);
    bool refused = call != NULL && rpc_client_call_was_refused(call) && leaves_no_doubt(status);
    if (status != LAKE_OK && status != LAKE_OUTCOME_UNKNOWN && all_sent && !refused &&
        rpc_client_call_was_sent(call))
        status = lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                                "the append was sent but its answer was lost: retry it with the "
                                "operation ID %s, which cannot add the rows twice",
                                append->operation_id);
    rpc_client_call_free(call);
    return status;
}

static bool is_worth_another(lake_status status, bool unknown)
{
    return status == LAKE_OUTCOME_UNKNOWN || status == LAKE_UNAVAILABLE || status == LAKE_ABORTED ||
           (unknown && (status == LAKE_RESOURCE_EXHAUSTED || status == LAKE_DEADLINE_EXCEEDED));
}

static lake_status try_a_few_times(lake_client *client, const struct client_append *append,
                                   struct lake_bytes descriptor, struct lake_insert_result *result,
                                   struct lake_error *err)
{
    bool unknown = false;
    lake_status status = LAKE_OK;
    for (int i = 0; i < ATTEMPTS; i++) {
        if (i > 0)
            base_sleep_ms((int64_t)FIRST_BACKOFF_MS << (i - 1));
        status = attempt(client, append, descriptor, result, err);
        unknown = unknown || status == LAKE_OUTCOME_UNKNOWN;
        if (!is_worth_another(status, unknown))
            break;
    }
    if (status == LAKE_OK)
        lake_error_clear(err); /* of the attempts before */
    /* Once one attempt may have been carried out, only an answer about its ID says whether it was:
     * "nobody is there", "busy" or "there is no such table" came too late. */
    if (unknown && status != LAKE_OK && status != LAKE_ALREADY_EXISTS &&
        status != LAKE_OUTCOME_UNKNOWN)
        status = lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                                "the append was sent but its answer was lost, and asking again "
                                "failed: retry it with the operation ID %s",
                                append->operation_id);
    return status;
}

/* ---- what is written down ---- */

/* An answer about the append itself, after which it is not asked for again. Of one that may have
 * been sent before, "not you" and "not now" say nothing about it. */
static bool is_final(const struct pending_file *pending, lake_status status)
{
    switch (status) {
    case LAKE_UNAUTHENTICATED:
    case LAKE_PERMISSION_DENIED:
    case LAKE_RESOURCE_EXHAUSTED:
    case LAKE_ABORTED:
        return !pending_file_was_there(pending);
    default:
        return status == LAKE_OK || leaves_no_doubt(status);
    }
}

static lake_status begin_pending(lake_client *client, struct client_append *append,
                                 struct lake_error *err)
{
    const struct pending_record record = {
        .lake = base_str_of(client->lake_uri),
        .operation_id = base_str_of(append->operation_id),
        .namespace_name = append->namespace_name,
        .table = append->table,
    };
    if (client->upload_checkpoint_dir == NULL)
        return LAKE_OK;
    return pending_file_create(client->upload_checkpoint_dir, &record, &append->pending, err);
}

/* Removes what is settled. What was kept and is not settled may yet be carried out, by whoever
 * resumes it: that is no failure, whatever this call met. */
static lake_status settle(const struct client_append *append, lake_status status,
                          struct lake_error *err)
{
    if (append->pending == NULL)
        return status;
    if (is_final(append->pending, status)) {
        /* One that cannot be removed is answered for when it is resumed. */
        if (BASE_FAULT("client.append.answered", NULL) == LAKE_OK)
            (void)pending_file_remove(append->pending, NULL);
    } else if (status != LAKE_OUTCOME_UNKNOWN && !pending_file_was_there(append->pending)) {
        status = lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                                "the append was not carried out yet; it is kept as pending: resume "
                                "%s",
                                append->operation_id);
    }
    (void)BASE_FAULT("client.append.settled", NULL);
    return status;
}

static lake_status send(lake_client *client, const struct client_append *append,
                        struct lake_bytes descriptor, struct lake_insert_result *result,
                        struct lake_error *err)
{
    lake_status status = BASE_FAULT("client.append.kept", err);
    if (status == LAKE_OK)
        status = try_a_few_times(client, append, descriptor, result, err);
    status = settle(append, status, err);
    /* The table may not be what the cache says any more: the next call looks it up. */
    if (status != LAKE_OK && leaves_no_doubt(status))
        client_schema_forget(client, append->namespace_name, append->table);
    return status;
}

static lake_status run(lake_client *client, struct client_append *append,
                       struct lake_insert_result *result, struct lake_error *err)
{
    struct base_buffer buffer;
    base_buffer_init(&buffer, COMMAND_BYTES);
    lake_status status = begin_pending(client, append, err);
    if (status == LAKE_OK)
        status = encode_descriptor(append, &buffer, err);
    struct lake_bytes descriptor = base_buffer_view(&buffer);
    if (status == LAKE_OK)
        status = check_size(append, descriptor, err);
    if (status == LAKE_OK && append->pending != NULL) {
        status = pending_file_publish(append->pending, err);
        append->joined = pending_file_was_there(append->pending);
    }
    if (status == LAKE_OK)
        status = send(client, append, descriptor, result, err);
    pending_file_free(append->pending);
    append->pending = NULL;
    base_buffer_fini(&buffer);
    return status;
}

lake_status client_append_resume(lake_client *client, struct client_append *append,
                                 struct lake_insert_result *result, struct lake_error *err)
{
    memcpy(result->operation_id, append->operation_id, LAKE_OPERATION_ID_BYTES);
    return send(client, append, (struct lake_bytes){0}, result, err);
}

lake_status client_operation_id(const char *given, char out[LAKE_OPERATION_ID_BYTES],
                                struct lake_error *err)
{
    struct base_uuid uuid;
    if (given == NULL) {
        lake_status status = base_uuid7_new(&uuid, err);
        if (status != LAKE_OK)
            return status;
    } else if (!base_uuid_parse(base_str_of(given), &uuid) || base_uuid_version(&uuid) != 7) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the operation ID '%s' is not a UUIDv7",
                         given);
    }
    base_uuid_format(&uuid, out);
    return LAKE_OK;
}

/* Whether the table is a new one, with the same columns, which the cache did not know; the append
 * is for that one then. */
static bool was_made_anew(lake_client *client, struct client_append *append)
{
    struct client_schema *now = NULL;
    char path[256];
    if (client_table_schema(client, append->namespace_name, append->table, &now, NULL) != LAKE_OK)
        return false;
    bool anew = strcmp(now->incarnation, append->incarnation) != 0 &&
                client_columns_equal(&now->arrow, append->schema, path, sizeof(path));
    if (anew)
        memcpy(append->incarnation, now->incarnation, sizeof(append->incarnation));
    client_schema_unref(now);
    return anew;
}

lake_status client_append_commit(lake_client *client, struct client_append *append,
                                 const char *operation_id, struct lake_insert_result *result,
                                 struct lake_error *err)
{
    lake_status status = client_operation_id(operation_id, result->operation_id, err);
    append->operation_id = result->operation_id;
    if (status == LAKE_OK)
        status = run(client, append, result, err);
    if (status == LAKE_FAILED_PRECONDITION && client->upload_checkpoint_dir != NULL &&
        !append->joined && was_made_anew(client, append)) {
        lake_error_clear(err);
        status = run(client, append, result, err);
    }
    return status;
}

void client_append_hand_over(struct lake_insert_result *from, lake_status status,
                             struct lake_insert_result *to)
{
    if (to != NULL && (status == LAKE_OK || status == LAKE_OUTCOME_UNKNOWN))
        *to = *from;
    else
        lake_insert_result_fini(from);
}
