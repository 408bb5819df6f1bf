"""Metasrv killed with SIGKILL under concurrent appends, against an oracle that knows what was
acknowledged: each acknowledged row is there exactly once, whatever pylance reads (cases L21, M04).

LAKE_CRASH_ROUNDS sets the rounds of random kills: 15 in the suite, 1,000 by `make soak`.
"""

import os
import pathlib
import random
import sys
import threading
import time

import lance
import pyarrow.flight as flight
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import metasrv  # noqa: E402

APPENDERS = 6
ROUNDS_PER_TABLE = 25  # then the tables are checked, dropped and made anew

FAULT_POINTS = [
    "meta.append.received",
    "meta.append.before_write",
    "lance.append.after_data",
    "lance.commit.after_transaction",
    "meta.delta.after_write",
    "lance.commit.before_manifest",
    "lance.commit.after_manifest",
    "meta.append.before_record",
    "meta.append.after_record",
    "meta.append.before_reply",
]


class Load:
    """Appenders that never give up, and what they know."""

    def __init__(self, tables, seed, location):
        self.tables = tables
        self.seed = seed
        self.location = location
        self.changed = threading.Condition()
        self.stopping = False
        self.acknowledged = {table: {} for table in tables}  # version -> ids
        self.retried = 0
        self.problems = []
        self.lock = threading.Lock()
        self.next_id = 0
        self.threads = [
            threading.Thread(target=self.run, args=(n,), daemon=True) for n in range(APPENDERS)
        ]
        for thread in self.threads:
            thread.start()

    def serve_at(self, location):
        with self.changed:
            self.location = location
            self.changed.notify_all()

    def take_ids(self, count):
        with self.lock:
            first = self.next_id
            self.next_id += count
        return list(range(first, first + count))

    def run(self, number):
        rng = random.Random(self.seed * 1000 + number)
        try:
            while not self.stopping:
                self.append_until_acknowledged(rng)
        except Exception as problem:  # noqa: BLE001: reported by finish()
            self.problems.append(repr(problem))

    def append_until_acknowledged(self, rng):
        table = rng.choice(self.tables)
        ids = self.take_ids(rng.randint(1, 20))
        operation_id = metasrv.uuid7()
        batches = [metasrv.batch_of(ids)]
        deadline = time.monotonic() + 120
        while True:
            location = self.location
            try:
                with flight.FlightClient(location) as client:
                    version, rows, replayed = metasrv.append(client, table, operation_id, batches)
                break
            except flight.FlightUnavailableError:
                pass  # dead, or died while it worked: the outcome is unknown
            except (flight.FlightError, OSError, RuntimeError) as problem:
                # A broken connection shows in more ways than one; a refusal never goes away.
                if time.monotonic() > deadline:
                    raise AssertionError(f"not acknowledged in 120 s: {problem}") from problem
            with self.lock:
                self.retried += 1
            with self.changed:
                self.changed.wait_for(lambda: self.location != location, timeout=0.05)
        assert rows == len(ids), (rows, len(ids), replayed)
        with self.lock:
            versions = self.acknowledged[table]
            assert version not in versions, f"version {version} was given to two operations"
            versions[version] = ids

    def finish(self):
        self.stopping = True
        for thread in self.threads:
            thread.join(timeout=180)
            assert not thread.is_alive()
        assert not self.problems, self.problems


def check(data_dir, load):
    """pylance, not Lake, reads the tables."""
    for table, versions in load.acknowledged.items():
        expected = sorted(i for ids in versions.values() for i in ids)
        dataset = lance.dataset(metasrv.dataset_path(data_dir, table))
        rows = dataset.to_table()
        assert dataset.count_rows() == len(expected)
        assert sorted(rows["id"].to_pylist()) == expected
        assert all(f"row {r['id']}" == r["note"] for r in rows.slice(0, 200).to_pylist())
        # Every version but the first is one acknowledged operation: nothing is half visible.
        assert dataset.version == len(versions) + 1
        assert sorted(versions) == list(range(2, dataset.version + 1))
        for version in random.Random(1).sample(sorted(versions), min(3, len(versions))):
            before = lance.dataset(dataset.uri, version=version - 1).to_table()["id"].to_pylist()
            after = lance.dataset(dataset.uri, version=version).to_table()["id"].to_pylist()
            assert sorted(after) == sorted(before + versions[version])


def start(data_dir, fault=None, compaction=False):
    """Without compaction in the background each version is an operation's."""
    env = {"LAKE_COMPACTION": str(compaction).lower()}
    server = metasrv.Metasrv(data_dir, fault=fault, env=env)
    assert server.port is not None, "Metasrv did not open its data directory"
    return server


def make_tables(server, generation):
    tables = [f"crash.a{generation}", f"crash.b{generation}"]
    with flight.FlightClient(server.location) as client:
        for table in tables:
            metasrv.create_table(client, table, metasrv.SCHEMA)
    return tables


def kill_rounds(data_dir, rounds, seed):
    rng = random.Random(seed)
    acknowledged = 0
    for generation in range(0, rounds, ROUNDS_PER_TABLE):
        server = start(data_dir)
        tables = make_tables(server, generation)
        load = Load(tables, seed + generation, server.location)
        for _ in range(min(ROUNDS_PER_TABLE, rounds - generation)):
            time.sleep(rng.uniform(0.02, 0.3))
            server.kill()
            server = start(data_dir)
            load.serve_at(server.location)
        load.finish()
        check(data_dir, load)
        acknowledged += sum(len(v) for v in load.acknowledged.values())
        with flight.FlightClient(server.location) as client:
            for table in tables:
                metasrv.drop_table(client, table)
        assert server.stop() == 0
    return acknowledged


def test_case_M04_random_kills_lose_no_acknowledged_row_and_add_none_twice(tmp_path):
    rounds = int(os.environ.get("LAKE_CRASH_ROUNDS", "15"))
    assert kill_rounds(tmp_path, rounds, seed=int.from_bytes(os.urandom(4), "big")) > rounds


@pytest.mark.soak
def test_thousand_kills(tmp_path):
    rounds = int(os.environ.get("LAKE_CRASH_ROUNDS", "1000"))
    assert kill_rounds(tmp_path, rounds, seed=int.from_bytes(os.urandom(4), "big")) > rounds


@pytest.mark.parametrize("point", FAULT_POINTS)
def test_case_L21_kill_at_fault_point_under_load(tmp_path, point):
    server = start(tmp_path)
    load_tables = make_tables(server, 0)
    assert server.stop() == 0
    load = None
    for nth in (1, 4, 9):
        server = start(tmp_path, fault=f"{point}:{nth}:kill")
        if load is None:
            load = Load(load_tables, 7, server.location)
        load.serve_at(server.location)
        server.wait_killed(f"{point} was not passed {nth} times")
    server = start(tmp_path)
    load.serve_at(server.location)
    load.finish()
    check(tmp_path, load)
    assert load.retried > 0
    assert server.stop() == 0


def test_second_metasrv_on_one_directory_is_refused_in_one_sentence(tmp_path):
    first = start(tmp_path)
    log = tmp_path / "second.log"
    with open(log, "wb") as out:
        second = metasrv.Metasrv(tmp_path, log=out)
        assert second.process.wait(timeout=30) == 1
        second.process.stdout.close()
    assert second.port is None
    assert "is in use by another process" in log.read_text()
    with flight.FlightClient(first.location) as client:
        metasrv.create_table(client, "crash.a", metasrv.SCHEMA)
    assert first.stop() == 0
