#include "arrow_internal.h"
#include "flatbuffer.h"

lake_status arrow_message_verify(struct lake_bytes header, struct lake_error *err)
{
    if (header.size < 8) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "an IPC message header has %zu bytes, at least 8 were expected",
                         header.size);
    }
    int code = FB(Message_verify_as_root)(header.data, header.size);
    if (code != flatcc_verify_ok) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "an IPC message header is not a valid flatbuffer: %s",
                         flatcc_verify_error_string(code));
    }
    FB(Message_table_t) message = FB(Message_as_root)(header.data);
    FB(MetadataVersion_enum_t) version = FB(Message_version)(message);
    if (version != FB(MetadataVersion_V4) && version != FB(MetadataVersion_V5)) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "an IPC message has metadata version %d, V4 and V5 are read",
                         (int)version + 1);
    }
    if (FB(Message_header)(message) == NULL) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "an IPC message has no header");
    }
    return LAKE_OK;
}

lake_status arrow_frame_prefix(const uint8_t prefix[8], uint64_t max_metadata_bytes,
                               enum arrow_frame_kind *kind, uint32_t *metadata_bytes,
                               struct lake_error *err)
{
    uint32_t length = base_load_u32le(prefix + 4);
    if (base_load_u32le(prefix) != 0xFFFFFFFFu) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "an IPC message starts with %02x%02x%02x%02x, ffffffff was expected",
                         prefix[0], prefix[1], prefix[2], prefix[3]);
    }
    if (length > max_metadata_bytes) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "an IPC message claims %u bytes of metadata, the limit is %llu", length,
                         (unsigned long long)max_metadata_bytes);
    }
    *kind = length == 0 ? ARROW_FRAME_END : ARROW_FRAME_MESSAGE;
    *metadata_bytes = length;
    return LAKE_OK;
}

lake_status arrow_frame_body_bytes(struct lake_bytes header, uint64_t max_body_bytes, uint64_t *out,
                                   struct lake_error *err)
{
    lake_status status = arrow_message_verify(header, err);
    if (status != LAKE_OK) {
        return status;
    }
    int64_t body = FB(Message_bodyLength)(FB(Message_as_root)(header.data));
    if (body < 0) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "an IPC message claims a body of %lld bytes",
                         (long long)body);
    }
    if ((uint64_t)body > max_body_bytes) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "an IPC message claims a body of %lld bytes, the limit is %llu",
                         (long long)body, (unsigned long long)max_body_bytes);
    }
    *out = (uint64_t)body;
    return LAKE_OK;
}
