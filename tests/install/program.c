/* A program outside Lake's tree: what a user of the installed library compiles first. */
#include <lake/lake.h>
#include <stdio.h>
#include <string.h>

static int check_file_column(void)
{
    struct ArrowSchema schema = {0};
    struct lake_error err = {0};
    if (lake_file_schema_init(&schema, "video", true, &err) != LAKE_OK) {
        fprintf(stderr, "lake_file_schema_init: %s\n", err.message);
        return 1;
    }
    int bad = schema.n_children != 4 || strcmp(schema.children[0]->name, "uri") != 0;
    schema.release(&schema);
    return bad;
}

static int check_typed_error(void)
{
    struct lake_error err = {0};
    lake_client *client = NULL;
    lake_status status = lake_connect("not an address", NULL, &client, &err);
    if (status == LAKE_OK || err.code != status || err.message[0] == '\0' || client != NULL) {
        fprintf(stderr, "lake_connect accepted a wrong address or gave no reason\n");
        return 1;
    }
    return 0;
}

int main(void)
{
    if (strcmp(lake_version(), EXPECTED_VERSION) != 0) {
        fprintf(stderr, "version is %s, expected %s\n", lake_version(), EXPECTED_VERSION);
        return 1;
    }
    if (strcmp(lake_status_name(LAKE_NOT_FOUND), "NOT_FOUND") != 0) {
        return 1;
    }
    if (check_file_column() || check_typed_error()) {
        return 1;
    }
    printf("lake %s\n", lake_version());
    return 0;
}
