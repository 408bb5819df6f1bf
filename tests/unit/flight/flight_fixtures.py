"""Messages of other implementations for messages_test, and their judgement of ours.

    flight_fixtures.py write DIR   PyArrow's messages, and those that the ADBC driver sends
    flight_fixtures.py judge DIR   PyArrow reads what Lake wrote into DIR
    flight_fixtures.py client PORT DIR   PyArrow's client against server_test
"""

import datetime
import pathlib
import sys

import pyarrow as pa
import pyarrow.flight as flight

SCHEMA = pa.schema({"n": pa.int64(), "text": pa.utf8()})
EXPIRES = pa.scalar(datetime.datetime(2030, 1, 2, 3, 4, 5, 678000, datetime.timezone.utc),
                    pa.timestamp("ns", "UTC"))


def example_info():
    endpoints = [
        flight.FlightEndpoint(b"ticket one", ["grpc://a:1", "grpc+tls://b:2"], EXPIRES, b"meta"),
        flight.FlightEndpoint(b"ticket two", []),
    ]
    return flight.FlightInfo(SCHEMA, flight.FlightDescriptor.for_command(b"\x00\xffcommand"),
                             endpoints, 12345, -1, True, b"app")


def pyarrow_messages():
    yield "descriptor_command", flight.FlightDescriptor.for_command(b"\x00\xffcommand")
    yield "descriptor_path", flight.FlightDescriptor.for_path("ns", "tablé")
    yield "ticket", flight.Ticket(b"\x01\x00ticket")
    yield "action", flight.Action("CreatePreparedStatement", b"\x00body")
    yield "result", flight.Result(b"\xffresult")
    yield "schema_result", flight.SchemaResult(SCHEMA)
    yield "basic_auth", flight.BasicAuth("user", "pässword")
    yield "info", example_info()


class Recorder(flight.FlightServerBase):
    """Writes down each command and refuses it, or answers as far as a driver needs."""

    def __init__(self, directory):
        super().__init__("grpc://127.0.0.1:0")
        self.directory = directory
        self.counts = {}

    def record(self, name, body):
        count = self.counts.get(name, 0)
        self.counts[name] = count + 1
        (self.directory / f"adbc_{name}_{count}").write_bytes(body)

    def get_flight_info(self, context, descriptor):
        self.record("command", descriptor.command)
        return flight.FlightInfo(pa.schema([]), descriptor, [], -1, -1)

    def do_put(self, context, descriptor, reader, writer):
        self.record("put", descriptor.command)
        raise flight.FlightServerError("recorded")

    def do_action(self, context, action):
        self.record("action", action.body.to_pybytes())
        if action.type == "CreatePreparedStatement":
            answer = (self.directory / "create_prepared_result").read_bytes()
            return [flight.Result(answer)]
        if action.type in ("ClosePreparedStatement", "CloseSession"):
            return []
        raise flight.FlightServerError("recorded")


def attempt(function):
    try:
        return function()
    except Exception:  # the recorder refuses most of it
        return None


def record_adbc(directory):
    import adbc_driver_flightsql.dbapi as dbapi

    recorder = Recorder(directory)
    with dbapi.connect(f"grpc://127.0.0.1:{recorder.port}", autocommit=True) as connection:
        attempt(lambda: connection.adbc_get_info())
        for depth in ("catalogs", "db_schemas", "tables", "all"):
            attempt(lambda: connection.adbc_get_objects(
                depth=depth, catalog_filter="lake", db_schema_filter="rob%",
                table_name_filter="fr_mes", table_types_filter=["TABLE", "VIEW"]).read_all())
        attempt(connection.adbc_get_table_types)
        with connection.cursor() as cursor:
            attempt(lambda: cursor.execute("SELECT 'grüße'"))
            attempt(lambda: cursor.executemany("INSERT INTO t VALUES (?)", [(1,)]))
            attempt(lambda: cursor.adbc_ingest(
                "frames", pa.table({"n": [1]}), mode="append", catalog_name="lake",
                db_schema_name="robots"))
        attempt(lambda: connection.close())


def write(directory):
    for name, message in pyarrow_messages():
        (directory / name).write_bytes(message.serialize())


def judge(directory):
    read = lambda name: (directory / f"{name}.lake").read_bytes()
    for name, message in pyarrow_messages():
        ours = type(message).deserialize(read(name))
        if name == "info":
            assert ours.schema == message.schema
            assert ours.descriptor == message.descriptor
            assert ours.endpoints == message.endpoints, (ours.endpoints, message.endpoints)
            assert ours.total_records == 12345 and ours.total_bytes == -1
            assert ours.ordered is True and ours.app_metadata == b"app"
        elif name == "schema_result":
            assert ours.schema == message.schema
        else:
            assert ours == message, (name, ours, message)
    print("judged", len(list(pyarrow_messages())), "messages")


def client(port, directory):
    connection = flight.connect(f"grpc://127.0.0.1:{port}")
    for path in sorted(directory.glob("*.arrow")):
        with pa.OSFile(str(path)) as source:
            reader = pa.ipc.open_stream(source)
            expected = pa.Table.from_batches(list(reader), reader.schema)
        got = connection.do_get(flight.Ticket(path.name.encode())).read_all()
        assert got.schema.equals(expected.schema, check_metadata=True), path
        got.validate(full=True)
        assert got.equals(expected), path
        writer, reader = connection.do_put(flight.FlightDescriptor.for_path(path.name),
                                           expected.schema)
        for batch in expected.to_batches():
            writer.write_batch(batch)
        writer.done_writing()
        answer = reader.read()
        assert answer.to_pybytes() == str(expected.num_rows).encode(), (path, answer.to_pybytes())
        writer.close()
    print("client done")


if __name__ == "__main__":
    verb, *rest = sys.argv[1:]
    if verb == "client":
        client(int(rest[0]), pathlib.Path(rest[1]))
    else:
        target = pathlib.Path(rest[0])
        {"write": write, "judge": judge, "record": record_adbc}[verb](target)
