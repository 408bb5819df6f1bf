/* What runs, by ticket (F10). */
#include "running.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct lake_bytes bytes_of(const char *text)
{
    struct lake_str str = base_str_of(text);
    return (struct lake_bytes){(const uint8_t *)str.data, str.size};
}

static void count_call(void *context)
{
    ++*(int *)context;
}

static size_t cancelled(struct query_running *running, const char *ticket)
{
    struct lake_error err = {0};
    size_t count = SIZE_MAX;
    assert_int_equal(query_running_cancel(running, bytes_of(ticket), &count, &err), LAKE_OK);
    return count;
}

static void cancels_every_run_of_the_ticket_and_no_other(void **state)
{
    (void)state;
    static const char *const TICKETS[] = {"one", "two", "one", "three"};
    struct query_running *running = NULL;
    struct query_run runs[BASE_ARRAY_LEN(TICKETS)];
    int calls[BASE_ARRAY_LEN(TICKETS)] = {0};
    struct lake_error err = {0};
    assert_int_equal(query_running_new(&running, &err), LAKE_OK);
    for (size_t i = 0; i < BASE_ARRAY_LEN(TICKETS); i++)
        assert_int_equal(
            query_running_add(running, &runs[i], bytes_of(TICKETS[i]), count_call, &calls[i], &err),
            LAKE_OK);
    assert_int_equal(cancelled(running, "four"), 0);
    assert_int_equal(cancelled(running, "one"), 2);
    assert_int_equal(calls[0] + calls[2], 2);
    assert_int_equal(calls[1] + calls[3], 0);

    /* from the middle, the front and the end of the list */
    query_running_remove(running, &runs[2]);
    assert_int_equal(cancelled(running, "one"), 1);
    query_running_remove(running, &runs[3]);
    assert_int_equal(cancelled(running, "three"), 0);
    query_running_remove(running, &runs[0]);
    assert_int_equal(cancelled(running, "one"), 0);
    assert_int_equal(cancelled(running, "two"), 1);
    query_running_remove(running, &runs[1]);
    assert_int_equal(cancelled(running, "two"), 0);
    assert_int_equal(calls[0], 2);
    query_running_free(running);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancels_every_run_of_the_ticket_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
