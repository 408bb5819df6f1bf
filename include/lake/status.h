/*
 * Status codes and the error record of every Lake function.
 *
 * The codes are gRPC's, with the same numbers, plus LAKE_OUTCOME_UNKNOWN for "the operation may or
 * may not have happened", which is never folded into failure.
 */
#ifndef LAKE_STATUS_H
#define LAKE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lake_status {
    LAKE_OK = 0,
    LAKE_CANCELLED = 1,
    LAKE_UNKNOWN = 2,
    LAKE_INVALID_ARGUMENT = 3,
    LAKE_DEADLINE_EXCEEDED = 4,
    LAKE_NOT_FOUND = 5,
    LAKE_ALREADY_EXISTS = 6,
    LAKE_PERMISSION_DENIED = 7,
    LAKE_RESOURCE_EXHAUSTED = 8,
    LAKE_FAILED_PRECONDITION = 9,
    LAKE_ABORTED = 10,
    LAKE_OUT_OF_RANGE = 11,
    LAKE_UNIMPLEMENTED = 12,
    LAKE_INTERNAL = 13,
    LAKE_UNAVAILABLE = 14,
    LAKE_DATA_LOSS = 15, /* bytes are not the bytes that were stored */
    LAKE_UNAUTHENTICATED = 16,
    LAKE_OUTCOME_UNKNOWN = 32 /* the request may have been carried out: ask before retrying */
} lake_status;

#define LAKE_ERROR_MESSAGE_BYTES 1024
#define LAKE_ERROR_CAUSE_BYTES   512

/*
 * Filled by a function that does not return LAKE_OK. Needs no allocation and no release. Every
 * function accepts NULL for it. Zero-initialise it, or call lake_error_clear.
 */
struct lake_error {
    lake_status code;
    char message[LAKE_ERROR_MESSAGE_BYTES]; /* one sentence: what, where, what to do */
    char cause[LAKE_ERROR_CAUSE_BYTES];     /* what lay below it, or empty */
};

/* The name of a code as in gRPC's documentation, such as "NOT_FOUND"; never NULL. */
const char *lake_status_name(lake_status status);

void lake_error_clear(struct lake_error *err);

#ifdef __cplusplus
}
#endif

#endif
