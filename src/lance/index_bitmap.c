/*
 * Bitmap: each distinct value of the column, null too, with a bitmap of its rows. The values are in
 * the table; the bitmaps are read for those that pass.
 */
#include "index.h"
#include "predicate.h"

#include <string.h>

#define MAX_READ_BYTES ((uint64_t)1 << 20) /* of bitmaps, about, at once */

struct parsed_container {
    struct lance_row_set *out;
    uint64_t base; /* of the fragment */
};

static lake_status add_bits(void *context, uint64_t start,
                            const uint64_t words[LANCE_ROARING_WORDS], struct lake_error *err)
{
    struct parsed_container *container = context;
    lake_status status = LAKE_OK;
    for (size_t w = 0; w < LANCE_ROARING_WORDS && status == LAKE_OK; w++) {
        uint64_t word = words[w];
        for (uint64_t at = container->base + start + w * 64; word != 0 && status == LAKE_OK;) {
            unsigned zeros = (unsigned)__builtin_ctzll(word);
            word >>= zeros;
            unsigned ones = word == UINT64_MAX ? 64 : (unsigned)__builtin_ctzll(~word);
            status = lance_row_set_add(container->out, at + zeros, ones, err);
            at += zeros + ones;
            word = ones == 64 ? 0 : word >> ones;
        }
    }
    return status;
}

lake_status lance_index_bitmap_parse(struct lake_bytes bytes, struct lance_row_set *out,
                                     struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(bytes);
    uint32_t count;
    lake_status status = LAKE_OK;
    if (!base_cursor_u32le(&cursor, &count)) {
        return lake_fail(err, LAKE_DATA_LOSS, "a bitmap of an index is empty");
    }
    for (uint32_t i = 0; i < count && status == LAKE_OK && !out->too_many; i++) {
        uint32_t fragment;
        uint32_t size;
        struct lake_bytes bitmap;
        if (!base_cursor_u32le(&cursor, &fragment) || !base_cursor_u32le(&cursor, &size) ||
            !base_cursor_take(&cursor, size, &bitmap)) {
            return lake_fail(err, LAKE_DATA_LOSS, "a bitmap of an index ends too early");
        }
        struct parsed_container container = {out, (uint64_t)fragment << 32};
        status = size == 0 /* the whole fragment */
                     ? lance_row_set_add(out, container.base, UINT64_C(1) << 32, err)
                     : lance_roaring_visit(bitmap, add_bits, &container, err);
    }
    return status;
}

/* The table's rows whose value passes. */
static lake_status find_values(const struct lance_index *index,
                               const struct lance_index_question *question,
                               struct lance_row_set *out, struct lake_error *err)
{
    uint8_t *keep = NULL;
    uint64_t first = 0;
    lake_status status = LAKE_OK;
    for (size_t s = 0; s < index->slice_count && status == LAKE_OK; s++) {
        const struct lance_index_slice *slice = &index->slices[s];
        uint8_t *grown = base_realloc_array(keep, (size_t)slice->row_count, 1);
        if (grown == NULL) {
            status = base_fail_no_memory(err, (size_t)slice->row_count);
            break;
        }
        keep = grown;
        memset(keep, 1, (size_t)slice->row_count);
        for (size_t p = 0; p < question->predicate_count && status == LAKE_OK; p++) {
            status = lance_predicate_apply(question->predicates[p],
                                           &slice->columns[LANCE_INDEX_LOW], keep, err);
        }
        for (uint64_t i = 0; i < slice->row_count && status == LAKE_OK; i++) {
            status = keep[i] != 0 ? lance_row_set_add(out, first + i, 1, err) : LAKE_OK;
        }
        first += slice->row_count;
    }
    base_free(keep);
    return status;
}

static lake_status read_bitmaps(struct lance_field_reader *reader, uint64_t start, uint64_t count,
                                struct lance_row_set *out, struct lake_error *err)
{
    struct ArrowArray array = {.release = NULL};
    lake_status status = lance_field_reader_read(reader, start, count, &array, err);
    if (status != LAKE_OK) {
        return status;
    }
    const int32_t *offsets = array.buffers[1];
    const uint8_t *data = array.buffers[2];
    for (uint64_t i = 0; i < count && status == LAKE_OK && !out->too_many; i++) {
        struct lake_bytes bytes = {data + offsets[i], (size_t)(offsets[i + 1] - offsets[i])};
        status = lance_index_bitmap_parse(bytes, out, err);
    }
    array.release(&array);
    return status;
}

lake_status lance_index_ask_bitmap(const struct lance_index *index,
                                   const struct lance_index_question *question,
                                   struct lance_row_set *out, struct lake_error *err)
{
    struct lance_field_reader *reader = NULL;
    struct lance_row_set values;
    lance_row_set_init(&values, question->max_read_rows);
    lake_status status = find_values(index, question, &values, err);
    out->too_many = values.too_many;
    if (status == LAKE_OK && values.count > 0) {
        status =
            lance_index_reader_new(&index->table, "bitmaps", "z", question->counters, &reader, err);
    }
    uint64_t row_bytes =
        reader == NULL ? 1 : BASE_MAX(lance_field_reader_bytes_per_row(reader), (uint64_t)1);
    uint64_t most = BASE_MAX(MAX_READ_BYTES / row_bytes, (uint64_t)1);
    for (size_t r = 0; r < values.count && status == LAKE_OK; r++) {
        uint64_t at = values.runs[r].start;
        uint64_t end = at + values.runs[r].count;
        while (at < end && status == LAKE_OK && !out->too_many) {
            uint64_t count = BASE_MIN(end - at, most);
            status = read_bitmaps(reader, at, count, out, err);
            at += count;
        }
    }
    lance_field_reader_free(reader);
    lance_row_set_fini(&values);
    return status;
}
