"""Lake seen by two more clients: PyArrow's Flight client, with Flight SQL's messages written by
hand, and the Go Flight SQL client, which is what most tools have inside."""

import base64
import json
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pyarrow.flight as flight
import pytest

import arrow_types
from arrow_types import COLUMNS, ROWS, assert_same, expected, flat
from conftest import token_of
from lake_server import SOURCE
from metasrv import field, parse

READ_ONLY = ("Lake's SQL is read-only: only SELECT is supported; DDL and DML go through the client "
             "library")

# ---- Flight SQL by hand ---------------------------------------------------------------------------


def any_of(name, message):
    return (field(1, f"type.googleapis.com/arrow.flight.protocol.sql.{name}")
            + field(2, message))


def statement(sql):
    return flight.FlightDescriptor.for_command(any_of("CommandStatementQuery", field(1, sql)))


def client_of(server, **options):
    return flight.FlightClient(f"grpc://{server.address}", **options)


def bearer(token, scheme="Bearer"):
    return flight.FlightCallOptions(headers=[(b"authorization", f"{scheme} {token}".encode())])


def as_user(server, name):
    return bearer(token_of(server, name))


@pytest.fixture
def client(lake):
    with client_of(lake) as opened:
        yield opened


def run(client, sql, options=None):
    info = client.get_flight_info(statement(sql), options)
    assert len(info.endpoints) == 1
    return client.do_get(info.endpoints[0].ticket, options).read_all()


# ---- statements ------------------------------------------------------------------------------------


def test_twenty_thousand_rows_of_every_type_are_exact(client, typed):
    got = run(client, "SELECT * FROM lab.typed ORDER BY id")
    assert got.num_rows == ROWS
    for name in COLUMNS:
        assert_same(flat(got, name), expected(typed, name), name)


@pytest.mark.parametrize("rows", [0, 1, 10, 20, 200, 2000])
def test_a_repeated_statement_answers_the_same_again(client, typed, rows):
    """Small results are kept and sent again: on both sides of what is small."""
    sql = f"SELECT * FROM lab.typed WHERE id < {rows} ORDER BY id"
    want = typed.slice(0, rows)
    for _ in range(4):
        got = run(client, sql)
        assert got.num_rows == rows
        for name in COLUMNS:
            assert_same(flat(got, name), expected(want, name), name)


def test_a_repeated_statement_sees_the_newest_version(lake, client):
    lake.run("table", "create", "other.grows", "--column", "id:int64")
    sql = "SELECT count(*) AS n, sum(id) AS s FROM other.grows"
    for number in range(1, 4):
        for _ in range(2):
            got = run(client, sql).to_pylist()
            assert got == [{"n": number - 1, "s": sum(range(number)) or None}]
        lake.run("put", "--into", "other.grows", "--set", f"id={number}")


def test_what_changes_by_itself_is_not_repeated(client):
    for sql in ("SELECT random() AS x", "SELECT uuid() AS x",
                "SELECT epoch_us(current_timestamp) AS x"):
        assert len({run(client, sql)["x"][0].as_py() for _ in range(4)}) == 4, sql


def test_one_users_kept_result_is_refused_to_who_may_not_read_the_table(tenants):
    sql = "SELECT count(*) FROM acme.t"
    with client_of(tenants) as opened:
        for _ in range(3):
            assert run(opened, sql, as_user(tenants, "alice")).num_rows == 1
        with pytest.raises(flight.FlightUnauthorizedError):
            run(opened, sql, as_user(tenants, "bob"))


def test_info_schema_and_stream_agree(client):
    for sql in ("SELECT * FROM lab.typed", "SELECT video FROM lab.files", "SELECT 1 AS x"):
        descriptor = statement(sql)
        info = client.get_flight_info(descriptor)
        reader = client.do_get(info.endpoints[0].ticket)
        told = client.get_schema(descriptor).schema
        assert told.equals(info.schema, check_metadata=True)
        assert reader.schema.equals(info.schema, check_metadata=True)
        assert info.descriptor == descriptor
        reader.cancel()


def test_batches_are_bounded(client):
    """F15, F01: neither thousands of tiny messages nor one large one."""
    info = client.get_flight_info(statement(
        "SELECT i, repeat('x', 100) AS x FROM range(200_000) AS t(i)"))
    sizes = [(chunk.data.num_rows, chunk.data.get_total_buffer_size())
             for chunk in client.do_get(info.endpoints[0].ticket)]
    assert sum(rows for rows, _ in sizes) == 200_000
    assert 6 <= len(sizes) <= 40, sizes
    assert max(size for _, size in sizes) <= 8 << 20


def test_a_ticket_is_read_as_often_as_one_likes(client):
    """Retries after a lost connection get the same rows."""
    ticket = client.get_flight_info(statement("SELECT id FROM lab.typed WHERE id < 5")).endpoints[0]
    for _ in range(3):
        assert client.do_get(ticket.ticket).read_all()["id"].to_pylist() == [0, 1, 2, 3, 4]


def test_a_ticket_keeps_to_its_versions(fresh, tmp_path):
    """SQL-3: rows appended after the ticket was made are not in its result."""
    from conftest import load, write_arrow
    server = fresh()
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    load(server, "lab.t", rows, ["id:int64"], tmp_path)
    with client_of(server) as client:
        ticket = client.get_flight_info(statement("SELECT id FROM lab.t")).endpoints[0].ticket
        server.run("import", "lab.t", write_arrow(tmp_path / "more.arrow", rows))
        assert client.do_get(ticket).read_all().num_rows == 2
        assert run(client, "SELECT id FROM lab.t").num_rows == 4
        server.run("table", "drop", "lab.t")
        server.run("table", "create", "lab.t", "--column", "id:int64")
        assert is_refused(client, ticket.ticket), "rows of another table"
        assert run(client, "SELECT id FROM lab.t").num_rows == 0


def test_list_actions_names_what_there_is(client):
    kinds = {action.type for action in client.list_actions()}
    assert {"CreatePreparedStatement", "ClosePreparedStatement", "CloseSession",
            "CancelFlightInfo", "lake.create_table", "lake.stage"} <= kinds
    with pytest.raises(pa.ArrowNotImplementedError, match="no action nope"):
        list(client.do_action(flight.Action("nope", b"")))


def test_prepared_statements_outlive_their_connection(lake, client):
    """The handle is the statement, sealed: any connection of its owner may use it."""
    request = any_of("ActionCreatePreparedStatementRequest", field(1, "SELECT 7 AS seven"))
    answer = list(client.do_action(flight.Action("CreatePreparedStatement", request)))[0]
    wrapped = parse(answer.body.to_pybytes())
    assert wrapped[1][0].endswith(b"ActionCreatePreparedStatementResult")
    result = parse(wrapped[2][0])
    assert pa.ipc.read_schema(pa.py_buffer(result[2][0])).names == ["seven"]
    command = any_of("CommandPreparedStatementQuery", field(1, result[1][0]))
    with client_of(lake) as other:
        info = other.get_flight_info(flight.FlightDescriptor.for_command(command))
        assert other.do_get(info.endpoints[0].ticket).read_all().to_pylist() == [{"seven": 7}]
    close = any_of("ActionClosePreparedStatementRequest", field(1, result[1][0]))
    assert list(client.do_action(flight.Action("ClosePreparedStatement", close))) == []


@pytest.mark.parametrize("command", [
    "CommandGetCatalogs", "CommandGetDbSchemas", "CommandGetTables", "CommandGetTableTypes",
    "CommandGetSqlInfo", "CommandGetXdbcTypeInfo", "CommandGetPrimaryKeys",
    "CommandGetExportedKeys", "CommandGetImportedKeys", "CommandGetCrossReference"])
def test_every_listing_is_answered(client, command):
    descriptor = flight.FlightDescriptor.for_command(any_of(command, b""))
    info = client.get_flight_info(descriptor)
    reader = client.do_get(info.endpoints[0].ticket)
    assert reader.schema.equals(info.schema)
    rows = reader.read_all().num_rows
    keys = command.endswith(("Keys", "Reference"))
    assert rows == 0 if keys else rows > 0


@pytest.mark.parametrize("sql", [
    "INSERT INTO lab.empty VALUES (1, 'x')", "UPDATE lab.empty SET note = 'x'",
    "DELETE FROM lab.empty", "CREATE TABLE lab.made (id BIGINT)", "DROP TABLE lab.empty",
    "COPY lab.empty TO '/tmp/made.csv'", "ATTACH ':memory:' AS made", "SET threads = 1",
    "PRAGMA database_list"])
def test_what_is_not_a_query_is_refused_with_the_stable_text(client, sql):
    for ask in (client.get_flight_info, client.get_schema):
        with pytest.raises(pa.ArrowInvalid, match=READ_ONLY):
            ask(statement(sql))


def test_updates_are_refused_with_the_stable_text(client):
    for command in (any_of("CommandStatementUpdate", field(1, "DELETE FROM lab.empty")),
                    any_of("CommandStatementIngest", field(2, field(1, 1)) + field(3, "made"))):
        descriptor = flight.FlightDescriptor.for_command(command)
        with pytest.raises(pa.ArrowInvalid, match=READ_ONLY):
            client.get_flight_info(descriptor)
        with pytest.raises(pa.ArrowInvalid, match=READ_ONLY):
            writer, reader = client.do_put(descriptor, pa.schema([("id", pa.int64())]))
            with writer:
                writer.done_writing()
                reader.read()


# ---- what is not Flight SQL ---------------------------------------------------------------------------


@pytest.mark.parametrize("descriptor", [
    flight.FlightDescriptor.for_path("lab", "typed"),
    flight.FlightDescriptor.for_command(b""),
    flight.FlightDescriptor.for_command(b"SELECT 1"),
    flight.FlightDescriptor.for_command(b"\xff" * 64),
    flight.FlightDescriptor.for_command(any_of("CommandStatementQuery", b"\x0a\xff\xff\xff\x7f")),
    flight.FlightDescriptor.for_command(any_of("CommandNope", b"")),
    flight.FlightDescriptor.for_command(any_of("CommandStatementQuery", field(1, "SELECT '\0'"))),
    flight.FlightDescriptor.for_command(any_of("CommandStatementQuery", field(1, b"SELECT '\xff'"))),
])
def test_what_cannot_be_a_command_is_refused(client, descriptor):
    with pytest.raises((flight.FlightError, pa.ArrowInvalid, pa.ArrowNotImplementedError)):
        client.get_flight_info(descriptor)
    assert run(client, "SELECT 1 AS one")["one"].to_pylist() == [1]


# ---- tickets (TIX) --------------------------------------------------------------------------------------


def ticket_of(client, sql, options=None):
    return client.get_flight_info(statement(sql), options).endpoints[0].ticket.ticket


def is_refused(client, ticket, options=None):
    try:
        client.do_get(flight.Ticket(ticket), options).read_all()
    except (flight.FlightError, pa.ArrowException):
        return True
    return False


def test_no_bit_of_a_ticket_may_change(client):
    """Of its sealed part: the names around it are protobuf's, and lead to it or nowhere."""
    ticket = ticket_of(client, "SELECT id FROM lab.typed WHERE id = 12345")
    assert b"12345" not in ticket and b"typed" not in ticket, "SQL is readable in a ticket"
    assert not is_refused(client, ticket)
    sealed = parse(parse(ticket)[2][0])[1][0]
    start = ticket.index(sealed)
    for bit in range(len(sealed) * 8):
        changed = bytearray(ticket)
        changed[start + bit // 8] ^= 1 << bit % 8
        assert is_refused(client, bytes(changed)), f"bit {bit} of {len(sealed) * 8} may change"


@pytest.mark.parametrize("size", [0, 1, 20, 100, -1])
def test_a_part_of_a_ticket_is_refused(client, size):
    ticket = ticket_of(client, "SELECT 1")
    sealed = parse(parse(ticket)[2][0])[1][0]
    assert not is_refused(client, any_of("TicketStatementQuery", field(1, sealed)))
    assert is_refused(client, ticket[:size])
    assert is_refused(client, any_of("TicketStatementQuery", field(1, sealed[:size])))
    assert is_refused(client, any_of("TicketStatementQuery", field(1, sealed + b"\0")))


def test_a_ticket_is_its_owners(tenants):
    with client_of(tenants) as client:
        alice, bob, root = (as_user(tenants, name) for name in ("alice", "bob", "root"))
        ticket = ticket_of(client, "SELECT id FROM acme.t", alice)
        assert not is_refused(client, ticket, alice)
        assert is_refused(client, ticket, bob)
        assert is_refused(client, ticket, root)
        assert is_refused(client, ticket)
        ticket = ticket_of(client, "SELECT 1", alice)
        assert is_refused(client, ticket, bob)


def test_a_ticket_is_its_servers(fresh):
    one, other = fresh(), fresh()
    with client_of(one) as first, client_of(other) as second:
        assert is_refused(second, ticket_of(first, "SELECT 1"))


def test_a_ticket_expires(fresh):
    server = fresh({"LAKE_QUERY_TICKET_TTL_SECS": 1})
    with client_of(server) as client:
        ticket = ticket_of(client, "SELECT 1")
        assert not is_refused(client, ticket)
        time.sleep(1.3)
        with pytest.raises(pa.ArrowInvalid, match="expired"):
            client.do_get(flight.Ticket(ticket)).read_all()


# ---- who may (F07, SEC) -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_case_F07_the_scheme_counts_without_regard_to_case(tenants, scheme):
    """The key too: HTTP/2 has it in lower case, and PyArrow sends no other."""
    with client_of(tenants) as client:
        options = bearer(token_of(tenants, "alice"), scheme=scheme)
        assert run(client, "SELECT count(*) AS n FROM acme.t", options)["n"].to_pylist() == [3]


def test_case_F07_two_authorizations_are_refused(tenants):
    """Which of them wins would be a guess, and another server's guess another one."""
    good = f"Bearer {token_of(tenants, 'alice')}".encode()
    with client_of(tenants) as client:
        for pair in ((good, b"Bearer wrong"), (b"Bearer wrong", good), (good, good)):
            options = flight.FlightCallOptions(headers=[(b"authorization", each) for each in pair])
            with pytest.raises(flight.FlightUnauthenticatedError):
                run(client, "SELECT 1", options)


def test_every_method_wants_the_token(tenants):
    """SEC-4."""
    with client_of(tenants) as client:
        ticket = flight.Ticket(ticket_of(client, "SELECT 1", as_user(tenants, "alice")))
        calls = {
            "GetFlightInfo": lambda: client.get_flight_info(statement("SELECT 1")),
            "GetSchema": lambda: client.get_schema(statement("SELECT 1")),
            "DoGet": lambda: client.do_get(ticket).read_all(),
            "DoAction": lambda: list(client.do_action(flight.Action("CloseSession", b""))),
            "ListActions": lambda: list(client.list_actions()),
            "DoPut": lambda: put_nothing(client),
        }
        for method, call in calls.items():
            # GetSchema's errors are not converted to Flight's by PyArrow.
            with pytest.raises((flight.FlightUnauthenticatedError, OSError),
                               match="unauthenticated error.*authorization: Bearer"):
                call()
                pytest.fail(f"{method} went through")


def put_nothing(client):
    writer, reader = client.do_put(flight.FlightDescriptor.for_command(b"x"),
                                   pa.schema([("id", pa.int64())]))
    with writer:
        writer.done_writing()
        reader.read()


def test_basic_authentication_answers_with_a_bearer_header(tenants):
    """F16."""
    token = token_of(tenants, "alice")
    with client_of(tenants) as client:
        header = client.authenticate_basic_token("alice", token)
        assert header == (b"authorization", f"Bearer {token}".encode())
        options = flight.FlightCallOptions(headers=[header])
        assert run(client, "SELECT count(*) AS n FROM acme.t", options)["n"].to_pylist() == [3]
        for user, password in (("alice", "wrong"), ("", ""), ("alice", "x" * 5000)):
            with pytest.raises(flight.FlightUnauthenticatedError):
                client.authenticate_basic_token(user, password)
        for text in ("Basic", "Basic !!!!", "Basic " + base64.b64encode(b"no colon").decode()):
            options = flight.FlightCallOptions(headers=[(b"authorization", text.encode())])
            with pytest.raises(flight.FlightUnauthenticatedError):
                run(client, "SELECT 1", options)


def test_hidden_missing_and_forbidden_tables_get_one_answer(tenants):
    """SQL-7."""
    answers = set()
    with client_of(tenants) as client:
        for table in ("globex.t", "globex.nope", "nowhere.t"):
            with pytest.raises(flight.FlightUnauthorizedError) as caught:
                run(client, f"SELECT * FROM {table}", as_user(tenants, "alice"))
            answers.add(str(caught.value).replace(table, "TABLE"))
    assert len(answers) == 1, answers


def test_tls_with_the_right_and_the_wrong_authority(tls):
    location = f"grpc+tls://{tls.address}"
    with flight.FlightClient(location, tls_root_certs=tls.ca.read_bytes()) as client:
        got = run(client, "SELECT count(*) AS n FROM acme.t", as_user(tls, "alice"))
        assert got["n"].to_pylist() == [3]
    with flight.FlightClient(location, tls_root_certs=tls.wrong_ca.read_bytes()) as client:
        with pytest.raises(flight.FlightUnavailableError):
            run(client, "SELECT 1", as_user(tls, "alice"))


def test_long_headers_get_a_clear_answer(tenants):
    """F09: what is within the limit passes, what is not is told as such."""
    with client_of(tenants) as client:
        token = token_of(tenants, "alice").encode()
        headers = [(b"authorization", b"Bearer " + token), (b"x-note", b"n" * 4000)]
        assert run(client, "SELECT 1 AS one", flight.FlightCallOptions(headers=headers)).num_rows
        headers[1] = (b"x-note", b"n" * 64_000)
        with pytest.raises((flight.FlightError, pa.ArrowException), match="(?i)metadata|header"):
            run(client, "SELECT 1 AS one", flight.FlightCallOptions(headers=headers))


LONG = """SELECT sum(sqrt(a.i * b.i)) FROM range(10_000_000) AS a(i), range(10_000_000) AS b(i)"""
ENDLESS = "SELECT i, repeat('x', 200) AS x FROM range(5_000_000_000) AS t(i)"
ONE_PLACE = {"LAKE_QUERY_MAX_CONCURRENT_PER_TENANT": 1}


def within(seconds, condition, what):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def is_free(server):
    """Of a server with ONE_PLACE: whether nothing runs there."""
    with client_of(server) as client:
        try:
            return run(client, "SELECT 1 AS one").num_rows == 1
        except (flight.FlightError, pa.ArrowException) as error:
            assert "LAKE_QUERY_MAX_CONCURRENT_PER_TENANT" in str(error), error
            return False


def test_a_deadline_ends_the_statement(fresh):
    server = fresh(ONE_PLACE)
    with client_of(server) as client:
        ticket = client.get_flight_info(statement(LONG)).endpoints[0].ticket
        with pytest.raises(flight.FlightTimedOutError):
            client.do_get(ticket, flight.FlightCallOptions(timeout=0.5)).read_all()
        within(5, lambda: is_free(server), "the place is free")


CANCELLED, NOT_CANCELLABLE = 1, 3


def cancel(client, info, options=None):
    request = flight.Action("CancelFlightInfo", field(1, info.serialize()))
    results = list(client.do_action(request, options))
    return parse(results[0].body.to_pybytes())[1][0]


@pytest.mark.parametrize("sql", [LONG, ENDLESS])
def test_case_F10_cancel_flight_info_ends_the_statement(fresh, sql):
    """F10: for one that computes, and for one that waits for a reader which has stopped."""
    server = fresh(ONE_PLACE)
    with client_of(server) as client, client_of(server) as other:
        info = client.get_flight_info(statement(sql))
        assert cancel(other, info) == NOT_CANCELLABLE
        failure = []

        def read():
            try:
                reader = client.do_get(info.endpoints[0].ticket)
                if sql == ENDLESS:
                    reader.read_chunk()
                    stopped.wait(30)
                while True:
                    reader.read_chunk()
            except (flight.FlightError, pa.ArrowException) as error:
                failure.append(error)

        stopped = threading.Event()
        thread = threading.Thread(target=read)
        thread.start()
        within(10, lambda: not is_free(server), "the statement runs")
        within(5, lambda: cancel(other, info) == CANCELLED, "it is cancelled")
        within(5, lambda: is_free(server), "the place is free")
        stopped.set()
        thread.join(timeout=10)
        assert not thread.is_alive()
        assert isinstance(failure[0], flight.FlightCancelledError), failure


def test_only_its_owner_cancels_a_statement(tenants):
    with client_of(tenants) as client:
        info = client.get_flight_info(statement(ENDLESS), as_user(tenants, "alice"))
        reader = client.do_get(info.endpoints[0].ticket, as_user(tenants, "alice"))
        reader.read_chunk()
        with pytest.raises((flight.FlightError, pa.ArrowException)):
            cancel(client, info, as_user(tenants, "bob"))
        assert reader.read_chunk().data.num_rows > 0
        assert cancel(client, info, as_user(tenants, "alice")) == CANCELLED


READER = """
import sys
import pyarrow.flight as flight
client = flight.FlightClient("grpc://" + sys.argv[1])
descriptor = flight.FlightDescriptor.for_command(bytes.fromhex(sys.argv[2]))
reader = client.do_get(client.get_flight_info(descriptor).endpoints[0].ticket)
print("reading", flush=True)
reader.read_chunk()
sys.stdin.read()
"""


@pytest.mark.parametrize("sql", [LONG, ENDLESS])
def test_case_F10_a_client_that_is_killed_frees_the_engine(fresh, sql):
    """F10, SQL-9: nobody says goodbye, the connection is gone."""
    server = fresh(ONE_PLACE)
    process = subprocess.Popen(
        [sys.executable, "-c", READER, server.address, statement(sql).command.hex()],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"reading\n"
        within(10, lambda: not is_free(server), "the statement runs")
    finally:
        process.kill()
        process.communicate()
    within(5, lambda: is_free(server), "the place is free")


def test_the_servers_time_limit_ends_the_statement(fresh):
    """ADM-3."""
    server = fresh({"LAKE_QUERY_EXECUTION_TIMEOUT_MS": 300})
    with client_of(server) as client:
        with pytest.raises(flight.FlightTimedOutError, match="LAKE_QUERY_EXECUTION_TIMEOUT_MS"):
            run(client, LONG)
        assert run(client, "SELECT 1 AS one").num_rows == 1


# ---- the Go Flight SQL client ---------------------------------------------------------------------------------

GO = SOURCE / ".deps" / "go" / "bin" / "go"
CATALOG_COLUMNS = {
    "catalogs": ["catalog_name"], "schemas": ["catalog_name", "db_schema_name"],
    "types": ["table_type"],
    "tables": ["catalog_name", "db_schema_name", "table_name", "table_type", "table_schema"]}


@pytest.fixture(scope="session")
def go_client(tmp_path_factory):
    """Builds the client; calls it with a server and its arguments: (exit code, its answer)."""
    if not GO.exists():
        pytest.fail("Go and the modules of tests/interop/go_client are missing: "
                    "deps/fetch test brings them")
    program = tmp_path_factory.mktemp("go") / "go_client"
    built = subprocess.run([GO, "build", "-o", program, "."], cwd=SOURCE / "tests/interop/go_client",
                           capture_output=True, text=True)
    assert built.returncode == 0, built.stderr

    def call(server, *arguments, options=()):
        done = subprocess.run([program, *options, server.address, *map(str, arguments)],
                              capture_output=True, text=True, timeout=90)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    return call


def read_stream(path):
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as reader:
        return reader.read_all()


@pytest.mark.parametrize("how", ["query", "prepared"])
def test_go_reads_every_type_exactly(lake, typed, go_client, tmp_path, how):
    out = tmp_path / "out.arrow"
    code, answer = go_client(lake, how, "SELECT * FROM lab.typed ORDER BY id", out)
    assert code == 0, answer
    assert answer["rows"] == ROWS and answer["batches"] > 1
    got = read_stream(out)
    for name in COLUMNS:
        assert_same(flat(got, name), expected(typed, name), name)


def test_go_reads_file_columns_and_empty_results(lake, go_client, tmp_path):
    out = tmp_path / "out.arrow"
    assert go_client(lake, "query", "SELECT video FROM lab.files ORDER BY id", out)[0] == 0
    got = read_stream(out)
    assert got.schema.field("video").metadata == arrow_types.FILE_METADATA
    assert [row and row["sha256"] for row in got["video"].to_pylist()] == [lake.files.sha256, None]
    assert go_client(lake, "query", "SELECT * FROM lab.empty", out)[0] == 0
    assert read_stream(out).schema == pa.schema([("id", pa.int64()), ("note", pa.utf8())])


@pytest.mark.parametrize("sql", [
    "INSERT INTO lab.empty VALUES (1, 'x')", "UPDATE lab.empty SET note = 'x'",
    "DELETE FROM lab.empty", "CREATE TABLE lab.made (id BIGINT)", "DROP TABLE lab.empty",
    "COPY lab.empty TO '/tmp/made.csv'", "ATTACH ':memory:' AS made", "SET threads = 1",
    "PRAGMA database_list"])
def test_go_is_refused_changes_with_the_stable_text(lake, go_client, tmp_path, sql):
    for arguments in (("query", sql, tmp_path / "out"), ("prepared", sql, tmp_path / "out"),
                      ("update", sql)):
        code, answer = go_client(lake, *arguments)
        assert (code, answer["code"]) == (1, "InvalidArgument")
        assert READ_ONLY in answer["message"]


@pytest.mark.parametrize("listing", CATALOG_COLUMNS)
def test_go_lists_the_catalog(lake, go_client, tmp_path, listing):
    out = tmp_path / "out.arrow"
    code, answer = go_client(lake, listing, out)
    assert code == 0, answer
    got = read_stream(out)
    assert got.column_names == CATALOG_COLUMNS[listing]
    if listing == "tables":
        schemas = {row["table_name"]: row["table_schema"] for row in got.to_pylist()}
        assert pa.ipc.read_schema(pa.py_buffer(schemas["typed"])).equals(arrow_types.schema())
    else:
        assert set(map(tuple, (row.values() for row in got.to_pylist()))) == {
            "catalogs": {("lake",)}, "types": {("TABLE",)},
            "schemas": {("lake", "lab"), ("lake", "other")}}[listing]


def test_go_learns_what_the_server_is(lake, go_client, tmp_path):
    out = tmp_path / "out.arrow"
    code, answer = go_client(lake, "info", out)
    assert code == 0, answer
    info = {row["info_name"]: row["value"] for row in read_stream(out).to_pylist()}
    assert info[0] == "Lake"
    # What the JDBC driver reads without looking whether it is there.
    assert set(range(9)) | set(range(500, 577)) <= set(info)


def test_go_with_token_password_and_neither(tenants, go_client, tmp_path):
    out, sql = tmp_path / "out.arrow", "SELECT * FROM acme.t"
    token = token_of(tenants, "alice")
    for options in (["-token", token], ["-user", "alice", "-password", token]):
        code, answer = go_client(tenants, "query", sql, out, options=options)
        assert (code, answer.get("rows")) == (0, 3), answer
    for options in ([], ["-token", "wrong"], ["-user", "alice", "-password", "wrong"]):
        code, answer = go_client(tenants, "query", sql, out, options=options)
        assert (code, answer["code"]) == (1, "Unauthenticated"), answer
        assert "with a token that this server knows" in answer["message"]
    code, answer = go_client(tenants, "query", "SELECT * FROM globex.t", out,
                             options=["-token", token])
    assert (code, answer["code"]) == (1, "PermissionDenied"), answer


def test_go_with_the_right_and_the_wrong_authority(tls, go_client, tmp_path):
    out, token = tmp_path / "out.arrow", ["-token", token_of(tls, "alice")]
    code, answer = go_client(tls, "query", "SELECT * FROM acme.t", out,
                             options=[*token, "-ca", tls.ca])
    assert (code, answer.get("rows")) == (0, 3), answer
    code, answer = go_client(tls, "query", "SELECT * FROM acme.t", out,
                             options=[*token, "-ca", tls.wrong_ca])
    assert code == 1 and "certificate" in answer["message"], answer
