"""Uploads and downloads: what liblake calls back while bytes travel."""

from __future__ import annotations

import io
import mimetypes
import os
from typing import Any

from ._library import call, chars, ffi, lib, text
from ._types import File, Progress

FAILED = 5  # EIO: liblake wants some errno value; the exception says more
OWN_SOURCES = (io.FileIO, io.BufferedReader, io.BufferedRandom, io.BytesIO)
MEDIA_TYPES = mimetypes.MimeTypes()  # Python's own list, the same on every machine


class Transfer:
    """One source and one progress function for the time of a call.

    An exception in either, also Ctrl-C's, ends the transfer and is raised again after the call.
    """

    def __init__(self, source: Any = None, progress: Progress | None = None) -> None:
        self.source = source
        self.progress = progress
        self.failure: BaseException | None = None
        self.handle = ffi.new_handle(self)

    def read(self, buffer: memoryview) -> int:
        readinto = getattr(self.source, "readinto", None)
        if readinto is not None:
            # What is not Python's own may keep the buffer, which is not there after the call.
            own = type(self.source) in OWN_SOURCES
            room = buffer if own else memoryview(bytearray(len(buffer)))
            count = readinto(room)
            if count is None:
                raise BlockingIOError("the source has no bytes yet: it must be a blocking one")
            if not 0 <= count <= len(buffer):
                raise ValueError(f"readinto({len(buffer)} bytes) returned {count}")
            if not own:
                buffer[:count] = room[:count]
            return int(count)
        data = self.source.read(len(buffer))
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError("the source must be open in binary mode: read() returned "
                            + type(data).__name__)
        if len(data) > len(buffer):
            raise ValueError(f"read({len(buffer)}) returned {len(data)} bytes")
        buffer[:len(data)] = data
        return len(data)

    def call(self, function: Any, *arguments: Any) -> None:
        """Like call(), but what a callback raised comes first."""
        try:
            call(function, *arguments)
        except Exception:
            if self.failure is not None:
                raise self.failure from None
            raise
        if self.failure is not None:
            raise self.failure


def failed(kind: Any, failure: BaseException, traceback: Any) -> None:
    """Whatever comes out of a callback: also Ctrl-C before its first line, where no `try` sees it."""
    ffi.from_handle(traceback.tb_frame.f_locals["context"]).failure = failure


@ffi.callback("int(void *, void *, size_t, size_t *)", error=FAILED, onerror=failed)
def read_source(context: Any, buffer: Any, size: int, got: Any) -> int:
    got[0] = ffi.from_handle(context).read(memoryview(ffi.buffer(buffer, size)))
    return 0


@ffi.callback("bool(void *, int64_t, int64_t)", error=False, onerror=failed)
def told_progress(context: Any, done: int, total: int) -> bool:
    progress = ffi.from_handle(context).progress
    if progress is not None:
        progress(done, None if total < 0 else total)
    return True


def is_path(source: Any) -> bool:
    return isinstance(source, (str, os.PathLike))


def media_type_of(source: Any, media_type: str | None) -> str | None:
    """The one given, or the one that goes with the name, or None for Lake's default."""
    if media_type is not None:
        return media_type
    name = os.fspath(source) if is_path(source) else getattr(source, "name", None)
    return MEDIA_TYPES.guess_type(name, strict=False)[0] if isinstance(name, str) else None


def path_chars(path: str | os.PathLike[str]) -> Any:
    return chars(os.fsdecode(path), "a path")


def location(file: Any) -> tuple[Any, list[Any]]:
    """A File as liblake's struct, and what must be kept as long as that."""
    file = File.from_value(file)
    struct = ffi.new("struct lake_data_location *")
    keep = [chars(file.uri, "uri"), chars(file.media_type, "media_type"), struct]
    struct.uri, struct.media_type = keep[0], keep[1]
    try:
        struct.size_bytes = file.size
        digest = file.sha256.encode("ascii")
    except (OverflowError, UnicodeEncodeError, AttributeError):
        raise ValueError(f"not a FILE value: {file!r}") from None
    if len(digest) != 64:
        raise ValueError("a sha256 has 64 hexadecimal digits")
    struct.sha256_hex = digest
    return struct, keep


def file_of(struct: Any) -> File:
    return File(text(struct.uri), text(struct.media_type), struct.size_bytes,
                text(struct.sha256_hex))


def take_file(struct: Any) -> File:
    """The File of a struct that liblake filled, which is released."""
    try:
        return file_of(struct)
    finally:
        lib.lake_data_location_fini(struct)
