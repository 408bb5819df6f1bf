/*
 * The local directory store, as its own files and tests see it.
 *
 * A write goes to a temporary file beside its target, is synced, renamed without overwriting where
 * that is asked for, and the directory is synced: two syncs an object, and one more for each
 * directory that had to be made. The temporary file is locked while its writer lives, so that
 * storage_local_sweep can tell a dead one.
 */
#ifndef STORAGE_LOCAL_H
#define STORAGE_LOCAL_H

#include "storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#define LOCAL_TEMP_PREFIX    ".tmp-"
#define LOCAL_MAX_COMPONENTS 64

struct local_store {
    int root_fd;
    char *directory; /* absolute, for messages */
};

/* The system calls whose partial and failed outcomes tests bring about. */
struct local_system {
    ssize_t (*pread)(int fd, void *out, size_t size, off_t offset);
    ssize_t (*write)(int fd, const void *data, size_t size);
    int (*fdatasync)(int fd);
    int (*fsync)(int fd);
    /* Whether openat2 and renameat2 are there; false selects the walk and link(2). */
    bool has_openat2;
    bool has_renameat2;
};
extern struct local_system local_system;

extern const struct storage_methods local_methods;

/* Opens `path` (relative, checked) without following symbolic links; -1 and errno otherwise, ELOOP
 * for a link. */
int local_open_beneath(int root_fd, const char *path, int flags);
/* Opens an object; what is not a regular file is no object, so use O_NONBLOCK or O_PATH: opening a
 * FIFO in its place must not hang. */
lake_status local_open_object(const struct local_store *store, struct lake_str key, int flags,
                              int *out_fd, struct stat *info, struct lake_error *err);
lake_status local_fail_open(const struct local_store *store, struct lake_str key, int error_number,
                            struct lake_error *err);
/* The directory that holds `key`, and its last component as a C string inside `path`. */
struct local_path {
    char path[STORAGE_MAX_KEY_BYTES + 1];
    const char *name;
};
lake_status local_path_of(const struct local_store *store, struct lake_str key,
                          struct local_path *out, struct lake_error *err);
lake_status local_open_parent(const struct local_store *store, struct lake_str key,
                              struct local_path *path, bool create, int *out,
                              struct lake_error *err);
lake_status local_sync_directory(int fd, const char *what, struct lake_error *err);
lake_status local_sync_data(int fd, const char *what, struct lake_error *err);

/* ---- open_files.c ---- */

struct local_file;
/* The object open for reading, perhaps from a read before; `info` is of now. Give it back with
 * local_file_done, as `stale` when it turned out to be of the past. */
lake_status local_file_open(const struct local_store *store, struct lake_str key,
                            struct local_file **out, int *fd, struct stat *info,
                            struct lake_error *err);
void local_file_done(struct local_file *file, bool stale);
void local_files_forget(const struct local_store *store); /* closes what is open of the store */

lake_status local_put(void *context, struct lake_str key, struct lake_bytes data,
                      bool only_if_absent, struct lake_error *err);
lake_status local_put_unsynced(void *context, struct lake_str key, struct lake_bytes data,
                               struct lake_error *err);
lake_status local_writer_open(void *context, struct lake_str key, bool only_if_absent,
                              void **writer, struct lake_error *err);
lake_status local_writer_write(void *writer, struct lake_bytes data, struct lake_error *err);
lake_status local_writer_commit(void *writer, struct lake_error *err);
void local_writer_abort(void *writer);
lake_status local_list(void *context, struct lake_str prefix, struct lake_str start_after,
                       size_t limit, struct storage_list_page *out, struct lake_error *err);

#endif
