/* protobuf-c behind arenas and buffers: what the message files of flight share. */
#ifndef FLIGHT_MESSAGE_H
#define FLIGHT_MESSAGE_H

#include "flight.h"

#include <protobuf-c/protobuf-c.h>

/* Parses into the arena; the result lives as long as it. NULL and INVALID_ARGUMENT in *status. */
void *message_unpack(const ProtobufCMessageDescriptor *descriptor, struct lake_bytes bytes,
                     struct base_arena *arena, lake_status *status, struct lake_error *err);
lake_status message_pack(const ProtobufCMessage *message, struct base_buffer *out,
                         struct lake_error *err);

/* A text field: UTF-8 without NUL, else INVALID_ARGUMENT naming it. */
lake_status message_text(ProtobufCBinaryData data, const char *what, struct lake_str *out,
                         struct lake_error *err);
lake_status message_optional_text(protobuf_c_boolean has, ProtobufCBinaryData data,
                                  const char *what, struct flight_optional_str *out,
                                  struct lake_error *err);
/* The same check for text that is about to be sent. */
lake_status message_check_text(struct lake_str text, const char *what, struct lake_error *err);
lake_status message_text_list(const ProtobufCBinaryData *items, size_t count, const char *what,
                              struct base_arena *arena, const struct lake_str **out,
                              struct lake_error *err);

/* A message whose only field is number 1, an integer; 0 when it is not there. INVALID_ARGUMENT
 * names the message when it is malformed or the number is above `most`. */
lake_status message_number(struct lake_bytes bytes, const char *name, uint64_t most, uint64_t *out,
                           struct lake_error *err);

static inline struct lake_bytes message_bytes(ProtobufCBinaryData data)
{
    return (struct lake_bytes){data.data, data.len};
}

/* protobuf-c wants to be able to write; it does not when packing. */
static inline ProtobufCBinaryData message_data(struct lake_bytes bytes)
{
    return (ProtobufCBinaryData){bytes.size, (uint8_t *)(uintptr_t)bytes.data};
}

static inline ProtobufCBinaryData message_data_of_str(struct lake_str text)
{
    return message_data((struct lake_bytes){(const uint8_t *)text.data, text.size});
}

#endif
