/* Data files written and read back through a store, whole, cut off, damaged and out of memory. */
#include "file_read.h"
#include "temp_directory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ROWS 5000

struct fixture {
    struct temp_directory directory;
    struct storage_store *store;
    struct lance_schema schema;
    struct ArrowArray batch;
};

static bool row_is_null(int64_t row)
{
    return row % 7 == 3;
}

static void append_row(struct ArrowArray *batch, int64_t row)
{
    char text[64];
    struct ArrowArray *list = batch->children[2], *structure = batch->children[3];
    (void)snprintf(text, sizeof(text), "row %lld", (long long)row);
    if (row_is_null(row)) {
        for (int64_t i = 0; i < 4; i++)
            assert_int_equal(ArrowArrayAppendNull(batch->children[i], 1), 0);
    } else {
        assert_int_equal(ArrowArrayAppendInt(batch->children[0], row * 3), 0);
        assert_int_equal(ArrowArrayAppendString(batch->children[1], ArrowCharView(text)), 0);
        for (int64_t i = 0; i < row % 4; i++)
            assert_int_equal(ArrowArrayAppendInt(list->children[0], row + i), 0);
        assert_int_equal(ArrowArrayFinishElement(list), 0);
        assert_int_equal(ArrowArrayAppendDouble(structure->children[0], (double)row / 4), 0);
        assert_int_equal(ArrowArrayFinishElement(structure), 0);
    }
    assert_int_equal(ArrowArrayFinishElement(batch), 0);
}

static int set_up(void **state)
{
    static struct fixture made;
    struct ArrowSchema arrow;
    static const char *const types[4] = {"int64", "utf8", "list<int32>", "struct<d: double>"};
    struct lake_error err = {0};
    made = (struct fixture){.directory = temp_directory_make()};
    if (storage_local_open(made.directory.path, true, &made.store, &err) != LAKE_OK)
        return -1;
    ArrowSchemaInit(&arrow);
    if (ArrowSchemaSetTypeStruct(&arrow, 4) != 0)
        return -1;
    for (int64_t i = 0; i < 4; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        ArrowSchemaRelease(arrow.children[i]);
        if (arrow_type_parse(base_str_of(types[i]), name, arrow.children[i], &err) != LAKE_OK)
            return -1;
    }
    if (lance_schema_from_arrow(&arrow, "2.2", &made.schema, &err) != LAKE_OK ||
        ArrowArrayInitFromSchema(&made.batch, &arrow, NULL) != 0 ||
        ArrowArrayStartAppending(&made.batch) != 0)
        return -1;
    for (int64_t row = 0; row < ROWS; row++)
        append_row(&made.batch, row);
    if (ArrowArrayFinishBuildingDefault(&made.batch, NULL) != 0)
        return -1;
    ArrowSchemaRelease(&arrow);
    *state = &made;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    ArrowArrayRelease(&f->batch);
    lance_schema_fini(&f->schema);
    storage_store_unref(f->store);
    temp_directory_remove(&f->directory);
    return 0;
}

static lake_status write_file(struct fixture *f, const char *key, uint32_t minor,
                              struct lake_error *err)
{
    struct lance_file_writer *writer = NULL;
    struct lance_file_result result = {0};
    lake_status status = lance_file_writer_new(
        f->store, base_str_of(key), &f->schema,
        &(struct lance_file_options){.minor = minor, .profile = LANCE_PROFILE_BALANCED}, &writer,
        err);
    if (status != LAKE_OK)
        return status;
    status = lance_file_writer_write(writer, &f->batch, err);
    if (status != LAKE_OK) {
        lance_file_writer_abort(writer);
        return status;
    }
    status = lance_file_writer_finish(writer, &result, err);
    if (status == LAKE_OK) {
        assert_int_equal(result.row_count, ROWS);
        assert_int_equal(result.column_count, 4);
    }
    lance_file_result_fini(&result);
    return status;
}

static lake_status read_field(struct fixture *f, struct lance_file *file, size_t field,
                              uint64_t start, uint64_t count, struct ArrowArray *out,
                              struct lake_error *err)
{
    struct lance_field_reader *reader = NULL;
    struct lance_column_source source = {file, (int32_t)field};
    struct lance_column_source sources[] = {source, source}; /* a parent and its leaf */
    lake_status status =
        lance_field_reader_new(&f->schema.fields[field], sources, false, NULL, &reader, err);
    if (status == LAKE_OK)
        status = lance_field_reader_read(reader, start, count, out, err);
    lance_field_reader_free(reader);
    return status;
}

static bool valid_at(const struct ArrowArray *array, int64_t i)
{
    return array->null_count == 0 ||
           (((const uint8_t *)array->buffers[0])[i / 8] >> (i % 8) & 1) != 0;
}

static void check_rows(size_t field, const struct ArrowArray *array, int64_t start)
{
    for (int64_t i = 0; i < array->length; i++) {
        int64_t row = start + i;
        char text[64];
        assert_int_equal(valid_at(array, i), !row_is_null(row));
        if (row_is_null(row))
            continue;
        if (field == 0) {
            assert_int_equal(((const int64_t *)array->buffers[1])[i], row * 3);
        } else if (field == 1) {
            const int32_t *offsets = array->buffers[1];
            int size = snprintf(text, sizeof(text), "row %lld", (long long)row);
            assert_int_equal(offsets[i + 1] - offsets[i], size);
            assert_memory_equal((const char *)array->buffers[2] + offsets[i], text, (size_t)size);
        } else if (field == 2) {
            const int32_t *offsets = array->buffers[1];
            assert_int_equal(offsets[i + 1] - offsets[i], row % 4);
            for (int32_t k = 0; k < row % 4; k++)
                assert_int_equal(((const int32_t *)array->children[0]->buffers[1])[offsets[i] + k],
                                 row + k);
        } else {
            double value = ((const double *)array->children[0]->buffers[1])[i];
            assert_true(value == (double)row / 4);
        }
    }
}

static void any_range_of_rows_reads_back_as_written(void **state)
{
    struct fixture *f = *state;
    static const uint64_t ranges[][2] = {{0, ROWS},    {0, 1},       {ROWS - 1, 1}, {1023, 2},
                                         {1024, 1024}, {4000, 1000}, {17, 4001},    {77, 0}};
    for (uint32_t minor = 1; minor <= 2; minor++) {
        struct lance_file *file = NULL;
        struct lake_error err = {0};
        const char *key = minor == 1 ? "a.lance" : "b.lance";
        assert_int_equal(write_file(f, key, minor, &err), LAKE_OK);
        assert_int_equal(lance_file_open(f->store, base_str_of(key), 0, &file, &err), LAKE_OK);
        assert_int_equal(lance_file_row_count(file), ROWS);
        for (size_t field = 0; field < 4; field++) {
            for (size_t i = 0; i < BASE_ARRAY_LEN(ranges); i++) {
                struct ArrowArray array;
                assert_int_equal(
                    read_field(f, file, field, ranges[i][0], ranges[i][1], &array, &err), LAKE_OK);
                assert_int_equal(array.length, ranges[i][1]);
                check_rows(field, &array, (int64_t)ranges[i][0]);
                array.release(&array);
            }
            struct ArrowArray beyond;
            assert_int_equal(read_field(f, file, field, 1, ROWS, &beyond, &err), LAKE_OUT_OF_RANGE);
        }
        lance_file_unref(file);
    }
}

/* ---- damage ---- */

static void read_all(struct fixture *f, struct lance_file *file)
{
    for (size_t field = 0; field < 4 && field < lance_file_column_count(file); field++) {
        struct ArrowArray array;
        struct lake_error err = {0};
        lake_status status = read_field(f, file, field, 0, ROWS, &array, &err);
        if (status != LAKE_OK) {
            assert_int_equal(status, err.code);
            assert_true(err.message[0] != '\0');
            continue;
        }
        assert_int_equal(array.length, ROWS);
        array.release(&array);
    }
}

static void load(struct fixture *f, struct base_buffer *bytes)
{
    struct lake_error err = {0};
    base_buffer_init(bytes, 1U << 26);
    (void)storage_remove(f->store, LAKE_STR("whole.lance"), NULL);
    assert_int_equal(write_file(f, "whole.lance", 2, &err), LAKE_OK);
    assert_int_equal(storage_read_all(f->store, LAKE_STR("whole.lance"), bytes, &err), LAKE_OK);
}

static void a_file_cut_off_anywhere_is_refused(void **state)
{
    struct fixture *f = *state;
    struct base_buffer bytes;
    load(f, &bytes);
    for (size_t size = 0; size < bytes.size; size += 1 + bytes.size / 200) {
        struct lance_file *file = NULL;
        struct lake_error err = {0};
        struct lake_bytes cut = {bytes.data, size};
        assert_int_equal(storage_put(f->store, LAKE_STR("cut.lance"), cut, &err), LAKE_OK);
        lake_status status = lance_file_open(f->store, LAKE_STR("cut.lance"), 0, &file, &err);
        assert_int_equal(status, LAKE_DATA_LOSS);
        assert_non_null(strstr(err.message, "cut.lance"));
    }
    base_buffer_fini(&bytes);
}

static void a_damaged_file_gives_an_error_or_rows_but_nothing_worse(void **state)
{
    struct fixture *f = *state;
    struct base_buffer bytes;
    uint64_t random = 42;
    load(f, &bytes);
    for (int round = 0; round < 300; round++) {
        struct lance_file *file = NULL;
        struct lake_error err = {0};
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        /* half of the damage goes to the end, where the structure is */
        size_t span = round % 2 == 0 ? bytes.size : BASE_MIN(bytes.size, (size_t)1500);
        size_t at = bytes.size - 1 - (size_t)(random >> 33) % span;
        uint8_t before = bytes.data[at];
        bytes.data[at] = (uint8_t)(before ^ (1U << (random >> 20 & 7)));
        assert_int_equal(
            storage_put(f->store, LAKE_STR("bad.lance"), base_buffer_view(&bytes), &err), LAKE_OK);
        if (lance_file_open(f->store, LAKE_STR("bad.lance"), 0, &file, &err) == LAKE_OK) {
            read_all(f, file);
            lance_file_unref(file);
        }
        bytes.data[at] = before;
    }
    base_buffer_fini(&bytes);
}

static void running_out_of_memory_is_an_error_at_every_allocation(void **state)
{
    struct fixture *f = *state;
    bool done = false;
    for (uint64_t nth = 1; !done; nth += 1 + nth / 50) {
        struct lake_error err = {0};
        struct lance_file *file = NULL;
        struct ArrowArray array;
        (void)storage_remove(f->store, LAKE_STR("memory.lance"), NULL);
        base_fault_fail_nth_alloc(nth);
        lake_status status = write_file(f, "memory.lance", 2, &err);
        if (status == LAKE_OK)
            status = lance_file_open(f->store, LAKE_STR("memory.lance"), 0, &file, &err);
        for (size_t field = 0; status == LAKE_OK && field < 4; field++) {
            status = read_field(f, file, field, 0, ROWS, &array, &err);
            if (status == LAKE_OK) {
                check_rows(field, &array, 0);
                array.release(&array);
            }
        }
        done = base_fault_alloc_count() < nth;
        base_fault_fail_nth_alloc(0);
        assert_int_equal(status, done ? LAKE_OK : LAKE_RESOURCE_EXHAUSTED);
        lance_file_unref(file);
        assert_true(nth < 1000000);
    }
}

/* ---- L20 ---- */

/* A page of 4096 times the same megabyte: small on disk, but 4 GiB as one array. */
static void strings_beyond_32_bit_offsets_are_a_typed_error_not_a_crash(void **state)
{
    struct fixture *f = *state;
    enum {
        VALUE = 1 << 20,
        COUNT = 4096
    };
    static const uint8_t layout[] = {0x12, 0x03, 0x2A, 0x01, 0x01}; /* constant, layers [1] */
    struct base_buffer value;
    struct lake_error err = {0};
    struct ArrowArray array;
    base_buffer_init(&value, 2 * VALUE);
    uint32_t header[5] = {2, 8, VALUE, 0, VALUE};
    assert_int_equal(base_buffer_append(&value, header, sizeof(header), NULL), LAKE_OK);
    assert_int_equal(base_buffer_append_zeros(&value, VALUE, NULL), LAKE_OK);
    assert_int_equal(storage_put(f->store, LAKE_STR("huge"), base_buffer_view(&value), &err),
                     LAKE_OK);
    uint64_t offset = 0, size = value.size;
    struct lance_file_page page = {.row_count = COUNT,
                                   .buffer_count = 1,
                                   .offsets = &offset,
                                   .sizes = &size,
                                   .layout = {layout, sizeof(layout)}};
    struct lance_file_column column = {.pages = &page, .page_count = 1, .row_count = COUNT};
    struct lance_file file = {.reference_count = 8,
                              .store = f->store,
                              .key = LAKE_STR("huge"),
                              .size_bytes = value.size,
                              .major = 2,
                              .minor = 2,
                              .row_count = COUNT,
                              .columns = &column,
                              .column_count = 1};
    struct lance_column_source source = {&file, 0};
    struct lance_field_reader *reader = NULL;
    assert_int_equal(
        lance_field_reader_new(&f->schema.fields[1], &source, false, NULL, &reader, &err), LAKE_OK);
    assert_int_equal(lance_field_reader_read(reader, 0, COUNT, &array, &err),
                     LAKE_RESOURCE_EXHAUSTED);
    assert_int_equal(lance_field_reader_read(reader, 5, 3, &array, &err), LAKE_OK);
    assert_int_equal(((const int32_t *)array.buffers[1])[3], 3 * VALUE);
    array.release(&array);
    lance_field_reader_free(reader);
    base_buffer_fini(&value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_range_of_rows_reads_back_as_written),
        cmocka_unit_test(a_file_cut_off_anywhere_is_refused),
        cmocka_unit_test(a_damaged_file_gives_an_error_or_rows_but_nothing_worse),
        cmocka_unit_test(running_out_of_memory_is_an_error_at_every_allocation),
        cmocka_unit_test(strings_beyond_32_bit_offsets_are_a_typed_error_not_a_crash),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
