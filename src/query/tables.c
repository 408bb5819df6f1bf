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
#define FILE_SCHEME          "file://"

/* The newest version seen of one incarnation. */
struct open_table {
    struct open_table *next_in_bucket;
    struct open_table *newer, *older; /* by last use */
    char *incarnation;
    struct storage_store *store;
    struct lance_dataset *newest;
};

struct query_tables {
    struct lance_cache *cache;
    pthread_mutex_t lock; /* guards everything below */
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

static void open_table_free(struct open_table *table)
{
    lance_dataset_unref(table->newest);
    storage_store_unref(table->store);
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

/* References to what is kept of an incarnation; both NULL when nothing is. */
static void recall(struct query_tables *tables, struct lake_str incarnation,
                   struct storage_store **store, struct lance_dataset **newest)
{
    *store = NULL;
    *newest = NULL;
    pthread_mutex_lock(&tables->lock);
    struct open_table *table = *bucket_link(tables, incarnation);
    if (table != NULL) {
        *store = storage_store_ref(table->store);
        *newest = lance_dataset_ref(table->newest);
        unlink_use(tables, table);
        link_newest(tables, table);
    }
    pthread_mutex_unlock(&tables->lock);
}

/* Keeps a newer version; forgetting to (out of memory) only costs time. */
static void remember(struct query_tables *tables, struct lake_str incarnation,
                     struct storage_store *store, struct lance_dataset *newest)
{
    struct open_table *evicted = NULL;
    struct lance_dataset *replaced = NULL;
    pthread_mutex_lock(&tables->lock);
    struct open_table **link = bucket_link(tables, incarnation);
    struct open_table *table = *link;
    if (table != NULL) {
        if (lance_dataset_version(newest) > lance_dataset_version(table->newest)) {
            replaced = table->newest;
            table->newest = lance_dataset_ref(newest);
        }
    } else if ((table = base_calloc_array(1, sizeof(*table))) != NULL) {
        table->incarnation = base_strndup(incarnation.data, incarnation.size);
        if (table->incarnation == NULL) {
            base_free(table);
        } else {
            table->store = storage_store_ref(store);
            table->newest = lance_dataset_ref(newest);
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
    lance_dataset_unref(replaced);
    if (evicted != NULL)
        open_table_free(evicted);
}

/* ---- opening ---- */

static lake_status open_store(struct lake_str location, struct storage_store **out,
                              struct lake_error *err)
{
    if (!base_str_has_prefix(location, FILE_SCHEME))
        return lake_fail(err, LAKE_UNIMPLEMENTED, "this server reads tables on local disks only");
    size_t scheme_bytes = sizeof(FILE_SCHEME) - 1;
    char *path = base_strndup(location.data + scheme_bytes, location.size - scheme_bytes);
    if (path == NULL)
        return base_fail_no_memory(err, location.size);
    lake_status status = storage_local_open(path, false, out, err);
    base_free(path);
    return status;
}

static lake_status check_incarnation(const struct lance_dataset *dataset,
                                     struct lake_str incarnation, struct lake_error *err)
{
    const char *found = lance_dataset_config(dataset, INCARNATION_KEY);
    if (found != NULL && base_str_equal_c(incarnation, found))
        return LAKE_OK;
    return lake_fail(err, LAKE_FAILED_PRECONDITION,
                     "the table was dropped and created again: run the statement again");
}

/* `version` 0: the newest. */
static lake_status open_version(struct query_tables *tables, struct lake_str location,
                                struct lake_str incarnation, uint64_t version,
                                struct lance_dataset **out, struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct lance_dataset *known = NULL;
    struct lance_dataset *opened = NULL;
    lake_status status = LAKE_OK;
    bool want_newest = version == 0;
    recall(tables, incarnation, &store, &known);
    if (store == NULL)
        status = open_store(location, &store, err);
    if (status == LAKE_OK && want_newest)
        status = lance_latest_version(store, known == NULL ? 0 : lance_dataset_version(known),
                                      &version, err);
    if (status == LAKE_OK && known != NULL && lance_dataset_version(known) == version) {
        *out = known; /* the incarnation was checked when it was opened */
        storage_store_unref(store);
        return LAKE_OK;
    }
    char *cache_key = base_strndup(incarnation.data, incarnation.size);
    if (status == LAKE_OK && cache_key == NULL)
        status = base_fail_no_memory(err, incarnation.size);
    if (status == LAKE_OK)
        status = lance_dataset_open(store, tables->cache, cache_key, version, &opened, err);
    if (status == LAKE_OK)
        status = check_incarnation(opened, incarnation, err);
    if (status == LAKE_OK && want_newest)
        remember(tables, incarnation, store, opened);
    base_free(cache_key);
    lance_dataset_unref(known);
    storage_store_unref(store);
    if (status != LAKE_OK) {
        lance_dataset_unref(opened);
        return status;
    }
    *out = opened;
    return LAKE_OK;
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

static lake_status resolve_one(struct query_server *server, const struct sql_table_ref *ref,
                               struct base_arena *memory, struct query_pin *pin,
                               struct lance_dataset **dataset, struct lake_error *err)
{
    const struct query_snapshot *snapshot = query_directory_snapshot(server->directory);
    const struct query_registration *found =
        query_snapshot_find(snapshot, base_str_of(ref->schema), base_str_of(ref->table));
    lake_status status = found == NULL ? not_found(ref, err) : LAKE_OK;
    if (status == LAKE_OK)
        status = open_version(server->tables, found->location, found->incarnation, ref->at_version,
                              dataset, err);
    if (status == LAKE_NOT_FOUND && found != NULL && ref->at_version != 0)
        status = lake_fail_wrap(err, LAKE_NOT_FOUND,
                                "the table %s.%s has no version %llu (or no longer)", ref->schema,
                                ref->table, (unsigned long long)ref->at_version);
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
