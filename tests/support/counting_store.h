/*
 * A far store in memory that counts what is asked of it and fails as it is told. Under every key
 * lies the same endless object, whose bytes follow from their position. One at a time, used by one
 * thread at a time.
 */
#ifndef COUNTING_STORE_H
#define COUNTING_STORE_H

#include <storage/storage.h>

struct counted {
    unsigned reads, fetches, cancelled;
    uint64_t read_bytes, fetched_bytes, longest_bytes;
    uint64_t on_the_way_bytes, most_on_the_way_bytes; /* of fetches */
    unsigned fail_fetch;                              /* this one, counted from 1 */
    unsigned failures;                                /* so many of those that are finished next */
};

static struct counted seen; /* a test sets it to zero */

static inline uint8_t counting_byte_at(uint64_t position)
{
    return (uint8_t)(position * 7 + position / 251);
}

static inline void counting_fill(uint64_t offset, size_t size, uint8_t *out)
{
    for (size_t i = 0; i < size; i++)
        out[i] = counting_byte_at(offset + i);
}

static inline lake_status counting_read_range(void *context, struct lake_str key, uint64_t offset,
                                              size_t size, uint8_t *out, struct lake_error *err)
{
    (void)context, (void)key, (void)err;
    seen.reads++;
    seen.read_bytes += size;
    counting_fill(offset, size, out);
    return LAKE_OK;
}

struct counting_fetch {
    uint64_t offset;
    size_t size;
    uint8_t *out;
    bool fails;
};

static inline lake_status counting_start(void *context, struct lake_str key, const char *version,
                                         uint64_t offset, size_t size, uint8_t *out, void **handle,
                                         struct lake_error *err)
{
    (void)context, (void)key, (void)version;
    struct counting_fetch *fetch = base_alloc(sizeof(*fetch));
    if (fetch == NULL)
        return base_fail_no_memory(err, sizeof(*fetch));
    seen.fetches++;
    seen.fetched_bytes += size;
    seen.longest_bytes = BASE_MAX(seen.longest_bytes, size);
    seen.on_the_way_bytes += size;
    seen.most_on_the_way_bytes = BASE_MAX(seen.most_on_the_way_bytes, seen.on_the_way_bytes);
    *fetch = (struct counting_fetch){offset, size, out, seen.fetches == seen.fail_fetch};
    *handle = fetch;
    return LAKE_OK;
}

static inline void counting_release(struct counting_fetch *fetch)
{
    seen.on_the_way_bytes -= fetch->size;
    base_free(fetch);
}

static inline lake_status counting_finish(void *handle, struct lake_error *err)
{
    struct counting_fetch *fetch = handle;
    lake_status status = LAKE_OK;
    if (fetch->fails || seen.failures > 0) {
        seen.failures -= seen.failures > 0;
        status = lake_fail(err, LAKE_UNAVAILABLE, "told to fail");
    } else {
        counting_fill(fetch->offset, fetch->size, fetch->out);
    }
    counting_release(fetch);
    return status;
}

static inline void counting_cancel(void *handle)
{
    seen.cancelled++;
    counting_release(handle);
}

static inline void counting_free(void *context)
{
    (void)context;
}

static inline lake_status counting_store_new(struct storage_store **out, struct lake_error *err)
{
    static const struct storage_fetch_methods fetches = {counting_start, counting_finish,
                                                         counting_cancel};
    static const struct storage_methods methods = {
        .read_range = counting_read_range, .fetch = &fetches, .free = counting_free};
    return storage_store_new(&methods, NULL, "test://far", out, err);
}

#endif
