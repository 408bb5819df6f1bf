#include "admission.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define TENANT_BUCKETS 1024

enum waiter_state {
    WAITING_FOR_TENANT,
    WAITING_FOR_PLACE,
    ADMITTED
};

/* Lives on the waiting thread's stack while it is queued. */
struct waiter {
    struct waiter *next;
    struct tenant *tenant;
    enum waiter_state state;
    pthread_cond_t admitted;
};

struct queue {
    struct waiter *head;
    struct waiter **tail;
};

struct tenant {
    struct tenant *next; /* in its bucket */
    char *id;
    uint32_t holding; /* shares taken: running or waiting for a place */
    uint32_t users;   /* threads that refer to it; 0: it is removed */
    struct queue waiting;
};

struct query_admission {
    struct query_admission_limits limits;
    pthread_mutex_t lock; /* guards everything below, and every tenant and waiter */
    uint32_t running;
    uint32_t tenant_count;
    struct queue waiting;
    struct tenant *buckets[TENANT_BUCKETS];
};

struct query_permit {
    struct query_admission *admission;
    struct tenant *tenant;
};

static void queue_init(struct queue *queue)
{
    queue->head = NULL;
    queue->tail = &queue->head;
}

static void queue_push(struct queue *queue, struct waiter *waiter)
{
    waiter->next = NULL;
    *queue->tail = waiter;
    queue->tail = &waiter->next;
}

static struct waiter *queue_pop(struct queue *queue)
{
    struct waiter *waiter = queue->head;
    queue->head = waiter->next;
    if (queue->head == NULL)
        queue->tail = &queue->head;
    return waiter;
}

static void queue_remove(struct queue *queue, struct waiter *waiter)
{
    struct waiter **link = &queue->head;
    while (*link != waiter)
        link = &(*link)->next;
    *link = waiter->next;
    if (*link == NULL)
        queue->tail = link;
}

lake_status query_admission_new(const struct query_admission_limits *limits,
                                struct query_admission **out, struct lake_error *err)
{
    struct query_admission *admission = base_calloc_array(1, sizeof(*admission));
    if (admission == NULL)
        return base_fail_no_memory(err, sizeof(*admission));
    admission->limits = *limits;
    pthread_mutex_init(&admission->lock, NULL);
    queue_init(&admission->waiting);
    *out = admission;
    return LAKE_OK;
}

void query_admission_free(struct query_admission *admission)
{
    if (admission == NULL)
        return;
    pthread_mutex_destroy(&admission->lock);
    base_free(admission);
}

static struct tenant **tenant_link(struct query_admission *admission, const char *id)
{
    uint32_t hash = 2166136261u; /* FNV-1a; collisions only lengthen a chain of at most 4,096 */
    for (const char *p = id; *p != '\0'; p++)
        hash = (hash ^ (uint8_t)*p) * 16777619u;
    struct tenant **link = &admission->buckets[hash % TENANT_BUCKETS];
    while (*link != NULL && strcmp((*link)->id, id) != 0)
        link = &(*link)->next;
    return link;
}

/* Finds or starts to track the tenant and counts one user of it. */
static lake_status tenant_enter(struct query_admission *admission, const char *id,
                                struct tenant **out, struct lake_error *err)
{
    struct tenant **link = tenant_link(admission, id);
    if (*link == NULL) {
        if (admission->tenant_count >= admission->limits.max_tracked_tenants)
            return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                             "the server already tracks %u tenants, its limit "
                             "(LAKE_QUERY_MAX_TRACKED_TENANTS): try again later",
                             admission->limits.max_tracked_tenants);
        struct tenant *tenant = base_calloc_array(1, sizeof(*tenant));
        char *copy = base_strdup(id);
        if (tenant == NULL || copy == NULL) {
            base_free(tenant);
            base_free(copy);
            return base_fail_no_memory(err, sizeof(*tenant));
        }
        tenant->id = copy;
        queue_init(&tenant->waiting);
        *link = tenant;
        admission->tenant_count++;
    }
    (*link)->users++;
    *out = *link;
    return LAKE_OK;
}

/* The last user of an idle gate removes it (ADM-5). */
static void tenant_leave(struct query_admission *admission, struct tenant *tenant)
{
    if (--tenant->users > 0)
        return;
    struct tenant **link = tenant_link(admission, tenant->id);
    *link = tenant->next;
    admission->tenant_count--;
    base_free(tenant->id);
    base_free(tenant);
}

static void admit(struct query_admission *admission, struct waiter *waiter)
{
    admission->running++;
    waiter->state = ADMITTED;
    pthread_cond_signal(&waiter->admitted);
}

static void fill_places(struct query_admission *admission)
{
    while (admission->running < admission->limits.max_concurrent && admission->waiting.head != NULL)
        admit(admission, queue_pop(&admission->waiting));
}

/* Hands free shares of the tenant to its waiters, which then join the FIFO. */
static void fill_shares(struct query_admission *admission, struct tenant *tenant)
{
    while (tenant->holding < admission->limits.max_concurrent_per_tenant &&
           tenant->waiting.head != NULL) {
        struct waiter *waiter = queue_pop(&tenant->waiting);
        tenant->holding++;
        waiter->state = WAITING_FOR_PLACE;
        queue_push(&admission->waiting, waiter);
    }
    fill_places(admission);
}

static void give_up(struct query_admission *admission, struct waiter *waiter)
{
    if (waiter->state == WAITING_FOR_TENANT) {
        queue_remove(&waiter->tenant->waiting, waiter);
        return;
    }
    queue_remove(&admission->waiting, waiter);
    waiter->tenant->holding--;
    fill_shares(admission, waiter->tenant);
}

static void deadline_in_ms(uint32_t ms, struct timespec *out)
{
    clock_gettime(CLOCK_MONOTONIC, out);
    out->tv_sec += ms / 1000;
    out->tv_nsec += (long)(ms % 1000) * 1000000;
    if (out->tv_nsec >= 1000000000) {
        out->tv_sec++;
        out->tv_nsec -= 1000000000;
    }
}

static lake_status wait_for_admission(struct query_admission *admission, struct tenant *tenant,
                                      struct lake_error *err)
{
    struct waiter waiter = {.tenant = tenant, .state = WAITING_FOR_TENANT};
    struct timespec deadline;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&waiter.admitted, &monotonic);
    pthread_condattr_destroy(&monotonic);
    deadline_in_ms(admission->limits.queue_timeout_ms, &deadline);

    queue_push(&tenant->waiting, &waiter);
    fill_shares(admission, tenant);
    int waited = 0;
    while (waiter.state != ADMITTED && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&waiter.admitted, &admission->lock, &deadline);
    pthread_cond_destroy(&waiter.admitted);
    if (waiter.state == ADMITTED)
        return LAKE_OK;
    bool own_share = waiter.state == WAITING_FOR_TENANT;
    give_up(admission, &waiter);
    if (own_share)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "all %u statements that one tenant may run at once are running "
                         "(LAKE_QUERY_MAX_CONCURRENT_PER_TENANT): try again later",
                         admission->limits.max_concurrent_per_tenant);
    return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                     "all %u statements that this server may run at once are running "
                     "(LAKE_QUERY_MAX_CONCURRENT): try again later",
                     admission->limits.max_concurrent);
}

lake_status query_admission_acquire(struct query_admission *admission, const char *tenant_id,
                                    struct query_permit **out, struct lake_error *err)
{
    struct query_permit *permit = base_calloc_array(1, sizeof(*permit));
    if (permit == NULL)
        return base_fail_no_memory(err, sizeof(*permit));
    permit->admission = admission;
    pthread_mutex_lock(&admission->lock);
    lake_status status = tenant_enter(admission, tenant_id, &permit->tenant, err);
    if (status == LAKE_OK) {
        status = wait_for_admission(admission, permit->tenant, err);
        if (status != LAKE_OK)
            tenant_leave(admission, permit->tenant);
    }
    pthread_mutex_unlock(&admission->lock);
    if (status != LAKE_OK) {
        base_free(permit);
        return status;
    }
    *out = permit;
    return LAKE_OK;
}

void query_permit_release(struct query_permit *permit)
{
    if (permit == NULL)
        return;
    struct query_admission *admission = permit->admission;
    pthread_mutex_lock(&admission->lock);
    admission->running--;
    permit->tenant->holding--;
    fill_shares(admission, permit->tenant);
    tenant_leave(admission, permit->tenant);
    pthread_mutex_unlock(&admission->lock);
    base_free(permit);
}

uint32_t query_admission_running(struct query_admission *admission)
{
    pthread_mutex_lock(&admission->lock);
    uint32_t running = admission->running;
    pthread_mutex_unlock(&admission->lock);
    return running;
}

uint32_t query_admission_tracked(struct query_admission *admission)
{
    pthread_mutex_lock(&admission->lock);
    uint32_t tracked = admission->tenant_count;
    pthread_mutex_unlock(&admission->lock);
    return tracked;
}
