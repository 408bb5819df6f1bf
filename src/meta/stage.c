/* The managed stage (OBJ-2): its descriptor, and that an append's FILE values lie in it. */
#include "meta_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STAGE_FORMAT_VERSION 1

static char *tenant_stage(const struct meta_authority *authority, const char *tenant_id,
                          const char *end)
{
    return base_format("%s/tenants/%s%s", storage_store_uri(authority->objects), tenant_id, end);
}

static lake_status add_uri(void *context, struct lake_str uri, struct lake_error *err)
{
    return meta_uri_set_add(context, uri, err);
}

lake_status meta_file_values_check(struct meta_authority *authority, const char *tenant_id,
                                   const struct ArrowSchema *schema, const struct ArrowArray *batch,
                                   int64_t first_row, struct meta_uri_set *uris,
                                   struct lake_error *err)
{
    char *stage = tenant_stage(authority, tenant_id, "/");
    if (stage == NULL)
        return base_fail_no_memory(err, strlen(tenant_id));
    const struct arrow_file_rule rule = {.stage = base_str_of(stage),
                                         .tenant_id = tenant_id,
                                         .first_row = first_row,
                                         .found = add_uri,
                                         .context = uris};
    lake_status status = arrow_file_values_check(schema, batch, &rule, err);
    base_free(stage);
    return status;
}

/* ---- the descriptor ---- */

lake_status meta_stage_describe(struct meta_authority *authority,
                                const struct meta_identity *identity, struct base_buffer *out,
                                struct lake_error *err)
{
    if (identity->role == RPC_ROLE_METADATA_PEER)
        return lake_fail(err, LAKE_PERMISSION_DENIED, "metadata peers have no stage");
    bool whole = identity->role == RPC_ROLE_QUERY_SERVICE || identity->role == RPC_ROLE_ADMIN;
    char *root = whole ? base_strdup(storage_store_uri(authority->objects))
                       : tenant_stage(authority, identity->tenant_id, "");
    if (root == NULL)
        return base_fail_no_memory(err, 256);
    LakePb__StageDescriptor descriptor = LAKE_PB__STAGE_DESCRIPTOR__INIT;
    descriptor.has_format_version = true;
    descriptor.format_version = STAGE_FORMAT_VERSION;
    descriptor.has_kind = true;
    struct storage_s3_place place;
    bool remote = storage_s3_place(authority->objects, &place);
    descriptor.kind = meta_pb_of_str(remote ? "s3" : "local");
    if (remote) {
        descriptor.has_endpoint = place.endpoint[0] != '\0';
        descriptor.endpoint = meta_pb_of_str(place.endpoint);
        descriptor.has_region = true;
        descriptor.region = meta_pb_of_str(place.region);
        descriptor.has_path_style = true;
        descriptor.path_style = place.path_style;
    }
    descriptor.has_root_uri = true;
    descriptor.root_uri = meta_pb_of_str(root);
    lake_status status = meta_pb_pack(&descriptor.base, out, err);
    base_free(root);
    return status;
}
