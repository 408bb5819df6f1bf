/* Pages, resolving and snapshots (CAT-2), each only of what the identity may see. */
#include "meta_fixture.h"

/* Registers `count` tables t0000… in the namespace without datasets: listings do not look there. */
static void register_tables(struct fixture *fixture, const char *namespace_name, int count,
                            size_t schema_bytes)
{
    uint8_t *schema = calloc(1, schema_bytes);
    assert_non_null(schema);
    for (int i = 0; i < count; i++) {
        char table_name[32];
        char key[META_KEY_BYTES];
        (void)snprintf(table_name, sizeof(table_name), "t%04d", i);
        struct meta_name name = name_of(namespace_name, table_name);
        LakePb__TableName table = LAKE_PB__TABLE_NAME__INIT;
        table.has_namespace_name = true;
        table.namespace_name = meta_pb_of_str(name.namespace_name);
        table.has_table = true;
        table.table = meta_pb_of_str(name.table);
        LakePb__Registration record = LAKE_PB__REGISTRATION__INIT;
        record.name = &table;
        record.has_incarnation = true;
        record.incarnation = meta_pb_of_str("6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b");
        record.has_schema_ipc = true;
        record.schema_ipc = (ProtobufCBinaryData){schema_bytes, schema};
        struct base_buffer value;
        base_buffer_init(&value, KV_MAX_VALUE_BYTES);
        assert_int_equal(meta_pb_pack(&record.base, &value, NULL), LAKE_OK);
        struct lake_bytes registration = meta_key(key, "r", name.namespace_key, name.table_key);
        struct kv_condition absent = {KV_ABSENT, registration, {NULL, 0}};
        struct kv_write put = {KV_PUT, registration, base_buffer_view(&value)};
        OK(fixture, meta_directory_commit(fixture->authority, &absent, &put, 1, &fixture->err));
        base_buffer_fini(&value);
    }
    free(schema);
}

struct listed {
    char names[512][64]; /* "namespace.table" */
    size_t count;
    size_t pages;
};

static void add_names(struct listed *out, LakePb__Registration *const *tables, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(out->count < BASE_ARRAY_LEN(out->names));
        (void)snprintf(out->names[out->count++], 64, "%.*s.%.*s",
                       (int)tables[i]->name->namespace_name.len,
                       (const char *)tables[i]->name->namespace_name.data,
                       (int)tables[i]->name->table.len, (const char *)tables[i]->name->table.data);
    }
}

/* Follows the pages to the end. */
static void list_all(struct fixture *fixture, const struct meta_identity *identity,
                     const char *namespace_name, struct listed *out)
{
    LakePb__ListTablesReply *last = NULL;
    *out = (struct listed){.count = 0};
    for (;;) {
        LakePb__ListTablesRequest request = LAKE_PB__LIST_TABLES_REQUEST__INIT;
        LakePb__TableName after = LAKE_PB__TABLE_NAME__INIT;
        if (namespace_name != NULL) {
            request.has_namespace_name = true;
            request.namespace_name = meta_pb_of_str(namespace_name);
        }
        if (last != NULL) {
            after = *last->tables[last->n_tables - 1]->name;
            request.start_after = &after;
        }
        struct base_buffer reply;
        base_buffer_init(&reply, META_REPLY_MAX_BYTES);
        OK(fixture,
           meta_list_tables(fixture->authority, identity, &request, &reply, &fixture->err));
        if (last != NULL)
            lake_pb__list_tables_reply__free_unpacked(last, NULL);
        last = lake_pb__list_tables_reply__unpack(NULL, reply.size, reply.data);
        base_buffer_fini(&reply);
        assert_non_null(last);
        assert_true(last->n_tables <= META_PAGE_ENTRIES);
        add_names(out, last->tables, last->n_tables);
        out->pages++;
        if (!last->more)
            break;
        assert_true(last->n_tables > 0);
    }
    lake_pb__list_tables_reply__free_unpacked(last, NULL);
}

static void list_pages_give_every_table_once(void **state)
{
    struct fixture *fixture = *state;
    struct listed *listed = malloc(sizeof(*listed));
    register_tables(fixture, "robots", 130, 10);
    list_all(fixture, &fixture->root, NULL, listed);
    assert_int_equal(listed->count, 130);
    assert_int_equal(listed->pages, 3);
    for (size_t i = 0; i < listed->count; i++) {
        char expected[64];
        (void)snprintf(expected, sizeof(expected), "robots.t%04zu", i);
        assert_string_equal(listed->names[i], expected);
    }
    free(listed);
}

static void page_of_exactly_64_has_no_more_and_of_65_has(void **state)
{
    struct fixture *fixture = *state;
    struct listed *listed = malloc(sizeof(*listed));
    register_tables(fixture, "a", 64, 10);
    list_all(fixture, &fixture->root, "a", listed);
    assert_int_equal(listed->count, 64);
    assert_int_equal(listed->pages, 1);
    register_tables(fixture, "b", 65, 10);
    list_all(fixture, &fixture->root, "B", listed);
    assert_int_equal(listed->count, 65);
    assert_int_equal(listed->pages, 2);
    free(listed);
}

static void large_schemas_shorten_a_page(void **state)
{
    struct fixture *fixture = *state;
    struct listed *listed = malloc(sizeof(*listed));
    register_tables(fixture, "a", 9, 900 * 1024);
    list_all(fixture, &fixture->root, NULL, listed);
    assert_int_equal(listed->count, 9);
    assert_int_equal(listed->pages, 3); /* three of them fit into 3 MiB */
    free(listed);
}

/* "a-b/…" sorts before "a/…" in the registry, "a_b/…" behind it. */
static void list_shows_only_granted_namespaces_in_one_order(void **state)
{
    struct fixture *fixture = *state;
    static const char *const grants[] = {"a_b", "A", "a-b", "missing", "a"};
    static const struct rpc_principal ben = {.principal_id = "ben",
                                             .tenant_id = "t",
                                             .role = RPC_ROLE_USER,
                                             .namespaces = grants,
                                             .namespace_count = 5};
    struct meta_identity identity;
    struct listed *listed = malloc(sizeof(*listed));
    identity_of(&identity, &ben);
    register_tables(fixture, "a", 60, 10);
    register_tables(fixture, "a-b", 60, 10);
    register_tables(fixture, "a_b", 60, 10);
    register_tables(fixture, "ab", 3, 10);
    list_all(fixture, &identity, NULL, listed);
    assert_int_equal(listed->count, 180);
    assert_string_equal(listed->names[0], "a-b.t0000");
    assert_string_equal(listed->names[60], "a.t0000");
    assert_string_equal(listed->names[120], "a_b.t0000");
    assert_string_equal(listed->names[179], "a_b.t0059");

    LakePb__ListTablesRequest request = LAKE_PB__LIST_TABLES_REQUEST__INIT;
    struct base_buffer reply;
    base_buffer_init(&reply, 1 << 20);
    request.has_namespace_name = true;
    request.namespace_name = meta_pb_of_str("ab");
    assert_int_equal(
        meta_list_tables(fixture->authority, &identity, &request, &reply, &fixture->err),
        LAKE_PERMISSION_DENIED);
    base_buffer_fini(&reply);
    meta_identity_fini(&identity);
    free(listed);
}

/* ---- resolving ---- */

static lake_status resolve(struct fixture *fixture, const struct meta_identity *identity,
                           const char *const (*names)[2], size_t count,
                           LakePb__ResolveTablesReply **out)
{
    LakePb__TableName tables[300];
    LakePb__TableName *pointers[300];
    for (size_t i = 0; i < count; i++) {
        lake_pb__table_name__init(&tables[i]);
        tables[i].has_namespace_name = true;
        tables[i].namespace_name = meta_pb_of_str(names[i][0]);
        tables[i].has_table = true;
        tables[i].table = meta_pb_of_str(names[i][1]);
        pointers[i] = &tables[i];
    }
    LakePb__ResolveTablesRequest request = LAKE_PB__RESOLVE_TABLES_REQUEST__INIT;
    request.n_names = count;
    request.names = pointers;
    struct base_buffer reply;
    base_buffer_init(&reply, META_REPLY_MAX_BYTES);
    lake_status status =
        meta_resolve_tables(fixture->authority, identity, &request, &reply, &fixture->err);
    if (status == LAKE_OK) {
        *out = lake_pb__resolve_tables_reply__unpack(NULL, reply.size, reply.data);
        assert_non_null(*out);
    }
    base_buffer_fini(&reply);
    return status;
}

static void resolving_answers_in_order_with_the_newest_version(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name arm = name_of("robots", "Arm");
    struct meta_name leg = name_of("robots", "leg");
    struct meta_append_result result;
    char id[BASE_UUID_TEXT_BYTES];
    create_table(fixture, &arm, false);
    create_table(fixture, &leg, true);
    new_operation_id(id);
    OK(fixture, append_rows(fixture, &fixture->root, &arm, id, 0, 3, false, NULL, &result));

    static const char *const names[][2] = {{"robots", "leg"},
                                           {"robots", "none"},
                                           {"ROBOTS", "arm"},
                                           {"no such", "name"},
                                           {"robots", "leg"}};
    LakePb__ResolveTablesReply *reply;
    OK(fixture, resolve(fixture, &fixture->root, names, 5, &reply));
    assert_int_equal(reply->n_tables, 5);
    assert_int_equal(reply->tables[0]->version, 1);
    assert_null(reply->tables[1]->registration);
    assert_int_equal(reply->tables[2]->version, 2);
    assert_true(
        base_str_equal_c(meta_str_of_pb(reply->tables[2]->registration->name->table), "Arm"));
    assert_true(base_str_equal_c(meta_str_of_pb(reply->tables[2]->registration->incarnation),
                                 result.incarnation));
    assert_null(reply->tables[3]->registration);
    assert_int_equal(reply->tables[4]->version, 1);
    lake_pb__resolve_tables_reply__free_unpacked(reply, NULL);
}

static void resolving_one_table_without_a_grant_denies_all(void **state)
{
    struct fixture *fixture = *state;
    static const char *const names[][2] = {{"robots", "leg"}, {"secret", "x"}};
    LakePb__ResolveTablesReply *reply;
    assert_int_equal(resolve(fixture, &fixture->anna, names, 2, &reply), LAKE_PERMISSION_DENIED);
    assert_contains(fixture->err.message, "\"secret\"");
}

static void resolving_256_tables_is_taken_and_257_is_not(void **state)
{
    struct fixture *fixture = *state;
    static const char *names[257][2];
    for (size_t i = 0; i < 257; i++) {
        names[i][0] = "robots";
        names[i][1] = "none";
    }
    LakePb__ResolveTablesReply *reply;
    OK(fixture, resolve(fixture, &fixture->root, (const char *const(*)[2])names, 256, &reply));
    assert_int_equal(reply->n_tables, 256);
    lake_pb__resolve_tables_reply__free_unpacked(reply, NULL);
    assert_int_equal(resolve(fixture, &fixture->root, (const char *const(*)[2])names, 257, &reply),
                     LAKE_INVALID_ARGUMENT);
}

static void registered_table_without_its_dataset_is_data_loss(void **state)
{
    struct fixture *fixture = *state;
    static const char *const names[][2] = {{"robots", "t0000"}};
    LakePb__ResolveTablesReply *reply;
    register_tables(fixture, "robots", 1, 10);
    assert_int_equal(resolve(fixture, &fixture->root, names, 1, &reply), LAKE_DATA_LOSS);
}

/* ---- snapshots ---- */

static lake_status snapshot(struct fixture *fixture, const struct meta_identity *identity,
                            const char *authority, uint64_t generation, size_t max_bytes,
                            int64_t timeout_ms, LakePb__CatalogSnapshotReply **out)
{
    LakePb__CatalogSnapshotRequest request = LAKE_PB__CATALOG_SNAPSHOT_REQUEST__INIT;
    if (authority != NULL) {
        request.has_known_authority = true;
        request.known_authority = meta_pb_of_str(authority);
        request.has_known_generation = true;
        request.known_generation = generation;
    }
    struct base_buffer reply;
    struct meta_wait wait = {.timeout_ms = timeout_ms};
    base_buffer_init(&reply, META_REPLY_MAX_BYTES);
    lake_status status = meta_catalog_snapshot(fixture->authority, identity, &wait, &request,
                                               max_bytes, &reply, &fixture->err);
    if (status == LAKE_OK) {
        *out = lake_pb__catalog_snapshot_reply__unpack(NULL, reply.size, reply.data);
        assert_non_null(*out);
    }
    base_buffer_fini(&reply);
    return status;
}

static void snapshot_is_whole_then_not_modified_until_something_changes(void **state)
{
    struct fixture *fixture = *state;
    LakePb__CatalogSnapshotReply *reply;
    register_tables(fixture, "robots", 130, 10);
    OK(fixture, snapshot(fixture, &fixture->query, NULL, 0, META_REPLY_MAX_BYTES, 1000, &reply));
    assert_false(reply->not_modified);
    assert_int_equal(reply->n_tables, 130);
    assert_int_equal(reply->generation, 130);
    char authority[64];
    (void)snprintf(authority, sizeof(authority), "%.*s", (int)reply->authority.len,
                   (const char *)reply->authority.data);
    assert_string_equal(authority, fixture->authority->authority_id);
    lake_pb__catalog_snapshot_reply__free_unpacked(reply, NULL);

    OK(fixture,
       snapshot(fixture, &fixture->query, authority, 130, META_REPLY_MAX_BYTES, 1000, &reply));
    assert_true(reply->not_modified);
    assert_int_equal(reply->n_tables, 0);
    lake_pb__catalog_snapshot_reply__free_unpacked(reply, NULL);

    /* Another authority's generation says nothing about this one. */
    OK(fixture, snapshot(fixture, &fixture->query, "6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b", 130,
                         META_REPLY_MAX_BYTES, 1000, &reply));
    assert_false(reply->not_modified);
    lake_pb__catalog_snapshot_reply__free_unpacked(reply, NULL);

    register_tables(fixture, "more", 1, 10);
    OK(fixture,
       snapshot(fixture, &fixture->query, authority, 130, META_REPLY_MAX_BYTES, 1000, &reply));
    assert_false(reply->not_modified);
    assert_int_equal(reply->n_tables, 131);
    lake_pb__catalog_snapshot_reply__free_unpacked(reply, NULL);
}

static void authority_and_generation_survive_reopening(void **state)
{
    struct fixture *fixture = *state;
    char authority[BASE_UUID_TEXT_BYTES];
    LakePb__CatalogSnapshotReply *reply;
    register_tables(fixture, "robots", 3, 10);
    memcpy(authority, fixture->authority->authority_id, sizeof(authority));
    fixture_reopen(fixture);
    assert_string_equal(authority, fixture->authority->authority_id);
    OK(fixture,
       snapshot(fixture, &fixture->query, authority, 3, META_REPLY_MAX_BYTES, 1000, &reply));
    assert_true(reply->not_modified);
    lake_pb__catalog_snapshot_reply__free_unpacked(reply, NULL);
}

static void snapshot_that_does_not_fit_is_resource_exhausted_and_one_that_just_fits_is_not(
    void **state)
{
    struct fixture *fixture = *state;
    LakePb__CatalogSnapshotReply *reply;
    register_tables(fixture, "robots", 20, 1000);
    OK(fixture, snapshot(fixture, &fixture->query, NULL, 0, META_REPLY_MAX_BYTES, 1000, &reply));
    size_t size = lake_pb__catalog_snapshot_reply__get_packed_size(reply);
    lake_pb__catalog_snapshot_reply__free_unpacked(reply, NULL);
    /* The account takes the longest head a message can have. */
    OK(fixture, snapshot(fixture, &fixture->query, NULL, 0, size + 11, 1000, &reply));
    lake_pb__catalog_snapshot_reply__free_unpacked(reply, NULL);
    assert_int_equal(snapshot(fixture, &fixture->query, NULL, 0, size - 1, 1000, &reply),
                     LAKE_RESOURCE_EXHAUSTED);
}

static void second_full_snapshot_waits_and_then_is_refused(void **state)
{
    struct fixture *fixture = *state;
    LakePb__CatalogSnapshotReply *reply;
    struct meta_claim first;
    register_tables(fixture, "robots", 1, 10);
    OK(fixture,
       meta_gate_enter(&fixture->authority->gates, &first, "snapshot", &patient, &fixture->err));
    assert_int_equal(snapshot(fixture, &fixture->query, NULL, 0, META_REPLY_MAX_BYTES, 100, &reply),
                     LAKE_RESOURCE_EXHAUSTED);
    assert_contains(fixture->err.message, "another full snapshot");
    /* What is not modified needs no scan and is answered all the same. */
    OK(fixture, snapshot(fixture, &fixture->query, fixture->authority->authority_id, 1,
                         META_REPLY_MAX_BYTES, 100, &reply));
    lake_pb__catalog_snapshot_reply__free_unpacked(reply, NULL);
    meta_gate_leave(&fixture->authority->gates, &first);
    OK(fixture, snapshot(fixture, &fixture->query, NULL, 0, META_REPLY_MAX_BYTES, 100, &reply));
    lake_pb__catalog_snapshot_reply__free_unpacked(reply, NULL);
}

struct changer {
    struct fixture *fixture;
    _Atomic bool stop;
    _Atomic int made;
};

static void *keep_registering(void *context)
{
    struct changer *changer = context;
    while (!changer->stop) {
        char namespace_name[32];
        (void)snprintf(namespace_name, sizeof(namespace_name), "n%05d", changer->made++);
        struct fixture own = *changer->fixture;
        register_tables(&own, namespace_name, 1, 10);
        base_sleep_ms(5);
    }
    return NULL;
}

/* With one table a generation, a torn snapshot would have another count than its generation. */
static void snapshot_during_changes_is_fenced_by_its_generation(void **state)
{
    struct fixture *fixture = *state;
    struct changer changer = {.fixture = fixture};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, keep_registering, &changer), 0);
    while (changer.made < 30) {
        LakePb__CatalogSnapshotReply *reply;
        struct fixture own = *fixture;
        lake_status status =
            snapshot(&own, &own.query, NULL, 0, META_REPLY_MAX_BYTES, 1000, &reply);
        if (status == LAKE_UNAVAILABLE)
            continue;
        assert_int_equal(status, LAKE_OK);
        assert_int_equal(reply->n_tables, reply->generation);
        lake_pb__catalog_snapshot_reply__free_unpacked(reply, NULL);
    }
    changer.stop = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void snapshot_is_for_query_servers_and_admins(void **state)
{
    struct fixture *fixture = *state;
    LakePb__CatalogSnapshotReply *reply;
    assert_int_equal(snapshot(fixture, &fixture->anna, NULL, 0, META_REPLY_MAX_BYTES, 1000, &reply),
                     LAKE_PERMISSION_DENIED);
    OK(fixture, snapshot(fixture, &fixture->root, NULL, 0, META_REPLY_MAX_BYTES, 1000, &reply));
    lake_pb__catalog_snapshot_reply__free_unpacked(reply, NULL);
}

/* ---- the stage ---- */

static void stage_is_the_root_for_query_servers_and_the_child_for_tenants(void **state)
{
    struct fixture *fixture = *state;
    struct meta_identity delegated;
    OK(fixture, meta_identity_init(&delegated, &query_service, LAKE_STR("anna"), LAKE_STR("t7"),
                                   LAKE_STR("*"), &fixture->err));
    const struct {
        const struct meta_identity *identity;
        const char *tail;
    } cases[] = {{&fixture->query, ""},
                 {&fixture->root, ""},
                 {&fixture->anna, "/tenants/t1"},
                 {&delegated, "/tenants/t7"}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(cases); i++) {
        struct base_buffer bytes;
        char expected[1024];
        base_buffer_init(&bytes, 4096);
        OK(fixture,
           meta_stage_describe(fixture->authority, cases[i].identity, &bytes, &fixture->err));
        LakePb__StageDescriptor *stage =
            lake_pb__stage_descriptor__unpack(NULL, bytes.size, bytes.data);
        assert_non_null(stage);
        (void)snprintf(expected, sizeof(expected), "file://%s/objects%s",
                       fixture->authority->data_dir, cases[i].tail);
        assert_true(base_str_equal_c(meta_str_of_pb(stage->root_uri), expected));
        assert_true(base_str_equal_c(meta_str_of_pb(stage->kind), "local"));
        assert_int_equal(stage->format_version, 1);
        lake_pb__stage_descriptor__free_unpacked(stage, NULL);
        base_buffer_fini(&bytes);
    }
    meta_identity_fini(&delegated);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(list_pages_give_every_table_once),
        TEST(page_of_exactly_64_has_no_more_and_of_65_has),
        TEST(large_schemas_shorten_a_page),
        TEST(list_shows_only_granted_namespaces_in_one_order),
        TEST(resolving_answers_in_order_with_the_newest_version),
        TEST(resolving_one_table_without_a_grant_denies_all),
        TEST(resolving_256_tables_is_taken_and_257_is_not),
        TEST(registered_table_without_its_dataset_is_data_loss),
        TEST(snapshot_is_whole_then_not_modified_until_something_changes),
        TEST(authority_and_generation_survive_reopening),
        TEST(snapshot_that_does_not_fit_is_resource_exhausted_and_one_that_just_fits_is_not),
        TEST(second_full_snapshot_waits_and_then_is_refused),
        TEST(snapshot_during_changes_is_fenced_by_its_generation),
        TEST(snapshot_is_for_query_servers_and_admins),
        TEST(stage_is_the_root_for_query_servers_and_the_child_for_tenants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
