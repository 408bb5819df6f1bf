/*
 * Arrow arrays over memory that decoders filled: each buffer is a base_alloc block owned by its
 * array, released with it. Independent of readers and of each other.
 */
#ifndef LANCE_ARRAY_BUILD_H
#define LANCE_ARRAY_BUILD_H

#include "file.h"
#include "leaf.h"
#include "levels.h"

/* An array with room for buffers (all NULL), children and, if asked, a dictionary. Release it with
 * its own callback, also half filled. */
lake_status lance_array_new(uint64_t length, size_t buffer_count, size_t child_count,
                            bool dictionary, struct ArrowArray *out, struct lake_error *err);
/* Moves the buffer's memory in; an empty buffer becomes a block of zeros that is not NULL. */
void lance_array_set_buffer(struct ArrowArray *array, size_t index, struct base_buffer *buffer);
/* Moves a bitmap in, or sets "no nulls" when null_count is 0. */
void lance_array_set_validity(struct ArrowArray *array, struct lance_bits *valid,
                              uint64_t null_count);
/* The offsets of a list, moved out of its layer; RESOURCE_EXHAUSTED when they need more than 32
 * bits in a type that has no more. */
lake_status lance_array_set_list_offsets(struct ArrowArray *array, struct lance_layer_out *layer,
                                         bool large, struct lake_error *err);
/* Values of a leaf with the validity of its layer; moves memory out of `values`. */
lake_status lance_array_of_leaf(struct lance_leaf_values *values, struct lance_layer_out *layer,
                                struct lance_leaf_values *dictionary, struct ArrowArray *out,
                                struct lake_error *err);
/* `length` nulls of any type. */
lake_status lance_array_of_nulls(const struct ArrowSchema *schema, uint64_t length,
                                 struct ArrowArray *out, struct lake_error *err);

/* ---- gather.c ---- */

/* The rows of `runs`, in any order, also several times, as a new array of type `schema` without
 * offset. RESOURCE_EXHAUSTED when they need more than 32-bit offsets or a dictionary's indices can
 * say. */
lake_status lance_array_take(const struct ArrowSchema *schema, const struct ArrowArray *array,
                             const struct lance_run *runs, size_t run_count, struct ArrowArray *out,
                             struct lake_error *err);
/* The same of several arrays: `sources` says of which one each run is. */
lake_status lance_array_gather(const struct ArrowSchema *schema,
                               const struct ArrowArray *const *arrays, size_t array_count,
                               const struct lance_run *runs, const uint32_t *sources,
                               size_t run_count, struct ArrowArray *out, struct lake_error *err);

#endif
