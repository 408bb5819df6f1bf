/*
 * The worker pool: a ring of tasks, a fixed number of threads. A task goes to the worker that was
 * busy last, whose stack, caches and allocator's memory are warm: of many workers a light load
 * wakes few.
 */
#include "base.h"

#include <signal.h>

#define MAX_THREADS     1024
#define MAX_QUEUE_LIMIT (1u << 20)

struct task {
    base_pool_task run;
    void *context;
};

struct worker { /* on its thread's stack */
    pthread_cond_t wake;
    bool called; /* off the list of the idle: there is a task, or the pool is ending */
    struct worker *next_idle;
};

struct base_pool {
    pthread_mutex_t lock; /* guards everything below but `threads`, and every worker */
    struct worker *idle;  /* the last to become so first */
    struct task *queue;   /* ring of queue_limit */
    uint32_t queue_limit;
    uint32_t first;
    uint32_t queued;
    bool ending;
    uint32_t thread_count;
    pthread_t threads[];
};

/* All with the lock held. */
static void wait_idle(struct base_pool *pool, struct worker *self)
{
    self->called = false;
    self->next_idle = pool->idle;
    pool->idle = self;
    while (!self->called)
        (void)pthread_cond_wait(&self->wake, &pool->lock);
}

static void call_idle(struct base_pool *pool)
{
    struct worker *worker = pool->idle;
    if (worker == NULL)
        return;
    pool->idle = worker->next_idle;
    worker->called = true;
    (void)pthread_cond_signal(&worker->wake);
}

static void *work(void *argument)
{
    struct base_pool *pool = argument;
    struct worker self = {.called = false};
    (void)pthread_cond_init(&self.wake, NULL);
    (void)pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->queued == 0 && !pool->ending)
            wait_idle(pool, &self);
        if (pool->queued == 0)
            break;
        struct task task = pool->queue[pool->first];
        pool->first = (pool->first + 1) % pool->queue_limit;
        pool->queued--;
        (void)pthread_mutex_unlock(&pool->lock);
        task.run(task.context);
        (void)pthread_mutex_lock(&pool->lock);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    (void)pthread_cond_destroy(&self.wake);
    return NULL;
}

/* Workers take no signals: those are for the thread that handles the process's end. */
static lake_status start_threads(struct base_pool *pool, uint32_t thread_count,
                                 struct lake_error *err)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    int problem = 0;
    while (problem == 0 && pool->thread_count < thread_count) {
        problem = pthread_create(&pool->threads[pool->thread_count], NULL, work, pool);
        if (problem == 0)
            pool->thread_count++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (problem != 0)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "only %u of %u worker threads could be started: errno %d",
                         pool->thread_count, thread_count, problem);
    return LAKE_OK;
}

lake_status base_pool_new(uint32_t thread_count, uint32_t queue_limit, struct base_pool **out,
                          struct lake_error *err)
{
    if (thread_count == 0 || thread_count > MAX_THREADS)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a pool has 1 to %d threads, %u were asked for", MAX_THREADS,
                         thread_count);
    if (queue_limit == 0 || queue_limit > MAX_QUEUE_LIMIT)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a pool queues 1 to %u tasks, %u were asked for", MAX_QUEUE_LIMIT,
                         queue_limit);
    size_t pool_bytes = sizeof(struct base_pool) + thread_count * sizeof(pthread_t);
    struct base_pool *pool = base_calloc_array(1, pool_bytes);
    if (pool == NULL)
        return base_fail_no_memory(err, pool_bytes);
    (void)pthread_mutex_init(&pool->lock, NULL);
    pool->queue_limit = queue_limit;
    pool->queue = base_alloc_array(queue_limit, sizeof(*pool->queue));
    lake_status status = pool->queue == NULL
                             ? base_fail_no_memory(err, queue_limit * sizeof(*pool->queue))
                             : start_threads(pool, thread_count, err);
    if (status != LAKE_OK) {
        base_pool_free(pool);
        return status;
    }
    *out = pool;
    return LAKE_OK;
}

lake_status base_pool_submit(struct base_pool *pool, base_pool_task task, void *context,
                             struct lake_error *err)
{
    lake_status status = LAKE_OK;
    (void)pthread_mutex_lock(&pool->lock);
    if (pool->queued == pool->queue_limit) {
        status = LAKE_RESOURCE_EXHAUSTED;
    } else {
        uint32_t slot = (pool->first + pool->queued) % pool->queue_limit;
        pool->queue[slot] = (struct task){task, context};
        pool->queued++;
        call_idle(pool);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    if (status != LAKE_OK)
        return lake_fail(err, status,
                         "the worker pool's queue of %u tasks is full: try again later",
                         pool->queue_limit);
    return LAKE_OK;
}

void base_pool_free(struct base_pool *pool)
{
    if (pool == NULL)
        return;
    (void)pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    while (pool->idle != NULL)
        call_idle(pool);
    (void)pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->thread_count; i++)
        (void)pthread_join(pool->threads[i], NULL);
    (void)pthread_mutex_destroy(&pool->lock);
    base_free(pool->queue);
    base_free(pool);
}
