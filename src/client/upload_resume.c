/* Reconciling a checkpoint with the stage and with the source. */
#include "upload_resume.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES     ((size_t)1024 * 1024)
#define JOINING_MS      20000
#define JOINING_POLL_MS 250

bool upload_resume_possible(const struct upload_resume *resume)
{
    return resume->checkpoint != NULL && resume->checkpoint->loaded;
}

void upload_resume_fini(struct upload_resume *resume)
{
    upload_checkpoint_free(resume->checkpoint);
    base_free(resume->key);
    *resume = (struct upload_resume){.checkpoint = NULL};
}

/* How many of the checkpoint's parts the stage holds as they were sent, from the first on. What
 * comes behind them is sent again, over what may be there. */
static size_t count_held(const struct upload_checkpoint *checkpoint,
                         const struct storage_part *parts, size_t count)
{
    size_t held = 0;
    while (held < checkpoint->part_count && held < count &&
           parts[held].number == checkpoint->parts[held].number &&
           parts[held].size_bytes == checkpoint->part_bytes &&
           strcmp(parts[held].etag, checkpoint->parts[held].etag) == 0)
        held++;
    return held;
}

static bool has_every_part(const struct upload_checkpoint *checkpoint)
{
    uint64_t size = (uint64_t)checkpoint->info.st_size;
    uint64_t recorded = (uint64_t)checkpoint->part_count * checkpoint->part_bytes;
    return recorded >= size && recorded > 0;
}

/* A service may still be joining the parts for a process that is gone: until it has done so there
 * is neither the upload nor the object. */
static lake_status stat_joined(const struct upload_checkpoint *checkpoint,
                               struct storage_store *stage, struct storage_object_info *out,
                               struct lake_error *err)
{
    struct lake_str key = base_str_of(checkpoint->key);
    int64_t until_us = base_clock_monotonic_us() + JOINING_MS * 1000;
    lake_status status = storage_stat(stage, key, out, err);
    while (status == LAKE_NOT_FOUND && has_every_part(checkpoint) &&
           base_clock_monotonic_us() < until_us) {
        base_sleep_ms(JOINING_POLL_MS);
        status = storage_stat(stage, key, out, err);
    }
    return status;
}

static lake_status reconcile(struct upload_resume *resume, struct storage_store *stage,
                             struct lake_error *err)
{
    const struct upload_checkpoint *checkpoint = resume->checkpoint;
    struct storage_multipart *upload = NULL;
    struct storage_part *parts = NULL;
    struct storage_object_info info;
    size_t count = 0;
    struct lake_str key = base_str_of(checkpoint->key);
    lake_status status =
        storage_multipart_reopen(stage, key, checkpoint->upload_id, true, &upload, err);
    if (status == LAKE_OK)
        status = storage_multipart_parts(upload, &parts, &count, err);
    storage_multipart_free(upload);
    if (status == LAKE_OK) {
        resume->held = count_held(checkpoint, parts, count);
        base_free(parts);
        return LAKE_OK;
    }
    if (status != LAKE_NOT_FOUND)
        return status;
    /* Completed, but its process ended before it forgot the checkpoint; or aborted. */
    status = stat_joined(checkpoint, stage, &info, err);
    if (status == LAKE_OK && info.size_bytes == (uint64_t)checkpoint->info.st_size) {
        resume->complete = true;
        return LAKE_OK;
    }
    if (status != LAKE_OK && status != LAKE_NOT_FOUND)
        return status;
    lake_error_clear(err);
    base_free(resume->key);
    resume->key = NULL;
    return LAKE_OK;
}

static lake_status fail_changed(const struct upload_checkpoint *checkpoint, struct lake_error *err)
{
    return lake_fail(err, LAKE_ABORTED,
                     "%s does not hold the bytes that were sent of it: cancel that upload, then "
                     "send the file anew",
                     checkpoint->source);
}

/* Up to `size` bytes of the file into the digests; the parts' checksums are compared on the way. */
static lake_status hash_prefix(struct upload_resume *resume, int fd, int64_t size,
                               struct chunk_builder *chunks, struct lake_error *err)
{
    const struct upload_checkpoint *checkpoint = resume->checkpoint;
    uint8_t *block = base_alloc(BLOCK_BYTES);
    uint32_t crc = 0;
    size_t part = 0;
    size_t in_part = 0;
    lake_status status = block == NULL ? base_fail_no_memory(err, BLOCK_BYTES) : LAKE_OK;
    while (status == LAKE_OK && resume->hashed_bytes < size) {
        size_t want = (size_t)BASE_MIN(size - resume->hashed_bytes, (int64_t)BLOCK_BYTES);
        want = BASE_MIN(want, checkpoint->part_bytes - in_part);
        ssize_t got = read(fd, block, want);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            status = base_fail_errno(err, errno, "%s cannot be read", checkpoint->source);
        else if (got == 0)
            status = fail_changed(checkpoint, err);
        if (status != LAKE_OK)
            break;
        struct lake_bytes data = {block, (size_t)got};
        status = chunk_builder_update(chunks, data, err);
        crc = storage_crc32c(crc, data);
        resume->hashed_bytes += got;
        in_part += (size_t)got;
        if (in_part < checkpoint->part_bytes && resume->hashed_bytes < size)
            continue;
        char text[16];
        storage_crc32c_text(crc, text);
        if (status == LAKE_OK && part < checkpoint->part_count &&
            strcmp(text, checkpoint->parts[part].checksum) != 0)
            status = fail_changed(checkpoint, err);
        part++;
        crc = 0;
        in_part = 0;
    }
    base_free(block);
    return status;
}

lake_status upload_resume_compare(const struct upload_resume *resume, struct storage_store *stage,
                                  struct lake_bytes record, struct lake_error *err)
{
    const struct upload_checkpoint *checkpoint = resume->checkpoint;
    struct base_buffer stored;
    char *key = NULL;
    base_buffer_init(&stored, CHUNK_MAX_RECORD_BYTES);
    lake_status status = chunk_record_key(base_str_of(checkpoint->key), &key, err);
    if (status == LAKE_OK)
        status = storage_read_all(stage, base_str_of(key), &stored, err);
    bool same = status == LAKE_OK && stored.size == record.size &&
                memcmp(stored.data, record.data, record.size) == 0;
    /* Without a record the checksums of the parts have been compared, as far as they are known. */
    if (status == LAKE_NOT_FOUND || status == LAKE_PERMISSION_DENIED) {
        lake_error_clear(err);
        status = LAKE_OK;
        same = has_every_part(checkpoint);
    }
    if (status == LAKE_OK && !same)
        status = fail_changed(checkpoint, err);
    base_buffer_fini(&stored);
    base_free(key);
    return status;
}

lake_status upload_resume_begin(lake_client *client, struct storage_store *stage, const char *path,
                                int fd, const struct stat *info, struct chunk_builder *chunks,
                                struct upload_resume *out, struct lake_error *err)
{
    lake_status status = upload_checkpoint_open(client->upload_checkpoint_dir, client->stage_uri,
                                                path, info, &out->checkpoint, err);
    if (status != LAKE_OK || !out->checkpoint->loaded)
        return status;
    out->key = base_strdup(out->checkpoint->key);
    if (out->key == NULL)
        return base_fail_no_memory(err, 0);
    status = reconcile(out, stage, err);
    if (status != LAKE_OK || out->key == NULL)
        return status;
    int64_t size =
        out->complete ? (int64_t)info->st_size : (int64_t)(out->held * out->checkpoint->part_bytes);
    return hash_prefix(out, fd, size, chunks, err);
}

/* What upload_parts tells about arrived parts. */
static lake_status save(void *context, const char *upload_id, const struct storage_part *parts,
                        size_t count, struct lake_error *err)
{
    const struct upload_resume *resume = context;
    return upload_checkpoint_save(resume->checkpoint, resume->key, resume->checkpoint->part_bytes,
                                  upload_id, parts, count, err);
}

void upload_resume_options(struct upload_resume *resume, struct upload_parts_options *options)
{
    struct upload_checkpoint *checkpoint = resume->checkpoint;
    if (checkpoint->loaded && strcmp(options->key, checkpoint->key) == 0) {
        options->part_bytes = checkpoint->part_bytes;
        options->resume_id = checkpoint->upload_id;
        options->held = checkpoint->parts;
        options->held_count = resume->held;
    } else {
        checkpoint->part_bytes = options->part_bytes;
    }
    options->arrived = save;
    options->context = resume;
}

lake_status upload_resume_end(struct upload_resume *resume, struct storage_store *stage,
                              const char *key, int64_t size_bytes, struct lake_error *err)
{
    struct storage_object_info info;
    if (!upload_resume_possible(resume))
        return LAKE_OK; /* it fitted one part: there never was a checkpoint */
    lake_status status = storage_stat(stage, base_str_of(key), &info, err);
    if (status == LAKE_OK && info.size_bytes != (uint64_t)size_bytes)
        status = lake_fail(err, LAKE_DATA_LOSS, "the object %s has %llu bytes, %lld were sent", key,
                           (unsigned long long)info.size_bytes, (long long)size_bytes);
    return status != LAKE_OK ? status : upload_checkpoint_remove(resume->checkpoint, err);
}

/* Of an upload that had come as far as that. An object that is there keeps its record. */
static lake_status remove_record(struct storage_store *stage, const char *key,
                                 struct lake_error *err)
{
    struct storage_object_info info;
    char *record_key = NULL;
    lake_status status = storage_stat(stage, base_str_of(key), &info, err);
    if (status != LAKE_NOT_FOUND)
        return status;
    lake_error_clear(err);
    status = chunk_record_key(base_str_of(key), &record_key, err);
    if (status == LAKE_OK)
        status = storage_remove(stage, base_str_of(record_key), err);
    base_free(record_key);
    return status;
}

static lake_status abort_upload(struct storage_store *stage,
                                const struct upload_checkpoint *checkpoint, struct lake_error *err)
{
    struct storage_multipart *upload = NULL;
    if (checkpoint->key == NULL || checkpoint->upload_id == NULL)
        return LAKE_OK;
    lake_status status = storage_multipart_reopen(stage, base_str_of(checkpoint->key),
                                                  checkpoint->upload_id, true, &upload, err);
    if (status == LAKE_OK)
        status = storage_multipart_abort(upload, err);
    if (status == LAKE_OK)
        status = remove_record(stage, checkpoint->key, err);
    storage_multipart_free(upload);
    return status;
}

static lake_status cancel(struct storage_store *stage, struct upload_checkpoint *checkpoint,
                          struct lake_error *err)
{
    lake_status status = abort_upload(stage, checkpoint, err);
    bool nameless = checkpoint->upload_id == NULL;
    if (status == LAKE_OK)
        status = upload_checkpoint_remove(checkpoint, err);
    if (status == LAKE_OK && nameless)
        status = lake_fail(err, LAKE_DATA_LOSS,
                           "the checkpoint of %s was damaged and is removed, so the file can be "
                           "sent anew; what arrived before stays in the stage until incomplete "
                           "uploads are removed there",
                           checkpoint->source);
    return status;
}

lake_status lake_cancel_upload(lake_client *client, const char *path, struct lake_error *err)
{
    struct storage_store *stage;
    struct stat info = {.st_size = -1}; /* of no file */
    struct upload_checkpoint *checkpoint = NULL;
    lake_error_clear(err);
    if (path == NULL || client->upload_checkpoint_dir == NULL)
        return lake_fail(
            err, LAKE_INVALID_ARGUMENT,
            "there are no uploads to cancel without a path and a checkpoint directory");
    if (stat(path, &info) != 0 && errno != ENOENT)
        return base_fail_errno(err, errno, "cannot look at %s", path);
    lake_status status = client_stage(client, &stage, err);
    if (status == LAKE_OK)
        status = upload_checkpoint_open(client->upload_checkpoint_dir, client->stage_uri, path,
                                        &info, &checkpoint, err);
    if (upload_checkpoint_is_there(checkpoint, status)) {
        lake_error_clear(err); /* what is wrong with it is why it is cancelled */
        status = cancel(stage, checkpoint, err);
    } else if (status == LAKE_OK) {
        status = lake_fail(err, LAKE_NOT_FOUND, "no upload of %s is left unfinished", path);
    }
    upload_checkpoint_free(checkpoint);
    return status;
}
