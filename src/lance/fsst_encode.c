#include "fsst_encode.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SYMBOLS  255
#define MAX_LENGTH   8
#define ESCAPE       255
#define FIRST_BYTE   256 /* while counting, codes from here on are bytes without a symbol */
#define CODES        512
#define ROUNDS       5
#define SAMPLE_BYTES ((size_t)16 << 10)
#define BYTE_GAIN    8
#define PIECE_BYTES  ((size_t)512) /* of one string, at most */
#define HEADER_MAGIC 0x46535354ULL
#define ENABLED      (1ULL << 24)

struct symbol {
    uint64_t bytes; /* the first one lowest, zeros above */
    uint64_t mask;  /* of its bytes */
    uint32_t length;
    bool last;     /* of those that begin with the same two bytes */
    uint64_t gain; /* bytes of the sample that it stands for */
};

struct lance_fsst_encoder {
    struct symbol symbols[MAX_SYMBOLS];
    uint32_t count;
    /* Symbols of two bytes and more by their first two: by_pair[p] - 1 is the longest one's number,
     * and the shorter ones follow it; 0: there is none. */
    uint16_t by_pair[65536];
    uint16_t by_byte[256]; /* number + 1 of the symbol of that one byte; 0: none */
    uint8_t sample[SAMPLE_BYTES];
    uint32_t starts[SAMPLE_BYTES + 1]; /* of the sample's strings, and the end */
    size_t string_count;
    size_t encoded_bytes; /* of the sample */
};

static uint64_t mask_of(uint32_t length)
{
    return length == MAX_LENGTH ? UINT64_MAX : ((uint64_t)1 << (8 * length)) - 1;
}

/* ---- matching ---- */

/* The next `left` bytes, at most eight, as one word. */
static inline uint64_t load_word(const uint8_t *at, size_t left)
{
    uint64_t word = 0;
    if (left >= sizeof(word))
        return base_load_u64le(at);
    for (size_t i = 0; i < left; i++)
        word |= (uint64_t)at[i] << (8 * i);
    return word;
}

/* The number of the longest symbol that `word`, of which `left` bytes count, begins with, or -1. */
static inline int match(const struct lance_fsst_encoder *encoder, uint64_t word, size_t left)
{
    uint32_t number = left < 2 ? 0 : encoder->by_pair[word & 0xFFFF];
    for (bool last = number == 0; !last; number++) {
        const struct symbol *symbol = &encoder->symbols[number - 1];
        if (((symbol->bytes ^ word) & symbol->mask) == 0 && symbol->length <= left)
            return (int)number - 1;
        last = symbol->last;
    }
    return (int)encoder->by_byte[word & 0xFF] - 1;
}

/* At most twice as many bytes as there were; returns how many. */
static size_t encode_string(const struct lance_fsst_encoder *encoder, const uint8_t *data,
                            size_t size, uint8_t *out)
{
    size_t written = 0;
    for (size_t i = 0; i < size;) {
        int number = match(encoder, load_word(data + i, size - i), size - i);
        if (number < 0) {
            out[written++] = ESCAPE;
            out[written++] = data[i++];
        } else {
            out[written++] = (uint8_t)number;
            i += encoder->symbols[number].length;
        }
    }
    return written;
}

/* ---- finding symbols ---- */

/* Pieces of strings from all over the page, at places that no period in the rows falls in with:
 * what neighbours have in common is not what all strings have. */
static void take_sample(struct lance_fsst_encoder *encoder, const struct lance_leaf_values *values)
{
    uint64_t mean = values->data.size / BASE_MAX(values->count, (uint64_t)1) + 1;
    uint64_t picks = SAMPLE_BYTES / BASE_MIN(mean, (uint64_t)PIECE_BYTES) + 1;
    uint64_t stride = BASE_MAX(values->count / picks, (uint64_t)1), state = 1;
    size_t used = 0;
    for (uint64_t at = 0; at < values->count && used < SAMPLE_BYTES; at += stride) {
        uint64_t start, end;
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        uint64_t row = BASE_MIN(at + (state >> 33) % stride, values->count - 1);
        lance_leaf_values_range(values, row, &start, &end);
        if (end - start > PIECE_BYTES)
            start += (state >> 33) % (end - start - PIECE_BYTES);
        size_t size = BASE_MIN((size_t)(end - start), BASE_MIN(PIECE_BYTES, SAMPLE_BYTES - used));
        if (size == 0)
            continue;
        memcpy(encoder->sample + used, values->data.data + start, size);
        encoder->starts[encoder->string_count++] = (uint32_t)used;
        used += size;
    }
    encoder->starts[encoder->string_count] = (uint32_t)used;
}

struct counts {
    uint32_t single[CODES];
    uint32_t pair[CODES][CODES]; /* one code after the other in a string */
};

static struct symbol symbol_of(const struct lance_fsst_encoder *encoder, uint32_t code)
{
    if (code >= FIRST_BYTE)
        return (struct symbol){.bytes = code - FIRST_BYTE, .length = 1};
    return encoder->symbols[code];
}

static void count_codes(const struct lance_fsst_encoder *encoder, struct counts *counts)
{
    memset(counts, 0, sizeof(*counts));
    for (size_t s = 0; s < encoder->string_count; s++) {
        const uint8_t *data = encoder->sample + encoder->starts[s];
        size_t size = encoder->starts[s + 1] - encoder->starts[s];
        uint32_t before = 0;
        for (size_t i = 0; i < size;) {
            int number = match(encoder, load_word(data + i, size - i), size - i);
            uint32_t code = number < 0 ? (uint32_t)FIRST_BYTE + data[i] : (uint32_t)number;
            counts->single[code]++;
            if (i > 0)
                counts->pair[before][code]++;
            i += symbol_of(encoder, code).length;
            before = code;
        }
    }
}

static int by_bytes(const void *a, const void *b)
{
    const struct symbol *left = a, *right = b;
    if (left->length != right->length)
        return left->length < right->length ? -1 : 1;
    return (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

static int by_gain(const void *a, const void *b)
{
    const struct symbol *left = a, *right = b;
    if (left->gain != right->gain)
        return left->gain > right->gain ? -1 : 1;
    return by_bytes(a, b);
}

/* First two bytes together, the longest first; symbols of one byte last. */
static int by_match(const void *a, const void *b)
{
    const struct symbol *left = a, *right = b;
    uint64_t left_pair = left->length < 2 ? 65536 : left->bytes & 0xFFFF;
    uint64_t right_pair = right->length < 2 ? 65536 : right->bytes & 0xFFFF;
    if (left_pair != right_pair)
        return left_pair < right_pair ? -1 : 1;
    if (left->length != right->length)
        return left->length > right->length ? -1 : 1;
    return (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

/* All symbols that could be, from single codes and from two that follow each other. */
static size_t find_candidates(const struct lance_fsst_encoder *encoder, const struct counts *counts,
                              struct symbol *out)
{
    size_t count = 0;
    for (uint32_t a = 0; a < CODES; a++) {
        if (counts->single[a] == 0)
            continue;
        struct symbol first = symbol_of(encoder, a);
        /* A byte that no symbol stands for costs an escape, so these are worth more. */
        first.gain = counts->single[a] * (uint64_t)(first.length == 1 ? BYTE_GAIN : first.length);
        out[count++] = first;
        for (uint32_t b = 0; first.length < MAX_LENGTH && b < CODES; b++) {
            if (counts->pair[a][b] < 2)
                continue;
            struct symbol second = symbol_of(encoder, b), both = first;
            both.length = BASE_MIN(first.length + second.length, (uint32_t)MAX_LENGTH);
            both.bytes = (first.bytes | second.bytes << (8 * first.length)) & mask_of(both.length);
            both.gain = (uint64_t)counts->pair[a][b] * both.length;
            out[count++] = both;
        }
    }
    return count;
}

static size_t merge_equal(struct symbol *symbols, size_t count)
{
    size_t kept = 0;
    qsort(symbols, count, sizeof(*symbols), by_bytes);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && by_bytes(&symbols[kept - 1], &symbols[i]) == 0)
            symbols[kept - 1].gain += symbols[i].gain;
        else
            symbols[kept++] = symbols[i];
    }
    return kept;
}

static void index_symbols(struct lance_fsst_encoder *encoder)
{
    memset(encoder->by_pair, 0, sizeof(encoder->by_pair));
    memset(encoder->by_byte, 0, sizeof(encoder->by_byte));
    qsort(encoder->symbols, encoder->count, sizeof(encoder->symbols[0]), by_match);
    for (uint32_t i = encoder->count; i-- > 0;) { /* so that the first of a pair stays */
        struct symbol *symbol = &encoder->symbols[i];
        symbol->mask = mask_of(symbol->length);
        if (symbol->length < 2) {
            encoder->by_byte[symbol->bytes] = (uint16_t)(i + 1);
            continue;
        }
        uint16_t *first = &encoder->by_pair[symbol->bytes & 0xFFFF];
        symbol->last = *first == 0;
        *first = (uint16_t)(i + 1);
    }
}

lake_status lance_fsst_encoder_new(const struct lance_leaf_values *values,
                                   struct lance_fsst_encoder **out, struct lake_error *err)
{
    /* A sample of n bytes has at most n pairs, and as many single codes as there are. */
    size_t candidates = SAMPLE_BYTES + CODES;
    struct lance_fsst_encoder *encoder = base_calloc_array(1, sizeof(*encoder));
    struct counts *counts = base_alloc_array(1, sizeof(*counts));
    struct symbol *found = base_alloc_array(candidates, sizeof(*found));
    if (encoder == NULL || counts == NULL || found == NULL) {
        base_free(encoder);
        base_free(counts);
        base_free(found);
        return base_fail_no_memory(err, sizeof(*counts));
    }
    take_sample(encoder, values);
    for (int round = 0; round < ROUNDS; round++) {
        count_codes(encoder, counts);
        size_t count = merge_equal(found, find_candidates(encoder, counts, found));
        qsort(found, count, sizeof(*found), by_gain);
        encoder->count = (uint32_t)BASE_MIN(count, (size_t)MAX_SYMBOLS);
        memcpy(encoder->symbols, found, encoder->count * sizeof(*found));
        index_symbols(encoder);
    }
    count_codes(encoder, counts);
    for (uint32_t code = 0; code < CODES; code++)
        encoder->encoded_bytes += (size_t)counts->single[code] * (code >= FIRST_BYTE ? 2 : 1);
    base_free(counts);
    base_free(found);
    *out = encoder;
    return LAKE_OK;
}

void lance_fsst_encoder_free(struct lance_fsst_encoder *encoder)
{
    base_free(encoder);
}

uint64_t lance_fsst_estimate(const struct lance_fsst_encoder *encoder,
                             const struct lance_leaf_values *values)
{
    double sample = (double)encoder->starts[encoder->string_count];
    double ratio = sample > 0 ? (double)encoder->encoded_bytes / sample : 1;
    return (uint64_t)((double)values->data.size * ratio) + values->offsets.size +
           LANCE_FSST_TABLE_BYTES;
}

lake_status lance_fsst_encode(const struct lance_fsst_encoder *encoder,
                              const struct lance_leaf_values *values, struct lance_leaf_values *out,
                              struct lake_error *err)
{
    uint8_t *to;
    lake_status status = lance_leaf_values_reserve_variable(
        out, values->count, 2 * (uint64_t)values->data.size, &to, err);
    for (uint64_t i = 0; status == LAKE_OK && i < values->count; i++) {
        uint64_t start, end;
        lance_leaf_values_range(values, i, &start, &end);
        size_t size = encode_string(encoder, values->data.data + start, (size_t)(end - start), to);
        lance_leaf_values_push_size(out, size);
        to += size;
    }
    return status;
}

void lance_fsst_print_table(const struct lance_fsst_encoder *encoder,
                            uint8_t out[LANCE_FSST_TABLE_BYTES])
{
    memset(out, 0, LANCE_FSST_TABLE_BYTES);
    base_store_u64le(out, HEADER_MAGIC << 32 | ENABLED | encoder->count);
    for (uint32_t i = 0; i < encoder->count; i++) {
        base_store_u64le(out + 8 + 8 * (size_t)i, encoder->symbols[i].bytes);
        out[8 + 8 * (size_t)encoder->count + i] = (uint8_t)encoder->symbols[i].length;
    }
}
