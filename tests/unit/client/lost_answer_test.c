/* libs: meta query */
/* Appends whose answer is lost (L21): found again, or said to be unknown, and never there twice. */
#include "client_fixture.h"
#include "tcp_proxy.h"

#define ATTEMPTS  4 /* of one call */
#define EVERY_ONE 1000000

struct lossy {
    struct fixture *fixture; /* its client goes through the proxy */
    struct tcp_proxy proxy;
    lake_client *beside; /* a client that does not */
    uint64_t version;    /* at which the proxy cuts a connection that it loses */
};

static bool is_committed(void *context)
{
    struct lossy *lossy = context;
    struct lake_table_info info;
    if (lake_describe_table(lossy->beside, "lost.t", &info, NULL) != LAKE_OK)
        return false;
    bool committed = info.version >= lossy->version;
    lake_table_info_fini(&info);
    return committed;
}

/* What client and Query, and what Query and Metasrv have between them. */
static void start_before_query(struct lossy *lossy)
{
    const struct fixture_options options = {0};
    *lossy = (struct lossy){.fixture = fixture_serve(&options), .version = 2};
    tcp_proxy_start(&lossy->proxy, query_server_port(lossy->fixture->query));
    OK(lossy->fixture,
       lake_connect(lossy->fixture->address, NULL, &lossy->beside, &lossy->fixture->err));
    OK(lossy->fixture,
       lake_connect(lossy->proxy.address, NULL, &lossy->fixture->client, &lossy->fixture->err));
}

static void start_before_meta(struct lossy *lossy)
{
    struct fixture_options options = {0};
    *lossy = (struct lossy){.fixture = fixture_new_meta(&options), .version = 2};
    tcp_proxy_start(&lossy->proxy, meta_service_port(lossy->fixture->meta));
    options.meta_address = lossy->proxy.address;
    fixture_start_query(lossy->fixture, &options);
    OK(lossy->fixture,
       lake_connect(lossy->fixture->address, NULL, &lossy->fixture->client, &lossy->fixture->err));
}

static void make_table(struct lossy *lossy)
{
    lossy->proxy.until = is_committed;
    lossy->proxy.context = lossy;
    CREATE(lossy->fixture, "lost.t", "id:int64", "video:FILE");
    /* The schema is in the cache from here on: what is lost is the append. */
    FAILS(lossy->fixture, LAKE_INVALID_ARGUMENT, "no column",
          lake_insert(lossy->fixture->client, "INSERT INTO lost.t (nope) VALUES (?)",
                      &(struct lake_value){.kind = LAKE_VALUE_NULL}, 1, NULL,
                      &lossy->fixture->err));
}

static void stop(struct lossy *lossy)
{
    lake_client_unref(lossy->fixture->client);
    lossy->fixture->client = NULL;
    lake_client_unref(lossy->beside);
    query_server_free(lossy->fixture->query);
    lossy->fixture->query = NULL;
    tcp_proxy_stop(&lossy->proxy);
    fixture_free(lossy->fixture);
}

static void lose(struct lossy *lossy, int count, enum tcp_proxy_loss kind)
{
    atomic_store(&lossy->proxy.kind, kind);
    atomic_store(&lossy->proxy.lose, count);
}

static lake_status append_three(lake_client *client, const char *operation_id,
                                struct lake_insert_result *result, struct lake_error *err)
{
    static const char *const columns[] = {"id:int64", "video:FILE"};
    struct ArrowSchema schema;
    struct ArrowArray batch;
    assert_int_equal(lake_schema_parse(columns, 2, &schema, NULL), LAKE_OK);
    assert_int_equal(ArrowArrayInitFromSchema(&batch, &schema, NULL), 0);
    assert_int_equal(ArrowArrayStartAppending(&batch), 0);
    for (int64_t i = 1; i <= 3; i++) {
        assert_int_equal(ArrowArrayAppendInt(batch.children[0], i), 0);
        assert_int_equal(ArrowArrayAppendNull(batch.children[1], 1), 0);
        assert_int_equal(ArrowArrayFinishElement(&batch), 0);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, NULL), 0);
    const struct ArrowArray *batches[] = {&batch};
    lake_status status =
        lake_append_batches(client, "lost.t", &schema, batches, 1, operation_id, result, err);
    batch.release(&batch);
    schema.release(&schema);
    return status;
}

/* By a client of its own, straight from Query. */
static int64_t rows_there(struct lossy *lossy)
{
    struct fixture direct = {0};
    OK(&direct, lake_connect(lossy->fixture->address, NULL, &direct.client, &direct.err));
    int64_t rows = count_rows(&direct, "lost.t");
    lake_client_unref(direct.client);
    return rows;
}

static void a_lost_answer_is_asked_for_again(void **state)
{
    (void)state;
    struct lossy lossy;
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    start_before_query(&lossy);
    make_table(&lossy);
    lose(&lossy, 1, TCP_PROXY_LOSE_ANSWERS);
    OK(lossy.fixture, append_three(lossy.fixture->client, NULL, &result, &lossy.fixture->err));
    assert_int_equal(atomic_load(&lossy.proxy.lost), 1);
    assert_true(result.replayed);
    assert_int_equal(result.version, 2);
    assert_int_equal(result.row_count, 3);
    assert_int_equal(lossy.fixture->err.code, LAKE_OK);
    assert_int_equal(rows_there(&lossy), 3);
    lake_insert_result_fini(&result);
    stop(&lossy);
}

static void answers_that_stay_lost_leave_the_outcome_unknown(void **state)
{
    (void)state;
    struct lossy lossy;
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    struct lake_insert_result again = LAKE_INSERT_RESULT_INIT;
    start_before_query(&lossy);
    make_table(&lossy);
    lose(&lossy, EVERY_ONE, TCP_PROXY_LOSE_ANSWERS);
    FAILS(lossy.fixture, LAKE_OUTCOME_UNKNOWN, "operation ID",
          append_three(lossy.fixture->client, NULL, &result, &lossy.fixture->err));
    assert_true(atomic_load(&lossy.proxy.lost) > 1);
    lose(&lossy, 0, TCP_PROXY_LOSE_ANSWERS);
    assert_int_equal(strlen(result.operation_id), 36);
    assert_non_null(strstr(lossy.fixture->err.message, result.operation_id));
    assert_int_equal(result.version, 0);
    OK(lossy.fixture,
       append_three(lossy.fixture->client, result.operation_id, &again, &lossy.fixture->err));
    assert_true(again.replayed);
    assert_int_equal(again.version, 2);
    assert_int_equal(rows_there(&lossy), 3);
    lake_insert_result_fini(&result);
    lake_insert_result_fini(&again);
    stop(&lossy);
}

/* The rows are there or will be: their files stay, and the caller is told where. */
static void an_insert_with_an_unknown_outcome_keeps_its_files(void **state)
{
    (void)state;
    struct lossy lossy;
    struct memory_source source = {(const uint8_t *)"abc", 3, 0, 0, 0};
    struct lake_value values[] = {whole(1), {.kind = LAKE_VALUE_FILE_SOURCE}};
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    lake_reader *reader = NULL;
    values[1].as.file_source.source = (struct lake_source){memory_read, &source};
    start_before_query(&lossy);
    make_table(&lossy);
    lose(&lossy, EVERY_ONE, TCP_PROXY_LOSE_ANSWERS);
    FAILS(lossy.fixture, LAKE_OUTCOME_UNKNOWN, "operation ID",
          lake_insert(lossy.fixture->client, "INSERT INTO lost.t (id, video) VALUES (?, ?)", values,
                      2, &result, &lossy.fixture->err));
    assert_int_equal(result.location_count, 1);
    OK(lossy.fixture, lake_open(lossy.beside, &result.locations[0], &reader, &lossy.fixture->err));
    lake_reader_free(reader);
    assert_int_equal(rows_there(&lossy), 1);
    lake_insert_result_fini(&result);
    stop(&lossy);
}

/* Nothing arrived, which the client may not know: it never says that it worked. */
static void lost_requests_never_pass_for_success(void **state)
{
    (void)state;
    struct lossy lossy;
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    struct base_uuid uuid;
    char operation_id[BASE_UUID_TEXT_BYTES];
    start_before_query(&lossy);
    make_table(&lossy);
    OK(lossy.fixture, base_uuid7_new(&uuid, &lossy.fixture->err));
    base_uuid_format(&uuid, operation_id);
    lose(&lossy, EVERY_ONE, TCP_PROXY_LOSE_REQUESTS);
    lake_status status =
        append_three(lossy.fixture->client, operation_id, &result, &lossy.fixture->err);
    assert_true(status == LAKE_UNAVAILABLE || status == LAKE_OUTCOME_UNKNOWN);
    lake_insert_result_fini(&result);
    assert_int_equal(rows_there(&lossy), 0);
    lose(&lossy, 0, TCP_PROXY_LOSE_REQUESTS);
    OK(lossy.fixture,
       append_three(lossy.fixture->client, operation_id, &result, &lossy.fixture->err));
    assert_false(result.replayed);
    assert_int_equal(result.version, 2);
    assert_int_equal(rows_there(&lossy), 3);
    lake_insert_result_fini(&result);
    stop(&lossy);
}

/* The same between the two servers: Query says that it does not know, and the client asks again. */
static void an_answer_lost_between_the_servers_is_asked_for_again(void **state)
{
    (void)state;
    struct lossy lossy;
    struct fixture other = {0}; /* a second Query, straight to Metasrv */
    const struct fixture_options options = {0};
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    start_before_meta(&lossy);
    other.meta = lossy.fixture->meta;
    other.authenticator = lossy.fixture->authenticator;
    fixture_start_query(&other, &options);
    OK(&other, lake_connect(other.address, NULL, &lossy.beside, &other.err));
    make_table(&lossy);
    lose(&lossy, 1, TCP_PROXY_LOSE_ANSWERS);
    OK(lossy.fixture, append_three(lossy.fixture->client, NULL, &result, &lossy.fixture->err));
    assert_int_equal(result.row_count, 3);
    assert_int_equal(result.version, 2);
    assert_int_equal(rows_there(&lossy), 3);
    lake_insert_result_fini(&result);
    lake_client_unref(lossy.beside);
    lossy.beside = NULL;
    query_server_free(other.query);
    stop(&lossy);
}

/* ---- what statuses mean, by a server that answers as it is told ---- */

static struct {
    lake_status statuses[ATTEMPTS + 1];
    bool answer_first; /* the result goes out before the status */
    atomic_int calls;
} script;

static lake_status put_by_script(struct rpc_call *call, void *context, struct lake_error *err)
{
    (void)context;
    bool end = false;
    while (!end) {
        struct rpc_payload payload = {0};
        lake_status status = rpc_call_receive(call, &payload, &end, err);
        if (status != LAKE_OK)
            return status;
        rpc_payload_fini(&payload);
    }
    lake_status status = script.statuses[atomic_fetch_add(&script.calls, 1)];
    if (status == LAKE_OK || script.answer_first) {
        uint8_t bytes[64];
        struct base_buffer reply;
        LakePb__AppendResult answer = LAKE_PB__APPEND_RESULT__INIT;
        answer.has_version = answer.has_row_count = 1;
        answer.version = 7;
        answer.row_count = 3;
        base_buffer_init(&reply, 1024);
        size_t size = lake_pb__append_result__pack(&answer, bytes);
        assert_int_equal(flight_put_result_encode((struct lake_bytes){bytes, size}, &reply, NULL),
                         LAKE_OK);
        assert_int_equal(
            flight_send_bytes(flight_sender_of_call(call), base_buffer_view(&reply), NULL),
            LAKE_OK);
        base_buffer_fini(&reply);
    }
    return status == LAKE_OK ? LAKE_OK : lake_fail(err, status, "as told");
}

static lake_status action_by_script(struct rpc_call *call, void *context, struct lake_error *err)
{
    /* Schemas come from the real server behind `context`. */
    struct fixture *fixture = context;
    struct rpc_payload payload = {0};
    struct base_arena *arena = NULL;
    struct flight_action action;
    struct base_buffer body;
    struct base_buffer reply;
    bool end = false;
    base_buffer_init(&body, 1 << 20);
    base_buffer_init(&reply, 1 << 20);
    lake_status status = rpc_call_receive(call, &payload, &end, err);
    if (status == LAKE_OK)
        status = base_arena_new(1 << 20, &arena, err);
    if (status == LAKE_OK)
        status = flight_action_decode(payload.bytes, arena, &action, err);
    if (status == LAKE_OK)
        status = flight_do_action(fixture->client->channel, NULL, 0, 30000, &action, &body, err);
    if (status == LAKE_OK)
        status = flight_result_encode(base_buffer_view(&body), &reply, err);
    if (status == LAKE_OK)
        status = flight_send_bytes(flight_sender_of_call(call), base_buffer_view(&reply), err);
    rpc_payload_fini(&payload);
    base_arena_free(arena);
    base_buffer_fini(&body);
    base_buffer_fini(&reply);
    return status;
}

static void statuses_mean_what_they_can_mean(void **state)
{
    (void)state;
    static const struct {
        lake_status statuses[ATTEMPTS + 1];
        bool answer_first;
        lake_status expected;
        int calls;
    } cases[] = {
        {{LAKE_OK}, false, LAKE_OK, 1},
        /* Refusals: nothing was done, and nothing is tried again. */
        {{LAKE_INVALID_ARGUMENT}, false, LAKE_INVALID_ARGUMENT, 1},
        {{LAKE_PERMISSION_DENIED}, false, LAKE_PERMISSION_DENIED, 1},
        {{LAKE_RESOURCE_EXHAUSTED}, false, LAKE_RESOURCE_EXHAUSTED, 1},
        {{LAKE_ALREADY_EXISTS}, false, LAKE_ALREADY_EXISTS, 1},
        /* What passes is tried again. */
        {{LAKE_ABORTED, LAKE_ABORTED, LAKE_OK}, false, LAKE_OK, 3},
        {{LAKE_UNAVAILABLE, LAKE_OK}, false, LAKE_OK, 2},
        /* A server that may have died at the wrong moment leaves doubt. */
        {{LAKE_INTERNAL, LAKE_OK}, false, LAKE_OK, 2},
        {{LAKE_CANCELLED, LAKE_CANCELLED, LAKE_CANCELLED, LAKE_CANCELLED},
         false,
         LAKE_OUTCOME_UNKNOWN,
         4},
        {{LAKE_OUTCOME_UNKNOWN, LAKE_OK}, false, LAKE_OK, 2},
        /* Doubt is not removed by a server that is busy or knows no such table now. */
        {{LAKE_INTERNAL, LAKE_RESOURCE_EXHAUSTED, LAKE_OK}, false, LAKE_OK, 3},
        {{LAKE_INTERNAL, LAKE_NOT_FOUND}, false, LAKE_OUTCOME_UNKNOWN, 2},
        {{LAKE_OUTCOME_UNKNOWN, LAKE_PERMISSION_DENIED}, false, LAKE_OUTCOME_UNKNOWN, 2},
        /* But by an answer about the ID. */
        {{LAKE_INTERNAL, LAKE_ALREADY_EXISTS}, false, LAKE_ALREADY_EXISTS, 2},
        /* An answer counts, however the call ends after it. */
        {{LAKE_INTERNAL}, true, LAKE_OK, 1},
    };
    const struct fixture_options plain = {0};
    struct fixture *fixture = fixture_new(&plain);
    struct rpc_server_options options;
    struct rpc_server *server = NULL;
    lake_client *client = NULL;
    char address[64];
    CREATE(fixture, "lost.t", "id:int64", "video:FILE");
    rpc_server_options_init(&options);
    options.address = "127.0.0.1:0";
    options.authenticator = fixture->authenticator;
    OK(fixture, rpc_server_new(&options, &server, &fixture->err));
    OK(fixture, rpc_server_add_method(server, FLIGHT_METHOD_DO_PUT, false, put_by_script, NULL,
                                      &fixture->err));
    OK(fixture, rpc_server_add_method(server, FLIGHT_METHOD_DO_ACTION, false, action_by_script,
                                      fixture, &fixture->err));
    OK(fixture, rpc_server_start(server, &fixture->err));
    snprintf(address, sizeof(address), "127.0.0.1:%d", rpc_server_port(server));
    OK(fixture, lake_connect(address, NULL, &client, &fixture->err));
    for (size_t i = 0; i < BASE_ARRAY_LEN(cases); i++) {
        struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
        memcpy(script.statuses, cases[i].statuses, sizeof(script.statuses));
        script.answer_first = cases[i].answer_first;
        atomic_store(&script.calls, 0);
        lake_status status = append_three(client, NULL, &result, &fixture->err);
        if (status != cases[i].expected || atomic_load(&script.calls) != cases[i].calls)
            print_error("case %zu: %s after %d calls: %s\n", i, lake_status_name(status),
                        atomic_load(&script.calls), fixture->err.message);
        assert_int_equal(status, cases[i].expected);
        assert_int_equal(atomic_load(&script.calls), cases[i].calls);
        assert_int_equal(result.version, status == LAKE_OK ? 7 : 0);
        lake_insert_result_fini(&result);
    }
    lake_client_unref(client);
    rpc_server_free(server);
    fixture_free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_answer_is_asked_for_again),
        cmocka_unit_test(answers_that_stay_lost_leave_the_outcome_unknown),
        cmocka_unit_test(an_insert_with_an_unknown_outcome_keeps_its_files),
        cmocka_unit_test(lost_requests_never_pass_for_success),
        cmocka_unit_test(an_answer_lost_between_the_servers_is_asked_for_again),
        cmocka_unit_test(statuses_mean_what_they_can_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
