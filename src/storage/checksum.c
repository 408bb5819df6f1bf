/* CRC-32C and CRC-64/NVME, eight bytes at a time; the first by the CPU's instruction if it has it.
 */
#include "checksum.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

#define CRC32C_POLYNOMIAL    0x82F63B78u           /* reflected */
#define CRC64NVME_POLYNOMIAL 0x9A6C9329AC4BC9B5ull /* reflected */
#define LANE_BYTES           ((size_t)8 * 1024)    /* three of them at once; see crc32c_lanes */

static pthread_once_t tables_once = PTHREAD_ONCE_INIT;
static uint32_t crc32c_table[8][256];
static uint64_t crc64_table[8][256];
static uint32_t shift_lane[4][256]; /* a CRC-32C moved on by LANE_BYTES zeros, byte by byte */
static bool has_instruction;

static uint32_t one_byte32(uint32_t crc)
{
    for (int bit = 0; bit < 8; bit++)
        crc = (crc >> 1) ^ ((crc & 1) != 0 ? CRC32C_POLYNOMIAL : 0);
    return crc;
}

static void fill_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint64_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? CRC64NVME_POLYNOMIAL : 0);
        crc64_table[0][i] = crc;
        crc32c_table[0][i] = one_byte32(i);
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int k = 1; k < 8; k++) {
            uint64_t wide = crc64_table[k - 1][i];
            uint32_t narrow = crc32c_table[k - 1][i];
            crc64_table[k][i] = crc64_table[0][wide & 255] ^ (wide >> 8);
            crc32c_table[k][i] = crc32c_table[0][narrow & 255] ^ (narrow >> 8);
        }
    }
    /* Moving on is linear: that of a byte is the sum of those of its bits. */
    for (uint32_t bit = 0; bit < 32; bit++) {
        uint32_t crc = 1u << bit;
        for (size_t zero = 0; zero < LANE_BYTES; zero++)
            crc = crc32c_table[0][crc & 255] ^ (crc >> 8);
        for (uint32_t i = 0; i < 256; i++)
            shift_lane[bit / 8][i] ^= (i >> bit % 8 & 1) != 0 ? crc : 0;
    }
#if defined(__x86_64__)
    has_instruction = __builtin_cpu_supports("sse4.2");
#elif defined(__aarch64__)
    has_instruction = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#endif
}

uint32_t checksum_crc32c_portable(uint32_t crc, struct lake_bytes data)
{
    (void)pthread_once(&tables_once, fill_tables);
    const uint8_t *p = data.data;
    size_t left = data.size;
    crc = ~crc;
    for (; left >= 8; left -= 8, p += 8) {
        uint64_t word = base_load_u64le(p) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= crc32c_table[7 - k][(word >> (8 * k)) & 255];
    }
    for (; left > 0; left--, p++)
        crc = crc32c_table[0][(crc ^ *p) & 255] ^ (crc >> 8);
    return ~crc;
}

#if defined(__x86_64__)
#define CRC_TARGET          __attribute__((target("sse4.2")))
#define CRC_STEP(crc, word) _mm_crc32_u64((crc), (word))
#elif defined(__aarch64__)
#define CRC_TARGET          __attribute__((target("+crc")))
#define CRC_STEP(crc, word) __crc32cd((uint32_t)(crc), (word))
#endif

#ifdef CRC_TARGET
static uint32_t shift(uint32_t crc)
{
    return shift_lane[0][crc & 255] ^ shift_lane[1][(crc >> 8) & 255] ^
           shift_lane[2][(crc >> 16) & 255] ^ shift_lane[3][crc >> 24];
}

/* The instruction takes three cycles but starts one each cycle, so three lanes run side by side.
 * The size is a multiple of 8. */
CRC_TARGET static uint32_t crc32c_words(uint32_t crc, const uint8_t *p, size_t size)
{
    uint64_t a = crc;
    for (; size >= 3 * LANE_BYTES; size -= 3 * LANE_BYTES, p += 3 * LANE_BYTES) {
        uint64_t b = 0;
        uint64_t c = 0;
        for (size_t i = 0; i < LANE_BYTES; i += 8) {
            a = CRC_STEP(a, base_load_u64le(p + i));
            b = CRC_STEP(b, base_load_u64le(p + LANE_BYTES + i));
            c = CRC_STEP(c, base_load_u64le(p + 2 * LANE_BYTES + i));
        }
        a = shift(shift((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
    }
    for (; size > 0; size -= 8, p += 8)
        a = CRC_STEP(a, base_load_u64le(p));
    return (uint32_t)a;
}
#endif

uint32_t checksum_crc32c(uint32_t crc, struct lake_bytes data)
{
    (void)pthread_once(&tables_once, fill_tables);
#ifdef CRC_TARGET
    if (has_instruction && data.size >= 8) {
        size_t words = data.size & ~(size_t)7;
        crc = ~crc32c_words(~crc, data.data, words);
        data = (struct lake_bytes){data.data + words, data.size - words};
    }
#endif
    return checksum_crc32c_portable(crc, data);
}

uint64_t checksum_crc64nvme(uint64_t crc, struct lake_bytes data)
{
    (void)pthread_once(&tables_once, fill_tables);
    const uint8_t *p = data.data;
    size_t left = data.size;
    crc = ~crc;
    for (; left >= 8; left -= 8, p += 8) {
        uint64_t word = base_load_u64le(p) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= crc64_table[7 - k][(word >> (8 * k)) & 255];
    }
    for (; left > 0; left--, p++)
        crc = crc64_table[0][(crc ^ *p) & 255] ^ (crc >> 8);
    return ~crc;
}

static void big_endian_base64(uint64_t value, int size, char *out)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int at = 0; at < size; at += 3) {
        uint32_t group = 0;
        for (int i = 0; i < 3; i++) {
            int place = size - 1 - (at + i);
            group = (group << 8) | (place < 0 ? 0 : (uint32_t)(value >> (8 * place)) & 255);
        }
        int bytes = BASE_MIN(size - at, 3);
        for (int i = 0; i < 4; i++)
            *out++ = i <= bytes ? alphabet[(group >> (18 - 6 * i)) & 63] : '=';
    }
    *out = '\0';
}

void checksum_crc32c_text(uint32_t crc, char out[CHECKSUM_BASE64_BYTES])
{
    big_endian_base64(crc, 4, out);
}

void checksum_crc64nvme_text(uint64_t crc, char out[CHECKSUM_BASE64_BYTES])
{
    big_endian_base64(crc, 8, out);
}
