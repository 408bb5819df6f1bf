/* One encoded append and its way to the server; see append.c. */
#ifndef CLIENT_APPEND_H
#define CLIENT_APPEND_H

#include "client_internal.h"

struct client_append {
    struct lake_str namespace_name, table;
    const struct ArrowSchema *schema;
    struct arrow_batch **batches;
    size_t batch_count;
    const char *operation_id;
};
/* Fills version, row_count and replayed of `result`. */
lake_status client_append_run(lake_client *client, const struct client_append *append,
                              struct lake_insert_result *result, struct lake_error *err);

#endif
