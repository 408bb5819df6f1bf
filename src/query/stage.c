/*
 * Where objects are (OBJ-2): Metasrv's root, asked for once for each registry authority, and the
 * caller's child of it.
 */
#include "query_internal.h"

#include <string.h>

struct query_stage {
    struct query_metasrv *metasrv;
    struct query_directory *directory;
    pthread_mutex_t lock; /* guards what follows */
    char *authority;      /* of which the rest is; NULL: not asked yet */
    LakePb__StageDescriptor *root;
};

lake_status query_stage_new(struct query_metasrv *metasrv, struct query_directory *directory,
                            struct query_stage **out, struct lake_error *err)
{
    struct query_stage *stage = base_calloc_array(1, sizeof(*stage));
    if (stage == NULL)
        return base_fail_no_memory(err, sizeof(*stage));
    stage->metasrv = metasrv;
    stage->directory = directory;
    pthread_mutex_init(&stage->lock, NULL);
    *out = stage;
    return LAKE_OK;
}

void query_stage_free(struct query_stage *stage)
{
    if (stage == NULL)
        return;
    if (stage->root != NULL)
        lake_pb__stage_descriptor__free_unpacked(stage->root, NULL);
    base_free(stage->authority);
    pthread_mutex_destroy(&stage->lock);
    base_free(stage);
}

static lake_status ask(struct query_stage *stage, LakePb__StageDescriptor **out,
                       struct lake_error *err)
{
    struct base_buffer reply;
    base_buffer_init(&reply, 65536);
    lake_status status = query_metasrv_action(stage->metasrv, NULL, "lake.stage",
                                              (struct lake_bytes){0}, &reply, err);
    if (status == LAKE_OK) {
        *out = lake_pb__stage_descriptor__unpack(NULL, reply.size, reply.data);
        if (*out == NULL || (*out)->root_uri.len == 0)
            status = lake_fail(err, LAKE_INTERNAL, "Metasrv's stage descriptor cannot be read");
    }
    base_buffer_fini(&reply);
    return status;
}

static bool tenant_is_path_safe(const char *tenant)
{
    return tenant[0] != '\0' && strcmp(tenant, ".") != 0 && strcmp(tenant, "..") != 0 &&
           strpbrk(tenant, "/\\%?#") == NULL;
}

/* With the lock held and a root there. */
static lake_status describe(const LakePb__StageDescriptor *root, const char *tenant_id,
                            char **child, struct base_buffer *message, struct lake_error *err)
{
    char *uri = base_format("%.*s/tenants/%s", (int)root->root_uri.len,
                            (const char *)root->root_uri.data, tenant_id);
    if (uri == NULL)
        return base_fail_no_memory(err, root->root_uri.len);
    lake_status status = LAKE_OK;
    if (message != NULL) {
        LakePb__StageDescriptor answer = *root;
        answer.has_root_uri = 1;
        answer.root_uri = (ProtobufCBinaryData){strlen(uri), (uint8_t *)uri};
        status =
            base_buffer_reserve(message, lake_pb__stage_descriptor__get_packed_size(&answer), err);
        if (status == LAKE_OK)
            message->size +=
                lake_pb__stage_descriptor__pack(&answer, message->data + message->size);
    }
    if (status == LAKE_OK && child != NULL)
        *child = uri;
    else
        base_free(uri);
    return status;
}

static lake_status find(struct query_stage *stage, const struct rpc_principal *principal,
                        char **child, struct base_buffer *message, struct lake_error *err)
{
    LakePb__StageDescriptor *fresh = NULL;
    char *authority = NULL;
    if (!tenant_is_path_safe(principal->tenant_id))
        return lake_fail(err, LAKE_INTERNAL, "this tenant's name cannot be a directory");
    const struct query_snapshot *snapshot = query_directory_snapshot(stage->directory);
    authority = base_strndup(snapshot->authority.data, snapshot->authority.size);
    query_snapshot_unref(snapshot);
    if (authority == NULL)
        return base_fail_no_memory(err, 1);
    pthread_mutex_lock(&stage->lock);
    bool known = stage->authority != NULL && strcmp(stage->authority, authority) == 0;
    lake_status status =
        known ? describe(stage->root, principal->tenant_id, child, message, err) : LAKE_OK;
    pthread_mutex_unlock(&stage->lock);
    if (!known) {
        status = ask(stage, &fresh, err);
        pthread_mutex_lock(&stage->lock);
        if (status == LAKE_OK) { /* the old ones go out with `fresh` and `authority` */
            LakePb__StageDescriptor *old_root = stage->root;
            char *old_authority = stage->authority;
            stage->root = fresh;
            stage->authority = authority;
            fresh = old_root;
            authority = old_authority;
            status = describe(stage->root, principal->tenant_id, child, message, err);
        }
        pthread_mutex_unlock(&stage->lock);
    }
    if (fresh != NULL)
        lake_pb__stage_descriptor__free_unpacked(fresh, NULL);
    base_free(authority);
    return status;
}

lake_status query_stage_uri(struct query_stage *stage, const struct rpc_principal *principal,
                            char **out, struct lake_error *err)
{
    return find(stage, principal, out, NULL, err);
}

lake_status query_stage_describe(struct query_stage *stage, const struct rpc_principal *principal,
                                 struct base_buffer *out, struct lake_error *err)
{
    return find(stage, principal, NULL, out, err);
}
