"""Branches of managed tables through Query and Metasrv: pylance reads and writes them, and what it makes is listed."""

import json
import os
import shutil
import subprocess
import sys

import lance
import pyarrow as pa
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from lake_server import LAKE, LakeServer, clean_environment
from s3_servers import BUCKET
from test_s3_lake import credentials, settings
from test_s3_lake import dataset as s3_dataset
from test_table_versions import dataset, failure, make, said


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LakeServer(tmp_path_factory.mktemp("branches")) as running:
        yield running


def ids(server, table, branch, env=None):
    done = server.run("lance", "cat", table, "--branch", branch, "--format", "json", env=env)
    return [row["id"] for row in json.loads(done.stdout)]


def append(branch, *values):
    schema = branch.schema
    return lance.write_dataset(pa.table({"id": pa.array(values, pa.int64())}, schema=schema), branch, mode="append")


def test_branches_are_those_of_pylance(server):
    make(server, "b.t", 4)
    assert said(server, "branch", "create", "b.t", "exp", "--version", "3") == {
        "branched": "exp", "table": "b.t", "parent": "main", "version": 3}
    assert said(server, "branch", "create", "b.t", "robots/v2")["version"] == 5
    main = dataset(server, "b.t")
    assert {name: (b["parent_branch"], b["parent_version"]) for name, b in main.branches.list().items()} == {
        "exp": (None, 3), "robots/v2": (None, 5)}
    exp = append(main.checkout_version(("exp", None)), 100, 101)
    exp.validate()
    assert exp.to_table()["id"].to_pylist() == [0, 1, 100, 101]
    assert ids(server, "b.t", "exp") == [0, 1, 100, 101]
    assert ids(server, "b.t", "robots/v2") == [0, 1, 2, 3]
    # A branch of a branch, at its newest version and at an older one.
    assert said(server, "branch", "create", "b.t", "exp2", "--from", "exp") == {
        "branched": "exp2", "table": "b.t", "parent": "exp", "version": 4}
    said(server, "branch", "create", "b.t", "exp3", "--from", "exp", "--version", "3")
    assert ids(server, "b.t", "exp2") == [0, 1, 100, 101] and ids(server, "b.t", "exp3") == [0, 1]
    assert main.checkout_version(("exp2", None)).to_table()["id"].to_pylist() == [0, 1, 100, 101]
    main.create_branch("by-pylance", ("robots/v2", 5))
    listed = said(server, "branch", "list", "b.t")["branches"]
    assert [(b["branch"], b["parent"], b["parent_version"]) for b in listed] == [
        ("by-pylance", "robots/v2", 5), ("exp", "main", 3), ("exp2", "exp", 4), ("exp3", "exp", 3),
        ("robots/v2", "main", 5)]
    # The table itself goes on, and none of it is seen there.
    server.run("put", "--into", "b.t", "--set", "id=4")
    assert dataset(server, "b.t").count_rows() == 5 and ids(server, "b.t", "robots/v2") == [0, 1, 2, 3]


def test_a_deleted_branch_leaves_nothing_behind(server):
    make(server, "b.gone", 2)
    path = dataset(server, "b.gone").uri
    for branch in ("a", "a/data", "a/_deletions", "b"):
        said(server, "branch", "create", "b.gone", branch)
        append(dataset(server, "b.gone").checkout_version((branch, None)), 7).delete("id = 0")
    said(server, "branch", "create", "b.gone", "child", "--from", "a")
    dataset(server, "b.gone").tags.create("on-b", ("b", 4))
    refused = failure(server, "branch", "delete", "b.gone", "a")
    assert refused["error"] == "FAILED_PRECONDITION" and "child" in refused["message"]
    refused = failure(server, "branch", "delete", "b.gone", "b")
    assert refused["error"] == "FAILED_PRECONDITION" and "on-b" in refused["message"]
    said(server, "branch", "delete", "b.gone", "child")
    assert said(server, "branch", "delete", "b.gone", "a") == {"deleted": "a", "table": "b.gone"}
    left = [os.path.relpath(os.path.join(at, f), path + "/tree") for at, _, files in os.walk(path + "/tree") for f in files]
    assert left and all(f.startswith(("a/data/", "a/_deletions/", "b/")) for f in left)
    for branch in ("a/data", "a/_deletions", "b"):
        assert dataset(server, "b.gone").checkout_version((branch, None)).to_table()["id"].to_pylist() == [1, 7]
    assert failure(server, "branch", "delete", "b.gone", "a")["error"] == "NOT_FOUND"
    said(server, "branch", "create", "b.gone", "a")
    assert ids(server, "b.gone", "a") == [0, 1]


@pytest.mark.parametrize("point", ["lance.branch.after_manifest", "lance.branch.after_removed_ref",
                                   "lance.branch.after_removed_file"])
def test_a_branch_survives_kill_9(tmp_path, point):
    data = tmp_path / "data"
    with LakeServer(data) as server:
        make(server, "b.k", 2)
        said(server, "branch", "create", "b.k", "kept")
        append(dataset(server, "b.k").checkout_version(("kept", None)), 7)
    with pytest.raises(AssertionError, match="ended with -9"), \
         LakeServer(data, {"LAKE_FAULT": f"{point}:1:kill"}) as server:
        verb = "create" if "manifest" in point else "delete"
        branch = "new" if "manifest" in point else "kept"
        assert server.run("table", "branch", verb, "b.k", branch, check=False).returncode != 0
    with LakeServer(data) as server:
        there = [b["branch"] for b in said(server, "branch", "list", "b.k")["branches"]]
        assert there == (["kept"] if verb == "create" else [])
        assert sorted(dataset(server, "b.k").branches.list()) == there
        said(server, "branch", verb, "b.k", branch)
        there = [b["branch"] for b in said(server, "branch", "list", "b.k")["branches"]]
        assert there == (["kept", "new"] if verb == "create" else [])
        if verb == "delete":
            tree = dataset(server, "b.k").uri + "/tree"
            assert [f for _, _, files in os.walk(tree) for f in files] == []
        assert dataset(server, "b.k").count_rows() == 2


def test_a_branch_moves_with_its_table(tmp_path):
    with LakeServer(tmp_path / "old") as server:
        make(server, "b.m", 2)
        said(server, "branch", "create", "b.m", "one")
        append(dataset(server, "b.m").checkout_version(("one", None)), 8)
        said(server, "branch", "create", "b.m", "two", "--from", "one")
    shutil.move(tmp_path / "old", tmp_path / "new")
    with LakeServer(tmp_path / "new") as server:
        assert ids(server, "b.m", "one") == [0, 1, 8] and ids(server, "b.m", "two") == [0, 1, 8]
        said(server, "branch", "create", "b.m", "three", "--from", "two")
        assert ids(server, "b.m", "three") == [0, 1, 8]


def test_branches_of_a_table_in_a_bucket(s3, tmp_path):
    with LakeServer(tmp_path / "data", settings(s3, "br")) as server:
        env = credentials(AWS_ENDPOINT_URL_S3=s3.endpoint)
        server.run("table", "create", "b.s", "--column", "id:int64!")
        for i in range(3):
            server.run("put", "--into", "b.s", "--set", f"id={i}", env=env)
        said(server, "branch", "create", "b.s", "ours", "--version", "3")
        main = s3_dataset(s3, "br", "b.s")
        assert append(main.checkout_version(("ours", None)), 9).to_table()["id"].to_pylist() == [0, 1, 9]
        append(main.create_branch("theirs", 2), 5)
        said(server, "branch", "create", "b.s", "both", "--from", "theirs")
        assert ids(server, "b.s", "ours", env) == [0, 1, 9]
        assert ids(server, "b.s", "theirs", env) == ids(server, "b.s", "both", env) == [0, 5]
        assert main.checkout_version(("both", None)).to_table()["id"].to_pylist() == [0, 5]
        location = f"s3://{BUCKET}/br/tables/b/s.lance"
        done = subprocess.run([LAKE, "lance", "cat", location, "--branch", "ours", "--format", "csv"], text=True,
                              capture_output=True, env=clean_environment() | env, timeout=60, check=True)
        assert done.stdout.split() == ["id", "0", "1", "9"]
        said(server, "branch", "delete", "b.s", "both")
        said(server, "branch", "delete", "b.s", "ours")
        assert [b["branch"] for b in said(server, "branch", "list", "b.s")["branches"]] == ["theirs"]


def test_what_is_not_there_or_is_no_name(server):
    make(server, "b.w", 1)
    said(server, "branch", "create", "b.w", "x")
    for arguments, error in [
            (("create", "b.w", "x"), "ALREADY_EXISTS"), (("create", "b.w", "main"), "INVALID_ARGUMENT"),
            (("create", "b.w", "a//b"), "INVALID_ARGUMENT"), (("create", "b.w", "../up"), "INVALID_ARGUMENT"),
            (("create", "b.w", "/a"), "INVALID_ARGUMENT"), (("create", "b.w", "y" * 600), "INVALID_ARGUMENT"),
            (("create", "b.w", "y", "--version", "9"), "NOT_FOUND"),
            (("create", "b.w", "y", "--from", "none"), "NOT_FOUND"),
            (("delete", "b.w", "main"), "INVALID_ARGUMENT"), (("delete", "b.w", "none"), "NOT_FOUND"),
            (("delete", "b.w", "../../t"), "INVALID_ARGUMENT"), (("list", "b.none"), "NOT_FOUND")]:
        refused = failure(server, "branch", *arguments)
        assert refused["error"] == error and "://" not in refused["message"], (arguments, refused)
    for arguments, hint in [([], "branch create"), (["frob"], "no lake table branch frob"),
                            (["create", "b.w"], "branch's name"), (["delete", "b.w"], "which branch"),
                            (["create", "b.w", "z", "--version", "0"], "a number from 1"), (["list"], "which table")]:
        done = server.run("table", "branch", *arguments, check=False)
        assert done.returncode == 2 and hint in done.stderr, done.stderr
    server.run("table", "drop", "b.w")
    make(server, "b.w", 1)
    assert said(server, "branch", "list", "b.w") == {"branches": []}
