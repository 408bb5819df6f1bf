/* Frames chunks: size and signature, data, line end; an empty chunk ends the body. */
#include "s3_chunked.h"

#include <stdio.h>
#include <string.h>

bool s3_chunked_rewind(void *context)
{
    struct s3_chunked *chunked = context;
    chunked->now = chunked->first;
    chunked->begun = 0;
    chunked->last = false;
    chunked->piece = (int)BASE_ARRAY_LEN(chunked->pieces);
    return true;
}

lake_status s3_chunked_init(struct s3_chunked *chunked, const struct sign_identity *identity,
                            const struct sign_scope *scope, const char *seed,
                            struct lake_bytes body, struct lake_error *err)
{
    lake_status status = sign_chunks_init(&chunked->first, identity, scope, seed, err);
    chunked->body = body;
    (void)s3_chunked_rewind(chunked);
    return status;
}

void s3_chunked_fini(struct s3_chunked *chunked)
{
    sign_chunks_fini(&chunked->first);
    sign_chunks_fini(&chunked->now);
}

static bool next_chunk(struct s3_chunked *chunked)
{
    char signature[BASE_SHA256_HEX_BYTES];
    size_t size = BASE_MIN(chunked->body.size - chunked->begun, S3_CHUNK_BYTES);
    struct lake_bytes data = {chunked->body.data + chunked->begun, size};
    if (sign_chunk(&chunked->now, data, signature, NULL) != LAKE_OK)
        return false;
    int head = snprintf(chunked->head, sizeof(chunked->head), "%zx;chunk-signature=%s\r\n", size,
                        signature);
    chunked->pieces[0] = (struct lake_bytes){(const uint8_t *)chunked->head, (size_t)head};
    chunked->pieces[1] = data;
    chunked->pieces[2] = (struct lake_bytes){(const uint8_t *)"\r\n", 2};
    chunked->piece = 0;
    chunked->begun += size;
    chunked->last = size == 0;
    return true;
}

size_t s3_chunked_produce(void *context, uint8_t *out, size_t capacity)
{
    struct s3_chunked *chunked = context;
    size_t done = 0;
    while (done < capacity) {
        if (chunked->piece == (int)BASE_ARRAY_LEN(chunked->pieces)) {
            if (chunked->last)
                break;
            if (!next_chunk(chunked))
                return SIZE_MAX;
        }
        struct lake_bytes *piece = &chunked->pieces[chunked->piece];
        size_t size = BASE_MIN(piece->size, capacity - done);
        if (size > 0)
            memcpy(out + done, piece->data, size);
        done += size;
        *piece = (struct lake_bytes){piece->data + size, piece->size - size};
        chunked->piece += piece->size == 0;
    }
    return done;
}
