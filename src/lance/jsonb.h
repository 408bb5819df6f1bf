/*
 * JSON columns: Lance stores each document in a binary form (JSONB), and readers see text.
 *
 * A value is a header of 32 bits, big endian: the kind (scalar, array, object) and a count; then an
 * entry of 32 bits for each part, its kind and its size; then the parts. An object's entries are
 * those of all its keys, then those of all its values.
 */
#ifndef LANCE_JSONB_H
#define LANCE_JSONB_H

#include "schema.h"

#define LANCE_MAX_JSON_DEPTH 256

enum lance_json_container { /* the header's highest three bits */
    LANCE_JSON_SCALAR = 1,
    LANCE_JSON_OBJECT = 2,
    LANCE_JSON_ARRAY = 4
};

enum lance_json_kind { /* an entry's bits 28 to 30 */
    LANCE_JSON_NULL = 0,
    LANCE_JSON_STRING = 1,
    LANCE_JSON_NUMBER = 2,
    LANCE_JSON_FALSE = 3,
    LANCE_JSON_TRUE = 4,
    LANCE_JSON_CONTAINER = 5
};

enum lance_json_number { /* the first byte's high half; the value follows, big endian */
    LANCE_JSON_ZERO = 0,
    LANCE_JSON_NAN = 1,
    LANCE_JSON_INFINITY = 2,
    LANCE_JSON_MINUS_INFINITY = 3,
    LANCE_JSON_INT = 4,
    LANCE_JSON_UINT = 5,
    LANCE_JSON_FLOAT = 6
};

#define LANCE_JSON_COUNT_MASK 0x1FFFFFFFU /* of a header */
#define LANCE_JSON_SIZE_MASK  0x0FFFFFFFU /* of an entry */

/* Documents into their binary form, one after another. */
struct lance_jsonb_encoder {
    struct base_buffer parts;   /* of the document at hand: finished values, innermost first */
    struct base_buffer whole;   /* a container being put together; digits of a number */
    struct lance_jsonb_member { /* of the containers that are open */
        size_t key_at, key_size, value_at;
        const uint8_t *key; /* once the container is whole */
        uint32_t entry;
    } * members;
    size_t member_count, member_capacity;
};
void lance_jsonb_encoder_init(struct lance_jsonb_encoder *encoder);
void lance_jsonb_encoder_fini(struct lance_jsonb_encoder *encoder);
/* `*out` is valid until the next call. JSON is RFC 8259's, and NaN, Infinity and -Infinity, which
 * Python writes and which read as null. Members are stored by their keys' bytes, integers beyond 64
 * bits as doubles. INVALID_ARGUMENT, with the place: what is no JSON, a key that comes twice, half
 * of a surrogate pair, a number that no double holds, more than LANCE_MAX_JSON_DEPTH levels; a part
 * of 256 MiB. */
lake_status lance_jsonb_of_text(struct lance_jsonb_encoder *encoder, struct lake_str text,
                                struct lake_bytes *out, struct lake_error *err);

/* Appends the text of one document: no white space, members as stored; null for no bytes at all,
 * which is what lies below a struct that is null. */
lake_status lance_jsonb_to_text(struct lake_bytes document, struct base_buffer *out,
                                struct lake_error *err);
/* Replaces an array of documents (large binary) by one of texts (utf8). Releases `array` on
 * failure. */
lake_status lance_jsonb_array_to_text(struct ArrowArray *array, struct lake_error *err);

#endif
