/* Operation IDs and their records (NAT-6). */
#include "meta_fixture.h"

static void id_at(int64_t unix_ms, char out[BASE_UUID_TEXT_BYTES])
{
    struct base_uuid id = {{0}};
    for (int i = 0; i < 6; i++)
        id.bytes[i] = (uint8_t)((uint64_t)unix_ms >> (40 - 8 * i));
    id.bytes[6] = 0x70;
    id.bytes[8] = 0x80;
    id.bytes[15] = 1;
    base_uuid_format(&id, out);
}

static lake_status check_at(int64_t made_ms, int64_t now_ms, struct lake_error *err)
{
    char text[BASE_UUID_TEXT_BYTES];
    char out[BASE_UUID_TEXT_BYTES];
    id_at(made_ms, text);
    return meta_operation_check_id(base_str_of(text), now_ms, RETENTION_S * 1000ULL, out, err);
}

static void id_expires_when_the_retention_is_over_and_not_before(void **state)
{
    (void)state;
    const int64_t made_ms = 1700000000000;
    const int64_t retention_ms = RETENTION_S * 1000LL;
    struct lake_error err;
    assert_int_equal(check_at(made_ms, made_ms + retention_ms, &err), LAKE_OK);
    assert_int_equal(check_at(made_ms, made_ms + retention_ms + 1, &err), LAKE_FAILED_PRECONDITION);
    assert_contains(err.message, "expired");
}

static void id_may_be_five_minutes_ahead_and_not_more(void **state)
{
    (void)state;
    const int64_t now_ms = 1700000000000;
    assert_int_equal(check_at(now_ms + 300000, now_ms, NULL), LAKE_OK);
    assert_int_equal(check_at(now_ms + 300001, now_ms, NULL), LAKE_INVALID_ARGUMENT);
}

static void only_uuid_version_7_is_an_id(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "x",
        "018bcfe5-6800-4000-8000-000000000001",  /* version 4 */
        "018bcfe5-6800-7000-c000-000000000001",  /* another variant */
        "018bcfe5-6800-7000-8000-00000000000",   /* short */
        "018bcfe5-6800-7000-8000-0000000000011", /* long */
    };
    char out[BASE_UUID_TEXT_BYTES];
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++)
        assert_int_equal(meta_operation_check_id(base_str_of(bad[i]), 1700000000000,
                                                 RETENTION_S * 1000ULL, out, NULL),
                         LAKE_INVALID_ARGUMENT);
}

static void id_in_upper_case_is_the_same_id(void **state)
{
    (void)state;
    char out[BASE_UUID_TEXT_BYTES];
    assert_int_equal(meta_operation_check_id(LAKE_STR("018BCFE5-6800-7000-8000-00000000ABCD"),
                                             1700000000000, RETENTION_S * 1000ULL, out, NULL),
                     LAKE_OK);
    assert_string_equal(out, "018bcfe5-6800-7000-8000-00000000abcd");
}

static struct meta_operation sample(uint64_t version)
{
    struct meta_operation operation = {
        .version = version, .row_count = 5, .recorded_unix_ms = 1700000000000};
    memset(operation.content_sha256, 0xab, sizeof(operation.content_sha256));
    memcpy(operation.incarnation, "6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b", BASE_UUID_TEXT_BYTES);
    return operation;
}

static void record_survives_reopening_and_sets_the_recorded_version(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_operation put = sample(9);
    struct meta_operation got;
    char id[BASE_UUID_TEXT_BYTES];
    new_operation_id(id);
    assert_int_equal(meta_operation_get(fixture->authority, &name, id, &got, NULL), LAKE_NOT_FOUND);
    OK(fixture, meta_operation_record(fixture->authority, &name, id, &put, &fixture->err));
    fixture_reopen(fixture);
    OK(fixture, meta_operation_get(fixture->authority, &name, id, &got, &fixture->err));
    assert_int_equal(got.version, 9);
    assert_int_equal(got.row_count, 5);
    assert_memory_equal(got.content_sha256, put.content_sha256, BASE_SHA256_BYTES);
    assert_string_equal(got.incarnation, put.incarnation);

    uint64_t recorded;
    OK(fixture,
       meta_recorded_version(fixture->authority, &name, put.incarnation, &recorded, &fixture->err));
    assert_int_equal(recorded, 9);
    OK(fixture,
       meta_recorded_version(fixture->authority, &name, "00000000-11c0-43da-975e-2a8ad9ebae0b",
                             &recorded, &fixture->err));
    assert_int_equal(recorded, 0);
}

static void same_id_on_another_table_is_another_operation(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name arm = name_of("robots", "arm");
    struct meta_name leg = name_of("robots", "leg");
    struct meta_operation operation = sample(2);
    char id[BASE_UUID_TEXT_BYTES];
    new_operation_id(id);
    OK(fixture, meta_operation_record(fixture->authority, &arm, id, &operation, &fixture->err));
    assert_int_equal(meta_operation_get(fixture->authority, &leg, id, &operation, NULL),
                     LAKE_NOT_FOUND);
}

static void pruning_removes_the_expired_and_nothing_else(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    const int64_t now_ms = 1700000000000;
    const int64_t retention_ms = RETENTION_S * 1000LL;
    struct meta_operation operation = sample(2);
    char id[BASE_UUID_TEXT_BYTES];
    /* More than two pages of expired ones. */
    for (int i = 0; i < 200; i++) {
        id_at(now_ms - retention_ms - 4000000 - i, id);
        OK(fixture,
           meta_operation_record(fixture->authority, &name, id, &operation, &fixture->err));
    }
    char young[BASE_UUID_TEXT_BYTES];
    id_at(now_ms - retention_ms - 1, young); /* refused already, kept for the margin */
    OK(fixture, meta_operation_record(fixture->authority, &name, young, &operation, &fixture->err));
    uint64_t pruned = 0;
    OK(fixture, meta_operation_prune(fixture->authority, now_ms, &pruned, &fixture->err));
    assert_int_equal(pruned, 200);
    OK(fixture, meta_operation_get(fixture->authority, &name, young, &operation, &fixture->err));
    assert_int_equal(meta_operation_get(fixture->authority, &name, id, &operation, NULL),
                     LAKE_NOT_FOUND);
}

static void commit_generation_never_goes_back(void **state)
{
    struct fixture *fixture = *state;
    uint64_t last = 0;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 10; j++) {
            uint64_t next = meta_next_commit_generation(fixture->authority);
            assert_true(next > last);
            last = next;
        }
        /* The last one handed out was written, as with every commit. */
        struct meta_name name = name_of("robots", "arm");
        struct meta_operation operation = sample(2);
        char id[BASE_UUID_TEXT_BYTES];
        new_operation_id(id);
        OK(fixture,
           meta_operation_record(fixture->authority, &name, id, &operation, &fixture->err));
        last++;
        fixture_reopen(fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(id_expires_when_the_retention_is_over_and_not_before),
        cmocka_unit_test(id_may_be_five_minutes_ahead_and_not_more),
        cmocka_unit_test(only_uuid_version_7_is_an_id),
        cmocka_unit_test(id_in_upper_case_is_the_same_id),
        TEST(record_survives_reopening_and_sets_the_recorded_version),
        TEST(same_id_on_another_table_is_another_operation),
        TEST(pruning_removes_the_expired_and_nothing_else),
        TEST(commit_generation_never_goes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
