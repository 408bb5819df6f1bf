#include "encode.h"

#include <string.h>

/* Rewritten offsets and bitmaps of one message; far above what a bounded batch needs. */
#define MAX_REWRITTEN_BYTES ((size_t)1 << 30)

/* What was last sent for one dictionary. */
struct sent_dictionary {
    bool sent;
    uint8_t digest[BASE_SHA256_BYTES];
    /* The same buffers again need no digest: `owner` keeps them from being reused for others. */
    struct arrow_batch *owner;
    const void *buffers[3];
    int64_t offset;
    int64_t length;
};

struct arrow_ipc_encoder {
    struct ArrowSchema schema;
    struct arrow_dictionaries dictionaries;
    struct sent_dictionary *sent;
    flatcc_builder_t builder;
};

void arrow_ipc_message_fini(struct arrow_ipc_message *message)
{
    arrow_batch_unref(message->owner);
    base_arena_free(message->memory);
    *message = (struct arrow_ipc_message){0};
}

lake_status arrow_ipc_encoder_new(const struct ArrowSchema *schema, struct arrow_ipc_encoder **out,
                                  struct lake_error *err)
{
    struct arrow_ipc_encoder *encoder = base_calloc_array(1, sizeof(*encoder));
    if (encoder == NULL) {
        return base_fail_no_memory(err, sizeof(*encoder));
    }
    lake_status status = LAKE_OK;
    if (flatcc_builder_init(&encoder->builder) != 0) {
        base_free(encoder);
        return base_fail_no_memory(err, sizeof(encoder->builder));
    }
    int code = ArrowSchemaDeepCopy(schema, &encoder->schema);
    if (code != NANOARROW_OK) {
        encoder->schema.release = NULL;
        status = arrow_fail_code(err, code, NULL, "copying the schema");
    }
    if (status == LAKE_OK) {
        status = arrow_dictionaries_collect(&encoder->schema, &encoder->dictionaries, err);
    }
    if (status == LAKE_OK) {
        encoder->sent = base_calloc_array(encoder->dictionaries.count + 1, sizeof(*encoder->sent));
        if (encoder->sent == NULL) {
            status = base_fail_no_memory(err, sizeof(*encoder->sent));
        }
    }
    if (status != LAKE_OK) {
        arrow_ipc_encoder_free(encoder);
        return status;
    }
    *out = encoder;
    return LAKE_OK;
}

void arrow_ipc_encoder_free(struct arrow_ipc_encoder *encoder)
{
    if (encoder == NULL) {
        return;
    }
    for (size_t i = 0; encoder->sent != NULL && i < encoder->dictionaries.count; i++) {
        arrow_batch_unref(encoder->sent[i].owner);
    }
    base_free(encoder->sent);
    arrow_dictionaries_fini(&encoder->dictionaries);
    if (encoder->schema.release != NULL) {
        ArrowSchemaRelease(&encoder->schema);
    }
    flatcc_builder_clear(&encoder->builder);
    base_free(encoder);
}

lake_status arrow_ipc_encode_schema(struct arrow_ipc_encoder *encoder,
                                    struct arrow_ipc_message *out, struct lake_error *err)
{
    uint8_t *header = NULL;
    size_t size;
    struct arrow_ipc_message message = {0};
    lake_status status =
        arrow_schema_message_encode(&encoder->schema, &encoder->dictionaries, &header, &size, err);
    if (status == LAKE_OK) {
        status = base_arena_new(size + 1024, &message.memory, err);
    }
    if (status == LAKE_OK) {
        message.header = base_arena_alloc(message.memory, size);
        if (message.header == NULL) {
            status = base_fail_no_memory(err, size);
        }
    }
    if (status == LAKE_OK) {
        memcpy(message.header, header, size);
        message.header_bytes = size;
        *out = message;
    } else {
        arrow_ipc_message_fini(&message);
    }
    base_free(header);
    return status;
}

static bool build_record_batch(flatcc_builder_t *b, const struct arrow_body *body, int64_t length)
{
    return FB(RecordBatch_length_add)(b, length) == 0 &&
           FB(RecordBatch_nodes_create)(b, body->nodes, body->node_count) == 0 &&
           FB(RecordBatch_buffers_create)(b, body->buffers, body->buffer_count) == 0 &&
           (body->variadic_count == 0 || FB(RecordBatch_variadicBufferCounts_create)(
                                             b, body->variadic_counts, body->variadic_count) == 0);
}

static bool build_header(flatcc_builder_t *b, const struct arrow_body *body, int64_t length,
                         const int64_t *dictionary_id)
{
    if (!fb_message_start(b)) {
        return false;
    }
    bool ok;
    if (dictionary_id == NULL) {
        ok = FB(Message_header_RecordBatch_start)(b) == 0 && build_record_batch(b, body, length) &&
             FB(Message_header_RecordBatch_end)(b) == 0;
    } else {
        ok = FB(Message_header_DictionaryBatch_start)(b) == 0 &&
             FB(DictionaryBatch_id_add)(b, *dictionary_id) == 0 &&
             FB(DictionaryBatch_data_start)(b) == 0 && build_record_batch(b, body, length) &&
             FB(DictionaryBatch_data_end)(b) == 0 && FB(Message_header_DictionaryBatch_end)(b) == 0;
    }
    return ok && FB(Message_bodyLength_add)(b, (int64_t)body->body_bytes) == 0 &&
           FB(Message_end_as_root)(b) != 0;
}

/* Turns what was collected into a message that borrows `batch`'s buffers. */
static lake_status finish_message(struct arrow_ipc_encoder *encoder, struct arrow_body *body,
                                  int64_t length, const int64_t *dictionary_id,
                                  struct arrow_batch *batch, struct arrow_ipc_message *out,
                                  struct lake_error *err)
{
    flatcc_builder_t *b = &encoder->builder;
    flatcc_builder_reset(b);
    if (!build_header(b, body, length, dictionary_id)) {
        return base_fail_no_memory(err, 0);
    }
    size_t used = flatcc_builder_get_buffer_size(b);
    size_t padded = BASE_ALIGN_UP(used, (size_t)8);
    uint8_t *header = base_arena_alloc(body->memory, padded);
    struct arrow_ipc_part *parts = base_arena_calloc_array(
        body->memory, body->part_count == 0 ? 1 : body->part_count, sizeof(*parts));
    if (header == NULL || parts == NULL || flatcc_builder_copy_buffer(b, header, used) == NULL) {
        return base_fail_no_memory(err, padded);
    }
    memset(header + used, 0, padded - used);
    if (body->part_count > 0) {
        memcpy(parts, body->parts, body->part_count * sizeof(*parts));
    }
    *out = (struct arrow_ipc_message){
        .header = header,
        .header_bytes = padded,
        .parts = parts,
        .part_count = body->part_count,
        .body_bytes = body->body_bytes,
        .owner = arrow_batch_ref(batch),
        .memory = body->memory,
    };
    return LAKE_OK;
}

static lake_status encode_rows(struct arrow_ipc_encoder *encoder, struct arrow_batch *batch,
                               struct arrow_ipc_message *out, struct lake_error *err)
{
    const struct ArrowArray *array = arrow_batch_array(batch);
    struct arrow_body body = {0};
    lake_status status = base_arena_new(MAX_REWRITTEN_BYTES, &body.memory, err);
    if (status != LAKE_OK) {
        return status;
    }
    if (array->n_buffers > 0 && array->buffers[0] != NULL && array->null_count != 0 &&
        arrow_count_nulls(array->buffers[0], array->offset, array->length) > 0) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "a record batch cannot have null rows");
    }
    for (int64_t i = 0; status == LAKE_OK && i < encoder->schema.n_children; i++) {
        status = arrow_body_add(&body, encoder->schema.children[i], array->children[i],
                                array->offset, array->length, err);
    }
    if (status == LAKE_OK) {
        status = finish_message(encoder, &body, array->length, NULL, batch, out, err);
    }
    arrow_body_fini(&body);
    if (status != LAKE_OK) {
        base_arena_free(body.memory);
    }
    return status;
}

/* The messages of one batch while they come into being. */
struct message_list {
    struct arrow_ipc_message *items;
    size_t count;
    struct arrow_batch *batch;
    bool commit; /* remember what was sent */
};

static lake_status message_digest(const struct arrow_ipc_message *message,
                                  uint8_t out[BASE_SHA256_BYTES], struct lake_error *err)
{
    struct base_sha256 *hash = NULL;
    lake_status status = base_sha256_new(&hash, err);
    if (status == LAKE_OK) {
        status = base_sha256_update(hash, message->header, message->header_bytes, err);
    }
    for (size_t i = 0; status == LAKE_OK && i < message->part_count; i++) {
        const struct arrow_ipc_part *part = &message->parts[i];
        if (part->data != NULL) {
            status = base_sha256_update(hash, part->data, part->size, err);
        }
    }
    if (status == LAKE_OK) {
        status = base_sha256_final(hash, out, err);
    }
    base_sha256_free(hash);
    return status;
}

static size_t dictionary_index(const struct arrow_ipc_encoder *encoder,
                               const struct ArrowSchema *field)
{
    size_t i = 0;
    while (encoder->dictionaries.fields[i] != field) {
        i++;
    }
    return i;
}

/* True when `values` are the very buffers that were sent last. Only for values without children. */
static bool same_buffers(const struct sent_dictionary *sent, const struct ArrowArray *values)
{
    bool same = sent->owner != NULL && sent->offset == values->offset &&
                sent->length == values->length && values->n_children == 0 &&
                values->dictionary == NULL && values->n_buffers <= 3;
    for (int64_t i = 0; same && i < values->n_buffers; i++) {
        same = sent->buffers[i] == values->buffers[i];
    }
    return same;
}

static void remember_sent(struct sent_dictionary *sent, const struct ArrowArray *values,
                          const uint8_t digest[BASE_SHA256_BYTES], struct arrow_batch *batch)
{
    sent->sent = true;
    memcpy(sent->digest, digest, BASE_SHA256_BYTES);
    arrow_batch_unref(sent->owner);
    sent->owner = arrow_batch_ref(batch);
    sent->offset = values->offset;
    sent->length = values->length;
    for (int64_t i = 0; i < 3; i++) {
        sent->buffers[i] = i < values->n_buffers ? values->buffers[i] : NULL;
    }
}

/* Adds the values of one dictionary field, if they are not what the reader already has. */
static lake_status encode_dictionary(struct arrow_ipc_encoder *encoder,
                                     const struct ArrowSchema *field,
                                     const struct ArrowArray *values, struct message_list *list,
                                     struct lake_error *err)
{
    size_t index = dictionary_index(encoder, field);
    struct sent_dictionary *sent = &encoder->sent[index];
    struct arrow_ipc_message message;
    struct arrow_body body = {0};
    if (same_buffers(sent, values)) {
        return LAKE_OK;
    }
    lake_status status = base_arena_new(MAX_REWRITTEN_BYTES, &body.memory, err);
    if (status != LAKE_OK) {
        return status;
    }
    status = arrow_body_add(&body, field->dictionary, values, 0, values->length, err);
    if (status == LAKE_OK) {
        status = finish_message(encoder, &body, values->length, &encoder->dictionaries.ids[index],
                                list->batch, &message, err);
    }
    arrow_body_fini(&body);
    if (status != LAKE_OK) {
        base_arena_free(body.memory);
        return status;
    }
    uint8_t digest[BASE_SHA256_BYTES];
    status = message_digest(&message, digest, err);
    if (status != LAKE_OK) {
        arrow_ipc_message_fini(&message);
        return status;
    }
    bool unchanged = sent->sent && memcmp(sent->digest, digest, sizeof(digest)) == 0;
    if (list->commit) {
        remember_sent(sent, values, digest, list->batch);
    }
    if (unchanged) {
        arrow_ipc_message_fini(&message);
        return LAKE_OK;
    }
    list->items[list->count++] = message;
    return LAKE_OK;
}

/* Inner dictionaries come first: a reader needs them to build the outer ones. */
static lake_status encode_dictionaries(struct arrow_ipc_encoder *encoder,
                                       const struct ArrowSchema *field,
                                       const struct ArrowArray *array, struct message_list *list,
                                       struct lake_error *err)
{
    const struct ArrowSchema *values = field;
    if (field->dictionary != NULL) {
        values = field->dictionary;
        array = array->dictionary;
        if (array == NULL) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "column \"%s\" has no dictionary",
                             arrow_field_name(field));
        }
    }
    if (array->n_children != values->n_children) {
        return lake_fail(
            err, LAKE_INVALID_ARGUMENT, "column \"%s\" has %lld children, %lld were expected",
            arrow_field_name(field), (long long)array->n_children, (long long)values->n_children);
    }
    lake_status status = LAKE_OK;
    for (int64_t i = 0; status == LAKE_OK && i < values->n_children; i++) {
        status = encode_dictionaries(encoder, values->children[i], array->children[i], list, err);
    }
    if (status == LAKE_OK && field->dictionary != NULL) {
        status = encode_dictionary(encoder, field, array, list, err);
    }
    return status;
}

static void free_messages(struct arrow_ipc_message *messages, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        arrow_ipc_message_fini(&messages[i]);
    }
    base_free(messages);
}

static lake_status encode_all(struct arrow_ipc_encoder *encoder, struct arrow_batch *batch,
                              bool commit, struct arrow_ipc_message **out, size_t *count,
                              struct lake_error *err)
{
    const struct ArrowArray *array = arrow_batch_array(batch);
    if (array->n_children != encoder->schema.n_children) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the batch has %lld columns, its schema has %lld",
                         (long long)array->n_children, (long long)encoder->schema.n_children);
    }
    struct message_list list = {.batch = batch, .commit = commit};
    list.items = base_calloc_array(encoder->dictionaries.count + 1, sizeof(*list.items));
    if (list.items == NULL) {
        return base_fail_no_memory(err, sizeof(*list.items));
    }
    lake_status status = LAKE_OK;
    if (encoder->dictionaries.count > 0) {
        status = encode_dictionaries(encoder, &encoder->schema, array, &list, err);
    }
    if (status == LAKE_OK) {
        status = encode_rows(encoder, batch, &list.items[list.count], err);
    }
    if (status != LAKE_OK) {
        free_messages(list.items, list.count);
        return status;
    }
    *out = list.items;
    *count = list.count + 1;
    return LAKE_OK;
}

lake_status arrow_ipc_encode_batch(struct arrow_ipc_encoder *encoder, struct arrow_batch *batch,
                                   struct arrow_ipc_message **out, size_t *count,
                                   struct lake_error *err)
{
    return encode_all(encoder, batch, true, out, count, err);
}

lake_status arrow_ipc_batch_bytes(struct arrow_ipc_encoder *encoder, struct arrow_batch *batch,
                                  uint64_t *out, struct lake_error *err)
{
    /* Encoding copies nothing but shifted bitmaps and offsets, so the measure is the encoding. */
    struct arrow_ipc_message *messages;
    size_t count;
    lake_status status = encode_all(encoder, batch, false, &messages, &count, err);
    if (status != LAKE_OK) {
        return status;
    }
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += 8 + messages[i].header_bytes + messages[i].body_bytes;
    }
    free_messages(messages, count);
    *out = total;
    return LAKE_OK;
}

static lake_status append_frame(const uint8_t *header, size_t header_bytes, struct base_buffer *out,
                                struct lake_error *err)
{
    uint8_t prefix[8];
    base_store_u32le(prefix, 0xFFFFFFFFu);
    base_store_u32le(prefix + 4, (uint32_t)header_bytes);
    lake_status status = base_buffer_append(out, prefix, sizeof(prefix), err);
    return status == LAKE_OK ? base_buffer_append(out, header, header_bytes, err) : status;
}

lake_status arrow_ipc_message_append(const struct arrow_ipc_message *message,
                                     struct base_buffer *out, struct lake_error *err)
{
    lake_status status = append_frame(message->header, message->header_bytes, out, err);
    for (size_t i = 0; status == LAKE_OK && i < message->part_count; i++) {
        const struct arrow_ipc_part *part = &message->parts[i];
        status = part->data == NULL ? base_buffer_append_zeros(out, part->size, err)
                                    : base_buffer_append(out, part->data, part->size, err);
    }
    return status;
}

lake_status arrow_ipc_schema_to_bytes(const struct ArrowSchema *schema, struct base_buffer *out,
                                      struct lake_error *err)
{
    struct arrow_dictionaries dictionaries;
    lake_status status = arrow_dictionaries_collect(schema, &dictionaries, err);
    if (status != LAKE_OK) {
        return status;
    }
    uint8_t *header = NULL;
    size_t size;
    status = arrow_schema_message_encode(schema, &dictionaries, &header, &size, err);
    if (status == LAKE_OK) {
        status = append_frame(header, size, out, err);
        base_free(header);
    }
    arrow_dictionaries_fini(&dictionaries);
    return status;
}
