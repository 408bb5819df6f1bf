/* labels: concurrent */
/*
 * Killed processes and damaged logs: what was acknowledged is there, what is damaged is refused.
 * The committing process is this program again, run afresh: RocksDB's threads do not survive fork.
 */
#include "kv_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define KILLS   60
#define WRITERS 2

/* ---- the committing process ---- */

struct committer {
    struct kv_store *store;
    int id;
    uint64_t from;
};

/* Commits n, n + 1, … under two keys at once, and acknowledges each on standard output. */
static void *commit_until_killed(void *argument)
{
    struct committer *committer = argument;
    for (uint64_t n = committer->from;; n++) {
        char left[16];
        char right[16];
        char number[24];
        (void)snprintf(left, sizeof(left), "left%d", committer->id);
        (void)snprintf(right, sizeof(right), "right%d", committer->id);
        (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)n);
        struct kv_write writes[] = {put_of(left, number), put_of(right, number)};
        if (kv_commit(committer->store, NULL, 0, writes, 2, NULL, NULL) != LAKE_OK)
            _exit(3);
        uint64_t acknowledged[2] = {(uint64_t)committer->id, n};
        if (write(STDOUT_FILENO, acknowledged, sizeof(acknowledged)) != sizeof(acknowledged))
            _exit(4);
    }
    return NULL;
}

static uint64_t stored_number(struct kv_store *store, const char *name, int id)
{
    char key[16];
    struct base_buffer buffer;
    uint64_t number = 0;
    (void)snprintf(key, sizeof(key), "%s%d", name, id);
    base_buffer_init(&buffer, 100);
    if (kv_get(store, bytes_of(key), &buffer, NULL) == LAKE_OK)
        (void)base_str_to_u64((struct lake_str){(char *)buffer.data, buffer.size}, &number);
    base_buffer_fini(&buffer);
    return number;
}

static int run_committers(const char *path)
{
    static struct committer committers[WRITERS];
    struct lake_error err = {0};
    struct kv_store *store;
    pthread_t thread;
    if (kv_rocksdb_open(path, &store, &err) != LAKE_OK) {
        (void)fprintf(stderr, "%s: %s\n", err.message, err.cause);
        return 2;
    }
    for (int i = 0; i < WRITERS; i++) {
        committers[i] = (struct committer){store, i, stored_number(store, "left", i) + 1};
        if (pthread_create(&thread, NULL, commit_until_killed, &committers[i]) != 0)
            return 2;
    }
    (void)pthread_join(thread, NULL);
    return 2;
}

static pid_t start_committers(const char *path, int *acknowledgements)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)execl("/proc/self/exe", "rocksdb_crash_test", "commit", path, (char *)NULL);
        _exit(5);
    }
    (void)close(ends[1]);
    *acknowledgements = ends[0];
    return child;
}

/* ---- M04, M06 ---- */

static void case_M04_killed_at_any_moment_it_opens_with_every_acknowledged_commit(void **state)
{
    struct fixture *f = *state;
    kv_close(f->store);
    f->store = NULL;
    uint64_t acknowledged[WRITERS] = {0};
    uint64_t total = 0;
    for (int round = 0; round < KILLS; round++) {
        int pipe_end;
        pid_t child = start_committers(f->path, &pipe_end);
        uint64_t record[2];
        uint64_t seen = 0;
        /* Dies after a different number of commits each round, in the middle of the next. */
        while (read(pipe_end, record, sizeof(record)) == (ssize_t)sizeof(record)) {
            assert_true(record[0] < WRITERS && record[1] == acknowledged[record[0]] + 1);
            acknowledged[record[0]] = record[1];
            if (++seen == (uint64_t)(1 + round % 17))
                assert_int_equal(kill(child, SIGKILL), 0);
        }
        (void)close(pipe_end);
        int result;
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFSIGNALED(result));
        total += seen;

        struct kv_store *store;
        lake_status status = kv_rocksdb_open(f->path, &store, &f->err);
        if (status != LAKE_OK)
            fail_msg("round %d: %s: %s", round, f->err.message, f->err.cause);
        for (int i = 0; i < WRITERS; i++) {
            uint64_t left = stored_number(store, "left", i);
            assert_true(left == acknowledged[i] || left == acknowledged[i] + 1);
            assert_true(stored_number(store, "right", i) == left); /* both or neither */
            acknowledged[i] = left; /* the next round goes on from here */
        }
        kv_close(store);
    }
    assert_true(total >= KILLS);
}

static void directory_of_a_living_process_is_refused_until_it_dies(void **state)
{
    struct fixture *f = *state;
    kv_close(f->store);
    f->store = NULL;
    int pipe_end;
    pid_t child = start_committers(f->path, &pipe_end);
    uint64_t record[2];
    assert_int_equal(read(pipe_end, record, sizeof(record)), sizeof(record)); /* it is open there */
    assert_int_equal(kv_rocksdb_open(f->path, &f->store, &f->err), LAKE_FAILED_PRECONDITION);
    assert_non_null(strstr(f->err.message, "is in use by another process"));
    assert_non_null(strstr(f->err.message, f->path));
    assert_int_equal(kill(child, SIGKILL), 0);
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    (void)close(pipe_end);
    OK(kv_rocksdb_open(f->path, &f->store, &f->err));
}

/* ---- damaged logs ---- */

/* A database of a killed process: ten commits in its log, none in tables. */
static void make_killed_database(struct fixture *f, char *copy, size_t room)
{
    for (int i = 0; i < 10; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        OK(put_one(f->store, key, "0123456789012345678901234567890123456789"));
    }
    (void)snprintf(copy, room, "%s/copy", f->directory.path);
    copy_directory(f->path, copy);
}

static void case_M04_log_cut_anywhere_in_its_last_record_opens(void **state)
{
    struct fixture *f = *state;
    char copy[400];
    char log[500];
    make_killed_database(f, copy, sizeof(copy));
    (void)find_logs(copy, 0, log, sizeof(log));
    off_t whole = size_of(log);
    /* A record of one put: 7 bytes of header, 12 of batch, then key and value: more than 60. */
    for (off_t cut = 1; cut <= 60; cut++) {
        struct kv_store *store;
        copy_directory(f->path, copy);
        assert_int_equal(truncate(log, whole - cut), 0);
        OK(kv_rocksdb_open(copy, &store, &f->err));
        assert_value(store, "k8", "0123456789012345678901234567890123456789");
        assert_value(store, "k9", NULL);
        kv_close(store);
    }
}

static void case_M07_damage_in_the_middle_of_a_log_is_refused_with_advice(void **state)
{
    struct fixture *f = *state;
    char copy[400];
    char log[500];
    make_killed_database(f, copy, sizeof(copy));
    (void)find_logs(copy, 0, log, sizeof(log));
    off_t middle = size_of(log) / 2;
    int fd = open(log, O_RDWR);
    uint8_t byte;
    assert_int_equal(pread(fd, &byte, 1, middle), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, middle), 1);
    for (int attempt = 0; attempt < 2; attempt++) { /* the refusal changes nothing */
        struct kv_store *store;
        assert_int_equal(kv_rocksdb_open(copy, &store, &f->err), LAKE_DATA_LOSS);
        assert_non_null(strstr(f->err.message, "backup"));
        assert_non_null(strstr(f->err.message, copy));
    }
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, middle), 1);
    (void)close(fd);
    struct kv_store *store;
    OK(kv_rocksdb_open(copy, &store, &f->err));
    assert_value(store, "k9", "0123456789012345678901234567890123456789");
    kv_close(store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "commit") == 0)
        return run_committers(argv[2]);
    const struct CMUnitTest tests[] = {
        TEST(case_M04_killed_at_any_moment_it_opens_with_every_acknowledged_commit),
        TEST(directory_of_a_living_process_is_refused_until_it_dies),
        TEST(case_M04_log_cut_anywhere_in_its_last_record_opens),
        TEST(case_M07_damage_in_the_middle_of_a_log_is_refused_with_advice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
