"""Random tables that pylance writes and changes, read by Lake at every step: schema, nulls, nesting,
encoding options, storage version and operations all come from the seed that a case's name shows.

25 seeds belong to the suite; `make soak` runs 500 more.
"""

import os
import random
import shutil

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import test_lance_corpus
import test_lance_files

SUITE_SEEDS = 25
SOAK_SEEDS = int(os.environ.get("LAKE_SOAK_SEEDS", "500"))
ENCODINGS = [
    {},
    {"lance-encoding:compression": "zstd"},
    {"lance-encoding:compression": "lz4"},
    {"lance-encoding:compression": "fsst"},
    {"lance-encoding:compression": "none"},
    {"lance-encoding:compression": "zstd", "lance-encoding:bss": "on"},
    {"lance-encoding:structural-encoding": "fullzip"},
    {"lance-encoding:structural-encoding": "miniblock"},
    {"lance-encoding:rle-threshold": "1.0"},
    {"lance-encoding:dict-divisor": "1"},
]


class Refused(Exception):
    """pylance does not write this, or cannot read it back."""


def has_null_struct(array):
    """Storage 2.0 cannot say that a struct is null."""
    if pa.types.is_struct(array.type):
        return array.null_count > 0 or any(has_null_struct(array.field(i)) for i in range(array.type.num_fields))
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return has_null_struct(array.values)
    return pa.types.is_map(array.type)


def random_field(rng, name, rows, storage):
    metadata = dict(rng.choice(ENCODINGS))
    special = rng.random()
    if special < 0.05:
        values = test_lance_corpus.lance_corpus.pick([rng.randbytes(rng.randint(0, 300)) for _ in range(rows)], 0.2, rng)
        return pa.field(name, pa.large_binary(), metadata={"lance-encoding:blob": "true"}), pa.array(values, pa.large_binary())
    if special < 0.1:
        texts = [rng.choice(["null", "[1,2]", '{"a":{"b":%d}}' % i, "%r" % rng.random()]) for i in range(rows)]
        array = pa.array(test_lance_corpus.lance_corpus.pick(texts, 0.2, rng), pa.json_(pa.string()))
        return pa.field(name, array.type), array
    if special < 0.15:
        members = [pa.array([rng.randrange(1 << 15) for _ in range(rows)], kind) for kind in (pa.int32(), pa.int16())]
        names = ["a", "b"]
        if storage == "2.2" and rng.random() < 0.6:
            members.append(pa.array(["x" * rng.randint(0, 40) for _ in range(rows)]))
            names.append("s")
        mask = pa.array([storage != "2.0" and rng.random() < 0.2 for _ in range(rows)])
        array = pa.StructArray.from_arrays(members, names=names, mask=mask if storage != "2.0" else None)
        return pa.field(name, array.type, metadata={"lance-encoding:packed": "true"}), array
    kind = test_lance_files.random_type(rng, rng.randint(0, 3), storage)
    array = test_lance_files.random_column(rng, kind, rows)
    if storage == "2.0" and has_null_struct(array):
        array = pa.array([rng.randrange(1000) for _ in range(rows)])
    return pa.field(name, array.type, metadata=metadata), array


def random_table(rng, storage, rows, schema=None):
    """A new table, or more rows of `schema` (only of its first, plain column)."""
    if schema is not None:
        return pa.table({"id": pa.array([rng.randrange(1 << 20) for _ in range(rows)])})
    fields, arrays = [pa.field("id", pa.int64())], [pa.array(range(rows), pa.int64())]
    for i in range(rng.randint(1, 4)):
        field, array = random_field(rng, f"c{i}", rows, storage)
        fields.append(field)
        arrays.append(array)
    return pa.table(arrays, schema=pa.schema(fields))


# ---- operations -------------------------------------------------------------------------------------


def append(dataset, rng, uri, table):
    start, rows = rng.randrange(table.num_rows), rng.randint(1, 500)
    lance.write_dataset(table.slice(start, rows), uri, mode="append", max_rows_per_file=rng.choice([100, 1000]))


def delete(dataset, rng, uri, table):
    low = rng.randrange(2000)
    dataset.delete(rng.choice([f"id % {rng.randint(2, 9)} = 1", f"id >= {low} and id < {low + 300}", f"id = {low}"]))


def update(dataset, rng, uri, table):
    dataset.update({"id": "id + 100000"}, where=f"id % {rng.randint(3, 30)} = 2")


def merge(dataset, rng, uri, table):
    rows = table.slice(rng.randrange(table.num_rows), rng.randint(1, 200))
    rows = rows.set_column(0, "id", pc.add(rows["id"], rng.choice([0, 50, 5000])))
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


def add_column(dataset, rng, uri, table):
    name = f"n{dataset.version}"
    dataset.add_columns(rng.choice([{name: "id * 2"}, {name: "cast(id as string)"}, pa.field(name, pa.list_(pa.int32()))]))


def drop_column(dataset, rng, uri, table):
    names = [name for name in dataset.schema.names if name != "id"]
    if len(names) > 1:
        dataset.drop_columns([rng.choice(names)])


def rename(dataset, rng, uri, table):
    names = [name for name in dataset.schema.names if name != "id"]
    if names:
        dataset.alter_columns({"path": rng.choice(names), "name": f"r{dataset.version}"})


def compact(dataset, rng, uri, table):
    dataset.optimize.compact_files(target_rows_per_fragment=rng.choice([500, 100000]))


def restore(dataset, rng, uri, table):
    lance.dataset(uri, version=rng.randint(1, dataset.version)).restore()


def overwrite(dataset, rng, uri, table):
    lance.write_dataset(table.slice(0, rng.randint(1, 100)), uri, mode="overwrite")


def index(dataset, rng, uri, table):
    dataset.create_scalar_index("id", "BTREE", replace=True)


OPERATIONS = [append, append, delete, delete, update, merge, add_column, drop_column, rename, compact, restore, overwrite, index]


def of_pylance(call, *arguments):
    """Whatever pylance raises, panics among it, says that the case is none."""
    try:
        return call(*arguments)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as refusal:
        raise Refused(str(refusal)[:200]) from refusal


def check(uri, note, rng):
    """Lake reads what pylance reads; False where pylance itself cannot."""
    try:
        theirs = of_pylance(lance.dataset(uri).to_table)
    except Refused:
        return False
    ask = ["--descriptions"] + (["--batch-rows", rng.choice([7, 100, 1000])] if rng.random() < 0.5 else [])
    wrong = test_lance_corpus.difference(test_lance_corpus.read(uri, *ask), theirs)
    assert wrong is None, f"{note}: {wrong}"
    return True


def run(directory, seed):
    """Returns how many steps were compared."""
    rng = random.Random(f"lance {seed}")
    storage = rng.choice(["2.0", "2.1", "2.2", "2.2"])
    uri, compared, history = str(directory / "t"), 0, [f"seed {seed}, storage {storage}"]
    table = random_table(rng, storage, rng.choice([1, 60, 1025, 3000]))
    options = {"data_storage_version": storage, "max_rows_per_file": rng.choice([300, 1 << 20]),
               "enable_stable_row_ids": rng.random() < 0.3, "enable_v2_manifest_paths": rng.random() < 0.8}
    try:
        of_pylance(lambda: lance.write_dataset(table, uri, **options))
    except Refused:
        return 0
    for step in range(rng.randint(3, 6)):
        compared += check(uri, " -> ".join(history), rng)
        operation = rng.choice(OPERATIONS)
        try:
            of_pylance(operation, lance.dataset(uri), rng, uri, table)
            history.append(operation.__name__)
        except Refused:
            history.append(f"({operation.__name__} refused)")
    compared += check(uri, " -> ".join(history), rng)
    return compared


def test_lake_reads_what_pylance_writes_and_makes_of_it(tmp_path):
    """One test for all, so that a generator that makes nothing is seen."""
    compared = 0
    for seed in range(SUITE_SEEDS):
        directory = tmp_path / str(seed)
        directory.mkdir()
        compared += run(directory, seed)
        shutil.rmtree(directory)
    assert compared > 3 * SUITE_SEEDS


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1000 + SOAK_SEEDS))
def test_lake_reads_more_of_what_pylance_writes(tmp_path, seed):
    run(tmp_path, seed)
