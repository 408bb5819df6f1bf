"""Rows with views of text and bytes, wherever a column may have them, and the same without: what a
table holds of them. PyArrow makes both from the same values."""

import struct

import pyarrow as pa

FAR = "a text that is too long to lie in its view, number {}"


def text(i):
    """Some within their views, some outside, empty ones, nulls."""
    return [None, "", "short", "twelve bytes", "ä" * 6 + "x", FAR.format(i)][i % 6]


def data(i):
    value = text(i)
    return value and value.encode() + b"\xff"


def fields(views):
    words, raw = (pa.string_view(), pa.binary_view()) if views else (pa.string(), pa.binary())
    return {
        "t": (words, text),
        "b": (raw, data),
        "l": (pa.list_(words), lambda i: None if i % 7 == 3 else [text(i + k) for k in range(i % 3)]),
        "ll": (pa.large_list(raw), lambda i: [data(i + k) for k in range(i % 4)]),
        "s": (pa.struct([("n", pa.int32()), ("t", words)]),
              lambda i: None if i % 5 == 2 else {"n": i, "t": text(i + 1)}),
        "m": (pa.map_(words, raw),
              lambda i: None if i % 9 == 4 else [(FAR.format(i + k), data(k)) for k in range(i % 3)]),
        "ls": (pa.list_(pa.struct([("t", pa.list_(words))])),
               lambda i: [{"t": [text(i), FAR.format(i)]}] * (i % 2)),
    }


def dictionary(count, views):
    """A dictionary whose values are views; its text and bytes are those of `t`."""
    values = pa.array([text(i) for i in range(1, 6)], pa.string_view() if views else pa.string())
    indices = pa.array([None if i % 6 == 0 else i % 6 - 1 for i in range(count)], pa.int8())
    return pa.DictionaryArray.from_arrays(indices, values)


def table(count, views):
    """`count` rows in three batches that are cut from larger ones: their columns have offsets."""
    batches = []
    for first, end in ((0, count // 3), (count // 3, count // 2), (count // 2, count)):
        whole = range(max(0, first - 5), end + 3)
        columns = {name: pa.array([value(i) for i in whole], kind)
                   for name, (kind, value) in fields(views).items()}
        columns["id"] = pa.array(whole, pa.int64())
        batch = pa.record_batch(columns)
        batches.append(batch.slice(first - whole[0], end - first))
    return pa.Table.from_batches(batches)


def with_dictionary(rows, views):
    return rows.append_column("d", pa.chunked_array(
        [dictionary(rows.num_rows, views)])).combine_chunks()


def same(kind, buffer, count):
    """`count` rows that all refer to the same bytes."""
    view = struct.pack("<i4sii", buffer.size, buffer.to_pybytes()[:4], 0, 0)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(view * count), buffer])
