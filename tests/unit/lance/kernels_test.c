/* Every set of kernels against plain loops, and the sets against each other, on random input of
 * random lengths and alignments. */
#include "kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROUNDS 200
#define SLACK  64 /* behind what a kernel may write; must stay as it was */

static uint64_t random_state = 88172645463325252ULL;
static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void fill(uint8_t *out, size_t size)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)random_next();
}

/* Memory of exactly `size` bytes from an odd address on: a read beyond it is seen by sanitizers. */
static uint8_t *misaligned(size_t size, uint8_t **block)
{
    *block = malloc(size + 1);
    assert_non_null(*block);
    return *block + 1;
}

static const struct lance_kernels *set(size_t index)
{
#if defined(__x86_64__)
    if (index == 1)
        return __builtin_cpu_supports("avx2") ? &lance_kernels_avx2 : NULL;
#endif
    return index == 0 ? &lance_kernels_portable : NULL;
}

static void the_chosen_set_is_one_that_the_processor_has(void **state)
{
    (void)state;
    const struct lance_kernels *chosen = lance_kernels();
    assert_true(chosen == &lance_kernels_portable || chosen == set(1));
    assert_ptr_equal(chosen, set(1) != NULL ? set(1) : set(0));
}

static void planes_are_split_and_joined(void **state)
{
    (void)state;
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t count = random_next() % 300, width = round % 2 == 0 ? 4 : 8, size = count * width;
        uint8_t *blocks[3], *values = misaligned(size, &blocks[0]);
        uint8_t *expected = misaligned(size, &blocks[1]),
                *out = misaligned(size + SLACK, &blocks[2]);
        fill(values, size);
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < width; k++)
                expected[k * count + i] = values[i * width + k];
        for (size_t i = 0; i < 2; i++) {
            const struct lance_kernels *kernels = set(i);
            if (kernels == NULL)
                continue;
            memset(out, 0xA5, size + SLACK);
            kernels->split[width == 8](count, values, out);
            assert_memory_equal(out, expected, size);
            kernels->join[width == 8](count, expected, out);
            assert_memory_equal(out, values, size);
            for (size_t k = size; k < size + SLACK; k++)
                assert_int_equal(out[k], 0xA5);
        }
        for (size_t i = 0; i < 3; i++)
            free(blocks[i]);
    }
}

static uint64_t load(const uint8_t *at, size_t width)
{
    uint64_t value = 0;
    memcpy(&value, at, width);
    return value;
}

static void every_width_is_packed_and_unpacked_alike(void **state)
{
    static uint8_t values[1024 * 8 + 1], packed[2][128 * 64 + 1], out[1024 * 8 + 3];
    (void)state;
    for (uint32_t bits = 8; bits <= 64; bits *= 2) {
        for (uint32_t width = 0; width <= bits; width++) {
            size_t bytes = bits / 8, index = lance_kernel_index(bits);
            for (size_t i = 0; i < 1024; i++) {
                uint64_t value = width == 0 ? 0 : random_next() >> (64 - width);
                memcpy(values + 1 + i * bytes, &value, bytes);
            }
            for (size_t i = 0; i < 2 && set(i) != NULL; i++) {
                set(i)->pack[index](width, values + 1, packed[i] + 1);
                assert_memory_equal(packed[i] + 1, packed[0] + 1, (size_t)128 * width);
                memset(out, 0xA5, sizeof(out));
                set(i)->unpack[index](width, packed[0] + 1, out + 3);
                assert_memory_equal(out + 3, values + 1, 1024 * bytes);
            }
        }
    }
}

static void values_are_combined_and_changes_counted(void **state)
{
    (void)state;
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t width = (size_t)1 << (round % 4), count = random_next() % 200;
        uint8_t *block, *values = misaligned(count * width, &block);
        uint64_t all = 0, changes = 0;
        for (size_t i = 0; i < count * width; i++)
            values[i] = (uint8_t)(random_next() % 2 << 6);
        for (size_t i = 0; i < count; i++) {
            all |= load(values + i * width, width);
            changes +=
                i > 0 && load(values + i * width, width) != load(values + (i - 1) * width, width);
        }
        for (size_t i = 0; i < 2 && set(i) != NULL; i++) {
            assert_true(set(i)->combine[round % 4](values, count) == all);
            assert_true(set(i)->count_changes[round % 4](values, count) == changes);
        }
        free(block);
    }
}

/* The order that kernels.h states, one value at a time. */
static int64_t order_of(int kind, uint32_t bits, const uint8_t *at)
{
    uint64_t value = load(at, bits / 8), top = (uint64_t)1 << (bits - 1);
    if (kind == 1)
        value ^= top;
    else if (kind == 2 && (value & top) != 0)
        value ^= top - 1;
    return bits == 64 ? (int64_t)value : (int64_t)(value << (64 - bits)) >> (64 - bits);
}

static void ranges_are_those_of_the_values_in_their_order(void **state)
{
    (void)state;
    for (size_t round = 0; round < 3 * ROUNDS; round++) {
        int kind = (int)(round % 3); /* signed, unsigned, floating point */
        uint32_t bits = kind == 2 ? 32U << (random_next() % 2) : 8U << (random_next() % 4);
        size_t count = 1 + random_next() % 100, index = lance_kernel_index(bits);
        uint8_t *block, *values = misaligned(count * bits / 8, &block);
        int64_t low = INT64_MAX, high = INT64_MIN;
        fill(values, count * bits / 8);
        for (size_t i = 0; i < count; i++) {
            int64_t order = order_of(kind, bits, values + i * bits / 8);
            low = order < low ? order : low;
            high = order > high ? order : high;
        }
        for (size_t i = 0; i < 2 && set(i) != NULL; i++) {
            int64_t lowest = 0, highest = 0;
            const struct lance_kernels *kernels = set(i);
            (kind == 0   ? kernels->range_signed
             : kind == 1 ? kernels->range_unsigned
                         : kernels->range_float)[index](values, count, &lowest, &highest);
            assert_true(lowest == low && highest == high);
        }
        free(block);
    }
}

static void runs_are_written_out_and_never_beyond_the_total(void **state)
{
    (void)state;
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t width = (size_t)1 << (round % 4), runs = random_next() % 20;
        uint8_t lengths[20], values[20 * 8];
        size_t total = 0;
        fill(values, sizeof(values));
        for (size_t i = 0; i < runs; i++) {
            lengths[i] = (uint8_t)(random_next() >> (random_next() % 8));
            total += lengths[i];
        }
        uint8_t *block, *out = misaligned(total * width + SLACK, &block);
        for (size_t i = 0; i < 2 && set(i) != NULL; i++) {
            memset(out, 0xA5, total * width + SLACK);
            assert_true(set(i)->expand_runs[round % 4](values, lengths, runs, total, out) == total);
            size_t at = 0;
            for (size_t k = 0; k < runs; k++)
                for (size_t n = 0; n < lengths[k]; n++, at += width)
                    assert_memory_equal(out + at, values + k * width, width);
            for (size_t k = 0; k < SLACK; k++)
                assert_int_equal(out[total * width + k], 0xA5);
            if (total > 0) { /* the first of them, and nothing behind */
                memset(out + (total - 1) * width, 0x5A, width);
                assert_true(set(i)->expand_runs[round % 4](values, lengths, runs, total - 1, out) ==
                            UINT64_MAX);
                for (size_t k = 0; k < width; k++)
                    assert_int_equal(out[(total - 1) * width + k], 0x5A);
            }
        }
        free(block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_chosen_set_is_one_that_the_processor_has),
        cmocka_unit_test(planes_are_split_and_joined),
        cmocka_unit_test(every_width_is_packed_and_unpacked_alike),
        cmocka_unit_test(values_are_combined_and_changes_counted),
        cmocka_unit_test(ranges_are_those_of_the_values_in_their_order),
        cmocka_unit_test(runs_are_written_out_and_never_beyond_the_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
