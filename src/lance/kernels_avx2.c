/* Kernels for AVX2, which this file alone is compiled for: nothing here may run before
 * lance_kernels has asked the processor. */
#if defined(__x86_64__)

#include "kernels.h"

#include <immintrin.h>
#include <string.h>

#include "kernel_loops.inc"

static inline __m256i load32(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

static inline void store32(uint8_t *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, v);
}

/* Sixteen bytes at `p` and sixteen at `q`. Instructions work within such halves, so each half takes
 * values of its own and comes out in order. */
static inline __m256i load_halves(const uint8_t *p, const uint8_t *q)
{
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i high = _mm_loadu_si128((const __m128i *)(const void *)q);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

static inline void store_low_halves(uint8_t *p, __m256i a, __m256i b)
{
    store32(p, _mm256_permute2x128_si256(a, b, 0x20));
}

static inline void store_high_halves(uint8_t *p, __m256i a, __m256i b)
{
    store32(p, _mm256_permute2x128_si256(a, b, 0x31));
}

static void join4(uint64_t count, const uint8_t *planes, uint8_t *out)
{
    uint64_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m256i p0 = load32(planes + i), p1 = load32(planes + count + i);
        __m256i p2 = load32(planes + 2 * count + i), p3 = load32(planes + 3 * count + i);
        __m256i a = _mm256_unpacklo_epi8(p0, p1), b = _mm256_unpackhi_epi8(p0, p1);
        __m256i c = _mm256_unpacklo_epi8(p2, p3), d = _mm256_unpackhi_epi8(p2, p3);
        __m256i r0 = _mm256_unpacklo_epi16(a, c), r1 = _mm256_unpackhi_epi16(a, c);
        __m256i r2 = _mm256_unpacklo_epi16(b, d), r3 = _mm256_unpackhi_epi16(b, d);
        store_low_halves(out + 4 * i, r0, r1);
        store_low_halves(out + 4 * i + 32, r2, r3);
        store_high_halves(out + 4 * i + 64, r0, r1);
        store_high_halves(out + 4 * i + 96, r2, r3);
    }
    join_rest(4, i, count, planes, out);
}

static void join8(uint64_t count, const uint8_t *planes, uint8_t *out)
{
    uint64_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m256i a[8], b[8], r[8];
        for (unsigned k = 0; k < 4; k++) { /* pairs of planes: halves of the values */
            __m256i even = load32(planes + 2 * k * count + i);
            __m256i odd = load32(planes + (2 * k + 1) * count + i);
            a[k] = _mm256_unpacklo_epi8(even, odd);
            a[4 + k] = _mm256_unpackhi_epi8(even, odd);
        }
        for (unsigned h = 0; h < 8; h += 4) { /* four planes: quarters */
            b[h] = _mm256_unpacklo_epi16(a[h], a[h + 1]);
            b[h + 1] = _mm256_unpackhi_epi16(a[h], a[h + 1]);
            b[h + 2] = _mm256_unpacklo_epi16(a[h + 2], a[h + 3]);
            b[h + 3] = _mm256_unpackhi_epi16(a[h + 2], a[h + 3]);
        }
        for (unsigned h = 0; h < 8; h += 4) { /* whole values, two a half */
            r[h] = _mm256_unpacklo_epi32(b[h], b[h + 2]);
            r[h + 1] = _mm256_unpackhi_epi32(b[h], b[h + 2]);
            r[h + 2] = _mm256_unpacklo_epi32(b[h + 1], b[h + 3]);
            r[h + 3] = _mm256_unpackhi_epi32(b[h + 1], b[h + 3]);
        }
        for (unsigned k = 0; k < 4; k++) {
            store_low_halves(out + 8 * i + (size_t)32 * k, r[2 * k], r[2 * k + 1]);
            store_high_halves(out + 8 * i + 128 + (size_t)32 * k, r[2 * k], r[2 * k + 1]);
        }
    }
    join_rest(8, i, count, planes, out);
}

static void split4(uint64_t count, const uint8_t *values, uint8_t *out)
{
    const __m256i gather = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    uint64_t i = 0;
    for (; i + 32 <= count; i += 32) {
        const uint8_t *low = values + 4 * i, *high = low + 64;
        __m256i v[4];
        for (unsigned k = 0; k < 4; k++)
            v[k] = _mm256_shuffle_epi8(load_halves(low + (size_t)16 * k, high + (size_t)16 * k),
                                       gather);
        __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]);
        __m256i c = _mm256_unpacklo_epi32(v[2], v[3]), d = _mm256_unpackhi_epi32(v[2], v[3]);
        store32(out + i, _mm256_unpacklo_epi64(a, c));
        store32(out + count + i, _mm256_unpackhi_epi64(a, c));
        store32(out + 2 * count + i, _mm256_unpacklo_epi64(b, d));
        store32(out + 3 * count + i, _mm256_unpackhi_epi64(b, d));
    }
    split_rest(4, i, count, values, out);
}

static void split8(uint64_t count, const uint8_t *values, uint8_t *out)
{
    const __m256i gather = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
    uint64_t i = 0;
    for (; i + 32 <= count; i += 32) {
        const uint8_t *low = values + 8 * i, *high = low + 128;
        __m256i v[8], a[8], b[8];
        for (unsigned k = 0; k < 8; k++)
            v[k] = _mm256_shuffle_epi8(load_halves(low + (size_t)16 * k, high + (size_t)16 * k),
                                       gather);
        for (unsigned k = 0; k < 4; k++) { /* planes 0-3 in a[0..3], 4-7 in a[4..7] */
            a[k] = _mm256_unpacklo_epi16(v[2 * k], v[2 * k + 1]);
            a[4 + k] = _mm256_unpackhi_epi16(v[2 * k], v[2 * k + 1]);
        }
        for (unsigned h = 0; h < 8; h += 4) { /* two planes each */
            b[h] = _mm256_unpacklo_epi32(a[h], a[h + 1]);
            b[h + 1] = _mm256_unpacklo_epi32(a[h + 2], a[h + 3]);
            b[h + 2] = _mm256_unpackhi_epi32(a[h], a[h + 1]);
            b[h + 3] = _mm256_unpackhi_epi32(a[h + 2], a[h + 3]);
        }
        for (unsigned k = 0; k < 4; k++) {
            uint8_t *to = out + 2 * k * count + i;
            store32(to, _mm256_unpacklo_epi64(b[2 * k], b[2 * k + 1]));
            store32(to + count, _mm256_unpackhi_epi64(b[2 * k], b[2 * k + 1]));
        }
    }
    split_rest(8, i, count, values, out);
}

KERNEL_TABLE(avx2);

#endif
