/* libs: lance */
/*
 * takes PATH ROWS COUNT
 *
 * COUNT times ROWS random rows of a Lance dataset, all columns. Prints takes a second. Lake's side
 * of take_1 and take_1000.
 */
#include <lance/lance.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_ROWS    1000000
#define MAX_COLUMNS 1000
#define CACHE_BYTES ((size_t)64 << 20)

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static lake_status run(struct lance_dataset *dataset, size_t rows, size_t count,
                       struct lake_error *err)
{
    static uint64_t offsets[MAX_ROWS];
    static uint32_t columns[MAX_COLUMNS];
    uint64_t state = 7;
    size_t column_count = (size_t)lance_dataset_schema(dataset)->n_children;
    for (uint32_t i = 0; i < column_count && i < MAX_COLUMNS; i++)
        columns[i] = i;
    for (size_t n = 0; n < count; n++) {
        struct ArrowArray taken;
        for (size_t i = 0; i < rows; i++)
            offsets[i] = next_random(&state) % lance_dataset_row_count(dataset);
        lake_status status = lance_take(dataset, LANCE_TAKE_OFFSETS, offsets, rows, columns,
                                        column_count, &taken, err);
        if (status != LAKE_OK)
            return status;
        taken.release(&taken);
    }
    return LAKE_OK;
}

int main(int argc, char **argv)
{
    struct lake_error error = {0};
    struct storage_store *store = NULL;
    struct lance_cache *cache = NULL;
    struct lance_dataset *dataset = NULL;
    if (argc != 4)
        return 2;
    base_memory_tune();
    size_t rows = strtoul(argv[2], NULL, 10);
    size_t count = strtoul(argv[3], NULL, 10);
    lake_status status = storage_local_open(argv[1], false, &store, &error);
    if (status == LAKE_OK)
        status = lance_cache_new(CACHE_BYTES, &cache, &error);
    if (status == LAKE_OK)
        status = lance_dataset_open(store, cache, "dataset", 0, &dataset, &error);
    if (status == LAKE_OK && rows <= MAX_ROWS)
        status = run(dataset, rows, 1, &error);
    int64_t started_us = base_clock_monotonic_us();
    if (status == LAKE_OK && rows <= MAX_ROWS)
        status = run(dataset, rows, count, &error);
    if (status == LAKE_OK)
        printf("%.1f\n", (double)count * 1e6 / (double)(base_clock_monotonic_us() - started_us));
    else
        fprintf(stderr, "%s\n", error.message);
    lance_dataset_unref(dataset);
    lance_cache_free(cache);
    storage_store_unref(store);
    return status != LAKE_OK;
}
