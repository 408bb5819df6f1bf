/* Record-batch streams over a wire in memory: sizes, splitting, borrowing, failures. */
#include "wire.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct lake_bytes none = {NULL, 0};

static void check(lake_status status, const struct lake_error *err)
{
    if (status != LAKE_OK) {
        fail_msg("%s: %s (%s)", lake_status_name(status), err->message, err->cause);
    }
}

/* struct<n: int64, text: utf8>, text of `text_bytes` each. */
static void two_columns(struct ArrowSchema *schema)
{
    ArrowSchemaInit(schema);
    assert_int_equal(ArrowSchemaSetTypeStruct(schema, 2), 0);
    assert_int_equal(ArrowSchemaSetType(schema->children[0], NANOARROW_TYPE_INT64), 0);
    assert_int_equal(ArrowSchemaSetName(schema->children[0], "n"), 0);
    assert_int_equal(ArrowSchemaSetType(schema->children[1], NANOARROW_TYPE_STRING), 0);
    assert_int_equal(ArrowSchemaSetName(schema->children[1], "text"), 0);
}

static struct arrow_batch *make_batch(const struct ArrowSchema *schema, int64_t rows,
                                      size_t text_bytes)
{
    struct ArrowArray array;
    struct arrow_batch *batch;
    struct lake_error err = {0};
    char *text = malloc(text_bytes + 1);
    memset(text, 'x', text_bytes + 1);
    assert_int_equal(ArrowArrayInitFromSchema(&array, schema, NULL), 0);
    assert_int_equal(ArrowArrayStartAppending(&array), 0);
    for (int64_t i = 0; i < rows; i++) {
        assert_int_equal(ArrowArrayAppendInt(array.children[0], i), 0);
        struct ArrowStringView view = {text, (int64_t)text_bytes};
        assert_int_equal(ArrowArrayAppendString(array.children[1], view), 0);
        assert_int_equal(ArrowArrayFinishElement(&array), 0);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&array, NULL), 0);
    check(arrow_batch_new(&array, &batch, &err), &err);
    free(text);
    return batch;
}

/* A batch of these columns, and a wire to send it over. */
struct sending {
    struct ArrowSchema schema;
    struct arrow_batch *batch;
    struct wire *wire;
    struct lake_error err;
};

static struct sending sending_of(int64_t rows, size_t text_bytes)
{
    struct sending sending = {.wire = wire_new()};
    two_columns(&sending.schema);
    sending.batch = make_batch(&sending.schema, rows, text_bytes);
    return sending;
}

static void use_new_wire(struct sending *sending)
{
    wire_fini(sending->wire);
    sending->wire = wire_new();
}

static void sending_fini(struct sending *sending)
{
    wire_fini(sending->wire);
    arrow_batch_unref(sending->batch);
    ArrowSchemaRelease(&sending->schema);
}

static lake_status send_all(struct sending *sending)
{
    struct flight_stream_writer *writer;
    struct lake_error *err = &sending->err;
    lake_status status =
        flight_stream_writer_new(wire_sender(sending->wire), &sending->schema, NULL, &writer, err);
    if (status == LAKE_OK) {
        status = flight_stream_writer_begin(writer, none, none, err);
        if (status == LAKE_OK) {
            status = flight_stream_writer_write(writer, sending->batch, err);
        }
        flight_stream_writer_free(writer);
    }
    return status;
}

static struct sending sent(int64_t rows, size_t text_bytes)
{
    struct sending sending = sending_of(rows, text_bytes);
    check(send_all(&sending), &sending.err);
    return sending;
}

/* Receives everything; the column n counts up from 0, and each text has `text_bytes`. */
static int64_t receive_counting(struct wire *wire, size_t text_bytes, size_t *batches)
{
    struct flight_stream_reader *reader;
    struct lake_error err = {0};
    int64_t rows = 0;
    bool end = false;
    *batches = 0;
    check(flight_stream_reader_new(wire_receiver(wire), NULL, &reader, &err), &err);
    const struct ArrowSchema *schema;
    check(flight_stream_reader_schema(reader, &schema, &err), &err);
    while (!end) {
        struct ArrowArray array;
        check(flight_stream_reader_next(reader, &array, &end, &err), &err);
        if (end) {
            break;
        }
        check(arrow_array_validate(schema, &array, &err), &err);
        const int64_t *n = array.children[0]->buffers[1];
        const int32_t *offsets = array.children[1]->buffers[1];
        for (int64_t i = 0; i < array.length; i++) {
            assert_int_equal(n[i], rows + i);
            assert_int_equal(offsets[i + 1] - offsets[i], text_bytes);
        }
        rows += array.length;
        (*batches)++;
        ArrowArrayRelease(&array);
    }
    flight_stream_reader_free(reader);
    return rows;
}

static void a_large_batch_arrives_whole_in_messages_near_the_target(void **state)
{
    (void)state;
    size_t batches;
    struct sending sending = sent(200000, 100);
    assert_in_range(sending.wire->largest, 1 << 20, (4 << 20) + (65 << 10));
    assert_int_equal(receive_counting(sending.wire, 100, &batches), 200000);
    assert_in_range(batches, 6, 20);
    sending_fini(&sending);
}

static void no_message_has_more_rows_than_the_limit(void **state)
{
    (void)state;
    size_t batches;
    struct sending sending = sent(150000, 0);
    assert_int_equal(receive_counting(sending.wire, 0, &batches), 150000);
    assert_int_equal(batches, 3);
    sending_fini(&sending);
}

static void case_F01_a_batch_of_11_MiB_is_split_and_a_row_of_11_MiB_passes(void **state)
{
    (void)state;
    size_t batches;
    struct sending sending = sent(11, 1 << 20);
    assert_true(sending.wire->largest < ((size_t)4 << 20) + 4096);
    assert_int_equal(receive_counting(sending.wire, 1 << 20, &batches), 11);
    sending_fini(&sending);

    sending = sent(2, (size_t)11 << 20);
    assert_int_equal(receive_counting(sending.wire, (size_t)11 << 20, &batches), 2);
    assert_int_equal(batches, 2);
    sending_fini(&sending);
}

static void case_F01_a_row_of_20_MiB_fails_and_names_the_limit(void **state)
{
    (void)state;
    struct sending sending = sending_of(1, (size_t)20 << 20);
    assert_int_equal(send_all(&sending), LAKE_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(sending.err.message, "16777216"));
    assert_non_null(strstr(sending.err.message, "FILE"));
    assert_int_equal(sending.wire->sent, 1); /* the schema only */
    sending_fini(&sending);
}

static void large_buffers_are_borrowed_and_arrive_aligned(void **state)
{
    (void)state;
    struct sending sending = sent(10000, 30);
    const struct ArrowArray *array = arrow_batch_array(sending.batch);
    const struct wire *wire = sending.wire;
    assert_int_equal(wire->borrowed_parts, 3);
    assert_ptr_equal(wire->borrowed[0], array->children[0]->buffers[1]);
    assert_ptr_equal(wire->borrowed[1], array->children[1]->buffers[1]);
    assert_ptr_equal(wire->borrowed[2], array->children[1]->buffers[2]);
    struct flight_data data;
    check(flight_data_decode(wire->messages[1].bytes, &data, &sending.err), &sending.err);
    assert_int_equal((uintptr_t)data.body.data % 64, 0);
    assert_int_equal(data.body.size % 64, 0);
    sending_fini(&sending);
}

/* A received array is a view of the message, not a copy of it. */
static void received_buffers_lie_inside_the_message(void **state)
{
    (void)state;
    struct ArrowArray array;
    struct lake_error err = {0};
    struct flight_stream_reader *reader;
    bool end;
    struct sending sending = sent(10000, 30);
    struct lake_bytes message = sending.wire->messages[1].bytes;
    check(flight_stream_reader_new(wire_receiver(sending.wire), NULL, &reader, &err), &err);
    check(flight_stream_reader_next(reader, &array, &end, &err), &err);
    assert_false(end);
    const uint8_t *n = array.children[0]->buffers[1];
    assert_true(n > message.data && n < message.data + message.size);
    flight_stream_reader_free(reader); /* the array lives on */
    assert_int_equal(((const int64_t *)n)[9999], 9999);
    ArrowArrayRelease(&array);
    sending_fini(&sending);
}

static void an_empty_batch_gives_a_batch_without_rows(void **state)
{
    (void)state;
    size_t batches;
    struct sending sending = sent(0, 0);
    assert_int_equal(receive_counting(sending.wire, 0, &batches), 0);
    assert_int_equal(batches, 1);
    sending_fini(&sending);
}

static void descriptor_and_metadata_come_with_their_messages(void **state)
{
    (void)state;
    struct ArrowArray array;
    struct lake_error err = {0};
    struct flight_stream_writer *writer;
    struct flight_stream_reader *reader;
    struct lake_bytes bytes;
    bool end;
    struct sending sending = sending_of(3, 5);
    check(flight_stream_writer_new(wire_sender(sending.wire), &sending.schema, NULL, &writer, &err),
          &err);
    check(flight_stream_writer_begin(writer, base_bytes_of_str(LAKE_STR("descriptor")),
                                     base_bytes_of_str(LAKE_STR("first")), &err),
          &err);
    check(flight_stream_writer_write_metadata(writer, base_bytes_of_str(LAKE_STR("aside")), &err),
          &err);
    check(flight_stream_writer_write(writer, sending.batch, &err), &err);
    assert_int_equal(flight_stream_writer_sent_rows(writer), 3);
    flight_stream_writer_free(writer);
    check(flight_stream_reader_new(wire_receiver(sending.wire), NULL, &reader, &err), &err);
    check(flight_stream_reader_descriptor(reader, &bytes, &err), &err);
    assert_true(base_bytes_equal(bytes, base_bytes_of_str(LAKE_STR("descriptor"))));
    bytes = flight_stream_reader_app_metadata(reader);
    assert_true(base_bytes_equal(bytes, base_bytes_of_str(LAKE_STR("first"))));
    check(flight_stream_reader_next(reader, &array, &end, &err), &err);
    assert_false(end);
    assert_int_equal(array.length, 3);
    ArrowArrayRelease(&array);
    check(flight_stream_reader_next(reader, &array, &end, &err), &err);
    assert_true(end);
    flight_stream_reader_free(reader);
    sending_fini(&sending);
}

/* Leak checks are the sanitizer's: whatever send fails, everything is released once. */
static void a_send_that_fails_ends_the_stream_with_its_status(void **state)
{
    (void)state;
    struct sending sending = sending_of(50000, 200);
    for (size_t n = 1; n <= 3; n++) {
        sending.wire->fail_at = n;
        assert_int_equal(send_all(&sending), LAKE_CANCELLED);
        assert_string_equal(sending.err.message, "the client went away");
        sending.wire->messages[n - 1] = (struct rpc_payload){0};
        use_new_wire(&sending);
    }
    sending_fini(&sending);
}

static void a_failing_allocation_is_an_error_and_nothing_leaks(void **state)
{
    (void)state;
    struct sending sending = sending_of(100, 20);
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        base_fault_fail_nth_alloc(n);
        lake_status status = send_all(&sending);
        done = base_fault_alloc_count() < n;
        base_fault_fail_nth_alloc(0);
        assert_int_equal(status, done ? LAKE_OK : LAKE_RESOURCE_EXHAUSTED);
        use_new_wire(&sending);
        assert_true(n < 1000);
    }
    sending_fini(&sending);
}

static void a_failing_allocation_while_receiving_is_an_error(void **state)
{
    (void)state;
    struct sending sending = sending_of(100, 200);
    struct lake_error *err = &sending.err;
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        struct flight_stream_reader *reader = NULL;
        struct ArrowArray array = {.release = NULL};
        bool end = false;
        check(send_all(&sending), err);
        base_fault_fail_nth_alloc(n);
        lake_status status =
            flight_stream_reader_new(wire_receiver(sending.wire), NULL, &reader, err);
        if (status == LAKE_OK) {
            status = flight_stream_reader_next(reader, &array, &end, err);
        }
        done = base_fault_alloc_count() < n;
        base_fault_fail_nth_alloc(0);
        assert_int_equal(status, done ? LAKE_OK : LAKE_RESOURCE_EXHAUSTED);
        if (array.release != NULL) {
            ArrowArrayRelease(&array);
        }
        flight_stream_reader_free(reader);
        use_new_wire(&sending);
        assert_true(n < 1000);
    }
    sending_fini(&sending);
}

static lake_status receive_bytes(const uint8_t *bytes, size_t size, struct lake_error *err)
{
    struct wire *wire = wire_new();
    struct flight_stream_reader *reader;
    struct ArrowArray array = {.release = NULL};
    bool end;
    struct rpc_part part = {.data = bytes, .size = size, .copy = true};
    check(wire_send(wire, &part, 1, err), err);
    check(flight_stream_reader_new(wire_receiver(wire), NULL, &reader, err), err);
    lake_status status = flight_stream_reader_next(reader, &array, &end, err);
    if (array.release != NULL) {
        ArrowArrayRelease(&array);
    }
    flight_stream_reader_free(reader);
    wire_fini(wire);
    return status;
}

static void malformed_flight_data_is_refused(void **state)
{
    (void)state;
    struct lake_error err = {0};
    const uint8_t header_twice[] = {0x12, 0x01, 'a', 0x12, 0x01, 'b'};
    const uint8_t body_twice[] = {0xC2, 0x3E, 0x00, 0xC2, 0x3E, 0x00};
    const uint8_t cut[] = {0x12, 0x05, 'a'};
    const uint8_t huge[] = {0xC2, 0x3E, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01};
    const uint8_t wrong_type[] = {0x10, 0x05};
    const uint8_t not_ipc[] = {0x12, 0x03, 'a', 'b', 'c'};
    const struct {
        const uint8_t *bytes;
        size_t size;
    } messages[] = {
        {header_twice, sizeof(header_twice)},
        {body_twice, sizeof(body_twice)},
        {cut, sizeof(cut)},
        {huge, sizeof(huge)},
        {wrong_type, sizeof(wrong_type)},
        {not_ipc, sizeof(not_ipc)},
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(messages); i++) {
        assert_int_equal(receive_bytes(messages[i].bytes, messages[i].size, &err),
                         LAKE_INVALID_ARGUMENT);
    }
    const uint8_t unknown_field[] = {0x22, 0x01, 'x', 0x1A, 0x01, 'm'};
    struct flight_data data;
    check(
        flight_data_decode((struct lake_bytes){unknown_field, sizeof(unknown_field)}, &data, &err),
        &err);
    assert_int_equal(data.app_metadata.size, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_batch_arrives_whole_in_messages_near_the_target),
        cmocka_unit_test(no_message_has_more_rows_than_the_limit),
        cmocka_unit_test(case_F01_a_batch_of_11_MiB_is_split_and_a_row_of_11_MiB_passes),
        cmocka_unit_test(case_F01_a_row_of_20_MiB_fails_and_names_the_limit),
        cmocka_unit_test(large_buffers_are_borrowed_and_arrive_aligned),
        cmocka_unit_test(received_buffers_lie_inside_the_message),
        cmocka_unit_test(an_empty_batch_gives_a_batch_without_rows),
        cmocka_unit_test(descriptor_and_metadata_come_with_their_messages),
        cmocka_unit_test(a_send_that_fails_ends_the_stream_with_its_status),
        cmocka_unit_test(a_failing_allocation_is_an_error_and_nothing_leaks),
        cmocka_unit_test(a_failing_allocation_while_receiving_is_an_error),
        cmocka_unit_test(malformed_flight_data_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
