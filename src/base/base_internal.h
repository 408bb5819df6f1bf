/*
 * What the files of base share and its tests look at; nobody else includes it.
 */
#ifndef BASE_INTERNAL_H
#define BASE_INTERNAL_H

#include "base.h"

/* The length of the well-formed UTF-8 character at `p`, of which `left` >= 1 bytes are readable;
 * 0 when there is none. */
size_t base_utf8_step(const uint8_t *p, size_t left);

/* Where the last UUIDv7 of a sequence stood: 48 bits of time, 12 and 62 bits of tail. */
struct base_uuid7_state {
    uint64_t unix_ms;
    uint64_t tail_high;
    uint64_t tail_low;
};
/* The next identifier of a sequence at `now_ms`: larger than the one before it even when the clock
 * stands still or goes back (RFC 9562, section 6.2, method 2). */
void base_uuid7_next(struct base_uuid7_state *state, uint64_t now_ms, const uint8_t random[16],
                     struct base_uuid *out);

/* Whether the allocation that is about to happen must fail; see base_fault_fail_nth_alloc. */
bool base_fault_alloc_fails(void);

/* One log line, without writing it: the bytes put into `out`, newline included. */
size_t base_log_format(char *out, size_t room, int64_t unix_ms, enum base_log_level level,
                       const char *message, va_list pairs);

#endif
