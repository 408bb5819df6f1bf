"""torch.load of objects in S3: Debian's torch in Debian's Python, which gets nothing but the wheel."""

import json
import os
import pathlib
import subprocess
import urllib.parse

import pytest

import lake
from counting_proxy import CountingProxy

MIB = 1 << 20
PROGRAM = pathlib.Path(__file__).with_name("torch_program.py")


def run(*arguments, **env):
    done = subprocess.run(["/usr/bin/python3", str(PROGRAM), *map(str, arguments)],
                          env={**os.environ, "PYTHONPATH": str(pathlib.Path(lake.__file__).parents[1]),
                               **env}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory):
    """The same tensors twice, 60 MB each: a zip archive, and torch's older format."""
    directory = tmp_path_factory.mktemp("torch")
    paths = directory / "archive.pt", directory / "legacy.pt"
    run("save", *paths)
    return paths


def put(client, path):
    file = client.put(path)
    return json.dumps([file.uri, file.media_type, file.size, file.sha256])


def test_torch_loads_checkpoints_from_s3(client, server, checkpoints):
    pairs = [word for path in checkpoints for word in (put(client, path), path)]
    run("load", server.address, *pairs)


def test_one_tensor_of_a_checkpoint_is_fetched_alone(client, server, s3, checkpoints):
    """8 MiB of 60, the archive's directory, digests that verify them, and what was read ahead: never
    more than was asked for in a row."""
    archive, _ = checkpoints
    file = put(client, archive)
    assert archive.stat().st_size > 60 * 10**6
    with CountingProxy(urllib.parse.urlsplit(s3.endpoint).netloc) as store:
        run("one", server.address, file, archive, AWS_ENDPOINT_URL_S3=f"http://{store.address}")
        assert 8 * MIB < store.count < 16 * MIB, store.count
