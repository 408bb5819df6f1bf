/*
 * Which types a table's columns may have: those that SQL answers with every value (docs/types.md)
 * and that other readers of Lance take. A table that could be filled and not be read is never made.
 */
#include "meta_internal.h"

#include <stdio.h>
#include <string.h>

#define MAX_PATH_BYTES     512
#define MAX_LIST_ITEMS     100000                /* of the engine's arrays */
#define MAX_LIST_BYTES     (UINT64_C(4) << 20)   /* it holds 2,048 of them at once */
#define MAX_BINARY_BYTES   META_APPEND_MAX_BYTES /* a row comes in one append */
#define MAX_DECIMAL_DIGITS 38

struct place {
    const char *path; /* "state.items" */
    const struct ArrowSchema *field;
    struct lake_error *err;
};

static lake_status refuse(const struct place *place, const char *why)
{
    struct base_buffer type;
    base_buffer_init(&type, (size_t)1 << 16);
    bool named = arrow_type_format(place->field, &type, NULL) == LAKE_OK;
    lake_status status =
        lake_fail(place->err, LAKE_INVALID_ARGUMENT, "column %s cannot be of type %.*s: %s",
                  place->path, named ? (int)BASE_MIN(type.size, (size_t)200) : 1,
                  named ? (const char *)type.data : "?", why);
    base_buffer_fini(&type);
    return status;
}

static lake_status check_dictionary(const struct place *place)
{
    static const char VALUES[] = "uUzZcCsSiIlLefg";
    const char *format = place->field->dictionary->format;
    if (strlen(format) != 1 || strchr(VALUES, format[0]) == NULL)
        return refuse(place, "the values of a dictionary are utf8, large_utf8, binary, "
                             "large_binary, integers or floats");
    return LAKE_OK;
}

static lake_status check_decimal(const struct place *place, const struct ArrowSchemaView *view)
{
    if (view->type != NANOARROW_TYPE_DECIMAL128 || view->decimal_precision > MAX_DECIMAL_DIGITS ||
        view->decimal_scale < 0 || view->decimal_scale > view->decimal_precision)
        return refuse(place,
                      "SQL's decimals are decimal128 with a precision of 1 to 38 and a scale "
                      "of 0 to that precision, such as decimal(38, 10)");
    return LAKE_OK;
}

/* What a value takes, as the engine and Lance hold it: side by side. */
static lake_status check_fixed_size_list(const struct place *place)
{
    struct ArrowSchemaView view;
    uint64_t bytes = 1;
    const struct ArrowSchema *field = place->field;
    for (; ArrowSchemaViewInit(&view, field, NULL) == NANOARROW_OK &&
           view.type == NANOARROW_TYPE_FIXED_SIZE_LIST;
         field = field->children[0]) {
        if (view.fixed_size > MAX_LIST_ITEMS ||
            !base_u64_mul(bytes, (uint64_t)view.fixed_size, &bytes))
            return refuse(place, "a list of a fixed size has at most 100000 items: use list<T>");
    }
    uint64_t bits = (uint64_t)view.layout.element_size_bits[1];
    if (field->dictionary != NULL || field->n_children > 0 || bits == 0 ||
        view.layout.buffer_type[2] != NANOARROW_BUFFER_TYPE_NONE)
        return refuse(place, "a list of a fixed size holds numbers, bools, times, decimals, "
                             "fixed_size_binary or lists of a fixed size: use list<T>");
    if (!base_u64_mul(bytes, (bits + 7) / 8, &bytes) || bytes > MAX_LIST_BYTES)
        return refuse(place, "a list of a fixed size has at most 4 MiB a value: use list<T>");
    return LAKE_OK;
}

static lake_status check_type(const struct place *place)
{
    struct ArrowSchemaView view;
    if (ArrowSchemaViewInit(&view, place->field, NULL) != NANOARROW_OK)
        return refuse(place, "this is no type of Arrow's");
    switch (view.type) {
    case NANOARROW_TYPE_DICTIONARY:
        return check_dictionary(place);
    case NANOARROW_TYPE_DECIMAL32:
    case NANOARROW_TYPE_DECIMAL64:
    case NANOARROW_TYPE_DECIMAL128:
    case NANOARROW_TYPE_DECIMAL256:
        return check_decimal(place, &view);
    case NANOARROW_TYPE_TIMESTAMP:
        return view.timezone == NULL || view.timezone[0] == '\0' ||
                       arrow_time_zone_is_known(view.timezone)
                   ? LAKE_OK
                   : refuse(place, "a time zone is one of IANA's, such as Europe/Paris or UTC, or "
                                   "an offset such as +05:30");
    case NANOARROW_TYPE_FIXED_SIZE_BINARY:
        return (uint64_t)view.fixed_size <= MAX_BINARY_BYTES
                   ? LAKE_OK
                   : refuse(place, "a row has at most 64 MiB: keep larger values in a FILE column");
    case NANOARROW_TYPE_FIXED_SIZE_LIST:
        return check_fixed_size_list(place);
    case NANOARROW_TYPE_STRUCT:
        return place->field->n_children > 0 ? LAKE_OK
                                            : refuse(place, "a struct has at least one field");
    case NANOARROW_TYPE_INTERVAL_MONTHS:
    case NANOARROW_TYPE_INTERVAL_DAY_TIME:
    case NANOARROW_TYPE_INTERVAL_MONTH_DAY_NANO:
        return refuse(place, "Lance has no intervals: use duration[us], or integers");
    case NANOARROW_TYPE_LIST_VIEW:
    case NANOARROW_TYPE_LARGE_LIST_VIEW:
        return refuse(place, "use list<T>, which holds the same values");
    case NANOARROW_TYPE_SPARSE_UNION:
    case NANOARROW_TYPE_DENSE_UNION:
        return refuse(place, "Lance has no unions: use a struct with a field for each type");
    case NANOARROW_TYPE_RUN_END_ENCODED:
        return refuse(place, "use the type of its values: runs are stored as such anyway");
    default:
        return LAKE_OK; /* lance_schema_check knows the rest */
    }
}

/* Schemas from outside are not deeper than decoding allows. */
static lake_status check_field(const struct place *place)
{
    char path[MAX_PATH_BYTES];
    lake_status status = check_type(place);
    for (int64_t i = 0; i < place->field->n_children && status == LAKE_OK; i++) {
        const struct ArrowSchema *child = place->field->children[i];
        struct place below = {.path = path, .field = child, .err = place->err};
        int length = snprintf(path, sizeof(path), "%.400s.%.100s", place->path,
                              child->name == NULL ? "?" : child->name);
        status = length < 0 ? lake_fail(place->err, LAKE_INTERNAL, "a path cannot be printed")
                            : check_field(&below);
    }
    return status;
}

lake_status meta_column_types_check(const struct ArrowSchema *schema, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (int64_t i = 0; i < schema->n_children && status == LAKE_OK; i++) {
        struct place place = {
            .path = schema->children[i]->name, .field = schema->children[i], .err = err};
        status = check_field(&place);
    }
    return status;
}
