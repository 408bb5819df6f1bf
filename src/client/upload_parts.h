/*
 * An upload in parts, into a stage that has multipart uploads (OBJ-3): a fixed number of part
 * buffers, one of which fills while the others travel. What fits one part is one put.
 *
 * Used by one thread. The caller reads into the room it is given, in source order.
 */
#ifndef CLIENT_UPLOAD_PARTS_H
#define CLIENT_UPLOAD_PARTS_H

#include <storage/storage.h>

#define UPLOAD_PART_BYTES        ((size_t)64 * 1024 * 1024)
#define UPLOAD_DEFAULT_IN_FLIGHT 4

struct upload_parts_options {
    struct storage_store *stage; /* borrowed */
    const char *key;             /* copied */
    const char *media_type;      /* borrowed; may be NULL */
    size_t part_bytes;
    uint32_t in_flight;    /* 1..=STORAGE_MULTIPART_MAX_IN_FLIGHT, and so many buffers */
    const char *resume_id; /* not NULL: go on with this upload, whose `held` parts are there */
    const struct storage_part *held;
    size_t held_count;
    /* When the upload has begun, and after each part that has arrived, in source order; may be
     * NULL. */
    lake_status (*arrived)(void *context, const char *upload_id, const struct storage_part *parts,
                           size_t count, struct lake_error *err);
    void *context;
};

struct upload_parts;

lake_status upload_parts_new(const struct upload_parts_options *options, struct upload_parts **out,
                             struct lake_error *err);
/* Where the next bytes go, at least one. Sends a part first when it is full. OUT_OF_RANGE for a
 * part beyond the 10,000th, before anything is sent of it. */
lake_status upload_parts_room(struct upload_parts *upload, uint8_t **out, size_t *size,
                              struct lake_error *err);
void upload_parts_filled(struct upload_parts *upload, size_t size);
/* Sends what is left and makes the object. After a failure the parts are gone, unless the upload
 * may be resumed (there is an `arrived`) or the code is OUTCOME_UNKNOWN. */
lake_status upload_parts_commit(struct upload_parts *upload, struct lake_error *err);
/* Cancels what is in flight. The parts that arrived are removed, unless `keep`. NULL is allowed. */
void upload_parts_free(struct upload_parts *upload, bool keep);

#endif
