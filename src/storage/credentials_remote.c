/* Credentials from services: STS for a web identity, the container's, the instance's. */
#include "credentials.h"
#include "http.h"
#include "xml.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <string.h>
#include <unistd.h>

#define MAX_TOKEN_BYTES   ((size_t)64 * 1024)
#define CONTAINER_ADDRESS "http://169.254.170.2"
#define INSTANCE_ADDRESS  "http://169.254.169.254"
#define STS_TIMEOUT_MS    10000
#define TRIES             3
#define TOKEN_TTL         "21600"

/* ---- replies ---- */

static struct lake_str json_text(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return (struct lake_str){json_string_value(value), json_string_length(value)};
}

static lake_status make(struct lake_str id, struct lake_str secret, struct lake_str token,
                        struct lake_str expiration, struct credentials **out,
                        struct lake_error *err)
{
    int64_t expires = INT64_MAX;
    if (expiration.size > 0 && !time_parse_iso(expiration, &expires))
        return lake_fail(err, LAKE_UNAUTHENTICATED,
                         "a credentials service gave an expiration that is no time");
    if (id.size == 0 || secret.size == 0)
        return lake_fail(err, LAKE_UNAUTHENTICATED,
                         "the answer of a credentials service has no keys");
    return credentials_new(id, base_bytes_of_str(secret), token, expires, out, err);
}

lake_status credentials_parse_json(struct lake_bytes text, struct credentials **out,
                                   struct lake_error *err)
{
    json_t *reply = NULL;
    lake_status status = base_json_parse(text, MAX_TOKEN_BYTES, &reply, NULL);
    if (status != LAKE_OK || !json_is_object(reply)) /* without the text: it may hold secrets */
        status = lake_fail(err, LAKE_UNAUTHENTICATED,
                           "the answer of a credentials service is not the JSON it should be");
    else
        status = make(json_text(reply, "AccessKeyId"), json_text(reply, "SecretAccessKey"),
                      json_text(reply, "Token"), json_text(reply, "Expiration"), out, err);
    json_decref(reply);
    return status;
}

lake_status credentials_parse_sts(struct lake_bytes text, struct credentials **out,
                                  struct lake_error *err)
{
    static const char *const names[] = {"AccessKeyId", "SecretAccessKey", "SessionToken",
                                        "Expiration"};
    char *values[BASE_ARRAY_LEN(names)] = {NULL};
    struct xml_reader reader;
    xml_reader_init(&reader, text);
    enum xml_event event;
    bool no_memory = false;
    while ((event = xml_next(&reader)) == XML_OPEN || event == XML_CLOSE) {
        for (size_t i = 0; event == XML_CLOSE && i < BASE_ARRAY_LEN(names); i++) {
            struct lake_str value = xml_text(&reader);
            if (value.size == 0 || values[i] != NULL || !base_str_equal_c(reader.name, names[i]))
                continue;
            values[i] = base_strndup(value.data, value.size);
            no_memory = no_memory || values[i] == NULL;
        }
    }
    lake_status status;
    if (no_memory || reader.no_memory)
        status = base_fail_no_memory(err, text.size);
    else if (event == XML_BAD)
        status = lake_fail(err, LAKE_UNAUTHENTICATED, "the answer of STS is not whole XML");
    else
        status = make(base_str_of(values[0]), base_str_of(values[1]), base_str_of(values[2]),
                      base_str_of(values[3]), out, err);
    for (size_t i = 0; i < BASE_ARRAY_LEN(values); i++) {
        if (values[i] != NULL)
            OPENSSL_cleanse(values[i], strlen(values[i]));
        base_free(values[i]);
    }
    xml_reader_fini(&reader);
    return status;
}

/* ---- one request ---- */

struct ask {
    const char *what; /* for messages */
    const char *method;
    const char *url;
    const char *header; /* NULL: none; may hold a token */
    const char *second_header;
    struct lake_bytes body;
    int64_t timeout_ms;
    const char *ca_file;
    bool local; /* a service of this machine: no proxy */
};

static bool worth_another(enum http_failure failure, int status)
{
    return failure == HTTP_COMPLETE
               ? status == 429 || status >= 500
               : failure == HTTP_BROKEN || failure == HTTP_TIMED_OUT || failure == HTTP_NOT_SENT;
}

/* A reply with any status; the caller releases it. */
static lake_status send_request(const struct ask *ask, int tries, struct http_reply *reply,
                                struct lake_error *err)
{
    struct http_engine *engine = NULL;
    struct http_options options = {.ca_file = ask->ca_file,
                                   .connect_ms = ask->timeout_ms,
                                   .stall_ms = ask->timeout_ms,
                                   .max_connections = 1,
                                   .no_proxy = ask->local};
    struct http_request request = {.method = ask->method, .url = ask->url, .body = ask->body};
    if (ask->header != NULL)
        request.headers[request.header_count++] = ask->header;
    if (ask->second_header != NULL)
        request.headers[request.header_count++] = ask->second_header;
    lake_status status = http_engine_new(&options, &engine, err);
    for (int i = 0; status == LAKE_OK && i < tries; i++) {
        struct http_transfer *transfer;
        request.deadline_us = base_clock_monotonic_us() + ask->timeout_ms * 1000;
        status = http_transfer_start(engine, &request, reply, &transfer, err);
        if (status != LAKE_OK) {
            http_reply_fini(reply);
            break;
        }
        enum http_failure failure = http_transfer_finish(transfer, err);
        bool again = worth_another(failure, reply->status) && i + 1 < tries;
        if (failure == HTTP_COMPLETE && !again)
            break;
        http_reply_fini(reply);
        if (!again)
            status = lake_fail_wrap(err, LAKE_UNAVAILABLE, "%s cannot be reached", ask->what);
        else
            base_sleep_ms((int64_t)100 << i);
    }
    http_engine_free(engine);
    return status;
}

static lake_status request_credentials(const struct ask *ask, bool xml, struct credentials **out,
                                       struct lake_error *err)
{
    struct http_reply reply;
    lake_status status = send_request(ask, TRIES, &reply, err);
    if (status != LAKE_OK)
        return status;
    struct lake_bytes body = base_buffer_view(&reply.body);
    if (reply.status != 200)
        status = lake_fail(err, LAKE_UNAUTHENTICATED, "%s gave no credentials: HTTP status %d",
                           ask->what, reply.status);
    else
        status =
            xml ? credentials_parse_sts(body, out, err) : credentials_parse_json(body, out, err);
    if (reply.body.data != NULL)
        OPENSSL_cleanse(reply.body.data, reply.body.size);
    http_reply_fini(&reply);
    return status;
}

/* A token from a file, NUL-terminated, without the blanks around it. */
static lake_status read_token(const char *path, char **out, struct lake_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) { /* not NOT_FOUND, which would mean that no token is configured */
        (void)base_fail_errno(err, errno, "it cannot be opened");
        return lake_fail_wrap(err, LAKE_UNAUTHENTICATED, "there is no token in %s", path);
    }
    char *token = base_alloc(MAX_TOKEN_BYTES + 1);
    size_t size = 0;
    ssize_t got = token == NULL ? -1 : 1;
    while (token != NULL && size <= MAX_TOKEN_BYTES && got != 0) {
        got = read(fd, token + size, MAX_TOKEN_BYTES + 1 - size);
        if (got < 0 && errno != EINTR)
            break;
        size += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    lake_status status = LAKE_OK;
    if (token == NULL)
        status = base_fail_no_memory(err, MAX_TOKEN_BYTES);
    else if (got < 0 || size > MAX_TOKEN_BYTES)
        status = lake_fail(err, LAKE_UNAUTHENTICATED,
                           "the token file %s cannot be read or has more than %zu bytes", path,
                           MAX_TOKEN_BYTES);
    while (status == LAKE_OK && size > 0 && (uint8_t)token[size - 1] <= ' ')
        size--;
    if (status == LAKE_OK && (size == 0 || memchr(token, '\n', size) != NULL))
        status = lake_fail(err, LAKE_UNAUTHENTICATED,
                           "the token file %s must hold one token and nothing else", path);
    if (status != LAKE_OK) {
        base_free(token);
        return status;
    }
    token[size] = '\0';
    *out = token;
    return LAKE_OK;
}

static void free_secret(char *text)
{
    if (text != NULL)
        OPENSSL_cleanse(text, strlen(text));
    base_free(text);
}

/* ---- web identity ---- */

static lake_status sts_form(struct base_buffer *out, const char *role, const char *session,
                            const char *token, struct lake_error *err)
{
    const struct sign_pair form[] = {{LAKE_STR("Action"), LAKE_STR("AssumeRoleWithWebIdentity")},
                                     {LAKE_STR("RoleArn"), base_str_of(role)},
                                     {LAKE_STR("RoleSessionName"), base_str_of(session)},
                                     {LAKE_STR("Version"), LAKE_STR("2011-06-15")},
                                     {LAKE_STR("WebIdentityToken"), base_str_of(token)}};
    return sign_query(out, form, BASE_ARRAY_LEN(form), err);
}

lake_status credentials_fetch_web_identity(const struct credentials_options *options,
                                           const struct profile *profile, struct credentials **out,
                                           struct lake_error *err)
{
    bool by_profile = profile != NULL;
    const char *file = by_profile ? profile_get(profile, "web_identity_token_file")
                                  : base_config_string("AWS_WEB_IDENTITY_TOKEN_FILE", NULL);
    const char *role =
        by_profile ? profile_get(profile, "role_arn") : base_config_string("AWS_ROLE_ARN", NULL);
    const char *session = by_profile ? profile_get(profile, "role_session_name")
                                     : base_config_string("AWS_ROLE_SESSION_NAME", NULL);
    if (file == NULL)
        return LAKE_NOT_FOUND;
    if (role == NULL)
        return lake_fail(err, LAKE_UNAUTHENTICATED,
                         "a web identity token is configured without a role: set AWS_ROLE_ARN");
    char *token = NULL;
    char *url = NULL;
    struct base_buffer form;
    base_buffer_init(&form, 4 * MAX_TOKEN_BYTES);
    lake_status status = read_token(file, &token, err);
    if (status == LAKE_OK)
        status = sts_form(&form, role, session == NULL ? "lake" : session, token, err);
    if (status == LAKE_OK) {
        const char *endpoint = base_config_string("AWS_ENDPOINT_URL_STS", NULL);
        const char *region = options->region == NULL ? "us-east-1" : options->region;
        url = endpoint != NULL ? base_strdup(endpoint)
                               : base_format("https://sts.%s.amazonaws.com/", region);
        status = url == NULL ? base_fail_no_memory(err, 0) : LAKE_OK;
    }
    if (status == LAKE_OK) {
        struct ask ask = {.what = "STS",
                          .method = "POST",
                          .url = url,
                          .header = "Content-Type: application/x-www-form-urlencoded",
                          .body = base_buffer_view(&form),
                          .timeout_ms = STS_TIMEOUT_MS,
                          .ca_file = options->ca_file};
        status = request_credentials(&ask, true, out, err);
    }
    if (form.data != NULL)
        OPENSSL_cleanse(form.data, form.size);
    base_buffer_fini(&form);
    base_free(url);
    free_secret(token);
    return status;
}

/* ---- the container's service ---- */

/* "127.x.y.z" */
static bool is_loopback(const char *host)
{
    struct in_addr address;
    return inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

/* Plain HTTP would show the credentials to the network: only to addresses of this machine. */
static bool address_allowed(const char *url)
{
    static const char *const local[] = {"localhost", "[::1]", "169.254.170.2", "169.254.170.23",
                                        "[fd00:ec2::23]"};
    if (base_str_has_prefix(base_str_of(url), "https://"))
        return true;
    if (!base_str_has_prefix(base_str_of(url), "http://"))
        return false;
    const char *start = url + 7;
    size_t size = strcspn(start, "/?#");
    const char *bracket = start[0] == '[' ? memchr(start, ']', size) : start;
    const char *colon =
        bracket == NULL ? NULL : memchr(bracket, ':', size - (size_t)(bracket - start));
    char host[64];
    if (colon != NULL)
        size = (size_t)(colon - start);
    if (size >= sizeof(host) || memchr(start, '@', strcspn(start, "/?#")) != NULL)
        return false;
    memcpy(host, start, size);
    host[size] = '\0';
    for (size_t i = 0; i < BASE_ARRAY_LEN(local); i++) {
        if (strcmp(host, local[i]) == 0)
            return true;
    }
    return is_loopback(host);
}

lake_status credentials_fetch_container(const struct credentials_options *options,
                                        struct credentials **out, struct lake_error *err)
{
    const char *relative = base_config_string("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", NULL);
    const char *full = base_config_string("AWS_CONTAINER_CREDENTIALS_FULL_URI", NULL);
    const char *file = base_config_string("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", NULL);
    const char *token = base_config_string("AWS_CONTAINER_AUTHORIZATION_TOKEN", NULL);
    if (relative == NULL && full == NULL)
        return LAKE_NOT_FOUND;
    if (relative == NULL && !address_allowed(full))
        return lake_fail(err, LAKE_UNAUTHENTICATED,
                         "AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or an address of this "
                         "machine");
    char *read = NULL;
    char *header = NULL;
    lake_status status = LAKE_OK;
    if (file != NULL) {
        status = read_token(file, &read, err);
        token = read;
    }
    char *url =
        relative == NULL ? base_strdup(full) : base_format("%s%s", CONTAINER_ADDRESS, relative);
    if (status == LAKE_OK && token != NULL && strpbrk(token, "\r\n") != NULL)
        status = lake_fail(err, LAKE_UNAUTHENTICATED, "the container's token has a line break");
    if (status == LAKE_OK && token != NULL)
        header = base_format("Authorization: %s", token);
    if (status == LAKE_OK && (url == NULL || (token != NULL && header == NULL)))
        status = base_fail_no_memory(err, 0);
    if (status == LAKE_OK) {
        struct ask ask = {.what = "the container's credentials service",
                          .method = "GET",
                          .url = url,
                          .header = header,
                          .timeout_ms = options->metadata_timeout_ms,
                          .ca_file = options->ca_file,
                          .local = true};
        status = request_credentials(&ask, false, out, err);
    }
    base_free(url);
    free_secret(header);
    free_secret(read);
    return status;
}

/* ---- the instance's service, version 2 ---- */

#define ROLE_PATH "/latest/meta-data/iam/security-credentials/"

/* One line of a reply, as "prefix" and the line; NULL when it is no plain line. */
static char *reply_line(const char *prefix, const struct http_reply *reply)
{
    struct lake_str text = {(const char *)reply->body.data, reply->body.size};
    while (text.size > 0 && (uint8_t)text.data[text.size - 1] <= ' ')
        text.size--;
    for (size_t i = 0; i < text.size; i++) {
        if ((uint8_t)text.data[i] <= ' ')
            text.size = 0;
    }
    return text.size == 0 || text.size > 4096 ? NULL
                                              : base_format("%s%.*s", prefix, LAKE_STR_FMT(text));
}

static lake_status ask_instance(const struct ask *base, const char *method, const char *url,
                                const char *header, int tries, struct http_reply *reply,
                                struct lake_error *err)
{
    struct ask ask = *base;
    ask.method = method;
    ask.url = url;
    ask.header = header;
    return send_request(&ask, tries, reply, err);
}

static lake_status fetch_role(const struct ask *base, const char *address, const char *token_header,
                              struct credentials **out, struct lake_error *err)
{
    struct http_reply reply;
    char *list = base_format("%s" ROLE_PATH, address);
    if (list == NULL)
        return base_fail_no_memory(err, 0);
    lake_status status = ask_instance(base, "GET", list, token_header, TRIES, &reply, err);
    if (status != LAKE_OK) {
        base_free(list);
        return status;
    }
    bool none = reply.status == 404;
    char *url = reply.status == 200 ? reply_line(list, &reply) : NULL;
    http_reply_fini(&reply);
    if (none) {
        status = LAKE_NOT_FOUND; /* an instance without a role */
    } else if (url == NULL) {
        status =
            lake_fail(err, LAKE_UNAUTHENTICATED, "the instance's metadata service names no role");
    } else {
        struct ask ask = *base;
        ask.method = "GET";
        ask.url = url;
        ask.header = token_header;
        status = request_credentials(&ask, false, out, err);
    }
    base_free(url);
    base_free(list);
    return status;
}

lake_status credentials_fetch_instance(const struct credentials_options *options,
                                       struct credentials **out, struct lake_error *err)
{
    bool disabled = false;
    lake_status status = base_config_bool("AWS_EC2_METADATA_DISABLED", false, &disabled, err);
    if (status != LAKE_OK)
        return status;
    if (disabled)
        return LAKE_NOT_FOUND;
    const char *address = base_config_string("AWS_EC2_METADATA_SERVICE_ENDPOINT", INSTANCE_ADDRESS);
    struct ask ask = {.what = "the instance's metadata service",
                      .timeout_ms = options->metadata_timeout_ms,
                      .local = true};
    struct lake_str trimmed = base_str_of(address);
    while (trimmed.size > 0 && trimmed.data[trimmed.size - 1] == '/')
        trimmed.size--;
    char *root = base_strndup(trimmed.data, trimmed.size);
    char *url = base_format("%.*s/latest/api/token", LAKE_STR_FMT(trimmed));
    char *header = NULL;
    struct http_reply reply;
    if (root == NULL || url == NULL)
        status = base_fail_no_memory(err, 0);
    /* On most machines there is no such service: one try, and it is not an error. */
    if (status == LAKE_OK) {
        status = ask_instance(&ask, "PUT", url, "X-aws-ec2-metadata-token-ttl-seconds: " TOKEN_TTL,
                              1, &reply, err);
        if (status == LAKE_UNAVAILABLE) {
            lake_error_clear(err);
            status = LAKE_NOT_FOUND;
        } else if (status == LAKE_OK) {
            if (reply.status == 200)
                header = reply_line("X-aws-ec2-metadata-token: ", &reply);
            http_reply_fini(&reply);
            status = header == NULL ? LAKE_NOT_FOUND : LAKE_OK;
        }
    }
    if (status == LAKE_OK)
        status = fetch_role(&ask, root, header, out, err);
    free_secret(header);
    base_free(url);
    base_free(root);
    return status;
}
