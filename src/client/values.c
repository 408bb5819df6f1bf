/* Typed values into columns: first every check, then, when all rows are good, the building. */
#include "client_internal.h"

#include <math.h>
#include <string.h>

bool client_value_is_file(const struct lake_value *value)
{
    return value->kind == LAKE_VALUE_FILE_PATH || value->kind == LAKE_VALUE_FILE_SOURCE;
}

static const char *kind_name(enum lake_value_kind kind)
{
    static const char *const names[] = {"null",  "bool", "int64", "double", "text",
                                        "bytes", "list", "file",  "file",   "location"};
    return (size_t)kind < BASE_ARRAY_LEN(names) ? names[kind] : "unknown";
}

static lake_status does_not_fit(const struct ArrowSchema *field, const struct lake_value *value,
                                struct lake_error *err)
{
    struct base_buffer type;
    base_buffer_init(&type, 4096);
    (void)arrow_type_format(field, &type, NULL);
    lake_status status =
        lake_fail(err, LAKE_INVALID_ARGUMENT, "a %s value does not fit a column of type %.*s",
                  kind_name(value->kind), (int)type.size, (const char *)type.data);
    base_buffer_fini(&type);
    return status;
}

/* The integers that a type holds; false for a type that holds none. */
static bool integer_range(enum ArrowType type, int64_t *min, int64_t *max)
{
    switch (type) {
    case NANOARROW_TYPE_INT8:
        *min = INT8_MIN, *max = INT8_MAX;
        return true;
    case NANOARROW_TYPE_UINT8:
        *min = 0, *max = UINT8_MAX;
        return true;
    case NANOARROW_TYPE_INT16:
        *min = INT16_MIN, *max = INT16_MAX;
        return true;
    case NANOARROW_TYPE_UINT16:
        *min = 0, *max = UINT16_MAX;
        return true;
    case NANOARROW_TYPE_INT32:
    case NANOARROW_TYPE_DATE32:
    case NANOARROW_TYPE_TIME32:
        *min = INT32_MIN, *max = INT32_MAX;
        return true;
    case NANOARROW_TYPE_UINT32:
        *min = 0, *max = UINT32_MAX;
        return true;
    case NANOARROW_TYPE_UINT64:
        *min = 0, *max = INT64_MAX;
        return true;
    case NANOARROW_TYPE_INT64:
    case NANOARROW_TYPE_DATE64:
    case NANOARROW_TYPE_TIME64:
    case NANOARROW_TYPE_TIMESTAMP:
    case NANOARROW_TYPE_DURATION:
        *min = INT64_MIN, *max = INT64_MAX;
        return true;
    default:
        return false;
    }
}

/* A time of day is within one day, in the column's own unit. */
static void within_a_day(const struct ArrowSchemaView *view, int64_t *min, int64_t *max)
{
    static const int64_t units_a_second[] = {1, 1000, 1000000, 1000000000};
    if (view->type != NANOARROW_TYPE_TIME32 && view->type != NANOARROW_TYPE_TIME64)
        return;
    *min = 0;
    *max = 86400 * units_a_second[view->time_unit] - 1;
}

static bool is_float(enum ArrowType type)
{
    return type == NANOARROW_TYPE_HALF_FLOAT || type == NANOARROW_TYPE_FLOAT ||
           type == NANOARROW_TYPE_DOUBLE;
}

static bool is_text(enum ArrowType type)
{
    return type == NANOARROW_TYPE_STRING || type == NANOARROW_TYPE_LARGE_STRING;
}

static bool is_binary(enum ArrowType type)
{
    return type == NANOARROW_TYPE_BINARY || type == NANOARROW_TYPE_LARGE_BINARY ||
           type == NANOARROW_TYPE_FIXED_SIZE_BINARY;
}

static lake_status check_integer(const struct ArrowSchema *field,
                                 const struct ArrowSchemaView *view, const struct lake_value *value,
                                 struct lake_error *err)
{
    int64_t min, max;
    if (!integer_range(view->type, &min, &max))
        return does_not_fit(field, value, err);
    within_a_day(view, &min, &max);
    if (value->as.int64 < min || value->as.int64 > max)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "%lld is outside [%lld, %lld]",
                         (long long)value->as.int64, (long long)min, (long long)max);
    return LAKE_OK;
}

#define HALF_OVERFLOW 65520.0 /* halfway between the largest half float and the next power */

/* A number may lose digits in a narrower column, but not become infinite there. */
static lake_status check_number(enum ArrowType type, double number, struct lake_error *err)
{
    bool fits =
        !isfinite(number) || type == NANOARROW_TYPE_DOUBLE ||
        (type == NANOARROW_TYPE_FLOAT ? isfinite((float)number) : fabs(number) < HALF_OVERFLOW);
    if (fits)
        return LAKE_OK;
    return lake_fail(err, LAKE_INVALID_ARGUMENT, "%g is too large for a column of %s", number,
                     ArrowTypeString(type));
}

static lake_status no_data(size_t size, struct lake_error *err)
{
    return lake_fail(err, LAKE_INVALID_ARGUMENT, "the value says %zu but points to nothing", size);
}

static lake_status check_list(const struct ArrowSchema *field, const struct ArrowSchemaView *view,
                              const struct lake_value *value, struct lake_error *err)
{
    struct ArrowSchemaView item;
    bool list = view->type == NANOARROW_TYPE_LIST || view->type == NANOARROW_TYPE_LARGE_LIST ||
                view->type == NANOARROW_TYPE_FIXED_SIZE_LIST;
    if (!list || ArrowSchemaViewInit(&item, field->children[0], NULL) != NANOARROW_OK ||
        !is_float(item.type))
        return does_not_fit(field, value, err);
    if (view->type == NANOARROW_TYPE_FIXED_SIZE_LIST &&
        value->as.floats.count != (size_t)view->fixed_size)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the list has %zu numbers, the column's lists have %d",
                         value->as.floats.count, view->fixed_size);
    if (value->as.floats.count > 0 && value->as.floats.data == NULL)
        return no_data(value->as.floats.count, err);
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < value->as.floats.count && status == LAKE_OK; i++)
        status = check_number(item.type, value->as.floats.data[i], err);
    return status;
}

static lake_status check_bytes(const struct ArrowSchema *field, const struct ArrowSchemaView *view,
                               const struct lake_value *value, struct lake_error *err)
{
    if (!is_binary(view->type))
        return does_not_fit(field, value, err);
    if (view->type == NANOARROW_TYPE_FIXED_SIZE_BINARY &&
        value->as.bytes.size != (size_t)view->fixed_size)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the value has %zu bytes, the column's values have %d",
                         value->as.bytes.size, view->fixed_size);
    return value->as.bytes.size > 0 && value->as.bytes.data == NULL
               ? no_data(value->as.bytes.size, err)
               : LAKE_OK;
}

static lake_status check_text(const struct ArrowSchema *field, const struct ArrowSchemaView *view,
                              const struct lake_value *value, struct lake_error *err)
{
    if (!is_text(view->type))
        return does_not_fit(field, value, err);
    if (value->as.text.size > 0 && value->as.text.data == NULL)
        return no_data(value->as.text.size, err);
    if (!base_utf8_valid((struct lake_str){value->as.text.data, value->as.text.size}))
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the text is not valid UTF-8");
    return LAKE_OK;
}

static lake_status check_file(const struct ArrowSchema *field, const struct lake_value *value,
                              struct lake_error *err)
{
    if (!arrow_file_schema_is(field))
        return does_not_fit(field, value, err);
    switch (value->kind) {
    case LAKE_VALUE_FILE_PATH:
        if (value->as.file_path.path == NULL)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "the file has no path");
        return client_media_type_check(value->as.file_path.media_type, err);
    case LAKE_VALUE_FILE_SOURCE:
        if (value->as.file_source.source.read == NULL)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "the source has no read function");
        return client_media_type_check(value->as.file_source.media_type, err);
    default:
        if (value->as.location == NULL)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "there is no location");
        return client_location_check(value->as.location, err);
    }
}

lake_status client_value_check(const struct ArrowSchema *field, const struct lake_value *value,
                               struct lake_error *err)
{
    struct ArrowSchemaView view;
    if (ArrowSchemaViewInit(&view, field, NULL) != NANOARROW_OK)
        return lake_fail(err, LAKE_INTERNAL, "the table's schema cannot be read");
    switch (value->kind) {
    case LAKE_VALUE_NULL:
        if ((field->flags & ARROW_FLAG_NULLABLE) == 0)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "the column takes no nulls");
        return LAKE_OK;
    case LAKE_VALUE_BOOL:
        return view.type == NANOARROW_TYPE_BOOL ? LAKE_OK : does_not_fit(field, value, err);
    case LAKE_VALUE_INT64:
        return check_integer(field, &view, value, err);
    case LAKE_VALUE_DOUBLE:
        return is_float(view.type) ? check_number(view.type, value->as.float64, err)
                                   : does_not_fit(field, value, err);
    case LAKE_VALUE_TEXT:
        return check_text(field, &view, value, err);
    case LAKE_VALUE_BYTES:
        return check_bytes(field, &view, value, err);
    case LAKE_VALUE_FLOAT_LIST:
        return check_list(field, &view, value, err);
    case LAKE_VALUE_FILE_PATH:
    case LAKE_VALUE_FILE_SOURCE:
    case LAKE_VALUE_LOCATION:
        return check_file(field, value, err);
    }
    return lake_fail(err, LAKE_INVALID_ARGUMENT, "%d is no kind of value", (int)value->kind);
}

/* What a value adds to what the caller gives beside the bytes of its files (SDK-3). */
uint64_t client_value_bytes(const struct lake_value *value)
{
    switch (value->kind) {
    case LAKE_VALUE_TEXT:
        return value->as.text.size;
    case LAKE_VALUE_BYTES:
        return value->as.bytes.size;
    case LAKE_VALUE_FLOAT_LIST:
        return (uint64_t)value->as.floats.count * sizeof(double);
    case LAKE_VALUE_FILE_PATH:
        return strlen(value->as.file_path.path) + base_str_of(value->as.file_path.media_type).size;
    case LAKE_VALUE_FILE_SOURCE:
        return base_str_of(value->as.file_source.media_type).size;
    case LAKE_VALUE_LOCATION:
        return strlen(value->as.location->uri) + base_str_of(value->as.location->media_type).size;
    case LAKE_VALUE_NULL:
    case LAKE_VALUE_BOOL:
    case LAKE_VALUE_INT64:
    case LAKE_VALUE_DOUBLE:
        return 0;
    }
    return 0;
}

/* ---- building ---- */

static int append_floats(struct ArrowArray *column, const struct lake_value *value)
{
    int failed = 0;
    for (size_t i = 0; i < value->as.floats.count && !failed; i++)
        failed = ArrowArrayAppendDouble(column->children[0], value->as.floats.data[i]);
    return failed != 0 ? failed : ArrowArrayFinishElement(column);
}

static lake_status append_location(struct ArrowArray *column,
                                   const struct lake_data_location *location,
                                   struct lake_error *err)
{
    struct arrow_file_value file = {
        .uri = base_str_of(location->uri),
        .media_type = base_str_of(location->media_type),
        .size_bytes = location->size_bytes,
        .sha256_hex = base_str_of(location->sha256_hex),
    };
    return arrow_file_value_append(column, &file, err);
}

lake_status client_value_append(const struct ArrowSchema *field, struct ArrowArray *column,
                                const struct lake_value *value,
                                const struct lake_data_location *location, struct lake_error *err)
{
    int failed = 0;
    (void)field;
    switch (value->kind) {
    case LAKE_VALUE_NULL:
        failed = ArrowArrayAppendNull(column, 1);
        break;
    case LAKE_VALUE_BOOL:
        failed = ArrowArrayAppendInt(column, value->as.boolean);
        break;
    case LAKE_VALUE_INT64:
        failed = ArrowArrayAppendInt(column, value->as.int64);
        break;
    case LAKE_VALUE_DOUBLE:
        failed = ArrowArrayAppendDouble(column, value->as.float64);
        break;
    case LAKE_VALUE_TEXT:
        failed = ArrowArrayAppendString(
            column, (struct ArrowStringView){value->as.text.data, (int64_t)value->as.text.size});
        break;
    case LAKE_VALUE_BYTES:
        failed = ArrowArrayAppendBytes(
            column, (struct ArrowBufferView){.data.as_uint8 = value->as.bytes.data,
                                             .size_bytes = (int64_t)value->as.bytes.size});
        break;
    case LAKE_VALUE_FLOAT_LIST:
        failed = append_floats(column, value);
        break;
    default:
        return append_location(column, location, err);
    }
    return failed == 0 ? LAKE_OK : base_fail_no_memory(err, 64);
}
