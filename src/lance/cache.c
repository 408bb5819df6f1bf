/*
 * The cache of immutable things: manifests, opened files, deletion vectors, indices. One hash table
 * and one list in order of use, under one mutex that is never held across I/O or a release.
 */
#include "index.h"

#include <string.h>

#define BUCKET_COUNT 4096 /* a power of two */

struct entry {
    struct entry *next_in_bucket;
    struct entry *newer; /* in the list of use; NULL at the newest */
    struct entry *older;
    uint64_t hash;
    enum lance_cached kind;
    size_t memory_bytes;
    void *object;
    char key[];
};

struct lance_cache {
    pthread_mutex_t mutex; /* guards everything below */
    size_t max_bytes;
    size_t used_bytes;
    struct entry *newest;
    struct entry *oldest;
    struct entry *buckets[BUCKET_COUNT];
};

static void *ref_object(enum lance_cached kind, void *object)
{
    switch (kind) {
    case LANCE_CACHED_MANIFEST:
        return lance_manifest_ref(object);
    case LANCE_CACHED_FILE:
        return lance_file_ref(object);
    case LANCE_CACHED_DELETIONS:
        return lance_deletions_ref(object);
    case LANCE_CACHED_INDEX:
        return lance_index_ref(object);
    }
    return NULL;
}

static void unref_object(enum lance_cached kind, void *object)
{
    switch (kind) {
    case LANCE_CACHED_MANIFEST:
        lance_manifest_unref(object);
        return;
    case LANCE_CACHED_FILE:
        lance_file_unref(object);
        return;
    case LANCE_CACHED_DELETIONS:
        lance_deletions_unref(object);
        return;
    case LANCE_CACHED_INDEX:
        lance_index_unref(object);
        return;
    }
}

/* FNV-1a. Keys come from our own locations, so collisions by design are no concern. */
static uint64_t hash_key(enum lance_cached kind, const char *key)
{
    uint64_t hash = UINT64_C(14695981039346656037) ^ (uint64_t)kind;
    for (const char *c = key; *c != '\0'; c++) {
        hash = (hash ^ (uint8_t)*c) * UINT64_C(1099511628211);
    }
    return hash;
}

lake_status lance_cache_new(size_t max_bytes, struct lance_cache **out, struct lake_error *err)
{
    struct lance_cache *cache = base_calloc_array(1, sizeof(*cache));
    if (cache == NULL) {
        return base_fail_no_memory(err, sizeof(*cache));
    }
    if (pthread_mutex_init(&cache->mutex, NULL) != 0) {
        base_free(cache);
        return lake_fail(err, LAKE_INTERNAL, "a mutex could not be made");
    }
    cache->max_bytes = max_bytes;
    *out = cache;
    return LAKE_OK;
}

static void free_entries(struct entry *list)
{
    while (list != NULL) {
        struct entry *next = list->older;
        unref_object(list->kind, list->object);
        base_free(list);
        list = next;
    }
}

void lance_cache_free(struct lance_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    free_entries(cache->newest);
    (void)pthread_mutex_destroy(&cache->mutex);
    base_free(cache);
}

static void list_remove(struct lance_cache *cache, struct entry *entry)
{
    if (entry->newer != NULL) {
        entry->newer->older = entry->older;
    } else {
        cache->newest = entry->older;
    }
    if (entry->older != NULL) {
        entry->older->newer = entry->newer;
    } else {
        cache->oldest = entry->newer;
    }
}

static void list_add_newest(struct lance_cache *cache, struct entry *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    if (cache->newest != NULL) {
        cache->newest->newer = entry;
    } else {
        cache->oldest = entry;
    }
    cache->newest = entry;
}

static struct entry **find(struct lance_cache *cache, enum lance_cached kind, uint64_t hash,
                           const char *key)
{
    struct entry **link = &cache->buckets[hash & (BUCKET_COUNT - 1)];
    while (*link != NULL &&
           ((*link)->hash != hash || (*link)->kind != kind || strcmp((*link)->key, key) != 0)) {
        link = &(*link)->next_in_bucket;
    }
    return link;
}

void *lance_cache_get(struct lance_cache *cache, enum lance_cached kind, const char *key)
{
    if (cache == NULL) {
        return NULL;
    }
    void *object = NULL;
    uint64_t hash = hash_key(kind, key);
    (void)pthread_mutex_lock(&cache->mutex);
    struct entry *entry = *find(cache, kind, hash, key);
    if (entry != NULL) {
        list_remove(cache, entry);
        list_add_newest(cache, entry);
        object = ref_object(kind, entry->object);
    }
    (void)pthread_mutex_unlock(&cache->mutex);
    return object;
}

/* Takes the oldest entries out until all fits; returns them linked by `older`. */
static struct entry *evict(struct lance_cache *cache)
{
    struct entry *evicted = NULL;
    while (cache->used_bytes > cache->max_bytes && cache->oldest != NULL) {
        struct entry *entry = cache->oldest;
        struct entry **link = find(cache, entry->kind, entry->hash, entry->key);
        *link = entry->next_in_bucket;
        list_remove(cache, entry);
        cache->used_bytes -= entry->memory_bytes;
        entry->older = evicted;
        evicted = entry;
    }
    return evicted;
}

void lance_cache_put(struct lance_cache *cache, enum lance_cached kind, const char *key,
                     void *object, size_t memory_bytes)
{
    size_t key_bytes = strlen(key) + 1;
    size_t account = memory_bytes + sizeof(struct entry) + key_bytes;
    if (cache == NULL || account < memory_bytes || account > cache->max_bytes) {
        return;
    }
    struct entry *entry = base_alloc(sizeof(*entry) + key_bytes);
    if (entry == NULL) {
        return;
    }
    *entry = (struct entry){
        .hash = hash_key(kind, key), .kind = kind, .memory_bytes = account, .object = object};
    memcpy(entry->key, key, key_bytes);
    (void)pthread_mutex_lock(&cache->mutex);
    struct entry **link = find(cache, kind, entry->hash, key);
    struct entry *evicted = NULL;
    if (*link == NULL) {
        (void)ref_object(kind, object);
        *link = entry;
        list_add_newest(cache, entry);
        cache->used_bytes += account;
        entry = NULL;
        evicted = evict(cache);
    }
    (void)pthread_mutex_unlock(&cache->mutex);
    free_entries(evicted);
    base_free(entry); /* another thread was first; what it put is as good */
}

void lance_cache_remove(struct lance_cache *cache, enum lance_cached kind, const char *key)
{
    if (cache == NULL) {
        return;
    }
    uint64_t hash = hash_key(kind, key);
    (void)pthread_mutex_lock(&cache->mutex);
    struct entry **link = find(cache, kind, hash, key);
    struct entry *entry = *link;
    if (entry != NULL) {
        *link = entry->next_in_bucket;
        list_remove(cache, entry);
        cache->used_bytes -= entry->memory_bytes;
        entry->older = NULL;
    }
    (void)pthread_mutex_unlock(&cache->mutex);
    free_entries(entry);
}
