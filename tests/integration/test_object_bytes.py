"""Which way the bytes of objects go, how many they are, and in how much memory: object bytes pass
neither Query nor Metasrv (OBJ-1), reads are verified in constant memory (OBJ-5), and small reads
fetch little (O15)."""

import hashlib
import json
import pathlib
import random
import subprocess
import sys
import time
import urllib.parse

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from counting_proxy import CountingProxy  # noqa: E402
from lake_server import BUILD, LAKE, LakeServer, clean_environment  # noqa: E402
from s3_servers import ACCESS_KEY, BUCKET, SECRET_KEY  # noqa: E402

MIB = 1 << 20
GIB = 1 << 30
FEW = 8 * MIB  # what requests, listings and logs may take beside an object
LARGE = {"versitygw": GIB, "weed": 128 * MIB}


def credentials(endpoint):
    return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
            "AWS_EC2_METADATA_DISABLED": "true", "no_proxy": "127.0.0.1",
            "AWS_ENDPOINT_URL_S3": endpoint}


def run(address, *arguments, env=None):
    """`lake ARGUMENTS…`: its output and the most memory it had, in bytes."""
    process = subprocess.Popen([str(LAKE), *map(str, arguments), "--addr", address],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=clean_environment(env))
    peak = 0
    while process.poll() is None:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                peak = max(peak, int(line.split()[1]) * 1024)
        time.sleep(0.01)
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return out, peak


def process_io(pid):
    """What read and write calls have moved, files and sockets alike."""
    lines = pathlib.Path(f"/proc/{pid}/io").read_text().splitlines()
    fields = dict(line.split(": ") for line in lines)
    return int(fields["rchar"]) + int(fields["wchar"])


def write_file(path, size):
    block = random.Random(3).randbytes(16 * MIB)
    with open(path, "wb") as file:
        for number in range(size // len(block)):
            file.write(number.to_bytes(8, "little") + block[8:])


@pytest.fixture(scope="module")
def large(s3, tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "run.mcap"
    write_file(path, LARGE[s3.name])
    yield path
    path.unlink()


def server_settings(s3, prefix):
    """A stage and tables of the test's own."""
    return {**credentials(s3.endpoint), "LAKE_S3_BUCKET": BUCKET,
            "LAKE_TABLE_PREFIX": f"{prefix}/tables",
            "LAKE_MANAGED_OBJECT_PREFIX": f"{prefix}/objects"}


def file_digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def move(proxy, source, copy, env=None):
    """In and out again through the row of a table; the peaks of both."""
    run(proxy.address, "table", "create", "lab.runs", "--column", "video:FILE", env=env)
    _, put_peak = run(proxy.address, "put", "--into", "lab.runs", "--file", f"video={source}",
                      env=env)
    _, get_peak = run(proxy.address, "get", "SELECT video FROM lab.runs", "-o", copy, env=env)
    assert copy.stat().st_size == source.stat().st_size
    assert file_digest(copy) == file_digest(source)
    copy.unlink()
    return put_peak, get_peak


def test_no_byte_of_an_object_passes_the_servers_in_s3(s3, large, tmp_path):
    with CountingProxy(urllib.parse.urlsplit(s3.endpoint).netloc) as store:
        env = {**server_settings(s3, "bytes"),
               "AWS_ENDPOINT_URL_S3": f"http://{store.address}"}
        with LakeServer(tmp_path / "data", env) as server, CountingProxy(server.address) as query:
            before = process_io(server.pid)
            put_peak, get_peak = move(query, large, tmp_path / "copy", credentials(s3.endpoint))
            assert 1000 < query.count < FEW
            assert 1000 < store.count < FEW
            assert process_io(server.pid) - before < FEW
            if not server.is_sanitized():
                assert put_peak < (256 + 64) * MIB  # four parts, and what a client takes anyway
                assert get_peak < 96 * MIB


@pytest.mark.parametrize("size", [256 * MIB, pytest.param(GIB, marks=pytest.mark.soak)])
def test_no_byte_of_an_object_passes_the_servers_on_a_disk(tmp_path, size):
    source = tmp_path / "source"
    write_file(source, size)
    with LakeServer(tmp_path / "data") as server, CountingProxy(server.address) as query:
        before = process_io(server.pid)
        put_peak, get_peak = move(query, source, tmp_path / "copy")
        assert 1000 < query.count < FEW
        assert process_io(server.pid) - before < FEW
        if not server.is_sanitized():
            assert put_peak < 64 * MIB
            assert get_peak < 64 * MIB


@pytest.mark.soak
def test_5_gib_go_in_and_out_in_constant_memory(s3, tmp_path):
    source = tmp_path / "source"
    write_file(source, 5 * GIB)
    env = server_settings(s3, "5-gib")
    with LakeServer(tmp_path / "data", env) as server, CountingProxy(server.address) as query:
        put_peak, get_peak = move(query, source, tmp_path / "copy", credentials(s3.endpoint))
        assert query.count < FEW
        assert put_peak < (256 + 64) * MIB and get_peak < 96 * MIB, (put_peak, get_peak)
    source.unlink()


def seek(address, location, parts, env):
    return subprocess.run(
        [str(BUILD / "tests" / "seek_tool"), address, location["uri"], str(location["size_bytes"]),
         location["sha256"], *(f"{offset}:{size}" for offset, size in parts)],
        capture_output=True, timeout=60, env=clean_environment(env))


def test_case_O15_small_reads_fetch_little(s3, large, tmp_path):
    """100 places of 64 KiB: at most four times what is asked for, with the digests that verify."""
    size = large.stat().st_size
    places = random.Random(9)
    parts = [(places.randrange(size - 65536), 65536) for _ in range(100)]
    with LakeServer(tmp_path / "data", server_settings(s3, "small-reads")) as server:
        out, _ = run(server.address, "put", large, "--json", env=credentials(s3.endpoint))
        location = json.loads(out)
        key = location["uri"].removeprefix(f"s3://{BUCKET}/")
        with CountingProxy(urllib.parse.urlsplit(s3.endpoint).netloc) as store:
            client = credentials(f"http://{store.address}")
            done = seek(server.address, location, parts, client)
            assert (done.returncode, done.stderr) == (0, b"verified\n")
            with open(large, "rb") as file:
                for i, (offset, size) in enumerate(parts):
                    file.seek(offset)
                    assert done.stdout[i * size:(i + 1) * size] == file.read(size)
            assert len(done.stdout) <= store.count <= 4 * len(done.stdout)
            # Without digests there are no more than two units for a read that lies in both.
            s3.boto3().delete_object(Bucket=BUCKET, Key=key + ".chunks")
            store.count = 0
            done = seek(server.address, location, [(5, 4096), (size // 2, 4096), (size - 9, 9)],
                        client)
            assert (done.returncode, done.stderr) == (0, b"unverified\n")
            assert store.count < 3 * 65536 + 30_000
