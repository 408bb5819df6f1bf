/* libs: lance */
/*
 * tables scan PATH THREADS    decodes every column of every row; prints "<seconds> <rows>"
 * tables scan PATH THREADS COLUMN =|> NUMBER WITH
 *                             decodes two columns of the rows that pass: COLUMN and WITH
 * tables write PATH IN.arrow PROFILE  writes a new data set; prints "<seconds> <rows>"
 *
 * Lake's side of the measures of scans, filters and writes.
 */
#include <lance/lance.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COLUMNS 1024

static atomic_ullong rows;
static atomic_bool failed;

static void *scan_tasks(void *context)
{
    struct lance_scan *scan = context;
    struct lake_error error = {0};
    struct lance_task *task = NULL;
    lake_status status;
    while ((status = lance_scan_next_task(scan, &task, &error)) == LAKE_OK && task != NULL) {
        bool end = false;
        while (status == LAKE_OK && !end) {
            struct ArrowArray batch = {0};
            status = lance_task_next(task, &batch, &end, &error);
            if (status == LAKE_OK && !end) {
                atomic_fetch_add(&rows, (unsigned long long)batch.length);
                batch.release(&batch);
            }
        }
        lance_task_free(task);
        if (status != LAKE_OK)
            break;
    }
    if (status != LAKE_OK) {
        fprintf(stderr, "%s\n", error.message);
        atomic_store(&failed, true);
    }
    return NULL;
}

/* argv: PATH THREADS [COLUMN OP NUMBER WITH] */
static lake_status scan_all(int argc, char **argv, struct lake_error *err)
{
    size_t threads = strtoul(argv[1], NULL, 10);
    bool filtered = argc == 6;
    struct storage_store *store = NULL;
    struct lance_dataset *dataset = NULL;
    struct lance_scan *scan = NULL;
    struct lance_scan_options options;
    struct lance_value operand = {.kind = LANCE_VALUE_DOUBLE,
                                  .f64 = filtered ? strtod(argv[4], NULL) : 0};
    struct lance_filter filter = {.op = filtered && argv[3][0] == '>' ? LANCE_GT : LANCE_EQ,
                                  .values = &operand,
                                  .value_count = 1};
    uint32_t columns[MAX_COLUMNS];
    pthread_t workers[64];
    lake_status status = storage_local_open(argv[0], false, &store, err);
    if (status == LAKE_OK)
        status = lance_dataset_open(store, NULL, NULL, 0, &dataset, err);
    if (status != LAKE_OK)
        return status;
    const struct ArrowSchema *schema = lance_dataset_schema(dataset);
    lance_scan_options_init(&options);
    options.columns = columns;
    for (uint32_t i = 0; i < schema->n_children && options.column_count < MAX_COLUMNS; i++) {
        const char *name = schema->children[i]->name;
        bool is_filtered = filtered && strcmp(name, argv[2]) == 0;
        if (!filtered || is_filtered || strcmp(name, argv[5]) == 0)
            columns[options.column_count++] = i;
        if (is_filtered) {
            options.filters = &filter;
            options.filter_count = 1;
            filter.column = i;
            if (strchr("cCsSiIlL", schema->children[i]->format[0]) != NULL)
                operand = (struct lance_value){.i64 = (int64_t)operand.f64};
        }
    }
    status = lance_scan_new(dataset, &options, &scan, err);
    if (status == LAKE_OK && options.filter_count > 0 && !lance_scan_filter_applied(scan, 0))
        status = lake_fail(err, LAKE_INTERNAL, "the filter was not applied");
    if (status == LAKE_OK) {
        threads = BASE_MIN(threads, BASE_ARRAY_LEN(workers));
        for (size_t i = 0; i < threads; i++)
            pthread_create(&workers[i], NULL, scan_tasks, scan);
        for (size_t i = 0; i < threads; i++)
            pthread_join(workers[i], NULL);
    }
    lance_scan_free(scan);
    lance_dataset_unref(dataset);
    storage_store_unref(store);
    return status;
}

static lake_status write_all(const char *path, const char *input, const char *profile,
                             struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct ArrowArrayStream stream;
    struct lance_create_options options;
    uint64_t version = 0;
    lake_status status = storage_local_open(path, true, &store, err);
    if (status == LAKE_OK)
        status = arrow_ipc_open_file(input, NULL, &stream, err);
    if (status != LAKE_OK)
        return status;
    lance_create_options_init(&options);
    if (!lance_profile_parse(profile, &options.profile))
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "no profile %s", profile);
    status = lance_write_stream(store, &stream, &options, LANCE_WRITE_CREATE, &version, err);
    storage_store_unref(store);
    return status;
}

int main(int argc, char **argv)
{
    struct lake_error error = {0};
    bool scan = argc >= 4 && strcmp(argv[1], "scan") == 0;
    if (argc < 4 || (argc > 5 && argc != 8))
        return 2;
    base_memory_tune(); /* as the program lake does */
    int64_t started_us = base_clock_monotonic_us();
    lake_status status = scan
                             ? scan_all(argc - 2, argv + 2, &error)
                             : write_all(argv[2], argv[3], argc > 4 ? argv[4] : "balanced", &error);
    if (status != LAKE_OK || atomic_load(&failed)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("%.6f %llu\n", (double)(base_clock_monotonic_us() - started_us) / 1e6,
           atomic_load(&rows));
    return 0;
}
