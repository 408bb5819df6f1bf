#include "message.h"

#include <flight.pb-c.h>

lake_status flight_action_encode(const struct flight_action *action, struct base_buffer *out,
                                 struct lake_error *err)
{
    Flight__Pb__Action message = FLIGHT__PB__ACTION__INIT;
    message.has_type = true;
    message.type = message_data_of_str(action->type);
    message.has_body = action->body.size > 0;
    message.body = message_data(action->body);
    return message_pack(&message.base, out, err);
}

lake_status flight_action_decode(struct lake_bytes bytes, struct base_arena *arena,
                                 struct flight_action *out, struct lake_error *err)
{
    lake_status status;
    Flight__Pb__Action *message =
        message_unpack(&flight__pb__action__descriptor, bytes, arena, &status, err);
    if (message == NULL) {
        return status;
    }
    out->body = message_bytes(message->body);
    return message_text(message->type, "an Action's type", &out->type, err);
}

lake_status flight_action_type_encode(const struct flight_action_type *type,
                                      struct base_buffer *out, struct lake_error *err)
{
    Flight__Pb__ActionType message = FLIGHT__PB__ACTION_TYPE__INIT;
    message.has_type = true;
    message.type = message_data_of_str(type->type);
    message.has_description = type->description.size > 0;
    message.description = message_data_of_str(type->description);
    return message_pack(&message.base, out, err);
}

lake_status flight_action_type_decode(struct lake_bytes bytes, struct base_arena *arena,
                                      struct flight_action_type *out, struct lake_error *err)
{
    lake_status status;
    Flight__Pb__ActionType *message =
        message_unpack(&flight__pb__action_type__descriptor, bytes, arena, &status, err);
    if (message == NULL) {
        return status;
    }
    status = message_text(message->type, "an ActionType's type", &out->type, err);
    return status == LAKE_OK ? message_text(message->description, "an ActionType's description",
                                            &out->description, err)
                             : status;
}

lake_status flight_handshake_encode(const struct flight_handshake *handshake,
                                    struct base_buffer *out, struct lake_error *err)
{
    Flight__Pb__Handshake message = FLIGHT__PB__HANDSHAKE__INIT;
    message.has_protocol_version = handshake->protocol_version != 0;
    message.protocol_version = handshake->protocol_version;
    message.has_payload = handshake->payload.size > 0;
    message.payload = message_data(handshake->payload);
    return message_pack(&message.base, out, err);
}

lake_status flight_handshake_decode(struct lake_bytes bytes, struct base_arena *arena,
                                    struct flight_handshake *out, struct lake_error *err)
{
    lake_status status;
    Flight__Pb__Handshake *message =
        message_unpack(&flight__pb__handshake__descriptor, bytes, arena, &status, err);
    if (message == NULL) {
        return status;
    }
    *out = (struct flight_handshake){
        .protocol_version = message->protocol_version,
        .payload = message_bytes(message->payload),
    };
    return LAKE_OK;
}

lake_status flight_basic_auth_encode(const struct flight_basic_auth *auth, struct base_buffer *out,
                                     struct lake_error *err)
{
    Flight__Pb__BasicAuth message = FLIGHT__PB__BASIC_AUTH__INIT;
    message.has_username = true;
    message.username = message_data_of_str(auth->username);
    message.has_password = true;
    message.password = message_data_of_str(auth->password);
    return message_pack(&message.base, out, err);
}

lake_status flight_basic_auth_decode(struct lake_bytes bytes, struct base_arena *arena,
                                     struct flight_basic_auth *out, struct lake_error *err)
{
    lake_status status;
    Flight__Pb__BasicAuth *message =
        message_unpack(&flight__pb__basic_auth__descriptor, bytes, arena, &status, err);
    if (message == NULL) {
        return status;
    }
    status = message_text(message->username, "a user name", &out->username, err);
    return status == LAKE_OK ? message_text(message->password, "a password", &out->password, err)
                             : status;
}

lake_status flight_cancel_result_encode(enum flight_cancel_status status, struct base_buffer *out,
                                        struct lake_error *err)
{
    Flight__Pb__CancelFlightInfoResult message = FLIGHT__PB__CANCEL_FLIGHT_INFO_RESULT__INIT;
    message.has_status = status != FLIGHT_CANCEL_UNSPECIFIED;
    message.status = (int32_t)status;
    return message_pack(&message.base, out, err);
}

lake_status flight_cancel_result_decode(struct lake_bytes bytes, enum flight_cancel_status *out,
                                        struct lake_error *err)
{
    uint64_t value = 0;
    lake_status status =
        message_number(bytes, "CancelFlightInfoResult", FLIGHT_CANCEL_NOT_CANCELLABLE, &value, err);
    if (status == LAKE_OK) {
        *out = (enum flight_cancel_status)value;
    }
    return status;
}

lake_status flight_close_session_result_encode(enum flight_close_session_status status,
                                               struct base_buffer *out, struct lake_error *err)
{
    Flight__Pb__CloseSessionResult message = FLIGHT__PB__CLOSE_SESSION_RESULT__INIT;
    message.has_status = status != FLIGHT_CLOSE_SESSION_UNSPECIFIED;
    message.status = (int32_t)status;
    return message_pack(&message.base, out, err);
}

lake_status flight_set_session_request_decode(struct lake_bytes bytes, struct base_arena *arena,
                                              const struct lake_str **names, size_t *count,
                                              struct lake_error *err)
{
    lake_status status;
    Flight__Pb__SetSessionOptionsRequest *message = message_unpack(
        &flight__pb__set_session_options_request__descriptor, bytes, arena, &status, err);
    if (message == NULL) {
        return status;
    }
    struct lake_str *list =
        base_arena_calloc_array(arena, message->n_session_options + 1, sizeof(*list));
    if (list == NULL) {
        return base_fail_no_memory(err, message->n_session_options);
    }
    for (size_t i = 0; status == LAKE_OK && i < message->n_session_options; i++) {
        status = message_text(message->session_options[i]->key, "a session option's name", &list[i],
                              err);
    }
    if (status == LAKE_OK) {
        *names = list;
        *count = message->n_session_options;
    }
    return status;
}

lake_status flight_set_session_result_encode(const struct lake_str *names, size_t count,
                                             enum flight_set_session_error error,
                                             struct base_buffer *out, struct lake_error *err)
{
    Flight__Pb__SetSessionOptionsResult message = FLIGHT__PB__SET_SESSION_OPTIONS_RESULT__INIT;
    Flight__Pb__SetSessionOptionsError value = FLIGHT__PB__SET_SESSION_OPTIONS_ERROR__INIT;
    value.has_value = error != FLIGHT_SET_SESSION_UNSPECIFIED;
    value.value = (int32_t)error;
    Flight__Pb__SetSessionOptionsErrorEntry *entries =
        base_calloc_array(count + 1, sizeof(*entries));
    Flight__Pb__SetSessionOptionsErrorEntry **pointers =
        base_calloc_array(count + 1, sizeof(*pointers));
    lake_status status = LAKE_OK;
    if (entries == NULL || pointers == NULL) {
        status = base_fail_no_memory(err, count * sizeof(*entries));
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        flight__pb__set_session_options_error_entry__init(&entries[i]);
        entries[i].has_key = true;
        entries[i].key = message_data_of_str(names[i]);
        entries[i].value = &value;
        pointers[i] = &entries[i];
    }
    message.n_errors = count;
    message.errors = pointers;
    status = message_pack(&message.base, out, err);
out:
    base_free(entries);
    base_free(pointers);
    return status;
}
