/* libs: rpc */
/* labels: concurrent */
/* Cancellation, deadlines, vanished and stalled clients, draining (F10, F11, F13). */
#include "fixture.h"
#include "tcp_proxy.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

/* ---- a client that can be killed: this program, started again ---- */

extern char **environ;

/* `client METHOD TARGET MESSAGES`: sends so many messages, never ends its side, and waits. */
static int client_main(char **argv)
{
    struct lake_error err = {0};
    struct rpc_channel *channel = NULL;
    struct rpc_client_call *call = NULL;
    struct rpc_channel_options options = {.target = argv[3]};
    if (rpc_channel_open(&options, &channel, &err) != LAKE_OK ||
        rpc_client_call_start(channel, argv[2], NULL, 0, INT64_MAX, &call, &err) != LAKE_OK) {
        return 1;
    }
    for (long i = strtol(argv[4], NULL, 10); i > 0; i--) {
        struct rpc_part part = copy_of(bytes_of("a whole message"));
        if (rpc_client_call_send(call, &part, 1, &err) != LAKE_OK) {
            return 1;
        }
    }
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = false;
    (void)rpc_client_call_receive(call, &reply, &end, &err); /* makes the sends go out, and waits */
    pause();
    return 1;
}

static pid_t spawn_client(const char *method, const char *target, const char *messages)
{
    char *argv[] = {(char *)"self", (char *)"client", (char *)method,
                    (char *)target, (char *)messages, NULL};
    pid_t pid = 0;
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    return pid;
}

static void kill_client(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* ---- cancellation ---- */

/* ASan and busy machines are slower; what must hold is that no timer of seconds is involved. */
#define SOON_US INT64_C(300000)

static void vanished_client_is_noticed_within_300_ms(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    pid_t pid = spawn_client("/t.T/Block", f.target, "1");
    wait_for(&f.started, 1);
    int64_t killed_us = base_clock_monotonic_us();
    kill_client(pid);
    wait_for(&f.notified, 1);
    assert_true(atomic_load(&f.notified_us) - killed_us < SOON_US);
    wait_for(&f.finished, 1);
    assert_int_equal(atomic_load(&f.notified), 1);
    fixture_stop(&f);
}

static void torn_upload_never_looks_complete(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    enum {
        KILLED = 20,
        CANCELLED = 300
    };
    for (int i = 0; i < KILLED; i++) {
        pid_t pid = spawn_client("/t.T/Upload", f.target, i % 2 == 0 ? "3" : "200");
        wait_for(&f.started, i + 1);
        if (i % 4 < 2) {
            base_sleep_ms(i % 7);
        }
        kill_client(pid);
    }
    wait_for(&f.uploads_broken, KILLED);
    for (int i = 0; i < CANCELLED; i++) {
        struct lake_error err = {0};
        struct rpc_client_call *call = NULL;
        assert_ok(rpc_client_call_start(f.channel, "/t.T/Upload", NULL, 0, 10000, &call, &err),
                  &err);
        for (int n = 0; n < i % 5 + 2; n++) {
            struct rpc_part part = copy_of(bytes_of("a whole message"));
            assert_ok(rpc_client_call_send(call, &part, 1, &err), &err);
        }
        wait_for(&f.started, KILLED + i + 1);
        rpc_client_call_free(call); /* cancels */
    }
    wait_for(&f.uploads_broken, KILLED + CANCELLED);
    assert_int_equal(atomic_load(&f.uploads_complete), 0);
    fixture_stop(&f);
}

static void *receive_one(void *call)
{
    struct lake_error err = {0};
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = false;
    return (void *)(intptr_t)rpc_client_call_receive(call, &reply, &end, &err);
}

static void cancel_from_another_thread_ends_receive(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    struct rpc_client_call *call = call_with(f.channel, "/t.T/Block", "x", INT64_MAX);
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, receive_one, call), 0);
    wait_for(&f.started, 1); /* a call that is cancelled earlier may never reach the server */
    rpc_client_call_cancel(call);
    pthread_join(thread, &result);
    assert_int_equal((intptr_t)result, LAKE_CANCELLED);
    wait_for(&f.notified, 1);
    rpc_client_call_free(call);
    fixture_stop(&f);
}

/* A server of one method, and a channel to it. */
struct one_method {
    struct rpc_authenticator *authenticator;
    struct rpc_server *server;
    struct rpc_channel *channel;
};

static void one_method_start(struct one_method *one, const char *method, rpc_handler handler,
                             void *context)
{
    struct lake_error err = {0};
    struct rpc_server_options options;
    char target[64];
    rpc_server_options_init(&options);
    options.address = "127.0.0.1:0";
    assert_ok(rpc_authenticator_new(NULL, NULL, &one->authenticator, &err), &err);
    options.authenticator = one->authenticator;
    assert_ok(rpc_server_new(&options, &one->server, &err), &err);
    assert_ok(rpc_server_add_method(one->server, method, false, handler, context, &err), &err);
    assert_ok(rpc_server_start(one->server, &err), &err);
    snprintf(target, sizeof(target), "127.0.0.1:%d", rpc_server_port(one->server));
    one->channel = channel_to(target, NULL);
}

static void one_method_stop(struct one_method *one)
{
    rpc_channel_unref(one->channel);
    rpc_server_free(one->server);
    rpc_authenticator_free(one->authenticator);
}

struct holding {
    struct rpc_call *_Atomic call; /* its first message is held */
    atomic_bool go;
};

static lake_status handle_hold(struct rpc_call *call, void *context, struct lake_error *err)
{
    struct holding *holding = context;
    struct rpc_part part = copy_of(bytes_of("first"));
    lake_status status = rpc_call_send(call, &part, 1, err);
    atomic_store(&holding->call, call);
    while (!atomic_load(&holding->go)) {
        base_sleep_ms(1);
    }
    part = copy_of(bytes_of("second"));
    return status == LAKE_OK ? rpc_call_send(call, &part, 1, err) : status;
}

static void *flush_once_it_is_held(void *context)
{
    struct holding *holding = context;
    while (atomic_load(&holding->call) == NULL) {
        base_sleep_ms(1);
    }
    rpc_call_flush(atomic_load(&holding->call));
    rpc_call_flush(atomic_load(&holding->call));
    return NULL;
}

static void another_thread_sends_the_message_that_is_held(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct one_method one;
    struct holding holding = {NULL, false};
    one_method_start(&one, "/t.T/Hold", handle_hold, &holding);
    struct rpc_client_call *call = call_with(one.channel, "/t.T/Hold", "x", 10000);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, flush_once_it_is_held, &holding), 0);
    static const char *const expected[] = {"first", "second"};
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = false;
    for (size_t i = 0; i < BASE_ARRAY_LEN(expected); i++) {
        /* The second is only made once the first is here. */
        assert_ok(rpc_client_call_receive(call, &reply, &end, &err), &err);
        assert_false(end);
        assert_int_equal(reply.bytes.size, strlen(expected[i]));
        assert_memory_equal(reply.bytes.data, expected[i], reply.bytes.size);
        rpc_payload_fini(&reply);
        if (i == 0) {
            pthread_join(thread, NULL);
            atomic_store(&holding.go, true);
        }
    }
    assert_ok(rpc_client_call_receive(call, &reply, &end, &err), &err);
    assert_true(end);
    rpc_client_call_free(call);
    one_method_stop(&one);
}

static void passed_deadline_ends_both_sides(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    struct lake_error err = {0};
    char reply[16];
    int64_t start_us = base_clock_monotonic_us();
    assert_failed(LAKE_DEADLINE_EXCEEDED, f.target,
                  unary_text(f.channel, "/t.T/Block", "x", 200, reply, sizeof(reply), &err), &err);
    int64_t took_us = base_clock_monotonic_us() - start_us;
    assert_true(took_us >= 190000 && took_us < 2000000);
    wait_for(&f.notified, 1);
    wait_for(&f.finished, 1);
    assert_int_equal(unary_text(f.channel, "/t.T/Echo", "x", 0, reply, sizeof(reply), &err),
                     LAKE_DEADLINE_EXCEEDED);
    fixture_stop(&f);
}

static lake_status handle_abort(struct rpc_call *call, void *context, struct lake_error *err)
{
    rpc_call_abort(call, LAKE_RESOURCE_EXHAUSTED);
    struct rpc_payload request = {{NULL, 0}, NULL};
    bool end = false;
    lake_status status = LAKE_OK;
    while (status == LAKE_OK && !end) {
        status = rpc_call_receive(call, &request, &end, err);
        rpc_payload_fini(&request);
    }
    atomic_store((atomic_int *)context, status == LAKE_CANCELLED ? 1 : -1);
    return status;
}

static void aborted_call_fails_on_both_sides(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct one_method one;
    atomic_int seen = 0;
    one_method_start(&one, "/t.T/Abort", handle_abort, &seen);
    struct rpc_client_call *call = NULL;
    assert_ok(rpc_client_call_start(one.channel, "/t.T/Abort", NULL, 0, 10000, &call, &err), &err);
    struct rpc_part part = copy_of(bytes_of("x"));
    assert_ok(rpc_client_call_send(call, &part, 1, &err), &err);
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = false;
    assert_int_not_equal(rpc_client_call_receive(call, &reply, &end, &err), LAKE_OK);
    wait_for(&seen, 1);
    rpc_client_call_free(call);
    one_method_stop(&one);
}

static void immediate_notify(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

static lake_status handle_late_notify(struct rpc_call *call, void *context, struct lake_error *err)
{
    (void)err;
    while (!rpc_call_cancelled(call)) {
        base_sleep_ms(1);
    }
    rpc_call_on_cancel(call, immediate_notify, context);
    rpc_call_on_cancel(call, NULL, NULL);
    atomic_fetch_add((atomic_int *)context, 100);
    return LAKE_OK;
}

static void notify_set_after_the_cancellation_runs_at_once(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct one_method one;
    atomic_int seen = 0;
    one_method_start(&one, "/t.T/Late", handle_late_notify, &seen);
    char reply[8];
    assert_int_equal(unary_text(one.channel, "/t.T/Late", "x", 100, reply, sizeof(reply), &err),
                     LAKE_DEADLINE_EXCEEDED);
    wait_for(&seen, 101);
    assert_int_equal(atomic_load(&seen), 101);
    one_method_stop(&one);
}

/* ---- pressure ---- */

/* F13 */
static void stalled_reader_holds_the_producer(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    pid_t pid = spawn_client("/t.T/Endless", f.target, "1"); /* reads one message, then nothing */
    wait_for(&f.started, 1);
    base_sleep_ms(1000);
    int sends = atomic_load(&f.sends);
    base_sleep_ms(1000);
    assert_int_equal(atomic_load(&f.sends), sends);
    /* The sockets' buffers and HTTP/2's window hold some megabytes; a runaway sends thousands. */
    assert_in_range(sends, 1, 64);
    assert_int_equal(atomic_load(&f.finished), 0);
    kill_client(pid);
    wait_for(&f.finished, 1);
    fixture_stop(&f);
}

static void *call_block(void *context)
{
    struct fixture *f = context;
    struct lake_error err = {0};
    char reply[16];
    lake_status status =
        unary_text(f->channel, "/t.T/Block", "x", INT64_MAX, reply, sizeof(reply), &err);
    return (void *)(intptr_t)status;
}

static void full_queue_is_resource_exhausted_and_health_still_answers(void **state)
{
    (void)state;
    struct fixture f;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.worker_count = 2;
    options.queue_limit = 3;
    fixture_start(&f, &options, NULL);
    pthread_t threads[5];
    for (int i = 0; i < 5; i++) {
        if (i == 2) {
            wait_for(&f.started, 2); /* both workers are taken; the next three wait */
        }
        assert_int_equal(pthread_create(&threads[i], NULL, call_block, &f), 0);
    }
    struct lake_error err = {0};
    char reply[16];
    lake_status status = LAKE_OK;
    for (int i = 0; i < 500 && status != LAKE_RESOURCE_EXHAUSTED; i++) {
        /* Until the three are in the queue, this one waits there itself and runs out of time. */
        status = unary_text(f.channel, "/t.T/Echo", "x", 20, reply, sizeof(reply), &err);
    }
    assert_failed(LAKE_RESOURCE_EXHAUSTED, "busy with 2 calls and 3 more wait", status, &err);
    assert_ok(
        unary_text(f.channel, "/grpc.health.v1.Health/Check", "", 5000, reply, sizeof(reply), &err),
        &err);
    atomic_store(&f.go, true);
    for (int i = 0; i < 5; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        assert_true((intptr_t)result == LAKE_OK || (intptr_t)result == LAKE_RESOURCE_EXHAUSTED);
    }
    assert_ok(unary_text(f.channel, "/t.T/Echo", "x", 5000, reply, sizeof(reply), &err), &err);
    fixture_stop(&f);
}

static void *call_echo_often(void *context)
{
    struct fixture *f = context;
    struct rpc_channel *channel = channel_to(f->target, NULL);
    for (int i = 0; i < 200; i++) {
        struct lake_error err = {0};
        char expected[32];
        char reply[32];
        snprintf(expected, sizeof(expected), "%p %d", (void *)&expected, i);
        struct rpc_channel *used = i % 2 == 0 ? channel : f->channel;
        assert_ok(unary_text(used, "/t.T/Echo", expected, 30000, reply, sizeof(reply), &err), &err);
        assert_string_equal(reply, expected);
    }
    rpc_channel_unref(channel);
    return NULL;
}

static void many_threads_share_a_channel_and_a_server(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    pthread_t threads[16];
    for (size_t i = 0; i < BASE_ARRAY_LEN(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, call_echo_often, &f), 0);
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(atomic_load(&f.started), 3200);
    fixture_stop(&f);
}

static struct rpc_channel *impatient_channel(const char *target)
{
    struct lake_error err = {0};
    struct rpc_channel *channel = NULL;
    struct rpc_channel_options options = {.target = target, .keepalive_ms = 1000};
    assert_ok(rpc_channel_open(&options, &channel, &err), &err);
    return channel;
}

static bool never(void *context)
{
    (void)context;
    return false;
}

static void a_server_that_falls_silent_is_unavailable_before_the_deadline(void **state)
{
    (void)state;
    struct fixture f;
    struct tcp_proxy proxy;
    fixture_start(&f, NULL, NULL);
    tcp_proxy_start(&proxy, rpc_server_port(f.server));
    struct rpc_channel *channel = impatient_channel(proxy.address);
    struct lake_error err = {0};
    char reply[16];
    assert_ok(unary_text(channel, "/t.T/Echo", "x", 5000, reply, sizeof(reply), &err), &err);
    proxy.until = never;
    atomic_store(&proxy.kind, TCP_PROXY_LOSE_ANSWERS);
    atomic_store(&proxy.lose, 1);
    int64_t start_us = base_clock_monotonic_us();
    assert_failed(LAKE_UNAVAILABLE, proxy.address,
                  unary_text(channel, "/t.T/Echo", "x", 60000, reply, sizeof(reply), &err), &err);
    assert_true(base_clock_monotonic_us() - start_us < 10000000);
    rpc_channel_unref(channel);
    tcp_proxy_stop(&proxy);
    fixture_stop(&f);
}

/* Its program may do something else for as long as it likes. */
static void a_paused_reader_and_a_long_call_outlast_the_signs_of_life(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    struct rpc_channel *channel = impatient_channel(f.target);
    struct lake_error err = {0};
    struct rpc_client_call *stream = call_with(channel, "/t.T/Endless", "x", 60000);
    struct rpc_payload payload = {{NULL, 0}, NULL};
    bool end = false;
    char reply[16];
    assert_ok(rpc_client_call_receive(stream, &payload, &end, &err), &err);
    rpc_payload_fini(&payload);
    base_sleep_ms(3500); /* nobody looks at the connection */
    assert_int_equal(unary_text(channel, "/t.T/Block", "x", 2500, reply, sizeof(reply), &err),
                     LAKE_DEADLINE_EXCEEDED);
    for (int i = 0; i < 64; i++) {
        assert_ok(rpc_client_call_receive(stream, &payload, &end, &err), &err);
        rpc_payload_fini(&payload);
    }
    rpc_client_call_free(stream);
    rpc_channel_unref(channel);
    fixture_stop(&f);
}

static int64_t cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void idle_server_and_channel_use_no_cpu(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    struct lake_error err = {0};
    char reply[16];
    assert_ok(unary_text(f.channel, "/t.T/Echo", "x", 5000, reply, sizeof(reply), &err), &err);
    base_sleep_ms(100);
    int64_t before_us = cpu_us();
    base_sleep_ms(1000);
    assert_true(cpu_us() - before_us < 20000); /* 2 % of one core, and that is gRPC's timers */
    fixture_stop(&f);
}

/* ---- the end ---- */

struct stopping {
    struct rpc_server *server;
    int64_t grace_ms;
    lake_status status;
    struct lake_error err;
    atomic_int done;
};

static void *stop_server(void *context)
{
    struct stopping *s = context;
    s->status = rpc_server_stop(s->server, s->grace_ms, &s->err);
    atomic_store(&s->done, 1);
    return NULL;
}

/* OPS-1 */
static void drain_lets_running_calls_end_and_refuses_new_ones(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    pthread_t caller;
    pthread_t stopper;
    assert_int_equal(pthread_create(&caller, NULL, call_block, &f), 0);
    wait_for(&f.started, 1);
    struct stopping s = {.server = f.server, .grace_ms = 20000};
    assert_int_equal(pthread_create(&stopper, NULL, stop_server, &s), 0);
    base_sleep_ms(100);
    struct lake_error err = {0};
    char reply[16];
    struct rpc_channel *late = channel_to(f.target, NULL);
    assert_int_equal(unary_text(late, "/t.T/Echo", "x", 2000, reply, sizeof(reply), &err),
                     LAKE_UNAVAILABLE);
    rpc_channel_unref(late);
    assert_int_equal(atomic_load(&s.done), 0);
    assert_int_equal(atomic_load(&f.notified), 0);
    atomic_store(&f.go, true);
    void *result = NULL;
    pthread_join(caller, &result);
    assert_int_equal((intptr_t)result, LAKE_OK);
    pthread_join(stopper, NULL);
    assert_ok(s.status, &s.err);
    fixture_stop(&f);
}

static void exceeded_grace_cancels_and_says_so(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    pthread_t caller;
    assert_int_equal(pthread_create(&caller, NULL, call_block, &f), 0);
    wait_for(&f.started, 1);
    struct lake_error err = {0};
    int64_t start_us = base_clock_monotonic_us();
    assert_failed(LAKE_DEADLINE_EXCEEDED, "150 ms", rpc_server_stop(f.server, 150, &err), &err);
    int64_t took_us = base_clock_monotonic_us() - start_us;
    assert_true(took_us >= 150000 && took_us < 3000000);
    assert_int_equal(atomic_load(&f.notified), 1);
    assert_int_equal(atomic_load(&f.finished), 1);
    void *result = NULL;
    pthread_join(caller, &result);
    assert_int_not_equal((intptr_t)result, LAKE_OK);
    fixture_stop(&f);
}

/* F11: a second signal. */
static void second_stop_with_less_grace_hurries_the_first(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    pthread_t caller;
    pthread_t stopper;
    assert_int_equal(pthread_create(&caller, NULL, call_block, &f), 0);
    wait_for(&f.started, 1);
    struct stopping s = {.server = f.server, .grace_ms = 60000};
    assert_int_equal(pthread_create(&stopper, NULL, stop_server, &s), 0);
    base_sleep_ms(50);
    int64_t start_us = base_clock_monotonic_us();
    struct lake_error err = {0};
    (void)rpc_server_stop(f.server, 0, &err);
    assert_true(base_clock_monotonic_us() - start_us < 3000000);
    pthread_join(stopper, NULL);
    assert_int_equal(s.status, LAKE_DEADLINE_EXCEEDED);
    pthread_join(caller, NULL);
    fixture_stop(&f);
}

/* A client that keeps its connection without polling it must not hold the server for gRPC's 20 s.
 */
static void idle_connections_do_not_delay_the_stop(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    struct lake_error err = {0};
    char reply[16];
    assert_ok(unary_text(f.channel, "/t.T/Echo", "x", 5000, reply, sizeof(reply), &err), &err);
    pid_t pid = spawn_client("/t.T/Upload", f.target, "1");
    wait_for(&f.started, 2);
    assert_int_equal(kill(pid, SIGSTOP), 0); /* it will not answer anything */
    int64_t start_us = base_clock_monotonic_us();
    (void)rpc_server_stop(f.server, 100, &err);
    assert_true(base_clock_monotonic_us() - start_us < 3000000);
    kill_client(pid);
    fixture_stop(&f);
}

static void channel_finds_a_restarted_server_again(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    struct lake_error err = {0};
    char reply[16];
    char address[64];
    snprintf(address, sizeof(address), "%s", f.target);
    struct rpc_channel *channel = rpc_channel_ref(f.channel);
    assert_ok(unary_text(channel, "/t.T/Echo", "x", 5000, reply, sizeof(reply), &err), &err);
    fixture_stop(&f);
    base_sleep_ms(150);
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.address = address;
    fixture_start(&f, &options, NULL);
    assert_ok(unary_text(channel, "/t.T/Echo", "x", 5000, reply, sizeof(reply), &err), &err);
    rpc_channel_unref(channel);
    fixture_stop(&f);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "client") == 0) {
        return client_main(argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vanished_client_is_noticed_within_300_ms),
        cmocka_unit_test(torn_upload_never_looks_complete),
        cmocka_unit_test(cancel_from_another_thread_ends_receive),
        cmocka_unit_test(another_thread_sends_the_message_that_is_held),
        cmocka_unit_test(passed_deadline_ends_both_sides),
        cmocka_unit_test(aborted_call_fails_on_both_sides),
        cmocka_unit_test(notify_set_after_the_cancellation_runs_at_once),
        cmocka_unit_test(stalled_reader_holds_the_producer),
        cmocka_unit_test(full_queue_is_resource_exhausted_and_health_still_answers),
        cmocka_unit_test(many_threads_share_a_channel_and_a_server),
        cmocka_unit_test(a_server_that_falls_silent_is_unavailable_before_the_deadline),
        cmocka_unit_test(a_paused_reader_and_a_long_call_outlast_the_signs_of_life),
        cmocka_unit_test(idle_server_and_channel_use_no_cpu),
        cmocka_unit_test(drain_lets_running_calls_end_and_refuses_new_ones),
        cmocka_unit_test(exceeded_grace_cancels_and_says_so),
        cmocka_unit_test(second_stop_with_less_grace_hurries_the_first),
        cmocka_unit_test(idle_connections_do_not_delay_the_stop),
        cmocka_unit_test(channel_finds_a_restarted_server_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
