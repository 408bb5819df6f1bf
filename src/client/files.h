/* Files of checkpoints and of pending appends. */
#ifndef CLIENT_FILES_H
#define CLIENT_FILES_H

#include <base/base.h>

/* Syncs the directory that holds `path`: what was named, renamed or removed there outlives a power
 * cut. */
lake_status client_sync_directory_of(const char *path, struct lake_error *err);
/* Whether `path` names the file that is open as `fd`: another process may have renamed, removed or
 * replaced it before it was locked. */
bool client_file_is_named(int fd, const char *path);

#endif
