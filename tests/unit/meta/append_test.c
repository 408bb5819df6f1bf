/* Appends: idempotent by operation ID (NAT-6), whole or not at all, at every step (DESIGN 8). */
#include "meta_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

static const struct meta_append_result untouched = {.version = 0};

static void append_makes_the_next_version_with_its_rows(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_append_result result = untouched;
    char id[BASE_UUID_TEXT_BYTES];
    create_table(fixture, &name, false);
    for (uint64_t i = 0; i < 3; i++) {
        new_operation_id(id);
        OK(fixture, append_rows(fixture, &fixture->anna, &name, id, (int64_t)i * 10, 10, false,
                                NULL, &result));
        assert_int_equal(result.version, 2 + i);
        assert_int_equal(result.row_count, 10);
        assert_false(result.replayed);
    }
    uint64_t version;
    assert_int_equal(row_count_of(fixture, &name, &version), 30);
    assert_int_equal(version, 4);
}

static void append_with_same_operation_id_returns_first_version(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_append_result first;
    struct meta_append_result other;
    struct meta_append_result again;
    char id[BASE_UUID_TEXT_BYTES];
    char id2[BASE_UUID_TEXT_BYTES];
    create_table(fixture, &name, false);
    new_operation_id(id);
    new_operation_id(id2);
    OK(fixture, append_rows(fixture, &fixture->anna, &name, id, 0, 5, false, NULL, &first));
    OK(fixture, append_rows(fixture, &fixture->anna, &name, id2, 5, 5, false, NULL, &other));
    OK(fixture, append_rows(fixture, &fixture->anna, &name, id, 0, 5, false, NULL, &again));
    assert_true(again.replayed);
    assert_int_equal(again.version, first.version);
    assert_int_equal(again.row_count, 5);
    assert_string_equal(again.incarnation, first.incarnation);
    fixture_reopen(fixture);
    OK(fixture, append_rows(fixture, &fixture->anna, &name, id, 0, 5, false, NULL, &again));
    assert_true(again.replayed);
    assert_int_equal(again.version, first.version);
    assert_int_equal(row_count_of(fixture, &name, NULL), 10);
}

static void same_operation_id_with_other_content_already_exists(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_append_result result;
    char id[BASE_UUID_TEXT_BYTES];
    create_table(fixture, &name, false);
    new_operation_id(id);
    OK(fixture, append_rows(fixture, &fixture->anna, &name, id, 0, 5, false, NULL, &result));
    assert_int_equal(append_rows(fixture, &fixture->anna, &name, id, 0, 6, false, NULL, &result),
                     LAKE_ALREADY_EXISTS);
    assert_contains(fixture->err.message, "different content");
    assert_int_equal(row_count_of(fixture, &name, NULL), 5);
}

static void operation_of_a_dropped_incarnation_does_not_pass_for_done(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_append_result result;
    char id[BASE_UUID_TEXT_BYTES];
    create_table(fixture, &name, false);
    new_operation_id(id);
    OK(fixture, append_rows(fixture, &fixture->anna, &name, id, 0, 5, false, NULL, &result));
    OK(fixture,
       meta_table_drop(fixture->authority, &fixture->anna, &patient, &name, false, &fixture->err));
    create_table(fixture, &name, false);
    assert_int_equal(append_rows(fixture, &fixture->anna, &name, id, 0, 5, false, NULL, &result),
                     LAKE_FAILED_PRECONDITION);
    assert_int_equal(row_count_of(fixture, &name, NULL), 0);
}

static void append_to_another_incarnation_than_expected_fails(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_append_result result;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    char id[BASE_UUID_TEXT_BYTES];
    create_table(fixture, &name, false);
    make_schema(&schema, false);
    make_batch(&batch, &schema, 0, 1, NULL);
    new_operation_id(id);
    struct meta_append append = {.name = name,
                                 .operation_id = base_str_of(id),
                                 .expected_incarnation =
                                     LAKE_STR("6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b"),
                                 .schema = &schema,
                                 .batches = &batch,
                                 .batch_count = 1,
                                 .row_count = 1};
    assert_int_equal(meta_append_commit(fixture->authority, &fixture->anna, &patient, &append,
                                        &result, &fixture->err),
                     LAKE_FAILED_PRECONDITION);
    append.expected_incarnation = LAKE_STR("nonsense");
    assert_int_equal(meta_append_commit(fixture->authority, &fixture->anna, &patient, &append,
                                        &result, &fixture->err),
                     LAKE_INVALID_ARGUMENT);
    batch.release(&batch);
    schema.release(&schema);
}

static void append_of_10000_rows_is_taken_and_of_10001_is_not(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_append_result result;
    char id[BASE_UUID_TEXT_BYTES];
    create_table(fixture, &name, false);
    new_operation_id(id);
    assert_int_equal(
        append_rows(fixture, &fixture->anna, &name, id, 0, 10001, false, NULL, &result),
        LAKE_INVALID_ARGUMENT);
    assert_int_equal(append_rows(fixture, &fixture->anna, &name, id, 0, 0, false, NULL, &result),
                     LAKE_INVALID_ARGUMENT);
    OK(fixture, append_rows(fixture, &fixture->anna, &name, id, 0, 10000, false, NULL, &result));
    assert_int_equal(row_count_of(fixture, &name, NULL), 10000);
}

static void rows_of_another_schema_are_refused_with_the_place(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_append_result result;
    char id[BASE_UUID_TEXT_BYTES];
    create_table(fixture, &name, true);
    new_operation_id(id);
    assert_int_equal(append_rows(fixture, &fixture->anna, &name, id, 0, 1, false, NULL, &result),
                     LAKE_INVALID_ARGUMENT);
    assert_contains(fixture->err.message, "3 columns");

    struct ArrowSchema schema;
    struct ArrowArray batch;
    make_schema(&schema, true);
    make_batch(&batch, &schema, 0, 1, NULL);
    assert_int_equal(ArrowSchemaSetName(schema.children[1], "remark"), NANOARROW_OK);
    struct meta_append append = {.name = name,
                                 .operation_id = base_str_of(id),
                                 .schema = &schema,
                                 .batches = &batch,
                                 .batch_count = 1,
                                 .row_count = 1};
    assert_int_equal(meta_append_commit(fixture->authority, &fixture->anna, &patient, &append,
                                        &result, &fixture->err),
                     LAKE_INVALID_ARGUMENT);
    assert_contains(fixture->err.message, "note");
    assert_contains(fixture->err.message, "remark");
    batch.release(&batch);
    schema.release(&schema);
}

static void unknown_table_and_missing_grant_are_told_apart(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name missing = name_of("robots", "none");
    struct meta_name secret = name_of("secret", "none");
    struct meta_append_result result;
    char id[BASE_UUID_TEXT_BYTES];
    new_operation_id(id);
    assert_int_equal(append_rows(fixture, &fixture->anna, &missing, id, 0, 1, false, NULL, &result),
                     LAKE_NOT_FOUND);
    assert_int_equal(append_rows(fixture, &fixture->anna, &secret, id, 0, 1, false, NULL, &result),
                     LAKE_PERMISSION_DENIED);
}

static void stage_uri(const struct fixture *fixture, const char *tail, char out[1024])
{
    (void)snprintf(out, 1024, "file://%s/objects/tenants/%s", fixture->authority->data_dir, tail);
}

static void file_values_must_lie_in_the_tenants_own_stage(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_append_result result;
    char id[BASE_UUID_TEXT_BYTES];
    char uri[1024];
    create_table(fixture, &name, true);
    new_operation_id(id);
    static const char *const bad[] = {"t2/a.mp4", "t1/../t2/a.mp4", "t1/",      "t1",
                                      "t1/a//b",  "t1/%2e%2e/b",    "t1/a?b",   "t1/a#b",
                                      "t1/./b",   "t1/a b",         "t11/a.mp4"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++) {
        stage_uri(fixture, bad[i], uri);
        assert_int_equal(append_rows(fixture, &fixture->anna, &name, id, 0, 2, true, uri, &result),
                         LAKE_INVALID_ARGUMENT);
        assert_contains(fixture->err.message, "\"video\", row 0");
    }
    assert_int_equal(append_rows(fixture, &fixture->anna, &name, id, 0, 2, true,
                                 "https://example.org/a.mp4", &result),
                     LAKE_INVALID_ARGUMENT);
    stage_uri(fixture, "t1/ab/cd-1.mp4", uri);
    OK(fixture, append_rows(fixture, &fixture->anna, &name, id, 0, 2, true, uri, &result));
    new_operation_id(id);
    OK(fixture, append_rows(fixture, &fixture->anna, &name, id, 2, 2, true, NULL, &result));
    assert_int_equal(row_count_of(fixture, &name, NULL), 4);
}

static void append_leaves_a_sidecar_that_counts_its_uris(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_append_result result;
    char id[BASE_UUID_TEXT_BYTES];
    char uri[1024];
    create_table(fixture, &name, true);
    new_operation_id(id);
    stage_uri(fixture, "t1/a.mp4", uri);
    OK(fixture, append_rows(fixture, &fixture->anna, &name, id, 0, 3, true, uri, &result));

    char key[META_KEY_BYTES];
    struct base_buffer bytes;
    struct base_arena *arena;
    struct meta_delta delta;
    base_buffer_init(&bytes, 1 << 20);
    OK(fixture, base_arena_new(1 << 20, &arena, &fixture->err));
    (void)snprintf(key, sizeof(key), "%s/00000000000000000002-%s.delta", result.incarnation, id);
    OK(fixture,
       storage_read_all(fixture->authority->deltas, base_str_of(key), &bytes, &fixture->err));
    OK(fixture, meta_delta_decode(base_buffer_view(&bytes), arena, &delta, &fixture->err));
    assert_int_equal(delta.version, 2);
    assert_int_equal(delta.added_count, 1);
    assert_int_equal(delta.added[0].references, 3);
    assert_true(base_str_equal_c(delta.added[0].uri, uri));
    assert_int_equal(delta.removed_count, 0);
    base_arena_free(arena);
    base_buffer_fini(&bytes);
}

/* ---- dying in the middle ---- */

#define CRASH_ID_ROWS 7

static char crash_id[BASE_UUID_TEXT_BYTES];

static bool append_dies_at(struct fixture *fixture, const struct meta_name *name, const char *point)
{
    meta_authority_free(fixture->authority);
    fixture->authority = NULL;
    new_operation_id(crash_id);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char spec[128];
        struct meta_append_result result;
        if (fixture_open(fixture) != LAKE_OK)
            _exit(3);
        (void)snprintf(spec, sizeof(spec), "%s:1:kill", point);
        if (base_fault_configure(spec, NULL) != LAKE_OK)
            _exit(4);
        (void)append_rows(fixture, &fixture->anna, name, crash_id, 100, CRASH_ID_ROWS, false, NULL,
                          &result);
        _exit(5);
    }
    int wait_status = 0;
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    OK(fixture, fixture_open(fixture));
    return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
}

static void crash_at_every_step_then_retry_adds_the_rows_exactly_once(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    static const struct {
        const char *name;
        bool published;
    } points[] = {
        {"meta.append.received", false},       {"meta.append.before_write", false},
        {"lance.append.after_data", false},    {"lance.commit.after_transaction", false},
        {"meta.delta.after_write", false},     {"lance.commit.before_manifest", false},
        {"lance.commit.after_manifest", true}, {"meta.append.before_record", true},
        {"meta.append.after_record", true},
    };
    create_table(fixture, &name, false);
    uint64_t rows = 0;
    for (size_t i = 0; i < BASE_ARRAY_LEN(points); i++) {
        uint64_t before;
        uint64_t after;
        (void)row_count_of(fixture, &name, &before);
        assert_true(append_dies_at(fixture, &name, points[i].name));
        assert_int_equal(row_count_of(fixture, &name, &after),
                         rows + (points[i].published ? CRASH_ID_ROWS : 0));
        assert_int_equal(after, before + points[i].published);

        struct meta_append_result result;
        OK(fixture, append_rows(fixture, &fixture->anna, &name, crash_id, 100, CRASH_ID_ROWS, false,
                                NULL, &result));
        assert_int_equal(result.replayed, points[i].published);
        assert_int_equal(result.version, before + 1);
        assert_int_equal(result.row_count, CRASH_ID_ROWS);
        rows += CRASH_ID_ROWS;
        assert_int_equal(row_count_of(fixture, &name, NULL), rows);
    }
}

static void operation_lost_in_a_crash_is_found_after_later_appends(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_append_result result;
    char id[BASE_UUID_TEXT_BYTES];
    create_table(fixture, &name, false);
    assert_true(append_dies_at(fixture, &name, "meta.append.before_record"));
    new_operation_id(id);
    OK(fixture, append_rows(fixture, &fixture->anna, &name, id, 0, 1, false, NULL, &result));
    assert_int_equal(result.version, 3);
    OK(fixture, append_rows(fixture, &fixture->anna, &name, crash_id, 100, CRASH_ID_ROWS, false,
                            NULL, &result));
    assert_true(result.replayed);
    assert_int_equal(result.version, 2);
    assert_int_equal(append_rows(fixture, &fixture->anna, &name, crash_id, 200, CRASH_ID_ROWS,
                                 false, NULL, &result),
                     LAKE_ALREADY_EXISTS);
    assert_int_equal(row_count_of(fixture, &name, NULL), CRASH_ID_ROWS + 1);
}

/* L21: published, but the answer cannot be given: the outcome is its own code, nothing is deleted,
 * and the same ID resolves it. */
static void case_L21_published_but_unrecorded_is_outcome_unknown_and_resolved_by_id(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_append_result result;
    char id[BASE_UUID_TEXT_BYTES];
    create_table(fixture, &name, false);
    new_operation_id(id);
    OK(fixture, base_fault_configure("meta.append.before_record:1:error", &fixture->err));
    assert_int_equal(append_rows(fixture, &fixture->anna, &name, id, 0, 4, false, NULL, &result),
                     LAKE_OUTCOME_UNKNOWN);
    assert_contains(fixture->err.message, id);
    OK(fixture, base_fault_configure(NULL, &fixture->err));
    assert_int_equal(row_count_of(fixture, &name, NULL), 4);
    OK(fixture, append_rows(fixture, &fixture->anna, &name, id, 0, 4, false, NULL, &result));
    assert_true(result.replayed);
    assert_int_equal(result.version, 2);
    assert_int_equal(row_count_of(fixture, &name, NULL), 4);
}

/* Fails the Nth disk operation of an append, for every N. Whatever it answers, the same ID again
 * ends with the rows there exactly once. */
static void append_survives_every_failing_disk_operation(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    create_table(fixture, &name, false);
    uint64_t rows = 0;
    bool succeeded = false;
    for (uint64_t nth = 1; nth < 1000 && !succeeded; nth++) {
        struct meta_append_result result;
        char id[BASE_UUID_TEXT_BYTES];
        new_operation_id(id);
        base_fault_fail_nth_io(nth);
        lake_status status =
            append_rows(fixture, &fixture->anna, &name, id, 0, 3, false, NULL, &result);
        succeeded = status == LAKE_OK && base_fault_io_count() < nth;
        base_fault_fail_nth_io(0);
        fixture_reopen(fixture);
        uint64_t now = row_count_of(fixture, &name, NULL);
        if (status == LAKE_OK)
            assert_int_equal(now, rows + 3);
        else if (status != LAKE_OUTCOME_UNKNOWN)
            assert_int_equal(now, rows);
        OK(fixture, append_rows(fixture, &fixture->anna, &name, id, 0, 3, false, NULL, &result));
        rows += 3;
        assert_int_equal(row_count_of(fixture, &name, NULL), rows);
    }
    assert_true(succeeded);
}

static void append_survives_every_failing_allocation(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    create_table(fixture, &name, false);
    struct ArrowSchema schema;
    struct ArrowArray batch;
    make_schema(&schema, false);
    make_batch(&batch, &schema, 0, 3, NULL);
    uint64_t rows = 0;
    bool succeeded = false;
    for (uint64_t nth = 1; nth < 20000 && !succeeded; nth++) {
        struct meta_append_result result;
        /* A short table, so that the number of allocations does not grow with the versions. */
        if (nth % 10 == 0) {
            OK(fixture, meta_table_drop(fixture->authority, &fixture->anna, &patient, &name, false,
                                        &fixture->err));
            create_table(fixture, &name, false);
            rows = 0;
        }
        char id[BASE_UUID_TEXT_BYTES];
        new_operation_id(id);
        struct meta_append append = {.name = name,
                                     .operation_id = base_str_of(id),
                                     .schema = &schema,
                                     .batches = &batch,
                                     .batch_count = 1,
                                     .row_count = 3};
        base_fault_fail_nth_alloc(nth);
        lake_status status = meta_append_commit(fixture->authority, &fixture->anna, &patient,
                                                &append, &result, &fixture->err);
        succeeded = base_fault_alloc_count() < nth;
        base_fault_fail_nth_alloc(0);
        OK(fixture, meta_append_commit(fixture->authority, &fixture->anna, &patient, &append,
                                       &result, &fixture->err));
        assert_true(status != LAKE_OK || result.replayed);
        rows += 3;
        assert_int_equal(row_count_of(fixture, &name, NULL), rows);
    }
    assert_true(succeeded);
    batch.release(&batch);
    schema.release(&schema);
}

/* The number that docs/folders/meta.md states. */
static void append_of_one_batch_takes_the_stated_number_of_syncs(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_append_result result;
    char id[BASE_UUID_TEXT_BYTES];
    create_table(fixture, &name, false);
    for (int i = 0; i < 3; i++) {
        uint64_t before = storage_fsync_count();
        new_operation_id(id);
        OK(fixture, append_rows(fixture, &fixture->anna, &name, id, i, 1, false, NULL, &result));
        print_message("syncs of append %d: %" PRIu64 "\n", i, storage_fsync_count() - before);
        if (i > 0)
            assert_true(storage_fsync_count() - before <= 6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(append_makes_the_next_version_with_its_rows),
        TEST(append_with_same_operation_id_returns_first_version),
        TEST(same_operation_id_with_other_content_already_exists),
        TEST(operation_of_a_dropped_incarnation_does_not_pass_for_done),
        TEST(append_to_another_incarnation_than_expected_fails),
        TEST(append_of_10000_rows_is_taken_and_of_10001_is_not),
        TEST(rows_of_another_schema_are_refused_with_the_place),
        TEST(unknown_table_and_missing_grant_are_told_apart),
        TEST(file_values_must_lie_in_the_tenants_own_stage),
        TEST(append_leaves_a_sidecar_that_counts_its_uris),
        TEST(crash_at_every_step_then_retry_adds_the_rows_exactly_once),
        TEST(operation_lost_in_a_crash_is_found_after_later_appends),
        TEST(case_L21_published_but_unrecorded_is_outcome_unknown_and_resolved_by_id),
        TEST(append_survives_every_failing_disk_operation),
        TEST(append_survives_every_failing_allocation),
        TEST(append_of_one_batch_takes_the_stated_number_of_syncs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
