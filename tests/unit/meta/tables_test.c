/* Creating and dropping tables, and what a process that dies in the middle leaves. */
#include "meta_fixture.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool path_exists(const struct fixture *fixture, const char *relative)
{
    char path[1024];
    struct stat info;
    (void)snprintf(path, sizeof(path), "%s/%s", fixture->directory.path, relative);
    return lstat(path, &info) == 0;
}

static size_t entries_of(const struct fixture *fixture, const char *relative)
{
    char path[1024];
    (void)snprintf(path, sizeof(path), "%s/%s", fixture->directory.path, relative);
    char *paths[] = {path, NULL};
    size_t count = 0;
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *entry = fts_read(tree); entry != NULL; entry = fts_read(tree))
        count += entry->fts_info == FTS_F;
    (void)fts_close(tree);
    return count;
}

static lake_status try_create(struct fixture *fixture, const struct meta_identity *identity,
                              const struct meta_name *name, bool if_not_exists,
                              struct meta_registration *out)
{
    struct base_buffer schema;
    make_schema_bytes(&schema, true);
    lake_status status =
        meta_table_create(fixture->authority, identity, &patient, name, base_buffer_view(&schema),
                          if_not_exists, "2.2", out, &fixture->err);
    base_buffer_fini(&schema);
    return status;
}

static lake_status get(struct fixture *fixture, const struct meta_name *name,
                       char incarnation[BASE_UUID_TEXT_BYTES])
{
    struct meta_registration registration;
    meta_registration_init(&registration);
    lake_status status =
        meta_registration_get(fixture->authority, name, &registration, &fixture->err);
    if (status == LAKE_OK && incarnation != NULL)
        memcpy(incarnation, registration.incarnation, BASE_UUID_TEXT_BYTES);
    meta_registration_fini(&registration);
    return status;
}

static void created_table_is_registered_with_location_schema_and_incarnation(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("Robots", "Arm");
    struct meta_registration made;
    meta_registration_init(&made);
    OK(fixture, try_create(fixture, &fixture->anna, &name, false, &made));

    char location[1024];
    (void)snprintf(location, sizeof(location), "file://%s/tables/robots/arm.lance",
                   fixture->authority->data_dir);
    assert_true(base_str_equal_c(meta_str_of_pb(made.record->location), location));
    assert_true(base_str_equal_c(meta_str_of_pb(made.record->engine), "lance"));
    assert_true(base_str_equal_c(meta_str_of_pb(made.record->name->table), "Arm"));
    assert_int_equal(made.record->generation, 1);

    struct ArrowSchema expected;
    struct ArrowSchema stored;
    make_schema(&expected, true);
    OK(fixture, arrow_ipc_schema_from_bytes(
                    (struct lake_bytes){made.record->schema_ipc.data, made.record->schema_ipc.len},
                    &stored, &fixture->err));
    assert_int_equal(stored.n_children, expected.n_children);
    for (int64_t i = 0; i < expected.n_children; i++)
        assert_true(arrow_schema_equal(expected.children[i], stored.children[i], NULL, 0));
    stored.release(&stored);
    expected.release(&expected);

    /* The dataset says the same incarnation (DESIGN 7) and is version 1, without rows. */
    struct storage_store *store;
    struct lance_dataset *dataset;
    OK(fixture, meta_table_store(fixture->authority, &name, &store, &fixture->err));
    OK(fixture, lance_dataset_open(store, NULL, NULL, 0, &dataset, &fixture->err));
    assert_string_equal(lance_dataset_config(dataset, "lake.incarnation"), made.incarnation);
    assert_int_equal(lance_dataset_version(dataset), 1);
    assert_int_equal(lance_dataset_row_count(dataset), 0);
    lance_dataset_unref(dataset);
    storage_store_unref(store);
    meta_registration_fini(&made);
}

static void creating_twice_fails_unless_if_not_exists(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_name other_case = name_of("ROBOTS", "ARM");
    struct meta_registration first;
    struct meta_registration second;
    meta_registration_init(&first);
    meta_registration_init(&second);
    OK(fixture, try_create(fixture, &fixture->anna, &name, false, &first));
    assert_int_equal(try_create(fixture, &fixture->anna, &name, false, &second),
                     LAKE_ALREADY_EXISTS);
    assert_int_equal(try_create(fixture, &fixture->anna, &other_case, false, &second),
                     LAKE_ALREADY_EXISTS);
    OK(fixture, try_create(fixture, &fixture->anna, &name, true, &second));
    assert_string_equal(first.incarnation, second.incarnation);
    meta_registration_fini(&second);
    meta_registration_fini(&first);
}

static void namespace_keeps_the_spelling_of_its_first_table(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name first = name_of("Robots", "a");
    struct meta_name second = name_of("rOBOTS", "b");
    create_table(fixture, &first, false);
    struct meta_registration made;
    meta_registration_init(&made);
    OK(fixture, try_create(fixture, &fixture->anna, &second, false, &made));
    assert_string_equal(made.name.namespace_name, "Robots");
    meta_registration_fini(&made);
}

static void nothing_is_touched_without_a_grant(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("secret", "arm");
    struct meta_registration made;
    meta_registration_init(&made);
    assert_int_equal(try_create(fixture, &fixture->anna, &name, false, &made),
                     LAKE_PERMISSION_DENIED);
    assert_false(path_exists(fixture, "tables/secret"));
    create_table(fixture, &name, false);
    assert_int_equal(
        meta_table_drop(fixture->authority, &fixture->anna, &patient, &name, false, &fixture->err),
        LAKE_PERMISSION_DENIED);
    OK(fixture, get(fixture, &name, NULL));
    meta_registration_fini(&made);
}

static void schema_without_columns_or_with_equal_names_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct ArrowSchema schema;
    struct base_buffer bytes;
    struct meta_registration made;
    meta_registration_init(&made);
    base_buffer_init(&bytes, 1 << 20);
    ArrowSchemaInit(&schema);
    assert_int_equal(ArrowSchemaSetTypeStruct(&schema, 0), NANOARROW_OK);
    assert_int_equal(arrow_ipc_schema_to_bytes(&schema, &bytes, NULL), LAKE_OK);
    assert_int_equal(meta_table_create(fixture->authority, &fixture->anna, &patient, &name,
                                       base_buffer_view(&bytes), false, "2.2", &made,
                                       &fixture->err),
                     LAKE_INVALID_ARGUMENT);
    schema.release(&schema);

    make_schema(&schema, false);
    assert_int_equal(ArrowSchemaSetName(schema.children[1], "ID"), NANOARROW_OK);
    base_buffer_clear(&bytes);
    assert_int_equal(arrow_ipc_schema_to_bytes(&schema, &bytes, NULL), LAKE_OK);
    assert_int_equal(meta_table_create(fixture->authority, &fixture->anna, &patient, &name,
                                       base_buffer_view(&bytes), false, "2.2", &made,
                                       &fixture->err),
                     LAKE_INVALID_ARGUMENT);
    assert_int_equal(meta_table_create(fixture->authority, &fixture->anna, &patient, &name,
                                       base_bytes_of_str(LAKE_STR("not a schema")), false, "2.2",
                                       &made, &fixture->err),
                     LAKE_INVALID_ARGUMENT);
    schema.release(&schema);
    base_buffer_fini(&bytes);
    meta_registration_fini(&made);
    assert_false(path_exists(fixture, "tables/robots"));
}

static void dropped_table_is_gone_with_its_files_and_comes_back_as_another_incarnation(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    char first[BASE_UUID_TEXT_BYTES];
    char second[BASE_UUID_TEXT_BYTES];
    create_table(fixture, &name, false);
    OK(fixture, get(fixture, &name, first));
    OK(fixture,
       meta_table_drop(fixture->authority, &fixture->anna, &patient, &name, false, &fixture->err));
    assert_int_equal(get(fixture, &name, NULL), LAKE_NOT_FOUND);
    assert_false(path_exists(fixture, "tables/robots/arm.lance"));
    assert_int_equal(entries_of(fixture, "tables/.dropped"), 0);
    assert_int_equal(
        meta_table_drop(fixture->authority, &fixture->anna, &patient, &name, false, &fixture->err),
        LAKE_NOT_FOUND);
    OK(fixture,
       meta_table_drop(fixture->authority, &fixture->anna, &patient, &name, true, &fixture->err));
    create_table(fixture, &name, true);
    OK(fixture, get(fixture, &name, second));
    assert_string_not_equal(first, second);
}

static void create_and_drop_each_leave_their_sidecar(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    char incarnation[BASE_UUID_TEXT_BYTES];
    create_table(fixture, &name, false);
    OK(fixture, get(fixture, &name, incarnation));
    OK(fixture,
       meta_table_drop(fixture->authority, &fixture->anna, &patient, &name, false, &fixture->err));

    struct storage_list_page page;
    OK(fixture, storage_list(fixture->authority->deltas, base_str_of(incarnation), LAKE_STR(""), 10,
                             &page, &fixture->err));
    assert_int_equal(page.count, 2);
    for (size_t i = 0; i < page.count; i++) {
        struct base_buffer bytes;
        struct base_arena *arena;
        struct meta_delta delta;
        base_buffer_init(&bytes, 1 << 20);
        OK(fixture, base_arena_new(1 << 20, &arena, &fixture->err));
        OK(fixture, storage_read_all(fixture->authority->deltas, base_str_of(page.entries[i].key),
                                     &bytes, &fixture->err));
        OK(fixture, meta_delta_decode(base_buffer_view(&bytes), arena, &delta, &fixture->err));
        assert_int_equal(delta.version, i + 1);
        assert_int_equal(delta.flags, i == 0 ? 0 : META_DELTA_REMOVES_ALL);
        assert_int_equal(delta.added_count, 0);
        base_arena_free(arena);
        base_buffer_fini(&bytes);
    }
    storage_list_page_fini(&page);
}

static void directory_that_nobody_can_explain_is_not_touched(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_registration made;
    char path[1024];
    meta_registration_init(&made);
    (void)snprintf(path, sizeof(path), "%s/tables/robots", fixture->directory.path);
    assert_int_equal(mkdir(path, 0755), 0);
    (void)snprintf(path, sizeof(path), "%s/tables/robots/arm.lance", fixture->directory.path);
    assert_int_equal(mkdir(path, 0755), 0);
    (void)snprintf(path, sizeof(path), "%s/tables/robots/arm.lance/mine", fixture->directory.path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fclose(file);
    assert_int_equal(try_create(fixture, &fixture->anna, &name, false, &made),
                     LAKE_FAILED_PRECONDITION);
    assert_contains(fixture->err.message, "robots/arm.lance");
    assert_true(path_exists(fixture, "tables/robots/arm.lance/mine"));
    fixture_reopen(fixture);
    assert_true(path_exists(fixture, "tables/robots/arm.lance/mine"));
    meta_registration_fini(&made);
}

/* Runs `act` in a child that dies at the nth passing of `point`; true when it was killed. */
static bool dies_at(struct fixture *fixture, const char *point,
                    void (*act)(struct fixture *fixture))
{
    meta_authority_free(fixture->authority);
    fixture->authority = NULL;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char spec[128];
        if (fixture_open(fixture) != LAKE_OK)
            _exit(3);
        (void)snprintf(spec, sizeof(spec), "%s:1:kill", point);
        if (base_fault_configure(spec, NULL) != LAKE_OK)
            _exit(4);
        act(fixture);
        _exit(5);
    }
    int wait_status = 0;
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    OK(fixture, fixture_open(fixture));
    return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
}

static void create_arm(struct fixture *fixture)
{
    struct meta_name name;
    struct meta_registration made;
    meta_registration_init(&made);
    if (meta_name_parse(LAKE_STR("robots"), LAKE_STR("arm"), &name, NULL) == LAKE_OK)
        (void)try_create(fixture, &fixture->anna, &name, false, &made);
    meta_registration_fini(&made);
}

static void drop_arm(struct fixture *fixture)
{
    struct meta_name name;
    if (meta_name_parse(LAKE_STR("robots"), LAKE_STR("arm"), &name, NULL) == LAKE_OK)
        (void)meta_table_drop(fixture->authority, &fixture->anna, &patient, &name, false, NULL);
}

static void create_that_dies_before_registration_leaves_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    static const char *const points[] = {
        "meta.create.after_pending",      "meta.delta.after_write",
        "lance.commit.after_transaction", "lance.commit.before_manifest",
        "lance.commit.after_manifest",    "meta.create.after_dataset"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(points); i++) {
        assert_true(dies_at(fixture, points[i], create_arm));
        assert_int_equal(fixture->recovery.unfinished_creates, 1);
        assert_int_equal(get(fixture, &name, NULL), LAKE_NOT_FOUND);
        assert_false(path_exists(fixture, "tables/robots/arm.lance"));
        assert_int_equal(entries_of(fixture, "tables"), 0);
    }
    create_table(fixture, &name, false);
}

static void create_that_dies_after_registration_has_happened(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    assert_true(dies_at(fixture, "meta.create.after_registration", create_arm));
    assert_int_equal(fixture->recovery.unfinished_creates, 0);
    OK(fixture, get(fixture, &name, NULL));
    assert_int_equal(row_count_of(fixture, &name, NULL), 0);
}

static void drop_that_dies_before_its_commit_point_has_not_happened(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    create_table(fixture, &name, false);
    assert_true(dies_at(fixture, "meta.drop.before_registration", drop_arm));
    OK(fixture, get(fixture, &name, NULL));
    assert_int_equal(row_count_of(fixture, &name, NULL), 0);
}

static void drop_that_dies_after_its_commit_point_is_finished_at_the_next_start(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    static const char *const points[] = {"meta.drop.after_registration", "meta.pending.after_move"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(points); i++) {
        create_table(fixture, &name, false);
        assert_true(dies_at(fixture, points[i], drop_arm));
        assert_int_equal(fixture->recovery.unswept_drops, 1);
        assert_int_equal(get(fixture, &name, NULL), LAKE_NOT_FOUND);
        assert_int_equal(entries_of(fixture, "tables"), 0);
        fixture_reopen(fixture);
        assert_int_equal(fixture->recovery.unswept_drops, 0);
    }
}

static void failed_create_cleans_up_and_can_be_repeated(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_registration made;
    meta_registration_init(&made);
    static const char *const points[] = {"meta.create.after_pending:1:error",
                                         "meta.delta.after_write:1:error",
                                         "meta.create.after_dataset:1:error"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(points); i++) {
        OK(fixture, base_fault_configure(points[i], &fixture->err));
        assert_int_not_equal(try_create(fixture, &fixture->anna, &name, false, &made), LAKE_OK);
        OK(fixture, base_fault_configure(NULL, &fixture->err));
        assert_int_equal(entries_of(fixture, "tables"), 0);
    }
    OK(fixture, try_create(fixture, &fixture->anna, &name, false, &made));
    meta_registration_fini(&made);
}

/* Fails the Nth disk operation of a create, for every N: it fails whole, and once the disk is well
 * again a create succeeds. */
static void create_survives_every_failing_disk_operation(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct meta_registration made;
    meta_registration_init(&made);
    bool succeeded = false;
    for (uint64_t nth = 1; nth < 1000 && !succeeded; nth++) {
        base_fault_fail_nth_io(nth);
        lake_status status = try_create(fixture, &fixture->anna, &name, false, &made);
        succeeded = status == LAKE_OK && base_fault_io_count() < nth;
        base_fault_fail_nth_io(0);
        /* What could not be told apart is looked up again, as a client would. */
        fixture_reopen(fixture);
        lake_status found = get(fixture, &name, NULL);
        assert_true(found == LAKE_OK || (found == LAKE_NOT_FOUND && status != LAKE_OK));
        if (found == LAKE_OK && !succeeded) {
            assert_int_equal(row_count_of(fixture, &name, NULL), 0);
            OK(fixture, meta_table_drop(fixture->authority, &fixture->anna, &patient, &name, false,
                                        &fixture->err));
        }
    }
    assert_true(succeeded);
    OK(fixture, get(fixture, &name, NULL));
    meta_registration_fini(&made);
}

static void second_authority_on_the_directory_is_refused_by_name(void **state)
{
    struct fixture *fixture = *state;
    struct meta_recovery recovery;
    pid_t child = fork();
    if (child == 0) {
        struct meta_authority *second;
        struct lake_error err = {0};
        lake_status status =
            meta_authority_open(&(struct meta_options){.data_dir = fixture->directory.path},
                                RETENTION_S, &second, &recovery, &err);
        bool right = status == LAKE_FAILED_PRECONDITION &&
                     strstr(err.message, "in use by another process") != NULL &&
                     strstr(err.message, fixture->directory.path) != NULL;
        _exit(right ? 0 : 1);
    }
    int wait_status = -1;
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    assert_true(WIFEXITED(wait_status));
    assert_int_equal(WEXITSTATUS(wait_status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(created_table_is_registered_with_location_schema_and_incarnation),
        TEST(creating_twice_fails_unless_if_not_exists),
        TEST(namespace_keeps_the_spelling_of_its_first_table),
        TEST(nothing_is_touched_without_a_grant),
        TEST(schema_without_columns_or_with_equal_names_is_refused),
        TEST(dropped_table_is_gone_with_its_files_and_comes_back_as_another_incarnation),
        TEST(create_and_drop_each_leave_their_sidecar),
        TEST(directory_that_nobody_can_explain_is_not_touched),
        TEST(create_that_dies_before_registration_leaves_nothing),
        TEST(create_that_dies_after_registration_has_happened),
        TEST(drop_that_dies_before_its_commit_point_has_not_happened),
        TEST(drop_that_dies_after_its_commit_point_is_finished_at_the_next_start),
        TEST(failed_create_cleans_up_and_can_be_repeated),
        TEST(create_survives_every_failing_disk_operation),
        TEST(second_authority_on_the_directory_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
