/* Which indices a scan asks, and what their answers leave of its fragments. */
#include "index.h"
#include "row_sequence.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_SECTION_BYTES ((size_t)64 << 20)
#define MAX_CANDIDATES    (UINT64_C(1) << 20)
#define MIN_CANDIDATES    4096
#define SCAN_SHARE        32   /* of the rows: more candidates than one in so many are scanned */
#define READ_SHARE        4    /* the same of rows of the index that would be read for them */
#define FEW_ROWS          4096 /* so many are looked at without asking further */

struct search {
    struct lance_dataset *dataset;
    const struct lance_index_filter *filters;
    size_t filter_count;
    struct lance_read_counters *counters;
    struct lance_candidates *candidates;
    uint64_t max_fragment_id;
};

/* An answer for the fragments that the index covers. */
struct answer {
    uint64_t *covered; /* by fragment id */
    struct lance_row_set rows;
    bool excludes; /* the rows are those that cannot pass */
};

static bool covers(const struct search *search, const struct answer *answer, size_t fragment)
{
    uint64_t id = search->dataset->manifest->pb->fragments[fragment]->id;
    return (answer->covered[id / 64] >> (id % 64) & 1) != 0;
}

void lance_candidates_fini(struct lance_candidates *candidates)
{
    base_free(candidates->known);
    base_free(candidates->first);
    base_free(candidates->runs);
    *candidates = (struct lance_candidates){.used = 0};
}

/* ---- putting an answer on top of those before ---- */

/* The rows that the answer leaves of a fragment. */
static lake_status rows_of_fragment(const struct search *search, const struct answer *answer,
                                    size_t fragment, struct lance_row_set *out,
                                    struct lake_error *err)
{
    const struct lance_row_set *rows = &answer->rows;
    uint64_t next = search->dataset->manifest->pb->fragments[fragment]->id << 32;
    uint64_t end = next + search->dataset->fragment_rows[fragment];
    lake_status status = LAKE_OK;
    for (size_t i = lance_runs_from(rows->runs, rows->count, next);
         i < rows->count && rows->runs[i].start < end && status == LAKE_OK; i++) {
        uint64_t first = BASE_MAX(rows->runs[i].start, next);
        uint64_t last = BASE_MIN(rows->runs[i].start + rows->runs[i].count, end);
        status = answer->excludes ? lance_row_set_add(out, next, first - next, err)
                                  : lance_row_set_add(out, first, last - first, err);
        next = last;
    }
    return status == LAKE_OK && answer->excludes ? lance_row_set_add(out, next, end - next, err)
                                                 : status;
}

/* Adds to `all` what remains of one fragment. */
static lake_status narrow(const struct search *search, const struct answer *answer, size_t f,
                          struct lance_row_set *all, bool *known, struct lake_error *err)
{
    const struct lance_candidates *old = search->candidates;
    bool was_known = old->used > 0 && old->known[f];
    size_t count = was_known ? old->first[f + 1] - old->first[f] : 0;
    const struct lance_run *runs = count == 0 ? NULL : old->runs + old->first[f];
    lake_status status = LAKE_OK;
    *known = was_known || covers(search, answer, f);
    if (!covers(search, answer, f)) {
        for (size_t i = 0; i < count && status == LAKE_OK; i++) {
            status = lance_row_set_add(all, runs[i].start, runs[i].count, err);
        }
        return status;
    }
    if (!was_known) {
        return rows_of_fragment(search, answer, f, all, err);
    }
    struct lance_row_set rows;
    lance_row_set_init(&rows, UINT64_MAX);
    status = rows_of_fragment(search, answer, f, &rows, err);
    if (status == LAKE_OK) {
        status = lance_runs_intersect(runs, count, rows.runs, rows.count, all, err);
    }
    lance_row_set_fini(&rows);
    return status;
}

static lake_status apply_answer(const struct search *search, const struct answer *answer,
                                struct lake_error *err)
{
    size_t fragments = search->dataset->manifest->pb->n_fragments;
    struct lance_candidates next = {.used = search->candidates->used + 1};
    struct lance_row_set all;
    lance_row_set_init(&all, UINT64_MAX);
    next.known = base_calloc_array(fragments + 1, sizeof(*next.known));
    next.first = base_calloc_array(fragments + 1, sizeof(*next.first));
    lake_status status = next.known == NULL || next.first == NULL
                             ? base_fail_no_memory(err, fragments * sizeof(*next.first))
                             : LAKE_OK;
    for (size_t f = 0; f < fragments && status == LAKE_OK; f++) {
        status = narrow(search, answer, f, &all, &next.known[f], err);
        next.first[f + 1] = all.count;
    }
    next.runs = all.runs;
    if (status != LAKE_OK) {
        lance_candidates_fini(&next);
        return status;
    }
    lance_candidates_fini(search->candidates);
    *search->candidates = next;
    return LAKE_OK;
}

/* ---- asking ---- */

/* Rows that the index may still rule out. */
static uint64_t rows_at_stake(const struct search *search, const struct answer *answer)
{
    const struct lance_candidates *now = search->candidates;
    uint64_t rows = 0;
    for (size_t f = 0; f < search->dataset->manifest->pb->n_fragments; f++) {
        if (!covers(search, answer, f)) {
            continue;
        }
        if (now->used == 0 || !now->known[f]) {
            rows += search->dataset->fragment_rows[f];
            continue;
        }
        for (size_t i = now->first[f]; i < now->first[f + 1]; i++) {
            rows += now->runs[i].count;
        }
    }
    return rows;
}

/* Stable row ids instead of addresses: what Lance wrote for tables that have such ids, until the
 * version of its BTree that says otherwise. */
static bool holds_row_ids(const struct search *search, const LancePb__IndexMetadata *entry)
{
    enum lance_index_kind kind = lance_index_kind_of(entry);
    return (search->dataset->manifest->pb->reader_feature_flags & LANCE_FLAG_STABLE_ROW_IDS) != 0 &&
           (kind == LANCE_INDEX_BITMAP || (kind == LANCE_INDEX_BTREE && entry->index_version == 0));
}

/* Where the ids stand in the fragments that are covered. */
static lake_status find_ids(const struct search *search, struct answer *answer, const uint64_t *ids,
                            size_t count, struct lance_row_id_hit *hits, struct lake_error *err)
{
    const LancePb__Manifest *pb = search->dataset->manifest->pb;
    lake_status status = LAKE_OK;
    for (size_t f = 0; f < pb->n_fragments && status == LAKE_OK; f++) {
        const LancePb__DataFragment *fragment = pb->fragments[f];
        size_t found = 0;
        if (!covers(search, answer, f)) {
            continue;
        }
        if (!fragment->has_inline_row_ids) {
            answer->covered[fragment->id / 64] &= ~(UINT64_C(1) << (fragment->id % 64));
            continue;
        }
        struct lance_row_ids in;
        status = lance_manifest_row_ids(search->dataset->manifest, f, &in, err);
        if (status == LAKE_OK) {
            status = lance_row_ids_find(in, ids, count, hits, &found, err);
        }
        for (size_t i = 0; i < found && status == LAKE_OK; i++) {
            status = lance_row_set_add(&answer->rows, fragment->id << 32 | hits[i].row, 1, err);
        }
    }
    lance_row_set_sort(&answer->rows);
    return status;
}

static lake_status ids_to_addresses(const struct search *search, struct answer *answer,
                                    struct lake_error *err)
{
    struct lance_row_set given = answer->rows;
    size_t count = (size_t)given.row_count;
    uint64_t *ids = base_alloc_array(count + 1, sizeof(*ids));
    struct lance_row_id_hit *hits = base_alloc_array(count + 1, sizeof(*hits));
    lake_status status =
        ids == NULL || hits == NULL ? base_fail_no_memory(err, count * sizeof(*hits)) : LAKE_OK;
    lance_row_set_init(&answer->rows, given.max_rows);
    for (size_t i = 0, at = 0; i < given.count && status == LAKE_OK; i++) {
        for (uint64_t j = 0; j < given.runs[i].count; j++) {
            ids[at++] = given.runs[i].start + j;
        }
    }
    if (status == LAKE_OK) {
        status = find_ids(search, answer, ids, count, hits, err);
    }
    lance_row_set_fini(&given);
    base_free(ids);
    base_free(hits);
    return status;
}

static lake_status ask(const struct search *search, const LancePb__IndexMetadata *entry,
                       const struct lance_index_filter *filter, struct answer *answer,
                       uint64_t stake, struct lake_error *err)
{
    struct lance_index *index = NULL;
    lake_status status =
        lance_dataset_open_index(search->dataset, entry, search->counters, &index, err);
    if (status == LAKE_OK && strcmp(index->values->format, filter->field->arrow->format) != 0) {
        status = lake_fail(err, LAKE_UNIMPLEMENTED, "the index holds values of another type");
    }
    if (status == LAKE_OK) {
        const struct lance_index_question question = {
            .predicates = filter->predicates,
            .predicate_count = filter->predicate_count,
            .max_read_rows = BASE_MAX(stake / READ_SHARE, (uint64_t)16 * MIN_CANDIDATES),
            .counters = search->counters};
        answer->excludes = index->kind == LANCE_INDEX_ZONE_MAP;
        lance_row_set_init(
            &answer->rows,
            answer->excludes
                ? UINT64_MAX
                : BASE_MIN(BASE_MAX(stake / SCAN_SHARE, (uint64_t)MIN_CANDIDATES), MAX_CANDIDATES));
        status = lance_index_ask(index, &question, &answer->rows, err);
        lance_row_set_sort(&answer->rows);
    }
    if (status == LAKE_OK && !answer->rows.too_many && holds_row_ids(search, entry)) {
        status = ids_to_addresses(search, answer, err);
    }
    lance_index_unref(index);
    return status;
}

static lake_status try_index(const struct search *search, const LancePb__IndexMetadata *entry,
                             const struct lance_index_filter *filter, struct lake_error *err)
{
    struct answer answer = {.covered = NULL};
    lake_status status =
        lance_fragment_bitmap_decode(entry, search->max_fragment_id, &answer.covered, err);
    uint64_t stake = status == LAKE_OK ? rows_at_stake(search, &answer) : 0;
    if (stake > FEW_ROWS) {
        status = ask(search, entry, filter, &answer, stake, err);
        if (status == LAKE_OK && !answer.rows.too_many) {
            status = apply_answer(search, &answer, err);
        }
    }
    base_free(answer.covered);
    lance_row_set_fini(&answer.rows);
    return status;
}

static const struct lance_index_filter *find_filter(const struct search *search,
                                                    const LancePb__IndexMetadata *entry)
{
    for (size_t i = 0; i < search->filter_count; i++) {
        const struct lance_field *field = search->filters[i].field;
        if (entry->n_fields == 1 && entry->fields[0] == field->id && entry->has_fragment_bitmap &&
            field->kind == LANCE_NODE_LEAF && field->stored == LANCE_STORED_PLAIN &&
            field->arrow->dictionary == NULL) {
            return &search->filters[i];
        }
    }
    return NULL;
}

/* Rows were moved under the indices, which only this index knows. */
static bool has_reuse_index(const LancePb__IndexSection *section)
{
    for (size_t i = 0; i < section->n_indices; i++) {
        if (base_str_equal_c(lance_pb_str(section->indices[i]->name), "__lance_frag_reuse")) {
            return true;
        }
    }
    return false;
}

static void ask_all(const struct search *search, const LancePb__IndexSection *section)
{
    static const enum lance_index_kind order[] = {LANCE_INDEX_BTREE, LANCE_INDEX_BITMAP,
                                                  LANCE_INDEX_ZONE_MAP};
    for (size_t k = 0; k < BASE_ARRAY_LEN(order); k++) {
        for (size_t i = 0; i < section->n_indices; i++) {
            const LancePb__IndexMetadata *entry = section->indices[i];
            const struct lance_index_filter *filter = find_filter(search, entry);
            struct lake_error why = {0};
            if (filter == NULL || lance_index_kind_of(entry) != order[k] ||
                try_index(search, entry, filter, &why) == LAKE_OK) {
                continue;
            }
            char name[64];
            (void)snprintf(name, sizeof(name), "%.*s", LAKE_STR_FMT(lance_pb_str(entry->name)));
            base_log(BASE_LOG_WARN, "an index is passed by", "index", name, "dataset",
                     storage_store_uri(search->dataset->store), "why", why.message, NULL);
        }
    }
}

lake_status lance_candidates_find(struct lance_dataset *dataset,
                                  const struct lance_index_filter *filters, size_t count,
                                  struct lance_read_counters *counters,
                                  struct lance_candidates *out, struct lake_error *err)
{
    struct base_arena *arena = NULL;
    LancePb__IndexSection *section = NULL;
    struct search search = {.dataset = dataset,
                            .filters = filters,
                            .filter_count = count,
                            .counters = counters,
                            .candidates = out,
                            .max_fragment_id = lance_index_max_fragment_id(dataset->manifest->pb)};
    *out = (struct lance_candidates){.used = 0};
    if (count == 0 || dataset->manifest->index_section.data == NULL) {
        return LAKE_OK;
    }
    lake_status status = base_arena_new(MAX_SECTION_BYTES, &arena, err);
    if (status == LAKE_OK &&
        lance_index_section_parse(dataset->manifest->index_section, arena, &section, NULL) ==
            LAKE_OK &&
        !has_reuse_index(section)) {
        ask_all(&search, section);
    }
    base_arena_free(arena);
    return status;
}
