#include "running.h"

#include <pthread.h>
#include <string.h>

struct query_running {
    pthread_mutex_t mutex;   /* guards the list; taken last */
    struct query_run *first; /* as many as admission lets in: a list will do */
};

lake_status query_running_new(struct query_running **out, struct lake_error *err)
{
    struct query_running *running = base_calloc_array(1, sizeof(*running));
    if (running == NULL)
        return base_fail_no_memory(err, sizeof(*running));
    pthread_mutex_init(&running->mutex, NULL);
    *out = running;
    return LAKE_OK;
}

void query_running_free(struct query_running *running)
{
    if (running == NULL)
        return;
    pthread_mutex_destroy(&running->mutex);
    base_free(running);
}

lake_status query_running_add(struct query_running *running, struct query_run *run,
                              struct lake_bytes sealed_ticket, void (*cancel)(void *context),
                              void *context, struct lake_error *err)
{
    *run = (struct query_run){.cancel = cancel, .context = context};
    lake_status status = base_sha256_once(sealed_ticket, run->ticket_sha256, err);
    if (status != LAKE_OK)
        return status;
    pthread_mutex_lock(&running->mutex);
    run->next = running->first;
    if (run->next != NULL)
        run->next->previous = run;
    running->first = run;
    pthread_mutex_unlock(&running->mutex);
    return LAKE_OK;
}

void query_running_remove(struct query_running *running, struct query_run *run)
{
    pthread_mutex_lock(&running->mutex);
    if (run->previous != NULL)
        run->previous->next = run->next;
    else
        running->first = run->next;
    if (run->next != NULL)
        run->next->previous = run->previous;
    pthread_mutex_unlock(&running->mutex);
}

/* Under the lock, so that no run ends while it is being cancelled. */
lake_status query_running_cancel(struct query_running *running, struct lake_bytes sealed_ticket,
                                 size_t *count, struct lake_error *err)
{
    uint8_t digest[BASE_SHA256_BYTES];
    size_t found = 0;
    lake_status status = base_sha256_once(sealed_ticket, digest, err);
    if (status != LAKE_OK)
        return status;
    pthread_mutex_lock(&running->mutex);
    for (struct query_run *run = running->first; run != NULL; run = run->next) {
        if (memcmp(run->ticket_sha256, digest, sizeof(digest)) == 0) {
            run->cancel(run->context);
            found++;
        }
    }
    pthread_mutex_unlock(&running->mutex);
    *count = found;
    return LAKE_OK;
}
