/* From the options to a connected client: a given server, the running one, or one inside. */
#include "cli_internal.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <rpc/rpc.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENDPOINT_FILE  "server.json"
#define MAX_TEXT_BYTES ((size_t)1024 * 1024)

/* ---- servers in this process ---- */

lake_status cli_servers_start(const char *data_dir, const char *query_address,
                              const char *meta_address, struct cli_servers *out,
                              struct lake_error *err)
{
    struct cli_servers servers = {0};
    struct meta_options meta;
    struct query_options query;
    lake_status status = meta_options_from_environment(&meta, err);
    if (status == LAKE_OK)
        status = query_options_from_environment(&query, err);
    if (status == LAKE_OK)
        status = rpc_authenticator_from_environment(&servers.authenticator, err);
    if (status != LAKE_OK)
        goto out;
    meta.data_dir = data_dir;
    meta.address = meta_address;
    meta.authenticator = servers.authenticator;
    status = meta_service_open(&meta, &servers.meta, err);
    if (status == LAKE_OK)
        status = meta_service_start(servers.meta, err);
    if (status != LAKE_OK)
        goto out;
    snprintf(servers.meta_address, sizeof(servers.meta_address), "127.0.0.1:%d",
             meta_service_port(servers.meta));
    query.address = query_address;
    query.meta_address = servers.meta_address;
    query.authenticator = servers.authenticator;
    status = query_server_open(&query, &servers.query, err);
    if (status == LAKE_OK)
        status = query_server_start(servers.query, err);
    if (status == LAKE_OK)
        snprintf(servers.query_address, sizeof(servers.query_address), "127.0.0.1:%d",
                 query_server_port(servers.query));
out:
    if (status != LAKE_OK) {
        cli_servers_fini(&servers);
        return status;
    }
    *out = servers;
    return LAKE_OK;
}

lake_status cli_servers_stop(struct cli_servers *servers, int64_t grace_ms, struct lake_error *err)
{
    lake_status status = query_server_stop(servers->query, grace_ms, err);
    lake_status meta = meta_service_stop(servers->meta, grace_ms, status == LAKE_OK ? err : NULL);
    return status != LAKE_OK ? status : meta;
}

void cli_servers_fini(struct cli_servers *servers)
{
    query_server_free(servers->query);
    meta_service_free(servers->meta);
    rpc_authenticator_free(servers->authenticator);
    *servers = (struct cli_servers){0};
}

/* ---- the running server's address ---- */

static void endpoint_path(const char *data_dir, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/" ENDPOINT_FILE, data_dir);
}

lake_status cli_endpoint_write(const char *data_dir, const struct cli_servers *servers,
                               struct lake_error *err)
{
    char path[PATH_MAX];
    char side[PATH_MAX + 8];
    endpoint_path(data_dir, path);
    snprintf(side, sizeof(side), "%s.new", path);
    FILE *file = fopen(side, "w");
    if (file == NULL)
        return base_fail_errno(err, errno, "cannot write %s", side);
    fprintf(file, "{\"query\": \"%s\", \"meta\": \"%s\", \"pid\": %ld}\n", servers->query_address,
            servers->meta_address, (long)getpid());
    if (fclose(file) != 0 || rename(side, path) != 0)
        return base_fail_errno(err, errno, "cannot write %s", path);
    return LAKE_OK;
}

void cli_endpoint_remove(const char *data_dir)
{
    char path[PATH_MAX];
    endpoint_path(data_dir, path);
    (void)unlink(path);
}

/* False when no file names one; a stale file names one that does not answer. */
static bool read_endpoint(const char *data_dir, char out[64])
{
    char path[PATH_MAX];
    endpoint_path(data_dir, path);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    const char *address = json_string_value(json_object_get(root, "query"));
    bool found = address != NULL && strlen(address) < 64;
    if (found)
        memcpy(out, address, strlen(address) + 1);
    json_decref(root);
    return found;
}

/* ---- connecting ---- */

/* A small text file, NUL-terminated; base_free. */
static lake_status read_text(const char *path, char **out, struct lake_error *err)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return base_fail_errno(err, errno, "cannot open %s", path);
    char *text = base_alloc(MAX_TEXT_BYTES + 1);
    size_t size = text == NULL ? 0 : fread(text, 1, MAX_TEXT_BYTES + 1, file);
    fclose(file);
    if (text == NULL)
        return base_fail_no_memory(err, MAX_TEXT_BYTES);
    if (size == 0 || size > MAX_TEXT_BYTES) {
        base_free(text);
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "%s must hold 1 to %zu bytes", path,
                         MAX_TEXT_BYTES);
    }
    text[size] = '\0';
    *out = text;
    return LAKE_OK;
}

static lake_status connect_to(const struct cli_options *options, const char *address,
                              lake_client **out, struct lake_error *err)
{
    struct lake_connect_options connect = LAKE_CONNECT_OPTIONS_INIT;
    struct base_secret token = {0};
    char *token_text = NULL;
    char *ca = NULL;
    lake_status status = LAKE_OK;
    if (options->token_path != NULL) {
        status = base_secret_read_file(&token, options->token_path, 65536, err);
        if (status == LAKE_OK)
            token_text = base_strndup((const char *)token.data, token.size);
    }
    if (status == LAKE_OK && options->ca_path != NULL)
        status = read_text(options->ca_path, &ca, err);
    if (status == LAKE_OK) {
        connect.bearer_token = token_text;
        connect.ca_pem = ca;
        connect.tls = options->tls;
        connect.server_name = options->server_name;
        connect.upload_checkpoint_dir = base_config_string("LAKE_UPLOAD_CHECKPOINT_DIR", NULL);
        status = lake_connect(address, &connect, out, err);
    }
    if (token_text != NULL)
        explicit_bzero(token_text, strlen(token_text));
    base_free(token_text);
    base_secret_fini(&token);
    base_free(ca);
    return status;
}

/* The server that has the data directory, if it answers, one way or the other; else why not: a
 * stale file names it, or it is stopping. */
static bool ask_running(const struct cli_options *options, lake_client **out, lake_status *status,
                        struct lake_error *err)
{
    char address[64];
    if (!read_endpoint(options->data_dir, address))
        return false;
    *status = connect_to(options, address, out, err);
    return *status != LAKE_UNAVAILABLE;
}

/* `unanswered` is what came of asking the server that should have it, if one was. */
static lake_status fail_in_use(const struct cli_options *options,
                               const struct lake_error *unanswered, struct lake_error *err)
{
    if (unanswered->code != LAKE_OK)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "the data directory %s is in use, and the server that should have it "
                         "does not answer: %s%s%s",
                         options->data_dir, unanswered->message,
                         unanswered->cause[0] == '\0' ? "" : ": ", unanswered->cause);
    return lake_fail(err, LAKE_FAILED_PRECONDITION,
                     "another command is at work on the data directory %s; to share it, let `lake "
                     "up` serve it: commands then go through that",
                     options->data_dir);
}

lake_status cli_session_open(const struct cli_options *options, struct cli_session *out,
                             struct lake_error *err)
{
    struct cli_session session = {0};
    struct lake_error unanswered = {0};
    lake_status status;
    if (options->address != NULL) {
        status = connect_to(options, options->address, &session.client, err);
    } else if (!ask_running(options, &session.client, &status, &unanswered)) {
        base_log_set_level(BASE_LOG_WARN);
        status = cli_servers_start(options->data_dir, "127.0.0.1:0", "127.0.0.1:0",
                                   &session.servers, err);
        session.embedded = status == LAKE_OK;
        if (status == LAKE_FAILED_PRECONDITION)
            status = fail_in_use(options, &unanswered, err);
        if (status == LAKE_OK)
            status = connect_to(options, session.servers.query_address, &session.client, err);
    } else if (status != LAKE_OK && err != NULL) {
        *err = unanswered;
    }
    if (status != LAKE_OK) {
        cli_session_close(&session);
        return status;
    }
    *out = session;
    return LAKE_OK;
}

void cli_session_close(struct cli_session *session)
{
    lake_client_unref(session->client);
    if (session->embedded)
        cli_servers_fini(&session->servers);
    *session = (struct cli_session){0};
}
