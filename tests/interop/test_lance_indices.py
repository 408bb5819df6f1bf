"""Lance's BTree, Bitmap and ZoneMap indices: pylance makes them, Lake uses them for filters and
carries them forward. Every question is asked with the indices and without; both answers must be the
rows that a plain loop over the table finds, and what pylance finds with its own use of the index.
"""

import datetime
import decimal
import json
import math
import operator
import os
import pathlib
import random
import shutil
import subprocess

import lance
import pyarrow as pa
import pytest
from lance.indices import IndexConfig
from test_lance_operations import lake_change
from test_lance_tables import BUILD, lake_write

TOOL = BUILD / "tests" / "lance_filter_tool"
KINDS = ["BTREE", "BITMAP", "ZONEMAP"]
ROWS = 9000
DECIMAL = pa.decimal128(14, 3)
WORDS = ["", "a", "A", "ä", "äß", "z", "żółw", "日本", "日本語", "\U0001f916", "a\u0000b"]


def floats(rng, count):
    special = [math.nan, 0.0, -0.0, math.inf, -math.inf, None]
    return [rng.choice(special) if rng.random() < 0.2 else float(rng.randrange(-300, 300)) / 4
            for _ in range(count)]


def some(rng, count, value, nulls=0.05):
    return [None if rng.random() < nulls else value() for _ in range(count)]


# Of each type the values of a column, and how a value is written for the tool and for SQL.
TYPES = {
    "int64": (pa.int64(), lambda r: r.randrange(-10**12, 10**12), lambda v: f"i{v}", str),
    "int8": (pa.int8(), lambda r: r.randrange(-128, 128), lambda v: f"i{v}", str),
    "uint64": (pa.uint64(), lambda r: r.randrange(0, 2**64), lambda v: f"u{v}", None),
    "few": (pa.int32(), lambda r: r.randrange(0, 40), lambda v: f"i{v}", str),
    "bool": (pa.bool_(), lambda r: r.random() < 0.01, lambda v: f"i{int(v)}", None),
    "date": (pa.date32(), lambda r: r.randrange(-4000, 9000), lambda v: f"i{v}",
             lambda v: f"date '{datetime.date(1970, 1, 1) + datetime.timedelta(v)}'"),
    "time": (pa.timestamp("us"), lambda r: r.randrange(-10**15, 10**15), lambda v: f"i{v}", None),
    "decimal": (DECIMAL, lambda r: r.randrange(-10**9, 10**9),
                lambda v: "x" + v.to_bytes(16, "little", signed=True).hex(), None),
    "text": (pa.string(), lambda r: r.choice(WORDS) + str(r.randrange(3000)),
             lambda v: "x" + v.encode().hex(), lambda v: "'" + v.replace("'", "''") + "'"),
    "word": (pa.string(), lambda r: r.choice(WORDS), lambda v: "x" + v.encode().hex(), None),
    "float": (pa.float32(), None, lambda v: f"d{v}", None),
    "double": (pa.float64(), None, lambda v: f"d{v}", None),
}
# A Bitmap holds a bitmap for each value: of columns with few of them.
BITMAPS = ["int8", "few", "bool", "date", "text", "word", "float", "double"]


def to_arrow(name, values):
    kind = TYPES[name][0]
    if name == "decimal":
        values = [None if v is None else decimal.Decimal(v).scaleb(-3) for v in values]
    if name == "time":
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def make_rows(rng, first, count, names, clustered=False):
    columns = {"id": list(range(first, first + count))}
    for name in names:
        make = TYPES[name][1]
        values = floats(rng, count) if make is None else some(rng, count, lambda: make(rng))
        if clustered:
            values.sort(key=lambda v: order(v) if v is not None else (-1,))
        columns[name] = values
    return columns


def to_table(columns):
    arrays = {k: pa.array(v, pa.int64()) if k == "id" else to_arrow(k, v) for k, v in columns.items()}
    return pa.table(arrays)


def order(value):
    """The engine's order: NaN equals itself and is the greatest; the zeros are equal."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    if isinstance(value, str):
        return (0, value.encode())
    return (0, value)


COMPARE = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
           ">": operator.gt, ">=": operator.ge}


def passes(value, op, wanted):
    if op == "null" or op == "notnull":
        return (value is None) == (op == "null")
    if value is None:
        return False
    left = order(value)
    if op == "in":
        return any(left == order(w) for w in wanted)
    return COMPARE[op](left, order(wanted[0]))


def ask(path, questions, version=None):
    """For each question (indices used, rows looked at, ids) with indices, and without."""
    lines = []
    for question in questions:
        parts = []
        for column, op, values in question:
            parts.append(" ".join([column, op] + [TYPES[column][2](v) if column != "id" else f"i{v}"
                                                  for v in values]))
        lines.append(" ; ".join(parts))
    done = subprocess.run([TOOL, str(path), *(["--version", str(version)] if version else [])],
                          input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answers = []
    for line in done.stdout.splitlines():
        numbers, ids = line.split(":")
        used, looked_at, pages, size = map(int, numbers.split())
        answers.append({"used": used, "rows": looked_at, "pages": pages, "bytes": size,
                        "ids": [int(i) for i in ids.split()]})
    assert len(answers) == 2 * len(questions)
    return list(zip(answers[::2], answers[1::2]))


def check(path, columns, questions, version=None):
    """`columns`: the live rows by column, in any order. Returns the answers with indices."""
    with_index = []
    for question, (indexed, plain) in zip(questions, ask(path, questions, version)):
        want = [i for row, i in enumerate(columns["id"])
                if all(passes(columns[c][row], op, values) for c, op, values in question)]
        assert sorted(plain["ids"]) == sorted(want), question
        assert indexed["ids"] == plain["ids"], question
        assert plain["used"] == 0
        with_index.append(indexed)
    return with_index


def random_condition(rng, columns, name):
    value = lambda: rng.choice([v for v in columns[name][:50] if v is not None] + [rng.choice(
        [v for v in columns[name] if v is not None])])
    op = rng.choice(["=", "=", "in", "in", "<", "<=", ">", ">=", "!=", "null", "notnull"])
    if op in ("null", "notnull"):
        return (name, op, [])
    if op == "in":
        return (name, op, [value() for _ in range(rng.randrange(0, 6))])
    return (name, op, [value()])


def random_questions(rng, columns, names, count):
    questions = []
    for _ in range(count):
        conditions = [random_condition(rng, columns, rng.choice(names))
                      for _ in range(rng.choice([1, 1, 1, 2, 3]))]
        if rng.random() < 0.3:  # BETWEEN
            name = rng.choice(names)
            ends = sorted((random_condition(rng, columns, name) for _ in range(2)), key=str)
            conditions = [(n, o, v) for (n, _, v), o in zip(ends, [">=", "<="]) if len(v) == 1]
        questions.append(conditions or [(names[0], "notnull", [])])
    return questions


def create(path, kind, names):
    dataset = lance.dataset(str(path))
    if kind == "ZONEMAP":
        kind = IndexConfig("zonemap", {"rows_per_zone": 512})
    for name in names:
        dataset.create_scalar_index(name, kind, name=f"{name}_index", replace=False)


def covered(path):
    return {i["name"]: sorted(i["fragment_ids"]) for i in lance.dataset(str(path)).list_indices()}


# ---- every kind on every type -------------------------------------------------------------------


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_finds_the_same_rows_with_every_kind_of_index(tmp_path, kind, stable):
    rng = random.Random(f"{kind}{stable}")
    names = BITMAPS if kind == "BITMAP" else list(TYPES)
    path = tmp_path / "t.lance"
    columns = make_rows(rng, 0, ROWS, names)
    lance.write_dataset(to_table(columns), str(path), max_rows_per_file=4000,
                        enable_stable_row_ids=stable)
    create(path, kind, names)
    check(path, columns, random_questions(rng, columns, names, 150))
    if kind != "ZONEMAP":
        for name in names:
            value = next(v for v in columns[name][100:] if v is not None)
            frequency = sum(passes(v, "=", [value]) for v in columns[name])
            [answer] = check(path, columns, [[(name, "=", [value])]])
            if frequency < ROWS // 64:
                assert (answer["used"], answer["rows"]) == (1, frequency), name


def test_a_zone_map_leaves_the_zones_that_may_hold_the_value(tmp_path):
    rng = random.Random(4)
    path = tmp_path / "t.lance"
    columns = make_rows(rng, 0, ROWS, ["int64", "double", "text"], clustered=True)
    lance.write_dataset(to_table(columns), str(path), max_rows_per_file=4000)
    lance.dataset(str(path)).delete("id % 7 = 3 OR (id > 100 AND id < 700)")
    live = [i for i in columns["id"] if not (i % 7 == 3 or 100 < i < 700)]
    columns = {name: [values[i] for i in live] for name, values in columns.items()}
    create(path, "ZONEMAP", ["int64", "double", "text"])
    check(path, columns, random_questions(rng, columns, ["int64", "double", "text"], 80))
    value = columns["int64"][4500]
    [answer] = check(path, columns, [[("int64", "=", [value])]])
    assert answer["used"] == 1 and answer["rows"] <= 1024


def test_pylance_finds_the_same_rows(tmp_path):
    rng = random.Random(11)
    names = ["int64", "few", "date", "text"]
    path = tmp_path / "t.lance"
    columns = make_rows(rng, 0, ROWS, names)
    lance.write_dataset(to_table(columns), str(path), max_rows_per_file=4000)
    create(path, "BTREE", ["int64", "date"])
    create(path, "BITMAP", ["few"])
    create(path, "ZONEMAP", ["text"])
    questions = [q for q in random_questions(rng, columns, names, 60)
                 if all(op != "in" or values for _, op, values in q)]
    dataset = lance.dataset(str(path))
    for question, answer in zip(questions, check(path, columns, questions)):
        parts = []
        for name, op, values in question:
            texts = [TYPES[name][3](v) for v in values]
            parts.append(f"{name} IS NULL" if op == "null" else f"{name} IS NOT NULL" if op == "notnull"
                         else f"{name} IN ({', '.join(texts)})" if op == "in"
                         else f"{name} {op} {texts[0]}")
        for use in (True, False):
            table = dataset.scanner(columns=["id"], filter=" AND ".join(parts),
                                    use_scalar_index=use).to_table()
            assert sorted(table["id"].to_pylist()) == sorted(answer["ids"]), parts


# ---- what changes a table -----------------------------------------------------------------------


class Model:
    """A table on disk beside its rows."""

    NAMES = ["int64", "few", "text", "double"]

    def __init__(self, path, rng, stable=False):
        self.path, self.rng, self.next = path, rng, 0
        self.rows = {}
        lance.write_dataset(self.take(9000), str(path), max_rows_per_file=4000,
                            enable_stable_row_ids=stable)
        create(path, "BTREE", ["int64", "text"])
        create(path, "BITMAP", ["few"])
        create(path, "ZONEMAP", ["double"])

    def take(self, count):
        columns = make_rows(self.rng, self.next, count, self.NAMES)
        self.next += count
        self.rows.update({columns["id"][i]: {n: columns[n][i] for n in columns} for i in range(count)})
        return to_table(columns)

    def columns(self):
        return {n: [row[n] for row in self.rows.values()] for n in ["id", *self.NAMES]}

    def check(self, count=25):
        columns = self.columns()
        return check(self.path, columns, random_questions(self.rng, columns, self.NAMES, count))

    def some_range(self):
        start = self.rng.randrange(self.next)
        return start, start + self.rng.randrange(1, 900)

    def change(self, ids, name, value):
        for i in ids:
            if i in self.rows:
                self.rows[i][name] = value

    # by Lake

    def lake_append(self):
        lake_write(self.take(1000), self.path, append=True)

    def lake_delete(self):
        low, high = self.some_range()
        lake_change("delete", self.path, "--where", "id", ">=", low, "--where", "id", "<", high)
        self.rows = {i: row for i, row in self.rows.items() if not low <= i < high}

    def lake_update(self):
        low, high = self.some_range()
        lake_change("update", self.path, "int64", 77, "--where", "id", ">=", low, "--where", "id", "<", high)
        self.change(range(low, high), "int64", 77)

    def lake_compact(self):
        lake_change("compact", self.path, 6000, 5)

    def lake_columns(self):
        lake_change("add", self.path, "extra", "int32")
        lake_change("rename", self.path, "text", "label")
        lake_change("rename", self.path, "label", "text")
        lake_change("drop", self.path, "extra")

    # by pylance

    def pylance_append(self):
        lance.write_dataset(self.take(1000), str(self.path), mode="append")

    def pylance_delete(self):
        low, high = self.some_range()
        lance.dataset(str(self.path)).delete(f"id >= {low} AND id < {high}")
        self.rows = {i: row for i, row in self.rows.items() if not low <= i < high}

    def pylance_update(self):
        low, high = self.some_range()
        lance.dataset(str(self.path)).update({"few": "3"}, where=f"id >= {low} AND id < {high}")
        self.change(range(low, high), "few", 3)

    def pylance_optimize(self):
        lance.dataset(str(self.path)).optimize.optimize_indices()

    def pylance_compact(self):
        lance.dataset(str(self.path)).optimize.compact_files(target_rows_per_fragment=6000)


OPERATIONS = [name for name in vars(Model) if name.startswith(("lake_", "pylance_"))]


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_indices_stay_right_over_each_operation(tmp_path, operation, stable):
    model = Model(tmp_path / "t.lance", random.Random(operation), stable)
    getattr(model, operation)()
    model.check()
    getattr(model, operation)()
    model.check()
    assert set(covered(model.path)) == {"int64_index", "text_index", "few_index", "double_index"}


def random_history(path, seed, steps):
    rng = random.Random(seed)
    model = Model(path, rng, stable=seed % 2 == 1)
    for _ in range(steps):
        getattr(model, rng.choice(OPERATIONS))()
        model.check(8)


@pytest.mark.parametrize("seed", range(4))
def test_indices_stay_right_over_a_random_history(tmp_path, seed):
    random_history(tmp_path / "t.lance", seed, 6)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 160))
def test_indices_stay_right_over_a_long_random_history(tmp_path, seed):
    random_history(tmp_path / "t.lance", seed, 20)


def test_appended_and_rewritten_fragments_are_scanned_and_the_others_asked(tmp_path):
    model = Model(tmp_path / "t.lance", random.Random(1))
    model.lake_append()
    assert covered(model.path)["int64_index"] == [0, 1, 2]
    value = next(iter(model.rows.values()))["int64"]
    [answer] = check(model.path, model.columns(), [[("int64", "=", [value])]])
    assert answer["used"] == 1 and 1000 < answer["rows"] <= 1100  # the new fragment, and one row
    low = 4100
    lake_change("update", model.path, "int64", 77, "--where", "id", ">=", low, "--where", "id", "<", low + 10)
    model.change(range(low, low + 10), "int64", 77)
    assert covered(model.path)["int64_index"] == [0, 1, 2]
    [answer] = check(model.path, model.columns(), [[("int64", "=", [77])]])
    assert answer["used"] == 1 and answer["rows"] <= 1100


def test_a_compaction_takes_what_it_rewrote_from_the_indices(tmp_path):
    model = Model(tmp_path / "t.lance", random.Random(2))
    lake_change("delete", model.path, "--where", "id", ">=", 4000, "--where", "id", "<", 7000)
    model.rows = {i: row for i, row in model.rows.items() if not 4000 <= i < 7000}
    model.lake_compact()
    fragments = [f.fragment_id for f in lance.dataset(str(model.path)).get_fragments()]
    left = covered(model.path)["int64_index"]
    assert set(left) <= {0, 1, 2} and len(left) < 3 and max(fragments) > 2
    lance.dataset(str(model.path)).validate()
    model.check()
    lance.dataset(str(model.path)).optimize.optimize_indices()
    value = next(iter(model.rows.values()))["int64"]
    [answer] = check(model.path, model.columns(), [[("int64", "=", [value])]])
    assert (answer["used"], answer["rows"]) == (1, 1)


def test_a_restored_version_has_its_indices_again(tmp_path):
    model = Model(tmp_path / "t.lance", random.Random(3))
    version = lance.dataset(str(model.path)).version
    rows = {i: dict(row) for i, row in model.rows.items()}
    model.lake_update()
    model.lake_delete()
    model.lake_compact()
    lake_change("restore", model.path, version)
    model.rows = rows
    model.check()
    value = next(iter(rows.values()))["int64"]
    [answer] = check(model.path, model.columns(), [[("int64", "=", [value])]])
    assert (answer["used"], answer["rows"]) == (1, 1)


def test_an_index_goes_with_its_column_and_stays_over_a_new_name(tmp_path):
    model = Model(tmp_path / "t.lance", random.Random(5))
    lake_change("drop", model.path, "text")
    assert set(covered(model.path)) == {"int64_index", "few_index", "double_index"}
    lake_change("rename", model.path, "int64", "number")
    value = next(iter(model.rows.values()))["int64"]
    done = subprocess.run([TOOL, str(model.path)], input=f"number = i{value}\n", capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    indexed, plain = done.stdout.splitlines()
    assert indexed.split()[:2] == ["1", "1"] and indexed.split(":")[1] == plain.split(":")[1]


# ---- what is passed by --------------------------------------------------------------------------


def index_files(path, name):
    [index] = [i for i in lance.dataset(str(path)).list_indices() if i["name"] == name]
    return sorted((path / "_indices" / index["uuid"]).iterdir())


def truncate(file):
    os.truncate(file, file.stat().st_size // 2)


def scribble(file):
    data = bytearray(file.read_bytes())
    data[-64:] = random.Random(1).randbytes(64)
    file.write_bytes(data)


def other_schema(file):
    shutil.copy(next(file.parent.parent.parent.glob("data/*.lance")), file)


@pytest.mark.parametrize("damage", [pathlib.Path.unlink, truncate, scribble, other_schema])
@pytest.mark.parametrize("name", ["int64_index", "few_index", "double_index"])
def test_a_damaged_index_is_passed_by(tmp_path, name, damage):
    base = Model(tmp_path / "t.lance", random.Random(6))
    column = name.removesuffix("_index")
    value = next(row[column] for row in base.rows.values() if row[column] is not None)
    [before] = check(base.path, base.columns(), [[(column, "=", [value])]])
    assert before["used"] == 1
    for number, file in enumerate(index_files(base.path, name)):
        path = tmp_path / f"copy{number}.lance"
        shutil.copytree(base.path, path)
        damage(path / file.relative_to(base.path))
        [answer] = check(path, base.columns(), [[(column, "=", [value])]])
        assert answer["used"] == 0


def test_other_kinds_of_index_are_passed_by(tmp_path):
    rng = random.Random(7)
    path = tmp_path / "t.lance"
    columns = make_rows(rng, 0, ROWS, ["int64", "text", "word"])
    lance.write_dataset(to_table(columns), str(path), max_rows_per_file=4000)
    dataset = lance.dataset(str(path))
    dataset.create_scalar_index("text", "NGRAM")
    dataset.create_scalar_index("word", "INVERTED")
    dataset.create_scalar_index("int64", "BLOOMFILTER")
    for answer in check(path, columns, random_questions(rng, columns, ["int64", "text", "word"], 30)):
        assert answer["used"] == 0


def test_a_table_with_a_fragment_reuse_index_is_scanned(tmp_path):
    model = Model(tmp_path / "t.lance", random.Random(8))
    model.lake_delete()
    lance.dataset(str(model.path)).optimize.compact_files(target_rows_per_fragment=9000,
                                                          defer_index_remap=True)
    assert "__lance_frag_reuse" in covered(model.path)
    model.check()


def lake(*arguments):
    done = subprocess.run([BUILD / "lake", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def filtered(path, predicate):
    rows = json.loads(lake("lance", "cat", path, "--filter", predicate, "--format", "json"))
    return sorted(row["id"] for row in rows)


def test_a_list_index_loses_no_rows_with_null_elements(tmp_path):
    """lance-format/lance#5682"""
    path = tmp_path / "t.lance"
    labels = [["foo", None], ["foo"], [None], None, [], ["bar", "foo"], ["bar"]] * 1000
    table = pa.table({"id": range(len(labels)), "labels": pa.array(labels, pa.list_(pa.string()))})
    lance.write_dataset(table, str(path))
    predicate = "list_has_any(labels, ['foo'])"
    before = filtered(path, predicate)
    lance.dataset(str(path)).create_scalar_index("labels", "LABEL_LIST")
    assert filtered(path, predicate) == before == [i for i, l in enumerate(labels) if l and "foo" in l]


# ---- where indices lie, what is shown, what it costs ---------------------------------------------


def test_a_clone_uses_the_indices_of_its_source(tmp_path):
    model = Model(tmp_path / "t.lance", random.Random(9))
    clone = tmp_path / "clone.lance"
    lance.dataset(str(model.path)).tags.create("made", lance.dataset(str(model.path)).version)
    lance.dataset(str(model.path)).shallow_clone(str(clone), "made")
    assert len(covered(clone)) == 4
    value = next(iter(model.rows.values()))["int64"]
    [answer] = check(clone, model.columns(), [[("int64", "=", [value])]])
    assert (answer["used"], answer["rows"]) == (1, 1)


def test_sql_filters_reach_the_indices(tmp_path):
    model = Model(tmp_path / "t.lance", random.Random(10))
    value = next(iter(model.rows.values()))["int64"]
    want = [i for i, row in model.rows.items() if row["int64"] == value and row["few"] is not None]
    assert filtered(model.path, f"int64 = {value} AND few IS NOT NULL") == want
    ids = sorted(i for i, row in model.rows.items() if row["text"] in ("ä17", "日本5", "z2"))
    assert filtered(model.path, "text IN ('ä17', '日本5', 'z2')") == ids


def test_inspect_shows_what_indices_cover(tmp_path):
    model = Model(tmp_path / "t.lance", random.Random(12))
    model.lake_append()
    indices = {i["name"]: i for i in json.loads(lake("inspect", model.path, "--json"))["indices"]}
    assert {n: i["kind"] for n, i in indices.items()} == {
        "int64_index": "BTree", "text_index": "BTree", "few_index": "Bitmap", "double_index": "ZoneMap"}
    index = indices["text_index"]
    assert (index["columns"], index["fragments"], index["rows"]) == (["text"], 3, 9000)
    assert index["bytes"] == sum(f.stat().st_size for f in index_files(model.path, "text_index"))
    assert "index few_index: Bitmap of few, covers 3 fragments with 9000 rows" in lake("inspect", model.path)


def point_filter(path, rows, seed):
    values = list(range(rows))
    random.Random(seed).shuffle(values)
    table = pa.table({"id": pa.array(range(rows), pa.int64()), "int64": pa.array(values, pa.int64())})
    lance.write_dataset(table, str(path), max_rows_per_file=rows // 2)
    create(path, "BTREE", ["int64"])
    [(indexed, plain)] = ask(path, [[("int64", "=", [values[rows // 3]])]])
    assert indexed["ids"] == plain["ids"] == [rows // 3]
    assert (indexed["used"], indexed["rows"]) == (1, 1)
    assert indexed["bytes"] < 150_000 and indexed["pages"] <= 10
    return indexed["bytes"] / plain["bytes"]


def test_a_point_filter_reads_one_page_of_the_index(tmp_path):
    assert point_filter(tmp_path / "t.lance", 400_000, 1) < 0.2


@pytest.mark.soak
def test_a_point_filter_reads_one_page_of_a_large_index(tmp_path):
    assert point_filter(tmp_path / "t.lance", 5_000_000, 2) < 0.02
