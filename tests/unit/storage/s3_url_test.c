/* Stores of one object by a presigned URL (OBJ-8), without a service; see test_via_query.py. */
#include "storage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#define URL "http://127.0.0.1:9/bucket/key?X-Amz-Signature=abc"

static lake_status open_url(const char *url, struct storage_store **out, struct lake_error *err)
{
    struct storage_url_reader *reader = NULL;
    lake_status status = storage_url_reader_new(&reader, err);
    if (status == LAKE_OK)
        status = storage_url_open(reader, url, LAKE_STR("bucket"), LAKE_STR("key"), 3, out, err);
    storage_url_reader_unref(reader); /* the store keeps it */
    return status;
}

static void other_urls_are_refused_and_not_repeated(void **state)
{
    static const char *const bad[] = {"",
                                      "file:///etc/passwd?secret",
                                      "http://",
                                      "http:///secret",
                                      "ftp://host/secret",
                                      "https://user:secret@host/key",
                                      "http://host/a b?secret",
                                      "http://host/key?secret\r\nx-header: y"};
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++) {
        struct storage_store *store = NULL;
        struct lake_error err = {.code = LAKE_OK};
        assert_int_equal(open_url(bad[i], &store, &err), LAKE_INVALID_ARGUMENT);
        assert_null(store);
        assert_null(strstr(err.message, "secret"));
    }
}

static void nothing_but_reading_works(void **state)
{
    struct storage_store *store = NULL;
    struct storage_object_info info;
    struct storage_presigned presigned;
    struct storage_list_page page;
    struct lake_error err = {.code = LAKE_OK};
    struct lake_str key = LAKE_STR("key");
    (void)state;
    assert_int_equal(open_url(URL, &store, &err), LAKE_OK);
    assert_string_equal(storage_store_uri(store), "s3://bucket");
    assert_int_equal(storage_stat(store, key, &info, &err), LAKE_UNIMPLEMENTED);
    assert_int_equal(storage_remove(store, key, &err), LAKE_UNIMPLEMENTED);
    assert_int_equal(storage_put(store, key, (struct lake_bytes){(const uint8_t *)"x", 1}, &err),
                     LAKE_UNIMPLEMENTED);
    assert_int_equal(storage_list(store, LAKE_STR(""), LAKE_STR(""), 10, &page, &err),
                     LAKE_UNIMPLEMENTED);
    assert_int_equal(storage_presign_read(store, key, 60, &presigned, &err), LAKE_UNIMPLEMENTED);
    storage_store_unref(store);
}

static void every_failed_allocation_is_an_error(void **state)
{
    lake_status status = LAKE_UNKNOWN;
    (void)state;
    for (uint64_t nth = 1; status != LAKE_OK; nth++) {
        struct storage_store *store = NULL;
        struct lake_error err = {.code = LAKE_OK};
        base_fault_fail_nth_alloc(nth);
        status = open_url(URL, &store, &err);
        base_fault_fail_nth_alloc(0);
        assert_true(status == LAKE_OK || status == LAKE_RESOURCE_EXHAUSTED);
        assert_true((status == LAKE_OK) == (store != NULL));
        assert_true(nth < 100);
        storage_store_unref(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_urls_are_refused_and_not_repeated),
        cmocka_unit_test(nothing_but_reading_works),
        cmocka_unit_test(every_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
