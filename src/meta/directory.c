/*
 * Dataset directories of this machine as wholes: moved aside in one rename, then removed.
 *
 * A directory that lies under tables/.dropped is nobody's any more; removing it can stop at any
 * point and go on later.
 */
#include "meta_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DROPPED_NAME ".dropped"
#define MAX_DEPTH    32 /* directories below a dataset; Lance needs three */

static char *dataset_path(const struct meta_authority *authority, const struct meta_name *name)
{
    return base_format("%s/%s/%s.lance", authority->tables_dir, name->namespace_key,
                       name->table_key);
}

static lake_status sync_directory(const char *path, struct lake_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return base_fail_errno(err, errno, "directory %s cannot be opened", path);
    int rc = fsync(fd);
    int error_number = errno;
    (void)close(fd);
    return rc == 0 ? LAKE_OK
                   : base_fail_errno(err, error_number, "directory %s cannot be synced", path);
}

lake_status meta_directory_exists(struct meta_authority *authority, const struct meta_name *name,
                                  bool *out, struct lake_error *err)
{
    if (authority->tables_dir == NULL)
        return meta_remote_exists(authority, name, out, err);
    char *path = dataset_path(authority, name);
    if (path == NULL)
        return base_fail_no_memory(err, 0);
    struct stat info;
    lake_status status = LAKE_OK;
    if (lstat(path, &info) == 0)
        *out = true;
    else if (errno == ENOENT || errno == ENOTDIR)
        *out = false;
    else
        status = base_fail_errno(err, errno, "%s cannot be looked at", path);
    base_free(path);
    return status;
}

lake_status meta_directory_move_aside(struct meta_authority *authority,
                                      const struct meta_name *name, const char *incarnation,
                                      struct lake_error *err)
{
    if (authority->tables_dir == NULL)
        return meta_remote_remove(authority, name, err);
    char *from = dataset_path(authority, name);
    char *parent = base_format("%s/%s", authority->tables_dir, name->namespace_key);
    char *dropped = base_format("%s/%s", authority->tables_dir, DROPPED_NAME);
    char *to = base_format("%s/%s/%s", authority->tables_dir, DROPPED_NAME, incarnation);
    lake_status status = LAKE_OK;
    if (from == NULL || parent == NULL || dropped == NULL || to == NULL) {
        status = base_fail_no_memory(err, 0);
        goto out;
    }
    if (mkdir(dropped, 0755) != 0 && errno != EEXIST) {
        status = base_fail_errno(err, errno, "directory %s cannot be made", dropped);
        goto out;
    }
    if (rename(from, to) != 0) {
        if (errno != ENOENT)
            status = base_fail_errno(err, errno, "%s cannot be moved to %s", from, to);
        goto out;
    }
    status = sync_directory(dropped, err);
    if (status == LAKE_OK)
        status = sync_directory(parent, err);
out:
    base_free(to);
    base_free(dropped);
    base_free(parent);
    base_free(from);
    return status;
}

static lake_status remove_entry(int parent_fd, const char *name, int depth, struct lake_error *err);

/* Empties the directory open as `fd`, which is closed. */
static lake_status remove_contents(int fd, const char *name, int depth, struct lake_error *err)
{
    DIR *directory = fdopendir(fd);
    if (directory == NULL) {
        int error_number = errno;
        (void)close(fd);
        return base_fail_errno(err, error_number, "directory %s cannot be read", name);
    }
    lake_status status = LAKE_OK;
    struct dirent *entry;
    while (status == LAKE_OK && (entry = readdir(directory)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = remove_entry(dirfd(directory), entry->d_name, depth + 1, err);
    }
    (void)closedir(directory);
    return status;
}

static lake_status remove_entry(int parent_fd, const char *name, int depth, struct lake_error *err)
{
    if (depth > MAX_DEPTH)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "a dropped dataset has more than %d levels of directories", MAX_DEPTH);
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT)
        return LAKE_OK;
    if (errno != EISDIR && errno != EPERM)
        return base_fail_errno(err, errno, "%s cannot be removed", name);
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? LAKE_OK
                               : base_fail_errno(err, errno, "directory %s cannot be opened", name);
    lake_status status = remove_contents(fd, name, depth, err);
    if (status == LAKE_OK && unlinkat(parent_fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        status = base_fail_errno(err, errno, "directory %s cannot be removed", name);
    return status;
}

/* NOT_FOUND when nothing was ever dropped. */
static lake_status open_dropped(struct meta_authority *authority, int *out, struct lake_error *err)
{
    char *path = base_format("%s/%s", authority->tables_dir, DROPPED_NAME);
    if (path == NULL)
        return base_fail_no_memory(err, 0);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    lake_status status =
        fd >= 0 ? LAKE_OK : base_fail_errno(err, errno, "directory %s cannot be opened", path);
    base_free(path);
    if (status == LAKE_OK)
        *out = fd;
    return status;
}

lake_status meta_directory_remove_dropped(struct meta_authority *authority, const char *incarnation,
                                          struct lake_error *err)
{
    if (authority->tables_dir == NULL)
        return LAKE_OK; /* it was removed in place */
    int fd;
    lake_status status = open_dropped(authority, &fd, err);
    if (status != LAKE_OK)
        return status == LAKE_NOT_FOUND ? LAKE_OK : status;
    status = remove_entry(fd, incarnation, 0, err);
    (void)close(fd);
    return status;
}

lake_status meta_directory_sweep_dropped(struct meta_authority *authority, struct lake_error *err)
{
    if (authority->tables_dir == NULL)
        return LAKE_OK;
    int fd;
    lake_status status = open_dropped(authority, &fd, err);
    if (status != LAKE_OK)
        return status == LAKE_NOT_FOUND ? LAKE_OK : status;
    return remove_contents(fd, DROPPED_NAME, 0, err);
}
