/* libs: lance storage base */
/* Reading ahead over a store in memory that counts what is asked for, and fails as it is told. */
#include "read_ahead.h"

#include "counting_store.h"
#include "file_read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <string.h>

#define KIB       ((uint64_t)1024)
#define MIB       ((uint64_t)1024 * 1024)
#define FILE_SIZE (64 * MIB)

static struct storage_store *store;
static struct lance_file files[2];
static struct lance_ahead_budget budget;

static struct lance_read_ahead *set_up_ahead(void)
{
    struct lance_read_ahead *ahead = NULL;
    memset(&seen, 0, sizeof(seen));
    atomic_store(&budget.held_bytes, 0);
    atomic_store(&budget.taken_bytes, 0);
    assert_int_equal(lance_read_ahead_new(&budget, &ahead, NULL), LAKE_OK);
    return ahead;
}

static void want(struct lance_read_ahead *ahead, size_t file, uint64_t start_at, uint64_t size,
                 uint64_t end_row)
{
    assert_int_equal(
        lance_read_ahead_want(ahead, &files[file], start_at, start_at + size, end_row, NULL),
        LAKE_OK);
}

static void check_read(struct lance_read_ahead *ahead, size_t file, uint64_t offset, size_t size)
{
    uint8_t *out = base_alloc(size);
    assert_int_equal(lance_read_ahead_read(ahead, &files[file], offset, size, out, NULL), LAKE_OK);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(out[i], counting_byte_at(offset + i));
    base_free(out);
}

static void neighbours_are_one_request(void **state)
{
    struct lance_read_ahead *ahead = set_up_ahead();
    (void)state;
    for (uint64_t i = 20; i-- > 0;) /* with gaps that are not worth a request */
        want(ahead, 0, i * 20 * KIB, 19 * KIB, 10);
    want(ahead, 1, 0, 100, 10);
    assert_int_equal(lance_read_ahead_send(ahead, NULL), LAKE_OK);
    assert_int_equal(seen.fetches, 2);
    assert_int_equal(seen.fetched_bytes, 19 * 20 * KIB + 19 * KIB + 100);
    check_read(ahead, 0, 5, 19 * 20 * KIB);
    check_read(ahead, 1, 99, 1);
    assert_int_equal(seen.reads, 0);
    lance_read_ahead_free(ahead);
    assert_int_equal(seen.cancelled, 0);
    assert_int_equal(atomic_load(&budget.held_bytes), 0);
}

static void what_lies_far_apart_or_is_large_is_several(void **state)
{
    struct lance_read_ahead *ahead = set_up_ahead();
    (void)state;
    want(ahead, 0, 0, 100 * KIB, 1);
    want(ahead, 0, 320 * KIB, 100 * KIB, 1); /* more between them than they have */
    want(ahead, 0, 3 * MIB, 2 * MIB, 1);
    want(ahead, 0, 5 * MIB + 600 * KIB, MIB, 1); /* MAX_GAP_BYTES lie between */
    want(ahead, 0, 8 * MIB, 3 * MIB, 1);         /* together more than one request has */
    want(ahead, 0, 11 * MIB, 3 * MIB, 1);
    assert_int_equal(lance_read_ahead_send(ahead, NULL), LAKE_OK);
    assert_int_equal(seen.fetches, 6);
    assert_int_equal(seen.fetched_bytes, 200 * KIB + 9 * MIB);
    assert_true(seen.longest_bytes <= 4 * MIB);
    lance_read_ahead_free(ahead); /* before any has come */
    assert_int_equal(seen.cancelled, 6);
}

static void what_is_here_is_not_asked_for_again(void **state)
{
    struct lance_read_ahead *ahead = set_up_ahead();
    (void)state;
    want(ahead, 0, 1000, 1000, 10);
    assert_int_equal(lance_read_ahead_send(ahead, NULL), LAKE_OK);
    want(ahead, 0, 500, 2000, 20); /* around it */
    assert_int_equal(lance_read_ahead_send(ahead, NULL), LAKE_OK);
    assert_int_equal(seen.fetched_bytes, 2000);
    lance_read_ahead_passed(ahead, 19);
    check_read(ahead, 0, 500, 2000);
    assert_int_equal(seen.reads, 0);
    assert_int_equal(lance_read_ahead_reach(ahead, &files[0], 600, 700, 9000), 2500);
    assert_int_equal(lance_read_ahead_reach(ahead, &files[0], 400, 700, 9000), 9000);
    lance_read_ahead_passed(ahead, 20);
    check_read(ahead, 0, 500, 2000);
    assert_int_equal(seen.read_bytes, 2000);
    lance_read_ahead_free(ahead);
}

static void a_fetch_that_fails_is_read_again(void **state)
{
    struct lance_read_ahead *ahead = set_up_ahead();
    (void)state;
    seen.fail_fetch = 2;
    want(ahead, 0, 0, 1000, 10);
    want(ahead, 0, 20 * MIB, 1000, 10);
    want(ahead, 0, 40 * MIB, 1000, 10);
    assert_int_equal(lance_read_ahead_send(ahead, NULL), LAKE_OK);
    check_read(ahead, 0, 0, 1000);
    check_read(ahead, 0, 20 * MIB, 1000);
    check_read(ahead, 0, 40 * MIB, 1000);
    assert_int_equal(seen.read_bytes, 1000);
    lance_read_ahead_free(ahead);
    assert_int_equal(atomic_load(&budget.held_bytes), 0);
}

static void no_more_is_allowed_ahead_than_was_read_and_fits(void **state)
{
    struct lance_read_ahead *ahead = set_up_ahead();
    (void)state;
    uint64_t first = lance_read_ahead_allowed(ahead);
    assert_true(first > 0 && first < 8 * MIB);
    want(ahead, 0, 0, 3 * MIB, 10);
    assert_int_equal(lance_read_ahead_send(ahead, NULL), LAKE_OK);
    assert_int_equal(lance_read_ahead_allowed(ahead), first - 3 * MIB);
    check_read(ahead, 0, 0, 3 * MIB);
    assert_int_equal(lance_read_ahead_allowed(ahead), first);
    lance_read_ahead_passed(ahead, 10);
    assert_int_equal(lance_read_ahead_allowed(ahead), first + 3 * MIB);
    atomic_store(&budget.taken_bytes, 1 << 30);
    assert_int_equal(lance_read_ahead_allowed(ahead), LANCE_AHEAD_BYTES);
    atomic_store(&budget.held_bytes, 2 * LANCE_AHEAD_BYTES);
    assert_int_equal(lance_read_ahead_allowed(ahead), 0);
    lance_read_ahead_free(ahead);
}

static void any_order_of_wants_and_reads_gives_the_right_bytes(void **state)
{
    struct lance_read_ahead *ahead = set_up_ahead();
    uint64_t random = 5;
    (void)state;
    for (int i = 0; i < 3000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t place = (random >> 33) % (2 * MIB);
        size_t size = (size_t)(random >> 20) % 5000 + 1;
        size_t file = (random >> 50) % 2;
        if (i % 3 == 0)
            want(ahead, file, place, size * 5, (uint64_t)i + 100);
        else if (i % 7 == 1)
            assert_int_equal(lance_read_ahead_send(ahead, NULL), LAKE_OK);
        else if (i % 11 == 1)
            lance_read_ahead_passed(ahead, (uint64_t)i);
        else
            check_read(ahead, file, place, size);
        seen.fail_fetch = seen.fetches + (unsigned)(random >> 60);
    }
    lance_read_ahead_free(ahead);
    assert_int_equal(atomic_load(&budget.held_bytes), 0);
    assert_true(seen.fetches > 100 && seen.reads > 100);
}

static void whichever_allocation_fails_it_is_an_error(void **state)
{
    bool failed = true;
    (void)state;
    for (unsigned nth = 1; failed; nth++) {
        struct lance_read_ahead *ahead = NULL;
        atomic_store(&budget.held_bytes, 0);
        base_fault_fail_nth_alloc(nth);
        lake_status status = lance_read_ahead_new(&budget, &ahead, NULL);
        for (uint64_t i = 0; status == LAKE_OK && i < 40; i++)
            status = lance_read_ahead_want(ahead, &files[0], i * MIB, i * MIB + 10, 5, NULL);
        if (status == LAKE_OK)
            status = lance_read_ahead_send(ahead, NULL);
        base_fault_fail_nth_alloc(0);
        failed = status != LAKE_OK;
        assert_true(status == LAKE_OK || status == LAKE_RESOURCE_EXHAUSTED);
        lance_read_ahead_free(ahead);
        assert_int_equal(atomic_load(&budget.held_bytes), 0);
        assert_true(nth < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_are_one_request),
        cmocka_unit_test(what_lies_far_apart_or_is_large_is_several),
        cmocka_unit_test(what_is_here_is_not_asked_for_again),
        cmocka_unit_test(a_fetch_that_fails_is_read_again),
        cmocka_unit_test(no_more_is_allowed_ahead_than_was_read_and_fits),
        cmocka_unit_test(any_order_of_wants_and_reads_gives_the_right_bytes),
        cmocka_unit_test(whichever_allocation_fails_it_is_an_error),
    };
    if (counting_store_new(&store, NULL) != LAKE_OK)
        return 1;
    for (size_t i = 0; i < BASE_ARRAY_LEN(files); i++)
        files[i] =
            (struct lance_file){.store = store, .key = LAKE_STR("file"), .size_bytes = FILE_SIZE};
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    storage_store_unref(store);
    return result;
}
