/* Execution time (ADM-1, ADM-3): calls a function when a statement has run for a while. */
#ifndef QUERY_WATCHDOG_H
#define QUERY_WATCHDOG_H

#include <base/base.h>

struct query_watchdog;

/* Runs on the watchdog's thread and must not block. `times` is how often it has run for this watch;
 * it returns in how many milliseconds it runs again. */
typedef int64_t (*query_watch_function)(void *context, uint32_t times);

struct query_watch { /* owned by the watched thread, on its stack */
    struct query_watch *previous, *next;
    int64_t due_us; /* monotonic */
    query_watch_function look;
    void *context;
    uint32_t times; /* that it has been looked at */
};

lake_status query_watchdog_new(struct query_watchdog **out, struct lake_error *err);
void query_watchdog_free(struct query_watchdog *watchdog); /* when nothing is watched */
/* `look` runs first in `first_ms`, and then whenever it says, until the watch is removed. */
void query_watchdog_add(struct query_watchdog *watchdog, struct query_watch *watch,
                        int64_t first_ms, query_watch_function look, void *context);
/* How often `look` has run; from here on it does not. */
uint32_t query_watchdog_remove(struct query_watchdog *watchdog, struct query_watch *watch);

#endif
