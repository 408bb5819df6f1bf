/* Writing: a temporary file, a sync, a rename, a sync of the directory. */
#define _GNU_SOURCE
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define PENDING_BYTES ((size_t)256 * 1024) /* small writes are put together up to here */
#define WRITEBACK_BYTES                                                       \
    ((uint64_t)8 * 1024 * 1024) /* dirty bytes before the disk is set to work \
                                 */

struct writer {
    const struct local_store *store; /* the storage_writer around this one keeps it alive */
    struct local_path path;
    size_t key_bytes;
    int directory_fd;
    int fd;
    bool only_if_absent;
    bool unsynced;
    bool broken; /* a write failed: what is there must not be published */
    char temp_name[sizeof(LOCAL_TEMP_PREFIX) + BASE_UUID_TEXT_BYTES];
    uint8_t *pending; /* PENDING_BYTES, made at the first small write */
    size_t pending_bytes;
    uint64_t written_bytes;
    uint64_t handed_bytes; /* of these, already on their way to the disk */
};

static struct lake_str key_of(const struct writer *writer)
{
    return (struct lake_str){writer->path.path, writer->key_bytes};
}

static lake_status fail_write(const struct writer *writer, int error_number, struct lake_error *err)
{
    struct lake_str key = key_of(writer);
    if (error_number == ENOSPC || error_number == EDQUOT)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "object %.*s cannot be written: the disk (or the quota) of %s is full",
                         LAKE_STR_FMT(key), writer->store->directory);
    return base_fail_errno(err, error_number, "object %.*s in %s cannot be written",
                           LAKE_STR_FMT(key), writer->store->directory);
}

/* Releases everything; removes the temporary file unless it has become the object. */
static void release(struct writer *writer, bool published)
{
    if (writer->fd >= 0 && !published)
        (void)unlinkat(writer->directory_fd, writer->temp_name, 0);
    if (writer->fd >= 0)
        (void)close(writer->fd);
    if (writer->directory_fd >= 0)
        (void)close(writer->directory_fd);
    base_free(writer->pending);
    base_free(writer);
}

static lake_status create_temporary(struct writer *writer, struct lake_error *err)
{
    struct base_uuid uuid;
    char text[BASE_UUID_TEXT_BYTES];
    lake_status status = base_uuid4_new(&uuid, err);
    if (status == LAKE_OK)
        status = base_fault_io("storage.create", err);
    if (status != LAKE_OK)
        return status;
    base_uuid_format(&uuid, text);
    (void)snprintf(writer->temp_name, sizeof(writer->temp_name), LOCAL_TEMP_PREFIX "%s", text);
    writer->fd = openat(writer->directory_fd, writer->temp_name,
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (writer->fd < 0)
        return fail_write(writer, errno, err);
    /* Tells storage_local_sweep that the writer lives. Where locks do not work, age alone does. */
    (void)flock(writer->fd, LOCK_EX | LOCK_NB);
    return LAKE_OK;
}

static lake_status writer_new(const struct local_store *store, struct lake_str key,
                              bool only_if_absent, struct writer **out, struct lake_error *err)
{
    struct writer *writer = base_alloc(sizeof(*writer));
    if (writer == NULL)
        return base_fail_no_memory(err, sizeof(*writer));
    *writer = (struct writer){.store = store,
                              .key_bytes = key.size,
                              .directory_fd = -1,
                              .fd = -1,
                              .only_if_absent = only_if_absent};
    lake_status status =
        local_open_parent(store, key, &writer->path, true, &writer->directory_fd, err);
    if (status != LAKE_OK) {
        release(writer, false);
        return status;
    }
    *out = writer;
    return LAKE_OK;
}

/* Sets the disk to work early, so that the sync at the end finds little left. Only a hint: a file
 * system that cannot do it loses nothing. */
static void start_writeback(struct writer *writer)
{
    uint64_t fresh = writer->written_bytes - writer->handed_bytes;
    if (fresh < WRITEBACK_BYTES)
        return;
    (void)sync_file_range(writer->fd, (off_t)writer->handed_bytes, (off_t)fresh,
                          SYNC_FILE_RANGE_WRITE);
    writer->handed_bytes = writer->written_bytes;
}

static lake_status write_fully(struct writer *writer, const uint8_t *data, size_t size_bytes,
                               struct lake_error *err)
{
    size_t done = 0;
    while (done < size_bytes) {
        lake_status status = base_fault_io("storage.write", err);
        if (status != LAKE_OK)
            return status;
        ssize_t wrote = local_system.write(writer->fd, data + done, size_bytes - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return fail_write(writer, errno, err);
        done += (size_t)wrote;
        writer->written_bytes += (uint64_t)wrote;
    }
    start_writeback(writer);
    return LAKE_OK;
}

static lake_status write_pending(struct writer *writer, struct lake_error *err)
{
    lake_status status = write_fully(writer, writer->pending, writer->pending_bytes, err);
    writer->pending_bytes = 0;
    return status;
}

static bool target_exists(const struct writer *writer)
{
    return faccessat(writer->directory_fd, writer->path.name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static lake_status fail_exists(const struct writer *writer, struct lake_error *err)
{
    struct lake_str key = key_of(writer);
    return lake_fail(err, LAKE_ALREADY_EXISTS, "object %.*s in %s exists already",
                     LAKE_STR_FMT(key), writer->store->directory);
}

/* 0, or -1 and errno; EEXIST when the name is taken. */
static int rename_without_overwriting(const struct writer *writer)
{
    int fd = writer->directory_fd;
    if (local_system.has_renameat2) {
        if (renameat2(fd, writer->temp_name, fd, writer->path.name, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EINVAL && errno != ENOSYS)
            return -1;
    }
    /* link(2) does not overwrite either, on file systems that do not know the flag. */
    if (linkat(fd, writer->temp_name, fd, writer->path.name, 0) != 0)
        return -1;
    (void)unlinkat(fd, writer->temp_name, 0);
    return 0;
}

static lake_status publish(const struct writer *writer, struct lake_error *err)
{
    lake_status status = base_fault_io("storage.rename", err);
    if (status != LAKE_OK)
        return status;
    int fd = writer->directory_fd;
    int result = writer->only_if_absent ? rename_without_overwriting(writer)
                                        : renameat(fd, writer->temp_name, fd, writer->path.name);
    if (result == 0)
        return LAKE_OK;
    if (errno == EEXIST && writer->only_if_absent)
        return fail_exists(writer, err);
    return fail_write(writer, errno, err);
}

lake_status local_writer_open(void *context, struct lake_str key, bool only_if_absent,
                              void **writer, struct lake_error *err)
{
    struct writer *opened;
    lake_status status = writer_new(context, key, only_if_absent, &opened, err);
    if (status != LAKE_OK)
        return status;
    status = create_temporary(opened, err);
    if (status != LAKE_OK) {
        release(opened, false);
        return status;
    }
    *writer = opened;
    return LAKE_OK;
}

static lake_status buffer_or_write(struct writer *writer, struct lake_bytes data,
                                   struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (writer->pending_bytes > 0 && data.size > PENDING_BYTES - writer->pending_bytes)
        status = write_pending(writer, err);
    if (status != LAKE_OK || data.size == 0)
        return status;
    if (data.size >= PENDING_BYTES / 4 && writer->pending_bytes == 0)
        return write_fully(writer, data.data, data.size, err);
    if (writer->pending == NULL) {
        writer->pending = base_alloc(PENDING_BYTES);
        if (writer->pending == NULL)
            return base_fail_no_memory(err, PENDING_BYTES);
    }
    memcpy(writer->pending + writer->pending_bytes, data.data, data.size);
    writer->pending_bytes += data.size;
    return LAKE_OK;
}

lake_status local_writer_write(void *handle, struct lake_bytes data, struct lake_error *err)
{
    struct writer *writer = handle;
    lake_status status = buffer_or_write(writer, data, err);
    if (status != LAKE_OK)
        writer->broken = true;
    return status;
}

lake_status local_writer_commit(void *handle, struct lake_error *err)
{
    struct writer *writer = handle;
    bool published = false;
    lake_status status;
    if (writer->broken) {
        status = lake_fail(err, LAKE_FAILED_PRECONDITION,
                           "object %s in %s is not published: writing it had failed",
                           writer->path.path, writer->store->directory);
        goto out;
    }
    status = write_pending(writer, err);
    if (status != LAKE_OK)
        goto out;
    /* The loser of an earlier race is spared the sync; a race still on is decided by the rename. */
    if (writer->only_if_absent && target_exists(writer)) {
        status = fail_exists(writer, err);
        goto out;
    }
    if (!writer->unsynced)
        status = local_sync_data(writer->fd, writer->path.path, err);
    if (status != LAKE_OK)
        goto out;
    status = publish(writer, err);
    if (status != LAKE_OK)
        goto out;
    published = true;
    if (!writer->unsynced &&
        local_sync_directory(writer->directory_fd, writer->path.path, err) != LAKE_OK)
        status = lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                                "object %s in %s is visible, but a power cut may undo it",
                                writer->path.path, writer->store->directory);
out:
    release(writer, published);
    return status;
}

void local_writer_abort(void *writer)
{
    release(writer, false);
}

static lake_status put(const struct local_store *store, struct lake_str key, struct lake_bytes data,
                       bool only_if_absent, bool unsynced, struct lake_error *err)
{
    struct writer *writer;
    lake_status status = writer_new(store, key, only_if_absent, &writer, err);
    if (status != LAKE_OK)
        return status;
    writer->unsynced = unsynced;
    if (only_if_absent && target_exists(writer))
        status = fail_exists(writer, err);
    else
        status = create_temporary(writer, err);
    if (status == LAKE_OK)
        status = write_fully(writer, data.data, data.size, err);
    if (status == LAKE_OK)
        return local_writer_commit(writer, err);
    release(writer, false);
    return status;
}

lake_status local_put(void *context, struct lake_str key, struct lake_bytes data,
                      bool only_if_absent, struct lake_error *err)
{
    return put(context, key, data, only_if_absent, false, err);
}

lake_status local_put_unsynced(void *context, struct lake_str key, struct lake_bytes data,
                               struct lake_error *err)
{
    return put(context, key, data, false, true, err);
}
