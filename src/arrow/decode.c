#include "decode_array.h"

#include <string.h>

struct arrow_ipc_decoder {
    struct arrow_ipc_limits limits;
    struct ArrowSchema schema; /* release NULL before the schema message */
    struct arrow_dictionaries dictionaries;
    struct arrow_batch **values; /* of each dictionary; NULL: none came yet */
    uint8_t *header;             /* an aligned copy of the header in hand */
    size_t header_capacity;
    bool of_file;        /* the schema is that of a footer */
    uint64_t join_bytes; /* what joining dictionaries and their deltas may still copy */
};

/* Every delta copies what the dictionary has grown to: without a bound many small ones after a
 * large dictionary would keep a server busy for hours. */
#define JOINS_OF_LARGEST_BODY 16

struct arrow_ipc_limits arrow_ipc_limits_default(void)
{
    return (struct arrow_ipc_limits){
        .max_metadata_bytes = (uint64_t)4 << 20,
        .max_body_bytes = (uint64_t)256 << 20,
        .allow_compressed = true,
    };
}

lake_status arrow_ipc_decoder_new(const struct arrow_ipc_limits *limits,
                                  struct arrow_ipc_decoder **out, struct lake_error *err)
{
    struct arrow_ipc_decoder *decoder = base_calloc_array(1, sizeof(*decoder));
    if (decoder == NULL) {
        return base_fail_no_memory(err, sizeof(*decoder));
    }
    decoder->limits = limits == NULL ? arrow_ipc_limits_default() : *limits;
    if (!base_u64_mul(decoder->limits.max_body_bytes, JOINS_OF_LARGEST_BODY,
                      &decoder->join_bytes)) {
        decoder->join_bytes = UINT64_MAX;
    }
    *out = decoder;
    return LAKE_OK;
}

static void forget_schema(struct arrow_ipc_decoder *decoder)
{
    for (size_t i = 0; decoder->values != NULL && i < decoder->dictionaries.count; i++) {
        arrow_batch_unref(decoder->values[i]);
    }
    base_free(decoder->values);
    decoder->values = NULL;
    arrow_dictionaries_fini(&decoder->dictionaries);
    if (decoder->schema.release != NULL) {
        ArrowSchemaRelease(&decoder->schema);
    }
}

void arrow_ipc_decoder_free(struct arrow_ipc_decoder *decoder)
{
    if (decoder != NULL) {
        forget_schema(decoder);
        base_free(decoder->header);
        base_free(decoder);
    }
}

const struct ArrowSchema *arrow_ipc_decoder_schema(const struct arrow_ipc_decoder *decoder)
{
    return decoder->schema.release == NULL ? NULL : &decoder->schema;
}

/* NULL for a message of another kind. */
static const void *schema_of_message(const void *message)
{
    FB(Message_table_t) root = FB(Message_as_root)(message);
    return FB(Message_header_type)(root) == FB(MessageHeader_Schema) ? FB(Message_header)(root)
                                                                     : NULL;
}

static lake_status decode_schema(struct arrow_ipc_decoder *decoder, const void *table,
                                 struct lake_error *err)
{
    if (decoder->schema.release != NULL) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the IPC stream has a second schema");
    }
    lake_status status =
        arrow_schema_table_decode(table, &decoder->schema, &decoder->dictionaries, err);
    if (status != LAKE_OK) {
        decoder->schema.release = NULL;
        return status;
    }
    decoder->values = base_calloc_array(decoder->dictionaries.count + 1, sizeof(*decoder->values));
    if (decoder->values == NULL) {
        forget_schema(decoder);
        return base_fail_no_memory(err, sizeof(*decoder->values));
    }
    return LAKE_OK;
}

lake_status arrow_ipc_decoder_start_file(struct arrow_ipc_decoder *decoder, const void *schema,
                                         struct lake_error *err)
{
    decoder->of_file = true;
    return decode_schema(decoder, schema, err);
}

static lake_status start_reading(struct arrow_ipc_decoder *decoder, FB(RecordBatch_table_t) batch,
                                 struct arrow_body_owner *owner, struct lake_bytes body,
                                 struct arrow_reading *out, struct lake_error *err)
{
    if (batch == NULL) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "an IPC message has no record batch");
    }
    struct arrow_reading reading = {
        .nodes = FB(RecordBatch_nodes)(batch),
        .buffers = FB(RecordBatch_buffers)(batch),
        .variadic_counts = FB(RecordBatch_variadicBufferCounts)(batch),
        .body = body,
        .codec = -1,
        .decompressed_left = decoder->limits.max_body_bytes,
        .owner = owner,
        .dictionaries = &decoder->dictionaries,
        .values = decoder->values,
    };
    reading.node_count = FB(FieldNode_vec_len)(reading.nodes);
    reading.buffer_count = FB(Buffer_vec_len)(reading.buffers);
    reading.variadic_count = flatbuffers_int64_vec_len(reading.variadic_counts);
    FB(BodyCompression_table_t) compression = FB(RecordBatch_compression)(batch);
    if (compression != NULL) {
        if (!decoder->limits.allow_compressed) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "compressed Arrow IPC is not accepted here: send it uncompressed");
        }
        reading.codec = FB(BodyCompression_codec)(compression);
        if ((reading.codec != FB(CompressionType_LZ4_FRAME) &&
             reading.codec != FB(CompressionType_ZSTD)) ||
            FB(BodyCompression_method)(compression) != FB(BodyCompressionMethod_BUFFER)) {
            return lake_fail(err, LAKE_UNIMPLEMENTED, "IPC compression %d is not known",
                             reading.codec);
        }
    }
    *out = reading;
    return LAKE_OK;
}

static lake_status check_all_read(const struct arrow_reading *reading, struct lake_error *err)
{
    if (reading->next_node != reading->node_count ||
        reading->next_buffer != reading->buffer_count) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "an IPC message has %zu nodes and %zu buffers, its schema has %zu and %zu",
                         reading->node_count, reading->buffer_count, reading->next_node,
                         reading->next_buffer);
    }
    return LAKE_OK;
}

/* Gives dictionary `index` new values: the decoded ones, or the present ones and these. */
static lake_status set_dictionary(struct arrow_ipc_decoder *decoder, size_t index, bool delta,
                                  struct arrow_batch *values, struct lake_error *err)
{
    struct arrow_batch *next = values;
    if (decoder->of_file && !delta && decoder->values[index] != NULL) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "an Arrow file replaces a dictionary, which only streams may");
    }
    if (delta && decoder->values[index] != NULL) {
        struct ArrowArray joined;
        lake_status status =
            arrow_concat(decoder->dictionaries.fields[index]->dictionary,
                         arrow_batch_array(decoder->values[index]), arrow_batch_array(values),
                         &decoder->join_bytes, &joined, err);
        if (status != LAKE_OK) {
            return status;
        }
        status = arrow_batch_new(&joined, &next, err);
        if (status != LAKE_OK) {
            return status;
        }
    } else {
        arrow_batch_ref(next);
    }
    arrow_batch_unref(decoder->values[index]);
    decoder->values[index] = next;
    return LAKE_OK;
}

static lake_status decode_dictionary(struct arrow_ipc_decoder *decoder,
                                     FB(DictionaryBatch_table_t) header,
                                     struct arrow_body_owner *owner, struct lake_bytes body,
                                     struct lake_error *err)
{
    const struct arrow_dictionaries *dictionaries = &decoder->dictionaries;
    int64_t id = FB(DictionaryBatch_id)(header);
    FB(RecordBatch_table_t) batch = FB(DictionaryBatch_data)(header);
    size_t first = 0;
    while (first < dictionaries->count && dictionaries->ids[first] != id) {
        first++;
    }
    if (first == dictionaries->count) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the schema has no dictionary %lld",
                         (long long)id);
    }
    const struct ArrowSchema *field = dictionaries->fields[first]->dictionary;
    struct arrow_reading reading;
    struct ArrowArray array = {.release = NULL};
    struct arrow_batch *values = NULL;
    lake_status status = start_reading(decoder, batch, owner, body, &reading, err);
    if (status == LAKE_OK) {
        status = arrow_read_array(&reading, field, &array, err);
    }
    if (status == LAKE_OK) {
        status = check_all_read(&reading, err);
    }
    if (status == LAKE_OK && array.length != FB(RecordBatch_length)(batch)) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "dictionary %lld has %lld rows and claims %lld", (long long)id,
                           (long long)array.length, (long long)FB(RecordBatch_length)(batch));
    }
    if (status == LAKE_OK) {
        status = arrow_validate_structure(field, &array, err);
    }
    if (status == LAKE_OK) {
        status = arrow_batch_new(&array, &values, err);
    }
    /* Several fields may share one dictionary, if they agree on what it is. */
    for (size_t i = first; status == LAKE_OK && i < dictionaries->count; i++) {
        if (dictionaries->ids[i] != id) {
            continue;
        }
        status = arrow_schema_equal(dictionaries->fields[i]->dictionary, field, NULL, 0)
                     ? set_dictionary(decoder, i, FB(DictionaryBatch_isDelta)(header), values, err)
                     : lake_fail(err, LAKE_INVALID_ARGUMENT,
                                 "two columns share dictionary %lld with different types",
                                 (long long)id);
    }
    arrow_batch_unref(values);
    if (array.release != NULL) {
        ArrowArrayRelease(&array);
    }
    return status;
}

/* A struct array around the columns: its release goes through the private root. */
static lake_status new_root(int64_t columns, int64_t length, struct ArrowArray *out,
                            struct lake_error *err)
{
    struct ArrowArray root;
    int code = ArrowArrayInitFromType(&root, NANOARROW_TYPE_STRUCT);
    if (code == NANOARROW_OK) {
        code = ArrowArrayAllocateChildren(&root, columns);
        if (code != NANOARROW_OK) {
            ArrowArrayRelease(&root);
        }
    }
    if (code != NANOARROW_OK) {
        return arrow_fail_code(err, code, NULL, "making a record batch");
    }
    for (int64_t i = 0; i < columns; i++) {
        root.children[i]->release = NULL;
    }
    root.length = length;
    root.null_count = 0;
    *out = root;
    return LAKE_OK;
}

static lake_status decode_batch(struct arrow_ipc_decoder *decoder, FB(RecordBatch_table_t) batch,
                                struct arrow_body_owner *owner, struct lake_bytes body,
                                struct ArrowArray *out, struct lake_error *err)
{
    struct arrow_reading reading;
    lake_status status = start_reading(decoder, batch, owner, body, &reading, err);
    if (status != LAKE_OK) {
        return status;
    }
    int64_t length = FB(RecordBatch_length)(batch);
    if (length < 0 || length > ARROW_MAX_ROWS) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a record batch claims %lld rows",
                         (long long)length);
    }
    struct ArrowArray root;
    status = new_root(decoder->schema.n_children, length, &root, err);
    if (status != LAKE_OK) {
        return status;
    }
    for (int64_t i = 0; status == LAKE_OK && i < root.n_children; i++) {
        const struct ArrowSchema *field = decoder->schema.children[i];
        status = arrow_read_array(&reading, field, root.children[i], err);
        if (status == LAKE_OK && root.children[i]->length != length) {
            status = lake_fail(
                err, LAKE_INVALID_ARGUMENT, "column \"%s\" has %lld rows in a batch of %lld",
                arrow_field_name(field), (long long)root.children[i]->length, (long long)length);
        }
    }
    if (status == LAKE_OK) {
        status = check_all_read(&reading, err);
    }
    if (status == LAKE_OK) {
        status = arrow_validate_structure(&decoder->schema, &root, err);
    }
    if (status != LAKE_OK) {
        ArrowArrayRelease(&root);
        return status;
    }
    *out = root;
    return LAKE_OK;
}

/* Verifies the header in an aligned copy, which decoding then reads. */
static lake_status take_header(struct arrow_ipc_decoder *decoder, struct lake_bytes header,
                               uint64_t *body_bytes, struct lake_error *err)
{
    if (header.size > decoder->limits.max_metadata_bytes) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "an IPC message has %zu bytes of metadata, the limit is %llu", header.size,
                         (unsigned long long)decoder->limits.max_metadata_bytes);
    }
    if (header.size > decoder->header_capacity) {
        size_t capacity = BASE_MAX(BASE_ALIGN_UP(header.size, (size_t)64), (size_t)1024);
        uint8_t *grown = base_alloc(capacity);
        if (grown == NULL) {
            return base_fail_no_memory(err, capacity);
        }
        base_free(decoder->header);
        decoder->header = grown;
        decoder->header_capacity = capacity;
    }
    if (header.size > 0) {
        memcpy(decoder->header, header.data, header.size);
    }
    return arrow_frame_body_bytes((struct lake_bytes){decoder->header, header.size},
                                  decoder->limits.max_body_bytes, body_bytes, err);
}

static lake_status decode_message(struct arrow_ipc_decoder *decoder, struct arrow_body_owner *owner,
                                  struct lake_bytes body, enum arrow_ipc_kind *kind,
                                  struct ArrowArray *out, struct lake_error *err)
{
    FB(Message_table_t) message = FB(Message_as_root)(decoder->header);
    flatbuffers_generic_t header = FB(Message_header)(message);
    FB(MessageHeader_union_type_t) type = FB(Message_header_type)(message);
    if (type != FB(MessageHeader_Schema) && decoder->schema.release == NULL) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the IPC stream does not start with its schema");
    }
    lake_status status;
    switch (type) {
    case FB(MessageHeader_Schema):
        *kind = ARROW_IPC_SCHEMA;
        return decode_schema(decoder, header, err);
    case FB(MessageHeader_DictionaryBatch):
        *kind = ARROW_IPC_DICTIONARY;
        return decode_dictionary(decoder, (FB(DictionaryBatch_table_t))header, owner, body, err);
    case FB(MessageHeader_RecordBatch):
        status = decode_batch(decoder, (FB(RecordBatch_table_t))header, owner, body, out, err);
        if (status == LAKE_OK) {
            *kind = ARROW_IPC_BATCH;
        }
        return status;
    default:
        return lake_fail(err, LAKE_UNIMPLEMENTED, "IPC messages of type %d are not read",
                         (int)type);
    }
}

lake_status arrow_ipc_decode(struct arrow_ipc_decoder *decoder, struct lake_bytes header,
                             struct arrow_ipc_body *body, enum arrow_ipc_kind *kind,
                             struct ArrowArray *out, struct lake_error *err)
{
    struct arrow_ipc_body taken = body == NULL ? (struct arrow_ipc_body){0} : *body;
    if (body != NULL) {
        *body = (struct arrow_ipc_body){0};
    }
    uint64_t body_bytes;
    struct arrow_body_owner *owner;
    lake_status status = arrow_body_owner_new(&taken, &owner, err);
    if (status != LAKE_OK) {
        return status;
    }
    status = take_header(decoder, header, &body_bytes, err);
    if (status == LAKE_OK && body_bytes > taken.bytes.size) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "an IPC message claims a body of %llu bytes and has %zu",
                           (unsigned long long)body_bytes, taken.bytes.size);
    }
    if (status == LAKE_OK) {
        struct lake_bytes bytes = {taken.bytes.data, (size_t)body_bytes};
        status = decode_message(decoder, owner, bytes, kind, out, err);
    }
    arrow_body_owner_unref(owner);
    return status;
}

lake_status arrow_ipc_schema_from_bytes(struct lake_bytes bytes, struct ArrowSchema *out,
                                        struct lake_error *err)
{
    enum arrow_frame_kind kind;
    uint32_t size;
    struct arrow_ipc_limits limits = arrow_ipc_limits_default();
    if (bytes.size < 8) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "an IPC schema has %zu bytes, at least 8 were expected", bytes.size);
    }
    lake_status status =
        arrow_frame_prefix(bytes.data, limits.max_metadata_bytes, &kind, &size, err);
    if (status != LAKE_OK) {
        return status;
    }
    if (kind == ARROW_FRAME_END || size > bytes.size - 8) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "an IPC schema claims %u bytes and has %zu",
                         size, bytes.size - 8);
    }
    struct arrow_ipc_decoder *decoder;
    status = arrow_ipc_decoder_new(&limits, &decoder, err);
    if (status != LAKE_OK) {
        return status;
    }
    uint64_t body_bytes;
    status = take_header(decoder, (struct lake_bytes){bytes.data + 8, size}, &body_bytes, err);
    if (status == LAKE_OK) {
        status = decode_schema(decoder, schema_of_message(decoder->header), err);
    }
    if (status == LAKE_OK) {
        ArrowSchemaMove(&decoder->schema, out);
    }
    arrow_ipc_decoder_free(decoder);
    return status;
}
