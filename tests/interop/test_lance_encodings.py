"""What Lake's writer makes of columns: encodings by profile and by field metadata, read by pylance.

pylance says how each page is encoded (LanceFileReader.metadata) and must read every row back equal,
whole and one by one.
"""

import random

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

from test_lance_files import VERSIONS, assert_same, lake_read, lake_write

PROFILES = ["balanced", "fast", "small"]
ROWS = 60_000


def encodings(path):
    """Of each column the text of its first page's layout, and the bytes a row of all its pages."""
    texts, sizes = {}, {}
    for file in sorted((path / "data").iterdir()):
        metadata = LanceFileReader(str(file)).metadata()
        for name, column in zip((f.name for f in metadata.schema), metadata.columns):
            texts.setdefault(name, str(column.pages[0].encoding))
            pages = sum(buffer.size for page in column.pages for buffer in page.buffers)
            sizes[name] = sizes.get(name, 0) + pages / metadata.num_rows
    return texts, sizes


def columns_of_every_kind():
    rng = np.random.default_rng(11)
    clock = np.arange(ROWS)
    words = np.array(["idle", "grasp", "lift", "place"])
    return {
        "step32": pa.array(clock % 5000, pa.int32()),
        "step16": pa.array(clock % 5000, pa.int16()),
        "counter8": pa.array(clock // 300 % 100, pa.uint8()),
        "time": pa.array(1_700_000_000_000_000 + clock * 20_000, pa.timestamp("us")),
        "smooth32": pa.array(np.sin(clock / 50) + rng.normal(0, 1e-3, ROWS), pa.float32()),
        "smooth64": pa.array(np.sin(clock / 50) + rng.normal(0, 1e-3, ROWS)),
        "half": pa.array(np.sin(clock / 500).astype(np.float16)),
        "few64": pa.array(np.round(rng.random(ROWS), 2)),
        "few32": pa.array(np.round(rng.random(ROWS), 2), pa.float32()),
        "few128": pa.array([None if i % 9 == 0 else int(v) for i, v in
                            enumerate(rng.integers(0, 40, ROWS))], pa.int64())
        .cast(pa.decimal128(19, 0)),
        "runs64": pa.array(np.repeat(rng.random(ROWS // 500), 500)),
        "id": pa.array([rng.bytes(16) for _ in range(ROWS)], pa.binary(16)),
        "words": pa.array(words[rng.integers(0, 4, ROWS)]),
        "sentence": pa.array([f"robot {i % 97} moved joint {i % 7} to {i}" for i in range(ROWS)]),
        "document": pa.array([f"the robot moved joint {i % 97} of {i}; " * (i % 40)
                              if i % 30 == 0 else None for i in range(ROWS)], pa.large_string()),
        "notes": pa.array([[f"frame {i} is blurred, " * 25, "", None][: i % 4] if i % 50 < 3 else []
                           for i in range(ROWS)]),
        "blank": pa.array([""] * (ROWS - 1) + ["x"]),
        "nulls": pa.array([None if i % 3 else i for i in range(ROWS)]),
        "flags": pa.array(rng.random(ROWS) < 0.1),
        "lists": pa.array([[i / 8] * (i % 4) for i in range(ROWS)], pa.list_(pa.float32())),
    }


@pytest.mark.parametrize("storage", VERSIONS)
@pytest.mark.parametrize("profile", PROFILES)
def test_pylance_reads_every_profile_whole_and_row_by_row(tmp_path, storage, profile):
    table = pa.table(columns_of_every_kind())
    lake_write(table, tmp_path / "lake", storage, profile=profile)
    dataset = lance.dataset(str(tmp_path / "lake"))
    assert_same(dataset.to_table(), table, profile)
    where = sorted(random.Random(3).sample(range(ROWS), 100))
    assert_same(dataset.take(where), table.take(where), profile)
    assert_same(lake_read(tmp_path / "lake"), table, profile)
    assert_same(lake_read(tmp_path / "lake", "--batch-rows", 777), table, profile)


def test_a_table_keeps_its_profile_for_later_appends(tmp_path):
    noise = np.random.default_rng(1).normal(size=ROWS)
    table = pa.table({"x": pa.array(np.sin(np.arange(ROWS) / 50) + noise / 1000, pa.float32())})
    for profile in PROFILES:
        path = tmp_path / profile
        lake_write(table, path, "2.2", profile=profile)
        first = encodings(path)[1]["x"]
        lake_write(table, path, "2.2", append=True)
        both = encodings(path)[1]["x"]
        assert both == pytest.approx(2 * first, rel=0.01), profile
        config = lance.dataset(str(path)).config()
        assert config.get("lake.profile", "balanced") == profile


def test_profiles_trade_size_for_decoding(tmp_path):
    table = pa.table(columns_of_every_kind())
    texts, sizes = {}, {}
    for profile in PROFILES:
        lake_write(table, tmp_path / profile, "2.2", profile=profile)
        texts[profile], sizes[profile] = encodings(tmp_path / profile)
    for name in table.column_names:
        assert sizes["balanced"][name] <= sizes["fast"][name] * 1.01, name
        assert sizes["small"][name] <= sizes["balanced"][name] * 1.1 + 0.01, name
    assert sizes["fast"]["smooth32"] > 4 and sizes["small"]["smooth32"] < 2.9
    assert sizes["fast"]["step32"] < 1.7 and sizes["balanced"]["step32"] < 0.2
    assert sizes["balanced"]["few64"] < 1.2 and sizes["balanced"]["words"] < 0.3
    assert sizes["balanced"]["runs64"] < 0.1
    assert "ByteStreamSplit" in texts["balanced"]["smooth32"], texts["balanced"]["smooth32"]
    assert "ByteStreamSplit" not in texts["fast"]["smooth32"]
    for name in ("document", "notes"):
        assert "FullZip" in texts["balanced"][name] and "Fsst" in texts["balanced"][name]
    assert sizes["balanced"]["document"] < sizes["fast"]["document"] / 2


@pytest.mark.parametrize("storage", VERSIONS)
@pytest.mark.parametrize(
    "metadata, present, absent",
    [
        ({"compression": "zstd"}, ["General"], []),
        ({"compression": "lz4"}, ["General"], []),
        ({"compression": "fsst"}, ["Fsst"], ["General"]),
        ({"compression": "none"}, [], ["General", "Fsst"]),
        ({"compression": "zstd", "bss": "on"}, ["General"], []),
        ({"compression": "zstd", "bss": "off"}, ["General"], ["ByteStreamSplit"]),
        ({"compression": "zstd", "compression-level": "19"}, ["General"], []),
        ({"structural-encoding": "fullzip"}, ["FullZip"], ["MiniBlock"]),
        ({"structural-encoding": "miniblock"}, ["MiniBlock"], ["FullZip"]),
        ({"rle-threshold": "1.0"}, [], []),
        ({"dict-divisor": "2", "dict-size-ratio": "0.99"}, [], []),
        ({"minichunk-size": "1024"}, [], []),
        ({"compression": "gzip", "bss": "?", "rle-threshold": "x"}, [], []),
    ],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else "",
)
def test_field_metadata_goes_above_the_profile(tmp_path, storage, metadata, present, absent):
    keys = {f"lance-encoding:{key}": value for key, value in metadata.items()}
    columns = {name: column.slice(0, 5000) for name, column in columns_of_every_kind().items()
               if name in ("step32", "smooth64", "runs64", "few64", "sentence", "lists")}
    fields = [pa.field(name, column.type, metadata=keys) for name, column in columns.items()]
    table = pa.table(list(columns.values()), schema=pa.schema(fields))
    lake_write(table, tmp_path / "lake", storage)
    dataset = lance.dataset(str(tmp_path / "lake"))
    assert_same(dataset.to_table(), table)
    where = sorted(random.Random(3).sample(range(5000), 50))
    assert_same(dataset.take(where), table.take(where))
    assert_same(lake_read(tmp_path / "lake"), table)
    text = " ".join(encodings(tmp_path / "lake")[0].values())
    for word in present:
        assert word in text, text
    for word in absent:
        assert word not in text, text


@pytest.mark.parametrize("storage", VERSIONS)
def test_pylance_changes_a_table_with_statistics_as_any_other(tmp_path, storage):
    """Statistics stand in buffers that pylance passes by; what it rewrites has none."""
    table = pa.table({"episode": pa.array(np.arange(ROWS) // 500), "x": pa.array(np.arange(ROWS)),
                      "word": pa.array([f"w{i // 700}" for i in range(ROWS)])})
    path = tmp_path / "lake"
    lake_write(table, path, storage)
    lake_write(table, path, storage, append=True)
    dataset = lance.dataset(str(path))
    assert dataset.to_table(filter="episode = 7").num_rows == 1000
    lance.write_dataset(table.slice(0, 100), str(path), mode="append")
    dataset = lance.dataset(str(path))
    dataset.delete("episode = 7")
    dataset.update({"x": "x + 1"}, where="episode = 8")
    dataset.create_scalar_index("x", "BTREE")
    assert_same(lake_read(path), lance.dataset(str(path)).to_table())
    lance.dataset(str(path)).optimize.compact_files()
    assert lance.dataset(str(path)).count_rows() == 2 * ROWS + 100 - 1000
    assert_same(lake_read(path), lance.dataset(str(path)).to_table())
    lake_write(table, path, storage, append=True)
    assert_same(lake_read(path), lance.dataset(str(path)).to_table())
