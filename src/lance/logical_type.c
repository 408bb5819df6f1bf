/*
 * Lance's textual logical types and Arrow's formats, both ways. Formats of the Arrow C data
 * interface are as compact as Lance's names, so one table and a few patterns are enough.
 */
#include "schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BFLOAT16 "lance.bfloat16"

struct simple_type {
    const char *logical;
    const char *format;
};

static const struct simple_type simple_types[] = {
    {"null", "n"},          {"bool", "b"},          {"int8", "c"},
    {"uint8", "C"},         {"int16", "s"},         {"uint16", "S"},
    {"int32", "i"},         {"uint32", "I"},        {"int64", "l"},
    {"uint64", "L"},        {"halffloat", "e"},     {"float", "f"},
    {"double", "g"},        {"string", "u"},        {"large_string", "U"},
    {"binary", "z"},        {"large_binary", "Z"},  {"date32:day", "tdD"},
    {"date64:ms", "tdm"},   {"time32:s", "tts"},    {"time32:ms", "ttm"},
    {"time64:us", "ttu"},   {"time64:ns", "ttn"},   {"duration:s", "tDs"},
    {"duration:ms", "tDm"}, {"duration:us", "tDu"}, {"duration:ns", "tDn"},
    {"struct", "+s"},       {"map", "+m"},          {"list", "+l"},
    {"large_list", "+L"},   {"list.struct", "+l"},  {"large_list.struct", "+L"},
    {"json", "Z"},
};

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static const char *unit_name(char unit)
{
    switch (unit) {
    case 's':
        return "s";
    case 'm':
        return "ms";
    case 'u':
        return "us";
    default:
        return "ns";
    }
}

static char unit_letter(struct lake_str name)
{
    static const char letters[] = {'s', 'm', 'u', 'n'};
    for (size_t i = 0; i < BASE_ARRAY_LEN(letters); i++) {
        if (base_str_equal_c(name, unit_name(letters[i]))) {
            return letters[i];
        }
    }
    return '\0';
}

/* `count` whole numbers with `separator` between them and nothing else in `text`. */
static bool parse_numbers(const char *text, char separator, int *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *end = i + 1 < count ? strchr(text, separator) : text + strlen(text);
        bool negative = *text == '-';
        uint64_t value;
        text += negative ? 1 : 0;
        if (end == NULL || end < text ||
            !base_str_to_u64((struct lake_str){text, (size_t)(end - text)}, &value) ||
            value > 1000) {
            return false;
        }
        out[i] = negative ? -(int)value : (int)value;
        text = end + 1;
    }
    return true;
}

/* ---- Arrow to logical ---- */

static lake_status not_representable(const struct ArrowSchema *field, struct lake_error *err)
{
    return lake_fail(err, LAKE_INVALID_ARGUMENT,
                     "column %s has the Arrow format '%.60s', which a Lance table cannot hold; "
                     "choose another type",
                     field->name == NULL ? "?" : field->name, field->format);
}

static lake_status print_type(char *out, struct lake_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static lake_status print_type(char *out, struct lake_error *err, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(out, LANCE_LOGICAL_TYPE_BYTES, format, arguments);
    va_end(arguments);
    if (length < 0 || length >= LANCE_LOGICAL_TYPE_BYTES) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the name of a column's type is longer than %d bytes",
                         LANCE_LOGICAL_TYPE_BYTES - 1);
    }
    return LAKE_OK;
}

static lake_status decimal_of(const struct ArrowSchema *field, char *out, struct lake_error *err)
{
    int parts[3] = {0, 0, 128}; /* precision, scale, bits */
    const char *text = field->format + 2;
    if ((!parse_numbers(text, ',', parts, 2) && !parse_numbers(text, ',', parts, 3)) ||
        (parts[2] != 128 && parts[2] != 256) || parts[0] < 1 ||
        parts[0] > (parts[2] == 128 ? 38 : 76)) {
        return not_representable(field, err);
    }
    return print_type(out, err, "decimal:%d:%d:%d", parts[2], parts[0], parts[1]);
}

static lake_status fixed_size_list_of(const struct ArrowSchema *field, char *out,
                                      struct lake_error *err)
{
    char item[LANCE_LOGICAL_TYPE_BYTES];
    uint64_t size;
    if (field->n_children != 1 || !base_str_to_u64(base_str_of(field->format + 3), &size) ||
        size == 0 || size > INT32_MAX) {
        return not_representable(field, err);
    }
    const struct ArrowSchema *child = field->children[0];
    if (arrow_extension_is(child, BFLOAT16)) {
        return print_type(out, err, "fixed_size_list:" BFLOAT16 ":%" PRIu64, size);
    }
    lake_status status = lance_logical_type_of(child, item, err);
    if (status != LAKE_OK) {
        return status;
    }
    bool nested = child->format[0] == '+' && !has_prefix(child->format, "+w:");
    if (nested && strcmp(item, "struct") != 0) {
        return not_representable(field, err);
    }
    if (child->dictionary != NULL || strchr("nuUzZ", child->format[0]) != NULL) {
        return not_representable(field, err);
    }
    return print_type(out, err, "fixed_size_list:%s:%" PRIu64, item, size);
}

static lake_status dictionary_of(const struct ArrowSchema *field, char *out, struct lake_error *err)
{
    char value[LANCE_LOGICAL_TYPE_BYTES];
    struct ArrowSchema index = *field;
    index.dictionary = NULL;
    char key[LANCE_LOGICAL_TYPE_BYTES];
    lake_status status = lance_logical_type_of(&index, key, err);
    if (status == LAKE_OK) {
        status = lance_logical_type_of(field->dictionary, value, err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    if (strchr("cCsSiIlL", field->format[0]) == NULL || strchr(value, ':') != NULL ||
        field->dictionary->format[0] == '+' || field->dictionary->format[0] == 'n' ||
        field->dictionary->dictionary != NULL) {
        return not_representable(field, err);
    }
    return print_type(out, err, "dict:%s:%s:false", value, key);
}

/* Rows come as text, whatever form the file has. */
static lake_status json_of(const struct ArrowSchema *field, char *out, struct lake_error *err)
{
    if (strcmp(field->format, "u") != 0 || !arrow_extension_is(field, ARROW_JSON_EXTENSION_NAME)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column %s is JSON with the Arrow format '%.10s'; JSON is written from "
                         "text: arrow.json over utf8",
                         field->name == NULL ? "?" : field->name, field->format);
    }
    return print_type(out, err, "json");
}

lake_status lance_logical_type_of(const struct ArrowSchema *field, char *out,
                                  struct lake_error *err)
{
    const char *format = field->format;
    if (format == NULL || format[0] == '\0') {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "column %s has no Arrow format",
                         field->name == NULL ? "?" : field->name);
    }
    if (field->dictionary != NULL) {
        return dictionary_of(field, out, err);
    }
    if (strcmp(format, "+m") == 0 && (field->flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column %s is a map with sorted keys, which a Lance table cannot hold",
                         field->name == NULL ? "?" : field->name);
    }
    if ((strcmp(format, "+l") == 0 || strcmp(format, "+L") == 0) && field->n_children == 1) {
        const char *item = field->children[0]->format;
        bool of_struct = item != NULL && strcmp(item, "+s") == 0;
        return print_type(out, err, "%s%s", format[1] == 'l' ? "list" : "large_list",
                          of_struct ? ".struct" : "");
    }
    if (arrow_extension_is(field, ARROW_JSON_EXTENSION_NAME) ||
        arrow_extension_is(field, "lance.json")) {
        return json_of(field, out, err);
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(simple_types); i++) {
        if (strcmp(format, simple_types[i].format) == 0) {
            return print_type(out, err, "%s", simple_types[i].logical);
        }
    }
    if (has_prefix(format, "ts") && format[2] != '\0' && strchr("smun", format[2]) != NULL &&
        format[3] == ':') {
        return print_type(out, err, "timestamp:%s:%s", unit_name(format[2]),
                          format[4] == '\0' ? "-" : format + 4);
    }
    if (has_prefix(format, "d:")) {
        return decimal_of(field, out, err);
    }
    if (has_prefix(format, "w:")) {
        return print_type(out, err, "fixed_size_binary:%s", format + 2);
    }
    if (has_prefix(format, "+w:")) {
        return fixed_size_list_of(field, out, err);
    }
    return not_representable(field, err);
}

/* ---- logical to Arrow ---- */

enum lance_node_kind lance_logical_type_kind(const char *logical_type)
{
    if (strcmp(logical_type, "struct") == 0) {
        return LANCE_NODE_STRUCT;
    }
    if (strcmp(logical_type, "map") == 0) {
        return LANCE_NODE_MAP;
    }
    if (strcmp(logical_type, "list") == 0 || strcmp(logical_type, "list.struct") == 0 ||
        strcmp(logical_type, "large_list") == 0 || strcmp(logical_type, "large_list.struct") == 0) {
        return LANCE_NODE_LIST;
    }
    if (has_prefix(logical_type, "fixed_size_list:struct:")) {
        return LANCE_NODE_FSL_STRUCT;
    }
    return LANCE_NODE_LEAF;
}

static lake_status unknown_type(const char *logical_type, struct lake_error *err)
{
    return lake_fail(err, LAKE_UNIMPLEMENTED, "the Lance logical type '%.120s' is not known",
                     logical_type);
}

static lake_status set_format(struct ArrowSchema *out, const char *format, struct lake_error *err)
{
    if (ArrowSchemaSetFormat(out, format) != NANOARROW_OK) {
        return base_fail_no_memory(err, strlen(format) + 1);
    }
    return LAKE_OK;
}

/* Splits at ':' into at most `max` parts, the last of which takes the rest. */
static size_t split_parts(const char *text, struct lake_str *parts, size_t max)
{
    size_t count = 0;
    while (count + 1 < max) {
        const char *colon = strchr(text, ':');
        if (colon == NULL) {
            break;
        }
        parts[count++] = (struct lake_str){text, (size_t)(colon - text)};
        text = colon + 1;
    }
    parts[count++] = base_str_of(text);
    return count;
}

static lake_status apply_decimal(const char *logical_type, struct ArrowSchema *out,
                                 struct lake_error *err)
{
    int parts[3]; /* bits, precision, scale */
    char format[64];
    if (!parse_numbers(logical_type + strlen("decimal:"), ':', parts, 3) ||
        (parts[0] != 128 && parts[0] != 256) || parts[1] < 1 ||
        parts[1] > (parts[0] == 128 ? 38 : 76) || parts[2] < -76 || parts[2] > 76) {
        return unknown_type(logical_type, err);
    }
    (void)snprintf(format, sizeof(format), parts[0] == 128 ? "d:%d,%d" : "d:%d,%d,256", parts[1],
                   parts[2]);
    return set_format(out, format, err);
}

static lake_status apply_dictionary(const char *logical_type, struct ArrowSchema *out,
                                    struct lake_error *err)
{
    struct lake_str parts[4];
    char name[LANCE_LOGICAL_TYPE_BYTES];
    if (split_parts(logical_type, parts, 4) != 4 || parts[1].size >= sizeof(name) ||
        parts[2].size >= sizeof(name)) {
        return unknown_type(logical_type, err);
    }
    (void)snprintf(name, sizeof(name), "%.*s", LAKE_STR_FMT(parts[2]));
    lake_status status = lance_logical_type_apply(name, out, err);
    if (status != LAKE_OK) {
        return status;
    }
    if (strlen(out->format) != 1 || strchr("cCsSiIlL", out->format[0]) == NULL) {
        return unknown_type(logical_type, err);
    }
    (void)snprintf(name, sizeof(name), "%.*s", LAKE_STR_FMT(parts[1]));
    if (lance_logical_type_kind(name) != LANCE_NODE_LEAF) {
        return unknown_type(logical_type, err);
    }
    if (ArrowSchemaAllocateDictionary(out) != NANOARROW_OK) {
        return base_fail_no_memory(err, sizeof(struct ArrowSchema));
    }
    ArrowSchemaInit(out->dictionary);
    return lance_logical_type_apply(name, out->dictionary, err);
}

static lake_status set_item(struct ArrowSchema *item, struct lake_str type, struct lake_error *err)
{
    if (!base_str_equal_c(type, BFLOAT16)) {
        char name[LANCE_LOGICAL_TYPE_BYTES];
        (void)snprintf(name, sizeof(name), "%.*s", LAKE_STR_FMT(type));
        return lance_logical_type_apply(name, item, err);
    }
    lake_status status = arrow_extension_set(item, BFLOAT16, "", err);
    return status != LAKE_OK ? status : set_format(item, "w:2", err);
}

static lake_status apply_fixed_size_list(const char *logical_type, struct ArrowSchema *out,
                                         struct lake_error *err)
{
    const char *item = logical_type + strlen("fixed_size_list:");
    const char *colon = strrchr(item, ':');
    uint64_t size;
    char format[32];
    if (colon == NULL || !base_str_to_u64(base_str_of(colon + 1), &size) || size == 0 ||
        size > INT32_MAX || (size_t)(colon - item) >= LANCE_LOGICAL_TYPE_BYTES) {
        return unknown_type(logical_type, err);
    }
    (void)snprintf(format, sizeof(format), "+w:%" PRIu64, size);
    lake_status status = set_format(out, format, err);
    struct lake_str type = {item, (size_t)(colon - item)};
    if (status != LAKE_OK || base_str_equal_c(type, "struct")) {
        return status;
    }
    if (ArrowSchemaAllocateChildren(out, 1) != NANOARROW_OK) {
        return base_fail_no_memory(err, sizeof(struct ArrowSchema));
    }
    ArrowSchemaInit(out->children[0]);
    if (ArrowSchemaSetName(out->children[0], "item") != NANOARROW_OK) {
        return base_fail_no_memory(err, 5);
    }
    status = set_item(out->children[0], type, err);
    if (status != LAKE_OK) {
        return status;
    }
    const struct ArrowSchema *child = out->children[0];
    bool nested = child->format[0] == '+' && !has_prefix(child->format, "+w:");
    if (nested || child->dictionary != NULL || strchr("nuUzZ", child->format[0]) != NULL) {
        return unknown_type(logical_type, err);
    }
    return LAKE_OK;
}

static lake_status apply_timestamp(const char *logical_type, struct ArrowSchema *out,
                                   struct lake_error *err)
{
    struct lake_str parts[3];
    char format[LANCE_LOGICAL_TYPE_BYTES + 8];
    size_t count = split_parts(logical_type, parts, 3);
    char unit = count == 3 ? unit_letter(parts[1]) : '\0';
    if (unit == '\0') {
        return unknown_type(logical_type, err);
    }
    (void)snprintf(format, sizeof(format), "ts%c:%s", unit,
                   base_str_equal_c(parts[2], "-") ? "" : parts[2].data);
    return set_format(out, format, err);
}

lake_status lance_logical_type_apply(const char *logical_type, struct ArrowSchema *out,
                                     struct lake_error *err)
{
    if (strlen(logical_type) >= LANCE_LOGICAL_TYPE_BYTES) {
        return unknown_type(logical_type, err);
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(simple_types); i++) {
        if (strcmp(logical_type, simple_types[i].logical) == 0) {
            return set_format(out, simple_types[i].format, err);
        }
    }
    if (has_prefix(logical_type, "timestamp:")) {
        return apply_timestamp(logical_type, out, err);
    }
    if (has_prefix(logical_type, "decimal:")) {
        return apply_decimal(logical_type, out, err);
    }
    if (has_prefix(logical_type, "fixed_size_binary:")) {
        uint64_t width;
        char format[32];
        const char *text = logical_type + strlen("fixed_size_binary:");
        if (!base_str_to_u64(base_str_of(text), &width) || width == 0 || width > INT32_MAX) {
            return unknown_type(logical_type, err);
        }
        (void)snprintf(format, sizeof(format), "w:%" PRIu64, width);
        return set_format(out, format, err);
    }
    if (has_prefix(logical_type, "fixed_size_list:")) {
        return apply_fixed_size_list(logical_type, out, err);
    }
    if (has_prefix(logical_type, "dict:")) {
        return apply_dictionary(logical_type, out, err);
    }
    return unknown_type(logical_type, err);
}
