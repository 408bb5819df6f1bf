/* A queue of bytes with a fixed capacity. Its owner guards it; one writer and one reader may move
 * the bytes themselves side by side, between the calls. */
#ifndef STORAGE_BYTE_RING_H
#define STORAGE_BYTE_RING_H

#include <base/base.h>

struct byte_ring {
    uint8_t *data;
    size_t capacity;
    size_t first, size; /* of what is in it */
};

lake_status byte_ring_init(struct byte_ring *ring, size_t capacity, struct lake_error *err);
void byte_ring_fini(struct byte_ring *ring);
/* Free room without a break; fewer bytes than are free at its end. */
uint8_t *byte_ring_room(const struct byte_ring *ring, size_t *size);
void byte_ring_filled(struct byte_ring *ring, size_t size);
/* The first bytes without a break; none when it is empty. */
struct lake_bytes byte_ring_front(const struct byte_ring *ring);
void byte_ring_drop(struct byte_ring *ring, size_t size);

#endif
