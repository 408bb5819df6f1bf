"""An object as a file that can be read from anywhere."""

from __future__ import annotations

import io
import operator
import threading
from typing import Any

from ._library import call, ffi, lib, owned, stay_in_process
from ._transfer import location
from ._types import File


class ObjectReader(io.RawIOBase):
    """The bytes of one object. Keeps up to 16 MiB of what was read, and reads ahead while reads
    follow each other. The position is shared by the threads that use it, one read at a time."""

    def __init__(self, client: Any, file: File, via_query: bool = False) -> None:
        super().__init__()
        self._seekable: Any = None
        self._lock = threading.Lock()
        self._file = file
        self._at = 0
        where, _keep = location(file)
        out = ffi.new("lake_seekable **")
        call(lib.lake_open_seekable_via_query if via_query else lib.lake_open_seekable, client, where,
             out)
        self._seekable = owned(out[0], lib.lake_seekable_free)

    @property
    def name(self) -> str:
        return self._file.uri

    @property
    def mode(self) -> str:
        return "rb"

    @property
    def verified(self) -> bool:
        """Whether what is read is compared with digests of the object's chunks; else it is right in
        length and makes no claim."""
        return bool(lib.lake_seekable_is_verified(self._open()))

    def readable(self) -> bool:
        self._open()
        return True

    def seekable(self) -> bool:
        self._open()
        return True

    def tell(self) -> int:
        self._open()
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with self._lock:
            self._open()
            base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}
            if whence not in base:
                raise ValueError(f"invalid whence {whence}")
            at = base[whence] + operator.index(offset)
            if not 0 <= at < 2**63:
                raise ValueError(f"no position {at} in a file")
            self._at = at
            return at

    def readinto(self, buffer: Any) -> int:
        with self._lock, memoryview(buffer).cast("B") as into:
            seekable, got = self._open(), ffi.new("size_t *")
            with ffi.from_buffer(into, require_writable=True) as target:
                call(lib.lake_seekable_read_at, seekable, self._at, target, len(into), got)
            self._at += got[0]
            return int(got[0])

    def _open(self) -> Any:
        """The object, which lives at least as long as what is returned here."""
        seekable = self._seekable
        if seekable is None:
            raise ValueError("I/O operation on a closed file")
        stay_in_process()
        return seekable

    def close(self) -> None:
        self._seekable = None
        super().close()
