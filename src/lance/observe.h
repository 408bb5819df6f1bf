/* Statistics of other writers' files, from the rows that filtered scans decode (observe.c). */
#ifndef LANCE_OBSERVE_H
#define LANCE_OBSERVE_H

#include "file_read.h"
#include "zones.h"

struct lance_observed { /* one filtered column of a task; zeros: not observed */
    struct lance_leaf_type type;
    struct lance_zone_builder builder;
    struct base_buffer levels;
    struct lance_file_column *column; /* borrowed from the file */
    uint64_t start;
    uint64_t next; /* the row that must come next */
};
/* `column` of `file` has no statistics yet; its rows will come from `row` on. */
void lance_observe_start(struct lance_observed *observed, struct lance_file *file, uint32_t column,
                         const struct ArrowSchema *type, uint64_t row);
/* The rows from `row` on, decoded. What cannot be observed ends it silently. */
void lance_observe_rows(struct lance_observed *observed, const struct ArrowArray *array,
                        uint64_t row);
/* The task has come to row `end`: what it has seen without a gap is kept with the file. */
void lance_observe_end(struct lance_observed *observed, uint64_t end);

#endif
