"""Metasrv as a child process, and its protocol over pyarrow's Flight client."""

import os
import pathlib
import signal
import struct
import subprocess
import time
import uuid

import pyarrow as pa
import pyarrow.flight as flight

BUILD = pathlib.Path(os.environ.get("LAKE_BUILD_DIR", "build/release"))
SERVER = BUILD / "tests" / "meta_server"


def log_path():
    """The suite keeps all logs until its end, where they are searched for secrets."""
    logs = os.environ.get("LAKE_TEST_LOGS")
    return pathlib.Path(logs) / "meta_server.log" if logs else os.devnull


class Metasrv:
    """One running server on `data_dir`."""

    def __init__(self, data_dir, fault=None, env=None, log=None):
        full = {key: value for key, value in os.environ.items() if not key.startswith("LAKE_")}
        full.update(env or {})
        if fault:
            full["LAKE_FAULT"] = fault
        with open(log_path(), "ab") as kept:
            self.process = subprocess.Popen([str(SERVER), str(data_dir)], stdout=subprocess.PIPE,
                                            stderr=log or kept, env=full)
        line = self.process.stdout.readline().decode()
        self.port = int(line.split()[1]) if line.startswith("port ") else None

    @property
    def location(self):
        return f"grpc://127.0.0.1:{self.port}"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def wait_killed(self, why="it was not killed"):
        """A fault point kills it, or has."""
        assert self.process.wait(timeout=60) == -signal.SIGKILL, why
        self.process.stdout.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        return code


# ---- protobuf by hand: enough for proto/lake.proto, and independent of the code under test ------


def varint(value):
    out = bytearray()
    while True:
        out.append((value & 0x7F) | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def parse(data):
    """Field number -> list of values (int or bytes)."""
    fields, at = {}, 0

    def take_varint(at):
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value, at

    while at < len(data):
        tag, at = take_varint(at)
        if tag & 7 == 0:
            value, at = take_varint(at)
        elif tag & 7 == 2:
            size, at = take_varint(at)
            value, at = bytes(data[at : at + size]), at + size
        else:
            raise ValueError(f"wire type {tag & 7}")
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def table_name(name):
    namespace, table = name.split(".")
    return field(1, namespace) + field(2, table)


def uuid7(unix_ms=None):
    millis = int(time.time() * 1000) if unix_ms is None else unix_ms
    raw = bytearray(struct.pack(">Q", millis)[2:] + os.urandom(10))
    raw[6] = 0x70 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    return str(uuid.UUID(bytes=bytes(raw)))


# ---- the protocol -------------------------------------------------------------------------------


def call_options(token=None, headers=(), timeout=60):
    sent = [(name.encode(), value.encode()) for name, value in headers]
    if token:
        sent.append((b"authorization", b"Bearer " + token.encode()))
    return flight.FlightCallOptions(headers=sent, timeout=timeout)


def action(client, kind, body=b"", options=None):
    results = list(client.do_action(flight.Action(kind, body), options or call_options()))
    return results[0].body.to_pybytes() if results else b""


def create_table(client, name, schema, if_not_exists=False, options=None):
    body = field(1, table_name(name)) + field(2, schema.serialize().to_pybytes())
    return parse(action(client, "lake.create_table", body + field(3, int(if_not_exists)), options))


def drop_table(client, name, options=None):
    action(client, "lake.drop_table", field(1, table_name(name)), options)


def append_descriptor(name, operation_id, incarnation=None):
    command = field(1, table_name(name)) + field(2, operation_id)
    if incarnation:
        command += field(3, incarnation)
    return flight.FlightDescriptor.for_command(
        field(1, "type.lake/AppendCommand") + field(2, command)
    )


def append(client, name, operation_id, batches, incarnation=None, options=None):
    """Returns (version, row count, replayed)."""
    writer, reader = client.do_put(
        append_descriptor(name, operation_id, incarnation),
        batches[0].schema,
        options or call_options(),
    )
    with writer:
        for batch in batches:
            writer.write_batch(batch)
        writer.done_writing()
        reply = reader.read()
    if reply is None:
        raise RuntimeError("no PutResult")
    result = parse(reply.to_pybytes())
    return result[1][0], result[3][0], bool(result.get(4, [0])[0])


def dataset_path(data_dir, name):
    namespace, table = name.lower().split(".")
    return str(pathlib.Path(data_dir) / "tables" / namespace / f"{table}.lance")


def batch_of(ids, note="row"):
    return pa.record_batch(
        [pa.array(ids, pa.int64()), pa.array([f"{note} {i}" for i in ids], pa.utf8())],
        schema=SCHEMA,
    )


SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("note", pa.utf8())])
