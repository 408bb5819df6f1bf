/* Signature Version 4 against the published examples of the S3 API reference. */
#include "sign.h"

#include "s3_chunked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#define KEY_ID "AKIAIOSFODNN7EXAMPLE"
#define SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
/* 2013-05-24T00:00:00Z */
#define EXAMPLE_MS ((int64_t)1369353600000)

static struct sign_identity example_identity(void)
{
    return (struct sign_identity){LAKE_STR(KEY_ID), base_bytes_of_str(LAKE_STR(SECRET)), {NULL, 0}};
}

static struct sign_scope example_scope(void)
{
    return (struct sign_scope){LAKE_STR("us-east-1"), LAKE_STR("s3"), EXAMPLE_MS};
}

#define HOST                                                         \
    {                                                                \
        LAKE_STR("host"), LAKE_STR("examplebucket.s3.amazonaws.com") \
    }
#define DATE                                                 \
    {                                                        \
        LAKE_STR("x-amz-date"), LAKE_STR("20130524T000000Z") \
    }
#define EMPTY                                                         \
    {                                                                 \
        LAKE_STR("x-amz-content-sha256"), LAKE_STR(SIGN_EMPTY_SHA256) \
    }

static void assert_signature(const struct sign_request *request, const char *expected)
{
    struct sign_identity identity = example_identity();
    struct sign_scope scope = example_scope();
    struct base_buffer value;
    char signature[BASE_SHA256_HEX_BYTES];
    base_buffer_init(&value, 4096);
    assert_int_equal(sign_authorization(request, &identity, &scope, &value, signature, NULL),
                     LAKE_OK);
    assert_string_equal(signature, expected);
    struct lake_str text = {(const char *)value.data, value.size};
    assert_true(base_str_has_prefix(text, "AWS4-HMAC-SHA256 Credential=" KEY_ID
                                          "/20130524/us-east-1/s3/aws4_request, "
                                          "SignedHeaders="));
    assert_true(base_str_has_suffix(text, expected));
    base_buffer_fini(&value);
}

static void get_with_a_range_is_signed_as_published(void **state)
{
    (void)state;
    const struct sign_pair headers[] = {
        HOST, {LAKE_STR("range"), LAKE_STR("bytes=0-9")}, EMPTY, DATE};
    const struct sign_request request = {.method = "GET",
                                         .path = LAKE_STR("/test.txt"),
                                         .headers = headers,
                                         .header_count = BASE_ARRAY_LEN(headers),
                                         .payload_sha256 = LAKE_STR(SIGN_EMPTY_SHA256)};
    assert_signature(&request, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

static void put_is_signed_as_published(void **state)
{
    (void)state;
    static const char body[] = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    const struct sign_pair headers[] = {
        {LAKE_STR("x-amz-storage-class"), LAKE_STR("REDUCED_REDUNDANCY")},
        {LAKE_STR("date"), LAKE_STR("Fri, 24 May 2013 00:00:00 GMT")},
        {LAKE_STR("x-amz-content-sha256"), LAKE_STR(body)},
        HOST,
        DATE};
    const struct sign_request request = {.method = "PUT",
                                         .path = LAKE_STR("/test%24file.text"),
                                         .headers = headers,
                                         .header_count = BASE_ARRAY_LEN(headers),
                                         .payload_sha256 = LAKE_STR(body)};
    assert_signature(&request, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

static void query_without_a_value_and_listing_are_signed_as_published(void **state)
{
    (void)state;
    const struct sign_pair headers[] = {HOST, EMPTY, DATE};
    const struct sign_pair lifecycle[] = {{LAKE_STR("lifecycle"), LAKE_STR("")}};
    const struct sign_pair listing[] = {{LAKE_STR("prefix"), LAKE_STR("J")},
                                        {LAKE_STR("max-keys"), LAKE_STR("2")}};
    struct sign_request request = {.method = "GET",
                                   .path = LAKE_STR("/"),
                                   .query = lifecycle,
                                   .query_count = 1,
                                   .headers = headers,
                                   .header_count = BASE_ARRAY_LEN(headers),
                                   .payload_sha256 = LAKE_STR(SIGN_EMPTY_SHA256)};
    assert_signature(&request, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    request.query = listing;
    request.query_count = 2;
    assert_signature(&request, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void presigned_url_is_as_published(void **state)
{
    (void)state;
    const struct sign_pair headers[] = {HOST};
    const struct sign_request request = {.method = "GET",
                                         .path = LAKE_STR("/test.txt"),
                                         .headers = headers,
                                         .header_count = 1,
                                         .payload_sha256 = LAKE_STR(SIGN_UNSIGNED_PAYLOAD)};
    struct sign_identity identity = example_identity();
    struct sign_scope scope = example_scope();
    struct base_buffer query;
    base_buffer_init(&query, 4096);
    assert_int_equal(sign_presigned_query(&request, &identity, &scope, 86400, &query, NULL),
                     LAKE_OK);
    assert_int_equal(base_buffer_append(&query, "", 1, NULL), LAKE_OK);
    assert_string_equal((const char *)query.data,
                        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" KEY_ID
                        "%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
                        "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400"
                        "&X-Amz-SignedHeaders=host&X-Amz-Signature="
                        "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
    base_buffer_fini(&query);
}

/* The example of a 65 KiB body in chunks of 64 KiB. */
static void body_in_signed_chunks_is_as_published(void **state)
{
    (void)state;
    const struct sign_pair headers[] = {
        {LAKE_STR("content-encoding"), LAKE_STR("aws-chunked")},
        {LAKE_STR("content-length"), LAKE_STR("66824")},
        HOST,
        {LAKE_STR("x-amz-content-sha256"), LAKE_STR(SIGN_STREAMING_PAYLOAD)},
        DATE,
        {LAKE_STR("x-amz-decoded-content-length"), LAKE_STR("66560")},
        {LAKE_STR("x-amz-storage-class"), LAKE_STR("REDUCED_REDUNDANCY")}};
    const struct sign_request request = {.method = "PUT",
                                         .path = LAKE_STR("/examplebucket/chunkObject.txt"),
                                         .headers = headers,
                                         .header_count = BASE_ARRAY_LEN(headers),
                                         .payload_sha256 = LAKE_STR(SIGN_STREAMING_PAYLOAD)};
    struct sign_pair moved[BASE_ARRAY_LEN(headers)];
    memcpy(moved, headers, sizeof(moved));
    moved[2].value = LAKE_STR("s3.amazonaws.com");
    struct sign_request with_path = request;
    with_path.headers = moved;
    static const char seed[] = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
    assert_signature(&with_path, seed);

    static uint8_t body[66560];
    static uint8_t wire[70000];
    memset(body, 'a', sizeof(body));
    struct sign_identity identity = example_identity();
    struct sign_scope scope = example_scope();
    struct s3_chunked chunked;
    assert_int_equal(s3_chunked_init(&chunked, &identity, &scope, seed,
                                     (struct lake_bytes){body, sizeof(body)}, NULL),
                     LAKE_OK);
    assert_int_equal(sign_chunked_bytes(sizeof(body), S3_CHUNK_BYTES), 66824);
    for (int round = 0; round < 2; round++) { /* the second after starting over */
        size_t size = 0;
        for (size_t got = 1; got > 0; size += got)
            got = s3_chunked_produce(&chunked, wire + size, round == 0 ? 1000 : 4096);
        assert_int_equal(size, 66824);
        static const char first[] =
            "10000;chunk-signature="
            "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\naaa";
        static const char second[] =
            "\r\n400;chunk-signature="
            "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\naaa";
        static const char last[] =
            "\r\n0;chunk-signature="
            "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n";
        assert_memory_equal(wire, first, sizeof(first) - 1);
        assert_memory_equal(wire + 22 + 64 + 2 + 65536, second, sizeof(second) - 1);
        assert_memory_equal(wire + size - (sizeof(last) - 1), last, sizeof(last) - 1);
        assert_true(s3_chunked_rewind(&chunked));
    }
    s3_chunked_fini(&chunked);
}

static void awkward_keys_are_encoded_byte_by_byte(void **state)
{
    (void)state;
    struct base_buffer out;
    base_buffer_init(&out, 4096);
    assert_int_equal(sign_percent_encode(&out, LAKE_STR("a b/+=@&?#%~-_.\xC3\xA9\x01"), true, NULL),
                     LAKE_OK);
    assert_int_equal(base_buffer_append(&out, "", 1, NULL), LAKE_OK);
    assert_string_equal((const char *)out.data, "a%20b/%2B%3D%40%26%3F%23%25~-_.%C3%A9%01");
    base_buffer_fini(&out);
}

/* O06: what is special in a query is special in a token and a key too. */
static void case_O06_session_token_with_special_characters_is_encoded(void **state)
{
    (void)state;
    const struct sign_pair headers[] = {HOST};
    const struct sign_request request = {.method = "GET",
                                         .path = LAKE_STR("/a%2Bb"),
                                         .headers = headers,
                                         .header_count = 1,
                                         .payload_sha256 = LAKE_STR(SIGN_UNSIGNED_PAYLOAD)};
    struct sign_identity identity = example_identity();
    identity.session_token = LAKE_STR("a+/=@ \xC3\xA9");
    struct sign_scope scope = example_scope();
    struct base_buffer query;
    base_buffer_init(&query, 4096);
    assert_int_equal(sign_presigned_query(&request, &identity, &scope, 1, &query, NULL), LAKE_OK);
    assert_int_equal(base_buffer_append(&query, "", 1, NULL), LAKE_OK);
    assert_non_null(
        strstr((const char *)query.data, "&X-Amz-Security-Token=a%2B%2F%3D%40%20%C3%A9&"));
    base_buffer_fini(&query);
}

static void too_many_parameters_are_an_error(void **state)
{
    (void)state;
    struct sign_pair query[SIGN_MAX_PAIRS + 1];
    for (size_t i = 0; i < BASE_ARRAY_LEN(query); i++)
        query[i] = (struct sign_pair){LAKE_STR("a"), LAKE_STR("b")};
    struct base_buffer out;
    base_buffer_init(&out, 4096);
    assert_int_equal(sign_query(&out, query, SIGN_MAX_PAIRS, NULL), LAKE_OK);
    assert_int_equal(sign_query(&out, query, SIGN_MAX_PAIRS + 1, NULL), LAKE_INTERNAL);
    base_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(get_with_a_range_is_signed_as_published),
        cmocka_unit_test(put_is_signed_as_published),
        cmocka_unit_test(query_without_a_value_and_listing_are_signed_as_published),
        cmocka_unit_test(presigned_url_is_as_published),
        cmocka_unit_test(body_in_signed_chunks_is_as_published),
        cmocka_unit_test(awkward_keys_are_encoded_byte_by_byte),
        cmocka_unit_test(case_O06_session_token_with_special_characters_is_encoded),
        cmocka_unit_test(too_many_parameters_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
