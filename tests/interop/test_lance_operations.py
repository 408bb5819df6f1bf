"""Operations on Lance tables against pylance, the reference: each version that Lake makes is read
by pylance, which then operates on it in turn, and Lake reads what came of it.
"""

import os
import signal
import subprocess

import lance
import pyarrow as pa
import pytest
from test_lance_tables import BUILD, assert_agree, lake_read, lake_write, run_tool, sample, write_input

CHANGE_TOOL = BUILD / "tests" / "lance_change_tool"


@pytest.fixture(params=["2.1", "2.2"])
def storage(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.lance"


# ---- overwrite ----------------------------------------------------------------------------------


def lake_overwrite(table, path, storage="2.2"):
    done = run_tool(
        "write", path, write_input(table, path.parent), "--overwrite", "--storage", storage
    )
    assert done.returncode == 0, done.stderr.decode()
    return int(done.stdout.split()[-1])


def test_an_overwrite_is_the_next_version_with_its_own_schema(path, storage):
    lake_write(sample(0, 100), path, storage)
    lance.dataset(str(path)).create_scalar_index("id", "BTREE")
    other = pa.table({"a": pa.array(["x", None, "z"]), "b": pa.array([1.0, 2.0, 3.0])})
    assert lake_overwrite(other, path, storage) == 3
    assert assert_agree(path).to_pylist() == other.to_pylist()
    assert assert_agree(path, 1).to_pylist() == sample(0, 100).to_pylist()
    dataset = lance.dataset(str(path))
    assert dataset.list_indices() == []
    assert type(dataset.read_transaction(3).operation).__name__ == "Overwrite"
    assert [f.fragment_id for f in dataset.get_fragments()] == [1]
    lance.write_dataset(other, str(path), mode="append")
    dataset = lance.dataset(str(path))
    dataset.delete("b = 2.0")
    dataset.optimize.compact_files()
    assert assert_agree(path)["a"].to_pylist() == ["x", "z", "x", "z"]


def test_an_overwrite_may_change_the_storage_version_and_keeps_the_configuration(path):
    lance.write_dataset(sample(0, 10), str(path), data_storage_version="2.1")
    lance.dataset(str(path)).update_config({"robot": "fetch"})
    lake_overwrite(sample(5, 7), path, "2.2")
    dataset = lance.dataset(str(path))
    assert dataset.data_storage_version == "2.2" and dataset.config() == {"robot": "fetch"}
    assert assert_agree(path).num_rows == 7


def test_an_overwrite_of_nothing_creates(path):
    assert lake_overwrite(sample(0, 3), path) == 1
    assert assert_agree(path).num_rows == 3


def test_row_ids_go_on_over_an_overwrite(path):
    lance.write_dataset(sample(0, 20), str(path), enable_stable_row_ids=True)
    lake_overwrite(sample(20, 5), path)
    rows = lance.dataset(str(path)).to_table(with_row_id=True)
    assert rows["_rowid"].to_pylist() == list(range(20, 25))


def test_a_stale_append_of_pylance_does_not_go_on_top_of_an_overwrite(path):
    lake_write(sample(0, 10), path)
    stale = lance.dataset(str(path))
    lake_overwrite(sample(0, 5), path)
    with pytest.raises(Exception, match="(?i)conflict|incompatible"):
        lance.write_dataset(sample(10, 1), stale, mode="append")
    assert lake_read(path).num_rows == 5


# ---- delete -------------------------------------------------------------------------------------


def run_change(command, path, *arguments, env=None):
    return subprocess.run(
        [CHANGE_TOOL, command, str(path), *map(str, arguments)],
        capture_output=True,
        timeout=120,
        env={**os.environ, **(env or {})},
    )


def lake_change(command, path, *arguments):
    """What the tool prints, as numbers: version, rows…"""
    done = run_change(command, path, *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return [int(word) for word in done.stdout.split() if word.isdigit()]


def deletion_files(path):
    return sorted(p.suffix for p in (path / "_deletions").glob("*")) if (path / "_deletions").exists() else []


def test_deletes_are_read_by_pylance_which_deletes_in_turn(path, storage):
    lake_write(sample(0, 300), path, storage)
    lake_write(sample(300, 300), path, storage, append=True)
    model = sample(0, 600).to_pylist()

    def check():
        assert assert_agree(path).to_pylist() == model

    assert lake_change("delete", path, "--where", "id", "<", 10) == [3, 10]
    model = [r for r in model if r["id"] >= 10]
    check()
    assert lake_change("delete", path, "--where", "id", ">", 590, "--where", "x", "null", 0) == [4, 1]
    model = [r for r in model if not (r["id"] > 590 and r["x"] is None)]
    check()
    lance.dataset(str(path)).delete("id % 7 = 1")
    model = [r for r in model if r["id"] % 7 != 1]
    check()
    rows = sum(r["name"] == "row 3" for r in model)
    assert lake_change("delete", path, "--where", "name", "=", "row 3") == [6, rows]
    model = [r for r in model if r["name"] != "row 3"]
    check()
    assert lake_change("delete", path, "--where", "x", ">=", 120.5)[0] == 7
    model = [r for r in model if not (r["x"] is not None and r["x"] >= 120.5)]
    check()
    dataset = lance.dataset(str(path))
    assert type(dataset.read_transaction(7).operation).__name__ == "Delete"
    dataset.validate()
    dataset.optimize.compact_files()
    check()
    for entry in lance.dataset(str(path)).versions():
        assert_agree(path, entry["version"])


def test_few_deleted_rows_are_an_array_and_many_a_bitmap(path):
    lake_write(sample(0, 20000), path)
    lake_change("delete", path, "--where", "id", "<", 5000)
    assert deletion_files(path) == [".arrow"]
    assert assert_agree(path).num_rows == 15000
    lake_change("delete", path, "--where", "id", "<", 5001)
    assert deletion_files(path) == [".arrow", ".bin"]
    assert assert_agree(path)["id"].to_pylist() == list(range(5001, 20000))
    lance.dataset(str(path)).delete("id = 19999")
    lake_change("delete", path, "--where", "id", "=", 19998)
    assert assert_agree(path)["id"].to_pylist() == list(range(5001, 19998))


def test_a_fragment_without_rows_goes_and_so_do_all(path):
    for start in (0, 100, 200):
        lake_write(sample(start, 100), path, append=start > 0)
    assert lake_change("delete", path, "--where", "id", ">=", 100, "--where", "id", "<", 200) == [4, 100]
    assert [f.fragment_id for f in lance.dataset(str(path)).get_fragments()] == [0, 2]
    assert deletion_files(path) == []
    assert_agree(path)
    assert lake_change("delete", path) == [5, 200]
    assert lance.dataset(str(path)).count_rows() == 0
    lake_write(sample(7, 1), path, append=True)
    assert [f.fragment_id for f in lance.dataset(str(path)).get_fragments()] == [3]
    assert assert_agree(path).num_rows == 1


def test_a_delete_of_nothing_makes_no_version(path):
    lake_write(sample(0, 10), path)
    assert lake_change("delete", path, "--where", "id", ">", 100) == [1, 0]
    assert lance.dataset(str(path)).version == 1


def test_rows_are_deleted_by_address(path):
    lake_write(sample(0, 10), path)
    lake_write(sample(10, 10), path, append=True)
    second = 1 << 32
    assert lake_change("delete-rows", path, 3, second + 9, 3, second) == [3, 3]
    assert lake_change("delete-rows", path, 3, 4) == [4, 1]
    assert assert_agree(path)["id"].to_pylist() == [0, 1, 2, *range(5, 10), *range(11, 19)]
    for address in (second + 10, 2 << 32):
        done = run_change("delete-rows", path, address)
        assert done.returncode == 1 and b"OUT_OF_RANGE" in done.stderr


def test_deletes_keep_stable_row_ids_and_indices(path):
    lance.write_dataset(sample(0, 100), str(path), enable_stable_row_ids=True)
    lance.dataset(str(path)).create_scalar_index("id", "BTREE")
    lake_change("delete", path, "--where", "id", "<", 20)
    dataset = lance.dataset(str(path))
    rows = dataset.to_table(with_row_id=True)
    assert rows["_rowid"].to_pylist() == rows["id"].to_pylist() == list(range(20, 100))
    assert dataset.to_table(filter="id = 10").num_rows == 0
    assert dataset.to_table(filter="id = 30").num_rows == 1


def test_a_stale_delete_of_other_rows_is_merged_and_of_the_same_rows_refused(path):
    lake_write(sample(0, 100), path)
    lance.dataset(str(path)).delete("id < 10")
    lake_write(sample(100, 5), path, append=True)
    lake_change("delete", path, "--where", "id", ">", 97, "--where", "id", "<", 102)
    assert lake_change("delete", path, "--where", "id", "=", 50, "--base", 1) == [5, 1]
    kept = [*range(10, 50), *range(51, 98), 102, 103, 104]
    assert assert_agree(path)["id"].to_pylist() == kept
    done = run_change("delete", path, "--where", "id", "<", 11, "--base", 1)
    assert done.returncode == 1 and b"ABORTED" in done.stderr
    assert assert_agree(path)["id"].to_pylist() == kept
    # rows 10 to 97 of the first fragment are all that is left of it
    lake_change("delete", path, "--where", "id", "<", 60)
    assert lake_change("delete", path, "--where", "id", ">=", 60, "--where", "id", "<=", 97, "--base", 5)[1] == 38
    assert assert_agree(path)["id"].to_pylist() == [102, 103, 104]
    assert [f.fragment_id for f in lance.dataset(str(path)).get_fragments()] == [1]


def test_a_stale_delete_of_pylance_is_merged_with_ours(path):
    lake_write(sample(0, 100), path)
    stale = lance.dataset(str(path))
    lake_change("delete", path, "--where", "id", "<", 10)
    stale.delete("id > 90")
    assert assert_agree(path)["id"].to_pylist() == list(range(10, 91))


def test_a_stale_delete_after_a_compaction_or_an_update_of_its_rows_is_refused(path):
    for start in (0, 50):
        lake_write(sample(start, 50), path, append=start > 0)
    lance.dataset(str(path)).update({"x": "0.0"}, where="id = 5")
    done = run_change("delete", path, "--where", "id", "<", 7, "--base", 2)
    assert done.returncode == 1 and b"ABORTED" in done.stderr
    assert lake_change("delete", path, "--where", "id", "=", 7, "--base", 2) == [4, 1]
    lance.dataset(str(path)).optimize.compact_files()
    done = run_change("delete", path, "--where", "id", "=", 9, "--base", 4)
    assert done.returncode == 1 and b"ABORTED" in done.stderr
    assert sorted(assert_agree(path)["id"].to_pylist()) == [i for i in range(100) if i != 7]


# ---- restore ------------------------------------------------------------------------------------


def test_a_restored_version_is_the_newest_and_goes_on(path, storage):
    lake_write(sample(0, 50), path, storage)
    lake_write(sample(50, 50), path, storage, append=True)
    lance.dataset(str(path)).delete("id < 30")
    lake_overwrite(pa.table({"other": [1, 2]}), path, storage)
    assert lake_change("restore", path, 2) == [5]
    assert assert_agree(path).to_pylist() == sample(0, 100).to_pylist()
    assert type(lance.dataset(str(path)).read_transaction(5).operation).__name__ == "Restore"
    lake_write(sample(100, 1), path, storage, append=True)
    assert [f.fragment_id for f in lance.dataset(str(path)).get_fragments()] == [0, 1, 3]
    lance.dataset(str(path), version=4).restore()
    assert lake_change("restore", path, 3) == [8]
    assert assert_agree(path)["id"].to_pylist() == list(range(30, 100))
    done = run_change("restore", path, 77)
    assert done.returncode == 1 and b"NOT_FOUND" in done.stderr


def test_row_ids_are_not_given_twice_after_a_restore(path):
    lance.write_dataset(sample(0, 10), str(path), enable_stable_row_ids=True)
    lake_write(sample(10, 10), path, append=True)
    lake_change("restore", path, 1)
    lake_write(sample(20, 5), path, append=True)
    rows = lance.dataset(str(path)).to_table(with_row_id=True)
    assert rows["_rowid"].to_pylist() == [*range(10), *range(20, 25)]
    assert rows["id"].to_pylist() == rows["_rowid"].to_pylist()


# ---- columns ------------------------------------------------------------------------------------


def test_columns_are_dropped_renamed_and_added(path, storage):
    lake_write(sample(0, 40), path, storage)
    uri = str(path)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).create_scalar_index("name", "BTREE")
    assert lake_change("drop", path, "name") == [4]
    dataset = lance.dataset(uri)
    assert [i.name for i in dataset.describe_indices()] == ["id_idx"]
    assert dataset.to_table(filter="id = 7").num_rows == 1
    assert_agree(path)
    assert lake_change("rename", path, "s", "state") == [5]
    assert assert_agree(path).column_names == ["id", "x", "tags", "pose", "state"]
    assert lake_change("add", path, "note", "utf8") == [6]
    assert lake_change("add", path, "box", "struct<a: int32, b: list<float>>") == [7]
    rows = assert_agree(path)
    assert rows["note"].to_pylist() == rows["box"].to_pylist() == [None] * 40
    more = rows.slice(0, 1).set_column(5, "note", pa.array(["hello"])).cast(rows.schema)
    lake_write(more, path, storage, append=True)
    assert assert_agree(path)["note"].to_pylist()[-1] == "hello"
    lance.write_dataset(more, uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.add_columns({"twice": "id * 2"})
    dataset.drop_columns(["x"])
    lance.dataset(uri).optimize.compact_files()
    rows = assert_agree(path)
    assert rows.column_names == ["id", "tags", "pose", "state", "note", "box", "twice"]
    assert rows.num_rows == 42
    lake_change("drop", path, "twice")
    lake_change("add", path, "twice", "int64")
    assert set(assert_agree(path)["twice"].to_pylist()) == {None}
    for entry in lance.dataset(uri).versions():
        assert_agree(path, entry["version"])


def test_changes_of_columns_that_cannot_be_are_refused(path):
    lake_write(pa.table({"a": [1], "b": [2]}), path)
    for words, code in (
        (("drop", "c"), b"NOT_FOUND"),
        (("rename", "c", "d"), b"NOT_FOUND"),
        (("rename", "a", "b"), b"ALREADY_EXISTS"),
        (("rename", "a", "x.y"), b"INVALID_ARGUMENT"),
        (("add", "a", "int32"), b"ALREADY_EXISTS"),
        (("add", "c", "int32!"), b"INVALID_ARGUMENT"),
    ):
        done = run_change(words[0], path, *words[1:])
        assert done.returncode == 1 and code in done.stderr, words
    lake_change("drop", path, "a")
    done = run_change("drop", path, "b")
    assert done.returncode == 1 and b"FAILED_PRECONDITION" in done.stderr
    assert lance.dataset(str(path)).version == 2


def test_stale_changes_of_columns_meet_the_matrix(path):
    lake_write(sample(0, 10), path)
    stale = lance.dataset(str(path))
    lake_write(sample(10, 10), path, append=True)
    assert lake_change("drop", path, "tags", "--base", 1) == [3]  # over an append
    assert assert_agree(path).num_rows == 20
    for words in (("drop", "x"), ("add", "y", "int32")):  # over a project
        done = run_change(*words[:1], path, *words[1:], "--base", 2)
        assert done.returncode == 1 and b"ABORTED" in done.stderr
    done = run_change("add", path, "y", "int32", "--base", 1)  # over an append
    assert done.returncode == 1 and b"ABORTED" in done.stderr
    lance.write_dataset(sample(20, 5).drop_columns(["tags"]), stale.uri, mode="append")
    stale.delete("id = 3")  # pylance over a project of ours
    assert assert_agree(path)["id"].to_pylist() == [0, 1, 2, *range(4, 25)]


# ---- tags ---------------------------------------------------------------------------------------


def test_tags_are_those_of_pylance(path):
    for start in range(3):
        lake_write(sample(start, 1), path, append=start > 0)
    lance.dataset(str(path)).tags.create("theirs", 1)
    assert run_change("tag", path, "ours", 2).returncode == 0
    assert run_change("tags", path).stdout.decode().split("\n")[:-1] == ["ours 2", "theirs 1"]
    tags = lance.dataset(str(path)).tags.list()
    assert {name: tag["version"] for name, tag in tags.items()} == {"ours": 2, "theirs": 1}
    assert lance.dataset(str(path), version="ours").count_rows() == 2
    assert run_change("retag", path, "theirs", 3).returncode == 0
    assert lance.dataset(str(path), version="theirs").count_rows() == 3
    lance.dataset(str(path)).tags.update("ours", 1)
    assert run_change("untag", path, "theirs").returncode == 0
    assert run_change("tags", path).stdout == b"ours 1\n"
    for words, code in (
        (("tag", "ours", 2), b"ALREADY_EXISTS"),
        (("tag", "new", 9), b"NOT_FOUND"),
        (("tag", "a/b", 1), b"INVALID_ARGUMENT"),
        (("tag", "..", 1), b"INVALID_ARGUMENT"),
        (("retag", "gone", 1), b"NOT_FOUND"),
        (("untag", "gone"), b"NOT_FOUND"),
    ):
        done = run_change(words[0], path, *words[1:])
        assert done.returncode == 1 and code in done.stderr, words


# ---- compaction ---------------------------------------------------------------------------------


def fragments_of(path):
    return [(f.fragment_id, f.count_rows()) for f in lance.dataset(str(path)).get_fragments()]


def test_small_fragments_become_one_in_the_order_of_their_rows(path, storage):
    for i in range(5):
        lake_write(sample(i * 100, 100), path, storage, append=i > 0)
    before = assert_agree(path).to_pylist()
    assert lake_change("compact", path) == [6, 5, 1, 500, 0]
    assert fragments_of(path) == [(5, 500)]
    assert assert_agree(path).to_pylist() == before
    dataset = lance.dataset(str(path))
    assert type(dataset.read_transaction(6).operation).__name__ == "Rewrite"
    dataset.validate()
    assert lake_change("compact", path) == [6, 0, 0, 0, 0]
    dataset.delete("id < 300")
    lance.write_dataset(sample(500, 10), str(path), mode="append")
    assert lake_change("compact", path)[1:] == [2, 1, 210, 300]
    assert assert_agree(path)["id"].to_pylist() == list(range(300, 510))
    assert not lance.dataset(str(path)).get_fragments()[0].metadata.deletion_file
    lance.dataset(str(path)).delete("id = 400")
    lance.write_dataset(sample(510, 10), str(path), mode="append")
    lance.dataset(str(path)).optimize.compact_files()
    assert_agree(path)
    for entry in lance.dataset(str(path)).versions():
        assert_agree(path, entry["version"])


def test_large_fragments_stay_where_they_are(path):
    sizes = [10, 20, 500, 30, 40, 600, 700, 5]
    start = 0
    for size in sizes:
        lake_write(sample(start, size), path, append=start > 0)
        start += size
    lake_change("delete", path, "--where", "id", ">=", 600, "--where", "id", "<", 640)  # 6 % of 600
    lake_change("delete", path, "--where", "id", ">=", 1300, "--where", "id", "<", 1400)  # 14 % of 700
    before = assert_agree(path).to_pylist()
    assert lake_change("compact", path, 400, 10)[1:] == [5, 3, 700, 100]
    assert fragments_of(path) == [(2, 500), (5, 560), (7, 5), (8, 30), (9, 70), (10, 600)]
    assert assert_agree(path).sort_by("id").to_pylist() == before
    assert lake_change("compact", path, 400, 10)[1:] == [3, 1, 105, 0]  # neighbours now
    assert lake_change("compact", path, 400, 10)[1:] == [0, 0, 0, 0]


def test_compaction_writes_what_columns_have_become(path, storage):
    lake_write(sample(0, 50), path, storage)
    dataset = lance.dataset(str(path))
    dataset.add_columns({"y": "id * 2"})
    dataset.drop_columns(["tags"])
    lake_change("rename", path, "x", "z")
    lake_change("add", path, "note", "struct<a: utf8>")
    lake_write(lake_read(path).slice(0, 7), path, storage, append=True)
    before = assert_agree(path)
    lake_change("compact", path)
    after = assert_agree(path)
    assert after.schema == before.schema and after.to_pylist() == before.to_pylist()
    assert [len(f.data_files()) for f in lance.dataset(str(path)).get_fragments()] == [1]


def test_indices_do_not_cover_what_was_compacted(path):
    for i in range(4):
        lake_write(sample(i * 100, 100), path, append=i > 0)
    dataset = lance.dataset(str(path))
    dataset.create_scalar_index("id", "BTREE")
    lake_write(sample(400, 100), path, append=True)
    lake_change("delete", path, "--where", "id", "<", 50)
    lake_change("compact", path, 150)  # 0+1+2, 3+4
    dataset = lance.dataset(str(path))
    assert [count for _, count in fragments_of(path)] == [100, 150, 200]
    index = dataset.stats.index_stats("id_idx") if hasattr(dataset, "stats") else dataset.index_statistics("id_idx")
    assert index["num_indexed_rows"] == 0 and index["num_unindexed_rows"] == 450
    for i in (0, 49, 50, 99, 100, 250, 399, 400, 499):
        assert dataset.to_table(filter=f"id = {i}").num_rows == (i >= 50), i
    dataset.optimize.optimize_indices()
    dataset = lance.dataset(str(path))
    for i in (49, 50, 99, 100, 250, 399, 400, 499):
        assert dataset.to_table(filter=f"id = {i}").num_rows == (i >= 50), i
    lake_write(sample(500, 10), path, append=True)
    lance.dataset(str(path)).optimize.compact_files()
    assert_agree(path)


def test_stable_row_ids_survive_compaction(path):
    lance.write_dataset(sample(0, 100), str(path), enable_stable_row_ids=True)
    lake_write(sample(100, 100), path, append=True)
    dataset = lance.dataset(str(path))
    dataset.update({"x": "7.0"}, where="id = 60 or id = 61")
    dataset.delete("id % 10 = 3")
    dataset.create_scalar_index("id", "BTREE")
    lake_change("delete", path, "--where", "id", "=", 8)
    columns = ["id", "x", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    before = lance.dataset(str(path)).to_table(columns=columns)
    lake_change("compact", path)
    dataset = lance.dataset(str(path))
    after = dataset.to_table(columns=columns)
    assert after.to_pylist() == before.to_pylist()
    assert after["_rowid"].to_pylist() == after["id"].to_pylist()
    for i in (8, 9, 60, 63, 199):
        assert dataset.to_table(filter=f"id = {i}").num_rows == (i % 10 != 3 and i != 8), i
    lake_write(sample(200, 5), path, append=True)
    dataset = lance.dataset(str(path))
    dataset.delete("id = 100")
    dataset.optimize.compact_files()
    rows = lance.dataset(str(path)).to_table(with_row_id=True)
    assert rows["_rowid"].to_pylist() == rows["id"].to_pylist()
    assert_agree(path)


def test_a_stale_compaction_meets_the_matrix(path):
    for i in range(3):
        lake_write(sample(i * 10, 10), path, append=i > 0)
    lake_write(sample(30, 10), path, append=True)
    assert lake_change("compact", path, "--base", 3)[0] == 5  # over an append
    assert fragments_of(path) == [(3, 10), (4, 30)]
    assert sorted(assert_agree(path)["id"].to_pylist()) == list(range(40))
    lake_change("delete", path, "--where", "id", "=", 35)
    done = run_change("compact", path, "--base", 5)  # over a delete in what it rewrites
    assert done.returncode == 1 and b"ABORTED" in done.stderr
    stale = lance.dataset(str(path))
    lake_change("compact", path)
    stale.delete("id = 3")  # it does it again from the newest version
    assert sorted(assert_agree(path)["id"].to_pylist()) == [
        i for i in range(40) if i not in (3, 35)]


# ---- update -------------------------------------------------------------------------------------


def numbers(start, count):
    ids = range(start, start + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(ids, pa.int64()), "t": [f"row {i}" for i in ids]})


def values_of(path):
    return {row["id"]: row["v"] for row in assert_agree(path).to_pylist()}


def test_updated_rows_are_read_by_pylance_which_updates_in_turn(path, storage):
    for start in (0, 100):
        lake_write(numbers(start, 100), path, storage, append=start > 0)
    uri = str(path)
    lance.dataset(uri).create_scalar_index("v", "BTREE")
    model = {i: i for i in range(200)}
    assert lake_change("update", path, "v", -1, "--where", "id", ">=", 90, "--where", "id", "<", 110) == [4, 20]
    model |= {i: -1 for i in range(90, 110)}
    assert values_of(path) == model
    dataset = lance.dataset(uri)
    assert type(dataset.read_transaction(4).operation).__name__ == "Update"
    assert dataset.to_table(filter="v = -1").num_rows == 20
    assert dataset.to_table(filter="v = 95").num_rows == 0
    dataset.update({"v": "v + 1000"}, where="id < 5 or id = 95")
    model |= {**{i: i + 1000 for i in range(5)}, 95: 999}
    assert values_of(path) == model
    assert lake_change("update", path, "v", 7, "--where", "v", "=", 999) == [6, 1]
    model[95] = 7
    assert lake_change("update", path, "v", 8, "--where", "v", "=", 999) == [6, 0]
    assert lake_change("update", path, "v", 5, "--where", "id", "<", 100) == [7, 100]
    model |= {i: 5 for i in range(100)}
    assert values_of(path) == model
    lance.dataset(uri).optimize.optimize_indices()
    lance.dataset(uri).optimize.compact_files()
    assert values_of(path) == model
    assert lance.dataset(uri).to_table(filter="v = 5").num_rows == 100
    lance.dataset(uri).validate()


def test_updated_rows_keep_their_stable_ids(path):
    lance.write_dataset(numbers(0, 50), str(path), enable_stable_row_ids=True)
    lake_write(numbers(50, 50), path, append=True)
    lake_change("update", path, "v", 1, "--where", "id", ">", 40, "--where", "id", "<=", 60)
    lake_write(numbers(100, 5), path, append=True)
    lake_change("update", path, "v", 2, "--where", "id", "=", 60)
    columns = ["id", "v", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = {r["id"]: r for r in lance.dataset(str(path)).to_table(columns=columns).to_pylist()}
    assert len(rows) == 105 and all(r["_rowid"] == i for i, r in rows.items())
    assert [rows[i]["_row_created_at_version"] for i in (0, 45, 55, 60, 104)] == [1, 1, 2, 2, 4]
    assert [rows[i]["_row_last_updated_at_version"] for i in (0, 45, 55, 60, 104)] == [1, 3, 3, 5, 4]
    lance.dataset(str(path)).update({"v": "3"}, where="id = 60 or id = 3")
    lake_change("compact", path)
    rows = lance.dataset(str(path)).to_table(columns=columns).to_pylist()
    assert all(r["_rowid"] == r["id"] for r in rows) and len(rows) == 105
    assert_agree(path)


def test_a_stale_update_of_other_rows_is_merged_and_of_the_same_rows_refused(path):
    lake_write(numbers(0, 50), path)
    lance.dataset(str(path)).update({"v": "-1"}, where="id < 10")
    assert lake_change("update", path, "v", -2, "--where", "id", "=", 20, "--base", 1) == [3, 1]
    assert lake_change("delete", path, "--where", "id", "=", 30, "--base", 1) == [4, 1]
    for command in (("update", path, "v", -3), ("delete", path)):
        done = run_change(*command, "--where", "id", "=", 20, "--base", 1)
        assert done.returncode == 1 and b"ABORTED" in done.stderr
    assert values_of(path) == {i: -1 if i < 10 else -2 if i == 20 else i for i in range(50) if i != 30}


# ---- merge-insert -------------------------------------------------------------------------------


def keyed(pairs):
    return pa.table(
        {
            "id": pa.array([k for k, _ in pairs], pa.int64()),
            "v": pa.array([v for _, v in pairs], pa.int64()),
            "t": pa.array([None if k is None else f"row {k}" for k, _ in pairs], pa.string()),
        }
    )


def lake_merge(path, key, table, *words, base=None):
    source = write_input(table, path.parent, "merge")
    return run_change("merge", path, key, source, *words, *(["--base", base] if base else []))


def numbers_in(done):
    assert done.returncode == 0, done.stderr.decode()
    return [int(word) for word in done.stdout.split() if word.isdigit()]


@pytest.mark.parametrize("key", ["id", "t"])
def test_a_merge_updates_what_is_there_and_inserts_what_is_not(path, key, storage):
    for start in (0, 50):
        lake_write(numbers(start, 50), path, storage, append=start > 0)
    lake_change("delete", path, "--where", "id", "=", 7)
    model = {i: i for i in range(100) if i != 7}
    batch = keyed([(200, 1), (49, 2), (50, 3), (7, 4), (99, 5)])
    assert numbers_in(lake_merge(path, key, batch)) == [4, 3, 2]
    model |= {200: 1, 49: 2, 50: 3, 7: 4, 99: 5}
    assert values_of(path) == model and lance.dataset(str(path)).count_rows() == 101
    assert type(lance.dataset(str(path)).read_transaction(4).operation).__name__ == "Update"
    assert numbers_in(lake_merge(path, key, keyed([(49, 9), (300, 9)]), "update")) == [5, 1, 0]
    assert numbers_in(lake_merge(path, key, keyed([(49, 10), (300, 10)]), "insert")) == [6, 0, 1]
    assert numbers_in(lake_merge(path, key, keyed([(49, 11)]), "insert")) == [6, 0, 0]
    model |= {49: 9, 300: 10}
    assert values_of(path) == model
    merge = lance.dataset(str(path)).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(keyed([(300, 20), (301, 21)]))
    assert values_of(path) == model | {300: 20, 301: 21}
    lance.dataset(str(path)).validate()


def test_merged_rows_keep_their_stable_ids_and_new_ones_get_theirs(path):
    lance.write_dataset(numbers(0, 20), str(path), enable_stable_row_ids=True)
    assert numbers_in(lake_merge(path, "id", keyed([(20, 1), (5, 2), (21, 3), (3, 4)]))) == [2, 2, 2]
    columns = ["id", "v", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = {r["id"]: r for r in lance.dataset(str(path)).to_table(columns=columns).to_pylist()}
    assert len(rows) == 22 and all(r["_rowid"] == i for i, r in rows.items())
    assert [rows[i]["_row_created_at_version"] for i in (0, 5, 21)] == [1, 1, 2]
    assert [rows[i]["_row_last_updated_at_version"] for i in (0, 5, 21)] == [1, 2, 2]


def test_nulls_are_never_the_same_key_and_a_key_comes_once(path):
    lake_write(keyed([(1, 1), (None, 2)]), path)
    assert numbers_in(lake_merge(path, "id", keyed([(None, 3), (None, 4), (1, 5)]))) == [2, 1, 2]
    assert sorted(assert_agree(path)["v"].to_pylist()) == [2, 3, 4, 5]
    done = lake_merge(path, "id", keyed([(1, 1), (2, 2), (1, 3)]))
    assert done.returncode == 1 and b"INVALID_ARGUMENT" in done.stderr


def test_case_L09_upserts_of_the_same_keys_at_once_leave_one_row_a_key(path):
    lake_write(keyed([(0, 0)]), path)
    done = lake_merge(path, "id", keyed([(0, 1), (1, 1)]))
    assert done.returncode == 0
    stale = lake_merge(path, "id", keyed([(0, 2), (1, 2)]), base=1)
    assert stale.returncode == 1 and b"ABORTED" in stale.stderr
    lake_write(keyed([(5, 5)]), path, append=True)
    stale = lake_merge(path, "id", keyed([(5, 6)]), base=2)  # over an append of the key
    assert stale.returncode == 1 and b"ABORTED" in stale.stderr
    writers = [
        subprocess.Popen(
            ["sh", "-c", f"for i in 1 2 3 4 5 6 7 8; do {CHANGE_TOOL} merge {path} id {source}; done"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for source in (
            write_input(keyed([(i, w) for i in range(6)] + [(100 + w, w)]), path.parent, f"w{w}") for w in range(3)
        )
    ]
    failures = b"".join(writer.communicate(timeout=120)[1] for writer in writers)
    assert all(line.startswith(b"ABORTED") for line in failures.splitlines())
    ids = assert_agree(path)["id"].to_pylist()
    assert sorted(ids) == sorted(set(ids)) and set(ids) <= {0, 1, 2, 3, 4, 5, 100, 101, 102}


# ---- branches -----------------------------------------------------------------------------------


def test_branches_are_those_of_pylance(path):
    lake_write(sample(0, 30), path)
    lake_change("delete", path, "--where", "id", "<", 5)
    lance.dataset(str(path)).create_scalar_index("id", "BTREE")
    done = run_change("branch", path, "dev/x", 0)
    assert done.returncode == 0, done.stderr
    lake_write(sample(30, 5), path, append=True)
    dataset = lance.dataset(str(path))
    assert dataset.branches.list()["dev/x"]["parent_version"] == 3
    branch = dataset.checkout_version(("dev/x", None))
    assert branch.version == 3 and branch.to_table()["id"].to_pylist() == list(range(5, 30))
    assert branch.to_table(filter="id = 20").num_rows == 1
    tree = path / "tree" / "dev" / "x"
    lance.write_dataset(sample(50, 5), str(tree), mode="append")
    assert run_change("branch", path, "next", 0, "dev/x").returncode == 0
    lake_write(sample(60, 1), tree, append=True)
    branch = lance.dataset(str(path)).checkout_version(("dev/x", None))
    assert branch.to_table()["id"].to_pylist() == [*range(5, 30), *range(50, 55), 60]
    following = lance.dataset(str(path)).checkout_version(("next", None))
    assert following.to_table()["id"].to_pylist() == [*range(5, 30), *range(50, 55)]
    read = run_tool("cat", path, "--branch", "dev/x")
    assert pa.ipc.open_stream(read.stdout).read_all()["id"].to_pylist() == [*range(5, 30), *range(50, 55), 60]
    assert assert_agree(path)["id"].to_pylist() == list(range(5, 35))
    for words, code in ((("main", 1), b"INVALID_ARGUMENT"), (("dev/x", 1), b"ALREADY_EXISTS"), (("y", 9), b"NOT_FOUND")):
        done = run_change("branch", path, *words)
        assert done.returncode == 1 and code in done.stderr, words
    done = run_change("branch", path, "late", 1, env={"LAKE_FAULT": "lance.branch.after_manifest:1:kill"})
    assert done.returncode == -signal.SIGKILL and "late" not in dataset.branches.list()
    assert run_change("branch", path, "late", 1).returncode == 0
    assert lance.dataset(str(path)).checkout_version(("late", None)).count_rows() == 30
