/* Runs of one value in an Arrow array: what the engine takes as a constant for many rows at once.
 */
#include "sql_internal.h"

#include <string.h>

#define BLOCK_ITEMS 64

struct sql_run_layout sql_run_layout_of(const struct ArrowSchema *field)
{
    struct ArrowSchemaView view;
    struct sql_run_layout layout = {0};
    if (field->dictionary != NULL || field->n_children > 0 ||
        ArrowSchemaViewInit(&view, field, NULL) != NANOARROW_OK) {
        return layout;
    }
    uint32_t bits = (uint32_t)view.layout.element_size_bits[1];
    if (view.layout.buffer_type[1] == NANOARROW_BUFFER_TYPE_DATA &&
        view.layout.buffer_type[2] == NANOARROW_BUFFER_TYPE_NONE && (bits == 1 || bits % 8 == 0)) {
        layout.item_bits = bits;
    } else if (view.layout.buffer_type[1] == NANOARROW_BUFFER_TYPE_DATA_OFFSET) {
        layout.offset_bits = bits;
    }
    return layout;
}

/* How many of `most` items of `bytes` are like the first. */
static size_t run_of_items(const uint8_t *items, size_t bytes, size_t most)
{
    size_t run = 1;
    while (run < most) {
        size_t block = BASE_MIN(most - run, run < BLOCK_ITEMS ? run : BLOCK_ITEMS);
        if (memcmp(items, items + run * bytes, block * bytes) != 0) {
            break;
        }
        run += block;
    }
    while (run < most && memcmp(items, items + run * bytes, bytes) == 0) {
        run++;
    }
    return run;
}

static size_t run_of_bits(const uint8_t *bits, size_t start, size_t most)
{
    bool first = (bits[start / 8] >> start % 8 & 1) != 0;
    uint8_t whole = first ? 0xFF : 0;
    size_t run = 1;
    while (run < most) {
        size_t at = start + run;
        if (at % 8 == 0 && bits[at / 8] == whole && most - run >= 8) {
            run += 8;
        } else if (((bits[at / 8] >> at % 8 & 1) != 0) == first) {
            run++;
        } else {
            break;
        }
    }
    return run;
}

/* Values of equal length that lie back to back are items of a fixed width. */
static size_t run_of_strings(const struct ArrowArray *array, uint32_t offset_bits, size_t start,
                             size_t most)
{
    const uint8_t *data = array->buffers[2];
    size_t run = 1;
    if (offset_bits == 32) {
        const int32_t *offsets = (const int32_t *)array->buffers[1] + start;
        int32_t length = offsets[1] - offsets[0];
        while (run < most && offsets[run + 1] - offsets[run] == length) {
            run++;
        }
        return length == 0 ? run : run_of_items(data + offsets[0], (size_t)length, run);
    }
    const int64_t *offsets = (const int64_t *)array->buffers[1] + start;
    int64_t length = offsets[1] - offsets[0];
    while (run < most && offsets[run + 1] - offsets[run] == length) {
        run++;
    }
    return length == 0 ? run : run_of_items(data + offsets[0], (size_t)length, run);
}

size_t sql_run_length(struct sql_run_layout layout, const struct ArrowArray *array, size_t row,
                      size_t most)
{
    if (most <= 1 || (layout.item_bits == 0 && layout.offset_bits == 0)) {
        return most == 0 ? 0 : 1;
    }
    size_t start = (size_t)array->offset + row;
    if (array->null_count != 0 && array->buffers[0] != NULL) {
        const uint8_t *valid = array->buffers[0];
        most = run_of_bits(valid, start, most);
        if ((valid[start / 8] >> start % 8 & 1) == 0) {
            return most;
        }
    }
    if (layout.offset_bits != 0) {
        return run_of_strings(array, layout.offset_bits, start, most);
    }
    if (layout.item_bits == 1) {
        return run_of_bits(array->buffers[1], start, most);
    }
    size_t bytes = layout.item_bits / 8;
    return run_of_items((const uint8_t *)array->buffers[1] + start * bytes, bytes, most);
}
