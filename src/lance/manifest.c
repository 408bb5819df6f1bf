/*
 * The manifest file: framing, bounded parse, feature flags, encoding.
 *
 *   [u32 length][IndexSection]   optional
 *   [u32 length][Transaction]    optional
 *   [u32 length][Manifest]       at manifest_position, up to the footer
 *   [u64 manifest_position][u16 0][u16 2]["LANC"]
 */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOOTER_BYTES  16
#define MAGIC         "LANC"
#define FOOTER_MINOR  2
#define LEGACY_MINOR  2 /* what data files of storage version 0.1 say, after a major 0 */
#define ARENA_BASE    ((size_t)16 << 20)
#define ARENA_FACTOR  16 /* unpacked bytes per encoded byte; a real manifest needs about 5 */
#define MAX_FRAGMENTS 10000000
#define MAX_CONFIG    10000

/* What a reader of this kind understands. Bit 2 is a leftover without meaning; 7 to 11 and 14 are
 * about indices, mixed file versions, lineage and managed blobs, none of which change the rows of a
 * scan (a blob column itself is refused where it is read). */
#define READER_FLAGS UINT64_C(0x4f97)
/* A writer must understand more: 11 (spilled lineage) and 14 (managed blobs) are not kept up. */
#define WRITER_FLAGS UINT64_C(0x87bf)

/* ---- protobuf-c over an arena ---- */

static void *pb_alloc(void *arena, size_t size)
{
    return base_arena_alloc(arena, size);
}

static void pb_free(void *arena, void *memory)
{
    (void)arena;
    (void)memory;
}

ProtobufCAllocator lance_pb_allocator(struct base_arena *arena)
{
    return (ProtobufCAllocator){.alloc = pb_alloc, .free = pb_free, .allocator_data = arena};
}

/* ---- parse ---- */

static lake_status malformed(uint64_t version, const char *what, struct lake_error *err)
{
    return lake_fail(err, LAKE_DATA_LOSS, "the manifest of version %" PRIu64 " is damaged: %s",
                     version, what);
}

/* The length-prefixed message at `offset`, which ends at or before `limit`. */
static bool section_at(struct lake_bytes file, uint64_t offset, size_t limit,
                       struct lake_bytes *out)
{
    struct base_cursor cursor = base_cursor_of((struct lake_bytes){file.data, limit});
    uint32_t length;
    return offset <= limit && base_cursor_skip(&cursor, (size_t)offset) &&
           base_cursor_u32le(&cursor, &length) && base_cursor_take(&cursor, length, out);
}

static lake_status find_manifest(struct lake_bytes file, uint64_t version, struct lake_bytes *out,
                                 struct lake_error *err)
{
    if (file.size < FOOTER_BYTES + sizeof(uint32_t)) {
        return malformed(version, "the file is too short", err);
    }
    const uint8_t *footer = file.data + file.size - FOOTER_BYTES;
    if (memcmp(footer + 12, MAGIC, 4) != 0) {
        return malformed(version, "it does not end in LANC", err);
    }
    uint16_t major = base_load_u16le(footer + 8);
    uint16_t minor = base_load_u16le(footer + 10);
    if (major != 0 || minor > FOOTER_MINOR) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "the manifest of version %" PRIu64 " has the framing %u.%u; 0.2 is known",
                         version, major, minor);
    }
    uint64_t position = base_load_u64le(footer);
    size_t end = file.size - FOOTER_BYTES;
    if (!section_at(file, position, end, out) || out->data + out->size != file.data + end) {
        return malformed(version, "the message does not end where the footer begins", err);
    }
    return LAKE_OK;
}

/* The lowest bit of `flags` that is not in `known`, or -1. */
static int unknown_flag(uint64_t flags, uint64_t known)
{
    uint64_t unknown = flags & ~known;
    return unknown == 0 ? -1 : __builtin_ctzll(unknown);
}

static lake_status check_readable(const LancePb__Manifest *pb, struct lake_error *err)
{
    int flag = unknown_flag(pb->reader_feature_flags, READER_FLAGS);
    if (flag >= 0) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "the table uses the Lance feature with flag bit %d, which this reader "
                         "does not know and must not ignore",
                         flag);
    }
    return LAKE_OK;
}

/* The name of a field that is, or holds, a blob or JSON; NULL: there is none. */
static const char *find_blob(const struct lance_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool blob =
            fields[i].stored == LANCE_STORED_BLOB_V1 || fields[i].stored == LANCE_STORED_BLOB_V2;
        const char *found = blob ? fields[i].name : NULL;
        if (found == NULL && fields[i].kind != LANCE_NODE_LEAF) {
            found = find_blob(fields[i].children, fields[i].child_count);
        }
        if (found != NULL) {
            return found;
        }
    }
    return NULL;
}

lake_status lance_manifest_check_changeable(const struct lance_manifest *manifest,
                                            struct lake_error *err)
{
    int flag = unknown_flag(manifest->pb->writer_feature_flags, WRITER_FLAGS);
    if (flag < 0 && (manifest->pb->reader_feature_flags & ~WRITER_FLAGS) != 0) {
        flag = unknown_flag(manifest->pb->reader_feature_flags, WRITER_FLAGS);
    }
    if (flag >= 0) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "the table uses the Lance feature with flag bit %d, which this writer "
                         "does not keep up, so it must not write",
                         flag);
    }
    return LAKE_OK;
}

lake_status lance_manifest_check_writable(const struct lance_manifest *manifest,
                                          struct lake_error *err)
{
    const char *blob = find_blob(manifest->schema.fields, manifest->schema.field_count);
    if (strcmp(manifest->storage_version, "2.0") == 0) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "the table has the Lance storage version 2.0, which is read but not "
                         "written");
    }
    if (blob != NULL) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "column %s is a Lance blob, which is read but not written", blob);
    }
    return lance_manifest_check_changeable(manifest, err);
}

static lake_status set_storage_version(struct lance_manifest *manifest, struct lake_error *err)
{
    const LancePb__Manifest *pb = manifest->pb;
    char text[16] = "2.2";
    if (pb->data_format != NULL && pb->data_format->version.len > 0) {
        struct lake_str format = lance_pb_str(pb->data_format->file_format);
        if (format.size != 0 && !base_str_equal_c(format, "lance")) {
            return lake_fail(err, LAKE_UNIMPLEMENTED,
                             "the table's data files are '%.*s', not lance",
                             (int)BASE_MIN(format.size, 40), format.data);
        }
        struct lake_str version = lance_pb_str(pb->data_format->version);
        (void)snprintf(text, sizeof(text), "%.*s", (int)BASE_MIN(version.size, 15), version.data);
    } else if (pb->n_fragments > 0 && pb->fragments[0]->n_files > 0) {
        const LancePb__DataFile *file = pb->fragments[0]->files[0];
        (void)snprintf(text, sizeof(text), "%u.%u", file->file_major_version,
                       file->file_minor_version);
    }
    if (strcmp(text, "0.3") == 0) { /* what files of 2.0 say of themselves */
        (void)snprintf(text, sizeof(text), "2.0");
    }
    if (strcmp(text, "2.0") != 0 && strcmp(text, "2.1") != 0 && strcmp(text, "2.2") != 0) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "the table has the Lance storage version %s; 2.0, 2.1 and 2.2 are "
                         "supported",
                         text);
    }
    (void)snprintf(manifest->storage_version, sizeof(manifest->storage_version), "%.7s", text);
    return LAKE_OK;
}

static lake_status check_fragment(const LancePb__DataFragment *fragment, uint64_t version,
                                  struct lake_error *err)
{
    if (fragment->n_overlays > 0) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "fragment %" PRIu64 " has overlays, which are not supported",
                         fragment->id);
    }
    if (fragment->id > UINT32_MAX) { /* an address has 32 bits for it */
        return malformed(version, "a fragment has an id above 4294967295", err);
    }
    if (fragment->physical_rows > UINT32_MAX) {
        return malformed(version, "a fragment claims more than 4294967295 rows", err);
    }
    if (fragment->n_files == 0 && fragment->physical_rows == 0) {
        return malformed(version, "a fragment has neither a data file nor a row count", err);
    }
    for (size_t i = 0; i < fragment->n_files; i++) {
        const LancePb__DataFile *file = fragment->files[i];
        if (file->file_major_version == 0 && file->file_minor_version == LEGACY_MINOR) {
            return lake_fail(err, LAKE_UNIMPLEMENTED,
                             "fragment %" PRIu64 " has a data file of the Lance storage version "
                             "0.1; 2.0, 2.1 and 2.2 are supported",
                             fragment->id);
        }
        if (file->n_column_indices != file->n_fields) {
            return malformed(version, "a data file lists fields and columns of unequal number",
                             err);
        }
    }
    return LAKE_OK;
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Compaction puts new ids at the old place, so the order may fall; no id may come twice. */
static lake_status check_unique_ids(const LancePb__Manifest *pb, uint64_t version,
                                    struct lake_error *err)
{
    bool ascending = true;
    for (size_t i = 1; i < pb->n_fragments; i++) {
        ascending = ascending && pb->fragments[i]->id > pb->fragments[i - 1]->id;
    }
    if (ascending) {
        return LAKE_OK;
    }
    uint64_t *ids = base_alloc_array(pb->n_fragments, sizeof(*ids));
    if (ids == NULL) {
        return base_fail_no_memory(err, pb->n_fragments * sizeof(*ids));
    }
    for (size_t i = 0; i < pb->n_fragments; i++) {
        ids[i] = pb->fragments[i]->id;
    }
    qsort(ids, pb->n_fragments, sizeof(*ids), compare_ids);
    bool unique = true;
    for (size_t i = 1; i < pb->n_fragments; i++) {
        unique = unique && ids[i] != ids[i - 1];
    }
    base_free(ids);
    return unique ? LAKE_OK : malformed(version, "two fragments have the same id", err);
}

static lake_status check_contents(const LancePb__Manifest *pb, uint64_t version,
                                  struct lake_error *err)
{
    if (pb->version != version) {
        return lake_fail(err, LAKE_DATA_LOSS,
                         "the manifest under the name of version %" PRIu64
                         " says that it is version %" PRIu64,
                         version, pb->version);
    }
    if (pb->n_fragments > MAX_FRAGMENTS) {
        return malformed(version, "it has more than 10000000 fragments", err);
    }
    for (size_t i = 0; i < pb->n_fragments; i++) {
        lake_status status = check_fragment(pb->fragments[i], version, err);
        if (status != LAKE_OK) {
            return status;
        }
    }
    return check_unique_ids(pb, version, err);
}

static lake_status copy_section(struct lance_manifest *manifest, struct lake_bytes section,
                                struct lake_bytes *out, struct lake_error *err)
{
    uint8_t *copy = base_arena_alloc(manifest->arena, section.size + 1);
    if (copy == NULL) {
        return base_fail_no_memory(err, section.size);
    }
    memcpy(copy, section.data, section.size);
    *out = (struct lake_bytes){copy, section.size};
    return LAKE_OK;
}

static lake_status copy_sections(struct lance_manifest *manifest, struct lake_bytes file,
                                 size_t limit, uint64_t version, struct lake_error *err)
{
    const LancePb__Manifest *pb = manifest->pb;
    struct lake_bytes section;
    lake_status status = LAKE_OK;
    if (pb->has_index_section) {
        if (!section_at(file, pb->index_section, limit, &section)) {
            return malformed(version, "its index section lies outside", err);
        }
        status = copy_section(manifest, section, &manifest->index_section, err);
    }
    uint64_t offset =
        pb->has_transaction_section ? pb->transaction_section : pb->deprecated_transaction_section;
    if (status == LAKE_OK &&
        (pb->has_transaction_section || pb->has_deprecated_transaction_section)) {
        if (!section_at(file, offset, limit, &section)) {
            return malformed(version, "its transaction section lies outside", err);
        }
        status = copy_section(manifest, section, &manifest->transaction, err);
    }
    return status;
}

static lake_status copy_config(struct lance_manifest *manifest, uint64_t version,
                               struct lake_error *err)
{
    const LancePb__Manifest *pb = manifest->pb;
    if (pb->n_config > MAX_CONFIG) {
        return malformed(version, "its configuration has more than 10000 entries", err);
    }
    struct lance_key_value *config =
        base_arena_calloc_array(manifest->arena, pb->n_config + 1, sizeof(*config));
    if (config == NULL) {
        return base_fail_no_memory(err, (pb->n_config + 1) * sizeof(*config));
    }
    for (size_t i = 0; i < pb->n_config; i++) {
        struct lake_str key = lance_pb_str(pb->config[i]->key);
        struct lake_str value = lance_pb_str(pb->config[i]->value);
        config[i].key =
            base_arena_strndup(manifest->arena, key.size == 0 ? "" : key.data, key.size);
        config[i].value =
            base_arena_strndup(manifest->arena, value.size == 0 ? "" : value.data, value.size);
        if (config[i].key == NULL || config[i].value == NULL) {
            return base_fail_no_memory(err, key.size + value.size + 2);
        }
    }
    manifest->config = config;
    manifest->config_count = pb->n_config;
    return LAKE_OK;
}

/* Which fragments' row ids were found good, as row_ids.c will note. */
static lake_status make_notes(struct lance_manifest *manifest, struct lake_error *err)
{
    size_t count = manifest->pb->n_fragments + 1;
    if ((manifest->pb->reader_feature_flags & LANCE_FLAG_STABLE_ROW_IDS) == 0) {
        return LAKE_OK;
    }
    manifest->row_ids_checked =
        base_arena_calloc_array(manifest->arena, count, sizeof(*manifest->row_ids_checked));
    return manifest->row_ids_checked != NULL ? LAKE_OK : base_fail_no_memory(err, count);
}

lake_status lance_manifest_parse(struct lake_bytes bytes, uint64_t version,
                                 struct lance_manifest **out, struct lake_error *err)
{
    struct lake_bytes message;
    lake_status status = find_manifest(bytes, version, &message, err);
    if (status != LAKE_OK) {
        return status;
    }
    struct lance_manifest *manifest = base_calloc_array(1, sizeof(*manifest));
    if (manifest == NULL) {
        return base_fail_no_memory(err, sizeof(*manifest));
    }
    atomic_init(&manifest->references, 1);
    size_t arena_bytes = ARENA_BASE + ARENA_FACTOR * BASE_MIN(bytes.size, LANCE_MAX_MANIFEST_BYTES);
    status = base_arena_new(arena_bytes, &manifest->arena, err);
    if (status != LAKE_OK) {
        goto out;
    }
    ProtobufCAllocator allocator = lance_pb_allocator(manifest->arena);
    manifest->pb = lance_pb__manifest__unpack(&allocator, message.size, message.data);
    if (manifest->pb == NULL && base_arena_out_of_memory(manifest->arena)) {
        status = base_fail_no_memory(err, message.size);
        goto out;
    }
    if (manifest->pb == NULL) {
        status = malformed(version, "its message cannot be decoded", err);
        goto out;
    }
    manifest->file_bytes = bytes.size;
    manifest->memory_bytes = sizeof(*manifest) + 6 * bytes.size;
    status = check_readable(manifest->pb, err);
    if (status == LAKE_OK) {
        status = set_storage_version(manifest, err);
    }
    if (status == LAKE_OK) {
        status = check_contents(manifest->pb, version, err);
    }
    if (status == LAKE_OK) {
        status = copy_sections(manifest, bytes, bytes.size - FOOTER_BYTES, version, err);
    }
    if (status == LAKE_OK) {
        status = copy_config(manifest, version, err);
    }
    if (status == LAKE_OK) {
        status = make_notes(manifest, err);
    }
    if (status == LAKE_OK) {
        status = lance_schema_from_fields(manifest->pb->fields, manifest->pb->n_fields,
                                          manifest->pb->schema_metadata,
                                          manifest->pb->n_schema_metadata, &manifest->schema, err);
    }
    if (status == LAKE_OK) {
        *out = manifest;
        manifest = NULL;
    }
out:
    lance_manifest_unref(manifest);
    return status;
}

lake_status lance_manifest_read(struct storage_store *store, enum lance_naming naming,
                                uint64_t version, struct lance_manifest **out,
                                struct lake_error *err)
{
    char key[LANCE_KEY_BYTES];
    struct base_buffer bytes;
    lance_manifest_key(naming, version, key);
    base_buffer_init(&bytes, LANCE_MAX_MANIFEST_BYTES);
    lake_status status = storage_read_all(store, base_str_of(key), &bytes, err);
    if (status == LAKE_OK) {
        status = lance_manifest_parse(base_buffer_view(&bytes), version, out, err);
    }
    if (status == LAKE_OK) {
        (*out)->naming = naming;
    }
    base_buffer_fini(&bytes);
    return status;
}

struct lance_manifest *lance_manifest_ref(struct lance_manifest *manifest)
{
    atomic_fetch_add_explicit(&manifest->references, 1, memory_order_relaxed);
    return manifest;
}

void lance_manifest_unref(struct lance_manifest *manifest)
{
    if (manifest == NULL ||
        atomic_fetch_sub_explicit(&manifest->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    lance_schema_fini(&manifest->schema);
    base_arena_free(manifest->arena);
    base_free(manifest);
}

int32_t lance_max_field_id(const LancePb__Manifest *pb)
{
    int32_t max = pb->has_max_allocated_field_id ? pb->max_allocated_field_id : -1;
    for (size_t i = 0; i < pb->n_fields; i++) {
        max = BASE_MAX(max, pb->fields[i]->id);
    }
    for (size_t i = 0; i < pb->n_fragments; i++) {
        for (size_t j = 0; j < pb->fragments[i]->n_files; j++) {
            const LancePb__DataFile *file = pb->fragments[i]->files[j];
            for (size_t k = 0; k < file->n_fields; k++) {
                max = BASE_MAX(max, file->fields[k]);
            }
        }
    }
    return max;
}

/* ---- encode ---- */

static lake_status append_u32(struct base_buffer *out, uint32_t value, struct lake_error *err)
{
    uint8_t bytes[4];
    base_store_u32le(bytes, value);
    return base_buffer_append(out, bytes, sizeof(bytes), err);
}

static lake_status append_section(struct base_buffer *out, struct lake_bytes section,
                                  struct lake_error *err)
{
    if (section.size > UINT32_MAX) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "a section of a manifest is above 4 GiB");
    }
    lake_status status = append_u32(out, (uint32_t)section.size, err);
    return status == LAKE_OK ? base_buffer_append(out, section.data, section.size, err) : status;
}

static lake_status append_message(struct base_buffer *out, const LancePb__Manifest *pb,
                                  struct lake_error *err)
{
    size_t size = lance_pb__manifest__get_packed_size(pb);
    if (size > LANCE_MAX_MANIFEST_BYTES) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "the table's manifest would have %zu bytes, at most %zu are read; compact "
                         "the table",
                         size, LANCE_MAX_MANIFEST_BYTES);
    }
    lake_status status = append_u32(out, (uint32_t)size, err);
    if (status == LAKE_OK) {
        status = base_buffer_reserve(out, size, err);
    }
    if (status == LAKE_OK) {
        out->size += lance_pb__manifest__pack(pb, out->data + out->size);
    }
    return status;
}

lake_status lance_manifest_encode(LancePb__Manifest *pb, struct lake_bytes index_section,
                                  struct lake_bytes transaction, struct base_buffer *out,
                                  struct lake_error *err)
{
    uint8_t footer[FOOTER_BYTES];
    lake_status status = LAKE_OK;
    pb->has_index_section = index_section.data != NULL;
    pb->has_transaction_section = transaction.data != NULL;
    pb->has_deprecated_transaction_section = false;
    pb->index_section = out->size;
    if (pb->has_index_section) {
        status = append_section(out, index_section, err);
    }
    pb->transaction_section = out->size;
    if (status == LAKE_OK && pb->has_transaction_section) {
        status = append_section(out, transaction, err);
    }
    uint64_t position = out->size;
    if (status == LAKE_OK) {
        status = append_message(out, pb, err);
    }
    base_store_u64le(footer, position);
    base_store_u16le(footer + 8, 0);
    base_store_u16le(footer + 10, FOOTER_MINOR);
    memcpy(footer + 12, MAGIC, 4);
    return status == LAKE_OK ? base_buffer_append(out, footer, sizeof(footer), err) : status;
}
