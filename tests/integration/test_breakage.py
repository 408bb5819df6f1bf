"""What other programs do to a table or to the data directory, and files that are not what they seem."""

import json
import os
import shutil
import sys
import time

import lance
import pyarrow as pa
import pyarrow.flight as flight
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import flight_sql
import metasrv
from lake_server import LakeServer


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LakeServer(tmp_path_factory.mktemp("breakage") / "data", env={"LAKE_LOG": "warn"}) as it:
        yield it


def rows(server, sql):
    with flight.connect(f"grpc://{server.address}") as client:
        return flight_sql.query(client, sql)


def make_table(server, name):
    server.run("table", "create", f"b.{name}", "--column", "id:int64!", "--column", "s:utf8")
    server.run("put", "--into", f"b.{name}", "--set", "id=1", "--set", "s=a")
    return str(server.data_dir / "tables" / "b" / f"{name}.lance")


# ---- tables that others changed (NAT-1) ----

CHANGES = {
    "renamed": lambda path: lance.dataset(path).alter_columns({"path": "s", "name": "text"}),
    "narrowed": lambda path: lance.dataset(path).alter_columns(
        {"path": "id", "data_type": pa.int32()}),
    "added": lambda path: lance.dataset(path).add_columns({"twice": "id * 2"}),
    "dropped": lambda path: lance.dataset(path).drop_columns(["s"]),
    "overwritten": lambda path: lance.write_dataset(
        pa.table({"s": ["p"], "id": [[1.5, 2.5]]}), path, mode="overwrite"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_columns_are_described_and_rows_of_the_former_ones_refused(server, change):
    path = make_table(server, change)
    CHANGES[change](path)
    before = lance.dataset(path)
    former = pa.schema([pa.field("id", pa.int64(), False), pa.field("s", pa.utf8())])
    with flight.connect(f"grpc://{server.address}") as client:
        with pytest.raises(pa.ArrowException, match=f"table b.{change}"):
            metasrv.append(client, f"b.{change}", metasrv.uuid7(),
                           [pa.record_batch([[2], ["b"]], schema=former)])
    after = lance.dataset(path)
    assert after.version == before.version
    assert rows(server, f"SELECT * FROM b.{change}") == after.to_table().to_pylist()
    described = json.loads(server.run("table", "describe", f"b.{change}", "--json").stdout)
    assert [column["name"] for column in described["columns"]] == after.schema.names
    server.run("table", "drop", f"b.{change}")


def test_changed_columns_take_rows_and_are_listed(server):
    path = make_table(server, "grown")
    lance.dataset(path).add_columns({"twice": "id * 2"})
    lance.dataset(path).alter_columns({"path": "s", "name": "text"})
    done = server.run("put", "--into", "b.grown", "--set", "id=2", "--set", "s=b", check=False)
    assert done.returncode == 1 and "no column s" in done.stderr
    server.run("put", "--into", "b.grown", "--set", "id=2", "--set", "text=b", "--set", "twice=5")
    want = [{"id": 1, "text": "a", "twice": 2}, {"id": 2, "text": "b", "twice": 5}]
    assert lance.dataset(path).to_table().sort_by("id").to_pylist() == want
    listed = []
    for _ in range(50):  # Query follows the directory within a second
        with flight.connect(f"grpc://{server.address}") as client:
            tables = flight_sql.tables(client)
        listed = next(row["table_schema"] for row in tables if row["table_name"] == "grown")
        if pa.ipc.read_schema(pa.py_buffer(listed)).names == ["id", "text", "twice"]:
            break
        time.sleep(0.1)
    assert pa.ipc.read_schema(pa.py_buffer(listed)).names == ["id", "text", "twice"]


def test_a_column_that_sql_cannot_hold_hides_no_other(server):
    path = make_table(server, "wide")
    lance.dataset(path).add_columns(pa.field("wide", pa.decimal256(50, 6)))
    server.run("put", "--into", "b.wide", "--set", "id=2")
    assert rows(server, "SELECT id FROM b.wide ORDER BY id") == [{"id": 1}, {"id": 2}]
    assert rows(server, "SELECT count(*) AS n FROM b.wide") == [{"n": 2}]
    assert rows(server, "SELECT * EXCLUDE wide FROM b.wide WHERE id = 1") == [{"id": 1, "s": "a"}]
    for sql in ("SELECT * FROM b.wide", "SELECT id FROM b.wide WHERE wide IS NULL"):
        with pytest.raises(pa.ArrowNotImplementedError, match="column wide of table wide"):
            rows(server, sql)


# ---- directories that others replaced or removed ----


@pytest.mark.parametrize("versions", [1, 2, 3])
def test_a_replaced_directory_is_never_taken_for_the_table(server, versions):
    name = f"replaced{versions}"
    path = make_table(server, name)
    assert rows(server, f"SELECT id FROM b.{name}") == [{"id": 1}]
    shutil.rmtree(path)
    for number in range(versions):
        lance.write_dataset(pa.table({"id": pa.array([70 + number]), "s": ["x"]}), path,
                            mode="append" if number else "create")
    with pytest.raises(pa.ArrowException, match="not those that are registered") as refused:
        rows(server, f"SELECT id FROM b.{name}")
    assert f"b.{name}" in str(refused.value) and str(server.data_dir) not in str(refused.value)
    done = server.run("put", "--into", f"b.{name}", "--set", "id=2", check=False)
    assert done.returncode == 1
    assert lance.dataset(path).version == versions
    assert lance.dataset(path).count_rows() == versions
    shutil.rmtree(path)
    server.run("table", "drop", f"b.{name}")


def test_a_removed_directory_is_said_by_the_tables_name(server):
    path = make_table(server, "removed")
    assert rows(server, "SELECT id FROM b.removed") == [{"id": 1}]
    shutil.rmtree(path)
    with pytest.raises(pa.ArrowException, match="b.removed is registered but its files") as missing:
        rows(server, "SELECT id FROM b.removed")
    assert str(server.data_dir) not in str(missing.value)
    server.run("table", "drop", "b.removed")
    make_table(server, "removed")
    assert rows(server, "SELECT id FROM b.removed") == [{"id": 1}]


def test_a_table_whose_columns_are_back_is_written_again(server):
    path = make_table(server, "back")
    lance.dataset(path).alter_columns({"path": "s", "name": "text"})
    lance.dataset(path).alter_columns({"path": "text", "name": "s"})
    server.run("put", "--into", "b.back", "--set", "id=2", "--set", "s=b")
    want = [{"id": 1, "s": "a"}, {"id": 2, "s": "b"}]
    assert rows(server, "SELECT * FROM b.back ORDER BY id") == want
    assert lance.dataset(path).to_table().sort_by("id").to_pylist() == want


def test_a_column_that_now_allows_nulls_takes_rows(server):
    path = make_table(server, "relaxed")
    lance.dataset(path).alter_columns({"path": "id", "nullable": True})
    server.run("put", "--into", "b.relaxed", "--set", "id=2")
    assert lance.dataset(path).to_table().sort_by("id").to_pylist() == [
        {"id": 1, "s": "a"}, {"id": 2, "s": None}]


def test_deletes_updates_compaction_indices_and_restores_of_pylance_are_followed(server):
    path = make_table(server, "touched")

    def agree(count):
        want = lance.dataset(path).to_table().sort_by("id").to_pylist()
        assert len(want) == count
        assert rows(server, "SELECT * FROM b.touched ORDER BY id") == want

    def put(number):
        server.run("put", "--into", "b.touched", "--set", f"id={number}", "--set", "s=x")

    put(2)
    lance.dataset(path).delete("id = 1")
    agree(1)
    put(3)
    lance.dataset(path).update({"s": "'new'"}, where="id = 3")
    agree(2)
    lance.dataset(path).optimize.compact_files()
    put(4)
    lance.dataset(path).create_scalar_index("id", "BTREE")
    put(5)
    agree(4)
    lance.dataset(path, version=2).restore()
    put(6)
    agree(2)
    incarnation = lance.dataset(path, version=1).config()["lake.incarnation"]
    assert lance.dataset(path).config()["lake.incarnation"] == incarnation


# ---- a data directory that moved (NAT-10) ----


def test_a_copied_data_directory_is_read_where_it_is_written(tmp_path):
    with LakeServer(tmp_path / "first") as first:
        make_table(first, "t")
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    with LakeServer(tmp_path / "second") as second:
        second.run("put", "--into", "b.t", "--set", "id=2")
        assert rows(second, "SELECT id FROM b.t ORDER BY id") == [{"id": 1}, {"id": 2}]
        assert f"file://{tmp_path}/second/" in second.run("table", "describe", "b.t").stdout
    with LakeServer(tmp_path / "first") as first:
        assert rows(first, "SELECT id FROM b.t") == [{"id": 1}]


def test_a_moved_data_directory_works_and_may_move_back(tmp_path):
    with LakeServer(tmp_path / "here") as server:
        for number in range(70):  # more than a page of registrations
            server.run("table", "create", f"b.t{number}", "--column", "id:int64")
    for old, new in (("here", "there"), ("there", "here")):
        os.rename(tmp_path / old, tmp_path / new)
        with LakeServer(tmp_path / new) as server:
            for number in (0, 35, 69):
                server.run("put", "--into", f"b.t{number}", "--set", "id=1")
                want = 1 if new == "there" else 2
                assert len(rows(server, f"SELECT * FROM b.t{number}")) == want
            server.run("table", "drop", "b.t1")
            server.run("table", "create", "b.t1", "--column", "id:int64")
        assert not (tmp_path / old).exists()


# ---- files of `lake import` ----


@pytest.mark.parametrize("text, said", [
    ("1,2\n3,4\n", "does not name the columns"),
    ("a,b\n1,2\n3\n4,5,6\n", "does not name the columns"),
    ("", "is empty"),
])
def test_a_csv_without_a_header_makes_no_table(server, tmp_path, text, said):
    (tmp_path / "x.csv").write_text(text)
    done = server.run("import", "b.headless", tmp_path / "x.csv", "--create", check=False)
    assert done.returncode == 1
    assert said in done.stderr
    assert "b.headless" not in server.run("table", "list").stdout.split()


def test_columns_that_are_really_called_so_are_imported(server, tmp_path):
    (tmp_path / "x.csv").write_text("column0,column1\n1,a\n")
    server.run("import", "b.plain", tmp_path / "x.csv", "--create")
    assert rows(server, "SELECT * FROM b.plain") == [{"column0": 1, "column1": "a"}]
