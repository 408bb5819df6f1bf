"""Lance tables against pylance, the reference: versions, commits, deletions, schema changes, races.

Every dataset that Lake writes is opened by pylance and compared; pylance then changes it, and Lake
reads what came of it, at every version.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

BUILD = pathlib.Path(os.environ.get("LAKE_BUILD_DIR", "build/release"))
TOOL = BUILD / "tests" / "lance_tool"
VERSIONS = ["2.1", "2.2"]


def run_tool(*arguments, env=None):
    return subprocess.run(
        [TOOL, *map(str, arguments)], capture_output=True, timeout=120, env={**os.environ, **(env or {})}
    )


def write_input(table, directory, name="input"):
    source = directory / f"{name}.arrow"
    with pa.OSFile(str(source), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return source


def lake_write(table, path, storage="2.2", append=False, env=None):
    done = run_tool(
        "write",
        path,
        write_input(table, path.parent),
        "--storage",
        storage,
        *(["--append"] if append else []),
        env=env,
    )
    assert done.returncode == 0, done.stderr.decode()
    return int(done.stdout.split()[-1])


def lake_read(path, version=None):
    done = run_tool("cat", path, *(["--version", version] if version else []))
    assert done.returncode == 0, done.stderr.decode()
    return pa.ipc.open_stream(done.stdout).read_all()


def assert_agree(path, version=None):
    """Lake and pylance see the same schema and rows; returns them."""
    dataset = lance.dataset(str(path), version=version)
    dataset.validate()
    theirs = dataset.to_table()
    ours = lake_read(path, version)
    assert ours.schema.equals(theirs.schema, check_metadata=False)
    assert ours.to_pylist() == theirs.to_pylist()
    return ours


def sample(start, rows):
    numbers = range(start, start + rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "x": pa.array([n / 3 if n % 5 else None for n in numbers], pa.float64()),
            "name": pa.array([f"row {n % 17}" if n % 7 else None for n in numbers], pa.string()),
            "tags": pa.array(
                [["a", None, str(n)][: n % 4] if n % 11 else None for n in numbers],
                pa.list_(pa.string()),
            ),
            "pose": pa.array([[n, n + 1, n + 2] for n in numbers], pa.list_(pa.float32(), 3)),
            "s": pa.array(
                [{"a": n, "b": None if n % 2 else "b"} if n % 3 else None for n in numbers],
                pa.struct([("a", pa.int32()), ("b", pa.string())]),
            ),
        }
    )


@pytest.fixture(params=VERSIONS)
def storage(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.lance"


# ---- what Lake writes ---------------------------------------------------------------------------


def test_every_version_that_lake_wrote_reads_the_same_in_pylance(path, storage):
    parts = [sample(0, 100), sample(100, 1), sample(101, 5000)]
    assert lake_write(parts[0], path, storage) == 1
    for number, part in enumerate(parts[1:], start=2):
        assert lake_write(part, path, storage, append=True) == number
    dataset = lance.dataset(str(path))
    assert dataset.version == 3
    assert [entry["version"] for entry in dataset.versions()] == [1, 2, 3]
    assert dataset.data_storage_version == storage
    for version in (1, 2, 3):
        assert assert_agree(path, version).to_pylist() == pa.concat_tables(parts[:version]).to_pylist()
    assert dataset.count_rows() == 5101
    assert [fragment.fragment_id for fragment in dataset.get_fragments()] == [0, 1, 2]
    dataset.validate()


def test_the_transaction_of_a_version_is_readable(path):
    lake_write(sample(0, 10), path)
    lake_write(sample(10, 10), path, append=True)
    dataset = lance.dataset(str(path))
    first, second = dataset.read_transaction(1), dataset.read_transaction(2)
    assert type(first.operation).__name__ == "Overwrite"
    assert type(second.operation).__name__ == "Append"
    assert second.read_version == 1
    assert (path / "_transactions" / f"1-{second.uuid}.txn").exists()


def test_extension_and_schema_metadata_travel_through_both(path):
    """NAT-3: a FILE column is known by its field metadata."""
    uri = pa.field("uri", pa.string(), nullable=False)
    fields = [
        uri,
        pa.field("media_type", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("sha256", pa.string(), nullable=False),
    ]
    metadata = {"ARROW:extension:name": "lake.file", "ARROW:extension:metadata": '{"version":1}'}
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("video", pa.struct(fields), metadata=metadata)],
        metadata={"robot": "fetch"},
    )
    value = {"uri": "lake://x", "media_type": "video/mp4", "size_bytes": 3, "sha256": "0" * 64}
    table = pa.table([pa.array([1, 2]), pa.array([value, None], pa.struct(fields))], schema=schema)
    lake_write(table, path)
    theirs = lance.dataset(str(path)).schema
    assert theirs.metadata == {b"robot": b"fetch"}
    assert theirs.field("video").metadata == {k.encode(): v.encode() for k, v in metadata.items()}
    assert not theirs.field("id").nullable and theirs.field("video").nullable
    assert theirs.field("video").type == pa.struct(fields)
    ours = lake_read(path)
    assert ours.schema.equals(schema) and ours.to_pylist() == table.to_pylist()
    lance.write_dataset(table, str(path), mode="append", schema=schema)
    assert lake_read(path).schema.field("video").metadata == theirs.field("video").metadata
    lake_write(table, path, append=True)
    assert assert_agree(path).num_rows == 6


def test_an_empty_table_is_a_table(path, storage):
    lake_write(sample(0, 0), path, storage)
    dataset = lance.dataset(str(path))
    assert dataset.count_rows() == 0 and dataset.schema.equals(sample(0, 0).schema)
    lance.write_dataset(sample(0, 3), str(path), mode="append")
    assert assert_agree(path).num_rows == 3


def test_a_table_is_not_created_over_another(path):
    lake_write(sample(0, 3), path)
    done = run_tool("write", path, write_input(sample(0, 3), path.parent))
    assert done.returncode == 1 and b"ALREADY_EXISTS" in done.stderr
    assert lance.dataset(str(path)).version == 1


def test_an_append_of_another_schema_is_refused(path):
    lake_write(sample(0, 3), path)
    for other in (sample(0, 3).drop_columns(["x"]), sample(0, 3).rename_columns(list("abcdef"))):
        done = run_tool("write", path, write_input(other, path.parent), "--append")
        assert done.returncode == 1 and b"INVALID_ARGUMENT" in done.stderr
    assert lance.dataset(str(path)).version == 1


# ---- what pylance makes of it -------------------------------------------------------------------


def test_lake_reads_what_pylance_changes_and_appends_on_top(path, storage):
    lake_write(sample(0, 300), path, storage)
    lake_write(sample(300, 300), path, storage, append=True)
    uri = str(path)

    def step(change):
        change(lance.dataset(uri))
        assert_agree(path)

    step(lambda d: d.delete("id % 10 = 3"))
    step(lambda d: d.delete("id < 50"))
    step(lambda d: d.update({"x": "1.5"}, where="id > 500"))
    step(lambda d: lance.write_dataset(sample(600, 100), uri, mode="append"))
    lake_write(sample(700, 100), path, storage, append=True)
    assert_agree(path)
    step(lambda d: d.create_scalar_index("id", "BTREE"))
    lake_write(sample(800, 100), path, storage, append=True)
    assert_agree(path)
    dataset = lance.dataset(uri)
    assert len(dataset.describe_indices() if hasattr(dataset, "describe_indices") else dataset.list_indices()) == 1
    assert dataset.to_table(filter="id = 850").num_rows == 1
    step(lambda d: d.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(sample(790, 120)))
    step(lambda d: d.optimize.compact_files())
    lake_write(sample(910, 10), path, storage, append=True)
    step(lambda d: d.add_columns({"y": "id * 2"}))
    step(lambda d: d.alter_columns({"path": "name", "name": "label"}))
    step(lambda d: d.drop_columns(["tags"]))
    step(lambda d: d.tags.create("keep", d.version))
    step(lambda d: d.restore() if d.version == 1 else lance.dataset(uri, version=3).restore())
    lake_write(sample(1000, 10), path, storage, append=True)
    assert_agree(path)
    for entry in lance.dataset(uri).versions():
        assert_agree(path, entry["version"])
    assert lance.dataset(uri, version="keep").version == lance.dataset(uri).tags.list()["keep"]["version"]


def test_case_L17_a_struct_column_added_later_is_null_where_it_was_not(path, storage):
    lake_write(sample(0, 20).select(["id"]), path, storage)
    kind = pa.struct([("a", pa.int32()), ("b", pa.string())])
    lance.dataset(str(path)).add_columns(pa.field("s", kind))
    more = pa.table(
        {"id": pa.array([20, 21, 22]), "s": pa.array([None, {"a": None, "b": None}, {"a": 1, "b": "x"}], kind)}
    )
    lake_write(more, path, storage, append=True)
    values = assert_agree(path)["s"].to_pylist()
    assert values == [None] * 21 + [{"a": None, "b": None}, {"a": 1, "b": "x"}]


def test_many_deleted_rows_come_as_a_bitmap_and_are_read(path, storage):
    lake_write(sample(0, 40000), path, storage)
    dataset = lance.dataset(str(path))
    for predicate in ("id % 3 = 0", "id > 10000 and id < 30000", "id = 39999", "id = 0"):
        dataset.delete(predicate)
        assert_agree(path)
    assert list((path / "_deletions").glob("*.bin")) and list((path / "_deletions").glob("*"))


@pytest.mark.parametrize("storage", ["2.0", "2.1", "2.2"])
def test_few_survivors_are_read_without_the_rows_between(path, storage):
    """Of each column the rows between survivors are read or left out, as their size has it."""
    rows, rng = 5_000, random.Random(storage)
    step = [rng.randrange(1000) for _ in range(rows)]
    table = pa.table({
        "step": pa.array(step, pa.int32()),
        "image": pa.array([rng.randbytes(rng.randrange(1500)) if n % 9 else None for n in step]),
        "text": pa.array([f"step {n} " * 60 if n % 7 else "" for n in step]),
        "word": pa.array([["up", "down", None][n % 3] for n in step]),
        "pose": pa.array([[n / 8] * 100 for n in step], pa.list_(pa.float32(), 100)),
        "points": pa.array([[n] * (n % 90) if n % 8 else None for n in step]),
        "names": pa.array([[f"joint {n}"] * (n % 4) for n in step]),
        "state": pa.array([{"a": n, "b": [str(n)] * (n % 3)} if n % 5 or storage == "2.0" else None
                           for n in step]),
    })
    blob = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    if storage != "2.2":
        table = table.append_column(
            blob, [pa.array([f"blob {n}".encode() for n in step], pa.large_binary())])
    lance.write_dataset(table, str(path), data_storage_version=storage, max_rows_per_file=4000)
    for deleted in (-1, 3):
        if deleted >= 0:
            lance.dataset(str(path)).delete(f"step % 10 = {deleted} or step = {deleted}")
            table = table.filter(pa.array([n % 10 != deleted and n != deleted for n in step]))
            step = table["step"].to_pylist()
        for limit in (1, 8, 200, 990):
            out = path.parent / "out.arrow"
            subprocess.run([BUILD / "lake", "lance", "cat", path, "--filter", f"step < {limit}",
                            "--format", "arrow", "-o", out], check=True, capture_output=True)
            with pa.ipc.open_stream(str(out)) as reader:
                found = reader.read_all()
            wanted = table.filter(pc.less(table["step"], limit))
            assert found.num_rows == wanted.num_rows > 0
            for name in wanted.column_names:
                assert found[name].to_pylist() == wanted[name].to_pylist(), (name, limit, deleted)


def test_clean_up_around_a_tag_does_not_hide_the_newest_version(path):
    """L12: 1 is tagged, those after it go, the newest stays the newest for reader and writer."""
    import datetime

    lake_write(sample(0, 10), path)
    dataset = lance.dataset(str(path))
    dataset.tags.create("first", 1)
    for i in range(5):
        lance.write_dataset(sample(10 + i, 1), str(path), mode="append")
    lance.dataset(str(path)).cleanup_old_versions(
        datetime.timedelta(0), error_if_tagged_old_versions=False
    )
    assert [e["version"] for e in lance.dataset(str(path)).versions()] == [1, 6]
    assert lake_read(path).num_rows == 15
    assert lake_write(sample(100, 1), path, append=True) == 7
    assert_agree(path)


def test_v1_names_and_stable_row_ids_are_kept(path):
    lance.write_dataset(
        sample(0, 20), str(path), enable_v2_manifest_paths=False, enable_stable_row_ids=True
    )
    assert (path / "_versions" / "1.manifest").exists()
    assert lake_write(sample(20, 20), path, append=True) == 2
    assert (path / "_versions" / "2.manifest").exists()
    dataset = lance.dataset(str(path))
    assert dataset.to_table(with_row_id=True)["_rowid"].to_pylist() == list(range(40))
    dataset.delete("id < 10")
    lance.dataset(str(path)).optimize.compact_files()
    lance.write_dataset(sample(40, 5), str(path), mode="append")
    ids = lance.dataset(str(path)).to_table(with_row_id=True)
    assert ids["_rowid"].to_pylist() == ids["id"].to_pylist()
    assert_agree(path)


# ---- races --------------------------------------------------------------------------------------


def test_racing_appends_of_processes_and_of_pylance_lose_no_row(path):
    lake_write(sample(0, 1), path)
    rounds, failures = 8, []

    def lake(start):
        directory = path.parent / f"w{start}"
        directory.mkdir()
        for i in range(rounds):
            source = write_input(sample(start + i, 1), directory, str(i))
            done = run_tool("write", path, source, "--append")
            if done.returncode != 0:
                failures.append(done.stderr.decode())

    pylance = f"""
import lance, sys
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
from test_lance_tables import sample
for i in range({rounds}):
    lance.write_dataset(sample(3000 + i, 1), {str(path)!r}, mode='append')
"""
    other = subprocess.Popen([sys.executable, "-c", pylance], stderr=subprocess.PIPE)
    threads = [threading.Thread(target=lake, args=(start,)) for start in (1000, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _, err = other.communicate(timeout=120)
    assert not failures and other.returncode == 0, (failures, err.decode())
    expected = [0] + [base + i for base in (1000, 2000, 3000) for i in range(rounds)]
    rows = assert_agree(path)
    assert sorted(rows["id"].to_pylist()) == expected
    assert lance.dataset(str(path)).version == 1 + 3 * rounds


def test_a_stale_pylance_writer_rebases_over_our_commits(path):
    lake_write(sample(0, 100), path)
    stale = lance.dataset(str(path))
    lake_write(sample(100, 10), path, append=True)
    stale.delete("id < 10")
    assert assert_agree(path)["id"].to_pylist() == list(range(10, 110))
    (path / "_transactions").rename(path / "_transactions_gone")  # the inline copy suffices
    stale = lance.dataset(str(path), version=2)
    lance.write_dataset(sample(200, 1), stale, mode="append")
    assert assert_agree(path).num_rows == 101


# ---- kill -9 ------------------------------------------------------------------------------------

FAULT_POINTS = {
    "lance.append.after_data": False,
    "lance.commit.after_transaction": False,
    "lance.commit.before_manifest": False,
    "lance.commit.after_manifest": True,
}


@pytest.mark.parametrize("point", FAULT_POINTS)
def test_killed_at_a_step_both_readers_see_all_or_nothing(path, point):
    lake_write(sample(0, 10), path)
    source = write_input(sample(10, 10), path.parent)
    done = run_tool("write", path, source, "--append", env={"LAKE_FAULT": f"{point}:1:kill"})
    assert done.returncode == -signal.SIGKILL
    visible = 20 if FAULT_POINTS[point] else 10
    assert assert_agree(path).num_rows == visible
    assert lance.dataset(str(path)).version == (2 if FAULT_POINTS[point] else 1)
    lance.write_dataset(sample(30, 1), str(path), mode="append")
    lake_write(sample(31, 1), path, append=True)
    assert assert_agree(path).num_rows == visible + 2


def test_killed_while_creating_nothing_or_a_whole_table_is_there(path):
    for point, visible in FAULT_POINTS.items():
        target = path.parent / point
        source = write_input(sample(0, 10), path.parent)
        done = run_tool("write", target, source, env={"LAKE_FAULT": f"{point}:1:kill"})
        assert done.returncode == -signal.SIGKILL
        if visible:
            assert assert_agree(target).num_rows == 10
        else:
            assert run_tool("cat", target).returncode == 1
            lake_write(sample(0, 5), target)
            assert assert_agree(target).num_rows == 5


def test_a_hint_of_pylance_that_is_behind_does_not_matter(path):
    lance.write_dataset(sample(0, 5), str(path))
    hint = path / "_versions" / "latest_version_hint.json"
    assert json.loads(hint.read_text())["version"] == 1
    for i in range(3):
        lake_write(sample(5 + i, 1), path, append=True)
    assert lance.dataset(str(path)).version == 4
    assert assert_agree(path).num_rows == 8


def misalign_batch(data):
    """An Arrow file whose record batch has its vectors at odd multiples of 4, as Lance 0.20 wrote them."""
    at = 8
    while data[at : at + 8] == bytes(8):
        at += 8
    at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")  # the schema
    size = int.from_bytes(data[at + 4 : at + 8], "little")
    header = bytearray(data[at + 8 : at + 8 + size])

    def number(place, width):
        return int.from_bytes(header[place : place + width], "little")

    def field(table, index):
        return table + number(table - int.from_bytes(header[table : table + 4], "little", signed=True) + 4 + 2 * index, 2)

    root = number(0, 4)
    batch = field(root, 2) + number(field(root, 2), 4)
    for index in (1, 2):
        place = field(batch, index)
        vector = place + number(place, 4)
        header += bytes(-len(header) % 8)
        header[place : place + 4] = (len(header) - place).to_bytes(4, "little")
        header += header[vector : vector + 4 + 16 * number(vector, 4)]
    header += bytes(-len(header) % 8)
    old, new = (at.to_bytes(8, "little") + (8 + n).to_bytes(4, "little") for n in (size, len(header)))
    rest = data[at + 8 + size :]
    assert rest.count(old) == 1  # the block that the footer names
    return data[: at + 4] + len(header).to_bytes(4, "little") + bytes(header) + rest.replace(old, new)


def test_deletion_files_of_old_releases_are_read(path):
    lance.write_dataset(sample(0, 300), str(path)).delete("id % 7 = 3")
    (file,) = (path / "_deletions").glob("*.arrow")
    changed = misalign_batch(file.read_bytes())
    file.write_bytes(changed)
    assert pa.ipc.open_file(changed).get_batch(0).num_rows == 43
    assert assert_agree(path)["id"].to_pylist() == [i for i in range(300) if i % 7 != 3]
