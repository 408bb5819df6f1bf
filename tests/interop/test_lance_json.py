"""JSON columns: text in and out, and in the files the same bytes as pylance's."""

import glob
import json
import random
import subprocess

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from lance_engines import BUILD

NUMBERS = ["0", "-0", "0.0", "-0.0", "1e3", "127", "128", "255", "256", "-128", "-129", "65535", "65536", "-32768", "-32769", "4294967295",
           "4294967296", "-2147483648", "-2147483649", "9223372036854775808", "18446744073709551615", "18446744073709551616",
           "-9223372036854775808", "-9223372036854775809", "0.1", "1.10", "3.141592653589793238462643383279", "5e-324",
           "1.7976931348623157e308", "1e16", "1e15", "1e-5", "1e-6", "123456789012345678901234567890"]


def lake(*arguments):
    return subprocess.run([BUILD / "lake", "lance", *map(str, arguments)], capture_output=True, text=True)


def value(rng, depth=0):
    kind = rng.random()
    if depth < 5 and kind < 0.3:
        return {"".join(rng.choices('abAé"\\\n', k=rng.randint(0, 4))): value(rng, depth + 1) for _ in range(rng.randint(0, 5))}
    if depth < 5 and kind < 0.5:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 5))]
    return rng.choice([None, True, False, rng.randrange(-1 << 63, 1 << 64), rng.randint(-300, 300), rng.gauss(0, 1e5),
                       rng.gauss(0, 1) * 10.0 ** rng.randint(-300, 300), "x" * rng.randint(0, 9), "é€😀"])


def documents(seed, count):
    rng = random.Random(seed)
    for number in NUMBERS:
        yield number
    for word in ("null", "true", "NaN", "Infinity", "-Infinity", '""', r'"\u00e9\ud83d\ude00\u0000\/\b"', "[]", "{}", " [ 1 ,\n2 ] "):
        yield word
    for i in range(count):
        yield None if i % 7 == 0 else json.dumps(value(rng), ensure_ascii=i % 2 == 0, indent=i % 3 or None)


def write_file(path, table):
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    return path


def stored(uri):
    return [LanceFileReader(file).read_all().to_table() for file in sorted(glob.glob(f"{uri}/data/*.lance"))]


@pytest.mark.parametrize("storage", ["2.1", "2.2"])
def test_documents_are_stored_as_pylance_stores_them(tmp_path, storage):
    texts = list(documents(5, 2000))
    table = pa.table({"id": pa.array(range(len(texts))), "doc": pa.array(texts, pa.json_())})
    done = lake("write", tmp_path / "ours.lance", write_file(tmp_path / "in.arrow", table), "--data-format", storage)
    assert done.returncode == 0, done.stderr
    lance.write_dataset(table, tmp_path / "theirs.lance", data_storage_version=storage)
    ours, theirs = lance.dataset(tmp_path / "ours.lance"), lance.dataset(tmp_path / "theirs.lance")
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.to_table().equals(theirs.to_table())
    [ours], [theirs] = stored(tmp_path / "ours.lance"), stored(tmp_path / "theirs.lance")
    assert ours["doc"].equals(theirs["doc"])


def test_rows_are_appended_to_pylances_table_and_its_functions_see_them(tmp_path):
    first = pa.table({"id": pa.array([1, 2]), "doc": pa.array(['{"speed": 7}', None], pa.json_())})
    lance.write_dataset(first, tmp_path / "t.lance", data_storage_version="2.2")
    more = pa.table({"id": pa.array([3, 4]), "doc": pa.array(['{"speed": 9.5, "arm": "left"}', "[1]"], pa.json_())})
    done = lake("write", tmp_path / "t.lance", write_file(tmp_path / "in.arrow", more), "--mode", "append")
    assert done.returncode == 0, done.stderr
    dataset = lance.dataset(tmp_path / "t.lance")
    assert dataset.to_table()["doc"].to_pylist() == ['{"speed":7}', None, '{"arm":"left","speed":9.5}', "[1]"]
    assert dataset.to_table(filter="json_get_string(doc, 'arm') = 'left'")["id"].to_pylist() == [3]
    assert dataset.to_table(filter="json_get_float(doc, 'speed') > 7")["id"].to_pylist() == [3]


def test_nested_documents(tmp_path):
    kind = pa.struct([pa.field("m", pa.list_(pa.field("item", pa.string(), metadata={"ARROW:extension:name": "arrow.json"})))])
    table = pa.table({"s": pa.array([{"m": ["1", None, '{"a": [2]}']}, None, {"m": []}, {"m": None}], kind)})
    done = lake("write", tmp_path / "t.lance", write_file(tmp_path / "in.arrow", table))
    assert done.returncode == 0, done.stderr
    shown = lake("cat", tmp_path / "t.lance", "--format", "json")
    assert json.loads(shown.stdout) == [
        {"s": {"m": ["1", None, '{"a":[2]}']}}, {"s": None}, {"s": {"m": []}}, {"s": {"m": None}}]
    assert lake("verify", tmp_path / "t.lance").returncode == 0


@pytest.mark.parametrize("storage", ["2.1", "2.2"])
@pytest.mark.parametrize("rows", [[None], [None] * 3, [None, {"j": "1"}], [{"j": "[1]"}, None, {"j": None}, {"j": "{}"}]])
def test_documents_below_null_structs(tmp_path, storage, rows):
    """Nothing is stored for them; where the documents themselves are never null, nothing says so."""
    kind = pa.struct([pa.field("j", pa.string(), metadata={"ARROW:extension:name": "arrow.json"})])
    listed = pa.list_(pa.field("item", kind))
    table = pa.table({"s": pa.array(rows, kind), "l": pa.array([[row, row] for row in rows], listed)})
    done = lake("write", tmp_path / "t.lance", write_file(tmp_path / "in.arrow", table), "--data-format", storage)
    assert done.returncode == 0, done.stderr
    want = [{"s": row, "l": [row, row]} for row in rows]
    assert lance.dataset(tmp_path / "t.lance").to_table().to_pylist() == want
    shown = lake("cat", tmp_path / "t.lance", "--format", "json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout) == want


def test_no_bytes_read_as_pylance_reads_them(tmp_path):
    kind = pa.field("doc", pa.large_binary(), metadata={"ARROW:extension:name": "lance.json"})
    table = pa.table([pa.array([b"", None, bytes.fromhex("2000000040000000")], pa.large_binary())], schema=pa.schema([kind]))
    lance.write_dataset(table, tmp_path / "t.lance", data_storage_version="2.2")
    want = lance.dataset(tmp_path / "t.lance").to_table().to_pylist()
    assert [row["doc"] for row in want] == ["null", None, "true"]
    shown = lake("cat", tmp_path / "t.lance", "--format", "json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout) == want


def test_what_is_no_json_leaves_no_version(tmp_path):
    table = pa.table({"doc": pa.array(["{}", "[1", "2"], pa.json_())})
    done = lake("write", tmp_path / "t.lance", write_file(tmp_path / "in.arrow", table))
    assert done.returncode != 0
    assert "column doc, row 1 of a batch" in done.stderr and "at byte 2" in done.stderr
    assert glob.glob(f"{tmp_path}/t.lance/**/*.*", recursive=True) == []


def test_json_over_other_types_is_refused_by_name(tmp_path):
    table = pa.table({"doc": pa.array(["{}"], pa.json_(pa.large_string()))})
    done = lake("write", tmp_path / "t.lance", write_file(tmp_path / "in.arrow", table))
    assert done.returncode != 0 and "arrow.json over utf8" in done.stderr
