#include "read_ahead.h"

#include "file_read.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GAP_BYTES    ((uint64_t)512 << 10)
#define MAX_JOINED_BYTES ((uint64_t)4 << 20)
#define SMALL_BYTES      ((uint64_t)256 << 10) /* to read so much costs little more than to ask */
#define FIRST_BYTES      ((uint64_t)4 << 20)   /* ahead, before anything was read */

/* Bytes [start, end) of a file. */
struct span {
    struct lance_file *file;
    uint64_t start, end;
    uint64_t end_row; /* of the rows that need it */
    uint8_t *data;
    struct storage_fetch *fetch; /* NULL: the data is here */
};

struct wish {
    struct lance_file *file;
    uint64_t start, end;
    uint64_t end_row;
};

struct lance_read_ahead {
    struct lance_ahead_budget *budget;
    struct span *spans; /* by file and start; none overlap */
    size_t span_count, span_capacity;
    struct wish *wishes;
    size_t wish_count, wish_capacity;
};

lake_status lance_read_ahead_new(struct lance_ahead_budget *budget, struct lance_read_ahead **out,
                                 struct lake_error *err)
{
    struct lance_read_ahead *ahead = base_calloc_array(1, sizeof(*ahead));
    if (ahead == NULL)
        return base_fail_no_memory(err, sizeof(*ahead));
    ahead->budget = budget;
    *out = ahead;
    return LAKE_OK;
}

static void release(struct lance_read_ahead *ahead, struct span *span)
{
    storage_fetch_cancel(span->fetch);
    base_free(span->data);
    atomic_fetch_sub_explicit(&ahead->budget->held_bytes, span->end - span->start,
                              memory_order_relaxed);
}

void lance_read_ahead_free(struct lance_read_ahead *ahead)
{
    if (ahead == NULL)
        return;
    for (size_t i = 0; i < ahead->span_count; i++)
        release(ahead, &ahead->spans[i]);
    base_free(ahead->spans);
    base_free(ahead->wishes);
    base_free(ahead);
}

static int compare_places(const struct lance_file *a_file, uint64_t a,
                          const struct lance_file *b_file, uint64_t b)
{
    if (a_file != b_file)
        return (uintptr_t)a_file < (uintptr_t)b_file ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* The first span that ends behind `position`, of this file or a later one. */
static size_t find_span(const struct lance_read_ahead *ahead, const struct lance_file *file,
                        uint64_t position)
{
    size_t low = 0;
    size_t high = ahead->span_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct span *span = &ahead->spans[middle];
        if (compare_places(span->file, span->end, file, position) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The span that holds `position`, or NULL; *next is where the one after it starts. */
static struct span *span_at(struct lance_read_ahead *ahead, const struct lance_file *file,
                            uint64_t position, uint64_t *next)
{
    size_t index = find_span(ahead, file, position);
    struct span *span = index < ahead->span_count ? &ahead->spans[index] : NULL;
    *next = UINT64_MAX;
    if (span == NULL || span->file != file)
        return NULL;
    if (span->start <= position)
        return span;
    *next = span->start;
    return NULL;
}

static lake_status grow(void **items, size_t *capacity, size_t count, size_t item_bytes,
                        struct lake_error *err)
{
    if (count < *capacity)
        return LAKE_OK;
    size_t larger = BASE_MAX(2 * *capacity, (size_t)32);
    void *grown = base_realloc_array(*items, larger, item_bytes);
    if (grown == NULL)
        return base_fail_no_memory(err, larger * item_bytes);
    *items = grown;
    *capacity = larger;
    return LAKE_OK;
}

lake_status lance_read_ahead_want(struct lance_read_ahead *ahead, struct lance_file *file,
                                  uint64_t start, uint64_t end, uint64_t end_row,
                                  struct lake_error *err)
{
    while (start < end) {
        uint64_t next;
        struct span *span = span_at(ahead, file, start, &next);
        if (span != NULL) { /* that is here, and stays */
            span->end_row = BASE_MAX(span->end_row, end_row);
            start = span->end;
            continue;
        }
        lake_status status = grow((void **)&ahead->wishes, &ahead->wish_capacity, ahead->wish_count,
                                  sizeof(struct wish), err);
        if (status != LAKE_OK)
            return status;
        ahead->wishes[ahead->wish_count++] =
            (struct wish){file, start, BASE_MIN(end, next), end_row};
        start = next;
    }
    return LAKE_OK;
}

static int compare_wishes(const void *a, const void *b)
{
    const struct wish *left = a;
    const struct wish *right = b;
    return compare_places(left->file, left->start, right->file, right->start);
}

/* Fetches bytes that no span has. */
static lake_status fetch(struct lance_read_ahead *ahead, const struct wish *wish,
                         struct lake_error *err)
{
    struct span span = {wish->file, wish->start, wish->end, wish->end_row, NULL, NULL};
    size_t size = (size_t)(wish->end - wish->start);
    lake_status status = grow((void **)&ahead->spans, &ahead->span_capacity, ahead->span_count,
                              sizeof(struct span), err);
    if (status != LAKE_OK)
        return status;
    span.data = base_alloc(size);
    if (span.data == NULL)
        return base_fail_no_memory(err, size);
    status = storage_fetch_start(wish->file->store, wish->file->key, "", wish->start, size,
                                 span.data, &span.fetch, err);
    if (status != LAKE_OK) {
        base_free(span.data);
        return status;
    }
    size_t index = find_span(ahead, wish->file, wish->start);
    memmove(&ahead->spans[index + 1], &ahead->spans[index],
            (ahead->span_count - index) * sizeof(span));
    ahead->spans[index] = span;
    ahead->span_count++;
    atomic_fetch_add_explicit(&ahead->budget->held_bytes, size, memory_order_relaxed);
    return LAKE_OK;
}

/* Whether one request for both is better than two: when it has not more bytes that nobody wants
 * than such that somebody does. `wanted` is of the first. */
static bool belong_together(struct lance_read_ahead *ahead, const struct wish *first,
                            const struct wish *second, uint64_t wanted)
{
    uint64_t next;
    if (first->file != second->file)
        return false;
    if (second->start < first->end)
        return true;
    uint64_t joined = second->end - first->start;
    uint64_t gaps = joined - wanted - (second->end - second->start);
    return second->start - first->end <= MAX_GAP_BYTES && joined <= MAX_JOINED_BYTES &&
           (joined <= SMALL_BYTES || gaps <= joined / 2) &&
           (gaps == 0 ||
            (span_at(ahead, first->file, first->end, &next) == NULL && next >= second->start));
}

lake_status lance_read_ahead_send(struct lance_read_ahead *ahead, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (ahead->wish_count > 1)
        qsort(ahead->wishes, ahead->wish_count, sizeof(struct wish), compare_wishes);
    for (size_t i = 0; status == LAKE_OK && i < ahead->wish_count;) {
        struct wish joined = ahead->wishes[i];
        uint64_t wanted = joined.end - joined.start;
        for (i++; i < ahead->wish_count; i++) {
            const struct wish *wish = &ahead->wishes[i];
            if (!belong_together(ahead, &joined, wish, wanted))
                break;
            if (wish->end > joined.end)
                wanted += wish->end - BASE_MAX(wish->start, joined.end);
            joined.end = BASE_MAX(joined.end, wish->end);
            joined.end_row = BASE_MAX(joined.end_row, wish->end_row);
        }
        status = fetch(ahead, &joined, err);
    }
    ahead->wish_count = 0;
    return status;
}

uint64_t lance_read_ahead_allowed(const struct lance_read_ahead *ahead)
{
    uint64_t held = atomic_load_explicit(&ahead->budget->held_bytes, memory_order_relaxed);
    uint64_t taken = atomic_load_explicit(&ahead->budget->taken_bytes, memory_order_relaxed);
    uint64_t most = BASE_MIN(FIRST_BYTES + taken, LANCE_AHEAD_BYTES);
    return most - BASE_MIN(held, most);
}

void lance_read_ahead_passed(struct lance_read_ahead *ahead, uint64_t row)
{
    size_t kept = 0;
    for (size_t i = 0; i < ahead->span_count; i++) {
        if (ahead->spans[i].end_row <= row)
            release(ahead, &ahead->spans[i]);
        else
            ahead->spans[kept++] = ahead->spans[i];
    }
    ahead->span_count = kept;
}

uint64_t lance_read_ahead_reach(struct lance_read_ahead *ahead, const struct lance_file *file,
                                uint64_t start, uint64_t end, uint64_t stop)
{
    uint64_t next;
    uint64_t reach = start;
    while (reach < stop) {
        const struct span *span = span_at(ahead, file, reach, &next);
        if (span == NULL)
            break;
        reach = span->end;
    }
    return reach < end ? stop : BASE_MIN(reach, stop);
}

/* Waits for the span's bytes. Those that did not come are asked for again by whoever reads. */
static bool arrived(struct lance_read_ahead *ahead, struct span *span)
{
    if (span->fetch == NULL)
        return true;
    lake_status status = storage_fetch_finish(span->fetch, NULL);
    span->fetch = NULL;
    if (status == LAKE_OK)
        return true;
    release(ahead, span);
    size_t index = (size_t)(span - ahead->spans);
    memmove(span, span + 1, (ahead->span_count - index - 1) * sizeof(*span));
    ahead->span_count--;
    return false;
}

lake_status lance_read_ahead_read(struct lance_read_ahead *ahead, struct lance_file *file,
                                  uint64_t offset, size_t size_bytes, uint8_t *out,
                                  struct lake_error *err)
{
    uint64_t end = offset + size_bytes;
    atomic_fetch_add_explicit(&ahead->budget->taken_bytes, size_bytes, memory_order_relaxed);
    while (offset < end) {
        uint64_t next;
        struct span *span = span_at(ahead, file, offset, &next);
        uint64_t stop = BASE_MIN(end, span != NULL ? span->end : next);
        if (span != NULL && !arrived(ahead, span))
            continue;
        if (span != NULL) {
            memcpy(out, span->data + (offset - span->start), (size_t)(stop - offset));
        } else {
            lake_status status = storage_read_range(file->store, file->key, offset,
                                                    (size_t)(stop - offset), out, err);
            if (status != LAKE_OK)
                return status;
        }
        out += stop - offset;
        offset = stop;
    }
    return LAKE_OK;
}
