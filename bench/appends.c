/* libs: client */
/*
 * appends HOST:PORT TABLE COUNT
 *
 * COUNT appends of one row each, one after the other. Prints the seconds of all, of the first
 * hundred and of the last hundred. Lake's side of append_single and append_growth; the table has
 * the columns id:int64 and value:double.
 */
#include <lake/lake.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define HUNDRED 100

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    struct lake_error error = {0};
    lake_client *client = NULL;
    char sql[256];
    if (argc != 4)
        return 2;
    long count = strtol(argv[3], NULL, 10);
    snprintf(sql, sizeof(sql), "INSERT INTO %s (id, value) VALUES (?, ?)", argv[2]);
    lake_status status = lake_connect(argv[1], NULL, &client, &error);
    double started = now();
    double first = 0;
    double last = started;
    for (long i = 0; i < count && status == LAKE_OK; i++) {
        struct lake_value values[2] = {{.kind = LAKE_VALUE_INT64}, {.kind = LAKE_VALUE_DOUBLE}};
        values[0].as.int64 = i;
        values[1].as.float64 = (double)i / 2;
        if (i == count - HUNDRED)
            last = now();
        status = lake_insert(client, sql, values, 2, NULL, &error);
        if (i == HUNDRED - 1)
            first = now() - started;
    }
    if (status != LAKE_OK)
        fprintf(stderr, "%s: %s\n", lake_status_name(status), error.message);
    else
        printf("%.6f %.6f %.6f\n", now() - started, first, now() - last);
    lake_client_unref(client);
    return status != LAKE_OK;
}
