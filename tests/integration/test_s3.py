"""Our S3 store against real servers, with boto3 as the oracle: what one writes the other reads."""

import concurrent.futures
import hashlib
import pathlib
import random
import sys
import time
import urllib.error
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "fault_s3"))
from s3_servers import BUCKET, SECRET_KEY  # noqa: E402
from server import crc32c_text  # noqa: E402

MIB = 1024 * 1024
AWKWARD = ["plain", "a b", "a+b", "a%2Bb", "a%b", "a&b=c", "a?b#c", "a:b;c@d,e", "q'uo\"te",
           "<tag>", "back\\slash", "pipe|^`{}[]", "tilde~*()!$", "\u00e9t\u00e9", "e\u0301",
           "\U0001F916", "\u4e2d\u6587", "\x7f", "..dots..", "...", "x" * 200]


@pytest.fixture(scope="module")
def server(s3):
    return s3


@pytest.fixture(scope="module")
def client(server):
    return server.boto3()


def awkward_keys(server):
    """All but what is not a key of its own there, see below."""
    return [key for key in AWKWARD if server.name != "weed" or "\\" not in key]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def bytes_of(size, seed=1):
    return random.Random(seed).randbytes(size)


def statuses(lines):
    return [line["status"] for line in lines]


def test_awkward_keys_mean_the_same_to_both(server, client, tmp_path):
    keys = awkward_keys(server)
    file = tmp_path / "file"
    file.write_bytes(b"ours")
    lines = server.tool(*[("put", f"ours/{key}", file) for key in keys])
    assert statuses(lines) == ["OK"] * len(keys), lines
    for key in keys:
        assert client.get_object(Bucket=BUCKET, Key=f"ours/{key}")["Body"].read() == b"ours"
        client.put_object(Bucket=BUCKET, Key=f"theirs/{key}", Body=b"theirs")
    lines = server.tool(*[("get", f"theirs/{key}") for key in keys])
    assert all(line.get("sha256") == sha256(b"theirs") for line in lines), lines
    expected = sorted(f"theirs/{key}".encode() for key in keys)
    listed = server.tool(("list", "theirs/", 7))[0]
    assert [key.encode() for key, _ in listed["keys"]] == expected
    lines = server.tool(*[("remove", f"theirs/{key}") for key in keys], ("list", "theirs/", 10))
    assert lines[-1]["keys"] == []


def test_a_backslash_is_a_slash_to_seaweedfs(server, client, tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    lines = server.tool(("put", "odd/back\\slash", tmp_path / "file"), ("list", "odd/", 10))
    assert statuses(lines) == ["OK", "OK"], lines
    separator = "/" if server.name == "weed" else "\\"
    assert lines[1]["keys"] == [[f"odd/back{separator}slash", 1]]


@pytest.mark.parametrize("size", [0, 1, 65536, 5 * MIB, 8 * MIB, 8 * MIB + 1, 17 * MIB + 3])
def test_objects_of_every_size_are_whole(server, client, tmp_path, size):
    data = bytes_of(size)
    file = tmp_path / "file"
    file.write_bytes(data)
    key = f"size/{size}"
    lines = server.tool(("put", key + "/put", file), ("write", key + "/write", file, 1000003),
                        ("get", key + "/put"), ("get", key + "/write"), ("stat", key + "/write"))
    assert statuses(lines) == ["OK"] * 5, lines
    assert lines[2]["sha256"] == lines[3]["sha256"] == sha256(data)
    assert lines[4]["size"] == size
    assert abs(lines[4]["modified"] / 1000 - time.time()) < 600
    for name in ("/put", "/write"):
        found = client.get_object(Bucket=BUCKET, Key=key + name)
        assert found["Body"].read() == data
    assert found["ETag"] == lines[4]["version"]


def test_ranges_are_exact(server, client, tmp_path):
    data = bytes_of(3 * MIB, 2)
    client.put_object(Bucket=BUCKET, Key="ranges", Body=data)
    spans = [(0, 1), (0, len(data)), (len(data) - 1, 1), (1000, 70000), (MIB, 2 * MIB), (5, 0)]
    lines = server.tool(*[("range", "ranges", first, size) for first, size in spans])
    for (first, size), line in zip(spans, lines):
        assert line.get("sha256") == sha256(data[first:first + size]), line
    assert statuses(server.tool(("range", "ranges", len(data) - 1, 2),
                                ("range", "ranges", len(data), 1),
                                ("range", "ranges", len(data) + 1, 0))) == ["OUT_OF_RANGE"] * 3


def test_a_range_of_100_mib_is_one_get_in_little_memory(server, client, tmp_path):
    """However slow its reader is; the server of the store waits (OBJ-6)."""
    block = bytes_of(MIB)
    data = b"".join(n.to_bytes(8, "little") + block[8:] for n in range(101))
    client.put_object(Bucket=BUCKET, Key="long", Body=data)
    small, long, counters = server.tool(
        ("one-range", "long", "", "1", "1000"), ("one-range", "long", "", "1000", 100 * MIB, "500"),
        ("counters", ""))
    assert (small["size"], small["sha256"]) == (1000, sha256(data[1:1001]))
    assert (long["size"], long["sha256"]) == (100 * MIB, sha256(data[1000:1000 + 100 * MIB]))
    assert (counters["requests"], counters["received"]) == (2, 100 * MIB + 1000)
    assert long["peak_kib"] - small["peak_kib"] < 8 * 1024


def test_case_O14_a_range_of_a_replaced_object_is_refused(server, client):
    client.put_object(Bucket=BUCKET, Key="replaced", Body=b"a" * 100)
    version = server.tool(("stat", "replaced"))[0]["version"]
    assert statuses(server.tool(("version-range", "replaced", version, 0, 10))) == ["OK"]
    client.put_object(Bucket=BUCKET, Key="replaced", Body=b"b" * 100)
    line = server.tool(("version-range", "replaced", version, 0, 10))[0]
    assert line["status"] == "FAILED_PRECONDITION", line


def test_case_O15_small_reads_fetch_what_they_ask_for(server, client):
    client.put_object(Bucket=BUCKET, Key="sparse", Body=bytes_of(8 * MIB, 3))
    lines = server.tool(("range", "sparse", 0, 4096), ("range", "sparse", 4 * MIB, 4096),
                        ("range", "sparse", 8 * MIB - 4096, 4096), ("counters",))
    assert lines[-1]["received"] == 3 * 4096
    assert lines[-1]["requests"] == 3


def test_case_O08_an_empty_object_has_no_ranges_but_all_of_itself(server, client):
    client.put_object(Bucket=BUCKET, Key="empty", Body=b"")
    lines = server.tool(("get", "empty"), ("stat", "empty"), ("range", "empty", 0, 0),
                        ("range", "empty", 0, 1))
    assert statuses(lines) == ["OK", "OK", "OK", "OUT_OF_RANGE"]
    assert lines[0]["sha256"] == sha256(b"") and lines[1]["size"] == 0


def test_listing_equals_the_oracles_over_all_pages(server, client):
    keys = [f"many/{i % 7}/{i:04}" for i in range(1203)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: client.put_object(Bucket=BUCKET, Key=key, Body=b"x"), keys))
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="many/")
    oracle = [[item["Key"], item["Size"]] for page in pages for item in page["Contents"]]
    assert len(oracle) == len(keys)
    for limit in (1000, 100):
        line = server.tool(("list", "many/", limit))[0]
        assert line["status"] == "OK", line
        assert line["keys"] == oracle
    assert server.tool(("list", "many/3", 1000))[0]["keys"] == [
        entry for entry in oracle if entry[0].startswith("many/3")]
    assert server.tool(("list", "none/", 1000))[0]["keys"] == []


def test_what_is_not_there_is_not_found(server):
    assert statuses(server.tool(("stat", "none"), ("get", "none"), ("range", "none", 0, 1),
                                ("remove", "none"))) == ["NOT_FOUND"] * 3 + ["OK"]
    line = server.tool(("get", "none"), BUCKET="no-such-bucket")[0]
    assert line["status"] in ("FAILED_PRECONDITION", "PERMISSION_DENIED"), line


def test_put_if_absent_has_one_winner(server, client, tmp_path):
    files = []
    for i in range(8):
        files.append(tmp_path / str(i))
        files[i].write_bytes(bytes([i]) * (1000 + i))
    for turn in range(3):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(
                lambda file: server.tool(("create", f"race/{turn}", file))[0]["status"], files))
        assert sorted(outcomes) == ["ALREADY_EXISTS"] * 7 + ["OK"], outcomes
        winner = files[outcomes.index("OK")]
        assert client.get_object(Bucket=BUCKET, Key=f"race/{turn}")["Body"].read() == \
            winner.read_bytes()
    assert statuses(server.tool(("probe", "probe/"), ("list", "probe/", 10))) == ["OK", "OK"]


def test_upload_stopped_and_resumed_in_another_process(server, client, tmp_path):
    part = 5 * MIB
    data = bytes_of(3 * part + 17, 4)
    file = tmp_path / "file"
    file.write_bytes(data)
    begun = server.tool(("upload", "resumed", file, part, 2, 2))[0]
    assert (begun["status"], begun["sent"]) == ("OK", 2), begun
    assert statuses(server.tool(("stat", "resumed"))) == ["NOT_FOUND"]
    oracle = client.list_parts(Bucket=BUCKET, Key="resumed", UploadId=begun["id"])["Parts"]
    ours = server.tool(("parts", "resumed", begun["id"]))[0]["parts"]
    assert ours == [[p["PartNumber"], p["Size"], p["ETag"]] for p in oracle]
    done = server.tool(("resume", "resumed", begun["id"], file, part))[0]
    assert (done["status"], done["held"], done["sent"]) == ("OK", 2, 2), done
    found = client.get_object(Bucket=BUCKET, Key="resumed")
    assert found["Body"].read() == data
    assert found["ContentType"] == "video/mp4"


def test_case_O13_aborting_removes_the_parts_and_may_be_repeated(server, client, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(bytes_of(5 * MIB))
    begun = server.tool(("upload", "aborted/x y", file, 5 * MIB, 4, 1))[0]
    assert begun["status"] == "OK", begun
    listed = server.tool(("uploads", "aborted/"))[0]["uploads"]
    assert listed == [["aborted/x y", begun["id"]]]
    lines = server.tool(("abort", "aborted/x y", begun["id"]), ("abort", "aborted/x y", begun["id"]),
                        ("parts", "aborted/x y", begun["id"]), ("uploads", "aborted/"))
    assert statuses(lines) == ["OK", "OK", "NOT_FOUND", "OK"], lines
    assert lines[-1]["uploads"] == []
    found = client.list_multipart_uploads(Bucket=BUCKET, Prefix="aborted/")
    assert not found.get("Uploads")


@pytest.mark.soak
def test_case_O02_services_take_10000_parts_and_no_more_are_sent(server, client):
    """Parts of 256 bytes, so a service refuses to complete them, for that reason alone."""
    part = 256
    done = server.upload_in_parts("parts/most", part, part * 10000)
    assert done.startswith("INVALID_ARGUMENT") and "EntityTooSmall" in done, done
    assert not client.list_multipart_uploads(Bucket=BUCKET, Prefix="parts/").get("Uploads")
    done = server.upload_in_parts("parts/more", part, part * 10000 + 1)
    assert done.startswith("OUT_OF_RANGE an object has at most 10000 parts"), done
    assert not client.list_multipart_uploads(Bucket=BUCKET, Prefix="parts/").get("Uploads")


@pytest.mark.parametrize("payload", [1, 2, 3], ids=["unsigned", "signed", "chunks"])
def test_payloads_signed_in_every_way_are_accepted(server, client, tmp_path, payload):
    data = bytes_of(5 * MIB + 12345, payload)
    file = tmp_path / "file"
    file.write_bytes(data)
    keys = [f"signed/{payload}/put", f"signed/{payload}/parts"]
    lines = server.tool(("put", keys[0], file), ("upload", keys[1], file, 5 * MIB), PAYLOAD=payload)
    assert statuses(lines) == ["OK", "OK"], lines
    for key in keys:
        assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == data


def test_wrong_credentials_are_refused(server):
    line = server.tool(("stat", "x"), ("get", "x"), AWS_SECRET_ACCESS_KEY="wrong")[-1]
    assert line["status"] == "UNAUTHENTICATED", line
    assert "SignatureDoesNotMatch" in line["message"]
    line = server.tool(("get", "x"), AWS_ACCESS_KEY_ID="nobody")[0]
    assert line["status"] == "UNAUTHENTICATED", line
    line = server.tool(("get", "x"), AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="",
                       AWS_EC2_METADATA_DISABLED="true")[0]
    assert line["status"] == "UNAUTHENTICATED" and "no AWS credentials" in line["message"], line


def fetch(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_presigned_urls_read_one_object_for_a_while(server, client):
    keys = [f"signed url/{key}" for key in awkward_keys(server)]
    for key in keys:
        client.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
    lines = server.tool(*[("presign", key, 300) for key in keys], ("counters",))
    assert lines[-1]["requests"] == 0  # presigning asks nobody
    for key, line in zip(keys, lines):
        assert fetch(line["url"]) == (200, key.encode())
        assert SECRET_KEY not in line["url"]
        assert abs(line["expires"] / 1000 - time.time() - 300) < 60
    url = lines[0]["url"]
    assert fetch(url, Range="bytes=2-5") == (206, keys[0].encode()[2:6])
    assert fetch(url.replace("/plain", "/a%20b"))[0] == 403
    assert fetch(url[:-1] + ("0" if url[-1] != "0" else "1"))[0] == 403
    assert fetch(url.replace("X-Amz-Expires=300", "X-Amz-Expires=900"))[0] == 403
    short = server.tool(("presign", keys[0], 1))[0]["url"]
    time.sleep(2.5)
    assert fetch(short)[0] == 403
    assert statuses(server.tool(("presign", "a", 0), ("presign", "a", 604801))) == [
        "INVALID_ARGUMENT"] * 2
    assert statuses(server.tool(("presign", "a", 604800))) == ["OK"]


def test_a_child_store_sees_only_what_is_below_its_prefix(server, client, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(bytes_of(5 * MIB))
    lines = server.tool(("put", "a", file), ("list", "", 10), ("upload", "u", file, 5 * MIB, 4, 1),
                        ("uploads", ""), ("presign", "a", 60), PREFIX="tenants/one")
    assert lines[1]["keys"] == [["a", 5 * MIB]]
    assert [key for key, _ in lines[3]["uploads"]] == ["u"]
    assert f"/{BUCKET}/tenants/one/a?" in lines[4]["url"]
    assert client.head_object(Bucket=BUCKET, Key="tenants/one/a")["ContentLength"] == 5 * MIB


def test_checksums_are_kept_by_the_server(server, tmp_path):
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(bytes_of(100000, 9))
    large.write_bytes(bytes_of(6 * MIB, 9))
    lines = server.tool(("put", "checked/put", small), ("upload", "checked/parts", large, 5 * MIB),
                        ("get", "checked/put"), ("get", "checked/parts"))
    assert statuses(lines) == ["OK"] * 4, lines
    client = server.boto3()
    head = client.head_object(Bucket=BUCKET, Key="checked/put", ChecksumMode="ENABLED")
    assert head["ChecksumCRC32C"] == crc32c_text(small.read_bytes())
    head = client.head_object(Bucket=BUCKET, Key="checked/parts", ChecksumMode="ENABLED")
    assert head["ChecksumCRC32C"].endswith("-2")


def test_virtual_hosts(server, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"virtual")
    endpoint = server.endpoint.replace("127.0.0.1", "localhost")
    lines = server.tool(("put", "virtual host/a+b", file), ("list", "virtual", 10),
                        ("get", "virtual host/a+b"), ENDPOINT=endpoint, ADDRESSING=2)
    assert statuses(lines) == ["OK"] * 3, lines
    assert lines[1]["keys"] == [["virtual host/a+b", 7]]
    url = server.tool(("presign", "virtual host/a+b", 60), ENDPOINT=endpoint, ADDRESSING=2)[0]["url"]
    assert url.startswith(f"http://{BUCKET}.localhost:")
