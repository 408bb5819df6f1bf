/*
 * A small result as it was sent, kept with its plan: a statement that runs again on the same
 * versions of its tables needs no engine. Only what rewinds (sql_query_rewind) is worth keeping.
 *
 * Thread rule: belongs to whoever holds the plan.
 */
#ifndef QUERY_RESULT_H
#define QUERY_RESULT_H

#include <flight/flight.h>

struct query_result {
    struct flight_sender sender; /* where messages go while they are recorded */
    struct base_buffer bytes;    /* of all messages */
    size_t ends[8];              /* of each, in `bytes` */
    size_t count;
    bool broken; /* too large, too many, or no memory: nothing is kept */
};
void query_result_init(struct query_result *result);
void query_result_fini(struct query_result *result);
/* Forgets what was recorded; the messages of what runs next go to `sender` and are copied. The
 * sender that is returned borrows `result`. */
struct flight_sender query_result_record(struct query_result *result, struct flight_sender sender);
/* Ends a recording; `complete` when all messages of the result have been sent. */
void query_result_recorded(struct query_result *result, bool complete);
/* True when there is one to send. */
bool query_result_kept(const struct query_result *result);
/* The last message leaves with the call's status. */
lake_status query_result_send(const struct query_result *result, struct rpc_call *call,
                              struct lake_error *err);

#endif
