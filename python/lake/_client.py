"""The client: what a program does with Lake."""

from __future__ import annotations

import dataclasses
import datetime
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from . import _arrow, _transfer
from ._errors import OutcomeUnknown
from ._io import ObjectReader
from ._library import call, chars, ffi, lib, owned, stay_in_process, text
from ._transfer import Transfer, location, path_chars, read_source, take_file, told_progress
from ._types import File, Inserted, Presigned, Progress
from ._values import Values

MAX_APPEND_ROWS = 10_000  # of one append, by lake.h
READ_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class TableInfo:
    """What describe() knows of a table."""

    name: str
    location: str  # where its Lance dataset is, as a URI
    incarnation: str  # changes when a table is dropped and created again
    version: int  # the newest
    schema: _arrow.Schema


def connect(address: str, *, token: str | None = None, ca_pem: str | None = None,
            tls: bool = False, server_name: str | None = None, timeout: float | None = None,
            checkpoint_dir: str | os.PathLike[str] | None = None,
            parts_in_flight: int | None = None) -> Client:
    """Connects to the Query server at `address` ("host:port").

    token: what an identity provider gave; without it the caller is anonymous, which only a server on
        loopback accepts.
    ca_pem, tls, server_name: the certificate authorities in PEM instead of the system's, encryption
        without either, the name to expect in the certificate.
    timeout: seconds that one request may take (30); results and transfers take as long as they take.
    checkpoint_dir: where unfinished work is written down: uploads of paths into S3, so that the next
        put() of the same file goes on with them, and rows, so that those whose answer was lost are
        pending_appends().
    parts_in_flight: of 64 MiB each, into S3 (4; at most 16).
    """
    return _connect(False, address, token, ca_pem, tls, server_name, timeout,
                    checkpoint_dir, parts_in_flight)


def connect_query_only(address: str, *, token: str | None = None, ca_pem: str | None = None,
                       tls: bool = False, server_name: str | None = None,
                       timeout: float | None = None,
                       checkpoint_dir: str | os.PathLike[str] | None = None) -> Client:
    """As connect(), for whoever has no credentials of the object storage: open(), read(), get() and
    presign() go by URLs that Query signs for one object each. Files cannot be stored."""
    return _connect(True, address, token, ca_pem, tls, server_name, timeout,
                    checkpoint_dir, None)


def _connect(query_only: bool, address: str, token: str | None, ca_pem: str | None, tls: bool,
             server_name: str | None, timeout: float | None,
             checkpoint_dir: str | os.PathLike[str] | None, parts_in_flight: int | None) -> Client:
    stay_in_process()
    options = ffi.new("struct lake_connect_options *")
    keep = [chars(token, "token"), chars(ca_pem, "ca_pem"), chars(server_name, "server_name"),
            ffi.NULL if checkpoint_dir is None else path_chars(checkpoint_dir)]
    options.version = 1
    options.tls = tls
    options.bearer_token, options.ca_pem, options.server_name, options.upload_checkpoint_dir = keep
    if timeout is not None:
        if not timeout >= 0.001:
            raise ValueError("timeout is a number of seconds above zero")
        options.timeout_ms = int(timeout * 1000)
    options.upload_parts_in_flight = parts_in_flight or 0
    out = ffi.new("lake_client **")
    function = lib.lake_connect_query_only if query_only else lib.lake_connect
    call(function, chars(address, "address"), options, out)
    return Client(out[0], query_only)


class Client:
    """A connection to Lake, made by connect(). Threads share it freely.

    close() (or the end of a `with`) gives it up; calls that are under way in other threads still
    end, results and open files go on. A process forked from one that has a client cannot use it, nor
    make another: start workers by "spawn" (`multiprocessing.get_context("spawn")`).
    """

    def __init__(self, client: Any, query_only: bool = False) -> None:
        self._client: Any = owned(client, lib.lake_client_unref)
        self._query_only = query_only

    def _open(self) -> Any:
        """The connection, which lives at least as long as what is returned here."""
        client = self._client
        if client is None:
            raise ValueError("the client is closed")
        stay_in_process()
        return client

    def close(self) -> None:
        """Gives the connection up. Closing twice is allowed."""
        self._client = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<lake.Client {'closed' if self._client is None else 'open'}>"

    # ---- objects

    def put(self, source: str | os.PathLike[str] | BinaryIO, *, media_type: str | None = None,
            progress: Progress | None = None) -> File:
        """Stores a file, by its path or open in binary mode, and says where it is.

        It is hashed on its way and durable when this returns; no table refers to it yet. The media
        type goes by the name unless it is given. `progress(done, total)` is told now and then, total
        None when it is not known; an exception in it cancels the upload, and so does Ctrl-C.
        """
        client = self._open()
        transfer = Transfer(source, progress)
        out = ffi.new("struct lake_data_location *")
        media = chars(_transfer.media_type_of(source, media_type), "media_type")
        if _transfer.is_path(source):
            transfer.call(lib.lake_upload_path, client, path_chars(source),  # type: ignore[arg-type]
                          media, told_progress, transfer.handle, out)
        elif hasattr(source, "readinto") or hasattr(source, "read"):
            from_python = ffi.new("struct lake_source *")
            from_python.read, from_python.context = read_source, transfer.handle
            transfer.call(lib.lake_upload_source, client, from_python[0], media, told_progress,
                          transfer.handle, out)
        else:
            raise TypeError(f"put() takes a path or a binary file, not a {type(source).__name__}")
        return take_file(out)

    def cancel_put(self, path: str | os.PathLike[str]) -> None:
        """Gives up an upload of `path` that a process left unfinished."""
        call(lib.lake_cancel_upload, self._open(), path_chars(path))

    def get(self, file: Any, path: str | os.PathLike[str], *, progress: Progress | None = None,
            via_query: bool | None = None) -> None:
        """Reads a whole object into `path`, which appears when it is complete, verified and durable.

        via_query: by a URL that Query signs, without credentials of the object storage; as the client
            was connected unless it is given. So for read(), open() and presign().
        """
        transfer = Transfer(None, progress)
        where, _keep = location(file)
        function = self._choose(via_query, lib.lake_download, lib.lake_download_via_query)
        transfer.call(function, self._open(), where, path_chars(path), told_progress,
                      transfer.handle)

    def read(self, file: Any, start: int | None = None, end: int | None = None, *,
             via_query: bool | None = None) -> bytes:
        """The whole object, verified against its SHA-256; or its bytes [start, end), exact in number,
        and verified if digests of the object's chunks were stored with it and cost little to read
        (via Query they are not looked at)."""
        client = self._open()
        where, _keep = location(file)
        out = ffi.new("lake_reader **")
        if start is None and end is None:
            call(self._choose(via_query, lib.lake_open, lib.lake_open_via_query), client, where, out)
        else:
            call(self._choose(via_query, lib.lake_open_range, lib.lake_open_range_via_query), client,
                 where, 0 if start is None else start, where.size_bytes if end is None else end, out)
        reader = owned(out[0], lib.lake_reader_free)
        parts: list[bytes] = []
        buffer, got = ffi.new("uint8_t[]", READ_BYTES), ffi.new("size_t *")
        try:
            while True:
                call(lib.lake_reader_read, reader, buffer, READ_BYTES, got)
                if got[0] == 0:
                    return b"".join(parts)
                parts.append(bytes(ffi.buffer(buffer, got[0])))
        finally:
            ffi.release(reader)

    def open(self, file: Any, buffer_size: int = 1 << 16, *,
             via_query: bool | None = None) -> io.BufferedReader:
        """The object as a seekable binary file, of which only what is read is fetched.

        av.open, imageio, zipfile, numpy.load and torch.load take it. It stays open when the client
        closes.
        """
        via_query = self._query_only if via_query is None else via_query
        return io.BufferedReader(ObjectReader(self._open(), File.from_value(file), via_query),
                                 buffer_size)

    def presign(self, file: Any, seconds: int = 3600, *,
                via_query: bool | None = None) -> Presigned:
        """A URL, a secret, by which anybody reads this one object for so long, 1 to 3,600 seconds."""
        where, _keep = location(file)
        out = ffi.new("struct lake_presigned *")
        call(self._choose(via_query, lib.lake_presign_read, lib.lake_presign_read_via_query),
             self._open(), where, seconds, out)
        try:
            expires = datetime.datetime.fromtimestamp(out.expires_unix_ms / 1000,
                                                      datetime.timezone.utc)
            return Presigned(text(out.url), expires, text(where.uri))
        finally:
            lib.lake_presigned_fini(out)

    def _choose(self, via_query: bool | None, own: Any, query: Any) -> Any:
        return query if (self._query_only if via_query is None else via_query) else own

    # ---- tables

    def create_table(self, table: str, columns: Any) -> None:
        """Creates "namespace.table" with the columns of an Arrow schema, such as pyarrow's, or of
        texts as on the command line: `["id:int64!", "state:float[7]", "video:FILE"]`, or a dict."""
        borrowed = _arrow.borrow_schema(columns)
        call(lib.lake_create_table, self._open(), chars(table, "table"), borrowed.schema)

    def drop(self, table: str) -> None:
        """Drops a table."""
        call(lib.lake_drop_table, self._open(), chars(table, "table"))

    def describe(self, table: str) -> TableInfo:
        """What is known of a table."""
        info = owned(ffi.new("struct lake_table_info *"), lib.lake_table_info_fini)
        call(lib.lake_describe_table, self._open(), chars(table, "table"), info)
        # The schema's memory is of `info`, which stays with it.
        return TableInfo(text(info.table), text(info.location), text(info.incarnation),
                         info.version, _arrow.Schema(ffi.addressof(info, "schema"), info))

    def tables(self, namespace: str | None = None) -> list[str]:
        """The names of the tables of a namespace, or of all that the caller may see."""
        out = ffi.new("struct lake_table_list *")
        call(lib.lake_list_tables, self._open(), chars(namespace, "namespace"), out)
        try:
            return [text(out.tables[i]) for i in range(out.count)]
        finally:
            lib.lake_table_list_fini(out)

    # ---- rows

    def insert(self, sql: str, values: Sequence[Any]) -> Inserted:
        """Adds a row: `insert("INSERT INTO lab.runs (id, video) VALUES (?, ?)", [1, path])`.

        Values are None, bool, int, float, str, bytes, sequences of floats, pathlib.Path (the file is
        uploaded), lake.Upload (the same of an open file, or with a media type) and lake.File.
        """
        return self.insert_many(sql, [values])

    def insert_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> Inserted:
        """Adds up to 10,000 rows as one version. All are checked before the first upload."""
        rows = [list(row) for row in rows]
        width = len(rows[0]) if rows else 0
        for i, row in enumerate(rows):
            if len(row) != width:
                raise ValueError(f"row {i} has {len(row)} values, the first has {width}")
        values = Values([value for row in rows for value in row])
        client, statement = self._open(), chars(sql, "sql")
        return _inserted(lambda result: (lib.lake_insert_many, client, statement, values.array,
                                         len(rows), width, result), values)

    def append(self, table: str, data: Any, *, operation_id: str | None = None) -> Inserted:
        """Adds up to 10,000 rows of Arrow data, exactly of the table's schema, as one version.

        `data` is a table, batch or reader of any Arrow library; views of text and bytes, which
        polars has, count as text and bytes. The same `operation_id` (a UUIDv7) with the same rows
        adds them once, however often it is tried.
        """
        borrowed = _arrow.borrow_batches(data, MAX_APPEND_ROWS)
        batches = ffi.new("struct ArrowArray *[]", borrowed.batches)
        client, name = self._open(), chars(table, "table")
        operation = chars(operation_id, "operation_id")
        return _inserted(lambda result: (lib.lake_append_batches, client, name, borrowed.schema,
                                         batches, len(borrowed.batches), operation, result))

    # ---- rows whose answer was lost, with a checkpoint_dir

    def pending_appends(self) -> list[str]:
        """The operation IDs of rows that were written down and not answered for, oldest first, at
        most 1,024. Those that are being sent just now are among them."""
        out = ffi.new("struct lake_pending_appends *")
        call(lib.lake_pending_append_ids, self._open(), out)
        try:
            return [ffi.string(out.operation_ids[i]).decode() for i in range(out.count)]
        finally:
            lib.lake_pending_appends_fini(out)

    def resume_append(self, operation_id: str) -> Inserted:
        """Sends these rows, which are then in their table once, however often they were sent. Rows
        are never added to another table of the same name: FailedPrecondition."""
        client, operation = self._open(), chars(operation_id, "operation_id")
        return _inserted(lambda result: (lib.lake_resume_pending_append, client, operation, result))

    def drop_append(self, operation_id: str) -> None:
        """Forgets these rows, which may have been added nevertheless."""
        call(lib.lake_drop_pending_append, self._open(), chars(operation_id, "operation_id"))

    # ---- queries

    def query(self, sql: str) -> _arrow.Result:
        """Runs a SELECT. The result goes into any Arrow library; `.table()` and `.reader()` are
        pyarrow's, `.files("video")` are its FILE values."""
        stream = _arrow._owned("ArrowArrayStream")
        call(lib.lake_query, self._open(), chars(sql, "sql"), stream)
        return _arrow.Result(stream)


def _inserted(arguments: Any, values: Values | None = None) -> Inserted:
    result = ffi.new("struct lake_insert_result *")
    try:
        function, *rest = arguments(result)
        try:
            call(function, *rest)
        except OutcomeUnknown as unknown:
            unknown.operation_id = text(result.operation_id)
            unknown.files = _files(result)
            raise
        except Exception:
            failure = values.failure() if values is not None else None
            if failure is not None:
                raise failure from None
            raise
        return Inserted(result.version, result.row_count, text(result.operation_id),
                        result.replayed, _files(result))
    finally:
        lib.lake_insert_result_fini(result)


def _files(result: Any) -> tuple[File, ...]:
    return tuple(_transfer.file_of(result.locations[i]) for i in range(result.location_count))
