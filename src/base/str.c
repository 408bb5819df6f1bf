/* Views: comparing them and telling UTF-8 and numbers. */
#include "base.h"
#include "base_internal.h"

#include <string.h>

struct lake_str base_str_of(const char *c_string)
{
    if (c_string == NULL)
        return (struct lake_str){NULL, 0};
    return (struct lake_str){c_string, strlen(c_string)};
}

struct lake_bytes base_bytes_of_str(struct lake_str s)
{
    return (struct lake_bytes){(const uint8_t *)s.data, s.size};
}

/* memcmp must not see NULL, not even for zero bytes. */
static bool same_bytes(const void *a, const void *b, size_t size)
{
    return size == 0 || memcmp(a, b, size) == 0;
}

bool base_str_equal(struct lake_str a, struct lake_str b)
{
    return a.size == b.size && same_bytes(a.data, b.data, a.size);
}

bool base_str_equal_c(struct lake_str a, const char *b)
{
    return base_str_equal(a, base_str_of(b));
}

bool base_str_has_prefix(struct lake_str s, const char *prefix)
{
    size_t size = strlen(prefix);
    return s.size >= size && same_bytes(s.data, prefix, size);
}

bool base_str_has_suffix(struct lake_str s, const char *suffix)
{
    size_t size = strlen(suffix);
    return size == 0 || (s.size >= size && same_bytes(s.data + (s.size - size), suffix, size));
}

struct lake_str base_str_trim(struct lake_str s)
{
    while (s.size > 0 && (s.data[0] == ' ' || s.data[0] == '\t'))
        s = (struct lake_str){s.data + 1, s.size - 1};
    while (s.size > 0 &&
           (s.data[s.size - 1] == ' ' || s.data[s.size - 1] == '\t' || s.data[s.size - 1] == '\r'))
        s.size--;
    return s;
}

bool base_bytes_equal(struct lake_bytes a, struct lake_bytes b)
{
    return a.size == b.size && same_bytes(a.data, b.data, a.size);
}

bool base_utf8_valid(struct lake_str s)
{
    const uint8_t *p = (const uint8_t *)s.data;
    size_t left = s.size;
    while (left > 0) {
        size_t step = base_utf8_step(p, left);
        if (step == 0)
            return false;
        p += step;
        left -= step;
    }
    return true;
}

/* Unicode 15, table 3-7: the well-formed byte sequences. */
size_t base_utf8_step(const uint8_t *p, size_t left)
{
    uint8_t lead = p[0];
    if (lead < 0x80)
        return 1;
    size_t size = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (size == 0 || left < size)
        return 0;
    uint8_t low = 0x80;
    uint8_t high = 0xBF;
    if (lead == 0xE0)
        low = 0xA0; /* overlong */
    else if (lead == 0xED)
        high = 0x9F; /* surrogates */
    else if (lead == 0xF0)
        low = 0x90; /* overlong */
    else if (lead == 0xF4)
        high = 0x8F; /* above U+10FFFF */
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    }
    return size;
}

bool base_str_to_u64(struct lake_str s, uint64_t *out)
{
    if (s.size == 0)
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < s.size; i++) {
        if (s.data[i] < '0' || s.data[i] > '9')
            return false;
        if (!base_u64_mul(value, 10, &value) ||
            !base_u64_add(value, (uint64_t)(s.data[i] - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}
