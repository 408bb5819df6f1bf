"""Makes the seeds of the lance_*_fuzz targets from files that pylance writes: pages, encodings, files.

usage: lance_page_seeds.py tests/fuzz/corpus     (run by hand when an encoding is added)
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
            yield (find(page, 3) or [0])[0], layout, [data[o : o + s] for o, s in zip(offsets, sizes)]


N = 60
SPLIT = {"lance-encoding:bss": "on", "lance-encoding:compression": "lz4"}
PACKED = {"lance-encoding:packed": "true"}
BLOB = {"lance-encoding:blob": "true"}
JSON = pa.json_(pa.string())


def packed_list():
    item = pa.field("item", pa.struct([("a", pa.int32()), ("s", pa.binary())]), metadata=PACKED)
    return pa.array([[{"a": i, "s": b"x" * i}] * (i % 3) if i % 4 else None for i in range(20)], pa.list_(item))


def struct_of(**columns):
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


INTS = pa.array(range(N), pa.int32())
COLUMNS = [  # the first number: which kind of column in lance_fuzz.h
    (0, pa.array([i % 7 if i % 5 else None for i in range(N)], pa.int32()), {}),
    (0, pa.array([None] * N, pa.int32()), {}),
    (0, pa.array([9] * N, pa.int32()), {}),
    (0, pa.array([9, None] * (N // 2), pa.int32()), {}),
    (1, pa.array([i // 20 for i in range(N)], pa.int64()), {"lance-encoding:rle-threshold": "1.0"}),
    (1, pa.array([i * 1000 for i in range(300)], pa.int64()), {"lance-encoding:compression": "zstd"}),
    (1, pa.array([i * 1000 for i in range(1500)], pa.int64()), {}),
    (2, pa.array([i % 3 == 0 for i in range(N)]), {}),
    (3, pa.array([b"x" * (i % 9) if i % 4 else None for i in range(N)]), {}),
    (3, pa.array([b"text %d" % (i % 3) for i in range(N)]), {}),
    (3, pa.array([b"same"] * N), {}),
    (3, pa.array([b"long" * (i % 90) for i in range(20)]), {}),
    (3, pa.array([b"text %d" % i for i in range(N)]), {"lance-encoding:compression": "lz4"}),
    (3, pa.array([b"long text " * (i % 90) for i in range(30)]), {"lance-encoding:compression": "zstd"}),
    (3, pa.array([b"the quick brown fox %d" % (i * 7919 % 1000) for i in range(N)]), {"lance-encoding:compression": "fsst"}),
    (4, pa.array([b"y" * (i % 5) for i in range(N)], pa.large_binary()), {}),
    (5, pa.array([[i, None, 1.0] for i in range(N)], pa.list_(pa.float32(), 3)), {}),
    (5, pa.array([[None] * 3] * N, pa.list_(pa.float32(), 3)), {}),
    (5, pa.array([[i, 2.0, 1.0] if i % 2 else None for i in range(20)], pa.list_(pa.float32(), 3)),
     {"lance-encoding:structural-encoding": "fullzip"}),
    (6, pa.array([[i, None] * (i % 3) if i % 5 else None for i in range(N)], pa.list_(pa.int32())), {}),
    (6, pa.array([[], None] * 10, pa.list_(pa.int32())), {}),
    (7, pa.array([[[b"a"], None, []] if i % 4 else [] for i in range(N)], pa.list_(pa.list_(pa.binary()))), {}),
    (8, pa.array([i / 4 for i in range(N)], pa.float32()), SPLIT),
    (9, pa.array([{"a": i} if i % 3 else None for i in range(N)], pa.struct([("a", pa.int32())])), {}),
    (10, pa.array([[{"a": i}, None] if i % 3 else None for i in range(N)], pa.list_(pa.struct([("a", pa.int16())]))), {}),
    (11, pa.array([decimal.Decimal(i % 4) for i in range(N)], pa.decimal128(20, 4)), {}),
    (12, pa.array([b"a", b"b", None] * (N // 3), pa.binary()).dictionary_encode(), {}),
    (13, pa.array([i % 2 for i in range(N)], pa.uint8()), {}),
    (14, pa.array([[True, False, None, True, True]] * 20, pa.list_(pa.bool_(), 5)), {}),
    (15, struct_of(a=INTS, b=pa.array([b"%03d" % i for i in range(N)], pa.binary(3))), PACKED),
    (16, struct_of(a=pa.array([i / 2 for i in range(20)], pa.float32()), b=pa.array([b"x" * i for i in range(20)]),
                v=pa.array([[i, None, 1] for i in range(20)], pa.list_(pa.int16(), 3))), PACKED),
    (17, pa.array([b"blob" * i if i % 3 else (b"" if i % 2 else None) for i in range(12)], pa.large_binary()), BLOB),
    (18, pa.array([b"blob" * i if i % 3 else (b"" if i % 2 else None) for i in range(12)], pa.large_binary()), BLOB),
    (19, pa.array(['{"a":[1,-2.5,null,true],"b":{"c":"x\\n"}}', None, "[]"] * 4, JSON), {}),
    # Storage 2.0 writes this, but nobody reads it.
    (20, pa.FixedSizeListArray.from_arrays(struct_of(x=INTS), 2), {}),
    (21, packed_list(), {}),
    (22, pa.nulls(N), {}),
    (23, pa.array([[[1, None], None, [3, 4]]] * 20, pa.list_(pa.list_(pa.int8(), 2), 3)), {}),
]
LAYOUTS = {1: "mini_block", 2: "constant", 3: "full_zip", 4: "blob"}


def page_seed(kind, minor, parts):
    seed = struct.pack("<BB", kind, minor)
    for rows, layout, buffers in parts:
        seed += struct.pack("<HBH", rows, len(buffers), len(layout))
        seed += b"".join(struct.pack("<I", len(buffer)) for buffer in buffers) + layout + b"".join(buffers)
    return seed


def codec_seeds(layout, buffers):
    """The encodings of a mini-block page of storage 2.1 with their first chunk: values, levels, dictionary."""
    def first(number):
        return (find(layout, number) or [b""])[0]

    def seed(encoding, use, count, log2, data):
        (number, body), = fields(encoding)
        sizes = b"".join(struct.pack("<H", len(part)) for part in data[:-1])
        return struct.pack("<BBHBBH", number - 1, use, count, log2, len(data) - 1, len(body)) + sizes + body + b"".join(data)

    chunk, at, parts = buffers[1], 2, []
    levels, count = int.from_bytes(chunk[:2], "little"), min(find(layout, 9)[0], 1024)
    names = [number for number in (1, 2) if find(layout, number)] + [3] * first(7)
    sizes = [int.from_bytes(chunk[2 + 2 * i : 4 + 2 * i], "little") for i in range(len(names))]
    at += 2 * len(names)
    for size in sizes:
        at = (at + 7) // 8 * 8
        parts.append(chunk[at : at + size])
        at += size
    values = [part for name, part in zip(names, parts) if name == 3]
    for log2 in (0, 3, 5, 6):
        yield seed(first(3), 0, count, log2, values)
    yield seed(first(3), 1, count, 5, values)
    for name, part in zip(names, parts):
        if name != 3:
            yield seed(find(layout, name)[0], 2, levels, 4, [part])
    if find(layout, 4):
        yield seed(first(4), 3, find(layout, 5)[0], 5, [buffers[2]])


def message(*parts):
    """Numbers and messages by their field numbers, below 16 and of less than 128 bytes."""
    return b"".join(struct.pack("<BB", number << 3 | 2, len(value)) + value if isinstance(value, bytes)
                    else struct.pack("<BB", number << 3, value) for number, value in parts)


def more_codec_seeds():
    """Encodings that stand inside of others, or in layouts that are not mini blocks, on their own."""
    flat16, flat32, variable = message((1, message((1, 16)))), message((1, message((1, 32)))), message(
        (2, message((1, message((1, message((1, 32))))))))
    numbers, texts = struct.pack("<100I", *range(100)), [b"text %d" % i for i in range(20)]
    offsets = [sum(map(len, texts[:i])) for i in range(len(texts) + 1)]
    block = struct.pack("<II21I", 32, 92, *offsets) + b"".join(texts)
    lz4, zstd = pa.Codec("lz4_raw"), pa.Codec("zstd")

    def compressed(scheme, data):
        if scheme == 1:
            return struct.pack("<I", len(data)) + lz4.compress(data, asbytes=True)
        return struct.pack("<Q", len(data)) + zstd.compress(data, asbytes=True)

    def seed(number, use, count, log2, body, data):
        return struct.pack("<BBHBBH", number - 1, use, count, log2, 0, len(body)) + body + data

    yield seed(3, 2, 50, 5, message((1, b"abcd")), b"")
    yield seed(3, 3, 50, 5, message((1, b"a longer text")), b"")
    for tail in (bytes(10), bytes(384)):
        yield seed(4, 2, 1029, 4, message((1, 16), (3, message((1, message((1, 3)))))), bytes(range(192)) * 2 + tail)
    yield seed(7, 0, 100, 5, message((1, flat16), (2, flat32), (3, 100)), numbers)
    for scheme in (1, 2):
        general = message((1, message((1, scheme))), (3, flat32))
        yield seed(10, 0, 100, 5, general, compressed(scheme, numbers))
        yield seed(10, 2, 100, 5, general, compressed(scheme, numbers))
        yield seed(10, 3, 20, 5, message((1, message((1, scheme))), (3, variable)), compressed(scheme, block))
    yield seed(13, 0, 10, 5, message((1, message((1, flat32), (2, 32))), (1, message((1, variable), (3, 32)))), bytes(300))


def deletion_seeds():
    """Deletion files as pylance writes them: few rows as an Arrow file, many as a bitmap."""
    for form, condition in ((0, "i in (1, 5, 99)"), (0, "i > 700 and i < 800"), (1, "i % 3 = 1 and i < 16000"), (1, "i < 6000")):
        with tempfile.TemporaryDirectory() as where:
            lance.write_dataset(pa.table({"i": range(30000)}), where + "/t")
            lance.dataset(where + "/t").delete(condition)
            file, = pathlib.Path(where, "t", "_deletions").iterdir()
            assert file.suffix == (".arrow", ".bin")[form]
            yield bytes([form]) + file.read_bytes()
    yield bytes([2]) + bytes.fromhex("3a300000010000000000020010000000000001000200")  # an index's fragments


INDEXED = [
    pa.array([i * 7 % 50 if i % 9 else None for i in range(N)], pa.int64()),
    pa.array([i / 4 if i % 9 else float("nan") for i in range(N)], pa.float32()),
    pa.array(["k%d" % (i % 7) if i % 9 else None for i in range(N)]),
    pa.array([decimal.Decimal(i % 4) for i in range(N)], pa.decimal128(20, 4)),
]


def index_seeds():
    for kind, (name, files) in enumerate([("BTREE", ["page_lookup.lance", "page_data.lance"]),
                                          ("BITMAP", ["bitmap_page_lookup.lance"]),
                                          ("ZONEMAP", ["zonemap.lance"])]):
        for array in INDEXED:
            with tempfile.TemporaryDirectory() as where:
                dataset = lance.write_dataset(pa.table([array], ["c"]), where + "/t", max_rows_per_file=25)
                dataset.create_scalar_index("c", name)
                directory = next(pathlib.Path(where, "t", "_indices").iterdir())
                table, *pages_file = [(directory / file).read_bytes() for file in files]
                manifest = min(pathlib.Path(where, "t", "_versions").glob("*.manifest")).read_bytes()
            yield struct.pack("<BI", kind, len(table)) + table + b"".join(pages_file)
            at, = struct.unpack_from("<Q", manifest, len(manifest) - 16)
            size, = struct.unpack_from("<I", manifest, at)
            at = find(manifest[at + 4 : at + 4 + size], 6)[0]
            size, = struct.unpack_from("<I", manifest, at)
            yield b"\4" + manifest[at + 4 : at + 4 + size]
    one = struct.pack("<IIHHI", 12346, 1, 0, 2, 16) + struct.pack("<HHH", 1, 2, 9)
    runs = struct.pack("<IBHH", 12347, 1, 0, 4) + struct.pack("<HHH", 1, 3, 4)
    full = struct.pack("<IIHHI", 12346, 1, 1, 4999, 16) + b"\xaa" * 8192
    yield b"\3" + struct.pack("<III", 2, 0, len(one)) + one + struct.pack("<II", 3, len(runs)) + runs
    yield b"\3" + struct.pack("<III", 1, 7, 0)
    yield b"\3" + struct.pack("<III", 1, 7, len(full)) + full


def main():
    out = pathlib.Path(sys.argv[1])
    seen = {}

    def put(target, seed, most=6000):
        (out / target).mkdir(parents=True, exist_ok=True)
        seen[target] = seen.get(target, 0) + 1
        if len(seed) < most:
            (out / target / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)

    for kind, array, metadata in COLUMNS:
        for minor in (0, 1, 2):
            schema = pa.schema([pa.field("c", array.type, metadata=metadata)])
            with tempfile.TemporaryDirectory() as where:
                try:
                    lance.write_dataset(pa.table([array], schema=schema), where + "/t", data_storage_version=f"2.{minor}")
                except BaseException as refused:
                    print(array.type, minor, str(refused)[:60])
                    continue
                data = next(pathlib.Path(where, "t", "data").glob("*.lance")).read_bytes()
            parts = list(pages(data))
            if minor == 0:
                put("lance_v20", page_seed(kind, minor, parts[:2]))
            for rows, layout, buffers in parts if minor else []:
                put("lance_page", page_seed(kind, minor, [(rows, layout, buffers)]))
                (number, body), = fields(layout)
                put(f"lance_{LAYOUTS[number]}", page_seed(kind, minor, [(rows, body, buffers)]))
                if number == 1 and minor == 1:
                    for seed in codec_seeds(body, buffers):
                        put("lance_codec", seed)
            if kind in (0, 5, 7, 10, 12, 15, 16, 17, 18, 19, 20, 23) and (kind, minor) != (20, 0) and len(data) < 2500:
                put("lance_file", data)
    for seed in more_codec_seeds():
        put("lance_codec", seed)
    for seed in deletion_seeds():
        put("lance_deletion", seed, 10000)
    documents = [b"\x20\0\0\0\0\0\0\0", b"\x20\0\0\0\x20\0\0\x09\x60\x3f\xf8\0\0\0\0\0\0", b"\x80\0\0\0",
                 bytes.fromhex("4000000110000001500000286140000001100000015000001b6280000002200000025000000d50014000000110000001"
                               "0000000063"), bytes.fromhex("400000021000000110000001200000022000000261625001 5002".replace(" ", ""))]
    documents += [b'{"b":[1,-200,2.5e-7,18446744073709551615],"a":"\\u00e9\\ud83d\\ude00\\n"}', b"[null,true,-Infinity,[],{}]", b" -0.0 "]
    for document in documents:
        put("lance_jsonb", document)
    for seed in index_seeds():
        put("lance_index", seed)
    print(seen)


main()
