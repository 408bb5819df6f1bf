/*
 * Half floats: the engine has none, so a column of them, at any depth, is a column of floats to it.
 * Only the leaves change; what holds them stays where it is.
 */
#include "sql_internal.h"

#include <string.h>

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
        widened->values[i] = ArrowHalfFloatToFloat(from[i]);
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
