"""An upload into S3 killed at random moments, over and over, and resumed until it completes (OBJ-4):
right bytes in the end, no part sent again that the checkpoint held, memory of the parts in flight."""

import datetime
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from lake_server import LAKE, LakeServer, clean_environment  # noqa: E402
from s3_servers import ACCESS_KEY, BUCKET, SECRET_KEY, SeaweedFS, VersityGW  # noqa: E402

MIB = 1024 * 1024
PEAK_MIB = 256 + 96  # the parts in flight, and all the rest of the process
BOTH = pytest.mark.parametrize("kind", [VersityGW, SeaweedFS], ids=lambda kind: kind.name)


def make_source(path, mib):
    """`mib` MiB and a few bytes; its SHA-256."""
    digest = hashlib.sha256()
    blocks = [random.Random(i).randbytes(MIB) for i in range(7)]
    with open(path, "wb") as out:
        for i in range(mib):
            block = i.to_bytes(8, "big") + blocks[i % 7][8:]
            digest.update(block)
            out.write(block)
        out.write(b"the end")
        digest.update(b"the end")
    return digest.hexdigest()


def start_put(server, source, env):
    return subprocess.Popen([str(LAKE), "put", str(source), "--json", "--data-dir",
                             str(server.data_dir)], env=env, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)


def recorded_parts(marks):
    found = list(marks.glob("*.upload"))
    return len(json.loads(found[0].read_text())["parts"]) if found else 0


def times_of_parts(client):
    """When each part of the one unfinished upload arrived. One that was killed between its beginning
    and its first checkpoint has no parts."""
    uploads = client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
    found = []
    for upload in uploads:
        pages = client.get_paginator("list_parts").paginate(
            Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])
        parts = [(part["PartNumber"], part["LastModified"]) for page in pages
                 for part in page.get("Parts", [])]
        found.append(dict(sorted(parts)))  # SeaweedFS lists a part that was sent twice twice
    found = [parts for parts in found if parts]
    assert len(found) <= 1, uploads
    return found[0] if found else {}


def run_kills(kind, tmp_path, mib, kills, longest_s):
    source, marks = tmp_path / "source", tmp_path / "marks"
    digest = make_source(source, mib)
    seed = int(os.environ.get("LAKE_TEST_SEED", time.time_ns() % 10**6))
    print(f"LAKE_TEST_SEED={seed}")
    dice = random.Random(seed)
    with kind(tmp_path / "s3") as s3:
        env = clean_environment({
            "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL_S3": s3.endpoint, "AWS_EC2_METADATA_DISABLED": "true",
            "LAKE_UPLOAD_CHECKPOINT_DIR": str(marks), "no_proxy": "127.0.0.1"})
        client = s3.boto3()
        with LakeServer(tmp_path / "data", {**env, "LAKE_S3_BUCKET": BUCKET}) as server:
            began = time.monotonic()
            killed = 0
            while True:
                held = recorded_parts(marks)
                started = datetime.datetime.now(datetime.timezone.utc)
                process = start_put(server, source, env)
                try:
                    limit = dice.uniform(0.05, longest_s) if killed < kills else 600
                    stdout, stderr = process.communicate(timeout=limit)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    killed += 1
                    after = times_of_parts(client)
                    # Parts that are gone are in the object that the server is putting together.
                    again = [n for n in range(1, held + 1) if n in after and after[n] > started]
                    assert again == [], (held, again)
                    continue
                assert process.returncode == 0, stderr
                break
            location = json.loads(stdout)
            key = location["uri"].removeprefix(f"s3://{BUCKET}/")
            body = client.get_object(Bucket=BUCKET, Key=key)["Body"]
            stored = hashlib.sha256()
            for block in body.iter_chunks(MIB):
                stored.update(block)
            assert location["sha256"] == digest == stored.hexdigest()
            assert times_of_parts(client) == {}
            print(f"{killed} kills, {time.monotonic() - began:.1f} s")
            check_memory(server, source, env)


def check_memory(server, source, env):
    """A whole upload in one go."""
    process = start_put(server, source, env)
    peak = 0
    while process.poll() is None:
        try:
            for line in open(f"/proc/{process.pid}/status"):
                if line.startswith("VmHWM:"):
                    peak = max(peak, int(line.split()[1]))
        except OSError:
            pass
        time.sleep(0.01)
    assert process.returncode == 0
    process.communicate()
    if not server.is_sanitized():
        assert peak < PEAK_MIB * 1024, f"{peak} KiB"


@BOTH
def test_an_upload_survives_kills(kind, tmp_path):
    run_kills(kind, tmp_path, 200, 4, 0.5)


@pytest.mark.soak
@BOTH
def test_an_upload_of_5_gib_survives_20_kills(kind, tmp_path):
    run_kills(kind, tmp_path, 5 * 1024, 20, 8)
