/* The bounded cursor: a read either fits or moves nothing. */
#include "base.h"

#define MAX_FIELD_NUMBER ((1u << 29) - 1)

struct base_cursor base_cursor_of(struct lake_bytes bytes)
{
    return (struct base_cursor){bytes.data, bytes.size, 0};
}

size_t base_cursor_left(const struct base_cursor *cursor)
{
    return cursor->size - cursor->position;
}

bool base_cursor_take(struct base_cursor *cursor, size_t size, struct lake_bytes *out)
{
    if (size > base_cursor_left(cursor))
        return false;
    /* No arithmetic on the NULL of an empty view. */
    const uint8_t *data = cursor->data == NULL ? NULL : cursor->data + cursor->position;
    *out = (struct lake_bytes){data, size};
    cursor->position += size;
    return true;
}

bool base_cursor_skip(struct base_cursor *cursor, size_t size)
{
    struct lake_bytes skipped;
    return base_cursor_take(cursor, size, &skipped);
}

bool base_cursor_u8(struct base_cursor *cursor, uint8_t *out)
{
    struct lake_bytes bytes;
    if (!base_cursor_take(cursor, sizeof(*out), &bytes))
        return false;
    *out = bytes.data[0];
    return true;
}

bool base_cursor_u16le(struct base_cursor *cursor, uint16_t *out)
{
    struct lake_bytes bytes;
    if (!base_cursor_take(cursor, sizeof(*out), &bytes))
        return false;
    *out = base_load_u16le(bytes.data);
    return true;
}

bool base_cursor_u32le(struct base_cursor *cursor, uint32_t *out)
{
    struct lake_bytes bytes;
    if (!base_cursor_take(cursor, sizeof(*out), &bytes))
        return false;
    *out = base_load_u32le(bytes.data);
    return true;
}

bool base_cursor_u64le(struct base_cursor *cursor, uint64_t *out)
{
    struct lake_bytes bytes;
    if (!base_cursor_take(cursor, sizeof(*out), &bytes))
        return false;
    *out = base_load_u64le(bytes.data);
    return true;
}

bool base_cursor_varint(struct base_cursor *cursor, uint64_t *out)
{
    uint64_t value = 0;
    size_t left = base_cursor_left(cursor);
    for (size_t i = 0; i < 10 && i < left; i++) {
        uint8_t byte = cursor->data[cursor->position + i];
        if (i == 9 && byte > 1)
            return false; /* more than 64 bits */
        value |= (uint64_t)(byte & 0x7F) << (7 * i);
        if ((byte & 0x80) == 0) {
            cursor->position += i + 1;
            *out = value;
            return true;
        }
    }
    return false;
}

bool base_cursor_tag(struct base_cursor *cursor, uint32_t *field, uint32_t *wire_type)
{
    struct base_cursor probe = *cursor;
    uint64_t tag;
    if (!base_cursor_varint(&probe, &tag))
        return false;
    uint64_t number = tag >> 3;
    uint32_t type = (uint32_t)(tag & 7);
    if (number == 0 || number > MAX_FIELD_NUMBER)
        return false;
    if (type != 0 && type != 1 && type != 2 && type != 5)
        return false;
    *cursor = probe;
    *field = (uint32_t)number;
    *wire_type = type;
    return true;
}

bool base_cursor_skip_field(struct base_cursor *cursor, uint32_t wire_type)
{
    uint64_t number;
    struct lake_bytes bytes;
    switch (wire_type) {
    case 0:
        return base_cursor_varint(cursor, &number);
    case 1:
        return base_cursor_skip(cursor, 8);
    case 2:
        return base_cursor_length_delimited(cursor, &bytes);
    case 5:
        return base_cursor_skip(cursor, 4);
    default:
        return false;
    }
}

bool base_cursor_length_delimited(struct base_cursor *cursor, struct lake_bytes *out)
{
    struct base_cursor probe = *cursor;
    uint64_t size;
    if (!base_cursor_varint(&probe, &size) || size > base_cursor_left(&probe) ||
        !base_cursor_take(&probe, (size_t)size, out))
        return false;
    *cursor = probe;
    return true;
}
