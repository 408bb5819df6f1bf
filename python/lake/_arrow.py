"""Arrow in and out, by the Arrow PyCapsule interface: no Arrow library is needed here, and every
one that knows the interface (pyarrow, polars, duckdb, pandas, nanoarrow) can be on the other side."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ._library import HERE, call, chars, error, ffi, lib, owned, stay_in_process, text
from ._transfer import take_file
from ._types import File

_capsules = ctypes.PyDLL(str(HERE / "liblake_capsules.so"))
_capsules.lake_capsule_of_stream.restype = ctypes.py_object
_capsules.lake_capsule_of_stream.argtypes = [ctypes.c_void_p]
_capsules.lake_capsule_of_schema.restype = ctypes.py_object
_capsules.lake_capsule_of_schema.argtypes = [ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _address(struct: Any) -> int:
    return int(ffi.cast("uintptr_t", struct))


def _inside(capsule: Any, kind: str, name: bytes) -> Any:
    """The struct in a capsule of somebody else, who keeps owning it."""
    return ffi.cast(f"struct {kind} *", _pointer(capsule, name))


def _owned(kind: str) -> Any:
    """An empty struct; what will be in it is released with it."""
    def release(struct: Any) -> None:
        if struct.release != ffi.NULL:
            struct.release(struct)
    return owned(ffi.new(f"struct {kind} *"), release)


class Schema:
    """The columns of a table or a result, or one column.

    Arrow libraries take it as it is: `pyarrow.schema(schema)`, `pyarrow.field(schema)`.
    """

    def __init__(self, struct: Any, owner: Any = None) -> None:
        self._struct = struct
        self._owner = owner

    @property
    def names(self) -> list[str]:
        return [text(self._struct.children[i].name) for i in range(self._struct.n_children)]

    def __arrow_c_schema__(self) -> object:
        return _capsules.lake_capsule_of_schema(_address(self._struct))

    def __repr__(self) -> str:
        return f"<lake.Schema {', '.join(self.names)}>"


def file_field(name: str, nullable: bool = True) -> Schema:
    """A FILE column, to put among the fields of an Arrow schema: `pyarrow.field(lake.file_field("video"))`."""
    struct = _owned("ArrowSchema")
    call(lib.lake_file_schema_init, struct, chars(name, "name"), nullable)
    return Schema(struct)


def columns_schema(columns: Iterable[str] | Mapping[str, str]) -> Schema:
    """The schema of "name:type" columns, or of a dict from names to types."""
    if isinstance(columns, str):
        raise TypeError("columns are a list of 'name:type' texts or a dict, not one text")
    if isinstance(columns, Mapping):
        columns = [f"{name}:{kind}" for name, kind in columns.items()]
    held = [chars(column, "a column") for column in columns]
    struct = _owned("ArrowSchema")
    call(lib.lake_schema_parse, ffi.new("char *[]", held), len(held), struct)
    return Schema(struct)


class Borrowed:
    """A schema, and batches, of somebody else's Arrow data, for the time of a call."""

    def __init__(self, capsules: list[Any], schema: Any) -> None:
        self.capsules = capsules
        self.schema = schema
        self.batches: list[Any] = []


def borrow_schema(source: Any) -> Borrowed:
    if hasattr(source, "__arrow_c_schema__"):
        capsule = source.__arrow_c_schema__()
        return Borrowed([capsule], _inside(capsule, "ArrowSchema", b"arrow_schema"))
    schema = columns_schema(source)
    return Borrowed([schema], schema._struct)


def borrow_batches(source: Any, max_rows: int) -> Borrowed:
    """What `source` has by either of Arrow's data protocols; no more than goes over max_rows."""
    if hasattr(source, "__arrow_c_stream__"):
        capsule = source.__arrow_c_stream__()
        return _pull(capsule, _inside(capsule, "ArrowArrayStream", b"arrow_array_stream"), max_rows)
    if hasattr(source, "__arrow_c_array__"):
        schema, batch = source.__arrow_c_array__()
        borrowed = Borrowed([schema, batch], _inside(schema, "ArrowSchema", b"arrow_schema"))
        borrowed.batches.append(_inside(batch, "ArrowArray", b"arrow_array"))
        return borrowed
    raise TypeError(f"a {type(source).__name__} is no Arrow data: it has neither "
                    "__arrow_c_stream__ nor __arrow_c_array__")


def _pull(capsule: Any, stream: Any, max_rows: int) -> Borrowed:
    def check(failed: int) -> None:
        if failed:
            why = stream.get_last_error(stream)
            raise OSError(failed, text(why) if why != ffi.NULL else "the Arrow stream failed")

    schema = _owned("ArrowSchema")
    check(stream.get_schema(stream, schema))
    borrowed = Borrowed([capsule], schema)
    rows = 0
    while rows <= max_rows:
        batch = _owned("ArrowArray")
        check(stream.get_next(stream, batch))
        if batch.release == ffi.NULL:
            break
        if batch.length:
            borrowed.batches.append(batch)
            rows += batch.length
    return borrowed


def file_at(batch: Any, column: int | str, row: int) -> File | None:
    """The FILE value of a record batch (any that has `__arrow_c_array__`); None for a null."""
    borrowed = borrow_batches(batch, 0)
    names = Schema(borrowed.schema).names
    index = names.index(column) if isinstance(column, str) else column
    array = borrowed.batches[0]
    if row < 0:
        row += array.length
    if not 0 <= index < len(names) or not 0 <= row < array.length:
        raise IndexError(f"no column {column!r} with a row {row} in the batch")
    return _file(borrowed.schema, array, index, row)


def _file(schema: Any, array: Any, column: int, row: int) -> File | None:
    struct = ffi.new("struct lake_data_location *")
    err = ffi.new("struct lake_error *")
    status = lib.lake_data_location_get(schema, array, column, row, struct, err)
    if status == lib.LAKE_NOT_FOUND:
        return None
    if status != lib.LAKE_OK:
        raise error(status, text(err.message), text(err.cause))
    return take_file(struct)


class Result:
    """The rows of a query, pulled from the server while they are read; read once, by one thread at a
    time. Give it to any Arrow library: `polars.DataFrame(result)`, `duckdb.sql("FROM result")`,
    `pyarrow.table(result)`. Reading stops, and the server's work, when it is closed."""

    def __init__(self, stream: Any) -> None:
        self._stream: Any = stream
        self._lock = threading.Lock()
        schema = _owned("ArrowSchema")
        failed = stream.get_schema(stream, schema)
        if failed:
            raise self._error(stream)
        #: the columns
        self.schema = Schema(schema)

    @staticmethod
    def _error(stream: Any) -> Exception:
        why = stream.get_last_error(stream)
        message = text(why) if why != ffi.NULL else "the query failed"
        return error(lib.lake_query_status(stream) or lib.LAKE_UNKNOWN, message)

    def _take(self) -> Any:
        with self._lock:
            stream, self._stream = self._stream, None
        if stream is None:
            raise ValueError("the result was read, handed over or closed before")
        stay_in_process()
        return stream

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream = self._take()  # held until it has moved into the capsule
        return _capsules.lake_capsule_of_stream(_address(stream))

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def reader(self) -> Any:
        """A `pyarrow.RecordBatchReader`: batch by batch, in constant memory. Needs pyarrow, whose
        exceptions also tell what goes wrong while it reads."""
        import pyarrow
        return pyarrow.RecordBatchReader.from_stream(self)

    def table(self) -> Any:
        """All rows as a `pyarrow.Table`. Needs pyarrow."""
        import pyarrow
        reader = self.reader()
        # Not read_all(), which would not hear of Ctrl-C before the last row.
        return pyarrow.Table.from_batches(list(reader), reader.schema)

    def files(self, column: int | str = 0) -> Iterator[File | None]:
        """The FILE values of one column, row by row, None for nulls. Needs no Arrow library."""
        names = self.schema.names
        if isinstance(column, str):
            if column not in names:
                raise KeyError(f"no column {column!r} among {', '.join(names)}")
            column = names.index(column)
        if not 0 <= column < len(names):
            raise IndexError(f"no column {column} among {len(names)}")
        return self._files(self._take(), column)

    def _files(self, stream: Any, column: int) -> Iterator[File | None]:
        while True:
            batch = _owned("ArrowArray")
            stay_in_process()
            if stream.get_next(stream, batch):
                raise self._error(stream)
            if batch.release == ffi.NULL:
                return
            for row in range(batch.length):
                yield _file(self.schema._struct, batch, column, row)

    def close(self) -> None:
        """Gives the result back; the server stops working on it. Closing twice is allowed."""
        with self._lock:
            self._stream = None

    def __enter__(self) -> Result:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
