"""Both sides of an append's limits (SDK-4), where they bind everybody: at Query, and at Metasrv behind
it, by a client that is not ours. liblake's own are in tests/unit/client."""

import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import metasrv  # noqa: E402
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
