#include "flight.h"

#include <stdatomic.h>
#include <string.h>

/* Tags of FlightData. */
#define TAG_DESCRIPTOR   0x0A
#define TAG_HEADER       0x12
#define TAG_APP_METADATA 0x1A
static const uint8_t tag_body[2] = {0xC2, 0x3E}; /* field 1000 */

/* Where a body starts within the message, so that a receiver that gathers the message into aligned
 * memory has its buffers aligned, too. */
#define BODY_ALIGNMENT 64

lake_status flight_data_decode(struct lake_bytes message, struct flight_data *out,
                               struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(message);
    struct flight_data data = {0};
    uint32_t seen = 0;
    while (base_cursor_left(&cursor) > 0) {
        uint32_t field;
        uint32_t wire_type;
        if (!base_cursor_tag(&cursor, &field, &wire_type)) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "a FlightData message is malformed");
        }
        struct lake_bytes *target = field == 1      ? &data.descriptor
                                    : field == 2    ? &data.header
                                    : field == 3    ? &data.app_metadata
                                    : field == 1000 ? &data.body
                                                    : NULL;
        if (target == NULL) {
            if (!base_cursor_skip_field(&cursor, wire_type)) {
                return lake_fail(err, LAKE_INVALID_ARGUMENT, "a FlightData message is malformed");
            }
            continue;
        }
        uint32_t bit = field == 1000 ? 8 : field;
        if ((seen & (1u << bit)) != 0 || wire_type != 2 ||
            !base_cursor_length_delimited(&cursor, target)) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "a FlightData message has field %u twice or cut off", field);
        }
        seen |= 1u << bit;
        data.has_descriptor |= field == 1;
    }
    *out = data;
    return LAKE_OK;
}

/* ---- senders and receivers ---- */

static lake_status send_to_call(void *context, struct rpc_part *parts, size_t part_count,
                                struct lake_error *err)
{
    return rpc_call_send(context, parts, part_count, err);
}

static lake_status send_to_client(void *context, struct rpc_part *parts, size_t part_count,
                                  struct lake_error *err)
{
    return rpc_client_call_send(context, parts, part_count, err);
}

static lake_status receive_from_call(void *context, struct rpc_payload *out, bool *end,
                                     struct lake_error *err)
{
    return rpc_call_receive(context, out, end, err);
}

static lake_status receive_from_client(void *context, struct rpc_payload *out, bool *end,
                                       struct lake_error *err)
{
    return rpc_client_call_receive(context, out, end, err);
}

struct flight_sender flight_sender_of_call(struct rpc_call *call)
{
    return (struct flight_sender){send_to_call, call};
}

struct flight_sender flight_sender_of_client(struct rpc_client_call *call)
{
    return (struct flight_sender){send_to_client, call};
}

struct flight_receiver flight_receiver_of_call(struct rpc_call *call)
{
    return (struct flight_receiver){receive_from_call, call};
}

struct flight_receiver flight_receiver_of_client(struct rpc_client_call *call)
{
    return (struct flight_receiver){receive_from_client, call};
}

lake_status flight_send_bytes(struct flight_sender sender, struct lake_bytes message,
                              struct lake_error *err)
{
    struct rpc_part part = {.data = message.data, .size = message.size, .copy = true};
    return sender.send(sender.context, &part, 1, err);
}

/* ---- sending ---- */

/* An IPC message on its way: every part that the transport holds refers to it. */
struct shipment {
    atomic_uint_fast32_t refs;
    struct arrow_ipc_message message;
};

static void shipment_unref(void *context)
{
    struct shipment *shipment = context;
    if (atomic_fetch_sub_explicit(&shipment->refs, 1, memory_order_acq_rel) == 1) {
        arrow_ipc_message_fini(&shipment->message);
        base_free(shipment);
    }
}

static size_t varint_bytes(uint64_t value)
{
    size_t bytes = 1;
    while (value >= 0x80) {
        value >>= 7;
        bytes++;
    }
    return bytes;
}

static lake_status append_field(struct base_buffer *out, uint8_t tag, struct lake_bytes value,
                                struct lake_error *err)
{
    lake_status status = base_buffer_append(out, &tag, 1, err);
    if (status == LAKE_OK) {
        status = base_buffer_append_varint(out, value.size, err);
    }
    return status == LAKE_OK ? base_buffer_append(out, value.data, value.size, err) : status;
}

/* Zeros to put after the flatbuffer, which readers ignore, so that the body is aligned. */
static size_t header_padding(size_t before, size_t header_bytes, uint64_t body_bytes)
{
    size_t after = sizeof(tag_body) + varint_bytes(body_bytes);
    for (size_t padding = 0; padding < 2 * BODY_ALIGNMENT; padding++) {
        size_t length = header_bytes + padding;
        if ((before + 1 + varint_bytes(length) + length + after) % BODY_ALIGNMENT == 0) {
            return padding;
        }
    }
    return 0;
}

/* Everything of the message before its body. */
static lake_status build_prefix(const struct arrow_ipc_message *message,
                                struct lake_bytes descriptor, struct lake_bytes app_metadata,
                                struct base_buffer *out, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (descriptor.size > 0) {
        status = append_field(out, TAG_DESCRIPTOR, descriptor, err);
    }
    if (status == LAKE_OK && app_metadata.size > 0) {
        status = append_field(out, TAG_APP_METADATA, app_metadata, err);
    }
    if (status != LAKE_OK || message->header_bytes == 0) {
        return status;
    }
    size_t padding = message->body_bytes == 0
                         ? 0
                         : header_padding(out->size, message->header_bytes, message->body_bytes);
    static const uint8_t tag = TAG_HEADER;
    status = base_buffer_append(out, &tag, 1, err);
    if (status == LAKE_OK) {
        status = base_buffer_append_varint(out, message->header_bytes + padding, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append(out, message->header, message->header_bytes, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append_zeros(out, padding, err);
    }
    if (status == LAKE_OK && message->body_bytes > 0) {
        status = base_buffer_append(out, tag_body, sizeof(tag_body), err);
        if (status == LAKE_OK) {
            status = base_buffer_append_varint(out, message->body_bytes, err);
        }
    }
    return status;
}

/* A body this small is copied into one piece: references of the transport would cost more. */
#define COPY_BODY_BYTES ((uint64_t)16 << 10)
/* So is a buffer this small within a larger body. */
#define COPY_BUFFER_BYTES 256

static void fill_parts(struct shipment *shipment, struct rpc_part *parts)
{
    static _Alignas(64) const uint8_t zeros[64];
    for (size_t i = 0; i < shipment->message.part_count; i++) {
        const struct arrow_ipc_part *part = &shipment->message.parts[i];
        if (part->data == NULL) {
            parts[i] = (struct rpc_part){.data = zeros, .size = part->size};
        } else if (part->size < COPY_BUFFER_BYTES) {
            parts[i] = (struct rpc_part){.data = part->data, .size = part->size, .copy = true};
        } else {
            atomic_fetch_add_explicit(&shipment->refs, 1, memory_order_relaxed);
            parts[i] = (struct rpc_part){.data = part->data,
                                         .size = part->size,
                                         .release = shipment_unref,
                                         .context = shipment};
        }
    }
}

static lake_status send_small(struct flight_sender sender, const struct arrow_ipc_message *message,
                              struct base_buffer *prefix, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t i = 0; status == LAKE_OK && i < message->part_count; i++) {
        const struct arrow_ipc_part *part = &message->parts[i];
        status = part->data == NULL ? base_buffer_append_zeros(prefix, part->size, err)
                                    : base_buffer_append(prefix, part->data, part->size, err);
    }
    return status == LAKE_OK ? flight_send_bytes(sender, base_buffer_view(prefix), err) : status;
}

static lake_status send_large(struct flight_sender sender, struct shipment *shipment,
                              const struct base_buffer *prefix, struct lake_error *err)
{
    size_t count = shipment->message.part_count + 1;
    struct rpc_part *parts = base_calloc_array(count, sizeof(*parts));
    if (parts == NULL) {
        return base_fail_no_memory(err, count * sizeof(*parts));
    }
    parts[0] = (struct rpc_part){.data = prefix->data, .size = prefix->size, .copy = true};
    fill_parts(shipment, parts + 1);
    lake_status status = sender.send(sender.context, parts, count, err);
    base_free(parts);
    return status;
}

lake_status flight_send_ipc(struct flight_sender sender, struct arrow_ipc_message *message,
                            struct lake_bytes descriptor, struct lake_bytes app_metadata,
                            struct lake_error *err)
{
    struct base_buffer prefix;
    struct shipment *shipment = base_calloc_array(1, sizeof(*shipment));
    if (shipment == NULL) {
        arrow_ipc_message_fini(message);
        return base_fail_no_memory(err, sizeof(*shipment));
    }
    atomic_init(&shipment->refs, 1);
    shipment->message = *message;
    *message = (struct arrow_ipc_message){0};
    base_buffer_init(&prefix, (size_t)64 << 20);
    lake_status status = build_prefix(&shipment->message, descriptor, app_metadata, &prefix, err);
    if (status == LAKE_OK) {
        status = shipment->message.body_bytes <= COPY_BODY_BYTES
                     ? send_small(sender, &shipment->message, &prefix, err)
                     : send_large(sender, shipment, &prefix, err);
    }
    base_buffer_fini(&prefix);
    shipment_unref(shipment);
    return status;
}
