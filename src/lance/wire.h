/*
 * The fields of a protobuf message one by one, for messages that are recursive or so many that a
 * tree of them is not wanted. Whoever takes messages apart bounds depth and memory.
 */
#ifndef LANCE_WIRE_H
#define LANCE_WIRE_H

#include <base/base.h>

/* Either a number (wire type 0) or bytes (2); of the fixed widths only number and type are told. */
struct lance_wire_field {
    uint32_t number;
    uint32_t wire_type;
    uint64_t value;
    struct lake_bytes bytes; /* borrowed from the message */
};

/* False at the end of the message, or when it is broken (then *failed). */
bool lance_wire_next(struct base_cursor *cursor, struct lance_wire_field *out, bool *failed);
/* The same, past what is neither a number nor bytes. */
bool lance_wire_next_value(struct base_cursor *cursor, struct lance_wire_field *out, bool *failed);

/* How pages are encoded: a oneof of messages, which hold such oneofs again, read as a tree. */
struct lance_oneof {
    uint32_t last;      /* the numbers of its fields are 1 to this */
    unsigned max_depth; /* that a tree may have */
    size_t node_bytes;
    /* One of the messages into its node, which is zero. */
    lake_status (*parse)(uint32_t number, struct lake_bytes message, unsigned depth,
                         struct base_arena *arena, void *node, struct lake_error *err);
};
/* The node lives in the arena. DATA_LOSS for a broken message, or one with none of the fields;
 * UNIMPLEMENTED for a field that is not known, or a tree that is deeper. */
lake_status lance_oneof_parse(const struct lance_oneof *oneof, struct lake_bytes message,
                              unsigned depth, struct base_arena *arena, const void **out,
                              struct lake_error *err);
/* DATA_LOSS: what lance_wire_next failed at. */
lake_status lance_encoding_broken(struct lake_error *err);

#endif
