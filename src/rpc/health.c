/*
 * gRPC's health protocol, grpc.health.v1 (OPS-2).
 *
 * Check runs on a poller, so that it also answers when every worker is busy. A Watch lives as long
 * as its client wishes and so holds no worker either: it is a list entry that is sent to whenever
 * the answer changes. Its fields of struct rpc_call are guarded by the server's mutex.
 */
#include "server.h"

#include <string.h>

#define SERVICE                "/grpc.health.v1.Health/"
#define WATCHES_MAX            256
#define SERVICE_NAME_MAX_BYTES 256

enum health {
    HEALTH_NONE = 0,
    HEALTH_SERVING = 1,
    HEALTH_NOT_SERVING = 2,
    HEALTH_UNKNOWN = 3
};

/* The `service` (field 1) of a HealthCheckRequest. */
static bool parse_service(struct lake_bytes message, struct lake_str *out)
{
    struct base_cursor cursor = base_cursor_of(message);
    *out = (struct lake_str){NULL, 0};
    while (base_cursor_left(&cursor) > 0) {
        uint32_t field;
        uint32_t wire_type;
        struct lake_bytes value;
        if (!base_cursor_tag(&cursor, &field, &wire_type)) {
            return false;
        }
        if (field != 1 || wire_type != 2) {
            if (!base_cursor_skip_field(&cursor, wire_type)) {
                return false;
            }
            continue;
        }
        if (!base_cursor_length_delimited(&cursor, &value) || value.size > SERVICE_NAME_MAX_BYTES) {
            return false;
        }
        *out = (struct lake_str){(const char *)value.data, value.size};
    }
    return true;
}

static bool service_known(const struct rpc_server *server, struct lake_str name)
{
    for (size_t i = 0; i < server->method_count; i++) {
        const char *path = server->methods[i].path;
        if (path == NULL) {
            continue;
        }
        struct lake_str service = {path + 1, (size_t)(strchr(path + 1, '/') - (path + 1))};
        if (base_str_equal(service, name)) {
            return true;
        }
    }
    return name.size == 0;
}

static int health_now(const struct rpc_server *server)
{
    return atomic_load(&server->serving) ? HEALTH_SERVING : HEALTH_NOT_SERVING;
}

static lake_status read_request(struct rpc_call *call, bool *known, struct lake_error *err)
{
    struct rpc_payload payload = {{NULL, 0}, NULL};
    bool end;
    struct lake_str service;
    lake_status status = rpc_call_receive(call, &payload, &end, err);
    if (status != LAKE_OK) {
        return status;
    }
    if (end || !parse_service(payload.bytes, &service)) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "the request is not a HealthCheckRequest");
    } else {
        *known = service_known(call->method->server, service);
    }
    rpc_payload_fini(&payload);
    return status;
}

static lake_status check(struct rpc_call *call, void *context, struct lake_error *err)
{
    (void)context;
    bool known = false;
    lake_status status = read_request(call, &known, err);
    if (status != LAKE_OK) {
        return status;
    }
    if (!known) {
        return lake_fail(err, LAKE_NOT_FOUND, "this server does not offer that service");
    }
    uint8_t reply[2] = {0x08, (uint8_t)health_now(call->method->server)};
    struct rpc_part part = {.data = reply, .size = sizeof(reply), .copy = true};
    return rpc_call_send_last(call, &part, 1, err);
}

/* Stands for "this is a watch"; its calls never reach a worker. */
static lake_status watch(struct rpc_call *call, void *context, struct lake_error *err)
{
    (void)call;
    (void)context;
    return lake_fail(err, LAKE_INTERNAL, "a health watch has no handler");
}

bool rpc_health_is_watch(const struct server_method *method)
{
    return method->handler == watch;
}

lake_status rpc_health_register(struct rpc_server *server, struct lake_error *err)
{
    lake_status status = rpc_server_add(server, SERVICE "Check", false, true, check, NULL, err);
    if (status == LAKE_OK) {
        status = rpc_server_add(server, SERVICE "Watch", false, true, watch, NULL, err);
    }
    return status;
}

/* ---- watches ---- */

static void finish_watch(struct rpc_call *call, lake_status status)
{
    struct lake_error err = {0};
    lake_fail(&err, status,
              status == LAKE_UNAVAILABLE ? "the server is stopping" : "the client went away");
    rpc_server_call_finish(call, status, &err);
}

/* The caller holds a reference and has set watch_sending, which makes this the only sender. */
static void watch_send(struct rpc_call *call, int health)
{
    uint8_t reply[2] = {0x08, (uint8_t)health};
    struct rpc_part part = {.data = reply, .size = sizeof(reply), .copy = true};
    if (call->sending != NULL) {
        grpc_byte_buffer_destroy(call->sending);
        call->sending = NULL;
    }
    if (rpc_message_new(&part, 1, &call->sending, NULL) != LAKE_OK) {
        grpc_call_cancel(call->handle, NULL);
        rpc_health_watch_sent(call, false);
        return;
    }
    grpc_op ops[2] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}, {.op = GRPC_OP_SEND_MESSAGE}};
    ops[1].data.send_message.send_message = call->sending;
    size_t skip = call->headers_sent ? 1 : 0;
    call->headers_sent = true;
    if (!rpc_server_start_batch(call, ops + skip, 2 - skip, &call->send)) {
        rpc_health_watch_sent(call, false);
    }
}

/* With the mutex held: whether the watch has to be told something now; then marks it as sending. */
static bool watch_due(struct rpc_call *call, int health)
{
    if (!call->watching || call->watch_sending || call->watch_sent == HEALTH_UNKNOWN ||
        call->watch_sent == health) {
        return false;
    }
    call->watch_sending = true;
    call->watch_sent = health;
    return true;
}

/* With the mutex held: takes the call off the list. True for the one caller who must finish it;
 * while a message is under way that is whoever sees it sent. */
static bool watch_unlink(struct rpc_server *server, struct rpc_call *call, lake_status why)
{
    if (!call->watching) {
        return false;
    }
    call->watching = false;
    call->watch_end = why;
    server->watch_count--;
    for (struct rpc_call **link = &server->watches; *link != NULL; link = &(*link)->watch_next) {
        if (*link == call) {
            *link = call->watch_next;
            break;
        }
    }
    return !call->watch_sending;
}

void rpc_health_watch_start(struct rpc_call *call)
{
    struct rpc_server *server = call->method->server;
    struct lake_error err = {0};
    bool known = false;
    lake_status status = read_request(call, &known, &err);
    int health = HEALTH_UNKNOWN;
    bool begin = false;
    rpc_server_call_watch_close(call);
    if (status == LAKE_OK) {
        pthread_mutex_lock(&server->mutex);
        health = known ? health_now(server) : HEALTH_UNKNOWN;
        if (server->state != SERVER_RUNNING) {
            status = lake_fail(&err, LAKE_UNAVAILABLE, "the server is stopping");
        } else if (server->watch_count == WATCHES_MAX) {
            status = lake_fail(&err, LAKE_RESOURCE_EXHAUSTED,
                               "the server has %d health watches already", WATCHES_MAX);
        } else {
            server->watch_count++;
            call->watch_next = server->watches;
            server->watches = call;
            call->watching = true;
            begin = watch_due(call, health);
        }
        pthread_mutex_unlock(&server->mutex);
    }
    if (status != LAKE_OK) {
        rpc_server_call_finish(call, status, &err);
        return;
    }
    rpc_server_call_ref(call);
    if (begin) {
        watch_send(call, health);
    }
    if (atomic_load(&call->cancelled)) {
        rpc_health_watch_closed(call); /* its CLOSE may have come before it was on the list */
    }
    rpc_server_call_unref(call);
}

void rpc_health_watch_sent(struct rpc_call *call, bool ok)
{
    struct rpc_server *server = call->method->server;
    pthread_mutex_lock(&server->mutex);
    int health = health_now(server); /* with the lock, or a change just now would be lost */
    call->watch_sending = false;
    bool over = !call->watching;
    bool again = ok && watch_due(call, health);
    pthread_mutex_unlock(&server->mutex);
    if (over) {
        finish_watch(call, call->watch_end);
    } else if (again) {
        watch_send(call, health);
    }
}

void rpc_health_watch_closed(struct rpc_call *call)
{
    struct rpc_server *server = call->method->server;
    pthread_mutex_lock(&server->mutex);
    bool mine = watch_unlink(server, call, LAKE_CANCELLED);
    pthread_mutex_unlock(&server->mutex);
    if (mine) {
        finish_watch(call, LAKE_CANCELLED);
    }
}

void rpc_health_publish(struct rpc_server *server)
{
    for (;;) {
        pthread_mutex_lock(&server->mutex);
        int health = health_now(server);
        struct rpc_call *call = server->watches;
        while (call != NULL && !watch_due(call, health)) {
            call = call->watch_next;
        }
        if (call != NULL) {
            rpc_server_call_ref(call); /* it may end as soon as the lock is gone */
        }
        pthread_mutex_unlock(&server->mutex);
        if (call == NULL) {
            return;
        }
        watch_send(call, health);
        rpc_server_call_unref(call);
    }
}

void rpc_health_end_watches(struct rpc_server *server)
{
    for (;;) {
        pthread_mutex_lock(&server->mutex);
        struct rpc_call *call = server->watches;
        bool mine = call != NULL && watch_unlink(server, call, LAKE_UNAVAILABLE);
        pthread_mutex_unlock(&server->mutex);
        if (call == NULL) {
            return;
        }
        if (mine) {
            finish_watch(call, LAKE_UNAVAILABLE);
        }
    }
}
