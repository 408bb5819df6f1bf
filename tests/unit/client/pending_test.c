/* libs: meta query */
/* Appends that are written down before they are sent (SDK-5). */
#define _GNU_SOURCE
#include "client_fixture.h"
#include "pending_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char ids[2][LAKE_OPERATION_ID_BYTES]; /* fresh for each test: the server refuses old ones */

#define TOKEN "bearer-8c1f5a-known-secret"

struct durable {
    struct fixture *fixture;
    char marks[300];
};

static lake_client *connect_durably(struct durable *durable, bool query_only)
{
    struct lake_connect_options options = LAKE_CONNECT_OPTIONS_INIT;
    lake_client *client = NULL;
    options.upload_checkpoint_dir = durable->marks;
    options.timeout_ms = 60000;
    options.bearer_token = TOKEN; /* which a server on loopback without principals takes */
    OK(durable->fixture, (query_only ? lake_connect_query_only : lake_connect)(
                             durable->fixture->address, &options, &client, &durable->fixture->err));
    return client;
}

static int setup(void **state)
{
    static struct durable durable;
    const struct fixture_options options = {0};
    durable.fixture = fixture_serve(&options);
    for (size_t i = 0; i < BASE_ARRAY_LEN(ids); i++) {
        struct base_uuid uuid;
        assert_int_equal(base_uuid7_new(&uuid, NULL), LAKE_OK);
        base_uuid_format(&uuid, ids[i]);
    }
    snprintf(durable.marks, sizeof(durable.marks), "%s/marks", durable.fixture->directory.path);
    durable.fixture->client = connect_durably(&durable, true);
    CREATE(durable.fixture, "kept.t", "id:int64");
    *state = &durable;
    return 0;
}

static int teardown(void **state)
{
    struct durable *durable = *state;
    (void)base_fault_configure(NULL, NULL);
    fixture_free(durable->fixture);
    return 0;
}

static lake_status append(struct durable *durable, const char *operation_id, int64_t from,
                          int64_t count, struct lake_insert_result *result)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    id_batch(&schema, &batch, from, count);
    const struct ArrowArray *batches[] = {&batch};
    lake_status status = lake_append_batches(durable->fixture->client, "kept.t", &schema, batches,
                                             1, operation_id, result, &durable->fixture->err);
    batch.release(&batch);
    schema.release(&schema);
    return status;
}

/* Leaves one pending append of these rows: everything happens but the sending. */
static void leave_pending(struct durable *durable, const char *operation_id, int64_t from,
                          int64_t count)
{
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    assert_int_equal(base_fault_configure("client.append.kept:1:error", NULL), LAKE_OK);
    FAILS(durable->fixture, LAKE_OUTCOME_UNKNOWN, "kept as pending",
          append(durable, operation_id, from, count, &result));
    assert_int_equal(base_fault_configure(NULL, NULL), LAKE_OK);
    assert_string_equal(result.operation_id, operation_id);
    lake_insert_result_fini(&result);
}

static size_t count_pending(struct durable *durable)
{
    struct lake_pending_appends pending;
    OK(durable->fixture,
       lake_pending_append_ids(durable->fixture->client, &pending, &durable->fixture->err));
    size_t count = pending.count;
    lake_pending_appends_fini(&pending);
    return count;
}

static int count_files(const struct durable *durable)
{
    int count = 0;
    DIR *entries = opendir(durable->marks);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;)
        count += entry->d_name[0] != '.';
    if (entries != NULL)
        (void)closedir(entries);
    return count;
}

static void path_of(const struct durable *durable, const char *operation_id, char out[400])
{
    snprintf(out, 400, "%s/%s.append", durable->marks, operation_id);
}

static void a_committed_append_leaves_no_file(void **state)
{
    struct durable *durable = *state;
    OK(durable->fixture, append(durable, NULL, 0, 3, NULL));
    assert_int_equal(count_files(durable), 0);
    assert_int_equal(count_rows(durable->fixture, "kept.t"), 3);
}

static void a_pending_append_is_committed_once(void **state)
{
    struct durable *durable = *state;
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    leave_pending(durable, ids[0], 10, 5);
    assert_int_equal(count_rows(durable->fixture, "kept.t"), 0);
    assert_int_equal(count_pending(durable), 1);
    OK(durable->fixture, lake_resume_pending_append(durable->fixture->client, ids[0], &result,
                                                    &durable->fixture->err));
    assert_int_equal(result.row_count, 5);
    assert_false(result.replayed);
    assert_string_equal(result.operation_id, ids[0]);
    lake_insert_result_fini(&result);
    assert_int_equal(count_files(durable), 0);
    assert_int_equal(query_number(durable->fixture, "SELECT sum(id)::BIGINT FROM kept.t"), 60);
    FAILS(
        durable->fixture, LAKE_NOT_FOUND, "no such pending",
        lake_resume_pending_append(durable->fixture->client, ids[0], NULL, &durable->fixture->err));
}

static void an_append_that_was_committed_before_the_crash_is_replayed(void **state)
{
    struct durable *durable = *state;
    struct lake_insert_result first = LAKE_INSERT_RESULT_INIT;
    struct lake_insert_result again = LAKE_INSERT_RESULT_INIT;
    assert_int_equal(base_fault_configure("client.append.answered:1:error", NULL), LAKE_OK);
    OK(durable->fixture, append(durable, ids[0], 0, 4, &first));
    assert_int_equal(base_fault_configure(NULL, NULL), LAKE_OK);
    assert_int_equal(count_pending(durable), 1);
    OK(durable->fixture, lake_resume_pending_append(durable->fixture->client, ids[0], &again,
                                                    &durable->fixture->err));
    assert_true(again.replayed);
    assert_int_equal(again.version, first.version);
    assert_int_equal(again.row_count, 4);
    lake_insert_result_fini(&first);
    lake_insert_result_fini(&again);
    assert_int_equal(count_rows(durable->fixture, "kept.t"), 4);
    assert_int_equal(count_files(durable), 0);
}

static void the_same_id_joins_its_pending_append_and_other_rows_do_not(void **state)
{
    struct durable *durable = *state;
    leave_pending(durable, ids[0], 0, 4);
    FAILS(durable->fixture, LAKE_ALREADY_EXISTS, "other rows is pending",
          append(durable, ids[0], 1, 4, NULL));
    assert_int_equal(count_files(durable), 1);
    OK(durable->fixture, append(durable, ids[0], 0, 4, NULL));
    assert_int_equal(count_files(durable), 0);
    assert_int_equal(count_rows(durable->fixture, "kept.t"), 4);
}

static void a_rejection_removes_the_file(void **state)
{
    struct durable *durable = *state;
    leave_pending(durable, ids[0], 0, 4);
    leave_pending(durable, ids[1], 0, 4);
    OK(durable->fixture,
       lake_resume_pending_append(durable->fixture->client, ids[0], NULL, &durable->fixture->err));
    /* The same ID with other rows, sent now by a client that writes nothing down. */
    lake_client *durable_client = durable->fixture->client;
    OK(durable->fixture, lake_connect(durable->fixture->address, NULL, &durable->fixture->client,
                                      &durable->fixture->err));
    OK(durable->fixture, append(durable, ids[1], 7, 2, NULL));
    lake_client_unref(durable->fixture->client);
    durable->fixture->client = durable_client;
    FAILS(durable->fixture, LAKE_ALREADY_EXISTS, "different content",
          lake_resume_pending_append(durable_client, ids[1], NULL, &durable->fixture->err));
    assert_int_equal(count_files(durable), 0);
    assert_int_equal(count_rows(durable->fixture, "kept.t"), 6);
}

/* By another client, so that the cache of this one does not know. */
static void drop_and_create(struct durable *durable)
{
    struct fixture *fixture = durable->fixture;
    lake_client *own = fixture->client;
    OK(fixture, lake_connect(fixture->address, NULL, &fixture->client, &fixture->err));
    OK(fixture, lake_drop_table(fixture->client, "kept.t", &fixture->err));
    CREATE(fixture, "kept.t", "id:int64");
    lake_client_unref(fixture->client);
    fixture->client = own;
}

static void a_pending_append_is_never_added_to_another_table_of_its_name(void **state)
{
    struct durable *durable = *state;
    leave_pending(durable, ids[0], 0, 4);
    leave_pending(durable, ids[1], 4, 3);
    drop_and_create(durable);
    FAILS(
        durable->fixture, LAKE_FAILED_PRECONDITION, "dropped and created again",
        lake_resume_pending_append(durable->fixture->client, ids[0], NULL, &durable->fixture->err));
    /* The one who asks again for the same append is refused as well, and then hears of the new
     * table. */
    lake_schema_cache_clear(durable->fixture->client);
    FAILS(durable->fixture, LAKE_ALREADY_EXISTS, "pending", append(durable, ids[1], 4, 3, NULL));
    FAILS(
        durable->fixture, LAKE_FAILED_PRECONDITION, "dropped and created again",
        lake_resume_pending_append(durable->fixture->client, ids[1], NULL, &durable->fixture->err));
    assert_int_equal(count_files(durable), 0);
    assert_int_equal(count_rows(durable->fixture, "kept.t"), 0);
}

static void asking_again_with_a_stale_cache_adds_nothing_to_the_new_table(void **state)
{
    struct durable *durable = *state;
    OK(durable->fixture, append(durable, NULL, 0, 1, NULL));
    leave_pending(durable, ids[0], 0, 4);
    drop_and_create(durable);
    FAILS(durable->fixture, LAKE_FAILED_PRECONDITION, "dropped and created again",
          append(durable, ids[0], 0, 4, NULL));
    assert_int_equal(count_rows(durable->fixture, "kept.t"), 0);
    assert_int_equal(count_files(durable), 0);
}

static void a_new_append_goes_to_the_new_table_though_the_cache_is_stale(void **state)
{
    struct durable *durable = *state;
    OK(durable->fixture, append(durable, NULL, 0, 1, NULL));
    drop_and_create(durable);
    OK(durable->fixture, append(durable, NULL, 5, 2, NULL));
    assert_int_equal(count_rows(durable->fixture, "kept.t"), 2);
    drop_and_create(durable);
    struct lake_value value = {.kind = LAKE_VALUE_INT64, .as.int64 = 7};
    OK(durable->fixture, lake_insert(durable->fixture->client, "INSERT INTO kept.t (id) VALUES (?)",
                                     &value, 1, NULL, &durable->fixture->err));
    assert_int_equal(query_number(durable->fixture, "SELECT sum(id)::BIGINT FROM kept.t"), 7);
    assert_int_equal(count_files(durable), 0);
}

static void without_a_server_the_rows_stay_pending(void **state)
{
    struct durable *durable = *state;
    leave_pending(durable, ids[0], 0, 2);
    OK(durable->fixture, query_server_stop(durable->fixture->query, 1000, &durable->fixture->err));
    FAILS(
        durable->fixture, LAKE_UNAVAILABLE, "",
        lake_resume_pending_append(durable->fixture->client, ids[0], NULL, &durable->fixture->err));
    FAILS(durable->fixture, LAKE_OUTCOME_UNKNOWN, "kept as pending",
          append(durable, ids[1], 5, 1, NULL));
    assert_int_equal(count_pending(durable), 2);
}

static void a_directory_that_cannot_be_synced_keeps_the_append_unsent(void **state)
{
    struct durable *durable = *state;
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    assert_int_equal(base_fault_configure("client.append.renamed:1:error", NULL), LAKE_OK);
    FAILS(durable->fixture, LAKE_OUTCOME_UNKNOWN, "not certain",
          append(durable, NULL, 0, 2, &result));
    assert_int_equal(base_fault_configure(NULL, NULL), LAKE_OK);
    assert_int_equal(count_rows(durable->fixture, "kept.t"), 0);
    OK(durable->fixture, lake_resume_pending_append(durable->fixture->client, result.operation_id,
                                                    NULL, &durable->fixture->err));
    lake_insert_result_fini(&result);
    assert_int_equal(count_rows(durable->fixture, "kept.t"), 2);
}

static void what_was_not_written_to_its_end_leaves_nothing(void **state)
{
    struct durable *durable = *state;
    assert_int_equal(base_fault_configure("client.append.written:1:error", NULL), LAKE_OK);
    FAILS(durable->fixture, LAKE_UNAVAILABLE, "", append(durable, NULL, 0, 2, NULL));
    assert_int_equal(base_fault_configure("client.append.begun:1:error", NULL), LAKE_OK);
    FAILS(durable->fixture, LAKE_UNAVAILABLE, "", append(durable, NULL, 0, 2, NULL));
    assert_int_equal(base_fault_configure(NULL, NULL), LAKE_OK);
    assert_int_equal(count_files(durable), 0);
    assert_int_equal(count_rows(durable->fixture, "kept.t"), 0);
}

static void a_changed_bit_anywhere_is_found_and_no_token_is_in_the_file(void **state)
{
    struct durable *durable = *state;
    char path[400];
    struct stat info;
    leave_pending(durable, ids[0], 0, 2);
    path_of(durable, ids[0], path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    uint8_t *bytes = malloc((size_t)info.st_size);
    int fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, bytes, (size_t)info.st_size), info.st_size);
    (void)close(fd);
    struct pending_record record;
    assert_int_equal(
        pending_record_parse((struct lake_bytes){bytes, (size_t)info.st_size}, &record, NULL),
        LAKE_OK);
    assert_non_null(memmem(bytes, (size_t)info.st_size, "kept", 4));
    assert_null(memmem(bytes, (size_t)info.st_size, TOKEN, sizeof(TOKEN) - 1));
    for (size_t i = 0; i < (size_t)info.st_size; i++) {
        bytes[i] ^= 0x10;
        assert_int_equal(
            pending_record_parse((struct lake_bytes){bytes, (size_t)info.st_size}, &record, NULL),
            LAKE_DATA_LOSS);
        bytes[i] ^= 0x10;
        assert_int_equal(pending_record_parse((struct lake_bytes){bytes, i}, &record, NULL),
                         LAKE_DATA_LOSS);
    }
    free(bytes);
    assert_int_equal(truncate(path, info.st_size - 1), 0);
    FAILS(
        durable->fixture, LAKE_DATA_LOSS, "damaged",
        lake_resume_pending_append(durable->fixture->client, ids[0], NULL, &durable->fixture->err));
    assert_int_equal(count_pending(durable), 1);
    OK(durable->fixture,
       lake_drop_pending_append(durable->fixture->client, ids[0], &durable->fixture->err));
    assert_int_equal(count_files(durable), 0);
}

/* A row with 16 dictionaries, all of the one `value`: of a byte, or the rows would take more than
 * 64 MiB. */
static void row_of_dictionaries(struct ArrowSchema *schema, struct ArrowArray *batch, int8_t value)
{
    static char columns[16][64];
    const char *pointers[16];
    for (int i = 0; i < 16; i++) {
        snprintf(columns[i], sizeof(columns[i]), "d%d:dictionary<int8, int8>", i);
        pointers[i] = columns[i];
    }
    assert_int_equal(lake_schema_parse(pointers, 16, schema, NULL), LAKE_OK);
    assert_int_equal(ArrowArrayInitFromSchema(batch, schema, NULL), 0);
    assert_int_equal(ArrowArrayStartAppending(batch), 0);
    for (int i = 0; i < 16; i++) {
        ArrowArrayAppendInt(batch->children[i]->dictionary, value);
        ArrowArrayAppendInt(batch->children[i], 0);
    }
    assert_int_equal(ArrowArrayFinishElement(batch), 0);
    assert_int_equal(ArrowArrayFinishBuildingDefault(batch, NULL), 0);
}

/* A schema, and 10,000 rows that change all 16 dictionaries each: one append can have no more. */
static void the_most_messages_there_can_be_are_kept_and_sent(void **state)
{
    struct durable *durable = *state;
    struct fixture *fixture = durable->fixture;
    static const struct ArrowArray *batches[10000];
    struct ArrowSchema schema[2];
    struct ArrowArray rows[2];
    struct pending_file *file = NULL;
    struct pending_record record;
    struct lake_bytes message;
    row_of_dictionaries(&schema[0], &rows[0], 3);
    row_of_dictionaries(&schema[1], &rows[1], 5);
    for (size_t i = 0; i < BASE_ARRAY_LEN(batches); i++)
        batches[i] = &rows[i % 2];
    OK(fixture, lake_create_table(fixture->client, "kept.most", &schema[0], &fixture->err));
    assert_int_equal(base_fault_configure("client.append.kept:1:error", NULL), LAKE_OK);
    FAILS(fixture, LAKE_OUTCOME_UNKNOWN, "kept as pending",
          lake_append_batches(fixture->client, "kept.most", &schema[0], batches,
                              BASE_ARRAY_LEN(batches), ids[0], NULL, &fixture->err));
    assert_int_equal(base_fault_configure(NULL, NULL), LAKE_OK);
    OK(fixture, pending_file_open(durable->marks, ids[0], &file, &record, &fixture->err));
    size_t count = 0;
    for (struct lake_bytes rest = record.messages; pending_record_next(&rest, &message);)
        count++;
    assert_int_equal(count, CLIENT_MAX_MESSAGES);
    assert_int_equal(count, 170001);
    pending_file_free(file);
    OK(fixture, lake_resume_pending_append(fixture->client, ids[0], NULL, &fixture->err));
    assert_int_equal(query_number(fixture, "SELECT count(*) FROM kept.most WHERE d15 = 5"), 5000);
    for (int i = 0; i < 2; i++) {
        rows[i].release(&rows[i]);
        schema[i].release(&schema[i]);
    }
}

static void a_file_under_another_name_and_of_another_lake_is_refused(void **state)
{
    struct durable *durable = *state;
    char from[400];
    char to[400];
    leave_pending(durable, ids[0], 0, 2);
    path_of(durable, ids[0], from);
    path_of(durable, ids[1], to);
    assert_int_equal(rename(from, to), 0);
    FAILS(
        durable->fixture, LAKE_DATA_LOSS, "renamed",
        lake_resume_pending_append(durable->fixture->client, ids[1], NULL, &durable->fixture->err));
    assert_int_equal(rename(to, from), 0);
    char *lake_uri = durable->fixture->client->lake_uri;
    char initial = lake_uri[0];
    lake_uri[0] = 'x';
    FAILS(
        durable->fixture, LAKE_FAILED_PRECONDITION, "not for this",
        lake_resume_pending_append(durable->fixture->client, ids[0], NULL, &durable->fixture->err));
    lake_uri[0] = initial;
    OK(durable->fixture,
       lake_resume_pending_append(durable->fixture->client, ids[0], NULL, &durable->fixture->err));
}

static void one_that_is_being_sent_is_nobody_elses(void **state)
{
    struct durable *durable = *state;
    struct pending_file *file = NULL;
    leave_pending(durable, ids[0], 0, 2);
    OK(durable->fixture, pending_file_lock(durable->marks, ids[0], &file, &durable->fixture->err));
    FAILS(
        durable->fixture, LAKE_FAILED_PRECONDITION, "being sent",
        lake_resume_pending_append(durable->fixture->client, ids[0], NULL, &durable->fixture->err));
    FAILS(durable->fixture, LAKE_FAILED_PRECONDITION, "being sent",
          lake_drop_pending_append(durable->fixture->client, ids[0], &durable->fixture->err));
    FAILS(durable->fixture, LAKE_FAILED_PRECONDITION, "being sent",
          append(durable, ids[0], 0, 2, NULL));
    pending_file_free(file);
    OK(durable->fixture, append(durable, ids[0], 0, 2, NULL));
    assert_int_equal(count_rows(durable->fixture, "kept.t"), 2);
}

static void the_oldest_1024_are_listed_in_order(void **state)
{
    struct durable *durable = *state;
    struct lake_pending_appends pending;
    char path[400];
    OK(durable->fixture, base_make_directories(durable->marks, &durable->fixture->err));
    for (int i = 1199; i >= 0; i--) {
        snprintf(path, sizeof(path), "%s/0190163d-%04x-739b-aea5-966c26f8ad91.append",
                 durable->marks, (unsigned)((i * 7) % 1200));
        (void)close(open(path, O_CREAT | O_WRONLY, 0600));
    }
    snprintf(path, sizeof(path), "%s/%s.append.new", durable->marks, ids[0]);
    (void)close(open(path, O_CREAT | O_WRONLY, 0600));
    snprintf(path, sizeof(path), "%s/0123456789abcdef0123456789abcdef.upload", durable->marks);
    (void)close(open(path, O_CREAT | O_WRONLY, 0600));
    OK(durable->fixture,
       lake_pending_append_ids(durable->fixture->client, &pending, &durable->fixture->err));
    assert_int_equal(pending.count, LAKE_MAX_PENDING_APPENDS);
    for (unsigned i = 0; i < LAKE_MAX_PENDING_APPENDS; i++) {
        char expected[LAKE_OPERATION_ID_BYTES];
        snprintf(expected, sizeof(expected), "0190163d-%04x-739b-aea5-966c26f8ad91", i & 0xffff);
        assert_string_equal(pending.operation_ids[i], expected);
    }
    lake_pending_appends_fini(&pending);
    assert_int_equal(count_files(durable), 1201); /* without the one half written */
}

static void without_a_directory_nothing_is_pending(void **state)
{
    struct durable *durable = *state;
    struct fixture *fixture = durable->fixture;
    struct lake_pending_appends pending;
    lake_client *client = NULL;
    OK(fixture, lake_connect(fixture->address, NULL, &client, &fixture->err));
    FAILS(fixture, LAKE_FAILED_PRECONDITION, "no checkpoint directory",
          lake_pending_append_ids(client, &pending, &fixture->err));
    FAILS(fixture, LAKE_FAILED_PRECONDITION, "no checkpoint directory",
          lake_resume_pending_append(client, ids[0], NULL, &fixture->err));
    lake_client_unref(client);
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "not a UUID",
          lake_drop_pending_append(fixture->client, "../../etc/passwd", &fixture->err));
    assert_int_equal(count_pending(durable), 0); /* also when it was never made */
}

/* No memory at any moment: the rows are there once in the end. */
static void want_of_memory_loses_and_doubles_nothing(void **state)
{
    struct durable *durable = *state;
    leave_pending(durable, ids[0], 0, 2);
    bool done = false;
    for (uint64_t nth = 1; !done && nth < 100; nth++) {
        base_fault_fail_nth_alloc(nth);
        lake_status status = lake_resume_pending_append(durable->fixture->client, ids[0], NULL,
                                                        &durable->fixture->err);
        base_fault_fail_nth_alloc(0);
        done = count_files(durable) == 0;
        if (status != LAKE_OK)
            assert_int_equal(count_pending(durable), 1);
    }
    assert_true(done);
    assert_int_equal(count_rows(durable->fixture, "kept.t"), 2);
}

#define DURABLE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DURABLE_TEST(a_committed_append_leaves_no_file),
        DURABLE_TEST(a_pending_append_is_committed_once),
        DURABLE_TEST(an_append_that_was_committed_before_the_crash_is_replayed),
        DURABLE_TEST(the_same_id_joins_its_pending_append_and_other_rows_do_not),
        DURABLE_TEST(a_rejection_removes_the_file),
        DURABLE_TEST(a_pending_append_is_never_added_to_another_table_of_its_name),
        DURABLE_TEST(asking_again_with_a_stale_cache_adds_nothing_to_the_new_table),
        DURABLE_TEST(a_new_append_goes_to_the_new_table_though_the_cache_is_stale),
        DURABLE_TEST(without_a_server_the_rows_stay_pending),
        DURABLE_TEST(a_directory_that_cannot_be_synced_keeps_the_append_unsent),
        DURABLE_TEST(what_was_not_written_to_its_end_leaves_nothing),
        DURABLE_TEST(a_changed_bit_anywhere_is_found_and_no_token_is_in_the_file),
        DURABLE_TEST(the_most_messages_there_can_be_are_kept_and_sent),
        DURABLE_TEST(a_file_under_another_name_and_of_another_lake_is_refused),
        DURABLE_TEST(one_that_is_being_sent_is_nobody_elses),
        DURABLE_TEST(the_oldest_1024_are_listed_in_order),
        DURABLE_TEST(without_a_directory_nothing_is_pending),
        DURABLE_TEST(want_of_memory_loses_and_doubles_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
