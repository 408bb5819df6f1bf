/*
 * The catalog in memory (CAT-1): one immutable snapshot, replaced when Metasrv's directory has
 * another generation. A thread asks with what it has, so an unchanged directory costs a few bytes;
 * listings cost no call at all (CAT-3). Statements do not rely on its freshness: the incarnation in
 * a table's manifest is checked, and a miss asks Metasrv at once.
 */
#include "query_internal.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define REFRESH_INTERVAL_MS    500
#define MAX_SNAPSHOT_BYTES     ((size_t)64 * 1024 * 1024 + 65536)
#define FIRST_SNAPSHOT_WAIT_MS 10000

struct snapshot {
    struct query_snapshot view; /* first: handed out as this */
    atomic_uint references;
    LakePb__CatalogSnapshotReply *reply; /* owns what the view shows */
    struct query_registration *registrations;
};

struct query_directory {
    struct query_metasrv *metasrv;
    pthread_mutex_t lock; /* guards current, stopping */
    pthread_cond_t stop;
    struct snapshot *current;
    bool stopping;
    pthread_mutex_t refreshing; /* one request at a time; taken before lock, held across the call */
    pthread_t thread;
    bool thread_started;
};

static struct lake_str view(ProtobufCBinaryData data)
{
    return (struct lake_str){(const char *)data.data, data.len};
}

static int compare_folded(struct lake_str a, struct lake_str b)
{
    int order = strncasecmp(a.data == NULL ? "" : a.data, b.data == NULL ? "" : b.data,
                            BASE_MIN(a.size, b.size));
    if (order != 0)
        return order;
    return (a.size > b.size) - (a.size < b.size);
}

static int compare_names(struct lake_str namespace_a, struct lake_str table_a,
                         struct lake_str namespace_b, struct lake_str table_b)
{
    int order = compare_folded(namespace_a, namespace_b);
    return order != 0 ? order : compare_folded(table_a, table_b);
}

static int compare_registrations(const void *a, const void *b)
{
    const struct query_registration *left = a;
    const struct query_registration *right = b;
    return compare_names(left->namespace_name, left->table, right->namespace_name, right->table);
}

static void snapshot_free(struct snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    lake_pb__catalog_snapshot_reply__free_unpacked(snapshot->reply, NULL);
    base_free(snapshot->registrations);
    base_free(snapshot);
}

/* Takes `reply` over. */
static lake_status snapshot_new(LakePb__CatalogSnapshotReply *reply, struct snapshot **out,
                                struct lake_error *err)
{
    struct snapshot *snapshot = base_calloc_array(1, sizeof(*snapshot));
    size_t count = reply->n_tables;
    struct query_registration *tables =
        base_calloc_array(count + 1, sizeof(struct query_registration));
    if (snapshot == NULL || tables == NULL) {
        base_free(snapshot);
        base_free(tables);
        lake_pb__catalog_snapshot_reply__free_unpacked(reply, NULL);
        return base_fail_no_memory(err, count * sizeof(*tables));
    }
    for (size_t i = 0; i < count; i++) {
        const LakePb__Registration *table = reply->tables[i];
        tables[i] = (struct query_registration){
            .namespace_name =
                table->name == NULL ? LAKE_STR("") : view(table->name->namespace_name),
            .table = table->name == NULL ? LAKE_STR("") : view(table->name->table),
            .location = view(table->location),
            .engine = view(table->engine),
            .incarnation = view(table->incarnation),
            .schema_ipc = {table->schema_ipc.data, table->schema_ipc.len},
        };
    }
    qsort(tables, count, sizeof(*tables), compare_registrations);
    snapshot->reply = reply;
    snapshot->registrations = tables;
    snapshot->view =
        (struct query_snapshot){tables, count, view(reply->authority), reply->generation};
    atomic_init(&snapshot->references, 1);
    *out = snapshot;
    return LAKE_OK;
}

const struct query_snapshot *query_directory_snapshot(struct query_directory *directory)
{
    pthread_mutex_lock(&directory->lock);
    struct snapshot *snapshot = directory->current;
    atomic_fetch_add(&snapshot->references, 1);
    pthread_mutex_unlock(&directory->lock);
    return &snapshot->view;
}

void query_snapshot_unref(const struct query_snapshot *snapshot)
{
    struct snapshot *owner = (struct snapshot *)(uintptr_t)snapshot;
    if (owner != NULL && atomic_fetch_sub(&owner->references, 1) == 1)
        snapshot_free(owner);
}

const struct query_registration *query_snapshot_find(const struct query_snapshot *snapshot,
                                                     struct lake_str namespace_name,
                                                     struct lake_str table)
{
    size_t low = 0;
    size_t high = snapshot->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct query_registration *found = &snapshot->tables[middle];
        int order = compare_names(found->namespace_name, found->table, namespace_name, table);
        if (order == 0)
            return found;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Asks with what is known. *out stays NULL when nothing has changed. */
static lake_status fetch(struct query_directory *directory, const struct query_snapshot *known,
                         struct snapshot **out, struct lake_error *err)
{
    LakePb__CatalogSnapshotRequest request = LAKE_PB__CATALOG_SNAPSHOT_REQUEST__INIT;
    struct base_buffer body;
    struct base_buffer reply;
    base_buffer_init(&body, 4096);
    base_buffer_init(&reply, MAX_SNAPSHOT_BYTES);
    if (known != NULL) {
        request.has_known_authority = request.has_known_generation = 1;
        request.known_authority.data = (uint8_t *)(uintptr_t)known->authority.data;
        request.known_authority.len = known->authority.size;
        request.known_generation = known->generation;
    }
    lake_status status = base_buffer_reserve(
        &body, lake_pb__catalog_snapshot_request__get_packed_size(&request), err);
    if (status == LAKE_OK) {
        body.size = lake_pb__catalog_snapshot_request__pack(&request, body.data);
        status = query_metasrv_action(directory->metasrv, NULL, "lake.catalog_snapshot",
                                      base_buffer_view(&body), &reply, err);
    }
    if (status == LAKE_OK) {
        LakePb__CatalogSnapshotReply *message =
            lake_pb__catalog_snapshot_reply__unpack(NULL, reply.size, reply.data);
        if (message == NULL)
            status = lake_fail(err, LAKE_INTERNAL, "Metasrv's catalog snapshot cannot be read");
        else if (message->not_modified)
            lake_pb__catalog_snapshot_reply__free_unpacked(message, NULL);
        else
            status = snapshot_new(message, out, err);
    }
    base_buffer_fini(&body);
    base_buffer_fini(&reply);
    return status;
}

lake_status query_directory_refresh(struct query_directory *directory, struct lake_error *err)
{
    struct snapshot *fresh = NULL;
    const struct query_snapshot *known = NULL;
    pthread_mutex_lock(&directory->refreshing);
    if (directory->current != NULL) /* only this function, under `refreshing`, writes it */
        known = query_directory_snapshot(directory);
    lake_status status = fetch(directory, known, &fresh, err);
    query_snapshot_unref(known);
    if (status == LAKE_OK && fresh != NULL) {
        pthread_mutex_lock(&directory->lock);
        struct snapshot *old = directory->current;
        directory->current = fresh;
        pthread_mutex_unlock(&directory->lock);
        query_snapshot_unref(old == NULL ? NULL : &old->view);
    }
    pthread_mutex_unlock(&directory->refreshing);
    return status;
}

static void *follow(void *context)
{
    struct query_directory *directory = context;
    bool reachable = true;
    pthread_mutex_lock(&directory->lock);
    while (!directory->stopping) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += REFRESH_INTERVAL_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&directory->stop, &directory->lock, &until);
        if (directory->stopping)
            break;
        pthread_mutex_unlock(&directory->lock);
        struct lake_error error = {0};
        bool fetched = query_directory_refresh(directory, &error) == LAKE_OK;
        if (fetched != reachable)
            base_log(fetched ? BASE_LOG_INFO : BASE_LOG_WARN,
                     fetched ? "metasrv is reachable again"
                             : "metasrv is not reachable; listings are served from memory",
                     "error", error.message, NULL);
        reachable = fetched;
        pthread_mutex_lock(&directory->lock);
    }
    pthread_mutex_unlock(&directory->lock);
    return NULL;
}

static lake_status first_snapshot(struct query_directory *directory, struct lake_error *err)
{
    int64_t give_up_us = base_clock_monotonic_us() + FIRST_SNAPSHOT_WAIT_MS * 1000LL;
    for (;;) {
        lake_status status = query_directory_refresh(directory, err);
        if (status != LAKE_UNAVAILABLE || base_clock_monotonic_us() > give_up_us)
            return status;
        base_sleep_ms(100);
    }
}

lake_status query_directory_open(struct query_metasrv *metasrv, struct query_directory **out,
                                 struct lake_error *err)
{
    struct query_directory *directory = base_calloc_array(1, sizeof(*directory));
    if (directory == NULL)
        return base_fail_no_memory(err, sizeof(*directory));
    directory->metasrv = metasrv;
    pthread_mutex_init(&directory->lock, NULL);
    pthread_mutex_init(&directory->refreshing, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&directory->stop, &monotonic);
    pthread_condattr_destroy(&monotonic);
    lake_status status = first_snapshot(directory, err);
    if (status == LAKE_OK && directory->current == NULL)
        status = lake_fail(err, LAKE_INTERNAL, "Metasrv answered no catalog snapshot");
    if (status == LAKE_OK) {
        int failed = pthread_create(&directory->thread, NULL, follow, directory);
        directory->thread_started = failed == 0;
        if (failed != 0)
            status = base_fail_errno(err, failed, "cannot start the catalog's thread");
    }
    if (status != LAKE_OK) {
        query_directory_free(directory);
        return status;
    }
    *out = directory;
    return LAKE_OK;
}

void query_directory_free(struct query_directory *directory)
{
    if (directory == NULL)
        return;
    pthread_mutex_lock(&directory->lock);
    directory->stopping = true;
    pthread_cond_signal(&directory->stop);
    pthread_mutex_unlock(&directory->lock);
    if (directory->thread_started)
        pthread_join(directory->thread, NULL);
    if (directory->current != NULL)
        query_snapshot_unref(&directory->current->view);
    pthread_cond_destroy(&directory->stop);
    pthread_mutex_destroy(&directory->lock);
    pthread_mutex_destroy(&directory->refreshing);
    base_free(directory);
}
