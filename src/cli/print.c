/* Results on a screen, or for another program: aligned columns, CSV, JSON, Arrow IPC. */
#define _GNU_SOURCE /* wcwidth */
#include "cli_internal.h"

#include <errno.h>
#include <lance/lance.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#define PAGE_ROWS      1000 /* measured together; later pages keep the widths of the first */
#define MAX_CELL       ((size_t)64 * 1024 * 1024)
#define MAX_CELL_WIDE  120 /* columns of a table cell; longer text is cut with an ellipsis */
#define MAX_CELL_BYTES ((size_t)4096) /* of the same: some characters take no column */

bool cli_format_parse(const char *text, enum cli_format *out)
{
    static const char *const names[] = {"table", "csv", "json", "arrow"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum cli_format)i;
            return true;
        }
    }
    return false;
}

void cli_print_json_string(FILE *out, const char *text)
{
    struct base_buffer buffer;
    base_buffer_init(&buffer, MAX_CELL);
    if (base_json_append_string(&buffer, base_str_of(text), NULL) == LAKE_OK)
        fwrite(buffer.data, 1, buffer.size, out);
    base_buffer_fini(&buffer);
}

void cli_format_time(int64_t unix_ms, char out[CLI_TIME_BYTES])
{
    struct tm parts;
    time_t seconds = (time_t)(unix_ms / 1000);
    out[0] = '\0';
    if (gmtime_r(&seconds, &parts) != NULL)
        (void)strftime(out, CLI_TIME_BYTES, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

/* Bytes of the character at `text`, and its columns; broken UTF-8 counts byte by byte. */
static size_t character(struct lake_str text, size_t at, size_t *width)
{
    uint8_t first = (uint8_t)text.data[at];
    size_t bytes = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    bytes = BASE_MIN(bytes, text.size - at);
    uint32_t code = bytes == 1 ? first : first & (0x7Fu >> bytes);
    for (size_t i = 1; i < bytes; i++)
        code = code << 6 | ((uint8_t)text.data[at + i] & 0x3F);
    int columns = wcwidth((wchar_t)code);
    *width = columns < 0 ? 1 : (size_t)columns; /* what cannot be printed becomes a blank */
    return bytes;
}

/* Below U+0020, U+007F and U+0080..U+009F a terminal does something instead of showing it. */
static bool is_control(struct lake_str text, size_t at, size_t bytes)
{
    uint8_t first = (uint8_t)text.data[at];
    return (bytes == 1 && (first < 0x20 || first == 0x7F)) ||
           (bytes == 2 && first == 0xC2 && (uint8_t)text.data[at + 1] < 0xA0);
}

lake_status cli_append_plain(struct base_buffer *out, struct lake_str text, bool lines,
                             struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t at = 0; at < text.size && status == LAKE_OK;) {
        size_t width;
        size_t bytes = character(text, at, &width);
        bool keep = !is_control(text, at, bytes) || (lines && text.data[at] == '\n');
        status = keep ? base_buffer_append(out, text.data + at, bytes, err)
                      : base_buffer_append(out, " ", 1, err);
        at += bytes;
    }
    return status;
}

bool cli_pipe_is_broken(FILE *out)
{
    struct pollfd ready = {.fd = fileno(out), .events = POLLOUT};
    return poll(&ready, 1, 0) == 1 && (ready.revents & POLLERR) != 0;
}

lake_status cli_write_failed(FILE *out, struct lake_error *err)
{
    int code = cli_pipe_is_broken(out) ? EPIPE : errno == 0 ? EIO : errno;
    return base_fail_errno(err, code, "cannot write the result");
}

/* Columns on a terminal that `text` takes. */
static size_t text_width(struct lake_str text)
{
    size_t total = 0;
    for (size_t at = 0; at < text.size;) {
        size_t width;
        at += character(text, at, &width);
        total += width;
    }
    return total;
}

/* ---- what the formats share ---- */

struct printer {
    FILE *out;
    const struct ArrowSchema *schema;
    struct ArrowArrayView view; /* of the batch at hand */
    uint64_t rows;
    struct base_buffer cell;
};

static lake_status write_out(struct printer *printer, struct lake_error *err)
{
    if (fwrite(printer->cell.data, 1, printer->cell.size, printer->out) != printer->cell.size)
        return cli_write_failed(printer->out, err);
    return LAKE_OK;
}

/* ---- CSV (RFC 4180) ---- */

static void print_csv_field(FILE *out, struct lake_str text, bool null)
{
    bool quote = (text.size == 0 && !null) || memchr(text.data, ',', text.size) != NULL ||
                 memchr(text.data, '"', text.size) != NULL ||
                 memchr(text.data, '\n', text.size) != NULL ||
                 memchr(text.data, '\r', text.size) != NULL;
    if (!quote) {
        fwrite(text.data, 1, text.size, out);
        return;
    }
    fputc('"', out);
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '"')
            fputc('"', out);
        fputc(text.data[i], out);
    }
    fputc('"', out);
}

static lake_status print_csv_row(struct printer *printer, int64_t row, struct lake_error *err)
{
    for (int64_t c = 0; c < printer->schema->n_children; c++) {
        const struct ArrowArrayView *column = printer->view.children[c];
        bool null = ArrowArrayViewIsNull(column, row);
        bool nested = printer->schema->children[c]->n_children > 0;
        base_buffer_clear(&printer->cell);
        lake_status status = LAKE_OK;
        if (!null)
            status = nested ? cli_value_json(printer->schema->children[c], column, row,
                                             &printer->cell, err)
                            : cli_value_text(printer->schema->children[c], column, row,
                                             &printer->cell, err);
        if (status != LAKE_OK)
            return status;
        if (c > 0)
            fputc(',', printer->out);
        print_csv_field(
            printer->out,
            (struct lake_str){printer->cell.size == 0 ? "" : (const char *)printer->cell.data,
                              printer->cell.size},
            null);
    }
    fputs("\n", printer->out);
    return LAKE_OK;
}

/* ---- JSON: an array of objects ---- */

static lake_status print_json_row(struct printer *printer, int64_t row, struct lake_error *err)
{
    struct base_buffer *cell = &printer->cell;
    base_buffer_clear(cell);
    lake_status status = base_buffer_printf(cell, err, "%s{", printer->rows == 0 ? "[" : ",\n ");
    for (int64_t c = 0; c < printer->schema->n_children && status == LAKE_OK; c++) {
        const struct ArrowSchema *field = printer->schema->children[c];
        if (c > 0)
            status = base_buffer_append(cell, ",", 1, err);
        if (status == LAKE_OK)
            status = base_json_append_string(cell, base_str_of(field->name), err);
        if (status == LAKE_OK)
            status = base_buffer_append(cell, ":", 1, err);
        if (status == LAKE_OK)
            status = cli_value_json(field, printer->view.children[c], row, cell, err);
    }
    if (status == LAKE_OK)
        status = base_buffer_append(cell, "}", 1, err);
    return status == LAKE_OK ? write_out(printer, err) : status;
}

/* ---- aligned columns ---- */

struct table {
    size_t *widths; /* 0: not yet measured */
    bool *right;    /* numbers */
    char **names;   /* of the columns, cut as cells are */
    char **cells;   /* of the page: row by row */
    size_t cell_count;
    bool headed;
};

static bool is_number(const struct ArrowSchema *field)
{
    return field->dictionary == NULL && strchr("cCsSiIlLefgd", field->format[0]) != NULL;
}

/* One line, at most MAX_CELL_WIDE columns wide. */
static char *cut_cell(struct lake_str text)
{
    struct base_buffer cell;
    size_t total = 0;
    size_t unused;
    base_buffer_init(&cell, MAX_CELL_BYTES + 8);
    lake_status status = LAKE_OK;
    for (size_t at = 0; at < text.size && status == LAKE_OK;) {
        size_t width;
        size_t bytes = character(text, at, &width);
        bool last = at + bytes == text.size;
        if ((total + width > MAX_CELL_WIDE - 1 && !last) || cell.size + bytes > MAX_CELL_BYTES) {
            status = base_buffer_append(&cell, "…", 3, NULL);
            break;
        }
        status = cli_append_plain(&cell, (struct lake_str){text.data + at, bytes}, false, NULL);
        at += bytes;
        total += width;
    }
    if (status == LAKE_OK)
        status = base_buffer_append(&cell, "", 1, NULL);
    if (status == LAKE_OK)
        return (char *)base_buffer_take(&cell, &unused);
    base_buffer_fini(&cell);
    return NULL;
}

static void print_cell(FILE *out, const char *text, size_t width, bool right, bool last)
{
    size_t used = text_width(base_str_of(text));
    size_t pad = used < width ? width - used : 0;
    if (right)
        fprintf(out, "%*s%s", (int)pad, "", text);
    else
        fprintf(out, "%s%*s", text, last ? 0 : (int)pad, "");
    fputs(last ? "\n" : "  ", out);
}

static void print_page(struct printer *printer, struct table *table)
{
    size_t columns = (size_t)printer->schema->n_children;
    if (!table->headed) {
        for (size_t c = 0; c < columns; c++) {
            table->widths[c] = text_width(base_str_of(table->names[c]));
            for (size_t i = c; i < table->cell_count; i += columns)
                table->widths[c] =
                    BASE_MAX(table->widths[c], text_width(base_str_of(table->cells[i])));
        }
        for (size_t c = 0; c < columns; c++)
            print_cell(printer->out, table->names[c], table->widths[c], table->right[c],
                       c + 1 == columns);
        for (size_t c = 0; c < columns; c++) {
            for (size_t i = 0; i < table->widths[c]; i++)
                fputs("─", printer->out);
            fputs(c + 1 == columns ? "\n" : "  ", printer->out);
        }
        table->headed = true;
    }
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t c = i % columns;
        print_cell(printer->out, table->cells[i], table->widths[c], table->right[c],
                   c + 1 == columns);
        base_free(table->cells[i]);
    }
    table->cell_count = 0;
}

static lake_status add_table_row(struct printer *printer, struct table *table, int64_t row,
                                 struct lake_error *err)
{
    size_t columns = (size_t)printer->schema->n_children;
    for (size_t c = 0; c < columns; c++) {
        base_buffer_clear(&printer->cell);
        lake_status status = cli_value_text(printer->schema->children[c], printer->view.children[c],
                                            row, &printer->cell, err);
        if (status != LAKE_OK)
            return status;
        char *cell =
            cut_cell((struct lake_str){(const char *)printer->cell.data, printer->cell.size});
        if (cell == NULL)
            return base_fail_no_memory(err, printer->cell.size);
        table->cells[table->cell_count++] = cell;
    }
    if (table->cell_count == columns * PAGE_ROWS)
        print_page(printer, table);
    return LAKE_OK;
}

static lake_status table_init(struct table *table, const struct ArrowSchema *schema,
                              struct lake_error *err)
{
    size_t columns = (size_t)schema->n_children;
    table->widths = base_calloc_array(columns + 1, sizeof(*table->widths));
    table->right = base_calloc_array(columns + 1, sizeof(*table->right));
    table->cells = base_calloc_array(columns * PAGE_ROWS + 1, sizeof(*table->cells));
    table->names = base_calloc_array(columns + 1, sizeof(*table->names));
    if (table->widths == NULL || table->right == NULL || table->cells == NULL ||
        table->names == NULL)
        return base_fail_no_memory(err, columns * PAGE_ROWS * sizeof(*table->cells));
    for (size_t c = 0; c < columns; c++) {
        table->right[c] = is_number(schema->children[c]);
        table->names[c] = cut_cell(base_str_of(schema->children[c]->name));
        if (table->names[c] == NULL)
            return base_fail_no_memory(err, MAX_CELL_BYTES);
    }
    return LAKE_OK;
}

static void table_fini(struct table *table)
{
    for (size_t i = 0; i < table->cell_count; i++)
        base_free(table->cells[i]);
    for (size_t c = 0; table->names != NULL && table->names[c] != NULL; c++)
        base_free(table->names[c]);
    base_free(table->names);
    base_free(table->widths);
    base_free(table->right);
    base_free(table->cells);
}

/* ---- the stream ---- */

static lake_status stream_failed(struct ArrowArrayStream *stream, int code, struct lake_error *err)
{
    const char *message = stream->get_last_error(stream);
    lake_status status = lake_query_status(stream);
    if (status == LAKE_OK)
        status = lance_scan_stream_status(stream);
    return lake_fail(err, status == LAKE_OK ? base_status_of_errno(code) : status, "%s",
                     message == NULL || message[0] == '\0' ? strerror(code) : message);
}

static lake_status print_batch(struct printer *printer, enum cli_format format, struct table *table,
                               const struct ArrowArray *batch, struct lake_error *err)
{
    struct ArrowError failure;
    if (ArrowArrayViewSetArray(&printer->view, batch, &failure) != NANOARROW_OK)
        return lake_fail(err, LAKE_INTERNAL, "the result cannot be read: %s", failure.message);
    for (int64_t row = 0; row < batch->length; row++) {
        lake_status status = format == CLI_FORMAT_CSV    ? print_csv_row(printer, row, err)
                             : format == CLI_FORMAT_JSON ? print_json_row(printer, row, err)
                                                         : add_table_row(printer, table, row, err);
        if (status != LAKE_OK)
            return status;
        printer->rows++;
    }
    return LAKE_OK;
}

static lake_status print_batches(struct printer *printer, struct ArrowArrayStream *stream,
                                 enum cli_format format, struct table *table,
                                 struct lake_error *err)
{
    for (;;) {
        struct ArrowArray batch = {0};
        int code = stream->get_next(stream, &batch);
        if (code != 0)
            return stream_failed(stream, code, err);
        if (batch.release == NULL)
            return LAKE_OK;
        lake_status status = print_batch(printer, format, table, &batch, err);
        batch.release(&batch);
        if (status == LAKE_OK && ferror(printer->out) != 0)
            status = cli_write_failed(printer->out, err);
        if (status != LAKE_OK)
            return status;
    }
}

static void print_head(const struct printer *printer, enum cli_format format)
{
    if (format != CLI_FORMAT_CSV)
        return;
    for (int64_t c = 0; c < printer->schema->n_children; c++) {
        fputs(c == 0 ? "" : ",", printer->out);
        print_csv_field(printer->out, base_str_of(printer->schema->children[c]->name), false);
    }
    fputs("\n", printer->out);
}

static lake_status print_rows(struct ArrowArrayStream *stream, const struct ArrowSchema *schema,
                              enum cli_format format, FILE *out, uint64_t *rows,
                              struct lake_error *err)
{
    struct printer printer = {.out = out, .schema = schema};
    struct table table = {0};
    base_buffer_init(&printer.cell, MAX_CELL);
    ArrowArrayViewInitFromType(&printer.view, NANOARROW_TYPE_UNINITIALIZED);
    lake_status status = LAKE_OK;
    if (ArrowArrayViewInitFromSchema(&printer.view, schema, NULL) != NANOARROW_OK)
        status = lake_fail(err, LAKE_UNIMPLEMENTED,
                           "the result has a type that cannot be printed: use --format arrow");
    if (status == LAKE_OK && format == CLI_FORMAT_TABLE)
        status = table_init(&table, schema, err);
    if (status == LAKE_OK) {
        print_head(&printer, format);
        status = print_batches(&printer, stream, format, &table, err);
    }
    if (status == LAKE_OK && format == CLI_FORMAT_TABLE)
        print_page(&printer, &table);
    if (status == LAKE_OK && format == CLI_FORMAT_JSON)
        fputs(printer.rows == 0 ? "[]\n" : "]\n", out);
    if (status == LAKE_OK && (fflush(out) != 0 || ferror(out) != 0))
        status = cli_write_failed(out, err);
    table_fini(&table);
    ArrowArrayViewReset(&printer.view);
    base_buffer_fini(&printer.cell);
    if (rows != NULL)
        *rows = printer.rows;
    return status;
}

lake_status cli_print_stream(struct ArrowArrayStream *stream, enum cli_format format, FILE *out,
                             uint64_t *rows, struct lake_error *err)
{
    struct ArrowSchema schema = {0};
    lake_status status = LAKE_OK;
    if (format == CLI_FORMAT_ARROW) {
        fflush(out);
        status = arrow_ipc_write_fd(stream, fileno(out), err);
    } else {
        int code = stream->get_schema(stream, &schema);
        status = code != 0 ? stream_failed(stream, code, err)
                           : print_rows(stream, &schema, format, out, rows, err);
    }
    if (schema.release != NULL)
        schema.release(&schema);
    stream->release(stream);
    return status;
}

/* ---- progress ---- */

#define REDRAW_US   100000
#define BAR_WIDTH   24
#define LABEL_WIDTH 18 /* with the bar and the figures a line of 80 columns */

void cli_progress_init(struct cli_progress *progress, const char *label)
{
    const char *slash = strrchr(label, '/');
    *progress = (struct cli_progress){
        .label = slash == NULL ? label : slash + 1,
        .started_us = base_clock_monotonic_us(),
        .visible = isatty(STDERR_FILENO) == 1,
    };
}

/* Goes back to the line's start and writes the label, cut to its width. */
static void draw_label(const struct cli_progress *progress)
{
    struct base_buffer plain;
    size_t total = 0;
    size_t at = 0;
    base_buffer_init(&plain, 65536);
    (void)cli_append_plain(&plain, base_str_of(progress->label), false, NULL);
    struct lake_str label = {(const char *)plain.data, plain.size};
    while (at < label.size) {
        size_t width;
        size_t bytes = character(label, at, &width);
        if (total + width > LABEL_WIDTH)
            break;
        total += width;
        at += bytes;
    }
    fprintf(stderr, "\r%.*s ", (int)at, label.data == NULL ? "" : label.data);
    base_buffer_fini(&plain);
}

static bool is_time_to_draw(struct cli_progress *progress, bool last)
{
    int64_t now_us = base_clock_monotonic_us();
    if (!progress->visible || (now_us - progress->drawn_us < REDRAW_US && !last))
        return false;
    progress->drawn_us = now_us;
    return true;
}

void cli_progress_rows(struct cli_progress *progress, uint64_t rows)
{
    if (!is_time_to_draw(progress, false))
        return;
    double seconds = (double)BASE_MAX(progress->drawn_us - progress->started_us, 1) / 1e6;
    draw_label(progress);
    fprintf(stderr, "%llu rows, %.0f/s ", (unsigned long long)rows, (double)rows / seconds);
}

bool cli_progress_update(void *context, int64_t done_bytes, int64_t total_bytes)
{
    struct cli_progress *progress = context;
    if (cli_interrupt_seen())
        return false;
    if (!is_time_to_draw(progress, done_bytes == total_bytes))
        return true;
    double seconds = (double)BASE_MAX(progress->drawn_us - progress->started_us, 1) / 1e6;
    double megabytes = (double)done_bytes / 1e6;
    draw_label(progress);
    if (total_bytes <= 0) {
        fprintf(stderr, "%.1f MB, %.0f MB/s ", megabytes, megabytes / seconds);
        return true;
    }
    int filled = (int)((double)done_bytes / (double)total_bytes * BAR_WIDTH);
    fputs("[", stderr);
    for (int i = 0; i < BAR_WIDTH; i++)
        fputs(i < filled ? "█" : "·", stderr);
    fprintf(stderr, "] %.1f of %.1f MB, %.0f MB/s ", megabytes, (double)total_bytes / 1e6,
            megabytes / seconds);
    return true;
}

void cli_progress_end(struct cli_progress *progress)
{
    if (progress->visible && progress->drawn_us != 0)
        fputs("\r\033[K", stderr);
}
