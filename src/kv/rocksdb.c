/*
 * The RocksDB store.
 *
 * One thread at a time, the leader, takes the commits that have queued up, decides them one after
 * the other and writes those that hold as one batch with one sync; the others wait. So commits are
 * serial without a lock per key, conditions see the commits just before them (through the indexed
 * batch), and n threads on the same keys share a sync as well as n threads on different ones.
 * RocksDB's own transactions would share syncs only between disjoint keys, and locks by key would
 * be held across the sync.
 *
 * Every write goes through the log and is synced (M05, M06: nothing here ever turns the log off).
 */
#include "kv.h"
#include "kv_internal.h"

#include <rocksdb/c.h>
#include <string.h>

#define MEMTABLE_BYTES    ((size_t)16 * 1024 * 1024)
#define MAX_WAL_BYTES     ((uint64_t)64 * 1024 * 1024)
#define MAX_OPEN_FILES    256
#define MAX_GROUP_COMMITS 256
#define MAX_GROUP_BYTES   ((size_t)2 * KV_MAX_COMMIT_BYTES)

/* A call of kv_commit that waits; it lives on that call's stack. */
struct commit {
    const struct kv_condition *conditions;
    size_t condition_count;
    const struct kv_write *writes;
    size_t write_count;
    size_t *failed_condition;
    struct lake_error *err;
    lake_status status;
    bool written; /* is part of the batch */
    bool done;    /* guarded by the store's lock, as is `next` */
    struct commit *next;
};

struct rocks {
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_readoptions_t *read;
    rocksdb_writeoptions_t *write;
    char *directory;
    pthread_mutex_t lock; /* guards what follows; never held across I/O */
    pthread_cond_t decided;
    struct commit *first; /* the queue */
    struct commit *last;
    bool led;    /* some thread is the leader */
    bool broken; /* a write failed: memory and disk may differ until the next open */
};

/* Takes over RocksDB's message, which it frees. */
static lake_status fail_rocksdb(struct lake_error *err, char *message, const char *directory,
                                const char *what)
{
    lake_status code = LAKE_UNAVAILABLE;
    const char *advice = "";
    if (strncmp(message, "Corruption", strlen("Corruption")) == 0) {
        code = LAKE_DATA_LOSS;
        advice = "; do not delete files from it: restore the directory from a backup";
    } else if (strstr(message, "No space left on device") != NULL) {
        code = LAKE_RESOURCE_EXHAUSTED;
        advice = "; free some space and start again";
    }
    (void)lake_fail(err, code, "%s", message);
    code = lake_fail_wrap(err, code, "the database in %s cannot %s%s", directory, what, advice);
    rocksdb_free(message);
    return code;
}

static lake_status rocks_get(void *context, struct lake_bytes key, struct base_buffer *out,
                             struct lake_error *err)
{
    struct rocks *rocks = context;
    lake_status status = base_fault_io("kv.get", err);
    if (status != LAKE_OK)
        return status;
    char *problem = NULL;
    rocksdb_pinnableslice_t *slice =
        rocksdb_get_pinned(rocks->db, rocks->read, (const char *)key.data, key.size, &problem);
    if (problem != NULL)
        return fail_rocksdb(err, problem, rocks->directory, "be read");
    if (slice == NULL)
        return lake_fail(err, LAKE_NOT_FOUND, "the key is not in the database in %s",
                         rocks->directory);
    size_t size;
    const char *value = rocksdb_pinnableslice_value(slice, &size);
    status = base_buffer_append(out, value, size, err);
    rocksdb_pinnableslice_destroy(slice);
    return status;
}

/* The smallest key above every key with `prefix`; 0 bytes when there is none. */
static size_t prefix_end(struct lake_bytes prefix, uint8_t out[KV_MAX_KEY_BYTES])
{
    size_t size = prefix.size;
    while (size > 0 && prefix.data[size - 1] == 0xFF)
        size--;
    if (size == 0)
        return 0;
    memcpy(out, prefix.data, size);
    out[size - 1]++;
    return size;
}

static bool key_above(struct lake_bytes key, struct lake_bytes other)
{
    size_t shared = BASE_MIN(key.size, other.size);
    int order = shared == 0 ? 0 : memcmp(key.data, other.data, shared);
    return order > 0 || (order == 0 && key.size > other.size);
}

static lake_status fill_page(struct rocks *rocks, rocksdb_iterator_t *iterator,
                             struct lake_bytes start_after, struct kv_page_builder *builder,
                             struct lake_error *err)
{
    for (; rocksdb_iter_valid(iterator); rocksdb_iter_next(iterator)) {
        size_t size;
        const char *data = rocksdb_iter_key(iterator, &size);
        struct lake_bytes key = {(const uint8_t *)data, size};
        if (start_after.size > 0 && !key_above(key, start_after))
            continue; /* the start itself */
        data = rocksdb_iter_value(iterator, &size);
        bool full;
        lake_status status = kv_page_builder_add(
            builder, key, (struct lake_bytes){(const uint8_t *)data, size}, &full, err);
        if (status != LAKE_OK)
            return status;
        if (full)
            return LAKE_OK;
    }
    char *problem = NULL;
    rocksdb_iter_get_error(iterator, &problem);
    return problem == NULL ? LAKE_OK : fail_rocksdb(err, problem, rocks->directory, "be read");
}

/* An iterator sees one state of the database from its start to its end. */
static lake_status rocks_scan(void *context, struct lake_bytes prefix,
                              struct lake_bytes start_after, size_t limit, size_t max_bytes,
                              struct kv_page *out, struct lake_error *err)
{
    struct rocks *rocks = context;
    lake_status status = base_fault_io("kv.scan", err);
    if (status != LAKE_OK)
        return status;
    struct kv_page_builder builder;
    status = kv_page_builder_init(&builder, limit, max_bytes, err);
    if (status != LAKE_OK)
        return status;
    uint8_t end[KV_MAX_KEY_BYTES];
    size_t end_bytes = prefix_end(prefix, end);
    rocksdb_readoptions_t *read = rocksdb_readoptions_create();
    if (end_bytes > 0)
        rocksdb_readoptions_set_iterate_upper_bound(read, (const char *)end, end_bytes);
    rocksdb_iterator_t *iterator = rocksdb_create_iterator(rocks->db, read);
    struct lake_bytes start = key_above(start_after, prefix) ? start_after : prefix;
    if (start.size == 0)
        rocksdb_iter_seek_to_first(iterator);
    else
        rocksdb_iter_seek(iterator, (const char *)start.data, start.size);
    status = fill_page(rocks, iterator, start_after, &builder, err);
    rocksdb_iter_destroy(iterator);
    rocksdb_readoptions_destroy(read);
    if (status != LAKE_OK) {
        kv_page_fini(&builder.page);
        return status;
    }
    *out = builder.page;
    return LAKE_OK;
}

static lake_status check_condition(struct rocks *rocks, rocksdb_writebatch_wi_t *batch,
                                   const struct kv_condition *condition, bool *holds,
                                   struct lake_error *err)
{
    char *problem = NULL;
    size_t size = 0;
    char *value = rocksdb_writebatch_wi_get_from_batch_and_db(batch, rocks->db, rocks->read,
                                                              (const char *)condition->key.data,
                                                              condition->key.size, &size, &problem);
    if (problem != NULL)
        return fail_rocksdb(err, problem, rocks->directory, "be read");
    struct lake_bytes found = {(const uint8_t *)value, size};
    *holds = condition->kind == KV_ABSENT ? value == NULL
             : condition->kind == KV_PRESENT
                 ? value != NULL
                 : value != NULL && base_bytes_equal(found, condition->value);
    rocksdb_free(value);
    return LAKE_OK;
}

static lake_status fail_condition(const struct kv_condition *condition, size_t index,
                                  struct lake_error *err)
{
    static const char *const wanted[] = {
        [KV_ABSENT] = "absent", [KV_PRESENT] = "present", [KV_EQUALS] = "unchanged"};
    return lake_fail(err, LAKE_ABORTED,
                     "condition %zu of a commit does not hold: its key is not %s (any more); read "
                     "again and retry",
                     index, wanted[condition->kind]);
}

/* Decides one commit against the database with the batch on top, and adds it to the batch. */
static lake_status decide(struct rocks *rocks, rocksdb_writebatch_wi_t *batch,
                          struct commit *commit)
{
    for (size_t i = 0; i < commit->condition_count; i++) {
        bool holds = false;
        lake_status status =
            check_condition(rocks, batch, &commit->conditions[i], &holds, commit->err);
        if (status != LAKE_OK)
            return status;
        if (!holds) {
            if (commit->failed_condition != NULL)
                *commit->failed_condition = i;
            return fail_condition(&commit->conditions[i], i, commit->err);
        }
    }
    for (size_t i = 0; i < commit->write_count; i++) {
        const struct kv_write *write = &commit->writes[i];
        const char *key = (const char *)write->key.data;
        if (write->kind == KV_DELETE)
            rocksdb_writebatch_wi_delete(batch, key, write->key.size);
        else
            rocksdb_writebatch_wi_put(batch, key, write->key.size, (const char *)write->value.data,
                                      write->value.size);
        commit->written = true;
    }
    return LAKE_OK;
}

/* Gives every commit of the batch the outcome of its write; each has an error record of its own. */
static void fail_written(struct commit *group, lake_status code, const char *message)
{
    for (struct commit *commit = group; commit != NULL; commit = commit->next) {
        if (commit->written)
            commit->status = lake_fail(commit->err, code, "%s", message);
    }
}

/* A failed write may be in the log all the same and be found there at the next open, while memory
 * does not show it now: from here on conditions could be decided wrongly. */
static void write_batch(struct rocks *rocks, rocksdb_writebatch_wi_t *batch, struct commit *group)
{
    struct lake_error err = {.code = LAKE_OK};
    if (base_fault_io("kv.write", &err) != LAKE_OK) {
        fail_written(group, err.code, err.message);
        return;
    }
    char *problem = NULL;
    rocksdb_write_writebatch_wi(rocks->db, rocks->write, batch, &problem);
    if (problem != NULL) {
        (void)lake_fail(&err, LAKE_OUTCOME_UNKNOWN,
                        "a commit to the database in %s may or may not be on disk, and no more "
                        "are taken until it is opened again: %s",
                        rocks->directory, problem);
        rocksdb_free(problem);
        fail_written(group, err.code, err.message);
        (void)pthread_mutex_lock(&rocks->lock);
        rocks->broken = true;
        (void)pthread_mutex_unlock(&rocks->lock);
    } else if (BASE_FAULT("kv.written", &err) != LAKE_OK) {
        fail_written(group, LAKE_OUTCOME_UNKNOWN, err.message);
    }
}

static void lead(struct rocks *rocks, struct commit *group)
{
    rocksdb_writebatch_wi_t *batch = rocksdb_writebatch_wi_create(0, 1);
    for (struct commit *commit = group; commit != NULL; commit = commit->next)
        commit->status = decide(rocks, batch, commit);
    if (rocksdb_writebatch_wi_count(batch) > 0)
        write_batch(rocks, batch, group);
    rocksdb_writebatch_wi_destroy(batch);
}

static size_t commit_bytes(const struct commit *commit)
{
    size_t size_bytes = 0;
    for (size_t i = 0; i < commit->write_count; i++)
        size_bytes += commit->writes[i].key.size + commit->writes[i].value.size;
    return size_bytes;
}

/* Cuts the next group off the queue's front. The lock is held. */
static struct commit *take_group(struct rocks *rocks)
{
    struct commit *group = rocks->first;
    struct commit *end = group;
    size_t size_bytes = commit_bytes(end);
    for (size_t count = 1; end->next != NULL && count < MAX_GROUP_COMMITS; count++) {
        size_bytes += commit_bytes(end->next);
        if (size_bytes > MAX_GROUP_BYTES)
            break;
        end = end->next;
    }
    rocks->first = end->next;
    if (rocks->first == NULL)
        rocks->last = NULL;
    end->next = NULL;
    return group;
}

/* A commit may leave its caller's stack as soon as it is done and the lock is free. */
static void mark_done(struct commit *group)
{
    while (group != NULL) {
        struct commit *next = group->next;
        group->done = true;
        group = next;
    }
}

static lake_status rocks_commit(void *context, const struct kv_condition *conditions,
                                size_t condition_count, const struct kv_write *writes,
                                size_t write_count, size_t *failed_condition,
                                struct lake_error *err)
{
    struct rocks *rocks = context;
    struct commit commit = {.conditions = conditions,
                            .condition_count = condition_count,
                            .writes = writes,
                            .write_count = write_count,
                            .failed_condition = failed_condition,
                            .err = err};
    (void)pthread_mutex_lock(&rocks->lock);
    if (rocks->last == NULL)
        rocks->first = &commit;
    else
        rocks->last->next = &commit;
    rocks->last = &commit;
    while (!commit.done) {
        if (rocks->led) {
            (void)pthread_cond_wait(&rocks->decided, &rocks->lock);
            continue;
        }
        struct commit *group = take_group(rocks);
        if (rocks->broken) {
            for (struct commit *each = group; each != NULL; each = each->next)
                each->status =
                    lake_fail(each->err, LAKE_UNAVAILABLE,
                              "the database in %s takes no more commits since a write failed: "
                              "restart the process",
                              rocks->directory);
        } else {
            rocks->led = true;
            (void)pthread_mutex_unlock(&rocks->lock);
            lead(rocks, group);
            (void)pthread_mutex_lock(&rocks->lock);
            rocks->led = false;
        }
        mark_done(group);
        (void)pthread_cond_broadcast(&rocks->decided);
    }
    (void)pthread_mutex_unlock(&rocks->lock);
    return commit.status;
}

static void rocks_free(void *context)
{
    struct rocks *rocks = context;
    if (rocks->db != NULL)
        rocksdb_close(rocks->db);
    if (rocks->write != NULL)
        rocksdb_writeoptions_destroy(rocks->write);
    if (rocks->read != NULL)
        rocksdb_readoptions_destroy(rocks->read);
    if (rocks->options != NULL)
        rocksdb_options_destroy(rocks->options);
    (void)pthread_cond_destroy(&rocks->decided);
    (void)pthread_mutex_destroy(&rocks->lock);
    base_free(rocks->directory);
    base_free(rocks);
}

static const struct kv_methods rocks_methods = {
    .get = rocks_get,
    .scan = rocks_scan,
    .commit = rocks_commit,
    .free = rocks_free,
};

static lake_status make_options(struct rocks *rocks, struct lake_error *err)
{
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_paranoid_checks(options, 1);
    /* A record cut short at a log's end is what a kill leaves, and was never acknowledged (M04).
     * Damage anywhere else refuses to open; point-in-time recovery would drop what follows it. */
    rocksdb_options_set_wal_recovery_mode(options,
                                          rocksdb_tolerate_corrupted_tail_records_recovery);
    rocksdb_options_set_recycle_log_file_num(options, 0); /* old records would look like a tail */
    rocksdb_options_set_write_buffer_size(options, MEMTABLE_BYTES);
    rocksdb_options_set_max_total_wal_size(options, MAX_WAL_BYTES);
    rocksdb_options_set_max_open_files(options, MAX_OPEN_FILES);
    rocksdb_options_set_max_background_jobs(options, 2);
    rocksdb_options_set_compression(options, rocksdb_lz4_compression);
    rocksdb_options_set_info_log_level(options, 2 /* warnings */);
    rocksdb_options_set_max_log_file_size(options, 1024 * 1024);
    rocksdb_options_set_keep_log_file_num(options, 4);
    rocksdb_options_set_stats_dump_period_sec(options, 0);

    /* Finds a log that a restored disk snapshot lacks or cut (M07); the C interface has no setter.
     */
    rocks->options = rocksdb_options_create();
    char *problem = NULL;
    rocksdb_get_options_from_string(options, "track_and_verify_wals_in_manifest=true",
                                    rocks->options, &problem);
    rocksdb_options_destroy(options);
    if (problem != NULL)
        return fail_rocksdb(err, problem, rocks->directory, "be configured");
    rocks->read = rocksdb_readoptions_create();
    rocks->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(rocks->write, 1);
    return LAKE_OK;
}

static lake_status open_database(struct rocks *rocks, struct lake_error *err)
{
    lake_status status = base_make_directories(rocks->directory, err);
    if (status == LAKE_OK)
        status = base_fault_io("kv.open", err);
    if (status != LAKE_OK)
        return status;
    char *problem = NULL;
    rocks->db = rocksdb_open(rocks->options, rocks->directory, &problem);
    if (problem == NULL)
        return LAKE_OK;
    rocks->db = NULL;
    /* RocksDB locks the file LOCK; its two messages are for other processes and for this one. */
    bool other = strstr(problem, "While lock file") != NULL;
    if (!other && strstr(problem, "lock hold by current process") == NULL)
        return fail_rocksdb(err, problem, rocks->directory, "be opened");
    (void)lake_fail(err, LAKE_FAILED_PRECONDITION, "%s", problem);
    rocksdb_free(problem);
    return lake_fail_wrap(err, LAKE_FAILED_PRECONDITION,
                          "data directory %s is in use by %s: stop that first, or use another "
                          "directory",
                          rocks->directory, other ? "another process" : "this process already");
}

lake_status kv_rocksdb_open(const char *directory, struct kv_store **out, struct lake_error *err)
{
    struct rocks *rocks = base_calloc_array(1, sizeof(*rocks));
    if (rocks == NULL)
        return base_fail_no_memory(err, sizeof(*rocks));
    (void)pthread_mutex_init(&rocks->lock, NULL);
    (void)pthread_cond_init(&rocks->decided, NULL);
    rocks->directory = base_strdup(directory);
    lake_status status = rocks->directory == NULL ? base_fail_no_memory(err, strlen(directory) + 1)
                                                  : make_options(rocks, err);
    if (status == LAKE_OK)
        status = open_database(rocks, err);
    if (status != LAKE_OK) {
        rocks_free(rocks);
        return status;
    }
    return kv_store_new(&rocks_methods, rocks, out, err);
}
