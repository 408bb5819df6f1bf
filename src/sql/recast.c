/*
 * Arrow types that the engine has no type for, made from what it makes of them: large strings and
 * lists, fixed-size binary, half floats, date64, times in seconds and milliseconds, timestamps with
 * a zone in other units than microseconds, durations and dictionaries. Value by value: only such
 * columns pay for it.
 */
#include "sql_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NESTING   64
#define HALF_INFINITY 0x7c00

static bool same_format(const char *wanted, const char *made)
{
    if (strncmp(wanted, "tsu:", 4) == 0 && strncmp(made, "tsu:", 4) == 0) {
        return (wanted[4] == '\0') == (made[4] == '\0'); /* zones only name how to show it */
    }
    size_t length = strlen(wanted);
    if (wanted[0] == 'd' && length > 4 && strcmp(wanted + length - 4, ",128") == 0) {
        return strncmp(wanted, made, length - 4) == 0 && made[length - 4] == '\0';
    }
    return strcmp(wanted, made) == 0;
}

/* True when `made` holds `wanted`'s values in `wanted`'s own layout. */
static bool is_same(const struct ArrowSchema *wanted, const struct ArrowSchema *made)
{
    if (!same_format(wanted->format, made->format) || wanted->n_children != made->n_children ||
        (wanted->dictionary == NULL) != (made->dictionary == NULL)) {
        return false;
    }
    for (int64_t i = 0; i < wanted->n_children; i++) {
        if (!is_same(wanted->children[i], made->children[i])) {
            return false;
        }
    }
    return wanted->dictionary == NULL || is_same(wanted->dictionary, made->dictionary);
}

/* The pairs of wanted and made formats that append_value knows; "*" at the end is any rest. */
static const struct {
    const char *wanted;
    const char *made;
} PAIRS[] = {
    {"U", "u"},     {"Z", "z"},     {"w:*", "z"},       {"e", "f"},         {"tdm", "tdD"},
    {"tts", "ttu"}, {"ttm", "ttu"}, {"tss:*", "tsu:*"}, {"tsm:*", "tsu:*"}, {"tsn:*", "tsu:*"},
    {"tDs", "tin"}, {"tDm", "tin"}, {"tDu", "tin"},     {"tDn", "tin"},
};

static bool matches(const char *pattern, const char *format)
{
    size_t length = strlen(pattern);
    if (pattern[length - 1] == '*') {
        return strncmp(pattern, format, length - 1) == 0;
    }
    return strcmp(pattern, format) == 0;
}

static bool is_list(const char *format)
{
    return strcmp(format, "+l") == 0 || strcmp(format, "+L") == 0;
}

static bool can_recast(const struct ArrowSchema *wanted, const struct ArrowSchema *made, int depth)
{
    if (depth > MAX_NESTING) {
        return false;
    }
    if (is_same(wanted, made)) {
        return true;
    }
    if (made->dictionary != NULL) {
        return false;
    }
    if (wanted->dictionary != NULL) {
        return can_recast(wanted->dictionary, made, depth + 1);
    }
    bool nested = (is_list(wanted->format) && is_list(made->format)) ||
                  (wanted->format[0] == '+' && strcmp(wanted->format, made->format) == 0 &&
                   (wanted->format[1] == 's' || wanted->format[1] == 'w'));
    if (nested && wanted->n_children == made->n_children) {
        for (int64_t i = 0; i < wanted->n_children; i++) {
            if (!can_recast(wanted->children[i], made->children[i], depth + 1)) {
                return false;
            }
        }
        return true;
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(PAIRS); i++) {
        if (matches(PAIRS[i].wanted, wanted->format) && matches(PAIRS[i].made, made->format)) {
            return true;
        }
    }
    return false;
}

static lake_status cannot_recast(const struct ArrowSchema *wanted, const struct ArrowSchema *made,
                                 struct lake_error *err)
{
    struct base_buffer text;
    base_buffer_init(&text, (size_t)1 << 20);
    lake_status status = arrow_type_format(wanted, &text, err);
    size_t size = text.size;
    if (status == LAKE_OK) {
        status = arrow_type_format(made, &text, err);
    }
    if (status == LAKE_OK) {
        status = lake_fail(err, LAKE_UNIMPLEMENTED,
                           "column %s: its type, %.*s, cannot be made of what SQL gives for it, "
                           "%.*s; add such values as Arrow batches",
                           wanted->name, (int)size, (const char *)text.data,
                           (int)(text.size - size), (const char *)text.data + size);
    }
    base_buffer_fini(&text);
    return status;
}

lake_status sql_recast_check(const struct ArrowSchema *wanted, const struct ArrowSchema *made,
                             struct lake_error *err)
{
    for (int64_t i = 0; i < wanted->n_children; i++) {
        if (!can_recast(wanted->children[i], made->children[i], 0)) {
            return cannot_recast(wanted->children[i], made->children[i], err);
        }
    }
    return LAKE_OK;
}

static int64_t floor_divide(int64_t value, int64_t by)
{
    return value / by - (value % by < 0 ? 1 : 0);
}

/* Timestamps of microseconds in the wanted unit; EINVAL for what it cannot hold exactly. */
static int convert_timestamp(const char *wanted, int64_t *value)
{
    switch (wanted[2]) {
    case 's':
        if (*value % 1000000 != 0) {
            return EINVAL;
        }
        *value = floor_divide(*value, 1000000);
        return NANOARROW_OK;
    case 'm':
        if (*value % 1000 != 0) {
            return EINVAL;
        }
        *value = floor_divide(*value, 1000);
        return NANOARROW_OK;
    case 'n':
        return __builtin_mul_overflow(*value, 1000, value) ? EINVAL : NANOARROW_OK;
    default:
        return NANOARROW_OK;
    }
}

static int append_int(const char *wanted, const char *made, int64_t value, struct ArrowArray *out)
{
    int code = NANOARROW_OK;
    if (strcmp(wanted, "tdm") == 0) {
        value *= 86400000;
    } else if (strcmp(wanted, "tts") == 0 || strcmp(wanted, "ttm") == 0) {
        int64_t unit = wanted[2] == 's' ? 1000000 : 1000;
        code = value % unit == 0 ? NANOARROW_OK : EINVAL;
        value /= unit;
    } else if (strncmp(wanted, "ts", 2) == 0 && strncmp(made, "tsu:", 4) == 0) {
        code = convert_timestamp(wanted, &value);
    }
    return code == NANOARROW_OK ? ArrowArrayAppendInt(out, value) : code;
}

static int append_half(double value, struct ArrowArray *out)
{
    struct ArrowBitmap *validity = ArrowArrayValidityBitmap(out);
    uint16_t half = sql_half_of((float)value);
    if ((half & 0x7fff) == HALF_INFINITY && !isinf(value)) {
        return ERANGE;
    }
    int code = ArrowBufferAppendUInt16(ArrowArrayBuffer(out, 1), half);
    if (code == NANOARROW_OK && validity->buffer.data != NULL) {
        code = ArrowBitmapAppend(validity, 1, 1);
    }
    out->length += code == NANOARROW_OK ? 1 : 0;
    return code;
}

/* A day is one of 24 hours, as the engine compares them; a month has no length. */
static int append_duration(const char *wanted, const struct ArrowArrayView *from, int64_t row,
                           struct ArrowArray *out)
{
    struct ArrowInterval interval;
    int64_t value;
    int64_t unit = wanted[2] == 's'   ? 1000000000
                   : wanted[2] == 'm' ? 1000000
                   : wanted[2] == 'u' ? 1000
                                      : 1;
    ArrowIntervalInit(&interval, NANOARROW_TYPE_INTERVAL_MONTH_DAY_NANO);
    ArrowArrayViewGetIntervalUnsafe(from, row, &interval);
    int64_t day = INT64_C(86400000000000) / unit;
    if (interval.months != 0 || interval.ns % unit != 0) {
        return EINVAL;
    }
    if (__builtin_mul_overflow((int64_t)interval.days, day, &value) ||
        __builtin_add_overflow(value, interval.ns / unit, &value)) {
        return ERANGE;
    }
    return ArrowArrayAppendInt(out, value);
}

static int append_value(const struct ArrowSchema *wanted, const struct ArrowSchema *made,
                        const struct ArrowArrayView *from, int64_t row, struct ArrowArray *out);

static int append_children(const struct ArrowSchema *wanted, const struct ArrowSchema *made,
                           const struct ArrowArrayView *from, int64_t row, struct ArrowArray *out)
{
    int64_t first = row;
    int64_t last = row + 1;
    if (is_list(made->format)) {
        first = ArrowArrayViewListChildOffset(from, row);
        last = ArrowArrayViewListChildOffset(from, row + 1);
    } else if (made->format[1] == 'w') {
        first = (from->offset + row) * from->layout.child_size_elements;
        last = first + from->layout.child_size_elements;
    } else {
        first = last = from->offset + row;
        last++;
    }
    for (int64_t i = 0; i < wanted->n_children; i++) {
        for (int64_t at = first; at < last; at++) {
            int code = append_value(wanted->children[i], made->children[i], from->children[i], at,
                                    out->children[i]);
            if (code != NANOARROW_OK) {
                return code;
            }
        }
    }
    return ArrowArrayFinishElement(out);
}

static int append_value(const struct ArrowSchema *wanted, const struct ArrowSchema *made,
                        const struct ArrowArrayView *from, int64_t row, struct ArrowArray *out)
{
    if (ArrowArrayViewIsNull(from, row)) {
        return ArrowArrayAppendNull(out, 1);
    }
    switch (from->storage_type) {
    case NANOARROW_TYPE_STRUCT:
    case NANOARROW_TYPE_LIST:
    case NANOARROW_TYPE_FIXED_SIZE_LIST:
        return append_children(wanted, made, from, row, out);
    case NANOARROW_TYPE_STRING:
        return ArrowArrayAppendString(out, ArrowArrayViewGetStringUnsafe(from, row));
    case NANOARROW_TYPE_BINARY: {
        struct ArrowBufferView bytes = ArrowArrayViewGetBytesUnsafe(from, row);
        if (wanted->format[0] == 'w' && strtoll(wanted->format + 2, NULL, 10) != bytes.size_bytes) {
            return EINVAL;
        }
        return ArrowArrayAppendBytes(out, bytes);
    }
    case NANOARROW_TYPE_FLOAT:
    case NANOARROW_TYPE_DOUBLE:
        if (wanted->format[0] == 'e') {
            return append_half(ArrowArrayViewGetDoubleUnsafe(from, row), out);
        }
        return ArrowArrayAppendDouble(out, ArrowArrayViewGetDoubleUnsafe(from, row));
    case NANOARROW_TYPE_UINT64:
        return ArrowArrayAppendUInt(out, ArrowArrayViewGetUIntUnsafe(from, row));
    case NANOARROW_TYPE_DECIMAL128: {
        struct ArrowDecimal decimal;
        ArrowDecimalInit(&decimal, 128, 38, 0);
        ArrowArrayViewGetDecimalUnsafe(from, row, &decimal);
        return ArrowArrayAppendDecimal(out, &decimal);
    }
    case NANOARROW_TYPE_INTERVAL_MONTH_DAY_NANO:
        return append_duration(wanted->format, from, row, out);
    default:
        return append_int(wanted->format, made->format, ArrowArrayViewGetIntUnsafe(from, row), out);
    }
}

static int recast_column(const struct ArrowSchema *wanted, const struct ArrowSchema *made,
                         const struct ArrowArray *from, struct ArrowArray *out)
{
    struct ArrowArrayView view;
    int code = ArrowArrayViewInitFromSchema(&view, made, NULL);
    if (code == NANOARROW_OK) {
        code = ArrowArrayViewSetArray(&view, from, NULL);
    }
    if (code == NANOARROW_OK) {
        code = ArrowArrayInitFromSchema(out, wanted, NULL);
    }
    if (code == NANOARROW_OK) {
        code = ArrowArrayStartAppending(out);
    }
    for (int64_t row = 0; code == NANOARROW_OK && row < from->length; row++) {
        code = append_value(wanted, made, &view, row, out);
    }
    if (code == NANOARROW_OK) {
        code = ArrowArrayFinishBuildingDefault(out, NULL);
    }
    ArrowArrayViewReset(&view);
    return code;
}

/* The same with dictionaries in `wanted`, which are made of a plain column. */
static int recast_dictionaries(const struct ArrowSchema *wanted, const struct ArrowSchema *made,
                               const struct ArrowArray *from, struct ArrowArray *out)
{
    struct ArrowSchema plain = {.release = NULL};
    int code = ArrowSchemaDeepCopy(wanted, &plain);
    if (code == NANOARROW_OK) {
        code = sql_dictionary_plain_schema(&plain);
    }
    if (code == NANOARROW_OK) {
        code = recast_column(&plain, made, from, out);
    }
    if (code == NANOARROW_OK) {
        code = sql_dictionary_encode(wanted, out);
    }
    if (plain.release != NULL) {
        ArrowSchemaRelease(&plain);
    }
    return code;
}

static lake_status recast_failed(const struct ArrowSchema *wanted, int code, int64_t rows,
                                 struct lake_error *err)
{
    struct base_buffer type;
    if (code == ENOMEM) {
        return base_fail_no_memory(err, (size_t)rows);
    }
    base_buffer_init(&type, (size_t)1 << 20);
    lake_status status = arrow_type_format(wanted, &type, err);
    if (status == LAKE_OK) {
        status =
            lake_fail(err, LAKE_INVALID_ARGUMENT, "column %s: a value %s its type, %.*s",
                      wanted->name, code == ERANGE ? "lies outside the range of" : "does not fit",
                      (int)type.size, (const char *)type.data);
    }
    base_buffer_fini(&type);
    return status;
}

lake_status sql_recast_batch(const struct ArrowSchema *wanted, const struct ArrowSchema *made,
                             struct ArrowArray *batch, struct lake_error *err)
{
    for (int64_t i = 0; i < wanted->n_children; i++) {
        const struct ArrowSchema *field = wanted->children[i];
        if (is_same(field, made->children[i])) {
            continue;
        }
        struct ArrowArray column = {0};
        int code = sql_dictionary_in(field)
                       ? recast_dictionaries(field, made->children[i], batch->children[i], &column)
                       : recast_column(field, made->children[i], batch->children[i], &column);
        if (code != NANOARROW_OK) {
            if (column.release != NULL) {
                ArrowArrayRelease(&column);
            }
            return recast_failed(field, code, batch->length, err);
        }
        ArrowArrayRelease(batch->children[i]);
        ArrowArrayMove(&column, batch->children[i]);
    }
    return LAKE_OK;
}
