/* libs: rpc */
/* labels: concurrent */
/* Who a caller is (SEC-1, SEC-4, F07). */
#include "fixture.h"

static char directory[64];
static char path[128];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "/tmp/lake-rpc-identity-XXXXXX");
    if (mkdtemp(directory) == NULL) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/principals.json", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(directory);
}

static const char two_principals[] =
    "{\"principals\": ["
    "{\"token\": \"token-of-ann\", \"principal_id\": \"ann\", \"tenant_id\": \"lab\","
    " \"role\": \"user\", \"namespaces\": [\"robots\", \"arms\"]},"
    "{\"token\": \"second-token-of-ann\", \"principal_id\": \"ann\", \"tenant_id\": \"lab\","
    " \"role\": \"user\", \"namespaces\": [\"arms\", \"robots\"]},"
    "{\"token\": \"token-of-query\", \"principal_id\": \"query\", \"tenant_id\": \"ops\","
    " \"role\": \"query_service\", \"namespaces\": [\"*\"]}]}";

static struct rpc_authenticator *load(const char *text)
{
    struct lake_error err = {0};
    struct rpc_authenticator *authenticator = NULL;
    write_file(path, text, 0600);
    assert_ok(rpc_authenticator_new(path, NULL, &authenticator, &err), &err);
    return authenticator;
}

static void bearer_token_gives_its_principal(void **state)
{
    (void)state;
    struct rpc_authenticator *a = load(two_principals);
    assert_false(rpc_authenticator_is_anonymous(a));
    struct lake_error err = {0};
    const struct rpc_principal *p = NULL;
    assert_ok(rpc_authenticate(a, LAKE_STR("Bearer token-of-ann"), &p, &err), &err);
    assert_string_equal(p->principal_id, "ann");
    assert_string_equal(p->tenant_id, "lab");
    assert_int_equal(p->role, RPC_ROLE_USER);
    assert_false(p->all_namespaces);
    assert_true(rpc_principal_may_use_namespace(p, LAKE_STR("robots")));
    assert_true(rpc_principal_may_use_namespace(p, LAKE_STR("arms")));
    assert_false(rpc_principal_may_use_namespace(p, LAKE_STR("arm")));
    assert_false(rpc_principal_may_use_namespace(p, LAKE_STR("*")));
    assert_ok(rpc_authenticate(a, LAKE_STR("Bearer second-token-of-ann"), &p, &err), &err);
    assert_string_equal(p->principal_id, "ann");
    assert_ok(rpc_authenticate(a, LAKE_STR("Bearer token-of-query"), &p, &err), &err);
    assert_int_equal(p->role, RPC_ROLE_QUERY_SERVICE);
    assert_true(rpc_principal_may_use_namespace(p, LAKE_STR("anything")));
    rpc_authenticator_free(a);
}

static void the_schemes_case_does_not_matter(void **state)
{
    (void)state;
    struct rpc_authenticator *a = load(two_principals);
    const char *spellings[] = {"bearer token-of-ann", "BEARER token-of-ann",
                               "bEaReR   token-of-ann"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(spellings); i++) {
        struct lake_error err = {0};
        const struct rpc_principal *p = NULL;
        assert_ok(rpc_authenticate(a, base_str_of(spellings[i]), &p, &err), &err);
        assert_string_equal(p->principal_id, "ann");
    }
    rpc_authenticator_free(a);
}

static void every_wrong_credential_gets_the_same_answer(void **state)
{
    (void)state;
    struct rpc_authenticator *a = load(two_principals);
    static char long_one[6000];
    memset(long_one, 'x', sizeof(long_one) - 1);
    memcpy(long_one, "Bearer ", 7);
    const char *wrong[] = {"",
                           "Bearer",
                           "Bearer ",
                           "token-of-ann",
                           "Basic dXNlcjpwYXNz",
                           "Bearer token-of-an",
                           "Bearer token-of-anna",
                           "Bearer TOKEN-OF-ANN",
                           "Bearer token-of-ann ",
                           "Bearertoken-of-ann",
                           "Bearer\ttoken-of-ann",
                           "Bearer token-of-ann, Bearer token-of-ann",
                           long_one};
    struct lake_error first = {0};
    for (size_t i = 0; i < BASE_ARRAY_LEN(wrong); i++) {
        struct lake_error err = {0};
        const struct rpc_principal *p = NULL;
        assert_int_equal(rpc_authenticate(a, base_str_of(wrong[i]), &p, &err),
                         LAKE_UNAUTHENTICATED);
        assert_null(p);
        if (i == 0) {
            first = err;
        }
        assert_string_equal(err.message, first.message);
        assert_null(strstr(err.message, "token-of"));
        assert_string_equal(err.cause, "");
    }
    rpc_authenticator_free(a);
}

static void many_principals_are_all_found(void **state)
{
    (void)state;
    struct base_buffer text;
    struct lake_error err = {0};
    base_buffer_init(&text, 1 << 20);
    enum {
        COUNT = 2000
    };
    assert_ok(base_buffer_printf(&text, &err, "{\"principals\":["), &err);
    for (int i = 0; i < COUNT; i++) {
        assert_ok(
            base_buffer_printf(&text, &err,
                               "%s{\"token\":\"t-%d\",\"principal_id\":\"p-%d\","
                               "\"tenant_id\":\"x\",\"role\":\"admin\",\"namespaces\":[\"*\"]}",
                               i == 0 ? "" : ",", i, i),
            &err);
    }
    assert_ok(base_buffer_append(&text, "]}", 3, &err), &err);
    struct rpc_authenticator *a = load((const char *)text.data);
    base_buffer_fini(&text);
    for (int i = 0; i < COUNT; i++) {
        char header[32];
        char name[32];
        const struct rpc_principal *p = NULL;
        snprintf(header, sizeof(header), "Bearer t-%d", i);
        snprintf(name, sizeof(name), "p-%d", i);
        assert_ok(rpc_authenticate(a, base_str_of(header), &p, &err), &err);
        assert_string_equal(p->principal_id, name);
    }
    rpc_authenticator_free(a);
}

#define ENTRY(token, id, tenant, role, namespaces)                                         \
    "{\"token\":" token ",\"principal_id\":" id ",\"tenant_id\":" tenant ",\"role\":" role \
    ",\"namespaces\":" namespaces "}"

static void malformed_files_are_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *part;
    } cases[] = {
        {"{\"principals\": [", "not valid JSON"},
        {"[]", "must be {\"principals\""},
        {"{\"principals\": []}", "must be {\"principals\""},
        {"{\"principals\": {}}", "must be {\"principals\""},
        {"{\"principals\": [1]}", "principals[0]: must be an object"},
        {"{\"principals\": [], \"more\": 1}", "nothing else"},
        {"{\"principals\": [{\"token\":\"t\"}]}", "exactly token"},
        {"{\"principals\": [{\"token\":\"t\",\"principal_id\":\"p\",\"tenant_id\":\"x\","
         "\"role\":\"user\",\"other\":[\"*\"]}]}",
         "exactly token"},
        {"{\"principals\": [" ENTRY("\"secret one\"", "\"p\"", "\"x\"", "\"user\"", "[\"*\"]") "]}",
         "\"token\" must"},
        {"{\"principals\": [" ENTRY("\"\"", "\"p\"", "\"x\"", "\"user\"", "[\"*\"]") "]}",
         "\"token\" must"},
        {"{\"principals\": [" ENTRY("7", "\"p\"", "\"x\"", "\"user\"", "[\"*\"]") "]}",
         "\"token\" must"},
        {"{\"principals\": [" ENTRY("\"t\"", "\"\"", "\"x\"", "\"user\"", "[\"*\"]") "]}",
         "\"principal_id\" must"},
        {"{\"principals\": [" ENTRY("\"t\"", "\"p\"", "null", "\"user\"", "[\"*\"]") "]}",
         "\"tenant_id\" must"},
        {"{\"principals\": [" ENTRY("\"t\"", "\"p\"", "\"x\"", "\"root\"", "[\"*\"]") "]}",
         "\"role\" must"},
        {"{\"principals\": [" ENTRY("\"t\"", "\"p\"", "\"x\"", "\"user\"", "[]") "]}",
         "\"namespaces\" must"},
        {"{\"principals\": [" ENTRY("\"t\"", "\"p\"", "\"x\"", "\"user\"", "\"*\"") "]}",
         "\"namespaces\" must"},
        {"{\"principals\": [" ENTRY("\"t\"", "\"p\"", "\"x\"", "\"user\"", "[\"a\",\"*\"]") "]}",
         "must stand alone"},
        {"{\"principals\": [" ENTRY("\"t\"", "\"p\"", "\"x\"", "\"user\"", "[\"a\",\"a\"]") "]}",
         "listed twice"},
        {"{\"principals\": [" ENTRY("\"t\"", "\"p\"", "\"x\"", "\"user\"", "[\"a\"]") "," ENTRY(
             "\"t\"", "\"q\"", "\"x\"", "\"user\"", "[\"a\"]") "]}",
         "same token"},
        {"{\"principals\": [" ENTRY("\"t\"", "\"p\"", "\"x\"", "\"user\"", "[\"a\"]") "," ENTRY(
             "\"u\"", "\"p\"", "\"x\"", "\"admin\"", "[\"a\"]") "]}",
         "different rights"},
        {"{\"principals\": [{\"token\":\"t\",\"token\":\"t\",\"principal_id\":\"p\","
         "\"tenant_id\":\"x\",\"role\":\"user\",\"namespaces\":[\"*\"]}]}",
         "each key once"},
        {"{\"principals\": [" ENTRY("\"t\"", "\"p\"", "\"x\"", "\"user\"", "[\"*\"]") "]} x",
         "not valid JSON"},
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(cases); i++) {
        struct lake_error err = {0};
        struct rpc_authenticator *a = NULL;
        write_file(path, cases[i].text, 0600);
        assert_failed(LAKE_INVALID_ARGUMENT, cases[i].part,
                      rpc_authenticator_new(path, NULL, &a, &err), &err);
        assert_null(a);
        assert_non_null(strstr(err.message, path));
        assert_null(strstr(err.message, "secret one"));
    }
}

static void file_with_group_or_other_bits_is_refused(void **state)
{
    (void)state;
    const mode_t modes[] = {0640, 0604, 0660, 0644, 0610};
    for (size_t i = 0; i < BASE_ARRAY_LEN(modes); i++) {
        struct lake_error err = {0};
        struct rpc_authenticator *a = NULL;
        write_file(path, two_principals, modes[i]);
        assert_int_not_equal(rpc_authenticator_new(path, NULL, &a, &err), LAKE_OK);
        assert_non_null(strstr(err.message, path));
        assert_int_not_equal(rpc_authenticator_new(NULL, path, &a, &err), LAKE_OK);
        assert_null(a);
    }
    struct lake_error err = {0};
    struct rpc_authenticator *a = NULL;
    assert_int_not_equal(rpc_authenticator_new(directory, NULL, &a, &err), LAKE_OK);
    assert_int_not_equal(rpc_authenticator_new("/nonexistent", NULL, &a, &err), LAKE_OK);
}

static void token_file_makes_one_admin(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_authenticator *a = NULL;
    const struct rpc_principal *p = NULL;
    write_file(path, "only-token\n", 0600);
    assert_ok(rpc_authenticator_new(NULL, path, &a, &err), &err);
    assert_ok(rpc_authenticate(a, LAKE_STR("Bearer only-token"), &p, &err), &err);
    assert_int_equal(p->role, RPC_ROLE_ADMIN);
    assert_true(p->all_namespaces);
    assert_int_equal(rpc_authenticate(a, LAKE_STR("Bearer only-token2"), &p, &err),
                     LAKE_UNAUTHENTICATED);
    rpc_authenticator_free(a);
    a = NULL;
    write_file(path, "two tokens\n", 0600);
    assert_failed(LAKE_INVALID_ARGUMENT, "one token", rpc_authenticator_new(NULL, path, &a, &err),
                  &err);
}

static void both_files_at_once_are_an_error(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_authenticator *a = NULL;
    write_file(path, two_principals, 0600);
    setenv("LAKE_AUTH_PRINCIPALS_FILE", path, 1);
    setenv("LAKE_AUTH_TOKEN_FILE", path, 1);
    assert_failed(LAKE_INVALID_ARGUMENT, "exclude each other",
                  rpc_authenticator_from_environment(&a, &err), &err);
    unsetenv("LAKE_AUTH_TOKEN_FILE");
    assert_ok(rpc_authenticator_from_environment(&a, &err), &err);
    assert_false(rpc_authenticator_is_anonymous(a));
    rpc_authenticator_free(a);
    unsetenv("LAKE_AUTH_PRINCIPALS_FILE");
}

static void no_file_makes_everyone_the_development_principal(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_authenticator *a = NULL;
    const struct rpc_principal *p = NULL;
    assert_ok(rpc_authenticator_from_environment(&a, &err), &err);
    assert_true(rpc_authenticator_is_anonymous(a));
    assert_ok(rpc_authenticate(a, LAKE_STR(""), &p, &err), &err);
    assert_string_equal(p->principal_id, "development");
    assert_string_equal(p->tenant_id, "development");
    assert_int_equal(p->role, RPC_ROLE_ADMIN);
    assert_true(p->all_namespaces);
    rpc_authenticator_free(a);
}

/* ---- over the wire ---- */

static void every_call_is_authenticated(void **state)
{
    (void)state;
    struct fixture f;
    write_file(path, two_principals, 0600);
    fixture_start(&f, NULL, path);
    const char *methods[] = {"/t.T/Echo",  "/t.T/Upload", "/grpc.health.v1.Health/Check",
                             "/t.T/Block", "/t.T/None",   "/grpc.health.v1.Health/Watch"};
    struct rpc_channel *wrong = channel_to(f.target, "wrong");
    for (size_t i = 0; i < BASE_ARRAY_LEN(methods); i++) {
        struct lake_error err = {0};
        char reply[64];
        assert_int_equal(unary_text(f.channel, methods[i], "x", 5000, reply, sizeof(reply), &err),
                         LAKE_UNAUTHENTICATED);
        assert_int_equal(unary_text(wrong, methods[i], "x", 5000, reply, sizeof(reply), &err),
                         LAKE_UNAUTHENTICATED);
    }
    assert_int_equal(atomic_load(&f.started), 0);
    rpc_channel_unref(wrong);

    struct lake_error err = {0};
    char reply[64];
    struct rpc_channel *ann = channel_to(f.target, "token-of-ann");
    assert_ok(unary_text(ann, "/t.T/Describe", "", INT64_MAX, reply, sizeof(reply), &err), &err);
    assert_string_equal(reply, "ann lab 0 ipv4 forever ");
    rpc_channel_unref(ann);
    assert_ok(unary_text(f.channel, "/t.T/Handshake", "", INT64_MAX, reply, sizeof(reply), &err),
              &err);
    assert_string_equal(reply, "nobody - -1 ipv4 forever ");
    fixture_stop(&f);
}

/* F07: which of two would win must never matter. */
static void case_F07_two_authorization_headers_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    write_file(path, two_principals, 0600);
    fixture_start(&f, NULL, path);
    struct rpc_channel *ann = channel_to(f.target, "token-of-ann");
    const struct rpc_header seconds[] = {{"authorization", LAKE_STR("Bearer token-of-ann")},
                                         {"authorization", LAKE_STR("Bearer token-of-query")}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(seconds); i++) {
        struct lake_error err = {0};
        struct rpc_client_call *call = NULL;
        assert_ok(rpc_client_call_start(ann, "/t.T/Echo", &seconds[i], 1, 5000, &call, &err), &err);
        assert_ok(rpc_client_call_finish_sending(call, &err), &err);
        struct rpc_payload reply = {{NULL, 0}, NULL};
        bool end = false;
        assert_failed(LAKE_UNAUTHENTICATED, "exactly one",
                      rpc_client_call_receive(call, &reply, &end, &err), &err);
        rpc_client_call_free(call);
    }
    assert_int_equal(atomic_load(&f.started), 0);
    rpc_channel_unref(ann);
    fixture_stop(&f);
}

static void explicit_authorization_header_in_lower_case_works(void **state)
{
    (void)state;
    struct fixture f;
    write_file(path, two_principals, 0600);
    fixture_start(&f, NULL, path);
    struct lake_error err = {0};
    struct rpc_header header = {"authorization", LAKE_STR("bearer token-of-query")};
    struct rpc_client_call *call = NULL;
    assert_ok(rpc_client_call_start(f.channel, "/t.T/Describe", &header, 1, 5000, &call, &err),
              &err);
    assert_ok(rpc_client_call_finish_sending(call, &err), &err);
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = true;
    assert_ok(rpc_client_call_receive(call, &reply, &end, &err), &err);
    assert_memory_equal(reply.bytes.data, "query ops 1 ", 12);
    rpc_payload_fini(&reply);
    rpc_client_call_free(call);
    fixture_stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bearer_token_gives_its_principal),
        cmocka_unit_test(the_schemes_case_does_not_matter),
        cmocka_unit_test(every_wrong_credential_gets_the_same_answer),
        cmocka_unit_test(many_principals_are_all_found),
        cmocka_unit_test(malformed_files_are_refused_with_the_reason),
        cmocka_unit_test(file_with_group_or_other_bits_is_refused),
        cmocka_unit_test(token_file_makes_one_admin),
        cmocka_unit_test(both_files_at_once_are_an_error),
        cmocka_unit_test(no_file_makes_everyone_the_development_principal),
        cmocka_unit_test(every_call_is_authenticated),
        cmocka_unit_test(case_F07_two_authorization_headers_are_refused),
        cmocka_unit_test(explicit_authorization_header_in_lower_case_works),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
