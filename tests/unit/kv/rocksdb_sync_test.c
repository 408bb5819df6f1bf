/* labels: concurrent */
/*
 * What is on disk when a commit is acknowledged. This program's fdatasync and fsync stand before
 * the C library's: they note how much of each file has been synced, so that a power cut can be
 * played by copying only that, and they can fail or be slow.
 */
#define _GNU_SOURCE
#include "kv_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define MAX_FILES      256
#define BYTES_OF_CHURN (1024 * 1024)

int fdatasync(int fd);
int fsync(int fd);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards synced, synced_count */
static struct {
    ino_t inode;
    off_t size;
} synced[MAX_FILES];
static size_t synced_count;
static atomic_int log_syncs;
static atomic_bool log_syncs_fail;
static atomic_int log_sync_delay_ms;

static atomic_bool tables_wait;

static bool has_suffix(int fd, const char *suffix)
{
    char link[64];
    char path[600];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof(path));
    return size > 4 && memcmp(path + size - 4, suffix, 4) == 0;
}

static int sync_and_note(int fd, long call)
{
    struct stat info;
    while (atomic_load(&tables_wait) && has_suffix(fd, ".sst"))
        base_sleep_ms(1);
    if (has_suffix(fd, ".log")) {
        (void)atomic_fetch_add(&log_syncs, 1);
        base_sleep_ms(atomic_load(&log_sync_delay_ms));
        if (atomic_load(&log_syncs_fail)) {
            errno = EIO;
            return -1;
        }
    }
    /* The size before the sync: bytes written meanwhile may not be part of it. */
    bool known = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    int result = (int)syscall(call, fd);
    if (result != 0 || !known)
        return result;
    (void)pthread_mutex_lock(&lock);
    size_t i = 0;
    while (i < synced_count && synced[i].inode != info.st_ino)
        i++;
    if (i < MAX_FILES) {
        synced[i].inode = info.st_ino;
        synced[i].size = info.st_size;
        synced_count = BASE_MAX(synced_count, i + 1);
    }
    (void)pthread_mutex_unlock(&lock);
    return 0;
}

int fdatasync(int fd)
{
    return sync_and_note(fd, SYS_fdatasync);
}

int fsync(int fd)
{
    return sync_and_note(fd, SYS_fsync);
}

static off_t synced_size(ino_t inode)
{
    off_t size = 0;
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < synced_count; i++)
        size = synced[i].inode == inode ? synced[i].size : size;
    (void)pthread_mutex_unlock(&lock);
    return size;
}

/* Copies of every file only what had been synced. */
static void copy_as_after_a_power_cut(const char *from, const char *to)
{
    temp_tree_remove(to);
    assert_int_equal(mkdir(to, 0700), 0);
    DIR *dir = opendir(from);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[700];
        struct stat info;
        (void)snprintf(path, sizeof(path), "%s/%s", from, entry->d_name);
        if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
            continue;
        size_t size = (size_t)synced_size(info.st_ino);
        uint8_t *data = malloc(size + 1);
        int fd = open(path, O_RDONLY);
        assert_int_equal(read(fd, data, size), (ssize_t)size);
        (void)close(fd);
        (void)snprintf(path, sizeof(path), "%s/%s", to, entry->d_name);
        fd = open(path, O_WRONLY | O_CREAT, 0600);
        assert_int_equal(write(fd, data, size), (ssize_t)size);
        (void)close(fd);
        free(data);
    }
    (void)closedir(dir);
}

static void case_M05_power_cut_after_any_commit_keeps_all_acknowledged(void **state)
{
    struct fixture *f = *state;
    char copy[400];
    (void)snprintf(copy, sizeof(copy), "%s/copy", f->directory.path);
    for (int n = 0; n < 30; n++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", n);
        OK(put_one(f->store, key, key));
        copy_as_after_a_power_cut(f->path, copy);
        struct kv_store *store;
        lake_status status = kv_rocksdb_open(copy, &store, &f->err);
        if (status != LAKE_OK)
            fail_msg("after commit %d: %s: %s", n, f->err.message, f->err.cause);
        for (int i = 0; i <= n; i++) {
            (void)snprintf(key, sizeof(key), "k%d", i);
            assert_value(store, key, key);
        }
        kv_close(store);
    }
}

static void every_commit_alone_costs_one_sync(void **state)
{
    struct fixture *f = *state;
    OK(put_one(f->store, "a", "1"));
    int before = atomic_load(&log_syncs);
    for (int i = 0; i < 20; i++)
        OK(put_one(f->store, "a", "1"));
    assert_int_equal(atomic_load(&log_syncs) - before, 20);
    struct kv_condition condition = {KV_ABSENT, bytes_of("a"), {NULL, 0}};
    struct kv_write write = put_of("b", "1");
    assert_int_equal(kv_commit(f->store, &condition, 1, &write, 1, NULL, NULL), LAKE_ABORTED);
    assert_int_equal(atomic_load(&log_syncs) - before, 20); /* nothing written, nothing synced */
}

struct counter {
    struct kv_store *store;
    int increments;
    int conflicts;
};

/* Adds one to a shared counter, by compare and set. */
static void *increment(void *argument)
{
    struct counter *counter = argument;
    struct base_buffer buffer;
    base_buffer_init(&buffer, 32);
    for (int done = 0; done < 25;) {
        char next[24];
        uint64_t value = 0;
        if (kv_get(counter->store, bytes_of("counter"), &buffer, NULL) != LAKE_OK ||
            !base_str_to_u64((struct lake_str){(char *)buffer.data, buffer.size}, &value))
            break;
        (void)snprintf(next, sizeof(next), "%llu", (unsigned long long)value + 1);
        struct kv_condition condition = {KV_EQUALS, bytes_of("counter"), base_buffer_view(&buffer)};
        struct kv_write write = put_of("counter", next);
        lake_status status = kv_commit(counter->store, &condition, 1, &write, 1, NULL, NULL);
        if (status == LAKE_OK)
            done++;
        counter->increments += status == LAKE_OK;
        counter->conflicts += status == LAKE_ABORTED;
        if (status != LAKE_OK && status != LAKE_ABORTED)
            break;
    }
    base_buffer_fini(&buffer);
    return NULL;
}

static void concurrent_increments_lose_nothing(void **state)
{
    struct fixture *f = *state;
    struct counter counters[6];
    pthread_t threads[6];
    OK(put_one(f->store, "counter", "0"));
    for (int i = 0; i < 6; i++) {
        counters[i] = (struct counter){f->store, 0, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, increment, &counters[i]), 0);
    }
    int conflicts = 0;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(counters[i].increments, 25);
        conflicts += counters[i].conflicts;
    }
    assert_value(f->store, "counter", "150");
    assert_true(conflicts > 0); /* they did meet */
}

static void *put_many(void *argument)
{
    struct counter *counter = argument;
    for (int i = 0; i < 20; i++)
        counter->increments += put_one(counter->store, "same", "v") == LAKE_OK;
    return NULL;
}

static void concurrent_commits_to_one_key_share_syncs(void **state)
{
    struct fixture *f = *state;
    struct counter counters[8];
    pthread_t threads[8];
    int before = atomic_load(&log_syncs);
    atomic_store(&log_sync_delay_ms, 3);
    for (int i = 0; i < 8; i++) {
        counters[i] = (struct counter){f->store, 0, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, put_many, &counters[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(counters[i].increments, 20);
    }
    atomic_store(&log_sync_delay_ms, 0);
    assert_true(atomic_load(&log_syncs) - before <= 80); /* of 160 commits */
}

static void failed_sync_is_an_unknown_outcome_and_stops_commits_until_reopened(void **state)
{
    struct fixture *f = *state;
    OK(put_one(f->store, "a", "before"));
    struct kv_write write = put_of("a", "after");
    atomic_store(&log_syncs_fail, true);
    assert_int_equal(kv_commit(f->store, NULL, 0, &write, 1, NULL, &f->err), LAKE_OUTCOME_UNKNOWN);
    atomic_store(&log_syncs_fail, false);
    assert_int_equal(kv_commit(f->store, NULL, 0, &write, 1, NULL, &f->err), LAKE_UNAVAILABLE);
    assert_non_null(strstr(f->err.message, "restart"));
    assert_value(f->store, "a", "before"); /* reading goes on */
    fixture_reopen(f);
    OK(put_one(f->store, "a", "later"));
    assert_value(f->store, "a", "later");
}

static void fault_points_stand_before_and_after_the_write(void **state)
{
    struct fixture *f = *state;
    OK(base_fault_configure("kv.write:1:error,kv.written:1:error", &f->err));
    struct kv_write write = put_of("a", "1");
    assert_int_equal(kv_commit(f->store, NULL, 0, &write, 1, NULL, &f->err), LAKE_UNAVAILABLE);
    assert_value(f->store, "a", NULL);
    assert_int_equal(kv_commit(f->store, NULL, 0, &write, 1, NULL, &f->err), LAKE_OUTCOME_UNKNOWN);
    assert_value(f->store, "a", "1");
    OK(base_fault_configure(NULL, NULL));
    OK(put_one(f->store, "a", "2"));
}

/* A database with two logs, since the flush of the older one waits for its table to be synced. */
static void copy_with_two_logs(struct fixture *f, const char *copy)
{
    uint8_t *value = malloc(BYTES_OF_CHURN);
    memset(value, 'v', BYTES_OF_CHURN);
    atomic_store(&tables_wait, true);
    int n = 0;
    while (n < 100 && find_logs(f->path, 0, NULL, 0) < 2) {
        char key[16];
        (void)snprintf(key, sizeof(key), "n%02d", n++);
        struct kv_write write = {KV_PUT, bytes_of(key), {value, BYTES_OF_CHURN}};
        OK(kv_commit(f->store, NULL, 0, &write, 1, NULL, &f->err));
    }
    free(value);
    copy_directory(f->path, copy);
    atomic_store(&tables_wait, false);
    assert_int_equal(find_logs(copy, 0, NULL, 0), 2);
}

/* What a restored disk snapshot can look like. In the last log a torn end is what a kill leaves;
 * in an older one it is lost data. */
static void case_M07_older_log_cut_short_or_missing_is_refused(void **state)
{
    struct fixture *f = *state;
    char copy[400];
    char damaged[400];
    char log[500];
    struct kv_store *store;
    (void)snprintf(copy, sizeof(copy), "%s/copy", f->directory.path);
    (void)snprintf(damaged, sizeof(damaged), "%s/damaged", f->directory.path);
    copy_with_two_logs(f, copy);

    copy_directory(copy, damaged);
    (void)find_logs(damaged, 0, log, sizeof(log));
    assert_int_equal(truncate(log, size_of(log) - BYTES_OF_CHURN / 2), 0);
    assert_int_equal(kv_rocksdb_open(damaged, &store, &f->err), LAKE_DATA_LOSS);
    assert_non_null(strstr(f->err.message, "backup"));

    copy_directory(copy, damaged);
    assert_int_equal(unlink(log), 0);
    assert_int_equal(kv_rocksdb_open(damaged, &store, &f->err), LAKE_DATA_LOSS);

    OK(kv_rocksdb_open(copy, &store, &f->err)); /* undamaged, it opens */
    struct kv_page page;
    OK(kv_scan(store, bytes_of("n"), bytes_of(""), 100, SIZE_MAX, &page, &f->err));
    assert_true(page.count > 10);
    kv_page_fini(&page);
    kv_close(store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(case_M05_power_cut_after_any_commit_keeps_all_acknowledged),
        TEST(case_M07_older_log_cut_short_or_missing_is_refused),
        TEST(every_commit_alone_costs_one_sync),
        TEST(concurrent_increments_lose_nothing),
        TEST(concurrent_commits_to_one_key_share_syncs),
        TEST(failed_sync_is_an_unknown_outcome_and_stops_commits_until_reopened),
        TEST(fault_points_stand_before_and_after_the_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
