/*
 * Objects into files. What arrives goes into a partial file beside the target, named after it and
 * the object's digest. The next download of the same object to the same place hashes what is there
 * and fetches the rest; the target's name appears when the whole is verified and durable.
 */
#include "client_internal.h"
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES    ((size_t)1024 * 1024)
#define PARTIAL_MARK   ".part-"
#define PARTIAL_DIGITS 16 /* of the object's SHA-256 */

struct download {
    lake_client *client;
    bool via_query;
    const struct lake_data_location *location;
    char *path; /* of the target */
    char *partial;
    int descriptor; /* of the partial file, locked */
    int64_t done_bytes;
    lake_progress progress;
    void *progress_context;
};

static lake_status write_all(const struct download *download, struct lake_bytes data,
                             struct lake_error *err)
{
    while (data.size > 0) {
        ssize_t written = write(download->descriptor, data.data, data.size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return base_fail_errno(err, errno, "cannot write %s", download->partial);
        data = (struct lake_bytes){data.data + written, data.size - (size_t)written};
    }
    return LAKE_OK;
}

/* The file that `path` names: a symbolic link stays, and what it leads to is replaced. What is
 * there and is no file, such as /dev/null, never is. */
static lake_status find_target(const char *path, char **out, struct lake_error *err)
{
    struct stat info;
    char resolved[PATH_MAX];
    bool link = false;
    if (lstat(path, &info) == 0) {
        link = S_ISLNK(info.st_mode);
        if (link && (stat(path, &info) != 0 || realpath(path, resolved) == NULL))
            return base_fail_errno(err, errno, "cannot write where the symbolic link %s leads",
                                   path);
        if (!S_ISREG(info.st_mode))
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "%s is there and no regular file: it is not replaced", path);
    } else if (errno != ENOENT) {
        return base_fail_errno(err, errno, "cannot write %s", path);
    }
    *out = base_strdup(link ? resolved : path);
    return *out == NULL ? base_fail_no_memory(err, strlen(path)) : LAKE_OK;
}

/* The last part of `path`, cut so that a partial file can be named after it. */
static struct lake_str base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct lake_str base = base_str_of(slash == NULL ? path : slash + 1);
    base.size = BASE_MIN(base.size, NAME_MAX - strlen(PARTIAL_MARK) - PARTIAL_DIGITS);
    return base;
}

static lake_status name_partial(struct download *download, struct lake_error *err)
{
    struct lake_str base = base_of(download->path);
    download->partial =
        base_format("%.*s" PARTIAL_MARK "%.*s", (int)(base.data + base.size - download->path),
                    download->path, PARTIAL_DIGITS, download->location->sha256_hex);
    return download->partial == NULL ? base_fail_no_memory(err, strlen(download->path)) : LAKE_OK;
}

/* ---- the partial file ---- */

/* Creates or opens it, for this process alone. */
static lake_status open_partial(struct download *download, struct lake_error *err)
{
    do { /* once more when its last owner has just given it its final name */
        if (download->descriptor >= 0)
            close(download->descriptor);
        download->descriptor =
            open(download->partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (download->descriptor < 0)
            return base_fail_errno(err, errno, "cannot create %s", download->partial);
        if (flock(download->descriptor, LOCK_EX | LOCK_NB) != 0)
            return lake_fail(err, LAKE_FAILED_PRECONDITION,
                             "%s is being fetched by another process, into %s", download->path,
                             download->partial);
    } while (!client_file_is_named(download->descriptor, download->partial));
    return LAKE_OK;
}

/* Whether `name` is a partial file for the target `base`. */
static bool is_partial_of(const char *name, struct lake_str base)
{
    size_t mark = strlen(PARTIAL_MARK);
    return strlen(name) == base.size + mark + PARTIAL_DIGITS &&
           memcmp(name, base.data, base.size) == 0 &&
           memcmp(name + base.size, PARTIAL_MARK, mark) == 0 &&
           strspn(name + base.size + mark, "0123456789abcdef") == PARTIAL_DIGITS;
}

/* Removes what is left of other objects for the same target, unless somebody is at it. */
static void discard_others(const struct download *download)
{
    struct lake_str base = base_of(download->path);
    const char *own = strrchr(download->partial, '/');
    own = own == NULL ? download->partial : own + 1;
    char *directory = client_directory_of(download->path);
    DIR *entries = directory == NULL ? NULL : opendir(directory);
    base_free(directory);
    if (entries == NULL)
        return;
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        if (!is_partial_of(entry->d_name, base) || strcmp(entry->d_name, own) == 0)
            continue;
        int other = openat(dirfd(entries), entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (other < 0)
            continue;
        if (flock(other, LOCK_EX | LOCK_NB) == 0)
            (void)unlinkat(dirfd(entries), entry->d_name, 0);
        close(other);
    }
    closedir(entries);
}

static lake_status hash_partial(struct download *download, struct base_sha256 *hash,
                                struct lake_error *err)
{
    uint8_t *block = base_alloc(BLOCK_BYTES);
    lake_status status = block == NULL ? base_fail_no_memory(err, BLOCK_BYTES) : LAKE_OK;
    while (status == LAKE_OK) {
        ssize_t got = read(download->descriptor, block, BLOCK_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            status = base_fail_errno(err, errno, "cannot read %s", download->partial);
        if (got <= 0)
            break;
        download->done_bytes += got;
        if (download->done_bytes > download->location->size_bytes)
            status = lake_fail(err, LAKE_DATA_LOSS, "%s has more bytes than its object",
                               download->partial);
        else
            status = base_sha256_update(hash, block, (size_t)got, err);
    }
    base_free(block);
    return status;
}

/* ---- one download ---- */

static lake_status copy(struct download *download, lake_reader *reader, struct lake_error *err)
{
    for (;;) {
        struct lake_bytes block;
        lake_status status = client_reader_block(reader, &block, err);
        if (status != LAKE_OK || block.size == 0)
            return status;
        status = write_all(download, block, err);
        if (status != LAKE_OK)
            return status;
        download->done_bytes += (int64_t)block.size;
        status = BASE_FAULT("client.download.block", err);
        if (status != LAKE_OK)
            return status;
        if (download->progress != NULL &&
            !download->progress(download->progress_context, download->done_bytes,
                                download->location->size_bytes))
            return lake_fail(err, LAKE_CANCELLED, "the download was cancelled after %lld bytes",
                             (long long)download->done_bytes);
    }
}

/* Goes on behind what the partial file holds. */
static lake_status fetch(struct download *download, struct lake_error *err)
{
    struct base_sha256 *hash = NULL;
    lake_reader *reader = NULL;
    download->done_bytes = 0;
    if (lseek(download->descriptor, 0, SEEK_SET) != 0)
        return base_fail_errno(err, errno, "cannot read %s", download->partial);
    lake_status status = base_sha256_new(&hash, err);
    if (status != LAKE_OK)
        return status;
    status = hash_partial(download, hash, err);
    if (status != LAKE_OK) {
        base_sha256_free(hash);
        return status;
    }
    status = client_reader_open_behind(download->client, download->via_query, download->location,
                                       download->done_bytes, hash, &reader, err);
    if (status == LAKE_OK)
        status = copy(download, reader, err);
    lake_reader_free(reader);
    return status;
}

static lake_status publish(const struct download *download, struct lake_error *err)
{
    if (fsync(download->descriptor) != 0)
        return base_fail_errno(err, errno, "cannot sync %s", download->partial);
    if (!client_file_is_named(download->descriptor,
                              download->partial)) /* what has its name now was never verified */
        return lake_fail(err, LAKE_ABORTED, "%s was removed or replaced while it was written",
                         download->partial);
    if (rename(download->partial, download->path) != 0)
        return base_fail_errno(err, errno, "cannot rename %s to %s", download->partial,
                               download->path);
    return client_sync_directory_of(download->path, err);
}

/* Whether what has arrived is worth keeping: the next attempt may get further. */
static bool may_go_on(lake_status status)
{
    return status == LAKE_UNAVAILABLE || status == LAKE_DEADLINE_EXCEEDED ||
           status == LAKE_CANCELLED || status == LAKE_UNAUTHENTICATED ||
           status == LAKE_PERMISSION_DENIED;
}

static lake_status run(struct download *download, struct lake_error *err)
{
    struct stat before;
    lake_status status = open_partial(download, err);
    if (status != LAKE_OK)
        return status;
    discard_others(download);
    bool resumed = fstat(download->descriptor, &before) == 0 && before.st_size > 0;
    status = fetch(download, err);
    /* The damage may be in what another process left, as after a power cut. */
    if (status == LAKE_DATA_LOSS && resumed) {
        lake_error_clear(err);
        status = ftruncate(download->descriptor, 0) != 0
                     ? base_fail_errno(err, errno, "cannot empty %s", download->partial)
                     : fetch(download, err);
    }
    if (status == LAKE_OK)
        status = publish(download, err);
    if (status != LAKE_OK && (!may_go_on(status) || download->done_bytes == 0) &&
        client_file_is_named(download->descriptor, download->partial))
        (void)unlink(download->partial);
    return status;
}

static lake_status download_to(lake_client *client, bool via_query,
                               const struct lake_data_location *location, const char *path,
                               lake_progress progress, void *progress_context,
                               struct lake_error *err)
{
    struct download download = {.client = client,
                                .via_query = via_query,
                                .location = location,
                                .descriptor = -1,
                                .progress = progress,
                                .progress_context = progress_context};
    struct lake_str key;
    lake_error_clear(err);
    if (path == NULL || path[0] == '\0')
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "there is no path");
    lake_status status = via_query ? client_location_check(location, err)
                                   : client_location_key(client, location, &key, err);
    if (status == LAKE_OK)
        status = find_target(path, &download.path, err);
    if (status == LAKE_OK)
        status = name_partial(&download, err);
    if (status == LAKE_OK)
        status = run(&download, err);
    if (download.descriptor >= 0)
        close(download.descriptor);
    base_free(download.partial);
    base_free(download.path);
    return status;
}

lake_status lake_download(lake_client *client, const struct lake_data_location *location,
                          const char *path, lake_progress progress, void *progress_context,
                          struct lake_error *err)
{
    return download_to(client, false, location, path, progress, progress_context, err);
}

lake_status lake_download_via_query(lake_client *client, const struct lake_data_location *location,
                                    const char *path, lake_progress progress,
                                    void *progress_context, struct lake_error *err)
{
    return download_to(client, true, location, path, progress, progress_context, err);
}
