/* The bytes of an append: bounds on both sides, and the digest that names what was sent. */
#include "meta_fixture.h"

#include <flight/flight.h>
#include <openssl/sha.h>

#define MAX_MESSAGES 32

/* Messages as a client sent them, and how far the server has read. */
struct wire {
    struct base_buffer messages[MAX_MESSAGES];
    size_t count;
    size_t next;
};

static lake_status record(void *context, struct rpc_part *parts, size_t part_count,
                          struct lake_error *err)
{
    struct wire *wire = context;
    assert_true(wire->count < MAX_MESSAGES);
    struct base_buffer *message = &wire->messages[wire->count++];
    base_buffer_init(message, 256u * 1024 * 1024);
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < part_count; i++) {
        if (status == LAKE_OK && parts[i].size > 0)
            status = parts[i].data == NULL
                         ? base_buffer_append_zeros(message, parts[i].size, err)
                         : base_buffer_append(message, parts[i].data, parts[i].size, err);
        if (parts[i].release != NULL)
            parts[i].release(parts[i].context);
    }
    return status;
}

static lake_status replay(void *context, struct rpc_payload *out, bool *end, struct lake_error *err)
{
    struct wire *wire = context;
    if (wire->next == wire->count) {
        *end = true;
        return LAKE_OK;
    }
    const struct base_buffer *message = &wire->messages[wire->next++];
    uint8_t *memory = base_alloc(message->size + 64);
    if (memory == NULL)
        return base_fail_no_memory(err, message->size);
    uint8_t *aligned = memory + (64 - (uintptr_t)memory % 64) % 64;
    memcpy(aligned, message->data, message->size);
    *out = (struct rpc_payload){{aligned, message->size}, memory};
    return LAKE_OK;
}

static void wire_fini(struct wire *wire)
{
    for (size_t i = 0; i < wire->count; i++)
        base_buffer_fini(&wire->messages[i]);
    *wire = (struct wire){.count = 0};
}

static void append_descriptor(const char *namespace_name, const char *table,
                              const char *operation_id, struct base_buffer *out)
{
    LakePb__TableName name = LAKE_PB__TABLE_NAME__INIT;
    name.has_namespace_name = true;
    name.namespace_name = meta_pb_of_str(namespace_name);
    name.has_table = true;
    name.table = meta_pb_of_str(table);
    LakePb__AppendCommand command = LAKE_PB__APPEND_COMMAND__INIT;
    command.name = &name;
    command.has_operation_id = true;
    command.operation_id = meta_pb_of_str(operation_id);
    struct base_buffer packed;
    struct base_buffer any;
    base_buffer_init(&packed, 4096);
    base_buffer_init(&any, 4096);
    base_buffer_init(out, 4096);
    assert_int_equal(meta_pb_pack(&command.base, &packed, NULL), LAKE_OK);
    assert_int_equal(
        flight_any_pack("type.lake/AppendCommand", base_buffer_view(&packed), &any, NULL), LAKE_OK);
    struct flight_descriptor descriptor = {.type = FLIGHT_DESCRIPTOR_CMD,
                                           .command = base_buffer_view(&any)};
    assert_int_equal(flight_descriptor_encode(&descriptor, out, NULL), LAKE_OK);
    base_buffer_fini(&any);
    base_buffer_fini(&packed);
}

/* Sends batches of the given row counts; ids go on from batch to batch. */
static void send_rows(struct wire *wire, const char *namespace_name, const char *table,
                      const char *operation_id, const int64_t *rows, size_t batch_count)
{
    struct ArrowSchema schema;
    struct base_buffer descriptor;
    struct flight_stream_writer *writer;
    struct flight_sender sender = {record, wire};
    *wire = (struct wire){.count = 0};
    make_schema(&schema, false);
    append_descriptor(namespace_name, table, operation_id, &descriptor);
    assert_int_equal(flight_stream_writer_new(sender, &schema, NULL, &writer, NULL), LAKE_OK);
    assert_int_equal(flight_stream_writer_begin(writer, base_buffer_view(&descriptor),
                                                (struct lake_bytes){NULL, 0}, NULL),
                     LAKE_OK);
    int64_t first = 0;
    for (size_t i = 0; i < batch_count; i++) {
        struct ArrowArray array;
        struct arrow_batch *batch;
        make_batch(&array, &schema, first, rows[i], NULL);
        first += rows[i];
        assert_int_equal(arrow_batch_new(&array, &batch, NULL), LAKE_OK);
        assert_int_equal(flight_stream_writer_write(writer, batch, NULL), LAKE_OK);
        arrow_batch_unref(batch);
    }
    flight_stream_writer_free(writer);
    base_buffer_fini(&descriptor);
    schema.release(&schema);
}

static lake_status receive(struct fixture *fixture, struct wire *wire, struct meta_received **out)
{
    struct flight_receiver receiver = {replay, wire};
    wire->next = 0;
    return meta_receive_append(fixture->authority, &fixture->anna, &receiver, out, &fixture->err);
}

static void received_append_has_what_was_sent(void **state)
{
    struct fixture *fixture = *state;
    struct wire wire;
    struct meta_received *received;
    const int64_t rows[] = {3, 0, 4};
    send_rows(&wire, "robots", "Arm", "018bcfe5-6800-7000-8000-000000000001", rows, 3);
    OK(fixture, receive(fixture, &wire, &received));
    const struct meta_append *append = meta_received_append(received);
    assert_string_equal(append->name.table, "Arm");
    assert_true(base_str_equal_c(append->operation_id, "018bcfe5-6800-7000-8000-000000000001"));
    assert_int_equal(append->row_count, 7);
    assert_int_equal(append->batch_count, 2); /* the empty one is not kept */
    const int64_t *ids = append->batches[1].children[0]->buffers[1];
    assert_int_equal(ids[append->batches[1].children[0]->offset], 3);
    assert_true(fixture->authority->held_append_bytes > 0);
    meta_received_free(received);
    assert_int_equal(fixture->authority->held_append_bytes, 0);
    wire_fini(&wire);
}

static void add_with_length(struct base_buffer *out, struct lake_bytes bytes)
{
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)bytes.size >> (8 * i));
    assert_int_equal(base_buffer_append(out, length, 8, NULL), LAKE_OK);
    if (bytes.size > 0)
        assert_int_equal(base_buffer_append(out, bytes.data, bytes.size, NULL), LAKE_OK);
}

/* As documented, computed with OpenSSL's own function from the messages on the wire. */
static void digest_is_the_documented_one(void **state)
{
    struct fixture *fixture = *state;
    struct wire wire;
    struct meta_received *received;
    const int64_t rows[] = {3, 4};
    send_rows(&wire, "ROBOTS", "Arm", "018bcfe5-6800-7000-8000-000000000001", rows, 2);
    OK(fixture, receive(fixture, &wire, &received));
    struct base_buffer sent;
    uint8_t content[25 + 32] = "lake.append.1\nrobots\narm\n";
    uint8_t expected[32];
    base_buffer_init(&sent, 1 << 20);
    for (size_t i = 0; i < wire.count; i++) {
        struct flight_data data;
        OK(fixture, flight_data_decode(base_buffer_view(&wire.messages[i]), &data, &fixture->err));
        add_with_length(&sent, data.header);
        add_with_length(&sent, data.body);
    }
    SHA256(sent.data, sent.size, content + 25);
    SHA256(content, sizeof(content), expected);
    base_buffer_fini(&sent);
    assert_memory_equal(meta_received_append(received)->content_sha256, expected, 32);
    meta_received_free(received);
    wire_fini(&wire);
}

static void digest_of(struct fixture *fixture, const char *table, const char *id,
                      const int64_t *rows, size_t count, uint8_t out[32])
{
    struct wire wire;
    struct meta_received *received;
    send_rows(&wire, "robots", table, id, rows, count);
    OK(fixture, receive(fixture, &wire, &received));
    memcpy(out, meta_received_append(received)->content_sha256, 32);
    meta_received_free(received);
    wire_fini(&wire);
}

static void digest_depends_on_table_and_rows_and_not_on_the_operation_id(void **state)
{
    struct fixture *fixture = *state;
    const int64_t seven[] = {7};
    const int64_t eight[] = {8};
    uint8_t first[32];
    uint8_t other[32];
    static const char id1[] = "018bcfe5-6800-7000-8000-000000000001";
    static const char id2[] = "018bcfe5-6800-7000-8000-000000000002";
    digest_of(fixture, "arm", id1, seven, 1, first);
    digest_of(fixture, "ARM", id2, seven, 1, other);
    assert_memory_equal(first, other, 32);
    digest_of(fixture, "arm", id1, eight, 1, other);
    assert_memory_not_equal(first, other, 32);
    digest_of(fixture, "leg", id1, seven, 1, other);
    assert_memory_not_equal(first, other, 32);
}

static void rows_above_the_limit_are_refused_while_they_arrive(void **state)
{
    struct fixture *fixture = *state;
    struct wire wire;
    struct meta_received *received;
    const int64_t fits[] = {9999, 1};
    const int64_t over[] = {9999, 2, 5};
    send_rows(&wire, "robots", "arm", "018bcfe5-6800-7000-8000-000000000001", fits, 2);
    OK(fixture, receive(fixture, &wire, &received));
    assert_int_equal(meta_received_append(received)->row_count, 10000);
    meta_received_free(received);
    wire_fini(&wire);
    send_rows(&wire, "robots", "arm", "018bcfe5-6800-7000-8000-000000000001", over, 3);
    assert_int_equal(receive(fixture, &wire, &received), LAKE_INVALID_ARGUMENT);
    assert_int_equal(wire.next, 3); /* the last batch was not waited for */
    assert_int_equal(fixture->authority->held_append_bytes, 0);
    wire_fini(&wire);
}

/* One record batch whose header and body with the schema's make exactly `total` bytes. */
static void send_bytes_total(struct wire *wire, uint64_t total)
{
    const int64_t rows[] = {1};
    send_rows(wire, "robots", "arm", "018bcfe5-6800-7000-8000-000000000001", rows, 1);
    uint64_t used = 0;
    for (size_t i = 0; i < wire->count; i++) {
        struct flight_data data;
        assert_int_equal(flight_data_decode(base_buffer_view(&wire->messages[i]), &data, NULL),
                         LAKE_OK);
        used += data.header.size + data.body.size;
    }
    /* Trailing bytes of a body that no buffer refers to are still bytes that were sent. */
    struct flight_data last;
    struct base_buffer *message = &wire->messages[wire->count - 1];
    assert_int_equal(flight_data_decode(base_buffer_view(message), &last, NULL), LAKE_OK);
    uint64_t body = last.body.size + (total - used);
    struct base_buffer bigger;
    base_buffer_init(&bigger, 256u * 1024 * 1024);
    assert_int_equal(base_buffer_append_varint(&bigger, 2 << 3 | 2, NULL), LAKE_OK);
    assert_int_equal(base_buffer_append_varint(&bigger, last.header.size, NULL), LAKE_OK);
    assert_int_equal(base_buffer_append(&bigger, last.header.data, last.header.size, NULL),
                     LAKE_OK);
    assert_int_equal(base_buffer_append_varint(&bigger, 1000 << 3 | 2, NULL), LAKE_OK);
    assert_int_equal(base_buffer_append_varint(&bigger, body, NULL), LAKE_OK);
    assert_int_equal(base_buffer_append(&bigger, last.body.data, last.body.size, NULL), LAKE_OK);
    assert_int_equal(base_buffer_append_zeros(&bigger, (size_t)(total - used), NULL), LAKE_OK);
    base_buffer_fini(message);
    *message = bigger;
}

static void append_above_64_mib_is_resource_exhausted_and_of_64_mib_is_not(void **state)
{
    struct fixture *fixture = *state;
    struct wire wire;
    struct meta_received *received;
    send_bytes_total(&wire, META_APPEND_MAX_BYTES + 1);
    assert_int_equal(receive(fixture, &wire, &received), LAKE_RESOURCE_EXHAUSTED);
    assert_contains(fixture->err.message, "67108864");
    wire_fini(&wire);
    send_bytes_total(&wire, META_APPEND_MAX_BYTES);
    lake_status status = receive(fixture, &wire, &received);
    /* The decoder may dislike a body longer than its header says; the bound does not. */
    assert_int_not_equal(status, LAKE_RESOURCE_EXHAUSTED);
    if (status == LAKE_OK)
        meta_received_free(received);
    assert_int_equal(fixture->authority->held_append_bytes, 0);
    wire_fini(&wire);
}

static void appends_held_at_once_are_bounded_together(void **state)
{
    struct fixture *fixture = *state;
    struct wire wire;
    struct meta_received *received;
    const int64_t rows[] = {10};
    send_rows(&wire, "robots", "arm", "018bcfe5-6800-7000-8000-000000000001", rows, 1);
    atomic_fetch_add(&fixture->authority->held_append_bytes, META_APPENDS_MAX_BYTES - 100);
    assert_int_equal(receive(fixture, &wire, &received), LAKE_RESOURCE_EXHAUSTED);
    assert_int_equal(fixture->authority->held_append_bytes, META_APPENDS_MAX_BYTES - 100);
    atomic_fetch_sub(&fixture->authority->held_append_bytes, META_APPENDS_MAX_BYTES - 100);
    OK(fixture, receive(fixture, &wire, &received));
    meta_received_free(received);
    wire_fini(&wire);
}

static void grant_is_checked_before_the_rows_are_read(void **state)
{
    struct fixture *fixture = *state;
    struct wire wire;
    struct meta_received *received;
    const int64_t rows[] = {1, 1, 1};
    send_rows(&wire, "secret", "arm", "018bcfe5-6800-7000-8000-000000000001", rows, 3);
    assert_int_equal(receive(fixture, &wire, &received), LAKE_PERMISSION_DENIED);
    assert_int_equal(wire.next, 1);
    wire_fini(&wire);
}

static void every_changed_byte_is_refused_or_changes_the_digest(void **state)
{
    struct fixture *fixture = *state;
    struct wire wire;
    struct meta_received *received;
    const int64_t rows[] = {2};
    uint8_t original[32];
    digest_of(fixture, "arm", "018bcfe5-6800-7000-8000-000000000001", rows, 1, original);
    send_rows(&wire, "robots", "arm", "018bcfe5-6800-7000-8000-000000000001", rows, 1);
    for (size_t message = 0; message < wire.count; message++) {
        for (size_t i = 0; i < wire.messages[message].size; i++) {
            wire.messages[message].data[i] ^= 0x01;
            if (receive(fixture, &wire, &received) == LAKE_OK) {
                const struct meta_append *append = meta_received_append(received);
                bool same = memcmp(append->content_sha256, original, 32) == 0;
                /* Only the descriptor is outside the digest, and only the ID in it can change. */
                assert_true(!same || !base_str_equal_c(append->operation_id,
                                                       "018bcfe5-6800-7000-8000-000000000001"));
                meta_received_free(received);
            }
            wire.messages[message].data[i] ^= 0x01;
        }
    }
    assert_int_equal(fixture->authority->held_append_bytes, 0);
    wire_fini(&wire);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(received_append_has_what_was_sent),
        TEST(digest_is_the_documented_one),
        TEST(digest_depends_on_table_and_rows_and_not_on_the_operation_id),
        TEST(rows_above_the_limit_are_refused_while_they_arrive),
        TEST(append_above_64_mib_is_resource_exhausted_and_of_64_mib_is_not),
        TEST(appends_held_at_once_are_bounded_together),
        TEST(grant_is_checked_before_the_rows_are_read),
        TEST(every_changed_byte_is_refused_or_changes_the_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
