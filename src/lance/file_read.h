/*
 * Inside of reading one data file: the parsed container, and the reader of one leaf column with its
 * current page. Layout-specific state is in page_mini_block.c, page_full_zip.c, page_constant.c
 * behind one method table.
 *
 * A leaf reader works on one page at a time: opening it parses the layout and reads its small
 * tables (chunk index, dictionary, row index); reading rows appends values to `values` and levels
 * to `rep`/`def`, which are then unravelled into `layers`.
 */
#ifndef LANCE_FILE_READ_H
#define LANCE_FILE_READ_H

#include "file.h"
#include "levels.h"
#include "read_ahead.h"

#define LANCE_MAX_PAGE_BUFFERS 16

struct lance_file_page {
    uint64_t row_count;
    uint64_t first_row;
    size_t buffer_count;
    uint64_t *offsets;
    uint64_t *sizes;
    struct lake_bytes layout; /* serialized PageLayout; of storage 2.0 ArrayEncoding */
};

struct lance_zone_collector;
void lance_zone_collector_free(struct lance_zone_collector *collector); /* NULL is allowed */

struct lance_file_column {
    struct lance_file_page *pages;
    size_t page_count;
    uint64_t row_count;
    uint64_t encoded_bytes;
    uint64_t statistics_offset;
    size_t statistics_bytes;                /* 0: none; atomic once the file is open */
    struct lance_zones *zones;              /* atomic; NULL: not read yet, or none */
    struct lance_zone_collector *collector; /* atomic; of a file without statistics (observe.c) */
};

struct lance_file {
    int reference_count; /* atomic */
    struct storage_store *store;
    struct base_arena *arena; /* everything below */
    struct lake_str key;
    uint64_t size_bytes;
    size_t memory_bytes;
    uint32_t major;
    uint32_t minor;
    uint64_t row_count;
    struct lance_file_column *columns;
    uint32_t column_count;
    uint64_t descriptor_offset; /* of what the file says of its own columns */
    size_t descriptor_bytes;
    uint8_t *whole; /* NULL, or all its bytes: of a small file in a far store */
};

/* Bytes of the file, from memory if they are there. */
lake_status lance_file_read_range(struct lance_file *file, uint64_t offset, size_t size_bytes,
                                  uint8_t *out, struct lake_error *err);

/* The page that holds `row`. Pages without rows are never it. */
size_t lance_find_page(const struct lance_file_column *column, uint64_t row);

struct lance_leaf_reader;

struct lance_page_methods {
    /* Fills reader->page from reader->layout; allocates from reader->page_arena. */
    lake_status (*open)(struct lance_leaf_reader *reader, struct lake_error *err);
    /* Appends rows [row, row + count) of the page to reader->values, ->rep and ->def. */
    lake_status (*read)(struct lance_leaf_reader *reader, uint64_t row, uint64_t count,
                        struct lake_error *err);
};
extern const struct lance_page_methods lance_mini_block_methods;
extern const struct lance_page_methods lance_full_zip_methods;
extern const struct lance_page_methods lance_constant_methods;

struct lance_chunk {      /* of a mini-block page */
    uint64_t offset;      /* in the page's chunk buffer */
    uint64_t first_value; /* values before it */
    uint64_t first_row;   /* rows that start before it (with repetition only) */
};

/* A level of a chunk, and how many rows begin and values lie before it. */
struct lance_chunk_place {
    uint64_t entry;
    uint64_t row_starts;
    uint64_t values;
};

struct lance_leaf_reader {
    struct lance_file *file;
    const struct lance_file_column *column;
    uint32_t column_index;
    struct lance_leaf_type type;
    struct lance_leaf_type dictionary_type; /* of the values of an Arrow dictionary column */
    struct lance_read_counters *counters;   /* or NULL */
    struct lance_read_ahead *ahead;         /* or NULL: whoever fetches what will be read */
    struct lance_codec_context codec;

    /* results */
    struct lance_leaf_values values;
    struct lance_leaf_values dictionary; /* Arrow dictionary columns: all items so far */
    struct lance_layers layers;
    struct base_buffer rep; /* u16 levels of the rows being read, of this page */
    struct base_buffer def;

    /* the current page */
    size_t page_index; /* SIZE_MAX: none */
    struct base_arena *page_arena;
    struct lance_page_layout layout;
    const struct lance_page_methods *methods;
    uint8_t page_layers[LANCE_MAX_LAYERS]; /* of the field; a blob page's descriptions have their
                                              own in `layout` */
    bool blob_page;
    uint32_t max_rep, visible_level;
    struct base_buffer window; /* bytes [window_start, +size) of the page's data buffer */
    size_t window_buffer;      /* which page buffer the window is of */
    uint64_t window_start;
    uint64_t window_bytes;             /* that a sequential reader asks for, at least */
    uint64_t gap_bytes;                /* that are read with what lies on both sides of them */
    const struct lance_run *next_runs; /* rows that will be read after these, in rows of the leaf */
    size_t next_run_count;
    bool scattered; /* rows here and there: nothing is read that next_runs do not want */
    struct base_buffer scratch; /* dictionary indices, booleans */

    /* mini-block: an entry more than there are chunks */
    struct lance_chunk *chunks;
    uint64_t chunk_count;
    /* The chunk that was last read in part, as far as it is decoded: of pages without lists the
     * dictionary's indices, or values that can be decoded in ranges, or else all values. */
    uint64_t cached_chunk;                 /* UINT64_MAX: none */
    struct lance_chunk_place cached_place; /* of pages with lists: where the last part ended */
    struct lance_leaf_values cache;
    struct lance_open_chunk open_chunk;
    struct base_buffer cache_indices;
    struct base_buffer cache_rep, cache_def;
    struct lance_leaf_values page_dictionary;
    bool page_has_dictionary;
    uint64_t dictionary_base; /* where this page's items start in `dictionary` */
    bool dictionary_placed;

    /* full-zip */
    struct lake_bytes row_index;
    uint32_t row_index_width; /* bytes; 0: rows have equal size */
    uint32_t control_bytes;
    uint64_t stride_bytes;

    /* constant: levels of the whole page; row_entries[i] is the first entry of row i */
    uint16_t *page_rep;
    uint16_t *page_def;
    uint64_t page_entries;
    uint64_t *row_entries;
};

lake_status lance_leaf_reader_init(struct lance_leaf_reader *reader, struct lance_file *file,
                                   uint32_t column_index, const struct ArrowSchema *arrow,
                                   const bool *layer_is_list, size_t layer_count,
                                   struct lance_read_counters *counters, struct lake_error *err);
void lance_leaf_reader_fini(struct lance_leaf_reader *reader);
/* Says that rows [start, start + count) will be read, for rows of the task below `end_row`, of
 * which each is `rows_per_row` of these. */
lake_status lance_leaf_reader_want(struct lance_leaf_reader *reader, struct lance_read_ahead *ahead,
                                   uint64_t start, uint64_t count, uint64_t rows_per_row,
                                   struct lake_error *err);
/* Clears values and layers. */
void lance_leaf_reader_start(struct lance_leaf_reader *reader);
/* Rows [start, start + count) of the column, put behind those that are there. Ascending. */
lake_status lance_leaf_reader_add(struct lance_leaf_reader *reader, uint64_t start, uint64_t count,
                                  struct lake_error *err);

/* For the page layouts. */
/* Bytes of one of the page's buffers into `out`; checked against the buffer's size. */
lake_status lance_page_read_at(struct lance_leaf_reader *reader, size_t buffer, uint64_t offset,
                               size_t size_bytes, uint8_t *out, struct lake_error *err);
/* The whole buffer, in memory that lives as long as the page is open. */
lake_status lance_page_read_buffer(struct lance_leaf_reader *reader, size_t buffer,
                                   struct lake_bytes *out, struct lake_error *err);
/* A view of [start, end) through the window; reads on to `wanted_end` at most when it must read. */
lake_status lance_page_window(struct lance_leaf_reader *reader, size_t buffer, uint64_t start,
                              uint64_t end, uint64_t wanted_end, struct lake_bytes *out,
                              struct lake_error *err);
lake_status lance_page_buffer_count(struct lance_leaf_reader *reader, size_t expected,
                                    struct lake_error *err);
uint64_t lance_page_buffer_size(const struct lance_leaf_reader *reader, size_t buffer);
void *lance_page_alloc(struct lance_leaf_reader *reader, uint64_t count, size_t item_bytes);
static inline const struct lance_file_page *lance_page_of(const struct lance_leaf_reader *reader)
{
    return &reader->column->pages[reader->page_index];
}

/* Appends `count` fixed values of item_bits each, `per_row` of them a row, from a flat buffer. */
lake_status lance_leaf_append_flat(struct lance_leaf_values *out, const uint8_t *from,
                                   uint64_t rows, struct lake_error *err);

/* Dictionaries of mini-block pages (page_dictionary.c): `bits` of an index are 8, 16, 32 or 64. */
static inline uint64_t lance_index_at(const uint8_t *at, uint64_t bits, uint64_t i)
{
    switch (bits) {
    case 8:
        return at[i];
    case 16:
        return base_load_u16le(at + 2 * i);
    case 32:
        return base_load_u32le(at + 4 * i);
    default:
        return base_load_u64le(at + 8 * i);
    }
}
uint64_t lance_highest_index(const uint8_t *indices, uint64_t bits, uint64_t count);
/* Arrow dictionary columns: makes the page's items part of what a read of many pages returns. */
lake_status lance_dictionary_place(struct lance_leaf_reader *reader, struct lake_error *err);
/* Appends the page's items, or their keys, for indices that are known to be inside. */
lake_status lance_dictionary_look_up(struct lance_leaf_reader *reader, const uint8_t *indices,
                                     uint64_t bits, uint64_t count, struct lance_leaf_values *out,
                                     struct lake_error *err);

#endif
