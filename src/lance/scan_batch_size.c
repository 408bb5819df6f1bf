/* How many rows a scan's batches take, by what they were seen to weigh. */
#include "scan.h"

#include <string.h>

#define FIRST_BATCH_ROWS 1024
/* No column takes more than this part of a batch's bytes: buffers of many megabytes would come from
 * the system each time, page by page, and go through no cache. */
#define COLUMN_SHARE 4

uint64_t lance_weigh_row(uint64_t bytes, uint64_t largest_column)
{
    return BASE_MAX(bytes, COLUMN_SHARE * largest_column);
}

/* Bytes of a column's buffers, near enough: strings and lists by their offsets. */
static uint64_t decoded_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    uint64_t bytes = array->n_buffers > 0 ? (uint64_t)array->length : 0;
    const char *format = schema->format;
    bool large = strchr("UZ", format[0]) != NULL;
    if (large || strchr("uz", format[0]) != NULL) {
        const void *offsets = array->buffers[1];
        int64_t last = array->offset + array->length;
        if (offsets != NULL) {
            bytes += large ? (uint64_t)(((const int64_t *)offsets)[last] -
                                        ((const int64_t *)offsets)[array->offset])
                           : (uint64_t)(((const int32_t *)offsets)[last] -
                                        ((const int32_t *)offsets)[array->offset]);
        }
    } else if (strncmp(format, "w:", 2) == 0) {
        uint64_t width = 0;
        (void)base_str_to_u64(base_str_of(format + 2), &width);
        bytes += (uint64_t)array->length * width;
    } else {
        bytes += (uint64_t)array->length * 8;
    }
    for (int64_t i = 0; i < array->n_children; i++) {
        bytes += decoded_bytes(schema->children[i], array->children[i]);
    }
    return bytes;
}

uint64_t lance_task_most_rows(const struct lance_task *task)
{
    const struct lance_scan *scan = task->scan;
    uint64_t seen = atomic_load_explicit(&scan->row_bytes, memory_order_relaxed);
    uint64_t count = BASE_MIN(task->batch_rows, task->encoded_rows);
    count = BASE_MIN(count, seen == 0 ? FIRST_BATCH_ROWS : scan->batch_bytes / seen);
    return BASE_MAX(count, 1);
}

void lance_scan_note_size(struct lance_scan *scan, const struct ArrowArray *batch)
{
    uint64_t bytes = 0;
    uint64_t largest = 0;
    uint64_t rows = (uint64_t)batch->length;
    for (int64_t i = 0; i < batch->n_children; i++) {
        uint64_t column = decoded_bytes(scan->schema.children[i], batch->children[i]);
        bytes += column;
        largest = BASE_MAX(largest, column);
    }
    atomic_store_explicit(&scan->row_bytes, lance_weigh_row(bytes, largest) / rows + 1,
                          memory_order_relaxed);
}
