/*
 * Clean-up through Metasrv: lance's (cleanup.c there), under the gates that make it safe here.
 *
 * Maintenance keeps compactions and drops away; the history gate those who are about to name or to
 * bring back a version. Files of appends that run are protected by the grace time alone. Before
 * anything goes the operations of all versions are recorded, which their transactions could not
 * restore later (NAT-6). And of a version that goes the reference deltas that do not count, left by
 * writers that died, go first: then what is left below a version that is no longer there counts
 * (NAT-12).
 */
#include "meta_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DELTAS_PAGE   1000
#define VERSION_WIDTH 20 /* meta_delta_key */

lake_status meta_history_enter(struct meta_authority *authority, const struct meta_name *name,
                               const struct meta_wait *wait, struct meta_claim *claim,
                               struct lake_error *err)
{
    char key[META_KEY_BYTES];
    (void)meta_key(key, "h", name->namespace_key, name->table_key);
    return meta_gate_enter(&authority->gates, claim, key, wait, err);
}

/* ---- deltas that do not count ---- */

struct deltas { /* of one incarnation, ascending by version */
    struct meta_authority *authority;
    uint64_t *expired; /* versions that go */
    size_t expired_count;
    size_t expired_capacity;
    char prefix[BASE_UUID_TEXT_BYTES + 1];
    char last[META_KEY_BYTES]; /* the key before the page */
    struct storage_list_page page;
    size_t at;
    bool ended;
};

static lake_status next_page(struct deltas *deltas, struct lake_error *err)
{
    if (deltas->page.count > 0)
        (void)snprintf(deltas->last, sizeof(deltas->last), "%s",
                       deltas->page.entries[deltas->page.count - 1].key);
    bool more = deltas->page.count == 0 || deltas->page.more;
    storage_list_page_fini(&deltas->page);
    deltas->page = (struct storage_list_page){0};
    deltas->at = 0;
    lake_status status = LAKE_OK;
    if (more)
        status = storage_list(deltas->authority->deltas, base_str_of(deltas->prefix),
                              base_str_of(deltas->last), DELTAS_PAGE, &deltas->page, err);
    if (status == LAKE_NOT_FOUND)
        status = LAKE_OK;
    deltas->ended = deltas->page.count == 0;
    return status;
}

/* The version and the operation that a delta's name says; false for another file. */
static bool parse_delta(const struct deltas *deltas, const char *key, uint64_t *version,
                        struct lake_str *operation)
{
    struct lake_str name = base_str_of(key + strlen(deltas->prefix));
    size_t rest = VERSION_WIDTH + 1;
    if (!base_str_has_suffix(name, ".delta") || name.size <= rest + strlen(".delta") ||
        !base_str_to_u64((struct lake_str){name.data, VERSION_WIDTH}, version))
        return false;
    *operation = (struct lake_str){name.data + rest, name.size - rest - strlen(".delta")};
    return true;
}

static lake_status note_expired(struct deltas *deltas, uint64_t version, struct lake_error *err)
{
    if (deltas->expired_count == deltas->expired_capacity) {
        size_t room = BASE_MAX(64, deltas->expired_capacity * 2);
        uint64_t *grown = base_realloc_array(deltas->expired, room, sizeof(*grown));
        if (grown == NULL)
            return base_fail_no_memory(err, room * sizeof(*grown));
        deltas->expired = grown;
        deltas->expired_capacity = room;
    }
    deltas->expired[deltas->expired_count++] = version;
    return LAKE_OK;
}

/* `operation` is what the version's transaction says. */
static lake_status version_expires(void *context, uint64_t version, struct lake_str operation,
                                   struct lake_error *err)
{
    struct deltas *deltas = context;
    lake_status status = note_expired(deltas, version, err);
    if (version == 1 || operation.data == NULL) /* a creation's says nothing, and has no rival */
        return status;
    while (status == LAKE_OK && !deltas->ended) {
        uint64_t of = 0;
        struct lake_str id;
        if (deltas->at == deltas->page.count) {
            status = next_page(deltas, err);
            continue;
        }
        const char *key = deltas->page.entries[deltas->at].key;
        bool is_delta = parse_delta(deltas, key, &of, &id);
        if (is_delta && of > version)
            break;
        if (is_delta && of == version && !base_str_equal(id, operation))
            status = storage_remove(deltas->authority->deltas, base_str_of(key), err);
        deltas->at++;
    }
    return status;
}

/* ---- clean-up ---- */

static lake_status record_all(struct meta_authority *authority, const struct meta_table *table,
                              const struct meta_wait *wait, struct lake_error *err)
{
    struct meta_claim claim;
    struct lance_dataset *newest = NULL;
    const struct meta_commit commit = {
        .authority = authority, .registration = &table->registration, .store = table->store};
    lake_status status = meta_table_enter(authority, &table->registration.name, wait, &claim, err);
    if (status != LAKE_OK)
        return status;
    status = meta_commit_open_newest(&commit, &newest, err);
    lance_dataset_unref(newest);
    meta_gate_leave(&authority->gates, &claim);
    return status;
}

/* The gates of maintenance and history are held. */
static lake_status cleanup_held(struct meta_authority *authority, const struct meta_name *name,
                                const struct meta_wait *wait, struct lance_cleanup_options *options,
                                struct lance_cleanup_stats *out, struct lake_error *err)
{
    struct meta_table table;
    struct deltas deltas = {.authority = authority};
    lake_status status = meta_table_open(authority, name, &table, err);
    if (status != LAKE_OK)
        return status;
    status = record_all(authority, &table, wait, err);
    if (status == LAKE_OK)
        status = BASE_FAULT("meta.cleanup.before_remove", err);
    if (status == LAKE_OK) {
        (void)snprintf(deltas.prefix, sizeof(deltas.prefix), "%s/", table.registration.incarnation);
        options->expires = version_expires;
        options->property = META_PROPERTY_OPERATION;
        options->context = &deltas;
        status = lance_cleanup(table.store, options, out, err);
    }
    for (size_t i = 0; i < deltas.expired_count; i++)
        lance_cache_forget_version(authority->cache, table.registration.incarnation,
                                   deltas.expired[i]);
    base_free(deltas.expired);
    storage_list_page_fini(&deltas.page);
    meta_table_close(&table);
    return status;
}

static void say(const struct meta_name *name, const char *operation_id,
                const struct lance_cleanup_stats *done)
{
    char versions[24];
    char files[24];
    char bytes[24];
    (void)snprintf(versions, sizeof(versions), "%" PRIu64, done->versions_removed);
    (void)snprintf(files, sizeof(files), "%" PRIu64, done->files_removed);
    (void)snprintf(bytes, sizeof(bytes), "%" PRIu64, done->bytes_removed);
    base_log(BASE_LOG_INFO, "cleaned up a table", "namespace", name->namespace_name, "table",
             name->table, "operation_id", operation_id, "versions", versions, "files", files,
             "bytes", bytes, NULL);
}

static lake_status pack(const struct lance_cleanup_stats *stats, struct base_buffer *out,
                        struct lake_error *err)
{
    LakePb__CleanupTableReply reply = LAKE_PB__CLEANUP_TABLE_REPLY__INIT;
    reply.has_versions_kept = reply.has_versions_removed = reply.has_files_removed = true;
    reply.has_abandoned_files_removed = reply.has_files_in_grace = reply.has_bytes_removed = true;
    reply.versions_kept = stats->versions_kept;
    reply.versions_removed = stats->versions_removed;
    reply.files_removed = stats->files_removed;
    reply.abandoned_files_removed = stats->abandoned_files_removed;
    reply.files_in_grace = stats->files_in_grace;
    reply.bytes_removed = stats->bytes_removed;
    return meta_pb_pack(&reply.base, out, err);
}

static lake_status read_options(struct meta_authority *authority,
                                const LakePb__CleanupTableRequest *request,
                                struct lance_cleanup_options *out,
                                char operation_id[BASE_UUID_TEXT_BYTES], struct lake_error *err)
{
    lance_cleanup_options_init(out);
    if (request->has_older_than_ms)
        out->older_than_ms = (int64_t)BASE_MIN(request->older_than_ms, (uint64_t)INT64_MAX);
    out->retain_versions = BASE_MAX(request->retain_versions, authority->retain_versions);
    out->grace_ms = authority->cleanup_grace_ms;
    out->dry_run = request->dry_run;
    operation_id[0] = '\0';
    return !request->has_operation_id
               ? LAKE_OK
               : meta_operation_check_id(meta_str_of_pb(request->operation_id),
                                         base_clock_unix_ms(), authority->append_retention_ms,
                                         operation_id, err);
}

lake_status meta_table_cleanup(struct meta_authority *authority,
                               const struct meta_identity *identity, const struct meta_wait *wait,
                               const LakePb__CleanupTableRequest *request, struct base_buffer *out,
                               struct lake_error *err)
{
    struct meta_name name;
    struct meta_claim maintenance;
    struct meta_claim history;
    struct lance_cleanup_options options;
    struct lance_cleanup_stats stats;
    char operation_id[BASE_UUID_TEXT_BYTES];
    lake_status status = meta_identity_name(identity, request->name, &name, err);
    if (status == LAKE_OK)
        status = read_options(authority, request, &options, operation_id, err);
    if (status == LAKE_OK)
        status = meta_maintenance_enter(authority, &name, wait, &maintenance, err);
    if (status != LAKE_OK)
        return status;
    status = meta_history_enter(authority, &name, wait, &history, err);
    if (status == LAKE_OK) {
        status = cleanup_held(authority, &name, wait, &options, &stats, err);
        meta_gate_leave(&authority->gates, &history);
    }
    meta_gate_leave(&authority->gates, &maintenance);
    if (status != LAKE_OK)
        return status;
    if (!options.dry_run)
        say(&name, operation_id, &stats);
    return pack(&stats, out, err);
}
