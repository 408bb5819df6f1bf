/* lake up, lake meta, lake query: the servers, until SIGINT or SIGTERM (OPS-1). */
#include "cli_internal.h"

#include <pthread.h>
#include <rpc/rpc.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* ---- signals ---- */

/* Before any thread starts, so that all of them leave these signals to wait_for_signal. */
static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

static const char *wait_for_signal(const sigset_t *set)
{
    int number = 0;
    while (sigwait(set, &number) != 0)
        continue;
    return number == SIGINT ? "SIGINT" : "SIGTERM";
}

/* What stops: both servers, or one. A second signal stops hard (F11). */
struct stopping {
    const sigset_t *signals;
    struct cli_servers *servers;
    atomic_bool done;
};

static void *hurry_on_signal(void *context)
{
    struct stopping *stopping = context;
    const struct timespec poll = {.tv_nsec = 50 * 1000 * 1000};
    while (!atomic_load(&stopping->done)) {
        if (sigtimedwait(stopping->signals, NULL, &poll) > 0) {
            base_log(BASE_LOG_WARN, "second signal: stopping at once", NULL);
            if (stopping->servers->query != NULL)
                (void)query_server_stop(stopping->servers->query, 0, NULL);
            if (stopping->servers->meta != NULL)
                (void)meta_service_stop(stopping->servers->meta, 0, NULL);
        }
    }
    return NULL;
}

static lake_status stop_servers(struct cli_servers *servers, int64_t grace_ms,
                                struct lake_error *err)
{
    if (servers->query == NULL)
        return meta_service_stop(servers->meta, grace_ms, err);
    if (servers->meta == NULL)
        return query_server_stop(servers->query, grace_ms, err);
    return cli_servers_stop(servers, grace_ms, err);
}

static lake_status drain(struct cli_servers *servers, const sigset_t *signals, int64_t grace_ms,
                         struct lake_error *err)
{
    struct stopping stopping = {.signals = signals, .servers = servers};
    pthread_t thread;
    bool watched = pthread_create(&thread, NULL, hurry_on_signal, &stopping) == 0;
    lake_status status = stop_servers(servers, grace_ms, err);
    atomic_store(&stopping.done, true);
    if (watched)
        pthread_join(thread, NULL);
    return status;
}

/* ---- serving ---- */

static void announce(const struct cli_options *options, const struct cli_servers *servers)
{
    if (options->json) {
        printf("{\"ready\": true, \"query\": \"%s\", \"meta\": \"%s\", \"pid\": %ld}\n",
               servers->query_address, servers->meta_address, (long)getpid());
    } else if (servers->query != NULL) {
        printf("Lake is up: SQL on %s (Arrow Flight SQL)\n"
               "Try: lake sql 'SELECT 1'   Stop: Ctrl-C\n",
               servers->query_address);
    } else {
        printf("Metasrv is up on %s\n", servers->meta_address);
    }
    fflush(stdout);
    clearerr(stdout); /* it serves all the same */
}

static lake_status read_grace(uint64_t *grace_ms, struct lake_error *err)
{
    return base_config_u64("LAKE_SHUTDOWN_GRACE_MS", 30000, 1, 86400000, grace_ms, err);
}

static int serve_until_signal(const struct cli_options *options, struct cli_servers *servers,
                              const sigset_t *signals, uint64_t grace_ms, bool endpoint)
{
    struct lake_error error = {0};
    lake_status status = LAKE_OK;
    if (endpoint)
        status = cli_endpoint_write(options->data_dir, servers, &error);
    if (status == LAKE_OK) {
        announce(options, servers);
        const char *name = wait_for_signal(signals);
        base_log(BASE_LOG_INFO, "stopping", "signal", name, NULL);
        if (endpoint)
            cli_endpoint_remove(options->data_dir);
        status = drain(servers, signals, (int64_t)grace_ms, &error);
    }
    cli_servers_fini(servers);
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    base_log(BASE_LOG_INFO, "stopped", NULL);
    return CLI_EXIT_OK;
}

/* Reads options that are all addresses, named in the order of `addresses`. CLI_EXIT_OK to go on,
 * the exit code when there is an end of it in *stop. */
static int read_addresses(struct cli_options *options, const struct cli_command *command,
                          const char *const *names, const char **const *addresses, int argc,
                          char **argv, bool *stop)
{
    const char *value = NULL;
    int index = 0;
    for (int which; (which = cli_next(options, names, argc, argv, &index, &value)) != CLI_END;) {
        *stop = which < 0;
        if (which == CLI_ARGUMENT)
            return cli_usage_error(command, "unexpected argument %s", value);
        if (which < 0)
            return cli_stop(command, which);
        *stop = !cli_is_address(value);
        if (*stop)
            return cli_usage_error(command, "--%.*s takes HOST:PORT, not %s",
                                   (int)strcspn(names[which], "="), names[which], value);
        *addresses[which] = value;
    }
    return CLI_EXIT_OK;
}

static int run_up(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {"listen=", "meta-listen=", NULL};
    const char *query_address = CLI_DEFAULT_QUERY_ADDR;
    const char *meta_address = "127.0.0.1:0";
    const char **const addresses[] = {&query_address, &meta_address};
    bool stop = false;
    int code = read_addresses(options, &cli_up, names, addresses, argc, argv, &stop);
    if (stop)
        return code;
    struct cli_servers servers = {0};
    struct lake_error error = {0};
    sigset_t signals;
    block_signals(&signals);
    uint64_t grace_ms = 0;
    lake_status status = read_grace(&grace_ms, &error);
    if (status == LAKE_OK)
        status =
            cli_servers_start(options->data_dir, query_address, meta_address, &servers, &error);
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    return serve_until_signal(options, &servers, &signals, grace_ms, true);
}

static int run_meta(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {"listen=", NULL};
    const char *address = CLI_DEFAULT_META_ADDR;
    const char **const addresses[] = {&address};
    bool stop = false;
    int code = read_addresses(options, &cli_meta, names, addresses, argc, argv, &stop);
    if (stop)
        return code;
    struct cli_servers servers = {0};
    struct meta_options meta;
    struct lake_error error = {0};
    sigset_t signals;
    block_signals(&signals);
    uint64_t grace_ms = 0;
    lake_status status = read_grace(&grace_ms, &error);
    if (status == LAKE_OK)
        status = meta_options_from_environment(&meta, &error);
    if (status == LAKE_OK)
        status = rpc_authenticator_from_environment(&servers.authenticator, &error);
    if (status == LAKE_OK) {
        meta.data_dir = options->data_dir;
        meta.address = address;
        meta.authenticator = servers.authenticator;
        status = meta_service_open(&meta, &servers.meta, &error);
    }
    if (status == LAKE_OK)
        status = meta_service_start(servers.meta, &error);
    if (status != LAKE_OK) {
        cli_servers_fini(&servers);
        return cli_fail(options, &error);
    }
    snprintf(servers.meta_address, sizeof(servers.meta_address), "%.*s:%d",
             (int)(strrchr(address, ':') - address), address, meta_service_port(servers.meta));
    return serve_until_signal(options, &servers, &signals, grace_ms, false);
}

static int run_query(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {"listen=", "meta=", NULL};
    const char *address = CLI_DEFAULT_QUERY_ADDR;
    const char *meta_address = CLI_DEFAULT_META_ADDR;
    const char **const addresses[] = {&address, &meta_address};
    bool stop = false;
    int code = read_addresses(options, &cli_query, names, addresses, argc, argv, &stop);
    if (stop)
        return code;
    struct cli_servers servers = {0};
    struct query_options query;
    struct lake_error error = {0};
    sigset_t signals;
    block_signals(&signals);
    uint64_t grace_ms = 0;
    lake_status status = read_grace(&grace_ms, &error);
    if (status == LAKE_OK)
        status = query_options_from_environment(&query, &error);
    if (status == LAKE_OK)
        status = rpc_authenticator_from_environment(&servers.authenticator, &error);
    if (status == LAKE_OK) {
        query.address = address;
        query.meta_address = meta_address;
        query.authenticator = servers.authenticator;
        status = query_server_open(&query, &servers.query, &error);
    }
    if (status == LAKE_OK)
        status = query_server_start(servers.query, &error);
    if (status != LAKE_OK) {
        cli_servers_fini(&servers);
        return cli_fail(options, &error);
    }
    snprintf(servers.query_address, sizeof(servers.query_address), "%.*s:%d",
             (int)(strrchr(address, ':') - address), address, query_server_port(servers.query));
    snprintf(servers.meta_address, sizeof(servers.meta_address), "%s", meta_address);
    return serve_until_signal(options, &servers, &signals, grace_ms, false);
}

const struct cli_command cli_up = {
    "up", "serve a data directory: Metasrv and Query in one process",
    "Usage: lake up [--data-dir DIR] [--listen HOST:PORT] [--meta-listen HOST:PORT]\n"
    "\n"
    "Serves the tables and objects of a data directory, which is made when it is not there, until\n"
    "SIGINT or SIGTERM; then it lets running statements end for LAKE_SHUTDOWN_GRACE_MS (30000).\n"
    "A second signal stops at once.\n"
    "\n"
    "  --listen HOST:PORT       where SQL is served (default " CLI_DEFAULT_QUERY_ADDR ")\n"
    "  --meta-listen HOST:PORT  where Metasrv listens (default: a free port on loopback)\n"
    "\n"
    "Examples:\n"
    "  lake up\n"
    "  lake up --data-dir /srv/lake --listen 127.0.0.1:9000\n",
    run_up};

const struct cli_command cli_meta = {
    "meta", "serve the commit authority alone",
    "Usage: lake meta [--data-dir DIR] [--listen HOST:PORT]\n"
    "\n"
    "Serves the registry and commits appends (default " CLI_DEFAULT_META_ADDR ").\n"
    "\n"
    "Example:\n"
    "  lake meta --data-dir /srv/lake\n",
    run_meta};

const struct cli_command cli_query = {"query", "serve SQL alone, beside a running Metasrv",
                                      "Usage: lake query [--listen HOST:PORT] [--meta HOST:PORT]\n"
                                      "\n"
                                      "Serves Arrow Flight SQL (default " CLI_DEFAULT_QUERY_ADDR
                                      ") over the tables of the Metasrv at\n"
                                      "--meta (default " CLI_DEFAULT_META_ADDR
                                      "). It keeps no state: run as many as you like.\n"
                                      "\n"
                                      "Example:\n"
                                      "  lake query --meta 127.0.0.1:8816\n",
                                      run_query};
