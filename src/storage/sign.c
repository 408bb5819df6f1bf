/* AWS Signature Version 4. */
#include "sign.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ALGORITHM "AWS4-HMAC-SHA256"
/* Bounds what one request may ask to be signed: long keys, tokens and header values fit. */
#define MAX_CANONICAL_BYTES ((size_t)256 * 1024)

static bool is_unreserved(uint8_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

lake_status sign_percent_encode(struct base_buffer *out, struct lake_str text, bool keep_slash,
                                struct lake_error *err)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = (uint8_t)text.data[i];
        char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};
        bool plain = is_unreserved(c) || (keep_slash && c == '/');
        lake_status status = base_buffer_append(out, plain ? (const char *)&c : escaped,
                                                plain ? 1 : sizeof(escaped), err);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

void sign_time(int64_t unix_ms, char out[SIGN_TIME_BYTES])
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;
    (void)gmtime_r(&seconds, &parts);
    (void)strftime(out, SIGN_TIME_BYTES, "%Y%m%dT%H%M%SZ", &parts);
}

static int compare_views(struct lake_str a, struct lake_str b)
{
    int order = memcmp(a.data, b.data, BASE_MIN(a.size, b.size));
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

/* By name, then value, as the specification orders what is already encoded. */
static int compare_pairs(const void *left, const void *right)
{
    const struct sign_pair *a = left;
    const struct sign_pair *b = right;
    int order = compare_views(a->name, b->name);
    return order != 0 ? order : compare_views(a->value, b->value);
}

static struct lake_str view_from(const struct base_buffer *buffer, size_t start)
{
    return (struct lake_str){(const char *)buffer->data + start, buffer->size - start};
}

lake_status sign_query(struct base_buffer *out, const struct sign_pair *query, size_t count,
                       struct lake_error *err)
{
    struct sign_pair encoded[SIGN_MAX_PAIRS];
    size_t ends[2 * SIGN_MAX_PAIRS];
    struct base_buffer text;
    if (count > SIGN_MAX_PAIRS)
        return lake_fail(err, LAKE_INTERNAL, "a request has %zu parameters, the limit is %d", count,
                         SIGN_MAX_PAIRS);
    base_buffer_init(&text, MAX_CANONICAL_BYTES);
    lake_status status = base_buffer_reserve(&text, 1, err);
    for (size_t i = 0; status == LAKE_OK && i < 2 * count; i++) {
        status = sign_percent_encode(&text, i % 2 == 0 ? query[i / 2].name : query[i / 2].value,
                                     false, err);
        ends[i] = text.size;
    }
    for (size_t i = 0, start = 0; status == LAKE_OK && i < 2 * count; start = ends[i], i++) {
        struct lake_str *part = i % 2 == 0 ? &encoded[i / 2].name : &encoded[i / 2].value;
        *part = (struct lake_str){(const char *)text.data + start, ends[i] - start};
    }
    if (status == LAKE_OK && count > 1)
        qsort(encoded, count, sizeof(*encoded), compare_pairs);
    for (size_t i = 0; status == LAKE_OK && i < count; i++)
        status = base_buffer_printf(out, err, "%s%.*s=%.*s", i == 0 ? "" : "&",
                                    LAKE_STR_FMT(encoded[i].name), LAKE_STR_FMT(encoded[i].value));
    base_buffer_fini(&text);
    return status;
}

/* ---- the canonical request ---- */

/* Leading and trailing blanks go, runs of blanks become one. */
static lake_status append_trimmed(struct base_buffer *out, struct lake_str value,
                                  struct lake_error *err)
{
    bool blank = false;
    bool begun = false;
    lake_status status = LAKE_OK;
    for (size_t i = 0; status == LAKE_OK && i < value.size; i++) {
        if (value.data[i] == ' ' || value.data[i] == '\t') {
            blank = true;
            continue;
        }
        if (blank && begun)
            status = base_buffer_append(out, " ", 1, err);
        if (status == LAKE_OK)
            status = base_buffer_append(out, value.data + i, 1, err);
        blank = false;
        begun = true;
    }
    return status;
}

static lake_status append_signed_names(struct base_buffer *out, const struct sign_pair *headers,
                                       size_t count, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t i = 0; status == LAKE_OK && i < count; i++)
        status = base_buffer_printf(out, err, "%s%.*s", i == 0 ? "" : ";",
                                    LAKE_STR_FMT(headers[i].name));
    return status;
}

/* `headers` sorted by name. */
static lake_status append_canonical(struct base_buffer *out, const struct sign_request *request,
                                    const struct sign_pair *headers, struct lake_error *err)
{
    lake_status status =
        base_buffer_printf(out, err, "%s\n%.*s\n", request->method, LAKE_STR_FMT(request->path));
    if (status == LAKE_OK)
        status = sign_query(out, request->query, request->query_count, err);
    if (status == LAKE_OK)
        status = base_buffer_append(out, "\n", 1, err);
    for (size_t i = 0; status == LAKE_OK && i < request->header_count; i++) {
        status = base_buffer_printf(out, err, "%.*s:", LAKE_STR_FMT(headers[i].name));
        if (status == LAKE_OK)
            status = append_trimmed(out, headers[i].value, err);
        if (status == LAKE_OK)
            status = base_buffer_append(out, "\n", 1, err);
    }
    if (status == LAKE_OK)
        status = base_buffer_append(out, "\n", 1, err);
    if (status == LAKE_OK)
        status = append_signed_names(out, headers, request->header_count, err);
    if (status == LAKE_OK)
        status = base_buffer_printf(out, err, "\n%.*s", LAKE_STR_FMT(request->payload_sha256));
    return status;
}

/* ---- keys and signatures ---- */

static lake_status hmac(struct lake_bytes key, struct lake_bytes data,
                        uint8_t out[BASE_SHA256_BYTES], struct lake_error *err)
{
    unsigned size = BASE_SHA256_BYTES;
    if (key.size > INT32_MAX ||
        HMAC(EVP_sha256(), key.data, (int)key.size, data.data, data.size, out, &size) == NULL)
        return lake_fail(err, LAKE_INTERNAL, "OpenSSL cannot compute HMAC-SHA256");
    return LAKE_OK;
}

static lake_status signing_key(const struct sign_identity *identity, const struct sign_scope *scope,
                               struct lake_str date, uint8_t out[BASE_SHA256_BYTES],
                               struct lake_error *err)
{
    const struct lake_str steps[] = {date, scope->region, scope->service, LAKE_STR("aws4_request")};
    size_t size = 4 + identity->secret_key.size;
    uint8_t *first = base_alloc(size);
    if (first == NULL)
        return base_fail_no_memory(err, size);
    memcpy(first, "AWS4", 4);
    if (identity->secret_key.size > 0)
        memcpy(first + 4, identity->secret_key.data, identity->secret_key.size);
    struct lake_bytes key = {first, size};
    uint8_t digest[BASE_SHA256_BYTES];
    lake_status status = LAKE_OK;
    for (size_t i = 0; status == LAKE_OK && i < BASE_ARRAY_LEN(steps); i++) {
        status = hmac(key, base_bytes_of_str(steps[i]), digest, err);
        memcpy(out, digest, sizeof(digest));
        key = (struct lake_bytes){out, BASE_SHA256_BYTES};
    }
    OPENSSL_cleanse(digest, sizeof(digest));
    OPENSSL_cleanse(first, size);
    base_free(first);
    return status;
}

static lake_status append_scope(struct base_buffer *out, const struct sign_scope *scope,
                                struct lake_str date, struct lake_error *err)
{
    return base_buffer_printf(out, err, "%.*s/%.*s/%.*s/aws4_request", LAKE_STR_FMT(date),
                              LAKE_STR_FMT(scope->region), LAKE_STR_FMT(scope->service));
}

/* The signature of `canonical`, a canonical request. */
static lake_status sign_canonical(struct lake_bytes canonical, const struct sign_identity *identity,
                                  const struct sign_scope *scope,
                                  char signature[BASE_SHA256_HEX_BYTES], struct lake_error *err)
{
    char time[SIGN_TIME_BYTES];
    uint8_t digest[BASE_SHA256_BYTES];
    uint8_t key[BASE_SHA256_BYTES];
    char hex[BASE_SHA256_HEX_BYTES];
    struct base_buffer text;
    base_buffer_init(&text, MAX_CANONICAL_BYTES);
    sign_time(scope->unix_ms, time);
    struct lake_str date = {time, 8};
    lake_status status = base_sha256_once(canonical, digest, err);
    if (status == LAKE_OK) {
        base_hex_encode((struct lake_bytes){digest, sizeof(digest)}, hex);
        status = base_buffer_printf(&text, err, ALGORITHM "\n%s\n", time);
    }
    if (status == LAKE_OK)
        status = append_scope(&text, scope, date, err);
    if (status == LAKE_OK)
        status = base_buffer_printf(&text, err, "\n%s", hex);
    if (status == LAKE_OK)
        status = signing_key(identity, scope, date, key, err);
    if (status == LAKE_OK)
        status = hmac((struct lake_bytes){key, sizeof(key)}, base_buffer_view(&text), digest, err);
    OPENSSL_cleanse(key, sizeof(key));
    if (status == LAKE_OK)
        base_hex_encode((struct lake_bytes){digest, sizeof(digest)}, signature);
    base_buffer_fini(&text);
    return status;
}

static lake_status sort_headers(const struct sign_request *request,
                                struct sign_pair out[SIGN_MAX_PAIRS], struct lake_error *err)
{
    if (request->header_count > SIGN_MAX_PAIRS || request->query_count > SIGN_MAX_PAIRS)
        return lake_fail(err, LAKE_INTERNAL, "a request has more than %d headers or parameters",
                         SIGN_MAX_PAIRS);
    memcpy(out, request->headers, request->header_count * sizeof(*out));
    qsort(out, request->header_count, sizeof(*out), compare_pairs);
    return LAKE_OK;
}

lake_status sign_authorization(const struct sign_request *request,
                               const struct sign_identity *identity, const struct sign_scope *scope,
                               struct base_buffer *out, char signature[BASE_SHA256_HEX_BYTES],
                               struct lake_error *err)
{
    struct sign_pair headers[SIGN_MAX_PAIRS];
    char time[SIGN_TIME_BYTES];
    struct base_buffer canonical;
    base_buffer_init(&canonical, MAX_CANONICAL_BYTES);
    lake_status status = sort_headers(request, headers, err);
    if (status == LAKE_OK)
        status = append_canonical(&canonical, request, headers, err);
    if (status == LAKE_OK)
        status = sign_canonical(base_buffer_view(&canonical), identity, scope, signature, err);
    base_buffer_fini(&canonical);
    if (status != LAKE_OK)
        return status;
    sign_time(scope->unix_ms, time);
    status = base_buffer_printf(out, err, ALGORITHM " Credential=%.*s/",
                                LAKE_STR_FMT(identity->access_key_id));
    if (status == LAKE_OK)
        status = append_scope(out, scope, (struct lake_str){time, 8}, err);
    if (status == LAKE_OK)
        status = base_buffer_printf(out, err, ", SignedHeaders=");
    if (status == LAKE_OK)
        status = append_signed_names(out, headers, request->header_count, err);
    if (status == LAKE_OK)
        status = base_buffer_printf(out, err, ", Signature=%s", signature);
    return status;
}

/* ---- presigned queries ---- */

lake_status sign_presigned_query(const struct sign_request *request,
                                 const struct sign_identity *identity,
                                 const struct sign_scope *scope, uint32_t expires_s,
                                 struct base_buffer *out, struct lake_error *err)
{
    struct sign_pair headers[SIGN_MAX_PAIRS];
    struct sign_pair query[SIGN_MAX_PAIRS];
    char time[SIGN_TIME_BYTES];
    char expires[11];
    char signature[BASE_SHA256_HEX_BYTES];
    struct base_buffer text; /* credential and signed headers, then the canonical request */
    struct base_buffer canonical;
    base_buffer_init(&text, MAX_CANONICAL_BYTES);
    base_buffer_init(&canonical, MAX_CANONICAL_BYTES);
    sign_time(scope->unix_ms, time);
    (void)snprintf(expires, sizeof(expires), "%" PRIu32, expires_s);
    lake_status status = sort_headers(request, headers, err);
    if (status == LAKE_OK && request->query_count > SIGN_MAX_PAIRS - 6)
        status = lake_fail(err, LAKE_INTERNAL, "a presigned request has too many parameters");
    if (status == LAKE_OK)
        status = base_buffer_printf(&text, err, "%.*s/", LAKE_STR_FMT(identity->access_key_id));
    if (status == LAKE_OK)
        status = append_scope(&text, scope, (struct lake_str){time, 8}, err);
    size_t credential_bytes = text.size;
    if (status == LAKE_OK)
        status = append_signed_names(&text, headers, request->header_count, err);
    if (status != LAKE_OK)
        goto out;
    size_t count = request->query_count;
    if (count > 0)
        memcpy(query, request->query, count * sizeof(*query));
    query[count++] = (struct sign_pair){LAKE_STR("X-Amz-Algorithm"), LAKE_STR(ALGORITHM)};
    query[count++] = (struct sign_pair){LAKE_STR("X-Amz-Credential"),
                                        {(const char *)text.data, credential_bytes}};
    query[count++] = (struct sign_pair){LAKE_STR("X-Amz-Date"), base_str_of(time)};
    query[count++] = (struct sign_pair){LAKE_STR("X-Amz-Expires"), base_str_of(expires)};
    query[count++] =
        (struct sign_pair){LAKE_STR("X-Amz-SignedHeaders"), view_from(&text, credential_bytes)};
    if (identity->session_token.size > 0)
        query[count++] =
            (struct sign_pair){LAKE_STR("X-Amz-Security-Token"), identity->session_token};
    struct sign_request presigned = *request;
    presigned.query = query;
    presigned.query_count = count;
    status = append_canonical(&canonical, &presigned, headers, err);
    if (status == LAKE_OK)
        status = sign_canonical(base_buffer_view(&canonical), identity, scope, signature, err);
    if (status == LAKE_OK)
        status = sign_query(out, query, count, err);
    if (status == LAKE_OK)
        status = base_buffer_printf(out, err, "&X-Amz-Signature=%s", signature);
out:
    base_buffer_fini(&canonical);
    base_buffer_fini(&text);
    return status;
}

/* ---- signed chunks ---- */

lake_status sign_chunks_init(struct sign_chunks *chunks, const struct sign_identity *identity,
                             const struct sign_scope *scope, const char *seed,
                             struct lake_error *err)
{
    sign_time(scope->unix_ms, chunks->time);
    struct lake_str date = {chunks->time, 8};
    int size =
        snprintf(chunks->scope, sizeof(chunks->scope), "%.*s/%.*s/%.*s/aws4_request",
                 LAKE_STR_FMT(date), LAKE_STR_FMT(scope->region), LAKE_STR_FMT(scope->service));
    if (size < 0 || (size_t)size >= sizeof(chunks->scope))
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the region's name is too long");
    (void)snprintf(chunks->previous, sizeof(chunks->previous), "%s", seed);
    return signing_key(identity, scope, date, chunks->key, err);
}

lake_status sign_chunk(struct sign_chunks *chunks, struct lake_bytes data,
                       char signature[BASE_SHA256_HEX_BYTES], struct lake_error *err)
{
    char text[sizeof(ALGORITHM "-PAYLOAD") + sizeof(chunks->scope) + SIGN_TIME_BYTES +
              3 * BASE_SHA256_HEX_BYTES + 8];
    char hex[BASE_SHA256_HEX_BYTES];
    uint8_t digest[BASE_SHA256_BYTES];
    lake_status status = base_sha256_once(data, digest, err);
    if (status != LAKE_OK)
        return status;
    base_hex_encode((struct lake_bytes){digest, sizeof(digest)}, hex);
    int size =
        snprintf(text, sizeof(text), ALGORITHM "-PAYLOAD\n%s\n%s\n%s\n" SIGN_EMPTY_SHA256 "\n%s",
                 chunks->time, chunks->scope, chunks->previous, hex);
    status = hmac((struct lake_bytes){chunks->key, sizeof(chunks->key)},
                  (struct lake_bytes){(const uint8_t *)text, (size_t)size}, digest, err);
    if (status != LAKE_OK)
        return status;
    base_hex_encode((struct lake_bytes){digest, sizeof(digest)}, signature);
    memcpy(chunks->previous, signature, BASE_SHA256_HEX_BYTES);
    return LAKE_OK;
}

void sign_chunks_fini(struct sign_chunks *chunks)
{
    OPENSSL_cleanse(chunks, sizeof(*chunks));
}

static uint64_t framed_bytes(uint64_t size_bytes)
{
    char digits[17];
    int count = snprintf(digits, sizeof(digits), "%" PRIx64, size_bytes);
    return (uint64_t)count + sizeof(";chunk-signature=") - 1 + 64 + 2 + size_bytes + 2;
}

uint64_t sign_chunked_bytes(uint64_t size_bytes, size_t chunk_bytes)
{
    uint64_t whole = size_bytes / chunk_bytes;
    uint64_t rest = size_bytes % chunk_bytes;
    return whole * framed_bytes(chunk_bytes) + (rest > 0 ? framed_bytes(rest) : 0) +
           framed_bytes(0);
}
