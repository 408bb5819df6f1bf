/*
 * SELECT statements: resolved, planned and sealed by GetFlightInfo, run from the ticket by DoGet on
 * any replica (SQL-3). A prepared statement's handle is its SQL, sealed: nothing is kept here.
 */
#include "query_internal.h"

#include <string.h>

#define PREPARED_LIFE_MS  (24LL * 3600 * 1000)
#define SLOW_MS           50 /* no rows in this time: the client gets the schema alone */
#define OVERDUE_REPEAT_MS 1000
#define MESSAGE_BYTES     ((size_t)8 * 1024 * 1024)

/* What tickets are bound to beside the caller: the registry that they speak of. */
static lake_status find_audience(struct query_server *server, char out[128], struct lake_error *err)
{
    const struct query_snapshot *snapshot = query_directory_snapshot(server->directory);
    struct lake_str authority = snapshot->authority;
    lake_status status = LAKE_OK;
    if (authority.size == 0 || authority.size >= 128)
        status = lake_fail(err, LAKE_INTERNAL, "Metasrv names no registry authority");
    else
        memcpy(out, authority.data, authority.size);
    if (status == LAKE_OK)
        out[authority.size] = '\0';
    query_snapshot_unref(snapshot);
    return status;
}

/* ---- planning ---- */

static lake_status check_sql(const struct query_server *server, struct lake_str sql,
                             struct lake_error *err)
{
    if (sql.size <= server->options.max_sql_bytes)
        return LAKE_OK;
    return lake_fail(err, LAKE_INVALID_ARGUMENT,
                     "the statement has %zu bytes, the limit is %llu (LAKE_QUERY_MAX_SQL_BYTES)",
                     sql.size, (unsigned long long)server->options.max_sql_bytes);
}

/* Authorised and resolved anew; only the planning may be spared. Give it back to server->plans. */
static lake_status plan_statement(struct query_server *server,
                                  const struct rpc_principal *principal, struct lake_str sql,
                                  struct query_plan **out, struct lake_error *err)
{
    struct sql_references references = {0};
    struct query_resolved resolved = {0};
    lake_status status = check_sql(server, sql, err);
    if (status == LAKE_OK)
        status = sql_references_parse(server->engine, sql, &references, err);
    if (status == LAKE_OK)
        status = query_tables_resolve(server, principal, &references, &resolved, err);
    sql_references_fini(&references);
    if (status != LAKE_OK)
        return status;
    *out = query_plans_take(server->plans, sql, resolved.pins, resolved.count);
    if (*out == NULL)
        return query_plan_new(server->engine, sql, &resolved, out, err);
    query_resolved_fini(&resolved);
    return LAKE_OK;
}

/* The plan of a ticket, which says exactly what it is on. */
static lake_status plan_ticket(struct query_server *server, const struct query_ticket *ticket,
                               struct query_plan **out, struct lake_error *err)
{
    struct query_resolved resolved = {0};
    *out = query_plans_take(server->plans, ticket->sql, ticket->pins, ticket->pin_count);
    if (*out != NULL)
        return LAKE_OK;
    lake_status status =
        query_tables_reopen(server, ticket->pins, ticket->pin_count, &resolved, err);
    if (status != LAKE_OK)
        return status;
    return query_plan_new(server->engine, ticket->sql, &resolved, out, err);
}

/* ---- GetFlightInfo, GetSchema ---- */

static lake_status seal(struct query_server *server, const struct rpc_principal *principal,
                        const struct query_ticket *ticket, int64_t ttl_ms, struct base_buffer *out,
                        struct lake_error *err)
{
    char audience[128];
    lake_status status = find_audience(server, audience, err);
    if (status == LAKE_OK)
        status = query_ticket_seal(server->ticket_keys, ticket, principal, base_str_of(audience),
                                   base_clock_unix_ms(), ttl_ms, out, err);
    if (status == LAKE_OK && out->size > server->options.max_sql_bytes)
        status = lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                           "the ticket would have %zu bytes, the limit is %llu "
                           "(LAKE_QUERY_MAX_SQL_BYTES): use a shorter statement",
                           out->size, (unsigned long long)server->options.max_sql_bytes);
    return status;
}

static lake_status statement_ticket(struct query_server *server,
                                    const struct rpc_principal *principal, struct lake_str sql,
                                    const struct query_plan *plan, struct base_buffer *out,
                                    struct lake_error *err)
{
    struct query_ticket ticket = {
        .purpose = QUERY_TICKET_STATEMENT,
        .sql = sql,
        .pins = plan->resolved.pins,
        .pin_count = plan->resolved.count,
        .schema_sha256 = {plan->schema_sha256, sizeof(plan->schema_sha256)},
    };
    struct base_buffer sealed;
    base_buffer_init(&sealed, MESSAGE_BYTES);
    lake_status status = seal(server, principal, &ticket,
                              (int64_t)server->options.ticket_ttl_s * 1000, &sealed, err);
    if (status == LAKE_OK) {
        struct flight_sql_command command = {.kind = FLIGHT_SQL_TICKET_STATEMENT_QUERY};
        command.as.prepared.handle = base_buffer_view(&sealed);
        status = flight_sql_command_encode(&command, out, err);
    }
    base_buffer_fini(&sealed);
    return status;
}

lake_status query_info_encode(struct lake_bytes schema, struct lake_bytes ticket,
                              struct lake_bytes descriptor, struct base_buffer *out,
                              struct lake_error *err)
{
    struct base_arena *arena = NULL;
    struct flight_endpoint endpoint = {.ticket = ticket};
    struct flight_info info = {
        .schema = schema,
        .endpoints = &endpoint,
        .endpoint_count = 1,
        .total_records = -1,
        .total_bytes = -1,
        .ordered = true,
    };
    lake_status status = base_arena_new(MESSAGE_BYTES, &arena, err);
    if (status == LAKE_OK && descriptor.size > 0) {
        info.has_descriptor = true;
        status = flight_descriptor_decode(descriptor, arena, &info.descriptor, err);
    }
    if (status == LAKE_OK)
        status = flight_info_encode(&info, out, err);
    base_arena_free(arena);
    return status;
}

lake_status query_statement_info(struct query_server *server, const struct rpc_principal *principal,
                                 struct lake_str sql, struct lake_bytes descriptor,
                                 bool schema_only, struct base_buffer *out, struct lake_error *err)
{
    struct query_plan *plan = NULL;
    struct base_buffer ticket;
    base_buffer_init(&ticket, MESSAGE_BYTES);
    lake_status status = plan_statement(server, principal, sql, &plan, err);
    if (status != LAKE_OK)
        return status;
    if (schema_only) {
        status = flight_schema_result_encode(base_buffer_view(&plan->schema), out, err);
        goto out;
    }
    status = statement_ticket(server, principal, sql, plan, &ticket, err);
    if (status == LAKE_OK)
        status = query_info_encode(base_buffer_view(&plan->schema), base_buffer_view(&ticket),
                                   descriptor, out, err);
out:
    base_buffer_fini(&ticket);
    query_plans_give(server->plans, plan);
    return status;
}

/* ---- prepared statements ---- */

lake_status query_prepared_create(struct query_server *server,
                                  const struct rpc_principal *principal, struct lake_str sql,
                                  struct base_buffer *out, struct lake_error *err)
{
    struct query_plan *plan = NULL;
    struct query_ticket ticket = {.purpose = QUERY_TICKET_PREPARED, .sql = sql};
    struct base_buffer handle;
    base_buffer_init(&handle, MESSAGE_BYTES);
    lake_status status = plan_statement(server, principal, sql, &plan, err);
    if (status != LAKE_OK)
        return status;
    status = seal(server, principal, &ticket, PREPARED_LIFE_MS, &handle, err);
    if (status == LAKE_OK) {
        struct flight_sql_command result = {.kind = FLIGHT_SQL_CREATE_PREPARED_RESULT};
        result.as.create_prepared_result.handle = base_buffer_view(&handle);
        result.as.create_prepared_result.dataset_schema = base_buffer_view(&plan->schema);
        status = flight_sql_command_encode(&result, out, err);
    }
    base_buffer_fini(&handle);
    query_plans_give(server->plans, plan);
    return status;
}

lake_status query_prepared_open(struct query_server *server, const struct rpc_principal *principal,
                                struct lake_bytes handle, struct query_ticket *out,
                                struct lake_error *err)
{
    char audience[128];
    lake_status status = find_audience(server, audience, err);
    if (status == LAKE_OK)
        status = query_ticket_open(server->ticket_keys, handle, QUERY_TICKET_PREPARED, principal,
                                   base_str_of(audience), base_clock_unix_ms(), out, err);
    return status;
}

/* ---- DoGet ---- */

static void interrupt(void *query)
{
    sql_query_interrupt(query);
}

struct running {
    struct sql_query *query;
    struct rpc_call *call;
    int64_t timeout_ms;
};

/* What the watchdog does: sends the schema of a statement whose first rows take a while; when its
 * time is over it ends the engine's work, then, should a slow reader hold a send, the call. */
enum {
    LOOK_SLOW,
    LOOK_OVERDUE
};
static int64_t look_at_statement(void *context, uint32_t times)
{
    struct running *running = context;
    if (times == LOOK_SLOW) {
        rpc_call_flush(running->call);
        return BASE_MAX(running->timeout_ms - SLOW_MS, 0);
    }
    sql_query_interrupt(running->query);
    if (times > LOOK_OVERDUE)
        rpc_call_abort(running->call, LAKE_DEADLINE_EXCEEDED);
    return OVERDUE_REPEAT_MS;
}

static lake_status stream_batches(struct flight_sender sender, struct sql_query *query,
                                  struct lake_error *err)
{
    struct flight_stream_writer *writer = NULL;
    struct flight_stream_options options;
    bool end = false;
    flight_stream_options_init(&options);
    options.max_message_bytes = QUERY_MAX_ROW_BYTES;
    lake_status status =
        flight_stream_writer_new(sender, sql_query_schema(query), &options, &writer, err);
    if (status == LAKE_OK)
        status =
            flight_stream_writer_begin(writer, (struct lake_bytes){0}, (struct lake_bytes){0}, err);
    while (status == LAKE_OK && !end) {
        struct ArrowArray array = {0};
        struct arrow_batch *batch = NULL;
        status = sql_query_next(query, &array, &end, err);
        if (status != LAKE_OK || end)
            break;
        status = arrow_batch_new(&array, &batch, err);
        if (status == LAKE_OK)
            status = flight_stream_writer_write(writer, batch, err);
        arrow_batch_unref(batch);
    }
    flight_stream_writer_free(writer);
    return status;
}

/* CancelFlightInfo: the engine stops, and a send that a slow reader holds fails. */
static void cancel_run(void *context)
{
    struct running *running = context;
    sql_query_interrupt(running->query);
    rpc_call_abort(running->call, LAKE_CANCELLED);
}

static lake_status run_watched(struct query_server *server, struct rpc_call *call,
                               struct lake_bytes sealed_ticket, struct query_plan *plan,
                               struct lake_error *err)
{
    struct sql_query *query = plan->query;
    struct query_run run;
    struct query_watch watch;
    struct running running = {query, call, (int64_t)server->options.execution_timeout_ms};
    lake_status status =
        query_running_add(server->running, &run, sealed_ticket, cancel_run, &running, err);
    if (status != LAKE_OK)
        return status;
    query_watchdog_add(server->watchdog, &watch, BASE_MIN(SLOW_MS, running.timeout_ms),
                       look_at_statement, &running);
    rpc_call_on_cancel(call, interrupt, query);
    status =
        stream_batches(query_result_record(&plan->result, flight_sender_of_call(call)), query, err);
    query_result_recorded(&plan->result, status == LAKE_OK);
    rpc_call_on_cancel(call, NULL, NULL);
    query_running_remove(server->running, &run);
    bool expired = query_watchdog_remove(server->watchdog, &watch) > LOOK_OVERDUE;
    if (status != LAKE_OK && expired)
        return lake_fail(err, LAKE_DEADLINE_EXCEEDED,
                         "the statement ran longer than %llu ms (LAKE_QUERY_EXECUTION_TIMEOUT_MS)",
                         (unsigned long long)server->options.execution_timeout_ms);
    return status;
}

/* A kept result is as good as a run only while a run could still read its tables. */
static lake_status send_kept(struct rpc_call *call, const struct query_plan *plan, bool *sent,
                             struct lake_error *err)
{
    lake_status status = LAKE_OK;
    bool there = query_result_kept(&plan->result);
    for (size_t i = 0; i < plan->resolved.count && there && status == LAKE_OK; i++)
        status = lance_dataset_exists(plan->resolved.tables[i].dataset, &there, err);
    if (status == LAKE_OK && there)
        status = query_result_send(&plan->result, call, err);
    *sent = there;
    return status;
}

static lake_status run_ticket(struct query_server *server, struct rpc_call *call,
                              struct lake_bytes sealed_ticket, const struct query_ticket *ticket,
                              struct lake_error *err)
{
    struct query_plan *plan = NULL;
    lake_status status = plan_ticket(server, ticket, &plan, err);
    if (status != LAKE_OK)
        return status;
    if (!base_bytes_equal(ticket->schema_sha256,
                          (struct lake_bytes){plan->schema_sha256, BASE_SHA256_BYTES}))
        status = lake_fail(err, LAKE_FAILED_PRECONDITION,
                           "this server plans the statement with another result schema than the "
                           "one that made the ticket: run the statement again");
    bool sent = false;
    if (status == LAKE_OK)
        status = send_kept(call, plan, &sent, err);
    if (status == LAKE_OK && !sent)
        status = run_watched(server, call, sealed_ticket, plan, err);
    query_plans_give(server->plans, plan);
    return status;
}

lake_status query_statement_run(struct query_server *server, struct rpc_call *call,
                                struct lake_bytes sealed_ticket, struct lake_error *err)
{
    const struct rpc_principal *principal = rpc_call_principal(call);
    struct query_ticket ticket = {0};
    struct query_permit *permit = NULL;
    char audience[128];
    lake_status status = find_audience(server, audience, err);
    if (status == LAKE_OK)
        status =
            query_ticket_open(server->ticket_keys, sealed_ticket, QUERY_TICKET_STATEMENT, principal,
                              base_str_of(audience), base_clock_unix_ms(), &ticket, err);
    if (status == LAKE_OK)
        status = query_admission_acquire(server->admission, principal->tenant_id, &permit, err);
    if (status == LAKE_OK)
        status = run_ticket(server, call, sealed_ticket, &ticket, err);
    query_permit_release(permit);
    query_ticket_fini(&ticket);
    return status;
}

/* ---- CancelFlightInfo ---------------------------------------------------------------------------
 */

/* What a FlightInfo's endpoint hands out, sealed; empty when it is not a statement's. */
static lake_status sealed_of(struct lake_bytes ticket, struct base_arena *arena,
                             struct lake_bytes *out, struct lake_error *err)
{
    struct flight_sql_command command;
    lake_status status = flight_sql_command_decode(ticket, arena, &command, err);
    if (status == LAKE_OK && command.kind == FLIGHT_SQL_TICKET_STATEMENT_QUERY)
        *out = command.as.prepared.handle;
    return status;
}

lake_status query_statement_cancel(struct query_server *server,
                                   const struct rpc_principal *principal,
                                   const struct flight_info *info, struct base_arena *arena,
                                   size_t *count, struct lake_error *err)
{
    char audience[128];
    size_t total = 0;
    lake_status status = find_audience(server, audience, err);
    for (size_t i = 0; i < info->endpoint_count && status == LAKE_OK; i++) {
        struct lake_bytes sealed = {0};
        struct query_ticket ticket = {0};
        size_t ended = 0;
        status = sealed_of(info->endpoints[i].ticket, arena, &sealed, err);
        if (status == LAKE_OK && sealed.size > 0)
            status =
                query_ticket_open(server->ticket_keys, sealed, QUERY_TICKET_STATEMENT, principal,
                                  base_str_of(audience), base_clock_unix_ms(), &ticket, err);
        if (status == LAKE_OK && sealed.size > 0)
            status = query_running_cancel(server->running, sealed, &ended, err);
        query_ticket_fini(&ticket);
        total += ended;
    }
    if (status == LAKE_OK)
        *count = total;
    return status;
}
