/*
 * What the files of meta share.
 *
 * Everything below the wire hangs on one `struct meta_authority`: the registry in its key-value
 * store, the stores of tables and sidecars, and the gates that make one writer a table. The files
 * that speak Flight (receive.c, service.c, service_actions.c) only translate.
 *
 * Keys of the registry (names folded to lower case, see names.c):
 *   a/format, a/authority          written once
 *   g/directory, g/commit          generations, 8 bytes little-endian
 *   r/<namespace>/<table>          lake_pb.Registration
 *   v/<namespace>/<table>          meta_store_pb.TableVersion
 *   c/<namespace>/<table>          meta_store_pb.PendingDirectory: a create that has not ended
 *   d/<incarnation>                meta_store_pb.PendingDirectory: a drop not yet swept
 *   o/<operation id>/<ns>/<table>  meta_store_pb.Operation; IDs sort by time, so the oldest is
 * first
 *
 * Lock order: a gate (gate.c) is held across I/O and is entered before any mutex; mutexes guard
 * single fields and are never held together. Of gates: a table's maintenance, its history, the
 * table, the directory.
 */
#ifndef META_INTERNAL_H
#define META_INTERNAL_H

#include "meta.h"

#include <arrow/arrow.h>
#include <flight/flight.h>
#include <kv/kv.h>
#include <lake.pb-c.h>
#include <lance/lance.h>
#include <stdatomic.h>
#include <storage/storage.h>

#define META_NAME_MAX_BYTES      128
#define META_KEY_BYTES           (2 * META_NAME_MAX_BYTES + 64) /* any key of the registry */
#define META_APPEND_MAX_BYTES    (64u * 1024 * 1024)            /* encoded: headers and bodies */
#define META_APPEND_MAX_ROWS     10000
#define META_APPENDS_MAX_BYTES   (512u * 1024 * 1024) /* of all appends being received at once */
#define META_PAGE_ENTRIES        64                   /* CAT-2 */
#define META_REPLY_MAX_BYTES     (64u * 1024 * 1024)
#define META_SCHEMA_MAX_BYTES    (1024 * 1024) /* of a registration: it lives in one key's value */
#define META_RESOLVE_MAX_TABLES  256
#define META_RETAIN_VERSIONS     10 /* NAT-11 */
#define META_CLEANUP_GRACE_S     (7 * 24 * 60 * 60)
#define META_FUTURE_TOLERANCE_MS (5 * 60 * 1000) /* clocks of clients may be ahead by this much */

#define META_CONFIG_INCARNATION "lake.incarnation"
#define META_PROPERTY_OPERATION "lake.operation_id"
#define META_PROPERTY_CONTENT   "lake.content_sha256"
#define META_PROPERTY_ROWS      "lake.row_count"

/* ---- names.c ---- */

struct meta_name {
    char namespace_name[META_NAME_MAX_BYTES + 1]; /* as given */
    char table[META_NAME_MAX_BYTES + 1];
    char namespace_key[META_NAME_MAX_BYTES + 1]; /* lower case: SQL matches without case */
    char table_key[META_NAME_MAX_BYTES + 1];
};
/* INVALID_ARGUMENT says which rule a name breaks. */
lake_status meta_name_parse(struct lake_str namespace_name, struct lake_str table,
                            struct meta_name *out, struct lake_error *err);
lake_status meta_name_from_pb(const LakePb__TableName *pb, struct meta_name *out,
                              struct lake_error *err);
/* Folds A-Z; the bytes are copied and NUL-terminated. False when `s` is longer than a name. */
bool meta_name_fold(struct lake_str s, char out[META_NAME_MAX_BYTES + 1]);
struct lake_str meta_str_of_pb(ProtobufCBinaryData data);
ProtobufCBinaryData meta_pb_of_str(const char *c_string); /* borrows */

/* ---- identity.c (NAT-13) ---- */

/* For whom a request acts: the caller, or the principal a Query server names in its headers. */
struct meta_identity {
    char principal_id[256];
    char tenant_id[META_NAME_MAX_BYTES + 1];
    enum rpc_role role; /* RPC_ROLE_USER when it acts on behalf of somebody */
    bool delegated;
    bool all_namespaces;
    const struct rpc_principal *caller; /* its grants bound the delegated ones */
    char **namespaces;                  /* folded; owned */
    size_t namespace_count;
};
/* `principal` (META_HEADER_PRINCIPAL), `tenant` and `namespaces` are headers, empty when absent. */
lake_status meta_identity_init(struct meta_identity *out, const struct rpc_principal *caller,
                               struct lake_str principal, struct lake_str tenant,
                               struct lake_str namespaces, struct lake_error *err);
void meta_identity_fini(struct meta_identity *identity);
bool meta_identity_may_use(const struct meta_identity *identity, const char *namespace_key);
/* PERMISSION_DENIED naming the namespace. Metadata peers get none. */
lake_status meta_identity_require(const struct meta_identity *identity, const char *namespace_name,
                                  struct lake_error *err);
/* The name that a request asks for, of a table in a namespace that the identity may use. */
lake_status meta_identity_name(const struct meta_identity *identity, const LakePb__TableName *asked,
                               struct meta_name *out, struct lake_error *err);
/* True when every table of the registry may be shown, so that listing needs no filter. */
bool meta_identity_sees_all(const struct meta_identity *identity);

/* ---- gate.c ---- */

/* How long somebody is willing to wait. */
struct meta_wait {
    int64_t timeout_ms;               /* INT64_MAX: as long as it takes */
    bool (*cancelled)(void *context); /* may be NULL */
    void *context;
};
/* One holder a key, waiters in order of arrival. A gate, unlike a mutex, is held across I/O. */
struct meta_claim {
    char key[META_KEY_BYTES];
    struct meta_claim *next;
    pthread_cond_t turn;
};
struct meta_gates {
    pthread_mutex_t lock; /* guards the list of claims */
    struct meta_claim *first;
};
lake_status meta_gates_init(struct meta_gates *gates, struct lake_error *err);
void meta_gates_fini(struct meta_gates *gates);
/* `claim` lives on the caller's stack until meta_gate_leave. RESOURCE_EXHAUSTED when the time is
 * over, CANCELLED when the caller went away; nothing is held then. */
lake_status meta_gate_enter(struct meta_gates *gates, struct meta_claim *claim, const char *key,
                            const struct meta_wait *wait, struct lake_error *err);
void meta_gate_leave(struct meta_gates *gates, struct meta_claim *claim);
/* Whether somebody waits for what `claim` holds. */
bool meta_gate_is_awaited(struct meta_gates *gates, const struct meta_claim *claim);

/* ---- authority.c ---- */

struct meta_authority {
    char *data_dir;   /* absolute */
    char *tables_dir; /* <data_dir>/tables; NULL: the tables are in an object store */
    struct kv_store *kv;
    struct storage_store *tables;  /* tables/ */
    struct storage_store *objects; /* objects/ */
    struct storage_store *deltas;  /* reference-deltas/ */
    struct lance_cache *cache;
    struct meta_gates gates;
    struct meta_compactor *compactor; /* NULL: none; since before anything was served */
    char authority_id[BASE_UUID_TEXT_BYTES];
    uint64_t append_retention_ms;
    uint64_t retain_versions;
    int64_t cleanup_grace_ms;
    _Atomic uint64_t next_commit_generation;
    _Atomic uint64_t held_append_bytes; /* of appends being received */
    _Atomic int64_t last_prune_us;      /* monotonic */
};
struct meta_recovery { /* what opening found */
    uint64_t temporary_files;
    uint64_t unfinished_creates;
    uint64_t unswept_drops;
    uint64_t pruned_operations;
    uint64_t moved_tables; /* registered under another path of the data directory */
};
/* Opens the data directory, taking it for this process, and repairs it (recover.c). */
lake_status meta_authority_open(const struct meta_options *options, uint64_t append_retention_s,
                                struct meta_authority **out, struct meta_recovery *recovery,
                                struct lake_error *err);
void meta_authority_free(struct meta_authority *authority);
/* The dataset's store; it need not exist. */
lake_status meta_table_store(struct meta_authority *authority, const struct meta_name *name,
                             struct storage_store **out, struct lake_error *err);

/* ---- registry.c ---- */

struct meta_registration {
    LakePb__Registration *record;
    struct base_buffer raw; /* as stored: a condition compares it */
    struct meta_name name;
    char incarnation[BASE_UUID_TEXT_BYTES];
};
void meta_registration_init(struct meta_registration *registration);
void meta_registration_fini(struct meta_registration *registration);
lake_status meta_registration_parse(struct lake_bytes value, struct meta_registration *out,
                                    struct lake_error *err);
/* NOT_FOUND names the table. `out` was initialised. */
lake_status meta_registration_get(struct meta_authority *authority, const struct meta_name *name,
                                  struct meta_registration *out, struct lake_error *err);
struct meta_table { /* as registered */
    struct meta_registration registration;
    struct storage_store *store; /* of its dataset */
};
/* NOT_FOUND as above. On failure there is nothing to close. */
lake_status meta_table_open(struct meta_authority *authority, const struct meta_name *name,
                            struct meta_table *out, struct lake_error *err);
void meta_table_close(struct meta_table *table);
struct lake_bytes meta_key(char out[META_KEY_BYTES], const char *family, const char *first,
                           const char *second);
lake_status meta_generation_get(struct meta_authority *authority, const char *which, uint64_t *out,
                                struct lake_error *err); /* "directory" or "commit"; 0 when unset */
struct lake_bytes meta_u64_bytes(uint64_t value, uint8_t out[8]);
/* A generation for a commit that is about to be written; larger than all before it. */
uint64_t meta_next_commit_generation(struct meta_authority *authority);

/* Up to which version the operations of a table are recorded. 0 when the record is of another
 * incarnation or absent. */
lake_status meta_recorded_version(struct meta_authority *authority, const struct meta_name *name,
                                  const char *incarnation, uint64_t *out, struct lake_error *err);
/* The value of "v/…", to be put in the same commit as the record. */
lake_status meta_recorded_version_pack(const char *incarnation, uint64_t version,
                                       struct base_buffer *out, struct lake_error *err);

/* One conditional change of the directory: every write together with a new directory generation.
 * `condition` (on the table's own key) failing gives ABORTED. */
#define META_DIRECTORY_MAX_WRITES 8
lake_status meta_directory_commit(struct meta_authority *authority,
                                  const struct kv_condition *condition,
                                  const struct kv_write *writes, size_t write_count,
                                  struct lake_error *err);

/* ---- operations.c (NAT-6) ---- */

struct meta_operation {
    uint8_t content_sha256[BASE_SHA256_BYTES];
    uint64_t version;
    char incarnation[BASE_UUID_TEXT_BYTES];
    uint64_t row_count;
    int64_t recorded_unix_ms;
};
/* A UUIDv7, not older than the retention and not more than five minutes ahead. */
lake_status meta_operation_check_id(struct lake_str text, int64_t now_unix_ms,
                                    uint64_t retention_ms, char out[BASE_UUID_TEXT_BYTES],
                                    struct lake_error *err);
lake_status meta_operation_get(struct meta_authority *authority, const struct meta_name *name,
                               const char *operation_id, struct meta_operation *out,
                               struct lake_error *err); /* NOT_FOUND: never committed */
/* The record, the recorded version and the commit generation, in one commit. */
lake_status meta_operation_record(struct meta_authority *authority, const struct meta_name *name,
                                  const char *operation_id, const struct meta_operation *operation,
                                  struct lake_error *err);
/* Removes expired records, page by page; *pruned is added to. */
lake_status meta_operation_prune(struct meta_authority *authority, int64_t now_unix_ms,
                                 uint64_t *pruned, struct lake_error *err);

/* ---- commit.c ---- */

struct meta_append_result { /* of any operation with an ID */
    uint64_t version;
    char incarnation[BASE_UUID_TEXT_BYTES];
    uint64_t row_count;
    bool replayed;
};
struct meta_commit { /* borrows everything */
    struct meta_authority *authority;
    const struct meta_registration *registration;
    const char *operation_id;
    const uint8_t *content_sha256; /* BASE_SHA256_BYTES: the same ID with other content fails */
    struct storage_store *store;
};
/* NOT_FOUND: the operation has not been committed. */
lake_status meta_commit_find(const struct meta_commit *commit, struct meta_append_result *out,
                             struct lake_error *err);
/* The newest version, opened; what was unrecorded is recorded then. The table's gate is held. */
lake_status meta_commit_open_newest(const struct meta_commit *commit, struct lance_dataset **out,
                                    struct lake_error *err);
/* What the version's transaction says of the operation; `out` must outlive the commit. */
struct meta_commit_marks {
    char digest[BASE_SHA256_HEX_BYTES];
    char rows[24];
    struct lance_key_value properties[3];
};
void meta_commit_mark(const struct meta_commit *commit, uint64_t row_count,
                      struct meta_commit_marks *out);
/* After the version is there. The table's gate is held. */
lake_status meta_commit_record(const struct meta_commit *commit, uint64_t version,
                               uint64_t row_count, struct lake_error *err);

/* ---- deltas.c (NAT-12) ---- */

#define META_DELTA_REMOVES_ALL 1u /* a drop: everything that the incarnation referred to */

struct meta_uri_set { /* occurrences of URIs; views into the batches they came from */
    struct lake_str *uris;
    size_t count;
    size_t capacity;
};
void meta_uri_set_fini(struct meta_uri_set *set);
lake_status meta_uri_set_add(struct meta_uri_set *set, struct lake_str uri, struct lake_error *err);

/* Takes from both what both have, as often as both have it. Sorts them. */
void meta_uri_sets_cancel(struct meta_uri_set *a, struct meta_uri_set *b);

struct meta_delta_entry {
    struct lake_str uri;
    uint64_t references; /* how many values name it */
};
struct meta_delta { /* decoded; views into the bytes */
    uint64_t version;
    uint32_t flags;
    struct meta_delta_entry *added; /* ascending by URI, each once */
    size_t added_count;
    struct meta_delta_entry *removed;
    size_t removed_count;
};
/* Sorts the sets. Either may be NULL for none. */
lake_status meta_delta_encode(uint64_t version, uint32_t flags, struct meta_uri_set *added,
                              struct meta_uri_set *removed, struct base_buffer *out,
                              struct lake_error *err);
/* DATA_LOSS when the bytes are not a whole delta. Entries are in `arena`. */
lake_status meta_delta_decode(struct lake_bytes bytes, struct base_arena *arena,
                              struct meta_delta *out, struct lake_error *err);
lake_status meta_delta_key(const char *incarnation, uint64_t version, const char *operation_id,
                           char out[META_KEY_BYTES], struct lake_error *err);

/* The before_publish hook of every commit: writes the sidecar of the version about to appear. */
struct meta_delta_writer {
    struct meta_authority *authority;
    const char *incarnation;
    const char *operation_id;
    struct meta_uri_set *added;   /* may be NULL */
    struct meta_uri_set *removed; /* may be NULL */
    uint64_t written_version;     /* 0: none yet */
};
lake_status meta_delta_before_publish(void *context, uint64_t version, struct lake_error *err);
/* After a commit that certainly did not happen. */
void meta_delta_discard(struct meta_delta_writer *writer);

/* ---- stage.c (OBJ-2) ---- */

/* Every FILE value of a validated batch is well-formed and lies under the tenant's stage:
 * INVALID_ARGUMENT names column and row. Their URIs are added to `uris` (views into `batch`).
 * `first_row` is the batch's first row in the append, for the message. */
lake_status meta_file_values_check(struct meta_authority *authority, const char *tenant_id,
                                   const struct ArrowSchema *schema, const struct ArrowArray *batch,
                                   int64_t first_row, struct meta_uri_set *uris,
                                   struct lake_error *err);
/* StageDescriptor bytes: the root for a Query server, the tenant's child for everybody else. */
lake_status meta_stage_describe(struct meta_authority *authority,
                                const struct meta_identity *identity, struct base_buffer *out,
                                struct lake_error *err);

/* ---- directory.c: whole dataset directories of this machine ---- */

/* Renames tables/<ns>/<table>.lance to tables/.dropped/<incarnation> durably. An absent source is
 * success. */
lake_status meta_directory_move_aside(struct meta_authority *authority,
                                      const struct meta_name *name, const char *incarnation,
                                      struct lake_error *err);
/* Removes tables/.dropped/<incarnation> and everything in it; symbolic links are not followed. */
lake_status meta_directory_remove_dropped(struct meta_authority *authority, const char *incarnation,
                                          struct lake_error *err);
lake_status meta_directory_exists(struct meta_authority *authority, const struct meta_name *name,
                                  bool *out, struct lake_error *err);
/* Everything below tables/.dropped. */
lake_status meta_directory_sweep_dropped(struct meta_authority *authority, struct lake_error *err);

/* ---- remote_directory.c: the same of datasets in an object store ---- */

lake_status meta_remote_exists(struct meta_authority *authority, const struct meta_name *name,
                               bool *out, struct lake_error *err);
lake_status meta_remote_remove(struct meta_authority *authority, const struct meta_name *name,
                               struct lake_error *err);

/* ---- tables.c ---- */

/* The gate that makes one writer a table; leave it with meta_gate_leave. */
lake_status meta_table_enter(struct meta_authority *authority, const struct meta_name *name,
                             const struct meta_wait *wait, struct meta_claim *claim,
                             struct lake_error *err);
lake_status meta_table_create(struct meta_authority *authority,
                              const struct meta_identity *identity, const struct meta_wait *wait,
                              const struct meta_name *name, struct lake_bytes schema_ipc,
                              bool if_not_exists, const char *storage_version,
                              struct meta_registration *out, struct lake_error *err);
lake_status meta_table_drop(struct meta_authority *authority, const struct meta_identity *identity,
                            const struct meta_wait *wait, const struct meta_name *name,
                            bool if_exists, struct lake_error *err);
/* Ends a create or a drop that did not end: the directory goes if it is the pending one's. The gate
 * of the table is held, or nobody else runs. */
lake_status meta_table_finish_pending(struct meta_authority *authority, struct lake_bytes key,
                                      struct lake_bytes value, struct lake_error *err);

/* Checks the columns' names and FILE columns, and appends the schema as it is registered. */
lake_status meta_schema_encode(const struct ArrowSchema *schema, struct base_buffer *out,
                               struct lake_error *err);

/* ---- column_types.c ---- */

/* INVALID_ARGUMENT, naming column, type and what to use, for a type that SQL cannot answer or that
 * Lance has not. */
lake_status meta_column_types_check(const struct ArrowSchema *schema, struct lake_error *err);

/* ---- follow.c ---- */

/* Whether values of one are laid out as values of the other: names and types. Nullability may
 * differ, the writer checks it by the dataset's. */
bool meta_same_layout(const struct ArrowSchema *a, const struct ArrowSchema *b);
/* Opens the newest version, and says which one is recorded. DATA_LOSS when it is not the registered
 * incarnation's, or an older one than was recorded: somebody replaced the table's directory. */
lake_status meta_dataset_newest(struct meta_authority *authority,
                                const struct meta_registration *registration,
                                struct storage_store *store, uint64_t *recorded,
                                struct lance_dataset **out, struct lake_error *err);
/* Brings the registered columns up to those of the newest version, and `registration` with them. A
 * failure leaves everything as it was: nothing that can be read or dropped depends on it. */
lake_status meta_registration_follow(struct meta_authority *authority,
                                     struct meta_registration *registration, bool *changed,
                                     struct lake_error *err);

/* ---- maintain.c ---- */

/* The gate of what works on a table's files for long: appends pass it by, a drop waits. Entered
 * before the table's own. */
lake_status meta_maintenance_enter(struct meta_authority *authority, const struct meta_name *name,
                                   const struct meta_wait *wait, struct meta_claim *claim,
                                   struct lake_error *err);
struct meta_compaction {
    const struct meta_wait *wait;
    bool tiers;                   /* only what lance_compaction_due means */
    bool (*go_on)(void *context); /* between two batches */
    void *context;
};
/* Puts small fragments together, as one version with the same rows, beside appends. The gate of
 * maintenance is held. */
lake_status meta_compact_held(struct meta_authority *authority, const struct meta_name *name,
                              const struct meta_compaction *how, struct lance_compaction *out,
                              struct lake_error *err);
lake_status meta_table_compact(struct meta_authority *authority,
                               const struct meta_identity *identity, const struct meta_wait *wait,
                               const struct meta_name *name, struct lance_compaction *out,
                               struct lake_error *err);

/* ---- cleanup.c ---- */

/* The gate of those who take a version for one that stays, between looking at it and having named
 * or published it: clean-up holds it. Entered before the table's own. */
lake_status meta_history_enter(struct meta_authority *authority, const struct meta_name *name,
                               const struct meta_wait *wait, struct meta_claim *claim,
                               struct lake_error *err);
/* Removes old versions, and files that nobody refers to. Appends a CleanupTableReply. */
lake_status meta_table_cleanup(struct meta_authority *authority,
                               const struct meta_identity *identity, const struct meta_wait *wait,
                               const LakePb__CleanupTableRequest *request, struct base_buffer *out,
                               struct lake_error *err);

/* ---- compactor.c ---- */

struct meta_compactor; /* one thread that compacts tables which grew */
lake_status meta_compactor_start(struct meta_authority *authority, struct meta_compactor **out,
                                 struct lake_error *err);
/* What it is at ends without a trace, soon; nothing more is begun. NULL is allowed. */
void meta_compactor_halt(struct meta_compactor *compactor);
void meta_compactor_free(struct meta_compactor *compactor); /* and waits for it; likewise */
/* Remembers the table if its newest version is due. Cheap; never waits. NULL is allowed. */
void meta_compactor_offer(struct meta_compactor *compactor, const struct meta_name *name,
                          struct lance_dataset *newest);

/* ---- listing.c ---- */

/* Encoded ListTablesReply, one page of at most META_PAGE_ENTRIES. */
lake_status meta_list_tables(struct meta_authority *authority, const struct meta_identity *identity,
                             const LakePb__ListTablesRequest *request, struct base_buffer *out,
                             struct lake_error *err);
lake_status meta_resolve_tables(struct meta_authority *authority,
                                const struct meta_identity *identity,
                                const LakePb__ResolveTablesRequest *request,
                                struct base_buffer *out, struct lake_error *err);
lake_status meta_table_schema(struct meta_authority *authority,
                              const struct meta_identity *identity,
                              const LakePb__TableName *request, struct base_buffer *out,
                              struct lake_error *err);
/* `max_reply_bytes`: META_REPLY_MAX_BYTES but in tests. */
lake_status meta_catalog_snapshot(struct meta_authority *authority,
                                  const struct meta_identity *identity,
                                  const struct meta_wait *wait,
                                  const LakePb__CatalogSnapshotRequest *request,
                                  size_t max_reply_bytes, struct base_buffer *out,
                                  struct lake_error *err);

/* ---- append.c ---- */

struct meta_append {
    struct meta_name name;
    struct lake_str operation_id;
    struct lake_str expected_incarnation; /* empty: whatever is registered */
    const struct ArrowSchema *schema;     /* of the batches */
    struct ArrowArray *batches;
    size_t batch_count;
    uint64_t row_count;
    uint8_t content_sha256[BASE_SHA256_BYTES];
};
/* DESIGN 8. OUTCOME_UNKNOWN: the same operation ID again tells. */
lake_status meta_append_commit(struct meta_authority *authority,
                               const struct meta_identity *identity, const struct meta_wait *wait,
                               const struct meta_append *append, struct meta_append_result *out,
                               struct lake_error *err);

/* ---- change.c ---- */

/* Deletes or updates the rows of a ChangeRowsRequest on top of the version that they were found in.
 * ABORTED: others changed some of them since; find them anew. OUTCOME_UNKNOWN as for appends. */
lake_status meta_rows_change(struct meta_authority *authority, const struct meta_identity *identity,
                             const struct meta_wait *wait, const LakePb__ChangeRowsRequest *request,
                             struct meta_append_result *out, struct lake_error *err);

/* ---- restore.c ---- */

/* The content of an older version as the newest. NOT_FOUND: there is no such version. ABORTED:
 * others changed the table again and again meanwhile. OUTCOME_UNKNOWN as for appends. */
lake_status meta_table_restore(struct meta_authority *authority,
                               const struct meta_identity *identity, const struct meta_wait *wait,
                               const LakePb__RestoreTableRequest *request,
                               struct meta_append_result *out, struct lake_error *err);

/* ---- refs.c ---- */

/* Appends the Tag that was made. */
lake_status meta_tag_create(struct meta_authority *authority, const struct meta_identity *identity,
                            const struct meta_wait *wait, const LakePb__TagRequest *request,
                            struct base_buffer *out, struct lake_error *err);
lake_status meta_tag_delete(struct meta_authority *authority, const struct meta_identity *identity,
                            const struct meta_wait *wait, const LakePb__TagRequest *request,
                            struct lake_error *err);
/* Appends a ListTagsReply. */
lake_status meta_tags_list(struct meta_authority *authority, const struct meta_identity *identity,
                           const struct meta_wait *wait, const LakePb__TableName *request,
                           struct base_buffer *out, struct lake_error *err);

/* Appends the Branch that was made. */
lake_status meta_branch_create(struct meta_authority *authority,
                               const struct meta_identity *identity, const struct meta_wait *wait,
                               const LakePb__BranchRequest *request, struct base_buffer *out,
                               struct lake_error *err);
lake_status meta_branch_delete(struct meta_authority *authority,
                               const struct meta_identity *identity, const struct meta_wait *wait,
                               const LakePb__BranchRequest *request, struct lake_error *err);
/* Appends a ListBranchesReply. */
lake_status meta_branches_list(struct meta_authority *authority,
                               const struct meta_identity *identity, const struct meta_wait *wait,
                               const LakePb__TableName *request, struct base_buffer *out,
                               struct lake_error *err);

/* ---- history.c ---- */

/* Appends a HistoryReply, a DiffReply. */
lake_status meta_table_history(struct meta_authority *authority,
                               const struct meta_identity *identity,
                               const LakePb__HistoryRequest *request, struct base_buffer *out,
                               struct lake_error *err);
lake_status meta_versions_diff(struct meta_authority *authority,
                               const struct meta_identity *identity,
                               const LakePb__DiffRequest *request, struct base_buffer *out,
                               struct lake_error *err);

/* ---- receive.c: the bytes of an append, in bounds ---- */

struct flight_receiver;
struct meta_received; /* owns batches and schema */
/* Reads a DoPut stream to its end. The AppendCommand of its descriptor is checked for form only. */
lake_status meta_receive_append(struct meta_authority *authority,
                                const struct meta_identity *identity,
                                const struct flight_receiver *receiver, struct meta_received **out,
                                struct lake_error *err);
const struct meta_append *meta_received_append(const struct meta_received *received);
void meta_received_free(struct meta_received *received);

/* ---- recover.c ---- */

lake_status meta_recover(struct meta_authority *authority, struct meta_recovery *out,
                         struct lake_error *err);

/* ---- relocate.c ---- */

/* Registers the tables at the data directory's present path, when that is not the last one. */
lake_status meta_relocate(struct meta_authority *authority, uint64_t *moved,
                          struct lake_error *err);

/* ---- service_actions.c ---- */

/* The actions are numbered from 0 to meta_action_count() - 1. */
size_t meta_action_count(void);
struct flight_action_type meta_action_type(size_t action);

/* Does what `asked` names; the reply's message goes behind what `out` holds. */
lake_status meta_action_run(struct meta_authority *authority, const struct meta_identity *identity,
                            const struct meta_wait *wait, const struct flight_action *asked,
                            struct base_buffer *out, struct lake_error *err);

/* Packs a protobuf message behind what `out` holds. */
lake_status meta_pb_pack(const ProtobufCMessage *message, struct base_buffer *out,
                         struct lake_error *err);

#endif
