/*
 * AWS Signature Version 4: the Authorization header, presigned queries and signed chunks.
 * https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-authenticating-requests.html
 *
 * Nothing here formats a secret or puts one into an error.
 */
#ifndef STORAGE_SIGN_H
#define STORAGE_SIGN_H

#include <base/base.h>

#define SIGN_UNSIGNED_PAYLOAD  "UNSIGNED-PAYLOAD"
#define SIGN_STREAMING_PAYLOAD "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
#define SIGN_EMPTY_SHA256      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define SIGN_MAX_PAIRS         32
#define SIGN_TIME_BYTES        17 /* 20130524T000000Z and the NUL */
#define SIGN_MAX_PRESIGN_S     604800
/* One chunk's framing: its size, ";chunk-signature=", 64 digits and two line ends. */
#define SIGN_CHUNK_FRAME_MAX_BYTES (16 + 17 + 64 + 4)

struct sign_pair {
    struct lake_str name; /* of a header: in lower case */
    struct lake_str value;
};

/* Borrowed for the call. */
struct sign_identity {
    struct lake_str access_key_id;
    struct lake_bytes secret_key;
    struct lake_str session_token; /* empty: none */
};

struct sign_scope {
    struct lake_str region;
    struct lake_str service;
    int64_t unix_ms;
};

struct sign_request {
    const char *method;
    struct lake_str path; /* percent-encoded, begins with '/' */
    const struct sign_pair *query;
    size_t query_count; /* names and values not encoded */
    const struct sign_pair *headers;
    size_t header_count; /* all of them are signed */
    struct lake_str payload_sha256;
};

/* Appends `text` with everything but A-Z a-z 0-9 - . _ ~ as %XX; '/' stays when `keep_slash`. */
lake_status sign_percent_encode(struct base_buffer *out, struct lake_str text, bool keep_slash,
                                struct lake_error *err);
/* Appends "a=1&b=2" in canonical order, encoded. */
lake_status sign_query(struct base_buffer *out, const struct sign_pair *query, size_t count,
                       struct lake_error *err);
void sign_time(int64_t unix_ms, char out[SIGN_TIME_BYTES]);

/* The signature as hexadecimal, and the value of the Authorization header appended to `out`. */
lake_status sign_authorization(const struct sign_request *request,
                               const struct sign_identity *identity, const struct sign_scope *scope,
                               struct base_buffer *out, char signature[BASE_SHA256_HEX_BYTES],
                               struct lake_error *err);
/* Appends the whole query of a presigned URL: the request's own, X-Amz-*, the signature. */
lake_status sign_presigned_query(const struct sign_request *request,
                                 const struct sign_identity *identity,
                                 const struct sign_scope *scope, uint32_t expires_s,
                                 struct base_buffer *out, struct lake_error *err);

/* A body sent in chunks that are signed one after the other. */
struct sign_chunks {
    uint8_t key[BASE_SHA256_BYTES];
    char time[SIGN_TIME_BYTES];
    char scope[128];
    char previous[BASE_SHA256_HEX_BYTES];
};
/* `seed` is the signature of the request's headers. */
lake_status sign_chunks_init(struct sign_chunks *chunks, const struct sign_identity *identity,
                             const struct sign_scope *scope, const char *seed,
                             struct lake_error *err);
/* The signature of the next chunk; the last one is empty. */
lake_status sign_chunk(struct sign_chunks *chunks, struct lake_bytes data,
                       char signature[BASE_SHA256_HEX_BYTES], struct lake_error *err);
void sign_chunks_fini(struct sign_chunks *chunks); /* zeroes the key */
/* How many bytes a body of `size_bytes` has on the wire. */
uint64_t sign_chunked_bytes(uint64_t size_bytes, size_t chunk_bytes);

#endif
