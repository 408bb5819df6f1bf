"""Operations on Lance tables against pylance, the reference: each version that Lake makes is read
by pylance, which then operates on it in turn, and Lake reads what came of it.
"""

import lance
import pyarrow as pa
import pytest
from test_lance_tables import assert_agree, lake_read, lake_write, run_tool, sample, write_input


@pytest.fixture(params=["2.1", "2.2"])
def storage(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.lance"


# ---- overwrite ----------------------------------------------------------------------------------


def lake_overwrite(table, path, storage="2.2"):
    done = run_tool(
        "write", path, write_input(table, path.parent), "--overwrite", "--storage", storage
    )
    assert done.returncode == 0, done.stderr.decode()
    return int(done.stdout.split()[-1])


def test_an_overwrite_is_the_next_version_with_its_own_schema(path, storage):
    lake_write(sample(0, 100), path, storage)
    lance.dataset(str(path)).create_scalar_index("id", "BTREE")
    other = pa.table({"a": pa.array(["x", None, "z"]), "b": pa.array([1.0, 2.0, 3.0])})
    assert lake_overwrite(other, path, storage) == 3
    assert assert_agree(path).to_pylist() == other.to_pylist()
    assert assert_agree(path, 1).to_pylist() == sample(0, 100).to_pylist()
    dataset = lance.dataset(str(path))
    assert dataset.list_indices() == []
    assert type(dataset.read_transaction(3).operation).__name__ == "Overwrite"
    assert [f.fragment_id for f in dataset.get_fragments()] == [1]
    lance.write_dataset(other, str(path), mode="append")
    dataset = lance.dataset(str(path))
    dataset.delete("b = 2.0")
    dataset.optimize.compact_files()
    assert assert_agree(path)["a"].to_pylist() == ["x", "z", "x", "z"]


def test_an_overwrite_may_change_the_storage_version_and_keeps_the_configuration(path):
    lance.write_dataset(sample(0, 10), str(path), data_storage_version="2.1")
    lance.dataset(str(path)).update_config({"robot": "fetch"})
    lake_overwrite(sample(5, 7), path, "2.2")
    dataset = lance.dataset(str(path))
    assert dataset.data_storage_version == "2.2" and dataset.config() == {"robot": "fetch"}
    assert assert_agree(path).num_rows == 7


def test_an_overwrite_of_nothing_creates(path):
    assert lake_overwrite(sample(0, 3), path) == 1
    assert assert_agree(path).num_rows == 3


def test_row_ids_go_on_over_an_overwrite(path):
    lance.write_dataset(sample(0, 20), str(path), enable_stable_row_ids=True)
    lake_overwrite(sample(20, 5), path)
    rows = lance.dataset(str(path)).to_table(with_row_id=True)
    assert rows["_rowid"].to_pylist() == list(range(20, 25))


def test_a_stale_append_of_pylance_does_not_go_on_top_of_an_overwrite(path):
    lake_write(sample(0, 10), path)
    stale = lance.dataset(str(path))
    lake_overwrite(sample(0, 5), path)
    with pytest.raises(Exception, match="(?i)conflict|incompatible"):
        lance.write_dataset(sample(10, 1), stale, mode="append")
    assert lake_read(path).num_rows == 5
