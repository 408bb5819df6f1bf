/* Appends from several threads: to one table in turn, to two side by side. */
/* labels: concurrent */
#include "meta_fixture.h"

#define APPENDERS 6
#define APPENDS   8

struct appender {
    struct fixture *fixture;
    struct meta_name name;
    uint64_t versions[APPENDS];
};

static void *append_many(void *context)
{
    struct appender *appender = context;
    struct fixture own = *appender->fixture; /* an error record of its own */
    for (int i = 0; i < APPENDS; i++) {
        struct meta_append_result result;
        char id[BASE_UUID_TEXT_BYTES];
        new_operation_id(id);
        if (append_rows(&own, &own.anna, &appender->name, id, i, 2, false, NULL, &result) !=
            LAKE_OK)
            return NULL;
        appender->versions[i] = result.version;
    }
    return appender;
}

static void concurrent_appends_to_one_table_make_distinct_versions(void **state)
{
    struct fixture *fixture = *state;
    struct appender appenders[APPENDERS];
    pthread_t threads[APPENDERS];
    struct meta_name names[2] = {name_of("robots", "arm"), name_of("robots", "leg")};
    create_table(fixture, &names[0], false);
    create_table(fixture, &names[1], false);
    for (int i = 0; i < APPENDERS; i++) {
        appenders[i] = (struct appender){.fixture = fixture, .name = names[i % 2]};
        assert_int_equal(pthread_create(&threads[i], NULL, append_many, &appenders[i]), 0);
    }
    bool seen[2][APPENDERS * APPENDS + 2] = {{false}};
    for (int i = 0; i < APPENDERS; i++) {
        void *done = NULL;
        assert_int_equal(pthread_join(threads[i], &done), 0);
        assert_non_null(done);
        for (int j = 0; j < APPENDS; j++) {
            uint64_t version = appenders[i].versions[j];
            assert_in_range(version, 2, APPENDERS / 2 * APPENDS + 1);
            assert_false(seen[i % 2][version]);
            seen[i % 2][version] = true;
        }
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(row_count_of(fixture, &names[i], NULL), APPENDERS / 2 * APPENDS * 2);
}

struct sender {
    struct fixture *fixture;
    const struct meta_name *name;
    const char *operation_id;
    struct meta_append_result result;
    lake_status status;
};

static void *send_once(void *context)
{
    struct sender *sender = context;
    struct fixture own = *sender->fixture;
    sender->status = append_rows(&own, &own.anna, sender->name, sender->operation_id, 0, 5, false,
                                 NULL, &sender->result);
    return NULL;
}

/* A client that lost patience and sent again while the first was still at work. */
static void one_operation_sent_by_many_at_once_is_committed_once(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct sender senders[APPENDERS];
    pthread_t threads[APPENDERS];
    char id[BASE_UUID_TEXT_BYTES];
    create_table(fixture, &name, false);
    new_operation_id(id);
    for (int i = 0; i < APPENDERS; i++) {
        senders[i] = (struct sender){.fixture = fixture, .name = &name, .operation_id = id};
        assert_int_equal(pthread_create(&threads[i], NULL, send_once, &senders[i]), 0);
    }
    int replayed = 0;
    for (int i = 0; i < APPENDERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(senders[i].status, LAKE_OK);
        assert_int_equal(senders[i].result.version, 2);
        replayed += senders[i].result.replayed;
    }
    assert_int_equal(replayed, APPENDERS - 1);
    assert_int_equal(row_count_of(fixture, &name, NULL), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(concurrent_appends_to_one_table_make_distinct_versions),
        TEST(one_operation_sent_by_many_at_once_is_committed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
