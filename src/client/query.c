/* SELECTs (SDK-6): GetFlightInfo, then DoGet of each endpoint, pulled batch by batch. */
#include "client_internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define INFO_BYTES ((size_t)64 * 1024 * 1024)

struct result_stream {
    lake_client *client;
    struct base_arena *memory; /* owns info and what it points to */
    struct rpc_payload info_payload;
    struct flight_info info;
    size_t next_endpoint;
    struct rpc_client_call *call; /* of the endpoint being read */
    struct flight_stream_reader *reader;
    struct ArrowSchema schema;
    struct lake_error error;
};

static void close_endpoint(struct result_stream *stream)
{
    flight_stream_reader_free(stream->reader);
    rpc_client_call_free(stream->call);
    stream->reader = NULL;
    stream->call = NULL;
}

static void result_stream_free(struct result_stream *stream)
{
    close_endpoint(stream);
    if (stream->schema.release != NULL)
        stream->schema.release(&stream->schema);
    rpc_payload_fini(&stream->info_payload);
    base_arena_free(stream->memory);
    lake_client_unref(stream->client);
    base_free(stream);
}

/* ---- GetFlightInfo ---- */

static lake_status encode_request(const char *sql, struct base_buffer *out, struct lake_error *err)
{
    struct flight_sql_command command = {.kind = FLIGHT_SQL_STATEMENT_QUERY};
    struct base_buffer bytes;
    base_buffer_init(&bytes, INFO_BYTES);
    command.as.statement.query = base_str_of(sql);
    lake_status status = flight_sql_command_encode(&command, &bytes, err);
    if (status == LAKE_OK) {
        struct flight_descriptor descriptor = {.type = FLIGHT_DESCRIPTOR_CMD,
                                               .command = base_buffer_view(&bytes)};
        status = flight_descriptor_encode(&descriptor, out, err);
    }
    base_buffer_fini(&bytes);
    return status;
}

static lake_status get_info(struct result_stream *stream, const char *sql, struct lake_error *err)
{
    struct base_buffer request;
    base_buffer_init(&request, INFO_BYTES);
    lake_status status = encode_request(sql, &request, err);
    if (status == LAKE_OK)
        status = rpc_unary(stream->client->channel, FLIGHT_METHOD_GET_FLIGHT_INFO,
                           base_buffer_view(&request), stream->client->timeout_ms,
                           &stream->info_payload, err);
    if (status == LAKE_OK)
        status = flight_info_decode(stream->info_payload.bytes, stream->memory, &stream->info, err);
    if (status == LAKE_OK)
        status = arrow_ipc_schema_from_bytes(stream->info.schema, &stream->schema, err);
    base_buffer_fini(&request);
    return status;
}

/* ---- DoGet ---- */

/* The batches are read by the schema of the plan, so every endpoint's must be that. */
static lake_status check_schema(struct result_stream *stream, struct lake_error *err)
{
    const struct ArrowSchema *schema;
    char path[256] = "";
    lake_status status = flight_stream_reader_schema(stream->reader, &schema, err);
    if (status == LAKE_OK && !client_columns_equal(&stream->schema, schema, path, sizeof(path)))
        status = lake_fail(err, LAKE_INTERNAL,
                           "the server sends rows of another schema than it announced: they differ "
                           "at '%s'",
                           path);
    return status;
}

static lake_status open_endpoint(struct result_stream *stream, struct lake_error *err)
{
    const struct flight_endpoint *endpoint = &stream->info.endpoints[stream->next_endpoint];
    struct base_buffer ticket;
    base_buffer_init(&ticket, INFO_BYTES);
    lake_status status = flight_ticket_encode(endpoint->ticket, &ticket, err);
    if (status == LAKE_OK)
        status = rpc_client_call_start(stream->client->channel, FLIGHT_METHOD_DO_GET, NULL, 0,
                                       INT64_MAX, &stream->call, err);
    if (status == LAKE_OK)
        status = flight_send_bytes(flight_sender_of_client(stream->call), base_buffer_view(&ticket),
                                   err);
    if (status == LAKE_OK)
        status = rpc_client_call_finish_sending(stream->call, err);
    if (status == LAKE_OK)
        status = flight_stream_reader_new(flight_receiver_of_client(stream->call), NULL,
                                          &stream->reader, err);
    if (status == LAKE_OK)
        status = check_schema(stream, err);
    base_buffer_fini(&ticket);
    if (status != LAKE_OK)
        close_endpoint(stream);
    else
        stream->next_endpoint++;
    return status;
}

/* *end: after the last endpoint's last batch. */
static lake_status next_batch(struct result_stream *stream, struct ArrowArray *out, bool *end,
                              struct lake_error *err)
{
    for (;;) {
        lake_status status = LAKE_OK;
        bool endpoint_end = false;
        if (stream->reader == NULL && stream->next_endpoint == stream->info.endpoint_count) {
            *end = true;
            return LAKE_OK;
        }
        if (stream->reader == NULL)
            status = open_endpoint(stream, err);
        if (status == LAKE_OK)
            status = flight_stream_reader_next(stream->reader, out, &endpoint_end, err);
        if (status != LAKE_OK || !endpoint_end)
            return status;
        close_endpoint(stream);
    }
}

/* ---- as an ArrowArrayStream ---- */

static int fail_with(struct result_stream *stream, lake_status status)
{
    stream->error.code = status;
    switch (status) {
    case LAKE_CANCELLED:
        return ECANCELED;
    case LAKE_RESOURCE_EXHAUSTED:
        return ENOMEM;
    case LAKE_INVALID_ARGUMENT:
        return EINVAL;
    default:
        return EIO;
    }
}

static int stream_get_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    struct result_stream *stream = self->private_data;
    return ArrowSchemaDeepCopy(&stream->schema, out);
}

static int stream_get_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    struct result_stream *stream = self->private_data;
    struct ArrowArray array = {0};
    bool end = false;
    if (stream->error.code != LAKE_OK)
        return fail_with(stream, stream->error.code);
    lake_status status = next_batch(stream, &array, &end, &stream->error);
    if (status != LAKE_OK) {
        close_endpoint(stream);
        return fail_with(stream, status);
    }
    *out = array; /* released (all zero) at the end */
    return 0;
}

static const char *stream_get_last_error(struct ArrowArrayStream *self)
{
    struct result_stream *stream = self->private_data;
    return stream->error.message;
}

static void stream_release(struct ArrowArrayStream *self)
{
    result_stream_free(self->private_data);
    self->private_data = NULL;
    self->release = NULL;
}

lake_status lake_query_status(const struct ArrowArrayStream *stream)
{
    if (stream->release != stream_release)
        return LAKE_OK;
    const struct result_stream *result = stream->private_data;
    return result->error.code;
}

lake_status lake_query(lake_client *client, const char *sql, struct ArrowArrayStream *out,
                       struct lake_error *err)
{
    lake_error_clear(err);
    if (sql == NULL)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "there is no statement");
    struct result_stream *stream = base_calloc_array(1, sizeof(*stream));
    if (stream == NULL)
        return base_fail_no_memory(err, sizeof(*stream));
    stream->client = lake_client_ref(client);
    lake_status status = base_arena_new(INFO_BYTES, &stream->memory, err);
    if (status == LAKE_OK)
        status = get_info(stream, sql, err);
    if (status == LAKE_OK && stream->info.endpoint_count > 0) /* errors of the start show here */
        status = open_endpoint(stream, err);
    if (status != LAKE_OK) {
        result_stream_free(stream);
        return status;
    }
    *out = (struct ArrowArrayStream){
        .get_schema = stream_get_schema,
        .get_next = stream_get_next,
        .get_last_error = stream_get_last_error,
        .release = stream_release,
        .private_data = stream,
    };
    return LAKE_OK;
}

/* ---- FILE values of a result ---- */

lake_status lake_data_location_get(const struct ArrowSchema *schema, const struct ArrowArray *batch,
                                   size_t column, int64_t row, struct lake_data_location *out,
                                   struct lake_error *err)
{
    struct arrow_file_value value;
    lake_error_clear(err);
    if (column >= (size_t)schema->n_children || (size_t)batch->n_children <= column)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the result has %lld columns, none is number "
                         "%zu",
                         (long long)schema->n_children, column);
    if (!arrow_file_schema_is(schema->children[column]))
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the column %s is not a FILE",
                         base_str_of(schema->children[column]->name).size == 0
                             ? "without a name"
                             : schema->children[column]->name);
    if (row < 0 || row >= batch->length)
        return lake_fail(err, LAKE_OUT_OF_RANGE, "the batch has %lld rows, none is number %lld",
                         (long long)batch->length, (long long)row);
    lake_status status = arrow_file_value_get(schema->children[column], batch->children[column],
                                              batch->offset + row, &value, err);
    if (status == LAKE_OK)
        status = client_location_copy(value.uri, value.media_type, value.size_bytes,
                                      value.sha256_hex, out, err);
    return status;
}
