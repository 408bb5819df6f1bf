/* libs: meta */
/* Metasrv alone, for tests that kill it: prints "port N", serves until SIGTERM, dies at LAKE_FAULT.
 * Usage: meta_server DATA_DIR */
#include <meta/meta.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define GRACE_MS 10000

static int fail(const char *what, const struct lake_error *err)
{
    (void)fprintf(stderr, "meta_server: %s: %s: %s (%s)\n", what, lake_status_name(err->code),
                  err->message, err->cause);
    return 1;
}

static int serve(const struct meta_options *options)
{
    struct meta_service *service = NULL;
    struct lake_error err = {.code = LAKE_OK};
    sigset_t ends;
    int signal_number = 0;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &ends, NULL);
    if (meta_service_open(options, &service, &err) != LAKE_OK)
        return fail("open", &err);
    if (meta_service_start(service, &err) != LAKE_OK) {
        meta_service_free(service);
        return fail("start", &err);
    }
    (void)printf("port %d\n", meta_service_port(service));
    (void)fflush(stdout);
    (void)sigwait(&ends, &signal_number);
    lake_status status = meta_service_stop(service, GRACE_MS, &err);
    meta_service_free(service);
    return status == LAKE_OK ? 0 : fail("stop", &err);
}

int main(int argc, char **argv)
{
    struct lake_error err = {.code = LAKE_OK};
    struct meta_options options;
    struct rpc_authenticator *authenticator = NULL;
    if (argc != 2) {
        (void)fprintf(stderr, "usage: meta_server DATA_DIR\n");
        return 2;
    }
    if (base_fault_configure(getenv("LAKE_FAULT"), &err) != LAKE_OK)
        return fail("LAKE_FAULT", &err);
    if (meta_options_from_environment(&options, &err) != LAKE_OK ||
        rpc_authenticator_from_environment(&authenticator, &err) != LAKE_OK)
        return fail("options", &err);
    options.data_dir = argv[1];
    options.authenticator = authenticator;
    int code = serve(&options);
    rpc_authenticator_free(authenticator);
    return code;
}
