#include "query_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ACTION_DEADLINE_MS   30000
#define MAX_CA_BYTES         (1024 * 1024)
#define MAX_TOKEN_BYTES      4096
#define MAX_NAMESPACES_BYTES 12288 /* fits a header block of 16 KiB */

/* The headers by which Metasrv learns for whom this server acts (NAT-13). */
#define HEADER_PRINCIPAL  "lake-on-behalf-of"
#define HEADER_TENANT     "lake-tenant"
#define HEADER_NAMESPACES "lake-namespaces"

struct query_metasrv {
    struct rpc_channel *channel;
};

/* The certificate authorities in PEM, NUL-terminated; base_free. */
static lake_status read_ca(const char *path, char **out, struct lake_error *err)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return base_fail_errno(err, errno, "cannot open LAKE_METADATA_CA_FILE %s", path);
    char *text = base_alloc(MAX_CA_BYTES + 1);
    size_t size = text == NULL ? 0 : fread(text, 1, MAX_CA_BYTES + 1, file);
    fclose(file);
    if (text == NULL)
        return base_fail_no_memory(err, MAX_CA_BYTES);
    if (size == 0 || size > MAX_CA_BYTES) {
        base_free(text);
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "LAKE_METADATA_CA_FILE %s must hold 1 to %d bytes of PEM", path,
                         MAX_CA_BYTES);
    }
    text[size] = '\0';
    *out = text;
    return LAKE_OK;
}

lake_status query_metasrv_open(const struct query_options *options, struct query_metasrv **out,
                               struct lake_error *err)
{
    struct query_metasrv *metasrv = base_calloc_array(1, sizeof(*metasrv));
    struct base_secret token = {0};
    char *ca = NULL;
    lake_status status = LAKE_OK;
    if (metasrv == NULL)
        return base_fail_no_memory(err, sizeof(*metasrv));
    struct rpc_channel_options channel = {
        .target = options->meta_address,
        .tls = options->meta_ca_path != NULL || options->meta_server_name != NULL,
        .server_name = options->meta_server_name,
    };
    if (options->meta_token_path != NULL) {
        status = base_secret_read_file(&token, options->meta_token_path, MAX_TOKEN_BYTES, err);
        channel.bearer_token = &token;
    }
    if (status == LAKE_OK && options->meta_ca_path != NULL) {
        status = read_ca(options->meta_ca_path, &ca, err);
        channel.ca_pem = ca;
    }
    if (status == LAKE_OK)
        status = rpc_channel_open(&channel, &metasrv->channel, err);
    base_secret_fini(&token);
    base_free(ca);
    if (status != LAKE_OK) {
        base_free(metasrv);
        return status;
    }
    *out = metasrv;
    return LAKE_OK;
}

void query_metasrv_free(struct query_metasrv *metasrv)
{
    if (metasrv == NULL)
        return;
    rpc_channel_unref(metasrv->channel);
    base_free(metasrv);
}

static lake_status namespaces_header(const struct rpc_principal *principal, struct base_buffer *out,
                                     struct lake_error *err)
{
    if (principal->all_namespaces)
        return base_buffer_append(out, "*", 1, err);
    for (size_t i = 0; i < principal->namespace_count; i++) {
        lake_status status =
            base_buffer_printf(out, err, "%s%s", i == 0 ? "" : ",", principal->namespaces[i]);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

/* The headers of a call on behalf of a principal. */
struct behalf {
    struct rpc_header headers[3];
    size_t count;
    struct base_buffer namespaces;
};

static lake_status behalf_init(struct behalf *behalf, const struct rpc_principal *principal,
                               struct lake_error *err)
{
    behalf->count = 0;
    base_buffer_init(&behalf->namespaces, MAX_NAMESPACES_BYTES);
    if (principal == NULL)
        return LAKE_OK;
    lake_status status = namespaces_header(principal, &behalf->namespaces, err);
    struct lake_bytes names = base_buffer_view(&behalf->namespaces);
    behalf->headers[0] =
        (struct rpc_header){HEADER_PRINCIPAL, base_str_of(principal->principal_id)};
    behalf->headers[1] = (struct rpc_header){HEADER_TENANT, base_str_of(principal->tenant_id)};
    behalf->headers[2] =
        (struct rpc_header){HEADER_NAMESPACES, {(const char *)names.data, names.size}};
    behalf->count = 3;
    return status;
}

lake_status query_metasrv_action_within(struct query_metasrv *metasrv,
                                        const struct rpc_principal *principal, int64_t deadline_ms,
                                        const char *type, struct lake_bytes body,
                                        struct base_buffer *reply, struct lake_error *err)
{
    struct flight_action action = {base_str_of(type), body};
    struct behalf behalf;
    lake_status status = behalf_init(&behalf, principal, err);
    if (status == LAKE_OK)
        status = flight_do_action(metasrv->channel, behalf.headers, behalf.count, deadline_ms,
                                  &action, reply, err);
    base_buffer_fini(&behalf.namespaces);
    return status;
}

lake_status query_metasrv_action(struct query_metasrv *metasrv,
                                 const struct rpc_principal *principal, const char *type,
                                 struct lake_bytes body, struct base_buffer *reply,
                                 struct lake_error *err)
{
    return query_metasrv_action_within(metasrv, principal, ACTION_DEADLINE_MS, type, body, reply,
                                       err);
}

lake_status query_metasrv_put(struct query_metasrv *metasrv, const struct rpc_principal *principal,
                              int64_t deadline_ms, struct rpc_client_call **out,
                              struct lake_error *err)
{
    struct behalf behalf;
    lake_status status = behalf_init(&behalf, principal, err);
    if (status == LAKE_OK)
        status = rpc_client_call_start(metasrv->channel, FLIGHT_METHOD_DO_PUT, behalf.headers,
                                       behalf.count, deadline_ms, out, err);
    base_buffer_fini(&behalf.namespaces);
    return status;
}
