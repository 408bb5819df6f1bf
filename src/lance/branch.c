/*
 * Branches made: a manifest below tree/<name> that refers to the parent's files by a base path,
 * then the small file below _refs that makes it a branch. Without that file there is none, so what
 * a killed creation left is written over by the next.
 */
#include "index.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REF_BYTES 65536
#define MAX_BYTES     ((size_t)300 << 20)

struct creation {
    struct storage_store *root;
    const char *branch;
    const char *parent; /* NULL: main */
    struct lance_dataset *from;
    struct storage_store *store; /* of the branch */
    struct base_arena *arena;
    char uuid[BASE_UUID_TEXT_BYTES];
    uint32_t base_id;
    const char *parent_path;
};

/* ---- the manifest ---- */

static lake_status no_memory(struct lake_error *err)
{
    return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "out of memory while a branch is made");
}

static lake_status inherit_fragment(struct creation *creation, const LancePb__DataFragment *from,
                                    LancePb__DataFragment **out, struct lake_error *err)
{
    LancePb__DataFragment *fragment = base_arena_alloc(creation->arena, sizeof(*fragment));
    LancePb__DataFile *files =
        base_arena_calloc_array(creation->arena, from->n_files + 1, sizeof(*files));
    LancePb__DataFile **list =
        base_arena_calloc_array(creation->arena, from->n_files + 1, sizeof(*list));
    LancePb__DeletionFile *deletions = base_arena_alloc(creation->arena, sizeof(*deletions));
    if (fragment == NULL || files == NULL || list == NULL || deletions == NULL) {
        return no_memory(err);
    }
    *fragment = *from;
    fragment->files = list;
    for (size_t i = 0; i < from->n_files; i++) {
        files[i] = *from->files[i];
        files[i].base_id = files[i].has_base_id ? files[i].base_id : creation->base_id;
        files[i].has_base_id = true;
        list[i] = &files[i];
    }
    if (from->deletion_file != NULL) {
        *deletions = *from->deletion_file;
        deletions->base_id = deletions->has_base_id ? deletions->base_id : creation->base_id;
        deletions->has_base_id = true;
        fragment->deletion_file = deletions;
    }
    *out = fragment;
    return LAKE_OK;
}

static lake_status inherit_indices(struct creation *creation, struct lake_bytes section,
                                   struct lake_bytes *out, struct lake_error *err)
{
    LancePb__IndexSection *indices = NULL;
    *out = section;
    lake_status status = lance_index_section_parse(section, creation->arena, &indices, err);
    if (status != LAKE_OK || indices == NULL) {
        return status;
    }
    for (size_t i = 0; i < indices->n_indices; i++) {
        LancePb__IndexMetadata *index = indices->indices[i];
        index->base_id = index->has_base_id ? index->base_id : creation->base_id;
        index->has_base_id = true;
    }
    size_t size = lance_pb__index_section__get_packed_size(indices);
    uint8_t *bytes = base_arena_alloc(creation->arena, size + 1);
    if (bytes == NULL) {
        return no_memory(err);
    }
    (void)lance_pb__index_section__pack(indices, bytes);
    *out = (struct lake_bytes){bytes, size};
    return LAKE_OK;
}

static lake_status add_base(struct creation *creation, LancePb__Manifest *pb,
                            struct lake_error *err)
{
    LancePb__BasePath *base = base_arena_alloc(creation->arena, sizeof(*base));
    LancePb__BasePath **list =
        base_arena_calloc_array(creation->arena, pb->n_base_paths + 1, sizeof(*list));
    if (base == NULL || list == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < pb->n_base_paths; i++) {
        list[i] = pb->base_paths[i];
        if (list[i]->id == UINT32_MAX) {
            return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "the table has used up its base paths");
        }
        creation->base_id = BASE_MAX(creation->base_id, list[i]->id + 1);
    }
    lance_pb__base_path__init(base);
    base->has_id = true;
    base->id = creation->base_id;
    base->has_is_dataset_root = true;
    base->is_dataset_root = true;
    base->has_path = true;
    base->path = lance_pb_text(creation->parent_path);
    list[pb->n_base_paths++] = base;
    pb->base_paths = list;
    return LAKE_OK;
}

static lake_status make_transaction(struct creation *creation, struct base_buffer *out,
                                    struct lake_error *err)
{
    LancePb__Transaction transaction;
    LancePb__CloneOperation clone;
    lance_pb__transaction__init(&transaction);
    lance_pb__clone_operation__init(&clone);
    transaction.has_read_version = true;
    transaction.read_version = lance_dataset_version(creation->from);
    transaction.has_uuid = true;
    transaction.uuid = lance_pb_text(creation->uuid);
    transaction.clone = &clone;
    clone.has_is_shallow = true;
    clone.is_shallow = true;
    clone.has_ref_name = creation->parent != NULL;
    clone.ref_name = lance_pb_text(creation->parent == NULL ? "" : creation->parent);
    clone.has_ref_version = true;
    clone.ref_version = transaction.read_version;
    clone.has_ref_path = true;
    clone.ref_path = lance_pb_text(creation->parent_path);
    clone.has_branch_name = true;
    clone.branch_name = lance_pb_text(creation->branch);
    return lance_transaction_encode(&transaction, out, err);
}

static lake_status encode_manifest(struct creation *creation, struct lake_bytes transaction,
                                   struct base_buffer *out, struct lake_error *err)
{
    const struct lance_manifest *from = creation->from->manifest;
    struct lance_next_manifest next = {.pb = *from->pb};
    LancePb__Manifest *pb = &next.pb;
    LancePb__DataFragment **fragments =
        base_arena_calloc_array(creation->arena, pb->n_fragments + 1, sizeof(*fragments));
    lake_status status = fragments == NULL ? no_memory(err) : add_base(creation, pb, err);
    for (size_t i = 0; i < pb->n_fragments && status == LAKE_OK; i++) {
        status = inherit_fragment(creation, pb->fragments[i], &fragments[i], err);
    }
    if (status == LAKE_OK) {
        status = inherit_indices(creation, from->index_section, &next.index_section, err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    pb->fragments = fragments;
    pb->has_branch = true;
    pb->branch = lance_pb_text(creation->branch);
    pb->has_transaction_file = false; /* it stands in the manifest */
    lance_next_manifest_finish(&next);
    return lance_manifest_encode(pb, next.index_section, transaction, out, err);
}

static lake_status write_manifest(struct creation *creation, uint64_t *size_bytes,
                                  struct lake_error *err)
{
    char key[LANCE_KEY_BYTES];
    struct base_buffer transaction;
    struct base_buffer bytes;
    struct lance_manifest *check = NULL;
    uint64_t version = lance_dataset_version(creation->from);
    base_buffer_init(&transaction, MAX_BYTES);
    base_buffer_init(&bytes, MAX_BYTES);
    lake_status status = make_transaction(creation, &transaction, err);
    if (status == LAKE_OK) {
        status = encode_manifest(creation, base_buffer_view(&transaction), &bytes, err);
    }
    if (status == LAKE_OK) {
        status = lance_manifest_parse(base_buffer_view(&bytes), version, &check, err);
        lance_manifest_unref(check);
    }
    if (status == LAKE_OK) {
        lance_manifest_key(creation->from->manifest->naming, version, key);
        *size_bytes = bytes.size;
        status = storage_put(creation->store, base_str_of(key), base_buffer_view(&bytes), err);
    }
    base_buffer_fini(&bytes);
    base_buffer_fini(&transaction);
    return status == LAKE_OK ? BASE_FAULT("lance.branch.after_manifest", err) : status;
}

/* ---- the reference ---- */

/* The parent's history, to which the branch adds a step. */
static lake_status read_history(struct creation *creation, json_t **out, struct lake_error *err)
{
    char key[STORAGE_MAX_KEY_BYTES + 1];
    struct base_buffer text;
    json_t *parent = NULL;
    lake_status status = LAKE_OK;
    base_buffer_init(&text, MAX_REF_BYTES);
    if (creation->parent != NULL) {
        lance_branch_key(creation->parent, key);
        status = storage_read_all(creation->root, base_str_of(key), &text, err);
        if (status == LAKE_OK) {
            status = base_json_parse(base_buffer_view(&text), MAX_REF_BYTES, &parent, err);
        }
    }
    if (status == LAKE_OK) {
        json_t *steps = json_object_get(json_object_get(parent, "identifier"), "version_mapping");
        *out = steps == NULL ? json_array() : json_copy(steps);
        status = *out == NULL ? no_memory(err) : LAKE_OK;
    }
    json_decref(parent);
    base_buffer_fini(&text);
    return status;
}

static lake_status write_ref(struct creation *creation, const char *key, uint64_t manifest_bytes,
                             struct lake_error *err)
{
    char hex[33];
    struct base_uuid uuid;
    json_t *steps = NULL;
    json_int_t version = (json_int_t)lance_dataset_version(creation->from);
    lake_status status = read_history(creation, &steps, err);
    if (status != LAKE_OK) {
        return status;
    }
    (void)base_uuid_parse(base_str_of(creation->uuid), &uuid);
    base_hex_encode((struct lake_bytes){uuid.bytes, sizeof(uuid.bytes)}, hex);
    int failed = json_array_append_new(steps, json_pack("[I, s]", version, hex));
    json_t *ref =
        json_pack("{s: s?, s: {s: o}, s: I, s: I, s: I, s: {}}", "parentBranch", creation->parent,
                  "identifier", "version_mapping", steps, "parentVersion", version, "createAt",
                  (json_int_t)(base_clock_unix_ms() / 1000), "manifestSize",
                  (json_int_t)manifest_bytes, "metadata");
    char *text = failed || ref == NULL ? NULL : json_dumps(ref, JSON_INDENT(2));
    status = text == NULL ? no_memory(err)
                          : storage_put_if_absent(creation->root, base_str_of(key),
                                                  base_bytes_of_str(base_str_of(text)), err);
    free(text); /* jansson's */
    json_decref(ref);
    return status;
}

/* ---- the whole ---- */

static lake_status check_place(struct creation *creation, const char *key, struct lake_error *err)
{
    struct storage_object_info info;
    uint64_t version;
    lake_status status = storage_stat(creation->root, base_str_of(key), &info, err);
    if (status != LAKE_NOT_FOUND) {
        return status == LAKE_OK ? lake_fail(err, LAKE_ALREADY_EXISTS,
                                             "there is already a branch %s", creation->branch)
                                 : status;
    }
    status = lance_latest_version(creation->store, 0, &version, NULL, err);
    if (status == LAKE_OK && version != lance_dataset_version(creation->from)) {
        status = lake_fail(err, LAKE_FAILED_PRECONDITION,
                           "%s holds versions already, though there is no branch %s",
                           storage_store_uri(creation->store), creation->branch);
    }
    return status == LAKE_NOT_FOUND ? LAKE_OK : status;
}

static lake_status create(struct creation *creation, const char *key, struct lake_error *err)
{
    struct base_uuid uuid;
    uint64_t manifest_bytes = 0;
    const char *uri = storage_store_uri(creation->from->store);
    creation->parent_path = strncmp(uri, "file://", 7) == 0 ? uri + 7 : uri;
    lake_status status = lance_branch_open(creation->root, creation->branch, &creation->store, err);
    if (status == LAKE_OK) {
        status = lance_manifest_check_changeable(creation->from->manifest, err);
    }
    if (status == LAKE_OK) {
        status = check_place(creation, key, err);
    }
    if (status == LAKE_OK) {
        status = base_uuid4_new(&uuid, err);
    }
    if (status == LAKE_OK) {
        base_uuid_format(&uuid, creation->uuid);
        status = base_arena_new(LANCE_MAX_MANIFEST_BYTES, &creation->arena, err);
    }
    if (status == LAKE_OK) {
        status = write_manifest(creation, &manifest_bytes, err);
    }
    return status == LAKE_OK ? write_ref(creation, key, manifest_bytes, err) : status;
}

lake_status lance_branch_create(struct storage_store *root, const char *branch, const char *parent,
                                uint64_t version, struct lance_branch *out, struct lake_error *err)
{
    char key[STORAGE_MAX_KEY_BYTES + 1];
    struct lance_open_options options;
    struct creation creation = {.root = root, .branch = branch, .parent = parent};
    if (strcmp(branch, "main") == 0) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "main is there and cannot be made");
    }
    lance_open_options_init(&options);
    options.branch = parent;
    options.version = version;
    lance_branch_key(branch, key);
    lake_status status = lance_dataset_open_with(root, NULL, NULL, &options, &creation.from, err);
    if (status == LAKE_OK) {
        status = create(&creation, key, err);
    }
    base_arena_free(creation.arena);
    storage_store_unref(creation.store);
    lance_dataset_unref(creation.from);
    return status == LAKE_OK && out != NULL ? lance_branch_read(root, branch, out, err) : status;
}
