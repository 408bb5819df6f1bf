/* Multipart uploads and presigned reads of any store that has them. */
#include "storage.h"

#include "checksum.h"
#include "storage_internal.h"

#include <openssl/crypto.h>
#include <string.h>

void storage_part_checksum(struct lake_bytes data, char out[16])
{
    checksum_crc32c_text(checksum_crc32c(0, data), out);
}

uint32_t storage_crc32c(uint32_t crc, struct lake_bytes data)
{
    return checksum_crc32c(crc, data);
}

void storage_crc32c_text(uint32_t crc, char out[16])
{
    checksum_crc32c_text(crc, out);
}

struct storage_multipart {
    struct storage_store *store;
    const struct storage_multipart_methods *methods;
    void *handle; /* the implementation's */
};

static lake_status find_methods(struct storage_store *store,
                                const struct storage_multipart_methods **out,
                                struct lake_error *err)
{
    *out = storage_store_methods(store)->multipart;
    if (*out != NULL)
        return LAKE_OK;
    return lake_fail(err, LAKE_UNIMPLEMENTED, "%s has no multipart uploads",
                     storage_store_uri(store));
}

static lake_status open_upload(struct storage_store *store, struct lake_str key,
                               const char *upload_id, const char *media_type, bool only_if_absent,
                               struct storage_multipart **out, struct lake_error *err)
{
    const struct storage_multipart_methods *methods;
    lake_status status = storage_check_key(key, err);
    if (status == LAKE_OK)
        status = find_methods(store, &methods, err);
    if (status != LAKE_OK)
        return status;
    struct storage_multipart *upload = base_alloc(sizeof(*upload));
    if (upload == NULL)
        return base_fail_no_memory(err, sizeof(*upload));
    status = methods->open(storage_store_own_context(store), key, upload_id, media_type,
                           only_if_absent, &upload->handle, err);
    if (status != LAKE_OK) {
        base_free(upload);
        return status;
    }
    upload->methods = methods;
    upload->store = storage_store_ref(store);
    *out = upload;
    return LAKE_OK;
}

lake_status storage_multipart_create(struct storage_store *store, struct lake_str key,
                                     const char *media_type, bool only_if_absent,
                                     struct storage_multipart **out, struct lake_error *err)
{
    return open_upload(store, key, NULL, media_type, only_if_absent, out, err);
}

lake_status storage_multipart_reopen(struct storage_store *store, struct lake_str key,
                                     const char *upload_id, bool only_if_absent,
                                     struct storage_multipart **out, struct lake_error *err)
{
    if (upload_id[0] == '\0' || strlen(upload_id) >= STORAGE_UPLOAD_ID_BYTES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "an upload's ID has 1 to %d bytes, this one has %zu",
                         STORAGE_UPLOAD_ID_BYTES - 1, strlen(upload_id));
    return open_upload(store, key, upload_id, NULL, only_if_absent, out, err);
}

bool storage_has_multipart(const struct storage_store *store)
{
    /* A child has what the store it is in has. */
    struct storage_store *inner = (struct storage_store *)(uintptr_t)store;
    struct lake_str prefix;
    while (storage_child_parts(inner, &inner, &prefix)) {
    }
    return storage_store_methods(inner)->multipart != NULL;
}

const char *storage_multipart_id(const struct storage_multipart *upload)
{
    return upload->methods->id(upload->handle);
}

lake_status storage_multipart_parts(struct storage_multipart *upload, struct storage_part **out,
                                    size_t *count, struct lake_error *err)
{
    return upload->methods->parts(upload->handle, out, count, err);
}

static lake_status check_number(uint32_t number, struct lake_error *err)
{
    if (number >= 1 && number <= STORAGE_MULTIPART_MAX_PARTS)
        return LAKE_OK;
    return lake_fail(err, LAKE_INVALID_ARGUMENT, "an upload has parts 1 to %d, not %u",
                     STORAGE_MULTIPART_MAX_PARTS, number);
}

lake_status storage_multipart_part_start(struct storage_multipart *upload, uint32_t number,
                                         struct lake_bytes data, struct lake_error *err)
{
    lake_status status = check_number(number, err);
    if (status == LAKE_OK && data.size == 0)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "part %u of an upload is empty", number);
    if (status == LAKE_OK &&
        upload->methods->in_flight(upload->handle) >= STORAGE_MULTIPART_MAX_IN_FLIGHT)
        status = lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                           "%d parts are in flight, the most there may be: finish one first",
                           STORAGE_MULTIPART_MAX_IN_FLIGHT);
    if (status != LAKE_OK)
        return status;
    return upload->methods->part_start(upload->handle, number, data, err);
}

lake_status storage_multipart_part_finish(struct storage_multipart *upload,
                                          struct storage_part *out, struct lake_error *err)
{
    if (upload->methods->in_flight(upload->handle) == 0)
        return lake_fail(err, LAKE_FAILED_PRECONDITION, "no part of the upload is in flight");
    return upload->methods->part_finish(upload->handle, out, err);
}

size_t storage_multipart_in_flight(const struct storage_multipart *upload)
{
    return upload->methods->in_flight(upload->handle);
}

lake_status storage_multipart_complete(struct storage_multipart *upload,
                                       const struct storage_part *parts, size_t count,
                                       struct lake_error *err)
{
    if (count == 0 || count > STORAGE_MULTIPART_MAX_PARTS)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "an object is made of 1 to %d parts, not %zu",
                         STORAGE_MULTIPART_MAX_PARTS, count);
    for (size_t i = 0; i < count; i++) {
        lake_status status = check_number(parts[i].number, err);
        if (status == LAKE_OK && i > 0 && parts[i].number <= parts[i - 1].number)
            status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                               "the parts of an object must be in ascending order");
        if (status == LAKE_OK && parts[i].etag[0] == '\0')
            status = lake_fail(err, LAKE_INVALID_ARGUMENT, "part %u has no ETag: it was not sent",
                               parts[i].number);
        if (status != LAKE_OK)
            return status;
    }
    if (upload->methods->in_flight(upload->handle) > 0)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "parts of the upload are still in flight: finish them first");
    return upload->methods->complete(upload->handle, parts, count, err);
}

lake_status storage_multipart_abort(struct storage_multipart *upload, struct lake_error *err)
{
    return upload->methods->abort(upload->handle, err);
}

void storage_multipart_free(struct storage_multipart *upload)
{
    if (upload == NULL)
        return;
    upload->methods->free(upload->handle);
    storage_store_unref(upload->store);
    base_free(upload);
}

lake_status storage_multipart_list(struct storage_store *store, struct lake_str prefix,
                                   size_t max_count, struct storage_upload_entry **out,
                                   size_t *count, struct lake_error *err)
{
    const struct storage_multipart_methods *methods;
    lake_status status = storage_check_prefix(prefix, err);
    if (status == LAKE_OK)
        status = find_methods(store, &methods, err);
    if (status != LAKE_OK)
        return status;
    return methods->list(storage_store_own_context(store), prefix, max_count, out, count, err);
}

void storage_upload_entries_free(struct storage_upload_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        base_free(entries[i].key);
        base_free(entries[i].upload_id);
    }
    base_free(entries);
}

/* ---- presigned reads ---- */

#define MAX_PRESIGN_S ((uint32_t)7 * 24 * 3600)

lake_status storage_presign_read(struct storage_store *store, struct lake_str key,
                                 uint32_t expires_s, struct storage_presigned *out,
                                 struct lake_error *err)
{
    const struct storage_methods *methods = storage_store_methods(store);
    lake_status status = storage_check_key(key, err);
    if (status == LAKE_OK && (expires_s == 0 || expires_s > MAX_PRESIGN_S))
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "a presigned URL lives 1 to %u seconds, %u were asked for",
                           MAX_PRESIGN_S, expires_s);
    if (status == LAKE_OK && methods->presign_read == NULL)
        status =
            lake_fail(err, LAKE_UNIMPLEMENTED, "objects in %s have no URLs: only S3 stores presign",
                      storage_store_uri(store));
    if (status != LAKE_OK)
        return status;
    return methods->presign_read(storage_store_own_context(store), key, expires_s, out, err);
}

void storage_presigned_fini(struct storage_presigned *presigned)
{
    if (presigned->url != NULL)
        OPENSSL_cleanse(presigned->url, strlen(presigned->url));
    base_free(presigned->url);
    *presigned = (struct storage_presigned){.url = NULL};
}

/* ---- what a store really does ---- */

lake_status storage_probe_put_if_absent(struct storage_store *store, struct lake_str prefix,
                                        struct lake_error *err)
{
    struct base_uuid uuid;
    char text[BASE_UUID_TEXT_BYTES];
    lake_status status = base_uuid4_new(&uuid, err);
    if (status != LAKE_OK)
        return status;
    base_uuid_format(&uuid, text);
    char *key = base_format("%.*slake-probe-%s", LAKE_STR_FMT(prefix), text);
    if (key == NULL)
        return base_fail_no_memory(err, prefix.size);
    struct lake_str view = base_str_of(key);
    struct lake_bytes one = base_bytes_of_str(LAKE_STR("1"));
    status = storage_put_if_absent(store, view, one, err);
    if (status == LAKE_OK) {
        struct lake_error second = {.code = LAKE_OK};
        lake_status again = storage_put_if_absent(store, view, one, &second);
        if (again == LAKE_OK)
            status = lake_fail(err, LAKE_FAILED_PRECONDITION,
                               "%s accepts a conditional write of a key that is taken: two "
                               "writers would lose data; use a service with If-None-Match",
                               storage_store_uri(store));
        else if (again != LAKE_ALREADY_EXISTS) {
            status = again;
            if (err != NULL)
                *err = second;
        }
        lake_status removed = storage_remove(store, view, status == LAKE_OK ? err : NULL);
        status = status == LAKE_OK ? removed : status;
    }
    base_free(key);
    return status;
}
