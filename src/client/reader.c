/*
 * Objects out of the stage. A whole object is hashed while it is read, and its last block is held
 * back until size and digest are known to be right, so a reader that got everything got the right
 * thing (OBJ-5, O12). A range is exact in length (OBJ-6). Where the digests of its chunks are at
 * hand and cheap beside it, it is fetched in whole chunks, each verified before a byte of it is
 * given out; else it makes no claim of integrity.
 */
#include "chunk_digests.h"
#include "client_internal.h"

#include <string.h>

struct lake_reader {
    struct storage_stream *stream;
    int64_t position; /* of the next byte to fetch */
    int64_t end;
    bool whole;
    struct base_sha256 *hash; /* NULL: a range, or verified */
    uint8_t expected[BASE_SHA256_BYTES];
    struct chunk_digests *digests; /* NULL: not a range, or one without */
    uint8_t *chunk;
    int64_t chunk_start;
    struct lake_bytes left; /* of the stream's block, behind the chunk */
    const uint8_t *block;   /* the stream's, or of the chunk */
    size_t block_size;
    size_t block_used;
    lake_status failed; /* a reader that failed once stays failed */
};

lake_status client_location_check(const struct lake_data_location *location, struct lake_error *err)
{
    struct lake_str sha256 = {location->sha256_hex,
                              strnlen(location->sha256_hex, sizeof(location->sha256_hex))};
    if (location->uri != NULL && location->size_bytes >= 0 && base_sha256_hex_valid(sha256))
        return LAKE_OK;
    return lake_fail(err, LAKE_INVALID_ARGUMENT,
                     "the location is malformed: it needs a URI, a size and 64 lower-case "
                     "hexadecimal digits of SHA-256");
}

lake_status client_location_key(lake_client *client, const struct lake_data_location *location,
                                struct lake_str *key, struct lake_error *err)
{
    lake_status status = client_location_check(location, err);
    if (status != LAKE_OK)
        return status;
    size_t root_bytes = client->stage_uri == NULL ? 0 : strlen(client->stage_uri);
    if (root_bytes == 0 || strncmp(location->uri, client->stage_uri, root_bytes) != 0 ||
        location->uri[root_bytes] != '/')
        return lake_fail(err, LAKE_PERMISSION_DENIED,
                         "the object lies outside your stage and is not read");
    *key = base_str_of(location->uri + root_bytes + 1);
    return LAKE_OK;
}

static lake_status check_size(struct storage_store *store, struct lake_str key,
                              const struct lake_data_location *location,
                              struct storage_object_info *info, struct lake_error *err)
{
    lake_status status = storage_stat(store, key, info, err);
    if (status == LAKE_NOT_FOUND)
        return lake_fail(err, LAKE_NOT_FOUND, "the object %s is not in the stage", location->uri);
    if (status == LAKE_OK && info->size_bytes != (uint64_t)location->size_bytes)
        return lake_fail(err, LAKE_DATA_LOSS,
                         "the object %s has %llu bytes, its location says %lld: it was damaged",
                         location->uri, (unsigned long long)info->size_bytes,
                         (long long)location->size_bytes);
    return status;
}

lake_status client_object_open(lake_client *client, const struct lake_data_location *location,
                               struct storage_store **store, struct lake_str *key,
                               struct storage_object_info *info, struct lake_error *err)
{
    lake_status status = client_stage(client, store, err);
    if (status == LAKE_OK)
        status = client_location_key(client, location, key, err);
    return status == LAKE_OK ? check_size(*store, *key, location, info, err) : status;
}

/* Whole chunks and the record may take as much again as the range has, or 128 KiB. */
static bool digests_are_cheap(int64_t size_bytes, int64_t range_bytes)
{
    int64_t more = chunk_record_bytes(size_bytes) + 2 * CHUNK_BYTES;
    return BASE_MIN(more, size_bytes) <= BASE_MAX(range_bytes, 2 * CHUNK_BYTES);
}

/* The range in whole chunks. */
static lake_status widen(lake_reader *reader, int64_t *start, int64_t *end, struct lake_error *err)
{
    int64_t unit = reader->digests->chunk_bytes;
    *start -= *start % unit;
    *end =
        *end % unit == 0 ? *end : BASE_MIN(*end - *end % unit + unit, reader->digests->size_bytes);
    reader->chunk_start = *start;
    reader->chunk = base_alloc((size_t)BASE_MIN(unit, *end - *start));
    return reader->chunk == NULL ? base_fail_no_memory(err, (size_t)unit) : LAKE_OK;
}

lake_status client_reader_new(struct storage_store *store, struct lake_str key, const char *version,
                              const struct lake_data_location *location,
                              struct client_reader_part part, lake_reader **out,
                              struct lake_error *err)
{
    lake_status status = LAKE_OK;
    lake_reader *reader = base_calloc_array(1, sizeof(*reader));
    if (reader == NULL)
        return base_fail_no_memory(err, sizeof(*reader));
    reader->whole = part.whole;
    reader->position = part.start;
    reader->end = part.end;
    if (part.digests && digests_are_cheap(location->size_bytes, part.end - part.start))
        status = chunk_digests_load(store, key, location, &reader->digests, err);
    if (status == LAKE_OK && reader->digests != NULL)
        status = widen(reader, &part.start, &part.end, err);
    if (status == LAKE_OK)
        status = (part.whole ? storage_stream_open : storage_range_stream_open)(
            store, key, version, (uint64_t)part.start, (uint64_t)(part.end - part.start),
            &reader->stream, err);
    if (status == LAKE_OK && part.whole) {
        (void)base_hex_decode(base_str_of(location->sha256_hex), reader->expected);
        status = base_sha256_new(&reader->hash, err);
    }
    if (status != LAKE_OK) {
        lake_reader_free(reader);
        return status;
    }
    *out = reader;
    return LAKE_OK;
}

static lake_status open_reader(lake_client *client, const struct lake_data_location *location,
                               int64_t start, int64_t end, bool verified, lake_reader **out,
                               struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct storage_object_info info = {.size_bytes = 0};
    struct client_reader_part part = {start, end, verified, !verified};
    struct lake_str key;
    lake_status status = client_stage(client, &store, err);
    if (status == LAKE_OK)
        status = client_location_key(client, location, &key, err);
    if (status == LAKE_OK && verified)
        status = check_size(store, key, location, &info, err);
    if (status == LAKE_OK)
        status = client_reader_new(store, key, info.version, location, part, out, err);
    return status;
}

lake_status lake_open(lake_client *client, const struct lake_data_location *location,
                      lake_reader **out, struct lake_error *err)
{
    lake_error_clear(err);
    return open_reader(client, location, 0, location->size_bytes, true, out, err);
}

lake_status client_range_check(const struct lake_data_location *location, int64_t start,
                               int64_t end, struct lake_error *err)
{
    if (start >= 0 && end > start && end <= location->size_bytes)
        return LAKE_OK;
    return lake_fail(err, LAKE_OUT_OF_RANGE,
                     "the range [%lld, %lld) must be within [0, %lld) and not empty",
                     (long long)start, (long long)end, (long long)location->size_bytes);
}

lake_status lake_open_range(lake_client *client, const struct lake_data_location *location,
                            int64_t start, int64_t end, lake_reader **out, struct lake_error *err)
{
    lake_error_clear(err);
    lake_status status = client_range_check(location, start, end, err);
    return status == LAKE_OK ? open_reader(client, location, start, end, false, out, err) : status;
}

static lake_status verify(lake_reader *reader, struct lake_error *err)
{
    uint8_t digest[BASE_SHA256_BYTES];
    lake_status status = base_sha256_final(reader->hash, digest, err);
    if (status == LAKE_OK && memcmp(digest, reader->expected, sizeof(digest)) != 0)
        return lake_fail(err, LAKE_DATA_LOSS,
                         "the object's bytes do not have the SHA-256 of its location: it was "
                         "damaged; discard what was read");
    base_sha256_free(reader->hash);
    reader->hash = NULL;
    return status;
}

static lake_status next_of_stream(lake_reader *reader, struct lake_bytes *out,
                                  struct lake_error *err)
{
    lake_status status = storage_stream_next(reader->stream, out, err);
    if (status == LAKE_OUT_OF_RANGE)
        return lake_fail_wrap(err, LAKE_DATA_LOSS,
                              "the object ended before byte %lld: it was damaged; discard what "
                              "was read",
                              (long long)reader->end);
    if (status == LAKE_FAILED_PRECONDITION)
        return lake_fail_wrap(err, LAKE_DATA_LOSS,
                              "the object was replaced while it was read: discard what was read");
    return status;
}

/* The next chunk of a range, what of it lies in the range becomes the block. */
static lake_status fetch_chunk(lake_reader *reader, struct lake_error *err)
{
    const struct chunk_digests *digests = reader->digests;
    size_t size = (size_t)BASE_MIN(digests->chunk_bytes, digests->size_bytes - reader->chunk_start);
    for (size_t filled = 0; filled < size;) {
        lake_status status = LAKE_OK;
        if (reader->left.size == 0)
            status = next_of_stream(reader, &reader->left, err);
        if (status != LAKE_OK)
            return status;
        size_t take = BASE_MIN(size - filled, reader->left.size);
        memcpy(reader->chunk + filled, reader->left.data, take);
        reader->left = (struct lake_bytes){reader->left.data + take, reader->left.size - take};
        filled += take;
    }
    lake_status status = chunk_digests_check(digests, reader->chunk_start,
                                             (struct lake_bytes){reader->chunk, size}, err);
    if (status != LAKE_OK)
        return status;
    int64_t end = BASE_MIN(reader->chunk_start + (int64_t)size, reader->end);
    reader->block = reader->chunk + (reader->position - reader->chunk_start);
    reader->block_size = (size_t)(end - reader->position);
    reader->block_used = 0;
    reader->position = end;
    reader->chunk_start += (int64_t)size;
    return LAKE_OK;
}

static lake_status fetch(lake_reader *reader, struct lake_error *err)
{
    struct lake_bytes block;
    if (reader->digests != NULL)
        return fetch_chunk(reader, err);
    lake_status status = next_of_stream(reader, &block, err);
    if (status == LAKE_OK && reader->hash != NULL)
        status = base_sha256_update(reader->hash, block.data, block.size, err);
    if (status != LAKE_OK)
        return status;
    reader->position += (int64_t)block.size;
    if (reader->position == reader->end && reader->hash != NULL)
        status = verify(reader, err);
    if (status == LAKE_OK) {
        reader->block = block.data;
        reader->block_size = block.size;
        reader->block_used = 0;
    }
    return status;
}

lake_status client_reader_begin(lake_reader *reader, struct lake_error *err)
{
    return reader->position == reader->end ? LAKE_OK : fetch(reader, err);
}

lake_status lake_reader_read(lake_reader *reader, void *buffer, size_t size, size_t *got,
                             struct lake_error *err)
{
    lake_error_clear(err);
    if (reader->failed != LAKE_OK)
        return lake_fail(err, reader->failed, "the reader has failed before");
    if (size == 0) /* 0 bytes would say that the end is verified */
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a read needs room for at least one byte");
    if (reader->block_used == reader->block_size) {
        bool at_end = reader->position == reader->end;
        lake_status status = LAKE_OK;
        if (!at_end)
            status = fetch(reader, err);
        else if (reader->hash != NULL) /* an object without bytes */
            status = verify(reader, err);
        if (status != LAKE_OK) {
            reader->failed = status;
            return status;
        }
        if (at_end) {
            *got = 0;
            return LAKE_OK;
        }
    }
    *got = BASE_MIN(size, reader->block_size - reader->block_used);
    memcpy(buffer, reader->block + reader->block_used, *got);
    reader->block_used += *got;
    return LAKE_OK;
}

bool lake_reader_is_verified(const lake_reader *reader)
{
    return reader->whole || reader->digests != NULL;
}

void lake_reader_free(lake_reader *reader)
{
    if (reader == NULL)
        return;
    chunk_digests_free(reader->digests);
    base_free(reader->chunk);
    storage_stream_free(reader->stream);
    base_sha256_free(reader->hash);
    base_free(reader);
}

/* ---- for downloads ---- */

lake_status client_reader_open_behind(lake_client *client, bool via_query,
                                      const struct lake_data_location *location, int64_t done_bytes,
                                      struct base_sha256 *hash, lake_reader **out,
                                      struct lake_error *err)
{
    lake_reader *reader = NULL;
    struct client_reader_part rest = {done_bytes, location->size_bytes, true, false};
    lake_status status = via_query ? client_reader_via_query(client, location, rest, &reader, err)
                                   : open_reader(client, location, done_bytes, location->size_bytes,
                                                 true, &reader, err);
    if (status != LAKE_OK) {
        base_sha256_free(hash);
        return status;
    }
    base_sha256_free(reader->hash);
    reader->hash = hash;
    *out = reader;
    return LAKE_OK;
}

lake_status client_reader_block(lake_reader *reader, struct lake_bytes *out, struct lake_error *err)
{
    if (reader->block_used == reader->block_size) {
        uint8_t first;
        size_t got = 0;
        lake_status status = lake_reader_read(reader, &first, 1, &got, err);
        if (status != LAKE_OK)
            return status;
        reader->block_used -= got;
    }
    *out = (struct lake_bytes){reader->block + reader->block_used,
                               reader->block_size - reader->block_used};
    reader->block_used = reader->block_size;
    return LAKE_OK;
}
