/*
 * Who a caller is (SEC-1..SEC-4).
 *
 * Only keyed digests of tokens are kept: SHA-256 over a random key of this process and the token.
 * The bindings are sorted by digest and searched; since nobody can choose a digest without the key,
 * the search's timing tells nothing about a token, and the last comparison is in constant time.
 */
#include "core.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PRINCIPALS_FILE_MAX_BYTES (1024 * 1024)
#define PRINCIPALS_MAX            4096
#define NAMESPACES_MAX            1024
#define TOKEN_MAX_BYTES           4096
#define IDENTIFIER_MAX_BYTES      256
#define KEY_BYTES                 32

struct binding {
    uint8_t digest[BASE_SHA256_BYTES];
    struct rpc_principal principal;
};

struct rpc_authenticator {
    bool anonymous;
    uint8_t key[KEY_BYTES];
    struct base_arena *arena;
    struct binding *bindings; /* sorted by digest */
    size_t count;
};

static const struct rpc_principal development = {.principal_id = "development",
                                                 .tenant_id = "development",
                                                 .role = RPC_ROLE_ADMIN,
                                                 .all_namespaces = true};

bool rpc_principal_may_use_namespace(const struct rpc_principal *principal, struct lake_str name)
{
    if (principal->all_namespaces) {
        return true;
    }
    for (size_t i = 0; i < principal->namespace_count; i++) {
        if (base_str_equal_c(name, principal->namespaces[i])) {
            return true;
        }
    }
    return false;
}

/* ---- tokens ---- */

static bool token_usable(struct lake_bytes token)
{
    for (size_t i = 0; i < token.size; i++) {
        if (token.data[i] < 0x21 || token.data[i] > 0x7e) {
            return false;
        }
    }
    return token.size > 0 && token.size <= TOKEN_MAX_BYTES;
}

static lake_status token_digest(const struct rpc_authenticator *authenticator,
                                struct lake_bytes token, uint8_t out[BASE_SHA256_BYTES],
                                struct lake_error *err)
{
    uint8_t keyed[KEY_BYTES + TOKEN_MAX_BYTES];
    memcpy(keyed, authenticator->key, KEY_BYTES);
    memcpy(keyed + KEY_BYTES, token.data, token.size);
    struct lake_bytes whole = {keyed, KEY_BYTES + token.size};
    lake_status status = base_sha256_once(whole, out, err);
    OPENSSL_cleanse(keyed, whole.size);
    return status;
}

static int compare_bindings(const void *a, const void *b)
{
    return memcmp(((const struct binding *)a)->digest, ((const struct binding *)b)->digest,
                  BASE_SHA256_BYTES);
}

static int compare_digest(const void *digest, const void *binding)
{
    return memcmp(digest, ((const struct binding *)binding)->digest, BASE_SHA256_BYTES);
}

/* "Bearer <token>", the scheme in any case (F07). */
static bool bearer_token(struct lake_str authorization, struct lake_bytes *out)
{
    static const char scheme[] = "bearer";
    const size_t length = sizeof(scheme) - 1;
    if (authorization.size <= length || authorization.data[length] != ' ' ||
        strncasecmp(authorization.data, scheme, length) != 0) {
        return false;
    }
    size_t start = length;
    while (start < authorization.size && authorization.data[start] == ' ') {
        start++;
    }
    *out = (struct lake_bytes){(const uint8_t *)authorization.data + start,
                               authorization.size - start};
    return token_usable(*out);
}

lake_status rpc_authenticate(const struct rpc_authenticator *authenticator,
                             struct lake_str authorization, const struct rpc_principal **out,
                             struct lake_error *err)
{
    if (authenticator->anonymous) {
        *out = &development;
        return LAKE_OK;
    }
    struct lake_bytes token;
    uint8_t digest[BASE_SHA256_BYTES];
    if (bearer_token(authorization, &token)) {
        lake_status status = token_digest(authenticator, token, digest, err);
        if (status != LAKE_OK) {
            return status;
        }
        const struct binding *found = bsearch(digest, authenticator->bindings, authenticator->count,
                                              sizeof(*found), compare_digest);
        if (found != NULL && CRYPTO_memcmp(found->digest, digest, sizeof(digest)) == 0) {
            *out = &found->principal;
            return LAKE_OK;
        }
    }
    return lake_fail(
        err, LAKE_UNAUTHENTICATED,
        "the call needs the header \"authorization: Bearer <token>\" with a token that "
        "this server knows");
}

/* ---- the principals file ---- */

struct place {
    const char *path;
    size_t index;
};

static lake_status fail_entry(const struct place *place, struct lake_error *err, const char *what)
{
    return lake_fail(err, LAKE_INVALID_ARGUMENT, "%s: principals[%zu]: %s", place->path,
                     place->index, what);
}

static bool identifier_valid(const char *text, size_t size)
{
    if (size == 0 || size > IDENTIFIER_MAX_BYTES) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] <= 0x20 || text[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

static lake_status copy_identifier(struct base_arena *arena, json_t *value, const char **out,
                                   const char *complaint, const struct place *place,
                                   struct lake_error *err)
{
    if (!json_is_string(value) ||
        !identifier_valid(json_string_value(value), json_string_length(value))) {
        return fail_entry(place, err, complaint);
    }
    *out = base_arena_strndup(arena, json_string_value(value), json_string_length(value));
    return *out != NULL ? LAKE_OK : base_fail_no_memory(err, json_string_length(value));
}

static lake_status read_role(json_t *value, enum rpc_role *out, const struct place *place,
                             struct lake_error *err)
{
    static const struct {
        const char *name;
        enum rpc_role role;
    } roles[] = {{"user", RPC_ROLE_USER},
                 {"query_service", RPC_ROLE_QUERY_SERVICE},
                 {"metadata_peer", RPC_ROLE_METADATA_PEER},
                 {"admin", RPC_ROLE_ADMIN}};
    const char *name = json_string_value(value);
    for (size_t i = 0; name != NULL && i < BASE_ARRAY_LEN(roles); i++) {
        if (strcmp(name, roles[i].name) == 0) {
            *out = roles[i].role;
            return LAKE_OK;
        }
    }
    return fail_entry(
        place, err, "\"role\" must be \"user\", \"query_service\", \"metadata_peer\" or \"admin\"");
}

static lake_status read_namespaces(struct base_arena *arena, json_t *value,
                                   struct rpc_principal *principal, const struct place *place,
                                   struct lake_error *err)
{
    size_t count = json_array_size(value);
    if (!json_is_array(value) || count == 0 || count > NAMESPACES_MAX) {
        return fail_entry(place, err,
                          "\"namespaces\" must be a list of 1 to 1024 names, or [\"*\"] for all");
    }
    const char *first = json_string_value(json_array_get(value, 0));
    if (count == 1 && first != NULL && strcmp(first, "*") == 0) {
        principal->all_namespaces = true;
        return LAKE_OK;
    }
    const char **names = base_arena_calloc_array(arena, count, sizeof(*names));
    if (names == NULL) {
        return base_fail_no_memory(err, count * sizeof(*names));
    }
    for (size_t i = 0; i < count; i++) {
        lake_status status =
            copy_identifier(arena, json_array_get(value, i), &names[i],
                            "a namespace must be a name without blanks", place, err);
        if (status != LAKE_OK) {
            return status;
        }
        if (strcmp(names[i], "*") == 0) {
            return fail_entry(place, err, "the namespace \"*\" must stand alone");
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(names[i], names[j]) == 0) {
                return fail_entry(place, err, "a namespace is listed twice");
            }
        }
    }
    principal->namespaces = names;
    principal->namespace_count = count;
    return LAKE_OK;
}

static lake_status read_entry(struct rpc_authenticator *authenticator, json_t *entry,
                              struct binding *out, const struct place *place,
                              struct lake_error *err)
{
    static const char *const keys[] = {"token", "principal_id", "tenant_id", "role", "namespaces"};
    if (!json_is_object(entry) || json_object_size(entry) != BASE_ARRAY_LEN(keys)) {
        return fail_entry(place, err,
                          "must be an object with exactly token, principal_id, tenant_id, role and "
                          "namespaces");
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(keys); i++) {
        if (json_object_get(entry, keys[i]) == NULL) {
            return fail_entry(place, err,
                              "must have exactly token, principal_id, tenant_id, role and "
                              "namespaces");
        }
    }
    json_t *token = json_object_get(entry, "token");
    struct lake_bytes bytes = {(const uint8_t *)json_string_value(token),
                               json_string_length(token)};
    if (!json_is_string(token) || !token_usable(bytes)) {
        return fail_entry(place, err,
                          "\"token\" must be 1 to 4096 visible ASCII characters without blanks");
    }
    struct base_arena *arena = authenticator->arena;
    lake_status status = token_digest(authenticator, bytes, out->digest, err);
    if (status == LAKE_OK) {
        status = copy_identifier(
            arena, json_object_get(entry, "principal_id"), &out->principal.principal_id,
            "\"principal_id\" must be 1 to 256 bytes without blanks", place, err);
    }
    if (status == LAKE_OK) {
        status =
            copy_identifier(arena, json_object_get(entry, "tenant_id"), &out->principal.tenant_id,
                            "\"tenant_id\" must be 1 to 256 bytes without blanks", place, err);
    }
    if (status == LAKE_OK) {
        status = read_role(json_object_get(entry, "role"), &out->principal.role, place, err);
    }
    if (status == LAKE_OK) {
        status = read_namespaces(arena, json_object_get(entry, "namespaces"), &out->principal,
                                 place, err);
    }
    return status;
}

/* A principal may have several tokens, for rotation, but one meaning. */
static bool same_meaning(const struct rpc_principal *a, const struct rpc_principal *b)
{
    if (strcmp(a->tenant_id, b->tenant_id) != 0 || a->role != b->role ||
        a->all_namespaces != b->all_namespaces || a->namespace_count != b->namespace_count) {
        return false;
    }
    for (size_t i = 0; i < a->namespace_count; i++) {
        if (!rpc_principal_may_use_namespace(b, base_str_of(a->namespaces[i]))) {
            return false;
        }
    }
    return true;
}

static int compare_ids(const void *a, const void *b)
{
    const struct rpc_principal *const *left = a;
    const struct rpc_principal *const *right = b;
    return strcmp((*left)->principal_id, (*right)->principal_id);
}

static lake_status check_duplicates(struct rpc_authenticator *authenticator, const char *path,
                                    struct lake_error *err)
{
    struct binding *b = authenticator->bindings;
    size_t count = authenticator->count;
    qsort(b, count, sizeof(*b), compare_bindings);
    for (size_t i = 1; i < count; i++) {
        if (compare_bindings(&b[i - 1], &b[i]) == 0) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "%s: the principals \"%s\" and \"%s\" have the same token", path,
                             b[i - 1].principal.principal_id, b[i].principal.principal_id);
        }
    }
    const struct rpc_principal **by_id = base_alloc_array(count, sizeof(*by_id));
    if (by_id == NULL) {
        return base_fail_no_memory(err, count * sizeof(*by_id));
    }
    for (size_t i = 0; i < count; i++) {
        by_id[i] = &b[i].principal;
    }
    qsort(by_id, count, sizeof(*by_id), compare_ids);
    lake_status status = LAKE_OK;
    for (size_t i = 1; i < count && status == LAKE_OK; i++) {
        if (strcmp(by_id[i - 1]->principal_id, by_id[i]->principal_id) == 0 &&
            !same_meaning(by_id[i - 1], by_id[i])) {
            status =
                lake_fail(err, LAKE_INVALID_ARGUMENT,
                          "%s: the principal \"%s\" is bound twice with different rights: give "
                          "all its tokens the same tenant, role and namespaces",
                          path, by_id[i]->principal_id);
        }
    }
    base_free(by_id);
    return status;
}

static lake_status read_root(struct rpc_authenticator *authenticator, json_t *root,
                             const char *path, struct lake_error *err)
{
    json_t *list = json_object_get(root, "principals");
    size_t count = json_array_size(list);
    if (!json_is_object(root) || json_object_size(root) != 1 || !json_is_array(list) ||
        count == 0 || count > PRINCIPALS_MAX) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "%s must be {\"principals\": [...]} with 1 to %d entries and nothing else",
                         path, PRINCIPALS_MAX);
    }
    authenticator->bindings =
        base_arena_calloc_array(authenticator->arena, count, sizeof(struct binding));
    if (authenticator->bindings == NULL) {
        return base_fail_no_memory(err, count * sizeof(struct binding));
    }
    for (size_t i = 0; i < count; i++) {
        struct place place = {path, i};
        lake_status status = read_entry(authenticator, json_array_get(list, i),
                                        &authenticator->bindings[i], &place, err);
        if (status != LAKE_OK) {
            return status;
        }
    }
    authenticator->count = count;
    return check_duplicates(authenticator, path, err);
}

/* jansson keeps its own copies of the tokens; zeroes them before they are freed. */
static void cleanse_strings(json_t *value)
{
    size_t index;
    const char *key;
    json_t *child;
    if (json_is_string(value)) {
        OPENSSL_cleanse((void *)(uintptr_t)json_string_value(value), json_string_length(value));
    } else if (json_is_array(value)) {
        json_array_foreach(value, index, child)
        {
            cleanse_strings(child);
        }
    } else if (json_is_object(value)) {
        json_object_foreach(value, key, child)
        {
            cleanse_strings(child);
        }
    }
}

static lake_status load_principals(struct rpc_authenticator *authenticator, const char *path,
                                   struct lake_error *err)
{
    struct base_secret text = {NULL, 0};
    json_t *root = NULL;
    lake_status status = base_secret_read_file(&text, path, PRINCIPALS_FILE_MAX_BYTES, err);
    if (status != LAKE_OK) {
        return status;
    }
    status = base_json_parse((struct lake_bytes){text.data, text.size}, PRINCIPALS_FILE_MAX_BYTES,
                             &root, err);
    if (status != LAKE_OK) {
        /* The parser's own words may quote the file: they are not repeated. */
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "%s is not valid JSON (each key once, nothing after the end)", path);
        goto out;
    }
    status = read_root(authenticator, root, path, err);
out:
    if (root != NULL) {
        cleanse_strings(root);
        json_decref(root);
    }
    base_secret_fini(&text);
    return status;
}

/* One deployment admin. */
static lake_status load_token(struct rpc_authenticator *authenticator, const char *path,
                              struct lake_error *err)
{
    struct base_secret token = {NULL, 0};
    lake_status status = base_secret_read_file(&token, path, TOKEN_MAX_BYTES + 2, err);
    if (status != LAKE_OK) {
        return status;
    }
    struct lake_bytes bytes = {token.data, token.size};
    if (!token_usable(bytes)) {
        status =
            lake_fail(err, LAKE_INVALID_ARGUMENT,
                      "%s must hold one token of 1 to %d visible ASCII characters without blanks",
                      path, TOKEN_MAX_BYTES);
        goto out;
    }
    authenticator->bindings =
        base_arena_calloc_array(authenticator->arena, 1, sizeof(struct binding));
    if (authenticator->bindings == NULL) {
        status = base_fail_no_memory(err, sizeof(struct binding));
        goto out;
    }
    authenticator->count = 1;
    authenticator->bindings[0].principal =
        (struct rpc_principal){.principal_id = "deployment-admin",
                               .tenant_id = "deployment",
                               .role = RPC_ROLE_ADMIN,
                               .all_namespaces = true};
    status = token_digest(authenticator, bytes, authenticator->bindings[0].digest, err);
out:
    base_secret_fini(&token);
    return status;
}

/* ---- life ---- */

lake_status rpc_authenticator_new(const char *principals_path, const char *token_path,
                                  struct rpc_authenticator **out, struct lake_error *err)
{
    if (principals_path != NULL && token_path != NULL) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "LAKE_AUTH_PRINCIPALS_FILE and LAKE_AUTH_TOKEN_FILE exclude each other: "
                         "set one of them");
    }
    struct rpc_authenticator *authenticator = base_calloc_array(1, sizeof(*authenticator));
    if (authenticator == NULL) {
        return base_fail_no_memory(err, sizeof(*authenticator));
    }
    lake_status status = base_arena_new(8u * PRINCIPALS_FILE_MAX_BYTES, &authenticator->arena, err);
    if (status == LAKE_OK) {
        status = base_random_bytes(authenticator->key, sizeof(authenticator->key), err);
    }
    if (status == LAKE_OK && principals_path != NULL) {
        status = load_principals(authenticator, principals_path, err);
    } else if (status == LAKE_OK && token_path != NULL) {
        status = load_token(authenticator, token_path, err);
    } else {
        authenticator->anonymous = true;
    }
    if (status != LAKE_OK) {
        rpc_authenticator_free(authenticator);
        return status;
    }
    *out = authenticator;
    return LAKE_OK;
}

lake_status rpc_authenticator_from_environment(struct rpc_authenticator **out,
                                               struct lake_error *err)
{
    return rpc_authenticator_new(base_config_string("LAKE_AUTH_PRINCIPALS_FILE", NULL),
                                 base_config_string("LAKE_AUTH_TOKEN_FILE", NULL), out, err);
}

void rpc_authenticator_free(struct rpc_authenticator *authenticator)
{
    if (authenticator == NULL) {
        return;
    }
    OPENSSL_cleanse(authenticator->key, sizeof(authenticator->key));
    base_arena_free(authenticator->arena);
    base_free(authenticator);
}

bool rpc_authenticator_is_anonymous(const struct rpc_authenticator *authenticator)
{
    return authenticator->anonymous;
}
