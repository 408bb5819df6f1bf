/* Status names, the error record and its causes, and errno values as statuses. */
#include "base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *lake_status_name(lake_status status)
{
    static const struct {
        lake_status status;
        const char *name;
    } names[] = {
        {LAKE_OK, "OK"},
        {LAKE_CANCELLED, "CANCELLED"},
        {LAKE_UNKNOWN, "UNKNOWN"},
        {LAKE_INVALID_ARGUMENT, "INVALID_ARGUMENT"},
        {LAKE_DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"},
        {LAKE_NOT_FOUND, "NOT_FOUND"},
        {LAKE_ALREADY_EXISTS, "ALREADY_EXISTS"},
        {LAKE_PERMISSION_DENIED, "PERMISSION_DENIED"},
        {LAKE_RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED"},
        {LAKE_FAILED_PRECONDITION, "FAILED_PRECONDITION"},
        {LAKE_ABORTED, "ABORTED"},
        {LAKE_OUT_OF_RANGE, "OUT_OF_RANGE"},
        {LAKE_UNIMPLEMENTED, "UNIMPLEMENTED"},
        {LAKE_INTERNAL, "INTERNAL"},
        {LAKE_UNAVAILABLE, "UNAVAILABLE"},
        {LAKE_DATA_LOSS, "DATA_LOSS"},
        {LAKE_UNAUTHENTICATED, "UNAUTHENTICATED"},
        {LAKE_OUTCOME_UNKNOWN, "OUTCOME_UNKNOWN"},
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(names); i++) {
        if (names[i].status == status)
            return names[i].name;
    }
    return "UNKNOWN";
}

void lake_error_clear(struct lake_error *err)
{
    if (err == NULL)
        return;
    err->code = LAKE_OK;
    err->message[0] = '\0';
    err->cause[0] = '\0';
}

/* Cuts `text` (of `size` bytes, too long or not) to below `room` bytes, at the start of a UTF-8
 * character, and terminates it. */
static void cut_at_character(char *text, size_t size, size_t room)
{
    size_t end = size;
    if (end >= room) {
        end = room - 1;
        while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80)
            end--;
    }
    text[end] = '\0';
}

/* Formats through a scratch copy, since the arguments may point into err->message; four more bytes
 * than the field let the cut see whether a character continues. */
static __attribute__((format(printf, 2, 0))) void set_message(struct lake_error *err,
                                                              const char *format, va_list args)
{
    char scratch[LAKE_ERROR_MESSAGE_BYTES + 4];
    int length = vsnprintf(scratch, sizeof(scratch), format, args);
    size_t size = length < 0 ? 0 : BASE_MIN((size_t)length, sizeof(scratch) - 1);
    cut_at_character(scratch, size, LAKE_ERROR_MESSAGE_BYTES);
    memcpy(err->message, scratch, strlen(scratch) + 1);
}

lake_status lake_fail(struct lake_error *err, lake_status code, const char *format, ...)
{
    if (err == NULL)
        return code;
    va_list args;
    va_start(args, format);
    set_message(err, format, args);
    va_end(args);
    err->code = code;
    err->cause[0] = '\0';
    return code;
}

lake_status lake_fail_wrap(struct lake_error *err, lake_status code, const char *format, ...)
{
    if (err == NULL)
        return code;
    char cause[LAKE_ERROR_MESSAGE_BYTES + LAKE_ERROR_CAUSE_BYTES + 2];
    int length = snprintf(cause, sizeof(cause), "%s%s%s", err->message,
                          err->message[0] != '\0' && err->cause[0] != '\0' ? ": " : "", err->cause);
    va_list args;
    va_start(args, format);
    set_message(err, format, args);
    va_end(args);
    cut_at_character(cause, length < 0 ? 0 : (size_t)length, LAKE_ERROR_CAUSE_BYTES);
    memcpy(err->cause, cause, strlen(cause) + 1);
    err->code = code;
    return code;
}

lake_status base_status_of_errno(int error_number)
{
    switch (error_number) {
    case ENOENT:
        return LAKE_NOT_FOUND;
    case EEXIST:
    case EADDRINUSE:
        return LAKE_ALREADY_EXISTS;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENOMEM:
        return LAKE_RESOURCE_EXHAUSTED;
    case EACCES:
    case EPERM:
        return LAKE_PERMISSION_DENIED;
    default:
        return LAKE_UNAVAILABLE;
    }
}

lake_status base_fail_errno(struct lake_error *err, int error_number, const char *format, ...)
{
    lake_status code = base_status_of_errno(error_number);
    if (err == NULL)
        return code;
    char what[LAKE_ERROR_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    char reason[128];
    if (strerror_r(error_number, reason, sizeof(reason)) != 0)
        (void)snprintf(reason, sizeof(reason), "error %d", error_number);
    return lake_fail(err, code, "%s: %s", what, reason);
}

lake_status base_fail_no_memory(struct lake_error *err, size_t size_bytes)
{
    return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "out of memory: %zu bytes were needed",
                     size_bytes);
}
