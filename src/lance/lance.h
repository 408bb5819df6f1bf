/*
 * lance: the Lance table format, read and written natively.
 *
 * A dataset handle is one immutable version of a table: manifest, schema and fragments. Reading
 * never looks at anything mutable. Writing goes data files -> transaction -> the caller's
 * before_publish hook -> manifest, whose put-if-absent is the commit point (DESIGN 5, 8).
 *
 * Storage versions 2.0, 2.1 and 2.2 are read, the last two are written; what cannot be read is
 * refused by name.
 * Sources: the public Lance format specification; facts measured against the reference reader are
 * in docs/folders/lance.md.
 *
 * Thread rule: caches, datasets and scans are shared freely; a task and an append belong to one
 * thread at a time.
 */
#ifndef LANCE_LANCE_H
#define LANCE_LANCE_H

#include <arrow/arrow.h>
#include <base/base.h>
#include <storage/storage.h>

/* ---- cache of immutable things (DESIGN 11) ---- */

struct lance_cache;
/* Keeps manifests and file footers up to max_bytes, least recently used out first. */
lake_status lance_cache_new(size_t max_bytes, struct lance_cache **out, struct lake_error *err);
void lance_cache_free(struct lance_cache *cache);
/* After a version was cleaned up: opening it finds nothing. `cache_key` as for opening. */
void lance_cache_forget_version(struct lance_cache *cache, const char *cache_key, uint64_t version);

/* ---- opening ---- */

struct lance_dataset;

/* The newest version, by probing upward from `known_version` (0: not known; then lists once).
 * Strong: sees every version whose publication returned before the call. NOT_FOUND: no dataset.
 * `manifest`, unless NULL, receives what the store says of its manifest: another one under the same
 * number has other times, size or version. */
lake_status lance_latest_version(struct storage_store *store, uint64_t known_version, uint64_t *out,
                                 struct storage_object_info *manifest, struct lake_error *err);
/* Opens exactly `version` (0: the newest). `store` is rooted at the dataset's directory and
 * `cache_key` names it in the cache, unique per incarnation (NULL: no caching). NOT_FOUND for a
 * version that is not (or no longer) there; UNIMPLEMENTED names an unknown feature flag, storage
 * version or encoding; DATA_LOSS for bytes that contradict the format. */
lake_status lance_dataset_open(struct storage_store *store, struct lance_cache *cache,
                               const char *cache_key, uint64_t version, struct lance_dataset **out,
                               struct lake_error *err);
struct lance_open_options {
    uint64_t version;   /* 0: the newest */
    const char *branch; /* NULL: main */
    const char *tag;    /* NULL: none; else neither of the above */
    /* Files of shallow clones and branches may lie outside the dataset's directory: the store of
     * such a place, given as the manifest names it (a URI, a directory, one relative to wherever
     * its writer stood). NULL: only the dataset's own directory is read. */
    lake_status (*open_base)(void *context, const char *path, struct storage_store **out,
                             struct lake_error *err);
    void *context;
};
void lance_open_options_init(struct lance_open_options *options);
/* As lance_dataset_open, by tag or on a branch; `store` is rooted at main's directory. */
lake_status lance_dataset_open_with(struct storage_store *store, struct lance_cache *cache,
                                    const char *cache_key, const struct lance_open_options *options,
                                    struct lance_dataset **out, struct lake_error *err);
struct lance_dataset *lance_dataset_ref(struct lance_dataset *dataset);
void lance_dataset_unref(struct lance_dataset *dataset); /* NULL is allowed */

/* Whether the version's manifest still exists: false once it was reclaimed or its table dropped. */
lake_status lance_dataset_exists(const struct lance_dataset *dataset, bool *out,
                                 struct lake_error *err);

uint64_t lance_dataset_version(const struct lance_dataset *dataset);
/* The size of its manifest: a cached one of another size than the store's is of another dataset. */
uint64_t lance_dataset_manifest_bytes(const struct lance_dataset *dataset);
/* Borrowed; a struct schema whose children are the columns. */
const struct ArrowSchema *lance_dataset_schema(const struct lance_dataset *dataset);
uint64_t lance_dataset_row_count(const struct lance_dataset *dataset); /* live rows */
/* What a row takes on disk, with all columns, where it takes most: the largest mean of a fragment.
 * 0 for a table without rows or without sizes in its manifest. */
uint64_t lance_dataset_row_bytes(const struct lance_dataset *dataset);
/* At most how many runs of one value or null a top-level column's rows make, by the statistics in
 * its files; 0 when that is not known or more than `most`. Opens the files as a scan would. */
uint64_t lance_dataset_column_runs(struct lance_dataset *dataset, uint32_t column, uint64_t most);
size_t lance_dataset_fragment_count(const struct lance_dataset *dataset);
int64_t lance_dataset_timestamp_unix_ms(const struct lance_dataset *dataset);
const char *lance_dataset_storage_version(const struct lance_dataset *dataset); /* "2.2" */
/* The directory of the version itself: a branch's is below that of main. Borrowed. */
struct storage_store *lance_dataset_store(const struct lance_dataset *dataset);
/* A value of the manifest's config map, or NULL. */
const char *lance_dataset_config(const struct lance_dataset *dataset, const char *key);
/* A property of the transaction that made this version, copied into `out` (cleared first);
 * NOT_FOUND when the version has no such property or no readable transaction. */
lake_status lance_dataset_transaction_property(const struct lance_dataset *dataset, const char *key,
                                               struct base_buffer *out, struct lake_error *err);

/* What made the version, as Lance names it ("append", "rewrite"); "unknown" when nothing says so or
 * a later release does. Static. */
lake_status lance_dataset_operation(const struct lance_dataset *dataset, const char **out,
                                    struct lake_error *err);

struct lance_diff {
    uint64_t rows_added;     /* live in `to`, at a place that `from` has not or not alive */
    uint64_t rows_removed;   /* the reverse */
    uint64_t rows_rewritten; /* of both, in fragments whose data files are others */
    uint64_t fragments_added;
    uint64_t fragments_removed;
    uint64_t fragments_changed; /* by deletions or by data files */
};
/* How two versions of a dataset differ, told from fragments and deletion vectors. Rows that were
 * moved, as updates and compactions do, count as removed and added. */
lake_status lance_diff(struct lance_dataset *from, struct lance_dataset *to, struct lance_diff *out,
                       struct lake_error *err);

struct lance_file_check {
    uint64_t files; /* data files and deletion files of the version */
    uint64_t bytes; /* of them all */
};
/* Looks for every file that the version refers to. DATA_LOSS names one that is gone or has another
 * size than the manifest says. */
lake_status lance_dataset_check_files(struct lance_dataset *dataset, struct lance_file_check *out,
                                      struct lake_error *err);

/* Appends what the version consists of, as one JSON object: its manifest, indices, fragments, data
 * files, their columns with bytes, pages and encodings; every page of the data file `file` (its
 * path below data/; NULL: of none). NOT_FOUND when there is no such file. */
lake_status lance_inspect(struct lance_dataset *dataset, const char *file, struct base_buffer *out,
                          struct lake_error *err);

/* ---- scanning ---- */

enum lance_filter_op {
    LANCE_EQ,
    LANCE_LT,
    LANCE_LE,
    LANCE_GT,
    LANCE_GE,
    LANCE_NE,
    LANCE_IN,
    LANCE_IS_NULL,
    LANCE_IS_NOT_NULL
};
enum lance_value_kind {
    LANCE_VALUE_INT64,
    LANCE_VALUE_UINT64,
    LANCE_VALUE_DOUBLE,
    LANCE_VALUE_BYTES
};
struct lance_value { /* in the column's own unit: days, microseconds, unscaled decimal… */
    enum lance_value_kind kind;
    union {
        int64_t i64;
        uint64_t u64;
        double f64;
        struct lake_bytes bytes;
    };
};
/* One conjunct on one top-level column. NULL compares as unknown: such rows do not pass, except
 * under LANCE_IS_NULL. NaN equals itself and is greater than every other number; text and bytes
 * compare as unsigned bytes. A filter that cannot be decided exactly that way (another kind of
 * value, half floats, 256-bit decimals, nested values) is not applied. */
struct lance_filter {
    uint32_t column; /* index among the dataset's columns */
    enum lance_filter_op op;
    const struct lance_value *values; /* one, or several for LANCE_IN */
    size_t value_count;
};

/* What every row has beside its columns, each a uint64 named as the reference names it. */
#define LANCE_ROW_ID         1u /* _rowid: stable where the table has such ids, else the address */
#define LANCE_ROW_ADDRESS    2u /* _rowaddr: fragment << 32 | row of the fragment */
#define LANCE_ROW_CREATED_AT 4u /* _row_created_at_version */
#define LANCE_ROW_UPDATED_AT 8u /* _row_last_updated_at_version */

/* As a number of columns: all of them, in the table's order; no list of them is looked at. */
#define LANCE_ALL_COLUMNS SIZE_MAX

struct lance_scan_options {
    const uint32_t *columns; /* projected top-level columns in output order; may be empty: counts */
    size_t column_count;     /* or LANCE_ALL_COLUMNS */
    uint32_t row_columns;    /* which of the above follow the columns, in that order */
    const struct lance_filter *filters; /* all must hold; borrowed only during the call */
    size_t filter_count;
    uint32_t batch_rows;    /* at most this many rows a batch; default 16384 */
    size_t batch_bytes;     /* and roughly this many bytes (L20), a quarter of them in one column;
                               default 8 MiB */
    size_t task_rows;       /* rows one task covers; default 131072 */
    size_t first_fragment;  /* by place in the manifest */
    size_t fragment_count;  /* 0: from the first to the last */
    bool blob_descriptions; /* blobs as rows that say where they lie, not as their bytes */
    bool without_indices;   /* the table's indices are not asked */
    const bool *stop; /* polled (atomically); true ends every task with CANCELLED; may be NULL */
};
void lance_scan_options_init(struct lance_scan_options *options);

struct lance_scan; /* the plan: tasks over fragments and row ranges, in row order */
struct lance_task;
lake_status lance_scan_new(struct lance_dataset *dataset, const struct lance_scan_options *options,
                           struct lance_scan **out, struct lake_error *err);
void lance_scan_free(struct lance_scan *scan); /* after its tasks */
/* Borrowed: the projected columns, in the order asked for. */
const struct ArrowSchema *lance_scan_schema(const struct lance_scan *scan);
/* True when filter `index` is exact: every row of every batch satisfies it. */
bool lance_scan_filter_applied(const struct lance_scan *scan, size_t index);
size_t lance_scan_task_count(const struct lance_scan *scan);
/* Claims the next task; *out NULL when none is left. Thread-safe. */
lake_status lance_scan_next_task(struct lance_scan *scan, struct lance_task **out,
                                 struct lake_error *err);
uint64_t lance_task_index(const struct lance_task *task); /* ascending in row order */
/* The next batch of live rows that pass the applied filters, never empty (L15); *end when the task
 * is done. With no columns projected a batch is a struct array with a length and no children. */
lake_status lance_task_next(struct lance_task *task, struct ArrowArray *out, bool *end,
                            struct lake_error *err);
void lance_task_free(struct lance_task *task);

struct lance_scan_stats { /* of one scan so far; thread-safe to read */
    uint64_t bytes_read;
    uint64_t pages_read;   /* of data files and indices */
    uint64_t rows_scanned; /* those that were looked at */
    uint64_t indices_used; /* that said where rows may be */
};
void lance_scan_get_stats(const struct lance_scan *scan, struct lance_scan_stats *out);

/* A whole scan, in row order, as an Arrow stream. */
lake_status lance_scan_stream(struct lance_dataset *dataset,
                              const struct lance_scan_options *options,
                              struct ArrowArrayStream *out, struct lake_error *err);
/* The status that such a stream failed with; OK for one that did not, and for any other stream. */
lake_status lance_scan_stream_status(const struct ArrowArrayStream *stream);

/* ---- taking ---- */

enum lance_take_by {
    LANCE_TAKE_OFFSETS,   /* among the live rows, in scan order, from 0 */
    LANCE_TAKE_ADDRESSES, /* fragment id << 32 | offset in the fragment */
    LANCE_TAKE_IDS        /* stable row ids; addresses where the dataset has none */
};
/* Rows of a version, in the order given, also several times: one struct array of the columns, read
 * with few and small reads. `columns` are top-level columns in output order, or `column_count` is
 * LANCE_ALL_COLUMNS. INVALID_ARGUMENT for a column that there is not; OUT_OF_RANGE names a
 * row that is not there or was deleted; RESOURCE_EXHAUSTED above 1,048,576 rows. */
lake_status lance_take(struct lance_dataset *dataset, enum lance_take_by by, const uint64_t *rows,
                       size_t row_count, const uint32_t *columns, size_t column_count,
                       struct ArrowArray *out, struct lake_error *err);

/* ---- writing ---- */

struct lance_key_value {
    const char *key;
    const char *value;
};

struct lance_commit_options {
    const struct lance_key_value *properties; /* transaction properties, such as the operation ID */
    size_t property_count;
    /* Called after the transaction is durable and before the manifest of `version` is published;
     * again with the next number when another writer took that version. A failure ends the commit
     * with nothing visible. May be NULL. */
    lake_status (*before_publish)(void *context, uint64_t version, struct lake_error *err);
    void *context;
    uint32_t max_attempts; /* default 20 */
};
void lance_commit_options_init(struct lance_commit_options *options);

/* How values are encoded. A table keeps its profile in its configuration, every append follows it,
 * and a field's own `lance-encoding:` metadata goes above it. Any reader of Lance reads all. */
enum lance_profile {
    LANCE_PROFILE_BALANCED, /* the default: LZ4 where it saves much, for little decoding */
    LANCE_PROFILE_FAST,     /* nothing is compressed; bit packing, runs and dictionaries stay */
    LANCE_PROFILE_SMALL     /* Zstandard, and chunks four times as long */
};
#define LANCE_CONFIG_PROFILE "lake.profile" /* absent: balanced */
const char *lance_profile_name(enum lance_profile profile);
bool lance_profile_parse(const char *name, enum lance_profile *out);

struct lance_create_options {
    const char *storage_version; /* "2.1" or "2.2"; NULL (default): what an overwritten dataset has,
                                    "2.2" for a new one */
    enum lance_profile profile;  /* kept in the configuration unless it is the default */
    const struct lance_key_value *config;
    size_t config_count;
    struct lance_commit_options commit;
};
void lance_create_options_init(struct lance_create_options *options);
/* INVALID_ARGUMENT for a type that Lance cannot hold. */
lake_status lance_schema_check(const struct ArrowSchema *schema, const char *storage_version,
                               struct lake_error *err);
/* Version 1 of a new, empty dataset. ALREADY_EXISTS when there is one. */
lake_status lance_dataset_create(struct storage_store *store, const struct ArrowSchema *schema,
                                 const struct lance_create_options *options,
                                 struct lance_dataset **out, struct lake_error *err);

struct lance_append;
/* Starts data files for rows to be added to the table that `base` is a version of. */
lake_status lance_append_new(struct storage_store *store, struct lance_dataset *base,
                             struct lance_append **out, struct lake_error *err);
/* `batch` has the dataset's schema (same columns in the same order); borrowed during the call.
 * INVALID_ARGUMENT for a null in a column that is not nullable. */
lake_status lance_append_write(struct lance_append *append, const struct ArrowArray *batch,
                               struct lake_error *err);
/* Makes the rows durable and publishes them as one new version, rebased over versions committed
 * since `base` where Lance's conflict rules allow it (else ABORTED: retry from the newest version).
 * OUTCOME_UNKNOWN when the publication's result could not be learnt. */
lake_status lance_append_commit(struct lance_append *append,
                                const struct lance_commit_options *options, uint64_t *version,
                                struct lake_error *err);
void lance_append_free(struct lance_append *append); /* removes what was not committed */

enum lance_write_mode {
    LANCE_WRITE_CREATE,   /* ALREADY_EXISTS when there is a dataset */
    LANCE_WRITE_APPEND,   /* the input has the dataset's columns in their order */
    LANCE_WRITE_OVERWRITE /* the next version has this schema and these rows; older versions stay.
                             Indices go; configuration stays, with what the options add */
};
/* A stream as one version, whose number is *version. ABORTED: another writer was faster and what it
 * did forbids this on top. */
lake_status lance_write_stream(struct storage_store *store, struct ArrowArrayStream *stream,
                               const struct lance_create_options *options,
                               enum lance_write_mode mode, uint64_t *version,
                               struct lake_error *err);

/* ---- changing ---- */

/*
 * Each makes one version on top of the newest, beginning from what `base` says. ABORTED: another
 * writer committed meanwhile what does not go together with it (Lance's conflict matrix); the
 * message says whether doing it again from the newest version can help. OUTCOME_UNKNOWN as for
 * appends. `options` may be NULL.
 */
struct lance_change {
    uint64_t version;   /* base's, when there was nothing to change */
    uint64_t row_count; /* rows deleted or updated */
};

/* Deletes the rows for which all filters hold: by vectors beside the fragments, or the fragment
 * when no row of it is left. Indices stay valid. INVALID_ARGUMENT for a filter that cannot be
 * decided exactly. */
lake_status lance_delete(struct lance_dataset *base, const struct lance_filter *filters,
                         size_t filter_count, const struct lance_commit_options *options,
                         struct lance_change *out, struct lake_error *err);
/* The same by address (fragment id << 32 | offset). Rows that are deleted already do not count;
 * OUT_OF_RANGE for one that never was. */
lake_status lance_delete_addresses(struct lance_dataset *base, const uint64_t *addresses,
                                   size_t count, const struct lance_commit_options *options,
                                   struct lance_change *out, struct lake_error *err);

/* Gives the rows of `batch`, which has the table's columns, their new values: by replacing children
 * or the whole array. The number of rows stays. */
typedef lake_status (*lance_update_change)(void *context, struct ArrowArray *batch,
                                           struct lake_error *err);
/* Updates the rows for which all filters hold: deleted where they are, written anew as `change`
 * makes them. Stable row ids stay. The same filters and limits as for lance_delete; UNIMPLEMENTED
 * for a table with columns that are read but not written. */
lake_status lance_update(struct lance_dataset *base, const struct lance_filter *filters,
                         size_t filter_count, lance_update_change change, void *context,
                         const struct lance_commit_options *options, struct lance_change *out,
                         struct lake_error *err);

/* Gives `batch`, the rows of addresses [first, first + length), their new values. */
typedef lake_status (*lance_update_rows)(void *context, size_t first, struct ArrowArray *batch,
                                         struct lake_error *err);
/* The same by address: each once, ascending, and of a live row (else INVALID_ARGUMENT, and
 * OUT_OF_RANGE). */
lake_status lance_update_addresses(struct lance_dataset *base, const uint64_t *addresses,
                                   size_t count, lance_update_rows change, void *context,
                                   const struct lance_commit_options *options,
                                   struct lance_change *out, struct lake_error *err);

struct lance_merge_options {
    uint32_t key; /* the column by whose value rows are the same: integers, times, text, bytes */
    bool keep_matched; /* rows that are there stay as they are; default: they get the new values */
    bool skip_unmatched; /* rows that are not there are left out; default: they are inserted */
    struct lance_commit_options commit;
};
void lance_merge_options_init(struct lance_merge_options *options);
struct lance_merge {
    uint64_t version; /* base's, when there was nothing to change */
    uint64_t rows_updated;
    uint64_t rows_inserted;
};
/* Updates the rows that have a key of `batch` and inserts the others of it (an upsert). `batch` has
 * the table's columns; a null key is never the same. Of two such operations at once one is ABORTED,
 * so that no key comes twice (L09). INVALID_ARGUMENT for a key that the batch holds twice. Where
 * the table held a key twice, one row is left. */
lake_status lance_merge_insert(struct lance_dataset *base, const struct ArrowArray *batch,
                               const struct lance_merge_options *options, struct lance_merge *out,
                               struct lake_error *err);

struct lance_compact_options {
    uint64_t target_rows; /* fragments with fewer live rows are put together; default 1,048,576 */
    uint32_t deleted_percent; /* with more deleted rows a fragment is rewritten; default 10 */
    bool tiers;               /* only what lance_compaction_due means, whatever the two above are */
    /* Between two batches; false: CANCELLED. NULL: always on. */
    bool (*go_on)(void *context);
    void *context;
    struct lance_commit_options commit;
};
void lance_compact_options_init(struct lance_compact_options *options);
struct lance_compaction {
    uint64_t version; /* base's, when there was nothing to do */
    uint64_t fragments_removed;
    uint64_t fragments_added;
    uint64_t rows_rewritten;
    uint64_t rows_dropped; /* deleted ones */
};
/* Puts small neighbouring fragments together and drops deleted rows, as one version with the same
 * rows: those that were rewritten come behind those that were not, as the reference orders them.
 * Stable row ids stay; an index no longer covers what was rewritten, which is then read without it.
 * UNIMPLEMENTED for a table with columns that are read but not written. */
lake_status lance_compact(struct lance_dataset *base, const struct lance_compact_options *options,
                          struct lance_compaction *out, struct lake_error *err);

/* Whether many small fragments have come together that a compaction by tiers would make one (see
 * compact_tiers.c). Such a compaction rewrites at most about 2^20 rows or 1 GiB. */
lake_status lance_compaction_due(struct lance_dataset *dataset, bool *out, struct lake_error *err);

/* The content of an older version as the newest: schema, rows, indices, configuration. NOT_FOUND
 * when that version is not there. Never in conflict. */
lake_status lance_restore(struct lance_dataset *base, uint64_t version,
                          const struct lance_commit_options *options, uint64_t *new_version,
                          struct lake_error *err);

/* Top-level columns. Data files stay as they are. NOT_FOUND, ALREADY_EXISTS by name; an index on a
 * dropped column goes with it; the last column stays. */
lake_status lance_drop_column(struct lance_dataset *base, const char *name,
                              const struct lance_commit_options *options, uint64_t *version,
                              struct lake_error *err);
lake_status lance_rename_column(struct lance_dataset *base, const char *name, const char *new_name,
                                const struct lance_commit_options *options, uint64_t *version,
                                struct lake_error *err);
/* A nullable column, null in every row. INVALID_ARGUMENT for a type that Lance cannot hold. */
lake_status lance_add_column(struct lance_dataset *base, const struct ArrowSchema *column,
                             const struct lance_commit_options *options, uint64_t *version,
                             struct lake_error *err);

/* ---- tags ---- */

#define LANCE_REF_NAME_BYTES 512
struct lance_tag {
    char name[LANCE_REF_NAME_BYTES];
    char branch[LANCE_REF_NAME_BYTES]; /* empty: main */
    uint64_t version;
};
/* A tag names a version, which then stays when others are cleaned up. `root` is rooted at main's
 * directory; `branch` NULL: main. INVALID_ARGUMENT for a name that is none, NOT_FOUND for a version
 * or a tag that is not there, ALREADY_EXISTS for a tag that is. */
lake_status lance_tag_create(struct storage_store *root, const char *tag, const char *branch,
                             uint64_t version, struct lake_error *err);
lake_status lance_tag_update(struct storage_store *root, const char *tag, const char *branch,
                             uint64_t version, struct lake_error *err);
lake_status lance_tag_delete(struct storage_store *root, const char *tag, struct lake_error *err);
/* By name; base_free(*out). DATA_LOSS for a tag that cannot be read. */
lake_status lance_tags_list(struct storage_store *root, struct lance_tag **out, size_t *count,
                            struct lake_error *err);

/* ---- branches ---- */

struct lance_branch {
    char name[LANCE_REF_NAME_BYTES];
    char parent[LANCE_REF_NAME_BYTES]; /* empty: main */
    uint64_t parent_version;           /* as which it began */
    int64_t created_unix_s;
};
/* A branch begins as `version` of `parent` (NULL: main; version 0: the newest) and is a dataset of
 * its own from there, opened by lance_dataset_open_with; no data is copied. `out` may be NULL.
 * ALREADY_EXISTS, INVALID_ARGUMENT by name; FAILED_PRECONDITION when files of another dataset lie
 * in its place. */
lake_status lance_branch_create(struct storage_store *root, const char *branch, const char *parent,
                                uint64_t version, struct lance_branch *out, struct lake_error *err);
/* By name; base_free(*out). DATA_LOSS for a branch that cannot be read. */
lake_status lance_branches_list(struct storage_store *root, struct lance_branch **out,
                                size_t *count, struct lake_error *err);
/* Deletes a branch with its versions and files, and what a killed deletion of it left.
 * FAILED_PRECONDITION while a tag or another branch needs it. */
lake_status lance_branch_delete(struct storage_store *root, const char *branch,
                                struct lake_error *err);

/* ---- cleaning up ---- */

struct lance_cleanup_options {
    const char *branch;       /* NULL: main */
    int64_t older_than_ms;    /* younger versions stay; default 14 days */
    uint64_t retain_versions; /* and so many of the newest, whatever their age; the newest always */
    const uint64_t *versions; /* and these: what clones and readers that are known to us need */
    size_t version_count;
    int64_t grace_ms; /* files that no version refers to stay so long: some writer may be
                         about to; default 7 days */
    bool dry_run;     /* only counts */
    /* Called for each version that is about to go, ascending, with what its transaction says of
     * `property` (empty: nothing; without data: the transaction is not there any more). NULL: not
     * called. Never when only counting. */
    lake_status (*expires)(void *context, uint64_t version, struct lake_str value,
                           struct lake_error *err);
    const char *property;
    void *context;
};
void lance_cleanup_options_init(struct lance_cleanup_options *options);
struct lance_cleanup_stats {
    uint64_t versions_kept;
    uint64_t versions_removed;
    uint64_t files_removed;           /* besides manifests */
    uint64_t abandoned_files_removed; /* of these: no version ever referred to them */
    uint64_t files_in_grace;
    uint64_t bytes_removed;
};
/*
 * Removes old versions and the files that nothing needs any more. What the versions that stay,
 * tags, branches and `versions` reach is kept; a reference, a feature or a field of a kind that is
 * not known refuses the whole (UNIMPLEMENTED), and so does a manifest that cannot be read. Only
 * folders and names of the format are looked at. ABORTED: a version was tagged meanwhile. Killed at
 * any point, or failed, it leaves a table that is whole, and is simply done again. Memory: 16 bytes
 * a referred file, and one manifest.
 *
 * A shallow clone elsewhere is not known to its source: its version must be tagged or be among
 * `versions`. A restore of a version that is being removed may lose: tag it first.
 */
lake_status lance_cleanup(struct storage_store *root, const struct lance_cleanup_options *options,
                          struct lance_cleanup_stats *out, struct lake_error *err);

#endif
