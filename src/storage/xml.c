/* A pull parser that holds one element's text at a time. */
#define _GNU_SOURCE /* memmem */
#include "xml.h"

#include <string.h>

void xml_reader_init(struct xml_reader *reader, struct lake_bytes document)
{
    *reader = (struct xml_reader){.input = base_cursor_of(document)};
    base_buffer_init(&reader->text, XML_MAX_TEXT_BYTES);
}

void xml_reader_fini(struct xml_reader *reader)
{
    base_buffer_fini(&reader->text);
}

struct lake_str xml_text(const struct xml_reader *reader)
{
    if (!reader->leaf)
        return (struct lake_str){NULL, 0};
    return (struct lake_str){(const char *)reader->text.data, reader->text.size};
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct lake_str rest_of(const struct xml_reader *reader)
{
    const struct base_cursor *input = &reader->input;
    return (struct lake_str){(const char *)input->data + input->position, base_cursor_left(input)};
}

/* What comes before `end`; the cursor goes behind `end`. */
static bool take_until(struct xml_reader *reader, const char *end, struct lake_str *out)
{
    struct lake_str rest = rest_of(reader);
    const char *found = rest.size == 0 ? NULL : memmem(rest.data, rest.size, end, strlen(end));
    if (found == NULL)
        return false;
    *out = (struct lake_str){rest.data, (size_t)(found - rest.data)};
    return base_cursor_skip(&reader->input, out->size + strlen(end));
}

static bool append(struct xml_reader *reader, const void *data, size_t size)
{
    lake_status status = base_buffer_append(&reader->text, data, size, NULL);
    reader->no_memory = status != LAKE_OK && reader->text.size + size <= XML_MAX_TEXT_BYTES;
    return status == LAKE_OK;
}

static size_t encode_utf8(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = size - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(leads[size] | code);
    return size;
}

/* &#39; and &#x27; without the '&' and ';'. */
static bool parse_code(struct lake_str name, uint32_t *out)
{
    uint32_t base = name.size > 1 && (name.data[1] == 'x' || name.data[1] == 'X') ? 16 : 10;
    size_t start = base == 16 ? 2 : 1;
    uint32_t code = 0;
    if (name.size <= start || name.size > 10)
        return false;
    for (size_t i = start; i < name.size; i++) {
        char c = name.data[i];
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 99;
        if (digit >= base || code > 0x10FFFF)
            return false;
        code = code * base + digit;
    }
    *out = code;
    return code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF) && code != 0;
}

static bool append_reference(struct xml_reader *reader, struct lake_str name)
{
    static const struct {
        const char *name;
        char value;
    } known[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(known); i++) {
        if (base_str_equal_c(name, known[i].name))
            return append(reader, &known[i].value, 1);
    }
    uint32_t code;
    char text[4];
    if (name.size == 0 || name.data[0] != '#' || !parse_code(name, &code))
        return false;
    return append(reader, text, encode_utf8(code, text));
}

/* Text up to the next '<' or the end. */
static bool take_text(struct xml_reader *reader)
{
    struct lake_str rest = rest_of(reader);
    const char *end = memchr(rest.data, '<', rest.size);
    struct lake_str text = {rest.data, end == NULL ? rest.size : (size_t)(end - rest.data)};
    (void)base_cursor_skip(&reader->input, text.size);
    while (text.size > 0) {
        if (reader->depth == 0) {
            if (!is_blank((uint8_t)text.data[0]))
                return false;
            text = (struct lake_str){text.data + 1, text.size - 1};
            continue;
        }
        const char *mark = memchr(text.data, '&', text.size);
        size_t plain = mark == NULL ? text.size : (size_t)(mark - text.data);
        if (!append(reader, text.data, plain))
            return false;
        if (mark == NULL)
            return true;
        text = (struct lake_str){mark + 1, text.size - plain - 1};
        const char *semicolon = text.size == 0 ? NULL : memchr(text.data, ';', text.size);
        if (semicolon == NULL ||
            !append_reference(reader,
                              (struct lake_str){text.data, (size_t)(semicolon - text.data)}))
            return false;
        size_t used = (size_t)(semicolon - text.data) + 1;
        text = (struct lake_str){text.data + used, text.size - used};
    }
    return true;
}

static struct lake_str local_name(struct lake_str name)
{
    const char *colon = name.size == 0 ? NULL : memchr(name.data, ':', name.size);
    if (colon == NULL)
        return name;
    size_t skip = (size_t)(colon - name.data) + 1;
    return (struct lake_str){name.data + skip, name.size - skip};
}

static enum xml_event close_element(struct xml_reader *reader)
{
    reader->name = reader->open[--reader->depth];
    reader->ended = reader->depth == 0;
    reader->closed = true;
    return XML_CLOSE;
}

/* Behind "</". */
static enum xml_event take_close(struct xml_reader *reader)
{
    struct lake_str name;
    if (!take_until(reader, ">", &name) || reader->depth == 0)
        return XML_BAD;
    while (name.size > 0 && is_blank((uint8_t)name.data[name.size - 1]))
        name.size--;
    if (!base_str_equal(local_name(name), reader->open[reader->depth - 1]))
        return XML_BAD;
    return close_element(reader);
}

/* Behind '<' of a start tag. Values of attributes may hold '>'. */
static enum xml_event take_open(struct xml_reader *reader)
{
    struct lake_str rest = rest_of(reader);
    size_t size = 0;
    char quote = '\0';
    while (size < rest.size && (quote != '\0' || rest.data[size] != '>')) {
        char c = rest.data[size];
        if (quote != '\0')
            quote = c == quote ? '\0' : quote;
        else if (c == '"' || c == '\'')
            quote = c;
        else if (c == '<')
            return XML_BAD;
        size++;
    }
    if (size == rest.size || size == 0 || reader->depth == XML_MAX_DEPTH || reader->ended)
        return XML_BAD;
    (void)base_cursor_skip(&reader->input, size + 1);
    reader->close_next = rest.data[size - 1] == '/';
    struct lake_str name = {rest.data, size - (reader->close_next ? 1 : 0)};
    for (size_t i = 0; i < name.size; i++) {
        if (is_blank((uint8_t)name.data[i]))
            name.size = i;
    }
    name = local_name(name);
    if (name.size == 0)
        return XML_BAD;
    reader->open[reader->depth++] = name;
    reader->name = name;
    reader->leaf = true;
    base_buffer_clear(&reader->text);
    return XML_OPEN;
}

static bool skip_prefix(struct xml_reader *reader, const char *prefix)
{
    return base_str_has_prefix(rest_of(reader), prefix) &&
           base_cursor_skip(&reader->input, strlen(prefix));
}

enum xml_event xml_next(struct xml_reader *reader)
{
    struct lake_str skipped;
    if (reader->close_next) {
        reader->close_next = false;
        return close_element(reader);
    }
    if (reader->closed) { /* its parent has a child, so no text that counts */
        reader->closed = false;
        reader->leaf = false;
    }
    for (;;) {
        if (base_cursor_left(&reader->input) == 0)
            return reader->ended ? XML_END : XML_BAD;
        bool good = true;
        if (rest_of(reader).data[0] != '<')
            good = take_text(reader);
        else if (skip_prefix(reader, "<?"))
            good = take_until(reader, "?>", &skipped);
        else if (skip_prefix(reader, "<!--"))
            good = take_until(reader, "-->", &skipped);
        else if (skip_prefix(reader, "<![CDATA["))
            good = reader->depth > 0 && take_until(reader, "]]>", &skipped) &&
                   append(reader, skipped.data, skipped.size);
        else if (skip_prefix(reader, "<!"))
            return XML_BAD;
        else if (skip_prefix(reader, "</"))
            return take_close(reader);
        else
            return skip_prefix(reader, "<") ? take_open(reader) : XML_BAD;
        if (!good)
            return XML_BAD;
    }
}
