/* A server's call: its events, and what its handler does with it. */
#include "server.h"

#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <string.h>

/* ---- life ---- */

static struct server_op op_of(enum server_event event, struct rpc_call *call)
{
    return (struct server_op){.event = event, .call = call};
}

struct rpc_call *rpc_server_call_new(struct server_method *method)
{
    struct rpc_call *call = base_calloc_array(1, sizeof(*call));
    if (call == NULL) {
        return NULL;
    }
    call->method = method;
    call->request = op_of(EVENT_REQUEST, call);
    call->close = op_of(EVENT_CLOSE, call);
    call->receive = op_of(EVENT_RECEIVE, call);
    call->send = op_of(EVENT_SEND, call);
    call->finish = op_of(EVENT_FINISH, call);
    atomic_init(&call->references, 1);
    atomic_init(&call->cancelled, false);
    pthread_mutex_init(&call->mutex, NULL);
    pthread_cond_init(&call->changed, NULL);
    grpc_call_details_init(&call->details);
    grpc_metadata_array_init(&call->headers);
    return call;
}

void rpc_server_call_ref(struct rpc_call *call)
{
    atomic_fetch_add_explicit(&call->references, 1, memory_order_relaxed);
}

void rpc_server_call_unref(struct rpc_call *call)
{
    if (atomic_fetch_sub_explicit(&call->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    bool began = call->handle != NULL;
    struct rpc_server *server = call->method->server;
    if (call->received != NULL) {
        grpc_byte_buffer_destroy(call->received);
    }
    if (call->sending != NULL) {
        grpc_byte_buffer_destroy(call->sending);
    }
    if (call->held != NULL) {
        grpc_byte_buffer_destroy(call->held);
    }
    if (call->last != NULL) {
        grpc_byte_buffer_destroy(call->last);
    }
    for (size_t i = 0; i < call->reply_header_count; i++) {
        grpc_slice_unref(call->reply_headers[i].key);
        grpc_slice_unref(call->reply_headers[i].value);
    }
    if (began) {
        grpc_call_unref(call->handle);
    }
    grpc_metadata_array_destroy(&call->headers);
    grpc_call_details_destroy(&call->details);
    gpr_free(call->peer);
    pthread_cond_destroy(&call->changed);
    pthread_mutex_destroy(&call->mutex);
    base_free(call);
    if (began) {
        rpc_server_call_ended(server);
    }
}

/* How deep dispatch is on this thread: a cached event is handled in place only near the surface, so
 * that a chain of them cannot grow the stack. */
static _Thread_local unsigned dispatch_depth;
#define DISPATCH_DEPTH_MAX 4

bool rpc_server_start_batch(struct rpc_call *call, const grpc_op *ops, size_t op_count,
                            struct server_op *op)
{
    struct rpc_server *server = call->method->server;
    grpc_completion_queue *queue = server->queue;
    bool cached = dispatch_depth < DISPATCH_DEPTH_MAX;
    rpc_server_call_ref(call);
    if (cached) {
        grpc_completion_queue_thread_local_cache_init(queue);
    }
    /* From here on other threads may handle the event, and free the call: it is not touched again
     * unless the batch was refused. */
    grpc_call *handle = call->handle;
    RPC_HAND_OVER(op);
    grpc_call_error error = grpc_call_start_batch(handle, ops, op_count, op, NULL);
    void *tag = NULL;
    int ok = 0;
    if (cached && grpc_completion_queue_thread_local_cache_flush(queue, &tag, &ok)) {
        dispatch_depth++;
        rpc_server_dispatch(server, tag, ok != 0);
        dispatch_depth--;
    }
    if (error != GRPC_CALL_OK) {
        base_log(BASE_LOG_ERROR, "gRPC refused a batch", "reason", grpc_call_error_to_string(error),
                 NULL);
        grpc_call_cancel(handle, NULL);
        rpc_server_call_unref(call);
        return false;
    }
    return true;
}

/* ---- the end ---- */

static size_t add_headers_op(struct rpc_call *call, grpc_op *ops, size_t count)
{
    if (call->headers_sent) {
        return count;
    }
    call->headers_sent = true;
    ops[count] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
    ops[count].data.send_initial_metadata.count = call->reply_header_count;
    ops[count].data.send_initial_metadata.metadata = call->reply_headers;
    return count + 1;
}

static size_t add_message_op(grpc_op *ops, size_t count, grpc_byte_buffer *message)
{
    ops[count] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE};
    ops[count].data.send_message.send_message = message;
    return count + 1;
}

static size_t add_close_op(struct rpc_call *call, grpc_op *ops, size_t count)
{
    if (call->close_started) {
        return count;
    }
    call->close_started = true;
    ops[count] = (grpc_op){.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    ops[count].data.recv_close_on_server.cancelled = &call->close_cancelled;
    return count + 1;
}

void rpc_server_call_finish(struct rpc_call *call, lake_status status, const struct lake_error *err)
{
    grpc_op ops[4];
    size_t count = add_headers_op(call, ops, 0);
    if (call->held != NULL) {
        count = add_message_op(ops, count, call->held);
    } else if (status == LAKE_OK && call->last != NULL) {
        count = add_message_op(ops, count, call->last);
    }
    count = add_close_op(call, ops, count);
    char number[16];
    snprintf(number, sizeof(number), "%d", (int)status);
    grpc_metadata trailer = {.key = grpc_slice_from_static_string(RPC_STATUS_HEADER),
                             .value = grpc_slice_from_copied_string(number)};
    const char *text =
        err != NULL && err->message[0] != '\0' ? err->message : lake_status_name(status);
    grpc_slice details = grpc_slice_from_copied_string(status == LAKE_OK ? "" : text);
    ops[count] = (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
    ops[count].data.send_status_from_server.status = rpc_status_to_grpc(status);
    if (status != LAKE_OK) {
        ops[count].data.send_status_from_server.trailing_metadata_count = 1;
        ops[count].data.send_status_from_server.trailing_metadata = &trailer;
        ops[count].data.send_status_from_server.status_details = &details;
    }
    count++;
    (void)rpc_server_start_batch(call, ops, count, &call->finish);
    grpc_slice_unref(details);
    grpc_slice_unref(trailer.value);
    rpc_server_call_unref(call);
}

/* Most calls end before anybody asks whether they were cancelled: only then is CLOSE an event of
 * its own, else it comes with FINISH. */
void rpc_server_call_watch_close(struct rpc_call *call)
{
    grpc_op op;
    if (add_close_op(call, &op, 0) == 1) {
        (void)rpc_server_start_batch(call, &op, 1, &call->close);
    }
}

static void refuse(struct rpc_call *call, const struct lake_error *err)
{
    rpc_server_call_finish(call, err->code, err);
}

/* ---- the beginning ---- */

static bool post_request(struct server_method *method)
{
    struct rpc_server *server = method->server;
    struct rpc_call *call = rpc_server_call_new(method);
    if (call == NULL) {
        return false;
    }
    grpc_call_error error;
    RPC_HAND_OVER(&call->request);
    if (method->registered != NULL) {
        error = grpc_server_request_registered_call(
            server->handle, method->registered, &call->handle, &call->deadline, &call->headers,
            NULL, server->queue, server->queue, &call->request);
    } else {
        error =
            grpc_server_request_call(server->handle, &call->handle, &call->details, &call->headers,
                                     server->queue, server->queue, &call->request);
    }
    if (error != GRPC_CALL_OK) {
        call->handle = NULL;
        rpc_server_call_unref(call);
        return false;
    }
    return true;
}

void rpc_server_request(struct server_method *method)
{
    if (!post_request(method)) {
        atomic_fetch_add(&method->missing, 1);
        atomic_fetch_add(&method->server->missing, 1);
    }
}

/* F07: HTTP/2 header names are lower-case on the wire, so two spellings arrive as two headers. */
static lake_status check_headers(const struct rpc_call *call, struct lake_str *authorization,
                                 struct lake_error *err)
{
    size_t max_bytes = call->method->server->options.max_metadata_bytes;
    size_t bytes = 0;
    size_t authorizations = 0;
    if (call->headers.count > SERVER_REQUEST_HEADERS_MAX) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "the request has %zu headers; this server takes at most %d",
                         call->headers.count, SERVER_REQUEST_HEADERS_MAX);
    }
    for (size_t i = 0; i < call->headers.count; i++) {
        struct lake_str name = rpc_slice_view(&call->headers.metadata[i].key);
        struct lake_str value = rpc_slice_view(&call->headers.metadata[i].value);
        bytes += name.size + value.size;
        if (base_str_equal_c(name, "authorization")) {
            authorizations++;
            *authorization = value;
        }
    }
    if (bytes > max_bytes) {
        return lake_fail(
            err, LAKE_RESOURCE_EXHAUSTED,
            "the request's headers hold %zu bytes; this server takes at most %zu: send "
            "fewer or shorter headers",
            bytes, max_bytes);
    }
    if (authorizations > 1) {
        return lake_fail(err, LAKE_UNAUTHENTICATED,
                         "the request has %zu authorization headers: send exactly one",
                         authorizations);
    }
    return LAKE_OK;
}

static lake_status admit(struct rpc_call *call, struct lake_error *err)
{
    const struct server_method *method = call->method;
    struct lake_str authorization = {NULL, 0};
    lake_status status = check_headers(call, &authorization, err);
    if (status != LAKE_OK) {
        return status;
    }
    if (!method->anonymous) {
        status = rpc_authenticate(method->server->options.authenticator, authorization,
                                  &call->principal, err);
        if (status != LAKE_OK) {
            return status;
        }
    }
    if (method->handler == NULL) {
        struct lake_str path = rpc_slice_view(&call->details.method);
        return lake_fail(err, LAKE_UNIMPLEMENTED, "this server has no method %.*s",
                         (int)BASE_MIN(path.size, (size_t)200), path.data);
    }
    return LAKE_OK;
}

static bool receive_start(struct rpc_call *call)
{
    pthread_mutex_lock(&call->mutex);
    call->receive_state = OP_PENDING;
    pthread_mutex_unlock(&call->mutex);
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &call->received;
    if (!rpc_server_start_batch(call, &op, 1, &call->receive)) {
        pthread_mutex_lock(&call->mutex);
        call->receive_state = OP_DONE;
        call->receive_ok = false;
        pthread_mutex_unlock(&call->mutex);
        return false;
    }
    return true;
}

static void on_request(struct rpc_call *call, bool ok)
{
    struct server_method *method = call->method;
    if (!ok) {
        /* The server is stopping. */
        call->handle = NULL;
        rpc_server_call_unref(call);
        return;
    }
    rpc_server_call_began(method->server);
    rpc_server_request(method);
    if (method->registered == NULL) {
        call->deadline = call->details.deadline;
    }
    struct lake_error err = {0};
    if (admit(call, &err) != LAKE_OK) {
        refuse(call, &err);
        return;
    }
    /* The handler runs once the first message is there: a client that never sends one holds no
     * worker, and one without credentials makes the server read nothing. */
    if (!receive_start(call)) {
        lake_fail(&err, LAKE_INTERNAL, "the request could not be read");
        refuse(call, &err);
    }
}

static void on_first_message(struct rpc_call *call)
{
    struct lake_error err = {0};
    call->started = true;
    if (!call->receive_ok) {
        lake_fail(&err, LAKE_CANCELLED, "the client cancelled the call");
        refuse(call, &err);
        return;
    }
    if (call->received != NULL && call->received->data.raw.compression != GRPC_COMPRESS_NONE) {
        lake_fail(&err, LAKE_UNIMPLEMENTED, "compressed requests are not taken");
        refuse(call, &err);
        return;
    }
    if (rpc_health_is_watch(call->method)) {
        rpc_health_watch_start(call);
        return;
    }
    if (call->method->inline_handler) {
        rpc_server_call_run(call);
        return;
    }
    struct rpc_server *server = call->method->server;
    call->queued_us = base_clock_monotonic_us();
    if (base_pool_submit(server->pool, rpc_server_call_run, call, NULL) != LAKE_OK) {
        lake_fail(&err, LAKE_RESOURCE_EXHAUSTED,
                  "the server is busy with %u calls and %u more wait: try again later",
                  server->options.worker_count, server->options.queue_limit);
        refuse(call, &err);
    }
}

/* ---- events ---- */

static void on_receive(struct rpc_call *call, bool ok)
{
    /* No message means that the client has finished, or that the call broke: never confuse the two,
     * or a torn upload would look complete. */
    bool broken =
        !ok || (call->received == NULL && grpc_call_failed_before_recv_message(call->handle) != 0);
    bool first = !call->started;
    pthread_mutex_lock(&call->mutex);
    call->receive_state = OP_DONE;
    call->receive_ok = !broken;
    pthread_cond_broadcast(&call->changed);
    pthread_mutex_unlock(&call->mutex);
    if (first) {
        on_first_message(call);
    }
}

static void on_send(struct rpc_call *call, bool ok)
{
    if (rpc_health_is_watch(call->method)) {
        rpc_health_watch_sent(call, ok);
        return;
    }
    pthread_mutex_lock(&call->mutex);
    call->send_state = OP_DONE;
    call->send_ok = ok;
    pthread_cond_broadcast(&call->changed);
    pthread_mutex_unlock(&call->mutex);
}

static void run_notify(struct rpc_call *call)
{
    pthread_mutex_lock(&call->mutex);
    void (*notify)(void *) = call->notify;
    void *context = call->notify_context;
    call->notify = NULL;
    call->notify_running = notify != NULL;
    pthread_mutex_unlock(&call->mutex);
    if (notify == NULL) {
        return;
    }
    notify(context);
    pthread_mutex_lock(&call->mutex);
    call->notify_running = false;
    pthread_cond_broadcast(&call->changed);
    pthread_mutex_unlock(&call->mutex);
}

static void on_close(struct rpc_call *call)
{
    if (call->close_cancelled) {
        pthread_mutex_lock(&call->mutex);
        atomic_store(&call->cancelled, true);
        pthread_mutex_unlock(&call->mutex);
        run_notify(call);
    }
    if (rpc_health_is_watch(call->method)) {
        rpc_health_watch_closed(call);
    }
}

void rpc_server_dispatch(struct rpc_server *server, struct server_op *op, bool ok)
{
    RPC_TAKE_OVER(op);
    struct rpc_call *call = op->call;
    switch (op->event) {
    case EVENT_REQUEST:
        on_request(call, ok);
        return; /* holds no batch's reference */
    case EVENT_CLOSE:
        on_close(call);
        break;
    case EVENT_RECEIVE:
        on_receive(call, ok);
        break;
    case EVENT_SEND:
        on_send(call, ok);
        break;
    case EVENT_FINISH:
        break;
    case EVENT_SHUTDOWN:
        pthread_mutex_lock(&server->mutex);
        server->shutdown_done = true;
        pthread_cond_broadcast(&server->changed);
        pthread_mutex_unlock(&server->mutex);
        return;
    }
    rpc_server_call_unref(call);
}

/* ---- the handler's side ---- */

static lake_status fail_cancelled(const struct rpc_call *call, struct lake_error *err)
{
    if (rpc_call_time_left_ms(call) <= 0) {
        return lake_fail(err, LAKE_DEADLINE_EXCEEDED, "the call's deadline has passed");
    }
    return lake_fail(err, LAKE_CANCELLED, "the client cancelled the call or went away");
}

static lake_status wait_sent(struct rpc_call *call, struct lake_error *err)
{
    pthread_mutex_lock(&call->mutex);
    while (call->send_state == OP_PENDING) {
        pthread_cond_wait(&call->changed, &call->mutex);
    }
    bool ok = call->send_state == OP_IDLE || call->send_ok;
    call->send_state = OP_IDLE;
    pthread_mutex_unlock(&call->mutex);
    if (call->sending != NULL) {
        grpc_byte_buffer_destroy(call->sending);
        call->sending = NULL;
    }
    return ok ? LAKE_OK : fail_cancelled(call, err);
}

/* The wait has worn a call out: nobody may want it any more. */
#define QUEUED_LONG_US 2000

void rpc_server_call_run(void *context)
{
    struct rpc_call *call = context;
    struct lake_error err = {0};
    lake_status status;
    call->thread = pthread_self();
    if (call->queued_us != 0 && base_clock_monotonic_us() - call->queued_us > QUEUED_LONG_US) {
        rpc_server_call_watch_close(call);
    }
    if (atomic_load(&call->cancelled) || rpc_call_time_left_ms(call) <= 0) {
        status = fail_cancelled(call, &err);
    } else {
        status = call->method->handler(call, call->method->context, &err);
    }
    rpc_call_on_cancel(call, NULL, NULL);
    lake_status sent = wait_sent(call, status == LAKE_OK ? &err : NULL);
    rpc_server_call_finish(call, status == LAKE_OK ? sent : status, &err);
}

const struct rpc_principal *rpc_call_principal(const struct rpc_call *call)
{
    return call->principal;
}

const struct rpc_authenticator *rpc_call_authenticator(const struct rpc_call *call)
{
    return call->method->server->options.authenticator;
}

struct lake_str rpc_call_header(const struct rpc_call *call, const char *name)
{
    return rpc_metadata_find(&call->headers, name);
}

const char *rpc_call_peer(struct rpc_call *call)
{
    if (call->peer == NULL) {
        call->peer = grpc_call_get_peer(call->handle);
    }
    return call->peer != NULL ? call->peer : "unknown";
}

int64_t rpc_call_time_left_ms(const struct rpc_call *call)
{
    if (gpr_time_cmp(call->deadline, gpr_inf_future(call->deadline.clock_type)) == 0) {
        return INT64_MAX;
    }
    gpr_timespec left = gpr_time_sub(call->deadline, gpr_now(call->deadline.clock_type));
    return left.tv_sec * 1000 + left.tv_nsec / 1000000;
}

bool rpc_call_cancelled(const struct rpc_call *call)
{
    if (pthread_equal(call->thread, pthread_self())) {
        rpc_server_call_watch_close((struct rpc_call *)(uintptr_t)call);
    }
    return atomic_load(&call->cancelled);
}

void rpc_call_abort(struct rpc_call *call, lake_status status)
{
    (void)grpc_call_cancel_with_status(call->handle, rpc_status_to_grpc(status),
                                       lake_status_name(status), NULL);
}

void rpc_call_on_cancel(struct rpc_call *call, void (*notify)(void *context), void *context)
{
    if (notify != NULL) {
        rpc_server_call_watch_close(call);
    }
    pthread_mutex_lock(&call->mutex);
    while (call->notify_running) {
        pthread_cond_wait(&call->changed, &call->mutex);
    }
    call->notify = notify;
    call->notify_context = context;
    bool now = notify != NULL && atomic_load(&call->cancelled);
    pthread_mutex_unlock(&call->mutex);
    if (now) {
        run_notify(call);
    }
}

lake_status rpc_call_set_header(struct rpc_call *call, const char *name, struct lake_str value,
                                struct lake_error *err)
{
    if (call->headers_sent) {
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "the reply's header %s comes after its first message", name);
    }
    if (!rpc_header_name_valid(name) || !rpc_header_value_valid(value)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the reply's header %s is not a legal header",
                         name);
    }
    if (call->reply_header_count == SERVER_REPLY_HEADERS_MAX) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "a reply has at most %d headers",
                         SERVER_REPLY_HEADERS_MAX);
    }
    grpc_metadata *header = &call->reply_headers[call->reply_header_count++];
    header->key = grpc_slice_from_copied_string(name);
    header->value = grpc_slice_from_copied_buffer(value.data, value.size);
    return LAKE_OK;
}

/* Gives the message in `sending` to gRPC; the call is OP_PENDING already. */
static void start_send(struct rpc_call *call)
{
    grpc_op ops[2];
    size_t count = add_headers_op(call, ops, 0);
    count = add_message_op(ops, count, call->sending);
    if (!rpc_server_start_batch(call, ops, count, &call->send)) {
        on_send(call, false);
    }
}

/* Sends `message` after the one before it. Takes it over. */
static lake_status send_now(struct rpc_call *call, grpc_byte_buffer *message,
                            struct lake_error *err)
{
    lake_status status = wait_sent(call, err);
    if (status == LAKE_OK && atomic_load(&call->cancelled)) {
        status = fail_cancelled(call, err);
    }
    if (status != LAKE_OK) {
        grpc_byte_buffer_destroy(message);
        return status;
    }
    pthread_mutex_lock(&call->mutex);
    call->sending = message;
    call->send_state = OP_PENDING;
    pthread_mutex_unlock(&call->mutex);
    start_send(call);
    return LAKE_OK;
}

void rpc_call_flush(struct rpc_call *call)
{
    pthread_mutex_lock(&call->mutex);
    bool held = call->held != NULL;
    if (held) { /* the first message: none is on its way */
        call->sending = call->held;
        call->held = NULL;
        call->send_state = OP_PENDING;
    }
    pthread_mutex_unlock(&call->mutex);
    if (held) {
        start_send(call);
    }
}

static lake_status new_message(struct rpc_call *call, struct rpc_part *parts, size_t part_count,
                               grpc_byte_buffer **out, struct lake_error *err)
{
    grpc_byte_buffer *message = NULL;
    lake_status status = rpc_message_new(parts, part_count, &message, err);
    if (status == LAKE_OK && call->closed) {
        status =
            lake_fail(err, LAKE_FAILED_PRECONDITION, "the reply's last message was already sent");
    }
    if (status == LAKE_OK) {
        rpc_call_flush(call);
        *out = message;
    } else if (message != NULL) {
        grpc_byte_buffer_destroy(message);
    }
    return status;
}

lake_status rpc_call_send(struct rpc_call *call, struct rpc_part *parts, size_t part_count,
                          struct lake_error *err)
{
    grpc_byte_buffer *message = NULL;
    lake_status status = new_message(call, parts, part_count, &message, err);
    if (status != LAKE_OK) {
        return status;
    }
    if (!call->sent_one) {
        call->sent_one = true;
        pthread_mutex_lock(&call->mutex);
        call->held = message; /* maybe the only one: then it goes out with the status */
        pthread_mutex_unlock(&call->mutex);
        return LAKE_OK;
    }
    return send_now(call, message, err);
}

lake_status rpc_call_send_last(struct rpc_call *call, struct rpc_part *parts, size_t part_count,
                               struct lake_error *err)
{
    grpc_byte_buffer *message = NULL;
    lake_status status = new_message(call, parts, part_count, &message, err);
    if (status == LAKE_OK) {
        call->closed = true;
        call->last = message;
    }
    return status;
}

lake_status rpc_call_receive(struct rpc_call *call, struct rpc_payload *out, bool *end,
                             struct lake_error *err)
{
    if (call->ended) {
        *end = true;
        return LAKE_OK;
    }
    rpc_call_flush(call); /* the client may wait for it before it goes on */
    pthread_mutex_lock(&call->mutex);
    bool idle = call->receive_state == OP_IDLE;
    pthread_mutex_unlock(&call->mutex);
    if (idle) {
        (void)receive_start(call);
    }
    pthread_mutex_lock(&call->mutex);
    while (call->receive_state == OP_PENDING) {
        pthread_cond_wait(&call->changed, &call->mutex);
    }
    bool ok = call->receive_ok;
    pthread_mutex_unlock(&call->mutex);
    if (!ok) {
        return fail_cancelled(call, err);
    }
    if (call->received == NULL) {
        call->ended = true;
        *end = true;
        return LAKE_OK;
    }
    grpc_byte_buffer *message = call->received;
    call->received = NULL;
    pthread_mutex_lock(&call->mutex);
    call->receive_state = OP_IDLE;
    pthread_mutex_unlock(&call->mutex);
    /* From the second message on it is a stream: the next one arrives while this one is handled. */
    if (call->taken) {
        (void)receive_start(call);
    }
    call->taken = true;
    *end = false;
    lake_status status = rpc_payload_gather(message, out, err);
    grpc_byte_buffer_destroy(message);
    return status;
}
