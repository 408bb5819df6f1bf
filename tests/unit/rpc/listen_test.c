/* libs: rpc */
/* labels: concurrent */
/* Where a server may listen, and TLS (SEC-2, SEC-3). */
#include "fixture.h"

#include <arpa/inet.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

static char directory[64];
static char token_path[128];
static char ca_path[128]; /* also the authority that clients know */
static char cert_path[128];
static char key_path[128];
static char other_ca_path[128];
static char other_key_path[128];
static char *ca_pem;
static char *other_ca_pem;

/* ---- certificates made here ---- */

static EVP_PKEY *new_key(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    assert_non_null(key);
    return key;
}

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* `issuer` NULL makes an authority. */
static X509 *new_cert(const char *name, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key,
                      const char *alternative_names)
{
    X509 *cert = X509_new();
    assert_non_null(cert);
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), issuer == NULL ? 1 : 2);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_set_pubkey(cert, key);
    X509_NAME *subject = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(cert, issuer == NULL ? subject : X509_get_subject_name(issuer));
    if (issuer == NULL) {
        add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE");
        add_extension(cert, cert, NID_key_usage, "critical,keyCertSign");
    } else {
        add_extension(cert, issuer, NID_subject_alt_name, alternative_names);
    }
    assert_true(X509_sign(cert, issuer_key, EVP_sha256()) > 0);
    return cert;
}

static void write_pem(const char *path, X509 *cert, EVP_PKEY *key)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    if (cert != NULL) {
        assert_int_equal(PEM_write_X509(file, cert), 1);
    } else {
        assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    }
    assert_int_equal(fclose(file), 0);
}

static char *read_text(const char *path)
{
    static char text[16384];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t size = fread(text, 1, sizeof(text) - 1, file);
    text[size] = '\0';
    fclose(file);
    return base_strdup(text);
}

static int prepare(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "/tmp/lake-rpc-listen-XXXXXX");
    if (mkdtemp(directory) == NULL) {
        return -1;
    }
    snprintf(token_path, sizeof(token_path), "%s/token", directory);
    snprintf(ca_path, sizeof(ca_path), "%s/ca.pem", directory);
    snprintf(cert_path, sizeof(cert_path), "%s/cert.pem", directory);
    snprintf(key_path, sizeof(key_path), "%s/key.pem", directory);
    snprintf(other_ca_path, sizeof(other_ca_path), "%s/other-ca.pem", directory);
    snprintf(other_key_path, sizeof(other_key_path), "%s/other-key.pem", directory);
    write_file(token_path, "the-token\n", 0600);
    EVP_PKEY *ca_key = new_key();
    EVP_PKEY *key = new_key();
    X509 *ca = new_cert("Test Authority", ca_key, NULL, ca_key, NULL);
    X509 *cert = new_cert("lake", key, ca, ca_key, "DNS:lake.test,IP:127.0.0.1");
    EVP_PKEY *other_key = new_key();
    X509 *other_ca = new_cert("Other Authority", other_key, NULL, other_key, NULL);
    write_pem(ca_path, ca, NULL);
    write_pem(cert_path, cert, NULL);
    write_pem(key_path, NULL, key);
    write_pem(other_ca_path, other_ca, NULL);
    write_pem(other_key_path, NULL, other_key);
    ca_pem = read_text(ca_path);
    other_ca_pem = read_text(other_ca_path);
    X509_free(other_ca);
    X509_free(cert);
    X509_free(ca);
    EVP_PKEY_free(other_key);
    EVP_PKEY_free(key);
    EVP_PKEY_free(ca_key);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    const char *paths[] = {token_path, ca_path, cert_path, key_path, other_ca_path, other_key_path};
    for (size_t i = 0; i < BASE_ARRAY_LEN(paths); i++) {
        (void)unlink(paths[i]);
    }
    base_free(ca_pem);
    base_free(other_ca_pem);
    return rmdir(directory);
}

/* ---- addresses ---- */

/* What rpc_server_new says to an address; with a token file when `authenticated`. */
static lake_status try_new(const char *address, bool authenticated, bool tls, bool allow_insecure,
                           struct lake_error *err)
{
    struct rpc_authenticator *authenticator = NULL;
    struct rpc_server *server = NULL;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    assert_ok(rpc_authenticator_new(NULL, authenticated ? token_path : NULL, &authenticator, err),
              err);
    options.address = address;
    options.authenticator = authenticator;
    options.allow_insecure = allow_insecure;
    if (tls) {
        options.tls_cert_path = cert_path;
        options.tls_key_path = key_path;
    }
    lake_status status = rpc_server_new(&options, &server, err);
    rpc_server_free(server);
    rpc_authenticator_free(authenticator);
    return status;
}

static void loopback_may_be_anonymous_and_plain(void **state)
{
    (void)state;
    const char *addresses[] = {"127.0.0.1:0", "127.9.8.7:0", "[::1]:0", "localhost:0"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(addresses); i++) {
        struct lake_error err = {0};
        assert_ok(try_new(addresses[i], false, false, false, &err), &err);
        assert_ok(try_new(addresses[i], true, true, false, &err), &err);
    }
}

static void any_other_listener_needs_identities_and_tls(void **state)
{
    (void)state;
    const char *addresses[] = {"0.0.0.0:0", "[::]:0", "10.1.2.3:0", "[2001:db8::1]:0",
                               "[::ffff:10.0.0.1]:0"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(addresses); i++) {
        struct lake_error err = {0};
        const char *a = addresses[i];
        assert_failed(LAKE_FAILED_PRECONDITION, "must authenticate",
                      try_new(a, false, false, false, &err), &err);
        assert_failed(LAKE_FAILED_PRECONDITION, "must authenticate",
                      try_new(a, false, true, false, &err), &err);
        assert_failed(LAKE_FAILED_PRECONDITION, "needs TLS", try_new(a, true, false, false, &err),
                      &err);
        assert_ok(try_new(a, true, true, false, &err), &err);
    }
}

static void allow_insecure_drops_only_tls(void **state)
{
    (void)state;
    struct lake_error err = {0};
    assert_ok(try_new("0.0.0.0:0", true, false, true, &err), &err);
    assert_failed(LAKE_FAILED_PRECONDITION, "must authenticate",
                  try_new("0.0.0.0:0", false, false, true, &err), &err);
    assert_failed(LAKE_FAILED_PRECONDITION, "must authenticate",
                  try_new("0.0.0.0:0", false, true, true, &err), &err);
}

static void malformed_addresses_are_refused(void **state)
{
    (void)state;
    const char *addresses[] = {
        "",       "127.0.0.1",    ":5000",  "127.0.0.1:",    "host:port", "127.0.0.1:65536",
        "::1:80", "127.0.0.1:-1", "a/b:80", "127.0.0.1:80x", "[]:80"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(addresses); i++) {
        struct lake_error err = {0};
        assert_int_equal(try_new(addresses[i], false, false, false, &err), LAKE_INVALID_ARGUMENT);
        struct rpc_channel *channel = NULL;
        struct rpc_channel_options options = {.target = addresses[i]};
        assert_int_equal(rpc_channel_open(&options, &channel, &err), LAKE_INVALID_ARGUMENT);
        assert_null(channel);
    }
}

static void busy_port_is_already_exists_with_a_clear_sentence(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    struct lake_error err = {0};
    struct rpc_server *second = NULL;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.address = f.target;
    options.authenticator = f.authenticator;
    assert_ok(rpc_server_new(&options, &second, &err), &err);
    assert_failed(LAKE_ALREADY_EXISTS, "the port is in use", rpc_server_start(second, &err), &err);
    assert_non_null(strstr(err.message, f.target));
    rpc_server_free(second);
    char reply[16];
    assert_ok(unary_text(f.channel, "/t.T/Echo", "x", 5000, reply, sizeof(reply), &err), &err);
    fixture_stop(&f);
}

static void foreign_address_is_an_invalid_argument(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_authenticator *authenticator = NULL;
    struct rpc_server *server = NULL;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    assert_ok(rpc_authenticator_new(NULL, token_path, &authenticator, &err), &err);
    options.address = "192.0.2.1:40000"; /* RFC 5737: nobody's */
    options.authenticator = authenticator;
    options.allow_insecure = true;
    assert_ok(rpc_server_new(&options, &server, &err), &err);
    assert_failed(LAKE_INVALID_ARGUMENT, "not an address of this machine",
                  rpc_server_start(server, &err), &err);
    rpc_server_free(server);
    rpc_authenticator_free(authenticator);
}

static void methods_are_checked_and_fixed_at_start(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    struct lake_error err = {0};
    assert_int_equal(rpc_server_add_method(f.server, "/t.T/More", false, handle_echo, &f, &err),
                     LAKE_FAILED_PRECONDITION);
    assert_int_equal(rpc_server_start(f.server, &err), LAKE_FAILED_PRECONDITION);
    fixture_stop(&f);

    struct rpc_authenticator *authenticator = NULL;
    struct rpc_server *server = NULL;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.address = "127.0.0.1:0";
    assert_ok(rpc_authenticator_new(NULL, NULL, &authenticator, &err), &err);
    options.authenticator = authenticator;
    assert_ok(rpc_server_new(&options, &server, &err), &err);
    assert_int_equal(rpc_server_add_method(server, "t.T/More", false, handle_echo, &f, &err),
                     LAKE_INVALID_ARGUMENT);
    assert_ok(rpc_server_add_method(server, "/t.T/More", false, handle_echo, &f, &err), &err);
    assert_int_equal(rpc_server_add_method(server, "/t.T/More", false, handle_echo, &f, &err),
                     LAKE_ALREADY_EXISTS);
    rpc_server_free(server);
    rpc_authenticator_free(authenticator);
}

static void options_come_from_the_environment(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_server_options options;
    setenv("LAKE_TLS_CERT_FILE", "/a", 1);
    setenv("LAKE_TLS_KEY_FILE", "/b", 1);
    setenv("LAKE_ALLOW_INSECURE", "true", 1);
    setenv("LAKE_RPC_MAX_METADATA_BYTES", "32768", 1);
    assert_ok(rpc_server_options_from_environment(&options, &err), &err);
    assert_string_equal(options.tls_cert_path, "/a");
    assert_string_equal(options.tls_key_path, "/b");
    assert_true(options.allow_insecure);
    assert_int_equal(options.max_metadata_bytes, 32768);
    setenv("LAKE_ALLOW_INSECURE", "maybe", 1);
    assert_failed(LAKE_INVALID_ARGUMENT, "LAKE_ALLOW_INSECURE",
                  rpc_server_options_from_environment(&options, &err), &err);
    unsetenv("LAKE_TLS_CERT_FILE");
    unsetenv("LAKE_TLS_KEY_FILE");
    unsetenv("LAKE_ALLOW_INSECURE");
    unsetenv("LAKE_RPC_MAX_METADATA_BYTES");
}

/* ---- TLS ---- */

static void fixture_start_tls(struct fixture *f)
{
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.tls_cert_path = cert_path;
    options.tls_key_path = key_path;
    fixture_start(f, &options, NULL);
}

static lake_status echo_over_tls(const struct fixture *f, const char *ca, const char *name,
                                 struct lake_error *err)
{
    struct rpc_channel *channel = NULL;
    struct rpc_channel_options options = {
        .target = f->target, .tls = true, .ca_pem = ca, .server_name = name};
    char reply[16] = "";
    assert_ok(rpc_channel_open(&options, &channel, err), err);
    lake_status status =
        unary_text(channel, "/t.T/Echo", "secret", 5000, reply, sizeof(reply), err);
    if (status == LAKE_OK) {
        assert_string_equal(reply, "secret");
    }
    rpc_channel_unref(channel);
    return status;
}

static void tls_call_works_by_address_and_by_name(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start_tls(&f);
    struct lake_error err = {0};
    assert_ok(echo_over_tls(&f, ca_pem, NULL, &err), &err);
    assert_ok(echo_over_tls(&f, ca_pem, "lake.test", &err), &err);
    fixture_stop(&f);
}

static void wrong_authority_or_name_is_unavailable(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start_tls(&f);
    struct lake_error err = {0};
    assert_failed(LAKE_UNAVAILABLE, f.target, echo_over_tls(&f, other_ca_pem, "lake.test", &err),
                  &err);
    assert_failed(LAKE_UNAVAILABLE, f.target, echo_over_tls(&f, ca_pem, "other.test", &err), &err);
    assert_failed(LAKE_UNAVAILABLE, f.target, echo_over_tls(&f, NULL, "lake.test", &err), &err);
    assert_int_equal(atomic_load(&f.started), 0);
    fixture_stop(&f);
}

static void plain_and_tls_do_not_understand_each_other(void **state)
{
    (void)state;
    struct fixture tls;
    struct fixture plain;
    fixture_start_tls(&tls);
    fixture_start(&plain, NULL, NULL);
    struct lake_error err = {0};
    char reply[16];
    assert_failed(LAKE_UNAVAILABLE, tls.target,
                  unary_text(tls.channel, "/t.T/Echo", "x", 5000, reply, sizeof(reply), &err),
                  &err);
    assert_failed(LAKE_UNAVAILABLE, plain.target, echo_over_tls(&plain, ca_pem, "lake.test", &err),
                  &err);
    fixture_stop(&plain);
    fixture_stop(&tls);
}

static lake_status try_tls_files(const char *cert, const char *key, struct lake_error *err)
{
    struct rpc_authenticator *authenticator = NULL;
    struct rpc_server *server = NULL;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    assert_ok(rpc_authenticator_new(NULL, NULL, &authenticator, err), err);
    options.address = "127.0.0.1:0";
    options.authenticator = authenticator;
    options.tls_cert_path = cert;
    options.tls_key_path = key;
    lake_status status = rpc_server_new(&options, &server, err);
    assert_null(server);
    rpc_authenticator_free(authenticator);
    return status;
}

static void unusable_tls_files_are_refused_with_the_reason(void **state)
{
    (void)state;
    struct lake_error err = {0};
    assert_failed(LAKE_INVALID_ARGUMENT, "only the certificate",
                  try_tls_files(cert_path, NULL, &err), &err);
    assert_failed(LAKE_INVALID_ARGUMENT, "only the key", try_tls_files(NULL, key_path, &err), &err);
    assert_failed(LAKE_NOT_FOUND, "/nonexistent", try_tls_files("/nonexistent", key_path, &err),
                  &err);
    assert_failed(LAKE_INVALID_ARGUMENT, "regular file", try_tls_files(directory, key_path, &err),
                  &err);
    assert_failed(LAKE_INVALID_ARGUMENT, "no PEM certificate",
                  try_tls_files(key_path, key_path, &err), &err);
    assert_failed(LAKE_INVALID_ARGUMENT, "private key", try_tls_files(cert_path, cert_path, &err),
                  &err);
    assert_failed(LAKE_INVALID_ARGUMENT, "does not belong",
                  try_tls_files(cert_path, other_key_path, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_may_be_anonymous_and_plain),
        cmocka_unit_test(any_other_listener_needs_identities_and_tls),
        cmocka_unit_test(allow_insecure_drops_only_tls),
        cmocka_unit_test(malformed_addresses_are_refused),
        cmocka_unit_test(busy_port_is_already_exists_with_a_clear_sentence),
        cmocka_unit_test(foreign_address_is_an_invalid_argument),
        cmocka_unit_test(methods_are_checked_and_fixed_at_start),
        cmocka_unit_test(options_come_from_the_environment),
        cmocka_unit_test(tls_call_works_by_address_and_by_name),
        cmocka_unit_test(wrong_authority_or_name_is_unavailable),
        cmocka_unit_test(plain_and_tls_do_not_understand_each_other),
        cmocka_unit_test(unusable_tls_files_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
