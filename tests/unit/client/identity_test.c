/* libs: meta query */
/* Who may do what, as the client sees it (SEC-1, SEC-2, SQL-7, OBJ-2), and over TLS. */
#include "client_fixture.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

static char directory[256];
static char principals_path[300];
static char token_path[300];
static char cert_path[300];
static char key_path[300];
static char *ca_pem;

static void write_file(char path[300], const char *name, const char *text)
{
    snprintf(path, 300, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, 0600), 0);
}

/* A certificate that signs itself, for the name lake.test. */
static void write_certificate(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509V3_CTX context;
    char *data = NULL;
    BIO *memory = BIO_new(BIO_s_mem());
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 7);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_set_pubkey(cert, key);
    X509_NAME *name = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"lake", -1, -1, 0);
    X509_set_issuer_name(cert, name);
    X509V3_set_ctx(&context, cert, cert, NULL, NULL, 0);
    X509_EXTENSION *extension =
        X509V3_EXT_conf_nid(NULL, &context, NID_subject_alt_name, "DNS:lake.test");
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_bio_X509(memory, cert), 1);
    long size = BIO_get_mem_data(memory, &data);
    ca_pem = base_strndup(data, (size_t)size);
    write_file(cert_path, "cert.pem", ca_pem);
    write_file(key_path, "key.pem", "");
    FILE *file = fopen(key_path, "w");
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
    BIO_free(memory);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static int setup(void **state)
{
    struct temp_directory made = temp_directory_make();
    snprintf(directory, sizeof(directory), "%s", made.path);
    write_file(
        principals_path, "principals.json",
        "{\"principals\": ["
        "{\"token\": \"token-of-ann\", \"principal_id\": \"ann\", \"tenant_id\": \"lab\","
        " \"role\": \"user\", \"namespaces\": [\"robots\", \"shared\"]},"
        "{\"token\": \"token-of-bob\", \"principal_id\": \"bob\", \"tenant_id\": \"arms\","
        " \"role\": \"user\", \"namespaces\": [\"shared\"]},"
        "{\"token\": \"token-of-query\", \"principal_id\": \"query\", \"tenant_id\": \"ops\","
        " \"role\": \"query_service\", \"namespaces\": [\"*\"]}]}");
    write_file(token_path, "token", "token-of-query\n");
    write_certificate();
    const struct fixture_options options = {.principals_path = principals_path,
                                            .meta_token_path = token_path};
    *state = fixture_serve(&options);
    return 0;
}

static int teardown(void **state)
{
    fixture_free(*state);
    base_free(ca_pem);
    temp_tree_remove(directory);
    return 0;
}

static lake_status connect_as(struct fixture *fixture, const char *token, lake_client **out)
{
    struct lake_connect_options options = LAKE_CONNECT_OPTIONS_INIT;
    options.bearer_token = token;
    return lake_connect(fixture->address, &options, out, &fixture->err);
}

static void a_missing_or_wrong_token_is_refused_with_one_text(void **state)
{
    struct fixture *fixture = *state;
    static const char *const wrong[] = {NULL, "", "token", "token-of-ann ", "TOKEN-OF-ANN"};
    char text[LAKE_ERROR_MESSAGE_BYTES] = "";
    for (size_t i = 0; i < BASE_ARRAY_LEN(wrong); i++) {
        lake_client *client = NULL;
        lake_status status = connect_as(fixture, wrong[i], &client);
        assert_true(status == LAKE_UNAUTHENTICATED ||
                    (i == 1 && status == LAKE_INVALID_ARGUMENT)); /* an empty one is none */
        assert_null(client);
        assert_null(strstr(fixture->err.message, "token-of"));
        if (status == LAKE_UNAUTHENTICATED && text[0] == '\0')
            snprintf(text, sizeof(text), "%s", fixture->err.message);
        if (status == LAKE_UNAUTHENTICATED)
            assert_string_equal(fixture->err.message, text);
    }
}

static void what_is_hidden_missing_or_forbidden_looks_the_same(void **state)
{
    struct fixture *fixture = *state;
    struct lake_table_list list;
    struct lake_value value = whole(1);
    lake_client *ann = NULL;
    struct lake_compaction compaction;
    lake_client *bob = NULL;
    OK(fixture, connect_as(fixture, "token-of-ann", &ann));
    OK(fixture, connect_as(fixture, "token-of-bob", &bob));
    fixture->client = ann;
    CREATE(fixture, "robots.t", "id:int64");
    CREATE(fixture, "shared.t", "id:int64");
    static const char *const statements[] = {"SELECT * FROM robots.t", "SELECT * FROM robots.none",
                                             "SELECT * FROM nowhere.t",
                                             "SELECT 1 FROM shared.t, robots.t"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(statements); i++) {
        struct ArrowArrayStream stream;
        FAILS(fixture, LAKE_PERMISSION_DENIED, "you may not read the table",
              lake_query(bob, statements[i], &stream, &fixture->err));
    }
    FAILS(fixture, LAKE_PERMISSION_DENIED, "",
          lake_insert(bob, "INSERT INTO robots.t (id) VALUES (?)", &value, 1, NULL, &fixture->err));
    FAILS(fixture, LAKE_PERMISSION_DENIED, "", lake_drop_table(bob, "robots.t", &fixture->err));
    FAILS(fixture, LAKE_PERMISSION_DENIED, "",
          lake_compact_table(bob, "robots.t", 30000, &compaction, &fixture->err));
    struct lake_tag_list tags;
    FAILS(fixture, LAKE_PERMISSION_DENIED, "",
          lake_create_tag(bob, "robots.t", "mine", 0, NULL, &fixture->err));
    FAILS(fixture, LAKE_PERMISSION_DENIED, "",
          lake_delete_tag(bob, "robots.t", "mine", &fixture->err));
    FAILS(fixture, LAKE_PERMISSION_DENIED, "",
          lake_list_tags(bob, "robots.t", &tags, &fixture->err));
    struct lake_branch_list branches;
    FAILS(fixture, LAKE_PERMISSION_DENIED, "",
          lake_create_branch(bob, "robots.t", "mine", NULL, 0, NULL, &fixture->err));
    FAILS(fixture, LAKE_PERMISSION_DENIED, "",
          lake_delete_branch(bob, "robots.t", "mine", &fixture->err));
    FAILS(fixture, LAKE_PERMISSION_DENIED, "",
          lake_list_branches(bob, "robots.t", &branches, &fixture->err));
    FAILS(fixture, LAKE_PERMISSION_DENIED, "",
          lake_restore_table(bob, "robots.t", 1, NULL, NULL, &fixture->err));
    struct lake_history history;
    struct lake_version_diff diff;
    FAILS(fixture, LAKE_PERMISSION_DENIED, "",
          lake_table_history(bob, "robots.t", 0, 10, &history, &fixture->err));
    FAILS(fixture, LAKE_PERMISSION_DENIED, "",
          lake_diff_versions(bob, "robots.t", 1, 1, &diff, &fixture->err));
    struct lake_table_info info;
    FAILS(fixture, LAKE_PERMISSION_DENIED, "",
          lake_describe_table(bob, "robots.t", &info, &fixture->err));
    OK(fixture, lake_list_tables(bob, NULL, &list, &fixture->err));
    assert_int_equal(list.count, 1);
    assert_string_equal(list.tables[0], "shared.t");
    lake_table_list_fini(&list);
    OK(fixture,
       lake_insert(bob, "INSERT INTO shared.t (id) VALUES (?)", &value, 1, NULL, &fixture->err));
    assert_int_equal(count_rows(fixture, "shared.t"), 1);
    lake_client_unref(bob);
    lake_client_unref(ann);
    fixture->client = NULL;
}

/* Two tenants share a table, but not their objects: Bob sees where Ann's video is and cannot read
 * it, nor make a row of his own refer to it. */
static void tenants_have_stages_of_their_own(void **state)
{
    struct fixture *fixture = *state;
    struct memory_source source = {(const uint8_t *)"abc", 3, 0, 0, 0};
    struct lake_value value = {.kind = LAKE_VALUE_FILE_SOURCE};
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    lake_client *ann = NULL;
    lake_client *bob = NULL;
    lake_client *bob_remote = NULL;
    lake_reader *reader = NULL;
    struct lake_connect_options options = LAKE_CONNECT_OPTIONS_INIT;
    OK(fixture, connect_as(fixture, "token-of-ann", &ann));
    OK(fixture, connect_as(fixture, "token-of-bob", &bob));
    options.bearer_token = "token-of-bob";
    OK(fixture, lake_connect_query_only(fixture->address, &options, &bob_remote, &fixture->err));
    fixture->client = ann;
    CREATE(fixture, "shared.files", "a:FILE");
    value.as.file_source.source = (struct lake_source){memory_read, &source};
    const char *sql = "INSERT INTO shared.files (a) VALUES (?)";
    OK(fixture, lake_insert(ann, sql, &value, 1, &result, &fixture->err));
    assert_non_null(strstr(result.locations[0].uri, "/tenants/lab/"));
    OK(fixture, lake_open(ann, &result.locations[0], &reader, &fixture->err));
    lake_reader_free(reader);
    FAILS(fixture, LAKE_PERMISSION_DENIED, "outside your stage",
          lake_open(bob, &result.locations[0], &reader, &fixture->err));
    struct lake_value stolen = {.kind = LAKE_VALUE_LOCATION};
    stolen.as.location = &result.locations[0];
    FAILS(fixture, LAKE_PERMISSION_DENIED, "outside your stage",
          lake_insert(bob, sql, &stolen, 1, NULL, &fixture->err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "stage of tenant \"arms\"",
          lake_insert(bob_remote, sql, &stolen, 1, NULL, &fixture->err));
    lake_insert_result_fini(&result);
    lake_client_unref(bob_remote);
    lake_client_unref(bob);
    lake_client_unref(ann);
    fixture->client = NULL;
}

static void tls_protects_who_checks_the_name(void **state)
{
    (void)state;
    const struct fixture_options options = {.tls_cert_path = cert_path, .tls_key_path = key_path};
    struct fixture *fixture = fixture_serve(&options);
    struct lake_connect_options connect = LAKE_CONNECT_OPTIONS_INIT;
    lake_client *client = NULL;
    connect.timeout_ms = 10000;
    connect.ca_pem = ca_pem;
    connect.server_name = "lake.test";
    OK(fixture, lake_connect(fixture->address, &connect, &client, &fixture->err));
    lake_client_unref(client);
    client = NULL;
    connect.server_name = "other.test";
    FAILS(fixture, LAKE_UNAVAILABLE, fixture->address,
          lake_connect(fixture->address, &connect, &client, &fixture->err));
    connect = (struct lake_connect_options)LAKE_CONNECT_OPTIONS_INIT;
    connect.timeout_ms = 10000;
    connect.tls = true; /* the system's authorities do not know this one */
    FAILS(fixture, LAKE_UNAVAILABLE, fixture->address,
          lake_connect(fixture->address, &connect, &client, &fixture->err));
    connect.tls = false;
    FAILS(fixture, LAKE_UNAVAILABLE, fixture->address,
          lake_connect(fixture->address, &connect, &client, &fixture->err));
    connect.ca_pem = "no certificate at all";
    assert_int_not_equal(lake_connect(fixture->address, &connect, &client, &fixture->err), LAKE_OK);
    assert_null(client);
    fixture_free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_or_wrong_token_is_refused_with_one_text),
        cmocka_unit_test(what_is_hidden_missing_or_forbidden_looks_the_same),
        cmocka_unit_test(tenants_have_stages_of_their_own),
        cmocka_unit_test(tls_protects_who_checks_the_name),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
