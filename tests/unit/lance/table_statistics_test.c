/* Scans that statistics shorten give the rows that the filters alone would: every operation on
 * columns of every kind, clustered and not. */
#include "file_read.h"
#include "table_dataset.h"
#include "zones.h"

#include <math.h>

#define ROWS (5 * LANCE_ZONE_ROWS + 123)

struct column_case {
    const char *type;
    enum lance_value_kind kind;
    int64_t offset; /* added to what the row gives */
};

static const struct column_case cases[] = {
    {"bool", LANCE_VALUE_INT64, 0},        {"int8", LANCE_VALUE_INT64, -20},
    {"uint8", LANCE_VALUE_UINT64, 200},    {"int16", LANCE_VALUE_INT64, -20},
    {"uint16", LANCE_VALUE_UINT64, 65500}, {"int32", LANCE_VALUE_INT64, -20},
    {"uint32", LANCE_VALUE_UINT64, 20},    {"int64", LANCE_VALUE_INT64, INT64_MIN},
    {"uint64", LANCE_VALUE_UINT64, -30},   {"float", LANCE_VALUE_DOUBLE, -20},
    {"double", LANCE_VALUE_DOUBLE, -20},   {"date32", LANCE_VALUE_INT64, -20},
    {"utf8", LANCE_VALUE_BYTES, 0},        {"large_binary", LANCE_VALUE_BYTES, 0},
};

enum pattern {
    CLUSTERED, /* rises with the row, a little mixed */
    SCATTERED, /* anything anywhere: bounds tell nothing */
    SPREAD     /* few values a zone, far apart: filters tell what bounds do not */
};

static int64_t number_of(enum pattern pattern, uint64_t row)
{
    uint64_t seed = row + 1;
    uint64_t random = random_next(&seed) ^ random_next(&seed);
    if (pattern == CLUSTERED)
        return (int64_t)(row / 1500 + random % 2);
    if (pattern == SCATTERED)
        return (int64_t)(random % 30);
    return (int64_t)((row / 4096 * 7 + row % 2 * 13) % 29);
}

static bool is_null(enum pattern pattern, uint64_t row)
{
    return pattern == SCATTERED ? row % 11 == 0 : row / 9000 == 2; /* a zone of nulls only */
}

/* Long enough that a prefix is not all of it. */
static struct lake_bytes text_of(int64_t number, char buffer[32])
{
    int size = snprintf(buffer, 32, number % 3 == 0 ? "%c" : "%c%c a longer text %d",
                        (char)('a' + number % 26), (char)(0xc0 + number % 5), (int)number);
    return (struct lake_bytes){(const uint8_t *)buffer, (size_t)size};
}

static double double_of(int64_t number, int64_t offset)
{
    return number == 7 ? (double)NAN : number == 20 ? -0.0 : (double)(number + offset) / 2;
}

static struct lance_value value_of(const struct column_case *column, int64_t number,
                                   char buffer[32])
{
    struct lance_value value = {.kind = column->kind};
    uint64_t sum = (uint64_t)number + (uint64_t)column->offset;
    if (column->kind == LANCE_VALUE_DOUBLE)
        value.f64 = double_of(number, column->offset);
    else if (column->kind == LANCE_VALUE_BYTES)
        value.bytes = text_of(number, buffer);
    else
        value.u64 = sum;
    return value;
}

static void append_value(struct ArrowArray *array, const struct column_case *column, int64_t number)
{
    char buffer[32];
    struct lance_value value = value_of(column, number, buffer);
    ArrowErrorCode code;
    if (strcmp(column->type, "bool") == 0)
        code = ArrowArrayAppendInt(array, number % 2);
    else if (column->kind == LANCE_VALUE_DOUBLE)
        code = ArrowArrayAppendDouble(array, value.f64);
    else if (column->kind == LANCE_VALUE_BYTES)
        code = ArrowArrayAppendBytes(
            array, (struct ArrowBufferView){{.data = buffer}, (int64_t)value.bytes.size});
    else if (column->kind == LANCE_VALUE_UINT64)
        code = ArrowArrayAppendUInt(array, value.u64);
    else
        code = ArrowArrayAppendInt(array, value.i64);
    assert_int_equal(code, NANOARROW_OK);
}

/* Rows [start, start + count): the value and the number of the row. */
static void make_batch(const struct ArrowSchema *schema, const struct column_case *column,
                       enum pattern pattern, uint64_t start, uint64_t count, struct ArrowArray *out)
{
    struct ArrowError error;
    assert_int_equal(ArrowArrayInitFromSchema(out, schema, &error), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(out), NANOARROW_OK);
    for (uint64_t row = start; row < start + count; row++) {
        if (is_null(pattern, row))
            assert_int_equal(ArrowArrayAppendNull(out->children[0], 1), NANOARROW_OK);
        else
            append_value(out->children[0], column, number_of(pattern, row));
        assert_int_equal(ArrowArrayAppendInt(out->children[1], (int64_t)row), NANOARROW_OK);
        assert_int_equal(ArrowArrayFinishElement(out), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(out, &error), NANOARROW_OK);
}

/* What a filter keeps of all rows, decided on the values themselves. */
static void rows_that_pass(struct fixture *f, const struct ArrowSchema *schema,
                           const struct ArrowArray *all, const struct lance_filter *filter,
                           uint8_t *keep)
{
    struct lance_predicate *predicate = NULL;
    OK(lance_predicate_new(filter, schema->children[0], &predicate, &f->err));
    assert_non_null(predicate);
    memset(keep, 1, ROWS);
    OK(lance_predicate_apply(predicate, all->children[0], keep, &f->err));
    lance_predicate_free(predicate);
}

/* Scans with the filter; asserts the rows, and returns how many were looked at. */
static uint64_t scan_filtered(struct fixture *f, struct lance_dataset *dataset,
                              const struct lance_filter *filter, const uint8_t *keep)
{
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    struct lance_task *task = NULL;
    struct lance_scan_stats stats;
    const uint32_t columns[] = {1};
    uint64_t row = 0;
    lance_scan_options_init(&options);
    options.columns = columns;
    options.column_count = 1;
    options.filters = filter;
    options.filter_count = 1;
    OK(lance_scan_new(dataset, &options, &scan, &f->err));
    for (;;) {
        bool end = false;
        OK(lance_scan_next_task(scan, &task, &f->err));
        if (task == NULL)
            break;
        while (!end) {
            struct ArrowArray batch = {.release = NULL};
            OK(lance_task_next(task, &batch, &end, &f->err));
            for (int64_t i = 0; !end && i < batch.length; i++, row++) {
                while (row < ROWS && keep[row] == 0)
                    row++;
                const struct ArrowArray *numbers = batch.children[0];
                assert_int_equal(((const int64_t *)numbers->buffers[1])[numbers->offset + i], row);
            }
            if (!end)
                batch.release(&batch);
        }
        lance_task_free(task);
    }
    while (row < ROWS && keep[row] == 0)
        row++;
    assert_int_equal(row, ROWS);
    lance_scan_get_stats(scan, &stats);
    lance_scan_free(scan);
    return stats.rows_scanned;
}

static uint64_t try_every_filter(struct fixture *f, struct lance_dataset *dataset,
                                 const struct column_case *column, const struct ArrowArray *all)
{
    static const int64_t numbers[] = {7, 12, 20, 31};
    static uint8_t keep[ROWS];
    uint64_t scanned = 0;
    for (int op = LANCE_EQ; op <= LANCE_IS_NOT_NULL; op++) {
        for (size_t i = 0; i < BASE_ARRAY_LEN(numbers); i++) {
            char buffers[2][32];
            struct lance_value values[2] = {value_of(column, numbers[i], buffers[0]),
                                            value_of(column, numbers[i] + 2, buffers[1])};
            struct lance_filter filter = {.column = 0,
                                          .op = (enum lance_filter_op)op,
                                          .values = values,
                                          .value_count = op == LANCE_IN ? 2 : 1};
            rows_that_pass(f, lance_dataset_schema(dataset), all, &filter, keep);
            scanned += scan_filtered(f, dataset, &filter, keep);
            if (op >= LANCE_IS_NULL)
                break;
        }
    }
    return scanned;
}

/* A dataset of ROWS rows in four files: the values and the numbers of the rows. */
static void make_table(struct fixture *f, const struct column_case *column, enum pattern pattern,
                       uint64_t rows_a_file, struct ArrowArray *all)
{
    char types[64];
    struct ArrowArray batch;
    (void)snprintf(types, sizeof(types), "%s, int64", column->type);
    create_dataset(f, types);
    struct lance_dataset *dataset = open_version(f, 0);
    for (uint64_t start = 0; start < ROWS; start += rows_a_file) { /* the last may be a short one */
        make_batch(lance_dataset_schema(dataset), column, pattern, start,
                   BASE_MIN(rows_a_file, ROWS - start), &batch);
        (void)append_batch(f, &batch, NULL);
        ArrowArrayRelease(&batch);
    }
    make_batch(lance_dataset_schema(dataset), column, pattern, 0, ROWS, all);
    lance_dataset_unref(dataset);
}

static uint64_t try_column(struct fixture *f, const struct column_case *column,
                           enum pattern pattern)
{
    struct ArrowArray all;
    make_table(f, column, pattern, ROWS / 3, &all);
    struct lance_dataset *dataset = open_version(f, 0);
    uint64_t scanned = try_every_filter(f, dataset, column, &all);
    ArrowArrayRelease(&all);
    lance_dataset_unref(dataset);
    return scanned;
}

/* What Lake wrote, as if another writer had: the opened file forgets that it has statistics. */
static void forget_statistics(struct fixture *f, struct lance_dataset *dataset)
{
    struct lance_file *file = NULL;
    OK(lance_dataset_open_file(dataset, dataset->manifest->pb->fragments[0]->files[0], &file,
                               &f->err));
    assert_true(file->columns[0].statistics_bytes > 0);
    file->columns[0].statistics_bytes = 0;
    lance_file_unref(file); /* the cache keeps it */
}

static void files_without_statistics_get_them_from_the_first_scan(void **state)
{
    for (size_t i = 0; i < BASE_ARRAY_LEN(cases); i++) {
        struct fixture *f = *state;
        struct lance_cache *cache = NULL;
        struct lance_dataset *dataset = NULL;
        struct ArrowArray all;
        static uint8_t keep[ROWS];
        char buffer[32];
        struct lance_value value = value_of(&cases[i], 12, buffer);
        struct lance_filter filter = {.op = LANCE_EQ, .values = &value, .value_count = 1};
        make_table(f, &cases[i], CLUSTERED, ROWS, &all);
        OK(lance_cache_new(1 << 24, &cache, &f->err));
        OK(lance_dataset_open(f->store, cache, "statistics", 0, &dataset, &f->err));
        forget_statistics(f, dataset);
        rows_that_pass(f, lance_dataset_schema(dataset), &all, &filter, keep);
        assert_int_equal(scan_filtered(f, dataset, &filter, keep), ROWS);
        uint64_t second = scan_filtered(f, dataset, &filter, keep);
        assert_true(strcmp(cases[i].type, "bool") == 0 || second < ROWS / 2);
        if (i % 4 == 0)
            (void)try_every_filter(f, dataset, &cases[i], &all);
        ArrowArrayRelease(&all);
        lance_dataset_unref(dataset);
        lance_cache_free(cache);
        fixture_tear_down(state);
        assert_int_equal(fixture_set_up(state), 0);
    }
}

static void statistics_never_hide_a_row(void **state)
{
    uint64_t scanned[3] = {0};
    for (size_t i = 0; i < BASE_ARRAY_LEN(cases); i++) {
        for (int pattern = CLUSTERED; pattern <= SPREAD; pattern++) {
            struct fixture *f = *state;
            scanned[pattern] += try_column(f, &cases[i], (enum pattern)pattern);
            fixture_tear_down(state);
            assert_int_equal(fixture_set_up(state), 0);
        }
    }
    /* 30 scans of each column: few look at everything where values lie together. */
    uint64_t most = (uint64_t)BASE_ARRAY_LEN(cases) * 30 * ROWS;
    assert_true(scanned[CLUSTERED] < most * 2 / 3);
    assert_true(scanned[SPREAD] < most * 9 / 10);
    assert_true(scanned[SCATTERED] > scanned[CLUSTERED]);
}

static void one_value_of_a_sorted_column_reads_one_zone(void **state)
{
    struct fixture *f = *state;
    struct ArrowArray batch;
    uint64_t reads[2];
    create_dataset(f, "int64, int64");
    struct lance_dataset *dataset = open_version(f, 0);
    struct ArrowError error;
    assert_int_equal(ArrowArrayInitFromSchema(&batch, lance_dataset_schema(dataset), &error),
                     NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&batch), NANOARROW_OK);
    for (int64_t row = 0; row < 300000; row++) {
        assert_int_equal(ArrowArrayAppendInt(batch.children[0], row * 1000003), NANOARROW_OK);
        assert_int_equal(ArrowArrayAppendInt(batch.children[1], row), NANOARROW_OK);
        assert_int_equal(ArrowArrayFinishElement(&batch), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, &error), NANOARROW_OK);
    (void)append_batch(f, &batch, NULL);
    ArrowArrayRelease(&batch);
    lance_dataset_unref(dataset);
    dataset = open_version(f, 0);
    for (size_t hit = 0; hit < 2; hit++) {
        struct lance_value value = {.kind = LANCE_VALUE_INT64,
                                    .i64 = INT64_C(1000003) * 250001 + 1 - (int64_t)hit};
        struct lance_filter filter = {.op = LANCE_EQ, .values = &value, .value_count = 1};
        struct lance_scan_options options;
        struct lance_scan *scan = NULL;
        struct lance_scan_stats stats;
        struct lines lines;
        const uint32_t columns[] = {0, 1};
        lance_scan_options_init(&options);
        options.columns = columns;
        options.column_count = 2;
        options.filters = &filter;
        options.filter_count = 1;
        lines_init(&lines);
        OK(lance_scan_new(dataset, &options, &scan, &f->err));
        OK(drain(scan, options.batch_rows, &lines, &f->err));
        lines_split(&lines);
        assert_int_equal(lines.count, hit);
        lance_scan_get_stats(scan, &stats);
        assert_true(stats.rows_scanned <= LANCE_ZONE_ROWS);
        reads[hit] = stats.bytes_read;
        lance_scan_free(scan);
        lines_fini(&lines);
    }
    assert_true(reads[1] < 700000); /* of 2.4 million bytes and more */
    lance_dataset_unref(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(statistics_never_hide_a_row),
        TEST(files_without_statistics_get_them_from_the_first_scan),
        TEST(one_value_of_a_sorted_column_reads_one_zone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
