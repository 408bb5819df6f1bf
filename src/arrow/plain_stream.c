/* A stream of batches with views as one of batches without. */
#include "arrow_internal.h"

struct plain_stream {
    struct ArrowArrayStream from;
    struct ArrowSchema given;
    struct ArrowSchema plain;
    uint64_t max_batch_bytes;
    struct arrow_batch *batch; /* its rows from `next_row` on were not given out; may be NULL */
    int64_t next_row;
    struct lake_error error; /* our own; empty when `from` has failed */
};

static int plain_get_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    struct plain_stream *stream = self->private_data;
    return ArrowSchemaDeepCopy(&stream->plain, out);
}

/* As many rows of the batch in hand as may become plain at once, or as there is memory for. */
static lake_status take_rows(struct plain_stream *stream, struct ArrowArray *out,
                             struct lake_error *err)
{
    int64_t length = arrow_batch_array(stream->batch)->length;
    int64_t count = length - stream->next_row;
    struct ArrowArray rows;
    lake_status status;
    for (;;) {
        uint64_t left_bytes = stream->max_batch_bytes;
        status = arrow_batch_slice(stream->batch, stream->next_row, count, &rows, err);
        if (status == LAKE_OK) {
            status = arrow_plain_array(&stream->given, &stream->plain, &rows, &left_bytes, err);
        }
        if (status != LAKE_RESOURCE_EXHAUSTED || count <= 1) {
            break;
        }
        count = (count + 1) / 2;
    }
    if (status != LAKE_OK) {
        return status;
    }
    stream->next_row += count;
    if (stream->next_row == length) {
        arrow_batch_unref(stream->batch);
        stream->batch = NULL;
    }
    *out = rows;
    return LAKE_OK;
}

static int plain_get_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    struct plain_stream *stream = self->private_data;
    lake_status status = LAKE_OK;
    out->release = NULL;
    lake_error_clear(&stream->error);
    if (stream->batch == NULL) {
        struct ArrowArray array;
        int code = stream->from.get_next(&stream->from, &array);
        if (code != 0 || array.release == NULL) {
            return code;
        }
        stream->next_row = 0;
        status = arrow_batch_new(&array, &stream->batch, &stream->error);
    }
    if (status == LAKE_OK) {
        status = take_rows(stream, out, &stream->error);
    }
    return arrow_errno_of(status);
}

static const char *plain_get_last_error(struct ArrowArrayStream *self)
{
    struct plain_stream *stream = self->private_data;
    return stream->error.message[0] != '\0' ? stream->error.message
                                            : stream->from.get_last_error(&stream->from);
}

static void plain_release(struct ArrowArrayStream *self)
{
    struct plain_stream *stream = self->private_data;
    arrow_batch_unref(stream->batch);
    ArrowSchemaRelease(&stream->plain);
    ArrowSchemaRelease(&stream->given);
    stream->from.release(&stream->from);
    base_free(stream);
    self->release = NULL;
}

lake_status arrow_plain_stream(struct ArrowArrayStream *stream, uint64_t max_batch_bytes,
                               struct lake_error *err)
{
    struct ArrowSchema given;
    struct ArrowSchema plain;
    if (stream->get_schema(stream, &given) != 0) {
        const char *why = stream->get_last_error(stream);
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the stream's schema cannot be read: %s",
                         why == NULL ? "no reason given" : why);
    }
    if (!arrow_schema_has_views(&given)) {
        ArrowSchemaRelease(&given);
        return LAKE_OK;
    }
    struct plain_stream *made = NULL;
    lake_status status = arrow_plain_schema(&given, NULL, &plain, err);
    if (status == LAKE_OK && (made = base_calloc_array(1, sizeof(*made))) == NULL) {
        status = base_fail_no_memory(err, sizeof(*made));
        ArrowSchemaRelease(&plain);
    }
    if (status != LAKE_OK) {
        ArrowSchemaRelease(&given);
        return status;
    }
    made->given = given;
    made->plain = plain;
    made->max_batch_bytes = max_batch_bytes;
    made->from = *stream;
    *stream = (struct ArrowArrayStream){.get_schema = plain_get_schema,
                                        .get_next = plain_get_next,
                                        .get_last_error = plain_get_last_error,
                                        .release = plain_release,
                                        .private_data = made};
    return LAKE_OK;
}
