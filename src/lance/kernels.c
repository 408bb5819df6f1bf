/* Kernels for any processor, and the choice between the sets. */
#include "kernels.h"

#include <string.h>

#include "kernel_loops.inc"

/* Portable vectors of the compiler: a tree of byte interleavings turns planes into values. */
typedef uint8_t v16 __attribute__((vector_size(16)));
#define INTERLEAVE_LOW(a, b) \
    __builtin_shufflevector((a), (b), 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define INTERLEAVE_HIGH(a, b) \
    __builtin_shufflevector((a), (b), 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

static inline v16 load16(const uint8_t *p)
{
    v16 v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static inline void store16(uint8_t *p, v16 v)
{
    memcpy(p, &v, sizeof(v));
}

static void join4(uint64_t count, const uint8_t *planes, uint8_t *out)
{
    uint64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        v16 p0 = load16(planes + i), p1 = load16(planes + count + i);
        v16 p2 = load16(planes + 2 * count + i), p3 = load16(planes + 3 * count + i);
        v16 a = INTERLEAVE_LOW(p0, p2), b = INTERLEAVE_HIGH(p0, p2);
        v16 c = INTERLEAVE_LOW(p1, p3), d = INTERLEAVE_HIGH(p1, p3);
        store16(out + 4 * i, INTERLEAVE_LOW(a, c));
        store16(out + 4 * i + 16, INTERLEAVE_HIGH(a, c));
        store16(out + 4 * i + 32, INTERLEAVE_LOW(b, d));
        store16(out + 4 * i + 48, INTERLEAVE_HIGH(b, d));
    }
    join_rest(4, i, count, planes, out);
}

/* Four words of two planes each, woven twice more, are sixteen 8-byte values. */
static void join8(uint64_t count, const uint8_t *planes, uint8_t *out)
{
    uint64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        v16 p[8], q[8], r[8];
        for (unsigned k = 0; k < 8; k++)
            p[k] = load16(planes + k * count + i);
        for (unsigned k = 0; k < 4; k++) {
            q[2 * k] = INTERLEAVE_LOW(p[k], p[k + 4]);
            q[2 * k + 1] = INTERLEAVE_HIGH(p[k], p[k + 4]);
        }
        /* q: pairs (0,4) (1,5) (2,6) (3,7), each low then high half of the values */
        for (unsigned half = 0; half < 2; half++) {
            r[4 * half + 0] = INTERLEAVE_LOW(q[half], q[4 + half]);
            r[4 * half + 1] = INTERLEAVE_HIGH(q[half], q[4 + half]);
            r[4 * half + 2] = INTERLEAVE_LOW(q[2 + half], q[6 + half]);
            r[4 * half + 3] = INTERLEAVE_HIGH(q[2 + half], q[6 + half]);
        }
        for (unsigned half = 0; half < 2; half++) {
            uint8_t *to = out + 8 * i + 64 * half;
            store16(to, INTERLEAVE_LOW(r[4 * half], r[4 * half + 2]));
            store16(to + 16, INTERLEAVE_HIGH(r[4 * half], r[4 * half + 2]));
            store16(to + 32, INTERLEAVE_LOW(r[4 * half + 1], r[4 * half + 3]));
            store16(to + 48, INTERLEAVE_HIGH(r[4 * half + 1], r[4 * half + 3]));
        }
    }
    join_rest(8, i, count, planes, out);
}

/* log2(n) interleavings of n vectors with those half of them further bring the bytes of one plane
 * together: after each, a vector's neighbours in the tree hold values twice as far apart. */
static inline void interleave_halves(v16 *v, unsigned n)
{
    v16 w[8];
    for (unsigned k = 0; k < n / 2; k++) {
        w[2 * k] = INTERLEAVE_LOW(v[k], v[k + n / 2]);
        w[2 * k + 1] = INTERLEAVE_HIGH(v[k], v[k + n / 2]);
    }
    for (unsigned k = 0; k < n; k++)
        v[k] = w[k];
}

static void split4(uint64_t count, const uint8_t *values, uint8_t *out)
{
    uint64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        v16 v[4];
        for (unsigned k = 0; k < 4; k++)
            v[k] = load16(values + 4 * i + 16 * k);
        for (unsigned round = 0; round < 4; round++)
            interleave_halves(v, 4);
        for (unsigned k = 0; k < 4; k++)
            store16(out + k * count + i, v[k]);
    }
    split_rest(4, i, count, values, out);
}

static void split8(uint64_t count, const uint8_t *values, uint8_t *out)
{
    uint64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        v16 v[8];
        for (unsigned k = 0; k < 8; k++)
            v[k] = load16(values + 8 * i + 16 * k);
        for (unsigned round = 0; round < 4; round++)
            interleave_halves(v, 8);
        for (unsigned k = 0; k < 8; k++)
            store16(out + k * count + i, v[k]);
    }
    split_rest(8, i, count, values, out);
}

KERNEL_TABLE(portable);

const struct lance_kernels *lance_kernels(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return &lance_kernels_avx2;
#endif
    return &lance_kernels_portable;
}
