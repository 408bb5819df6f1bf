"""What scans, takes and changes of a table hold in memory: the same for a table eight times as large.
The larger one is made of fragments that share the data file of the smaller."""

import random

import lance
import numpy
import pyarrow as pa
import pytest
from test_lance_many_fragments import LAKE, add_fragments, numbers_in
from test_lance_operations import CHANGE_TOOL
from test_lance_tables import TOOL
from lake_server import LakeServer
from measured import run_measured

TIMES = 8
GROWTH = 16  # MiB between the two tables, whose rows are of 67 and 536 MB or more

# MiB of a whole process at most, with its executable and libraries.
LIMITS = {"scan": 64, "take": 96, "delete": 32, "update": 128, "compact": 128, "cleanup": 32}


def write_wide_rows(path, rows):
    """268 bytes a row, which do not compress."""
    random_ = numpy.random.default_rng(7)
    columns = {"id": pa.array(numpy.arange(rows))}
    for i in range(12):
        columns[f"f{i}"] = pa.array(random_.random(rows))
    poses = pa.array(random_.random(32 * rows, numpy.float32))
    columns["pose"] = pa.FixedSizeListArray.from_arrays(poses, 32)
    columns["text"] = pa.array(numpy.char.mod("%032d", random_.integers(0, 1 << 62, rows)))
    table = pa.table(columns)
    source = path.parent / "rows.arrow"
    with pa.OSFile(str(source), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=65536)
    done, peak = run_measured(TOOL, "write", path, source)
    assert done.returncode == 0, done.stderr.decode()
    source.unlink()
    return peak


def peaks(path, rows, times):
    """The peak of each operation on a table of `times` fragments with ids from 0 to `rows`."""
    found = {}

    def run(name, *command):
        done, found[name] = run_measured(*command)
        assert done.returncode == 0, done.stderr.decode()
        return numbers_in(done.stdout.decode()) if name != "take" else done.stdout

    assert run("scan", TOOL, "drain", path) == [rows * times]
    offsets = [random.Random(5).randrange(rows * times) for _ in range(10000)]
    taken = run("take", LAKE, "lance", "take", path, "--rows", ",".join(map(str, offsets)), "--format", "arrow")
    with pa.ipc.open_stream(taken) as reader:
        assert reader.read_all()["id"].to_pylist() == [offset % rows for offset in offsets]
    part = rows // 5
    assert run("delete", CHANGE_TOOL, "delete", path, "--where", "id", "<", part)[1] == part * times
    assert run("update", CHANGE_TOOL, "update", path, "id", -1, "--where", "id", ">=", rows // 2)[1] == rows // 2 * times
    compacted = run("compact", CHANGE_TOOL, "compact", path)
    assert compacted[4] == (part + rows // 2) * times  # rows dropped
    assert run("cleanup", CHANGE_TOOL, "cleanup", path, 0, 0)[0] == 1
    dataset = lance.dataset(str(path))
    dataset.validate()
    assert dataset.count_rows() == (rows - part) * times
    assert dataset.count_rows("id = -1") == rows // 2 * times
    return found


@pytest.mark.parametrize("rows", [250_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_memory_does_not_grow_with_the_table(tmp_path, rows):
    found = {}
    for times in (1, TIMES):
        path = tmp_path / f"{times}.lance"
        write_wide_rows(path, rows)
        if times > 1:
            add_fragments(path, times - 1, False)
        found[times] = peaks(path, rows, times)
    print({name: [round(found[times][name]) for times in (1, TIMES)] for name in LIMITS})
    if LakeServer.is_sanitized():
        return
    for name, limit in LIMITS.items():
        assert found[TIMES][name] < found[1][name] + GROWTH, (name, found)
        assert found[TIMES][name] < limit, (name, found)
