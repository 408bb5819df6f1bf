/*
 * The field tree of schema.h, made from Lance's flat list of fields. A schema that starts in Arrow
 * takes the same way (Arrow, flat list, tree), so that what a writer believes is what the next
 * reader sees.
 */
#include "schema.h"

#include "lance_file.pb-c.h"

#include <stdlib.h>
#include <string.h>

/* ---- small helpers ---- */

lake_status lance_schema_no_memory(struct lake_error *err)
{
    return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                     "a table's schema needs more than %zu MiB of memory",
                     LANCE_SCHEMA_ARENA_BYTES >> 20);
}

static struct lake_str str_of_pb(ProtobufCBinaryData data)
{
    return (struct lake_str){(const char *)data.data, data.len};
}

const char *lance_field_metadata(const struct lance_field *field, const char *key)
{
    for (size_t i = 0; i < field->metadata_count; i++) {
        if (strcmp(field->metadata[i].key, key) == 0) {
            return field->metadata[i].value;
        }
    }
    return NULL;
}

void lance_schema_fini(struct lance_schema *schema)
{
    if (schema->arrow.release != NULL) {
        ArrowSchemaRelease(&schema->arrow);
    }
    for (size_t i = 0; schema->stored_types != NULL && i < LANCE_STORED_KINDS; i++) {
        if (schema->stored_types[i].release != NULL) {
            ArrowSchemaRelease(&schema->stored_types[i]);
        }
    }
    base_arena_free(schema->arena);
    memset(schema, 0, sizeof(*schema));
}

size_t lance_field_node_count(const struct lance_field *field)
{
    size_t count = 1;
    for (size_t i = 0; field->kind != LANCE_NODE_LEAF && i < field->child_count; i++) {
        count += lance_field_node_count(&field->children[i]);
    }
    return count;
}

size_t lance_field_leaf_count(const struct lance_field *field)
{
    if (field->kind == LANCE_NODE_LEAF || field->child_count == 0) {
        return 1;
    }
    size_t count = 0;
    for (size_t i = 0; i < field->child_count; i++) {
        count += lance_field_leaf_count(&field->children[i]);
    }
    return count;
}

static size_t leaf_ids(const struct lance_field *field, int32_t *out)
{
    if (field->kind == LANCE_NODE_LEAF || field->child_count == 0) {
        out[0] = field->id;
        return 1;
    }
    size_t count = 0;
    for (size_t i = 0; i < field->child_count; i++) {
        count += leaf_ids(&field->children[i], out + count);
    }
    return count;
}

void lance_field_leaf_ids(const struct lance_field *field, int32_t *out)
{
    (void)leaf_ids(field, out);
}

/* ---- metadata ---- */

static lake_status copy_pairs(struct base_arena *arena, LancePb__BytesEntry *const *entries,
                              size_t count, const struct lance_key_value **out,
                              struct lake_error *err)
{
    if (count > LANCE_MAX_METADATA_PAIRS) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "%zu metadata entries, at most %d are read",
                         count, LANCE_MAX_METADATA_PAIRS);
    }
    struct lance_key_value *pairs = base_arena_calloc_array(arena, count + 1, sizeof(*pairs));
    if (pairs == NULL) {
        return lance_schema_no_memory(err);
    }
    for (size_t i = 0; i < count; i++) {
        struct lake_str key = str_of_pb(entries[i]->key);
        struct lake_str value = str_of_pb(entries[i]->value);
        pairs[i].key = base_arena_strndup(arena, key.data == NULL ? "" : key.data, key.size);
        pairs[i].value =
            base_arena_strndup(arena, value.data == NULL ? "" : value.data, value.size);
        if (pairs[i].key == NULL || pairs[i].value == NULL) {
            return lance_schema_no_memory(err);
        }
    }
    *out = pairs;
    return LAKE_OK;
}

/* Arrow's metadata keeps the values whole, also those with a NUL inside. */
static lake_status set_arrow_metadata(struct ArrowSchema *schema,
                                      LancePb__BytesEntry *const *entries, size_t count,
                                      struct lake_error *err)
{
    if (count == 0) {
        return LAKE_OK;
    }
    struct ArrowBuffer metadata;
    ArrowErrorCode code = ArrowMetadataBuilderInit(&metadata, NULL);
    for (size_t i = 0; code == NANOARROW_OK && i < count; i++) {
        struct ArrowStringView key = {(const char *)entries[i]->key.data,
                                      (int64_t)entries[i]->key.len};
        struct ArrowStringView value = {(const char *)entries[i]->value.data,
                                        (int64_t)entries[i]->value.len};
        code = ArrowMetadataBuilderAppend(&metadata, key, value);
    }
    if (code == NANOARROW_OK) {
        code = ArrowSchemaSetMetadata(schema, (const char *)metadata.data);
    }
    ArrowBufferReset(&metadata);
    return code == NANOARROW_OK ? LAKE_OK : base_fail_no_memory(err, count * 32);
}

/* ---- flat list to tree ---- */

struct flat { /* one entry of the list, linked by index; UINT32_MAX is none */
    LancePb__Field *pb;
    int32_t id;
    uint32_t first_child;
    uint32_t last_child;
    uint32_t next_sibling;
    uint32_t child_count;
};

#define NONE UINT32_MAX

struct tree_builder {
    struct base_arena *arena;
    struct ArrowSchema *stored_types;
    struct flat *flat;
    size_t count;
    uint32_t *by_id; /* indexes of flat, ascending by id, while linking */
};

static int32_t pb_field_id(const LancePb__Field *pb)
{
    return pb->has_id ? pb->id : 0;
}

static int32_t pb_parent_id(const LancePb__Field *pb)
{
    return pb->has_parent_id ? pb->parent_id : 0;
}

/* Where `id` stands, or would stand, among the first `count` of by_id. */
static size_t find_id(const struct tree_builder *builder, size_t count, int32_t id)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (builder->flat[builder->by_id[middle]].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void link_child(struct tree_builder *builder, struct flat *parent, uint32_t child)
{
    if (parent->first_child == NONE) {
        parent->first_child = child;
    } else {
        builder->flat[parent->last_child].next_sibling = child;
    }
    parent->last_child = child;
    parent->child_count++;
}

/* Links every field to its parent, which must come earlier, so there is no cycle. flat[count] is
 * the root. */
static lake_status link_fields(struct tree_builder *builder, LancePb__Field *const *fields,
                               struct lake_error *err)
{
    struct flat *root = &builder->flat[builder->count];
    *root = (struct flat){.id = -1, .first_child = NONE, .last_child = NONE, .next_sibling = NONE};
    for (size_t i = 0; i < builder->count; i++) {
        int32_t id = pb_field_id(fields[i]);
        int32_t parent_id = pb_parent_id(fields[i]);
        builder->flat[i] = (struct flat){.pb = fields[i],
                                         .id = id,
                                         .first_child = NONE,
                                         .last_child = NONE,
                                         .next_sibling = NONE};
        size_t at = find_id(builder, i, id);
        if (id < 0 || (at < i && builder->flat[builder->by_id[at]].id == id)) {
            return lake_fail(err, LAKE_DATA_LOSS,
                             "field %zu of the schema has the id %d, which is %s", i, id,
                             id < 0 ? "negative" : "taken");
        }
        if (parent_id == -1) {
            link_child(builder, root, (uint32_t)i);
        } else {
            size_t parent = find_id(builder, i, parent_id);
            if (parent == i || builder->flat[builder->by_id[parent]].id != parent_id) {
                return lake_fail(err, LAKE_DATA_LOSS,
                                 "field %d of the schema names the parent %d, which is not there",
                                 id, parent_id);
            }
            link_child(builder, &builder->flat[builder->by_id[parent]], (uint32_t)i);
        }
        memmove(&builder->by_id[at + 1], &builder->by_id[at], (i - at) * sizeof(uint32_t));
        builder->by_id[at] = (uint32_t)i;
    }
    return LAKE_OK;
}

static bool metadata_is(const struct lance_field *field, const char *key, const char *value)
{
    const char *found = lance_field_metadata(field, key);
    return found != NULL && strcmp(found, value) == 0;
}

/* A struct that is stored as one column. */
static bool is_one_column(const struct lance_field *field)
{
    return metadata_is(field, "packed", "true") ||
           metadata_is(field, "lance-encoding:packed", "true");
}

static lake_status check_child_count(const struct lance_field *field, struct lake_error *err)
{
    size_t expected = field->child_count;
    switch (lance_logical_type_kind(field->logical_type)) {
    case LANCE_NODE_LEAF:
        expected = 0;
        break;
    case LANCE_NODE_LIST:
    case LANCE_NODE_MAP:
    case LANCE_NODE_FSL_STRUCT:
        expected = 1;
        break;
    case LANCE_NODE_STRUCT:
        break;
    }
    if (field->child_count != expected) {
        return lake_fail(err, LAKE_DATA_LOSS, "field %d of the schema is a %.60s with %zu children",
                         field->id, field->logical_type, field->child_count);
    }
    return LAKE_OK;
}

static lake_status copy_field(struct tree_builder *builder, const struct flat *flat,
                              struct lance_field *out, struct lake_error *err)
{
    struct lake_str name = str_of_pb(flat->pb->name);
    struct lake_str type = str_of_pb(flat->pb->logical_type);
    if (name.size > LANCE_MAX_NAME_BYTES || type.size >= LANCE_LOGICAL_TYPE_BYTES ||
        (name.size > 0 && memchr(name.data, '\0', name.size) != NULL) || !base_utf8_valid(name)) {
        return lake_fail(err, LAKE_DATA_LOSS,
                         "field %d of the schema has a name or a type that is too long or not text",
                         flat->id);
    }
    out->id = flat->id;
    out->parent_id = pb_parent_id(flat->pb);
    out->name = base_arena_strndup(builder->arena, name.size == 0 ? "" : name.data, name.size);
    out->logical_type =
        base_arena_strndup(builder->arena, type.size == 0 ? "" : type.data, type.size);
    out->nullable = flat->pb->has_nullable && flat->pb->nullable;
    out->child_count = flat->child_count;
    out->children =
        base_arena_calloc_array(builder->arena, flat->child_count + 1, sizeof(*out->children));
    if (out->name == NULL || out->logical_type == NULL || out->children == NULL) {
        return lance_schema_no_memory(err);
    }
    out->metadata_count = flat->pb->n_metadata;
    lake_status status =
        copy_pairs(builder->arena, flat->pb->metadata, flat->pb->n_metadata, &out->metadata, err);
    if (status != LAKE_OK) {
        return status;
    }
    out->kind = lance_logical_type_kind(out->logical_type);
    out->stored = lance_field_stored_as(out);
    if (out->kind == LANCE_NODE_STRUCT &&
        (is_one_column(out) || out->stored != LANCE_STORED_PLAIN)) {
        out->kind = LANCE_NODE_LEAF;
    }
    return check_child_count(out, err);
}

/* Of a map, as Arrow has them. */
static bool are_pairs(const struct lance_field *entries)
{
    return lance_logical_type_kind(entries->logical_type) == LANCE_NODE_STRUCT &&
           entries->child_count == 2;
}

static lake_status build_children(struct tree_builder *builder, const struct flat *parent,
                                  struct lance_field *fields, struct ArrowSchema *arrow,
                                  uint32_t depth, struct lake_error *err);

static lake_status build_field(struct tree_builder *builder, const struct flat *flat,
                               struct lance_field *out, struct ArrowSchema *arrow, uint32_t depth,
                               struct lake_error *err)
{
    if (depth >= LANCE_MAX_NESTING) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "field %d of the schema is nested deeper than %d levels", flat->id,
                         LANCE_MAX_NESTING);
    }
    ArrowSchemaInit(arrow);
    lake_status status = copy_field(builder, flat, out, err);
    bool blob_v2 = status == LAKE_OK && out->stored == LANCE_STORED_BLOB_V2;
    bool json = status == LAKE_OK && out->stored == LANCE_STORED_JSON;
    if (status == LAKE_OK) {
        const char *shown = blob_v2 ? "large_binary" : json ? "string" : out->logical_type;
        status = lance_logical_type_apply(shown, arrow, err);
    }
    if (status == LAKE_OK) {
        status = set_arrow_metadata(arrow, flat->pb->metadata, flat->pb->n_metadata, err);
    }
    if (blob_v2 && status == LAKE_OK) { /* shown in another form than stored: no such extension */
        status = arrow_extension_set(arrow, NULL, NULL, err);
        out->child_count = 0; /* what a writer passes in, none of which is stored */
    }
    if (json && status == LAKE_OK) {
        status = arrow_extension_set(arrow, ARROW_JSON_EXTENSION_NAME, NULL, err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    if (ArrowSchemaSetName(arrow, out->name) != NANOARROW_OK) {
        return base_fail_no_memory(err, LANCE_MAX_NAME_BYTES);
    }
    arrow->flags = out->nullable ? ARROW_FLAG_NULLABLE : 0;
    out->arrow = out->stored_arrow = arrow;
    if (out->stored != LANCE_STORED_PLAIN) {
        out->stored_arrow = &builder->stored_types[out->stored];
    }
    if (out->child_count == 0) {
        return LAKE_OK;
    }
    status = build_children(builder, flat, out->children, arrow, depth + 1, err);
    if (status == LAKE_OK && out->kind == LANCE_NODE_MAP && !are_pairs(&out->children[0])) {
        status = lake_fail(err, LAKE_DATA_LOSS,
                           "field %d of the schema is a map whose entries are no pairs", flat->id);
    }
    return status;
}

static lake_status build_children(struct tree_builder *builder, const struct flat *parent,
                                  struct lance_field *fields, struct ArrowSchema *arrow,
                                  uint32_t depth, struct lake_error *err)
{
    if (ArrowSchemaAllocateChildren(arrow, parent->child_count) != NANOARROW_OK) {
        return base_fail_no_memory(err, parent->child_count * sizeof(struct ArrowSchema));
    }
    size_t i = 0;
    for (uint32_t child = parent->first_child; child != NONE;
         child = builder->flat[child].next_sibling) {
        lake_status status =
            build_field(builder, &builder->flat[child], &fields[i], arrow->children[i], depth, err);
        if (status != LAKE_OK) {
            return status;
        }
        i++;
    }
    return LAKE_OK;
}

static lake_status build_tree(struct tree_builder *builder, struct lance_schema *schema,
                              struct lake_error *err)
{
    const struct flat *root = &builder->flat[builder->count];
    schema->field_count = root->child_count;
    schema->fields = base_arena_calloc_array(builder->arena, (size_t)root->child_count + 1,
                                             sizeof(*schema->fields));
    if (schema->fields == NULL) {
        return lance_schema_no_memory(err);
    }
    schema->max_field_id = -1;
    for (size_t i = 0; i < builder->count; i++) {
        schema->max_field_id = BASE_MAX(schema->max_field_id, builder->flat[i].id);
    }
    ArrowSchemaInit(&schema->arrow);
    if (ArrowSchemaSetFormat(&schema->arrow, "+s") != NANOARROW_OK ||
        ArrowSchemaSetName(&schema->arrow, "") != NANOARROW_OK) {
        return base_fail_no_memory(err, 3);
    }
    schema->arrow.flags = 0;
    return build_children(builder, root, schema->fields, &schema->arrow, 0, err);
}

lake_status lance_schema_from_fields(LancePb__Field *const *fields, size_t field_count,
                                     LancePb__BytesEntry *const *metadata, size_t metadata_count,
                                     struct lance_schema *out, struct lake_error *err)
{
    struct lance_schema schema = {0};
    lake_status status;
    if (field_count > LANCE_MAX_FIELDS) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "the schema has %zu fields; at most %d are supported", field_count,
                         LANCE_MAX_FIELDS);
    }
    status = base_arena_new(LANCE_SCHEMA_ARENA_BYTES, &schema.arena, err);
    if (status != LAKE_OK) {
        return status;
    }
    struct tree_builder builder = {.arena = schema.arena, .count = field_count};
    schema.stored_types =
        base_arena_calloc_array(schema.arena, LANCE_STORED_KINDS, sizeof(*schema.stored_types));
    if (schema.stored_types == NULL) {
        status = lance_schema_no_memory(err);
        goto out;
    }
    status = lance_stored_types(schema.stored_types, err);
    if (status != LAKE_OK) {
        goto out;
    }
    builder.stored_types = schema.stored_types;
    builder.flat = base_calloc_array(field_count + 1, sizeof(*builder.flat));
    builder.by_id = base_calloc_array(field_count + 1, sizeof(*builder.by_id));
    if (builder.flat == NULL || builder.by_id == NULL) {
        status = base_fail_no_memory(err, (field_count + 1) * sizeof(*builder.flat));
        goto out;
    }
    status = link_fields(&builder, fields, err);
    if (status == LAKE_OK) {
        status = build_tree(&builder, &schema, err);
    }
    if (status == LAKE_OK) {
        status = copy_pairs(schema.arena, metadata, metadata_count, &schema.metadata, err);
        schema.metadata_count = metadata_count;
    }
    if (status == LAKE_OK) {
        status = set_arrow_metadata(&schema.arrow, metadata, metadata_count, err);
    }
    if (status == LAKE_OK) {
        *out = schema;
        memset(&schema, 0, sizeof(schema));
    }
out:
    base_free(builder.by_id);
    base_free(builder.flat);
    lance_schema_fini(&schema);
    return status;
}
