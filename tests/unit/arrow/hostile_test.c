/* IPC from outside that is wrong: each lie about a length, an offset or a shape is refused. */
#include "arrow_testing.h"
#include "flatbuffer.h"

#include <stdlib.h>

/* A record-batch message over struct<n: int32, text: utf8> with chosen nodes and buffers. */
struct forged {
    int64_t rows;
    FB(FieldNode_t) nodes[4];
    size_t node_count;
    FB(Buffer_t) buffers[8];
    size_t buffer_count;
    int64_t body_length;
    bool compressed;
};

/* Three rows that are right: 12 bytes of n at 0, offsets at 64, "abcdef" at 128. */
static struct forged good(void)
{
    return (struct forged){
        .rows = 3,
        .nodes = {{3, 0}, {3, 0}},
        .node_count = 2,
        .buffers = {{0, 0}, {0, 12}, {0, 0}, {64, 16}, {128, 6}},
        .buffer_count = 5,
        .body_length = 192,
    };
}

static void body_bytes(uint8_t body[192])
{
    static const int32_t n[] = {1, 2, 3};
    static const int32_t offsets[] = {0, 2, 4, 6};
    memset(body, 0, 192);
    memcpy(body, n, sizeof(n));
    memcpy(body + 64, offsets, sizeof(offsets));
    memcpy(body + 128, "abcdef", 6);
}

static void *forge(const struct forged *forged, size_t *size)
{
    flatcc_builder_t b;
    assert_int_equal(flatcc_builder_init(&b), 0);
    assert_true(fb_message_start(&b));
    assert_int_equal(FB(Message_header_RecordBatch_start)(&b), 0);
    FB(RecordBatch_length_add)(&b, forged->rows);
    FB(RecordBatch_nodes_create)(&b, forged->nodes, forged->node_count);
    FB(RecordBatch_buffers_create)(&b, forged->buffers, forged->buffer_count);
    if (forged->compressed) {
        FB(RecordBatch_compression_create)
        (&b, FB(CompressionType_ZSTD), FB(BodyCompressionMethod_BUFFER));
    }
    FB(Message_header_RecordBatch_end)(&b);
    FB(Message_bodyLength_add)(&b, forged->body_length);
    assert_int_not_equal(FB(Message_end_as_root)(&b), 0);
    void *header = flatcc_builder_finalize_buffer(&b, size);
    flatcc_builder_clear(&b);
    return header;
}

static struct arrow_ipc_decoder *start_decoder(const struct arrow_ipc_limits *limits)
{
    struct ArrowSchema schema;
    struct lake_error err = {0};
    struct arrow_ipc_encoder *encoder;
    struct arrow_ipc_decoder *decoder;
    struct arrow_ipc_message message;
    enum arrow_ipc_kind kind;
    make_schema(&schema, "n", "int32", "text", "utf8", NULL);
    check(arrow_ipc_encoder_new(&schema, &encoder, &err), &err);
    check(arrow_ipc_encode_schema(encoder, &message, &err), &err);
    check(arrow_ipc_decoder_new(limits, &decoder, &err), &err);
    check(arrow_ipc_decode(decoder, (struct lake_bytes){message.header, message.header_bytes}, NULL,
                           &kind, NULL, &err),
          &err);
    assert_int_equal(kind, ARROW_IPC_SCHEMA);
    arrow_ipc_message_fini(&message);
    arrow_ipc_encoder_free(encoder);
    ArrowSchemaRelease(&schema);
    return decoder;
}

static int released;

static void count_release(void *context)
{
    free(context);
    released++;
}

static lake_status decode_body(const struct forged *forged, const uint8_t *body, size_t body_size,
                               const struct arrow_ipc_limits *limits, struct lake_error *err)
{
    struct arrow_ipc_decoder *decoder = start_decoder(limits);
    struct ArrowArray array = {.release = NULL};
    enum arrow_ipc_kind kind;
    size_t size;
    void *header = forge(forged, &size);
    void *copy = malloc(body_size + 1);
    memcpy(copy, body, body_size);
    struct arrow_ipc_body taken = {{copy, body_size}, count_release, copy};
    released = 0;
    lake_status status =
        arrow_ipc_decode(decoder, (struct lake_bytes){header, size}, &taken, &kind, &array, err);
    if (status == LAKE_OK) {
        assert_int_equal(released, 0);
        assert_int_equal(array.length, forged->rows);
        ArrowArrayRelease(&array);
    }
    assert_int_equal(released, 1); /* the body is let go of in every case */
    free(header);
    arrow_ipc_decoder_free(decoder);
    return status;
}

static lake_status decode(const struct forged *forged, struct lake_error *err)
{
    uint8_t body[192];
    body_bytes(body);
    return decode_body(forged, body, sizeof(body), NULL, err);
}

static void the_forgery_that_is_right_is_read(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct forged forged = good();
    check(decode(&forged, &err), &err);
}

/* The first two are those that overflow in other readers: offset + length wraps to a small number.
 */
static void buffers_outside_the_body_are_refused(void **state)
{
    (void)state;
    const FB(Buffer_t) lies[] = {
        {INT64_MAX - 7, 24}, {8, INT64_MAX}, {-8, 16}, {INT64_MIN, INT64_MAX}, {0, -1},
        {192, 12},           {184, 12},      {193, 0}, {INT64_MAX, 0},         {0, 193},
        {0, INT64_MIN},
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(lies); i++) {
        struct lake_error err = {0};
        struct forged forged = good();
        forged.buffers[1] = lies[i];
        assert_int_equal(decode(&forged, &err), LAKE_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "column \"n\""));
    }
}

static void lengths_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    const int64_t rows[] = {-1, 4, 2, INT64_MAX, INT64_MIN, (int64_t)1 << 61};
    for (size_t i = 0; i < BASE_ARRAY_LEN(rows); i++) {
        struct lake_error err = {0};
        struct forged forged = good();
        forged.nodes[0].length = rows[i];
        assert_int_equal(decode(&forged, &err), LAKE_INVALID_ARGUMENT);
        forged = good();
        forged.nodes[1].length = rows[i];
        assert_int_equal(decode(&forged, &err), LAKE_INVALID_ARGUMENT);
        forged = good();
        forged.rows = rows[i];
        assert_int_equal(decode(&forged, &err), LAKE_INVALID_ARGUMENT);
    }
    struct lake_error err = {0};
    struct forged forged = good();
    forged.rows = forged.nodes[0].length = forged.nodes[1].length = 4;
    assert_int_equal(decode(&forged, &err), LAKE_INVALID_ARGUMENT); /* buffers hold three */
}

static void wrong_counts_of_nodes_and_buffers_are_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < 4; n++) {
        struct lake_error err = {0};
        struct forged forged = good();
        forged.node_count = n;
        assert_int_equal(decode(&forged, &err), n == 2 ? LAKE_OK : LAKE_INVALID_ARGUMENT);
    }
    for (size_t n = 0; n < 8; n++) {
        struct lake_error err = {0};
        struct forged forged = good();
        forged.buffer_count = n;
        assert_int_equal(decode(&forged, &err), n == 5 ? LAKE_OK : LAKE_INVALID_ARGUMENT);
    }
}

static void nulls_without_a_bitmap_are_refused(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct forged forged = good();
    forged.nodes[0].null_count = 1;
    assert_int_equal(decode(&forged, &err), LAKE_INVALID_ARGUMENT);
    forged.buffers[0] = (FB(Buffer_t)){0, 1};
    check(decode(&forged, &err), &err);
    forged.buffers[0] = (FB(Buffer_t)){0, 0};
    forged.nodes[0].null_count = -1; /* unknown, and no bitmap: none */
    check(decode(&forged, &err), &err);
    forged.nodes[0].null_count = 4;
    assert_int_equal(decode(&forged, &err), LAKE_INVALID_ARGUMENT);
    forged.nodes[0].null_count = -2;
    assert_int_equal(decode(&forged, &err), LAKE_INVALID_ARGUMENT);
}

/* The first byte of the body is 1 (the number 1): one valid row and two nulls, whatever is claimed.
 */
static void the_null_count_is_counted_not_believed(void **state)
{
    (void)state;
    for (int64_t claimed = 1; claimed <= 3; claimed++) {
        struct lake_error err = {0};
        struct forged forged = good();
        struct ArrowArray array;
        enum arrow_ipc_kind kind;
        size_t size;
        uint8_t body[192];
        body_bytes(body);
        forged.nodes[0].null_count = claimed;
        forged.buffers[0] = (FB(Buffer_t)){0, 1};
        void *header = forge(&forged, &size);
        struct arrow_ipc_decoder *decoder = start_decoder(NULL);
        struct arrow_ipc_body taken = {{body, sizeof(body)}, NULL, NULL};
        check(arrow_ipc_decode(decoder, (struct lake_bytes){header, size}, &taken, &kind, &array,
                               &err),
              &err);
        assert_int_equal(array.children[0]->null_count, 2);
        ArrowArrayRelease(&array);
        arrow_ipc_decoder_free(decoder);
        free(header);
    }
}

static void offsets_that_go_backwards_or_too_far_are_refused(void **state)
{
    (void)state;
    const int32_t lies[][4] = {
        {0, 4, 2, 6},         {-1, 2, 4, 6}, {0, 2, 4, 7},
        {0, 2, 4, INT32_MAX}, {0, 2, 4, -1}, {5, 4, 3, 2},
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(lies); i++) {
        struct lake_error err = {0};
        struct forged forged = good();
        uint8_t body[192];
        body_bytes(body);
        memcpy(body + 64, lies[i], 16);
        assert_int_equal(decode_body(&forged, body, sizeof(body), NULL, &err),
                         LAKE_INVALID_ARGUMENT);
    }
}

static void a_body_that_is_cut_or_too_large_is_refused(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct forged forged = good();
    struct arrow_ipc_limits limits = arrow_ipc_limits_default();
    uint8_t body[192];
    body_bytes(body);
    assert_int_equal(decode_body(&forged, body, 191, NULL, &err), LAKE_INVALID_ARGUMENT);
    limits.max_body_bytes = 191;
    assert_int_equal(decode_body(&forged, body, 192, &limits, &err), LAKE_RESOURCE_EXHAUSTED);
    limits.max_body_bytes = 192;
    check(decode_body(&forged, body, 192, &limits, &err), &err);
    forged.body_length = -1;
    assert_int_equal(decode(&forged, &err), LAKE_INVALID_ARGUMENT);
}

/* A buffer that claims 2^40 bytes once decompressed costs nothing but the refusal. */
static void a_decompression_bomb_is_refused_before_memory_is_taken(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct forged forged = good();
    uint8_t body[192];
    struct arrow_ipc_limits limits = arrow_ipc_limits_default();
    body_bytes(body);
    forged.compressed = true;
    base_store_u64le(body, (uint64_t)1 << 40);
    assert_int_equal(decode_body(&forged, body, sizeof(body), NULL, &err), LAKE_RESOURCE_EXHAUSTED);
    base_store_u64le(body, (uint64_t)-2);
    assert_int_equal(decode_body(&forged, body, sizeof(body), NULL, &err), LAKE_RESOURCE_EXHAUSTED);
    base_store_u64le(body, 12); /* four bytes that are not zstd */
    assert_int_equal(decode_body(&forged, body, sizeof(body), NULL, &err), LAKE_INVALID_ARGUMENT);
    limits.allow_compressed = false;
    assert_int_equal(decode_body(&forged, body, sizeof(body), &limits, &err),
                     LAKE_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "uncompressed"));
}

static void a_body_that_is_not_aligned_is_read(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct forged forged = good();
    uint8_t body[193];
    struct ArrowArray array;
    enum arrow_ipc_kind kind;
    size_t size;
    body_bytes(body + 1);
    void *header = forge(&forged, &size);
    struct arrow_ipc_decoder *decoder = start_decoder(NULL);
    for (size_t shift = 0; shift < 2; shift++) {
        struct arrow_ipc_body taken = {{body + shift, 192}, NULL, NULL};
        memmove(body + shift, body + 1, 192);
        check(arrow_ipc_decode(decoder, (struct lake_bytes){header, size}, &taken, &kind, &array,
                               &err),
              &err);
        const int32_t *n = array.children[0]->buffers[1];
        assert_int_equal((uintptr_t)n % 4, 0);
        assert_int_equal(n[2], 3);
        ArrowArrayRelease(&array);
        memmove(body + 1, body + shift, 192);
    }
    arrow_ipc_decoder_free(decoder);
    free(header);
}

static void headers_that_are_not_messages_are_refused(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct arrow_ipc_limits limits = arrow_ipc_limits_default();
    struct arrow_ipc_decoder *decoder;
    enum arrow_ipc_kind kind;
    static uint8_t bytes[4096];
    struct forged forged = good();
    size_t size;
    check(arrow_ipc_decoder_new(NULL, &decoder, &err), &err);
    for (size_t n = 0; n < 64; n++) {
        memset(bytes, (int)n, sizeof(bytes));
        assert_int_equal(
            arrow_ipc_decode(decoder, (struct lake_bytes){bytes, n}, NULL, &kind, NULL, &err),
            LAKE_INVALID_ARGUMENT);
    }
    /* A batch before the schema. */
    void *header = forge(&forged, &size);
    assert_int_equal(
        arrow_ipc_decode(decoder, (struct lake_bytes){header, size}, NULL, &kind, NULL, &err),
        LAKE_INVALID_ARGUMENT);
    arrow_ipc_decoder_free(decoder);
    limits.max_metadata_bytes = size - 1;
    check(arrow_ipc_decoder_new(&limits, &decoder, &err), &err);
    assert_int_equal(
        arrow_ipc_decode(decoder, (struct lake_bytes){header, size}, NULL, &kind, NULL, &err),
        LAKE_RESOURCE_EXHAUSTED);
    arrow_ipc_decoder_free(decoder);
    free(header);
}

static void every_cut_of_a_stream_is_refused_or_ends_cleanly(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct base_buffer out;
    struct ArrowSchema schema;
    uint8_t body[192];
    size_t header_size;
    base_buffer_init(&out, 1 << 16);
    make_schema(&schema, "n", "int32", "text", "utf8", NULL);
    check(arrow_ipc_schema_to_bytes(&schema, &out, &err), &err);
    size_t schema_size = out.size;
    struct forged forged = good();
    void *header = forge(&forged, &header_size);
    uint8_t prefix[8] = {0xFF, 0xFF, 0xFF, 0xFF};
    base_store_u32le(prefix + 4, (uint32_t)header_size);
    check(base_buffer_append(&out, prefix, 8, &err), &err);
    check(base_buffer_append(&out, header, header_size, &err), &err);
    body_bytes(body);
    check(base_buffer_append(&out, body, sizeof(body), &err), &err);
    for (size_t n = 0; n <= out.size; n++) {
        struct ArrowArrayStream stream;
        struct ArrowArray array = {.release = NULL};
        void *copy = malloc(n + 1); /* exactly n bytes are readable, which the sanitizer sees */
        memcpy(copy, out.data, n);
        lake_status status =
            arrow_ipc_open_bytes((struct lake_bytes){copy, n}, NULL, &stream, &err);
        assert_int_equal(status, n < schema_size ? LAKE_INVALID_ARGUMENT : LAKE_OK);
        if (status == LAKE_OK) {
            int code = stream.get_next(&stream, &array);
            assert_int_equal(code == 0, n == schema_size || n == out.size);
            if (array.release != NULL) {
                ArrowArrayRelease(&array);
            }
            ArrowArrayStreamRelease(&stream);
        }
        free(copy);
    }
    free(header);
    base_buffer_fini(&out);
    ArrowSchemaRelease(&schema);
}

/* A file of one batch, whose column is 1, 2, 3. */
static void make_file(struct base_buffer *out)
{
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct arrow_batch *batch;
    struct lake_error err = {0};
    make_schema(&schema, "n", "int32", NULL);
    assert_int_equal(ArrowArrayInitFromSchema(&array, &schema, NULL), 0);
    assert_int_equal(ArrowArrayStartAppending(&array), 0);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(ArrowArrayAppendInt(array.children[0], i), 0);
        assert_int_equal(ArrowArrayFinishElement(&array), 0);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&array, NULL), 0);
    check(arrow_batch_new(&array, &batch, &err), &err);
    check(arrow_ipc_file_append(&schema, batch, out, &err), &err);
    arrow_batch_unref(batch);
    ArrowSchemaRelease(&schema);
}

/* What `size` bytes of a file give: the rows of its batches, or -1. */
static int64_t rows_of_file(const uint8_t *bytes, size_t size)
{
    struct ArrowArrayStream stream;
    struct lake_error err = {0};
    int64_t rows = 0;
    uint8_t *copy = malloc(size + 1); /* no more is readable, which the sanitizer sees */
    memcpy(copy, bytes, size);
    lake_status status = arrow_ipc_open_bytes((struct lake_bytes){copy, size}, NULL, &stream, &err);
    assert_true(status == LAKE_OK || status == LAKE_INVALID_ARGUMENT ||
                status == LAKE_RESOURCE_EXHAUSTED || status == LAKE_UNIMPLEMENTED);
    while (status == LAKE_OK && rows >= 0) {
        struct ArrowArray array;
        int code = stream.get_next(&stream, &array);
        if (code == 0 && array.release == NULL) {
            break;
        }
        rows = code == 0 ? rows + array.length : -1;
        if (code == 0) {
            ArrowArrayRelease(&array);
        } else {
            assert_non_null(stream.get_last_error(&stream));
        }
    }
    if (status == LAKE_OK) {
        ArrowArrayStreamRelease(&stream);
    }
    free(copy);
    return status == LAKE_OK ? rows : -1;
}

static void every_cut_of_a_file_is_refused(void **state)
{
    (void)state;
    struct base_buffer file;
    base_buffer_init(&file, 1 << 16);
    make_file(&file);
    assert_int_equal(rows_of_file(file.data, file.size), 3);
    for (size_t n = 0; n < file.size; n++) {
        assert_int_equal(rows_of_file(file.data, n), -1);
    }
    base_buffer_fini(&file);
}

/* What it says of the file's messages counts, whatever else there is; what is not there is not
 * read.
 */
static void a_file_is_read_by_its_footer(void **state)
{
    (void)state;
    struct base_buffer file;
    base_buffer_init(&file, 1 << 16);
    make_file(&file);
    size_t footer_bytes = base_load_u32le(file.data + file.size - 10);
    uint8_t *footer = file.data + file.size - 10 - footer_bytes;
    size_t schema_bytes = 8 + base_load_u32le(file.data + 12);
    int64_t at = (int64_t)(8 + schema_bytes);
    uint8_t *block = NULL; /* offset, size of the header, of the body */
    for (uint8_t *p = footer; p + 24 <= footer + footer_bytes; p++) {
        block = base_load_u64le(p) == (uint64_t)at && block == NULL ? p : block;
    }
    assert_non_null(block);
    memset(file.data + 8, 0xAA, schema_bytes);
    assert_int_equal(rows_of_file(file.data, file.size), 3);
    const int64_t end = (int64_t)(footer - file.data);
    const int64_t wrong[] = {-1,      INT64_MIN, INT64_MAX, end,     end - 1,
                             end - 8, at + 1,    0,         at + 64, (int64_t)file.size};
    for (size_t i = 0; i < BASE_ARRAY_LEN(wrong); i++) {
        base_store_u64le(block, (uint64_t)wrong[i]);
        assert_int_equal(rows_of_file(file.data, file.size), -1);
    }
    base_store_u64le(block, (uint64_t)at);
    int refused = 0;
    for (uint8_t *p = footer; p < footer + footer_bytes; p++) {
        uint8_t good = *p;
        for (int bit = 0; bit < 8; bit++) {
            *p = (uint8_t)(good ^ (1 << bit));
            int64_t rows = rows_of_file(file.data, file.size);
            assert_true(rows == 3 || rows == 0 || rows == -1);
            refused += rows == -1;
        }
        *p = good;
    }
    assert_true(refused > 100);
    assert_int_equal(rows_of_file(file.data, file.size), 3);
    base_buffer_fini(&file);
}

static void schema_bytes_come_back_and_damage_is_refused(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct base_buffer out;
    struct ArrowSchema schema;
    struct ArrowSchema again;
    base_buffer_init(&out, 1 << 16);
    make_schema(&schema, "a", "dictionary<int16, struct<x: dictionary<int8, utf8>, y: FILE>>", "b",
                "timestamp[ns, UTC]!", "c", "map<utf8, float[3]>", NULL);
    check(arrow_ipc_schema_to_bytes(&schema, &out, &err), &err);
    check(arrow_ipc_schema_from_bytes(base_buffer_view(&out), &again, &err), &err);
    again.flags = schema.flags;
    char path[64];
    if (!arrow_schema_equal(&schema, &again, path, sizeof(path))) {
        fail_msg("differs at %s", path);
    }
    ArrowSchemaRelease(&again);
    for (size_t n = 0; n < out.size; n++) {
        assert_int_equal(
            arrow_ipc_schema_from_bytes((struct lake_bytes){out.data, n}, &again, &err),
            LAKE_INVALID_ARGUMENT);
    }
    base_buffer_fini(&out);
    ArrowSchemaRelease(&schema);
}

static void a_schema_that_nests_too_deep_is_refused(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct ArrowSchema schema;
    struct base_buffer out;
    base_buffer_init(&out, 1 << 20);
    make_schema(&schema, "a", "int8", NULL);
    struct ArrowSchema *at = schema.children[0];
    for (int i = 0; i < 80; i++) {
        ArrowSchemaRelease(at);
        ArrowSchemaInit(at);
        assert_int_equal(ArrowSchemaSetTypeStruct(at, 1), 0);
        assert_int_equal(ArrowSchemaSetName(at, "a"), 0);
        at = at->children[0];
    }
    assert_int_equal(ArrowSchemaSetType(at, NANOARROW_TYPE_INT8), 0);
    assert_int_equal(ArrowSchemaSetName(at, "leaf"), 0);
    assert_int_equal(arrow_ipc_schema_to_bytes(&schema, &out, &err), LAKE_INVALID_ARGUMENT);
    base_buffer_fini(&out);
    ArrowSchemaRelease(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_forgery_that_is_right_is_read),
        cmocka_unit_test(buffers_outside_the_body_are_refused),
        cmocka_unit_test(lengths_that_do_not_fit_are_refused),
        cmocka_unit_test(wrong_counts_of_nodes_and_buffers_are_refused),
        cmocka_unit_test(nulls_without_a_bitmap_are_refused),
        cmocka_unit_test(the_null_count_is_counted_not_believed),
        cmocka_unit_test(offsets_that_go_backwards_or_too_far_are_refused),
        cmocka_unit_test(a_body_that_is_cut_or_too_large_is_refused),
        cmocka_unit_test(a_decompression_bomb_is_refused_before_memory_is_taken),
        cmocka_unit_test(a_body_that_is_not_aligned_is_read),
        cmocka_unit_test(headers_that_are_not_messages_are_refused),
        cmocka_unit_test(every_cut_of_a_stream_is_refused_or_ends_cleanly),
        cmocka_unit_test(every_cut_of_a_file_is_refused),
        cmocka_unit_test(a_file_is_read_by_its_footer),
        cmocka_unit_test(schema_bytes_come_back_and_damage_is_refused),
        cmocka_unit_test(a_schema_that_nests_too_deep_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
