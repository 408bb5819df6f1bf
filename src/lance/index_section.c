/* What a manifest says of its indices. */
#include "index.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

lake_status lance_index_section_parse(struct lake_bytes bytes, struct base_arena *arena,
                                      LancePb__IndexSection **out, struct lake_error *err)
{
    ProtobufCAllocator allocator = lance_pb_allocator(arena);
    if (bytes.data == NULL) {
        *out = NULL;
        return LAKE_OK;
    }
    LancePb__IndexSection *section =
        lance_pb__index_section__unpack(&allocator, bytes.size, bytes.data);
    if (section == NULL && base_arena_out_of_memory(arena)) {
        return base_fail_no_memory(err, bytes.size);
    }
    if (section == NULL) {
        return lake_fail(err, LAKE_DATA_LOSS, "the table's index section is damaged");
    }
    *out = section;
    return LAKE_OK;
}

bool lance_index_is_system(const LancePb__IndexMetadata *index)
{
    return base_str_has_prefix(lance_pb_str(index->name), "__lance_");
}

uint64_t lance_index_max_fragment_id(const LancePb__Manifest *pb)
{
    uint64_t id = pb->has_max_fragment_id ? pb->max_fragment_id : 0;
    for (size_t i = 0; i < pb->n_fragments; i++) {
        id = BASE_MAX(id, pb->fragments[i]->id);
    }
    return id;
}

struct lake_str lance_index_kind_name(const LancePb__IndexMetadata *index)
{
    static const char suffix[] = "IndexDetails";
    const size_t suffix_size = sizeof(suffix) - 1;
    struct lake_str name = {"", 0};
    if (index->index_details == NULL) {
        return name;
    }
    name = lance_pb_str(index->index_details->type_url);
    for (size_t i = name.size; i > 0; i--) {
        if (name.data[i - 1] == '.') {
            name = (struct lake_str){name.data + i, name.size - i};
            break;
        }
    }
    if (name.size > suffix_size &&
        strncasecmp(name.data + name.size - suffix_size, suffix, suffix_size) == 0) {
        name.size -= suffix_size;
    }
    return name;
}

enum lance_index_kind lance_index_kind_of(const LancePb__IndexMetadata *index)
{
    static const struct {
        const char *name;
        enum lance_index_kind kind;
    } kinds[] = {{"BTree", LANCE_INDEX_BTREE},
                 {"Bitmap", LANCE_INDEX_BITMAP},
                 {"ZoneMap", LANCE_INDEX_ZONE_MAP}};
    struct lake_str name = lance_index_kind_name(index);
    for (size_t i = 0; i < BASE_ARRAY_LEN(kinds); i++) {
        if (name.size == strlen(kinds[i].name) &&
            strncasecmp(name.data, kinds[i].name, name.size) == 0) {
            return kinds[i].kind;
        }
    }
    return LANCE_INDEX_OTHER;
}

lake_status lance_index_key(const LancePb__IndexMetadata *index, char out[LANCE_INDEX_KEY_BYTES],
                            struct lake_error *err)
{
    struct base_uuid uuid;
    char text[BASE_UUID_TEXT_BYTES];
    if (index->uuid == NULL || index->uuid->bytes.len != sizeof(uuid.bytes)) {
        return lake_fail(err, LAKE_DATA_LOSS, "an index of a manifest has no identifier");
    }
    memcpy(uuid.bytes, index->uuid->bytes.data, sizeof(uuid.bytes));
    base_uuid_format(&uuid, text);
    (void)snprintf(out, LANCE_INDEX_KEY_BYTES, "_indices/%s", text);
    return LAKE_OK;
}
