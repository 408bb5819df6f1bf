"""Every operation on a Lance table killed with SIGKILL at each of its steps: what pylance finds is
what was before or what comes after, the next operation works, and the clean-up after the grace time
leaves no file that no version refers to.

The steps are fault points: those of the format's layer in the suite, with `-m soak` also each file that
is opened, read, written, renamed or removed."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import lance
import pyarrow as pa
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "interop"))
from test_lance_operations import CHANGE_TOOL  # noqa: E402
from test_lance_tables import TOOL, assert_agree, run_tool, write_input  # noqa: E402

DAY_MS = 24 * 3600 * 1000
COMMIT = ["lance.commit.after_transaction", "lance.commit.before_manifest", "lance.commit.after_manifest"]
STORAGE = ["storage.create", "storage.write", "storage.rename", "storage.remove", "storage.mkdir", "storage.open",
           "storage.read", "storage.list", "storage.open_directory"]


def rows(first, count, v=0):
    return [{"id": i, "v": v + i, "t": f"row {i}"} for i in range(first, first + count)]


def table_of(items):
    return pa.Table.from_pylist(items, pa.schema([("id", pa.int64()), ("v", pa.int64()), ("t", pa.string())]))


# ---- what operations do to a model: version, rows, tags, branches, versions that are there ----------

MERGED = table_of([{"id": 3, "v": -3, "t": "new"}, {"id": 14, "v": -14, "t": "new"}, {"id": 70, "v": -70, "t": "new"}])


def committed(model, items):
    version = model["version"] + 1
    return {**model, "version": version, "rows": items, "versions": [*model["versions"], version]}


def merged(model):
    new = {row["id"]: row for row in MERGED.to_pylist()}
    kept = [row for row in model["rows"] if row["id"] not in new]
    return committed(model, kept + list(new.values()))


def cleaned(model):
    kept = {model["version"], *model["tags"].values(), *model["branches"].values()}
    return {**model, "versions": sorted(kept)}


def without(row, name):
    return {key: value for key, value in row.items() if key != name}


# Name: arguments (None: the path), what comes of the model, points beside those of a commit.
OPERATIONS = {
    "append": ([TOOL, "write", None, "{rows}", "--append"],
               lambda m: committed(m, m["rows"] + rows(100, 5)), ["lance.append.after_data", *COMMIT]),
    "overwrite": ([TOOL, "write", None, "{rows}", "--overwrite"],
                  lambda m: committed(m, rows(100, 5)), ["lance.append.after_data", *COMMIT]),
    "delete": ([CHANGE_TOOL, "delete", None, "--where", "id", ">=", 8, "--where", "id", "<", 22],
               lambda m: committed(m, [r for r in m["rows"] if not 8 <= r["id"] < 22]),
               ["lance.delete.after_vectors", *COMMIT]),
    "update": ([CHANGE_TOOL, "update", None, "v", -1, "--where", "id", ">", 25],
               lambda m: committed(m, [{**r, "v": -1} if r["id"] > 25 else r for r in m["rows"]]),
               ["lance.update.after_data", *COMMIT]),
    "merge-insert": ([CHANGE_TOOL, "merge", None, "id", "{merged}"], merged, ["lance.update.after_data", *COMMIT]),
    "add-column": ([CHANGE_TOOL, "add", None, "w", "int32"],
                   lambda m: committed(m, [{**r, "w": None} for r in m["rows"]]), COMMIT),
    "drop-column": ([CHANGE_TOOL, "drop", None, "t"],
                    lambda m: committed(m, [without(r, "t") for r in m["rows"]]), COMMIT),
    "rename-column": ([CHANGE_TOOL, "rename", None, "t", "text"],
                      lambda m: committed(m, [{**without(r, "t"), "text": r["t"]} for r in m["rows"]]), COMMIT),
    "compaction": ([CHANGE_TOOL, "compact", None], lambda m: committed(m, m["rows"]),
                   ["lance.compact.after_data", *COMMIT]),
    "restore": ([CHANGE_TOOL, "restore", None, 2], lambda m: committed(m, rows(0, 20)), COMMIT),
    "branch": ([CHANGE_TOOL, "branch", None, "late", 4],
               lambda m: {**m, "branches": {**m["branches"], "late": 4}}, ["lance.branch.after_manifest"]),
    "tag": ([CHANGE_TOOL, "tag", None, "late", 4], lambda m: {**m, "tags": {**m["tags"], "late": 4}}, []),
    "retag": ([CHANGE_TOOL, "retag", None, "first", 3], lambda m: {**m, "tags": {"first": 3}}, []),
    "untag": ([CHANGE_TOOL, "untag", None, "first"], lambda m: {**m, "tags": {}}, []),
    "clean-up": ([CHANGE_TOOL, "cleanup", None, 0, 7 * DAY_MS], cleaned,
                 ["lance.cleanup.after_hint", "lance.cleanup.after_manifest", "lance.cleanup.after_file"]),
}
IN_SUITE = [name for name in OPERATIONS if OPERATIONS[name][2]]


def sorted_rows(items):
    return sorted(items, key=lambda row: row["id"])


def observe(path):
    """The model of what pylance finds."""
    dataset = lance.dataset(str(path))
    return {"version": dataset.version, "rows": sorted_rows(assert_agree(path).to_pylist()),
            "tags": {name: tag["version"] for name, tag in dataset.tags.list().items()},
            "branches": {name: branch["parent_version"] for name, branch in dataset.branches.list().items()},
            "versions": [entry["version"] for entry in dataset.versions()]}


def same(a, b):
    return {**a, "rows": sorted_rows(a["rows"])} == {**b, "rows": sorted_rows(b["rows"])}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Seven versions in three fragments, two of them with deletions, a tag, a branch; its inputs."""
    directory = tmp_path_factory.mktemp("template")
    path = directory / "t.lance"
    for i in range(3):
        done = run_tool("write", path, write_input(table_of(rows(10 * i, 10)), directory), *(["--append"] if i else []))
        assert done.returncode == 0, done.stderr
    for command in (["tag", path, "first", "2"], ["delete", path, "--where", "id", "=", "5"],
                    ["branch", path, "dev", "3"], ["delete", path, "--where", "id", "=", "6"],
                    ["delete", path, "--where", "id", "=", "17"], ["add", path, "x", "int32"], ["drop", path, "x"]):
        run_to_the_end([CHANGE_TOOL, *command])
    write_input(table_of(rows(100, 5)), directory, "rows")
    write_input(MERGED, directory, "merged")
    return directory


def run_to_the_end(command):
    done = run_killed(command, None)
    assert done.returncode == 0, (command, done.stderr.decode())
    return done


def run_killed(command, fault):
    env = {key: value for key, value in os.environ.items() if key != "LAKE_FAULT"}
    return subprocess.run(list(map(str, command)), capture_output=True, timeout=120,
                          env={**env, **({"LAKE_FAULT": f"{fault}:kill"} if fault else {})})


def referred_files(path):
    """What the versions that are there refer to, as pylance reads them."""
    dataset = lance.dataset(str(path))
    found = set()
    for entry in dataset.versions():
        version = lance.dataset(str(path), version=entry["version"])
        for fragment in version.get_fragments():
            found |= {f"data/{file.path}" for file in fragment.data_files()}
            deletions = fragment.deletion_file()
            found |= {deletions} if deletions else set()
        transaction = dataset.read_transaction(entry["version"])
        found.add(f"_transactions/{transaction.read_version}-{transaction.uuid}.txn")
    return found


def files_in(path, *folders):
    return {str(file.relative_to(path)) for folder in folders for file in (path / folder).rglob("*") if file.is_file()}


def clean_up_after_grace(path, versions):
    """Everything is old: what no version refers to goes, and what one does stays."""
    then = time.time() - 8 * 24 * 3600
    for name in files_in(path, "data", "_deletions", "_transactions", "_versions"):
        os.utime(path / name, (then, then))
    run_to_the_end([CHANGE_TOOL, "cleanup", path, 1000 * DAY_MS, 7 * DAY_MS])
    assert files_in(path, "data", "_deletions", "_transactions") == referred_files(path)
    assert len(files_in(path, "_versions")) - (path / "_versions/latest_version_hint.json").exists() == len(versions)


def check_goes_on(path, command, found, before, after):
    """From what was found, the same operation and others work."""
    model = found
    if same(found, before):
        run_to_the_end(command)
        model = after
    assert same(observe(path), model)
    schema = lance.dataset(str(path)).schema
    more = [{name: 200 + i if name in ("id", "v") else None for name in schema.names} for i in range(2)]
    extra = pa.Table.from_pylist(more, schema)
    assert run_tool("write", path, write_input(extra, path.parent, "extra"), "--append").returncode == 0
    lance.write_dataset(extra, str(path), mode="append")
    model = committed(committed(model, model["rows"] + more), model["rows"] + more + more)
    assert same(observe(path), model)
    clean_up_after_grace(path, model["versions"])
    assert same(observe(path), model)


def kill_everywhere(template, tmp_path, name, points):
    """How often a kill at each point found a step to happen at."""
    arguments, change, _ = OPERATIONS[name]
    kills = dict.fromkeys(points, 0)
    before = observe(template / "t.lance")
    after = change(before)
    for point in points:
        changed = False
        for nth in range(1, 1000):
            path = tmp_path / "t.lance"
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(template / "t.lance", path)
            inputs = {"{rows}": template / "rows.arrow", "{merged}": template / "merged.arrow"}
            command = [path if word is None else inputs.get(word, word) for word in arguments]
            done = run_killed(command, f"{point}:{nth}")
            if done.returncode == 0:
                break
            assert done.returncode == -signal.SIGKILL, (point, nth, done.stderr)
            kills[point] += 1
            found = observe(path)
            if name == "clean-up":  # some versions are gone, from the oldest
                assert {**found, "versions": None} == {**before, "rows": sorted_rows(before["rows"]), "versions": None}
                gone = [v for v in before["versions"] if v not in found["versions"]]
                doomed = [v for v in before["versions"] if v not in after["versions"]]
                assert gone == doomed[:len(gone)], (point, nth, gone)
                run_to_the_end(command)
                assert same(observe(path), after)
                clean_up_after_grace(path, after["versions"])
                continue
            is_after = same(found, after)
            assert is_after or same(found, before), (point, nth, found)
            assert is_after or not changed, f"{point}: what was done at {nth - 1} is not at {nth}"
            assert not point.startswith("lance.") or is_after == (point == "lance.commit.after_manifest"), (point, nth)
            changed = is_after
            check_goes_on(path, command, found, before, after)
    return kills


@pytest.mark.parametrize("name", IN_SUITE)
def test_killed_at_a_step_an_operation_is_whole_or_not_there(template, tmp_path, name):
    kills = kill_everywhere(template, tmp_path, name, OPERATIONS[name][2])
    assert min(kills.values()) > 0, kills


@pytest.mark.soak
@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_at_any_access_to_a_file_an_operation_is_whole_or_not_there(template, tmp_path, name):
    kills = kill_everywhere(template, tmp_path, name, STORAGE)
    assert sum(kills.values()) >= 8, kills
