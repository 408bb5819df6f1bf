"""Compaction through Metasrv: killed at every step and at random moments beside appends, and beside
pylance's own writers. The model is what the appenders know; pylance reads the tables."""

import os
import pathlib
import random
import sys
import threading
import time

import lance
import pyarrow as pa
import pyarrow.flight as flight
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import metasrv  # noqa: E402
from test_append_kill9 import Load, make_tables, start  # noqa: E402

FAULT_POINTS = [
    "meta.compact.before_write",
    "lance.compact.after_data",
    "lance.commit.after_transaction",
    "meta.delta.after_write",
    "lance.commit.before_manifest",
    "lance.commit.after_manifest",
]


def compact(client, table):
    """(version, fragments removed, fragments added)"""
    body = metasrv.field(1, metasrv.table_name(table))
    reply = metasrv.parse(metasrv.action(client, "lake.compact_table", body))
    return reply[1][0], reply[2][0], reply[3][0]


def ids_of(data_dir, table, version=None):
    dataset = lance.dataset(metasrv.dataset_path(data_dir, table), version=version)
    dataset.validate()
    return dataset.to_table()["id"].to_pylist()


def has_delta(data_dir, table, version):
    """The one of the operation that the version's transaction names (NAT-12)."""
    dataset = lance.dataset(metasrv.dataset_path(data_dir, table))
    operation_id = dataset.read_transaction(version).transaction_properties["lake.operation_id"]
    return len(list(pathlib.Path(data_dir).rglob(f"{version:020d}-{operation_id}.delta"))) == 1


@pytest.mark.parametrize("point", FAULT_POINTS)
def test_compaction_killed_at_a_fault_point_keeps_every_row(tmp_path, point):
    table = "crash.t"
    server = start(tmp_path)
    with flight.FlightClient(server.location) as client:
        metasrv.create_table(client, table, metasrv.SCHEMA)
        for i in range(6):
            metasrv.append(client, table, metasrv.uuid7(), [metasrv.batch_of([2 * i, 2 * i + 1])])
    assert server.stop() == 0
    server = start(tmp_path, fault=f"{point}:1:kill")
    with flight.FlightClient(server.location) as client:
        with pytest.raises((flight.FlightError, OSError)):
            compact(client, table)
    server.wait_killed()
    assert ids_of(tmp_path, table) == list(range(12))
    published = point == "lance.commit.after_manifest"
    path = metasrv.dataset_path(tmp_path, table)
    assert lance.dataset(path).version == (8 if published else 7)
    server = start(tmp_path)
    with flight.FlightClient(server.location) as client:
        assert compact(client, table) == ((8, 0, 0) if published else (8, 6, 1))
        assert compact(client, table) == (8, 0, 0), "there is nothing left to do"
        version, _, replayed = metasrv.append(client, table, metasrv.uuid7(),
                                              [metasrv.batch_of([12])])
        assert (version, replayed) == (9, False)
    assert has_delta(tmp_path, table, 8)
    assert ids_of(tmp_path, table) == list(range(13))
    assert ids_of(tmp_path, table, version=7) == list(range(12)), "older versions stay"
    assert len(lance.dataset(path).get_fragments()) == 2
    assert server.stop() == 0


class Compactor:
    """Compacts the tables in turn for as long as it is not told to stop."""

    def __init__(self, load, tables):
        self.load = load
        self.tables = tables
        self.done = []
        self.problems = []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        turn = 0
        while not self.stopping.wait(0.02):
            table = self.tables[turn % len(self.tables)]
            turn += 1
            try:
                with flight.FlightClient(self.load.location) as client:
                    version, removed, _ = compact(client, table)
            except (flight.FlightUnavailableError, flight.FlightTimedOutError, OSError):
                continue  # killed
            except flight.FlightError as problem:
                self.problems.append(repr(problem))
                continue
            if removed > 0:
                self.done.append((table, version))

    def finish(self):
        self.stopping.set()
        self.thread.join(timeout=120)
        assert not self.thread.is_alive()


def check(data_dir, load, compactor):
    """Every acknowledged append is its version's only new rows; no other version changes rows."""
    for table, appends in load.acknowledged.items():
        newest = lance.dataset(metasrv.dataset_path(data_dir, table)).version
        assert not set(appends) & {v for t, v in compactor.done if t == table}
        assert all(version <= newest for version in appends)
        expected = sorted(i for ids in appends.values() for i in ids)
        assert sorted(ids_of(data_dir, table)) == expected
        compactions = [v for v in range(2, newest + 1) if v not in appends]
        sample = random.Random(2).sample(compactions, min(4, len(compactions)))
        for version in sample + sorted(appends)[-2:]:
            before = ids_of(data_dir, table, version - 1)
            added = appends.get(version, [])
            assert sorted(ids_of(data_dir, table, version)) == sorted(before + added), version
            assert has_delta(data_dir, table, version), version


def kill_rounds(data_dir, rounds, seed):
    rng = random.Random(seed)
    server = start(data_dir)
    tables = make_tables(server, 0)
    load = Load(tables, seed, server.location)
    compactor = Compactor(load, tables)
    for _ in range(rounds):
        time.sleep(rng.uniform(0.1, 0.4))
        server.kill()
        server = start(data_dir)
        load.serve_at(server.location)
    load.finish()
    compactor.finish()
    check(data_dir, load, compactor)
    with flight.FlightClient(server.location) as client:
        for table in tables:
            metasrv.drop_table(client, table)
    assert server.stop() == 0
    assert compactor.done, "no compaction ended between the kills"


def test_random_kills_of_compactions_beside_appends(tmp_path):
    kill_rounds(tmp_path, 6, seed=int.from_bytes(os.urandom(4), "big"))


@pytest.mark.soak
def test_hundred_kills_of_compactions_beside_appends(tmp_path):
    kill_rounds(tmp_path, 100, seed=int.from_bytes(os.urandom(4), "big"))


def test_compaction_beside_pylance_that_deletes_and_appends(tmp_path):
    """Two writers race: rows deleted in what is being put together stay deleted (L13)."""
    table = "crash.t"
    server = start(tmp_path)
    path = metasrv.dataset_path(tmp_path, table)
    problems = []

    def by_pylance():
        try:
            for i in range(12):
                lance.write_dataset(pa.Table.from_batches([metasrv.batch_of([1000 + i])]), path,
                                    mode="append")
                deadline = time.monotonic() + 60
                while True:
                    try:
                        lance.dataset(path).delete(f"id = {i}")
                        break
                    except OSError:  # its own conflict with a compaction
                        if time.monotonic() > deadline:
                            raise
        except Exception as problem:  # noqa: BLE001: reported below
            problems.append(repr(problem))

    with flight.FlightClient(server.location) as client:
        metasrv.create_table(client, table, metasrv.SCHEMA)
        for i in range(12):
            metasrv.append(client, table, metasrv.uuid7(), [metasrv.batch_of([i, 100 + i])])
        other = threading.Thread(target=by_pylance)
        other.start()
        while other.is_alive():
            try:
                compact(client, table)
            except flight.FlightError as refused:
                assert "ABORTED" in str(refused).upper() or "try again" in str(refused), refused
            time.sleep(0.01)
        other.join()
        assert not problems, problems
        compact(client, table)
    expected = [100 + i for i in range(12)] + [1000 + i for i in range(12)]
    assert sorted(ids_of(tmp_path, table)) == sorted(expected)
    assert server.stop() == 0
