/*
 * Opening the fragments of a scan. From a far store the tails of the next ones' files are on their
 * way while tasks read: so a table of many fragments costs an answer's time once, not for each.
 */
#include "scan.h"

#include <string.h>

#define FRAGMENTS_AHEAD 8

struct tails {
    struct coming_tail items[LANCE_MAX_TAILS];
    size_t count;
};

/* Asks for the tail of one file, unless there is no need. */
static void ask_for(const struct lance_scan *scan, size_t fragment, size_t file, struct tails *out)
{
    const LancePb__DataFile *data_file =
        scan->dataset->manifest->pb->fragments[fragment]->files[file];
    uint64_t size = data_file->file_size_bytes;
    struct coming_tail tail = {.fragment = fragment, .file = file};
    struct lance_place place;
    if (size == 0 || lance_dataset_place_file(scan->dataset, data_file, &place, NULL) != LAKE_OK ||
        !storage_can_fetch(place.store) || lance_dataset_has_file(scan->dataset, &place)) {
        return;
    }
    tail.tail.size = (size_t)BASE_MIN(size, (uint64_t)LANCE_TAIL_BYTES);
    tail.tail.data = base_alloc(tail.tail.size);
    if (tail.tail.data == NULL ||
        storage_fetch_start(place.store, base_str_of(place.key), "", size - tail.tail.size,
                            tail.tail.size, tail.tail.data, &tail.fetch, NULL) != LAKE_OK) {
        base_free(tail.tail.data); /* opening the file will say why */
        return;
    }
    out->items[out->count++] = tail;
}

/* What this thread is to ask for: of fragments that follow and that nobody has asked for, as many
 * as there is room for. With the mutex held. */
static size_t claim_next(struct lance_scan *scan, size_t index, size_t *first)
{
    size_t end = BASE_MIN(index + 1 + FRAGMENTS_AHEAD, scan->fragment_count);
    size_t room = LANCE_MAX_TAILS - scan->tail_count;
    *first = BASE_MAX(index + 1, scan->tails_until);
    size_t last = *first;
    for (; last < end; last++) {
        size_t files = scan->dataset->manifest->pb->fragments[last]->n_files;
        if (files > room) {
            break;
        }
        room -= files;
    }
    scan->tails_until = BASE_MAX(scan->tails_until, last);
    return last - *first;
}

static void ask_for_next(const struct lance_scan *scan, size_t first, size_t count,
                         struct tails *out)
{
    for (size_t i = first; i < first + count; i++) {
        const LancePb__DataFragment *fragment = scan->dataset->manifest->pb->fragments[i];
        bool needed = scan->first_task[i + 1] > scan->first_task[i];
        for (size_t f = 0; needed && f < fragment->n_files; f++) {
            if (lance_fragment_file_holds(fragment, f, scan->fields, scan->column_count)) {
                ask_for(scan, i, f, out);
            }
        }
    }
}

/* The tails of this fragment's files that were asked for, and those that came too late for theirs.
 * With the mutex held. */
static void take_tails(struct lance_scan *scan, size_t index, struct tails *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < scan->tail_count; i++) {
        size_t fragment = scan->tails[i].fragment;
        if (fragment == index || scan->slots[fragment].opened != NULL ||
            scan->slots[fragment].tasks_left == 0) {
            out->items[out->count++] = scan->tails[i];
        } else {
            scan->tails[kept++] = scan->tails[i];
        }
    }
    scan->tail_count = kept;
}

/* With the mutex held. What finds no room stays in `from`. */
static void put_tails(struct lance_scan *scan, struct tails *from)
{
    while (from->count > 0 && scan->tail_count < LANCE_MAX_TAILS) {
        scan->tails[scan->tail_count++] = from->items[--from->count];
    }
}

static void drop(struct coming_tail *tail)
{
    storage_fetch_cancel(tail->fetch);
    base_free(tail->tail.data);
}

/* By file of fragment `index`; what is of another is dropped. */
static void await(struct tails *coming, size_t index, struct lance_tail *out)
{
    for (size_t i = 0; i < coming->count; i++) {
        struct coming_tail *tail = &coming->items[i];
        if (tail->fragment != index) {
            drop(tail);
        } else if (storage_fetch_finish(tail->fetch, NULL) == LAKE_OK) {
            out[tail->file] = tail->tail;
        } else {
            base_free(tail->tail.data);
        }
    }
}

lake_status lance_scan_open_fragment(struct lance_scan *scan, size_t index,
                                     struct lance_open_fragment **out, struct lake_error *err)
{
    size_t file_count = scan->dataset->manifest->pb->fragments[index]->n_files;
    struct tails coming = {.count = 0};
    struct tails next = {.count = 0};
    size_t first;
    /* Where indices say which rows may pass, many fragments are never opened. */
    if (!storage_can_fetch(scan->dataset->store) || scan->candidates.used > 0) {
        return lance_fragment_open(scan->dataset, index, scan->fields, scan->column_count, out,
                                   err);
    }
    struct lance_tail *tails = base_calloc_array(file_count + 1, sizeof(*tails));
    if (tails == NULL) {
        return base_fail_no_memory(err, file_count * sizeof(*tails));
    }
    (void)pthread_mutex_lock(&scan->mutex);
    take_tails(scan, index, &coming);
    size_t count = claim_next(scan, index, &first);
    (void)pthread_mutex_unlock(&scan->mutex);
    ask_for_next(scan, first, count, &next);
    (void)pthread_mutex_lock(&scan->mutex);
    put_tails(scan, &next);
    (void)pthread_mutex_unlock(&scan->mutex);
    while (next.count > 0) {
        drop(&next.items[--next.count]);
    }
    await(&coming, index, tails);
    lake_status status = lance_fragment_open_by(scan->dataset, index, scan->fields,
                                                scan->column_count, tails, out, err);
    for (size_t i = 0; i < file_count; i++) {
        base_free(tails[i].data);
    }
    base_free(tails);
    return status;
}

void lance_scan_drop_tails(struct lance_scan *scan)
{
    while (scan->tail_count > 0) {
        drop(&scan->tails[--scan->tail_count]);
    }
}
