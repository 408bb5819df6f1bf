/* Making directories so that they are still there after a power cut. */
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static lake_status sync_directory(int fd, const char *path, struct lake_error *err)
{
    lake_status status = base_fault_io("base.sync_directory", err);
    if (status == LAKE_OK && fsync(fd) != 0)
        status = base_fail_errno(err, errno, "directory %s cannot be synced to disk", path);
    return status;
}

/* Syncs the directory that holds `path`, which has just been made in it. */
static lake_status sync_parent(char *path, struct lake_error *err)
{
    char *slash = strrchr(path, '/');
    const char *parent = slash == NULL ? "." : slash == path ? "/" : path;
    if (slash != NULL && slash != path)
        *slash = '\0';
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    lake_status status = fd < 0
                             ? base_fail_errno(err, errno, "directory %s cannot be opened", parent)
                             : sync_directory(fd, parent, err);
    if (fd >= 0)
        (void)close(fd);
    if (slash != NULL && slash != path)
        *slash = '/';
    return status;
}

lake_status base_make_directories(const char *directory, struct lake_error *err)
{
    char *path = base_strdup(directory);
    if (path == NULL)
        return base_fail_no_memory(err, strlen(directory) + 1);
    lake_status status = LAKE_OK;
    size_t size = strlen(path);
    for (size_t i = 1; i <= size && status == LAKE_OK; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        char separator = path[i];
        path[i] = '\0';
        status = base_fault_io("base.mkdir", err);
        if (status == LAKE_OK) {
            if (mkdir(path, 0755) == 0)
                status = sync_parent(path, err);
            else if (errno != EEXIST)
                status = base_fail_errno(err, errno, "directory %s cannot be made", path);
        }
        path[i] = separator;
    }
    base_free(path);
    return status;
}
