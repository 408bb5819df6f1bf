/*
 * A set of keys that is only asked whether it may hold one: 64-bit hashes in one open table. Two
 * keys with one hash make clean-up keep a file that it could have removed, never the reverse.
 */
#include "table.h"

#define FIRST_CAPACITY 1024
#define MAX_CAPACITY   ((size_t)1 << 27) /* 1 GiB */

static uint64_t hash_key(struct lake_str key)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < key.size; i++) {
        hash = (hash ^ (uint8_t)key.data[i]) * UINT64_C(1099511628211);
    }
    hash = (hash ^ (hash >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    return hash == 0 ? 1 : hash;
}

/* Where the hash is, or belongs. */
static size_t find(const struct lance_key_set *set, uint64_t hash)
{
    size_t at = (size_t)hash & (set->capacity - 1);
    while (set->hashes[at] != 0 && set->hashes[at] != hash) {
        at = (at + 1) & (set->capacity - 1);
    }
    return at;
}

static lake_status grow(struct lance_key_set *set, struct lake_error *err)
{
    struct lance_key_set larger = {.count = set->count};
    larger.capacity = set->capacity == 0 ? FIRST_CAPACITY : set->capacity * 2;
    if (larger.capacity > MAX_CAPACITY) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "the table refers to more than %zu files",
                         MAX_CAPACITY / 2);
    }
    larger.hashes = base_calloc_array(larger.capacity, sizeof(*larger.hashes));
    if (larger.hashes == NULL) {
        return base_fail_no_memory(err, larger.capacity * sizeof(*larger.hashes));
    }
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->hashes[i] != 0) {
            larger.hashes[find(&larger, set->hashes[i])] = set->hashes[i];
        }
    }
    base_free(set->hashes);
    *set = larger;
    return LAKE_OK;
}

lake_status lance_key_set_add(struct lance_key_set *set, struct lake_str key,
                              struct lake_error *err)
{
    if (set->count >= set->capacity / 2) {
        lake_status status = grow(set, err);
        if (status != LAKE_OK) {
            return status;
        }
    }
    uint64_t hash = hash_key(key);
    size_t at = find(set, hash);
    set->count += set->hashes[at] == 0;
    set->hashes[at] = hash;
    return LAKE_OK;
}

bool lance_key_set_has(const struct lance_key_set *set, struct lake_str key)
{
    return set->capacity > 0 && set->hashes[find(set, hash_key(key))] != 0;
}

void lance_key_set_fini(struct lance_key_set *set)
{
    base_free(set->hashes);
    *set = (struct lance_key_set){0};
}
