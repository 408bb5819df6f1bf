/* google.protobuf.Any: field 1 the type's URL, field 2 the message's bytes. */
#include "flight.h"

#include <string.h>

#define WIRE_LENGTH_DELIMITED 2
#define TAG(field)            (((field) << 3) | WIRE_LENGTH_DELIMITED)

static lake_status append_field(struct base_buffer *out, uint32_t field, struct lake_bytes value,
                                struct lake_error *err)
{
    lake_status status = base_buffer_append_varint(out, TAG(field), err);
    if (status == LAKE_OK)
        status = base_buffer_append_varint(out, value.size, err);
    if (status == LAKE_OK)
        status = base_buffer_append(out, value.data, value.size, err);
    return status;
}

lake_status flight_any_pack(const char *type_url, struct lake_bytes value, struct base_buffer *out,
                            struct lake_error *err)
{
    lake_status status = append_field(out, 1, base_bytes_of_str(base_str_of(type_url)), err);
    if (status == LAKE_OK)
        status = append_field(out, 2, value, err);
    return status;
}

bool flight_any_unpack(struct lake_bytes bytes, const char *type_url, struct lake_bytes *value)
{
    struct base_cursor cursor = base_cursor_of(bytes);
    struct lake_bytes url = {0};
    struct lake_bytes body = {0};
    while (base_cursor_left(&cursor) > 0) {
        uint32_t field, wire_type;
        if (!base_cursor_tag(&cursor, &field, &wire_type))
            return false;
        bool known = wire_type == WIRE_LENGTH_DELIMITED && (field == 1 || field == 2);
        if (known ? !base_cursor_length_delimited(&cursor, field == 1 ? &url : &body)
                  : !base_cursor_skip_field(&cursor, wire_type))
            return false;
    }
    if (!base_bytes_equal(url, base_bytes_of_str(base_str_of(type_url))))
        return false;
    *value = body;
    return true;
}
