/*
 * HTTP requests on libcurl's multi interface: one thread moves the bytes of all of them and keeps
 * the connections, callers wait.
 *
 * A transfer is started by one thread and finished by it. Between the two, its request (address,
 * headers, body, target) must stay where it is. Redirects are never followed.
 */
#ifndef STORAGE_HTTP_H
#define STORAGE_HTTP_H

#include <base/base.h>

#define HTTP_MAX_HEADER_BYTES ((size_t)64 * 1024)
#define HTTP_MAX_REPLY_BYTES  ((size_t)16 * 1024 * 1024) /* of replies that are kept whole */
#define HTTP_MAX_HEADERS      32
#define HTTP_MIN_QUEUE_BYTES  ((size_t)64 * 1024) /* four times what libcurl gives at once */

struct http_engine;
struct http_transfer;

struct http_options {
    const char *ca_file;      /* PEM; NULL: the system's */
    int64_t connect_ms;       /* for the connection, with its TLS handshake */
    int64_t stall_ms;         /* a transfer that moves nothing for so long has failed */
    uint32_t max_connections; /* to one host */
    bool no_proxy;
};

lake_status http_engine_new(const struct http_options *options, struct http_engine **out,
                            struct lake_error *err);
/* After the last transfer was finished. NULL is allowed. */
void http_engine_free(struct http_engine *engine);

struct http_reply {
    int status; /* 0: there was no reply */
    /* A kept connection was dead, so that the body was sent again on a new one: the server may
     * have seen the request twice. */
    bool resent;
    struct base_buffer headers; /* lines as they came, each ended by \n */
    struct base_buffer body;    /* unless it went elsewhere */
};

/* The value of the last header of this name (lower case); false without it. */
bool http_reply_header(const struct http_reply *reply, const char *name, struct lake_str *out);
void http_reply_fini(struct http_reply *reply);

/* What made a transfer end without a complete reply. */
enum http_failure {
    HTTP_COMPLETE,  /* the reply is whole, whatever its status says */
    HTTP_NOT_SENT,  /* no connection: the server knows nothing of it */
    HTTP_BROKEN,    /* the connection ended: what the server did is unknown */
    HTTP_TIMED_OUT, /* stalled, or past its deadline: likewise */
    HTTP_UNTRUSTED, /* the server's certificate */
    HTTP_REFUSED,   /* the caller's own check of the reply said no, or its body is too long */
    HTTP_CANCELLED,
    HTTP_LOCAL /* no memory, and the like */
};

struct http_request {
    const char *method;
    const char *url;
    const char *headers[HTTP_MAX_HEADERS]; /* "Name: value" */
    size_t header_count;
    /* The body: `body`, or what `produce` gives, `produced_bytes` in all. `produce` returns how
     * many bytes it put into `out`, SIZE_MAX when it cannot; `rewind` starts over. */
    struct lake_bytes body;
    bool once; /* never sent twice behind the caller's back: for requests without a body */
    size_t (*produce)(void *context, uint8_t *out, size_t capacity);
    bool (*rewind)(void *context);
    uint64_t produced_bytes;
    /* Where the body of a reply with status 200 or 206 goes, once `accept` (may be NULL) has seen
     * its headers and said yes. NULL: into the reply, as all other bodies do. `consume` returns
     * false to end the transfer. All of them are called on the engine's thread. */
    bool (*accept)(void *context, const struct http_reply *reply);
    bool (*consume)(void *context, const uint8_t *data, size_t size);
    void *context;
    /* Not 0: what `consume` has seen is kept for http_transfer_read, so many bytes at most; the
     * server waits while nobody reads, and that is no stalling. At least HTTP_MIN_QUEUE_BYTES. */
    size_t queue_bytes;
    int64_t deadline_us; /* on the monotonic clock; 0: only stalling ends it */
};

/* The request is sent from here on. `reply` is filled until http_transfer_finish returns. */
lake_status http_transfer_start(struct http_engine *engine, const struct http_request *request,
                                struct http_reply *reply, struct http_transfer **out,
                                struct lake_error *err);
/* The next bytes of a body that is queued, until the next call; none when the transfer has ended,
 * and http_transfer_finish says how. False when neither came before `deadline_us` (monotonic). */
bool http_transfer_read(struct http_transfer *transfer, int64_t deadline_us,
                        struct lake_bytes *out);
/* Waits until `consume` has seen so many bytes, or the transfer has ended; how many it has seen. */
uint64_t http_transfer_await(struct http_transfer *transfer, uint64_t bytes);
/* The transfer ends soon, as HTTP_CANCELLED unless it was complete. Any thread. */
void http_transfer_cancel(struct http_transfer *transfer);
/* Waits for the end and releases the transfer. `err` says what failed, unless complete. */
enum http_failure http_transfer_finish(struct http_transfer *transfer, struct lake_error *err);

#endif
