/* Records of committed appends, by which a retry finds its first version (NAT-6). */
#include "meta_internal.h"

#include <inttypes.h>
#include <meta_store.pb-c.h>
#include <stdio.h>
#include <string.h>

/* A record outlives the moment from which its ID is refused by this much, so that a clock that is
 * set back cannot let a pruned ID in again. */
#define PRUNE_MARGIN_MS (60 * 60 * 1000)
#define PRUNE_PAGE      90 /* deletions in one commit; below KV_MAX_COMMIT_OPERATIONS */
#define PRUNE_MAX_PAGES 64 /* of one pass; the next pass goes on */

lake_status meta_operation_check_id(struct lake_str text, int64_t now_unix_ms,
                                    uint64_t retention_ms, char out[BASE_UUID_TEXT_BYTES],
                                    struct lake_error *err)
{
    struct base_uuid id;
    if (!base_uuid_parse(text, &id))
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the operation ID is not a UUID (%zu bytes given)", text.size);
    /* Version 7 and the variant of RFC 9562: only then do the first 48 bits tell a time. */
    if (base_uuid_version(&id) != 7 || (id.bytes[8] & 0xc0) != 0x80)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the operation ID is a UUID of version %d; a UUIDv7 is needed",
                         base_uuid_version(&id));
    char formatted[BASE_UUID_TEXT_BYTES];
    base_uuid_format(&id, formatted);
    int64_t made_ms = base_uuid7_unix_ms(&id);
    if (made_ms > now_unix_ms + META_FUTURE_TOLERANCE_MS)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "operation ID %s is %" PRId64 " s ahead of the server's clock; at most %d "
                         "s are allowed",
                         formatted, (made_ms - now_unix_ms) / 1000,
                         META_FUTURE_TOLERANCE_MS / 1000);
    if (now_unix_ms > made_ms && (uint64_t)(now_unix_ms - made_ms) > retention_ms)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "operation ID %s has expired: it is %" PRId64
                         " s old and records are kept for %" PRIu64
                         " s; check whether its rows are there, then use a new ID",
                         formatted, (now_unix_ms - made_ms) / 1000, retention_ms / 1000);
    memcpy(out, formatted, sizeof(formatted));
    return LAKE_OK;
}

static struct lake_bytes operation_key(char out[META_KEY_BYTES], const struct meta_name *name,
                                       const char *operation_id)
{
    int size = snprintf(out, META_KEY_BYTES, "o/%s/%s/%s", operation_id, name->namespace_key,
                        name->table_key);
    return (struct lake_bytes){(const uint8_t *)out, (size_t)size};
}

static bool operation_of_pb(const MetaStorePb__Operation *record, struct meta_operation *out)
{
    struct base_uuid incarnation;
    if (record->content_sha256.len != BASE_SHA256_BYTES || record->version == 0 ||
        !base_uuid_parse(meta_str_of_pb(record->incarnation), &incarnation))
        return false;
    memcpy(out->content_sha256, record->content_sha256.data, BASE_SHA256_BYTES);
    out->version = record->version;
    base_uuid_format(&incarnation, out->incarnation);
    out->row_count = record->row_count;
    out->recorded_unix_ms = record->recorded_unix_ms;
    return true;
}

lake_status meta_operation_get(struct meta_authority *authority, const struct meta_name *name,
                               const char *operation_id, struct meta_operation *out,
                               struct lake_error *err)
{
    char key[META_KEY_BYTES];
    struct base_buffer value;
    base_buffer_init(&value, 4096);
    lake_status status = kv_get(authority->kv, operation_key(key, name, operation_id), &value, err);
    if (status == LAKE_OK) {
        MetaStorePb__Operation *record =
            meta_store_pb__operation__unpack(NULL, value.size, value.data);
        if (record == NULL || !operation_of_pb(record, out))
            status = lake_fail(err, LAKE_DATA_LOSS, "the record of operation %s does not parse",
                               operation_id);
        if (record != NULL)
            meta_store_pb__operation__free_unpacked(record, NULL);
    }
    base_buffer_fini(&value);
    return status;
}

lake_status meta_operation_record(struct meta_authority *authority, const struct meta_name *name,
                                  const char *operation_id, const struct meta_operation *operation,
                                  struct lake_error *err)
{
    MetaStorePb__Operation record = META_STORE_PB__OPERATION__INIT;
    record.has_content_sha256 = true;
    record.content_sha256 =
        (ProtobufCBinaryData){BASE_SHA256_BYTES, (uint8_t *)(uintptr_t)operation->content_sha256};
    record.has_version = true;
    record.version = operation->version;
    record.has_incarnation = true;
    record.incarnation = meta_pb_of_str(operation->incarnation);
    record.has_row_count = true;
    record.row_count = operation->row_count;
    record.has_recorded_unix_ms = true;
    record.recorded_unix_ms = operation->recorded_unix_ms;

    struct base_buffer value;
    struct base_buffer version;
    base_buffer_init(&value, 4096);
    base_buffer_init(&version, 4096);
    lake_status status = meta_pb_pack(&record.base, &value, err);
    if (status == LAKE_OK)
        status =
            meta_recorded_version_pack(operation->incarnation, operation->version, &version, err);
    if (status == LAKE_OK) {
        char operation_key_bytes[META_KEY_BYTES];
        char version_key[META_KEY_BYTES];
        char commit_key[META_KEY_BYTES];
        uint8_t generation[8];
        struct kv_write writes[] = {
            {KV_PUT, operation_key(operation_key_bytes, name, operation_id),
             base_buffer_view(&value)},
            {KV_PUT, meta_key(version_key, "v", name->namespace_key, name->table_key),
             base_buffer_view(&version)},
            {KV_PUT, meta_key(commit_key, "g", "commit", NULL),
             meta_u64_bytes(meta_next_commit_generation(authority), generation)}};
        status = kv_commit(authority->kv, NULL, 0, writes, BASE_ARRAY_LEN(writes), NULL, err);
    }
    base_buffer_fini(&version);
    base_buffer_fini(&value);
    return status;
}

/* True when the ID in an operation's key can no longer be sent again. A key that holds no ID is
 * left alone. */
static bool is_expired(struct lake_bytes key, int64_t now_unix_ms, uint64_t retention_ms)
{
    struct base_uuid id;
    struct lake_str text = {(const char *)key.data + 2, BASE_UUID_TEXT_BYTES - 1};
    if (key.size < 2 + text.size || !base_uuid_parse(text, &id))
        return false;
    int64_t age_ms = now_unix_ms - base_uuid7_unix_ms(&id);
    return age_ms > PRUNE_MARGIN_MS && (uint64_t)(age_ms - PRUNE_MARGIN_MS) > retention_ms;
}

lake_status meta_operation_prune(struct meta_authority *authority, int64_t now_unix_ms,
                                 uint64_t *pruned, struct lake_error *err)
{
    for (int page_number = 0; page_number < PRUNE_MAX_PAGES; page_number++) {
        struct kv_page page = {0};
        lake_status status =
            kv_scan(authority->kv, base_bytes_of_str(LAKE_STR("o/")), (struct lake_bytes){NULL, 0},
                    PRUNE_PAGE, 1024 * 1024, &page, err);
        if (status != LAKE_OK)
            return status;
        struct kv_write writes[PRUNE_PAGE];
        size_t count = 0;
        /* IDs sort by time: the first that is young ends the search. */
        while (count < page.count &&
               is_expired(page.pairs[count].key, now_unix_ms, authority->append_retention_ms)) {
            writes[count] = (struct kv_write){KV_DELETE, page.pairs[count].key, {NULL, 0}};
            count++;
        }
        if (count > 0)
            status = kv_commit(authority->kv, NULL, 0, writes, count, NULL, err);
        bool done = count < page.count || !page.more;
        kv_page_fini(&page);
        if (status != LAKE_OK)
            return status;
        *pruned += count;
        if (done)
            break;
    }
    return LAKE_OK;
}
