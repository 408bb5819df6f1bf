/* libs: client storage base */
/* What a seekable reader fetches of a store whose answers take their time: ahead while reads follow
 * each other, and no more than what was asked for elsewhere (O15). */
#include "seekable.c" /* NOLINT(bugprone-suspicious-include): over a store of the test's own */

#include "counting_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MIB  ((int64_t)1024 * 1024)
#define SIZE (40 * MIB + 777)

static int64_t asked_bytes(void)
{
    return (int64_t)(seen.read_bytes + seen.fetched_bytes);
}

static lake_seekable *open_far(void)
{
    lake_seekable *seekable = base_calloc_array(1, sizeof(*seekable));
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(counting_store_new(&seekable->store, NULL), LAKE_OK);
    seekable->key = base_strdup("key");
    seekable->size = SIZE;
    seekable->unit = UNIT_BYTES;
    return seekable;
}

static void check_read(lake_seekable *seekable, int64_t offset, size_t size)
{
    uint8_t *out = base_alloc(size);
    size_t got = 0;
    assert_int_equal(lake_seekable_read_at(seekable, offset, out, size, &got, NULL), LAKE_OK);
    assert_int_equal(got, BASE_MIN((int64_t)size, SIZE - offset));
    for (size_t i = 0; i < got; i++)
        assert_int_equal(out[i], counting_byte_at((uint64_t)offset + i));
    base_free(out);
}

static void a_row_of_reads_waits_for_nothing_but_its_first(void **state)
{
    lake_seekable *seekable = open_far();
    (void)state;
    for (int64_t at = 0; at < SIZE; at += 100000)
        check_read(seekable, at, 100000);
    assert_true(seen.reads <= 3);
    assert_int_equal(asked_bytes(), SIZE);
    assert_true(seen.fetches >= SIZE / SPAN_BYTES && seen.fetches < 40);
    assert_true(seen.most_on_the_way_bytes > 4 * MIB && seen.most_on_the_way_bytes <= AHEAD_BYTES);
    lake_seekable_free(seekable);
    assert_int_equal(seen.on_the_way_bytes, 0);
}

static void reads_here_and_there_fetch_nothing_ahead(void **state)
{
    lake_seekable *seekable = open_far();
    uint64_t random = 5;
    (void)state;
    for (int i = 0; i < 200; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        check_read(seekable, (int64_t)((random >> 20) % (SIZE - 65536)), 65536);
    }
    assert_int_equal(seen.fetches, 0);
    assert_true(asked_bytes() <= 200 * 2 * 65536);
    lake_seekable_free(seekable);
}

static void short_rows_fetch_at_most_what_they_read_and_two_units(void **state)
{
    lake_seekable *seekable = open_far();
    uint64_t random = 5;
    int64_t read = 0;
    (void)state;
    for (int i = 0; i < 60; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int64_t at = (int64_t)((random >> 20) % (SIZE - 2 * MIB));
        for (int k = 0; k < i % 8 + 1; k++, at += 70000, read += 70000)
            check_read(seekable, at, 70000);
    }
    assert_true(asked_bytes() <= 2 * read + 60 * 2 * UNIT_BYTES);
    lake_seekable_free(seekable);
    assert_int_equal(seen.on_the_way_bytes, 0);
}

static void what_does_not_come_is_fetched_when_it_is_needed(void **state)
{
    lake_seekable *seekable = open_far();
    (void)state;
    for (int64_t at = 0; at < SIZE; at += 1000000) {
        seen.failures = at % 3000000 == 0;
        check_read(seekable, at, 1000000);
    }
    lake_seekable_free(seekable);
    assert_int_equal(seen.on_the_way_bytes, 0);
}

static void want_of_memory_for_what_is_ahead_is_no_failure(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth < 12; nth++) {
        lake_seekable *seekable = open_far();
        static uint8_t out[300000];
        size_t got = 0;
        check_read(seekable, 0, sizeof(out));
        base_fault_fail_nth_alloc(nth);
        for (int i = 1; i < 6; i++) {
            lake_status status =
                lake_seekable_read_at(seekable, 300000 * i, out, sizeof(out), &got, NULL);
            assert_true(status == LAKE_OK || status == LAKE_RESOURCE_EXHAUSTED);
        }
        base_fault_fail_nth_alloc(0);
        check_read(seekable, 900000, sizeof(out));
        lake_seekable_free(seekable);
        assert_int_equal(seen.on_the_way_bytes, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_of_reads_waits_for_nothing_but_its_first),
        cmocka_unit_test(reads_here_and_there_fetch_nothing_ahead),
        cmocka_unit_test(short_rows_fetch_at_most_what_they_read_and_two_units),
        cmocka_unit_test(what_does_not_come_is_fetched_when_it_is_needed),
        cmocka_unit_test(want_of_memory_for_what_is_ahead_is_no_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
