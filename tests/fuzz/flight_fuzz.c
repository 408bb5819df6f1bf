/* libs: flight arrow rpc base */
/* Any bytes as each Flight message: refused, or decoded into what can be encoded again. The first
 * byte chooses the message. */
#include <flight/flight.h>

#include <string.h>

struct input {
    struct lake_bytes bytes;
    bool taken;
};

static lake_status give(void *context, struct rpc_payload *out, bool *end, struct lake_error *err)
{
    struct input *input = context;
    (void)err;
    *end = input->taken;
    if (!input->taken) {
        uint8_t *copy = base_alloc(input->bytes.size + 1);
        memcpy(copy, input->bytes.data, input->bytes.size);
        *out = (struct rpc_payload){{copy, input->bytes.size}, copy};
        input->taken = true;
    }
    return LAKE_OK;
}

static void read_stream(struct lake_bytes bytes)
{
    struct input input = {.bytes = bytes};
    struct flight_receiver receiver = {give, &input};
    struct flight_stream_reader *reader;
    struct ArrowArray array = {.release = NULL};
    bool end;
    if (flight_stream_reader_new(receiver, NULL, &reader, NULL) != LAKE_OK) {
        return;
    }
    if (flight_stream_reader_next(reader, &array, &end, NULL) == LAKE_OK && !end) {
        ArrowArrayRelease(&array);
    }
    flight_stream_reader_free(reader);
}

static void read_command(struct lake_bytes bytes, struct base_arena *arena, struct base_buffer *out)
{
    struct flight_sql_command command;
    if (flight_sql_command_decode(bytes, arena, &command, NULL) == LAKE_OK) {
        (void)flight_sql_command_encode(&command, out, NULL);
    }
}

static void read_info(struct lake_bytes bytes, struct base_arena *arena, struct base_buffer *out)
{
    struct flight_info info;
    struct flight_poll_info poll;
    if (flight_info_decode(bytes, arena, &info, NULL) == LAKE_OK) {
        (void)flight_info_encode(&info, out, NULL);
    }
    if (flight_poll_info_decode(bytes, arena, &poll, NULL) == LAKE_OK) {
        (void)flight_poll_info_encode(&poll, out, NULL);
    }
    (void)flight_cancel_request_decode(bytes, arena, &info, NULL);
}

static void read_small(struct lake_bytes bytes, struct base_arena *arena)
{
    struct flight_descriptor descriptor;
    struct flight_action action;
    struct flight_action_type type;
    struct flight_handshake handshake;
    struct flight_basic_auth auth;
    struct lake_bytes view;
    const struct lake_str *names;
    size_t count;
    int64_t rows;
    enum flight_cancel_status status;
    (void)flight_descriptor_decode(bytes, arena, &descriptor, NULL);
    (void)flight_action_decode(bytes, arena, &action, NULL);
    (void)flight_action_type_decode(bytes, arena, &type, NULL);
    (void)flight_handshake_decode(bytes, arena, &handshake, NULL);
    (void)flight_basic_auth_decode(bytes, arena, &auth, NULL);
    (void)flight_ticket_decode(bytes, &view, NULL);
    (void)flight_set_session_request_decode(bytes, arena, &names, &count, NULL);
    (void)flight_sql_update_result_decode(bytes, &rows, NULL);
    (void)flight_cancel_result_decode(bytes, &status, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base_arena *arena;
    struct base_buffer out;
    if (size == 0 || base_arena_new(1 << 20, &arena, NULL) != LAKE_OK) {
        return 0;
    }
    base_buffer_init(&out, 1 << 20);
    struct lake_bytes bytes = {data + 1, size - 1};
    switch (data[0] % 4) {
    case 0:
        read_stream(bytes);
        break;
    case 1:
        read_command(bytes, arena, &out);
        break;
    case 2:
        read_info(bytes, arena, &out);
        break;
    default:
        read_small(bytes, arena);
        break;
    }
    base_buffer_fini(&out);
    base_arena_free(arena);
    return 0;
}
