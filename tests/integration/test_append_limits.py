"""Both sides of an append's limits (SDK-4), where they bind everybody: at Query, and at Metasrv behind
it, by a client that is not ours. liblake's own are in tests/unit/client."""

import pathlib
import sys

import lance
import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import metasrv  # noqa: E402
import arrow_views  # noqa: E402
from lake_server import LakeServer  # noqa: E402

MIB = 1 << 20
DICTIONARY = pa.dictionary(pa.int8(), pa.utf8())


@pytest.fixture(scope="module", params=["query", "metasrv"])
def client(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param) / "data"
    if request.param == "metasrv":
        server = metasrv.Metasrv(directory)
        with flight.connect(server.location) as connected:
            yield connected
        assert server.stop() == 0
    else:
        with LakeServer(directory) as server, \
                flight.connect(f"grpc://{server.address}") as connected:
            yield connected


def create(client, name, schema):
    metasrv.create_table(client, name, schema)


def stored(client, name):
    """All rows of the table, as pylance reads them."""
    body = metasrv.field(1, metasrv.table_name(name))
    [resolved] = metasrv.parse(metasrv.action(client, "lake.resolve_tables", body))[1]
    registration = metasrv.parse(metasrv.parse(resolved)[1][0])
    location = registration[2][0].decode()
    return lance.dataset(location.removeprefix("file://")).to_table()


def append(client, name, schema, batches):
    """(version, rows), or the server's refusal."""
    writer, reader = client.do_put(metasrv.append_descriptor(name, metasrv.uuid7()), schema)
    reply, refusal = None, ""
    try:
        for batch in batches:
            writer.write_batch(batch)
        writer.done_writing()
        reply = reader.read()
    except (pa.ArrowException, flight.FlightError) as error:
        refusal = str(error)
    try:
        writer.close()
    except (pa.ArrowException, flight.FlightError) as error:
        refusal = refusal or str(error)
    if reply is None:
        return refusal
    result = metasrv.parse(reply.to_pybytes())
    return result[1][0], result[3][0]


def test_10000_rows(client):
    schema = pa.schema([pa.field("id", pa.int64())])
    create(client, "limits.rows", schema)

    def batches(*counts):
        return [pa.record_batch([pa.array(np.arange(n))], schema=schema) for n in counts]

    for more in (batches(10001), batches(9000, 1001)):
        assert "more than 10000 rows" in append(client, "limits.rows", schema, more)
    assert append(client, "limits.rows", schema, batches(9000, 1000)) == (2, 10000)
    assert append(client, "limits.rows", schema, batches(10000)) == (3, 10000)


def test_64_mib_encoded(client):
    """To the kibibyte: schema, headers and padding are the difference."""
    schema = pa.schema([pa.field("data", pa.binary())])
    create(client, "limits.bytes", schema)

    def batch(size):
        return [pa.record_batch([pa.array([bytes(size)], pa.binary())], schema=schema)]

    assert "67108864 bytes encoded" in append(client, "limits.bytes", schema, batch(64 * MIB))
    assert append(client, "limits.bytes", schema, batch(64 * MIB - 1024)) == (2, 1)


def test_170001_messages(client):
    """A schema, and 10,000 times a row with 16 dictionaries of its own; then an empty batch more."""
    schema = pa.schema([pa.field(f"d{i}", DICTIONARY) for i in range(16)])
    two = [pa.record_batch([
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array([f"{which}-{i}"]))
        for i in range(16)], schema=schema) for which in "ab"]
    create(client, "limits.messages", schema)
    most = two * 5000
    assert append(client, "limits.messages", schema, most) == (2, 10000)
    refusal = append(client, "limits.messages", schema, most + [two[1].slice(0, 0)])
    assert "more than 170001 messages" in refusal, refusal


def test_views_come_as_what_they_refer_to(client):
    """A table that is made of views, and rows with them, in batches of which one has none."""
    views, plain = arrow_views.table(90, True), arrow_views.table(90, False)
    create(client, "views.rows", views.schema)
    batches = views.to_batches()
    assert append(client, "views.rows", views.schema, [batches[0].slice(0, 0), *batches]) == (2, 90)
    assert append(client, "views.rows", plain.schema, plain.to_batches()) == (3, 90)
    assert stored(client, "views.rows").to_pylist() == plain.to_pylist() * 2
    wrong = views.set_column(0, "t", views["t"].cast(pa.binary_view()))
    assert '"t" binary' in append(client, "views.rows", wrong.schema, wrong.to_batches())
    listed = pa.schema([pa.field("c", pa.list_view(pa.string_view()))])
    with pytest.raises(pa.ArrowInvalid, match="list<T>"):
        create(client, "views.listed", listed)


def test_64_mib_that_views_refer_to(client):
    """However few bytes are sent: a MiB to which many views refer."""
    schema = pa.schema([pa.field("data", pa.binary_view())])
    create(client, "views.limit", schema)
    once = pa.py_buffer(bytes(MIB))

    def batch(count):
        return [pa.record_batch([arrow_views.same(pa.binary_view(), once, count)], schema=schema)]

    assert batch(64)[0].get_total_buffer_size() < 2 * MIB
    assert append(client, "views.limit", schema, batch(64)) == (2, 64)
    for more in (batch(65), batch(33) + batch(32)):
        assert "fewer rows" in append(client, "views.limit", schema, more)
    assert stored(client, "views.limit") == pa.table({"data": [bytes(MIB)] * 64})


def test_files_whose_texts_are_views_lie_in_the_stage(client):
    """What is looked at is what the views refer to."""
    views = pa.struct([pa.field(name, kind, nullable=False) for name, kind in (
        ("uri", pa.string_view()), ("media_type", pa.string_view()), ("size_bytes", pa.int64()),
        ("sha256", pa.string_view()))])
    schema = pa.schema([pa.field("video", views, metadata={
        "ARROW:extension:name": "lake.file", "ARROW:extension:metadata": '{"version":1}'})])
    create(client, "views.files", schema)
    stage = metasrv.parse(metasrv.action(client, "lake.stage"))[3][0].decode()
    if "/tenants/" not in stage:
        stage += "/tenants/development"

    def batch(uri):
        value = {"uri": uri, "media_type": "video/mp4", "size_bytes": 3, "sha256": "a" * 64}
        return [pa.record_batch([pa.array([None, value], views)], schema=schema)]

    assert append(client, "views.files", schema, batch(f"{stage}/ab/video-1.mp4")) == (2, 2)
    assert '"video", row 1' in append(client, "views.files", schema, batch("file:///etc/passwd"))
