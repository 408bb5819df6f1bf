/* Digests of chunks: a Merkle tree that grows by one leaf after the other, of which one level is
 * kept, and the record of that level. */
#include "chunk_digests.h"

#include <stdio.h>
#include <string.h>

#define MAGIC        "LAKECHNK"
#define MAGIC_BYTES  8
#define VERSION      1
#define HEADER_BYTES (MAGIC_BYTES + 4 + 4 + 8 + BASE_SHA256_BYTES)
#define MAX_LEVEL    40 /* more than INT64_MAX bytes need */

struct chunk_builder {
    struct base_sha256_pair *hash; /* of the object and of its next leaf */
    struct base_sha256 *inner;
    int64_t filled; /* of the leaf */
    int64_t size_bytes;
    struct base_buffer kept; /* the digests of `level` */
    uint32_t level;
    uint8_t waiting[MAX_LEVEL][BASE_SHA256_BYTES]; /* below it, for their neighbours */
    bool waits[MAX_LEVEL];
};

void chunk_builder_free(struct chunk_builder *builder)
{
    if (builder == NULL)
        return;
    base_sha256_pair_free(builder->hash);
    base_sha256_free(builder->inner);
    base_buffer_fini(&builder->kept);
    base_free(builder);
}

lake_status chunk_builder_new(struct chunk_builder **out, struct lake_error *err)
{
    struct chunk_builder *builder = base_calloc_array(1, sizeof(*builder));
    if (builder == NULL)
        return base_fail_no_memory(err, sizeof(*builder));
    base_buffer_init(&builder->kept, CHUNK_MAX_DIGESTS * BASE_SHA256_BYTES);
    lake_status status = base_sha256_pair_new(false, &builder->hash, err);
    if (status == LAKE_OK)
        status = base_sha256_new(&builder->inner, err);
    if (status != LAKE_OK) {
        chunk_builder_free(builder);
        return status;
    }
    *out = builder;
    return LAKE_OK;
}

/* `out` may be `left`. */
static lake_status combine(struct base_sha256 *hash, const uint8_t *left, const uint8_t *right,
                           uint8_t *out, struct lake_error *err)
{
    lake_status status = base_sha256_reset(hash, err);
    if (status == LAKE_OK)
        status = base_sha256_update(hash, left, BASE_SHA256_BYTES, err);
    if (status == LAKE_OK)
        status = base_sha256_update(hash, right, BASE_SHA256_BYTES, err);
    return status == LAKE_OK ? base_sha256_final(hash, out, err) : status;
}

/* What is kept becomes the level above. */
static lake_status rise(struct chunk_builder *builder, struct lake_error *err)
{
    uint8_t *digests = builder->kept.data;
    size_t pairs = builder->kept.size / (2 * BASE_SHA256_BYTES);
    for (size_t i = 0; i < pairs; i++) {
        const uint8_t *left = digests + 2 * i * BASE_SHA256_BYTES;
        lake_status status = combine(builder->inner, left, left + BASE_SHA256_BYTES,
                                     digests + i * BASE_SHA256_BYTES, err);
        if (status != LAKE_OK)
            return status;
    }
    builder->kept.size = pairs * BASE_SHA256_BYTES;
    builder->level++;
    return LAKE_OK;
}

static lake_status add_leaf(struct chunk_builder *builder, uint8_t digest[BASE_SHA256_BYTES],
                            struct lake_error *err)
{
    lake_status status = LAKE_OK;
    builder->filled = 0;
    for (uint32_t level = 0; status == LAKE_OK; level++) {
        if (level == builder->level && builder->kept.size < builder->kept.max_bytes)
            return base_buffer_append(&builder->kept, digest, BASE_SHA256_BYTES, err);
        if (level == builder->level)
            status = rise(builder, err);
        if (status == LAKE_OK && !builder->waits[level]) {
            memcpy(builder->waiting[level], digest, BASE_SHA256_BYTES);
            builder->waits[level] = true;
            return LAKE_OK;
        }
        builder->waits[level] = false;
        if (status == LAKE_OK)
            status = combine(builder->inner, builder->waiting[level], digest, digest, err);
    }
    return status;
}

lake_status chunk_builder_update(struct chunk_builder *builder, struct lake_bytes data,
                                 struct lake_error *err)
{
    uint8_t digest[BASE_SHA256_BYTES];
    builder->size_bytes += (int64_t)data.size;
    while (data.size > 0) {
        size_t take = BASE_MIN(data.size, (size_t)(CHUNK_BYTES - builder->filled));
        lake_status status =
            base_sha256_pair_update(builder->hash, (struct lake_bytes){data.data, take}, err);
        if (status != LAKE_OK)
            return status;
        data = (struct lake_bytes){data.data + take, data.size - take};
        builder->filled += (int64_t)take;
        if (builder->filled == CHUNK_BYTES) {
            status = base_sha256_pair_next(builder->hash, digest, err);
            if (status == LAKE_OK)
                status = add_leaf(builder, digest, err);
        }
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

/* What still waits is the last chunk, which is shorter; `digest` is of its last leaf. */
static lake_status keep_last(struct chunk_builder *builder, uint8_t digest[BASE_SHA256_BYTES],
                             struct lake_error *err)
{
    bool any = false;
    lake_status status = builder->filled > 0 ? add_leaf(builder, digest, err) : LAKE_OK;
    for (uint32_t level = 0; level < builder->level && status == LAKE_OK; level++) {
        if (!builder->waits[level])
            continue;
        if (any)
            status = combine(builder->inner, builder->waiting[level], digest, digest, err);
        else
            memcpy(digest, builder->waiting[level], BASE_SHA256_BYTES);
        builder->waits[level] = false;
        any = true;
    }
    if (status == LAKE_OK && any && builder->kept.size == builder->kept.max_bytes)
        status = rise(builder, err);
    if (status == LAKE_OK && any)
        status = base_buffer_append(&builder->kept, digest, BASE_SHA256_BYTES, err);
    return status;
}

static void put_u32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

lake_status chunk_builder_finish(struct chunk_builder *builder, uint8_t sha256[BASE_SHA256_BYTES],
                                 struct base_buffer *out, struct lake_error *err)
{
    uint8_t header[HEADER_BYTES] = MAGIC;
    uint8_t digest[BASE_SHA256_BYTES];
    size_t start = out->size;
    lake_status status = base_sha256_pair_final(builder->hash, sha256, digest, err);
    if (status != LAKE_OK || builder->size_bytes <= CHUNK_BYTES)
        return status;
    status = keep_last(builder, digest, err);
    uint64_t size = (uint64_t)builder->size_bytes;
    put_u32(header + MAGIC_BYTES, VERSION);
    put_u32(header + MAGIC_BYTES + 4, builder->level);
    put_u32(header + MAGIC_BYTES + 8, (uint32_t)size);
    put_u32(header + MAGIC_BYTES + 12, (uint32_t)(size >> 32));
    memcpy(header + MAGIC_BYTES + 16, sha256, BASE_SHA256_BYTES);
    if (status == LAKE_OK)
        status = base_buffer_append(out, header, sizeof(header), err);
    if (status == LAKE_OK)
        status = base_buffer_append(out, builder->kept.data, builder->kept.size, err);
    if (status == LAKE_OK)
        status = base_sha256_once((struct lake_bytes){out->data + start, out->size - start}, digest,
                                  err);
    return status == LAKE_OK ? base_buffer_append(out, digest, sizeof(digest), err) : status;
}

lake_status chunk_record_key(struct lake_str key, char **out, struct lake_error *err)
{
    char *text = base_format("%.*s" CHUNK_RECORD_SUFFIX, LAKE_STR_FMT(key));
    if (text == NULL)
        return base_fail_no_memory(err, key.size);
    *out = text;
    return LAKE_OK;
}

/* The level whose digests are few enough; `count` is how many they are. */
static uint32_t level_of(int64_t size_bytes, size_t *count)
{
    uint64_t chunks = ((uint64_t)size_bytes + (uint64_t)CHUNK_BYTES - 1) / (uint64_t)CHUNK_BYTES;
    uint32_t level = 0;
    for (; chunks > CHUNK_MAX_DIGESTS; level++)
        chunks = (chunks + 1) / 2;
    *count = (size_t)chunks;
    return level;
}

int64_t chunk_record_bytes(int64_t size_bytes)
{
    size_t count;
    if (size_bytes <= CHUNK_BYTES)
        return 0;
    (void)level_of(size_bytes, &count);
    return HEADER_BYTES + (int64_t)(count + 1) * BASE_SHA256_BYTES;
}

/* ---- reading ---- */

void chunk_digests_free(struct chunk_digests *digests)
{
    if (digests == NULL)
        return;
    base_sha256_free(digests->hash);
    base_free(digests->digests);
    base_free(digests);
}

static lake_status digests_new(int64_t size_bytes, const uint8_t *sha256, const uint8_t *source,
                               struct chunk_digests **out, struct lake_error *err)
{
    size_t count;
    uint32_t level = level_of(size_bytes, &count);
    struct chunk_digests *digests = base_calloc_array(1, sizeof(*digests));
    if (digests == NULL)
        return base_fail_no_memory(err, sizeof(*digests));
    digests->size_bytes = size_bytes;
    digests->chunk_bytes = CHUNK_BYTES << level;
    digests->count = count;
    memcpy(digests->sha256, sha256, BASE_SHA256_BYTES);
    digests->digests = base_alloc(BASE_MAX(count, 1) * BASE_SHA256_BYTES);
    lake_status status = digests->digests == NULL
                             ? base_fail_no_memory(err, count * BASE_SHA256_BYTES)
                             : base_sha256_new(&digests->hash, err);
    if (status != LAKE_OK) {
        chunk_digests_free(digests);
        return status;
    }
    memcpy(digests->digests, source, count * BASE_SHA256_BYTES);
    *out = digests;
    return LAKE_OK;
}

lake_status chunk_digests_parse(struct lake_bytes record, struct chunk_digests **out,
                                struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(record);
    struct lake_bytes magic, sha256, digests, check;
    uint32_t version = 0;
    uint32_t level = 0;
    uint64_t size = 0;
    size_t count = 0;
    uint8_t digest[BASE_SHA256_BYTES];
    if (!base_cursor_take(&cursor, MAGIC_BYTES, &magic) ||
        memcmp(magic.data, MAGIC, MAGIC_BYTES) != 0 || !base_cursor_u32le(&cursor, &version))
        return lake_fail(err, LAKE_DATA_LOSS, "this is no record of chunk digests");
    if (version != VERSION)
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "a record of chunk digests has version %u, this program reads %d", version,
                         VERSION);
    if (!base_cursor_u32le(&cursor, &level) || !base_cursor_u64le(&cursor, &size) ||
        size <= (uint64_t)CHUNK_BYTES || size > INT64_MAX - (uint64_t)CHUNK_BYTES ||
        level_of((int64_t)size, &count) != level ||
        !base_cursor_take(&cursor, BASE_SHA256_BYTES, &sha256) ||
        !base_cursor_take(&cursor, count * BASE_SHA256_BYTES, &digests) ||
        !base_cursor_take(&cursor, BASE_SHA256_BYTES, &check) || base_cursor_left(&cursor) > 0)
        return lake_fail(err, LAKE_DATA_LOSS,
                         "a record of chunk digests does not have the length that it says");
    lake_status status = base_sha256_once(
        (struct lake_bytes){record.data, record.size - BASE_SHA256_BYTES}, digest, err);
    if (status == LAKE_OK && memcmp(digest, check.data, sizeof(digest)) != 0)
        status = lake_fail(err, LAKE_DATA_LOSS, "a record of chunk digests is damaged");
    if (status != LAKE_OK)
        return status;
    return digests_new((int64_t)size, sha256.data, digests.data, out, err);
}

static lake_status load_record(struct storage_store *store, const char *record_key,
                               const struct lake_data_location *location, const uint8_t *sha256,
                               struct chunk_digests **out, struct lake_error *err)
{
    struct base_buffer record;
    struct chunk_digests *digests = NULL;
    base_buffer_init(&record, CHUNK_MAX_RECORD_BYTES);
    lake_status status = storage_read_all(store, base_str_of(record_key), &record, err);
    if (status == LAKE_RESOURCE_EXHAUSTED)
        status = lake_fail_wrap(err, LAKE_DATA_LOSS,
                                "the chunk digests of %s are no record of ours", location->uri);
    if (status == LAKE_OK) {
        status = chunk_digests_parse((struct lake_bytes){record.data, record.size}, &digests, err);
        if (status == LAKE_DATA_LOSS)
            status = lake_fail_wrap(err, LAKE_DATA_LOSS, "the chunk digests of %s are damaged",
                                    location->uri);
    }
    base_buffer_fini(&record);
    if (status != LAKE_OK)
        return status;
    if (digests->size_bytes != location->size_bytes ||
        memcmp(digests->sha256, sha256, BASE_SHA256_BYTES) != 0) {
        chunk_digests_free(digests);
        return lake_fail(err, LAKE_DATA_LOSS, "the chunk digests of %s are of another object",
                         location->uri);
    }
    *out = digests;
    return LAKE_OK;
}

lake_status chunk_digests_load(struct storage_store *store, struct lake_str key,
                               const struct lake_data_location *location,
                               struct chunk_digests **out, struct lake_error *err)
{
    uint8_t sha256[BASE_SHA256_BYTES];
    char *record_key = NULL;
    (void)base_hex_decode(base_str_of(location->sha256_hex), sha256);
    if (location->size_bytes <= CHUNK_BYTES)
        return digests_new(location->size_bytes, sha256, sha256, out, err);
    lake_status status = LAKE_NOT_FOUND;
    if (key.size + strlen(CHUNK_RECORD_SUFFIX) <= STORAGE_MAX_KEY_BYTES) {
        status = chunk_record_key(key, &record_key, err);
        if (status == LAKE_OK)
            status = load_record(store, record_key, location, sha256, out, err);
        base_free(record_key);
    }
    /* S3 says the second of what is not there to those who may not list. */
    if (status == LAKE_NOT_FOUND || status == LAKE_PERMISSION_DENIED) {
        lake_error_clear(err);
        *out = NULL;
        return LAKE_OK;
    }
    return status;
}

/* The digest of one chunk: of its leaves, combined as the builder does. */
static lake_status digest_chunk(struct base_sha256 *hash, struct lake_bytes chunk, uint8_t *out,
                                struct lake_error *err)
{
    uint8_t waiting[MAX_LEVEL][BASE_SHA256_BYTES];
    uint64_t leaves = 0; /* its bits say which levels wait */
    lake_status status = LAKE_OK;
    for (size_t at = 0; at < chunk.size && status == LAKE_OK; leaves++) {
        size_t size = BASE_MIN(chunk.size - at, (size_t)CHUNK_BYTES);
        status = base_sha256_reset(hash, err);
        if (status == LAKE_OK)
            status = base_sha256_update(hash, chunk.data + at, size, err);
        if (status == LAKE_OK)
            status = base_sha256_final(hash, out, err);
        unsigned level = 0;
        for (; status == LAKE_OK && (leaves >> level & 1) != 0; level++)
            status = combine(hash, waiting[level], out, out, err);
        if (status == LAKE_OK)
            memcpy(waiting[level], out, BASE_SHA256_BYTES);
        at += size;
    }
    bool any = false;
    for (unsigned level = 0; status == LAKE_OK && leaves >> level != 0; level++) {
        if ((leaves >> level & 1) == 0)
            continue;
        if (any)
            status = combine(hash, waiting[level], out, out, err);
        else
            memcpy(out, waiting[level], BASE_SHA256_BYTES);
        any = true;
    }
    return status;
}

lake_status chunk_digests_check(const struct chunk_digests *digests, int64_t offset,
                                struct lake_bytes data, struct lake_error *err)
{
    uint8_t digest[BASE_SHA256_BYTES];
    for (size_t at = 0; at < data.size;) {
        int64_t index = (offset + (int64_t)at) / digests->chunk_bytes;
        size_t size = BASE_MIN(data.size - at, (size_t)digests->chunk_bytes);
        lake_status status =
            digest_chunk(digests->hash, (struct lake_bytes){data.data + at, size}, digest, err);
        if (status != LAKE_OK)
            return status;
        if (memcmp(digest, digests->digests + (size_t)index * BASE_SHA256_BYTES, sizeof(digest)) !=
            0)
            return lake_fail(err, LAKE_DATA_LOSS,
                             "the object's bytes from %lld on do not have the digest that was "
                             "recorded when it was uploaded: it was damaged",
                             (long long)(index * digests->chunk_bytes));
        at += size;
    }
    return LAKE_OK;
}
