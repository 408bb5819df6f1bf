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

bool lance_wire_next_value(struct base_cursor *cursor, struct lance_wire_field *out, bool *failed)
{
    while (lance_wire_next(cursor, out, failed)) {
        if (out->wire_type == 0 || out->wire_type == 2)
            return true;
    }
    return false;
}

lake_status lance_encoding_broken(struct lake_error *err)
{
    return lake_fail(err, LAKE_DATA_LOSS, "the page's encoding is not a valid protobuf message");
}

lake_status lance_oneof_parse(const struct lance_oneof *oneof, struct lake_bytes message,
                              unsigned depth, struct base_arena *arena, const void **out,
                              struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(message);
    struct lance_wire_field field;
    void *node = NULL;
    bool failed;
    if (depth > oneof->max_depth)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "encodings are nested deeper than %u",
                         oneof->max_depth);
    while (lance_wire_next(&cursor, &field, &failed)) {
        if (field.wire_type != 2 || field.number < 1 || field.number > oneof->last)
            return lake_fail(err, LAKE_UNIMPLEMENTED, "unknown encoding number %u", field.number);
        node = base_arena_calloc_array(arena, 1, oneof->node_bytes);
        if (node == NULL)
            return base_fail_no_memory(err, oneof->node_bytes);
        lake_status status = oneof->parse(field.number, field.bytes, depth, arena, node, err);
        if (status != LAKE_OK)
            return status;
    }
    if (failed)
        return lance_encoding_broken(err);
    if (node == NULL)
        return lake_fail(err, LAKE_DATA_LOSS, "the page names no encoding where one must be");
    *out = node;
    return LAKE_OK;
}
