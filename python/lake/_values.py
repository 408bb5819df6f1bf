"""Python values as liblake's, for inserts."""

from __future__ import annotations

import array
import os
from collections.abc import Iterable, Sequence
from typing import Any

from ._library import chars, ffi, lib
from ._transfer import (Transfer, is_path, location, media_type_of, path_chars, read_source,
                        told_progress)
from ._types import File, Upload


class Values:
    """An array of `struct lake_value` and everything that it points to."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.array = ffi.new("struct lake_value[]", max(len(values), 1))
        self.count = len(values)
        self.keep: list[Any] = []
        self.transfers: list[Transfer] = []
        for i, value in enumerate(values):
            self._set(self.array[i], value)

    def failure(self) -> BaseException | None:
        """What a source or a progress function raised."""
        return next((t.failure for t in self.transfers if t.failure is not None), None)

    def _set(self, slot: Any, value: Any) -> None:
        of = getattr(slot, "as")
        if value is None:
            slot.kind = lib.LAKE_VALUE_NULL
        elif isinstance(value, bool):
            slot.kind = lib.LAKE_VALUE_BOOL
            of.boolean = value
        elif isinstance(value, str):
            slot.kind = lib.LAKE_VALUE_TEXT
            of.text.data, of.text.size = self._bytes("char[]", value.encode())
        elif isinstance(value, (bytes, bytearray, memoryview)):
            slot.kind = lib.LAKE_VALUE_BYTES
            of.bytes.data, of.bytes.size = self._bytes("uint8_t[]", bytes(value))
        elif isinstance(value, File):
            slot.kind = lib.LAKE_VALUE_LOCATION
            of.location, keep = location(value)
            self.keep.append(keep)
        elif isinstance(value, (Upload, os.PathLike)):
            self._set_upload(slot, of, value if isinstance(value, Upload) else Upload(value))
        else:
            self._set_number(slot, of, value)

    def _bytes(self, kind: str, data: bytes) -> tuple[Any, int]:
        held = ffi.from_buffer(kind, data)  # no copy; keeps `data`
        self.keep.append(held)
        return held, len(data)

    def _set_upload(self, slot: Any, of: Any, upload: Upload) -> None:
        transfer = Transfer(upload.source, upload.progress)
        self.transfers.append(transfer)
        media_type = chars(media_type_of(upload.source, upload.media_type), "media_type")
        self.keep.append(media_type)
        if is_path(upload.source):
            slot.kind = lib.LAKE_VALUE_FILE_PATH
            target = of.file_path
            target.path = path = path_chars(upload.source)  # type: ignore[arg-type]
            self.keep.append(path)
        else:
            slot.kind = lib.LAKE_VALUE_FILE_SOURCE
            target = of.file_source
            target.source.read = read_source
            target.source.context = transfer.handle
        target.media_type = media_type
        target.progress = told_progress
        target.progress_context = transfer.handle

    def _set_number(self, slot: Any, of: Any, value: Any) -> None:
        if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
            self._set(slot, value.item())  # a scalar of numpy or torch
        elif isinstance(value, int):
            if not -2**63 <= value < 2**63:
                raise OverflowError(f"{value} does not fit in 64 bits")
            slot.kind = lib.LAKE_VALUE_INT64
            of.int64 = value
        elif isinstance(value, float):
            slot.kind = lib.LAKE_VALUE_DOUBLE
            of.float64 = value
        elif isinstance(value, Iterable):
            try:
                # Also one-dimensional arrays of numpy, and tensors.
                numbers = array.array("d", (float(x) for x in value))
            except TypeError:
                raise unfit(value) from None
            slot.kind = lib.LAKE_VALUE_FLOAT_LIST
            of.floats.count = len(numbers)
            held = ffi.from_buffer("double[]", numbers)
            self.keep.append(held)
            of.floats.data = held
        else:
            raise unfit(value)


def unfit(value: Any) -> TypeError:
    return TypeError(
        f"a {type(value).__name__} is no value of an insert: None, bool, int, float, str, bytes, "
        "sequences of floats, pathlib.Path, lake.Upload and lake.File are; rows of any other type "
        "go through append(), as Arrow")
