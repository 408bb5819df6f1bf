/* libs: lance */
/*
 * Small data files that pylance wrote (the seeds of lance_file_fuzz), with every byte of them
 * changed and every end cut off: reading ends in a typed error or in arrays that Arrow's validation
 * passes. `make sanitize` sees what lies beyond.
 */
#include "../../fuzz/lance_fuzz.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

#define CORPUS     LAKE_SOURCE_DIR "/tests/fuzz/corpus/lance_file"
#define MAX_BYTES  2600
#define MAX_KINDS  64
#define FILE_COUNT 12 /* at least so many must be there */

/* A file and the kinds of columns that it can be read as. */
struct sample {
    uint8_t data[MAX_BYTES];
    size_t size;
    size_t kinds[MAX_KINDS];
    size_t kind_count;
};

static lake_status read_as(const uint8_t *data, size_t size, size_t kind)
{
    struct lake_error err = {0};
    struct lance_file *file = NULL;
    fuzz_set_up(data, size);
    lake_status status = lance_file_open(fuzz_store, LAKE_STR("data/f.lance"), 0, &file, &err);
    if (status != LAKE_OK)
        return status;
    if (lance_file_column_count(file) == 0)
        status = LAKE_DATA_LOSS;
    else
        status = fuzz_read_field(file, &fuzz_schema.fields[kind], 0, kind % 2 == 0);
    lance_file_unref(file);
    return status;
}

static bool load(const char *name, struct sample *out)
{
    char path[4096];
    struct stat info;
    (void)snprintf(path, sizeof(path), "%s/%s", CORPUS, name);
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || (size_t)info.st_size > MAX_BYTES)
        return false;
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    out->size = fread(out->data, 1, MAX_BYTES, stream);
    (void)fclose(stream);
    out->kind_count = 0;
    fuzz_set_up(out->data, out->size);
    for (size_t kind = 0; kind < fuzz_schema.field_count && kind < MAX_KINDS; kind++)
        if (read_as(out->data, out->size, kind) == LAKE_OK)
            out->kinds[out->kind_count++] = kind;
    if (out->kind_count == 0)
        print_error("%s is none of the kinds of columns\n", name);
    assert_true(out->kind_count > 0);
    return true;
}

static void assert_typed(lake_status status)
{
    bool typed = status == LAKE_OK || status == LAKE_DATA_LOSS || status == LAKE_UNIMPLEMENTED ||
                 status == LAKE_RESOURCE_EXHAUSTED || status == LAKE_OUT_OF_RANGE;
    if (!typed)
        print_error("%s\n", lake_status_name(status));
    assert_true(typed);
}

/* An exact-size copy, so that a sanitizer sees the first byte read past the end. */
static void read_damaged(const struct sample *sample, size_t size, size_t at, uint8_t change)
{
    uint8_t *copy = base_alloc(size + 1);
    assert_non_null(copy);
    memcpy(copy, sample->data, size);
    if (at < size)
        copy[at] ^= change;
    for (size_t i = 0; i < sample->kind_count; i++)
        assert_typed(read_as(copy, size, sample->kinds[i]));
    base_free(copy);
}

static void damage(const struct sample *sample)
{
    for (size_t at = 0; at < sample->size; at++) {
        read_damaged(sample, sample->size, at, (uint8_t)(1U << (at % 8)));
        read_damaged(sample, sample->size, at, 0xFF);
    }
    for (size_t size = 0; size < sample->size; size++)
        read_damaged(sample, size, size, 0);
}

static void starve(const struct sample *sample)
{
    for (size_t i = 0; i < sample->kind_count; i++) {
        bool done = false;
        for (uint64_t nth = 1; !done; nth++) {
            base_fault_fail_nth_alloc(nth);
            lake_status status = read_as(sample->data, sample->size, sample->kinds[i]);
            done = base_fault_alloc_count() < nth;
            base_fault_fail_nth_alloc(0);
            assert_true(status == LAKE_OK || (status == LAKE_RESOURCE_EXHAUSTED && !done));
            assert_true(nth < 100000);
        }
    }
}

static void each_file(void (*test)(const struct sample *sample))
{
    static struct sample sample;
    size_t files = 0;
    DIR *directory = opendir(CORPUS);
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        if (!load(entry->d_name, &sample))
            continue;
        test(&sample);
        files++;
    }
    (void)closedir(directory);
    assert_true(files >= FILE_COUNT);
}

static void every_changed_byte_of_small_files_is_a_typed_error_or_harmless(void **state)
{
    (void)state;
    each_file(damage);
}

static void every_failing_allocation_of_a_read_is_an_error(void **state)
{
    (void)state;
    each_file(starve);
}

/* ---- what earlier releases wrote otherwise ---- */

static void read_column(const char *name, size_t kind, struct ArrowArray *out, uint64_t rows)
{
    static struct sample sample;
    struct lake_error err = {0};
    struct lance_file *file = NULL;
    struct lance_field_reader *reader = NULL;
    assert_true(load(name, &sample));
    fuzz_set_up(sample.data, sample.size);
    assert_int_equal(lance_file_open(fuzz_store, LAKE_STR("data/f.lance"), 0, &file, &err),
                     LAKE_OK);
    assert_int_equal(lance_file_row_count(file), rows);
    struct lance_column_source source = {file, 0};
    assert_int_equal(
        lance_field_reader_new(&fuzz_schema.fields[kind], &source, false, NULL, &reader, &err),
        LAKE_OK);
    assert_int_equal(lance_field_reader_read(reader, 0, rows, out, &err), LAKE_OK);
    lance_field_reader_free(reader);
    lance_file_unref(file);
}

/* Release 0.38: null rows of vectors as a constant in a full-zip page, control words only. */
static void null_vectors_of_release_0_38_are_read(void **state)
{
    struct ArrowArray array;
    (void)state;
    read_column("release_0_38_null_vectors", 5, &array, 7);
    assert_int_equal(array.null_count, 7);
    assert_int_equal(array.children[0]->length, 21);
    array.release(&array);
}

/* Releases 0.38 to 10: vectors without one item that is not null, as a constant without a value.
 * They are vectors of nulls, as they were when they were written, and no zeros. */
static void vectors_of_nulls_of_release_1_0_are_read(void **state)
{
    static const struct {
        const char *name;
        int64_t null_rows;
    } files[] = {{"release_1_0_null_items", 0}, {"release_1_0_null_items_and_rows", 4}};
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_LEN(files); i++) {
        struct ArrowArray array;
        read_column(files[i].name, 5, &array, 7);
        assert_int_equal(array.null_count, files[i].null_rows);
        if (files[i].null_rows > 0)
            assert_int_equal(((const uint8_t *)array.buffers[0])[0] & 0x7f, 0x2a);
        assert_int_equal(array.children[0]->length, 21);
        assert_int_equal(array.children[0]->null_count, 21);
        array.release(&array);
    }
}

/* Releases 2 to 7: pages of blobs with a layer of the members of their rows beside that of the
 * blobs. */
static void blobs_of_release_4_0_are_read(void **state)
{
    struct ArrowArray array;
    (void)state;
    read_column("release_4_0_blob_rows", 18, &array, 4);
    assert_int_equal(array.null_count, 1);
    assert_int_equal(((const uint8_t *)array.buffers[0])[0] & 0xf, 0xb);
    const int64_t *offsets = array.buffers[1];
    assert_int_equal(offsets[1], 3);
    assert_int_equal(offsets[3], 3);
    assert_int_equal(offsets[4], 8);
    assert_memory_equal(array.buffers[2], "abcdefgh", 8);
    array.release(&array);
}

/* Release 0.18: unaligned buffers, and Zstandard frames that do not say their size. */
static void zstandard_of_release_0_18_is_read(void **state)
{
    struct ArrowArray array;
    char text[16];
    (void)state;
    read_column("release_0_18_zstd", 3, &array, 200);
    assert_int_equal(array.null_count, 50);
    const int32_t *offsets = array.buffers[1];
    for (int i = 0; i < 200; i++) {
        int size = i % 4 == 0 ? 0 : snprintf(text, sizeof(text), "value %d", i);
        assert_int_equal(offsets[i + 1] - offsets[i], size);
        assert_memory_equal((const char *)array.buffers[2] + offsets[i], text, (size_t)size);
    }
    array.release(&array);
}

/* Release 0.33: a dictionary's strings with their count in the head of the block. */
static void strings_of_release_0_33_are_read(void **state)
{
    static const char *const texts[] = {"reach", "grasp the red cube", "lift it up"};
    struct ArrowArray array;
    (void)state;
    read_column("release_0_33_strings", 3, &array, 200);
    assert_int_equal(array.null_count, 40);
    const int32_t *offsets = array.buffers[1];
    for (int i = 0; i < 200; i++) {
        const char *text = i % 5 == 4 ? "" : texts[i % 3];
        assert_int_equal(offsets[i + 1] - offsets[i], strlen(text));
        assert_memory_equal((const char *)array.buffers[2] + offsets[i], text, strlen(text));
    }
    array.release(&array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_changed_byte_of_small_files_is_a_typed_error_or_harmless),
        cmocka_unit_test(every_failing_allocation_of_a_read_is_an_error),
        cmocka_unit_test(null_vectors_of_release_0_38_are_read),
        cmocka_unit_test(vectors_of_nulls_of_release_1_0_are_read),
        cmocka_unit_test(blobs_of_release_4_0_are_read),
        cmocka_unit_test(zstandard_of_release_0_18_is_read),
        cmocka_unit_test(strings_of_release_0_33_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
