"""Restores, tags, histories and differences of managed tables through Query and Metasrv, with pylance reading what is on
disk."""

import datetime
import json
import os
import sys

import lance
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import metasrv
from lake_server import LakeServer
from test_table_changes import delta_of


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LakeServer(tmp_path_factory.mktemp("versions")) as running:
        yield running


def dataset(server, table, version=None):
    return lance.dataset(metasrv.dataset_path(server.data_dir, table), version=version)


def said(server, *arguments):
    return json.loads(server.run("table", *arguments, "--json").stdout)


def failure(server, *arguments):
    done = server.run("table", *arguments, "--json", check=False)
    assert done.returncode == 1, (done.stdout, done.stderr)
    return json.loads(done.stderr)


def make(server, table, count):
    server.run("table", "create", table, "--column", "id:int64!")
    for i in range(count):
        server.run("put", "--into", table, "--set", f"id={i}")


def test_tags_are_those_that_pylance_reads_and_the_other_way_round(server):
    make(server, "v.tags", 3)
    assert said(server, "tag", "create", "v.tags", "newest") == {
        "tagged": "newest", "table": "v.tags", "version": 4}
    said(server, "tag", "create", "v.tags", "first.two", "--version", "3")
    tags = dataset(server, "v.tags").tags
    assert {name: tag["version"] for name, tag in tags.list().items()} == {
        "newest": 4, "first.two": 3}
    assert dataset(server, "v.tags", "first.two").to_table()["id"].to_pylist() == [0, 1]
    tags.create("by-pylance", 2)
    assert said(server, "tag", "list", "v.tags") == {"tags": [
        {"tag": "by-pylance", "version": 2, "branch": "main"},
        {"tag": "first.two", "version": 3, "branch": "main"},
        {"tag": "newest", "version": 4, "branch": "main"}]}
    assert failure(server, "tag", "create", "v.tags", "newest")["error"] == "ALREADY_EXISTS"
    assert failure(server, "tag", "create", "v.tags", "a/b")["error"] == "INVALID_ARGUMENT"
    assert failure(server, "tag", "create", "v.tags", "x" * 600)["error"] == "INVALID_ARGUMENT"
    missing = failure(server, "tag", "create", "v.tags", "none", "--version", "9")
    assert missing["error"] == "NOT_FOUND" and missing["message"] == "table v.tags has no version 9"
    assert failure(server, "tag", "delete", "v.tags", "none")["error"] == "NOT_FOUND"
    said(server, "tag", "delete", "v.tags", "newest")
    assert sorted(tags.list()) == ["by-pylance", "first.two"]
    assert failure(server, "tag", "list", "v.absent")["error"] == "NOT_FOUND"


def test_a_restore_is_one_new_version_with_the_old_rows(server):
    make(server, "v.rows", 3)
    done = said(server, "restore", "v.rows", "2")
    assert (done["version"], done["rows"], done["replayed"]) == (5, 1, False)
    expected = dataset(server, "v.rows", 2).to_table()
    assert dataset(server, "v.rows").version == 5
    assert dataset(server, "v.rows").to_table() == expected
    dataset(server, "v.rows").validate()
    assert dataset(server, "v.rows", 4).to_table()["id"].to_pylist() == [0, 1, 2]
    again = said(server, "restore", "v.rows", "2", "--operation-id", done["operation_id"])
    assert again["replayed"] and again["version"] == 5
    other = failure(server, "restore", "v.rows", "3", "--operation-id", done["operation_id"])
    assert other["error"] == "ALREADY_EXISTS"
    for version in ("6", str(2**63)):
        assert failure(server, "restore", "v.rows", version)["error"] == "NOT_FOUND"
    server.run("put", "--into", "v.rows", "--set", "id=7")
    assert dataset(server, "v.rows").to_table()["id"].to_pylist() == [0, 7]
    said(server, "restore", "v.rows", "4")
    rows = json.loads(server.run("sql", "SELECT id FROM v.rows ORDER BY id", "--json").stdout)
    assert rows == [{"id": 0}, {"id": 1}, {"id": 2}]


def test_a_restore_brings_the_columns_of_its_version_back(server):
    make(server, "v.columns", 2)
    dataset(server, "v.columns").add_columns({"twice": "id * 2"})
    rows = json.loads(server.run("sql", "SELECT * FROM v.columns", "--json").stdout)
    assert rows == [{"id": 0, "twice": 0}, {"id": 1, "twice": 2}]
    said(server, "restore", "v.columns", "3")
    described = said(server, "describe", "v.columns")
    assert [column["name"] for column in described["columns"]] == ["id"]
    rows = json.loads(server.run("sql", "SELECT * FROM v.columns", "--json").stdout)
    assert rows == [{"id": 0}, {"id": 1}]
    server.run("put", "--into", "v.columns", "--set", "id=2")
    assert dataset(server, "v.columns").to_table().to_pydict() == {"id": [0, 1, 2]}


def test_a_restore_says_which_objects_come_back_and_which_go(server, tmp_path):
    server.run("table", "create", "v.files", "--column", "id:int64!", "--column", "clip:FILE")
    for i in range(3):
        path = tmp_path / f"{i}.bin"
        path.write_bytes(bytes([i]) * 10)
        server.run("put", "--into", "v.files", "--set", f"id={i}", "--file", f"clip={path}")
    incarnation = said(server, "describe", "v.files")["incarnation"]
    uris = [row["uri"] for row in dataset(server, "v.files").to_table()["clip"].to_pylist()]
    said(server, "delete", "v.files", "--where", "id = 0")
    done = said(server, "restore", "v.files", "3")
    assert delta_of(server, incarnation, done["version"]) == [{uris[0]: 1}, {uris[2]: 1}]
    assert dataset(server, "v.files").to_table()["id"].to_pylist() == [0, 1]
    done = said(server, "restore", "v.files", "1")
    assert delta_of(server, incarnation, done["version"]) == [{}, {uris[0]: 1, uris[1]: 1}]
    done = said(server, "restore", "v.files", "1")
    assert delta_of(server, incarnation, done["version"]) == [{}, {}]


def test_the_history_is_that_of_pylance(server):
    make(server, "v.history", 3)
    said(server, "delete", "v.history", "--where", "id = 1")
    said(server, "compact", "v.history")
    restored = said(server, "restore", "v.history", "3")
    dataset(server, "v.history").add_columns({"twice": "id * 2"})
    found = said(server, "history", "v.history")
    expected = {entry["version"]: entry for entry in dataset(server, "v.history").versions()}
    assert [entry["version"] for entry in found["versions"]] == sorted(expected, reverse=True)
    for entry in found["versions"]:
        version = entry["version"]
        there = dataset(server, "v.history", version)
        transaction = there.read_transaction(version)
        properties = transaction.transaction_properties or {}
        operation = type(transaction.operation).__name__
        assert entry["operation"] == operation.lower(), operation
        assert entry["operation_id"] == properties.get("lake.operation_id")
        assert entry["rows"] == there.count_rows()
        assert entry["fragments"] == len(there.get_fragments())
        # pylance gives local time without a zone
        assert abs(entry["timestamp_ms"] / 1000 - expected[version]["timestamp"].timestamp()) < 0.01
    assert found["versions"][1]["operation_id"] == restored["operation_id"]
    assert found["next_before"] is None
    page = said(server, "history", "v.history", "--limit", "2")
    rest = said(server, "history", "v.history", "--before", str(page["next_before"]))
    assert page["versions"] + rest["versions"] == found["versions"]
    plain = server.run("table", "history", "v.history", "--limit", "1").stdout
    assert "8\t" in plain and "older ones: --before 8" in plain


def test_versions_and_tables_that_others_removed_are_not_answered_from_memory(server):
    make(server, "v.gone", 3)
    at_two = "SELECT count(*) AS n FROM v.gone AT (VERSION => 2)"
    newest = "SELECT count(*) AS n FROM v.gone"
    for sql, count in ((at_two, 1), (newest, 3)):
        assert json.loads(server.run("sql", sql, "--json").stdout) == [{"n": count}]
    assert said(server, "diff", "v.gone", "2", "4")["rows_added"] == 2
    dataset(server, "v.gone").cleanup_old_versions(older_than=datetime.timedelta(0),
                                                   delete_unverified=True)
    done = server.run("sql", at_two, "--json", check=False)
    assert json.loads(done.stderr)["error"] == "NOT_FOUND" and "no version 2" in done.stderr
    for arguments in (["diff", "v.gone", "2", "4"], ["restore", "v.gone", "2"],
                      ["tag", "create", "v.gone", "two", "--version", "2"]):
        assert failure(server, *arguments)["error"] == "NOT_FOUND", arguments
    assert [v["version"] for v in said(server, "history", "v.gone")["versions"]] == [4]
    path = metasrv.dataset_path(server.data_dir, "v.gone")
    os.rename(path, f"{path}.away")
    for sql in (newest, at_two):
        done = server.run("sql", sql, "--json", check=False)
        assert done.returncode == 1 and json.loads(done.stderr)["error"] == "NOT_FOUND", sql
    for arguments in (["tag", "list", "v.gone"], ["branch", "list", "v.gone"],
                      ["history", "v.gone"], ["describe", "v.gone"], ["diff", "v.gone", "3", "4"],
                      ["delete", "v.gone", "--where", "true"], ["compact", "v.gone"]):
        failed = failure(server, *arguments)
        assert failed["error"] in ("NOT_FOUND", "DATA_LOSS"), arguments
        assert "v.gone is registered but its" in failed["message"], arguments
    os.rename(f"{path}.away", path)
    assert json.loads(server.run("sql", newest, "--json").stdout) == [{"n": 3}]
    assert said(server, "tag", "list", "v.gone") == {"tags": []}


def test_a_diff_counts_the_rows_that_differ(server):
    make(server, "v.diff", 4)  # version 5: four fragments of one row
    said(server, "delete", "v.diff", "--where", "id = 1")  # 6
    dataset(server, "v.diff").add_columns({"twice": "id * 2"})  # 7
    said(server, "compact", "v.diff")  # 8

    def diff(a, b):
        found = said(server, "diff", "v.diff", str(a), str(b))
        before = dataset(server, "v.diff", a).count_rows()
        after = dataset(server, "v.diff", b).count_rows()
        assert after - before == found["rows_added"] - found["rows_removed"]
        rows = [found[f"rows_{what}"] for what in ("added", "removed", "rewritten")]
        fragments = [found[f"fragments_{what}"] for what in ("added", "removed", "changed")]
        columns = [found[f"columns_{what}"] for what in ("added", "removed", "changed")]
        return rows, fragments, columns

    none = [[], [], []]
    assert diff(5, 5) == ([0, 0, 0], [0, 0, 0], none)
    assert diff(3, 5) == ([2, 0, 0], [2, 0, 0], none)
    assert diff(5, 3) == ([0, 2, 0], [0, 2, 0], none)
    assert diff(5, 6)[0] == [0, 1, 0] and diff(6, 5)[0] == [1, 0, 0]
    assert diff(6, 7) == ([0, 0, 3], [0, 0, 3], [["twice"], [], []])
    assert diff(7, 6) == ([0, 0, 3], [0, 0, 3], [[], ["twice"], []])
    assert diff(7, 8) == ([3, 3, 0], [1, 3, 0], none)
    assert failure(server, "diff", "v.diff", "1", "99")["error"] == "NOT_FOUND"
    plain = server.run("table", "diff", "v.diff", "6", "7").stdout
    assert plain == ('rows: 0 added, 0 removed, 3 rewritten\nfragments: 0 added, 0 removed, '
                     '3 changed\ncolumns added: "twice"\n')


def test_a_diff_sees_rows_deleted_and_back_in_one_fragment(server, tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("id\n" + "\n".join(map(str, range(200))) + "\n")
    server.run("import", "v.one", rows, "--create")  # 2
    said(server, "delete", "v.one", "--where", "id < 70")  # 3
    said(server, "restore", "v.one", "2")  # 4
    said(server, "delete", "v.one", "--where", "id >= 60 AND id < 75")  # 5
    found = said(server, "diff", "v.one", "3", "5")
    assert (found["rows_added"], found["rows_removed"]) == (60, 5)
    assert found["fragments_changed"] == 1


@pytest.mark.parametrize("arguments,hint", [
    (["restore", "a.b"], "which version"),
    (["restore", "a.b", "0"], "a number from 1"),
    (["restore", "a.b", "1", "2"], "unexpected argument"),
    (["history"], "which table"),
    (["history", "a.b", "--limit", "0"], "a number from 1"),
    (["diff", "a.b", "1"], "two versions"),
    (["diff", "a.b", "1", "x"], "a number from 1"),
    (["tag"], "tag create"),
    (["tag", "frob"], "no lake table tag frob"),
    (["tag", "create", "a.b"], "tag's name"),
    (["tag", "create", "a.b", "t", "--version", "x"], "a number from 1"),
    (["tag", "list"], "which table"),
])
def test_wrong_usage_is_explained(server, arguments, hint):
    done = server.run("table", *arguments, check=False)
    assert done.returncode == 2 and hint in done.stderr, done.stderr
