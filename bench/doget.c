/* libs: flight */
/*
 * doget HOST:PORT TICKET
 *
 * One DoGet, received without decoding. Prints "<seconds> <body bytes>": the client of both sides
 * of flight_doget.
 */
#include <flight/flight.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    struct rpc_channel_options options = {.target = argv[1]};
    struct rpc_channel *channel = NULL;
    struct rpc_client_call *call = NULL;
    struct lake_error error = {0};
    struct base_buffer request;
    bool end = false;
    uint64_t bytes = 0;
    base_buffer_init(&request, 1 << 20);
    lake_status status = rpc_channel_open(&options, &channel, &error);
    if (status == LAKE_OK)
        status = flight_ticket_encode(base_bytes_of_str(base_str_of(argv[2])), &request, &error);
    int64_t started_us = base_clock_monotonic_us();
    if (status == LAKE_OK)
        status =
            rpc_client_call_start(channel, FLIGHT_METHOD_DO_GET, NULL, 0, INT64_MAX, &call, &error);
    if (status == LAKE_OK)
        status =
            flight_send_bytes(flight_sender_of_client(call), base_buffer_view(&request), &error);
    if (status == LAKE_OK)
        status = rpc_client_call_finish_sending(call, &error);
    while (status == LAKE_OK && !end) {
        struct rpc_payload payload = {0};
        struct flight_data data;
        status = rpc_client_call_receive(call, &payload, &end, &error);
        if (status == LAKE_OK && !end)
            status = flight_data_decode(payload.bytes, &data, &error);
        if (status == LAKE_OK && !end)
            bytes += data.body.size;
        rpc_payload_fini(&payload);
    }
    if (status != LAKE_OK) {
        fprintf(stderr, "%s: %s\n", lake_status_name(status), error.message);
        return 1;
    }
    printf("%.6f %llu\n", (double)(base_clock_monotonic_us() - started_us) / 1e6,
           (unsigned long long)bytes);
    rpc_client_call_free(call);
    rpc_channel_unref(channel);
    base_buffer_fini(&request);
    return 0;
}
