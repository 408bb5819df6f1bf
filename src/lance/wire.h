/*
 * The fields of a protobuf message one by one, for messages that are recursive or so many that a
 * tree of them is not wanted.
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

#endif
