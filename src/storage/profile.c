/* ~/.aws/config and ~/.aws/credentials: sections of name = value. */
#include "credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void profile_fini(struct profile *profile)
{
    for (size_t i = 0; i < profile->count; i++) {
        struct profile_value *value = &profile->values[i];
        if (value->value != NULL)
            OPENSSL_cleanse(value->value, strlen(value->value));
        base_free(value->value);
        base_free(value->name);
    }
    *profile = (struct profile){.count = 0};
}

const char *profile_get(const struct profile *profile, const char *name)
{
    for (size_t i = 0; i < profile->count; i++) {
        if (strcmp(profile->values[i].name, name) == 0)
            return profile->values[i].value;
    }
    return NULL;
}

/* "[profile x]" or "[x]" names `name`. */
static bool section_is(struct lake_str line, const char *name, bool is_config)
{
    struct lake_str title = base_str_trim((struct lake_str){line.data + 1, line.size - 2});
    if (is_config && base_str_has_prefix(title, "profile") && title.size > 7 &&
        (title.data[7] == ' ' || title.data[7] == '\t'))
        title = base_str_trim((struct lake_str){title.data + 7, title.size - 7});
    else if (is_config && !base_str_equal_c(title, "default"))
        return false;
    return base_str_equal_c(title, name);
}

static lake_status add_value(struct profile *profile, const char *outer, struct lake_str name,
                             struct lake_str value, struct lake_error *err)
{
    char *full = outer == NULL ? base_strndup(name.data, name.size)
                               : base_format("%s.%.*s", outer, LAKE_STR_FMT(name));
    char *copy = base_strndup(value.data, value.size);
    if (full == NULL || copy == NULL || profile_get(profile, full) != NULL ||
        profile->count == PROFILE_MAX_VALUES) {
        lake_status status =
            full == NULL || copy == NULL ? base_fail_no_memory(err, value.size) : LAKE_OK;
        if (status == LAKE_OK && profile_get(profile, full) == NULL)
            status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                               "an AWS profile has more than %d settings", PROFILE_MAX_VALUES);
        if (copy != NULL)
            OPENSSL_cleanse(copy, value.size);
        base_free(copy);
        base_free(full);
        return status;
    }
    profile->values[profile->count++] = (struct profile_value){full, copy};
    return LAKE_OK;
}

struct parse {
    struct profile *profile;
    const char *path;
    const char *name;
    bool is_config;
    bool inside; /* in the profile's section */
    size_t line;
    size_t owner; /* index + 1 of the setting that indented lines belong to */
};

/* Lines never appear in messages: they may hold secrets. */
static lake_status parse_line(struct parse *parse, struct lake_str raw, struct lake_error *err)
{
    bool indented = raw.size > 0 && (raw.data[0] == ' ' || raw.data[0] == '\t');
    struct lake_str line = base_str_trim(raw);
    if (line.size == 0 || line.data[0] == '#' || line.data[0] == ';')
        return LAKE_OK;
    if (!indented && line.data[0] == '[') {
        if (line.data[line.size - 1] != ']' || line.size < 3)
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "%s, line %zu: a section's name must end with ']'", parse->path,
                             parse->line);
        parse->inside = section_is(line, parse->name, parse->is_config);
        parse->profile->found = parse->profile->found || parse->inside;
        parse->owner = 0;
        return LAKE_OK;
    }
    if (!parse->inside)
        return LAKE_OK;
    const char *equals = memchr(line.data, '=', line.size);
    if (equals == NULL || equals == line.data) {
        if (indented)
            return LAKE_OK; /* the rest of a value of several lines, none of which is ours */
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "%s, line %zu: neither a section nor name = value", parse->path,
                         parse->line);
    }
    struct lake_str name =
        base_str_trim((struct lake_str){line.data, (size_t)(equals - line.data)});
    struct lake_str value =
        base_str_trim((struct lake_str){equals + 1, line.size - (size_t)(equals - line.data) - 1});
    const char *outer = NULL;
    if (indented && parse->owner > 0)
        outer = parse->profile->values[parse->owner - 1].name;
    else if (indented)
        return LAKE_OK;
    size_t before = parse->profile->count;
    lake_status status = add_value(parse->profile, outer, name, value, err);
    if (status == LAKE_OK && !indented)
        parse->owner = value.size == 0 && parse->profile->count > before ? before + 1 : 0;
    return status;
}

lake_status profile_parse(struct profile *profile, struct lake_str text, const char *path,
                          const char *name, bool is_config, struct lake_error *err)
{
    struct parse parse = {profile, path, name, is_config, false, 0, 0};
    if (text.size > 0 && memchr(text.data, '\0', text.size) != NULL)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "%s is not a text file", path);
    while (text.size > 0) {
        const char *end = memchr(text.data, '\n', text.size);
        size_t size = end == NULL ? text.size : (size_t)(end - text.data);
        parse.line++;
        lake_status status = parse_line(&parse, (struct lake_str){text.data, size}, err);
        if (status != LAKE_OK)
            return status;
        size += end != NULL;
        text = (struct lake_str){text.data + size, text.size - size};
    }
    return LAKE_OK;
}

/* ---- the files ---- */

/* NULL with LAKE_OK: the file is not there. */
static lake_status read_file(const char *path, char **out, size_t *size, struct lake_error *err)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *out = NULL;
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? LAKE_OK
                   : base_fail_errno(err, errno, "%s cannot be opened", path);
    lake_status status = LAKE_OK;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
        (uint64_t)info.st_size > PROFILE_MAX_FILE_BYTES)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "%s is not a file of at most %zu bytes",
                           path, PROFILE_MAX_FILE_BYTES);
    char *text = status == LAKE_OK ? base_alloc((size_t)info.st_size + 1) : NULL;
    if (status == LAKE_OK && text == NULL)
        status = base_fail_no_memory(err, (size_t)info.st_size);
    size_t done = 0;
    while (status == LAKE_OK && done < (size_t)info.st_size) {
        ssize_t got = read(fd, text + done, (size_t)info.st_size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            status = base_fail_errno(err, errno, "%s cannot be read", path);
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    (void)close(fd);
    if (status != LAKE_OK) {
        base_free(text);
        return status;
    }
    *out = text;
    *size = done;
    return LAKE_OK;
}

static lake_status load_one(struct profile *profile, const char *variable, const char *below_home,
                            const char *name, bool is_config, struct lake_error *err)
{
    const char *path = base_config_string(variable, NULL);
    const char *home = base_config_string("HOME", NULL);
    if (path == NULL && home == NULL)
        return LAKE_OK;
    char *full = path != NULL ? base_strdup(path) : base_format("%s/%s", home, below_home);
    if (full == NULL)
        return base_fail_no_memory(err, 0);
    char *text;
    size_t size = 0;
    lake_status status = read_file(full, &text, &size, err);
    if (status == LAKE_OK && text != NULL) {
        status = profile_parse(profile, (struct lake_str){text, size}, full, name, is_config, err);
        OPENSSL_cleanse(text, size);
        base_free(text);
    }
    base_free(full);
    return status;
}

lake_status profile_load(const char *name, struct profile *out, struct lake_error *err)
{
    struct profile profile = {.count = 0};
    /* What the credentials file says wins. */
    lake_status status =
        load_one(&profile, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", name, false, err);
    if (status == LAKE_OK)
        status = load_one(&profile, "AWS_CONFIG_FILE", ".aws/config", name, true, err);
    if (status != LAKE_OK) {
        profile_fini(&profile);
        return status;
    }
    *out = profile;
    return LAKE_OK;
}
