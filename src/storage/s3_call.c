/* One operation: what is sent, how it is signed, and when it is tried again. */
#include "s3.h"

#include "s3_chunked.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_TEXT_BYTES     ((size_t)512 * 1024)
#define SIGN_AT_ONCE_BYTES ((size_t)1024 * 1024) /* above it, chunks are signed as they leave */
#define RETRY_TOKENS       5
#define MAX_SIGNED         (S3_MAX_PAIRS + 8)
#define MAX_STALLS         2 /* attempts that wait for all of the stall timeout */

void s3_call_init(struct s3_call *call, struct s3_store *store, const char *what,
                  const char *method, struct lake_str key)
{
    *call = (struct s3_call){.store = store, .what = what, .method = method, .key = key};
    base_buffer_init(&call->text, MAX_TEXT_BYTES);
}

void s3_call_query(struct s3_call *call, struct lake_str name, struct lake_str value)
{
    if (call->query_count < S3_MAX_PAIRS)
        call->query[call->query_count++] = (struct sign_pair){name, value};
}

void s3_call_header(struct s3_call *call, struct lake_str name, struct lake_str value)
{
    if (call->header_count < S3_MAX_PAIRS)
        call->headers[call->header_count++] = (struct sign_pair){name, value};
}

void s3_call_set_header(struct s3_call *call, struct lake_str name, struct lake_str value)
{
    for (size_t i = 0; i < call->header_count; i++) {
        if (base_str_equal(call->headers[i].name, name)) {
            call->headers[i].value = value;
            return;
        }
    }
    s3_call_header(call, name, value);
}

/* ---- one attempt ---- */

static void release_attempt(struct s3_call *call)
{
    if (call->credentials != NULL)
        credentials_put(call->store->credentials, call->credentials);
    call->credentials = NULL;
    if (call->chunked != NULL) {
        s3_chunked_fini(call->chunked);
        base_free(call->chunked);
        call->chunked = NULL;
    }
}

static enum storage_s3_payload payload_kind(const struct s3_call *call)
{
    const struct s3_store *store = call->store;
    enum storage_s3_payload kind = store->options.payload;
    if (call->body.size == 0 || strcmp(call->method, "PUT") != 0)
        return STORAGE_S3_PAYLOAD_SIGNED; /* requests with a document are no objects */
    if (kind != STORAGE_S3_PAYLOAD_AUTO)
        return kind;
    bool loopback = base_str_has_prefix(base_str_of(store->host), "127.") ||
                    base_str_has_prefix(base_str_of(store->host), "localhost");
    if (!store->plain_http || (loopback && call->body.size > SIGN_AT_ONCE_BYTES))
        return STORAGE_S3_PAYLOAD_UNSIGNED;
    return call->body.size <= SIGN_AT_ONCE_BYTES ? STORAGE_S3_PAYLOAD_SIGNED
                                                 : STORAGE_S3_PAYLOAD_CHUNKED;
}

struct signing {
    struct sign_pair headers[MAX_SIGNED];
    size_t count;
    char time[SIGN_TIME_BYTES];
    char sha256[BASE_SHA256_HEX_BYTES];
    char length[24];
    struct lake_str payload;
    struct sign_scope scope;
    struct sign_identity identity;
};

static void add_signed(struct signing *signing, struct lake_str name, struct lake_str value)
{
    signing->headers[signing->count++] = (struct sign_pair){name, value};
}

static lake_status describe_payload(struct s3_call *call, enum storage_s3_payload kind,
                                    struct signing *signing, struct lake_error *err)
{
    uint8_t digest[BASE_SHA256_BYTES];
    signing->payload = LAKE_STR(SIGN_EMPTY_SHA256);
    if (kind == STORAGE_S3_PAYLOAD_UNSIGNED) {
        signing->payload = LAKE_STR(SIGN_UNSIGNED_PAYLOAD);
    } else if (kind == STORAGE_S3_PAYLOAD_CHUNKED) {
        signing->payload = LAKE_STR(SIGN_STREAMING_PAYLOAD);
        (void)snprintf(signing->length, sizeof(signing->length), "%zu", call->body.size);
        add_signed(signing, LAKE_STR("content-encoding"), LAKE_STR("aws-chunked"));
        add_signed(signing, LAKE_STR("x-amz-decoded-content-length"), base_str_of(signing->length));
    } else if (call->body.size > 0) {
        lake_status status = base_sha256_once(call->body, digest, err);
        if (status != LAKE_OK)
            return status;
        base_hex_encode((struct lake_bytes){digest, sizeof(digest)}, signing->sha256);
        signing->payload = base_str_of(signing->sha256);
    }
    add_signed(signing, LAKE_STR("x-amz-content-sha256"), signing->payload);
    return LAKE_OK;
}

static void describe(struct s3_call *call, struct signing *signing)
{
    struct s3_store *store = call->store;
    int64_t skew = atomic_load(&store->skew_ms);
    call->signed_skew_ms = skew;
    s3_region(store, call->region);
    signing->identity = credentials_identity(call->credentials);
    signing->scope = (struct sign_scope){base_str_of(call->region), LAKE_STR("s3"),
                                         base_clock_unix_ms() + (skew == S3_NO_SKEW ? 0 : skew)};
    sign_time(signing->scope.unix_ms, signing->time);
    for (size_t i = 0; i < call->header_count; i++)
        signing->headers[signing->count++] = call->headers[i];
    add_signed(signing, LAKE_STR("host"), base_str_of(store->host));
    add_signed(signing, LAKE_STR("x-amz-date"), base_str_of(signing->time));
    if (signing->identity.session_token.size > 0)
        add_signed(signing, LAKE_STR("x-amz-security-token"), signing->identity.session_token);
}

/* The URL and the header lines, one after the other in `text`, each with its NUL. */
static lake_status write_text(struct s3_call *call, const struct signing *signing, size_t *url_end,
                              char signature[BASE_SHA256_HEX_BYTES], struct lake_error *err)
{
    struct base_buffer *text = &call->text;
    struct base_buffer path;
    base_buffer_init(&path, MAX_TEXT_BYTES);
    lake_status status = s3_append_url(call->store, call->key, text, err);
    size_t host_end = strlen(call->store->scheme) + 3 + strlen(call->store->host);
    if (status == LAKE_OK)
        status = base_buffer_append(&path, text->data + host_end, text->size - host_end, err);
    if (status == LAKE_OK && call->query_count > 0)
        status = base_buffer_append(text, "?", 1, err);
    if (status == LAKE_OK)
        status = sign_query(text, call->query, call->query_count, err);
    if (status == LAKE_OK)
        status = base_buffer_append(text, "", 1, err);
    *url_end = text->size;
    for (size_t i = 0; status == LAKE_OK && i < signing->count; i++) {
        struct lake_str value = signing->headers[i].value;
        /* libcurl drops a header without a value unless it ends in ';'. */
        status =
            value.size == 0
                ? base_buffer_printf(text, err, "%.*s;", LAKE_STR_FMT(signing->headers[i].name))
                : base_buffer_printf(text, err, "%.*s: %.*s",
                                     LAKE_STR_FMT(signing->headers[i].name), LAKE_STR_FMT(value));
        if (status == LAKE_OK)
            status = base_buffer_append(text, "", 1, err);
    }
    struct sign_request request = {.method = call->method,
                                   .path = {(const char *)path.data, path.size},
                                   .query = call->query,
                                   .query_count = call->query_count,
                                   .headers = signing->headers,
                                   .header_count = signing->count,
                                   .payload_sha256 = signing->payload};
    if (status == LAKE_OK)
        status = base_buffer_append(text, "Authorization: ", 15, err);
    if (status == LAKE_OK)
        status =
            sign_authorization(&request, &signing->identity, &signing->scope, text, signature, err);
    if (status == LAKE_OK)
        status = base_buffer_append(text, "", 1, err);
    base_buffer_fini(&path);
    return status;
}

void s3_call_point_at_text(struct s3_call *call, size_t url_end)
{
    const char *data = (const char *)call->text.data;
    call->request.url = data;
    call->request.header_count = 0;
    for (size_t at = url_end; at < call->text.size; at += strlen(data + at) + 1)
        call->request.headers[call->request.header_count++] = data + at;
}

static lake_status set_body(struct s3_call *call, enum storage_s3_payload kind,
                            const struct signing *signing, const char *signature,
                            struct lake_error *err)
{
    if (kind != STORAGE_S3_PAYLOAD_CHUNKED) {
        call->request.body = call->body;
        return LAKE_OK;
    }
    call->chunked = base_alloc(sizeof(*call->chunked));
    if (call->chunked == NULL)
        return base_fail_no_memory(err, sizeof(*call->chunked));
    call->request.produce = s3_chunked_produce;
    call->request.rewind = s3_chunked_rewind;
    call->request.produced_bytes = sign_chunked_bytes(call->body.size, S3_CHUNK_BYTES);
    call->request.context = call->chunked; /* a call with a body consumes none */
    return s3_chunked_init(call->chunked, &signing->identity, &signing->scope, signature,
                           call->body, err);
}

static lake_status sign_request(struct s3_call *call, struct lake_error *err)
{
    struct signing signing = {.count = 0};
    char signature[BASE_SHA256_HEX_BYTES];
    size_t url_end = 0;
    lake_status status = credentials_get(call->store->credentials, &call->credentials, err);
    if (status != LAKE_OK)
        return status;
    enum storage_s3_payload kind = payload_kind(call);
    describe(call, &signing);
    status = describe_payload(call, kind, &signing, err);
    if (status == LAKE_OK)
        status = write_text(call, &signing, &url_end, signature, err);
    if (status == LAKE_OK) {
        s3_call_point_at_text(call, url_end);
        status = set_body(call, kind, &signing, signature, err);
    }
    return status;
}

static lake_status begin_attempt(struct s3_call *call, struct lake_error *err)
{
    lake_status status = call->prepare == NULL ? LAKE_OK : call->prepare(call->context, call, err);
    if (status == LAKE_OK)
        status = base_fault_io("storage.s3_request", err);
    if (status != LAKE_OK)
        return status;
    call->request =
        (struct http_request){.method = call->method,
                              .accept = call->accept,
                              .consume = call->consume,
                              .queue_bytes = call->queue_bytes,
                              .once = call->changes && call->body.size == 0,
                              .context = call->context,
                              .deadline_us = call->queue_bytes > 0 ? 0 : call->deadline_us};
    base_buffer_clear(&call->text);
    status = call->store->url != NULL ? s3_url_request(call, err) : sign_request(call, err);
    if (status == LAKE_OK)
        status = http_transfer_start(call->store->engine, &call->request, &call->reply,
                                     &call->transfer, err);
    if (status != LAKE_OK) {
        release_attempt(call);
        return status;
    }
    call->attempts++;
    (void)atomic_fetch_add(&call->store->counters.requests, 1);
    (void)atomic_fetch_add(&call->store->counters.sent_bytes, call->body.size);
    return LAKE_OK;
}

/* ---- when to try again ---- */

static bool take_tokens(struct s3_store *store)
{
    int_fast64_t have = atomic_load(&store->retry_tokens);
    do {
        if (have < RETRY_TOKENS)
            return false;
    } while (!atomic_compare_exchange_weak(&store->retry_tokens, &have, have - RETRY_TOKENS));
    return true;
}

static void give_token(struct s3_store *store)
{
    int_fast64_t have = atomic_load(&store->retry_tokens);
    do {
        if (have >= (int_fast64_t)store->options.retry_budget)
            return;
    } while (!atomic_compare_exchange_weak(&store->retry_tokens, &have, have + 1));
}

/* Full jitter: anything below a bound that doubles. */
static int64_t delay_ms(const struct s3_call *call)
{
    const struct storage_s3_options *options = &call->store->options;
    int64_t bound = options->retry_base_ms << BASE_MIN(call->attempts - 1, 20u);
    uint64_t random = 0;
    (void)base_random_bytes(&random, sizeof(random), NULL);
    bound = BASE_MIN(bound, options->retry_cap_ms);
    int64_t delay = bound <= 0 ? 0 : (int64_t)(random % (uint64_t)(bound + 1));
    uint64_t asked_s;
    if (s3_reply_u64(&call->reply, "retry-after", &asked_s))
        delay = BASE_MAX(delay, (int64_t)BASE_MIN(asked_s, 86400u) * 1000);
    return delay;
}

/* Sleeps, or says that there is no next attempt: the last error stands. */
static bool wait_for_next(struct s3_call *call)
{
    struct s3_store *store = call->store;
    int64_t delay = delay_ms(call);
    int64_t left = call->deadline_us - base_clock_monotonic_us();
    if (call->attempts >= store->options.max_attempts || delay * 1000 >= left ||
        !take_tokens(store))
        return false;
    base_sleep_ms(delay);
    return true;
}

lake_status s3_call_start(struct s3_call *call, struct lake_error *err)
{
    call->deadline_us =
        base_clock_monotonic_us() + call->store->options.operation_timeout_ms * 1000;
    return begin_attempt(call, err);
}

static lake_status fail_deadline(const struct s3_call *call, lake_status status,
                                 struct lake_error *err)
{
    /* libcurl counts milliseconds, and may end it in the last one */
    if (status != LAKE_UNAVAILABLE || base_clock_monotonic_us() + 2000 < call->deadline_us)
        return status;
    return lake_fail_wrap(err, LAKE_DEADLINE_EXCEEDED,
                          "%s object %.*s took longer than %" PRId64 " ms", call->what,
                          LAKE_STR_FMT(call->key), call->store->options.operation_timeout_ms);
}

bool s3_call_settle(struct s3_call *call, lake_status *status, struct lake_error *err)
{
    struct lake_error own = {.code = LAKE_OK}; /* the verdict needs one in any case */
    enum http_failure failure = http_transfer_finish(call->transfer, &own);
    call->transfer = NULL;
    enum s3_verdict verdict = s3_judge(call, failure, &own);
    bool again = verdict == S3_TRY_AT_ONCE || verdict == S3_TRY_AGAIN;
    call->stalls += failure == HTTP_TIMED_OUT;
    again = again && !call->begun && call->stalls < MAX_STALLS &&
            (verdict == S3_TRY_AT_ONCE || wait_for_next(call));
    release_attempt(call);
    *status = LAKE_OK;
    if (verdict == S3_DONE) {
        give_token(call->store);
        return true;
    }
    if (again) {
        (void)atomic_fetch_add(&call->store->counters.retries, 1);
        http_reply_fini(&call->reply);
        if (begin_attempt(call, &own) == LAKE_OK)
            return false;
    }
    *status = fail_deadline(call, own.code, &own);
    if (err != NULL)
        *err = own;
    return true;
}

lake_status s3_call_finish(struct s3_call *call, struct lake_error *err)
{
    lake_status status;
    while (!s3_call_settle(call, &status, err))
        continue;
    return status;
}

lake_status s3_call_read(struct s3_call *call, struct lake_bytes *out, struct lake_error *err)
{
    int64_t timeout_ms = call->store->options.operation_timeout_ms;
    lake_status status = LAKE_OK;
    if (call->begun) /* else the first bytes have what is left since the start */
        call->deadline_us = base_clock_monotonic_us() + timeout_ms * 1000;
    *out = (struct lake_bytes){NULL, 0};
    if (call->transfer == NULL)
        return LAKE_OK;
    do {
        if (!http_transfer_read(call->transfer, call->deadline_us, out)) {
            s3_call_drop(call);
            return lake_fail(err, LAKE_DEADLINE_EXCEEDED,
                             "%s object %.*s: nothing came within %" PRId64 " ms", call->what,
                             LAKE_STR_FMT(call->key), timeout_ms);
        }
        if (out->size > 0) {
            call->begun = true;
            return LAKE_OK;
        }
    } while (!s3_call_settle(call, &status, err));
    return status;
}

lake_status s3_call_run(struct s3_call *call, struct lake_error *err)
{
    lake_status status = s3_call_start(call, err);
    return status != LAKE_OK ? status : s3_call_finish(call, err);
}

void s3_call_drop(struct s3_call *call)
{
    if (call->transfer == NULL)
        return;
    http_transfer_cancel(call->transfer);
    (void)http_transfer_finish(call->transfer, NULL);
    call->transfer = NULL;
    release_attempt(call);
}

void s3_call_fini(struct s3_call *call)
{
    s3_call_drop(call);
    http_reply_fini(&call->reply);
    if (call->store->url != NULL && call->text.size > 0)
        explicit_bzero(call->text.data, call->text.size);
    base_buffer_fini(&call->text);
}
