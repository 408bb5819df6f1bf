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

struct storage_store;
struct storage_writer;

bool storage_key_valid(struct lake_str key);

struct storage_object_info {
    uint64_t size_bytes;
    int64_t modified_unix_ms;
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

/* One implementation each: local directory, S3, and faulty stores in tests. `context` is the
 * implementation's; every function may be called from several threads. */
struct storage_methods {
    lake_status (*stat)(void *context, struct lake_str key, struct storage_object_info *out,
                        struct lake_error *err);
    lake_status (*read_range)(void *context, struct lake_str key, uint64_t offset,
                              size_t size_bytes, uint8_t *out, struct lake_error *err);
    lake_status (*put)(void *context, struct lake_str key, struct lake_bytes data,
                       bool only_if_absent, struct lake_error *err);
    /* May be NULL: put does. */
    lake_status (*put_unsynced)(void *context, struct lake_str key, struct lake_bytes data,
                                struct lake_error *err);
    lake_status (*writer_open)(void *context, struct lake_str key, bool only_if_absent,
                               void **writer, struct lake_error *err);
    lake_status (*writer_write)(void *writer, struct lake_bytes data, struct lake_error *err);
    lake_status (*writer_commit)(void *writer, struct lake_error *err); /* releases the writer */
    void (*writer_abort)(void *writer);                                 /* releases the writer */
    lake_status (*remove)(void *context, struct lake_str key, struct lake_error *err);
    lake_status (*list)(void *context, struct lake_str prefix, struct lake_str start_after,
                        size_t limit, struct storage_list_page *out, struct lake_error *err);
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

/* Removes temporary files that killed processes left in a local store (or a child of one) and that
 * are older than `age_ms`; those a live writer holds stay whatever their age. */
lake_status storage_local_sweep(struct storage_store *store, int64_t age_ms, uint64_t *removed,
                                struct lake_error *err);

/* How many fsync calls this process's local stores have made; tests and `make bench` read it. */
uint64_t storage_fsync_count(void);

#endif
