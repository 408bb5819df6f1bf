/*
 * Compaction in the background: one thread a process, so that a table which is appended to for
 * years stays as quick as on its first day.
 *
 * Every operation on rows offers the version that it opened; what is due (lance's compact_tiers.c)
 * waits here, in order, each table once. Nothing of it is on disk: after a start, or when the list
 * was full, the table's next append offers it again. A table whose compaction failed rests, so that
 * what cannot be compacted is not tried with every append.
 *
 * It gives way: half of the time it sleeps, to a drop or to somebody else's maintenance of the
 * table it yields at once, and appends wait only while its version is published.
 */
#include "meta_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_WAITING  64
#define REST_US      (60 * 1000000LL)
#define MAX_SLEEP_MS 100

enum state {
    WAITING,
    RUNNING,
    RESTING
};

struct entry {
    struct meta_name name;
    enum state state;
    int64_t rests_until_us;
};

struct meta_compactor {
    struct meta_authority *authority;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    bool stopping;
    struct entry entries[MAX_WAITING];
    size_t count;
};

/* ---- the list ---- */

static void take_out(struct meta_compactor *compactor, size_t index)
{
    memmove(&compactor->entries[index], &compactor->entries[index + 1],
            (--compactor->count - index) * sizeof(compactor->entries[0]));
}

static void forget_rested(struct meta_compactor *compactor)
{
    int64_t now_us = base_clock_monotonic_us();
    for (size_t i = compactor->count; i-- > 0;) {
        const struct entry *entry = &compactor->entries[i];
        if (entry->state == RESTING && entry->rests_until_us <= now_us)
            take_out(compactor, i);
    }
}

static struct entry *find_entry(struct meta_compactor *compactor, const struct meta_name *name)
{
    for (size_t i = 0; i < compactor->count; i++) {
        struct entry *entry = &compactor->entries[i];
        if (strcmp(entry->name.table_key, name->table_key) == 0 &&
            strcmp(entry->name.namespace_key, name->namespace_key) == 0)
            return entry;
    }
    return NULL;
}

static bool is_known(struct meta_compactor *compactor, const struct meta_name *name)
{
    pthread_mutex_lock(&compactor->lock);
    forget_rested(compactor);
    bool known = compactor->stopping || compactor->count == MAX_WAITING ||
                 find_entry(compactor, name) != NULL;
    pthread_mutex_unlock(&compactor->lock);
    return known;
}

void meta_compactor_offer(struct meta_compactor *compactor, const struct meta_name *name,
                          struct lance_dataset *newest)
{
    bool due = false;
    if (compactor == NULL || is_known(compactor, name) ||
        lance_compaction_due(newest, &due, NULL) != LAKE_OK || !due)
        return;
    pthread_mutex_lock(&compactor->lock);
    if (compactor->count < MAX_WAITING && find_entry(compactor, name) == NULL) {
        compactor->entries[compactor->count++] = (struct entry){.name = *name};
        pthread_cond_signal(&compactor->changed);
    }
    pthread_mutex_unlock(&compactor->lock);
}

/* Waits for one; false: the end. */
static bool next_table(struct meta_compactor *compactor, struct meta_name *out)
{
    bool found = false;
    pthread_mutex_lock(&compactor->lock);
    while (!found && !compactor->stopping) {
        for (size_t i = 0; i < compactor->count && !found; i++) {
            struct entry *entry = &compactor->entries[i];
            found = entry->state == WAITING;
            if (found) {
                entry->state = RUNNING;
                *out = entry->name;
            }
        }
        if (!found)
            pthread_cond_wait(&compactor->changed, &compactor->lock);
    }
    pthread_mutex_unlock(&compactor->lock);
    return found;
}

static void end_table(struct meta_compactor *compactor, const struct meta_name *name, bool rests)
{
    pthread_mutex_lock(&compactor->lock);
    struct entry *entry = find_entry(compactor, name);
    if (rests) {
        entry->state = RESTING;
        entry->rests_until_us = base_clock_monotonic_us() + REST_US;
    } else {
        take_out(compactor, (size_t)(entry - compactor->entries));
    }
    pthread_mutex_unlock(&compactor->lock);
}

/* ---- the work ---- */

struct work {
    struct meta_compactor *compactor;
    struct meta_claim claim; /* of the table's maintenance */
    int64_t since_us;
};

static bool is_stopping(void *context)
{
    struct meta_compactor *compactor = context;
    pthread_mutex_lock(&compactor->lock);
    bool stopping = compactor->stopping;
    pthread_mutex_unlock(&compactor->lock);
    return stopping;
}

static bool go_on(void *context)
{
    struct work *work = context;
    int64_t worked_ms = (base_clock_monotonic_us() - work->since_us) / 1000;
    base_sleep_ms(BASE_MIN(worked_ms, MAX_SLEEP_MS));
    work->since_us = base_clock_monotonic_us();
    return !is_stopping(work->compactor) &&
           !meta_gate_is_awaited(&work->compactor->authority->gates, &work->claim);
}

static void say(const struct meta_name *name, const struct lance_compaction *done)
{
    char version[24];
    char removed[24];
    char rows[24];
    (void)snprintf(version, sizeof(version), "%" PRIu64, done->version);
    (void)snprintf(removed, sizeof(removed), "%" PRIu64, done->fragments_removed);
    (void)snprintf(rows, sizeof(rows), "%" PRIu64, done->rows_rewritten);
    base_log(BASE_LOG_INFO, "compacted a table that grew", "namespace", name->namespace_name,
             "table", name->table, "version", version, "fragments", removed, "rows", rows, NULL);
}

/* One compaction; *more: it was of use, and there may be another one to do. */
static lake_status compact_once(struct meta_compactor *compactor, const struct meta_name *name,
                                bool *more, struct lake_error *err)
{
    struct meta_authority *authority = compactor->authority;
    struct work work = {.compactor = compactor, .since_us = base_clock_monotonic_us()};
    const struct meta_wait wait = {INT64_MAX, is_stopping, compactor};
    const struct meta_wait at_once = {0, NULL, NULL};
    const struct meta_compaction how = {
        .wait = &wait, .tiers = true, .go_on = go_on, .context = &work};
    struct lance_compaction done;
    *more = false;
    lake_status status = meta_maintenance_enter(authority, name, &at_once, &work.claim, err);
    if (status != LAKE_OK)
        return lake_fail(err, LAKE_CANCELLED, "others are at work on the table's files");
    status = meta_compact_held(authority, name, &how, &done, err);
    meta_gate_leave(&authority->gates, &work.claim);
    *more = status == LAKE_OK && done.fragments_removed > 0;
    if (*more)
        say(name, &done);
    return status;
}

static void *work_off(void *context)
{
    struct meta_compactor *compactor = context;
    struct meta_name name;
    while (next_table(compactor, &name)) {
        struct lake_error err = {.code = LAKE_OK};
        lake_status status = LAKE_OK;
        bool more = true;
        while (more && !is_stopping(compactor))
            status = compact_once(compactor, &name, &more, &err);
        /* Dropped, or in somebody else's hands, or told to stop: nothing to speak of. */
        if (status != LAKE_OK && status != LAKE_NOT_FOUND && status != LAKE_CANCELLED)
            base_log(BASE_LOG_WARN, "a table that grew could not be compacted", "namespace",
                     name.namespace_name, "table", name.table, "reason", err.message, NULL);
        end_table(compactor, &name, status != LAKE_OK && status != LAKE_NOT_FOUND);
    }
    return NULL;
}

lake_status meta_compactor_start(struct meta_authority *authority, struct meta_compactor **out,
                                 struct lake_error *err)
{
    struct meta_compactor *compactor = base_calloc_array(1, sizeof(*compactor));
    if (compactor == NULL)
        return base_fail_no_memory(err, sizeof(*compactor));
    compactor->authority = authority;
    pthread_mutex_init(&compactor->lock, NULL);
    pthread_cond_init(&compactor->changed, NULL);
    int failed = pthread_create(&compactor->thread, NULL, work_off, compactor);
    if (failed != 0) {
        pthread_cond_destroy(&compactor->changed);
        pthread_mutex_destroy(&compactor->lock);
        base_free(compactor);
        return base_fail_errno(err, failed, "cannot start the thread of compactions");
    }
    *out = compactor;
    return LAKE_OK;
}

void meta_compactor_halt(struct meta_compactor *compactor)
{
    if (compactor == NULL)
        return;
    pthread_mutex_lock(&compactor->lock);
    compactor->stopping = true;
    pthread_cond_signal(&compactor->changed);
    pthread_mutex_unlock(&compactor->lock);
}

void meta_compactor_free(struct meta_compactor *compactor)
{
    if (compactor == NULL)
        return;
    meta_compactor_halt(compactor);
    pthread_join(compactor->thread, NULL);
    pthread_cond_destroy(&compactor->changed);
    pthread_mutex_destroy(&compactor->lock);
    base_free(compactor);
}
