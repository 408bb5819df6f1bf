"""The plain values that the package takes and gives."""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Union

# Told how far a transfer is: bytes done, and bytes in all or None. An exception cancels it.
Progress = Callable[[int, Union[int, None]], object]


@dataclasses.dataclass(frozen=True)
class File:
    """An object in storage, as a FILE value names it."""

    uri: str
    media_type: str
    size: int
    sha256: str

    @classmethod
    def from_value(cls, value: Any) -> File:
        """The File of a FILE value in a query's result: a dict, or a scalar of pyarrow or numpy."""
        if isinstance(value, cls):
            return value
        as_py = getattr(value, "as_py", None)
        if as_py is not None:
            value = as_py()
        if not isinstance(value, Mapping):
            raise TypeError(f"expected a lake.File or a FILE value, got {type(value).__name__}")
        try:
            return cls(value["uri"], value["media_type"], int(value["size_bytes"]), value["sha256"])
        except KeyError as missing:
            raise ValueError(f"a FILE value has uri, media_type, size_bytes and sha256; {missing} "
                             "is missing") from None

    @property
    def value(self) -> dict[str, Any]:
        """The FILE value as a dict, to put into an Arrow column."""
        return {"uri": self.uri, "media_type": self.media_type, "size_bytes": self.size,
                "sha256": self.sha256}


class Presigned:
    """A URL by which anybody reads one object until `expires` (a datetime): a secret. It is in `url`
    and nowhere else: printing, formatting and pickling do not give it away."""

    __slots__ = ("_about", "_expires", "_url")

    def __init__(self, url: str, expires: datetime.datetime, about: str) -> None:
        self._url, self._expires, self._about = url, expires, about

    @property
    def url(self) -> str:
        """Also for a Range request; no headers are needed."""
        return self._url

    @property
    def expires(self) -> datetime.datetime:
        """Not after the end of the credentials that signed it."""
        return self._expires

    def __repr__(self) -> str:
        return f"<lake.Presigned for {self._about} until {self._expires.isoformat()}>"

    def __getstate__(self) -> Any:
        raise TypeError("a presigned URL is a secret: pass its `url` on if you must")

    def __reduce__(self) -> Any:
        self.__getstate__()


@dataclasses.dataclass(frozen=True)
class Upload:
    """In the values of an insert: upload this file, and put the FILE into the row."""

    source: Union[str, os.PathLike[str], BinaryIO]
    media_type: Union[str, None] = None
    progress: Union[Progress, None] = None


@dataclasses.dataclass(frozen=True)
class Inserted:
    """What an insert or append did."""

    version: int  # of the table, the one that holds the rows
    rows: int
    operation_id: str
    replayed: bool  # the operation ID had been committed before; nothing was added now
    files: tuple[File, ...]  # that were uploaded, row by row, left to right
