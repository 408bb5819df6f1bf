/* Which names tables and namespaces may have, and the key they are found by. */
#include "meta_internal.h"

#include <string.h>

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/* Names that SQL engines read as a catalog or a schema of their own: a namespace of that name could
 * not be told from it. */
static bool is_reserved_namespace(const char *key)
{
    static const char *const reserved[] = {
        "main", "information_schema", "pg_catalog", "temp", "system", "lake", "iceberg"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(reserved); i++) {
        if (strcmp(key, reserved[i]) == 0)
            return true;
    }
    return false;
}

bool meta_name_fold(struct lake_str s, char out[META_NAME_MAX_BYTES + 1])
{
    if (s.size > META_NAME_MAX_BYTES)
        return false;
    for (size_t i = 0; i < s.size; i++)
        out[i] = (char)(s.data[i] >= 'A' && s.data[i] <= 'Z' ? s.data[i] - 'A' + 'a' : s.data[i]);
    out[s.size] = '\0';
    return true;
}

/* The name itself is not in the messages: it may hold anything. */
static lake_status parse_part(const char *what, struct lake_str s, char *name, char *key,
                              struct lake_error *err)
{
    if (s.size == 0)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the %s name is empty", what);
    if (s.size > META_NAME_MAX_BYTES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the %s name has %zu bytes; at most %d are allowed", what, s.size,
                         META_NAME_MAX_BYTES);
    for (size_t i = 0; i < s.size; i++) {
        if (!is_name_byte(s.data[i]))
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "the %s name has the byte 0x%02x at position %zu; letters, digits, "
                             "'_' and '-' are allowed",
                             what, (unsigned)(uint8_t)s.data[i], i);
    }
    if (s.data[0] == '-')
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the %s name starts with '-'", what);
    if (base_str_has_prefix(s, "__"))
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the %s name starts with '__', which is reserved", what);
    memcpy(name, s.data, s.size);
    name[s.size] = '\0';
    (void)meta_name_fold(s, key);
    return LAKE_OK;
}

lake_status meta_name_parse(struct lake_str namespace_name, struct lake_str table,
                            struct meta_name *out, struct lake_error *err)
{
    struct meta_name name;
    lake_status status =
        parse_part("namespace", namespace_name, name.namespace_name, name.namespace_key, err);
    if (status != LAKE_OK)
        return status;
    if (is_reserved_namespace(name.namespace_key))
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the namespace name \"%s\" is reserved",
                         name.namespace_name);
    status = parse_part("table", table, name.table, name.table_key, err);
    if (status != LAKE_OK)
        return status;
    *out = name;
    return LAKE_OK;
}

struct lake_str meta_str_of_pb(ProtobufCBinaryData data)
{
    return (struct lake_str){(const char *)data.data, data.len};
}

ProtobufCBinaryData meta_pb_of_str(const char *c_string)
{
    return (ProtobufCBinaryData){strlen(c_string), (uint8_t *)(uintptr_t)c_string};
}

lake_status meta_name_from_pb(const LakePb__TableName *pb, struct meta_name *out,
                              struct lake_error *err)
{
    if (pb == NULL)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the request names no table");
    return meta_name_parse(meta_str_of_pb(pb->namespace_name), meta_str_of_pb(pb->table), out, err);
}

lake_status meta_pb_pack(const ProtobufCMessage *message, struct base_buffer *out,
                         struct lake_error *err)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    lake_status status = base_buffer_reserve(out, size, err);
    if (status != LAKE_OK)
        return status;
    out->size += protobuf_c_message_pack(message, out->data + out->size);
    return LAKE_OK;
}
