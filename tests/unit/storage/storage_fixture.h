/* A local store in a directory of its own, and what its tests look at. */
#ifndef STORAGE_FIXTURE_H
#define STORAGE_FIXTURE_H

#include "temp_directory.h"

#include <storage/storage.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <string.h>

struct fixture {
    struct temp_directory directory;
    struct storage_store *store;
    struct lake_error err;
};

#define OK(call) assert_int_equal((call), LAKE_OK)

static inline int fixture_set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.directory = temp_directory_make()};
    if (storage_local_open(fixture.directory.path, false, &fixture.store, &fixture.err) != LAKE_OK)
        return -1;
    *state = &fixture;
    return 0;
}

static inline int fixture_tear_down(void **state)
{
    struct fixture *fixture = *state;
    storage_store_unref(fixture->store);
    temp_directory_remove(&fixture->directory);
    return 0;
}

static inline struct lake_bytes bytes_of(const char *text)
{
    return base_bytes_of_str(base_str_of(text));
}

static inline void assert_content(struct storage_store *store, const char *key,
                                  const char *expected)
{
    struct base_buffer buffer;
    base_buffer_init(&buffer, 1 << 20);
    OK(storage_read_all(store, base_str_of(key), &buffer, NULL));
    assert_int_equal(buffer.size, strlen(expected));
    if (buffer.size > 0)
        assert_memory_equal(buffer.data, expected, buffer.size);
    base_buffer_fini(&buffer);
}

static inline void assert_absent(struct storage_store *store, const char *key)
{
    struct storage_object_info info;
    assert_int_equal(storage_stat(store, base_str_of(key), &info, NULL), LAKE_NOT_FOUND);
}

/* How many temporary files are in the tree. */
static inline size_t count_temporaries(const char *path)
{
    size_t count = 0;
    char *paths[] = {(char *)path, NULL};
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *entry = fts_read(tree); entry != NULL; entry = fts_read(tree))
        count += entry->fts_info != FTS_DP && strncmp(entry->fts_name, ".tmp-", 5) == 0;
    (void)fts_close(tree);
    return count;
}

#endif
