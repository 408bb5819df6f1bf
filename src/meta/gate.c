/* One writer a table, without a lock held across its I/O: claims stand in line, by key. */
#include "meta_internal.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* A waiter looks this often whether its caller is still there. */
#define LOOK_AGAIN_MS 50

lake_status meta_gates_init(struct meta_gates *gates, struct lake_error *err)
{
    gates->first = NULL;
    int rc = pthread_mutex_init(&gates->lock, NULL);
    return rc == 0 ? LAKE_OK : base_fail_errno(err, rc, "a mutex could not be made");
}

void meta_gates_fini(struct meta_gates *gates)
{
    pthread_mutex_destroy(&gates->lock);
}

/* The claim that holds `key`: the first of its key in the line. */
static struct meta_claim *holder_of(const struct meta_gates *gates, const char *key)
{
    struct meta_claim *claim = gates->first;
    while (claim != NULL && strcmp(claim->key, key) != 0)
        claim = claim->next;
    return claim;
}

static void take_out(struct meta_gates *gates, struct meta_claim *claim)
{
    struct meta_claim **link = &gates->first;
    while (*link != claim)
        link = &(*link)->next;
    *link = claim->next;
    struct meta_claim *next = holder_of(gates, claim->key);
    if (next != NULL)
        pthread_cond_signal(&next->turn);
}

static struct timespec soon(void)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += (long)LOOK_AGAIN_MS * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

lake_status meta_gate_enter(struct meta_gates *gates, struct meta_claim *claim, const char *key,
                            const struct meta_wait *wait, struct lake_error *err)
{
    size_t size = strlen(key);
    if (size >= sizeof(claim->key))
        return lake_fail(err, LAKE_INTERNAL, "the key of a gate has %zu bytes", size);
    memcpy(claim->key, key, size + 1);
    claim->next = NULL;
    int rc = pthread_cond_init(&claim->turn, NULL);
    if (rc != 0)
        return base_fail_errno(err, rc, "a condition variable could not be made");

    int64_t start_us = base_clock_monotonic_us();
    lake_status status = LAKE_OK;
    pthread_mutex_lock(&gates->lock);
    struct meta_claim **link = &gates->first;
    while (*link != NULL)
        link = &(*link)->next;
    *link = claim;
    while (holder_of(gates, key) != claim) {
        struct timespec until = soon();
        pthread_cond_timedwait(&claim->turn, &gates->lock, &until);
        if (holder_of(gates, key) == claim)
            break;
        int64_t waited_ms = (base_clock_monotonic_us() - start_us) / 1000;
        bool gone = wait->cancelled != NULL && wait->cancelled(wait->context);
        if (gone || waited_ms >= wait->timeout_ms) {
            take_out(gates, claim);
            status = gone ? lake_fail(err, LAKE_CANCELLED, "the caller went away while it waited")
                          : lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                                      "others are at work on the same thing; waited %lld ms, try "
                                      "again",
                                      (long long)waited_ms);
            break;
        }
    }
    pthread_mutex_unlock(&gates->lock);
    if (status != LAKE_OK)
        pthread_cond_destroy(&claim->turn);
    return status;
}

void meta_gate_leave(struct meta_gates *gates, struct meta_claim *claim)
{
    pthread_mutex_lock(&gates->lock);
    take_out(gates, claim);
    pthread_mutex_unlock(&gates->lock);
    pthread_cond_destroy(&claim->turn);
}

bool meta_gate_is_awaited(struct meta_gates *gates, const struct meta_claim *claim)
{
    bool awaited = false;
    pthread_mutex_lock(&gates->lock);
    for (const struct meta_claim *next = claim->next; next != NULL && !awaited; next = next->next)
        awaited = strcmp(next->key, claim->key) == 0;
    pthread_mutex_unlock(&gates->lock);
    return awaited;
}
