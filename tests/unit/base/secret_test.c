/* Secrets and the files they come from; making directories. */
#include "temp_directory.h"
#include <base/base.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static void write_file(const char *path, const char *data, size_t size, mode_t mode)
{
    (void)unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), (ssize_t)size);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static void file_is_read_without_its_last_newline(void **state)
{
    const struct temp_directory *directory = *state;
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/token", directory->path);
    struct base_secret secret;
    struct lake_error err = {0};
    write_file(path, "s3cret\n", 7, 0600);
    assert_int_equal(base_secret_read_file(&secret, path, 7, &err), LAKE_OK);
    assert_int_equal(secret.size, 6);
    assert_true(base_secret_equal(&secret, base_bytes_of_str(LAKE_STR("s3cret"))));
    base_secret_fini(&secret);
    assert_null(secret.data);
    write_file(path, "two\n\n", 5, 0400);
    assert_int_equal(base_secret_read_file(&secret, path, 100, &err), LAKE_OK);
    assert_true(base_secret_equal(&secret, base_bytes_of_str(LAKE_STR("two\n"))));
    base_secret_fini(&secret);
}

static void file_that_is_open_empty_too_long_or_no_file_is_refused(void **state)
{
    const struct temp_directory *directory = *state;
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/token", directory->path);
    struct base_secret secret = {NULL, 0};
    struct lake_error err = {0};
    static const mode_t modes[] = {0640, 0604, 0610, 0601, 0620, 0602};
    for (size_t i = 0; i < BASE_ARRAY_LEN(modes); i++) {
        write_file(path, "abc", 3, modes[i]);
        assert_int_equal(base_secret_read_file(&secret, path, 100, &err), LAKE_FAILED_PRECONDITION);
        assert_non_null(strstr(err.message, "chmod 600"));
        assert_non_null(strstr(err.message, path));
    }
    write_file(path, "", 0, 0600);
    assert_int_equal(base_secret_read_file(&secret, path, 100, &err), LAKE_FAILED_PRECONDITION);
    write_file(path, "\n", 1, 0600);
    assert_int_equal(base_secret_read_file(&secret, path, 100, &err), LAKE_FAILED_PRECONDITION);
    write_file(path, "abcd", 4, 0600);
    assert_int_equal(base_secret_read_file(&secret, path, 3, &err), LAKE_FAILED_PRECONDITION);
    assert_null(strstr(err.message, "abc")); /* never the secret itself */
    assert_int_equal(base_secret_read_file(&secret, directory->path, 100, &err),
                     LAKE_FAILED_PRECONDITION);
    assert_int_equal(base_secret_read_file(&secret, "/nonexistent/token", 100, &err),
                     LAKE_NOT_FOUND);
    (void)unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(base_secret_read_file(&secret, path, 100, &err), LAKE_FAILED_PRECONDITION);
    assert_null(secret.data);
}

static void comparison_needs_the_same_bytes_and_length(void **state)
{
    (void)state;
    struct base_secret secret;
    assert_int_equal(base_secret_copy(&secret, base_bytes_of_str(LAKE_STR("abc")), NULL), LAKE_OK);
    assert_true(base_secret_equal(&secret, base_bytes_of_str(LAKE_STR("abc"))));
    assert_false(base_secret_equal(&secret, base_bytes_of_str(LAKE_STR("abd"))));
    assert_false(base_secret_equal(&secret, base_bytes_of_str(LAKE_STR("ab"))));
    assert_false(base_secret_equal(&secret, (struct lake_bytes){NULL, 0}));
    base_secret_fini(&secret);
    base_fault_fail_nth_alloc(1);
    assert_int_equal(base_secret_copy(&secret, base_bytes_of_str(LAKE_STR("abc")), NULL),
                     LAKE_RESOURCE_EXHAUSTED);
    base_fault_fail_nth_alloc(0);
}

static void directories_are_made_with_those_above(void **state)
{
    const struct temp_directory *directory = *state;
    char path[300];
    struct lake_error err = {0};
    struct stat info;
    (void)snprintf(path, sizeof(path), "%s/x//y/z/", directory->path);
    assert_int_equal(base_make_directories(path, &err), LAKE_OK);
    assert_int_equal(base_make_directories(path, &err), LAKE_OK);
    assert_int_equal(stat(path, &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    assert_int_equal(base_make_directories("/proc/nowhere/x", &err), LAKE_NOT_FOUND);
}

static void directories_survive_every_failing_step(void **state)
{
    const struct temp_directory *directory = *state;
    char path[300];
    uint64_t nth = 1;
    for (bool more = true; more; nth++) {
        (void)snprintf(path, sizeof(path), "%s/n%d/y", directory->path, (int)nth);
        base_fault_fail_nth_io(nth);
        lake_status status = base_make_directories(path, NULL);
        more = base_fault_io_count() >= nth;
        base_fault_fail_nth_io(0);
        assert_int_equal(status, more ? LAKE_UNAVAILABLE : LAKE_OK);
        assert_int_equal(base_make_directories(path, NULL), LAKE_OK);
    }
    assert_true(nth > 4);
}

static int set_up(void **state)
{
    static struct temp_directory directory;
    directory = temp_directory_make();
    *state = &directory;
    return 0;
}

static int tear_down(void **state)
{
    temp_directory_remove(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_is_read_without_its_last_newline),
        cmocka_unit_test(file_that_is_open_empty_too_long_or_no_file_is_refused),
        cmocka_unit_test(comparison_needs_the_same_bytes_and_length),
        cmocka_unit_test(directories_are_made_with_those_above),
        cmocka_unit_test(directories_survive_every_failing_step),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
