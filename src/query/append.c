/*
 * DoPut: appends, passed on to Metasrv message by message. Query authorises, Metasrv authorises
 * again and decides (NAT-13); the answer is Metasrv's, also when it is that the outcome is unknown.
 */
#include "query_internal.h"

#include <string.h>

#define APPEND_DEADLINE_MS   120000
#define MAX_DESCRIPTOR_BYTES ((size_t)1024 * 1024)

static void release_payload(void *context)
{
    struct rpc_payload *payload = context;
    rpc_payload_fini(payload);
    base_free(payload);
}

/* Sends the received bytes on without a copy; takes `payload` over. */
static lake_status pass_on(struct rpc_client_call *metasrv, struct rpc_payload *payload,
                           struct lake_error *err)
{
    struct rpc_payload *kept = base_alloc(sizeof(*kept));
    if (kept == NULL) {
        rpc_payload_fini(payload);
        return base_fail_no_memory(err, sizeof(*kept));
    }
    *kept = *payload;
    struct rpc_part part = {kept->bytes.data, kept->bytes.size, release_payload, kept, false};
    return rpc_client_call_send(metasrv, &part, 1, err);
}

static lake_status read_only(struct lake_error *err)
{
    return lake_fail(err, LAKE_INVALID_ARGUMENT, "%s", SQL_READ_ONLY_MESSAGE);
}

/* Refuses everything that is not an append to a namespace that the caller may use. */
static lake_status check_command(const struct rpc_principal *principal, struct lake_bytes message,
                                 struct base_arena *arena, struct lake_error *err)
{
    struct flight_data data;
    struct flight_descriptor descriptor;
    struct lake_bytes value;
    lake_status status = flight_data_decode(message, &data, err);
    if (status == LAKE_OK && !data.has_descriptor)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the DoPut stream does not start with a "
                         "descriptor");
    if (status == LAKE_OK)
        status = flight_descriptor_decode(data.descriptor, arena, &descriptor, err);
    if (status != LAKE_OK)
        return status;
    if (flight_sql_is_command(descriptor.command))
        return read_only(err);
    if (!flight_any_unpack(descriptor.command, "type.lake/AppendCommand", &value))
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "DoPut takes an append command: use the client library");
    LakePb__AppendCommand *append = lake_pb__append_command__unpack(NULL, value.size, value.data);
    if (append == NULL || append->name == NULL)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "the append command cannot be read");
    else if (!rpc_principal_may_use_namespace(
                 principal, (struct lake_str){(const char *)append->name->namespace_name.data,
                                              append->name->namespace_name.len}))
        status = lake_fail(err, LAKE_PERMISSION_DENIED,
                           "you may not write to this namespace: ask for it to be granted");
    lake_pb__append_command__free_unpacked(append, NULL);
    return status;
}

static lake_status pass_answers_back(struct rpc_client_call *metasrv, struct rpc_call *call,
                                     struct lake_error *err)
{
    for (;;) {
        struct rpc_payload payload = {0};
        bool end = false;
        lake_status status = rpc_client_call_receive(metasrv, &payload, &end, err);
        if (status != LAKE_OK || end)
            return status;
        status = flight_send_bytes(flight_sender_of_call(call), payload.bytes, err);
        rpc_payload_fini(&payload);
        if (status != LAKE_OK)
            return status;
    }
}

static void cancel_put(void *context)
{
    rpc_client_call_cancel(context);
}

/* Everything that the client sends, then everything that Metasrv answers. */
static lake_status relay(struct rpc_call *call, struct rpc_client_call *metasrv,
                         struct rpc_payload *first, struct lake_error *err)
{
    lake_status status = pass_on(metasrv, first, err);
    while (status == LAKE_OK) {
        struct rpc_payload payload = {0};
        bool end = false;
        status = rpc_call_receive(call, &payload, &end, err);
        if (status != LAKE_OK || end)
            break;
        status = pass_on(metasrv, &payload, err);
    }
    if (status == LAKE_OK)
        status = rpc_client_call_finish_sending(metasrv, err);
    if (status == LAKE_OK)
        status = pass_answers_back(metasrv, call, err);
    /* The request may have been carried out although its answer was lost (L21). */
    if ((status == LAKE_UNAVAILABLE || status == LAKE_DEADLINE_EXCEEDED) &&
        rpc_client_call_was_sent(metasrv))
        status = lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                                "the append was sent but its answer was lost: retry it with the "
                                "same operation ID, which cannot add the rows twice");
    return status;
}

lake_status query_put_run(struct query_server *server, struct rpc_call *call,
                          struct lake_error *err)
{
    const struct rpc_principal *principal = rpc_call_principal(call);
    struct rpc_client_call *metasrv = NULL;
    struct rpc_payload first = {0};
    struct base_arena *arena = NULL;
    bool end = false;
    lake_status status = rpc_call_receive(call, &first, &end, err);
    if (status != LAKE_OK)
        return status;
    if (end)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the DoPut stream is empty");
    status = base_arena_new(MAX_DESCRIPTOR_BYTES, &arena, err);
    if (status == LAKE_OK)
        status = check_command(principal, first.bytes, arena, err);
    if (status == LAKE_OK)
        status = query_metasrv_put(server->metasrv, principal,
                                   BASE_MIN(rpc_call_time_left_ms(call), APPEND_DEADLINE_MS),
                                   &metasrv, err);
    if (status != LAKE_OK) {
        rpc_payload_fini(&first);
        base_arena_free(arena);
        return status;
    }
    base_arena_free(arena);
    rpc_call_on_cancel(call, cancel_put, metasrv);
    status = relay(call, metasrv, &first, err);
    rpc_call_on_cancel(call, NULL, NULL);
    rpc_client_call_free(metasrv);
    return status;
}
