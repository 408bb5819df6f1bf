/* The two ways in which services write a time. */
#define _GNU_SOURCE
#include "credentials.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static bool to_unix_ms(struct tm *parts, int64_t *unix_ms)
{
    if (parts->tm_mon < 0 || parts->tm_mon > 11 || parts->tm_mday < 1 || parts->tm_mday > 31 ||
        parts->tm_hour < 0 || parts->tm_hour > 23 || parts->tm_min < 0 || parts->tm_min > 59 ||
        parts->tm_sec < 0 || parts->tm_sec > 60 || parts->tm_year < -300 || parts->tm_year > 8099)
        return false;
    *unix_ms = (int64_t)timegm(parts) * 1000;
    return true;
}

/* `pattern` holds '0' where a digit must be, '*' for anything, else itself. */
static bool shaped(const char *text, const char *pattern)
{
    for (; *pattern != '\0'; pattern++, text++) {
        if (*text == '\0' || (*pattern == '0' && (*text < '0' || *text > '9')) ||
            (*pattern != '0' && *pattern != '*' && *pattern != *text))
            return false;
    }
    return true;
}

static int number(const char *text, int digits)
{
    int value = 0;
    for (int i = 0; i < digits; i++)
        value = 10 * value + (text[i] - '0');
    return value;
}

bool time_parse_iso(struct lake_str text, int64_t *unix_ms)
{
    char copy[40];
    if (text.size >= sizeof(copy) || text.size < 20)
        return false;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    if (!shaped(copy, "0000-00-00T00:00:00"))
        return false;
    const char *rest = copy + 19;
    int milliseconds = 0;
    if (*rest == '.') {
        int scale = 100;
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, scale /= 10)
            milliseconds += scale * (*rest - '0');
    }
    if (strcmp(rest, "Z") != 0 && strcmp(rest, "+00:00") != 0)
        return false;
    struct tm parts = {.tm_year = number(copy, 4) - 1900,
                       .tm_mon = number(copy + 5, 2) - 1,
                       .tm_mday = number(copy + 8, 2),
                       .tm_hour = number(copy + 11, 2),
                       .tm_min = number(copy + 14, 2),
                       .tm_sec = number(copy + 17, 2)};
    if (!to_unix_ms(&parts, unix_ms))
        return false;
    *unix_ms += milliseconds;
    return true;
}

bool time_parse_http(struct lake_str text, int64_t *unix_ms)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char copy[32];
    if (text.size != 29)
        return false;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    if (!shaped(copy, "***, 00 *** 0000 00:00:00 GMT"))
        return false;
    int month = 0;
    while (month < 12 && memcmp(months + (ptrdiff_t)3 * month, copy + 8, 3) != 0)
        month++;
    struct tm parts = {.tm_year = number(copy + 12, 4) - 1900,
                       .tm_mon = month,
                       .tm_mday = number(copy + 5, 2),
                       .tm_hour = number(copy + 17, 2),
                       .tm_min = number(copy + 20, 2),
                       .tm_sec = number(copy + 23, 2)};
    return to_unix_ms(&parts, unix_ms);
}
