/*
 * Rows by their place: each request is located in its fragment, every fragment's rows are read in
 * ascending order, column by column and only where they lie, and then gathered in the order asked
 * for.
 */
#include "array_build.h"
#include "parallel.h"
#include "row_sequence.h"
#include "table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TAKE_ROWS (1u << 20)
#define PARALLEL_ROWS 16 /* fewer are not worth waking a thread */

/* One row that was asked for. */
struct request {
    size_t fragment;
    uint64_t row;    /* in the fragment, deleted ones counted */
    size_t position; /* in the result */
};

/* Rows of one fragment, ascending and without repetition. */
struct part {
    size_t fragment;
    struct lance_run *runs;
    size_t run_count;
    uint64_t row_count;
    struct lance_open_fragment *opened;
};

struct taking {
    struct lance_dataset *dataset;
    const struct lance_field **fields;
    size_t field_count;
    struct request *requests;
    size_t request_count;
    struct part *parts;
    size_t part_count;
    struct lance_run *all_runs; /* of the parts */
    struct lance_run *gather;   /* by position: the row in its part */
    uint32_t *sources;          /* by position: the part */
    bool in_order;              /* the parts' rows are already what was asked for */
};

/* ---- locating ---- */

/* A word of a deletion vector, and how many live rows lie before it. */
struct live_place {
    uint64_t word;
    uint64_t before;
};

/* The row with `live` live ones before it. Goes on from `place`: those asked for ascend. */
static uint64_t nth_live(const struct lance_deletions *deletions, uint64_t live,
                         struct live_place *place)
{
    uint64_t words = (deletions->row_count + 63) / 64;
    for (; place->word < words; place->word++) {
        uint64_t alive = ~deletions->words[place->word];
        uint64_t count = (uint64_t)__builtin_popcountll(alive);
        if (live - place->before >= count) {
            place->before += count;
            continue;
        }
        for (uint64_t i = place->before; i < live; i++) {
            alive &= alive - 1;
        }
        return place->word * 64 + (uint64_t)__builtin_ctzll(alive);
    }
    return deletions->row_count;
}

static lake_status no_such_row(const struct lance_dataset *dataset, const char *what, uint64_t row,
                               struct lake_error *err)
{
    return lake_fail(err, LAKE_OUT_OF_RANGE,
                     "there is no %s %" PRIu64 " in version %" PRIu64 ", which has %" PRIu64
                     " rows",
                     what, row, lance_dataset_version(dataset), dataset->row_count);
}

/* firsts[i] is the offset of the first live row of fragment i; one more at the end. */
static lake_status locate_offsets(struct taking *taking, const uint64_t *rows,
                                  struct lake_error *err)
{
    struct lance_dataset *dataset = taking->dataset;
    size_t count = lance_dataset_fragment_count(dataset);
    uint64_t *firsts = base_alloc_array(count + 1, sizeof(*firsts));
    lake_status status = LAKE_OK;
    if (firsts == NULL) {
        return base_fail_no_memory(err, count * sizeof(*firsts));
    }
    firsts[0] = 0;
    for (size_t i = 0; i < count && status == LAKE_OK; i++) {
        uint64_t deleted = 0;
        status = lance_dataset_deleted_rows(dataset, i, &deleted, err);
        firsts[i + 1] = firsts[i] + dataset->fragment_rows[i] - deleted;
    }
    for (size_t i = 0; i < taking->request_count && status == LAKE_OK; i++) {
        size_t low = 0;
        size_t high = count;
        if (rows[i] >= firsts[count]) {
            status = no_such_row(dataset, "row", rows[i], err);
            break;
        }
        while (high - low > 1) {
            size_t middle = low + (high - low) / 2;
            *(firsts[middle] <= rows[i] ? &low : &high) = middle;
        }
        while (firsts[low + 1] <= rows[i]) { /* fragments without live rows */
            low++;
        }
        taking->requests[i] = (struct request){low, rows[i] - firsts[low], i};
    }
    base_free(firsts);
    return status;
}

/* The place of a fragment, or how many there are. Ids ascend, but nothing in the format promises
 * it. */
static size_t find_fragment(const LancePb__Manifest *pb, uint64_t id)
{
    size_t low = 0;
    size_t high = pb->n_fragments;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(pb->fragments[middle]->id <= id ? &low : &high) = middle;
    }
    if (low < pb->n_fragments && pb->fragments[low]->id == id) {
        return low;
    }
    size_t found = 0;
    while (found < pb->n_fragments && pb->fragments[found]->id != id) {
        found++;
    }
    return found;
}

static lake_status locate_addresses(struct taking *taking, const uint64_t *rows,
                                    struct lake_error *err)
{
    const struct lance_dataset *dataset = taking->dataset;
    size_t count = lance_dataset_fragment_count(dataset);
    for (size_t i = 0; i < taking->request_count; i++) {
        uint64_t id = rows[i] >> 32;
        uint64_t row = rows[i] & UINT32_MAX;
        size_t found = find_fragment(dataset->manifest->pb, id);
        if (found == count || row >= dataset->fragment_rows[found]) {
            return no_such_row(dataset, "row address", rows[i], err);
        }
        taking->requests[i] = (struct request){found, row, i};
    }
    return LAKE_OK;
}

struct sorted_id {
    uint64_t id;
    size_t position;
};

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct sorted_id *)a)->id;
    uint64_t y = ((const struct sorted_id *)b)->id;
    return x < y ? -1 : x > y;
}

/* The rows that ids have now: an update leaves the id at the old row, which is deleted, too. */
static lake_status keep_live_hits(struct taking *taking, size_t fragment,
                                  const struct sorted_id *sorted,
                                  const struct lance_row_id_hit *hits, size_t hit_count,
                                  struct lake_error *err)
{
    struct lance_deletions *deletions = NULL;
    lake_status status =
        hit_count == 0 ? LAKE_OK
                       : lance_dataset_open_deletions(taking->dataset, fragment, &deletions, err);
    for (size_t i = 0; status == LAKE_OK && i < hit_count; i++) {
        size_t position = sorted[hits[i].index].position;
        if (hits[i].row >= taking->dataset->fragment_rows[fragment]) {
            status = lake_fail(err, LAKE_DATA_LOSS,
                               "the row ids of fragment %" PRIu64 " are more than its rows",
                               taking->dataset->manifest->pb->fragments[fragment]->id);
        } else if (deletions == NULL || !lance_deletions_has(deletions, hits[i].row)) {
            taking->requests[position] = (struct request){fragment, hits[i].row, position};
        }
    }
    lance_deletions_unref(deletions);
    return status;
}

/* The manifest's sequences are the index: each says without being unfolded where an id stands. */
static lake_status find_ids(struct taking *taking, const struct sorted_id *sorted,
                            const uint64_t *ids, struct lance_row_id_hit *hits,
                            struct lake_error *err)
{
    const LancePb__Manifest *pb = taking->dataset->manifest->pb;
    lake_status status = LAKE_OK;
    for (size_t f = 0; status == LAKE_OK && f < pb->n_fragments; f++) {
        const LancePb__DataFragment *fragment = pb->fragments[f];
        struct lance_row_ids in;
        size_t count = 0;
        if (!fragment->has_inline_row_ids) {
            return lake_fail(err, LAKE_UNIMPLEMENTED,
                             "the row ids of fragment %" PRIu64
                             " are not kept in the manifest, where alone they are read from",
                             fragment->id);
        }
        status = lance_manifest_row_ids(taking->dataset->manifest, f, &in, err);
        if (status == LAKE_OK) {
            status = lance_row_ids_find(in, ids, taking->request_count, hits, &count, err);
        }
        if (status == LAKE_OK) {
            status = keep_live_hits(taking, f, sorted, hits, count, err);
        }
    }
    return status;
}

static lake_status locate_ids(struct taking *taking, const uint64_t *rows, struct lake_error *err)
{
    size_t count = taking->request_count;
    struct sorted_id *sorted = base_alloc_array(count + 1, sizeof(*sorted));
    uint64_t *ids = base_alloc_array(count + 1, sizeof(*ids));
    struct lance_row_id_hit *hits = base_alloc_array(count + 1, sizeof(*hits));
    lake_status status = sorted == NULL || ids == NULL || hits == NULL
                             ? base_fail_no_memory(err, count * sizeof(*sorted))
                             : LAKE_OK;
    if (status == LAKE_OK) {
        for (size_t i = 0; i < count; i++) {
            sorted[i] = (struct sorted_id){rows[i], i};
            taking->requests[i].fragment = SIZE_MAX;
        }
        qsort(sorted, count, sizeof(*sorted), by_id);
        for (size_t i = 0; i < count; i++) {
            ids[i] = sorted[i].id;
        }
        status = find_ids(taking, sorted, ids, hits, err);
    }
    for (size_t i = 0; status == LAKE_OK && i < count; i++) {
        if (taking->requests[i].fragment == SIZE_MAX) {
            status = no_such_row(taking->dataset, "row with the id", rows[i], err);
        }
    }
    base_free(sorted);
    base_free(ids);
    base_free(hits);
    return status;
}

static int by_place(const void *a, const void *b)
{
    const struct request *x = a;
    const struct request *y = b;
    if (x->fragment != y->fragment) {
        return x->fragment < y->fragment ? -1 : 1;
    }
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Opens the fragment; offsets among its live rows, which ascend, become rows. */
static lake_status open_part(struct taking *taking, struct part *part, struct request *requests,
                             size_t count, enum lance_take_by by, struct lake_error *err)
{
    struct live_place place = {0, 0};
    lake_status status = lance_fragment_open(taking->dataset, part->fragment, taking->fields,
                                             taking->field_count, &part->opened, err);
    if (status != LAKE_OK || part->opened->deletions == NULL) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        if (by == LANCE_TAKE_OFFSETS) {
            requests[i].row = nth_live(part->opened->deletions, requests[i].row, &place);
        } else if (lance_deletions_has(part->opened->deletions, requests[i].row)) {
            uint64_t id = taking->dataset->manifest->pb->fragments[part->fragment]->id;
            return lake_fail(err, LAKE_OUT_OF_RANGE,
                             "row %" PRIu64 " of fragment %" PRIu64 " was deleted", requests[i].row,
                             id);
        }
    }
    return LAKE_OK;
}

/* Runs of the fragment's sorted requests, and where each request finds its row. */
static void make_runs(struct taking *taking, struct part *part, const struct request *requests,
                      size_t count)
{
    uint32_t source = (uint32_t)(part - taking->parts);
    for (size_t i = 0; i < count; i++) {
        uint64_t row = requests[i].row;
        struct lance_run *last = part->run_count > 0 ? &part->runs[part->run_count - 1] : NULL;
        if (last != NULL && row == last->start + last->count) {
            last->count++;
            part->row_count++;
        } else if (last == NULL || row > last->start + last->count) {
            part->runs[part->run_count++] = (struct lance_run){row, 1};
            part->row_count++;
        }
        taking->gather[requests[i].position] = (struct lance_run){part->row_count - 1, 1};
        taking->sources[requests[i].position] = source;
    }
}

static bool in_order(const struct taking *taking)
{
    if (taking->part_count != 1 || taking->parts[0].row_count != taking->request_count) {
        return false;
    }
    for (size_t i = 0; i < taking->request_count; i++) {
        if (taking->gather[i].start != i) {
            return false;
        }
    }
    return true;
}

static lake_status make_parts(struct taking *taking, enum lance_take_by by, struct lake_error *err)
{
    size_t count = taking->request_count;
    struct lance_run *runs = taking->all_runs;
    qsort(taking->requests, count, sizeof(*taking->requests), by_place);
    for (size_t start = 0; start < count;) {
        size_t end = start + 1;
        while (end < count && taking->requests[end].fragment == taking->requests[start].fragment) {
            end++;
        }
        struct part *part = &taking->parts[taking->part_count++];
        *part = (struct part){.fragment = taking->requests[start].fragment, .runs = runs};
        lake_status status =
            open_part(taking, part, &taking->requests[start], end - start, by, err);
        if (status != LAKE_OK) {
            return status;
        }
        make_runs(taking, part, &taking->requests[start], end - start);
        runs += part->run_count;
        start = end;
    }
    taking->in_order = in_order(taking);
    return LAKE_OK;
}

/* ---- reading ---- */

static lake_status read_part(const struct taking *taking, const struct part *part, size_t column,
                             struct ArrowArray *out, struct lake_error *err)
{
    const struct lance_field *field = taking->fields[column];
    struct lance_field_reader *reader = NULL;
    if (!part->opened->stored[column]) {
        return lance_array_of_nulls(field->arrow, part->row_count, out, err);
    }
    lake_status status =
        lance_field_reader_new(field, part->opened->sources[column], false, NULL, &reader, err);
    if (status == LAKE_OK) {
        status = lance_field_reader_read_runs(reader, part->runs, part->run_count, out, err);
    }
    lance_field_reader_free(reader);
    if (status != LAKE_OK) {
        return lake_fail_wrap(
            err, status, "column %s of fragment %" PRIu64 ", version %" PRIu64 ", cannot be read",
            field->name, taking->dataset->manifest->pb->fragments[part->fragment]->id,
            lance_dataset_version(taking->dataset));
    }
    return LAKE_OK;
}

static lake_status take_column(const struct taking *taking, size_t column, struct ArrowArray *out,
                               struct lake_error *err)
{
    size_t count = taking->part_count;
    struct ArrowArray *arrays = base_calloc_array(count + 1, sizeof(*arrays));
    const struct ArrowArray **pointers = base_calloc_array(count + 1, sizeof(*pointers));
    lake_status status = arrays == NULL || pointers == NULL
                             ? base_fail_no_memory(err, count * sizeof(*arrays))
                             : LAKE_OK;
    for (size_t i = 0; i < count && status == LAKE_OK; i++) {
        pointers[i] = &arrays[i];
        status = read_part(taking, &taking->parts[i], column, &arrays[i], err);
    }
    if (status == LAKE_OK && taking->in_order) {
        ArrowArrayMove(&arrays[0], out);
    } else if (status == LAKE_OK) {
        status = lance_array_gather(taking->fields[column]->arrow, pointers, count, taking->gather,
                                    taking->sources, taking->request_count, out, err);
    }
    for (size_t i = 0; arrays != NULL && i < count; i++) {
        if (arrays[i].release != NULL) {
            arrays[i].release(&arrays[i]);
        }
    }
    base_free(arrays);
    base_free((void *)pointers);
    return status;
}

struct column_results {
    const struct taking *taking;
    struct ArrowArray *batch;
};

static lake_status take_item(void *context, size_t index, size_t worker, struct lake_error *err)
{
    struct column_results *results = context;
    (void)worker;
    return take_column(results->taking, index, results->batch->children[index], err);
}

static lake_status take_columns(const struct taking *taking, struct ArrowArray *out,
                                struct lake_error *err)
{
    struct ArrowArray batch;
    struct column_results results = {taking, &batch};
    size_t workers = taking->request_count < PARALLEL_ROWS ? 1 : LANCE_MAX_WORKERS;
    lake_status status =
        lance_array_new(taking->request_count, 1, taking->field_count, false, &batch, err);
    if (status != LAKE_OK) {
        return status;
    }
    status = lance_parallel(taking->field_count, workers, take_item, &results, err);
    if (status == LAKE_OK) {
        ArrowArrayMove(&batch, out);
    } else {
        batch.release(&batch);
    }
    return status;
}

/* ---- the whole ---- */

static lake_status choose_columns(struct taking *taking, const uint32_t *columns, size_t count,
                                  struct lake_error *err)
{
    const struct lance_schema *schema = &taking->dataset->manifest->schema;
    bool all = count == LANCE_ALL_COLUMNS;
    count = all ? schema->field_count : count;
    taking->fields = base_calloc_array(count + 1, sizeof(*taking->fields));
    if (taking->fields == NULL) {
        return base_fail_no_memory(err, count * sizeof(*taking->fields));
    }
    for (size_t i = 0; i < count; i++) {
        size_t index = all ? i : columns[i];
        if (index >= schema->field_count) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "a take names column %zu of %zu", index,
                             schema->field_count);
        }
        taking->fields[i] = &schema->fields[index];
    }
    taking->field_count = count;
    return LAKE_OK;
}

static lake_status alloc_requests(struct taking *taking, size_t count, struct lake_error *err)
{
    if (count > MAX_TAKE_ROWS) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "%zu rows in one take; at most %u: take them in several", count,
                         MAX_TAKE_ROWS);
    }
    size_t parts = BASE_MIN(count, lance_dataset_fragment_count(taking->dataset));
    taking->request_count = count;
    taking->requests = base_calloc_array(count + 1, sizeof(*taking->requests));
    taking->parts = base_calloc_array(parts + 1, sizeof(*taking->parts));
    taking->all_runs = base_alloc_array(count + 1, sizeof(*taking->all_runs));
    taking->gather = base_alloc_array(count + 1, sizeof(*taking->gather));
    taking->sources = base_alloc_array(count + 1, sizeof(*taking->sources));
    bool enough = taking->requests != NULL && taking->parts != NULL && taking->all_runs != NULL &&
                  taking->gather != NULL && taking->sources != NULL;
    return enough ? LAKE_OK : base_fail_no_memory(err, count * sizeof(*taking->requests));
}

static lake_status locate(struct taking *taking, enum lance_take_by by, const uint64_t *rows,
                          struct lake_error *err)
{
    uint64_t flags = taking->dataset->manifest->pb->reader_feature_flags;
    if (by == LANCE_TAKE_OFFSETS) {
        return locate_offsets(taking, rows, err);
    }
    if (by == LANCE_TAKE_IDS && (flags & LANCE_FLAG_STABLE_ROW_IDS) != 0) {
        return locate_ids(taking, rows, err);
    }
    return locate_addresses(taking, rows, err);
}

lake_status lance_take(struct lance_dataset *dataset, enum lance_take_by by, const uint64_t *rows,
                       size_t row_count, const uint32_t *columns, size_t column_count,
                       struct ArrowArray *out, struct lake_error *err)
{
    struct taking taking = {.dataset = dataset};
    lake_status status = choose_columns(&taking, columns, column_count, err);
    if (status == LAKE_OK) {
        status = alloc_requests(&taking, row_count, err);
    }
    if (status == LAKE_OK) {
        status = locate(&taking, by, rows, err);
    }
    if (status == LAKE_OK) {
        status = make_parts(&taking, by, err);
    }
    if (status == LAKE_OK) {
        status = take_columns(&taking, out, err);
    }
    for (size_t i = 0; i < taking.part_count; i++) {
        lance_open_fragment_unref(taking.parts[i].opened);
    }
    base_free((void *)taking.fields);
    base_free(taking.requests);
    base_free(taking.parts);
    base_free(taking.all_runs);
    base_free(taking.gather);
    base_free(taking.sources);
    return status;
}
