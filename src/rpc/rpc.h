/*
 * rpc: gRPC's C core as straight-line code.
 *
 * A server runs each call's handler as plain sequential code on one worker of a bounded pool
 * (DESIGN 4): the handler receives and sends messages one at a time and returns the call's status.
 * A call that finds no worker waits in a bounded queue and is refused with RESOURCE_EXHAUSTED when
 * that is full. A client call is driven by its own thread and is cancelled from any.
 *
 * Message bytes are passed as parts, without a copy: a part's release runs when the transport has
 * let go of its bytes, on any thread, also when the call fails.
 *
 * Thread rule: a server, a channel and an authenticator are shared freely; a call belongs to one
 * thread, except for the functions that say otherwise.
 */
#ifndef RPC_RPC_H
#define RPC_RPC_H

#include <base/base.h>

/* ---- messages ---- */

struct rpc_part {
    const void *data;
    size_t size;
    void (*release)(void *context); /* NULL: `data` is static or is copied when `copy` is set */
    void *context;
    bool copy; /* copy into the message now (small, short-lived parts) */
};

/* A received message in one piece, aligned to 64 bytes. */
struct rpc_payload {
    struct lake_bytes bytes;
    void *owner; /* released by rpc_payload_fini; may be moved */
};
void rpc_payload_fini(struct rpc_payload *payload);

/* ---- identity (SEC-1..SEC-4) ---- */

enum rpc_role {
    RPC_ROLE_USER,
    RPC_ROLE_QUERY_SERVICE,
    RPC_ROLE_METADATA_PEER,
    RPC_ROLE_ADMIN
};

struct rpc_principal { /* immutable, lives as long as its authenticator */
    const char *principal_id;
    const char *tenant_id;
    enum rpc_role role;
    bool all_namespaces;
    const char *const *namespaces;
    size_t namespace_count;
};
bool rpc_principal_may_use_namespace(const struct rpc_principal *principal, struct lake_str name);

struct rpc_authenticator;
/* From LAKE_AUTH_PRINCIPALS_FILE or LAKE_AUTH_TOKEN_FILE (both: an error). With neither, only a
 * loopback listener may use it, and everyone is the development principal ("development", tenant
 * "development", role admin, all namespaces). */
lake_status rpc_authenticator_from_environment(struct rpc_authenticator **out,
                                               struct lake_error *err);
/* The same from explicit paths (NULL: not given). */
lake_status rpc_authenticator_new(const char *principals_path, const char *token_path,
                                  struct rpc_authenticator **out, struct lake_error *err);
void rpc_authenticator_free(struct rpc_authenticator *authenticator);
bool rpc_authenticator_is_anonymous(const struct rpc_authenticator *authenticator);
/* `authorization` is the header's value or empty. The scheme's case does not matter (F07).
 * UNAUTHENTICATED with one text for every kind of wrong credential. */
lake_status rpc_authenticate(const struct rpc_authenticator *authenticator,
                             struct lake_str authorization, const struct rpc_principal **out,
                             struct lake_error *err);

/* ---- server ---- */

struct rpc_server;
struct rpc_call;

/* Returns the call's status; `err`'s message goes to the client (never `cause`). */
typedef lake_status (*rpc_handler)(struct rpc_call *call, void *context, struct lake_error *err);

struct rpc_server_options {
    const char *address;       /* "host:port"; port 0 takes a free one */
    const char *tls_cert_path; /* both or neither: LAKE_TLS_CERT_FILE, LAKE_TLS_KEY_FILE */
    const char *tls_key_path;
    bool allow_insecure;                           /* SEC-2: a listener off loopback without TLS */
    const struct rpc_authenticator *authenticator; /* required; borrowed */
    uint32_t worker_count;                         /* calls handled at once; default 64 */
    uint32_t queue_limit;                          /* calls that wait for a worker; default 256 */
    size_t max_receive_bytes;                      /* of one message; default 64 MiB + 64 KiB */
    size_t max_metadata_bytes;                     /* default 16 KiB (F09) */
};
void rpc_server_options_init(struct rpc_server_options *options);
/* The same, with LAKE_TLS_CERT_FILE, LAKE_TLS_KEY_FILE, LAKE_ALLOW_INSECURE and
 * LAKE_RPC_MAX_METADATA_BYTES read; the paths are borrowed from the environment. */
lake_status rpc_server_options_from_environment(struct rpc_server_options *options,
                                                struct lake_error *err);

/* Checks options (SEC-2) and prepares; opens no socket. */
lake_status rpc_server_new(const struct rpc_server_options *options, struct rpc_server **out,
                           struct lake_error *err);
/* Before start. `method` like "/arrow.flight.protocol.FlightService/DoGet". Unknown methods answer
 * UNIMPLEMENTED. gRPC Health (Check and Watch, authenticated) is built in. Every call is
 * authenticated before its handler runs; Handshake-like methods pass `anonymous` true. A handler
 * starts when the first request message has arrived, or the client has finished without any. */
lake_status rpc_server_add_method(struct rpc_server *server, const char *method, bool anonymous,
                                  rpc_handler handler, void *context, struct lake_error *err);
/* Binds and serves. ALREADY_EXISTS when the port is in use. */
lake_status rpc_server_start(struct rpc_server *server, struct lake_error *err);
int rpc_server_port(const struct rpc_server *server);
/* What Health answers: NOT_SERVING until this says otherwise, and again from stop on. */
void rpc_server_set_serving(struct rpc_server *server, bool serving);
/* OPS-1: stops accepting, waits up to grace_ms for calls to end, cancels the rest and joins.
 * DEADLINE_EXCEEDED when calls had to be cancelled. Thread-safe; a second call with a shorter grace
 * hurries the first (F11). Joins handlers: they must end soon after their cancellation. */
lake_status rpc_server_stop(struct rpc_server *server, int64_t grace_ms, struct lake_error *err);
void rpc_server_free(struct rpc_server *server); /* stops with no grace if still running */

const struct rpc_principal *rpc_call_principal(const struct rpc_call *call);
const struct rpc_authenticator *rpc_call_authenticator(const struct rpc_call *call);
/* First value of a request header (lower-case name), or the empty view. */
struct lake_str rpc_call_header(const struct rpc_call *call, const char *name);
const char *rpc_call_peer(struct rpc_call *call); /* such as "ipv4:127.0.0.1:40312" */
/* Milliseconds left until the client's deadline, or INT64_MAX. */
int64_t rpc_call_time_left_ms(const struct rpc_call *call);
/* Thread-safe; on another thread than the handler's, only once the handler itself has asked, or has
 * set a notify. */
bool rpc_call_cancelled(const struct rpc_call *call);
/* `notify` runs once, on another thread, when the client goes away or cancels or the server stops
 * hard; or at once when that has happened. It must not block. NULL clears it and waits for a
 * running one to end. */
void rpc_call_on_cancel(struct rpc_call *call, void (*notify)(void *context), void *context);
/* Resets the call from any thread while its handler runs: a send that a slow reader holds, or a
 * receive, then fails with CANCELLED. The client sees `status` at best, else CANCELLED. */
void rpc_call_abort(struct rpc_call *call, lake_status status);
/* Header of the reply; before the first send. Copied. */
lake_status rpc_call_set_header(struct rpc_call *call, const char *name, struct lake_str value,
                                struct lake_error *err);
/* The next request message; *end when the client has finished sending (out untouched then). */
lake_status rpc_call_receive(struct rpc_call *call, struct rpc_payload *out, bool *end,
                             struct lake_error *err);
/* One reply message made of `parts` in order. Returns when the transport has taken the message
 * before it, so one message goes out while the next is made, and a slow reader holds the handler
 * here (SQL-9). The first message leaves with the next send or receive, or with the status: a unary
 * reply is one write. Takes over every part's release, also on failure. CANCELLED or
 * DEADLINE_EXCEEDED when the client no longer wants the reply. */
lake_status rpc_call_send(struct rpc_call *call, struct rpc_part *parts, size_t part_count,
                          struct lake_error *err);
/* Sends the first message now, should it still be held back to leave with the next one: when it
 * will take a while before there is more. Never waits. Thread-safe while the handler runs. */
void rpc_call_flush(struct rpc_call *call);
/* Like rpc_call_send, for a message that is known to be the last: it leaves together with the
 * status, once the handler has returned OK; an error discards it. */
lake_status rpc_call_send_last(struct rpc_call *call, struct rpc_part *parts, size_t part_count,
                               struct lake_error *err);

/* ---- client ---- */

struct rpc_channel;
struct rpc_client_call;

struct rpc_channel_options {
    const char *target; /* "host:port" */
    bool tls;
    const char *ca_pem;                     /* NULL: the system's roots */
    const char *server_name;                /* NULL: the target's host */
    const struct base_secret *bearer_token; /* copied; NULL: anonymous */
    size_t max_receive_bytes;               /* 0: unlimited */
    /* A server that has been silent for so long during a call is asked for a sign of life, and is
     * UNAVAILABLE when it gives none for as long again; 0: 20 s. */
    int64_t keepalive_ms;
};
lake_status rpc_channel_open(const struct rpc_channel_options *options, struct rpc_channel **out,
                             struct lake_error *err); /* does not connect yet */
struct rpc_channel *rpc_channel_ref(struct rpc_channel *channel);
void rpc_channel_unref(struct rpc_channel *channel);

struct rpc_header {
    const char *name;
    struct lake_str value;
};
/* deadline_ms: from now; INT64_MAX: none. The channel's bearer token is added. */
lake_status rpc_client_call_start(struct rpc_channel *channel, const char *method,
                                  const struct rpc_header *headers, size_t header_count,
                                  int64_t deadline_ms, struct rpc_client_call **out,
                                  struct lake_error *err);
/* Returns when the transport has taken the message before it. The first message leaves with the
 * next send, receive or finish_sending. Takes over every part's release, also on failure. When the
 * server has already ended the call it fails with the server's status. */
lake_status rpc_client_call_send(struct rpc_client_call *call, struct rpc_part *parts,
                                 size_t part_count, struct lake_error *err);
/* The same for the last message: one write instead of two, so prefer it where it fits. */
lake_status rpc_client_call_send_last(struct rpc_client_call *call, struct rpc_part *parts,
                                      size_t part_count, struct lake_error *err);
lake_status rpc_client_call_finish_sending(struct rpc_client_call *call, struct lake_error *err);
/* The next reply; at the end of a successful call *end is true; a failed call gives its status and
 * message here. UNAVAILABLE names the target. */
lake_status rpc_client_call_receive(struct rpc_client_call *call, struct rpc_payload *out,
                                    bool *end, struct lake_error *err);
struct lake_str rpc_client_call_reply_header(const struct rpc_client_call *call, const char *name);
void rpc_client_call_cancel(struct rpc_client_call *call); /* thread-safe */
void rpc_client_call_free(struct rpc_client_call *call);   /* cancels what still runs */
/* True once any byte of the request may have reached the server: a later UNAVAILABLE then leaves
 * the outcome unknown. */
bool rpc_client_call_was_sent(const struct rpc_client_call *call);
/* True when the call has ended with a failure that the server itself gave: not one of a broken
 * connection, of a deadline of this side, or of this process. */
bool rpc_client_call_was_refused(const struct rpc_client_call *call);

/* One request, one reply. */
lake_status rpc_unary(struct rpc_channel *channel, const char *method, struct lake_bytes request,
                      int64_t deadline_ms, struct rpc_payload *reply, struct lake_error *err);

#endif
