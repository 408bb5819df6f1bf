"""The Python package against a running Lake whose objects are in S3."""

import contextlib
import copy
import datetime
import gc
import hashlib
import io
import json
import os
import pathlib
import pickle
import pprint
import random
import re
import signal
import subprocess
import sys
import threading
import traceback
import urllib.request
import zipfile

import av
import duckdb
import imageio.v3 as imageio
import numpy as np
import pyarrow as pa
import pytest

import arrow_views
import lake
from lake_server import LakeServer
from redaction import assert_none
from s3_servers import BUCKET

MIB = 1 << 20


@contextlib.contextmanager
def table(client, columns, name="lab.t"):
    client.create_table(name, columns)
    try:
        yield name
    finally:
        client.drop(name)


# ---- the wheel -------------------------------------------------------------------------------------


def test_the_wheel_brings_its_libraries_and_their_licences(client):
    package = pathlib.Path(lake.__file__).parent
    assert package.is_relative_to(sys.prefix)
    maps = pathlib.Path("/proc/self/maps").read_text()
    loaded = {line.split()[-1] for line in maps.splitlines() if "/" in line}
    for name in ("liblake", "libgrpc", "libcurl", "libcrypto", "libabsl_strings"):
        [path] = {path for path in loaded if f"/{name}-" in path or f"/{name}.so" in path
                  and "lake_client" in path or path.endswith(f"lake/{name}.so")}
        assert path.startswith(sys.prefix), path
    carried = list((package.parent / "lake_client.libs").iterdir())
    assert len(carried) > 20
    licences = {path.name for path in (package / "licenses").iterdir()}
    assert {"lake", "libgrpc29", "libcurl4", "libssl3"} <= licences
    assert (package / "py.typed").exists()


def test_every_status_of_the_header_has_its_class():
    from lake._abi import ffi
    from lake._library import lib, text
    names = {text(lib.lake_status_name(value))
             for value in ffi.typeof("lake_status").elements if value != lib.LAKE_OK}
    classes = {kind.status: kind for kind in vars(lake).values()
               if isinstance(kind, type) and issubclass(kind, lake.Error) and kind is not lake.Error}
    assert names == set(classes)


# ---- objects ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["path", "file", "read_only_object"])
def test_what_is_put_is_in_the_bucket_and_comes_back(client, s3, tmp_path, noise, how):
    (tmp_path / "run.mp4").write_bytes(noise)
    seen = []

    class OnlyRead:
        def read(self, size, from_=io.BytesIO(noise)):
            return from_.read(size)

    if how == "path":
        file = client.put(tmp_path / "run.mp4", progress=lambda *at: seen.append(at))
    elif how == "file":
        with open(tmp_path / "run.mp4", "rb") as opened:
            file = client.put(opened)
    else:
        file = client.put(OnlyRead(), media_type="video/mp4",
                          progress=lambda *at: seen.append(at))
    assert file == lake.File(file.uri, "video/mp4", len(noise), hashlib.sha256(noise).hexdigest())
    key = file.uri.removeprefix(f"s3://{BUCKET}/")
    assert s3.boto3().get_object(Bucket=BUCKET, Key=key)["Body"].read() == noise
    assert client.read(file) == noise
    assert client.read(file, MIB - 3, MIB + 9) == noise[MIB - 3:MIB + 9]
    client.get(file, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == noise
    if how != "file":
        assert seen[-1][0] == len(noise)
        assert seen[-1][1] == (len(noise) if how == "path" else None)


def test_an_exception_of_the_caller_ends_the_transfer_and_comes_out(client, tmp_path, noise):
    class Broken:
        def read(self, size):
            raise KeyError("the camera")

    with pytest.raises(KeyError, match="the camera"):
        client.put(Broken())
    with pytest.raises(TypeError, match="binary mode"):
        client.put(io.StringIO("text"))

    def stop(done, total):
        raise InterruptedError("enough")

    (tmp_path / "big").write_bytes(noise)
    for source in (tmp_path / "big", io.BytesIO(noise)):
        with pytest.raises(InterruptedError, match="enough"):
            client.put(source, progress=stop)
    file = client.put(tmp_path / "big")
    with pytest.raises(InterruptedError):
        client.get(file, tmp_path / "copy", progress=stop)
    assert not (tmp_path / "copy").exists()


def test_ctrl_c_comes_out_of_a_transfer_as_itself(client, tmp_path):
    """A signal is seen between any two steps of the program, the callbacks' first ones too."""
    with open(tmp_path / "endless", "wb") as file:
        file.truncate(1 << 36)
    stored = client.put(io.BytesIO(bytes(64 * MIB)))
    for transfer in (lambda: client.put(tmp_path / "endless"),
                     lambda: client.put(open(tmp_path / "endless", "rb")),
                     lambda: [client.get(stored, tmp_path / "copy") for _ in range(1000)]):
        signals = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        signals.start()
        with pytest.raises(KeyboardInterrupt):
            transfer()
        signals.join()


def test_a_source_that_keeps_its_buffer_keeps_no_memory_of_ours(client):
    class Keeps:
        kept = []

        def readinto(self, buffer):
            self.kept += [buffer, buffer[:4]]
            buffer[:4] = b"1234"
            return 4 if len(self.kept) < 8 else 0

    source = Keeps()
    file = client.put(source)
    assert client.read(file) == b"1234" * 3
    for view in source.kept:  # after what the library had for the upload is freed
        view[:4] = b"late"
    assert [bytes(view[:4]) for view in source.kept] == [b"late"] * 8
    assert client.read(file) == b"1234" * 3


def test_ranges_are_exact_and_others_are_refused(client, noise):
    size = len(noise)
    file, empty = client.put(io.BytesIO(noise)), client.put(io.BytesIO(b""))
    for start, end in ((0, 1), (0, size), (size - 1, size), (5, MIB), (4 * MIB - 7, 4 * MIB + 7)):
        assert client.read(file, start, end) == noise[start:end]
    for start, end in ((0, 0), (9, 8), (-1, 5), (size - 1, size + 1), (size, size + 1)):
        with pytest.raises(lake.OutOfRange):
            client.read(file, start, end)
    with pytest.raises(lake.OutOfRange):
        client.read(empty, 0, 1)
    assert client.read(empty) == b""


def assert_nothing_left(s3, before):
    listing = s3.boto3().list_objects_v2(Bucket=BUCKET, Prefix="objects/")
    assert {item["Key"] for item in listing.get("Contents", [])} == before
    assert not s3.boto3().list_multipart_uploads(Bucket=BUCKET).get("Uploads")


def test_uploads_in_parts_that_fail_or_are_cancelled_leave_nothing(server, s3, tmp_path):
    """Two parts have gone, or are on their way, when the third one meets the end."""
    part = random.Random(8).randbytes(64 * MIB)
    marks = tmp_path / "marks"
    (tmp_path / "large").write_bytes(part * 2 + b"the end")
    listing = s3.boto3().list_objects_v2(Bucket=BUCKET, Prefix="objects/")
    before = {item["Key"] for item in listing.get("Contents", [])}

    class Breaks:
        def __init__(self, data):
            self.read_from = io.BytesIO(data).read

        def read(self, size):
            data = self.read_from(size)
            if not data:
                raise KeyError("the camera")
            return data

    def stop(done, total):
        if done > 2 * len(part):
            raise InterruptedError("enough")

    with lake.connect(server.address, checkpoint_dir=marks) as client:
        # What is read once cannot be sent again: with a checkpoint directory, too, nothing is kept.
        with pytest.raises(KeyError, match="the camera"):
            client.put(Breaks(part * 2 + b"the end"))
        assert list(marks.glob("*.upload")) == []
        assert_nothing_left(s3, before)
    with lake.connect(server.address) as client:
        with pytest.raises(InterruptedError, match="enough"):
            client.put(tmp_path / "large", progress=stop)
        assert_nothing_left(s3, before)
    with pytest.raises(lake.InvalidArgument, match="at most 16"):
        lake.connect(server.address, parts_in_flight=17)
    with lake.connect(server.address, parts_in_flight=1) as client:
        file = client.put(tmp_path / "large")
        key = file.uri.removeprefix(f"s3://{BUCKET}/")
        head = s3.boto3().head_object(Bucket=BUCKET, Key=key)
        assert head["ETag"].endswith('-3"') and head["ContentLength"] == 2 * len(part) + 7
        digest = hashlib.sha256(part * 2 + b"the end").hexdigest()
        assert file.sha256 == digest == hashlib.sha256(client.read(file)).hexdigest()


def test_damage_is_data_loss_and_leaves_no_file(client, s3, tmp_path):
    file = client.put(io.BytesIO(b"0123456789"))
    s3.boto3().put_object(Bucket=BUCKET, Key=file.uri.removeprefix(f"s3://{BUCKET}/"),
                          Body=b"0123456780")
    with pytest.raises(lake.DataLoss, match="SHA-256"):
        client.read(file)
    with pytest.raises(lake.DataLoss):
        client.get(file, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_damage_shows_where_it_is_when_a_file_is_read_in_places(client, s3, noise):
    file = client.put(io.BytesIO(noise))
    damaged = bytearray(noise)
    damaged[5 * MIB] ^= 1
    s3.boto3().put_object(Bucket=BUCKET, Key=file.uri.removeprefix(f"s3://{BUCKET}/"),
                          Body=bytes(damaged))
    with client.open(file) as opened:
        assert opened.raw.verified
        assert opened.read(MIB) == noise[:MIB]
        opened.seek(5 * MIB - 10)
        with pytest.raises(lake.DataLoss):
            opened.read(20)


# ---- seekable files --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    """240 frames of H.264 with a key frame every 24; frame i is gray, i levels bright."""
    path = tmp_path_factory.mktemp("video") / "run.mp4"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=24, options={"g": "24", "crf": "10", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        rng = np.random.default_rng(1)
        for i in range(240):
            image = rng.integers(0, 8, (240, 320, 3), np.uint8) + np.uint8(i)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        out.mux(stream.encode())
    return path


def test_pyav_seeks_in_a_video_in_s3(client, video):
    file = client.put(video)
    with client.open(file) as opened, av.open(opened) as remote, av.open(str(video)) as local:
        for second in (7, 2, 9, 0):
            frames = []
            for container in (remote, local):
                stream = container.streams.video[0]
                container.seek(int(second / stream.time_base), stream=stream)
                frame = next(f for f in container.decode(stream) if f.time >= second)
                frames.append((frame.pts, frame.to_ndarray(format="rgb24")))
            assert frames[0][0] == frames[1][0]
            assert frames[0][1].tobytes() == frames[1][1].tobytes()
            assert abs(float(frames[0][1].mean()) - (second * 24 + 3.5)) < 4


def test_imageio_reads_frames_of_a_video_in_s3(client, video):
    with client.open(client.put(video)) as opened:
        frame = imageio.imread(opened, index=50, plugin="pyav")
    assert (frame == imageio.imread(video, index=50, plugin="pyav")).all()


def test_archives_and_arrays_are_read_in_place(client):
    arrays = {"state": np.arange(70_000, dtype=np.float32).reshape(-1, 7), "n": np.arange(5)}
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    with client.open(client.put(io.BytesIO(packed.getvalue()))) as opened:
        assert zipfile.is_zipfile(opened)
        with zipfile.ZipFile(opened) as archive:
            assert archive.testzip() is None
            assert archive.read("n.npy") == zipfile.ZipFile(packed).read("n.npy")
        opened.seek(0)
        with np.load(opened) as loaded:
            for name, array in arrays.items():
                assert (loaded[name] == array).all()


def test_a_file_behaves_as_one_on_disk(client, tmp_path, noise):
    """The calls that torch.load and others make, compared with a real file."""
    path = tmp_path / "data"
    path.write_bytes(b"line one\nline two\n" + noise)
    size = path.stat().st_size

    def calls(opened):
        yield opened.readable(), opened.seekable(), opened.writable(), opened.tell()
        yield opened.readline(), opened.readline(), opened.tell()
        for offset, whence in ((5, 0), (-22, 2), (100, 0), (50, 1), (size + 9, 0), (0, 0)):
            yield opened.seek(offset, whence), opened.read(100), opened.tell()
        buffer = bytearray(3 * MIB + 1)
        yield opened.seek(MIB + 1), opened.readinto(buffer), bytes(buffer), opened.tell()
        yield opened.seek(size - 10), opened.readinto(buffer), opened.readinto(buffer)
        with pytest.raises(OSError if not hasattr(opened.raw, "verified") else ValueError):
            opened.seek(-1)
        with pytest.raises(TypeError):
            opened.raw.seek(1.5)
        opened.seek(3)
        yield opened.read() == path.read_bytes()[3:], opened.read(1)
        opened.close()
        with pytest.raises(ValueError):
            opened.read(1)
        yield opened.closed

    with open(path, "rb") as real, client.open(client.put(path)) as remote:
        assert list(calls(remote)) == list(calls(real))
    with client.open(client.put(io.BytesIO(b""))) as empty:
        assert empty.read() == b"" and empty.seek(0, 2) == 0


def test_threads_share_a_client_and_an_open_file(client, noise):
    file = client.put(io.BytesIO(noise))
    shared = client.open(file)
    raw = shared.raw
    wrong = []

    def work(seed):
        try:
            for i in range(8):
                at = (seed * 131 + i * 977_777) % (len(noise) - 4096)
                with client.open(file) as own:
                    own.seek(at)
                    assert own.read(4096) == noise[at:at + 4096]
                raw.readinto(bytearray(1024))
                assert client.query(f"SELECT {seed} AS n").table().to_pylist() == [{"n": seed}]
        except BaseException as failure:
            wrong.append(failure)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert raw.tell() == 6 * 8 * 1024


# ---- tables and rows -------------------------------------------------------------------------------


def test_tables_are_made_by_text_and_by_arrow_schemas(client):
    with table(client, ["id:int64!", "state:float[7]", "video:FILE"], "lab.one"), \
            table(client, pa.schema([pa.field("x", pa.float64()),
                                     pa.field(lake.file_field("video"))]), "lab.two"):
        assert {"lab.one", "lab.two"} <= set(client.tables()) & set(client.tables("lab"))
        info = client.describe("lab.two")
        assert (info.name, info.version) == ("lab.two", 1)
        assert info.location.startswith(f"s3://{BUCKET}/tables/")
        schema = pa.schema(info.schema)
        del info
        gc.collect()
        assert schema.names == ["x", "video"] and schema.field("x").type == pa.float64()
        assert [f.name for f in schema.field("video").type] == ["uri", "media_type", "size_bytes",
                                                                "sha256"]
        with pytest.raises(lake.AlreadyExists):
            client.create_table("lab.one", ["id:int64"])
    with pytest.raises(lake.NotFound, match="lab.one"):
        client.describe("lab.one")
    with pytest.raises(lake.InvalidArgument) as caught:
        client.create_table("lab.one", {"id": "int65"})
    assert "int65" in caught.value.message and isinstance(caught.value, ValueError)


def test_rows_of_every_kind_of_value_are_inserted(client, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"a" * 10)
    stored = client.put(io.BytesIO(b"stored"), media_type="text/plain")
    columns = ["i:int64", "b:bool", "x:float64", "s:utf8", "d:binary", "v:float[3]", "f:FILE"]
    with table(client, columns) as name:
        done = client.insert_many(
            f"INSERT INTO {name} (i, b, x, s, d, v, f) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [[1, True, 0.5, "ü", b"\0x", [1, 2, 3.5], tmp_path / "a.bin"],
             [np.int32(2), False, np.float32(0.25), "", bytearray(b""), np.arange(3),
              lake.Upload(io.BytesIO(b"four"), "x/y")],
             [None, None, None, None, None, None, stored]])
        assert (done.version, done.rows, done.replayed) == (2, 3, False)
        assert [f.size for f in done.files] == [10, 4]
        rows = client.query(f"SELECT * FROM {name}").table().to_pylist()
        assert [list(row.values())[:6] for row in rows] == [
            [1, True, 0.5, "ü", b"\0x", [1.0, 2.0, 3.5]], [2, False, 0.25, "", b"", [0.0, 1.0, 2.0]],
            [None] * 6]
        files = [lake.File.from_value(row["f"]) for row in rows]
        assert files == [*done.files, stored]
        assert [client.read(f) for f in rows and files] == [b"a" * 10, b"four", b"stored"]
        assert client.insert(f"INSERT INTO {name} (i) VALUES (?)", [9]).version == 3
        with pytest.raises(KeyError):
            client.insert(f"INSERT INTO {name} (f) VALUES (?)",
                          [lake.Upload(io.BytesIO(b"x"), progress=lambda *_: {}["no"])])
        with pytest.raises(TypeError, match="append"):
            client.insert(f"INSERT INTO {name} (i) VALUES (?)", [object()])
        with pytest.raises(lake.InvalidArgument):
            client.insert(f"INSERT INTO {name} (i) VALUES (?)", ["text"])


def test_arrow_data_is_appended_once_by_its_operation_id(client):
    file = client.put(io.BytesIO(b"bytes"))
    schema = pa.schema([pa.field("id", pa.int64()), pa.field(lake.file_field("f"))])
    data = pa.Table.from_batches([
        pa.record_batch([pa.array([1, 2]), pa.array([file.value, None], schema.field("f").type)],
                        schema=schema),
        pa.record_batch([pa.array([], pa.int64()), pa.array([], schema.field("f").type)],
                        schema=schema)])
    with table(client, schema) as name:
        first = client.append(name, data)
        again = client.append(name, data, operation_id=first.operation_id)
        assert (again.version, again.replayed) == (first.version, True)
        assert client.append(name, data.to_batches()[0]).version == first.version + 1
        client.append(name, pa.RecordBatchReader.from_batches(schema, iter(data.to_batches())))
        result = client.query(f"SELECT id, f FROM {name}")
        assert result.schema.names == ["id", "f"]
        assert list(result.files("f")) == [file, None] * 3
        [batch, *_] = client.query(f"SELECT f, id FROM {name}").reader()
        assert lake.file_at(batch, "f", 0) == file and lake.file_at(batch, 0, 1) is None
        with pytest.raises(lake.InvalidArgument):
            lake.file_at(batch, "id", 0)
        with pytest.raises((lake.InvalidArgument, lake.ResourceExhausted), match="10,?000"):
            client.append(name, pa.table([pa.array(range(10_001)),
                                          pa.nulls(10_001, schema.field("f").type)], schema=schema))
        with pytest.raises(TypeError, match="no Arrow data"):
            client.append(name, [{"id": 1}])


def test_views_are_appended_as_what_they_refer_to(client):
    """What polars has for text, and newer engines send: by either of Arrow's data protocols."""
    views = pa.table({
        "t": pa.array(["in its view", None, "outside of its view, since it is long"],
                      pa.string_view()),
        "l": pa.array([[b"x" * 20, None], None, []], pa.list_(pa.binary_view())),
        "s": pa.array([None, {"d": "y" * 30}, {"d": None}], pa.struct([("d", pa.string_view())]))})
    with table(client, views.schema, "lab.views") as name, \
            table(client, ["t:large_utf8", "l:list<large_binary>", "s:struct<d: utf8>"],
                  "lab.large") as large:
        assert pa.schema(client.describe(name).schema).types == [
            pa.string(), pa.list_(pa.binary()), pa.struct([("d", pa.string())])]
        first = client.append(name, views)
        again = client.append(name, views, operation_id=first.operation_id)
        assert (again.version, again.replayed) == (first.version, True)
        client.append(name, views.to_batches()[0].slice(1, 2))
        rows = views.to_pylist()
        assert client.query(f"SELECT * FROM {name}").table().to_pylist() == rows + rows[1:]
        client.append(large, views.slice(1))
        assert pa.schema(client.describe(large).schema).types[:2] == [
            pa.large_string(), pa.list_(pa.large_binary())]
        assert client.query(f"SELECT * FROM {large}").table().to_pylist() == rows[1:]
        mib = pa.py_buffer(b"z" * (1 << 20))
        repeated = pa.table({"t": arrow_views.same(pa.string_view(), mib, 65),
                             "l": pa.nulls(65, views.schema.types[1]),
                             "s": pa.nulls(65, views.schema.types[2])})
        with pytest.raises(lake.ResourceExhausted, match="fewer rows"):
            client.append(name, repeated)
        with pytest.raises(lake.InvalidArgument, match="'t'"):
            client.append(name, views.set_column(0, "t", views["t"].cast(pa.binary_view())))


def test_documents_are_appended_as_pyarrow_has_them_and_as_text(client):
    """pyarrow's extension type comes with empty metadata of its own, a plain field with none."""
    texts = ['{"a":1}', None, "[]"]
    marked = pa.field("doc", pa.string(), metadata={"ARROW:extension:name": "arrow.json"})
    rows = [pa.table({"doc": pa.array(texts, pa.json_())}), pa.table([pa.array(texts)], schema=pa.schema([marked]))]
    with table(client, ["doc:json"], "lab.shell") as shell, \
            table(client, rows[0].schema, "lab.arrow") as arrow:
        for name in (shell, arrow):
            for some in rows:
                client.append(name, some)
            read = client.query(f"SELECT doc FROM {name}").table()
            assert read["doc"].to_pylist() == texts * 2
            with pytest.raises(lake.InvalidArgument, match="'doc'"):
                client.append(name, pa.table({"doc": pa.array(texts)}))


# ---- queries ---------------------------------------------------------------------------------------


def test_rows_whose_answer_was_lost_are_pending_and_resumed(tmp_path):
    schema = pa.schema([pa.field("id", pa.int64())])
    rows = pa.table({"id": [1, 2, 3]}, schema=schema)
    marks = tmp_path / "marks"
    with LakeServer(tmp_path / "data") as server:
        address = server.address
        client = lake.connect(address, checkpoint_dir=marks, timeout=5)
        client.create_table("lab.t", schema)
        assert client.pending_appends() == []
        client.append("lab.t", rows)
        assert client.pending_appends() == []
    lost = []
    for _ in range(3):
        with pytest.raises(lake.OutcomeUnknown) as caught:
            client.append("lab.t", rows)
        lost.append(caught.value.operation_id)
    client.close()
    with LakeServer(tmp_path / "data", listen=address), \
            lake.connect(address, checkpoint_dir=marks) as client:
        assert client.pending_appends() == sorted(lost)
        done = client.resume_append(lost[1])
        assert (done.version, done.rows, done.operation_id, done.replayed) == (3, 3, lost[1], False)
        client.drop_append(lost[0])
        assert client.pending_appends() == [lost[2]]
        client.drop("lab.t")
        client.create_table("lab.t", schema)
        with pytest.raises(lake.FailedPrecondition, match="created again"):
            client.resume_append(lost[2])
        with pytest.raises(lake.NotFound):
            client.resume_append(lost[2])
        assert client.query("SELECT count(*) AS n FROM lab.t").table().to_pylist() == [{"n": 0}]
        with lake.connect(address) as other, pytest.raises(lake.FailedPrecondition):
            other.pending_appends()


# ---- without credentials of the object storage -----------------------------------------------------


def test_query_only_clients_read_by_urls_that_query_signs(server, s3, client, tmp_path, noise,
                                                          video, monkeypatch):
    file, clip = client.put(io.BytesIO(noise)), client.put(video)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with lake.connect(server.address) as plain:
        with pytest.raises(lake.Unauthenticated):
            plain.read(file)
        assert plain.read(file, via_query=True) == noise
    with lake.connect_query_only(server.address) as reader:
        assert reader.read(file) == noise
        assert reader.read(file, 5, MIB) == noise[5:MIB]
        reader.get(file, tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == noise
        assert urllib.request.urlopen(reader.presign(file, 60).url).read() == noise
        with reader.open(file) as opened:
            assert opened.raw.verified
            opened.seek(-100, 2)
            assert opened.read() == noise[-100:]
        with reader.open(clip) as opened, av.open(opened) as remote, av.open(str(video)) as local:
            one, other = ([frame.to_ndarray().tobytes() for frame in container.decode(video=0)]
                          for container in (remote, local))
            assert one == other and len(one) == 240
        with pytest.raises(lake.FailedPrecondition, match="queries only"):
            reader.put(io.BytesIO(b"x"))
        with pytest.raises(lake.FailedPrecondition):
            reader.read(file, via_query=False)
        damaged = bytearray(noise)
        damaged[5 * MIB] ^= 1
        s3.boto3().put_object(Bucket=BUCKET, Key=file.uri.removeprefix(f"s3://{BUCKET}/"),
                              Body=bytes(damaged))
        with pytest.raises(lake.DataLoss):
            reader.read(file)
        with reader.open(file) as opened, pytest.raises(lake.DataLoss):
            opened.seek(5 * MIB - 5)
            opened.read(10)


def test_nothing_that_can_be_printed_or_pickled_gives_a_secret_away(server, client):
    token = "token/+" + "0123456789abcdef" * 2
    secret_client = lake.connect(server.address, token=token)
    file = client.put(io.BytesIO(b"abc"))
    url = client.presign(file, 60)
    signature = re.search("X-Amz-Signature=([0-9a-f]+)", url.url).group(1)
    assert 0 < (url.expires - datetime.datetime.now(datetime.timezone.utc)).total_seconds() < 61
    caught = []
    for wrong in (lambda: lake.connect("127.0.0.1:1", token=token, timeout=0.5),
                  lambda: lake.connect(server.address, token=token + "\n"),
                  lambda: secret_client.presign(lake.File("s3://x/y", "a/b", 1, "0" * 64)),
                  lambda: secret_client.query("SELECT no"),
                  lambda: secret_client.read(lake.File(url.url, "a/b", 1, "0" * 64))):
        try:
            wrong()
        except Exception as error:
            caught += [error, *error.args, vars(error),
                       "".join(traceback.format_exception(error, chain=True))]
    assert len(caught) >= 12
    with client.open(file) as opened:
        things = [secret_client, url, file, opened, opened.raw, *caught, client.describe]
        printed = [how(thing) for thing in things for how in (
            str, repr, "{}".format, "{!r}".format, ascii, pprint.pformat,
            lambda thing: "%s %r" % (thing, thing), lambda thing: json.dumps(thing, default=repr),
            lambda thing: repr(dir(thing)), lambda thing: repr(getattr(thing, "__dict__", "")))]
        for thing in things:
            for how in (pickle.dumps, copy.deepcopy, lambda thing: thing.__getstate__()):
                try:
                    printed.append(repr(how(thing)))
                except (TypeError, AttributeError, NotImplementedError, ValueError):
                    pass
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(url)
    assert_none([token, signature], *printed)
    secret_client.close()


def test_results_go_into_any_arrow_library(client):
    result = client.query("SELECT range AS n FROM range(100000)")
    total = duckdb.sql("SELECT sum(n), count(*) FROM result").fetchall()
    assert total == [(sum(range(100_000)), 100_000)]
    with pytest.raises(ValueError, match="before"):
        result.reader()
    capsule = client.query("SELECT 1 AS one").__arrow_c_stream__()
    gc.collect()
    del capsule  # never taken: its destructor lets go of the stream
    with client.query("SELECT range AS n FROM range(1000000000)") as endless:
        reader = endless.reader()
        assert reader.read_next_batch()["n"][0].as_py() == 0
    reader.close()


def test_it_works_without_pyarrow(server):
    program = """
import sys
sys.modules["pyarrow"] = None
import lake
with lake.connect(sys.argv[1]) as client:
    client.create_table("lab.alone", ["id:int64", "f:FILE"])
    client.insert("INSERT INTO lab.alone (id, f) VALUES (?, ?)", [1, lake.Upload(__file__)])
    [file] = client.query("SELECT f FROM lab.alone").files()
    assert client.read(file) == open(__file__, "rb").read()
    client.drop("lab.alone")
client = file = None
with open("/proc/self/maps") as maps:
    for path in {line.split()[-1] for line in maps if ".so" in line}:
        if path.startswith(("/lib", "/usr/lib")) and "/python3" not in path:
            print(path.rsplit("/", 1)[1].split(".so")[0].split("-")[0])
"""
    path = pathlib.Path(server.data_dir) / "program.py"
    path.write_text(program)
    done = subprocess.run([sys.executable, str(path), server.address], capture_output=True,
                          text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    # Of the system's libraries only those that Python needs itself, or every Linux has.
    assert {"libc", "libstdc++"} <= set(done.stdout.split()) <= {
        "ld", "libc", "libm", "libdl", "libpthread", "librt", "libutil", "libresolv", "libstdc++",
        "libgcc_s", "libz", "libffi", "libexpat", "libnss_files", "libnss_systemd", "libnss_dns"}


def test_errors_have_their_class_and_say_what_is_wrong(client):
    with pytest.raises(lake.InvalidArgument, match="SELEKT"):
        client.query("SELEKT 1")
    with pytest.raises(lake.Error):
        client.query("SELECT * FROM lab.not_there")
    with pytest.raises(lake.Unavailable):
        lake.connect("127.0.0.1:1", timeout=5)
    with pytest.raises(lake.Error) as caught:
        list(client.query("SELECT error('row ' || range) FROM range(3)").files())
    assert "row 0" in str(caught.value)
    with pytest.raises(ValueError, match="NUL"):
        client.query("SELECT '\0'")
    with pytest.raises(lake.NotFound):
        client.put("/nonexistent/file")


# ---- lifetimes -------------------------------------------------------------------------------------


def test_after_close_there_are_exceptions_and_no_crash(server, noise):
    client = lake.connect(server.address)
    file = client.put(io.BytesIO(noise))
    opened, result = client.open(file), client.query("SELECT range AS n FROM range(3)")
    reader = client.query("SELECT range AS n FROM range(300000)").reader()
    client.close()
    client.close()
    for misuse in (lambda: client.query("SELECT 1"), lambda: client.read(file),
                   lambda: client.open(file), client.tables, client.__enter__().tables):
        with pytest.raises(ValueError, match="closed"):
            misuse()
    # What was handed out outlives the client.
    assert opened.read(10) == noise[:10]
    assert result.table()["n"].to_pylist() == [0, 1, 2]
    assert reader.read_all().num_rows == 300_000
    result.close()
    with pytest.raises(ValueError):
        result.files()


def test_a_forked_process_is_told_and_leaves_its_parent_alone(server, client, noise):
    read, write = os.pipe()
    opened = client.open(client.put(io.BytesIO(noise)))
    result = client.query("SELECT 1 AS n")
    client.create_table("lab.forked", {"f": "FILE"})
    client.insert("INSERT INTO lab.forked (f) VALUES (?)", [client.put(io.BytesIO(b"abc"))])
    files = client.query("SELECT f FROM lab.forked").files()
    child = os.fork()
    if child == 0:
        for use in (client.tables, lambda: lake.connect(server.address), lambda: opened.read(10),
                    lambda: opened.raw.verified, result.table, lambda: next(files)):
            try:
                use()
            except RuntimeError as told:
                os.write(write, str(told).encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as answer:
        assert answer.read().count(b"spawn") == 6
    assert os.waitpid(child, 0)[1] == 0
    assert opened.read(10) == noise[:10] and next(files).size == 3
    assert result.table()["n"].to_pylist() == [1]
    assert client.query("SELECT 1 AS n").table().num_rows == 1


def test_nothing_is_left_of_what_was_closed_or_dropped(server, noise):
    def round_trip():
        with lake.connect(server.address) as client:
            file = client.put(io.BytesIO(noise[:MIB]))
            client.open(file).read(100)
            client.query("SELECT range FROM range(10000)").table()
            client.query("SELECT 1").__arrow_c_stream__()
            client.query("SELECT 1")
            pa.schema(client.query("SELECT 1").schema)

    def held():
        gc.collect()
        rss = int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), rss

    for _ in range(15):  # until the pools of gRPC and Arrow have their size
        round_trip()
    before = held()
    for _ in range(25):
        round_trip()
    after = held()
    assert after[0] <= before[0] + 2 and after[1] <= before[1] + 4
    assert after[2] - before[2] < 20 * MIB
