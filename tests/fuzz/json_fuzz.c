/* libs: base */
/* JSON from outside: the parser's limits, and every string written and read back. */
#include <base/base.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 64

static void check_depth(const json_t *value, int depth);

/* A string that jansson read must come back the same through our writer. */
static void check_string(const char *data, size_t size)
{
    struct base_buffer buffer;
    base_buffer_init(&buffer, 6 * size + 2);
    if (base_json_append_string(&buffer, (struct lake_str){data, size}, NULL) != LAKE_OK)
        abort();
    json_t *back = NULL;
    if (base_json_parse(base_buffer_view(&buffer), buffer.size, &back, NULL) != LAKE_OK)
        abort();
    if (json_string_length(back) != size || memcmp(json_string_value(back), data, size) != 0)
        abort();
    json_decref(back);
    base_buffer_fini(&buffer);
}

static void check_children(const json_t *value, int depth)
{
    const char *key;
    json_t *child;
    size_t index;
    json_object_foreach((json_t *)value, key, child)
    {
        check_string(key, strlen(key));
        check_depth(child, depth);
    }
    json_array_foreach(value, index, child)
    {
        check_depth(child, depth);
    }
}

static void check_depth(const json_t *value, int depth)
{
    if (json_is_string(value))
        check_string(json_string_value(value), json_string_length(value));
    if (!json_is_object(value) && !json_is_array(value))
        return;
    if (depth == MAX_DEPTH)
        abort();
    check_children(value, depth + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lake_bytes text = {data, size};
    struct lake_error err = {.code = LAKE_OK};
    json_t *value = NULL;
    if (base_json_parse(text, 1 << 16, &value, &err) == LAKE_OK) {
        check_depth(value, 0);
        json_decref(value);
    } else if (err.code != LAKE_INVALID_ARGUMENT || !base_utf8_valid(base_str_of(err.message))) {
        abort();
    }
    /* Any bytes become a valid JSON string. */
    struct base_buffer buffer;
    base_buffer_init(&buffer, 6 * size + 2);
    if (base_json_append_string(&buffer, (struct lake_str){(const char *)data, size}, NULL) !=
        LAKE_OK)
        abort();
    /* NUL is written as an escape that jansson does not read by default. */
    if (memchr(data, 0, size) == NULL) {
        if (base_json_parse(base_buffer_view(&buffer), buffer.size, &value, NULL) != LAKE_OK)
            abort();
        json_decref(value);
    }
    base_buffer_fini(&buffer);
    return 0;
}
