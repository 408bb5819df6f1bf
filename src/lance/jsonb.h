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

/* Appends the text of one document: no white space, members as stored. */
lake_status lance_jsonb_to_text(struct lake_bytes document, struct base_buffer *out,
                                struct lake_error *err);
/* Replaces an array of documents (large binary) by one of texts (utf8). Releases `array` on
 * failure. */
lake_status lance_jsonb_array_to_text(struct ArrowArray *array, struct lake_error *err);

#endif
