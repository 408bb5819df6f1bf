/* Ranges on their way: of stores whose own requests start and finish apart. */
#include "storage.h"
#include "storage_internal.h"

#include <string.h>

struct storage_fetch {
    struct storage_store *store; /* the innermost; not a child */
    const struct storage_fetch_methods *methods;
    void *handle;
    char key[STORAGE_MAX_KEY_BYTES + 1]; /* of that store */
};

static struct storage_store *innermost(struct storage_store *store)
{
    struct lake_str prefix;
    while (storage_child_parts(store, &store, &prefix))
        continue;
    return store;
}

bool storage_can_fetch(struct storage_store *store)
{
    return storage_store_methods(innermost(store))->fetch != NULL;
}

/* The key as the innermost store has it: prefixes are put before it, from the inside out. */
static lake_status find_key(struct storage_store *store, struct lake_str key, char *out,
                            struct lake_error *err)
{
    struct lake_str prefix;
    size_t size = key.size;
    lake_status status = storage_check_key(key, err);
    if (status != LAKE_OK)
        return status;
    memcpy(out, key.data, key.size);
    while (storage_child_parts(store, &store, &prefix)) {
        if (prefix.size > STORAGE_MAX_KEY_BYTES - size)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "the object key %.*s is too long",
                             LAKE_STR_FMT(key));
        memmove(out + prefix.size, out, size);
        memcpy(out, prefix.data, prefix.size);
        size += prefix.size;
    }
    out[size] = '\0';
    return LAKE_OK;
}

lake_status storage_fetch_start(struct storage_store *store, struct lake_str key,
                                const char *version, uint64_t offset, size_t size_bytes,
                                uint8_t *out, struct storage_fetch **fetch, struct lake_error *err)
{
    struct storage_store *inner = innermost(store);
    const struct storage_fetch_methods *methods = storage_store_methods(inner)->fetch;
    if (methods == NULL)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "%s has no requests that start and finish apart",
                         storage_store_uri(store));
    if (size_bytes == 0 || strlen(version) >= STORAGE_VERSION_BYTES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a fetch has at least one byte, of a version that is not too long");
    struct storage_fetch *made = base_alloc(sizeof(*made));
    if (made == NULL)
        return base_fail_no_memory(err, sizeof(*made));
    *made = (struct storage_fetch){.store = storage_store_ref(inner), .methods = methods};
    lake_status status = find_key(store, key, made->key, err);
    if (status == LAKE_OK)
        status = methods->start(storage_store_own_context(inner), base_str_of(made->key), version,
                                offset, size_bytes, out, &made->handle, err);
    if (status != LAKE_OK) {
        storage_store_unref(inner);
        base_free(made);
        return status;
    }
    *fetch = made;
    return LAKE_OK;
}

lake_status storage_fetch_finish(struct storage_fetch *fetch, struct lake_error *err)
{
    lake_status status = fetch->methods->finish(fetch->handle, err);
    storage_store_unref(fetch->store);
    base_free(fetch);
    return status;
}

void storage_fetch_cancel(struct storage_fetch *fetch)
{
    if (fetch == NULL)
        return;
    fetch->methods->cancel(fetch->handle);
    storage_store_unref(fetch->store);
    base_free(fetch);
}
