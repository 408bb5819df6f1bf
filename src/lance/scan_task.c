/*
 * A scan's tasks, which decode the rows.
 *
 * A task passes by the rows that statistics rule out, reads the columns it filters on first and the
 * others only where rows survive. Files and deletion vectors of a fragment are opened by its first
 * task, shared by the others and closed with the last.
 */
#include "array_build.h"
#include "scan.h"

#include <inttypes.h>
#include <string.h>

#define AHEAD_STEP_BYTES ((uint64_t)8 << 20) /* that are asked for at a time */

/* ---- fragments, shared by their tasks ---- */

/* The fragment's files, opened once: of two tasks that come at once the second's are dropped. */
static lake_status acquire_fragment(struct lance_scan *scan, size_t index,
                                    struct lance_open_fragment **out, struct lake_error *err)
{
    struct fragment_slot *slot = &scan->slots[index];
    struct lance_open_fragment *opened = NULL;
    (void)pthread_mutex_lock(&scan->mutex);
    if (slot->opened != NULL) {
        opened = slot->opened;
        atomic_fetch_add_explicit(&opened->references, 1, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&scan->mutex);
    if (opened != NULL) {
        *out = opened;
        return LAKE_OK;
    }
    lake_status status = lance_scan_open_fragment(scan, index, &opened, err);
    if (status != LAKE_OK) {
        return status;
    }
    struct lance_open_fragment *spare = NULL;
    (void)pthread_mutex_lock(&scan->mutex);
    if (slot->opened == NULL) {
        slot->opened = opened;
    } else {
        spare = opened;
        opened = slot->opened;
    }
    atomic_fetch_add_explicit(&opened->references, 1, memory_order_relaxed);
    (void)pthread_mutex_unlock(&scan->mutex);
    lance_open_fragment_unref(spare);
    *out = opened;
    return LAKE_OK;
}

static void task_leaves_fragment(struct lance_scan *scan, size_t index)
{
    struct lance_open_fragment *closed = NULL;
    (void)pthread_mutex_lock(&scan->mutex);
    scan->slots[index].tasks_left--;
    if (scan->slots[index].tasks_left == 0) {
        closed = scan->slots[index].opened;
        scan->slots[index].opened = NULL;
    }
    (void)pthread_mutex_unlock(&scan->mutex);
    lance_open_fragment_unref(closed);
}

/* ---- tasks ---- */

static size_t fragment_of_task(const struct lance_scan *scan, uint64_t index)
{
    size_t low = 0;
    size_t high = scan->fragment_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (scan->first_task[middle] <= index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    while (scan->first_task[low + 1] <= index) { /* fragments without rows have no task */
        low++;
    }
    return low;
}

lake_status lance_scan_next_task(struct lance_scan *scan, struct lance_task **out,
                                 struct lake_error *err)
{
    uint64_t total = scan->first_task[scan->fragment_count];
    uint64_t index = atomic_load_explicit(&scan->next_task, memory_order_relaxed);
    struct lance_task *task = NULL;
    if (index < total) { /* before it is claimed: a failure loses no rows */
        task = base_calloc_array(1, sizeof(*task));
        if (task == NULL) {
            return base_fail_no_memory(err, sizeof(*task));
        }
    }
    do {
        if (index >= total) {
            base_free(task);
            *out = NULL;
            return LAKE_OK;
        }
    } while (!atomic_compare_exchange_weak_explicit(&scan->next_task, &index, index + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    task->scan = scan;
    task->index = index;
    task->fragment = fragment_of_task(scan, index);
    task->cursor = (index - scan->first_task[task->fragment]) * scan->task_rows;
    task->end =
        BASE_MIN(task->cursor + scan->task_rows, scan->dataset->fragment_rows[task->fragment]);
    lance_task_find_candidates(task);
    *out = task;
    return LAKE_OK;
}

uint64_t lance_task_index(const struct lance_task *task)
{
    return task->index;
}

static void release_arrays(struct lance_task *task)
{
    for (size_t i = 0; task->arrays != NULL && i < task->scan->column_count; i++) {
        if (task->arrays[i].release != NULL) {
            task->arrays[i].release(&task->arrays[i]);
        }
    }
    for (size_t i = 0; i < LANCE_ROW_COLUMNS; i++) {
        if (task->row_arrays[i].release != NULL) {
            task->row_arrays[i].release(&task->row_arrays[i]);
        }
    }
}

static void stop_observing(struct lance_task *task, uint64_t end)
{
    for (size_t i = 0; task->observed != NULL && i < task->scan->filtered_count; i++) {
        lance_observe_end(&task->observed[i], end);
    }
}

void lance_task_free(struct lance_task *task)
{
    if (task == NULL) {
        return;
    }
    release_arrays(task);
    for (size_t i = 0; task->readers != NULL && i < task->scan->column_count; i++) {
        lance_field_reader_free(task->readers[i]);
    }
    lance_read_ahead_free(task->ahead);
    stop_observing(task, task->end);
    task_leaves_fragment(task->scan, task->fragment);
    lance_open_fragment_unref(task->opened);
    base_free(task->observed);
    base_free(task->pruned);
    base_free(task->readers);
    base_free(task->arrays);
    base_free(task->keep);
    base_free(task->runs);
    base_free(task->spans);
    base_free(task->within);
    base_free(task->picked.runs);
    base_free(task->picked.kept);
    base_free(task);
}

static lake_status make_readers(struct lance_task *task, uint64_t *row_bytes,
                                struct lake_error *err)
{
    struct lance_scan *scan = task->scan;
    uint64_t bytes = 0;
    uint64_t largest = 0;
    for (size_t i = 0; i < scan->column_count; i++) {
        if (!task->opened->stored[i]) {
            continue;
        }
        lake_status status = lance_field_reader_new(
            scan->columns[i].field, task->opened->sources[i], scan->blob_descriptions,
            &scan->counters, &task->readers[i], err);
        if (status != LAKE_OK) {
            return lake_fail_wrap(err, status, "column %s of fragment %" PRIu64 " cannot be read",
                                  scan->columns[i].field->name,
                                  scan->dataset->manifest->pb->fragments[task->fragment]->id);
        }
        uint64_t column = lance_field_reader_bytes_per_row(task->readers[i]);
        bytes += column;
        largest = BASE_MAX(largest, column);
    }
    *row_bytes = lance_weigh_row(bytes, largest);
    return LAKE_OK;
}

static lake_status alloc_arrays(struct lance_task *task, struct lake_error *err)
{
    size_t count = task->scan->column_count + 1;
    if (task->readers == NULL) {
        task->readers = base_calloc_array(count, sizeof(struct lance_field_reader *));
    }
    if (task->arrays == NULL) {
        task->arrays = base_calloc_array(count, sizeof(*task->arrays));
    }
    return task->readers == NULL || task->arrays == NULL
               ? base_fail_no_memory(err, count * sizeof(*task->arrays))
               : LAKE_OK;
}

static lake_status alloc_selection(struct lance_task *task, struct lake_error *err)
{
    if (task->opened->deletions == NULL && task->scan->filtered_count == 0) {
        return LAKE_OK;
    }
    base_free(task->keep);
    base_free(task->runs);
    base_free(task->spans);
    base_free(task->within);
    size_t most_runs = (size_t)task->batch_rows / 2 + 1;
    task->keep = base_alloc_array((size_t)task->batch_rows, 1);
    task->runs = base_alloc_array(most_runs, sizeof(*task->runs));
    task->spans = base_alloc_array(most_runs, sizeof(*task->runs));
    task->within = base_alloc_array(most_runs, sizeof(*task->runs));
    bool enough =
        task->keep != NULL && task->runs != NULL && task->spans != NULL && task->within != NULL;
    if (enough && !task->all_rows) {
        base_free(task->picked.runs);
        base_free(task->picked.kept);
        task->picked.runs = base_alloc_array((size_t)task->batch_rows, sizeof(*task->runs));
        task->picked.kept = base_alloc_array((size_t)task->batch_rows, sizeof(*task->runs));
        enough = task->picked.runs != NULL && task->picked.kept != NULL;
    }
    return enough ? LAKE_OK : base_fail_no_memory(err, (size_t)task->batch_rows);
}

/* The statistics of the columns that are filtered on, as far as there are any. */
static lake_status find_statistics(struct lance_task *task, struct lake_error *err)
{
    struct lance_scan *scan = task->scan;
    bool keeps = scan->dataset->cache != NULL && scan->dataset->cache_key != NULL;
    task->pruned_count = 0;
    if (scan->filtered_count > 0 && task->pruned == NULL) {
        task->pruned = base_calloc_array(scan->filtered_count, sizeof(*task->pruned));
    }
    if (scan->filtered_count > 0 && task->observed == NULL) {
        task->observed = base_calloc_array(scan->filtered_count, sizeof(*task->observed));
    }
    if (scan->filtered_count > 0 && (task->pruned == NULL || task->observed == NULL)) {
        return base_fail_no_memory(err, scan->filtered_count * sizeof(*task->observed));
    }
    for (size_t i = 0; i < scan->filtered_count; i++) {
        const struct scan_column *column = &scan->columns[i];
        const struct lance_column_source *source = &task->opened->sources[i][0];
        const struct lance_zones *zones = NULL;
        if (column->field->kind != LANCE_NODE_LEAF || source->file == NULL || source->column < 0) {
            continue;
        }
        lake_status status = lance_file_zones(source->file, (uint32_t)source->column, &zones, err);
        if (status != LAKE_OK) {
            return status;
        }
        if (zones != NULL) {
            task->pruned[task->pruned_count++] =
                (struct lance_pruned_column){zones, column->predicates, column->predicate_count};
        } else if (keeps && column->type == column->field->arrow) {
            lance_observe_start(&task->observed[i], source->file, (uint32_t)source->column,
                                column->type, task->cursor);
        }
    }
    return LAKE_OK;
}

/* May be called again after a failure. */
static lake_status open_task(struct lance_task *task, struct lake_error *err)
{
    struct lance_open_fragment *opened = NULL;
    lake_status status = acquire_fragment(task->scan, task->fragment, &opened, err);
    if (status != LAKE_OK) {
        return status;
    }
    task->opened = opened;
    status = find_statistics(task, err);
    if (status != LAKE_OK) {
        stop_observing(task, UINT64_MAX);
        lance_open_fragment_unref(opened);
        task->opened = NULL;
    }
    return status;
}

/* May be called again after a failure. */
static lake_status start_task(struct lance_task *task, struct lake_error *err)
{
    struct lance_scan *scan = task->scan;
    uint64_t row_bytes = 0;
    lake_status status = alloc_arrays(task, err);
    if (status == LAKE_OK) {
        status = make_readers(task, &row_bytes, err);
    }
    if (status == LAKE_OK && task->ahead == NULL && storage_can_fetch(scan->dataset->store)) {
        status = lance_read_ahead_new(&scan->ahead, &task->ahead, err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    task->batch_rows = BASE_MIN(scan->batch_rows, task->end - task->cursor);
    task->encoded_rows = row_bytes > 0 ? scan->batch_bytes / row_bytes : task->batch_rows;
    status = alloc_selection(task, err);
    task->started = status == LAKE_OK;
    return status;
}

static lake_status read_runs(struct lance_task *task, size_t column, const struct lance_run *runs,
                             size_t run_count, uint64_t count, struct lake_error *err)
{
    const struct lance_field *field = task->scan->columns[column].field;
    if (task->readers[column] == NULL) {
        return lance_array_of_nulls(task->scan->columns[column].type, count, &task->arrays[column],
                                    err);
    }
    lake_status status = lance_field_reader_read_runs(task->readers[column], runs, run_count,
                                                      &task->arrays[column], err);
    if (status != LAKE_OK) {
        const struct lance_dataset *dataset = task->scan->dataset;
        const struct lance_run *last = &runs[run_count - 1];
        return lake_fail_wrap(err, status,
                              "column %s, rows %" PRIu64 " to %" PRIu64 " of fragment %" PRIu64
                              ", version %" PRIu64 " cannot be read",
                              field->name, runs[0].start, last->start + last->count - 1,
                              dataset->manifest->pb->fragments[task->fragment]->id,
                              lance_dataset_version(dataset));
    }
    return LAKE_OK;
}

static lake_status read_column(struct lance_task *task, size_t column, uint64_t start,
                               uint64_t count, struct lake_error *err)
{
    struct lance_run run = {start, count};
    return read_runs(task, column, &run, 1, count, err);
}

/* ---- what the next batches need ---- */

static lake_status want_columns(struct lance_task *task, size_t first, size_t last, uint64_t start,
                                uint64_t end, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t i = first; status == LAKE_OK && i < last; i++) {
        if (task->readers[i] != NULL && task->arrays[i].release == NULL) {
            status =
                lance_field_reader_want(task->readers[i], task->ahead, start, end - start, err);
        }
    }
    return status == LAKE_OK ? lance_read_ahead_send(task->ahead, err) : status;
}

/* Asks for rows [start, end) of columns [first, last), all at once, and when `go_on` for those that
 * follow, as long as there is room. `next` is the first row that was not asked for. */
static lake_status ask_ahead(struct lance_task *task, size_t first, size_t last, uint64_t *next,
                             uint64_t start, uint64_t end, bool go_on, struct lake_error *err)
{
    uint64_t row_bytes = 1;
    lake_status status = LAKE_OK;
    if (task->ahead == NULL || first == last) {
        return LAKE_OK;
    }
    for (size_t i = first; i < last; i++) {
        row_bytes +=
            task->readers[i] == NULL ? 0 : lance_field_reader_bytes_per_row(task->readers[i]);
    }
    *next = BASE_MAX(*next, start);
    while (status == LAKE_OK && *next < task->end) {
        uint64_t allowed = lance_read_ahead_allowed(task->ahead);
        uint64_t rows = go_on ? BASE_MIN(allowed, AHEAD_STEP_BYTES) / row_bytes : 0;
        uint64_t stop = BASE_MAX(end, *next + BASE_MIN(rows, task->end - *next));
        /* Little by little would be many requests. */
        if (*next >= end && rows * row_bytes < AHEAD_STEP_BYTES / 2 && stop < task->end) {
            break;
        }
        if (stop <= *next) {
            break;
        }
        status = want_columns(task, first, last, *next, stop, err);
        *next = stop;
    }
    return status;
}

/* Asks for the rows picked, all at once. */
static lake_status want_picked(struct lance_task *task, size_t first, size_t last,
                               struct lake_error *err)
{
    const struct lance_picked *picked = &task->picked;
    lake_status status = LAKE_OK;
    if (task->ahead == NULL) {
        return LAKE_OK;
    }
    for (size_t i = first; i < last; i++) {
        for (size_t r = 0; task->readers[i] != NULL && r < picked->run_count; r++) {
            status = lance_field_reader_want(task->readers[i], task->ahead, picked->runs[r].start,
                                             picked->runs[r].count, err);
            if (status != LAKE_OK) {
                return status;
            }
        }
    }
    return lance_read_ahead_send(task->ahead, err);
}

/* ---- one batch ---- */

/* What survives of rows [start, start + count): runs relative to `start`. */
struct survivors {
    size_t run_count;
    uint64_t row_count;
};

static void drop_deleted(const struct lance_deletions *deletions, uint64_t start, uint64_t count,
                         uint8_t *keep)
{
    for (uint64_t i = 0; i < count;) {
        uint64_t row = start + i;
        if (row % 64 == 0 && deletions->words[row / 64] == 0) {
            i += 64;
            continue;
        }
        keep[i] = (uint8_t)(keep[i] & !lance_deletions_has(deletions, row));
        i++;
    }
}

static struct survivors find_runs(struct lance_task *task, uint64_t count)
{
    struct survivors survivors = {0, 0};
    const uint8_t *keep = task->keep;
    uint64_t i = 0;
    while (i < count) {
        const uint8_t *kept = memchr(keep + i, 1, (size_t)(count - i));
        if (kept == NULL) {
            break;
        }
        uint64_t start = (uint64_t)(kept - keep);
        const uint8_t *dropped = memchr(keep + start, 0, (size_t)(count - start));
        uint64_t end = dropped == NULL ? count : (uint64_t)(dropped - keep);
        task->runs[survivors.run_count++] = (struct lance_run){start, end - start};
        survivors.row_count += end - start;
        i = end;
    }
    return survivors;
}

static lake_status select_rows(struct lance_task *task, uint64_t count, struct survivors *out,
                               struct lake_error *err)
{
    struct lance_scan *scan = task->scan;
    memset(task->keep, 1, (size_t)count);
    if (task->opened->deletions != NULL) {
        drop_deleted(task->opened->deletions, task->cursor, count, task->keep);
    }
    lake_status asked = ask_ahead(task, 0, scan->filtered_count, &task->filtered_next, task->cursor,
                                  task->cursor + count, task->all_rows, err);
    if (asked != LAKE_OK) {
        return asked;
    }
    for (size_t i = 0; i < scan->filtered_count; i++) {
        if (memchr(task->keep, 1, (size_t)count) == NULL) {
            break;
        }
        lake_status status = read_column(task, i, task->cursor, count, err);
        if (status == LAKE_OK) {
            lance_observe_rows(&task->observed[i], &task->arrays[i], task->cursor);
        }
        for (size_t j = 0; status == LAKE_OK && j < scan->columns[i].predicate_count; j++) {
            status = lance_predicate_apply(scan->columns[i].predicates[j], &task->arrays[i],
                                           task->keep, err);
        }
        if (status != LAKE_OK) {
            return status;
        }
    }
    *out = find_runs(task, count);
    return LAKE_OK;
}

/* Replaces a column by the rows of `runs`. */
static lake_status keep_runs(struct lance_task *task, size_t column, const struct lance_run *runs,
                             size_t run_count, struct lake_error *err)
{
    struct ArrowArray selected = {.release = NULL};
    lake_status status = lance_array_take(task->scan->columns[column].type, &task->arrays[column],
                                          runs, run_count, &selected, err);
    if (status == LAKE_OK) {
        task->arrays[column].release(&task->arrays[column]);
        ArrowArrayMove(&selected, &task->arrays[column]);
    }
    return status;
}

struct spans {
    size_t count;
    uint64_t row_count;
};

/* What is read of a column for the survivors to be had: they, and the rows between two of them that
 * are so near that leaving those out would not pay. */
static struct spans find_spans(struct lance_task *task, size_t column, size_t run_count)
{
    struct spans spans = {0, 0};
    uint64_t gap = task->readers[column] == NULL
                       ? UINT64_MAX
                       : lance_field_reader_gap_rows(task->readers[column]);
    for (size_t r = 0; r < run_count; r++) {
        struct lance_run run = {task->cursor + task->runs[r].start, task->runs[r].count};
        struct lance_run *last = spans.count == 0 ? NULL : &task->spans[spans.count - 1];
        uint64_t between = last == NULL ? 0 : run.start - (last->start + last->count);
        if (last != NULL && between <= gap) {
            last->count += between + run.count;
            spans.row_count += between;
        } else {
            task->spans[spans.count++] = run;
        }
        task->within[r] = (struct lance_run){spans.row_count, run.count};
        spans.row_count += run.count;
    }
    return spans;
}

/* Asks for what the survivors need: of many everything in between and what follows, of few only
 * theirs, and nobody knows where the next ones are. */
static lake_status want_survivors(struct lance_task *task, uint64_t count,
                                  struct survivors survivors, struct lake_error *err)
{
    struct lance_scan *scan = task->scan;
    const struct lance_run *last = &task->runs[survivors.run_count - 1];
    lake_status status = LAKE_OK;
    if (task->ahead == NULL) {
        return LAKE_OK;
    }
    if (survivors.row_count >= count / 2) {
        return ask_ahead(task, scan->filtered_count, scan->column_count, &task->others_next,
                         task->cursor + task->runs[0].start,
                         task->cursor + last->start + last->count, task->all_rows, err);
    }
    for (size_t i = scan->filtered_count; i < scan->column_count; i++) {
        size_t span_count =
            task->readers[i] == NULL ? 0 : find_spans(task, i, survivors.run_count).count;
        for (size_t s = 0; status == LAKE_OK && s < span_count; s++) {
            status = lance_field_reader_want(task->readers[i], task->ahead, task->spans[s].start,
                                             task->spans[s].count, err);
        }
    }
    return status == LAKE_OK ? lance_read_ahead_send(task->ahead, err) : status;
}

/* Keeps the survivors of every projected column. Those that were filtered on are there, with all
 * `count` rows. */
static lake_status read_survivors(struct lance_task *task, uint64_t count,
                                  struct survivors survivors, struct lake_error *err)
{
    struct lance_scan *scan = task->scan;
    lake_status status = want_survivors(task, count, survivors, err);
    for (size_t i = 0; status == LAKE_OK && i < scan->column_count; i++) {
        const struct lance_run *kept = task->runs;
        uint64_t row_count = count;
        if (scan->columns[i].output == LANCE_NO_OUTPUT) {
            continue;
        }
        if (task->arrays[i].release == NULL) {
            struct spans spans = find_spans(task, i, survivors.run_count);
            kept = task->within;
            row_count = spans.row_count;
            status = read_runs(task, i, task->spans, spans.count, row_count, err);
        }
        if (status == LAKE_OK && survivors.row_count < row_count) {
            status = keep_runs(task, i, kept, survivors.run_count, err);
        }
    }
    return status;
}

/* The filters on the rows picked; what remains of them stays picked. */
static lake_status select_picked(struct lance_task *task, struct survivors *out,
                                 struct lake_error *err)
{
    struct lance_scan *scan = task->scan;
    uint64_t count = task->picked.row_count;
    lake_status status = want_picked(task, 0, scan->filtered_count, err);
    memset(task->keep, 1, (size_t)count);
    for (size_t i = 0; i < scan->filtered_count && status == LAKE_OK; i++) {
        if (memchr(task->keep, 1, (size_t)count) == NULL) {
            break;
        }
        status = read_runs(task, i, task->picked.runs, task->picked.run_count, count, err);
        for (size_t j = 0; status == LAKE_OK && j < scan->columns[i].predicate_count; j++) {
            status = lance_predicate_apply(scan->columns[i].predicates[j], &task->arrays[i],
                                           task->keep, err);
        }
    }
    if (status == LAKE_OK) {
        *out = find_runs(task, count);
        lance_task_keep_picked(task, task->runs, out->run_count);
    }
    return status;
}

/* The survivors' columns: those that were filtered on are there, of all that were picked. */
static lake_status read_picked(struct lance_task *task, struct survivors survivors,
                               struct lake_error *err)
{
    struct lance_scan *scan = task->scan;
    struct lance_picked *picked = &task->picked;
    lake_status status = want_picked(task, scan->filtered_count, scan->column_count, err);
    for (size_t i = 0; status == LAKE_OK && i < scan->column_count; i++) {
        if (scan->columns[i].output == LANCE_NO_OUTPUT) {
            continue;
        }
        if (task->arrays[i].release == NULL) {
            status = read_runs(task, i, picked->runs, picked->run_count, survivors.row_count, err);
        } else if (survivors.row_count < picked->row_count) {
            status = keep_runs(task, i, task->runs, survivors.run_count, err);
        }
    }
    if (status != LAKE_OK || scan->row_columns == 0) {
        return status;
    }
    for (size_t r = 0; r < picked->run_count; r++) {
        picked->runs[r].start -= task->cursor;
    }
    return lance_row_columns_read(task, picked->runs, picked->run_count, survivors.row_count, err);
}

/* Moves the projected columns into one struct array. */
static lake_status assemble(struct lance_task *task, uint64_t row_count, struct ArrowArray *out,
                            struct lake_error *err)
{
    struct lance_scan *scan = task->scan;
    struct ArrowArray batch;
    size_t row_columns = lance_row_column_count(scan->row_columns);
    if (ArrowArrayInitFromType(&batch, NANOARROW_TYPE_STRUCT) != NANOARROW_OK) {
        return base_fail_no_memory(err, sizeof(batch));
    }
    if (ArrowArrayAllocateChildren(&batch, (int64_t)(scan->output_count + row_columns)) !=
        NANOARROW_OK) {
        ArrowArrayRelease(&batch);
        return base_fail_no_memory(err, scan->output_count * sizeof(batch));
    }
    batch.length = (int64_t)row_count;
    batch.null_count = 0;
    for (size_t i = 0; i < scan->column_count; i++) {
        if (scan->columns[i].output != LANCE_NO_OUTPUT) {
            ArrowArrayMove(&task->arrays[i], batch.children[scan->columns[i].output]);
        }
    }
    for (size_t i = 0; i < row_columns; i++) {
        ArrowArrayMove(&task->row_arrays[i], batch.children[scan->output_count + i]);
    }
    *out = batch;
    return LAKE_OK;
}

static lake_status next_batch(struct lance_task *task, uint64_t count, bool *produced,
                              struct ArrowArray *out, struct lake_error *err)
{
    struct lance_scan *scan = task->scan;
    struct survivors survivors = {1, count};
    lake_status status = LAKE_OK;
    *produced = false;
    if (task->ahead != NULL) { /* chunks begin in the rows before */
        lance_read_ahead_passed(task->ahead,
                                task->cursor - BASE_MIN(task->cursor, task->batch_rows));
    }
    if (task->keep != NULL) {
        status = select_rows(task, count, &survivors, err);
        if (status == LAKE_OK && survivors.row_count > 0) {
            status = lance_row_columns_read(task, task->runs, survivors.run_count,
                                            survivors.row_count, err);
        }
        if (status == LAKE_OK && survivors.row_count > 0) {
            status = read_survivors(task, count, survivors, err);
        }
    } else {
        struct lance_run all = {0, count};
        status = lance_row_columns_read(task, &all, 1, count, err);
        if (status == LAKE_OK) {
            status = ask_ahead(task, 0, scan->column_count, &task->others_next, task->cursor,
                               task->cursor + count, true, err);
        }
        for (size_t i = 0; status == LAKE_OK && i < scan->column_count; i++) {
            status = read_column(task, i, task->cursor, count, err);
        }
    }
    if (status == LAKE_OK && survivors.row_count > 0) {
        status = assemble(task, survivors.row_count, out, err);
        *produced = status == LAKE_OK;
    }
    release_arrays(task);
    return status;
}

static lake_status next_picked_batch(struct lance_task *task, bool *produced,
                                     struct ArrowArray *out, struct lake_error *err)
{
    struct survivors survivors = {0, 0};
    lake_status status = LAKE_OK;
    *produced = false;
    if (task->ahead != NULL) {
        lance_read_ahead_passed(task->ahead,
                                task->cursor - BASE_MIN(task->cursor, task->batch_rows));
    }
    if (task->picked.row_count > 0) {
        status = select_picked(task, &survivors, err);
    }
    if (status == LAKE_OK && survivors.row_count > 0) {
        status = read_picked(task, survivors, err);
    }
    if (status == LAKE_OK && survivors.row_count > 0) {
        status = assemble(task, survivors.row_count, out, err);
        *produced = status == LAKE_OK;
    }
    release_arrays(task);
    return status;
}

static uint64_t next_count(const struct lance_task *task)
{
    const struct lance_scan *scan = task->scan;
    uint64_t count = BASE_MIN(lance_task_most_rows(task), task->end - task->cursor);
    /* Whole batches begin at multiples of their size, as chunks do, which are then decoded straight
     * into the batch. */
    count = BASE_MIN(count, scan->batch_rows - task->cursor % scan->batch_rows);
    return BASE_MAX(count, 1);
}

static bool is_stopped(const struct lance_scan *scan)
{
    return scan->stop != NULL && __atomic_load_n(scan->stop, __ATOMIC_ACQUIRE);
}

lake_status lance_task_next(struct lance_task *task, struct ArrowArray *out, bool *end,
                            struct lake_error *err)
{
    bool produced = false;
    if (!lance_task_has_candidates(task)) {
        task->cursor = task->end;
    }
    if (task->opened == NULL && task->cursor < task->end) {
        lake_status status = open_task(task, err);
        if (status != LAKE_OK) {
            return status;
        }
    }
    while (task->cursor < task->end) {
        uint64_t last = task->end;
        bool scattered;
        if (is_stopped(task->scan)) {
            return lake_fail(err, LAKE_CANCELLED, "the scan was stopped");
        }
        if (task->pruned_count > 0) {
            lance_prune(task->pruned, task->pruned_count, task->cursor, task->end, &task->cursor,
                        &last);
        }
        lance_task_next_candidates(task, &task->cursor, &last, &scattered);
        if (task->cursor == last) {
            continue; /* nothing up to here can pass */
        }
        lake_status status = task->started ? LAKE_OK : start_task(task, err);
        if (status != LAKE_OK) {
            return status;
        }
        uint64_t count = BASE_MIN(next_count(task), last - task->cursor);
        uint64_t next = task->cursor + count;
        if (scattered) {
            next = lance_task_pick(task, lance_task_most_rows(task), last);
            count = task->picked.row_count;
        }
        status = scattered ? next_picked_batch(task, &produced, out, err)
                           : next_batch(task, count, &produced, out, err);
        if (status == LAKE_RESOURCE_EXHAUSTED && count > 1) {
            task->encoded_rows = count / 2; /* values far above the average (L20) */
            continue;
        }
        if (status != LAKE_OK) {
            return status;
        }
        task->cursor = next;
        atomic_fetch_add_explicit(&task->scan->rows_scanned, count, memory_order_relaxed);
        if (produced) {
            lance_scan_note_size(task->scan, out);
            *end = false;
            return LAKE_OK;
        }
    }
    *end = true;
    return LAKE_OK;
}
