"""docs/objects.md and docs/lance.md name the tests of what must hold: they exist, and those for both S3
servers run on both."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = [f"L{n:02}" for n in range(2, 24) if n != 10]


def rows_of(page):
    """What stands in the rows of three cells: the first, with the tests in the last."""
    lines = (ROOT / "docs" / page).read_text().splitlines()
    return {cells[1].strip(): cells[3] for cells in (line.split("|") for line in lines)
            if len(cells) == 5 and "`" in cells[3]}


OBJECTS, LANCE = rows_of("objects.md"), rows_of("lance.md")


def named_in(cell):
    """Pairs of file and test of a cell; what stands in brackets is a unit test that the one before runs."""
    path = None
    for inside, word in re.findall(r"(\([^)]*\))|`([^`]+)`", cell):
        if inside:
            yield from ((ROOT / "tests" / "unit" / "client", name)
                        for name in re.findall(r"`([^`]+)`", inside))
        elif "/" in word:
            path = ROOT / "tests" / word
        else:
            yield path, word


def defines(path, name):
    texts = [path.read_text()] if path.is_file() else [f.read_text() for f in path.glob("*_test.c")]
    pattern = rf"^(def {name}\(|static void {name}\(void|check {name} )"
    return any(re.search(pattern, text, re.MULTILINE) for text in texts)


def test_every_requirement_has_its_row():
    assert list(OBJECTS) == [f"OBJ-{n}" for n in range(1, 9)] + [f"SDK-{n}" for n in range(1, 8)]
    assert [row for row in LANCE if row.startswith("L")] == CASES


@pytest.mark.parametrize("cell", [*OBJECTS.values(), *LANCE.values()], ids=[*OBJECTS, *LANCE])
def test_every_test_is_there(cell):
    found = list(named_in(cell))
    assert found
    missing = [(path, name) for path, name in found if not defines(path, name)]
    assert missing == []


def test_what_is_for_both_servers_runs_on_both():
    wanted = {(path.name, name) for cell in OBJECTS.values() if "**both:**" in cell
              for path, name in named_in(cell.split("**both:**")[1].split("<br>")[0])
              if path.suffix == ".py" and path.parent.name != "python"}
    assert len(wanted) > 20
    files = sorted({file for file, _ in wanted})
    paths = [path for file in files for path in (ROOT / "tests").glob(f"*/{file}")]
    done = subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-q", "-p",
                           "no:cacheprovider", *map(str, paths)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    ids = re.findall(r"/(test_\w+\.py)::(\w+)\[(.*)\]", done.stdout)
    for file, name in wanted:
        on = {server for server in ("versitygw", "weed") for f, n, given in ids
              if (f, n) == (file, name) and server in given.split("-")}
        assert on == {"versitygw", "weed"}, (file, name, on)
