/*
 * From what a column holds to what is shown of it: blobs from the rows that describe where they lie
 * to their bytes, JSON from its binary form to text.
 */
#ifndef LANCE_STORED_READ_H
#define LANCE_STORED_READ_H

#include "file_read.h"

/* Bytes of all blobs of one array; one larger blob alone is read up to LANCE_MAX_BLOB_BYTES. */
#define LANCE_MAX_BLOBS_BYTES ((uint64_t)64 << 20)
#define LANCE_MAX_BLOB_BYTES  ((uint64_t)1 << 30)

/* Replaces an array read from `file` by what is shown; an array that is stored as it is shown
 * stays. RESOURCE_EXHAUSTED: read fewer rows at a time. Releases `array` on failure. */
lake_status lance_stored_load(struct lance_file *file, enum lance_stored stored,
                              bool blob_descriptions, struct lance_read_counters *counters,
                              struct ArrowArray *array, struct lake_error *err);

#endif
