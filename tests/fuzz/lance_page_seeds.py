"""Makes the seeds of lance_page_fuzz from files that pylance writes: one a page, and a few whole.

usage: lance_page_seeds.py DIRECTORY     (run by hand when an encoding is added)
"""

import decimal
import hashlib
import pathlib
import struct
import sys
import tempfile

import lance
import pyarrow as pa


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            assert tag & 7 == 2
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        yield tag >> 3, value


def find(data, number):
    return [value for field, value in fields(data) if field == number]


def packed(data):
    at, values = 0, []
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def pages(data):
    """(rows, layout, buffers) of every page of a data file."""
    table, columns = struct.unpack_from("<Q", data, len(data) - 32)[0], struct.unpack_from(
        "<I", data, len(data) - 12)[0]
    for column in range(columns):
        position, length = struct.unpack_from("<QQ", data, table + 16 * column)
        for page in find(data[position : position + length], 2):
            offsets = packed(b"".join(find(page, 1)))
            sizes = packed(b"".join(find(page, 2)))
            layout = find(find(find(find(page, 4)[0], 2)[0], 1)[0], 2)[0]
            yield find(page, 3)[0], layout, [data[o : o + s] for o, s in zip(offsets, sizes)]


N = 300
COLUMNS = [  # in the order of the types in lance_page_fuzz.c
    (0, pa.array([i % 7 if i % 5 else None for i in range(N)], pa.int32()), {}),
    (0, pa.array([None] * N, pa.int32()), {}),
    (0, pa.array([9] * N, pa.int32()), {}),
    (1, pa.array([i // 50 for i in range(N)], pa.int64()), {"lance-encoding:rle-threshold": "1.0"}),
    (1, pa.array([i * 1000 for i in range(N)], pa.int64()), {"lance-encoding:compression": "zstd"}),
    (2, pa.array([i % 3 == 0 for i in range(N)]), {}),
    (3, pa.array([b"x" * (i % 9) if i % 4 else None for i in range(N)]), {}),
    (3, pa.array([b"text %d" % (i % 3) for i in range(N)]), {}),
    (3, pa.array([b"long" * (i % 90) for i in range(N // 4)]), {}),
    (3, pa.array([b"text %d" % i for i in range(N)]), {"lance-encoding:compression": "lz4"}),
    (3, pa.array([b"long text " * (i % 90) for i in range(60)]),
     {"lance-encoding:compression": "zstd"}),
    (4, pa.array([b"y" * (i % 5) for i in range(N)], pa.large_binary()), {}),
    (5, pa.array([[i, None, 1.0] for i in range(N)], pa.list_(pa.float32(), 3)), {}),
    (6, pa.array([[i, None] * (i % 3) if i % 5 else None for i in range(N)], pa.list_(pa.int32())), {}),
    (7, pa.array([[[b"a"], None, []] if i % 4 else [] for i in range(N)],
                 pa.list_(pa.list_(pa.binary()))), {}),
    (8, pa.array([i / 4 for i in range(N)], pa.float32()),
     {"lance-encoding:bss": "on", "lance-encoding:compression": "lz4"}),
    (9, pa.array([{"a": i} if i % 3 else None for i in range(N)], pa.struct([("a", pa.int32())])), {}),
    (10, pa.array([[{"a": i}, None] if i % 3 else None for i in range(N)],
                  pa.list_(pa.struct([("a", pa.int16())]))), {}),
    (11, pa.array([decimal.Decimal(i % 4) for i in range(N)], pa.decimal128(20, 4)), {}),
    (12, pa.array([b"a", b"b", None] * (N // 3), pa.binary()).dictionary_encode(), {}),
    (13, pa.array([i % 2 for i in range(N)], pa.uint8()), {}),
    (14, pa.array([[True, False, None, True, True]] * N, pa.list_(pa.bool_(), 5)), {}),
]


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for kind, array, metadata in COLUMNS:
        for minor in (1, 2):
            schema = pa.schema([pa.field("c", array.type, metadata=metadata)])
            with tempfile.TemporaryDirectory() as where:
                try:
                    lance.write_dataset(pa.table([array], schema=schema), where + "/t",
                                        data_storage_version=f"2.{minor}")
                except OSError as refused:
                    print(array.type, refused)
                    continue
                data = next(pathlib.Path(where, "t", "data").glob("*.lance")).read_bytes()
            seeds = [
                struct.pack("<BBHBH", kind, minor, rows, len(buffers), len(layout))
                + b"".join(struct.pack("<I", len(buffer)) for buffer in buffers)
                + layout + b"".join(buffers)
                for rows, layout, buffers in pages(data)
            ]
            if kind in (0, 7, 12):
                seeds.append(data)
            for seed in seeds:
                (out / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)


main()
