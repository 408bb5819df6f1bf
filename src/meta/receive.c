/*
 * The bytes of an append: read to the end of the stream within bounds, decoded without a copy, and
 * digested as they pass.
 *
 * The content digest names what was sent: SHA-256 over "lake.append.1", the table's name folded,
 * and the SHA-256 over every message's header and body with their lengths. The incarnation is not
 * in it, nor the descriptor or metadata of a message.
 */
#include "meta_internal.h"

#include <flight/flight.h>
#include <stdio.h>
#include <string.h>

#define APPEND_COMMAND_TYPE    "type.lake/AppendCommand"
#define MAX_MESSAGES           170001         /* SDK-4 */
#define MAX_SIDE_BYTES         (1024u * 1024) /* descriptor and metadata of all messages */
#define MAX_COMMAND_BYTES      4096
#define MAX_HEADER_BYTES       (4u * 1024 * 1024) /* of one message */
#define DESCRIPTOR_ARENA_BYTES (2u * 1024 * 1024)
#define CONTENT_DOMAIN         "lake.append.1"

/* Stands between the transport and the reader: counts, digests, passes on. */
struct tap {
    const struct flight_receiver *source;
    struct meta_authority *authority;
    struct base_sha256 *messages;
    uint64_t message_count;
    uint64_t encoded_bytes;
    uint64_t side_bytes;
    uint64_t held_bytes; /* of the authority's budget */
};

struct meta_received {
    struct meta_append append;
    struct flight_stream_reader *reader;
    struct ArrowSchema plain; /* of the rows when they have come with views; else not there */
    LakePb__AppendCommand *command;
    struct base_arena *arena;
    size_t batch_room;
    uint64_t left_plain_bytes; /* what the rows' views may still refer to */
    struct tap tap;
};

static lake_status hash_with_length(struct base_sha256 *hash, struct lake_bytes bytes,
                                    struct lake_error *err)
{
    uint8_t length[8];
    base_store_u64le(length, bytes.size);
    lake_status status = base_sha256_update(hash, length, sizeof(length), err);
    if (status == LAKE_OK && bytes.size > 0)
        status = base_sha256_update(hash, bytes.data, bytes.size, err);
    return status;
}

static lake_status take_budget(struct tap *tap, size_t size_bytes, struct lake_error *err)
{
    uint64_t before = atomic_fetch_add(&tap->authority->held_append_bytes, size_bytes);
    if (before + size_bytes > META_APPENDS_MAX_BYTES) {
        atomic_fetch_sub(&tap->authority->held_append_bytes, size_bytes);
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "the appends being received hold %llu bytes already, at most %u are held; "
                         "try again",
                         (unsigned long long)before, META_APPENDS_MAX_BYTES);
    }
    tap->held_bytes += size_bytes;
    return LAKE_OK;
}

static lake_status look_at(struct tap *tap, struct lake_bytes message, struct lake_error *err)
{
    struct flight_data data;
    lake_status status = flight_data_decode(message, &data, err);
    if (status != LAKE_OK)
        return status;
    tap->message_count++;
    if (tap->message_count > MAX_MESSAGES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "an append of more than %d messages",
                         MAX_MESSAGES);
    uint64_t encoded = data.header.size + data.body.size;
    tap->encoded_bytes += encoded;
    tap->side_bytes += message.size - encoded;
    if (tap->encoded_bytes > META_APPEND_MAX_BYTES)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "the append has more than %u bytes encoded; split it",
                         META_APPEND_MAX_BYTES);
    /* The frame of a message takes a few bytes of its own. */
    if (tap->side_bytes > MAX_SIDE_BYTES + 64 * tap->message_count)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the append has more than %u bytes of metadata beside its rows",
                         MAX_SIDE_BYTES);
    status = take_budget(tap, message.size, err);
    if (status == LAKE_OK && data.header.size > 0) {
        status = hash_with_length(tap->messages, data.header, err);
        if (status == LAKE_OK)
            status = hash_with_length(tap->messages, data.body, err);
    }
    return status;
}

static lake_status tap_receive(void *context, struct rpc_payload *out, bool *end,
                               struct lake_error *err)
{
    struct tap *tap = context;
    struct rpc_payload payload = {0};
    bool ended = false;
    lake_status status = tap->source->receive(tap->source->context, &payload, &ended, err);
    if (status != LAKE_OK)
        return status;
    if (ended) {
        *end = true;
        return LAKE_OK;
    }
    status = look_at(tap, payload.bytes, err);
    if (status != LAKE_OK) {
        rpc_payload_fini(&payload);
        return status;
    }
    *out = payload;
    return LAKE_OK;
}

static lake_status read_command(struct meta_received *received, struct lake_error *err)
{
    struct lake_bytes bytes;
    struct flight_descriptor descriptor;
    struct lake_bytes value;
    lake_status status = flight_stream_reader_descriptor(received->reader, &bytes, err);
    if (status == LAKE_OK && bytes.size == 0)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the DoPut stream has no descriptor");
    if (status == LAKE_OK)
        status = flight_descriptor_decode(bytes, received->arena, &descriptor, err);
    if (status != LAKE_OK)
        return status;
    if (descriptor.type != FLIGHT_DESCRIPTOR_CMD ||
        !flight_any_unpack(descriptor.command, APPEND_COMMAND_TYPE, &value))
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "DoPut takes an append, an Any of %s in the descriptor's command",
                         APPEND_COMMAND_TYPE);
    if (value.size > MAX_COMMAND_BYTES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the append command has %zu bytes; at most %d",
                         value.size, MAX_COMMAND_BYTES);
    received->command = lake_pb__append_command__unpack(NULL, value.size, value.data);
    if (received->command == NULL)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the append command does not parse");
    struct meta_append *append = &received->append;
    append->operation_id = meta_str_of_pb(received->command->operation_id);
    append->expected_incarnation = meta_str_of_pb(received->command->expected_incarnation);
    return meta_name_from_pb(received->command->name, &append->name, err);
}

/* Takes `batch` over. Batches without rows say nothing. */
static lake_status keep_batch(struct meta_received *received, struct ArrowArray *batch,
                              struct lake_error *err)
{
    struct meta_append *append = &received->append;
    if (batch->length <= 0) {
        batch->release(batch);
        return LAKE_OK;
    }
    append->row_count += (uint64_t)batch->length;
    if (append->row_count > META_APPEND_MAX_ROWS) {
        batch->release(batch);
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the append has more than %d rows; split it",
                         META_APPEND_MAX_ROWS);
    }
    if (append->batch_count == received->batch_room) {
        size_t room = received->batch_room == 0 ? 4 : received->batch_room * 2;
        struct ArrowArray *grown = base_realloc_array(append->batches, room, sizeof(*grown));
        if (grown == NULL) {
            batch->release(batch);
            return base_fail_no_memory(err, room * sizeof(*grown));
        }
        append->batches = grown;
        received->batch_room = room;
    }
    append->batches[append->batch_count++] = *batch;
    return LAKE_OK;
}

/* What the views of a batch refer to counts a second time: it is copied, and held as well. */
static lake_status make_plain(struct meta_received *received, const struct ArrowSchema *given,
                              struct ArrowArray *batch, struct lake_error *err)
{
    uint64_t before = received->left_plain_bytes;
    lake_status status =
        arrow_plain_array(given, &received->plain, batch, &received->left_plain_bytes, err);
    if (status == LAKE_OK)
        status = take_budget(&received->tap, before - received->left_plain_bytes, err);
    if (status != LAKE_OK && batch->release != NULL)
        batch->release(batch);
    return status;
}

static lake_status read_batches(struct meta_received *received, struct lake_error *err)
{
    const struct ArrowSchema *given = NULL;
    lake_status status = flight_stream_reader_schema(received->reader, &given, err);
    bool views = status == LAKE_OK && arrow_schema_has_views(given);
    if (views)
        status = arrow_plain_schema(given, NULL, &received->plain, err);
    received->append.schema = views ? &received->plain : given;
    while (status == LAKE_OK) {
        struct ArrowArray batch = {.release = NULL};
        bool end = false;
        status = flight_stream_reader_next(received->reader, &batch, &end, err);
        if (status != LAKE_OK || end)
            break;
        if (views)
            status = make_plain(received, given, &batch, err);
        if (status == LAKE_OK)
            status = keep_batch(received, &batch, err);
    }
    return status;
}

static lake_status finish_digest(struct meta_received *received, struct lake_error *err)
{
    uint8_t messages[BASE_SHA256_BYTES];
    struct base_buffer content;
    base_buffer_init(&content, 4096);
    lake_status status = base_sha256_final(received->tap.messages, messages, err);
    if (status == LAKE_OK)
        status = base_buffer_printf(&content, err, "%s\n%s\n%s\n", CONTENT_DOMAIN,
                                    received->append.name.namespace_key,
                                    received->append.name.table_key);
    if (status == LAKE_OK)
        status = base_buffer_append(&content, messages, sizeof(messages), err);
    if (status == LAKE_OK)
        status = base_sha256_once(base_buffer_view(&content), received->append.content_sha256, err);
    base_buffer_fini(&content);
    return status;
}

lake_status meta_receive_append(struct meta_authority *authority,
                                const struct meta_identity *identity,
                                const struct flight_receiver *receiver, struct meta_received **out,
                                struct lake_error *err)
{
    struct meta_received *received = base_calloc_array(1, sizeof(*received));
    if (received == NULL)
        return base_fail_no_memory(err, sizeof(*received));
    received->tap = (struct tap){.source = receiver, .authority = authority};
    received->left_plain_bytes = META_APPEND_MAX_BYTES;
    const struct flight_receiver tapped = {tap_receive, &received->tap};
    struct arrow_ipc_limits limits = arrow_ipc_limits_default();
    limits.max_metadata_bytes = MAX_HEADER_BYTES;
    limits.max_body_bytes = META_APPEND_MAX_BYTES;
    /* What arrives is held until it is committed, so it may not be larger than what was counted. */
    limits.allow_compressed = false;
    lake_status status = base_sha256_new(&received->tap.messages, err);
    if (status == LAKE_OK)
        status = base_arena_new(DESCRIPTOR_ARENA_BYTES, &received->arena, err);
    if (status == LAKE_OK)
        status = flight_stream_reader_new(tapped, &limits, &received->reader, err);
    if (status == LAKE_OK)
        status = read_command(received, err);
    /* Before more is read for somebody who may not write (NAT-13). */
    if (status == LAKE_OK)
        status = meta_identity_require(identity, received->append.name.namespace_name, err);
    if (status == LAKE_OK)
        status = read_batches(received, err);
    if (status == LAKE_OK)
        status = finish_digest(received, err);
    if (status != LAKE_OK) {
        meta_received_free(received);
        return status;
    }
    *out = received;
    return LAKE_OK;
}

const struct meta_append *meta_received_append(const struct meta_received *received)
{
    return &received->append;
}

void meta_received_free(struct meta_received *received)
{
    if (received == NULL)
        return;
    for (size_t i = 0; i < received->append.batch_count; i++)
        received->append.batches[i].release(&received->append.batches[i]);
    base_free(received->append.batches);
    if (received->plain.release != NULL)
        received->plain.release(&received->plain);
    flight_stream_reader_free(received->reader);
    if (received->command != NULL)
        lake_pb__append_command__free_unpacked(received->command, NULL);
    base_arena_free(received->arena);
    base_sha256_free(received->tap.messages);
    atomic_fetch_sub(&received->tap.authority->held_append_bytes, received->tap.held_bytes);
    base_free(received);
}
