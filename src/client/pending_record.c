/* The bytes of a pending append, read; nobody says that we have written them. */
#include "pending_file.h"

#include <string.h>

#define MAGIC_BYTES 8

static bool take_text(struct base_cursor *cursor, struct lake_str *out)
{
    uint32_t size;
    struct lake_bytes bytes;
    if (!base_cursor_u32le(cursor, &size) || size == 0 || size > PENDING_MAX_TEXT_BYTES ||
        !base_cursor_take(cursor, size, &bytes))
        return false;
    *out = (struct lake_str){(const char *)bytes.data, bytes.size};
    return base_utf8_valid(*out) && memchr(out->data, '\0', out->size) == NULL;
}

static bool is_operation_id(struct lake_str text)
{
    struct base_uuid uuid;
    char formatted[BASE_UUID_TEXT_BYTES];
    if (!base_uuid_parse(text, &uuid) || base_uuid_version(&uuid) != 7)
        return false;
    base_uuid_format(&uuid, formatted);
    return base_str_equal_c(text, formatted);
}

static bool parse(struct lake_bytes content, struct pending_record *out)
{
    struct base_cursor cursor = base_cursor_of(content);
    struct lake_bytes magic;
    struct lake_bytes message;
    uint32_t format;
    if (!base_cursor_take(&cursor, MAGIC_BYTES, &magic) ||
        memcmp(magic.data, "LAKEAPND", MAGIC_BYTES) != 0 || !base_cursor_u32le(&cursor, &format) ||
        format != 1 || !take_text(&cursor, &out->lake) || !take_text(&cursor, &out->operation_id) ||
        !is_operation_id(out->operation_id) || !take_text(&cursor, &out->namespace_name) ||
        !take_text(&cursor, &out->table) || base_cursor_left(&cursor) == 0 ||
        !base_cursor_take(&cursor, base_cursor_left(&cursor), &out->messages))
        return false;
    struct lake_bytes rest = out->messages;
    uint64_t count = 0;
    uint64_t bytes = 0;
    while (pending_record_next(&rest, &message)) {
        bytes += message.size;
        if (++count > CLIENT_MAX_MESSAGES || bytes > CLIENT_MAX_APPEND_BYTES)
            return false;
    }
    return rest.size == 0;
}

bool pending_record_next(struct lake_bytes *rest, struct lake_bytes *message)
{
    struct base_cursor cursor = base_cursor_of(*rest);
    uint32_t size;
    if (!base_cursor_u32le(&cursor, &size) || size == 0 ||
        !base_cursor_take(&cursor, size, message))
        return false;
    size_t used = sizeof(uint32_t) + size;
    *rest = (struct lake_bytes){rest->data + used, rest->size - used};
    return true;
}

lake_status pending_record_parse(struct lake_bytes file, struct pending_record *out,
                                 struct lake_error *err)
{
    uint8_t digest[BASE_SHA256_BYTES];
    struct pending_record record = {0};
    bool good = false;
    if (file.size > BASE_SHA256_BYTES && file.size <= PENDING_MAX_FILE_BYTES) {
        struct lake_bytes content = {file.data, file.size - BASE_SHA256_BYTES};
        lake_status status = base_sha256_once(content, digest, err);
        if (status != LAKE_OK)
            return status;
        good = memcmp(digest, file.data + content.size, BASE_SHA256_BYTES) == 0 &&
               parse(content, &record);
    }
    if (!good)
        return lake_fail(err, LAKE_DATA_LOSS,
                         "the file of the pending append is damaged, or none of ours");
    *out = record;
    return LAKE_OK;
}
