/*
 * Lance's field tree: the manifest's (or a data file's) flat list of fields, and the Arrow schema
 * that it stands for. Made once per manifest, immutable, shared by readers and writers.
 */
#ifndef LANCE_SCHEMA_H
#define LANCE_SCHEMA_H

#include "lance.h"

#define LANCE_MAX_NESTING 32
#define LANCE_MAX_FIELDS 10000

enum lance_node_kind {
    LANCE_NODE_LEAF,   /* one physical column: primitives, strings, FSL of primitives, dictionary */
    LANCE_NODE_STRUCT, /* children; no column of its own in 2.1+ */
    LANCE_NODE_LIST,   /* list or large_list, one child */
    LANCE_NODE_MAP,    /* one child `entries`, 2.2 */
    LANCE_NODE_FSL_STRUCT /* fixed-size list of struct, 2.2 */
};

struct lance_field {
    int32_t id;
    int32_t parent_id; /* -1 at the top */
    const char *name;
    const char *logical_type;
    bool nullable;
    enum lance_node_kind kind;
    const struct lance_key_value *metadata;
    size_t metadata_count;
    struct lance_field *children;
    size_t child_count;
    const struct ArrowSchema *arrow; /* this field's Arrow type, borrowed from the tree */
};

struct lance_schema {
    struct base_arena *arena; /* owns the tree */
    struct ArrowSchema arrow; /* struct of the top-level fields */
    struct lance_field *fields;
    size_t field_count; /* top level */
    int32_t max_field_id;
    const struct lance_key_value *metadata;
    size_t metadata_count;
};

/* From Arrow, ids 0, 1, 2… in pre-order. */
lake_status lance_schema_from_arrow(const struct ArrowSchema *arrow, const char *storage_version,
                                    struct lance_schema *out, struct lake_error *err);
void lance_schema_fini(struct lance_schema *schema);
/* The ids of the leaves (physical columns, 2.1+) below a field, in pre-order. */
size_t lance_field_leaf_count(const struct lance_field *field);
void lance_field_leaf_ids(const struct lance_field *field, int32_t *out);

#endif
