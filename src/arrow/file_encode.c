/* One batch as an Arrow file: magic, schema, batch, end of stream, footer, its length, magic. */
#include "arrow_internal.h"

#include <string.h>

static const uint8_t magic[8] = {'A', 'R', 'R', 'O', 'W', '1', 0, 0};
static const uint8_t end_of_stream[8] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0};

static lake_status append_messages(const struct ArrowSchema *schema, struct arrow_batch *batch,
                                   size_t start, struct arrow_file_block *block,
                                   struct base_buffer *out, struct lake_error *err)
{
    struct arrow_ipc_encoder *encoder = NULL;
    struct arrow_ipc_message head = {0};
    struct arrow_ipc_message *messages = NULL;
    size_t count = 0;
    lake_status status = arrow_ipc_encoder_new(schema, &encoder, err);
    if (status == LAKE_OK) {
        status = arrow_ipc_encode_schema(encoder, &head, err);
    }
    if (status == LAKE_OK) {
        status = arrow_ipc_message_append(&head, out, err);
        arrow_ipc_message_fini(&head);
    }
    if (status == LAKE_OK) {
        status = arrow_ipc_encode_batch(encoder, batch, &messages, &count, err);
    }
    if (status == LAKE_OK && count != 1) {
        status = lake_fail(err, LAKE_UNIMPLEMENTED, "a file of a batch with dictionaries");
    }
    if (status == LAKE_OK) {
        *block = (struct arrow_file_block){.offset = (int64_t)(out->size - start),
                                           .metadata_bytes = (int32_t)messages[0].header_bytes + 8,
                                           .body_bytes = (int64_t)messages[0].body_bytes};
        status = arrow_ipc_message_append(&messages[0], out, err);
    }
    for (size_t i = 0; i < count; i++) {
        arrow_ipc_message_fini(&messages[i]);
    }
    base_free(messages);
    arrow_ipc_encoder_free(encoder);
    return status;
}

lake_status arrow_ipc_file_append(const struct ArrowSchema *schema, struct arrow_batch *batch,
                                  struct base_buffer *out, struct lake_error *err)
{
    struct arrow_file_block block;
    uint8_t *footer = NULL;
    size_t footer_bytes = 0;
    uint8_t length[4];
    size_t start = out->size;
    lake_status status = base_buffer_append(out, magic, sizeof(magic), err);
    if (status == LAKE_OK) {
        status = append_messages(schema, batch, start, &block, out, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append(out, end_of_stream, sizeof(end_of_stream), err);
    }
    if (status == LAKE_OK) {
        status = arrow_file_footer_encode(schema, &block, &footer, &footer_bytes, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append(out, footer, footer_bytes, err);
    }
    base_store_u32le(length, (uint32_t)footer_bytes);
    if (status == LAKE_OK) {
        status = base_buffer_append(out, length, sizeof(length), err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append(out, magic, 6, err);
    }
    base_free(footer);
    return status;
}
