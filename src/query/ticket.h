/*
 * Statement tickets (TIX-1..TIX-4): what GetFlightInfo resolved, sealed for DoGet on any replica.
 *
 * Form: one byte of protocol version, four bytes that name the key (the head of its SHA-256), a
 * 12-byte nonce, the AES-256-GCM ciphertext, its 16-byte tag; version and key name are
 * authenticated too. Bound to principal, tenant, audience, purpose and time.
 */
#ifndef QUERY_TICKET_H
#define QUERY_TICKET_H

#include <base/base.h>
#include <rpc/rpc.h>

#define QUERY_TICKET_PROTOCOL      1
#define QUERY_TICKET_CLOCK_SKEW_MS 5000 /* between replicas */

/* The key ring: one active key, which seals, and up to three that only open. Thread-safe. */
struct query_ticket_keys;
/* `path` NULL: an ephemeral key, for a loopback listener only (TIX-2). The file is JSON, mode 0600:
 * {"active": "<64 hex digits>", "verification": ["<64 hex digits>", …]}. */
lake_status query_ticket_keys_open(const char *path, struct query_ticket_keys **out,
                                   struct lake_error *err);
void query_ticket_keys_free(struct query_ticket_keys *keys); /* NULL is allowed */

enum query_ticket_purpose {
    QUERY_TICKET_STATEMENT = 1,
    QUERY_TICKET_PREPARED = 2
};

struct query_pin {
    struct lake_str catalog, schema, table; /* as the statement wrote them */
    uint64_t at_version;
    struct lake_str location, engine, incarnation;
    uint64_t version;
};

struct query_ticket { /* views; of an opened one, into its arena */
    enum query_ticket_purpose purpose;
    struct lake_str sql;
    const struct query_pin *pins;
    size_t pin_count;
    struct lake_bytes schema_sha256; /* may be empty */
    struct base_arena *memory;       /* of an opened one */
};

/* `out` is cleared first. */
lake_status query_ticket_seal(const struct query_ticket_keys *keys,
                              const struct query_ticket *ticket,
                              const struct rpc_principal *principal, struct lake_str audience,
                              int64_t now_unix_ms, int64_t ttl_ms, struct base_buffer *out,
                              struct lake_error *err);
/* UNAUTHENTICATED, with one text, for bytes that were changed, sealed by an unknown key, or for
 * another principal, tenant, audience or purpose; FAILED_PRECONDITION when it has expired or is of
 * another protocol version. */
lake_status query_ticket_open(const struct query_ticket_keys *keys, struct lake_bytes sealed,
                              enum query_ticket_purpose purpose,
                              const struct rpc_principal *principal, struct lake_str audience,
                              int64_t now_unix_ms, struct query_ticket *out,
                              struct lake_error *err);
void query_ticket_fini(struct query_ticket *ticket);

#endif
