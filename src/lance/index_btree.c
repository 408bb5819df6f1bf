/*
 * BTree: the column's values in ascending order with their rows, in pages of some thousand, and the
 * table of each page's least and greatest value. Nulls come first: a page whose least value is null
 * has nulls, and all values up to its greatest.
 */
#include "index.h"
#include "predicate.h"

#include <string.h>

#define STEP_ROWS 65536 /* of the pages, decoded at once */

/* The rows of the pages that may hold what passes. */
static lake_status find_pages(const struct lance_index *index,
                              const struct lance_index_question *question,
                              struct lance_row_set *pages, struct lake_error *err)
{
    uint64_t total = lance_file_row_count(index->pages.file);
    lake_status status = LAKE_OK;
    for (size_t s = 0; s < index->slice_count && status == LAKE_OK; s++) {
        const struct lance_index_slice *slice = &index->slices[s];
        const uint32_t *nulls = slice->columns[LANCE_INDEX_NULLS].buffers[1];
        const uint32_t *numbers = slice->columns[LANCE_INDEX_PAGE].buffers[1];
        for (uint64_t i = 0; i < slice->row_count && status == LAKE_OK; i++) {
            uint64_t start = numbers[i] * index->page_rows;
            if (start >= total) {
                return lake_fail(err, LAKE_DATA_LOSS, "an index has no page %u", numbers[i]);
            }
            uint64_t count = BASE_MIN(index->page_rows, total - start);
            const struct lance_bounds bounds = {.low = &slice->columns[LANCE_INDEX_LOW],
                                                .high = &slice->columns[LANCE_INDEX_HIGH],
                                                .at = i,
                                                .null_count = nulls[i],
                                                .row_count = count};
            bool may_pass = true;
            for (size_t p = 0; p < question->predicate_count && may_pass; p++) {
                may_pass = lance_predicate_may_pass_bounds(question->predicates[p], &bounds);
            }
            status = may_pass ? lance_row_set_add(pages, start, count, err) : LAKE_OK;
        }
    }
    lance_row_set_sort(pages);
    return status;
}

struct page_readers {
    struct lance_field_reader *values;
    struct lance_field_reader *ids;
    uint8_t *keep; /* STEP_ROWS */
};

/* Adds the rows whose values pass, of `count` index rows from `start` on. */
static lake_status ask_rows(const struct page_readers *readers,
                            const struct lance_index_question *question, uint64_t start,
                            uint64_t count, struct lance_row_set *out, struct lake_error *err)
{
    struct ArrowArray values = {.release = NULL};
    struct ArrowArray ids = {.release = NULL};
    memset(readers->keep, 1, (size_t)count);
    lake_status status = lance_field_reader_read(readers->values, start, count, &values, err);
    for (size_t p = 0; p < question->predicate_count && status == LAKE_OK; p++) {
        status = lance_predicate_apply(question->predicates[p], &values, readers->keep, err);
    }
    if (status == LAKE_OK && memchr(readers->keep, 1, (size_t)count) != NULL) {
        status = lance_field_reader_read(readers->ids, start, count, &ids, err);
        const uint64_t *numbers = status == LAKE_OK ? ids.buffers[1] : NULL;
        for (uint64_t i = 0; i < count && status == LAKE_OK; i++) {
            if (readers->keep[i] != 0) {
                status = lance_row_set_add(out, numbers[i], 1, err);
            }
        }
    }
    if (values.release != NULL) {
        values.release(&values);
    }
    if (ids.release != NULL) {
        ids.release(&ids);
    }
    return status;
}

static lake_status ask_pages(const struct page_readers *readers,
                             const struct lance_index_question *question,
                             const struct lance_row_set *pages, struct lance_row_set *out,
                             struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t r = 0; r < pages->count && status == LAKE_OK; r++) {
        uint64_t at = pages->runs[r].start;
        uint64_t end = at + pages->runs[r].count;
        while (at < end && status == LAKE_OK && !out->too_many) {
            uint64_t count = BASE_MIN(end - at, (uint64_t)STEP_ROWS);
            status = ask_rows(readers, question, at, count, out, err);
            at += count;
        }
    }
    return status;
}

lake_status lance_index_ask_btree(const struct lance_index *index,
                                  const struct lance_index_question *question,
                                  struct lance_row_set *out, struct lake_error *err)
{
    struct page_readers readers = {.values = NULL};
    struct lance_row_set pages;
    lance_row_set_init(&pages, question->max_read_rows);
    lake_status status = find_pages(index, question, &pages, err);
    out->too_many = pages.too_many;
    if (status == LAKE_OK && pages.count > 0) {
        readers.keep = base_alloc_array(STEP_ROWS, 1);
        status = readers.keep == NULL ? base_fail_no_memory(err, STEP_ROWS) : LAKE_OK;
        if (status == LAKE_OK) {
            status = lance_index_reader_new(&index->pages, "values", index->values->format,
                                            question->counters, &readers.values, err);
        }
        if (status == LAKE_OK) {
            status = lance_index_reader_new(&index->pages, "ids", "L", question->counters,
                                            &readers.ids, err);
        }
        if (status == LAKE_OK) {
            status = ask_pages(&readers, question, &pages, out, err);
        }
    }
    lance_field_reader_free(readers.values);
    lance_field_reader_free(readers.ids);
    base_free(readers.keep);
    lance_row_set_fini(&pages);
    return status;
}
