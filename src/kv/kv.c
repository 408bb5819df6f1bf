/* Limits and arguments of every store, and pages. */
#include "kv.h"
#include "kv_internal.h"

#include <string.h>

struct kv_store {
    const struct kv_methods *methods;
    void *context;
};

lake_status kv_store_new(const struct kv_methods *methods, void *context, struct kv_store **out,
                         struct lake_error *err)
{
    struct kv_store *store = base_alloc(sizeof(*store));
    if (store == NULL) {
        methods->free(context);
        return base_fail_no_memory(err, sizeof(*store));
    }
    *store = (struct kv_store){methods, context};
    *out = store;
    return LAKE_OK;
}

void kv_close(struct kv_store *store)
{
    if (store == NULL)
        return;
    store->methods->free(store->context);
    base_free(store);
}

static lake_status check_key(struct lake_bytes key, struct lake_error *err)
{
    if (key.size > 0 && key.size <= KV_MAX_KEY_BYTES)
        return LAKE_OK;
    return lake_fail(err, LAKE_INVALID_ARGUMENT, "a key has %zu bytes; 1 to %d are allowed",
                     key.size, KV_MAX_KEY_BYTES);
}

static lake_status check_value(struct lake_bytes value, struct lake_error *err)
{
    if (value.size <= KV_MAX_VALUE_BYTES)
        return LAKE_OK;
    return lake_fail(err, LAKE_INVALID_ARGUMENT, "a value has %zu bytes; at most %d are allowed",
                     value.size, KV_MAX_VALUE_BYTES);
}

lake_status kv_get(struct kv_store *store, struct lake_bytes key, struct base_buffer *out,
                   struct lake_error *err)
{
    base_buffer_clear(out);
    lake_status status = check_key(key, err);
    return status != LAKE_OK ? status : store->methods->get(store->context, key, out, err);
}

lake_status kv_scan(struct kv_store *store, struct lake_bytes prefix, struct lake_bytes start_after,
                    size_t limit, size_t max_bytes, struct kv_page *out, struct lake_error *err)
{
    if (limit == 0 || limit > KV_MAX_SCAN)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a scan gives 1 to %d pairs, %zu were asked for", KV_MAX_SCAN, limit);
    if (prefix.size > KV_MAX_KEY_BYTES || start_after.size > KV_MAX_KEY_BYTES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a scan's prefix (%zu bytes) or start (%zu bytes) is longer than a key "
                         "can be (%d bytes)",
                         prefix.size, start_after.size, KV_MAX_KEY_BYTES);
    return store->methods->scan(store->context, prefix, start_after, limit, max_bytes, out, err);
}

static lake_status check_conditions(const struct kv_condition *conditions, size_t count,
                                    size_t *total_bytes, struct lake_error *err)
{
    for (size_t i = 0; i < count; i++) {
        lake_status status = check_key(conditions[i].key, err);
        if (status == LAKE_OK && conditions[i].kind == KV_EQUALS) {
            status = check_value(conditions[i].value, err);
            *total_bytes += conditions[i].value.size;
        }
        if (status != LAKE_OK)
            return status;
        *total_bytes += conditions[i].key.size;
    }
    return LAKE_OK;
}

/* At most KV_MAX_COMMIT_OPERATIONS of them, so comparing all pairs is cheap beside a disk sync. */
static lake_status check_writes(const struct kv_write *writes, size_t count, size_t *total_bytes,
                                struct lake_error *err)
{
    for (size_t i = 0; i < count; i++) {
        lake_status status = check_key(writes[i].key, err);
        if (status == LAKE_OK && writes[i].kind == KV_PUT) {
            status = check_value(writes[i].value, err);
            *total_bytes += writes[i].value.size;
        }
        if (status != LAKE_OK)
            return status;
        *total_bytes += writes[i].key.size;
        for (size_t j = 0; j < i; j++) {
            if (base_bytes_equal(writes[i].key, writes[j].key))
                return lake_fail(err, LAKE_INVALID_ARGUMENT,
                                 "a commit writes one key twice, as writes %zu and %zu", j, i);
        }
    }
    return LAKE_OK;
}

lake_status kv_commit(struct kv_store *store, const struct kv_condition *conditions,
                      size_t condition_count, const struct kv_write *writes, size_t write_count,
                      size_t *failed_condition, struct lake_error *err)
{
    if (condition_count > KV_MAX_COMMIT_OPERATIONS ||
        write_count > KV_MAX_COMMIT_OPERATIONS - condition_count)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a commit has %zu conditions and %zu writes; together at most %d are "
                         "allowed",
                         condition_count, write_count, KV_MAX_COMMIT_OPERATIONS);
    size_t total_bytes = 0;
    lake_status status = check_conditions(conditions, condition_count, &total_bytes, err);
    if (status == LAKE_OK)
        status = check_writes(writes, write_count, &total_bytes, err);
    if (status != LAKE_OK)
        return status;
    if (total_bytes > KV_MAX_COMMIT_BYTES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a commit has %zu bytes of keys and values; at most %d are allowed",
                         total_bytes, KV_MAX_COMMIT_BYTES);
    return store->methods->commit(store->context, conditions, condition_count, writes, write_count,
                                  failed_condition, err);
}

lake_status kv_page_builder_init(struct kv_page_builder *builder, size_t limit, size_t max_bytes,
                                 struct lake_error *err)
{
    *builder = (struct kv_page_builder){.limit = limit, .max_bytes = max_bytes};
    /* The first pair is taken whatever its size; two 16-byte roundings a pair. */
    size_t arena_bytes = limit * (sizeof(struct kv_pair) + 2 * 16) + KV_MAX_KEY_BYTES;
    if (!base_size_add(arena_bytes, BASE_MAX(max_bytes, (size_t)KV_MAX_VALUE_BYTES), &arena_bytes))
        arena_bytes = SIZE_MAX;
    lake_status status = base_arena_new(arena_bytes, &builder->page.memory, err);
    if (status != LAKE_OK)
        return status;
    builder->page.pairs =
        base_arena_calloc_array(builder->page.memory, limit, sizeof(*builder->page.pairs));
    if (builder->page.pairs == NULL) {
        kv_page_fini(&builder->page);
        return base_fail_no_memory(err, limit * sizeof(*builder->page.pairs));
    }
    return LAKE_OK;
}

lake_status kv_page_builder_add(struct kv_page_builder *builder, struct lake_bytes key,
                                struct lake_bytes value, bool *full, struct lake_error *err)
{
    struct kv_page *page = &builder->page;
    size_t pair_bytes = key.size + value.size;
    bool over = builder->used_bytes > builder->max_bytes ||
                pair_bytes > builder->max_bytes - builder->used_bytes;
    if (page->count == builder->limit || (page->count > 0 && over)) {
        page->more = true;
        *full = true;
        return LAKE_OK;
    }
    char *key_copy = base_arena_strndup(page->memory, (const char *)key.data, key.size);
    char *value_copy = base_arena_strndup(page->memory, (const char *)value.data, value.size);
    if (key_copy == NULL || value_copy == NULL)
        return base_fail_no_memory(err, pair_bytes);
    page->pairs[page->count++] = (struct kv_pair){
        .key = {(const uint8_t *)key_copy, key.size},
        .value = {(const uint8_t *)value_copy, value.size},
    };
    builder->used_bytes += pair_bytes;
    *full = false;
    return LAKE_OK;
}

void kv_page_fini(struct kv_page *page)
{
    base_arena_free(page->memory);
    *page = (struct kv_page){.pairs = NULL};
}
