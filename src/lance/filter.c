/*
 * Filters on one column, made ready once a scan and applied to each batch. Only what can be decided
 * exactly is taken on; the rest is left to the engine.
 *
 * Order of floating point values is the engine's total order: NaN equals itself and is greater than
 * everything else; the two zeros are equal. Text and bytes compare as unsigned bytes.
 */
#include "predicate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the column's type ---- */

static enum storage storage_of(const char *format, size_t *fixed_bytes)
{
    static const struct {
        const char *format;
        enum storage storage;
    } exact[] = {
        {"b", AS_BOOL},  {"c", AS_I8},      {"C", AS_U8},      {"s", AS_I16},     {"S", AS_U16},
        {"i", AS_I32},   {"I", AS_U32},     {"l", AS_I64},     {"L", AS_U64},     {"f", AS_F32},
        {"g", AS_F64},   {"u", AS_BYTES32}, {"z", AS_BYTES32}, {"U", AS_BYTES64}, {"Z", AS_BYTES64},
        {"tdD", AS_I32}, {"tdm", AS_I64},   {"tts", AS_I32},   {"ttm", AS_I32},   {"ttu", AS_I64},
        {"ttn", AS_I64}, {"tDs", AS_I64},   {"tDm", AS_I64},   {"tDu", AS_I64},   {"tDn", AS_I64},
    };
    uint64_t width;
    for (size_t i = 0; i < BASE_ARRAY_LEN(exact); i++) {
        if (strcmp(format, exact[i].format) == 0) {
            return exact[i].storage;
        }
    }
    if (strncmp(format, "ts", 2) == 0 && format[2] != '\0' && format[3] == ':') {
        return AS_I64;
    }
    if (strncmp(format, "d:", 2) == 0) { /* "d:precision,scale" has 128 bits */
        const char *comma = strchr(format, ',');
        return comma != NULL && strchr(comma + 1, ',') == NULL ? AS_I128 : AS_OTHER;
    }
    if (strncmp(format, "w:", 2) == 0 && base_str_to_u64(base_str_of(format + 2), &width)) {
        *fixed_bytes = (size_t)width;
        return AS_BYTES_FIXED;
    }
    return AS_OTHER;
}

static enum predicate_kind kind_of(enum storage storage)
{
    switch (storage) {
    case AS_OTHER:
        return ON_NULLNESS;
    case AS_F32:
    case AS_F64:
        return ON_FLOAT;
    case AS_BYTES32:
    case AS_BYTES64:
    case AS_BYTES_FIXED:
        return ON_BYTES;
    default:
        return ON_INTEGER;
    }
}

static void domain_of(enum storage storage, wide *low, wide *high)
{
    static const struct {
        int bits;
        bool is_signed;
    } shapes[] = {
        [AS_BOOL] = {1, false},  [AS_I8] = {8, true},    [AS_U8] = {8, false},
        [AS_I16] = {16, true},   [AS_U16] = {16, false}, [AS_I32] = {32, true},
        [AS_U32] = {32, false},  [AS_I64] = {64, true},  [AS_U64] = {64, false},
        [AS_I128] = {128, true},
    };
    int bits = shapes[storage].bits;
    if (shapes[storage].is_signed) {
        *high = (wide)(((unsigned_wide)1 << (bits - 1)) - 1);
        *low = -*high - 1;
    } else {
        *low = 0;
        *high = ((wide)1 << bits) - 1;
    }
}

/* ---- making one ---- */

/* False when the value has no exact meaning for the column. */
static bool integer_of(const struct lance_predicate *predicate, const struct lance_value *value,
                       wide *out)
{
    switch (value->kind) {
    case LANCE_VALUE_INT64:
        *out = value->i64;
        return true;
    case LANCE_VALUE_UINT64:
        *out = value->u64;
        return true;
    case LANCE_VALUE_BYTES:
        if (predicate->storage == AS_I128 && value->bytes.size == sizeof(wide)) {
            memcpy(out, value->bytes.data, sizeof(wide));
            return true;
        }
        return false;
    case LANCE_VALUE_DOUBLE:
        return false;
    }
    return false;
}

static int compare_wide(const void *a, const void *b)
{
    wide left;
    wide right;
    memcpy(&left, a, sizeof(left));
    memcpy(&right, b, sizeof(right));
    return (left > right) - (left < right);
}

static bool make_range(struct lance_predicate *predicate, wide value)
{
    wide low;
    wide high;
    domain_of(predicate->storage, &low, &high);
    predicate->low = low;
    predicate->high = high;
    switch (predicate->op) {
    case LANCE_EQ:
    case LANCE_NE:
        predicate->negated = predicate->op == LANCE_NE;
        if (value < low || value > high) {
            predicate->never = !predicate->negated;
            predicate->negated = false;
            return true; /* unequal to all: the whole domain passes */
        }
        predicate->low = value;
        predicate->high = value;
        return true;
    case LANCE_LT:
        predicate->never = value <= low;
        if (!predicate->never) {
            predicate->high = value > high ? high : value - 1;
        }
        return true;
    case LANCE_LE:
        predicate->never = value < low;
        predicate->high = BASE_MIN(value, high);
        return true;
    case LANCE_GT:
        predicate->never = value >= high;
        if (!predicate->never) {
            predicate->low = value < low ? low : value + 1;
        }
        return true;
    case LANCE_GE:
        predicate->never = value > high;
        predicate->low = BASE_MAX(value, low);
        return true;
    default:
        return false;
    }
}

/* Each make_… sets *exact to false when the filter is to be left to the engine. */
static lake_status make_integer(struct lance_predicate *predicate,
                                const struct lance_filter *filter, bool *exact,
                                struct lake_error *err)
{
    wide value = 0;
    if (filter->op != LANCE_IN) {
        *exact = integer_of(predicate, &filter->values[0], &value) && make_range(predicate, value);
        if (predicate->never) { /* keep the bounds inside the column's type */
            domain_of(predicate->storage, &predicate->low, &predicate->high);
        }
        return LAKE_OK;
    }
    wide low;
    wide high;
    domain_of(predicate->storage, &low, &high);
    predicate->set = base_alloc_array(filter->value_count + 1, sizeof(*predicate->set));
    if (predicate->set == NULL) {
        return base_fail_no_memory(err, filter->value_count * sizeof(*predicate->set));
    }
    for (size_t i = 0; i < filter->value_count; i++) {
        if (!integer_of(predicate, &filter->values[i], &value)) {
            *exact = false;
            return LAKE_OK;
        }
        if (value >= low && value <= high) {
            predicate->set[predicate->count++] = value;
        }
    }
    qsort(predicate->set, predicate->count, sizeof(*predicate->set), compare_wide);
    return LAKE_OK;
}

static bool float_of(const struct lance_value *value, double *out)
{
    const int64_t exact = INT64_C(1) << 53;
    switch (value->kind) {
    case LANCE_VALUE_DOUBLE:
        *out = value->f64;
        return true;
    case LANCE_VALUE_INT64:
        *out = (double)value->i64;
        return value->i64 >= -exact && value->i64 <= exact;
    case LANCE_VALUE_UINT64:
        *out = (double)value->u64;
        return value->u64 <= (uint64_t)exact;
    case LANCE_VALUE_BYTES:
        return false;
    }
    return false;
}

static lake_status make_float(struct lance_predicate *predicate, const struct lance_filter *filter,
                              bool *exact, struct lake_error *err)
{
    predicate->floats = base_alloc_array(filter->value_count + 1, sizeof(*predicate->floats));
    if (predicate->floats == NULL) {
        return base_fail_no_memory(err, filter->value_count * sizeof(*predicate->floats));
    }
    predicate->count = filter->value_count;
    for (size_t i = 0; i < filter->value_count; i++) {
        *exact = *exact && float_of(&filter->values[i], &predicate->floats[i]);
    }
    return LAKE_OK;
}

int lance_compare_bytes(struct lake_bytes a, struct lake_bytes b)
{
    size_t shorter = BASE_MIN(a.size, b.size);
    int order = shorter == 0 ? 0 : memcmp(a.data, b.data, shorter);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare_bytes(const void *a, const void *b)
{
    return lance_compare_bytes(*(const struct lake_bytes *)a, *(const struct lake_bytes *)b);
}

static lake_status make_bytes(struct lance_predicate *predicate, const struct lance_filter *filter,
                              bool *exact, struct lake_error *err)
{
    size_t total = 1;
    for (size_t i = 0; i < filter->value_count; i++) {
        if (filter->values[i].kind != LANCE_VALUE_BYTES) {
            *exact = false;
            return LAKE_OK;
        }
        if (!base_size_add(total, filter->values[i].bytes.size, &total)) {
            return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "a filter's values are too long");
        }
    }
    predicate->bytes = base_alloc_array(filter->value_count + 1, sizeof(*predicate->bytes));
    predicate->owned = base_alloc(total);
    if (predicate->bytes == NULL || predicate->owned == NULL) {
        return base_fail_no_memory(err, total);
    }
    uint8_t *at = predicate->owned;
    for (size_t i = 0; i < filter->value_count; i++) {
        struct lake_bytes value = filter->values[i].bytes;
        if (value.size > 0) {
            memcpy(at, value.data, value.size);
        }
        predicate->bytes[i] = (struct lake_bytes){at, value.size};
        at += value.size;
    }
    predicate->count = filter->value_count;
    qsort(predicate->bytes, predicate->count, sizeof(*predicate->bytes), compare_bytes);
    return LAKE_OK;
}

static lake_status check_filter(const struct lance_filter *filter, struct lake_error *err)
{
    bool nullness = filter->op == LANCE_IS_NULL || filter->op == LANCE_IS_NOT_NULL;
    if (!nullness && filter->op != LANCE_IN && filter->value_count != 1) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a comparison of column %u has %zu values, not one", filter->column,
                         filter->value_count);
    }
    if (filter->value_count > 0 && filter->values == NULL) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a filter of column %u has no values",
                         filter->column);
    }
    return LAKE_OK;
}

lake_status lance_predicate_new(const struct lance_filter *filter, const struct ArrowSchema *column,
                                struct lance_predicate **out, struct lake_error *err)
{
    lake_status status = check_filter(filter, err);
    bool exact = true;
    if (status != LAKE_OK) {
        return status;
    }
    struct lance_predicate *predicate = base_calloc_array(1, sizeof(*predicate));
    if (predicate == NULL) {
        return base_fail_no_memory(err, sizeof(*predicate));
    }
    const struct ArrowSchema *values = column->dictionary != NULL ? column->dictionary : column;
    predicate->op = filter->op;
    predicate->has_dictionary = column->dictionary != NULL;
    predicate->index_format = column->format[0];
    predicate->is_null_type = strcmp(values->format, "n") == 0;
    predicate->storage = storage_of(values->format, &predicate->fixed_bytes);
    bool nullness = filter->op == LANCE_IS_NULL || filter->op == LANCE_IS_NOT_NULL;
    predicate->kind = nullness ? ON_NULLNESS : kind_of(predicate->storage);
    if (predicate->kind == ON_NULLNESS) {
        exact = nullness;
    } else if (arrow_extension_is(column, ARROW_JSON_EXTENSION_NAME)) {
        exact = false; /* its bytes are not its text */
    } else if (predicate->kind == ON_INTEGER) {
        status = make_integer(predicate, filter, &exact, err);
    } else if (predicate->kind == ON_FLOAT) {
        status = make_float(predicate, filter, &exact, err);
    } else {
        status = make_bytes(predicate, filter, &exact, err);
    }
    if (status == LAKE_OK) {
        *out = exact ? predicate : NULL;
    }
    if (status != LAKE_OK || !exact) {
        lance_predicate_free(predicate);
    }
    return status;
}

void lance_predicate_free(struct lance_predicate *predicate)
{
    if (predicate != NULL) {
        base_free(predicate->set);
        base_free(predicate->floats);
        base_free(predicate->bytes);
        base_free(predicate->owned);
        base_free(predicate);
    }
}

/* ---- applying it ---- */

static bool bit_at(const uint8_t *bits, uint64_t index)
{
    return (bits[index / 8] >> (index % 8) & 1) != 0;
}

/* Clears what is null (or, inverted, what is not). */
static void apply_validity(const struct ArrowArray *array, bool keep_nulls, uint8_t *keep)
{
    const uint8_t *bits = array->buffers[0];
    uint64_t count = (uint64_t)array->length;
    uint64_t offset = (uint64_t)array->offset;
    if (bits == NULL || array->null_count == 0) {
        if (keep_nulls) {
            memset(keep, 0, (size_t)count);
        }
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint8_t valid = (uint8_t)(bits[(offset + i) / 8] >> ((offset + i) % 8) & 1);
        keep[i] = (uint8_t)(keep[i] & (valid ^ (keep_nulls ? 1 : 0)));
    }
}

#define APPLY_RANGE(type)                                                            \
    do {                                                                             \
        const type *values = (const type *)array->buffers[1] + array->offset;        \
        const type low = (type)predicate->low;                                       \
        const type high = (type)predicate->high;                                     \
        const uint8_t flip = predicate->negated ? 1 : 0;                             \
        for (uint64_t i = 0; i < count; i++) {                                       \
            keep[i] &= (uint8_t)(((values[i] >= low) & (values[i] <= high)) ^ flip); \
        }                                                                            \
    } while (0)

wide lance_predicate_load_wide(const struct lance_predicate *predicate,
                               const struct ArrowArray *array, uint64_t i)
{
    wide value;
    const void *data = array->buffers[1];
    uint64_t at = (uint64_t)array->offset + i;
    switch (predicate->storage) {
    case AS_BOOL:
        return bit_at(data, at);
    case AS_I8:
        return ((const int8_t *)data)[at];
    case AS_U8:
        return ((const uint8_t *)data)[at];
    case AS_I16:
        return ((const int16_t *)data)[at];
    case AS_U16:
        return ((const uint16_t *)data)[at];
    case AS_I32:
        return ((const int32_t *)data)[at];
    case AS_U32:
        return ((const uint32_t *)data)[at];
    case AS_I64:
        return ((const int64_t *)data)[at];
    case AS_U64:
        return ((const uint64_t *)data)[at];
    default:
        memcpy(&value, (const uint8_t *)data + at * sizeof(value), sizeof(value));
        return value;
    }
}

static void apply_integer(const struct lance_predicate *predicate, const struct ArrowArray *array,
                          uint8_t *keep)
{
    uint64_t count = (uint64_t)array->length;
    if (predicate->never) {
        memset(keep, 0, (size_t)count);
        return;
    }
    if (predicate->op == LANCE_IN) {
        for (uint64_t i = 0; i < count; i++) {
            if (keep[i] != 0) {
                wide value = lance_predicate_load_wide(predicate, array, i);
                keep[i] = bsearch(&value, predicate->set, predicate->count, sizeof(*predicate->set),
                                  compare_wide) != NULL;
            }
        }
        return;
    }
    switch (predicate->storage) {
    case AS_I8:
        APPLY_RANGE(int8_t);
        return;
    case AS_U8:
        APPLY_RANGE(uint8_t);
        return;
    case AS_I16:
        APPLY_RANGE(int16_t);
        return;
    case AS_U16:
        APPLY_RANGE(uint16_t);
        return;
    case AS_I32:
        APPLY_RANGE(int32_t);
        return;
    case AS_U32:
        APPLY_RANGE(uint32_t);
        return;
    case AS_I64:
        APPLY_RANGE(int64_t);
        return;
    case AS_U64:
        APPLY_RANGE(uint64_t);
        return;
    default:
        for (uint64_t i = 0; i < count; i++) {
            wide value = lance_predicate_load_wide(predicate, array, i);
            bool inside = value >= predicate->low && value <= predicate->high;
            keep[i] = (uint8_t)(keep[i] & (inside != predicate->negated));
        }
    }
}

#define EACH_FLOAT(type, condition)                                           \
    do {                                                                      \
        const type *values = (const type *)array->buffers[1] + array->offset; \
        for (uint64_t i = 0; i < count; i++) {                                \
            const double v = (double)values[i];                               \
            keep[i] &= (uint8_t)(condition);                                  \
        }                                                                     \
    } while (0)

/* With NaN above everything and equal to itself: for a number x, `v > x` is !(v <= x). */
#define APPLY_FLOAT(type)                \
    do {                                 \
        switch (op) {                    \
        case LANCE_EQ:                   \
            EACH_FLOAT(type, v == x);    \
            break;                       \
        case LANCE_NE:                   \
            EACH_FLOAT(type, v != x);    \
            break;                       \
        case LANCE_LT:                   \
            EACH_FLOAT(type, v < x);     \
            break;                       \
        case LANCE_LE:                   \
            EACH_FLOAT(type, v <= x);    \
            break;                       \
        case LANCE_GT:                   \
            EACH_FLOAT(type, !(v <= x)); \
            break;                       \
        default:                         \
            EACH_FLOAT(type, !(v < x));  \
            break;                       \
        }                                \
    } while (0)

double lance_predicate_load_float(const struct lance_predicate *predicate,
                                  const struct ArrowArray *array, uint64_t i)
{
    uint64_t at = (uint64_t)array->offset + i;
    return predicate->storage == AS_F32 ? (double)((const float *)array->buffers[1])[at]
                                        : ((const double *)array->buffers[1])[at];
}

static bool float_in(const struct lance_predicate *predicate, double value)
{
    for (size_t i = 0; i < predicate->count; i++) {
        if (value == predicate->floats[i] || (isnan(value) && isnan(predicate->floats[i]))) {
            return true;
        }
    }
    return false;
}

static bool against_nan(enum lance_filter_op op, double value)
{
    switch (op) {
    case LANCE_EQ:
    case LANCE_GE:
        return isnan(value);
    case LANCE_NE:
    case LANCE_LT:
        return !isnan(value);
    case LANCE_LE:
        return true;
    default:
        return false;
    }
}

static void apply_float(const struct lance_predicate *predicate, const struct ArrowArray *array,
                        uint8_t *keep)
{
    uint64_t count = (uint64_t)array->length;
    enum lance_filter_op op = predicate->op;
    double x = op == LANCE_IN ? 0 : predicate->floats[0];
    if (op == LANCE_IN || isnan(x)) {
        for (uint64_t i = 0; i < count; i++) {
            double value = lance_predicate_load_float(predicate, array, i);
            bool passes = op == LANCE_IN ? float_in(predicate, value) : against_nan(op, value);
            keep[i] = (uint8_t)(keep[i] & passes);
        }
    } else if (predicate->storage == AS_F32) {
        APPLY_FLOAT(float);
    } else {
        APPLY_FLOAT(double);
    }
}

struct lake_bytes lance_predicate_load_bytes(const struct lance_predicate *predicate,
                                             const struct ArrowArray *array, uint64_t i)
{
    uint64_t at = (uint64_t)array->offset + i;
    if (predicate->storage == AS_BYTES_FIXED) {
        const uint8_t *data = array->buffers[1];
        return (struct lake_bytes){data + at * predicate->fixed_bytes, predicate->fixed_bytes};
    }
    const uint8_t *data = array->buffers[2];
    if (predicate->storage == AS_BYTES32) {
        const int32_t *offsets = array->buffers[1];
        return (struct lake_bytes){data + offsets[at], (size_t)(offsets[at + 1] - offsets[at])};
    }
    const int64_t *offsets = array->buffers[1];
    return (struct lake_bytes){data + offsets[at], (size_t)(offsets[at + 1] - offsets[at])};
}

static bool bytes_pass(const struct lance_predicate *predicate, struct lake_bytes value)
{
    if (predicate->op == LANCE_IN) {
        return bsearch(&value, predicate->bytes, predicate->count, sizeof(*predicate->bytes),
                       compare_bytes) != NULL;
    }
    struct lake_bytes other = predicate->bytes[0];
    if (predicate->op == LANCE_EQ || predicate->op == LANCE_NE) {
        bool equal = value.size == other.size &&
                     (value.size == 0 || memcmp(value.data, other.data, value.size) == 0);
        return equal == (predicate->op == LANCE_EQ);
    }
    int order = lance_compare_bytes(value, other);
    switch (predicate->op) {
    case LANCE_LT:
        return order < 0;
    case LANCE_LE:
        return order <= 0;
    case LANCE_GT:
        return order > 0;
    default:
        return order >= 0;
    }
}

static void apply_bytes(const struct lance_predicate *predicate, const struct ArrowArray *array,
                        uint8_t *keep)
{
    for (uint64_t i = 0; i < (uint64_t)array->length; i++) {
        if (keep[i] != 0) {
            keep[i] = bytes_pass(predicate, lance_predicate_load_bytes(predicate, array, i));
        }
    }
}

static void apply_plain(const struct lance_predicate *predicate, const struct ArrowArray *array,
                        uint8_t *keep)
{
    if (predicate->is_null_type) {
        if (predicate->op != LANCE_IS_NULL) {
            memset(keep, 0, (size_t)array->length);
        }
        return;
    }
    apply_validity(array, predicate->op == LANCE_IS_NULL, keep);
    switch (predicate->kind) {
    case ON_NULLNESS:
        return;
    case ON_INTEGER:
        apply_integer(predicate, array, keep);
        return;
    case ON_FLOAT:
        apply_float(predicate, array, keep);
        return;
    case ON_BYTES:
        apply_bytes(predicate, array, keep);
        return;
    }
}

static uint64_t load_index(char format, const void *data, uint64_t at)
{
    switch (format) {
    case 'c':
        return (uint64_t)((const int8_t *)data)[at];
    case 'C':
        return ((const uint8_t *)data)[at];
    case 's':
        return (uint64_t)((const int16_t *)data)[at];
    case 'S':
        return ((const uint16_t *)data)[at];
    case 'i':
        return (uint64_t)((const int32_t *)data)[at];
    case 'I':
        return ((const uint32_t *)data)[at];
    default:
        return ((const uint64_t *)data)[at];
    }
}

/* Decides each value of the dictionary once, then looks the rows up. A row is null when its index
 * is, or when what the index points to is. */
static lake_status apply_dictionary(const struct lance_predicate *predicate,
                                    const struct ArrowArray *array, uint8_t *keep,
                                    struct lake_error *err)
{
    const struct ArrowArray *dictionary = array->dictionary;
    if (dictionary == NULL) {
        return lake_fail(err, LAKE_INTERNAL, "a dictionary column came without its dictionary");
    }
    uint64_t size = (uint64_t)dictionary->length;
    uint8_t *passes = base_alloc_array((size_t)size + 1, 1);
    if (passes == NULL) {
        return base_fail_no_memory(err, (size_t)size + 1);
    }
    memset(passes, 1, (size_t)size + 1);
    apply_plain(predicate, dictionary, passes);
    lake_status status = LAKE_OK;
    const uint8_t *valid = array->null_count == 0 ? NULL : array->buffers[0];
    for (uint64_t i = 0; i < (uint64_t)array->length; i++) {
        uint64_t at = (uint64_t)array->offset + i;
        if (valid != NULL && !bit_at(valid, at)) {
            keep[i] = (uint8_t)(keep[i] & (predicate->op == LANCE_IS_NULL));
            continue;
        }
        uint64_t index = load_index(predicate->index_format, array->buffers[1], at);
        if (index >= size) {
            status = lake_fail(err, LAKE_DATA_LOSS, "a dictionary index lies outside");
            break;
        }
        keep[i] &= passes[index];
    }
    base_free(passes);
    return status;
}

lake_status lance_predicate_apply(const struct lance_predicate *predicate,
                                  const struct ArrowArray *array, uint8_t *keep,
                                  struct lake_error *err)
{
    if (predicate->has_dictionary) {
        return apply_dictionary(predicate, array, keep, err);
    }
    apply_plain(predicate, array, keep);
    return LAKE_OK;
}
