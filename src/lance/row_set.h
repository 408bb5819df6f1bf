/*
 * Sets of rows as runs: of a file, of a fragment, or of a table by addresses. Bounded when they are
 * begun; a set that would be larger holds nothing and says so, which is no failure.
 */
#ifndef LANCE_ROW_SET_H
#define LANCE_ROW_SET_H

#include "file.h"

struct lance_row_set {
    struct lance_run *runs; /* in the order they came; ascending and apart once sorted */
    size_t count;
    size_t capacity;
    uint64_t row_count;
    uint64_t max_rows;
    bool too_many;
};
void lance_row_set_init(struct lance_row_set *set, uint64_t max_rows);
void lance_row_set_fini(struct lance_row_set *set);
/* Rows that go on from the last run become part of it. */
lake_status lance_row_set_add(struct lance_row_set *set, uint64_t start, uint64_t count,
                              struct lake_error *err);
/* Puts the runs in order and joins those that meet or overlap. */
void lance_row_set_sort(struct lance_row_set *set);
/* The first run of ascending ones that ends behind `row`. */
size_t lance_runs_from(const struct lance_run *runs, size_t count, uint64_t row);
/* Adds those of `runs` that are in `others` too; both are sorted. */
lake_status lance_runs_intersect(const struct lance_run *runs, size_t count,
                                 const struct lance_run *others, size_t other_count,
                                 struct lance_row_set *out, struct lake_error *err);

#endif
