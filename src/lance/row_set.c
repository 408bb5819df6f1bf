/* Sets of rows as runs. */
#include "row_set.h"

#include <stdlib.h>

void lance_row_set_init(struct lance_row_set *set, uint64_t max_rows)
{
    *set = (struct lance_row_set){.max_rows = max_rows};
}

void lance_row_set_fini(struct lance_row_set *set)
{
    base_free(set->runs);
    *set = (struct lance_row_set){.runs = NULL};
}

static lake_status grow(struct lance_row_set *set, struct lake_error *err)
{
    size_t capacity = set->capacity == 0 ? 64 : set->capacity * 2;
    struct lance_run *runs = base_realloc_array(set->runs, capacity, sizeof(*runs));
    if (runs == NULL) {
        return base_fail_no_memory(err, capacity * sizeof(*runs));
    }
    set->runs = runs;
    set->capacity = capacity;
    return LAKE_OK;
}

lake_status lance_row_set_add(struct lance_row_set *set, uint64_t start, uint64_t count,
                              struct lake_error *err)
{
    if (set->too_many || count == 0) {
        return LAKE_OK;
    }
    if (count > UINT64_MAX - start) {
        return lake_fail(err, LAKE_DATA_LOSS, "rows lie beyond all numbers");
    }
    if (count > set->max_rows - set->row_count) {
        set->too_many = true;
        set->count = 0;
        set->row_count = 0;
        return LAKE_OK;
    }
    struct lance_run *last = set->count == 0 ? NULL : &set->runs[set->count - 1];
    if (last != NULL && last->start + last->count == start) {
        last->count += count;
    } else {
        lake_status status = set->count == set->capacity ? grow(set, err) : LAKE_OK;
        if (status != LAKE_OK) {
            return status;
        }
        set->runs[set->count++] = (struct lance_run){start, count};
    }
    set->row_count += count;
    return LAKE_OK;
}

static int compare_runs(const void *a, const void *b)
{
    uint64_t left = ((const struct lance_run *)a)->start;
    uint64_t right = ((const struct lance_run *)b)->start;
    return (left > right) - (left < right);
}

void lance_row_set_sort(struct lance_row_set *set)
{
    size_t kept = 0;
    if (set->count == 0) {
        return;
    }
    qsort(set->runs, set->count, sizeof(*set->runs), compare_runs);
    set->row_count = 0;
    for (size_t i = 0; i < set->count; i++) {
        struct lance_run run = set->runs[i];
        struct lance_run *last = kept == 0 ? NULL : &set->runs[kept - 1];
        if (last != NULL && run.start <= last->start + last->count) {
            uint64_t end = BASE_MAX(last->start + last->count, run.start + run.count);
            set->row_count += end - (last->start + last->count);
            last->count = end - last->start;
        } else {
            set->row_count += run.count;
            set->runs[kept++] = run;
        }
    }
    set->count = kept;
}

size_t lance_runs_from(const struct lance_run *runs, size_t count, uint64_t row)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (runs[middle].start + runs[middle].count <= row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

lake_status lance_runs_intersect(const struct lance_run *runs, size_t count,
                                 const struct lance_run *others, size_t other_count,
                                 struct lance_row_set *out, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    size_t i = 0;
    size_t j = 0;
    while (status == LAKE_OK && i < count && j < other_count) {
        uint64_t end = runs[i].start + runs[i].count;
        uint64_t other_end = others[j].start + others[j].count;
        uint64_t first = BASE_MAX(runs[i].start, others[j].start);
        uint64_t last = BASE_MIN(end, other_end);
        if (first < last) {
            status = lance_row_set_add(out, first, last - first, err);
        }
        if (end <= other_end) {
            i++;
        }
        if (other_end <= end) {
            j++;
        }
    }
    return status;
}
