/*
 * The way back: the flat list of fields of a tree, or of an Arrow schema, and what of Arrow is
 * written.
 */
#include "schema.h"

#include "lance_file.pb-c.h"

#include <string.h>

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
    if (reader.remaining_keys > LANCE_MAX_METADATA_PAIRS) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a schema has %d metadata entries, at most "
                         "%d are written",
                         reader.remaining_keys, LANCE_MAX_METADATA_PAIRS);
    }
    size_t total = (size_t)reader.remaining_keys;
    LancePb__BytesEntry **entries = base_arena_calloc_array(arena, total, sizeof(*entries));
    LancePb__BytesEntry *items = base_arena_calloc_array(arena, total, sizeof(*items));
    if (entries == NULL || items == NULL) {
        return lance_schema_no_memory(err);
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
            return lance_schema_no_memory(err);
        }
        entries[i] = &items[i];
    }
    *out = entries;
    *count = total;
    return LAKE_OK;
}

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
        return lance_schema_no_memory(err);
    }
    lance_pb__field__init(field);
    const char *name = arrow->name == NULL ? "" : arrow->name;
    field->has_name = true;
    field->has_logical_type = true;
    if (!pb_of_str(flat->arena, name, strlen(name), &field->name) ||
        !pb_of_str(flat->arena, logical_type, strlen(logical_type), &field->logical_type)) {
        return lance_schema_no_memory(err);
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
        if (base_str_equal_c((struct lake_str){(const char *)field->metadata[i]->key.data,
                                               field->metadata[i]->key.len},
                             "ARROW:extension:name")) {
            if (strcmp(logical_type, "json") == 0 &&
                !pb_of_str(flat->arena, "lance.json", 10, &field->metadata[i]->value)) {
                return lance_schema_no_memory(err);
            }
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
    return flat->fields == NULL ? lance_schema_no_memory(err) : LAKE_OK;
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
    if (arrow_extension_is(arrow, "lance.blob.v2")) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column %s is of Lance's type lance.blob.v2, which Lake does not write",
                         name);
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
        strlen(name) > LANCE_MAX_NAME_BYTES || !base_utf8_valid(base_str_of(name))) {
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
        status = base_arena_new(LANCE_SCHEMA_ARENA_BYTES, &arena, err);
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
        struct lake_error why = {.code = LAKE_OK};
        status =
            lance_schema_from_fields(flat.fields, flat.count, metadata, metadata_count, out, &why);
        if (status != LAKE_OK) {
            bool typed = status == LAKE_UNIMPLEMENTED || status == LAKE_DATA_LOSS;
            status = lake_fail(err, typed ? LAKE_INVALID_ARGUMENT : status,
                               "the schema has a column that a Lance table cannot hold: %s",
                               why.message);
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
