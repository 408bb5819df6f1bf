#include "wire.h"

bool lance_wire_next(struct base_cursor *cursor, struct lance_wire_field *out, bool *failed)
{
    *failed = false;
    if (base_cursor_left(cursor) == 0)
        return false;
    *out = (struct lance_wire_field){0};
    *failed = !base_cursor_tag(cursor, &out->number, &out->wire_type);
    if (*failed)
        return false;
    if (out->wire_type == 0)
        *failed = !base_cursor_varint(cursor, &out->value);
    else if (out->wire_type == 2)
        *failed = !base_cursor_length_delimited(cursor, &out->bytes);
    else
        *failed = !base_cursor_skip_field(cursor, out->wire_type);
    return !*failed;
}
