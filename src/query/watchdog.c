#include "watchdog.h"

#include <time.h>

struct query_watchdog {
    pthread_mutex_t lock; /* guards everything below, and every watch; held while `look` runs */
    pthread_cond_t changed;
    pthread_t thread;
    struct query_watch list; /* circular, in no order: there are at most as many as permits */
    int64_t awake_us;        /* when the thread looks again by itself */
    bool stopping;
};

static void look_at_due(struct query_watchdog *watchdog, int64_t now_us, int64_t *next_us)
{
    struct query_watch *head = &watchdog->list;
    *next_us = INT64_MAX;
    for (struct query_watch *watch = head->next; watch != head; watch = watch->next) {
        if (watch->due_us <= now_us)
            watch->due_us = now_us + watch->look(watch->context, watch->times++) * 1000;
        *next_us = BASE_MIN(*next_us, watch->due_us);
    }
}

static void *watch_loop(void *context)
{
    struct query_watchdog *watchdog = context;
    pthread_mutex_lock(&watchdog->lock);
    while (!watchdog->stopping) {
        look_at_due(watchdog, base_clock_monotonic_us(), &watchdog->awake_us);
        if (watchdog->awake_us == INT64_MAX) {
            pthread_cond_wait(&watchdog->changed, &watchdog->lock);
            continue;
        }
        struct timespec until = {.tv_sec = watchdog->awake_us / 1000000,
                                 .tv_nsec = (watchdog->awake_us % 1000000) * 1000};
        pthread_cond_timedwait(&watchdog->changed, &watchdog->lock, &until);
    }
    pthread_mutex_unlock(&watchdog->lock);
    return NULL;
}

lake_status query_watchdog_new(struct query_watchdog **out, struct lake_error *err)
{
    struct query_watchdog *watchdog = base_calloc_array(1, sizeof(*watchdog));
    if (watchdog == NULL)
        return base_fail_no_memory(err, sizeof(*watchdog));
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&watchdog->lock, NULL);
    watchdog->list.next = watchdog->list.previous = &watchdog->list;
    watchdog->awake_us = INT64_MAX;
    int failed = pthread_create(&watchdog->thread, NULL, watch_loop, watchdog);
    if (failed != 0) {
        pthread_cond_destroy(&watchdog->changed);
        pthread_mutex_destroy(&watchdog->lock);
        base_free(watchdog);
        return base_fail_errno(err, failed, "cannot start the watchdog's thread");
    }
    *out = watchdog;
    return LAKE_OK;
}

void query_watchdog_free(struct query_watchdog *watchdog)
{
    if (watchdog == NULL)
        return;
    pthread_mutex_lock(&watchdog->lock);
    watchdog->stopping = true;
    pthread_cond_signal(&watchdog->changed);
    pthread_mutex_unlock(&watchdog->lock);
    pthread_join(watchdog->thread, NULL);
    pthread_cond_destroy(&watchdog->changed);
    pthread_mutex_destroy(&watchdog->lock);
    base_free(watchdog);
}

void query_watchdog_add(struct query_watchdog *watchdog, struct query_watch *watch,
                        int64_t first_ms, query_watch_function look, void *context)
{
    *watch = (struct query_watch){
        .due_us = base_clock_monotonic_us() + first_ms * 1000,
        .look = look,
        .context = context,
    };
    pthread_mutex_lock(&watchdog->lock);
    watch->next = watchdog->list.next;
    watch->previous = &watchdog->list;
    watch->next->previous = watch;
    watchdog->list.next = watch;
    /* Most statements end before the first of their predecessors would have been looked at: the
     * thread sleeps on. */
    if (watch->due_us < watchdog->awake_us) {
        watchdog->awake_us = watch->due_us;
        pthread_cond_signal(&watchdog->changed);
    }
    pthread_mutex_unlock(&watchdog->lock);
}

uint32_t query_watchdog_remove(struct query_watchdog *watchdog, struct query_watch *watch)
{
    pthread_mutex_lock(&watchdog->lock);
    watch->previous->next = watch->next;
    watch->next->previous = watch->previous;
    uint32_t times = watch->times;
    pthread_mutex_unlock(&watchdog->lock);
    return times;
}
