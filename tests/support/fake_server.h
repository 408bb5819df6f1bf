/*
 * A Flight server of a test's own, on a free port of loopback: its actions are answered by a
 * function of the test. All of it is in this header, so that a test is one file.
 */
#ifndef FAKE_SERVER_H
#define FAKE_SERVER_H

#include <flight/flight.h>
#include <protobuf-c/protobuf-c.h>
#include <rpc/rpc.h>

#include <stdio.h>
#include <string.h>

/* Sends one result, or fails. Called from many threads. */
typedef lake_status (*fake_answer)(struct rpc_call *call, const struct flight_action *asked,
                                   struct lake_error *err);

struct fake_server {
    struct rpc_authenticator *anyone;
    struct rpc_server *server;
    fake_answer answer;
    char address[64];
};

static inline ProtobufCBinaryData fake_binary(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

static inline lake_status fake_send(struct rpc_call *call, struct lake_bytes body,
                                    struct lake_error *err)
{
    struct base_buffer reply;
    base_buffer_init(&reply, 1 << 20);
    lake_status status = flight_result_encode(body, &reply, err);
    if (status == LAKE_OK)
        status = flight_send_bytes(flight_sender_of_call(call), base_buffer_view(&reply), err);
    base_buffer_fini(&reply);
    return status;
}

static inline lake_status fake_send_message(struct rpc_call *call, const ProtobufCMessage *message,
                                            struct lake_error *err)
{
    uint8_t bytes[16384];
    assert_true(protobuf_c_message_get_packed_size(message) <= sizeof(bytes));
    size_t size = protobuf_c_message_pack(message, bytes);
    return fake_send(call, (struct lake_bytes){bytes, size}, err);
}

static inline lake_status fake_do_action(struct rpc_call *call, void *context,
                                         struct lake_error *err)
{
    struct fake_server *server = context;
    struct rpc_payload payload;
    struct base_arena *arena;
    struct flight_action action;
    bool end = false;
    lake_status status = rpc_call_receive(call, &payload, &end, err);
    if (status != LAKE_OK)
        return status;
    assert_int_equal(base_arena_new(1 << 20, &arena, NULL), LAKE_OK);
    assert_int_equal(flight_action_decode(payload.bytes, arena, &action, NULL), LAKE_OK);
    status = server->answer(call, &action, err);
    base_arena_free(arena);
    rpc_payload_fini(&payload);
    return status;
}

/* `do_put` may be NULL. */
static inline void fake_server_start(struct fake_server *server, fake_answer answer,
                                     rpc_handler do_put)
{
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.address = "127.0.0.1:0";
    options.worker_count = 32;
    server->answer = answer;
    assert_int_equal(rpc_authenticator_new(NULL, NULL, &server->anyone, NULL), LAKE_OK);
    options.authenticator = server->anyone;
    assert_int_equal(rpc_server_new(&options, &server->server, NULL), LAKE_OK);
    assert_int_equal(rpc_server_add_method(server->server, FLIGHT_METHOD_DO_ACTION, false,
                                           fake_do_action, server, NULL),
                     LAKE_OK);
    if (do_put != NULL)
        assert_int_equal(
            rpc_server_add_method(server->server, FLIGHT_METHOD_DO_PUT, false, do_put, NULL, NULL),
            LAKE_OK);
    assert_int_equal(rpc_server_start(server->server, NULL), LAKE_OK);
    (void)snprintf(server->address, sizeof(server->address), "127.0.0.1:%d",
                   rpc_server_port(server->server));
}

static inline void fake_server_stop(struct fake_server *server)
{
    rpc_server_free(server->server);
    rpc_authenticator_free(server->anyone);
}

#endif
