/* Who a request acts for, and what that identity may touch (NAT-13, SEC-1). */
#include "meta_internal.h"

#include <string.h>

#define MAX_NAMESPACES 4096

static bool tenant_valid(struct lake_str tenant)
{
    if (tenant.size == 0 || tenant.size > META_NAME_MAX_BYTES)
        return false;
    for (size_t i = 0; i < tenant.size; i++) {
        char c = tenant.data[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!word && (i == 0 || (c != '-' && c != '_' && c != '.')))
            return false;
    }
    return true;
}

static bool is_printable(struct lake_str s)
{
    for (size_t i = 0; i < s.size; i++) {
        if (s.data[i] < 0x20 || s.data[i] > 0x7e)
            return false;
    }
    return true;
}

static lake_status add_namespace(struct meta_identity *identity, struct lake_str name,
                                 struct lake_error *err)
{
    char key[META_NAME_MAX_BYTES + 1];
    /* A grant that no namespace can match grants nothing. */
    if (name.size == 0 || !meta_name_fold(name, key))
        return LAKE_OK;
    if (identity->namespace_count == MAX_NAMESPACES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the identity names more than %d namespaces; use \"*\"", MAX_NAMESPACES);
    if ((identity->namespace_count & (identity->namespace_count - 1)) == 0) {
        size_t room = identity->namespace_count == 0 ? 1 : identity->namespace_count * 2;
        char **grown = base_realloc_array(identity->namespaces, room, sizeof(*grown));
        if (grown == NULL)
            return base_fail_no_memory(err, room * sizeof(*grown));
        identity->namespaces = grown;
    }
    char *copy = base_strdup(key);
    if (copy == NULL)
        return base_fail_no_memory(err, name.size + 1);
    identity->namespaces[identity->namespace_count++] = copy;
    return LAKE_OK;
}

static lake_status own_grants(struct meta_identity *out, const struct rpc_principal *caller,
                              struct lake_error *err)
{
    out->all_namespaces = caller->all_namespaces;
    for (size_t i = 0; i < caller->namespace_count; i++) {
        lake_status status = add_namespace(out, base_str_of(caller->namespaces[i]), err);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

/* A comma-separated list, or "*"; blanks around a name do not matter. */
static lake_status delegated_grants(struct meta_identity *out, struct lake_str list,
                                    struct lake_error *err)
{
    size_t start = 0;
    for (size_t i = 0; i <= list.size; i++) {
        if (i < list.size && list.data[i] != ',')
            continue;
        struct lake_str name = {list.data + start, i - start};
        start = i + 1;
        while (name.size > 0 && name.data[0] == ' ')
            name = (struct lake_str){name.data + 1, name.size - 1};
        while (name.size > 0 && name.data[name.size - 1] == ' ')
            name.size--;
        if (base_str_equal_c(name, "*")) {
            out->all_namespaces = true;
            continue;
        }
        lake_status status = add_namespace(out, name, err);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

static lake_status set_text(char *out, size_t room, struct lake_str value, const char *what,
                            struct lake_error *err)
{
    if (value.size == 0 || value.size >= room || !is_printable(value))
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the %s of the identity is not 1 to %zu printable characters", what,
                         room - 1);
    memcpy(out, value.data, value.size);
    out[value.size] = '\0';
    return LAKE_OK;
}

lake_status meta_identity_init(struct meta_identity *out, const struct rpc_principal *caller,
                               struct lake_str principal, struct lake_str tenant,
                               struct lake_str namespaces, struct lake_error *err)
{
    *out = (struct meta_identity){.caller = caller, .role = caller->role};
    struct lake_str acts_for = base_str_of(caller->principal_id);
    struct lake_str stage_of = base_str_of(caller->tenant_id);
    out->delegated = principal.size != 0 || tenant.size != 0 || namespaces.size != 0;
    if (out->delegated) {
        if (caller->role != RPC_ROLE_QUERY_SERVICE && caller->role != RPC_ROLE_ADMIN)
            return lake_fail(err, LAKE_PERMISSION_DENIED,
                             "only a Query server or an admin may act on behalf of another");
        if (principal.size == 0 || tenant.size == 0)
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "acting on behalf of another needs the headers %s, %s and %s",
                             META_HEADER_PRINCIPAL, META_HEADER_TENANT, META_HEADER_NAMESPACES);
        out->role = RPC_ROLE_USER;
        acts_for = principal;
        stage_of = tenant;
    }
    lake_status status =
        set_text(out->principal_id, sizeof(out->principal_id), acts_for, "principal", err);
    if (status == LAKE_OK)
        status = set_text(out->tenant_id, sizeof(out->tenant_id), stage_of, "tenant", err);
    if (status == LAKE_OK && !tenant_valid(stage_of))
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "the tenant of the identity may hold letters, digits, '-', '_' and '.' "
                           "and starts with a letter or digit");
    if (status == LAKE_OK)
        status =
            out->delegated ? delegated_grants(out, namespaces, err) : own_grants(out, caller, err);
    if (status != LAKE_OK)
        meta_identity_fini(out);
    return status;
}

void meta_identity_fini(struct meta_identity *identity)
{
    for (size_t i = 0; i < identity->namespace_count; i++)
        base_free(identity->namespaces[i]);
    base_free(identity->namespaces);
    identity->namespaces = NULL;
    identity->namespace_count = 0;
}

static bool caller_may_use(const struct rpc_principal *caller, const char *namespace_key)
{
    if (caller->all_namespaces)
        return true;
    for (size_t i = 0; i < caller->namespace_count; i++) {
        char key[META_NAME_MAX_BYTES + 1];
        if (meta_name_fold(base_str_of(caller->namespaces[i]), key) &&
            strcmp(key, namespace_key) == 0)
            return true;
    }
    return false;
}

bool meta_identity_may_use(const struct meta_identity *identity, const char *namespace_key)
{
    if (identity->role == RPC_ROLE_METADATA_PEER)
        return false;
    if (identity->delegated && !caller_may_use(identity->caller, namespace_key))
        return false;
    if (identity->all_namespaces)
        return true;
    for (size_t i = 0; i < identity->namespace_count; i++) {
        if (strcmp(identity->namespaces[i], namespace_key) == 0)
            return true;
    }
    return false;
}

bool meta_identity_sees_all(const struct meta_identity *identity)
{
    return identity->role != RPC_ROLE_METADATA_PEER && identity->all_namespaces &&
           (!identity->delegated || identity->caller->all_namespaces);
}

lake_status meta_identity_require(const struct meta_identity *identity, const char *namespace_name,
                                  struct lake_error *err)
{
    char key[META_NAME_MAX_BYTES + 1];
    if (meta_name_fold(base_str_of(namespace_name), key) && meta_identity_may_use(identity, key))
        return LAKE_OK;
    return lake_fail(err, LAKE_PERMISSION_DENIED,
                     "principal \"%s\" has no grant on namespace \"%s\"", identity->principal_id,
                     namespace_name);
}

lake_status meta_identity_name(const struct meta_identity *identity, const LakePb__TableName *asked,
                               struct meta_name *out, struct lake_error *err)
{
    lake_status status = meta_name_from_pb(asked, out, err);
    return status == LAKE_OK ? meta_identity_require(identity, out->namespace_name, err) : status;
}
