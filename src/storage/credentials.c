/* Credentials as objects, the chain that finds them, and their refresh. */
#include "credentials.h"

#include <inttypes.h>
#include <string.h>

/* Long before the end they are renewed if it works; from `NEEDED` on it has to. */
#define REFRESH_AHEAD_MS  ((int64_t)5 * 60 * 1000)
#define REFRESH_NEEDED_MS ((int64_t)30 * 1000)
#define RENEW_PAUSE_MS    ((int64_t)2 * 1000) /* between renewals that are not needed yet */

struct credentials_source {
    struct credentials_options options;
    char *profile, *region, *ca_file;
    bool fixed;
    pthread_mutex_t lock; /* guards what follows, and the references of credentials */
    pthread_cond_t fetched;
    struct credentials *current;
    bool fetching;
    int64_t renew_unix_ms;
};

lake_status credentials_new(struct lake_str access_key_id, struct lake_bytes secret_key,
                            struct lake_str session_token, int64_t expires_unix_ms,
                            struct credentials **out, struct lake_error *err)
{
    if (access_key_id.size == 0 || secret_key.size == 0)
        return lake_fail(err, LAKE_UNAUTHENTICATED,
                         "AWS credentials need an access key and a secret key");
    struct credentials *credentials = base_calloc_array(1, sizeof(*credentials));
    if (credentials == NULL)
        return base_fail_no_memory(err, sizeof(*credentials));
    credentials->references = 1;
    credentials->expires_unix_ms = expires_unix_ms;
    credentials->access_key_id = base_strndup(access_key_id.data, access_key_id.size);
    lake_status status = credentials->access_key_id == NULL ? base_fail_no_memory(err, 0) : LAKE_OK;
    if (status == LAKE_OK)
        status = base_secret_copy(&credentials->secret_key, secret_key, err);
    if (status == LAKE_OK && session_token.size > 0)
        status =
            base_secret_copy(&credentials->session_token, base_bytes_of_str(session_token), err);
    if (status != LAKE_OK) {
        credentials_destroy(credentials);
        return status;
    }
    *out = credentials;
    return LAKE_OK;
}

void credentials_destroy(struct credentials *credentials)
{
    if (credentials == NULL)
        return;
    base_secret_fini(&credentials->secret_key);
    base_secret_fini(&credentials->session_token);
    base_free(credentials->access_key_id);
    base_free(credentials);
}

struct sign_identity credentials_identity(const struct credentials *credentials)
{
    return (struct sign_identity){
        base_str_of(credentials->access_key_id),
        {credentials->secret_key.data, credentials->secret_key.size},
        {(const char *)credentials->session_token.data, credentials->session_token.size}};
}

/* ---- the chain ---- */

static lake_status from_strings(const char *id, const char *secret, const char *token,
                                struct credentials **out, struct lake_error *err)
{
    return credentials_new(base_str_of(id), base_bytes_of_str(base_str_of(secret)),
                           base_str_of(token), INT64_MAX, out, err);
}

static lake_status from_environment(struct credentials **out, struct lake_error *err)
{
    const char *id = base_config_string("AWS_ACCESS_KEY_ID", NULL);
    const char *secret = base_config_string("AWS_SECRET_ACCESS_KEY", NULL);
    if (id == NULL && secret == NULL)
        return LAKE_NOT_FOUND;
    if (id == NULL || secret == NULL)
        return lake_fail(err, LAKE_UNAUTHENTICATED,
                         "of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only one is set");
    return from_strings(id, secret, base_config_string("AWS_SESSION_TOKEN", NULL), out, err);
}

static lake_status from_profile(const struct credentials_options *options, const char *name,
                                const struct profile *profile, struct credentials **out,
                                struct lake_error *err)
{
    if (profile_get(profile, "web_identity_token_file") != NULL)
        return credentials_fetch_web_identity(options, profile, out, err);
    const char *id = profile_get(profile, "aws_access_key_id");
    const char *secret = profile_get(profile, "aws_secret_access_key");
    if (id != NULL && secret != NULL)
        return from_strings(id, secret, profile_get(profile, "aws_session_token"), out, err);
    if (id != NULL || secret != NULL)
        return lake_fail(err, LAKE_UNAUTHENTICATED,
                         "the AWS profile %s has only one of aws_access_key_id and "
                         "aws_secret_access_key",
                         name);
    static const char *const unsupported[] = {"role_arn", "credential_process", "sso_session",
                                              "sso_start_url"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(unsupported); i++) {
        if (profile_get(profile, unsupported[i]) != NULL)
            return lake_fail(err, LAKE_UNIMPLEMENTED,
                             "the AWS profile %s gets its credentials by %s, which is not "
                             "supported: export them into the environment instead",
                             name, unsupported[i]);
    }
    return LAKE_NOT_FOUND;
}

static lake_status walk_chain(const struct credentials_options *options, struct credentials **out,
                              struct lake_error *err)
{
    struct profile profile = {.count = 0};
    const char *chosen =
        options->profile != NULL ? options->profile : base_config_string("AWS_PROFILE", NULL);
    const char *name = chosen == NULL ? "default" : chosen;
    lake_status status = LAKE_NOT_FOUND;
    if (options->profile == NULL)
        status = from_environment(out, err);
    if (status == LAKE_NOT_FOUND && options->profile == NULL)
        status = credentials_fetch_web_identity(options, NULL, out, err);
    if (status == LAKE_NOT_FOUND) {
        status = profile_load(name, &profile, err);
        if (status == LAKE_OK && chosen != NULL && !profile.found)
            status = lake_fail(err, LAKE_UNAUTHENTICATED,
                               "there is no AWS profile %s in the shared files", name);
        if (status == LAKE_OK)
            status = from_profile(options, name, &profile, out, err);
    }
    if (status == LAKE_NOT_FOUND)
        status = credentials_fetch_container(options, out, err);
    if (status == LAKE_NOT_FOUND)
        status = credentials_fetch_instance(options, out, err);
    profile_fini(&profile);
    if (status == LAKE_NOT_FOUND)
        return lake_fail(err, LAKE_UNAUTHENTICATED,
                         "no AWS credentials were found: set AWS_ACCESS_KEY_ID and "
                         "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where a container or "
                         "instance role gives them");
    return status;
}

/* ---- the source ---- */

static bool copy_string(const char *from, char **to)
{
    if (from == NULL)
        return true;
    *to = base_strdup(from);
    return *to != NULL;
}

lake_status credentials_source_new(const struct credentials_options *options,
                                   struct credentials_source **out, struct lake_error *err)
{
    struct credentials_source *source = base_calloc_array(1, sizeof(*source));
    if (source == NULL)
        return base_fail_no_memory(err, sizeof(*source));
    (void)pthread_mutex_init(&source->lock, NULL);
    (void)pthread_cond_init(&source->fetched, NULL);
    lake_status status = LAKE_OK;
    if (!copy_string(options->profile, &source->profile) ||
        !copy_string(options->region, &source->region) ||
        !copy_string(options->ca_file, &source->ca_file))
        status = base_fail_no_memory(err, 0);
    source->options =
        (struct credentials_options){.profile = source->profile,
                                     .region = source->region,
                                     .ca_file = source->ca_file,
                                     .metadata_timeout_ms = options->metadata_timeout_ms};
    if (status == LAKE_OK && options->fixed != NULL) {
        source->fixed = true;
        status = credentials_new(options->fixed->access_key_id, options->fixed->secret_key,
                                 options->fixed->session_token, INT64_MAX, &source->current, err);
    }
    if (status != LAKE_OK) {
        credentials_source_free(source);
        return status;
    }
    *out = source;
    return LAKE_OK;
}

void credentials_source_free(struct credentials_source *source)
{
    if (source == NULL)
        return;
    if (source->current != NULL)
        credentials_put(source, source->current);
    (void)pthread_cond_destroy(&source->fetched);
    (void)pthread_mutex_destroy(&source->lock);
    base_free(source->profile);
    base_free(source->region);
    base_free(source->ca_file);
    base_free(source);
}

/* With the lock held. */
static void drop_current(struct credentials_source *source)
{
    if (source->current != NULL && --source->current->references == 0)
        credentials_destroy(source->current);
    source->current = NULL;
}

/* With the lock held; gives it up meanwhile. What is there stays when the fetch fails. */
static lake_status fetch(struct credentials_source *source, struct lake_error *err)
{
    struct credentials *fresh = NULL;
    source->fetching = true;
    (void)pthread_mutex_unlock(&source->lock);
    lake_status status = walk_chain(&source->options, &fresh, err);
    (void)pthread_mutex_lock(&source->lock);
    source->fetching = false;
    source->renew_unix_ms = base_clock_unix_ms() + RENEW_PAUSE_MS;
    if (status == LAKE_OK) {
        drop_current(source);
        source->current = fresh;
    }
    (void)pthread_cond_broadcast(&source->fetched);
    return status;
}

lake_status credentials_get(struct credentials_source *source, struct credentials **out,
                            struct lake_error *err)
{
    lake_status status = LAKE_OK;
    (void)pthread_mutex_lock(&source->lock);
    for (;;) {
        int64_t now = base_clock_unix_ms();
        int64_t left = source->current == NULL ? 0 : source->current->expires_unix_ms - now;
        if (left > REFRESH_AHEAD_MS ||
            (left > REFRESH_NEEDED_MS && (source->fetching || now < source->renew_unix_ms)))
            break;
        if (source->fetching) {
            (void)pthread_cond_wait(&source->fetched, &source->lock);
            continue;
        }
        status = fetch(source, err);
        if (status == LAKE_OK)
            break; /* whatever their life, there are no others */
        if (source->current == NULL ||
            source->current->expires_unix_ms - base_clock_unix_ms() <= REFRESH_NEEDED_MS)
            break;
        base_log(BASE_LOG_WARN, "AWS credentials could not be renewed ahead of their end", NULL);
        status = LAKE_OK;
        break;
    }
    if (status == LAKE_OK) {
        source->current->references++;
        *out = source->current;
    }
    (void)pthread_mutex_unlock(&source->lock);
    return status;
}

void credentials_put(struct credentials_source *source, struct credentials *credentials)
{
    (void)pthread_mutex_lock(&source->lock);
    bool last = --credentials->references == 0;
    (void)pthread_mutex_unlock(&source->lock);
    if (last)
        credentials_destroy(credentials);
}

bool credentials_expired(struct credentials_source *source, const struct credentials *credentials)
{
    bool hope = true;
    (void)pthread_mutex_lock(&source->lock);
    if (source->fixed)
        hope = false;
    else if (source->current == credentials) {
        drop_current(source);
        source->renew_unix_ms = 0;
    }
    (void)pthread_mutex_unlock(&source->lock);
    return hope;
}
