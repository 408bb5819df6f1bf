/* An authority in a directory of its own, who uses it, and rows for it. */
#ifndef META_FIXTURE_H
#define META_FIXTURE_H

#include "meta_internal.h"
#include "temp_directory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <string.h>

#define RETENTION_S (7 * 24 * 60 * 60)

static const char *const robots_only[] = {"robots"};
static const struct rpc_principal anna = {.principal_id = "anna",
                                          .tenant_id = "t1",
                                          .role = RPC_ROLE_USER,
                                          .namespaces = robots_only,
                                          .namespace_count = 1};
static const struct rpc_principal root = {
    .principal_id = "root", .tenant_id = "ops", .role = RPC_ROLE_ADMIN, .all_namespaces = true};
static const struct rpc_principal query_service = {.principal_id = "query-1",
                                                   .tenant_id = "ops",
                                                   .role = RPC_ROLE_QUERY_SERVICE,
                                                   .all_namespaces = true};
static const struct rpc_principal peer = {.principal_id = "meta-2",
                                          .tenant_id = "ops",
                                          .role = RPC_ROLE_METADATA_PEER,
                                          .all_namespaces = true};

static const struct meta_wait patient = {.timeout_ms = 60000};

struct fixture {
    struct temp_directory directory;
    struct meta_authority *authority;
    struct meta_recovery recovery;
    struct meta_identity anna;
    struct meta_identity root;
    struct meta_identity query;
    struct lake_error err;
};

/* Shows the message of what was not expected to fail. */
static inline void expect_ok(lake_status status, const struct lake_error *err, const char *what,
                             const char *file, int line)
{
    if (status != LAKE_OK)
        print_error("%s: %s %s (%s)\n", what, lake_status_name(status),
                    err == NULL ? "" : err->message, err == NULL ? "" : err->cause);
    _assert_int_equal((uintmax_t)status, LAKE_OK, file, line);
}
#define OK(fixture, call) expect_ok((call), &(fixture)->err, #call, __FILE__, __LINE__)

#define assert_contains(text, part) assert_non_null(strstr((text), (part)))

static inline void identity_of(struct meta_identity *out, const struct rpc_principal *principal)
{
    struct lake_str none = {NULL, 0};
    assert_int_equal(meta_identity_init(out, principal, none, none, none, NULL), LAKE_OK);
}

static inline lake_status fixture_open(struct fixture *fixture)
{
    return meta_authority_open(&(struct meta_options){.data_dir = fixture->directory.path},
                               RETENTION_S, &fixture->authority, &fixture->recovery, &fixture->err);
}

static inline void fixture_reopen(struct fixture *fixture)
{
    meta_authority_free(fixture->authority);
    fixture->authority = NULL;
    OK(fixture, fixture_open(fixture));
}

static inline int fixture_set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.directory = temp_directory_make()};
    base_log_set_level(BASE_LOG_ERROR);
    OK(&fixture, fixture_open(&fixture));
    identity_of(&fixture.anna, &anna);
    identity_of(&fixture.root, &root);
    identity_of(&fixture.query, &query_service);
    *state = &fixture;
    return 0;
}

static inline int fixture_tear_down(void **state)
{
    struct fixture *fixture = *state;
    (void)base_fault_configure(NULL, NULL);
    base_fault_fail_nth_alloc(0);
    base_fault_fail_nth_io(0);
    meta_identity_fini(&fixture->anna);
    meta_identity_fini(&fixture->root);
    meta_identity_fini(&fixture->query);
    meta_authority_free(fixture->authority);
    temp_directory_remove(&fixture->directory);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

static inline struct meta_name name_of(const char *namespace_name, const char *table)
{
    struct meta_name name;
    assert_int_equal(meta_name_parse(base_str_of(namespace_name), base_str_of(table), &name, NULL),
                     LAKE_OK);
    return name;
}

/* ---- rows ---- */

/* id int64 not null, note utf8; with `files`, also video FILE. */
static inline void make_schema(struct ArrowSchema *out, bool files)
{
    ArrowSchemaInit(out);
    assert_int_equal(ArrowSchemaSetTypeStruct(out, files ? 3 : 2), NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetType(out->children[0], NANOARROW_TYPE_INT64), NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetName(out->children[0], "id"), NANOARROW_OK);
    out->children[0]->flags &= ~ARROW_FLAG_NULLABLE;
    assert_int_equal(ArrowSchemaSetType(out->children[1], NANOARROW_TYPE_STRING), NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetName(out->children[1], "note"), NANOARROW_OK);
    if (files) {
        struct ArrowSchema file;
        assert_int_equal(arrow_file_schema_init(&file, "video", true, NULL), LAKE_OK);
        out->children[2]->release(out->children[2]);
        ArrowSchemaMove(&file, out->children[2]);
    }
}

static inline void make_schema_bytes(struct base_buffer *out, bool files)
{
    struct ArrowSchema schema;
    make_schema(&schema, files);
    base_buffer_init(out, META_SCHEMA_MAX_BYTES);
    assert_int_equal(arrow_ipc_schema_to_bytes(&schema, out, NULL), LAKE_OK);
    schema.release(&schema);
}

/* Rows first_id, first_id + 1, …; video is `uri` in every row, or null when that is NULL. */
static inline void make_batch(struct ArrowArray *out, const struct ArrowSchema *schema,
                              int64_t first_id, int64_t rows, const char *uri)
{
    assert_int_equal(ArrowArrayInitFromSchema(out, schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(out), NANOARROW_OK);
    for (int64_t row = 0; row < rows; row++) {
        char note[32];
        (void)snprintf(note, sizeof(note), "row %" PRId64, first_id + row);
        assert_int_equal(ArrowArrayAppendInt(out->children[0], first_id + row), NANOARROW_OK);
        assert_int_equal(ArrowArrayAppendString(out->children[1], ArrowCharView(note)),
                         NANOARROW_OK);
        if (schema->n_children == 3) {
            char sha256[65];
            memset(sha256, 'a', 64);
            sha256[64] = '\0';
            struct arrow_file_value value = {base_str_of(uri), LAKE_STR("video/mp4"), 17,
                                             base_str_of(sha256)};
            assert_int_equal(
                arrow_file_value_append(out->children[2], uri == NULL ? NULL : &value, NULL),
                LAKE_OK);
        }
        assert_int_equal(ArrowArrayFinishElement(out), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(out, NULL), NANOARROW_OK);
}

static inline void create_table(struct fixture *fixture, const struct meta_name *name, bool files)
{
    struct base_buffer schema;
    struct meta_registration registration;
    make_schema_bytes(&schema, files);
    meta_registration_init(&registration);
    OK(fixture,
       meta_table_create(fixture->authority, &fixture->root, &patient, name,
                         base_buffer_view(&schema), false, "2.2", &registration, &fixture->err));
    meta_registration_fini(&registration);
    base_buffer_fini(&schema);
}

static inline void new_operation_id(char out[BASE_UUID_TEXT_BYTES])
{
    struct base_uuid id;
    assert_int_equal(base_uuid7_new(&id, NULL), LAKE_OK);
    base_uuid_format(&id, out);
}

/* Appends `rows` rows from `first_id` on; the digest is that of first_id and rows. */
static inline lake_status append_rows(struct fixture *fixture, const struct meta_identity *identity,
                                      const struct meta_name *name, const char *operation_id,
                                      int64_t first_id, int64_t rows, bool files, const char *uri,
                                      struct meta_append_result *result)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    make_schema(&schema, files);
    make_batch(&batch, &schema, first_id, rows, uri);
    struct meta_append append = {.name = *name,
                                 .operation_id = base_str_of(operation_id),
                                 .schema = &schema,
                                 .batches = &batch,
                                 .batch_count = 1,
                                 .row_count = (uint64_t)rows};
    int64_t content[2] = {first_id, rows};
    assert_int_equal(
        base_sha256_once((struct lake_bytes){(const uint8_t *)content, sizeof(content)},
                         append.content_sha256, NULL),
        LAKE_OK);
    lake_status status =
        meta_append_commit(fixture->authority, identity, &patient, &append, result, &fixture->err);
    batch.release(&batch);
    schema.release(&schema);
    return status;
}

/* Live rows of the newest version. */
static inline uint64_t row_count_of(struct fixture *fixture, const struct meta_name *name,
                                    uint64_t *version)
{
    struct storage_store *store;
    struct lance_dataset *dataset;
    OK(fixture, meta_table_store(fixture->authority, name, &store, &fixture->err));
    OK(fixture, lance_dataset_open(store, NULL, NULL, 0, &dataset, &fixture->err));
    uint64_t rows = lance_dataset_row_count(dataset);
    if (version != NULL)
        *version = lance_dataset_version(dataset);
    lance_dataset_unref(dataset);
    storage_store_unref(store);
    return rows;
}

#endif
