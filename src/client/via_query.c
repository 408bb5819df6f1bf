/*
 * Objects for whoever has no cloud credentials (OBJ-8): Query signs a URL for one object of the
 * caller's stage, one action for each read, and the bytes come from object storage by it.
 */
#include "client_internal.h"

#include <string.h>

#define MAX_PRESIGN_S   3600
#define MAX_REPLY_BYTES ((size_t)128 * 1024)

static lake_status take_reply(const struct base_buffer *reply, struct lake_presigned *out,
                              struct lake_error *err)
{
    LakePb__PresignedRead *answer = lake_pb__presigned_read__unpack(NULL, reply->size, reply->data);
    lake_status status = LAKE_OK;
    char *url = NULL;
    if (answer == NULL || answer->url.len == 0 ||
        memchr(answer->url.data, '\0', answer->url.len) != NULL) {
        status = lake_fail(err, LAKE_INTERNAL, "the server's presigned read cannot be understood");
    } else {
        url = base_strndup((const char *)answer->url.data, answer->url.len);
        if (url == NULL)
            status = base_fail_no_memory(err, answer->url.len);
    }
    if (status == LAKE_OK)
        *out = (struct lake_presigned){.url = url, .expires_unix_ms = answer->expires_unix_ms};
    if (answer != NULL && answer->url.len > 0)
        explicit_bzero(answer->url.data, answer->url.len);
    if (answer != NULL)
        lake_pb__presigned_read__free_unpacked(answer, NULL);
    return status;
}

lake_status lake_presign_read_via_query(lake_client *client,
                                        const struct lake_data_location *location,
                                        uint32_t expires_s, struct lake_presigned *out,
                                        struct lake_error *err)
{
    LakePb__PresignReadRequest request = LAKE_PB__PRESIGN_READ_REQUEST__INIT;
    struct base_buffer body;
    struct base_buffer reply;
    lake_error_clear(err);
    if (expires_s == 0 || expires_s > MAX_PRESIGN_S)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a presigned URL lives 1 to %d seconds, %u were asked for", MAX_PRESIGN_S,
                         expires_s);
    lake_status status = client_location_check(location, err);
    if (status != LAKE_OK)
        return status;
    request.has_uri = 1;
    request.uri = client_binary(base_str_of(location->uri));
    request.has_expires_s = 1;
    request.expires_s = expires_s;
    base_buffer_init(&body, CLIENT_MAX_METADATA_BYTES);
    base_buffer_init(&reply, MAX_REPLY_BYTES);
    status = client_pack(&request.base, &body, err);
    if (status == LAKE_OK)
        status = client_action(client, "lake.presign_read", base_buffer_view(&body), &reply, err);
    if (status == LAKE_OK)
        status = take_reply(&reply, out, err);
    if (reply.size > 0)
        explicit_bzero(reply.data, reply.size);
    base_buffer_fini(&reply);
    base_buffer_fini(&body);
    return status;
}

/* Borrowed; its connections are shared by all reads of the client. */
static lake_status url_reader(lake_client *client, struct storage_url_reader **out,
                              struct lake_error *err)
{
    struct storage_url_reader *made = NULL;
    pthread_mutex_lock(&client->stage_lock);
    *out = client->url_reader;
    pthread_mutex_unlock(&client->stage_lock);
    if (*out != NULL)
        return LAKE_OK;
    lake_status status = storage_url_reader_new(&made, err);
    if (status != LAKE_OK)
        return status;
    pthread_mutex_lock(&client->stage_lock);
    if (client->url_reader == NULL) {
        client->url_reader = made;
        made = NULL;
    }
    *out = client->url_reader;
    pthread_mutex_unlock(&client->stage_lock);
    storage_url_reader_unref(made); /* another thread was faster */
    return LAKE_OK;
}

lake_status client_url_check_empty(struct storage_store *store, struct lake_str key,
                                   struct lake_error *err)
{
    struct base_buffer bytes;
    base_buffer_init(&bytes, 1);
    lake_status status = storage_read_all(store, key, &bytes, err);
    if (status == LAKE_RESOURCE_EXHAUSTED || (status == LAKE_OK && bytes.size > 0))
        status = lake_fail(err, LAKE_DATA_LOSS,
                           "the object %.*s has bytes, its location says 0: it was damaged",
                           LAKE_STR_FMT(key));
    base_buffer_fini(&bytes);
    return status;
}

lake_status client_url_store(lake_client *client, const struct lake_data_location *location,
                             struct storage_store **out, struct lake_str *key,
                             int64_t *expires_unix_ms, struct lake_error *err)
{
    struct storage_url_reader *connections;
    struct lake_presigned presigned;
    struct lake_str bucket;
    lake_status status =
        lake_presign_read_via_query(client, location, MAX_PRESIGN_S, &presigned, err);
    if (status != LAKE_OK)
        return status;
    *expires_unix_ms = presigned.expires_unix_ms;
    if (!storage_s3_uri_split(base_str_of(location->uri), &bucket, key))
        status = lake_fail(err, LAKE_INTERNAL, "the server signed for an object that is not in S3");
    if (status == LAKE_OK)
        status = url_reader(client, &connections, err);
    if (status == LAKE_OK)
        status = storage_url_open(connections, presigned.url, bucket, *key,
                                  (uint64_t)location->size_bytes, out, err);
    lake_presigned_fini(&presigned);
    return status;
}

lake_status client_reader_via_query(lake_client *client, const struct lake_data_location *location,
                                    struct client_reader_part part, lake_reader **out,
                                    struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct lake_str key;
    int64_t expires_unix_ms;
    lake_reader *reader = NULL;
    lake_status status = client_url_store(client, location, &store, &key, &expires_unix_ms, err);
    if (status == LAKE_OK && location->size_bytes == 0)
        status = client_url_check_empty(store, key, err);
    if (status == LAKE_OK)
        status = client_reader_new(store, key, "", location, part, &reader, err);
    storage_store_unref(store);
    if (status == LAKE_OK)
        *out = reader;
    return status;
}

static lake_status open_via_query(lake_client *client, const struct lake_data_location *location,
                                  struct client_reader_part part, lake_reader **out,
                                  struct lake_error *err)
{
    lake_reader *reader = NULL;
    lake_status status = client_reader_via_query(client, location, part, &reader, err);
    if (status == LAKE_OK)
        status = client_reader_begin(reader, err);
    if (status != LAKE_OK) {
        lake_reader_free(reader);
        return status;
    }
    *out = reader;
    return LAKE_OK;
}

lake_status lake_open_via_query(lake_client *client, const struct lake_data_location *location,
                                lake_reader **out, struct lake_error *err)
{
    struct client_reader_part part = {0, location->size_bytes, true, false};
    return open_via_query(client, location, part, out, err);
}

lake_status lake_open_range_via_query(lake_client *client,
                                      const struct lake_data_location *location, int64_t start,
                                      int64_t end, lake_reader **out, struct lake_error *err)
{
    struct client_reader_part part = {start, end, false, false};
    lake_error_clear(err);
    lake_status status = client_range_check(location, start, end, err);
    return status == LAKE_OK ? open_via_query(client, location, part, out, err) : status;
}
