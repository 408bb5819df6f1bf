"""PyArrow as the oracle of ipc_interop_test: writes Arrow files, and judges what Lake made of them.

    ipc_fixtures.py write DIR            one file per case, DIR/<case>.arrow
    ipc_fixtures.py judge DIR SUFFIX     DIR/<case>.<SUFFIX> holds the same rows and schema
"""

import datetime
import decimal
import os
import re
import struct
import sys

import pyarrow as pa
import pyarrow.ipc as ipc


def primitive_types():
    yield from (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    yield from (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    yield from (pa.float16(), pa.float32(), pa.float64(), pa.bool_())
    yield from (pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"))
    yield from (pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ns", "UTC"))
    yield from (pa.timestamp("us", "Europe/Berlin"), pa.duration("ms"), pa.duration("ns"))


def value(kind, i):
    if pa.types.is_boolean(kind):
        return i % 3 == 0
    if pa.types.is_floating(kind):
        return i / 2
    return i % 100 * (86_400_000 if kind == pa.date64() else 1)


def column(kind, rows, nulls):
    values = [None if nulls and i % 5 == 2 else value(kind, i) for i in range(rows)]
    storage = pa.array(values, pa.int64()) if not (
        pa.types.is_boolean(kind) or pa.types.is_floating(kind)) else None
    if storage is None:
        return pa.array(values, kind) if kind != pa.float16() else pa.array(
            values, pa.float32()).cast(kind)
    if pa.types.is_integer(kind):
        return storage.cast(kind)
    width = kind.bit_width
    return storage.cast(pa.int32() if width == 32 else pa.int64()).view(kind)


def cases(rows=83):
    n = range(rows)
    for nulls in (False, True):
        suffix = "nulls" if nulls else "full"
        names = [str(kind) for kind in primitive_types()]
        yield f"primitive_{suffix}", pa.table(
            [column(kind, rows, nulls) for kind in primitive_types()], names)
        text = [None if nulls and i % 4 == 1 else "grüße " * (i % 6) for i in n]
        raw = [None if t is None else t.encode() + b"\0\xff" for t in text]
        yield f"text_{suffix}", pa.table({
            "utf8": pa.array(text, pa.utf8()),
            "large_utf8": pa.array(text, pa.large_utf8()),
            "utf8_view": pa.array(text, pa.string_view()),
            "binary": pa.array(raw, pa.binary()),
            "large_binary": pa.array(raw, pa.large_binary()),
            "binary_view": pa.array(raw, pa.binary_view()),
            "fixed": pa.array([None if r is None else b"0123456" for r in raw], pa.binary(7)),
            "decimal": pa.array(
                [None if r is None else decimal.Decimal(len(r)) / 4 for r in raw],
                pa.decimal128(12, 2)),
            "decimal256": pa.array(
                [None if r is None else decimal.Decimal(-len(r)) for r in raw],
                pa.decimal256(50, 3)),
        })
        lists = [None if nulls and i % 4 == 1 else list(range(i % 5)) for i in n]
        yield f"nested_{suffix}", pa.table({
            "list": pa.array(lists, pa.list_(pa.int32())),
            "large_list": pa.array(lists, pa.large_list(pa.int64())),
            "list_view": pa.array(lists, pa.list_view(pa.int16())),
            "vector": pa.array(
                [None if nulls and i % 4 == 1 else [i, -i, i / 3] for i in n],
                pa.list_(pa.float32(), 3)),
            "struct": pa.array(
                [None if nulls and i % 4 == 1 else {"a": i, "b": {"c": str(i), "d": i % 2 == 0}}
                 for i in n],
                pa.struct({"a": pa.int64(),
                           "b": pa.struct({"c": pa.utf8(), "d": pa.bool_()})})),
            "map": pa.array([None if nulls and i % 4 == 1 else [(str(j), j) for j in range(i % 3)]
                             for i in n], pa.map_(pa.utf8(), pa.int32())),
            "lists_of_lists": pa.array(
                [None if nulls and i % 4 == 1 else [[str(i)] * 2, None, []] for i in n],
                pa.list_(pa.list_(pa.utf8()))),
            "structs": pa.array([[{"x": i, "y": None}] for i in n],
                                pa.list_(pa.struct({"x": pa.int8(), "y": pa.utf8()}))),
        })
    words = pa.array([None if i % 7 == 3 else f"word {i % 9}" for i in n])
    inner = pa.StructArray.from_arrays(
        [words.dictionary_encode(), pa.array(list(n))], ["word", "n"])
    nested = pa.DictionaryArray.from_arrays(pa.array([i % 4 for i in n], pa.int8()), inner[:5])
    yield "dictionaries", pa.table({
        "plain": words.dictionary_encode(),
        "narrow": words.dictionary_encode().cast(pa.dictionary(pa.int8(), pa.utf8())),
        "numbers": pa.array([i % 3 for i in n]).dictionary_encode(),
        "in_struct": pa.StructArray.from_arrays([words.dictionary_encode()], ["w"]),
        "in_list": pa.ListArray.from_arrays(
            pa.array(list(range(rows + 1)), pa.int32()), words.dictionary_encode()),
        "nested": nested,
    })
    ids = pa.array([i % 3 for i in n], pa.int8())
    floats = pa.array([float(i) for i in n])
    yield "unions", pa.table({
        "dense": pa.UnionArray.from_dense(
            ids, pa.array(list(n), pa.int32()), [floats, words, pa.array(list(n))]),
        "sparse": pa.UnionArray.from_sparse(ids, [floats, words, pa.array(list(n))]),
        "null": pa.nulls(rows),
    })
    described = pa.schema([
        pa.field("a", pa.int32(), nullable=False, metadata={b"unit": b"m/s", b"raw": b"\xc3\xbc"}),
        pa.field("FILE", pa.struct({"uri": pa.utf8()}), metadata={b"k": b""}),
    ], metadata={b"table": b"robots"})
    yield "metadata", pa.table(
        [pa.array(list(n), pa.int32()),
         pa.array([{"uri": str(i)} for i in n], pa.struct({"uri": pa.utf8()}))],
        schema=described)
    yield "empty", pa.table({
        "a": pa.array([], pa.int32()), "b": pa.array([], pa.utf8()),
        "c": pa.array([], pa.list_(pa.int8())), "d": pa.array([], pa.utf8()).dictionary_encode(),
        "e": pa.array([], pa.struct({"x": pa.bool_()})),
    })
    yield "no_columns", pa.table({})
    yield "calendar", pa.table({
        "interval": pa.array([None, pa.MonthDayNano([1, -2, 3])] * 4, pa.month_day_nano_interval()),
        "early": pa.array([datetime.datetime(1902, 1, 2, 3, 4, 5, 6)] * 8, pa.timestamp("us")),
    })


def batches(name, table):
    out = table.to_batches(max_chunksize=37)
    if name == "dictionaries":
        # A second batch with other dictionaries: they are replaced, or grow by deltas.
        more = table.slice(0, 11).combine_chunks()
        words = pa.array([f"other {i}" for i in range(11)]).dictionary_encode()
        out = out + more.set_column(0, "plain", words).to_batches()
    return out or [pa.RecordBatch.from_pylist([], schema=table.schema)]


def scatter(path, out):
    """The file with its messages in another order and things in between, and the schema in its footer
    only: what such files are allowed to be, and those of polars are."""
    with open(path, "rb") as file:
        text = file.read()
    footer_bytes, = struct.unpack("<I", text[-10:-6])
    footer_at = len(text) - 10 - footer_bytes
    footer = bytearray(text[footer_at:-10])
    with pa.OSFile(path) as source, ipc.open_file(source) as reader:
        batches = reader.num_record_batches
    frames, at = [], 8
    while text[at + 4:at + 8] != bytes(4):
        size, = struct.unpack("<I", text[at + 4:at + 8])
        found = re.compile(re.escape(struct.pack("<qi", at, size + 8)) + b"....(.{8})", re.S).search(
            footer)
        body = struct.unpack("<q", found[1])[0] if found else 0
        frames.append((found and found.start(), text[at:at + 8 + size + body]))
        at += 8 + size + body
    assert frames[0][0] is None and sum(place is not None for place, _ in frames) >= batches
    made = bytearray(b"ARROW1\0\0" + frames[0][1][8:])  # as polars: without a frame
    for place, frame in reversed(frames[1:]):
        struct.pack_into("<q", footer, place, len(made))
        made += frame + b"\0" * 64
    with open(out, "wb") as file:
        file.write(made + footer + text[-10:])


def write(directory):
    for name, table in cases():
        data = batches(name, table)
        with ipc.new_stream(f"{directory}/{name}.arrow", table.schema) as writer:
            for batch in data:
                writer.write_batch(batch)
        if "view" in name or name == "unions":
            continue
        for codec in ("lz4", "zstd"):
            options = ipc.IpcWriteOptions(compression=codec)
            with ipc.new_stream(f"{directory}/{name}_{codec}.arrow", table.schema,
                                options=options) as writer:
                for batch in data:
                    writer.write_batch(batch)
        if name == "dictionaries":
            data = data[:1]  # the file format has no replacement
        with ipc.new_file(f"{directory}/{name}_file.arrow", table.schema) as writer:
            for batch in data:
                writer.write_batch(batch)
        scatter(f"{directory}/{name}_file.arrow", f"{directory}/{name}_scattered_file.arrow")
    growing = pa.array(["a", "b", None, "a"]).dictionary_encode()
    grown = pa.DictionaryArray.from_arrays(
        pa.array([3, 2, 1, 0], pa.int32()), pa.array(["a", "b", "cc", "ddd"]))
    schema = pa.schema({"d": growing.type})
    with ipc.new_stream(f"{directory}/delta.arrow", schema,
                        options=ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as writer:
        writer.write_batch(pa.record_batch([growing], schema=schema))
        writer.write_batch(pa.record_batch([grown], schema=schema))


def read(path):
    with open(path, "rb") as source:
        head = source.read(6)
    with pa.OSFile(path) as source:
        if head == b"ARROW1":
            reader = ipc.open_file(source)
            return reader.schema, [reader.get_batch(i) for i in range(reader.num_record_batches)]
        reader = ipc.open_stream(source)
        return reader.schema, list(reader)


def judge(directory, suffix):
    count = 0
    for entry in sorted(os.listdir(directory)):
        if not entry.endswith(".arrow"):
            continue
        name = entry[:-len(".arrow")]
        schema, expected = read(f"{directory}/{entry}")
        out_schema, found = read(f"{directory}/{name}.{suffix}")
        assert out_schema.equals(schema, check_metadata=True), (name, schema, out_schema)
        for batch in found:
            batch.validate(full=True)
        rows = pa.Table.from_batches(expected, schema)
        out_rows = pa.Table.from_batches(found, schema)
        for column, wanted in enumerate(rows.columns):
            assert wanted.equals(out_rows.column(column)), (name, suffix, schema.field(column))
        assert sum(b.num_rows for b in expected) == sum(b.num_rows for b in found), name
        count += 1
    assert count > 20, count
    print(f"{count} cases equal")


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2])
    else:
        judge(sys.argv[2], sys.argv[3])
