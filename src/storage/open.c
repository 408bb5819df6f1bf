/* A store by its URI. */
#include "storage.h"

#include <string.h>

#define FILE_SCHEME "file://"

static lake_status open_local(struct lake_str uri, bool create, struct storage_store **out,
                              struct lake_error *err)
{
    size_t skip = sizeof(FILE_SCHEME) - 1;
    char *path = base_strndup(uri.data + skip, uri.size - skip);
    if (path == NULL)
        return base_fail_no_memory(err, uri.size);
    lake_status status = storage_local_open(path, create, out, err);
    base_free(path);
    return status;
}

static lake_status open_bucket(struct lake_str bucket, const struct storage_s3_options *given,
                               struct storage_store **out, struct lake_error *err)
{
    struct storage_s3_options options;
    storage_s3_options_init(&options);
    if (given != NULL)
        options = *given;
    char *name = base_strndup(bucket.data, bucket.size);
    if (name == NULL)
        return base_fail_no_memory(err, bucket.size);
    options.bucket = name;
    lake_status status = storage_s3_open(&options, out, err);
    base_free(name);
    return status;
}

lake_status storage_open_uri(struct lake_str uri, bool create,
                             const struct storage_s3_options *options, struct storage_store **out,
                             struct lake_error *err)
{
    struct lake_str bucket;
    struct lake_str prefix;
    struct storage_store *whole;
    if (base_str_has_prefix(uri, FILE_SCHEME))
        return open_local(uri, create, out, err);
    if (storage_s3_uri_split(uri, &bucket, &prefix) &&
        memchr(bucket.data, '@', bucket.size) != NULL) /* and is not repeated */
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a URI of a bucket holds no credentials: they are found as AWS's own "
                         "tools find them");
    if (!storage_s3_uri_split(uri, &bucket, &prefix))
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "%.*s is neither file:///… nor s3://bucket/…: nothing else is known here",
                         LAKE_STR_FMT(uri));
    lake_status status = open_bucket(bucket, options, &whole, err);
    if (status != LAKE_OK)
        return status;
    if (prefix.size == 0) {
        *out = whole;
        return LAKE_OK;
    }
    status = storage_child_open(whole, prefix, out, err);
    storage_store_unref(whole);
    return status;
}
