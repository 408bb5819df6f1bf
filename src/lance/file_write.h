/*
 * Inside of writing one data file.
 *
 * Rows are shredded leaf by leaf into `lance_page_rows` (values and levels, as a reader will see
 * them) until a page's bytes have come together; then the page is encoded (page_encode.c
 * chooses the layout and the codecs by measuring) into buffers that the container writes.
 */
#ifndef LANCE_FILE_WRITE_H
#define LANCE_FILE_WRITE_H

#include "file.h"
#include "jsonb.h"
#include "levels.h"

#define LANCE_FULL_ZIP_FROM 256 /* bytes of a value; shorter ones share chunks */
#define LANCE_PAGE_BUFFERS  4

/* What the writer does with one column (encode_options.c). */
struct lance_encode_options {
    uint32_t minor;      /* storage 2.`minor` */
    uint32_t scheme;     /* enum lance_compression; 0: none */
    int level;           /* Zstandard's */
    uint32_t min_saving; /* percent that compression saves, or it is not worth decoding */
    bool fsst;           /* symbols for strings */
    bool split_always, split_never; /* byte planes before compression; neither: by measuring */
    bool always_full_zip, always_mini_block; /* neither: by the longest value */
    double rle_limit;                        /* runs a value at most */
    uint64_t dictionary_divisor;             /* values for each distinct one, at least */
    double dictionary_ratio;                 /* of the size without a dictionary, at most */
    uint64_t chunk_bytes;                    /* of raw values in a mini-block chunk */
};
void lance_encode_options_of(enum lance_profile profile, uint32_t minor,
                             const struct lance_field *leaf, const struct lance_field *top,
                             struct lance_encode_options *out);

/* The way from a top-level field to one leaf. */
struct lance_leaf_path {
    size_t child_index[LANCE_MAX_LAYERS]; /* which child to enter below layer i (0 for lists) */
    bool is_list[LANCE_MAX_LAYERS];       /* top first */
    bool large_list[LANCE_MAX_LAYERS];
    bool has_required[LANCE_MAX_LAYERS]; /* a struct with a member that may not be null */
    size_t layer_count;
    size_t field_index; /* top level */
};

/* Definition levels while rows are gathered are numbered as if every layer could be null and every
 * list empty; encoding renumbers them by those that occur. */
struct lance_page_rows {
    struct lance_leaf_type type; /* as stored */
    struct lance_leaf_type dictionary_type;
    uint32_t offset_bytes;  /* of the arrays that rows come in, 0: no strings or binaries */
    const char *json_field; /* borrowed; the column's name where rows come as JSON text, or NULL */
    struct lance_jsonb_encoder json;
    struct lance_leaf_path path;
    uint32_t null_level[LANCE_MAX_LAYERS]; /* top first; a list's empty level is one more */
    uint32_t visible_level;                /* highest level with a value slot */
    uint32_t list_count;
    uint64_t first_row; /* of the page, in the file */
    uint64_t row_count;
    uint64_t entry_count;
    bool has_def; /* false: all levels so far are 0, and `def` is empty */
    bool level_used[2 * LANCE_MAX_LAYERS + 1];
    struct base_buffer rep; /* u16, with lists */
    struct base_buffer def;
    struct lance_leaf_values values;
    struct lance_leaf_values dictionary; /* Arrow dictionary columns: the items so far */
    struct base_buffer work[4];
};

lake_status lance_page_rows_init(struct lance_page_rows *rows, const struct lance_field *leaf,
                                 const struct lance_leaf_path *path, struct lake_error *err);
void lance_page_rows_fini(struct lance_page_rows *rows);
void lance_page_rows_clear(struct lance_page_rows *rows); /* first_row moves past its rows */
/* Room for a page of `bytes` at once, for who knows that it will fill up. */
lake_status lance_page_rows_reserve(struct lance_page_rows *rows, uint64_t bytes,
                                    struct lake_error *err);
uint64_t lance_page_rows_bytes(const struct lance_page_rows *rows);
/* How many rows of `field` from `start`, at most `count`, at least one, stay within `budget`. */
uint64_t lance_page_rows_fitting(const struct lance_page_rows *rows, const struct ArrowArray *field,
                                 uint64_t start, uint64_t count, uint64_t budget);
/* True when the rows' Arrow dictionary cannot join the page's: the page must be flushed first. */
bool lance_page_rows_must_flush(const struct lance_page_rows *rows, const struct ArrowArray *field);
/* Rows [start, start + count) of the top-level array `field`, counted from its offset. */
lake_status lance_page_rows_append(struct lance_page_rows *rows, const struct ArrowArray *field,
                                   uint64_t start, uint64_t count, struct lake_error *err);

/* A page ready to be written. */
struct lance_encoded_page {
    struct base_buffer buffers[LANCE_PAGE_BUFFERS];
    size_t buffer_count;
    struct base_buffer layout; /* serialized PageLayout */
};
void lance_encoded_page_init(struct lance_encoded_page *page);
void lance_encoded_page_fini(struct lance_encoded_page *page);
/* Chooses layout and codecs for the gathered rows. Renumbers the rows' levels in place. */
lake_status lance_page_encode(struct lance_page_rows *rows,
                              const struct lance_encode_options *options,
                              struct lance_compressor *compressor, struct lance_encoded_page *out,
                              struct lake_error *err);

/* ---- between the parts of encoding ---- */

struct lance_page_plan {
    struct lance_page_rows *rows;
    const struct lance_encode_options *options;
    struct lance_compressor *compressor;
    uint8_t layers[LANCE_MAX_LAYERS]; /* leaf first */
    size_t layer_count;
    const uint16_t *rep; /* NULL: none */
    const uint16_t *def; /* NULL: none; renumbered */
    uint32_t max_rep, max_def, visible_level;
    struct base_arena *arena; /* for encodings */
};
void lance_plan_layout(const struct lance_page_plan *plan, struct lance_page_layout *out);
struct lance_encoding *lance_encoding_new(struct base_arena *arena, enum lance_encoding_kind kind,
                                          uint64_t bits, const struct lance_encoding *values);

/* *fits false: some chunk cannot hold its levels or two values; nothing is written then. */
lake_status lance_mini_block_encode(const struct lance_page_plan *plan,
                                    struct lance_encoded_page *out, bool *fits,
                                    struct lake_error *err);

/* ---- value codecs of mini-blocks (value_codecs.c) ---- */

/* Values to be cut into chunks: fixed ones of `bits`, or the rows' own. */
struct lance_value_source {
    const struct lance_leaf_values *values; /* variable, FSL and booleans */
    const uint8_t *fixed;                   /* fixed values or dictionary indices */
    uint64_t bits;
    uint64_t count;
    struct lance_compressor *compressor;
};

#define LANCE_CHUNK_BUFFERS 10 /* FSL validity layers and two more */
struct lance_value_codec {
    const char *name;
    /* Appends the chunk's values to buffers[0 .. plan->buffer_count). */
    lake_status (*encode)(const struct lance_value_source *source,
                          const struct lance_encoding *encoding, uint64_t start, uint64_t count,
                          struct base_buffer *buffers, struct lake_error *err);
};

extern const struct lance_value_codec lance_flat_values;
extern const struct lance_value_codec lance_inline_values;
extern const struct lance_value_codec lance_rle_values;
extern const struct lance_value_codec lance_general_values; /* flat values or their byte planes */
extern const struct lance_value_codec lance_variable_values;
extern const struct lance_value_codec lance_general_variable_values;
extern const struct lance_value_codec lance_fsl_values;

struct lance_value_plan {
    const struct lance_value_codec *codec;
    const struct lance_encoding *encoding;
    size_t buffer_count;
    uint32_t max_log2;          /* values of a chunk */
    uint64_t max_raw_bytes;     /* of a chunk's values, 0: no limit of its own */
    struct base_buffer indices; /* dictionary: u32 */
    const struct lance_encoding *dictionary;
    uint64_t dictionary_items;
    struct base_buffer dictionary_block;
    struct lance_leaf_values symbols; /* FSST: the strings encoded; of no type until then */
    struct lance_value_source source;
};

/* ---- choosing among them (value_encode.c, dictionary_encode.c) ---- */

void lance_value_plan_init(struct lance_value_plan *plan);
void lance_value_plan_fini(struct lance_value_plan *plan);
/* Measures the candidates on the page's values and takes the best. */
lake_status lance_value_plan_choose(const struct lance_page_plan *page,
                                    struct lance_value_plan *out, struct lake_error *err);
void lance_value_plan_take(struct lance_value_plan *plan, const struct lance_value_codec *codec,
                           const struct lance_encoding *encoding, uint32_t max_log2,
                           size_t buffer_count);
/* What a codec makes of the whole source, by its size on a few chunks of it. */
lake_status lance_value_sample(const struct lance_value_codec *codec,
                               const struct lance_encoding *encoding,
                               const struct lance_value_source *source, uint64_t chunk,
                               uint64_t *estimate, struct lake_error *err);
uint64_t lance_inline_bytes(const struct lance_value_source *source); /* as bit-packed blocks */
/* out->source holds fixed values of 8 bits or more; *bytes is about what they will take. */
lake_status lance_choose_fixed(const struct lance_page_plan *page, bool integer,
                               struct lance_value_plan *out, uint64_t *bytes,
                               struct lake_error *err);
/* Indices and a dictionary, if that takes less than the options' part of `plain` bytes. */
lake_status lance_try_dictionary(const struct lance_page_plan *page, uint64_t plain,
                                 struct lance_value_plan *out, bool *worth, struct lake_error *err);
/* Text as FSST symbols in place of `*best` bytes, if they take less: out->symbols, and their
 * encoding above `variable`. */
lake_status lance_try_symbols(const struct lance_page_plan *page,
                              const struct lance_encoding *variable, uint64_t *best,
                              struct lance_value_plan *out, struct lake_error *err);
lake_status lance_choose_variable(const struct lance_page_plan *page, struct lance_value_plan *out,
                                  struct lake_error *err);
lake_status lance_choose_arrow_dictionary(const struct lance_page_plan *page,
                                          struct lance_value_plan *out, struct lake_error *err);
/* NULL: out of memory, or NULL inside. */
const struct lance_encoding *lance_encoding_flat(struct base_arena *arena, uint64_t bits);
const struct lance_encoding *lance_encoding_general(struct base_arena *arena, uint32_t scheme,
                                                    const struct lance_encoding *inner);
lake_status lance_encoding_out_of_memory(struct lake_error *err);

#endif
