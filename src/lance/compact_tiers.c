/*
 * When a table that is appended to again and again should be compacted, and which part of it.
 *
 * A plain threshold would write the same rows anew with every few appends. A fragment belongs to
 * the first tier whose limits it is below, by rows and by bytes. When RUN_FRAGMENTS neighbours of a
 * tier or of those before it stand together, or fewer that make a full one, RUN_OF_TIER of them of
 * that tier itself, they become one fragment. So what is large is not written anew for the sake of
 * what is small, and the tail of a table stays below some hundred fragments. What is full, or what
 * an index covers, stays as it is.
 */
#include "index.h"

#define RUN_FRAGMENTS 64
#define RUN_OF_TIER   8
#define TIER_COUNT    3

static const struct tier { /* fragments below both */
    uint64_t rows;
    uint64_t bytes;
} tiers[TIER_COUNT] = {
    {UINT64_C(1) << 10, UINT64_C(1) << 20},
    {UINT64_C(1) << 15, UINT64_C(1) << 25},
    {UINT64_C(1) << 20, UINT64_C(1) << 30},
};

struct run {
    size_t first;
    size_t count;
    size_t of_tier;
    uint64_t rows;
    uint64_t bytes;
};

/* ---- indices: what is rewritten they no longer cover, which is nothing to be done unasked ---- */

struct covered {
    uint64_t *words; /* by fragment id; NULL: none is */
    bool all;        /* by an index that does not say which */
};

static lake_status find_indexed(const struct lance_manifest *manifest, uint64_t max_id,
                                struct covered *out, struct lake_error *err)
{
    struct base_arena *arena = NULL;
    LancePb__IndexSection *section = NULL;
    lake_status status = base_arena_new(LANCE_MAX_MANIFEST_BYTES, &arena, err);
    if (status == LAKE_OK) {
        status = lance_index_section_parse(manifest->index_section, arena, &section, err);
    }
    for (size_t i = 0; status == LAKE_OK && i < section->n_indices; i++) {
        uint64_t *words = NULL;
        if (lance_index_is_system(section->indices[i])) {
            continue;
        }
        if (!section->indices[i]->has_fragment_bitmap) {
            out->all = true;
            break;
        }
        status = lance_fragment_bitmap_decode(section->indices[i], max_id, &words, err);
        if (status == LAKE_OK && out->words == NULL) {
            out->words = words;
            words = NULL;
        }
        for (size_t j = 0; words != NULL && j <= max_id / 64; j++) {
            out->words[j] |= words[j];
        }
        base_free(words);
    }
    base_arena_free(arena);
    return status;
}

/* ---- tiers ---- */

static uint64_t bytes_of(const LancePb__DataFragment *fragment)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < fragment->n_files; i++) {
        uint64_t size = fragment->files[i]->file_size_bytes;
        bytes = size > UINT64_MAX - bytes ? UINT64_MAX : bytes + size;
    }
    return bytes;
}

static size_t tier_of(uint64_t rows, uint64_t bytes)
{
    size_t tier = 0;
    while (tier < TIER_COUNT && (rows >= tiers[tier].rows || bytes >= tiers[tier].bytes)) {
        tier++;
    }
    return tier;
}

static bool is_full(const struct run *run)
{
    const struct tier *last = &tiers[TIER_COUNT - 1];
    return run->rows >= last->rows || run->bytes >= last->bytes;
}

static bool is_due(const struct run *run)
{
    return (run->count >= RUN_FRAGMENTS || is_full(run)) && run->of_tier >= RUN_OF_TIER;
}

struct search {
    struct run runs[TIER_COUNT]; /* that end at the fragment before */
    struct run found;            /* the first of the lowest tier */
    size_t found_tier;
};

/* TIER_COUNT is the tier of what stays as it is. */
static void pass(struct search *search, size_t index, size_t tier, uint64_t rows, uint64_t bytes)
{
    for (size_t t = 0; t < TIER_COUNT; t++) {
        struct run *run = &search->runs[t];
        if (tier > t || is_full(run)) {
            if (t < search->found_tier && is_due(run)) {
                search->found = *run;
                search->found_tier = t;
            }
            *run = (struct run){.first = index};
        }
        if (tier <= t) {
            run->first = run->count == 0 ? index : run->first;
            run->count++;
            run->of_tier += tier == t;
            run->rows += rows;
            run->bytes += BASE_MIN(bytes, UINT64_MAX - run->bytes);
        }
    }
}

static lake_status find_covered(const struct lance_dataset *dataset, struct covered *out,
                                struct lake_error *err)
{
    const struct lance_manifest *manifest = dataset->manifest;
    return manifest->index_section.data == NULL
               ? LAKE_OK
               : find_indexed(manifest, lance_index_max_fragment_id(manifest->pb), out, err);
}

lake_status lance_tiers_find(struct lance_dataset *dataset, size_t *first, size_t *count,
                             struct lake_error *err)
{
    const LancePb__Manifest *pb = dataset->manifest->pb;
    struct search search = {.found_tier = TIER_COUNT};
    struct covered indexed = {.words = NULL};
    *first = *count = 0;
    if (pb->n_fragments < RUN_OF_TIER) {
        return LAKE_OK;
    }
    lake_status status = find_covered(dataset, &indexed, err);
    for (size_t i = 0; !indexed.all && i < pb->n_fragments && status == LAKE_OK; i++) {
        const LancePb__DataFragment *fragment = pb->fragments[i];
        uint64_t deleted = 0;
        status = lance_dataset_deleted_rows(dataset, i, &deleted, err);
        uint64_t rows = dataset->fragment_rows[i] - BASE_MIN(deleted, dataset->fragment_rows[i]);
        uint64_t bytes = bytes_of(fragment);
        bool stays = indexed.words != NULL &&
                     (indexed.words[fragment->id / 64] >> (fragment->id % 64) & 1) != 0;
        pass(&search, i, stays ? TIER_COUNT : tier_of(rows, bytes), rows, bytes);
    }
    base_free(indexed.words);
    if (status == LAKE_OK) {
        pass(&search, pb->n_fragments, TIER_COUNT, 0, 0); /* ends all runs */
        *first = search.found.first;
        *count = search.found.count;
    }
    return status;
}

lake_status lance_compaction_due(struct lance_dataset *dataset, bool *out, struct lake_error *err)
{
    size_t first;
    size_t count;
    lake_status status = lance_tiers_find(dataset, &first, &count, err);
    if (status == LAKE_OK) {
        *out = count > 0;
    }
    return status;
}
