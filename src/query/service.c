/* The Flight methods: decode the request, dispatch on its command, encode the answer. */
#include "query_internal.h"

#include <openssl/evp.h>
#include <string.h>

#define REQUEST_ARENA_BYTES ((size_t)16 * 1024 * 1024)
#define REPLY_BYTES         ((size_t)64 * 1024 * 1024)
#define MAINTENANCE_MAX_MS  (24 * 60 * 60 * INT64_C(1000)) /* of a caller without a deadline */
#define MAX_CREDENTIALS     8192                           /* holds the longest token in base64 */

/* ---- one request, one reply ---- */

struct request {
    struct query_server *server;
    struct rpc_call *call;
    const struct rpc_principal *principal;
    struct rpc_payload payload;
    struct base_arena *arena;
    struct base_buffer reply;
};

static void request_fini(struct request *request)
{
    rpc_payload_fini(&request->payload);
    base_arena_free(request->arena);
    base_buffer_fini(&request->reply);
}

static lake_status request_init(struct request *request, struct query_server *server,
                                struct rpc_call *call, struct lake_error *err)
{
    bool end = false;
    *request =
        (struct request){.server = server, .call = call, .principal = rpc_call_principal(call)};
    base_buffer_init(&request->reply, REPLY_BYTES);
    lake_status status = base_arena_new(REQUEST_ARENA_BYTES, &request->arena, err);
    if (status == LAKE_OK)
        status = rpc_call_receive(call, &request->payload, &end, err);
    if (status == LAKE_OK && end)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "the request has no message");
    if (status != LAKE_OK)
        request_fini(request);
    return status;
}

static lake_status send_reply(struct request *request, struct lake_error *err)
{
    return flight_send_bytes(flight_sender_of_call(request->call),
                             base_buffer_view(&request->reply), err);
}

/* ---- GetFlightInfo and GetSchema ---- */

static lake_status answer_prepared(struct request *request,
                                   const struct flight_sql_command *command, bool schema_only,
                                   struct lake_error *err)
{
    struct query_ticket prepared = {0};
    lake_status status = query_prepared_open(request->server, request->principal,
                                             command->as.prepared.handle, &prepared, err);
    if (status == LAKE_OK)
        status = query_statement_info(request->server, request->principal, prepared.sql,
                                      request->payload.bytes, schema_only, &request->reply, err);
    query_ticket_fini(&prepared);
    return status;
}

static lake_status answer_descriptor(struct request *request, bool schema_only,
                                     struct lake_error *err)
{
    struct flight_descriptor descriptor;
    struct flight_sql_command command;
    lake_status status =
        flight_descriptor_decode(request->payload.bytes, request->arena, &descriptor, err);
    if (status == LAKE_OK && descriptor.type != FLIGHT_DESCRIPTOR_CMD)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "this is a Flight SQL server: the descriptor must hold a command");
    if (status == LAKE_OK)
        status = flight_sql_command_decode(descriptor.command, request->arena, &command, err);
    if (status != LAKE_OK)
        return status;
    if (query_is_listing(command.kind))
        return query_listing_info(&command, descriptor.command, request->payload.bytes, schema_only,
                                  &request->reply, err);
    switch (command.kind) {
    case FLIGHT_SQL_STATEMENT_QUERY:
        return query_statement_info(request->server, request->principal, command.as.statement.query,
                                    request->payload.bytes, schema_only, &request->reply, err);
    case FLIGHT_SQL_PREPARED_QUERY:
        return answer_prepared(request, &command, schema_only, err);
    case FLIGHT_SQL_STATEMENT_UPDATE:
    case FLIGHT_SQL_PREPARED_UPDATE:
    case FLIGHT_SQL_STATEMENT_INGEST:
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "%s", SQL_READ_ONLY_MESSAGE);
    default:
        return lake_fail(err, LAKE_UNIMPLEMENTED, "this Flight SQL command is not supported");
    }
}

static lake_status describe(struct query_server *server, struct rpc_call *call, bool schema_only,
                            struct lake_error *err)
{
    struct request request;
    lake_status status = request_init(&request, server, call, err);
    if (status != LAKE_OK)
        return status;
    status = answer_descriptor(&request, schema_only, err);
    if (status == LAKE_OK)
        status = send_reply(&request, err);
    request_fini(&request);
    return status;
}

static lake_status get_flight_info(struct rpc_call *call, void *server, struct lake_error *err)
{
    return describe(server, call, false, err);
}

static lake_status get_schema(struct rpc_call *call, void *server, struct lake_error *err)
{
    return describe(server, call, true, err);
}

/* ---- DoGet ---- */

static lake_status run_ticket(struct request *request, struct lake_error *err)
{
    struct lake_bytes ticket;
    struct flight_sql_command command;
    lake_status status = flight_ticket_decode(request->payload.bytes, &ticket, err);
    if (status == LAKE_OK && ticket.size > request->server->options.max_sql_bytes + 1024)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "the ticket has %zu bytes, the limit is %llu (LAKE_QUERY_MAX_SQL_BYTES)",
                           ticket.size, (unsigned long long)request->server->options.max_sql_bytes);
    if (status == LAKE_OK)
        status = flight_sql_command_decode(ticket, request->arena, &command, err);
    if (status != LAKE_OK)
        return status;
    if (command.kind == FLIGHT_SQL_TICKET_STATEMENT_QUERY)
        return query_statement_run(request->server, request->call, command.as.prepared.handle, err);
    if (query_is_listing(command.kind))
        return query_listing_run(request->server, request->call, &command, err);
    return lake_fail(err, LAKE_INVALID_ARGUMENT, "the ticket is none of this server's");
}

static lake_status do_get(struct rpc_call *call, void *server, struct lake_error *err)
{
    struct request request;
    lake_status status = request_init(&request, server, call, err);
    if (status != LAKE_OK)
        return status;
    status = run_ticket(&request, err);
    request_fini(&request);
    return status;
}

static lake_status do_put(struct rpc_call *call, void *server, struct lake_error *err)
{
    return query_put_run(server, call, err);
}

/* ---- actions ---- */

struct action {
    const char *type;
    const char *description;
    /* Appends the body of the one result to `out`; leaves it empty for none. */
    lake_status (*run)(struct request *request, struct lake_bytes body, struct base_buffer *out,
                       struct lake_error *err);
};

static lake_status create_prepared(struct request *request, struct lake_bytes body,
                                   struct base_buffer *out, struct lake_error *err)
{
    struct flight_sql_command command;
    lake_status status = flight_sql_command_decode(body, request->arena, &command, err);
    if (status == LAKE_OK && command.kind != FLIGHT_SQL_CREATE_PREPARED_REQUEST)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "the action's body is no CreatePreparedStatement request");
    if (status == LAKE_OK)
        status = query_prepared_create(request->server, request->principal,
                                       command.as.statement.query, out, err);
    return status;
}

/* A handle is its statement, sealed: there is nothing here to close. */
static lake_status close_prepared(struct request *request, struct lake_bytes body,
                                  struct base_buffer *out, struct lake_error *err)
{
    struct flight_sql_command command;
    (void)out;
    return flight_sql_command_decode(body, request->arena, &command, err);
}

static lake_status close_session(struct request *request, struct lake_bytes body,
                                 struct base_buffer *out, struct lake_error *err)
{
    (void)request;
    (void)body;
    return flight_close_session_result_encode(FLIGHT_CLOSE_SESSION_CLOSED, out, err);
}

/* A statement runs inside its DoGet, on whichever server that went to: what runs here ends. */
static lake_status cancel_flight_info(struct request *request, struct lake_bytes body,
                                      struct base_buffer *out, struct lake_error *err)
{
    struct flight_info info;
    size_t count = 0;
    lake_status status = flight_cancel_request_decode(body, request->arena, &info, err);
    if (status == LAKE_OK)
        status = query_statement_cancel(request->server, request->principal, &info, request->arena,
                                        &count, err);
    if (status != LAKE_OK)
        return status;
    return flight_cancel_result_encode(
        count > 0 ? FLIGHT_CANCEL_CANCELLED : FLIGHT_CANCEL_NOT_CANCELLABLE, out, err);
}

static lake_status forward(struct request *request, const char *type, struct lake_bytes body,
                           struct base_buffer *out, struct lake_error *err)
{
    return query_metasrv_action(request->server->metasrv, request->principal, type, body, out, err);
}

/* After a change the directory is fetched anew, so that its author sees it at once. */
static lake_status forward_change(struct request *request, const char *type, struct lake_bytes body,
                                  struct base_buffer *out, struct lake_error *err)
{
    struct lake_error ignored = {0};
    lake_status status = forward(request, type, body, out, err);
    if (status == LAKE_OK)
        (void)query_directory_refresh(request->server->directory, &ignored);
    return status;
}

static lake_status create_table(struct request *request, struct lake_bytes body,
                                struct base_buffer *out, struct lake_error *err)
{
    return forward_change(request, "lake.create_table", body, out, err);
}

static lake_status drop_table(struct request *request, struct lake_bytes body,
                              struct base_buffer *out, struct lake_error *err)
{
    return forward_change(request, "lake.drop_table", body, out, err);
}

/* As long as the caller waits: it rewrites up to the whole table, or looks at all its files. */
static lake_status forward_maintenance(struct request *request, const char *action,
                                       struct lake_bytes body, struct base_buffer *out,
                                       struct lake_error *err)
{
    return query_metasrv_action_within(
        request->server->metasrv, request->principal,
        BASE_MIN(rpc_call_time_left_ms(request->call), MAINTENANCE_MAX_MS), action, body, out, err);
}

static lake_status compact_table(struct request *request, struct lake_bytes body,
                                 struct base_buffer *out, struct lake_error *err)
{
    return forward_maintenance(request, "lake.compact_table", body, out, err);
}

static lake_status cleanup_table(struct request *request, struct lake_bytes body,
                                 struct base_buffer *out, struct lake_error *err)
{
    return forward_maintenance(request, "lake.cleanup_table", body, out, err);
}

/* Its columns may be others than those of the version it replaces. */
static lake_status restore_table(struct request *request, struct lake_bytes body,
                                 struct base_buffer *out, struct lake_error *err)
{
    struct lake_error ignored = {0};
    lake_status status = forward_maintenance(request, "lake.restore_table", body, out, err);
    if (status == LAKE_OK)
        (void)query_directory_refresh(request->server->directory, &ignored);
    return status;
}

static lake_status change_rows(struct request *request, struct lake_bytes body,
                               struct base_buffer *out, struct lake_error *err)
{
    return query_change_rows(request->server, request->call, body, out, err);
}

/* The root is Metasrv's; the caller learns only its tenant's child of it (OBJ-2). */
static lake_status stage(struct request *request, struct lake_bytes body, struct base_buffer *out,
                         struct lake_error *err)
{
    (void)body;
    return query_stage_describe(request->server->stage, request->principal, out, err);
}

/* A query-only client's one way to objects: it reads them by the URL (OBJ-8). */
static lake_status presign_read(struct request *request, struct lake_bytes body,
                                struct base_buffer *out, struct lake_error *err)
{
    return query_stage_presign(request->server, request->principal, body, out, err);
}

static const struct action actions[] = {
    {FLIGHT_ACTION_CREATE_PREPARED, "Prepares a SELECT; the handle holds the statement",
     create_prepared},
    {FLIGHT_ACTION_CLOSE_PREPARED, "Closes a prepared statement", close_prepared},
    {FLIGHT_ACTION_CLOSE_SESSION, "Ends the session", close_session},
    {FLIGHT_ACTION_CANCEL_FLIGHT_INFO, "Cancels a statement", cancel_flight_info},
    {"lake.create_table", "Creates a table", create_table},
    {"lake.drop_table", "Drops a table", drop_table},
    {"lake.compact_table", "Puts small fragments of a table together", compact_table},
    {"lake.cleanup_table", "Removes old versions of a table", cleanup_table},
    {"lake.list_tables", "Lists tables", NULL},
    {"lake.resolve_tables", "Describes tables with their newest versions", NULL},
    {"lake.table_schema", "The registered schema of a table", NULL},
    {"lake.change_rows", "Deletes or updates the rows for which a predicate holds", change_rows},
    {"lake.restore_table", "Makes an older version the newest", restore_table},
    {"lake.create_tag", "Names a version, which then stays", NULL},
    {"lake.delete_tag", "Removes a tag", NULL},
    {"lake.list_tags", "The tags of a table", NULL},
    {"lake.create_branch", "Begins a branch of a table", NULL},
    {"lake.delete_branch", "Deletes a branch", NULL},
    {"lake.list_branches", "The branches of a table", NULL},
    {"lake.table_history", "The versions of a table", NULL},
    {"lake.diff_versions", "How two versions of a table differ", NULL},
    {"lake.stage", "Where the caller's objects go", stage},
    {"lake.presign_read", "A URL that reads one of the caller's objects for a while", presign_read},
};

static lake_status run_action(struct request *request, struct lake_error *err)
{
    struct flight_action called;
    struct base_buffer body;
    base_buffer_init(&body, REPLY_BYTES);
    lake_status status = flight_action_decode(request->payload.bytes, request->arena, &called, err);
    if (status != LAKE_OK)
        return status;
    status = LAKE_UNIMPLEMENTED;
    for (size_t i = 0; i < BASE_ARRAY_LEN(actions); i++) {
        if (base_str_equal_c(called.type, actions[i].type)) {
            status = actions[i].run != NULL
                         ? actions[i].run(request, called.body, &body, err)
                         : forward(request, actions[i].type, called.body, &body, err);
            break;
        }
        if (i + 1 == BASE_ARRAY_LEN(actions))
            lake_fail(err, LAKE_UNIMPLEMENTED,
                      "this server has no action %.*s: ListActions names those it has",
                      LAKE_STR_FMT(called.type));
    }
    if (status == LAKE_OK && body.size > 0) {
        status = flight_result_encode(base_buffer_view(&body), &request->reply, err);
        if (status == LAKE_OK)
            status = send_reply(request, err);
    }
    base_buffer_fini(&body);
    return status;
}

static lake_status do_action(struct rpc_call *call, void *server, struct lake_error *err)
{
    struct request request;
    lake_status status = request_init(&request, server, call, err);
    if (status != LAKE_OK)
        return status;
    status = run_action(&request, err);
    request_fini(&request);
    return status;
}

static lake_status list_actions(struct rpc_call *call, void *server, struct lake_error *err)
{
    struct request request;
    lake_status status = request_init(&request, server, call, err);
    if (status != LAKE_OK)
        return status;
    for (size_t i = 0; i < BASE_ARRAY_LEN(actions) && status == LAKE_OK; i++) {
        struct flight_action_type type = {base_str_of(actions[i].type),
                                          base_str_of(actions[i].description)};
        base_buffer_clear(&request.reply);
        status = flight_action_type_encode(&type, &request.reply, err);
        if (status == LAKE_OK)
            status = send_reply(&request, err);
    }
    request_fini(&request);
    return status;
}

/* ---- Handshake: user and password, as BI tools have them (F16) ---- */

/* "user:password" from its base64, whose padding may be missing: the Go client, which is inside the
 * ADBC driver, sends none. */
static lake_status decode_basic(struct lake_str encoded, char out[MAX_CREDENTIALS],
                                struct lake_error *err)
{
    uint8_t padded[MAX_CREDENTIALS];
    uint8_t decoded[MAX_CREDENTIALS];
    size_t padding = (4 - encoded.size % 4) % 4;
    int size = -1;
    if (encoded.size + padding <= sizeof(padded) && padding < 3) {
        memcpy(padded, encoded.data, encoded.size);
        memset(padded + encoded.size, '=', padding);
        size = EVP_DecodeBlock(decoded, padded, (int)(encoded.size + padding));
    }
    while (size > 0 && decoded[size - 1] == '\0') /* of the padding */
        size--;
    const uint8_t *colon = size <= 0 ? NULL : memchr(decoded, ':', (size_t)size);
    if (colon != NULL) {
        size_t password_bytes = (size_t)(decoded + size - colon) - 1;
        memcpy(out, colon + 1, password_bytes);
        out[password_bytes] = '\0';
    }
    explicit_bzero(padded, sizeof(padded));
    explicit_bzero(decoded, sizeof(decoded));
    return colon != NULL ? LAKE_OK
                         : lake_fail(err, LAKE_UNAUTHENTICATED,
                                     "the Basic credentials are malformed: they must be the base64 "
                                     "of user:token");
}

/* The password of "Basic <base64 of user:password>", or of the payload's BasicAuth. */
static lake_status basic_password(struct request *request, char out[MAX_CREDENTIALS],
                                  struct lake_error *err)
{
    struct lake_str header = rpc_call_header(request->call, "authorization");
    struct flight_handshake handshake;
    struct flight_basic_auth auth;
    if (header.size > 6 && strncasecmp(header.data, "basic ", 6) == 0)
        return decode_basic((struct lake_str){header.data + 6, header.size - 6}, out, err);
    lake_status status =
        flight_handshake_decode(request->payload.bytes, request->arena, &handshake, err);
    if (status == LAKE_OK)
        status = flight_basic_auth_decode(handshake.payload, request->arena, &auth, err);
    if (status == LAKE_OK && auth.password.size >= MAX_CREDENTIALS)
        status = lake_fail(err, LAKE_UNAUTHENTICATED, "the password is too long");
    if (status == LAKE_OK) {
        memcpy(out, auth.password.data, auth.password.size);
        out[auth.password.size] = '\0';
    }
    return status;
}

static lake_status answer_handshake(struct request *request, struct lake_error *err)
{
    const struct rpc_principal *principal;
    char password[MAX_CREDENTIALS];
    char *bearer = NULL;
    lake_status status = basic_password(request, password, err);
    if (status == LAKE_OK) {
        bearer = base_format("Bearer %s", password);
        if (bearer == NULL)
            status = base_fail_no_memory(err, MAX_CREDENTIALS);
    }
    explicit_bzero(password, sizeof(password));
    if (status == LAKE_OK)
        status = rpc_authenticate(rpc_call_authenticator(request->call), base_str_of(bearer),
                                  &principal, err);
    if (status == LAKE_OK)
        status = rpc_call_set_header(request->call, "authorization", base_str_of(bearer), err);
    if (status == LAKE_OK) {
        struct flight_handshake answer = {0};
        status = flight_handshake_encode(&answer, &request->reply, err);
    }
    if (bearer != NULL)
        explicit_bzero(bearer, strlen(bearer));
    base_free(bearer);
    return status == LAKE_OK ? send_reply(request, err) : status;
}

static lake_status handshake(struct rpc_call *call, void *server, struct lake_error *err)
{
    struct request request = {.server = server, .call = call};
    bool end = false;
    base_buffer_init(&request.reply, REPLY_BYTES);
    lake_status status = base_arena_new(REQUEST_ARENA_BYTES, &request.arena, err);
    if (status == LAKE_OK) /* PyArrow and the Go client send no message, only the header */
        status = rpc_call_receive(call, &request.payload, &end, err);
    if (status == LAKE_OK)
        status = answer_handshake(&request, err);
    request_fini(&request);
    return status;
}

lake_status query_add_methods(struct query_server *server, struct lake_error *err)
{
    static const struct {
        const char *method;
        bool anonymous;
        rpc_handler handler;
    } methods[] = {
        {FLIGHT_METHOD_HANDSHAKE, true, handshake},
        {FLIGHT_METHOD_GET_FLIGHT_INFO, false, get_flight_info},
        {FLIGHT_METHOD_GET_SCHEMA, false, get_schema},
        {FLIGHT_METHOD_DO_GET, false, do_get},
        {FLIGHT_METHOD_DO_PUT, false, do_put},
        {FLIGHT_METHOD_DO_ACTION, false, do_action},
        {FLIGHT_METHOD_LIST_ACTIONS, false, list_actions},
    };
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < BASE_ARRAY_LEN(methods) && status == LAKE_OK; i++)
        status = rpc_server_add_method(server->rpc, methods[i].method, methods[i].anonymous,
                                       methods[i].handler, server, err);
    return status;
}
