"""An exception class for each status of liblake."""

from __future__ import annotations

from ._types import File


class Error(Exception):
    """What a call to Lake can end with.

    `status` is the status' name as in gRPC, such as "NOT_FOUND"; `message` is one sentence that
    says what, where and what to do; `cause` is what lay below it, or empty.
    """

    status = "UNKNOWN"

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message, cause)
        self.message = message
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.message} ({self.cause})" if self.cause else self.message


class Cancelled(Error):
    status = "CANCELLED"


class Unknown(Error):
    status = "UNKNOWN"


class InvalidArgument(Error, ValueError):
    status = "INVALID_ARGUMENT"


class DeadlineExceeded(Error, TimeoutError):
    status = "DEADLINE_EXCEEDED"


class NotFound(Error):
    status = "NOT_FOUND"


class AlreadyExists(Error):
    status = "ALREADY_EXISTS"


class PermissionDenied(Error):
    status = "PERMISSION_DENIED"


class ResourceExhausted(Error):
    status = "RESOURCE_EXHAUSTED"


class FailedPrecondition(Error):
    status = "FAILED_PRECONDITION"


class Aborted(Error):
    status = "ABORTED"


class OutOfRange(Error):
    status = "OUT_OF_RANGE"


class Unimplemented(Error, NotImplementedError):
    status = "UNIMPLEMENTED"


class Internal(Error):
    status = "INTERNAL"


class Unavailable(Error):
    status = "UNAVAILABLE"


class DataLoss(Error):
    """Bytes are not the bytes that were stored: do not use what was read."""

    status = "DATA_LOSS"


class Unauthenticated(Error):
    status = "UNAUTHENTICATED"


class OutcomeUnknown(Error):
    """The rows may have been added. `append` again with `operation_id`, which cannot add them twice."""

    status = "OUTCOME_UNKNOWN"
    operation_id: str | None = None
    files: tuple[File, ...] = ()


BY_STATUS: dict[str, type[Error]] = {
    kind.status: kind
    for kind in (Cancelled, Unknown, InvalidArgument, DeadlineExceeded, NotFound, AlreadyExists,
                 PermissionDenied, ResourceExhausted, FailedPrecondition, Aborted, OutOfRange,
                 Unimplemented, Internal, Unavailable, DataLoss, Unauthenticated, OutcomeUnknown)
}
