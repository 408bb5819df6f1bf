"""Compaction in the background: Metasrv killed at each of its steps and at random moments while
appends make more to do. The model is what the appenders know; pylance reads the tables."""

import os
import pathlib
import random
import sys
import time

import lance
import pyarrow.flight as flight
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import metasrv  # noqa: E402
from test_append_kill9 import Load, make_tables, start  # noqa: E402
from test_compact_kill9 import has_delta, ids_of  # noqa: E402

FAULT_POINTS = [
    "meta.compact.before_write",
    "lance.compact.after_data",
    "meta.compact.before_publish",
    "meta.compact.after_publish",
]
RUN = 64  # neighbours that become one fragment


def fragments_of(data_dir, table):
    return len(lance.dataset(metasrv.dataset_path(data_dir, table)).get_fragments())


def check(data_dir, load):
    """Every acknowledged append is its version's only new rows; the other versions change none."""
    compactions = 0
    for table, appends in load.acknowledged.items():
        newest = lance.dataset(metasrv.dataset_path(data_dir, table)).version
        assert sorted(ids_of(data_dir, table)) == sorted(i for ids in appends.values() for i in ids)
        others = [v for v in range(2, newest + 1) if v not in appends]
        compactions += len(others)
        for version in others[:2] + others[-2:] + sorted(appends)[-2:]:
            before = ids_of(data_dir, table, version - 1)
            after = ids_of(data_dir, table, version)
            assert sorted(after) == sorted(before + appends.get(version, [])), version
            assert has_delta(data_dir, table, version), version
            if version in others:
                path = metasrv.dataset_path(data_dir, table)
                transaction = lance.dataset(path).read_transaction(version)
                assert type(transaction.operation).__name__ == "Rewrite", transaction
    return compactions


def wait_for_quiet(data_dir, tables, seconds=30):
    """What is due is compacted without another append; some tiers may hold fewer than a run."""
    deadline = time.monotonic() + seconds
    while any(fragments_of(data_dir, table) >= 2 * RUN for table in tables):
        assert time.monotonic() < deadline, [fragments_of(data_dir, table) for table in tables]
        time.sleep(0.05)


@pytest.mark.parametrize("point", FAULT_POINTS)
def test_killed_at_a_fault_point_under_load(tmp_path, point):
    server = start(tmp_path, compaction=True)
    tables = make_tables(server, 0)
    assert server.stop() == 0
    load = None
    for nth in (1, 2):
        server = start(tmp_path, fault=f"{point}:{nth}:kill", compaction=True)
        if load is None:
            load = Load(tables, 11, server.location)
        load.serve_at(server.location)
        server.wait_killed(f"{point} was not passed {nth} times")
    server = start(tmp_path, compaction=True)
    load.serve_at(server.location)
    time.sleep(0.3)
    load.finish()
    wait_for_quiet(tmp_path, tables)
    assert server.stop() == 0
    assert check(tmp_path, load) > 0


def kill_rounds(data_dir, rounds, seed):
    """Each time another process takes the directory over."""
    rng = random.Random(seed)
    server = start(data_dir, compaction=True)
    tables = make_tables(server, 0)
    load = Load(tables, seed, server.location)
    for _ in range(rounds):
        time.sleep(rng.uniform(0.2, 0.6))
        server.kill()
        server = start(data_dir, compaction=True)
        load.serve_at(server.location)
    load.finish()
    wait_for_quiet(data_dir, tables)
    assert server.stop() == 0
    assert check(data_dir, load) > 0


def test_random_kills_beside_appends(tmp_path):
    kill_rounds(tmp_path, 6, seed=int.from_bytes(os.urandom(4), "big"))


@pytest.mark.soak
def test_hundred_random_kills_beside_appends(tmp_path):
    kill_rounds(tmp_path, 100, seed=int.from_bytes(os.urandom(4), "big"))


def test_hundreds_of_appends_leave_few_fragments_and_a_small_manifest(tmp_path):
    table = "crash.t"
    server = start(tmp_path, compaction=True)
    sizes = []
    with flight.FlightClient(server.location) as client:
        metasrv.create_table(client, table, metasrv.SCHEMA)
        for i in range(400):
            metasrv.append(client, table, metasrv.uuid7(), [metasrv.batch_of([i])])
            if i % 50 == 49:
                sizes.append(fragments_of(tmp_path, table))
    assert max(sizes) < 2 * RUN, sizes
    wait_for_quiet(tmp_path, [table])
    assert server.stop() == 0
    assert sorted(ids_of(tmp_path, table)) == list(range(400))


def test_switched_off_each_version_is_an_append(tmp_path):
    table = "crash.t"
    server = start(tmp_path, compaction=False)
    with flight.FlightClient(server.location) as client:
        metasrv.create_table(client, table, metasrv.SCHEMA)
        for i in range(70):
            assert metasrv.append(client, table, metasrv.uuid7(), [metasrv.batch_of([i])])[0] == i + 2
    time.sleep(0.3)
    assert fragments_of(tmp_path, table) == 70
    assert server.stop() == 0


def test_a_compaction_gives_way_to_a_drop(tmp_path):
    """What it was about to publish does not appear in the table that takes the name."""
    table = "crash.t"
    server = start(tmp_path, fault="lance.compact.after_data:1:stop-1500", compaction=True)
    with flight.FlightClient(server.location) as client:
        metasrv.create_table(client, table, metasrv.SCHEMA)
        for i in range(RUN + 1):
            metasrv.append(client, table, metasrv.uuid7(), [metasrv.batch_of([i])])
        metasrv.drop_table(client, table)
        metasrv.create_table(client, table, metasrv.SCHEMA)
        metasrv.append(client, table, metasrv.uuid7(), [metasrv.batch_of([7])])
    assert server.stop() == 0
    assert ids_of(tmp_path, table) == [7]
    assert lance.dataset(metasrv.dataset_path(tmp_path, table)).version == 2
