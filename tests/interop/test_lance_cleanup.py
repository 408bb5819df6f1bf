"""Clean-up of Lance tables: what is left is what retained versions, tags and branches reach, as
pylance opens them (cases L02 to L05).
"""

import json
import os
import signal
import time

import lance
import pytest
from test_lance_operations import lake_change, run_change
from test_lance_tables import assert_agree, lake_read, lake_write, run_tool, sample

FOLDERS = ("data", "_deletions", "_indices", "_transactions", "_versions")
DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.lance"


def files_of(path, *folders):
    return {
        str(p.relative_to(path))
        for folder in folders or FOLDERS
        for p in (path / folder).rglob("*")
        if p.is_file()
    }


def age(path, *names, days=8):
    then = time.time() - days * 24 * 3600
    for name in names:
        os.utime(path / name, (then, then))


def busy_table(path):
    """12 versions: appends, deletes, an index, an update, compactions, an overwrite of a column."""
    for i in range(4):
        lake_write(sample(i * 50, 50), path, append=i > 0)
    uri = str(path)
    lance.dataset(uri).create_scalar_index("id", "BTREE")  # 5
    lake_change("delete", path, "--where", "id", "<", 20)
    lake_change("delete", path, "--where", "id", "=", 70)
    lance.dataset(uri).update({"x": "1.0"}, where="id > 180")  # 8
    lake_change("compact", path)
    lance.dataset(uri).optimize.optimize_indices()
    lake_change("delete", path, "--where", "id", "=", 71)
    lake_write(sample(200, 5), path, append=True)
    return lance.dataset(uri).version


def test_what_is_left_is_what_the_newest_version_needs(path):
    latest = busy_table(path)
    before = assert_agree(path).to_pylist()
    versions, removed, files, abandoned, grace = lake_change("cleanup", path, 0, 7 * DAY_MS)
    assert (versions, removed, abandoned, grace) == (1, latest - 1, 0, 0)
    assert assert_agree(path).to_pylist() == before
    dataset = lance.dataset(str(path))
    dataset.validate()
    data = {f"data/{f.path}" for fragment in dataset.get_fragments() for f in fragment.data_files()}
    assert files_of(path, "data") == data
    assert len(files_of(path, "_deletions")) == 1
    assert len({name.split("/")[1] for name in files_of(path, "_indices")}) == len(dataset.describe_indices()[0].segments)
    assert len(files_of(path, "_transactions")) == 1
    assert len(files_of(path, "_versions")) == 2
    assert json.loads((path / "_versions/latest_version_hint.json").read_text()) == {"version": latest}
    assert dataset.to_table(filter="id = 72").num_rows == 1
    assert lake_change("cleanup", path, 0, 7 * DAY_MS)[:3] == [1, 0, 0]
    assert lake_write(sample(300, 1), path, append=True) == latest + 1
    lance.write_dataset(sample(301, 1), str(path), mode="append")
    assert_agree(path)


def test_young_versions_and_the_newest_few_stay(path):
    for i in range(6):
        lake_write(sample(i, 1), path, append=i > 0)
    assert lake_change("cleanup", path, DAY_MS, 0)[:3] == [6, 0, 0]
    assert lake_change("cleanup", path, 0, 0, 4, "dry")[:2] == [4, 2]
    assert len(lance.dataset(str(path)).versions()) == 6
    assert lake_change("cleanup", path, 0, 0, 4)[:2] == [4, 2]
    assert [v["version"] for v in lance.dataset(str(path)).versions()] == [3, 4, 5, 6]
    for version in (3, 4, 5, 6):
        assert assert_agree(path, version).num_rows == version


def test_case_L02_a_tag_on_an_old_version_keeps_that_version_only(path):
    lake_write(sample(0, 50), path)
    lance.dataset(str(path)).tags.create("first", 1)
    for i in range(5):
        lake_write(sample(50 + i, 1), path, append=True)
    lake_change("delete", path, "--where", "id", "=", 3)
    lake_change("compact", path)
    assert lake_change("cleanup", path, 0, 7 * DAY_MS)[:2] == [2, 6]
    assert [v["version"] for v in lance.dataset(str(path)).versions()] == [1, 8]
    assert len(files_of(path, "data")) == 2 and not files_of(path, "_deletions")
    assert lance.dataset(str(path), version="first").count_rows() == 50
    assert assert_agree(path, 1).num_rows == 50 and assert_agree(path).num_rows == 54
    # a reader that last saw version 1 finds the newest over the gap, and so does a writer
    assert lake_write(sample(100, 1), path, append=True) == 9
    run_change("untag", path, "first")
    assert lake_change("cleanup", path, 0, 7 * DAY_MS)[:2] == [1, 2]
    assert len(files_of(path, "data")) == 2
    assert assert_agree(path).num_rows == 55


def test_case_L03_files_of_an_abandoned_writer_go_after_the_grace_time(path):
    lake_write(sample(0, 5), path)
    for point in ("lance.append.after_data", "lance.commit.before_manifest"):
        source = path.parent / "input.arrow"
        done = run_tool("write", path, source, "--append", env={"LAKE_FAULT": f"{point}:1:kill"})
        assert done.returncode == -signal.SIGKILL
    abandoned = sorted(files_of(path, "data", "_transactions"))
    assert len(abandoned) == 3 + 2
    assert lake_change("cleanup", path, 0, 7 * DAY_MS) == [1, 0, 0, 0, 3]
    kept = {f.path for x in lance.dataset(str(path)).get_fragments() for f in x.data_files()}
    lost = [name for name in abandoned if name.startswith("data") and name[5:] not in kept]
    age(path, lost[0])
    assert lake_change("cleanup", path, 0, 7 * DAY_MS) == [1, 0, 1, 1, 2]
    age(path, *files_of(path))
    assert lake_change("cleanup", path, 0, 7 * DAY_MS) == [1, 0, 2, 2, 0]
    assert len(files_of(path, "data", "_transactions")) == 2
    assert assert_agree(path).num_rows == 5


def test_case_L04_a_shallow_clone_of_a_tagged_version_still_reads(path, tmp_path):
    lake_write(sample(0, 50), path)
    lance.dataset(str(path)).tags.create("cloned", 1)
    clone = tmp_path / "clone.lance"
    lance.dataset(str(path)).shallow_clone(str(clone), "cloned")
    lake_change("delete", path, "--where", "id", "<", 25)
    lake_change("compact", path)
    lake_change("cleanup", path, 0, 0)
    assert lance.dataset(str(clone)).to_table().to_pylist() == sample(0, 50).to_pylist()
    assert assert_agree(path).num_rows == 25


def test_case_L05_what_is_not_the_tables_is_neither_listed_nor_removed(path):
    lake_write(sample(0, 50), path)
    lake_write(sample(50, 50), path, append=True)
    lake_change("compact", path)
    others = ["videos/x.mp4", "data/notes.txt", "data/clips/x.mp4", "_deletions/readme", "_indices/mine/x.idx",
              "_transactions/x.json", "_versions/note.manifest.bak", "tree/other/data/a.lance", "other.lance"]
    for name in others:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("mine")
        age(path, name, days=100)
    (path / "videos").chmod(0)
    try:
        assert lake_change("cleanup", path, 0, 0)[:2] == [1, 2]
    finally:
        (path / "videos").chmod(0o755)
    assert all((path / name).read_text() == "mine" for name in others)
    assert len(list((path / "data").glob("*.lance"))) == 1
    assert_agree(path)


def test_what_branches_inherit_stays(path):
    lake_write(sample(0, 50), path)
    lake_write(sample(50, 50), path, append=True)
    uri = str(path)
    branch = lance.dataset(uri).create_branch("dev/x", 2)
    lance.write_dataset(sample(200, 3), branch.uri, mode="append")
    lake_change("delete", path, "--where", "id", "<", 40)
    lake_change("compact", path)
    lake_change("cleanup", path, 0, 0)
    assert [v["version"] for v in lance.dataset(uri).versions()] == [2, 4]
    assert assert_agree(path).num_rows == 60 and assert_agree(path, 2).num_rows == 100
    rows = lance.dataset(uri).checkout_version(("dev/x", None)).to_table()
    assert rows["id"].to_pylist() == [*range(100), 200, 201, 202]


def test_what_is_not_understood_refuses_the_whole(path):
    for i in range(3):
        lake_write(sample(i, 1), path, append=i > 0)
    before = files_of(path)
    odd = path / "_refs" / "pins" / "a.json"
    odd.parent.mkdir(parents=True)
    odd.write_text("{}")
    done = run_change("cleanup", path, 0, 0)
    assert done.returncode == 1 and b"UNIMPLEMENTED" in done.stderr and b"pins" in done.stderr
    odd.unlink()
    tag = path / "_refs" / "tags" / "broken.json"
    tag.parent.mkdir(parents=True)
    tag.write_text('{"version": "x"}')
    done = run_change("cleanup", path, 0, 0)
    assert done.returncode == 1 and b"DATA_LOSS" in done.stderr
    tag.unlink()
    manifest = path / "_versions" / "18446744073709551613.manifest"
    good = manifest.read_bytes()
    manifest.write_bytes(good[:-30])
    done = run_change("cleanup", path, 0, 0)
    assert done.returncode == 1 and b"nothing is cleaned up" in done.stderr
    manifest.write_bytes(good)
    assert files_of(path) == before
    assert lake_change("cleanup", path, 0, 0)[:2] == [1, 2]


POINTS = ["after_hint:1", "after_manifest:1", "after_manifest:4", "after_manifest:11", "after_file:1", "after_file:5"]


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_step_the_table_is_whole_and_is_cleaned_by_the_next(path, point):
    latest = busy_table(path)
    before = assert_agree(path).to_pylist()
    done = run_change("cleanup", path, 0, 7 * DAY_MS, env={"LAKE_FAULT": f"lance.cleanup.{point}:kill"})
    assert done.returncode == -signal.SIGKILL
    assert assert_agree(path).to_pylist() == before
    for entry in lance.dataset(str(path)).versions():
        assert_agree(path, entry["version"])
    age(path, *files_of(path))
    lake_change("cleanup", path, 0, 7 * DAY_MS)
    assert len(files_of(path, "_versions")) == 2 and len(files_of(path, "_transactions")) == 1
    assert len(files_of(path, "data")) == sum(len(f.data_files()) for f in lance.dataset(str(path)).get_fragments())
    assert assert_agree(path).to_pylist() == before
    assert lake_write(sample(300, 1), path, append=True) == latest + 1


def test_pylance_cleans_up_after_us_and_we_after_it(path):
    import datetime

    busy_table(path)
    lance.dataset(str(path)).cleanup_old_versions(datetime.timedelta(0))
    before = assert_agree(path).to_pylist()
    assert lake_change("cleanup", path, 0, 7 * DAY_MS) == [1, 0, 0, 0, 0]
    lake_write(sample(400, 5), path, append=True)
    lake_change("cleanup", path, 0, 7 * DAY_MS)
    stats = lance.dataset(str(path)).cleanup_old_versions(datetime.timedelta(0), delete_unverified=True)
    assert stats.old_versions == 0 and stats.bytes_removed == 0
    assert lake_read(path).to_pylist()[:-5] == before
