/* libs: sql */
/*
 * aggregate PATH SQL COUNT
 *
 * COUNT times the statement over the Lance dataset, which it knows as t, by Lake's engine in this
 * process, after one time that is not measured. Prints the milliseconds of one, those of all
 * processors, and the rows of the result. Lake's side of sql_aggregate.
 */
#include <sql/sql.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CACHE_BYTES ((size_t)64 << 20)

static double processor_ms(void)
{
    struct timespec used = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e3 + (double)used.tv_nsec / 1e6;
}

static lake_status run(struct sql_engine *engine, struct lance_dataset *dataset, const char *sql,
                       uint64_t *rows, struct lake_error *err)
{
    struct sql_table table = {
        .catalog = "lake", .schema = "main", .table = "t", .dataset = dataset};
    struct sql_query *query = NULL;
    bool end = false;
    *rows = 0;
    lake_status status = sql_query_prepare(engine, base_str_of(sql), &table, 1, NULL, &query, err);
    while (status == LAKE_OK && !end) {
        struct ArrowArray batch = {0};
        status = sql_query_next(query, &batch, &end, err);
        if (status == LAKE_OK && !end) {
            *rows += (uint64_t)batch.length;
            batch.release(&batch);
        }
    }
    sql_query_free(query);
    return status;
}

int main(int argc, char **argv)
{
    struct lake_error error = {0};
    struct storage_store *store = NULL;
    struct lance_cache *cache = NULL;
    struct lance_dataset *dataset = NULL;
    struct sql_engine *engine = NULL;
    struct sql_engine_options options;
    uint64_t rows = 0;
    if (argc != 4)
        return 2;
    base_memory_tune(); /* as the program lake does */
    size_t count = strtoul(argv[3], NULL, 10);
    sql_engine_options_init(&options);
    lake_status status = storage_local_open(argv[1], false, &store, &error);
    if (status == LAKE_OK)
        status = lance_cache_new(CACHE_BYTES, &cache, &error);
    if (status == LAKE_OK)
        status = lance_dataset_open(store, cache, "dataset", 0, &dataset, &error);
    if (status == LAKE_OK)
        status = sql_engine_open(&options, &engine, &error);
    if (status == LAKE_OK)
        status = run(engine, dataset, argv[2], &rows, &error);
    int64_t started_us = base_clock_monotonic_us();
    double started_ms = processor_ms();
    for (size_t i = 0; status == LAKE_OK && i < count; i++)
        status = run(engine, dataset, argv[2], &rows, &error);
    if (status == LAKE_OK)
        printf("%.3f %.3f %llu\n",
               (double)(base_clock_monotonic_us() - started_us) / 1e3 / (double)count,
               (processor_ms() - started_ms) / (double)count, (unsigned long long)rows);
    else
        fprintf(stderr, "%s\n", error.message);
    sql_engine_free(engine);
    lance_dataset_unref(dataset);
    lance_cache_free(cache);
    storage_store_unref(store);
    return status != LAKE_OK;
}
