"""Wrong input, full disks, vanished files, damaged objects, busy ports: one clear sentence, the right
status, and nothing lost or half-written."""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import lance
import pyarrow as pa
import pyarrow.flight as flight
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import flight_sql
import metasrv
from lake_server import LAKE, LakeServer, clean_environment

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LakeServer(tmp_path_factory.mktemp("failures"), env={"LAKE_LOG": "warn"}) as running:
        running.run("table", "create", "robots.runs", "--column", "id:int64!",
                    "--column", "name:utf8", "--column", "grip:float[3]", "--column", "video:FILE")
        yield running


def failure(server, *arguments, env=None):
    """The error that a command ends with, as --json gives it."""
    done = server.run(*arguments, "--json", check=False, env=env)
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return json.loads(lines[0])


def stage_files(server):
    return sorted(path for path in (server.data_dir / "objects").rglob("*") if path.is_file())


@pytest.mark.parametrize("sql, status, said", [
    ("SELEC 1", "INVALID_ARGUMENT", "syntax"),
    ("SELECT", "INVALID_ARGUMENT", "SELECT"),
    ("", "INVALID_ARGUMENT", "statement"),
    ("SELECT 1; SELECT 2", "INVALID_ARGUMENT", "one"),
    ("SELECT nope FROM robots.runs", "INVALID_ARGUMENT", "nope"),
    ("SELECT * FROM robots.missing", "NOT_FOUND", "robots.missing"),
    ("SELECT * FROM runs", "INVALID_ARGUMENT", "namespace.table"),
    ("SELECT * FROM other.robots.runs", "PERMISSION_DENIED", "other.robots.runs"),
    ("SELECT * FROM robots.runs AT (VERSION => 99)", "NOT_FOUND", "99"),
    ("INSERT INTO robots.runs (id) VALUES (1)", "INVALID_ARGUMENT", "read-only"),
    ("DROP TABLE robots.runs", "INVALID_ARGUMENT", "read-only"),
    ("SELECT * FROM read_csv('/etc/passwd')", "PERMISSION_DENIED", "read_csv"),
    ("SELECT * FROM '/etc/passwd'", None, ""),
])
def test_wrong_sql_gets_its_status_and_a_sentence(server, sql, status, said):
    error = failure(server, "sql", sql)
    if status is not None:
        assert error["error"] == status, error
    assert said.lower() in error["message"].lower(), error
    assert "root:" not in error["message"]


@pytest.mark.parametrize("arguments, said", [
    (["--set", "id=x"], "whole number"),
    (["--set", "id=1", "--set", "nope=1"], "no column nope"),
    (["--set", "name=only"], "id"),
    (["--set", "id=1", "--set", "grip=[1, 2]"], "3"),
    (["--set", "id=1", "--set", "grip=up"], "list"),
    (["--set", "id=1", "--file", "name=/etc/hostname"], "does not fit"),
    (["--set", "id=1", "--file", "video=/no/such/file"], "/no/such/file"),
    (["--set", "id=1", "--file", "video=/tmp"], "regular file"),
])
def test_wrong_values_are_refused_before_anything_is_stored(server, arguments, said):
    before = stage_files(server)
    error = failure(server, "put", "--into", "robots.runs", *arguments)
    assert error["error"] in ("INVALID_ARGUMENT", "NOT_FOUND"), error
    assert said in error["message"], error
    assert stage_files(server) == before


def test_wrong_imports_name_the_column(server, tmp_path):
    path = tmp_path / "wrong.parquet"
    pq.write_table(pa.table({"id": [1], "nmae": ["x"]}), path)
    error = failure(server, "import", "robots.runs", path)
    assert error["error"] == "INVALID_ARGUMENT", error
    assert "name" in error["message"], error
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 this is none PAR1")
    error = failure(server, "import", "robots.runs", tmp_path / "broken.parquet")
    assert "broken.parquet" in error["message"], error
    assert "LINE 1" not in error["message"], "a statement that the user did not write"
    (tmp_path / "wrong.csv").write_text("id,name\none,x\n")
    error = failure(server, "import", "robots.runs", tmp_path / "wrong.csv")
    assert "'one'" in error["message"] and "LINE 1" not in error["message"], error


def test_column_names_are_compared_without_case(server):
    server.run("put", "--into", "robots.runs", "--set", "ID=400", "--set", "Name=upper")
    rows = json.loads(server.run("sql", "SELECT NAME FROM robots.runs WHERE id = 400",
                                 "--json").stdout)
    assert [list(row.values()) for row in rows] == [["upper"]]
    error = failure(server, "put", "--into", "robots.runs", "--set", "ID=1", "--set", "id=2")
    assert "twice" in error["message"], error


# ---- objects -------------------------------------------------------------------------------------


def put_slowly(server, path):
    """`lake put` that waits in the middle of its upload."""
    return subprocess.Popen(
        [LAKE, "put", path, "--addr", server.address, "--json"], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
        env=clean_environment({"LAKE_FAULT": "storage.write:2:stop-2000"}))


@pytest.mark.parametrize("happening", ["vanishes", "grows", "changes"])
def test_a_file_that_changes_while_it_is_uploaded_is_not_stored(server, tmp_path, happening):
    path = tmp_path / "video.mp4"
    path.write_bytes(os.urandom(4 * MIB))
    before = stage_files(server)
    process = put_slowly(server, path)
    time.sleep(1)
    if happening == "vanishes":
        path.unlink()
    elif happening == "grows":
        with open(path, "ab") as out:
            out.write(b"more")
    else:
        with open(path, "r+b") as out:
            out.write(b"other")
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    error = json.loads(stderr)
    assert error["error"] == "ABORTED", error
    assert "video.mp4" in error["message"], error
    assert stage_files(server) == before


def test_an_interrupted_upload_leaves_no_object(server, tmp_path):
    path = tmp_path / "video.mp4"
    path.write_bytes(os.urandom(4 * MIB))
    before = stage_files(server)
    process = put_slowly(server, path)
    time.sleep(1)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    visible = [p for p in stage_files(server) if not p.name.startswith(".tmp-")]
    assert visible == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_upload_leaves_nothing(server, tmp_path, number):
    path = tmp_path / "video.mp4"
    path.write_bytes(os.urandom(4 * MIB))
    before = stage_files(server)
    process = put_slowly(server, path)
    while len(stage_files(server)) == len(before):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    _, stderr = process.communicate()
    assert process.returncode == -number
    assert json.loads(stderr)["error"] == "CANCELLED", stderr
    assert stage_files(server) == before


def put_object(server, path):
    return json.loads(server.run("put", path, "--json").stdout)


def test_case_O08_an_empty_object_is_an_object(server, tmp_path):
    empty = tmp_path / "empty.bin"
    empty.write_bytes(b"")
    server.run("put", "--into", "robots.runs", "--set", "id=800", "--file", f"video={empty}")
    rows = json.loads(server.run("sql", "SELECT video FROM robots.runs WHERE id = 800",
                                 "--json").stdout)
    assert rows[0]["video"]["size_bytes"] == 0
    assert rows[0]["video"]["sha256"] == hashlib.sha256(b"").hexdigest()
    server.run("get", "SELECT video FROM robots.runs WHERE id = 800", "-o", tmp_path / "back.bin")
    assert (tmp_path / "back.bin").read_bytes() == b""


@pytest.mark.parametrize("damage", ["flipped", "short", "long", "gone"])
def test_case_O12_a_damaged_object_is_never_published(server, tmp_path, damage):
    number = 900 + ["flipped", "short", "long", "gone"].index(damage)
    path = tmp_path / "video.mp4"
    path.write_bytes(os.urandom(3 * MIB + 5))
    server.run("put", "--into", "robots.runs", "--set", f"id={number}", "--file", f"video={path}")
    sql = f"SELECT video FROM robots.runs WHERE id = {number}"
    rows = json.loads(server.run("sql", sql, "--json").stdout)
    stored = pathlib.Path(rows[0]["video"]["uri"].removeprefix("file://"))
    os.chmod(stored, 0o644)
    if damage == "flipped":
        with open(stored, "r+b") as out:
            out.seek(MIB + 17)
            byte = out.read(1)
            out.seek(MIB + 17)
            out.write(bytes([byte[0] ^ 1]))
    elif damage == "short":
        os.truncate(stored, 3 * MIB)
    elif damage == "long":
        with open(stored, "ab") as out:
            out.write(b"x")
    else:
        stored.unlink()
    target = tmp_path / "out" / "back.mp4"
    target.parent.mkdir()
    error = failure(server, "get", sql, "-o", target)
    assert error["error"] == ("NOT_FOUND" if damage == "gone" else "DATA_LOSS"), error
    assert list(target.parent.iterdir()) == []


def test_an_object_outside_the_stage_is_not_read(server, tmp_path):
    """A row that another writer made can name any file; the client reads only its stage."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    digest = hashlib.sha256(b"secret").hexdigest()
    server.run("table", "create", "outside.t", "--column", "video:FILE")
    path = server.data_dir / "tables" / "outside" / "t.lance"
    for uri in (f"file://{secret}",
                f"file://{server.data_dir}/objects/tenants/development/../../../../{secret}"):
        rows = pa.table({"video": [{"uri": uri, "media_type": "text/plain", "size_bytes": 6,
                                    "sha256": digest}]}, schema=lance.dataset(str(path)).schema)
        lance.write_dataset(rows, str(path), mode="overwrite")
        assert uri in server.run("sql", "SELECT video.uri FROM outside.t", "--json").stdout
        for command in (("get", "-o", "-"), ("get", "-o", tmp_path / "copy"), ("cat",),
                        ("cat", "--range", "0:1")):
            error = failure(server, command[0], "SELECT video FROM outside.t", *command[1:])
            assert error["error"] in ("PERMISSION_DENIED", "INVALID_ARGUMENT"), error
            assert "outside your stage" in error["message"] or ".." in error["message"], error
    server.run("table", "drop", "outside.t")


# ---- disks, ports, directories ------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk])
    assert mounted.returncode == 0, "this test mounts a small tmpfs: run the suite as root"
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_full_disk_loses_and_leaves_nothing(small_disk, tmp_path):
    big = tmp_path / "big.bin"
    big.write_bytes(os.urandom(30 * MIB))
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": list(range(9000)), "text": [os.urandom(500).hex()] * 9000}), rows)
    with LakeServer(small_disk / "data", env={"LAKE_LOG": "warn"}) as server:
        server.run("table", "create", "t.rows", "--column", "id:int64", "--column", "text:utf8",
                   "--column", "video:FILE")
        error = failure(server, "put", big)
        assert error["error"] == "RESOURCE_EXHAUSTED", error
        assert stage_files(server) == []
        acknowledged = 0
        for _ in range(60):
            filler = small_disk / "filler"
            with open(filler, "ab") as out:
                out.write(b"x" * (512 * 1024)) if small_disk_free(small_disk) > MIB else None
            done = server.run("put", "--into", "t.rows", "--set", f"id={acknowledged}",
                              "--set", "text=" + "y" * 20000, "--json", check=False)
            if done.returncode != 0:
                break
            acknowledged += 1
        assert acknowledged > 0
        table = small_disk / "data" / "tables" / "t" / "rows.lance"
        count = "SELECT count(*) AS n FROM t.rows"
        assert json.loads(server.run("sql", count, "--json").stdout) == [{"n": acknowledged}]
        os.unlink(small_disk / "filler")
        server.run("put", "--into", "t.rows", "--set", "id=-1")
        assert json.loads(server.run("sql", count, "--json").stdout) == [{"n": acknowledged + 1}]
        assert lance.dataset(str(table)).count_rows() == acknowledged + 1


def small_disk_free(disk):
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize


def up(data_dir, listen):
    return subprocess.run([LAKE, "up", "--data-dir", data_dir, "--listen", listen, "--json"],
                          capture_output=True, text=True, timeout=60,
                          env=clean_environment({"LAKE_LOG": "error"}))


def last_error(done):
    assert done.returncode == 1, (done.stdout, done.stderr)
    return json.loads(done.stderr.strip().splitlines()[-1])


def test_a_busy_port_is_said(server, tmp_path):
    error = last_error(up(tmp_path / "other", server.address))
    assert error["error"] == "ALREADY_EXISTS", error
    assert server.address.split(":")[1] in error["message"], error


def test_a_data_directory_has_one_server(server):
    error = last_error(up(server.data_dir, "127.0.0.1:0"))
    assert error["error"] == "FAILED_PRECONDITION", error
    assert "another process" in error["message"], error


def test_a_command_beside_another_one_without_a_server_says_what_to_do(tmp_path):
    other = metasrv.Metasrv(tmp_path / "data")
    done = subprocess.run([LAKE, "table", "list", "--data-dir", tmp_path / "data"], text=True,
                          capture_output=True, env=clean_environment(), timeout=60)
    assert done.returncode == 1
    assert "lake up" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert other.stop() == 0


@pytest.mark.parametrize("variable, value", [
    ("LAKE_QUERY_MAX_CONCURRENT", "many"),
    ("LAKE_QUERY_TICKET_TTL_SECS", "3601"),
    ("LAKE_QUERY_TICKET_TTL_SECS", "0"),
    ("LAKE_SHUTDOWN_GRACE_MS", "0"),
    ("LAKE_APPEND_OPERATION_RETENTION_SECS", "-1"),
    ("LAKE_ALLOW_INSECURE", "perhaps"),
    ("LAKE_COMPACTION", "sometimes"),
    ("LAKE_LANCE_RETAIN_VERSIONS", "0"),
    ("LAKE_LANCE_RETAIN_VERSIONS", "10001"),
    ("LAKE_CLEANUP_GRACE_SECS", "0"),
])
def test_a_bad_setting_stops_the_start_and_is_named(tmp_path, variable, value):
    done = subprocess.run([LAKE, "up", "--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0",
                           "--json"], capture_output=True, text=True, timeout=60,
                          env=clean_environment({variable: value}))
    error = last_error(done)
    assert error["error"] == "INVALID_ARGUMENT" and variable in error["message"], error
    assert not (tmp_path / "data").exists(), "raised before any store or path is opened"


# ---- versions and incarnations ---------------------------------------------------------------------------


def test_a_statement_sees_the_version_it_was_planned_on(server):
    server.run("table", "create", "pins.t", "--column", "id:int64!")
    server.run("put", "--into", "pins.t", "--set", "id=1")
    client = flight.connect(f"grpc://{server.address}")
    planned = flight_sql.info(client, "SELECT id FROM pins.t ORDER BY id")
    server.run("put", "--into", "pins.t", "--set", "id=2")
    ticket = planned.endpoints[0].ticket
    assert flight_sql.rows(client, ticket) == [{"id": 1}]
    assert flight_sql.rows(client, ticket) == [{"id": 1}], "a ticket can be used again"
    assert flight_sql.query(client, "SELECT id FROM pins.t ORDER BY id") == [{"id": 1}, {"id": 2}]
    assert flight_sql.query(client, "SELECT id FROM pins.t AT (VERSION => 2)") == [{"id": 1}]


def test_compaction_keeps_the_rows_and_what_was_pinned(server):
    server.run("table", "create", "pins.small", "--column", "id:int64!")
    for i in range(4):
        server.run("put", "--into", "pins.small", "--set", f"id={i}")
    client = flight.connect(f"grpc://{server.address}")
    sql = "SELECT id FROM pins.small ORDER BY id"
    planned = flight_sql.info(client, sql)
    expected = [{"id": i} for i in range(4)]
    assert flight_sql.query(client, sql) == expected
    compacted = json.loads(server.run("table", "compact", "pins.small", "--json").stdout)
    assert compacted == {"compacted": "pins.small", "version": 6, "fragments_removed": 4,
                         "fragments_added": 1, "rows_rewritten": 4, "rows_dropped": 0}
    again = server.run("table", "compact", "pins.small")
    assert again.stdout == "pins.small has nothing to compact, version 6\n"
    assert flight_sql.rows(client, planned.endpoints[0].ticket) == expected
    assert flight_sql.query(client, sql) == expected
    path = metasrv.dataset_path(server.data_dir, "pins.small")
    lance.dataset(path).delete("id = 2")
    compacted = json.loads(server.run("table", "compact", "pins.small", "--json").stdout)
    assert (compacted["version"], compacted["rows_dropped"]) == (8, 1)
    assert flight_sql.query(client, sql) == [{"id": 0}, {"id": 1}, {"id": 3}]
    lance.dataset(path).validate()
    missing = failure(server, "table", "compact", "pins.missing")
    assert "pins.missing" in json.dumps(missing), missing


def test_a_pin_to_a_dropped_table_never_reads_the_new_one(server):
    server.run("table", "create", "pins.again", "--column", "id:int64!")
    server.run("put", "--into", "pins.again", "--set", "id=1")
    client = flight.connect(f"grpc://{server.address}")
    planned = flight_sql.info(client, "SELECT id FROM pins.again")
    server.run("table", "drop", "pins.again")
    with pytest.raises(pa.ArrowKeyError, match="no table"):
        flight_sql.info(client, "SELECT id FROM pins.again")
    server.run("table", "create", "pins.again", "--column", "id:int64!")
    server.run("put", "--into", "pins.again", "--set", "id=7700770077")
    try:
        assert flight_sql.rows(client, planned.endpoints[0].ticket) == [{"id": 1}]
    except pa.ArrowException as refused:
        assert "7700770077" not in str(refused)
    assert flight_sql.query(client, "SELECT id FROM pins.again") == [{"id": 7700770077}]


def test_a_long_statement_says_its_schema_within_a_second(server):
    client = flight.connect(f"grpc://{server.address}")
    sql = ("SELECT count(*) AS n FROM range(1000000) a, range(1000000) b "
           "WHERE (a.range * b.range) % 7 = 8")
    ticket = flight_sql.info(client, sql).endpoints[0].ticket
    started = time.monotonic()
    reader = client.do_get(ticket)
    assert reader.schema.names == ["n"]
    assert time.monotonic() - started < 1
    reader.cancel()


def test_case_Q08_a_broken_engine_is_replaced(tmp_path):
    env = {"LAKE_LOG": "error", "LAKE_FAULT": "sql.engine.breaks:100:error"}
    with LakeServer(tmp_path / "data", env=env) as server:
        client = flight.connect(f"grpc://{server.address}")
        kept = flight_sql.info(client, "SELECT 'kept' AS n").endpoints[0].ticket
        assert flight_sql.rows(client, kept) == [{"n": "kept"}]
        sql = "SELECT i FROM range(3000000) t(i)"
        stream = client.do_get(flight_sql.info(client, sql).endpoints[0].ticket)
        count = stream.read_chunk().data.num_rows
        failed = []
        for number in range(150):
            try:
                assert flight_sql.query(client, f"SELECT {number} AS n") == [{"n": number}]
            except pa.ArrowException as error:
                failed.append((number, error))
        # The statement that broke the engine fails, the 100th that ran, and nobody else's.
        assert [number for number, _ in failed] == [97], failed
        assert isinstance(failed[0][1], flight.FlightInternalError), failed
        assert flight_sql.rows(client, kept) == [{"n": "kept"}]
        assert count + sum(chunk.data.num_rows for chunk in stream) == 3000000
        assert [entry["msg"] for entry in server.log_messages()
                if "engine" in entry["msg"]] == ["the SQL engine broke at a statement and was replaced"]


# ---- stopping and dying -------------------------------------------------------------------------------------


def test_case_F11_sigterm_lets_a_running_statement_end(tmp_path):
    server = LakeServer(tmp_path / "data", env={"LAKE_LOG": "warn"})
    client = flight.connect(f"grpc://{server.address}")
    sql = "SELECT i, i * 2.0 AS x FROM range(3000000) t(i)"
    reader = client.do_get(flight_sql.info(client, sql).endpoints[0].ticket)
    rows = reader.read_chunk().data.num_rows
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    rows += sum(chunk.data.num_rows for chunk in reader)
    assert rows == 3000000
    assert server.process.wait(timeout=60) == 0, server.log_text()
    server.stop()


def test_case_F11_a_second_sigterm_stops_at_once(tmp_path):
    server = LakeServer(tmp_path / "data", env={"LAKE_LOG": "warn"})
    client = flight.connect(f"grpc://{server.address}")
    sql = "SELECT count(*) FROM range(100000) a, range(10000000) b WHERE (a.range * b.range) % 7 = 8"
    ticket = flight_sql.info(client, sql).endpoints[0].ticket
    outcome = []

    def read():
        try:
            outcome.append(client.do_get(ticket).read_all())
        except pa.ArrowException as ended:
            outcome.append(ended)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    time.sleep(1)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert server.process.poll() is None
    started = time.monotonic()
    assert server.stop() == 1, "calls had to be cancelled: that is an error"
    assert time.monotonic() - started < 10
    reader.join(timeout=30)
    assert len(outcome) == 1 and isinstance(outcome[0], pa.ArrowException), outcome


def test_kill_9_of_everything_loses_no_acknowledged_row(tmp_path):
    data = tmp_path / "data"
    path = tmp_path / "rows.parquet"
    acknowledged = 0
    server = LakeServer(data, env={"LAKE_LOG": "warn"})
    server.run("table", "create", "t.rows", "--column", "id:int64!")
    for round_number in range(6):
        for _ in range(3):
            pq.write_table(pa.table({"id": [acknowledged]}), path)
            importing = subprocess.Popen(
                [LAKE, "import", "t.rows", path, "--addr", server.address, "--json"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=clean_environment())
            if importing.wait() == 0:
                acknowledged += 1
        server.process.send_signal(signal.SIGKILL)
        server.stop()
        server = LakeServer(data, env={"LAKE_LOG": "warn"})
        rows = json.loads(server.run("sql", "SELECT id FROM t.rows ORDER BY id", "--json").stdout)
        assert [row["id"] for row in rows] == list(range(acknowledged)), round_number
    table = lance.dataset(str(data / "tables" / "t" / "rows.lance"))
    assert sorted(table.to_table()["id"].to_pylist()) == list(range(acknowledged))
    assert acknowledged == 18
    assert server.stop() == 0
