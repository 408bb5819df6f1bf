/*
 * ZoneMap: of each zone of a fragment the least and the greatest value, nulls and NaNs. It tells
 * which rows cannot pass; rows that no zone holds may.
 */
#include "index.h"
#include "predicate.h"

#include <inttypes.h>

static lake_status rule_out(const struct lance_index_slice *slice,
                            const struct lance_index_question *question, uint64_t i,
                            struct lance_row_set *out, struct lake_error *err)
{
    const struct ArrowArray *columns = slice->columns;
    uint64_t fragment = ((const uint64_t *)columns[LANCE_INDEX_FRAGMENT].buffers[1])[i];
    uint64_t start = ((const uint64_t *)columns[LANCE_INDEX_START].buffers[1])[i];
    uint64_t length = ((const uint64_t *)columns[LANCE_INDEX_LENGTH].buffers[1])[i];
    const struct lance_bounds bounds = {
        .low = &columns[LANCE_INDEX_LOW],
        .high = &columns[LANCE_INDEX_HIGH],
        .at = i,
        .null_count = ((const uint32_t *)columns[LANCE_INDEX_NULLS].buffers[1])[i],
        .nan_count = ((const uint32_t *)columns[LANCE_INDEX_NANS].buffers[1])[i],
        .row_count = length};
    if (fragment > UINT32_MAX || start > UINT32_MAX || length > UINT32_MAX - start) {
        return lake_fail(err, LAKE_DATA_LOSS, "a zone of fragment %" PRIu64 " has no valid place",
                         fragment);
    }
    for (size_t p = 0; p < question->predicate_count; p++) {
        if (!lance_predicate_may_pass_bounds(question->predicates[p], &bounds)) {
            return lance_row_set_add(out, fragment << 32 | start, length, err);
        }
    }
    return LAKE_OK;
}

lake_status lance_index_ask_zone_map(const struct lance_index *index,
                                     const struct lance_index_question *question,
                                     struct lance_row_set *out, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t s = 0; s < index->slice_count; s++) {
        for (uint64_t i = 0; i < index->slices[s].row_count && status == LAKE_OK; i++) {
            status = rule_out(&index->slices[s], question, i, out, err);
        }
    }
    return status;
}
