/* libs: lance */
/* labels: concurrent */
/* Two scans at once, each on several threads, of a file without statistics: whoever sees a zone
 * first leaves its statistics, and the next scan has them all. */
#include "table_dataset.h"

#include "file_read.h"
#include "zones.h"

#define ROWS    (12 * LANCE_ZONE_ROWS + 77)
#define THREADS 3

static void make_table(struct fixture *f)
{
    struct ArrowArray batch;
    struct ArrowError error;
    create_dataset(f, "int64");
    struct lance_dataset *dataset = open_version(f, 0);
    assert_int_equal(ArrowArrayInitFromSchema(&batch, lance_dataset_schema(dataset), &error),
                     NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&batch), NANOARROW_OK);
    for (int64_t row = 0; row < ROWS; row++) {
        assert_int_equal(ArrowArrayAppendInt(batch.children[0], row * 3), NANOARROW_OK);
        assert_int_equal(ArrowArrayFinishElement(&batch), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, &error), NANOARROW_OK);
    (void)append_batch(f, &batch, NULL);
    ArrowArrayRelease(&batch);
    lance_dataset_unref(dataset);
}

/* The file that the cache keeps, as if another writer had made it. */
static struct lance_file *file_without_statistics(struct fixture *f, struct lance_dataset *dataset)
{
    struct lance_file *file = NULL;
    OK(lance_dataset_open_file(dataset, dataset->manifest->pb->fragments[0]->files[0], &file,
                               &f->err));
    file->columns[0].statistics_bytes = 0;
    return file;
}

static struct lance_scan *scan_for(struct fixture *f, struct lance_dataset *dataset, int64_t number)
{
    struct lance_value value = {.kind = LANCE_VALUE_INT64, .i64 = number};
    struct lance_filter filter = {.op = LANCE_EQ, .values = &value, .value_count = 1};
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    lance_scan_options_init(&options);
    options.filters = &filter;
    options.filter_count = 1;
    options.task_rows = 2 * LANCE_ZONE_ROWS;
    OK(lance_scan_new(dataset, &options, &scan, &f->err));
    return scan;
}

/* Counts rows; -1 after a failure. */
static void *drain_tasks(void *context)
{
    struct lance_scan *scan = context;
    struct lance_task *task = NULL;
    struct lake_error err = {0};
    intptr_t rows = 0;
    while (lance_scan_next_task(scan, &task, &err) == LAKE_OK && task != NULL) {
        bool end = false;
        while (!end) {
            struct ArrowArray batch = {.release = NULL};
            if (lance_task_next(task, &batch, &end, &err) != LAKE_OK)
                return (void *)(intptr_t)-1;
            rows += end ? 0 : (intptr_t)batch.length;
            if (!end)
                batch.release(&batch);
        }
        lance_task_free(task);
    }
    return (void *)rows;
}

static void scans_at_once_leave_one_set_of_statistics(void **state)
{
    struct fixture *f = *state;
    struct lance_cache *cache = NULL;
    struct lance_dataset *dataset = NULL;
    make_table(f);
    OK(lance_cache_new(1 << 24, &cache, &f->err));
    for (int round = 0; round < 5; round++) {
        char key[32];
        struct lance_scan *scans[2];
        pthread_t threads[2 * THREADS];
        intptr_t found = 0;
        (void)snprintf(key, sizeof(key), "round %d", round);
        OK(lance_dataset_open(f->store, cache, key, 0, &dataset, &f->err));
        struct lance_file *file = file_without_statistics(f, dataset);
        for (size_t i = 0; i < 2; i++)
            scans[i] = scan_for(f, dataset, 3 * (int64_t)(i + 5) * LANCE_ZONE_ROWS);
        for (size_t i = 0; i < 2 * THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, drain_tasks, scans[i % 2]), 0);
        for (size_t i = 0; i < 2 * THREADS; i++) {
            void *rows;
            assert_int_equal(pthread_join(threads[i], &rows), 0);
            assert_true((intptr_t)rows >= 0);
            found += (intptr_t)rows;
        }
        assert_int_equal(found, 2);
        lance_scan_free(scans[0]);
        lance_scan_free(scans[1]);
        assert_non_null(file->columns[0].zones);
        for (size_t i = 0; i < file->columns[0].zones->count; i++) {
            const struct lance_zone *zone = &file->columns[0].zones->zones[i];
            assert_int_equal(zone->low, 3 * i * LANCE_ZONE_ROWS);
            assert_int_equal(zone->high, 3 * (i * LANCE_ZONE_ROWS + zone->row_count - 1));
        }
        lance_file_unref(file);
        lance_dataset_unref(dataset);
    }
    lance_cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(scans_at_once_leave_one_set_of_statistics)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
