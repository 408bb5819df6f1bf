#include "plans.h"

#include <string.h>

#define SCHEMA_BYTES   ((size_t)8 * 1024 * 1024)
#define IDLE_PLANS     64
#define IDLE_US        (30 * INT64_C(1000000)) /* tables of old versions are not held for longer */
#define MAX_PLAN_BYTES 16384                   /* of the statement's text */

struct query_plans {
    pthread_mutex_t lock; /* guards everything below; never held while a plan is freed */
    struct query_plan *newest, *oldest;
    size_t count;
};

/* ---- one plan ------------------------------------------------------------------------------- */

static lake_status hash_str(struct base_sha256 *hash, struct lake_str s, struct lake_error *err)
{
    uint8_t size[8];
    base_store_u64le(size, s.size);
    lake_status status = base_sha256_update(hash, size, sizeof(size), err);
    return status == LAKE_OK ? base_sha256_update(hash, s.data, s.size, err) : status;
}

static lake_status hash_pin(struct base_sha256 *hash, const struct query_pin *pin,
                            struct lake_error *err)
{
    uint8_t numbers[16];
    base_store_u64le(numbers, pin->at_version);
    base_store_u64le(numbers + 8, pin->version);
    lake_status status = hash_str(hash, pin->schema, err);
    if (status == LAKE_OK)
        status = hash_str(hash, pin->table, err);
    if (status == LAKE_OK)
        status = hash_str(hash, pin->location, err);
    if (status == LAKE_OK)
        status = hash_str(hash, pin->incarnation, err);
    if (status == LAKE_OK)
        status = base_sha256_update(hash, numbers, sizeof(numbers), err);
    return status;
}

static lake_status make_key(struct lake_str sql, const struct query_pin *pins, size_t pin_count,
                            uint8_t out[BASE_SHA256_BYTES], struct lake_error *err)
{
    struct base_sha256 *hash = NULL;
    lake_status status = base_sha256_new(&hash, err);
    if (status == LAKE_OK)
        status = hash_str(hash, sql, err);
    for (size_t i = 0; i < pin_count && status == LAKE_OK; i++)
        status = hash_pin(hash, &pins[i], err);
    if (status == LAKE_OK)
        status = base_sha256_final(hash, out, err);
    base_sha256_free(hash);
    return status;
}

lake_status query_plan_new(struct sql_engine *engine, struct lake_str sql,
                           struct query_resolved *resolved, struct query_plan **out,
                           struct lake_error *err)
{
    struct query_plan *plan = base_calloc_array(1, sizeof(*plan));
    if (plan == NULL) {
        query_resolved_fini(resolved);
        return base_fail_no_memory(err, sizeof(*plan));
    }
    plan->resolved = *resolved;
    *resolved = (struct query_resolved){0};
    base_buffer_init(&plan->schema, SCHEMA_BYTES);
    query_result_init(&plan->result);
    lake_status status = sql_query_prepare(engine, sql, plan->resolved.tables, plan->resolved.count,
                                           NULL, &plan->query, err);
    if (status == LAKE_OK)
        status = arrow_ipc_schema_to_bytes(sql_query_schema(plan->query), &plan->schema, err);
    if (status == LAKE_OK)
        status = base_sha256_once(base_buffer_view(&plan->schema), plan->schema_sha256, err);
    if (status == LAKE_OK)
        status = make_key(sql, plan->resolved.pins, plan->resolved.count, plan->key, err);
    if (status != LAKE_OK) {
        query_plan_free(plan);
        return status;
    }
    plan->keep = sql.size <= MAX_PLAN_BYTES;
    *out = plan;
    return LAKE_OK;
}

void query_plan_free(struct query_plan *plan)
{
    if (plan == NULL)
        return;
    sql_query_free(plan->query);
    query_resolved_fini(&plan->resolved);
    base_buffer_fini(&plan->schema);
    query_result_fini(&plan->result);
    base_free(plan);
}

/* ---- those that are idle -------------------------------------------------------------------- */

lake_status query_plans_new(struct query_plans **out, struct lake_error *err)
{
    struct query_plans *plans = base_calloc_array(1, sizeof(*plans));
    if (plans == NULL)
        return base_fail_no_memory(err, sizeof(*plans));
    pthread_mutex_init(&plans->lock, NULL);
    *out = plans;
    return LAKE_OK;
}

static void free_list(struct query_plan *plan)
{
    while (plan != NULL) {
        struct query_plan *older = plan->older;
        query_plan_free(plan);
        plan = older;
    }
}

void query_plans_free(struct query_plans *plans)
{
    if (plans == NULL)
        return;
    free_list(plans->newest);
    pthread_mutex_destroy(&plans->lock);
    base_free(plans);
}

static void unlink_plan(struct query_plans *plans, struct query_plan *plan)
{
    *(plan->newer != NULL ? &plan->newer->older : &plans->newest) = plan->older;
    *(plan->older != NULL ? &plan->older->newer : &plans->oldest) = plan->newer;
    plan->newer = plan->older = NULL;
    plans->count--;
}

/* Takes off the list what is too much or too old. The lock is held; the caller frees it after. */
static struct query_plan *expire(struct query_plans *plans, int64_t now_us)
{
    struct query_plan *expired = NULL;
    while (plans->oldest != NULL &&
           (plans->count > IDLE_PLANS || now_us - plans->oldest->idle_since_us > IDLE_US)) {
        struct query_plan *plan = plans->oldest;
        unlink_plan(plans, plan);
        plan->older = expired;
        expired = plan;
    }
    return expired;
}

struct query_plan *query_plans_take(struct query_plans *plans, struct lake_str sql,
                                    const struct query_pin *pins, size_t pin_count)
{
    uint8_t key[BASE_SHA256_BYTES];
    if (sql.size > MAX_PLAN_BYTES || make_key(sql, pins, pin_count, key, NULL) != LAKE_OK)
        return NULL;
    pthread_mutex_lock(&plans->lock);
    struct query_plan *expired = expire(plans, base_clock_monotonic_us());
    struct query_plan *found = plans->newest;
    while (found != NULL && memcmp(found->key, key, sizeof(key)) != 0)
        found = found->older;
    if (found != NULL)
        unlink_plan(plans, found);
    pthread_mutex_unlock(&plans->lock);
    free_list(expired);
    if (found != NULL && !sql_query_usable(found->query)) {
        query_plan_free(found);
        found = NULL;
    }
    return found;
}

void query_plans_give(struct query_plans *plans, struct query_plan *plan)
{
    if (!plan->keep || !sql_query_rewind(plan->query)) {
        query_plan_free(plan);
        return;
    }
    pthread_mutex_lock(&plans->lock);
    plan->idle_since_us = base_clock_monotonic_us();
    plan->newer = NULL;
    plan->older = plans->newest;
    *(plans->newest != NULL ? &plans->newest->newer : &plans->oldest) = plan;
    plans->newest = plan;
    plans->count++;
    struct query_plan *expired = expire(plans, plan->idle_since_us);
    pthread_mutex_unlock(&plans->lock);
    free_list(expired);
}
