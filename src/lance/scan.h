/* A scan as its plan (scan.c) and its tasks (scan_task.c) know it. */
#ifndef LANCE_SCAN_H
#define LANCE_SCAN_H

#include "index.h"
#include "observe.h"
#include "read_ahead.h"

#define LANCE_NO_OUTPUT   SIZE_MAX
#define LANCE_ROW_COLUMNS 4
#define LANCE_ROW_ALL     15u

/* A column that the scan reads, because it is filtered on or projected. */
struct scan_column {
    const struct lance_field *field;
    const struct ArrowSchema *type; /* of its arrays */
    struct ArrowSchema owned_type;  /* what it is when blobs are described */
    size_t output;                  /* its place in the batch, or LANCE_NO_OUTPUT */
    struct lance_predicate **predicates;
    size_t predicate_count;
};

#define LANCE_MAX_TAILS 16

/* The tail of a file of a fragment that some task will open, on its way. */
struct coming_tail {
    size_t fragment, file;
    struct lance_tail tail;
    struct storage_fetch *fetch;
};

struct fragment_slot {
    struct lance_open_fragment *opened;
    uint64_t tasks_left;
};

struct lance_scan {
    struct lance_dataset *dataset;
    struct ArrowSchema schema;
    struct scan_column *columns;       /* filtered ones first */
    const struct lance_field **fields; /* of `columns`, in the same order */
    size_t column_count;
    size_t filtered_count;
    size_t output_count;
    uint32_t row_columns; /* LANCE_ROW_*: behind the columns */
    bool blob_descriptions;
    bool *applied; /* by filter */
    size_t filter_count;
    uint64_t batch_rows;
    size_t batch_bytes;
    uint64_t task_rows;
    const bool *stop;
    uint64_t *first_task; /* by fragment; one more at the end */
    size_t fragment_count;
    _Atomic uint64_t next_task;
    pthread_mutex_t mutex; /* guards slots; not held across I/O */
    struct fragment_slot *slots;
    struct coming_tail tails[LANCE_MAX_TAILS]; /* with the mutex, like the next two */
    size_t tail_count;
    size_t tails_until; /* of fragments below it tails were asked for, where they are needed */
    struct lance_candidates candidates; /* that indices name */
    struct lance_read_counters counters;
    struct lance_ahead_budget ahead;
    _Atomic uint64_t rows_scanned;
    _Atomic uint64_t row_bytes; /* of decoded rows, as last seen; 0: no batch yet */
};

struct lance_picked { /* candidates of one batch, as rows of the fragment */
    struct lance_run *runs;
    struct lance_run *kept; /* room for what remains of them */
    size_t run_count;
    uint64_t row_count;
};

struct lance_task {
    struct lance_scan *scan;
    uint64_t index;
    size_t fragment;
    uint64_t cursor;
    uint64_t end;
    uint64_t batch_rows;   /* the most that the buffers below are made for */
    uint64_t encoded_rows; /* what batch_bytes allows by the size of the encoded data */
    struct lance_open_fragment *opened;
    struct lance_pruned_column *pruned; /* filtered columns that have statistics */
    size_t pruned_count;
    struct lance_observed *observed;    /* by filtered column: those that have none */
    const struct lance_run *candidates; /* of the fragment, by address */
    size_t candidate_count;
    bool all_rows; /* no index has spoken of the fragment */
    bool started;  /* by the first batch: what follows is there */
    struct lance_field_reader **readers;
    struct lance_read_ahead *ahead; /* NULL: the store has nothing to wait for */
    uint64_t filtered_next,
        others_next;           /* rows that were asked for, by columns filtered on or not */
    struct ArrowArray *arrays; /* by column, within one batch */
    struct ArrowArray row_arrays[LANCE_ROW_COLUMNS]; /* those asked for, within one batch */
    uint8_t *keep;
    struct lance_run *runs;
    struct lance_run *spans;  /* of survivors, which are read with what lies between them */
    struct lance_run *within; /* the survivors, as rows of these */
    struct lance_picked picked;
};

/* ---- scan_batch_size.c ---- */

/* What a row counts for in a batch: its bytes, or more when one column has most of them. */
uint64_t lance_weigh_row(uint64_t bytes, uint64_t largest_column);
/* How many rows the next batch takes at most. Decoded values may be far larger than encoded ones,
 * so a scan begins with a small batch and goes by what it then sees. */
uint64_t lance_task_most_rows(const struct lance_task *task);
void lance_scan_note_size(struct lance_scan *scan, const struct ArrowArray *batch);

/* ---- scan_tails.c ---- */

/* The fragment's files, by tails that were asked for while others were read; asks for those of the
 * fragments that follow. */
lake_status lance_scan_open_fragment(struct lance_scan *scan, size_t index,
                                     struct lance_open_fragment **out, struct lake_error *err);
/* Cancels what is on its way. */
void lance_scan_drop_tails(struct lance_scan *scan);

/* ---- scan_candidates.c ---- */

void lance_task_find_candidates(struct lance_task *task);
/* Whether any row of the task is to be looked at. */
bool lance_task_has_candidates(const struct lance_task *task);
/* Goes on from *first to the next candidates, at most to *last. Either rows that lie together,
 * [*first, *last), or single ones between the two (*scattered). *first = *last: there are none. */
void lance_task_next_candidates(const struct lance_task *task, uint64_t *first, uint64_t *last,
                                bool *scattered);
/* Picks up to `most` single candidates from the cursor on, at most to row `last`, that are not
 * deleted. Returns the row to go on from. */
uint64_t lance_task_pick(struct lance_task *task, uint64_t most, uint64_t last);
/* Of the rows picked, those in `kept` (runs of the first, second, … row picked) stay. */
void lance_task_keep_picked(struct lance_task *task, const struct lance_run *kept,
                            size_t kept_count);

/* ---- row_columns.c ---- */

size_t lance_row_column_count(uint32_t wanted);
/* Fills as many initialised schemas as are wanted. */
lake_status lance_row_column_types(uint32_t wanted, struct ArrowSchema **children,
                                   struct lake_error *err);
/* Of rows that survive in a batch at task->cursor, into task->row_arrays. */
lake_status lance_row_columns_read(struct lance_task *task, const struct lance_run *runs,
                                   size_t run_count, uint64_t row_count, struct lake_error *err);

#endif
