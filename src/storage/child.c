/* The store below a prefix of another: joins keys on the way in, cuts them on the way out. */
#include "storage.h"
#include "storage_internal.h"

#include <string.h>

struct child {
    struct storage_store *parent;
    char *prefix; /* ends in '/' */
    size_t prefix_bytes;
};

struct joined_key {
    char bytes[STORAGE_MAX_KEY_BYTES];
    struct lake_str key;
};

static lake_status join(const struct child *child, struct lake_str key, struct joined_key *out,
                        struct lake_error *err)
{
    if (key.size > STORAGE_MAX_KEY_BYTES - child->prefix_bytes)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "an object key of %zu bytes below %s exceeds the limit of %d bytes",
                         key.size, child->prefix, STORAGE_MAX_KEY_BYTES);
    memcpy(out->bytes, child->prefix, child->prefix_bytes);
    if (key.size > 0)
        memcpy(out->bytes + child->prefix_bytes, key.data, key.size);
    out->key = (struct lake_str){out->bytes, child->prefix_bytes + key.size};
    return LAKE_OK;
}

static lake_status child_stat(void *context, struct lake_str key, struct storage_object_info *out,
                              struct lake_error *err)
{
    struct child *child = context;
    struct joined_key joined;
    lake_status status = join(child, key, &joined, err);
    return status != LAKE_OK ? status : storage_stat(child->parent, joined.key, out, err);
}

static lake_status child_read_range_if(void *context, struct lake_str key, const char *version,
                                       uint64_t offset, size_t size_bytes, uint8_t *out,
                                       struct lake_error *err)
{
    struct child *child = context;
    struct joined_key joined;
    lake_status status = join(child, key, &joined, err);
    if (status != LAKE_OK)
        return status;
    return storage_read_range_if(child->parent, joined.key, version, offset, size_bytes, out, err);
}

static lake_status child_read_all(void *context, struct lake_str key, struct base_buffer *out,
                                  struct lake_error *err)
{
    struct child *child = context;
    struct joined_key joined;
    lake_status status = join(child, key, &joined, err);
    return status != LAKE_OK ? status : storage_read_all(child->parent, joined.key, out, err);
}

static lake_status child_read_range(void *context, struct lake_str key, uint64_t offset,
                                    size_t size_bytes, uint8_t *out, struct lake_error *err)
{
    struct child *child = context;
    struct joined_key joined;
    lake_status status = join(child, key, &joined, err);
    if (status != LAKE_OK)
        return status;
    return storage_read_range(child->parent, joined.key, offset, size_bytes, out, err);
}

static lake_status child_put(void *context, struct lake_str key, struct lake_bytes data,
                             bool only_if_absent, struct lake_error *err)
{
    struct child *child = context;
    struct joined_key joined;
    lake_status status = join(child, key, &joined, err);
    if (status != LAKE_OK)
        return status;
    return only_if_absent ? storage_put_if_absent(child->parent, joined.key, data, err)
                          : storage_put(child->parent, joined.key, data, err);
}

static lake_status child_put_typed_if_absent(void *context, struct lake_str key,
                                             struct lake_bytes data, const char *media_type,
                                             struct lake_error *err)
{
    struct child *child = context;
    struct joined_key joined;
    lake_status status = join(child, key, &joined, err);
    if (status != LAKE_OK)
        return status;
    return storage_put_typed_if_absent(child->parent, joined.key, data, media_type, err);
}

static lake_status child_put_unsynced(void *context, struct lake_str key, struct lake_bytes data,
                                      struct lake_error *err)
{
    struct child *child = context;
    struct joined_key joined;
    lake_status status = join(child, key, &joined, err);
    if (status != LAKE_OK)
        return status;
    return storage_put_unsynced(child->parent, joined.key, data, err);
}

static lake_status child_writer_open(void *context, struct lake_str key, bool only_if_absent,
                                     void **writer, struct lake_error *err)
{
    struct child *child = context;
    struct joined_key joined;
    lake_status status = join(child, key, &joined, err);
    if (status != LAKE_OK)
        return status;
    struct storage_writer *opened;
    status = storage_writer_open(child->parent, joined.key, only_if_absent, &opened, err);
    if (status == LAKE_OK)
        *writer = opened;
    return status;
}

static lake_status child_writer_write(void *writer, struct lake_bytes data, struct lake_error *err)
{
    return storage_writer_write(writer, data, err);
}

static lake_status child_writer_commit(void *writer, struct lake_error *err)
{
    return storage_writer_commit(writer, err);
}

static void child_writer_abort(void *writer)
{
    storage_writer_abort(writer);
}

static lake_status child_remove(void *context, struct lake_str key, struct lake_error *err)
{
    struct child *child = context;
    struct joined_key joined;
    lake_status status = join(child, key, &joined, err);
    return status != LAKE_OK ? status : storage_remove(child->parent, joined.key, err);
}

static lake_status child_list(void *context, struct lake_str prefix, struct lake_str start_after,
                              size_t limit, struct storage_list_page *out, struct lake_error *err)
{
    struct child *child = context;
    struct joined_key joined_prefix;
    struct joined_key joined_start = {.key = {NULL, 0}};
    lake_status status = join(child, prefix, &joined_prefix, err);
    if (status == LAKE_OK && start_after.size > 0)
        status = join(child, start_after, &joined_start, err);
    struct storage_list_page page;
    if (status == LAKE_OK)
        status =
            storage_list(child->parent, joined_prefix.key, joined_start.key, limit, &page, err);
    if (status != LAKE_OK)
        return status;
    for (size_t i = 0; i < page.count; i++) {
        char *key = page.entries[i].key;
        memmove(key, key + child->prefix_bytes, strlen(key) - child->prefix_bytes + 1);
    }
    *out = page;
    return LAKE_OK;
}

/* ---- streams and multipart uploads: the parent's ---- */

typedef lake_status (*stream_opener)(struct storage_store *store, struct lake_str key,
                                     const char *version, uint64_t offset, uint64_t size_bytes,
                                     struct storage_stream **out, struct lake_error *err);

static lake_status open_parents(const struct child *child, stream_opener opener,
                                struct lake_str key, const char *version, uint64_t offset,
                                uint64_t size_bytes, void **stream, struct lake_error *err)
{
    struct joined_key joined;
    struct storage_stream *opened;
    lake_status status = join(child, key, &joined, err);
    if (status == LAKE_OK)
        status = opener(child->parent, joined.key, version, offset, size_bytes, &opened, err);
    if (status == LAKE_OK)
        *stream = opened;
    return status;
}

static lake_status child_stream_open(void *context, struct lake_str key, const char *version,
                                     uint64_t offset, uint64_t size_bytes, void **stream,
                                     struct lake_error *err)
{
    return open_parents(context, storage_stream_open, key, version, offset, size_bytes, stream,
                        err);
}

static lake_status child_range_open(void *context, struct lake_str key, const char *version,
                                    uint64_t offset, uint64_t size_bytes, void **stream,
                                    struct lake_error *err)
{
    return open_parents(context, storage_range_stream_open, key, version, offset, size_bytes,
                        stream, err);
}

static lake_status child_stream_next(void *stream, struct lake_bytes *out, struct lake_error *err)
{
    return storage_stream_next(stream, out, err);
}

static void child_stream_free(void *stream)
{
    storage_stream_free(stream);
}

static const struct storage_stream_methods child_stream_methods = {
    .open = child_stream_open,
    .next = child_stream_next,
    .free = child_stream_free,
};

static const struct storage_stream_methods child_range_methods = {
    .open = child_range_open,
    .next = child_stream_next,
    .free = child_stream_free,
};

static lake_status child_upload_open(void *context, struct lake_str key, const char *upload_id,
                                     const char *media_type, bool only_if_absent, void **upload,
                                     struct lake_error *err)
{
    struct child *child = context;
    struct joined_key joined;
    struct storage_multipart *opened;
    lake_status status = join(child, key, &joined, err);
    if (status == LAKE_OK && upload_id == NULL)
        status = storage_multipart_create(child->parent, joined.key, media_type, only_if_absent,
                                          &opened, err);
    else if (status == LAKE_OK)
        status = storage_multipart_reopen(child->parent, joined.key, upload_id, only_if_absent,
                                          &opened, err);
    if (status == LAKE_OK)
        *upload = opened;
    return status;
}

static const char *child_upload_id(const void *upload)
{
    return storage_multipart_id(upload);
}

static lake_status child_upload_parts(void *upload, struct storage_part **out, size_t *count,
                                      struct lake_error *err)
{
    return storage_multipart_parts(upload, out, count, err);
}

static lake_status child_part_start(void *upload, uint32_t number, struct lake_bytes data,
                                    struct lake_error *err)
{
    return storage_multipart_part_start(upload, number, data, err);
}

static lake_status child_part_finish(void *upload, struct storage_part *out, struct lake_error *err)
{
    return storage_multipart_part_finish(upload, out, err);
}

static size_t child_in_flight(const void *upload)
{
    return storage_multipart_in_flight(upload);
}

static lake_status child_complete(void *upload, const struct storage_part *parts, size_t count,
                                  struct lake_error *err)
{
    return storage_multipart_complete(upload, parts, count, err);
}

static lake_status child_upload_abort(void *upload, struct lake_error *err)
{
    return storage_multipart_abort(upload, err);
}

static void child_upload_free(void *upload)
{
    storage_multipart_free(upload);
}

static lake_status child_upload_list(void *context, struct lake_str prefix, size_t max_count,
                                     struct storage_upload_entry **out, size_t *count,
                                     struct lake_error *err)
{
    struct child *child = context;
    struct joined_key joined;
    lake_status status = join(child, prefix, &joined, err);
    if (status == LAKE_OK)
        status = storage_multipart_list(child->parent, joined.key, max_count, out, count, err);
    if (status != LAKE_OK)
        return status;
    for (size_t i = 0; i < *count; i++) {
        char *key = (*out)[i].key;
        memmove(key, key + child->prefix_bytes, strlen(key) - child->prefix_bytes + 1);
    }
    return LAKE_OK;
}

static const struct storage_multipart_methods child_multipart_methods = {
    .open = child_upload_open,
    .id = child_upload_id,
    .parts = child_upload_parts,
    .part_start = child_part_start,
    .part_finish = child_part_finish,
    .in_flight = child_in_flight,
    .complete = child_complete,
    .abort = child_upload_abort,
    .free = child_upload_free,
    .list = child_upload_list,
};

static lake_status child_presign_read(void *context, struct lake_str key, uint32_t expires_s,
                                      struct storage_presigned *out, struct lake_error *err)
{
    struct child *child = context;
    struct joined_key joined;
    lake_status status = join(child, key, &joined, err);
    if (status != LAKE_OK)
        return status;
    return storage_presign_read(child->parent, joined.key, expires_s, out, err);
}

static void child_free(void *context)
{
    struct child *child = context;
    storage_store_unref(child->parent);
    base_free(child->prefix);
    base_free(child);
}

static const struct storage_methods child_methods = {
    .stat = child_stat,
    .read_range = child_read_range,
    .read_range_if = child_read_range_if,
    .read_all = child_read_all,
    .put = child_put,
    .put_typed_if_absent = child_put_typed_if_absent,
    .put_unsynced = child_put_unsynced,
    .writer_open = child_writer_open,
    .writer_write = child_writer_write,
    .writer_commit = child_writer_commit,
    .writer_abort = child_writer_abort,
    .remove = child_remove,
    .list = child_list,
    .stream = &child_stream_methods,
    .range_stream = &child_range_methods,
    .multipart = &child_multipart_methods,
    .presign_read = child_presign_read,
    .free = child_free,
};

bool storage_child_parts(struct storage_store *store, struct storage_store **parent,
                         struct lake_str *prefix)
{
    struct child *child = storage_store_context(store, &child_methods);
    if (child == NULL)
        return false;
    *parent = child->parent;
    *prefix = (struct lake_str){child->prefix, child->prefix_bytes};
    return true;
}

lake_status storage_child_open(struct storage_store *parent, struct lake_str prefix,
                               struct storage_store **out, struct lake_error *err)
{
    if (prefix.size > 0 && prefix.data[prefix.size - 1] == '/')
        prefix.size--;
    /* One byte for the '/' and one for the shortest key. */
    if (!storage_key_valid(prefix) || prefix.size > STORAGE_MAX_KEY_BYTES - 2)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "\"%.*s\" is not a prefix for a store below %s",
                         (int)BASE_MIN(prefix.size, (size_t)200),
                         prefix.data == NULL ? "" : prefix.data, storage_store_uri(parent));
    char *uri = base_format("%s/%.*s", storage_store_uri(parent), LAKE_STR_FMT(prefix));
    char *slashed = base_format("%.*s/", LAKE_STR_FMT(prefix));
    struct child *child = base_alloc(sizeof(*child));
    lake_status status;
    if (uri == NULL || slashed == NULL || child == NULL) {
        base_free(slashed);
        base_free(child);
        status = base_fail_no_memory(err, sizeof(*child) + 2 * prefix.size);
    } else {
        *child = (struct child){storage_store_ref(parent), slashed, prefix.size + 1};
        status = storage_store_new(&child_methods, child, uri, out, err);
    }
    base_free(uri);
    return status;
}
