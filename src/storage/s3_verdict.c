/* What the end of an attempt means: done, failed for good, or worth another. */
#include "s3.h"

#include "xml.h"

#include <inttypes.h>
#include <string.h>

#define SKEW_WORTH_LEARNING_MS ((int64_t)60 * 1000)
#define MAX_MESSAGE_BYTES      200
#define MAX_WORD_BYTES         23

bool s3_reply_u64(const struct http_reply *reply, const char *name, uint64_t *out)
{
    struct lake_str value;
    return http_reply_header(reply, name, &value) && base_str_to_u64(value, out);
}

void s3_reply_etag(const struct http_reply *reply, char out[S3_ETAG_BYTES])
{
    struct lake_str value;
    out[0] = '\0';
    if (!http_reply_header(reply, "etag", &value) || value.size >= S3_ETAG_BYTES)
        return;
    memcpy(out, value.data, value.size);
    out[value.size] = '\0';
}

/* ---- <Error><Code>…</Code><Message>…</Message>…</Error> ---- */

struct error_reply {
    char code[S3_CODE_BYTES];
    char message[MAX_MESSAGE_BYTES];
    char region[S3_REGION_BYTES];
    bool is_error;
};

/* What others say goes into messages only as printable ASCII. */
static void copy_printable(struct lake_str text, char *out, size_t capacity)
{
    size_t size = BASE_MIN(text.size, capacity - 1);
    for (size_t i = 0; i < size; i++)
        out[i] = text.data[i] >= ' ' && text.data[i] <= '~' ? text.data[i] : '?';
    out[size] = '\0';
}

/* The same of a sentence, without its long words: a service may repeat what it was sent, session
 * token and signature among it. */
static void copy_sentence(struct lake_str text, char *out, size_t capacity)
{
    size_t written = 0;
    for (size_t i = 0; i < text.size && written + MAX_WORD_BYTES + 1 < capacity;) {
        size_t end = i;
        while (end < text.size && (unsigned char)text.data[end] > ' ')
            end++;
        if (end > i) {
            struct lake_str word = {text.data + i, end - i};
            if (written > 0)
                out[written++] = ' ';
            if (word.size > MAX_WORD_BYTES)
                word = LAKE_STR("...");
            copy_printable(word, out + written, MAX_WORD_BYTES + 1);
            written += word.size;
        }
        i = end + 1;
    }
    out[written] = '\0';
}

static void parse_error(const struct http_reply *reply, struct error_reply *out)
{
    struct xml_reader reader;
    xml_reader_init(&reader, base_buffer_view(&reply->body));
    enum xml_event event;
    while ((event = xml_next(&reader)) == XML_OPEN || event == XML_CLOSE) {
        if (event == XML_OPEN && reader.depth == 1)
            out->is_error = base_str_equal_c(reader.name, "Error");
        if (event == XML_OPEN || !out->is_error || reader.depth != 1)
            continue;
        if (base_str_equal_c(reader.name, "Code"))
            copy_printable(xml_text(&reader), out->code, sizeof(out->code));
        else if (base_str_equal_c(reader.name, "Message"))
            copy_sentence(xml_text(&reader), out->message, sizeof(out->message));
        else if (base_str_equal_c(reader.name, "Region"))
            copy_printable(xml_text(&reader), out->region, sizeof(out->region));
    }
    xml_reader_fini(&reader);
}

/* ---- what can be learnt from a refusal ---- */

static bool is(const struct s3_call *call, const char *code)
{
    return strcmp(call->code, code) == 0;
}

/* The server's clock, once for all requests of the store; a retry has the new time (O10). */
static bool learn_clock(struct s3_call *call)
{
    struct lake_str date;
    int64_t server_ms;
    if (call->reset_clock || !http_reply_header(&call->reply, "date", &date) ||
        !time_parse_http(date, &server_ms))
        return false;
    int64_t skew = server_ms - base_clock_unix_ms();
    int64_t used = call->signed_skew_ms == S3_NO_SKEW ? 0 : call->signed_skew_ms;
    int64_t known = atomic_load(&call->store->skew_ms);
    call->reset_clock = true;
    if (known != call->signed_skew_ms)
        return true; /* another request has learnt it meanwhile */
    int64_t change = skew - used;
    if (change < SKEW_WORTH_LEARNING_MS && change > -SKEW_WORTH_LEARNING_MS)
        return false;
    atomic_store(&call->store->skew_ms, skew);
    return true;
}

static bool learn_region(struct s3_call *call, const struct error_reply *error)
{
    struct lake_str region = base_str_of(error->region);
    struct lake_str header;
    if (http_reply_header(&call->reply, "x-amz-bucket-region", &header))
        region = header;
    if (call->relocated || region.size == 0 || region.size >= S3_REGION_BYTES ||
        base_str_equal_c(region, call->region))
        return false;
    call->relocated = true;
    (void)pthread_mutex_lock(&call->store->lock);
    copy_printable(region, call->store->region, S3_REGION_BYTES);
    (void)pthread_mutex_unlock(&call->store->lock);
    return true;
}

static bool renew_credentials(struct s3_call *call)
{
    if (call->refreshed)
        return false;
    call->refreshed = true;
    return credentials_expired(call->store->credentials, call->credentials);
}

/* ---- status codes ---- */

struct known_code {
    const char *code;
    lake_status status;
};

static const struct known_code known_codes[] = {
    {"NoSuchKey", LAKE_NOT_FOUND},
    {"NoSuchUpload", LAKE_NOT_FOUND},
    {"NoSuchBucket", LAKE_FAILED_PRECONDITION},
    {"AccessDenied", LAKE_PERMISSION_DENIED},
    {"AllAccessDisabled", LAKE_PERMISSION_DENIED},
    {"InvalidAccessKeyId", LAKE_UNAUTHENTICATED},
    {"SignatureDoesNotMatch", LAKE_UNAUTHENTICATED},
    {"ExpiredToken", LAKE_UNAUTHENTICATED},
    {"ExpiredTokenException", LAKE_UNAUTHENTICATED},
    {"InvalidToken", LAKE_UNAUTHENTICATED},
    {"RequestTimeTooSkewed", LAKE_UNAUTHENTICATED},
    {"RequestExpired", LAKE_UNAUTHENTICATED},
    {"AuthorizationHeaderMalformed", LAKE_UNAUTHENTICATED},
    {"PermanentRedirect", LAKE_FAILED_PRECONDITION},
    {"InvalidRange", LAKE_OUT_OF_RANGE},
    {"NotImplemented", LAKE_UNIMPLEMENTED},
    {"MethodNotAllowed", LAKE_UNIMPLEMENTED},
    {"InvalidPart", LAKE_FAILED_PRECONDITION},
    {"InvalidPartOrder", LAKE_FAILED_PRECONDITION},
    {"EntityTooSmall", LAKE_INVALID_ARGUMENT},
    {"EntityTooLarge", LAKE_INVALID_ARGUMENT},
    {"KeyTooLongError", LAKE_INVALID_ARGUMENT},
    {"QuotaExceeded", LAKE_RESOURCE_EXHAUSTED},
};

/* Those that pass with time, whatever status they come with. */
static const char *const passing_codes[] = {"SlowDown",
                                            "ServiceUnavailable",
                                            "InternalError",
                                            "RequestTimeout",
                                            "Throttling",
                                            "BadDigest",
                                            "ThrottlingException",
                                            "RequestLimitExceeded",
                                            "OperationAborted",
                                            "ConditionalRequestConflict",
                                            "XAmzContentSHA256Mismatch",
                                            "XAmzContentChecksumMismatch"};

static bool passes(const struct s3_call *call)
{
    int status = call->reply.status;
    for (size_t i = 0; i < BASE_ARRAY_LEN(passing_codes); i++) {
        if (is(call, passing_codes[i]))
            return true;
    }
    return status == 429 || status == 408 || status == 500 || (status >= 502 && status <= 599);
}

static bool is_redirect_of_url(const struct s3_call *call)
{
    return call->store->url != NULL && call->reply.status / 100 == 3;
}

static lake_status status_of(const struct s3_call *call)
{
    if (is_redirect_of_url(call))
        return LAKE_UNIMPLEMENTED;
    for (size_t i = 0; i < BASE_ARRAY_LEN(known_codes); i++) {
        if (is(call, known_codes[i].code))
            return known_codes[i].status;
    }
    if (passes(call))
        return LAKE_UNAVAILABLE;
    switch (call->reply.status) {
    case 301:
    case 307:
        return LAKE_FAILED_PRECONDITION;
    case 400:
        return LAKE_INVALID_ARGUMENT;
    case 401:
        return LAKE_UNAUTHENTICATED;
    case 403:
        return LAKE_PERMISSION_DENIED;
    case 404:
        return LAKE_NOT_FOUND;
    case 409:
        return LAKE_ABORTED;
    case 412:
        return LAKE_FAILED_PRECONDITION;
    case 416:
        return LAKE_OUT_OF_RANGE;
    case 501:
        return LAKE_UNIMPLEMENTED;
    default:
        return LAKE_UNKNOWN;
    }
}

static void fail_reply(const struct s3_call *call, const struct error_reply *error,
                       struct lake_error *err)
{
    const struct s3_store *store = call->store;
    /* A service's own words about a URL may repeat it. */
    const char *message = store->url == NULL         ? error->message
                          : is_redirect_of_url(call) ? "redirects are not followed"
                                                     : "";
    (void)lake_fail(
        err, status_of(call),
        "%s %s%.*s in s3://%s at %s failed: HTTP status %d%s%s%s%s, after %" PRIu32 " attempts",
        call->what, call->key.size == 0 ? "the bucket" : "object ", LAKE_STR_FMT(call->key),
        store->bucket, store->host, call->reply.status, call->code[0] == '\0' ? "" : ", ",
        call->code, message[0] == '\0' ? "" : ", ", message, call->attempts);
}

/* A reply that says no. */
static enum s3_verdict judge_refusal(struct s3_call *call, struct lake_error *err)
{
    struct error_reply error = {.code = ""};
    int status = call->reply.status;
    parse_error(&call->reply, &error);
    memcpy(call->code, error.code, sizeof(call->code));
    fail_reply(call, &error, err);
    bool throttled = status == 503 || status == 429 || is(call, "SlowDown");
    if (throttled)
        (void)atomic_fetch_add(&call->store->counters.throttled, 1);
    /* 503 and 429 are said instead of doing; after the others nobody knows. */
    if (call->changes && !throttled && status >= 500 && status != 501)
        call->maybe_done = true;
    if (status == 301 || status == 307 || status == 400) {
        if (learn_region(call, &error))
            return S3_TRY_AT_ONCE;
    }
    if ((is(call, "ExpiredToken") || is(call, "ExpiredTokenException")) && renew_credentials(call))
        return S3_TRY_AT_ONCE;
    /* Without a body (HEAD) a 403 may be the clock as well. */
    if ((is(call, "RequestTimeTooSkewed") || is(call, "RequestExpired") ||
         is(call, "SignatureDoesNotMatch") || is(call, "AccessDenied") ||
         (status == 403 && call->code[0] == '\0')) &&
        learn_clock(call))
        return S3_TRY_AT_ONCE;
    /* To a HEAD nobody says why. */
    if ((status == 400 || status == 403) && call->code[0] == '\0' && call->credentials != NULL &&
        call->credentials->session_token.size > 0 && renew_credentials(call))
        return S3_TRY_AT_ONCE;
    return passes(call) ? S3_TRY_AGAIN : S3_FAILED;
}

enum s3_verdict s3_judge(struct s3_call *call, enum http_failure failure, struct lake_error *err)
{
    call->code[0] = '\0';
    call->maybe_done = call->maybe_done || (call->changes && call->reply.resent);
    switch (failure) {
    case HTTP_COMPLETE:
        break;
    case HTTP_NOT_SENT:
    case HTTP_BROKEN:
    case HTTP_TIMED_OUT:
        call->maybe_done = call->maybe_done || (call->changes && failure != HTTP_NOT_SENT);
        (void)lake_fail_wrap(err, LAKE_UNAVAILABLE,
                             "%s object %.*s in s3://%s at %s: %s, after %" PRIu32 " attempts",
                             call->what, LAKE_STR_FMT(call->key), call->store->bucket,
                             call->store->host,
                             failure == HTTP_NOT_SENT ? "no connection"
                             : failure == HTTP_BROKEN ? "the connection ended early"
                                                      : "no answer in time "
                                                        "(LAKE_S3_STALL_TIMEOUT_MS)",
                             call->attempts);
        return S3_TRY_AGAIN;
    case HTTP_REFUSED: /* by the call's own check, which says what to make of it */
        if (call->check != NULL)
            return call->check(call->context, call, err);
        (void)lake_fail(err, LAKE_DATA_LOSS, "the answer to %s object %.*s is too long", call->what,
                        LAKE_STR_FMT(call->key));
        return S3_FAILED;
    default:
        if (err->code == LAKE_OK)
            (void)lake_fail(err, LAKE_INTERNAL, "%s object %.*s failed", call->what,
                            LAKE_STR_FMT(call->key));
        return S3_FAILED;
    }
    if (call->reply.status < 200 || call->reply.status > 299)
        return judge_refusal(call, err);
    /* O01: a success whose body is an error. */
    if (call->reply.body.size > 0 && call->consume == NULL) {
        struct error_reply error = {.code = ""};
        parse_error(&call->reply, &error);
        if (error.is_error) {
            memcpy(call->code, error.code, sizeof(call->code));
            fail_reply(call, &error, err);
            call->maybe_done = call->maybe_done || (call->changes && passes(call));
            return passes(call) ? S3_TRY_AGAIN : S3_FAILED;
        }
    }
    return call->check == NULL ? S3_DONE : call->check(call->context, call, err);
}
