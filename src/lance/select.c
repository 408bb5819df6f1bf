/*
 * Which live rows of a fragment pass filters, as one bit a row: what a delete or an update changes.
 * Reads only the columns that are filtered on, in batches of bounded size.
 */
#include "array_build.h"
#include "table.h"

#include <string.h>

#define BATCH_ROWS  16384
#define BATCH_BYTES ((uint64_t)8 << 20)

struct lance_selector {
    struct lance_dataset *dataset;
    size_t count; /* of filters, each with its own column */
    const struct lance_field **fields;
    struct lance_predicate **predicates;
    struct lance_read_counters counters;
};

lake_status lance_selector_new(struct lance_dataset *dataset, const struct lance_filter *filters,
                               size_t count, struct lance_selector **out, struct lake_error *err)
{
    const struct lance_schema *schema = &dataset->manifest->schema;
    struct lance_selector *selector = base_calloc_array(1, sizeof(*selector));
    if (selector == NULL) {
        return base_fail_no_memory(err, sizeof(*selector));
    }
    selector->dataset = dataset;
    selector->fields = base_calloc_array(count + 1, sizeof(*selector->fields));
    selector->predicates = base_calloc_array(count + 1, sizeof(*selector->predicates));
    lake_status status = selector->fields == NULL || selector->predicates == NULL
                             ? base_fail_no_memory(err, count * sizeof(void *))
                             : LAKE_OK;
    for (size_t i = 0; i < count && status == LAKE_OK; i++) {
        if (filters[i].column >= schema->field_count) {
            status = lake_fail(err, LAKE_INVALID_ARGUMENT, "a filter names column %u of %zu",
                               filters[i].column, schema->field_count);
            break;
        }
        selector->fields[i] = &schema->fields[filters[i].column];
        status = lance_predicate_new(&filters[i], selector->fields[i]->arrow,
                                     &selector->predicates[i], err);
        if (status == LAKE_OK && selector->predicates[i] == NULL) {
            status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                               "a filter on column %s (%s) with such a value cannot be decided "
                               "exactly, so no rows are changed by it",
                               selector->fields[i]->name, selector->fields[i]->logical_type);
        }
        selector->count = i + 1;
    }
    if (status != LAKE_OK) {
        lance_selector_free(selector);
        return status;
    }
    *out = selector;
    return LAKE_OK;
}

void lance_selector_free(struct lance_selector *selector)
{
    if (selector == NULL) {
        return;
    }
    for (size_t i = 0; selector->predicates != NULL && i < selector->count; i++) {
        lance_predicate_free(selector->predicates[i]);
    }
    base_free(selector->predicates);
    base_free(selector->fields);
    base_free(selector);
}

static lake_status apply_filter(struct lance_selector *selector, size_t index,
                                struct lance_field_reader *reader, uint64_t start, uint64_t count,
                                uint8_t *keep, struct lake_error *err)
{
    struct ArrowArray array = {.release = NULL};
    lake_status status =
        reader == NULL ? lance_array_of_nulls(selector->fields[index]->arrow, count, &array, err)
                       : lance_field_reader_read(reader, start, count, &array, err);
    if (status == LAKE_OK) {
        status = lance_predicate_apply(selector->predicates[index], &array, keep, err);
        ArrowArrayRelease(&array);
    }
    return status;
}

static void set_bits(const uint8_t *keep, uint64_t start, uint64_t count, uint64_t *words)
{
    for (uint64_t i = 0; i < count; i++) {
        words[(start + i) / 64] |= (uint64_t)(keep[i] != 0) << ((start + i) % 64);
    }
}

static lake_status select_batches(struct lance_selector *selector,
                                  struct lance_open_fragment *opened, uint64_t row_count,
                                  struct lance_field_reader **readers, uint64_t *words,
                                  struct lake_error *err)
{
    uint64_t row_bytes = 1;
    uint8_t keep[BATCH_ROWS];
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < selector->count && status == LAKE_OK; i++) {
        if (opened->stored[i]) {
            status = lance_field_reader_new(selector->fields[i], opened->sources[i], false,
                                            &selector->counters, &readers[i], err);
        }
        if (status == LAKE_OK && readers[i] != NULL) {
            row_bytes += lance_field_reader_bytes_per_row(readers[i]);
        }
    }
    uint64_t most = BASE_MAX(BASE_MIN(BATCH_BYTES / row_bytes, (uint64_t)BATCH_ROWS), (uint64_t)1);
    for (uint64_t start = 0; start < row_count && status == LAKE_OK; start += most) {
        uint64_t count = BASE_MIN(most, row_count - start);
        memset(keep, 1, (size_t)count);
        for (size_t i = 0; i < selector->count && status == LAKE_OK; i++) {
            status = apply_filter(selector, i, readers[i], start, count, keep, err);
        }
        set_bits(keep, start, count, words);
    }
    return status;
}

lake_status lance_selector_run(struct lance_selector *selector, size_t fragment_index,
                               uint64_t *words, uint64_t *count, struct lake_error *err)
{
    struct lance_dataset *dataset = selector->dataset;
    uint64_t row_count = dataset->fragment_rows[fragment_index];
    struct lance_open_fragment *opened = NULL;
    struct lance_field_reader **readers = base_calloc_array(selector->count + 1, sizeof(*readers));
    size_t word_count = (size_t)(row_count + 63) / 64;
    memset(words, 0, word_count * sizeof(*words));
    *count = 0;
    lake_status status = readers == NULL
                             ? base_fail_no_memory(err, selector->count * sizeof(*readers))
                             : lance_fragment_open(dataset, fragment_index, selector->fields,
                                                   selector->count, &opened, err);
    if (status == LAKE_OK) {
        status = select_batches(selector, opened, row_count, readers, words, err);
    }
    for (size_t i = 0; status == LAKE_OK && i < word_count; i++) {
        words[i] &= opened->deletions == NULL ? UINT64_MAX : ~opened->deletions->words[i];
        *count += (uint64_t)__builtin_popcountll(words[i]);
    }
    for (size_t i = 0; readers != NULL && i < selector->count; i++) {
        lance_field_reader_free(readers[i]);
    }
    base_free(readers);
    lance_open_fragment_unref(opened);
    return status;
}
