/* Files of pending appends: "<operation ID>.append", and ".append.new" while they are written. */
#define _GNU_SOURCE
#include "pending_file.h"

#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX        ".append"
#define SIDE_SUFFIX   ".append.new"
#define LOCK_ATTEMPTS 200 /* of 1 ms: whoever tidies up holds a lock no longer */

struct pending_file {
    char *path;
    char *side;     /* where it is written; NULL: it has its name */
    FILE *stream;   /* holds the lock */
    uint8_t *bytes; /* of one that was read */
    struct base_sha256 *hash;
    uint8_t digest[BASE_SHA256_BYTES];
    bool was_there;
};

void pending_file_free(struct pending_file *file)
{
    if (file == NULL)
        return;
    if (file->side != NULL && file->stream != NULL)
        (void)unlink(file->side);
    if (file->stream != NULL)
        (void)fclose(file->stream);
    base_sha256_free(file->hash);
    base_free(file->bytes);
    base_free(file->side);
    base_free(file->path);
    base_free(file);
}

static lake_status new_file(const char *directory, struct lake_str operation_id,
                            struct pending_file **out, struct lake_error *err)
{
    struct pending_file *file = base_calloc_array(1, sizeof(*file));
    if (file == NULL)
        return base_fail_no_memory(err, sizeof(*file));
    file->path = base_format("%s/%.*s" SUFFIX, directory, LAKE_STR_FMT(operation_id));
    if (file->path == NULL) {
        base_free(file);
        return base_fail_no_memory(err, 0);
    }
    *out = file;
    return LAKE_OK;
}

/* ---- locking ---- */

/* Opens and locks. NOT_FOUND when it is not there, or has gone before it could be locked. */
static lake_status lock_path(const char *path, int flags, FILE **out, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0600);
    if (fd < 0)
        return errno == ENOENT ? lake_fail(err, LAKE_NOT_FOUND, "there is no such pending append")
                               : base_fail_errno(err, errno, "%s cannot be opened", path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        status = errno == EWOULDBLOCK
                     ? lake_fail(err, LAKE_FAILED_PRECONDITION,
                                 "this append is being sent by another process, or another thread")
                     : base_fail_errno(err, errno, "%s cannot be locked", path);
    else if (!client_file_is_named(fd, path))
        status = lake_fail(err, LAKE_NOT_FOUND, "there is no such pending append any more");
    FILE *stream = status == LAKE_OK ? fdopen(fd, "r+") : NULL;
    if (status == LAKE_OK && stream == NULL)
        status = base_fail_errno(err, errno, "%s cannot be opened", path);
    if (stream == NULL)
        (void)close(fd);
    else
        *out = stream;
    return status;
}

/* Who tidies up may have the new file for a moment, and take it away. */
static lake_status lock_side(struct pending_file *file, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (int i = 0; i < LOCK_ATTEMPTS; i++) {
        status = lock_path(file->side, O_CREAT, &file->stream, err);
        if (status != LAKE_FAILED_PRECONDITION && status != LAKE_NOT_FOUND)
            break;
        base_sleep_ms(1);
    }
    if (status == LAKE_OK && ftruncate(fileno(file->stream), 0) != 0)
        status = base_fail_errno(err, errno, "%s cannot be emptied", file->side);
    if (status == LAKE_OK)
        lake_error_clear(err); /* of the attempts before */
    return status;
}

/* ---- writing ---- */

static lake_status put(struct pending_file *file, const void *data, size_t size,
                       struct lake_error *err)
{
    lake_status status = base_sha256_update(file->hash, data, size, err);
    if (status == LAKE_OK && size > 0 && fwrite(data, 1, size, file->stream) != size)
        status = base_fail_errno(err, errno, "%s cannot be written", file->side);
    return status;
}

static lake_status put_u32(struct pending_file *file, uint32_t number, struct lake_error *err)
{
    uint8_t bytes[4];
    base_store_u32le(bytes, number);
    return put(file, bytes, sizeof(bytes), err);
}

static lake_status put_header(struct pending_file *file, const struct pending_record *record,
                              struct lake_error *err)
{
    const struct lake_str texts[] = {record->lake, record->operation_id, record->namespace_name,
                                     record->table};
    lake_status status = put(file, "LAKEAPND", 8, err);
    if (status == LAKE_OK)
        status = put_u32(file, 1, err);
    for (size_t i = 0; i < BASE_ARRAY_LEN(texts) && status == LAKE_OK; i++) {
        if (texts[i].size == 0 || texts[i].size > PENDING_MAX_TEXT_BYTES)
            status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                               "a name of %zu bytes cannot be kept with a pending append",
                               texts[i].size);
        if (status == LAKE_OK)
            status = put_u32(file, (uint32_t)texts[i].size, err);
        if (status == LAKE_OK)
            status = put(file, texts[i].data, texts[i].size, err);
    }
    return status;
}

lake_status pending_file_create(const char *directory, const struct pending_record *record,
                                struct pending_file **out, struct lake_error *err)
{
    struct pending_file *file = NULL;
    lake_status status = base_make_directories(directory, err);
    if (status == LAKE_OK)
        status = new_file(directory, record->operation_id, &file, err);
    if (status == LAKE_OK) {
        file->side = base_format("%s.new", file->path);
        status =
            file->side == NULL ? base_fail_no_memory(err, 0) : base_sha256_new(&file->hash, err);
    }
    if (status == LAKE_OK)
        status = lock_side(file, err);
    if (status == LAKE_OK)
        status = put_header(file, record, err);
    if (status == LAKE_OK)
        status = BASE_FAULT("client.append.begun", err);
    if (status != LAKE_OK) {
        pending_file_free(file);
        return status;
    }
    *out = file;
    return LAKE_OK;
}

lake_status pending_file_add(struct pending_file *file, const struct rpc_part *parts,
                             size_t part_count, struct lake_error *err)
{
    uint64_t size = 0;
    for (size_t i = 0; i < part_count; i++)
        size += parts[i].size;
    if (size == 0 || size > CLIENT_MAX_APPEND_BYTES)
        return lake_fail(err, LAKE_INTERNAL, "a message of %llu bytes cannot be kept",
                         (unsigned long long)size);
    lake_status status = put_u32(file, (uint32_t)size, err);
    for (size_t i = 0; i < part_count && status == LAKE_OK; i++)
        status = put(file, parts[i].data, parts[i].size, err);
    return status;
}

/* ---- publishing ---- */

/* 0, or -1 and errno; EEXIST when the name is taken. */
static int rename_without_overwriting(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    /* link(2) does not overwrite either, on file systems that do not know the flag. */
    if (link(from, to) != 0)
        return -1;
    (void)unlink(from);
    return 0;
}

/* The name is taken: by the same append, which then goes on with the file that is there. */
static lake_status join(struct pending_file *file, struct lake_error *err)
{
    FILE *stream = NULL;
    uint8_t digest[BASE_SHA256_BYTES] = {0};
    lake_status status = lock_path(file->path, 0, &stream, err);
    if (status == LAKE_NOT_FOUND)
        return lake_fail(err, LAKE_ABORTED, "the same append has just been settled: ask again");
    if (status != LAKE_OK)
        return status;
    bool same = fseek(stream, -(long)BASE_SHA256_BYTES, SEEK_END) == 0 &&
                fread(digest, 1, sizeof(digest), stream) == sizeof(digest) &&
                memcmp(digest, file->digest, sizeof(digest)) == 0;
    if (!same) {
        (void)fclose(stream);
        return lake_fail(err, LAKE_ALREADY_EXISTS,
                         "an append with this operation ID and other rows is pending: resume or "
                         "drop it, or use a new ID");
    }
    (void)unlink(file->side);
    (void)fclose(file->stream);
    file->stream = stream;
    file->was_there = true;
    return LAKE_OK;
}

lake_status pending_file_publish(struct pending_file *file, struct lake_error *err)
{
    lake_status status = base_sha256_final(file->hash, file->digest, err);
    if (status == LAKE_OK &&
        fwrite(file->digest, 1, BASE_SHA256_BYTES, file->stream) != BASE_SHA256_BYTES)
        status = base_fail_errno(err, errno, "%s cannot be written", file->side);
    if (status == LAKE_OK && (fflush(file->stream) != 0 || fsync(fileno(file->stream)) != 0))
        status = base_fail_errno(err, errno, "%s cannot be synced", file->side);
    if (status == LAKE_OK)
        status = BASE_FAULT("client.append.written", err);
    if (status == LAKE_OK && rename_without_overwriting(file->side, file->path) != 0)
        status = errno == EEXIST ? join(file, err)
                                 : base_fail_errno(err, errno, "%s cannot be renamed", file->side);
    if (status != LAKE_OK)
        return status;
    base_free(file->side);
    file->side = NULL;
    status = BASE_FAULT("client.append.renamed", err);
    if (status == LAKE_OK)
        status = client_sync_directory_of(file->path, err);
    if (status != LAKE_OK)
        return lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                              "the append is kept as pending but has not been sent: whether its "
                              "file outlives a crash of this machine is not certain; resume it");
    return LAKE_OK;
}

bool pending_file_was_there(const struct pending_file *file)
{
    return file->was_there;
}

/* ---- reading ---- */

lake_status pending_file_lock(const char *directory, const char *operation_id,
                              struct pending_file **out, struct lake_error *err)
{
    struct pending_file *file = NULL;
    lake_status status = new_file(directory, base_str_of(operation_id), &file, err);
    if (status != LAKE_OK)
        return status;
    status = lock_path(file->path, 0, &file->stream, err);
    if (status != LAKE_OK) {
        pending_file_free(file);
        return status;
    }
    file->was_there = true;
    *out = file;
    return LAKE_OK;
}

static lake_status read_record(struct pending_file *file, struct pending_record *record,
                               struct lake_error *err)
{
    struct stat info;
    if (fstat(fileno(file->stream), &info) != 0)
        return base_fail_errno(err, errno, "%s cannot be looked at", file->path);
    if (!S_ISREG(info.st_mode) || info.st_size <= 0 ||
        (uint64_t)info.st_size > PENDING_MAX_FILE_BYTES)
        return lake_fail(err, LAKE_DATA_LOSS,
                         "the file of the pending append is damaged, or none of ours");
    size_t size = (size_t)info.st_size;
    file->bytes = base_alloc(size);
    if (file->bytes == NULL)
        return base_fail_no_memory(err, size);
    if (fread(file->bytes, 1, size, file->stream) != size)
        return base_fail_errno(err, ferror(file->stream) ? errno : EIO, "%s cannot be read",
                               file->path);
    return pending_record_parse((struct lake_bytes){file->bytes, size}, record, err);
}

lake_status pending_file_open(const char *directory, const char *operation_id,
                              struct pending_file **out, struct pending_record *record,
                              struct lake_error *err)
{
    struct pending_file *file = NULL;
    struct pending_record found;
    lake_status status = pending_file_lock(directory, operation_id, &file, err);
    if (status == LAKE_OK)
        status = read_record(file, &found, err);
    if (status == LAKE_OK && !base_str_equal_c(found.operation_id, operation_id))
        status = lake_fail(err, LAKE_DATA_LOSS,
                           "the file of the pending append holds another one: it was renamed");
    if (status != LAKE_OK) {
        pending_file_free(file);
        return status;
    }
    *out = file;
    *record = found;
    return LAKE_OK;
}

/* A crash may bring the file back: resuming it then finds the version that is there. */
lake_status pending_file_remove(struct pending_file *file, struct lake_error *err)
{
    if (unlink(file->path) != 0 && errno != ENOENT)
        return base_fail_errno(err, errno, "%s cannot be removed", file->path);
    return LAKE_OK;
}

/* ---- listing ---- */

static void remove_left(const char *directory, const char *name)
{
    FILE *stream = NULL;
    char *path = base_format("%s/%s", directory, name);
    if (path != NULL && lock_path(path, 0, &stream, NULL) == LAKE_OK) {
        (void)unlink(path);
        (void)fclose(stream);
    }
    base_free(path);
}

/* Keeps the first `capacity` of all in order; IDs of one length. */
static void insert_id(char (*ids)[LAKE_OPERATION_ID_BYTES], size_t capacity, size_t *count,
                      const char *id)
{
    size_t low = 0;
    size_t high = *count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(ids[middle], id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == capacity)
        return;
    size_t moved = BASE_MIN(*count, capacity - 1) - low;
    memmove(ids[low + 1], ids[low], moved * sizeof(*ids));
    memcpy(ids[low], id, sizeof(*ids));
    *count = BASE_MIN(*count + 1, capacity);
}

lake_status pending_file_list(const char *directory, char (*ids)[LAKE_OPERATION_ID_BYTES],
                              size_t capacity, size_t *count, struct lake_error *err)
{
    size_t found = 0;
    DIR *entries = opendir(directory);
    if (entries == NULL && errno != ENOENT)
        return base_fail_errno(err, errno, "%s cannot be listed", directory);
    errno = 0;
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL; errno = 0) {
        char id[LAKE_OPERATION_ID_BYTES];
        struct base_uuid uuid;
        const char *suffix = entry->d_name + LAKE_OPERATION_ID_BYTES - 1;
        if (strlen(entry->d_name) < LAKE_OPERATION_ID_BYTES)
            continue;
        memcpy(id, entry->d_name, sizeof(id) - 1);
        id[sizeof(id) - 1] = '\0';
        if (!base_uuid_parse(base_str_of(id), &uuid))
            continue;
        if (strcmp(suffix, SIDE_SUFFIX) == 0)
            remove_left(directory, entry->d_name);
        else if (strcmp(suffix, SUFFIX) == 0)
            insert_id(ids, capacity, &found, id);
    }
    lake_status status =
        errno == 0 || entries == NULL
            ? LAKE_OK
            : base_fail_errno(err, errno, "%s cannot be listed to its end", directory);
    if (entries != NULL)
        (void)closedir(entries);
    if (status == LAKE_OK)
        *count = found;
    return status;
}
