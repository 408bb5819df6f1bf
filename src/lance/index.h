/*
 * Lance's standard scalar indices, asked by filters: BTree, Bitmap and ZoneMap.
 *
 * An index names candidates among the rows of the fragments that it covers, and the scan evaluates
 * its filters on them as on all rows. So an index may name too many rows, never too few: one that
 * is of another kind, of a later version or damaged is passed by, and so is one that names so many
 * that reading them would cost more than a scan.
 *
 * index_section.c reads what a manifest says, index_file.c opens an index, index_btree.c,
 * index_bitmap.c and index_zone_map.c ask one, index.c decides which are asked and puts their
 * answers together.
 */
#ifndef LANCE_INDEX_H
#define LANCE_INDEX_H

#include "row_set.h"
#include "table.h"

enum lance_index_kind {
    LANCE_INDEX_OTHER,
    LANCE_INDEX_BTREE,
    LANCE_INDEX_BITMAP,
    LANCE_INDEX_ZONE_MAP
};

/* ---- index_section.c ---- */

/* *out NULL: the version has no indices. Memory is the arena's. */
lake_status lance_index_section_parse(struct lake_bytes bytes, struct base_arena *arena,
                                      LancePb__IndexSection **out, struct lake_error *err);
/* Up to which fragment id an index's bitmap counts. */
uint64_t lance_index_max_fragment_id(const LancePb__Manifest *pb);
/* One of the format's own, which holds no values of a column. */
bool lance_index_is_system(const LancePb__IndexMetadata *index);
enum lance_index_kind lance_index_kind_of(const LancePb__IndexMetadata *index);
/* What stands behind the last point of its details' type, without "IndexDetails": "BTree". */
struct lake_str lance_index_kind_name(const LancePb__IndexMetadata *index);
/* Its directory below the dataset's; DATA_LOSS when it has no valid identifier. */
#define LANCE_INDEX_KEY_BYTES 64
lake_status lance_index_key(const LancePb__IndexMetadata *index, char out[LANCE_INDEX_KEY_BYTES],
                            struct lake_error *err);

/* ---- index_file.c ---- */

/* Columns of the small table that each index begins with, where the kind has them. */
enum lance_index_column {
    LANCE_INDEX_LOW, /* of a Bitmap the value itself */
    LANCE_INDEX_HIGH,
    LANCE_INDEX_NULLS,
    LANCE_INDEX_NANS,
    LANCE_INDEX_PAGE,
    LANCE_INDEX_FRAGMENT,
    LANCE_INDEX_START,
    LANCE_INDEX_LENGTH,
    LANCE_INDEX_COLUMNS
};

struct lance_index_file {
    struct lance_file *file;
    struct lance_schema schema;
};

struct lance_index_slice { /* some rows of the table */
    struct ArrowArray columns[LANCE_INDEX_COLUMNS];
    uint64_t row_count;
};

struct lance_index { /* opened; immutable, shared */
    _Atomic uint32_t references;
    enum lance_index_kind kind;
    struct lance_index_file table;
    struct lance_index_file pages;    /* of a BTree */
    const struct ArrowSchema *values; /* the type of what it is on */
    uint64_t page_rows;               /* of a BTree */
    struct lance_index_slice *slices;
    size_t slice_count;
    size_t memory_bytes;
};

/* `store` and `key`: where the index's directory is. UNIMPLEMENTED for another layout than is
 * known; RESOURCE_EXHAUSTED when the table is larger than 64 MiB. */
lake_status lance_index_open(struct storage_store *store, const char *key,
                             const LancePb__IndexMetadata *entry,
                             struct lance_read_counters *counters, struct lance_index **out,
                             struct lake_error *err);
struct lance_index *lance_index_ref(struct lance_index *index);
void lance_index_unref(struct lance_index *index); /* NULL is allowed */
/* A reader of the column `name`, whose type must be `format`. */
lake_status lance_index_reader_new(const struct lance_index_file *file, const char *name,
                                   const char *format, struct lance_read_counters *counters,
                                   struct lance_field_reader **out, struct lake_error *err);

/* ---- asking one: index_btree.c, index_bitmap.c, index_zone_map.c ---- */

struct lance_index_question {
    struct lance_predicate *const *predicates; /* all must hold, for the index's column */
    size_t predicate_count;
    uint64_t max_read_rows; /* of the index; above: too many */
    struct lance_read_counters *counters;
};
/* Adds the rows that may pass, by what the index knows them by: addresses or row ids. Of a ZoneMap
 * these are the rows that do not pass, by address. */
lake_status lance_index_ask(const struct lance_index *index,
                            const struct lance_index_question *question, struct lance_row_set *out,
                            struct lake_error *err);
lake_status lance_index_ask_btree(const struct lance_index *index,
                                  const struct lance_index_question *question,
                                  struct lance_row_set *out, struct lake_error *err);
lake_status lance_index_ask_bitmap(const struct lance_index *index,
                                   const struct lance_index_question *question,
                                   struct lance_row_set *out, struct lake_error *err);
lake_status lance_index_ask_zone_map(const struct lance_index *index,
                                     const struct lance_index_question *question,
                                     struct lance_row_set *out, struct lake_error *err);
/* Adds the rows of one value of a Bitmap: u32 count, then for each u32 fragment (the upper half of
 * the rows' numbers), u32 size and a portable roaring bitmap of the lower halves. */
lake_status lance_index_bitmap_parse(struct lake_bytes bytes, struct lance_row_set *out,
                                     struct lake_error *err);

/* ---- dataset.c ---- */

/* An index of the dataset through the cache. */
lake_status lance_dataset_open_index(struct lance_dataset *dataset,
                                     const LancePb__IndexMetadata *entry,
                                     struct lance_read_counters *counters, struct lance_index **out,
                                     struct lake_error *err);

/* ---- index.c ---- */

struct lance_index_filter { /* what is asked of one column */
    const struct lance_field *field;
    struct lance_predicate *const *predicates;
    size_t predicate_count;
};

/* Which rows a scan has to look at. */
struct lance_candidates {
    size_t used;            /* indices that helped; 0: nothing below is there */
    bool *known;            /* by fragment: only these rows may pass */
    size_t *first;          /* by fragment, and one more: its place in `runs` */
    struct lance_run *runs; /* addresses, ascending within a fragment and apart */
};
/* An index that cannot be used is no failure. */
lake_status lance_candidates_find(struct lance_dataset *dataset,
                                  const struct lance_index_filter *filters, size_t count,
                                  struct lance_read_counters *counters,
                                  struct lance_candidates *out, struct lake_error *err);
void lance_candidates_fini(struct lance_candidates *candidates);

#endif
