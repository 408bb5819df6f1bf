/* lake inspect: what a Lance dataset consists of, for people or as JSON. */
#include "lance_cli.h"

#include <jansson.h>
#include <string.h>

#define MAX_REPORT ((size_t)1 << 30)

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text == NULL ? "" : text;
}

static unsigned long long number_of(const json_t *object, const char *key)
{
    return (unsigned long long)json_integer_value(json_object_get(object, key));
}

/* "40.1 MiB" */
static const char *size_text(unsigned long long bytes, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    size_t unit = 0;
    for (; size >= 1024 && unit + 1 < BASE_ARRAY_LEN(units); unit++)
        size /= 1024;
    (void)snprintf(out, 32, unit == 0 ? "%.0f %s" : "%.1f %s", size, units[unit]);
    return out;
}

/* Names come from files that anybody may have written. */
static void print_plain(const char *text, int width)
{
    struct base_buffer plain;
    base_buffer_init(&plain, MAX_REPORT);
    if (cli_append_plain(&plain, base_str_of(text), false, NULL) == LAKE_OK)
        printf("%-*.*s", width, (int)plain.size, (const char *)plain.data);
    base_buffer_fini(&plain);
}

static void print_column(const json_t *column, unsigned long long rows)
{
    char size[32];
    size_t index;
    const json_t *value;
    unsigned long long bytes = number_of(column, "bytes");
    fputs("      ", stdout);
    print_plain(text_of(column, "name"), 24);
    printf(" %10s  %6.2f a row  %s", size_text(bytes, size),
           rows == 0 ? 0.0 : (double)bytes / (double)rows,
           number_of(column, "statistics_bytes") > 0 ? "statistics  " : "            ");
    json_array_foreach(json_object_get(column, "encodings"), index, value)
        printf("%s%llux %s", index == 0 ? "" : ", ", number_of(value, "pages"),
               text_of(value, "encoding"));
    fputc('\n', stdout);
    json_array_foreach(json_object_get(column, "page_list"), index, value) printf(
        "        page %zu: rows %llu to %llu, %s, %s\n", index, number_of(value, "first_row"),
        number_of(value, "first_row") + number_of(value, "rows"),
        size_text(number_of(value, "bytes"), size), text_of(value, "encoding"));
}

static void print_index(const json_t *index)
{
    char size[32];
    size_t i;
    const json_t *column;
    fputs("index ", stdout);
    print_plain(text_of(index, "name"), 0);
    fputs(": ", stdout);
    print_plain(text_of(index, "kind"), 0);
    fputs(" of", stdout);
    json_array_foreach(json_object_get(index, "columns"), i, column)
    {
        fputs(i == 0 ? " " : ", ", stdout);
        print_plain(json_string_value(column), 0);
    }
    if (json_object_get(index, "fragments") != NULL)
        printf(", covers %llu fragments with %llu rows", number_of(index, "fragments"),
               number_of(index, "rows"));
    printf(", %s\n", size_text(number_of(index, "bytes"), size));
}

static void print_report(const json_t *report)
{
    char size[32];
    size_t f, i, c;
    const json_t *fragment, *file, *column, *value;
    const char *key;
    printf("version %llu, %llu rows, storage %s, %s naming, flags %llu and %llu\n",
           number_of(report, "version"), number_of(report, "rows"), text_of(report, "storage"),
           text_of(report, "naming"), number_of(report, "reader_flags"),
           number_of(report, "writer_flags"));
    json_object_foreach((json_t *)(uintptr_t)json_object_get(report, "config"), key, value)
    {
        fputs("  ", stdout);
        print_plain(key, 24);
        fputs(" = ", stdout);
        print_plain(json_string_value(value), 0);
        fputc('\n', stdout);
    }
    json_array_foreach(json_object_get(report, "indices"), i, value) print_index(value);
    json_array_foreach(json_object_get(report, "fragments"), f, fragment)
    {
        printf("fragment %llu: %llu rows, %llu of them deleted\n", number_of(fragment, "id"),
               number_of(fragment, "rows"), number_of(fragment, "deleted"));
        json_array_foreach(json_object_get(fragment, "files"), i, file)
        {
            fputs("    ", stdout);
            print_plain(text_of(file, "path"), 0);
            printf(": %s, storage %s\n", size_text(number_of(file, "bytes"), size),
                   text_of(file, "storage"));
            json_array_foreach(json_object_get(file, "columns"), c, column)
                print_column(column, number_of(file, "rows"));
        }
    }
}

lake_status lance_inspect_print(const struct lance_arguments *arguments, struct lake_error *err)
{
    struct lance_dataset *dataset = NULL;
    struct base_buffer json;
    json_t *report = NULL;
    base_buffer_init(&json, MAX_REPORT);
    lake_status status = lance_open(arguments, &dataset, err);
    if (status == LAKE_OK)
        status = lance_inspect(dataset, arguments->file, &json, err);
    if (status == LAKE_OK && arguments->options->json)
        printf("%.*s\n", (int)json.size, (const char *)json.data);
    else if (status == LAKE_OK)
        status = base_json_parse(base_buffer_view(&json), MAX_REPORT, &report, err);
    if (report != NULL)
        print_report(report);
    json_decref(report);
    base_buffer_fini(&json);
    lance_dataset_unref(dataset);
    return status;
}

static int run(struct cli_options *options, int argc, char **argv)
{
    return lance_run_verb(options, &cli_inspect, "inspect", argc, argv);
}

const struct cli_command cli_inspect = {
    "inspect", "show what a Lance dataset consists of: files, pages, encodings",
    "Usage: lake inspect PATH|NAMESPACE.TABLE [--version N] [--branch B] [--tag T] [--file NAME]\n"
    "\n"
    "Shows the manifest, the indices, the fragments and their data files, and for every column\n"
    "its bytes, how its pages are encoded and whether it has statistics. --file lists every page\n"
    "of one data file. With --json the same for machines.\n"
    "\n"
    "Examples:\n"
    "  lake inspect frames.lance\n"
    "  lake inspect robots.frames --version 3 --json\n",
    run};
