/* Fault points: named steps for whole processes, and the Nth allocation or I/O for unit tests. */
#include "base.h"
#include "base_internal.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define MAX_POINTS     32
#define MAX_NAME_BYTES 64
#define MAX_STOP_MS    600000

enum action {
    ACTION_KILL,
    ACTION_ERROR,
    ACTION_PAUSE,
    ACTION_STOP
};

struct point {
    char name[MAX_NAME_BYTES];
    uint64_t nth; /* fires when `hits` reaches it, once */
    uint64_t hits;
    enum action action;
    int64_t stop_ms;
};

bool base_fault_armed = false;
static pthread_mutex_t points_lock = PTHREAD_MUTEX_INITIALIZER; /* guards points, point_count */
static struct point points[MAX_POINTS];
static size_t point_count;

/* Cuts `*rest` after the next `separator` (or at its end) and returns what came before it. */
static struct lake_str next_part(struct lake_str *rest, char separator)
{
    struct lake_str part = *rest;
    const char *end = rest->size == 0 ? NULL : memchr(rest->data, separator, rest->size);
    if (end == NULL) {
        *rest = (struct lake_str){NULL, 0};
        return part;
    }
    part.size = (size_t)(end - rest->data);
    *rest = (struct lake_str){end + 1, rest->size - part.size - 1};
    return part;
}

static bool parse_action(struct lake_str text, struct point *out)
{
    if (base_str_equal_c(text, "kill")) {
        out->action = ACTION_KILL;
        return true;
    }
    if (base_str_equal_c(text, "error")) {
        out->action = ACTION_ERROR;
        return true;
    }
    if (base_str_equal_c(text, "pause")) {
        out->action = ACTION_PAUSE;
        return true;
    }
    uint64_t ms;
    if (!base_str_has_prefix(text, "stop-") ||
        !base_str_to_u64((struct lake_str){text.data + 5, text.size - 5}, &ms) || ms > MAX_STOP_MS)
        return false;
    out->action = ACTION_STOP;
    out->stop_ms = (int64_t)ms;
    return true;
}

static bool parse_point(struct lake_str text, struct point *out)
{
    *out = (struct point){.nth = 0};
    struct lake_str name = next_part(&text, ':');
    struct lake_str nth = next_part(&text, ':');
    if (name.size == 0 || name.size >= MAX_NAME_BYTES || !base_str_to_u64(nth, &out->nth) ||
        out->nth == 0)
        return false;
    memcpy(out->name, name.data, name.size);
    return parse_action(text, out);
}

lake_status base_fault_configure(const char *spec, struct lake_error *err)
{
    struct point parsed[MAX_POINTS];
    size_t count = 0;
    struct lake_str rest = base_str_of(spec);
    while (rest.size > 0) {
        struct lake_str one = next_part(&rest, ',');
        if (count == MAX_POINTS)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "LAKE_FAULT names more than %d points",
                             MAX_POINTS);
        if (!parse_point(one, &parsed[count]))
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "LAKE_FAULT: \"%.*s\" is not name:nth:action with action kill, "
                             "error, pause or stop-<ms>",
                             LAKE_STR_FMT(one));
        count++;
    }
    (void)pthread_mutex_lock(&points_lock);
    memcpy(points, parsed, count * sizeof(*points));
    point_count = count;
    base_fault_armed = count > 0;
    (void)pthread_mutex_unlock(&points_lock);
    return LAKE_OK;
}

lake_status base_fault_hit(const char *name, struct lake_error *err)
{
    bool fail = false;
    int64_t stop_ms = 0;
    (void)pthread_mutex_lock(&points_lock);
    for (size_t i = 0; i < point_count; i++) {
        struct point *point = &points[i];
        if (strcmp(point->name, name) != 0 || ++point->hits != point->nth)
            continue;
        if (point->action == ACTION_KILL)
            (void)kill(getpid(), SIGKILL);
        if (point->action == ACTION_PAUSE)
            (void)raise(SIGSTOP);
        fail = fail || point->action == ACTION_ERROR;
        stop_ms = BASE_MAX(stop_ms, point->stop_ms);
    }
    (void)pthread_mutex_unlock(&points_lock);
    base_sleep_ms(stop_ms);
    if (fail)
        return lake_fail(err, LAKE_UNAVAILABLE, "fault point %s was told to fail", name);
    return LAKE_OK;
}

/* Counts events from the moment it is set and picks one of them. `nth` 0: not in use. */
struct countdown {
    atomic_uint_fast64_t nth;
    atomic_uint_fast64_t count;
};

static struct countdown allocations;
static struct countdown operations;

static void countdown_set(struct countdown *countdown, uint64_t nth)
{
    if (nth != 0)
        atomic_store(&countdown->count, 0);
    atomic_store(&countdown->nth, nth);
}

static bool countdown_fires(struct countdown *countdown)
{
    uint64_t nth = atomic_load_explicit(&countdown->nth, memory_order_relaxed);
    if (__builtin_expect(nth == 0, 1))
        return false;
    return atomic_fetch_add(&countdown->count, 1) + 1 == nth;
}

void base_fault_fail_nth_alloc(uint64_t nth)
{
    countdown_set(&allocations, nth);
}

uint64_t base_fault_alloc_count(void)
{
    return atomic_load(&allocations.count);
}

bool base_fault_alloc_fails(void)
{
    return countdown_fires(&allocations);
}

void base_fault_fail_nth_io(uint64_t nth)
{
    countdown_set(&operations, nth);
}

uint64_t base_fault_io_count(void)
{
    return atomic_load(&operations.count);
}

lake_status base_fault_io(const char *what, struct lake_error *err)
{
    if (countdown_fires(&operations))
        return lake_fail(err, LAKE_UNAVAILABLE, "I/O operation %s was told to fail", what);
    return BASE_FAULT(what, err);
}
