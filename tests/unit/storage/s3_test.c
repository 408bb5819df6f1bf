/* The S3 store over a canned server: want of memory and failing I/O at every place, limits of
 * options and multipart calls, addresses. What services do is in tests/integration. */
/* labels: concurrent */
#define _GNU_SOURCE
#include <storage/storage.h>

#include <stdbool.h>

#include "canned_s3.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct canned_s3 server;

static void options_of(struct storage_s3_options *options)
{
    storage_s3_options_init(options);
    options->bucket = "bucket";
    options->endpoint = server.endpoint;
    options->region = "us-east-1";
    options->access_key_id = "AKID";
    options->secret_access_key = "secret";
    options->retry_base_ms = 1;
    options->max_attempts = 2;
    options->operation_timeout_ms = 10000;
}

static lake_status open_store(struct storage_store **out, struct lake_error *err)
{
    struct storage_s3_options options;
    options_of(&options);
    return storage_s3_open(&options, out, err);
}

static int set_up(void **state)
{
    (void)state;
    (void)setenv("AWS_CONFIG_FILE", "/nonexistent", 1);
    (void)setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1);
    canned_s3_start(&server, 100000);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    canned_s3_stop(&server);
    return 0;
}

/* ---- everything once ---- */

static lake_status use_parts(struct storage_store *store, struct lake_error *err)
{
    struct storage_multipart *upload = NULL;
    struct storage_part *listed = NULL;
    struct storage_part sent;
    size_t count = 0;
    lake_status status =
        storage_multipart_create(store, LAKE_STR("p"), "video/mp4", true, &upload, err);
    if (status == LAKE_OK)
        status = storage_multipart_part_start(upload, 1, base_bytes_of_str(LAKE_STR("bytes")), err);
    if (status == LAKE_OK)
        status = storage_multipart_part_finish(upload, &sent, err);
    if (status == LAKE_OK)
        status = storage_multipart_parts(upload, &listed, &count, err);
    if (status == LAKE_OK)
        status = storage_multipart_complete(upload, &sent, 1, err);
    base_free(listed);
    storage_multipart_free(upload);
    return status;
}

static lake_status use_streams(struct storage_store *store, struct lake_error *err)
{
    struct storage_stream *stream = NULL;
    struct storage_writer *writer = NULL;
    struct lake_bytes block = {NULL, 1};
    lake_status status = storage_stream_open(store, LAKE_STR("k"), "", 0, 1000, &stream, err);
    while (status == LAKE_OK && block.size > 0)
        status = storage_stream_next(stream, &block, err);
    storage_stream_free(stream);
    stream = NULL;
    if (status == LAKE_OK)
        status = storage_range_stream_open(store, LAKE_STR("k"), "", 3, 90000, &stream, err);
    block.size = 1;
    while (status == LAKE_OK && block.size > 0)
        status = storage_stream_next(stream, &block, err);
    storage_stream_free(stream);
    if (status == LAKE_OK)
        status = storage_writer_open(store, LAKE_STR("w"), true, &writer, err);
    if (status == LAKE_OK)
        status = storage_writer_write(writer, base_bytes_of_str(LAKE_STR("bytes")), err);
    if (status == LAKE_OK) {
        status = storage_writer_commit(writer, err);
        writer = NULL;
    }
    storage_writer_abort(writer);
    return status;
}

static lake_status use_all(struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct storage_object_info info;
    struct base_buffer whole;
    struct storage_list_page page = {.entries = NULL};
    struct storage_presigned presigned = {.url = NULL};
    struct storage_upload_entry *uploads = NULL;
    size_t upload_count = 0;
    uint8_t range[100];
    base_buffer_init(&whole, 1 << 20);
    lake_status status = open_store(&store, err);
    if (status == LAKE_OK)
        status = storage_stat(store, LAKE_STR("k"), &info, err);
    if (status == LAKE_OK)
        status = storage_read_range(store, LAKE_STR("k"), 5, sizeof(range), range, err);
    if (status == LAKE_OK)
        status = storage_read_all(store, LAKE_STR("k"), &whole, err);
    if (status == LAKE_OK)
        status = storage_put_if_absent(store, LAKE_STR("n"), base_bytes_of_str(LAKE_STR("x")), err);
    if (status == LAKE_OK)
        status = storage_list(store, LAKE_STR(""), LAKE_STR(""), 10, &page, err);
    if (status == LAKE_OK)
        status = storage_presign_read(store, LAKE_STR("k"), 60, &presigned, err);
    if (status == LAKE_OK)
        status = storage_multipart_list(store, LAKE_STR(""), 10, &uploads, &upload_count, err);
    if (status == LAKE_OK)
        status = use_parts(store, err);
    if (status == LAKE_OK)
        status = use_streams(store, err);
    if (status == LAKE_OK)
        status = storage_remove(store, LAKE_STR("k"), err);
    storage_upload_entries_free(uploads, upload_count);
    storage_presigned_fini(&presigned);
    storage_list_page_fini(&page);
    base_buffer_fini(&whole);
    storage_store_unref(store);
    return status;
}

static void whichever_allocation_fails_the_error_is_typed(void **state)
{
    (void)state;
    lake_status status = LAKE_UNKNOWN;
    uint64_t nth = 0;
    while (status != LAKE_OK) {
        struct lake_error err = {.code = LAKE_OK};
        base_fault_fail_nth_alloc(++nth);
        status = use_all(&err);
        bool struck = base_fault_alloc_count() >= nth;
        base_fault_fail_nth_alloc(0);
        assert_true(nth < 2000);
        assert_int_equal(status, err.code);
        if (!struck)
            assert_int_equal(status, LAKE_OK);
        else if (status != LAKE_OK)
            assert_true(status == LAKE_RESOURCE_EXHAUSTED || status == LAKE_OUTCOME_UNKNOWN ||
                        status == LAKE_INTERNAL);
        else
            status = LAKE_UNKNOWN; /* what failed was not needed, or was tried again */
        if (!struck)
            break;
    }
    assert_true(nth > 50);
}

static void whichever_request_fails_the_error_is_typed(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        struct lake_error err = {.code = LAKE_OK};
        base_fault_fail_nth_io(nth);
        lake_status status = use_all(&err);
        bool struck = base_fault_io_count() >= nth;
        base_fault_fail_nth_io(0);
        assert_int_equal(status, struck ? LAKE_UNAVAILABLE : LAKE_OK);
        if (!struck) {
            assert_true(nth > 10);
            break;
        }
    }
}

/* ---- limits ---- */

static void parts_are_numbered_and_counted_within_limits(void **state)
{
    (void)state;
    struct storage_store *store;
    struct storage_multipart *upload;
    struct storage_part part = {.number = 1, .etag = "\"e\""};
    struct lake_bytes data = base_bytes_of_str(LAKE_STR("x"));
    assert_int_equal(open_store(&store, NULL), LAKE_OK);
    assert_int_equal(storage_multipart_create(store, LAKE_STR("p"), NULL, false, &upload, NULL),
                     LAKE_OK);
    assert_string_equal(storage_multipart_id(upload), "u");
    unsigned before = atomic_load(&server.requests);
    assert_int_equal(storage_multipart_part_start(upload, 0, data, NULL), LAKE_INVALID_ARGUMENT);
    assert_int_equal(
        storage_multipart_part_start(upload, STORAGE_MULTIPART_MAX_PARTS + 1, data, NULL),
        LAKE_INVALID_ARGUMENT);
    assert_int_equal(storage_multipart_part_start(upload, 1, (struct lake_bytes){NULL, 0}, NULL),
                     LAKE_INVALID_ARGUMENT);
    assert_int_equal(storage_multipart_part_finish(upload, &part, NULL), LAKE_FAILED_PRECONDITION);
    assert_int_equal(storage_multipart_complete(upload, &part, 0, NULL), LAKE_INVALID_ARGUMENT);
    struct storage_part unsorted[] = {{.number = 2, .etag = "\"e\""},
                                      {.number = 2, .etag = "\"e\""}};
    assert_int_equal(storage_multipart_complete(upload, unsorted, 2, NULL), LAKE_INVALID_ARGUMENT);
    struct storage_part unsent = {.number = 1};
    assert_int_equal(storage_multipart_complete(upload, &unsent, 1, NULL), LAKE_INVALID_ARGUMENT);
    assert_int_equal(atomic_load(&server.requests), before);
    for (uint32_t i = 0; i < STORAGE_MULTIPART_MAX_IN_FLIGHT; i++)
        assert_int_equal(
            storage_multipart_part_start(upload, STORAGE_MULTIPART_MAX_PARTS - i, data, NULL),
            LAKE_OK);
    assert_int_equal(storage_multipart_part_start(upload, 1, data, NULL), LAKE_RESOURCE_EXHAUSTED);
    assert_int_equal(storage_multipart_complete(upload, &part, 1, NULL), LAKE_FAILED_PRECONDITION);
    for (uint32_t i = 0; i < STORAGE_MULTIPART_MAX_IN_FLIGHT; i++) {
        assert_int_equal(storage_multipart_part_finish(upload, &part, NULL), LAKE_OK);
        assert_int_equal(part.number, STORAGE_MULTIPART_MAX_PARTS - i); /* in the order of starts */
    }
    storage_multipart_free(upload);
    storage_store_unref(store);
}

static void parts_in_flight_end_with_their_upload(void **state)
{
    (void)state;
    static uint8_t data[1 << 20];
    struct storage_store *store;
    struct storage_multipart *upload;
    assert_int_equal(open_store(&store, NULL), LAKE_OK);
    for (int round = 0; round < 20; round++) {
        assert_int_equal(storage_multipart_create(store, LAKE_STR("p"), NULL, false, &upload, NULL),
                         LAKE_OK);
        for (uint32_t i = 1; i <= 8; i++)
            assert_int_equal(storage_multipart_part_start(
                                 upload, i, (struct lake_bytes){data, sizeof(data)}, NULL),
                             LAKE_OK);
        if (round % 2 == 0)
            assert_int_equal(storage_multipart_abort(upload, NULL), LAKE_OK);
        assert_true(storage_multipart_in_flight(upload) == (round % 2 == 0 ? 0 : 8));
        storage_multipart_free(upload);
    }
    storage_store_unref(store);
}

static void settings_that_are_wrong_are_refused(void **state)
{
    (void)state;
    static const char *const endpoints[] = {"",           "localhost",  "ftp://h",
                                            "http://",    "http://a@b", "http://h/path",
                                            "http://h?x", "http://a b"};
    static const char *const buckets[] = {NULL,   "",     "ab",  "a/b",
                                          "a..b", ".abc", "a?b", "\xC3\xA9xx"};
    struct storage_s3_options options;
    struct storage_store *store;
    for (size_t i = 0; i < BASE_ARRAY_LEN(endpoints); i++) {
        options_of(&options);
        options.endpoint = endpoints[i];
        assert_int_equal(storage_s3_open(&options, &store, NULL), LAKE_INVALID_ARGUMENT);
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(buckets); i++) {
        options_of(&options);
        options.bucket = buckets[i];
        assert_int_equal(storage_s3_open(&options, &store, NULL), LAKE_INVALID_ARGUMENT);
    }
    options_of(&options);
    options.secret_access_key = NULL;
    assert_int_equal(storage_s3_open(&options, &store, NULL), LAKE_INVALID_ARGUMENT);
    options_of(&options);
    options.writer_part_bytes = STORAGE_MULTIPART_MIN_PART_BYTES - 1;
    assert_int_equal(storage_s3_open(&options, &store, NULL), LAKE_INVALID_ARGUMENT);
}

static void assert_address(struct storage_s3_options *options, const char *expected)
{
    struct storage_store *store;
    struct storage_presigned presigned;
    assert_int_equal(storage_s3_open(options, &store, NULL), LAKE_OK);
    assert_string_equal(storage_store_uri(store), "s3://bucket");
    assert_int_equal(storage_presign_read(store, LAKE_STR("a b"), 60, &presigned, NULL), LAKE_OK);
    assert_int_equal(strncmp(presigned.url, expected, strlen(expected)), 0);
    storage_presigned_fini(&presigned);
    assert_null(presigned.url);
    storage_store_unref(store);
}

static void buckets_are_hosts_at_aws_and_paths_elsewhere(void **state)
{
    (void)state;
    struct storage_s3_options options;
    (void)unsetenv("AWS_ENDPOINT_URL_S3");
    (void)unsetenv("AWS_ENDPOINT_URL");
    options_of(&options);
    options.endpoint = NULL;
    options.region = "eu-north-1";
    assert_address(&options, "https://bucket.s3.eu-north-1.amazonaws.com/a%20b?X-Amz-Algorithm=");
    options.addressing = STORAGE_S3_ADDRESS_PATH;
    assert_address(&options, "https://s3.eu-north-1.amazonaws.com/bucket/a%20b?");
    options.addressing = STORAGE_S3_ADDRESS_AUTO;
    options.endpoint = "http://storage.example:9000/";
    assert_address(&options, "http://storage.example:9000/bucket/a%20b?");
    options.addressing = STORAGE_S3_ADDRESS_VIRTUAL;
    assert_address(&options, "http://bucket.storage.example:9000/a%20b?");
}

static void uris_are_split_at_the_bucket(void **state)
{
    (void)state;
    struct lake_str bucket;
    struct lake_str prefix;
    assert_true(storage_s3_uri_split(LAKE_STR("s3://b/c/d/"), &bucket, &prefix));
    assert_true(base_str_equal_c(bucket, "b") && base_str_equal_c(prefix, "c/d"));
    assert_true(storage_s3_uri_split(LAKE_STR("s3://b"), &bucket, &prefix));
    assert_true(base_str_equal_c(bucket, "b") && prefix.size == 0);
    assert_false(storage_s3_uri_split(LAKE_STR("s3:///x"), &bucket, &prefix));
    assert_false(storage_s3_uri_split(LAKE_STR("file:///x"), &bucket, &prefix));
    struct storage_store *store;
    assert_int_equal(storage_open_uri(LAKE_STR("gs://x/y"), false, NULL, &store, NULL),
                     LAKE_UNIMPLEMENTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whichever_allocation_fails_the_error_is_typed),
        cmocka_unit_test(whichever_request_fails_the_error_is_typed),
        cmocka_unit_test(parts_are_numbered_and_counted_within_limits),
        cmocka_unit_test(parts_in_flight_end_with_their_upload),
        cmocka_unit_test(settings_that_are_wrong_are_refused),
        cmocka_unit_test(buckets_are_hosts_at_aws_and_paths_elsewhere),
        cmocka_unit_test(uris_are_split_at_the_bucket),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
