/* Files of checkpoints, of pending appends and of downloads. */
#ifndef CLIENT_FILES_H
#define CLIENT_FILES_H

#include <base/base.h>

/* The directory that holds `path`, the caller's to free; NULL for want of memory. */
char *client_directory_of(const char *path);
/* Syncs the directory that holds `path`: what was named, renamed or removed there outlives a power
 * cut. */
lake_status client_sync_directory_of(const char *path, struct lake_error *err);
/* Whether `path` names the file that is open as `fd`: another process may have renamed, removed or
 * replaced it before it was locked. */
bool client_file_is_named(int fd, const char *path);

#endif
