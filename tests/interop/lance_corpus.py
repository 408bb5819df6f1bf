"""Small Lance datasets that pylance writes, with what pylance itself reads from each.

`make(directory)` writes them all and returns the expectations. What pylance refuses to write is no
case; which ones those are is said in REFUSED_BY_PYLANCE, so that a case cannot get lost unseen.
"""

import dataclasses
import datetime
import decimal
import os
import pathlib
import random
import shutil
import string

import lance
import numpy as np
import pyarrow as pa
from lance.blob import blob_array, blob_field

VERSIONS = ["2.0", "2.1", "2.2"]
PACKED = {"lance-encoding:packed": "true"}
BLOB = {"lance-encoding:blob": "true"}


@dataclasses.dataclass
class Expectation:
    name: str
    path: pathlib.Path
    table: pa.Table
    arguments: tuple = ()  # how to ask for it: a version, a tag, a branch
    lineage: bool = False  # with what every row has beside its columns
    blobs: pa.Table = None  # the same rows with the bytes of blobs, instead of their descriptions


class Corpus:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.expectations = []
        self.refused = []
        self.rng = np.random.default_rng(7)
        self.random = random.Random(7)

    def path(self, name):
        return self.directory / f"{name}.lance"

    def expect(self, name, dataset, path=None, arguments=(), blobs=None):
        self.expectations.append(
            Expectation(name, path or self.path(name), dataset.to_table(), tuple(arguments), blobs)
        )

    def write(self, name, table, **options):
        """One dataset as pylance writes it in one go; None where it refuses to."""
        try:
            lance.write_dataset(table, str(self.path(name)), **options)
            dataset = lance.dataset(str(self.path(name)))
            dataset.to_table()
        except (OSError, ValueError, RuntimeError, BaseException) as refusal:
            if isinstance(refusal, (KeyboardInterrupt, SystemExit, NameError, TypeError)):
                raise
            shutil.rmtree(self.path(name), ignore_errors=True)
            self.refused.append(name)
            return None
        self.expect(name, dataset)
        return dataset

    def each_version(self, name, table, versions=VERSIONS):
        for version in versions:
            self.write(f"{name}_v{version.replace('.', '')}", table, data_storage_version=version)


def pick(values, chance, rng):
    return [None if rng.random() < chance else value for value in values]


# ---- every scalar type ------------------------------------------------------------------------------

SCALARS = {
    "ints": {f"{sign}{bits}": getattr(pa, f"{name}{bits}")()
             for sign, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
    "numbers": {"bool": pa.bool_(), "f16": pa.float16(), "f32": pa.float32(), "f64": pa.float64(),
                "dec128": pa.decimal128(20, 4), "dec256": pa.decimal256(50, 6)},
    "temporal": {"date32": pa.date32(), "date64": pa.date64(), "t32s": pa.time32("s"),
                 "t32ms": pa.time32("ms"), "t64us": pa.time64("us"), "t64ns": pa.time64("ns"),
                 **{f"ts_{unit}": pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")},
                 "ts_utc": pa.timestamp("us", "UTC"), "ts_tz": pa.timestamp("ns", "Europe/Berlin"),
                 **{f"dur_{unit}": pa.duration(unit) for unit in ("s", "ms", "us", "ns")}},
    "varlen": {"str": pa.string(), "lstr": pa.large_string(), "bin": pa.binary(),
               "lbin": pa.large_binary(), "fsb16": pa.binary(16), "fsb3": pa.binary(3)},
}


def scalars(kind, count, rng):
    if pa.types.is_boolean(kind):
        return pa.array([rng.random() < 0.5 for _ in range(count)])
    if pa.types.is_floating(kind):
        values = np.array([rng.gauss(0, 1) for _ in range(count)])
        return pa.array(values.astype(np.float16)) if pa.types.is_float16(kind) else pa.array(values).cast(kind)
    if pa.types.is_integer(kind):
        low = -(1 << (kind.bit_width - 1)) if pa.types.is_signed_integer(kind) else 0
        return pa.array([rng.randrange(low, low + (1 << kind.bit_width)) for _ in range(count)], kind)
    if pa.types.is_decimal(kind):
        top = 10 ** (kind.precision - 1)
        return pa.array([decimal.Decimal(rng.randint(-top, top)).scaleb(-kind.scale) for _ in range(count)], kind)
    if kind == pa.date64():
        return pa.array([rng.randint(-20000, 20000) * 86_400_000 for _ in range(count)], pa.int64()).cast(kind)
    if pa.types.is_temporal(kind):
        top = {"time32[s]": 86_400, "time32[ms]": 86_400_000}.get(str(kind), 30_000 if kind.bit_width == 32 else 86_400_000_000)
        raw = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array([rng.randrange(top) for _ in range(count)], raw).cast(kind)
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([rng.randbytes(kind.byte_width) for _ in range(count)], kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([rng.randbytes(rng.randint(0, 20)) for _ in range(count)], kind)
    letters = string.ascii_letters + "äß€😀"
    return pa.array(["".join(rng.choices(letters, k=rng.randint(0, 20))) for _ in range(count)], kind)


def nulled(array, rng, chance=0.2):
    keep = pa.array([rng.random() >= chance for _ in range(len(array))])
    return pa.compute.if_else(keep, array, pa.scalar(None, array.type))


def add_scalars(corpus, count=1200):
    for group, kinds in SCALARS.items():
        full = {name: scalars(kind, count, corpus.random) for name, kind in kinds.items()}
        corpus.each_version(f"{group}_none", pa.table(full))
        corpus.each_version(f"{group}_some", pa.table({n: nulled(a, corpus.random) for n, a in full.items()}))
        corpus.each_version(f"{group}_all", pa.table({n: pa.nulls(count, k) for n, k in kinds.items()}))
        corpus.each_version(f"{group}_empty", pa.table({n: pa.array([], k) for n, k in kinds.items()}))
    fields = [pa.field("i", pa.int32(), False), pa.field("s", pa.string(), False), pa.field("f", pa.float32(), False)]
    rows = [pa.array(range(3000), pa.int32()), pa.array([f"r{i}" for i in range(3000)]), pa.array(np.arange(3000) / 7, pa.float32())]
    corpus.each_version("not_nullable", pa.table(rows, schema=pa.schema(fields)))


# ---- nested types -----------------------------------------------------------------------------------


def nested_columns(count, nulls):
    """`nulls` 0: no struct is null, which storage 2.0 could not say."""
    rng = random.Random(3)

    def maybe(value, chance=0.15):
        return None if rng.random() < chance else value

    def ints(most=6):
        return [maybe(rng.randint(0, 1000)) for _ in range(rng.randint(0, most))]

    def pair():
        value = {"a": maybe(rng.randint(0, 9)), "b": maybe(f"v{rng.randint(0, 99)}")}
        return maybe(value, nulls)

    def rows(make):
        return [make() for _ in range(count)]

    int_list, struct = pa.list_(pa.int32()), pa.struct([("a", pa.int64()), ("b", pa.string())])
    colours = ["red", "green", "blue"]
    return {
        "struct": pa.array(rows(pair), struct),
        "struct2": pa.array(rows(lambda: maybe({"x": maybe(rng.random()), "in": pair()}, nulls)),
                            pa.struct([("x", pa.float64()), ("in", struct)])),
        "list": pa.array(rows(lambda: maybe(ints())), int_list),
        "large_list": pa.array(rows(lambda: maybe(ints())), pa.large_list(pa.int32())),
        "list_str": pa.array(rows(lambda: maybe([maybe("s" * rng.randint(0, 9)) for _ in range(rng.randint(0, 4))])),
                             pa.list_(pa.string())),
        "list_list": pa.array(rows(lambda: maybe([maybe(ints(3)) for _ in range(rng.randint(0, 3))])), pa.list_(int_list)),
        "list_struct": pa.array(rows(lambda: maybe([pair() for _ in range(rng.randint(0, 4))])), pa.list_(struct)),
        "struct_list": pa.array(rows(lambda: maybe({"l": maybe(ints()), "k": maybe(rng.randint(0, 5))}, nulls)),
                                pa.struct([("l", int_list), ("k", pa.int16())])),
        "fsl": pa.array(rows(lambda: maybe([rng.random() for _ in range(4)])), pa.list_(pa.float32(), 4)),
        "fsl_null_items": pa.array(rows(lambda: maybe([maybe(rng.randint(0, 99)) for _ in range(3)])), pa.list_(pa.int16(), 3)),
        "fsl_fsl": pa.array(rows(lambda: [maybe([maybe(rng.randint(0, 9)) for _ in range(2)]) for _ in range(3)]),
                            pa.list_(pa.list_(pa.int8(), 2), 3)),
        "fsl_big": pa.array(rows(lambda: [rng.random() for _ in range(128)]), pa.list_(pa.float32(), 128)),
        "fsl_bool": pa.array(rows(lambda: maybe([maybe(rng.random() < 0.5) for _ in range(12)])), pa.list_(pa.bool_(), 12)),
        "fsl_no_items": pa.array([[None] * 5] * count, pa.list_(pa.int64(), 5)),
        "list_fsl": pa.array(rows(lambda: maybe([[rng.random() for _ in range(4)] for _ in range(rng.randint(0, 3))])),
                             pa.list_(pa.list_(pa.float32(), 4))),
        "map": pa.array(rows(lambda: maybe([(f"k{i}", maybe(rng.randint(0, 9))) for i in range(rng.randint(0, 4))])),
                        pa.map_(pa.string(), pa.int32())),
        "dict_i8": pa.array(rows(lambda: maybe(rng.choice(colours)))).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
        "dict_i32": pa.array(rows(lambda: maybe(f"cat{rng.randint(0, 200)}"))).dictionary_encode(),
        "null": pa.nulls(count),
    }


def add_nested(corpus, count=400):
    ids = pa.array(range(count), pa.int32())
    for nulls, versions in ((0.15, ["2.1", "2.2"]), (0, ["2.0"])):
        for name, array in nested_columns(count, nulls).items():
            corpus.each_version(f"nested_{name}", pa.table({"id": ids, name: array}), versions)
    lengths = [0, 5000, 1, 0, 20000, 3, 7, 12000]
    long_lists = [list(range(length)) for length in lengths] + [None] + [[1]] * 2000
    corpus.each_version("long_lists", pa.table({"l": pa.array(long_lists, pa.list_(pa.int64()))}))
    words = [[str(i) * 300] * (i % 4) if i % 5 else None for i in range(300)]
    corpus.each_version("list_big_strings", pa.table({"l": pa.array(words, pa.list_(pa.string()))}))
    # Alone: pylance reads such a column only by itself.
    item = pa.struct([("p", pa.int32()), ("q", pa.string())])
    point = [{"p": 1, "q": "x"}, {"p": None, "q": "y"}]
    for name, rows in {
        "full": [point] * 300,
        "null_items": [[None, {"p": 2, "q": None}], point] * 150,
        "null_lists": [point, None, [None, None]] * 100,
    }.items():
        corpus.each_version(f"fsl_struct_{name}", pa.table({"f": pa.array(rows, pa.list_(item, 2))}), ["2.2"])
    outer = pa.struct([("f", pa.list_(item, 2)), ("k", pa.int8())])
    corpus.each_version("fsl_struct_in_struct", pa.table({"s": pa.array([{"f": point, "k": 1}] * 300, outer).field(0)}), ["2.2"])


def add_packed(corpus, count=2000):
    rng = corpus.rng
    numbers = pa.array(rng.normal(size=count).astype(np.float32))
    words = pa.array([f"s{i}" for i in range(count)])
    members = {
        "fixed": {"x": numbers, "n": pa.array(np.arange(count, dtype=np.int16)), "id": pa.array([b"%03d" % (i % 1000) for i in range(count)], pa.binary(3))},
        "vector": {"x": numbers, "v": pa.array([[1.0, 2.0, i] for i in range(count)], pa.list_(pa.float32(), 3))},
        "holes": {"x": numbers, "v": pa.array([[1.0, None, i] for i in range(count)], pa.list_(pa.float32(), 3))},
        "text": {"x": numbers, "s": words},
        "texts": {"s": words, "b": pa.array([b"%d" % i * (i % 90) for i in range(count)], pa.large_binary()), "n": numbers},
        "large": {"s": words, "b": pa.array([("%d " % i) * 8000 if i % 400 == 0 else "" for i in range(count)])},
        "sentences": {"s": pa.array([f"the quick brown fox jumps over dog {i % 77}" for i in range(count)]), "n": numbers},
    }
    for name, columns in members.items():
        array = pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
        field = pa.field("p", array.type, metadata=PACKED)
        corpus.each_version(f"packed_{name}", pa.table([array], schema=pa.schema([field])))
    mask = pa.array([i % 5 == 0 for i in range(count)])
    for name, columns in (("null_fixed", [numbers, numbers]), ("null_text", [numbers, words])):
        array = pa.StructArray.from_arrays(columns, names=["a", "b"], mask=mask)
        field = pa.field("p", array.type, metadata=PACKED)
        corpus.each_version(f"packed_{name}", pa.table([array], schema=pa.schema([field])))
    for name, kind in (("fixed", pa.int32()), ("text", pa.string())):
        item = pa.field("item", pa.struct([("a", pa.int32()), ("s", kind)]), metadata=PACKED)
        value = {"a": 1, "s": 5 if name == "fixed" else "x"}
        rows = [[value] * (i % 3) if i % 4 else None for i in range(500)]
        corpus.each_version(f"packed_in_list_{name}", pa.table({"l": pa.array(rows, pa.list_(item))}))


# ---- distributions of values, and encodings asked for -----------------------------------------------


def distributions(corpus, count):
    rng, words = corpus.rng, "pick place open close drawer red cube left right gripper move slowly".split()
    return {
        "const": pa.array(np.full(count, 42)), "sorted": pa.array(np.arange(count) * 20_000_000 + 1_700_000_000_000_000_000),
        "small": pa.array(rng.integers(0, 100, count), pa.int32()), "signed": pa.array(rng.integers(-5, 5, count), pa.int32()),
        "wide": pa.array(rng.integers(-(2**62), 2**62, count)), "runs": pa.array(np.repeat(rng.integers(0, 9, count // 100), 100), pa.int32()),
        "smooth": pa.array(np.sin(np.arange(count) / 300), pa.float32()), "zeros": pa.array(np.zeros(count), pa.float32()),
        "outliers": pa.array(np.where(rng.random(count) < 1e-3, 2**31, 3), pa.uint32()),
        "bool_runs": pa.array(np.repeat(rng.integers(0, 2, count // 200), 200).astype(bool)),
        "few_words": pa.array([words[i] for i in rng.integers(0, 12, count)]),
        "episodes": pa.array([f"episode_{i // 500:06d}" for i in range(count)]),
        "many_words": pa.array([f"user-{i:08x}-{rng.integers(0, 1 << 30)}" for i in range(count)]),
        "text": pa.array([" ".join(corpus.random.choices(words, k=12)) for _ in range(count)]),
        "same": pa.array(["same"] * count), "empty": pa.array([""] * count),
        "i128": pa.array([decimal.Decimal(i) for i in range(count)], pa.decimal128(38, 0)),
    }


def add_distributions(corpus):
    columns = distributions(corpus, 8000)
    corpus.each_version("dist", pa.table(columns))
    for wish in ("zstd", "lz4", "fsst"):
        metadata = {"lance-encoding:compression": wish}
        schema = pa.schema([pa.field(name, array.type, metadata=metadata) for name, array in columns.items()])
        table = pa.table([array.slice(0, 5000) for array in columns.values()], schema=schema)
        corpus.each_version(f"dist_{wish}", table)
    split = {"lance-encoding:compression": "zstd", "lance-encoding:bss": "on"}
    wave = np.sin(np.arange(9000) / 300)
    fields = [pa.field("f", pa.float32(), metadata=split), pa.field("d", pa.float64(), metadata=split)]
    corpus.each_version("bss", pa.table([pa.array(wave, pa.float32()), pa.array(wave)], schema=pa.schema(fields)))
    rng, words = corpus.random, "pick place open close drawer".split()
    corpus.each_version("large_values", pa.table({
        "s": pa.array([" ".join(rng.choices(words, k=rng.randint(60, 200))) if i % 7 else None for i in range(300)]),
        "b": pa.array([rng.randbytes(rng.randint(300, 3000)) if i % 11 else (b"" if i % 2 else None) for i in range(300)]),
        "big": pa.array([b"abc" * 14000 if i % 100 == 3 else b"x" for i in range(300)]),
        "vec": pa.array(list(corpus.rng.normal(size=(300, 256)).astype(np.float32)), pa.list_(pa.float32(), 256)),
    }))


# ---- blobs ------------------------------------------------------------------------------------------


def add_blobs(corpus):
    rng = corpus.random
    ids = pa.array(range(20), pa.int32())
    values = [rng.randbytes(3000 + i) if i % 6 else (b"" if i % 4 else None) for i in range(20)]
    field = pa.field("blob", pa.large_binary(), metadata=BLOB)
    cases = {"blob": values, "blob_nulls": [None] * 20, "blob_full": [b"x" * 9] * 20, "blob_empty": [b""] * 20}
    for name, rows in cases.items():
        table = pa.table([ids, pa.array(rows, pa.large_binary())], schema=pa.schema([pa.field("id", pa.int32()), field]))
        add_blob_versions(corpus, name, table)
    inner = pa.struct([pa.field("x", pa.int32()), field])
    rows = [{"x": i, "blob": value} for i, value in enumerate(values)]
    add_blob_versions(corpus, "blob_in_struct", pa.table({"s": pa.array(rows, inner)}), ["2.1", "2.2"])
    rows = [values[i : i + 2] if i % 3 else (None if i % 2 else []) for i in range(20)]
    add_blob_versions(corpus, "blob_in_list", pa.table({"l": pa.array(rows, pa.list_(field))}), ["2.0", "2.2"])
    sizes = [100, 0, 70_000, 70_000, 5 << 20, 1]  # inline, packed sidecars, a sidecar of its own
    rows = [rng.randbytes(size) for size in sizes] + [None]
    table = pa.table([pa.array(range(len(rows))), blob_array(rows)], schema=pa.schema([pa.field("id", pa.int64()), blob_field("blob")]))
    add_blob_versions(corpus, "blob2", table, ["2.2"])


def add_blob_versions(corpus, name, table, versions=VERSIONS):
    for version in versions:
        case = f"{name}_v{version.replace('.', '')}"
        dataset = corpus.write(case, table, data_storage_version=version)
        if dataset is not None:
            corpus.expectations[-1].blobs = dataset.to_table(blob_handling="all_binary")


# ---- extension types --------------------------------------------------------------------------------


def documents(rng):
    numbers = [0, -0.0, 1, -1, 127, 128, -129, 65536, 2**63, 2**64 - 1, -(2**63), 1.5, 1e15, 1e16, 1e-5, 1e-6,
               5e-324, 1.7976931348623157e308, 2.2250738585072014e-308, 0.1 + 0.2]
    numbers += [rng.gauss(0, 1) * 10 ** rng.randint(-9, 20) for _ in range(300)]
    texts = ["null", "true", "[]", "{}", '""', '"\\b\\f\\t\\u001f\\"\\\\ é😀"', '[1,[2,[3,{"a":[null,true,false]}]]]',
             '{"b":2, "a":{"":"x","z":[ 1 ]}}', "1e400", "123456789012345678901234567890"]
    return texts + [repr(number) for number in numbers]


def add_extensions(corpus):
    kind = pa.json_(pa.string())
    texts = pick(documents(corpus.random), 0.1, corpus.random)
    array = pa.array(texts, kind)
    inner = pa.StructArray.from_arrays([array, pa.array(range(len(texts)))], names=["j", "k"])
    lists = pa.ListArray.from_arrays(pa.array(range(0, len(texts) + 1, 2), pa.int32()), array)
    corpus.each_version("json", pa.table({"j": array, "s": inner}))
    corpus.each_version("json_in_list", pa.table({"l": lists}))
    corpus.each_version("uuid", pa.table({"u": pa.array([bytes([i] * 16) for i in range(50)], pa.uuid())}))
    brain = {"ARROW:extension:name": "lance.bfloat16", "ARROW:extension:metadata": ""}
    item = pa.field("item", pa.binary(2), metadata=brain)
    schema = pa.schema([pa.field("b", pa.binary(2), metadata=brain), pa.field("v", pa.list_(item, 2))])
    pairs = [[bytes([i, 63]), bytes([63, i])] for i in range(100)]
    rows = [pa.array(pick([pair[0] for pair in pairs], 0.2, corpus.random), pa.binary(2)), pa.array(pairs, schema.field("v").type)]
    corpus.each_version("bfloat16", pa.table(rows, schema=schema))


# ---- what tables go through -------------------------------------------------------------------------


def rows_of(start, end):
    ids = np.arange(start, end)
    return pa.table({"id": ids, "x": (np.sin(ids) * 9).astype(np.float32), "s": [f"s{i % 17}" for i in ids]})


def add_histories(corpus):
    def new(name, rows, **options):
        return lance.write_dataset(rows, str(corpus.path(name)), **options)

    def append(name, rows, **options):
        return lance.write_dataset(rows, str(corpus.path(name)), mode="append", **options)

    def latest(name, **more):
        corpus.expect(name, lance.dataset(str(corpus.path(name))), **more)

    def version(name, number):
        corpus.expect(f"{name}_at_{number}", lance.dataset(str(corpus.path(name)), version=number),
                      corpus.path(name), ("--version", number))

    new("fragments", rows_of(0, 100))
    for i in range(1, 12):
        append("fragments", rows_of(i * 100, i * 100 + 100))
    latest("fragments")
    version("fragments", 5)
    new("row_groups", rows_of(0, 3000), max_rows_per_file=500, max_rows_per_group=100)
    latest("row_groups")
    for storage in VERSIONS:
        name = f"delete_few_v{storage.replace('.', '')}"
        new(name, rows_of(0, 5000), data_storage_version=storage).delete("id in (3, 77, 4999)")
        latest(name)
    dataset = new("delete_many", rows_of(0, 20000))
    dataset.delete("id % 3 = 0")
    dataset.delete("id > 4000 and id < 9600")
    latest("delete_many")
    new("delete_wide", pa.table({"id": np.arange(200_000, dtype=np.int32)})).delete(
        "id % 2 = 0 or (id > 70000 and id < 190000)")
    latest("delete_wide")
    new("delete_fragment", rows_of(0, 2000), max_rows_per_file=500).delete("id >= 500 and id < 1000")
    latest("delete_fragment")
    new("delete_all", rows_of(0, 100)).delete("true")
    latest("delete_all")
    new("update", rows_of(0, 2000)).update({"s": "'changed'"}, where="id % 10 = 1")
    latest("update")
    merge = new("merge_insert", rows_of(0, 2000)).merge_insert("id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute(rows_of(1900, 2100))
    latest("merge_insert")
    dataset = new("compaction", rows_of(0, 100))
    for i in range(1, 8):
        dataset = append("compaction", rows_of(i * 100, i * 100 + 100))
    dataset.delete("id % 7 = 0")
    dataset.optimize.compact_files()
    latest("compaction")
    new("overwrite", rows_of(0, 100))
    lance.write_dataset(pa.table({"other": [1.5, None]}), str(corpus.path("overwrite")), mode="overwrite")
    latest("overwrite")
    version("overwrite", 1)
    new("restore", rows_of(0, 50))
    append("restore", rows_of(50, 60))
    lance.dataset(str(corpus.path("restore")), version=1).restore()
    latest("restore")
    new("manifest_v1", rows_of(0, 500), enable_v2_manifest_paths=False)
    append("manifest_v1", rows_of(500, 600))
    latest("manifest_v1")
    version("manifest_v1", 1)
    new("manifest_v1_migrated", rows_of(0, 500), enable_v2_manifest_paths=False).migrate_manifest_paths_v2()
    latest("manifest_v1_migrated")
    dataset = new("config", rows_of(0, 200))
    dataset.update_config({"lance.auto_cleanup.interval": "20", "my.key": "v"})
    dataset.update_field_metadata({"s": {"k": "v"}}, replace=True)
    latest("config")
    new("schema_metadata", rows_of(0, 10).replace_schema_metadata({"k1": "v1", "k2": "ü"}))
    latest("schema_metadata")
    dataset = new("index", rows_of(0, 4000), max_rows_per_file=2000)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("s", "BITMAP")
    append("index", rows_of(4000, 4100))
    latest("index")


def add_evolution(corpus):
    for storage in VERSIONS:
        name = f"evolve_v{storage.replace('.', '')}"
        uri = str(corpus.path(name))
        dataset = lance.write_dataset(rows_of(0, 2000), uri, data_storage_version=storage)
        dataset.add_columns({"y": "x * 2", "z": "id + 1"})
        dataset.drop_columns(["x"])
        dataset.alter_columns({"path": "s", "name": "label"})
        dataset.alter_columns({"path": "z", "data_type": pa.int32()})
        half = pa.table({"id": np.arange(0, 2000, 2), "joined": np.arange(1000) / 3})
        lance.dataset(uri).merge(half, "id")
        dataset = lance.dataset(uri)
        corpus.expect(name, dataset, arguments=("--version", dataset.version))
        dataset.add_columns(pa.field("later", pa.int32()))
        dataset = lance.dataset(uri)
        corpus.expect(f"{name}_null_column", dataset, corpus.path(name), ("--version", dataset.version))
        if storage != "2.0":
            lance.write_dataset(pa.table({"id": [9001], "label": ["new"]}), uri, mode="append")
            corpus.expect(f"{name}_append", lance.dataset(uri), corpus.path(name))
    table = pa.table({"id": range(10), "st": pa.array([{"a": i, "b": "x"} for i in range(10)])})
    lance.write_dataset(table, str(corpus.path("evolve_nested"))).drop_columns(["st.b"])
    corpus.expect("evolve_nested", lance.dataset(str(corpus.path("evolve_nested"))))


def add_references(corpus):
    """Tags, branches and shallow clones: also with files, deletions and appends of their own."""

    def reopen(name, version=None):
        return lance.dataset(str(corpus.path(name)), version=version)

    def append(target, start, end):
        return lance.write_dataset(rows_of(start, end), target, mode="append")

    dataset = lance.write_dataset(rows_of(0, 300), str(corpus.path("refs")), max_rows_per_file=100)
    dataset.tags.create("first", 1)
    dataset = append(str(corpus.path("refs")), 300, 400)
    dataset.delete("id % 7 = 2")
    dataset = reopen("refs")
    dataset.tags.create("v1.0", dataset.version)
    branch = dataset.create_branch("feature/a")
    branch = append(branch, 400, 420)
    branch.delete("id % 5 = 0")
    branch = dataset.checkout_version(("feature/a", None))
    dataset.tags.create("on-branch", ("feature/a", branch.version))
    branch = append(branch, 420, 430)
    append(str(corpus.path("refs")), 1000, 1010)
    dataset, path = reopen("refs"), corpus.path("refs")
    corpus.expect("refs", dataset)
    corpus.expect("tag_first", reopen("refs", "first"), path, ("--tag", "first"))
    corpus.expect("tag_with_dot", reopen("refs", "v1.0"), path, ("--tag", "v1.0"))
    corpus.expect("tag_on_branch", reopen("refs", "on-branch"), path, ("--tag", "on-branch"))
    corpus.expect("branch", dataset.checkout_version(("feature/a", None)), path, ("--branch", "feature/a"))
    first = branch.version - 2
    corpus.expect("branch_at_version", dataset.checkout_version(("feature/a", first)), path,
                  ("--branch", "feature/a", "--version", first))
    reopen("refs").shallow_clone(str(corpus.path("clone")), dataset.version)
    corpus.expect("clone", reopen("clone"), arguments=("--version", reopen("clone").version))
    append(str(corpus.path("clone")), 2000, 2010)
    reopen("clone").delete("id % 11 = 1")
    changed = reopen("clone")
    corpus.expect("clone_changed", changed, corpus.path("clone"), ("--version", changed.version))
    reopen("clone").shallow_clone(str(corpus.path("clone_of_clone")), reopen("clone").version)
    corpus.expect("clone_of_clone", reopen("clone_of_clone"))


LINEAGE = ["_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]


def add_lineage(corpus):
    """Row ids, addresses and versions, of tables with stable row ids and without."""
    for stable in (False, True):
        name = "stable_ids" if stable else "no_stable_ids"
        uri = str(corpus.path(name))

        def expect(note):
            dataset = lance.dataset(uri)
            table = dataset.to_table(columns=["id", "s", *LINEAGE])
            corpus.expectations.append(Expectation(f"{name}_{note}", corpus.path(name), table,
                                                   ("--columns", "id,s", "--version", dataset.version), True))

        lance.write_dataset(rows_of(0, 3000), uri, enable_stable_row_ids=stable, max_rows_per_file=1000)
        lance.write_dataset(rows_of(3000, 3500), uri, mode="append")
        expect("new")
        lance.dataset(uri).delete("id % 5 = 0 and id > 900")
        lance.dataset(uri).update({"s": "'u'"}, where="id < 50 or id % 700 = 3")
        expect("updated")
        merge = lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(rows_of(3400, 3600))
        expect("merged")
        lance.dataset(uri).optimize.compact_files()
        expect("compacted")
        lance.dataset(uri).delete("id % 3 = 0")
        expect("deleted")


def make(directory):
    corpus = Corpus(directory)
    corpus.directory.mkdir(parents=True, exist_ok=True)
    for add in (add_scalars, add_nested, add_packed, add_distributions, add_blobs, add_extensions, add_histories, add_evolution,
                add_references, add_lineage):
        add(corpus)
    return corpus
