/*
 * Two digests of the same bytes. Where the CPU has SHA instructions both are made in one pass: the
 * message schedule is the same for both, and each of the two chains of rounds, which alone would
 * wait for its own results, fills the other's gaps. Elsewhere OpenSSL makes them one after the
 * other.
 */
#include "base.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define BLOCK_BYTES ((size_t)64)

struct chain {
    uint32_t state[8];
    uint64_t bytes;
};

struct base_sha256_pair {
    struct base_sha256 *openssl[2]; /* NULL with the instructions */
    struct chain whole, part;
    uint8_t pending[BLOCK_BYTES];
    size_t pending_bytes;
};

#if defined(__x86_64__)

#define SHA_TARGET __attribute__((target("sha,sse4.1,ssse3")))

/* FIPS 180-4, 4.2.2. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static bool has_instructions(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0 &&
           __builtin_cpu_supports("sse4.1") != 0;
}

/* The state as the instructions want it: words a, b, e, f and c, d, g, h, from the highest on. */
struct registers {
    __m128i abef, cdgh;
};

SHA_TARGET static struct registers load_state(const uint32_t state[8])
{
    __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)state), 0xB1);
    __m128i efgh =
        _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(state + 4)), 0x1B);
    return (struct registers){_mm_alignr_epi8(cdab, efgh, 8), _mm_blend_epi16(efgh, cdab, 0xF0)};
}

SHA_TARGET static void store_state(struct registers from, uint32_t state[8])
{
    __m128i feba = _mm_shuffle_epi32(from.abef, 0x1B);
    __m128i dchg = _mm_shuffle_epi32(from.cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

SHA_TARGET static inline void four_rounds(struct registers *to, __m128i words)
{
    to->cdgh = _mm_sha256rnds2_epu32(to->cdgh, to->abef, words);
    to->abef = _mm_sha256rnds2_epu32(to->abef, to->cdgh, _mm_shuffle_epi32(words, 0x0E));
}

SHA_TARGET static void compress(struct chain *first, struct chain *second, const uint8_t *data,
                                size_t blocks)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    struct registers a = load_state(first->state);
    struct registers b = load_state(second->state);
    for (; blocks > 0; blocks--, data += BLOCK_BYTES) {
        struct registers a_before = a;
        struct registers b_before = b;
        __m128i schedule[4];
        for (int i = 0; i < 4; i++)
            schedule[i] = _mm_shuffle_epi8(
                _mm_loadu_si128((const __m128i *)(const void *)(data + (size_t)16 * (size_t)i)),
                swap);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i words = _mm_add_epi32(
                schedule[i & 3],
                _mm_loadu_si128((const __m128i *)(const void *)(round_constants + (size_t)4 * i)));
            four_rounds(&a, words);
            four_rounds(&b, words);
            if (i >= 12)
                continue;
            __m128i next = _mm_sha256msg1_epu32(schedule[i & 3], schedule[(i + 1) & 3]);
            next = _mm_add_epi32(next,
                                 _mm_alignr_epi8(schedule[(i + 3) & 3], schedule[(i + 2) & 3], 4));
            schedule[i & 3] = _mm_sha256msg2_epu32(next, schedule[(i + 3) & 3]);
        }
        a.abef = _mm_add_epi32(a.abef, a_before.abef);
        a.cdgh = _mm_add_epi32(a.cdgh, a_before.cdgh);
        b.abef = _mm_add_epi32(b.abef, b_before.abef);
        b.cdgh = _mm_add_epi32(b.cdgh, b_before.cdgh);
    }
    store_state(a, first->state);
    store_state(b, second->state);
}

#else

static bool has_instructions(void)
{
    return false;
}

static void compress(struct chain *first, struct chain *second, const uint8_t *data, size_t blocks)
{
    (void)first, (void)second, (void)data, (void)blocks;
}

#endif

static void start(struct chain *chain)
{
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(chain->state, initial, sizeof(initial));
    chain->bytes = 0;
}

/* The digest of what `from` has seen and of the bytes that no block is made of yet. */
static void end(const struct base_sha256_pair *pair, const struct chain *from,
                uint8_t out[BASE_SHA256_BYTES])
{
    uint8_t tail[2 * BLOCK_BYTES] = {0};
    struct chain last = *from;
    struct chain unused = *from;
    size_t size = pair->pending_bytes < BLOCK_BYTES - 8 ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    memcpy(tail, pair->pending, pair->pending_bytes);
    tail[pair->pending_bytes] = 0x80;
    for (size_t i = 0; i < 8; i++)
        tail[size - 1 - i] = (uint8_t)(from->bytes * 8 >> 8 * i);
    compress(&last, &unused, tail, size / BLOCK_BYTES);
    for (size_t i = 0; i < BASE_SHA256_BYTES; i++)
        out[i] = (uint8_t)(last.state[i / 4] >> (24 - 8 * (i % 4)));
}

lake_status base_sha256_pair_new(bool portable, struct base_sha256_pair **out,
                                 struct lake_error *err)
{
    struct base_sha256_pair *pair = base_calloc_array(1, sizeof(*pair));
    lake_status status = LAKE_OK;
    if (pair == NULL)
        return base_fail_no_memory(err, sizeof(*pair));
    start(&pair->whole);
    start(&pair->part);
    if (portable || !has_instructions()) {
        status = base_sha256_new(&pair->openssl[0], err);
        if (status == LAKE_OK)
            status = base_sha256_new(&pair->openssl[1], err);
    }
    if (status != LAKE_OK) {
        base_sha256_pair_free(pair);
        return status;
    }
    *out = pair;
    return LAKE_OK;
}

void base_sha256_pair_free(struct base_sha256_pair *pair)
{
    if (pair == NULL)
        return;
    base_sha256_free(pair->openssl[0]);
    base_sha256_free(pair->openssl[1]);
    base_free(pair);
}

lake_status base_sha256_pair_update(struct base_sha256_pair *pair, struct lake_bytes data,
                                    struct lake_error *err)
{
    if (pair->openssl[0] != NULL) {
        lake_status status = base_sha256_update(pair->openssl[0], data.data, data.size, err);
        return status == LAKE_OK ? base_sha256_update(pair->openssl[1], data.data, data.size, err)
                                 : status;
    }
    pair->whole.bytes += data.size;
    pair->part.bytes += data.size;
    if (pair->pending_bytes > 0) {
        size_t take = BASE_MIN(BLOCK_BYTES - pair->pending_bytes, data.size);
        memcpy(pair->pending + pair->pending_bytes, data.data, take);
        pair->pending_bytes += take;
        data = (struct lake_bytes){data.data + take, data.size - take};
        if (pair->pending_bytes < BLOCK_BYTES)
            return LAKE_OK;
        compress(&pair->whole, &pair->part, pair->pending, 1);
        pair->pending_bytes = 0;
    }
    size_t blocks = data.size / BLOCK_BYTES;
    size_t rest = data.size % BLOCK_BYTES;
    compress(&pair->whole, &pair->part, data.data, blocks);
    if (rest > 0)
        memcpy(pair->pending, data.data + data.size - rest, rest);
    pair->pending_bytes = rest;
    return LAKE_OK;
}

lake_status base_sha256_pair_next(struct base_sha256_pair *pair, uint8_t part[BASE_SHA256_BYTES],
                                  struct lake_error *err)
{
    if (pair->openssl[0] != NULL) {
        lake_status status = base_sha256_final(pair->openssl[1], part, err);
        return status == LAKE_OK ? base_sha256_reset(pair->openssl[1], err) : status;
    }
    if (pair->pending_bytes > 0)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "SHA-256: a part ends within a block of 64 bytes");
    end(pair, &pair->part, part);
    start(&pair->part);
    return LAKE_OK;
}

lake_status base_sha256_pair_final(struct base_sha256_pair *pair, uint8_t whole[BASE_SHA256_BYTES],
                                   uint8_t part[BASE_SHA256_BYTES], struct lake_error *err)
{
    if (pair->openssl[0] != NULL) {
        lake_status status = base_sha256_final(pair->openssl[0], whole, err);
        return status == LAKE_OK ? base_sha256_final(pair->openssl[1], part, err) : status;
    }
    end(pair, &pair->whole, whole);
    end(pair, &pair->part, part);
    return LAKE_OK;
}
