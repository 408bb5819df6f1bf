/* What the options leave open: the environment's word, then the shared configuration's. */
#include "s3.h"

#include <string.h>

static const char *chosen_profile(const char *profile)
{
    return profile != NULL ? profile : base_config_string("AWS_PROFILE", "default");
}

lake_status s3_settings_profile(const char *name, struct profile *out, struct lake_error *err)
{
    return profile_load(chosen_profile(name), out, err);
}

static const char *first(const char *a, const char *b, const char *c, const char *fallback)
{
    return a != NULL ? a : b != NULL ? b : c != NULL ? c : fallback;
}

struct s3_settings s3_settings_of(const struct storage_s3_options *options,
                                  const struct profile *profile)
{
    struct s3_settings settings = {.addressing = options->addressing};
    const char *style = profile_get(profile, "s3.addressing_style");
    const char *environment = base_config_string("AWS_ENDPOINT_URL_S3", NULL);
    if (environment == NULL)
        environment = base_config_string("AWS_ENDPOINT_URL", NULL);
    settings.endpoint =
        first(options->endpoint, environment, profile_get(profile, "endpoint_url"), NULL);
    environment = base_config_string("AWS_REGION", base_config_string("AWS_DEFAULT_REGION", NULL));
    settings.region =
        first(options->region, environment, profile_get(profile, "region"), "us-east-1");
    settings.ca_file = first(options->ca_file, base_config_string("AWS_CA_BUNDLE", NULL),
                             profile_get(profile, "ca_bundle"), NULL);
    if (settings.addressing == STORAGE_S3_ADDRESS_AUTO && style != NULL) {
        if (strcmp(style, "path") == 0)
            settings.addressing = STORAGE_S3_ADDRESS_PATH;
        else if (strcmp(style, "virtual") == 0)
            settings.addressing = STORAGE_S3_ADDRESS_VIRTUAL;
    }
    return settings;
}
