#include "message.h"

#include <string.h>

/* protobuf-c answers NULL to bytes that are no message and to want of memory alike. */
struct unpacking {
    struct base_arena *arena;
    bool out_of_memory;
};

static void *arena_alloc(void *context, size_t size)
{
    struct unpacking *unpacking = context;
    void *memory = base_arena_alloc(unpacking->arena, size);
    unpacking->out_of_memory = unpacking->out_of_memory || memory == NULL;
    return memory;
}

static void arena_free(void *context, void *memory)
{
    (void)context; /* freed with the arena */
    (void)memory;
}

void *message_unpack(const ProtobufCMessageDescriptor *descriptor, struct lake_bytes bytes,
                     struct base_arena *arena, lake_status *status, struct lake_error *err)
{
    struct unpacking unpacking = {.arena = arena};
    ProtobufCAllocator allocator = {
        .alloc = arena_alloc, .free = arena_free, .allocator_data = &unpacking};
    void *message = protobuf_c_message_unpack(descriptor, &allocator, bytes.size, bytes.data);
    *status = LAKE_OK;
    if (message == NULL && unpacking.out_of_memory) {
        *status =
            lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                      "a %s message of %zu bytes needs more memory than there is, or than one "
                      "may take",
                      descriptor->short_name, bytes.size);
    } else if (message == NULL) {
        *status = lake_fail(err, LAKE_INVALID_ARGUMENT, "%zu bytes are not a valid %s message",
                            bytes.size, descriptor->short_name);
    }
    return message;
}

lake_status message_pack(const ProtobufCMessage *message, struct base_buffer *out,
                         struct lake_error *err)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    lake_status status = base_buffer_reserve(out, size, err);
    if (status == LAKE_OK && size > 0) {
        out->size += protobuf_c_message_pack(message, out->data + out->size);
    }
    return status;
}

lake_status message_check_text(struct lake_str text, const char *what, struct lake_error *err)
{
    if (text.size > 0 && (memchr(text.data, '\0', text.size) != NULL || !base_utf8_valid(text))) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "%s is not text: UTF-8 without NUL was expected", what);
    }
    return LAKE_OK;
}

lake_status message_text(ProtobufCBinaryData data, const char *what, struct lake_str *out,
                         struct lake_error *err)
{
    struct lake_str text = {data.data == NULL ? "" : (const char *)data.data, data.len};
    lake_status status = message_check_text(text, what, err);
    if (status == LAKE_OK) {
        *out = text;
    }
    return status;
}

lake_status message_optional_text(protobuf_c_boolean has, ProtobufCBinaryData data,
                                  const char *what, struct flight_optional_str *out,
                                  struct lake_error *err)
{
    *out = (struct flight_optional_str){.present = has != 0};
    return has ? message_text(data, what, &out->value, err) : LAKE_OK;
}

lake_status message_text_list(const ProtobufCBinaryData *items, size_t count, const char *what,
                              struct base_arena *arena, const struct lake_str **out,
                              struct lake_error *err)
{
    struct lake_str *list = NULL;
    if (count > 0) {
        list = base_arena_calloc_array(arena, count, sizeof(*list));
        if (list == NULL) {
            return base_fail_no_memory(err, count);
        }
    }
    lake_status status = LAKE_OK;
    for (size_t i = 0; status == LAKE_OK && i < count; i++) {
        status = message_text(items[i], what, &list[i], err);
    }
    *out = list;
    return status;
}

lake_status message_number(struct lake_bytes bytes, const char *name, uint64_t most, uint64_t *out,
                           struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(bytes);
    uint64_t value = 0;
    uint32_t field;
    uint32_t wire_type;
    bool good = true;
    while (good && base_cursor_left(&cursor) > 0) {
        good = base_cursor_tag(&cursor, &field, &wire_type) &&
               (field == 1 && wire_type == 0 ? base_cursor_varint(&cursor, &value)
                                             : base_cursor_skip_field(&cursor, wire_type));
    }
    if (!good || value > most) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "%zu bytes are not a valid %s message",
                         bytes.size, name);
    }
    *out = value;
    return LAKE_OK;
}
