/*
 * What tables there are: pages, the newest versions, whole snapshots (CAT-2). Registrations are
 * passed on as stored; only those that the identity may see are looked at.
 */
#include "meta_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_MAX_BYTES       (3u * 1024 * 1024) /* below what gRPC clients take by default */
#define SNAPSHOT_GATE        "snapshot"         /* one full snapshot a process at a time */
#define SNAPSHOT_WAIT_MS     1000
#define SNAPSHOT_ATTEMPTS    5
#define RESOLVE_ATTEMPTS     5
#define MESSAGE_HEAD_BYTES   11 /* a tag of one byte and a length */
#define TAG_LENGTH_DELIMITED 2u
#define FIELD_TAG(number)    (((uint64_t)(number) << 3) | TAG_LENGTH_DELIMITED)

/* ---- scanning what an identity may see ---- */

/* Key prefixes in key order: "r/" for everything, or one a namespace. */
struct prefixes {
    char (*items)[META_KEY_BYTES];
    size_t count;
};

static int compare_prefixes(const void *a, const void *b)
{
    return strcmp(a, b);
}

static lake_status prefixes_init(struct prefixes *out, const struct meta_identity *identity,
                                 const char *only_namespace, struct lake_error *err)
{
    bool all = only_namespace == NULL && meta_identity_sees_all(identity);
    /* A delegate with every namespace is bounded by what its Query server was granted. */
    bool callers = identity->all_namespaces && identity->delegated;
    size_t room = 1 + (callers ? identity->caller->namespace_count : identity->namespace_count);
    *out = (struct prefixes){NULL, 0};
    out->items = base_calloc_array(room, sizeof(*out->items));
    if (out->items == NULL)
        return base_fail_no_memory(err, room * sizeof(*out->items));
    if (all) {
        memcpy(out->items[out->count++], "r/", 3);
        return LAKE_OK;
    }
    if (only_namespace != NULL) {
        if (meta_identity_may_use(identity, only_namespace))
            (void)meta_key(out->items[out->count++], "r", only_namespace, "");
        return LAKE_OK;
    }
    for (size_t i = 0; i + 1 < room; i++) {
        char key[META_NAME_MAX_BYTES + 1];
        struct lake_str name =
            base_str_of(callers ? identity->caller->namespaces[i] : identity->namespaces[i]);
        if (meta_name_fold(name, key) && meta_identity_may_use(identity, key))
            (void)meta_key(out->items[out->count++], "r", key, "");
    }
    qsort(out->items, out->count, sizeof(*out->items), compare_prefixes);
    size_t kept = 0;
    for (size_t i = 0; i < out->count; i++) {
        if (kept == 0 || strcmp(out->items[kept - 1], out->items[i]) != 0)
            memmove(out->items[kept++], out->items[i], sizeof(*out->items));
    }
    out->count = kept;
    return LAKE_OK;
}

/* Called with each registration as stored; *stop ends the scan. */
typedef lake_status (*visit_registration)(void *context, struct lake_bytes value, bool *stop,
                                          struct lake_error *err);

/* `after`, the key to start behind, is overwritten. */
static lake_status scan_prefix(struct meta_authority *authority, const char *prefix,
                               char after[META_KEY_BYTES], visit_registration visit, void *context,
                               bool *stop, struct lake_error *err)
{
    for (bool more = true; more && !*stop;) {
        struct kv_page page = {0};
        lake_status status = kv_scan(authority->kv, base_bytes_of_str(base_str_of(prefix)),
                                     base_bytes_of_str(base_str_of(after)), META_PAGE_ENTRIES,
                                     PAGE_MAX_BYTES, &page, err);
        if (status != LAKE_OK)
            return status;
        for (size_t i = 0; i < page.count && status == LAKE_OK && !*stop; i++)
            status = visit(context, page.pairs[i].value, stop, err);
        more = page.more && page.count > 0;
        if (status == LAKE_OK && more) {
            struct lake_bytes last = page.pairs[page.count - 1].key;
            if (last.size >= META_KEY_BYTES) {
                status = lake_fail(err, LAKE_DATA_LOSS, "a key of the registry has %zu bytes",
                                   last.size);
            } else {
                memcpy(after, last.data, last.size);
                after[last.size] = '\0';
            }
        }
        kv_page_fini(&page);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

static lake_status scan_visible(struct meta_authority *authority,
                                const struct meta_identity *identity, const char *only_namespace,
                                const char *start_after, visit_registration visit, void *context,
                                struct lake_error *err)
{
    struct prefixes prefixes;
    lake_status status = prefixes_init(&prefixes, identity, only_namespace, err);
    bool stop = false;
    for (size_t i = 0; i < prefixes.count && status == LAKE_OK && !stop; i++) {
        const char *prefix = prefixes.items[i];
        char after[META_KEY_BYTES] = "";
        /* Behind all of this prefix: nothing of it is wanted. */
        if (strncmp(start_after, prefix, strlen(prefix)) == 0)
            memcpy(after, start_after, strlen(start_after) + 1);
        else if (strcmp(start_after, prefix) > 0)
            continue;
        status = scan_prefix(authority, prefix, after, visit, context, &stop, err);
    }
    base_free(prefixes.items);
    return status;
}

static lake_status append_field(struct base_buffer *out, uint32_t number, struct lake_bytes value,
                                struct lake_error *err)
{
    lake_status status = base_buffer_append_varint(out, FIELD_TAG(number), err);
    if (status == LAKE_OK)
        status = base_buffer_append_varint(out, value.size, err);
    if (status == LAKE_OK)
        status = base_buffer_append(out, value.data, value.size, err);
    return status;
}

/* ---- pages ---- */

struct list_page {
    struct base_buffer *out;
    size_t count;
    size_t start_bytes;
    bool more;
};

static lake_status add_to_page(void *context, struct lake_bytes value, bool *stop,
                               struct lake_error *err)
{
    struct list_page *page = context;
    size_t used = page->out->size - page->start_bytes;
    if (page->count == META_PAGE_ENTRIES ||
        (page->count > 0 && used + value.size > PAGE_MAX_BYTES)) {
        page->more = true;
        *stop = true;
        return LAKE_OK;
    }
    page->count++;
    return append_field(page->out, 1, value, err); /* ListTablesReply.tables */
}

lake_status meta_list_tables(struct meta_authority *authority, const struct meta_identity *identity,
                             const LakePb__ListTablesRequest *request, struct base_buffer *out,
                             struct lake_error *err)
{
    char only[META_NAME_MAX_BYTES + 1];
    char start_after[META_KEY_BYTES] = "";
    const char *only_namespace = NULL;
    if (request->has_namespace_name && request->namespace_name.len > 0) {
        struct lake_str name = meta_str_of_pb(request->namespace_name);
        if (!meta_name_fold(name, only) || memchr(only, '/', name.size) != NULL ||
            memchr(only, '\0', name.size) != NULL)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "the namespace to list is not a name");
        lake_status status = meta_identity_require(identity, only, err);
        if (status != LAKE_OK)
            return status;
        only_namespace = only;
    }
    if (request->start_after != NULL) {
        struct meta_name name;
        lake_status status = meta_name_from_pb(request->start_after, &name, err);
        if (status != LAKE_OK)
            return status;
        (void)meta_key(start_after, "r", name.namespace_key, name.table_key);
    }
    struct list_page page = {.out = out, .start_bytes = out->size};
    lake_status status =
        scan_visible(authority, identity, only_namespace, start_after, add_to_page, &page, err);
    if (status == LAKE_OK && page.more) {
        status = base_buffer_append_varint(out, 2 << 3, err); /* ListTablesReply.more */
        if (status == LAKE_OK)
            status = base_buffer_append_varint(out, 1, err);
    }
    return status;
}

/* A registration with the columns that the table has now. */
static lake_status get_current(struct meta_authority *authority, const struct meta_name *name,
                               struct meta_registration *out, struct lake_error *err)
{
    bool changed;
    struct lake_error why = {.code = LAKE_OK};
    lake_status status = meta_registration_get(authority, name, out, err);
    if (status == LAKE_OK && meta_registration_follow(authority, out, &changed, &why) != LAKE_OK)
        base_log(BASE_LOG_DEBUG, "the columns of a table could not be looked at", "reason",
                 why.message, NULL);
    return status;
}

lake_status meta_table_schema(struct meta_authority *authority,
                              const struct meta_identity *identity,
                              const LakePb__TableName *request, struct base_buffer *out,
                              struct lake_error *err)
{
    struct meta_name name;
    lake_status status = meta_identity_name(identity, request, &name, err);
    if (status != LAKE_OK)
        return status;
    struct meta_registration registration;
    meta_registration_init(&registration);
    status = get_current(authority, &name, &registration, err);
    if (status == LAKE_OK)
        status = base_buffer_append(out, registration.raw.data, registration.raw.size, err);
    meta_registration_fini(&registration);
    return status;
}

/* ---- versions ---- */

static lake_status newest_version(struct meta_authority *authority,
                                  const struct meta_registration *registration, uint64_t *out,
                                  struct lake_error *err)
{
    struct storage_store *store = NULL;
    uint64_t recorded = 0;
    lake_status status = meta_recorded_version(authority, &registration->name,
                                               registration->incarnation, &recorded, err);
    if (status == LAKE_OK)
        status = meta_table_store(authority, &registration->name, &store, err);
    if (status == LAKE_OK)
        status = lance_latest_version(store, recorded, out, NULL, err);
    storage_store_unref(store);
    return status;
}

/* A registration with its newest version; LAKE_NOT_FOUND: no such table. The registration is read
 * again behind the version, so that the two belong together though somebody drops and creates. */
static lake_status resolve_one(struct meta_authority *authority, const struct meta_name *name,
                               struct meta_registration *registration, uint64_t *version,
                               struct lake_error *err)
{
    struct meta_registration again;
    meta_registration_init(&again);
    lake_status status = get_current(authority, name, registration, err);
    for (int attempt = 0; attempt < RESOLVE_ATTEMPTS && status == LAKE_OK; attempt++) {
        lake_status found = newest_version(authority, registration, version, err);
        status = meta_registration_get(authority, name, &again, found == LAKE_OK ? err : NULL);
        if (status != LAKE_OK)
            break;
        if (base_bytes_equal(base_buffer_view(&registration->raw), base_buffer_view(&again.raw))) {
            status = found != LAKE_NOT_FOUND
                         ? found
                         : lake_fail_wrap(err, LAKE_DATA_LOSS,
                                          "table %s.%s is registered but its dataset is not there",
                                          name->namespace_name, name->table);
            break;
        }
        struct meta_registration swap = *registration;
        *registration = again;
        again = swap;
        if (attempt + 1 == RESOLVE_ATTEMPTS)
            status = lake_fail(err, LAKE_UNAVAILABLE,
                               "table %s.%s keeps being dropped and created; try again",
                               name->namespace_name, name->table);
    }
    meta_registration_fini(&again);
    return status;
}

static lake_status append_resolved(struct base_buffer *out,
                                   const struct meta_registration *registration, uint64_t version,
                                   struct lake_error *err)
{
    struct base_buffer entry;
    base_buffer_init(&entry, registration->raw.size + 64);
    lake_status status = append_field(&entry, 1, base_buffer_view(&registration->raw), err);
    if (status == LAKE_OK)
        status = base_buffer_append_varint(&entry, 2 << 3, err); /* ResolvedTable.version */
    if (status == LAKE_OK)
        status = base_buffer_append_varint(&entry, version, err);
    if (status == LAKE_OK)
        status = append_field(out, 1, base_buffer_view(&entry), err);
    base_buffer_fini(&entry);
    return status;
}

lake_status meta_resolve_tables(struct meta_authority *authority,
                                const struct meta_identity *identity,
                                const LakePb__ResolveTablesRequest *request,
                                struct base_buffer *out, struct lake_error *err)
{
    if (request->n_names > META_RESOLVE_MAX_TABLES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "%zu tables in one request; at most %d are resolved at once",
                         request->n_names, META_RESOLVE_MAX_TABLES);
    lake_status status = LAKE_OK;
    struct meta_name name;
    /* All of them before the registry is touched (NAT-13). A name that no table can have is only
     * absent: SQL may quote anything. */
    for (size_t i = 0; i < request->n_names && status == LAKE_OK; i++) {
        if (meta_name_from_pb(request->names[i], &name, NULL) == LAKE_OK)
            status = meta_identity_require(identity, name.namespace_name, err);
    }
    struct meta_registration registration;
    meta_registration_init(&registration);
    for (size_t i = 0; i < request->n_names && status == LAKE_OK; i++) {
        uint64_t version;
        lake_status found = meta_name_from_pb(request->names[i], &name, NULL);
        if (found == LAKE_OK) {
            found = resolve_one(authority, &name, &registration, &version, err);
            if (found != LAKE_OK && found != LAKE_NOT_FOUND)
                status = found;
        }
        if (found == LAKE_OK)
            status = append_resolved(out, &registration, version, err);
        else if (status == LAKE_OK)
            status = append_field(out, 1, (struct lake_bytes){NULL, 0}, err);
    }
    meta_registration_fini(&registration);
    return status;
}

/* ---- snapshots (CAT-2) ---- */

struct snapshot {
    struct base_buffer *out;
    size_t max_reply_bytes;
};

/* The entry is accounted before it is kept. */
static lake_status add_to_snapshot(void *context, struct lake_bytes value, bool *stop,
                                   struct lake_error *err)
{
    struct snapshot *snapshot = context;
    (void)stop;
    if (snapshot->out->size + value.size + MESSAGE_HEAD_BYTES > snapshot->max_reply_bytes)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "the directory does not fit in one snapshot of %zu bytes",
                         snapshot->max_reply_bytes);
    return append_field(snapshot->out, 4, value, err); /* CatalogSnapshotReply.tables */
}

static lake_status append_head(struct meta_authority *authority, bool not_modified,
                               uint64_t generation, struct base_buffer *out, struct lake_error *err)
{
    LakePb__CatalogSnapshotReply head = LAKE_PB__CATALOG_SNAPSHOT_REPLY__INIT;
    head.has_not_modified = true;
    head.not_modified = not_modified;
    head.has_authority = true;
    head.authority = meta_pb_of_str(authority->authority_id);
    head.has_generation = true;
    head.generation = generation;
    return meta_pb_pack(&head.base, out, err);
}

/* Under the snapshot gate. */
static lake_status full_snapshot(struct meta_authority *authority,
                                 const struct meta_identity *identity, uint64_t generation,
                                 size_t max_reply_bytes, struct base_buffer *out,
                                 struct lake_error *err)
{
    size_t start_bytes = out->size;
    for (int attempt = 0; attempt < SNAPSHOT_ATTEMPTS; attempt++) {
        struct snapshot snapshot = {out, max_reply_bytes};
        uint64_t after = 0;
        lake_status status = append_head(authority, false, generation, out, err);
        if (status == LAKE_OK)
            status = scan_visible(authority, identity, NULL, "", add_to_snapshot, &snapshot, err);
        if (status == LAKE_OK)
            status = meta_generation_get(authority, "directory", &after, err);
        if (status != LAKE_OK || after == generation)
            return status;
        out->size = start_bytes;
        generation = after;
    }
    return lake_fail(err, LAKE_UNAVAILABLE,
                     "the directory changed during each of %d scans; try again", SNAPSHOT_ATTEMPTS);
}

lake_status meta_catalog_snapshot(struct meta_authority *authority,
                                  const struct meta_identity *identity,
                                  const struct meta_wait *wait,
                                  const LakePb__CatalogSnapshotRequest *request,
                                  size_t max_reply_bytes, struct base_buffer *out,
                                  struct lake_error *err)
{
    enum rpc_role role = identity->caller->role;
    if (role != RPC_ROLE_QUERY_SERVICE && role != RPC_ROLE_ADMIN)
        return lake_fail(err, LAKE_PERMISSION_DENIED,
                         "catalog snapshots are for Query servers; list tables instead");
    uint64_t generation;
    lake_status status = meta_generation_get(authority, "directory", &generation, err);
    if (status != LAKE_OK)
        return status;
    if (request->has_known_generation && request->known_generation == generation &&
        base_str_equal_c(meta_str_of_pb(request->known_authority), authority->authority_id))
        return append_head(authority, true, generation, out, err);

    struct meta_claim claim;
    struct meta_wait bounded = *wait;
    bounded.timeout_ms = BASE_MIN(wait->timeout_ms, SNAPSHOT_WAIT_MS);
    status = meta_gate_enter(&authority->gates, &claim, SNAPSHOT_GATE, &bounded, err);
    if (status == LAKE_RESOURCE_EXHAUSTED)
        return lake_fail_wrap(err, LAKE_RESOURCE_EXHAUSTED,
                              "another full snapshot is being made; try again");
    if (status != LAKE_OK)
        return status;
    status = meta_generation_get(authority, "directory", &generation, err);
    if (status == LAKE_OK)
        status = full_snapshot(authority, identity, generation, max_reply_bytes, out, err);
    meta_gate_leave(&authority->gates, &claim);
    return status;
}
