/* Opening an S3 store; objects' heads, small writes, removal, presigned reads. */
#include "s3.h"

#include "storage_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void s3_region(struct s3_store *store, char out[S3_REGION_BYTES])
{
    (void)pthread_mutex_lock(&store->lock);
    memcpy(out, store->region, S3_REGION_BYTES);
    (void)pthread_mutex_unlock(&store->lock);
}

lake_status s3_append_url(const struct s3_store *store, struct lake_str key,
                          struct base_buffer *out, struct lake_error *err)
{
    lake_status status =
        base_buffer_printf(out, err, "%s://%s%s", store->scheme, store->host, store->base_path);
    /* A bucket's own address is its path without the '/' that keys follow, but for a bare '/'. */
    if (status == LAKE_OK && key.size == 0 && strlen(store->base_path) > 1)
        out->size--;
    if (status == LAKE_OK)
        status = sign_percent_encode(out, key, true, err);
    return status;
}

/* ---- methods ---- */

static enum s3_verdict check_head(void *context, struct s3_call *call, struct lake_error *err)
{
    struct storage_object_info *info = context;
    struct lake_str modified;
    if (!s3_reply_u64(&call->reply, "content-length", &info->size_bytes)) {
        (void)lake_fail(err, LAKE_UNAVAILABLE, "the answer about object %.*s does not say its size",
                        LAKE_STR_FMT(call->key));
        return S3_TRY_AGAIN;
    }
    info->modified_unix_ms = 0;
    if (http_reply_header(&call->reply, "last-modified", &modified))
        (void)time_parse_http(modified, &info->modified_unix_ms);
    s3_reply_etag(&call->reply, info->version);
    return S3_DONE;
}

lake_status s3_stat(void *context, struct lake_str key, struct storage_object_info *out,
                    struct lake_error *err)
{
    struct s3_call call;
    s3_call_init(&call, context, "looking at", "HEAD", key);
    call.check = check_head;
    call.context = out;
    lake_status status = s3_call_run(&call, err);
    s3_call_fini(&call);
    return status;
}

lake_status s3_settle(struct s3_store *store, struct lake_str key, const char *write_id,
                      struct lake_error *err)
{
    struct storage_object_info info;
    struct lake_str found = {NULL, 0};
    struct s3_call call;
    s3_call_init(&call, store, "looking at", "HEAD", key);
    call.check = check_head;
    call.context = &info;
    lake_status status = s3_call_run(&call, err);
    if (status == LAKE_OK && (!http_reply_header(&call.reply, S3_WRITE_ID_HEADER, &found) ||
                              !base_str_equal_c(found, write_id)))
        status = lake_fail(err, LAKE_ALREADY_EXISTS, "object %.*s in %s exists already",
                           LAKE_STR_FMT(key), store->bucket);
    s3_call_fini(&call);
    return status;
}

/* A conditional write whose answer was lost and that finds the key taken may have won (M03): the
 * name of the write in the object's metadata says so. */
static lake_status settle_put(struct s3_call *call, bool only_if_absent, const char *write_id,
                              lake_status status, struct lake_error *err)
{
    if (!call->maybe_done) {
        if (call->reply.status == 412 && only_if_absent)
            return lake_fail(err, LAKE_ALREADY_EXISTS, "object %.*s in %s exists already",
                             LAKE_STR_FMT(call->key), call->store->bucket);
        return status;
    }
    struct lake_error settled = {.code = LAKE_OK};
    lake_status found = s3_settle(call->store, call->key, write_id, &settled);
    if (found == LAKE_OK) {
        lake_error_clear(err);
        return LAKE_OK;
    }
    if (found == LAKE_ALREADY_EXISTS && only_if_absent)
        return lake_fail(err, LAKE_ALREADY_EXISTS, "%s", settled.message);
    return lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                          "it is not known whether object %.*s in %s was written",
                          LAKE_STR_FMT(call->key), call->store->bucket);
}

static lake_status put(void *context, struct lake_str key, struct lake_bytes data,
                       const char *media_type, bool only_if_absent, struct lake_error *err)
{
    struct s3_store *store = context;
    struct base_uuid uuid;
    char write_id[BASE_UUID_TEXT_BYTES];
    char checksum[CHECKSUM_BASE64_BYTES];
    struct s3_call call;
    lake_status status = base_uuid4_new(&uuid, err);
    if (status != LAKE_OK)
        return status;
    base_uuid_format(&uuid, write_id);
    s3_call_init(&call, store, "writing", "PUT", key);
    s3_call_header(&call, LAKE_STR(S3_WRITE_ID_HEADER), base_str_of(write_id));
    if (!store->options.no_checksums) {
        checksum_crc32c_text(checksum_crc32c(0, data), checksum);
        s3_call_header(&call, LAKE_STR("x-amz-checksum-crc32c"), base_str_of(checksum));
    }
    if (media_type != NULL)
        s3_call_header(&call, LAKE_STR("content-type"), base_str_of(media_type));
    if (only_if_absent)
        s3_call_header(&call, LAKE_STR("if-none-match"), LAKE_STR("*"));
    call.body = data;
    call.changes = true;
    status = s3_call_run(&call, err);
    if (status != LAKE_OK)
        status = settle_put(&call, only_if_absent, write_id, status, err);
    s3_call_fini(&call);
    return status;
}

lake_status s3_put(void *context, struct lake_str key, struct lake_bytes data, bool only_if_absent,
                   struct lake_error *err)
{
    return put(context, key, data, NULL, only_if_absent, err);
}

static lake_status put_typed_if_absent(void *context, struct lake_str key, struct lake_bytes data,
                                       const char *media_type, struct lake_error *err)
{
    return put(context, key, data, media_type, true, err);
}

static lake_status remove_object(void *context, struct lake_str key, struct lake_error *err)
{
    struct s3_call call;
    s3_call_init(&call, context, "removing", "DELETE", key);
    lake_status status = s3_call_run(&call, err);
    s3_call_fini(&call);
    if (status == LAKE_NOT_FOUND) { /* L06 */
        lake_error_clear(err);
        return LAKE_OK;
    }
    return status;
}

static lake_status read_any(void *context, struct lake_str key, uint64_t offset, size_t size_bytes,
                            uint8_t *out, struct lake_error *err)
{
    return s3_read_range(context, key, "", offset, size_bytes, out, err);
}

static lake_status presign(void *context, struct lake_str key, uint32_t expires_s,
                           struct storage_presigned *out, struct lake_error *err)
{
    struct s3_store *store = context;
    struct credentials *credentials;
    char region[S3_REGION_BYTES];
    if (store->url != NULL)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "a presigned URL does not presign another");
    lake_status status = credentials_get(store->credentials, &credentials, err);
    if (status != LAKE_OK)
        return status;
    int64_t now = base_clock_unix_ms();
    int64_t skew = atomic_load(&store->skew_ms);
    int64_t expires = BASE_MIN(now + (int64_t)expires_s * 1000, credentials->expires_unix_ms);
    expires_s = (uint32_t)BASE_MAX((expires - now) / 1000, 1);
    s3_region(store, region);
    struct sign_identity identity = credentials_identity(credentials);
    struct sign_scope scope = {base_str_of(region), LAKE_STR("s3"),
                               now + (skew == S3_NO_SKEW ? 0 : skew)};
    struct sign_pair host = {LAKE_STR("host"), base_str_of(store->host)};
    struct base_buffer url;
    base_buffer_init(&url, (size_t)64 * 1024);
    status = s3_append_url(store, key, &url, err);
    size_t origin = strlen(store->scheme) + 3 + strlen(store->host);
    char *path = NULL;
    if (status == LAKE_OK) {
        path = base_strndup((const char *)url.data + origin, url.size - origin);
        status = path == NULL ? base_fail_no_memory(err, url.size)
                              : base_buffer_append(&url, "?", 1, err);
    }
    struct sign_request request = {.method = "GET",
                                   .path = base_str_of(path),
                                   .headers = &host,
                                   .header_count = 1,
                                   .payload_sha256 = LAKE_STR(SIGN_UNSIGNED_PAYLOAD)};
    if (status == LAKE_OK)
        status = sign_presigned_query(&request, &identity, &scope, expires_s, &url, err);
    if (status == LAKE_OK)
        status = base_buffer_append(&url, "", 1, err);
    credentials_put(store->credentials, credentials);
    base_free(path);
    if (status == LAKE_OK) {
        size_t size;
        out->url = (char *)base_buffer_take(&url, &size);
        out->expires_unix_ms = now + (int64_t)expires_s * 1000;
    }
    base_buffer_fini(&url);
    return status;
}

void s3_store_free(void *context)
{
    struct s3_store *store = context;
    if (store->url_reader != NULL)
        storage_url_reader_unref(store->url_reader);
    else
        http_engine_free(store->engine);
    if (store->url != NULL)
        explicit_bzero(store->url, strlen(store->url));
    base_free(store->url);
    credentials_source_free(store->credentials);
    (void)pthread_mutex_destroy(&store->lock);
    base_free(store->scheme);
    base_free(store->host);
    base_free(store->base_path);
    base_free(store->bucket);
    base_free(store->endpoint);
    base_free(store);
}

const struct storage_methods s3_methods = {
    .stat = s3_stat,
    .read_range = read_any,
    .read_range_if = s3_read_range,
    .read_all = s3_read_all,
    .put = s3_put,
    .put_typed_if_absent = put_typed_if_absent,
    .writer_open = s3_writer_open,
    .writer_write = s3_writer_write,
    .writer_commit = s3_writer_commit,
    .writer_abort = s3_writer_abort,
    .remove = remove_object,
    .list = s3_list,
    .stream = &s3_stream_methods,
    .range_stream = &s3_range_stream_methods,
    .fetch = &s3_fetch_methods,
    .multipart = &s3_multipart_methods,
    .presign_read = presign,
    .free = s3_store_free,
};

/* ---- opening ---- */

/* S3's rules for names, which also keep them out of trouble in paths and host names. */
static bool bucket_valid(const char *bucket)
{
    size_t size = bucket == NULL ? 0 : strlen(bucket);
    if (size < 3 || size > 63 || bucket[0] == '.' || bucket[0] == '-' ||
        strstr(bucket, "..") != NULL)
        return false;
    return strspn(bucket, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") ==
           size;
}

bool storage_s3_uri_split(struct lake_str uri, struct lake_str *bucket, struct lake_str *prefix)
{
    if (!base_str_has_prefix(uri, "s3://"))
        return false;
    struct lake_str rest = {uri.data + 5, uri.size - 5};
    const char *slash = rest.size == 0 ? NULL : memchr(rest.data, '/', rest.size);
    size_t size = slash == NULL ? rest.size : (size_t)(slash - rest.data);
    if (size == 0)
        return false;
    *bucket = (struct lake_str){rest.data, size};
    *prefix = slash == NULL ? (struct lake_str){NULL, 0}
                            : (struct lake_str){slash + 1, rest.size - size - 1};
    while (prefix->size > 0 && prefix->data[prefix->size - 1] == '/')
        prefix->size--;
    return true;
}

static lake_status fail_endpoint(struct lake_error *err)
{
    return lake_fail(err, LAKE_INVALID_ARGUMENT,
                     "an S3 endpoint is http://host[:port] or https://host[:port], without "
                     "credentials, path or query");
}

/* Splits "https://host:port", which may not hold anything else. */
static lake_status set_address(struct s3_store *store, const struct storage_s3_options *options,
                               const char *endpoint, struct lake_error *err)
{
    bool own = endpoint == NULL;
    char *aws = own ? base_format("https://s3.%s.amazonaws.com", store->region) : NULL;
    struct lake_str text = base_str_of(own ? aws : endpoint);
    bool plain = base_str_has_prefix(text, "http://");
    size_t skip = plain ? 7 : 8;
    if (own && aws == NULL)
        return base_fail_no_memory(err, 0);
    lake_status status = LAKE_OK;
    if (!plain && !base_str_has_prefix(text, "https://"))
        status = fail_endpoint(err);
    struct lake_str host = status == LAKE_OK ? (struct lake_str){text.data + skip, text.size - skip}
                                             : (struct lake_str){"", 0};
    if (host.size > 0 && host.data[host.size - 1] == '/')
        host.size--;
    for (size_t i = 0; i < host.size; i++) {
        if (strchr("@/?#\\", host.data[i]) != NULL || (uint8_t)host.data[i] <= ' ')
            status = fail_endpoint(err);
    }
    if (status == LAKE_OK && (host.size == 0 || host.size > 240))
        status = fail_endpoint(err);
    bool virtual_host = options->addressing == STORAGE_S3_ADDRESS_VIRTUAL ||
                        (options->addressing == STORAGE_S3_ADDRESS_AUTO && own &&
                         strchr(options->bucket, '.') == NULL); /* dots break TLS's wildcards */
    if (status == LAKE_OK) {
        store->plain_http = plain;
        store->scheme = base_strdup(plain ? "http" : "https");
        store->host = virtual_host ? base_format("%s.%.*s", options->bucket, LAKE_STR_FMT(host))
                                   : base_strndup(host.data, host.size);
        store->base_path = virtual_host ? base_strdup("/") : base_format("/%s/", options->bucket);
        store->bucket = base_strdup(options->bucket);
        if (!own)
            store->endpoint =
                base_format("%s://%.*s", plain ? "http" : "https", LAKE_STR_FMT(host));
        if ((!own && store->endpoint == NULL) || store->scheme == NULL || store->host == NULL ||
            store->base_path == NULL || store->bucket == NULL)
            status = base_fail_no_memory(err, 0);
    }
    base_free(aws);
    return status;
}

void storage_s3_options_init(struct storage_s3_options *options)
{
    *options = (struct storage_s3_options){.connect_timeout_ms = 5000,
                                           .metadata_timeout_ms = 2000,
                                           .max_attempts = 10,
                                           .retry_base_ms = 50,
                                           .retry_cap_ms = 20000,
                                           .retry_budget = 500,
                                           .max_connections = 64,
                                           .writer_part_bytes = (uint64_t)8 * 1024 * 1024};
}

lake_status s3_timeouts(struct storage_s3_options *options, struct lake_error *err)
{
    uint64_t stall_ms = 0;
    uint64_t operation_ms = 0;
    lake_status status =
        base_config_u64("LAKE_S3_STALL_TIMEOUT_MS", 20000, 1000, 3600000, &stall_ms, err);
    if (status == LAKE_OK)
        status = base_config_u64("LAKE_S3_OPERATION_TIMEOUT_MS", 600000, 1000, 86400000,
                                 &operation_ms, err);
    if (status == LAKE_OK && options->stall_timeout_ms == 0)
        options->stall_timeout_ms = (int64_t)stall_ms;
    if (status == LAKE_OK && options->operation_timeout_ms == 0)
        options->operation_timeout_ms = (int64_t)operation_ms;
    return status;
}

static lake_status check_options(const struct storage_s3_options *options, struct lake_error *err)
{
    if (!bucket_valid(options->bucket))
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "\"%.100s\" is not the name of a bucket: 3 to 63 letters, digits, '.' and "
                         "'-'",
                         options->bucket == NULL ? "" : options->bucket);
    if ((options->access_key_id == NULL) != (options->secret_access_key == NULL))
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "S3 credentials need an access key and a secret key");
    if (options->max_attempts == 0 || options->operation_timeout_ms <= 0 ||
        options->connect_timeout_ms <= 0 || options->stall_timeout_ms <= 0 ||
        options->max_connections == 0 ||
        options->writer_part_bytes < STORAGE_MULTIPART_MIN_PART_BYTES ||
        options->writer_part_bytes > (uint64_t)1 << 29)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the limits of an S3 store must be positive, and its writers' parts 5 "
                         "to 512 MiB");
    return LAKE_OK;
}

static lake_status open_credentials(struct s3_store *store,
                                    const struct storage_s3_options *options, const char *ca_file,
                                    struct lake_error *err)
{
    struct sign_identity fixed = {base_str_of(options->access_key_id),
                                  base_bytes_of_str(base_str_of(options->secret_access_key)),
                                  base_str_of(options->session_token)};
    struct credentials_options credentials = {
        .profile = options->profile,
        .region = store->region,
        .fixed = options->access_key_id == NULL ? NULL : &fixed,
        .ca_file = ca_file,
        .metadata_timeout_ms = BASE_MAX(options->metadata_timeout_ms, 1)};
    return credentials_source_new(&credentials, &store->credentials, err);
}

lake_status storage_s3_open(const struct storage_s3_options *given, struct storage_store **out,
                            struct lake_error *err)
{
    struct profile profile = {.count = 0};
    struct storage_s3_options resolved = *given;
    const struct storage_s3_options *options = &resolved;
    lake_status status = s3_timeouts(&resolved, err);
    if (status == LAKE_OK)
        status = check_options(options, err);
    if (status == LAKE_OK)
        status = s3_settings_profile(options->profile, &profile, err);
    if (status != LAKE_OK)
        return status;
    struct s3_store *store = base_calloc_array(1, sizeof(*store));
    if (store == NULL) {
        profile_fini(&profile);
        return base_fail_no_memory(err, sizeof(*store));
    }
    (void)pthread_mutex_init(&store->lock, NULL);
    store->options = *options;
    atomic_init(&store->skew_ms, S3_NO_SKEW);
    atomic_init(&store->retry_tokens, (int_fast64_t)options->retry_budget);
    struct s3_settings settings = s3_settings_of(options, &profile);
    store->options.addressing = settings.addressing;
    const char *ca_file = settings.ca_file;
    if (strlen(settings.region) >= S3_REGION_BYTES)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "the AWS region's name is too long");
    else
        (void)snprintf(store->region, sizeof(store->region), "%s", settings.region);
    if (status == LAKE_OK)
        status = set_address(store, &store->options, settings.endpoint, err);
    if (status == LAKE_OK)
        status = open_credentials(store, options, ca_file, err);
    struct http_options http = {.ca_file = ca_file,
                                .connect_ms = options->connect_timeout_ms,
                                .stall_ms = options->stall_timeout_ms,
                                .max_connections = options->max_connections};
    if (status == LAKE_OK)
        status = http_engine_new(&http, &store->engine, err);
    profile_fini(&profile);
    char *uri = status == LAKE_OK ? base_format("s3://%s", store->bucket) : NULL;
    if (status == LAKE_OK && uri == NULL)
        status = base_fail_no_memory(err, 0);
    if (status != LAKE_OK) {
        s3_store_free(store);
        return status;
    }
    status = storage_store_new(&s3_methods, store, uri, out, err);
    base_free(uri);
    return status;
}

static struct s3_store *find_store(struct storage_store *store)
{
    struct storage_store *parent;
    struct lake_str prefix;
    while (storage_child_parts(store, &parent, &prefix))
        store = parent;
    return storage_store_context(store, &s3_methods);
}

bool storage_s3_place(struct storage_store *store, struct storage_s3_place *out)
{
    struct s3_store *s3 = find_store(store);
    if (s3 == NULL)
        return false;
    (void)snprintf(out->endpoint, sizeof(out->endpoint), "%s",
                   s3->endpoint == NULL ? "" : s3->endpoint);
    s3_region(s3, out->region);
    out->path_style = strlen(s3->base_path) > 1;
    return true;
}

void storage_s3_counters(struct storage_store *store, struct storage_s3_counters *out)
{
    struct s3_store *s3 = find_store(store);
    *out = (struct storage_s3_counters){.requests = 0};
    if (s3 == NULL)
        return;
    out->requests = atomic_load(&s3->counters.requests);
    out->retries = atomic_load(&s3->counters.retries);
    out->throttled = atomic_load(&s3->counters.throttled);
    out->sent_bytes = atomic_load(&s3->counters.sent_bytes);
    out->received_bytes = atomic_load(&s3->counters.received_bytes);
}
