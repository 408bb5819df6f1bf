#include "arrow_internal.h"

#include <string.h>

/* What stays the same during one validation. */
struct validation {
    bool values; /* also what the bytes mean: UTF-8, digits of a decimal, times of a day */
    struct lake_error *err;
};

static lake_status bad(struct validation *v, const struct ArrowSchema *field, const char *what,
                       int64_t row)
{
    return lake_fail(v->err, LAKE_INVALID_ARGUMENT, "column \"%s\": %s (row %lld)",
                     arrow_field_name(field), what, (long long)row);
}

static bool is_valid(const struct ArrowArray *array, const struct arrow_type_layout *layout,
                     int64_t slot)
{
    const uint8_t *validity = layout->has_validity ? array->buffers[0] : NULL;
    return array->null_count == 0 || validity == NULL || ArrowBitGet(validity, slot);
}

/* A column wider than its bytes allow is refused before any of them is touched. */
static lake_status check_buffers(struct validation *v, const struct ArrowSchema *field,
                                 const struct arrow_type_layout *layout,
                                 const struct ArrowArray *array)
{
    int64_t children = field->dictionary != NULL ? 0 : field->n_children;
    if (array->length < 0 || array->offset < 0 || array->offset > INT64_MAX / 64 ||
        array->length > INT64_MAX / 64 || array->null_count < -1 ||
        array->null_count > array->length) {
        return bad(v, field, "its length, offset or null count is not possible", array->length);
    }
    if (array->n_buffers < (int64_t)layout->buffer_count || array->n_children != children ||
        (field->dictionary != NULL) != (array->dictionary != NULL)) {
        return bad(v, field, "its buffers or children are not those of its type", array->n_buffers);
    }
    if (array->length == 0) {
        return LAKE_OK;
    }
    if (layout->has_validity && array->null_count > 0 && array->buffers[0] == NULL) {
        return bad(v, field, "it has nulls but no validity bitmap", 0);
    }
    /* Data of strings may be absent when all are empty; everything else is needed. */
    uint32_t first = layout->has_validity ? 1 : 0;
    uint32_t last = layout->layout == ARROW_LAYOUT_BYTES ? 2 : layout->buffer_count;
    for (uint32_t i = first; i < last; i++) {
        bool empty_width = layout->layout == ARROW_LAYOUT_FIXED && layout->bit_width == 0;
        if (array->buffers[i] == NULL && !empty_width) {
            return bad(v, field, "a buffer is missing", i);
        }
    }
    return LAKE_OK;
}

/* Offsets never go backwards; gives the first and the last. */
static lake_status check_offsets(struct validation *v, const struct ArrowSchema *field,
                                 uint32_t width, const struct ArrowArray *array, int64_t *first,
                                 int64_t *last)
{
    *first = 0;
    *last = 0;
    if (array->length == 0) {
        return LAKE_OK;
    }
    bool backwards = false;
    int64_t end = array->offset + array->length;
    if (width == 4) {
        const int32_t *offsets = array->buffers[1];
        for (int64_t i = array->offset; i < end; i++) {
            backwards |= offsets[i + 1] < offsets[i];
        }
        *first = offsets[array->offset];
        *last = offsets[end];
    } else {
        const int64_t *offsets = array->buffers[1];
        for (int64_t i = array->offset; i < end; i++) {
            backwards |= offsets[i + 1] < offsets[i];
        }
        *first = offsets[array->offset];
        *last = offsets[end];
    }
    if (backwards || *first < 0) {
        return bad(v, field, "its offsets go backwards", 0);
    }
    return LAKE_OK;
}

static int64_t load_offset(const struct ArrowArray *array, uint32_t width, int64_t slot)
{
    return width == 4 ? ((const int32_t *)array->buffers[1])[slot]
                      : ((const int64_t *)array->buffers[1])[slot];
}

/* The whole range at once, then that no row starts inside a character; row by row only when that
 * fails, since null rows may hold anything. */
static lake_status check_utf8(struct validation *v, const struct ArrowSchema *field,
                              const struct arrow_type_layout *layout,
                              const struct ArrowArray *array, int64_t first, int64_t last)
{
    const char *data = array->buffers[2];
    bool good =
        data == NULL || base_utf8_valid((struct lake_str){data + first, (size_t)(last - first)});
    for (int64_t i = 0; good && data != NULL && i < array->length; i++) {
        int64_t start = load_offset(array, layout->offset_bytes, array->offset + i);
        good = start == last || ((unsigned char)data[start] & 0xC0) != 0x80;
    }
    for (int64_t i = 0; !good && i < array->length; i++) {
        int64_t slot = array->offset + i;
        int64_t start = load_offset(array, layout->offset_bytes, slot);
        int64_t end = load_offset(array, layout->offset_bytes, slot + 1);
        if (is_valid(array, layout, slot) &&
            !base_utf8_valid((struct lake_str){data + start, (size_t)(end - start)})) {
            return bad(v, field, "its text is not UTF-8", i);
        }
    }
    return LAKE_OK;
}

static lake_status check_bytes(struct validation *v, const struct ArrowSchema *field,
                               const struct arrow_type_layout *layout,
                               const struct ArrowArray *array)
{
    int64_t first;
    int64_t last;
    lake_status status = check_offsets(v, field, layout->offset_bytes, array, &first, &last);
    if (status != LAKE_OK) {
        return status;
    }
    if (last > first && array->buffers[2] == NULL) {
        return bad(v, field, "its data buffer is missing", 0);
    }
    return layout->utf8 && v->values ? check_utf8(v, field, layout, array, first, last) : LAKE_OK;
}

static lake_status check_views(struct validation *v, const struct ArrowSchema *field,
                               const struct arrow_type_layout *layout,
                               const struct ArrowArray *array)
{
    int64_t variadic = array->n_buffers - 3;
    if (variadic < 0) {
        return bad(v, field, "its buffers are not those of a view", array->n_buffers);
    }
    const int64_t *sizes = array->buffers[array->n_buffers - 1];
    for (int64_t i = 0; i < array->length; i++) {
        int64_t slot = array->offset + i;
        const uint8_t *view = (const uint8_t *)array->buffers[1] + 16 * slot;
        int32_t size = (int32_t)base_load_u32le(view);
        if (!is_valid(array, layout, slot)) {
            continue;
        }
        const char *data = (const char *)view + 4;
        if (size > 12) {
            int32_t buffer = (int32_t)base_load_u32le(view + 8);
            int32_t offset = (int32_t)base_load_u32le(view + 12);
            if (buffer < 0 || buffer >= variadic || offset < 0 || sizes == NULL ||
                size > sizes[buffer] - offset) {
                return bad(v, field, "a view points outside its data", i);
            }
            data = (const char *)array->buffers[2 + buffer] + offset;
        }
        if (size < 0) {
            return bad(v, field, "a view has a negative size", i);
        }
        if (v->values && layout->utf8 && !base_utf8_valid((struct lake_str){data, (size_t)size})) {
            return bad(v, field, "its text is not UTF-8", i);
        }
    }
    return LAKE_OK;
}

static lake_status check_list_views(struct validation *v, const struct ArrowSchema *field,
                                    const struct arrow_type_layout *layout,
                                    const struct ArrowArray *array)
{
    bool narrow = layout->offset_bytes == 4;
    int64_t available = array->children[0]->length;
    for (int64_t i = 0; i < array->length; i++) {
        int64_t slot = array->offset + i;
        if (!is_valid(array, layout, slot)) {
            continue;
        }
        int64_t offset = load_offset(array, layout->offset_bytes, slot);
        int64_t size = narrow ? ((const int32_t *)array->buffers[2])[slot]
                              : ((const int64_t *)array->buffers[2])[slot];
        if (offset < 0 || size < 0 || offset > available || size > available - offset) {
            return bad(v, field, "a list view points outside its items", i);
        }
    }
    return LAKE_OK;
}

#define COUNT_OUTSIDE(type)                                                                       \
    do {                                                                                          \
        const type *index = array->buffers[1];                                                    \
        for (int64_t i = array->offset; i < array->offset + array->length; i++) {                 \
            if ((uint64_t)index[i] >= (uint64_t)limit && is_valid(array, layout, i)) {            \
                return bad(v, field, "its index lies outside the dictionary", i - array->offset); \
            }                                                                                     \
        }                                                                                         \
    } while (0)

/* Indices of a dictionary: a negative one is a large one when seen as unsigned. */
static lake_status check_indices(struct validation *v, const struct ArrowSchema *field,
                                 const struct arrow_type_layout *layout,
                                 const struct ArrowArray *array)
{
    int64_t limit = array->dictionary->length;
    switch (layout->type) {
    case NANOARROW_TYPE_INT8:
        COUNT_OUTSIDE(int8_t);
        break;
    case NANOARROW_TYPE_UINT8:
        COUNT_OUTSIDE(uint8_t);
        break;
    case NANOARROW_TYPE_INT16:
        COUNT_OUTSIDE(int16_t);
        break;
    case NANOARROW_TYPE_UINT16:
        COUNT_OUTSIDE(uint16_t);
        break;
    case NANOARROW_TYPE_INT32:
        COUNT_OUTSIDE(int32_t);
        break;
    case NANOARROW_TYPE_UINT32:
        COUNT_OUTSIDE(uint32_t);
        break;
    case NANOARROW_TYPE_INT64:
        COUNT_OUTSIDE(int64_t);
        break;
    case NANOARROW_TYPE_UINT64:
        COUNT_OUTSIDE(uint64_t);
        break;
    default:
        return bad(v, field, "its dictionary's index is not an integer", 0);
    }
    return LAKE_OK;
}

static lake_status check_union(struct validation *v, const struct ArrowSchema *field,
                               const struct arrow_type_layout *layout,
                               const struct ArrowArray *array)
{
    struct ArrowSchemaView view;
    int8_t type_ids[128];
    int8_t child_of[128];
    if (ArrowSchemaViewInit(&view, field, NULL) != NANOARROW_OK) {
        return bad(v, field, "its type is not a union", 0);
    }
    int count = _ArrowParseUnionTypeIds(view.union_type_ids, type_ids);
    memset(child_of, -1, sizeof(child_of));
    if (count < 0 || count > 127 || count != array->n_children) {
        return bad(v, field, "its type IDs are not those of its children", count);
    }
    for (int i = 0; i < count; i++) {
        if (type_ids[i] < 0) {
            return bad(v, field, "a type ID is negative", i);
        }
        child_of[type_ids[i]] = (int8_t)i;
    }
    const int8_t *types = array->buffers[0];
    bool dense = layout->layout == ARROW_LAYOUT_DENSE_UNION;
    const int32_t *offsets = dense ? array->buffers[1] : NULL;
    for (int64_t i = 0; i < array->length; i++) {
        int64_t slot = array->offset + i;
        if (types[slot] < 0 || child_of[types[slot]] < 0) {
            return bad(v, field, "a type ID has no child", i);
        }
        const struct ArrowArray *child = array->children[child_of[types[slot]]];
        if (dense && (offsets[slot] < 0 || offsets[slot] >= child->length)) {
            return bad(v, field, "a union's offset lies outside its child", i);
        }
    }
    return LAKE_OK;
}

static lake_status check_run_ends(struct validation *v, const struct ArrowSchema *field,
                                  const struct ArrowArray *array)
{
    const struct ArrowArray *ends = array->children[0];
    const struct ArrowArray *values = array->children[1];
    const char *format = field->children[0]->format;
    int64_t last = 0;
    if (ends->length != values->length || (ends->length > 0 && ends->n_buffers < 2)) {
        return bad(v, field, "its run ends are not as many as its values", ends->length);
    }
    for (int64_t i = 0; i < ends->length; i++) {
        int64_t slot = ends->offset + i;
        const void *data = ends->buffers[1];
        int64_t end = data == NULL               ? 0
                      : strcmp(format, "s") == 0 ? ((const int16_t *)data)[slot]
                      : strcmp(format, "i") == 0 ? ((const int32_t *)data)[slot]
                                                 : ((const int64_t *)data)[slot];
        if (end <= last) {
            return bad(v, field, "its run ends do not grow", i);
        }
        last = end;
    }
    if (last < array->offset + array->length) {
        return bad(v, field, "its runs end before its rows", last);
    }
    return LAKE_OK;
}

__extension__ typedef unsigned __int128 u128;

/* Whoever reads a decimal by its precision may take no more of it than that has digits. */
static lake_status check_decimals(struct validation *v, const struct ArrowSchema *field,
                                  const struct arrow_type_layout *layout,
                                  const struct ArrowArray *array, int32_t precision)
{
    const uint8_t *data = array->buffers[1];
    u128 limit = 1;
    for (int32_t i = 0; i < BASE_MIN(precision, 38); i++)
        limit *= 10;
    for (int64_t i = 0; i < array->length; i++) {
        int64_t slot = array->offset + i;
        u128 value;
        memcpy(&value, data + (size_t)slot * sizeof(value), sizeof(value));
        u128 size = value >> 127 != 0 ? -value : value;
        if (size >= limit && is_valid(array, layout, slot)) {
            return bad(v, field, "a decimal has more digits than its precision", i);
        }
    }
    return LAKE_OK;
}

/* Up to 24:00, which SQL has. */
static lake_status check_times(struct validation *v, const struct ArrowSchema *field,
                               const struct arrow_type_layout *layout,
                               const struct ArrowArray *array, enum ArrowTimeUnit unit)
{
    static const int64_t units_a_second[] = {
        [NANOARROW_TIME_UNIT_SECOND] = 1,
        [NANOARROW_TIME_UNIT_MILLI] = 1000,
        [NANOARROW_TIME_UNIT_MICRO] = 1000000,
        [NANOARROW_TIME_UNIT_NANO] = 1000000000,
    };
    bool narrow = layout->bit_width == 32;
    for (int64_t i = 0; i < array->length; i++) {
        int64_t slot = array->offset + i;
        int64_t time = narrow ? ((const int32_t *)array->buffers[1])[slot]
                              : ((const int64_t *)array->buffers[1])[slot];
        if ((time < 0 || time > 86400 * units_a_second[unit]) && is_valid(array, layout, slot)) {
            return bad(v, field, "a time lies outside the day", i);
        }
    }
    return LAKE_OK;
}

static lake_status check_values(struct validation *v, const struct ArrowSchema *field,
                                const struct arrow_type_layout *layout,
                                const struct ArrowArray *array)
{
    struct ArrowSchemaView view;
    if (!v->values || array->length == 0 || ArrowSchemaViewInit(&view, field, NULL) != NANOARROW_OK)
        return LAKE_OK;
    switch (view.type) {
    case NANOARROW_TYPE_DECIMAL128:
        return check_decimals(v, field, layout, array, view.decimal_precision);
    case NANOARROW_TYPE_TIME32:
    case NANOARROW_TYPE_TIME64:
        return check_times(v, field, layout, array, view.time_unit);
    default:
        return LAKE_OK;
    }
}

static lake_status check_array(struct validation *v, const struct ArrowSchema *field,
                               const struct ArrowArray *array, uint32_t depth);

/* Every child has rows up to `needed` (an absolute count), and is itself valid. */
static lake_status check_children(struct validation *v, const struct ArrowSchema *field,
                                  const struct ArrowArray *array, int64_t needed, uint32_t depth)
{
    lake_status status = LAKE_OK;
    for (int64_t i = 0; status == LAKE_OK && i < array->n_children; i++) {
        if (array->children[i]->length < needed) {
            return bad(v, field, "a child has too few rows", array->children[i]->length);
        }
        status = check_array(v, field->children[i], array->children[i], depth + 1);
    }
    return status;
}

static lake_status check_layout(struct validation *v, const struct ArrowSchema *field,
                                const struct arrow_type_layout *layout,
                                const struct ArrowArray *array, uint32_t depth)
{
    int64_t first;
    int64_t last = array->offset + array->length;
    lake_status status = LAKE_OK;
    switch (layout->layout) {
    case ARROW_LAYOUT_NULL:
        return LAKE_OK;
    case ARROW_LAYOUT_FIXED:
        if (field->dictionary == NULL) {
            return check_values(v, field, layout, array);
        }
        status = check_array(v, field->dictionary, array->dictionary, depth + 1);
        return status == LAKE_OK ? check_indices(v, field, layout, array) : status;
    case ARROW_LAYOUT_BYTES:
        return check_bytes(v, field, layout, array);
    case ARROW_LAYOUT_VIEW:
        return check_views(v, field, layout, array);
    case ARROW_LAYOUT_LIST:
        status = check_offsets(v, field, layout->offset_bytes, array, &first, &last);
        break;
    case ARROW_LAYOUT_FIXED_LIST:
        if (__builtin_mul_overflow(last, layout->list_size, &last)) {
            return bad(v, field, "it has impossibly many items", 0);
        }
        break;
    case ARROW_LAYOUT_STRUCT:
    case ARROW_LAYOUT_SPARSE_UNION:
        break;
    case ARROW_LAYOUT_LIST_VIEW:
    case ARROW_LAYOUT_DENSE_UNION:
    case ARROW_LAYOUT_RUN_END:
        last = 0; /* how far they reach into their children is checked below */
        break;
    }
    if (status == LAKE_OK) {
        status = check_children(v, field, array, last, depth);
    }
    if (status != LAKE_OK) {
        return status;
    }
    switch (layout->layout) {
    case ARROW_LAYOUT_LIST_VIEW:
        return check_list_views(v, field, layout, array);
    case ARROW_LAYOUT_SPARSE_UNION:
    case ARROW_LAYOUT_DENSE_UNION:
        return check_union(v, field, layout, array);
    case ARROW_LAYOUT_RUN_END:
        return check_run_ends(v, field, array);
    default:
        return LAKE_OK;
    }
}

static lake_status check_array(struct validation *v, const struct ArrowSchema *field,
                               const struct ArrowArray *array, uint32_t depth)
{
    struct arrow_type_layout layout;
    if (depth > ARROW_MAX_DEPTH) {
        return lake_fail(v->err, LAKE_INVALID_ARGUMENT, "the array nests deeper than %d levels",
                         ARROW_MAX_DEPTH);
    }
    lake_status status = arrow_layout_of(field, &layout, v->err);
    if (status == LAKE_OK) {
        status = check_buffers(v, field, &layout, array);
    }
    return status == LAKE_OK ? check_layout(v, field, &layout, array, depth) : status;
}

lake_status arrow_validate_structure(const struct ArrowSchema *schema,
                                     const struct ArrowArray *array, struct lake_error *err)
{
    struct validation v = {.values = false, .err = err};
    return check_array(&v, schema, array, 0);
}

/* Columns that say "not null" hold no null; inside nested types a null parent may mask one. */
static lake_status check_required(const struct ArrowSchema *schema, const struct ArrowArray *array,
                                  struct lake_error *err)
{
    if (strcmp(schema->format, "+s") != 0) {
        return LAKE_OK;
    }
    for (int64_t i = 0; i < array->n_children; i++) {
        const struct ArrowSchema *field = schema->children[i];
        const struct ArrowArray *column = array->children[i];
        bool may_hold = column->n_buffers > 0 && column->buffers[0] != NULL &&
                        column->null_count != 0 && field->format[0] != 'n' &&
                        strncmp(field->format, "+u", 2) != 0;
        if ((field->flags & ARROW_FLAG_NULLABLE) == 0 && may_hold &&
            arrow_count_nulls(column->buffers[0], column->offset + array->offset, array->length) >
                0) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "column \"%s\" is declared not null and has nulls",
                             arrow_field_name(field));
        }
    }
    return LAKE_OK;
}

lake_status arrow_array_validate(const struct ArrowSchema *schema, const struct ArrowArray *array,
                                 struct lake_error *err)
{
    struct validation v = {.values = true, .err = err};
    lake_status status = check_array(&v, schema, array, 0);
    return status == LAKE_OK ? check_required(schema, array, err) : status;
}
