/* A body in signed chunks, as libcurl asks for it. */
#ifndef STORAGE_S3_CHUNKED_H
#define STORAGE_S3_CHUNKED_H

#include "sign.h"

#define S3_CHUNK_BYTES ((size_t)64 * 1024)

struct s3_chunked {
    struct sign_chunks first; /* to start over from */
    struct sign_chunks now;
    struct lake_bytes body;
    size_t begun; /* bytes of the body whose chunks have begun */
    bool last;    /* the empty chunk has begun */
    /* The chunk that is being sent: its head, its data, its end. */
    char head[SIGN_CHUNK_FRAME_MAX_BYTES];
    struct lake_bytes pieces[3];
    int piece;
};

lake_status s3_chunked_init(struct s3_chunked *chunked, const struct sign_identity *identity,
                            const struct sign_scope *scope, const char *seed,
                            struct lake_bytes body, struct lake_error *err);
void s3_chunked_fini(struct s3_chunked *chunked);
/* As struct http_request wants them; `context` is the s3_chunked. */
size_t s3_chunked_produce(void *context, uint8_t *out, size_t capacity);
bool s3_chunked_rewind(void *context);

#endif
