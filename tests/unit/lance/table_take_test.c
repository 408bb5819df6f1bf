/* Selecting rows of arrays of every type: against the same rows, one by one, as text. */
#include "table_data.h"

#include "array_build.h"

static const char every_type[] =
    "int8, uint16, int32, uint64, bool, float, double, utf8, large_utf8, binary, large_binary, "
    "fixed_size_binary[7], decimal(38,4), date32, timestamp[us], map<utf8, int32>, list<int32>, "
    "list<utf8>, list<list<int16>>, fixed_size_list<float>[3], struct<a: int32, b: utf8>, "
    "list<struct<x: double, y: list<utf8>>>, struct<s: struct<t: bool>, f: double[2]>, "
    "dictionary<int8, utf8>, FILE";

/* Random ascending runs over [0, rows). */
static size_t random_runs(uint64_t *seed, size_t rows, uint64_t step, struct lance_run *runs)
{
    size_t count = 0;
    uint64_t at = random_next(seed) % step;
    while (at < rows) {
        uint64_t length = 1 + random_next(seed) % step;
        length = BASE_MIN(length, rows - at);
        runs[count++] = (struct lance_run){at, length};
        at += length + 1 + random_next(seed) % step;
    }
    return count;
}

static void assert_take(const struct ArrowSchema *schema, const struct ArrowArray *array,
                        const struct lance_run *runs, size_t count)
{
    struct lines all;
    struct lines taken;
    struct ArrowArray out;
    lines_init(&all);
    lines_init(&taken);
    render_rows(schema, array, &all.text);
    lines_split(&all);
    assert_int_equal(lance_array_take(schema, array, runs, count, &out, NULL), LAKE_OK);
    assert_int_equal(out.offset, 0);
    render_rows(schema, &out, &taken.text);
    lines_split(&taken);
    size_t at = 0;
    for (size_t r = 0; r < count; r++) {
        for (uint64_t i = 0; i < runs[r].count; i++) {
            assert_true(at < taken.count);
            assert_string_equal(taken.items[at], all.items[runs[r].start + i]);
            at++;
        }
    }
    assert_int_equal(at, taken.count);
    ArrowArrayRelease(&out);
    lines_fini(&all);
    lines_fini(&taken);
}

static void selected_rows_are_the_rows(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct lance_run runs[600];
    uint64_t seed = 3;
    schema_of(every_type, &schema);
    for (size_t rows = 1; rows < 600; rows = rows * 3 + 1) {
        random_batch(&schema, rows, &seed, &array);
        for (uint64_t step = 1; step < 40; step = step * 2 + 1) {
            assert_take(&schema, &array, runs, random_runs(&seed, rows, step, runs));
        }
        runs[0] = (struct lance_run){0, rows};
        assert_take(&schema, &array, runs, 1);
        assert_take(&schema, &array, runs, 0);
        ArrowArrayRelease(&array);
    }
    ArrowSchemaRelease(&schema);
}

static void rows_of_sliced_arrays_are_the_slices_rows(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct lance_run runs[300];
    uint64_t seed = 5;
    schema_of(every_type, &schema);
    for (int64_t offset = 0; offset < 20; offset += 3) {
        random_batch(&schema, 300, &seed, &array);
        for (int64_t i = 0; i < array.n_children; i++) {
            struct ArrowArray *child = array.children[i];
            child->offset = offset;
            child->length -= offset;
            child->null_count = child->null_count == 0 ? 0 : -1;
            assert_take(schema.children[i], child, runs,
                        random_runs(&seed, (size_t)child->length, 4, runs));
        }
        ArrowArrayRelease(&array);
    }
    ArrowSchemaRelease(&schema);
}

static void nulls_of_every_type_are_valid_arrays(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    schema_of(every_type, &schema);
    for (int64_t i = 0; i < schema.n_children; i++) {
        struct ArrowArray out;
        struct lines lines;
        lines_init(&lines);
        assert_int_equal(lance_array_of_nulls(schema.children[i], 9, &out, NULL), LAKE_OK);
        assert_int_equal(out.length, 9);
        render_rows(schema.children[i], &out, &lines.text);
        lines_split(&lines);
        assert_int_equal(lines.count, 9);
        for (size_t row = 0; row < 9; row++) {
            assert_string_equal(lines.items[row], "null");
        }
        lines_fini(&lines);
        ArrowArrayRelease(&out);
    }
    ArrowSchemaRelease(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(selected_rows_are_the_rows),
        cmocka_unit_test(rows_of_sliced_arrays_are_the_slices_rows),
        cmocka_unit_test(nulls_of_every_type_are_valid_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
