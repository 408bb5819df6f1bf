/*
 * Lance's field tree: the manifest's (or a data file's) flat list of fields, and the Arrow schema
 * that it stands for. Made once per manifest, immutable, shared by readers and writers.
 */
#ifndef LANCE_SCHEMA_H
#define LANCE_SCHEMA_H

#include "lance.h"

#define LANCE_MAX_NESTING        32
#define LANCE_MAX_FIELDS         10000
#define LANCE_MAX_NAME_BYTES     4096
#define LANCE_MAX_METADATA_PAIRS 10000
#define LANCE_SCHEMA_ARENA_BYTES ((size_t)256 << 20)

enum lance_node_kind {
    LANCE_NODE_LEAF,   /* one physical column: primitives, strings, FSL of primitives, dictionary,
                          and (with children, which have no column) a packed struct or blob v2 */
    LANCE_NODE_STRUCT, /* children; no column of its own in 2.1+ */
    LANCE_NODE_LIST,   /* list or large_list, one child */
    LANCE_NODE_MAP,    /* one child `entries`, 2.2 */
    LANCE_NODE_FSL_STRUCT /* fixed-size list of struct, 2.2 */
};

/* How a leaf lies in its column, where that is not as its Arrow type has it. */
enum lance_stored {
    LANCE_STORED_PLAIN,
    LANCE_STORED_BLOB_V1, /* rows of {position, size} in the same file */
    LANCE_STORED_BLOB_V2, /* rows of {kind, position, size, blob_id, blob_uri} */
    LANCE_STORED_JSON,    /* documents in binary form, which are shown as text */
    LANCE_STORED_KINDS
};

struct lance_field {
    int32_t id;
    int32_t parent_id; /* -1 at the top */
    const char *name;
    const char *logical_type;
    bool nullable;
    enum lance_node_kind kind;
    enum lance_stored stored;
    const struct lance_key_value *metadata;
    size_t metadata_count;
    struct lance_field *children;
    size_t child_count;
    const struct ArrowSchema *arrow; /* this field's Arrow type, borrowed from the tree; of a blob
                                        the type of its bytes, of JSON that of its text */
    const struct ArrowSchema *stored_arrow; /* the type of its column */
};

struct lance_schema {
    struct base_arena *arena;         /* owns the tree */
    struct ArrowSchema arrow;         /* struct of the top-level fields */
    struct ArrowSchema *stored_types; /* by enum lance_stored */
    struct lance_field *fields;
    size_t field_count; /* top level */
    int32_t max_field_id;
    const struct lance_key_value *metadata;
    size_t metadata_count;
};

/* The protobuf messages of proto/lance_file.proto; include "lance_file.pb-c.h" to look inside. */
struct LancePb__Field;
struct LancePb__BytesEntry;

/* From Arrow, ids 0, 1, 2… in pre-order. `out->arrow` is what a reader of the table will see: a
 * fixed-size list's item is named `item` and nullable, whatever it was. INVALID_ARGUMENT for a type
 * that Lance (or this storage version) cannot hold. */
lake_status lance_schema_from_arrow(const struct ArrowSchema *arrow, const char *storage_version,
                                    struct lance_schema *out, struct lake_error *err);
/* From a manifest's or a data file's flat list: parents before their children, linked by id.
 * Everything is copied. DATA_LOSS for a list that is no tree; UNIMPLEMENTED names a logical type
 * that is not known. */
lake_status lance_schema_from_fields(struct LancePb__Field *const *fields, size_t field_count,
                                     struct LancePb__BytesEntry *const *metadata,
                                     size_t metadata_count, struct lance_schema *out,
                                     struct lake_error *err);
/* The reverse, in pre-order, allocated from `arena`. */
lake_status lance_schema_to_fields(const struct lance_schema *schema, struct base_arena *arena,
                                   struct LancePb__Field ***out, size_t *count,
                                   struct lake_error *err);
/* The schema's metadata as messages, allocated from `arena`. */
lake_status lance_schema_metadata_to_entries(const struct lance_schema *schema,
                                             struct base_arena *arena,
                                             struct LancePb__BytesEntry ***out, size_t *count,
                                             struct lake_error *err);
/* A value of the field's metadata, or NULL. Values with a NUL inside are cut there. */
const char *lance_field_metadata(const struct lance_field *field, const char *key);
void lance_schema_fini(struct lance_schema *schema);

/* ---- logical types (logical_type.c) ---- */

#define LANCE_LOGICAL_TYPE_BYTES 256 /* with the NUL */

/* The logical type of an Arrow field, without looking below lists, structs and maps. */
lake_status lance_logical_type_of(const struct ArrowSchema *field, char *out,
                                  struct lake_error *err);
/* Which kind of node a logical type is. */
enum lance_node_kind lance_logical_type_kind(const char *logical_type);
/* Sets format (and dictionary, and the items of a primitive fixed-size list) of an initialised
 * field. Children of lists, structs, maps and fixed-size lists of structs are the caller's. */
lake_status lance_logical_type_apply(const char *logical_type, struct ArrowSchema *out,
                                     struct lake_error *err);

/* The ids of the leaves (physical columns, 2.1+) below a field, in pre-order. */
size_t lance_field_leaf_count(const struct lance_field *field);
void lance_field_leaf_ids(const struct lance_field *field, int32_t *out);
/* All nodes of a field's tree in pre-order, itself first and nothing below a leaf: storage 2.0 has
 * a column for each. */
size_t lance_field_node_count(const struct lance_field *field);

/* ---- what is stored in another form (stored_type.c) ---- */

enum lance_stored lance_field_stored_as(const struct lance_field *field);
/* Fills out[LANCE_STORED_KINDS] with the types of columns; that of LANCE_STORED_PLAIN stays empty.
 */
lake_status lance_stored_types(struct ArrowSchema *out, struct lake_error *err);
/* The type of the field's arrays when blobs are read as descriptions. Released by the caller. */
lake_status lance_field_description_type(const struct lance_field *field, struct ArrowSchema *out,
                                         struct lake_error *err);

/* RESOURCE_EXHAUSTED: more than LANCE_SCHEMA_ARENA_BYTES. */
lake_status lance_schema_no_memory(struct lake_error *err);

#endif
