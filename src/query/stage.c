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

#define MAX_PRESIGN_S 3600

/* The child of an S3 stage and the object's key in it. */
static lake_status find_object(const char *child, struct lake_str uri, struct lake_str *key,
                               struct lake_error *err)
{
    size_t root_bytes = strlen(child);
    if (uri.size <= root_bytes || memcmp(uri.data, child, root_bytes) != 0 ||
        uri.data[root_bytes] != '/')
        return lake_fail(err, LAKE_PERMISSION_DENIED,
                         "the object lies outside your stage and is not read");
    if (!base_str_has_prefix(uri, "s3://"))
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "the stage is on this server's disk: only objects in S3 have URLs");
    *key = (struct lake_str){uri.data + root_bytes + 1, uri.size - root_bytes - 1};
    return LAKE_OK;
}

static lake_status encode_presigned(const struct storage_presigned *presigned,
                                    struct base_buffer *out, struct lake_error *err)
{
    LakePb__PresignedRead answer = LAKE_PB__PRESIGNED_READ__INIT;
    answer.has_url = 1;
    answer.url = (ProtobufCBinaryData){strlen(presigned->url), (uint8_t *)presigned->url};
    answer.has_expires_unix_ms = 1;
    answer.expires_unix_ms = presigned->expires_unix_ms;
    lake_status status =
        base_buffer_reserve(out, lake_pb__presigned_read__get_packed_size(&answer), err);
    if (status == LAKE_OK)
        out->size += lake_pb__presigned_read__pack(&answer, out->data + out->size);
    return status;
}

lake_status query_stage_presign(struct query_server *server, const struct rpc_principal *principal,
                                struct lake_bytes request, struct base_buffer *out,
                                struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct storage_presigned presigned = {.url = NULL};
    struct lake_str key;
    char *child = NULL;
    LakePb__PresignReadRequest *asked =
        lake_pb__presign_read_request__unpack(NULL, request.size, request.data);
    if (asked == NULL)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the action's body is no PresignReadRequest");
    struct lake_str uri = {(const char *)asked->uri.data, asked->uri.len};
    lake_status status = LAKE_OK;
    if (asked->expires_s == 0 || asked->expires_s > MAX_PRESIGN_S)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "a presigned URL lives 1 to %d seconds, %u were asked for",
                           MAX_PRESIGN_S, asked->expires_s);
    if (status == LAKE_OK)
        status = query_stage_uri(server->stage, principal, &child, err);
    if (status == LAKE_OK)
        status = find_object(child, uri, &key, err);
    if (status == LAKE_OK)
        status = query_tables_store(server->tables, base_str_of(child), &store, err);
    if (status == LAKE_OK)
        status = storage_presign_read(store, key, asked->expires_s, &presigned, err);
    if (status == LAKE_OK)
        status = encode_presigned(&presigned, out, err);
    storage_presigned_fini(&presigned);
    storage_store_unref(store);
    base_free(child);
    lake_pb__presign_read_request__free_unpacked(asked, NULL);
    return status;
}
