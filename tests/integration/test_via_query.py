"""Query-only clients read objects by URLs that Query signs (OBJ-8): `lake up` with its stage on
both servers, two tenants, a client without any credentials; and services that misbehave."""

import hashlib
import http.client
import http.server
import json
import pathlib
import random
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "fault_s3"))
from credential_services import Services  # noqa: E402
from lake_server import BUILD, LakeServer, clean_environment  # noqa: E402
from s3_servers import ACCESS_KEY, BUCKET, SECRET_KEY  # noqa: E402
from server import FaultServer, content  # noqa: E402

MIB = 1024 * 1024
DATA = random.Random(81).randbytes(17 * MIB + 5)  # three ranges
FORGED = "f0" * 32  # what a service puts into its errors in place of a signature


def credentials(**more):
    return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
            "AWS_EC2_METADATA_DISABLED": "true", "no_proxy": "127.0.0.1", **more}


def settings(endpoint, **more):
    return credentials(AWS_ENDPOINT_URL_S3=endpoint, LAKE_S3_BUCKET=BUCKET,
                       LAKE_TABLE_PREFIX="via/tables", LAKE_MANAGED_OBJECT_PREFIX="via/objects",
                       **more)


def principals(path):
    path.write_text(json.dumps({"principals": [
        {"token": f"token-of-{name}", "principal_id": name, "tenant_id": tenant, "role": role,
         "namespaces": ["*"]}
        for name, tenant, role in (("ann", "lab", "user"), ("bob", "arms", "user"),
                                   ("query", "ops", "query_service"))]}))
    path.chmod(0o600)
    (path.parent / "ann").write_text("token-of-ann")
    (path.parent / "query").write_text("token-of-query")
    for name in ("ann", "query"):
        (path.parent / name).chmod(0o600)
    return {"LAKE_AUTH_PRINCIPALS_FILE": str(path),
            "LAKE_METADATA_AUTH_TOKEN_FILE": str(path.parent / "query")}


def read(server, call, location, *numbers, token=None, pause=None):
    """By a client that has no AWS credentials and no endpoint in its environment."""
    env = {key: value for key, value in clean_environment({
        "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        "no_proxy": "127.0.0.1"}).items() if key not in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE")}
    if token is not None:
        env["VIA_QUERY_TOKEN"] = token
    if pause is not None:
        env["VIA_QUERY_PAUSE"] = str(pause)
    done = subprocess.run(
        [str(BUILD / "tests" / "via_query_tool"), server.address, call, location["uri"],
         str(location["size_bytes"]), location["sha256"], *map(str, numbers)],
        env=env, capture_output=True, timeout=60)
    done.stderr = done.stderr.decode()
    for secret in ("X-Amz-Signature", "X-Amz-Credential", FORGED, SECRET_KEY):
        assert secret not in done.stderr
    return done


def assert_fails(done, code, text=""):
    assert done.returncode == 1 and done.stderr.startswith(code + ":"), done.stderr
    assert text in done.stderr, done.stderr


@pytest.fixture(scope="module")
def lake(s3, tmp_path_factory):
    directory = tmp_path_factory.mktemp("lake")
    env = settings(s3.endpoint, **principals(directory / "principals"))
    with LakeServer(directory / "data", env) as server:
        server.token_file = directory / "ann"
        yield server
        log = server.log_text()
        assert "X-Amz-" not in log and SECRET_KEY not in log


@pytest.fixture(scope="module")
def location(lake, tmp_path_factory):
    return put(lake, tmp_path_factory.mktemp("put") / "file", DATA)


def put(lake, path, data):
    path.write_bytes(data)
    done = lake.run("put", path, "--json", "--token-file", lake.token_file, env=credentials())
    found = json.loads(done.stdout)
    assert found["uri"].startswith(f"s3://{BUCKET}/via/objects/tenants/lab/")
    return found


def key_of(location):
    return location["uri"].removeprefix(f"s3://{BUCKET}/")


def test_a_client_without_credentials_reads_objects_and_ranges(lake, location, tmp_path):
    done = read(lake, "open", location, token="token-of-ann")
    assert done.returncode == 0 and done.stdout == DATA, done.stderr
    size = len(DATA)
    for start, end in ((0, 1), (10, 20), (8 * MIB - 3, 16 * MIB + 3), (size - 1, size), (0, size)):
        done = read(lake, "range", location, start, end, token="token-of-ann")
        assert done.returncode == 0 and done.stdout == DATA[start:end], done.stderr
    for start, end in ((0, 0), (5, 4), (-1, 4), (0, size + 1)):
        done = read(lake, "range", location, start, end, token="token-of-ann")
        assert_fails(done, "OUT_OF_RANGE", "must be within")
    empty = put(lake, tmp_path / "empty", b"")
    done = read(lake, "open", empty, token="token-of-ann")
    assert done.returncode == 0 and done.stdout == b"", done.stderr


def test_a_client_without_credentials_seeks_in_verified_objects(s3, lake, tmp_path):
    data = DATA[:5 * MIB + 3]
    where = put(lake, tmp_path / "file", data)
    size = len(data)
    for start, end in ((0, 1), (4 * MIB - 5, 4 * MIB + 70_000), (size - 9, size), (size - 5, size + 5)):
        done = read(lake, "seek", where, start, end, token="token-of-ann")
        assert (done.returncode, done.stdout) == (0, data[start:end]), done.stderr
        assert done.stderr == "verified\n"
    flipped = bytearray(data)
    flipped[MIB] ^= 1
    s3.boto3().put_object(Bucket=BUCKET, Key=key_of(where), Body=bytes(flipped))
    assert_fails(read(lake, "seek", where, MIB - 5, MIB + 5, token="token-of-ann"), "DATA_LOSS")
    s3.boto3().delete_object(Bucket=BUCKET, Key=key_of(where) + ".chunks")
    done = read(lake, "seek", where, 5, 9, token="token-of-ann")
    assert (done.returncode, done.stdout, done.stderr) == (0, data[5:9], "")
    s3.boto3().put_object(Bucket=BUCKET, Key=key_of(where), Body=data[:-1])
    assert_fails(read(lake, "seek", where, 5, 9, token="token-of-ann"), "DATA_LOSS")
    for token, code in (("token-of-bob", "PERMISSION_DENIED"), ("no", "UNAUTHENTICATED")):
        assert_fails(read(lake, "seek", where, 5, 9, token=token), code)
    empty, small = put(lake, tmp_path / "empty", b""), put(lake, tmp_path / "small", b"abc")
    assert read(lake, "seek", empty, 0, 5, token="token-of-ann").stdout == b""
    done = read(lake, "seek", small, 1, 9, token="token-of-ann")
    assert (done.stdout, done.stderr) == (b"bc", "verified\n")


def test_get_and_cat_without_credentials(s3, lake, tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(b"some " + b"word" + DATA)
    data = source.read_bytes()
    token = ("--token-file", lake.token_file)
    lake.run("table", "create", "lab.runs", "--column", "id:int64", "--column", "f:FILE", *token)
    lake.run("put", "--into", "lab.runs", "--set", "id=1", "--file", f"f={source}", *token,
             env=credentials())
    none = {"AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
            "AWS_EC2_METADATA_DISABLED": "true", "no_proxy": "127.0.0.1"}
    select = "SELECT f FROM lab.runs"
    done = lake.run("get", select, "-o", copy, *token, env=none, check=False)
    assert done.returncode == 1 and "no AWS credentials" in done.stderr
    # One that was killed goes on where it was.
    done = lake.run("get", select, "-o", copy, "--via-query", *token, check=False,
                    env={**none, "LAKE_FAULT": "client.download.block:2:kill"})
    assert done.returncode == -9 and not copy.exists()
    [partial] = tmp_path.glob("copy.part-*")
    assert 0 < partial.stat().st_size < len(data)
    lake.run("get", select, "-o", copy, "--via-query", *token, env=none)
    assert copy.read_bytes() == data and list(tmp_path.glob("copy.part-*")) == []
    done = lake.run("cat", select, "--via-query", "--range", "5:9", *token, env=none)
    assert done.stdout == "word"
    uri = json.loads(lake.run("sql", "SELECT f.uri AS uri FROM lab.runs", "--json", *token).stdout)
    s3.boto3().put_object(Bucket=BUCKET, Key=key_of(uri[0]), Body=data[:-1] + bytes([data[-1] ^ 1]))
    done = lake.run("get", select, "-o", tmp_path / "bad", "--via-query", *token, env=none,
                    check=False)
    assert done.returncode == 1 and "SHA-256" in done.stderr and not (tmp_path / "bad").exists()


def test_query_signs_urls_for_1_to_3600_seconds(lake, location):
    for seconds in (1, 3600):
        done = read(lake, "presign", location, seconds, token="token-of-ann")
        assert done.returncode == 0, done.stderr
    url, expires = done.stdout.decode().split()
    assert abs(int(expires) / 1000 - time.time() - 3600) < 60
    with urllib.request.urlopen(url) as reply:
        assert hashlib.sha256(reply.read()).hexdigest() == location["sha256"]
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(url.replace("/lab/", "/arms/"))
    for seconds in (0, 3601):
        assert_fails(read(lake, "presign", location, seconds, token="token-of-ann"),
                     "INVALID_ARGUMENT", "1 to 3600 seconds")


def test_nothing_is_signed_for_others(lake, location):
    uri = location["uri"]
    foreign = [(location, "token-of-bob"),
               ({**location, "uri": uri.replace("/lab/", "/labx/")}, "token-of-ann"),
               ({**location, "uri": f"s3://{BUCKET}/via/tables/x"}, "token-of-ann"),
               ({**location, "uri": uri.replace(BUCKET, "other", 1)}, "token-of-ann"),
               ({**location, "uri": "file:///etc/passwd"}, "token-of-ann")]
    for where, token in foreign:
        for call, numbers in (("open", ()), ("range", (0, 1)), ("presign", (60,))):
            assert_fails(read(lake, call, where, *numbers, token=token), "PERMISSION_DENIED",
                         "outside your stage")
    for inner in ("../arms/x", "a//b", "a/../../arms/x", "./a"):
        where = {**location, "uri": f"s3://{BUCKET}/via/objects/tenants/lab/{inner}"}
        assert_fails(read(lake, "presign", where, 60, token="token-of-ann"), "INVALID_ARGUMENT")
    assert_fails(read(lake, "open", location, token="token-of-nobody"), "UNAUTHENTICATED")
    assert_fails(read(lake, "open", {**location, "sha256": "0" * 63}, token="token-of-ann"),
                 "INVALID_ARGUMENT", "malformed")


def test_missing_and_damaged_objects_are_told(s3, lake, tmp_path):
    data = DATA[:9 * MIB]
    where = put(lake, tmp_path / "file", data)
    flipped = data[:-1] + bytes([data[-1] ^ 1])
    for stored, call, numbers in ((flipped, "open", ()), (data[:-1], "open", ()),
                                  (data + b"x", "open", ()), (data[:-1], "range", (0, 5)),
                                  (data + b"x", "range", (0, 5)), (b"", "open", ())):
        s3.boto3().put_object(Bucket=BUCKET, Key=key_of(where), Body=stored)
        assert_fails(read(lake, call, where, *numbers, token="token-of-ann"), "DATA_LOSS")
    empty = {**where, "size_bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()}
    for stored in (b"x", b"xy"):
        s3.boto3().put_object(Bucket=BUCKET, Key=key_of(where), Body=stored)
        assert_fails(read(lake, "open", empty, token="token-of-ann"), "DATA_LOSS")
        assert_fails(read(lake, "seek", empty, 0, 1, token="token-of-ann"), "DATA_LOSS")
    s3.boto3().delete_object(Bucket=BUCKET, Key=key_of(where))
    assert_fails(read(lake, "open", where, token="token-of-ann"), "NOT_FOUND")
    assert_fails(read(lake, "range", where, 0, 5, token="token-of-ann"), "NOT_FOUND")
    assert_fails(read(lake, "seek", empty, 0, 1, token="token-of-ann"), "NOT_FOUND")


def from_container(stage, services):
    return {"AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
            "AWS_EC2_METADATA_DISABLED": "true", "no_proxy": "127.0.0.1",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": services.url + "/container",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "container-auth",
            "AWS_ENDPOINT_URL_S3": stage.endpoint, "LAKE_S3_BUCKET": BUCKET}


def test_what_is_open_outlives_its_url(tmp_path):
    """URLs end with their credentials, in a minute, and are replaced that long before."""
    key = "objects/tenants/development/x"
    with FaultServer({"objects": {key: 300_000}}) as stage, \
            Services(lives=[62]) as services, \
            LakeServer(tmp_path / "data", from_container(stage, services)) as server:
        data = content(key, 300_000)
        where = {"uri": f"s3://{BUCKET}/{key}", "size_bytes": len(data),
                 "sha256": hashlib.sha256(data).hexdigest()}
        done = read(server, "seek", where, 200_000, 200_099, pause=3)
        assert (done.returncode, done.stdout) == (0, data[200_000:200_099]), done.stderr
        signatures = [r["url_signature"] for r in stage.requests
                      if r["op"] == "get" and r["key"] == key]
        assert signatures[0] == signatures[1] != signatures[-1], signatures


def test_case_O07_urls_that_query_signs_end_with_its_credentials(tmp_path):
    """Ten minutes, though an hour is asked for; less than that as asked."""
    with FaultServer({}) as stage, Services(lives=[600]) as services:
        env = from_container(stage, services)
        where = {"uri": f"s3://{BUCKET}/objects/tenants/development/x", "size_bytes": 1, "sha256": "0" * 64}
        with LakeServer(tmp_path / "data", env) as server:
            for asked, least, most in ((3600, 500, 600), (60, 50, 61)):
                done = read(server, "presign", where, asked)
                assert done.returncode == 0, done.stderr
                url, expires = done.stdout.decode().split()
                assert least < int(expires) / 1000 - time.time() <= most
                assert least < int(re.search(r"X-Amz-Expires=(\d+)", url).group(1)) <= most


def test_a_local_stage_signs_nothing(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    with LakeServer(tmp_path / "data") as server:
        where = json.loads(server.run("put", tmp_path / "file", "--json").stdout)
        for call, numbers in (("open", ()), ("range", (0, 1)), ("presign", (60,))):
            assert_fails(read(server, call, where, *numbers), "UNIMPLEMENTED", "only objects in S3")


# ---- services that misbehave ----

BODY = bytes(range(100))


class Service(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    behind = None  # the server that answers whatever is not a GET by URL
    answer = None  # (status, headers, body) of those
    seen = []

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = http.client.HTTPConnection(Service.behind)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        reply = connection.getresponse()
        self.send_response_only(reply.status)
        for name, value in reply.getheaders():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.read())
        connection.close()

    do_PUT = do_HEAD = do_DELETE = do_POST = forward

    def do_GET(self):
        if "X-Amz-Signature" not in self.path and self.path != "/elsewhere":
            self.forward()
            return
        Service.seen.append((self.path, dict(self.headers)))
        status, headers, body = Service.answer
        if self.path == "/elsewhere":
            status, headers, body = 206, {"Content-Range": "bytes 0-99/100"}, BODY
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Transfer-Encoding" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def odd(strict, tmp_path_factory):
    Service.behind = strict.endpoint.removeprefix("http://")
    service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    env = {**settings(f"http://127.0.0.1:{service.server_port}"),
           "LAKE_TABLE_PREFIX": "odd/tables", "LAKE_MANAGED_OBJECT_PREFIX": "odd/objects"}
    with LakeServer(tmp_path_factory.mktemp("odd") / "data", env) as server:
        yield server
        assert "X-Amz-" not in server.log_text()
    service.shutdown()
    service.server_close()


def answered(odd, status, headers, body, call="open", *numbers):
    Service.answer = (status, headers, body)
    Service.seen.clear()
    where = {"uri": f"s3://{BUCKET}/odd/objects/tenants/development/x", "size_bytes": len(BODY),
             "sha256": hashlib.sha256(BODY).hexdigest()}
    return read(odd, call, where, *numbers)


def test_one_get_without_credentials_by_the_signed_url(odd):
    done = answered(odd, 206, {"Content-Range": "bytes 0-99/100"}, BODY)
    assert done.returncode == 0 and done.stdout == BODY, done.stderr
    [(path, headers)] = Service.seen
    headers = {name.lower(): value for name, value in headers.items()}
    assert "X-Amz-Signature=" in path and headers["range"] == "bytes=0-99"
    assert headers.keys() <= {"host", "range", "accept", "user-agent"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(odd, status):
    done = answered(odd, status, {"Location": "/elsewhere", "x-amz-bucket-region": "eu-west-9"}, b"")
    assert_fails(done, "UNIMPLEMENTED", f"HTTP status {status}, redirects are not followed")
    assert len(Service.seen) == 1


@pytest.mark.parametrize("status, headers, body", [
    (200, {}, BODY),  # the whole object, to a range
    (206, {}, BODY),
    (206, {"Content-Range": "bytes 0-99/*"}, BODY),
    (206, {"Content-Range": "bytes 0-99/101"}, BODY),
    (206, {"Content-Range": "bytes 1-99/100"}, BODY[1:]),
    (206, {"Content-Range": "bytes 0-98/100"}, BODY[:-1]),
    (206, {"Content-Range": "bytes 0-99/100"}, BODY + b"x"),
    (206, {"Content-Range": "bytes 0-99/100"}, BODY[:-1]),
    (206, {"Content-Range": "bytes 0-99/100", "Transfer-Encoding": "chunked"},
     b"64\r\n" + BODY + b"\r\n0\r\n\r\n"),
    (206, {"Content-Range": "bytes 0-99/100"}, BODY[:-1] + b"x"),
    (416, {"Content-Range": "bytes */10"}, b""),
])
def test_an_answer_that_is_not_the_range_is_refused(odd, status, headers, body):
    done = answered(odd, status, headers, body)
    assert_fails(done, "DATA_LOSS")
    assert done.stdout == b"" and len(Service.seen) == 1


def test_what_the_service_says_of_the_url_is_not_repeated(odd):
    text = (f"<Error><Code>AccessDenied</Code><Message>no: X-Amz-Signature={FORGED}</Message>"
            "</Error>").encode()
    for call, numbers in (("open", ()), ("range", (0, 5))):
        done = answered(odd, 403, {"Date": "Thu, 01 Jan 2015 00:00:00 GMT"}, text, call, *numbers)
        assert_fails(done, "PERMISSION_DENIED", "AccessDenied")
        assert len(Service.seen) == 1
