/*
 * Half floats: the engine has none, so a column of them, at any depth, is a column of floats to it.
 * Only the leaves change; what holds them stays where it is.
 */
#include "sql_internal.h"

#include <math.h>
#include <string.h>

/* nanoarrow's own conversions lose subnormal numbers and cut instead of rounding. */
static float float_of(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = (half >> 10) & 0x1f;
    uint32_t fraction = half & 0x3ff;
    uint32_t bits;
    float value;
    if (exponent == 0) {
        value = (float)fraction * 0x1p-24f;
        memcpy(&bits, &value, sizeof(bits));
        bits |= sign;
    } else {
        uint32_t wide = exponent == 0x1f ? 0xff : exponent + 127 - 15;
        bits = sign | wide << 23 | fraction << 13;
    }
    memcpy(&value, &bits, sizeof(value));
    return value;
}

uint16_t sql_half_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits >= 0x47800000) { /* from 65536 on: infinite, or not a number */
        return (uint16_t)(sign | (bits > 0x7f800000 ? 0x7e00u : 0x7c00u));
    }
    if (bits < 0x38800000) { /* below 2^-14: subnormal, in units of 2^-24 */
        return (uint16_t)(sign | (uint32_t)lrintf(fabsf(value) * 0x1p24f));
    }
    bits += 0x0fff + (bits >> 13 & 1); /* to the nearest, ties to even */
    return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

bool sql_half_in(const struct ArrowSchema *schema)
{
    if (strcmp(schema->format, "e") == 0) {
        return true;
    }
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (sql_half_in(schema->children[i])) {
            return true;
        }
    }
    return schema->dictionary != NULL && sql_half_in(schema->dictionary);
}

lake_status sql_half_widen_schema(struct ArrowSchema *schema, struct lake_error *err)
{
    if (strcmp(schema->format, "e") == 0 && ArrowSchemaSetFormat(schema, "f") != NANOARROW_OK) {
        return base_fail_no_memory(err, 2);
    }
    lake_status status = LAKE_OK;
    for (int64_t i = 0; status == LAKE_OK && i < schema->n_children; i++) {
        status = sql_half_widen_schema(schema->children[i], err);
    }
    if (status == LAKE_OK && schema->dictionary != NULL) {
        status = sql_half_widen_schema(schema->dictionary, err);
    }
    return status;
}

struct widened {
    struct ArrowArray half; /* owns the validity */
    const void *buffers[2];
    float values[];
};

static void widened_release(struct ArrowArray *array)
{
    struct widened *widened = array->private_data;
    ArrowArrayRelease(&widened->half);
    base_free(widened);
    array->release = NULL;
}

static lake_status widen_leaf(struct ArrowArray *array, struct lake_error *err)
{
    size_t count;
    size_t bytes;
    if (!base_size_add((size_t)array->offset, (size_t)array->length, &count) ||
        !base_size_mul(count, sizeof(float), &bytes) ||
        !base_size_add(bytes, sizeof(struct widened), &bytes)) {
        return base_fail_no_memory(err, SIZE_MAX);
    }
    struct widened *widened = base_alloc(bytes);
    if (widened == NULL) {
        return base_fail_no_memory(err, bytes);
    }
    const uint16_t *from = array->buffers[1];
    for (size_t i = (size_t)array->offset; i < count; i++) {
        widened->values[i] = float_of(from[i]);
    }
    widened->buffers[0] = array->buffers[0];
    widened->buffers[1] = widened->values;
    struct ArrowArray made = {.length = array->length,
                              .null_count = array->null_count,
                              .offset = array->offset,
                              .n_buffers = 2,
                              .buffers = widened->buffers,
                              .release = widened_release,
                              .private_data = widened};
    ArrowArrayMove(array, &widened->half);
    *array = made;
    return LAKE_OK;
}

lake_status sql_half_widen(const struct ArrowSchema *schema, struct ArrowArray *array,
                           struct lake_error *err)
{
    if (strcmp(schema->format, "e") == 0) {
        return widen_leaf(array, err);
    }
    lake_status status = LAKE_OK;
    for (int64_t i = 0; status == LAKE_OK && i < schema->n_children; i++) {
        status = sql_half_widen(schema->children[i], array->children[i], err);
    }
    if (status == LAKE_OK && schema->dictionary != NULL) {
        status = sql_half_widen(schema->dictionary, array->dictionary, err);
    }
    return status;
}
