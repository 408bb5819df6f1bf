/*
 * The inner loops of the codecs, compiled once for any processor and once for AVX2.
 *
 * `lance_kernels` picks at run time. Both sets give the same bytes for the same input; the tests
 * compare them. No argument needs an alignment, and nothing is read or written beyond the sizes
 * that the comments state.
 */
#ifndef LANCE_KERNELS_H
#define LANCE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define LANCE_BLOCK_VALUES 1024 /* FastLanes block */

/* Arrays of four are by word width: 8, 16, 32 and 64 bits. */
struct lance_kernels {
    const char *name;
    /* FastLanes: 1024 words from and to 128 * width bytes; width <= bits of a word. */
    void (*unpack[4])(uint32_t width, const uint8_t *packed, uint8_t *out);
    void (*pack[4])(uint32_t width, const uint8_t *values, uint8_t *packed);
    /* All values or-ed together. */
    uint64_t (*combine[4])(const uint8_t *values, uint64_t count);
    /* How often a value differs from the one before it. */
    uint64_t (*count_changes[4])(const uint8_t *values, uint64_t count);
    /* Values of runs written out, the first `total`; their number, or UINT64_MAX when the runs hold
     * more. */
    uint64_t (*expand_runs[4])(const uint8_t *values, const uint8_t *lengths, size_t runs,
                               uint64_t total, uint8_t *out);
    /* Least and greatest value, as integers whose signed order is that of the values; meaningless
     * for none. Unsigned values have the highest bit of their word turned. Of floating point values
     * (32 and 64 bits only) those below zero have all the others turned: -NaN, -infinity, …, -0, 0,
     * …, infinity, NaN. */
    void (*range_signed[4])(const uint8_t *values, uint64_t count, int64_t *low, int64_t *high);
    void (*range_unsigned[4])(const uint8_t *values, uint64_t count, int64_t *low, int64_t *high);
    void (*range_float[4])(const uint8_t *values, uint64_t count, int64_t *low, int64_t *high);
    /* Byte planes to and from values of 4 [0] and 8 [1] bytes. */
    void (*join[2])(uint64_t count, const uint8_t *planes, uint8_t *out);
    void (*split[2])(uint64_t count, const uint8_t *values, uint8_t *out);
};

const struct lance_kernels *lance_kernels(void);
extern const struct lance_kernels lance_kernels_portable;
#if defined(__x86_64__)
extern const struct lance_kernels lance_kernels_avx2; /* only where the processor has it */
#endif

static inline size_t lance_kernel_index(uint32_t type_bits)
{
    return (size_t)__builtin_ctz(type_bits) - 3;
}

#endif
