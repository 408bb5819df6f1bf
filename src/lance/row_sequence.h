/*
 * Stable row ids and row lineage: sequences of numbers, one for each physical row of a fragment,
 * kept in the manifest in compact forms. Read for a range of rows at a time, without unfolding the
 * whole.
 */
#ifndef LANCE_ROW_SEQUENCE_H
#define LANCE_ROW_SEQUENCE_H

#include "table.h"

/* A serialized RowIdSequence. In some of its forms numbers are found by halving, so they must
 * ascend. Whether they do takes a look at each of them: at every use, unless it was checked. */
struct lance_row_ids {
    struct lake_bytes bytes;
    bool checked; /* by lance_row_ids_check */
};
/* DATA_LOSS for a malformed one, or numbers that fall where they must ascend. */
lake_status lance_row_ids_check(struct lance_row_ids *ids, struct lake_error *err);
/* Numbers [start, start + count). DATA_LOSS as above, and for one that is shorter. */
lake_status lance_row_ids_read(struct lance_row_ids ids, uint64_t start, uint64_t count,
                               uint64_t *out, struct lake_error *err);
/* Where numbers stand: a hit for each of the ascending `ids` that is there, at most `id_count`.
 * DATA_LOSS as for checking, and for a number that stands there twice. */
struct lance_row_id_hit {
    size_t index; /* in `ids` */
    uint64_t row;
};
lake_status lance_row_ids_find(struct lance_row_ids in, const uint64_t *ids, size_t id_count,
                               struct lance_row_id_hit *hits, size_t *hit_count,
                               struct lake_error *err);
/* Those of a fragment, which has them in the manifest; checked once, when they are first used.
 * DATA_LOSS as above. Thread-safe. */
lake_status lance_manifest_row_ids(const struct lance_manifest *manifest, size_t fragment_index,
                                   struct lance_row_ids *out, struct lake_error *err);
/* As lance_row_ids_read, of a RowDatasetVersionSequence: of each row the version that it says. */
lake_status lance_row_versions_read(struct lake_bytes sequence, uint64_t start, uint64_t count,
                                    uint64_t *out, struct lake_error *err);

#endif
