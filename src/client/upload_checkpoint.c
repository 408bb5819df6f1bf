/* JSON in a file of its own name, written beside it and renamed over it. */
#define _GNU_SOURCE
#include "upload_checkpoint.h"

#include "files.h"
#include "upload_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define MAX_FILE_BYTES ((size_t)4 * 1024 * 1024)
#define FORMAT         2

void upload_checkpoint_free(struct upload_checkpoint *checkpoint)
{
    if (checkpoint == NULL)
        return;
    if (checkpoint->locked && !checkpoint->loaded)
        (void)unlink(checkpoint->lock_path);
    if (checkpoint->lock >= 0)
        (void)close(checkpoint->lock);
    base_free(checkpoint->lock_path);
    base_free(checkpoint->path);
    base_free(checkpoint->stage_uri);
    base_free(checkpoint->source);
    base_free(checkpoint->key);
    base_free(checkpoint->upload_id);
    base_free(checkpoint->parts);
    base_free(checkpoint);
}

static lake_status fail_malformed(const struct upload_checkpoint *checkpoint,
                                  struct lake_error *err)
{
    return lake_fail(err, LAKE_DATA_LOSS,
                     "the upload checkpoint %s is damaged or none of ours: cancel that upload",
                     checkpoint->path == NULL ? "" : checkpoint->path);
}

/* ---- reading ---- */

static int64_t number_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
}

static bool copy_text(const json_t *object, const char *name, size_t max_bytes, char **out)
{
    const json_t *value = json_object_get(object, name);
    size_t size = json_string_length(value);
    if (!json_is_string(value) || size == 0 || size > max_bytes)
        return false;
    base_free(*out);
    *out = base_strndup(json_string_value(value), size);
    return *out != NULL;
}

static bool take_text(const json_t *value, char *out, size_t capacity, bool may_be_empty)
{
    size_t size = json_string_length(value);
    if (!json_is_string(value) || size >= capacity || (size == 0 && !may_be_empty))
        return false;
    memcpy(out, json_string_value(value), size + 1);
    return true;
}

static bool parse_parts(struct upload_checkpoint *checkpoint, const json_t *list)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > STORAGE_MULTIPART_MAX_PARTS)
        return false;
    checkpoint->parts = base_calloc_array(BASE_MAX(count, 1), sizeof(*checkpoint->parts));
    if (checkpoint->parts == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct storage_part *part = &checkpoint->parts[i];
        const json_t *entry = json_array_get(list, i);
        part->number = (uint32_t)i + 1;
        part->size_bytes = checkpoint->part_bytes;
        if (json_array_size(entry) != 2 ||
            !take_text(json_array_get(entry, 0), part->etag, sizeof(part->etag), false) ||
            !take_text(json_array_get(entry, 1), part->checksum, sizeof(part->checksum), false))
            return false;
    }
    checkpoint->part_count = count;
    return true;
}

/* V1 had parts of 5 MiB, ours are of 64 MiB; nothing else was ever written. */
static bool size_is_known(int64_t format, int64_t part_bytes)
{
    return (format == 1 && part_bytes == (int64_t)UPLOAD_CHECKPOINT_V1_PART_BYTES) ||
           (format == FORMAT && part_bytes == (int64_t)UPLOAD_PART_BYTES);
}

lake_status upload_checkpoint_parse(struct upload_checkpoint *checkpoint, struct lake_bytes text,
                                    struct lake_error *err)
{
    json_t *root = NULL;
    struct lake_error cause = {.code = LAKE_OK};
    lake_status status = base_json_parse(text, MAX_FILE_BYTES, &root, &cause);
    int64_t format = number_of(root, "format");
    int64_t part_bytes = number_of(root, "part_bytes");
    if (status == LAKE_RESOURCE_EXHAUSTED) {
        status = base_fail_no_memory(err, text.size);
    } else if (status != LAKE_OK || !json_is_object(root)) {
        status = fail_malformed(checkpoint, err);
    } else if (!copy_text(root, "stage", 4096, &checkpoint->stage_uri) ||
               !copy_text(root, "source", PATH_MAX, &checkpoint->source) ||
               !copy_text(root, "key", STORAGE_MAX_KEY_BYTES, &checkpoint->key) ||
               !copy_text(root, "upload_id", STORAGE_UPLOAD_ID_BYTES - 1, &checkpoint->upload_id) ||
               !storage_key_valid(base_str_of(checkpoint->key))) {
        base_free(checkpoint->upload_id); /* it names no upload */
        checkpoint->upload_id = NULL;
        status = fail_malformed(checkpoint, err);
    } else if (!size_is_known(format, part_bytes)) {
        status =
            lake_fail(err, LAKE_UNIMPLEMENTED,
                      "the upload checkpoint %s is of format %" PRId64 " with parts of %" PRId64
                      " bytes, which this library does not know: cancel that upload",
                      checkpoint->path == NULL ? "" : checkpoint->path, format, part_bytes);
    } else {
        checkpoint->part_bytes = (size_t)part_bytes;
        checkpoint->info.st_size = (off_t)number_of(root, "source_size");
        checkpoint->info.st_mtim.tv_sec = (time_t)number_of(root, "source_mtime_s");
        checkpoint->info.st_mtim.tv_nsec = (long)number_of(root, "source_mtime_ns");
        checkpoint->info.st_ino = (ino_t)number_of(root, "source_inode");
        status = parse_parts(checkpoint, json_object_get(root, "parts"))
                     ? LAKE_OK
                     : fail_malformed(checkpoint, err);
    }
    json_decref(root);
    return status;
}

static lake_status read_file(struct upload_checkpoint *checkpoint, struct base_buffer *text,
                             bool *found, struct lake_error *err)
{
    int fd = open(checkpoint->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    *found = fd >= 0;
    if (fd < 0)
        return errno == ENOENT
                   ? LAKE_OK
                   : base_fail_errno(err, errno, "%s cannot be opened", checkpoint->path);
    lake_status status = LAKE_OK;
    for (ssize_t got = 1; status == LAKE_OK && got != 0;) {
        uint8_t block[16384];
        got = read(fd, block, sizeof(block));
        if (got < 0 && errno != EINTR)
            status = base_fail_errno(err, errno, "%s cannot be read", checkpoint->path);
        else if (got > 0 && text->size + (size_t)got > MAX_FILE_BYTES)
            status = fail_malformed(checkpoint, err);
        else if (got > 0)
            status = base_buffer_append(text, block, (size_t)got, err);
    }
    (void)close(fd);
    return status;
}

static lake_status check_same(const struct upload_checkpoint *now,
                              const struct upload_checkpoint *recorded, struct lake_error *err)
{
    const struct stat *a = &now->info;
    const struct stat *b = &recorded->info;
    if (strcmp(now->stage_uri, recorded->stage_uri) != 0 ||
        strcmp(now->source, recorded->source) != 0)
        return fail_malformed(now, err); /* its name is made of these */
    if (a->st_size != b->st_size || a->st_ino != b->st_ino ||
        a->st_mtim.tv_sec != b->st_mtim.tv_sec || a->st_mtim.tv_nsec != b->st_mtim.tv_nsec)
        return lake_fail(err, LAKE_ABORTED,
                         "%s is not what it was when its upload began: cancel that upload, then "
                         "send the file anew",
                         now->source);
    return LAKE_OK;
}

static lake_status load(struct upload_checkpoint *checkpoint, struct lake_error *err)
{
    struct upload_checkpoint recorded = {.path = checkpoint->path, .lock = -1};
    struct base_buffer text;
    bool found = false;
    base_buffer_init(&text, MAX_FILE_BYTES);
    lake_status status = read_file(checkpoint, &text, &found, err);
    if (status == LAKE_OK && found)
        status = upload_checkpoint_parse(&recorded, base_buffer_view(&text), err);
    if (status == LAKE_OK && found)
        status = check_same(checkpoint, &recorded, err);
    checkpoint->loaded = found;
    /* Also of one that must not be resumed: it can be cancelled. */
    checkpoint->key = recorded.key;
    checkpoint->upload_id = recorded.upload_id;
    checkpoint->parts = recorded.parts;
    checkpoint->part_count = recorded.part_count;
    checkpoint->part_bytes = recorded.part_bytes;
    base_free(recorded.stage_uri);
    base_free(recorded.source);
    base_buffer_fini(&text);
    return status;
}

/* ---- opening ---- */

static lake_status name_file(struct upload_checkpoint *checkpoint, const char *directory,
                             const char *source, struct lake_error *err)
{
    uint8_t digest[BASE_SHA256_BYTES];
    char hex[BASE_SHA256_HEX_BYTES];
    char *text = base_format("%s\n%s", checkpoint->stage_uri, source);
    if (text == NULL)
        return base_fail_no_memory(err, 0);
    lake_status status = base_sha256_once(base_bytes_of_str(base_str_of(text)), digest, err);
    base_free(text);
    if (status != LAKE_OK)
        return status;
    base_hex_encode((struct lake_bytes){digest, 16}, hex);
    checkpoint->path = base_format("%s/%s.upload", directory, hex);
    return checkpoint->path == NULL ? base_fail_no_memory(err, 0) : LAKE_OK;
}

/* The lock's file goes with the checkpoint: one that was locked counts while it has its name. */
static lake_status lock_file(struct upload_checkpoint *checkpoint, struct lake_error *err)
{
    checkpoint->lock_path = base_format("%s.lock", checkpoint->path);
    const char *path = checkpoint->lock_path;
    if (path == NULL)
        return base_fail_no_memory(err, 0);
    do {
        if (checkpoint->lock >= 0)
            (void)close(checkpoint->lock);
        checkpoint->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (checkpoint->lock < 0)
            return base_fail_errno(err, errno, "%s cannot be opened", path);
        if (flock(checkpoint->lock, LOCK_EX | LOCK_NB) != 0)
            return errno == EWOULDBLOCK
                       ? lake_fail(err, LAKE_FAILED_PRECONDITION,
                                   "%s is being uploaded by another process, or another thread",
                                   checkpoint->source)
                       : base_fail_errno(err, errno, "%s cannot be locked", path);
    } while (!client_file_is_named(checkpoint->lock, path));
    checkpoint->locked = true;
    return LAKE_OK;
}

/* Where `source` is, or was: a file that has gone is named by its directory. */
static lake_status resolve(const char *source, char out[PATH_MAX], struct lake_error *err)
{
    if (realpath(source, out) != NULL)
        return LAKE_OK;
    const char *slash = strrchr(source, '/');
    const char *name = slash == NULL ? source : slash + 1;
    char *directory = client_directory_of(source);
    if (directory == NULL)
        return base_fail_no_memory(err, strlen(source));
    bool found = errno == ENOENT && realpath(directory, out) != NULL;
    size_t size = found ? strlen(out) : 0;
    found = found && size + strlen(name) + 2 <= PATH_MAX;
    if (found)
        snprintf(out + size, PATH_MAX - size, "%s%s", size == 1 ? "" : "/", name);
    base_free(directory);
    return found ? LAKE_OK : base_fail_errno(err, errno, "cannot find out where %s is", source);
}

/* A path as JSON can hold it; of one that is not UTF-8 what JSON cannot is left out. The file's
 * name is made of the path itself. */
static char *readable(const char *path)
{
    char *text = base_strdup(path);
    for (char *p = text; text != NULL && !base_utf8_valid(base_str_of(path)) && *p != '\0'; p++)
        *p = (unsigned char)*p < 0x80 ? *p : '?';
    return text;
}

lake_status upload_checkpoint_open(const char *directory, const char *stage_uri, const char *source,
                                   const struct stat *info, struct upload_checkpoint **out,
                                   struct lake_error *err)
{
    char resolved[PATH_MAX];
    lake_status status = base_make_directories(directory, err);
    if (status != LAKE_OK)
        return status;
    status = resolve(source, resolved, err);
    if (status != LAKE_OK)
        return status;
    struct upload_checkpoint *checkpoint = base_calloc_array(1, sizeof(*checkpoint));
    if (checkpoint == NULL)
        return base_fail_no_memory(err, sizeof(*checkpoint));
    checkpoint->lock = -1;
    checkpoint->info = *info;
    checkpoint->stage_uri = base_strdup(stage_uri);
    checkpoint->source = readable(resolved);
    if (checkpoint->stage_uri == NULL || checkpoint->source == NULL)
        status = base_fail_no_memory(err, 0);
    if (status == LAKE_OK)
        status = name_file(checkpoint, directory, resolved, err);
    if (status == LAKE_OK)
        status = lock_file(checkpoint, err);
    if (status == LAKE_OK)
        status = load(checkpoint, err);
    /* Handed out with the error, so that it can be cancelled. */
    if (status != LAKE_OK && !upload_checkpoint_is_there(checkpoint, status)) {
        upload_checkpoint_free(checkpoint);
        return status;
    }
    *out = checkpoint;
    return status;
}

bool upload_checkpoint_is_there(const struct upload_checkpoint *checkpoint, lake_status status)
{
    return checkpoint != NULL && checkpoint->loaded &&
           (status == LAKE_OK || status == LAKE_ABORTED || status == LAKE_DATA_LOSS ||
            status == LAKE_UNIMPLEMENTED);
}

/* ---- writing ---- */

static lake_status append_text(struct base_buffer *out, const char *name, const char *value,
                               struct lake_error *err)
{
    lake_status status = base_buffer_printf(out, err, ",\n \"%s\": ", name);
    return status != LAKE_OK ? status : base_json_append_string(out, base_str_of(value), err);
}

static lake_status encode(const struct upload_checkpoint *checkpoint, const char *key,
                          size_t part_bytes, const char *upload_id,
                          const struct storage_part *parts, size_t count, struct base_buffer *out,
                          struct lake_error *err)
{
    const struct stat *info = &checkpoint->info;
    lake_status status = base_buffer_printf(
        out, err,
        "{\"format\": %d,\n \"part_bytes\": %zu,\n \"source_size\": %" PRId64
        ",\n \"source_mtime_s\": %" PRId64 ",\n \"source_mtime_ns\": %ld,\n \"source_inode\": "
        "%" PRIu64,
        part_bytes == UPLOAD_CHECKPOINT_V1_PART_BYTES ? 1 : FORMAT, part_bytes,
        (int64_t)info->st_size, (int64_t)info->st_mtim.tv_sec, info->st_mtim.tv_nsec,
        (uint64_t)info->st_ino);
    if (status == LAKE_OK)
        status = append_text(out, "stage", checkpoint->stage_uri, err);
    if (status == LAKE_OK)
        status = append_text(out, "source", checkpoint->source, err);
    if (status == LAKE_OK)
        status = append_text(out, "key", key, err);
    if (status == LAKE_OK)
        status = append_text(out, "upload_id", upload_id, err);
    if (status == LAKE_OK)
        status = base_buffer_printf(out, err, ",\n \"parts\": [");
    for (size_t i = 0; status == LAKE_OK && i < count; i++) {
        status = base_buffer_printf(out, err, "%s\n  [", i == 0 ? "" : ",");
        if (status == LAKE_OK)
            status = base_json_append_string(out, base_str_of(parts[i].etag), err);
        if (status == LAKE_OK)
            status = base_buffer_printf(out, err, ", \"%s\"]", parts[i].checksum);
    }
    return status != LAKE_OK ? status : base_buffer_printf(out, err, "]}\n");
}

static lake_status replace_file(const char *path, struct lake_bytes text, struct lake_error *err)
{
    char *side = base_format("%s.new", path);
    if (side == NULL)
        return base_fail_no_memory(err, 0);
    lake_status status = LAKE_OK;
    int fd = open(side, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        status = base_fail_errno(err, errno, "%s cannot be made", side);
    for (size_t done = 0; status == LAKE_OK && done < text.size;) {
        ssize_t wrote = write(fd, text.data + done, text.size - done);
        if (wrote < 0 && errno != EINTR)
            status = base_fail_errno(err, errno, "%s cannot be written", side);
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    if (status == LAKE_OK && fsync(fd) != 0)
        status = base_fail_errno(err, errno, "%s cannot be synced", side);
    if (fd >= 0)
        (void)close(fd);
    if (status == LAKE_OK && rename(side, path) != 0)
        status = base_fail_errno(err, errno, "%s cannot be renamed", side);
    if (status != LAKE_OK && fd >= 0)
        (void)unlink(side);
    base_free(side);
    return status != LAKE_OK ? status : client_sync_directory_of(path, err);
}

lake_status upload_checkpoint_save(struct upload_checkpoint *checkpoint, const char *key,
                                   size_t part_bytes, const char *upload_id,
                                   const struct storage_part *parts, size_t count,
                                   struct lake_error *err)
{
    struct base_buffer text;
    base_buffer_init(&text, MAX_FILE_BYTES);
    lake_status status = BASE_FAULT("client.upload.checkpoint", err);
    if (status == LAKE_OK)
        status = encode(checkpoint, key, part_bytes, upload_id, parts, count, &text, err);
    if (status == LAKE_OK)
        status = replace_file(checkpoint->path, base_buffer_view(&text), err);
    base_buffer_fini(&text);
    checkpoint->loaded = checkpoint->loaded || status == LAKE_OK;
    return status;
}

lake_status upload_checkpoint_remove(struct upload_checkpoint *checkpoint, struct lake_error *err)
{
    if (unlink(checkpoint->path) != 0 && errno != ENOENT)
        return base_fail_errno(err, errno, "%s cannot be removed", checkpoint->path);
    checkpoint->loaded = false;
    return client_sync_directory_of(checkpoint->path, err);
}
