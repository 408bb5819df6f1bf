"""Lance data files against pylance, the reference: random schemas, nulls and nesting.

Every case is made from a seed that its name shows. What Lake writes, pylance reads equal; what
pylance writes, Lake reads equal; and Lake reads what it wrote itself. LAKE_LANCE_SEEDS (default 40)
says how many tables are made for each storage version.
"""

import datetime
import decimal
import os
import pathlib
import random
import subprocess

import lance
import numpy as np
import pyarrow as pa
import pytest

BUILD = pathlib.Path(os.environ.get("LAKE_BUILD_DIR", "build/release"))
TOOL = BUILD / "tests" / "lance_tool"
SEEDS = int(os.environ.get("LAKE_LANCE_SEEDS", "40"))
VERSIONS = ["2.1", "2.2"]


def run_tool(*arguments):
    done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def lake_write(table, path, storage, append=False, profile="balanced"):
    source = path.parent / (path.name + ".arrow")
    with pa.OSFile(str(source), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    run_tool("write", path, source, "--storage", storage, "--profile", profile,
             *(["--append"] if append else []))


def lake_read(path, *arguments):
    return pa.ipc.open_stream(run_tool("cat", path, *arguments)).read_all()


def plain(column):
    """Values to compare: dictionaries decoded, NaN told apart from null by Arrow's own equality."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def assert_same(got, want, note=""):
    assert got.num_rows == want.num_rows, note
    assert got.column_names == want.column_names, note
    for name in want.column_names:
        ours, theirs = plain(got.column(name)), plain(want.column(name))
        if not ours.equals(theirs):
            ours, theirs = ours.to_pylist(), theirs.to_pylist()
            wrong = [i for i, (a, b) in enumerate(zip(ours, theirs)) if repr(a) != repr(b)]
            assert not wrong, (
                f"{note} {name}: row {wrong[0]} of {len(wrong)} wrong: "
                f"{ours[wrong[0]]!r:.300} is not {theirs[wrong[0]]!r:.300}"
            )


# ---- random tables ------------------------------------------------------------------------------

PRIMITIVES = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(),
    pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.string(),
    pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(7), pa.date32(),
    pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.time64("us"), pa.duration("ms"),
    pa.decimal128(20, 4),
]
ITEMS = [pa.bool_(), pa.int8(), pa.int32(), pa.float32(), pa.float64()]


def random_type(rng, depth, storage):
    roll = rng.random()
    if depth > 0 and roll < 0.2:
        fields = [
            pa.field(f"f{i}", random_type(rng, depth - 1, storage))
            for i in range(rng.randint(1, 3))
        ]
        return pa.struct(fields)
    if depth > 0 and roll < 0.45:
        make = pa.large_list if rng.random() < 0.3 else pa.list_
        return make(random_type(rng, depth - 1, storage))
    if depth > 0 and roll < 0.5 and storage == "2.2":
        return pa.map_(pa.string(), random_type(rng, 0, storage))
    if roll < 0.6:
        return pa.list_(rng.choice(ITEMS), rng.choice([1, 2, 3, 16, 100]))
    return rng.choice(PRIMITIVES)


def scalar(rng, kind, style):
    """One value; `style` makes columns repeat, run or vary, so that each encoding has its turn."""
    span = {"constant": 1, "few": 5, "runs": 3, "wide": 1 << 30}[style]
    number = rng.randrange(span)
    if pa.types.is_boolean(kind):
        return number % 2 == 1
    if pa.types.is_integer(kind):
        bits = kind.bit_width - (0 if str(kind).startswith("u") else 1)
        value = rng.randrange(1 << bits) if style == "wide" else number % (1 << bits)
        return -value if bits % 8 == 7 and rng.random() < 0.1 else value
    if pa.types.is_float16(kind):
        return np.float16(number % 1000)
    if pa.types.is_floating(kind):
        return number / 4.0
    if pa.types.is_decimal(kind):
        return decimal.Decimal(number).scaleb(-4)
    if pa.types.is_date(kind):
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=number % 30000)
    if pa.types.is_time(kind):
        return datetime.time(number % 24, number % 60, 1, number % 1000000)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return number
    if pa.types.is_fixed_size_binary(kind):
        return number.to_bytes(kind.byte_width, "little")
    length = number % 12
    if style == "wide" and rng.random() < 0.02:
        length = rng.choice([0, 255, 256, 1000])
    text = (f"value {number} äß€" * (length // 8 + 1))[:length]
    return text if pa.types.is_string(kind) or pa.types.is_large_string(kind) else text.encode()


def random_value(rng, kind, style, nulls):
    if rng.random() < nulls:
        return None
    if pa.types.is_struct(kind):
        return {field.name: random_value(rng, field.type, style, nulls) for field in kind}
    if pa.types.is_map(kind):
        keys = rng.sample(["a", "b", "c", "d"], rng.randint(0, 3))
        return [(key, random_value(rng, kind.item_type, style, nulls)) for key in keys]
    if pa.types.is_fixed_size_list(kind):
        item_nulls = nulls if rng.random() < 0.5 else 0
        size = kind.list_size
        return [random_value(rng, kind.value_type, style, item_nulls) for _ in range(size)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        length = rng.choice([0, 1, 2, 3, 7]) if style != "runs" else 0
        return [random_value(rng, kind.value_type, style, nulls) for _ in range(length)]
    return scalar(rng, kind, style)


def random_column(rng, kind, rows):
    style = rng.choice(["constant", "few", "runs", "wide"])
    nulls = rng.choice([0, 0, 0.1, 0.5, 1])
    values, last = [], None
    for _ in range(rows):
        if style != "runs" or not values or rng.random() < 0.02:
            last = random_value(rng, kind, style, nulls)
        values.append(last)
    return pa.array(values, kind)


def random_table(seed, storage):
    rng = random.Random(f"{storage} {seed}")
    rows = rng.choice([1, 2, 7, 100, 1024, 1025, 3000, 9000])
    columns = {}
    for i in range(rng.randint(1, 4)):
        kind = random_type(rng, rng.randint(0, 3), storage)
        columns[f"c{i}"] = random_column(rng, kind, rows)
    if rng.random() < 0.3:
        words = [rng.choice([None, "up", "down", "left"]) for _ in range(rows)]
        codes = pa.array(words, pa.string())
        columns["dictionary"] = codes.dictionary_encode()
    return pa.table(columns)


def sliced(table, seed):
    """The same rows in batches whose arrays have offsets, as a producer may hand them over."""
    rng = random.Random(seed)
    cut = rng.randrange(table.num_rows)
    padded = pa.concat_tables([table.slice(cut), table]).combine_chunks()
    return padded.slice(table.num_rows - cut)


# ---- cases --------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", VERSIONS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_pylance_reads_what_lake_wrote(tmp_path, storage, seed):
    table = random_table(seed, storage)
    profile = ["balanced", "fast", "small"][seed % 3]
    lake_write(sliced(table, seed), tmp_path / "lake", storage, profile=profile)
    dataset = lance.dataset(str(tmp_path / "lake"))
    assert_same(dataset.to_table(), table, "pylance:")
    assert_same(lake_read(tmp_path / "lake"), table, "lake:")
    assert_same(lake_read(tmp_path / "lake", "--batch-rows", 37), table, "lake, small batches:")


@pytest.mark.parametrize("storage", VERSIONS)
@pytest.mark.parametrize("seed", range(1000, 1000 + SEEDS))
def test_lake_reads_what_pylance_wrote(tmp_path, storage, seed):
    table = random_table(seed, storage)
    lance.write_dataset(table, str(tmp_path / "theirs"), data_storage_version=storage)
    assert_same(lake_read(tmp_path / "theirs"), table, "whole:")
    assert_same(lake_read(tmp_path / "theirs", "--batch-rows", 100), table, "small batches:")


@pytest.mark.parametrize("storage", VERSIONS)
@pytest.mark.parametrize(
    "metadata",
    [
        {"lance-encoding:compression": "zstd"},
        {"lance-encoding:compression": "lz4"},
        {"lance-encoding:compression": "fsst"},
        {"lance-encoding:compression": "none"},
        {"lance-encoding:bss": "on", "lance-encoding:compression": "zstd"},
        {"lance-encoding:structural-encoding": "fullzip"},
        {"lance-encoding:structural-encoding": "miniblock"},
        {"lance-encoding:rle-threshold": "1.0"},
    ],
    ids=lambda metadata: "-".join(metadata.values()),
)
def test_lake_reads_every_encoding_that_pylance_can_be_asked_for(tmp_path, storage, metadata):
    rng = random.Random(7)
    rows = 5000
    columns = {
        "int": pa.array([rng.randrange(100) if rng.random() > 0.1 else None for _ in range(rows)]),
        "float": pa.array([i / 8 for i in range(rows)], pa.float32()),
        "double": pa.array([rng.random() for _ in range(rows)]),
        "text": pa.array([f"a longer text that repeats, number {i % 991}" for i in range(rows)]),
        "long": pa.array([("%d " % i) * (i % 200) for i in range(rows)]),
        "list": pa.array([[i, None] if i % 3 else None for i in range(rows)], pa.list_(pa.int64())),
    }
    names = list(columns)
    for name in names:
        schema = pa.schema([pa.field(name, columns[name].type, metadata=metadata)])
        table = pa.table([columns[name]], schema=schema)
        try:
            lance.write_dataset(table, str(tmp_path / name), data_storage_version=storage)
        except (OSError, ValueError, RuntimeError):
            continue  # pylance itself refuses this combination of type and encoding
        assert_same(lake_read(tmp_path / name), table, str(metadata))


FAR_APART = 70_000  # more empty lists between two values than a chunk can count
EDGES = {
    "no rows": pa.array([], pa.list_(pa.string())),
    "fixed values far apart": pa.array([[1]] + [[]] * FAR_APART + [[2, 3]], pa.list_(pa.int8())),
    "strings far apart": pa.array([["x"]] + [None] * FAR_APART + [["y"]]),
    "booleans far apart": pa.array([[True]] + [None] * FAR_APART + [[False]]),
    "only empty lists": pa.array([[]] * 100_000, pa.list_(pa.bool_())),
    "a row over many chunks": pa.array([list(range(200_000)), None, [1]]),
    "megabytes in a value": pa.array(["z" * 3_000_000, None, "", "y" * 9_000_000]),
    "long strings in lists of lists": pa.array([[["q" * 1000] * 3, None, []], None] * 500),
    "lists in several pages": pa.array([["b%d" % i for i in range(30)]] * 40_000),
    "a required member of a struct that is null because the one around it is": pa.array(
        [None, None], pa.struct([pa.field("s", pa.struct([pa.field("f", pa.int32(), False)]))])
    ),
    "required members below a required list and null structs": pa.array(
        [[None, {"s": {"f": "x", "g": 1}}], []],
        pa.list_(pa.struct([pa.field("s", pa.struct([pa.field("g", pa.int8()), pa.field("f", pa.string(), False)]), False)])),
    ),
    "null type": pa.array([None, None]),
    "null type in a struct": pa.array([{"n": None}, None], pa.struct([("n", pa.null())])),
    "null type in a list": pa.array([[None], None, []], pa.list_(pa.null())),
    "dictionary of doubles": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 1], pa.int8()), pa.array([1.5, 2.5])
    ),
    "null items in a wide vector": pa.array(
        [[None] * 64] * 300 + [[1.5] * 64], pa.list_(pa.float64(), 64)
    ),
    "vectors of vectors of booleans": pa.array(
        [[[True, None], [False, False]]] * 500, pa.list_(pa.list_(pa.bool_(), 2), 2)
    ),
    "wide vectors of booleans": pa.array([[True] * 3000] * 30, pa.list_(pa.bool_(), 3000)),
}


@pytest.mark.parametrize("storage", VERSIONS)
@pytest.mark.parametrize("edge", EDGES)
def test_edges_of_the_format_are_written_and_read(tmp_path, storage, edge):
    table = pa.table({"c": EDGES[edge]})
    lake_write(table, tmp_path / "lake", storage)
    assert_same(lance.dataset(str(tmp_path / "lake")).to_table(), table, "pylance:")
    assert_same(lake_read(tmp_path / "lake"), table, "lake:")


@pytest.mark.parametrize("storage", VERSIONS)
def test_lake_reads_packed_structs_of_fixed_width_members(tmp_path, storage):
    kind = pa.struct([("x", pa.float32()), ("n", pa.int16()), ("id", pa.binary(3))])
    field = pa.field("p", kind, metadata={"lance-encoding:packed": "true"})
    rows = [{"x": i / 2, "n": i % 300, "id": b"%03d" % (i % 1000)} for i in range(7000)]
    table = pa.table([pa.array(rows, kind)], schema=pa.schema([field]))
    lance.write_dataset(table, str(tmp_path / "theirs"), data_storage_version=storage)
    assert_same(lake_read(tmp_path / "theirs"), table)
    assert_same(lake_read(tmp_path / "theirs", "--batch-rows", 1000), table)


@pytest.mark.parametrize("storage", VERSIONS)
def test_null_structs_keep_the_rows_behind_them_in_place(tmp_path, storage):
    """L19: a writer that skips the children of a null struct shifts all later rows."""
    rows = [{"a": 1, "b": ["x"]}, None, {"a": 3, "b": []}, {"a": None, "b": None}, None]
    table = pa.table({"s": pa.array(rows * 500)})
    lake_write(table, tmp_path / "lake", storage)
    assert_same(lance.dataset(str(tmp_path / "lake")).to_table(), table)
    assert_same(lake_read(tmp_path / "lake"), table)


@pytest.mark.parametrize("storage", VERSIONS)
def test_null_structs_stay_null_after_an_append(tmp_path, storage):
    """L17: validity of structs survives an append and a scan of one column."""
    table = pa.table({"s": pa.array([{"a": 1}, None, {"a": None}]), "x": [1, 2, 3]})
    lake_write(table, tmp_path / "lake", storage)
    lake_write(table, tmp_path / "lake", storage, append=True)
    both = pa.concat_tables([table, table])
    assert_same(lance.dataset(str(tmp_path / "lake")).to_table(), both)
    assert_same(lake_read(tmp_path / "lake", "--columns", "s"), both.select(["s"]))


@pytest.mark.parametrize("storage", ["2.0", *VERSIONS])
def test_structs_without_fields_are_there(tmp_path, storage):
    """The reference writes none that is null; one that a file lacks altogether is null."""
    empty = pa.struct([])
    rows = pa.table({
        "i": pa.array(range(100)),
        "alone": pa.array([{}] * 100, empty),
        "beside": pa.array([{"e": {}, "x": i} for i in range(100)],
                           pa.struct([("e", empty), ("x", pa.int64())])),
        "deep": pa.array([{"a": {"b": {}}}] * 100, pa.struct([("a", pa.struct([("b", empty)]))])),
    })
    lance.write_dataset(rows, str(tmp_path / "t.lance"), data_storage_version=storage)
    lance.write_dataset(rows.select(["i"]), str(tmp_path / "t.lance"), mode="append")
    got = lake_read(tmp_path / "t.lance")
    assert got.schema.equals(rows.schema)
    assert got.to_pylist() == rows.to_pylist() + [
        {"i": i, "alone": None, "beside": None, "deep": None} for i in range(100)]


@pytest.mark.parametrize("storage", VERSIONS)
def test_pages_of_telemetry_are_read_by_pylance_at_any_row(tmp_path, storage):
    """Several pages a column, bit-packed, split and compressed: random access must agree."""
    rows = 1_300_000
    ticks = np.arange(rows, dtype=np.int64)
    noise = np.random.default_rng(5).normal(scale=0.01, size=rows)
    table = pa.table({
        "time": pa.array(1_700_000_000_000_000 + ticks * 20_000, pa.timestamp("us")),
        "episode": pa.array(ticks // 500),
        "position": pa.array(np.sin(ticks / 50) + noise),
        "effort": pa.array((np.cos(ticks / 70) + noise).astype(np.float32)),
        "mode": pa.array(np.array(["idle", "grasp", "lift"])[(ticks // 100) % 3]),
    })
    lake_write(table, tmp_path / "lake", storage)
    dataset = lance.dataset(str(tmp_path / "lake"))
    assert_same(dataset.to_table(), table)
    where = sorted(random.Random(3).sample(range(rows), 300))
    assert_same(dataset.take(where), table.take(where))
    assert_same(lake_read(tmp_path / "lake"), table)


@pytest.mark.parametrize("storage", VERSIONS)
def test_null_structs_have_dictionary_members_without_items(tmp_path, storage):
    words = pa.dictionary(pa.int32(), pa.string())
    structs = pa.array([None] * 5, pa.struct([("word", words), ("n", pa.int64())]))
    path = tmp_path / "table"
    lance.write_dataset(pa.table({"s": structs, "k": range(5)}), path,
                        data_storage_version=storage)
    got = lake_read(path)
    got.validate(full=True)
    assert got.schema.field("s").type == structs.type
    assert got.to_pylist() == [{"s": None, "k": k} for k in range(5)]
