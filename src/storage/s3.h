/*
 * The S3 store, as its own files and tests see it.
 *
 *   s3.c            opening a store, and the methods for small things
 *   s3_settings.c   options from the environment and the shared configuration
 *   s3_call.c       one operation: signed, sent, judged, tried again
 *   s3_verdict.c    what a reply means
 *   s3_read.c       ranges and whole objects
 *   s3_url.c        one object by a presigned URL
 *   s3_stream.c     ranges one after the other, with the next ones on their way; one long range
 *   s3_list.c       listings of keys
 *   s3_multipart.c  multipart uploads, and the writer on them
 *   credentials*.c, profile.c   who signs
 *   sign.c          Signature Version 4
 *   http.c          libcurl's multi interface
 */
#ifndef STORAGE_S3_H
#define STORAGE_S3_H

#include "checksum.h"
#include "credentials.h"
#include "http.h"
#include "sign.h"
#include "storage.h"

#include <stdatomic.h>

#define S3_MAX_PAIRS       12
#define S3_REGION_BYTES    64
#define S3_CODE_BYTES      64
#define S3_ETAG_BYTES      STORAGE_VERSION_BYTES
#define S3_WRITE_ID_HEADER "x-amz-meta-lake-write"
#define S3_NO_SKEW         INT64_MIN

struct s3_store {
    struct http_engine *engine;
    struct credentials_source *credentials; /* NULL with `url` */
    char *url; /* presigned: of the one object there is, and all requests are GETs of it */
    uint64_t object_bytes;                 /* with `url`: what it must have */
    struct storage_url_reader *url_reader; /* with `url`: whose engine it is */
    char *scheme;                          /* "https" */
    char *host;                            /* with its port, as the Host header has it */
    char *base_path;                       /* before the key, begins with '/' and ends with it */
    char *bucket;
    char *endpoint; /* as it was given, without a bucket; NULL: AWS's own */
    bool plain_http;
    struct storage_s3_options options; /* its strings are gone but for `payload` and numbers */
    pthread_mutex_t lock;              /* guards region */
    char region[S3_REGION_BYTES];
    atomic_int_fast64_t skew_ms; /* the server's clock minus ours */
    atomic_int_fast64_t retry_tokens;
    struct {
        atomic_uint_fast64_t requests, retries, throttled, sent_bytes, received_bytes;
    } counters;
};

extern const struct storage_methods s3_methods;

/* What holds for a store in the end; the strings are borrowed from where they were found. */
struct s3_settings {
    const char *endpoint; /* NULL: AWS's own */
    const char *region;
    const char *ca_file; /* NULL: the system's */
    enum storage_s3_addressing addressing;
};
/* The profile that counts when `name` is NULL or not; empty when there are no files. */
lake_status s3_settings_profile(const char *name, struct profile *out, struct lake_error *err);
/* Sets the timeouts that are 0 to the environment's, or to the default. */
lake_status s3_timeouts(struct storage_s3_options *options, struct lake_error *err);
struct s3_settings s3_settings_of(const struct storage_s3_options *options,
                                  const struct profile *profile);

/* What an attempt came to. */
enum s3_verdict {
    S3_DONE,       /* a reply that says yes */
    S3_FAILED,     /* a reply that says no, or nothing that trying again would mend */
    S3_TRY_AGAIN,  /* later */
    S3_TRY_AT_ONCE /* what was wrong with the request is known now: clock, region, credentials */
};

/*
 * One operation. The caller fills the first part, then starts and finishes it, any number of
 * operations side by side. All that it points to stays until it is finished.
 */
struct s3_call {
    struct s3_store *store;
    const char *what; /* for messages, such as "reading" */
    const char *method;
    struct lake_str key; /* empty: the bucket */
    struct sign_pair query[S3_MAX_PAIRS];
    size_t query_count;
    struct sign_pair headers[S3_MAX_PAIRS]; /* names in lower case */
    size_t header_count;
    struct lake_bytes body;
    bool (*accept)(void *context, const struct http_reply *reply);
    bool (*consume)(void *context, const uint8_t *data, size_t size);
    /* Before each attempt; may change the headers. NULL: nothing to do. */
    lake_status (*prepare)(void *context, struct s3_call *call, struct lake_error *err);
    /* Looks at a whole reply with status 2xx; what it returns counts. NULL: it is good. */
    enum s3_verdict (*check)(void *context, struct s3_call *call, struct lake_error *err);
    void *context;
    size_t queue_bytes; /* not 0: as of http_request; the body is read by s3_call_read */
    bool changes;       /* a request without an answer may have been carried out */

    /* After finishing. */
    struct http_reply reply;
    char code[S3_CODE_BYTES]; /* S3's, of the last error; or empty */
    bool maybe_done;          /* some attempt ended without an answer */

    /* Between starting and finishing. */
    struct http_transfer *transfer;
    struct http_request request;
    struct base_buffer text; /* the URL and the header lines */
    struct credentials *credentials;
    struct s3_chunked *chunked;
    char region[S3_REGION_BYTES]; /* signed with */
    int64_t signed_skew_ms;
    int64_t deadline_us;
    uint32_t attempts, stalls; /* the second: of those, which moved nothing for too long */
    bool refreshed, relocated, reset_clock;
    bool begun; /* some of a queued body was given out: there is no other attempt */
};

/* Everything zero but these. */
void s3_call_init(struct s3_call *call, struct s3_store *store, const char *what,
                  const char *method, struct lake_str key);
void s3_call_query(struct s3_call *call, struct lake_str name, struct lake_str value);
void s3_call_header(struct s3_call *call, struct lake_str name, struct lake_str value);
/* Sets or replaces. */
void s3_call_set_header(struct s3_call *call, struct lake_str name, struct lake_str value);
lake_status s3_call_start(struct s3_call *call, struct lake_error *err);
/* Waits, tries again, and says how it ended. */
lake_status s3_call_finish(struct s3_call *call, struct lake_error *err);
/* When the attempt has ended: how the call did, or false when another one has begun. Waits for the
 * end. What s3_call_finish repeats. */
bool s3_call_settle(struct s3_call *call, lake_status *status, struct lake_error *err);
/* The next bytes of a queued body, until the next call; none when it is whole. Each call may take
 * as long as an operation; until the first bytes, attempts are repeated. */
lake_status s3_call_read(struct s3_call *call, struct lake_bytes *out, struct lake_error *err);
lake_status s3_call_run(struct s3_call *call, struct lake_error *err);
/* Ends a started call that is not finished; NULL transfer is allowed. */
void s3_call_drop(struct s3_call *call);
void s3_call_fini(struct s3_call *call);
/* Points the request at the URL and the header lines, one after the other in `text`. */
void s3_call_point_at_text(struct s3_call *call, size_t url_end);

/* The verdict on a finished attempt, with the error it would be. Learns clock and region. */
enum s3_verdict s3_judge(struct s3_call *call, enum http_failure failure, struct lake_error *err);

/* s3_url.c: instead of signing. The URL and the call's headers, as request and text hold them. */
lake_status s3_url_request(struct s3_call *call, struct lake_error *err);
/* The address of an object without its query. Appends to `out`. */
lake_status s3_append_url(const struct s3_store *store, struct lake_str key,
                          struct base_buffer *out, struct lake_error *err);
void s3_region(struct s3_store *store, char out[S3_REGION_BYTES]);

void s3_store_free(void *store);

/* Fields of replies. */
bool s3_reply_u64(const struct http_reply *reply, const char *name, uint64_t *out);
/* Takes the ETag into `out`; empty when there is none or it is too long. */
void s3_reply_etag(const struct http_reply *reply, char out[S3_ETAG_BYTES]);

/* s3_read.c, s3_list.c, s3_multipart.c: the methods. */
lake_status s3_stat(void *context, struct lake_str key, struct storage_object_info *out,
                    struct lake_error *err);
lake_status s3_put(void *context, struct lake_str key, struct lake_bytes data, bool only_if_absent,
                   struct lake_error *err);
lake_status s3_read_range(void *context, struct lake_str key, const char *version, uint64_t offset,
                          size_t size_bytes, uint8_t *out, struct lake_error *err);
lake_status s3_read_all(void *context, struct lake_str key, struct base_buffer *out,
                        struct lake_error *err);
lake_status s3_list(void *context, struct lake_str prefix, struct lake_str start_after,
                    size_t limit, struct storage_list_page *out, struct lake_error *err);
extern const struct storage_multipart_methods s3_multipart_methods;
lake_status s3_writer_open(void *context, struct lake_str key, bool only_if_absent, void **writer,
                           struct lake_error *err);
lake_status s3_writer_write(void *writer, struct lake_bytes data, struct lake_error *err);
lake_status s3_writer_commit(void *writer, struct lake_error *err);
void s3_writer_abort(void *writer);

/* One range, between starting its call and s3_range_finish. Stays where it is; its call is released
 * by s3_call_fini. */
struct s3_range {
    struct s3_call call;
    struct s3_store *store;
    struct lake_str key;
    uint64_t offset;
    uint64_t size;
    uint8_t *out; /* NULL: the call's queue has the bytes */
    uint64_t done;
    uint64_t resumed_at;      /* of which this attempt did not ask for */
    char etag[S3_ETAG_BYTES]; /* of the object that is being read; empty: any so far */
    char range[64];
    lake_status refused; /* why `accept` said no */
};
void s3_range_init(struct s3_range *range, struct s3_store *store, struct lake_str key,
                   const char *version, uint64_t offset, uint64_t size_bytes, uint8_t *out);
/* What a failed call says of a range. */
lake_status s3_range_failure(const struct s3_range *range, lake_status status,
                             struct lake_error *err);
/* Waits until at least the first `bytes` are there, of a version that is known from the start: what
 * is there stays, whatever fails behind it. How many are there; all of them only when the call has
 * ended well. */
lake_status s3_range_await(struct s3_range *range, uint64_t bytes, uint64_t *arrived,
                           struct lake_error *err);
lake_status s3_range_finish(struct s3_range *range, struct lake_error *err);
extern const struct storage_stream_methods s3_stream_methods;
extern const struct storage_stream_methods s3_range_stream_methods;
extern const struct storage_fetch_methods s3_fetch_methods;

/* The parsers of replies on any bytes, for tests/fuzz. */
void s3_list_fuzz(struct lake_bytes document);
void s3_multipart_fuzz(struct lake_bytes document);

/* After a conditional write whose outcome is not clear: whether the object carries `write_id`. */
lake_status s3_settle(struct s3_store *store, struct lake_str key, const char *write_id,
                      struct lake_error *err);

#endif
