"""Two writers that race, for each cell of Lance's conflict matrix: ours is stopped right before its
manifest is put, the other's version is committed, and ours goes on. What came of it is what the matrix
says and what pylance says of the same two transactions, and the table is what a model is."""

import os
import pathlib
import shutil
import signal
import subprocess

import lance
import pyarrow as pa
import pytest
from test_lance_operations import CHANGE_TOOL
from test_lance_tables import TOOL, assert_agree, write_input

BASE = 5  # the version that both begin from
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("t", pa.string()), ("u", pa.int64())])


def rows(first, count):
    return {i: {"id": i, "v": i, "t": f"row {i}", "u": 10 * i} for i in range(first, first + count)}


def table_of(items):
    return pa.Table.from_pylist(list(items.values()), SCHEMA)


# ---- models: shown names by what columns are called at the base, rows by id --------------------------


def state(items):
    return {"columns": {name: name for name in SCHEMA.names}, "rows": items}


def with_rows(model, items):
    return {**model, "rows": items}


def append(model):
    return with_rows(model, {**model["rows"], **rows(100, 3)})


def delete(*ids):
    return lambda model: with_rows(model, {i: row for i, row in model["rows"].items() if i not in ids})


def update(*ids):
    return lambda model: with_rows(
        model, {i: {**row, "v": -1} if i in ids else row for i, row in model["rows"].items()})


MERGED = {i: {"id": i, "v": -i, "t": "new", "u": 0} for i in (1, 300)}


def columns(change):
    return lambda model: {**model, "columns": change(dict(model["columns"]))}


def unchanged(model):
    return model


def shown(model):
    names = model["columns"]
    return {i: {name: row.get(column) for column, name in names.items()} for i, row in model["rows"].items()}


def add_w(names):
    return {**names, "w": "w"}


def drop(name):
    return columns(lambda names: {column: shown for column, shown in names.items() if column != name})


def rename_t(names):
    return {column: "text" if column == "t" else name for column, name in names.items()}


# ---- writers ----------------------------------------------------------------------------------------

# Fragments: ids 0 to 9, 10 to 19, 20 to 29; of the last two rows are deleted.

# Name: its row or column of the matrix, arguments of our tool (None: the path), what comes of a model,
# fragments and rows that it touches.
OURS = {
    "append": ("Append", [TOOL, "write", None, "{append}", "--append"], append, ()),
    "delete": ("Delete", [CHANGE_TOOL, "delete", None, "--where", "id", "=", 22], delete(22), (2,)),
    "update": ("Update", [CHANGE_TOOL, "update", None, "v", -1, "--where", "id", "=", 23], update(23), (2,)),
    "merge-insert": ("Update with keys", [CHANGE_TOOL, "merge", None, "id", "{merged}"],
                     lambda model: with_rows(model, {**model["rows"], **MERGED}), (0,)),
    "overwrite": ("Overwrite", [TOOL, "write", None, "{append}", "--overwrite"],
                  lambda model: state(rows(100, 3)), ()),
    "compaction": ("Rewrite", [CHANGE_TOOL, "compact", None, 1, 10], unchanged, (2,)),
    "add-column": ("Merge", [CHANGE_TOOL, "add", None, "w", "int32"], columns(add_w), ()),
    "drop-column": ("Project", [CHANGE_TOOL, "drop", None, "t"], drop("t"), ()),
    "rename-column": ("Project", [CHANGE_TOOL, "rename", None, "t", "text"], columns(rename_t), ()),
    "restore": ("Restore", [CHANGE_TOOL, "restore", None, 2], lambda model: state(rows(0, 20)), ()),
}


def by_tool(arguments):
    return lambda path, inputs: run_to_the_end(command_of(arguments, path, inputs))


def by_pylance(change):
    return lambda path, inputs: change(lance.dataset(str(path)))


# Name: column, writer, what comes of a model, fragments; what it removes: rows that ours may touch too.
THEIRS = {
    "append": ("Append", by_pylance(lambda d: lance.write_dataset(table_of(rows(200, 3)), d.uri, mode="append")),
               lambda model: with_rows(model, {**model["rows"], **rows(200, 3)}), ()),
    "delete-of-the-rows": ("Delete", by_pylance(lambda d: d.delete("id in (1, 22, 23)")), delete(1, 22, 23), (0, 2)),
    "delete-of-other-rows": ("Delete", by_pylance(lambda d: d.delete("id in (2, 24)")), delete(2, 24), (0, 2)),
    "delete-of-other-fragments": ("Delete", by_pylance(lambda d: d.delete("id = 12")), delete(12), (1,)),
    "update-of-the-rows": ("Update", by_pylance(lambda d: d.update({"v": "-1"}, "id in (1, 22, 23)")),
                           update(1, 22, 23), (0, 2)),
    "update-of-other-rows": ("Update", by_pylance(lambda d: d.update({"v": "-1"}, "id in (2, 24)")),
                             update(2, 24), (0, 2)),
    "update-of-other-fragments": ("Update", by_pylance(lambda d: d.update({"v": "-1"}, "id = 12")), update(12), (1,)),
    "overwrite": ("Overwrite", by_tool(OURS["overwrite"][1]), OURS["overwrite"][2], ()),
    "index": ("CreateIndex", by_pylance(lambda d: d.create_scalar_index("id", "BTREE")), unchanged, (0, 1, 2)),
    "compaction": ("Rewrite", by_tool(OURS["compaction"][1]), unchanged, (2,)),
    "add-column": ("Merge", by_tool([CHANGE_TOOL, "add", None, "w2", "int32"]),
                   columns(lambda names: {**names, "w2": "w2"}), ()),
    "drop-column": ("Project", by_tool([CHANGE_TOOL, "drop", None, "u"]), drop("u"), ()),
    "restore": ("Restore", by_tool(OURS["restore"][1]), OURS["restore"][2], ()),
    "configuration": ("UpdateConfig", by_pylance(lambda d: d.update_config({"robot": "fetch"})), unchanged, ()),
}

# facts: `ok` on top, `R` again from the newest, `X` never, `F` R for the same fragments, `rows` R for the
# same rows or what was written anew.
COLUMNS = ["Append", "Delete", "Update", "Overwrite", "CreateIndex", "Rewrite", "Merge", "Project", "Restore", "UpdateConfig"]
MATRIX = {
    "Append": "ok ok ok X ok ok ok ok X ok",
    "Delete": "ok rows rows X ok F R ok X ok",
    "Update": "ok rows rows X ok F R ok X ok",
    "Update with keys": "R rows R X ok F R ok X ok",
    "Overwrite": "ok ok ok R ok ok ok ok ok ok",
    "Rewrite": "ok F F X F F R ok X ok",
    "Merge": "R R R X ok R R X X ok",
    "Project": "ok ok ok X ok ok R R X ok",
    "Restore": "ok ok ok ok ok ok ok ok ok ok",
}


def expected(ours, theirs):
    row, _, _, own = OURS[ours]
    column, _, _, other = THEIRS[theirs]
    cell = MATRIX[row].split()[COLUMNS.index(column)]
    meet = bool(set(own) & set(other))
    if cell == "F":
        return "R" if meet else "ok"
    if cell == "rows":
        return "R" if meet and theirs.endswith("-of-the-rows") else "ok"
    return cell


def command_of(arguments, path, inputs):
    return [str(path if word is None else inputs.get(word, word)) for word in arguments]


def run_to_the_end(command):
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert done.returncode == 0, (command, done.stderr.decode())


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A table at the base, and copies of it: after each of theirs, after each of ours."""
    directory = tmp_path_factory.mktemp("races")
    base = directory / "base"
    for i in range(3):
        source = write_input(table_of(rows(10 * i, 10)), directory)
        run_to_the_end([TOOL, "write", base, source, *(["--append"] if i else [])])
    for i in (28, 29):
        run_to_the_end([CHANGE_TOOL, "delete", base, "--where", "id", "=", str(i)])
    inputs = {"{append}": write_input(table_of(rows(100, 3)), directory, "append"),
              "{merged}": write_input(table_of(MERGED), directory, "merged")}
    for name, (_, arguments, _, _) in OURS.items():
        shutil.copytree(base, directory / f"ours-{name}")
        run_to_the_end(command_of(arguments, directory / f"ours-{name}", inputs))
    for name, (_, write, _, _) in THEIRS.items():
        shutil.copytree(base, directory / f"theirs-{name}")
        write(directory / f"theirs-{name}", inputs)
    return directory, inputs


def race(command, other):
    """Runs `other` while `command` stands before its manifest; how the command ended."""
    env = {**os.environ, "LAKE_FAULT": "lance.commit.before_manifest:1:pause"}
    ours = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        _, status = os.waitpid(ours.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), status
        other()
        os.kill(ours.pid, signal.SIGCONT)
        _, errors = ours.communicate(timeout=60)
    finally:
        if ours.poll() is None:
            ours.kill()
            ours.wait()
    return ours.returncode, errors.decode()


def verdict_of_pylance(directory, ours, theirs, path):
    """Ours, committed by pylance on top of theirs."""
    shutil.copytree(directory / f"theirs-{theirs}", path)
    made = directory / f"ours-{ours}"
    for folder in ("data", "_deletions"):
        if (made / folder).exists():
            shutil.copytree(made / folder, path / folder, dirs_exist_ok=True)
    transaction = lance.dataset(str(made)).read_transaction(BASE + 1)
    try:
        lance.LanceDataset.commit(str(path), transaction, read_version=BASE, max_retries=5)
    except OSError as refused:
        assert "conflict" in str(refused).lower(), refused
        return "R" if "retr" in str(refused).lower() else "X"
    return "ok"


def pylance_can_tell(ours, theirs):
    """A transaction does not say which rows of a fragment it deletes, nor that keys were looked up."""
    row, _, _, own = OURS[ours]
    column, _, _, other = THEIRS[theirs]
    by_rows = column in ("Delete", "Update") and row in ("Delete", "Update", "Update with keys")
    return not (by_rows and set(own) & set(other)) and (row, column) not in (
        ("Update with keys", "Append"), ("Update with keys", "Update"))


CELLS = [(ours, theirs) for ours in OURS for theirs in THEIRS]


@pytest.mark.parametrize("ours, theirs", CELLS, ids=[f"{ours}-over-{theirs}" for ours, theirs in CELLS])
def test_a_race(prepared, tmp_path, ours, theirs):
    directory, inputs = prepared
    path = tmp_path / "t.lance"
    shutil.copytree(directory / "base", path)
    outcome = expected(ours, theirs)
    code, errors = race(command_of(OURS[ours][1], path, inputs), lambda: THEIRS[theirs][1](path, inputs))
    model = THEIRS[theirs][2](state({i: row for i, row in rows(0, 30).items() if i not in (28, 29)}))
    if outcome == "ok":
        assert code == 0, errors
        model = OURS[ours][2](model)
    else:
        assert code == 1 and errors.startswith("ABORTED"), (code, errors)
        assert ("another table" in errors) == (outcome == "X"), errors
    table = assert_agree(path)
    assert table.schema.names == list(model["columns"].values())
    assert {row["id"]: row for row in table.to_pylist()} == shown(model)
    assert table.num_rows == len(model["rows"])
    dataset = lance.dataset(str(path))
    assert dataset.version == BASE + 1 + (outcome == "ok")
    if pylance_can_tell(ours, theirs):
        assert verdict_of_pylance(directory, ours, theirs, tmp_path / "p.lance") == outcome
