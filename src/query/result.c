#include "result.h"

#define MAX_RESULT_BYTES ((size_t)32 * 1024)

void query_result_init(struct query_result *result)
{
    *result = (struct query_result){.broken = true};
    base_buffer_init(&result->bytes, MAX_RESULT_BYTES);
}

void query_result_fini(struct query_result *result)
{
    base_buffer_fini(&result->bytes);
}

/* No failure to copy is one of the call. */
static bool copy_message(struct query_result *result, const struct rpc_part *parts,
                         size_t part_count)
{
    if (result->count == BASE_ARRAY_LEN(result->ends))
        return false;
    for (size_t i = 0; i < part_count; i++) {
        if (base_buffer_append(&result->bytes, parts[i].data, parts[i].size, NULL) != LAKE_OK)
            return false;
    }
    result->ends[result->count++] = result->bytes.size;
    return true;
}

static lake_status record(void *context, struct rpc_part *parts, size_t part_count,
                          struct lake_error *err)
{
    struct query_result *result = context;
    result->broken = result->broken || !copy_message(result, parts, part_count);
    return result->sender.send(result->sender.context, parts, part_count, err);
}

struct flight_sender query_result_record(struct query_result *result, struct flight_sender sender)
{
    base_buffer_fini(&result->bytes);
    query_result_init(result);
    result->broken = false;
    result->sender = sender;
    return (struct flight_sender){record, result};
}

void query_result_recorded(struct query_result *result, bool complete)
{
    result->broken = result->broken || !complete || result->count == 0;
    if (result->broken)
        base_buffer_fini(&result->bytes);
}

bool query_result_kept(const struct query_result *result)
{
    return !result->broken;
}

lake_status query_result_send(const struct query_result *result, struct rpc_call *call,
                              struct lake_error *err)
{
    lake_status status = LAKE_OK;
    size_t start = 0;
    for (size_t i = 0; i < result->count && status == LAKE_OK; i++) {
        struct rpc_part part = {
            .data = result->bytes.data + start, .size = result->ends[i] - start, .copy = true};
        start = result->ends[i];
        if (i + 1 == result->count)
            status = rpc_call_send_last(call, &part, 1, err);
        else
            status = rpc_call_send(call, &part, 1, err);
    }
    return status;
}
