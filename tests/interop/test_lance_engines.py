"""One table, several engines: a random step of a random engine after another, and after each step
everybody reads the same rows, which a model in plain Arrow has, too.

Schema, nulls, nesting, encoding options, storage version, steps and engines come from the seed that a
failure names. 25 seeds belong to the suite, LAKE_SOAK_SEEDS (500) from LAKE_SOAK_FIRST on to `make soak`.
"""

import os
import random
import shutil

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance_engines import (DuckDB, Lake, LanceDB, Pylance, decoded, duckdb_reads, duckdb_survives, mask_of,
                           sql, words_of)
from lance_rows import WORDS, deep_schema, random_rows, random_schema

SUITE_SEEDS = 25
SOAK_SEEDS = int(os.environ.get("LAKE_SOAK_SEEDS", "500"))
SOAK_FIRST = int(os.environ.get("LAKE_SOAK_FIRST", "10000"))
DEEPEST = 30
STEPS = ["append", "append", "append", "delete", "delete", "update", "update", "merge", "merge", "compact", "compact",
         "restore", "overwrite", "add", "drop", "rename", "index", "optimize_index"]


class Refused(Exception):
    """Another engine does not write or read what it was given or made itself."""


# ---- comparing --------------------------------------------------------------------------------------


def difference(got, want):
    """Where two tables differ, or None; rows in the order that they have."""
    if got.column_names != want.column_names:
        return f"columns {got.column_names}, not {want.column_names}"
    if got.num_rows != want.num_rows:
        return f"{got.num_rows} rows, not {want.num_rows}"
    for name in want.column_names:
        ours, theirs = decoded(got[name]), decoded(want[name])
        if ours.equals(theirs):
            continue
        ours, theirs = ours.to_pylist(), theirs.to_pylist()
        wrong = [i for i, (a, b) in enumerate(zip(ours, theirs)) if repr(a) != repr(b)]
        if wrong:
            i = wrong[0]
            return f"{name}: {len(wrong)} rows differ, first {i}: {ours[i]!r:.200} is not {theirs[i]!r:.200}"
    return None


def by_id(table):
    order = pc.sort_indices(decoded(table["id"]))
    return pa.table([decoded(column).take(order) for column in table.columns], table.column_names)


def paths_of(fragment):
    return [file.path for file in fragment.data_files()]


def readable(fragment):
    try:
        fragment.to_table()
        return True
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of its runtime is no Exception
        return False


# ---- the model --------------------------------------------------------------------------------------


class Game:
    def __init__(self, directory, seed):
        self.rng = rng = random.Random(f"engines {seed}")
        self.uri = str(directory / "t.lance")
        self.storage = rng.choice(["2.1", "2.2", "2.2"])
        self.log = [f"seed {seed}, storage {self.storage}"]
        self.lake, self.pylance, self.lancedb, self.duckdb = (make(rng) for make in (Lake, Pylance, LanceDB, DuckDB))
        self.engines = [self.lake, self.lake, self.pylance, self.lancedb, self.duckdb]
        self.next_id = 0
        self.ours = False  # whether anybody but pylance and LanceDB has written what is there
        self.versions = {}  # what each version holds, as far as a step ended with it
        self.row_ids = None
        self.files = set()  # the data files that were there when everybody read the same
        self.compared = 0

    # ---- the first rows ----

    def new_ids(self, count):
        self.next_id += count
        return range(self.next_id - count, self.next_id)

    def row_count(self):
        return self.rng.choice([0, 1, 2, 60, 60, 300, 1025, 3000])

    def new_table(self):
        """Rows of a new schema, which pylance must be able to write and to read."""
        for _ in range(50):
            if self.rng.random() < 0.08:
                schema = deep_schema(self.rng, self.storage, self.rng.randint(4, DEEPEST))
            else:
                schema = random_schema(self.rng, self.storage, self.rng.random() < 0.4)
            table = random_rows(self.rng, schema, self.new_ids(self.row_count()))
            if self.pylance_can(table):
                return table
        raise AssertionError("nothing that pylance can write")

    def pylance_can(self, table):
        probe = self.uri + "-probe"
        shutil.rmtree(probe, ignore_errors=True)
        try:
            more = random_rows(self.rng, table.schema, self.new_ids(3))
            for rows in (more, more.slice(0, 1)):
                lance.write_dataset(rows, probe, mode="overwrite", data_storage_version=self.storage)
                lance.dataset(probe).to_table()
            lance.write_dataset(table, probe, mode="overwrite", data_storage_version=self.storage)
            return difference(lance.dataset(probe).to_table(), table) is None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            return False

    def start(self):
        self.model = self.new_table()
        engine = self.rng.choice([self.lake, self.pylance])
        self.log.append(f"{engine.name} creates {self.model.num_rows} rows: {self.shown_schema()}")
        engine.create(self.uri, self.model, self.storage)
        self.ours = engine is self.lake
        self.foreign = not self.ours
        self.check()

    def shown_schema(self):
        return "; ".join(f"{f.name}: {f.type}{'' if f.nullable else ' not null'} {f.metadata or ''}" for f in self.model.schema if f.name not in ("id", "v", "x", "t"))

    # ---- steps ----

    def condition(self):
        rng, top = self.rng, max(self.next_id, 1)
        low = rng.randrange(top)
        word = rng.choice([*WORDS[1:], f"row {rng.randrange(50)}"])
        choices = [
            [("id", "=", low)], [("id", ">=", low), ("id", "<", low + rng.choice([5, 300]))], [("id", "<", low // 4)],
            [("v", rng.choice(["=", "<", ">=", "!="]), rng.randrange(12))], [("v", "null", 0)], [("v", "notnull", 0), ("id", ">", low)],
            [("x", rng.choice(["<", ">", "<=", ">="]), low / 8)], [("x", "null", 0), ("v", "<", 6)],
            [("t", rng.choice(["=", "!=", "<", ">="]), word)], [("t", "=", word), ("v", "!=", 3)], [("id", ">", top)],
        ]
        return rng.choice(choices)

    def some_ids(self):
        ids = self.model["id"].to_pylist()
        return self.rng.sample(ids, min(len(ids), self.rng.choice([0, 1, 20, 200])))

    def step(self):
        operation, schema = self.rng.choice(STEPS), self.model.schema
        engine = self.rng.choice([e for e in self.engines if hasattr(e, operation) and e.takes(operation, schema)])
        self.log.append(f"{engine.name} {operation}")
        try:
            getattr(self, operation)(engine)
        except (KeyboardInterrupt, SystemExit, AssertionError):
            raise
        except BaseException as failure:
            if operation in ("append", "overwrite"):  # rows of its own that it cannot write; nothing was read
                raise Refused(str(failure)) from failure
            raise
        self.foreign = engine in (self.pylance, self.lancedb)
        self.ours = not self.foreign or (self.ours and operation != "overwrite")
        self.check(operation)

    def append(self, engine):
        rows = random_rows(self.rng, self.model.schema, self.new_ids(max(self.row_count(), 1)))
        self.log[-1] += f" {rows.num_rows}"
        engine.append(self.uri, rows)
        self.model = pa.concat_tables([self.model, rows])

    def delete(self, engine):
        where = self.condition()
        if engine is self.duckdb:
            where = [(name, op, value) for name, op, value in where if name == "id"] or [("id", "=", 3)]
        self.log[-1] += f" {sql(where)}"
        engine.delete(self.uri, where)
        self.model = self.model.filter(pc.invert(mask_of(self.model, where)))

    def update(self, engine):
        where, value = self.condition(), self.rng.randrange(20, 30)
        self.log[-1] += f" {sql(where)}"
        engine.update(self.uri, value, where)
        values = pc.if_else(mask_of(self.model, where), pa.scalar(value, pa.int64()), decoded(self.model["v"]))
        place = self.model.schema.get_field_index("v")
        self.model = self.model.set_column(place, self.model.schema.field("v"), values)

    def merge(self, engine):
        old, mode = self.some_ids(), self.rng.choice(["", "", "update", "insert"])
        rows = random_rows(self.rng, self.model.schema, [*old, *self.new_ids(self.rng.choice([1, 30]))])
        self.log[-1] += f" {len(old)} of {rows.num_rows} {mode}"
        engine.merge(self.uri, rows, mode)
        there = pc.is_in(rows["id"], decoded(self.model["id"]))
        if mode == "insert":
            rows = rows.filter(pc.invert(there))
        elif mode == "update":
            rows = rows.filter(there)
        rest = self.model.filter(pc.invert(pc.is_in(self.model["id"], decoded(rows["id"]))))
        self.model = pa.concat_tables([rest, rows])

    def compact(self, engine):
        engine.compact(self.uri, self.rng.choice([500, 1_000_000]))

    def restore(self, engine):
        version = self.rng.choice(list(self.versions))
        self.log[-1] += f" {version}"
        engine.restore(self.uri, version)
        self.model = self.versions[version]

    def overwrite(self, engine):
        self.model = self.new_table()
        self.log[-1] += f" {self.model.num_rows} rows: {self.shown_schema()}"
        engine.overwrite(self.uri, self.model, self.storage)

    def add(self, engine):
        kind = self.rng.choice([pa.int64(), pa.string(), pa.list_(pa.float32())])
        field = pa.field(f"n{len(self.log)}", kind)
        self.log[-1] += f" {field.name}: {kind}"
        engine.add(self.uri, field)
        self.model = self.model.append_column(field, pa.nulls(self.model.num_rows, kind))

    def other_columns(self):
        return [name for name in self.model.column_names if name not in ("id", "v", "x", "t")]

    def drop(self, engine):
        if names := self.other_columns():
            name = self.rng.choice(names)
            self.log[-1] += f" {name}"
            engine.drop(self.uri, name)
            self.model = self.model.drop_columns([name])

    def rename(self, engine):
        if names := self.other_columns():
            name, new_name = self.rng.choice(names), f"r{len(self.log)}"
            self.log[-1] += f" {name} {new_name}"
            engine.rename(self.uri, name, new_name)
            self.model = self.model.rename_columns([new_name if n == name else n for n in self.model.column_names])

    def index(self, engine):
        """Not with stable row ids: rows that LanceDB updates are then lost to pylance's indices."""
        if self.model.num_rows > 0 and not lance.dataset(self.uri).has_stable_row_ids:
            engine.index(self.uri)

    def optimize_index(self, engine):
        engine.optimize_index(self.uri)

    # ---- checks ----

    def expect(self, who, got, want):
        wrong = difference(got, want)
        assert wrong is None, f"{who} after\n  " + "\n  ".join(self.log) + f"\n{wrong}"
        self.compared += 1

    def check(self, operation="create"):
        rng, dataset = self.rng, lance.dataset(self.uri)
        dataset.validate()
        want = by_id(self.model)
        theirs = self.read_by_pylance(dataset, want)
        ours = self.lake.read(self.uri, *rng.choice([[], ["--batch-rows", rng.choice([1 if self.model.num_rows < 300 else 50, 7, 100, 1000])]]))
        assert ours.schema.equals(theirs.schema, check_metadata=True), "\n".join([*self.log, str(ours.schema), "is not", str(theirs.schema)])
        self.expect("lake", ours, theirs)
        if rng.random() < 0.5:
            self.expect("lancedb", self.lancedb.read(self.uri), theirs)
        if rng.random() < 0.5 and duckdb_survives(self.uri):
            self.check_duckdb(theirs)
        for _ in range(2):
            where = self.condition()
            filtered = theirs.filter(mask_of(theirs, where))
            self.expect(f"lake where {sql(where)}", self.lake.read(self.uri, *words_of(where)), filtered)
            self.expect(f"pylance where {sql(where)}", by_id(dataset.to_table(filter=sql(where))), by_id(filtered))
        self.check_row_ids(dataset, "overwrite" if self.log[-1].startswith("duckdb merge") else operation)
        self.versions[dataset.version] = self.model
        self.files = {path for fragment in dataset.get_fragments() for path in paths_of(fragment)}

    def read_by_pylance(self, dataset, want):
        """Which must not fail or differ, unless nobody but pylance and LanceDB has written, or it fails at
        the files of their last step only: LanceDB 0.40 writes lists of nested fixed-size lists that it cannot
        read, whoever wrote the rows that it read right."""
        try:
            theirs = dataset.to_table()
            wrong = difference(by_id(theirs), want)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as failure:
            theirs, wrong = None, str(failure)
            if self.foreign and self.only_new_files_break(dataset):
                raise Refused(wrong) from failure
        if wrong and not self.ours:
            raise Refused(wrong)
        assert wrong is None, "pylance after\n  " + "\n  ".join(self.log) + f"\n{wrong}"
        return theirs

    def only_new_files_break(self, dataset):
        broken = [fragment for fragment in dataset.get_fragments() if not readable(fragment)]
        return broken and all(set(paths_of(fragment)) - self.files for fragment in broken)

    def check_duckdb(self, theirs):
        names = [field.name for field in theirs.schema if duckdb_reads(field)]
        got = self.duckdb.read(self.uri, names)
        columns = [decoded(got[name]).cast(decoded(theirs[name]).type) for name in names]
        self.expect("duckdb", by_id(pa.table(columns, names)), by_id(theirs.select(names)))

    def check_row_ids(self, dataset, operation):
        """A row keeps its stable id whoever moves it (DuckDB merges new rows), and no id is another's."""
        if not dataset.has_stable_row_ids:
            return
        rows = dataset.to_table(columns=["id"], with_row_id=True)
        ids = dict(zip(rows["id"].to_pylist(), rows["_rowid"].to_pylist()))
        assert len(set(ids.values())) == len(ids), self.log
        if self.row_ids is not None and operation not in ("restore", "overwrite"):
            moved = {i for i in ids.keys() & self.row_ids.keys() if ids[i] != self.row_ids[i]}
            assert not moved, "\n".join([*self.log, f"rows {sorted(moved)[:5]} have other row ids"])
        self.row_ids = ids

    def check_history(self):
        for version, model in self.versions.items():
            self.expect(f"lake at {version}", by_id(self.lake.read(self.uri, "--version", version)), by_id(model))

    def play(self):
        """Returns how often two engines were compared."""
        try:
            self.start()
            for _ in range(self.rng.randint(3, 7)):
                self.step()
        except Refused:
            return self.compared
        self.check_history()
        return self.compared


def test_chunks_that_end_within_a_run_are_read(tmp_path):
    """Lance 6 writes the runs of a chunk whole, beyond the values that the chunk counts, and the rest again."""
    rng = random.Random(6)
    values = [value / 7 for value in range(4000) for _ in range(rng.choice([1, 1, 2]))]
    rows, uri = pa.table({"v": pa.array(values)}), str(tmp_path / "t.lance")
    lance.write_dataset(rows.slice(0, 1), uri)
    DuckDB(rng).append(uri, rows.slice(1))
    assert difference(Lake(rng).read(uri), rows) is None


def test_everybody_reads_what_anybody_did(tmp_path):
    """One test for all, so that a generator that makes nothing is seen."""
    compared = 0
    for seed in range(SUITE_SEEDS):
        directory = tmp_path / str(seed)
        directory.mkdir()
        compared += Game(directory, seed).play()
        shutil.rmtree(directory)
    assert compared > 30 * SUITE_SEEDS


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAK_FIRST, SOAK_FIRST + SOAK_SEEDS))
def test_everybody_reads_more_of_what_anybody_did(tmp_path, seed):
    Game(tmp_path, seed).play()
    shutil.rmtree(tmp_path)
