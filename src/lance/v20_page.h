/*
 * Storage 2.0: rows of one leaf column, page after page.
 *
 * A page is an Arrow array cut into its buffers, so any run of rows is found by arithmetic: what is
 * read is what was asked for. Compressed buffers and dictionaries are the exception, and are kept
 * while their page is open.
 */
#ifndef LANCE_V20_PAGE_H
#define LANCE_V20_PAGE_H

#include "file_read.h"
#include "v20_encoding.h"

/* One column with its current page. One thread. */
struct lance_v20_column {
    struct lance_file *file;
    const struct lance_file_column *column;
    uint32_t column_index;
    struct lance_read_counters *counters;
    struct lance_codec_context codec;
    size_t page_index; /* SIZE_MAX: none */
    struct base_arena *arena;
    const struct lance_v20_encoding *encoding;
    struct base_buffer plain[LANCE_MAX_PAGE_BUFFERS]; /* compressed buffers, once opened */
    bool is_plain[LANCE_MAX_PAGE_BUFFERS];
    struct base_buffer scratch;
};
void lance_v20_column_init(struct lance_v20_column *column, struct lance_column_source source,
                           struct lance_read_counters *counters);
void lance_v20_column_fini(struct lance_v20_column *column);
/* Makes page `index` the current one; *changed when it was not. */
lake_status lance_v20_column_open_page(struct lance_v20_column *column, size_t index, bool *changed,
                                       struct lake_error *err);
/* Values of the current page that are fixed-width and never null, `bits` each. `out` has room for
 * them, and for 1-bit values starts with bit 0. */
lake_status lance_v20_read_fixed(struct lance_v20_column *column,
                                 const struct lance_v20_encoding *encoding, uint64_t first,
                                 uint64_t count, uint64_t bits, uint8_t *out,
                                 struct lake_error *err);
/* At most how many values the encoding can hold, by the size of its buffers. */
uint64_t lance_v20_capacity(const struct lance_v20_column *column,
                            const struct lance_v20_encoding *encoding);

/* Where lists [first, first + count) of the current page end: count + 1 offsets (u64) from 0, and
 * *start, the item of the page that they count from. Appends validity. */
lake_status lance_v20_read_list_ends(struct lance_v20_column *column, uint64_t first,
                                     uint64_t count, struct base_buffer *offsets, uint64_t *start,
                                     struct lance_bits *valid, struct lake_error *err);

/* A leaf column and what was read of it. */
struct lance_v20_leaf {
    struct lance_v20_column column;
    struct lance_leaf_type type;
    struct lance_leaf_type dictionary_type;
    struct lance_leaf_values values;
    struct lance_leaf_values dictionary; /* Arrow dictionaries: all items so far */
    struct lance_bits valid;             /* a bit for each value */
    struct lance_leaf_values page_items; /* of a dictionary, once the page needs it */
    struct lance_bits page_items_valid;
    bool page_has_items;
    bool reading_items;
};
lake_status lance_v20_leaf_init(struct lance_v20_leaf *leaf, struct lance_column_source source,
                                const struct ArrowSchema *type,
                                struct lance_read_counters *counters, struct lake_error *err);
void lance_v20_leaf_fini(struct lance_v20_leaf *leaf);
/* Rows [start, start + count) of the column into values, validity and dictionary, cleared first. */
lake_status lance_v20_leaf_read(struct lance_v20_leaf *leaf, uint64_t start, uint64_t count,
                                struct lake_error *err);

/* Between the two halves (v20_page.c, v20_values.c): appends rows of the current page. */
lake_status lance_v20_append_rows(struct lance_v20_leaf *leaf, uint64_t first, uint64_t count,
                                  struct lake_error *err);

#endif
