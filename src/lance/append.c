/*
 * Writing rows: data files of bounded length, then one publication (commit.c).
 */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_FILE_ROWS                                                          \
    (UINT64_C(1) << 20) /* as the reference writer: keeps fragments comparable \
                         */

struct lance_append {
    struct storage_store *store;
    struct lance_dataset *base;        /* NULL: the rows are a new dataset's */
    const struct lance_schema *schema; /* the base's, or the caller's */
    struct lance_file_options options;
    struct lance_file_writer *writer; /* of the last fragment; NULL: none is open */
    struct lance_new_fragment *fragments;
    size_t count;
    size_t capacity;
    bool keep_files; /* published, or perhaps published */
    bool committed;
};

/* ---- nulls where there may be none ---- */

/* Whether anything at or below the field forbids nulls. */
static bool has_required(const struct lance_field *field)
{
    if (!field->nullable) {
        return true;
    }
    for (size_t i = 0; i < field->child_count; i++) {
        if (has_required(&field->children[i])) {
            return true;
        }
    }
    return false;
}

static bool has_nulls(const struct ArrowArray *array, int64_t start, int64_t count)
{
    if (array->null_count == 0 || array->n_buffers == 0 || array->buffers[0] == NULL) {
        return false;
    }
    return ArrowBitCountSet(array->buffers[0], array->offset + start, count) != count;
}

static lake_status check_field(const struct lance_field *field, const struct ArrowArray *array,
                               int64_t start, int64_t count, struct lake_error *err);

/* The children of `count` values that are not null. */
static lake_status check_children(const struct lance_field *field, const struct ArrowArray *array,
                                  int64_t start, int64_t count, struct lake_error *err)
{
    int64_t first = array->offset + start;
    if (field->kind == LANCE_NODE_STRUCT) {
        for (size_t i = 0; i < field->child_count; i++) {
            lake_status status =
                check_field(&field->children[i], array->children[i], first, count, err);
            if (status != LAKE_OK) {
                return status;
            }
        }
        return LAKE_OK;
    }
    int64_t from;
    int64_t to;
    if (strcmp(field->arrow->format, "+L") == 0) {
        from = ((const int64_t *)array->buffers[1])[first];
        to = ((const int64_t *)array->buffers[1])[first + count];
    } else {
        from = ((const int32_t *)array->buffers[1])[first];
        to = ((const int32_t *)array->buffers[1])[first + count];
    }
    return check_field(&field->children[0], array->children[0], from, to - from, err);
}

/* What lies below a null is not looked at: it is not there. */
static lake_status check_field(const struct lance_field *field, const struct ArrowArray *array,
                               int64_t start, int64_t count, struct lake_error *err)
{
    bool is_null_type = strcmp(field->arrow->format, "n") == 0;
    if (count <= 0 || !has_required(field)) {
        return LAKE_OK;
    }
    bool nulls = is_null_type || has_nulls(array, start, count);
    if (nulls && !field->nullable) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column %s does not allow nulls, and a row has one", field->name);
    }
    if (field->kind == LANCE_NODE_LEAF || field->kind == LANCE_NODE_FSL_STRUCT) {
        return LAKE_OK;
    }
    if (!nulls) {
        return check_children(field, array, start, count, err);
    }
    const uint8_t *valid = array->buffers[0];
    lake_status status = LAKE_OK;
    for (int64_t i = 0; status == LAKE_OK && i < count; i++) {
        int64_t run = i;
        while (run < count && ArrowBitGet(valid, array->offset + start + run)) {
            run++;
        }
        if (run > i) {
            status = check_children(field, array, start + i, run - i, err);
            i = run;
        }
    }
    return status;
}

lake_status lance_check_nulls(const struct lance_schema *schema, const struct ArrowArray *batch,
                              struct lake_error *err)
{
    for (size_t i = 0; i < schema->field_count; i++) {
        lake_status status =
            check_field(&schema->fields[i], batch->children[i], batch->offset, batch->length, err);
        if (status != LAKE_OK) {
            return status;
        }
    }
    return LAKE_OK;
}

/* ---- data files ---- */

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

static lake_status append_alloc(struct storage_store *store, struct lance_dataset *base,
                                const struct lance_schema *schema, const char *storage_version,
                                enum lance_profile profile, struct lance_append **out,
                                struct lake_error *err)
{
    struct lance_append *append = base_calloc_array(1, sizeof(*append));
    if (append == NULL) {
        return base_fail_no_memory(err, sizeof(*append));
    }
    append->store = storage_store_ref(store);
    append->base = base == NULL ? NULL : lance_dataset_ref(base);
    append->schema = schema;
    append->options.minor = strcmp(storage_version, "2.1") == 0 ? 1 : 2;
    append->options.profile = profile;
    *out = append;
    return LAKE_OK;
}

/* A profile that is not known (a later release's, perhaps) is as good as none. */
static enum lance_profile profile_of(const struct lance_key_value *config, size_t count)
{
    enum lance_profile profile = LANCE_PROFILE_BALANCED;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(config[i].key, LANCE_CONFIG_PROFILE) == 0) {
            (void)lance_profile_parse(config[i].value, &profile);
        }
    }
    return profile;
}

lake_status lance_append_new(struct storage_store *store, struct lance_dataset *base,
                             struct lance_append **out, struct lake_error *err)
{
    lake_status status = lance_manifest_check_writable(base->manifest, err);
    if (status != LAKE_OK) {
        return status;
    }
    return append_alloc(store, base, &base->manifest->schema, base->manifest->storage_version,
                        profile_of(base->manifest->config, base->manifest->config_count), out, err);
}

static lake_status open_writer(struct lance_append *append, struct lake_error *err)
{
    if (append->count == append->capacity) {
        size_t capacity = append->capacity == 0 ? 4 : append->capacity * 2;
        struct lance_new_fragment *fragments =
            base_realloc_array(append->fragments, capacity, sizeof(*fragments));
        if (fragments == NULL) {
            return base_fail_no_memory(err, capacity * sizeof(*fragments));
        }
        append->fragments = fragments;
        append->capacity = capacity;
    }
    struct lance_new_fragment *fragment = &append->fragments[append->count];
    memset(fragment, 0, sizeof(*fragment));
    lake_status status = name_file(fragment->name, sizeof(fragment->name), err);
    if (status != LAKE_OK) {
        return status;
    }
    char key[96];
    (void)snprintf(key, sizeof(key), "data/%s", fragment->name);
    return lance_file_writer_new(append->store, base_str_of(key), append->schema, &append->options,
                                 &append->writer, err);
}

static lake_status close_writer(struct lance_append *append, struct lake_error *err)
{
    if (append->writer == NULL) {
        return LAKE_OK;
    }
    struct lance_file_writer *writer = append->writer;
    append->writer = NULL;
    lake_status status =
        lance_file_writer_finish(writer, &append->fragments[append->count].file, err);
    if (status == LAKE_OK) {
        append->count++;
    }
    return status;
}

lake_status lance_append_write(struct lance_append *append, const struct ArrowArray *batch,
                               struct lake_error *err)
{
    if (append->committed) {
        return lake_fail(err, LAKE_FAILED_PRECONDITION, "the append is already committed");
    }
    if (batch->n_children != (int64_t)append->schema->field_count) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a batch has %lld columns, the table has %zu",
                         (long long)batch->n_children, append->schema->field_count);
    }
    if (batch->length > INT32_MAX) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a batch has more than %d rows", INT32_MAX);
    }
    lake_status status = lance_check_nulls(append->schema, batch, err);
    if (status != LAKE_OK || batch->length == 0) {
        return status;
    }
    if (append->writer == NULL) {
        status = open_writer(append, err);
    }
    if (status == LAKE_OK) {
        status = lance_file_writer_write(append->writer, batch, err);
    }
    if (status == LAKE_OK && lance_file_writer_row_count(append->writer) >= MAX_FILE_ROWS) {
        status = close_writer(append, err);
    }
    return status;
}

/* ---- publication ---- */

static lake_status commit(struct lance_append *append, const struct lance_create_options *create,
                          const struct lance_commit_options *options, struct lance_manifest **out,
                          struct lake_error *err)
{
    if (append->committed) {
        return lake_fail(err, LAKE_FAILED_PRECONDITION, "the append is already committed");
    }
    lake_status status = close_writer(append, err);
    if (status == LAKE_OK) {
        status = BASE_FAULT("lance.append.after_data", err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    struct lance_publication publication = {
        .store = append->store,
        .base = append->base == NULL ? NULL : append->base->manifest,
        .schema = append->schema,
        .create = create,
        .fragments = append->fragments,
        .fragment_count = append->count,
        .options = options,
    };
    append->committed = true;
    return lance_publish(&publication, out, &append->keep_files, err);
}

lake_status lance_append_commit(struct lance_append *append,
                                const struct lance_commit_options *options, uint64_t *version,
                                struct lake_error *err)
{
    struct lance_commit_options defaults;
    struct lance_manifest *manifest = NULL;
    lance_commit_options_init(&defaults);
    lake_status status =
        commit(append, NULL, options == NULL ? &defaults : options, &manifest, err);
    if (status == LAKE_OK) {
        *version = manifest->pb->version;
        lance_dataset_cache_manifest(append->base, manifest); /* most likely asked for next */
        lance_manifest_unref(manifest);
    }
    return status;
}

void lance_append_free(struct lance_append *append)
{
    if (append == NULL) {
        return;
    }
    lance_file_writer_abort(append->writer);
    for (size_t i = 0; i < append->count; i++) {
        if (!append->keep_files) {
            char key[96];
            (void)snprintf(key, sizeof(key), "data/%s", append->fragments[i].name);
            (void)storage_remove(append->store, base_str_of(key), NULL);
        }
        lance_file_result_fini(&append->fragments[i].file);
    }
    base_free(append->fragments);
    lance_dataset_unref(append->base);
    storage_store_unref(append->store);
    base_free(append);
}

/* The options with the profile among the configuration. Free `config` of *out. */
static lake_status complete_options(const struct lance_create_options *given,
                                    struct lance_create_options *out, struct lake_error *err)
{
    if (given != NULL) {
        *out = *given;
    } else {
        lance_create_options_init(out);
    }
    struct lance_key_value *config = base_calloc_array(out->config_count + 1, sizeof(*config));
    if (config == NULL) {
        return base_fail_no_memory(err, (out->config_count + 1) * sizeof(*config));
    }
    if (out->config_count > 0) {
        memcpy(config, out->config, out->config_count * sizeof(*config));
    }
    if (out->profile == LANCE_PROFILE_BALANCED) {
        out->profile = profile_of(config, out->config_count);
    } else {
        config[out->config_count++] =
            (struct lance_key_value){LANCE_CONFIG_PROFILE, lance_profile_name(out->profile)};
    }
    out->config = config;
    return LAKE_OK;
}

static lake_status check_create(const struct lance_create_options *options, struct lake_error *err)
{
    const char *version = options->storage_version;
    if (version == NULL || (strcmp(version, "2.1") != 0 && strcmp(version, "2.2") != 0)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the storage version is '%.20s'; 2.1 and 2.2 can be written",
                         version == NULL ? "" : version);
    }
    return LAKE_OK;
}

lake_status lance_dataset_create(struct storage_store *store, const struct ArrowSchema *schema,
                                 const struct lance_create_options *options,
                                 struct lance_dataset **out, struct lake_error *err)
{
    struct lance_create_options all = {.config = NULL};
    struct lance_schema tree = {0};
    struct lance_append *append = NULL;
    struct lance_manifest *manifest = NULL;
    lake_status status = complete_options(options, &all, err);
    if (status != LAKE_OK) {
        return status;
    }
    status = check_create(&all, err);
    if (status == LAKE_OK) {
        status = lance_schema_from_arrow(schema, all.storage_version, &tree, err);
    }
    if (status == LAKE_OK) {
        status = append_alloc(store, NULL, &tree, all.storage_version, all.profile, &append, err);
    }
    if (status == LAKE_OK) {
        status = commit(append, &all, &all.commit, &manifest, err);
    }
    if (status == LAKE_OK) {
        status = lance_dataset_of_manifest(&(struct lance_opening){.store = store, .root = store},
                                           manifest, out, err);
    }
    lance_append_free(append);
    lance_schema_fini(&tree);
    base_free((void *)(uintptr_t)all.config);
    return status;
}

/* ---- whole streams ---- */

/* The first field, in pre-order, that differs; false when none does. Names count. */
static bool find_difference(const struct lance_field **a, const struct lance_field **b)
{
    const struct lance_field *left = *a;
    const struct lance_field *right = *b;
    if (strcmp(left->name, right->name) != 0 || left->child_count != right->child_count ||
        strcmp(left->logical_type, right->logical_type) != 0) {
        return true;
    }
    for (size_t i = 0; i < left->child_count; i++) {
        *a = &left->children[i];
        *b = &right->children[i];
        if (find_difference(a, b)) {
            return true;
        }
    }
    return false;
}

static lake_status check_same_schema(const struct lance_schema *table,
                                     const struct lance_schema *input, struct lake_error *err)
{
    if (table->field_count != input->field_count) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the input has %zu columns, the table has %zu",
                         input->field_count, table->field_count);
    }
    for (size_t i = 0; i < table->field_count; i++) {
        const struct lance_field *expected = &table->fields[i];
        const struct lance_field *found = &input->fields[i];
        if (find_difference(&expected, &found)) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "column %zu of the table, %s, expects %s (%s), the input has %s (%s)",
                             i, table->fields[i].name, expected->name, expected->logical_type,
                             found->name, found->logical_type);
        }
    }
    return LAKE_OK;
}

static lake_status write_batches(struct lance_append *append, struct ArrowArrayStream *stream,
                                 struct lake_error *err)
{
    lake_status status = LAKE_OK;
    while (status == LAKE_OK) {
        struct ArrowArray batch = {.release = NULL};
        if (stream->get_next(stream, &batch) != 0) {
            const char *why = stream->get_last_error(stream);
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "the input cannot be read: %.300s",
                             why == NULL ? "no reason given" : why);
        }
        if (batch.release == NULL) {
            break;
        }
        status = lance_append_write(append, &batch, err);
        batch.release(&batch);
    }
    return status;
}

static lake_status open_for_append(struct storage_store *store, const struct lance_schema *input,
                                   struct lance_dataset **base, struct lance_append **out,
                                   struct lake_error *err)
{
    lake_status status = lance_dataset_open(store, NULL, NULL, 0, base, err);
    if (status == LAKE_OK) {
        status = check_same_schema(&(*base)->manifest->schema, input, err);
    }
    return status == LAKE_OK ? lance_append_new(store, *base, out, err) : status;
}

lake_status lance_write_stream(struct storage_store *store, struct ArrowArrayStream *stream,
                               const struct lance_create_options *options, bool append,
                               uint64_t *version, struct lake_error *err)
{
    struct lance_create_options all = {.config = NULL};
    struct ArrowSchema schema = {.release = NULL};
    struct lance_schema tree = {0};
    struct lance_dataset *base = NULL;
    struct lance_append *rows = NULL;
    struct lance_manifest *manifest = NULL;
    lake_status status = complete_options(options, &all, err);
    if (status != LAKE_OK) {
        return status;
    }
    status = check_create(&all, err);
    if (status == LAKE_OK && stream->get_schema(stream, &schema) != 0) {
        const char *why = stream->get_last_error(stream);
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "the input has no schema: %.300s",
                           why == NULL ? "no reason given" : why);
    }
    if (status == LAKE_OK) {
        status = lance_schema_from_arrow(&schema, all.storage_version, &tree, err);
    }
    if (status == LAKE_OK && !append) {
        status = append_alloc(store, NULL, &tree, all.storage_version, all.profile, &rows, err);
    } else if (status == LAKE_OK) {
        status = open_for_append(store, &tree, &base, &rows, err);
    }
    if (status == LAKE_OK) {
        status = write_batches(rows, stream, err);
    }
    if (status == LAKE_OK) {
        status = commit(rows, &all, &all.commit, &manifest, err);
    }
    if (status == LAKE_OK) {
        *version = manifest->pb->version;
        lance_manifest_unref(manifest);
    }
    lance_append_free(rows);
    lance_dataset_unref(base);
    lance_schema_fini(&tree);
    base_free((void *)(uintptr_t)all.config);
    if (schema.release != NULL) {
        schema.release(&schema);
    }
    return status;
}
