/* What Lake reads from PyArrow, and PyArrow from Lake: every type of NAT-2, nulls, slices that
 * start inside a byte, dictionaries that change, compression, the file format. PyArrow is the
 * judge. */
#include <arrow/arrow.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

static char directory[] = "/tmp/lake-ipc-XXXXXX";

static int run(const char *arguments)
{
    char *command = base_format("'%s' '%s/tests/unit/arrow/ipc_fixtures.py' %s", LAKE_PYTHON,
                                LAKE_SOURCE_DIR, arguments);
    int code = system(command);
    base_free(command);
    return code;
}

/* A stream over another that cuts its batches into slices at odd places. */
struct slicing {
    struct ArrowArrayStream from;
    struct ArrowSchema schema;
    struct arrow_batch *batch;
    int64_t position;
    int64_t step;
};

static int slicing_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    struct slicing *slicing = self->private_data;
    return ArrowSchemaDeepCopy(&slicing->schema, out);
}

static int slicing_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    struct slicing *slicing = self->private_data;
    struct lake_error err = {0};
    out->release = NULL;
    if (slicing->batch == NULL) {
        struct ArrowArray array;
        int code = slicing->from.get_next(&slicing->from, &array);
        if (code != 0) {
            fail_msg("%s", slicing->from.get_last_error(&slicing->from));
        }
        if (array.release == NULL) {
            return 0;
        }
        assert_int_equal(arrow_array_validate(&slicing->schema, &array, &err), LAKE_OK);
        if (slicing->step == 0) {
            ArrowArrayMove(&array, out);
            return 0;
        }
        assert_int_equal(arrow_batch_new(&array, &slicing->batch, &err), LAKE_OK);
        slicing->position = 0;
    }
    int64_t left = arrow_batch_array(slicing->batch)->length - slicing->position;
    int64_t length = BASE_MIN(left, slicing->step);
    assert_int_equal(arrow_batch_slice(slicing->batch, slicing->position, length, out, &err),
                     LAKE_OK);
    assert_int_equal(arrow_array_validate(&slicing->schema, out, &err), LAKE_OK);
    slicing->position += length;
    if (length == left) {
        arrow_batch_unref(slicing->batch);
        slicing->batch = NULL;
    }
    return 0;
}

static const char *slicing_error(struct ArrowArrayStream *self)
{
    (void)self;
    return NULL;
}

static void slicing_release(struct ArrowArrayStream *self)
{
    self->release = NULL;
}

/* Reads <name>.arrow and writes <name>.<suffix>, in slices of `step` rows (0: whole). */
static void rewrite(const char *name, const char *suffix, int64_t step)
{
    struct lake_error err = {0};
    struct slicing slicing = {.step = step};
    char *from = base_format("%s/%s.arrow", directory, name);
    char *to = base_format("%s/%s.%s", directory, name, suffix);
    if (arrow_ipc_open_file(from, NULL, &slicing.from, &err) != LAKE_OK) {
        fail_msg("%s: %s", name, err.message);
    }
    assert_int_equal(slicing.from.get_schema(&slicing.from, &slicing.schema), 0);
    struct ArrowArrayStream stream = {slicing_schema, slicing_next, slicing_error, slicing_release,
                                      &slicing};
    int fd = open(to, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    assert_true(fd >= 0);
    if (arrow_ipc_write_fd(&stream, fd, &err) != LAKE_OK) {
        fail_msg("%s: %s", name, err.message);
    }
    close(fd);
    ArrowSchemaRelease(&slicing.schema);
    ArrowArrayStreamRelease(&slicing.from);
    base_free(from);
    base_free(to);
}

static void rewrite_all(const char *suffix, int64_t step)
{
    DIR *entries = opendir(directory);
    assert_non_null(entries);
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        char *dot = strstr(entry->d_name, ".arrow");
        if (dot != NULL) {
            *dot = '\0';
            rewrite(entry->d_name, suffix, step);
        }
    }
    closedir(entries);
}

static void judge(const char *suffix)
{
    char *arguments = base_format("judge '%s' %s", directory, suffix);
    assert_int_equal(run(arguments), 0);
    base_free(arguments);
}

static void pyarrow_streams_come_back_equal(void **state)
{
    (void)state;
    rewrite_all("whole", 0);
    judge("whole");
}

static void slices_inside_a_byte_come_back_equal(void **state)
{
    (void)state;
    rewrite_all("sliced", 13);
    judge("sliced");
}

static void single_rows_come_back_equal(void **state)
{
    (void)state;
    rewrite_all("rows", 1);
    judge("rows");
}

static int setup(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL) {
        return 1;
    }
    char *arguments = base_format("write '%s'", directory);
    int code = run(arguments);
    base_free(arguments);
    return code;
}

static int teardown(void **state)
{
    (void)state;
    char *command = base_format("rm -rf '%s'", directory);
    int code = system(command);
    base_free(command);
    return code;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pyarrow_streams_come_back_equal),
        cmocka_unit_test(slices_inside_a_byte_come_back_equal),
        cmocka_unit_test(single_rows_come_back_equal),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
