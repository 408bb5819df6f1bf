/*
 * What the files of liblake share.
 *
 *   connect.c   the client object, its channel, its stage, its actions
 *   tables.c    create, drop, compact, clean up, describe, list
 *   schema_cache.c  schemas of tables, for a while (SDK-2)
 *   statement.c parses `INSERT INTO ns.t (a, b) VALUES (?, ?)`
 *   values.c    checks typed values and turns them into one Arrow batch
 *   insert.c    insert, insert_many: check, upload, append (SDK-3)
 *   batches.c   append_batches: check, append (SDK-4)
 *   append.c    one append: measured, sent, asked for again (L21)
 *   pending.c, pending_file.c, pending_record.c  appends that are written down first (SDK-5)
 *   upload.c    objects into the stage, hashed while they are copied (OBJ-1)
 *   upload_parts.c  in parts, several on their way (OBJ-3)
 *   upload_resume.c, upload_checkpoint.c  going on where another process stopped (OBJ-4)
 *   presign.c   URLs for one object (OBJ-7)
 *   reader.c    objects out of it, verified (OBJ-5, OBJ-6)
 *   via_query.c  the same without credentials, by URLs that Query signs (OBJ-8)
 *   download.c  into files, which go on where another process stopped
 *   seekable.c  objects read here and there (O15)
 *   query.c     results as Arrow streams (SDK-6)
 */
#ifndef CLIENT_INTERNAL_H
#define CLIENT_INTERNAL_H

/* nanoarrow's header, inside arrow.h, defines the same Arrow structs behind the same guards. */
#include <arrow/arrow.h>
#include <flight/flight.h>
#include <lake/lake.h>
#include <storage/storage.h>

#include <lake.pb-c.h>
#include <stdatomic.h>

#define CLIENT_MAX_APPEND_ROWS      10000
#define CLIENT_MAX_APPEND_BYTES     ((uint64_t)64 * 1024 * 1024)
#define CLIENT_MAX_REPLY_BYTES      ((size_t)64 * 1024 * 1024)   /* of an action */
#define CLIENT_MAX_METADATA_BYTES   ((uint64_t)16 * 1024 * 1024) /* given, and returned (SDK-3) */
#define CLIENT_MAX_MESSAGES         170001
#define CLIENT_MAX_DICTIONARY_NODES 16

struct client_schema_cache;

struct lake_client {
    atomic_uint references;
    struct rpc_channel *channel;
    int64_t timeout_ms;
    struct client_schema_cache *schemas;
    char *lake_uri; /* the caller's stage as the server names it: what pending appends belong to */
    char *stage_uri; /* "file:///…/tenants/<tenant>", "s3://…", or NULL for a query-only client */
    char *stage_endpoint, *stage_region; /* of an S3 stage, as the server says; NULL: it does not */
    bool stage_path_style;
    uint32_t upload_parts_in_flight;
    char *upload_checkpoint_dir; /* NULL: failed uploads are removed, appends not written down */
    pthread_mutex_t stage_lock;  /* guards what follows */
    struct storage_store *stage; /* opened at its first use */
    struct storage_url_reader *url_reader; /* of via_query.c: made at its first use */
};

static inline ProtobufCBinaryData client_binary(struct lake_str s)
{
    return (ProtobufCBinaryData){s.size, (uint8_t *)(uintptr_t)s.data};
}

/* ---- connect.c ---- */

lake_status client_action(lake_client *client, const char *type, struct lake_bytes body,
                          struct base_buffer *reply, struct lake_error *err);
/* With a time of its own, for what takes long. */
lake_status client_action_within(lake_client *client, int64_t timeout_ms, const char *type,
                                 struct lake_bytes body, struct base_buffer *reply,
                                 struct lake_error *err);
/* The caller's stage as a store. FAILED_PRECONDITION for a query-only client. Borrowed. */
lake_status client_stage(lake_client *client, struct storage_store **out, struct lake_error *err);

/* ---- caller_store.c ---- */

/* INVALID_ARGUMENT: of another version, or without one of its functions. */
lake_status client_caller_store_check(const struct lake_store_methods *methods,
                                      struct lake_error *err);
/* `context` is the store's on success only. */
lake_status client_caller_store_new(const struct lake_store_methods *methods, void *context,
                                    const char *uri, struct storage_store **out,
                                    struct lake_error *err);

/* ---- ask.c ---- */

/* A protobuf message into an empty buffer. */
lake_status client_pack(const ProtobufCMessage *message, struct base_buffer *out,
                        struct lake_error *err);

/* Runs an action. What comes back is an `answer_type`, the caller's to free; both are NULL for an
 * action that answers with nothing. INTERNAL: an answer that is no message of its kind. */
lake_status client_ask(lake_client *client, const char *action, const ProtobufCMessage *request,
                       const ProtobufCMessageDescriptor *answer_type, ProtobufCMessage **answer,
                       struct lake_error *err);
lake_status client_ask_within(lake_client *client, int64_t timeout_ms, const char *action,
                              const ProtobufCMessage *request,
                              const ProtobufCMessageDescriptor *answer_type,
                              ProtobufCMessage **answer, struct lake_error *err);
/* NULL is fine. */
void client_answer_free(ProtobufCMessage *answer);

/* ---- tables.c ---- */

/* "namespace.table" into its parts, views into `table`. */
lake_status client_split_name(const char *table, struct lake_str *namespace_name,
                              struct lake_str *name, struct lake_error *err);
/* The same as a message's part; views into `table`. */
lake_status client_table_name(const char *table, LakePb__TableName *out, struct lake_error *err);
/* Whether two struct schemas have the same columns, else where not. What a schema says of itself as
 * a whole (name, nullability, metadata) is its maker's and says nothing of the rows. */
bool client_columns_equal(const struct ArrowSchema *a, const struct ArrowSchema *b, char *path,
                          size_t path_bytes);

/* An immutable table schema, shared by the cache and its users. */
struct client_schema {
    atomic_uint references;
    char incarnation[BASE_UUID_TEXT_BYTES]; /* of the table; "": the server did not say */
    struct ArrowSchema arrow;
};
void client_schema_unref(struct client_schema *schema);
lake_status client_schema_cache_new(const struct lake_connect_options *options,
                                    struct client_schema_cache **out, struct lake_error *err);
void client_schema_cache_free(struct client_schema_cache *cache);
/* From the cache, or asked for once however many threads want it. */
lake_status client_table_schema(lake_client *client, struct lake_str namespace_name,
                                struct lake_str table, struct client_schema **out,
                                struct lake_error *err);
/* Drops one table's entry: the next call asks again. */
void client_schema_forget(lake_client *client, struct lake_str namespace_name,
                          struct lake_str table);

/* ---- statement.c ---- */

struct client_insert {
    struct lake_str namespace_name, table;
    struct lake_str *columns;
    size_t column_count;
    struct base_arena *memory;
};
lake_status client_insert_parse(const char *sql, struct client_insert *out, struct lake_error *err);
void client_insert_fini(struct client_insert *insert);

/* ---- values.c ---- */

/* Fails when `value` cannot go into a column of this type; touches no file. */
lake_status client_value_check(const struct ArrowSchema *field, const struct lake_value *value,
                               struct lake_error *err);
/* Appends a checked value; `location` is what an uploaded file became. */
lake_status client_value_append(const struct ArrowSchema *field, struct ArrowArray *column,
                                const struct lake_value *value,
                                const struct lake_data_location *location, struct lake_error *err);
bool client_value_is_file(const struct lake_value *value);
/* Of a checked value: what it gives beside the bytes of a file. */
uint64_t client_value_bytes(const struct lake_value *value);

/* ---- upload.c, reader.c ---- */

/* Copies what is in `from`; `out` owns its strings. */
lake_status client_location_copy(struct lake_str uri, struct lake_str media_type,
                                 int64_t size_bytes, struct lake_str sha256_hex,
                                 struct lake_data_location *out, struct lake_error *err);
lake_status client_media_type_check(const char *media_type, struct lake_error *err);
/* What the location from an upload will take at most, of this media type (NULL: the default). */
uint64_t client_location_bytes(const lake_client *client, const char *media_type);
/* That the location has the shape of one. */
lake_status client_location_check(const struct lake_data_location *location,
                                  struct lake_error *err);
/* The object's key in the stage. PERMISSION_DENIED when it lies elsewhere (OBJ-2). */
lake_status client_location_key(lake_client *client, const struct lake_data_location *location,
                                struct lake_str *key, struct lake_error *err);
/* The stage, the key, and what the stage says of the object, whose size is the location's:
 * NOT_FOUND or DATA_LOSS otherwise. `store` is borrowed. */
lake_status client_object_open(lake_client *client, const struct lake_data_location *location,
                               struct storage_store **store, struct lake_str *key,
                               struct storage_object_info *info, struct lake_error *err);
/* That the range [start, end) is in the object and not empty. */
lake_status client_range_check(const struct lake_data_location *location, int64_t start,
                               int64_t end, struct lake_error *err);
struct client_reader_part {
    int64_t start, end;
    bool whole;   /* all of it, hashed */
    bool digests; /* of a range: compared with the digests of chunks when these are cheap */
};
/* Of an object in any store; `version` as storage_stat gave it, or empty. */
lake_status client_reader_new(struct storage_store *store, struct lake_str key, const char *version,
                              const struct lake_data_location *location,
                              struct client_reader_part part, lake_reader **out,
                              struct lake_error *err);
/* Waits for the first bytes, which the first read then gives: what is wrong shows now. */
lake_status client_reader_begin(lake_reader *reader, struct lake_error *err);
/* As lake_open, of what follows the first `done_bytes`, which are in `hash` already; takes `hash`,
 * also when it fails. */
lake_status client_reader_open_behind(lake_client *client, bool via_query,
                                      const struct lake_data_location *location, int64_t done_bytes,
                                      struct base_sha256 *hash, lake_reader **out,
                                      struct lake_error *err);
/* via_query.c: the object as a store of its own, by a URL that ends at `expires_unix_ms`. */
lake_status client_url_store(lake_client *client, const struct lake_data_location *location,
                             struct storage_store **out, struct lake_str *key,
                             int64_t *expires_unix_ms, struct lake_error *err);
/* DATA_LOSS when an object of no bytes has some: no range of it can be asked for. */
lake_status client_url_check_empty(struct storage_store *store, struct lake_str key,
                                   struct lake_error *err);
lake_status client_reader_via_query(lake_client *client, const struct lake_data_location *location,
                                    struct client_reader_part part, lake_reader **out,
                                    struct lake_error *err);
/* What comes next, from the reader's own buffer, until the next call; nothing at the verified end.
 */
lake_status client_reader_block(lake_reader *reader, struct lake_bytes *out,
                                struct lake_error *err);

#endif
