/*
 * Selecting rows of decoded arrays: what a filter and a deletion vector leave. Rows come as
 * ascending runs, so that a few deletions cost a few large copies.
 */
#include "table.h"

#include <inttypes.h>
#include <string.h>

struct selection {
    const struct lance_run *runs;
    size_t count;
    uint64_t total;
};

static lake_status take_array(const struct ArrowSchema *schema, const struct ArrowArray *array,
                              struct selection selection, uint32_t depth, struct ArrowArray *out,
                              struct lake_error *err);

static lake_status no_memory(struct lake_error *err)
{
    return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "out of memory while rows are selected");
}

/* Room for `bytes` in a buffer of `out`; its size is set. */
static uint8_t *buffer_of(struct ArrowArray *out, int64_t index, uint64_t bytes)
{
    struct ArrowBuffer *buffer = ArrowArrayBuffer(out, index);
    if (bytes > INT64_MAX - 64 || ArrowBufferReserve(buffer, (int64_t)bytes + 8) != NANOARROW_OK) {
        return NULL;
    }
    buffer->size_bytes = (int64_t)bytes;
    return buffer->data;
}

/* Copies bits; `out` from bit `at` on is zero. */
static void copy_bits(uint8_t *out, uint64_t at, const uint8_t *bits, uint64_t from, uint64_t count)
{
    while (count > 0) {
        uint64_t take = BASE_MIN(count, 8 - at % 8);
        uint32_t shift = (uint32_t)(from % 8);
        uint32_t value = (uint32_t)bits[from / 8] >> shift;
        if (shift + take > 8) {
            value |= (uint32_t)bits[from / 8 + 1] << (8 - shift);
        }
        value &= (1u << take) - 1;
        out[at / 8] = (uint8_t)(out[at / 8] | value << (at % 8));
        at += take;
        from += take;
        count -= take;
    }
}

static lake_status take_bits(const uint8_t *bits, uint64_t offset, struct selection selection,
                             int64_t buffer, struct ArrowArray *out, struct lake_error *err)
{
    uint8_t *data = buffer_of(out, buffer, (selection.total + 7) / 8);
    if (data == NULL) {
        return no_memory(err);
    }
    memset(data, 0, (size_t)(selection.total + 7) / 8);
    uint64_t at = 0;
    for (size_t i = 0; i < selection.count; i++) {
        copy_bits(data, at, bits, offset + selection.runs[i].start, selection.runs[i].count);
        at += selection.runs[i].count;
    }
    return LAKE_OK;
}

static lake_status take_validity(const struct ArrowArray *array, struct selection selection,
                                 struct ArrowArray *out, struct lake_error *err)
{
    out->null_count = 0;
    if (array->null_count == 0 || array->buffers[0] == NULL) {
        return LAKE_OK;
    }
    lake_status status =
        take_bits(array->buffers[0], (uint64_t)array->offset, selection, 0, out, err);
    if (status == LAKE_OK) {
        int64_t valid =
            ArrowBitCountSet(ArrowArrayBuffer(out, 0)->data, 0, (int64_t)selection.total);
        out->null_count = (int64_t)selection.total - valid;
        if (out->null_count == 0) {
            ArrowBufferReset(ArrowArrayBuffer(out, 0));
        }
    }
    return status;
}

#define COPY_RUNS(type)                                                     \
    do {                                                                    \
        const type *from = (const type *)array->buffers[1] + array->offset; \
        type *to = (type *)data;                                            \
        for (size_t i = 0; i < selection.count; i++) {                      \
            const struct lance_run run = selection.runs[i];                 \
            for (uint64_t j = 0; j < run.count; j++) {                      \
                to[j] = from[run.start + j];                                \
            }                                                               \
            to += run.count;                                                \
        }                                                                   \
    } while (0)

static lake_status take_fixed(const struct ArrowArray *array, uint64_t width,
                              struct selection selection, struct ArrowArray *out,
                              struct lake_error *err)
{
    uint64_t bytes;
    uint8_t *data = NULL;
    if (base_u64_mul(selection.total, width, &bytes)) {
        data = buffer_of(out, 1, bytes);
    }
    if (data == NULL) {
        return no_memory(err);
    }
    if (width == 1) {
        COPY_RUNS(uint8_t);
    } else if (width == 2) {
        COPY_RUNS(uint16_t);
    } else if (width == 4) {
        COPY_RUNS(uint32_t);
    } else if (width == 8) {
        COPY_RUNS(uint64_t);
    } else {
        const uint8_t *from = (const uint8_t *)array->buffers[1] + (uint64_t)array->offset * width;
        for (size_t i = 0; i < selection.count; i++) {
            uint64_t size = selection.runs[i].count * width;
            memcpy(data, from + selection.runs[i].start * width, (size_t)size);
            data += size;
        }
    }
    return LAKE_OK;
}

/* Offsets of both widths as one. */
static uint64_t offset_at(const void *offsets, bool large, uint64_t index)
{
    return large ? (uint64_t)((const int64_t *)offsets)[index]
                 : (uint64_t)(int64_t)((const int32_t *)offsets)[index];
}

/* Writes the offsets of the selected values, from 0; *bytes is their end. */
static lake_status take_offsets(const struct ArrowArray *array, bool large,
                                struct selection selection, struct ArrowArray *out, uint64_t *end,
                                struct lake_error *err)
{
    uint64_t width = large ? 8 : 4;
    uint8_t *data = buffer_of(out, 1, (selection.total + 1) * width);
    const void *offsets = array->buffers[1];
    uint64_t at = 0;
    uint64_t row = 0;
    if (data == NULL) {
        return no_memory(err);
    }
    memset(data, 0, (size_t)width);
    for (size_t i = 0; i < selection.count; i++) {
        uint64_t first = (uint64_t)array->offset + selection.runs[i].start;
        for (uint64_t j = 0; j < selection.runs[i].count; j++) {
            at += offset_at(offsets, large, first + j + 1) - offset_at(offsets, large, first + j);
            row++;
            if (large) {
                base_store_u64le(data + row * 8, at);
            } else {
                base_store_u32le(data + row * 4, (uint32_t)at);
            }
        }
    }
    *end = at; /* a selection of an array is never longer than the array */
    return LAKE_OK;
}

static lake_status take_variable(const struct ArrowArray *array, bool large,
                                 struct selection selection, struct ArrowArray *out,
                                 struct lake_error *err)
{
    uint64_t bytes;
    lake_status status = take_offsets(array, large, selection, out, &bytes, err);
    if (status != LAKE_OK) {
        return status;
    }
    uint8_t *data = buffer_of(out, 2, bytes);
    if (data == NULL) {
        return no_memory(err);
    }
    const uint8_t *values = array->buffers[2];
    for (size_t i = 0; i < selection.count; i++) {
        uint64_t first = (uint64_t)array->offset + selection.runs[i].start;
        uint64_t start = offset_at(array->buffers[1], large, first);
        uint64_t end = offset_at(array->buffers[1], large, first + selection.runs[i].count);
        if (end > start) {
            memcpy(data, values + start, (size_t)(end - start));
            data += end - start;
        }
    }
    return LAKE_OK;
}

/* The children's runs for a list: where each selected run's items lie. */
static lake_status take_list(const struct ArrowSchema *schema, const struct ArrowArray *array,
                             bool large, struct selection selection, uint32_t depth,
                             struct ArrowArray *out, struct lake_error *err)
{
    uint64_t total;
    lake_status status = take_offsets(array, large, selection, out, &total, err);
    if (status != LAKE_OK) {
        return status;
    }
    struct lance_run *runs = base_alloc_array(selection.count + 1, sizeof(*runs));
    if (runs == NULL) {
        return no_memory(err);
    }
    size_t count = 0;
    for (size_t i = 0; i < selection.count; i++) {
        uint64_t first = (uint64_t)array->offset + selection.runs[i].start;
        uint64_t start = offset_at(array->buffers[1], large, first);
        uint64_t end = offset_at(array->buffers[1], large, first + selection.runs[i].count);
        if (end > start) {
            runs[count++] = (struct lance_run){start, end - start};
        }
    }
    status = take_array(schema->children[0], array->children[0],
                        (struct selection){runs, count, total}, depth + 1, out->children[0], err);
    base_free(runs);
    return status;
}

/* Children of a struct (factor 1) and of a fixed-size list count from the parent's offset. */
static lake_status take_children(const struct ArrowSchema *schema, const struct ArrowArray *array,
                                 uint64_t factor, struct selection selection, uint32_t depth,
                                 struct ArrowArray *out, struct lake_error *err)
{
    struct lance_run *runs = base_alloc_array(selection.count + 1, sizeof(*runs));
    if (runs == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < selection.count; i++) {
        runs[i].start = ((uint64_t)array->offset + selection.runs[i].start) * factor;
        runs[i].count = selection.runs[i].count * factor;
    }
    struct selection scaled = {runs, selection.count, selection.total * factor};
    lake_status status = LAKE_OK;
    for (int64_t i = 0; status == LAKE_OK && i < array->n_children; i++) {
        status = take_array(schema->children[i], array->children[i], scaled, depth + 1,
                            out->children[i], err);
    }
    base_free(runs);
    return status;
}

static lake_status take_dictionary(const struct ArrowSchema *schema, const struct ArrowArray *array,
                                   uint32_t depth, struct ArrowArray *out, struct lake_error *err)
{
    if (schema->dictionary == NULL) {
        return LAKE_OK;
    }
    if (array->dictionary == NULL) {
        return lake_fail(err, LAKE_INTERNAL, "a dictionary column came without its dictionary");
    }
    struct lance_run all = {0, (uint64_t)array->dictionary->length};
    return take_array(schema->dictionary, array->dictionary, (struct selection){&all, 1, all.count},
                      depth + 1, out->dictionary, err);
}

static lake_status take_values(const struct ArrowSchema *schema, const struct ArrowSchemaView *view,
                               const struct ArrowArray *array, struct selection selection,
                               uint32_t depth, struct ArrowArray *out, struct lake_error *err)
{
    switch (view->storage_type) {
    case NANOARROW_TYPE_NA:
        out->null_count = (int64_t)selection.total;
        return LAKE_OK;
    case NANOARROW_TYPE_BOOL:
        return take_bits(array->buffers[1], (uint64_t)array->offset, selection, 1, out, err);
    case NANOARROW_TYPE_STRING:
    case NANOARROW_TYPE_BINARY:
        return take_variable(array, false, selection, out, err);
    case NANOARROW_TYPE_LARGE_STRING:
    case NANOARROW_TYPE_LARGE_BINARY:
        return take_variable(array, true, selection, out, err);
    case NANOARROW_TYPE_LIST:
    case NANOARROW_TYPE_MAP:
        return take_list(schema, array, false, selection, depth, out, err);
    case NANOARROW_TYPE_LARGE_LIST:
        return take_list(schema, array, true, selection, depth, out, err);
    case NANOARROW_TYPE_FIXED_SIZE_LIST:
        return take_children(schema, array, (uint64_t)view->fixed_size, selection, depth, out, err);
    case NANOARROW_TYPE_STRUCT:
        return take_children(schema, array, 1, selection, depth, out, err);
    default:
        break;
    }
    int64_t bits = view->layout.element_size_bits[1];
    if (view->layout.buffer_type[1] != NANOARROW_BUFFER_TYPE_DATA || bits <= 0 || bits % 8 != 0) {
        return lake_fail(err, LAKE_INTERNAL, "rows of the Arrow format '%.40s' cannot be selected",
                         schema->format);
    }
    return take_fixed(array, (uint64_t)bits / 8, selection, out, err);
}

/* `out` is initialised for `schema`. */
static lake_status take_array(const struct ArrowSchema *schema, const struct ArrowArray *array,
                              struct selection selection, uint32_t depth, struct ArrowArray *out,
                              struct lake_error *err)
{
    struct ArrowSchemaView view;
    if (depth > 2 * LANCE_MAX_NESTING || ArrowSchemaViewInit(&view, schema, NULL) != NANOARROW_OK) {
        return lake_fail(err, LAKE_INTERNAL, "rows of the Arrow format '%.40s' cannot be selected",
                         schema->format);
    }
    out->length = (int64_t)selection.total;
    lake_status status = LAKE_OK;
    if (view.storage_type != NANOARROW_TYPE_NA) {
        status = take_validity(array, selection, out, err);
    }
    if (status == LAKE_OK) {
        status = take_values(schema, &view, array, selection, depth, out, err);
    }
    return status == LAKE_OK ? take_dictionary(schema, array, depth, out, err) : status;
}

static lake_status finish(struct ArrowArray *out, struct lake_error *err)
{
    struct ArrowError error;
    if (ArrowArrayFinishBuilding(out, NANOARROW_VALIDATION_LEVEL_NONE, &error) != NANOARROW_OK) {
        return lake_fail(err, LAKE_INTERNAL, "a batch could not be completed: %.200s",
                         error.message);
    }
    return LAKE_OK;
}

lake_status lance_array_take(const struct ArrowSchema *schema, const struct ArrowArray *array,
                             const struct lance_run *runs, size_t run_count, struct ArrowArray *out,
                             struct lake_error *err)
{
    struct ArrowArray result = {.release = NULL};
    struct selection selection = {runs, run_count, 0};
    for (size_t i = 0; i < run_count; i++) {
        selection.total += runs[i].count;
    }
    if (ArrowArrayInitFromSchema(&result, schema, NULL) != NANOARROW_OK) {
        return no_memory(err);
    }
    lake_status status = take_array(schema, array, selection, 0, &result, err);
    if (status == LAKE_OK) {
        status = finish(&result, err);
    }
    if (status == LAKE_OK) {
        ArrowArrayMove(&result, out);
    }
    if (result.release != NULL) {
        ArrowArrayRelease(&result);
    }
    return status;
}
