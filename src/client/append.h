/* One encoded append and its way to the server; see append.c. */
#ifndef CLIENT_APPEND_H
#define CLIENT_APPEND_H

#include "client_internal.h"
#include "pending_file.h"

struct client_append {
    struct lake_str namespace_name, table;
    const struct ArrowSchema *schema;
    struct arrow_batch **batches;
    size_t batch_count;
    bool borrowed; /* the batches' buffers are the caller's, valid during the call only */
    const char *operation_id;
    /* Of the table, as it was when the rows were checked. What is written down is for this one, and
     * never added to another of the same name (NAT-5). */
    char incarnation[BASE_UUID_TEXT_BYTES];
    bool joined;                  /* the same append was written down before */
    struct pending_file *pending; /* where the append is written down; NULL: nowhere */
    /* One that was written down before: its messages are sent as they are, there are no batches. */
    const struct pending_record *recorded;
};
/* `given` (NULL: a fresh one) as it is written. INVALID_ARGUMENT when it is no UUIDv7. */
lake_status client_operation_id(const char *given, char out[LAKE_OPERATION_ID_BYTES],
                                struct lake_error *err);
/* Commits the rows under `operation_id` (NULL: a fresh one, left in `result` also on failure), and
 * fills version, row_count and replayed of `result`. */
lake_status client_append_commit(lake_client *client, struct client_append *append,
                                 const char *operation_id, struct lake_insert_result *result,
                                 struct lake_error *err);
/* change.c: sends the command of an action that changes rows until its outcome is known. `filled`
 * has the operation ID and gets the rest; it is copied to `result` (may be NULL) also when the
 * outcome stays unknown. */
lake_status client_change_commit(lake_client *client, const char *type, struct lake_bytes command,
                                 struct lake_change_result *filled,
                                 struct lake_change_result *result, struct lake_error *err);
/* Sends the append of a pending file that is locked, and settles it; `append` has all but batches.
 */
lake_status client_append_resume(lake_client *client, struct client_append *append,
                                 struct lake_insert_result *result, struct lake_error *err);
/* Gives a result out or drops it. One whose outcome is unknown goes out as well: who asks again
 * needs its operation ID and its locations. */
void client_append_hand_over(struct lake_insert_result *from, lake_status status,
                             struct lake_insert_result *to);

#endif
