/*
 * DoPut: appends, checked message by message and passed on to Metasrv without a copy. Query
 * authorises and refuses FILE values outside the caller's stage (OBJ-2), Metasrv does both again
 * and decides (NAT-13); the answer is Metasrv's, also when it is that the outcome is unknown.
 *
 * One message is held at a time, and the dictionaries that have passed: the bound on an append's
 * bytes bounds them, too.
 */
#include "query_internal.h"

#include <stdatomic.h>
#include <string.h>

#define APPEND_DEADLINE_MS   120000
#define MAX_DESCRIPTOR_BYTES ((size_t)1024 * 1024)
#define MAX_COMMAND_BYTES    4096
#define MAX_ENCODED_BYTES    ((uint64_t)64 * 1024 * 1024) /* as Metasrv counts */
#define MAX_MESSAGES         170001                       /* SDK-4 */

/* ---- messages that the decoder and the transport both hold ---- */

struct shared_payload {
    atomic_uint references;
    struct rpc_payload payload;
};

static void shared_unref(void *context)
{
    struct shared_payload *shared = context;
    if (atomic_fetch_sub(&shared->references, 1) != 1)
        return;
    rpc_payload_fini(&shared->payload);
    base_free(shared);
}

/* Takes `payload` over in every case. */
static lake_status share(struct rpc_payload *payload, struct shared_payload **out,
                         struct lake_error *err)
{
    struct shared_payload *shared = base_alloc(sizeof(*shared));
    if (shared == NULL) {
        rpc_payload_fini(payload);
        return base_fail_no_memory(err, sizeof(*shared));
    }
    atomic_init(&shared->references, 1);
    shared->payload = *payload;
    *out = shared;
    return LAKE_OK;
}

/* ---- one append ---- */

struct append {
    struct query_server *server;
    struct rpc_call *call;
    struct rpc_client_call *metasrv;
    struct arrow_ipc_decoder *decoder;
    const struct ArrowSchema *schema; /* of the rows, with text and bytes in place of views */
    struct ArrowSchema plain;         /* where it is when they have come with views */
    char *stage;    /* the caller's, with a slash at its end; NULL until a FILE column is seen */
    bool has_files; /* the schema has a FILE column: batches are decoded */
    int64_t rows;
    uint64_t encoded_bytes;
    uint64_t message_count;
};

static lake_status read_only(struct lake_error *err)
{
    return lake_fail(err, LAKE_INVALID_ARGUMENT, "%s", SQL_READ_ONLY_MESSAGE);
}

static lake_status check_command(const struct rpc_principal *principal, struct lake_bytes value,
                                 struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (value.size > MAX_COMMAND_BYTES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the append command has %zu bytes; at most %d",
                         value.size, MAX_COMMAND_BYTES);
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

/* Refuses everything that is not an append to a namespace that the caller may use. */
static lake_status check_descriptor(const struct rpc_principal *principal,
                                    struct lake_bytes message, struct lake_error *err)
{
    struct flight_data data;
    struct flight_descriptor descriptor;
    struct base_arena *arena = NULL;
    struct lake_bytes value;
    lake_status status = flight_data_decode(message, &data, err);
    if (status == LAKE_OK && !data.has_descriptor)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "the DoPut stream does not start with a descriptor");
    if (status == LAKE_OK)
        status = base_arena_new(MAX_DESCRIPTOR_BYTES, &arena, err);
    if (status == LAKE_OK)
        status = flight_descriptor_decode(data.descriptor, arena, &descriptor, err);
    if (status == LAKE_OK && flight_sql_is_command(descriptor.command))
        status = read_only(err);
    else if (status == LAKE_OK &&
             !flight_any_unpack(descriptor.command, "type.lake/AppendCommand", &value))
        status = lake_fail(err, LAKE_UNIMPLEMENTED,
                           "DoPut takes an append command: use the client library");
    else if (status == LAKE_OK)
        status = check_command(principal, value, err);
    base_arena_free(arena);
    return status;
}

/* ---- FILE values (OBJ-2) ---- */

static lake_status look_at_schema(struct append *append, struct lake_error *err)
{
    const struct ArrowSchema *given = arrow_ipc_decoder_schema(append->decoder);
    char *uri = NULL;
    bool views = arrow_schema_has_views(given);
    lake_status status = views ? arrow_plain_schema(given, NULL, &append->plain, err) : LAKE_OK;
    append->schema = views ? &append->plain : given;
    if (status == LAKE_OK)
        status = arrow_file_schema_check(append->schema, err);
    append->has_files = status == LAKE_OK && arrow_file_schema_contains(append->schema);
    if (!append->has_files || append->stage != NULL)
        return status;
    status = query_stage_uri(append->server->stage, rpc_call_principal(append->call), &uri, err);
    if (status == LAKE_OK && (append->stage = base_format("%s/", uri)) == NULL)
        status = base_fail_no_memory(err, strlen(uri));
    base_free(uri);
    return status;
}

static lake_status look_at_batch(struct append *append, struct ArrowArray *batch,
                                 struct lake_error *err)
{
    const struct ArrowSchema *given = arrow_ipc_decoder_schema(append->decoder);
    uint64_t left_bytes = MAX_ENCODED_BYTES;
    const struct arrow_file_rule rule = {
        .stage = base_str_of(append->stage),
        .tenant_id = rpc_call_principal(append->call)->tenant_id,
        .first_row = append->rows,
    };
    append->rows += batch->length;
    lake_status status = arrow_array_validate(given, batch, err);
    if (status == LAKE_OK && append->schema != given)
        status = arrow_plain_array(given, append->schema, batch, &left_bytes, err);
    if (status == LAKE_OK)
        status = arrow_file_values_check(append->schema, batch, &rule, err);
    return status;
}

/* Decodes the schema always, and batches when they may hold what must be checked. */
static lake_status look_at_rows(struct append *append, struct shared_payload *shared,
                                const struct flight_data *data, struct lake_error *err)
{
    struct ArrowArray batch = {.release = NULL};
    enum arrow_ipc_kind kind = ARROW_IPC_SCHEMA;
    if (arrow_ipc_decoder_schema(append->decoder) != NULL && !append->has_files)
        return LAKE_OK;
    atomic_fetch_add(&shared->references, 1);
    struct arrow_ipc_body body = {data->body, shared_unref, shared};
    lake_status status = arrow_ipc_decode(append->decoder, data->header, &body, &kind, &batch, err);
    if (status == LAKE_OK && kind == ARROW_IPC_SCHEMA)
        status = look_at_schema(append, err);
    else if (status == LAKE_OK && kind == ARROW_IPC_BATCH)
        status = look_at_batch(append, &batch, err);
    if (batch.release != NULL)
        batch.release(&batch);
    return status;
}

static lake_status look_at(struct append *append, struct shared_payload *shared,
                           struct lake_error *err)
{
    struct flight_data data;
    lake_status status = flight_data_decode(shared->payload.bytes, &data, err);
    if (status != LAKE_OK)
        return status;
    append->encoded_bytes += data.header.size + data.body.size;
    append->message_count++;
    if (append->encoded_bytes > MAX_ENCODED_BYTES)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "the append has more than %llu bytes encoded; split it",
                         (unsigned long long)MAX_ENCODED_BYTES);
    if (append->message_count > MAX_MESSAGES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "an append of more than %d messages",
                         MAX_MESSAGES);
    return data.header.size == 0 ? LAKE_OK : look_at_rows(append, shared, &data, err);
}

/* ---- the relay ---- */

/* Checks a received message and sends its bytes on; takes `payload` over. */
static lake_status pass_on(struct append *append, struct rpc_payload *payload,
                           struct lake_error *err)
{
    struct shared_payload *shared = NULL;
    lake_status status = share(payload, &shared, err);
    if (status != LAKE_OK)
        return status;
    status = look_at(append, shared, err);
    if (status != LAKE_OK) {
        shared_unref(shared);
        return status;
    }
    struct rpc_part part = {shared->payload.bytes.data, shared->payload.bytes.size, shared_unref,
                            shared, false};
    return rpc_client_call_send(append->metasrv, &part, 1, err);
}

static lake_status pass_answers_back(struct append *append, struct lake_error *err)
{
    for (;;) {
        struct rpc_payload payload = {0};
        bool end = false;
        lake_status status = rpc_client_call_receive(append->metasrv, &payload, &end, err);
        if (status != LAKE_OK || end)
            return status;
        status = flight_send_bytes(flight_sender_of_call(append->call), payload.bytes, err);
        rpc_payload_fini(&payload);
        if (status != LAKE_OK)
            return status;
    }
}

/* True when Metasrv itself says that it did nothing; everything else that comes after all was sent,
 * from the connection or from this process, leaves it unknown (L21). */
static bool is_refused(const struct append *append, lake_status status)
{
    return rpc_client_call_was_refused(append->metasrv) && status != LAKE_UNAVAILABLE &&
           status != LAKE_DEADLINE_EXCEEDED && status != LAKE_CANCELLED &&
           status != LAKE_INTERNAL && status != LAKE_UNKNOWN;
}

/* Everything that the client sends, then everything that Metasrv answers. */
static lake_status relay(struct append *append, struct rpc_payload *first, struct lake_error *err)
{
    lake_status status = pass_on(append, first, err);
    while (status == LAKE_OK) {
        struct rpc_payload payload = {0};
        bool end = false;
        status = rpc_call_receive(append->call, &payload, &end, err);
        if (status != LAKE_OK)
            return status; /* Metasrv commits nothing before the stream's end */
        if (end)
            break;
        status = pass_on(append, &payload, err);
    }
    if (status != LAKE_OK)
        return status;
    status = rpc_client_call_finish_sending(append->metasrv, err);
    if (status == LAKE_OK)
        status = pass_answers_back(append, err);
    if (status != LAKE_OK && status != LAKE_OUTCOME_UNKNOWN && !is_refused(append, status) &&
        rpc_client_call_was_sent(append->metasrv))
        status = lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                                "the append was sent but its answer was lost: retry it with the "
                                "same operation ID, which cannot add the rows twice");
    return status;
}

static void cancel_put(void *context)
{
    rpc_client_call_cancel(context);
}

/* A client that stops sending holds a worker no longer than an append may take. */
static int64_t end_overdue(void *context, uint32_t times)
{
    (void)times;
    rpc_call_abort(context, LAKE_DEADLINE_EXCEEDED);
    return APPEND_DEADLINE_MS;
}

static lake_status relay_watched(struct append *append, struct rpc_payload *first,
                                 struct lake_error *err)
{
    struct query_watch watch;
    query_watchdog_add(append->server->watchdog, &watch, APPEND_DEADLINE_MS, end_overdue,
                       append->call);
    rpc_call_on_cancel(append->call, cancel_put, append->metasrv);
    lake_status status = relay(append, first, err);
    rpc_call_on_cancel(append->call, NULL, NULL);
    (void)query_watchdog_remove(append->server->watchdog, &watch);
    return status;
}

static void append_fini(struct append *append)
{
    rpc_client_call_free(append->metasrv);
    if (append->plain.release != NULL)
        append->plain.release(&append->plain);
    arrow_ipc_decoder_free(append->decoder);
    base_free(append->stage);
}

lake_status query_put_run(struct query_server *server, struct rpc_call *call,
                          struct lake_error *err)
{
    const struct rpc_principal *principal = rpc_call_principal(call);
    struct append append = {.server = server, .call = call};
    struct arrow_ipc_limits limits = arrow_ipc_limits_default();
    struct rpc_payload first = {0};
    bool end = false;
    lake_status status = rpc_call_receive(call, &first, &end, err);
    if (status != LAKE_OK)
        return status;
    if (end)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the DoPut stream is empty");
    limits.max_body_bytes = MAX_ENCODED_BYTES;
    limits.allow_compressed = false; /* as Metasrv has it: what arrives is what was counted */
    status = check_descriptor(principal, first.bytes, err);
    if (status == LAKE_OK)
        status = arrow_ipc_decoder_new(&limits, &append.decoder, err);
    if (status == LAKE_OK)
        status = query_metasrv_put(server->metasrv, principal,
                                   BASE_MIN(rpc_call_time_left_ms(call), APPEND_DEADLINE_MS),
                                   &append.metasrv, err);
    if (status == LAKE_OK)
        status = relay_watched(&append, &first, err); /* takes `first` over */
    else
        rpc_payload_fini(&first);
    append_fini(&append);
    return status;
}
