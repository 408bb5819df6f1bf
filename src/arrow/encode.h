/* Between encode.c (messages, dictionaries) and encode_array.c (one array's buffers). */
#ifndef ARROW_ENCODE_H
#define ARROW_ENCODE_H

#include "arrow_internal.h"
#include "flatbuffer.h"

/* Buffers start at multiples of this within a body: what SIMD and other readers like best. */
#define IPC_ALIGNMENT 64

/* One message under construction: its nodes and buffers, and the parts of its body. */
struct arrow_body {
    struct base_arena *memory; /* of rewritten buffers */
    FB(FieldNode_t) * nodes;
    size_t node_count;
    size_t node_capacity;
    FB(Buffer_t) * buffers;
    size_t buffer_count;
    size_t buffer_capacity;
    struct arrow_ipc_part *parts;
    size_t part_count;
    size_t part_capacity;
    int64_t *variadic_counts;
    size_t variadic_count;
    size_t variadic_capacity;
    uint64_t body_bytes;
};
void arrow_body_fini(struct arrow_body *body); /* frees the lists, not `memory` */

/* Adds rows [offset, offset + length) of `array`, counted from its own offset. */
lake_status arrow_body_add(struct arrow_body *body, const struct ArrowSchema *field,
                           const struct ArrowArray *array, int64_t offset, int64_t length,
                           struct lake_error *err);

#endif
