#include "flight.h"

static lake_status receive_results(struct rpc_client_call *call, struct base_buffer *reply,
                                   struct lake_error *err)
{
    bool end = false;
    bool first = true;
    while (!end) {
        struct rpc_payload payload = {0};
        struct lake_bytes body;
        lake_status status = rpc_client_call_receive(call, &payload, &end, err);
        if (status == LAKE_OK && !end && first) {
            status = flight_result_decode(payload.bytes, &body, err);
            if (status == LAKE_OK)
                status = base_buffer_append(reply, body.data, body.size, err);
            first = false;
        }
        rpc_payload_fini(&payload);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

lake_status flight_do_action(struct rpc_channel *channel, const struct rpc_header *headers,
                             size_t header_count, int64_t deadline_ms,
                             const struct flight_action *action, struct base_buffer *reply,
                             struct lake_error *err)
{
    struct rpc_client_call *call = NULL;
    struct base_buffer request;
    base_buffer_init(&request, action->type.size + action->body.size + 64);
    base_buffer_clear(reply);
    lake_status status = flight_action_encode(action, &request, err);
    if (status == LAKE_OK)
        status = rpc_client_call_start(channel, FLIGHT_METHOD_DO_ACTION, headers, header_count,
                                       deadline_ms, &call, err);
    if (status == LAKE_OK)
        status = flight_send_bytes(flight_sender_of_client(call), base_buffer_view(&request), err);
    if (status == LAKE_OK)
        status = rpc_client_call_finish_sending(call, err);
    if (status == LAKE_OK)
        status = receive_results(call, reply, err);
    rpc_client_call_free(call);
    base_buffer_fini(&request);
    return status;
}
