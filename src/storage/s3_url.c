/*
 * One object by a presigned URL (OBJ-8): calls as of any S3 store, with its verdicts and retries,
 * but the URL says all and nothing is signed here.
 */
#include "s3.h"

#include <string.h>

#define MAX_URL_BYTES ((size_t)64 * 1024) /* session tokens are long */

struct storage_url_reader {
    atomic_uint references;
    struct http_engine *engine;
    struct storage_s3_options options; /* of every store that reads through it */
};

lake_status storage_url_reader_new(struct storage_url_reader **out, struct lake_error *err)
{
    struct storage_s3_options defaults;
    storage_s3_options_init(&defaults);
    defaults.no_checksums = true; /* asking for them would have to be signed */
    lake_status status = s3_timeouts(&defaults, err);
    if (status != LAKE_OK)
        return status;
    struct storage_url_reader *reader = base_calloc_array(1, sizeof(*reader));
    if (reader == NULL)
        return base_fail_no_memory(err, sizeof(*reader));
    reader->options = defaults;
    atomic_init(&reader->references, 1);
    struct http_options options = {.ca_file = base_config_string("AWS_CA_BUNDLE", NULL),
                                   .connect_ms = defaults.connect_timeout_ms,
                                   .stall_ms = defaults.stall_timeout_ms,
                                   .max_connections = defaults.max_connections};
    status = http_engine_new(&options, &reader->engine, err);
    if (status != LAKE_OK) {
        base_free(reader);
        return status;
    }
    *out = reader;
    return LAKE_OK;
}

void storage_url_reader_unref(struct storage_url_reader *reader)
{
    if (reader == NULL || atomic_fetch_sub(&reader->references, 1) != 1)
        return;
    http_engine_free(reader->engine);
    base_free(reader);
}

/* The host of a URL that is safe to send as it is; false for any other. */
static bool find_host(const char *url, struct lake_str *out)
{
    size_t size = strnlen(url, MAX_URL_BYTES + 1);
    size_t skip = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
    if (skip == 0 || size > MAX_URL_BYTES)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (url[i] <= ' ' || url[i] > '~')
            return false;
    }
    *out = (struct lake_str){url + skip, strcspn(url + skip, "/?#")};
    return out->size > 0 && memchr(out->data, '@', out->size) == NULL;
}

lake_status storage_url_open(struct storage_url_reader *reader, const char *url,
                             struct lake_str bucket, struct lake_str key, uint64_t object_bytes,
                             struct storage_store **out, struct lake_error *err)
{
    struct lake_str host;
    if (!find_host(url, &host))
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the URL for reading object %.*s is no http:// or https:// URL",
                         LAKE_STR_FMT(key));
    struct s3_store *store = base_calloc_array(1, sizeof(*store));
    if (store == NULL)
        return base_fail_no_memory(err, sizeof(*store));
    (void)pthread_mutex_init(&store->lock, NULL);
    store->options = reader->options;
    atomic_init(&store->skew_ms, S3_NO_SKEW);
    atomic_init(&store->retry_tokens, (int_fast64_t)store->options.retry_budget);
    atomic_fetch_add(&reader->references, 1);
    store->url_reader = reader;
    store->engine = reader->engine;
    store->object_bytes = object_bytes;
    store->url = base_strdup(url);
    store->host = base_strndup(host.data, host.size);
    store->bucket = base_strndup(bucket.data, bucket.size);
    store->base_path = base_strdup("/");
    char *uri = base_format("s3://%.*s", LAKE_STR_FMT(bucket));
    lake_status status = LAKE_OK;
    if (store->url == NULL || store->host == NULL || store->bucket == NULL ||
        store->base_path == NULL || uri == NULL) {
        s3_store_free(store);
        status = base_fail_no_memory(err, 0);
    } else {
        status = storage_store_new(&s3_methods, store, uri, out, err);
    }
    base_free(uri);
    return status;
}

lake_status s3_url_request(struct s3_call *call, struct lake_error *err)
{
    if (strcmp(call->method, "GET") != 0 || call->query_count > 0 || call->body.size > 0)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "a presigned URL is only for reading its object");
    /* Another clock, region or signer would not mend a URL. */
    call->reset_clock = call->relocated = call->refreshed = true;
    struct base_buffer *text = &call->text;
    lake_status status =
        base_buffer_append(text, call->store->url, strlen(call->store->url) + 1, err);
    size_t url_end = text->size;
    for (size_t i = 0; status == LAKE_OK && i < call->header_count; i++) {
        status = base_buffer_printf(text, err, "%.*s: %.*s", LAKE_STR_FMT(call->headers[i].name),
                                    LAKE_STR_FMT(call->headers[i].value));
        if (status == LAKE_OK)
            status = base_buffer_append(text, "", 1, err);
    }
    if (status == LAKE_OK)
        s3_call_point_at_text(call, url_end);
    return status;
}
