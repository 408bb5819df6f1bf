"""Faults that users of comparable systems reported, as tests of Lance tables that Lake changes: the cases
that no other file here has. What a right answer is says pylance, or the numbers themselves."""

import json
import subprocess

import lance
import pyarrow as pa
import pytest
from lake_server import LAKE, LakeServer, clean_environment
from test_lance_cleanup import DAY_MS, age, files_of
from test_lance_operations import lake_change, lake_merge, keyed, numbers, run_change, values_of
from test_lance_tables import assert_agree, lake_write, sample


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.lance"


def lake(*arguments):
    done = subprocess.run([LAKE, *map(str, arguments)], capture_output=True, timeout=120, env=clean_environment(None))
    assert done.returncode == 0, done.stderr.decode()
    return pa.ipc.open_stream(done.stdout).read_all()


def test_case_L07_files_of_an_aborted_change_are_listed_and_collected(path):
    lake_write(sample(0, 100), path)
    before = files_of(path)
    done = run_change("delete", path, "--where", "id", "<", 5, env={"LAKE_FAULT": "lance.delete.after_vectors:1:kill"})
    assert done.returncode < 0
    done = run_change("update", path, "x", 1, "--where", "id", "<", 5, env={"LAKE_FAULT": "lance.update.after_data:1:kill"})
    left = files_of(path) - before
    assert left and {name.split("/")[0] for name in left} <= {"_deletions", "data", "_transactions"}
    assert lake_change("cleanup", path, 0, 7 * DAY_MS)[2:] == [0, 0, len(left)]  # seen, and still young
    age(path, *left)
    assert lake_change("cleanup", path, 0, 7 * DAY_MS, 0, "dry")[3] == len(left)
    assert files_of(path) == before | left
    assert lake_change("cleanup", path, 0, 7 * DAY_MS)[3] == len(left)
    assert files_of(path) == before
    assert assert_agree(path).to_pylist() == sample(0, 100).to_pylist()


@pytest.mark.parametrize("first, second", [(5, 6000), (6000, 5)])
def test_case_L11_deletes_of_one_row_conflict_across_kinds_of_vectors(path, first, second):
    """Few deleted rows are an Arrow array, many a bitmap."""
    lake_write(sample(0, 9000), path)
    lake_change("delete", path, "--where", "id", "<", first)
    done = run_change("delete", path, "--where", "id", "<", second, "--base", 1)
    assert done.returncode == 1 and done.stderr.startswith(b"ABORTED")
    assert assert_agree(path)["id"].to_pylist() == list(range(first, 9000))
    top = 9000 - second  # other rows: both vectors together
    lake_change("delete", path, "--where", "id", ">=", max(top, first), "--base", 1)
    assert assert_agree(path)["id"].to_pylist() == list(range(first, max(top, first)))


def test_case_L13_a_change_is_based_on_the_version_that_was_read(path):
    lake_write(numbers(0, 20), path)
    lance.dataset(str(path)).update({"v": "-1"}, where="id = 7")
    done = run_change("update", path, "v", -2, "--where", "id", "=", 7, "--base", 1)
    assert done.returncode == 1 and done.stderr.startswith(b"ABORTED")
    assert lake_change("update", path, "v", -3, "--where", "id", "=", 8, "--base", 1)[0] == 3
    assert lance.dataset(str(path)).read_transaction(3).read_version == 1
    assert values_of(path) == {i: {7: -1, 8: -3}.get(i, i) for i in range(20)}


def test_case_L16_offsets_of_a_take_count_live_rows(path):
    for start in (0, 40, 80):
        lake_write(sample(start, 40), path, append=start > 0)
    lake_change("delete", path, "--where", "id", "=", 40)
    lake_change("delete", path, "--where", "id", ">=", 77, "--where", "id", "<=", 79)
    live = [i for i in range(120) if i not in (40, 77, 78, 79)]
    offsets = [39, 40, 41, 75, 76, 74, 77, 0, 115, 76, 38]
    got = lake("lance", "take", path, "--rows", ",".join(map(str, offsets)), "--format", "arrow")
    assert got["id"].to_pylist() == [live[i] for i in offsets]
    assert got["id"].to_pylist() == lance.dataset(str(path)).take(offsets)["id"].to_pylist()


def test_case_L18_lists_with_null_items_are_found_with_an_index_and_without(path):
    labels = pa.array([["foo", None], ["foo"], [None], [], None, ["bar", None, "foo"]] * 50, pa.list_(pa.string()))
    lake_write(pa.table({"id": pa.array(range(300)), "labels": labels}), path)
    right = [i for i in range(300) if labels[i].as_py() and "foo" in labels[i].as_py()]

    def found():
        dataset = lance.dataset(str(path))
        filtered = dataset.to_table(filter="array_has_any(labels, ['foo'])")
        ours = lake("lance", "cat", path, "--filter", "list_has_any(labels, ['foo'])", "--format", "arrow")
        assert sorted(filtered["id"].to_pylist()) == sorted(ours["id"].to_pylist())
        return sorted(ours["id"].to_pylist())

    assert found() == right
    lance.dataset(str(path)).create_scalar_index("labels", "LABEL_LIST")
    assert found() == right
    lake_change("delete", path, "--where", "id", "<", 10)
    lake_write(pa.table({"id": pa.array([300, 301]), "labels": labels.slice(0, 2)}), path, append=True)
    lake_change("compact", path)
    assert found() == [i for i in right if i >= 10] + [300, 301]


def test_case_L22_each_version_counts_what_it_had(path):
    lake_write(sample(0, 100), path)
    lake_change("delete", path, "--where", "id", "<", 50)
    lake_change("delete", path, "--where", "id", ">=", 80)
    for version, rows in ((1, 100), (2, 50), (3, 30)):
        dataset = lance.dataset(str(path), version=version)
        assert dataset.count_rows() == rows
        assert assert_agree(path, version).num_rows == rows


def test_case_L22_and_so_do_tables_that_servers_keep(tmp_path):
    with LakeServer(tmp_path / "data") as server:
        source = tmp_path / "rows.arrow"
        table = pa.table({"id": pa.array(range(100), pa.int64())})
        with pa.OSFile(str(source), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        server.run("table", "create", "lab.t", "--column", "id:int64")
        server.run("import", "lab.t", source)
        first = lance.dataset(str(server.data_dir / "tables" / "lab" / "t.lance")).version
        server.run("table", "delete", "lab.t", "--where", "id < 50")
        server.run("table", "delete", "lab.t", "--where", "id >= 80")
        for version, rows in ((first, 100), (first + 1, 50), (first + 2, 30)):
            dataset = lance.dataset(str(server.data_dir / "tables" / "lab" / "t.lance"), version=version)
            assert dataset.count_rows() == dataset.to_table().num_rows == rows
        assert json.loads(server.run("sql", "SELECT count(*) AS n FROM lab.t", "--json").stdout) == [{"n": 30}]


def test_case_L23_a_stale_base_is_told_the_same_whatever_changes(path):
    """Retriable and stable: ABORTED each time, for each operation; redone from the newest it succeeds."""
    for start in (0, 10):
        lake_write(numbers(start, 10), path, append=start > 0)
    lake_change("update", path, "v", -1, "--where", "id", "<", 9)
    for _ in range(3):
        stale = [
            run_change("update", path, "v", -2, "--where", "id", "=", 3, "--base", 2),
            run_change("delete", path, "--where", "id", "=", 3, "--base", 2),
            run_change("compact", path, 1000, 1, "--base", 2),
            lake_merge(path, "id", keyed([(3, -3)]), base=2),
        ]
        assert {(done.returncode, done.stderr.split(b":")[0]) for done in stale} == {(1, b"ABORTED")}
    assert values_of(path) == {i: -1 if i < 9 else i for i in range(20)}
    assert lake_change("update", path, "v", -2, "--where", "id", "=", 3) == [4, 1]
