/*
 * AWS credentials: where they come from, and having fresh ones before the old ones end.
 *
 * The chain, first one configured wins: environment; web identity by environment; the profile in
 * the shared files (keys, or web identity); the container's service; the instance's. A source that
 * is configured and fails is an error: falling through to another identity would be worse.
 */
#ifndef STORAGE_CREDENTIALS_H
#define STORAGE_CREDENTIALS_H

#include "sign.h"

/* Immutable once made; shared by reference. */
struct credentials {
    char *access_key_id;
    struct base_secret secret_key;
    struct base_secret session_token; /* empty: none */
    int64_t expires_unix_ms;          /* INT64_MAX: never */
    unsigned references;              /* guarded by the source's lock */
};

struct credentials_source;

struct credentials_options {
    const char *profile;               /* NULL: AWS_PROFILE, else "default" */
    const char *region;                /* for STS; NULL: us-east-1 */
    const struct sign_identity *fixed; /* not NULL: these and no others */
    const char *ca_file;
    int64_t metadata_timeout_ms; /* for each request to a local service */
};

lake_status credentials_source_new(const struct credentials_options *options,
                                   struct credentials_source **out, struct lake_error *err);
void credentials_source_free(struct credentials_source *source); /* NULL is allowed */
/* The present ones, fetched when there are none or they end soon; one thread fetches, the others
 * go on with the old ones while these live. UNAUTHENTICATED when the chain has none. */
lake_status credentials_get(struct credentials_source *source, struct credentials **out,
                            struct lake_error *err);
void credentials_put(struct credentials_source *source, struct credentials *credentials);
/* A server said that these have expired: the next get fetches. False when there is nothing newer
 * to be had from this source. */
bool credentials_expired(struct credentials_source *source, const struct credentials *credentials);

struct sign_identity credentials_identity(const struct credentials *credentials);

/* ---- the shared files ---- */

#define PROFILE_MAX_FILE_BYTES ((size_t)1024 * 1024)
#define PROFILE_MAX_VALUES     32

/* What one profile says; names as in the file, "s3.addressing_style" for nested ones. */
struct profile {
    struct profile_value {
        char *name;
        char *value; /* may be a secret: zeroed in the end */
    } values[PROFILE_MAX_VALUES];
    size_t count;
    bool found;
};

/* Adds what `text`, a file named `path`, says about `name`; what is there already stays. In the
 * configuration file sections are called "profile x", in the credentials file "x". */
lake_status profile_parse(struct profile *profile, struct lake_str text, const char *path,
                          const char *name, bool is_config, struct lake_error *err);
/* Both files, at the places the environment says; absent ones say nothing. */
lake_status profile_load(const char *name, struct profile *out, struct lake_error *err);
const char *profile_get(const struct profile *profile, const char *name); /* NULL: not there */
void profile_fini(struct profile *profile);

/* ---- replies of services that hand out credentials ---- */

/* {"AccessKeyId": …, "SecretAccessKey": …, "Token": …, "Expiration": …} */
lake_status credentials_parse_json(struct lake_bytes text, struct credentials **out,
                                   struct lake_error *err);
/* AssumeRoleWithWebIdentityResponse. */
lake_status credentials_parse_sts(struct lake_bytes text, struct credentials **out,
                                  struct lake_error *err);
lake_status credentials_new(struct lake_str access_key_id, struct lake_bytes secret_key,
                            struct lake_str session_token, int64_t expires_unix_ms,
                            struct credentials **out, struct lake_error *err);
void credentials_destroy(struct credentials *credentials);

/* Fetch from a service; credentials_remote.c. NOT_FOUND: not configured here. */
lake_status credentials_fetch_web_identity(const struct credentials_options *options,
                                           const struct profile *profile, struct credentials **out,
                                           struct lake_error *err);
lake_status credentials_fetch_container(const struct credentials_options *options,
                                        struct credentials **out, struct lake_error *err);
lake_status credentials_fetch_instance(const struct credentials_options *options,
                                       struct credentials **out, struct lake_error *err);

/* "2026-11-30T01:02:03Z", with or without a fraction; "Mon, 30 Nov 2026 01:02:03 GMT". */
bool time_parse_iso(struct lake_str text, int64_t *unix_ms);
bool time_parse_http(struct lake_str text, int64_t *unix_ms);

#endif
