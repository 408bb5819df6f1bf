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
/* The same of a RowDatasetVersionSequence: of each row the version that it says. */
lake_status lance_row_versions_read(struct lake_bytes sequence, uint64_t start, uint64_t count,
                                    uint64_t *out, struct lake_error *err);

#endif
