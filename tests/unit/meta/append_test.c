/* Appends: idempotent by operation ID (NAT-6), whole or not at all, at every step (DESIGN 8). */
#include "meta_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

/* A table and an operation on it. */
struct appending {
    struct fixture *fixture;
    struct meta_name name;
    char id[BASE_UUID_TEXT_BYTES];
    struct meta_append_result result; /* of the last append */
};

static struct appending appending_to_a_new_table(struct fixture *fixture, bool files)
{
    struct appending to = {.fixture = fixture, .name = name_of("robots", "arm")};
    create_table(fixture, &to.name, files);
    new_operation_id(to.id);
    return to;
}

static lake_status append(struct appending *to, int64_t first_id, int64_t rows)
{
    return append_rows(to->fixture, &to->fixture->anna, &to->name, to->id, first_id, rows, false,
                       NULL, &to->result);
}

static lake_status append_with_video(struct appending *to, int64_t first_id, const char *uri)
{
    return append_rows(to->fixture, &to->fixture->anna, &to->name, to->id, first_id, 2, true, uri,
                       &to->result);
}

static void drop_table(struct appending *to)
{
    OK(to->fixture, meta_table_drop(to->fixture->authority, &to->fixture->anna, &patient, &to->name,
                                    false, &to->fixture->err));
}

static void assert_rows(struct appending *to, uint64_t expected)
{
    assert_int_equal(row_count_of(to->fixture, &to->name, NULL), expected);
}

/* One batch given as it is. */
static lake_status commit(struct appending *to, struct ArrowSchema *schema,
                          struct ArrowArray *batch, struct lake_str expected_incarnation)
{
    struct meta_append append = {.name = to->name,
                                 .operation_id = base_str_of(to->id),
                                 .expected_incarnation = expected_incarnation,
                                 .schema = schema,
                                 .batches = batch,
                                 .batch_count = 1,
                                 .row_count = (uint64_t)batch->length};
    return meta_append_commit(to->fixture->authority, &to->fixture->anna, &patient, &append,
                              &to->result, &to->fixture->err);
}

static void append_makes_the_next_version_with_its_rows(void **state)
{
    struct appending to = appending_to_a_new_table(*state, false);
    for (uint64_t i = 0; i < 3; i++) {
        new_operation_id(to.id);
        OK(to.fixture, append(&to, (int64_t)i * 10, 10));
        assert_int_equal(to.result.version, 2 + i);
        assert_int_equal(to.result.row_count, 10);
        assert_false(to.result.replayed);
    }
    uint64_t version;
    assert_int_equal(row_count_of(to.fixture, &to.name, &version), 30);
    assert_int_equal(version, 4);
}

static void append_with_same_operation_id_returns_first_version(void **state)
{
    struct appending to = appending_to_a_new_table(*state, false);
    struct appending other = to;
    new_operation_id(other.id);
    OK(to.fixture, append(&to, 0, 5));
    struct meta_append_result first = to.result;
    OK(to.fixture, append(&other, 5, 5));
    for (int opened_again = 0; opened_again < 2; opened_again++) {
        OK(to.fixture, append(&to, 0, 5));
        assert_true(to.result.replayed);
        assert_int_equal(to.result.version, first.version);
        assert_int_equal(to.result.row_count, 5);
        assert_string_equal(to.result.incarnation, first.incarnation);
        fixture_reopen(to.fixture);
    }
    assert_rows(&to, 10);
}

static void same_operation_id_with_other_content_already_exists(void **state)
{
    struct appending to = appending_to_a_new_table(*state, false);
    OK(to.fixture, append(&to, 0, 5));
    assert_int_equal(append(&to, 0, 6), LAKE_ALREADY_EXISTS);
    assert_contains(to.fixture->err.message, "different content");
    assert_rows(&to, 5);
}

static void operation_of_a_dropped_incarnation_does_not_pass_for_done(void **state)
{
    struct appending to = appending_to_a_new_table(*state, false);
    OK(to.fixture, append(&to, 0, 5));
    drop_table(&to);
    create_table(to.fixture, &to.name, false);
    assert_int_equal(append(&to, 0, 5), LAKE_FAILED_PRECONDITION);
    assert_rows(&to, 0);
}

static void append_to_another_incarnation_than_expected_fails(void **state)
{
    struct appending to = appending_to_a_new_table(*state, false);
    struct ArrowSchema schema;
    struct ArrowArray batch;
    make_schema(&schema, false);
    make_batch(&batch, &schema, 0, 1, NULL);
    assert_int_equal(commit(&to, &schema, &batch, LAKE_STR("6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b")),
                     LAKE_FAILED_PRECONDITION);
    assert_int_equal(commit(&to, &schema, &batch, LAKE_STR("nonsense")), LAKE_INVALID_ARGUMENT);
    batch.release(&batch);
    schema.release(&schema);
}

static void append_of_10000_rows_is_taken_and_of_10001_is_not(void **state)
{
    struct appending to = appending_to_a_new_table(*state, false);
    assert_int_equal(append(&to, 0, 10001), LAKE_INVALID_ARGUMENT);
    assert_int_equal(append(&to, 0, 0), LAKE_INVALID_ARGUMENT);
    OK(to.fixture, append(&to, 0, 10000));
    assert_rows(&to, 10000);
}

static void rows_of_another_schema_are_refused_with_the_place(void **state)
{
    struct appending to = appending_to_a_new_table(*state, true);
    struct ArrowSchema schema;
    struct ArrowArray batch;
    assert_int_equal(append(&to, 0, 1), LAKE_INVALID_ARGUMENT);
    assert_contains(to.fixture->err.message, "3 columns");

    make_schema(&schema, true);
    make_batch(&batch, &schema, 0, 1, NULL);
    assert_int_equal(ArrowSchemaSetName(schema.children[1], "remark"), NANOARROW_OK);
    assert_int_equal(commit(&to, &schema, &batch, LAKE_STR("")), LAKE_INVALID_ARGUMENT);
    assert_contains(to.fixture->err.message, "note");
    assert_contains(to.fixture->err.message, "remark");
    batch.release(&batch);
    schema.release(&schema);
}

static void unknown_table_and_missing_grant_are_told_apart(void **state)
{
    struct appending to = {.fixture = *state, .name = name_of("robots", "none")};
    new_operation_id(to.id);
    assert_int_equal(append(&to, 0, 1), LAKE_NOT_FOUND);
    to.name = name_of("secret", "none");
    assert_int_equal(append(&to, 0, 1), LAKE_PERMISSION_DENIED);
}

static void stage_uri(const struct fixture *fixture, const char *tail, char out[1024])
{
    (void)snprintf(out, 1024, "file://%s/objects/tenants/%s", fixture->authority->data_dir, tail);
}

static void file_values_must_lie_in_the_tenants_own_stage(void **state)
{
    struct appending to = appending_to_a_new_table(*state, true);
    char uri[1024];
    static const char *const bad[] = {"t2/a.mp4", "t1/../t2/a.mp4", "t1/",      "t1",
                                      "t1/a//b",  "t1/%2e%2e/b",    "t1/a?b",   "t1/a#b",
                                      "t1/./b",   "t1/a b",         "t11/a.mp4"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++) {
        stage_uri(to.fixture, bad[i], uri);
        assert_int_equal(append_with_video(&to, 0, uri), LAKE_INVALID_ARGUMENT);
        assert_contains(to.fixture->err.message, "\"video\", row 0");
    }
    assert_int_equal(append_with_video(&to, 0, "https://example.org/a.mp4"), LAKE_INVALID_ARGUMENT);
    stage_uri(to.fixture, "t1/ab/cd-1.mp4", uri);
    OK(to.fixture, append_with_video(&to, 0, uri));
    new_operation_id(to.id);
    OK(to.fixture, append_with_video(&to, 2, NULL));
    assert_rows(&to, 4);
}

static void append_leaves_a_sidecar_that_counts_its_uris(void **state)
{
    struct appending to = appending_to_a_new_table(*state, true);
    struct fixture *fixture = to.fixture;
    char uri[1024];
    stage_uri(fixture, "t1/a.mp4", uri);
    OK(fixture, append_with_video(&to, 0, uri));

    char key[META_KEY_BYTES];
    struct base_buffer bytes;
    struct base_arena *arena;
    struct meta_delta delta;
    base_buffer_init(&bytes, 1 << 20);
    OK(fixture, base_arena_new(1 << 20, &arena, &fixture->err));
    (void)snprintf(key, sizeof(key), "%s/00000000000000000002-%s.delta", to.result.incarnation,
                   to.id);
    OK(fixture,
       storage_read_all(fixture->authority->deltas, base_str_of(key), &bytes, &fixture->err));
    OK(fixture, meta_delta_decode(base_buffer_view(&bytes), arena, &delta, &fixture->err));
    assert_int_equal(delta.version, 2);
    assert_int_equal(delta.added_count, 1);
    assert_int_equal(delta.added[0].references, 2);
    assert_true(base_str_equal_c(delta.added[0].uri, uri));
    assert_int_equal(delta.removed_count, 0);
    base_arena_free(arena);
    base_buffer_fini(&bytes);
}

/* ---- dying in the middle ---- */

#define CRASH_ROWS 7

/* Under a new operation ID. */
static bool append_dies_at(struct appending *to, const char *point)
{
    meta_authority_free(to->fixture->authority);
    to->fixture->authority = NULL;
    new_operation_id(to->id);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char spec[128];
        if (fixture_open(to->fixture) != LAKE_OK)
            _exit(3);
        (void)snprintf(spec, sizeof(spec), "%s:1:kill", point);
        if (base_fault_configure(spec, NULL) != LAKE_OK)
            _exit(4);
        (void)append(to, 100, CRASH_ROWS);
        _exit(5);
    }
    int wait_status = 0;
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    OK(to->fixture, fixture_open(to->fixture));
    return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
}

static void crash_at_every_step_then_retry_adds_the_rows_exactly_once(void **state)
{
    struct appending to = appending_to_a_new_table(*state, false);
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
    uint64_t rows = 0;
    for (size_t i = 0; i < BASE_ARRAY_LEN(points); i++) {
        uint64_t before;
        uint64_t after;
        (void)row_count_of(to.fixture, &to.name, &before);
        assert_true(append_dies_at(&to, points[i].name));
        assert_int_equal(row_count_of(to.fixture, &to.name, &after),
                         rows + (points[i].published ? CRASH_ROWS : 0));
        assert_int_equal(after, before + points[i].published);

        OK(to.fixture, append(&to, 100, CRASH_ROWS));
        assert_int_equal(to.result.replayed, points[i].published);
        assert_int_equal(to.result.version, before + 1);
        assert_int_equal(to.result.row_count, CRASH_ROWS);
        rows += CRASH_ROWS;
        assert_rows(&to, rows);
    }
}

static void operation_lost_in_a_crash_is_found_after_later_appends(void **state)
{
    struct appending to = appending_to_a_new_table(*state, false);
    struct appending later = to;
    assert_true(append_dies_at(&to, "meta.append.before_record"));
    OK(to.fixture, append(&later, 0, 1));
    assert_int_equal(later.result.version, 3);
    OK(to.fixture, append(&to, 100, CRASH_ROWS));
    assert_true(to.result.replayed);
    assert_int_equal(to.result.version, 2);
    assert_int_equal(append(&to, 200, CRASH_ROWS), LAKE_ALREADY_EXISTS);
    assert_rows(&to, CRASH_ROWS + 1);
}

/* L21: published, but the answer cannot be given: the outcome is its own code, nothing is deleted,
 * and the same ID resolves it. */
static void case_L21_published_but_unrecorded_is_outcome_unknown_and_resolved_by_id(void **state)
{
    struct appending to = appending_to_a_new_table(*state, false);
    struct fixture *fixture = to.fixture;
    OK(fixture, base_fault_configure("meta.append.before_record:1:error", &fixture->err));
    assert_int_equal(append(&to, 0, 4), LAKE_OUTCOME_UNKNOWN);
    assert_contains(fixture->err.message, to.id);
    OK(fixture, base_fault_configure(NULL, &fixture->err));
    assert_rows(&to, 4);
    OK(fixture, append(&to, 0, 4));
    assert_true(to.result.replayed);
    assert_int_equal(to.result.version, 2);
    assert_rows(&to, 4);
}

/* Fails the Nth disk operation of an append, for every N. Whatever it answers, the same ID again
 * ends with the rows there exactly once. */
static void append_survives_every_failing_disk_operation(void **state)
{
    struct appending to = appending_to_a_new_table(*state, false);
    uint64_t rows = 0;
    bool succeeded = false;
    for (uint64_t nth = 1; nth < 1000 && !succeeded; nth++) {
        new_operation_id(to.id);
        base_fault_fail_nth_io(nth);
        lake_status status = append(&to, 0, 3);
        succeeded = status == LAKE_OK && base_fault_io_count() < nth;
        base_fault_fail_nth_io(0);
        fixture_reopen(to.fixture);
        if (status != LAKE_OUTCOME_UNKNOWN)
            assert_rows(&to, rows + (status == LAKE_OK ? 3 : 0));
        OK(to.fixture, append(&to, 0, 3));
        rows += 3;
        assert_rows(&to, rows);
    }
    assert_true(succeeded);
}

static void append_survives_every_failing_allocation(void **state)
{
    struct appending to = appending_to_a_new_table(*state, false);
    struct ArrowSchema schema;
    struct ArrowArray batch;
    make_schema(&schema, false);
    make_batch(&batch, &schema, 0, 3, NULL);
    uint64_t rows = 0;
    bool succeeded = false;
    for (uint64_t nth = 1; nth < 20000 && !succeeded; nth++) {
        /* A short table, so that the number of allocations does not grow with the versions. */
        if (nth % 10 == 0) {
            drop_table(&to);
            create_table(to.fixture, &to.name, false);
            rows = 0;
        }
        new_operation_id(to.id);
        base_fault_fail_nth_alloc(nth);
        lake_status status = commit(&to, &schema, &batch, LAKE_STR(""));
        succeeded = base_fault_alloc_count() < nth;
        base_fault_fail_nth_alloc(0);
        OK(to.fixture, commit(&to, &schema, &batch, LAKE_STR("")));
        assert_true(status != LAKE_OK || to.result.replayed);
        rows += 3;
        assert_rows(&to, rows);
    }
    assert_true(succeeded);
    batch.release(&batch);
    schema.release(&schema);
}

/* The number that docs/folders/meta.md states. */
static void append_of_one_batch_takes_the_stated_number_of_syncs(void **state)
{
    struct appending to = appending_to_a_new_table(*state, false);
    for (int i = 0; i < 3; i++) {
        uint64_t before = storage_fsync_count();
        new_operation_id(to.id);
        OK(to.fixture, append(&to, i, 1));
        if (i > 0) /* what the first one adds is made once */
            assert_in_range(storage_fsync_count() - before, 1, 6);
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
