/* libs: flight */
/*
 * serve_batches FILE.arrow REPEAT
 *
 * Serves the batches of an Arrow IPC file, REPEAT times over, to every DoGet. Prints its port.
 * Lake's side of flight_doget.
 */
#include <flight/flight.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BATCHES 4096

static struct ArrowSchema schema;
static struct arrow_batch *batches[MAX_BATCHES];
static size_t batch_count;
static size_t repeat;

static lake_status serve(struct rpc_call *call, void *context, struct lake_error *err)
{
    struct flight_stream_writer *writer = NULL;
    struct rpc_payload request = {0};
    struct lake_bytes none = {0};
    bool end = false;
    (void)context;
    lake_status status = rpc_call_receive(call, &request, &end, err);
    rpc_payload_fini(&request);
    if (status == LAKE_OK)
        status = flight_stream_writer_new(flight_sender_of_call(call), &schema, NULL, &writer, err);
    if (status == LAKE_OK)
        status = flight_stream_writer_begin(writer, none, none, err);
    for (size_t i = 0; i < repeat * batch_count && status == LAKE_OK; i++)
        status = flight_stream_writer_write(writer, batches[i % batch_count], err);
    flight_stream_writer_free(writer);
    return status;
}

static lake_status load(const char *path, struct lake_error *err)
{
    struct ArrowArrayStream stream;
    lake_status status = arrow_ipc_open_file(path, NULL, &stream, err);
    if (status != LAKE_OK)
        return status;
    if (stream.get_schema(&stream, &schema) != 0)
        return lake_fail(err, LAKE_INTERNAL, "no schema");
    for (; batch_count < MAX_BATCHES; batch_count++) {
        struct ArrowArray array = {0};
        if (stream.get_next(&stream, &array) != 0)
            return lake_fail(err, LAKE_INTERNAL, "%s", stream.get_last_error(&stream));
        if (array.release == NULL)
            break;
        status = arrow_batch_new(&array, &batches[batch_count], err);
        if (status != LAKE_OK)
            return status;
    }
    stream.release(&stream);
    return LAKE_OK;
}

int main(int argc, char **argv)
{
    struct lake_error error = {0};
    struct rpc_authenticator *authenticator = NULL;
    struct rpc_server *server = NULL;
    struct rpc_server_options options;
    sigset_t signals;
    int number;
    if (argc != 3)
        return 2;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    base_memory_tune();
    repeat = strtoul(argv[2], NULL, 10);
    rpc_server_options_init(&options);
    options.address = "127.0.0.1:0";
    lake_status status = load(argv[1], &error);
    if (status == LAKE_OK)
        status = rpc_authenticator_new(NULL, NULL, &authenticator, &error);
    options.authenticator = authenticator;
    if (status == LAKE_OK)
        status = rpc_server_new(&options, &server, &error);
    if (status == LAKE_OK)
        status = rpc_server_add_method(server, FLIGHT_METHOD_DO_GET, false, serve, NULL, &error);
    if (status == LAKE_OK)
        status = rpc_server_start(server, &error);
    if (status != LAKE_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("%d\n", rpc_server_port(server));
    fflush(stdout);
    sigwait(&signals, &number);
    rpc_server_free(server);
    rpc_authenticator_free(authenticator);
    return 0;
}
