/*
 * Objects into the stage (OBJ-1): copied in blocks, hashed on the way, durable and visible only
 * when complete. The name in the stage says nothing about the content: two digits to spread
 * directories, then a UUIDv7.
 */
#include "client_internal.h"
#include "upload_parts.h"
#include "upload_resume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES        ((size_t)1024 * 1024)
#define MAX_MEDIA_TYPE     255
#define DEFAULT_MEDIA_TYPE "application/octet-stream"
#define KEY_BYTES          39 /* "xx/" and a UUID */

void lake_data_location_fini(struct lake_data_location *location)
{
    base_free(location->uri);
    base_free(location->media_type);
    *location = (struct lake_data_location){0};
}

lake_status client_location_copy(struct lake_str uri, struct lake_str media_type,
                                 int64_t size_bytes, struct lake_str sha256_hex,
                                 struct lake_data_location *out, struct lake_error *err)
{
    struct lake_data_location location = {.size_bytes = size_bytes};
    location.uri = base_strndup(uri.data, uri.size);
    location.media_type = base_strndup(media_type.data, media_type.size);
    if (location.uri == NULL || location.media_type == NULL) {
        lake_data_location_fini(&location);
        return base_fail_no_memory(err, uri.size);
    }
    memcpy(location.sha256_hex, sha256_hex.data,
           BASE_MIN(sha256_hex.size, sizeof(location.sha256_hex) - 1));
    *out = location;
    return LAKE_OK;
}

/* It travels in a header of HTTP: nothing but what one line of it may hold. */
static bool is_header_text(const char *text)
{
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i++) {
        if (text[i] < ' ' || text[i] > '~')
            return false;
    }
    return size > 0 && size <= MAX_MEDIA_TYPE && text[0] != ' ' && text[size - 1] != ' ';
}

lake_status client_media_type_check(const char *media_type, struct lake_error *err)
{
    if (media_type == NULL)
        return LAKE_OK;
    const char *slash = strchr(media_type, '/');
    if (slash == NULL || slash == media_type || slash[1] == '\0' || !is_header_text(media_type))
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "'%s' is not a media type: write type/subtype, such as video/mp4",
                         media_type);
    return LAKE_OK;
}

uint64_t client_location_bytes(const lake_client *client, const char *media_type)
{
    return base_str_of(client->stage_uri).size + 1 + KEY_BYTES +
           strlen(media_type == NULL ? DEFAULT_MEDIA_TYPE : media_type) + sizeof(int64_t) +
           2 * (uint64_t)BASE_SHA256_BYTES;
}

/* ---- the copy ---- */

struct copy {
    struct storage_writer *writer; /* or */
    struct upload_parts *parts;
    struct chunk_builder *chunks;
    struct storage_store *stage; /* borrowed */
    uint8_t *block;              /* of the writer */
    int64_t done_bytes;
};

static lake_status copy_block(struct copy *copy, struct lake_source source, size_t *got,
                              struct lake_error *err)
{
    uint8_t *room = copy->block;
    size_t size = BLOCK_BYTES;
    lake_status status = LAKE_OK;
    if (copy->parts != NULL)
        status = upload_parts_room(copy->parts, &room, &size, err);
    if (status != LAKE_OK)
        return status;
    int failed = source.read(source.context, room, size, got);
    if (failed != 0)
        return base_fail_errno(err, failed,
                               "the source of an upload could not be read after "
                               "%lld bytes",
                               (long long)copy->done_bytes);
    if (*got > size)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the source of an upload returned more bytes than it was asked for");
    if (*got == 0)
        return LAKE_OK;
    status = chunk_builder_update(copy->chunks, (struct lake_bytes){room, *got}, err);
    if (status == LAKE_OK && copy->parts != NULL)
        upload_parts_filled(copy->parts, *got);
    else if (status == LAKE_OK)
        status = storage_writer_write(copy->writer, (struct lake_bytes){room, *got}, err);
    copy->done_bytes += (int64_t)*got;
    return status;
}

static lake_status copy_source(struct copy *copy, struct lake_source source, lake_progress progress,
                               void *progress_context, int64_t total_bytes, struct lake_error *err)
{
    for (;;) {
        size_t got = 0;
        lake_status status = copy_block(copy, source, &got, err);
        if (status != LAKE_OK || got == 0)
            return status;
        if (progress != NULL && !progress(progress_context, copy->done_bytes, total_bytes))
            return lake_fail(err, LAKE_CANCELLED, "the upload was cancelled after %lld bytes",
                             (long long)copy->done_bytes);
    }
}

static lake_status new_key(char out[KEY_BYTES + 1], struct lake_error *err)
{
    struct base_uuid uuid;
    lake_status status = base_uuid7_new(&uuid, err);
    if (status != LAKE_OK)
        return status;
    char text[BASE_UUID_TEXT_BYTES];
    base_uuid_format(&uuid, text);
    /* The last two digits are random, the first ones time. */
    snprintf(out, KEY_BYTES + 1, "%.2s/%s", text + BASE_UUID_TEXT_BYTES - 3, text);
    return LAKE_OK;
}

/* The record of the object's chunks is there before the object is, so whoever sees the object can
 * verify its parts. */
static lake_status commit(struct copy *copy, const char *key, struct lake_bytes record,
                          const struct upload_resume *resume, struct lake_error *err)
{
    char *record_key = NULL;
    if (resume->complete)
        return upload_resume_compare(resume, copy->stage, record, err);
    lake_status status = chunk_record_key(base_str_of(key), &record_key, err);
    if (status != LAKE_OK)
        return status;
    if (record.size > 0)
        status = storage_put(copy->stage, base_str_of(record_key), record, err);
    bool stored = status == LAKE_OK;
    if (stored && copy->parts != NULL) {
        status = upload_parts_commit(copy->parts, err);
    } else if (stored) {
        status = storage_writer_commit(copy->writer, err);
        copy->writer = NULL;
    }
    /* Left for the object that may be there, or the process that goes on. */
    bool kept = stored && (status == LAKE_OUTCOME_UNKNOWN || upload_resume_possible(resume));
    if (status != LAKE_OK && !kept && record.size > 0)
        (void)storage_remove(copy->stage, base_str_of(record_key), NULL);
    base_free(record_key);
    return status;
}

static lake_status finish(lake_client *client, struct copy *copy, const char *key,
                          const char *media_type, const struct upload_resume *resume,
                          struct lake_data_location *out, struct lake_error *err)
{
    uint8_t digest[BASE_SHA256_BYTES];
    char hex[BASE_SHA256_HEX_BYTES];
    struct lake_data_location location = {0};
    struct base_buffer record;
    base_buffer_init(&record, CHUNK_MAX_RECORD_BYTES);
    char *uri = base_format("%s/%s", client->stage_uri, key);
    lake_status status = uri == NULL ? base_fail_no_memory(err, strlen(key)) : LAKE_OK;
    if (status == LAKE_OK)
        status = chunk_builder_finish(copy->chunks, digest, &record, err);
    if (status != LAKE_OK)
        goto out;
    base_hex_encode((struct lake_bytes){digest, sizeof(digest)}, hex);
    status = client_location_copy(base_str_of(uri),
                                  base_str_of(media_type == NULL ? DEFAULT_MEDIA_TYPE : media_type),
                                  copy->done_bytes, base_str_of(hex), &location, err);
    if (status == LAKE_OK)
        status = commit(copy, key, base_buffer_view(&record), resume, err);
    if (status != LAKE_OK)
        lake_data_location_fini(&location);
    else
        *out = location;
out:
    base_buffer_fini(&record);
    base_free(uri);
    return status;
}

/* ---- a file as a source ---- */

struct file_source {
    const char *path;
    int descriptor;
    struct stat before;
};

static int read_file(void *context, void *buffer, size_t size, size_t *got)
{
    struct file_source *file = context;
    ssize_t count;
    do {
        count = read(file->descriptor, buffer, size);
    } while (count < 0 && errno == EINTR);
    if (count < 0)
        return errno;
    *got = (size_t)count;
    return 0;
}

/* The bytes hashed must be one state of the file, and the file still there. */
static lake_status file_unchanged(const struct file_source *file, int64_t read_bytes,
                                  struct lake_error *err)
{
    struct stat after;
    if (fstat(file->descriptor, &after) != 0)
        return base_fail_errno(err, errno, "cannot look at %s after reading it", file->path);
    if (after.st_nlink == 0)
        return lake_fail(err, LAKE_ABORTED,
                         "%s was removed while it was uploaded; nothing was stored", file->path);
    if (after.st_size != file->before.st_size || read_bytes != file->before.st_size ||
        after.st_mtim.tv_sec != file->before.st_mtim.tv_sec ||
        after.st_mtim.tv_nsec != file->before.st_mtim.tv_nsec)
        return lake_fail(
            err, LAKE_ABORTED,
            "%s changed while it was uploaded (%lld bytes before, %lld after); nothing "
            "was stored: upload it again when nobody writes to it",
            file->path, (long long)file->before.st_size, (long long)after.st_size);
    return LAKE_OK;
}

/* ---- one upload ---- */

/* What is to be stored, and what watches over it. */
struct upload_request {
    struct lake_source source;
    int64_t total_bytes; /* -1: not known */
    const char *media_type;
    lake_progress progress;
    void *progress_context;
    const struct file_source *file; /* NULL: a reader, which is read once */
};

static lake_status open_target(const lake_client *client, const struct upload_request *request,
                               struct storage_store *stage, const char *key,
                               struct upload_resume *resume, struct copy *copy,
                               struct lake_error *err)
{
    if (!storage_has_multipart(stage)) {
        copy->block = base_alloc(BLOCK_BYTES);
        if (copy->block == NULL)
            return base_fail_no_memory(err, BLOCK_BYTES);
        return storage_writer_open(stage, base_str_of(key), true, &copy->writer, err);
    }
    if (resume->complete) /* nothing to send, but the source's digest to know */
        return LAKE_OK;
    struct upload_parts_options options = {
        .stage = stage,
        .key = key,
        .media_type = request->media_type == NULL ? DEFAULT_MEDIA_TYPE : request->media_type,
        .part_bytes = UPLOAD_PART_BYTES,
        .in_flight = client->upload_parts_in_flight};
    if (resume->checkpoint != NULL)
        upload_resume_options(resume, &options);
    /* O02: refused before anything is sent. */
    int64_t most = (int64_t)options.part_bytes * STORAGE_MULTIPART_MAX_PARTS;
    if (request->total_bytes > most)
        return lake_fail(err, LAKE_OUT_OF_RANGE,
                         "the file has %lld bytes, an object has at most %lld",
                         (long long)request->total_bytes, (long long)most);
    return upload_parts_new(&options, &copy->parts, err);
}

/* The key of the upload that goes on, or a new one, which the checkpoint will name. */
static lake_status choose_key(struct upload_resume *resume, char key[KEY_BYTES + 1],
                              struct lake_error *err)
{
    if (resume->key == NULL) {
        lake_status status = new_key(key, err);
        if (status != LAKE_OK || resume->checkpoint == NULL)
            return status;
        resume->key = base_strdup(key);
        return resume->key == NULL ? base_fail_no_memory(err, KEY_BYTES) : LAKE_OK;
    }
    if (strlen(resume->key) > KEY_BYTES)
        return lake_fail(err, LAKE_DATA_LOSS,
                         "the key of the upload to go on with is none of ours");
    snprintf(key, KEY_BYTES + 1, "%s", resume->key);
    return LAKE_OK;
}

static lake_status prepare(lake_client *client, const struct upload_request *request,
                           struct storage_store **stage, struct upload_resume *resume,
                           struct copy *copy, char key[KEY_BYTES + 1], struct lake_error *err)
{
    lake_status status = client_media_type_check(request->media_type, err);
    if (status == LAKE_OK)
        status = client_stage(client, stage, err);
    if (status == LAKE_OK)
        status = chunk_builder_new(&copy->chunks, err);
    copy->stage = *stage;
    if (status == LAKE_OK && request->file != NULL && client->upload_checkpoint_dir != NULL &&
        storage_has_multipart(*stage))
        status = upload_resume_begin(client, *stage, request->file->path, request->file->descriptor,
                                     &request->file->before, copy->chunks, resume, err);
    if (status == LAKE_OK)
        status = choose_key(resume, key, err);
    if (status == LAKE_OK)
        status = open_target(client, request, *stage, key, resume, copy, err);
    copy->done_bytes = resume->hashed_bytes;
    return status;
}

static lake_status upload(lake_client *client, const struct upload_request *request,
                          struct lake_data_location *out, struct lake_error *err)
{
    struct storage_store *stage = NULL;
    struct copy copy = {0};
    struct upload_resume resume = {.checkpoint = NULL};
    char key[KEY_BYTES + 1];
    lake_status status = prepare(client, request, &stage, &resume, &copy, key, err);
    if (status == LAKE_OK && !resume.complete)
        status = copy_source(&copy, request->source, request->progress, request->progress_context,
                             request->total_bytes, err);
    /* Before the object becomes visible. */
    if (status == LAKE_OK && request->file != NULL)
        status = file_unchanged(request->file, copy.done_bytes, err);
    if (status == LAKE_OK)
        status = finish(client, &copy, key, request->media_type, &resume, out, err);
    if (status == LAKE_OK && resume.checkpoint != NULL) {
        status = upload_resume_end(&resume, stage, key, copy.done_bytes, err);
        if (status != LAKE_OK)
            lake_data_location_fini(out);
    }
    storage_writer_abort(copy.writer);
    upload_parts_free(copy.parts, upload_resume_possible(&resume));
    upload_resume_fini(&resume);
    chunk_builder_free(copy.chunks);
    base_free(copy.block);
    return status;
}

lake_status lake_upload_source(lake_client *client, struct lake_source source,
                               const char *media_type, lake_progress progress,
                               void *progress_context, struct lake_data_location *out,
                               struct lake_error *err)
{
    lake_error_clear(err);
    if (source.read == NULL)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the source of the upload has no read function");
    struct upload_request request = {.source = source,
                                     .total_bytes = -1,
                                     .media_type = media_type,
                                     .progress = progress,
                                     .progress_context = progress_context};
    return upload(client, &request, out, err);
}

lake_status lake_upload_path(lake_client *client, const char *path, const char *media_type,
                             lake_progress progress, void *progress_context,
                             struct lake_data_location *out, struct lake_error *err)
{
    struct file_source file = {.path = path};
    lake_error_clear(err);
    if (path == NULL)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "there is no path");
    /* Without O_NONBLOCK the opening of a pipe waits for its writer. */
    file.descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file.descriptor < 0)
        return base_fail_errno(err, errno, "cannot open %s", path);
    lake_status status = LAKE_OK;
    if (fstat(file.descriptor, &file.before) != 0)
        status = base_fail_errno(err, errno, "cannot look at %s", path);
    else if (!S_ISREG(file.before.st_mode))
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "%s is not a regular file: give its bytes through a reader", path);
    if (status == LAKE_OK) {
        (void)posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
        struct upload_request request = {.source = {read_file, &file},
                                         .total_bytes = file.before.st_size,
                                         .media_type = media_type,
                                         .progress = progress,
                                         .progress_context = progress_context,
                                         .file = &file};
        status = upload(client, &request, out, err);
    }
    close(file.descriptor);
    return status;
}
