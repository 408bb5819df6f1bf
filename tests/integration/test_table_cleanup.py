"""Clean-up of managed tables through Query and Metasrv; pylance and the file system say what stayed."""

import json
import os
import sys
import time

import lance
import pyarrow.flight as flight
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import flight_sql
import metasrv
from lake_server import LakeServer

KEPT = 3


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    env = {"LAKE_LANCE_RETAIN_VERSIONS": KEPT, "LAKE_CLEANUP_GRACE_SECS": 1}
    with LakeServer(tmp_path_factory.mktemp("cleanup"), env) as running:
        yield running


def make(server, table, count):
    server.run("table", "create", table, "--column", "id:int64!")
    for i in range(count):
        server.run("put", "--into", table, "--set", f"id={i}")


def cleanup(server, table, *options):
    return json.loads(server.run("table", "cleanup", table, *options, "--json").stdout)


def versions(server, table):
    return [v["version"] for v in lance.dataset(metasrv.dataset_path(server.data_dir, table)).versions()]


def ids(server, table, version=None):
    dataset = lance.dataset(metasrv.dataset_path(server.data_dir, table), version=version)
    dataset.validate()
    return dataset.to_table()["id"].to_pylist()


def files(server, table):
    root = server.data_dir / "tables" / table.replace(".", "/")
    return {str(p.relative_to(f"{root}.lance"))
            for folder in ("data", "_transactions") for p in (root.with_suffix(".lance") / folder).iterdir()}


def referred(server, table):
    """Data files and transactions of the versions that are there, as pylance tells them."""
    path = metasrv.dataset_path(server.data_dir, table)
    found = set()
    for version in versions(server, table):
        dataset = lance.dataset(path, version=version)
        for fragment in dataset.get_fragments():
            found |= {f"data/{file.path}" for file in fragment.data_files()}
        transaction = dataset.read_transaction(version)
        found.add(f"_transactions/{transaction.read_version}-{transaction.uuid}.txn")
    return found


def test_young_versions_stay(server):
    make(server, "c.young", 6)
    done = cleanup(server, "c.young")
    assert (done["versions_removed"], done["versions_kept"], done["files_removed"]) == (0, 7, 0)
    assert cleanup(server, "c.young", "--older-than", "1h")["versions_removed"] == 0
    assert versions(server, "c.young") == list(range(1, 8))


def test_old_versions_go_and_what_only_they_needed(server):
    table = "c.old"
    make(server, table, 7)
    server.run("table", "compact", table)
    server.run("table", "tag", "create", table, "keep", "--version", "3")
    dry = cleanup(server, table, "--older-than", "0s", "--dry-run")
    assert versions(server, table) == list(range(1, 10))
    done = cleanup(server, table, "--older-than", "0s")
    assert dry.pop("dry_run") and not done.pop("dry_run")
    assert dry.pop("operation_id") != done.pop("operation_id")
    assert dry == done
    assert versions(server, table) == [3, 7, 8, 9], "a tagged one and the newest three"
    assert (done["versions_kept"], done["versions_removed"]) == (4, 5)
    assert files(server, table) == referred(server, table)
    assert sorted(ids(server, table)) == list(range(7)) and ids(server, table, 3) == [0, 1]
    again = cleanup(server, table, "--older-than", "0s")
    assert (again["versions_removed"], again["files_removed"]) == (0, 0)
    server.run("put", "--into", table, "--set", "id=7")
    rows = json.loads(server.run("sql", f"SELECT count(*) AS n FROM {table}", "--json").stdout)
    assert rows == [{"n": 8}]


def test_more_are_kept_when_asked_and_never_fewer_than_the_server_keeps(server):
    make(server, "c.keep", 8)
    cleanup(server, "c.keep", "--older-than", "0s", "--keep", "5")
    assert versions(server, "c.keep") == [5, 6, 7, 8, 9]
    cleanup(server, "c.keep", "--older-than", "0s", "--keep", "1")
    assert versions(server, "c.keep") == [7, 8, 9]


def test_what_writers_that_died_left_goes_after_the_grace_time(server):
    table = "c.orphans"
    make(server, table, 2)
    data = server.data_dir / "tables" / "c" / "orphans.lance" / "data"
    (data / "left-behind.lance").write_bytes(b"x" * 100)
    (data / "notes.txt").write_text("no file of the format")
    assert cleanup(server, table)["files_in_grace"] == 1
    old = time.time() - 10
    os.utime(data / "left-behind.lance", (old, old))
    done = cleanup(server, table)
    assert (done["files_removed"], done["abandoned_files_removed"]) == (1, 1)
    assert done["bytes_removed"] == 100
    assert files(server, table) == referred(server, table) | {"data/notes.txt"}


def test_a_version_that_is_gone_is_not_restored_tagged_or_read(server):
    table = "c.gone"
    make(server, table, 6)
    client = flight.FlightClient(f"grpc://{server.address}")
    pinned = flight_sql.info(client, f"SELECT id FROM {table} ORDER BY id")
    server.run("table", "compact", table)
    for i in range(6, 9):
        server.run("put", "--into", table, "--set", f"id={i}")
    cleanup(server, table, "--older-than", "0s")
    assert versions(server, table) == [9, 10, 11]
    with pytest.raises(flight.FlightError, match="version 7"):
        flight_sql.rows(client, pinned.endpoints[0].ticket)
    for arguments in (("restore", table, "7"), ("tag", "create", table, "t", "--version", "7")):
        done = server.run("table", *arguments, "--json", check=False)
        assert json.loads(done.stderr)["error"] == "NOT_FOUND", done.stderr
    assert sorted(ids(server, table)) == list(range(9))
    assert json.loads(server.run("table", "history", table, "--json").stdout)["versions"][-1]["version"] == 9


def test_what_is_asked_wrongly_is_refused_by_name(server):
    for arguments, code in ((("c.absent",), 1), (("c.absent", "--older-than", "3x"), 2),
                            (("c.absent", "--older-than", "99999999999999999w"), 2),
                            (("c.absent", "--keep", "0"), 2), ((), 2)):
        done = server.run("table", "cleanup", *arguments, check=False)
        assert done.returncode == code, (arguments, done.stderr)
    done = server.run("table", "cleanup", "c.absent", "--operation-id", "x", check=False)
    assert done.returncode == 2 and "UUIDv7" in done.stderr
