/* What runs here, by its ticket, so that CancelFlightInfo can end it (F10). */
#ifndef QUERY_RUNNING_H
#define QUERY_RUNNING_H

#include <base/base.h>

struct query_running;

struct query_run { /* owned by the thread that runs it, on its stack */
    struct query_run *previous, *next;
    uint8_t ticket_sha256[BASE_SHA256_BYTES];
    void (*cancel)(void *context);
    void *context;
};

lake_status query_running_new(struct query_running **out, struct lake_error *err);
void query_running_free(struct query_running *running); /* when nothing runs */
/* `cancel` may run on any thread, several times, until the run is removed. It must not block. */
lake_status query_running_add(struct query_running *running, struct query_run *run,
                              struct lake_bytes sealed_ticket, void (*cancel)(void *context),
                              void *context, struct lake_error *err);
void query_running_remove(struct query_running *running, struct query_run *run);
/* Cancels every run of this ticket; how many there were. */
lake_status query_running_cancel(struct query_running *running, struct lake_bytes sealed_ticket,
                                 size_t *count, struct lake_error *err);

#endif
