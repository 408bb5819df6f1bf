"""The example `managed_file` (SDK-7): two files go in, are queried and stream out again, on a disk and
in both S3 servers, in memory that is less than one of them."""

import hashlib
import json
import os
import random
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from lake_server import BUILD, LakeServer
from measured import run_measured
from test_object_bytes import MIB, file_digest, server_settings, write_file

EXAMPLE = BUILD / "examples" / "managed_file"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    path = tmp_path_factory.mktemp("cloud") / "cloud.ply"
    path.write_bytes(random.Random(12).randbytes(20 * MIB + 1))
    return path


def show(server, env, video, cloud, directory, bound):
    out = directory / "out"
    out.mkdir()
    done, peak = run_measured(EXAMPLE, server.address, video, cloud, out, env=env)
    assert done.returncode == 0, done.stderr
    said = done.stdout.decode()
    for source, name in ((video, "1-video.mp4"), (cloud, "1-cloud.ply")):
        assert file_digest(out / name) == file_digest(source)
        assert f"{source.stat().st_size} bytes  {file_digest(source)}" in said
        assert f"wrote {out / name}, verified" in said
    rows = json.loads(server.run(
        "sql", "SELECT name, video.sha256 AS v, cloud.media_type AS m FROM examples.recordings",
        "--json").stdout)
    assert rows == [{"name": "first recording", "v": file_digest(video), "m": "model/ply"}]
    assert video.stat().st_size > (bound + 16) * MIB
    for path in (video, *out.iterdir()):
        path.unlink()
    if not server.is_sanitized():
        assert peak < bound, f"{peak} MiB"
    return said


def test_two_files_go_in_and_out_of_a_disk(cloud, tmp_path):
    video = tmp_path / "video.mp4"
    write_file(video, 128 * MIB)
    with LakeServer(tmp_path / "data") as server:
        show(server, {}, video, cloud, tmp_path, 64)


def test_two_files_go_in_and_out_of_s3(s3, cloud, tmp_path):
    """Four parts of 64 MiB on their way, and what a client takes anyway."""
    video = tmp_path / "video.mp4"
    write_file(video, 384 * MIB)
    env = server_settings(s3, "example")
    with LakeServer(tmp_path / "data", env) as server:
        said = show(server, env, video, cloud, tmp_path, 256 + 64)
    keys = [line.split()[0].removeprefix("s3://bucket/") for line in said.splitlines()
            if line.startswith("  s3://bucket/example/objects/")]
    assert len(keys) == 2
    assert s3.boto3().get_object(Bucket="bucket", Key=keys[1])["Body"].read() == cloud.read_bytes()


def test_every_recording_is_written_and_a_damaged_one_is_not(tmp_path):
    (tmp_path / "a").write_bytes(b"a" * 100_000)
    (tmp_path / "b").write_bytes(b"")
    out = tmp_path / "out"
    out.mkdir()
    with LakeServer(tmp_path / "data") as server:
        command = [EXAMPLE, server.address, tmp_path / "a", tmp_path / "b", out]
        for _ in range(2):
            subprocess.run(command, check=True, timeout=60)
        names = {"1-video.mp4", "1-cloud.ply", "2-video.mp4", "2-cloud.ply"}
        assert {path.name for path in out.iterdir()} == names
        assert all(path.read_bytes() in (b"a" * 100_000, b"") for path in out.iterdir())
        for path in (tmp_path / "data" / "objects").rglob("*"):
            if path.is_file() and path.stat().st_size == 100_000:
                path.chmod(0o600)
                path.write_bytes(b"a" * 99_999 + b"b")
        for path in out.iterdir():
            path.unlink()
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "(DATA_LOSS)" in done.stderr, done.stderr
        assert hashlib.sha256(b"a" * 100_000).hexdigest() in done.stdout
        done = subprocess.run([*command[:4], "/nonexistent"], capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == 1
        assert done.stderr == "read: /nonexistent/1-video.mp4: No such file or directory " \
            "(RESOURCE_EXHAUSTED)\n"
