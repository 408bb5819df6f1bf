#include "jsonb.h"

#include "array_build.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lake_status broken(struct lake_error *err)
{
    return lake_fail(err, LAKE_DATA_LOSS, "a JSON value is not in its binary form");
}

static uint32_t load_u32be(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static lake_status put(struct base_buffer *out, const char *text, size_t size,
                       struct lake_error *err)
{
    return base_buffer_append(out, text, size, err);
}

/* ---- numbers ---- */

/* The shortest digits that read back as `value`, which is finite and not 0: d.ddd and the exponent
 * of the first. Returns how many there are. */
static int shortest_digits(double value, char digits[32], int *exponent)
{
    char text[40];
    bool subnormal = fabs(value) < DBL_MIN;
    for (int precision = subnormal ? 1 : 15; precision <= 17; precision++) {
        (void)snprintf(text, sizeof(text), "%.*e", precision - 1, fabs(value));
        if (strtod(text, NULL) == fabs(value))
            break;
    }
    int count = 0;
    const char *at = text;
    for (; *at != 'e'; at++)
        if (*at >= '0' && *at <= '9')
            digits[count++] = *at;
    *exponent = (int)strtol(at + 1, NULL, 10);
    while (count > 1 && digits[count - 1] == '0')
        count--;
    return count;
}

/* As the reference prints: plain from 1e-5 up to below 1e16, else with an exponent. */
static lake_status put_double(double value, struct base_buffer *out, struct lake_error *err)
{
    char digits[32], text[64];
    int exponent = 0, at = 0;
    if (!isfinite(value))
        return put(out, "null", 4, err);
    if (value == 0)
        return signbit(value) ? put(out, "-0.0", 4, err) : put(out, "0.0", 3, err);
    int count = shortest_digits(value, digits, &exponent);
    if (value < 0)
        text[at++] = '-';
    if (exponent < -5 || exponent > 15) {
        text[at++] = digits[0];
        if (count > 1)
            text[at++] = '.';
        for (int i = 1; i < count; i++)
            text[at++] = digits[i];
        at += snprintf(text + at, sizeof(text) - (size_t)at, "e%+d", exponent);
        return put(out, text, (size_t)at, err);
    }
    int whole = exponent + 1; /* digits before the point; below 1 zeros come after it */
    for (int i = 0; i < whole; i++)
        text[at++] = i < count ? digits[i] : '0';
    if (whole <= 0)
        text[at++] = '0';
    text[at++] = '.';
    for (int i = whole; i < 0; i++)
        text[at++] = '0';
    for (int i = whole > 0 ? whole : 0; i < count; i++)
        text[at++] = digits[i];
    if (whole >= count)
        text[at++] = '0';
    return put(out, text, (size_t)at, err);
}

static lake_status put_number(struct lake_bytes bytes, struct base_buffer *out,
                              struct lake_error *err)
{
    char text[32];
    uint64_t bits = 0;
    if (bytes.size < 1)
        return broken(err);
    unsigned kind = bytes.data[0] >> 4;
    size_t size = bytes.size - 1;
    if ((bytes.data[0] & 15) != 0 || kind > LANCE_JSON_FLOAT)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "a JSON number of kind %u", bytes.data[0]);
    if (kind < LANCE_JSON_INT ? size != 0
                              : (size == 0 || size > 8 || (kind == LANCE_JSON_FLOAT && size != 8)))
        return broken(err);
    for (size_t i = 0; i < size; i++)
        bits = bits << 8 | bytes.data[1 + i];
    switch (kind) {
    case LANCE_JSON_ZERO:
        return put(out, "0", 1, err);
    case LANCE_JSON_NAN:
    case LANCE_JSON_INFINITY:
    case LANCE_JSON_MINUS_INFINITY:
        return put(out, "null", 4, err);
    case LANCE_JSON_INT:
        if (size < 8 && (bits >> (8 * size - 1) & 1) != 0)
            bits |= UINT64_MAX << (8 * size);
        (void)snprintf(text, sizeof(text), "%" PRId64, (int64_t)bits);
        return put(out, text, strlen(text), err);
    case LANCE_JSON_UINT:
        (void)snprintf(text, sizeof(text), "%" PRIu64, bits);
        return put(out, text, strlen(text), err);
    default: {
        double value;
        memcpy(&value, &bits, sizeof(value));
        return put_double(value, out, err);
    }
    }
}

/* ---- strings ---- */

static lake_status put_escaped(uint8_t c, struct base_buffer *out, struct lake_error *err)
{
    static const char letters[] = "btn?fr"; /* from 8 on */
    char text[8];
    if (c == '"' || c == '\\')
        (void)snprintf(text, sizeof(text), "\\%c", c);
    else if (c >= 8 && c <= 13 && c != 11)
        (void)snprintf(text, sizeof(text), "\\%c", letters[c - 8]);
    else
        (void)snprintf(text, sizeof(text), "\\u%04x", c);
    return put(out, text, strlen(text), err);
}

static lake_status put_string(struct lake_bytes bytes, struct base_buffer *out,
                              struct lake_error *err)
{
    if (!base_utf8_valid((struct lake_str){(const char *)bytes.data, bytes.size}))
        return lake_fail(err, LAKE_DATA_LOSS, "a string of a JSON value is not UTF-8");
    lake_status status = put(out, "\"", 1, err);
    size_t from = 0;
    for (size_t i = 0; status == LAKE_OK && i <= bytes.size; i++) {
        bool end = i == bytes.size;
        if (!end && bytes.data[i] >= 0x20 && bytes.data[i] != '"' && bytes.data[i] != '\\')
            continue;
        if (i > from)
            status = put(out, (const char *)bytes.data + from, i - from, err);
        if (status == LAKE_OK && !end)
            status = put_escaped(bytes.data[i], out, err);
        from = i + 1;
    }
    return status == LAKE_OK ? put(out, "\"", 1, err) : status;
}

/* ---- containers ---- */

static lake_status put_container(struct lake_bytes bytes, unsigned depth, struct base_buffer *out,
                                 struct lake_error *err);

static lake_status put_entry(uint32_t entry, struct lake_bytes bytes, unsigned depth,
                             struct base_buffer *out, struct lake_error *err)
{
    unsigned kind = entry >> 28 & 7;
    switch (kind) {
    case LANCE_JSON_NULL:
        return put(out, "null", 4, err);
    case LANCE_JSON_FALSE:
        return put(out, "false", 5, err);
    case LANCE_JSON_TRUE:
        return put(out, "true", 4, err);
    case LANCE_JSON_STRING:
        return put_string(bytes, out, err);
    case LANCE_JSON_NUMBER:
        return put_number(bytes, out, err);
    case LANCE_JSON_CONTAINER:
        return put_container(bytes, depth + 1, out, err);
    default:
        return lake_fail(err, LAKE_UNIMPLEMENTED, "a JSON value of kind %u", kind);
    }
}

/* Takes the next part of a container. */
static bool take_part(struct base_cursor *parts, uint32_t entry, struct lake_bytes *out)
{
    return base_cursor_take(parts, entry & LANCE_JSON_SIZE_MASK, out);
}

static lake_status put_object(const uint8_t *entries, uint32_t count, struct lake_bytes parts,
                              unsigned depth, struct base_buffer *out, struct lake_error *err)
{
    struct base_cursor keys = base_cursor_of(parts), values = keys;
    struct lake_bytes key, value;
    for (uint32_t i = 0; i < count; i++)
        if (!take_part(&values, load_u32be(entries + 4 * (size_t)i), &key))
            return broken(err);
    lake_status status = put(out, "{", 1, err);
    for (uint32_t i = 0; status == LAKE_OK && i < count; i++) {
        uint32_t key_entry = load_u32be(entries + 4 * (size_t)i);
        uint32_t entry = load_u32be(entries + 4 * ((size_t)count + i));
        if (!take_part(&keys, key_entry, &key) || !take_part(&values, entry, &value))
            return broken(err);
        if (i > 0)
            status = put(out, ",", 1, err);
        if (status == LAKE_OK)
            status = put_string(key, out, err);
        if (status == LAKE_OK)
            status = put(out, ":", 1, err);
        if (status == LAKE_OK)
            status = put_entry(entry, value, depth, out, err);
    }
    return status == LAKE_OK ? put(out, "}", 1, err) : status;
}

static lake_status put_array(const uint8_t *entries, uint32_t count, struct lake_bytes parts,
                             unsigned depth, struct base_buffer *out, struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(parts);
    struct lake_bytes value;
    lake_status status = put(out, "[", 1, err);
    for (uint32_t i = 0; status == LAKE_OK && i < count; i++) {
        uint32_t entry = load_u32be(entries + 4 * (size_t)i);
        if (!take_part(&cursor, entry, &value))
            return broken(err);
        if (i > 0)
            status = put(out, ",", 1, err);
        if (status == LAKE_OK)
            status = put_entry(entry, value, depth, out, err);
    }
    return status == LAKE_OK ? put(out, "]", 1, err) : status;
}

/* A document that is no container itself. */
static lake_status put_scalar(const uint8_t *entry, struct lake_bytes parts, unsigned depth,
                              struct base_buffer *out, struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(parts);
    struct lake_bytes value;
    if (!take_part(&cursor, load_u32be(entry), &value))
        return broken(err);
    return put_entry(load_u32be(entry), value, depth, out, err);
}

static lake_status put_container(struct lake_bytes bytes, unsigned depth, struct base_buffer *out,
                                 struct lake_error *err)
{
    if (depth > LANCE_MAX_JSON_DEPTH)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "a JSON value is nested deeper than %d",
                         LANCE_MAX_JSON_DEPTH);
    if (bytes.size < 4)
        return broken(err);
    uint32_t header = load_u32be(bytes.data), count = header & LANCE_JSON_COUNT_MASK;
    unsigned kind = header >> 29;
    size_t entries =
        kind == LANCE_JSON_SCALAR ? 1 : (size_t)count * (kind == LANCE_JSON_OBJECT ? 2 : 1);
    if (entries > (bytes.size - 4) / 4)
        return broken(err);
    const uint8_t *first = bytes.data + 4;
    struct lake_bytes parts = {first + 4 * entries, bytes.size - 4 - 4 * entries};
    switch (kind) {
    case LANCE_JSON_SCALAR:
        return put_scalar(first, parts, depth, out, err);
    case LANCE_JSON_OBJECT:
        return put_object(first, count, parts, depth, out, err);
    case LANCE_JSON_ARRAY:
        return put_array(first, count, parts, depth, out, err);
    default:
        return broken(err);
    }
}

lake_status lance_jsonb_to_text(struct lake_bytes document, struct base_buffer *out,
                                struct lake_error *err)
{
    return document.size == 0 ? put(out, "null", 4, err) : put_container(document, 0, out, err);
}

/* ---- arrays ---- */

static lake_status append_texts(const struct ArrowArray *array, struct lance_leaf_values *values,
                                struct lance_layer_out *layer, struct lake_error *err)
{
    const uint8_t *offsets = array->buffers[1], *data = array->buffers[2];
    struct base_buffer text;
    lake_status status = LAKE_OK;
    base_buffer_init(&text, INT32_MAX);
    for (int64_t i = 0; status == LAKE_OK && i < array->length; i++) {
        const uint8_t *valid = array->null_count == 0 ? NULL : array->buffers[0];
        bool null = valid != NULL && (valid[i / 8] >> (i % 8) & 1) == 0;
        uint64_t from = base_load_u64le(offsets + 8 * i), to = base_load_u64le(offsets + 8 * i + 8);
        base_buffer_clear(&text);
        if (!null)
            status = lance_jsonb_to_text((struct lake_bytes){data + from, (size_t)(to - from)},
                                         &text, err);
        if (status == LAKE_OK)
            status = lance_leaf_values_append_one(values, text.data, text.size, err);
        if (status == LAKE_OK)
            status = lance_bits_append_run(&layer->valid, !null, 1, err);
        layer->null_count += null;
        layer->length++;
    }
    base_buffer_fini(&text);
    return status;
}

lake_status lance_jsonb_array_to_text(struct ArrowArray *array, struct lake_error *err)
{
    static const struct lance_leaf_type utf8 = {
        .kind = LANCE_LEAF_VARIABLE, .items = 1, .offset_bytes = 4};
    struct lance_leaf_values values;
    struct lance_layer_out layer = {0};
    struct ArrowArray made = {.release = NULL};
    lance_leaf_values_init(&values, &utf8);
    lance_bits_init(&layer.valid);
    lake_status status = append_texts(array, &values, &layer, err);
    if (status == LAKE_OK)
        status = lance_array_of_leaf(&values, &layer, NULL, &made, err);
    array->release(array);
    if (status == LAKE_OK)
        *array = made;
    lance_bits_fini(&layer.valid);
    lance_leaf_values_fini(&values);
    return status;
}
