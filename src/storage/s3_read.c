/*
 * Reading. A range is one GET whose Content-Range is checked before its first byte is taken. A
 * reply that breaks off is continued from where it broke, of the same object only (If-Match).
 */
#include "s3.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* "bytes 5-9/20" */
static bool parse_content_range(struct lake_str text, uint64_t *first, uint64_t *last,
                                uint64_t *total)
{
    if (!base_str_has_prefix(text, "bytes "))
        return false;
    text = (struct lake_str){text.data + 6, text.size - 6};
    const char *dash = memchr(text.data, '-', text.size);
    const char *slash = memchr(text.data, '/', text.size);
    if (dash == NULL || slash == NULL || slash < dash)
        return false;
    const char *end = text.data + text.size;
    return base_str_to_u64((struct lake_str){text.data, (size_t)(dash - text.data)}, first) &&
           base_str_to_u64((struct lake_str){dash + 1, (size_t)(slash - dash - 1)}, last) &&
           base_str_to_u64((struct lake_str){slash + 1, (size_t)(end - slash - 1)}, total) &&
           *first <= *last && *last < *total;
}

static lake_status prepare_range(void *context, struct s3_call *call, struct lake_error *err)
{
    struct s3_range *read = context;
    (void)err;
    if (read->etag[0] == '\0' || read->out == NULL)
        read->done = 0; /* what came before may be of another object, or is gone */
    read->resumed_at = read->done;
    (void)snprintf(read->range, sizeof(read->range), "bytes=%" PRIu64 "-%" PRIu64,
                   read->offset + read->done, read->offset + read->size - 1);
    s3_call_set_header(call, LAKE_STR("range"), base_str_of(read->range));
    if (read->etag[0] != '\0')
        s3_call_set_header(call, LAKE_STR("if-match"), base_str_of(read->etag));
    return LAKE_OK;
}

static bool accept_range(void *context, const struct http_reply *reply)
{
    struct s3_range *read = context;
    struct lake_str text;
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t total = 0;
    uint64_t length = 0;
    bool has_length = s3_reply_u64(reply, "content-length", &length);
    uint64_t want_first = read->offset + read->done;
    uint64_t want = read->size - read->done;
    read->refused = LAKE_DATA_LOSS;
    bool by_url = read->store->url != NULL; /* OBJ-6, OBJ-8: nothing but the range, all said */
    if (reply->status == 206) {
        if (!http_reply_header(reply, "content-range", &text) ||
            !parse_content_range(text, &first, &last, &total) || first != want_first)
            return false;
        if (total < read->offset + read->size) {
            read->refused = LAKE_OUT_OF_RANGE;
            return false;
        }
        if (last - first + 1 != want || (has_length && length != want))
            return false;
        if (by_url && (!has_length || total != read->store->object_bytes))
            return false;
    } else if (by_url || want_first != 0 || !has_length || length != want) {
        /* The whole object in place of a range of it; good only when that is the same. */
        read->refused =
            want_first == 0 && has_length && length < want ? LAKE_OUT_OF_RANGE : LAKE_DATA_LOSS;
        return false;
    }
    if (read->etag[0] == '\0')
        s3_reply_etag(reply, read->etag);
    read->refused = LAKE_OK;
    return true;
}

static bool consume_range(void *context, const uint8_t *data, size_t size)
{
    struct s3_range *read = context;
    if (size > read->size - read->done) {
        read->refused = LAKE_DATA_LOSS;
        return false;
    }
    if (read->out != NULL)
        memcpy(read->out + read->done, data, size);
    read->done += size;
    (void)atomic_fetch_add(&read->store->counters.received_bytes, size);
    return true;
}

static enum s3_verdict check_range(void *context, struct s3_call *call, struct lake_error *err)
{
    struct s3_range *read = context;
    if (read->refused == LAKE_OUT_OF_RANGE)
        (void)lake_fail(err, LAKE_OUT_OF_RANGE,
                        "object %.*s in %s is shorter: %" PRIu64 " bytes from offset %" PRIu64
                        " are not there",
                        LAKE_STR_FMT(read->key), read->store->bucket, read->size, read->offset);
    else if (read->refused != LAKE_OK)
        (void)lake_fail(err, LAKE_DATA_LOSS,
                        "the server's answer about object %.*s in %s is not the range that was "
                        "asked for",
                        LAKE_STR_FMT(read->key), read->store->bucket);
    else if (read->done == read->size)
        return S3_DONE;
    else {
        (void)lake_fail(
            err, LAKE_UNAVAILABLE,
            "%s object %.*s in %s: the answer was cut short after %" PRIu64 " of %" PRIu64 " bytes",
            call->what, LAKE_STR_FMT(read->key), read->store->bucket, read->done, read->size);
        return S3_TRY_AGAIN;
    }
    return S3_FAILED;
}

/* No GET has a range without bytes. */
static lake_status read_nothing(struct s3_store *store, struct lake_str key, uint64_t offset,
                                struct lake_error *err)
{
    struct storage_object_info info;
    lake_status status = s3_stat(store, key, &info, err);
    if (status == LAKE_OK && offset > info.size_bytes)
        return lake_fail(err, LAKE_OUT_OF_RANGE,
                         "object %.*s in %s has %" PRIu64 " bytes: offset %" PRIu64 " is past it",
                         LAKE_STR_FMT(key), store->bucket, info.size_bytes, offset);
    return status;
}

void s3_range_init(struct s3_range *range, struct s3_store *store, struct lake_str key,
                   const char *version, uint64_t offset, uint64_t size_bytes, uint8_t *out)
{
    *range = (struct s3_range){
        .store = store, .key = key, .offset = offset, .size = size_bytes, .out = out};
    (void)snprintf(range->etag, sizeof(range->etag), "%s", version);
    struct s3_call *call = &range->call;
    s3_call_init(call, store, "reading", "GET", key);
    call->prepare = prepare_range;
    call->accept = accept_range;
    call->consume = consume_range;
    call->check = check_range;
    call->context = range;
}

lake_status s3_range_failure(const struct s3_range *range, lake_status status,
                             struct lake_error *err)
{
    if (range->call.reply.status == 412)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "object %.*s in %s was replaced while it was read: read it from the "
                         "start",
                         LAKE_STR_FMT(range->key), range->store->bucket);
    if (status == LAKE_UNAVAILABLE && range->call.begun)
        return lake_fail_wrap(
            err, LAKE_UNAVAILABLE,
            "object %.*s in %s ended early: %" PRIu64 " of the %" PRIu64 " bytes of the range came",
            LAKE_STR_FMT(range->key), range->store->bucket, range->done, range->size);
    return status;
}

lake_status s3_range_await(struct s3_range *range, uint64_t bytes, uint64_t *arrived,
                           struct lake_error *err)
{
    lake_status status = LAKE_OK;
    do {
        uint64_t have = range->resumed_at +
                        http_transfer_await(range->call.transfer, bytes - range->resumed_at);
        if (have >= bytes && have < range->size) {
            *arrived = have;
            return LAKE_OK;
        }
    } while (!s3_call_settle(&range->call, &status, err));
    if (status != LAKE_OK)
        return s3_range_failure(range, status, err);
    *arrived = range->size;
    return LAKE_OK;
}

lake_status s3_range_finish(struct s3_range *range, struct lake_error *err)
{
    lake_status status = s3_call_finish(&range->call, err);
    return status == LAKE_OK ? LAKE_OK : s3_range_failure(range, status, err);
}

lake_status s3_read_range(void *context, struct lake_str key, const char *version, uint64_t offset,
                          size_t size_bytes, uint8_t *out, struct lake_error *err)
{
    struct s3_range range;
    if (size_bytes == 0)
        return read_nothing(context, key, offset, err);
    s3_range_init(&range, context, key, version, offset, size_bytes, out);
    lake_status status = s3_call_start(&range.call, err);
    if (status == LAKE_OK)
        status = s3_range_finish(&range, err);
    s3_call_fini(&range.call);
    return status;
}

/* ---- ranges on their way ---- */

static lake_status start_fetch(void *context, struct lake_str key, const char *version,
                               uint64_t offset, size_t size_bytes, uint8_t *out, void **fetch,
                               struct lake_error *err)
{
    struct s3_range *range = base_alloc(sizeof(*range));
    if (range == NULL)
        return base_fail_no_memory(err, sizeof(*range));
    s3_range_init(range, context, key, version, offset, size_bytes, out);
    lake_status status = s3_call_start(&range->call, err);
    if (status != LAKE_OK) {
        s3_call_fini(&range->call);
        base_free(range);
        return status;
    }
    *fetch = range;
    return LAKE_OK;
}

static void cancel_fetch(void *fetch)
{
    struct s3_range *range = fetch;
    s3_call_fini(&range->call);
    base_free(range);
}

static lake_status finish_fetch(void *fetch, struct lake_error *err)
{
    lake_status status = s3_range_finish(fetch, err);
    cancel_fetch(fetch);
    return status;
}

const struct storage_fetch_methods s3_fetch_methods = {
    .start = start_fetch,
    .finish = finish_fetch,
    .cancel = cancel_fetch,
};

/* ---- whole objects, of a bounded size ---- */

struct whole_read {
    struct s3_store *store;
    struct lake_str key;
    struct base_buffer *out;
    size_t start; /* where it begins in `out` */
    uint64_t length;
    bool has_length;
    bool too_long;
    bool no_memory;
};

static bool accept_whole(void *context, const struct http_reply *reply)
{
    struct whole_read *read = context;
    read->out->size = read->start;
    read->too_long = read->no_memory = false;
    read->has_length = s3_reply_u64(reply, "content-length", &read->length);
    if (!read->has_length)
        return true;
    read->too_long = read->length > read->out->max_bytes - read->start;
    if (read->too_long)
        return false;
    read->no_memory = base_buffer_reserve(read->out, (size_t)read->length, NULL) != LAKE_OK;
    return !read->no_memory;
}

static bool consume_whole(void *context, const uint8_t *data, size_t size)
{
    struct whole_read *read = context;
    read->too_long = size > read->out->max_bytes - read->out->size;
    read->no_memory = !read->too_long && base_buffer_append(read->out, data, size, NULL) != LAKE_OK;
    (void)atomic_fetch_add(&read->store->counters.received_bytes, size);
    return !read->too_long && !read->no_memory;
}

/* Checksums of whole objects only: one with '-' in it is of a multipart object's parts. */
static bool checksums_match(const struct http_reply *reply, struct lake_bytes data)
{
    char text[CHECKSUM_BASE64_BYTES];
    struct lake_str value;
    if (http_reply_header(reply, "x-amz-checksum-crc32c", &value) && value.size == 8) {
        checksum_crc32c_text(checksum_crc32c(0, data), text);
        return base_str_equal_c(value, text);
    }
    if (http_reply_header(reply, "x-amz-checksum-crc64nvme", &value) && value.size == 12) {
        checksum_crc64nvme_text(checksum_crc64nvme(0, data), text);
        return base_str_equal_c(value, text);
    }
    return true;
}

static enum s3_verdict check_whole(void *context, struct s3_call *call, struct lake_error *err)
{
    struct whole_read *read = context;
    size_t size = read->out->size - read->start;
    if (read->no_memory) {
        (void)base_fail_no_memory(err, (size_t)read->length);
        return S3_FAILED;
    }
    if (read->too_long) {
        (void)lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                        "object %.*s in %s has more than the %zu bytes that are allowed here",
                        LAKE_STR_FMT(read->key), read->store->bucket,
                        read->out->max_bytes - read->start);
        return S3_FAILED;
    }
    if (read->has_length && size != read->length) {
        (void)lake_fail(err, LAKE_UNAVAILABLE, "%s object %.*s in %s: the answer was cut short",
                        call->what, LAKE_STR_FMT(read->key), read->store->bucket);
        return S3_TRY_AGAIN;
    }
    if (!checksums_match(&call->reply, (struct lake_bytes){read->out->data + read->start, size})) {
        (void)lake_fail(err, LAKE_DATA_LOSS,
                        "object %.*s in %s does not have the checksum that its store keeps of it",
                        LAKE_STR_FMT(read->key), read->store->bucket);
        return S3_TRY_AGAIN;
    }
    return S3_DONE;
}

lake_status s3_read_all(void *context, struct lake_str key, struct base_buffer *out,
                        struct lake_error *err)
{
    struct s3_store *store = context;
    struct whole_read read = {.store = store, .key = key, .out = out, .start = out->size};
    if (out->size > out->max_bytes)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "there is no room for object %.*s",
                         LAKE_STR_FMT(key));
    struct s3_call call;
    s3_call_init(&call, store, "reading", "GET", key);
    if (!store->options.no_checksums)
        s3_call_header(&call, LAKE_STR("x-amz-checksum-mode"), LAKE_STR("ENABLED"));
    call.accept = accept_whole;
    call.consume = consume_whole;
    call.check = check_whole;
    call.context = &read;
    lake_status status = s3_call_run(&call, err);
    if (status != LAKE_OK)
        out->size = read.start;
    s3_call_fini(&call);
    return status;
}
