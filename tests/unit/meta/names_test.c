/* Names of tables and namespaces, and the identities that may use them (NAT-13). */
#include "meta_fixture.h"

static lake_status parse(const char *namespace_name, const char *table, struct lake_error *err)
{
    struct meta_name name;
    return meta_name_parse(base_str_of(namespace_name), base_str_of(table), &name, err);
}

static void name_of_128_bytes_is_accepted_and_of_129_is_not(void **state)
{
    (void)state;
    char text[130];
    memset(text, 'a', sizeof(text));
    text[128] = '\0';
    assert_int_equal(parse("ns", text, NULL), LAKE_OK);
    assert_int_equal(parse(text, "t", NULL), LAKE_OK);
    text[128] = 'a';
    text[129] = '\0';
    assert_int_equal(parse("ns", text, NULL), LAKE_INVALID_ARGUMENT);
    assert_int_equal(parse(text, "t", NULL), LAKE_INVALID_ARGUMENT);
}

static void names_hold_letters_digits_underscore_and_inner_hyphen_only(void **state)
{
    (void)state;
    assert_int_equal(parse("a-b_9", "Z0", NULL), LAKE_OK);
    assert_int_equal(parse("_a", "_b", NULL), LAKE_OK);
    static const char *const bad[] = {"",   "-a",        "a.b", "a/b", "a b",
                                      "..", "a\xc3\xa4", "a\n", "__x"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++) {
        assert_int_equal(parse(bad[i], "t", NULL), LAKE_INVALID_ARGUMENT);
        assert_int_equal(parse("ns", bad[i], NULL), LAKE_INVALID_ARGUMENT);
    }
    struct meta_name name;
    assert_int_equal(meta_name_parse(LAKE_STR("ns"), LAKE_STR("a\0b"), &name, NULL),
                     LAKE_INVALID_ARGUMENT);
}

static void message_tells_byte_and_position_but_not_the_name(void **state)
{
    (void)state;
    struct lake_error err;
    assert_int_equal(parse("ns", "secret\x1b[31m", &err), LAKE_INVALID_ARGUMENT);
    assert_contains(err.message, "0x1b at position 6");
    assert_null(strstr(err.message, "secret"));
}

static void namespaces_that_engines_use_are_reserved_in_every_case(void **state)
{
    (void)state;
    static const char *const reserved[] = {
        "main", "MAIN", "information_schema", "pg_catalog", "temp", "system", "Lake", "iceberg"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(reserved); i++)
        assert_int_equal(parse(reserved[i], "t", NULL), LAKE_INVALID_ARGUMENT);
    assert_int_equal(parse("ns", "main", NULL), LAKE_OK);
}

static void key_is_folded_and_spelling_is_kept(void **state)
{
    (void)state;
    struct meta_name name = name_of("Robots", "Episodes_A");
    assert_string_equal(name.namespace_name, "Robots");
    assert_string_equal(name.table, "Episodes_A");
    assert_string_equal(name.namespace_key, "robots");
    assert_string_equal(name.table_key, "episodes_a");
}

static lake_status delegate(const struct rpc_principal *caller, const char *principal,
                            const char *tenant, const char *namespaces, struct meta_identity *out)
{
    return meta_identity_init(out, caller, base_str_of(principal), base_str_of(tenant),
                              base_str_of(namespaces), NULL);
}

static void user_may_use_granted_namespaces_in_any_case(void **state)
{
    (void)state;
    struct meta_identity identity;
    identity_of(&identity, &anna);
    assert_true(meta_identity_may_use(&identity, "robots"));
    assert_int_equal(meta_identity_require(&identity, "ROBOTS", NULL), LAKE_OK);
    assert_false(meta_identity_may_use(&identity, "robot"));
    assert_false(meta_identity_may_use(&identity, "robots2"));
    struct lake_error err;
    assert_int_equal(meta_identity_require(&identity, "other", &err), LAKE_PERMISSION_DENIED);
    assert_contains(err.message, "\"anna\"");
    assert_contains(err.message, "\"other\"");
    assert_false(meta_identity_sees_all(&identity));
    meta_identity_fini(&identity);
}

static void user_naming_another_principal_is_refused(void **state)
{
    (void)state;
    struct meta_identity identity;
    assert_int_equal(delegate(&anna, "root", "ops", "*", &identity), LAKE_PERMISSION_DENIED);
    assert_int_equal(delegate(&anna, "", "ops", "", &identity), LAKE_PERMISSION_DENIED);
    assert_int_equal(delegate(&peer, "root", "ops", "*", &identity), LAKE_PERMISSION_DENIED);
}

static void query_service_acts_with_the_grants_of_the_principal_it_names(void **state)
{
    (void)state;
    struct meta_identity identity;
    assert_int_equal(delegate(&query_service, "anna", "t1", "robots, Arms", &identity), LAKE_OK);
    assert_int_equal(identity.role, RPC_ROLE_USER);
    assert_string_equal(identity.principal_id, "anna");
    assert_string_equal(identity.tenant_id, "t1");
    assert_true(meta_identity_may_use(&identity, "robots"));
    assert_true(meta_identity_may_use(&identity, "arms"));
    assert_false(meta_identity_may_use(&identity, "legs"));
    meta_identity_fini(&identity);

    assert_int_equal(delegate(&query_service, "anna", "t1", "", &identity), LAKE_OK);
    assert_false(meta_identity_may_use(&identity, "robots"));
    meta_identity_fini(&identity);
}

static void delegation_cannot_exceed_the_grants_of_the_query_service(void **state)
{
    (void)state;
    struct rpc_principal narrow = query_service;
    narrow.all_namespaces = false;
    narrow.namespaces = robots_only;
    narrow.namespace_count = 1;
    struct meta_identity identity;
    assert_int_equal(delegate(&narrow, "anna", "t1", "*", &identity), LAKE_OK);
    assert_true(meta_identity_may_use(&identity, "robots"));
    assert_false(meta_identity_may_use(&identity, "arms"));
    assert_false(meta_identity_sees_all(&identity));
    meta_identity_fini(&identity);
}

static void delegation_without_principal_or_with_unsafe_tenant_is_refused(void **state)
{
    (void)state;
    struct meta_identity identity;
    assert_int_equal(delegate(&query_service, "", "t1", "*", &identity), LAKE_INVALID_ARGUMENT);
    assert_int_equal(delegate(&query_service, "anna", "", "*", &identity), LAKE_INVALID_ARGUMENT);
    static const char *const unsafe[] = {"..", ".a", "a/b", "a\\b", "a%2fb", "-a", "a b"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(unsafe); i++)
        assert_int_equal(delegate(&query_service, "anna", unsafe[i], "*", &identity),
                         LAKE_INVALID_ARGUMENT);
}

static void metadata_peer_may_use_nothing(void **state)
{
    (void)state;
    struct meta_identity identity;
    identity_of(&identity, &peer);
    assert_false(meta_identity_may_use(&identity, "robots"));
    assert_false(meta_identity_sees_all(&identity));
    meta_identity_fini(&identity);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_of_128_bytes_is_accepted_and_of_129_is_not),
        cmocka_unit_test(names_hold_letters_digits_underscore_and_inner_hyphen_only),
        cmocka_unit_test(message_tells_byte_and_position_but_not_the_name),
        cmocka_unit_test(namespaces_that_engines_use_are_reserved_in_every_case),
        cmocka_unit_test(key_is_folded_and_spelling_is_kept),
        cmocka_unit_test(user_may_use_granted_namespaces_in_any_case),
        cmocka_unit_test(user_naming_another_principal_is_refused),
        cmocka_unit_test(query_service_acts_with_the_grants_of_the_principal_it_names),
        cmocka_unit_test(delegation_cannot_exceed_the_grants_of_the_query_service),
        cmocka_unit_test(delegation_without_principal_or_with_unsafe_tenant_is_refused),
        cmocka_unit_test(metadata_peer_may_use_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
