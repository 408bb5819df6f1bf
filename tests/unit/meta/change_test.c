/* Deletes and updates beside drops; what they do to rows stands in test_table_changes.py. */
/* labels: concurrent */
#include "meta_fixture.h"

struct changer {
    struct fixture *fixture;
    LakePb__ChangeRowsRequest *request;
    struct meta_append_result result;
    lake_status status;
};

static void *change(void *context)
{
    struct changer *changer = context;
    struct fixture *fixture = changer->fixture;
    changer->status = meta_rows_change(fixture->authority, &fixture->anna, &patient,
                                       changer->request, &changer->result, NULL);
    return NULL;
}

/* A change with `rows` that waits for the table, which goes meanwhile. */
static lake_status change_of_a_dropped_table(struct fixture *fixture, ProtobufCBinaryData rows)
{
    struct meta_name name = name_of("robots", "arm");
    struct meta_registration registration;
    struct meta_claim claim;
    char id[BASE_UUID_TEXT_BYTES];
    char key[META_KEY_BYTES];
    uint8_t digest[BASE_SHA256_BYTES] = {0};
    LakePb__TableName table = LAKE_PB__TABLE_NAME__INIT;
    LakePb__ChangeRowsRequest request = LAKE_PB__CHANGE_ROWS_REQUEST__INIT;
    struct changer changer = {.fixture = fixture, .request = &request};
    pthread_t thread;
    create_table(fixture, &name, false);
    new_operation_id(id);
    meta_registration_init(&registration);
    OK(fixture, meta_registration_get(fixture->authority, &name, &registration, &fixture->err));
    table.namespace_name = meta_pb_of_str("robots");
    table.table = meta_pb_of_str("arm");
    request.name = &table;
    request.operation_id = meta_pb_of_str(id);
    request.content_sha256 = (ProtobufCBinaryData){sizeof(digest), digest};
    request.incarnation = meta_pb_of_str(registration.incarnation);
    request.base_version = 1;
    request.rows_ipc = rows;

    OK(fixture, meta_table_enter(fixture->authority, &name, &patient, &claim, &fixture->err));
    assert_int_equal(pthread_create(&thread, NULL, change, &changer), 0);
    while (!meta_gate_is_awaited(&fixture->authority->gates, &claim))
        base_sleep_ms(1);
    const struct kv_write gone = {.kind = KV_DELETE,
                                  .key = meta_key(key, "r", name.namespace_key, name.table_key)};
    OK(fixture, kv_commit(fixture->authority->kv, NULL, 0, &gone, 1, NULL, &fixture->err));
    meta_gate_leave(&fixture->authority->gates, &claim);
    assert_int_equal(pthread_join(thread, NULL), 0);
    meta_registration_fini(&registration);
    return changer.status;
}

static void a_change_of_a_table_dropped_meanwhile_does_not_pass_for_done(void **state)
{
    uint8_t any = 0;
    assert_int_equal(change_of_a_dropped_table(*state, (ProtobufCBinaryData){1, &any}),
                     LAKE_NOT_FOUND);
}

static void a_change_of_no_rows_of_a_table_dropped_meanwhile_fails(void **state)
{
    assert_int_equal(change_of_a_dropped_table(*state, (ProtobufCBinaryData){0, NULL}),
                     LAKE_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_change_of_a_table_dropped_meanwhile_does_not_pass_for_done),
        TEST(a_change_of_no_rows_of_a_table_dropped_meanwhile_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
