/*
 * storage: object stores behind one method table.
 *
 * A key is a relative path of one or more components joined by '/', without empty, "." or ".."
 * components and without NUL, of at most STORAGE_MAX_KEY_BYTES; anything else is
 * INVALID_ARGUMENT. An object is immutable once it is visible: it appears whole, under its name,
 * or not at all.
 *
 * Thread rule: a store is shared freely between threads; a writer belongs to one thread.
 */
#ifndef STORAGE_STORAGE_H
#define STORAGE_STORAGE_H

#include <base/base.h>

#define STORAGE_MAX_KEY_BYTES 1024 /* S3's limit */
#define STORAGE_MAX_LIST      1000
#define STORAGE_VERSION_BYTES 128

struct storage_store;
struct storage_writer;

bool storage_key_valid(struct lake_str key);

struct storage_object_info {
    uint64_t size_bytes;
    int64_t modified_unix_ms;
    /* Says which bytes these are (S3's ETag); empty when the store cannot tell. */
    char version[STORAGE_VERSION_BYTES];
};

struct storage_list_entry {
    char *key; /* relative to the store */
    uint64_t size_bytes;
    int64_t modified_unix_ms;
};

struct storage_list_page {
    struct storage_list_entry *entries; /* ascending by key bytes */
    size_t count;
    bool more; /* ask again with start_after = the last key */
};

struct storage_multipart_methods;
struct storage_fetch_methods;
struct storage_stream_methods;
struct storage_presigned;

/* One implementation each: local directory, S3, and faulty stores in tests. `context` is the
 * implementation's; every function may be called from several threads. */
struct storage_methods {
    lake_status (*stat)(void *context, struct lake_str key, struct storage_object_info *out,
                        struct lake_error *err);
    lake_status (*read_range)(void *context, struct lake_str key, uint64_t offset,
                              size_t size_bytes, uint8_t *out, struct lake_error *err);
    /* May be NULL: read_range does. `version` is not empty. */
    lake_status (*read_range_if)(void *context, struct lake_str key, const char *version,
                                 uint64_t offset, size_t size_bytes, uint8_t *out,
                                 struct lake_error *err);
    /* May be NULL: stat and read_range do. Appends. */
    lake_status (*read_all)(void *context, struct lake_str key, struct base_buffer *out,
                            struct lake_error *err);
    lake_status (*put)(void *context, struct lake_str key, struct lake_bytes data,
                       bool only_if_absent, struct lake_error *err);
    /* May be NULL: put does. */
    lake_status (*put_unsynced)(void *context, struct lake_str key, struct lake_bytes data,
                                struct lake_error *err);
    /* May be NULL: put does. */
    lake_status (*put_typed_if_absent)(void *context, struct lake_str key, struct lake_bytes data,
                                       const char *media_type, struct lake_error *err);
    lake_status (*writer_open)(void *context, struct lake_str key, bool only_if_absent,
                               void **writer, struct lake_error *err);
    lake_status (*writer_write)(void *writer, struct lake_bytes data, struct lake_error *err);
    lake_status (*writer_commit)(void *writer, struct lake_error *err); /* releases the writer */
    void (*writer_abort)(void *writer);                                 /* releases the writer */
    lake_status (*remove)(void *context, struct lake_str key, struct lake_error *err);
    lake_status (*list)(void *context, struct lake_str prefix, struct lake_str start_after,
                        size_t limit, struct storage_list_page *out, struct lake_error *err);
    const struct storage_stream_methods *stream; /* NULL: read_range does */
    /* One request each; NULL: `stream` does. */
    const struct storage_stream_methods *range_stream;
    const struct storage_fetch_methods *fetch; /* NULL: there is nothing to wait for */
    /* NULL: the store has no such thing (UNIMPLEMENTED). */
    const struct storage_multipart_methods *multipart;
    lake_status (*presign_read)(void *context, struct lake_str key, uint32_t expires_s,
                                struct storage_presigned *out, struct lake_error *err);
    void (*free)(void *context);
};

/* Wraps an implementation; the store owns `context` from here on. `uri` is copied: where the store
 * is, as in "file:///data/lake". */
lake_status storage_store_new(const struct storage_methods *methods, void *context, const char *uri,
                              struct storage_store **out, struct lake_error *err);
struct storage_store *storage_store_ref(struct storage_store *store);
void storage_store_unref(struct storage_store *store); /* NULL is allowed */
const char *storage_store_uri(const struct storage_store *store);

/* A directory of this machine, absolute or relative; made (with parents) when `create`. Symbolic
 * links below it are never followed: PERMISSION_DENIED, and listings leave them out. Components
 * that start with ".tmp-" are its own temporary files: refused as keys, left out of listings. */
lake_status storage_local_open(const char *directory, bool create, struct storage_store **out,
                               struct lake_error *err);
/* The store below `prefix` of another; keeps a reference. */
lake_status storage_child_open(struct storage_store *parent, struct lake_str prefix,
                               struct storage_store **out, struct lake_error *err);

/* NOT_FOUND when there is no such object. */
lake_status storage_stat(struct storage_store *store, struct lake_str key,
                         struct storage_object_info *out, struct lake_error *err);
/* Exactly `size_bytes` from `offset` into `out`; OUT_OF_RANGE when the object is shorter. */
lake_status storage_read_range(struct storage_store *store, struct lake_str key, uint64_t offset,
                               size_t size_bytes, uint8_t *out, struct lake_error *err);
/* The same of exactly that version, as storage_stat gave it: FAILED_PRECONDITION when the object
 * was replaced since. An empty `version`, or a store that has none: any. */
lake_status storage_read_range_if(struct storage_store *store, struct lake_str key,
                                  const char *version, uint64_t offset, size_t size_bytes,
                                  uint8_t *out, struct lake_error *err);
/* The whole object appended to `out`; RESOURCE_EXHAUSTED above out->max_bytes, before reading. */
lake_status storage_read_all(struct storage_store *store, struct lake_str key,
                             struct base_buffer *out, struct lake_error *err);
/* Durable when it returns (file and directory synced). OUTCOME_UNKNOWN, here and from the other two
 * that publish: the object is visible, but its directory could not be synced. */
lake_status storage_put(struct storage_store *store, struct lake_str key, struct lake_bytes data,
                        struct lake_error *err);
/* Not durable: a power cut may undo it, or leave the object empty. For what is there for
 * convenience and can be had elsewhere. */
lake_status storage_put_unsynced(struct storage_store *store, struct lake_str key,
                                 struct lake_bytes data, struct lake_error *err);
/* ALREADY_EXISTS when the key is taken; of racing callers, in any process, exactly one wins. */
lake_status storage_put_if_absent(struct storage_store *store, struct lake_str key,
                                  struct lake_bytes data, struct lake_error *err);
/* The same for an object that is also fetched by its URL: S3 says then that it is `media_type`,
 * which may be NULL. */
lake_status storage_put_typed_if_absent(struct storage_store *store, struct lake_str key,
                                        struct lake_bytes data, const char *media_type,
                                        struct lake_error *err);
/* Idempotent: an absent object is success. */
lake_status storage_remove(struct storage_store *store, struct lake_str key,
                           struct lake_error *err);
/* Up to `limit` keys (1..=1000) that start with `prefix` (may be empty; a plain string prefix, so
 * "a/" lists below the directory a), recursively. */
lake_status storage_list(struct storage_store *store, struct lake_str prefix,
                         struct lake_str start_after, size_t limit, struct storage_list_page *out,
                         struct lake_error *err);
void storage_list_page_fini(struct storage_list_page *page);

/* Streams one object of any size in constant memory. Nothing is visible before commit; commit is
 * durable and fails with ALREADY_EXISTS when only_if_absent and the key was taken meanwhile. */
lake_status storage_writer_open(struct storage_store *store, struct lake_str key,
                                bool only_if_absent, struct storage_writer **out,
                                struct lake_error *err);
lake_status storage_writer_write(struct storage_writer *writer, struct lake_bytes data,
                                 struct lake_error *err);
/* Both release the writer. After a failed commit nothing is visible and nothing is left behind,
 * unless the code is OUTCOME_UNKNOWN. */
lake_status storage_writer_commit(struct storage_writer *writer, struct lake_error *err);
void storage_writer_abort(struct storage_writer *writer); /* NULL is allowed */

/* ---- streams: a large part of one object, front to back, with the next ranges on their way ----
 */

struct storage_stream;

#define STORAGE_STREAM_RANGE_BYTES ((size_t)12 * 1024 * 1024) /* of one request */
#define STORAGE_STREAM_WINDOW      4                          /* requests in flight */
#define STORAGE_RANGE_QUEUE_BYTES  ((size_t)4 * 1024 * 1024)  /* between server and reader */

/* The bytes [offset, offset + size_bytes) of that version (empty: of the one that is there; all
 * ranges are of one object in any case, where the store knows versions). Asks for the first ranges
 * at once. Belongs to one thread; takes at most window × range memory. */
lake_status storage_stream_open(struct storage_store *store, struct lake_str key,
                                const char *version, uint64_t offset, uint64_t size_bytes,
                                struct storage_stream **out, struct lake_error *err);
/* The same by one request, whatever its size; what the answer says of itself is checked before the
 * first bytes are given out, and after them nothing is asked for again: UNAVAILABLE when they end
 * early. The server waits while nobody reads. Takes STORAGE_RANGE_QUEUE_BYTES. */
lake_status storage_range_stream_open(struct storage_store *store, struct lake_str key,
                                      const char *version, uint64_t offset, uint64_t size_bytes,
                                      struct storage_stream **out, struct lake_error *err);
/* The next bytes, until the next call, also while their range is still coming; none at the end.
 * Failures as of storage_read_range_if. */
lake_status storage_stream_next(struct storage_stream *stream, struct lake_bytes *out,
                                struct lake_error *err);
void storage_stream_free(struct storage_stream *stream); /* cancels; NULL is allowed */

struct storage_stream_methods {
    lake_status (*open)(void *context, struct lake_str key, const char *version, uint64_t offset,
                        uint64_t size_bytes, void **stream, struct lake_error *err);
    lake_status (*next)(void *stream, struct lake_bytes *out, struct lake_error *err);
    void (*free)(void *stream);
};

/* ---- fetches: ranges on their way while their reader does something else ---- */

struct storage_fetch;

/* Whether the store has them: one whose answers take their time has, a local one has not. */
bool storage_can_fetch(struct storage_store *store);
/* Asks for at least one byte as storage_read_range_if does; `out` is the store's until the fetch
 * was finished or cancelled. UNIMPLEMENTED when the store has no fetches. */
lake_status storage_fetch_start(struct storage_store *store, struct lake_str key,
                                const char *version, uint64_t offset, size_t size_bytes,
                                uint8_t *out, struct storage_fetch **fetch, struct lake_error *err);
/* Waits, and tries again what may be. Releases the fetch. */
lake_status storage_fetch_finish(struct storage_fetch *fetch, struct lake_error *err);
void storage_fetch_cancel(struct storage_fetch *fetch); /* releases it; NULL is allowed */

struct storage_fetch_methods {
    /* `key` stays where it is. */
    lake_status (*start)(void *context, struct lake_str key, const char *version, uint64_t offset,
                         size_t size_bytes, uint8_t *out, void **fetch, struct lake_error *err);
    lake_status (*finish)(void *fetch, struct lake_error *err);
    void (*cancel)(void *fetch);
};

/* ---- multipart uploads: large objects in parts that survive a restart ---- */

#define STORAGE_MULTIPART_MIN_PART_BYTES ((uint64_t)5 * 1024 * 1024) /* of all but the last */
#define STORAGE_MULTIPART_MAX_PARTS      10000
#define STORAGE_MULTIPART_MAX_IN_FLIGHT  16
#define STORAGE_UPLOAD_ID_BYTES          1024

struct storage_part {
    uint32_t number; /* from 1 */
    uint64_t size_bytes;
    char etag[STORAGE_VERSION_BYTES];
    char checksum[16]; /* CRC-32C in base64; empty: none */
};
/* What storage_part.checksum is of these bytes. Not every service lists the checksums of the parts
 * it holds, but some want those of all parts to complete: whoever resumes has the bytes anyway. */
void storage_part_checksum(struct lake_bytes data, char out[16]);
/* The same piece by piece: 0 at first, and the text in the end. */
uint32_t storage_crc32c(uint32_t crc, struct lake_bytes data);
void storage_crc32c_text(uint32_t crc, char out[16]);

/*
 * One upload, used by one thread. Parts are sent side by side: start up to
 * STORAGE_MULTIPART_MAX_IN_FLIGHT, finish them in the order of their starts. The bytes of a part
 * stay where they are until it is finished.
 */
struct storage_multipart;

/* `only_if_absent` is checked again when it completes. `media_type` may be NULL. */
lake_status storage_multipart_create(struct storage_store *store, struct lake_str key,
                                     const char *media_type, bool only_if_absent,
                                     struct storage_multipart **out, struct lake_error *err);
/* Goes on with an upload that `storage_multipart_id` named, in this process or another. Asks
 * nobody; the first call about its parts says NOT_FOUND when it is no more. */
lake_status storage_multipart_reopen(struct storage_store *store, struct lake_str key,
                                     const char *upload_id, bool only_if_absent,
                                     struct storage_multipart **out, struct lake_error *err);
/* Whether the store has multipart uploads at all. */
bool storage_has_multipart(const struct storage_store *store);
const char *storage_multipart_id(const struct storage_multipart *upload);
/* What the store holds, ascending by number, over all pages, without parts of which it lists two
 * that differ; base_free it. */
lake_status storage_multipart_parts(struct storage_multipart *upload, struct storage_part **out,
                                    size_t *count, struct lake_error *err);
lake_status storage_multipart_part_start(struct storage_multipart *upload, uint32_t number,
                                         struct lake_bytes data, struct lake_error *err);
/* The oldest part that was started. FAILED_PRECONDITION when there is none. */
lake_status storage_multipart_part_finish(struct storage_multipart *upload,
                                          struct storage_part *out, struct lake_error *err);
size_t storage_multipart_in_flight(const struct storage_multipart *upload);
/* Makes the object of exactly these parts. `upload` stays to be freed. ALREADY_EXISTS and
 * OUTCOME_UNKNOWN as for a writer's commit. */
lake_status storage_multipart_complete(struct storage_multipart *upload,
                                       const struct storage_part *parts, size_t count,
                                       struct lake_error *err);
/* Cancels what is in flight and removes the parts. Idempotent: an upload that is no more is
 * success. */
lake_status storage_multipart_abort(struct storage_multipart *upload, struct lake_error *err);
/* Cancels what is in flight; the parts that arrived stay for storage_multipart_reopen. NULL is
 * allowed. */
void storage_multipart_free(struct storage_multipart *upload);

/* An unfinished upload, from storage_multipart_list. */
struct storage_upload_entry {
    char *key;
    char *upload_id;
    int64_t started_unix_ms;
};
/* Of all keys that start with `prefix`, over all pages, at most `max_count` (RESOURCE_EXHAUSTED
 * past it). Release with storage_upload_entries_free. */
lake_status storage_multipart_list(struct storage_store *store, struct lake_str prefix,
                                   size_t max_count, struct storage_upload_entry **out,
                                   size_t *count, struct lake_error *err);
void storage_upload_entries_free(struct storage_upload_entry *entries, size_t count);

struct storage_multipart_methods {
    lake_status (*open)(void *context, struct lake_str key, const char *upload_id /* NULL: new */,
                        const char *media_type, bool only_if_absent, void **upload,
                        struct lake_error *err);
    const char *(*id)(const void *upload);
    lake_status (*parts)(void *upload, struct storage_part **out, size_t *count,
                         struct lake_error *err);
    lake_status (*part_start)(void *upload, uint32_t number, struct lake_bytes data,
                              struct lake_error *err);
    lake_status (*part_finish)(void *upload, struct storage_part *out, struct lake_error *err);
    size_t (*in_flight)(const void *upload);
    lake_status (*complete)(void *upload, const struct storage_part *parts, size_t count,
                            struct lake_error *err);
    lake_status (*abort)(void *upload, struct lake_error *err);
    void (*free)(void *upload);
    lake_status (*list)(void *context, struct lake_str prefix, size_t max_count,
                        struct storage_upload_entry **out, size_t *count, struct lake_error *err);
};

/* ---- presigned reads ---- */

/* The URL is a secret: whoever has it reads the object until it ends. */
struct storage_presigned {
    char *url;
    int64_t expires_unix_ms; /* the earlier of what was asked and the credentials' end (O07) */
};

/* For 1 s to 7 days, without a request. UNIMPLEMENTED for a local store. */
lake_status storage_presign_read(struct storage_store *store, struct lake_str key,
                                 uint32_t expires_s, struct storage_presigned *out,
                                 struct lake_error *err);
void storage_presigned_fini(struct storage_presigned *presigned); /* zeroes the URL */

/* The connections for reading by such URLs, without credentials; stores keep it. */
struct storage_url_reader;
lake_status storage_url_reader_new(struct storage_url_reader **out, struct lake_error *err);
void storage_url_reader_unref(struct storage_url_reader *reader); /* NULL is allowed */
/* A store of the one object that `url` reads: `key` of `bucket`, as messages name it. Of its
 * methods only reading works. DATA_LOSS when a reply is not exactly the range that was asked for,
 * of an object of `object_bytes`. Redirects are not followed, and no message holds the URL. */
lake_status storage_url_open(struct storage_url_reader *reader, const char *url,
                             struct lake_str bucket, struct lake_str key, uint64_t object_bytes,
                             struct storage_store **out, struct lake_error *err);

/* ---- S3 ---- */

enum storage_s3_addressing {
    STORAGE_S3_ADDRESS_AUTO, /* virtual hosts at AWS, paths at other endpoints */
    STORAGE_S3_ADDRESS_PATH,
    STORAGE_S3_ADDRESS_VIRTUAL
};

enum storage_s3_payload {
    /* Unsigned under TLS and on loopback, else signed: small bodies at once, large ones in
     * chunks. Every body's CRC-32C is signed in any case. */
    STORAGE_S3_PAYLOAD_AUTO,
    STORAGE_S3_PAYLOAD_UNSIGNED,
    STORAGE_S3_PAYLOAD_SIGNED,
    STORAGE_S3_PAYLOAD_CHUNKED
};

struct storage_s3_options {
    const char *bucket;
    const char *endpoint; /* "http[s]://host[:port]"; NULL: the environment's, else AWS's own */
    const char *region;   /* NULL: the environment's or profile's, else us-east-1 */
    const char *profile;  /* NULL: the default chain */
    const char *ca_file;  /* NULL: AWS_CA_BUNDLE, else the system's */
    /* All NULL: the default chain. Copied. */
    const char *access_key_id, *secret_access_key, *session_token;
    enum storage_s3_addressing addressing;
    enum storage_s3_payload payload;
    bool no_checksums;            /* for servers that refuse x-amz-checksum-crc32c */
    int64_t operation_timeout_ms; /* all attempts; 0: LAKE_S3_OPERATION_TIMEOUT_MS, 10 minutes */
    int64_t connect_timeout_ms;
    int64_t stall_timeout_ms; /* nothing moved so long; 0: LAKE_S3_STALL_TIMEOUT_MS, 20 s */
    int64_t metadata_timeout_ms;
    uint32_t max_attempts;
    int64_t retry_base_ms, retry_cap_ms; /* full jitter below base × 2^attempt, and the cap */
    uint32_t retry_budget;               /* tokens; a retry takes 5, a success gives 1 back */
    uint32_t max_connections;
    uint64_t writer_part_bytes; /* of storage_writer; grows with the object */
};

/* Defaults for everything but the bucket. */
void storage_s3_options_init(struct storage_s3_options *options);
/* A bucket of an S3 service. Opening asks nobody. */
lake_status storage_s3_open(const struct storage_s3_options *options, struct storage_store **out,
                            struct lake_error *err);
/* "s3://bucket/some/prefix" in its parts; false for anything else. The prefix may be empty. */
bool storage_s3_uri_split(struct lake_str uri, struct lake_str *bucket, struct lake_str *prefix);

/* The store at "file:///directory" (made when `create`) or "s3://bucket/prefix"; `options` (may be
 * NULL) say the rest for S3, their bucket does not count. */
lake_status storage_open_uri(struct lake_str uri, bool create,
                             const struct storage_s3_options *options, struct storage_store **out,
                             struct lake_error *err);

/* How others reach the same bucket, without credentials. */
struct storage_s3_place {
    char endpoint[256]; /* empty: AWS's own */
    char region[64];
    bool path_style;
};
/* Of an S3 store or a child of one; false for others. */
bool storage_s3_place(struct storage_store *store, struct storage_s3_place *out);

struct storage_s3_counters {
    uint64_t requests, retries, throttled, sent_bytes, received_bytes; /* bytes of bodies */
};
/* Of an S3 store or a child of one; zeros for others. */
void storage_s3_counters(struct storage_store *store, struct storage_s3_counters *out);
/* Writes below `prefix` to see that this store's put-if-absent really refuses a taken key (L08):
 * FAILED_PRECONDITION when it does not. */
lake_status storage_probe_put_if_absent(struct storage_store *store, struct lake_str prefix,
                                        struct lake_error *err);

/* Removes temporary files that killed processes left in a local store (or a child of one) and that
 * are older than `age_ms`; those a live writer holds stay whatever their age. */
lake_status storage_local_sweep(struct storage_store *store, int64_t age_ms, uint64_t *removed,
                                struct lake_error *err);

/* How many fsync calls this process's local stores have made; tests and `make bench` read it. */
uint64_t storage_fsync_count(void);

#endif
