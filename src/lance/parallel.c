#include "parallel.h"

#include <unistd.h>

#define QUEUE_LIMIT 256

static pthread_once_t pool_once = PTHREAD_ONCE_INIT;
static struct base_pool *pool; /* NULL: everything is done by the callers */

struct group {            /* of one call; a helper that comes too late still holds a reference */
    pthread_mutex_t lock; /* guards all below but `next` */
    pthread_cond_t idle;
    size_t references;
    size_t running;
    size_t workers; /* numbers given out */
    bool ended;
    lake_status status;
    struct lake_error error;
    size_t next; /* atomic */
    size_t count;
    lance_parallel_item item;
    void *context;
};

static void make_pool(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct lake_error ignored = {0};
    if (processors > 1)
        (void)base_pool_new((uint32_t)BASE_MIN(processors - 1, 64), QUEUE_LIMIT, &pool, &ignored);
}

static void unref(struct group *group)
{
    (void)pthread_mutex_lock(&group->lock);
    bool last = --group->references == 0;
    (void)pthread_mutex_unlock(&group->lock);
    if (!last)
        return;
    (void)pthread_cond_destroy(&group->idle);
    (void)pthread_mutex_destroy(&group->lock);
    base_free(group);
}

static void fail(struct group *group, lake_status status, const struct lake_error *error)
{
    (void)pthread_mutex_lock(&group->lock);
    if (group->status == LAKE_OK) {
        group->status = status;
        group->error = *error;
    }
    (void)pthread_mutex_unlock(&group->lock);
    __atomic_store_n(&group->next, group->count, __ATOMIC_RELAXED);
}

static void work(struct group *group, size_t worker)
{
    for (;;) {
        struct lake_error error = {0};
        size_t index = __atomic_fetch_add(&group->next, 1, __ATOMIC_RELAXED);
        if (index >= group->count)
            return;
        lake_status status = group->item(group->context, index, worker, &error);
        if (status != LAKE_OK)
            fail(group, status, &error);
    }
}

static void help(void *context)
{
    struct group *group = context;
    (void)pthread_mutex_lock(&group->lock);
    bool late = group->ended;
    size_t worker = group->workers;
    group->workers += !late;
    group->running += !late;
    (void)pthread_mutex_unlock(&group->lock);
    if (!late) {
        work(group, worker);
        (void)pthread_mutex_lock(&group->lock);
        if (--group->running == 0)
            (void)pthread_cond_signal(&group->idle);
        (void)pthread_mutex_unlock(&group->lock);
    }
    unref(group);
}

static lake_status alone(size_t count, lance_parallel_item item, void *context,
                         struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t i = 0; status == LAKE_OK && i < count; i++)
        status = item(context, i, 0, err);
    return status;
}

static void call_helpers(struct group *group, size_t helpers)
{
    struct lake_error ignored = {0};
    for (size_t i = 0; i < helpers; i++) {
        (void)pthread_mutex_lock(&group->lock);
        group->references++;
        (void)pthread_mutex_unlock(&group->lock);
        if (base_pool_submit(pool, help, group, &ignored) != LAKE_OK)
            unref(group);
    }
}

lake_status lance_parallel(size_t count, size_t workers, lance_parallel_item item, void *context,
                           struct lake_error *err)
{
    (void)pthread_once(&pool_once, make_pool);
    workers = BASE_MIN(BASE_MIN(workers, count), (size_t)LANCE_MAX_WORKERS);
    if (workers < 2 || pool == NULL)
        return alone(count, item, context, err);
    struct group *group = base_calloc_array(1, sizeof(*group));
    if (group == NULL)
        return base_fail_no_memory(err, sizeof(*group));
    (void)pthread_mutex_init(&group->lock, NULL);
    (void)pthread_cond_init(&group->idle, NULL);
    group->references = 1;
    group->workers = 1; /* the caller is number 0 */
    group->count = count;
    group->item = item;
    group->context = context;
    call_helpers(group, workers - 1);
    work(group, 0);
    (void)pthread_mutex_lock(&group->lock);
    group->ended = true;
    while (group->running > 0)
        (void)pthread_cond_wait(&group->idle, &group->lock);
    lake_status status = group->status;
    if (status != LAKE_OK && err != NULL)
        *err = group->error;
    (void)pthread_mutex_unlock(&group->lock);
    unref(group);
    return status;
}
