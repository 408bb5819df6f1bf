"""Which fragments a compaction by tiers takes, and which it leaves; pylance makes the tables and
says what became of them."""

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.fragment import write_fragments
from test_lance_operations import lake_change

FULL = 1 << 20


def make(path, sizes, values=None):
    """One fragment for each size, of consecutive ids."""
    fragments, next_id = [], 0
    for i, size in enumerate(sizes):
        table = pa.table({"id": pa.array(np.arange(next_id, next_id + size), pa.int32())})
        if values is not None:
            table = table.append_column("value", pa.array([values[i]] * size, pa.binary()))
        fragments += write_fragments(table, str(path), mode="create" if i == 0 else "append",
                                     schema=table.schema)
        next_id += size
    operation = lance.LanceOperation.Overwrite(table.schema, fragments)
    return lance.LanceDataset.commit(str(path), operation)


def rows_of(path):
    return [f.count_rows() for f in lance.dataset(str(path)).get_fragments()]


def tiers(path):
    """(removed, added, rows rewritten)"""
    before = sorted(lance.dataset(str(path)).to_table()["id"].to_pylist())
    _, removed, added, rewritten, _ = lake_change("tiers", path)
    dataset = lance.dataset(str(path))
    dataset.validate()
    assert sorted(dataset.to_table()["id"].to_pylist()) == before
    return removed, added, rewritten


S, M = 10, 2000  # of the first and of the second tier


@pytest.mark.parametrize("sizes, left, gone", [
    ([S] * 63, [S] * 63, 0),
    ([S] * 64, [64 * S], 64),
    ([S] * 200, [200 * S], 200),
    ([640] + [S] * 63, [640 + 63 * S], 64),
    ([1024] + [S] * 63, [1024] + [S] * 63, 0),
    ([1024] + [S] * 64, [1024, 64 * S], 64),
    ([S] * 40 + [FULL] + [S] * 40, [S] * 40 + [FULL] + [S] * 40, 0),
    ([S] * 40 + [FULL] + [S] * 70 + [FULL], [S] * 40 + [FULL, FULL, 70 * S], 70),
    ([M] * 64, [64 * M], 64),
    ([M] * 63 + [S] * 5, [63 * M + 5 * S], 68),
    ([M] * 7 + [S] * 57, [M] * 7 + [S] * 57, 0),
    ([M] * 8 + [S] * 57, [8 * M + 57 * S], 65),
    ([120_000] * 10, [120_000, 9 * 120_000], 9),
    ([200_000] * 7, [200_000] * 7, 0),
], ids=str)
def test_runs_of_a_tier_become_one_fragment(tmp_path, sizes, left, gone):
    make(tmp_path / "t", sizes)
    removed, added, rewritten = tiers(tmp_path / "t")
    assert (removed, added) == (gone, 1 if gone else 0)
    assert rows_of(tmp_path / "t") == left
    assert rewritten == (left[-1] if gone else 0)


def test_large_rows_make_a_fragment_large(tmp_path):
    large = np.random.default_rng(1).bytes(1_100_000)
    make(tmp_path / "t", [1] * 64, [b"small"] * 63 + [large])
    assert tiers(tmp_path / "t") == (0, 0, 0)
    make(tmp_path / "u", [1] * 64, [b"small"] * 64)
    assert tiers(tmp_path / "u") == (64, 1, 64)


def test_deleted_rows_do_not_count(tmp_path):
    dataset = make(tmp_path / "t", [M] * 10 + [1500] * 64)
    dataset.delete(f"id >= {10 * M} and id % 1500 >= 10")
    left = dataset.count_rows() - 10 * M
    assert tiers(tmp_path / "t") == (64, 1, left)
    assert rows_of(tmp_path / "t") == [M] * 10 + [left]


def test_what_an_index_covers_stays(tmp_path):
    dataset = make(tmp_path / "t", [S] * 70)
    dataset.create_scalar_index("id", "BTREE")
    assert tiers(tmp_path / "t") == (0, 0, 0)
    for i in range(64):
        lance.write_dataset(pa.table({"id": pa.array([1000 + i], pa.int32())}), dataset.uri,
                            mode="append")
    assert tiers(tmp_path / "t") == (64, 1, 64)
    assert rows_of(tmp_path / "t") == [S] * 70 + [64]
    stats = lance.dataset(dataset.uri).stats.index_stats("id_idx")
    assert stats["num_indexed_rows"] == 70 * S and stats["num_unindexed_rows"] == 64
