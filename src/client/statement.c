/*
 * `INSERT INTO ns.t (a, b) VALUES (?, ?)`: the one statement that the client itself understands
 * (SDK-3). Names may be quoted with double quotes; a final semicolon is allowed.
 */
#include "client_internal.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define MAX_STATEMENT_BYTES ((size_t)1024 * 1024)
#define MAX_COLUMNS         10000

struct scanner {
    const char *sql;
    size_t position;
    struct base_arena *memory;
};

static void skip_blanks(struct scanner *scanner)
{
    while (isspace((unsigned char)scanner->sql[scanner->position]))
        scanner->position++;
}

static lake_status expected(const struct scanner *scanner, const char *what, struct lake_error *err)
{
    return lake_fail(err, LAKE_INVALID_ARGUMENT,
                     "expected %s at position %zu of '%.200s': write INSERT INTO namespace.table "
                     "(column, …) VALUES (?, …)",
                     what, scanner->position + 1, scanner->sql);
}

static bool take_symbol(struct scanner *scanner, char symbol)
{
    skip_blanks(scanner);
    if (scanner->sql[scanner->position] != symbol)
        return false;
    scanner->position++;
    return true;
}

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || ((unsigned char)c & 0x80) != 0;
}

static bool take_word(struct scanner *scanner, const char *word)
{
    size_t size = strlen(word);
    skip_blanks(scanner);
    const char *at = scanner->sql + scanner->position;
    if (strncasecmp(at, word, size) != 0 || is_name_byte(at[size]))
        return false;
    scanner->position += size;
    return true;
}

/* "" inside quotes stands for one quote. */
static lake_status take_quoted(struct scanner *scanner, struct lake_str *out,
                               struct lake_error *err)
{
    const char *from = scanner->sql + scanner->position + 1;
    char *name = base_arena_strndup(scanner->memory, from, strlen(from));
    if (name == NULL)
        return base_fail_no_memory(err, strlen(from));
    size_t size = 0;
    for (const char *p = from; *p != '\0'; p++) {
        if (*p == '"') {
            if (p[1] != '"') {
                scanner->position = (size_t)(p - scanner->sql) + 1;
                *out = (struct lake_str){name, size};
                return size == 0 ? expected(scanner, "a name between the quotes", err) : LAKE_OK;
            }
            p++;
        }
        name[size++] = *p;
    }
    return expected(scanner, "a closing quote for the one", err);
}

static lake_status take_name(struct scanner *scanner, const char *what, struct lake_str *out,
                             struct lake_error *err)
{
    skip_blanks(scanner);
    const char *at = scanner->sql + scanner->position;
    size_t size = 0;
    if (*at == '"')
        return take_quoted(scanner, out, err);
    while (is_name_byte(at[size]))
        size++;
    if (size == 0 || isdigit((unsigned char)at[0]))
        return expected(scanner, what, err);
    scanner->position += size;
    *out = (struct lake_str){at, size};
    return LAKE_OK;
}

static lake_status take_table(struct scanner *scanner, struct client_insert *out,
                              struct lake_error *err)
{
    lake_status status = take_name(scanner, "a namespace", &out->namespace_name, err);
    if (status == LAKE_OK && !take_symbol(scanner, '.'))
        status = expected(scanner, "a dot after the namespace", err);
    if (status == LAKE_OK)
        status = take_name(scanner, "a table", &out->table, err);
    return status;
}

static lake_status take_columns(struct scanner *scanner, struct client_insert *out,
                                struct lake_error *err)
{
    size_t room = 0;
    if (!take_symbol(scanner, '('))
        return expected(scanner, "'(' and the columns", err);
    for (const char *p = scanner->sql; *p != '\0'; p++)
        room += *p == ',';
    out->columns = base_arena_calloc_array(scanner->memory, BASE_MIN(room, MAX_COLUMNS) + 1,
                                           sizeof(*out->columns));
    if (out->columns == NULL)
        return base_fail_no_memory(err, room * sizeof(*out->columns));
    do {
        if (out->column_count == MAX_COLUMNS)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "a statement names at most %d columns",
                             MAX_COLUMNS);
        struct lake_str *column = &out->columns[out->column_count];
        lake_status status = take_name(scanner, "a column", column, err);
        if (status != LAKE_OK)
            return status;
        out->column_count++;
    } while (take_symbol(scanner, ','));
    return take_symbol(scanner, ')') ? LAKE_OK : expected(scanner, "',' or ')'", err);
}

static lake_status take_marks(struct scanner *scanner, const struct client_insert *insert,
                              struct lake_error *err)
{
    size_t marks = 0;
    if (!take_symbol(scanner, '('))
        return expected(scanner, "'(' and a ? for each column", err);
    do {
        if (!take_symbol(scanner, '?'))
            return expected(scanner, "'?' (values are given beside the statement)", err);
        marks++;
    } while (take_symbol(scanner, ','));
    if (!take_symbol(scanner, ')'))
        return expected(scanner, "',' or ')'", err);
    if (marks != insert->column_count)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the statement names %zu columns but has %zu question marks",
                         insert->column_count, marks);
    return LAKE_OK;
}

static lake_status parse(struct scanner *scanner, struct client_insert *out, struct lake_error *err)
{
    if (!take_word(scanner, "INSERT") || !take_word(scanner, "INTO"))
        return expected(scanner, "INSERT INTO", err);
    lake_status status = take_table(scanner, out, err);
    if (status == LAKE_OK)
        status = take_columns(scanner, out, err);
    if (status == LAKE_OK && !take_word(scanner, "VALUES"))
        status = expected(scanner, "VALUES", err);
    if (status == LAKE_OK)
        status = take_marks(scanner, out, err);
    if (status != LAKE_OK)
        return status;
    (void)take_symbol(scanner, ';');
    skip_blanks(scanner);
    return scanner->sql[scanner->position] == '\0' ? LAKE_OK
                                                   : expected(scanner, "the statement's end", err);
}

lake_status client_insert_parse(const char *sql, struct client_insert *out, struct lake_error *err)
{
    struct client_insert insert = {0};
    size_t size = sql == NULL ? 0 : strlen(sql);
    if (size == 0 || size > MAX_STATEMENT_BYTES || !base_utf8_valid((struct lake_str){sql, size}))
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the statement must be 1 to %zu bytes of UTF-8", MAX_STATEMENT_BYTES);
    /* Quoted names are copied one by one, each as long as what follows it at worst. */
    lake_status status = base_arena_new((size_t)64 * 1024 * 1024, &insert.memory, err);
    if (status != LAKE_OK)
        return status;
    struct scanner scanner = {sql, 0, insert.memory};
    status = parse(&scanner, &insert, err);
    if (status != LAKE_OK) {
        client_insert_fini(&insert);
        return status;
    }
    *out = insert;
    return LAKE_OK;
}

void client_insert_fini(struct client_insert *insert)
{
    base_arena_free(insert->memory);
    *insert = (struct client_insert){0};
}
