/* What the tests of the table layer share: a local store in a directory of its own. */
#ifndef TABLE_FIXTURE_H
#define TABLE_FIXTURE_H

#include "temp_directory.h"

#include "table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct temp_directory directory;
    struct storage_store *store;
    struct lake_error err;
};

/* Says what went wrong before it fails. */
#define OK(call)                                                                      \
    do {                                                                              \
        lake_status ok_status = (call);                                               \
        if (ok_status != LAKE_OK) {                                                   \
            print_error("%s: %s (%s)\n", lake_status_name(ok_status), f->err.message, \
                        f->err.cause);                                                \
        }                                                                             \
        assert_int_equal(ok_status, LAKE_OK);                                         \
    } while (0)

static inline int fixture_set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.directory = temp_directory_make()};
    if (storage_local_open(fixture.directory.path, true, &fixture.store, &fixture.err) != LAKE_OK) {
        return -1;
    }
    *state = &fixture;
    return 0;
}

static inline int fixture_tear_down(void **state)
{
    struct fixture *fixture = *state;
    storage_store_unref(fixture->store);
    temp_directory_remove(&fixture->directory);
    return 0;
}

/* xorshift: the same values on every machine. */
static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
