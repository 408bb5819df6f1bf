/* One Arrow value as text for people, or as JSON for machines. */
#include "cli_internal.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_DEPTH 64

static lake_status put(struct base_buffer *out, const char *text, struct lake_error *err)
{
    return base_buffer_append(out, text, strlen(text), err);
}

/* ---- scalars ---- */

/* The fewest digits that read back as the same number, as "d.ddde±xx". Reading leaves errno behind,
 * which is still to say why an earlier write failed. */
static void shortest(char text[40], double value, bool single)
{
    int before = errno;
    bool found = false;
    bool tiny = fabs(value) < (single ? (double)FLT_MIN : DBL_MIN);
    for (int digits = tiny ? 1 : single ? 6 : 15; digits <= 17 && !found; digits++) {
        snprintf(text, 40, "%.*e", digits - 1, value);
        found = single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value;
    }
    errno = before;
}

/* As the engine and Python write it: plain from 1e-4 up to 1e16, else with an exponent. */
static lake_status put_double(struct base_buffer *out, double value, bool single, bool json,
                              struct lake_error *err)
{
    char text[40];
    if (!isfinite(value))
        return put(out, json ? "null" : isnan(value) ? "nan" : value > 0 ? "inf" : "-inf", err);
    shortest(text, value, single);
    char *mark = strchr(text, 'e');
    int exponent = (int)strtol(mark + 1, NULL, 10);
    *mark = '\0';
    char digits[24];
    int count = 0;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p >= '0' && *p <= '9')
            digits[count++] = *p;
    }
    while (count > 1 && digits[count - 1] == '0')
        count--;
    const char *sign = text[0] == '-' ? "-" : "";
    if (exponent < -4 || exponent >= 16)
        return base_buffer_printf(out, err, "%s%c%s%.*se%c%02d", sign, digits[0],
                                  count > 1 ? "." : "", count - 1, digits + 1,
                                  exponent < 0 ? '-' : '+', abs(exponent));
    if (exponent < 0)
        return base_buffer_printf(out, err, "%s0.%.*s%.*s", sign, -exponent - 1, "000", count,
                                  digits);
    int whole = exponent + 1;
    if (count > whole)
        return base_buffer_printf(out, err, "%s%.*s.%.*s", sign, whole, digits, count - whole,
                                  digits + whole);
    return base_buffer_printf(out, err, "%s%.*s%.*s%s", sign, count, digits, whole - count,
                              "0000000000000000", json ? "" : ".0");
}

static int64_t units_per_second(enum ArrowTimeUnit unit)
{
    switch (unit) {
    case NANOARROW_TIME_UNIT_SECOND:
        return 1;
    case NANOARROW_TIME_UNIT_MILLI:
        return 1000;
    case NANOARROW_TIME_UNIT_MICRO:
        return 1000000;
    default:
        return 1000000000;
    }
}

static int fraction_digits(enum ArrowTimeUnit unit)
{
    return unit == NANOARROW_TIME_UNIT_SECOND  ? 0
           : unit == NANOARROW_TIME_UNIT_MILLI ? 3
           : unit == NANOARROW_TIME_UNIT_MICRO ? 6
                                               : 9;
}

/* Seconds since 1970 as a date, and with `time` as a date and time, as the engine writes them. */
static lake_status put_moment(struct base_buffer *out, int64_t seconds, bool with_time,
                              struct lake_error *err)
{
    struct tm parts;
    time_t moment = (time_t)seconds;
    if (gmtime_r(&moment, &parts) == NULL)
        return base_buffer_printf(out, err, "%" PRId64 "s", seconds);
    int year = parts.tm_year + 1900;
    lake_status status =
        base_buffer_printf(out, err, "%04d-%02d-%02d%s", year > 0 ? year : 1 - year,
                           parts.tm_mon + 1, parts.tm_mday, year > 0 ? "" : " (BC)");
    if (status == LAKE_OK && with_time)
        status = base_buffer_printf(out, err, " %02d:%02d:%02d", parts.tm_hour, parts.tm_min,
                                    parts.tm_sec);
    return status;
}

static lake_status put_fraction(struct base_buffer *out, int64_t fraction, enum ArrowTimeUnit unit,
                                struct lake_error *err)
{
    int digits = fraction_digits(unit);
    if (fraction == 0)
        return LAKE_OK;
    while (fraction % 10 == 0) { /* as the engine does */
        fraction /= 10;
        digits--;
    }
    return base_buffer_printf(out, err, ".%0*" PRId64, digits, fraction);
}

static lake_status put_timestamp(struct base_buffer *out, const struct ArrowSchemaView *type,
                                 int64_t value, struct lake_error *err)
{
    int64_t scale = units_per_second(type->time_unit);
    int64_t seconds = value / scale - (value % scale < 0);
    lake_status status = put_moment(out, seconds, true, err);
    if (status == LAKE_OK)
        status = put_fraction(out, value - seconds * scale, type->time_unit, err);
    if (status == LAKE_OK && type->timezone != NULL && type->timezone[0] != '\0')
        status = put(out, "+00", err);
    return status;
}

static lake_status put_time(struct base_buffer *out, const struct ArrowSchemaView *type,
                            int64_t value, struct lake_error *err)
{
    int64_t scale = units_per_second(type->time_unit);
    int64_t seconds = value / scale;
    lake_status status = base_buffer_printf(out, err, "%02" PRId64 ":%02" PRId64 ":%02" PRId64,
                                            seconds / 3600, seconds / 60 % 60, seconds % 60);
    return status == LAKE_OK ? put_fraction(out, value % scale, type->time_unit, err) : status;
}

static lake_status put_duration(struct base_buffer *out, const struct ArrowSchemaView *type,
                                int64_t value, struct lake_error *err)
{
    static const char *const units[] = {"s", "ms", "us", "ns"};
    return base_buffer_printf(out, err, "%" PRId64 "%s", value, units[type->time_unit]);
}

/* As the engine writes an interval: "1 year 2 months 3 days 04:05:06.7". */
static lake_status put_interval(struct base_buffer *out, const struct ArrowInterval *value,
                                struct lake_error *err)
{
    const struct {
        int64_t count;
        const char *unit;
    } parts[] = {{value->months / 12, "year"}, {value->months % 12, "month"}, {value->days, "day"}};
    const char *space = "";
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < BASE_ARRAY_LEN(parts) && status == LAKE_OK; i++) {
        if (parts[i].count == 0)
            continue;
        status =
            base_buffer_printf(out, err, "%s%" PRId64 " %s%s", space, parts[i].count, parts[i].unit,
                               parts[i].count == 1 || parts[i].count == -1 ? "" : "s");
        space = " ";
    }
    if (status != LAKE_OK || (value->ns == 0 && *space != '\0'))
        return status;
    uint64_t ns = value->ns < 0 ? 0 - (uint64_t)value->ns : (uint64_t)value->ns;
    uint64_t seconds = ns / 1000000000;
    status = base_buffer_printf(out, err, "%s%s%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64, space,
                                value->ns < 0 ? "-" : "", seconds / 3600, seconds / 60 % 60,
                                seconds % 60);
    return status == LAKE_OK
               ? put_fraction(out, (int64_t)(ns % 1000000000), NANOARROW_TIME_UNIT_NANO, err)
               : status;
}

static lake_status put_hex(struct base_buffer *out, struct ArrowBufferView bytes,
                           struct lake_error *err)
{
    lake_status status = base_buffer_reserve(out, (size_t)bytes.size_bytes * 2 + 1, err);
    if (status != LAKE_OK)
        return status;
    base_hex_encode((struct lake_bytes){bytes.data.as_uint8, (size_t)bytes.size_bytes},
                    (char *)out->data + out->size);
    out->size += (size_t)bytes.size_bytes * 2;
    return LAKE_OK;
}

static lake_status put_decimal(struct base_buffer *out, const struct ArrowArrayView *view,
                               const struct ArrowSchemaView *type, int64_t row,
                               struct lake_error *err)
{
    struct ArrowDecimal decimal;
    struct ArrowBuffer digits;
    ArrowDecimalInit(&decimal, type->decimal_bitwidth, type->decimal_precision,
                     type->decimal_scale);
    ArrowArrayViewGetDecimalUnsafe(view, row, &decimal);
    ArrowBufferInit(&digits);
    lake_status status = LAKE_OK;
    if (ArrowDecimalAppendStringToBuffer(&decimal, &digits) != NANOARROW_OK)
        status = base_fail_no_memory(err, 64);
    else
        status = base_buffer_append(out, digits.data, (size_t)digits.size_bytes, err);
    ArrowBufferReset(&digits);
    return status;
}

/* Text, quoted where JSON or a nested value wants quotes. */
static lake_status put_string(struct base_buffer *out, const struct ArrowArrayView *view,
                              int64_t row, bool quoted, struct lake_error *err)
{
    struct ArrowStringView text = ArrowArrayViewGetStringUnsafe(view, row);
    struct lake_str str = {text.data, (size_t)text.size_bytes};
    return quoted ? base_json_append_string(out, str, err)
                  : base_buffer_append(out, str.data, str.size, err);
}

/* ---- dispatch ---- */

struct style {
    bool json;
    bool quoted; /* strings: inside JSON and inside nested values */
};

static lake_status put_value(const struct ArrowSchema *schema, const struct ArrowArrayView *view,
                             int64_t row, struct style style, int depth, struct base_buffer *out,
                             struct lake_error *err);

static lake_status put_list(const struct ArrowSchema *schema, const struct ArrowArrayView *view,
                            int64_t from, int64_t to, struct style style, int depth,
                            struct base_buffer *out, struct lake_error *err)
{
    lake_status status = put(out, "[", err);
    for (int64_t i = from; i < to && status == LAKE_OK; i++) {
        if (i > from)
            status = put(out, style.json ? "," : ", ", err);
        if (status == LAKE_OK)
            status = put_value(schema->children[0], view->children[0], i, style, depth, out, err);
    }
    return status == LAKE_OK ? put(out, "]", err) : status;
}

static lake_status put_struct(const struct ArrowSchema *schema, const struct ArrowArrayView *view,
                              int64_t row, struct style style, int depth, struct base_buffer *out,
                              struct lake_error *err)
{
    lake_status status = put(out, "{", err);
    for (int64_t i = 0; i < schema->n_children && status == LAKE_OK; i++) {
        const char *name = schema->children[i]->name;
        if (i > 0)
            status = put(out, style.json ? "," : ", ", err);
        if (status == LAKE_OK)
            status = style.json ? base_json_append_string(out, base_str_of(name), err)
                                : put(out, name, err);
        if (status == LAKE_OK)
            status = put(out, style.json ? ":" : ": ", err);
        if (status == LAKE_OK)
            status = put_value(schema->children[i], view->children[i], view->offset + row, style,
                               depth, out, err);
    }
    return status == LAKE_OK ? put(out, "}", err) : status;
}

/* For people a FILE is what it is and how large; its URI is for machines. */
static lake_status put_file(const struct ArrowArrayView *view, int64_t row, struct base_buffer *out,
                            struct lake_error *err)
{
    int64_t at = view->offset + row;
    struct ArrowStringView media_type = ArrowArrayViewGetStringUnsafe(view->children[1], at);
    double size = (double)ArrowArrayViewGetIntUnsafe(view->children[2], at);
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    size_t unit = 0;
    while (size >= 1000 && unit + 1 < BASE_ARRAY_LEN(units)) {
        size /= 1000;
        unit++;
    }
    return base_buffer_printf(out, err, "%.*s %.*f %s", (int)media_type.size_bytes, media_type.data,
                              unit == 0 ? 0 : 1, size, units[unit]);
}

static lake_status put_quoted(struct base_buffer *out, bool quoted, size_t from,
                              struct lake_error *err)
{
    if (!quoted)
        return LAKE_OK;
    /* The text since `from` holds nothing that JSON must escape. */
    lake_status status = base_buffer_append(out, "\"\"", 2, err);
    if (status == LAKE_OK) {
        memmove(out->data + from + 1, out->data + from, out->size - from - 2);
        out->data[from] = '"';
    }
    return status;
}

static lake_status put_temporal(const struct ArrowArrayView *view,
                                const struct ArrowSchemaView *type, int64_t row, struct style style,
                                struct base_buffer *out, struct lake_error *err)
{
    size_t from = out->size;
    int64_t value = ArrowArrayViewGetIntUnsafe(view, row);
    lake_status status;
    switch (type->type) {
    case NANOARROW_TYPE_DATE32:
        status = put_moment(out, value * 86400, false, err);
        break;
    case NANOARROW_TYPE_DATE64:
        status = put_moment(out, value / 1000 - (value % 1000 < 0), false, err);
        break;
    case NANOARROW_TYPE_TIMESTAMP:
        status = put_timestamp(out, type, value, err);
        break;
    case NANOARROW_TYPE_DURATION:
        status = put_duration(out, type, value, err);
        break;
    default:
        status = put_time(out, type, value, err);
        break;
    }
    return status == LAKE_OK ? put_quoted(out, style.json, from, err) : status;
}

static lake_status put_plain(const struct ArrowSchema *schema, const struct ArrowArrayView *view,
                             const struct ArrowSchemaView *type, int64_t row, struct style style,
                             int depth, struct base_buffer *out, struct lake_error *err)
{
    size_t from = out->size;
    lake_status status;
    switch (type->type) {
    case NANOARROW_TYPE_NA:
        return put(out, style.json ? "null" : "NULL", err);
    case NANOARROW_TYPE_BOOL:
        return put(out, ArrowArrayViewGetIntUnsafe(view, row) ? "true" : "false", err);
    case NANOARROW_TYPE_UINT64:
        return base_buffer_printf(out, err, "%" PRIu64, ArrowArrayViewGetUIntUnsafe(view, row));
    case NANOARROW_TYPE_HALF_FLOAT:
    case NANOARROW_TYPE_FLOAT:
    case NANOARROW_TYPE_DOUBLE:
        return put_double(out, ArrowArrayViewGetDoubleUnsafe(view, row),
                          type->type != NANOARROW_TYPE_DOUBLE, style.json, err);
    case NANOARROW_TYPE_STRING:
    case NANOARROW_TYPE_LARGE_STRING:
    case NANOARROW_TYPE_STRING_VIEW:
        return put_string(out, view, row, style.quoted, err);
    case NANOARROW_TYPE_BINARY:
    case NANOARROW_TYPE_LARGE_BINARY:
    case NANOARROW_TYPE_BINARY_VIEW:
    case NANOARROW_TYPE_FIXED_SIZE_BINARY:
        status = put_hex(out, ArrowArrayViewGetBytesUnsafe(view, row), err);
        return status == LAKE_OK ? put_quoted(out, style.json, from, err) : status;
    case NANOARROW_TYPE_DECIMAL32:
    case NANOARROW_TYPE_DECIMAL64:
    case NANOARROW_TYPE_DECIMAL128:
    case NANOARROW_TYPE_DECIMAL256:
        return put_decimal(out, view, type, row, err);
    case NANOARROW_TYPE_DATE32:
    case NANOARROW_TYPE_DATE64:
    case NANOARROW_TYPE_TIME32:
    case NANOARROW_TYPE_TIME64:
    case NANOARROW_TYPE_TIMESTAMP:
    case NANOARROW_TYPE_DURATION:
        return put_temporal(view, type, row, style, out, err);
    case NANOARROW_TYPE_INTERVAL_MONTH_DAY_NANO: {
        struct ArrowInterval interval;
        ArrowIntervalInit(&interval, type->type);
        ArrowArrayViewGetIntervalUnsafe(view, row, &interval);
        status = put_interval(out, &interval, err);
        return status == LAKE_OK ? put_quoted(out, style.json, from, err) : status;
    }
    case NANOARROW_TYPE_LIST:
    case NANOARROW_TYPE_LARGE_LIST:
    case NANOARROW_TYPE_MAP:
        return put_list(schema, view, ArrowArrayViewListChildOffset(view, row),
                        ArrowArrayViewListChildOffset(view, row + 1), style, depth, out, err);
    case NANOARROW_TYPE_FIXED_SIZE_LIST:
        return put_list(schema, view, (view->offset + row) * type->fixed_size,
                        (view->offset + row + 1) * type->fixed_size, style, depth, out, err);
    case NANOARROW_TYPE_STRUCT:
        if (!style.json && arrow_file_schema_is(schema))
            return put_file(view, row, out, err);
        return put_struct(schema, view, row, style, depth, out, err);
    case NANOARROW_TYPE_INT8:
    case NANOARROW_TYPE_UINT8:
    case NANOARROW_TYPE_INT16:
    case NANOARROW_TYPE_UINT16:
    case NANOARROW_TYPE_INT32:
    case NANOARROW_TYPE_UINT32:
    case NANOARROW_TYPE_INT64:
        return base_buffer_printf(out, err, "%" PRId64, ArrowArrayViewGetIntUnsafe(view, row));
    default:
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "a column of Arrow format '%s' cannot be printed: "
                         "use --format arrow",
                         schema->format);
    }
}

static lake_status put_value(const struct ArrowSchema *schema, const struct ArrowArrayView *view,
                             int64_t row, struct style style, int depth, struct base_buffer *out,
                             struct lake_error *err)
{
    struct ArrowSchemaView type;
    if (depth > MAX_DEPTH || ArrowSchemaViewInit(&type, schema, NULL) != NANOARROW_OK)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the result nests too deeply to be printed");
    if (ArrowArrayViewIsNull(view, row))
        return put(out, style.json ? "null" : style.quoted ? "NULL" : "", err);
    if (view->dictionary != NULL)
        return put_value(schema->dictionary, view->dictionary,
                         ArrowArrayViewGetIntUnsafe(view, row), style, depth + 1, out, err);
    bool nested = schema->n_children > 0;
    struct style inner = {style.json, style.quoted || nested};
    return put_plain(schema, view, &type, row, inner, depth + 1, out, err);
}

lake_status cli_value_text(const struct ArrowSchema *schema, const struct ArrowArrayView *view,
                           int64_t row, struct base_buffer *out, struct lake_error *err)
{
    return put_value(schema, view, row, (struct style){false, false}, 0, out, err);
}

lake_status cli_value_json(const struct ArrowSchema *schema, const struct ArrowArrayView *view,
                           int64_t row, struct base_buffer *out, struct lake_error *err)
{
    return put_value(schema, view, row, (struct style){true, true}, 0, out, err);
}
