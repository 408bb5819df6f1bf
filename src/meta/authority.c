/* Opening a data directory for this process, and what hangs on it. */
#include "meta_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define REGISTRY_FORMAT "1"
#define CACHE_BYTES     (32u * 1024 * 1024)
/* More commits than can be in flight at once; see meta_next_commit_generation. */
#define GENERATION_SLACK 65536

/* Makes the directory and its parents, as `mkdir -p` does; the stores sync what they make below. */
static lake_status make_data_dir(const char *path, char **resolved, struct lake_error *err)
{
    struct storage_store *store;
    lake_status status = storage_local_open(path, true, &store, err);
    if (status != LAKE_OK)
        return status;
    storage_store_unref(store);
    char *absolute = realpath(path, NULL);
    if (absolute == NULL)
        return base_fail_errno(err, errno, "data directory %s cannot be resolved", path);
    *resolved = base_strdup(absolute);
    free(absolute);
    return *resolved == NULL ? base_fail_no_memory(err, 0) : LAKE_OK;
}

static lake_status open_store(const struct meta_authority *authority, const char *name,
                              struct storage_store **out, struct lake_error *err)
{
    char *path = base_format("%s/%s", authority->data_dir, name);
    if (path == NULL)
        return base_fail_no_memory(err, 0);
    lake_status status = storage_local_open(path, true, out, err);
    base_free(path);
    return status;
}

/* A part of the bucket; the whole for an empty prefix. */
static lake_status open_part(struct storage_store *bucket, const char *prefix, const char *name,
                             struct storage_store **out, struct lake_error *err)
{
    bool both = prefix != NULL && name != NULL;
    char *joined = base_format("%s%s%s", prefix == NULL ? "" : prefix, both ? "/" : "",
                               name == NULL ? "" : name);
    if (joined == NULL)
        return base_fail_no_memory(err, 0);
    lake_status status = LAKE_OK;
    if (joined[0] == '\0')
        *out = storage_store_ref(bucket);
    else
        status = storage_child_open(bucket, base_str_of(joined), out, err);
    base_free(joined);
    return status;
}

/* Names of namespaces and tables do not begin with "__", so nothing of a table is below these. */
static lake_status open_bucket(struct meta_authority *authority, const struct meta_options *options,
                               struct lake_error *err)
{
    struct storage_s3_options s3;
    struct storage_store *bucket = NULL;
    storage_s3_options_init(&s3);
    s3.bucket = options->s3_bucket;
    lake_status status = storage_s3_open(&s3, &bucket, err);
    if (status != LAKE_OK)
        return status;
    const char *objects = options->object_prefix == NULL ? "objects" : options->object_prefix;
    status = open_part(bucket, options->table_prefix, NULL, &authority->tables, err);
    if (status == LAKE_OK)
        status = open_part(bucket, objects, NULL, &authority->objects, err);
    if (status == LAKE_OK)
        status =
            open_part(bucket, options->table_prefix, "__reference-deltas", &authority->deltas, err);
    if (status == LAKE_OK) /* L08; and says at once when the bucket cannot be reached */
        status = storage_probe_put_if_absent(authority->deltas, LAKE_STR("__probe/"), err);
    storage_store_unref(bucket);
    return status;
}

static lake_status open_directories(struct meta_authority *authority, struct lake_error *err)
{
    lake_status status = open_store(authority, "tables", &authority->tables, err);
    if (status == LAKE_OK)
        status = open_store(authority, "objects", &authority->objects, err);
    if (status == LAKE_OK)
        status = open_store(authority, "reference-deltas", &authority->deltas, err);
    if (status == LAKE_OK) {
        authority->tables_dir = base_format("%s/tables", authority->data_dir);
        if (authority->tables_dir == NULL)
            status = base_fail_no_memory(err, 0);
    }
    return status;
}

static lake_status open_registry(struct meta_authority *authority, struct lake_error *err)
{
    char *path = base_format("%s/registry", authority->data_dir);
    if (path == NULL)
        return base_fail_no_memory(err, 0);
    lake_status status = kv_rocksdb_open(path, &authority->kv, err);
    base_free(path);
    if (status == LAKE_FAILED_PRECONDITION)
        status = lake_fail_wrap(err, LAKE_FAILED_PRECONDITION,
                                "data directory %s is in use by another process; a directory has "
                                "one Metasrv",
                                authority->data_dir);
    return status;
}

/* The identity of this registry, made when it is new; refuses a registry of another format. */
static lake_status load_authority(struct meta_authority *authority, struct lake_error *err)
{
    struct lake_bytes id_key = base_bytes_of_str(LAKE_STR("a/authority"));
    struct lake_bytes format_key = base_bytes_of_str(LAKE_STR("a/format"));
    struct base_buffer value;
    base_buffer_init(&value, 256);
    lake_status status = kv_get(authority->kv, format_key, &value, err);
    if (status == LAKE_NOT_FOUND) {
        struct base_uuid id;
        status = base_uuid4_new(&id, err);
        if (status != LAKE_OK)
            goto out;
        base_uuid_format(&id, authority->authority_id);
        struct kv_condition absent = {KV_ABSENT, format_key, {NULL, 0}};
        struct kv_write writes[] = {
            {KV_PUT, id_key, base_bytes_of_str(base_str_of(authority->authority_id))},
            {KV_PUT, format_key, base_bytes_of_str(LAKE_STR(REGISTRY_FORMAT))}};
        status = kv_commit(authority->kv, &absent, 1, writes, BASE_ARRAY_LEN(writes), NULL, err);
        goto out;
    }
    if (status != LAKE_OK)
        goto out;
    if (!base_str_equal_c((struct lake_str){(const char *)value.data, value.size},
                          REGISTRY_FORMAT)) {
        status = lake_fail(err, LAKE_UNIMPLEMENTED,
                           "the registry in %s has a format that this version does not know; it "
                           "reads format %s",
                           authority->data_dir, REGISTRY_FORMAT);
        goto out;
    }
    status = kv_get(authority->kv, id_key, &value, err);
    struct base_uuid id;
    if (status == LAKE_OK &&
        !base_uuid_parse((struct lake_str){(const char *)value.data, value.size}, &id))
        status = lake_fail(err, LAKE_DATA_LOSS, "the registry in %s has no valid identity",
                           authority->data_dir);
    if (status == LAKE_OK)
        base_uuid_format(&id, authority->authority_id);
out:
    base_buffer_fini(&value);
    return status;
}

lake_status meta_authority_open(const struct meta_options *options, uint64_t append_retention_s,
                                struct meta_authority **out, struct meta_recovery *recovery,
                                struct lake_error *err)
{
    const char *data_dir = options->data_dir;
    if (data_dir == NULL || data_dir[0] == '\0')
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "no data directory was given");
    struct meta_authority *authority = base_calloc_array(1, sizeof(*authority));
    if (authority == NULL)
        return base_fail_no_memory(err, sizeof(*authority));
    lake_status status = meta_gates_init(&authority->gates, err);
    if (status != LAKE_OK) {
        base_free(authority);
        return status;
    }
    if (!base_u64_mul(append_retention_s, 1000, &authority->append_retention_ms))
        authority->append_retention_ms = UINT64_MAX;
    authority->retain_versions =
        options->retain_versions == 0 ? META_RETAIN_VERSIONS : options->retain_versions;
    authority->cleanup_grace_ms =
        1000 *
        (int64_t)(options->cleanup_grace_s == 0 ? META_CLEANUP_GRACE_S : options->cleanup_grace_s);
    uint64_t commit_generation = 0;
    status = make_data_dir(data_dir, &authority->data_dir, err);
    /* The registry first: its lock decides whose directory this is. */
    if (status == LAKE_OK)
        status = open_registry(authority, err);
    if (status == LAKE_OK)
        status = load_authority(authority, err);
    if (status == LAKE_OK)
        status = meta_generation_get(authority, "commit", &commit_generation, err);
    if (status == LAKE_OK)
        status = options->s3_bucket == NULL ? open_directories(authority, err)
                                            : open_bucket(authority, options, err);
    if (status == LAKE_OK)
        status = lance_cache_new(CACHE_BYTES, &authority->cache, err);
    if (status == LAKE_OK) {
        atomic_store(&authority->next_commit_generation, commit_generation + GENERATION_SLACK);
        status = meta_recover(authority, recovery, err);
    }
    if (status != LAKE_OK) {
        meta_authority_free(authority);
        return status;
    }
    *out = authority;
    return LAKE_OK;
}

void meta_authority_free(struct meta_authority *authority)
{
    if (authority == NULL)
        return;
    lance_cache_free(authority->cache);
    storage_store_unref(authority->deltas);
    storage_store_unref(authority->objects);
    storage_store_unref(authority->tables);
    kv_close(authority->kv);
    meta_gates_fini(&authority->gates);
    base_free(authority->tables_dir);
    base_free(authority->data_dir);
    base_free(authority);
}

lake_status meta_table_store(struct meta_authority *authority, const struct meta_name *name,
                             struct storage_store **out, struct lake_error *err)
{
    char *prefix = base_format("%s/%s.lance", name->namespace_key, name->table_key);
    if (prefix == NULL)
        return base_fail_no_memory(err, 0);
    lake_status status = storage_child_open(authority->tables, base_str_of(prefix), out, err);
    base_free(prefix);
    return status;
}
