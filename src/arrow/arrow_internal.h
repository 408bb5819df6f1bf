/* What the files of arrow share and nobody else sees. */
#ifndef ARROW_INTERNAL_H
#define ARROW_INTERNAL_H

#include "arrow.h"

/* Nesting that we follow in schemas and arrays from outside; flatbuffers are verified to 100. */
#define ARROW_MAX_DEPTH 64
/* Fields of one schema, nested ones included. */
#define ARROW_MAX_FIELDS 100000
/* Dictionary-encoded fields of one schema (SDK-4 allows 16 nested; a wide table may have more). */
#define ARROW_MAX_DICTIONARIES 4096

/* nanoarrow's errno-like code as ours: ENOMEM RESOURCE_EXHAUSTED, ENOTSUP UNIMPLEMENTED, else
 * INVALID_ARGUMENT. `detail` may be NULL. */
lake_status arrow_fail_code(struct lake_error *err, int code, const struct ArrowError *detail,
                            const char *what);

const char *arrow_field_name(const struct ArrowSchema *field); /* never NULL */

/* How the buffers of a type are laid out, by what is done with them. */
enum arrow_layout {
    ARROW_LAYOUT_NULL,
    ARROW_LAYOUT_FIXED,      /* validity, values of `bit_width` bits */
    ARROW_LAYOUT_BYTES,      /* validity, offsets of `offset_bytes`, data */
    ARROW_LAYOUT_LIST,       /* validity, offsets; one child */
    ARROW_LAYOUT_LIST_VIEW,  /* validity, offsets, sizes; one child */
    ARROW_LAYOUT_FIXED_LIST, /* validity; one child, `list_size` items a row */
    ARROW_LAYOUT_STRUCT,     /* validity; children */
    ARROW_LAYOUT_VIEW,       /* validity, 16-byte views, any number of data buffers */
    ARROW_LAYOUT_SPARSE_UNION,
    ARROW_LAYOUT_DENSE_UNION,
    ARROW_LAYOUT_RUN_END,
};
struct arrow_type_layout {
    enum arrow_layout layout;
    enum ArrowType type; /* of the storage: the index type of a dictionary */
    int64_t bit_width;
    int64_t list_size;
    uint32_t offset_bytes; /* 4 or 8 */
    uint32_t buffer_count; /* in IPC, without variadic ones */
    bool has_validity;
    bool utf8;
};
/* INVALID_ARGUMENT for a format string that is not one. */
lake_status arrow_layout_of(const struct ArrowSchema *field, struct arrow_type_layout *out,
                            struct lake_error *err);

/* A deep clone of `array`'s structs (not buffers) whose every node holds `batch`, so that a
 * consumer may move children out. */
lake_status arrow_clone_with_batch(const struct ArrowArray *array, struct arrow_batch *batch,
                                   struct ArrowArray *out, struct lake_error *err);

/* Number of cleared bits among [offset, offset + length); 0 for NULL. */
int64_t arrow_count_nulls(const uint8_t *validity, int64_t offset, int64_t length);

/* Checks of arrow_array_validate but for what values mean, as the decoder needs them. */
lake_status arrow_validate_structure(const struct ArrowSchema *schema,
                                     const struct ArrowArray *array, struct lake_error *err);

/* 64 zero bytes, aligned: where buffers of length 0 point to. */
extern const uint8_t arrow_zeros[64];

/* The dictionary fields of a schema: `fields[i]` has the ID `ids[i]`, in depth-first order. */
struct arrow_dictionaries {
    const struct ArrowSchema **fields;
    int64_t *ids;
    size_t count;
};
lake_status arrow_dictionaries_collect(const struct ArrowSchema *schema,
                                       struct arrow_dictionaries *out, struct lake_error *err);
void arrow_dictionaries_fini(struct arrow_dictionaries *dictionaries);

/* The flatbuffer of a Schema message (schema_encode.c, schema_decode.c). Memory by base_alloc. */
lake_status arrow_schema_message_encode(const struct ArrowSchema *schema,
                                        const struct arrow_dictionaries *dictionaries,
                                        uint8_t **out, size_t *size, struct lake_error *err);
/* Where a file's only record batch is: the frame's offset, its bytes up to the body, the body's. */
struct arrow_file_block {
    int64_t offset;
    int32_t metadata_bytes;
    int64_t body_bytes;
};
/* The bare footer; base_free. */
lake_status arrow_file_footer_encode(const struct ArrowSchema *schema,
                                     const struct arrow_file_block *block, uint8_t **out,
                                     size_t *size, struct lake_error *err);

/* Where the messages of a file are, dictionaries first. */
struct arrow_file_blocks {
    uint64_t *offsets; /* base_free */
    size_t count;
};
/* `footer`: the bare one, 8-byte aligned. *schema points into it. */
lake_status arrow_file_footer_decode(struct lake_bytes footer, const void **schema,
                                     struct arrow_file_blocks *out, struct lake_error *err);

/* `table`: the Schema table in a verified flatbuffer, NULL when there is none. The
 * dictionaries carry the IDs that it has. */
lake_status arrow_schema_table_decode(const void *table, struct ArrowSchema *out,
                                      struct arrow_dictionaries *dictionaries,
                                      struct lake_error *err);
/* Gives a decoder the schema of a file's footer in place of a Schema message. The dictionaries of a
 * file are whole, or grow: INVALID_ARGUMENT for one that is replaced, since the rows that it was
 * for may come after it. */
lake_status arrow_ipc_decoder_start_file(struct arrow_ipc_decoder *decoder, const void *schema,
                                         struct lake_error *err);
/* Verifies that `header` (8-byte aligned) is a Message flatbuffer of a version that we read. */
lake_status arrow_message_verify(struct lake_bytes header, struct lake_error *err);

/* The framing of streams and files (framing.c): 4 bytes FFFFFFFF, 4 bytes length. */
enum arrow_frame_kind {
    ARROW_FRAME_MESSAGE,
    ARROW_FRAME_END
};
lake_status arrow_frame_prefix(const uint8_t prefix[8], uint64_t max_metadata_bytes,
                               enum arrow_frame_kind *kind, uint32_t *metadata_bytes,
                               struct lake_error *err);
/* The body length that a (not yet verified) header claims, after verifying it. */
lake_status arrow_frame_body_bytes(struct lake_bytes header, uint64_t max_body_bytes, uint64_t *out,
                                   struct lake_error *err);

#endif
