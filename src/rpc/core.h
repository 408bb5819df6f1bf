/*
 * What server and client share: gRPC's start and end, message bytes in and out, status codes.
 */
#ifndef RPC_CORE_H
#define RPC_CORE_H

#include "rpc.h"
#include <grpc/grpc.h>

/* gRPC hands memory from one thread to another behind ThreadSanitizer's back: these tell it so. */
#if defined(__SANITIZE_THREAD__)
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define RPC_HAND_OVER(address) __tsan_release(address)
#define RPC_TAKE_OVER(address) __tsan_acquire(address)
#else
#define RPC_HAND_OVER(address) ((void)(address))
#define RPC_TAKE_OVER(address) ((void)(address))
#endif

/* Starts gRPC, which then stays up until the process ends: its own shutdown waits as long as 10 s
 * for the poller that it starts when a socket is full. Signals stay blocked in the threads that it
 * starts, so that the program's own handling of them is undisturbed (F11). */
void rpc_core_start(void);

struct lake_str rpc_slice_view(const grpc_slice *slice); /* lives as long as `*slice` stays put */
struct lake_str rpc_metadata_find(const grpc_metadata_array *metadata, const char *name);

/* Takes over every release of `parts`, also on failure. */
lake_status rpc_message_new(struct rpc_part *parts, size_t part_count, grpc_byte_buffer **out,
                            struct lake_error *err);
/* Gathers a received message into one piece; `buffer` stays the caller's. UNIMPLEMENTED for a
 * compressed one. */
lake_status rpc_payload_gather(grpc_byte_buffer *buffer, struct rpc_payload *out,
                               struct lake_error *err);

/* Trailing header with the number of a Lake status. It is sent with each error a handler returned:
 * it carries what gRPC has no code for, and marks the message as the server's own. */
#define RPC_STATUS_HEADER "lake-status"
grpc_status_code rpc_status_to_grpc(lake_status status);
/* The Lake status of a gRPC code and the header's value (maybe empty); *own tells whether the
 * server itself wrote the message. */
lake_status rpc_status_from_grpc(grpc_status_code code, struct lake_str header, bool *own);

/* Now plus `ms`, on gRPC's monotonic clock; INT64_MAX is for ever. */
gpr_timespec rpc_deadline_after(int64_t ms);

bool rpc_header_name_valid(const char *name); /* lower-case, not -bin, not gRPC's own */
bool rpc_header_value_valid(struct lake_str value);

/* ---- addresses ---- */

#define RPC_HOST_MAX_BYTES 256
struct rpc_address {
    char host[RPC_HOST_MAX_BYTES]; /* without brackets */
    uint16_t port;
};
/* "host:port" or "[v6]:port". */
lake_status rpc_address_parse(const char *text, struct rpc_address *out, struct lake_error *err);
/* Every address that the host stands for is a loopback one. */
lake_status rpc_address_is_loopback(const struct rpc_address *address, bool *out,
                                    struct lake_error *err);
/* Binds and closes, for a precise reason: gRPC itself only tells that it could not. */
lake_status rpc_address_probe(const struct rpc_address *address, const char *text,
                              struct lake_error *err);

/* ---- TLS ---- */

/* Reads and checks a certificate chain and its key, in PEM. */
lake_status rpc_tls_server_credentials(const char *cert_path, const char *key_path,
                                       grpc_server_credentials **out, struct lake_error *err);

#endif
