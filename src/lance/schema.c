/*
 * The field tree of schema.h, made from Lance's flat list of fields. A schema that starts in Arrow
 * takes the same way (Arrow, flat list, tree), so that what a writer believes is what the next
 * reader sees.
 */
#include "schema.h"

#include "lance_file.pb-c.h"

#include <stdlib.h>
#include <string.h>

#define SCHEMA_ARENA_BYTES ((size_t)256 << 20)
#define MAX_NAME_BYTES     4096
#define MAX_METADATA_PAIRS 10000

/* ---- small helpers ---- */

static lake_status no_memory(struct lake_error *err)
{
    return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                     "a table's schema needs more than %zu MiB of memory",
                     SCHEMA_ARENA_BYTES >> 20);
}

static struct lake_str str_of_pb(ProtobufCBinaryData data)
{
    return (struct lake_str){(const char *)data.data, data.len};
}

static bool pb_of_str(struct base_arena *arena, const char *text, size_t size,
                      ProtobufCBinaryData *out)
{
    char *copy = base_arena_strndup(arena, text, size);
    if (copy == NULL) {
        return false;
    }
    out->data = (uint8_t *)copy;
    out->len = size;
    return true;
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
    if (count > MAX_METADATA_PAIRS) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "%zu metadata entries, at most %d are read",
                         count, MAX_METADATA_PAIRS);
    }
    struct lance_key_value *pairs = base_arena_calloc_array(arena, count + 1, sizeof(*pairs));
    if (pairs == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < count; i++) {
        struct lake_str key = str_of_pb(entries[i]->key);
        struct lake_str value = str_of_pb(entries[i]->value);
        pairs[i].key = base_arena_strndup(arena, key.data == NULL ? "" : key.data, key.size);
        pairs[i].value =
            base_arena_strndup(arena, value.data == NULL ? "" : value.data, value.size);
        if (pairs[i].key == NULL || pairs[i].value == NULL) {
            return no_memory(err);
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

/* What is shown in another form than stored is another extension, or none (`name` NULL). */
static lake_status set_extension_name(struct ArrowSchema *schema, const char *name,
                                      struct lake_error *err)
{
    struct ArrowBuffer metadata;
    struct ArrowStringView key = ArrowCharView("ARROW:extension:name");
    ArrowErrorCode code = ArrowMetadataBuilderInit(&metadata, schema->metadata);
    if (code == NANOARROW_OK && name == NULL) {
        code = ArrowMetadataBuilderRemove(&metadata, key);
    } else if (code == NANOARROW_OK) {
        code = ArrowMetadataBuilderSet(&metadata, key, ArrowCharView(name));
    }
    if (code == NANOARROW_OK) {
        code = ArrowSchemaSetMetadata(schema, (const char *)metadata.data);
    }
    ArrowBufferReset(&metadata);
    return code == NANOARROW_OK ? LAKE_OK : base_fail_no_memory(err, 64);
}

static lake_status entries_of_arrow(struct base_arena *arena, const char *metadata,
                                    LancePb__BytesEntry ***out, size_t *count,
                                    struct lake_error *err)
{
    struct ArrowMetadataReader reader;
    if (metadata == NULL || ArrowMetadataReaderInit(&reader, metadata) != NANOARROW_OK ||
        reader.remaining_keys <= 0) {
        *out = NULL;
        *count = 0;
        return LAKE_OK;
    }
    if (reader.remaining_keys > MAX_METADATA_PAIRS) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a schema has %d metadata entries, at most "
                         "%d are written",
                         reader.remaining_keys, MAX_METADATA_PAIRS);
    }
    size_t total = (size_t)reader.remaining_keys;
    LancePb__BytesEntry **entries = base_arena_calloc_array(arena, total, sizeof(*entries));
    LancePb__BytesEntry *items = base_arena_calloc_array(arena, total, sizeof(*items));
    if (entries == NULL || items == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < total; i++) {
        struct ArrowStringView key;
        struct ArrowStringView value;
        if (ArrowMetadataReaderRead(&reader, &key, &value) != NANOARROW_OK) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "a schema's metadata is cut short");
        }
        lance_pb__bytes_entry__init(&items[i]);
        items[i].has_key = true;
        items[i].has_value = true;
        if (!pb_of_str(arena, key.data, (size_t)key.size_bytes, &items[i].key) ||
            !pb_of_str(arena, value.data, (size_t)value.size_bytes, &items[i].value)) {
            return no_memory(err);
        }
        entries[i] = &items[i];
    }
    *out = entries;
    *count = total;
    return LAKE_OK;
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
    if (name.size > MAX_NAME_BYTES || type.size >= LANCE_LOGICAL_TYPE_BYTES ||
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
        return no_memory(err);
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
    if (blob_v2 && status == LAKE_OK) {
        status = set_extension_name(arrow, NULL, err);
        out->child_count = 0; /* what a writer passes in, none of which is stored */
    }
    if (json && status == LAKE_OK) {
        status = set_extension_name(arrow, "arrow.json", err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    if (ArrowSchemaSetName(arrow, out->name) != NANOARROW_OK) {
        return base_fail_no_memory(err, MAX_NAME_BYTES);
    }
    arrow->flags = out->nullable ? ARROW_FLAG_NULLABLE : 0;
    out->arrow = out->stored_arrow = arrow;
    if (out->stored != LANCE_STORED_PLAIN) {
        out->stored_arrow = &builder->stored_types[out->stored];
    }
    if (out->child_count == 0) {
        return LAKE_OK;
    }
    return build_children(builder, flat, out->children, arrow, depth + 1, err);
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
        return no_memory(err);
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
    status = base_arena_new(SCHEMA_ARENA_BYTES, &schema.arena, err);
    if (status != LAKE_OK) {
        return status;
    }
    struct tree_builder builder = {.arena = schema.arena, .count = field_count};
    schema.stored_types =
        base_arena_calloc_array(schema.arena, LANCE_STORED_KINDS, sizeof(*schema.stored_types));
    if (schema.stored_types == NULL) {
        status = no_memory(err);
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

/* ---- tree or Arrow to flat list ---- */

struct flattener {
    struct base_arena *arena;
    LancePb__Field **fields;
    size_t count;
    size_t capacity;
    bool maps; /* maps and fixed-size lists of structs: storage 2.2 */
};

static lake_status add_field(struct flattener *flat, const struct ArrowSchema *arrow, int32_t id,
                             int32_t parent_id, const char *logical_type, struct lake_error *err)
{
    if (flat->count == flat->capacity) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the schema has more than %zu fields, nested ones included; at most %d "
                         "are supported",
                         flat->capacity, LANCE_MAX_FIELDS);
    }
    LancePb__Field *field = base_arena_alloc(flat->arena, sizeof(*field));
    if (field == NULL) {
        return no_memory(err);
    }
    lance_pb__field__init(field);
    const char *name = arrow->name == NULL ? "" : arrow->name;
    field->has_name = true;
    field->has_logical_type = true;
    if (!pb_of_str(flat->arena, name, strlen(name), &field->name) ||
        !pb_of_str(flat->arena, logical_type, strlen(logical_type), &field->logical_type)) {
        return no_memory(err);
    }
    field->has_id = true;
    field->id = id;
    field->has_parent_id = true;
    field->parent_id = parent_id;
    field->has_nullable = true;
    field->nullable = (arrow->flags & ARROW_FLAG_NULLABLE) != 0;
    lake_status status =
        entries_of_arrow(flat->arena, arrow->metadata, &field->metadata, &field->n_metadata, err);
    if (status != LAKE_OK) {
        return status;
    }
    for (size_t i = 0; i < field->n_metadata; i++) {
        if (base_str_equal_c(str_of_pb(field->metadata[i]->key), "ARROW:extension:name")) {
            field->has_extension_name = true;
            field->extension_name = field->metadata[i]->value;
        }
    }
    flat->fields[flat->count++] = field;
    return LAKE_OK;
}

static lake_status flatten_tree(struct flattener *flat, const struct lance_field *field,
                                struct lake_error *err)
{
    lake_status status =
        add_field(flat, field->arrow, field->id, field->parent_id, field->logical_type, err);
    for (size_t i = 0; status == LAKE_OK && i < field->child_count; i++) {
        status = flatten_tree(flat, &field->children[i], err);
    }
    return status;
}

static lake_status flattener_init(struct flattener *flat, struct base_arena *arena,
                                  struct lake_error *err)
{
    *flat = (struct flattener){.arena = arena, .capacity = LANCE_MAX_FIELDS};
    flat->fields = base_arena_calloc_array(arena, flat->capacity, sizeof(*flat->fields));
    return flat->fields == NULL ? no_memory(err) : LAKE_OK;
}

lake_status lance_schema_to_fields(const struct lance_schema *schema, struct base_arena *arena,
                                   LancePb__Field ***out, size_t *count, struct lake_error *err)
{
    struct flattener flat;
    lake_status status = flattener_init(&flat, arena, err);
    for (size_t i = 0; status == LAKE_OK && i < schema->field_count; i++) {
        status = flatten_tree(&flat, &schema->fields[i], err);
    }
    if (status == LAKE_OK) {
        *out = flat.fields;
        *count = flat.count;
    }
    return status;
}

lake_status lance_schema_metadata_to_entries(const struct lance_schema *schema,
                                             struct base_arena *arena, LancePb__BytesEntry ***out,
                                             size_t *count, struct lake_error *err)
{
    return entries_of_arrow(arena, schema->arrow.metadata, out, count, err);
}

/* What the format could name but the writer does not write, or another reader cannot read. */
static lake_status check_writable(const struct flattener *flat, const struct ArrowSchema *arrow,
                                  const char *logical_type, struct lake_error *err)
{
    static const char *const refused[] = {"packed", "lance-encoding:packed", "lance-encoding:blob"};
    const char *name = arrow->name == NULL ? "?" : arrow->name;
    enum lance_node_kind kind = lance_logical_type_kind(logical_type);
    if (kind == LANCE_NODE_STRUCT && arrow->n_children == 0) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column %s is a struct without fields, which a Lance file cannot hold",
                         name);
    }
    if (kind == LANCE_NODE_FSL_STRUCT) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column %s is a fixed-size list of structs, which Lance readers cannot "
                         "read beside other columns; use a list",
                         name);
    }
    if (kind == LANCE_NODE_MAP && !flat->maps) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column %s is a map, which needs storage version 2.2", name);
    }
    struct ArrowStringView extension = {NULL, 0};
    (void)ArrowMetadataGetValue(arrow->metadata, ArrowCharView("ARROW:extension:name"), &extension);
    struct lake_str found = {extension.data, (size_t)extension.size_bytes};
    if (base_str_equal_c(found, "lance.blob.v2") || strcmp(logical_type, "json") == 0) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column %s is of Lance's type %.*s, which Lake does not write", name,
                         LAKE_STR_FMT(found));
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(refused); i++) {
        if (arrow->metadata != NULL &&
            ArrowMetadataHasKey(arrow->metadata, ArrowCharView(refused[i]))) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "column %s asks for %s in its metadata, which Lake does not write",
                             name, refused[i]);
        }
    }
    return LAKE_OK;
}

static lake_status flatten_arrow(struct flattener *flat, const struct ArrowSchema *arrow,
                                 int32_t parent_id, uint32_t depth, struct lake_error *err)
{
    char logical_type[LANCE_LOGICAL_TYPE_BYTES];
    if (depth >= LANCE_MAX_NESTING) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a column is nested deeper than %d levels",
                         LANCE_MAX_NESTING);
    }
    lake_status status = lance_logical_type_of(arrow, logical_type, err);
    if (status == LAKE_OK) {
        status = check_writable(flat, arrow, logical_type, err);
    }
    int32_t id = (int32_t)flat->count;
    if (status == LAKE_OK) {
        status = add_field(flat, arrow, id, parent_id, logical_type, err);
    }
    if (status != LAKE_OK || lance_logical_type_kind(logical_type) == LANCE_NODE_LEAF) {
        return status;
    }
    for (int64_t i = 0; status == LAKE_OK && i < arrow->n_children; i++) {
        status = flatten_arrow(flat, arrow->children[i], id, depth + 1, err);
    }
    return status;
}

/* Under a reserved name the reference reader has a column of its own, and reads nothing of a table
 * that has another. */
static lake_status check_name(const char *name, int64_t column, struct lake_error *err)
{
    static const char *const reserved[] = {"_rowid", "_rowaddr", "_rowoffset",
                                           "_row_created_at_version",
                                           "_row_last_updated_at_version"};
    if (name == NULL || name[0] == '\0' || strchr(name, '.') != NULL ||
        strlen(name) > MAX_NAME_BYTES || !base_utf8_valid(base_str_of(name))) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column %lld has the name '%.100s'; a name is UTF-8 text without a "
                         "dot and not empty",
                         (long long)column, name == NULL ? "" : name);
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(reserved); i++) {
        if (strcmp(name, reserved[i]) == 0) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "column %lld has the name '%s', which Lance keeps for itself",
                             (long long)column, name);
        }
    }
    return LAKE_OK;
}

static lake_status check_top_level(const struct ArrowSchema *arrow, struct lake_error *err)
{
    if (arrow->format == NULL || strcmp(arrow->format, "+s") != 0) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a table's schema must be a struct of its columns, not '%.20s'",
                         arrow->format == NULL ? "" : arrow->format);
    }
    if (arrow->n_children > LANCE_MAX_FIELDS) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "%lld columns; at most %d are supported",
                         (long long)arrow->n_children, LANCE_MAX_FIELDS);
    }
    for (int64_t i = 0; i < arrow->n_children; i++) {
        const char *name = arrow->children[i]->name;
        lake_status status = check_name(name, i, err);
        if (status != LAKE_OK) {
            return status;
        }
        for (int64_t j = 0; j < i; j++) {
            if (strcmp(arrow->children[j]->name, name) == 0) {
                return lake_fail(err, LAKE_INVALID_ARGUMENT,
                                 "columns %lld and %lld have the same name '%.100s'", (long long)j,
                                 (long long)i, name);
            }
        }
    }
    return LAKE_OK;
}

lake_status lance_schema_from_arrow(const struct ArrowSchema *arrow, const char *storage_version,
                                    struct lance_schema *out, struct lake_error *err)
{
    struct base_arena *arena = NULL;
    struct flattener flat;
    LancePb__BytesEntry **metadata = NULL;
    size_t metadata_count = 0;
    lake_status status = check_top_level(arrow, err);
    if (status == LAKE_OK) {
        status = base_arena_new(SCHEMA_ARENA_BYTES, &arena, err);
    }
    if (status == LAKE_OK) {
        status = flattener_init(&flat, arena, err);
    }
    if (status != LAKE_OK) {
        goto out;
    }
    flat.maps = strcmp(storage_version, "2.1") != 0;
    for (int64_t i = 0; status == LAKE_OK && i < arrow->n_children; i++) {
        status = flatten_arrow(&flat, arrow->children[i], -1, 0, err);
    }
    if (status == LAKE_OK) {
        status = entries_of_arrow(arena, arrow->metadata, &metadata, &metadata_count, err);
    }
    if (status == LAKE_OK) {
        status =
            lance_schema_from_fields(flat.fields, flat.count, metadata, metadata_count, out, err);
        if (status == LAKE_UNIMPLEMENTED || status == LAKE_DATA_LOSS) {
            status = lake_fail_wrap(err, LAKE_INVALID_ARGUMENT,
                                    "the schema has a column that a Lance table cannot hold");
        }
    }
out:
    base_arena_free(arena);
    return status;
}

lake_status lance_schema_check(const struct ArrowSchema *schema, const char *storage_version,
                               struct lake_error *err)
{
    struct lance_schema tree;
    lake_status status = lance_schema_from_arrow(schema, storage_version, &tree, err);
    if (status == LAKE_OK) {
        lance_schema_fini(&tree);
    }
    return status;
}
