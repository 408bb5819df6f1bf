"""Lance tables in a store whose every answer takes a while: what a scan will need is asked for
together and ahead, in bounded memory, and little that it does not need."""

import os
import pathlib
import re
import subprocess
import sys
import time

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "support"))
sys.path.insert(0, str(ROOT / "fault_s3"))
import server as fault_server  # noqa: E402
from lake_server import BUILD, clean_environment  # noqa: E402

TOOL = BUILD / "tests" / "lance_tool"
MIB = 1 << 20
DELAY_S = 0.05


class Far:
    """A table in such a store, and what reading it took."""

    def __init__(self, table, directory, storage="2.1", **options):
        self.table, self.directory = table, directory
        lance.write_dataset(table, str(directory), data_storage_version=storage, **options)

    def scan(self, *arguments, faults=()):
        script = {"etags": False, "faults": [*faults, {
            "on": {"op": "get"}, "do": {"delay_ms": DELAY_S * 1000}, "times": 1 << 30}]}
        with fault_server.FaultServer(script) as server:
            for path in self.directory.rglob("*"):
                if path.is_file():
                    key = "t/" + str(path.relative_to(self.directory))
                    server.objects[key] = (path.read_bytes(), {})
            env = {**clean_environment(), "AWS_ENDPOINT_URL_S3": server.endpoint,
                   "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
                   "AWS_CONFIG_FILE": "/nonexistent",
                   "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "no_proxy": "127.0.0.1"}
            start = time.monotonic()
            out = self.directory.parent / "out.arrow"
            with open(out, "wb") as file:
                process = subprocess.Popen([str(TOOL), arguments[0], "s3://bucket/t",
                                            *arguments[1:]], env=env, stdout=file,
                                           stderr=subprocess.PIPE)
                errors = process.stderr.read()
                _, code, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(code)
            self.seconds = time.monotonic() - start
            assert process.returncode == 0, errors
            self.peak = usage.ru_maxrss * 1024
            ranges = [re.fullmatch(r"bytes=(\d+)-(\d+)", request["range"])
                      for request in server.requests
                      if request["op"] == "get" and request["key"].startswith("t/data/")]
            self.gets = len(ranges)
            self.bytes = sum(int(r[2]) - int(r[1]) + 1 for r in ranges)
            self.size = sum(path.stat().st_size for path in (self.directory / "data").iterdir())
        if arguments[0] == "cat":
            with pa.ipc.open_stream(out) as reader:
                return reader.read_all()
        return out.read_text()


def columns(count, rows, seed=1):
    def values(i):
        x = pc.bit_wise_and(pc.add(pa.array(range(rows)), i * 977 + seed), 0xFFFF)
        return pc.multiply(x, 2654435761)
    return {f"c{i}": values(i) for i in range(count)}


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    table = pa.table({**columns(120, 20000), "name": [f"row {i}" * 5 for i in range(20000)]})
    return Far(table, tmp_path_factory.mktemp("wide") / "t")


def test_a_wide_table_is_not_read_column_after_column(wide):
    """121 columns of a page each: one after the other they would take at least 121 answers."""
    assert wide.scan("cat").equals(wide.table)
    assert wide.gets <= wide.size // MIB + 12
    assert wide.bytes <= 1.2 * wide.size
    assert wide.seconds < 121 * DELAY_S / 4


def test_columns_far_apart_are_asked_for_at_once(wide):
    names = [f"c{i}" for i in range(0, 120, 8)]
    assert wide.scan("cat", "--columns", ",".join(names)).equals(wide.table.select(names))
    needed = wide.size * len(names) / 121
    assert wide.gets <= len(names) + 6
    assert wide.bytes <= 2 * needed + 2 * MIB
    assert wide.seconds < len(names) * DELAY_S / 1.5


def test_filtered_columns_come_first_and_the_others_where_rows_survive(wide):
    """Nothing survives: only the column that is filtered on is read."""
    names = ",".join(f"c{i}" for i in range(1, 60))
    assert wide.scan("cat", "--columns", names, "--where", "c0", ">=", str(1 << 60)).num_rows == 0
    assert wide.bytes <= 0.15 * wide.size
    least = 2654435761 * 10000
    kept = wide.table.filter(pc.greater_equal(wide.table["c0"], least))
    assert 0 < kept.num_rows < wide.table.num_rows
    assert wide.scan("cat", "--where", "c0", ">=", str(least)).equals(kept)
    assert wide.bytes <= 1.5 * wide.size and wide.seconds < 121 * DELAY_S / 4


def test_answers_that_break_off_are_asked_for_again(wide):
    faults = [{"on": {"op": "get"}, "do": {"reset_after": 5000}, "skip": 6, "times": 3},
              {"on": {"op": "get"}, "do": {"status": 503, "code": "SlowDown"}, "times": 2}]
    assert wide.scan("cat", faults=faults).equals(wide.table)


def test_an_object_that_is_gone_is_an_error(wide):
    gone = {"on": {"op": "get"}, "do": {"status": 404, "code": "NoSuchKey"}, "times": 1 << 30}
    with pytest.raises(AssertionError, match="NOT_FOUND"):
        wide.scan("cat", faults=[{**gone, "skip": 6}])


def local_peak(directory):
    process = subprocess.Popen([str(TOOL), "drain", str(directory)], stdout=subprocess.DEVNULL)
    _, code, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


def test_a_long_table_is_read_ahead_in_bounded_memory(tmp_path):
    """Pages that several tasks share, and strings; while one part is decoded the next comes."""
    rows = 800_000
    table = pa.table({**columns(6, rows), "text": pc.cast(pa.array(range(rows)), pa.string())})
    far = Far(table, tmp_path / "t", max_rows_per_file=rows)
    assert far.scan("cat").equals(table)
    far.scan("drain")
    assert far.bytes <= 1.5 * far.size
    assert far.gets <= far.size // (MIB // 4) + 40
    assert far.peak < local_peak(far.directory) + 64 * MIB


def test_fragments_that_follow_are_on_their_way(tmp_path):
    """Opening a small file reads all of it, once; and files of later fragments come meanwhile."""
    table = pa.table(columns(6, 20000))
    far = Far(table, tmp_path / "small", max_rows_per_file=500)
    dataset = lance.dataset(str(far.directory))
    assert len(dataset.get_fragments()) == 40
    assert far.scan("cat").equals(table)
    assert far.gets == 40
    assert far.seconds < 40 * DELAY_S
    dataset.add_columns({"more": "c0 + 1"})
    dataset.delete("c1 % 7 = 0")
    expected = lance.dataset(str(far.directory)).to_table()
    assert far.scan("cat").equals(expected)
    assert far.gets == 80  # a file of the new column for each


def test_fragments_of_large_files_follow_each_other(tmp_path):
    table = pa.table(columns(6, 160000))
    far = Far(table, tmp_path / "large", max_rows_per_file=16000)
    assert far.scan("cat").equals(table)
    assert far.bytes <= 1.5 * far.size + 10 * 65536
    assert far.scan("cat", "--columns", "c3").equals(table.select(["c3"]))
    assert far.gets <= 2 * 10 and far.bytes <= far.size / 4 + 10 * 65536
