/* SHA-256 against NIST's examples and Python's hashlib; hexadecimal. */
#include <base/base.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_digest(const void *data, size_t size, const char *expected)
{
    uint8_t digest[BASE_SHA256_BYTES];
    char hex[BASE_SHA256_HEX_BYTES];
    struct lake_bytes bytes = {data, size};
    assert_int_equal(base_sha256_once(bytes, digest, NULL), LAKE_OK);
    base_hex_encode((struct lake_bytes){digest, sizeof(digest)}, hex);
    assert_string_equal(hex, expected);
}

/* FIPS 180-4 examples of NIST's Cryptographic Standards and Guidelines pages. */
static void nist_examples_are_reproduced(void **state)
{
    (void)state;
    assert_digest("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest(NULL, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    assert_digest(two_blocks, strlen(two_blocks),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    assert_digest(million, 1000000,
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

/* The digest of all digests of 0 to 999 bytes, fed in pieces here, whole in Python. */
static void every_length_and_cut_agrees_with_hashlib(void **state)
{
    (void)state;
    FILE *python = popen(LAKE_PYTHON " -c \"\n"
                                     "import hashlib\n"
                                     "data = bytes(i % 251 for i in range(1000))\n"
                                     "outer = hashlib.sha256()\n"
                                     "for n in range(1000): "
                                     "outer.update(hashlib.sha256(data[:n]).digest())\n"
                                     "print(outer.hexdigest(), end='')\"",
                         "r");
    char expected[BASE_SHA256_HEX_BYTES] = "";
    assert_int_equal(fread(expected, 1, 64, python), 64);
    assert_int_equal(pclose(python), 0);

    uint8_t data[1000];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i % 251);
    struct base_sha256 *outer;
    struct base_sha256 *inner;
    uint8_t digest[BASE_SHA256_BYTES];
    assert_int_equal(base_sha256_new(&outer, NULL), LAKE_OK);
    assert_int_equal(base_sha256_new(&inner, NULL), LAKE_OK);
    for (size_t n = 0; n < sizeof(data); n++) {
        assert_int_equal(base_sha256_reset(inner, NULL), LAKE_OK);
        assert_int_equal(base_sha256_update(inner, data, n / 3, NULL), LAKE_OK);
        assert_int_equal(base_sha256_update(inner, data + n / 3, n - n / 3, NULL), LAKE_OK);
        assert_int_equal(base_sha256_final(inner, digest, NULL), LAKE_OK);
        assert_int_equal(base_sha256_update(outer, digest, sizeof(digest), NULL), LAKE_OK);
    }
    assert_int_equal(base_sha256_final(outer, digest, NULL), LAKE_OK);
    char hex[BASE_SHA256_HEX_BYTES];
    base_hex_encode((struct lake_bytes){digest, sizeof(digest)}, hex);
    assert_string_equal(hex, expected);
    base_sha256_free(inner);
    base_sha256_free(outer);
    base_sha256_free(NULL);
}

/* A pair fed in pieces of `piece`, with parts of `part` bytes, against a digest of each. */
static void check_pair(bool portable, const uint8_t *data, size_t size, size_t piece, size_t part)
{
    struct base_sha256_pair *pair;
    uint8_t got[BASE_SHA256_BYTES];
    uint8_t whole[BASE_SHA256_BYTES];
    uint8_t expected[BASE_SHA256_BYTES];
    size_t start = 0;
    assert_int_equal(base_sha256_pair_new(portable, &pair, NULL), LAKE_OK);
    for (size_t at = 0; at < size;) {
        size_t take = BASE_MIN(BASE_MIN(piece, size - at), start + part - at);
        assert_int_equal(base_sha256_pair_update(pair, (struct lake_bytes){data + at, take}, NULL),
                         LAKE_OK);
        at += take;
        if (at < start + part)
            continue;
        assert_int_equal(base_sha256_pair_next(pair, got, NULL), LAKE_OK);
        (void)base_sha256_once((struct lake_bytes){data + start, part}, expected, NULL);
        assert_memory_equal(got, expected, sizeof(got));
        start = at;
    }
    assert_int_equal(base_sha256_pair_final(pair, whole, got, NULL), LAKE_OK);
    (void)base_sha256_once((struct lake_bytes){data + start, size - start}, expected, NULL);
    assert_memory_equal(got, expected, sizeof(got));
    (void)base_sha256_once((struct lake_bytes){data, size}, expected, NULL);
    assert_memory_equal(whole, expected, sizeof(whole));
    base_sha256_pair_free(pair);
}

static void a_pair_is_two_digests(void **state)
{
    static const size_t pieces[] = {1, 63, 64, 65, 200, 5000};
    static const size_t parts[] = {64, 128, 640, 4096};
    uint8_t data[3000];
    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * i % 251);
    for (int portable = 0; portable < 2; portable++) {
        for (size_t i = 0; i < BASE_ARRAY_LEN(pieces); i++) {
            for (size_t k = 0; k < BASE_ARRAY_LEN(parts); k++) {
                for (size_t size = 0; size < 300; size++)
                    check_pair(portable != 0, data, size, pieces[i], parts[k]);
                check_pair(portable != 0, data, sizeof(data), pieces[i], parts[k]);
            }
        }
    }
}

static void ended_digest_takes_nothing_until_it_is_reset(void **state)
{
    (void)state;
    struct base_sha256 *hash;
    uint8_t digest[BASE_SHA256_BYTES];
    struct lake_error err;
    assert_int_equal(base_sha256_new(&hash, &err), LAKE_OK);
    assert_int_equal(base_sha256_final(hash, digest, &err), LAKE_OK);
    assert_int_equal(base_sha256_update(hash, "x", 1, &err), LAKE_FAILED_PRECONDITION);
    assert_int_equal(base_sha256_final(hash, digest, &err), LAKE_FAILED_PRECONDITION);
    assert_int_equal(base_sha256_reset(hash, &err), LAKE_OK);
    assert_int_equal(base_sha256_update(hash, "abc", 3, &err), LAKE_OK);
    assert_int_equal(base_sha256_final(hash, digest, &err), LAKE_OK);
    assert_int_equal(digest[0], 0xBA);
    base_sha256_free(hash);
}

static void out_of_memory_is_an_error(void **state)
{
    (void)state;
    struct base_sha256 *hash;
    base_fault_fail_nth_alloc(1);
    assert_int_equal(base_sha256_new(&hash, NULL), LAKE_RESOURCE_EXHAUSTED);
    for (unsigned nth = 1; nth <= 3; nth++) {
        struct base_sha256_pair *pair = NULL;
        base_fault_fail_nth_alloc(nth);
        assert_int_equal(base_sha256_pair_new(true, &pair, NULL), LAKE_RESOURCE_EXHAUSTED);
        assert_null(pair);
    }
    base_fault_fail_nth_alloc(0);
}

static void hexadecimal_goes_both_ways(void **state)
{
    (void)state;
    char text[11];
    uint8_t bytes[5];
    base_hex_encode(base_bytes_of_str(LAKE_STR("\x00\x0F\x80\xFF\x5a")), text);
    assert_string_equal(text, "000f80ff5a");
    assert_true(base_hex_decode(LAKE_STR("000F80fF5a"), bytes));
    assert_memory_equal(bytes, "\x00\x0F\x80\xFF\x5a", 5);
    assert_true(base_hex_decode(LAKE_STR(""), bytes));
    assert_false(base_hex_decode(LAKE_STR("0"), bytes));
    assert_false(base_hex_decode(LAKE_STR("0g"), bytes));
    assert_false(base_hex_decode(LAKE_STR("/0"), bytes));
}

/* OBJ-5: exactly 64 lower-case digits. */
static void digest_text_is_valid_only_as_64_lower_case_digits(void **state)
{
    (void)state;
    char text[66] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_true(base_sha256_hex_valid((struct lake_str){text, 64}));
    assert_false(base_sha256_hex_valid((struct lake_str){text, 63}));
    text[64] = '0';
    assert_false(base_sha256_hex_valid((struct lake_str){text, 65}));
    text[0] = 'B';
    assert_false(base_sha256_hex_valid((struct lake_str){text, 64}));
    text[0] = 'g';
    assert_false(base_sha256_hex_valid((struct lake_str){text, 64}));
    assert_false(base_sha256_hex_valid((struct lake_str){NULL, 0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nist_examples_are_reproduced),
        cmocka_unit_test(every_length_and_cut_agrees_with_hashlib),
        cmocka_unit_test(a_pair_is_two_digests),
        cmocka_unit_test(ended_digest_takes_nothing_until_it_is_reset),
        cmocka_unit_test(out_of_memory_is_an_error),
        cmocka_unit_test(hexadecimal_goes_both_ways),
        cmocka_unit_test(digest_text_is_valid_only_as_64_lower_case_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
