/*
 * Rows into new data files of bounded length, each one fragment.
 */
#include "table.h"

#include <stdio.h>
#include <string.h>

/* As the reference writer: keeps fragments comparable. */
#define MAX_FILE_ROWS (UINT64_C(1) << 20)
#define KEY_BYTES     96

void lance_data_files_init(struct lance_data_files *files, struct storage_store *store,
                           const struct lance_schema *schema, const char *storage_version,
                           enum lance_profile profile)
{
    *files = (struct lance_data_files){.store = store,
                                       .schema = schema,
                                       .options.minor = strcmp(storage_version, "2.1") == 0 ? 1 : 2,
                                       .options.profile = profile,
                                       .max_file_rows = MAX_FILE_ROWS};
}

enum lance_profile lance_profile_of(const struct lance_key_value *config, size_t count,
                                    const struct lance_schema *schema)
{
    enum lance_profile profile = LANCE_PROFILE_BALANCED;
    for (size_t i = 0; schema != NULL && i < schema->metadata_count; i++) {
        if (strcmp(schema->metadata[i].key, LANCE_CONFIG_PROFILE) == 0) {
            (void)lance_profile_parse(schema->metadata[i].value, &profile);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(config[i].key, LANCE_CONFIG_PROFILE) == 0) {
            (void)lance_profile_parse(config[i].value, &profile);
        }
    }
    return profile;
}

/* As the reference writer names them: random, 24 binary digits and 26 hexadecimal ones. */
static lake_status name_file(char *out, size_t out_bytes, struct lake_error *err)
{
    struct base_uuid uuid;
    char bits[25];
    char digits[27];
    lake_status status = base_uuid4_new(&uuid, err);
    if (status != LAKE_OK) {
        return status;
    }
    for (size_t i = 0; i < 24; i++) {
        bits[i] = (uuid.bytes[i / 8] >> (7 - i % 8) & 1) != 0 ? '1' : '0';
    }
    bits[24] = '\0';
    base_hex_encode((struct lake_bytes){uuid.bytes + 3, 13}, digits);
    (void)snprintf(out, out_bytes, "%s%s.lance", bits, digits);
    return LAKE_OK;
}

static void key_of(const struct lance_new_fragment *fragment, char key[KEY_BYTES])
{
    (void)snprintf(key, KEY_BYTES, "data/%s", fragment->name);
}

static lake_status open_writer(struct lance_data_files *files, struct lake_error *err)
{
    if (files->count == files->capacity) {
        size_t capacity = files->capacity == 0 ? 4 : files->capacity * 2;
        struct lance_new_fragment *fragments =
            base_realloc_array(files->fragments, capacity, sizeof(*fragments));
        if (fragments == NULL) {
            return base_fail_no_memory(err, capacity * sizeof(*fragments));
        }
        files->fragments = fragments;
        files->capacity = capacity;
    }
    struct lance_new_fragment *fragment = &files->fragments[files->count];
    memset(fragment, 0, sizeof(*fragment));
    lake_status status = name_file(fragment->name, sizeof(fragment->name), err);
    if (status != LAKE_OK) {
        return status;
    }
    char key[KEY_BYTES];
    key_of(fragment, key);
    return lance_file_writer_new(files->store, base_str_of(key), files->schema, &files->options,
                                 &files->writer, err);
}

lake_status lance_data_files_finish(struct lance_data_files *files, struct lake_error *err)
{
    if (files->writer == NULL) {
        return LAKE_OK;
    }
    struct lance_file_writer *writer = files->writer;
    files->writer = NULL;
    lake_status status =
        lance_file_writer_finish(writer, &files->fragments[files->count].file, err);
    if (status == LAKE_OK) {
        files->count++;
    }
    return status;
}

lake_status lance_data_files_write(struct lance_data_files *files, const struct ArrowArray *batch,
                                   struct lake_error *err)
{
    if (batch->n_children != (int64_t)files->schema->field_count) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a batch has %lld columns, the table has %zu",
                         (long long)batch->n_children, files->schema->field_count);
    }
    if (batch->length > INT32_MAX) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a batch has more than %d rows", INT32_MAX);
    }
    lake_status status = lance_check_nulls(files->schema, batch, err);
    if (status != LAKE_OK || batch->length == 0) {
        return status;
    }
    if (files->writer == NULL) {
        status = open_writer(files, err);
    }
    if (status == LAKE_OK) {
        status = lance_file_writer_write(files->writer, batch, err);
    }
    if (status == LAKE_OK && lance_file_writer_row_count(files->writer) >= files->max_file_rows) {
        status = lance_data_files_finish(files, err);
    }
    return status;
}

static LancePb__DataFile *data_file_of(struct base_arena *arena,
                                       const struct lance_new_fragment *fragment, uint32_t minor)
{
    LancePb__DataFile *file = base_arena_alloc(arena, sizeof(*file));
    if (file == NULL) {
        return NULL;
    }
    lance_pb__data_file__init(file);
    file->has_path = true;
    file->path = lance_pb_text(fragment->name);
    file->n_fields = fragment->file.column_count;
    file->fields = fragment->file.field_ids;
    file->n_column_indices = fragment->file.column_count;
    file->column_indices = fragment->file.column_indices;
    file->has_file_major_version = true;
    file->file_major_version = 2;
    file->has_file_minor_version = true;
    file->file_minor_version = minor;
    file->has_file_size_bytes = true;
    file->file_size_bytes = fragment->file.size_bytes;
    return file;
}

lake_status lance_data_files_messages(const struct lance_data_files *files, size_t first,
                                      struct base_arena *arena, LancePb__DataFragment ***out,
                                      struct lake_error *err)
{
    size_t count = files->count - first;
    LancePb__DataFragment **list = base_arena_calloc_array(arena, count + 1, sizeof(*list));
    if (list == NULL) {
        return base_fail_no_memory(err, (count + 1) * sizeof(*list));
    }
    for (size_t i = 0; i < count; i++) {
        const struct lance_new_fragment *new = &files->fragments[first + i];
        LancePb__DataFragment *fragment = base_arena_alloc(arena, sizeof(*fragment));
        LancePb__DataFile **list_of_one =
            base_arena_calloc_array(arena, 1, sizeof(LancePb__DataFile *));
        if (fragment == NULL || list_of_one == NULL) {
            return base_fail_no_memory(err, sizeof(*fragment));
        }
        lance_pb__data_fragment__init(fragment);
        list_of_one[0] = data_file_of(arena, new, files->options.minor);
        if (list_of_one[0] == NULL) {
            return base_fail_no_memory(err, sizeof(LancePb__DataFile));
        }
        fragment->n_files = 1;
        fragment->files = list_of_one;
        fragment->has_physical_rows = true;
        fragment->physical_rows = new->file.row_count;
        list[i] = fragment;
    }
    *out = list;
    return LAKE_OK;
}

void lance_data_files_fini(struct lance_data_files *files, bool keep)
{
    lance_file_writer_abort(files->writer);
    for (size_t i = 0; i < files->count; i++) {
        if (!keep) {
            char key[KEY_BYTES];
            key_of(&files->fragments[i], key);
            (void)storage_remove(files->store, base_str_of(key), NULL);
        }
        lance_file_result_fini(&files->fragments[i].file);
    }
    base_free(files->fragments);
}
