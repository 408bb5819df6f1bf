"""Metasrv killed with SIGKILL at each step of a delete and of an update: the change is whole or not
there, the same operation ID makes it happen exactly once, and pylance agrees."""

import json
import pathlib
import sys

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import metasrv  # noqa: E402
from lake_server import LakeServer  # noqa: E402

SHARED = [
    "meta.change.before_write",
    "lance.commit.after_transaction",
    "meta.delta.after_write",
    "lance.commit.before_manifest",
    "lance.commit.after_manifest",
    "meta.change.before_record",
]
STEPS = ([("delete", point) for point in [*SHARED, "lance.delete.after_vectors"]]
         + [("update", point) for point in [*SHARED, "lance.update.after_data"]])
PUBLISHED = ("lance.commit.after_manifest", "meta.change.before_record")


def state(data_dir):
    dataset = lance.dataset(str(data_dir / "tables" / "crash" / "rows.lance"))
    return dataset.version, sorted(
        zip(dataset.to_table()["id"].to_pylist(), dataset.to_table()["n"].to_pylist()))


@pytest.mark.parametrize("verb,point", STEPS)
def test_a_change_happens_once_wherever_the_server_dies(tmp_path, verb, point):
    data_dir = tmp_path / "data"
    rows = pa.table({"id": pa.array(range(1000), pa.int64()), "n": pa.array([0] * 1000, pa.int64())})
    pq.write_table(rows, tmp_path / "rows.parquet")
    with LakeServer(data_dir) as server:
        server.run("import", "crash.rows", tmp_path / "rows.parquet", "--create")
    before = state(data_dir)
    operation = metasrv.uuid7()
    arguments = ["table", verb, "crash.rows", "--where", "id % 3 = 0", "--operation-id", operation]
    changed = [(i, 0) for i in range(1000) if i % 3 != 0]
    if verb == "update":
        arguments += ["--set", "n=n + 1"]
        changed = sorted(changed + [(i, 1) for i in range(0, 1000, 3)])

    dying = LakeServer(data_dir, env={"LAKE_FAULT": f"{point}:1:kill"})
    assert dying.run(*arguments, check=False).returncode != 0
    assert dying.stop() == -9
    found = state(data_dir)
    assert found == ((before[0] + 1, changed) if point in PUBLISHED else before)

    with LakeServer(data_dir) as server:
        said = json.loads(server.run(*arguments, "--json").stdout)
        assert said["replayed"] == (point in PUBLISHED)
        assert state(data_dir) == (before[0] + 1, changed) and said["version"] == before[0] + 1
        again = json.loads(server.run(*arguments, "--json").stdout)
        assert again["replayed"] and state(data_dir) == (before[0] + 1, changed)
        deltas = list((data_dir / "reference-deltas").glob(f"*/{before[0] + 1:020d}-*.delta"))
        assert len(deltas) == 1
