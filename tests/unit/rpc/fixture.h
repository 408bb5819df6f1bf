/* A server with methods of every shape, and small things that the tests share. */
#ifndef TESTS_RPC_FIXTURE_H
#define TESTS_RPC_FIXTURE_H

#include <rpc/rpc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define UNUSED __attribute__((unused))

struct fixture {
    struct rpc_authenticator *authenticator;
    struct rpc_server *server;
    char target[64];
    struct rpc_channel *channel; /* anonymous, plain */

    /* What handlers saw. */
    atomic_int started;
    atomic_int finished;
    atomic_int notified;
    _Atomic int64_t notified_us;
    atomic_int sends;
    atomic_bool go;              /* lets /t.T/Block return */
    atomic_bool deaf;            /* /t.T/Block does not look at its cancellation */
    atomic_int uploads_complete; /* streams whose end was seen */
    atomic_int uploads_broken;
};

static inline void assert_ok(lake_status status, const struct lake_error *err)
{
    if (status != LAKE_OK) {
        fail_msg("%s: %s", lake_status_name(status), err->message);
    }
}

static inline void assert_failed(lake_status expected, const char *part, lake_status status,
                                 const struct lake_error *err)
{
    if (status != expected || err->code != expected || strstr(err->message, part) == NULL) {
        fail_msg("expected %s with \"%s\", found %s: %s", lake_status_name(expected), part,
                 lake_status_name(status), err->message);
    }
}

/* Waits up to 5 s (a loaded machine) for a counter. */
static inline void wait_for(atomic_int *counter, int at_least)
{
    for (int i = 0; i < 5000 && atomic_load(counter) < at_least; i++) {
        base_sleep_ms(1);
    }
    assert_true(atomic_load(counter) >= at_least);
}

static inline struct lake_bytes bytes_of(const char *text)
{
    return (struct lake_bytes){(const uint8_t *)text, strlen(text)};
}

static inline struct rpc_part copy_of(struct lake_bytes bytes)
{
    return (struct rpc_part){.data = bytes.data, .size = bytes.size, .copy = true};
}

/* ---- handlers ---- */

static lake_status reply_text(struct rpc_call *call, const char *text, struct lake_error *err)
{
    struct rpc_part part = copy_of(bytes_of(text));
    return rpc_call_send_last(call, &part, 1, err);
}

UNUSED static lake_status handle_echo(struct rpc_call *call, void *context, struct lake_error *err)
{
    struct fixture *f = context;
    atomic_fetch_add(&f->started, 1);
    struct rpc_payload request = {{NULL, 0}, NULL};
    bool end = false;
    lake_status status = rpc_call_receive(call, &request, &end, err);
    if (status == LAKE_OK && end) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "no request");
    }
    if (status == LAKE_OK) {
        struct rpc_part part = copy_of(request.bytes);
        status = rpc_call_send_last(call, &part, 1, err);
        rpc_payload_fini(&request);
    }
    return status;
}

/* Sends as many messages as the request's decimal number says: "0", "1", … */
UNUSED static lake_status handle_count(struct rpc_call *call, void *context, struct lake_error *err)
{
    (void)context;
    struct rpc_payload request = {{NULL, 0}, NULL};
    bool end = false;
    uint64_t count = 0;
    lake_status status = rpc_call_receive(call, &request, &end, err);
    if (status == LAKE_OK && !end) {
        base_str_to_u64((struct lake_str){(const char *)request.bytes.data, request.bytes.size},
                        &count);
        rpc_payload_fini(&request);
    }
    for (uint64_t i = 0; i < count && status == LAKE_OK; i++) {
        char text[24];
        snprintf(text, sizeof(text), "%llu", (unsigned long long)i);
        struct rpc_part part = copy_of(bytes_of(text));
        status = rpc_call_send(call, &part, 1, err);
    }
    return status;
}

/* Reads all requests; answers "messages bytes". */
UNUSED static lake_status handle_upload(struct rpc_call *call, void *context,
                                        struct lake_error *err)
{
    struct fixture *f = context;
    atomic_fetch_add(&f->started, 1);
    size_t messages = 0;
    size_t total = 0;
    for (;;) {
        struct rpc_payload request = {{NULL, 0}, NULL};
        bool end = false;
        lake_status status = rpc_call_receive(call, &request, &end, err);
        if (status != LAKE_OK) {
            atomic_fetch_add(&f->uploads_broken, 1);
            return status;
        }
        if (end) {
            break;
        }
        messages++;
        total += request.bytes.size;
        rpc_payload_fini(&request);
    }
    atomic_fetch_add(&f->uploads_complete, 1);
    char text[64];
    snprintf(text, sizeof(text), "%zu %zu", messages, total);
    return reply_text(call, text, err);
}

/* Answers each request with itself, at once. */
UNUSED static lake_status handle_chat(struct rpc_call *call, void *context, struct lake_error *err)
{
    (void)context;
    for (;;) {
        struct rpc_payload request = {{NULL, 0}, NULL};
        bool end = false;
        lake_status status = rpc_call_receive(call, &request, &end, err);
        if (status != LAKE_OK || end) {
            return status;
        }
        struct rpc_part part = copy_of(request.bytes);
        status = rpc_call_send(call, &part, 1, err);
        rpc_payload_fini(&request);
        if (status != LAKE_OK) {
            return status;
        }
    }
}

/* Fails with the status whose number the request holds. */
UNUSED static lake_status handle_fail(struct rpc_call *call, void *context, struct lake_error *err)
{
    (void)context;
    struct rpc_payload request = {{NULL, 0}, NULL};
    bool end = false;
    uint64_t number = 0;
    lake_status status = rpc_call_receive(call, &request, &end, err);
    if (status != LAKE_OK || end) {
        return status;
    }
    base_str_to_u64((struct lake_str){(const char *)request.bytes.data, request.bytes.size},
                    &number);
    rpc_payload_fini(&request);
    struct rpc_part part = copy_of(bytes_of("discarded"));
    status = rpc_call_send_last(call, &part, 1, err);
    if (status != LAKE_OK) {
        return status;
    }
    return lake_fail(err, (lake_status)number, "the robot's arm — %llu%% — is stuck\nnow",
                     (unsigned long long)number);
}

/* One message, then an error. */
UNUSED static lake_status handle_partial(struct rpc_call *call, void *context,
                                         struct lake_error *err)
{
    (void)context;
    struct rpc_part part = copy_of(bytes_of("a part"));
    lake_status status = rpc_call_send(call, &part, 1, err);
    return status != LAKE_OK ? status : lake_fail(err, LAKE_DATA_LOSS, "the rest is gone");
}

UNUSED static void note_cancel(void *context)
{
    struct fixture *f = context;
    atomic_store(&f->notified_us, base_clock_monotonic_us());
    atomic_fetch_add(&f->notified, 1);
}

/* Runs until `go`, or until it is told that nobody wants it. */
UNUSED static lake_status handle_block(struct rpc_call *call, void *context, struct lake_error *err)
{
    struct fixture *f = context;
    rpc_call_on_cancel(call, note_cancel, f);
    atomic_fetch_add(&f->started, 1);
    while (!atomic_load(&f->go) && (atomic_load(&f->deaf) || !rpc_call_cancelled(call))) {
        base_sleep_ms(1);
    }
    rpc_call_on_cancel(call, NULL, NULL);
    atomic_fetch_add(&f->finished, 1);
    return reply_text(call, "done", err);
}

#define ENDLESS_BYTES ((size_t)1 << 20)

UNUSED static lake_status handle_endless(struct rpc_call *call, void *context,
                                         struct lake_error *err)
{
    static const uint8_t data[ENDLESS_BYTES];
    struct fixture *f = context;
    rpc_call_on_cancel(call, note_cancel, f);
    atomic_fetch_add(&f->started, 1);
    lake_status status = LAKE_OK;
    while (status == LAKE_OK) {
        struct rpc_part part = {.data = data, .size = sizeof(data)};
        status = rpc_call_send(call, &part, 1, err);
        atomic_fetch_add(&f->sends, 1);
    }
    atomic_fetch_add(&f->finished, 1);
    return status;
}

/* "principal tenant role peer-scheme time-left-is-bounded header:x-lake" */
UNUSED static lake_status handle_describe(struct rpc_call *call, void *context,
                                          struct lake_error *err)
{
    (void)context;
    const struct rpc_principal *p = rpc_call_principal(call);
    struct lake_str header = rpc_call_header(call, "x-lake");
    int64_t left_ms = rpc_call_time_left_ms(call);
    lake_status status = rpc_call_set_header(call, "x-reply", LAKE_STR("set"), err);
    if (status != LAKE_OK) {
        return status;
    }
    char text[256];
    snprintf(text, sizeof(text), "%s %s %d %.4s %s %.*s", p != NULL ? p->principal_id : "nobody",
             p != NULL ? p->tenant_id : "-", p != NULL ? (int)p->role : -1, rpc_call_peer(call),
             left_ms == INT64_MAX              ? "forever"
             : left_ms > 0 && left_ms <= 62000 ? "bounded"
                                               : "?",
             LAKE_STR_FMT(header));
    return reply_text(call, text, err);
}

/* ---- the server ---- */

static void fixture_add_methods(struct fixture *f)
{
    static const struct {
        const char *path;
        bool anonymous;
        rpc_handler handler;
    } methods[] = {
        {"/t.T/Echo", false, handle_echo},         {"/t.T/Count", false, handle_count},
        {"/t.T/Upload", false, handle_upload},     {"/t.T/Chat", false, handle_chat},
        {"/t.T/Fail", false, handle_fail},         {"/t.T/Partial", false, handle_partial},
        {"/t.T/Block", false, handle_block},       {"/t.T/Endless", false, handle_endless},
        {"/t.T/Describe", false, handle_describe}, {"/t.T/Handshake", true, handle_describe}};
    struct lake_error err = {0};
    for (size_t i = 0; i < BASE_ARRAY_LEN(methods); i++) {
        assert_ok(rpc_server_add_method(f->server, methods[i].path, methods[i].anonymous,
                                        methods[i].handler, f, &err),
                  &err);
    }
}

static struct rpc_channel *channel_to(const char *target, const char *token)
{
    struct lake_error err = {0};
    struct rpc_channel *channel = NULL;
    struct base_secret secret = {NULL, 0};
    struct rpc_channel_options options = {.target = target};
    if (token != NULL) {
        assert_ok(base_secret_copy(&secret, bytes_of(token), &err), &err);
        options.bearer_token = &secret;
    }
    assert_ok(rpc_channel_open(&options, &channel, &err), &err);
    base_secret_fini(&secret);
    return channel;
}

/* `options` may be NULL; its address and authenticator are filled in where they are missing. */
static void fixture_start(struct fixture *f, const struct rpc_server_options *options,
                          const char *principals_path)
{
    memset(f, 0, sizeof(*f));
    struct lake_error err = {0};
    struct rpc_server_options o;
    rpc_server_options_init(&o);
    if (options != NULL) {
        o = *options;
    }
    if (o.address == NULL) {
        o.address = "127.0.0.1:0";
    }
    assert_ok(rpc_authenticator_new(principals_path, NULL, &f->authenticator, &err), &err);
    o.authenticator = f->authenticator;
    assert_ok(rpc_server_new(&o, &f->server, &err), &err);
    fixture_add_methods(f);
    assert_ok(rpc_server_start(f->server, &err), &err);
    snprintf(f->target, sizeof(f->target), "127.0.0.1:%d", rpc_server_port(f->server));
    f->channel = channel_to(f->target, NULL);
}

static void fixture_stop(struct fixture *f)
{
    rpc_channel_unref(f->channel);
    rpc_server_free(f->server);
    rpc_authenticator_free(f->authenticator);
}

/* ---- calls ---- */

UNUSED static lake_status unary_text(struct rpc_channel *channel, const char *method,
                                     const char *request, int64_t deadline_ms, char *reply,
                                     size_t reply_size, struct lake_error *err)
{
    struct rpc_payload payload = {{NULL, 0}, NULL};
    lake_status status = rpc_unary(channel, method, bytes_of(request), deadline_ms, &payload, err);
    if (status == LAKE_OK) {
        snprintf(reply, reply_size, "%.*s", (int)payload.bytes.size,
                 (const char *)payload.bytes.data);
        rpc_payload_fini(&payload);
    }
    return status;
}

/* Starts a call with one request. */
UNUSED static struct rpc_client_call *call_with(struct rpc_channel *channel, const char *method,
                                                const char *request, int64_t deadline_ms)
{
    struct lake_error err = {0};
    struct rpc_client_call *call = NULL;
    assert_ok(rpc_client_call_start(channel, method, NULL, 0, deadline_ms, &call, &err), &err);
    struct rpc_part part = copy_of(bytes_of(request));
    assert_ok(rpc_client_call_send_last(call, &part, 1, &err), &err);
    return call;
}

/* ---- files ---- */

UNUSED static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

#endif
