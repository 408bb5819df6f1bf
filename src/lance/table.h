/*
 * The table layer's internals: manifests, versions, transactions, deletion vectors, the cache, and
 * what a scan and an append need of them. Only src/lance and its unit tests include this.
 *
 * Data flow. Reading: versions.c finds the name, manifest.c parses it, dataset.c holds it,
 * fragment.c opens files and deletion vectors, scan.c cuts tasks, filter.c and gather.c work on the
 * decoded arrays. Writing: append.c makes data files, commit.c makes them a version.
 */
#ifndef LANCE_TABLE_H
#define LANCE_TABLE_H

#include "file.h"
#include "lance_file.pb-c.h"
#include "lance_table.pb-c.h"
#include "schema.h"

#include <stdatomic.h>

/* ---- versions.c: names and discovery ---- */

enum lance_naming {
    LANCE_NAMING_V2,
    LANCE_NAMING_V1
};

#define LANCE_KEY_BYTES 64 /* of a manifest's key, with the NUL */
void lance_manifest_key(enum lance_naming naming, uint64_t version, char out[LANCE_KEY_BYTES]);
#define LANCE_VERSIONS_PREFIX "_versions/"
#define LANCE_HINT_KEY        LANCE_VERSIONS_PREFIX "latest_version_hint.json"
/* `name` is the part after it. False for whatever is not a version of the history:
 * temporary and staged names, detached versions, the hint. */
bool lance_manifest_name_parse(struct lake_str name, uint64_t *version, enum lance_naming *naming);
/* lance_latest_version, and how its manifest is named. */
lake_status lance_versions_latest(struct storage_store *store, uint64_t known_version,
                                  uint64_t *version, enum lance_naming *naming,
                                  struct storage_object_info *manifest, struct lake_error *err);

/* ---- manifest.c ---- */

#define LANCE_FLAG_DELETIONS        (UINT64_C(1) << 0)
#define LANCE_FLAG_STABLE_ROW_IDS   (UINT64_C(1) << 1)
#define LANCE_FLAG_CONFIG           (UINT64_C(1) << 3)
#define LANCE_FLAG_BASE_PATHS       (UINT64_C(1) << 4)
#define LANCE_FLAG_NO_TRANSACTIONS  (UINT64_C(1) << 5)  /* no transaction files: inline only */
#define LANCE_FLAG_UNIQUE_FIELD_IDS (UINT64_C(1) << 15) /* of writers: field ids never restart */

#define LANCE_MAX_MANIFEST_BYTES ((size_t)256 << 20)

struct lance_manifest { /* shared; immutable but for what was found out about it */
    _Atomic uint32_t references;
    struct base_arena *arena; /* owns all below but the schema */
    LancePb__Manifest *pb;
    struct lance_schema schema;
    enum lance_naming naming;
    char storage_version[8];         /* "2.0", "2.1" or "2.2" */
    struct lake_bytes index_section; /* serialized IndexSection; data NULL when there is none */
    struct lake_bytes transaction;   /* serialized inline Transaction; data NULL when none */
    const struct lance_key_value *config;
    size_t config_count;
    _Atomic bool *row_ids_checked; /* by fragment; NULL: row ids are not stable */
    size_t file_bytes;
    size_t memory_bytes;
};

/* `bytes` is a whole manifest file. DATA_LOSS when it contradicts the format or is not `version`;
 * UNIMPLEMENTED names what a reader of this kind must refuse. */
lake_status lance_manifest_parse(struct lake_bytes bytes, uint64_t version,
                                 struct lance_manifest **out, struct lake_error *err);
lake_status lance_manifest_read(struct storage_store *store, enum lance_naming naming,
                                uint64_t version, struct lance_manifest **out,
                                struct lake_error *err);
struct lance_manifest *lance_manifest_ref(struct lance_manifest *manifest);
void lance_manifest_unref(struct lance_manifest *manifest); /* NULL is allowed */
/* UNIMPLEMENTED names the flag that forbids making a new version of the table. */
lake_status lance_manifest_check_changeable(const struct lance_manifest *manifest,
                                            struct lake_error *err);
/* The same, and for a storage version or a column whose data cannot be written. */
lake_status lance_manifest_check_writable(const struct lance_manifest *manifest,
                                          struct lake_error *err);
/* The highest field id that the schema or a data file refers to, or that was ever given; -1: none.
 */
int32_t lance_max_field_id(const LancePb__Manifest *pb);
/* Appends the file's bytes to `out`. Sets the offsets of the sections in `pb`. */
lake_status lance_manifest_encode(LancePb__Manifest *pb, struct lake_bytes index_section,
                                  struct lake_bytes transaction, struct base_buffer *out,
                                  struct lake_error *err);

/* An allocator for protobuf-c over an arena: what is unpacked lives as long as the arena. */
ProtobufCAllocator lance_pb_allocator(struct base_arena *arena);
static inline struct lake_str lance_pb_str(ProtobufCBinaryData data)
{
    return (struct lake_str){(const char *)data.data, data.len};
}
static inline ProtobufCBinaryData lance_pb_text(const char *text)
{
    return (ProtobufCBinaryData){.len = __builtin_strlen(text), .data = (uint8_t *)text};
}

/* ---- transaction.c ---- */

enum lance_operation { /* field numbers of Transaction's operation */
    LANCE_OP_NONE = 0,
    LANCE_OP_APPEND = 100,
    LANCE_OP_DELETE = 101,
    LANCE_OP_OVERWRITE = 102,
    LANCE_OP_CREATE_INDEX = 103,
    LANCE_OP_REWRITE = 104,
    LANCE_OP_MERGE = 105,
    LANCE_OP_RESTORE = 106,
    LANCE_OP_RESERVE_FRAGMENTS = 107,
    LANCE_OP_UPDATE = 108,
    LANCE_OP_PROJECT = 109,
    LANCE_OP_UPDATE_CONFIG = 110,
    LANCE_OP_DATA_REPLACEMENT = 111,
    LANCE_OP_UPDATE_MEM_WAL = 112,
    LANCE_OP_CLONE = 113,
    LANCE_OP_UPDATE_BASES = 114,
    LANCE_OP_DATA_OVERLAY = 115
};

lake_status lance_transaction_parse(struct lake_bytes bytes, struct base_arena *arena,
                                    LancePb__Transaction **out, struct lake_error *err);
/* The transaction that made a version, inline or from its file. NOT_FOUND: there is none. */
lake_status lance_transaction_read(struct storage_store *store,
                                   const struct lance_manifest *manifest, struct base_arena *arena,
                                   LancePb__Transaction **out, struct lake_error *err);
/* The operation's number; one above 115 is an operation of a later release. */
uint32_t lance_transaction_operation(const LancePb__Transaction *transaction);
/* The serialized message appended to `out`. */
lake_status lance_transaction_encode(const LancePb__Transaction *transaction,
                                     struct base_buffer *out, struct lake_error *err);

/* ---- conflict.c ---- */

enum lance_verdict {
    LANCE_REBASE,      /* ours goes on top of theirs as it is */
    LANCE_REBASE_ROWS, /* it does when the rows deleted by both can be told apart */
    LANCE_RETRY,       /* do it again, beginning from the newest version */
    LANCE_INCOMPATIBLE /* theirs took away what ours was meant for */
};
/* Whether `ours` may be put on top of `theirs`, which was committed since the version that ours
 * read. Fragments have ids up to `max_fragment_id`. */
lake_status lance_transaction_conflict(const LancePb__Transaction *ours,
                                       const LancePb__Transaction *theirs, uint64_t max_fragment_id,
                                       enum lance_verdict *out, struct lake_error *err);

/* ---- deletion.c ---- */

struct lance_deletions { /* immutable, shared */
    _Atomic uint32_t references;
    uint64_t row_count; /* of the fragment, deleted ones included */
    uint64_t deleted_count;
    uint64_t *words; /* bit set: the row is deleted; (row_count + 63) / 64 words */
};
#define LANCE_DELETION_KEY_BYTES 128
void lance_deletion_key(uint64_t fragment_id, const LancePb__DeletionFile *file,
                        char out[LANCE_DELETION_KEY_BYTES]);
/* Reads a fragment's deletion file, in either form. Any failure is the caller's failure: an
 * unreadable deletion file is never an absent one (L14). */
lake_status lance_deletions_read(struct storage_store *store, uint64_t fragment_id,
                                 const LancePb__DeletionFile *file, uint64_t row_count,
                                 struct lance_deletions **out, struct lake_error *err);
struct lance_deletions *lance_deletions_ref(struct lance_deletions *deletions);
void lance_deletions_unref(struct lance_deletions *deletions); /* NULL is allowed */
/* A portable 32-bit roaring bitmap, all container forms, into `words` (bits below row_count).
 * DATA_LOSS for a malformed one or a row outside. */
lake_status lance_roaring_decode(struct lake_bytes bytes, uint64_t row_count, uint64_t *words,
                                 struct lake_error *err);
/* The same, container by container: `words` are the bits of [start, start + 65,536). */
#define LANCE_ROARING_WORDS 1024
lake_status lance_roaring_visit(struct lake_bytes bytes,
                                lake_status (*visit)(void *context, uint64_t start,
                                                     const uint64_t words[LANCE_ROARING_WORDS],
                                                     struct lake_error *err),
                                void *context, struct lake_error *err);
/* The reverse: bits below `bit_count` as a bitmap that every reader of roaring understands. */
lake_status lance_roaring_encode(const uint64_t *words, uint64_t bit_count, struct base_buffer *out,
                                 struct lake_error *err);
/* The fragments that an index covers, one bit for each id up to `max_fragment_id`; base_free. */
lake_status lance_fragment_bitmap_decode(const LancePb__IndexMetadata *index,
                                         uint64_t max_fragment_id, uint64_t **words,
                                         struct lake_error *err);
static inline bool lance_deletions_has(const struct lance_deletions *deletions, uint64_t row)
{
    return (deletions->words[row / 64] >> (row % 64) & 1) != 0;
}

/* ---- cache.c ---- */

enum lance_cached {
    LANCE_CACHED_MANIFEST,
    LANCE_CACHED_FILE,
    LANCE_CACHED_DELETIONS,
    LANCE_CACHED_INDEX
};
/* The object under `key` with a new reference, or NULL. `cache` may be NULL. */
void *lance_cache_get(struct lance_cache *cache, enum lance_cached kind, const char *key);
/* Keeps a reference of its own. Failing to keep is no failure. `cache` may be NULL. */
void lance_cache_put(struct lance_cache *cache, enum lance_cached kind, const char *key,
                     void *object, size_t memory_bytes);
void lance_cache_remove(struct lance_cache *cache, enum lance_cached kind, const char *key);

/* ---- bases.c ---- */

struct lance_base {
    uint32_t id;
    bool is_root; /* a dataset's root: its files lie as ours do; else they lie right there */
    char *path;
    struct storage_store *store; /* NULL: may not be read */
};
struct lance_bases {
    struct lance_base *items;
    size_t count;
};
/* Where a dataset is opened, and what its base paths may lead to. */
struct lance_opening {
    struct storage_store *store; /* the version's own directory */
    struct storage_store *root;  /* of main, when `store` is a branch's; else the same */
    struct lance_cache *cache;
    const char *cache_key;
    lake_status (*open_base)(void *context, const char *path, struct storage_store **out,
                             struct lake_error *err);
    void *context;
};
lake_status lance_bases_open(const struct lance_opening *opening, const LancePb__Manifest *pb,
                             struct lance_bases *out, struct lake_error *err);
void lance_bases_fini(struct lance_bases *bases);
/* UNIMPLEMENTED names a place that may not be read. */
lake_status lance_bases_find(const struct lance_bases *bases, uint32_t id,
                             const struct lance_base **out, struct lake_error *err);

/* ---- refs.c ---- */

#define LANCE_TAGS_PREFIX   "_refs/tags/"
#define LANCE_TAG_SUFFIX    ".json"
#define LANCE_MAX_TAG_BYTES 65536
struct lance_ref {
    char branch[LANCE_REF_NAME_BYTES]; /* empty: main */
    uint64_t version;
};
bool lance_ref_name_valid(const char *tag);
/* `root` is main's directory. NOT_FOUND: there is no such tag. */
lake_status lance_tag_read(struct storage_store *root, const char *tag, struct lance_ref *out,
                           struct lake_error *err);
/* Not main, which is there and no branch. */
bool lance_branch_name_valid(const char *branch);
/* The directory of a branch, whether or not there is one. */
lake_status lance_branch_open(struct storage_store *root, const char *branch,
                              struct storage_store **out, struct lake_error *err);

/* ---- branch_refs.c ---- */

#define LANCE_BRANCHES_PREFIX "_refs/branches/"
/* Of the file that makes a branch; the other way round, false for a key that is none. */
void lance_branch_key(const char *branch, char key[STORAGE_MAX_KEY_BYTES + 1]);
bool lance_branch_of_key(const char *key, char out[LANCE_REF_NAME_BYTES]);
/* NOT_FOUND: there is no such branch. */
lake_status lance_branch_read(struct storage_store *root, const char *branch,
                              struct lance_branch *out, struct lake_error *err);

/* ---- listing.c ---- */

typedef lake_status (*lance_list_visit)(void *context, const struct storage_list_entry *entry,
                                        struct lake_error *err);
/* Visits every object whose key begins with `prefix`, in the order of keys. */
lake_status lance_list_all(struct storage_store *store, const char *prefix, lance_list_visit visit,
                           void *context, struct lake_error *err);

/* ---- dataset.c ---- */

struct lance_dataset { /* immutable, shared */
    _Atomic uint32_t references;
    struct storage_store *store;
    struct lance_cache *cache; /* borrowed; NULL: none */
    char *cache_key;           /* NULL: no caching */
    struct lance_bases bases;  /* where else files lie */
    struct lance_manifest *manifest;
    uint64_t *fragment_rows; /* physical rows of each fragment */
    uint64_t row_count;      /* live rows */
};
/* Takes over the reference to `manifest`, also on failure. */
lake_status lance_dataset_of_manifest(const struct lance_opening *opening,
                                      struct lance_manifest *manifest, struct lance_dataset **out,
                                      struct lake_error *err);
/* Keeps the manifest of another version of the same dataset, so that opening it reads nothing. */
void lance_dataset_cache_manifest(const struct lance_dataset *dataset,
                                  struct lance_manifest *manifest);
/* Where one of a version's files lies. */
struct lance_place {
    struct storage_store *store;
    const struct lance_base *base; /* NULL: in the dataset's own directory */
    char key[STORAGE_MAX_KEY_BYTES + 1];
};
lake_status lance_dataset_place_file(const struct lance_dataset *dataset,
                                     const LancePb__DataFile *file, struct lance_place *out,
                                     struct lake_error *err);
lake_status lance_dataset_place_deletions(const struct lance_dataset *dataset,
                                          const LancePb__DataFragment *fragment,
                                          struct lance_place *out, struct lake_error *err);
/* A data file of the dataset through the cache; a missing one is DATA_LOSS. */
lake_status lance_dataset_open_file(struct lance_dataset *dataset, const LancePb__DataFile *file,
                                    struct lance_file **out, struct lake_error *err);
/* The same by its tail, which is taken when the cache has not the file itself. */
lake_status lance_dataset_open_file_by(struct lance_dataset *dataset, const LancePb__DataFile *file,
                                       struct lance_tail *tail, struct lance_file **out,
                                       struct lake_error *err);
/* Whether the cache has it. */
bool lance_dataset_has_file(const struct lance_dataset *dataset, const struct lance_place *place);
/* How many of fragment `index`'s rows are deleted. */
lake_status lance_dataset_deleted_rows(struct lance_dataset *dataset, size_t index, uint64_t *out,
                                       struct lake_error *err);
/* The deletion vector of fragment `index`, or *out NULL when nothing is deleted. */
lake_status lance_dataset_open_deletions(struct lance_dataset *dataset, size_t index,
                                         struct lance_deletions **out, struct lake_error *err);

/* ---- fragment.c ---- */

/* A fragment's files and deletions, opened for some columns; shared. */
struct lance_open_fragment {
    _Atomic uint32_t references;
    struct lance_file **files; /* by the fragment's data file; NULL: no column needs it */
    size_t file_count;
    struct lance_column_source **sources; /* by column: where the nodes of its tree are */
    bool *stored;                         /* by column; false: nowhere, so it reads as null */
    size_t column_count;
    struct lance_deletions *deletions;
};

lake_status lance_fragment_open(struct lance_dataset *dataset, size_t fragment_index,
                                const struct lance_field *const *fields, size_t field_count,
                                struct lance_open_fragment **out, struct lake_error *err);
/* The same by the tails of its files, in their order; those that are used are taken. */
lake_status lance_fragment_open_by(struct lance_dataset *dataset, size_t fragment_index,
                                   const struct lance_field *const *fields, size_t field_count,
                                   struct lance_tail *tails, struct lance_open_fragment **out,
                                   struct lake_error *err);
/* Whether file `index` of the fragment holds any of the fields, or a part of one. */
bool lance_fragment_file_holds(const LancePb__DataFragment *fragment, size_t index,
                               const struct lance_field *const *fields, size_t field_count);
void lance_open_fragment_unref(struct lance_open_fragment *opened); /* NULL is allowed */

/* ---- filter.c ---- */

struct lance_predicate; /* a filter made ready for its column's type */
/* *out NULL when the filter cannot be evaluated exactly; INVALID_ARGUMENT for a malformed one. */
lake_status lance_predicate_new(const struct lance_filter *filter, const struct ArrowSchema *column,
                                struct lance_predicate **out, struct lake_error *err);
void lance_predicate_free(struct lance_predicate *predicate); /* NULL is allowed */
/* Clears keep[i] for each row that does not pass; rows already cleared stay so. */
lake_status lance_predicate_apply(const struct lance_predicate *predicate,
                                  const struct ArrowArray *array, uint8_t *keep,
                                  struct lake_error *err);

/* ---- prune.c: what filters rule out ---- */

struct lance_bounds {             /* of the values in a page or zone of an index */
    const struct ArrowArray *low; /* of the column's type; null: not known, or all are null */
    const struct ArrowArray *high;
    uint64_t at; /* the row of both */
    uint64_t null_count;
    uint64_t nan_count; /* when the bounds may leave them out; else 0 */
    uint64_t row_count;
};
/* False: no row within the bounds can pass. */
bool lance_predicate_may_pass_bounds(const struct lance_predicate *predicate,
                                     const struct lance_bounds *bounds);

struct lance_zones;
struct lance_pruned_column {
    const struct lance_zones *zones;
    struct lance_predicate *const *predicates; /* all must hold */
    size_t predicate_count;
};
/* The first run of rows within [start, end) that may pass all columns' filters: [*first, *last),
 * with *first = end when none may. */
void lance_prune(const struct lance_pruned_column *columns, size_t count, uint64_t start,
                 uint64_t end, uint64_t *first, uint64_t *last);

/* ---- data_files.c: rows into new data files ---- */

struct lance_new_fragment { /* a data file that no version refers to yet */
    char name[64];          /* below data/ */
    struct lance_file_result file;
};

struct lance_data_files {
    struct storage_store *store;       /* borrowed, like the schema */
    const struct lance_schema *schema; /* must outlive the files' writing */
    struct lance_file_options options;
    uint64_t max_file_rows;
    struct lance_file_writer *writer; /* of the last fragment; NULL: none is open */
    struct lance_new_fragment *fragments;
    size_t count;
    size_t capacity;
};
void lance_data_files_init(struct lance_data_files *files, struct storage_store *store,
                           const struct lance_schema *schema, const char *storage_version,
                           enum lance_profile profile);
/* INVALID_ARGUMENT for another number of columns, or a null where the schema forbids it. A file is
 * full at max_file_rows; a batch is not split. */
lake_status lance_data_files_write(struct lance_data_files *files, const struct ArrowArray *batch,
                                   struct lake_error *err);
/* Closes the last file: what was written is durable. */
lake_status lance_data_files_finish(struct lance_data_files *files, struct lake_error *err);
/* The files from `first` on as fragments with the ids 0, as a transaction holds them. Borrows. */
lake_status lance_data_files_messages(const struct lance_data_files *files, size_t first,
                                      struct base_arena *arena, LancePb__DataFragment ***out,
                                      struct lake_error *err);
/* Removes the files unless they are kept. */
void lance_data_files_fini(struct lance_data_files *files, bool keep);
/* As the configuration says, or the schema's metadata (NULL: none), where a creator that can only
 * give a schema puts it. One that is not known (a later release's, perhaps) is as good as none. */
enum lance_profile lance_profile_of(const struct lance_key_value *config, size_t count,
                                    const struct lance_schema *schema);

/* ---- row_ids.c, row_sequence.c: stable row ids ---- */

struct lance_row_identity { /* by row */
    uint64_t *ids;
    uint64_t *created; /* versions; NULL: not given */
    uint64_t *updated;
};
/* Each reads exactly `row_count` values; DATA_LOSS for another number, or a malformed sequence. */
lake_status lance_row_ids_decode(struct lake_bytes sequence, uint64_t row_count, uint64_t *out,
                                 struct lake_error *err);
lake_status lance_row_versions_decode(struct lake_bytes sequence, uint64_t row_count, uint64_t *out,
                                      struct lake_error *err);
lake_status lance_row_ids_encode(const uint64_t *ids, size_t count, struct base_buffer *out,
                                 struct lake_error *err);
lake_status lance_row_versions_encode(const uint64_t *versions, size_t count,
                                      struct base_buffer *out, struct lake_error *err);
/* What a fragment says of its rows; lists that are NULL are not read. DATA_LOSS as above;
 * UNIMPLEMENTED when its ids are not in the manifest. */
lake_status lance_row_ids_of(const LancePb__DataFragment *fragment, uint64_t row_count,
                             const struct lance_row_identity *out, struct lake_error *err);
/* Gives a fragment the identities of rows that were elsewhere before. */
lake_status lance_row_ids_set(struct base_arena *arena, LancePb__DataFragment *fragment,
                              const struct lance_row_identity *rows, size_t count,
                              struct lake_error *err);
/* Gives a new fragment what it lacks of row ids (from *next_row_id on) and versions.
 * RESOURCE_EXHAUSTED when there are not so many ids left. */
lake_status lance_row_ids_give(struct base_arena *arena, LancePb__DataFragment *fragment,
                               uint64_t *next_row_id, uint64_t version, struct lake_error *err);

/* ---- next_manifest.c: a transaction on top of a version ---- */

struct lance_next_manifest {
    LancePb__Manifest pb;
    struct lake_bytes index_section; /* data NULL: none */
    LancePb__TableTimestamp timestamp;
    LancePb__WriterVersion writer;
    LancePb__DataStorageFormat format;
    struct lance_manifest *restored; /* what pb borrows from */
};
/* `current` NULL: the first version, of the given storage version. Memory is the arena's, and
 * borrowed from `current` and `transaction`. ABORTED when a fragment to be changed is gone. */
lake_status lance_next_manifest_build(struct storage_store *store,
                                      const struct lance_manifest *current,
                                      const LancePb__Transaction *transaction,
                                      const char *storage_version, struct base_arena *arena,
                                      struct lance_next_manifest *out, struct lake_error *err);
/* Flags, time and writer: what every manifest says last. */
void lance_next_manifest_finish(struct lance_next_manifest *next);
void lance_next_manifest_fini(struct lance_next_manifest *next);

/* ---- commit.c ---- */

/* A transaction to be published on top of the newest version. */
struct lance_publication {
    struct storage_store *store;
    struct lance_manifest *base;       /* the version that the operation read; NULL: create */
    LancePb__Transaction *transaction; /* the operation; uuid, read version and properties are
                                          filled in. Must live until the end */
    const char *storage_version;       /* of an overwrite's files; NULL: the table's */
    /* Carries the operation over to `current` when others deleted rows of the same fragments; may
     * change the transaction. ABORTED when it cannot. NULL: it never can. */
    lake_status (*rebase)(void *context, const struct lance_manifest *current,
                          LancePb__Transaction *transaction, struct lake_error *err);
    void *context;
    bool sees_inserts; /* rows that others added or changed matter: RETRY over such versions */
    const struct lance_commit_options *options;
};
/* On success the published manifest and its version. *keep_files: the outcome could not be learnt,
 * or it succeeded, so nothing that the publication refers to may be removed. */
lake_status lance_publish(const struct lance_publication *publication, struct lance_manifest **out,
                          bool *keep_files, struct lake_error *err);
/* The pairs as messages, allocated from `arena`. */
lake_status lance_entries_of(struct base_arena *arena, const struct lance_key_value *pairs,
                             size_t count, LancePb__BytesEntry ***out, struct lake_error *err);

/* ---- select.c ---- */

struct lance_selector; /* filters made ready; borrows the dataset */
/* INVALID_ARGUMENT for a filter that cannot be decided exactly. */
lake_status lance_selector_new(struct lance_dataset *dataset, const struct lance_filter *filters,
                               size_t count, struct lance_selector **out, struct lake_error *err);
void lance_selector_free(struct lance_selector *selector); /* NULL is allowed */
/* Sets `words` to the live rows of the fragment that pass all filters; *count is their number. */
lake_status lance_selector_run(struct lance_selector *selector, size_t fragment_index,
                               uint64_t *words, uint64_t *count, struct lake_error *err);

/* ---- delete.c ---- */

struct lance_row_delete {
    const LancePb__DataFragment *basis; /* what our vector was made from */
    LancePb__DataFragment fragment;     /* what becomes of it */
    LancePb__DeletionFile file;
    bool has_file; /* false: no row is left, so the fragment goes */
    uint64_t row_count;
};
/* Rows to be deleted, with the deletion files already written. */
struct lance_row_deletes {
    struct lance_dataset *dataset; /* borrowed */
    struct lance_manifest *basis;
    struct lance_row_delete *items;
    size_t count;
    size_t capacity;
    LancePb__DataFragment **updated; /* what a transaction says of it: lance_row_deletes_messages */
    size_t updated_count;
    uint64_t *removed;
    size_t removed_count;
};
void lance_row_deletes_init(struct lance_row_deletes *deletes, struct lance_dataset *base);
/* Live rows of a fragment of the dataset; `words` is changed. Once for each fragment. */
lake_status lance_row_deletes_add(struct lance_row_deletes *deletes, size_t fragment_index,
                                  uint64_t *words, struct lake_error *err);
lake_status lance_row_deletes_messages(struct lance_row_deletes *deletes, struct lake_error *err);
/* Puts the rows on top of what others deleted; ABORTED when a row is in both. Makes the messages
 * anew. */
lake_status lance_row_deletes_rebase(struct lance_row_deletes *deletes,
                                     const struct lance_manifest *current, struct lake_error *err);
/* Removes the files unless they are kept. */
void lance_row_deletes_fini(struct lance_row_deletes *deletes, bool keep);
/* Room for one bit for each row of any fragment; base_free. */
lake_status lance_words_for(const struct lance_dataset *dataset, uint64_t **out,
                            struct lake_error *err);

/* Ascending addresses, and how many of them were met in a fragment. */
struct lance_addresses {
    const uint64_t *items;
    size_t count;
    size_t met;
};
/* The place of the first that is not below `address`. */
size_t lance_addresses_from(const struct lance_addresses *addresses, uint64_t address);
/* Sets the bits of the addresses that lie in the fragment and are live: *marked of them. */
lake_status lance_addresses_mark(struct lance_dataset *base, size_t fragment_index,
                                 struct lance_addresses *addresses, uint64_t *words,
                                 uint64_t *marked, struct lake_error *err);

/* ---- update.c ---- */

/* Rows deleted and rows written, to be one version. */
struct lance_row_update {
    struct lance_dataset *base; /* borrowed */
    struct lance_row_deletes deletes;
    struct lance_data_files files;
    bool stable; /* row ids are */
    /* Of the first row_count rows of the files, which were elsewhere before; only where ids are
     * stable. Files with and without such rows are apart. */
    struct lance_row_identity rows;
    size_t row_count;
    size_t row_capacity;
};
void lance_row_update_init(struct lance_row_update *update, struct lance_dataset *base);
lake_status lance_row_update_publish(struct lance_row_update *update, bool sees_inserts,
                                     const struct lance_commit_options *options, bool *keep,
                                     uint64_t *version, struct lake_error *err);
void lance_row_update_fini(struct lance_row_update *update, bool keep);

/* ---- compact_tiers.c ---- */

/* The neighbours that should become one fragment; *count 0: none. */
lake_status lance_tiers_find(struct lance_dataset *dataset, size_t *first, size_t *count,
                             struct lake_error *err);

/* ---- references.c ---- */

struct lance_visitor {
    /* `key` is a file's, or an index's directory without the slash; `elsewhere`: it lies at a base
     * path. */
    lake_status (*visit)(void *context, const char *key, bool elsewhere, struct lake_error *err);
    void *context;
};
/* Everything that the manifest refers to. UNIMPLEMENTED for a field that is not known. */
lake_status lance_references_visit(const struct lance_manifest *manifest,
                                   const struct lance_visitor *visitor, struct lake_error *err);

/* ---- cleanup.c ---- */

#define LANCE_REFERRED_KEY_BYTES (STORAGE_MAX_KEY_BYTES + 8)
/* What a version that needs the file at `key` refers to, borrowed from `key` or `buffer`; false for
 * a name that is none of the format's. */
bool lance_referred_key(struct lake_str key, struct lake_str *out,
                        char buffer[LANCE_REFERRED_KEY_BYTES]);

/* ---- key_set.c ---- */

struct lance_key_set { /* zeroed: empty */
    uint64_t *hashes;
    size_t capacity;
    size_t count;
};
lake_status lance_key_set_add(struct lance_key_set *set, struct lake_str key,
                              struct lake_error *err);
/* Never false for a key that was added; true for another with a probability of count / 2^64. */
bool lance_key_set_has(const struct lance_key_set *set, struct lake_str key);
void lance_key_set_fini(struct lance_key_set *set);

/* ---- append.c ---- */

/* Moves the ids of new fields above all that the table ever gave; RESOURCE_EXHAUSTED when there are
 * not so many. */
lake_status lance_shift_field_ids(struct lance_schema *schema, const LancePb__Manifest *above,
                                  struct lake_error *err);

/* INVALID_ARGUMENT names the column of a null where the schema forbids one. */
lake_status lance_check_nulls(const struct lance_schema *schema, const struct ArrowArray *batch,
                              struct lake_error *err);

#endif
