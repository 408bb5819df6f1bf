/* A transport in memory for tests: what is sent is gathered, as a receiver does it. */
#ifndef TESTS_FLIGHT_WIRE_H
#define TESTS_FLIGHT_WIRE_H

#include <flight/flight.h>

#include <stdlib.h>
#include <string.h>

#define WIRE_MESSAGES 4096

struct wire {
    struct rpc_payload messages[WIRE_MESSAGES];
    size_t sent;
    size_t received;
    size_t fail_at; /* the send with this number fails; 0: none */
    size_t borrowed_parts;
    const void *borrowed[64];
    size_t largest;
};

static lake_status wire_send(void *context, struct rpc_part *parts, size_t part_count,
                             struct lake_error *err)
{
    struct wire *wire = context;
    size_t size = 0;
    bool fail = wire->sent + 1 == wire->fail_at || wire->sent == WIRE_MESSAGES;
    for (size_t i = 0; i < part_count; i++) {
        size += parts[i].size;
    }
    uint8_t *bytes = aligned_alloc(64, (size + 64) / 64 * 64);
    size_t at = 0;
    for (size_t i = 0; i < part_count; i++) {
        if (parts[i].size > 0) {
            memcpy(bytes + at, parts[i].data, parts[i].size);
        }
        at += parts[i].size;
        if (parts[i].release != NULL) {
            if (wire->borrowed_parts < 64) {
                wire->borrowed[wire->borrowed_parts] = parts[i].data;
            }
            wire->borrowed_parts++;
            parts[i].release(parts[i].context);
        }
    }
    wire->largest = BASE_MAX(wire->largest, size);
    if (fail) {
        free(bytes);
        wire->sent++;
        return lake_fail(err, LAKE_CANCELLED, "the client went away");
    }
    wire->messages[wire->sent++] = (struct rpc_payload){{bytes, size}, bytes};
    return LAKE_OK;
}

static lake_status wire_receive(void *context, struct rpc_payload *out, bool *end,
                                struct lake_error *err)
{
    struct wire *wire = context;
    (void)err;
    *end = wire->received == wire->sent;
    if (!*end) {
        *out = wire->messages[wire->received++];
    }
    return LAKE_OK;
}

static inline struct flight_sender wire_sender(struct wire *wire)
{
    return (struct flight_sender){wire_send, wire};
}

static inline struct flight_receiver wire_receiver(struct wire *wire)
{
    return (struct flight_receiver){wire_receive, wire};
}

static inline void wire_fini(struct wire *wire)
{
    for (size_t i = wire->received; i < wire->sent; i++) {
        rpc_payload_fini(&wire->messages[i]);
    }
    free(wire);
}

static inline struct wire *wire_new(void)
{
    return calloc(1, sizeof(struct wire));
}

#endif
