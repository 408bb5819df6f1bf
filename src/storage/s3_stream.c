/*
 * Sequential reading: in one request, or with ranges side by side. The first answer says of which
 * object it is; all later ranges are of that one (O14), so until it is known only one range is
 * asked for, unless the caller knows the version.
 */
#include "s3.h"

#include <string.h>

/* What is given out at once: it is still in the core's own cache when its reader, who hashes it,
 * looks at it a second time. What is waited for: a thread that wakes up more often sleeps less. */
#define PIECE_BYTES   ((size_t)256 * 1024)
#define AWAITED_BYTES ((size_t)1024 * 1024)

struct slot {
    struct s3_range range;
    uint8_t *data;
    uint64_t arrived, given; /* of its bytes, from the front */
    bool busy;
};

struct stream {
    struct s3_store *store;
    char *key;
    char version[STORAGE_VERSION_BYTES];
    uint64_t next; /* offset of the next range to ask for */
    uint64_t end;
    size_t first, busy; /* the ring: the oldest range, and how many are in flight */
    struct slot slots[STORAGE_STREAM_WINDOW];
};

static void free_stream(void *context)
{
    struct stream *stream = context;
    for (size_t i = 0; i < STORAGE_STREAM_WINDOW; i++) {
        struct slot *slot = &stream->slots[i];
        if (slot->busy && slot->range.call.transfer != NULL)
            http_transfer_cancel(slot->range.call.transfer);
    }
    for (size_t i = 0; i < STORAGE_STREAM_WINDOW; i++) {
        if (stream->slots[i].busy)
            s3_call_fini(&stream->slots[i].range.call);
        base_free(stream->slots[i].data);
    }
    base_free(stream->key);
    base_free(stream);
}

static lake_status ask_for_next(struct stream *stream, struct lake_error *err)
{
    size_t index = (stream->first + stream->busy) % STORAGE_STREAM_WINDOW;
    struct slot *slot = &stream->slots[index];
    size_t size = (size_t)BASE_MIN(stream->end - stream->next, STORAGE_STREAM_RANGE_BYTES);
    if (slot->data == NULL)
        slot->data = base_alloc_large(size);
    if (slot->data == NULL)
        return base_fail_no_memory(err, size);
    s3_range_init(&slot->range, stream->store, base_str_of(stream->key), stream->version,
                  stream->next, size, slot->data);
    lake_status status = s3_call_start(&slot->range.call, err);
    if (status != LAKE_OK) {
        s3_call_fini(&slot->range.call);
        return status;
    }
    slot->arrived = slot->given = 0;
    slot->busy = true;
    stream->busy++;
    stream->next += size;
    return LAKE_OK;
}

static lake_status fill_window(struct stream *stream, struct lake_error *err)
{
    size_t limit = stream->version[0] == '\0' ? 1 : STORAGE_STREAM_WINDOW;
    lake_status status = LAKE_OK;
    while (status == LAKE_OK && stream->busy < limit && stream->next < stream->end)
        status = ask_for_next(stream, err);
    return status;
}

static lake_status open_stream(void *context, struct lake_str key, const char *version,
                               uint64_t offset, uint64_t size_bytes, void **out,
                               struct lake_error *err)
{
    struct stream *stream = base_calloc_array(1, sizeof(*stream));
    if (stream == NULL)
        return base_fail_no_memory(err, sizeof(*stream));
    stream->store = context;
    stream->next = offset;
    stream->end = offset + size_bytes;
    memcpy(stream->version, version, strlen(version) + 1);
    stream->key = base_strndup(key.data, key.size);
    lake_status status =
        stream->key == NULL ? base_fail_no_memory(err, key.size) : fill_window(stream, err);
    if (status != LAKE_OK) {
        free_stream(stream);
        return status;
    }
    *out = stream;
    return LAKE_OK;
}

/* The oldest range has been read: its slot is free. */
static void retire_first(struct stream *stream)
{
    struct slot *slot = &stream->slots[stream->first];
    s3_call_fini(&slot->range.call);
    slot->busy = false;
    stream->first = (stream->first + 1) % STORAGE_STREAM_WINDOW;
    stream->busy--;
}

/* More of the oldest range. It is given out while it comes, if its version is known: else it might
 * be asked for again, of another object. */
static lake_status await_more(struct stream *stream, struct slot *slot, struct lake_error *err)
{
    struct s3_range *range = &slot->range;
    bool known = stream->version[0] != '\0';
    uint64_t want = known ? BASE_MIN(slot->given + AWAITED_BYTES, range->size) : range->size;
    lake_status status = s3_range_await(range, want, &slot->arrived, err);
    if (status != LAKE_OK || known)
        return status;
    memcpy(stream->version, range->etag, sizeof(stream->version));
    return fill_window(stream, err);
}

static lake_status next_bytes(void *context, struct lake_bytes *out, struct lake_error *err)
{
    struct stream *stream = context;
    struct slot *slot = &stream->slots[stream->first];
    if (slot->busy && slot->given == slot->range.size)
        retire_first(stream);
    lake_status status = fill_window(stream, err);
    if (status != LAKE_OK)
        return status;
    if (stream->busy == 0) {
        *out = (struct lake_bytes){NULL, 0};
        return LAKE_OK;
    }
    slot = &stream->slots[stream->first];
    if (slot->given == slot->arrived)
        status = await_more(stream, slot, err);
    if (status != LAKE_OK)
        return status;
    size_t size = (size_t)BASE_MIN(slot->arrived - slot->given, PIECE_BYTES);
    *out = (struct lake_bytes){slot->data + slot->given, size};
    slot->given += size;
    return LAKE_OK;
}

const struct storage_stream_methods s3_stream_methods = {
    .open = open_stream,
    .next = next_bytes,
    .free = free_stream,
};

/* ---- one range of any size by one request ---- */

struct long_range {
    struct s3_range range;
    char *key;
    bool started;
};

static void free_long_range(void *context)
{
    struct long_range *reading = context;
    if (reading->started)
        s3_call_fini(&reading->range.call);
    base_free(reading->key);
    base_free(reading);
}

static lake_status open_long_range(void *context, struct lake_str key, const char *version,
                                   uint64_t offset, uint64_t size_bytes, void **out,
                                   struct lake_error *err)
{
    struct long_range *reading = base_calloc_array(1, sizeof(*reading));
    lake_status status = LAKE_OK;
    if (reading == NULL)
        return base_fail_no_memory(err, sizeof(*reading));
    reading->key = base_strndup(key.data, key.size);
    if (reading->key == NULL)
        status = base_fail_no_memory(err, key.size);
    if (status == LAKE_OK && size_bytes > 0) { /* no GET has a range without bytes */
        s3_range_init(&reading->range, context, base_str_of(reading->key), version, offset,
                      size_bytes, NULL);
        reading->range.call.queue_bytes = STORAGE_RANGE_QUEUE_BYTES;
        reading->started = true;
        status = s3_call_start(&reading->range.call, err);
    }
    if (status != LAKE_OK) {
        free_long_range(reading);
        return status;
    }
    *out = reading;
    return LAKE_OK;
}

static lake_status next_of_long_range(void *context, struct lake_bytes *out, struct lake_error *err)
{
    struct long_range *reading = context;
    *out = (struct lake_bytes){NULL, 0};
    if (!reading->started)
        return LAKE_OK;
    lake_status status = s3_call_read(&reading->range.call, out, err);
    return status == LAKE_OK ? LAKE_OK : s3_range_failure(&reading->range, status, err);
}

const struct storage_stream_methods s3_range_stream_methods = {
    .open = open_long_range,
    .next = next_of_long_range,
    .free = free_long_range,
};
