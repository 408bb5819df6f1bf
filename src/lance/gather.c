/*
 * Gathering rows of decoded arrays into a new one: what a filter and a deletion vector leave of a
 * batch, and what a take picks from several. Rows come as runs, so that a few deletions cost a few
 * large copies.
 */
#include "array_build.h"

#include <inttypes.h>
#include <string.h>

/* `runs` of `arrays`, one after the other; `sources` says of which array each is (NULL: the first).
 */
struct selection {
    const struct lance_run *runs;
    const uint32_t *sources;
    size_t count;
    uint64_t total;
};

/* The arrays that runs are of, all of one type. */
struct origin {
    const struct ArrowArray *const *arrays;
    size_t count;
};

static lake_status take_array(const struct ArrowSchema *schema, struct origin from,
                              struct selection selection, uint32_t depth, struct ArrowArray *out,
                              struct lake_error *err);

static lake_status no_memory(struct lake_error *err)
{
    return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "out of memory while rows are selected");
}

static inline const struct ArrowArray *source_of(struct origin from, struct selection selection,
                                                 size_t run)
{
    return from.arrays[selection.sources == NULL ? 0 : selection.sources[run]];
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

/* ---- bits ---- */

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

static void set_bits(uint8_t *out, uint64_t at, uint64_t count)
{
    for (uint64_t i = at; i < at + count; i++) {
        out[i / 8] = (uint8_t)(out[i / 8] | 1u << (i % 8));
    }
}

/* Buffer `index` of the arrays as bits; an array without that buffer has them all set. */
static lake_status take_bits(struct origin from, int64_t index, struct selection selection,
                             struct ArrowArray *out, struct lake_error *err)
{
    uint8_t *data = buffer_of(out, index, (selection.total + 7) / 8);
    if (data == NULL) {
        return no_memory(err);
    }
    memset(data, 0, (size_t)(selection.total + 7) / 8);
    uint64_t at = 0;
    for (size_t i = 0; i < selection.count; i++) {
        const struct ArrowArray *array = source_of(from, selection, i);
        const struct lance_run run = selection.runs[i];
        if (array->buffers[index] == NULL) {
            set_bits(data, at, run.count);
        } else {
            copy_bits(data, at, array->buffers[index], (uint64_t)array->offset + run.start,
                      run.count);
        }
        at += run.count;
    }
    return LAKE_OK;
}

static lake_status take_validity(struct origin from, struct selection selection,
                                 struct ArrowArray *out, struct lake_error *err)
{
    bool nulls = false;
    for (size_t i = 0; i < from.count; i++) {
        nulls = nulls || (from.arrays[i]->null_count != 0 && from.arrays[i]->buffers[0] != NULL);
    }
    out->null_count = 0;
    if (!nulls) {
        return LAKE_OK;
    }
    lake_status status = take_bits(from, 0, selection, out, err);
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

/* ---- fixed width ---- */

#define COPY_RUNS(type)                                                           \
    do {                                                                          \
        type *to = (type *)data;                                                  \
        for (size_t i = 0; i < selection.count; i++) {                            \
            const struct ArrowArray *array = source_of(from, selection, i);       \
            const type *values = (const type *)array->buffers[1] + array->offset; \
            const struct lance_run run = selection.runs[i];                       \
            for (uint64_t j = 0; j < run.count; j++) {                            \
                to[j] = values[run.start + j];                                    \
            }                                                                     \
            to += run.count;                                                      \
        }                                                                         \
    } while (0)

static lake_status take_fixed(struct origin from, uint64_t width, struct selection selection,
                              struct ArrowArray *out, struct lake_error *err)
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
        for (size_t i = 0; i < selection.count; i++) {
            const struct ArrowArray *array = source_of(from, selection, i);
            const uint8_t *values = array->buffers[1];
            const struct lance_run run = selection.runs[i];
            uint64_t size = run.count * width;
            memcpy(data, values + ((uint64_t)array->offset + run.start) * width, (size_t)size);
            data += size;
        }
    }
    return LAKE_OK;
}

/* ---- offsets ---- */

/* Offsets of both widths as one. */
static uint64_t offset_at(const void *offsets, bool large, uint64_t index)
{
    return large ? (uint64_t)((const int64_t *)offsets)[index]
                 : (uint64_t)(int64_t)((const int32_t *)offsets)[index];
}

/* Writes the offsets of the selected values, from 0; *end is the last. */
static lake_status take_offsets(struct origin from, bool large, struct selection selection,
                                struct ArrowArray *out, uint64_t *end, struct lake_error *err)
{
    uint64_t width = large ? 8 : 4;
    uint8_t *data = buffer_of(out, 1, (selection.total + 1) * width);
    uint64_t at = 0;
    uint64_t row = 0;
    if (data == NULL) {
        return no_memory(err);
    }
    memset(data, 0, (size_t)width);
    for (size_t i = 0; i < selection.count; i++) {
        const struct ArrowArray *array = source_of(from, selection, i);
        const void *offsets = array->buffers[1];
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
    *end = at;
    if (!large && at > INT32_MAX) { /* rows may come several times, or from several arrays */
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "the rows hold more than the 2 GiB that one array of 32-bit offsets can: "
                         "take fewer");
    }
    return LAKE_OK;
}

static lake_status take_variable(struct origin from, bool large, struct selection selection,
                                 struct ArrowArray *out, struct lake_error *err)
{
    uint64_t bytes;
    lake_status status = take_offsets(from, large, selection, out, &bytes, err);
    if (status != LAKE_OK) {
        return status;
    }
    uint8_t *data = buffer_of(out, 2, bytes);
    if (data == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < selection.count; i++) {
        const struct ArrowArray *array = source_of(from, selection, i);
        const uint8_t *values = array->buffers[2];
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

/* ---- children ---- */

/* Child `index` of each array. */
static lake_status children_of(struct origin from, int64_t index, const struct ArrowArray ***out,
                               struct lake_error *err)
{
    const struct ArrowArray **children = base_alloc_array(from.count + 1, sizeof(*children));
    if (children == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < from.count; i++) {
        children[i] = from.arrays[i]->children[index];
    }
    *out = children;
    return LAKE_OK;
}

static lake_status take_child(const struct ArrowSchema *schema, struct origin from, int64_t index,
                              struct selection selection, uint32_t depth, struct ArrowArray *out,
                              struct lake_error *err)
{
    const struct ArrowArray **children = NULL;
    lake_status status = children_of(from, index, &children, err);
    if (status == LAKE_OK) {
        status = take_array(schema->children[index], (struct origin){children, from.count},
                            selection, depth + 1, out->children[index], err);
    }
    base_free((void *)children);
    return status;
}

/* The children's runs for a list: where each selected run's items lie. */
static lake_status take_list(const struct ArrowSchema *schema, struct origin from, bool large,
                             struct selection selection, uint32_t depth, struct ArrowArray *out,
                             struct lake_error *err)
{
    uint64_t total;
    lake_status status = take_offsets(from, large, selection, out, &total, err);
    if (status != LAKE_OK) {
        return status;
    }
    struct lance_run *runs = base_alloc_array(selection.count + 1, sizeof(*runs));
    uint32_t *sources = base_alloc_array(selection.count + 1, sizeof(*sources));
    if (runs == NULL || sources == NULL) {
        base_free(runs);
        base_free(sources);
        return no_memory(err);
    }
    size_t count = 0;
    for (size_t i = 0; i < selection.count; i++) {
        const struct ArrowArray *array = source_of(from, selection, i);
        uint64_t first = (uint64_t)array->offset + selection.runs[i].start;
        uint64_t start = offset_at(array->buffers[1], large, first);
        uint64_t end = offset_at(array->buffers[1], large, first + selection.runs[i].count);
        if (end > start) {
            sources[count] = selection.sources == NULL ? 0 : selection.sources[i];
            runs[count++] = (struct lance_run){start, end - start};
        }
    }
    status = take_child(schema, from, 0, (struct selection){runs, sources, count, total}, depth,
                        out, err);
    base_free(runs);
    base_free(sources);
    return status;
}

/* Children of a struct (factor 1) and of a fixed-size list count from the parent's offset. */
static lake_status take_children(const struct ArrowSchema *schema, struct origin from,
                                 uint64_t factor, struct selection selection, uint32_t depth,
                                 struct ArrowArray *out, struct lake_error *err)
{
    struct lance_run *runs = base_alloc_array(selection.count + 1, sizeof(*runs));
    if (runs == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < selection.count; i++) {
        const struct ArrowArray *array = source_of(from, selection, i);
        runs[i].start = ((uint64_t)array->offset + selection.runs[i].start) * factor;
        runs[i].count = selection.runs[i].count * factor;
    }
    struct selection scaled = {runs, selection.sources, selection.count, selection.total * factor};
    lake_status status = LAKE_OK;
    for (int64_t i = 0; status == LAKE_OK && i < schema->n_children; i++) {
        status = take_child(schema, from, i, scaled, depth, out, err);
    }
    base_free(runs);
    return status;
}

/* ---- dictionaries ---- */

#define ADD_BASE(type)                                    \
    do {                                                  \
        type *indices = (type *)(void *)data + at;        \
        for (uint64_t j = 0; j < run.count; j++) {        \
            indices[j] = (type)(indices[j] + (type)base); \
        }                                                 \
    } while (0)

static void shift_run(uint8_t *data, uint64_t width, uint64_t at, struct lance_run run,
                      uint64_t base)
{
    if (width == 1) {
        ADD_BASE(uint8_t);
    } else if (width == 2) {
        ADD_BASE(uint16_t);
    } else if (width == 4) {
        ADD_BASE(uint32_t);
    } else {
        ADD_BASE(uint64_t);
    }
}

/* Indices into the dictionaries of several arrays become those into all of them in a row. */
static lake_status shift_indices(uint64_t width, bool is_signed, struct origin from,
                                 struct selection selection, struct ArrowArray *out,
                                 struct lake_error *err)
{
    uint64_t *bases = base_alloc_array(from.count + 1, sizeof(*bases));
    uint64_t items = 0;
    uint64_t at = 0;
    if (bases == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < from.count; i++) {
        bases[i] = items;
        items += (uint64_t)from.arrays[i]->dictionary->length;
    }
    uint32_t bits = (uint32_t)width * 8 - (is_signed ? 1 : 0);
    bool fits = bits >= 64 || items <= UINT64_C(1) << bits;
    for (size_t i = 0; fits && selection.sources != NULL && i < selection.count; i++) {
        shift_run(ArrowArrayBuffer(out, 1)->data, width, at, selection.runs[i],
                  bases[selection.sources[i]]);
        at += selection.runs[i].count;
    }
    base_free(bases);
    return fits ? LAKE_OK
                : lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                            "the rows' dictionaries hold %" PRIu64
                            " items, more than %u-bit indices reach: take fewer rows",
                            items, (unsigned)width * 8);
}

/* Every array's dictionary whole, one after the other. */
static lake_status take_dictionary(const struct ArrowSchema *schema, struct origin from,
                                   uint32_t depth, struct ArrowArray *out, struct lake_error *err)
{
    const struct ArrowArray **values = base_alloc_array(from.count + 1, sizeof(*values));
    struct lance_run *runs = base_alloc_array(from.count + 1, sizeof(*runs));
    uint32_t *sources = base_alloc_array(from.count + 1, sizeof(*sources));
    lake_status status =
        values == NULL || runs == NULL || sources == NULL ? no_memory(err) : LAKE_OK;
    uint64_t total = 0;
    for (size_t i = 0; status == LAKE_OK && i < from.count; i++) {
        values[i] = from.arrays[i]->dictionary;
        runs[i] = (struct lance_run){0, (uint64_t)values[i]->length};
        sources[i] = (uint32_t)i;
        total += runs[i].count;
    }
    if (status == LAKE_OK) {
        status = take_array(schema->dictionary, (struct origin){values, from.count},
                            (struct selection){runs, sources, from.count, total}, depth + 1,
                            out->dictionary, err);
    }
    base_free((void *)values);
    base_free(runs);
    base_free(sources);
    return status;
}

static lake_status take_indexed(const struct ArrowSchema *schema,
                                const struct ArrowSchemaView *view, struct origin from,
                                struct selection selection, uint32_t depth, struct ArrowArray *out,
                                struct lake_error *err)
{
    for (size_t i = 0; i < from.count; i++) {
        if (from.arrays[i]->dictionary == NULL) {
            return lake_fail(err, LAKE_INTERNAL, "a dictionary column came without its dictionary");
        }
    }
    uint64_t width = (uint64_t)view->layout.element_size_bits[1] / 8;
    bool is_signed = strchr("csil", schema->format[0]) != NULL;
    lake_status status = LAKE_OK;
    if (from.count > 1) {
        status = shift_indices(width, is_signed, from, selection, out, err);
    }
    return status == LAKE_OK ? take_dictionary(schema, from, depth, out, err) : status;
}

/* ---- any type ---- */

static lake_status take_values(const struct ArrowSchema *schema, const struct ArrowSchemaView *view,
                               struct origin from, struct selection selection, uint32_t depth,
                               struct ArrowArray *out, struct lake_error *err)
{
    switch (view->storage_type) {
    case NANOARROW_TYPE_NA:
        out->null_count = (int64_t)selection.total;
        return LAKE_OK;
    case NANOARROW_TYPE_BOOL:
        return take_bits(from, 1, selection, out, err);
    case NANOARROW_TYPE_STRING:
    case NANOARROW_TYPE_BINARY:
        return take_variable(from, false, selection, out, err);
    case NANOARROW_TYPE_LARGE_STRING:
    case NANOARROW_TYPE_LARGE_BINARY:
        return take_variable(from, true, selection, out, err);
    case NANOARROW_TYPE_LIST:
    case NANOARROW_TYPE_MAP:
        return take_list(schema, from, false, selection, depth, out, err);
    case NANOARROW_TYPE_LARGE_LIST:
        return take_list(schema, from, true, selection, depth, out, err);
    case NANOARROW_TYPE_FIXED_SIZE_LIST:
        return take_children(schema, from, (uint64_t)view->fixed_size, selection, depth, out, err);
    case NANOARROW_TYPE_STRUCT:
        return take_children(schema, from, 1, selection, depth, out, err);
    default:
        break;
    }
    int64_t bits = view->layout.element_size_bits[1];
    if (view->layout.buffer_type[1] != NANOARROW_BUFFER_TYPE_DATA || bits <= 0 || bits % 8 != 0) {
        return lake_fail(err, LAKE_INTERNAL, "rows of the Arrow format '%.40s' cannot be selected",
                         schema->format);
    }
    return take_fixed(from, (uint64_t)bits / 8, selection, out, err);
}

/* `out` is initialised for `schema`. */
static lake_status take_array(const struct ArrowSchema *schema, struct origin from,
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
        status = take_validity(from, selection, out, err);
    }
    if (status == LAKE_OK) {
        status = take_values(schema, &view, from, selection, depth, out, err);
    }
    if (status == LAKE_OK && schema->dictionary != NULL) {
        status = take_indexed(schema, &view, from, selection, depth, out, err);
    }
    return status;
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

lake_status lance_array_gather(const struct ArrowSchema *schema,
                               const struct ArrowArray *const *arrays, size_t array_count,
                               const struct lance_run *runs, const uint32_t *sources,
                               size_t run_count, struct ArrowArray *out, struct lake_error *err)
{
    struct ArrowArray result = {.release = NULL};
    struct selection selection = {runs, sources, run_count, 0};
    for (size_t i = 0; i < run_count; i++) {
        selection.total += runs[i].count;
    }
    if (ArrowArrayInitFromSchema(&result, schema, NULL) != NANOARROW_OK) {
        return no_memory(err);
    }
    lake_status status =
        take_array(schema, (struct origin){arrays, array_count}, selection, 0, &result, err);
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

lake_status lance_array_take(const struct ArrowSchema *schema, const struct ArrowArray *array,
                             const struct lance_run *runs, size_t run_count, struct ArrowArray *out,
                             struct lake_error *err)
{
    return lance_array_gather(schema, &array, 1, runs, NULL, run_count, out, err);
}
