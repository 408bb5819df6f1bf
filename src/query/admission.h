/*
 * Admission (ADM-1..ADM-5): who may run a statement now. A request passes its tenant's gate first,
 * then joins one FIFO for the replica's places, both under one absolute deadline, so a noisy tenant
 * waits for its own share without holding anybody's place. Thread-safe.
 */
#ifndef QUERY_ADMISSION_H
#define QUERY_ADMISSION_H

#include <base/base.h>

struct query_admission;
struct query_permit;

struct query_admission_limits {
    uint32_t max_concurrent;
    uint32_t max_concurrent_per_tenant;
    uint32_t max_tracked_tenants;
    uint32_t queue_timeout_ms; /* of the whole wait, both queues together */
};

lake_status query_admission_new(const struct query_admission_limits *limits,
                                struct query_admission **out, struct lake_error *err);
void query_admission_free(struct query_admission *admission); /* when no permit is out */

/* RESOURCE_EXHAUSTED after the queue time-out, or at once when a new tenant finds the tracker full.
 * The message names the limit, never the tenant. */
lake_status query_admission_acquire(struct query_admission *admission, const char *tenant_id,
                                    struct query_permit **out, struct lake_error *err);
void query_permit_release(struct query_permit *permit); /* NULL is allowed */

/* How many permits are out, and how many tenants are tracked: for metrics and tests. */
uint32_t query_admission_running(struct query_admission *admission);
uint32_t query_admission_tracked(struct query_admission *admission);

#endif
