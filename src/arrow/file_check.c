/*
 * FILE columns of batches from outside (OBJ-2): where in a schema a FILE may stand, and that every
 * value of it lies in a stage. Query and Metasrv both ask; neither trusts the other's client.
 */
#include "arrow_internal.h"

#include <inttypes.h>
#include <string.h>

#define MAX_URI_BYTES        4096
#define MAX_MEDIA_TYPE_BYTES 255

/* ---- schemas ---- */

/* Types whose children visit_value below knows how to find. */
static bool holds_plain_children(const struct ArrowSchema *field)
{
    return strcmp(field->format, "+s") == 0 || strcmp(field->format, "+l") == 0 ||
           strcmp(field->format, "+L") == 0 || strncmp(field->format, "+w:", 3) == 0;
}

static lake_status check_field(const struct ArrowSchema *field, const char *column, bool allowed,
                               int depth, struct lake_error *err)
{
    if (depth > ARROW_MAX_DEPTH)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column \"%s\" is nested more than %d levels deep", column,
                         ARROW_MAX_DEPTH);
    if (arrow_extension_is(field, ARROW_FILE_EXTENSION_NAME)) {
        if (!arrow_file_schema_is(field))
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "column \"%s\" is marked as %s but is not a struct of uri, "
                             "media_type, size_bytes and sha256",
                             column, ARROW_FILE_EXTENSION_NAME);
        if (!allowed)
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "column \"%s\" has a FILE inside a map, union, view or dictionary; "
                             "structs and lists may hold one",
                             column);
        return LAKE_OK;
    }
    lake_status status = LAKE_OK;
    bool below = allowed && holds_plain_children(field);
    for (int64_t i = 0; i < field->n_children && status == LAKE_OK; i++)
        status = check_field(field->children[i], column, below, depth + 1, err);
    if (status == LAKE_OK && field->dictionary != NULL)
        status = check_field(field->dictionary, column, false, depth + 1, err);
    return status;
}

lake_status arrow_file_schema_check(const struct ArrowSchema *schema, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (int64_t i = 0; i < schema->n_children && status == LAKE_OK; i++)
        status =
            check_field(schema->children[i], arrow_field_name(schema->children[i]), true, 0, err);
    return status;
}

bool arrow_file_schema_contains(const struct ArrowSchema *field)
{
    if (arrow_file_schema_is(field))
        return true;
    for (int64_t i = 0; i < field->n_children; i++) {
        if (arrow_file_schema_contains(field->children[i]))
            return true;
    }
    return false;
}

/* ---- values ---- */

struct visit {
    const struct arrow_file_rule *rule;
    const char *column;
    int64_t row; /* counted from rule->first_row */
};

/* What follows the stage in a URI: components that no reader of URIs or paths takes for something
 * else. '%' is not among them, so nothing can hide behind an escape. */
static bool is_object_path(struct lake_str path)
{
    size_t start = 0;
    for (size_t i = 0; i <= path.size; i++) {
        if (i < path.size && path.data[i] != '/') {
            char c = path.data[i];
            bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
            if (!word && memchr("-._~+=@,", c, 8) == NULL)
                return false;
            continue;
        }
        struct lake_str component = {path.data + start, i - start};
        if (component.size == 0 || component.size > 255 || base_str_equal_c(component, ".") ||
            base_str_equal_c(component, ".."))
            return false;
        start = i + 1;
    }
    return true;
}

static lake_status check_value(const struct visit *visit, const struct arrow_file_value *value,
                               struct lake_error *err)
{
    if (visit->rule->stage.size == 0)
        return visit->rule->found(visit->rule->context, value->uri, err);
    if (value->uri.size > MAX_URI_BYTES || value->uri.size <= visit->rule->stage.size ||
        memcmp(value->uri.data, visit->rule->stage.data, visit->rule->stage.size) != 0)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "FILE column \"%s\", row %" PRId64
                         ": the URI does not lie in the stage of tenant \"%s\" (%.*s)",
                         visit->column, visit->row, visit->rule->tenant_id,
                         LAKE_STR_FMT(visit->rule->stage));
    struct lake_str path = {value->uri.data + visit->rule->stage.size,
                            value->uri.size - visit->rule->stage.size};
    if (!is_object_path(path))
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "FILE column \"%s\", row %" PRId64
                         ": the URI's path is not made of plain, non-empty names",
                         visit->column, visit->row);
    if (value->media_type.size > MAX_MEDIA_TYPE_BYTES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "FILE column \"%s\", row %" PRId64
                         ": the media type has %zu bytes; at most %d are allowed",
                         visit->column, visit->row, value->media_type.size, MAX_MEDIA_TYPE_BYTES);
    return visit->rule->found == NULL ? LAKE_OK
                                      : visit->rule->found(visit->rule->context, value->uri, err);
}

/* The slots of `array`'s first child that belong to slot `slot` of a list. */
static void list_range(const struct ArrowSchema *field, const struct ArrowArray *array,
                       int64_t slot, int64_t *first, int64_t *end)
{
    if (strcmp(field->format, "+l") == 0) {
        const int32_t *offsets = array->buffers[1];
        *first = offsets[slot];
        *end = offsets[slot + 1];
    } else if (strcmp(field->format, "+L") == 0) {
        const int64_t *offsets = array->buffers[1];
        *first = offsets[slot];
        *end = offsets[slot + 1];
    } else {
        uint64_t width = 0;
        (void)base_str_to_u64(base_str_of(field->format + 3), &width);
        *first = slot * (int64_t)width;
        *end = *first + (int64_t)width;
    }
}

/* Value `index` of `array` (counted from its offset) and what is below it. */
static lake_status visit_value(const struct visit *visit, const struct ArrowSchema *field,
                               const struct ArrowArray *array, int64_t index,
                               struct lake_error *err)
{
    int64_t slot = array->offset + index;
    const uint8_t *validity = array->n_buffers > 0 ? array->buffers[0] : NULL;
    if (validity != NULL && array->null_count != 0 && !ArrowBitGet(validity, slot))
        return LAKE_OK;
    if (arrow_file_schema_is(field)) {
        struct arrow_file_value value;
        struct lake_error why = {.code = LAKE_OK};
        lake_status status = arrow_file_value_get(field, array, index, &value, &why);
        if (status != LAKE_OK && visit->rule->stage.size == 0)
            return LAKE_OK;
        if (status != LAKE_OK)
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "FILE column \"%s\", row %" PRId64 ": the value is malformed: %s",
                             visit->column, visit->row, why.message);
        return check_value(visit, &value, err);
    }
    lake_status status = LAKE_OK;
    if (strcmp(field->format, "+s") == 0) {
        for (int64_t i = 0; i < field->n_children && status == LAKE_OK; i++) {
            if (arrow_file_schema_contains(field->children[i]))
                status = visit_value(visit, field->children[i], array->children[i], slot, err);
        }
        return status;
    }
    int64_t first;
    int64_t end;
    list_range(field, array, slot, &first, &end);
    for (int64_t i = first; i < end && status == LAKE_OK; i++)
        status = visit_value(visit, field->children[0], array->children[0], i, err);
    return status;
}

lake_status arrow_file_values_check(const struct ArrowSchema *schema,
                                    const struct ArrowArray *batch,
                                    const struct arrow_file_rule *rule, struct lake_error *err)
{
    struct visit visit = {.rule = rule};
    lake_status status = LAKE_OK;
    for (int64_t column = 0; column < schema->n_children && status == LAKE_OK; column++) {
        const struct ArrowSchema *field = schema->children[column];
        if (!arrow_file_schema_contains(field))
            continue;
        visit.column = arrow_field_name(field);
        for (int64_t row = 0; row < batch->length && status == LAKE_OK; row++) {
            visit.row = rule->first_row + row;
            status = visit_value(&visit, field, batch->children[column], batch->offset + row, err);
        }
    }
    return status;
}
