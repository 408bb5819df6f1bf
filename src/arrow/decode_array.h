/* Between decode.c (messages, dictionaries) and decode_array.c (arrays over one body). */
#ifndef ARROW_DECODE_ARRAY_H
#define ARROW_DECODE_ARRAY_H

#include "arrow_internal.h"
#include "flatbuffer.h"

/* Rows of one array: no body that we accept holds more, and a column without buffers is bounded. */
#define ARROW_MAX_ROWS ((int64_t)1 << 32)

/* What every node of a decoded batch holds: the body, and memory made while decoding. */
struct arrow_body_owner;
/* Takes over `body` in every case. */
lake_status arrow_body_owner_new(struct arrow_ipc_body *body, struct arrow_body_owner **out,
                                 struct lake_error *err);
void arrow_body_owner_unref(struct arrow_body_owner *owner);

struct arrow_reading {
    FB(FieldNode_vec_t) nodes;
    size_t node_count;
    size_t next_node;
    FB(Buffer_vec_t) buffers;
    size_t buffer_count;
    size_t next_buffer;
    flatbuffers_int64_vec_t variadic_counts;
    size_t variadic_count;
    size_t next_variadic;
    struct lake_bytes body;
    int codec; /* of CompressionType, or -1 */
    uint64_t decompressed_left;
    struct arrow_body_owner *owner;
    const struct arrow_dictionaries *dictionaries;
    struct arrow_batch **values; /* of each dictionary */
};
/* The next array of the message. */
lake_status arrow_read_array(struct arrow_reading *reading, const struct ArrowSchema *field,
                             struct ArrowArray *out, struct lake_error *err);

/* Values of a dictionary and those of its delta as one array (concat.c). What it copies is taken
 * from *left_bytes; RESOURCE_EXHAUSTED when that is not enough. */
lake_status arrow_concat(const struct ArrowSchema *field, const struct ArrowArray *a,
                         const struct ArrowArray *b, uint64_t *left_bytes, struct ArrowArray *out,
                         struct lake_error *err);

#endif
