/*
 * The schema cache (SDK-2): a table's registered schema for a while, one lookup per table in
 * flight, whose answer everyone who waits for it shares; only successes are kept. A full cache
 * drops the entry that expires first. Names are matched without regard to case, as tables are.
 */
#include "client_internal.h"

#include <string.h>

#define DEFAULT_TABLES 1024
#define DEFAULT_TTL_MS 60000
#define BUCKETS        4096

enum state {
    ASKING,
    KNOWN,
    FAILED
};

/* Has one reference from its bucket while it is attached, and one from each thread that waits. */
struct entry {
    struct entry *next;
    char *name; /* "namespace.table" in lower case */
    uint32_t references;
    bool attached;
    enum state state;
    struct client_schema *schema; /* KNOWN */
    int64_t expires_us;
    struct lake_error error; /* FAILED */
};

struct client_schema_cache {
    uint32_t max_tables;
    int64_t ttl_us;
    pthread_mutex_t lock; /* guards everything below, and every entry */
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

static void entry_unref(struct entry *entry)
{
    if (--entry->references > 0)
        return;
    client_schema_unref(entry->schema);
    base_free(entry->name);
    base_free(entry);
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

/* A lookup in flight goes on for those who wait for it; the next caller starts another. */
static void detach(struct client_schema_cache *cache, struct entry **link)
{
    struct entry *entry = *link;
    *link = entry->next;
    entry->attached = false;
    cache->count--;
    entry_unref(entry);
}

void client_schema_cache_free(struct client_schema_cache *cache)
{
    if (cache == NULL)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        while (cache->buckets[i] != NULL)
            detach(cache, &cache->buckets[i]);
    }
    pthread_cond_destroy(&cache->answered);
    pthread_mutex_destroy(&cache->lock);
    base_free(cache);
}

/* Makes room by dropping the known entry that expires first. */
static void make_room(struct client_schema_cache *cache)
{
    struct entry **oldest = NULL;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct entry **link = &cache->buckets[i]; *link != NULL; link = &(*link)->next) {
            if ((*link)->state == KNOWN &&
                (oldest == NULL || (*link)->expires_us < (*oldest)->expires_us))
                oldest = link;
        }
    }
    if (oldest != NULL)
        detach(cache, oldest);
}

static char *folded_name(struct lake_str namespace_name, struct lake_str table)
{
    char *name = base_format("%.*s.%.*s", LAKE_STR_FMT(namespace_name), LAKE_STR_FMT(table));
    for (char *p = name; p != NULL && *p != '\0'; p++)
        *p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
    return name;
}

/* ---- asking the server ---- */

static lake_status ask(lake_client *client, struct lake_str namespace_name, struct lake_str table,
                       struct client_schema **out, struct lake_error *err)
{
    LakePb__TableName name = LAKE_PB__TABLE_NAME__INIT;
    ProtobufCMessage *answer = NULL;
    name.has_namespace_name = name.has_table = 1;
    name.namespace_name = client_binary(namespace_name);
    name.table = client_binary(table);
    lake_status status = client_ask(client, "lake.table_schema", &name.base,
                                    &lake_pb__registration__descriptor, &answer, err);
    if (status != LAKE_OK)
        return status;
    const LakePb__Registration *registration = (const LakePb__Registration *)answer;
    struct lake_bytes ipc = {registration->schema_ipc.data, registration->schema_ipc.len};
    size_t incarnation_bytes = registration->incarnation.len;
    struct client_schema *schema = base_calloc_array(1, sizeof(*schema));
    if (schema == NULL) {
        status = base_fail_no_memory(err, sizeof(*schema));
    } else {
        atomic_init(&schema->references, 1);
        if (incarnation_bytes > 0 && incarnation_bytes < sizeof(schema->incarnation))
            memcpy(schema->incarnation, registration->incarnation.data, incarnation_bytes);
        status = arrow_ipc_schema_from_bytes(ipc, &schema->arrow, err);
    }
    client_answer_free(answer);
    if (status == LAKE_OK)
        *out = schema;
    else
        base_free(schema);
    return status;
}

/* ---- looking up ---- */

/* The answer of an entry that is no longer asking. */
static lake_status answer_of(const struct entry *entry, struct client_schema **out,
                             struct lake_error *err)
{
    if (entry->state == FAILED) {
        if (err != NULL)
            *err = entry->error;
        return entry->error.code;
    }
    atomic_fetch_add(&entry->schema->references, 1);
    *out = entry->schema;
    return LAKE_OK;
}

/* The present entry, with a reference for the caller; *mine: it is new and the caller must ask.
 * Takes `name` over. NULL: out of memory. */
static struct entry *find_or_claim(struct client_schema_cache *cache, char *name, bool *mine)
{
    struct entry **link = entry_link(cache, name);
    *mine = false;
    if (*link != NULL && (*link)->state == KNOWN &&
        base_clock_monotonic_us() >= (*link)->expires_us)
        detach(cache, link);
    struct entry *entry = *entry_link(cache, name);
    if (entry != NULL) {
        entry->references++;
        base_free(name);
        return entry;
    }
    if (cache->count >= cache->max_tables)
        make_room(cache);
    entry = base_calloc_array(1, sizeof(*entry));
    if (entry == NULL) {
        base_free(name);
        return NULL;
    }
    *entry = (struct entry){.name = name, .references = 2, .attached = true, .state = ASKING};
    *entry_link(cache, name) = entry;
    cache->count++;
    *mine = true;
    return entry;
}

/* Fills the entry and wakes who waits. A failure is not kept, nor what was invalidated meanwhile.
 */
static void publish(struct client_schema_cache *cache, struct entry *entry, lake_status status,
                    struct client_schema *schema, const struct lake_error *error)
{
    if (status == LAKE_OK) {
        entry->state = KNOWN;
        entry->schema = schema;
        entry->expires_us = base_clock_monotonic_us() + cache->ttl_us;
    } else {
        entry->state = FAILED;
        entry->error = *error;
        entry->error.code = status;
        if (entry->attached)
            detach(cache, entry_link(cache, entry->name));
    }
    pthread_cond_broadcast(&cache->answered);
}

lake_status client_table_schema(lake_client *client, struct lake_str namespace_name,
                                struct lake_str table, struct client_schema **out,
                                struct lake_error *err)
{
    struct client_schema_cache *cache = client->schemas;
    char *name = folded_name(namespace_name, table);
    if (name == NULL)
        return base_fail_no_memory(err, table.size);
    bool mine = false;
    pthread_mutex_lock(&cache->lock);
    struct entry *entry = find_or_claim(cache, name, &mine);
    if (entry == NULL) {
        pthread_mutex_unlock(&cache->lock);
        return base_fail_no_memory(err, sizeof(*entry));
    }
    if (mine) {
        struct client_schema *schema = NULL;
        struct lake_error error = {0};
        pthread_mutex_unlock(&cache->lock);
        lake_status asked = ask(client, namespace_name, table, &schema, &error);
        pthread_mutex_lock(&cache->lock);
        publish(cache, entry, asked, schema, &error);
    }
    while (entry->state == ASKING)
        pthread_cond_wait(&cache->answered, &cache->lock);
    lake_status status = answer_of(entry, out, err);
    entry_unref(entry);
    pthread_mutex_unlock(&cache->lock);
    return status;
}

/* ---- forgetting ---- */

void client_schema_forget(lake_client *client, struct lake_str namespace_name,
                          struct lake_str table)
{
    char *name = folded_name(namespace_name, table);
    if (name == NULL) {
        lake_schema_cache_clear(client); /* no memory for one name: all of them, to be safe */
        return;
    }
    pthread_mutex_lock(&client->schemas->lock);
    struct entry **link = entry_link(client->schemas, name);
    if (*link != NULL)
        detach(client->schemas, link);
    pthread_mutex_unlock(&client->schemas->lock);
    base_free(name);
}

void lake_schema_cache_invalidate(lake_client *client, const char *table)
{
    struct lake_str namespace_name, name;
    if (client_split_name(table, &namespace_name, &name, NULL) == LAKE_OK)
        client_schema_forget(client, namespace_name, name);
}

void lake_schema_cache_clear(lake_client *client)
{
    struct client_schema_cache *cache = client->schemas;
    pthread_mutex_lock(&cache->lock);
    for (size_t i = 0; i < BUCKETS; i++) {
        while (cache->buckets[i] != NULL)
            detach(cache, &cache->buckets[i]);
    }
    pthread_mutex_unlock(&cache->lock);
}
