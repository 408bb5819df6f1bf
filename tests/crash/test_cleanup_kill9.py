"""Clean-up through Metasrv killed at each of its steps: the table is whole at once, and the next
clean-up ends what was begun (L06). pylance reads the table; the file system says what is left."""

import pathlib
import re
import sys

import lance
import pyarrow.flight as flight
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import metasrv  # noqa: E402
from test_compact_kill9 import compact, ids_of  # noqa: E402

FAULT_POINTS = [
    ("meta.cleanup.before_remove", 1),
    ("lance.cleanup.after_hint", 1),
    ("lance.cleanup.after_manifest", 1),
    ("lance.cleanup.after_manifest", 4),
    ("lance.cleanup.after_file", 1),
    ("lance.cleanup.after_file", 5),
]
TABLE = "crash.t"
KEPT = 2


def start(data_dir, fault=None):
    server = metasrv.Metasrv(data_dir, fault=fault, env={
        "LAKE_COMPACTION": "false", "LAKE_LANCE_RETAIN_VERSIONS": str(KEPT)})
    assert server.port is not None
    return server


def cleanup(client):
    """(versions kept, versions removed, files removed)"""
    body = metasrv.field(1, metasrv.table_name(TABLE)) + metasrv.field(2, 0)
    reply = metasrv.parse(metasrv.action(client, "lake.cleanup_table", body))
    return tuple(reply[i][0] for i in (1, 2, 3))


def deltas(data_dir):
    """(version, operation ID) of each."""
    pattern = re.compile(r"(\d{20})-(.*)\.delta")
    matches = [pattern.fullmatch(p.name) for p in pathlib.Path(data_dir).rglob("*.delta")]
    return {(int(m[1]), m[2]) for m in matches}


def make(data_dir):
    """Six appends and a compaction; (operations by version, of those that were killed)."""
    operations, dead = {}, set()
    server = start(data_dir)
    with flight.FlightClient(server.location) as client:
        metasrv.create_table(client, TABLE, metasrv.SCHEMA)
    assert server.stop() == 0
    for i in range(6):
        if i in (2, 4):  # another operation gets as far as its delta, for the same version
            server = start(data_dir, fault="lance.commit.before_manifest:1:kill")
            killed = metasrv.uuid7()
            with flight.FlightClient(server.location) as client:
                with pytest.raises((flight.FlightError, OSError, RuntimeError)):
                    metasrv.append(client, TABLE, killed, [metasrv.batch_of([100 + i])])
            server.wait_killed()
            dead.add((i + 2, killed))
        server = start(data_dir)
        with flight.FlightClient(server.location) as client:
            operation_id = metasrv.uuid7()
            version = metasrv.append(client, TABLE, operation_id, [metasrv.batch_of([i])])[0]
            operations[version] = (operation_id, [i])
        assert server.stop() == 0
    server = start(data_dir)
    with flight.FlightClient(server.location) as client:
        assert compact(client, TABLE) == (8, 6, 1)
    assert server.stop() == 0
    return operations, dead


@pytest.mark.parametrize("point,nth", FAULT_POINTS)
def test_killed_at_a_fault_point_the_next_one_ends_it(tmp_path, point, nth):
    operations, dead = make(tmp_path)
    before = deltas(tmp_path)
    assert dead < before
    server = start(tmp_path, fault=f"{point}:{nth}:kill")
    with flight.FlightClient(server.location) as client:
        with pytest.raises((flight.FlightError, OSError)):
            cleanup(client)
    server.wait_killed()
    assert ids_of(tmp_path, TABLE) == list(range(6))
    assert ids_of(tmp_path, TABLE, version=7) == list(range(6)), "one of those that stay"
    server = start(tmp_path)
    with flight.FlightClient(server.location) as client:
        kept, _, _ = cleanup(client)
        assert kept == KEPT
        assert cleanup(client)[1:] == (0, 0)
        for version, (operation_id, ids) in operations.items():
            again = metasrv.append(client, TABLE, operation_id, [metasrv.batch_of(ids)])
            assert again == (version, len(ids), True), "operations of versions that went are known"
        assert metasrv.append(client, TABLE, metasrv.uuid7(), [metasrv.batch_of([6])])[0] == 9
    assert server.stop() == 0
    path = metasrv.dataset_path(tmp_path, TABLE)
    assert [v["version"] for v in lance.dataset(path).versions()] == [7, 8, 9]
    assert sorted(ids_of(tmp_path, TABLE)) == list(range(7))
    left = deltas(tmp_path)
    assert not left & dead, "of versions that went only deltas that count are left"
    assert before - dead <= left, "and all of these"
