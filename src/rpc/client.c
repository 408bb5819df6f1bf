/*
 * Channels and client calls.
 *
 * A call has a completion queue to itself while it lives, from a small pool of its channel: its
 * thread plucks its own events and does the polling meanwhile, so a unary call needs no other
 * thread at all.
 */
#include "core.h"

#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <stdatomic.h>
#include <string.h>

#define HEADERS_MAX     32
#define IDLE_QUEUES_MAX 64
#define KEEPALIVE_MS    20000

/* A channel unused for this long looks at its socket before a call: a server that has restarted
 * meanwhile then costs a new connection, not a failed call. */
#define STALE_AFTER_US INT64_C(100000)

/* ---- channel ---- */

struct rpc_channel {
    atomic_uint references;
    grpc_channel *handle;
    char *target;
    grpc_slice authorization; /* "Bearer …" */
    bool has_authorization;
    _Atomic int64_t used_us;

    pthread_mutex_t mutex; /* guards the pool of queues */
    grpc_completion_queue *queues[IDLE_QUEUES_MAX];
    size_t queue_count;
};

struct token_memory {
    size_t size;
    char text[];
};

static void token_release(void *context)
{
    struct token_memory *memory = context;
    OPENSSL_cleanse(memory->text, memory->size);
    base_free(memory);
}

static lake_status set_token(struct rpc_channel *channel, const struct base_secret *token,
                             struct lake_error *err)
{
    static const char scheme[] = "Bearer ";
    const size_t prefix = sizeof(scheme) - 1;
    size_t size;
    if (!base_size_add(token->size, prefix + sizeof(struct token_memory), &size)) {
        return base_fail_no_memory(err, token->size);
    }
    struct token_memory *memory = base_alloc(size);
    if (memory == NULL) {
        return base_fail_no_memory(err, size);
    }
    memory->size = prefix + token->size;
    memcpy(memory->text, scheme, prefix);
    memcpy(memory->text + prefix, token->data, token->size);
    struct lake_str text = {memory->text, memory->size};
    if (!rpc_header_value_valid(text)) {
        token_release(memory);
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the token holds characters that no header can carry");
    }
    channel->authorization =
        grpc_slice_new_with_user_data(memory->text, memory->size, token_release, memory);
    channel->has_authorization = true;
    return LAKE_OK;
}

static grpc_arg int_arg(const char *key, int value)
{
    return (grpc_arg){
        .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value = {.integer = value}};
}

static void create_handle(struct rpc_channel *channel, const struct rpc_channel_options *o)
{
    size_t limit = o->max_receive_bytes;
    int keepalive_ms = (int)BASE_MIN(o->keepalive_ms > 0 ? o->keepalive_ms : KEEPALIVE_MS, INT_MAX);
    grpc_arg args[16] = {
        int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
                limit == 0 || limit > INT_MAX ? -1 : (int)limit),
        int_arg(GRPC_ARG_MAX_METADATA_SIZE, 64 * 1024),
        int_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1), /* one channel is one connection */
        int_arg(GRPC_ARG_ENABLE_CHANNELZ, 0),
        int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
        int_arg(GRPC_ARG_ENABLE_HTTP_PROXY, 0), /* it would also catch loopback */
        int_arg(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
        int_arg(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100),
        int_arg(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10000), /* the time a connect may take */
        int_arg(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000),
        int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms),
        int_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_ms),
        int_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0), /* as many as it takes */
    };
    size_t count = 13;
    grpc_channel_credentials *credentials;
    if (o->tls) {
        credentials = grpc_ssl_credentials_create(o->ca_pem, NULL, NULL, NULL);
        if (o->server_name != NULL) {
            args[count++] = (grpc_arg){.type = GRPC_ARG_STRING,
                                       .key = (char *)(uintptr_t)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
                                       .value = {.string = (char *)(uintptr_t)o->server_name}};
        }
    } else {
        credentials = grpc_insecure_credentials_create();
    }
    grpc_channel_args list = {count, args};
    channel->handle = grpc_channel_create(channel->target, credentials, &list);
    if (credentials != NULL) {
        grpc_channel_credentials_release(credentials);
    }
}

lake_status rpc_channel_open(const struct rpc_channel_options *options, struct rpc_channel **out,
                             struct lake_error *err)
{
    struct rpc_address address;
    lake_status status = rpc_address_parse(options->target, &address, err);
    if (status != LAKE_OK) {
        return status;
    }
    struct rpc_channel *channel = base_calloc_array(1, sizeof(*channel));
    if (channel == NULL) {
        return base_fail_no_memory(err, sizeof(*channel));
    }
    rpc_core_start();
    atomic_init(&channel->references, 1);
    atomic_init(&channel->used_us, base_clock_monotonic_us());
    pthread_mutex_init(&channel->mutex, NULL);
    channel->target = base_strdup(options->target);
    if (channel->target == NULL) {
        status = base_fail_no_memory(err, strlen(options->target));
    }
    if (status == LAKE_OK && options->bearer_token != NULL) {
        status = set_token(channel, options->bearer_token, err);
    }
    if (status == LAKE_OK) {
        create_handle(channel, options);
        if (channel->handle == NULL) {
            status =
                lake_fail(err, LAKE_INVALID_ARGUMENT,
                          "no channel to %s can be made with these TLS settings", options->target);
        }
    }
    if (status != LAKE_OK) {
        rpc_channel_unref(channel);
        return status;
    }
    *out = channel;
    return LAKE_OK;
}

struct rpc_channel *rpc_channel_ref(struct rpc_channel *channel)
{
    atomic_fetch_add_explicit(&channel->references, 1, memory_order_relaxed);
    return channel;
}

static void queue_destroy(grpc_completion_queue *queue)
{
    grpc_completion_queue_shutdown(queue);
    while (
        grpc_completion_queue_pluck(queue, NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
        GRPC_QUEUE_SHUTDOWN) {
    }
    grpc_completion_queue_destroy(queue);
}

void rpc_channel_unref(struct rpc_channel *channel)
{
    if (channel == NULL ||
        atomic_fetch_sub_explicit(&channel->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (channel->handle != NULL) {
        grpc_channel_destroy(channel->handle);
    }
    for (size_t i = 0; i < channel->queue_count; i++) {
        queue_destroy(channel->queues[i]);
    }
    if (channel->has_authorization) {
        grpc_slice_unref(channel->authorization);
    }
    pthread_mutex_destroy(&channel->mutex);
    base_free(channel->target);
    base_free(channel);
}

static grpc_completion_queue *queue_take(struct rpc_channel *channel)
{
    grpc_completion_queue *queue = NULL;
    pthread_mutex_lock(&channel->mutex);
    if (channel->queue_count > 0) {
        queue = channel->queues[--channel->queue_count];
    }
    pthread_mutex_unlock(&channel->mutex);
    return queue != NULL ? queue : grpc_completion_queue_create_for_pluck(NULL);
}

static void queue_give(struct rpc_channel *channel, grpc_completion_queue *queue)
{
    pthread_mutex_lock(&channel->mutex);
    bool kept = channel->queue_count < IDLE_QUEUES_MAX;
    if (kept) {
        channel->queues[channel->queue_count++] = queue;
    }
    pthread_mutex_unlock(&channel->mutex);
    if (!kept) {
        queue_destroy(queue);
    }
}

/* ---- call ---- */

struct rpc_client_call {
    struct rpc_channel *channel;
    grpc_call *handle;
    grpc_completion_queue *queue;
    grpc_metadata headers[HEADERS_MAX + 1];
    size_t header_count;
    bool begun; /* the headers are on their way */
    bool sending_finished;
    bool send_pending;
    bool receive_pending;
    bool status_pending;
    bool reply_begun; /* the reply's headers were asked for */
    bool received_one;
    bool sent_one;
    bool ended;             /* code, details and trailing are known */
    grpc_byte_buffer *held; /* the first message, until the call goes on */
    grpc_byte_buffer *sending;
    grpc_byte_buffer *received;
    grpc_metadata_array initial;
    grpc_metadata_array trailing;
    grpc_status_code code;
    grpc_slice details;
};

/* The tags of a call's batches: addresses within it. */
static void *send_tag(struct rpc_client_call *call)
{
    return &call->sending;
}

static void *receive_tag(struct rpc_client_call *call)
{
    return &call->received;
}

static void *status_tag(struct rpc_client_call *call)
{
    return &call->code;
}

static bool pluck(struct rpc_client_call *call, void *tag)
{
    grpc_event event =
        grpc_completion_queue_pluck(call->queue, tag, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    return event.type == GRPC_OP_COMPLETE && event.success != 0;
}

static void look_at_socket(struct rpc_channel *channel, grpc_completion_queue *queue)
{
    int64_t now_us = base_clock_monotonic_us();
    int64_t used_us = atomic_exchange_explicit(&channel->used_us, now_us, memory_order_relaxed);
    if (now_us - used_us > STALE_AFTER_US) {
        (void)grpc_completion_queue_pluck(queue, NULL, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
    }
}

static lake_status add_headers(struct rpc_client_call *call, const struct rpc_header *headers,
                               size_t count, struct lake_error *err)
{
    if (count > HEADERS_MAX) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a call has at most %d headers", HEADERS_MAX);
    }
    if (call->channel->has_authorization) {
        grpc_metadata *header = &call->headers[call->header_count++];
        header->key = grpc_slice_from_static_string("authorization");
        header->value = grpc_slice_ref(call->channel->authorization);
    }
    for (size_t i = 0; i < count; i++) {
        if (!rpc_header_name_valid(headers[i].name) || !rpc_header_value_valid(headers[i].value)) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "the header \"%s\" is not legal: names are lower-case, values visible "
                             "ASCII",
                             headers[i].name != NULL ? headers[i].name : "");
        }
        grpc_metadata *header = &call->headers[call->header_count++];
        header->key = grpc_slice_from_copied_string(headers[i].name);
        header->value = grpc_slice_from_copied_buffer(headers[i].value.data, headers[i].value.size);
    }
    return LAKE_OK;
}

lake_status rpc_client_call_start(struct rpc_channel *channel, const char *method,
                                  const struct rpc_header *headers, size_t header_count,
                                  int64_t deadline_ms, struct rpc_client_call **out,
                                  struct lake_error *err)
{
    struct rpc_client_call *call = base_calloc_array(1, sizeof(*call));
    if (call == NULL) {
        return base_fail_no_memory(err, sizeof(*call));
    }
    call->channel = rpc_channel_ref(channel);
    call->queue = queue_take(channel);
    call->details = grpc_empty_slice();
    grpc_metadata_array_init(&call->initial);
    grpc_metadata_array_init(&call->trailing);
    lake_status status = add_headers(call, headers, header_count, err);
    if (status != LAKE_OK) {
        rpc_client_call_free(call);
        return status;
    }
    look_at_socket(channel, call->queue);
    grpc_slice path = grpc_slice_from_copied_string(method);
    call->handle =
        grpc_channel_create_call(channel->handle, NULL, GRPC_PROPAGATE_DEFAULTS, call->queue, path,
                                 NULL, rpc_deadline_after(deadline_ms), NULL);
    grpc_slice_unref(path);
    *out = call;
    return LAKE_OK;
}

static lake_status start_batch(struct rpc_client_call *call, const grpc_op *ops, size_t count,
                               void *tag, struct lake_error *err)
{
    grpc_call_error error = grpc_call_start_batch(call->handle, ops, count, tag, NULL);
    if (error != GRPC_CALL_OK) {
        return lake_fail(err, LAKE_INTERNAL, "gRPC refused an operation on the call to %s: %s",
                         call->channel->target, grpc_call_error_to_string(error));
    }
    return LAKE_OK;
}

static size_t add_begin_op(struct rpc_client_call *call, grpc_op *ops, size_t count)
{
    if (call->begun) {
        return count;
    }
    ops[count] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
    ops[count].data.send_initial_metadata.count = call->header_count;
    ops[count].data.send_initial_metadata.metadata = call->headers;
    return count + 1;
}

static grpc_op status_op(struct rpc_client_call *call)
{
    grpc_op op = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    op.data.recv_status_on_client.trailing_metadata = &call->trailing;
    op.data.recv_status_on_client.status = &call->code;
    op.data.recv_status_on_client.status_details = &call->details;
    return op;
}

static lake_status ask_status(struct rpc_client_call *call, struct lake_error *err)
{
    if (call->status_pending || call->ended) {
        return LAKE_OK;
    }
    grpc_op op = status_op(call);
    lake_status status = start_batch(call, &op, 1, status_tag(call), err);
    call->status_pending = status == LAKE_OK;
    return status;
}

/* Sends what `ops` say, after the headers where they have not gone yet. */
static lake_status start_send(struct rpc_client_call *call, grpc_op *ops, size_t count,
                              struct lake_error *err)
{
    lake_status status = start_batch(call, ops, count, send_tag(call), err);
    if (status != LAKE_OK) {
        return status;
    }
    call->begun = true;
    call->send_pending = true;
    return ask_status(call, err);
}

static bool send_done(struct rpc_client_call *call)
{
    bool ok = !call->send_pending || pluck(call, send_tag(call));
    call->send_pending = false;
    if (call->sending != NULL) {
        grpc_byte_buffer_destroy(call->sending);
        call->sending = NULL;
    }
    return ok;
}

/* The ended call's status as ours. */
static lake_status result(const struct rpc_client_call *call, struct lake_error *err)
{
    if (call->code == GRPC_STATUS_OK) {
        return LAKE_OK;
    }
    struct lake_str details = rpc_slice_view(&call->details);
    bool own;
    lake_status status = rpc_status_from_grpc(
        call->code, rpc_metadata_find(&call->trailing, RPC_STATUS_HEADER), &own);
    if (!own && status == LAKE_UNAVAILABLE) {
        return lake_fail(err, status, "the server at %s cannot be reached: %.*s",
                         call->channel->target, LAKE_STR_FMT(details));
    }
    if (!own && status == LAKE_DEADLINE_EXCEEDED) {
        return lake_fail(err, status, "the server at %s did not answer before the deadline",
                         call->channel->target);
    }
    if (details.size == 0) {
        return lake_fail(err, status, "the server at %s answered %s", call->channel->target,
                         lake_status_name(status));
    }
    return lake_fail(err, status, "%.*s", LAKE_STR_FMT(details));
}

static void await_status(struct rpc_client_call *call)
{
    if (!call->ended && call->status_pending) {
        (void)pluck(call, status_tag(call));
        call->status_pending = false;
        call->ended = true;
    }
}

static lake_status start_receive(struct rpc_client_call *call, struct lake_error *err)
{
    grpc_op ops[3];
    size_t count = add_begin_op(call, ops, 0);
    if (!call->reply_begun) {
        ops[count] = (grpc_op){.op = GRPC_OP_RECV_INITIAL_METADATA};
        ops[count++].data.recv_initial_metadata.recv_initial_metadata = &call->initial;
    }
    ops[count] = (grpc_op){.op = GRPC_OP_RECV_MESSAGE};
    ops[count++].data.recv_message.recv_message = &call->received;
    lake_status status = start_batch(call, ops, count, receive_tag(call), err);
    if (status != LAKE_OK) {
        return status;
    }
    call->begun = true;
    call->reply_begun = true;
    call->receive_pending = true;
    return ask_status(call, err);
}

/* A send failed, so the server has ended the call. Its status comes after the replies, which nobody
 * will read now. */
static lake_status ended_by_server(struct rpc_client_call *call, struct lake_error *err)
{
    while (!call->ended) {
        if (!call->receive_pending && start_receive(call, err) != LAKE_OK) {
            return LAKE_INTERNAL;
        }
        (void)pluck(call, receive_tag(call));
        call->receive_pending = false;
        if (call->received == NULL) {
            await_status(call);
        } else {
            grpc_byte_buffer_destroy(call->received);
            call->received = NULL;
        }
    }
    lake_status status = result(call, err);
    if (status == LAKE_OK) {
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "the server at %s ended the call before all of it was sent",
                         call->channel->target);
    }
    return status;
}

/* Gives `message` (NULL: none) to gRPC after the one before it, with the end of sending when
 * `last`. Takes it over. */
static lake_status send_now(struct rpc_client_call *call, grpc_byte_buffer *message, bool last,
                            struct lake_error *err)
{
    if (call->ended || !send_done(call)) {
        if (message != NULL) {
            grpc_byte_buffer_destroy(message);
        }
        return ended_by_server(call, err);
    }
    grpc_op ops[3];
    size_t count = add_begin_op(call, ops, 0);
    if (message != NULL) {
        call->sending = message;
        ops[count] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE};
        ops[count++].data.send_message.send_message = message;
    }
    if (last) {
        ops[count++] = (grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
        call->sending_finished = true;
    }
    return start_send(call, ops, count, err);
}

static lake_status send_held(struct rpc_client_call *call, struct lake_error *err)
{
    grpc_byte_buffer *message = call->held;
    call->held = NULL;
    return message != NULL ? send_now(call, message, false, err) : LAKE_OK;
}

static lake_status send_message(struct rpc_client_call *call, struct rpc_part *parts,
                                size_t part_count, bool last, struct lake_error *err)
{
    grpc_byte_buffer *message = NULL;
    lake_status status = rpc_message_new(parts, part_count, &message, err);
    if (status == LAKE_OK && call->sending_finished) {
        status = lake_fail(err, LAKE_FAILED_PRECONDITION, "the call's sending was finished before");
    }
    if (status == LAKE_OK) {
        status = send_held(call, err);
    }
    if (status != LAKE_OK) {
        if (message != NULL) {
            grpc_byte_buffer_destroy(message);
        }
        return status;
    }
    if (!call->sent_one && !last) {
        call->sent_one = true;
        call->held = message; /* maybe the only one: then it goes out with the end of sending */
        return LAKE_OK;
    }
    call->sent_one = true;
    return send_now(call, message, last, err);
}

lake_status rpc_client_call_send(struct rpc_client_call *call, struct rpc_part *parts,
                                 size_t part_count, struct lake_error *err)
{
    return send_message(call, parts, part_count, false, err);
}

lake_status rpc_client_call_send_last(struct rpc_client_call *call, struct rpc_part *parts,
                                      size_t part_count, struct lake_error *err)
{
    return send_message(call, parts, part_count, true, err);
}

lake_status rpc_client_call_finish_sending(struct rpc_client_call *call, struct lake_error *err)
{
    if (call->sending_finished) {
        return LAKE_OK;
    }
    grpc_byte_buffer *message = call->held;
    call->held = NULL;
    return send_now(call, message, true, err);
}

lake_status rpc_client_call_receive(struct rpc_client_call *call, struct rpc_payload *out,
                                    bool *end, struct lake_error *err)
{
    lake_status status = send_held(call, err);
    if (status == LAKE_OK && !call->ended && !call->receive_pending) {
        status = start_receive(call, err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    if (call->receive_pending) {
        (void)pluck(call, receive_tag(call));
        call->receive_pending = false;
    }
    if (call->received == NULL) {
        await_status(call);
        status = result(call, err);
        if (status == LAKE_OK) {
            *end = true;
        }
        return status;
    }
    grpc_byte_buffer *message = call->received;
    call->received = NULL;
    /* From the second reply on it is a stream: the next one arrives while this one is used. */
    if (call->received_one) {
        status = start_receive(call, err);
    }
    call->received_one = true;
    if (status == LAKE_OK) {
        status = rpc_payload_gather(message, out, err);
    }
    if (status == LAKE_OK) {
        *end = false;
    }
    grpc_byte_buffer_destroy(message);
    return status;
}

struct lake_str rpc_client_call_reply_header(const struct rpc_client_call *call, const char *name)
{
    return rpc_metadata_find(&call->initial, name);
}

void rpc_client_call_cancel(struct rpc_client_call *call)
{
    grpc_call_cancel(call->handle, NULL);
}

bool rpc_client_call_was_sent(const struct rpc_client_call *call)
{
    /* Once a connection has the call's headers, the call's peer is that connection's; until then
     * gRPC names the channel's target. */
    char *peer = grpc_call_get_peer(call->handle);
    char *target = grpc_channel_get_target(call->channel->handle);
    bool sent = peer != NULL && target != NULL && strcmp(peer, target) != 0;
    gpr_free(peer);
    gpr_free(target);
    return sent;
}

bool rpc_client_call_was_refused(const struct rpc_client_call *call)
{
    bool own = false;
    if (call->ended && call->code != GRPC_STATUS_OK) {
        (void)rpc_status_from_grpc(call->code,
                                   rpc_metadata_find(&call->trailing, RPC_STATUS_HEADER), &own);
    }
    return own;
}

void rpc_client_call_free(struct rpc_client_call *call)
{
    if (call == NULL) {
        return;
    }
    if (call->handle != NULL && !call->ended) {
        grpc_call_cancel(call->handle, NULL);
    }
    (void)send_done(call);
    if (call->held != NULL) {
        grpc_byte_buffer_destroy(call->held);
    }
    if (call->receive_pending) {
        (void)pluck(call, receive_tag(call));
    }
    await_status(call);
    if (call->received != NULL) {
        grpc_byte_buffer_destroy(call->received);
    }
    if (call->handle != NULL) {
        grpc_call_unref(call->handle);
    }
    for (size_t i = 0; i < call->header_count; i++) {
        grpc_slice_unref(call->headers[i].key);
        grpc_slice_unref(call->headers[i].value);
    }
    grpc_slice_unref(call->details);
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->trailing);
    queue_give(call->channel, call->queue);
    rpc_channel_unref(call->channel);
    base_free(call);
}

/* ---- unary ---- */

/* The whole call as one batch. */
static lake_status exchange(struct rpc_client_call *call, struct lake_bytes request,
                            struct lake_error *err)
{
    struct rpc_part part = {.data = request.data, .size = request.size, .copy = true};
    lake_status status = rpc_message_new(&part, 1, &call->sending, err);
    if (status != LAKE_OK) {
        return status;
    }
    grpc_op ops[6];
    size_t count = add_begin_op(call, ops, 0);
    ops[count] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE};
    ops[count++].data.send_message.send_message = call->sending;
    ops[count++] = (grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    ops[count] = (grpc_op){.op = GRPC_OP_RECV_INITIAL_METADATA};
    ops[count++].data.recv_initial_metadata.recv_initial_metadata = &call->initial;
    ops[count] = (grpc_op){.op = GRPC_OP_RECV_MESSAGE};
    ops[count++].data.recv_message.recv_message = &call->received;
    ops[count++] = status_op(call);
    status = start_batch(call, ops, count, status_tag(call), err);
    if (status != LAKE_OK) {
        return status;
    }
    call->begun = true;
    call->status_pending = true;
    await_status(call);
    return result(call, err);
}

lake_status rpc_unary(struct rpc_channel *channel, const char *method, struct lake_bytes request,
                      int64_t deadline_ms, struct rpc_payload *reply, struct lake_error *err)
{
    struct rpc_client_call *call = NULL;
    lake_status status = rpc_client_call_start(channel, method, NULL, 0, deadline_ms, &call, err);
    if (status != LAKE_OK) {
        return status;
    }
    status = exchange(call, request, err);
    if (status == LAKE_OK && call->received == NULL) {
        status = lake_fail(err, LAKE_INTERNAL, "the server at %s ended the call without a reply",
                           channel->target);
    }
    if (status == LAKE_OK) {
        status = rpc_payload_gather(call->received, reply, err);
    }
    rpc_client_call_free(call);
    return status;
}
