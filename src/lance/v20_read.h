/*
 * Storage 2.0: one top-level field from its columns, one for each node of its tree.
 */
#ifndef LANCE_V20_READ_H
#define LANCE_V20_READ_H

#include "file.h"

struct lance_v20_reader;
/* As lance_field_reader_new, for sources that all lie in files of storage 2.0. */
lake_status lance_v20_reader_new(const struct lance_field *field,
                                 const struct lance_column_source *sources, bool blob_descriptions,
                                 struct lance_read_counters *counters,
                                 struct lance_v20_reader **out, struct lake_error *err);
void lance_v20_reader_free(struct lance_v20_reader *reader); /* NULL is allowed */
lake_status lance_v20_reader_read(struct lance_v20_reader *reader, uint64_t start, uint64_t count,
                                  struct ArrowArray *out, struct lake_error *err);
uint64_t lance_v20_reader_bytes_per_row(const struct lance_v20_reader *reader);

#endif
