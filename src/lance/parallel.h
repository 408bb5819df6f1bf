/*
 * Work of one call spread over the processors: the caller and helpers of one bounded pool that the
 * whole process shares, so that many callers do not start many threads.
 */
#ifndef LANCE_PARALLEL_H
#define LANCE_PARALLEL_H

#include <base/base.h>

#define LANCE_MAX_WORKERS 8 /* on one call, its own thread included */

/* Does item `index`. `worker` is below LANCE_MAX_WORKERS and no two threads have the same at a
 * time. */
typedef lake_status (*lance_parallel_item)(void *context, size_t index, size_t worker,
                                           struct lake_error *err);
/* Does items 0 to count - 1, in that order but several at a time, on at most `workers` threads, and
 * returns when none runs any more. After a failure no further item is begun. */
lake_status lance_parallel(size_t count, size_t workers, lance_parallel_item item, void *context,
                           struct lake_error *err);

#endif
