#include "arrow_internal.h"

#include <errno.h>
#include <string.h>

/* ---- formatting ---- */

static const char *const unit_names[] = {"s", "ms", "us", "ns"};

/* Types whose name needs no parameter, both ways. The first name of a type is how it is printed. */
static const struct {
    const char *name;
    enum ArrowType type;
} simple_types[] = {
    {"null", NANOARROW_TYPE_NA},
    {"bool", NANOARROW_TYPE_BOOL},
    {"boolean", NANOARROW_TYPE_BOOL},
    {"int8", NANOARROW_TYPE_INT8},
    {"int16", NANOARROW_TYPE_INT16},
    {"int32", NANOARROW_TYPE_INT32},
    {"int64", NANOARROW_TYPE_INT64},
    {"uint8", NANOARROW_TYPE_UINT8},
    {"uint16", NANOARROW_TYPE_UINT16},
    {"uint32", NANOARROW_TYPE_UINT32},
    {"uint64", NANOARROW_TYPE_UINT64},
    {"halffloat", NANOARROW_TYPE_HALF_FLOAT},
    {"float16", NANOARROW_TYPE_HALF_FLOAT},
    {"float", NANOARROW_TYPE_FLOAT},
    {"float32", NANOARROW_TYPE_FLOAT},
    {"double", NANOARROW_TYPE_DOUBLE},
    {"float64", NANOARROW_TYPE_DOUBLE},
    {"utf8", NANOARROW_TYPE_STRING},
    {"string", NANOARROW_TYPE_STRING},
    {"large_utf8", NANOARROW_TYPE_LARGE_STRING},
    {"large_string", NANOARROW_TYPE_LARGE_STRING},
    {"utf8_view", NANOARROW_TYPE_STRING_VIEW},
    {"binary", NANOARROW_TYPE_BINARY},
    {"large_binary", NANOARROW_TYPE_LARGE_BINARY},
    {"binary_view", NANOARROW_TYPE_BINARY_VIEW},
    {"date32", NANOARROW_TYPE_DATE32},
    {"date64", NANOARROW_TYPE_DATE64},
    {"interval_months", NANOARROW_TYPE_INTERVAL_MONTHS},
    {"interval_day_time", NANOARROW_TYPE_INTERVAL_DAY_TIME},
    {"interval_month_day_nano", NANOARROW_TYPE_INTERVAL_MONTH_DAY_NANO},
};

static const char *simple_name(enum ArrowType type)
{
    for (size_t i = 0; i < BASE_ARRAY_LEN(simple_types); i++) {
        if (simple_types[i].type == type) {
            return simple_types[i].name;
        }
    }
    return NULL;
}

static lake_status format_type(const struct ArrowSchema *field, uint32_t depth,
                               struct base_buffer *out, struct lake_error *err);

static lake_status format_items(const char *prefix, const struct ArrowSchema *item, uint32_t depth,
                                struct base_buffer *out, struct lake_error *err)
{
    lake_status status = base_buffer_printf(out, err, "%s<", prefix);
    if (status == LAKE_OK) {
        status = format_type(item, depth + 1, out, err);
    }
    return status == LAKE_OK ? base_buffer_append(out, ">", 1, err) : status;
}

static lake_status format_children(const char *prefix, const struct ArrowSchema *field,
                                   uint32_t depth, struct base_buffer *out, struct lake_error *err)
{
    lake_status status = base_buffer_printf(out, err, "%s<", prefix);
    for (int64_t i = 0; status == LAKE_OK && i < field->n_children; i++) {
        status = base_buffer_printf(out, err, "%s%s: ", i == 0 ? "" : ", ",
                                    arrow_field_name(field->children[i]));
        if (status == LAKE_OK) {
            status = format_type(field->children[i], depth + 1, out, err);
        }
    }
    return status == LAKE_OK ? base_buffer_append(out, ">", 1, err) : status;
}

static lake_status format_map(const struct ArrowSchema *field, uint32_t depth,
                              struct base_buffer *out, struct lake_error *err)
{
    const struct ArrowSchema *entries = field->children[0];
    lake_status status = base_buffer_append(out, "map<", 4, err);
    if (status == LAKE_OK) {
        status = format_type(entries->children[0], depth + 2, out, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append(out, ", ", 2, err);
    }
    if (status == LAKE_OK) {
        status = format_type(entries->children[1], depth + 2, out, err);
    }
    return status == LAKE_OK ? base_buffer_append(out, ">", 1, err) : status;
}

static lake_status format_dictionary(const struct ArrowSchema *field,
                                     const struct ArrowSchemaView *view, uint32_t depth,
                                     struct base_buffer *out, struct lake_error *err)
{
    const char *index = simple_name(view->storage_type);
    lake_status status =
        base_buffer_printf(out, err, "dictionary<%s, ", index == NULL ? "?" : index);
    if (status == LAKE_OK) {
        status = format_type(field->dictionary, depth + 1, out, err);
    }
    return status == LAKE_OK ? base_buffer_append(out, ">", 1, err) : status;
}

static lake_status format_parameterised(const struct ArrowSchema *field,
                                        const struct ArrowSchemaView *view, uint32_t depth,
                                        struct base_buffer *out, struct lake_error *err)
{
    const char *unit = unit_names[view->time_unit & 3];
    lake_status status;
    switch (view->type) {
    case NANOARROW_TYPE_DECIMAL32:
    case NANOARROW_TYPE_DECIMAL64:
    case NANOARROW_TYPE_DECIMAL256:
        return base_buffer_printf(out, err, "decimal%d(%d,%d)", view->decimal_bitwidth,
                                  view->decimal_precision, view->decimal_scale);
    case NANOARROW_TYPE_DECIMAL128:
        return base_buffer_printf(out, err, "decimal(%d,%d)", view->decimal_precision,
                                  view->decimal_scale);
    case NANOARROW_TYPE_FIXED_SIZE_BINARY:
        return base_buffer_printf(out, err, "fixed_size_binary[%d]", view->fixed_size);
    case NANOARROW_TYPE_TIME32:
        return base_buffer_printf(out, err, "time32[%s]", unit);
    case NANOARROW_TYPE_TIME64:
        return base_buffer_printf(out, err, "time64[%s]", unit);
    case NANOARROW_TYPE_DURATION:
        return base_buffer_printf(out, err, "duration[%s]", unit);
    case NANOARROW_TYPE_TIMESTAMP:
        return view->timezone == NULL || view->timezone[0] == '\0'
                   ? base_buffer_printf(out, err, "timestamp[%s]", unit)
                   : base_buffer_printf(out, err, "timestamp[%s, %s]", unit, view->timezone);
    case NANOARROW_TYPE_LIST:
        return format_items("list", field->children[0], depth, out, err);
    case NANOARROW_TYPE_LARGE_LIST:
        return format_items("large_list", field->children[0], depth, out, err);
    case NANOARROW_TYPE_LIST_VIEW:
        return format_items("list_view", field->children[0], depth, out, err);
    case NANOARROW_TYPE_LARGE_LIST_VIEW:
        return format_items("large_list_view", field->children[0], depth, out, err);
    case NANOARROW_TYPE_FIXED_SIZE_LIST:
        status = format_items("fixed_size_list", field->children[0], depth, out, err);
        return status == LAKE_OK ? base_buffer_printf(out, err, "[%d]", view->fixed_size) : status;
    case NANOARROW_TYPE_MAP:
        return format_map(field, depth, out, err);
    case NANOARROW_TYPE_STRUCT:
        return format_children("struct", field, depth, out, err);
    case NANOARROW_TYPE_DENSE_UNION:
        return format_children("dense_union", field, depth, out, err);
    case NANOARROW_TYPE_SPARSE_UNION:
        return format_children("sparse_union", field, depth, out, err);
    case NANOARROW_TYPE_RUN_END_ENCODED:
        return format_items("run_end_encoded", field->children[1], depth, out, err);
    case NANOARROW_TYPE_DICTIONARY:
        return format_dictionary(field, view, depth, out, err);
    default:
        return base_buffer_printf(out, err, "%s", field->format);
    }
}

static lake_status format_type(const struct ArrowSchema *field, uint32_t depth,
                               struct base_buffer *out, struct lake_error *err)
{
    struct ArrowSchemaView view;
    struct ArrowError detail = {{0}};
    if (depth > ARROW_MAX_DEPTH) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a type nests deeper than %d levels",
                         ARROW_MAX_DEPTH);
    }
    int code = ArrowSchemaViewInit(&view, field, &detail);
    if (code != NANOARROW_OK) {
        return arrow_fail_code(err, code, &detail, "reading a field's type");
    }
    if (arrow_file_schema_is(field)) {
        return base_buffer_append(out, "FILE", 4, err);
    }
    if (view.type == NANOARROW_TYPE_STRING &&
        arrow_extension_is(field, ARROW_JSON_EXTENSION_NAME)) {
        return base_buffer_append(out, "json", 4, err);
    }
    const char *name = simple_name(view.type);
    return name != NULL ? base_buffer_append(out, name, strlen(name), err)
                        : format_parameterised(field, &view, depth, out, err);
}

lake_status arrow_type_format(const struct ArrowSchema *field, struct base_buffer *out,
                              struct lake_error *err)
{
    return format_type(field, 0, out, err);
}

/* ---- parsing ---- */

struct type_parser {
    struct lake_str text;
    size_t position;
    struct lake_error *err;
};

static const char accepted[] =
    "accepted are int8..int64, uint8..uint64, float16, float, double, bool, utf8, large_utf8, "
    "binary, large_binary, fixed_size_binary[n], decimal(p,s), date32, date64, time32[s|ms], "
    "time64[us|ns], timestamp[unit], timestamp[unit, zone], duration[unit], list<T>, "
    "large_list<T>, fixed_size_list<T>[n], T[n], map<K, V>, struct<name: T, ...>, "
    "dictionary<K, V>, json, FILE; a \"!\" at the end means not null";

static lake_status fail_at(struct type_parser *p, size_t position, const char *expected)
{
    return lake_fail(p->err, LAKE_INVALID_ARGUMENT,
                     "type \"%.*s\": %s expected at position %zu; %s", LAKE_STR_FMT(p->text),
                     expected, position + 1, accepted);
}

static lake_status fail_code(struct type_parser *p, int code)
{
    return lake_fail(p->err, code == ENOMEM ? LAKE_RESOURCE_EXHAUSTED : LAKE_INVALID_ARGUMENT,
                     "type \"%.*s\": its parameters are not possible; %s", LAKE_STR_FMT(p->text),
                     accepted);
}

static void skip_blanks(struct type_parser *p)
{
    while (p->position < p->text.size &&
           (p->text.data[p->position] == ' ' || p->text.data[p->position] == '\t')) {
        p->position++;
    }
}

static bool try_char(struct type_parser *p, char c)
{
    skip_blanks(p);
    if (p->position < p->text.size && p->text.data[p->position] == c) {
        p->position++;
        return true;
    }
    return false;
}

static lake_status expect(struct type_parser *p, char c)
{
    char expected[] = {'"', c, '"', '\0'};
    return try_char(p, c) ? LAKE_OK : fail_at(p, p->position, expected);
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static struct lake_str take_word(struct type_parser *p)
{
    skip_blanks(p);
    size_t start = p->position;
    while (p->position < p->text.size && is_word(p->text.data[p->position])) {
        p->position++;
    }
    return (struct lake_str){p->text.data + start, p->position - start};
}

static lake_status take_number(struct type_parser *p, int32_t *out)
{
    skip_blanks(p);
    size_t start = p->position;
    bool negative = try_char(p, '-');
    uint64_t value;
    if (!base_str_to_u64(take_word(p), &value) || value > INT32_MAX) {
        return fail_at(p, start, "a number");
    }
    *out = negative ? -(int32_t)value : (int32_t)value;
    return LAKE_OK;
}

static lake_status take_unit(struct type_parser *p, enum ArrowTimeUnit *out)
{
    skip_blanks(p);
    size_t start = p->position;
    struct lake_str word = take_word(p);
    for (size_t i = 0; i < BASE_ARRAY_LEN(unit_names); i++) {
        if (base_str_equal_c(word, unit_names[i])) {
            *out = (enum ArrowTimeUnit)i;
            return LAKE_OK;
        }
    }
    return fail_at(p, start, "a unit (s, ms, us or ns)");
}

static lake_status parse_type(struct type_parser *p, uint32_t depth, struct ArrowSchema *out);

static lake_status parse_temporal(struct type_parser *p, enum ArrowType type,
                                  struct ArrowSchema *out)
{
    enum ArrowTimeUnit unit = NANOARROW_TIME_UNIT_MICRO;
    char zone[128] = "";
    size_t start = p->position;
    lake_status status = expect(p, '[');
    if (status == LAKE_OK) {
        status = take_unit(p, &unit);
    }
    if (status == LAKE_OK && type == NANOARROW_TYPE_TIMESTAMP && try_char(p, ',')) {
        skip_blanks(p);
        size_t zone_start = p->position;
        while (p->position < p->text.size && p->text.data[p->position] != ']') {
            p->position++;
        }
        size_t size = p->position - zone_start;
        if (size == 0 || size >= sizeof(zone)) {
            return fail_at(p, zone_start, "a time zone");
        }
        memcpy(zone, p->text.data + zone_start, size);
        zone[size] = '\0';
    }
    if (status == LAKE_OK) {
        status = expect(p, ']');
    }
    if (status != LAKE_OK) {
        return status;
    }
    bool coarse = unit == NANOARROW_TIME_UNIT_SECOND || unit == NANOARROW_TIME_UNIT_MILLI;
    if ((type == NANOARROW_TYPE_TIME32 && !coarse) || (type == NANOARROW_TYPE_TIME64 && coarse)) {
        return fail_at(p, start + 1, coarse ? "us or ns" : "s or ms");
    }
    int code =
        ArrowSchemaSetTypeDateTime(out, type, unit, type == NANOARROW_TYPE_TIMESTAMP ? zone : NULL);
    return code == NANOARROW_OK ? LAKE_OK : fail_code(p, code);
}

static lake_status parse_decimal(struct type_parser *p, struct ArrowSchema *out)
{
    int32_t precision;
    int32_t scale = 0;
    lake_status status = expect(p, '(');
    if (status == LAKE_OK) {
        status = take_number(p, &precision);
    }
    if (status == LAKE_OK && try_char(p, ',')) {
        status = take_number(p, &scale);
    }
    if (status == LAKE_OK) {
        status = expect(p, ')');
    }
    if (status != LAKE_OK) {
        return status;
    }
    if (precision < 1 || precision > 76 || scale > precision) {
        return fail_at(p, 0, "a precision of 1 to 76 and a scale not above it");
    }
    int code = ArrowSchemaSetTypeDecimal(
        out, precision > 38 ? NANOARROW_TYPE_DECIMAL256 : NANOARROW_TYPE_DECIMAL128, precision,
        scale);
    return code == NANOARROW_OK ? LAKE_OK : fail_code(p, code);
}

static lake_status parse_size(struct type_parser *p, int32_t *size)
{
    lake_status status = expect(p, '[');
    size_t start = p->position;
    if (status == LAKE_OK) {
        status = take_number(p, size);
    }
    if (status == LAKE_OK && *size < 1) {
        status = fail_at(p, start, "a size of at least 1");
    }
    return status == LAKE_OK ? expect(p, ']') : status;
}

/* `out` becomes a list of what `item` is; takes `item` over. */
static lake_status wrap_list(struct type_parser *p, enum ArrowType type, int32_t size,
                             struct ArrowSchema *item, struct ArrowSchema *out)
{
    int code = type == NANOARROW_TYPE_FIXED_SIZE_LIST ? ArrowSchemaSetTypeFixedSize(out, type, size)
                                                      : ArrowSchemaSetType(out, type);
    if (code == NANOARROW_OK) {
        ArrowSchemaRelease(out->children[0]);
        ArrowSchemaMove(item, out->children[0]);
        code = ArrowSchemaSetName(out->children[0], "item");
    } else {
        ArrowSchemaRelease(item);
    }
    return code == NANOARROW_OK ? LAKE_OK : fail_code(p, code);
}

static lake_status parse_list(struct type_parser *p, enum ArrowType type, uint32_t depth,
                              struct ArrowSchema *out)
{
    struct ArrowSchema item;
    int32_t size = 0;
    ArrowSchemaInit(&item);
    lake_status status = expect(p, '<');
    if (status == LAKE_OK) {
        status = parse_type(p, depth + 1, &item);
    }
    if (status == LAKE_OK) {
        status = expect(p, '>');
    }
    if (status == LAKE_OK && type == NANOARROW_TYPE_FIXED_SIZE_LIST) {
        status = parse_size(p, &size);
    }
    if (status != LAKE_OK) {
        ArrowSchemaRelease(&item);
        return status;
    }
    return wrap_list(p, type, size, &item, out);
}

static lake_status parse_map(struct type_parser *p, uint32_t depth, struct ArrowSchema *out)
{
    int code = ArrowSchemaSetType(out, NANOARROW_TYPE_MAP);
    if (code != NANOARROW_OK) {
        return fail_code(p, code);
    }
    struct ArrowSchema *entries = out->children[0];
    lake_status status = expect(p, '<');
    for (int i = 0; status == LAKE_OK && i < 2; i++) {
        struct ArrowSchema *child = entries->children[i];
        ArrowSchemaRelease(child);
        ArrowSchemaInit(child);
        status = parse_type(p, depth + 2, child);
        if (status == LAKE_OK && ArrowSchemaSetName(child, i == 0 ? "key" : "value") != 0) {
            status = fail_code(p, ENOMEM);
        }
        if (status == LAKE_OK) {
            status = expect(p, i == 0 ? ',' : '>');
        }
    }
    entries->children[0]->flags &= ~(int64_t)ARROW_FLAG_NULLABLE;
    return status;
}

static lake_status parse_field_name(struct type_parser *p, struct ArrowSchema *field)
{
    size_t start = p->position;
    struct lake_str name = take_word(p);
    char copy[256];
    if (name.size == 0 || name.size >= sizeof(copy)) {
        return fail_at(p, start, "a field name");
    }
    memcpy(copy, name.data, name.size);
    copy[name.size] = '\0';
    int code = ArrowSchemaSetName(field, copy);
    return code == NANOARROW_OK ? expect(p, ':') : fail_code(p, code);
}

#define MAX_STRUCT_FIELDS 1024

static lake_status parse_struct(struct type_parser *p, uint32_t depth, struct ArrowSchema *out)
{
    /* Fields are parsed into a list first: how many there are is known at the end only. */
    struct ArrowSchema *fields = base_calloc_array(MAX_STRUCT_FIELDS, sizeof(*fields));
    int64_t count = 0;
    if (fields == NULL) {
        return base_fail_no_memory(p->err, MAX_STRUCT_FIELDS);
    }
    lake_status status = expect(p, '<');
    do {
        if (status == LAKE_OK && count == MAX_STRUCT_FIELDS) {
            status = fail_at(p, p->position, "at most 1024 fields");
        }
        if (status != LAKE_OK) {
            break;
        }
        struct ArrowSchema *field = &fields[count++];
        struct ArrowSchema type;
        ArrowSchemaInit(field);
        ArrowSchemaInit(&type);
        status = parse_field_name(p, field);
        if (status == LAKE_OK) {
            status = parse_type(p, depth + 1, &type);
        }
        if (status == LAKE_OK && ArrowSchemaSetName(&type, field->name) != NANOARROW_OK) {
            status = fail_code(p, ENOMEM);
        }
        if (status == LAKE_OK) {
            ArrowSchemaRelease(field);
            ArrowSchemaMove(&type, field);
        } else {
            ArrowSchemaRelease(&type);
        }
    } while (status == LAKE_OK && try_char(p, ','));
    if (status == LAKE_OK) {
        status = expect(p, '>');
    }
    if (status == LAKE_OK) {
        int code = ArrowSchemaSetTypeStruct(out, count);
        status = code == NANOARROW_OK ? LAKE_OK : fail_code(p, code);
    }
    for (int64_t i = 0; i < count; i++) {
        if (status == LAKE_OK) {
            ArrowSchemaRelease(out->children[i]);
            ArrowSchemaMove(&fields[i], out->children[i]);
        } else if (fields[i].release != NULL) {
            ArrowSchemaRelease(&fields[i]);
        }
    }
    base_free(fields);
    return status;
}

static lake_status parse_dictionary(struct type_parser *p, uint32_t depth, struct ArrowSchema *out)
{
    lake_status status = expect(p, '<');
    size_t start = p->position;
    if (status == LAKE_OK) {
        status = parse_type(p, depth + 1, out);
    }
    if (status == LAKE_OK && strchr("cCsSiIlL", out->format[0]) == NULL) {
        status = fail_at(p, start, "an integer type");
    }
    if (status == LAKE_OK) {
        status = expect(p, ',');
    }
    if (status == LAKE_OK) {
        int code = ArrowSchemaAllocateDictionary(out);
        if (code != NANOARROW_OK) {
            return fail_code(p, code);
        }
        ArrowSchemaInit(out->dictionary);
        start = p->position;
        status = parse_type(p, depth + 1, out->dictionary);
        if (status == LAKE_OK && out->dictionary->dictionary != NULL) {
            status = fail_at(p, start, "a type that is not itself a dictionary");
        }
    }
    return status == LAKE_OK ? expect(p, '>') : status;
}

static lake_status parse_named(struct type_parser *p, struct lake_str word, size_t start,
                               uint32_t depth, struct ArrowSchema *out)
{
    static const struct {
        const char *name;
        enum ArrowType type;
    } temporal[] = {
        {"time32", NANOARROW_TYPE_TIME32},
        {"time64", NANOARROW_TYPE_TIME64},
        {"timestamp", NANOARROW_TYPE_TIMESTAMP},
        {"duration", NANOARROW_TYPE_DURATION},
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(simple_types); i++) {
        if (base_str_equal_c(word, simple_types[i].name)) {
            int code = ArrowSchemaSetType(out, simple_types[i].type);
            return code == NANOARROW_OK ? LAKE_OK : fail_code(p, code);
        }
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(temporal); i++) {
        if (base_str_equal_c(word, temporal[i].name)) {
            return parse_temporal(p, temporal[i].type, out);
        }
    }
    if (base_str_equal_c(word, "decimal") || base_str_equal_c(word, "decimal128")) {
        return parse_decimal(p, out);
    }
    if (base_str_equal_c(word, "fixed_size_binary")) {
        int32_t size = 0;
        lake_status status = parse_size(p, &size);
        int code = status == LAKE_OK
                       ? ArrowSchemaSetTypeFixedSize(out, NANOARROW_TYPE_FIXED_SIZE_BINARY, size)
                       : NANOARROW_OK;
        return code == NANOARROW_OK ? status : fail_code(p, code);
    }
    if (base_str_equal_c(word, "list")) {
        return parse_list(p, NANOARROW_TYPE_LIST, depth, out);
    }
    if (base_str_equal_c(word, "large_list")) {
        return parse_list(p, NANOARROW_TYPE_LARGE_LIST, depth, out);
    }
    if (base_str_equal_c(word, "fixed_size_list")) {
        return parse_list(p, NANOARROW_TYPE_FIXED_SIZE_LIST, depth, out);
    }
    if (base_str_equal_c(word, "map")) {
        return parse_map(p, depth, out);
    }
    if (base_str_equal_c(word, "struct")) {
        return parse_struct(p, depth, out);
    }
    if (base_str_equal_c(word, "dictionary")) {
        return parse_dictionary(p, depth, out);
    }
    if (base_str_equal_c(word, "json")) {
        int code = ArrowSchemaSetType(out, NANOARROW_TYPE_STRING);
        return code == NANOARROW_OK
                   ? arrow_extension_set(out, ARROW_JSON_EXTENSION_NAME, NULL, p->err)
                   : fail_code(p, code);
    }
    if (base_str_equal_c(word, "FILE") || base_str_equal_c(word, "file")) {
        ArrowSchemaRelease(out);
        lake_status status = arrow_file_schema_init(out, "", true, p->err);
        if (status != LAKE_OK) {
            ArrowSchemaInit(out);
        }
        return status;
    }
    return fail_at(p, start, "a type");
}

/* `out` is initialised, without a type; the caller releases it, also on failure. */
static lake_status parse_type(struct type_parser *p, uint32_t depth, struct ArrowSchema *out)
{
    if (depth > ARROW_MAX_DEPTH) {
        return fail_at(p, p->position, "fewer levels");
    }
    skip_blanks(p);
    size_t start = p->position;
    lake_status status = parse_named(p, take_word(p), start, depth, out);
    for (uint32_t i = depth; status == LAKE_OK; i++) {
        skip_blanks(p);
        if (p->position == p->text.size || p->text.data[p->position] != '[') {
            break;
        }
        int32_t size = 0;
        struct ArrowSchema item;
        status =
            i > ARROW_MAX_DEPTH ? fail_at(p, p->position, "fewer levels") : parse_size(p, &size);
        if (status == LAKE_OK) {
            ArrowSchemaMove(out, &item);
            ArrowSchemaInit(out);
            status = wrap_list(p, NANOARROW_TYPE_FIXED_SIZE_LIST, size, &item, out);
        }
    }
    if (status == LAKE_OK && try_char(p, '!')) {
        out->flags &= ~(int64_t)ARROW_FLAG_NULLABLE;
    }
    return status;
}

lake_status arrow_type_parse(struct lake_str text, const char *name, struct ArrowSchema *out,
                             struct lake_error *err)
{
    struct type_parser parser = {.text = text, .err = err};
    struct ArrowSchema schema;
    ArrowSchemaInit(&schema);
    lake_status status = parse_type(&parser, 0, &schema);
    skip_blanks(&parser);
    if (status == LAKE_OK && parser.position != text.size) {
        status = fail_at(&parser, parser.position, "the end");
    }
    if (status == LAKE_OK && ArrowSchemaSetName(&schema, name) != NANOARROW_OK) {
        status = fail_code(&parser, ENOMEM);
    }
    if (status != LAKE_OK) {
        ArrowSchemaRelease(&schema);
        return status;
    }
    ArrowSchemaMove(&schema, out);
    return LAKE_OK;
}
