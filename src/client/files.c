/* What the files that this library writes for itself have in common: they outlive a power cut, and
 * a lock counts only as long as the file that holds it has its name. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *client_directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? base_strdup(".") : base_strndup(path, (size_t)BASE_MAX(slash - path, 1));
}

lake_status client_sync_directory_of(const char *path, struct lake_error *err)
{
    char *directory = client_directory_of(path);
    if (directory == NULL)
        return base_fail_no_memory(err, strlen(path));
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    lake_status status = LAKE_OK;
    if (fd < 0 || fsync(fd) != 0)
        status = base_fail_errno(err, errno, "directory %s cannot be synced", directory);
    if (fd >= 0)
        (void)close(fd);
    base_free(directory);
    return status;
}

bool client_file_is_named(int fd, const char *path)
{
    struct stat opened;
    struct stat named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
}
