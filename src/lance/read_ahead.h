/*
 * Reading ahead from a store whose answers take their time. A task says which bytes its next rows
 * will need; neighbouring ones are asked for together, and all of them at once. Its readers then
 * take them from here, and from the store what was not foreseen.
 *
 * Belongs to one task and its thread. All tasks of a scan share a budget.
 */
#ifndef LANCE_READ_AHEAD_H
#define LANCE_READ_AHEAD_H

#include "file.h"

/* What all tasks of a scan have on its way or in memory beyond what they need at once. */
#define LANCE_AHEAD_BYTES ((uint64_t)32 << 20)

struct lance_ahead_budget {
    _Atomic uint64_t held_bytes;  /* on the way, or here and not passed by */
    _Atomic uint64_t taken_bytes; /* that readers have taken so far */
};

struct lance_read_ahead;

lake_status lance_read_ahead_new(struct lance_ahead_budget *budget, struct lance_read_ahead **out,
                                 struct lake_error *err);
void lance_read_ahead_free(struct lance_read_ahead *ahead); /* cancels; NULL is allowed */
/* Bytes [start, end) of a file, which must stay open, will be read for rows below `end_row`. */
lake_status lance_read_ahead_want(struct lance_read_ahead *ahead, struct lance_file *file,
                                  uint64_t start, uint64_t end, uint64_t end_row,
                                  struct lake_error *err);
/* Asks for all that is wanted and not here. */
lake_status lance_read_ahead_send(struct lance_read_ahead *ahead, struct lake_error *err);
/* How much more may be asked for that is not needed yet: no more than was read so far, so that a
 * scan that soon ends has not read much in vain. */
uint64_t lance_read_ahead_allowed(const struct lance_read_ahead *ahead);
/* What only rows below `row` need is let go. */
void lance_read_ahead_passed(struct lance_read_ahead *ahead, uint64_t row);
/* How far a read of [start, end) that might as well go on to `stop` should go. */
uint64_t lance_read_ahead_reach(struct lance_read_ahead *ahead, const struct lance_file *file,
                                uint64_t start, uint64_t end, uint64_t stop);
lake_status lance_read_ahead_read(struct lance_read_ahead *ahead, struct lance_file *file,
                                  uint64_t offset, size_t size_bytes, uint8_t *out,
                                  struct lake_error *err);

#endif
