#include "flight.h"

struct flight_stream_writer {
    struct flight_sender sender;
    struct flight_stream_options options;
    struct arrow_ipc_encoder *encoder;
    uint64_t sent_rows;
    bool begun;
};

void flight_stream_options_init(struct flight_stream_options *options)
{
    *options = (struct flight_stream_options){
        .target_batch_bytes = (uint64_t)2 << 20,
        .max_batch_rows = 65536,
        .max_message_bytes = (uint64_t)16 << 20,
    };
}

lake_status flight_stream_writer_new(struct flight_sender sender, const struct ArrowSchema *schema,
                                     const struct flight_stream_options *options,
                                     struct flight_stream_writer **out, struct lake_error *err)
{
    struct flight_stream_writer *writer = base_calloc_array(1, sizeof(*writer));
    if (writer == NULL) {
        return base_fail_no_memory(err, sizeof(*writer));
    }
    writer->sender = sender;
    if (options != NULL) {
        writer->options = *options;
    } else {
        flight_stream_options_init(&writer->options);
    }
    lake_status status = arrow_ipc_encoder_new(schema, &writer->encoder, err);
    if (status != LAKE_OK) {
        base_free(writer);
        return status;
    }
    *out = writer;
    return LAKE_OK;
}

void flight_stream_writer_free(struct flight_stream_writer *writer)
{
    if (writer != NULL) {
        arrow_ipc_encoder_free(writer->encoder);
        base_free(writer);
    }
}

/* A batch of twice the target in data is still sent whole: its header does not split it. */
#define SLACK_BYTES ((uint64_t)64 << 10)
/* What a message adds around its header and body: tags, lengths, alignment. */
#define ENVELOPE_BYTES ((uint64_t)256)

static uint64_t message_bytes(const struct arrow_ipc_message *message)
{
    return message->header_bytes + message->body_bytes + ENVELOPE_BYTES;
}

lake_status flight_stream_writer_begin(struct flight_stream_writer *writer,
                                       struct lake_bytes descriptor, struct lake_bytes app_metadata,
                                       struct lake_error *err)
{
    struct arrow_ipc_message message;
    if (writer->begun) {
        return lake_fail(err, LAKE_INTERNAL, "a record-batch stream was begun twice");
    }
    writer->begun = true;
    lake_status status = arrow_ipc_encode_schema(writer->encoder, &message, err);
    if (status != LAKE_OK) {
        return status;
    }
    return flight_send_ipc(writer->sender, &message, descriptor, app_metadata, err);
}

static lake_status fail_too_large(const struct flight_stream_writer *writer, uint64_t bytes,
                                  const char *what, struct lake_error *err)
{
    return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                     "%s of %llu bytes does not fit into one message of at most %llu bytes: select "
                     "fewer or smaller columns, or store large values as FILE",
                     what, (unsigned long long)bytes,
                     (unsigned long long)writer->options.max_message_bytes);
}

/* Encodes and sends rows that are few enough; a record batch that turns out too large is reported
 * with *too_large and nothing of it is sent. */
static lake_status send_slice(struct flight_stream_writer *writer, struct arrow_batch *batch,
                              uint64_t limit, bool *too_large, struct lake_error *err)
{
    struct arrow_ipc_message *messages;
    const struct lake_bytes none = {NULL, 0};
    size_t count;
    int64_t rows = arrow_batch_array(batch)->length;
    *too_large = false;
    lake_status status = arrow_ipc_encode_batch(writer->encoder, batch, &messages, &count, err);
    if (status != LAKE_OK) {
        return status;
    }
    /* Dictionaries have been committed by the encoder: they go out even when the rows are split. */
    for (size_t i = 0; i < count; i++) {
        bool is_rows = i + 1 == count;
        uint64_t bytes = message_bytes(&messages[i]);
        if (status == LAKE_OK && is_rows && bytes > limit) {
            *too_large = true;
        } else if (status == LAKE_OK && bytes > writer->options.max_message_bytes) {
            status = fail_too_large(writer, bytes, is_rows ? "a row" : "a dictionary", err);
        } else if (status == LAKE_OK) {
            status = flight_send_ipc(writer->sender, &messages[i], none, none, err);
            writer->sent_rows += is_rows ? (uint64_t)rows : 0;
            continue; /* taken over */
        }
        arrow_ipc_message_fini(&messages[i]);
    }
    base_free(messages);
    return status;
}

static lake_status slice_batch(struct arrow_batch *batch, int64_t offset, int64_t length,
                               struct arrow_batch **out, struct lake_error *err)
{
    struct ArrowArray array;
    if (offset == 0 && length == arrow_batch_array(batch)->length) {
        *out = arrow_batch_ref(batch);
        return LAKE_OK;
    }
    lake_status status = arrow_batch_slice(batch, offset, length, &array, err);
    return status == LAKE_OK ? arrow_batch_new(&array, out, err) : status;
}

/* How many rows to try next: by the rows' average size, at least one. */
static int64_t rows_to_try(const struct flight_stream_writer *writer, int64_t rows, uint64_t bytes)
{
    int64_t limit = BASE_MAX(writer->options.max_batch_rows, (int64_t)1);
    if (bytes > writer->options.target_batch_bytes && rows > 0) {
        uint64_t pieces = bytes / BASE_MAX(writer->options.target_batch_bytes, (uint64_t)1) + 1;
        limit = BASE_MIN(limit, (int64_t)BASE_MAX((uint64_t)rows / pieces, (uint64_t)1));
    }
    return BASE_MIN(rows, limit);
}

lake_status flight_stream_writer_write(struct flight_stream_writer *writer,
                                       struct arrow_batch *batch, struct lake_error *err)
{
    int64_t total = arrow_batch_array(batch)->length;
    int64_t done = 0;
    int64_t step = rows_to_try(writer, total, 0);
    if (!writer->begun) {
        return lake_fail(err, LAKE_INTERNAL, "a record-batch stream was not begun");
    }
    do {
        struct arrow_batch *slice;
        bool too_large;
        int64_t length = BASE_MIN(step, total - done);
        lake_status status = slice_batch(batch, done, length, &slice, err);
        if (status != LAKE_OK) {
            return status;
        }
        /* One row goes out up to the hard limit, several only near the target. */
        uint64_t limit = length <= 1
                             ? writer->options.max_message_bytes
                             : BASE_MIN(writer->options.target_batch_bytes * 2 + SLACK_BYTES,
                                        writer->options.max_message_bytes);
        status = send_slice(writer, slice, limit, &too_large, err);
        if (status == LAKE_OK && too_large && length <= 1) {
            uint64_t bytes = 0;
            status = arrow_ipc_batch_bytes(writer->encoder, slice, &bytes, err);
            if (status == LAKE_OK) {
                status = fail_too_large(writer, bytes, "a row", err);
            }
        } else if (status == LAKE_OK && too_large) {
            uint64_t bytes = 0;
            status = arrow_ipc_batch_bytes(writer->encoder, slice, &bytes, err);
            step = BASE_MIN(rows_to_try(writer, length, bytes), length / 2 + length % 2);
        } else {
            done += length;
        }
        arrow_batch_unref(slice);
        if (status != LAKE_OK) {
            return status;
        }
    } while (done < total);
    return LAKE_OK;
}

lake_status flight_stream_writer_write_metadata(struct flight_stream_writer *writer,
                                                struct lake_bytes app_metadata,
                                                struct lake_error *err)
{
    struct arrow_ipc_message message = {0};
    return flight_send_ipc(writer->sender, &message, (struct lake_bytes){NULL, 0}, app_metadata,
                           err);
}

uint64_t flight_stream_writer_sent_rows(const struct flight_stream_writer *writer)
{
    return writer->sent_rows;
}
