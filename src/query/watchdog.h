/* Execution time (ADM-1, ADM-3): calls a function when a statement has run for too long. */
#ifndef QUERY_WATCHDOG_H
#define QUERY_WATCHDOG_H

#include <base/base.h>

struct query_watchdog;

struct query_watch { /* owned by the watched thread, on its stack */
    struct query_watch *previous, *next;
    int64_t expires_us; /* monotonic */
    void (*expire)(void *context, uint32_t times);
    void *context;
    uint32_t times; /* that it has expired */
};

lake_status query_watchdog_new(struct query_watchdog **out, struct lake_error *err);
void query_watchdog_free(struct query_watchdog *watchdog); /* when nothing is watched */
/* `expire` runs on the watchdog's thread when the time is up (times 0), and again each second after
 * that until the watch is removed, so that it can become harsher. It must not block. */
void query_watchdog_add(struct query_watchdog *watchdog, struct query_watch *watch,
                        int64_t timeout_ms, void (*expire)(void *context, uint32_t times),
                        void *context);
/* True when it had expired. After it `expire` no longer runs. */
bool query_watchdog_remove(struct query_watchdog *watchdog, struct query_watch *watch);

#endif
