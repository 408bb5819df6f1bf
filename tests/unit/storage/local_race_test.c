/* labels: concurrent */
/* Several processes and threads on one local store, and processes that are killed. */
#include "local.h"
#include "storage_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PROCESSES 3
#define ROUNDS    150

struct shared {
    atomic_int arrived[ROUNDS];
    int winner[ROUNDS][PROCESSES]; /* 1: that process won */
};

/* Each round starts when all have come, so that the puts really meet. */
static void race(struct shared *shared, struct storage_store *store, int me)
{
    for (int round = 0; round < ROUNDS; round++) {
        char key[32];
        char value[2] = {(char)('0' + me), '\0'};
        (void)snprintf(key, sizeof(key), "v/%d", round);
        (void)atomic_fetch_add(&shared->arrived[round], 1);
        while (atomic_load(&shared->arrived[round]) < PROCESSES)
            (void)sched_yield();
        lake_status status = storage_put_if_absent(store, base_str_of(key), bytes_of(value), NULL);
        if (status != LAKE_OK && status != LAKE_ALREADY_EXISTS)
            _exit(1);
        shared->winner[round][me] = status == LAKE_OK;
    }
}

static void assert_one_winner_a_round(struct fixture *f, const struct shared *shared)
{
    int wins[PROCESSES] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        int winners = 0;
        int winner = 0;
        for (int i = 0; i < PROCESSES; i++) {
            winners += shared->winner[round][i];
            winner = shared->winner[round][i] ? i : winner;
        }
        assert_int_equal(winners, 1);
        wins[winner]++;
        char key[32];
        char value[2] = {(char)('0' + winner), '\0'};
        (void)snprintf(key, sizeof(key), "v/%d", round);
        assert_content(f->store, key, value);
    }
    assert_int_equal(count_temporaries(f->directory.path), 0);
}

static void of_racing_processes_exactly_one_puts(void **state)
{
    struct fixture *f = *state;
    for (int with_renameat2 = 0; with_renameat2 < 2; with_renameat2++) {
        local_system.has_renameat2 = with_renameat2;
        struct shared *shared =
            mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(shared, MAP_FAILED);
        pid_t children[PROCESSES];
        for (int i = 0; i < PROCESSES; i++) {
            children[i] = fork();
            if (children[i] == 0) {
                race(shared, f->store, i);
                _exit(0);
            }
        }
        for (int i = 0; i < PROCESSES; i++) {
            int result;
            assert_int_equal(waitpid(children[i], &result, 0), children[i]);
            assert_int_equal(result, 0);
        }
        assert_one_winner_a_round(f, shared);
        assert_int_equal(munmap(shared, sizeof(*shared)), 0);
        local_system.has_renameat2 = true;
        char path[300];
        (void)snprintf(path, sizeof(path), "%s/v", f->directory.path);
        temp_tree_remove(path);
    }
}

struct thread_race {
    struct shared *shared;
    struct storage_store *store;
    int me;
};

static void *race_in_thread(void *argument)
{
    struct thread_race *race_of = argument;
    race(race_of->shared, race_of->store, race_of->me);
    return NULL;
}

static void of_racing_threads_exactly_one_puts(void **state)
{
    struct fixture *f = *state;
    static struct shared shared;
    struct thread_race races[PROCESSES];
    pthread_t threads[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        races[i] = (struct thread_race){&shared, f->store, i};
        assert_int_equal(pthread_create(&threads[i], NULL, race_in_thread, &races[i]), 0);
    }
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_one_winner_a_round(f, &shared);
}

/* The child puts objects of 100 kB, each of one repeated letter, until it is killed. */
static void write_until_killed(struct storage_store *store)
{
    static uint8_t data[100000];
    for (int i = 0;; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "k/%d", i);
        memset(data, 'a' + i % 26, sizeof(data));
        if (storage_put_if_absent(store, base_str_of(key), (struct lake_bytes){data, sizeof(data)},
                                  NULL) != LAKE_OK)
            _exit(1);
    }
}

static void assert_every_object_is_whole(struct fixture *f)
{
    static uint8_t data[100000];
    struct storage_list_page page;
    OK(storage_list(f->store, LAKE_STR("k/"), LAKE_STR(""), 1000, &page, &f->err));
    for (size_t i = 0; i < page.count; i++) {
        struct lake_str key = base_str_of(page.entries[i].key);
        uint64_t number;
        assert_true(base_str_to_u64((struct lake_str){key.data + 2, key.size - 2}, &number));
        assert_int_equal(page.entries[i].size_bytes, sizeof(data));
        OK(storage_read_range(f->store, key, 0, sizeof(data), data, &f->err));
        for (size_t j = 0; j < sizeof(data); j++) {
            if (data[j] != 'a' + number % 26)
                fail_msg("object %zu is torn at byte %zu", i, j);
        }
    }
    storage_list_page_fini(&page);
}

static void killed_writers_leave_whole_objects_and_sweepable_files(void **state)
{
    struct fixture *f = *state;
    size_t left_behind = 0;
    for (int round = 0; round < 40; round++) {
        pid_t child = fork();
        if (child == 0)
            write_until_killed(f->store);
        base_sleep_ms(3 + round % 13);
        assert_int_equal(kill(child, SIGKILL), 0);
        int result;
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFSIGNALED(result));
        assert_every_object_is_whole(f);
        left_behind += count_temporaries(f->directory.path);
        uint64_t removed;
        OK(storage_local_sweep(f->store, 0, &removed, &f->err));
        assert_int_equal(count_temporaries(f->directory.path), 0);
        char path[300];
        (void)snprintf(path, sizeof(path), "%s/k", f->directory.path);
        temp_tree_remove(path);
    }
    print_message("temporary files left behind in 40 kills: %zu\n", left_behind);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

/* Reads meet replacements, removals and each other: what is read is always one object whole. */
struct reading {
    struct storage_store *store;
    atomic_bool stop;
    atomic_int torn;
};

static void *read_on(void *context)
{
    struct reading *reading = context;
    uint8_t out[8192];
    for (int i = 0; !atomic_load(&reading->stop); i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "r/%d", i % 200);
        lake_status status =
            storage_read_range(reading->store, base_str_of(key), 0, sizeof(out), out, NULL);
        if (status == LAKE_OK && memcmp(out, out + 1, sizeof(out) - 1) != 0)
            (void)atomic_fetch_add(&reading->torn, 1);
        if (status != LAKE_OK && status != LAKE_NOT_FOUND)
            (void)atomic_fetch_add(&reading->torn, 1);
    }
    return NULL;
}

static void reads_of_replaced_objects_are_never_mixed(void **state)
{
    struct fixture *f = *state;
    struct reading reading = {.store = f->store};
    pthread_t threads[3];
    static uint8_t data[8192];
    for (size_t i = 0; i < BASE_ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, &reading), 0);
    for (int i = 0; i < 1000; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "r/%d", i % 200);
        memset(data, i % 250, sizeof(data));
        OK(storage_put_unsynced(f->store, base_str_of(key), (struct lake_bytes){data, sizeof(data)},
                                &f->err));
        if (i % 7 == 0)
            OK(storage_remove(f->store, base_str_of(key), &f->err));
    }
    atomic_store(&reading.stop, true);
    for (size_t i = 0; i < BASE_ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&reading.torn), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(of_racing_processes_exactly_one_puts),
        TEST(of_racing_threads_exactly_one_puts),
        TEST(reads_of_replaced_objects_are_never_mixed),
        TEST(killed_writers_leave_whole_objects_and_sweepable_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
