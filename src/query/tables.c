/*
 * From a statement's references to exactly pinned, opened datasets (SQL-3, SQL-7).
 *
 * Registrations come from the directory in memory, versions from the table's manifests, read
 * strongly by probing upward from the last one seen. The incarnation in the manifest is the check
 * that the two belong together (DESIGN 7): on a mismatch or a missing table the directory is asked
 * anew, once.
 */
#include "query_internal.h"

#include <string.h>
#include <strings.h>

#define MANIFEST_CACHE_BYTES ((size_t)64 * 1024 * 1024)
#define OPEN_TABLES          1024 /* handles kept, least recently used out first */
#define BUCKETS              2048
#define INCARNATION_KEY      "lake.incarnation"

/* The newest version seen of a dataset. */
struct handle {
    struct storage_store *store;
    struct lance_dataset *newest;
    struct storage_object_info manifest;
};

/* The handle kept of one incarnation. */
struct open_table {
    struct open_table *next_in_bucket;
    struct open_table *newer, *older; /* by last use */
    char *incarnation;
    struct handle handle;
};

struct query_tables {
    struct lance_cache *cache;
    pthread_mutex_t lock;         /* guards everything below */
    struct storage_store *bucket; /* of all tables in S3; NULL: none was opened so far */
    struct open_table *buckets[BUCKETS];
    struct open_table *newest_used, *oldest_used;
    size_t count;
};

lake_status query_tables_new(struct query_tables **out, struct lake_error *err)
{
    struct query_tables *tables = base_calloc_array(1, sizeof(*tables));
    if (tables == NULL)
        return base_fail_no_memory(err, sizeof(*tables));
    lake_status status = lance_cache_new(MANIFEST_CACHE_BYTES, &tables->cache, err);
    if (status != LAKE_OK) {
        base_free(tables);
        return status;
    }
    pthread_mutex_init(&tables->lock, NULL);
    *out = tables;
    return LAKE_OK;
}

static struct handle handle_ref(const struct handle *handle)
{
    return (struct handle){storage_store_ref(handle->store), lance_dataset_ref(handle->newest),
                           handle->manifest};
}

static void handle_unref(struct handle *handle) /* an empty one, too */
{
    lance_dataset_unref(handle->newest);
    storage_store_unref(handle->store);
    *handle = (struct handle){0};
}

static void open_table_free(struct open_table *table)
{
    handle_unref(&table->handle);
    base_free(table->incarnation);
    base_free(table);
}

void query_tables_free(struct query_tables *tables)
{
    if (tables == NULL)
        return;
    for (struct open_table *table = tables->newest_used; table != NULL;) {
        struct open_table *older = table->older;
        open_table_free(table);
        table = older;
    }
    storage_store_unref(tables->bucket);
    pthread_mutex_destroy(&tables->lock);
    lance_cache_free(tables->cache);
    base_free(tables);
}

/* ---- the handles kept open ---- */

static struct open_table **bucket_link(struct query_tables *tables, struct lake_str incarnation)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < incarnation.size; i++)
        hash = (hash ^ (uint8_t)incarnation.data[i]) * 16777619u;
    struct open_table **link = &tables->buckets[hash % BUCKETS];
    while (*link != NULL && !base_str_equal_c(incarnation, (*link)->incarnation))
        link = &(*link)->next_in_bucket;
    return link;
}

static void unlink_use(struct query_tables *tables, struct open_table *table)
{
    *(table->newer != NULL ? &table->newer->older : &tables->newest_used) = table->older;
    *(table->older != NULL ? &table->older->newer : &tables->oldest_used) = table->newer;
}

static void link_newest(struct query_tables *tables, struct open_table *table)
{
    table->newer = NULL;
    table->older = tables->newest_used;
    *(table->older != NULL ? &table->older->newer : &tables->oldest_used) = table;
    tables->newest_used = table;
}

/* What is kept of an incarnation; empty when nothing is. */
static struct handle recall(struct query_tables *tables, struct lake_str incarnation)
{
    struct handle handle = {0};
    pthread_mutex_lock(&tables->lock);
    struct open_table *table = *bucket_link(tables, incarnation);
    if (table != NULL) {
        handle = handle_ref(&table->handle);
        unlink_use(tables, table);
        link_newest(tables, table);
    }
    pthread_mutex_unlock(&tables->lock);
    return handle;
}

/* Keeps a newer version; forgetting to (out of memory) only costs time. `replaced`: it is no newer
 * one, but what was kept is gone. */
static void remember(struct query_tables *tables, struct lake_str incarnation,
                     const struct handle *handle, bool replaced)
{
    struct open_table *evicted = NULL;
    struct handle former = {0};
    uint64_t version = lance_dataset_version(handle->newest);
    pthread_mutex_lock(&tables->lock);
    struct open_table **link = bucket_link(tables, incarnation);
    struct open_table *table = *link;
    if (table != NULL) {
        if (replaced || version > lance_dataset_version(table->handle.newest)) {
            former = table->handle;
            table->handle = handle_ref(handle);
        }
    } else if ((table = base_calloc_array(1, sizeof(*table))) != NULL) {
        table->incarnation = base_strndup(incarnation.data, incarnation.size);
        if (table->incarnation == NULL) {
            base_free(table);
        } else {
            table->handle = handle_ref(handle);
            *link = table;
            link_newest(tables, table);
            tables->count++;
        }
    }
    if (tables->count > OPEN_TABLES) {
        evicted = tables->oldest_used;
        *bucket_link(tables, base_str_of(evicted->incarnation)) = evicted->next_in_bucket;
        unlink_use(tables, evicted);
        tables->count--;
    }
    pthread_mutex_unlock(&tables->lock);
    handle_unref(&former);
    if (evicted != NULL)
        open_table_free(evicted);
}

/* ---- opening ---- */

/* One bucket, one set of connections and credentials (AUT-3), for all tables in S3. Borrowed. */
static lake_status open_bucket(struct query_tables *tables, struct lake_str uri,
                               struct storage_store **out, struct lake_error *err)
{
    struct storage_store *opened = NULL;
    lake_status status = LAKE_OK;
    pthread_mutex_lock(&tables->lock);
    bool there = tables->bucket != NULL;
    pthread_mutex_unlock(&tables->lock);
    if (!there)
        status = storage_open_uri(uri, false, NULL, &opened, err);
    if (status != LAKE_OK)
        return status;
    pthread_mutex_lock(&tables->lock);
    if (tables->bucket == NULL) {
        tables->bucket = opened;
        opened = NULL;
    }
    *out = tables->bucket;
    pthread_mutex_unlock(&tables->lock);
    storage_store_unref(opened); /* another thread was faster */
    if (!base_str_equal_c(uri, storage_store_uri(*out)))
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "the table lies in %.*s, this server's tables are in %s",
                         LAKE_STR_FMT(uri), storage_store_uri(*out));
    return LAKE_OK;
}

lake_status query_tables_store(struct query_tables *tables, struct lake_str location,
                               struct storage_store **out, struct lake_error *err)
{
    struct lake_str bucket;
    struct lake_str prefix;
    struct storage_store *whole;
    if (!storage_s3_uri_split(location, &bucket, &prefix))
        return storage_open_uri(location, false, NULL, out, err);
    struct lake_str uri = {location.data, (size_t)(bucket.data - location.data) + bucket.size};
    lake_status status = open_bucket(tables, uri, &whole, err);
    return status != LAKE_OK ? status : storage_child_open(whole, prefix, out, err);
}

static lake_status check_incarnation(const struct lance_dataset *dataset,
                                     struct lake_str incarnation, struct lake_error *err)
{
    const char *found = lance_dataset_config(dataset, INCARNATION_KEY);
    if (found != NULL && base_str_equal_c(incarnation, found))
        return LAKE_OK;
    return lake_fail(err, LAKE_FAILED_PRECONDITION,
                     "the files of the table are not those that are registered: it was dropped and "
                     "created again just now, or its directory was replaced");
}

static bool same_object(const struct storage_object_info *a, const struct storage_object_info *b)
{
    return a->size_bytes == b->size_bytes && a->modified_unix_ms == b->modified_unix_ms &&
           strcmp(a->version, b->version) == 0;
}

static lake_status open_checked(struct query_tables *tables, struct storage_store *store,
                                struct lake_str incarnation, bool cached, uint64_t version,
                                struct lance_dataset **out, struct lake_error *err)
{
    struct lance_dataset *opened = NULL;
    char *cache_key = base_strndup(incarnation.data, incarnation.size);
    if (cache_key == NULL)
        return base_fail_no_memory(err, incarnation.size);
    lake_status status =
        lance_dataset_open(store, tables->cache, cached ? cache_key : NULL, version, &opened, err);
    base_free(cache_key);
    if (status == LAKE_OK)
        status = check_incarnation(opened, incarnation, err);
    if (status != LAKE_OK) {
        lance_dataset_unref(opened);
        return status;
    }
    *out = opened;
    return LAKE_OK;
}

/* The store is opened anew each time: the one that is kept follows a directory which was moved
 * away. Versions only grow: a newest one below the one that is known, or another manifest under its
 * number, means that somebody replaced the directory, and that nothing of what is cached under the
 * incarnation's name speaks of it. */
static lake_status open_newest(struct query_tables *tables, struct lake_str location,
                               struct lake_str incarnation, struct lance_dataset **out,
                               struct lake_error *err)
{
    struct handle found = {0};
    struct handle known = recall(tables, incarnation);
    uint64_t version = 0;
    uint64_t known_version = known.newest == NULL ? 0 : lance_dataset_version(known.newest);
    lake_status status = query_tables_store(tables, location, &found.store, err);
    if (status == LAKE_OK)
        status = lance_latest_version(found.store, known_version, &version, &found.manifest, err);
    if (status != LAKE_OK)
        goto out;
    bool replaced = version <= known_version && !same_object(&found.manifest, &known.manifest);
    if (version == known_version && !replaced) {
        *out = lance_dataset_ref(known.newest); /* it was checked when it was opened */
        goto out;
    }
    status = open_checked(tables, found.store, incarnation, !replaced, version, &found.newest, err);
    if (status == LAKE_OK) {
        remember(tables, incarnation, &found, replaced);
        *out = lance_dataset_ref(found.newest);
    }
out:
    handle_unref(&found);
    handle_unref(&known);
    return status;
}

/* A version that a statement names: somebody else may have reclaimed it, although it is cached. */
static lake_status open_named(struct query_tables *tables, struct lake_str location,
                              struct lake_str incarnation, uint64_t version,
                              struct lance_dataset **out, struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct lance_dataset *opened = NULL;
    bool there = false;
    lake_status status = query_tables_store(tables, location, &store, err);
    if (status == LAKE_OK)
        status = open_checked(tables, store, incarnation, true, version, &opened, err);
    if (status == LAKE_OK)
        status = lance_dataset_exists(opened, &there, err);
    if (status == LAKE_OK && !there)
        status = lake_fail(err, LAKE_NOT_FOUND, "version %llu has been reclaimed",
                           (unsigned long long)version);
    if (status == LAKE_OK)
        *out = opened;
    else
        lance_dataset_unref(opened);
    storage_store_unref(store);
    return status;
}

/* One that a statement was planned on. */
static lake_status open_version(struct query_tables *tables, struct lake_str location,
                                struct lake_str incarnation, uint64_t version,
                                struct lance_dataset **out, struct lake_error *err)
{
    struct handle known = recall(tables, incarnation);
    lake_status status = LAKE_OK;
    if (known.newest != NULL && lance_dataset_version(known.newest) == version) {
        *out = lance_dataset_ref(known.newest);
        goto out;
    }
    if (known.store == NULL)
        status = query_tables_store(tables, location, &known.store, err);
    if (status == LAKE_OK)
        status = open_checked(tables, known.store, incarnation, true, version, out, err);
out:
    handle_unref(&known);
    return status;
}

/* ---- resolving ---- */

/* One answer for a hidden namespace, a missing table in it, and a forbidden one (SQL-7). */
static lake_status deny(const struct sql_table_ref *ref, struct lake_error *err)
{
    return lake_fail(err, LAKE_PERMISSION_DENIED,
                     "you may not read the table %s%s%s%s%s: name tables as namespace.table, and "
                     "ask for the namespace to be granted",
                     ref->catalog, ref->catalog[0] == '\0' ? "" : ".", ref->schema,
                     ref->schema[0] == '\0' ? "" : ".", ref->table);
}

static lake_status authorise(const struct rpc_principal *principal, const struct sql_table_ref *ref,
                             struct lake_error *err)
{
    if (ref->schema[0] == '\0')
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the table %s has no namespace: write it as namespace.table", ref->table);
    if (ref->catalog[0] != '\0' && strcasecmp(ref->catalog, QUERY_CATALOG) != 0)
        return deny(ref, err);
    if (!rpc_principal_may_use_namespace(principal, base_str_of(ref->schema)))
        return deny(ref, err);
    return LAKE_OK;
}

static lake_status not_found(const struct sql_table_ref *ref, struct lake_error *err)
{
    return lake_fail(err, LAKE_NOT_FOUND, "there is no table %s.%s", ref->schema, ref->table);
}

/* True for what a directory that is behind can cause. */
static bool may_be_stale(lake_status status)
{
    return status == LAKE_NOT_FOUND || status == LAKE_FAILED_PRECONDITION;
}

static lake_status copy_str(struct base_arena *memory, struct lake_str s, struct lake_str *out,
                            struct lake_error *err)
{
    char *copy = base_arena_strndup(memory, s.data, s.size);
    if (copy == NULL)
        return base_fail_no_memory(err, s.size);
    *out = (struct lake_str){copy, s.size};
    return LAKE_OK;
}

/* Makes the pin's strings `memory`'s own. */
static lake_status own_pin(struct base_arena *memory, struct query_pin *pin, struct lake_error *err)
{
    struct lake_str *const strings[] = {&pin->catalog,  &pin->schema, &pin->table,
                                        &pin->location, &pin->engine, &pin->incarnation};
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < BASE_ARRAY_LEN(strings) && status == LAKE_OK; i++)
        status = copy_str(memory, *strings[i], strings[i], err);
    return status;
}

/* By the table's name: where its files are is not the user's business. */
static lake_status explain(const struct sql_table_ref *ref, lake_status status,
                           struct lake_error *err)
{
    if (status == LAKE_NOT_FOUND && ref->at_version != 0)
        return lake_fail_wrap(err, status, "the table %s.%s has no version %llu (or no longer)",
                              ref->schema, ref->table, (unsigned long long)ref->at_version);
    if (status == LAKE_NOT_FOUND)
        return lake_fail_wrap(err, status,
                              "the table %s.%s is registered but its files are not there",
                              ref->schema, ref->table);
    if (status == LAKE_FAILED_PRECONDITION)
        return lake_fail_wrap(err, status,
                              "the files of the table %s.%s are not those that are registered: "
                              "either it was dropped and created again just now (run the statement "
                              "again), or another program replaced its directory",
                              ref->schema, ref->table);
    return status;
}

static lake_status resolve_one(struct query_server *server, const struct sql_table_ref *ref,
                               struct base_arena *memory, struct query_pin *pin,
                               struct lance_dataset **dataset, struct lake_error *err)
{
    const struct query_snapshot *snapshot = query_directory_snapshot(server->directory);
    const struct query_registration *found =
        query_snapshot_find(snapshot, base_str_of(ref->schema), base_str_of(ref->table));
    lake_status status = found == NULL ? not_found(ref, err) : LAKE_OK;
    if (status == LAKE_OK)
        status =
            ref->at_version == 0
                ? open_newest(server->tables, found->location, found->incarnation, dataset, err)
                : open_named(server->tables, found->location, found->incarnation, ref->at_version,
                             dataset, err);
    if (status != LAKE_OK && found != NULL)
        status = explain(ref, status, err);
    if (status == LAKE_OK) {
        *pin = (struct query_pin){.catalog = base_str_of(ref->catalog),
                                  .schema = base_str_of(ref->schema),
                                  .table = base_str_of(ref->table),
                                  .at_version = ref->at_version,
                                  .location = found->location,
                                  .engine = found->engine,
                                  .incarnation = found->incarnation,
                                  .version = lance_dataset_version(*dataset)};
        status = own_pin(memory, pin, err);
        if (status != LAKE_OK)
            lance_dataset_unref(*dataset);
    }
    query_snapshot_unref(snapshot);
    return status;
}

static lake_status resolved_new(size_t count, struct query_resolved *out, struct lake_error *err)
{
    *out = (struct query_resolved){0};
    lake_status status = base_arena_new((size_t)16 * 1024 * 1024, &out->memory, err);
    if (status != LAKE_OK)
        return status;
    out->tables = base_arena_calloc_array(out->memory, count + 1, sizeof(*out->tables));
    out->pins = base_arena_calloc_array(out->memory, count + 1, sizeof(*out->pins));
    if (out->tables == NULL || out->pins == NULL) {
        base_arena_free(out->memory);
        return base_fail_no_memory(err, count * sizeof(*out->tables));
    }
    return LAKE_OK;
}

/* The pin's strings come from base_arena_strndup: they end in NUL. */
static void add_table(struct query_resolved *resolved, struct lance_dataset *dataset)
{
    const struct query_pin *pin = &resolved->pins[resolved->count];
    resolved->tables[resolved->count++] = (struct sql_table){
        .catalog = QUERY_CATALOG,
        .schema = pin->schema.data,
        .table = pin->table.data,
        .at_version = pin->at_version,
        .dataset = dataset,
    };
}

lake_status query_tables_resolve(struct query_server *server, const struct rpc_principal *principal,
                                 const struct sql_references *references,
                                 struct query_resolved *out, struct lake_error *err)
{
    struct query_resolved resolved;
    for (size_t i = 0; i < references->count; i++) {
        lake_status status = authorise(principal, &references->refs[i], err);
        if (status != LAKE_OK)
            return status;
    }
    lake_status status = resolved_new(references->count, &resolved, err);
    if (status != LAKE_OK)
        return status;
    for (size_t i = 0; i < references->count && status == LAKE_OK; i++) {
        const struct sql_table_ref *ref = &references->refs[i];
        struct lance_dataset *dataset = NULL;
        status = resolve_one(server, ref, resolved.memory, &resolved.pins[i], &dataset, err);
        if (may_be_stale(status)) {
            status = query_directory_refresh(server->directory, err);
            if (status == LAKE_OK)
                status =
                    resolve_one(server, ref, resolved.memory, &resolved.pins[i], &dataset, err);
        }
        if (status == LAKE_OK)
            add_table(&resolved, dataset);
    }
    if (status != LAKE_OK) {
        query_resolved_fini(&resolved);
        return status;
    }
    *out = resolved;
    return LAKE_OK;
}

lake_status query_tables_reopen(struct query_server *server, const struct query_pin *pins,
                                size_t pin_count, struct query_resolved *out,
                                struct lake_error *err)
{
    struct query_resolved resolved;
    lake_status status = resolved_new(pin_count, &resolved, err);
    if (status != LAKE_OK)
        return status;
    for (size_t i = 0; i < pin_count && status == LAKE_OK; i++) {
        struct lance_dataset *dataset = NULL;
        struct query_pin *pin = &resolved.pins[i];
        *pin = pins[i];
        status = own_pin(resolved.memory, pin, err);
        if (status == LAKE_OK)
            status = open_version(server->tables, pin->location, pin->incarnation, pin->version,
                                  &dataset, err);
        if (status == LAKE_NOT_FOUND)
            status =
                lake_fail_wrap(err, LAKE_FAILED_PRECONDITION,
                               "version %llu of %s.%s, on which the statement was planned, "
                               "has been reclaimed: run the statement again",
                               (unsigned long long)pin->version, pin->schema.data, pin->table.data);
        if (status == LAKE_OK)
            add_table(&resolved, dataset);
    }
    if (status != LAKE_OK) {
        query_resolved_fini(&resolved);
        return status;
    }
    *out = resolved;
    return LAKE_OK;
}

void query_resolved_fini(struct query_resolved *resolved)
{
    for (size_t i = 0; i < resolved->count; i++)
        lance_dataset_unref(resolved->tables[i].dataset);
    base_arena_free(resolved->memory);
    *resolved = (struct query_resolved){0};
}
