/* libs: rpc */
/*
 * What src/rpc costs by itself, without Flight or SQL: the time of a small call alone, pairs of
 * calls from many threads, and the rate of a stream of 2 MiB messages. Not part of `make bench`.
 *
 *   rpc_pingpong [threads [seconds]]
 */
#include <rpc/rpc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STREAM_MESSAGE_BYTES ((size_t)2 << 20)
#define STREAM_MESSAGES      4096
#define SINGLE_CALLS         20000

static uint8_t stream_data[STREAM_MESSAGE_BYTES];

static void die(const struct lake_error *err)
{
    fprintf(stderr, "rpc_pingpong: %s\n", err->message);
    exit(1);
}

static lake_status echo(struct rpc_call *call, void *context, struct lake_error *err)
{
    (void)context;
    struct rpc_payload request = {{NULL, 0}, NULL};
    bool end = false;
    lake_status status = rpc_call_receive(call, &request, &end, err);
    if (status != LAKE_OK || end) {
        return status;
    }
    struct rpc_part part = {.data = request.bytes.data, .size = request.bytes.size, .copy = true};
    status = rpc_call_send_last(call, &part, 1, err);
    rpc_payload_fini(&request);
    return status;
}

static lake_status stream(struct rpc_call *call, void *context, struct lake_error *err)
{
    (void)context;
    lake_status status = LAKE_OK;
    for (int i = 0; i < STREAM_MESSAGES && status == LAKE_OK; i++) {
        struct rpc_part part = {.data = stream_data, .size = sizeof(stream_data)};
        status = rpc_call_send(call, &part, 1, err);
    }
    return status;
}

struct client {
    const char *target;
    int64_t until_us;
    uint64_t pairs;
};

static struct rpc_channel *open_channel(const char *target)
{
    struct lake_error err = {0};
    struct rpc_channel *channel = NULL;
    struct rpc_channel_options options = {.target = target};
    if (rpc_channel_open(&options, &channel, &err) != LAKE_OK) {
        die(&err);
    }
    return channel;
}

static void one_call(struct rpc_channel *channel)
{
    static const uint8_t text[100];
    struct lake_error err = {0};
    struct rpc_payload reply = {{NULL, 0}, NULL};
    if (rpc_unary(channel, "/bench.Bench/Echo", (struct lake_bytes){text, sizeof(text)}, 10000,
                  &reply, &err) != LAKE_OK) {
        die(&err);
    }
    rpc_payload_fini(&reply);
}

static void *run_client(void *context)
{
    struct client *client = context;
    struct rpc_channel *channel = open_channel(client->target);
    while (base_clock_monotonic_us() < client->until_us) {
        one_call(channel);
        one_call(channel);
        client->pairs++;
    }
    rpc_channel_unref(channel);
    return NULL;
}

static int compare_times(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static void measure_single(const char *target)
{
    static int64_t times_us[SINGLE_CALLS];
    struct rpc_channel *channel = open_channel(target);
    one_call(channel);
    for (int i = 0; i < SINGLE_CALLS; i++) {
        int64_t start_us = base_clock_monotonic_us();
        one_call(channel);
        times_us[i] = base_clock_monotonic_us() - start_us;
    }
    qsort(times_us, SINGLE_CALLS, sizeof(times_us[0]), compare_times);
    printf("one call: p50 %lld us, p99 %lld us\n", (long long)times_us[SINGLE_CALLS / 2],
           (long long)times_us[SINGLE_CALLS * 99 / 100]);
    rpc_channel_unref(channel);
}

static void measure_pairs(const char *target, int threads, int seconds)
{
    struct client *clients = base_calloc_array((size_t)threads, sizeof(*clients));
    pthread_t *ids = base_calloc_array((size_t)threads, sizeof(*ids));
    if (clients == NULL || ids == NULL) {
        abort();
    }
    int64_t until_us = base_clock_monotonic_us() + INT64_C(1000000) * seconds;
    for (int i = 0; i < threads; i++) {
        clients[i] = (struct client){.target = target, .until_us = until_us};
        pthread_create(&ids[i], NULL, run_client, &clients[i]);
    }
    uint64_t pairs = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        pairs += clients[i].pairs;
    }
    printf("%d threads: %.0f pairs of calls a second\n", threads, (double)pairs / seconds);
    base_free(ids);
    base_free(clients);
}

static void measure_stream(const char *target)
{
    struct lake_error err = {0};
    struct rpc_channel *channel = open_channel(target);
    struct rpc_client_call *call = NULL;
    int64_t start_us = base_clock_monotonic_us();
    if (rpc_client_call_start(channel, "/bench.Bench/Stream", NULL, 0, INT64_MAX, &call, &err) !=
            LAKE_OK ||
        rpc_client_call_finish_sending(call, &err) != LAKE_OK) {
        die(&err);
    }
    uint64_t bytes = 0;
    for (;;) {
        struct rpc_payload reply = {{NULL, 0}, NULL};
        bool end = false;
        if (rpc_client_call_receive(call, &reply, &end, &err) != LAKE_OK) {
            die(&err);
        }
        if (end) {
            break;
        }
        bytes += reply.bytes.size;
        rpc_payload_fini(&reply);
    }
    double seconds = (double)(base_clock_monotonic_us() - start_us) / 1e6;
    printf("stream of 2 MiB messages: %.2f GB/s\n", (double)bytes / 1e9 / seconds);
    rpc_client_call_free(call);
    rpc_channel_unref(channel);
}

/* In a process of its own, as in real life: with both sides in one, their polling threads would
 * take each other's events. Ends when its parent closes the pipe. */
static void serve(int port_fd, int life_fd)
{
    struct lake_error err = {0};
    struct rpc_authenticator *authenticator = NULL;
    struct rpc_server *server = NULL;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.address = "127.0.0.1:0";
    if (rpc_authenticator_new(NULL, NULL, &authenticator, &err) != LAKE_OK) {
        die(&err);
    }
    options.authenticator = authenticator;
    if (rpc_server_new(&options, &server, &err) != LAKE_OK ||
        rpc_server_add_method(server, "/bench.Bench/Echo", false, echo, NULL, &err) != LAKE_OK ||
        rpc_server_add_method(server, "/bench.Bench/Stream", false, stream, NULL, &err) !=
            LAKE_OK ||
        rpc_server_start(server, &err) != LAKE_OK) {
        die(&err);
    }
    int port = rpc_server_port(server);
    char end;
    if (write(port_fd, &port, sizeof(port)) == (ssize_t)sizeof(port)) {
        (void)!read(life_fd, &end, 1);
    }
    rpc_server_free(server);
    rpc_authenticator_free(authenticator);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 16;
    int seconds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 3;
    int port_pipe[2];
    int life_pipe[2];
    if (threads < 1 || seconds < 1 || pipe(port_pipe) != 0 || pipe(life_pipe) != 0) {
        return 1;
    }
    pid_t child = fork();
    if (child < 0) {
        return 1;
    }
    if (child == 0) {
        close(life_pipe[1]);
        serve(port_pipe[1], life_pipe[0]);
        return 0;
    }
    int port = 0;
    if (read(port_pipe[0], &port, sizeof(port)) != (ssize_t)sizeof(port)) {
        return 1;
    }
    char target[64];
    snprintf(target, sizeof(target), "127.0.0.1:%d", port);
    measure_single(target);
    measure_pairs(target, 1, seconds);
    measure_pairs(target, threads, seconds);
    measure_stream(target);
    close(life_pipe[1]);
    return waitpid(child, NULL, 0) == child ? 0 : 1;
}
