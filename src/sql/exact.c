/*
 * Nanoseconds, which the engine rounds away in two Arrow types: it has timestamps of nanoseconds
 * without a zone only, and intervals of microseconds. The first become timestamps without a zone to
 * it, marked so that a result gets its zone back; of the second, those that are not whole
 * microseconds are refused, since a rounded value would pass for the stored one.
 */
#include "sql_internal.h"

#include <string.h>

#define NS_PER_US 1000

bool sql_is_zoned_ns(const struct ArrowSchema *field)
{
    return strncmp(field->format, "tsn:", 4) == 0 && field->format[4] != '\0';
}

static int drop_zones(struct ArrowSchema *schema)
{
    int code = sql_is_zoned_ns(schema) ? ArrowSchemaSetFormat(schema, "tsn:") : NANOARROW_OK;
    for (int64_t i = 0; code == NANOARROW_OK && i < schema->n_children; i++) {
        code = drop_zones(schema->children[i]);
    }
    return code == NANOARROW_OK && schema->dictionary != NULL ? drop_zones(schema->dictionary)
                                                              : code;
}

lake_status sql_exact_schema(const struct ArrowSchema *schema, struct ArrowSchema *out,
                             struct lake_error *err)
{
    struct ArrowSchema copy = {0};
    int code = ArrowSchemaDeepCopy(schema, &copy);
    if (code == NANOARROW_OK) {
        code = drop_zones(&copy);
    }
    if (code != NANOARROW_OK) {
        if (copy.release != NULL) {
            ArrowSchemaRelease(&copy);
        }
        return base_fail_no_memory(err, sizeof(copy));
    }
    ArrowSchemaMove(&copy, out);
    return LAKE_OK;
}

bool sql_exact_needs_check(const struct ArrowSchema *schema)
{
    if (strcmp(schema->format, "tDn") == 0) {
        return true;
    }
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (sql_exact_needs_check(schema->children[i])) {
            return true;
        }
    }
    return schema->dictionary != NULL && sql_exact_needs_check(schema->dictionary);
}

static lake_status check_durations(const struct ArrowArray *array, const char *column,
                                   struct lake_error *err)
{
    const uint8_t *validity = array->buffers[0];
    const int64_t *values = array->buffers[1];
    for (int64_t i = array->offset; i < array->offset + array->length; i++) {
        if (values[i] % NS_PER_US != 0 && (validity == NULL || ArrowBitGet(validity, i))) {
            return lake_fail(err, LAKE_OUT_OF_RANGE,
                             "column %s: the duration of %lld ns is not a whole number of "
                             "microseconds, the finest that SQL intervals hold: store such "
                             "durations as int64",
                             column, (long long)values[i]);
        }
    }
    return LAKE_OK;
}

static lake_status check_field(const struct ArrowSchema *schema, const struct ArrowArray *array,
                               const char *column, struct lake_error *err)
{
    if (strcmp(schema->format, "tDn") == 0) {
        return check_durations(array, column, err);
    }
    lake_status status = LAKE_OK;
    for (int64_t i = 0; status == LAKE_OK && i < schema->n_children; i++) {
        status = check_field(schema->children[i], array->children[i], column, err);
    }
    if (status == LAKE_OK && schema->dictionary != NULL) {
        status = check_field(schema->dictionary, array->dictionary, column, err);
    }
    return status;
}

lake_status sql_exact_check(const struct ArrowSchema *schema, const struct ArrowArray *batch,
                            struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (int64_t i = 0; status == LAKE_OK && i < schema->n_children; i++) {
        status =
            check_field(schema->children[i], batch->children[i], schema->children[i]->name, err);
    }
    return status;
}
