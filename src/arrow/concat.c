#include "decode_array.h"

#include <string.h>

/* A dictionary that grows by deltas stops here. */
#define MAX_CONCAT_BYTES ((uint64_t)1 << 30)

static bool slot_valid(const struct ArrowArray *array, int64_t row)
{
    const uint8_t *validity = array->buffers[0];
    return array->null_count == 0 || validity == NULL || ArrowBitGet(validity, array->offset + row);
}

static int append_fixed(struct ArrowArray *out, const struct arrow_type_layout *layout,
                        const struct ArrowArray *from)
{
    struct ArrowBuffer *data = ArrowArrayBuffer(out, 1);
    const uint8_t *values = from->buffers[1];
    size_t width = (size_t)layout->bit_width / 8;
    return ArrowBufferAppend(data, values + (size_t)from->offset * width,
                             (int64_t)((size_t)from->length * width));
}

static int append_bytes(struct ArrowArray *out, const struct arrow_type_layout *layout,
                        const struct ArrowArray *from)
{
    struct ArrowBuffer *offsets = ArrowArrayBuffer(out, 1);
    struct ArrowBuffer *data = ArrowArrayBuffer(out, 2);
    const uint8_t *bytes = from->buffers[2];
    int code = NANOARROW_OK;
    for (int64_t i = 0; code == NANOARROW_OK && i < from->length; i++) {
        int64_t slot = from->offset + i;
        int64_t start;
        int64_t end;
        if (layout->offset_bytes == 4) {
            start = ((const int32_t *)from->buffers[1])[slot];
            end = ((const int32_t *)from->buffers[1])[slot + 1];
        } else {
            start = ((const int64_t *)from->buffers[1])[slot];
            end = ((const int64_t *)from->buffers[1])[slot + 1];
        }
        code = ArrowBufferAppend(data, bytes + start, end - start);
        if (code == NANOARROW_OK) {
            code = layout->offset_bytes == 4
                       ? ArrowBufferAppendInt32(offsets, (int32_t)data->size_bytes)
                       : ArrowBufferAppendInt64(offsets, data->size_bytes);
        }
    }
    return code;
}

static int append_validity(struct ArrowArray *out, const struct ArrowArray *from)
{
    struct ArrowBitmap *bitmap = ArrowArrayValidityBitmap(out);
    int code = ArrowBitmapReserve(bitmap, from->length);
    for (int64_t i = 0; code == NANOARROW_OK && i < from->length; i++) {
        bool valid = slot_valid(from, i);
        ArrowBitmapAppendUnsafe(bitmap, valid, 1);
        out->null_count += !valid;
    }
    return code;
}

static uint64_t data_bytes(const struct arrow_type_layout *layout, const struct ArrowArray *array)
{
    uint64_t rows = (uint64_t)array->length;
    if (layout->layout == ARROW_LAYOUT_FIXED || array->length == 0) {
        return rows * (uint64_t)(layout->bit_width / 8 + 1);
    }
    int64_t last = array->offset + array->length;
    return rows * 8 + (layout->offset_bytes == 4
                           ? (uint64_t)((const int32_t *)array->buffers[1])[last]
                           : (uint64_t)((const int64_t *)array->buffers[1])[last]);
}

lake_status arrow_concat(const struct ArrowSchema *field, const struct ArrowArray *a,
                         const struct ArrowArray *b, uint64_t *left_bytes, struct ArrowArray *out,
                         struct lake_error *err)
{
    struct arrow_type_layout layout;
    lake_status status = arrow_layout_of(field, &layout, err);
    if (status != LAKE_OK) {
        return status;
    }
    bool fixed = layout.layout == ARROW_LAYOUT_FIXED && layout.bit_width % 8 == 0;
    if ((!fixed && layout.layout != ARROW_LAYOUT_BYTES) || field->dictionary != NULL) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "a delta for a dictionary of type \"%s\" is not read: send it whole",
                         field->format);
    }
    uint64_t bytes = data_bytes(&layout, a) + data_bytes(&layout, b);
    bool too_wide =
        layout.layout == ARROW_LAYOUT_BYTES && layout.offset_bytes == 4 && bytes > INT32_MAX;
    if (bytes > MAX_CONCAT_BYTES || too_wide) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "a dictionary has grown by deltas beyond %llu bytes",
                         (unsigned long long)MAX_CONCAT_BYTES);
    }
    if (bytes > *left_bytes) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "a stream's dictionaries grow by too many deltas: send them whole");
    }
    *left_bytes -= bytes;
    struct ArrowArray joined;
    struct ArrowError detail = {{0}};
    int code = ArrowArrayInitFromSchema(&joined, field, &detail);
    if (code != NANOARROW_OK) {
        return arrow_fail_code(err, code, &detail, "joining a dictionary and its delta");
    }
    if (layout.layout == ARROW_LAYOUT_BYTES) {
        code = ArrowBufferAppendFill(ArrowArrayBuffer(&joined, 1), 0, layout.offset_bytes);
    }
    const struct ArrowArray *parts[] = {a, b};
    for (size_t i = 0; code == NANOARROW_OK && i < 2; i++) {
        code = fixed ? append_fixed(&joined, &layout, parts[i])
                     : append_bytes(&joined, &layout, parts[i]);
        if (code == NANOARROW_OK) {
            code = append_validity(&joined, parts[i]);
        }
        joined.length += parts[i]->length;
    }
    if (code == NANOARROW_OK) {
        code = ArrowArrayFinishBuildingDefault(&joined, &detail);
    }
    if (code != NANOARROW_OK) {
        ArrowArrayRelease(&joined);
        return arrow_fail_code(err, code, &detail, "joining a dictionary and its delta");
    }
    ArrowArrayMove(&joined, out);
    return LAKE_OK;
}
