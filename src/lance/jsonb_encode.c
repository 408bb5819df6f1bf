/*
 * JSON text into its binary form.
 *
 * Values are finished from the inside out: what a container holds is appended to `parts`, member
 * behind member, with a note of each in `members`. When it ends, its header, its entries and its
 * members in their order take the place of what lies there.
 */
#include "jsonb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HALF_OF_PAIR(unit) ((unit) >= 0xD800 && (unit) <= 0xDFFF)

struct parser {
    struct lance_jsonb_encoder *encoder;
    const char *start, *at, *end;
    unsigned depth;
    struct lake_error *err;
};

static lake_status parse_value(struct parser *parser, uint32_t *entry);

/* ---- what is read ---- */

static lake_status refuse(const struct parser *parser, const char *why)
{
    return lake_fail(parser->err, LAKE_INVALID_ARGUMENT, "no JSON document: at byte %zu %s",
                     (size_t)(parser->at - parser->start), why);
}

static void skip_space(struct parser *parser)
{
    while (parser->at < parser->end && (*parser->at == ' ' || *parser->at == '\t' ||
                                        *parser->at == '\n' || *parser->at == '\r'))
        parser->at++;
}

static bool take(struct parser *parser, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(parser->end - parser->at) < size || memcmp(parser->at, word, size) != 0)
        return false;
    parser->at += size;
    return true;
}

static bool is_digit(const struct parser *parser)
{
    return parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9';
}

/* ---- what is made ---- */

static lake_status put(struct parser *parser, const void *data, size_t size)
{
    return base_buffer_append(&parser->encoder->parts, data, size, parser->err);
}

static lake_status put_word(struct base_buffer *out, uint32_t word, struct lake_error *err)
{
    const uint8_t bytes[4] = {(uint8_t)(word >> 24), (uint8_t)(word >> 16), (uint8_t)(word >> 8),
                              (uint8_t)word};
    return base_buffer_append(out, bytes, sizeof(bytes), err);
}

/* The entry of what was appended from `first` on. */
static lake_status entry_of(const struct parser *parser, enum lance_json_kind kind, size_t first,
                            uint32_t *out)
{
    size_t size = parser->encoder->parts.size - first;
    if (size > LANCE_JSON_SIZE_MASK)
        return refuse(parser, "a part of more than 256 MiB ends");
    *out = (uint32_t)kind << 28 | (uint32_t)size;
    return LAKE_OK;
}

/* ---- numbers ---- */

static lake_status put_number(struct parser *parser, enum lance_json_number kind, uint64_t bits,
                              size_t width)
{
    uint8_t bytes[9] = {(uint8_t)(kind << 4)};
    for (size_t i = 0; i < width; i++)
        bytes[1 + i] = (uint8_t)(bits >> (8 * (width - 1 - i)));
    return put(parser, bytes, 1 + width);
}

/* In as few of 1, 2, 4 and 8 bytes as hold it. False: not in 64 bits. */
static bool put_integer(struct parser *parser, const char *digits, const char *end, bool negative,
                        lake_status *status)
{
    uint64_t value = 0;
    size_t width = 1;
    for (const char *at = digits; at < end; at++)
        if (!base_u64_mul(value, 10, &value) || !base_u64_add(value, (uint64_t)(*at - '0'), &value))
            return false;
    if (negative && value > (UINT64_C(1) << 63))
        return false;
    if (value == 0)
        *status = put_number(parser, LANCE_JSON_ZERO, 0, 0);
    else if (negative) {
        while (width < 8 && value > UINT64_C(1) << (8 * width - 1))
            width *= 2;
        *status = put_number(parser, LANCE_JSON_INT, ~value + 1, width);
    } else {
        while (width < 8 && value >> (8 * width) != 0)
            width *= 2;
        *status = put_number(parser, LANCE_JSON_UINT, value, width);
    }
    return true;
}

static lake_status put_double(struct parser *parser, const char *text, size_t size)
{
    struct base_buffer *copy = &parser->encoder->whole;
    base_buffer_clear(copy);
    lake_status status = base_buffer_append(copy, text, size, parser->err);
    if (status == LAKE_OK)
        status = base_buffer_append(copy, "", 1, parser->err);
    if (status != LAKE_OK)
        return status;
    double value = strtod((const char *)copy->data, NULL);
    uint64_t bits;
    if (!isfinite(value))
        return refuse(parser, "a number ends that no double holds");
    memcpy(&bits, &value, sizeof(bits));
    return put_number(parser, LANCE_JSON_FLOAT, bits, 8);
}

static bool take_digits(struct parser *parser)
{
    bool any = is_digit(parser);
    while (is_digit(parser))
        parser->at++;
    return any;
}

static lake_status parse_number(struct parser *parser)
{
    const char *first = parser->at;
    lake_status status = LAKE_OK;
    bool negative = take(parser, "-"), whole = true;
    if (take(parser, "Infinity"))
        return put_number(parser, negative ? LANCE_JSON_MINUS_INFINITY : LANCE_JSON_INFINITY, 0, 0);
    const char *digits = parser->at;
    bool zero = take(parser, "0");
    if (zero ? is_digit(parser) : !take_digits(parser))
        return refuse(parser, zero ? "a digit follows a leading 0" : "a value is expected");
    const char *digits_end = parser->at;
    if (take(parser, ".")) {
        whole = false;
        if (!take_digits(parser))
            return refuse(parser, "a digit is expected");
    }
    if (take(parser, "e") || take(parser, "E")) {
        whole = false;
        if (!take(parser, "+"))
            (void)take(parser, "-");
        if (!take_digits(parser))
            return refuse(parser, "a digit is expected");
    }
    if (whole && put_integer(parser, digits, digits_end, negative, &status))
        return status;
    return put_double(parser, first, (size_t)(parser->at - first));
}

/* ---- strings ---- */

static bool take_unit(struct parser *parser, uint32_t *out)
{
    if (parser->end - parser->at < 4)
        return false;
    *out = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        char c = *parser->at;
        const char *found = c == '\0' ? NULL : strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c);
        if (found == NULL)
            return false;
        *out = *out << 4 | (uint32_t)(found - digits);
        parser->at++;
    }
    return true;
}

static lake_status put_code_point(struct parser *parser, uint32_t point)
{
    char utf8[4];
    size_t size = 0;
    if (point < 0x80) {
        utf8[size++] = (char)point;
    } else if (point < 0x800) {
        utf8[size++] = (char)(0xC0 | point >> 6);
    } else if (point < 0x10000) {
        utf8[size++] = (char)(0xE0 | point >> 12);
        utf8[size++] = (char)(0x80 | (point >> 6 & 0x3F));
    } else {
        utf8[size++] = (char)(0xF0 | point >> 18);
        utf8[size++] = (char)(0x80 | (point >> 12 & 0x3F));
        utf8[size++] = (char)(0x80 | (point >> 6 & 0x3F));
    }
    if (point >= 0x80)
        utf8[size++] = (char)(0x80 | (point & 0x3F));
    return put(parser, utf8, size);
}

static lake_status parse_escaped_unit(struct parser *parser)
{
    uint32_t point, low;
    if (!take_unit(parser, &point))
        return refuse(parser, "four hexadecimal digits are expected");
    if (!HALF_OF_PAIR(point))
        return put_code_point(parser, point);
    if (point > 0xDBFF || !take(parser, "\\u") || !take_unit(parser, &low) || low < 0xDC00 ||
        !HALF_OF_PAIR(low))
        return refuse(parser, "half of a surrogate pair stands alone");
    return put_code_point(parser, 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00));
}

static lake_status parse_escape(struct parser *parser)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (take(parser, "u"))
        return parse_escaped_unit(parser);
    const char *found =
        parser->at == parser->end || *parser->at == '\0' ? NULL : strchr(letters, *parser->at);
    if (found == NULL)
        return refuse(parser, "no such escape is known");
    parser->at++;
    return put(parser, &meant[found - letters], 1);
}

/* Behind its first quotation mark. */
static lake_status parse_string(struct parser *parser)
{
    lake_status status = LAKE_OK;
    while (status == LAKE_OK) {
        const char *plain = parser->at;
        while (parser->at < parser->end && (uint8_t)*parser->at >= 0x20 && *parser->at != '"' &&
               *parser->at != '\\')
            parser->at++;
        status = put(parser, plain, (size_t)(parser->at - plain));
        if (status != LAKE_OK || take(parser, "\""))
            return status;
        if (parser->at == parser->end)
            return refuse(parser, "a string has no end");
        if (!take(parser, "\\"))
            return refuse(parser, "a control character stands in a string; escape it");
        status = parse_escape(parser);
    }
    return status;
}

/* ---- containers ---- */

static lake_status new_member(struct parser *parser, size_t *index)
{
    struct lance_jsonb_encoder *encoder = parser->encoder;
    if (encoder->member_count == encoder->member_capacity) {
        size_t capacity = BASE_MAX(encoder->member_capacity * 2, (size_t)64);
        struct lance_jsonb_member *members =
            base_realloc_array(encoder->members, capacity, sizeof(*members));
        if (members == NULL)
            return base_fail_no_memory(parser->err, capacity * sizeof(*members));
        encoder->members = members;
        encoder->member_capacity = capacity;
    }
    *index = encoder->member_count++;
    encoder->members[*index] = (struct lance_jsonb_member){.key_at = encoder->parts.size};
    return LAKE_OK;
}

static lake_status parse_member(struct parser *parser, bool keyed)
{
    struct lance_jsonb_encoder *encoder = parser->encoder;
    size_t index = 0;
    uint32_t entry = 0;
    lake_status status = new_member(parser, &index);
    if (status != LAKE_OK)
        return status;
    if (keyed) {
        if (!take(parser, "\""))
            return refuse(parser, "a key in quotation marks is expected");
        status = parse_string(parser);
        if (status == LAKE_OK)
            status = entry_of(parser, LANCE_JSON_STRING, encoder->members[index].key_at, &entry);
        encoder->members[index].key_size = entry & LANCE_JSON_SIZE_MASK;
        skip_space(parser);
        if (status == LAKE_OK && !take(parser, ":"))
            return refuse(parser, "a colon is expected");
    }
    encoder->members[index].value_at = encoder->parts.size;
    if (status == LAKE_OK)
        status = parse_value(parser, &entry);
    encoder->members[index].entry = entry;
    return status;
}

static int compare_keys(const void *a, const void *b)
{
    const struct lance_jsonb_member *x = a, *y = b;
    size_t size = BASE_MIN(x->key_size, y->key_size);
    int order = size == 0 ? 0 : memcmp(x->key, y->key, size);
    return order != 0 ? order : (x->key_size > y->key_size) - (x->key_size < y->key_size);
}

static lake_status sort_members(const struct parser *parser, struct lance_jsonb_member *members,
                                size_t count)
{
    for (size_t i = 0; i < count; i++)
        members[i].key = parser->encoder->parts.data + members[i].key_at;
    if (count > 1)
        qsort(members, count, sizeof(*members), compare_keys);
    for (size_t i = 1; i < count; i++)
        if (compare_keys(&members[i - 1], &members[i]) == 0)
            return refuse(parser, "an object ends that has a key twice");
    return LAKE_OK;
}

/* Members from `mark` on, whose parts begin at `first`, into the container that they make. */
static lake_status put_together(struct parser *parser, enum lance_json_container kind, size_t mark,
                                size_t first)
{
    struct lance_jsonb_encoder *encoder = parser->encoder;
    struct lance_jsonb_member *members = encoder->members == NULL ? NULL : encoder->members + mark;
    struct base_buffer *whole = &encoder->whole, *parts = &encoder->parts;
    struct lake_error *err = parser->err;
    size_t count = encoder->member_count - mark;
    bool keyed = kind == LANCE_JSON_OBJECT;
    lake_status status = keyed ? sort_members(parser, members, count) : LAKE_OK;
    base_buffer_clear(whole);
    if (status == LAKE_OK && count > LANCE_JSON_COUNT_MASK)
        return refuse(parser, "a container of too many members ends");
    if (status == LAKE_OK)
        status = put_word(whole, (uint32_t)kind << 29 | (uint32_t)count, err);
    for (size_t i = 0; keyed && status == LAKE_OK && i < count; i++)
        status =
            put_word(whole, (uint32_t)LANCE_JSON_STRING << 28 | (uint32_t)members[i].key_size, err);
    for (size_t i = 0; status == LAKE_OK && i < count; i++)
        status = put_word(whole, members[i].entry, err);
    for (size_t i = 0; keyed && status == LAKE_OK && i < count; i++)
        status = base_buffer_append(whole, members[i].key, members[i].key_size, err);
    for (size_t i = 0; status == LAKE_OK && i < count; i++)
        status = base_buffer_append(whole, parts->data + members[i].value_at,
                                    members[i].entry & LANCE_JSON_SIZE_MASK, err);
    parts->size = first;
    encoder->member_count = mark;
    return status == LAKE_OK ? put(parser, whole->data, whole->size) : status;
}

/* Behind its opening bracket. */
static lake_status parse_container(struct parser *parser, enum lance_json_container kind)
{
    bool keyed = kind == LANCE_JSON_OBJECT;
    size_t mark = parser->encoder->member_count, first = parser->encoder->parts.size;
    lake_status status = LAKE_OK;
    if (parser->depth == LANCE_MAX_JSON_DEPTH)
        return refuse(parser, "the document is nested deeper than 256 levels");
    parser->depth++;
    skip_space(parser);
    bool done = take(parser, keyed ? "}" : "]");
    while (status == LAKE_OK && !done) {
        skip_space(parser);
        status = parse_member(parser, keyed);
        skip_space(parser);
        done = status == LAKE_OK && take(parser, keyed ? "}" : "]");
        if (status == LAKE_OK && !done && !take(parser, ","))
            status = refuse(parser, "a comma or the end of a container is expected");
    }
    parser->depth--;
    return status == LAKE_OK ? put_together(parser, kind, mark, first) : status;
}

/* ---- values ---- */

static lake_status parse_value(struct parser *parser, uint32_t *entry)
{
    size_t first = parser->encoder->parts.size;
    enum lance_json_kind kind = LANCE_JSON_NULL;
    lake_status status = LAKE_OK;
    skip_space(parser);
    if (take(parser, "{")) {
        kind = LANCE_JSON_CONTAINER;
        status = parse_container(parser, LANCE_JSON_OBJECT);
    } else if (take(parser, "[")) {
        kind = LANCE_JSON_CONTAINER;
        status = parse_container(parser, LANCE_JSON_ARRAY);
    } else if (take(parser, "\"")) {
        kind = LANCE_JSON_STRING;
        status = parse_string(parser);
    } else if (take(parser, "true")) {
        kind = LANCE_JSON_TRUE;
    } else if (take(parser, "false")) {
        kind = LANCE_JSON_FALSE;
    } else if (!take(parser, "null")) {
        kind = LANCE_JSON_NUMBER;
        status =
            take(parser, "NaN") ? put_number(parser, LANCE_JSON_NAN, 0, 0) : parse_number(parser);
    }
    return status == LAKE_OK ? entry_of(parser, kind, first, entry) : status;
}

lake_status lance_jsonb_of_text(struct lance_jsonb_encoder *encoder, struct lake_str text,
                                struct lake_bytes *out, struct lake_error *err)
{
    const char *start = text.size == 0 ? "" : text.data;
    struct parser parser = {
        .encoder = encoder, .start = start, .at = start, .end = start + text.size, .err = err};
    struct base_buffer *whole = &encoder->whole;
    uint32_t entry;
    base_buffer_clear(&encoder->parts);
    encoder->member_count = 0;
    if (!base_utf8_valid(text))
        return refuse(&parser, "text begins that is not UTF-8");
    lake_status status =
        base_buffer_reserve(&encoder->parts, 1, err); /* empty ones lie somewhere */
    if (status == LAKE_OK)
        status = parse_value(&parser, &entry);
    skip_space(&parser);
    if (status == LAKE_OK && parser.at != parser.end)
        return refuse(&parser, "text follows the value");
    if (status != LAKE_OK)
        return status;
    if (entry >> 28 == LANCE_JSON_CONTAINER) {
        *out = base_buffer_view(&encoder->parts);
        return LAKE_OK;
    }
    base_buffer_clear(whole);
    status = put_word(whole, (uint32_t)LANCE_JSON_SCALAR << 29, err);
    if (status == LAKE_OK)
        status = put_word(whole, entry, err);
    if (status == LAKE_OK)
        status = base_buffer_append(whole, encoder->parts.data, encoder->parts.size, err);
    *out = base_buffer_view(whole);
    return status;
}

void lance_jsonb_encoder_init(struct lance_jsonb_encoder *encoder)
{
    *encoder = (struct lance_jsonb_encoder){.members = NULL};
    base_buffer_init(&encoder->parts, (size_t)1 << 30);
    base_buffer_init(&encoder->whole, (size_t)1 << 30);
}

void lance_jsonb_encoder_fini(struct lance_jsonb_encoder *encoder)
{
    base_buffer_fini(&encoder->parts);
    base_buffer_fini(&encoder->whole);
    base_free(encoder->members);
}
