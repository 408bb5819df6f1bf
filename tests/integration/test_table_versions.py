"""Restores and tags of managed tables through Query and Metasrv, with pylance reading what is on
disk."""

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
    assert missing["error"] == "NOT_FOUND"
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


@pytest.mark.parametrize("arguments,hint", [
    (["restore", "a.b"], "which version"),
    (["restore", "a.b", "0"], "a number from 1"),
    (["restore", "a.b", "1", "2"], "unexpected argument"),
    (["tag"], "tag create"),
    (["tag", "frob"], "no lake table tag frob"),
    (["tag", "create", "a.b"], "tag's name"),
    (["tag", "create", "a.b", "t", "--version", "x"], "a number from 1"),
    (["tag", "list"], "which table"),
])
def test_wrong_usage_is_explained(server, arguments, hint):
    done = server.run("table", *arguments, check=False)
    assert done.returncode == 2 and hint in done.stderr, done.stderr
