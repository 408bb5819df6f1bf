/* Metasrv and Query in this process on ports of their own, and a client of them. With
 * LAKE_S3_BUCKET and AWS_ENDPOINT_URL_S3 tables and objects are there, as
 * tests/integration/test_client_on_s3.py has it; else in a directory. */
#ifndef CLIENT_FIXTURE_H
#define CLIENT_FIXTURE_H

#include "client_internal.h"
#include "temp_directory.h"

#include <meta/meta.h>
#include <query/query.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    struct temp_directory directory;
    char prefix[64]; /* its own in the bucket, where there is one */
    struct rpc_authenticator *authenticator;
    struct meta_service *meta;
    struct query_server *query;
    char address[64]; /* of Query */
    lake_client *client;
    struct lake_error err;
};

/* What differs from a server on loopback that takes everybody; all may be NULL or 0. */
struct fixture_options {
    const char *meta_address; /* by which Query finds Metasrv */
    const char *principals_path;
    const char *meta_token_path;
    const char *tls_cert_path;
    const char *tls_key_path;
    uint64_t max_concurrent;
    uint64_t execution_timeout_ms;
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

static inline void expect_fails(lake_status status, lake_status expected,
                                const struct lake_error *err, const char *text, const char *what,
                                const char *file, int line)
{
    if (status != expected || strstr(err->message, text) == NULL)
        print_error("%s: %s \"%s\" (%s), expected %s with \"%s\"\n", what, lake_status_name(status),
                    err->message, err->cause, lake_status_name(expected), text);
    _assert_int_equal((uintmax_t)status, (uintmax_t)expected, file, line);
    _assert_true(strstr(err->message, text) != NULL, text, file, line);
}
/* The call fails so, with this in its message. */
#define FAILS(fixture, expected, text, call) \
    expect_fails((call), (expected), &(fixture)->err, (text), #call, __FILE__, __LINE__)

static inline void fixture_start_meta(struct fixture *fixture)
{
    struct meta_options options;
    OK(fixture, meta_options_from_environment(&options, &fixture->err));
    options.data_dir = fixture->directory.path;
    options.address = "127.0.0.1:0";
    options.authenticator = fixture->authenticator;
    OK(fixture, meta_service_open(&options, &fixture->meta, &fixture->err));
    OK(fixture, meta_service_start(fixture->meta, &fixture->err));
}

static inline void fixture_start_query(struct fixture *fixture, const struct fixture_options *given)
{
    char meta_address[64];
    struct query_options options;
    snprintf(meta_address, sizeof(meta_address), "127.0.0.1:%d", meta_service_port(fixture->meta));
    OK(fixture, query_options_from_environment(&options, &fixture->err));
    options.address = "127.0.0.1:0";
    options.meta_address = given->meta_address != NULL ? given->meta_address : meta_address;
    options.authenticator = fixture->authenticator;
    options.meta_token_path = given->meta_token_path;
    options.tls_cert_path = given->tls_cert_path;
    options.tls_key_path = given->tls_key_path;
    if (given->max_concurrent != 0)
        options.max_concurrent = options.max_concurrent_per_tenant = given->max_concurrent;
    if (given->execution_timeout_ms != 0)
        options.execution_timeout_ms = given->execution_timeout_ms;
    OK(fixture, query_server_open(&options, &fixture->query, &fixture->err));
    OK(fixture, query_server_start(fixture->query, &fixture->err));
    snprintf(fixture->address, sizeof(fixture->address), "127.0.0.1:%d",
             query_server_port(fixture->query));
}

static inline void fixture_choose_prefix(struct fixture *fixture)
{
    struct base_uuid uuid;
    char text[BASE_UUID_TEXT_BYTES];
    char prefix[96];
    OK(fixture, base_uuid7_new(&uuid, &fixture->err));
    base_uuid_format(&uuid, text);
    snprintf(fixture->prefix, sizeof(fixture->prefix), "unit/%s", text);
    snprintf(prefix, sizeof(prefix), "%s/tables", fixture->prefix);
    assert_int_equal(setenv("LAKE_TABLE_PREFIX", prefix, 1), 0);
    snprintf(prefix, sizeof(prefix), "%s/objects", fixture->prefix);
    assert_int_equal(setenv("LAKE_MANAGED_OBJECT_PREFIX", prefix, 1), 0);
}

/* Metasrv only. */
static inline struct fixture *fixture_new_meta(const struct fixture_options *options)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    base_log_set_level(BASE_LOG_ERROR);
    fixture->directory = temp_directory_make();
    if (getenv("LAKE_S3_BUCKET") != NULL)
        fixture_choose_prefix(fixture);
    OK(fixture, rpc_authenticator_new(options->principals_path, NULL, &fixture->authenticator,
                                      &fixture->err));
    fixture_start_meta(fixture);
    return fixture;
}

/* Servers only. */
static inline struct fixture *fixture_serve(const struct fixture_options *options)
{
    struct fixture *fixture = fixture_new_meta(options);
    fixture_start_query(fixture, options);
    return fixture;
}

static inline struct fixture *fixture_new(const struct fixture_options *options)
{
    struct fixture *fixture = fixture_serve(options);
    OK(fixture, lake_connect(fixture->address, NULL, &fixture->client, &fixture->err));
    return fixture;
}

static inline void fixture_free(struct fixture *fixture)
{
    lake_client_unref(fixture->client);
    query_server_free(fixture->query);
    meta_service_free(fixture->meta);
    rpc_authenticator_free(fixture->authenticator);
    temp_directory_remove(&fixture->directory);
    free(fixture);
}

static inline int fixture_setup(void **state)
{
    const struct fixture_options options = {0};
    *state = fixture_new(&options);
    return 0;
}

static inline int fixture_teardown(void **state)
{
    fixture_free(*state);
    return 0;
}

/* ---- tables ---- */

/* Creates a table of "name:type" columns, separated by blanks and ended by NULL. */
static inline void create_table(struct fixture *fixture, const char *table,
                                const char *const *columns, size_t count)
{
    struct ArrowSchema schema;
    OK(fixture, lake_schema_parse(columns, count, &schema, &fixture->err));
    OK(fixture, lake_create_table(fixture->client, table, &schema, &fixture->err));
    schema.release(&schema);
}
#define CREATE(fixture, table, ...)                                      \
    create_table((fixture), (table), (const char *const[]){__VA_ARGS__}, \
                 sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* The first column of the first row of a statement, a whole number. */
static inline int64_t query_number(struct fixture *fixture, const char *sql)
{
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray batch = {0};
    struct ArrowArrayView view;
    int64_t number = INT64_MIN;
    OK(fixture, lake_query(fixture->client, sql, &stream, &fixture->err));
    assert_int_equal(stream.get_schema(&stream, &schema), 0);
    assert_int_equal(ArrowArrayViewInitFromSchema(&view, &schema, NULL), 0);
    while (number == INT64_MIN) {
        assert_int_equal(stream.get_next(&stream, &batch), 0);
        assert_non_null(batch.release);
        if (batch.length > 0) {
            assert_int_equal(ArrowArrayViewSetArray(&view, &batch, NULL), 0);
            number = ArrowArrayViewGetIntUnsafe(view.children[0], 0);
        }
        batch.release(&batch);
    }
    ArrowArrayViewReset(&view);
    schema.release(&schema);
    stream.release(&stream);
    return number;
}

static inline int64_t count_rows(struct fixture *fixture, const char *table)
{
    char sql[256];
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
    return query_number(fixture, sql);
}

/* ---- values ---- */

static inline struct lake_value whole(int64_t number)
{
    return (struct lake_value){.kind = LAKE_VALUE_INT64, .as.int64 = number};
}

static inline struct lake_value text(const char *string)
{
    struct lake_value value = {.kind = LAKE_VALUE_TEXT};
    value.as.text.data = string;
    value.as.text.size = strlen(string);
    return value;
}

/* Bytes from memory as a source. */
struct memory_source {
    const uint8_t *data;
    size_t size;
    size_t used;
    size_t piece; /* at most so many at a time; 0: all */
    int fail_at_end;
};

static inline int memory_read(void *context, void *buffer, size_t size, size_t *got)
{
    struct memory_source *source = context;
    size_t take = BASE_MIN(size, source->size - source->used);
    if (source->piece > 0)
        take = BASE_MIN(take, source->piece);
    if (take == 0 && source->fail_at_end != 0)
        return source->fail_at_end;
    if (take > 0)
        memcpy(buffer, source->data + source->used, take);
    source->used += take;
    *got = take;
    return 0;
}

/* ---- batches ---- */

/* A batch of one column "id:int64" with these numbers. */
static inline void id_batch(struct ArrowSchema *schema, struct ArrowArray *batch, int64_t from,
                            int64_t count)
{
    static const char *const columns[] = {"id:int64"};
    assert_int_equal(lake_schema_parse(columns, 1, schema, NULL), LAKE_OK);
    assert_int_equal(ArrowArrayInitFromSchema(batch, schema, NULL), 0);
    assert_int_equal(ArrowArrayStartAppending(batch), 0);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(ArrowArrayAppendInt(batch->children[0], from + i), 0);
        assert_int_equal(ArrowArrayFinishElement(batch), 0);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(batch, NULL), 0);
}

/* ---- the stage ---- */

static inline int count_objects_in_s3(const struct fixture *fixture)
{
    struct storage_store *store = NULL;
    struct storage_list_page page;
    struct lake_error err = {0};
    char uri[512];
    snprintf(uri, sizeof(uri), "s3://%s/%s/objects", getenv("LAKE_S3_BUCKET"), fixture->prefix);
    expect_ok(storage_open_uri(base_str_of(uri), false, NULL, &store, &err), &err, uri, __FILE__,
              __LINE__);
    expect_ok(storage_list(store, LAKE_STR(""), LAKE_STR(""), 1000, &page, &err), &err, uri,
              __FILE__, __LINE__);
    assert_false(page.more);
    int count = (int)page.count;
    storage_list_page_fini(&page);
    storage_store_unref(store);
    return count;
}

/* How many objects are in the stage, of any tenant; on a disk also those that are not finished. */
static inline int count_objects(const struct fixture *fixture)
{
    if (fixture->prefix[0] != '\0')
        return count_objects_in_s3(fixture);
    char path[512];
    snprintf(path, sizeof(path), "%s/objects", fixture->directory.path);
    char *paths[] = {path, NULL};
    int count = 0;
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    if (tree == NULL)
        return 0;
    for (FTSENT *entry = fts_read(tree); entry != NULL; entry = fts_read(tree))
        count += entry->fts_info == FTS_F;
    (void)fts_close(tree);
    return count;
}

#endif
