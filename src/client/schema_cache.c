/*
 * The schema cache (SDK-2): a table's registered schema for a while, one lookup per table in
 * flight, only successes kept. A full cache drops the entry that expires first.
 */
#include "client_internal.h"

#include <string.h>

#define DEFAULT_TABLES 1024
#define DEFAULT_TTL_MS 60000
#define BUCKETS        4096

struct entry {
    struct entry *next;
    char *name;                   /* "namespace.table" */
    struct client_schema *schema; /* NULL while the lookup is in flight */
    int64_t expires_us;
    bool stale; /* invalidated while in flight: give the answer, do not keep it */
};

struct client_schema_cache {
    uint32_t max_tables;
    int64_t ttl_us;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t answered;
    struct entry *buckets[BUCKETS];
    uint32_t count;
};

void client_schema_unref(struct client_schema *schema)
{
    if (schema == NULL || atomic_fetch_sub(&schema->references, 1) != 1)
        return;
    if (schema->arrow.release != NULL)
        schema->arrow.release(&schema->arrow);
    base_free(schema);
}

lake_status client_schema_cache_new(const struct lake_connect_options *options,
                                    struct client_schema_cache **out, struct lake_error *err)
{
    struct client_schema_cache *cache = base_calloc_array(1, sizeof(*cache));
    if (cache == NULL)
        return base_fail_no_memory(err, sizeof(*cache));
    cache->max_tables =
        options->schema_cache_tables == 0 ? DEFAULT_TABLES : options->schema_cache_tables;
    cache->ttl_us =
        (options->schema_cache_ttl_ms == 0 ? DEFAULT_TTL_MS : options->schema_cache_ttl_ms) *
        1000LL;
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->answered, NULL);
    *out = cache;
    return LAKE_OK;
}

static void entry_free(struct entry *entry)
{
    client_schema_unref(entry->schema);
    base_free(entry->name);
    base_free(entry);
}

void client_schema_cache_free(struct client_schema_cache *cache)
{
    if (cache == NULL)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        while (cache->buckets[i] != NULL) {
            struct entry *entry = cache->buckets[i];
            cache->buckets[i] = entry->next;
            entry_free(entry);
        }
    }
    pthread_cond_destroy(&cache->answered);
    pthread_mutex_destroy(&cache->lock);
    base_free(cache);
}

static struct entry **entry_link(struct client_schema_cache *cache, const char *name)
{
    uint32_t hash = 2166136261u;
    for (const char *p = name; *p != '\0'; p++)
        hash = (hash ^ (uint8_t)*p) * 16777619u;
    struct entry **link = &cache->buckets[hash % BUCKETS];
    while (*link != NULL && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    return link;
}

static void remove_at(struct client_schema_cache *cache, struct entry **link)
{
    struct entry *entry = *link;
    *link = entry->next;
    cache->count--;
    entry_free(entry);
}

/* Makes room by dropping the finished entry that expires first. */
static void make_room(struct client_schema_cache *cache)
{
    struct entry **oldest = NULL;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct entry **link = &cache->buckets[i]; *link != NULL; link = &(*link)->next) {
            if ((*link)->schema != NULL &&
                (oldest == NULL || (*link)->expires_us < (*oldest)->expires_us))
                oldest = link;
        }
    }
    if (oldest != NULL)
        remove_at(cache, oldest);
}

/* ---- asking the server
 * --------------------------------------------------------------------------------- */

static lake_status ask(lake_client *client, struct lake_str namespace_name, struct lake_str table,
                       struct client_schema **out, struct lake_error *err)
{
    LakePb__TableName name = LAKE_PB__TABLE_NAME__INIT;
    LakePb__Registration *registration = NULL;
    struct client_schema *schema = NULL;
    struct base_buffer body;
    struct base_buffer reply;
    base_buffer_init(&body, 65536);
    base_buffer_init(&reply, CLIENT_MAX_METADATA_BYTES);
    name.has_namespace_name = name.has_table = 1;
    name.namespace_name = client_binary(namespace_name);
    name.table = client_binary(table);
    lake_status status =
        base_buffer_reserve(&body, lake_pb__table_name__get_packed_size(&name), err);
    if (status != LAKE_OK)
        goto out;
    body.size = lake_pb__table_name__pack(&name, body.data);
    status = client_action(client, "lake.table_schema", base_buffer_view(&body), &reply, err);
    if (status != LAKE_OK)
        goto out;
    registration = lake_pb__registration__unpack(NULL, reply.size, reply.data);
    schema = base_calloc_array(1, sizeof(*schema));
    if (registration == NULL || schema == NULL) {
        status = lake_fail(err, registration == NULL ? LAKE_INTERNAL : LAKE_RESOURCE_EXHAUSTED,
                           "the server's table description cannot be read");
        goto out;
    }
    atomic_init(&schema->references, 1);
    status = arrow_ipc_schema_from_bytes(
        (struct lake_bytes){registration->schema_ipc.data, registration->schema_ipc.len},
        &schema->arrow, err);
out:
    if (registration != NULL)
        lake_pb__registration__free_unpacked(registration, NULL);
    base_buffer_fini(&body);
    base_buffer_fini(&reply);
    if (status != LAKE_OK) {
        base_free(schema);
        return status;
    }
    *out = schema;
    return LAKE_OK;
}

/* ---- looking up
 * ------------------------------------------------------------------------------------------- */

/* A fresh schema with a reference, or NULL and *mine: the caller asks and must publish. */
static struct client_schema *find_or_claim(struct client_schema_cache *cache, const char *name,
                                           bool *mine)
{
    struct client_schema *found = NULL;
    *mine = false;
    pthread_mutex_lock(&cache->lock);
    for (;;) {
        struct entry **link = entry_link(cache, name);
        if (*link != NULL && (*link)->schema == NULL) {
            pthread_cond_wait(&cache->answered, &cache->lock);
            continue;
        }
        if (*link != NULL && base_clock_monotonic_us() < (*link)->expires_us) {
            found = (*link)->schema;
            atomic_fetch_add(&found->references, 1);
            break;
        }
        if (*link != NULL)
            remove_at(cache, link);
        if (cache->count >= cache->max_tables)
            make_room(cache);
        struct entry *entry = base_calloc_array(1, sizeof(*entry));
        if (entry != NULL && (entry->name = base_strdup(name)) != NULL) {
            link = entry_link(cache, name);
            *link = entry;
            cache->count++;
            *mine = true;
        } else {
            base_free(entry); /* out of memory: ask without the cache */
        }
        break;
    }
    pthread_mutex_unlock(&cache->lock);
    return found;
}

/* `schema` NULL: the lookup failed, the next caller asks again. */
static void publish(struct client_schema_cache *cache, const char *name,
                    struct client_schema *schema)
{
    pthread_mutex_lock(&cache->lock);
    struct entry **link = entry_link(cache, name);
    if (schema == NULL || (*link)->stale) {
        remove_at(cache, link);
    } else {
        (*link)->schema = schema;
        (*link)->expires_us = base_clock_monotonic_us() + cache->ttl_us;
        atomic_fetch_add(&schema->references, 1);
    }
    pthread_cond_broadcast(&cache->answered);
    pthread_mutex_unlock(&cache->lock);
}

lake_status client_table_schema(lake_client *client, struct lake_str namespace_name,
                                struct lake_str table, struct client_schema **out,
                                struct lake_error *err)
{
    char *name = base_format("%.*s.%.*s", LAKE_STR_FMT(namespace_name), LAKE_STR_FMT(table));
    if (name == NULL)
        return base_fail_no_memory(err, table.size);
    bool mine = false;
    lake_status status = LAKE_OK;
    struct client_schema *schema = find_or_claim(client->schemas, name, &mine);
    if (schema == NULL) {
        status = ask(client, namespace_name, table, &schema, err);
        if (mine)
            publish(client->schemas, name, status == LAKE_OK ? schema : NULL);
    }
    base_free(name);
    if (status == LAKE_OK)
        *out = schema;
    return status;
}

static void forget(struct client_schema_cache *cache, struct entry **link)
{
    if ((*link)->schema == NULL)
        (*link)->stale = true;
    else
        remove_at(cache, link);
}

void lake_schema_cache_invalidate(lake_client *client, const char *table)
{
    struct client_schema_cache *cache = client->schemas;
    pthread_mutex_lock(&cache->lock);
    struct entry **link = entry_link(cache, table);
    if (*link != NULL)
        forget(cache, link);
    pthread_mutex_unlock(&cache->lock);
}

void lake_schema_cache_clear(lake_client *client)
{
    struct client_schema_cache *cache = client->schemas;
    pthread_mutex_lock(&cache->lock);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct entry **link = &cache->buckets[i]; *link != NULL;) {
            struct entry *entry = *link;
            forget(cache, link);
            if (*link == entry)
                link = &entry->next;
        }
    }
    pthread_mutex_unlock(&cache->lock);
}
