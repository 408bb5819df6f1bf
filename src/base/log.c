/*
 * Structured logs (OPS-2). A line is put together on the stack and written by one write(2), so
 * that lines of several threads do not mix and logging needs no memory.
 */
#include "base.h"
#include "base_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_LINE_BYTES  8192
#define MAX_VALUE_BYTES 1024 /* longer values are cut */
#define LEVEL_UNSET     (-1)

static atomic_int current_level = LEVEL_UNSET;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static int level_from_environment(void)
{
    struct lake_str wanted = base_str_of(base_config_string("LAKE_LOG", "info"));
    for (size_t i = 0; i < BASE_ARRAY_LEN(level_names); i++) {
        if (base_str_equal_c(wanted, level_names[i]))
            return (int)i;
    }
    return BASE_LOG_INFO;
}

void base_log_set_level(enum base_log_level level)
{
    atomic_store(&current_level, (int)level);
}

static bool level_enabled(enum base_log_level level)
{
    int now = atomic_load_explicit(&current_level, memory_order_relaxed);
    if (now == LEVEL_UNSET) {
        int unset = LEVEL_UNSET;
        now = level_from_environment();
        if (!atomic_compare_exchange_strong(&current_level, &unset, now))
            now = unset;
    }
    return (int)level >= now;
}

static struct lake_str cut(const char *text)
{
    struct lake_str s = base_str_of(text);
    if (s.size <= MAX_VALUE_BYTES)
        return s;
    s.size = MAX_VALUE_BYTES;
    while (s.size > 0 && ((unsigned char)s.data[s.size] & 0xC0) == 0x80)
        s.size--;
    return s;
}

/* A pair that does not fit is left out whole: the line stays valid JSON. */
static void append_pair(struct base_buffer *line, const char *name, const char *value)
{
    size_t size_before = line->size;
    lake_status status = base_buffer_append(line, ",", 1, NULL);
    if (status == LAKE_OK)
        status = base_json_append_string(line, cut(name), NULL);
    if (status == LAKE_OK)
        status = base_buffer_append(line, ":", 1, NULL);
    if (status == LAKE_OK)
        status = value == NULL ? base_buffer_append(line, "null", 4, NULL)
                               : base_json_append_string(line, cut(value), NULL);
    if (status != LAKE_OK)
        line->size = size_before;
}

size_t base_log_format(char *out, size_t room, int64_t unix_ms, enum base_log_level level,
                       const char *message, va_list pairs)
{
    /* Capacity and maximum are the same, so this buffer never asks for memory. */
    struct base_buffer line = {.data = (uint8_t *)out, .capacity = room - 2, .max_bytes = room - 2};
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm utc;
    (void)gmtime_r(&seconds, &utc);
    char stamp[32];
    (void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &utc);
    (void)base_buffer_printf(&line, NULL, "{\"ts\":\"%s.%03dZ\",\"level\":\"%s\"", stamp,
                             (int)(unix_ms % 1000), level_names[level]);
    append_pair(&line, "msg", message);
    for (const char *name = va_arg(pairs, const char *); name != NULL;
         name = va_arg(pairs, const char *))
        append_pair(&line, name, va_arg(pairs, const char *));
    line.data[line.size++] = '}';
    line.data[line.size++] = '\n';
    return line.size;
}

void base_log(enum base_log_level level, const char *message, ...)
{
    if (!level_enabled(level))
        return;
    int saved_errno = errno;
    char line[MAX_LINE_BYTES];
    va_list pairs;
    va_start(pairs, message);
    size_t size = base_log_format(line, sizeof(line), base_clock_unix_ms(), level, message, pairs);
    va_end(pairs);
    size_t done = 0;
    while (done < size) {
        ssize_t wrote = write(STDERR_FILENO, line + done, size - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            break; /* nowhere to complain */
        done += (size_t)wrote;
    }
    errno = saved_errno;
}
