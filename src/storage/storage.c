/* What all stores share: key rules, reference counts, writers as objects, and child stores. */
#include "storage.h"
#include "storage_internal.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

struct storage_store {
    const struct storage_methods *methods;
    void *context;
    char *uri;
    atomic_uint references;
};

struct storage_writer {
    struct storage_store *store;
    void *handle; /* the implementation's */
};

static bool component_valid(struct lake_str component)
{
    return component.size > 0 && !base_str_equal_c(component, ".") &&
           !base_str_equal_c(component, "..");
}

bool storage_key_valid(struct lake_str key)
{
    if (key.size == 0 || key.size > STORAGE_MAX_KEY_BYTES ||
        memchr(key.data, '\0', key.size) != NULL)
        return false;
    size_t start = 0;
    for (size_t i = 0; i <= key.size; i++) {
        if (i < key.size && key.data[i] != '/')
            continue;
        if (!component_valid((struct lake_str){key.data + start, i - start}))
            return false;
        start = i + 1;
    }
    return true;
}

lake_status storage_check_key(struct lake_str key, struct lake_error *err)
{
    if (storage_key_valid(key))
        return LAKE_OK;
    return lake_fail(err, LAKE_INVALID_ARGUMENT,
                     "the object key \"%.*s\" (%zu bytes) is not a relative path of at most %d "
                     "bytes without empty, \".\" and \"..\" components",
                     (int)BASE_MIN(key.size, (size_t)200), key.data == NULL ? "" : key.data,
                     key.size, STORAGE_MAX_KEY_BYTES);
}

/* A prefix may end anywhere, so only the components before its last '/' are those of a key. */
lake_status storage_check_prefix(struct lake_str prefix, struct lake_error *err)
{
    if (prefix.size == 0)
        return LAKE_OK;
    if (prefix.size > STORAGE_MAX_KEY_BYTES || memchr(prefix.data, '\0', prefix.size) != NULL)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a listing's prefix of %zu bytes has a NUL or is longer than %d bytes",
                         prefix.size, STORAGE_MAX_KEY_BYTES);
    size_t slash = prefix.size;
    while (slash > 0 && prefix.data[slash - 1] != '/')
        slash--;
    if (slash == 0)
        return LAKE_OK;
    return storage_check_key((struct lake_str){prefix.data, slash - 1}, err);
}

lake_status storage_store_new(const struct storage_methods *methods, void *context, const char *uri,
                              struct storage_store **out, struct lake_error *err)
{
    struct storage_store *store = base_alloc(sizeof(*store));
    char *uri_copy = base_strdup(uri);
    if (store == NULL || uri_copy == NULL) {
        base_free(store);
        base_free(uri_copy);
        methods->free(context);
        return base_fail_no_memory(err, sizeof(*store));
    }
    store->methods = methods;
    store->context = context;
    store->uri = uri_copy;
    atomic_init(&store->references, 1);
    *out = store;
    return LAKE_OK;
}

struct storage_store *storage_store_ref(struct storage_store *store)
{
    (void)atomic_fetch_add(&store->references, 1);
    return store;
}

void storage_store_unref(struct storage_store *store)
{
    if (store == NULL || atomic_fetch_sub(&store->references, 1) != 1)
        return;
    store->methods->free(store->context);
    base_free(store->uri);
    base_free(store);
}

const char *storage_store_uri(const struct storage_store *store)
{
    return store->uri;
}

void *storage_store_context(struct storage_store *store, const struct storage_methods *methods)
{
    return store->methods == methods ? store->context : NULL;
}

const struct storage_methods *storage_store_methods(const struct storage_store *store)
{
    return store->methods;
}

void *storage_store_own_context(struct storage_store *store)
{
    return store->context;
}

lake_status storage_stat(struct storage_store *store, struct lake_str key,
                         struct storage_object_info *out, struct lake_error *err)
{
    struct storage_object_info info = {.size_bytes = 0};
    lake_status status = storage_check_key(key, err);
    if (status == LAKE_OK)
        status = store->methods->stat(store->context, key, &info, err);
    if (status == LAKE_OK)
        *out = info;
    return status;
}

lake_status storage_read_range_if(struct storage_store *store, struct lake_str key,
                                  const char *version, uint64_t offset, size_t size_bytes,
                                  uint8_t *out, struct lake_error *err)
{
    lake_status status = storage_check_key(key, err);
    if (status != LAKE_OK)
        return status;
    uint64_t end;
    if (!base_u64_add(offset, size_bytes, &end) || end > INT64_MAX)
        return lake_fail(err, LAKE_OUT_OF_RANGE,
                         "object %.*s: no object reaches %zu bytes from offset %" PRIu64,
                         LAKE_STR_FMT(key), size_bytes, offset);
    if (version[0] == '\0' || store->methods->read_range_if == NULL)
        return store->methods->read_range(store->context, key, offset, size_bytes, out, err);
    return store->methods->read_range_if(store->context, key, version, offset, size_bytes, out,
                                         err);
}

lake_status storage_read_range(struct storage_store *store, struct lake_str key, uint64_t offset,
                               size_t size_bytes, uint8_t *out, struct lake_error *err)
{
    return storage_read_range_if(store, key, "", offset, size_bytes, out, err);
}

lake_status storage_read_all(struct storage_store *store, struct lake_str key,
                             struct base_buffer *out, struct lake_error *err)
{
    struct storage_object_info info;
    if (store->methods->read_all != NULL) {
        lake_status checked = storage_check_key(key, err);
        return checked != LAKE_OK ? checked
                                  : store->methods->read_all(store->context, key, out, err);
    }
    lake_status status = storage_stat(store, key, &info, err);
    if (status != LAKE_OK)
        return status;
    if (out->size > out->max_bytes || info.size_bytes > out->max_bytes - out->size)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "object %.*s has %" PRIu64 " bytes, %zu are allowed here",
                         LAKE_STR_FMT(key), info.size_bytes,
                         out->max_bytes - BASE_MIN(out->size, out->max_bytes));
    size_t size_bytes = (size_t)info.size_bytes;
    if (size_bytes == 0)
        return LAKE_OK;
    status = base_buffer_reserve(out, size_bytes, err);
    if (status == LAKE_OK)
        status = storage_read_range(store, key, 0, size_bytes, out->data + out->size, err);
    if (status == LAKE_OK)
        out->size += size_bytes;
    return status;
}

static lake_status put(struct storage_store *store, struct lake_str key, struct lake_bytes data,
                       bool only_if_absent, struct lake_error *err)
{
    lake_status status = storage_check_key(key, err);
    if (status != LAKE_OK)
        return status;
    return store->methods->put(store->context, key, data, only_if_absent, err);
}

lake_status storage_put(struct storage_store *store, struct lake_str key, struct lake_bytes data,
                        struct lake_error *err)
{
    return put(store, key, data, false, err);
}

lake_status storage_put_unsynced(struct storage_store *store, struct lake_str key,
                                 struct lake_bytes data, struct lake_error *err)
{
    if (store->methods->put_unsynced == NULL)
        return storage_put(store, key, data, err);
    lake_status status = storage_check_key(key, err);
    if (status != LAKE_OK)
        return status;
    return store->methods->put_unsynced(store->context, key, data, err);
}

lake_status storage_put_if_absent(struct storage_store *store, struct lake_str key,
                                  struct lake_bytes data, struct lake_error *err)
{
    return put(store, key, data, true, err);
}

lake_status storage_put_typed_if_absent(struct storage_store *store, struct lake_str key,
                                        struct lake_bytes data, const char *media_type,
                                        struct lake_error *err)
{
    lake_status status = storage_check_key(key, err);
    if (status != LAKE_OK)
        return status;
    if (store->methods->put_typed_if_absent == NULL)
        return store->methods->put(store->context, key, data, true, err);
    return store->methods->put_typed_if_absent(store->context, key, data, media_type, err);
}

lake_status storage_remove(struct storage_store *store, struct lake_str key, struct lake_error *err)
{
    lake_status status = storage_check_key(key, err);
    if (status != LAKE_OK)
        return status;
    return store->methods->remove(store->context, key, err);
}

lake_status storage_list(struct storage_store *store, struct lake_str prefix,
                         struct lake_str start_after, size_t limit, struct storage_list_page *out,
                         struct lake_error *err)
{
    lake_status status = storage_check_prefix(prefix, err);
    if (status != LAKE_OK)
        return status;
    if (limit == 0 || limit > STORAGE_MAX_LIST)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a listing gives 1 to %d keys, %zu were asked for", STORAGE_MAX_LIST,
                         limit);
    if (start_after.size > STORAGE_MAX_KEY_BYTES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a listing cannot start after a key of %zu bytes: the limit is %d",
                         start_after.size, STORAGE_MAX_KEY_BYTES);
    return store->methods->list(store->context, prefix, start_after, limit, out, err);
}

void storage_list_page_fini(struct storage_list_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        base_free(page->entries[i].key);
    base_free(page->entries);
    *page = (struct storage_list_page){.entries = NULL};
}

lake_status storage_writer_open(struct storage_store *store, struct lake_str key,
                                bool only_if_absent, struct storage_writer **out,
                                struct lake_error *err)
{
    lake_status status = storage_check_key(key, err);
    if (status != LAKE_OK)
        return status;
    struct storage_writer *writer = base_alloc(sizeof(*writer));
    if (writer == NULL)
        return base_fail_no_memory(err, sizeof(*writer));
    status = store->methods->writer_open(store->context, key, only_if_absent, &writer->handle, err);
    if (status != LAKE_OK) {
        base_free(writer);
        return status;
    }
    writer->store = storage_store_ref(store);
    *out = writer;
    return LAKE_OK;
}

lake_status storage_writer_write(struct storage_writer *writer, struct lake_bytes data,
                                 struct lake_error *err)
{
    return writer->store->methods->writer_write(writer->handle, data, err);
}

static void release_writer(struct storage_writer *writer)
{
    storage_store_unref(writer->store);
    base_free(writer);
}

lake_status storage_writer_commit(struct storage_writer *writer, struct lake_error *err)
{
    lake_status status = writer->store->methods->writer_commit(writer->handle, err);
    release_writer(writer);
    return status;
}

void storage_writer_abort(struct storage_writer *writer)
{
    if (writer == NULL)
        return;
    writer->store->methods->writer_abort(writer->handle);
    release_writer(writer);
}
