"""Tables and objects in S3 (NAT-10, OBJ-2): `lake up` with LAKE_S3_BUCKET on the strict server. pylance
reads the tables where they are, boto3 the objects."""

import hashlib
import json
import pathlib
import random
import subprocess
import sys

import lance
import pyarrow as pa
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from lake_server import LAKE, LakeServer, clean_environment  # noqa: E402
from s3_servers import ACCESS_KEY, BUCKET, SECRET_KEY, VersityGW  # noqa: E402

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with VersityGW(tmp_path_factory.mktemp("s3")) as server:
        yield server


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
