/* libs: arrow base */
/* Any bytes as an Arrow IPC stream or file: refused, or read into arrays that validation can walk
 * and that encode again, with their views and without. */
#include <arrow/arrow.h>

#include <stdlib.h>

static void encode_again(struct arrow_ipc_encoder *encoder, struct ArrowArray *array)
{
    struct arrow_batch *batch;
    struct arrow_ipc_message *messages;
    size_t count;
    if (arrow_batch_new(array, &batch, NULL) != LAKE_OK) {
        return;
    }
    if (arrow_ipc_encode_batch(encoder, batch, &messages, &count, NULL) == LAKE_OK) {
        for (size_t i = 0; i < count; i++) {
            arrow_ipc_message_fini(&messages[i]);
        }
        base_free(messages);
    }
    arrow_batch_unref(batch);
}

static void read_all(struct ArrowArrayStream *stream)
{
    struct ArrowSchema schema;
    struct arrow_ipc_encoder *encoder = NULL;
    if (stream->get_schema(stream, &schema) != 0) {
        return;
    }
    /* What was read can be written, so a failure here would be a finding; memory aside. */
    bool can_encode = arrow_ipc_encoder_new(&schema, &encoder, NULL) == LAKE_OK;
    for (int i = 0; i < 64; i++) {
        struct ArrowArray array;
        if (stream->get_next(stream, &array) != 0 || array.release == NULL) {
            break;
        }
        lake_status status = arrow_array_validate(&schema, &array, NULL);
        if (status == LAKE_OK && can_encode) {
            encode_again(encoder, &array);
        } else {
            ArrowArrayRelease(&array);
        }
    }
    arrow_ipc_encoder_free(encoder);
    ArrowSchemaRelease(&schema);
}

/* Rows that are valid stay so when their views become what they refer to. */
static void read_plain(struct ArrowArrayStream *stream, uint64_t max_bytes)
{
    struct ArrowSchema given;
    struct ArrowSchema plain;
    if (stream->get_schema(stream, &given) != 0) {
        return;
    }
    if (arrow_schema_has_views(&given) &&
        arrow_plain_schema(&given, NULL, &plain, NULL) == LAKE_OK) {
        for (int i = 0; i < 64; i++) {
            struct ArrowArray array;
            uint64_t left_bytes = max_bytes;
            if (stream->get_next(stream, &array) != 0 || array.release == NULL) {
                break;
            }
            bool valid = arrow_array_validate(&given, &array, NULL) == LAKE_OK;
            if (arrow_plain_array(&given, &plain, &array, &left_bytes, NULL) != LAKE_OK) {
                continue;
            }
            if (valid && arrow_array_validate(&plain, &array, NULL) != LAKE_OK) {
                abort();
            }
            ArrowArrayRelease(&array);
        }
        ArrowSchemaRelease(&plain);
    }
    ArrowSchemaRelease(&given);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arrow_ipc_limits limits = arrow_ipc_limits_default();
    limits.max_body_bytes = (uint64_t)1 << 20;
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct lake_bytes bytes = {data, size};
    if (arrow_ipc_open_bytes(bytes, &limits, &stream, NULL) == LAKE_OK) {
        read_all(&stream);
        ArrowArrayStreamRelease(&stream);
    }
    if (arrow_ipc_open_bytes(bytes, &limits, &stream, NULL) == LAKE_OK) {
        read_plain(&stream, limits.max_body_bytes);
        ArrowArrayStreamRelease(&stream);
    }
    if (arrow_ipc_schema_from_bytes(bytes, &schema, NULL) == LAKE_OK) {
        struct base_buffer text;
        base_buffer_init(&text, 1 << 16);
        (void)arrow_type_format(&schema, &text, NULL);
        base_buffer_fini(&text);
        ArrowSchemaRelease(&schema);
    }
    return 0;
}
