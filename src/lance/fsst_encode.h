/*
 * FSST (Boncz, Neumann, Leis, "FSST: Fast Random Access String Compression", VLDB 2020), the
 * encoding side: up to 255 symbols of 1 to 8 bytes, found on a sample, stand for the bytes of
 * strings; a byte without a symbol follows an escape. Each string can be decoded without its
 * neighbours.
 */
#ifndef LANCE_FSST_ENCODE_H
#define LANCE_FSST_ENCODE_H

#include "leaf.h"

#define LANCE_FSST_TABLE_BYTES (8 + 256 * 8 + 256)

struct lance_fsst_encoder;
/* Finds symbols for strings like `values`, which have some bytes at least. */
lake_status lance_fsst_encoder_new(const struct lance_leaf_values *values,
                                   struct lance_fsst_encoder **out, struct lake_error *err);
void lance_fsst_encoder_free(struct lance_fsst_encoder *encoder); /* NULL is allowed */
/* About what all of `values` would take, by the sample. */
uint64_t lance_fsst_estimate(const struct lance_fsst_encoder *encoder,
                             const struct lance_leaf_values *values);
/* Appends all strings of `values`, encoded, to `out`, which is of the same type. */
lake_status lance_fsst_encode(const struct lance_fsst_encoder *encoder,
                              const struct lance_leaf_values *values, struct lance_leaf_values *out,
                              struct lake_error *err);
/* As it stands in a page's description. */
void lance_fsst_print_table(const struct lance_fsst_encoder *encoder,
                            uint8_t out[LANCE_FSST_TABLE_BYTES]);

#endif
