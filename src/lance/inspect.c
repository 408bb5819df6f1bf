/* What a version consists of, as JSON: manifest, indices, fragments, files, columns, pages. */
#include "file_read.h"
#include "index.h"
#include "page_layout.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_TEXT_BYTES 512
#define PAGE_ARENA     ((size_t)16 << 20)

struct report {
    struct lance_dataset *dataset;
    const char *only_file; /* whose pages are listed one by one; NULL: none */
    struct base_buffer *out;
    struct lake_error *err;
    lake_status status; /* of the first failure; then nothing more is appended */
    bool file_found;
};

/* ---- JSON ---- */

static void put(struct report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(struct report *report, const char *format, ...)
{
    char text[MAX_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (report->status == LAKE_OK && size > 0)
        report->status = base_buffer_append(report->out, text,
                                            BASE_MIN((size_t)size, sizeof(text) - 1), report->err);
}

static void put_string(struct report *report, struct lake_str text)
{
    if (report->status == LAKE_OK)
        report->status = base_json_append_string(report->out, text, report->err);
}

/* ,"key":"text" */
static void put_pair(struct report *report, const char *key, struct lake_str text)
{
    put(report, ",\"%s\":", key);
    put_string(report, text);
}

/* ---- encodings as text: what is done last first ---- */

static void add(char text[MAX_TEXT_BYTES], const char *more)
{
    size_t used = strlen(text);
    (void)snprintf(text + used, MAX_TEXT_BYTES - used, "%s%s", used == 0 ? "" : " of ", more);
}

static void describe(const struct lance_encoding *encoding, char text[MAX_TEXT_BYTES])
{
    char name[64];
    for (; encoding != NULL; encoding = encoding->values) {
        if (encoding->kind == LANCE_ENCODING_GENERAL)
            (void)snprintf(name, sizeof(name), "%s",
                           encoding->scheme == LANCE_LZ4 ? "lz4" : "zstd");
        else if (encoding->bits > 0 && encoding->kind != LANCE_ENCODING_VARIABLE)
            (void)snprintf(name, sizeof(name), "%s %" PRIu64, lance_encoding_name(encoding->kind),
                           encoding->bits);
        else
            (void)snprintf(name, sizeof(name), "%s", lance_encoding_name(encoding->kind));
        add(text, name);
    }
}

static lake_status page_encoding(const struct lance_file *file, const struct lance_file_page *page,
                                 char text[MAX_TEXT_BYTES], struct lake_error *err)
{
    static const char *const kinds[] = {"", "mini-block", "constant", "full-zip", "blob"};
    struct base_arena *arena = NULL;
    struct lance_page_layout layout;
    text[0] = '\0';
    if (file->minor == 0) {
        (void)snprintf(text, MAX_TEXT_BYTES, "array encoding of storage 2.0");
        return LAKE_OK;
    }
    lake_status status = base_arena_new(PAGE_ARENA, &arena, err);
    if (status == LAKE_OK)
        status = lance_page_layout_parse(page->layout, arena, &layout, err);
    if (status == LAKE_OK) {
        (void)snprintf(text, MAX_TEXT_BYTES, "%s", kinds[layout.kind]);
        if (layout.dictionary != NULL)
            add(text, "dictionary indices");
        describe(layout.values, text);
    }
    base_arena_free(arena);
    return status;
}

/* ---- columns ---- */

/* The dotted name of the field with this id; empty when the schema has none. */
static bool find_name(const struct lance_field *fields, size_t count, int32_t id,
                      char out[MAX_TEXT_BYTES])
{
    size_t used = strlen(out);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(out + used, MAX_TEXT_BYTES - used, "%s%s", used == 0 ? "" : ".",
                       fields[i].name);
        if (fields[i].id == id || find_name(fields[i].children, fields[i].child_count, id, out))
            return true;
        out[used] = '\0';
    }
    return false;
}

static uint64_t page_bytes(const struct lance_file_page *page)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < page->buffer_count; i++)
        bytes += page->sizes[i];
    return bytes;
}

static void put_page(struct report *report, const struct lance_file *file,
                     const struct lance_file_page *page, bool first)
{
    char text[MAX_TEXT_BYTES];
    if (report->status == LAKE_OK)
        report->status = page_encoding(file, page, text, report->err);
    put(report, "%s{\"first_row\":%" PRIu64 ",\"rows\":%" PRIu64 ",\"bytes\":%" PRIu64,
        first ? "" : ",", page->first_row, page->row_count, page_bytes(page));
    put_pair(report, "encoding", base_str_of(text));
    put(report, "}");
}

/* The distinct encodings of the column's pages, with how many have each, in order of appearance.
 */
static void put_encodings(struct report *report, const struct lance_file *file,
                          const struct lance_file_column *column)
{
    static const size_t most = 8;
    char texts[8][MAX_TEXT_BYTES];
    size_t counts[8] = {0};
    size_t found = 0;
    for (size_t i = 0; i < column->page_count && report->status == LAKE_OK; i++) {
        char text[MAX_TEXT_BYTES];
        size_t at = 0;
        report->status = page_encoding(file, &column->pages[i], text, report->err);
        while (at < found && strcmp(texts[at], text) != 0)
            at++;
        if (at == found && found < most)
            memcpy(texts[found++], text, sizeof(text));
        if (at < most)
            counts[at]++;
    }
    put(report, ",\"encodings\":[");
    for (size_t i = 0; i < found; i++) {
        put(report, "%s{\"pages\":%zu", i == 0 ? "" : ",", counts[i]);
        put_pair(report, "encoding", base_str_of(texts[i]));
        put(report, "}");
    }
    put(report, "]");
}

static void put_column(struct report *report, const struct lance_file *file, int32_t field_id,
                       uint32_t index, bool pages)
{
    const struct lance_schema *schema = &report->dataset->manifest->schema;
    const struct lance_file_column *column = &file->columns[index];
    char name[MAX_TEXT_BYTES] = "";
    (void)find_name(schema->fields, schema->field_count, field_id, name);
    put(report, "{\"field\":%" PRId32, field_id);
    put_pair(report, "name", base_str_of(name));
    put(report, ",\"rows\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"pages\":%zu", column->row_count,
        column->encoded_bytes, column->page_count);
    put(report, ",\"statistics_bytes\":%zu", column->statistics_bytes);
    put_encodings(report, file, column);
    if (pages) {
        put(report, ",\"page_list\":[");
        for (size_t i = 0; i < column->page_count && report->status == LAKE_OK; i++)
            put_page(report, file, &column->pages[i], i == 0);
        put(report, "]");
    }
    put(report, "}");
}

/* ---- indices ---- */

/* How much of the version an index covers: its bitmap may name fragments that are gone. */
static void put_coverage(struct report *report, const LancePb__IndexMetadata *index)
{
    const LancePb__Manifest *pb = report->dataset->manifest->pb;
    uint64_t *words = NULL, max_id = pb->max_fragment_id, rows = 0;
    size_t fragments = 0;
    if (!index->has_fragment_bitmap)
        return;
    for (size_t i = 0; i < pb->n_fragments; i++)
        max_id = BASE_MAX(max_id, pb->fragments[i]->id);
    if (report->status == LAKE_OK)
        report->status = lance_fragment_bitmap_decode(index, max_id, &words, report->err);
    for (size_t i = 0; i < pb->n_fragments && report->status == LAKE_OK; i++) {
        uint64_t id = pb->fragments[i]->id;
        if ((words[id / 64] >> (id % 64) & 1) != 0) {
            fragments++;
            rows += report->dataset->fragment_rows[i];
        }
    }
    put(report, ",\"fragments\":%zu,\"rows\":%" PRIu64, fragments, rows);
    base_free(words);
}

static void put_index(struct report *report, const LancePb__IndexMetadata *index, bool first)
{
    const struct lance_schema *schema = &report->dataset->manifest->schema;
    char key[LANCE_INDEX_KEY_BYTES];
    uint64_t bytes = 0;
    if (report->status == LAKE_OK)
        report->status = lance_index_key(index, key, report->err);
    if (report->status != LAKE_OK)
        return;
    put(report, "%s{\"version\":%" PRId32 ",\"made_of\":%" PRIu64, first ? "" : ",",
        index->index_version, index->dataset_version);
    put_pair(report, "name", lance_pb_str(index->name));
    put_pair(report, "kind", lance_index_kind_name(index));
    put_pair(report, "path", base_str_of(key));
    for (size_t i = 0; i < index->n_files; i++)
        bytes += index->files[i]->size_bytes;
    put(report, ",\"bytes\":%" PRIu64 ",\"columns\":[", bytes);
    for (size_t i = 0; i < index->n_fields; i++) {
        char name[MAX_TEXT_BYTES] = "";
        (void)find_name(schema->fields, schema->field_count, index->fields[i], name);
        put(report, i == 0 ? "" : ",");
        put_string(report, base_str_of(name));
    }
    put(report, "]");
    put_coverage(report, index);
    put(report, "}");
}

static void put_indices(struct report *report)
{
    struct lake_bytes bytes = report->dataset->manifest->index_section;
    LancePb__IndexSection *section = NULL;
    struct base_arena *arena = NULL;
    if (report->status == LAKE_OK)
        report->status = base_arena_new(LANCE_MAX_MANIFEST_BYTES, &arena, report->err);
    if (report->status == LAKE_OK)
        report->status = lance_index_section_parse(bytes, arena, &section, report->err);
    put(report, "],\"indices\":[");
    for (size_t i = 0; section != NULL && i < section->n_indices; i++)
        put_index(report, section->indices[i], i == 0);
    base_arena_free(arena);
}

/* ---- files, fragments, the manifest ---- */

static void put_file(struct report *report, const LancePb__DataFile *file, bool first)
{
    struct lance_file *opened = NULL;
    struct lake_str path = lance_pb_str(file->path);
    if (report->status == LAKE_OK)
        report->status = lance_dataset_open_file(report->dataset, file, &opened, report->err);
    if (report->status != LAKE_OK)
        return;
    bool pages = report->only_file != NULL && base_str_equal_c(path, report->only_file);
    report->file_found = report->file_found || pages;
    put(report, "%s{\"rows\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"storage\":\"%u.%u\"",
        first ? "" : ",", opened->row_count, opened->size_bytes, opened->major, opened->minor);
    put_pair(report, "path", path);
    put(report, ",\"columns\":[");
    bool begun = false;
    for (size_t i = 0; i < file->n_column_indices && i < file->n_fields; i++) {
        int32_t index = file->column_indices[i];
        if (index < 0 || (uint32_t)index >= opened->column_count)
            continue;
        put(report, begun ? "," : "");
        put_column(report, opened, file->fields[i], (uint32_t)index, pages);
        begun = true;
    }
    put(report, "]}");
    lance_file_unref(opened);
}

static void put_fragment(struct report *report, size_t index)
{
    const LancePb__DataFragment *fragment = report->dataset->manifest->pb->fragments[index];
    uint64_t deleted = 0;
    if (report->status == LAKE_OK)
        report->status = lance_dataset_deleted_rows(report->dataset, index, &deleted, report->err);
    put(report, "%s{\"id\":%" PRIu64 ",\"rows\":%" PRIu64 ",\"deleted\":%" PRIu64 ",\"files\":[",
        index == 0 ? "" : ",", fragment->id, report->dataset->fragment_rows[index], deleted);
    for (size_t i = 0; i < fragment->n_files && report->status == LAKE_OK; i++)
        put_file(report, fragment->files[i], i == 0);
    put(report, "]}");
}

static void put_manifest(struct report *report)
{
    const struct lance_manifest *manifest = report->dataset->manifest;
    const LancePb__Manifest *pb = manifest->pb;
    put(report,
        "{\"version\":%" PRIu64 ",\"timestamp_unix_ms\":%" PRId64 ",\"storage\":\"%s\""
        ",\"naming\":\"%s\"",
        pb->version, lance_dataset_timestamp_unix_ms(report->dataset), manifest->storage_version,
        manifest->naming == LANCE_NAMING_V2 ? "V2" : "V1");
    put(report, ",\"rows\":%" PRIu64 ",\"reader_flags\":%" PRIu64 ",\"writer_flags\":%" PRIu64,
        report->dataset->row_count, pb->reader_feature_flags, pb->writer_feature_flags);
    put(report, ",\"config\":{");
    for (size_t i = 0; i < manifest->config_count; i++) {
        put(report, i == 0 ? "" : ",");
        put_string(report, base_str_of(manifest->config[i].key));
        put(report, ":");
        put_string(report, base_str_of(manifest->config[i].value));
    }
    put(report, "},\"fragments\":[");
}

lake_status lance_inspect(struct lance_dataset *dataset, const char *file, struct base_buffer *out,
                          struct lake_error *err)
{
    struct report report = {.dataset = dataset, .only_file = file, .out = out, .err = err};
    put_manifest(&report);
    for (size_t i = 0; i < lance_dataset_fragment_count(dataset) && report.status == LAKE_OK; i++)
        put_fragment(&report, i);
    put_indices(&report);
    put(&report, "]}");
    if (report.status == LAKE_OK && file != NULL && !report.file_found)
        return lake_fail(err, LAKE_NOT_FOUND, "version %" PRIu64 " has no data file %s",
                         lance_dataset_version(dataset), file);
    return report.status;
}
