/*
 * Publishing a version: transaction, the caller's hook, then the manifest, whose put-if-absent is
 * the commit point.
 *
 * On a collision the versions committed meanwhile are checked one by one against the conflict rules
 * (conflict.c) and the transaction is applied to the newest (next_manifest.c). When the store does
 * not say whether the manifest was stored (L21), the transaction's identifier inside the manifest
 * of that number does: ours, another's, or not there, in which case the same bytes are put again.
 * That is safe, because at most one of our two puts can win, and both say the same.
 */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_ATTEMPTS     20
#define RESOLVE_ATTEMPTS     5
#define RESOLVE_BACKOFF_MS   10
#define MAX_INLINE_BYTES     ((size_t)20 << 20) /* as the reference writer; above: only the file */
#define MAX_ENCODED_BYTES    ((size_t)300 << 20)
#define TRANSACTION_KEY_SIZE 128

struct publisher {
    const struct lance_publication *what;
    uint32_t max_attempts;
    struct base_arena *arena; /* the transaction's properties */
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
    *options = (struct lance_create_options){.storage_version = NULL};
    lance_commit_options_init(&options->commit);
}

static lake_status no_memory(struct lake_error *err)
{
    return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "out of memory while a version is published");
}

/* ---- messages ---- */

lake_status lance_entries_of(struct base_arena *arena, const struct lance_key_value *pairs,
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

/* Serializes the transaction, which a rebase may have changed, and forgets the stored one. */
static lake_status encode_transaction(struct publisher *publisher, struct lake_error *err)
{
    base_buffer_clear(&publisher->transaction);
    return lance_transaction_encode(publisher->what->transaction, &publisher->transaction, err);
}

static lake_status make_transaction(struct publisher *publisher, struct lake_error *err)
{
    const struct lance_publication *what = publisher->what;
    LancePb__Transaction *transaction = what->transaction;
    transaction->has_read_version = true;
    transaction->read_version = what->base == NULL ? 0 : what->base->pb->version;
    transaction->has_uuid = true;
    transaction->uuid = lance_pb_text(publisher->uuid);
    transaction->n_transaction_properties = what->options->property_count;
    (void)snprintf(publisher->transaction_key, sizeof(publisher->transaction_key),
                   "_transactions/%" PRIu64 "-%s.txn", transaction->read_version, publisher->uuid);
    lake_status status =
        lance_entries_of(publisher->arena, what->options->properties, what->options->property_count,
                         &transaction->transaction_properties, err);
    return status == LAKE_OK ? encode_transaction(publisher, err) : status;
}

/* ---- the next manifest ---- */

static lake_status build_manifest(struct publisher *publisher, struct base_arena *arena,
                                  struct base_buffer *out, struct lake_error *err)
{
    const struct lance_publication *what = publisher->what;
    struct lance_next_manifest next;
    lake_status status =
        lance_next_manifest_build(what->store, publisher->current, what->transaction,
                                  what->storage_version, arena, &next, err);
    if (status == LAKE_OK) {
        next.pb.has_transaction_file = publisher->transaction_stored;
        next.pb.transaction_file = lance_pb_text(
            publisher->transaction_stored ? strchr(publisher->transaction_key, '/') + 1 : "");
        struct lake_bytes inlined = base_buffer_view(&publisher->transaction);
        if (inlined.size > MAX_INLINE_BYTES && publisher->transaction_stored) {
            inlined = (struct lake_bytes){NULL, 0};
        }
        status = lance_manifest_encode(&next.pb, next.index_section, inlined, out, err);
    }
    lance_next_manifest_fini(&next);
    return status;
}

/* ---- catching up ---- */

static lake_status conflict_of(struct publisher *publisher, const struct lance_manifest *theirs,
                               const LancePb__Transaction *transaction, bool *rows,
                               struct lake_error *err)
{
    const struct lance_publication *what = publisher->what;
    enum lance_verdict verdict = LANCE_INCOMPATIBLE;
    uint32_t operation = lance_transaction_operation(transaction);
    lake_status status = lance_transaction_conflict(what->transaction, transaction,
                                                    theirs->pb->max_fragment_id, &verdict, err);
    if (status != LAKE_OK) {
        return status;
    }
    if (what->sees_inserts && verdict != LANCE_INCOMPATIBLE &&
        (operation == LANCE_OP_APPEND || operation == LANCE_OP_UPDATE)) {
        verdict = LANCE_RETRY;
    }
    *rows = *rows || verdict == LANCE_REBASE_ROWS;
    if (verdict == LANCE_REBASE || (verdict == LANCE_REBASE_ROWS && what->rebase != NULL)) {
        return LAKE_OK;
    }
    return lake_fail(err, LAKE_ABORTED,
                     "version %" PRIu64 " was committed meanwhile by operation %" PRIu32
                     ", on top of which operation %" PRIu32 " is not allowed; %s",
                     theirs->pb->version, operation, lance_transaction_operation(what->transaction),
                     verdict == LANCE_INCOMPATIBLE
                         ? "it was meant for another table than there is now"
                         : "do it again from the newest version");
}

/* Checks the version after `current` and makes it the current one. */
static lake_status check_version(struct publisher *publisher, enum lance_naming naming,
                                 uint64_t version, bool *rows, struct lake_error *err)
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
                                "do it again from the newest version",
                                version);
    }
    if (status == LAKE_OK) {
        status = conflict_of(publisher, manifest, transaction, rows, err);
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
    bool rows = false;
    if (publisher->current == NULL) {
        return catch_up_create(publisher, err);
    }
    uint64_t version = publisher->current->pb->version;
    lake_status status =
        lance_versions_latest(publisher->what->store, version, &latest, &naming, NULL, err);
    if (status == LAKE_OK && latest < version) {
        status = lake_fail(err, LAKE_ABORTED,
                           "version %" PRIu64 ", from which the operation began, is gone: the "
                           "table was replaced",
                           version);
    }
    while (status == LAKE_OK && version < latest) {
        version++;
        status = check_version(publisher, naming, version, &rows, err);
    }
    if (status == LAKE_OK) {
        status = lance_manifest_check_changeable(publisher->current, err);
    }
    if (status == LAKE_OK && rows) {
        status = publisher->what->rebase(publisher->what->context, publisher->current,
                                         publisher->what->transaction, err);
        publisher->transaction_stored = false; /* as it is now, it is not */
        if (status == LAKE_OK) {
            status = encode_transaction(publisher, err);
        }
    }
    return status;
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
    if (!*keep_files) {
        (void)storage_remove(publication->store, base_str_of(publisher.transaction_key), NULL);
    }
    lance_manifest_unref(publisher.current);
    base_buffer_fini(&publisher.transaction);
    base_arena_free(publisher.arena);
    return status;
}
