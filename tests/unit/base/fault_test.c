/* Fault points. */
#include <base/base.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void unarmed_points_do_nothing(void **state)
{
    (void)state;
    assert_int_equal(base_fault_configure(NULL, NULL), LAKE_OK);
    assert_false(base_fault_armed);
    assert_int_equal(BASE_FAULT("a", NULL), LAKE_OK);
}

static void error_comes_at_the_nth_hit_of_its_name_once(void **state)
{
    (void)state;
    struct lake_error err = {0};
    assert_int_equal(base_fault_configure("a.b:2:error,c:1:error", &err), LAKE_OK);
    assert_true(base_fault_armed);
    assert_int_equal(BASE_FAULT("a.b", &err), LAKE_OK);
    assert_int_equal(BASE_FAULT("a", &err), LAKE_OK);
    assert_int_equal(BASE_FAULT("a.b", &err), LAKE_UNAVAILABLE);
    assert_non_null(strstr(err.message, "a.b"));
    assert_int_equal(BASE_FAULT("a.b", &err), LAKE_OK);
    assert_int_equal(base_fault_io("c", &err), LAKE_UNAVAILABLE);
    assert_int_equal(base_fault_configure("", &err), LAKE_OK);
    assert_false(base_fault_armed);
}

static void stop_waits(void **state)
{
    (void)state;
    assert_int_equal(base_fault_configure("s:1:stop-30", NULL), LAKE_OK);
    int64_t before = base_clock_monotonic_us();
    assert_int_equal(BASE_FAULT("s", NULL), LAKE_OK);
    assert_true(base_clock_monotonic_us() - before >= 30000);
    assert_int_equal(base_fault_configure(NULL, NULL), LAKE_OK);
}

static void kill_ends_the_process_by_sigkill(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        (void)base_fault_configure("k:1:kill", NULL);
        (void)BASE_FAULT("k", NULL);
        _exit(0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFSIGNALED(result));
    assert_int_equal(WTERMSIG(result), SIGKILL);
}

static void pause_waits_to_be_continued(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        (void)base_fault_configure("p:1:pause", NULL);
        (void)BASE_FAULT("p", NULL);
        _exit(7);
    }
    int result;
    assert_int_equal(waitpid(child, &result, WUNTRACED), child);
    assert_true(WIFSTOPPED(result));
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 7);
}

static void malformed_specifications_are_refused_and_change_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "a",        "a:1",       "a:0:kill",   "a:x:kill",    ":1:kill",
        "a:1:burn", "a:1:stop-", "a:1:stop-x", "a:1:kill,,b", "a:1:stop-600001"};
    assert_int_equal(base_fault_configure("keep:1:error", NULL), LAKE_OK);
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++) {
        struct lake_error err = {0};
        assert_int_equal(base_fault_configure(bad[i], &err), LAKE_INVALID_ARGUMENT);
    }
    assert_int_equal(BASE_FAULT("keep", NULL), LAKE_UNAVAILABLE);
    assert_int_equal(base_fault_configure(NULL, NULL), LAKE_OK);
}

static void nth_allocation_fails_once_and_all_are_counted(void **state)
{
    (void)state;
    base_fault_fail_nth_alloc(2);
    void *first = base_alloc(1);
    void *second = base_alloc(1);
    void *third = base_calloc_array(1, 1);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    assert_int_equal(base_fault_alloc_count(), 3);
    base_fault_fail_nth_alloc(0);
    base_free(first);
    base_free(third);
    base_fault_fail_nth_io(1);
    assert_int_equal(base_fault_io("x", NULL), LAKE_UNAVAILABLE);
    assert_int_equal(base_fault_io("x", NULL), LAKE_OK);
    assert_int_equal(base_fault_io_count(), 2);
    base_fault_fail_nth_io(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unarmed_points_do_nothing),
        cmocka_unit_test(error_comes_at_the_nth_hit_of_its_name_once),
        cmocka_unit_test(stop_waits),
        cmocka_unit_test(kill_ends_the_process_by_sigkill),
        cmocka_unit_test(pause_waits_to_be_continued),
        cmocka_unit_test(malformed_specifications_are_refused_and_change_nothing),
        cmocka_unit_test(nth_allocation_fails_once_and_all_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
