/*
 * The streaming writer: one put for what fits a part, else a multipart upload with parts in flight
 * while the next one fills. Parts grow with the object, so that 10,000 of them reach far (O02).
 */
#include "s3.h"

#include <string.h>

#define BUFFERS         3 /* one fills, two travel */
#define PARTS_OF_A_SIZE 2500
#define MAX_GROWTH      3 /* doublings */

struct writer {
    struct s3_store *store;
    char *key;
    bool only_if_absent;
    bool broken;
    void *upload; /* NULL: nothing was sent so far */
    struct storage_part *parts;
    size_t part_count, part_capacity;
    uint32_t started;
    struct {
        uint8_t *data;
        size_t capacity;
    } buffers[BUFFERS];
    size_t filling; /* index */
    size_t filled;
    size_t part_bytes;
};

static void release(struct writer *writer)
{
    if (writer->upload != NULL)
        s3_multipart_methods.free(writer->upload);
    for (size_t i = 0; i < BUFFERS; i++)
        base_free(writer->buffers[i].data);
    base_free(writer->parts);
    base_free(writer->key);
    base_free(writer);
}

lake_status s3_writer_open(void *context, struct lake_str key, bool only_if_absent, void **out,
                           struct lake_error *err)
{
    struct s3_store *store = context;
    struct writer *writer = base_calloc_array(1, sizeof(*writer));
    if (writer == NULL)
        return base_fail_no_memory(err, sizeof(*writer));
    writer->store = store;
    writer->only_if_absent = only_if_absent;
    writer->part_bytes = (size_t)store->options.writer_part_bytes;
    writer->key = base_strndup(key.data, key.size);
    if (writer->key == NULL) {
        release(writer);
        return base_fail_no_memory(err, key.size);
    }
    *out = writer;
    return LAKE_OK;
}

/* Small objects take little memory: a buffer grows up to a part. */
static lake_status make_room(struct writer *writer, size_t more, struct lake_error *err)
{
    uint8_t **data = &writer->buffers[writer->filling].data;
    size_t *capacity = &writer->buffers[writer->filling].capacity;
    size_t need = writer->filled + more;
    if (need <= *capacity)
        return LAKE_OK;
    size_t size = BASE_MIN(BASE_MAX(need, 2 * *capacity), writer->part_bytes);
    uint8_t *grown = base_realloc_array(*data, size, 1);
    if (grown == NULL)
        return base_fail_no_memory(err, size);
    *data = grown;
    *capacity = size;
    return LAKE_OK;
}

static lake_status finish_oldest(struct writer *writer, struct lake_error *err)
{
    if (writer->part_count == writer->part_capacity) {
        size_t capacity = BASE_MAX(16, 2 * writer->part_capacity);
        struct storage_part *grown =
            base_realloc_array(writer->parts, capacity, sizeof(*writer->parts));
        if (grown == NULL)
            return base_fail_no_memory(err, capacity * sizeof(*writer->parts));
        writer->parts = grown;
        writer->part_capacity = capacity;
    }
    lake_status status =
        s3_multipart_methods.part_finish(writer->upload, &writer->parts[writer->part_count], err);
    writer->part_count += status == LAKE_OK;
    return status;
}

static lake_status send_part(struct writer *writer, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (writer->upload == NULL)
        status = s3_multipart_methods.open(writer->store, base_str_of(writer->key), NULL, NULL,
                                           writer->only_if_absent, &writer->upload, err);
    if (status == LAKE_OK && writer->started == STORAGE_MULTIPART_MAX_PARTS)
        status = lake_fail(err, LAKE_OUT_OF_RANGE,
                           "object %s is too large: it would need more than %d parts", writer->key,
                           STORAGE_MULTIPART_MAX_PARTS);
    if (status == LAKE_OK)
        status = s3_multipart_methods.part_start(
            writer->upload, writer->started + 1,
            (struct lake_bytes){writer->buffers[writer->filling].data, writer->filled}, err);
    if (status != LAKE_OK)
        return status;
    writer->started++;
    writer->filled = 0;
    writer->filling = (writer->filling + 1) % BUFFERS;
    uint32_t growth = BASE_MIN(writer->started / PARTS_OF_A_SIZE, (uint32_t)MAX_GROWTH);
    writer->part_bytes = (size_t)writer->store->options.writer_part_bytes << growth;
    /* The buffer that is filled next must have come back. */
    while (status == LAKE_OK && s3_multipart_methods.in_flight(writer->upload) == BUFFERS)
        status = finish_oldest(writer, err);
    return status;
}

lake_status s3_writer_write(void *context, struct lake_bytes data, struct lake_error *err)
{
    struct writer *writer = context;
    lake_status status = writer->broken
                             ? lake_fail(err, LAKE_FAILED_PRECONDITION,
                                         "writing object %s has failed before", writer->key)
                             : LAKE_OK;
    while (status == LAKE_OK && data.size > 0) {
        if (writer->filled == writer->part_bytes)
            status = send_part(writer, err);
        size_t size = BASE_MIN(data.size, writer->part_bytes - writer->filled);
        if (status == LAKE_OK)
            status = make_room(writer, size, err);
        if (status != LAKE_OK)
            break;
        memcpy(writer->buffers[writer->filling].data + writer->filled, data.data, size);
        writer->filled += size;
        data = (struct lake_bytes){data.data + size, data.size - size};
    }
    writer->broken = writer->broken || status != LAKE_OK;
    return status;
}

lake_status s3_writer_commit(void *context, struct lake_error *err)
{
    struct writer *writer = context;
    lake_status status = writer->broken
                             ? lake_fail(err, LAKE_FAILED_PRECONDITION,
                                         "writing object %s has failed before", writer->key)
                             : LAKE_OK;
    if (status == LAKE_OK && writer->upload == NULL) {
        status = s3_put(writer->store, base_str_of(writer->key),
                        (struct lake_bytes){writer->buffers[0].data, writer->filled},
                        writer->only_if_absent, err);
        release(writer);
        return status;
    }
    if (status == LAKE_OK && writer->filled > 0)
        status = send_part(writer, err);
    while (status == LAKE_OK && s3_multipart_methods.in_flight(writer->upload) > 0)
        status = finish_oldest(writer, err);
    if (status == LAKE_OK)
        status =
            s3_multipart_methods.complete(writer->upload, writer->parts, writer->part_count, err);
    if (status != LAKE_OK && status != LAKE_OUTCOME_UNKNOWN && writer->upload != NULL)
        (void)s3_multipart_methods.abort(writer->upload, NULL);
    release(writer);
    return status;
}

void s3_writer_abort(void *context)
{
    struct writer *writer = context;
    /* Best effort: what stays is not visible, and the bucket's lifecycle rule takes it. */
    if (writer->upload != NULL)
        (void)s3_multipart_methods.abort(writer->upload, NULL);
    release(writer);
}
