/*
 * liblake: the client library of Lake.
 *
 * A client talks only to a Query server (Flight SQL over gRPC); object bytes, such as videos, point
 * clouds and weights, go straight between this library and object storage, hashed on the way.
 *
 * Conventions
 *  - Every function that can fail returns lake_status and takes a `struct lake_error *` last (NULL
 *    is allowed). Out-parameters come back untouched on failure.
 *  - Strings are UTF-8, NUL-terminated, and copied by the library unless stated otherwise.
 *  - Tables, rows and results are Arrow arrays in the Arrow C data interface; the structs are
 *    defined below, and any Arrow library can produce or consume them.
 *  - Options structs start with a version; initialise them with their _INIT macro.
 *  - A client and its references are thread-safe. Readers and result streams belong to one thread
 *    at a time.
 *
 * Errors that any call to the server can give: UNAVAILABLE (no server there; nothing was done),
 * UNAUTHENTICATED, PERMISSION_DENIED, RESOURCE_EXHAUSTED (the server is busy: try later),
 * DEADLINE_EXCEEDED, and LAKE_OUTCOME_UNKNOWN for an append whose answer was lost: retry it with
 * the same operation ID, which cannot add the rows twice.
 */
#ifndef LAKE_LAKE_H
#define LAKE_LAKE_H

#include <lake/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the Arrow C data and stream interfaces (layout fixed by Arrow's specification) ---- */

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE           2
#define ARROW_FLAG_MAP_KEYS_SORTED    4

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};
#endif

/* ---- connecting ---- */

typedef struct lake_client lake_client;

struct lake_connect_options {
    uint32_t version;             /* 1 */
    bool tls;                     /* encrypt; implied by ca_pem and server_name */
    const char *bearer_token;     /* NULL: anonymous, which only a server on loopback accepts */
    const char *ca_pem;           /* certificate authorities in PEM; NULL: the system's */
    const char *server_name;      /* name to expect in the certificate; NULL: the address's host */
    int64_t timeout_ms;           /* of one request that is not a stream; 0: 30,000 */
    uint32_t schema_cache_tables; /* 0: 1,024; at most 65,536 */
    uint32_t schema_cache_ttl_ms; /* 0: 60,000; at most 3,600,000 */
    uint32_t upload_parts_in_flight; /* of 64 MiB each, into S3; 0: 4; at most 16 */
    /* Where unfinished work is written down, without credentials. Uploads of paths into S3, so that
     * the next upload of the same file goes on with them (OBJ-4); appends, before the first byte of
     * them is sent, so that lake_resume_pending_append commits them after a crash (SDK-5). NULL: a
     * failed upload is removed, an append lives in memory only. */
    const char *upload_checkpoint_dir;
};
#define LAKE_CONNECT_OPTIONS_INIT \
    {                             \
        .version = 1              \
    }

/*
 * Makes a client for the Query server at `address` ("host:port"). Asks the server once for the
 * caller's stage, so it fails at once when nobody is there.
 *
 * `out` receives one reference, given back with lake_client_unref.
 */
lake_status lake_connect(const char *address, const struct lake_connect_options *options,
                         lake_client **out, struct lake_error *err);

/* The same, but the client never touches object storage: no insert of files, no open (SDK-1). */
lake_status lake_connect_query_only(const char *address, const struct lake_connect_options *options,
                                    lake_client **out, struct lake_error *err);

#define LAKE_OBJECT_VERSION_BYTES 128

struct lake_object_info {
    uint64_t size_bytes;
    /* Says which bytes these are, such as S3's ETag; empty when the store cannot tell. */
    char version[LAKE_OBJECT_VERSION_BYTES];
};

/*
 * A store of the caller's own, by which a client reaches the stage: through a proxy, with keys of
 * its own, in an emulator, or with faults for a test. Keys are relative to the caller's stage and
 * have at most 1,024 bytes. Every function may be called from several threads, but of one writer
 * one at a time. A failure is any status but LAKE_OK; `err`, never NULL, may be filled with its
 * code and a message, else the library says what was tried.
 */
struct lake_store_methods {
    uint32_t version; /* 1 */
    /* NOT_FOUND when there is no such object. */
    lake_status (*stat)(void *context, const char *key, struct lake_object_info *out,
                        struct lake_error *err);
    /* Exactly `size_bytes` from `offset` into `out`: OUT_OF_RANGE when the object is shorter,
     * FAILED_PRECONDITION when `object_version` is not empty and no longer that of the object. */
    lake_status (*read_range)(void *context, const char *key, const char *object_version,
                              uint64_t offset, size_t size_bytes, uint8_t *out,
                              struct lake_error *err);
    /* A writer shows nothing before its commit, which is durable, and ALREADY_EXISTS when
     * `only_if_absent` and the key is taken. Commit and abort each end it, whatever they return. */
    lake_status (*writer_open)(void *context, const char *key, bool only_if_absent, void **writer,
                               struct lake_error *err);
    lake_status (*writer_write)(void *writer, const uint8_t *data, size_t size_bytes,
                                struct lake_error *err);
    lake_status (*writer_commit)(void *writer, struct lake_error *err);
    void (*writer_abort)(void *writer);
    /* NOT_FOUND is taken for success. */
    lake_status (*remove)(void *context, const char *key, struct lake_error *err);
    void (*free)(void *context); /* NULL: nothing to free */
};
#define LAKE_STORE_METHODS_INIT \
    {                           \
        .version = 1            \
    }

/*
 * Like lake_connect, but objects go to and come from `store` (copied) with its `context`, which is
 * the client's once this returns LAKE_OK: freed with the last reference, else still the caller's.
 * Objects are written front to back, so uploads do not go on where they stopped; there are no
 * presigned URLs (UNIMPLEMENTED). Query reads the same stage by its own means (SDK-1).
 */
lake_status lake_connect_with_store(const char *address, const struct lake_connect_options *options,
                                    const struct lake_store_methods *store, void *context,
                                    lake_client **out, struct lake_error *err);

/* Another reference to the same client, with the same connections and caches. Thread-safe. */
lake_client *lake_client_ref(lake_client *client);
/* Gives a reference back; the last one closes the connections. NULL is allowed. */
void lake_client_unref(lake_client *client);

/* ---- tables ---- */

/*
 * Initialises `out` as the schema of a FILE column named `name`: put it among the children of a
 * table's schema. The caller releases it as any ArrowSchema.
 */
lake_status lake_file_schema_init(struct ArrowSchema *out, const char *name, bool nullable,
                                  struct lake_error *err);

/*
 * Initialises `out` as the struct schema of "name:type" columns, as on the command line, such as
 * {"id:int64!", "state:float[7]", "video:FILE"}. INVALID_ARGUMENT names the wrong one.
 */
lake_status lake_schema_parse(const char *const *columns, size_t column_count,
                              struct ArrowSchema *out, struct lake_error *err);

/*
 * Creates the table `table` ("namespace.table") with the columns of `schema`, a struct schema,
 * which stays the caller's; views of text and bytes become such. ALREADY_EXISTS when there is one,
 * INVALID_ARGUMENT for a name or type that Lake does not take.
 */
lake_status lake_create_table(lake_client *client, const char *table,
                              const struct ArrowSchema *schema, struct lake_error *err);

/* NOT_FOUND when there is no such table. Versions already pinned by running statements stay. */
lake_status lake_drop_table(lake_client *client, const char *table, struct lake_error *err);

struct lake_compaction {
    uint64_t version; /* the newest there was, when there was nothing to do */
    uint64_t fragments_removed;
    uint64_t fragments_added;
    uint64_t rows_rewritten;
    uint64_t rows_dropped; /* from disk: they had been deleted */
};

/*
 * Puts the small fragments of a table together, which many small appends leave, and takes deleted
 * rows off the disk: one new version with the same rows. Appends go on meanwhile.
 * It may take longer than the timeout of the connection: `timeout_ms` is its own. When the time is
 * over the server may go on, and calling it again does no harm.
 */
lake_status lake_compact_table(lake_client *client, const char *table, int64_t timeout_ms,
                               struct lake_compaction *out, struct lake_error *err);

#define LAKE_OPERATION_ID_BYTES 37 /* a UUID as text */

struct lake_cleanup_options {
    uint64_t older_than_ms;   /* versions younger than this stay */
    uint64_t retain_versions; /* and so many of the newest; the server may keep more */
    bool dry_run;             /* says what would go */
    const char *operation_id; /* a UUIDv7 by which the servers' logs name it; NULL: a new one */
};
/* 14 days. */
void lake_cleanup_options_init(struct lake_cleanup_options *options);

struct lake_cleanup {
    uint64_t versions_kept;
    uint64_t versions_removed;
    uint64_t files_removed;           /* besides the manifests of the versions */
    uint64_t abandoned_files_removed; /* of these: writers that died left them */
    uint64_t files_in_grace;          /* nobody refers to them, but a writer may be about to */
    uint64_t bytes_removed;
    char operation_id[LAKE_OPERATION_ID_BYTES];
};

/*
 * Removes old versions of a table and what only they needed. The newest ones stay
 * (LAKE_LANCE_RETAIN_VERSIONS of the server at least), those that tags and branches hold, and what
 * these refer to. A statement that still reads a version which goes fails; it never reads another.
 * Calling it again does no harm; `timeout_ms` as for lake_compact_table. `options` NULL: defaults.
 */
lake_status lake_cleanup_table(lake_client *client, const char *table,
                               const struct lake_cleanup_options *options, int64_t timeout_ms,
                               struct lake_cleanup *out, struct lake_error *err);

struct lake_table_info {
    char *table;       /* "namespace.table" */
    char *location;    /* where its Lance dataset is, as a URI */
    char *incarnation; /* changes when a table is dropped and created again */
    uint64_t version;  /* newest */
    struct ArrowSchema schema;
};
/* NOT_FOUND when there is no such table. `out` is released with lake_table_info_fini. */
lake_status lake_describe_table(lake_client *client, const char *table, struct lake_table_info *out,
                                struct lake_error *err);
void lake_table_info_fini(struct lake_table_info *info);

struct lake_table_list {
    char **tables; /* "namespace.table", ascending */
    size_t count;
};
/* The tables of `namespace_name`, or of all granted ones for NULL. Release with _fini. */
lake_status lake_list_tables(lake_client *client, const char *namespace_name,
                             struct lake_table_list *out, struct lake_error *err);
void lake_table_list_fini(struct lake_table_list *list);

/* Forgets the cached schema of one table, or of all (SDK-2). */
void lake_schema_cache_invalidate(lake_client *client, const char *table);
void lake_schema_cache_clear(lake_client *client);

/* ---- objects ---- */

/* What a FILE value says of its object (NAT-3). */
struct lake_data_location {
    char *uri;
    char *media_type;
    int64_t size_bytes;
    char sha256_hex[65];
};
void lake_data_location_fini(struct lake_data_location *location);

/*
 * A source of bytes that are read once, front to back. `read` fills up to `size` bytes, sets *got
 * (0: the end) and returns 0, or an errno value.
 */
struct lake_source {
    int (*read)(void *context, void *buffer, size_t size, size_t *got);
    void *context;
};

/* Told now and then, from the thread that called, how far a transfer is; total -1: not known.
 * Returning false cancels the transfer (LAKE_CANCELLED). */
typedef bool (*lake_progress)(void *context, int64_t done_bytes, int64_t total_bytes);

/*
 * Stores a file in the caller's stage, hashing it while it is copied; constant memory. On success
 * the object is durable and `out` (release with lake_data_location_fini) says where it is; no table
 * refers to it yet. NOT_FOUND: no such file. ABORTED: the file changed or vanished while it was
 * read. RESOURCE_EXHAUSTED: the disk is full. Nothing is left behind on failure.
 */
lake_status lake_upload_path(lake_client *client, const char *path, const char *media_type,
                             lake_progress progress, void *progress_context,
                             struct lake_data_location *out, struct lake_error *err);
/*
 * Gives up an upload of `path` that a process left unfinished: removes its parts and its
 * checkpoint, also when the file has changed or gone. NOT_FOUND: there is none.
 * FAILED_PRECONDITION: it is going on just now. DATA_LOSS: the checkpoint, which is removed, did
 * not say any more which parts were its own.
 */
lake_status lake_cancel_upload(lake_client *client, const char *path, struct lake_error *err);
lake_status lake_upload_source(lake_client *client, struct lake_source source,
                               const char *media_type, lake_progress progress,
                               void *progress_context, struct lake_data_location *out,
                               struct lake_error *err);

typedef struct lake_reader lake_reader;

/*
 * Opens the whole object. Its bytes are hashed while they are read, and the end of the stream is
 * reported only when size and SHA-256 are those of `location` (OBJ-5). INVALID_ARGUMENT for a
 * malformed location, PERMISSION_DENIED for one outside the caller's stage, NOT_FOUND.
 */
lake_status lake_open(lake_client *client, const struct lake_data_location *location,
                      lake_reader **out, struct lake_error *err);
/*
 * Opens the bytes [start, end). OUT_OF_RANGE when the range is empty, reversed or past the size. A
 * range's bytes are exact in number (OBJ-6). They are compared with the digests of the object's
 * chunks, 64 KiB each, when the upload recorded them and reading them costs at most as much as the
 * range itself or 128 KiB; lake_reader_is_verified says whether. DATA_LOSS when they, or the
 * record, are not what was stored.
 */
lake_status lake_open_range(lake_client *client, const struct lake_data_location *location,
                            int64_t start, int64_t end, lake_reader **out, struct lake_error *err);
/*
 * Reads up to `size` bytes, at least one; *got 0 with LAKE_OK is the verified end. DATA_LOSS: the
 * object is shorter, longer or other than its location says; do not use what was read before.
 */
lake_status lake_reader_read(lake_reader *reader, void *buffer, size_t size, size_t *got,
                             struct lake_error *err);
/* Whether what is read is compared with digests: all of lake_open, a range when it can be. */
bool lake_reader_is_verified(const lake_reader *reader);
void lake_reader_free(lake_reader *reader); /* NULL is allowed */

/*
 * An object to be read here and there, as video decoders do. Keeps up to 16 MiB of what was read,
 * and reads ahead while reads follow each other; few bytes are fetched beyond those asked for. All
 * bytes are of one object: DATA_LOSS when it was replaced. A read that failed may be tried again.
 * Opening reads the digests of its chunks if there are any: 1/2,048 of the object, at most 4 MiB.
 */
typedef struct lake_seekable lake_seekable;

/* Errors as of lake_open. */
lake_status lake_open_seekable(lake_client *client, const struct lake_data_location *location,
                               lake_seekable **out, struct lake_error *err);
/*
 * Reads `size` bytes from `offset`, fewer only where the object ends: *got is 0 at and past its
 * end. Neither uses nor moves the position. OUT_OF_RANGE for a negative offset.
 */
lake_status lake_seekable_read_at(lake_seekable *seekable, int64_t offset, void *buffer,
                                  size_t size, size_t *got, struct lake_error *err);
/* The same from the position, which moves by *got. */
lake_status lake_seekable_read(lake_seekable *seekable, void *buffer, size_t size, size_t *got,
                               struct lake_error *err);
/* `offset` counts from the start and may lie past the end; OUT_OF_RANGE for a negative one. */
lake_status lake_seekable_seek(lake_seekable *seekable, int64_t offset, struct lake_error *err);
int64_t lake_seekable_tell(const lake_seekable *seekable);
int64_t lake_seekable_size(const lake_seekable *seekable);
/* Whether what is read is compared with digests of the object's chunks; else it is right in length
 * and makes no claim (OBJ-6). */
bool lake_seekable_is_verified(const lake_seekable *seekable);
void lake_seekable_free(lake_seekable *seekable); /* NULL is allowed */

/*
 * Reads the whole object into `path`. The file appears under that name only when it is complete,
 * verified and durable; an existing file is replaced, also behind a symbolic link, but nothing that
 * is no regular file (INVALID_ARGUMENT). Until then the bytes are in `<path>.part-<16 digits>` (a
 * long name is cut): it stays when the process is killed, the download cancelled or the
 * service gone, and the next download of the same object to this path hashes it again and fetches
 * only the rest. A partial file of another object is removed. FAILED_PRECONDITION: another process
 * is at it.
 */
lake_status lake_download(lake_client *client, const struct lake_data_location *location,
                          const char *path, lake_progress progress, void *progress_context,
                          struct lake_error *err);

struct lake_presigned {
    char *url; /* a secret: whoever has it reads the object until it ends; no headers are needed */
    int64_t expires_unix_ms; /* not after the credentials that signed it */
};
/*
 * A URL by which anybody reads this one object, with or without a Range, for 1 to 3,600 seconds
 * (OBJ-7). Asks nobody: whether the object is there shows when the URL is used. PERMISSION_DENIED
 * for an object outside the caller's stage, UNIMPLEMENTED for a stage on a local disk. Release with
 * lake_presigned_fini, which wipes the URL.
 */
lake_status lake_presign_read(lake_client *client, const struct lake_data_location *location,
                              uint32_t expires_s, struct lake_presigned *out,
                              struct lake_error *err);
void lake_presigned_fini(struct lake_presigned *presigned);

/*
 * For clients without cloud credentials, such as those of lake_connect_query_only (OBJ-8): Query
 * signs a URL for one object of the caller's stage, which must be in S3, and the bytes come from
 * object storage by it. UNIMPLEMENTED for a stage on a local disk, PERMISSION_DENIED for an object
 * outside the caller's stage. Redirects of object storage are not followed: UNIMPLEMENTED, too.
 *
 * Readers are as those of lake_open and lake_open_range, but wait for the first bytes, and a range
 * is not compared with digests. The URL lives an hour at most: a read must have asked for its last
 * bytes by then.
 */
lake_status lake_open_via_query(lake_client *client, const struct lake_data_location *location,
                                lake_reader **out, struct lake_error *err);
lake_status lake_open_range_via_query(lake_client *client,
                                      const struct lake_data_location *location, int64_t start,
                                      int64_t end, lake_reader **out, struct lake_error *err);
/* As lake_open_seekable, verified in the same way; the URL is signed anew before it ends. That it
 * is still the same object shows by its size, and by the digests where there are any. */
lake_status lake_open_seekable_via_query(lake_client *client,
                                         const struct lake_data_location *location,
                                         lake_seekable **out, struct lake_error *err);
/* As lake_download. */
lake_status lake_download_via_query(lake_client *client, const struct lake_data_location *location,
                                    const char *path, lake_progress progress,
                                    void *progress_context, struct lake_error *err);
/* As lake_presign_read, signed by Query: the URL ends with its credentials. */
lake_status lake_presign_read_via_query(lake_client *client,
                                        const struct lake_data_location *location,
                                        uint32_t expires_s, struct lake_presigned *out,
                                        struct lake_error *err);

/* ---- adding rows ---- */

enum lake_value_kind {
    LAKE_VALUE_NULL,
    LAKE_VALUE_BOOL,
    LAKE_VALUE_INT64,
    LAKE_VALUE_DOUBLE,
    LAKE_VALUE_TEXT,
    LAKE_VALUE_BYTES,
    LAKE_VALUE_FLOAT_LIST,  /* for list and fixed-size list columns of float or double */
    LAKE_VALUE_FILE_PATH,   /* upload this file */
    LAKE_VALUE_FILE_SOURCE, /* upload what this source yields */
    LAKE_VALUE_LOCATION     /* an object that was uploaded before */
};

/* One value; everything it points to is borrowed during the call. Integers go to any integer, date,
 * time, timestamp and duration column they fit in (in the column's own unit, a time of day within
 * its day), doubles to any float column in which they stay finite, texts to utf8 columns, bytes to
 * binary ones, lists to list columns of floats. Columns of other types (decimals, structs,
 * dictionaries, other lists) take nulls here, and values by lake_append_batches. */
struct lake_value {
    enum lake_value_kind kind;
    union {
        bool boolean;
        int64_t int64;
        double float64;
        struct {
            const char *data;
            size_t size;
        } text;
        struct {
            const uint8_t *data;
            size_t size;
        } bytes;
        struct {
            const double *data;
            size_t count;
        } floats;
        struct {
            const char *path;
            const char *media_type; /* NULL: application/octet-stream */
            lake_progress progress; /* of this file's upload; may be NULL */
            void *progress_context;
        } file_path;
        struct {
            struct lake_source source;
            const char *media_type;
            lake_progress progress;
            void *progress_context;
        } file_source;
        const struct lake_data_location *location;
    } as;
};

struct lake_insert_result {
    uint64_t version; /* of the table, the one that holds the rows */
    uint64_t row_count;
    bool replayed; /* the operation ID had been committed before; nothing was added now */
    char operation_id[LAKE_OPERATION_ID_BYTES];
    struct lake_data_location *locations; /* of the uploaded files, row by row, left to right */
    size_t location_count;
};
#define LAKE_INSERT_RESULT_INIT \
    {                           \
        0                       \
    }
void lake_insert_result_fini(struct lake_insert_result *result);

/*
 * Adds one row, or `row_count` rows (1..=10,000), by a statement of the form
 * `INSERT INTO ns.t (a, b) VALUES (?, ?)`. `values` holds row after row, as many as the statement
 * has columns. Columns left out become null. Every row is checked before the first upload; then the
 * files are uploaded and all rows become one batch and one version (SDK-3). `result` may be NULL.
 *
 * INVALID_ARGUMENT: the statement, the number of values, or a value that does not fit its column
 * (row and column are named). RESOURCE_EXHAUSTED: the rows take more than 64 MiB encoded, or the
 * texts, bytes, lists, paths and locations given more than 16 MiB, or the locations of the uploaded
 * files more than 16 MiB.
 *
 * On LAKE_OUTCOME_UNKNOWN, after some attempts, `result` has the operation ID and the locations of
 * what was uploaded, version 0, and is released as on success.
 */
lake_status lake_insert(lake_client *client, const char *sql, const struct lake_value *values,
                        size_t value_count, struct lake_insert_result *result,
                        struct lake_error *err);
lake_status lake_insert_many(lake_client *client, const char *sql, const struct lake_value *values,
                             size_t row_count, size_t values_per_row,
                             struct lake_insert_result *result, struct lake_error *err);

/*
 * Adds Arrow batches, exactly of the table's schema but that text and bytes may be views, as one
 * version: 1..=10,000 rows in all, every batch non-empty, at most 64 MiB of what the rows refer to
 * and 64 MiB encoded, at most 16 dictionaries in the schema (SDK-4). `batches` stay the caller's,
 * and may be slices of larger ones. `operation_id` (a UUIDv7, or NULL for a fresh one) makes the
 * append idempotent: the same ID with the same rows gives the first version, with others
 * ALREADY_EXISTS. LAKE_OUTCOME_UNKNOWN fills `result` as lake_insert does.
 */
lake_status lake_append_batches(lake_client *client, const char *table,
                                const struct ArrowSchema *schema,
                                const struct ArrowArray *const *batches, size_t batch_count,
                                const char *operation_id, struct lake_insert_result *result,
                                struct lake_error *err);

/*
 * Durable appends (SDK-5). A client with a checkpoint directory writes every append, those of
 * lake_insert too, into a file of its own before it sends it: operation ID, table, encoded rows,
 * a checksum. Success or a rejection by the server removes the file. Everything else keeps it and
 * is LAKE_OUTCOME_UNKNOWN, also when no server was reached: the rows are pending, and resuming them
 * adds them once, however often they were sent. So is an append whose file is complete but could
 * not be made certain to outlive a crash of the machine; nothing was sent of that one.
 *
 * All three need a client with a checkpoint directory: FAILED_PRECONDITION without.
 */
#define LAKE_MAX_PENDING_APPENDS 1024
struct lake_pending_appends {
    char (*operation_ids)[LAKE_OPERATION_ID_BYTES]; /* oldest first */
    size_t count;
};
/* The oldest pending appends, at most LAKE_MAX_PENDING_APPENDS; those that are being sent just now
 * are among them. Release with lake_pending_appends_fini. */
lake_status lake_pending_append_ids(lake_client *client, struct lake_pending_appends *out,
                                    struct lake_error *err);
void lake_pending_appends_fini(struct lake_pending_appends *pending);
/*
 * Sends exactly this pending append and fills `result` (may be NULL) as lake_append_batches does;
 * there are no locations. What the server refuses for good (other rows under the same ID, a table
 * that has changed or was dropped, an ID that has expired) is removed; it is never added to another
 * table of the same name (FAILED_PRECONDITION). Other errors keep it. NOT_FOUND: none of
 * this ID. FAILED_PRECONDITION: it is being sent just now, or it belongs to another lake or tenant.
 * DATA_LOSS: its file is damaged.
 */
lake_status lake_resume_pending_append(lake_client *client, const char *operation_id,
                                       struct lake_insert_result *result, struct lake_error *err);
/* Forgets a pending append, also a damaged one; its rows may have been committed nevertheless.
 * NOT_FOUND, and FAILED_PRECONDITION while it is being sent. */
lake_status lake_drop_pending_append(lake_client *client, const char *operation_id,
                                     struct lake_error *err);

/* ---- changing rows ---- */

struct lake_assignment {
    const char *column;
    const char *expression; /* SQL over the row's columns, cast to the column's type */
};
struct lake_change_result {
    uint64_t version; /* of the table, the one with the change; the newest when no row passed */
    uint64_t row_count;
    bool replayed; /* the operation ID had been committed before; nothing was changed now */
    char operation_id[LAKE_OPERATION_ID_BYTES];
};

/*
 * Deletes the rows of `table` ("namespace.table") for which the SQL predicate `predicate` holds
 * ("true": all), as one version; older versions keep them. The predicate sees the newest version,
 * and may read other tables in subqueries; when others change some of the rows at the same time it
 * is evaluated anew. Rows appended meanwhile stay. `operation_id` (a UUIDv7, or NULL for a fresh
 * one) makes the change happen once; `result` may be NULL.
 *
 * INVALID_ARGUMENT: the engine's message for a wrong predicate. RESOURCE_EXHAUSTED: more than
 * 60 MiB of addresses (8 bytes a row) and values at once. ABORTED: others changed the rows again
 * and again. After OUTCOME_UNKNOWN, UNAVAILABLE and DEADLINE_EXCEEDED `result` holds the operation
 * ID: ask again with it.
 */
lake_status lake_delete_rows(lake_client *client, const char *table, const char *predicate,
                             const char *operation_id, struct lake_change_result *result,
                             struct lake_error *err);
/* The same for new values of columns; expressions see the row as it was. INVALID_ARGUMENT also for
 * a null in a column that takes none and for a FILE outside the caller's stage. */
lake_status lake_update_rows(lake_client *client, const char *table,
                             const struct lake_assignment *assignments, size_t assignment_count,
                             const char *predicate, const char *operation_id,
                             struct lake_change_result *result, struct lake_error *err);

/* ---- versions ---- */

/*
 * Makes `version` of a table, its columns and its rows, the newest again: as one new version, so
 * that what came between stays. `operation_id` and `result` (with the rows that the table has then)
 * as for lake_delete_rows. NOT_FOUND: there is no such version (any more).
 */
lake_status lake_restore_table(lake_client *client, const char *table, uint64_t version,
                               const char *operation_id, struct lake_change_result *result,
                               struct lake_error *err);

struct lake_tag {
    char *name;
    char *branch; /* "": main */
    uint64_t version;
};
struct lake_tag_list {
    struct lake_tag *tags; /* by name */
    size_t count;
};
/*
 * Names `version` (0: the newest) of a table; a version with a tag stays when others are cleaned
 * up. Tags consist of letters, digits and . - _. `tagged` (may be NULL) receives the version.
 * ALREADY_EXISTS when there is such a tag, NOT_FOUND when there is no such version.
 */
lake_status lake_create_tag(lake_client *client, const char *table, const char *tag,
                            uint64_t version, uint64_t *tagged, struct lake_error *err);
/* NOT_FOUND when there is no such tag. */
lake_status lake_delete_tag(lake_client *client, const char *table, const char *tag,
                            struct lake_error *err);
/* Release with lake_tag_list_fini. */
lake_status lake_list_tags(lake_client *client, const char *table, struct lake_tag_list *out,
                           struct lake_error *err);
void lake_tag_list_fini(struct lake_tag_list *list);

struct lake_branch {
    char *name;
    char *parent; /* "": main */
    uint64_t parent_version;
    int64_t created_unix_ms;
};
struct lake_branch_list {
    struct lake_branch *branches; /* by name */
    size_t count;
};
/*
 * Begins a branch of a table as `version` (0: the newest) of `parent` (NULL: main); no data is
 * copied. It is a Lance dataset below the table's directory. Names are those of tags, and several
 * with / between them; not main. `branched` (may be NULL) receives the version. ALREADY_EXISTS when
 * there is such a branch, NOT_FOUND when there is no such parent or version.
 */
lake_status lake_create_branch(lake_client *client, const char *table, const char *branch,
                               const char *parent, uint64_t version, uint64_t *branched,
                               struct lake_error *err);
/* With its versions and files. NOT_FOUND when there is no such branch, FAILED_PRECONDITION while a
 * tag or another branch needs it. */
lake_status lake_delete_branch(lake_client *client, const char *table, const char *branch,
                               struct lake_error *err);
/* Release with lake_branch_list_fini. */
lake_status lake_list_branches(lake_client *client, const char *table, struct lake_branch_list *out,
                               struct lake_error *err);
void lake_branch_list_fini(struct lake_branch_list *list);

#define LAKE_OPERATION_NAME_BYTES 32
struct lake_version_info {
    uint64_t version;
    int64_t timestamp_unix_ms;
    char operation[LAKE_OPERATION_NAME_BYTES]; /* as Lance names it: "append", "rewrite"… */
    uint64_t row_count;
    uint64_t fragment_count;
    char operation_id[LAKE_OPERATION_ID_BYTES]; /* "": none */
};
struct lake_history {
    struct lake_version_info *versions; /* newest first */
    size_t count;
    uint64_t next_before; /* where the next page begins; 0: there are no more */
};
/* One page of at most `limit` (1 to 256) versions below `before` (0: from the newest). Versions
 * that were cleaned up are left out. Release with lake_history_fini. */
lake_status lake_table_history(lake_client *client, const char *table, uint64_t before,
                               uint32_t limit, struct lake_history *out, struct lake_error *err);
void lake_history_fini(struct lake_history *history);

struct lake_column_names {
    char **names;
    size_t count;
};
struct lake_version_diff {
    uint64_t rows_added;
    uint64_t rows_removed;
    uint64_t rows_rewritten; /* of both versions, where columns were written anew */
    uint64_t fragments_added;
    uint64_t fragments_removed;
    uint64_t fragments_changed;
    struct lake_column_names columns_added;
    struct lake_column_names columns_removed;
    struct lake_column_names columns_changed; /* other types, or nulls allowed or not */
};
/* What makes `to` differ from `from`, told from fragments and deletion vectors: rows that an update
 * or a compaction wrote elsewhere count as removed and added. Release with lake_version_diff_fini.
 */
lake_status lake_diff_versions(lake_client *client, const char *table, uint64_t from, uint64_t to,
                               struct lake_version_diff *out, struct lake_error *err);
void lake_version_diff_fini(struct lake_version_diff *diff);

/* ---- queries ---- */

/*
 * Runs one SELECT and gives its rows as a stream of record batches, pulled one by one from the
 * server. Releasing the stream early stops the work. When get_next returns an errno value,
 * get_last_error has the message.
 *
 * INVALID_ARGUMENT: the engine's message for wrong SQL, also for anything but a SELECT.
 * PERMISSION_DENIED: a table that is not there or not yours.
 */
lake_status lake_query(lake_client *client, const char *sql, struct ArrowArrayStream *out,
                       struct lake_error *err);
/* The status of the last failed get_next of a stream made by lake_query, LAKE_OK if none. */
lake_status lake_query_status(const struct ArrowArrayStream *stream);

/*
 * Decodes the FILE value at `row` of column `column` of a batch with its schema (both as lake_query
 * gives them). NOT_FOUND: null. INVALID_ARGUMENT: the column is not a FILE. Release with _fini.
 */
lake_status lake_data_location_get(const struct ArrowSchema *schema, const struct ArrowArray *batch,
                                   size_t column, int64_t row, struct lake_data_location *out,
                                   struct lake_error *err);

/* The library's version, as "0.1.0". */
const char *lake_version(void);

#ifdef __cplusplus
}
#endif

#endif
