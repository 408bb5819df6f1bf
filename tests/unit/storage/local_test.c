/* The local store: reading, writing, removing, and the limits of each. */
#include "local.h"
#include "storage_fixture.h"

#include <dirent.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static void keys_are_relative_paths_without_tricks(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "a/b", "..a", "a..", ".a/b", "a b", "\xC3\xA9", "..."};
    static const char *const bad[] = {"",  "/",  "/a",   "a/",   "a//b",
                                      ".", "..", "a/..", "../a", "a/./b"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(good); i++)
        assert_true(storage_key_valid(base_str_of(good[i])));
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++)
        assert_false(storage_key_valid(base_str_of(bad[i])));
    assert_false(storage_key_valid(LAKE_STR("a\0b")));
    char longest[STORAGE_MAX_KEY_BYTES + 1];
    memset(longest, 'k', sizeof(longest));
    assert_true(storage_key_valid((struct lake_str){longest, STORAGE_MAX_KEY_BYTES}));
    assert_false(storage_key_valid((struct lake_str){longest, STORAGE_MAX_KEY_BYTES + 1}));
}

static void bad_keys_are_refused_by_every_operation(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"../x", "/etc/passwd", "", "a//b", ".tmp-x", "a/.tmp-x/b"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++) {
        struct lake_str key = base_str_of(bad[i]);
        struct storage_object_info info;
        struct base_buffer buffer;
        struct storage_writer *writer;
        uint8_t byte;
        base_buffer_init(&buffer, 10);
        assert_int_equal(storage_stat(f->store, key, &info, NULL), LAKE_INVALID_ARGUMENT);
        assert_int_equal(storage_read_range(f->store, key, 0, 1, &byte, NULL),
                         LAKE_INVALID_ARGUMENT);
        assert_int_equal(storage_read_all(f->store, key, &buffer, NULL), LAKE_INVALID_ARGUMENT);
        assert_int_equal(storage_put(f->store, key, bytes_of("x"), NULL), LAKE_INVALID_ARGUMENT);
        assert_int_equal(storage_put_if_absent(f->store, key, bytes_of("x"), NULL),
                         LAKE_INVALID_ARGUMENT);
        assert_int_equal(storage_remove(f->store, key, NULL), LAKE_INVALID_ARGUMENT);
        assert_int_equal(storage_writer_open(f->store, key, false, &writer, NULL),
                         LAKE_INVALID_ARGUMENT);
    }
    char deep[2 * 65];
    for (size_t i = 0; i < 65; i++)
        memcpy(deep + 2 * i, "d/", 2);
    assert_int_equal(
        storage_put(f->store, (struct lake_str){deep, 2 * 65 - 1}, bytes_of("x"), NULL),
        LAKE_INVALID_ARGUMENT);
    OK(storage_put(f->store, (struct lake_str){deep, 2 * 64 - 1}, bytes_of("x"), NULL));
}

static void object_is_read_back_whole_and_in_ranges(void **state)
{
    struct fixture *f = *state;
    struct lake_str key = LAKE_STR("a/b/object");
    OK(storage_put(f->store, key, bytes_of("0123456789"), &f->err));
    assert_content(f->store, "a/b/object", "0123456789");
    uint8_t out[10];
    OK(storage_read_range(f->store, key, 3, 4, out, &f->err));
    assert_memory_equal(out, "3456", 4);
    OK(storage_read_range(f->store, key, 0, 10, out, &f->err));
    OK(storage_read_range(f->store, key, 10, 0, out, &f->err));
    assert_int_equal(storage_read_range(f->store, key, 11, 0, out, &f->err), LAKE_OUT_OF_RANGE);
    assert_int_equal(storage_read_range(f->store, key, 1, 10, out, &f->err), LAKE_OUT_OF_RANGE);
    assert_int_equal(storage_read_range(f->store, key, UINT64_MAX, 2, out, &f->err),
                     LAKE_OUT_OF_RANGE);
    assert_int_equal(storage_read_range(f->store, key, INT64_MAX, 2, out, &f->err),
                     LAKE_OUT_OF_RANGE);
    struct storage_object_info info;
    OK(storage_stat(f->store, key, &info, &f->err));
    assert_int_equal(info.size_bytes, 10);
    int64_t now = base_clock_unix_ms();
    assert_in_range(info.modified_unix_ms, now - 60000, now + 1000);
    OK(storage_put(f->store, key, (struct lake_bytes){NULL, 0}, &f->err));
    assert_content(f->store, "a/b/object", "");
}

static void read_all_refuses_above_the_buffers_limit_before_reading(void **state)
{
    struct fixture *f = *state;
    OK(storage_put(f->store, LAKE_STR("o"), bytes_of("12345"), &f->err));
    struct base_buffer buffer;
    base_buffer_init(&buffer, 5);
    OK(storage_read_all(f->store, LAKE_STR("o"), &buffer, &f->err));
    assert_int_equal(buffer.size, 5);
    base_buffer_fini(&buffer);
    base_buffer_init(&buffer, 4);
    assert_int_equal(storage_read_all(f->store, LAKE_STR("o"), &buffer, &f->err),
                     LAKE_RESOURCE_EXHAUSTED);
    assert_null(buffer.data);
    base_buffer_fini(&buffer);
}

static void what_is_not_there_is_not_found(void **state)
{
    struct fixture *f = *state;
    OK(storage_put(f->store, LAKE_STR("file"), bytes_of("x"), &f->err));
    OK(storage_put(f->store, LAKE_STR("dir/x"), bytes_of("x"), &f->err));
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/fifo", f->directory.path);
    assert_int_equal(mkfifo(path, 0600), 0);
    static const char *const keys[] = {"none", "none/below", "file/below", "dir", "fifo"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(keys); i++) {
        uint8_t byte;
        assert_absent(f->store, keys[i]);
        assert_int_equal(storage_read_range(f->store, base_str_of(keys[i]), 0, 1, &byte, &f->err),
                         LAKE_NOT_FOUND);
    }
    struct storage_store *other;
    assert_int_equal(storage_local_open("/nonexistent/store", false, &other, &f->err),
                     LAKE_NOT_FOUND);
    assert_int_equal(storage_local_open("", true, &other, &f->err), LAKE_INVALID_ARGUMENT);
}

static void store_is_made_with_its_parents_and_says_where_it_is(void **state)
{
    struct fixture *f = *state;
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/x/y", f->directory.path);
    struct storage_store *store;
    OK(storage_local_open(path, true, &store, &f->err));
    char uri[400];
    (void)snprintf(uri, sizeof(uri), "file://%s", path);
    assert_string_equal(storage_store_uri(store), uri);
    assert_ptr_equal(storage_store_ref(store), store);
    storage_store_unref(store);
    OK(storage_put(store, LAKE_STR("k"), bytes_of("v"), &f->err));
    storage_store_unref(store);
    assert_content(f->store, "x/y/k", "v");
}

static void case_L06_removing_twice_succeeds(void **state)
{
    struct fixture *f = *state;
    OK(storage_put(f->store, LAKE_STR("d/o"), bytes_of("x"), &f->err));
    OK(storage_remove(f->store, LAKE_STR("d/o"), &f->err));
    assert_absent(f->store, "d/o");
    OK(storage_remove(f->store, LAKE_STR("d/o"), &f->err));
    OK(storage_remove(f->store, LAKE_STR("never/was"), &f->err));
    OK(storage_put(f->store, LAKE_STR("d/p"), bytes_of("x"), &f->err));
    OK(storage_remove(f->store, LAKE_STR("d"), &f->err)); /* a directory is no object */
    assert_content(f->store, "d/p", "x");
}

static void put_overwrites_and_put_if_absent_does_not(void **state)
{
    struct fixture *f = *state;
    for (int with_renameat2 = 0; with_renameat2 < 2; with_renameat2++) {
        local_system.has_renameat2 = with_renameat2;
        char key[20];
        (void)snprintf(key, sizeof(key), "d/k%d", with_renameat2);
        OK(storage_put_if_absent(f->store, base_str_of(key), bytes_of("first"), &f->err));
        assert_int_equal(
            storage_put_if_absent(f->store, base_str_of(key), bytes_of("second"), &f->err),
            LAKE_ALREADY_EXISTS);
        assert_content(f->store, key, "first");
        OK(storage_put(f->store, base_str_of(key), bytes_of("third"), &f->err));
        assert_content(f->store, key, "third");
        assert_int_equal(count_temporaries(f->directory.path), 0);
    }
    assert_true(local_system.has_renameat2);
    OK(storage_put(f->store, LAKE_STR("a"), bytes_of("x"), &f->err));
    assert_int_equal(storage_put(f->store, LAKE_STR("a/b"), bytes_of("x"), &f->err),
                     LAKE_FAILED_PRECONDITION);
}

static void put_costs_two_syncs_and_one_for_each_new_directory(void **state)
{
    struct fixture *f = *state;
    uint64_t before = storage_fsync_count();
    OK(storage_put(f->store, LAKE_STR("o"), bytes_of("x"), &f->err));
    assert_int_equal(storage_fsync_count() - before, 2);
    before = storage_fsync_count();
    OK(storage_put(f->store, LAKE_STR("p/q/o"), bytes_of("x"), &f->err));
    assert_int_equal(storage_fsync_count() - before, 4);
    before = storage_fsync_count();
    OK(storage_put_if_absent(f->store, LAKE_STR("p/q/o2"), bytes_of("x"), &f->err));
    assert_int_equal(storage_fsync_count() - before, 2);
    before = storage_fsync_count();
    OK(storage_put_unsynced(f->store, LAKE_STR("p/q/o3"), bytes_of("y"), &f->err));
    assert_int_equal(storage_fsync_count() - before, 0);
    struct storage_object_info info;
    OK(storage_stat(f->store, LAKE_STR("p/q/o3"), &info, &f->err));
    assert_int_equal(info.size_bytes, 1);
    before = storage_fsync_count();
    assert_int_equal(storage_put_if_absent(f->store, LAKE_STR("p/q/o2"), bytes_of("x"), &f->err),
                     LAKE_ALREADY_EXISTS);
    assert_int_equal(storage_fsync_count() - before, 0);
}

static void writer_streams_and_shows_nothing_before_its_commit(void **state)
{
    struct fixture *f = *state;
    struct storage_writer *writer;
    OK(storage_writer_open(f->store, LAKE_STR("big/o"), true, &writer, &f->err));
    /* Sizes around the buffer's and the write-through's borders. */
    static const size_t sizes[] = {1,      7,      65535,  65536,    65537, 262143,
                                   262144, 262145, 700000, 10000000, 0,     3};
    uint8_t *piece = malloc(10000000);
    size_t total = 0;
    for (size_t i = 0; i < BASE_ARRAY_LEN(sizes); i++) {
        for (size_t j = 0; j < sizes[i]; j++)
            piece[j] = (uint8_t)((total + j) % 251);
        OK(storage_writer_write(writer, (struct lake_bytes){piece, sizes[i]}, &f->err));
        total += sizes[i];
        assert_absent(f->store, "big/o");
    }
    uint64_t before = storage_fsync_count();
    OK(storage_writer_commit(writer, &f->err));
    assert_int_equal(storage_fsync_count() - before, 2);
    struct storage_object_info info;
    OK(storage_stat(f->store, LAKE_STR("big/o"), &info, &f->err));
    assert_int_equal(info.size_bytes, total);
    uint8_t *back = malloc(total);
    OK(storage_read_range(f->store, LAKE_STR("big/o"), 0, total, back, &f->err));
    for (size_t i = 0; i < total; i++) {
        if (back[i] != i % 251)
            fail_msg("byte %zu differs", i);
    }
    free(back);
    free(piece);
}

static void writer_that_loses_or_is_aborted_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct storage_writer *first;
    struct storage_writer *second;
    OK(storage_writer_open(f->store, LAKE_STR("o"), true, &first, &f->err));
    OK(storage_writer_open(f->store, LAKE_STR("o"), true, &second, &f->err));
    OK(storage_writer_write(first, bytes_of("first"), &f->err));
    OK(storage_writer_write(second, bytes_of("second"), &f->err));
    OK(storage_writer_commit(second, &f->err));
    assert_int_equal(storage_writer_commit(first, &f->err), LAKE_ALREADY_EXISTS);
    assert_content(f->store, "o", "second");
    OK(storage_writer_open(f->store, LAKE_STR("p"), false, &first, &f->err));
    OK(storage_writer_write(first, bytes_of("x"), &f->err));
    storage_writer_abort(first);
    storage_writer_abort(NULL);
    assert_absent(f->store, "p");
    assert_int_equal(count_temporaries(f->directory.path), 0);
}

static void symbolic_links_are_never_followed(void **state)
{
    struct fixture *f = *state;
    struct temp_directory outside = temp_directory_make();
    char target[600];
    char link_path[300];
    (void)snprintf(target, sizeof(target), "%s/secret", outside.path);
    int fd = open(target, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "outside", 7), 7);
    (void)close(fd);
    (void)snprintf(link_path, sizeof(link_path), "%s/file-link", f->directory.path);
    assert_int_equal(symlink(target, link_path), 0);
    (void)snprintf(link_path, sizeof(link_path), "%s/dir-link", f->directory.path);
    assert_int_equal(symlink(outside.path, link_path), 0);
    for (int with_openat2 = 0; with_openat2 < 2; with_openat2++) {
        bool had = local_system.has_openat2;
        local_system.has_openat2 = with_openat2 && had;
        uint8_t byte;
        struct storage_object_info info;
        static const char *const keys[] = {"file-link", "dir-link/secret"};
        for (size_t i = 0; i < BASE_ARRAY_LEN(keys); i++) {
            struct lake_str key = base_str_of(keys[i]);
            assert_int_equal(storage_read_range(f->store, key, 0, 1, &byte, &f->err),
                             LAKE_PERMISSION_DENIED);
            assert_non_null(strstr(f->err.message, "symbolic link"));
            assert_int_not_equal(storage_stat(f->store, key, &info, &f->err), LAKE_OK);
        }
        assert_int_equal(storage_put(f->store, LAKE_STR("dir-link/new"), bytes_of("x"), &f->err),
                         LAKE_PERMISSION_DENIED);
        assert_int_equal(storage_put(f->store, LAKE_STR("dir-link/d/new"), bytes_of("x"), &f->err),
                         LAKE_PERMISSION_DENIED);
        assert_int_equal(storage_remove(f->store, LAKE_STR("dir-link/secret"), &f->err),
                         LAKE_PERMISSION_DENIED);
        struct storage_list_page page;
        OK(storage_list(f->store, LAKE_STR(""), LAKE_STR(""), 10, &page, &f->err));
        assert_int_equal(page.count, 0);
        storage_list_page_fini(&page);
        local_system.has_openat2 = had;
    }
    assert_int_equal(access(target, F_OK), 0);
    temp_directory_remove(&outside);
}

static void store_works_without_openat2(void **state)
{
    struct fixture *f = *state;
    bool had = local_system.has_openat2;
    local_system.has_openat2 = false;
    OK(storage_put(f->store, LAKE_STR("a/b/c"), bytes_of("x"), &f->err));
    assert_content(f->store, "a/b/c", "x");
    assert_absent(f->store, "a/b");
    assert_absent(f->store, "a/b/c/d");
    assert_absent(f->store, "a/none/c");
    char name[301];
    memset(name, 'n', 300);
    name[300] = '\0';
    assert_int_equal(storage_put(f->store, base_str_of(name), bytes_of("x"), &f->err),
                     LAKE_INVALID_ARGUMENT);
    local_system.has_openat2 = had;
}

static void sweep_takes_the_dead_and_leaves_the_living_and_the_young(void **state)
{
    struct fixture *f = *state;
    struct storage_store *child;
    struct storage_store *grandchild;
    OK(storage_put(f->store, LAKE_STR("d/e/o"), bytes_of("x"), &f->err));
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/d/e/.tmp-dead", f->directory.path);
    (void)close(open(path, O_WRONLY | O_CREAT, 0600));
    struct storage_writer *living;
    OK(storage_writer_open(f->store, LAKE_STR("d/e/p"), false, &living, &f->err));
    OK(storage_child_open(f->store, LAKE_STR("d"), &child, &f->err));
    OK(storage_child_open(child, LAKE_STR("e/"), &grandchild, &f->err));
    uint64_t removed = 9;
    OK(storage_local_sweep(f->store, 60000, &removed, &f->err));
    assert_int_equal(removed, 0); /* too young */
    OK(storage_local_sweep(grandchild, 0, &removed, &f->err));
    assert_int_equal(removed, 1);
    assert_int_equal(count_temporaries(f->directory.path), 1);
    OK(storage_writer_commit(living, &f->err));
    assert_content(f->store, "d/e/o", "x");
    assert_int_equal(count_temporaries(f->directory.path), 0);
    storage_store_unref(grandchild);
    storage_store_unref(child);
}

static void child_store_is_the_part_below_its_prefix(void **state)
{
    struct fixture *f = *state;
    struct storage_store *child;
    OK(storage_child_open(f->store, LAKE_STR("a/b"), &child, &f->err));
    char uri[400];
    (void)snprintf(uri, sizeof(uri), "file://%s/a/b", f->directory.path);
    assert_string_equal(storage_store_uri(child), uri);
    OK(storage_put(child, LAKE_STR("c"), bytes_of("1"), &f->err));
    OK(storage_put_if_absent(child, LAKE_STR("d/e"), bytes_of("2"), &f->err));
    struct storage_writer *writer;
    OK(storage_writer_open(child, LAKE_STR("w"), true, &writer, &f->err));
    OK(storage_writer_write(writer, bytes_of("3"), &f->err));
    OK(storage_writer_commit(writer, &f->err));
    assert_content(f->store, "a/b/c", "1");
    assert_content(child, "d/e", "2");
    assert_content(f->store, "a/b/w", "3");
    OK(storage_put(f->store, LAKE_STR("a/z"), bytes_of("x"), &f->err));
    struct storage_list_page page;
    OK(storage_list(child, LAKE_STR(""), LAKE_STR("c"), 10, &page, &f->err));
    assert_int_equal(page.count, 2);
    assert_string_equal(page.entries[0].key, "d/e");
    assert_string_equal(page.entries[1].key, "w");
    storage_list_page_fini(&page);
    OK(storage_remove(child, LAKE_STR("c"), &f->err));
    assert_absent(f->store, "a/b/c");
    assert_int_equal(storage_put(child, LAKE_STR("../z"), bytes_of("x"), &f->err),
                     LAKE_INVALID_ARGUMENT);
    char key[STORAGE_MAX_KEY_BYTES];
    memset(key, 'k', sizeof(key));
    assert_int_equal(
        storage_put(child, (struct lake_str){key, sizeof(key) - 3}, bytes_of("x"), NULL),
        LAKE_INVALID_ARGUMENT);
    storage_store_unref(child);
    static const char *const bad[] = {"", "/", "..", "a//b", "/a"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++)
        assert_int_equal(storage_child_open(f->store, base_str_of(bad[i]), &child, &f->err),
                         LAKE_INVALID_ARGUMENT);
}

/* ---- files that stay open ---- */

#define LARGE 8192 /* above what is not worth keeping open */

static void put_large(struct fixture *f, const char *key, char fill)
{
    static char data[LARGE];
    memset(data, fill, sizeof(data));
    OK(storage_put_unsynced(f->store, base_str_of(key), (struct lake_bytes){(uint8_t *)data, LARGE},
                            &f->err));
}

static char first_byte(struct fixture *f, const char *key)
{
    uint8_t out[1];
    OK(storage_read_range(f->store, base_str_of(key), 0, 1, out, &f->err));
    return (char)out[0];
}

static size_t open_descriptors(void)
{
    size_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static void a_replaced_or_removed_object_is_seen_at_the_next_read(void **state)
{
    struct fixture *f = *state;
    uint8_t out[1];
    for (const char *fill = "abcd"; *fill != '\0'; fill++) {
        put_large(f, "x/large", *fill);
        assert_int_equal(first_byte(f, "x/large"), *fill);
        assert_int_equal(first_byte(f, "x/large"), *fill);
    }
    OK(storage_remove(f->store, LAKE_STR("x/large"), &f->err));
    assert_int_equal(storage_read_range(f->store, LAKE_STR("x/large"), 0, 1, out, &f->err),
                     LAKE_NOT_FOUND);
    put_large(f, "x/large", 'z');
    assert_int_equal(first_byte(f, "x/large"), 'z');
}

static void few_files_stay_open_and_none_after_the_store(void **state)
{
    struct fixture *f = *state;
    struct storage_store *store;
    size_t before = open_descriptors();
    char key[32];
    OK(storage_child_open(f->store, LAKE_STR("many"), &store, &f->err));
    storage_store_unref(store);
    for (int i = 0; i < 400; i++) {
        (void)snprintf(key, sizeof(key), "many/%d", i);
        put_large(f, key, (char)('a' + i % 26));
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 400; i++) {
            (void)snprintf(key, sizeof(key), "many/%d", i);
            assert_int_equal(first_byte(f, key), 'a' + i % 26);
        }
    }
    assert_in_range(open_descriptors() - before, 100, 140);
    storage_store_unref(f->store);
    assert_true(open_descriptors() <= before);
    OK(storage_local_open(f->directory.path, true, &f->store, &f->err));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(keys_are_relative_paths_without_tricks),
        TEST(bad_keys_are_refused_by_every_operation),
        TEST(object_is_read_back_whole_and_in_ranges),
        TEST(read_all_refuses_above_the_buffers_limit_before_reading),
        TEST(what_is_not_there_is_not_found),
        TEST(store_is_made_with_its_parents_and_says_where_it_is),
        TEST(case_L06_removing_twice_succeeds),
        TEST(put_overwrites_and_put_if_absent_does_not),
        TEST(put_costs_two_syncs_and_one_for_each_new_directory),
        TEST(writer_streams_and_shows_nothing_before_its_commit),
        TEST(writer_that_loses_or_is_aborted_leaves_nothing),
        TEST(symbolic_links_are_never_followed),
        TEST(store_works_without_openat2),
        TEST(sweep_takes_the_dead_and_leaves_the_living_and_the_young),
        TEST(child_store_is_the_part_below_its_prefix),
        TEST(a_replaced_or_removed_object_is_seen_at_the_next_read),
        TEST(few_files_stay_open_and_none_after_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
