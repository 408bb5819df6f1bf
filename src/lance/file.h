/*
 * One Lance data file (storage 2.0, 2.1 and 2.2): container, pages, encodings.
 *
 * A `lance_file` is the parsed footer and column metadata: immutable, shared, cacheable. A
 * `lance_field_reader` decodes rows of one top-level field from it. A `lance_file_writer` streams
 * batches into pages. This is the seam between table.c's world (manifests, fragments, deletions)
 * and the encodings below.
 */
#ifndef LANCE_FILE_H
#define LANCE_FILE_H

#include "schema.h"

struct lance_file;

/* `size_bytes` 0: asked from the store. */
lake_status lance_file_open(struct storage_store *store, struct lake_str key, uint64_t size_bytes,
                            struct lance_file **out, struct lake_error *err);
/* The last LANCE_TAIL_BYTES of a file, or all that it has: what opening it reads first. */
#define LANCE_TAIL_BYTES ((size_t)64 << 10)
struct lance_tail {
    uint8_t *data; /* NULL: not here */
    size_t size;
};
/* The same by a tail that is here already, which is taken. */
lake_status lance_file_open_by(struct storage_store *store, struct lake_str key,
                               uint64_t size_bytes, struct lance_tail *tail,
                               struct lance_file **out, struct lake_error *err);
struct lance_file *lance_file_ref(struct lance_file *file);
void lance_file_unref(struct lance_file *file);
uint64_t lance_file_row_count(const struct lance_file *file);
size_t lance_file_memory_bytes(const struct lance_file *file); /* for the cache's account */
uint32_t lance_file_column_count(const struct lance_file *file);

/* Statistics of a column, read when first asked for and kept with the file; *out NULL when there
 * are none. Thread-safe. */
struct lance_zones;
lake_status lance_file_zones(struct lance_file *file, uint32_t index,
                             const struct lance_zones **out, struct lake_error *err);

struct lance_read_counters { /* added to atomically */
    uint64_t bytes_read;
    uint64_t pages_read;
};

/* Where a node of a field's tree is stored. Borrowed: files outlive what reads from them. */
struct lance_column_source {
    struct lance_file *file; /* NULL: nowhere; a leaf then reads as null */
    int32_t column;
};

/* Decodes one top-level field. `sources` has an entry for each node of the field's tree in
 * pre-order (lance_field_node_count); after storage 2.0 only those of leaves count. Keeps what it
 * needs between calls (the current page, decoded chunk) so that sequential reads touch each page
 * once. One thread. */
struct lance_run { /* rows, one after the other */
    uint64_t start;
    uint64_t count;
};
struct lance_field_reader;
lake_status lance_field_reader_new(const struct lance_field *field,
                                   const struct lance_column_source *sources,
                                   bool blob_descriptions, struct lance_read_counters *counters,
                                   struct lance_field_reader **out, struct lake_error *err);
void lance_field_reader_free(struct lance_field_reader *reader);
/* Rows [start, start + count) as an array of the field's Arrow type, independent of the reader.
 * Random `start` is allowed; ascending reads are fast. */
lake_status lance_field_reader_read(struct lance_field_reader *reader, uint64_t start,
                                    uint64_t count, struct ArrowArray *out, struct lake_error *err);
/* The rows of several runs, ascending and apart, as one array: reads only what holds them. */
lake_status lance_field_reader_read_runs(struct lance_field_reader *reader,
                                         const struct lance_run *runs, size_t run_count,
                                         struct ArrowArray *out, struct lake_error *err);
/* Says to `ahead` that these rows will be read. From then on it has what they are read from. */
struct lance_read_ahead;
lake_status lance_field_reader_want(struct lance_field_reader *reader,
                                    struct lance_read_ahead *ahead, uint64_t start, uint64_t count,
                                    struct lake_error *err);
/* Average encoded bytes per row of the field, for sizing batches. */
uint64_t lance_field_reader_bytes_per_row(const struct lance_field_reader *reader);
/* So many rows between two others cost no more to read than to leave out. */
uint64_t lance_field_reader_gap_rows(const struct lance_field_reader *reader);

struct lance_file_writer;
struct lance_file_result {
    uint64_t row_count;
    uint64_t size_bytes;
    int32_t *field_ids; /* leaves, as in DataFile.fields; base_free */
    int32_t *column_indices;
    size_t column_count;
};
struct lance_file_options {
    uint32_t minor; /* 1 or 2 (storage 2.1, 2.2) */
    enum lance_profile profile;
};
/* The writer is bound to `schema`, which must outlive it. Large batches are encoded on several
 * threads, column by column. */
lake_status lance_file_writer_new(struct storage_store *store, struct lake_str key,
                                  const struct lance_schema *schema,
                                  const struct lance_file_options *options,
                                  struct lance_file_writer **out, struct lake_error *err);
lake_status lance_file_writer_write(struct lance_file_writer *writer,
                                    const struct ArrowArray *batch, struct lake_error *err);
uint64_t lance_file_writer_row_count(const struct lance_file_writer *writer);
/* Durable and visible under its key on LAKE_OK. Releases the writer in every case. */
lake_status lance_file_writer_finish(struct lance_file_writer *writer,
                                     struct lance_file_result *out, struct lake_error *err);
void lance_file_writer_abort(struct lance_file_writer *writer); /* NULL is allowed */
void lance_file_result_fini(struct lance_file_result *result);

#endif
