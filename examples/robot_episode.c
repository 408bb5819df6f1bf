/*
 * Robot episodes with their videos and point clouds into one table, all as one version.
 *
 *     robot_episode HOST:PORT NAMESPACE.TABLE DIRECTORY
 *
 * DIRECTORY/episodes.csv has a line an episode: number,task,steps,success,video,cloud; video and
 * cloud are paths below DIRECTORY, cloud may be empty. The table is
 *
 *     lake table create robots.episodes --column episode:int64! --column task:utf8 \
 *         --column steps:int32 --column success:bool --column video:FILE --column cloud:FILE
 */
#include <lake/lake.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EPISODES 10000
#define COLUMNS      6

struct episode { /* the text that a row's values point to */
    char line[4096];
    char video[8192];
    char cloud[8192];
};

static int failed(const char *what, const struct lake_error *error)
{
    fprintf(stderr, "%s: %s (%s)\n", what, error->message, lake_status_name(error->code));
    return 1;
}

static struct lake_value text_value(const char *text)
{
    struct lake_value value = {.kind = LAKE_VALUE_TEXT};
    value.as.text.data = text;
    value.as.text.size = strlen(text);
    return value;
}

static struct lake_value int_value(const char *text)
{
    struct lake_value value = {.kind = LAKE_VALUE_INT64};
    value.as.int64 = strtoll(text, NULL, 10);
    return value;
}

static struct lake_value file_value(const char *path, const char *media_type)
{
    struct lake_value value = {.kind = LAKE_VALUE_FILE_PATH};
    value.as.file_path.path = path;
    value.as.file_path.media_type = media_type;
    return value;
}

/* Splits episode->line in place; false when a field is missing. */
static bool parse_episode(struct episode *episode, const char *directory, struct lake_value *values)
{
    char *fields[COLUMNS];
    char *at = episode->line;
    at[strcspn(at, "\r\n")] = '\0';
    for (int i = 0; i < COLUMNS; i++) {
        fields[i] = at;
        at += strcspn(at, ",");
        if (*at == '\0' && i + 1 < COLUMNS)
            return false;
        if (*at != '\0')
            *at++ = '\0';
    }
    values[0] = int_value(fields[0]);
    values[1] = text_value(fields[1]);
    values[2] = int_value(fields[2]);
    values[3] = (struct lake_value){.kind = LAKE_VALUE_BOOL};
    values[3].as.boolean = strcmp(fields[3], "true") == 0;
    snprintf(episode->video, sizeof(episode->video), "%s/%s", directory, fields[4]);
    values[4] = file_value(episode->video, "video/mp4");
    values[5] = (struct lake_value){.kind = LAKE_VALUE_NULL};
    if (fields[5][0] != '\0') {
        snprintf(episode->cloud, sizeof(episode->cloud), "%s/%s", directory, fields[5]);
        values[5] = file_value(episode->cloud, "model/ply");
    }
    return true;
}

static int read_episodes(const char *directory, struct episode *episodes, struct lake_value *values,
                         size_t *count)
{
    char path[4200];
    snprintf(path, sizeof(path), "%s/episodes.csv", directory);
    FILE *listing = fopen(path, "r");
    if (listing == NULL) {
        perror(path);
        return 1;
    }
    *count = 0;
    while (*count < MAX_EPISODES &&
           fgets(episodes[*count].line, sizeof(episodes[*count].line), listing) != NULL) {
        if (!parse_episode(&episodes[*count], directory, &values[*count * COLUMNS])) {
            fprintf(stderr, "%s, line %zu: expected number,task,steps,success,video,cloud\n", path,
                    *count + 1);
            fclose(listing);
            return 1;
        }
        ++*count;
    }
    fclose(listing);
    return 0;
}

static int ingest(const char *address, const char *table, const struct lake_value *values,
                  size_t count)
{
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    struct lake_error error = {0};
    lake_client *client = NULL;
    char sql[512];
    snprintf(sql, sizeof(sql),
             "INSERT INTO %s (episode, task, steps, success, video, cloud) "
             "VALUES (?, ?, ?, ?, ?, ?)",
             table);
    if (lake_connect(address, NULL, &client, &error) != LAKE_OK)
        return failed("connect", &error);
    lake_status status = lake_insert_many(client, sql, values, count, COLUMNS, &result, &error);
    lake_client_unref(client);
    if (status != LAKE_OK)
        return failed("insert", &error);
    long long bytes = 0;
    for (size_t i = 0; i < result.location_count; i++)
        bytes += result.locations[i].size_bytes;
    printf("%zu episodes with %zu files (%.1f MB) are version %llu of %s\n", count,
           result.location_count, (double)bytes / 1e6, (unsigned long long)result.version, table);
    lake_insert_result_fini(&result);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: robot_episode HOST:PORT NAMESPACE.TABLE DIRECTORY\n");
        return 2;
    }
    struct episode *episodes = calloc(MAX_EPISODES, sizeof(*episodes));
    struct lake_value *values = calloc((size_t)MAX_EPISODES * COLUMNS, sizeof(*values));
    size_t count = 0;
    int code = 1;
    if (episodes != NULL && values != NULL)
        code = read_episodes(argv[3], episodes, values, &count);
    if (code == 0)
        code = ingest(argv[1], argv[2], values, count);
    free(episodes);
    free(values);
    return code;
}
