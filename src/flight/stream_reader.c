#include "flight.h"

#include <errno.h>
#include <string.h>

struct flight_stream_reader {
    struct flight_receiver receiver;
    struct arrow_ipc_decoder *decoder;
    struct base_buffer descriptor;
    struct base_buffer app_metadata;
    bool started;
    bool ended;
    /* As an ArrowArrayStream: */
    void (*on_release)(void *context);
    void *context;
    struct lake_error error;
};

#define MAX_DESCRIPTOR_BYTES ((size_t)4 << 20)

lake_status flight_stream_reader_new(struct flight_receiver receiver,
                                     const struct arrow_ipc_limits *limits,
                                     struct flight_stream_reader **out, struct lake_error *err)
{
    struct flight_stream_reader *reader = base_calloc_array(1, sizeof(*reader));
    if (reader == NULL) {
        return base_fail_no_memory(err, sizeof(*reader));
    }
    reader->receiver = receiver;
    base_buffer_init(&reader->descriptor, MAX_DESCRIPTOR_BYTES);
    base_buffer_init(&reader->app_metadata, MAX_DESCRIPTOR_BYTES);
    lake_status status = arrow_ipc_decoder_new(limits, &reader->decoder, err);
    if (status != LAKE_OK) {
        base_free(reader);
        return status;
    }
    *out = reader;
    return LAKE_OK;
}

void flight_stream_reader_free(struct flight_stream_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    arrow_ipc_decoder_free(reader->decoder);
    base_buffer_fini(&reader->descriptor);
    base_buffer_fini(&reader->app_metadata);
    base_free(reader);
}

static void release_payload(void *context)
{
    struct rpc_payload *payload = context;
    rpc_payload_fini(payload);
    base_free(payload);
}

/* What came with a message beside its batch is kept until the next one. */
static lake_status keep_sides(struct flight_stream_reader *reader, const struct flight_data *data,
                              struct lake_error *err)
{
    lake_status status = LAKE_OK;
    base_buffer_clear(&reader->app_metadata);
    if (data->app_metadata.size > 0) {
        status = base_buffer_append(&reader->app_metadata, data->app_metadata.data,
                                    data->app_metadata.size, err);
    }
    if (status == LAKE_OK && !reader->started && data->descriptor.size > 0) {
        status = base_buffer_append(&reader->descriptor, data->descriptor.data,
                                    data->descriptor.size, err);
    }
    reader->started = true;
    return status;
}

/* Takes the payload over. *got is false for a message without a header. */
static lake_status decode_payload(struct flight_stream_reader *reader, struct rpc_payload *payload,
                                  bool *got, enum arrow_ipc_kind *kind, struct ArrowArray *out,
                                  struct lake_error *err)
{
    struct flight_data data;
    struct rpc_payload *owned = NULL;
    lake_status status = flight_data_decode(payload->bytes, &data, err);
    if (status == LAKE_OK) {
        status = keep_sides(reader, &data, err);
    }
    *got = status == LAKE_OK && data.header.size > 0;
    if (*got) {
        owned = base_alloc(sizeof(*owned));
        if (owned == NULL) {
            status = base_fail_no_memory(err, sizeof(*owned));
        }
    }
    if (owned == NULL) {
        rpc_payload_fini(payload);
        return status;
    }
    *owned = *payload;
    struct arrow_ipc_body body = {.bytes = data.body, .release = release_payload, .context = owned};
    return arrow_ipc_decode(reader->decoder, data.header, &body, kind, out, err);
}

/* One message: *end, or *got and its kind, or neither for one of metadata only. */
static lake_status receive(struct flight_stream_reader *reader, bool *end, bool *got,
                           enum arrow_ipc_kind *kind, struct ArrowArray *out,
                           struct lake_error *err)
{
    struct rpc_payload payload;
    *got = false;
    *end = reader->ended;
    if (reader->ended) {
        return LAKE_OK;
    }
    lake_status status =
        reader->receiver.receive(reader->receiver.context, &payload, &reader->ended, err);
    if (status != LAKE_OK) {
        reader->ended = true;
        return status;
    }
    *end = reader->ended;
    if (reader->ended) {
        return LAKE_OK;
    }
    return decode_payload(reader, &payload, got, kind, out, err);
}

/* Receives until `schema` (or, without it, until the first message) is there. */
static lake_status start(struct flight_stream_reader *reader, bool schema, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    while (status == LAKE_OK &&
           (!reader->started || (schema && arrow_ipc_decoder_schema(reader->decoder) == NULL))) {
        bool end;
        bool got;
        enum arrow_ipc_kind kind = ARROW_IPC_SCHEMA;
        struct ArrowArray batch = {.release = NULL};
        status = receive(reader, &end, &got, &kind, &batch, err);
        if (status == LAKE_OK && end) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "the record-batch stream ended before its %s",
                             reader->started ? "schema" : "first message");
        }
    }
    return status;
}

lake_status flight_stream_reader_descriptor(struct flight_stream_reader *reader,
                                            struct lake_bytes *out, struct lake_error *err)
{
    lake_status status = start(reader, false, err);
    if (status == LAKE_OK) {
        *out = base_buffer_view(&reader->descriptor);
    }
    return status;
}

lake_status flight_stream_reader_schema(struct flight_stream_reader *reader,
                                        const struct ArrowSchema **out, struct lake_error *err)
{
    lake_status status = start(reader, true, err);
    if (status == LAKE_OK) {
        *out = arrow_ipc_decoder_schema(reader->decoder);
    }
    return status;
}

lake_status flight_stream_reader_next(struct flight_stream_reader *reader, struct ArrowArray *out,
                                      bool *end, struct lake_error *err)
{
    for (;;) {
        bool got;
        enum arrow_ipc_kind kind = ARROW_IPC_SCHEMA;
        lake_status status = receive(reader, end, &got, &kind, out, err);
        if (status != LAKE_OK || *end || (got && kind == ARROW_IPC_BATCH)) {
            return status;
        }
    }
}

struct lake_bytes flight_stream_reader_app_metadata(const struct flight_stream_reader *reader)
{
    return base_buffer_view(&reader->app_metadata);
}

/* ---- as an ArrowArrayStream ---- */

static int stream_get_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    struct flight_stream_reader *reader = self->private_data;
    const struct ArrowSchema *schema;
    lake_status status = flight_stream_reader_schema(reader, &schema, &reader->error);
    return status == LAKE_OK ? ArrowSchemaDeepCopy(schema, out) : arrow_errno_of(status);
}

static int stream_get_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    struct flight_stream_reader *reader = self->private_data;
    bool end;
    out->release = NULL;
    return arrow_errno_of(flight_stream_reader_next(reader, out, &end, &reader->error));
}

static const char *stream_get_last_error(struct ArrowArrayStream *self)
{
    struct flight_stream_reader *reader = self->private_data;
    return reader->error.message[0] == '\0' ? NULL : reader->error.message;
}

static void stream_release(struct ArrowArrayStream *self)
{
    struct flight_stream_reader *reader = self->private_data;
    void (*on_release)(void *) = reader->on_release;
    void *context = reader->context;
    flight_stream_reader_free(reader);
    self->release = NULL;
    if (on_release != NULL) {
        on_release(context);
    }
}

lake_status flight_stream_reader_export(struct flight_stream_reader *reader,
                                        void (*on_release)(void *context), void *context,
                                        struct ArrowArrayStream *out, struct lake_error *err)
{
    const struct ArrowSchema *schema;
    lake_status status = flight_stream_reader_schema(reader, &schema, err);
    if (status != LAKE_OK) {
        flight_stream_reader_free(reader);
        return status;
    }
    reader->on_release = on_release;
    reader->context = context;
    *out = (struct ArrowArrayStream){
        .get_schema = stream_get_schema,
        .get_next = stream_get_next,
        .get_last_error = stream_get_last_error,
        .release = stream_release,
        .private_data = reader,
    };
    return LAKE_OK;
}
