/* libs: flight */
/*
 * statements HOST:PORT SQL CONNECTIONS SECONDS
 *
 * Each connection has its own channel and thread and repeats GetFlightInfo + DoGet of the
 * statement; every "{}" in it becomes a number that no two of its last 4,000 share. Prints "<pairs
 * a second> <median microseconds>". The client of both sides of small_statement.
 */
#include <flight/flight.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SAMPLES 1000000

struct worker {
    const char *target;
    const char *sql;
    size_t first; /* of its numbers */
    int64_t until_us;
    uint64_t pairs;
    uint32_t *samples_us;
    bool failed;
    pthread_t thread;
};

static lake_status drain(struct rpc_channel *channel, struct lake_bytes ticket,
                         struct lake_error *err)
{
    struct rpc_client_call *call = NULL;
    struct base_buffer request;
    bool end = false;
    base_buffer_init(&request, 1 << 20);
    lake_status status = flight_ticket_encode(ticket, &request, err);
    if (status == LAKE_OK)
        status =
            rpc_client_call_start(channel, FLIGHT_METHOD_DO_GET, NULL, 0, INT64_MAX, &call, err);
    if (status == LAKE_OK)
        status = flight_send_bytes(flight_sender_of_client(call), base_buffer_view(&request), err);
    if (status == LAKE_OK)
        status = rpc_client_call_finish_sending(call, err);
    while (status == LAKE_OK && !end) {
        struct rpc_payload payload = {0};
        status = rpc_client_call_receive(call, &payload, &end, err);
        rpc_payload_fini(&payload);
    }
    rpc_client_call_free(call);
    base_buffer_fini(&request);
    return status;
}

static lake_status encode_request(const char *sql, struct base_buffer *out, struct lake_error *err)
{
    struct flight_sql_command command = {.kind = FLIGHT_SQL_STATEMENT_QUERY};
    struct base_buffer bytes;
    base_buffer_init(&bytes, 1 << 20);
    command.as.statement.query = base_str_of(sql);
    lake_status status = flight_sql_command_encode(&command, &bytes, err);
    struct flight_descriptor descriptor = {.type = FLIGHT_DESCRIPTOR_CMD,
                                           .command = base_buffer_view(&bytes)};
    if (status == LAKE_OK)
        status = flight_descriptor_encode(&descriptor, out, err);
    base_buffer_fini(&bytes);
    return status;
}

/* The statement with its numbers filled in. */
static void fill_in(const char *sql, size_t number, char *out, size_t out_bytes)
{
    size_t used = 0;
    while (*sql != '\0' && used + 24 < out_bytes) {
        if (strncmp(sql, "{}", 2) == 0) {
            used += (size_t)snprintf(out + used, 24, "%zu", number);
            sql += 2;
        } else {
            out[used++] = *sql++;
        }
    }
    out[used] = '\0';
}

static lake_status run_pair(struct rpc_channel *channel, struct lake_bytes request,
                            struct lake_error *err)
{
    struct rpc_payload reply = {0};
    struct base_arena *arena = NULL;
    struct flight_info info;
    lake_status status =
        rpc_unary(channel, FLIGHT_METHOD_GET_FLIGHT_INFO, request, INT64_MAX, &reply, err);
    if (status == LAKE_OK)
        status = base_arena_new(1 << 20, &arena, err);
    if (status == LAKE_OK)
        status = flight_info_decode(reply.bytes, arena, &info, err);
    if (status == LAKE_OK)
        status = drain(channel, info.endpoints[0].ticket, err);
    base_arena_free(arena);
    rpc_payload_fini(&reply);
    return status;
}

static lake_status run_numbered(struct worker *worker, struct rpc_channel *channel,
                                struct lake_error *err)
{
    char sql[4096];
    struct base_buffer request;
    base_buffer_init(&request, 1 << 20);
    fill_in(worker->sql, (worker->first + worker->pairs) % 4000, sql, sizeof(sql));
    lake_status status = encode_request(sql, &request, err);
    if (status == LAKE_OK)
        status = run_pair(channel, base_buffer_view(&request), err);
    base_buffer_fini(&request);
    return status;
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct rpc_channel_options options = {.target = worker->target};
    struct rpc_channel *channel = NULL;
    struct lake_error error = {0};
    lake_status status = rpc_channel_open(&options, &channel, &error);
    while (status == LAKE_OK && base_clock_monotonic_us() < worker->until_us) {
        int64_t started_us = base_clock_monotonic_us();
        status = run_numbered(worker, channel, &error);
        if (worker->pairs < MAX_SAMPLES)
            worker->samples_us[worker->pairs] = (uint32_t)(base_clock_monotonic_us() - started_us);
        worker->pairs++;
    }
    if (status != LAKE_OK)
        fprintf(stderr, "%s: %s\n", lake_status_name(status), error.message);
    worker->failed = status != LAKE_OK;
    rpc_channel_unref(channel);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    size_t count = strtoul(argv[3], NULL, 10);
    double seconds = strtod(argv[4], NULL);
    struct worker *workers = calloc(count, sizeof(*workers));
    if (workers == NULL)
        return 1;
    int64_t started_us = base_clock_monotonic_us();
    for (size_t i = 0; i < count; i++) {
        workers[i].target = argv[1];
        workers[i].sql = argv[2];
        workers[i].first = i * 4000 / count;
        workers[i].until_us = started_us + (int64_t)(seconds * 1e6);
        workers[i].samples_us = calloc(MAX_SAMPLES, sizeof(uint32_t));
        if (workers[i].samples_us == NULL ||
            pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            return 1;
    }
    uint64_t pairs = 0;
    bool failed = false;
    for (size_t i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        pairs += workers[i].pairs;
        failed = failed || workers[i].failed;
    }
    double elapsed = (double)(base_clock_monotonic_us() - started_us) / 1e6;
    size_t samples = BASE_MIN(workers[0].pairs, MAX_SAMPLES);
    qsort(workers[0].samples_us, samples, sizeof(uint32_t), compare);
    printf("%.1f %u\n", (double)pairs / elapsed,
           samples == 0 ? 0 : workers[0].samples_us[samples / 2]);
    return failed || pairs == 0;
}
