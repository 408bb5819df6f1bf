/* The local store when the disk is full, calls are cut short, or any step fails. */
#include "local.h"
#include "storage_fixture.h"

#include <errno.h>

static struct local_system real_system;
static int calls;
static struct fixture *watched;
static bool visible_at_data_sync;
static bool visible_at_directory_sync;

/* One byte at a time, every other call interrupted. */
static ssize_t write_haltingly(int fd, const void *data, size_t size)
{
    if (calls++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return write(fd, data, BASE_MIN(size, (size_t)1));
}

static ssize_t read_haltingly(int fd, void *out, size_t size, off_t offset)
{
    if (calls++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return pread(fd, out, BASE_MIN(size, (size_t)1), offset);
}

static ssize_t write_to_a_full_disk(int fd, const void *data, size_t size)
{
    if (calls++ == 0)
        return write(fd, data, size / 2);
    errno = ENOSPC;
    return -1;
}

static int sync_to_a_broken_disk(int fd)
{
    (void)fd;
    errno = EIO;
    return -1;
}

static bool is_visible(const char *name)
{
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/%s", watched->directory.path, name);
    return access(path, F_OK) == 0;
}

static int watch_data_sync(int fd)
{
    visible_at_data_sync = is_visible("o");
    return fdatasync(fd);
}

static int watch_directory_sync(int fd)
{
    visible_at_directory_sync = is_visible("o");
    return fsync(fd);
}

static int set_up(void **state)
{
    int result = fixture_set_up(state);
    real_system = local_system;
    calls = 0;
    watched = *state;
    return result;
}

static int tear_down(void **state)
{
    local_system = real_system;
    base_fault_fail_nth_io(0);
    base_fault_fail_nth_alloc(0);
    return fixture_tear_down(state);
}

static void short_and_interrupted_calls_lose_nothing(void **state)
{
    struct fixture *f = *state;
    local_system.write = write_haltingly;
    local_system.pread = read_haltingly;
    OK(storage_put(f->store, LAKE_STR("o"), bytes_of("0123456789"), &f->err));
    assert_content(f->store, "o", "0123456789");
    struct storage_writer *writer;
    OK(storage_writer_open(f->store, LAKE_STR("w"), false, &writer, &f->err));
    OK(storage_writer_write(writer, bytes_of("abc"), &f->err));
    OK(storage_writer_commit(writer, &f->err));
    assert_content(f->store, "w", "abc");
}

static void full_disk_is_resource_exhausted_and_leaves_no_file(void **state)
{
    struct fixture *f = *state;
    local_system.write = write_to_a_full_disk;
    assert_int_equal(storage_put(f->store, LAKE_STR("o"), bytes_of("0123456789"), &f->err),
                     LAKE_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(f->err.message, "full"));
    struct storage_writer *writer;
    uint8_t *large = calloc(1, 1 << 20);
    OK(storage_writer_open(f->store, LAKE_STR("w"), false, &writer, &f->err));
    assert_int_equal(storage_writer_write(writer, (struct lake_bytes){large, 1 << 20}, &f->err),
                     LAKE_RESOURCE_EXHAUSTED);
    free(large);
    local_system.write = real_system.write;
    /* What was half written must not be published, even if the caller tries. */
    assert_int_equal(storage_writer_commit(writer, &f->err), LAKE_FAILED_PRECONDITION);
    assert_absent(f->store, "o");
    assert_absent(f->store, "w");
    assert_int_equal(count_temporaries(f->directory.path), 0);
}

static void data_that_cannot_be_synced_is_not_published(void **state)
{
    struct fixture *f = *state;
    local_system.fdatasync = sync_to_a_broken_disk;
    assert_int_equal(storage_put(f->store, LAKE_STR("o"), bytes_of("x"), &f->err),
                     LAKE_UNAVAILABLE);
    assert_absent(f->store, "o");
    assert_int_equal(count_temporaries(f->directory.path), 0);
}

static void directory_that_cannot_be_synced_is_an_unknown_outcome(void **state)
{
    struct fixture *f = *state;
    local_system.fsync = sync_to_a_broken_disk;
    assert_int_equal(storage_put_if_absent(f->store, LAKE_STR("o"), bytes_of("x"), &f->err),
                     LAKE_OUTCOME_UNKNOWN);
    assert_non_null(strstr(f->err.cause, "synced"));
    assert_content(f->store, "o", "x");
}

static void data_is_synced_before_it_is_visible_and_its_name_after(void **state)
{
    struct fixture *f = *state;
    local_system.fdatasync = watch_data_sync;
    local_system.fsync = watch_directory_sync;
    visible_at_data_sync = true;
    visible_at_directory_sync = false;
    OK(storage_put_if_absent(f->store, LAKE_STR("o"), bytes_of("x"), &f->err));
    assert_false(visible_at_data_sync);
    assert_true(visible_at_directory_sync);
}

/* One whole life of an object; true when every step succeeded. */
static lake_status live(struct storage_store *store, const char *prefix)
{
    char key[64];
    struct storage_writer *writer = NULL;
    struct storage_list_page page = {.count = 0};
    struct base_buffer buffer;
    base_buffer_init(&buffer, 100);
    (void)snprintf(key, sizeof(key), "%s/d/put", prefix);
    lake_status status = storage_put_if_absent(store, base_str_of(key), bytes_of("x"), NULL);
    if (status == LAKE_OK)
        status = storage_read_all(store, base_str_of(key), &buffer, NULL);
    if (status == LAKE_OK)
        status = storage_put(store, base_str_of(key), bytes_of("y"), NULL);
    (void)snprintf(key, sizeof(key), "%s/d/written", prefix);
    if (status == LAKE_OK)
        status = storage_writer_open(store, base_str_of(key), true, &writer, NULL);
    if (status == LAKE_OK)
        status = storage_writer_write(writer, bytes_of("xyz"), NULL);
    if (status == LAKE_OK)
        status = storage_writer_commit(writer, NULL);
    else
        storage_writer_abort(writer);
    if (status == LAKE_OK)
        status = storage_list(store, base_str_of(prefix), LAKE_STR(""), 1, &page, NULL);
    storage_list_page_fini(&page);
    if (status == LAKE_OK)
        status = storage_remove(store, base_str_of(key), NULL);
    base_buffer_fini(&buffer);
    return status;
}

static void nothing_is_left_behind_whichever_io_fails(void **state)
{
    struct fixture *f = *state;
    uint64_t nth = 1;
    for (bool more = true; more; nth++) {
        char prefix[32];
        (void)snprintf(prefix, sizeof(prefix), "io%d", (int)nth);
        base_fault_fail_nth_io(nth);
        lake_status status = live(f->store, prefix);
        more = base_fault_io_count() >= nth;
        base_fault_fail_nth_io(0);
        if (!more)
            assert_int_equal(status, LAKE_OK);
        else
            assert_true(status == LAKE_UNAVAILABLE || status == LAKE_OUTCOME_UNKNOWN);
        assert_int_equal(count_temporaries(f->directory.path), 0);
    }
    assert_true(nth > 15);
}

static void nothing_is_left_behind_whichever_allocation_fails(void **state)
{
    struct fixture *f = *state;
    uint64_t nth = 1;
    for (bool more = true; more; nth++) {
        char prefix[32];
        struct storage_store *store = NULL;
        (void)snprintf(prefix, sizeof(prefix), "alloc%d", (int)nth);
        base_fault_fail_nth_alloc(nth);
        lake_status status = storage_local_open(f->directory.path, true, &store, NULL);
        struct storage_store *child = NULL;
        if (status == LAKE_OK)
            status = storage_child_open(store, LAKE_STR("c"), &child, NULL);
        if (status == LAKE_OK)
            status = live(child, prefix);
        more = base_fault_alloc_count() >= nth;
        base_fault_fail_nth_alloc(0);
        assert_int_equal(status, more ? LAKE_RESOURCE_EXHAUSTED : LAKE_OK);
        storage_store_unref(child);
        storage_store_unref(store);
        assert_int_equal(count_temporaries(f->directory.path), 0);
    }
    assert_true(nth > 15);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(short_and_interrupted_calls_lose_nothing),
        TEST(full_disk_is_resource_exhausted_and_leaves_no_file),
        TEST(data_that_cannot_be_synced_is_not_published),
        TEST(directory_that_cannot_be_synced_is_an_unknown_outcome),
        TEST(data_is_synced_before_it_is_visible_and_its_name_after),
        TEST(nothing_is_left_behind_whichever_io_fails),
        TEST(nothing_is_left_behind_whichever_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
