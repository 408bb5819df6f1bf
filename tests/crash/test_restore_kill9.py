"""Metasrv killed with SIGKILL at each step of a restore: it is whole or not there, the same
operation ID makes it happen exactly once, and pylance agrees."""

import json
import pathlib
import sys

import lance
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import metasrv  # noqa: E402
from lake_server import LakeServer  # noqa: E402

POINTS = [
    "meta.restore.before_write",
    "lance.commit.after_transaction",
    "meta.delta.after_write",
    "lance.commit.before_manifest",
    "lance.commit.after_manifest",
    "meta.restore.before_record",
]
PUBLISHED = ("lance.commit.after_manifest", "meta.restore.before_record")


def state(data_dir):
    dataset = lance.dataset(metasrv.dataset_path(data_dir, "crash.rows"))
    return dataset.version, dataset.to_table()["id"].to_pylist()


@pytest.mark.parametrize("point", POINTS)
def test_a_restore_happens_once_wherever_the_server_dies(tmp_path, point):
    data_dir = tmp_path / "data"
    with LakeServer(data_dir) as server:
        server.run("table", "create", "crash.rows", "--column", "id:int64!")
        for i in range(3):
            server.run("put", "--into", "crash.rows", "--set", f"id={i}")
    before = state(data_dir)
    assert before == (4, [0, 1, 2])
    arguments = ["table", "restore", "crash.rows", "3", "--operation-id", metasrv.uuid7()]
    dying = LakeServer(data_dir, env={"LAKE_FAULT": f"{point}:1:kill"})
    assert dying.run(*arguments, check=False).returncode != 0
    assert dying.stop() == -9
    assert state(data_dir) == ((5, [0, 1]) if point in PUBLISHED else before)
    with LakeServer(data_dir) as server:
        said = json.loads(server.run(*arguments, "--json").stdout)
        assert said["replayed"] == (point in PUBLISHED)
        assert (said["version"], said["rows"]) == (5, 2)
        assert json.loads(server.run(*arguments, "--json").stdout)["replayed"]
        assert state(data_dir) == (5, [0, 1])
        deltas = list((data_dir / "reference-deltas").glob(f"*/{5:020d}-*.delta"))
        assert len(deltas) == 1
