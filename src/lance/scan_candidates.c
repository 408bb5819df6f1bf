/*
 * The rows that indices leave of a task. Where many lie together they are read like all rows;
 * single ones are picked and read by themselves, as a take does.
 */
#include "scan.h"

#define TOGETHER 512 /* rows in a run, from which on it is read by itself */

static uint64_t base_address(const struct lance_task *task)
{
    return task->scan->dataset->manifest->pb->fragments[task->fragment]->id << 32;
}

void lance_task_find_candidates(struct lance_task *task)
{
    const struct lance_candidates *all = &task->scan->candidates;
    task->all_rows = all->used == 0 || !all->known[task->fragment];
    if (!task->all_rows) {
        task->candidates = all->runs + all->first[task->fragment];
        task->candidate_count = all->first[task->fragment + 1] - all->first[task->fragment];
    }
}

/* The first of the candidates from row `from` on and before `end`, as rows of the fragment; those
 * before it are behind *passed. */
static bool next_run(const struct lance_task *task, size_t *passed, uint64_t from, uint64_t end,
                     struct lance_run *out)
{
    uint64_t base = base_address(task);
    *passed +=
        lance_runs_from(task->candidates + *passed, task->candidate_count - *passed, base + from);
    const struct lance_run *run = &task->candidates[*passed];
    if (*passed == task->candidate_count || run->start >= base + end) {
        return false;
    }
    out->start = run->start < base + from ? from : run->start - base;
    out->count = BASE_MIN(run->start + run->count - base, end) - out->start;
    return true;
}

bool lance_task_has_candidates(const struct lance_task *task)
{
    struct lance_run run;
    size_t passed = 0;
    return task->all_rows || next_run(task, &passed, task->cursor, task->end, &run);
}

void lance_task_next_candidates(const struct lance_task *task, uint64_t *first, uint64_t *last,
                                bool *scattered)
{
    struct lance_run run;
    size_t passed = 0;
    *scattered = false;
    if (task->all_rows) {
        return;
    }
    if (!next_run(task, &passed, *first, *last, &run)) {
        *first = *last;
        return;
    }
    *first = run.start;
    *scattered = run.count < TOGETHER;
    if (!*scattered) {
        *last = run.start + run.count;
    }
}

static void add_row(struct lance_picked *picked, uint64_t row)
{
    struct lance_run *last = &picked->runs[picked->run_count];
    if (picked->run_count > 0 && last[-1].start + last[-1].count == row) {
        last[-1].count++;
    } else {
        *last = (struct lance_run){row, 1};
        picked->run_count++;
    }
    picked->row_count++;
}

uint64_t lance_task_pick(struct lance_task *task, uint64_t most, uint64_t last)
{
    const struct lance_deletions *deletions = task->opened->deletions;
    struct lance_picked *picked = &task->picked;
    struct lance_run run;
    uint64_t at = task->cursor;
    size_t passed = 0;
    picked->run_count = 0;
    picked->row_count = 0;
    while (next_run(task, &passed, at, last, &run)) {
        if (run.count >= TOGETHER) {
            return run.start;
        }
        for (at = run.start; at < run.start + run.count; at++) {
            if (picked->row_count == most) {
                return at;
            }
            if (deletions == NULL || !lance_deletions_has(deletions, at)) {
                add_row(picked, at);
            }
        }
    }
    return last;
}

void lance_task_keep_picked(struct lance_task *task, const struct lance_run *kept,
                            size_t kept_count)
{
    struct lance_picked *picked = &task->picked;
    struct lance_run *out = picked->kept;
    size_t count = 0;
    size_t run = 0;
    uint64_t before = 0; /* rows of the runs before `run` */
    for (size_t k = 0; k < kept_count; k++) {
        uint64_t at = kept[k].start;
        uint64_t end = at + kept[k].count;
        while (at < end) {
            while (at >= before + picked->runs[run].count) {
                before += picked->runs[run++].count;
            }
            uint64_t skip = at - before;
            uint64_t taken = BASE_MIN(end - at, picked->runs[run].count - skip);
            out[count++] = (struct lance_run){picked->runs[run].start + skip, taken};
            at += taken;
        }
    }
    picked->kept = picked->runs;
    picked->runs = out;
    picked->run_count = count;
}
