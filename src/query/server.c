#include "query_internal.h"

#include <string.h>

void query_server_free(struct query_server *server)
{
    if (server == NULL)
        return;
    rpc_server_free(server->rpc);
    query_watchdog_free(server->watchdog);
    query_running_free(server->running);
    query_admission_free(server->admission);
    query_stage_free(server->stage);
    query_directory_free(server->directory);
    query_metasrv_free(server->metasrv);
    query_plans_free(server->plans);
    query_tables_free(server->tables);
    sql_engine_free(server->engine);
    query_ticket_keys_free(server->ticket_keys);
    base_free(server);
}

/* What a string of the environment means for an option: NULL when unset or empty. */
static const char *environment_path(const char *variable)
{
    return base_config_string(variable, NULL);
}

lake_status query_options_from_environment(struct query_options *options, struct lake_error *err)
{
    *options = (struct query_options){
        .address = "127.0.0.1:0",
        .tls_cert_path = environment_path("LAKE_TLS_CERT_FILE"),
        .tls_key_path = environment_path("LAKE_TLS_KEY_FILE"),
        .meta_token_path = environment_path("LAKE_METADATA_AUTH_TOKEN_FILE"),
        .meta_ca_path = environment_path("LAKE_METADATA_CA_FILE"),
        .meta_server_name = environment_path("LAKE_METADATA_SERVER_NAME"),
        .ticket_keys_path = environment_path("LAKE_QUERY_TICKET_KEYS_FILE"),
        .temp_directory = environment_path("LAKE_QUERY_TEMP_DIR"),
    };
    const struct {
        const char *variable;
        uint64_t fallback, min, max;
        uint64_t *out;
    } numbers[] = {
        {"LAKE_QUERY_TICKET_TTL_SECS", 300, 1, 3600, &options->ticket_ttl_s},
        {"LAKE_QUERY_MAX_CONCURRENT", 64, 1, 4096, &options->max_concurrent},
        {"LAKE_QUERY_MAX_CONCURRENT_PER_TENANT", 8, 1, 4096, &options->max_concurrent_per_tenant},
        {"LAKE_QUERY_MAX_TRACKED_TENANTS", 4096, 1, 1048576, &options->max_tracked_tenants},
        {"LAKE_QUERY_QUEUE_TIMEOUT_MS", 100, 1, 600000, &options->queue_timeout_ms},
        {"LAKE_QUERY_EXECUTION_TIMEOUT_MS", 1800000, 1, 86400000, &options->execution_timeout_ms},
        {"LAKE_QUERY_MAX_SQL_BYTES", 1048576, 1, 16777216, &options->max_sql_bytes},
        {"LAKE_QUERY_MEMORY_BYTES", 0, 0, UINT64_MAX >> 1, &options->memory_limit_bytes},
    };
    lake_status status =
        base_config_bool("LAKE_ALLOW_INSECURE", false, &options->allow_insecure, err);
    for (size_t i = 0; i < BASE_ARRAY_LEN(numbers) && status == LAKE_OK; i++)
        status = base_config_u64(numbers[i].variable, numbers[i].fallback, numbers[i].min,
                                 numbers[i].max, numbers[i].out, err);
    return status;
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "localhost:", 10) == 0 ||
           strncmp(address, "[::1]:", 6) == 0;
}

static lake_status open_rpc(struct query_server *server, struct lake_error *err)
{
    const struct query_options *options = &server->options;
    struct rpc_server_options rpc;
    rpc_server_options_init(&rpc);
    rpc.address = options->address;
    rpc.tls_cert_path = options->tls_cert_path;
    rpc.tls_key_path = options->tls_key_path;
    rpc.allow_insecure = options->allow_insecure;
    rpc.authenticator = options->authenticator;
    /* A worker for every place and as many for the short calls between (ADM-1). */
    rpc.worker_count = (uint32_t)BASE_MIN(options->max_concurrent * 2, 1024);
    lake_status status = rpc_server_new(&rpc, &server->rpc, err);
    if (status == LAKE_OK)
        status = query_add_methods(server, err);
    return status;
}

static lake_status open_engine(struct query_server *server, struct lake_error *err)
{
    struct sql_engine_options engine;
    sql_engine_options_init(&engine);
    engine.memory_limit_bytes = server->options.memory_limit_bytes;
    engine.temp_directory = server->options.temp_directory;
    return sql_engine_open(&engine, &server->engine, err);
}

lake_status query_server_open(const struct query_options *options, struct query_server **out,
                              struct lake_error *err)
{
    struct query_admission_limits limits = {
        .max_concurrent = (uint32_t)options->max_concurrent,
        .max_concurrent_per_tenant = (uint32_t)options->max_concurrent_per_tenant,
        .max_tracked_tenants = (uint32_t)options->max_tracked_tenants,
        .queue_timeout_ms = (uint32_t)options->queue_timeout_ms,
    };
    if (options->ticket_keys_path == NULL && !is_loopback(options->address))
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a Query server off loopback (%s) needs LAKE_QUERY_TICKET_KEYS_FILE",
                         options->address);
    struct query_server *server = base_calloc_array(1, sizeof(*server));
    if (server == NULL)
        return base_fail_no_memory(err, sizeof(*server));
    server->options = *options;
    lake_status status =
        query_ticket_keys_open(options->ticket_keys_path, &server->ticket_keys, err);
    if (status == LAKE_OK)
        status = open_rpc(server, err);
    if (status == LAKE_OK)
        status = open_engine(server, err);
    if (status == LAKE_OK)
        status = query_tables_new(&server->tables, err);
    if (status == LAKE_OK)
        status = query_plans_new(&server->plans, err);
    if (status == LAKE_OK)
        status = query_admission_new(&limits, &server->admission, err);
    if (status == LAKE_OK)
        status = query_watchdog_new(&server->watchdog, err);
    if (status == LAKE_OK)
        status = query_running_new(&server->running, err);
    if (status == LAKE_OK)
        status = query_metasrv_open(options, &server->metasrv, err);
    if (status == LAKE_OK)
        status = query_directory_open(server->metasrv, &server->directory, err);
    if (status == LAKE_OK)
        status = query_stage_new(server->metasrv, server->directory, &server->stage, err);
    if (status != LAKE_OK) {
        query_server_free(server);
        return status;
    }
    *out = server;
    return LAKE_OK;
}

lake_status query_server_start(struct query_server *server, struct lake_error *err)
{
    lake_status status = rpc_server_start(server->rpc, err);
    if (status == LAKE_OK)
        rpc_server_set_serving(server->rpc, true);
    return status;
}

int query_server_port(const struct query_server *server)
{
    return rpc_server_port(server->rpc);
}

lake_status query_server_stop(struct query_server *server, int64_t grace_ms, struct lake_error *err)
{
    return rpc_server_stop(server->rpc, grace_ms, err);
}
