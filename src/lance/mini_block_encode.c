/*
 * Writing mini-block pages: cuts the page's entries into chunks that each hold a power of two of
 * value slots (the last one: the rest), as large as codec and format allow.
 */
#include "file_write.h"

#include <string.h>

#define MAX_CHUNK_LEVELS UINT16_MAX /* what a chunk's header can count */
#define CHUNK_BYTES_2_1  32768
#define CHUNK_BYTES_2_2  ((uint64_t)1 << 31)

struct chunker {
    const struct lance_page_plan *plan;
    struct lance_value_plan *value_plan;
    struct lance_encoded_page *out;
    struct base_buffer buffers[LANCE_CHUNK_BUFFERS];
    struct base_buffer rep, def; /* encoded levels of one chunk */
    const struct lance_encoding *rep_encoding, *def_encoding;
    uint32_t rep_width, def_width;
    bool inline_levels;
    uint64_t entry, slot; /* where the next chunk starts */
};

/* One chunk: entries [entry, entry_end), slots [slot, slot + slots). */
struct cut {
    uint64_t entry_end;
    uint64_t slots;
    bool last;
};

/* ---- levels ---- */

/* Bit packing for all chunks alike: inline as long as a block of 1024 is enough for each. */
static lake_status choose_level_encoding(struct chunker *chunker, uint32_t width,
                                         const struct lance_encoding **out, struct lake_error *err)
{
    struct base_arena *arena = chunker->plan->arena;
    if (chunker->inline_levels) {
        *out = lance_encoding_new(arena, LANCE_ENCODING_INLINE_BITPACKING, 16, NULL);
    } else {
        const struct lance_encoding *flat =
            lance_encoding_new(arena, LANCE_ENCODING_FLAT, width, NULL);
        *out = flat == NULL
                   ? NULL
                   : lance_encoding_new(arena, LANCE_ENCODING_OUT_OF_LINE_BITPACKING, 16, flat);
    }
    return *out != NULL ? LAKE_OK : base_fail_no_memory(err, sizeof(**out));
}

static lake_status pack_block(const uint16_t *levels, uint64_t count, uint32_t width,
                              struct base_buffer *out, struct lake_error *err)
{
    uint16_t block[LANCE_BLOCK_VALUES] = {0};
    size_t bytes = (size_t)128 * width;
    lake_status status = base_buffer_reserve(out, bytes, err);
    if (status != LAKE_OK)
        return status;
    memcpy(block, levels, (size_t)count * sizeof(*levels));
    lance_bits_pack(16, width, (const uint8_t *)block, out->data + out->size);
    out->size += bytes;
    return LAKE_OK;
}

static lake_status encode_levels(const struct chunker *chunker, const uint16_t *levels,
                                 uint64_t count, uint32_t width, struct base_buffer *out,
                                 struct lake_error *err)
{
    lake_status status = LAKE_OK;
    base_buffer_clear(out);
    if (chunker->inline_levels) {
        uint16_t word = (uint16_t)width;
        status = base_buffer_append(out, &word, sizeof(word), err);
        return status != LAKE_OK ? status : pack_block(levels, count, width, out, err);
    }
    uint64_t done = 0;
    for (; status == LAKE_OK && count - done >= LANCE_BLOCK_VALUES; done += LANCE_BLOCK_VALUES)
        status = pack_block(levels + done, LANCE_BLOCK_VALUES, width, out, err);
    if (status != LAKE_OK || done == count)
        return status;
    /* Raw when that is no longer, because then a reader takes it for raw. */
    if ((count - done) * sizeof(*levels) <= (size_t)128 * width)
        return base_buffer_append(out, levels + done, (size_t)(count - done) * sizeof(*levels),
                                  err);
    return pack_block(levels + done, count - done, width, out, err);
}

/* ---- cutting ---- */

/* The entries that hold the next `slots` slots; for the last chunk all that are left. */
static uint64_t entries_for(const struct chunker *chunker, uint64_t slots)
{
    const struct lance_page_plan *plan = chunker->plan;
    uint64_t entry = chunker->entry, seen = 0;
    if (plan->rep == NULL)
        return entry + slots;
    if (plan->def == NULL || plan->visible_level == plan->max_def)
        return entry + slots;
    while (seen < slots && entry < plan->rows->entry_count)
        seen += plan->def[entry++] <= plan->visible_level;
    return entry;
}

/* The largest cut of at most 2^log2 slots whose levels fit; false when not even two slots do. */
static bool cut_at(const struct chunker *chunker, uint32_t log2, struct cut *out)
{
    uint64_t left = chunker->value_plan->source.count - chunker->slot;
    uint64_t entries = chunker->plan->rows->entry_count - chunker->entry;
    if (left <= (uint64_t)1 << log2 && entries <= MAX_CHUNK_LEVELS) { /* at most 2^15 slots */
        *out = (struct cut){chunker->plan->rows->entry_count, left, true};
        return true;
    }
    for (; log2 >= 1; log2--) {
        uint64_t slots = (uint64_t)1 << log2;
        if (slots >= left)
            continue; /* the rest is too much for one last chunk: cut it */
        uint64_t end = entries_for(chunker, slots);
        if (end - chunker->entry <= MAX_CHUNK_LEVELS) {
            *out = (struct cut){end, slots, false};
            return true;
        }
    }
    return false;
}

/* The largest number of slots whose raw bytes stay within the codec's limit. */
static uint32_t log2_for_bytes(const struct chunker *chunker, uint32_t log2)
{
    const struct lance_value_plan *values = chunker->value_plan;
    const struct lance_leaf_values *strings = values->source.values;
    if (values->max_raw_bytes == 0 || strings == NULL)
        return log2;
    for (; log2 > 1; log2--) {
        uint64_t end_slot = BASE_MIN(chunker->slot + ((uint64_t)1 << log2), strings->count);
        uint64_t start, end, unused;
        lance_leaf_values_range(strings, chunker->slot, &start, &unused);
        lance_leaf_values_range(strings, end_slot - 1, &unused, &end);
        if (end - start + strings->type->offset_bytes * (end_slot - chunker->slot) <=
            values->max_raw_bytes)
            break;
    }
    return log2;
}

/* ---- one chunk ---- */

static lake_status encode_cut(struct chunker *chunker, const struct cut *cut,
                              struct lake_error *err)
{
    const struct lance_page_plan *plan = chunker->plan;
    struct lance_value_plan *values = chunker->value_plan;
    uint64_t levels = cut->entry_end - chunker->entry;
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < values->buffer_count; i++)
        base_buffer_clear(&chunker->buffers[i]);
    status = values->codec->encode(&values->source, values->encoding, chunker->slot, cut->slots,
                                   chunker->buffers, err);
    if (status == LAKE_OK && plan->rep != NULL)
        status = encode_levels(chunker, plan->rep + chunker->entry, levels, chunker->rep_width,
                               &chunker->rep, err);
    if (status == LAKE_OK && plan->def != NULL)
        status = encode_levels(chunker, plan->def + chunker->entry, levels, chunker->def_width,
                               &chunker->def, err);
    return status;
}

static size_t header_bytes(const struct chunker *chunker)
{
    return 2 + 2 * (chunker->plan->rep != NULL) + 2 * (size_t)(chunker->plan->def != NULL) +
           (chunker->plan->options->minor >= 2 ? 4 : 2) * chunker->value_plan->buffer_count;
}

static bool chunk_fits(const struct chunker *chunker, uint64_t *bytes)
{
    bool large = chunker->plan->options->minor >= 2;
    uint64_t total = BASE_ALIGN_UP((uint64_t)header_bytes(chunker), (uint64_t)8);
    total += BASE_ALIGN_UP((uint64_t)chunker->rep.size, (uint64_t)8) +
             BASE_ALIGN_UP((uint64_t)chunker->def.size, (uint64_t)8);
    for (size_t i = 0; i < chunker->value_plan->buffer_count; i++) {
        if (chunker->buffers[i].size > (large ? UINT32_MAX : UINT16_MAX))
            return false;
        total += BASE_ALIGN_UP((uint64_t)chunker->buffers[i].size, (uint64_t)8);
    }
    *bytes = total;
    return total <= (large ? CHUNK_BYTES_2_2 : CHUNK_BYTES_2_1);
}

static lake_status put_padded(struct base_buffer *out, const struct base_buffer *part,
                              struct lake_error *err)
{
    size_t pad = BASE_ALIGN_UP(out->size, (size_t)8) - out->size;
    lake_status status = base_buffer_append_zeros(out, pad, err);
    return status != LAKE_OK ? status : base_buffer_append(out, part->data, part->size, err);
}

static lake_status put_chunk(struct chunker *chunker, const struct cut *cut, uint64_t bytes,
                             struct lake_error *err)
{
    const struct lance_page_plan *plan = chunker->plan;
    struct base_buffer *words = &chunker->out->buffers[0], *out = &chunker->out->buffers[1];
    size_t start = out->size, width = plan->options->minor >= 2 ? 4 : 2;
    bool has_levels = plan->rep != NULL || plan->def != NULL;
    uint16_t levels = has_levels ? (uint16_t)(cut->entry_end - chunker->entry) : 0;
    uint16_t rep = (uint16_t)chunker->rep.size, def = (uint16_t)chunker->def.size;
    uint32_t log2 = cut->last ? 0 : (uint32_t)__builtin_ctzll(cut->slots);
    uint32_t word = (uint32_t)(bytes / 8 - 1) << 4 | log2;
    lake_status status = base_buffer_append(words, &word, width, err);
    if (status == LAKE_OK)
        status = base_buffer_append(out, &levels, 2, err);
    if (status == LAKE_OK && plan->rep != NULL)
        status = base_buffer_append(out, &rep, 2, err);
    if (status == LAKE_OK && plan->def != NULL)
        status = base_buffer_append(out, &def, 2, err);
    for (size_t i = 0; status == LAKE_OK && i < chunker->value_plan->buffer_count; i++) {
        uint32_t size = (uint32_t)chunker->buffers[i].size;
        status = base_buffer_append(out, &size, width, err);
    }
    if (status == LAKE_OK && plan->rep != NULL)
        status = put_padded(out, &chunker->rep, err);
    if (status == LAKE_OK && plan->def != NULL)
        status = put_padded(out, &chunker->def, err);
    for (size_t i = 0; status == LAKE_OK && i < chunker->value_plan->buffer_count; i++)
        status = put_padded(out, &chunker->buffers[i], err);
    if (status == LAKE_OK)
        status = base_buffer_append_zeros(out, (size_t)bytes - (out->size - start), err);
    return status;
}

/* {rows that end in the chunk, entries of the row that goes on}. */
static lake_status put_repetition(const struct chunker *chunker, const struct cut *cut,
                                  struct base_buffer *out, struct lake_error *err)
{
    const struct lance_page_plan *plan = chunker->plan;
    uint64_t pair[2] = {0, 0}, last_start = chunker->entry;
    for (uint64_t i = chunker->entry; i < cut->entry_end; i++) {
        if (plan->rep[i] != plan->max_rep)
            continue;
        pair[0] += i > chunker->entry;
        last_start = i;
    }
    bool ends = cut->last || plan->rep[cut->entry_end] == plan->max_rep;
    pair[0] += ends;
    pair[1] = ends ? 0 : cut->entry_end - last_start;
    return base_buffer_append(out, pair, sizeof(pair), err);
}

/* Cuts, encodes and writes the next chunk, trying smaller ones until it fits. */
static lake_status next_chunk(struct chunker *chunker, bool *fits, bool *last,
                              struct base_buffer *repetition, struct lake_error *err)
{
    struct cut cut;
    uint64_t bytes;
    uint32_t log2 = log2_for_bytes(chunker, chunker->value_plan->max_log2);
    lake_status status;
    *fits = false;
    for (; log2 >= 1; log2--) {
        if (!cut_at(chunker, log2, &cut))
            return LAKE_OK;
        status = encode_cut(chunker, &cut, err);
        if (status != LAKE_OK)
            return status;
        if (chunk_fits(chunker, &bytes))
            break;
    }
    if (log2 == 0)
        return LAKE_OK;
    *fits = true;
    status = put_chunk(chunker, &cut, bytes, err);
    if (status == LAKE_OK && chunker->plan->rep != NULL)
        status = put_repetition(chunker, &cut, repetition, err);
    chunker->entry = cut.entry_end;
    chunker->slot += cut.slots;
    *last = cut.last;
    return status;
}

/* True when every chunk's levels will fit one block: values of at most 1024 and no lists. */
static bool levels_stay_small(const struct chunker *chunker)
{
    return chunker->plan->rep == NULL && chunker->value_plan->max_log2 <= 10;
}

static uint32_t width_of(uint32_t max)
{
    return max == 0 ? 0 : 32 - (uint32_t)__builtin_clz(max);
}

static lake_status encode_chunks(struct chunker *chunker, struct base_buffer *repetition,
                                 bool *fits, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    bool last = false;
    chunker->inline_levels = levels_stay_small(chunker);
    chunker->rep_width = width_of(chunker->plan->max_rep);
    chunker->def_width = width_of(chunker->plan->max_def);
    if (chunker->plan->rep != NULL)
        status = choose_level_encoding(chunker, chunker->rep_width, &chunker->rep_encoding, err);
    if (status == LAKE_OK && chunker->plan->def != NULL)
        status = choose_level_encoding(chunker, chunker->def_width, &chunker->def_encoding, err);
    *fits = true;
    while (status == LAKE_OK && *fits && !last)
        status = next_chunk(chunker, fits, &last, repetition, err);
    return status;
}

lake_status lance_mini_block_encode(const struct lance_page_plan *plan,
                                    struct lance_encoded_page *out, bool *fits,
                                    struct lake_error *err)
{
    struct lance_value_plan values;
    struct chunker chunker = {.plan = plan, .value_plan = &values, .out = out};
    struct base_buffer repetition;
    struct lance_page_layout layout;
    lance_value_plan_init(&values);
    base_buffer_init(&repetition, SIZE_MAX / 2);
    base_buffer_init(&chunker.rep, SIZE_MAX / 2);
    base_buffer_init(&chunker.def, SIZE_MAX / 2);
    for (size_t i = 0; i < LANCE_CHUNK_BUFFERS; i++)
        base_buffer_init(&chunker.buffers[i], SIZE_MAX / 2);
    lake_status status = lance_value_plan_choose(plan, &values, err);
    if (status == LAKE_OK)
        status = encode_chunks(&chunker, &repetition, fits, err);
    if (status != LAKE_OK || !*fits)
        goto out;
    lance_plan_layout(plan, &layout);
    layout.kind = LANCE_MINI_BLOCK;
    layout.rep = chunker.rep_encoding;
    layout.def = chunker.def_encoding;
    layout.values = values.encoding;
    layout.dictionary = values.dictionary;
    layout.dictionary_items = values.dictionary_items;
    layout.buffers_per_chunk = values.buffer_count;
    layout.repetition_index_depth = plan->rep != NULL;
    layout.item_count = values.source.count;
    layout.has_large_chunk = plan->options->minor >= 2;
    out->buffer_count = 2;
    if (values.dictionary != NULL)
        status =
            base_buffer_append(&out->buffers[out->buffer_count++], values.dictionary_block.data,
                               values.dictionary_block.size, err);
    if (status == LAKE_OK && plan->rep != NULL)
        status = base_buffer_append(&out->buffers[out->buffer_count++], repetition.data,
                                    repetition.size, err);
    if (status == LAKE_OK)
        status = lance_page_layout_print(&layout, &out->layout, err);
out:
    for (size_t i = 0; i < LANCE_CHUNK_BUFFERS; i++)
        base_buffer_fini(&chunker.buffers[i]);
    base_buffer_fini(&chunker.def);
    base_buffer_fini(&chunker.rep);
    base_buffer_fini(&repetition);
    lance_value_plan_fini(&values);
    return status;
}
