"""The official ADBC Flight SQL driver against a running Lake (SQL-8)."""

import threading
import time

import adbc_driver_flightsql.dbapi as dbapi
import adbc_driver_manager
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions

import arrow_types
from arrow_types import COLUMNS, ROWS, assert_same, expected, flat
from conftest import token_of

READ_ONLY = ("Lake's SQL is read-only: only SELECT is supported; DDL and DML go through the client "
             "library")
UNKNOWN_TOKEN = "with a token that this server knows"

pytestmark = pytest.mark.filterwarnings("ignore:Cannot disable autocommit")


def connect(server, scheme="grpc", authorization=None, **options):
    if authorization:
        options[DatabaseOptions.AUTHORIZATION_HEADER.value] = authorization
    return dbapi.connect(f"{scheme}://{server.address}", db_kwargs=options, autocommit=True)


@pytest.fixture
def connection(lake):
    with connect(lake) as opened:
        yield opened


@pytest.fixture
def cursor(connection):
    with connection.cursor() as opened:
        yield opened


def fetch(cursor, sql):
    cursor.execute(sql)
    return cursor.fetch_arrow_table()


def refused(cursor, sql, kind=adbc_driver_manager.ProgrammingError):
    with pytest.raises(kind) as caught:
        cursor.execute(sql)
        cursor.fetch_arrow_table()
    return str(caught.value)


# ---- values and types -------------------------------------------------------------------------------


def test_twenty_thousand_rows_of_every_type_are_exact(cursor, typed):
    got = fetch(cursor, 'SELECT * FROM lab.typed ORDER BY id')
    assert got.num_rows == ROWS
    assert len(got["id"].chunks) > 1, "one batch"
    assert got.column_names == ["id", *COLUMNS]
    assert got["id"].to_pylist() == list(range(ROWS))
    for name in COLUMNS:
        assert_same(flat(got, name), expected(typed, name), name)


def test_rows_come_in_the_order_of_the_table(cursor):
    """Nobody promises it, but users of telemetry count on it."""
    assert fetch(cursor, "SELECT id FROM lab.typed")["id"].to_pylist() == list(range(ROWS))


def test_list_items_are_named_as_arrow_names_them(cursor):
    schema = fetch(cursor, "SELECT list, nested, vec, llist FROM lab.typed LIMIT 0").schema
    for field in schema:
        assert field.type.value_field.name == "item", field
    assert schema.field("nested").type.value_type.value_field.name == "item"


@pytest.mark.parametrize("name", COLUMNS)
def test_a_stored_value_finds_its_row(cursor, typed, name):
    """Each column compared with a value of its own, so that filters and scans agree."""
    got = fetch(cursor, f"""SELECT count(*) AS n FROM lab.typed a
                            WHERE a.{name} = (SELECT {name} FROM lab.typed WHERE id = 1)""")
    column = flat(typed, name)
    # By SQL's equality: NaN equals itself and -0.0 equals 0.0; row 1 holds none of these.
    want = sum(1 for value in comparable(column) if value == comparable(column.slice(1, 1))[0])
    assert got["n"].to_pylist() == [want]


def comparable(column):
    kind = column.type
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    return column.to_pylist()


def test_nanoseconds_in_a_zone_compare_as_stored(cursor):
    rows = fetch(cursor, """SELECT count(*) FILTER (tz_ns = ts_ns) AS same,
                                   count(*) FILTER (tz_ns IS NOT NULL AND ts_ns IS NOT NULL) AS both,
                                   count(*) FILTER (tz_ns < '1970-01-01') AS before,
                                   count(*) FILTER (epoch_ns(tz_ns) < 0) AS negative
                            FROM lab.typed WHERE id < 14""").to_pylist()[0]
    assert rows["same"] == rows["both"] == 14
    assert rows["before"] == rows["negative"] == 6


def test_nanoseconds_in_a_zone_keep_it_through_a_query(cursor):
    schema = fetch(cursor, """SELECT max(tz_ns) AS latest, list(tz_ns) AS all_of_them,
                                     any_value({'at': tz_ns}) AS inside, max(tz_ns::TIMESTAMPTZ) AS us
                              FROM (SELECT * FROM lab.typed ORDER BY id LIMIT 5)""").schema
    zoned = pa.timestamp("ns", "UTC")
    assert schema.types == [zoned, pa.list_(zoned), pa.struct([("at", zoned)]),
                            pa.timestamp("us", "UTC")]


@pytest.mark.parametrize("sql, kind, value", [
    ("NULL", pa.int32(), None),
    ("sum(n)", pa.decimal128(38, 0), 3),
    ("count(*)", pa.int64(), 2),
    ("avg(n)", pa.float64(), 1.5),
    ("1.50", pa.decimal128(3, 2), None),
    ("uuid()", pa.utf8(), None),
    ("MAP {'a': 1}", pa.map_(pa.utf8(), pa.int32()), None),
    ("INTERVAL 2 YEAR", pa.month_day_nano_interval(), None),
    ("'a'::ENUM('a', 'b')", pa.dictionary(pa.uint8(), pa.utf8()), None),
    ("[[1], NULL]", pa.list_(pa.list_(pa.int32())), None),
])
def test_computed_values_have_the_documented_types(cursor, sql, kind, value):
    got = fetch(cursor, f"SELECT {sql} AS x FROM (VALUES (1::BIGINT), (2::BIGINT)) AS v(n)")
    assert got.schema.field("x").type == kind
    if value is not None:
        assert got["x"].to_pylist() == [value]


@pytest.mark.parametrize("sql", ["'12:00:00+02'::TIMETZ", "['101'::BIT]"])
def test_types_that_arrow_cannot_hold_are_refused_by_name(cursor, sql):
    message = refused(cursor, f"SELECT {sql} AS clock")
    assert "column clock" in message and "cast it to VARCHAR" in message


def test_durations_finer_than_an_interval_are_refused_not_rounded(fresh, tmp_path):
    from conftest import load
    server = fresh()
    schema = pa.schema([("id", pa.int64()), ("gap", pa.duration("ns")), ("span", pa.duration("us"))])
    rows = pa.table([pa.array([1, 2, 3]), pa.array([1000, 1001, None]).cast(pa.duration("ns")),
                     pa.array([0, None, 2**63 - 1]).cast(pa.duration("us"))], schema=schema)
    load(server, "lab.gaps", rows, ["id:int64", "gap:duration[ns]", "span:duration[us]"], tmp_path)
    with connect(server) as connection, connection.cursor() as cursor:
        assert fetch(cursor, "SELECT gap FROM lab.gaps WHERE id <> 2").num_rows == 2
        message = refused(cursor, "SELECT gap FROM lab.gaps", adbc_driver_manager.Error)
        assert "column gap: the duration of 1001 ns" in message
        assert fetch(cursor, "SELECT span FROM lab.gaps WHERE id < 3").num_rows == 2
        message = refused(cursor, "SELECT span FROM lab.gaps", adbc_driver_manager.Error)
        assert "beyond the 292 years" in message


def test_a_file_column_is_recognised_and_null_stays_null(lake, cursor):
    got = fetch(cursor, "SELECT id, video FROM lab.files ORDER BY id")
    field = got.schema.field("video")
    assert field.type == arrow_types.FILE
    assert field.metadata == arrow_types.FILE_METADATA
    first, second = got["video"].to_pylist()
    assert second is None
    assert first["sha256"] == lake.files.sha256
    assert first["size_bytes"] == lake.files.size_bytes
    assert first["media_type"] == "video/mp4"
    assert first["uri"].startswith("file:///")


# ---- shapes of results --------------------------------------------------------------------------------


@pytest.mark.parametrize("sql", [
    "SELECT * FROM lab.empty",
    "SELECT id, note FROM lab.empty WHERE id > 5",
    "SELECT id, s AS note FROM lab.typed WHERE false",
    "SELECT id, s AS note FROM lab.typed LIMIT 0",
])
def test_an_empty_result_has_its_schema(cursor, sql):
    got = fetch(cursor, sql)
    assert got.num_rows == 0
    assert got.schema.equals(pa.schema([("id", pa.int64()), ("note", pa.utf8())]))


def test_the_schema_is_known_without_running(cursor):
    schema = cursor.adbc_execute_schema("SELECT id, vec FROM lab.typed")
    assert schema == pa.schema([("id", pa.int64()), ("vec", pa.list_(pa.float32(), 8))])


def test_rows_of_eleven_mebibytes_pass_with_the_drivers_default_limit(cursor):
    data = fetch(cursor, "SELECT data FROM lab.big WHERE mib = 11")["data"].to_pylist()[0]
    assert len(data) == 11 << 20 and data.count(b"\x5a") == len(data)


def test_a_row_above_the_drivers_limit_names_the_limit(cursor):
    """F01: the driver takes messages of 16 MiB unless it is told otherwise."""
    message = refused(cursor, "SELECT data FROM lab.big", adbc_driver_manager.Error)
    assert "received message larger than max" in message and "16777216" in message


def test_a_row_above_the_limit_passes_when_the_client_raises_it(lake):
    limit = {DatabaseOptions.WITH_MAX_MSG_SIZE.value: str(64 << 20)}
    with connect(lake, **limit) as connection, connection.cursor() as cursor:
        sizes = [len(row) for row in fetch(cursor, "SELECT data FROM lab.big")["data"].to_pylist()]
    assert sorted(sizes) == [11 << 20, 20 << 20]


def test_partitions_are_read_by_another_connection(lake, cursor):
    partitions, schema = cursor.adbc_execute_partitions("SELECT id FROM lab.typed WHERE id < 10")
    assert schema == pa.schema([("id", pa.int64())])
    ids = []
    with connect(lake) as other, other.cursor() as reader:
        for partition in partitions:
            reader.adbc_read_partition(partition)
            ids += reader.fetch_arrow_table()["id"].to_pylist()
    assert ids == list(range(10))


# ---- what is refused ------------------------------------------------------------------------------------

STATEMENTS = [
    "INSERT INTO lab.empty VALUES (1, 'x')", "INSERT INTO lab.empty SELECT * FROM lab.empty",
    "UPDATE lab.empty SET note = 'x'", "DELETE FROM lab.empty", "TRUNCATE lab.empty",
    "MERGE INTO lab.empty USING lab.empty s ON true WHEN MATCHED THEN DELETE",
    "CREATE TABLE lab.made (id BIGINT)", "CREATE TABLE lab.made AS SELECT 1", "CREATE SCHEMA made",
    "CREATE TEMP TABLE made (id BIGINT)", "CREATE VIEW made AS SELECT 1",
    "CREATE MACRO made() AS 1", "CREATE SECRET (TYPE s3)", "CREATE INDEX i ON lab.empty (id)",
    "CREATE SEQUENCE made", "CREATE TYPE made AS ENUM ('a')",
    "DROP TABLE lab.empty", "DROP SCHEMA lab", "ALTER TABLE lab.empty ADD COLUMN x INTEGER",
    "COMMENT ON TABLE lab.empty IS 'x'",
    "COPY lab.empty TO '/tmp/made.csv'", "COPY (SELECT 1) TO '/tmp/made.csv'",
    "COPY lab.empty FROM '/etc/passwd'", "EXPORT DATABASE '/tmp/made'", "IMPORT DATABASE '/tmp/made'",
    "ATTACH ':memory:' AS made", "DETACH lake", "USE lab", "LOAD httpfs", "INSTALL httpfs",
    "SET threads = 1", "RESET threads", "SET VARIABLE made = 1", "PRAGMA database_list",
    "PRAGMA threads = 1", "CALL pragma_version()", "CHECKPOINT", "VACUUM", "ANALYZE",
    "BEGIN", "COMMIT", "ROLLBACK", "PREPARE made AS SELECT 1", "EXECUTE made", "DEALLOCATE made",
    "EXPLAIN INSERT INTO lab.empty VALUES (1, 'x')",
]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_what_is_not_a_query_is_refused_with_the_stable_text(cursor, sql):
    """SQL-5."""
    assert READ_ONLY in refused(cursor, sql)


def test_bulk_writes_are_refused_with_the_stable_text(cursor):
    rows = pa.table({"id": [1], "note": ["x"]})
    calls = [
        lambda: cursor.executemany("INSERT INTO lab.empty VALUES (?, ?)", [[1, "x"], [2, "y"]]),
        lambda: cursor.adbc_ingest("made", rows),
        lambda: cursor.adbc_ingest("empty", rows, mode="append", db_schema_name="lab"),
        lambda: cursor.adbc_ingest("empty", rows, mode="replace", db_schema_name="lab"),
    ]
    for call in calls:
        with pytest.raises(adbc_driver_manager.ProgrammingError) as caught:
            call()
        assert READ_ONLY in str(caught.value)


def test_refusals_changed_nothing(lake, cursor):
    for sql in STATEMENTS:
        refused(cursor, sql)
    assert fetch(cursor, "SELECT count(*) AS n FROM lab.empty")["n"].to_pylist() == [0]
    assert set(lake.run("table", "list").stdout.split()) == {
        *(f"lab.{name}" for name in LAB), *(f"other.{name}" for name in OTHER)}


@pytest.mark.parametrize("sql, needle", [
    ("SELEC 1", "syntax error"),
    ("SELECT 1; SELECT 2", "one statement at a time"),
    ("-- nothing", "the statement is empty"),
    ("SELECT * FROM typed", "has no namespace: write it as namespace.table"),
    ("SELECT * FROM lab.nope", "there is no table lab.nope"),
    ("SELECT nope FROM lab.empty", "nope"),
    ("SELECT CAST(s AS INTEGER) FROM lab.typed WHERE id = 1", "Could not convert"),
    ("SELECT * FROM read_csv('/etc/passwd')", "read_csv is not available"),
    ("SELECT * FROM '/etc/passwd'", "/etc/passwd"),
    ("SELECT ?", "parameters are not supported"),
    ("SELECT " + "1 + " * 300_000 + "1", "LAKE_QUERY_MAX_SQL_BYTES"),
])
def test_a_bad_statement_says_what_is_wrong(cursor, sql, needle):
    assert needle in refused(cursor, sql)
    assert fetch(cursor, "SELECT 1 AS one")["one"].to_pylist() == [1]


# ---- catalog (F06) --------------------------------------------------------------------------------------


def objects(connection, **arguments):
    """{catalog: {schema: {table: [columns] or None} or None} or None}"""
    def pairs(items, name, inner):
        return None if items is None else {item[name]: inner(item) for item in items}

    def columns(table):
        found = table["table_columns"]
        return None if found is None else [
            (c["column_name"], c["ordinal_position"]) for c in found]

    rows = connection.adbc_get_objects(**arguments).read_all().to_pylist()
    return pairs(rows, "catalog_name", lambda c: pairs(
        c["catalog_db_schemas"], "db_schema_name", lambda s: pairs(
            s["db_schema_tables"], "table_name", columns)))


LAB = {"big", "empty", "files", "typed"}
OTHER = {"t", "a_b", "axb"}


def test_objects_at_every_depth(connection):
    assert objects(connection, depth="catalogs") == {"lake": None}
    assert objects(connection, depth="db_schemas") == {"lake": {"lab": None, "other": None}}
    assert objects(connection, depth="tables") == {
        "lake": {"lab": dict.fromkeys(LAB), "other": dict.fromkeys(OTHER)}}
    everything = objects(connection, depth="all")["lake"]
    assert set(everything["lab"]) == LAB
    assert everything["other"] == dict.fromkeys(OTHER, [("id", 1)])
    assert everything["lab"]["typed"] == [
        (name, position) for position, name in enumerate(["id", *COLUMNS], 1)]


@pytest.mark.parametrize("filters, want", [
    ({"catalog_filter": "lake"}, LAB | OTHER),
    ({"catalog_filter": "la%"}, LAB | OTHER),
    ({"catalog_filter": "nope"}, set()),
    ({"db_schema_filter": "lab"}, LAB),
    ({"db_schema_filter": "%"}, LAB | OTHER),
    ({"db_schema_filter": "othe_"}, OTHER),
    ({"db_schema_filter": "lab\n"}, set()),
    ({"table_name_filter": "t"}, {"t"}),
    ({"table_name_filter": "%t%"}, {"t", "typed", "empty"}),
    ({"table_name_filter": "a_b"}, {"a_b", "axb"}),
    ({"table_name_filter": "a\\_b"}, {"a_b"}),
    ({"table_name_filter": "'; DROP TABLE lab.empty; --"}, set()),
    ({"table_name_filter": "\"%\""}, set()),
    ({"table_types_filter": ["TABLE"]}, LAB | OTHER),
    ({"table_types_filter": ["VIEW"]}, set()),
    ({"db_schema_filter": "lab", "table_name_filter": "%e%"}, {"empty", "files", "typed"}),
])
def test_object_filters_are_exact_patterns(connection, filters, want):
    schemas = objects(connection, depth="tables", **filters).get("lake") or {}
    assert {table for tables in schemas.values() for table in tables or {}} == want


def test_column_filters_choose_columns(connection):
    found = objects(connection, depth="all", db_schema_filter="lab", column_name_filter="ts_%")
    assert [name for name, _ in found["lake"]["lab"]["typed"]] == ["ts_s", "ts_ms", "ts_us", "ts_ns"]


def test_a_statement_as_a_table_pattern_is_no_error(connection):
    """pandas.read_sql asks for a table named like the statement before it runs it."""
    found = objects(connection, depth="all", table_name_filter="SELECT id FROM lab.typed")
    assert found["lake"] == {"lab": {}, "other": {}} or not any(found["lake"].values())


def test_a_tables_schema_is_the_one_it_was_made_with(connection):
    schema = connection.adbc_get_table_schema("typed", db_schema_filter="lab")
    assert schema.equals(arrow_types.schema())
    files = connection.adbc_get_table_schema(
        "files", catalog_filter="lake", db_schema_filter="lab")
    assert files.field("video").metadata == arrow_types.FILE_METADATA
    assert not files.field("id").nullable
    with pytest.raises(adbc_driver_manager.Error):
        connection.adbc_get_table_schema("nope", db_schema_filter="lab")


def test_the_server_introduces_itself(connection):
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "Lake"
    assert info["vendor_version"]
    assert connection.adbc_get_table_types() == ["TABLE"]


# ---- who may (SEC, SQL-7) -------------------------------------------------------------------------------


def count(server, table, **options):
    with connect(server, **options) as connection, connection.cursor() as cursor:
        return fetch(cursor, f"SELECT count(*) AS n FROM {table}")["n"].to_pylist()[0]


def test_a_bearer_token_reads_its_own_namespace(tenants):
    alice, bob = (f"Bearer {token_of(tenants, name)}" for name in ("alice", "bob"))
    assert count(tenants, "acme.t", authorization=alice) == 3
    assert count(tenants, "globex.t", authorization=bob) == 1
    assert count(tenants, "acme.t", authorization=f"bearer {token_of(tenants, 'alice')}") == 3
    root = f"Bearer {token_of(tenants, 'root')}"
    assert count(tenants, "acme.t", authorization=root) == 3
    assert count(tenants, "globex.t", authorization=root) == 1


@pytest.mark.parametrize("authorization", [
    None, "Bearer wrong", "Bearer ", "Token alice", "Bearer alice-token-7d1f0c2b9",
    "Bearer alice-token-7d1f0c2b9ab"])
def test_a_wrong_or_missing_token_is_refused(tenants, authorization):
    with pytest.raises(adbc_driver_manager.ProgrammingError) as caught:
        count(tenants, "acme.t", authorization=authorization)
    assert "UNAUTHENTICATED" in str(caught.value) and UNKNOWN_TOKEN in str(caught.value)
    assert "7d1f0c2b9" not in str(caught.value), "a token in a message"


def test_hidden_missing_and_forbidden_tables_get_one_answer(tenants):
    answers = set()
    options = {"authorization": f"Bearer {token_of(tenants, 'alice')}"}
    for table in ("globex.t", "globex.nope", "nowhere.t", "shared.x"):
        with pytest.raises(adbc_driver_manager.ProgrammingError) as caught:
            count(tenants, table, **options)
        assert "PermissionDenied" in str(caught.value)
        answers.add(str(caught.value).replace(table, "TABLE"))
    assert len(answers) == 1, answers
    # In a namespace of one's own a missing table may be called missing.
    with pytest.raises(adbc_driver_manager.ProgrammingError) as caught:
        count(tenants, "acme.nope", **options)
    assert "NotFound" in str(caught.value)


def test_listings_show_only_what_is_granted(tenants):
    for who, want in (("alice", {"acme": {"t": None}}), ("bob", {"globex": {"t": None}}),
                      ("root", {"acme": {"t": None}, "globex": {"t": None}})):
        with connect(tenants, authorization=f"Bearer {token_of(tenants, who)}") as connection:
            assert objects(connection, depth="tables") == {"lake": want}
    with connect(tenants, authorization=f"Bearer {token_of(tenants, 'alice')}") as connection:
        with pytest.raises(adbc_driver_manager.Error):
            connection.adbc_get_table_schema("t", db_schema_filter="globex")


def test_user_and_password_are_exchanged_for_the_token(tenants):
    """F16: the token is the password; the user's name is the client's own affair."""
    assert count(tenants, "acme.t", username="alice", password=token_of(tenants, "alice")) == 3
    for password in ("wrong", "", token_of(tenants, "alice") + "x"):
        with pytest.raises(adbc_driver_manager.ProgrammingError) as caught:
            count(tenants, "acme.t", username="alice", password=password)
        assert "UNAUTHENTICATED" in str(caught.value)


def test_the_log_holds_no_token(tenants):
    test_a_bearer_token_reads_its_own_namespace(tenants)
    assert "7d1f0c2b9" not in tenants.log_text()


# ---- TLS ---------------------------------------------------------------------------------------------------


def tls_options(server, ca):
    return {"scheme": "grpc+tls", "authorization": f"Bearer {token_of(server, 'alice')}",
            DatabaseOptions.TLS_ROOT_CERTS.value: ca.read_text()}


def test_tls_with_the_right_authority_works(tls):
    assert count(tls, "acme.t", **tls_options(tls, tls.ca)) == 3


def test_tls_checks_tokens_too(tls):
    with pytest.raises(adbc_driver_manager.ProgrammingError) as caught:
        count(tls, "acme.t", **{**tls_options(tls, tls.ca), "authorization": "Bearer wrong"})
    assert "UNAUTHENTICATED" in str(caught.value)


def test_tls_with_another_authority_fails_in_the_client(tls):
    with pytest.raises(adbc_driver_manager.Error) as caught:
        count(tls, "acme.t", **tls_options(tls, tls.wrong_ca))
    assert "certificate" in str(caught.value)


def test_tls_with_another_name_fails_in_the_client(tls):
    options = {**tls_options(tls, tls.ca), DatabaseOptions.TLS_OVERRIDE_HOSTNAME.value: "elsewhere"}
    with pytest.raises(adbc_driver_manager.Error) as caught:
        count(tls, "acme.t", **options)
    assert "elsewhere" in str(caught.value)


def test_plaintext_to_a_tls_port_fails(tls):
    with pytest.raises(adbc_driver_manager.Error):
        count(tls, "acme.t", authorization=f"Bearer {token_of(tls, 'alice')}")


# ---- running --------------------------------------------------------------------------------------------------

# Hours of work, and not a row of result before its end.
LONG = """SELECT sum(sqrt(a.i * b.i)) FROM range(10_000_000) AS a(i), range(10_000_000) AS b(i)"""


def test_cancelling_frees_the_engine(fresh):
    """F10: the one place of the tenant is free again, and the processor is idle."""
    server = fresh({"LAKE_QUERY_MAX_CONCURRENT_PER_TENANT": 1})
    with connect(server) as connection, connection.cursor() as cursor:
        failure = []

        def run():
            try:
                cursor.execute(LONG)
                cursor.fetchall()
            except adbc_driver_manager.Error as error:
                failure.append(error)

        thread = threading.Thread(target=run)
        before = server.cpu_seconds()
        thread.start()
        wait_for(lambda: server.cpu_seconds() > before + 0.2, 30, "the statement runs")
        cursor.adbc_cancel()
        thread.join(timeout=10)
        assert not thread.is_alive() and failure, "the statement goes on"
    # A place is waited for 100 ms; the first tries may come before the engine has stopped.
    wait_for(lambda: is_free(server), 5, "the place is free")
    settled = server.cpu_seconds()
    time.sleep(0.5)
    assert server.cpu_seconds() - settled < 0.25, "the engine still works"


def test_a_client_that_closes_while_it_reads_frees_the_engine(fresh):
    server = fresh({"LAKE_QUERY_MAX_CONCURRENT_PER_TENANT": 1})
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT i, repeat('x', 200) AS x FROM range(50_000_000) AS t(i)")
        assert len(cursor.fetchmany(10)) == 10
    wait_for(lambda: is_free(server), 5, "the place is free")


def is_free(server):
    try:
        with connect(server) as connection, connection.cursor() as cursor:
            return fetch(cursor, "SELECT 1 AS one").num_rows == 1
    except adbc_driver_manager.Error as error:
        assert "ResourceExhausted" in str(error), error
        return False


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def test_a_thousand_statements_leave_nothing_behind(lake, connection):
    def run(count):
        with connection.cursor() as cursor:
            for i in range(count):
                got = fetch(cursor, f"SELECT {i} AS i, count(*) AS n FROM lab.typed WHERE id < {i}")
                assert got.to_pylist() == [{"i": i, "n": i}]

    run(200)
    rss, threads, descriptors = (lake.status("VmRSS"), lake.status("Threads"),
                                 lake.descriptor_count())
    run(1000)
    assert lake.status("Threads") <= threads + 4
    assert lake.descriptor_count() <= descriptors + 8
    allowed_kib = (512 if lake.is_sanitized() else 48) * 1024
    assert lake.status("VmRSS") - rss < allowed_kib


def test_failing_and_empty_statements_in_parallel(lake):
    """Q09: error and empty paths, sixteen hundred of them on eight connections."""
    def work(failures):
        try:
            with connect(lake) as connection, connection.cursor() as cursor:
                for _ in range(100):
                    refused(cursor, "SELECT nope FROM lab.empty")
                    assert fetch(cursor, "SELECT * FROM lab.empty").num_rows == 0
        except BaseException as error:  # told to the test's own thread
            failures.append(error)

    in_threads(8, work)


def test_cursors_in_threads_read_their_own_results(lake):
    def work(failures):
        try:
            with connect(lake) as connection:
                for part in range(4):
                    with connection.cursor() as cursor:
                        got = fetch(cursor, f"SELECT id, s FROM lab.typed WHERE id % 4 = {part}")
                        assert sorted(got["id"].to_pylist()) == list(range(part, ROWS, 4))
        except BaseException as error:
            failures.append(error)

    in_threads(6, work)


def in_threads(count, work):
    failures = []
    threads = [threading.Thread(target=work, args=(failures,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]
