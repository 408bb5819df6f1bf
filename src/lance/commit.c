/*
 * Publishing a version: transaction, the caller's hook, then the manifest, whose put-if-absent is
 * the commit point.
 *
 * On a collision the versions committed meanwhile are checked one by one against the conflict rules
 * and the new fragments are put on top of the newest. When the store does not say whether the
 * manifest was stored (L21), the transaction's identifier inside the manifest of that number does:
 * ours, another's, or not there, in which case the same bytes are put again. That is safe, because
 * at most one of our two puts can win, and both say the same.
 */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DEFAULT_ATTEMPTS     20
#define RESOLVE_ATTEMPTS     5
#define RESOLVE_BACKOFF_MS   10
#define MAX_INLINE_BYTES     ((size_t)20 << 20) /* as the reference writer; above: only the file */
#define MAX_ENCODED_BYTES    ((size_t)300 << 20)
#define TRANSACTION_KEY_SIZE 128

struct publisher {
    const struct lance_publication *what;
    uint32_t max_attempts;
    struct base_arena *arena; /* the transaction message */
    char uuid[BASE_UUID_TEXT_BYTES];
    char transaction_key[TRANSACTION_KEY_SIZE];
    bool transaction_stored;
    struct base_buffer transaction; /* serialized */
    struct lance_manifest *current; /* the newest version known; NULL: create */
    bool unknown;                   /* a manifest of ours may yet appear */
};

void lance_commit_options_init(struct lance_commit_options *options)
{
    *options = (struct lance_commit_options){.max_attempts = DEFAULT_ATTEMPTS};
}

void lance_create_options_init(struct lance_create_options *options)
{
    *options = (struct lance_create_options){.storage_version = "2.2"};
    lance_commit_options_init(&options->commit);
}

static lake_status no_memory(struct lake_error *err)
{
    return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "out of memory while a version is published");
}

/* ---- messages ---- */

static lake_status entries_of(struct base_arena *arena, const struct lance_key_value *pairs,
                              size_t count, LancePb__BytesEntry ***out, struct lake_error *err)
{
    LancePb__BytesEntry **entries = base_arena_calloc_array(arena, count + 1, sizeof(*entries));
    LancePb__BytesEntry *items = base_arena_calloc_array(arena, count + 1, sizeof(*items));
    if (entries == NULL || items == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < count; i++) {
        lance_pb__bytes_entry__init(&items[i]);
        items[i].has_key = true;
        items[i].key = lance_pb_text(pairs[i].key);
        items[i].has_value = true;
        items[i].value = lance_pb_text(pairs[i].value);
        entries[i] = &items[i];
    }
    *out = entries;
    return LAKE_OK;
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

/* The new fragments as messages with the ids 0, as a transaction holds them. */
static lake_status fragments_of(struct base_arena *arena,
                                const struct lance_publication *publication, uint32_t minor,
                                LancePb__DataFragment ***out, struct lake_error *err)
{
    size_t count = publication->fragment_count;
    LancePb__DataFragment **list = base_arena_calloc_array(arena, count + 1, sizeof(*list));
    if (list == NULL) {
        return no_memory(err);
    }
    for (size_t i = 0; i < count; i++) {
        LancePb__DataFragment *fragment = base_arena_alloc(arena, sizeof(*fragment));
        LancePb__DataFile **files = base_arena_calloc_array(arena, 1, sizeof(LancePb__DataFile *));
        if (fragment == NULL || files == NULL) {
            return no_memory(err);
        }
        lance_pb__data_fragment__init(fragment);
        files[0] = data_file_of(arena, &publication->fragments[i], minor);
        if (files[0] == NULL) {
            return no_memory(err);
        }
        fragment->n_files = 1;
        fragment->files = files;
        fragment->has_physical_rows = true;
        fragment->physical_rows = publication->fragments[i].file.row_count;
        list[i] = fragment;
    }
    *out = list;
    return LAKE_OK;
}

static uint32_t minor_of(const struct lance_publication *publication)
{
    const char *version = publication->base != NULL ? publication->base->storage_version
                                                    : publication->create->storage_version;
    return strcmp(version, "2.1") == 0 ? 1 : 2;
}

static lake_status make_overwrite(struct publisher *publisher, LancePb__OverwriteOperation *out,
                                  LancePb__DataFragment **fragments, struct lake_error *err)
{
    const struct lance_publication *what = publisher->what;
    lance_pb__overwrite_operation__init(out);
    out->n_fragments = what->fragment_count;
    out->fragments = fragments;
    lake_status status =
        lance_schema_to_fields(what->schema, publisher->arena, &out->schema, &out->n_schema, err);
    if (status == LAKE_OK) {
        status = lance_schema_metadata_to_entries(
            what->schema, publisher->arena, &out->schema_metadata, &out->n_schema_metadata, err);
    }
    if (status == LAKE_OK) {
        out->n_config_upsert_values = what->create->config_count;
        status = entries_of(publisher->arena, what->create->config, what->create->config_count,
                            &out->config_upsert_values, err);
    }
    return status;
}

static lake_status make_transaction(struct publisher *publisher, struct lake_error *err)
{
    const struct lance_publication *what = publisher->what;
    LancePb__Transaction transaction;
    LancePb__AppendOperation append;
    LancePb__OverwriteOperation overwrite;
    LancePb__DataFragment **fragments;
    lance_pb__transaction__init(&transaction);
    lance_pb__append_operation__init(&append);
    transaction.has_read_version = true;
    transaction.read_version = what->base == NULL ? 0 : what->base->pb->version;
    transaction.has_uuid = true;
    transaction.uuid = lance_pb_text(publisher->uuid);
    lake_status status = fragments_of(publisher->arena, what, minor_of(what), &fragments, err);
    if (status == LAKE_OK) {
        transaction.n_transaction_properties = what->options->property_count;
        status =
            entries_of(publisher->arena, what->options->properties, what->options->property_count,
                       &transaction.transaction_properties, err);
    }
    if (status == LAKE_OK && what->base != NULL) {
        append.n_fragments = what->fragment_count;
        append.fragments = fragments;
        transaction.append = &append;
    } else if (status == LAKE_OK) {
        status = make_overwrite(publisher, &overwrite, fragments, err);
        transaction.overwrite = &overwrite;
    }
    if (status == LAKE_OK) {
        size_t size = lance_pb__transaction__get_packed_size(&transaction);
        status = base_buffer_reserve(&publisher->transaction, size + 1, err);
    }
    if (status == LAKE_OK) {
        publisher->transaction.size =
            lance_pb__transaction__pack(&transaction, publisher->transaction.data);
        (void)snprintf(publisher->transaction_key, sizeof(publisher->transaction_key),
                       "_transactions/%" PRIu64 "-%s.txn", transaction.read_version,
                       publisher->uuid);
    }
    return status;
}

/* ---- stable row ids ---- */

/* A message with one field 1 around what `buffer` holds from `start` on. */
static lake_status wrap_message(struct base_buffer *buffer, struct lake_error *err)
{
    struct base_buffer inner = *buffer;
    base_buffer_init(buffer, inner.max_bytes);
    lake_status status = base_buffer_append_varint(buffer, (1u << 3) | 2u, err);
    if (status == LAKE_OK) {
        status = base_buffer_append_varint(buffer, inner.size, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append(buffer, inner.data, inner.size, err);
    }
    base_buffer_fini(&inner);
    return status;
}

/* U64Segment { range { start, end } } */
static lake_status encode_range(struct base_buffer *out, uint64_t start, uint64_t end,
                                struct lake_error *err)
{
    const uint64_t values[] = {1u << 3, start, 2u << 3, end};
    for (size_t i = 0; i < BASE_ARRAY_LEN(values); i++) {
        lake_status status = base_buffer_append_varint(out, values[i], err);
        if (status != LAKE_OK) {
            return status;
        }
    }
    return wrap_message(out, err);
}

static lake_status keep_bytes(struct base_arena *arena, const struct base_buffer *buffer,
                              protobuf_c_boolean *has, ProtobufCBinaryData *out,
                              struct lake_error *err)
{
    uint8_t *copy = base_arena_alloc(arena, buffer->size + 1);
    if (copy == NULL) {
        return no_memory(err);
    }
    memcpy(copy, buffer->data, buffer->size);
    *has = true;
    *out = (ProtobufCBinaryData){.len = buffer->size, .data = copy};
    return LAKE_OK;
}

/* RowIdSequence { segment }, and for both version columns RowDatasetVersionSequence
 * { runs { span, version } }. */
static lake_status give_row_ids(struct base_arena *arena, LancePb__DataFragment *fragment,
                                uint64_t first_row_id, uint64_t version, struct lake_error *err)
{
    struct base_buffer buffer;
    base_buffer_init(&buffer, 256);
    lake_status status =
        encode_range(&buffer, first_row_id, first_row_id + fragment->physical_rows, err);
    if (status == LAKE_OK) {
        status = wrap_message(&buffer, err);
    }
    if (status == LAKE_OK) {
        status = keep_bytes(arena, &buffer, &fragment->has_inline_row_ids,
                            &fragment->inline_row_ids, err);
    }
    base_buffer_clear(&buffer);
    if (status == LAKE_OK) {
        status = encode_range(&buffer, 0, fragment->physical_rows, err);
    }
    if (status == LAKE_OK) {
        status = wrap_message(&buffer, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append_varint(&buffer, 2u << 3, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append_varint(&buffer, version, err);
    }
    if (status == LAKE_OK) {
        status = wrap_message(&buffer, err);
    }
    if (status == LAKE_OK) {
        status = keep_bytes(arena, &buffer, &fragment->has_inline_created_at_versions,
                            &fragment->inline_created_at_versions, err);
    }
    if (status == LAKE_OK) {
        status = keep_bytes(arena, &buffer, &fragment->has_inline_last_updated_at_versions,
                            &fragment->inline_last_updated_at_versions, err);
    }
    base_buffer_fini(&buffer);
    return status;
}

/* ---- the next manifest ---- */

/* The next free fragment id: ids are never given twice, not even after a deletion. */
static uint64_t next_fragment_id(const LancePb__Manifest *pb)
{
    uint64_t next = pb->has_max_fragment_id ? (uint64_t)pb->max_fragment_id + 1 : 0;
    for (size_t i = 0; i < pb->n_fragments; i++) {
        next = BASE_MAX(next, pb->fragments[i]->id + 1);
    }
    return next;
}

static lake_status add_fragments(struct publisher *publisher, struct base_arena *arena,
                                 LancePb__Manifest *pb, struct lake_error *err)
{
    const struct lance_publication *what = publisher->what;
    LancePb__DataFragment **added;
    lake_status status = fragments_of(arena, what, minor_of(what), &added, err);
    if (status != LAKE_OK) {
        return status;
    }
    uint64_t id = next_fragment_id(pb);
    size_t total = pb->n_fragments + what->fragment_count;
    LancePb__DataFragment **all = base_arena_calloc_array(arena, total + 1, sizeof(*all));
    if (all == NULL) {
        return no_memory(err);
    }
    if (id + what->fragment_count > UINT32_MAX) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "the table has used up its fragment ids");
    }
    if (pb->n_fragments > 0) {
        memcpy(all, pb->fragments, pb->n_fragments * sizeof(*all));
    }
    for (size_t i = 0; i < what->fragment_count; i++) {
        LancePb__DataFragment *fragment = added[i];
        fragment->has_id = true;
        fragment->id = id + i;
        if ((pb->reader_feature_flags & LANCE_FLAG_STABLE_ROW_IDS) != 0) {
            status = give_row_ids(arena, fragment, pb->next_row_id, pb->version, err);
            if (status != LAKE_OK) {
                return status;
            }
            pb->has_next_row_id = true;
            pb->next_row_id += fragment->physical_rows;
        }
        all[pb->n_fragments + i] = fragment;
    }
    pb->fragments = all;
    pb->n_fragments = total;
    if (id + what->fragment_count > 0) {
        pb->has_max_fragment_id = true;
        pb->max_fragment_id = (uint32_t)(id + what->fragment_count - 1);
    }
    return LAKE_OK;
}

static void set_flags(LancePb__Manifest *pb)
{
    uint64_t both = 0;
    for (size_t i = 0; i < pb->n_fragments; i++) {
        both |= pb->fragments[i]->deletion_file != NULL ? LANCE_FLAG_DELETIONS : 0;
    }
    both |= pb->n_base_paths > 0 ? LANCE_FLAG_BASE_PATHS : 0;
    const uint64_t computed = LANCE_FLAG_DELETIONS | LANCE_FLAG_BASE_PATHS | LANCE_FLAG_CONFIG;
    pb->reader_feature_flags = (pb->reader_feature_flags & ~computed) | both;
    pb->writer_feature_flags = (pb->writer_feature_flags & ~computed) | both;
    pb->writer_feature_flags |= pb->n_config > 0 ? LANCE_FLAG_CONFIG : 0;
    pb->has_reader_feature_flags = true;
    pb->has_writer_feature_flags = true;
}

/* Now, but never before the version below: `asof` relies on the order. */
static void set_timestamp(LancePb__TableTimestamp *out, const LancePb__TableTimestamp *before)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    lance_pb__table_timestamp__init(out);
    out->has_seconds = true;
    out->has_nanos = true;
    out->seconds = now.tv_sec;
    out->nanos = (int32_t)now.tv_nsec;
    if (before != NULL && (before->seconds > out->seconds ||
                           (before->seconds == out->seconds && before->nanos > out->nanos))) {
        out->seconds = before->seconds;
        out->nanos = before->nanos;
    }
}

/* Parts of a manifest that the next one does not share with the last. */
struct next_manifest {
    LancePb__Manifest pb;
    LancePb__TableTimestamp timestamp;
    LancePb__WriterVersion writer;
    LancePb__DataStorageFormat format;
};

static lake_status start_manifest(struct publisher *publisher, struct base_arena *arena,
                                  struct next_manifest *next, struct lake_error *err)
{
    const struct lance_publication *what = publisher->what;
    if (publisher->current != NULL) {
        next->pb = *publisher->current->pb; /* fields that are not known travel along */
        next->pb.version++;
        return LAKE_OK;
    }
    LancePb__Manifest *pb = &next->pb;
    lance_pb__manifest__init(pb);
    pb->has_version = true;
    pb->version = 1;
    lance_pb__data_storage_format__init(&next->format);
    next->format.has_file_format = true;
    next->format.file_format = lance_pb_text("lance");
    next->format.has_version = true;
    next->format.version = lance_pb_text(what->create->storage_version);
    pb->data_format = &next->format;
    lake_status status =
        lance_schema_to_fields(what->schema, arena, &pb->fields, &pb->n_fields, err);
    if (status == LAKE_OK) {
        status = lance_schema_metadata_to_entries(what->schema, arena, &pb->schema_metadata,
                                                  &pb->n_schema_metadata, err);
    }
    if (status == LAKE_OK) {
        pb->n_config = what->create->config_count;
        status =
            entries_of(arena, what->create->config, what->create->config_count, &pb->config, err);
    }
    return status;
}

static lake_status build_manifest(struct publisher *publisher, struct base_arena *arena,
                                  struct base_buffer *out, struct lake_error *err)
{
    struct next_manifest next;
    LancePb__Manifest *pb = &next.pb;
    lake_status status = start_manifest(publisher, arena, &next, err);
    if (status == LAKE_OK) {
        status = add_fragments(publisher, arena, pb, err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    set_flags(pb);
    set_timestamp(&next.timestamp, pb->timestamp);
    pb->timestamp = &next.timestamp;
    lance_pb__writer_version__init(&next.writer);
    next.writer.has_library = true;
    next.writer.library = lance_pb_text("lake");
    next.writer.has_version = true;
    next.writer.version = lance_pb_text(LAKE_VERSION);
    pb->writer_version = &next.writer;
    pb->has_transaction_file = publisher->transaction_stored;
    pb->transaction_file = lance_pb_text(
        publisher->transaction_stored ? strchr(publisher->transaction_key, '/') + 1 : "");
    struct lake_bytes inlined = base_buffer_view(&publisher->transaction);
    if (inlined.size > MAX_INLINE_BYTES && publisher->transaction_stored) {
        inlined = (struct lake_bytes){NULL, 0};
    }
    struct lake_bytes index = publisher->current == NULL ? (struct lake_bytes){NULL, 0}
                                                         : publisher->current->index_section;
    return lance_manifest_encode(pb, index, inlined, out, err);
}

/* ---- catching up ---- */

/* Checks the versions after `current` and makes the newest the current one. */
static lake_status check_version(struct publisher *publisher, enum lance_naming naming,
                                 uint64_t version, struct lake_error *err)
{
    struct storage_store *store = publisher->what->store;
    struct lance_manifest *manifest = NULL;
    struct base_arena *arena = NULL;
    LancePb__Transaction *transaction = NULL;
    lake_status status = lance_manifest_read(store, naming, version, &manifest, err);
    if (status == LAKE_OK) {
        status = base_arena_new(LANCE_MAX_MANIFEST_BYTES, &arena, err);
    }
    if (status == LAKE_OK) {
        status = lance_transaction_read(store, manifest, arena, &transaction, err);
    }
    if (status == LAKE_NOT_FOUND) {
        status = lake_fail_wrap(err, LAKE_ABORTED,
                                "what version %" PRIu64 " changed cannot be learnt any more; "
                                "append again to the newest version",
                                version);
    }
    if (status == LAKE_OK && !lance_append_rebases_over(transaction)) {
        status = lake_fail(err, LAKE_ABORTED,
                           "version %" PRIu64 " was committed meanwhile by operation %" PRIu32
                           ", on top of which this append is not allowed; append again to the "
                           "newest version",
                           version, lance_transaction_operation(transaction));
    }
    if (status == LAKE_OK) {
        lance_manifest_unref(publisher->current);
        publisher->current = manifest;
        manifest = NULL;
    }
    base_arena_free(arena);
    lance_manifest_unref(manifest);
    return status;
}

static lake_status catch_up_create(struct publisher *publisher, struct lake_error *err)
{
    uint64_t version;
    enum lance_naming naming;
    lake_status status =
        lance_versions_latest(publisher->what->store, 0, &version, &naming, NULL, err);
    if (status == LAKE_NOT_FOUND) {
        return LAKE_OK;
    }
    if (status == LAKE_OK) {
        return lake_fail(err, LAKE_ALREADY_EXISTS, "there is already a dataset at %s",
                         storage_store_uri(publisher->what->store));
    }
    return status;
}

static lake_status catch_up(struct publisher *publisher, struct lake_error *err)
{
    uint64_t latest;
    enum lance_naming naming;
    if (publisher->current == NULL) {
        return catch_up_create(publisher, err);
    }
    uint64_t version = publisher->current->pb->version;
    lake_status status =
        lance_versions_latest(publisher->what->store, version, &latest, &naming, NULL, err);
    if (status == LAKE_OK && latest < version) {
        status = lake_fail(err, LAKE_ABORTED,
                           "version %" PRIu64 ", which the rows were to be added to, is gone: the "
                           "table was replaced",
                           version);
    }
    while (status == LAKE_OK && version < latest) {
        version++;
        status = check_version(publisher, naming, version, err);
    }
    return status == LAKE_OK ? lance_manifest_check_writable(publisher->current, err) : status;
}

/* ---- the commit point ---- */

enum owner {
    OWNER_NOBODY,
    OWNER_US,
    OWNER_OTHER
};

/* Whose version `version` is, by the transaction in it. */
static lake_status find_owner(struct publisher *publisher, enum lance_naming naming,
                              uint64_t version, enum owner *out, struct lake_error *err)
{
    struct storage_store *store = publisher->what->store;
    struct lance_manifest *manifest = NULL;
    struct base_arena *arena = NULL;
    LancePb__Transaction *transaction = NULL;
    lake_status status = lance_manifest_read(store, naming, version, &manifest, err);
    if (status == LAKE_NOT_FOUND) {
        *out = OWNER_NOBODY;
        return LAKE_OK;
    }
    if (status != LAKE_OK) {
        return status;
    }
    status = base_arena_new(LANCE_MAX_MANIFEST_BYTES, &arena, err);
    if (status == LAKE_OK) {
        status = lance_transaction_read(store, manifest, arena, &transaction, err);
    }
    if (status == LAKE_OK) {
        bool ours = base_str_equal_c(lance_pb_str(transaction->uuid), publisher->uuid);
        *out = ours ? OWNER_US : OWNER_OTHER;
    } else if (status == LAKE_NOT_FOUND) {
        *out = OWNER_OTHER; /* every manifest of ours has its transaction */
        status = LAKE_OK;
    }
    base_arena_free(arena);
    lance_manifest_unref(manifest);
    return status;
}

/* Whether a failed put certainly stored nothing. */
static bool is_definite(lake_status status)
{
    switch (status) {
    case LAKE_INVALID_ARGUMENT:
    case LAKE_NOT_FOUND:
    case LAKE_PERMISSION_DENIED:
    case LAKE_RESOURCE_EXHAUSTED:
    case LAKE_FAILED_PRECONDITION:
    case LAKE_UNIMPLEMENTED:
    case LAKE_UNAUTHENTICATED:
        return true;
    default:
        return false;
    }
}

static lake_status outcome_unknown(struct publisher *publisher, uint64_t version,
                                   struct lake_error *err)
{
    publisher->unknown = true;
    return lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                          "it could not be learnt whether version %" PRIu64
                          " was published (transaction %s); look for it before trying again",
                          version, publisher->uuid);
}

/* Puts the manifest; *ours says whose the version is. Any failure leaves nothing visible, but for
 * OUTCOME_UNKNOWN. */
static lake_status put_manifest(struct publisher *publisher, enum lance_naming naming,
                                uint64_t version, struct lake_bytes bytes, bool *ours,
                                struct lake_error *err)
{
    char key[LANCE_KEY_BYTES];
    bool pending = false; /* an earlier put may have stored it */
    lance_manifest_key(naming, version, key);
    for (uint32_t attempt = 0; attempt < RESOLVE_ATTEMPTS; attempt++) {
        enum owner owner = OWNER_NOBODY;
        if (attempt > 0) {
            base_sleep_ms(RESOLVE_BACKOFF_MS << attempt);
        }
        lake_status status =
            storage_put_if_absent(publisher->what->store, base_str_of(key), bytes, err);
        if (status == LAKE_OK) {
            *ours = true;
            return LAKE_OK;
        }
        if (is_definite(status)) {
            return pending ? outcome_unknown(publisher, version, err) : status;
        }
        pending = pending || status != LAKE_ALREADY_EXISTS;
        status = find_owner(publisher, naming, version, &owner, err);
        if (status == LAKE_OK && owner != OWNER_NOBODY) {
            *ours = owner == OWNER_US;
            return LAKE_OK;
        }
    }
    return outcome_unknown(publisher, version, err);
}

static lake_status store_transaction(struct publisher *publisher, struct lake_error *err)
{
    bool inline_only = publisher->current != NULL && (publisher->current->pb->writer_feature_flags &
                                                      LANCE_FLAG_NO_TRANSACTIONS) != 0;
    if (!inline_only && !publisher->transaction_stored) {
        /* The file is for writers older than inline transactions: as long as the manifest holds the
         * same, a power cut may take it. */
        bool in_manifest = publisher->transaction.size <= MAX_INLINE_BYTES;
        lake_status status = (in_manifest ? storage_put_unsynced : storage_put)(
            publisher->what->store, base_str_of(publisher->transaction_key),
            base_buffer_view(&publisher->transaction), err);
        if (status != LAKE_OK) {
            return status;
        }
        publisher->transaction_stored = true;
    }
    return BASE_FAULT("lance.commit.after_transaction", err);
}

/* One attempt at the version after the newest. *out NULL: another writer took it. */
static lake_status attempt(struct publisher *publisher, struct lance_manifest **out,
                           struct lake_error *err)
{
    const struct lance_commit_options *options = publisher->what->options;
    struct base_arena *arena = NULL;
    struct base_buffer bytes;
    struct lance_manifest *manifest = NULL;
    uint64_t version = publisher->current == NULL ? 1 : publisher->current->pb->version + 1;
    enum lance_naming naming =
        publisher->current == NULL ? LANCE_NAMING_V2 : publisher->current->naming;
    bool ours = false;
    base_buffer_init(&bytes, MAX_ENCODED_BYTES);
    lake_status status = base_arena_new(LANCE_MAX_MANIFEST_BYTES, &arena, err);
    if (status == LAKE_OK) {
        status = build_manifest(publisher, arena, &bytes, err);
    }
    if (status == LAKE_OK) { /* what is published can be read, or is not published */
        status = lance_manifest_parse(base_buffer_view(&bytes), version, &manifest, err);
    }
    if (status == LAKE_OK && options->before_publish != NULL) {
        status = options->before_publish(options->context, version, err);
    }
    if (status == LAKE_OK) {
        status = BASE_FAULT("lance.commit.before_manifest", err);
    }
    if (status == LAKE_OK) {
        status = put_manifest(publisher, naming, version, base_buffer_view(&bytes), &ours, err);
    }
    if (status == LAKE_OK && ours) {
        status = BASE_FAULT("lance.commit.after_manifest", err);
        if (status != LAKE_OK) {
            status = outcome_unknown(publisher, version, err);
        }
    }
    if (status == LAKE_OK && ours) {
        manifest->naming = naming;
        *out = manifest;
        manifest = NULL;
    }
    lance_manifest_unref(manifest);
    base_buffer_fini(&bytes);
    base_arena_free(arena);
    return status;
}

static lake_status publish(struct publisher *publisher, struct lance_manifest **out,
                           struct lake_error *err)
{
    for (uint32_t i = 0; i < publisher->max_attempts; i++) {
        struct lance_manifest *manifest = NULL;
        lake_status status = catch_up(publisher, err);
        if (status == LAKE_OK) {
            status = store_transaction(publisher, err);
        }
        if (status == LAKE_OK) {
            status = attempt(publisher, &manifest, err);
        }
        if (status != LAKE_OK) {
            return status;
        }
        if (manifest != NULL) {
            *out = manifest;
            return LAKE_OK;
        }
        base_sleep_ms((int64_t)BASE_MIN(i, 10) * (1 + publisher->uuid[i % 8] % 4));
    }
    return lake_fail(err, LAKE_ABORTED,
                     "other writers took the next version %u times in a row; try again later",
                     publisher->max_attempts);
}

lake_status lance_publish(const struct lance_publication *publication, struct lance_manifest **out,
                          bool *keep_files, struct lake_error *err)
{
    struct publisher publisher = {.what = publication};
    struct base_uuid uuid;
    publisher.max_attempts = publication->options->max_attempts == 0
                                 ? DEFAULT_ATTEMPTS
                                 : publication->options->max_attempts;
    *keep_files = false;
    base_buffer_init(&publisher.transaction, LANCE_MAX_MANIFEST_BYTES);
    if (publication->base != NULL) {
        publisher.current = lance_manifest_ref(publication->base);
    }
    lake_status status = base_uuid4_new(&uuid, err);
    if (status == LAKE_OK) {
        base_uuid_format(&uuid, publisher.uuid);
        status = base_arena_new(LANCE_MAX_MANIFEST_BYTES, &publisher.arena, err);
    }
    if (status == LAKE_OK) {
        status = make_transaction(&publisher, err);
    }
    if (status == LAKE_OK) {
        status = publish(&publisher, out, err);
    }
    *keep_files = status == LAKE_OK || publisher.unknown;
    if (!*keep_files && publisher.transaction_stored) {
        (void)storage_remove(publication->store, base_str_of(publisher.transaction_key), NULL);
    }
    lance_manifest_unref(publisher.current);
    base_buffer_fini(&publisher.transaction);
    base_arena_free(publisher.arena);
    return status;
}
