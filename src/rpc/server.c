/* A server's life: checks, listening, pollers, draining. */
#include "server.h"

#include <errno.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_METADATA_BYTES (16 * 1024)
#define METADATA_MAX_BYTES     (1024 * 1024)

/* Above our own limit gRPC cuts the call with a reset; in between we can say what was wrong. */
#define METADATA_HARD_EXTRA_BYTES (64 * 1024)

/* Of one connection; each may hold one unread message. */
#define STREAMS_PER_CONNECTION 1024

/* Requests that wait in gRPC for a call of one method; refilled as they are used. */
#define REQUESTS_PER_METHOD 8

/* How soon one is posted again that memory was missing for. */
#define REFILL_AFTER_MS 100

/* After the last call, clients get this long to close their side of the connection themselves. */
#define GOODBYE_MS 100

#define MIN_PING_INTERVAL_MS 1000

void rpc_server_options_init(struct rpc_server_options *options)
{
    *options = (struct rpc_server_options){.worker_count = 64,
                                           .queue_limit = 256,
                                           .max_receive_bytes = (64u * 1024 + 64) * 1024,
                                           .max_metadata_bytes = DEFAULT_METADATA_BYTES};
}

lake_status rpc_server_options_from_environment(struct rpc_server_options *options,
                                                struct lake_error *err)
{
    rpc_server_options_init(options);
    uint64_t metadata_bytes;
    bool allow_insecure;
    lake_status status = base_config_bool("LAKE_ALLOW_INSECURE", false, &allow_insecure, err);
    if (status == LAKE_OK) {
        status = base_config_u64("LAKE_RPC_MAX_METADATA_BYTES", DEFAULT_METADATA_BYTES, 1024,
                                 METADATA_MAX_BYTES, &metadata_bytes, err);
    }
    if (status == LAKE_OK) {
        options->allow_insecure = allow_insecure;
        options->max_metadata_bytes = (size_t)metadata_bytes;
        options->tls_cert_path = base_config_string("LAKE_TLS_CERT_FILE", NULL);
        options->tls_key_path = base_config_string("LAKE_TLS_KEY_FILE", NULL);
    }
    return status;
}

/* ---- new ---- */

static lake_status check_limits(const struct rpc_server_options *o, struct lake_error *err)
{
    if (o->address == NULL || o->authenticator == NULL) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a server needs an address and an "
                         "authenticator");
    }
    if (o->worker_count == 0 || o->worker_count > 1024 || o->queue_limit == 0 ||
        o->queue_limit > 65536) {
        return lake_fail(
            err, LAKE_INVALID_ARGUMENT,
            "a server takes 1 to 1024 workers and a queue of 1 to 65536, not %u and %u",
            o->worker_count, o->queue_limit);
    }
    if (o->max_receive_bytes == 0 || o->max_receive_bytes > INT_MAX || o->max_metadata_bytes == 0 ||
        o->max_metadata_bytes > METADATA_MAX_BYTES) {
        return lake_fail(
            err, LAKE_INVALID_ARGUMENT,
            "a server takes messages of 1 byte to 2 GiB and headers of 1 byte to 1 MiB");
    }
    if ((o->tls_cert_path == NULL) != (o->tls_key_path == NULL)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "TLS needs both LAKE_TLS_CERT_FILE and LAKE_TLS_KEY_FILE; only the %s is "
                         "given",
                         o->tls_cert_path != NULL ? "certificate" : "key");
    }
    return LAKE_OK;
}

/* SEC-2. */
static lake_status check_exposure(const struct rpc_server_options *o,
                                  const struct rpc_address *address, struct lake_error *err)
{
    bool loopback;
    lake_status status = rpc_address_is_loopback(address, &loopback, err);
    if (status != LAKE_OK || loopback) {
        return status;
    }
    if (rpc_authenticator_is_anonymous(o->authenticator)) {
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "%s is not a loopback address, so callers must authenticate: set "
                         "LAKE_AUTH_PRINCIPALS_FILE or LAKE_AUTH_TOKEN_FILE",
                         o->address);
    }
    if (o->tls_cert_path == NULL && !o->allow_insecure) {
        return lake_fail(
            err, LAKE_FAILED_PRECONDITION,
            "%s is not a loopback address, so it needs TLS: set LAKE_TLS_CERT_FILE and "
            "LAKE_TLS_KEY_FILE, or LAKE_ALLOW_INSECURE=true where something else "
            "encrypts",
            o->address);
    }
    return LAKE_OK;
}

static grpc_arg int_arg(const char *key, int value)
{
    return (grpc_arg){
        .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value = {.integer = value}};
}

static void create_handle(struct rpc_server *server)
{
    const struct rpc_server_options *o = &server->options;
    grpc_arg args[] = {
        int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)o->max_receive_bytes),
        int_arg(GRPC_ARG_MAX_METADATA_SIZE, (int)o->max_metadata_bytes + METADATA_HARD_EXTRA_BYTES),
        int_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, STREAMS_PER_CONNECTION),
        int_arg(GRPC_ARG_ALLOW_REUSEPORT, 0), /* or a second server would share the port */
        int_arg(GRPC_ARG_ENABLE_CHANNELZ, 0),
        /* Clients may ask for a sign of life this often while their call gets none. */
        int_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, MIN_PING_INTERVAL_MS),
        /* No decompression, so no bombs: compressed requests are refused. gRPC does so itself by
         * the last of these, but it may hand out the message meanwhile. */
        int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
        int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        int_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE),
    };
    grpc_channel_args list = {BASE_ARRAY_LEN(args), args};
    server->handle = grpc_server_create(&list, NULL);
    server->queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(server->handle, server->queue, NULL);
}

lake_status rpc_server_new(const struct rpc_server_options *options, struct rpc_server **out,
                           struct lake_error *err)
{
    struct rpc_address address;
    lake_status status = check_limits(options, err);
    if (status == LAKE_OK) {
        status = rpc_address_parse(options->address, &address, err);
    }
    if (status == LAKE_OK) {
        status = check_exposure(options, &address, err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    struct rpc_server *server = base_calloc_array(1, sizeof(*server));
    if (server == NULL) {
        return base_fail_no_memory(err, sizeof(*server));
    }
    rpc_core_start();
    server->options = *options;
    server->parsed = address;
    server->shutdown = (struct server_op){.event = EVENT_SHUTDOWN};
    atomic_init(&server->serving, false);
    pthread_mutex_init(&server->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&server->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    server->address = base_strdup(options->address);
    if (server->address == NULL) {
        status = base_fail_no_memory(err, strlen(options->address));
        goto out;
    }
    server->options.address = server->address;
    if (options->tls_cert_path != NULL) {
        status = rpc_tls_server_credentials(options->tls_cert_path, options->tls_key_path,
                                            &server->credentials, err);
    } else {
        server->credentials = grpc_insecure_server_credentials_create();
    }
    if (status != LAKE_OK) {
        goto out;
    }
    server->options.tls_cert_path = NULL;
    server->options.tls_key_path = NULL;
    create_handle(server);
    status = rpc_server_add(server, NULL, false, false, NULL, NULL, err);
    if (status == LAKE_OK) {
        status = rpc_health_register(server, err);
    }
    if (status != LAKE_OK) {
        goto out;
    }
    *out = server;
    server = NULL;
out:
    rpc_server_free(server);
    return status;
}

lake_status rpc_server_add(struct rpc_server *server, const char *path, bool anonymous,
                           bool inline_handler, rpc_handler handler, void *context,
                           struct lake_error *err)
{
    if (server->state != SERVER_NEW || server->port_bound) {
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "methods are added before the server starts");
    }
    if (server->method_count == SERVER_METHODS_MAX) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "a server has at most %d methods",
                         SERVER_METHODS_MAX);
    }
    struct server_method *method = &server->methods[server->method_count];
    *method = (struct server_method){.server = server,
                                     .anonymous = anonymous,
                                     .inline_handler = inline_handler,
                                     .handler = handler,
                                     .context = context};
    if (path != NULL) {
        method->path = base_strdup(path);
        if (method->path == NULL) {
            return base_fail_no_memory(err, strlen(path));
        }
        method->registered =
            grpc_server_register_method(server->handle, path, NULL, GRPC_SRM_PAYLOAD_NONE, 0);
        if (method->registered == NULL) {
            base_free(method->path);
            return lake_fail(err, LAKE_ALREADY_EXISTS, "the method %s was already added", path);
        }
    }
    server->method_count++;
    return LAKE_OK;
}

lake_status rpc_server_add_method(struct rpc_server *server, const char *method, bool anonymous,
                                  rpc_handler handler, void *context, struct lake_error *err)
{
    if (method == NULL || method[0] != '/' || strchr(method + 1, '/') == NULL || handler == NULL) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a method is named like /package.Service/Method and has a handler");
    }
    return rpc_server_add(server, method, anonymous, false, handler, context, err);
}

/* ---- start ---- */

static void refill(struct rpc_server *server)
{
    for (size_t i = 0; i < server->method_count; i++) {
        struct server_method *method = &server->methods[i];
        unsigned missing = atomic_exchange(&method->missing, 0);
        atomic_fetch_sub(&server->missing, missing);
        while (missing-- > 0) {
            rpc_server_request(method);
        }
    }
}

static void *poll(void *context)
{
    struct rpc_server *server = context;
    for (;;) {
        bool complete = atomic_load(&server->missing) == 0;
        grpc_event event = grpc_completion_queue_next(
            server->queue, rpc_deadline_after(complete ? INT64_MAX : REFILL_AFTER_MS), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN) {
            return NULL;
        }
        if (event.type == GRPC_OP_COMPLETE) {
            rpc_server_dispatch(server, event.tag, event.success != 0);
        } else {
            refill(server);
        }
    }
}

static uint32_t poller_target(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return (uint32_t)BASE_MAX(2, BASE_MIN(cores, 4));
}

static lake_status start_threads(struct rpc_server *server, struct lake_error *err)
{
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    uint32_t target = poller_target();
    lake_status status = base_pool_new(server->options.worker_count, server->options.queue_limit,
                                       &server->pool, err);
    if (status != LAKE_OK) {
        goto out;
    }
    server->pollers = base_calloc_array(target, sizeof(*server->pollers));
    if (server->pollers == NULL) {
        status = base_fail_no_memory(err, target * sizeof(*server->pollers));
        goto out;
    }
    while (server->poller_count < target) {
        int rc = pthread_create(&server->pollers[server->poller_count], NULL, poll, server);
        if (rc != 0) {
            status = base_fail_errno(err, rc, "cannot start a thread of the server at %s",
                                     server->address);
            goto out;
        }
        server->poller_count++;
    }
out:
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return status;
}

lake_status rpc_server_start(struct rpc_server *server, struct lake_error *err)
{
    if (server->state != SERVER_NEW || server->port_bound) {
        return lake_fail(err, LAKE_FAILED_PRECONDITION, "the server was already started");
    }
    lake_status status = rpc_address_probe(&server->parsed, server->address, err);
    if (status != LAKE_OK) {
        return status;
    }
    server->port = grpc_server_add_http2_port(server->handle, server->address, server->credentials);
    if (server->port <= 0) {
        return lake_fail(err, LAKE_UNAVAILABLE,
                         "cannot listen on %s: another process may have taken the port just now",
                         server->address);
    }
    server->port_bound = true;
    status = start_threads(server, err);
    if (status != LAKE_OK) {
        return status;
    }
    grpc_server_start(server->handle);
    server->state = SERVER_RUNNING;
    for (size_t i = 0; i < server->method_count; i++) {
        for (int n = 0; n < REQUESTS_PER_METHOD; n++) {
            rpc_server_request(&server->methods[i]);
        }
    }
    return LAKE_OK;
}

int rpc_server_port(const struct rpc_server *server)
{
    return server->port;
}

void rpc_server_set_serving(struct rpc_server *server, bool serving)
{
    atomic_store(&server->serving, serving);
    rpc_health_publish(server);
}

/* ---- stop ---- */

void rpc_server_call_began(struct rpc_server *server)
{
    pthread_mutex_lock(&server->mutex);
    server->active_calls++;
    pthread_mutex_unlock(&server->mutex);
}

void rpc_server_call_ended(struct rpc_server *server)
{
    pthread_mutex_lock(&server->mutex);
    server->active_calls--;
    if (server->active_calls == 0) {
        pthread_cond_broadcast(&server->changed);
    }
    pthread_mutex_unlock(&server->mutex);
}

/* With the mutex held: waits for a change, at most until then; false once that time has passed. */
static bool wait_until(struct rpc_server *server, int64_t until_us)
{
    if (base_clock_monotonic_us() >= until_us) {
        return false;
    }
    struct timespec at = {.tv_sec = until_us / 1000000, .tv_nsec = (until_us % 1000000) * 1000};
    pthread_cond_timedwait(&server->changed, &server->mutex, &at);
    return true;
}

/* The calls end, or their time is over; then connections are closed. Returns whether calls had to
 * be cancelled. */
static bool drain(struct rpc_server *server)
{
    pthread_mutex_lock(&server->mutex);
    while (server->active_calls > 0 && wait_until(server, server->stop_at_us)) {
    }
    bool forced = server->active_calls > 0;
    int64_t goodbye_us = base_clock_monotonic_us() + INT64_C(1000) * GOODBYE_MS;
    while (!forced && !server->shutdown_done && wait_until(server, goodbye_us)) {
    }
    pthread_mutex_unlock(&server->mutex);
    /* Also without a call: a client that does not poll would hold its idle connection for 20 s. */
    grpc_server_cancel_all_calls(server->handle);
    pthread_mutex_lock(&server->mutex);
    while (!server->shutdown_done || server->active_calls > 0) {
        pthread_cond_wait(&server->changed, &server->mutex);
    }
    pthread_mutex_unlock(&server->mutex);
    return forced;
}

lake_status rpc_server_stop(struct rpc_server *server, int64_t grace_ms, struct lake_error *err)
{
    int64_t now_us = base_clock_monotonic_us();
    int64_t stop_at_us = now_us + BASE_MIN(BASE_MAX(grace_ms, 0), INT64_C(86400000)) * 1000;
    pthread_mutex_lock(&server->mutex);
    bool first = server->state == SERVER_RUNNING;
    if (first || stop_at_us < server->stop_at_us) {
        server->stop_at_us = stop_at_us;
        pthread_cond_broadcast(&server->changed);
    }
    if (first) {
        server->state = SERVER_STOPPING;
    }
    while (!first && server->state == SERVER_STOPPING) {
        pthread_cond_wait(&server->changed, &server->mutex);
    }
    pthread_mutex_unlock(&server->mutex);
    if (!first) {
        return LAKE_OK;
    }
    atomic_store(&server->serving, false);
    grpc_server_shutdown_and_notify(server->handle, server->queue, &server->shutdown);
    rpc_health_end_watches(server);
    bool forced = drain(server);
    base_pool_free(server->pool);
    server->pool = NULL;
    pthread_mutex_lock(&server->mutex);
    server->state = SERVER_STOPPED;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->mutex);
    if (forced) {
        return lake_fail(err, LAKE_DEADLINE_EXCEEDED,
                         "calls were still running %lld ms after the server at %s began to stop; "
                         "they were cancelled",
                         (long long)grace_ms, server->address);
    }
    return LAKE_OK;
}

void rpc_server_free(struct rpc_server *server)
{
    if (server == NULL) {
        return;
    }
    (void)rpc_server_stop(server, 0, NULL);
    if (server->state == SERVER_NEW && server->port_bound && server->poller_count > 0) {
        /* Half started. */
        grpc_server_start(server->handle);
        grpc_server_shutdown_and_notify(server->handle, server->queue, &server->shutdown);
        (void)drain(server);
    } else if (server->state == SERVER_NEW && server->handle != NULL) {
        grpc_server_shutdown_and_notify(server->handle, server->queue, &server->shutdown);
        grpc_completion_queue_next(server->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    }
    base_pool_free(server->pool);
    if (server->handle != NULL) {
        grpc_server_destroy(server->handle);
        grpc_completion_queue_shutdown(server->queue);
        if (server->poller_count == 0) {
            while (
                grpc_completion_queue_next(server->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL)
                    .type != GRPC_QUEUE_SHUTDOWN) {
            }
        }
        for (uint32_t i = 0; i < server->poller_count; i++) {
            pthread_join(server->pollers[i], NULL);
        }
        grpc_completion_queue_destroy(server->queue);
    }
    base_free(server->pollers);
    if (server->credentials != NULL) {
        grpc_server_credentials_release(server->credentials);
    }
    for (size_t i = 0; i < server->method_count; i++) {
        base_free(server->methods[i].path);
    }
    base_free(server->address);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->mutex);
    base_free(server);
}
