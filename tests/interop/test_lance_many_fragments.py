"""A table of 100,000 fragments: what every operation on it may take of memory, and that it does what
it does on small ones. Most of the manifest is made by pylance, of fragments that share data files."""

import json
import os
import pathlib
import shutil
import sys

import lance
import pyarrow as pa
import pytest
from lance.fragment import DataFile, FragmentMetadata
from test_lance_operations import CHANGE_TOOL
from test_lance_tables import TOOL, write_input

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from lake_server import LAKE, LakeServer  # noqa: E402
from measured import run_measured  # noqa: E402

FRAGMENTS = 100_000
ROWS = 10  # of a fragment
LINKS = 50_000  # names of one file, of which file systems have about 65,000

# MiB, for a manifest of 8 MB. What a scan holds beside the manifest does not grow with the fragments.
MANIFEST = 100
COMMIT = 200
ENGINE = 250  # DuckDB, and what waits to be printed
SERVER = 500


def rows_of(start, count):
    numbers = range(start, start + count)
    return pa.table({"id": pa.array(numbers, pa.int64()), "x": pa.array([n / 2 for n in numbers], pa.float64()),
                     "name": pa.array([f"row {n}" for n in numbers], pa.string())})


def add_fragments(path, count, own_files):
    """`count` fragments like the first one, whose files are its file, or links to copies of it."""
    dataset = lance.dataset(str(path))
    first = dataset.get_fragments()[0].metadata
    file = first.files[0]
    data = pathlib.Path(path) / "data"
    names = [file.path] * count
    if own_files:
        names = [f"part{i:06d}.lance" for i in range(count)]
        for i, name in enumerate(names):
            if i % LINKS == 0:
                source = data / name
                shutil.copy(data / file.path, source)
            else:
                os.link(source, data / name)
    fragments = [FragmentMetadata(0, [DataFile(name, file.fields, file.column_indices, file.file_major_version,
                                               file.file_minor_version, file.file_size_bytes)],
                                  first.physical_rows) for name in names]
    lance.LanceDataset.commit(str(path), lance.LanceOperation.Append(fragments), read_version=dataset.version)


def run(limit, *command):
    """Standard output of a command that must not take more memory than `limit` MiB."""
    done, peak = run_measured(*command, timeout=1800)  # a delete has 200,000 fsyncs
    assert done.returncode == 0, done.stderr.decode()
    if not LakeServer.is_sanitized():
        print(f"{peak:.0f} MiB of {limit}:", *command[:3])
        assert peak < limit, (command, peak)
    return done.stdout.decode()


def numbers_in(text):
    return [int(word) for word in text.split() if word.isdigit()]


def check_operations(path, own_files):
    total = FRAGMENTS * ROWS
    assert f"{total} rows, {FRAGMENTS} fragments" in run(MANIFEST, TOOL, "schema", path)
    assert run(MANIFEST, TOOL, "drain", path) == f"{total} rows\n"
    filtered = run(ENGINE, LAKE, "lance", "cat", path, "--filter", "id = 3 and x > 0", "--format", "csv")
    assert filtered.splitlines() == ["id,x,name"] + ["3,1.5,row 3"] * FRAGMENTS
    taken = run(MANIFEST + 30, LAKE, "lance", "take", path, "--rows", f"{total - 1},3,3,500000", "--format", "json")
    assert [row["id"] for row in json.loads(taken)] == [9, 3, 3, 0]
    addresses = [(i * 7919 % FRAGMENTS << 32) + i % ROWS for i in range(8000)]
    taken = run(MANIFEST + 80, LAKE, "lance", "take", path, "--row-ids", ",".join(map(str, addresses)), "--format", "json")
    assert [row["id"] for row in json.loads(taken)] == [i % ROWS for i in range(8000)]

    written = run(COMMIT, TOOL, "write", path, write_input(rows_of(100, 5), path.parent), "--append")
    assert written == "version 3\n"
    dataset = lance.dataset(str(path))
    assert dataset.count_rows() == total + 5
    assert dataset.take([0, 3, total, total + 4])["id"].to_pylist() == [0, 3, 100, 104]

    if own_files:  # a deletion file each
        assert numbers_in(run(COMMIT, CHANGE_TOOL, "delete", path, "--where", "id", "=", 4)) == [4, FRAGMENTS]
        total -= FRAGMENTS
    compacted = numbers_in(run(COMMIT, CHANGE_TOOL, "compact", path))
    assert compacted[1:4] == [FRAGMENTS + 1, 1, total + 5]
    cleaned = numbers_in(run(COMMIT, CHANGE_TOOL, "cleanup", path, 0, 0))
    assert cleaned[0] == 1 and cleaned[2] >= (2 * FRAGMENTS if own_files else 2)
    assert len(list((path / "data").iterdir())) == 1
    dataset = lance.dataset(str(path))
    dataset.validate()
    ids = [i for i in range(ROWS) if i != 4 or not own_files]
    assert dataset.to_table(columns=["id"])["id"].to_pylist() == ids * FRAGMENTS + list(range(100, 105))


def make(path, own_files):
    lance.write_dataset(rows_of(0, ROWS), str(path))
    add_fragments(path, FRAGMENTS - 1, own_files)
    return path


def test_100000_fragments_are_read_appended_to_compacted_and_cleaned_up(tmp_path):
    check_operations(make(tmp_path / "t.lance", False), False)


@pytest.mark.soak
def test_100000_fragments_with_files_and_deletions_of_their_own(tmp_path):
    check_operations(make(tmp_path / "t.lance", True), True)


def test_100000_fragments_through_a_server(tmp_path):
    with LakeServer(tmp_path / "data") as server:
        server.run("table", "create", "lab.t", "--column", "id:int64", "--column", "x:float64", "--column", "name:utf8")
        server.run("import", "lab.t", write_input(rows_of(0, ROWS), tmp_path))
        (path,) = (tmp_path / "data" / "tables").glob("lab/*.lance")
        add_fragments(path, FRAGMENTS - 1, True)
        for query, answer in (("count(*) AS n, sum(id) AS s", {"n": FRAGMENTS * ROWS, "s": 45 * FRAGMENTS}),
                              ("count(*) FILTER (WHERE id = 3 AND x > 0) AS n", {"n": FRAGMENTS})):
            assert json.loads(server.run("sql", f"SELECT {query} FROM lab.t", "--json").stdout) == [answer]
        server.run("import", "lab.t", write_input(rows_of(100, 1), tmp_path))
        server.run("table", "compact", "lab.t")
        assert json.loads(server.run("sql", "SELECT count(*) AS n FROM lab.t WHERE id = 100", "--json").stdout) == [{"n": 1}]
        if not LakeServer.is_sanitized():
            peak = server.status("VmHWM") / 1024
            print(f"{peak:.0f} MiB of {SERVER}: lake up")
            assert peak < SERVER
