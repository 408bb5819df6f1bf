#include "client_internal.h"

#include "upload_parts.h"

#include <string.h>

#define DEFAULT_TIMEOUT_MS 30000
#define MAX_CACHE_TABLES   65536
#define MAX_CACHE_TTL_MS   3600000

lake_status client_action_within(lake_client *client, int64_t timeout_ms, const char *type,
                                 struct lake_bytes body, struct base_buffer *reply,
                                 struct lake_error *err)
{
    struct flight_action action = {base_str_of(type), body};
    return flight_do_action(client->channel, NULL, 0, timeout_ms, &action, reply, err);
}

lake_status client_action(lake_client *client, const char *type, struct lake_bytes body,
                          struct base_buffer *reply, struct lake_error *err)
{
    return client_action_within(client, client->timeout_ms, type, body, reply, err);
}

static lake_status check_options(const char *address, const struct lake_connect_options *options,
                                 struct lake_error *err)
{
    if (address == NULL || strchr(address, ':') == NULL)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the address must be host:port, not '%s'",
                         address == NULL ? "" : address);
    if (options->version != 1)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "lake_connect_options has version %u, this library knows 1: initialise it "
                         "with LAKE_CONNECT_OPTIONS_INIT",
                         options->version);
    if (options->schema_cache_tables > MAX_CACHE_TABLES ||
        options->schema_cache_ttl_ms > MAX_CACHE_TTL_MS)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the schema cache holds at most %d tables for %d ms", MAX_CACHE_TABLES,
                         MAX_CACHE_TTL_MS);
    if (options->upload_parts_in_flight > STORAGE_MULTIPART_MAX_IN_FLIGHT)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "at most %d parts of an upload are in flight",
                         STORAGE_MULTIPART_MAX_IN_FLIGHT);
    if (options->timeout_ms < 0)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "timeout_ms must not be negative");
    return LAKE_OK;
}

static lake_status open_channel(const char *address, const struct lake_connect_options *options,
                                struct rpc_channel **out, struct lake_error *err)
{
    struct base_secret token = {0};
    struct rpc_channel_options channel = {
        .target = address,
        .tls = options->tls || options->ca_pem != NULL || options->server_name != NULL,
        .ca_pem = options->ca_pem,
        .server_name = options->server_name,
    };
    lake_status status = LAKE_OK;
    if (options->bearer_token != NULL) {
        status =
            base_secret_copy(&token, base_bytes_of_str(base_str_of(options->bearer_token)), err);
        channel.bearer_token = &token;
    }
    if (status == LAKE_OK)
        status = rpc_channel_open(&channel, out, err);
    base_secret_fini(&token);
    return status;
}

static bool keep_text(ProtobufCBinaryData text, char **out)
{
    if (text.len > 0)
        *out = base_strndup((const char *)text.data, text.len);
    return text.len == 0 || *out != NULL;
}

static lake_status keep_stage(lake_client *client, bool query_only,
                              const LakePb__StageDescriptor *stage, struct lake_error *err)
{
    client->lake_uri = base_strndup((const char *)stage->root_uri.data, stage->root_uri.len);
    if (client->lake_uri == NULL)
        return base_fail_no_memory(err, stage->root_uri.len);
    if (query_only)
        return LAKE_OK;
    client->stage_path_style = stage->path_style;
    client->stage_uri = base_strndup((const char *)stage->root_uri.data, stage->root_uri.len);
    if (client->stage_uri == NULL || !keep_text(stage->endpoint, &client->stage_endpoint) ||
        !keep_text(stage->region, &client->stage_region))
        return base_fail_no_memory(err, stage->root_uri.len);
    return LAKE_OK;
}

/* Asks for the stage: the one request that shows at once that a server is there (OBJ-2). */
static lake_status fetch_stage(lake_client *client, bool query_only, struct lake_error *err)
{
    struct base_buffer reply;
    base_buffer_init(&reply, 65536);
    lake_status status = client_action(client, "lake.stage", (struct lake_bytes){0}, &reply, err);
    if (status == LAKE_OK) {
        LakePb__StageDescriptor *stage =
            lake_pb__stage_descriptor__unpack(NULL, reply.size, reply.data);
        if (stage == NULL || stage->format_version != 1)
            status = lake_fail(err, LAKE_UNIMPLEMENTED,
                               "the server's stage descriptor is newer than this library");
        else
            status = keep_stage(client, query_only, stage, err);
        if (stage != NULL)
            lake_pb__stage_descriptor__free_unpacked(stage, NULL);
    }
    base_buffer_fini(&reply);
    return status;
}

static lake_status connect_client(const char *address, const struct lake_connect_options *given,
                                  bool query_only, lake_client **out, struct lake_error *err)
{
    struct lake_connect_options options = LAKE_CONNECT_OPTIONS_INIT;
    if (given != NULL)
        options = *given;
    lake_error_clear(err);
    lake_status status = check_options(address, &options, err);
    if (status != LAKE_OK)
        return status;
    lake_client *client = base_calloc_array(1, sizeof(*client));
    if (client == NULL)
        return base_fail_no_memory(err, sizeof(*client));
    atomic_init(&client->references, 1);
    pthread_mutex_init(&client->stage_lock, NULL);
    client->timeout_ms = options.timeout_ms == 0 ? DEFAULT_TIMEOUT_MS : options.timeout_ms;
    client->upload_parts_in_flight = options.upload_parts_in_flight == 0
                                         ? UPLOAD_DEFAULT_IN_FLIGHT
                                         : options.upload_parts_in_flight;
    if (options.upload_checkpoint_dir != NULL) {
        client->upload_checkpoint_dir = base_strdup(options.upload_checkpoint_dir);
        status = client->upload_checkpoint_dir == NULL ? base_fail_no_memory(err, 0) : LAKE_OK;
    }
    if (status == LAKE_OK)
        status = open_channel(address, &options, &client->channel, err);
    if (status == LAKE_OK)
        status = client_schema_cache_new(&options, &client->schemas, err);
    if (status == LAKE_OK)
        status = fetch_stage(client, query_only, err);
    if (status != LAKE_OK) {
        lake_client_unref(client);
        return status;
    }
    *out = client;
    return LAKE_OK;
}

lake_status lake_connect(const char *address, const struct lake_connect_options *options,
                         lake_client **out, struct lake_error *err)
{
    return connect_client(address, options, false, out, err);
}

lake_status lake_connect_query_only(const char *address, const struct lake_connect_options *options,
                                    lake_client **out, struct lake_error *err)
{
    return connect_client(address, options, true, out, err);
}

lake_status lake_connect_with_store(const char *address, const struct lake_connect_options *options,
                                    const struct lake_store_methods *store, void *context,
                                    lake_client **out, struct lake_error *err)
{
    lake_client *client = NULL;
    lake_error_clear(err);
    lake_status status = client_caller_store_check(store, err);
    if (status == LAKE_OK)
        status = connect_client(address, options, false, &client, err);
    if (status == LAKE_OK)
        status = client_caller_store_new(store, context, client->stage_uri, &client->stage, err);
    if (status == LAKE_OK)
        *out = client;
    else
        lake_client_unref(client);
    return status;
}

lake_client *lake_client_ref(lake_client *client)
{
    atomic_fetch_add(&client->references, 1);
    return client;
}

void lake_client_unref(lake_client *client)
{
    if (client == NULL || atomic_fetch_sub(&client->references, 1) != 1)
        return;
    storage_store_unref(client->stage);
    storage_url_reader_unref(client->url_reader);
    client_schema_cache_free(client->schemas);
    rpc_channel_unref(client->channel);
    pthread_mutex_destroy(&client->stage_lock);
    base_free(client->lake_uri);
    base_free(client->stage_uri);
    base_free(client->stage_endpoint);
    base_free(client->stage_region);
    base_free(client->upload_checkpoint_dir);
    base_free(client);
}

/* With the credentials that AWS's own tools would find here. What the environment says about the
 * service goes before what the server says: this machine may reach it by another address. */
static lake_status open_stage(const lake_client *client, struct storage_store **out,
                              struct lake_error *err)
{
    struct storage_s3_options options;
    storage_s3_options_init(&options);
    if (base_config_string("AWS_ENDPOINT_URL_S3", base_config_string("AWS_ENDPOINT_URL", NULL)) ==
        NULL) {
        options.endpoint = client->stage_endpoint;
        if (client->stage_path_style)
            options.addressing = STORAGE_S3_ADDRESS_PATH;
    }
    options.region = client->stage_region;
    return storage_open_uri(base_str_of(client->stage_uri), true, &options, out, err);
}

lake_status client_stage(lake_client *client, struct storage_store **out, struct lake_error *err)
{
    if (client->stage_uri == NULL)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "this client was connected for queries only: use lake_connect to write "
                         "objects, and the calls via Query to read them");
    struct storage_store *opened = NULL;
    pthread_mutex_lock(&client->stage_lock);
    struct storage_store *stage = client->stage;
    pthread_mutex_unlock(&client->stage_lock);
    if (stage == NULL) {
        lake_status status = open_stage(client, &opened, err);
        if (status != LAKE_OK)
            return status;
        pthread_mutex_lock(&client->stage_lock);
        if (client->stage == NULL) {
            client->stage = opened;
            opened = NULL;
        }
        stage = client->stage;
        pthread_mutex_unlock(&client->stage_lock);
        storage_store_unref(opened); /* another thread was faster */
    }
    *out = stage;
    return LAKE_OK;
}
