"""Everything that Lance writes in storage versions 2.0, 2.1 and 2.2, read with pylance's own schema and
rows as the expectation: types, metadata, values."""

import os
import pathlib
import subprocess

import lance_corpus
import pyarrow as pa
import pytest

BUILD = pathlib.Path(os.environ.get("LAKE_BUILD_DIR", "build/release"))
TOOL = BUILD / "tests" / "lance_tool"
# What pylance itself does not write, or cannot read back.
REFUSED_BY_PYLANCE = {
    "nested_map_v20", "nested_map_v21",
    "packed_vector_v21", "packed_holes_v20", "packed_holes_v21", "packed_null_fixed_v20",
    *(f"packed_{name}_v{version}" for name in ("text", "texts", "large", "sentences", "null_text", "in_list_text")
      for version in ("20", "21")),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return lance_corpus.make(tmp_path_factory.mktemp("lance") / "corpus")


def read(path, *arguments):
    done = subprocess.run([TOOL, "cat", path, *map(str, arguments)], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return pa.ipc.open_stream(done.stdout).read_all()


def decoded(column):
    if not pa.types.is_dictionary(column.type):
        return column
    return pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], column.type.value_type)


def difference(ours, theirs):
    """What is not equal, or None. Dictionaries are compared by their values."""
    if not ours.schema.equals(theirs.schema, check_metadata=True):
        return f"schema:\n{ours.schema.to_string()}\n---\n{theirs.schema.to_string()}"
    if ours.num_rows != theirs.num_rows:
        return f"{ours.num_rows} rows, not {theirs.num_rows}"
    for name in theirs.column_names:
        got, want = decoded(ours[name]), decoded(theirs[name])
        if not got.equals(want):
            rows = (i for i in range(len(want)) if not got.slice(i, 1).equals(want.slice(i, 1)))
            row = next(rows, 0)
            return f"{name}, row {row}: {got.slice(row, 1)} is not {want.slice(row, 1)}"
    return None


def all_differences(corpus, ask, want):
    found = {}
    for case in corpus.expectations:
        if want(case) is None:
            continue
        try:
            more = ["--row-columns"] if case.lineage else []
            wrong = difference(read(case.path, *case.arguments, *ask, *more), want(case))
        except AssertionError as failure:
            wrong = str(failure)
        if wrong:
            found[case.name] = wrong
    return found


def test_the_corpus_is_whole(corpus):
    assert set(corpus.refused) == REFUSED_BY_PYLANCE
    assert len(corpus.expectations) > 190


def test_every_dataset_reads_as_pylance_reads_it(corpus):
    assert not all_differences(corpus, ["--descriptions"], lambda case: case.table)


def test_small_batches_read_the_same(corpus):
    """Batches that begin and end within chunks, pages and fragments."""
    assert not all_differences(corpus, ["--descriptions", "--batch-rows", 93], lambda case: case.table)


def test_blobs_read_as_their_bytes(corpus):
    """As pylance with blob_handling="all_binary"; field metadata differ, as descriptions are not shown."""

    def wanted(case):
        return case.blobs

    found = {}
    for case in filter(wanted, corpus.expectations):
        ours = read(case.path)
        for name in case.blobs.column_names:
            if ours[name].type != case.blobs[name].type or not ours[name].equals(case.blobs[name]):
                found[case.name] = ours[name]
    assert not found


def refusal(path):
    done = subprocess.run([TOOL, "cat", path], capture_output=True, timeout=60)
    assert done.returncode == 1
    return done.stderr.decode()


def test_what_cannot_be_read_is_refused_by_name(tmp_path):
    import lance

    table = pa.table({"a": [1, 2, 3]})
    lance.write_dataset(table, str(tmp_path / "legacy"), data_storage_version="legacy")
    assert "UNIMPLEMENTED" in refusal(tmp_path / "legacy") and "storage version 0.1" in refusal(tmp_path / "legacy")
    lance.write_dataset(table, str(tmp_path / "next"), data_storage_version="next")
    assert "UNIMPLEMENTED" in refusal(tmp_path / "next") and "storage version 2.3" in refusal(tmp_path / "next")


def test_more_blobs_than_memory_are_scanned(tmp_path):
    """160 MiB of blobs by a process that may not have 140 MiB of addresses."""
    import lance
    from lance.blob import blob_array, blob_field

    table = pa.table([blob_array([bytes(1 << 20)] * 160)], schema=pa.schema([blob_field("b")]))
    lance.write_dataset(table, str(tmp_path / "t"), data_storage_version="2.2")
    done = subprocess.run(["bash", "-c", 'ulimit -v 143360 && exec "$0" drain "$1"', TOOL, tmp_path / "t"],
                          capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"160 rows"), done.stdout
