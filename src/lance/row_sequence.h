/*
 * Stable row ids and row lineage: sequences of numbers, one for each physical row of a fragment,
 * kept in the manifest in compact forms. Read for a range of rows at a time, without unfolding the
 * whole.
 */
#ifndef LANCE_ROW_SEQUENCE_H
#define LANCE_ROW_SEQUENCE_H

#include "lance.h"

/* Numbers [start, start + count) of a serialized RowIdSequence. DATA_LOSS for a malformed one, or
 * one that is shorter. */
lake_status lance_row_ids_read(struct lake_bytes sequence, uint64_t start, uint64_t count,
                               uint64_t *out, struct lake_error *err);
/* Where numbers stand in a RowIdSequence: a hit for each of the ascending `ids` that is there, at
 * most `id_count`. */
struct lance_row_id_hit {
    size_t index; /* in `ids` */
    uint64_t row;
};
lake_status lance_row_ids_find(struct lake_bytes sequence, const uint64_t *ids, size_t id_count,
                               struct lance_row_id_hit *hits, size_t *hit_count,
                               struct lake_error *err);
/* The same as lance_row_ids_read of a RowDatasetVersionSequence: of each row the version that it
 * says. */
lake_status lance_row_versions_read(struct lake_bytes sequence, uint64_t start, uint64_t count,
                                    uint64_t *out, struct lake_error *err);

#endif
