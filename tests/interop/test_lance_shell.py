"""`lake lance …` on datasets of pylance's, and pylance on those that it wrote."""

import decimal
import json
import os
import shutil
import subprocess

import lance
import numpy as np
import pyarrow as pa
import pytest

import arrow_types
import arrow_views
from lake_server import LAKE, SOURCE, clean_environment

FRAGMENT_ROWS = 4000


def rows_of(count, first, storage):
    random = np.random.default_rng(first + 1)
    structs = [None if i % 11 == 0 and storage != "2.0" else {"a": i, "b": f"b{i}"}
               for i in range(count)]
    return pa.table({
        "id": pa.array(np.arange(first, first + count)),
        "x": pa.array(random.random(count)),
        "text": pa.array([None if i % 7 == 0 else f"row{i + first}" * (i % 5)
                          for i in range(count)]),
        "items": pa.array([None if i % 5 == 0 else list(range(i % 4)) for i in range(count)],
                          pa.list_(pa.int32())),
        "vector": pa.FixedSizeListArray.from_arrays(
            pa.array(random.random(count * 3), pa.float32()), 3),
        "camera": pa.array([f"c{(i + first) % 3}" for i in range(count)]).dictionary_encode(),
        "flag": pa.array([i % 3 == 0 for i in range(count)]),
        "both": pa.array(structs, pa.struct({"a": pa.int64(), "b": pa.string()})),
    })


def make(path, storage="2.2", fragments=3):
    for part in range(fragments):
        lance.write_dataset(rows_of(FRAGMENT_ROWS, part * FRAGMENT_ROWS, storage), path,
                            mode="append" if part else "create", data_storage_version=storage)
    return lance.dataset(path)


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def dataset(request, tmp_path_factory):
    """Three fragments with deleted rows, one of them with all of them deleted but two."""
    path = str(tmp_path_factory.mktemp("shell") / "rows.lance")
    made = make(path, request.param)
    made.delete(f"id % 13 = 0 OR (id > {FRAGMENT_ROWS} AND id < {2 * FRAGMENT_ROWS - 1})")
    return lance.dataset(path)


def run(*arguments, check=True, cwd=None):
    done = subprocess.run([str(LAKE), *map(str, arguments)], capture_output=True, timeout=120,
                          env=clean_environment(None), cwd=cwd)
    assert not check or done.returncode == 0, done.stderr.decode()
    return done


def arrow(*arguments):
    return pa.ipc.open_stream(run(*arguments, "--format", "arrow").stdout).read_all()


def same(got, want):
    assert got.schema.equals(want.schema), f"{got.schema}\n{want.schema}"
    assert got.to_pylist() == want.to_pylist()


# ---- take ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choose", [
    lambda n: [5, 3, 3, 100],
    lambda n: [n - 1, 0, n - 1, n // 2],
    lambda n: list(range(10, 600)),
    lambda n: [int(i) for i in np.random.default_rng(4).integers(0, n, 700)],
    lambda n: [0],
])
def test_take_gives_the_rows_asked_for_in_that_order(dataset, choose):
    rows = choose(dataset.count_rows())
    same(arrow("lance", "take", dataset.uri, "--rows", ",".join(map(str, rows))),
         dataset.to_table().take(rows))


def test_take_of_columns_and_of_an_older_version(dataset):
    older = lance.dataset(dataset.uri, version=2)
    rows = [1, 0, 2 * FRAGMENT_ROWS - 1]
    got = arrow("lance", "take", dataset.uri, "--rows", ",".join(map(str, rows)), "--columns",
                "text,id", "--version", 2)
    same(got, older.to_table(columns=["text", "id"]).take(rows))


def test_rows_are_taken_by_stable_ids_whatever_happened_to_them(tmp_path):
    path = str(tmp_path / "stable.lance")
    for part in range(4):
        lance.write_dataset(rows_of(500, part * 500, "2.2"), path, enable_stable_row_ids=True,
                            mode="append" if part else "create")
    changed = lance.dataset(path)
    changed.delete("id % 7 = 3 OR (id >= 500 AND id < 620)")
    changed.update({"x": "-1.0"}, where="id % 5 = 1")
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=900)
    changed = lance.dataset(path)
    changed.update({"x": "-2.0"}, where="id % 11 = 0")
    changed.delete("id % 13 = 12")
    lance.write_dataset(rows_of(50, 2000, "2.2"), path, mode="append")
    changed = lance.dataset(path)
    ids = changed.to_table(columns=["id"], with_row_id=True)["_rowid"].to_pylist()
    random = np.random.default_rng(9)
    chosen = [ids[i] for i in random.integers(0, len(ids), 600)] + [ids[0], ids[-1], ids[0]]
    got = arrow("lance", "take", path, "--row-ids", ",".join(map(str, chosen)))
    place = {row_id: i for i, row_id in enumerate(ids)}
    same(got, changed.to_table().take([place[row_id] for row_id in chosen]))
    same(got, changed._take_rows(chosen))
    gone = next(row_id for row_id in range(max(ids)) if row_id not in place)
    for missing in (gone, max(ids) + 1):
        done = run("lance", "take", path, "--row-ids", f"{ids[3]},{missing}", check=False)
        assert done.returncode == 1 and f"id {missing} ".encode() in done.stderr
    older = lance.dataset(path, version=4)
    same(arrow("lance", "take", path, "--row-ids", "1999,3,3", "--version", 4),
         older._take_rows([1999, 3, 3]))


def test_addresses_are_the_ids_of_a_table_without_stable_ones(dataset):
    ids = dataset.to_table(columns=["id"], with_row_id=True)["_rowid"].to_pylist()
    chosen = [ids[-1], ids[0], ids[len(ids) // 2], ids[-1]]
    same(arrow("lance", "take", dataset.uri, "--row-ids", ",".join(map(str, chosen))),
         dataset._take_rows(chosen))


def test_rows_that_are_not_there_are_named(dataset):
    count = dataset.count_rows()
    done = run("lance", "take", dataset.uri, "--rows", f"0,{count}", check=False)
    assert done.returncode == 1 and f"no row {count}".encode() in done.stderr


# ---- cat -------------------------------------------------------------------------------------------


def test_cat_is_a_scan(dataset):
    same(arrow("lance", "cat", dataset.uri), dataset.to_table())
    same(arrow("lance", "cat", dataset.uri, "--columns", "flag,id"),
         dataset.to_table(columns=["flag", "id"]))


def test_cat_filters_by_sql(dataset):
    got = arrow("lance", "cat", dataset.uri, "--columns", "id,text", "--filter",
                "x < 0.25 AND text LIKE 'row1%' -- and no more")
    want = dataset.to_table(columns=["id", "text"], filter="x < 0.25 AND text LIKE 'row1%'")
    assert 0 < got.num_rows < dataset.count_rows()
    assert got.to_pylist() == want.to_pylist()


def plain(column):
    """To be compared: dictionaries may be numbered in another way, and NaN is one value."""
    array = column.combine_chunks()
    array = array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    return arrow_types.bits(array.cast(pa.float32()) if array.type == pa.float16() else array)


def test_rows_have_the_same_types_with_and_without_a_filter(tmp_path):
    """Also the types that the SQL engine lacks, which it never sees."""
    count = 500
    rows = arrow_types.make_table().take(list(range(count)))
    for name, array in {
            "nothing": pa.nulls(count),
            "dec76": pa.array([decimal.Decimal(i).scaleb(50) for i in range(count)],
                              pa.decimal256(76, 3)),
            "empty": pa.array([{}] * count, pa.struct([])),
            "month": pa.array([f"m{i % 5}" for i in range(count)],
                              pa.large_utf8()).dictionary_encode().cast(
                                  pa.dictionary(pa.uint16(), pa.large_utf8()))}.items():
        rows = rows.append_column(pa.field(name, array.type, metadata={"unit": name}), array)
    path = str(tmp_path / "t.lance")
    lance.write_dataset(rows, path, max_rows_per_file=100)
    made = lance.dataset(path)
    made.delete("id % 3 = 0")
    whole = arrow("lance", "cat", path)
    assert whole.schema.equals(rows.schema) and whole.num_rows == count - count // 3 - 1
    for predicate, keep in (("true", lambda i: True), ("false", lambda i: False),
                            ("id % 7 = 1 OR id > 480", lambda i: i % 7 == 1 or i > 480)):
        got = arrow("lance", "cat", path, "--filter", predicate)
        want = whole.filter(pa.array([keep(i) for i in whole["id"].to_pylist()]))
        assert got.schema.equals(whole.schema, check_metadata=True), predicate
        for name in whole.column_names:
            assert plain(got[name]).equals(plain(want[name])), (predicate, name)


def test_filters_see_the_columns_and_nothing_else(tmp_path):
    lance.write_dataset(pa.table({"id": [1, 2, 3], "twice": [1, 4, 9]}), str(tmp_path / "a.lance"))
    for predicate, want in (("COLUMNS(*) > 1", [2, 3]), ("dataset = {id: 2, twice: 4}", [2]),
                            ("len(list_value(*COLUMNS(*))) = 2", [1, 2, 3])):
        got = arrow("lance", "cat", tmp_path / "a.lance", "--filter", predicate)
        assert got["id"].to_pylist() == want, predicate
    for name in ("_rowaddr", "_rowid", "rowid"):
        done = run("lance", "cat", tmp_path / "a.lance", "--filter", f"{name} >= 0", check=False)
        assert done.returncode == 1 and f'"{name}" not found' in done.stderr.decode()
        assert "address" not in done.stderr.decode()


def test_cat_writes_csv_json_and_files(dataset, tmp_path):
    out = tmp_path / "out.json"
    run("lance", "cat", dataset.uri, "--columns", "id,flag", "--format", "json", "-o", out)
    assert json.loads(out.read_text()) == dataset.to_table(columns=["id", "flag"]).to_pylist()
    lines = run("lance", "cat", dataset.uri, "--columns", "id", "--format",
                "csv").stdout.decode().split()
    assert lines == ["id", *map(str, dataset.to_table(columns=["id"])["id"].to_pylist())]
    assert run("lance", "cat", dataset.uri, "-o", tmp_path / "no" / "where",
               check=False).returncode == 1


def test_what_is_no_dataset_no_column_no_version_is_said(dataset, tmp_path):
    for arguments, why in ((["cat", tmp_path / "nowhere"], "no directory"),
                           (["stat", tmp_path], "no Lance dataset"),
                           (["cat", dataset.uri, "--columns", "id,nope"], "nope"),
                           (["cat", dataset.uri, "--columns", "id,id"], "twice"),
                           (["cat", dataset.uri, "--version", 99], "99"),
                           (["cat", dataset.uri, "--filter", "nope > 1"], "LINE 2: nope"),
                           (["cat", dataset.uri, "--filter", "true) OR (true"], "no SQL expression"),
                           (["cat", dataset.uri, "--filter", "id = 1; SELECT 1"], "no SQL expression")):
        done = run("lance", *arguments, check=False)
        assert done.returncode == 1 and why in done.stderr.decode(), done.stderr
    for arguments in (["cat"], ["fly", "x"], [], ["cat", dataset.uri, "--rows", "1"],
                      ["stat", dataset.uri, "--version", "0"]):
        assert run("lance", *arguments, check=False).returncode == 2


# ---- verify and stat -------------------------------------------------------------------------------


def test_verify_and_stat_say_what_pylance_says(dataset):
    said = json.loads(run("lance", "stat", dataset.uri, "--json").stdout)
    assert said["rows"] == dataset.count_rows()
    assert said["version"] == dataset.version
    assert said["fragments"] == len(dataset.get_fragments())
    assert said["storage"] == dataset.data_storage_version
    assert [column["name"] for column in said["columns"]] == dataset.schema.names
    files = [os.path.join(dataset.uri, "data", file.path)
             for fragment in dataset.get_fragments() for file in fragment.data_files()]
    deletions = os.path.join(dataset.uri, "_deletions")
    files += [os.path.join(deletions, name) for name in os.listdir(deletions)]
    assert (said["files"], said["bytes"]) == (len(files), sum(map(os.path.getsize, files)))
    assert json.loads(run("lance", "verify", dataset.uri, "--json").stdout)["ok"] is True


def test_verify_finds_what_is_broken(tmp_path):
    make(str(tmp_path / "good"))
    good = tmp_path / "good" / "data"
    names = sorted(os.listdir(good))
    for harm in ("gone", "short", "changed"):
        path = tmp_path / harm
        shutil.copytree(tmp_path / "good", path)
        file = path / "data" / names[1]
        data = file.read_bytes()
        if harm == "gone":
            file.unlink()
        elif harm == "short":
            file.write_bytes(data[:-100])
        else: # the second page buffer of some column
            middle = len(data) // 3
            file.write_bytes(data[:middle] + bytes(64) + b"\xff" * 64 + data[middle + 128:])
        done = run("lance", "verify", path, check=False)
        if harm != "changed": # data pages have no checksums: what still decodes is no error
            assert done.returncode == 1 and names[1] in done.stderr.decode()
        if harm == "short":
            read = run("lance", "cat", path, "--json", check=False)
            assert read.returncode == 1 and b"DATA_LOSS" in read.stderr, read.stderr
        assert done.returncode in (0, 1)


# ---- inspect ---------------------------------------------------------------------------------------


def leaf_names(schema):
    """Dotted names of the fields that have a column."""
    names = []

    def walk(field, name):
        kind = field.type
        if pa.types.is_struct(kind):
            for index in range(kind.num_fields):
                walk(kind.field(index), f"{name}.{kind.field(index).name}")
        elif pa.types.is_list(kind):
            walk(kind.value_field, f"{name}.item")
        else:
            names.append(name)

    for field in schema:
        walk(field, field.name)
    return names


def test_inspect_shows_fragments_files_columns_and_pages(dataset):
    said = json.loads(run("inspect", dataset.uri, "--json").stdout)
    assert (said["version"], said["rows"], said["storage"]) == (
        dataset.version, dataset.count_rows(), dataset.data_storage_version)
    fragments = dataset.get_fragments()
    assert [part["id"] for part in said["fragments"]] == [part.fragment_id for part in fragments]
    for part, fragment in zip(said["fragments"], fragments):
        assert part["rows"] == fragment.physical_rows
        assert part["deleted"] == fragment.num_deletions
        assert [file["path"] for file in part["files"]] == [
            file.path for file in fragment.data_files()]
        for file in part["files"]:
            path = os.path.join(dataset.uri, "data", file["path"])
            assert file["bytes"] == os.path.getsize(path)
            assert sum(column["bytes"] for column in file["columns"]) < file["bytes"]
            if dataset.data_storage_version != "2.0":
                assert [column["name"] for column in file["columns"]] == leaf_names(dataset.schema)
            for column in file["columns"]:
                assert sum(kind["pages"] for kind in column["encodings"]) == column["pages"]


def test_inspect_lists_the_pages_of_one_file(dataset):
    name = dataset.get_fragments()[0].data_files()[0].path
    said = json.loads(run("inspect", dataset.uri, "--json", "--file", name).stdout)
    listed = [file for part in said["fragments"] for file in part["files"]
              if "page_list" in file["columns"][0]]
    assert [file["path"] for file in listed] == [name]
    for column in listed[0]["columns"]:
        assert len(column["page_list"]) == column["pages"]
        assert sum(page["rows"] for page in column["page_list"]) == column["rows"]
        assert sum(page["bytes"] for page in column["page_list"]) == column["bytes"]
    text = run("inspect", dataset.uri, "--file", name).stdout.decode()
    assert name in text and "page 0: rows 0 to" in text
    assert run("inspect", dataset.uri, "--file", "no.lance", check=False).returncode == 1


def test_our_writers_encodings_are_named(tmp_path):
    table = pa.table({"one": pa.array([7] * 5000), "wave": pa.array(np.sin(np.arange(5000) / 99)),
                      "word": pa.array(["left", "right"] * 2500)})
    source = tmp_path / "in.arrow"
    with pa.OSFile(str(source), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    run("lance", "write", tmp_path / "out", source, "--profile", "small")
    said = json.loads(run("inspect", tmp_path / "out", "--json").stdout)
    columns = {column["name"]: column for column in said["fragments"][0]["files"][0]["columns"]}
    assert "constant" in columns["one"]["encodings"][0]["encoding"]
    assert "zstd of byte stream split" in columns["wave"]["encodings"][0]["encoding"]
    assert "dictionary indices" in columns["word"]["encodings"][0]["encoding"]
    assert said["config"] == {"lake.profile": "small"}


# ---- write -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["2.1", "2.2"])
@pytest.mark.parametrize("profile", ["balanced", "fast", "small"])
def test_what_is_written_pylance_reads(tmp_path, storage, profile):
    table = rows_of(5000, 0, storage)
    source = tmp_path / "in.arrow"
    with pa.OSFile(str(source), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=700)
    path = str(tmp_path / "out.lance")
    run("lance", "write", path, source, "--data-format", storage, "--profile", profile)
    run("lance", "write", path, source, "--mode", "append")
    made = lance.dataset(path)
    assert made.data_storage_version == storage
    same(made.to_table(), pa.concat_tables([table, table]).unify_dictionaries())
    assert run("lance", "write", path, source, check=False).returncode == 1
    other = pa.table({"only": pa.array([1, None, 3], pa.int16())})
    with pa.OSFile(str(source), "wb") as sink, pa.ipc.new_file(sink, other.schema) as writer:
        writer.write_table(other)
    run("lance", "write", path, source, "--mode", "overwrite")
    made = lance.dataset(path)
    assert made.version == 3 and made.data_storage_version == storage
    same(made.to_table(), other)
    same(lance.dataset(path, version=1).to_table(), table.unify_dictionaries())
    assert run("lance", "write", path, source, "--mode", "replace", check=False).returncode == 2
    assert run("lance", "write", path, source, "--profile", "tiny", check=False).returncode == 2


def write_ipc(path, *tables, make=pa.ipc.new_file, **options):
    with make(str(path), tables[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for table in tables:
            writer.write_table(table)
    return path


def test_views_are_written_as_what_they_refer_to(tmp_path):
    """By every mode, also onto columns that were plain before, and from compressed files; what PyArrow
    makes of the same values without views is the oracle."""
    views = arrow_views.with_dictionary(arrow_views.table(200, True), True)
    plain = arrow_views.with_dictionary(arrow_views.table(200, False), False)
    assert {kind for kind in views.schema.types} & {pa.string_view(), pa.binary_view()}
    path = str(tmp_path / "views.lance")
    source = write_ipc(tmp_path / "views.arrow", views)
    run("lance", "write", path, source)
    run("lance", "write", path, write_ipc(tmp_path / "plain.arrow", plain), "--mode", "append")
    run("lance", "write", path, write_ipc(tmp_path / "views.arrows", views.slice(7, 50),
                                          make=pa.ipc.new_stream, compression="zstd"),
        "--mode", "append")
    want = pa.concat_tables([plain, plain, plain.slice(7, 50)]).unify_dictionaries()
    same(lance.dataset(path).to_table(), want)
    run("lance", "write", path, write_ipc(source, views.slice(100, 0)), "--mode", "overwrite")
    same(lance.dataset(path).to_table(), plain.slice(0, 0))
    run("lance", "write", path, write_ipc(source, views.slice(3, 100), compression="lz4"),
        "--mode", "append")
    same(lance.dataset(path).to_table(), plain.slice(3, 100).unify_dictionaries())


def test_files_are_read_by_their_footers(tmp_path):
    """A footer that names messages many times would make much of a small file."""
    table = pa.table({"n": pa.array(range(1001))})
    source = tmp_path / "in.arrow"
    with pa.ipc.new_file(str(source), table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)
    text = source.read_bytes()
    footer = len(text) - 10 - int.from_bytes(text[-10:-6], "little")
    large, small = (at for at in range(footer, len(text) - 34)
                    if text[int.from_bytes(text[at:at + 8], "little"):][:4] == b"\xff" * 4
                    and text[at + 12:at + 16] == bytes(4) != text[at + 16:at + 20])
    blocks = {"large": text[large:large + 24], "small": text[small:small + 24]}

    def write(first, second):
        source.write_bytes(text[:large] + blocks[first] + text[large + 24:small] + blocks[second]
                           + text[small + 24:])

    write("small", "large")
    want = pa.ipc.open_file(source).read_all()
    assert want["n"].to_pylist() == [1000, *range(1000)]
    run("lance", "write", tmp_path / "rows.lance", source)
    assert lance.dataset(str(tmp_path / "rows.lance")).to_table() == want
    write("large", "large")
    done = run("lance", "write", tmp_path / "twice.lance", source, check=False)
    assert done.returncode == 1 and b"or twice" in done.stderr, done.stderr
    assert not (tmp_path / "twice.lance" / "_versions").exists()


def test_files_of_polars_are_read_and_named_where_they_cannot_be(tmp_path):
    """A file that it wrote: views, and a schema without a frame before them."""
    source = SOURCE / "tests" / "fuzz" / "corpus" / "ipc" / "file_of_polars"
    want = pa.table({"t": ["a", None, "outside of its view"],
                     "l": pa.array([["x"], None, []], pa.large_list(pa.string()))})
    run("lance", "write", tmp_path / "rows.lance", source)
    same(lance.dataset(str(tmp_path / "rows.lance")).to_table(), want)
    done = write_from({"input": source.read_bytes()}, str(tmp_path / "piped.lance"), check=False)
    assert done.returncode == 1 and b"give the name of the file" in done.stderr


def test_views_of_lists_are_refused_by_name(tmp_path):
    for kind in (pa.list_view(pa.string_view()), pa.large_list_view(pa.int8())):
        source = write_ipc(tmp_path / "x.arrow", pa.table({"c": pa.array([[]], kind)}))
        done = run("lance", "write", tmp_path / "x.lance", source, check=False)
        assert done.returncode == 1 and b"column c" in done.stderr and b"+v" in done.stderr
        assert not (tmp_path / "x.lance" / "_versions").exists()


# ---- tables by name --------------------------------------------------------------------------------


def write_from(stdin, path, check=True):
    done = subprocess.run([str(LAKE), "lance", "write", path, "-"], capture_output=True, timeout=120,
                          env=clean_environment(None), **stdin)
    assert not check or done.returncode == 0, done.stderr.decode()
    return done


def test_what_is_written_may_come_through_a_pipe(tmp_path):
    """As a stream, and as a file whose footer comes at its end; nothing is made of a cut one."""
    rows = pa.concat_tables([rows_of(3000, 3000 * part, "2.2") for part in range(4)])
    rows = rows.set_column(5, "camera", rows["camera"].cast(pa.string()))
    texts = {}
    for name, make_writer in (("stream", pa.ipc.new_stream), ("file", pa.ipc.new_file)):
        sink = pa.BufferOutputStream()
        with make_writer(sink, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=1000)
        texts[name] = sink.getvalue().to_pybytes()
    for name, text in texts.items():
        write_from({"input": text}, str(tmp_path / f"{name}.lance"))
        assert lance.dataset(str(tmp_path / f"{name}.lance")).to_table() == rows
        (tmp_path / name).write_bytes(text)
        with open(tmp_path / name, "rb") as file:
            write_from({"stdin": file}, str(tmp_path / f"{name}2.lance"))
        assert lance.dataset(str(tmp_path / f"{name}2.lance")).to_table() == rows
        for size in (0, 5, 8, 100, len(text) // 2):
            done = write_from({"input": text[:size]}, str(tmp_path / "cut.lance"), check=False)
            assert done.returncode == 1 and done.stderr.startswith(b"lake: "), size
            assert not (tmp_path / "cut.lance" / "_versions").exists()
    run("lance", "write", tmp_path / "three.lance", tmp_path / "stream")
    piped = run("lance", "cat", tmp_path / "three.lance", "--format", "arrow").stdout
    write_from({"input": piped}, str(tmp_path / "four.lance"))
    assert lance.dataset(str(tmp_path / "four.lance")).to_table() == rows


def test_managed_tables_are_found_by_name(lake, typed):
    got = json.loads(lake.run("lance", "stat", "lab.typed", "--json").stdout)
    assert got["rows"] == typed.num_rows
    rows = lake.run("lance", "take", "lab.typed", "--rows", "7,7,0", "--columns", "id", "--format",
                    "json")
    assert json.loads(rows.stdout) == [{"id": 7}, {"id": 7}, {"id": 0}]


# ---- tags, branches, clones ------------------------------------------------------------------------


def test_tags_branches_and_shallow_clones_are_opened(tmp_path):
    path = str(tmp_path / "rows.lance")
    made = make(path, fragments=1)
    made.tags.create("first", 1)
    branch = lance.write_dataset(rows_of(50, 9000, "2.2"), made.create_branch("robots/arm"), mode="append")
    branch.delete("id < 100")
    made.delete("id > 10")
    made = lance.dataset(path)
    made.shallow_clone(str(tmp_path / "clone.lance"), made.version)
    same(arrow("lance", "cat", path, "--tag", "first"), lance.dataset(path, version="first").to_table())
    branch = made.checkout_version(("robots/arm", None))
    same(arrow("lance", "cat", path, "--branch", "robots/arm"), branch.to_table())
    same(arrow("lance", "take", path, "--rows", "5,3900,5", "--branch", "robots/arm"), branch.take([5, 3900, 5]))
    same(arrow("lance", "cat", tmp_path / "clone.lance"), made.to_table())
    assert "is whole: 11 rows" in run("lance", "verify", tmp_path / "clone.lance").stdout.decode()
    done = run("lance", "stat", path, "--branch", "none", check=False)
    assert done.returncode != 0 and b"no Lance dataset" in done.stderr
