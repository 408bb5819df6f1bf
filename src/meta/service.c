/* Metasrv on the wire: Flight actions and DoPut, translated to the functions of this folder. */
#include "meta_internal.h"

#include <flight/flight.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_PREFIX_BYTES    256
#define DEFAULT_RETENTION_S (7 * 24 * 60 * 60)
#define MAX_RETENTION_S     (3650ULL * 24 * 60 * 60)
#define ACTION_ARENA_BYTES  (META_APPEND_MAX_BYTES + 8u * 1024 * 1024)

struct meta_service {
    struct meta_authority *authority;
    struct rpc_server *server;
    bool compaction;
};

/* ---- options ---- */

/* Before any store is opened: a bucket's prefixes without a bucket are a mistake, and a prefix must
 * be one (no empty, "." or ".." parts). */
static lake_status check_prefixes(const struct meta_options *options, struct lake_error *err)
{
    const struct {
        const char *variable;
        const char *value;
    } prefixes[] = {{"LAKE_TABLE_PREFIX", options->table_prefix},
                    {"LAKE_MANAGED_OBJECT_PREFIX", options->object_prefix}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(prefixes); i++) {
        struct lake_str prefix = base_str_of(prefixes[i].value);
        if (prefix.size > 0 && options->s3_bucket == NULL)
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "%s is a prefix in a bucket: set LAKE_S3_BUCKET too",
                             prefixes[i].variable);
        if (prefix.size > 0 && (prefix.size > MAX_PREFIX_BYTES || !storage_key_valid(prefix)))
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "%s must be a prefix such as lake/data, of 1 to %d bytes without "
                             "'/' at its ends, and is \"%.100s\"",
                             prefixes[i].variable, MAX_PREFIX_BYTES, prefixes[i].value);
    }
    return LAKE_OK;
}

lake_status meta_options_from_environment(struct meta_options *options, struct lake_error *err)
{
    struct meta_options read = {.address = "127.0.0.1:0"};
    lake_status status =
        base_config_u64("LAKE_APPEND_OPERATION_RETENTION_SECS", DEFAULT_RETENTION_S, 1,
                        MAX_RETENTION_S, &read.append_retention_s, err);
    if (status == LAKE_OK)
        status = base_config_bool("LAKE_ALLOW_INSECURE", false, &read.allow_insecure, err);
    if (status == LAKE_OK)
        status = base_config_bool("LAKE_COMPACTION", true, &read.compaction, err);
    if (status == LAKE_OK)
        status = base_config_u64("LAKE_LANCE_RETAIN_VERSIONS", META_RETAIN_VERSIONS, 1, 10000,
                                 &read.retain_versions, err);
    if (status == LAKE_OK)
        status = base_config_u64("LAKE_CLEANUP_GRACE_SECS", META_CLEANUP_GRACE_S, 1,
                                 MAX_RETENTION_S, &read.cleanup_grace_s, err);
    if (status != LAKE_OK)
        return status;
    read.tls_cert_path = base_config_string("LAKE_TLS_CERT_FILE", NULL);
    read.tls_key_path = base_config_string("LAKE_TLS_KEY_FILE", NULL);
    read.s3_bucket = base_config_string("LAKE_S3_BUCKET", NULL);
    read.table_prefix = base_config_string("LAKE_TABLE_PREFIX", NULL);
    read.object_prefix = base_config_string("LAKE_MANAGED_OBJECT_PREFIX", NULL);
    status = check_prefixes(&read, err);
    if (status != LAKE_OK)
        return status;
    *options = read;
    return LAKE_OK;
}

/* ---- one request ---- */

static bool call_is_cancelled(void *context)
{
    return rpc_call_cancelled(context);
}

static struct meta_wait wait_of(struct rpc_call *call)
{
    return (struct meta_wait){rpc_call_time_left_ms(call), call_is_cancelled, call};
}

static lake_status identify(struct rpc_call *call, struct meta_identity *out,
                            struct lake_error *err)
{
    return meta_identity_init(out, rpc_call_principal(call),
                              rpc_call_header(call, META_HEADER_PRINCIPAL),
                              rpc_call_header(call, META_HEADER_TENANT),
                              rpc_call_header(call, META_HEADER_NAMESPACES), err);
}

/* ---- methods ---- */

static lake_status run_action(struct rpc_call *call, struct meta_service *service,
                              const struct flight_action *asked, struct base_buffer *body,
                              struct lake_error *err)
{
    struct meta_identity identity;
    lake_status status = identify(call, &identity, err);
    if (status != LAKE_OK)
        return status;
    struct meta_wait wait = wait_of(call);
    status = meta_action_run(service->authority, &identity, &wait, asked, body, err);
    meta_identity_fini(&identity);
    return status;
}

static lake_status do_action(struct rpc_call *call, void *context, struct lake_error *err)
{
    struct rpc_payload payload = {0};
    bool end = false;
    lake_status status = rpc_call_receive(call, &payload, &end, err);
    if (status != LAKE_OK)
        return status;
    if (end)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "DoAction came without an action");
    struct base_arena *arena = NULL;
    struct base_buffer body;
    struct base_buffer result;
    struct flight_action action;
    base_buffer_init(&body, META_REPLY_MAX_BYTES);
    base_buffer_init(&result, META_REPLY_MAX_BYTES + 64);
    status = base_arena_new(ACTION_ARENA_BYTES, &arena, err);
    if (status == LAKE_OK)
        status = flight_action_decode(payload.bytes, arena, &action, err);
    if (status == LAKE_OK)
        status = run_action(call, context, &action, &body, err);
    if (status == LAKE_OK)
        status = flight_result_encode(base_buffer_view(&body), &result, err);
    if (status == LAKE_OK)
        status = flight_send_bytes(flight_sender_of_call(call), base_buffer_view(&result), err);
    base_buffer_fini(&result);
    base_buffer_fini(&body);
    base_arena_free(arena);
    rpc_payload_fini(&payload);
    return status;
}

static lake_status list_actions(struct rpc_call *call, void *context, struct lake_error *err)
{
    (void)context;
    for (size_t i = 0; i < meta_action_count(); i++) {
        struct flight_action_type type = meta_action_type(i);
        struct base_buffer message;
        base_buffer_init(&message, 4096);
        lake_status status = flight_action_type_encode(&type, &message, err);
        if (status == LAKE_OK)
            status =
                flight_send_bytes(flight_sender_of_call(call), base_buffer_view(&message), err);
        base_buffer_fini(&message);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

static lake_status send_append_result(struct rpc_call *call,
                                      const struct meta_append_result *result,
                                      struct lake_error *err)
{
    LakePb__AppendResult pb = LAKE_PB__APPEND_RESULT__INIT;
    pb.has_version = true;
    pb.version = result->version;
    pb.has_incarnation = true;
    pb.incarnation = meta_pb_of_str(result->incarnation);
    pb.has_row_count = true;
    pb.row_count = result->row_count;
    pb.has_replayed = true;
    pb.replayed = result->replayed;
    struct base_buffer packed;
    struct base_buffer message;
    base_buffer_init(&packed, 4096);
    base_buffer_init(&message, 4096);
    lake_status status = meta_pb_pack(&pb.base, &packed, err);
    if (status == LAKE_OK)
        status = flight_put_result_encode(base_buffer_view(&packed), &message, err);
    if (status == LAKE_OK)
        status = flight_send_bytes(flight_sender_of_call(call), base_buffer_view(&message), err);
    base_buffer_fini(&message);
    base_buffer_fini(&packed);
    return status;
}

static lake_status do_put(struct rpc_call *call, void *context, struct lake_error *err)
{
    struct meta_service *service = context;
    struct meta_identity identity;
    struct meta_received *received = NULL;
    struct meta_append_result result;
    lake_status status = identify(call, &identity, err);
    if (status != LAKE_OK)
        return status;
    struct flight_receiver receiver = flight_receiver_of_call(call);
    struct meta_wait wait = wait_of(call);
    status = meta_receive_append(service->authority, &identity, &receiver, &received, err);
    if (status == LAKE_OK)
        status = meta_append_commit(service->authority, &identity, &wait,
                                    meta_received_append(received), &result, err);
    meta_received_free(received);
    meta_identity_fini(&identity);
    if (status != LAKE_OK)
        return status;
    /* The rows are there: a failure to say so is none of the append. */
    status = BASE_FAULT("meta.append.before_reply", err);
    if (status == LAKE_OK)
        status = send_append_result(call, &result, err);
    if (status != LAKE_OK)
        status =
            lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                           "the rows were committed but that could not be said; ask again with "
                           "the same operation ID");
    return status;
}

/* ---- the service ---- */

static lake_status open_server(struct meta_service *service, const struct meta_options *options,
                               struct lake_error *err)
{
    struct rpc_server_options rpc;
    rpc_server_options_init(&rpc);
    rpc.address = options->address == NULL ? "127.0.0.1:0" : options->address;
    rpc.tls_cert_path = options->tls_cert_path;
    rpc.tls_key_path = options->tls_key_path;
    rpc.allow_insecure = options->allow_insecure;
    rpc.authenticator = options->authenticator;
    lake_status status = rpc_server_new(&rpc, &service->server, err);
    if (status == LAKE_OK)
        status = rpc_server_add_method(service->server, FLIGHT_METHOD_DO_ACTION, false, do_action,
                                       service, err);
    if (status == LAKE_OK)
        status = rpc_server_add_method(service->server, FLIGHT_METHOD_DO_PUT, false, do_put,
                                       service, err);
    if (status == LAKE_OK)
        status = rpc_server_add_method(service->server, FLIGHT_METHOD_LIST_ACTIONS, false,
                                       list_actions, service, err);
    return status;
}

static void log_recovery(const struct meta_options *options, const struct meta_recovery *found)
{
    char temporary[24];
    char creates[24];
    char drops[24];
    char operations[24];
    char moved[24];
    (void)snprintf(temporary, sizeof(temporary), "%" PRIu64, found->temporary_files);
    (void)snprintf(creates, sizeof(creates), "%" PRIu64, found->unfinished_creates);
    (void)snprintf(drops, sizeof(drops), "%" PRIu64, found->unswept_drops);
    (void)snprintf(operations, sizeof(operations), "%" PRIu64, found->pruned_operations);
    (void)snprintf(moved, sizeof(moved), "%" PRIu64, found->moved_tables);
    base_log(BASE_LOG_INFO, "opened the data directory", "data_dir", options->data_dir,
             "temporary_files_removed", temporary, "unfinished_creates_removed", creates,
             "dropped_tables_removed", drops, "expired_operations_removed", operations,
             "moved_tables_registered", moved, NULL);
}

lake_status meta_service_open(const struct meta_options *options, struct meta_service **out,
                              struct lake_error *err)
{
    struct meta_service *service = base_calloc_array(1, sizeof(*service));
    if (service == NULL)
        return base_fail_no_memory(err, sizeof(*service));
    uint64_t retention_s =
        options->append_retention_s == 0 ? DEFAULT_RETENTION_S : options->append_retention_s;
    struct meta_recovery recovery;
    /* The options of the listener first: a mistake there must not touch the data. */
    lake_status status = open_server(service, options, err);
    if (status == LAKE_OK)
        status = meta_authority_open(options, retention_s, &service->authority, &recovery, err);
    if (status != LAKE_OK) {
        meta_service_free(service);
        return status;
    }
    log_recovery(options, &recovery);
    service->compaction = options->compaction;
    *out = service;
    return LAKE_OK;
}

lake_status meta_service_start(struct meta_service *service, struct lake_error *err)
{
    struct meta_authority *authority = service->authority;
    lake_status status = LAKE_OK;
    if (service->compaction)
        status = meta_compactor_start(authority, &authority->compactor, err);
    if (status == LAKE_OK)
        status = rpc_server_start(service->server, err);
    if (status == LAKE_OK)
        rpc_server_set_serving(service->server, true);
    return status;
}

int meta_service_port(const struct meta_service *service)
{
    return rpc_server_port(service->server);
}

lake_status meta_service_stop(struct meta_service *service, int64_t grace_ms,
                              struct lake_error *err)
{
    meta_compactor_halt(service->authority->compactor);
    return rpc_server_stop(service->server, grace_ms, err);
}

void meta_service_free(struct meta_service *service)
{
    if (service == NULL)
        return;
    rpc_server_free(service->server);
    if (service->authority != NULL)
        meta_compactor_free(service->authority->compactor);
    meta_authority_free(service->authority);
    base_free(service);
}
