/* The local directory store: opening it, reading, removing, and its system calls. */
#define _GNU_SOURCE
#include "local.h"
#include "storage_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct local_system local_system = {
    .pread = pread,
    .write = write,
    .fdatasync = fdatasync,
    .fsync = fsync,
    .has_openat2 = true,
    .has_renameat2 = true,
};

static pthread_once_t probe_once = PTHREAD_ONCE_INIT;
static atomic_uint_fast64_t sync_count;

static void probe_system(void)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
    long fd = syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how));
    if (fd >= 0)
        (void)close((int)fd);
    else if (errno == ENOSYS || errno == EPERM)
        local_system.has_openat2 = false;
}

uint64_t storage_fsync_count(void)
{
    return atomic_load(&sync_count);
}

static lake_status sync_with(int (*call)(int fd), int fd, const char *point, const char *what,
                             struct lake_error *err)
{
    lake_status status = base_fault_io(point, err);
    if (status != LAKE_OK)
        return status;
    (void)atomic_fetch_add(&sync_count, 1);
    int result;
    do {
        result = call(fd);
    } while (result != 0 && errno == EINTR);
    if (result != 0)
        return base_fail_errno(err, errno, "%s cannot be synced to disk", what);
    return LAKE_OK;
}

lake_status local_sync_directory(int fd, const char *what, struct lake_error *err)
{
    return sync_with(local_system.fsync, fd, "storage.sync_directory", what, err);
}

lake_status local_sync_data(int fd, const char *what, struct lake_error *err)
{
    return sync_with(local_system.fdatasync, fd, "storage.sync", what, err);
}

lake_status local_open_object(const struct local_store *store, struct lake_str key, int flags,
                              int *out_fd, struct stat *info, struct lake_error *err)
{
    struct local_path path;
    lake_status status = local_path_of(store, key, &path, err);
    if (status == LAKE_OK)
        status = base_fault_io("storage.open", err);
    if (status != LAKE_OK)
        return status;
    int fd = local_open_beneath(store->root_fd, path.path, flags);
    if (fd < 0)
        return local_fail_open(store, key, errno, err);
    if (fstat(fd, info) != 0)
        status = local_fail_open(store, key, errno, err);
    else if (!S_ISREG(info->st_mode))
        status = local_fail_open(store, key, ENOENT, err);
    if (status != LAKE_OK) {
        (void)close(fd);
        return status;
    }
    *out_fd = fd;
    return LAKE_OK;
}

static lake_status local_stat(void *context, struct lake_str key, struct storage_object_info *out,
                              struct lake_error *err)
{
    struct stat info;
    int fd;
    lake_status status = local_open_object(context, key, O_PATH, &fd, &info, err);
    if (status != LAKE_OK)
        return status;
    (void)close(fd);
    out->size_bytes = (uint64_t)info.st_size;
    out->modified_unix_ms = (int64_t)info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1000000;
    return LAKE_OK;
}

static lake_status read_fully(const struct local_store *store, struct lake_str key, int fd,
                              uint64_t offset, size_t size_bytes, uint8_t *out,
                              struct lake_error *err)
{
    size_t done = 0;
    while (done < size_bytes) {
        lake_status status = base_fault_io("storage.read", err);
        if (status != LAKE_OK)
            return status;
        ssize_t got = local_system.pread(fd, out + done, size_bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return base_fail_errno(err, errno, "object %.*s in %s cannot be read",
                                   LAKE_STR_FMT(key), store->directory);
        if (got == 0)
            return lake_fail(err, LAKE_DATA_LOSS,
                             "object %.*s in %s became shorter while it was read",
                             LAKE_STR_FMT(key), store->directory);
        done += (size_t)got;
    }
    return LAKE_OK;
}

static lake_status local_read_range(void *context, struct lake_str key, uint64_t offset,
                                    size_t size_bytes, uint8_t *out, struct lake_error *err)
{
    const struct local_store *store = context;
    struct local_file *file;
    struct stat info;
    int fd;
    lake_status status = local_file_open(store, key, &file, &fd, &info, err);
    if (status != LAKE_OK)
        return status;
    if (offset + size_bytes > (uint64_t)info.st_size)
        status = lake_fail(
            err, LAKE_OUT_OF_RANGE,
            "object %.*s in %s has %lld bytes: %zu bytes from offset %" PRIu64 " are not there",
            LAKE_STR_FMT(key), store->directory, (long long)info.st_size, size_bytes, offset);
    else
        status = read_fully(store, key, fd, offset, size_bytes, out, err);
    local_file_done(file, false);
    return status;
}

/* Not synced: a removal that a power cut undoes is repeated by the next cleanup. */
static lake_status local_remove(void *context, struct lake_str key, struct lake_error *err)
{
    const struct local_store *store = context;
    struct local_path path;
    int directory_fd;
    lake_status status = local_open_parent(store, key, &path, false, &directory_fd, err);
    if (status == LAKE_NOT_FOUND) {
        lake_error_clear(err);
        return LAKE_OK;
    }
    if (status != LAKE_OK)
        return status;
    status = base_fault_io("storage.remove", err);
    /* A directory is no object, so there is nothing to remove. */
    if (status == LAKE_OK && unlinkat(directory_fd, path.name, 0) != 0 && errno != ENOENT &&
        errno != EISDIR)
        status = base_fail_errno(err, errno, "object %.*s in %s cannot be removed",
                                 LAKE_STR_FMT(key), store->directory);
    (void)close(directory_fd);
    return status;
}

static void local_free(void *context)
{
    struct local_store *store = context;
    local_files_forget(store);
    (void)close(store->root_fd);
    base_free(store->directory);
    base_free(store);
}

const struct storage_methods local_methods = {
    .stat = local_stat,
    .read_range = local_read_range,
    .put = local_put,
    .put_unsynced = local_put_unsynced,
    .writer_open = local_writer_open,
    .writer_write = local_writer_write,
    .writer_commit = local_writer_commit,
    .writer_abort = local_writer_abort,
    .remove = local_remove,
    .list = local_list,
    .free = local_free,
};

static lake_status open_root(const char *directory, int *out_fd, char **out_path,
                             struct lake_error *err)
{
    lake_status status = base_fault_io("storage.open_root", err);
    if (status != LAKE_OK)
        return status;
    char resolved[PATH_MAX];
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || realpath(directory, resolved) == NULL) {
        status = base_fail_errno(err, errno, "directory %s cannot be opened", directory);
        if (fd >= 0)
            (void)close(fd);
        return status;
    }
    char *path = base_strdup(resolved);
    if (path == NULL) {
        (void)close(fd);
        return base_fail_no_memory(err, strlen(resolved) + 1);
    }
    *out_fd = fd;
    *out_path = path;
    return LAKE_OK;
}

lake_status storage_local_open(const char *directory, bool create, struct storage_store **out,
                               struct lake_error *err)
{
    (void)pthread_once(&probe_once, probe_system);
    if (directory[0] == '\0')
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a local store needs a directory");
    lake_status status = create ? base_make_directories(directory, err) : LAKE_OK;
    int root_fd;
    char *path;
    if (status == LAKE_OK)
        status = open_root(directory, &root_fd, &path, err);
    if (status != LAKE_OK)
        return status;
    struct local_store *store = base_alloc(sizeof(*store));
    char *uri = base_format("file://%s", path);
    if (store == NULL || uri == NULL) {
        base_free(store);
        base_free(uri);
        base_free(path);
        (void)close(root_fd);
        return base_fail_no_memory(err, sizeof(*store));
    }
    *store = (struct local_store){root_fd, path};
    status = storage_store_new(&local_methods, store, uri, out, err);
    base_free(uri);
    return status;
}
