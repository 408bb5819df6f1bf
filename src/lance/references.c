/*
 * Everything that a manifest refers to, by one visitor. A kind of reference that is not known here
 * must not be overlooked by clean-up, so messages with fields that are not known are refused.
 */
#include "index.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Fields of the format that are not declared in our messages and refer to nothing. */
static const uint32_t manifest_fields[] = {4, 8, 17, 25, 26};
static const uint32_t fragment_fields[] = {12, 13, 14, 15, 16};
static const uint32_t index_fields[] = {8, 11, 12, 13};

static lake_status check_fields(const ProtobufCMessage *message, const uint32_t *known,
                                size_t known_count, const char *what, struct lake_error *err)
{
    for (unsigned i = 0; i < message->n_unknown_fields; i++) {
        bool found = false;
        for (size_t j = 0; j < known_count && !found; j++) {
            found = known[j] == message->unknown_fields[i].tag;
        }
        if (!found) {
            return lake_fail(err, LAKE_UNIMPLEMENTED,
                             "a %s has a field %" PRIu32
                             ", which is not known and may refer to files",
                             what, message->unknown_fields[i].tag);
        }
    }
    return LAKE_OK;
}

static lake_status visit(const struct lance_visitor *visitor, bool elsewhere, const char *folder,
                         struct lake_str name, struct lake_error *err)
{
    char key[STORAGE_MAX_KEY_BYTES + 1];
    int length = snprintf(key, sizeof(key), "%s/%.*s", folder, LAKE_STR_FMT(name));
    if (length < 0 || (size_t)length >= sizeof(key) || strlen(key) != (size_t)length) {
        return lake_fail(err, LAKE_DATA_LOSS, "a manifest refers to a file by no valid name");
    }
    return visitor->visit(visitor->context, key, elsewhere, err);
}

static lake_status visit_fragment(const LancePb__DataFragment *fragment,
                                  const struct lance_visitor *visitor, struct lake_error *err)
{
    const LancePb__DeletionFile *deletions = fragment->deletion_file;
    lake_status status =
        check_fields(&fragment->base, fragment_fields, BASE_ARRAY_LEN(fragment_fields),
                     "fragment of a manifest", err);
    for (size_t i = 0; i < fragment->n_files && status == LAKE_OK; i++) {
        const LancePb__DataFile *file = fragment->files[i];
        status = check_fields(&file->base, NULL, 0, "data file of a manifest", err);
        if (status == LAKE_OK) {
            status = visit(visitor, file->has_base_id, "data", lance_pb_str(file->path), err);
        }
    }
    if (status == LAKE_OK && deletions != NULL) {
        char key[LANCE_DELETION_KEY_BYTES];
        lance_deletion_key(fragment->id, deletions, key);
        status = check_fields(&deletions->base, NULL, 0, "deletion file of a manifest", err);
        if (status == LAKE_OK) {
            status = visitor->visit(visitor->context, key, deletions->has_base_id, err);
        }
    }
    return status;
}

static lake_status visit_index(const LancePb__IndexMetadata *index,
                               const struct lance_visitor *visitor, struct lake_error *err)
{
    char key[LANCE_INDEX_KEY_BYTES];
    lake_status status = lance_index_key(index, key, err);
    if (status == LAKE_OK) {
        status = check_fields(&index->base, index_fields, BASE_ARRAY_LEN(index_fields),
                              "index of a manifest", err);
    }
    return status == LAKE_OK ? visitor->visit(visitor->context, key, index->has_base_id, err)
                             : status;
}

static lake_status visit_indices(const struct lance_manifest *manifest,
                                 const struct lance_visitor *visitor, struct lake_error *err)
{
    struct base_arena *arena = NULL;
    struct lake_bytes bytes = manifest->index_section;
    if (bytes.data == NULL) {
        return LAKE_OK;
    }
    lake_status status = base_arena_new(LANCE_MAX_MANIFEST_BYTES, &arena, err);
    if (status != LAKE_OK) {
        return status;
    }
    LancePb__IndexSection *section = NULL;
    status = lance_index_section_parse(bytes, arena, &section, err);
    if (status == LAKE_OK) {
        status = check_fields(&section->base, NULL, 0, "index section", err);
    }
    for (size_t i = 0; status == LAKE_OK && i < section->n_indices; i++) {
        status = visit_index(section->indices[i], visitor, err);
    }
    base_arena_free(arena);
    return status;
}

lake_status lance_references_visit(const struct lance_manifest *manifest,
                                   const struct lance_visitor *visitor, struct lake_error *err)
{
    const LancePb__Manifest *pb = manifest->pb;
    lake_status status =
        check_fields(&pb->base, manifest_fields, BASE_ARRAY_LEN(manifest_fields), "manifest", err);
    for (size_t i = 0; i < pb->n_fragments && status == LAKE_OK; i++) {
        status = visit_fragment(pb->fragments[i], visitor, err);
    }
    if (status == LAKE_OK && pb->transaction_file.len > 0) {
        status = visit(visitor, false, "_transactions", lance_pb_str(pb->transaction_file), err);
    }
    return status == LAKE_OK ? visit_indices(manifest, visitor, err) : status;
}
