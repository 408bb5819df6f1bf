/* A directory of its own for a test, below $TMPDIR or /tmp, and its removal. */
#ifndef TEMP_DIRECTORY_H
#define TEMP_DIRECTORY_H

#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct temp_directory {
    char path[256];
};

static inline struct temp_directory temp_directory_make(void)
{
    struct temp_directory made;
    const char *base = getenv("TMPDIR");
    (void)snprintf(made.path, sizeof(made.path), "%s/lake-test-XXXXXX",
                   base == NULL ? "/tmp" : base);
    if (mkdtemp(made.path) == NULL) {
        perror(made.path);
        abort();
    }
    return made;
}

/* Removes a tree, not following symbolic links; a path that is not there is fine. */
static inline void temp_tree_remove(const char *path)
{
    char *paths[] = {(char *)path, NULL};
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    if (tree == NULL)
        return;
    for (FTSENT *entry = fts_read(tree); entry != NULL; entry = fts_read(tree)) {
        if (entry->fts_info != FTS_D)
            (void)remove(entry->fts_accpath);
    }
    (void)fts_close(tree);
}

static inline void temp_directory_remove(const struct temp_directory *directory)
{
    temp_tree_remove(directory->path);
}

#endif
