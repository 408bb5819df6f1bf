/*
 * Digests of an object's chunks, by which a part of it can be verified.
 *
 * An upload hashes every 64 KiB of the object and stores these digests in a record beside it, named
 * as the object with ".chunks" behind. Past CHUNK_MAX_DIGESTS neighbours are combined, two into
 * one, so a record has at most 4 MiB whatever the object's size: the digest of a chunk of 128 KiB
 * is the SHA-256 of those of its halves, and so on; a last one without a neighbour stays as it is.
 * It is a level of the Merkle tree over all of them.
 *
 * The record, in little endian: "LAKECHNK"; version (u32, 1); level (u32: a chunk has 64 KiB <<
 * level); the object's size (u64) and SHA-256 (32 bytes); a SHA-256 of each chunk; the SHA-256 of
 * all before. An object of at most one chunk needs none: its own SHA-256 says the same.
 */
#ifndef CLIENT_CHUNK_DIGESTS_H
#define CLIENT_CHUNK_DIGESTS_H

#include <lake/lake.h>
#include <storage/storage.h>

#define CHUNK_BYTES ((int64_t)64 * 1024)
#ifndef CHUNK_MAX_DIGESTS /* a test has fewer */
#define CHUNK_MAX_DIGESTS ((size_t)128 * 1024)
#endif
#define CHUNK_RECORD_SUFFIX    ".chunks"
#define CHUNK_MAX_RECORD_BYTES (CHUNK_MAX_DIGESTS * BASE_SHA256_BYTES + 128)

/* ---- while an object is uploaded ---- */

struct chunk_builder;

lake_status chunk_builder_new(struct chunk_builder **out, struct lake_error *err);
/* The object's next bytes. */
lake_status chunk_builder_update(struct chunk_builder *builder, struct lake_bytes data,
                                 struct lake_error *err);
/* The SHA-256 of all these bytes, and their record, appended to `out`: none when there is at most
 * one chunk. The builder is at its end. */
lake_status chunk_builder_finish(struct chunk_builder *builder, uint8_t sha256[BASE_SHA256_BYTES],
                                 struct base_buffer *out, struct lake_error *err);
void chunk_builder_free(struct chunk_builder *builder); /* NULL is allowed */

/* The key of an object's record; base_free it. */
lake_status chunk_record_key(struct lake_str key, char **out, struct lake_error *err);
/* How many bytes the record of an object has; 0 when it needs none. */
int64_t chunk_record_bytes(int64_t size_bytes);

/* ---- while one is read ---- */

struct chunk_digests {
    int64_t size_bytes; /* of the object */
    int64_t chunk_bytes;
    uint8_t sha256[BASE_SHA256_BYTES]; /* of the object */
    uint8_t *digests;
    size_t count;
    struct base_sha256 *hash; /* for checking, by one thread */
};

/* Reads a record. DATA_LOSS when it is none or damaged. Release with chunk_digests_free. */
lake_status chunk_digests_parse(struct lake_bytes record, struct chunk_digests **out,
                                struct lake_error *err);
/* Those of the object at `key`, bound to its location: DATA_LOSS when its record is damaged or of
 * another object. NULL when it has none, or none that may be read. */
lake_status chunk_digests_load(struct storage_store *store, struct lake_str key,
                               const struct lake_data_location *location,
                               struct chunk_digests **out, struct lake_error *err);
/* That these are whole chunks, from the one at `offset` on; the object's last may be shorter.
 * DATA_LOSS when one is not what was stored. */
lake_status chunk_digests_check(const struct chunk_digests *digests, int64_t offset,
                                struct lake_bytes data, struct lake_error *err);
void chunk_digests_free(struct chunk_digests *digests); /* NULL is allowed */

#endif
