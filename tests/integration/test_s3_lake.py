"""Tables and objects in S3 (NAT-10, OBJ-1 to OBJ-4, OBJ-6, OBJ-7): `lake up` with LAKE_S3_BUCKET on both
servers. pylance reads the tables where they are, boto3 the objects."""

import fcntl
import hashlib
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request

import lance
import pyarrow as pa
import pyarrow.flight as flight
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "fault_s3"))
import metasrv  # noqa: E402
from lake_server import BUILD, LAKE, LakeServer, clean_environment  # noqa: E402
from s3_servers import ACCESS_KEY, BUCKET, SECRET_KEY  # noqa: E402
from server import FaultServer, crc32c_text  # noqa: E402

MIB = 1024 * 1024


def credentials(**more):
    return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
            "AWS_EC2_METADATA_DISABLED": "true", "no_proxy": "127.0.0.1", **more}


def settings(s3, prefix, **more):
    return credentials(AWS_ENDPOINT_URL_S3=s3.endpoint, LAKE_S3_BUCKET=BUCKET,
                       LAKE_TABLE_PREFIX=f"{prefix}/tables",
                       LAKE_MANAGED_OBJECT_PREFIX=f"{prefix}/objects", **more)


def dataset(s3, prefix, name):
    namespace, table = name.split(".")
    return lance.dataset(
        f"s3://{BUCKET}/{prefix}/tables/{namespace}/{table}.lance",
        storage_options={"endpoint": s3.endpoint, "allow_http": "true", "region": "us-east-1",
                         "access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY,
                         "virtual_hosted_style_request": "false"})


def keys(s3, prefix):
    pages = s3.boto3().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    return [item["Key"] for page in pages for item in page.get("Contents", [])]


def import_rows(server, directory, name, rows):
    table = pa.table({"id": pa.array([r[0] for r in rows], pa.int64()),
                      "x": pa.array([r[1] for r in rows], pa.float64())})
    path = directory / "rows.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    server.run("import", name, path, env=credentials())


def query(server, sql):
    return json.loads(server.run("sql", sql, "--json", env=credentials()).stdout)


def test_tables_live_in_the_bucket_and_pylance_reads_them(s3, tmp_path):
    rows = [(i, i / 4) for i in range(5000)]
    with LakeServer(tmp_path / "data", settings(s3, "one")) as server:
        server.run("table", "create", "lab.n", "--column", "id:int64", "--column", "x:float64")
        import_rows(server, tmp_path, "lab.n", rows[:2000])
        import_rows(server, tmp_path, "lab.n", rows[2000:])
        assert query(server, "SELECT count(*) AS n, sum(id) AS s, max(x) AS m FROM lab.n") == [
            {"n": 5000, "s": sum(range(5000)), "m": 4999 / 4}]
        assert query(server, "SELECT id FROM lab.n WHERE x = 300.25") == [{"id": 1201}]
        read = dataset(s3, "one", "lab.n")
        read.validate()
        assert [version["version"] for version in read.versions()] == [1, 2, 3]
        assert sorted(map(tuple, (row.values() for row in read.to_table().to_pylist()))) == rows
        assert not (tmp_path / "data" / "tables").exists()
    # The registry alone is local: another process finds everything again.
    with LakeServer(tmp_path / "data", settings(s3, "one")) as server:
        assert query(server, "SELECT count(*) AS n FROM lab.n") == [{"n": 5000}]
        server.run("table", "drop", "lab.n")
        assert keys(s3, "one/tables/lab/n.lance/") == []
        server.run("table", "create", "lab.n", "--column", "id:int64", "--column", "x:float64")
        assert query(server, "SELECT count(*) AS n FROM lab.n") == [{"n": 0}]
        assert any("__reference-deltas/" in key for key in keys(s3, "one/tables/"))


def test_the_stage_is_the_tenants_child_and_comes_without_credentials(s3, tmp_path):
    with LakeServer(tmp_path / "data", settings(s3, "eight")) as server, \
            flight.connect(f"grpc://{server.address}") as client:
        [answer] = client.do_action(flight.Action("lake.stage", b""))
        data = answer.body.to_pybytes()
    stage = metasrv.parse(data)
    assert stage[1] == [1] and stage[2] == [b"s3"] and stage[4] == [s3.endpoint.encode()]
    assert stage[3] == [f"s3://{BUCKET}/eight/objects/tenants/development".encode()]
    assert stage.keys() <= {1, 2, 3, 4, 5, 6}
    assert SECRET_KEY.encode() not in data and ACCESS_KEY.encode() not in data


def test_objects_go_between_client_and_bucket(s3, tmp_path):
    data = random.Random(5).randbytes(20 * MIB + 17)
    video = tmp_path / "run1.mp4"
    video.write_bytes(data)
    (tmp_path / "empty").write_bytes(b"")
    with LakeServer(tmp_path / "data", settings(s3, "two")) as server:
        server.run("table", "create", "lab.runs", "--column", "id:int64", "--column", "video:FILE")
        for i, path in ((1, video), (2, tmp_path / "empty")):
            server.run("put", "--into", "lab.runs", "--set", f"id={i}", "--file", f"video={path}",
                       env=credentials())
        found = query(server, "SELECT id, video.uri AS uri, video.size_bytes AS size, "
                              "video.sha256 AS sha256 FROM lab.runs ORDER BY id")
        assert [row["size"] for row in found] == [len(data), 0]
        assert found[0]["sha256"] == hashlib.sha256(data).hexdigest()
        for row, expected in zip(found, (data, b"")):
            assert row["uri"].startswith(f"s3://{BUCKET}/two/objects/tenants/")
            key = row["uri"].removeprefix(f"s3://{BUCKET}/")
            assert s3.boto3().get_object(Bucket=BUCKET, Key=key)["Body"].read() == expected
        copy = tmp_path / "copy"
        select = "SELECT video FROM lab.runs WHERE id = 1"
        server.run("get", select, "-o", copy, env=credentials())
        assert copy.read_bytes() == data
        # What was damaged is not handed out.
        s3.boto3().put_object(Bucket=BUCKET, Key=found[0]["uri"].removeprefix(f"s3://{BUCKET}/"),
                              Body=data[:-1] + bytes([data[-1] ^ 1]))
        done = server.run("get", select, "-o", tmp_path / "bad", check=False, env=credentials())
        assert done.returncode != 0 and "SHA-256" in done.stderr
        assert not (tmp_path / "bad").exists()
        assert SECRET_KEY not in server.log_text()


def test_a_range_of_an_object_is_one_get_of_it(tmp_path):
    """OBJ-6: of 100 MiB in the middle, and of its digests another; the answer is checked first."""
    data = b"".join(n.to_bytes(8, "little") * 1024 for n in range(101 * 128))
    video = tmp_path / "video"
    video.write_bytes(data)
    first, last = 300_000, 300_000 + 100 * MIB
    with FaultServer({"etags": False}) as store:
        env = credentials(AWS_ENDPOINT_URL_S3=store.endpoint, LAKE_S3_BUCKET="bucket")
        with LakeServer(tmp_path / "data", env) as server:
            server.run("table", "create", "lab.runs", "--column", "video:FILE")
            server.run("put", "--into", "lab.runs", "--file", f"video={video}", env=env)
            select = "SELECT video FROM lab.runs"
            found = json.loads(server.run("sql", "SELECT video.uri AS uri FROM lab.runs",
                                          "--json", env=env).stdout)
            key = found[0]["uri"].removeprefix("s3://bucket/")

            def cat():
                store.requests.clear()
                done = subprocess.run(
                    [str(LAKE), "cat", select, "--range", f"{first}:{last}", "--addr",
                     server.address], env=clean_environment(env), capture_output=True)
                gets = [r for r in store.requests if r["op"] == "get"]
                return done, [r["range"] for r in gets if r["key"] == key]

            done, ranges = cat()
            assert done.stdout == data[first:last], done.stderr
            unit = 65536
            start, end = first - first % unit, last - last % -unit
            assert ranges == [f"bytes={start}-{end - 1}"]
            store.rules.append({"on": {"op": "get", "key": key},
                                "do": {"close_after": 50 * MIB}})
            done, ranges = cat()
            assert done.returncode != 0 and b"ended early" in done.stderr and len(ranges) == 1
            assert data[first:last].startswith(done.stdout)
            store.rules.append({"on": {"op": "get", "key": key}, "do": {"shift": 1}})
            done, ranges = cat()
            assert done.returncode != 0 and b"digest" in done.stderr and not done.stdout


def test_a_client_without_credentials_says_what_is_missing(s3, tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    with LakeServer(tmp_path / "data", settings(s3, "three")) as server:
        done = server.run("put", tmp_path / "file", check=False,
                          env=credentials(AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY=""))
        assert done.returncode != 0
        assert "no AWS credentials were found" in done.stderr
        done = server.run("put", tmp_path / "file", check=False,
                          env=credentials(AWS_SECRET_ACCESS_KEY="wrong"))
        assert done.returncode != 0 and "SignatureDoesNotMatch" in done.stderr
        assert keys(s3, "three/objects/") == []


def start(data_dir, env):
    return subprocess.run([str(LAKE), "up", "--data-dir", str(data_dir), "--listen",
                           "127.0.0.1:0"], env=clean_environment(env), capture_output=True,
                          text=True, timeout=60)


@pytest.mark.parametrize("changed, message", [
    ({"LAKE_S3_BUCKET": ""}, "set LAKE_S3_BUCKET too"),
    ({"LAKE_S3_BUCKET": "a/b"}, "is not the name of a bucket"),
    ({"LAKE_TABLE_PREFIX": "/x"}, "LAKE_TABLE_PREFIX must be a prefix"),
    ({"LAKE_MANAGED_OBJECT_PREFIX": "x/../y"}, "LAKE_MANAGED_OBJECT_PREFIX must be a prefix"),
    ({"LAKE_S3_BUCKET": "no-such-bucket"}, "no-such-bucket"),
    ({"AWS_ENDPOINT_URL_S3": "127.0.0.1"}, "an S3 endpoint is http://"),
    ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "SignatureDoesNotMatch"),
])
def test_wrong_settings_are_errors_at_the_start(s3, tmp_path, changed, message):
    done = start(tmp_path / "data", {**settings(s3, "four"), **changed})
    assert done.returncode != 0
    assert message in done.stderr, done.stderr
    assert SECRET_KEY not in done.stderr


def test_a_registry_does_not_change_between_places(s3, tmp_path):
    with LakeServer(tmp_path / "data", settings(s3, "five")) as server:
        server.run("table", "create", "lab.n", "--column", "id:int64")
    for env in ({}, settings(s3, "six")):
        done = start(tmp_path / "data", env)
        assert done.returncode != 0
        assert f"are in s3://{BUCKET}/five/tables" in done.stderr, done.stderr
    with LakeServer(tmp_path / "data", settings(s3, "five")) as server:
        assert query(server, "SELECT count(*) AS n FROM lab.n") == [{"n": 0}]


# ---- presigned reads (OBJ-7) ----

def presign(server, location, seconds, env=None):
    return subprocess.run(
        [str(BUILD / "tests" / "presign_tool"), server.address, location["uri"],
         str(location["size_bytes"]), location["sha256"], str(seconds)],
        env=clean_environment(env or credentials()), capture_output=True, text=True, timeout=60)


def test_presigned_reads_of_the_callers_own_objects(s3, tmp_path):
    data = random.Random(8).randbytes(100_000)
    (tmp_path / "file").write_bytes(data)
    with LakeServer(tmp_path / "data", settings(s3, "seven")) as server:
        done = server.run("put", tmp_path / "file", "--json", env=credentials())
        location = json.loads(done.stdout)
        for seconds in (1, 3600):
            done = presign(server, location, seconds)
            assert done.returncode == 0, done.stderr
        url, expires = done.stdout.split()
        assert abs(int(expires) / 1000 - time.time() - 3600) < 60
        assert SECRET_KEY not in url
        with urllib.request.urlopen(url) as reply:
            assert reply.read() == data
        with urllib.request.urlopen(urllib.request.Request(
                url, headers={"Range": "bytes=10-19"})) as reply:
            assert reply.status == 206 and reply.read() == data[10:20]
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(url.replace("/tenants/", "/tenant/"))
        for seconds in (0, 3601):
            done = presign(server, location, seconds)
            assert done.returncode == 1 and "INVALID_ARGUMENT" in done.stderr
        for uri in (location["uri"].replace("/tenants/", "/tenants/x"),
                    location["uri"].replace("/development/", "/development/../other/"),
                    "file:///etc/passwd"):
            done = presign(server, {**location, "uri": uri}, 60)
            assert done.returncode == 1, uri
            assert "PERMISSION_DENIED" in done.stderr or "INVALID_ARGUMENT" in done.stderr
        assert "X-Amz-Signature" not in server.log_text()
    with LakeServer(tmp_path / "local") as server:
        done = server.run("put", tmp_path / "file", "--json")
        done = presign(server, json.loads(done.stdout), 60)
        assert done.returncode == 1 and "UNIMPLEMENTED" in done.stderr


# ---- uploads in parts (OBJ-3, OBJ-4) ----

PART = 64 * MIB


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Two parts and a bit."""
    path = tmp_path_factory.mktemp("large") / "run.mcap"
    path.write_bytes(random.Random(6).randbytes(MIB) * 128 + b"the end")
    return path


@pytest.fixture(scope="module")
def stage(s3, tmp_path_factory):
    with LakeServer(tmp_path_factory.mktemp("stage") / "data", settings(s3, "stage")) as server:
        yield server


def put(server, path, directory, check=True, **env):
    done = server.run("put", path, "--json", check=check,
                      env=credentials(LAKE_UPLOAD_CHECKPOINT_DIR=str(directory), **env))
    return json.loads(done.stdout) if check else done


def uploads(s3):
    return s3.boto3().list_multipart_uploads(Bucket=BUCKET, Prefix="stage/").get("Uploads", [])


def assert_stored(s3, location, path):
    key = location["uri"].removeprefix(f"s3://{BUCKET}/")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert location["sha256"] == digest
    body = s3.boto3().get_object(Bucket=BUCKET, Key=key)
    assert hashlib.sha256(body["Body"].read()).hexdigest() == digest
    assert body["ETag"].endswith('-3"')
    record = s3.boto3().get_object(Bucket=BUCKET, Key=key + ".chunks")["Body"].read()
    assert record == chunk_record(path.read_bytes())


def chunk_record(data):
    """What the upload records of an object's chunks of 64 KiB, as client.md says."""
    chunks = b"".join(hashlib.sha256(data[at:at + 65536]).digest()
                      for at in range(0, len(data), 65536))
    record = (b"LAKECHNK" + struct.pack("<IIQ", 1, 0, len(data)) + hashlib.sha256(data).digest()
              + chunks)
    return record + hashlib.sha256(record).digest()


def checkpoints(directory):
    return list(directory.glob("*.upload"))


def test_objects_say_their_media_type_however_large(s3, stage, large, tmp_path):
    small = tmp_path / "small.mp4"
    small.write_bytes(os.urandom(1000))
    for path in (small, large):
        location = json.loads(stage.run("put", path, "--media-type", "video/mp4", "--json",
                                        env=credentials()).stdout)
        head = s3.boto3().head_object(Bucket=BUCKET,
                                      Key=location["uri"].removeprefix(f"s3://{BUCKET}/"))
        assert head["ContentType"] == "video/mp4", path


def test_an_upload_killed_between_parts_goes_on(s3, stage, large, tmp_path):
    done = put(stage, large, tmp_path, check=False, LAKE_FAULT="client.upload.checkpoint:3:kill")
    assert done.returncode == -9
    [checkpoint] = checkpoints(tmp_path)
    text = checkpoint.read_text()
    recorded = json.loads(text)
    assert recorded["format"] == 2 and len(recorded["parts"]) == 1
    assert checkpoint.stat().st_mode & 0o077 == 0
    assert SECRET_KEY not in text and ACCESS_KEY not in text
    [upload] = uploads(s3)
    parts = s3.boto3().list_parts(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])
    before = {part["PartNumber"]: part["LastModified"] for part in parts["Parts"]}
    assert_stored(s3, put(stage, large, tmp_path), large)
    assert 1 in before and uploads(s3) == [] and checkpoints(tmp_path) == []


def test_only_what_is_missing_is_sent_again(s3, stage, large, tmp_path):
    put(stage, large, tmp_path, check=False, LAKE_FAULT="client.upload.checkpoint:4:kill")
    [upload] = uploads(s3)
    client = s3.boto3()
    listed = client.list_parts(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])["Parts"]
    done = put(stage, large, tmp_path, check=False, LAKE_FAULT="client.upload.checkpoint:1:kill")
    assert done.returncode == -9  # after the third part had arrived again, and no other
    again = client.list_parts(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])["Parts"]
    assert [part["LastModified"] for part in again[:2]] == \
        [part["LastModified"] for part in listed[:2]]
    assert_stored(s3, put(stage, large, tmp_path), large)


def test_a_finished_upload_whose_checkpoint_stayed_is_found(s3, stage, large, tmp_path):
    put(stage, large, tmp_path, check=False, LAKE_FAULT="client.upload.checkpoint:4:kill")
    [checkpoint] = checkpoints(tmp_path)
    text = checkpoint.read_bytes()
    first = put(stage, large, tmp_path)
    checkpoint.write_bytes(text)  # as if the process had died before it removed the file
    second = put(stage, large, tmp_path)
    assert second["uri"] == first["uri"] and second["sha256"] == first["sha256"]
    assert checkpoints(tmp_path) == []
    # A file that has other bytes now, in its last part and with its old times, is not that object.
    info = large.stat()
    record = s3.boto3().get_object(Bucket=BUCKET, Key=second["uri"][len(f"s3://{BUCKET}/"):] + ".chunks")
    record = record["Body"].read()
    checkpoint.write_bytes(text)
    flip_last(large, info)
    done = put(stage, large, tmp_path, check=False)
    assert done.returncode == 1 and "does not hold the bytes" in done.stderr, done.stderr
    env = credentials(LAKE_UPLOAD_CHECKPOINT_DIR=str(tmp_path))
    stage.run("put", large, "--cancel", env=env)
    flip_last(large, info)
    assert_stored(s3, second, large)  # with its record, which neither of them touched
    assert record == chunk_record(large.read_bytes())


def flip_last(path, info):
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def test_an_upload_whose_file_has_gone_is_cancelled(s3, stage, large, tmp_path):
    source = tmp_path / "source"
    os.link(large, source)
    marks = tmp_path / "marks"
    put(stage, source, marks, check=False, LAKE_FAULT="client.upload.checkpoint:3:kill")
    assert len(uploads(s3)) == 1
    source.unlink()
    stage.run("put", source, "--cancel", env=credentials(LAKE_UPLOAD_CHECKPOINT_DIR=str(marks)))
    assert uploads(s3) == [] and list(marks.iterdir()) == []


def test_a_name_that_is_not_utf8_is_resumed(s3, stage, large, tmp_path):
    source = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.mp4")
    os.link(large, source)
    marks = tmp_path / "marks"
    put(stage, source, marks, check=False, LAKE_FAULT="client.upload.checkpoint:3:kill")
    [upload] = uploads(s3)
    assert_stored(s3, put(stage, source, marks), large)
    assert uploads(s3) == [] and list(marks.iterdir()) == []  # no lock either


def test_an_upload_whose_checkpoint_is_damaged_is_cancelled(s3, stage, large, tmp_path):
    put(stage, large, tmp_path, check=False, LAKE_FAULT="client.upload.checkpoint:3:kill")
    [checkpoint] = checkpoints(tmp_path)
    text = checkpoint.read_text()
    recorded = json.loads(text)
    env = credentials(LAKE_UPLOAD_CHECKPOINT_DIR=str(tmp_path))
    # What no longer says which upload it is of is removed, and that parts are left is said.
    for damage in ("", text[:len(text) // 4], json.dumps({**recorded, "key": "../x"}), "x" * 5 * MIB):
        checkpoint.write_text(damage)
        done = put(stage, large, tmp_path, check=False)
        assert done.returncode == 1 and "cancel that upload" in done.stderr, done.stderr
        done = stage.run("put", large, "--cancel", env=env, check=False)
        assert done.returncode == 1 and "stays in the stage" in done.stderr, done.stderr
        assert checkpoints(tmp_path) == [] and len(uploads(s3)) == 1
    # What does is cancelled with its parts; and so is one of a later format.
    checkpoint.write_text(json.dumps({**recorded, "format": 9}))
    done = put(stage, large, tmp_path, check=False)
    assert done.returncode == 1 and "format 9" in done.stderr, done.stderr
    stage.run("put", large, "--cancel", env=env)
    assert uploads(s3) == [] and checkpoints(tmp_path) == []


def test_an_upload_that_somebody_aborted_begins_anew(s3, stage, large, tmp_path):
    put(stage, large, tmp_path, check=False, LAKE_FAULT="client.upload.checkpoint:3:kill")
    [upload] = uploads(s3)
    s3.boto3().abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])
    assert_stored(s3, put(stage, large, tmp_path), large)
    assert checkpoints(tmp_path) == []


def test_case_O04_a_changed_source_is_refused_and_can_be_cancelled(s3, stage, large, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(large.read_bytes())
    marks = tmp_path / "marks"
    put(stage, source, marks, check=False, LAKE_FAULT="client.upload.checkpoint:3:kill")
    [checkpoint] = checkpoints(marks)
    recorded = json.loads(checkpoint.read_text())
    info = source.stat()
    with open(source, "r+b") as file:
        file.write(b"other")
    done = put(stage, source, marks, check=False)
    assert done.returncode != 0 and "is not what it was" in done.stderr
    # Even when its size and times say nothing.
    os.utime(source, ns=(info.st_atime_ns, info.st_mtime_ns))
    done = put(stage, source, marks, check=False)
    assert done.returncode != 0 and "does not hold the bytes" in done.stderr, done.stderr
    assert len(uploads(s3)) == 1
    env = credentials(LAKE_UPLOAD_CHECKPOINT_DIR=str(marks))
    stage.run("put", source, "--cancel", env=env)
    assert uploads(s3) == [] and checkpoints(marks) == []
    done = stage.run("put", source, "--cancel", check=False, env=env)
    assert done.returncode != 0 and "no upload" in done.stderr
    for damage in ("{", "[]", json.dumps({**recorded, "parts": [[]]}),
                   json.dumps({**recorded, "key": "../x"}), json.dumps({**recorded, "format": 1}),
                   json.dumps({**recorded, "part_bytes": 8 * MIB})):
        checkpoint.write_text(damage)
        done = put(stage, source, marks, check=False)
        assert done.returncode != 0 and "checkpoint" in done.stderr, (damage, done.stderr)
    checkpoint.unlink()
    assert_stored(s3, put(stage, source, marks), source)


def test_parts_of_5_mib_of_the_first_format_go_on_with_5_mib(s3, stage, tmp_path):
    data = random.Random(7).randbytes(17 * MIB)
    source = tmp_path / "source"
    source.write_bytes(data)
    marks = tmp_path / "marks"
    client = s3.boto3()
    # A checkpoint to learn its name and stage from; its upload is replaced by one of small parts.
    large = tmp_path / "large"
    large.write_bytes(bytes(PART + 1))
    put(stage, large, marks, check=False, LAKE_FAULT="client.upload.checkpoint:3:kill")
    [checkpoint] = checkpoints(marks)
    recorded = json.loads(checkpoint.read_text())
    checkpoint.unlink()
    client.abort_multipart_upload(Bucket=BUCKET, Key=uploads(s3)[0]["Key"],
                                  UploadId=uploads(s3)[0]["UploadId"])
    key = recorded["stage"].removeprefix(f"s3://{BUCKET}/") + "/" + recorded["key"]
    created = client.create_multipart_upload(Bucket=BUCKET, Key=key, ChecksumAlgorithm="CRC32C")
    parts = []
    for number in (1, 2):
        body = data[(number - 1) * 5 * MIB:number * 5 * MIB]
        sent = client.upload_part(Bucket=BUCKET, Key=key, UploadId=created["UploadId"],
                                  PartNumber=number, Body=body, ChecksumCRC32C=crc32c_text(body))
        parts.append([sent["ETag"], sent["ChecksumCRC32C"]])
    info = source.stat()
    name = hashlib.sha256(f"{recorded['stage']}\n{source}".encode()).hexdigest()[:32]
    (marks / f"{name}.upload").write_text(json.dumps({
        **recorded, "format": 1, "part_bytes": 5 * MIB, "source": str(source),
        "source_size": info.st_size, "source_mtime_s": info.st_mtime_ns // 10**9,
        "source_mtime_ns": info.st_mtime_ns % 10**9, "source_inode": info.st_ino,
        "upload_id": created["UploadId"], "parts": parts}))
    location = put(stage, source, marks)
    assert location["uri"] == f"s3://{BUCKET}/{key}"
    found = client.get_object(Bucket=BUCKET, Key=key)
    assert found["Body"].read() == data and found["ETag"].endswith('-4"')


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_upload_leaves_no_parts(s3, stage, number, tmp_path):
    endless = tmp_path / "endless"
    with open(endless, "wb") as file:
        file.truncate(1 << 36)
    for marks in (None, tmp_path / "marks"):
        keep = {"LAKE_UPLOAD_CHECKPOINT_DIR": str(marks)} if marks else {}
        process = subprocess.Popen(
            [LAKE, "put", endless, "--data-dir", stage.data_dir], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=clean_environment(credentials(**keep)), text=True)
        deadline = time.monotonic() + 60
        while not (uploads(s3) if marks is None else checkpoints(marks)):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
        assert process.returncode == -number and stdout == "" and "cancelled" in stderr, stderr
        assert len(uploads(s3)) == (1 if marks else 0)
    stage.run("put", endless, "--cancel", env=credentials(LAKE_UPLOAD_CHECKPOINT_DIR=str(marks)))
    assert uploads(s3) == []


@pytest.mark.parametrize("media_type", [
    "video/mp4\r\nx-amz-meta-more: 1", "video/mp4\n", "video/\x1b[31m", "vid\u00e9o/mp4", "video/mp4 ",
    " video/mp4", "video", "/mp4", "video/", "video/" + "x" * 250])
def test_a_media_type_is_a_line_of_a_header(stage, media_type, tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    done = stage.run("put", tmp_path / "a", "--media-type", media_type, check=False,
                     env=credentials())
    assert done.returncode == 1 and "is not a media type" in done.stderr, done.stderr


def test_two_processes_do_not_resume_one_upload(s3, stage, large, tmp_path):
    put(stage, large, tmp_path, check=False, LAKE_FAULT="client.upload.checkpoint:3:kill")
    with open(next(tmp_path.glob("*.lock")), "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = put(stage, large, tmp_path, check=False)
        assert done.returncode != 0 and "is being uploaded by another process" in done.stderr
    assert_stored(s3, put(stage, large, tmp_path), large)


def test_without_a_checkpoint_directory_a_failed_upload_leaves_no_parts(s3, stage, large, tmp_path):
    done = stage.run("put", large, check=False,
                     env=credentials(LAKE_FAULT="storage.s3_request:3:error"))
    assert done.returncode != 0 and "told to fail" in done.stderr
    assert uploads(s3) == []
