"""Random schemas of Lance tables, and random rows for a schema: for tests that let several engines
change one table. Every table has the same core, which all of them can name in a condition."""

import datetime
import decimal
import json

import numpy as np
import pyarrow as pa

CORE = [pa.field("id", pa.int64()), pa.field("v", pa.int64()), pa.field("x", pa.float64()), pa.field("t", pa.string())]
# What DuckDB writes into a Lance table as the type that it has there.
SIMPLE = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.decimal128(20, 4),
]
PRIMITIVES = [
    *SIMPLE, pa.float16(), pa.large_string(), pa.large_binary(), pa.binary(1), pa.binary(16), pa.date64(), pa.time32("s"),
    pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("ns"),
    pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Berlin"), pa.duration("s"), pa.duration("ms"),
    pa.duration("us"), pa.duration("ns"), pa.decimal128(38, 0), pa.decimal256(50, 6),
]
ITEMS = [pa.bool_(), pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.float16(), pa.float32(), pa.float64()]
DICTIONARIES = [
    pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.uint16(), pa.int64()),
    pa.dictionary(pa.int16(), pa.binary()), pa.dictionary(pa.int32(), pa.large_string()),
]
ENCODINGS = [
    {"lance-encoding:compression": "zstd"}, {"lance-encoding:compression": "lz4"},
    {"lance-encoding:compression": "fsst"}, {"lance-encoding:compression": "none"},
    {"lance-encoding:compression": "zstd", "lance-encoding:bss": "on"},
    {"lance-encoding:structural-encoding": "fullzip"}, {"lance-encoding:structural-encoding": "miniblock"},
    {"lance-encoding:rle-threshold": "1.0"}, {"lance-encoding:dict-divisor": "1"},
]
WORDS = ["", "up", "down", "left", "right", "ein Wort äß€😀", "the quick brown fox jumps over the lazy dog"]


# ---- schemas ----------------------------------------------------------------------------------------


def random_type(rng, depth, storage):
    roll = rng.random()
    if depth > 0 and roll < 0.25:
        members = [random_field(rng, f"f{i}", depth - 1, storage) for i in range(rng.randint(1, 3))]
        return pa.struct(members)
    if depth > 0 and roll < 0.55:
        make = pa.large_list if rng.random() < 0.3 else pa.list_
        return make(random_field(rng, "item", depth - 1, storage))
    if depth > 0 and roll < 0.65 and storage == "2.2":
        key = rng.choice([pa.string(), pa.int64(), pa.int8(), pa.date32()])
        return pa.map_(key, random_type(rng, depth - 1, storage))
    if roll < 0.75:
        inner = pa.list_(rng.choice(ITEMS), rng.choice([1, 2, 3, 16, 100]))
        return pa.list_(inner, 2) if rng.random() < 0.15 else inner
    return rng.choice(PRIMITIVES)


def random_field(rng, name, depth, storage):
    return pa.field(name, random_type(rng, depth, storage), rng.random() < 0.85)


def random_schema(rng, storage, simple):
    """The core and up to four more columns; only of what DuckDB can write if `simple`."""
    fields = list(CORE)
    for i in range(rng.randint(0, 4)):
        if simple:
            field = pa.field(f"c{i}", rng.choice(SIMPLE))
        else:
            depth = rng.choice([0, 1, 2, 3, 3, 6])
            field = random_field(rng, f"c{i}", depth, storage)
            if depth == 0 and rng.random() < 0.3:
                field = pa.field(f"c{i}", rng.choice([*DICTIONARIES, pa.null(), pa.json_()]))
        if rng.random() < 0.3:
            field = field.with_metadata(rng.choice(ENCODINGS))
        fields.append(field)
    return pa.schema(fields)


def deep_schema(rng, storage, depth):
    """One column of lists and structs, `depth` levels of them."""
    kind = pa.int32()
    for level in range(depth):
        kind = pa.list_(kind) if rng.random() < 0.5 else pa.struct([pa.field("m", kind)])
    return pa.schema([*CORE, pa.field("deep", kind)])


# ---- values -----------------------------------------------------------------------------------------

STYLES = ["same", "few", "runs", "rising", "wide", "wide", "long"]


def text(rng, style, n):
    if style in ("same", "few", "runs"):
        return WORDS[n % len(WORDS)]
    if style == "long":
        return chr(97 + n % 26) * rng.choice([0, 1, 300, 300, 5000, 70_000])
    return "".join(rng.choices("abcdefgh äß€😀", k=rng.choice([0, 1, 5, 12, 40])))


def document(rng, style, n, depth=0):
    """What JSON has, as text of the one form that a stored document is shown in."""
    kind = rng.randrange(8) if style == "wide" else n % 8
    if depth < 3 and kind == 0:
        return {text(rng, style, n + i): document(rng, style, n + i + 1, depth + 1) for i in range(n % 4)}
    if depth < 3 and kind == 1:
        return [document(rng, style, n + i + 1, depth + 1) for i in range(n % 5)]
    return [None, n % 3 == 0, n - 50, rng.randrange(-1 << 63, 1 << 64), rng.gauss(0, 1e6), text(rng, style, n)][kind % 6]


def scalar(rng, kind, style, n):
    if isinstance(kind, pa.JsonType):
        return json.dumps(document(rng, style, n), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    if pa.types.is_boolean(kind):
        return n % 2 == 1
    if pa.types.is_integer(kind):
        low, high = (0, 1 << kind.bit_width) if str(kind)[0] == "u" else (-(1 << (kind.bit_width - 1)), 1 << (kind.bit_width - 1))
        if style in ("wide", "long"):
            return rng.choice([low, high - 1, 0, rng.randrange(low, high), rng.randrange(low, high)])
        return low + (n - low) % (high - low)
    if pa.types.is_float16(kind):
        return np.float16(n % 2000)
    if pa.types.is_floating(kind):
        if style == "wide":
            return rng.choice([0.0, -0.0, float("inf"), float("-inf"), rng.gauss(0, 1), rng.gauss(0, 1e30)])
        return n / 4.0
    if pa.types.is_decimal(kind):
        top = 10 ** kind.precision
        with decimal.localcontext() as context:
            context.prec = 80
            return decimal.Decimal(rng.randrange(-top + 1, top) if style == "wide" else n % top).scaleb(-kind.scale)
    if pa.types.is_date(kind):
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=n % 60_000 - 20_000)
    if pa.types.is_time32(kind):
        return n % 86_400
    if pa.types.is_temporal(kind):
        return rng.randrange(1 << 36) if style == "wide" else n % 86_400_000_000
    if pa.types.is_fixed_size_binary(kind):
        return (n % (1 << (8 * min(kind.byte_width, 6)))).to_bytes(kind.byte_width, "big")
    value = text(rng, style, n)
    return value if pa.types.is_string(kind) or pa.types.is_large_string(kind) else value.encode()


def value_of(rng, field, style, nulls, n, level=0):
    """`level` keeps deep values small: from there on a list has one item on average."""
    kind = field.type
    if pa.types.is_null(kind) or (field.nullable and rng.random() < nulls):
        return None
    if pa.types.is_dictionary(kind):
        return scalar(rng, kind.value_type, "few", n % 5)
    if pa.types.is_struct(kind):
        return {member.name: value_of(rng, member, style, nulls, n, level) for member in kind}
    if pa.types.is_map(kind):
        keys = {scalar(rng, kind.key_type, "rising", n + i) for i in range(rng.choice([0, 1, 3] if level < 2 else [0, 1, 1]))}
        return [(key, value_of(rng, kind.item_field, style, nulls, n, level + 1)) for key in keys]
    if pa.types.is_fixed_size_list(kind):
        inner = nulls if rng.random() < 0.5 else 0
        return [value_of(rng, kind.value_field, style, inner, n + i, level + 1) for i in range(kind.list_size)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = [0, 1, 1, 1, 2] if level > 1 else [0, 1, 1, 3, 400 if level == 0 else 10] if style == "long" else [0, 1, 1, 2, 5]
        length = rng.choice(lengths)
        return [value_of(rng, kind.value_field, style, nulls, n + i, level + 1) for i in range(length)]
    return scalar(rng, kind, style, n)


def random_values(rng, field, rows):
    if pa.types.is_dictionary(field.type):
        plain = random_values(rng, pa.field(field.name, field.type.value_type, field.nullable), rows)
        few = [plain[i % 5] if rows > 4 else plain[i] for i in range(rows)]
        return pa.array(pa.array(few, field.type.value_type).to_pylist(), field.type.value_type).dictionary_encode().cast(field.type)
    style = rng.choice(STYLES if rows <= 300 else STYLES[:-1])
    nulls = rng.choice([0, 0, 0.1, 0.5, 0.98, 1])
    span = {"same": 1, "few": 6, "runs": 6}.get(style, 1 << 30)
    values, start = [], rng.randrange(span)
    for i in range(rows):
        if style == "runs" and values and rng.random() > 0.03:
            values.append(values[-1])
        elif style == "same" and nulls in (0, 1) and values:
            values.append(values[0])
        else:
            values.append(value_of(rng, field, style, nulls, start + i * 1000 if style == "rising" else rng.randrange(span)))
    return pa.array(values, field.type)


def random_rows(rng, schema, ids):
    """Rows of `schema` with the keys `ids`; the rest of the core holds few values, for conditions."""
    rows, columns = len(ids), []
    for field in schema:
        if field.name == "id":
            columns.append(pa.array(ids, pa.int64()))
        elif field.name == "v":
            columns.append(pa.array([rng.choice([None, *range(12)]) for _ in ids], pa.int64()))
        elif field.name == "x":
            columns.append(pa.array([rng.choice([None, i / 8, -i / 3, float("inf")]) for i in ids], pa.float64()))
        elif field.name == "t":
            columns.append(pa.array([rng.choice([None, *WORDS, f"row {i % 50}"]) for i in ids], pa.string()))
        else:
            columns.append(random_values(rng, field, rows))
    return pa.table(columns, schema=schema)
