/*
 * Reference deltas (NAT-12): which object URIs a version added and removed, in one immutable file a
 * version, written before the version can become visible.
 *
 * A file proves nothing on its own: a process can die between writing it and publishing. It counts
 * when the version it names is published with the operation ID in its name; with the flag
 * "removes all" it counts when its incarnation is no longer registered.
 *
 * Layout, little-endian: "LKDELTA1", u32 format (1), u32 flags, u64 version, u64 added, u64
 * removed, then the entries {u64 references, u32 size, bytes}, ascending, added ones first, and the
 * SHA-256 of everything before it.
 */
#include "meta_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC           "LKDELTA1"
#define MAGIC_BYTES     8
#define FORMAT          1
#define DELTA_MAX_BYTES (256u * 1024 * 1024) /* URIs of an append of 64 MiB, with room */

void meta_uri_set_fini(struct meta_uri_set *set)
{
    base_free(set->uris);
    *set = (struct meta_uri_set){NULL, 0, 0};
}

lake_status meta_uri_set_add(struct meta_uri_set *set, struct lake_str uri, struct lake_error *err)
{
    if (set->count == set->capacity) {
        size_t room = set->capacity == 0 ? 64 : set->capacity * 2;
        struct lake_str *grown = base_realloc_array(set->uris, room, sizeof(*grown));
        if (grown == NULL)
            return base_fail_no_memory(err, room * sizeof(*grown));
        set->uris = grown;
        set->capacity = room;
    }
    set->uris[set->count++] = uri;
    return LAKE_OK;
}

static int compare_str(struct lake_str a, struct lake_str b)
{
    size_t common = BASE_MIN(a.size, b.size);
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare_uris(const void *a, const void *b)
{
    const struct lake_str *left = a;
    const struct lake_str *right = b;
    return compare_str(*left, *right);
}

/* The end of the run of equal URIs that starts at `start`. */
static size_t run_end(const struct meta_uri_set *set, size_t start)
{
    size_t end = start + 1;
    while (end < set->count && base_str_equal(set->uris[start], set->uris[end]))
        end++;
    return end;
}

static uint64_t sort_and_count(struct meta_uri_set *set)
{
    if (set == NULL || set->count == 0)
        return 0;
    qsort(set->uris, set->count, sizeof(*set->uris), compare_uris);
    uint64_t distinct = 0;
    for (size_t i = 0; i < set->count; i = run_end(set, i))
        distinct++;
    return distinct;
}

void meta_uri_sets_cancel(struct meta_uri_set *a, struct meta_uri_set *b)
{
    size_t at_a = 0, at_b = 0, kept_a = 0, kept_b = 0;
    (void)sort_and_count(a);
    (void)sort_and_count(b);
    while (at_a < a->count || at_b < b->count) {
        int order = at_a == a->count   ? 1
                    : at_b == b->count ? -1
                                       : compare_str(a->uris[at_a], b->uris[at_b]);
        if (order < 0) {
            a->uris[kept_a++] = a->uris[at_a++];
        } else if (order > 0) {
            b->uris[kept_b++] = b->uris[at_b++];
        } else {
            at_a++;
            at_b++;
        }
    }
    a->count = kept_a;
    b->count = kept_b;
}

static lake_status append_u64(struct base_buffer *out, uint64_t value, struct lake_error *err)
{
    uint8_t bytes[8];
    base_store_u64le(bytes, value);
    return base_buffer_append(out, bytes, sizeof(bytes), err);
}

static lake_status append_u32(struct base_buffer *out, uint32_t value, struct lake_error *err)
{
    uint8_t bytes[4];
    base_store_u32le(bytes, value);
    return base_buffer_append(out, bytes, sizeof(bytes), err);
}

static lake_status append_entries(struct base_buffer *out, const struct meta_uri_set *set,
                                  struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t i = 0; set != NULL && i < set->count && status == LAKE_OK;) {
        size_t end = run_end(set, i);
        struct lake_str uri = set->uris[i];
        if (uri.size > UINT32_MAX)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "a URI has %zu bytes", uri.size);
        status = append_u64(out, end - i, err);
        if (status == LAKE_OK)
            status = append_u32(out, (uint32_t)uri.size, err);
        if (status == LAKE_OK)
            status = base_buffer_append(out, uri.data, uri.size, err);
        i = end;
    }
    return status;
}

lake_status meta_delta_encode(uint64_t version, uint32_t flags, struct meta_uri_set *added,
                              struct meta_uri_set *removed, struct base_buffer *out,
                              struct lake_error *err)
{
    uint64_t added_count = sort_and_count(added);
    uint64_t removed_count = sort_and_count(removed);
    size_t start = out->size;
    lake_status status = base_buffer_append(out, MAGIC, MAGIC_BYTES, err);
    if (status == LAKE_OK)
        status = append_u32(out, FORMAT, err);
    if (status == LAKE_OK)
        status = append_u32(out, flags, err);
    if (status == LAKE_OK)
        status = append_u64(out, version, err);
    if (status == LAKE_OK)
        status = append_u64(out, added_count, err);
    if (status == LAKE_OK)
        status = append_u64(out, removed_count, err);
    if (status == LAKE_OK)
        status = append_entries(out, added, err);
    if (status == LAKE_OK)
        status = append_entries(out, removed, err);
    uint8_t digest[BASE_SHA256_BYTES];
    if (status == LAKE_OK)
        status = base_sha256_once((struct lake_bytes){out->data + start, out->size - start}, digest,
                                  err);
    if (status == LAKE_OK)
        status = base_buffer_append(out, digest, sizeof(digest), err);
    return status;
}

/* `count` entries, ascending and each once. */
static bool decode_entries(struct base_cursor *cursor, uint64_t count, struct base_arena *arena,
                           struct meta_delta_entry **out)
{
    /* An entry takes at least 12 bytes, so a count cannot make us reserve more than was read. */
    if (count > base_cursor_left(cursor) / 12)
        return false;
    struct meta_delta_entry *entries =
        base_arena_calloc_array(arena, (size_t)count + 1, sizeof(*entries));
    if (entries == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        uint32_t size;
        struct lake_bytes uri;
        if (!base_cursor_u64le(cursor, &entries[i].references) || entries[i].references == 0 ||
            !base_cursor_u32le(cursor, &size) || !base_cursor_take(cursor, size, &uri))
            return false;
        entries[i].uri = (struct lake_str){(const char *)uri.data, uri.size};
        if (i > 0 && compare_str(entries[i - 1].uri, entries[i].uri) >= 0)
            return false;
    }
    *out = entries;
    return true;
}

lake_status meta_delta_decode(struct lake_bytes bytes, struct base_arena *arena,
                              struct meta_delta *out, struct lake_error *err)
{
    if (bytes.size < MAGIC_BYTES + BASE_SHA256_BYTES || memcmp(bytes.data, MAGIC, MAGIC_BYTES) != 0)
        return lake_fail(err, LAKE_DATA_LOSS, "not a reference delta (%zu bytes)", bytes.size);
    struct lake_bytes content = {bytes.data, bytes.size - BASE_SHA256_BYTES};
    uint8_t digest[BASE_SHA256_BYTES];
    lake_status status = base_sha256_once(content, digest, err);
    if (status != LAKE_OK)
        return status;
    if (memcmp(digest, bytes.data + content.size, BASE_SHA256_BYTES) != 0)
        return lake_fail(err, LAKE_DATA_LOSS, "the digest of a reference delta does not match");
    struct base_cursor cursor = base_cursor_of(content);
    struct meta_delta delta = {0};
    uint32_t format;
    uint64_t added;
    uint64_t removed;
    if (!base_cursor_skip(&cursor, MAGIC_BYTES) || !base_cursor_u32le(&cursor, &format))
        return lake_fail(err, LAKE_DATA_LOSS, "a reference delta ends in its head");
    if (format != FORMAT)
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "a reference delta has format %" PRIu32 "; this version reads %d", format,
                         FORMAT);
    if (!base_cursor_u32le(&cursor, &delta.flags) || !base_cursor_u64le(&cursor, &delta.version) ||
        !base_cursor_u64le(&cursor, &added) || !base_cursor_u64le(&cursor, &removed) ||
        !decode_entries(&cursor, added, arena, &delta.added) ||
        !decode_entries(&cursor, removed, arena, &delta.removed) || base_cursor_left(&cursor) != 0)
        return lake_fail(err, LAKE_DATA_LOSS, "the entries of a reference delta do not parse");
    delta.added_count = (size_t)added;
    delta.removed_count = (size_t)removed;
    *out = delta;
    return LAKE_OK;
}

lake_status meta_delta_key(const char *incarnation, uint64_t version, const char *operation_id,
                           char out[META_KEY_BYTES], struct lake_error *err)
{
    int size = snprintf(out, META_KEY_BYTES, "%s/%020" PRIu64 "-%s.delta", incarnation, version,
                        operation_id);
    if (size < 0 || size >= META_KEY_BYTES)
        return lake_fail(err, LAKE_INTERNAL, "the name of a reference delta is too long");
    return LAKE_OK;
}

lake_status meta_delta_before_publish(void *context, uint64_t version, struct lake_error *err)
{
    struct meta_delta_writer *writer = context;
    char key[META_KEY_BYTES];
    struct base_buffer bytes;
    base_buffer_init(&bytes, DELTA_MAX_BYTES);
    /* Called again: another writer took the version this operation had asked for. */
    meta_delta_discard(writer);
    lake_status status =
        meta_delta_key(writer->incarnation, version, writer->operation_id, key, err);
    if (status == LAKE_OK)
        status = meta_delta_encode(version, 0, writer->added, writer->removed, &bytes, err);
    /* An earlier attempt of the same operation may have left a file of this name; its version was
     * never published, or the operation would have been found. */
    if (status == LAKE_OK)
        status =
            storage_put(writer->authority->deltas, base_str_of(key), base_buffer_view(&bytes), err);
    if (status == LAKE_OK) {
        writer->written_version = version;
        status = BASE_FAULT("meta.delta.after_write", err);
    }
    base_buffer_fini(&bytes);
    return status;
}

void meta_delta_discard(struct meta_delta_writer *writer)
{
    char key[META_KEY_BYTES];
    if (writer->written_version != 0 && meta_delta_key(writer->incarnation, writer->written_version,
                                                       writer->operation_id, key, NULL) == LAKE_OK)
        (void)storage_remove(writer->authority->deltas, base_str_of(key), NULL);
    writer->written_version = 0;
}
