#include "encode.h"

#include <string.h>

void arrow_body_fini(struct arrow_body *body)
{
    base_free(body->nodes);
    base_free(body->buffers);
    base_free(body->parts);
    base_free(body->variadic_counts);
}

/* Makes room for one more item in a growing list. */
static lake_status grow(void **items, size_t count, size_t *capacity, size_t item_bytes,
                        struct lake_error *err)
{
    if (count < *capacity) {
        return LAKE_OK;
    }
    size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
    void *grown = base_realloc_array(*items, wanted, item_bytes);
    if (grown == NULL) {
        return base_fail_no_memory(err, wanted * item_bytes);
    }
    *items = grown;
    *capacity = wanted;
    return LAKE_OK;
}

static lake_status add_part(struct arrow_body *body, const uint8_t *data, size_t size,
                            struct lake_error *err)
{
    lake_status status = grow((void **)&body->parts, body->part_count, &body->part_capacity,
                              sizeof(*body->parts), err);
    if (status == LAKE_OK) {
        body->parts[body->part_count++] = (struct arrow_ipc_part){data, size};
    }
    return status;
}

static lake_status add_buffer(struct arrow_body *body, const void *data, uint64_t size,
                              struct lake_error *err)
{
    lake_status status = grow((void **)&body->buffers, body->buffer_count, &body->buffer_capacity,
                              sizeof(*body->buffers), err);
    if (status != LAKE_OK) {
        return status;
    }
    if (size > (uint64_t)INT64_MAX / 2 || body->body_bytes > (uint64_t)INT64_MAX / 2) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a record batch is larger than 2^62 bytes");
    }
    if (size > 0 && data == NULL) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "an Arrow array has no buffer where %llu bytes were expected",
                         (unsigned long long)size);
    }
    FB(Buffer_t) *buffer = &body->buffers[body->buffer_count++];
    FB(Buffer_assign)(buffer, (int64_t)body->body_bytes, (int64_t)size);
    if (size == 0) {
        return LAKE_OK;
    }
    status = add_part(body, data, size, err);
    uint64_t padded = BASE_ALIGN_UP(size, (uint64_t)IPC_ALIGNMENT);
    if (status == LAKE_OK && padded > size) {
        status = add_part(body, NULL, (size_t)(padded - size), err);
    }
    body->body_bytes += padded;
    return status;
}

static void *rewrite_memory(struct arrow_body *body, uint64_t size, struct lake_error *err)
{
    void *memory = size > SIZE_MAX ? NULL : base_arena_alloc(body->memory, (size_t)size);
    if (memory == NULL) {
        base_fail_no_memory(err, (size_t)size);
    }
    return memory;
}

/* Bits [offset, offset + length): borrowed when they start at a byte, else shifted into memory. */
static lake_status add_bits(struct arrow_body *body, const uint8_t *bits, int64_t offset,
                            int64_t length, struct lake_error *err)
{
    uint64_t size = ((uint64_t)length + 7) / 8;
    if (length == 0 || bits == NULL || offset % 8 == 0) {
        return add_buffer(body, bits == NULL ? NULL : bits + offset / 8, size, err);
    }
    uint8_t *shifted = rewrite_memory(body, size, err);
    if (shifted == NULL) {
        return LAKE_RESOURCE_EXHAUSTED;
    }
    const uint8_t *from = bits + offset / 8;
    unsigned shift = (unsigned)(offset % 8);
    uint64_t from_bytes = ((uint64_t)shift + (uint64_t)length + 7) / 8;
    for (uint64_t i = 0; i < size; i++) {
        unsigned high = i + 1 < from_bytes ? from[i + 1] : 0;
        shifted[i] = (uint8_t)((from[i] >> shift) | (high << (8 - shift)));
    }
    return add_buffer(body, shifted, size, err);
}

static lake_status add_node(struct arrow_body *body, int64_t length, int64_t null_count,
                            struct lake_error *err)
{
    lake_status status = grow((void **)&body->nodes, body->node_count, &body->node_capacity,
                              sizeof(*body->nodes), err);
    if (status == LAKE_OK) {
        FB(FieldNode_assign)(&body->nodes[body->node_count++], length, null_count);
    }
    return status;
}

static int64_t load_offset(const void *offsets, uint32_t width, int64_t index)
{
    return width == 4 ? ((const int32_t *)offsets)[index] : ((const int64_t *)offsets)[index];
}

/* Adds the offsets of rows [slot, slot + length), rebased to 0, and gives the range they span. */
static lake_status add_offsets(struct arrow_body *body, const struct ArrowSchema *field,
                               const void *offsets, uint32_t width, int64_t slot, int64_t length,
                               int64_t *start, int64_t *end, struct lake_error *err)
{
    *start = 0;
    *end = 0;
    if (length == 0 || offsets == NULL) {
        if (length != 0) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "column \"%s\" has no offsets buffer",
                             arrow_field_name(field));
        }
        return add_buffer(body, arrow_zeros, width, err);
    }
    *start = load_offset(offsets, width, slot);
    *end = load_offset(offsets, width, slot + length);
    if (*start < 0 || *end < *start) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column \"%s\" has offsets from %lld to %lld, they must not go backwards",
                         arrow_field_name(field), (long long)*start, (long long)*end);
    }
    uint64_t size = ((uint64_t)length + 1) * width;
    if (*start == 0) {
        return add_buffer(body, (const uint8_t *)offsets + (uint64_t)slot * width, size, err);
    }
    void *rebased = rewrite_memory(body, size, err);
    if (rebased == NULL) {
        return LAKE_RESOURCE_EXHAUSTED;
    }
    if (width == 4) {
        const int32_t *from = (const int32_t *)offsets + slot;
        int32_t *to = rebased;
        for (int64_t i = 0; i <= length; i++) {
            to[i] = (int32_t)((uint32_t)from[i] - (uint32_t)*start);
        }
    } else {
        const int64_t *from = (const int64_t *)offsets + slot;
        int64_t *to = rebased;
        for (int64_t i = 0; i <= length; i++) {
            to[i] = (int64_t)((uint64_t)from[i] - (uint64_t)*start);
        }
    }
    return add_buffer(body, rebased, size, err);
}

static lake_status add_fixed(struct arrow_body *body, const struct arrow_type_layout *layout,
                             const struct ArrowArray *array, int64_t slot, int64_t length,
                             struct lake_error *err)
{
    if (layout->bit_width == 1) {
        return add_bits(body, array->buffers[1], slot, length, err);
    }
    uint64_t width = (uint64_t)layout->bit_width / 8;
    uint64_t size;
    if (!base_u64_mul((uint64_t)length, width, &size)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a column is larger than 2^63 bytes");
    }
    const uint8_t *data = array->buffers[1];
    return add_buffer(body, data == NULL ? NULL : data + (uint64_t)slot * width, size, err);
}

static lake_status add_views(struct arrow_body *body, const struct ArrowSchema *field,
                             const struct ArrowArray *array, int64_t slot, int64_t length,
                             struct lake_error *err)
{
    /* In the C data interface the last buffer holds the sizes of the variadic ones. */
    int64_t variadic = array->n_buffers - 3;
    if (variadic < 0) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "view column \"%s\" has %lld buffers, at least 3 were expected",
                         arrow_field_name(field), (long long)array->n_buffers);
    }
    const uint8_t *views = array->buffers[1];
    const int64_t *sizes = array->buffers[array->n_buffers - 1];
    lake_status status =
        add_buffer(body, views == NULL ? NULL : views + slot * 16, (uint64_t)length * 16, err);
    for (int64_t i = 0; status == LAKE_OK && i < variadic; i++) {
        status = sizes == NULL || sizes[i] < 0
                     ? lake_fail(err, LAKE_INVALID_ARGUMENT,
                                 "view column \"%s\" has no sizes of its buffers",
                                 arrow_field_name(field))
                     : add_buffer(body, array->buffers[2 + i], (uint64_t)sizes[i], err);
    }
    if (status == LAKE_OK) {
        status = grow((void **)&body->variadic_counts, body->variadic_count,
                      &body->variadic_capacity, sizeof(*body->variadic_counts), err);
    }
    if (status == LAKE_OK) {
        body->variadic_counts[body->variadic_count++] = variadic;
    }
    return status;
}

static lake_status add_children(struct arrow_body *body, const struct ArrowSchema *field,
                                const struct ArrowArray *array, int64_t offset, int64_t length,
                                struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (int64_t i = 0; status == LAKE_OK && i < field->n_children; i++) {
        status = arrow_body_add(body, field->children[i], array->children[i], offset, length, err);
    }
    return status;
}

/* A dense union keeps its children whole: the offsets of a slice point into them. */
static lake_status add_dense_union(struct arrow_body *body, const struct ArrowSchema *field,
                                   const struct ArrowArray *array, int64_t slot, int64_t length,
                                   struct lake_error *err)
{
    const uint8_t *types = array->buffers[0];
    const uint8_t *offsets = array->buffers[1];
    lake_status status =
        add_buffer(body, types == NULL ? NULL : types + slot, (uint64_t)length, err);
    if (status == LAKE_OK) {
        status = add_buffer(body, offsets == NULL ? NULL : offsets + slot * 4, (uint64_t)length * 4,
                            err);
    }
    for (int64_t i = 0; status == LAKE_OK && i < field->n_children; i++) {
        status = arrow_body_add(body, field->children[i], array->children[i], 0,
                                array->children[i]->length, err);
    }
    return status;
}

/* A list view keeps its child whole, so that shared items are sent once (SDK-4). */
static lake_status add_list_view(struct arrow_body *body, const struct ArrowSchema *field,
                                 const struct arrow_type_layout *layout,
                                 const struct ArrowArray *array, int64_t slot, int64_t length,
                                 struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (int b = 1; status == LAKE_OK && b <= 2; b++) {
        const uint8_t *values = array->buffers[b];
        status = add_buffer(body, values == NULL ? NULL : values + slot * layout->offset_bytes,
                            (uint64_t)length * layout->offset_bytes, err);
    }
    return status == LAKE_OK ? arrow_body_add(body, field->children[0], array->children[0], 0,
                                              array->children[0]->length, err)
                             : status;
}

static lake_status add_fixed_list(struct arrow_body *body, const struct ArrowSchema *field,
                                  int64_t list_size, const struct ArrowArray *array, int64_t slot,
                                  int64_t length, struct lake_error *err)
{
    int64_t first;
    int64_t count;
    if (__builtin_mul_overflow(slot, list_size, &first) ||
        __builtin_mul_overflow(length, list_size, &count)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "column \"%s\" has more than 2^63 items",
                         arrow_field_name(field));
    }
    return arrow_body_add(body, field->children[0], array->children[0], first, count, err);
}

static lake_status add_layout(struct arrow_body *body, const struct ArrowSchema *field,
                              const struct arrow_type_layout *layout,
                              const struct ArrowArray *array, int64_t slot, int64_t length,
                              struct lake_error *err)
{
    int64_t start;
    int64_t end;
    lake_status status;
    switch (layout->layout) {
    case ARROW_LAYOUT_NULL:
        return LAKE_OK;
    case ARROW_LAYOUT_FIXED:
        return add_fixed(body, layout, array, slot, length, err);
    case ARROW_LAYOUT_BYTES:
        status = add_offsets(body, field, array->buffers[1], layout->offset_bytes, slot, length,
                             &start, &end, err);
        const uint8_t *data = array->buffers[2];
        return status == LAKE_OK ? add_buffer(body, data == NULL ? NULL : data + start,
                                              (uint64_t)(end - start), err)
                                 : status;
    case ARROW_LAYOUT_LIST:
        status = add_offsets(body, field, array->buffers[1], layout->offset_bytes, slot, length,
                             &start, &end, err);
        return status == LAKE_OK ? arrow_body_add(body, field->children[0], array->children[0],
                                                  start, end - start, err)
                                 : status;
    case ARROW_LAYOUT_LIST_VIEW:
        return add_list_view(body, field, layout, array, slot, length, err);
    case ARROW_LAYOUT_FIXED_LIST:
        return add_fixed_list(body, field, layout->list_size, array, slot, length, err);
    case ARROW_LAYOUT_STRUCT:
        return add_children(body, field, array, slot, length, err);
    case ARROW_LAYOUT_VIEW:
        return add_views(body, field, array, slot, length, err);
    case ARROW_LAYOUT_SPARSE_UNION: {
        const uint8_t *types = array->buffers[0];
        status = add_buffer(body, types == NULL ? NULL : types + slot, (uint64_t)length, err);
        return status == LAKE_OK ? add_children(body, field, array, slot, length, err) : status;
    }
    case ARROW_LAYOUT_DENSE_UNION:
        return add_dense_union(body, field, array, slot, length, err);
    case ARROW_LAYOUT_RUN_END:
        break;
    }
    if (slot != 0 || length != array->length) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "column \"%s\" is a slice of run-end encoded data, which is not sent",
                         arrow_field_name(field));
    }
    for (int64_t i = 0; i < 2; i++) {
        status = arrow_body_add(body, field->children[i], array->children[i], 0,
                                array->children[i]->length, err);
        if (status != LAKE_OK) {
            return status;
        }
    }
    return LAKE_OK;
}

/* The array has what its type needs, so that the walk below touches nothing that is not there. */
static lake_status check_shape(const struct ArrowSchema *field,
                               const struct arrow_type_layout *layout,
                               const struct ArrowArray *array, int64_t offset, int64_t length,
                               struct lake_error *err)
{
    int64_t children = field->dictionary != NULL ? 0 : field->n_children;
    if (array->n_buffers < (int64_t)layout->buffer_count || array->n_children != children ||
        (field->dictionary != NULL) != (array->dictionary != NULL)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column \"%s\" of type \"%s\" has %lld buffers and %lld children, %u and "
                         "%lld were expected",
                         arrow_field_name(field), field->format, (long long)array->n_buffers,
                         (long long)array->n_children, layout->buffer_count, (long long)children);
    }
    if (offset < 0 || length < 0 || array->offset < 0 || offset > array->length ||
        length > array->length - offset || array->length > INT64_MAX / 64 - array->offset) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column \"%s\" has %lld rows where rows [%lld, %lld) are needed",
                         arrow_field_name(field), (long long)array->length, (long long)offset,
                         (long long)offset + length);
    }
    return LAKE_OK;
}

lake_status arrow_body_add(struct arrow_body *body, const struct ArrowSchema *field,
                           const struct ArrowArray *array, int64_t offset, int64_t length,
                           struct lake_error *err)
{
    struct arrow_type_layout layout;
    lake_status status = arrow_layout_of(field, &layout, err);
    if (status == LAKE_OK) {
        status = check_shape(field, &layout, array, offset, length, err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    int64_t slot = array->offset + offset;
    int64_t nulls = layout.layout == ARROW_LAYOUT_NULL ? length : 0;
    const uint8_t *validity = layout.has_validity ? array->buffers[0] : NULL;
    if (validity != NULL && array->null_count != 0) {
        bool whole = offset == 0 && length == array->length;
        nulls = whole && array->null_count > 0 ? array->null_count
                                               : arrow_count_nulls(validity, slot, length);
    }
    status = add_node(body, length, nulls, err);
    if (status == LAKE_OK && layout.has_validity) {
        status = nulls > 0 ? add_bits(body, validity, slot, length, err)
                           : add_buffer(body, NULL, 0, err);
    }
    if (status == LAKE_OK) {
        status = add_layout(body, field, &layout, array, slot, length, err);
    }
    return status;
}
