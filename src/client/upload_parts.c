/* A ring of part buffers between a source and a multipart upload. */
#include "upload_parts.h"

#include <string.h>

/* Of one read: hashing takes turns with reading, and finds the bytes in the core's own cache. */
#define ROOM_BYTES  ((size_t)256 * 1024)
#define FIRST_BYTES ((size_t)1024 * 1024)

struct upload_parts {
    struct upload_parts_options options;
    char *key;
    struct storage_multipart *upload; /* NULL: nothing was sent so far */
    struct storage_part *parts;       /* in source order */
    size_t part_count, part_capacity;
    uint32_t started;
    bool committed;
    size_t filling; /* index */
    size_t filled;
    uint8_t *buffers[STORAGE_MULTIPART_MAX_IN_FLIGHT];
    size_t capacities[STORAGE_MULTIPART_MAX_IN_FLIGHT];
};

void upload_parts_free(struct upload_parts *upload, bool keep)
{
    if (upload == NULL)
        return;
    if (upload->upload != NULL && !upload->committed && !keep)
        (void)storage_multipart_abort(upload->upload, NULL);
    storage_multipart_free(upload->upload);
    for (size_t i = 0; i < BASE_ARRAY_LEN(upload->buffers); i++)
        base_free(upload->buffers[i]);
    base_free(upload->parts);
    base_free(upload->key);
    base_free(upload);
}

static lake_status reserve_parts(struct upload_parts *upload, size_t count, struct lake_error *err)
{
    if (count <= upload->part_capacity)
        return LAKE_OK;
    size_t capacity = BASE_MAX(BASE_MAX(16, count), 2 * upload->part_capacity);
    struct storage_part *grown =
        base_realloc_array(upload->parts, capacity, sizeof(*upload->parts));
    if (grown == NULL)
        return base_fail_no_memory(err, capacity * sizeof(*upload->parts));
    upload->parts = grown;
    upload->part_capacity = capacity;
    return LAKE_OK;
}

static lake_status take_up(struct upload_parts *upload, struct lake_error *err)
{
    const struct upload_parts_options *options = &upload->options;
    lake_status status = reserve_parts(upload, options->held_count, err);
    if (status == LAKE_OK)
        status = storage_multipart_reopen(options->stage, base_str_of(upload->key),
                                          options->resume_id, true, &upload->upload, err);
    if (status != LAKE_OK)
        return status;
    if (options->held_count > 0)
        memcpy(upload->parts, options->held, options->held_count * sizeof(*upload->parts));
    upload->part_count = options->held_count;
    upload->started = (uint32_t)options->held_count;
    return LAKE_OK;
}

lake_status upload_parts_new(const struct upload_parts_options *options, struct upload_parts **out,
                             struct lake_error *err)
{
    struct upload_parts *upload = base_calloc_array(1, sizeof(*upload));
    if (upload == NULL)
        return base_fail_no_memory(err, sizeof(*upload));
    upload->options = *options;
    upload->key = base_strdup(options->key);
    lake_status status = upload->key == NULL ? base_fail_no_memory(err, 0) : LAKE_OK;
    if (status == LAKE_OK && options->resume_id != NULL)
        status = take_up(upload, err);
    if (status != LAKE_OK) {
        upload_parts_free(upload, true);
        return status;
    }
    *out = upload;
    return LAKE_OK;
}

static lake_status finish_oldest(struct upload_parts *upload, struct lake_error *err)
{
    const struct upload_parts_options *options = &upload->options;
    lake_status status = reserve_parts(upload, upload->part_count + 1, err);
    if (status == LAKE_OK)
        status =
            storage_multipart_part_finish(upload->upload, &upload->parts[upload->part_count], err);
    if (status != LAKE_OK)
        return status;
    upload->part_count++;
    if (options->arrived == NULL)
        return LAKE_OK;
    return options->arrived(options->context, storage_multipart_id(upload->upload), upload->parts,
                            upload->part_count, err);
}

static lake_status send_part(struct upload_parts *upload, struct lake_error *err)
{
    const struct upload_parts_options *options = &upload->options;
    lake_status status = LAKE_OK;
    if (upload->started == STORAGE_MULTIPART_MAX_PARTS)
        return lake_fail(err, LAKE_OUT_OF_RANGE,
                         "an object has at most %d parts of %zu bytes: this one is larger",
                         STORAGE_MULTIPART_MAX_PARTS, options->part_bytes);
    if (upload->upload == NULL) {
        status = storage_multipart_create(options->stage, base_str_of(upload->key),
                                          options->media_type, true, &upload->upload, err);
        if (status == LAKE_OK && options->arrived != NULL) /* so that it can be found from now on */
            status = options->arrived(options->context, storage_multipart_id(upload->upload), NULL,
                                      0, err);
    }
    if (status == LAKE_OK)
        status = storage_multipart_part_start(
            upload->upload, upload->started + 1,
            (struct lake_bytes){upload->buffers[upload->filling], upload->filled}, err);
    if (status != LAKE_OK)
        return status;
    upload->started++;
    upload->filled = 0;
    upload->filling = (upload->filling + 1) % options->in_flight;
    /* The buffer that fills next is that of the oldest part. */
    while (status == LAKE_OK && storage_multipart_in_flight(upload->upload) == options->in_flight)
        status = finish_oldest(upload, err);
    return status;
}

/* The first buffer grows with a small object; the others are there for a large one. */
static lake_status grow(struct upload_parts *upload, struct lake_error *err)
{
    uint8_t **buffer = &upload->buffers[upload->filling];
    size_t *capacity = &upload->capacities[upload->filling];
    if (upload->filled < *capacity)
        return LAKE_OK;
    size_t size = upload->started > 0
                      ? upload->options.part_bytes
                      : BASE_MIN(BASE_MAX(4 * *capacity, FIRST_BYTES), upload->options.part_bytes);
    uint8_t *grown = base_alloc_large(size);
    if (grown == NULL)
        return base_fail_no_memory(err, size);
    if (upload->filled > 0)
        memcpy(grown, *buffer, upload->filled);
    base_free(*buffer);
    *buffer = grown;
    *capacity = size;
    return LAKE_OK;
}

lake_status upload_parts_room(struct upload_parts *upload, uint8_t **out, size_t *size,
                              struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (upload->filled == upload->options.part_bytes)
        status = send_part(upload, err);
    if (status == LAKE_OK)
        status = grow(upload, err);
    if (status != LAKE_OK)
        return status;
    *out = upload->buffers[upload->filling] + upload->filled;
    *size = BASE_MIN(upload->capacities[upload->filling] - upload->filled, ROOM_BYTES);
    return LAKE_OK;
}

void upload_parts_filled(struct upload_parts *upload, size_t size)
{
    upload->filled += size;
}

lake_status upload_parts_commit(struct upload_parts *upload, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (upload->upload == NULL)
        return storage_put_typed_if_absent(upload->options.stage, base_str_of(upload->key),
                                           (struct lake_bytes){upload->buffers[0], upload->filled},
                                           upload->options.media_type, err);
    if (upload->filled > 0)
        status = send_part(upload, err);
    while (status == LAKE_OK && storage_multipart_in_flight(upload->upload) > 0)
        status = finish_oldest(upload, err);
    if (status == LAKE_OK) {
        status = storage_multipart_complete(upload->upload, upload->parts, upload->part_count, err);
        /* Parts of an upload that may be complete are not removed. */
        upload->committed = status == LAKE_OK || status == LAKE_OUTCOME_UNKNOWN;
    }
    return status;
}
