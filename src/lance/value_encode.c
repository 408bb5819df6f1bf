/*
 * Choosing how a page's values are encoded: candidates are measured on the page itself, bit packing
 * and runs exactly, compression on a few chunks. A compressed form must save enough to pay for its
 * decoding; how much that is depends on the table's profile.
 */
#include "file_write.h"

#include <string.h>

#define SAMPLE_CHUNKS     4
#define SPLIT_BYTES_2_1   ((uint64_t)32 << 10) /* planes that shrink fit a chunk of 2.1 */
#define MAX_RUN           255
#define WORTH_PACKING     95 /* percent of the flat size at most */
#define RLE_CHUNK_LOG2    12
#define INLINE_CHUNK_LOG2 10

void lance_value_plan_init(struct lance_value_plan *plan)
{
    *plan = (struct lance_value_plan){.buffer_count = 1};
    base_buffer_init(&plan->indices, SIZE_MAX / 2);
    base_buffer_init(&plan->dictionary_block, SIZE_MAX / 2);
}

void lance_value_plan_fini(struct lance_value_plan *plan)
{
    base_buffer_fini(&plan->indices);
    base_buffer_fini(&plan->dictionary_block);
    if (plan->symbols.type != NULL)
        lance_leaf_values_fini(&plan->symbols);
}

void lance_value_plan_take(struct lance_value_plan *plan, const struct lance_value_codec *codec,
                           const struct lance_encoding *encoding, uint32_t max_log2,
                           size_t buffer_count)
{
    plan->codec = codec;
    plan->encoding = encoding;
    plan->max_log2 = max_log2;
    plan->buffer_count = buffer_count;
}

/* The largest power of two of values of `bits` within `bytes`, from 2 to 32768. */
static uint32_t log2_within(uint64_t bytes, uint64_t bits)
{
    uint32_t log2 = 15;
    while (log2 > 1 && ((uint64_t)1 << log2) * bits > bytes * 8)
        log2--;
    return log2;
}

lake_status lance_value_sample(const struct lance_value_codec *codec,
                               const struct lance_encoding *encoding,
                               const struct lance_value_source *source, uint64_t chunk,
                               uint64_t *estimate, struct lake_error *err)
{
    struct base_buffer buffers[LANCE_CHUNK_BUFFERS];
    uint64_t chunks = source->count / chunk, taken = 0, bytes = 0;
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < LANCE_CHUNK_BUFFERS; i++)
        base_buffer_init(&buffers[i], SIZE_MAX / 2);
    uint64_t step = BASE_MAX(chunks / SAMPLE_CHUNKS, (uint64_t)1);
    for (uint64_t i = 0; status == LAKE_OK && i * chunk < source->count; i += step) {
        uint64_t count = BASE_MIN(chunk, source->count - i * chunk);
        base_buffer_clear(&buffers[0]);
        status = codec->encode(source, encoding, i * chunk, count, buffers, err);
        taken += count;
        bytes += buffers[0].size;
    }
    for (size_t i = 0; i < LANCE_CHUNK_BUFFERS; i++)
        base_buffer_fini(&buffers[i]);
    if (status == LAKE_OK)
        *estimate =
            taken == 0 ? 0 : (uint64_t)((double)bytes / (double)taken * (double)source->count);
    return status;
}

uint64_t lance_inline_bytes(const struct lance_value_source *source)
{
    uint64_t bytes = 0, word = source->bits / 8;
    for (uint64_t i = 0; i < source->count; i += LANCE_BLOCK_VALUES) {
        uint64_t count = BASE_MIN(source->count - i, (uint64_t)LANCE_BLOCK_VALUES);
        uint32_t width = lance_bits_needed((uint32_t)source->bits, source->fixed + i * word, count);
        bytes += word + (uint64_t)128 * width + 8;
    }
    return bytes;
}

/* ---- encodings ---- */

lake_status lance_encoding_out_of_memory(struct lake_error *err)
{
    return base_fail_no_memory(err, sizeof(struct lance_encoding));
}

const struct lance_encoding *lance_encoding_flat(struct base_arena *arena, uint64_t bits)
{
    return lance_encoding_new(arena, LANCE_ENCODING_FLAT, bits, NULL);
}

const struct lance_encoding *lance_encoding_general(struct base_arena *arena, uint32_t scheme,
                                                    const struct lance_encoding *inner)
{
    struct lance_encoding *node =
        inner == NULL ? NULL : lance_encoding_new(arena, LANCE_ENCODING_GENERAL, 0, inner);
    if (node != NULL)
        node->scheme = scheme;
    return node;
}

static const struct lance_encoding *rle_encoding(struct base_arena *arena, uint64_t bits)
{
    struct lance_encoding *node =
        lance_encoding_new(arena, LANCE_ENCODING_RLE, 0, lance_encoding_flat(arena, bits));
    if (node != NULL)
        node->lengths = lance_encoding_flat(arena, 8);
    return node == NULL || node->values == NULL || node->lengths == NULL ? NULL : node;
}

static const struct lance_encoding *planes_encoding(struct base_arena *arena, uint64_t bits)
{
    const struct lance_encoding *flat = lance_encoding_flat(arena, bits);
    return flat == NULL ? NULL
                        : lance_encoding_new(arena, LANCE_ENCODING_BYTE_STREAM_SPLIT, 0, flat);
}

/* ---- fixed values ---- */

/* Compression in place of `*best` bytes, if it saves enough. */
static lake_status try_compression(const struct lance_page_plan *page, bool split, uint64_t *best,
                                   struct lance_value_plan *out, struct lake_error *err)
{
    const struct lance_encode_options *options = page->options;
    const struct lance_value_source *source = &out->source;
    uint64_t limit = split && options->minor < 2 ? SPLIT_BYTES_2_1 : options->chunk_bytes, estimate;
    uint32_t log2 = log2_within(limit, source->bits);
    const struct lance_encoding *inner = split ? planes_encoding(page->arena, source->bits)
                                               : lance_encoding_flat(page->arena, source->bits);
    const struct lance_encoding *encoding =
        lance_encoding_general(page->arena, options->scheme, inner);
    if (encoding == NULL)
        return lance_encoding_out_of_memory(err);
    lake_status status = lance_value_sample(&lance_general_values, encoding, source,
                                            (uint64_t)1 << log2, &estimate, err);
    if (status == LAKE_OK && estimate < *best - *best / 100 * options->min_saving) {
        lance_value_plan_take(out, &lance_general_values, encoding, log2, 1);
        /* The next candidate competes with this one on equal terms. */
        *best = estimate * 100 / (100 - options->min_saving);
    }
    return status;
}

static bool is_word(uint64_t bits)
{
    return bits == 8 || bits == 16 || bits == 32 || bits == 64;
}

/* Runs and bit packing, as far as they beat `*best` bytes. */
static lake_status try_words(const struct lance_page_plan *page, bool integer, uint64_t *best,
                             struct lance_value_plan *out, struct lake_error *err)
{
    const struct lance_value_source *source = &out->source;
    size_t index = lance_kernel_index((uint32_t)source->bits);
    const struct lance_encoding *encoding = out->encoding;
    uint64_t changes = lance_kernels()->count_changes[index](source->fixed, source->count);
    uint64_t packed = integer ? lance_inline_bytes(source) : UINT64_MAX;
    uint64_t runs = (1 + source->count / MAX_RUN + changes) * (source->bits / 8 + 1);
    if (packed < *best / 100 * WORTH_PACKING) {
        encoding =
            lance_encoding_new(page->arena, LANCE_ENCODING_INLINE_BITPACKING, source->bits, NULL);
        lance_value_plan_take(out, &lance_inline_values, encoding, INLINE_CHUNK_LOG2, 1);
        *best = packed;
    }
    if (runs < *best && (double)changes <= (double)source->count * page->options->rle_limit) {
        encoding = rle_encoding(page->arena, source->bits);
        lance_value_plan_take(out, &lance_rle_values, encoding, RLE_CHUNK_LOG2, 2);
        *best = runs;
    }
    return encoding != NULL ? LAKE_OK : lance_encoding_out_of_memory(err);
}

lake_status lance_choose_fixed(const struct lance_page_plan *page, bool integer,
                               struct lance_value_plan *out, uint64_t *bytes,
                               struct lake_error *err)
{
    const struct lance_encode_options *options = page->options;
    const struct lance_value_source *source = &out->source;
    uint64_t best = source->count * (source->bits / 8);
    bool can_split = source->bits == 32 || source->bits == 64;
    const struct lance_encoding *encoding = lance_encoding_flat(page->arena, source->bits);
    lake_status status = LAKE_OK;
    if (encoding == NULL)
        return lance_encoding_out_of_memory(err);
    lance_value_plan_take(out, &lance_flat_values, encoding,
                          log2_within(options->chunk_bytes, source->bits), 1);
    if (is_word(source->bits))
        status = try_words(page, integer, &best, out, err);
    if (status == LAKE_OK && options->scheme != 0 && can_split && !options->split_never)
        status = try_compression(page, true, &best, out, err);
    if (status == LAKE_OK && options->scheme != 0 && source->bits >= 16 &&
        !(can_split && options->split_always) && (integer || source->bits != 32))
        status = try_compression(page, false, &best, out, err);
    *bytes = best;
    return status;
}

/* Few distinct values are looked up, unless something else is as small without. */
static lake_status choose_fixed_or_dictionary(const struct lance_page_plan *page,
                                              struct lance_value_plan *out, struct lake_error *err)
{
    const struct lance_leaf_type *type = &page->rows->type;
    uint64_t bytes;
    bool worth, wide = type->item_bits == 64 || type->item_bits == 128;
    lake_status status = lance_choose_fixed(page, type->integer, out, &bytes, err);
    if (status != LAKE_OK || !wide || bytes <= page->rows->values.count)
        return status;
    return lance_try_dictionary(page, bytes, out, &worth, err);
}

static lake_status choose_fsl(const struct lance_page_plan *page, struct lance_value_plan *out,
                              struct lake_error *err)
{
    const struct lance_leaf_values *values = &page->rows->values;
    const struct lance_leaf_type *type = values->type;
    const struct lance_encoding *inner = lance_encoding_flat(page->arena, type->item_bits);
    size_t buffers = 1;
    for (uint32_t depth = type->fsl_depth; inner != NULL && depth-- > 0;) {
        struct lance_encoding *node =
            lance_encoding_new(page->arena, LANCE_ENCODING_FIXED_SIZE_LIST, 0, inner);
        if (node == NULL)
            return lance_encoding_out_of_memory(err);
        node->items = type->fsl_sizes[depth];
        node->has_validity = values->item_nulls[depth];
        buffers += node->has_validity;
        inner = node;
    }
    if (inner == NULL)
        return lance_encoding_out_of_memory(err);
    uint64_t row_bits = BASE_MAX(type->items * type->item_bits, (uint64_t)1);
    lance_value_plan_take(out, &lance_fsl_values, inner,
                          log2_within(page->options->chunk_bytes, row_bits), buffers);
    return LAKE_OK;
}

static lake_status choose_booleans(const struct lance_page_plan *page, struct lance_value_plan *out,
                                   struct lake_error *err)
{
    const struct lance_encoding *encoding = lance_encoding_flat(page->arena, 1);
    lance_value_plan_take(out, &lance_flat_values, encoding,
                          log2_within(page->options->chunk_bytes, 1), 1);
    return encoding != NULL ? LAKE_OK : lance_encoding_out_of_memory(err);
}

lake_status lance_value_plan_choose(const struct lance_page_plan *page,
                                    struct lance_value_plan *out, struct lake_error *err)
{
    const struct lance_leaf_values *values = &page->rows->values;
    const struct lance_leaf_type *type = values->type;
    out->source = (struct lance_value_source){.values = values,
                                              .fixed = values->fixed.data,
                                              .bits = type->item_bits,
                                              .count = values->count,
                                              .compressor = page->compressor};
    switch (type->kind) {
    case LANCE_LEAF_VARIABLE:
        return lance_choose_variable(page, out, err);
    case LANCE_LEAF_FSL:
        return choose_fsl(page, out, err);
    case LANCE_LEAF_DICTIONARY:
        return lance_choose_arrow_dictionary(page, out, err);
    case LANCE_LEAF_FIXED:
        if (type->item_bits == 1)
            return choose_booleans(page, out, err);
        return choose_fixed_or_dictionary(page, out, err);
    default:
        return lake_fail(err, LAKE_INTERNAL, "values in a column of nulls");
    }
}
