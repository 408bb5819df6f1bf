"""Memory stays flat whatever the size of what passes through (SQL-9, OBJ-1, OBJ-5)."""

import hashlib
import os
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.flight as flight
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import flight_sql
from lake_server import LAKE, LakeServer, clean_environment

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LakeServer(tmp_path_factory.mktemp("limits"), env={"LAKE_LOG": "warn"}) as running:
        yield running


def test_case_F13_servers_stay_under_300_mb_while_a_slow_reader_takes_5_gb(server, tmp_path):
    frames = pa.table({"a": pa.array(range(5000), pa.int64()),
                       **{f"x{i}": pa.array([i + r / 7 for r in range(5000)]) for i in range(7)}})
    pq.write_table(frames, tmp_path / "frames.parquet")
    server.run("import", "wide.frames", tmp_path / "frames.parquet", "--create")
    client = flight.connect(f"grpc://{server.address}")
    sql = "SELECT f.* FROM wide.frames f CROSS JOIN range(16000)"
    reader = client.do_get(flight_sql.info(client, sql).endpoints[0].ticket)
    received = rows = batches = 0
    most = server.status("VmRSS")
    for chunk in reader:
        received += chunk.data.nbytes
        rows += chunk.data.num_rows
        batches += 1
        if batches % 100 == 0:
            most = max(most, server.status("VmRSS"))
        if batches <= 20:  # a reader that stalls: the server must wait, not gather
            time.sleep(0.15)
            most = max(most, server.status("VmRSS"))
    assert rows == 5000 * 16000
    assert received >= 5 * 10**9
    assert max(most, server.status("VmRSS")) < 300 * 1024, f"{most} KiB"


def test_long_values_wait_for_a_slow_reader_where_they_are(tmp_path):
    """The engine counts a string as 16 bytes: 750 MB of images must not pass as a small result."""
    image = os.urandom(500_000)
    with pq.ParquetWriter(tmp_path / "images.parquet", compression="none", use_dictionary=False,
                          schema=pa.schema({"id": pa.int64(), "image": pa.binary()})) as out:
        for start in range(0, 1500, 50):
            ids = range(start, start + 50)
            out.write_table(pa.table({"id": pa.array(ids, pa.int64()), "image": pa.array(
                [number.to_bytes(8, "little") + image[8:] for number in ids], pa.binary())}))
    with LakeServer(tmp_path / "data", env={"LAKE_LOG": "warn"}) as server:
        server.run("import", "wide.images", tmp_path / "images.parquet", "--create")
    with LakeServer(tmp_path / "data", env={"LAKE_LOG": "warn"}) as server:
        client = flight.connect(f"grpc://{server.address}")
        ticket = flight_sql.info(client, "SELECT * FROM wide.images").endpoints[0].ticket
        seen = []
        most = 0
        for chunk in client.do_get(ticket):
            batch = chunk.data.to_pydict()
            assert batch["image"] == [number.to_bytes(8, "little") + image[8:]
                                      for number in batch["id"]]
            seen += batch["id"]
            most = max(most, server.status("VmRSS"))
            if len(seen) < 100:
                time.sleep(0.05)
        client.close()
    assert seen == list(range(1500))
    assert most < 300 * 1024, f"{most} KiB"


def run_measured(*arguments, env=None):
    """Runs lake; its output and its peak of resident memory in KiB.

    wait4's ru_maxrss would not do: across exec it keeps the peak of the process that forked."""
    process = subprocess.Popen([LAKE, *map(str, arguments)], stdout=subprocess.PIPE, text=True,
                               env=clean_environment(env))
    peak = 0
    while process.poll() is None:
        with open(f"/proc/{process.pid}/status") as status:
            text = status.read()
        if "VmHWM:" in text and "Name:\tlake\n" in text:
            peak = max(peak, int(text.split("VmHWM:")[1].split()[0]))
        time.sleep(0.01)
    output = process.stdout.read()
    assert process.returncode == 0 and peak > 0, output
    return output, peak


def test_two_gib_go_in_and_out_in_constant_memory(server, tmp_path):
    video = tmp_path / "video.mp4"
    block = os.urandom(16 * MIB)
    digest = hashlib.sha256()
    with open(video, "wb") as out:
        for number in range(128):
            part = number.to_bytes(8, "little") + block[8:]
            out.write(part)
            digest.update(part)
    server.run("table", "create", "big.videos", "--column", "id:int64!", "--column", "video:FILE")
    _, put_peak = run_measured("put", "--addr", server.address, "--into", "big.videos",
                               "--set", "id=1", "--file", f"video={video}")
    video.unlink()
    copy = tmp_path / "copy.mp4"
    output, get_peak = run_measured("get", "--addr", server.address,
                                    "SELECT video FROM big.videos", "-o", copy)
    assert digest.hexdigest() in output
    assert copy.stat().st_size == 2 * 1024 * MIB
    with open(copy, "rb") as back:
        assert hashlib.file_digest(back, "sha256").hexdigest() == digest.hexdigest()
    copy.unlink()
    assert put_peak < 64 * 1024, f"put peaked at {put_peak} KiB"
    assert get_peak < 64 * 1024, f"get peaked at {get_peak} KiB"
