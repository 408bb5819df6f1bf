/*
 * Appends, creation and whole streams: rows into data files (data_files.c), then one publication
 * (commit.c).
 */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct lance_append {
    struct lance_dataset *base; /* NULL: the rows are a new dataset's */
    struct storage_store *store;
    bool overwrite; /* the rows replace those of base */
    const char *storage_version;
    struct lance_data_files files;
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

/* ---- rows ---- */

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
    append->storage_version = storage_version;
    lance_data_files_init(&append->files, append->store, schema, storage_version, profile);
    *out = append;
    return LAKE_OK;
}

lake_status lance_append_new(struct storage_store *store, struct lance_dataset *base,
                             struct lance_append **out, struct lake_error *err)
{
    const struct lance_manifest *manifest = base->manifest;
    lake_status status = lance_manifest_check_writable(manifest, err);
    if (status != LAKE_OK) {
        return status;
    }
    return append_alloc(
        store, base, &manifest->schema, manifest->storage_version,
        lance_profile_of(manifest->config, manifest->config_count, &manifest->schema), out, err);
}

lake_status lance_append_write(struct lance_append *append, const struct ArrowArray *batch,
                               struct lake_error *err)
{
    if (append->committed) {
        return lake_fail(err, LAKE_FAILED_PRECONDITION, "the append is already committed");
    }
    return lance_data_files_write(&append->files, batch, err);
}

/* ---- publication ---- */

static lake_status make_overwrite(struct lance_append *append, struct base_arena *arena,
                                  const struct lance_create_options *create,
                                  LancePb__OverwriteOperation *out, struct lake_error *err)
{
    const struct lance_schema *schema = append->files.schema;
    lance_pb__overwrite_operation__init(out);
    lake_status status = lance_schema_to_fields(schema, arena, &out->schema, &out->n_schema, err);
    if (status == LAKE_OK) {
        status = lance_schema_metadata_to_entries(schema, arena, &out->schema_metadata,
                                                  &out->n_schema_metadata, err);
    }
    if (status == LAKE_OK) {
        out->n_config_upsert_values = create->config_count;
        status = lance_entries_of(arena, create->config, create->config_count,
                                  &out->config_upsert_values, err);
    }
    return status;
}

static lake_status publish(struct lance_append *append, struct base_arena *arena,
                           const struct lance_create_options *create,
                           const struct lance_commit_options *options, struct lance_manifest **out,
                           struct lake_error *err)
{
    LancePb__Transaction transaction;
    LancePb__AppendOperation added;
    LancePb__OverwriteOperation overwrite;
    LancePb__DataFragment **fragments;
    bool replaces = append->base == NULL || append->overwrite;
    struct lance_publication publication = {
        .store = append->store,
        .base = append->base == NULL ? NULL : append->base->manifest,
        .transaction = &transaction,
        .storage_version = replaces ? append->storage_version : NULL,
        .options = options,
    };
    lance_pb__transaction__init(&transaction);
    lance_pb__append_operation__init(&added);
    lake_status status = lance_data_files_messages(&append->files, 0, arena, &fragments, err);
    if (status == LAKE_OK && replaces) {
        status = make_overwrite(append, arena, create, &overwrite, err);
        overwrite.n_fragments = append->files.count;
        overwrite.fragments = fragments;
        transaction.overwrite = &overwrite;
    } else if (status == LAKE_OK) {
        added.n_fragments = append->files.count;
        added.fragments = fragments;
        transaction.append = &added;
    }
    append->committed = true;
    return status == LAKE_OK ? lance_publish(&publication, out, &append->keep_files, err) : status;
}

static lake_status commit(struct lance_append *append, const struct lance_create_options *create,
                          const struct lance_commit_options *options, struct lance_manifest **out,
                          struct lake_error *err)
{
    struct base_arena *arena = NULL;
    if (append->committed) {
        return lake_fail(err, LAKE_FAILED_PRECONDITION, "the append is already committed");
    }
    lake_status status = lance_data_files_finish(&append->files, err);
    if (status == LAKE_OK) {
        status = BASE_FAULT("lance.append.after_data", err);
    }
    if (status == LAKE_OK) {
        status = base_arena_new(LANCE_MAX_MANIFEST_BYTES, &arena, err);
    }
    if (status == LAKE_OK) {
        status = publish(append, arena, create, options, out, err);
    }
    base_arena_free(arena);
    return status;
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
    lance_data_files_fini(&append->files, append->keep_files);
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
    if (out->storage_version == NULL) {
        out->storage_version = "2.2";
    }
    struct lance_key_value *config = base_calloc_array(out->config_count + 1, sizeof(*config));
    if (config == NULL) {
        return base_fail_no_memory(err, (out->config_count + 1) * sizeof(*config));
    }
    if (out->config_count > 0) {
        memcpy(config, out->config, out->config_count * sizeof(*config));
    }
    if (out->profile == LANCE_PROFILE_BALANCED) {
        out->profile = lance_profile_of(config, out->config_count, NULL);
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

/* Where field ids never restart, new columns begin above the highest that was ever given. */
static void shift_ids(struct lance_field *fields, size_t count, int32_t by)
{
    for (size_t i = 0; i < count; i++) {
        fields[i].id += by;
        fields[i].parent_id += fields[i].parent_id >= 0 ? by : 0;
        shift_ids(fields[i].children, fields[i].child_count, by);
    }
}

lake_status lance_shift_field_ids(struct lance_schema *schema, const LancePb__Manifest *above,
                                  struct lake_error *err)
{
    int32_t highest = lance_max_field_id(above);
    if (highest >= INT32_MAX - 1 - BASE_MAX(schema->max_field_id, 0)) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "the table has used up its field ids");
    }
    shift_ids(schema->fields, schema->field_count, highest + 1);
    schema->max_field_id += highest + 1;
    return LAKE_OK;
}

/* The newest version, or NULL when there is no dataset yet. */
static lake_status open_if_there(struct storage_store *store, struct lance_dataset **out,
                                 struct lake_error *err)
{
    lake_status status = lance_dataset_open(store, NULL, NULL, 0, out, err);
    return status == LAKE_NOT_FOUND ? LAKE_OK : status;
}

/* `base` is NULL when there is nothing to write over. */
static lake_status start_overwrite(struct storage_store *store, struct lance_dataset *base,
                                   struct lance_schema *schema,
                                   const struct lance_create_options *options,
                                   struct lance_append **out, struct lake_error *err)
{
    enum lance_profile profile = options->profile;
    lake_status status = LAKE_OK;
    if (base != NULL) {
        const struct lance_manifest *manifest = base->manifest;
        status = lance_manifest_check_changeable(manifest, err);
        if (status == LAKE_OK &&
            (manifest->pb->writer_feature_flags & LANCE_FLAG_UNIQUE_FIELD_IDS) != 0) {
            status = lance_shift_field_ids(schema, manifest->pb, err);
        }
        if (profile == LANCE_PROFILE_BALANCED) {
            profile = lance_profile_of(manifest->config, manifest->config_count, &manifest->schema);
        }
    }
    if (status == LAKE_OK) {
        status = append_alloc(store, base, schema, options->storage_version, profile, out, err);
    }
    if (status == LAKE_OK) {
        (*out)->overwrite = true;
    }
    return status;
}

static lake_status start_append(struct storage_store *store, const struct lance_schema *input,
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
                               const struct lance_create_options *options,
                               enum lance_write_mode mode, uint64_t *version,
                               struct lake_error *err)
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
    if (mode == LANCE_WRITE_OVERWRITE) {
        status = open_if_there(store, &base, err);
    }
    if (base != NULL && (options == NULL || options->storage_version == NULL)) {
        all.storage_version = base->manifest->storage_version;
    }
    if (status == LAKE_OK) {
        status = check_create(&all, err);
    }
    if (status == LAKE_OK && stream->get_schema(stream, &schema) != 0) {
        const char *why = stream->get_last_error(stream);
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "the input has no schema: %.300s",
                           why == NULL ? "no reason given" : why);
    }
    if (status == LAKE_OK) {
        status = lance_schema_from_arrow(&schema, all.storage_version, &tree, err);
    }
    if (status == LAKE_OK && mode == LANCE_WRITE_CREATE) {
        if (all.profile == LANCE_PROFILE_BALANCED) {
            all.profile = lance_profile_of(all.config, all.config_count, &tree);
        }
        status = append_alloc(store, NULL, &tree, all.storage_version, all.profile, &rows, err);
    } else if (status == LAKE_OK && mode == LANCE_WRITE_OVERWRITE) {
        status = start_overwrite(store, base, &tree, &all, &rows, err);
    } else if (status == LAKE_OK) {
        status = start_append(store, &tree, &base, &rows, err);
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
