/*
 * Views of text and bytes (Arrow's utf8_view and binary_view) as plain text and bytes. Lance has no
 * views; whoever sends some means the same values. All that is not a view stays where it is.
 */
#include "arrow_internal.h"

#include <string.h>

#define BUFFER_ALIGNMENT ((size_t)64)

/* ---- schemas ---- */

static bool is_view(const struct ArrowSchema *field)
{
    return strcmp(field->format, "vu") == 0 || strcmp(field->format, "vz") == 0;
}

static bool is_large(const struct ArrowSchema *field)
{
    return strcmp(field->format, "U") == 0 || strcmp(field->format, "Z") == 0;
}

/* What nests deeper than we follow has no views that we know of, and is refused by all others. */
static bool has_views(const struct ArrowSchema *field, int depth)
{
    if (depth > ARROW_MAX_DEPTH) {
        return false;
    }
    bool found =
        is_view(field) || (field->dictionary != NULL && has_views(field->dictionary, depth + 1));
    for (int64_t i = 0; i < field->n_children && !found; i++) {
        found = has_views(field->children[i], depth + 1);
    }
    return found;
}

bool arrow_schema_has_views(const struct ArrowSchema *schema)
{
    return has_views(schema, 0);
}

static lake_status replace_views(struct ArrowSchema *field, const struct ArrowSchema *like,
                                 struct lake_error *err)
{
    if (is_view(field)) {
        bool text = strcmp(field->format, "vu") == 0;
        const char *large = text ? "U" : "Z";
        bool wanted = like != NULL && strcmp(like->format, large) == 0;
        int code = ArrowSchemaSetFormat(field, wanted ? large : text ? "u" : "z");
        if (code != NANOARROW_OK) {
            return arrow_fail_code(err, code, NULL, "making a schema without views");
        }
    }
    lake_status status = LAKE_OK;
    bool alike = like != NULL && like->n_children == field->n_children;
    for (int64_t i = 0; i < field->n_children && status == LAKE_OK; i++) {
        status = replace_views(field->children[i], alike ? like->children[i] : NULL, err);
    }
    if (status == LAKE_OK && field->dictionary != NULL) {
        status = replace_views(field->dictionary, like == NULL ? NULL : like->dictionary, err);
    }
    return status;
}

lake_status arrow_plain_schema(const struct ArrowSchema *schema, const struct ArrowSchema *like,
                               struct ArrowSchema *out, struct lake_error *err)
{
    struct ArrowSchema plain;
    int code = ArrowSchemaDeepCopy(schema, &plain);
    if (code != NANOARROW_OK) {
        return arrow_fail_code(err, code, NULL, "making a schema without views");
    }
    lake_status status = replace_views(&plain, like, err);
    if (status != LAKE_OK) {
        ArrowSchemaRelease(&plain);
        return status;
    }
    *out = plain;
    return LAKE_OK;
}

/* ---- arrays ---- */

struct rows {
    int64_t first;
    int64_t count;
};

/* Of an array whose views were checked. */
static struct lake_bytes view_at(const struct ArrowArray *views, int64_t slot)
{
    const uint8_t *view = (const uint8_t *)views->buffers[1] + 16 * slot;
    size_t size = base_load_u32le(view);
    if (size <= 12) {
        return (struct lake_bytes){view + 4, size};
    }
    const uint8_t *data = views->buffers[2 + base_load_u32le(view + 8)];
    return (struct lake_bytes){data + base_load_u32le(view + 12), size};
}

static bool is_valid(const uint8_t *validity, int64_t slot)
{
    return validity == NULL || ArrowBitGet(validity, slot);
}

/* The bytes of `rows`, at least as far as they stay within the limit. */
static uint64_t count_bytes(const struct ArrowArray *views, const uint8_t *validity,
                            struct rows rows, uint64_t limit)
{
    uint64_t bytes = 0;
    for (int64_t i = rows.first; i < rows.first + rows.count && bytes <= limit; i++) {
        int64_t slot = views->offset + i;
        bytes += is_valid(validity, slot) ? view_at(views, slot).size : 0;
    }
    return bytes;
}

static void release_text(struct ArrowArray *array)
{
    base_free(array->private_data);
    array->release = NULL;
}

/* An array of `length` rows over one piece of memory, with room for `data_bytes` of data. */
static lake_status new_text(int64_t length, bool nullable, bool large, uint64_t data_bytes,
                            struct ArrowArray *out, struct lake_error *err)
{
    size_t rows = (size_t)length;
    size_t width = large ? sizeof(int64_t) : sizeof(int32_t);
    size_t head = BASE_ALIGN_UP(3 * sizeof(void *), BUFFER_ALIGNMENT);
    size_t validity_bytes = nullable ? BASE_ALIGN_UP(rows / 8 + 1, BUFFER_ALIGNMENT) : 0;
    size_t offset_bytes = BASE_ALIGN_UP((rows + 1) * width, BUFFER_ALIGNMENT);
    size_t before = head + validity_bytes + offset_bytes; /* rows < 2^58: these were views */
    size_t total;
    uint8_t *memory = base_size_add(before, data_bytes, &total) ? base_alloc_large(total) : NULL;
    if (memory == NULL) {
        return base_fail_no_memory(err, data_bytes);
    }
    const void **buffers = (const void **)memory;
    memset(memory + head, 0, validity_bytes);
    buffers[0] = nullable ? memory + head : NULL;
    buffers[1] = memory + head + validity_bytes;
    buffers[2] = memory + before;
    *out = (struct ArrowArray){.length = length,
                               .n_buffers = 3,
                               .buffers = buffers,
                               .release = release_text,
                               .private_data = memory};
    return LAKE_OK;
}

static void set_offset(const struct ArrowArray *text, bool large, int64_t at, uint64_t value)
{
    uint8_t *offsets = (uint8_t *)(uintptr_t)text->buffers[1];
    if (large) {
        ((int64_t *)offsets)[at] = (int64_t)value;
    } else {
        ((int32_t *)offsets)[at] = (int32_t)value;
    }
}

/* All rows, so that whoever refers to one by its number still can; those outside `rows` are empty.
 */
static lake_status make_text(const struct ArrowSchema *to, const struct ArrowArray *views,
                             struct rows rows, uint64_t *left_bytes, struct ArrowArray *out,
                             struct lake_error *err)
{
    bool large = is_large(to);
    uint64_t limit = large ? *left_bytes : BASE_MIN(*left_bytes, (uint64_t)INT32_MAX);
    const uint8_t *validity = views->null_count == 0 ? NULL : views->buffers[0];
    uint64_t bytes = count_bytes(views, validity, rows, limit);
    if (bytes > limit) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "column \"%s\": its views refer to more than %llu bytes, which is too "
                         "much at once: send fewer rows at a time",
                         arrow_field_name(to), (unsigned long long)limit);
    }
    struct ArrowArray text;
    lake_status status = new_text(views->length, validity != NULL, large, bytes, &text, err);
    if (status != LAKE_OK) {
        return status;
    }
    uint8_t *bits = (uint8_t *)(uintptr_t)text.buffers[0];
    uint8_t *data = (uint8_t *)(uintptr_t)text.buffers[2];
    uint64_t at = 0;
    for (int64_t i = 0; i < views->length; i++) {
        bool valid = is_valid(validity, views->offset + i);
        set_offset(&text, large, i, at);
        if (bits != NULL) {
            ArrowBitSetTo(bits, i, valid);
            text.null_count += !valid;
        }
        if (valid && i >= rows.first && i - rows.first < rows.count) {
            struct lake_bytes view = view_at(views, views->offset + i);
            memcpy(data + at, view.data, view.size);
            at += view.size;
        }
    }
    set_offset(&text, large, views->length, at);
    *left_bytes -= bytes;
    *out = text;
    return LAKE_OK;
}

static int64_t offset_at(const struct ArrowArray *list, uint32_t width, int64_t slot)
{
    return width == 4 ? ((const int32_t *)list->buffers[1])[slot]
                      : ((const int64_t *)list->buffers[1])[slot];
}

/* The rows of a child that these of its parent refer to; all of them where they may lie anywhere.
 */
static struct rows rows_of_child(const struct arrow_type_layout *layout,
                                 const struct ArrowArray *parent, const struct ArrowArray *child,
                                 struct rows rows)
{
    int64_t slot = parent->offset + rows.first;
    struct rows out = {slot, rows.count};
    switch (layout->layout) {
    case ARROW_LAYOUT_STRUCT:
    case ARROW_LAYOUT_SPARSE_UNION:
        return out;
    case ARROW_LAYOUT_FIXED_LIST:
        return (struct rows){slot * layout->list_size, rows.count * layout->list_size};
    case ARROW_LAYOUT_LIST:
        if (rows.count > 0) {
            out.first = offset_at(parent, layout->offset_bytes, slot);
            out.count = offset_at(parent, layout->offset_bytes, slot + rows.count) - out.first;
        }
        return out;
    default:
        return (struct rows){0, child->length};
    }
}

/* Puts plain arrays in the places of those nodes of a clone that are views. */
static lake_status make_plain(const struct ArrowSchema *from, const struct ArrowSchema *to,
                              struct ArrowArray *node, struct rows rows, uint64_t *left_bytes,
                              struct lake_error *err)
{
    struct ArrowArray text;
    struct arrow_type_layout layout;
    lake_status status = LAKE_OK;
    if (is_view(from)) {
        status = make_text(to, node, rows, left_bytes, &text, err);
        if (status == LAKE_OK) {
            ArrowArrayRelease(node);
            *node = text;
        }
        return status;
    }
    if (node->dictionary != NULL) {
        return make_plain(from->dictionary, to->dictionary, node->dictionary,
                          (struct rows){0, node->dictionary->length}, left_bytes, err);
    }
    if (node->n_children > 0) {
        status = arrow_layout_of(from, &layout, err);
    }
    for (int64_t i = 0; i < node->n_children && status == LAKE_OK; i++) {
        struct ArrowArray *child = node->children[i];
        status = make_plain(from->children[i], to->children[i], child,
                            rows_of_child(&layout, node, child, rows), left_bytes, err);
    }
    return status;
}

lake_status arrow_plain_array(const struct ArrowSchema *from, const struct ArrowSchema *to,
                              struct ArrowArray *array, uint64_t *left_bytes,
                              struct lake_error *err)
{
    struct arrow_batch *batch;
    struct ArrowArray clone;
    lake_status status = arrow_batch_new(array, &batch, err);
    if (status != LAKE_OK) {
        return status;
    }
    status = arrow_clone_with_batch(arrow_batch_array(batch), batch, &clone, err);
    arrow_batch_unref(batch);
    if (status != LAKE_OK) {
        return status;
    }
    status = make_plain(from, to, &clone, (struct rows){0, clone.length}, left_bytes, err);
    if (status != LAKE_OK) {
        ArrowArrayRelease(&clone);
        return status;
    }
    *array = clone;
    return LAKE_OK;
}
