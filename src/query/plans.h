/*
 * Plans kept for the next time, and with them small results. Planning takes longer than a small
 * result does, and every statement is planned twice, for its FlightInfo and for its rows. A plan
 * belongs to the text of a statement and to exactly the tables that it was pinned on, never to who
 * asked: callers are authorised before they get here.
 *
 * Thread rule: the cache is shared freely; a plan belongs to whoever took it.
 */
#ifndef QUERY_PLANS_H
#define QUERY_PLANS_H

#include "result.h"
#include "ticket.h"

#include <sql/sql.h>

struct query_resolved {       /* what a statement runs on */
    struct sql_table *tables; /* each with a dataset reference */
    struct query_pin *pins;   /* the same, for the ticket */
    size_t count;
    struct base_arena *memory;
};
void query_resolved_fini(struct query_resolved *resolved);

struct query_plan {
    struct query_resolved resolved;
    struct sql_query *query;
    struct base_buffer schema; /* of the result, encapsulated */
    uint8_t schema_sha256[BASE_SHA256_BYTES];
    struct query_result result; /* of its last run, when it is small */

    bool keep; /* plans.c's own from here on */
    uint8_t key[BASE_SHA256_BYTES];
    int64_t idle_since_us;
    struct query_plan *newer, *older;
};
/* Binds `sql` on `resolved`, which is moved in, in every case. */
lake_status query_plan_new(struct sql_engine *engine, struct lake_str sql,
                           struct query_resolved *resolved, struct query_plan **out,
                           struct lake_error *err);
void query_plan_free(struct query_plan *plan); /* NULL is allowed */

struct query_plans;
lake_status query_plans_new(struct query_plans **out, struct lake_error *err);
void query_plans_free(struct query_plans *plans); /* before the engine; NULL is allowed */
/* An idle plan of the statement on these tables, at its start; NULL when there is none. */
struct query_plan *query_plans_take(struct query_plans *plans, struct lake_str sql,
                                    const struct query_pin *pins, size_t pin_count);
/* Keeps the plan when it can run again, or frees it. */
void query_plans_give(struct query_plans *plans, struct query_plan *plan);

#endif
