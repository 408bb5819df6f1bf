/*
 * kv: an ordered key-value store with conditional transactions over several keys.
 *
 * Keys and values are byte strings; keys order by memcmp. A commit checks all its conditions and
 * applies all its writes, or nothing. What has been committed is on disk before the call returns
 * (M05). Thread rule: a kv handle is shared freely between threads.
 */
#ifndef KV_KV_H
#define KV_KV_H

#include <base/base.h>

#define KV_MAX_KEY_BYTES         1024
#define KV_MAX_VALUE_BYTES       (4 * 1024 * 1024)
#define KV_MAX_COMMIT_OPERATIONS 100
#define KV_MAX_COMMIT_BYTES      (16 * 1024 * 1024) /* keys and values of one commit together */
#define KV_MAX_SCAN              1000

struct kv_store;

struct kv_methods; /* RocksDB here, DynamoDB beside it: see kv_internal.h */

/* Opens (and creates, with the directories above it) a RocksDB database in `directory`.
 * FAILED_PRECONDITION when another process has it open; DATA_LOSS when it is damaged beyond a torn
 * tail. */
lake_status kv_rocksdb_open(const char *directory, struct kv_store **out, struct lake_error *err);
void kv_close(struct kv_store *store); /* NULL is allowed */

/* NOT_FOUND when the key is absent. `out` is cleared first and owns the bytes. */
lake_status kv_get(struct kv_store *store, struct lake_bytes key, struct base_buffer *out,
                   struct lake_error *err);

struct kv_pair {
    struct lake_bytes key;
    struct lake_bytes value;
};
struct kv_page {
    struct kv_pair *pairs; /* ascending by key */
    size_t count;
    bool more;
    struct base_arena *memory; /* owns everything above */
};
/* Up to `limit` (1..=1000) pairs whose key starts with `prefix` and is greater than `start_after`
 * (empty: from the first), at most `max_bytes` of keys and values but at least one pair. One page
 * is a consistent view; several are not. */
lake_status kv_scan(struct kv_store *store, struct lake_bytes prefix, struct lake_bytes start_after,
                    size_t limit, size_t max_bytes, struct kv_page *out, struct lake_error *err);
void kv_page_fini(struct kv_page *page);

enum kv_condition_kind {
    KV_ABSENT,
    KV_PRESENT,
    KV_EQUALS
};
enum kv_write_kind {
    KV_PUT,
    KV_DELETE
};
struct kv_condition {
    enum kv_condition_kind kind;
    struct lake_bytes key;
    struct lake_bytes value; /* for KV_EQUALS */
};
struct kv_write {
    enum kv_write_kind kind;
    struct lake_bytes key;
    struct lake_bytes value; /* for KV_PUT */
};
/* ABORTED when a condition does not hold; `failed_condition` (may be NULL) then tells which. At
 * most KV_MAX_COMMIT_OPERATIONS conditions and writes together, a key written at most once
 * (DynamoDB's rule). Several threads' commits share disk syncs. OUTCOME_UNKNOWN when the store
 * cannot tell whether it happened; a RocksDB store then takes no more commits (UNAVAILABLE) until
 * it is opened again. */
lake_status kv_commit(struct kv_store *store, const struct kv_condition *conditions,
                      size_t condition_count, const struct kv_write *writes, size_t write_count,
                      size_t *failed_condition, struct lake_error *err);

#endif
