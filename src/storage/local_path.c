/* From keys to file descriptors, without leaving the store's directory. */
#define _GNU_SOURCE
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OPEN_ATTEMPTS 8 /* openat2 asks for another try when a rename raced with it */

static int open_with_openat2(int root_fd, const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    for (int attempt = 1;; attempt++) {
        long fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR) || attempt == OPEN_ATTEMPTS)
            return (int)fd;
    }
}

static bool is_link(int directory_fd, const char *name)
{
    struct stat info;
    return fstatat(directory_fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
}

/* For kernels and sandboxes without openat2: one component at a time, each without following. */
static int open_by_walking(int root_fd, const char *path, int flags)
{
    int directory_fd = root_fd;
    int fd = -1;
    for (const char *rest = path; rest != NULL;) {
        const char *slash = strchr(rest, '/');
        size_t size = slash == NULL ? strlen(rest) : (size_t)(slash - rest);
        char name[NAME_MAX + 1];
        if (size > NAME_MAX) {
            fd = -1;
            errno = ENAMETOOLONG;
        } else {
            memcpy(name, rest, size);
            name[size] = '\0';
            int how = slash == NULL ? flags : O_PATH | O_DIRECTORY;
            fd = openat(directory_fd, name, how | O_NOFOLLOW | O_CLOEXEC);
            if (fd < 0 && errno == ENOTDIR && is_link(directory_fd, name))
                errno = ELOOP;
        }
        int saved = errno;
        if (directory_fd != root_fd)
            (void)close(directory_fd);
        errno = saved;
        if (fd < 0)
            return -1;
        directory_fd = fd;
        rest = slash == NULL ? NULL : slash + 1;
    }
    return fd;
}

int local_open_beneath(int root_fd, const char *path, int flags)
{
    return local_system.has_openat2 ? open_with_openat2(root_fd, path, flags)
                                    : open_by_walking(root_fd, path, flags);
}

lake_status local_fail_open(const struct local_store *store, struct lake_str key, int error_number,
                            struct lake_error *err)
{
    switch (error_number) {
    case ENOENT:
    case ENOTDIR:
        return lake_fail(err, LAKE_NOT_FOUND, "there is no object %.*s in %s", LAKE_STR_FMT(key),
                         store->directory);
    case ELOOP:
    case EXDEV:
        return lake_fail(err, LAKE_PERMISSION_DENIED,
                         "object %.*s in %s is not opened: its path goes through a symbolic link",
                         LAKE_STR_FMT(key), store->directory);
    case ENAMETOOLONG:
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "object %.*s in %s has a component longer than %d bytes",
                         LAKE_STR_FMT(key), store->directory, NAME_MAX);
    default:
        return base_fail_errno(err, error_number, "object %.*s in %s cannot be opened",
                               LAKE_STR_FMT(key), store->directory);
    }
}

lake_status local_path_of(const struct local_store *store, struct lake_str key,
                          struct local_path *out, struct lake_error *err)
{
    memcpy(out->path, key.data, key.size);
    out->path[key.size] = '\0';
    size_t components = 0;
    const char *rest = out->path;
    for (;;) {
        components++;
        if (strncmp(rest, LOCAL_TEMP_PREFIX, sizeof(LOCAL_TEMP_PREFIX) - 1) == 0)
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "object key %.*s in %s: names that start with " LOCAL_TEMP_PREFIX
                             " are temporary files",
                             LAKE_STR_FMT(key), store->directory);
        const char *slash = strchr(rest, '/');
        size_t size = slash == NULL ? strlen(rest) : (size_t)(slash - rest);
        if (size > NAME_MAX)
            return local_fail_open(store, key, ENAMETOOLONG, err);
        if (slash == NULL)
            break;
        rest = slash + 1;
    }
    if (components > LOCAL_MAX_COMPONENTS)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "object key %.*s in %s has %zu components, the limit is %d",
                         LAKE_STR_FMT(key), store->directory, components, LOCAL_MAX_COMPONENTS);
    out->name = rest;
    return LAKE_OK;
}

/* One step of making a path: the directory `name` in `directory_fd`, made and made durable if it
 * is not there yet. A directory that another process has just made is not synced again: the sync
 * of what is put inside it takes its journal entry along. */
static lake_status enter_directory(const struct local_store *store, int directory_fd,
                                   const char *name, struct lake_str key, int *out,
                                   struct lake_error *err)
{
    lake_status status = base_fault_io("storage.mkdir", err);
    if (status != LAKE_OK)
        return status;
    if (mkdirat(directory_fd, name, 0755) == 0) {
        status = local_sync_directory(directory_fd, store->directory, err);
        if (status != LAKE_OK)
            return status;
    } else if (errno != EEXIST) {
        return base_fail_errno(err, errno, "the directory for object %.*s in %s cannot be made",
                               LAKE_STR_FMT(key), store->directory);
    }
    int fd = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        *out = fd;
        return LAKE_OK;
    }
    if (errno == ENOTDIR && !is_link(directory_fd, name))
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "object %.*s in %s cannot be written: %s in its path is an object itself",
                         LAKE_STR_FMT(key), store->directory, name);
    return local_fail_open(store, key, errno == ENOTDIR ? ELOOP : errno, err);
}

static lake_status make_parents(const struct local_store *store, struct lake_str key,
                                struct local_path *path, int *out, struct lake_error *err)
{
    int directory_fd = store->root_fd;
    lake_status status = LAKE_OK;
    for (char *rest = path->path; rest != path->name && status == LAKE_OK;) {
        char *slash = strchr(rest, '/');
        int next = -1;
        *slash = '\0';
        status = enter_directory(store, directory_fd, rest, key, &next, err);
        *slash = '/';
        if (directory_fd != store->root_fd)
            (void)close(directory_fd);
        directory_fd = next;
        rest = slash + 1;
    }
    if (status == LAKE_OK)
        *out = directory_fd;
    return status;
}

lake_status local_open_parent(const struct local_store *store, struct lake_str key,
                              struct local_path *path, bool create, int *out,
                              struct lake_error *err)
{
    lake_status status = local_path_of(store, key, path, err);
    if (status != LAKE_OK)
        return status;
    status = base_fault_io("storage.open_directory", err);
    if (status != LAKE_OK)
        return status;
    size_t parent_bytes = (size_t)(path->name - path->path);
    int flags = O_RDONLY | O_DIRECTORY;
    int fd;
    if (parent_bytes == 0) {
        fd = openat(store->root_fd, ".", flags | O_CLOEXEC);
    } else {
        path->path[parent_bytes - 1] = '\0';
        fd = local_open_beneath(store->root_fd, path->path, flags);
        path->path[parent_bytes - 1] = '/';
    }
    if (fd >= 0) {
        *out = fd;
        return LAKE_OK;
    }
    if (create && parent_bytes > 0 && (errno == ENOENT || errno == ENOTDIR))
        return make_parents(store, key, path, out, err);
    return local_fail_open(store, key, errno, err);
}
