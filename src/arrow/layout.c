#include "arrow_internal.h"

#include <errno.h>

_Alignas(64) const uint8_t arrow_zeros[64];

lake_status arrow_fail_code(struct lake_error *err, int code, const struct ArrowError *detail,
                            const char *what)
{
    lake_status status = code == ENOMEM    ? LAKE_RESOURCE_EXHAUSTED
                         : code == ENOTSUP ? LAKE_UNIMPLEMENTED
                                           : LAKE_INVALID_ARGUMENT;
    if (detail != NULL && detail->message[0] != '\0') {
        return lake_fail(err, status, "%s failed: %s", what, detail->message);
    }
    return lake_fail(err, status, "%s failed%s", what, code == ENOMEM ? ": out of memory" : "");
}

int arrow_errno_of(lake_status status)
{
    switch (status) {
    case LAKE_OK:
        return 0;
    case LAKE_RESOURCE_EXHAUSTED:
        return ENOMEM;
    case LAKE_UNIMPLEMENTED:
        return ENOTSUP;
    case LAKE_CANCELLED:
        return ECANCELED;
    case LAKE_DEADLINE_EXCEEDED:
        return ETIMEDOUT;
    case LAKE_UNAVAILABLE:
    case LAKE_DATA_LOSS:
        return EIO;
    default:
        return EINVAL;
    }
}

const char *arrow_field_name(const struct ArrowSchema *field)
{
    return field->name == NULL ? "" : field->name;
}

static void layout_of_nested(const struct ArrowSchemaView *view, struct arrow_type_layout *layout)
{
    switch (view->storage_type) {
    case NANOARROW_TYPE_LIST:
    case NANOARROW_TYPE_LARGE_LIST:
    case NANOARROW_TYPE_MAP:
        layout->layout = ARROW_LAYOUT_LIST;
        layout->offset_bytes = view->storage_type == NANOARROW_TYPE_LARGE_LIST ? 8 : 4;
        layout->buffer_count = 2;
        break;
    case NANOARROW_TYPE_LIST_VIEW:
    case NANOARROW_TYPE_LARGE_LIST_VIEW:
        layout->layout = ARROW_LAYOUT_LIST_VIEW;
        layout->offset_bytes = view->storage_type == NANOARROW_TYPE_LARGE_LIST_VIEW ? 8 : 4;
        layout->buffer_count = 3;
        break;
    case NANOARROW_TYPE_FIXED_SIZE_LIST:
        layout->layout = ARROW_LAYOUT_FIXED_LIST;
        layout->list_size = view->fixed_size;
        layout->buffer_count = 1;
        break;
    case NANOARROW_TYPE_SPARSE_UNION:
        layout->layout = ARROW_LAYOUT_SPARSE_UNION;
        layout->buffer_count = 1;
        layout->has_validity = false;
        break;
    case NANOARROW_TYPE_DENSE_UNION:
        layout->layout = ARROW_LAYOUT_DENSE_UNION;
        layout->buffer_count = 2;
        layout->has_validity = false;
        break;
    case NANOARROW_TYPE_RUN_END_ENCODED:
        layout->layout = ARROW_LAYOUT_RUN_END;
        layout->buffer_count = 0;
        layout->has_validity = false;
        break;
    default:
        layout->layout = ARROW_LAYOUT_STRUCT;
        layout->buffer_count = 1;
        break;
    }
}

lake_status arrow_layout_of(const struct ArrowSchema *field, struct arrow_type_layout *out,
                            struct lake_error *err)
{
    struct ArrowSchemaView view;
    struct ArrowError detail = {{0}};
    int code = ArrowSchemaViewInit(&view, field, &detail);
    if (code != NANOARROW_OK) {
        return arrow_fail_code(err, code, &detail, "reading a field's type");
    }
    struct arrow_type_layout layout = {.type = view.storage_type, .has_validity = true};
    switch (view.storage_type) {
    case NANOARROW_TYPE_NA:
        layout.layout = ARROW_LAYOUT_NULL;
        layout.has_validity = false;
        break;
    case NANOARROW_TYPE_STRING:
    case NANOARROW_TYPE_BINARY:
    case NANOARROW_TYPE_LARGE_STRING:
    case NANOARROW_TYPE_LARGE_BINARY:
        layout.layout = ARROW_LAYOUT_BYTES;
        layout.offset_bytes = view.storage_type == NANOARROW_TYPE_LARGE_STRING ||
                                      view.storage_type == NANOARROW_TYPE_LARGE_BINARY
                                  ? 8
                                  : 4;
        layout.utf8 = view.storage_type == NANOARROW_TYPE_STRING ||
                      view.storage_type == NANOARROW_TYPE_LARGE_STRING;
        layout.buffer_count = 3;
        break;
    case NANOARROW_TYPE_STRING_VIEW:
    case NANOARROW_TYPE_BINARY_VIEW:
        layout.layout = ARROW_LAYOUT_VIEW;
        layout.utf8 = view.storage_type == NANOARROW_TYPE_STRING_VIEW;
        layout.buffer_count = 2;
        break;
    case NANOARROW_TYPE_LIST:
    case NANOARROW_TYPE_LARGE_LIST:
    case NANOARROW_TYPE_LIST_VIEW:
    case NANOARROW_TYPE_LARGE_LIST_VIEW:
    case NANOARROW_TYPE_MAP:
    case NANOARROW_TYPE_FIXED_SIZE_LIST:
    case NANOARROW_TYPE_SPARSE_UNION:
    case NANOARROW_TYPE_DENSE_UNION:
    case NANOARROW_TYPE_RUN_END_ENCODED:
    case NANOARROW_TYPE_STRUCT:
        layout_of_nested(&view, &layout);
        break;
    default:
        layout.layout = ARROW_LAYOUT_FIXED;
        layout.bit_width = view.layout.element_size_bits[1];
        layout.buffer_count = 2;
        if (layout.bit_width < 0) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "type \"%s\" has no known width",
                             field->format);
        }
        break;
    }
    *out = layout;
    return LAKE_OK;
}

int64_t arrow_count_nulls(const uint8_t *validity, int64_t offset, int64_t length)
{
    if (validity == NULL || length <= 0) {
        return 0;
    }
    int64_t set = 0;
    int64_t at = offset;
    int64_t end = offset + length;
    while (at < end && at % 8 != 0) {
        set += ArrowBitGet(validity, at++);
    }
    for (; end - at >= 64; at += 64) {
        set += __builtin_popcountll(base_load_u64le(validity + at / 8));
    }
    while (at < end) {
        set += ArrowBitGet(validity, at++);
    }
    return length - set;
}
