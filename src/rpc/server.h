/*
 * The server's inside.
 *
 * A call is driven by events of one completion queue. Poller threads take them and never block;
 * the worker that runs a call's handler starts batches and waits on the call's condition.
 *
 *   REQUEST  a call has arrived (its headers, no message yet)
 *   CLOSE    it is over for gRPC: finished, cancelled, or the client is gone; asked for only when
 *            somebody wants to know of a cancellation, else part of FINISH
 *   RECEIVE  a request message, or the client's end
 *   SEND     the transport took a reply message
 *   FINISH   the transport took the status
 *
 * A call has one reference for each batch outstanding and one for whoever will finish it. A batch
 * often completes within grpc_call_start_batch; gRPC's thread-local cache then hands its event back
 * to the thread that started it, without a poller (rpc_server_start_batch).
 *
 * Locks: a call's mutex and the server's mutex are never held together, nor across a call of gRPC.
 */
#ifndef RPC_SERVER_H
#define RPC_SERVER_H

#include "core.h"
#include <stdatomic.h>

enum server_event {
    EVENT_REQUEST,
    EVENT_CLOSE,
    EVENT_RECEIVE,
    EVENT_SEND,
    EVENT_FINISH,
    EVENT_SHUTDOWN
};

struct server_op {
    enum server_event event;
    struct rpc_call *call; /* NULL for EVENT_SHUTDOWN */
};

struct server_method {
    struct rpc_server *server;
    char *path; /* NULL for the catch-all */
    void *registered;
    bool anonymous;
    bool inline_handler; /* runs on the poller: never blocks */
    rpc_handler handler; /* NULL: UNIMPLEMENTED */
    void *context;
    atomic_uint missing; /* requests for a call that could not be posted, for want of memory */
};

#define SERVER_METHODS_MAX         64
#define SERVER_REPLY_HEADERS_MAX   16
#define SERVER_REQUEST_HEADERS_MAX 256

enum op_state {
    OP_IDLE,
    OP_PENDING,
    OP_DONE
};

struct rpc_call {
    struct server_method *method;
    grpc_call *handle;
    grpc_call_details details; /* of the catch-all */
    gpr_timespec deadline;
    grpc_metadata_array headers;
    const struct rpc_principal *principal;
    char *peer;
    atomic_uint references;
    atomic_bool cancelled;
    int close_cancelled; /* gRPC writes it, CLOSE reads it */
    struct server_op request;
    struct server_op close;
    struct server_op receive;
    struct server_op send;
    struct server_op finish;

    /* The mutex guards these. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum op_state receive_state;
    enum op_state send_state;
    bool receive_ok;
    bool send_ok;
    grpc_byte_buffer *held;    /* the first message, until the call goes on */
    grpc_byte_buffer *sending; /* gRPC's while SEND is pending */
    bool notify_running;
    void (*notify)(void *context);
    void *notify_context;

    /* Written by gRPC while RECEIVE is pending, else the handler's. */
    grpc_byte_buffer *received;

    /* The handler's own. */
    bool started;       /* the first message has come */
    bool taken;         /* the handler has received one */
    bool ended;         /* the client has finished sending */
    bool headers_sent;  /* of whoever sends the first message */
    bool close_started; /* CLOSE was asked for */
    bool sent_one;
    bool closed; /* the last message was given */
    grpc_metadata reply_headers[SERVER_REPLY_HEADERS_MAX];
    size_t reply_header_count;
    grpc_byte_buffer *last; /* goes out with the status, if that is OK */
    pthread_t thread;       /* the one that runs the handler */
    int64_t queued_us;      /* when it began to wait for a worker; 0: not at all */

    /* Of a health watch: guarded by the server's mutex. */
    struct rpc_call *watch_next;
    int watch_sent;
    bool watch_sending;
    bool watching;
    lake_status watch_end;
};

enum server_state {
    SERVER_NEW,
    SERVER_RUNNING,
    SERVER_STOPPING,
    SERVER_STOPPED
};

struct rpc_server {
    struct rpc_server_options options;
    char *address;
    struct rpc_address parsed;
    grpc_server_credentials *credentials;
    grpc_server *handle;
    grpc_completion_queue *queue;
    bool port_bound;
    int port;
    struct server_method methods[SERVER_METHODS_MAX];
    size_t method_count;
    struct server_op shutdown;
    struct base_pool *pool;
    pthread_t *pollers;
    uint32_t poller_count;
    atomic_bool serving;
    atomic_uint missing; /* of all methods */

    /* The mutex guards these. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum server_state state;
    uint64_t active_calls;
    bool shutdown_done;
    int64_t stop_at_us;
    struct rpc_call *watches;
    uint32_t watch_count;
};

/* server.c */
void rpc_server_call_began(struct rpc_server *server);
void rpc_server_call_ended(struct rpc_server *server);
lake_status rpc_server_add(struct rpc_server *server, const char *method, bool anonymous,
                           bool inline_handler, rpc_handler handler, void *context,
                           struct lake_error *err);

/* call.c. A batch that gRPC refuses is a fault of ours; the call is then cancelled and the event
 * does not come. `op` gives the event. */
bool rpc_server_start_batch(struct rpc_call *call, const grpc_op *ops, size_t op_count,
                            struct server_op *op);
struct rpc_call *rpc_server_call_new(struct server_method *method);
void rpc_server_call_ref(struct rpc_call *call);
void rpc_server_call_unref(struct rpc_call *call);
void rpc_server_call_run(void *call);                    /* a task of the pool */
void rpc_server_call_watch_close(struct rpc_call *call); /* asks for CLOSE as an event of its own */
/* Ends the call; gives up the finisher's reference. */
void rpc_server_call_finish(struct rpc_call *call, lake_status status,
                            const struct lake_error *err);
void rpc_server_dispatch(struct rpc_server *server, struct server_op *op, bool ok);
/* Posts one more request for a call; where that fails, a poller tries again later. */
void rpc_server_request(struct server_method *method);

/* health.c */
lake_status rpc_health_register(struct rpc_server *server, struct lake_error *err);
/* A health watch is a call that no worker holds: its events come here. */
void rpc_health_watch_start(struct rpc_call *call);
void rpc_health_watch_sent(struct rpc_call *call, bool ok);
void rpc_health_watch_closed(struct rpc_call *call);
void rpc_health_publish(struct rpc_server *server);     /* after a change of `serving` */
void rpc_health_end_watches(struct rpc_server *server); /* when the server stops */
bool rpc_health_is_watch(const struct server_method *method);

#endif
