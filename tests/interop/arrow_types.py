"""Twenty thousand rows of every column type (NAT-2), and what SQL answers for each of them.

The answer's type is the column's own, but for the few that the engine has no type for; those are
listed in `ANSWERED` and in docs/types.md. The values are exact everywhere.
"""

import datetime
import decimal
import json
import math
import random
import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROWS = 20_000
BATCHES = 5

FILE = pa.struct([("uri", pa.utf8()), ("media_type", pa.utf8()), ("size_bytes", pa.int64()),
                  ("sha256", pa.utf8())])
FILE_METADATA = {b"ARROW:extension:name": b"lake.file",
                 b"ARROW:extension:metadata": b'{"version":1}'}

# Column -> (its type in `lake table create`, in Arrow).
COLUMNS = {
    "i8": ("int8", pa.int8()),
    "i16": ("int16", pa.int16()),
    "i32": ("int32", pa.int32()),
    "i64": ("int64", pa.int64()),
    "u8": ("uint8", pa.uint8()),
    "u16": ("uint16", pa.uint16()),
    "u32": ("uint32", pa.uint32()),
    "u64": ("uint64", pa.uint64()),
    "f16": ("float16", pa.float16()),
    "f32": ("float", pa.float32()),
    "f64": ("double", pa.float64()),
    "b": ("bool", pa.bool_()),
    "s": ("utf8", pa.utf8()),
    "ls": ("large_utf8", pa.large_utf8()),
    "bin": ("binary", pa.binary()),
    "lbin": ("large_binary", pa.large_binary()),
    "fsb": ("fixed_size_binary[7]", pa.binary(7)),
    "dec5": ("decimal(5, 2)", pa.decimal128(5, 2)),
    "dec9": ("decimal(9, 4)", pa.decimal128(9, 4)),
    "dec18": ("decimal(18, 0)", pa.decimal128(18, 0)),
    "dec38": ("decimal(38, 10)", pa.decimal128(38, 10)),
    "date32": ("date32", pa.date32()),
    "date64": ("date64", pa.date64()),
    "time_s": ("time32[s]", pa.time32("s")),
    "time_ms": ("time32[ms]", pa.time32("ms")),
    "time_us": ("time64[us]", pa.time64("us")),
    "time_ns": ("time64[ns]", pa.time64("ns")),
    "ts_s": ("timestamp[s]", pa.timestamp("s")),
    "ts_ms": ("timestamp[ms]", pa.timestamp("ms")),
    "ts_us": ("timestamp[us]", pa.timestamp("us")),
    "ts_ns": ("timestamp[ns]", pa.timestamp("ns")),
    "tz_s": ("timestamp[s, UTC]", pa.timestamp("s", "UTC")),
    "tz_ms": ("timestamp[ms, UTC]", pa.timestamp("ms", "UTC")),
    "tz_us": ("timestamp[us, UTC]", pa.timestamp("us", "UTC")),
    "tz_ns": ("timestamp[ns, UTC]", pa.timestamp("ns", "UTC")),
    "paris": ("timestamp[us, Europe/Paris]", pa.timestamp("us", "Europe/Paris")),
    "dur_s": ("duration[s]", pa.duration("s")),
    "dur_ms": ("duration[ms]", pa.duration("ms")),
    "dur_us": ("duration[us]", pa.duration("us")),
    "dur_ns": ("duration[ns]", pa.duration("ns")),
    "list": ("list<int64>", pa.list_(pa.int64())),
    "llist": ("large_list<int32>", pa.large_list(pa.int32())),
    "nested": ("list<list<utf8>>", pa.list_(pa.list_(pa.utf8()))),
    "vec": ("float[8]", pa.list_(pa.float32(), 8)),
    "point": ("fixed_size_list<double>[3]", pa.list_(pa.float64(), 3)),
    "st": ("struct<a: int32, b: utf8, c: struct<d: double>>",
           pa.struct([("a", pa.int32()), ("b", pa.utf8()),
                      ("c", pa.struct([("d", pa.float64())]))])),
    "boxes": ("list<struct<label: utf8, box: float[4]>>",
              pa.list_(pa.struct([("label", pa.utf8()), ("box", pa.list_(pa.float32(), 4))]))),
    "dict8": ("dictionary<int8, utf8>", pa.dictionary(pa.int8(), pa.utf8())),
    "dict32": ("dictionary<int32, utf8>", pa.dictionary(pa.int32(), pa.utf8())),
    "json": ("json", pa.json_()),
}

# Where the answer's type is another. Each holds every value of the column exactly.
ANSWERED = {
    "f16": pa.float32(),
    "ls": pa.utf8(),
    "lbin": pa.binary(),
    "fsb": pa.binary(),
    "date64": pa.date32(),
    "time_s": pa.time64("us"),
    "time_ms": pa.time64("us"),
    "tz_s": pa.timestamp("us", "UTC"),
    "tz_ms": pa.timestamp("us", "UTC"),
    "paris": pa.timestamp("us", "UTC"),
    "dur_s": pa.month_day_nano_interval(),
    "dur_ms": pa.month_day_nano_interval(),
    "dur_us": pa.month_day_nano_interval(),
    "dur_ns": pa.month_day_nano_interval(),
    "llist": pa.list_(pa.int32()),
    "dict8": pa.utf8(),
    "dict32": pa.utf8(),
    "json": pa.utf8(),
}


def answered_type(name):
    return ANSWERED.get(name, COLUMNS[name][1])


# ---- values ---------------------------------------------------------------------------------------

TEXTS = ["", "plain", "ünïcödé ☃ 🤖", "tab\tnew\nline \"quoted\" 'single' \\ %_", "x" * 300, " ",
         "NULL", "0"]
# Years that both the engine and Python's datetime know; before 1970 too.
SECONDS = [0, -1, 1, -62_135_596_800, 253_402_300_799, -2_208_988_800, 1_700_000_000]
NS_LIMIT = 2**63 - 1


def integers(bits, signed):
    low = -(2 ** (bits - 1)) if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    return [low, high, 0, 1, high - 1, low + 1], lambda rng: rng.randint(low, high)


def floats(pack):
    tiny = {"e": 2.0**-24, "f": 2.0**-149, "d": 5e-324}[pack]
    large = {"e": 65504.0, "f": 3.4028234663852886e38, "d": 1.7976931348623157e308}[pack]
    edges = [math.nan, math.inf, -math.inf, -0.0, 0.0, tiny, -tiny, large, -large, 1.5]
    return edges, lambda rng: struct.unpack(pack, struct.pack(pack, rng.uniform(-1e4, 1e4)))[0]


def decimals(precision, scale):
    largest = 10**precision - 1
    scaled = lambda n: decimal.Decimal(n).scaleb(-scale, decimal.Context(prec=precision + 2))
    return ([scaled(n) for n in (0, largest, -largest, 1, -1)],
            lambda rng: scaled(rng.randint(-largest, largest)))


def ticks(per_second, limit=None):
    """Counts of a unit: the edges of SECONDS with the last tick of a second beside them."""
    edges = [s * per_second + extra for s in SECONDS for extra in (0, per_second - 1)]
    if limit:
        edges = [max(-limit, min(limit, edge)) for edge in edges]
    return edges, lambda rng: rng.randint(-2**31 * per_second, 2**31 * per_second)


def of_list(edges, item, longest):
    def draw(rng):
        return [item(rng) for _ in range(rng.randint(0, longest))]
    return edges, draw


def text(rng):
    return rng.choice(TEXTS) if rng.random() < 0.5 else f"value {rng.randint(0, 10**9)}"


def maybe(rng, draw):
    return None if rng.random() < 0.2 else draw(rng)


def f32(rng):
    return struct.unpack("f", struct.pack("f", rng.uniform(-1, 1)))[0]


def binary(rng):
    return bytes(rng.randrange(256) for _ in range(rng.randint(0, 12)))


def structs(rng):
    return {"a": maybe(rng, lambda r: r.randint(-2**31, 2**31 - 1)), "b": maybe(rng, text),
            "c": maybe(rng, lambda r: {"d": maybe(r, lambda q: q.uniform(-1, 1))})}


def boxed(rng):
    return {"label": maybe(rng, text), "box": maybe(rng, lambda r: [f32(r) for _ in range(4)])}


def document(value):
    """As it comes back: members by their keys, no white space."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


# Column -> (edge values, draw another). Counts for times: they are cast by their integers.
def value_sources():
    labels = ["reach", "grasp", "", "lift", "plåce"]
    day_s = 86_400
    sources = {
        **{f"i{n}": integers(n, True) for n in (8, 16, 32, 64)},
        **{f"u{n}": integers(n, False) for n in (8, 16, 32, 64)},
        "f16": floats("e"), "f32": floats("f"), "f64": floats("d"),
        "b": ([True, False], lambda rng: rng.random() < 0.5),
        "s": (TEXTS, text), "ls": (TEXTS, text),
        "bin": ([b"", b"\0", bytes(range(256))], binary),
        "lbin": ([b"", b"\0", bytes(range(256))], binary),
        "fsb": ([b"\0" * 7, b"\xff" * 7], lambda rng: rng.randbytes(7)),
        "dec5": decimals(5, 2), "dec9": decimals(9, 4), "dec18": decimals(18, 0),
        "dec38": decimals(38, 10),
        "date32": ([-719_162, 2_932_896, 0, -1, 1], lambda rng: rng.randint(-10**5, 10**5)),
        "date64": ([n * 86_400_000 for n in (-719_162, 2_932_896, 0, -1, 1)],
                   lambda rng: rng.randint(-10**5, 10**5) * 86_400_000),
        "list": of_list([[], [None], [2**63 - 1, -(2**63), None]],
                        lambda rng: maybe(rng, lambda r: r.randint(-2**63, 2**63 - 1)), 5),
        "llist": of_list([[], [None]], lambda rng: rng.randint(-2**31, 2**31 - 1), 4),
        "nested": of_list([[], [[]], [None], [[None], [""], None]],
                          lambda rng: maybe(rng, lambda r: [maybe(r, text)
                                                            for _ in range(r.randint(0, 2))]), 3),
        "vec": ([[0.0, -0.0, 1.0, -1.0, 0.5, 3.4028234663852886e38, 2.0**-149, -2.0]],
                lambda rng: [f32(rng) for _ in range(8)]),
        "point": ([[0.0, -0.0, 5e-324], [math.inf, -math.inf, 1e308]],
                  lambda rng: [rng.uniform(-1, 1) for _ in range(3)]),
        "st": ([{"a": None, "b": None, "c": None}, {"a": 0, "b": "", "c": {"d": None}}], structs),
        "boxes": of_list([[], [None], [{"label": None, "box": None}]],
                         lambda rng: maybe(rng, boxed), 3),
        "dict8": (labels, lambda rng: rng.choice(labels)),
        "dict32": (TEXTS, text),
        "json": ([document(value) for value in (None, True, 0, -1, 2**64 - 1, 0.5, -1e300, "", [], {}, TEXTS)],
                 lambda rng: document({"rank": rng.randint(-9, 9), "poses": [rng.randint(-9999, 9999) / 1000, None], "say": text(rng)})),
        "paris": ticks(1_000_000),
    }
    for unit, per_second in (("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)):
        limit = NS_LIMIT - 1 if unit == "ns" else None
        sources[f"ts_{unit}"] = sources[f"tz_{unit}"] = ticks(per_second, limit)
        sources[f"time_{unit}"] = ([0, day_s * per_second - 1, 1],
                                   lambda rng, n=day_s * per_second: rng.randrange(n))
        # An interval counts microseconds below, and 292 years in nanoseconds above.
        step = 1000 if unit == "ns" else 1
        longest = NS_LIMIT * per_second // 10**9 // step * step
        sources[f"dur_{unit}"] = ([0, step, -step, longest, -longest],
                                  lambda rng, n=longest // step, m=step: rng.randint(-n, n) * m)
    return sources


def build(kind, values):
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_floating(kind) and kind.bit_width == 16:
        mask = np.array([v is None for v in values])
        data = np.array([0 if v is None else v for v in values], dtype=np.float16)
        return pa.array(data, kind, mask=mask)
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, width).cast(kind, safe=False)
    return pa.array(values, kind)


def make_table():
    """`id` and every column, ROWS rows: edges first, then drawn values, every seventh row null."""
    rng = random.Random(20_000)
    arrays = [pa.array(range(ROWS), pa.int64())]
    for number, name in enumerate(COLUMNS):
        edges, draw = value_sources()[name]
        values = [edges[i] if i < len(edges) else draw(rng) for i in range(ROWS)]
        values = [None if i >= len(edges) and (i + number) % 7 == 0 else value
                  for i, value in enumerate(values)]
        arrays.append(build(COLUMNS[name][1], values))
    return pa.table(arrays, schema=schema())


def schema():
    return pa.schema([pa.field("id", pa.int64(), nullable=False)]
                     + [pa.field(name, kind) for name, (_, kind) in COLUMNS.items()])


def column_arguments():
    yield "id:int64!"
    for name, (text_type, _) in COLUMNS.items():
        yield f"{name}:{text_type}"


# ---- comparing ------------------------------------------------------------------------------------


def flat(table, name):
    return table[name].combine_chunks() if table[name].num_chunks != 1 else table[name].chunk(0)


def nanoseconds(array):
    """Durations as the intervals that hold them, by plain integers."""
    per_tick = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[array.type.unit]
    counts = array.cast(pa.int64()).to_pylist()
    return pa.array([None if n is None else (0, 0, n * per_tick) for n in counts],
                    pa.month_day_nano_interval())


def expected(table, name):
    """The column as SQL must answer it: the same values in the answer's type."""
    array = flat(table, name)
    kind = answered_type(name)
    if pa.types.is_duration(array.type):
        return nanoseconds(array)
    if pa.types.is_timestamp(array.type) and array.type.tz and array.type != kind:
        per_tick = {"s": 10**6, "ms": 1000, "us": 1}[array.type.unit]
        return pc.multiply_checked(array.cast(pa.int64()), per_tick).cast(kind, safe=False)
    return array if array.type == kind else array.cast(kind)


def bits(array):
    """Floats as integers, at any depth, so that NaN equals itself and -0.0 is not 0.0."""
    kind = array.type
    if pa.types.is_floating(kind):
        width = {32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        # Every NaN is one value.
        canonical = pc.if_else(pc.is_nan(array), pa.scalar(math.nan, kind), array)
        return pc.if_else(pc.is_valid(array), canonical, pa.scalar(0.0, kind)).view(width)
    if pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type):
        filled = pc.if_else(pc.is_valid(array), array, pa.scalar([0.0] * kind.list_size, kind))
        return bits(filled.flatten())
    return array


def assert_same(got, want, name):
    assert got.type == want.type, f"{name}: {got.type}, not {want.type}"
    assert len(got) == len(want), f"{name}: {len(got)} rows, not {len(want)}"
    assert got.is_valid().equals(want.is_valid()), f"{name}: nulls elsewhere"
    if pa.types.is_floating(got.type) or (pa.types.is_fixed_size_list(got.type)):
        got, want = bits(got), bits(want)
    if not got.equals(want):
        for row, (mine, other) in enumerate(zip(got.to_pylist(), want.to_pylist())):
            assert mine == other, f"{name}, row {row}: {mine!r}, not {other!r}"
        raise AssertionError(f"{name}: differs")


# A few values of this module's own arithmetic against the standard library's.
assert datetime.datetime(1, 1, 1).toordinal() - 719_163 == -719_162
