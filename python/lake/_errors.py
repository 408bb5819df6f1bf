"""An exception class for each status of liblake."""

from __future__ import annotations

from typing import Any, ClassVar

from ._types import File

BY_STATUS: dict[str, type[Error]] = {}


class Error(Exception):
    """What a call to Lake can end with.

    `status` is the status' name as in gRPC, such as "NOT_FOUND"; `message` is one sentence that
    says what, where and what to do; `cause` is what lay below it, or empty.
    """

    status: ClassVar[str] = "UNKNOWN"

    def __init_subclass__(cls, *, status: str | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if status is not None:  # else a subclass of somebody else's, with its base's status
            cls.status = status
            BY_STATUS[status] = cls

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message, cause)
        self.message = message
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.message} ({self.cause})" if self.cause else self.message


class Cancelled(Error, status="CANCELLED"):
    """The caller ended it."""


class Unknown(Error, status="UNKNOWN"):
    """A failure that has no other name."""


class InvalidArgument(Error, ValueError, status="INVALID_ARGUMENT"):
    """What was asked for is wrong, whatever is in the lake."""


class DeadlineExceeded(Error, TimeoutError, status="DEADLINE_EXCEEDED"):
    """It took longer than it may."""


class NotFound(Error, status="NOT_FOUND"):
    """There is no such table, version or object."""


class AlreadyExists(Error, status="ALREADY_EXISTS"):
    """What was to be made is there, or the operation ID was used for other content."""


class PermissionDenied(Error, status="PERMISSION_DENIED"):
    """The token is good, and not for this."""


class ResourceExhausted(Error, status="RESOURCE_EXHAUSTED"):
    """More than a limit allows, or the server is full: smaller, or later."""


class FailedPrecondition(Error, status="FAILED_PRECONDITION"):
    """The state of the table or of the server must change before this can work."""


class Aborted(Error, status="ABORTED"):
    """Others changed the same thing at the same time: begin anew."""


class OutOfRange(Error, status="OUT_OF_RANGE"):
    """Beyond the end of what there is."""


class Unimplemented(Error, NotImplementedError, status="UNIMPLEMENTED"):
    """Lake, or this server, cannot do it."""


class Internal(Error, status="INTERNAL"):
    """A fault of Lake's own."""


class Unavailable(Error, status="UNAVAILABLE"):
    """The server or the storage cannot be reached now: later."""


class DataLoss(Error, status="DATA_LOSS"):
    """Bytes are not the bytes that were stored: do not use what was read."""


class Unauthenticated(Error, status="UNAUTHENTICATED"):
    """The token is missing, wrong or over."""


class OutcomeUnknown(Error, status="OUTCOME_UNKNOWN"):
    """The rows may have been added. `append` again with `operation_id`, which cannot add them twice."""

    operation_id: str | None = None
    files: tuple[File, ...] = ()
