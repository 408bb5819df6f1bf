/* A RocksDB store in a directory of its own. */
#ifndef KV_FIXTURE_H
#define KV_FIXTURE_H

#include "temp_directory.h"

#include <kv/kv.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

struct fixture {
    struct temp_directory directory;
    char path[300]; /* of the database, below the directory */
    struct kv_store *store;
    struct lake_error err;
};

#define OK(call) assert_int_equal((call), LAKE_OK)

static inline int fixture_set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.directory = temp_directory_make()};
    (void)snprintf(fixture.path, sizeof(fixture.path), "%s/db", fixture.directory.path);
    *state = &fixture;
    return kv_rocksdb_open(fixture.path, &fixture.store, &fixture.err) == LAKE_OK ? 0 : -1;
}

static inline int fixture_tear_down(void **state)
{
    struct fixture *fixture = *state;
    kv_close(fixture->store);
    temp_directory_remove(&fixture->directory);
    return 0;
}

static inline void fixture_reopen(struct fixture *fixture)
{
    kv_close(fixture->store);
    fixture->store = NULL;
    OK(kv_rocksdb_open(fixture->path, &fixture->store, &fixture->err));
}

static inline struct lake_bytes bytes_of(const char *text)
{
    return base_bytes_of_str(base_str_of(text));
}

static inline struct kv_write put_of(const char *key, const char *value)
{
    return (struct kv_write){KV_PUT, bytes_of(key), bytes_of(value)};
}

static inline lake_status put_one(struct kv_store *store, const char *key, const char *value)
{
    struct kv_write write = put_of(key, value);
    return kv_commit(store, NULL, 0, &write, 1, NULL, NULL);
}

static inline void assert_value(struct kv_store *store, const char *key, const char *expected)
{
    struct base_buffer buffer;
    base_buffer_init(&buffer, KV_MAX_VALUE_BYTES);
    lake_status status = kv_get(store, bytes_of(key), &buffer, NULL);
    assert_int_equal(status, expected == NULL ? LAKE_NOT_FOUND : LAKE_OK);
    if (expected != NULL) {
        assert_int_equal(buffer.size, strlen(expected));
        assert_memory_equal(buffer.data, expected, buffer.size);
    }
    base_buffer_fini(&buffer);
}

/* The log with the `rank`-th lowest number, by path; how many there are. */
static inline size_t find_logs(const char *directory, size_t rank, char *out, size_t room)
{
    char names[16][32];
    size_t count = 0;
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        struct lake_str name = base_str_of(entry->d_name);
        if (base_str_has_suffix(name, ".log") && name.size < sizeof(names[0])) {
            assert_true(count < BASE_ARRAY_LEN(names));
            memcpy(names[count++], name.data, name.size + 1);
        }
    }
    (void)closedir(dir);
    qsort(names, count, sizeof(names[0]), (int (*)(const void *, const void *))strcmp);
    if (out != NULL) {
        assert_true(rank < count);
        (void)snprintf(out, room, "%s/%s", directory, names[rank]);
    }
    return count;
}

static inline void copy_file(const char *from, const char *to, size_t size)
{
    uint8_t *data = malloc(size + 1);
    int fd = open(from, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, data, size), (ssize_t)size);
    (void)close(fd);
    fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), (ssize_t)size);
    (void)close(fd);
    free(data);
}

static inline void copy_directory(const char *from, const char *to)
{
    temp_tree_remove(to);
    assert_int_equal(mkdir(to, 0700), 0);
    DIR *dir = opendir(from);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char source[600];
        char target[600];
        struct stat info;
        (void)snprintf(source, sizeof(source), "%s/%s", from, entry->d_name);
        (void)snprintf(target, sizeof(target), "%s/%s", to, entry->d_name);
        if (stat(source, &info) == 0 && S_ISREG(info.st_mode))
            copy_file(source, target, (size_t)info.st_size);
    }
    (void)closedir(dir);
}

static inline off_t size_of(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_size;
}

#endif
