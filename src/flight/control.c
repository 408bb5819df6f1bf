#include "message.h"

#include <flight.pb-c.h>

/* ---- messages of one bytes field, number 1 ---- */

static lake_status encode_single(struct lake_bytes value, struct base_buffer *out,
                                 struct lake_error *err)
{
    static const uint8_t tag = 0x0A;
    if (value.size == 0) {
        return LAKE_OK;
    }
    lake_status status = base_buffer_reserve(out, value.size + 11, err);
    if (status == LAKE_OK) {
        status = base_buffer_append(out, &tag, 1, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append_varint(out, value.size, err);
    }
    return status == LAKE_OK ? base_buffer_append(out, value.data, value.size, err) : status;
}

static lake_status decode_single(struct lake_bytes bytes, const char *what, struct lake_bytes *out,
                                 struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(bytes);
    struct lake_bytes value = {NULL, 0};
    uint32_t field;
    uint32_t wire_type;
    bool good = true;
    while (good && base_cursor_left(&cursor) > 0) {
        good = base_cursor_tag(&cursor, &field, &wire_type);
        if (good && field == 1) {
            good = wire_type == 2 && base_cursor_length_delimited(&cursor, &value);
        } else if (good) {
            good = base_cursor_skip_field(&cursor, wire_type);
        }
    }
    if (!good) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "%zu bytes are not a valid %s message",
                         bytes.size, what);
    }
    *out = value;
    return LAKE_OK;
}

lake_status flight_ticket_encode(struct lake_bytes ticket, struct base_buffer *out,
                                 struct lake_error *err)
{
    return encode_single(ticket, out, err);
}

lake_status flight_ticket_decode(struct lake_bytes bytes, struct lake_bytes *ticket,
                                 struct lake_error *err)
{
    return decode_single(bytes, "Ticket", ticket, err);
}

lake_status flight_schema_result_encode(struct lake_bytes schema, struct base_buffer *out,
                                        struct lake_error *err)
{
    return encode_single(schema, out, err);
}

lake_status flight_schema_result_decode(struct lake_bytes bytes, struct lake_bytes *schema,
                                        struct lake_error *err)
{
    return decode_single(bytes, "SchemaResult", schema, err);
}

lake_status flight_result_encode(struct lake_bytes body, struct base_buffer *out,
                                 struct lake_error *err)
{
    return encode_single(body, out, err);
}

lake_status flight_result_decode(struct lake_bytes bytes, struct lake_bytes *body,
                                 struct lake_error *err)
{
    return decode_single(bytes, "Result", body, err);
}

lake_status flight_put_result_encode(struct lake_bytes app_metadata, struct base_buffer *out,
                                     struct lake_error *err)
{
    return encode_single(app_metadata, out, err);
}

lake_status flight_put_result_decode(struct lake_bytes bytes, struct lake_bytes *app_metadata,
                                     struct lake_error *err)
{
    return decode_single(bytes, "PutResult", app_metadata, err);
}

/* ---- descriptors ---- */

static lake_status build_descriptor(const struct flight_descriptor *from, struct base_arena *arena,
                                    Flight__Pb__FlightDescriptor *to, struct lake_error *err)
{
    flight__pb__flight_descriptor__init(to);
    to->has_type = from->type != FLIGHT_DESCRIPTOR_UNKNOWN;
    to->type = (int32_t)from->type;
    to->has_cmd = from->command.size > 0;
    to->cmd = message_data(from->command);
    if (from->path_count > 0) {
        to->path = base_arena_calloc_array(arena, from->path_count, sizeof(*to->path));
        if (to->path == NULL) {
            return base_fail_no_memory(err, from->path_count);
        }
    }
    to->n_path = from->path_count;
    for (size_t i = 0; i < from->path_count; i++) {
        to->path[i] = message_data_of_str(from->path[i]);
    }
    return LAKE_OK;
}

static lake_status read_descriptor(const Flight__Pb__FlightDescriptor *from,
                                   struct base_arena *arena, struct flight_descriptor *to,
                                   struct lake_error *err)
{
    *to = (struct flight_descriptor){
        .type = (enum flight_descriptor_type)from->type,
        .command = message_bytes(from->cmd),
        .path_count = from->n_path,
    };
    if (from->type < FLIGHT_DESCRIPTOR_UNKNOWN || from->type > FLIGHT_DESCRIPTOR_CMD) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a FlightDescriptor has the type %d",
                         from->type);
    }
    return message_text_list(from->path, from->n_path, "a FlightDescriptor's path", arena,
                             &to->path, err);
}

/* An arena for what packing needs beside the message itself. */
static lake_status pack_arena(struct base_arena **out, struct lake_error *err)
{
    return base_arena_new((size_t)64 << 20, out, err);
}

lake_status flight_descriptor_encode(const struct flight_descriptor *descriptor,
                                     struct base_buffer *out, struct lake_error *err)
{
    Flight__Pb__FlightDescriptor message;
    struct base_arena *arena;
    lake_status status = pack_arena(&arena, err);
    if (status != LAKE_OK) {
        return status;
    }
    status = build_descriptor(descriptor, arena, &message, err);
    if (status == LAKE_OK) {
        status = message_pack(&message.base, out, err);
    }
    base_arena_free(arena);
    return status;
}

lake_status flight_descriptor_decode(struct lake_bytes bytes, struct base_arena *arena,
                                     struct flight_descriptor *out, struct lake_error *err)
{
    lake_status status;
    Flight__Pb__FlightDescriptor *message =
        message_unpack(&flight__pb__flight_descriptor__descriptor, bytes, arena, &status, err);
    return message == NULL ? status : read_descriptor(message, arena, out, err);
}

/* ---- infos ---- */

static void build_timestamp(int64_t unix_ms, Flight__Pb__Timestamp *to)
{
    int64_t seconds = unix_ms / 1000;
    int64_t rest = unix_ms % 1000;
    if (rest < 0) {
        seconds--;
        rest += 1000;
    }
    flight__pb__timestamp__init(to);
    to->has_seconds = seconds != 0;
    to->seconds = seconds;
    to->has_nanos = rest != 0;
    to->nanos = (int32_t)(rest * 1000000);
}

static lake_status read_timestamp(const Flight__Pb__Timestamp *from, bool *has, int64_t *unix_ms,
                                  struct lake_error *err)
{
    const int64_t limit = INT64_C(253402300799); /* the year 9999, as protobuf has it */
    *has = from != NULL;
    *unix_ms = 0;
    if (from == NULL) {
        return LAKE_OK;
    }
    if (from->seconds < -limit || from->seconds > limit || from->nanos < 0 ||
        from->nanos > 999999999) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "an expiration time is not a time");
    }
    *unix_ms = from->seconds * 1000 + from->nanos / 1000000;
    return LAKE_OK;
}

/* One endpoint and the messages inside it. */
struct built_endpoint {
    Flight__Pb__FlightEndpoint endpoint;
    Flight__Pb__Ticket ticket;
    Flight__Pb__Timestamp expiration;
};

static lake_status build_locations(const struct flight_endpoint *from, struct base_arena *arena,
                                   Flight__Pb__FlightEndpoint *to, struct lake_error *err)
{
    size_t count = from->location_count;
    if (count == 0) {
        return LAKE_OK;
    }
    Flight__Pb__Location *locations = base_arena_calloc_array(arena, count, sizeof(*locations));
    to->location = base_arena_calloc_array(arena, count, sizeof(*to->location));
    if (locations == NULL || to->location == NULL) {
        return base_fail_no_memory(err, count * sizeof(*locations));
    }
    to->n_location = count;
    for (size_t i = 0; i < count; i++) {
        flight__pb__location__init(&locations[i]);
        locations[i].has_uri = true;
        locations[i].uri = message_data_of_str(from->locations[i]);
        to->location[i] = &locations[i];
    }
    return LAKE_OK;
}

static lake_status build_endpoint(const struct flight_endpoint *from, struct base_arena *arena,
                                  struct built_endpoint *to, struct lake_error *err)
{
    flight__pb__flight_endpoint__init(&to->endpoint);
    flight__pb__ticket__init(&to->ticket);
    to->ticket.has_ticket = from->ticket.size > 0;
    to->ticket.ticket = message_data(from->ticket);
    to->endpoint.ticket = &to->ticket;
    if (from->has_expiration) {
        build_timestamp(from->expiration_unix_ms, &to->expiration);
        to->endpoint.expiration_time = &to->expiration;
    }
    to->endpoint.has_app_metadata = from->app_metadata.size > 0;
    to->endpoint.app_metadata = message_data(from->app_metadata);
    return build_locations(from, arena, &to->endpoint, err);
}

static lake_status build_info(const struct flight_info *from, struct base_arena *arena,
                              Flight__Pb__FlightInfo **out, struct lake_error *err)
{
    size_t count = from->endpoint_count;
    Flight__Pb__FlightInfo *to = base_arena_calloc_array(arena, 1, sizeof(*to));
    Flight__Pb__FlightDescriptor *descriptor =
        base_arena_calloc_array(arena, 1, sizeof(*descriptor));
    struct built_endpoint *endpoints =
        base_arena_calloc_array(arena, count + 1, sizeof(*endpoints));
    Flight__Pb__FlightEndpoint **pointers =
        base_arena_calloc_array(arena, count + 1, sizeof(*pointers));
    if (to == NULL || descriptor == NULL || endpoints == NULL || pointers == NULL) {
        return base_fail_no_memory(err, count * sizeof(*endpoints));
    }
    flight__pb__flight_info__init(to);
    to->has_schema = from->schema.size > 0;
    to->schema = message_data(from->schema);
    to->n_endpoint = count;
    to->endpoint = pointers;
    to->has_total_records = true;
    to->total_records = from->total_records;
    to->has_total_bytes = true;
    to->total_bytes = from->total_bytes;
    to->has_ordered = from->ordered;
    to->ordered = from->ordered;
    to->has_app_metadata = from->app_metadata.size > 0;
    to->app_metadata = message_data(from->app_metadata);
    lake_status status = LAKE_OK;
    if (from->has_descriptor) {
        status = build_descriptor(&from->descriptor, arena, descriptor, err);
        to->flight_descriptor = descriptor;
    }
    for (size_t i = 0; status == LAKE_OK && i < count; i++) {
        status = build_endpoint(&from->endpoints[i], arena, &endpoints[i], err);
        pointers[i] = &endpoints[i].endpoint;
    }
    *out = to;
    return status;
}

static lake_status read_endpoint(const Flight__Pb__FlightEndpoint *from, struct base_arena *arena,
                                 struct flight_endpoint *to, struct lake_error *err)
{
    struct lake_str *locations =
        base_arena_calloc_array(arena, from->n_location + 1, sizeof(*locations));
    if (locations == NULL) {
        return base_fail_no_memory(err, from->n_location);
    }
    to->ticket =
        from->ticket == NULL ? (struct lake_bytes){NULL, 0} : message_bytes(from->ticket->ticket);
    to->app_metadata = message_bytes(from->app_metadata);
    to->locations = locations;
    to->location_count = from->n_location;
    lake_status status =
        read_timestamp(from->expiration_time, &to->has_expiration, &to->expiration_unix_ms, err);
    for (size_t i = 0; status == LAKE_OK && i < from->n_location; i++) {
        status =
            message_text(from->location[i]->uri, "a FlightEndpoint's location", &locations[i], err);
    }
    return status;
}

static lake_status read_info(const Flight__Pb__FlightInfo *from, struct base_arena *arena,
                             struct flight_info *to, struct lake_error *err)
{
    struct flight_endpoint *endpoints =
        base_arena_calloc_array(arena, from->n_endpoint + 1, sizeof(*endpoints));
    if (endpoints == NULL) {
        return base_fail_no_memory(err, from->n_endpoint);
    }
    *to = (struct flight_info){
        .schema = message_bytes(from->schema),
        .has_descriptor = from->flight_descriptor != NULL,
        .endpoints = endpoints,
        .endpoint_count = from->n_endpoint,
        .total_records = from->total_records,
        .total_bytes = from->total_bytes,
        .ordered = from->ordered != 0,
        .app_metadata = message_bytes(from->app_metadata),
    };
    lake_status status = LAKE_OK;
    if (from->flight_descriptor != NULL) {
        status = read_descriptor(from->flight_descriptor, arena, &to->descriptor, err);
    }
    for (size_t i = 0; status == LAKE_OK && i < from->n_endpoint; i++) {
        status = read_endpoint(from->endpoint[i], arena, &endpoints[i], err);
    }
    return status;
}

lake_status flight_info_encode(const struct flight_info *info, struct base_buffer *out,
                               struct lake_error *err)
{
    Flight__Pb__FlightInfo *message;
    struct base_arena *arena;
    lake_status status = pack_arena(&arena, err);
    if (status != LAKE_OK) {
        return status;
    }
    status = build_info(info, arena, &message, err);
    if (status == LAKE_OK) {
        status = message_pack(&message->base, out, err);
    }
    base_arena_free(arena);
    return status;
}

lake_status flight_info_decode(struct lake_bytes bytes, struct base_arena *arena,
                               struct flight_info *out, struct lake_error *err)
{
    lake_status status;
    Flight__Pb__FlightInfo *message =
        message_unpack(&flight__pb__flight_info__descriptor, bytes, arena, &status, err);
    return message == NULL ? status : read_info(message, arena, out, err);
}

lake_status flight_poll_info_encode(const struct flight_poll_info *info, struct base_buffer *out,
                                    struct lake_error *err)
{
    Flight__Pb__PollInfo message = FLIGHT__PB__POLL_INFO__INIT;
    Flight__Pb__FlightDescriptor descriptor;
    Flight__Pb__Timestamp expiration;
    struct base_arena *arena;
    lake_status status = pack_arena(&arena, err);
    if (status != LAKE_OK) {
        return status;
    }
    if (info->info != NULL) {
        status = build_info(info->info, arena, &message.info, err);
    }
    if (status == LAKE_OK && info->has_descriptor) {
        status = build_descriptor(&info->descriptor, arena, &descriptor, err);
        message.flight_descriptor = &descriptor;
    }
    if (status == LAKE_OK) {
        message.has_progress = info->has_progress;
        message.progress = info->progress;
        if (info->has_expiration) {
            build_timestamp(info->expiration_unix_ms, &expiration);
            message.expiration_time = &expiration;
        }
        status = message_pack(&message.base, out, err);
    }
    base_arena_free(arena);
    return status;
}

lake_status flight_poll_info_decode(struct lake_bytes bytes, struct base_arena *arena,
                                    struct flight_poll_info *out, struct lake_error *err)
{
    lake_status status;
    Flight__Pb__PollInfo *message =
        message_unpack(&flight__pb__poll_info__descriptor, bytes, arena, &status, err);
    if (message == NULL) {
        return status;
    }
    struct flight_poll_info result = {
        .has_descriptor = message->flight_descriptor != NULL,
        .has_progress = message->has_progress != 0,
        .progress = message->progress,
    };
    status = read_timestamp(message->expiration_time, &result.has_expiration,
                            &result.expiration_unix_ms, err);
    if (status == LAKE_OK && message->info != NULL) {
        struct flight_info *info = base_arena_calloc_array(arena, 1, sizeof(*info));
        status = info == NULL ? base_fail_no_memory(err, sizeof(*info))
                              : read_info(message->info, arena, info, err);
        result.info = info;
    }
    if (status == LAKE_OK && message->flight_descriptor != NULL) {
        status = read_descriptor(message->flight_descriptor, arena, &result.descriptor, err);
    }
    if (status == LAKE_OK) {
        *out = result;
    }
    return status;
}

lake_status flight_cancel_request_encode(const struct flight_info *info, struct base_buffer *out,
                                         struct lake_error *err)
{
    Flight__Pb__CancelFlightInfoRequest message = FLIGHT__PB__CANCEL_FLIGHT_INFO_REQUEST__INIT;
    struct base_arena *arena;
    lake_status status = pack_arena(&arena, err);
    if (status != LAKE_OK) {
        return status;
    }
    status = build_info(info, arena, &message.info, err);
    if (status == LAKE_OK) {
        status = message_pack(&message.base, out, err);
    }
    base_arena_free(arena);
    return status;
}

lake_status flight_cancel_request_decode(struct lake_bytes bytes, struct base_arena *arena,
                                         struct flight_info *out, struct lake_error *err)
{
    lake_status status;
    Flight__Pb__CancelFlightInfoRequest *message = message_unpack(
        &flight__pb__cancel_flight_info_request__descriptor, bytes, arena, &status, err);
    if (message == NULL) {
        return status;
    }
    if (message->info == NULL) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a CancelFlightInfoRequest has no FlightInfo");
    }
    return read_info(message->info, arena, out, err);
}
