/* JSON: jansson's parser behind limits, and writing of strings. */
#include "base.h"
#include "base_internal.h"

#include <jansson.h>

#define MAX_DEPTH 64

/* Depth by counting brackets outside strings. It runs before the parser, so that no input decides
 * how deep the parser recurses. */
static bool depth_within_limit(struct lake_bytes text)
{
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > MAX_DEPTH)
                return false;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return true;
}

lake_status base_json_parse(struct lake_bytes text, size_t max_bytes, struct json_t **out,
                            struct lake_error *err)
{
    if (text.size > max_bytes)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a JSON text has %zu bytes, the limit is %zu",
                         text.size, max_bytes);
    if (!depth_within_limit(text))
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a JSON text is nested deeper than %d levels",
                         MAX_DEPTH);
    json_error_t problem;
    const char *data = text.data == NULL ? "" : (const char *)text.data;
    json_t *value = json_loadb(data, text.size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &problem);
    if (value == NULL) {
        if (json_error_code(&problem) == json_error_out_of_memory)
            return base_fail_no_memory(err, text.size);
        /* problem.text quotes the input near the fault, which may be anything: not repeated. */
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a JSON text is malformed at line %d column %d", problem.line,
                         problem.column);
    }
    *out = value;
    return LAKE_OK;
}

/* The escape of `c` within a JSON string, or NULL when it stands for itself. `scratch` may hold
 * the result. */
static const char *escape_of(uint8_t c, char scratch[7])
{
    static const char digits[] = "0123456789abcdef";
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        break;
    }
    if (c >= 0x20 && c != 0x7F)
        return NULL;
    scratch[0] = '\\';
    scratch[1] = 'u';
    scratch[2] = '0';
    scratch[3] = '0';
    scratch[4] = digits[c >> 4];
    scratch[5] = digits[c & 15];
    scratch[6] = '\0';
    return scratch;
}

lake_status base_json_append_string(struct base_buffer *buffer, struct lake_str s,
                                    struct lake_error *err)
{
    size_t size_before = buffer->size;
    lake_status status = base_buffer_append(buffer, "\"", 1, err);
    const uint8_t *p = (const uint8_t *)s.data;
    size_t plain = 0; /* bytes before position i that are not yet appended */
    size_t i = 0;
    while (status == LAKE_OK && i < s.size) {
        char scratch[7];
        size_t step = base_utf8_step(p + i, s.size - i);
        const char *instead = step == 0   ? "\xEF\xBF\xBD"
                              : step == 1 ? escape_of(p[i], scratch)
                                          : NULL;
        if (instead != NULL) {
            status = base_buffer_append(buffer, p + (i - plain), plain, err);
            if (status == LAKE_OK)
                status = base_buffer_append(buffer, instead, base_str_of(instead).size, err);
            plain = 0;
        } else {
            plain += step;
        }
        i += step == 0 ? 1 : step;
    }
    if (status == LAKE_OK && plain > 0)
        status = base_buffer_append(buffer, p + (s.size - plain), plain, err);
    if (status == LAKE_OK)
        status = base_buffer_append(buffer, "\"", 1, err);
    if (status != LAKE_OK)
        buffer->size = size_before;
    return status;
}
