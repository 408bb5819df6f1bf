/*
 * One append: encoded, sent through DoPut, answered with the version that holds it. The operation
 * ID makes a retry safe (NAT-6), so a lost answer is asked for again a few times before the caller
 * hears that the outcome is unknown (L21).
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
    lake_status status =
        base_buffer_reserve(&message, lake_pb__append_command__get_packed_size(&command), err);
    if (status == LAKE_OK) {
        message.size = lake_pb__append_command__pack(&command, message.data);
        status = flight_any_pack(APPEND_TYPE_URL, base_buffer_view(&message), &any, err);
    }
    if (status == LAKE_OK) {
        struct flight_descriptor descriptor = {.type = FLIGHT_DESCRIPTOR_CMD,
                                               .command = base_buffer_view(&any)};
        status = flight_descriptor_encode(&descriptor, out, err);
    }
    base_buffer_fini(&message);
    base_buffer_fini(&any);
    return status;
}

static lake_status read_answer(struct rpc_client_call *call, struct lake_insert_result *result,
                               struct lake_error *err)
{
    bool answered = false;
    for (;;) {
        struct rpc_payload payload = {0};
        struct lake_bytes metadata;
        bool end = false;
        lake_status status = rpc_client_call_receive(call, &payload, &end, err);
        if (status == LAKE_OK && end && !answered)
            return lake_fail(err, LAKE_OUTCOME_UNKNOWN,
                             "the server ended the append without an "
                             "answer");
        if (status != LAKE_OK || end)
            return status;
        status = flight_put_result_decode(payload.bytes, &metadata, err);
        if (status == LAKE_OK && metadata.size > 0) {
            LakePb__AppendResult *answer =
                lake_pb__append_result__unpack(NULL, metadata.size, metadata.data);
            if (answer == NULL) {
                status = lake_fail(err, LAKE_OUTCOME_UNKNOWN, "the append's answer is unreadable");
            } else {
                result->version = answer->version;
                result->row_count = answer->row_count;
                result->replayed = answer->replayed != 0;
                answered = true;
                lake_pb__append_result__free_unpacked(answer, NULL);
            }
        }
        rpc_payload_fini(&payload);
        if (status != LAKE_OK)
            return status;
    }
}

/* An error that the server sent before the stream ended is better than "could not send". */
static lake_status send_batches(const struct client_append *append, struct rpc_client_call *call,
                                struct lake_bytes descriptor, struct lake_error *err)
{
    struct flight_stream_writer *writer = NULL;
    struct flight_stream_options options;
    flight_stream_options_init(&options);
    options.max_message_bytes = CLIENT_MAX_APPEND_BYTES; /* one row may be all of it */
    lake_status status = flight_stream_writer_new(flight_sender_of_client(call), append->schema,
                                                  &options, &writer, err);
    if (status == LAKE_OK)
        status = flight_stream_writer_begin(writer, descriptor, (struct lake_bytes){0}, err);
    for (size_t i = 0; i < append->batch_count && status == LAKE_OK; i++)
        status = flight_stream_writer_write(writer, append->batches[i], err);
    flight_stream_writer_free(writer);
    if (status == LAKE_OK)
        status = rpc_client_call_finish_sending(call, err);
    return status;
}

static lake_status attempt(lake_client *client, const struct client_append *append,
                           struct lake_bytes descriptor, struct lake_insert_result *result,
                           struct lake_error *err)
{
    struct rpc_client_call *call = NULL;
    lake_status status = rpc_client_call_start(client->channel, FLIGHT_METHOD_DO_PUT, NULL, 0,
                                               client->timeout_ms, &call, err);
    if (status == LAKE_OK)
        status = send_batches(append, call, descriptor, err);
    if (status == LAKE_OK)
        status = read_answer(call, result, err);
    if ((status == LAKE_UNAVAILABLE || status == LAKE_DEADLINE_EXCEEDED) && call != NULL &&
        rpc_client_call_was_sent(call))
        status = lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                                "the append was sent but its answer was lost: retry it with the "
                                "operation ID %s, which cannot add the rows twice",
                                append->operation_id);
    rpc_client_call_free(call);
    return status;
}

lake_status client_append_run(lake_client *client, const struct client_append *append,
                              struct lake_insert_result *result, struct lake_error *err)
{
    struct base_buffer descriptor;
    base_buffer_init(&descriptor, COMMAND_BYTES);
    lake_status status = encode_descriptor(append, &descriptor, err);
    bool unknown = false;
    for (int i = 0; i < ATTEMPTS && status == LAKE_OK; i++) {
        status = attempt(client, append, base_buffer_view(&descriptor), result, err);
        if (status == LAKE_OK)
            break;
        unknown = unknown || status == LAKE_OUTCOME_UNKNOWN;
        bool again =
            status == LAKE_OUTCOME_UNKNOWN || status == LAKE_UNAVAILABLE || status == LAKE_ABORTED;
        if (!again || i + 1 == ATTEMPTS)
            break;
        base_sleep_ms((int64_t)FIRST_BACKOFF_MS << i);
        status = LAKE_OK;
    }
    /* Once one attempt may have been carried out, "nobody is there" no longer says it was not. */
    if (unknown && status == LAKE_UNAVAILABLE)
        status = lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                                "the append was sent but its answer was lost, and the server is "
                                "gone: retry it with the operation ID %s",
                                append->operation_id);
    base_buffer_fini(&descriptor);
    return status;
}
