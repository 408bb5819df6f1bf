/* A store that the caller brings, seen as one of storage's. */
#include "client_internal.h"

#include <string.h>

struct caller_store {
    struct lake_store_methods methods;
    void *context;
};

struct caller_writer {
    struct caller_store *store;
    void *handle;
};

/* The caller's functions get a record to fill, with nothing of before in it. */
static struct lake_error *emptied(struct lake_error *err, struct lake_error *spare)
{
    struct lake_error *record = err == NULL ? spare : err;
    lake_error_clear(record);
    return record;
}

/* What the caller's function returned, with its own words or some. */
static lake_status answered(lake_status status, const char *what, struct lake_error *err)
{
    if (status == LAKE_OK || (err->code == status && err->message[0] != '\0'))
        return status;
    if (strcmp(lake_status_name(status), "UNKNOWN") == 0)
        status = LAKE_UNKNOWN;
    return lake_fail(err, status, "the caller's store could not %s", what);
}

static void copy_key(struct lake_str key, char out[STORAGE_MAX_KEY_BYTES + 1])
{
    size_t size = BASE_MIN(key.size, (size_t)STORAGE_MAX_KEY_BYTES);
    memcpy(out, key.data, size);
    out[size] = '\0';
}

static lake_status caller_stat(void *context, struct lake_str key, struct storage_object_info *out,
                               struct lake_error *err)
{
    struct lake_error spare;
    struct caller_store *store = context;
    struct lake_object_info info = {0};
    char name[STORAGE_MAX_KEY_BYTES + 1];
    copy_key(key, name);
    err = emptied(err, &spare);
    lake_status status = store->methods.stat(store->context, name, &info, err);
    if (status != LAKE_OK)
        return answered(status, "say whether an object is there", err);
    *out = (struct storage_object_info){.size_bytes = info.size_bytes};
    memcpy(out->version, info.version, sizeof(out->version) - 1);
    return LAKE_OK;
}

static lake_status caller_read_range_if(void *context, struct lake_str key, const char *version,
                                        uint64_t offset, size_t size_bytes, uint8_t *out,
                                        struct lake_error *err)
{
    struct lake_error spare;
    struct caller_store *store = context;
    char name[STORAGE_MAX_KEY_BYTES + 1];
    copy_key(key, name);
    err = emptied(err, &spare);
    return answered(
        store->methods.read_range(store->context, name, version, offset, size_bytes, out, err),
        "read an object", err);
}

static lake_status caller_read_range(void *context, struct lake_str key, uint64_t offset,
                                     size_t size_bytes, uint8_t *out, struct lake_error *err)
{
    return caller_read_range_if(context, key, "", offset, size_bytes, out, err);
}

static lake_status caller_writer_open(void *context, struct lake_str key, bool only_if_absent,
                                      void **out, struct lake_error *err)
{
    struct lake_error spare;
    struct caller_store *store = context;
    char name[STORAGE_MAX_KEY_BYTES + 1];
    struct caller_writer *writer = base_alloc(sizeof(*writer));
    if (writer == NULL)
        return base_fail_no_memory(err, sizeof(*writer));
    *writer = (struct caller_writer){.store = store};
    err = emptied(err, &spare);
    copy_key(key, name);
    lake_status status = answered(
        store->methods.writer_open(store->context, name, only_if_absent, &writer->handle, err),
        "begin an object", err);
    if (status == LAKE_OK)
        *out = writer;
    else
        base_free(writer);
    return status;
}

static lake_status caller_writer_write(void *handle, struct lake_bytes data, struct lake_error *err)
{
    struct lake_error spare;
    struct caller_writer *writer = handle;
    err = emptied(err, &spare);
    return answered(writer->store->methods.writer_write(writer->handle, data.data, data.size, err),
                    "take an object's bytes", err);
}

static lake_status caller_writer_commit(void *handle, struct lake_error *err)
{
    struct lake_error spare;
    struct caller_writer *writer = handle;
    err = emptied(err, &spare);
    lake_status status = answered(writer->store->methods.writer_commit(writer->handle, err),
                                  "finish an object", err);
    base_free(writer);
    return status;
}

static void caller_writer_abort(void *handle)
{
    struct caller_writer *writer = handle;
    writer->store->methods.writer_abort(writer->handle);
    base_free(writer);
}

static lake_status caller_put(void *context, struct lake_str key, struct lake_bytes data,
                              bool only_if_absent, struct lake_error *err)
{
    void *writer;
    lake_status status = caller_writer_open(context, key, only_if_absent, &writer, err);
    if (status != LAKE_OK)
        return status;
    status = caller_writer_write(writer, data, err);
    if (status == LAKE_OK)
        return caller_writer_commit(writer, err);
    caller_writer_abort(writer);
    return status;
}

static lake_status caller_remove(void *context, struct lake_str key, struct lake_error *err)
{
    struct lake_error spare;
    struct caller_store *store = context;
    char name[STORAGE_MAX_KEY_BYTES + 1];
    copy_key(key, name);
    err = emptied(err, &spare);
    lake_status status = store->methods.remove(store->context, name, err);
    if (status == LAKE_NOT_FOUND) {
        lake_error_clear(err);
        return LAKE_OK;
    }
    return answered(status, "remove an object", err);
}

/* Nothing that a client does lists objects. */
static lake_status caller_list(void *context, struct lake_str prefix, struct lake_str start_after,
                               size_t limit, struct storage_list_page *out, struct lake_error *err)
{
    (void)context, (void)prefix, (void)start_after, (void)limit, (void)out;
    return lake_fail(err, LAKE_UNIMPLEMENTED, "the caller's store lists no objects");
}

static void caller_free(void *context)
{
    struct caller_store *store = context;
    if (store->methods.free != NULL)
        store->methods.free(store->context);
    base_free(store);
}

lake_status client_caller_store_check(const struct lake_store_methods *methods,
                                      struct lake_error *err)
{
    if (methods == NULL || methods->version != 1)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "lake_store_methods has version %u, this library knows 1: initialise it "
                         "with LAKE_STORE_METHODS_INIT",
                         methods == NULL ? 0 : methods->version);
    if (methods->stat == NULL || methods->read_range == NULL || methods->writer_open == NULL ||
        methods->writer_write == NULL || methods->writer_commit == NULL ||
        methods->writer_abort == NULL || methods->remove == NULL)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a store has every function of lake_store_methods; only free may be NULL");
    return LAKE_OK;
}

lake_status client_caller_store_new(const struct lake_store_methods *methods, void *context,
                                    const char *uri, struct storage_store **out,
                                    struct lake_error *err)
{
    static const struct storage_methods adapter = {.stat = caller_stat,
                                                   .read_range = caller_read_range,
                                                   .read_range_if = caller_read_range_if,
                                                   .put = caller_put,
                                                   .writer_open = caller_writer_open,
                                                   .writer_write = caller_writer_write,
                                                   .writer_commit = caller_writer_commit,
                                                   .writer_abort = caller_writer_abort,
                                                   .remove = caller_remove,
                                                   .list = caller_list,
                                                   .free = caller_free};
    struct caller_store *store = base_calloc_array(1, sizeof(*store));
    if (store == NULL)
        return base_fail_no_memory(err, sizeof(*store));
    store->context = context; /* without its `free`: until the end the context is the caller's */
    lake_status status = storage_store_new(&adapter, store, uri, out, err);
    if (status == LAKE_OK)
        store->methods = *methods;
    return status;
}
