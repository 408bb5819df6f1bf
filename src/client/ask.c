/* An action with a protobuf message in and one out. */
#include "client_internal.h"

lake_status client_pack(const ProtobufCMessage *message, struct base_buffer *out,
                        struct lake_error *err)
{
    lake_status status = base_buffer_reserve(out, protobuf_c_message_get_packed_size(message), err);
    if (status == LAKE_OK)
        out->size = protobuf_c_message_pack(message, out->data);
    return status;
}

lake_status client_ask_within(lake_client *client, int64_t timeout_ms, const char *action,
                              const ProtobufCMessage *request,
                              const ProtobufCMessageDescriptor *answer_type,
                              ProtobufCMessage **answer, struct lake_error *err)
{
    struct base_buffer body;
    struct base_buffer reply;
    base_buffer_init(&body, CLIENT_MAX_METADATA_BYTES);
    base_buffer_init(&reply, CLIENT_MAX_REPLY_BYTES);
    lake_status status = client_pack(request, &body, err);
    if (status == LAKE_OK)
        status =
            client_action_within(client, timeout_ms, action, base_buffer_view(&body), &reply, err);
    if (status == LAKE_OK && answer_type != NULL) {
        *answer = protobuf_c_message_unpack(answer_type, NULL, reply.size, reply.data);
        if (*answer == NULL)
            status = lake_fail(err, LAKE_INTERNAL, "the server's answer cannot be read");
    }
    base_buffer_fini(&reply);
    base_buffer_fini(&body);
    return status;
}

lake_status client_ask(lake_client *client, const char *action, const ProtobufCMessage *request,
                       const ProtobufCMessageDescriptor *answer_type, ProtobufCMessage **answer,
                       struct lake_error *err)
{
    return client_ask_within(client, client->timeout_ms, action, request, answer_type, answer, err);
}

void client_answer_free(ProtobufCMessage *answer)
{
    if (answer != NULL)
        protobuf_c_message_free_unpacked(answer, NULL);
}
