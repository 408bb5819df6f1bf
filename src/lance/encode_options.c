/*
 * What the writer is asked to do with a column: the table's profile, above it what the metadata of
 * its top-level field says under Lance's standard keys, and above that what its own says. A value
 * that is not known is as good as none, so that a table stays writable whatever its maker put
 * there.
 */
#include "file_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_PREFIX "lance-encoding:"

static const char *const profile_names[] = {[LANCE_PROFILE_BALANCED] = "balanced",
                                            [LANCE_PROFILE_FAST] = "fast",
                                            [LANCE_PROFILE_SMALL] = "small"};

const char *lance_profile_name(enum lance_profile profile)
{
    return profile_names[profile];
}

bool lance_profile_parse(const char *name, enum lance_profile *out)
{
    for (size_t i = 0; i < BASE_ARRAY_LEN(profile_names); i++) {
        if (strcmp(name, profile_names[i]) == 0) {
            *out = (enum lance_profile)i;
            return true;
        }
    }
    return false;
}

/* Larger chunks compress better, but who reads one row reads and decompresses a whole one. */
static const struct lance_encode_options profiles[] = {
    [LANCE_PROFILE_BALANCED] = {.scheme = LANCE_LZ4,
                                .min_saving = 15,
                                .fsst = true,
                                .rle_limit = 0.25,
                                .dictionary_divisor = 4,
                                .dictionary_ratio = 0.8,
                                .chunk_bytes = 8 << 10},
    [LANCE_PROFILE_FAST] = {.rle_limit = 0.25,
                            .dictionary_divisor = 4,
                            .dictionary_ratio = 0.8,
                            .chunk_bytes = 64 << 10},
    [LANCE_PROFILE_SMALL] = {.scheme = LANCE_ZSTD,
                             .level = 3,
                             .min_saving = 2,
                             .fsst = true,
                             .rle_limit = 0.5,
                             .dictionary_divisor = 4,
                             .dictionary_ratio = 0.95,
                             .chunk_bytes = 256 << 10},
};

struct settings {
    const struct lance_field *leaf;
    const struct lance_field *top;
};

static const char *setting(const struct settings *settings, const char *name)
{
    char key[64];
    (void)snprintf(key, sizeof(key), KEY_PREFIX "%s", name);
    const char *own = lance_field_metadata(settings->leaf, key);
    return own != NULL ? own : lance_field_metadata(settings->top, key);
}

/* A number within [low, high]. */
static bool number_setting(const struct settings *settings, const char *name, double low,
                           double high, double *out)
{
    const char *text = setting(settings, name);
    char *end = NULL;
    if (text == NULL || *text == '\0')
        return false;
    double value = strtod(text, &end);
    if (*end != '\0' || !(value >= low && value <= high))
        return false;
    *out = value;
    return true;
}

static void set_compression(const struct settings *settings, struct lance_encode_options *out)
{
    const char *name = setting(settings, "compression");
    double level;
    if (name == NULL)
        return;
    if (strcmp(name, "none") == 0) {
        out->scheme = 0;
        out->fsst = false;
    } else if (strcmp(name, "fsst") == 0) {
        out->scheme = 0;
        out->fsst = true;
    } else if (strcmp(name, "lz4") == 0 || strcmp(name, "zstd") == 0) {
        out->scheme = name[0] == 'l' ? LANCE_LZ4 : LANCE_ZSTD;
        out->fsst = false;
        out->min_saving = 0;
        out->level = number_setting(settings, "compression-level", -7, 22, &level) ? (int)level : 1;
    }
}

void lance_encode_options_of(enum lance_profile profile, uint32_t minor,
                             const struct lance_field *leaf, const struct lance_field *top,
                             struct lance_encode_options *out)
{
    const struct settings settings = {leaf, top};
    const char *text;
    double number;
    *out = profiles[profile];
    out->minor = minor;
    if (minor < 2) /* a chunk has at most 32 KiB, and what does not compress must still fit */
        out->chunk_bytes = BASE_MIN(out->chunk_bytes, (uint64_t)16 << 10);
    set_compression(&settings, out);
    text = setting(&settings, "bss");
    out->split_never = text != NULL && strcmp(text, "off") == 0;
    out->split_always = text != NULL && strcmp(text, "on") == 0;
    if (number_setting(&settings, "rle-threshold", 0, 1, &number))
        out->rle_limit = number;
    if (number_setting(&settings, "dict-divisor", 1, 1e9, &number))
        out->dictionary_divisor = (uint64_t)number;
    if (number_setting(&settings, "dict-size-ratio", 0, 1, &number))
        out->dictionary_ratio = number;
    if (number_setting(&settings, "minichunk-size", 64, (double)out->chunk_bytes, &number))
        out->chunk_bytes = (uint64_t)number;
    text = setting(&settings, "structural-encoding");
    out->always_full_zip = text != NULL && strcmp(text, "fullzip") == 0;
    out->always_mini_block = text != NULL && strcmp(text, "miniblock") == 0;
}
