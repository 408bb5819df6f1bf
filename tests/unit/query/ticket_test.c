/* Statement tickets (TIX-1..TIX-4). */
#define _GNU_SOURCE /* memmem */
#include "ticket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define NOW_MS 1700000000000
#define TTL_MS 300000

static const struct rpc_principal alice = {.principal_id = "alice", .tenant_id = "lab"};
static const struct rpc_principal bob = {.principal_id = "bob", .tenant_id = "lab"};
static const struct rpc_principal other_lab = {.principal_id = "alice", .tenant_id = "other"};

static struct query_ticket_keys *ephemeral(void)
{
    struct query_ticket_keys *keys = NULL;
    assert_int_equal(query_ticket_keys_open(NULL, &keys, NULL), LAKE_OK);
    return keys;
}

static void seal(const struct query_ticket_keys *keys, struct base_buffer *out)
{
    static const struct query_pin pins[2] = {
        {.catalog = {"", 0},
         .schema = {"robots", 6},
         .table = {"frames", 6},
         .location = {"file:///d/tables/robots/frames.lance", 36},
         .engine = {"lance", 5},
         .incarnation = {"i-1", 3},
         .version = 7},
        {.schema = {"robots", 6}, .table = {"episodes", 8}, .at_version = 3, .version = 3},
    };
    struct query_ticket ticket = {
        .purpose = QUERY_TICKET_STATEMENT,
        .sql = LAKE_STR("SELECT secret_column FROM robots.frames"),
        .pins = pins,
        .pin_count = 2,
        .schema_sha256 = {(const uint8_t *)"0123456789abcdef0123456789abcdef", 32},
    };
    assert_int_equal(
        query_ticket_seal(keys, &ticket, &alice, LAKE_STR("registry-1"), NOW_MS, TTL_MS, out, NULL),
        LAKE_OK);
}

static lake_status open_as(const struct query_ticket_keys *keys, struct lake_bytes sealed,
                           const struct rpc_principal *principal, const char *audience,
                           int64_t now_ms)
{
    struct query_ticket ticket;
    lake_status status = query_ticket_open(keys, sealed, QUERY_TICKET_STATEMENT, principal,
                                           base_str_of(audience), now_ms, &ticket, NULL);
    if (status == LAKE_OK)
        query_ticket_fini(&ticket);
    return status;
}

static void a_ticket_opens_to_what_was_sealed(void **state)
{
    (void)state;
    struct query_ticket_keys *keys = ephemeral();
    struct base_buffer sealed;
    struct query_ticket ticket;
    base_buffer_init(&sealed, 1 << 20);
    seal(keys, &sealed);
    assert_null(memmem(sealed.data, sealed.size, "secret_column", 13));
    assert_null(memmem(sealed.data, sealed.size, "robots", 6));
    assert_int_equal(query_ticket_open(keys, base_buffer_view(&sealed), QUERY_TICKET_STATEMENT,
                                       &alice, LAKE_STR("registry-1"), NOW_MS + 1000, &ticket,
                                       NULL),
                     LAKE_OK);
    assert_true(base_str_equal_c(ticket.sql, "SELECT secret_column FROM robots.frames"));
    assert_int_equal(ticket.pin_count, 2);
    assert_true(base_str_equal_c(ticket.pins[0].incarnation, "i-1"));
    assert_int_equal(ticket.pins[0].version, 7);
    assert_int_equal(ticket.pins[1].at_version, 3);
    assert_int_equal(ticket.schema_sha256.size, 32);
    query_ticket_fini(&ticket);
    base_buffer_fini(&sealed);
    query_ticket_keys_free(keys);
}

static void any_changed_bit_is_refused(void **state)
{
    (void)state;
    struct query_ticket_keys *keys = ephemeral();
    struct base_buffer sealed;
    base_buffer_init(&sealed, 1 << 20);
    seal(keys, &sealed);
    for (size_t bit = 0; bit < sealed.size * 8; bit++) {
        sealed.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        lake_status status = open_as(keys, base_buffer_view(&sealed), &alice, "registry-1", NOW_MS);
        assert_true(status == LAKE_UNAUTHENTICATED ||
                    (bit < 8 && status == LAKE_FAILED_PRECONDITION));
        sealed.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    for (size_t size = 0; size < sealed.size; size++)
        assert_int_equal(
            open_as(keys, (struct lake_bytes){sealed.data, size}, &alice, "registry-1", NOW_MS),
            LAKE_UNAUTHENTICATED);
    assert_int_equal(open_as(keys, base_buffer_view(&sealed), &alice, "registry-1", NOW_MS),
                     LAKE_OK);
    base_buffer_fini(&sealed);
    query_ticket_keys_free(keys);
}

static void another_principal_tenant_audience_or_purpose_is_refused(void **state)
{
    (void)state;
    struct query_ticket_keys *keys = ephemeral();
    struct query_ticket_keys *foreign = ephemeral();
    struct base_buffer sealed;
    struct query_ticket ticket;
    base_buffer_init(&sealed, 1 << 20);
    seal(keys, &sealed);
    struct lake_bytes bytes = base_buffer_view(&sealed);
    assert_int_equal(open_as(keys, bytes, &bob, "registry-1", NOW_MS), LAKE_UNAUTHENTICATED);
    assert_int_equal(open_as(keys, bytes, &other_lab, "registry-1", NOW_MS), LAKE_UNAUTHENTICATED);
    assert_int_equal(open_as(keys, bytes, &alice, "registry-2", NOW_MS), LAKE_UNAUTHENTICATED);
    assert_int_equal(open_as(foreign, bytes, &alice, "registry-1", NOW_MS), LAKE_UNAUTHENTICATED);
    assert_int_equal(query_ticket_open(keys, bytes, QUERY_TICKET_PREPARED, &alice,
                                       LAKE_STR("registry-1"), NOW_MS, &ticket, NULL),
                     LAKE_UNAUTHENTICATED);
    base_buffer_fini(&sealed);
    query_ticket_keys_free(keys);
    query_ticket_keys_free(foreign);
}

static void a_ticket_lives_exactly_its_life(void **state)
{
    (void)state;
    struct query_ticket_keys *keys = ephemeral();
    struct base_buffer sealed;
    base_buffer_init(&sealed, 1 << 20);
    seal(keys, &sealed);
    struct lake_bytes bytes = base_buffer_view(&sealed);
    assert_int_equal(open_as(keys, bytes, &alice, "registry-1", NOW_MS + TTL_MS - 1), LAKE_OK);
    assert_int_equal(open_as(keys, bytes, &alice, "registry-1", NOW_MS + TTL_MS),
                     LAKE_FAILED_PRECONDITION);
    assert_int_equal(
        open_as(keys, bytes, &alice, "registry-1", NOW_MS - QUERY_TICKET_CLOCK_SKEW_MS), LAKE_OK);
    assert_int_equal(
        open_as(keys, bytes, &alice, "registry-1", NOW_MS - QUERY_TICKET_CLOCK_SKEW_MS - 1),
        LAKE_UNAUTHENTICATED);
    base_buffer_fini(&sealed);
    query_ticket_keys_free(keys);
}

/* ---- key files (TIX-2) ---- */

#define KEY_A "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define KEY_B "11112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define KEY_C "22112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define KEY_D "33112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define KEY_E "44112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static char key_path[] = "/tmp/lake-ticket-keys-XXXXXX";

static lake_status open_file(const char *text, mode_t mode, struct query_ticket_keys **out)
{
    FILE *file = fopen(key_path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(key_path, mode), 0);
    return query_ticket_keys_open(key_path, out, NULL);
}

static void a_rotated_key_still_opens_and_a_removed_one_does_not(void **state)
{
    (void)state;
    struct query_ticket_keys *before = NULL, *rotated = NULL, *removed = NULL;
    struct base_buffer sealed;
    base_buffer_init(&sealed, 1 << 20);
    assert_int_equal(open_file("{\"active\": \"" KEY_A "\"}", 0600, &before), LAKE_OK);
    seal(before, &sealed);
    struct lake_bytes bytes = base_buffer_view(&sealed);
    assert_int_equal(
        open_file("{\"active\": \"" KEY_B "\", \"verification\": [\"" KEY_A "\"]}", 0600, &rotated),
        LAKE_OK);
    assert_int_equal(open_as(rotated, bytes, &alice, "registry-1", NOW_MS), LAKE_OK);
    assert_int_equal(open_file("{\"active\": \"" KEY_B "\"}", 0600, &removed), LAKE_OK);
    assert_int_equal(open_as(removed, bytes, &alice, "registry-1", NOW_MS), LAKE_UNAUTHENTICATED);
    base_buffer_fini(&sealed);
    query_ticket_keys_free(before);
    query_ticket_keys_free(rotated);
    query_ticket_keys_free(removed);
}

static void malformed_key_files_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "{\"active\": 7}",
        "{\"active\": \"00\"}",
        "{\"active\": \"" KEY_A "\", \"extra\": 1}",
        "{\"active\": \"" KEY_A "\", \"active\": \"" KEY_B "\"}",
        "{\"active\": \"" KEY_A "\", \"verification\": \"" KEY_B "\"}",
        "{\"active\": \"" KEY_A "\", \"verification\": [\"" KEY_A "\"]}",
        "{\"active\": \"" KEY_A "\", \"verification\": [\"" KEY_B "\", \"" KEY_C "\", \"" KEY_D
        "\", \"" KEY_E "\"]}",
        "{\"active\": \"zz112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}",
    };
    struct query_ticket_keys *keys = NULL;
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++)
        assert_int_not_equal(open_file(bad[i], 0600, &keys), LAKE_OK);
    assert_int_not_equal(open_file("{\"active\": \"" KEY_A "\"}", 0640, &keys), LAKE_OK);
    assert_int_equal(open_file("{\"active\": \"" KEY_A "\", \"verification\": [\"" KEY_B
                               "\", \"" KEY_C "\", \"" KEY_D "\"]}",
                               0600, &keys),
                     LAKE_OK);
    query_ticket_keys_free(keys);
}

static int make_key_file(void **state)
{
    (void)state;
    int descriptor = mkstemp(key_path);
    return descriptor < 0 ? -1 : close(descriptor);
}

static int remove_key_file(void **state)
{
    (void)state;
    return unlink(key_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ticket_opens_to_what_was_sealed),
        cmocka_unit_test(any_changed_bit_is_refused),
        cmocka_unit_test(another_principal_tenant_audience_or_purpose_is_refused),
        cmocka_unit_test(a_ticket_lives_exactly_its_life),
        cmocka_unit_test(a_rotated_key_still_opens_and_a_removed_one_does_not),
        cmocka_unit_test(malformed_key_files_are_refused),
    };
    return cmocka_run_group_tests(tests, make_key_file, remove_key_file);
}
