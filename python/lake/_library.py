"""liblake, loaded, and how its functions are called."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

from . import _errors
from ._abi import ffi

HERE = pathlib.Path(__file__).parent
lib: Any = ffi.dlopen(str(HERE / "liblake.so"))


def call(function: Any, *arguments: Any) -> None:
    """Calls `function` with an error record last; the exception of its status, unless it is OK.

    cffi lets other threads run meanwhile.
    """
    err = ffi.new("struct lake_error *")
    status = function(*arguments, err)
    if status != lib.LAKE_OK:
        raise error(status, text(err.message), text(err.cause))


def owned(pointer: Any, free: Callable[[Any], object]) -> Any:
    """`pointer`, freed with its last reference, but not in a process forked from this one, where
    the threads that would be waited for are not."""
    process = os.getpid()

    def free_here(pointer: Any) -> None:
        if os.getpid() == process:
            free(pointer)

    return ffi.gc(pointer, free_here)


_process: int | None = None  # the one that connected first


def stay_in_process() -> None:
    """The threads of gRPC and of the transfers are not in a forked process, and a call would wait
    for them for ever."""
    global _process
    if _process is None:
        _process = os.getpid()
    if _process != os.getpid():
        raise RuntimeError("a process forked from one that is connected to Lake cannot use Lake: "
                           'start workers by "spawn" and connect in each')


def error(status: int, message: str, cause: str = "") -> _errors.Error:
    name = text(lib.lake_status_name(status))
    return _errors.BY_STATUS.get(name, _errors.Error)(message, cause)


def text(chars: Any) -> str:
    return str(ffi.string(chars).decode("utf-8", "replace"))


def chars(value: str | None, what: str) -> Any:
    """`value` as a C string, NULL for None; whoever calls keeps it as long as it is needed."""
    if value is None:
        return ffi.NULL
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    if "\0" in value:
        raise ValueError(f"{what} has a NUL character in it")
    return ffi.new("char[]", value.encode("utf-8", "surrogateescape"))


VERSION = text(lib.lake_version())
