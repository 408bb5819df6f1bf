"""Metasrv over the wire, asked by pyarrow's Flight client: actions, appends, limits, identities."""

import json
import pathlib
import sys
import threading
import time

import lance
import pyarrow as pa
import pyarrow.flight as flight
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import metasrv  # noqa: E402
from metasrv import SCHEMA, action, append, batch_of, field, parse, uuid7  # noqa: E402


@pytest.fixture
def server(tmp_path):
    started = metasrv.Metasrv(tmp_path / "data")
    yield started
    assert started.stop() == 0


@pytest.fixture
def client(server):
    with flight.FlightClient(server.location) as connected:
        yield connected


def resolve(client, *names, options=None):
    """[(registration fields or None, version)] in the order asked for."""
    body = b"".join(field(1, metasrv.table_name(name)) for name in names)
    resolved = parse(action(client, "lake.resolve_tables", body, options)).get(1, [])
    out = []
    for entry in resolved:
        fields = parse(entry)
        out.append((parse(fields[1][0]) if 1 in fields else None, fields.get(2, [None])[0]))
    return out


def test_table_lives_from_create_to_drop(server, client, tmp_path):
    made = metasrv.create_table(client, "robots.Arm", SCHEMA)
    path = metasrv.dataset_path(server_dir(tmp_path), "robots.Arm")
    assert made[2] == [f"file://{path}".encode()]
    assert pa.ipc.read_schema(pa.py_buffer(made[5][0])) == SCHEMA
    assert append(client, "robots.arm", uuid7(), [batch_of([1, 2, 3])]) == (2, 3, False)
    assert append(client, "ROBOTS.ARM", uuid7(), [batch_of([4]), batch_of([5])]) == (3, 2, False)
    rows = lance.dataset(path).to_table()
    assert rows["id"].to_pylist() == [1, 2, 3, 4, 5]
    assert rows.schema == SCHEMA
    assert lance.dataset(path, version=2).count_rows() == 3
    (registration, version), (missing, _) = resolve(client, "robots.arm", "robots.none")
    assert registration[4] == made[4] and version == 3 and missing is None
    metasrv.drop_table(client, "robots.arm")
    assert resolve(client, "robots.arm")[0][0] is None
    assert not pathlib.Path(path).exists()


def server_dir(tmp_path):
    return tmp_path / "data"


def test_append_with_same_operation_id_returns_first_version(client):
    metasrv.create_table(client, "robots.arm", SCHEMA)
    first, second = uuid7(), uuid7()
    assert append(client, "robots.arm", first, [batch_of([1, 2])]) == (2, 2, False)
    assert append(client, "robots.arm", second, [batch_of([3])]) == (3, 1, False)
    assert append(client, "robots.arm", first, [batch_of([1, 2])]) == (2, 2, True)
    with pytest.raises(pa.ArrowException, match="already exists.*different content"):
        append(client, "robots.arm", first, [batch_of([1, 9])])


def test_expired_operation_id_is_refused(tmp_path):
    started = metasrv.Metasrv(
        tmp_path, env={"LAKE_APPEND_OPERATION_RETENTION_SECS": "60"}
    )
    now_ms = int(time.time() * 1000)
    with flight.FlightClient(started.location) as client:
        metasrv.create_table(client, "robots.arm", SCHEMA)
        with pytest.raises(pa.ArrowException, match="expired"):
            append(client, "robots.arm", uuid7(now_ms - 70_000), [batch_of([1])])
        with pytest.raises(pa.ArrowException, match="ahead of the server's clock"):
            append(client, "robots.arm", uuid7(now_ms + 330_000), [batch_of([1])])
        assert append(client, "robots.arm", uuid7(now_ms - 30_000), [batch_of([1])])[0] == 2
    assert started.stop() == 0


def test_rows_limit_on_both_sides(client):
    metasrv.create_table(client, "robots.arm", SCHEMA)
    with pytest.raises(pa.ArrowInvalid, match="10000 rows"):
        append(client, "robots.arm", uuid7(), [batch_of(range(9_999)), batch_of([1, 2])])
    with pytest.raises(pa.ArrowInvalid, match="at least one row"):
        append(client, "robots.arm", uuid7(), [batch_of([])])
    assert append(client, "robots.arm", uuid7(), [batch_of(range(10_000))]) == (2, 10_000, False)


def encoded_bytes(batches):
    """Headers and bodies of the schema and of every batch, as Flight sends them."""
    total = len(batches[0].schema.serialize()) - 8
    for batch in batches:
        message = pa.ipc.read_message(batch.serialize())
        total += message.metadata.size + message.body.size
    return total


def test_bytes_limit_on_both_sides(client):
    """64 MiB to the byte, in messages that gRPC itself takes."""
    schema = pa.schema([pa.field("blob", pa.binary())])
    metasrv.create_table(client, "robots.blobs", schema)

    def batches(last):
        sizes = [8 * 1024 * 1024] * 7 + [last]
        return [pa.record_batch([pa.array([b"x" * size])], schema=schema) for size in sizes]

    limit = 64 * 1024 * 1024
    last = 8 * 1024 * 1024
    while encoded_bytes(batches(last)) > limit:
        last -= 8
    fits = batches(last)
    over = batches(last + 8)
    while encoded_bytes(over) <= limit:
        last += 8
        over = batches(last + 8)
    assert limit - 64 <= encoded_bytes(fits) <= limit < encoded_bytes(over) <= limit + 64
    with pytest.raises(pa.ArrowException, match="67108864 bytes"):
        append(client, "robots.blobs", uuid7(), over)
    assert append(client, "robots.blobs", uuid7(), fits) == (2, 8, False)


def test_compressed_rows_are_refused(client):
    metasrv.create_table(client, "robots.arm", SCHEMA)
    options = flight.FlightCallOptions(
        timeout=30, write_options=pa.ipc.IpcWriteOptions(compression="zstd")
    )
    with pytest.raises(pa.ArrowInvalid):
        append(client, "robots.arm", uuid7(), [batch_of(range(1000))], options=options)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (SCHEMA.set(0, pa.field("id", pa.int64())), "nullability"),
        (SCHEMA.set(0, pa.field("id", pa.int32(), nullable=False)), "int32"),
        (SCHEMA.set(1, pa.field("remark", pa.utf8())), "remark"),
        (SCHEMA.append(pa.field("more", pa.utf8())), "2 columns"),
    ],
)
def test_rows_of_another_schema_are_refused(client, schema, message):
    metasrv.create_table(client, "robots.arm", SCHEMA)
    row = pa.record_batch([pa.array([1] if f.name == "id" else ["x"], f.type) for f in schema],
                          schema=schema)
    with pytest.raises(pa.ArrowInvalid, match=message):
        append(client, "robots.arm", uuid7(), [row])


def test_null_in_a_column_that_has_none_is_refused(client):
    metasrv.create_table(client, "robots.arm", SCHEMA)
    row = pa.RecordBatch.from_arrays([pa.array([None], pa.int64()), pa.array(["x"])], schema=SCHEMA)
    with pytest.raises(pa.ArrowInvalid):
        append(client, "robots.arm", uuid7(), [row])


def test_every_kind_of_column_is_appended_and_read_back_by_pylance(client, tmp_path):
    columns = {
        "i8": pa.array([1, None], pa.int8()),
        "u64": pa.array([2**64 - 1, 0], pa.uint64()),
        "f32": pa.array([0.5, None], pa.float32()),
        "f64": pa.array([1e300, -0.0], pa.float64()),
        "flag": pa.array([True, None], pa.bool_()),
        "text": pa.array(["ä", None], pa.utf8()),
        "large": pa.array(["", "z" * 1000], pa.large_utf8()),
        "bytes": pa.array([b"\x00", None], pa.binary()),
        "day": pa.array([0, 20000], pa.date32()),
        "at": pa.array([0, 1], pa.timestamp("us", tz="UTC")),
        "price": pa.array(["1.10", None]).cast(pa.decimal128(10, 2)),
        "vector": pa.array([[1, 2, 3], [4, 5, 6]], pa.list_(pa.float32(), 3)),
        "list": pa.array([[1], []], pa.list_(pa.int32())),
        "pose": pa.array([{"x": 1.0}, {"x": 2.0}], pa.struct([("x", pa.float64())])),
    }
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    metasrv.create_table(client, "robots.all", batch.schema)
    append(client, "robots.all", uuid7(), [batch])
    path = metasrv.dataset_path(server_dir(tmp_path), "robots.all")
    assert lance.dataset(path).to_table().combine_chunks().to_batches()[0] == batch


def test_append_to_another_incarnation_than_expected_fails(client):
    first = metasrv.create_table(client, "robots.arm", SCHEMA)[4][0].decode()
    metasrv.drop_table(client, "robots.arm")
    second = metasrv.create_table(client, "robots.arm", SCHEMA)[4][0].decode()
    assert first != second
    with pytest.raises(pa.ArrowException, match="dropped and created again"):
        append(client, "robots.arm", uuid7(), [batch_of([1])], incarnation=first)
    assert append(client, "robots.arm", uuid7(), [batch_of([1])], incarnation=second)[0] == 2


def test_stream_that_is_no_append_is_refused(client):
    writer, _ = client.do_put(
        flight.FlightDescriptor.for_path("robots", "arm"), SCHEMA, metasrv.call_options()
    )
    writer.done_writing()
    with pytest.raises(pa.ArrowNotImplementedError, match="AppendCommand"):
        writer.close()


def test_unknown_action_and_malformed_request_are_refused(client):
    with pytest.raises(pa.ArrowNotImplementedError, match="ListActions"):
        action(client, "lake.format_disk")
    with pytest.raises(pa.ArrowInvalid, match="does not parse"):
        action(client, "lake.create_table", b"\xff\xff")
    listed = {kind.type for kind in client.list_actions()}
    assert "lake.create_table" in listed and "lake.catalog_snapshot" in listed


# ---- several writers ----------------------------------------------------------------------------


def test_pylance_and_lake_append_to_one_table_at_once(server, client, tmp_path):
    """Another writer of Lance takes versions in between; neither loses rows (L13)."""
    metasrv.create_table(client, "robots.arm", SCHEMA)
    path = metasrv.dataset_path(server_dir(tmp_path), "robots.arm")

    def by_pylance():
        for i in range(10):
            lance.write_dataset(
                pa.Table.from_batches([batch_of([1000 + i])]), path, mode="append"
            )

    other = threading.Thread(target=by_pylance)
    other.start()
    operations = []
    for i in range(20):
        operation = uuid7()
        version, _, _ = append(client, "robots.arm", operation, [batch_of([i])])
        operations.append((operation, version, i))
    other.join()
    for operation, version, i in operations:
        assert append(client, "robots.arm", operation, [batch_of([i])]) == (version, 1, True)
    ids = lance.dataset(path).to_table()["id"].to_pylist()
    assert sorted(ids) == list(range(20)) + list(range(1000, 1010))


# ---- identities (NAT-13, SEC-1) -----------------------------------------------------------------


PRINCIPALS = [
    ("anna-token-0123456789abcdef", "anna", "t1", "user", ["robots"]),
    ("query-token-0123456789abcdef", "query-1", "ops", "query_service", ["*"]),
    ("peer-token-0123456789abcdef", "meta-2", "ops", "metadata_peer", ["*"]),
    ("root-token-0123456789abcdef", "root", "ops", "admin", ["*"]),
]


@pytest.fixture
def guarded(tmp_path):
    principals = tmp_path / "principals.json"
    principals.write_text(
        json.dumps(
            {
                "principals": [
                    {
                        "token": token,
                        "principal_id": principal,
                        "tenant_id": tenant,
                        "role": role,
                        "namespaces": namespaces,
                    }
                    for token, principal, tenant, role, namespaces in PRINCIPALS
                ]
            }
        )
    )
    principals.chmod(0o600)
    started = metasrv.Metasrv(
        tmp_path / "data", env={"LAKE_AUTH_PRINCIPALS_FILE": str(principals)}
    )
    assert started.port is not None
    with flight.FlightClient(started.location) as client:
        yield client
    assert started.stop() == 0


def as_principal(name, **behalf):
    token = next(token for token, principal, *_ in PRINCIPALS if principal == name)
    headers = {
        "principal": "lake-on-behalf-of",
        "tenant": "lake-tenant",
        "namespaces": "lake-namespaces",
    }
    return metasrv.call_options(token, [(headers[key], value) for key, value in behalf.items()])


def test_without_a_token_nothing_is_answered(guarded):
    with pytest.raises(flight.FlightUnauthenticatedError):
        action(guarded, "lake.list_tables")
    with pytest.raises(flight.FlightUnauthenticatedError):
        append(guarded, "robots.arm", uuid7(), [batch_of([1])])


def test_user_creates_and_appends_only_where_granted(guarded):
    anna = as_principal("anna")
    metasrv.create_table(guarded, "robots.arm", SCHEMA, options=anna)
    metasrv.create_table(guarded, "secret.arm", SCHEMA, options=as_principal("root"))
    assert append(guarded, "robots.arm", uuid7(), [batch_of([1])], options=anna)[0] == 2
    for attempt in (
        lambda: metasrv.create_table(guarded, "secret.leg", SCHEMA, options=anna),
        lambda: metasrv.drop_table(guarded, "secret.arm", options=anna),
        lambda: append(guarded, "secret.arm", uuid7(), [batch_of([1])], options=anna),
        lambda: resolve(guarded, "secret.arm", options=anna),
        lambda: action(guarded, "lake.table_schema", metasrv.table_name("secret.arm"), anna),
        lambda: action(guarded, "lake.catalog_snapshot", b"", anna),
    ):
        with pytest.raises(flight.FlightUnauthorizedError):
            attempt()
    listed = parse(action(guarded, "lake.list_tables", b"", anna))[1]
    assert [parse(parse(entry)[1][0])[2] for entry in listed] == [[b"arm"]]
    assert len(listed) == 1


def test_query_server_acts_for_the_principal_it_names(guarded):
    behalf = as_principal("query-1", principal="anna", tenant="t1", namespaces="robots")
    metasrv.create_table(guarded, "robots.arm", SCHEMA, options=behalf)
    with pytest.raises(flight.FlightUnauthorizedError, match='"anna"'):
        metasrv.create_table(guarded, "secret.arm", SCHEMA, options=behalf)
    assert parse(action(guarded, "lake.stage", b"", behalf))[3][0].endswith(b"/objects/tenants/t1")
    assert parse(action(guarded, "lake.stage", b"", as_principal("query-1")))[3][0].endswith(
        b"/objects"
    )


def test_user_cannot_name_another_principal_and_peers_can_do_nothing(guarded):
    forged = as_principal("anna", principal="root", tenant="ops", namespaces="*")
    with pytest.raises(flight.FlightUnauthorizedError, match="on behalf"):
        metasrv.create_table(guarded, "secret.arm", SCHEMA, options=forged)
    with pytest.raises(flight.FlightUnauthorizedError):
        metasrv.create_table(guarded, "robots.arm", SCHEMA, options=as_principal("meta-2"))


FILE = pa.struct(
    [
        ("uri", pa.utf8()),
        ("media_type", pa.utf8()),
        ("size_bytes", pa.int64()),
        ("sha256", pa.utf8()),
    ]
)
FILE_METADATA = {"ARROW:extension:name": "lake.file", "ARROW:extension:metadata": '{"version":1}'}


def file_batch(schema, uri):
    value = {"uri": uri, "media_type": "video/mp4", "size_bytes": 3, "sha256": "a" * 64}
    return pa.record_batch([pa.array([value, None], FILE)], schema=schema)


def test_file_values_lie_in_the_stage_of_the_principal_acted_for(guarded):
    schema = pa.schema([pa.field("video", FILE, metadata=FILE_METADATA)])
    behalf = as_principal("query-1", principal="anna", tenant="t1", namespaces="robots")
    metasrv.create_table(guarded, "robots.episodes", schema, options=behalf)
    stage = parse(action(guarded, "lake.stage", b"", behalf))[3][0].decode()
    mine = file_batch(schema, f"{stage}/ab/video-1.mp4")
    assert append(guarded, "robots.episodes", uuid7(), [mine], options=behalf)[:2] == (2, 2)
    for uri in (
        stage.replace("/t1", "/t2") + "/ab/video-1.mp4",
        f"{stage}/../t2/video-1.mp4",
        f"{stage}/%2e%2e/video-1.mp4",
        "file:///etc/passwd",
        "",
    ):
        with pytest.raises(pa.ArrowInvalid, match='"video", row 0'):
            append(guarded, "robots.episodes", uuid7(), [file_batch(schema, uri)], options=behalf)
