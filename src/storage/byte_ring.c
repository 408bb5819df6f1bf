#include "byte_ring.h"

lake_status byte_ring_init(struct byte_ring *ring, size_t capacity, struct lake_error *err)
{
    *ring = (struct byte_ring){.data = base_alloc(capacity), .capacity = capacity};
    return ring->data == NULL ? base_fail_no_memory(err, capacity) : LAKE_OK;
}

void byte_ring_fini(struct byte_ring *ring)
{
    base_free(ring->data);
    *ring = (struct byte_ring){.data = NULL};
}

uint8_t *byte_ring_room(const struct byte_ring *ring, size_t *size)
{
    size_t end = (ring->first + ring->size) % ring->capacity;
    *size = BASE_MIN(ring->capacity - ring->size, ring->capacity - end);
    return ring->data + end;
}

void byte_ring_filled(struct byte_ring *ring, size_t size)
{
    ring->size += size;
}

struct lake_bytes byte_ring_front(const struct byte_ring *ring)
{
    return (struct lake_bytes){ring->data + ring->first,
                               BASE_MIN(ring->size, ring->capacity - ring->first)};
}

void byte_ring_drop(struct byte_ring *ring, size_t size)
{
    ring->first = (ring->first + size) % ring->capacity;
    ring->size -= size;
}
