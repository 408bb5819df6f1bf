/* Streams of any store: its own, or one range after the other. */
#include "storage.h"
#include "storage_internal.h"

#include <inttypes.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)1024 * 1024)

struct storage_stream {
    struct storage_store *store;
    const struct storage_stream_methods *methods; /* NULL: the rest is used */
    void *handle;                                 /* the implementation's */
    lake_status failed;
    char *key;
    char version[STORAGE_VERSION_BYTES];
    uint64_t next, end;
    uint8_t *block;
};

static lake_status set_up(struct storage_stream *stream, struct lake_str key, const char *version,
                          uint64_t offset, uint64_t size_bytes, struct lake_error *err)
{
    if (stream->methods != NULL)
        return stream->methods->open(storage_store_own_context(stream->store), key, version, offset,
                                     size_bytes, &stream->handle, err);
    memcpy(stream->version, version, strlen(version) + 1);
    stream->next = offset;
    stream->end = offset + size_bytes;
    stream->key = base_strndup(key.data, key.size);
    stream->block = base_alloc((size_t)BASE_MIN(size_bytes, BLOCK_BYTES));
    return stream->key == NULL || stream->block == NULL ? base_fail_no_memory(err, BLOCK_BYTES)
                                                        : LAKE_OK;
}

static lake_status open_by(struct storage_store *store,
                           const struct storage_stream_methods *methods, struct lake_str key,
                           const char *version, uint64_t offset, uint64_t size_bytes,
                           struct storage_stream **out, struct lake_error *err)
{
    uint64_t end;
    lake_status status = storage_check_key(key, err);
    if (status == LAKE_OK && strlen(version) >= STORAGE_VERSION_BYTES)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "the version of object %.*s is too long",
                           LAKE_STR_FMT(key));
    if (status == LAKE_OK && (!base_u64_add(offset, size_bytes, &end) || end > INT64_MAX))
        status = lake_fail(err, LAKE_OUT_OF_RANGE,
                           "object %.*s: no object reaches %" PRIu64 " bytes from offset %" PRIu64,
                           LAKE_STR_FMT(key), size_bytes, offset);
    if (status != LAKE_OK)
        return status;
    struct storage_stream *stream = base_calloc_array(1, sizeof(*stream));
    if (stream == NULL)
        return base_fail_no_memory(err, sizeof(*stream));
    stream->store = storage_store_ref(store);
    stream->methods = methods;
    status = set_up(stream, key, version, offset, size_bytes, err);
    if (status != LAKE_OK) {
        storage_stream_free(stream);
        return status;
    }
    *out = stream;
    return LAKE_OK;
}

lake_status storage_stream_open(struct storage_store *store, struct lake_str key,
                                const char *version, uint64_t offset, uint64_t size_bytes,
                                struct storage_stream **out, struct lake_error *err)
{
    return open_by(store, storage_store_methods(store)->stream, key, version, offset, size_bytes,
                   out, err);
}

lake_status storage_range_stream_open(struct storage_store *store, struct lake_str key,
                                      const char *version, uint64_t offset, uint64_t size_bytes,
                                      struct storage_stream **out, struct lake_error *err)
{
    const struct storage_methods *methods = storage_store_methods(store);
    return open_by(store, methods->range_stream != NULL ? methods->range_stream : methods->stream,
                   key, version, offset, size_bytes, out, err);
}

static lake_status next_block(struct storage_stream *stream, struct lake_bytes *out,
                              struct lake_error *err)
{
    size_t size = (size_t)BASE_MIN(stream->end - stream->next, BLOCK_BYTES);
    lake_status status = LAKE_OK;
    if (size > 0)
        status = storage_read_range_if(stream->store, base_str_of(stream->key), stream->version,
                                       stream->next, size, stream->block, err);
    if (status == LAKE_OK) {
        stream->next += size;
        *out = (struct lake_bytes){stream->block, size};
    }
    return status;
}

lake_status storage_stream_next(struct storage_stream *stream, struct lake_bytes *out,
                                struct lake_error *err)
{
    if (stream->failed != LAKE_OK)
        return lake_fail(err, stream->failed, "the stream has failed before");
    lake_status status = stream->methods != NULL ? stream->methods->next(stream->handle, out, err)
                                                 : next_block(stream, out, err);
    stream->failed = status;
    return status;
}

void storage_stream_free(struct storage_stream *stream)
{
    if (stream == NULL)
        return;
    if (stream->methods != NULL && stream->handle != NULL)
        stream->methods->free(stream->handle);
    storage_store_unref(stream->store);
    base_free(stream->key);
    base_free(stream->block);
    base_free(stream);
}
