/*
 * An object read here and there. What was read is kept in a few spans of whole units; a read that
 * misses them fetches the units it needs with one request, and more only while reads follow each
 * other: never more ahead than was read in a row before, so random reads fetch nothing ahead (O15).
 * From a store whose answers take their time, what is ahead is on its way while the caller works.
 */
#include "chunk_digests.h"
#include "client_internal.h"

#include <stdio.h>
#include <string.h>

#define UNIT_BYTES  CHUNK_BYTES
#define SPAN_BYTES  ((int64_t)4 * 1024 * 1024) /* of one request */
#define CACHE_BYTES ((int64_t)16 * 1024 * 1024)
#define AHEAD_BYTES \
    ((int64_t)8 * 1024 * 1024) /* here or on the way, behind where a row of reads is */
#define MAX_SPANS      64
#define RENEW_AHEAD_MS ((int64_t)60 * 1000) /* of a URL's end */
#define NEAR_BYTES     UNIT_BYTES /* a gap that demuxers skip and is still reading in a row */

/* Bytes [start, end) of the object; both are multiples of the unit, but for the object's end. */
struct span {
    int64_t start, end;
    uint8_t *data;
    struct storage_fetch *fetch; /* NULL: the data is here, and verified where that is possible */
    uint64_t used;               /* when, in reads */
};

struct lake_seekable {
    struct storage_store *store;
    lake_client *signer; /* by whom the store's URL is renewed; NULL: it does not end */
    struct lake_data_location location;
    int64_t renew_unix_ms;
    char *key;
    char version[STORAGE_VERSION_BYTES];
    struct chunk_digests *digests; /* NULL: the object has none */
    int64_t size;
    int64_t position;
    int64_t unit;                 /* what is fetched is whole ones */
    struct span spans[MAX_SPANS]; /* never overlap */
    size_t span_count;
    int64_t cached_bytes;
    uint64_t reads;
    bool in_row;       /* the last read followed the one before */
    int64_t expected;  /* where the next read of a row begins */
    int64_t row_bytes; /* read in a row so far */
};

static void drop(lake_seekable *seekable, struct span *span)
{
    storage_fetch_cancel(span->fetch);
    base_free(span->data);
    seekable->cached_bytes -= span->end - span->start;
    *span = seekable->spans[--seekable->span_count];
}

/* `of_digests` is the store in which the record of the object's chunks is looked for. */
static lake_status seekable_new(struct storage_store *store, struct storage_store *of_digests,
                                struct lake_str key, const struct lake_data_location *location,
                                lake_seekable **out, struct lake_error *err)
{
    lake_seekable *seekable = base_calloc_array(1, sizeof(*seekable));
    if (seekable == NULL)
        return base_fail_no_memory(err, sizeof(*seekable));
    seekable->store = storage_store_ref(store);
    seekable->size = location->size_bytes;
    seekable->unit = UNIT_BYTES;
    seekable->key = base_strndup(key.data, key.size);
    lake_status status = seekable->key == NULL ? base_fail_no_memory(err, key.size)
                                               : chunk_digests_load(of_digests, key, location,
                                                                    &seekable->digests, err);
    if (status != LAKE_OK) {
        lake_seekable_free(seekable);
        return status;
    }
    if (seekable->digests != NULL)
        seekable->unit = seekable->digests->chunk_bytes;
    *out = seekable;
    return LAKE_OK;
}

lake_status lake_open_seekable(lake_client *client, const struct lake_data_location *location,
                               lake_seekable **out, struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct storage_object_info info;
    struct lake_str key;
    lake_error_clear(err);
    lake_status status = client_object_open(client, location, &store, &key, &info, err);
    if (status == LAKE_OK)
        status = seekable_new(store, store, key, location, out, err);
    if (status == LAKE_OK)
        memcpy((*out)->version, info.version, sizeof(info.version));
    return status;
}

/* ---- by URLs that Query signs ---- */

static lake_status sign(lake_seekable *seekable, struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct lake_str key;
    int64_t expires_unix_ms;
    lake_status status = client_url_store(seekable->signer, &seekable->location, &store, &key,
                                          &expires_unix_ms, err);
    if (status != LAKE_OK)
        return status;
    storage_store_unref(seekable->store);
    seekable->store = store;
    seekable->renew_unix_ms = expires_unix_ms - RENEW_AHEAD_MS;
    return LAKE_OK;
}

/* The record beside the object has a URL of its own. */
static lake_status open_record(lake_client *client, const struct lake_data_location *location,
                               struct storage_store **out, struct lake_error *err)
{
    struct lake_data_location record = *location;
    struct lake_str key;
    int64_t expires_unix_ms;
    record.uri = base_format("%s" CHUNK_RECORD_SUFFIX, location->uri);
    record.size_bytes = chunk_record_bytes(location->size_bytes);
    if (record.uri == NULL)
        return base_fail_no_memory(err, strlen(location->uri));
    lake_status status = client_url_store(client, &record, out, &key, &expires_unix_ms, err);
    base_free(record.uri);
    return status;
}

lake_status lake_open_seekable_via_query(lake_client *client,
                                         const struct lake_data_location *location,
                                         lake_seekable **out, struct lake_error *err)
{
    struct storage_store *of_digests = NULL;
    struct storage_store *store = NULL;
    struct lake_str key;
    int64_t expires_unix_ms;
    uint8_t first;
    lake_seekable *seekable = NULL;
    lake_error_clear(err);
    lake_status status = client_url_store(client, location, &store, &key, &expires_unix_ms, err);
    if (status == LAKE_OK && location->size_bytes > CHUNK_BYTES)
        status = open_record(client, location, &of_digests, err);
    if (status == LAKE_OK) /* whether it is there, and so large */
        status = location->size_bytes > 0 ? storage_read_range(store, key, 0, 1, &first, err)
                                          : client_url_check_empty(store, key, err);
    if (status == LAKE_OK)
        status = seekable_new(store, of_digests, key, location, &seekable, err);
    if (status == LAKE_OK)
        status =
            client_location_copy(base_str_of(location->uri), base_str_of(""), location->size_bytes,
                                 base_str_of(location->sha256_hex), &seekable->location, err);
    storage_store_unref(of_digests);
    storage_store_unref(store);
    if (status != LAKE_OK) {
        lake_seekable_free(seekable);
        return status;
    }
    seekable->signer = lake_client_ref(client);
    seekable->renew_unix_ms = expires_unix_ms - RENEW_AHEAD_MS;
    *out = seekable;
    return LAKE_OK;
}

void lake_seekable_free(lake_seekable *seekable)
{
    if (seekable == NULL)
        return;
    while (seekable->span_count > 0)
        drop(seekable, seekable->spans);
    chunk_digests_free(seekable->digests);
    storage_store_unref(seekable->store);
    lake_client_unref(seekable->signer);
    lake_data_location_fini(&seekable->location);
    base_free(seekable->key);
    base_free(seekable);
}

int64_t lake_seekable_tell(const lake_seekable *seekable)
{
    return seekable->position;
}

int64_t lake_seekable_size(const lake_seekable *seekable)
{
    return seekable->size;
}

bool lake_seekable_is_verified(const lake_seekable *seekable)
{
    return seekable->digests != NULL;
}

/* ---- the cache ---- */

static struct span *find(lake_seekable *seekable, int64_t offset)
{
    for (size_t i = 0; i < seekable->span_count; i++) {
        struct span *span = &seekable->spans[i];
        if (offset >= span->start && offset < span->end)
            return span;
    }
    return NULL;
}

/* Where the first span behind `offset` begins, at most `end`. */
static int64_t next_cached(const lake_seekable *seekable, int64_t offset, int64_t end)
{
    for (size_t i = 0; i < seekable->span_count; i++) {
        if (seekable->spans[i].start > offset)
            end = BASE_MIN(end, seekable->spans[i].start);
    }
    return end;
}

/* Forgets what was not used for longest until `bytes` more fit. */
static void make_room(lake_seekable *seekable, int64_t bytes)
{
    while (seekable->span_count > 0 &&
           (seekable->span_count == MAX_SPANS || seekable->cached_bytes + bytes > CACHE_BYTES)) {
        size_t oldest = 0;
        for (size_t i = 1; i < seekable->span_count; i++) {
            if (seekable->spans[i].used < seekable->spans[oldest].used)
                oldest = i;
        }
        drop(seekable, &seekable->spans[oldest]);
    }
}

static lake_status fetch(lake_seekable *seekable, int64_t start, int64_t end, struct span **out,
                         struct lake_error *err)
{
    size_t size = (size_t)(end - start);
    make_room(seekable, end - start);
    uint8_t *data = base_alloc(size);
    if (data == NULL)
        return base_fail_no_memory(err, size);
    lake_status status = storage_read_range_if(seekable->store, base_str_of(seekable->key),
                                               seekable->version, (uint64_t)start, size, data, err);
    if (status == LAKE_OUT_OF_RANGE || status == LAKE_FAILED_PRECONDITION ||
        status == LAKE_NOT_FOUND)
        status = lake_fail_wrap(err, LAKE_DATA_LOSS,
                                "the object is not the one that was opened: it was replaced, cut "
                                "short or removed since");
    if (status == LAKE_OK && seekable->digests != NULL)
        status =
            chunk_digests_check(seekable->digests, start, (struct lake_bytes){data, size}, err);
    if (status != LAKE_OK) {
        base_free(data);
        return status;
    }
    struct span *span = &seekable->spans[seekable->span_count++];
    *span = (struct span){.start = start, .end = end, .data = data};
    seekable->cached_bytes += end - start;
    *out = span;
    return LAKE_OK;
}

/* Waits for a span that is on its way. One that does not come is dropped, and fetched by whoever
 * needs it. */
static lake_status arrive(lake_seekable *seekable, struct span *span, bool *here,
                          struct lake_error *err)
{
    *here = true;
    if (span->fetch == NULL)
        return LAKE_OK;
    lake_status status = storage_fetch_finish(span->fetch, NULL);
    span->fetch = NULL;
    *here = status == LAKE_OK;
    if (*here && seekable->digests != NULL)
        status = chunk_digests_check(
            seekable->digests, span->start,
            (struct lake_bytes){span->data, (size_t)(span->end - span->start)}, err);
    if (status == LAKE_OK)
        return LAKE_OK;
    drop(seekable, span);
    return *here ? status : LAKE_OK;
}

static lake_status send_for(lake_seekable *seekable, int64_t start, int64_t end,
                            struct lake_error *err)
{
    size_t size = (size_t)(end - start);
    make_room(seekable, end - start);
    struct span span = {.start = start, .end = end, .used = seekable->reads};
    span.data = base_alloc(size);
    if (span.data == NULL)
        return base_fail_no_memory(err, size);
    lake_status status =
        storage_fetch_start(seekable->store, base_str_of(seekable->key), seekable->version,
                            (uint64_t)start, size, span.data, &span.fetch, err);
    if (status != LAKE_OK) {
        base_free(span.data);
        return status;
    }
    seekable->spans[seekable->span_count++] = span;
    seekable->cached_bytes += end - start;
    return LAKE_OK;
}

/* While reads follow each other, what comes next is sent for when half of it was read. A failure is
 * one of reading ahead only: whoever needs the bytes will see. */
static void send_for_next(lake_seekable *seekable)
{
    int64_t ahead = BASE_MIN(seekable->row_bytes, AHEAD_BYTES);
    int64_t start = seekable->expected;
    if (!seekable->in_row || !storage_can_fetch(seekable->store))
        return;
    for (struct span *span = find(seekable, start); span != NULL; span = find(seekable, start))
        start = span->end;
    int64_t have = start - seekable->expected;
    if (have > ahead / 2 || start % seekable->unit != 0)
        return;
    int64_t stop = next_cached(seekable, start, BASE_MIN(seekable->size - ahead, start) + ahead);
    stop = BASE_MIN(stop, start + ahead - have);
    if (stop < seekable->size)
        stop -= stop % seekable->unit;
    while (start < stop) {
        int64_t end = BASE_MIN(stop, start + BASE_MAX(SPAN_BYTES, seekable->unit));
        if (send_for(seekable, start, end, NULL) != LAKE_OK)
            return;
        start = end;
    }
}

/* ---- reading ---- */

/* How far to fetch for a read of [offset, end): what it asks for, and ahead as much as was read in
 * a row so far. */
static int64_t fetch_end(const lake_seekable *seekable, int64_t start, int64_t end)
{
    int64_t ahead = BASE_MIN(seekable->row_bytes, SPAN_BYTES);
    int64_t most = BASE_MAX(SPAN_BYTES, seekable->unit);
    end = BASE_MIN(seekable->size - ahead, end) + ahead;
    end = BASE_MIN(end, start + most);
    int64_t beyond = end % seekable->unit;
    if (beyond != 0)
        end = BASE_MIN(end - beyond, INT64_MAX - seekable->unit) + seekable->unit;
    return next_cached(seekable, start, BASE_MIN(end, seekable->size));
}

static void note_row(lake_seekable *seekable, int64_t offset, int64_t end)
{
    int64_t gap = offset - seekable->expected;
    bool in_row = seekable->reads > 0 && gap >= 0 && gap <= NEAR_BYTES;
    seekable->reads++;
    seekable->in_row = in_row;
    if (!in_row)
        seekable->row_bytes = 0;
    seekable->expected = end;
}

lake_status lake_seekable_read_at(lake_seekable *seekable, int64_t offset, void *buffer,
                                  size_t size, size_t *got, struct lake_error *err)
{
    lake_error_clear(err);
    if (offset < 0)
        return lake_fail(err, LAKE_OUT_OF_RANGE, "an object has no byte %lld", (long long)offset);
    if (size == 0 || offset >= seekable->size) {
        *got = 0;
        return LAKE_OK;
    }
    size = (size_t)BASE_MIN((uint64_t)size, (uint64_t)(seekable->size - offset));
    int64_t end = offset + (int64_t)size;
    uint8_t *to = buffer;
    if (seekable->signer != NULL && base_clock_unix_ms() > seekable->renew_unix_ms) {
        lake_status status = sign(seekable, err);
        if (status != LAKE_OK)
            return status;
    }
    note_row(seekable, offset, end);
    for (int64_t at = offset; at < end;) {
        struct span *span = find(seekable, at);
        bool here = span != NULL;
        lake_status status = here ? arrive(seekable, span, &here, err) : LAKE_OK;
        if (status == LAKE_OK && !here) {
            int64_t start = at - at % seekable->unit;
            status = fetch(seekable, start, fetch_end(seekable, start, end), &span, err);
        }
        if (status != LAKE_OK)
            return status;
        int64_t take = BASE_MIN(span->end, end) - at;
        memcpy(to, span->data + (at - span->start), (size_t)take);
        span->used = seekable->reads;
        at += take;
        to += take;
    }
    seekable->row_bytes += end - offset;
    send_for_next(seekable);
    *got = size;
    return LAKE_OK;
}

lake_status lake_seekable_read(lake_seekable *seekable, void *buffer, size_t size, size_t *got,
                               struct lake_error *err)
{
    lake_status status =
        lake_seekable_read_at(seekable, seekable->position, buffer, size, got, err);
    if (status == LAKE_OK)
        seekable->position += (int64_t)*got;
    return status;
}

lake_status lake_seekable_seek(lake_seekable *seekable, int64_t offset, struct lake_error *err)
{
    lake_error_clear(err);
    if (offset < 0)
        return lake_fail(err, LAKE_OUT_OF_RANGE, "an object has no byte %lld", (long long)offset);
    seekable->position = offset;
    return LAKE_OK;
}
