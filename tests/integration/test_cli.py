"""The command line as its users meet it: help, exit codes, errors, formats, pipes and terminals."""

import csv
import decimal
import fcntl
import hashlib
import io
import json
import os
import pty
import re
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import time

import lance
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import arrow_views
from lake_server import LAKE, LakeServer, clean_environment


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LakeServer(tmp_path_factory.mktemp("cli"), env={"LAKE_LOG": "warn"}) as running:
        yield running


def lake(*arguments, env=None, stdin=None):
    return subprocess.run([LAKE, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          input=stdin, env=clean_environment(env))


def error_of(done):
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stderr)


# ---- help, usage, exit codes ------------------------------------------------------------------------

COMMANDS = ["up", "meta", "query", "table", "client", "sql", "import", "put", "get", "cat"]


def test_help_lists_every_command_and_each_explains_itself():
    overview = lake("--help")
    assert overview.returncode == 0 and overview.stderr == ""
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", overview.stdout, re.M), command
        done = lake(command, "--help")
        assert done.returncode == 0 and done.stderr == ""
        assert done.stdout.startswith(f"Usage: lake {command}"), command
        assert "Example" in done.stdout, command
        assert lake(command, "-h").stdout == done.stdout
    assert lake("table", "create", "--help").stdout == lake("table", "--help").stdout


def test_options_in_help_are_options():
    """Every --option that a help text names is taken by that command (or says what it needs)."""
    common = set(re.findall(r"^  (--[a-z-]+)", lake("--help").stdout, re.M))
    for command in COMMANDS:
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", lake(command, "--help").stdout))
        for option in (named | common) - {"--help", "--version"}:
            verbs = {"table": ["create", "delete", "update", "history", "branch create", "cleanup"],
                     "client": ["create-table"]}.get(command, [None])
            done = [lake(command, *(verb or "").split(), option, "x", "--nonsense")
                    for verb in verbs]
            assert all(each.returncode == 2 for each in done), (command, option)
            assert not all(f"there is no option {option}" in each.stderr
                           for each in done), (command, option)


def test_version_everywhere():
    assert re.fullmatch(r"lake \d+\.\d+\.\d+\n", lake("--version").stdout)
    assert lake("sql", "--version").stdout == lake("--version").stdout


@pytest.mark.parametrize("arguments, said", [
    ([], "Usage"),
    (["frobnicate"], "no command frobnicate"),
    (["--nope"], "no option --nope"),
    (["sql", "--nope"], "no option --nope"),
    (["sql", "SELECT 1", "--format"], "--format needs a value"),
    (["sql", "SELECT 1", "--json=yes"], "takes no value"),
    (["sql", "SELECT 1", "--format", "xml"], "table, csv, json or arrow"),
    (["sql", "SELECT 1", "SELECT 2"], "one statement"),
    (["table"], "what? lake table --help"),
    (["table", "frob"], "no lake table frob"),
    (["table", "create", "a.b"], "--column"),
    (["table", "describe"], "which table"),
    (["table", "drop", "a.b", "c.d"], "unexpected argument c.d"),
    (["client", "create-table", "a.b"], "--addr"),
    (["import", "a.b"], "at least one file"),
    (["put"], "give a file"),
    (["put", "--into", "a.b"], "give a file"),
    (["put", "--into", "a.b", "--set", "x"], "column=value"),
    (["get", "SELECT 1"], "-o"),
    (["up", "now"], "unexpected argument now"),
    (["up", "--listen", "here"], "--listen takes HOST:PORT"),
    (["meta", "--listen", "127.0.0.1:70000"], "--listen takes HOST:PORT"),
    (["sql", "SELECT 1", "--addr", "here"], "--addr takes HOST:PORT"),
    (["sql", "SELECT 1", "--token-file="], "--token-file needs a value"),
    (["table", "create", "a.b", "--column", "x:nope"], "a type expected"),
    (["table", "create", "a.b", "--column", "x"], "x"),
    (["table", "create", "a.b", "--column", "x:int8", "--profile", "best"], "balanced, fast or small"),
    (["table", "create", "ab", "--column", "x:int8"], "namespace.table"),
    (["table", "describe", "a.b.c"], "namespace.table"),
    (["table", "history", "a.b", "--limit", "257"], "1 to 256"),
    (["table", "history", "a.b", "--limit", "0"], "number from 1"),
    (["table", "history", "a.b", "--before", "-1"], "number from 1"),
    (["table", "history", "a.b", "--limit", "99999999999999999999"], "number from 1"),
    (["table", "restore", "a.b", "1", "--operation-id", "7"], "UUIDv7"),
    (["table", "diff", "a.b", "1"], "which"),
    (["table", "cleanup", "a.b", "--keep", "-3"], "number from 1"),
    (["table", "cleanup", "a.b", "--older-than", "5"], "a number and s, m, h, d or w"),
    (["table", "delete", "a.b", "--where", "true", "--operation-id", "x"], "UUIDv7"),
    (["table", "delete", ".b", "--where", "true"], "namespace.table"),
    (["import", "ab", "x.csv"], "namespace.table"),
    (["import", "a.b", "x.csv", "--from", "xml"], "parquet, csv, json or arrow"),
    (["put", "--into", "ab", "--set", "x=1"], "namespace.table"),
    (["lance", "take", "x.lance"], "--rows or --row-ids"),
    (["lance", "take", "x.lance", "--rows", "1", "--row-ids", "1"], "--rows or --row-ids"),
    (["lance", "take", "x.lance", "--rows", "-1"], "--rows takes numbers"),
    (["lance", "take", "x.lance", "--rows", ""], "--rows needs a value"),
    (["lance", "take", "x.lance", "--rows", "1,"], "--rows takes numbers"),
    (["lance", "take", "x.lance", "--row-ids", ",1"], "--row-ids takes numbers"),
    (["lance", "take", "x.lance", "--rows", "99999999999999999999"], "--rows takes numbers"),
    (["lance", "cat", "x.lance", "--columns", "a,,b"], "--columns takes names"),
    (["lance", "cat", "x.lance", "--filter", "  "], "--filter takes a predicate"),
    (["lance", "cat", "x.lance", "--version", "-1"], "--version takes a number"),
    (["lance", "cat", "x.lance", "--tag", "t", "--version", "1"], "a tag names a version"),
    (["lance", "cat", "x.lance", "--format", "xml"], "table, csv, json or arrow"),
    (["lance", "write", "x.lance", "-", "--mode", "nope"], "create, append or overwrite"),
    (["lance", "write", "x.lance", "-", "--data-format", "2.0"], "2.1 or 2.2"),
    (["lance", "write", "x.lance", "-", "--profile", "nope"], "balanced, fast or small"),
])
def test_wrong_usage_exits_with_2_and_says_why(arguments, said):
    done = lake(*arguments)
    assert done.returncode == 2, done
    assert said in done.stderr
    assert done.stdout == "" and (not arguments or done.stderr.count("\n") == 1)


def test_what_follows_two_dashes_is_no_option(server):
    done = server.run("sql", "--format", "csv", "--", "-- a comment first\nSELECT 7 AS seven",
                      check=False)
    # the data directory comes after it, and is taken as a second statement
    assert done.returncode == 2
    done = lake("sql", "--addr", server.address, "--format", "csv", "--",
                "-- a comment first\nSELECT 7 AS seven")
    assert done.stdout == "seven\n7\n"


def test_a_table_keeps_the_profile_it_was_created_with(server, tmp_path):
    """Noise in a few digits: Zstandard sees what bit packing and LZ4 do not."""
    rows = tmp_path / "rows.csv"
    rows.write_text("x\n" + "".join(f"{(i * 7919 % 1000) / 8}\n" for i in range(20000)))
    sizes = {}
    for profile in ("fast", "balanced", "small"):
        created = lake("table", "create", f"profiles.{profile}", "--column", "x:float",
                       "--profile", profile, "--addr", server.address)
        assert created.returncode == 0, created.stderr
        done = lake("import", f"profiles.{profile}", rows, "--addr", server.address)
        assert done.returncode == 0, done.stderr
        described = lake("table", "describe", f"profiles.{profile}", "--json", "--addr",
                         server.address)
        location = json.loads(described.stdout)["location"].removeprefix("file://")
        sizes[profile] = sum(os.path.getsize(os.path.join(location, "data", name))
                             for name in os.listdir(os.path.join(location, "data")))
    assert sizes["small"] < sizes["balanced"] < sizes["fast"], sizes
    wrong = lake("table", "create", "profiles.none", "--column", "x:float", "--profile", "tiny",
                 "--addr", server.address)
    assert wrong.returncode == 2 and "balanced, fast or small, not tiny" in wrong.stderr


def test_errors_are_json_when_asked(server):
    for arguments in (["sql", "SELECT nope"], ["table", "describe", "no.such"],
                      ["put", "/no/such/file"], ["get", "SELECT 1 AS x", "-o", "-"],
                      ["import", "no.such", "/no/such.parquet"],
                      ["table", "create", "a.b", "--column", "x:decimal(39, 0)"]):
        done = server.run(*arguments, "--json", check=False)
        error = error_of(done)
        assert set(error) <= {"error", "message", "cause"} and error["message"], arguments
        plain = server.run(*arguments, check=False)
        assert plain.returncode == 1 and plain.stderr.startswith("lake: "), arguments
        assert plain.stdout == ""


def test_nobody_at_the_address_is_said_at_once():
    started = time.monotonic()
    error = error_of(lake("sql", "SELECT 1", "--addr", "127.0.0.1:1", "--json"))
    assert error["error"] == "UNAVAILABLE" and "127.0.0.1:1" in error["message"]
    assert time.monotonic() - started < 20


def test_a_token_is_never_printed(server, tmp_path):
    token = tmp_path / "token"
    token.write_text("s3cr3t-token\n")
    done = lake("sql", "SELECT 1", "--addr", server.address, "--token-file", token)
    assert done.returncode in (0, 1) and "s3cr3t" not in done.stdout + done.stderr
    token.chmod(0o644)
    done = lake("sql", "SELECT 1", "--addr", server.address, "--token-file", token)
    assert done.returncode == 1 and "s3cr3t" not in done.stderr and str(token) in done.stderr


def test_commands_work_without_a_server(tmp_path):
    def local(*arguments):
        return lake(*arguments, "--data-dir", tmp_path / "data")
    assert local("table", "create", "a.b", "--column", "x:int64").returncode == 0
    assert local("put", "--into", "a.b", "--set", "x=5").returncode == 0
    assert json.loads(local("sql", "SELECT x FROM a.b", "--json").stdout) == [{"x": 5}]
    assert json.loads(local("table", "list", "--json").stdout) == ["a.b"]
    described = json.loads(local("table", "describe", "a.b", "--json").stdout)
    assert described["version"] == 2
    assert described["columns"] == [{"name": "x", "type": "int64", "nullable": True}]
    assert local("table", "drop", "a.b").returncode == 0
    assert local("table", "list").stdout == ""


# ---- how values are printed -----------------------------------------------------------------------------


def rows_as(server, form, sql):
    """Standard output as it is, line ends included."""
    done = subprocess.run([LAKE, "sql", "--addr", server.address, "--format", form, "--", sql],
                          capture_output=True, timeout=120, env=clean_environment())
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.mark.parametrize("expression", [
    "0.1::DOUBLE", "1::DOUBLE", "-0.0::DOUBLE", "1e15::DOUBLE", "1e16::DOUBLE", "123456789.125::DOUBLE",
    "1e-4::DOUBLE", "1e-5::DOUBLE", "0.5::DOUBLE", "1e300::DOUBLE", "5e-324::DOUBLE",
    "2.2250738585072014e-308::DOUBLE", "1.7976931348623157e308::DOUBLE", "3.141592653589793::DOUBLE",
    "1e6::FLOAT", "0.1::FLOAT", "16777216::FLOAT", "123456.789::FLOAT", "1e-10::FLOAT",
    "'inf'::DOUBLE", "'-inf'::DOUBLE", "'nan'::DOUBLE",
    "9223372036854775807", "-9223372036854775808", "18446744073709551615::UBIGINT",
    "12345678901234567890123456789012345678::HUGEINT", "(-1)::TINYINT",
    "0.00::DECIMAL(10,2)", "-0.05::DECIMAL(10,2)", "12345.678::DECIMAL(38,3)", "-1::DECIMAL(4,0)",
    "DATE '1969-12-31'", "DATE '0001-01-01'", "DATE '0044-03-15 (BC)'", "DATE '9999-12-31'",
    "TIMESTAMP '1969-12-31 23:59:59.999999'", "TIMESTAMP '1970-01-01 00:00:00'",
    "TIMESTAMP '1900-02-28 12:34:56.5'", "TIMESTAMP_S '1969-12-31 23:59:59'",
    "TIMESTAMP_MS '1969-12-31 23:59:59.001'", "TIMESTAMP_NS '1969-12-31 23:59:59.000000001'",
    "TIMESTAMPTZ '1969-12-31 23:59:59.25+00'", "TIME '00:00:00'", "TIME '23:59:59.000001'",
    "INTERVAL '1 year 2 months 3 days'", "INTERVAL '-1 month'", "INTERVAL '36:00:01.5'",
    "INTERVAL '-3 hours'", "INTERVAL '0 days'",
    "true", "false", "'plain'", "'6f8e0d7a-3a52-4c42-a1d4-2f1f4ac5a1c5'::UUID",
])
def test_scalars_read_as_the_engine_casts_them_to_text(server, expression):
    """Two columns, the value and its text by the engine, must be the same text."""
    printed = list(csv.reader(io.StringIO(rows_as(
        server, "csv", f"SELECT {expression} AS value, ({expression})::VARCHAR AS expected"))))
    assert printed[0] == ["value", "expected"]
    assert printed[1][0] == printed[1][1]


def test_json_is_exact_for_python(server):
    sql = ("SELECT 9007199254740993 AS big, 0.1::DOUBLE AS tenth, 1e16::DOUBLE AS large, 5e-324::DOUBLE "
           "AS tiny, 0.1::FLOAT AS single, 'nan'::DOUBLE AS none, 1.50::DECIMAL(4,2) AS price, "
           "'a\"b\\c' || chr(10) || chr(9) || chr(1) || 'é漢🤖' AS text, NULL AS nothing, "
           "'\\xFF\\x00ab'::BLOB AS bytes, [1, NULL, 3] AS list, {'x': 1, 'y': [{'z': 'q'}]} AS nested, "
           "MAP {'k': 1} AS map, DATE '1969-12-31' AS day, true AS yes, "
           "TIMESTAMP '1969-12-31 23:59:59.5' AS at, INTERVAL '1 day' AS span")
    row, = json.loads(rows_as(server, "json", sql), parse_float=str)
    assert row["big"] == 9007199254740993
    assert float(row["tenth"]) == 0.1 and float(row["large"]) == 1e16 and float(row["tiny"]) == 5e-324
    assert row["single"] == "0.1" and row["price"] == "1.50"
    assert row["none"] is None and row["nothing"] is None
    assert row["text"] == 'a"b\\c\n\t\x01é漢🤖'
    assert bytes.fromhex(row["bytes"]) == b"\xff\x00ab"
    assert row["list"] == [1, None, 3]
    assert row["nested"] == {"x": 1, "y": [{"z": "q"}]}
    assert row["map"] == [{"key": "k", "value": 1}]
    assert row["day"] == "1969-12-31" and row["at"] == "1969-12-31 23:59:59.5"
    assert row["yes"] is True and row["span"] == "1 day"


def test_json_of_no_rows_is_an_empty_list(server):
    assert rows_as(server, "json", "SELECT 1 AS x WHERE false") == "[]\n"
    assert rows_as(server, "csv", "SELECT 1 AS x WHERE false") == "x\n"
    assert rows_as(server, "table", "SELECT 1 AS x WHERE false") == "x\n─\n"


def test_csv_survives_quotes_commas_and_line_ends(server):
    texts = ["plain", "with, comma", 'with "quotes"', "two\nlines", "cr\rhere", "", " spaces ", "é漢"]
    values = ", ".join(f"({i}, '{t}')" for i, t in enumerate(texts))
    printed = rows_as(server, "csv", f"SELECT i, t AS \"a,b\" FROM (VALUES {values}) v(i, t) ORDER BY i")
    parsed = list(csv.reader(io.StringIO(printed, newline="")))
    assert parsed[0] == ["i", "a,b"]
    assert [row[1] for row in parsed[1:]] == texts
    printed = rows_as(server, "csv", "SELECT NULL AS a, '' AS b, [1, 2] AS c")
    assert printed == 'a,b,c\n,"","[1,2]"\n'


def test_csv_reads_back_through_import(server, tmp_path):
    server.run("table", "create", "csv.back", "--column", "i:int64!", "--column", "t:utf8",
               "--column", "x:double", "--column", "at:timestamp[us]")
    source = ("SELECT i, CASE WHEN i % 5 = 0 THEN NULL WHEN i % 5 = 1 THEN '' ELSE 'a\"b,' || i END AS t, "
              "sin(i) AS x, TIMESTAMP '1969-12-31 23:59:00.25' + to_seconds(i) AS at FROM range(100) r(i)")
    (tmp_path / "rows.csv").write_bytes(rows_as(server, "csv", source).encode())
    server.run("import", "csv.back", tmp_path / "rows.csv")
    difference = f"(({source}) EXCEPT (FROM csv.back)) UNION ALL ((FROM csv.back) EXCEPT ({source}))"
    assert rows_as(server, "json", difference) == "[]\n"


def test_arrow_output_is_a_stream_that_pyarrow_reads(server):
    done = subprocess.run([LAKE, "sql", "SELECT i, i::VARCHAR AS t FROM range(200000) r(i)", "--format",
                           "arrow", "--addr", server.address], capture_output=True, timeout=120,
                          env=clean_environment())
    table = pa.ipc.open_stream(done.stdout).read_all()
    assert table.num_rows == 200000
    assert table["i"].to_pylist() == list(range(200000))
    assert table["t"][199999].as_py() == "199999"


def test_columns_are_aligned_by_what_a_terminal_shows(server):
    printed = rows_as(server, "table",
                      "SELECT * FROM (VALUES ('a', 1), ('漢字', 22), ('é', 333), ('e' || chr(769), 4), "
                      "('🤖', 5)) v(name, n)")
    assert printed.splitlines() == [
        "name    n", "────  ───", "a       1", "漢字   22", "é     333", "e\u0301       4", "🤖      5"]


def test_nothing_that_a_terminal_obeys_is_printed(server):
    sql = "SELECT 'a' || chr(27) || '[31m' || chr(7) || chr(155) || chr(127) AS \"h\x1b[1m\", 'x\ny' AS z"
    printed = rows_as(server, "table", sql)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", printed)
    assert len(printed.splitlines()) == 3
    done = server.run("sql", "SELECT '\x1b[31m'::INTEGER", check=False)
    assert done.returncode == 1 and "\x1b" not in done.stderr


def test_long_texts_are_cut_in_tables_only(server):
    assert len(rows_as(server, "table", "SELECT repeat('x', 1000) AS t").splitlines()[2]) == 120
    assert rows_as(server, "table", "SELECT repeat('x', 1000) AS t").splitlines()[2].endswith("…")
    assert rows_as(server, "csv", "SELECT repeat('x', 1000) AS t").splitlines()[1] == "x" * 1000


def test_a_file_reads_as_what_it_is(server, tmp_path):
    server.run("table", "create", "print.files", "--column", "video:FILE")
    (tmp_path / "v.mp4").write_bytes(b"x" * 2500)
    server.run("put", "--into", "print.files", "--file", f"video={tmp_path / 'v.mp4'}")
    assert rows_as(server, "table", "SELECT video FROM print.files").splitlines()[2] == "video/mp4 2.5 kB"
    value = json.loads(rows_as(server, "csv", "SELECT video FROM print.files").splitlines()[1]
                       .strip('"').replace('""', '"'))
    assert value["size_bytes"] == 2500 and value["uri"].startswith("file://")


def test_a_statement_can_come_from_standard_input(server):
    done = lake("sql", "--addr", server.address, "--format", "csv", stdin="SELECT 1 AS x;\n")
    assert done.stdout == "x\n1\n"


# ---- pipes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["table", "csv", "json", "arrow"])
def test_a_reader_that_has_enough_ends_it_quietly(server, form):
    """The result is endless: only the closed pipe can end the command."""
    process = subprocess.Popen(
        [LAKE, "sql", "SELECT a.range FROM range(10000000) a, range(10000000) b", "--format", form,
         "--addr", server.address], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=clean_environment())
    assert process.stdout.read(10)
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_a_full_disk_is_no_closed_pipe(server):
    with open("/dev/full", "w") as full:
        done = subprocess.run([LAKE, "sql", "SELECT range FROM range(100000)", "--format", "csv",
                               "--addr", server.address], stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=60, env=clean_environment())
    assert done.returncode == 1
    assert "No space left" in done.stderr


@pytest.mark.parametrize("command", ["--version", "--help", "table --help", "table list --json",
                                     "lance stat DATASET", "lance verify DATASET", "inspect DATASET",
                                     "inspect DATASET --json", "lance cat DATASET --format csv",
                                     "lance cat DATASET --format table"])
def test_what_did_not_arrive_was_not_done(server, tmp_path, command):
    """Also where it is little, and where digits are found by trial between two writes."""
    dataset = tmp_path / "doubles.lance"
    values = [1e308, 5e-324, 0.1] * 20000
    lance.write_dataset(pa.table({"x": pa.array(values, pa.float64())}), dataset)
    words = command.replace("DATASET", str(dataset)).split()
    with open("/dev/full", "w") as full:
        done = subprocess.run([LAKE, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                              env=clean_environment({"LAKE_ADDR": server.address}))
    assert done.returncode == 1
    assert "cannot write the result: No space left on device" in done.stderr


def test_no_file_becomes_a_closed_standard_output(tmp_path):
    """Nor any socket: what a server prints and logs went into whatever was opened first. (What a
    library opens before main takes the first of them, here the input.)"""
    data_dir = tmp_path / "data"
    process = subprocess.Popen(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", str(LAKE), "up", "--data-dir", str(data_dir),
         "--listen", "127.0.0.1:0"], env=clean_environment())
    try:
        end = time.time() + 60
        while not (data_dir / "server.json").exists() and time.time() < end:
            time.sleep(0.05)
        assert [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in (1, 2)] == ["/dev/null"] * 2
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0


def test_an_error_is_said_although_nobody_reads_the_output(server):
    process = subprocess.Popen([LAKE, "sql", "SELECT nope", "--addr", server.address],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    assert b"nope" in process.stderr.read()
    process.stderr.close()


# ---- files into tables ------------------------------------------------------------------------------------


def json_rows(server, sql):
    return json.loads(rows_as(server, "json", sql))


def import_error(server, *arguments):
    return error_of(server.run("import", *arguments, "--json", check=False))


WIDE = pa.table({"id": pa.array(range(25000), pa.int64()),
                 "name": pa.array([None if i % 7 == 0 else f"row {i}" for i in range(25000)]),
                 "x": pa.array([i / 8 for i in range(25000)], pa.float64())})


def write_files(directory):
    pq.write_table(WIDE, directory / "rows.parquet", row_group_size=7000)
    feather.write_feather(WIDE, directory / "rows.feather", compression="lz4", chunksize=6000)
    for name, options in (("rows.arrow", None),
                          ("zstd.arrow", pa.ipc.IpcWriteOptions(compression="zstd")),
                          ("lz4.arrow", pa.ipc.IpcWriteOptions(compression="lz4"))):
        with pa.ipc.new_file(str(directory / name), WIDE.schema, options=options) as writer:
            writer.write_table(WIDE)
    with pa.ipc.new_stream(str(directory / "rows.arrows"), WIDE.schema) as writer:
        writer.write_table(WIDE, max_chunksize=4000)
    with open(directory / "rows.csv", "w") as out:
        out.write("id,name,x\n")
        for row in WIDE.to_pylist():
            out.write(f"{row['id']},{row['name'] or ''},{row['x']}\n")
    with open(directory / "rows.jsonl", "w") as out:
        for row in WIDE.to_pylist():
            out.write(json.dumps(row) + "\n")


def test_every_kind_of_file_gives_the_same_rows_10_000_a_version(server, tmp_path):
    write_files(tmp_path)
    for path in sorted(tmp_path.iterdir()):
        table = f"kinds.{path.stem}_{path.suffix[1:]}"
        server.run("table", "create", table, "--column", "id:int64", "--column", "name:utf8",
                   "--column", "x:double")
        done = json.loads(server.run("import", table, path, "--json").stdout)
        assert done == {"rows": 25000, "version": 4}, path
        assert json_rows(server, f"SELECT count(*) AS n, sum(id)::BIGINT AS ids, sum(x) AS x, "
                                 f"count(name) AS names, max(name) AS last FROM {table}") == [
            {"n": 25000, "ids": 312487500, "x": 39060937.5, "names": 21428, "last": "row 9999"}], path
        assert json_rows(server, f"SELECT count(*) AS n FROM {table} WHERE x <> id / 8 OR "
                                 f"name IS DISTINCT FROM CASE WHEN id % 7 <> 0 THEN 'row ' || id END") == [
            {"n": 0}], path


def write_arrow(path, table):
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    return path


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "jsonl"])
def test_columns_go_by_name_and_missing_ones_become_null(server, tmp_path, suffix):
    table = f"names.t_{suffix}"
    server.run("table", "create", table, "--column", "a:int64!", "--column", "b:int64",
               "--column", "c:utf8")
    path = tmp_path / f"rows.{suffix}"
    rows = pa.table({"b": pa.array([10, 20], pa.int64()), "A": pa.array([1, 2], pa.int64())})
    if suffix == "parquet":
        pq.write_table(rows, path)
    elif suffix == "arrow":
        write_arrow(path, rows)
    elif suffix == "csv":
        path.write_text("b,A\n10,1\n20,2\n")
    else:
        path.write_text('{"b": 10, "A": 1}\n{"b": 20, "A": 2}\n')
    server.run("import", table, path)
    assert json_rows(server, f"SELECT * FROM {table} ORDER BY a") == [
        {"a": 1, "b": 10, "c": None}, {"a": 2, "b": 20, "c": None}]
    if suffix == "csv":
        path.write_text("b\n10\n")
    elif suffix == "jsonl":
        path.write_text('{"b": 10}\n')
    elif suffix == "arrow":
        write_arrow(path, rows.select(["b"]))
    else:
        pq.write_table(rows.select(["b"]), path)
    error = import_error(server, table, path)
    assert error["error"] == "INVALID_ARGUMENT", error
    assert "column a is missing" in error["message"] and path.name in error["message"], error


def test_arrow_types_that_lose_nothing_are_converted(server, tmp_path):
    server.run("table", "create", "convert.ok", "--column", "i:int32", "--column", "u:uint64",
               "--column", "x:double", "--column", "s:utf8", "--column", "k:utf8", "--column", "b:binary",
               "--column", "v:float[2]")
    source = pa.table({
        "i": pa.array([1, None, -2147483648], pa.int64()), "u": pa.array([0, 1, None], pa.uint8()),
        "x": pa.array([0.1, None, float("inf")], pa.float32()),
        "s": pa.array(["a", None, "ccc"], pa.large_utf8()),
        "k": pa.array(["q", None, "q"]).dictionary_encode(),
        "b": pa.array([b"ab", None, b"cd"], pa.binary(2)),
        "v": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.float32(), 2))})
    write_arrow(tmp_path / "ok.arrow", source.slice(0, 2))
    write_arrow(tmp_path / "more.arrow", source.slice(2, 1))
    server.run("import", "convert.ok", tmp_path / "ok.arrow", tmp_path / "more.arrow")
    rows = json_rows(server, "SELECT * FROM convert.ok")
    assert [row["i"] for row in rows] == [1, None, -2147483648]
    assert [row["u"] for row in rows] == [0, 1, None]
    assert rows[0]["x"] == pytest.approx(0.1, rel=1e-7) and rows[1]["x"] is None
    assert [row["s"] for row in rows] == ["a", None, "ccc"]
    assert [row["k"] for row in rows] == ["q", None, "q"]
    assert [row["b"] for row in rows] == [b"ab".hex(), None, b"cd".hex()]
    assert [row["v"] for row in rows] == [[1, 2], None, [3, 4]]


@pytest.mark.parametrize("column, said", [
    (pa.array([1.5, 2.5]), "column i is double in the file and int32 in the table"),
    (pa.array(["1", "2"]), "column i is utf8"),
    (pa.array([1, 2**31], pa.int64()), "column i: a value does not fit"),
    (pa.array([1, 2], pa.timestamp("us")), "column i is timestamp[us]"),
])
def test_arrow_types_that_may_lose_something_are_refused(server, tmp_path, column, said):
    server.run("table", "create", "convert.bad", "--column", "i:int32", check=False)
    error = import_error(server, "convert.bad", write_arrow(tmp_path / "bad.arrow", pa.table({"i": column})))
    assert error["error"] == "INVALID_ARGUMENT" and said in error["message"], error
    assert "bad.arrow" in error["message"]
    assert json_rows(server, "SELECT count(*) AS n FROM convert.bad") == [{"n": 0}]


def test_nulls_for_a_column_without_them_are_refused(server, tmp_path):
    server.run("table", "create", "convert.required", "--column", "i:int64!")
    write_arrow(tmp_path / "nulls.arrow", pa.table({"i": pa.array([1, None], pa.int64())}))
    error = import_error(server, "convert.required", tmp_path / "nulls.arrow")
    assert error["error"] == "INVALID_ARGUMENT" and "not null" in error["message"], error


def test_a_column_that_the_table_lacks_is_named(server, tmp_path):
    server.run("table", "create", "convert.extra", "--column", "i:int64")
    for path in (write_arrow(tmp_path / "extra.arrow", pa.table({"i": [1], "j": [2]})),):
        error = import_error(server, "convert.extra", path)
        assert "column j is not a column of the table" in error["message"], error


def test_large_batches_and_large_rows_are_split_to_fit_an_append(server, tmp_path):
    """One batch of 100 MB; rows of 9 MB before many small ones, so that an average would mislead."""
    server.run("table", "create", "large.rows", "--column", "id:int64", "--column", "data:large_utf8")
    sizes = [9_000_000] * 9 + [10] * 20000
    rows = pa.table({"id": pa.array(range(len(sizes)), pa.int64()),
                     "data": pa.array(["x" * size for size in sizes], pa.large_utf8())})
    write_arrow(tmp_path / "large.arrow", rows.combine_chunks())
    server.run("import", "large.rows", tmp_path / "large.arrow")
    assert json_rows(server, "SELECT count(*) AS n, sum(length(data))::BIGINT AS bytes FROM large.rows") == [
        {"n": len(sizes), "bytes": sum(sizes)}]


def test_a_failure_says_how_many_rows_are_in(server, tmp_path):
    server.run("table", "create", "partly.t", "--column", "i:int32")
    values = list(range(15000)) + [2**40]
    write_arrow(tmp_path / "partly.arrow", pa.table({"i": pa.array(values, pa.int64())}))
    pq.write_table(pa.table({"i": list(range(10000))}), tmp_path / "good.parquet")
    error = import_error(server, "partly.t", tmp_path / "good.parquet", tmp_path / "partly.arrow")
    assert "10000 rows before that were imported, up to version 2" in error["message"], error
    assert json_rows(server, "SELECT count(*) AS n FROM partly.t") == [{"n": 10000}]


# Types beside those of arrow_types.py that SQL answers, with a value of each.
ODD_TYPES = {
    "null": pa.array([None], pa.null()),
    "decimal(38,38)": pa.array([decimal.Decimal("0.1")], pa.decimal128(38, 38)),
    "timestamp[us, -03:30]": pa.array([1], pa.timestamp("us", "-03:30")),
    "struct<a: null>": pa.array([{"a": None}], pa.struct([("a", pa.null())])),
    "list<null>": pa.array([[None]], pa.list_(pa.null())),
    "map<float16, utf8>": pa.array([[(np.float16(1.5), "a")]], pa.map_(pa.float16(), pa.utf8())),
    "map<utf8, duration[s]>": pa.array([[("a", 1)]], pa.map_(pa.utf8(), pa.duration("s"))),
    "int8[3][4]": pa.array([[[1, 2, 3]] * 4], pa.list_(pa.list_(pa.int8(), 3), 4)),
    "bool[9]": pa.array([[True] * 9], pa.list_(pa.bool_(), 9)),
    "float16[2]": pa.array([[np.float16(1.5)] * 2], pa.list_(pa.float16(), 2)),
    "duration[ns][2]": pa.array([[1000, 2000]], pa.list_(pa.duration("ns"), 2)),
    "fixed_size_binary[3][2]": pa.array([[b"abc", b"def"]], pa.list_(pa.binary(3), 2)),
    "int8[100000]": pa.array([[1] * 100_000], pa.list_(pa.int8(), 100_000)),
    **{f"dictionary<{key}, {value}>": pa.DictionaryArray.from_arrays(
        pa.array([0], getattr(pa, key)()), pa.array([item], kind))
       for key, value, kind, item in (
           ("uint8", "large_utf8", pa.large_utf8(), "a"), ("int16", "binary", pa.binary(), b"a"),
           ("uint64", "large_binary", pa.large_binary(), b"a"), ("int64", "int8", pa.int8(), 5),
           ("int32", "uint64", pa.uint64(), 2**63), ("int32", "float", pa.float32(), 1.5),
           ("int32", "float16", pa.float16(), np.float16(1.5)))},
}


def test_what_can_be_created_can_be_filled_and_asked_for(server, tmp_path):
    columns = [f"c{i}:{text}" for i, text in enumerate(ODD_TYPES)]
    arrays = [pa.concat_arrays([array, pa.nulls(1, array.type)])
              if not pa.types.is_dictionary(array.type) else array.take(pa.array([0, None]))
              for array in ODD_TYPES.values()]
    table = pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])
    write_arrow(tmp_path / "odd.arrow", table)
    server.run("table", "create", "t.odd", *(f"--column={column}" for column in columns))
    server.run("import", "t.odd", tmp_path / "odd.arrow")
    described = json.loads(server.run("table", "describe", "t.odd", "--json").stdout)
    assert len(described["columns"]) == len(columns)
    for name in table.column_names:
        got = json_rows(server, f"SELECT {name} FROM t.odd GROUP BY {name} ORDER BY {name}")
        assert got[-1] == {name: None}, name
        assert len(got) == (1 if name == "c0" else 2), name


@pytest.mark.parametrize("kind, text, said", [
    (pa.decimal256(39, 1), "decimal(39,1)", "decimal(38, 10)"),
    (pa.decimal128(5, -2), "decimal(5,-2)", "decimal(38, 10)"),
    (pa.timestamp("us", "Mars/Phobos"), "timestamp[us, Mars/Phobos]", "IANA"),
    (pa.list_(pa.int8(), 100_001), "int8[100001]", "at most 100000"),
    (pa.dictionary(pa.int8(), pa.date32()), "dictionary<int8, date32>", "integers or floats"),
    (pa.month_day_nano_interval(), "interval_month_day_nano", "duration[us]"),
    (pa.struct([]), None, "at least one field"),
    (pa.struct([("a", pa.list_(pa.struct([])))]), None, "column c.a.item"),
])
def test_types_that_sql_cannot_answer_are_refused_before_there_is_a_table(server, tmp_path, kind,
                                                                          text, said):
    write_arrow(tmp_path / "x.arrow", pa.table({"id": [1], "c": pa.nulls(1, kind)}))
    ways = [["import", "t.refused", tmp_path / "x.arrow", "--create"]]
    if text is not None:
        ways.append(["table", "create", "t.refused", "--column", "id:int64", "--column", f"c:{text}"])
    for way in ways:
        done = server.run(*way, check=False)
        assert done.returncode == 1 and "column c" in done.stderr and said in done.stderr, done.stderr
    assert "t.refused" not in server.run("table", "list").stdout


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_views_become_text_and_bytes(server, tmp_path, suffix):
    """Into a table that is made of them, and into others that were there."""
    views, plain = arrow_views.table(60, True), arrow_views.table(60, False)
    names = plain.column_names
    columns = ["t:large_utf8", "b:large_binary", "id:int64"]
    path = tmp_path / f"views.{suffix}"

    def write(rows):  # PyArrow writes no Parquet of slices of views
        pq.write_table(rows.combine_chunks(), path) if suffix == "parquet" else write_arrow(path, rows)

    write(views)
    server.run("import", f"views.{suffix}", path, "--create")
    write_arrow(tmp_path / "plain.arrow", plain)
    server.run("import", f"views.{suffix}_plain", tmp_path / "plain.arrow", "--create")
    server.run("import", f"views.{suffix}_plain", path)
    for name, copies in ((suffix, 1), (f"{suffix}_plain", 2)):
        described = json.loads(server.run("table", "describe", f"views.{name}", "--json").stdout)
        stored = lance.dataset(described["location"].removeprefix("file://")).to_table()
        if suffix == "arrow" or copies == 2:
            assert stored.schema.types == plain.schema.types
        assert stored.select(names).to_pylist() == plain.to_pylist() * copies, name
    server.run("table", "create", f"views.{suffix}_large",
               *(f"--column={column}" for column in columns))
    write(views.select(["t", "b", "id"]))
    server.run("import", f"views.{suffix}_large", path)
    rows = json_rows(server, f"SELECT t, id FROM views.{suffix}_large ORDER BY id")
    assert rows == plain.select(["t", "id"]).to_pylist()


def test_a_table_of_views_is_one_of_text_and_bytes(server):
    server.run("table", "create", "views.made", "--column", "t:utf8_view!",
               "--column", "l:list<struct<b: binary_view>>")
    described = json.loads(server.run("table", "describe", "views.made", "--json").stdout)
    assert [column["type"].removesuffix("!") for column in described["columns"]] == [
        "utf8", "list<struct<b: binary>>"]


def test_views_that_point_outside_a_file_are_refused(server, tmp_path):
    """Each field of a view that is not inline, damaged in the file."""
    table = pa.table({"t": pa.array(["inline", "q" * 40], pa.string_view())})
    good = write_arrow(tmp_path / "good.arrow", table).read_bytes()
    at = good.index(b"\x06\0\0\0inline\0\0\0\0\0\0") + 16
    assert good[at:at + 8] == b"\x28\0\0\0qqqq"
    server.run("import", "views.damaged", tmp_path / "good.arrow", "--create")
    for field, values in ((0, (41, -1, 2**31 - 1)), (8, (1, -1, 2**31 - 1)), (12, (1, -1, 2**31 - 1))):
        for value in values:
            bad = bytearray(good)
            struct.pack_into("<i", bad, at + field, value)
            (tmp_path / "bad.arrow").write_bytes(bad)
            error = import_error(server, "views.damaged", tmp_path / "bad.arrow")
            assert error["error"] == "INVALID_ARGUMENT" and '"t"' in error["message"], error
    assert json_rows(server, "SELECT count(*) AS n FROM views.damaged") == [{"n": 2}]


def test_create_takes_the_columns_of_the_first_file(server, tmp_path):
    write_arrow(tmp_path / "one.arrow", pa.table({"i": pa.array([1], pa.int16()), "s": ["x"]}))
    server.run("import", "made.up", tmp_path / "one.arrow", "--create")
    columns = json.loads(server.run("table", "describe", "made.up", "--json").stdout)["columns"]
    assert [(c["name"], c["type"]) for c in columns] == [("i", "int16"), ("s", "utf8")]
    error = import_error(server, "made.not", tmp_path / "one.arrow")
    assert error["error"] == "NOT_FOUND" and "--create" in error["message"]
    (tmp_path / "rows.bin").write_bytes(b"?")
    error = import_error(server, "made.up", tmp_path / "rows.bin")
    assert "--from" in error["message"]
    os.rename(tmp_path / "one.arrow", tmp_path / "one.bin")
    server.run("import", "made.up", tmp_path / "one.bin", "--from", "arrow")
    assert json_rows(server, "SELECT count(*) AS n FROM made.up") == [{"n": 2}]


@pytest.mark.parametrize("content", [b"", b"ARROW1\0\0", b"PAR1", b"FEA1 old feather", b"\xff" * 64])
def test_broken_arrow_files_are_refused(server, tmp_path, content):
    server.run("table", "create", "broken.t", "--column", "i:int64", check=False)
    (tmp_path / "broken.arrow").write_bytes(content)
    error = import_error(server, "broken.t", tmp_path / "broken.arrow")
    assert "broken.arrow" in error["message"], error


# ---- objects ----------------------------------------------------------------------------------------------


def test_objects_go_into_a_directory_that_is_made(server, tmp_path):
    server.run("table", "create", "objects.t", "--column", "id:int64", "--column", "a:FILE")
    for i in range(3):
        (tmp_path / f"{i}.txt").write_text(f"object {i}")
        server.run("put", "--into", "objects.t", "--set", f"id={i}", "--file", f"a={tmp_path / f'{i}.txt'}")
    server.run("get", "SELECT a FROM objects.t ORDER BY id", "-o", f"{tmp_path}/made/here/")
    contents = sorted(path.read_text() for path in (tmp_path / "made" / "here").iterdir())
    assert contents == ["object 0", "object 1", "object 2"]
    done = server.run("get", "SELECT a FROM objects.t", "-o", tmp_path / "one", check=False)
    assert done.returncode == 1 and "directory" in done.stderr
    done = server.run("get", "SELECT a FROM objects.t WHERE id = 1", "-o", "-")
    assert done.stdout == "object 1"
    done = server.run("get", "SELECT a FROM objects.t WHERE id = 77", "-o", tmp_path / "none", check=False)
    assert done.returncode == 1 and "no objects" in done.stderr


def test_objects_of_one_name_do_not_replace_each_other(server, tmp_path):
    """Names in a directory come from the rows, which others may have written."""
    server.run("table", "create", "objects.same", "--column", "id:int64", "--column", "a:FILE")
    rows = []
    for i, text in enumerate((b"one", b"two", b"one")):
        (tmp_path / "v").write_bytes(text)
        uri = json.loads(server.run("put", tmp_path / "v", "--json").stdout)["uri"]
        stored = uri.removeprefix("file://")
        directory = os.path.dirname(os.path.dirname(stored)) + f"/{i}"
        os.makedirs(directory)
        os.rename(stored, directory + "/.profile")
        rows.append({"id": i, "a": {
            "uri": "file://" + directory + "/.profile", "media_type": "text/plain", "size_bytes": 3,
            "sha256": hashlib.sha256(text).hexdigest()}})
    path = server.data_dir / "tables" / "objects" / "same.lance"
    lance.write_dataset(pa.Table.from_pylist(rows, lance.dataset(str(path)).schema), str(path),
                        mode="append")
    home = tmp_path / "home"
    home.mkdir()
    for first in (0, 2):  # the same bytes by another name are the same
        server.run("get", f"SELECT a FROM objects.same WHERE id = {first}", "-o", home)
        assert (home / ".profile").read_bytes() == b"one"
    for text in (b"one", b"my own", b"mine"):
        (home / ".profile").write_bytes(text)
        done = server.run("get", "SELECT a FROM objects.same WHERE id = 1", "-o", home, check=False)
        assert done.returncode == 1 and "not replaced" in done.stderr, done.stderr
        assert (home / ".profile").read_bytes() == text and os.listdir(home) == [".profile"]
    done = server.run("get", "SELECT a FROM objects.same ORDER BY id", "-o", f"{tmp_path}/new/",
                      check=False)
    assert done.returncode == 1 and "not replaced" in done.stderr
    assert (tmp_path / "new" / ".profile").read_bytes() == b"one"


# ---- terminals ----------------------------------------------------------------------------------------------


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *arguments, home):
        self.fd, terminal = pty.openpty()
        self.process = subprocess.Popen(  # setsid makes the terminal the one that Ctrl-C comes from
            ["setsid", "--ctty", LAKE, *map(str, arguments)], stdin=terminal, stdout=terminal,
            stderr=terminal,
            env=clean_environment({"HOME": home, "TERM": "xterm", "LANG": "C.UTF-8"}))
        os.close(terminal)
        self.text = ""  # what came and has not been looked at

    def read(self, until, seconds=30):
        """Waits for the pattern; gives everything up to its end and forgets it."""
        end = time.monotonic() + seconds
        while not re.search(until, self.text):
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            try:
                data = os.read(self.fd, 65536) if ready else b""
            except OSError:
                data = b""
            assert data, f"waited for {until!r}, got {self.text!r}"
            self.text += data.decode(errors="replace")
        found = re.search(until, self.text).end()
        read, self.text = self.text[:found], self.text[found:]
        return read

    def send(self, text):
        if text < " ":  # the prompt is shown a moment before the terminal takes control characters
            time.sleep(0.5)
        os.write(self.fd, text.encode())

    def close(self):
        """Reads to the end; the exit code."""
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if select.select([self.fd], [], [], 0.1)[0]:
                    os.read(self.fd, 65536)
            except OSError:  # how a terminal ends
                break
        try:
            return self.process.wait(timeout=60)
        finally:
            self.process.kill()
            os.close(self.fd)


def test_the_prompt_runs_statements_and_goes_on_after_errors(server, tmp_path):
    server.run("table", "create", "prompt.t", "--column", "id:int64!", "--column", "state:float[7]")
    terminal = Terminal("sql", "--addr", server.address, home=tmp_path)
    terminal.read("lake> ")
    terminal.send("SELECT 40 + 2 AS answer;\n")
    assert "42" in terminal.read(r"\(1 row, [\d.]+ s\)")
    terminal.send("SELECT 'a;b' AS semicolon, -- it's a comment; not an end\n")
    terminal.read(r"\.\.\. ")
    terminal.send("'two\n")
    terminal.read(r"\.\.\. ")
    terminal.send("lines' AS text; -- done\n")
    assert "a;b" in terminal.read(r"\(1 row")
    terminal.read("lake> ")
    terminal.send("SELECT nope;\n")
    assert "nope" in terminal.read("lake: [^\n]*nope")
    terminal.read("lake> ")
    terminal.send("\\t\n")
    assert "prompt.t" in terminal.read(r"prompt\.t\r\n")
    terminal.send("\\d prompt.t\n")
    assert re.search(r"id +int64", terminal.read(r"state +\S*float\S*\r\n"))
    terminal.send("\\d no.such\n")
    terminal.read("lake: [^\n]*no.such")
    terminal.send("\\?\n")
    terminal.read("this help")
    terminal.send("SELECT 'größer' AS umlaut;\n")
    terminal.read("größer\r\n")
    terminal.read("lake> ")
    terminal.send("SELECT 1,\n")
    terminal.read(r"\.\.\. ")
    terminal.send("\x03")
    terminal.read("lake> ")
    terminal.send("SELECT 5 AS after;\n")
    terminal.read(r"\(1 row")
    terminal.read("lake> ")
    terminal.send("\x04")
    assert terminal.close() == 0


def test_the_prompt_keeps_its_history_to_itself(server, tmp_path):
    terminal = Terminal("sql", "--addr", server.address, home=tmp_path)
    terminal.read("lake> ")
    terminal.send("SELECT 'first'\n")
    terminal.read(r"\.\.\. ")
    terminal.send("AS one;\n")
    terminal.read(r"\(1 row")
    terminal.read("lake> ")
    terminal.send("\\q\n")
    assert terminal.close() == 0
    history = tmp_path / ".lake_history"
    assert history.stat().st_mode & 0o777 == 0o600
    terminal = Terminal("sql", "--addr", server.address, home=tmp_path)
    terminal.read("lake> ")
    terminal.send("\x1b[A")
    terminal.read("AS one;")
    terminal.send("\n")
    terminal.read("first")
    terminal.read(r"\(1 row")
    terminal.read("lake> ")
    terminal.send("\x04")
    assert terminal.close() == 0


def test_transfers_show_their_progress_on_a_terminal_only(server, tmp_path):
    path = tmp_path / ("a-very-long-name-" * 8 + "video.mp4")
    path.write_bytes(os.urandom(48 * 1024 * 1024))
    terminal = Terminal("put", path, "--addr", server.address, home=tmp_path)
    shown = terminal.read("file://")
    assert "█" in shown and "MB/s" in shown and "of 50.3 MB" in shown
    for line in re.split("[\r\n]", shown):
        assert len(line) <= 80, line
    assert terminal.close() == 0
    done = server.run("put", path)
    assert done.stderr == "" and done.stdout.startswith("file://")
    pq.write_table(pa.table({"id": list(range(60000))}), tmp_path / "rows.parquet")
    server.run("table", "create", "progress.t", "--column", "id:int64")
    terminal = Terminal("import", "progress.t", tmp_path / "rows.parquet", "--addr", server.address,
                        home=tmp_path)
    assert re.search(r"rows\.parquet \d+0000 rows", terminal.read("now version"))
    assert terminal.close() == 0


def test_ctrl_c_ends_a_running_statement_and_the_server_hears_of_it(server, tmp_path):
    terminal = Terminal("sql", "--addr", server.address, home=tmp_path)
    terminal.read("lake> ")
    terminal.send("SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range < 0;\n")
    time.sleep(1)
    terminal.send("\x03")
    assert terminal.close() == -signal.SIGINT
    busy = server.cpu_seconds()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        time.sleep(1)
        now = server.cpu_seconds()
        if now - busy < 0.3:
            return
        busy = now
    raise AssertionError("the server still works for nobody")


def test_vectors_of_a_parquet_file_stay_vectors(server, tmp_path):
    table = pa.table({
        "id": pa.array([1, 2, 3]),
        "pose": pa.array([[1, 2, 3], None, [4, 5, 6]], pa.list_(pa.float32(), 3)),
        'odd "name"': pa.array([[1, 2]] * 3, pa.list_(pa.int64(), 2)),
        "free": pa.array([[1], [], [2, 3]], pa.list_(pa.int32())),
    })
    pq.write_table(table, tmp_path / "vectors.parquet")
    server.run("import", "made.vectors", tmp_path / "vectors.parquet", "--create")
    found = lance.dataset(str(server.data_dir / "tables" / "made" / "vectors.lance")).to_table()
    assert found.column("pose").type == pa.list_(pa.float32(), 3)
    assert found.column('odd "name"').type == pa.list_(pa.int64(), 2)
    assert pa.types.is_list(found.column("free").type)
    assert found.to_pylist() == table.to_pylist()


# ---- get and cat --------------------------------------------------------------------------------------

@pytest.fixture
def stored(server, tmp_path):
    """A statement that gives one object of 5 MiB and a bit, its bytes, and its file in the stage."""
    data = os.urandom(5 * 2**20 + 333)
    (tmp_path / "source").write_bytes(data)
    name = f"files.t{time.time_ns()}"
    server.run("table", "create", name, "--column", "a:FILE")
    server.run("put", "--into", name, "--file", f"a={tmp_path}/source")
    [row] = json.loads(server.run("sql", f"SELECT a.uri AS uri FROM {name}", "--json").stdout)
    return f"SELECT a FROM {name}", data, row["uri"].removeprefix("file://")


def flip(path, at):
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def killed_get(server, select, copy, cut=False):
    done = server.run("get", select, "-o", copy, check=False,
                      env={"LAKE_FAULT": "client.download.block:3:kill"})
    assert done.returncode == -signal.SIGKILL and not copy.exists()
    [partial] = copy.parent.glob("*.part-*" if cut else copy.name + ".part-*")
    assert partial.stat().st_size == 3 * 2**20
    return partial


def test_a_killed_get_goes_on_with_what_arrived(server, stored, tmp_path):
    select, data, path = stored
    copy = tmp_path / "copy"
    other = tmp_path / "copy.part-0123456789abcdef"
    other.write_bytes(b"of another object")
    partial = killed_get(server, select, copy)
    assert not other.exists()
    flip(path, 10)  # what arrived is not read again, so this is not seen
    server.run("get", select, "-o", copy)
    assert copy.read_bytes() == data and not partial.exists()
    copy.unlink()
    done = server.run("get", select, "-o", copy, check=False)
    assert done.returncode == 1 and "SHA-256" in done.stderr
    assert not copy.exists() and not partial.exists()
    flip(path, 10)
    # What was damaged on this side is fetched again, and so is what is too long.
    flip(killed_get(server, select, copy), 20)
    server.run("get", select, "-o", copy)
    assert copy.read_bytes() == data and not partial.exists()
    copy.unlink()
    partial.write_bytes(data + b"!")
    server.run("get", select, "-o", copy)
    assert copy.read_bytes() == data and not partial.exists()
    copy.unlink()
    partial.write_bytes(data)  # all of it, but not its name
    server.run("get", select, "-o", copy)
    assert copy.read_bytes() == data and not partial.exists()


def test_two_gets_do_not_write_one_file(server, stored, tmp_path):
    select, data, _ = stored
    copy = tmp_path / "copy"
    partial = killed_get(server, select, copy)
    with open(partial, "r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = server.run("get", select, "-o", copy, check=False)
        assert done.returncode == 1 and "by another process" in done.stderr
        assert partial.stat().st_size == 3 * 2**20
    server.run("get", select, "-o", copy)
    assert copy.read_bytes() == data


@pytest.mark.parametrize("kind", ["device", "fifo", "socket"])
def test_a_get_replaces_files_only(server, stored, tmp_path, kind):
    """Who gets into /dev/null as root still has it afterwards."""
    select, _, _ = stored
    target = tmp_path / kind
    if kind == "device":
        os.mknod(target, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    elif kind == "fifo":
        os.mkfifo(target)
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(target))
    before = target.stat()
    done = server.run("get", select, "-o", target, check=False)
    assert done.returncode == 1 and "no regular file" in done.stderr, done.stderr
    assert (target.stat().st_mode, target.stat().st_ino) == (before.st_mode, before.st_ino)
    assert not list(tmp_path.glob("*.part-*"))


def test_a_get_goes_where_a_link_leads(server, stored, tmp_path):
    select, data, _ = stored
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "real").write_text("old")
    (tmp_path / "link").symlink_to("disk/real")
    server.run("get", select, "-o", tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "disk" / "real").read_bytes() == data
    assert os.listdir(tmp_path / "disk") == ["real"]
    (tmp_path / "nowhere").symlink_to("not-there")
    done = server.run("get", select, "-o", tmp_path / "nowhere", check=False)
    assert done.returncode == 1 and "symbolic link" in done.stderr
    assert (tmp_path / "nowhere").is_symlink() and not (tmp_path / "not-there").exists()


@pytest.mark.parametrize("name", ["n" * 255, "\u00e9" * 127, "-dash", "two\nlines", "\x1b[31mred",
                                  "\udcff\udcfe"])
def test_a_get_into_any_name(server, stored, tmp_path, name):
    select, data, _ = stored
    folder = tmp_path / "folder"
    folder.mkdir()
    done = subprocess.run([LAKE, "get", select, "-o", folder / name, "--addr", server.address],
                          capture_output=True, text=True, errors="replace", timeout=60,
                          env=clean_environment())
    assert done.returncode == 0, done.stderr
    assert (folder / name).read_bytes() == data and os.listdir(folder) == [name]
    assert done.stdout.count("\n") == 1 and "\x1b" not in done.stdout
    killed_get(server, select, folder / ("m" * 240), cut=True)
    server.run("get", select, "-o", folder / ("m" * 240))
    assert (folder / ("m" * 240)).read_bytes() == data and len(os.listdir(folder)) == 2


def test_an_interrupted_get_keeps_what_arrived(server, stored, tmp_path):
    select, data, _ = stored
    copy = tmp_path / "copy"
    process = subprocess.Popen(
        [LAKE, "get", select, "-o", copy, "--addr", server.address], stderr=subprocess.PIPE, text=True,
        env=clean_environment({"LAKE_FAULT": "client.download.block:2:stop-3000"}))
    deadline = time.monotonic() + 60
    while not (list(tmp_path.glob("*.part-*")) and
               next(tmp_path.glob("*.part-*")).stat().st_size == 2 << 20):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT and "cancelled" in stderr
    assert not copy.exists() and len(list(tmp_path.glob("*.part-*"))) == 1
    server.run("get", select, "-o", copy)
    assert copy.read_bytes() == data


@pytest.mark.parametrize("arguments", [("get", "-o", "-"), ("cat",)])
def test_no_object_is_no_empty_one(server, stored, arguments):
    command, *options = arguments
    done = server.run(command, stored[0] + " WHERE a IS NULL", *options, check=False)
    assert (done.returncode, done.stdout) == (1, "") and "no objects" in done.stderr


def test_a_get_publishes_what_it_wrote(server, stored, tmp_path):
    select, data, _ = stored
    process = subprocess.Popen(
        [LAKE, "get", select, "-o", tmp_path / "copy", "--addr", server.address],
        stderr=subprocess.PIPE, text=True,
        env=clean_environment({"LAKE_FAULT": "client.download.block:2:stop-3000"}))
    deadline = time.monotonic() + 60
    while not [path for path in tmp_path.glob("*.part-*") if path.stat().st_size == 2 << 20]:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    [partial] = tmp_path.glob("*.part-*")
    partial.unlink()
    partial.write_text("of somebody else")
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1 and "replaced while it was written" in stderr
    assert not (tmp_path / "copy").exists() and partial.read_text() == "of somebody else"


@pytest.mark.parametrize("text, start, end", [
    ("0:1", 0, 1), ("1048570:1048580", 1048570, 1048580), ("5000000:", 5000000, None),
    ("7:4000000", 7, 4000000), (None, 0, None)])
def test_cat_writes_exactly_the_range(server, stored, tmp_path, text, start, end):
    select, data, _ = stored
    done = subprocess.run([LAKE, "cat", select, "--addr", server.address,
                           *(["--range", text] if text else [])], capture_output=True, timeout=60,
                          env=clean_environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout == data[start:end]


@pytest.mark.parametrize("text", ["5", ":7", "a:b", "-1:5", "1:2:3", "1:99999999999999999999"])
def test_cat_says_what_a_range_is(server, text):
    done = lake("cat", "SELECT 1", "--range", text)
    assert done.returncode == 2 and "is no range" in done.stderr


@pytest.mark.parametrize("text", ["5:5", "6:5", "0:99999999", "99999999:"])
def test_cat_refuses_ranges_that_are_not_there(server, stored, text):
    done = server.run("cat", stored[0], "--range", text, check=False)
    assert done.returncode == 1 and "must be within" in done.stderr and done.stdout == ""
