"""Every file of the corpus with bytes changed and ends cut off: reading ends in rows or in an error that
says what is wrong, in bounded time and memory."""

import concurrent.futures
import os
import random
import subprocess

import lance_corpus
import pytest
from lake_server import SOURCE, LakeServer
from measured import run_measured
from test_lance_tables import BUILD

SMALL = 5000  # bytes of a file of which every so many are changed; of larger ones some by chance
LIMIT = 256  # MiB


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    directory = tmp_path_factory.mktemp("corpus")
    lance_corpus.make(directory)
    datasets = sorted({str(path.parent) for path in directory.rglob("_versions")})
    assert len(datasets) > 150
    return datasets


def damage(tool, datasets, step, some, seed):
    """How many readings there were and how many were refused; the peak in MiB."""
    done, peak = run_measured(tool, step, SMALL, some, seed, *datasets, timeout=7200)
    assert done.returncode == 0, (seed, done.stderr.decode()[-4000:])
    words = done.stdout.split()
    return int(words[0]), int(words[2]), peak


def test_damaged_files_are_refused_or_read(corpus):
    seed = random.randrange(1 << 30)
    readings, refused, peak = damage(BUILD / "tests" / "lance_damage_tool", corpus, 199, 4, seed)
    assert readings > 5000 and 0.2 < refused / readings < 0.9, (readings, refused)
    assert peak < LIMIT or LakeServer.is_sanitized(), (seed, peak)


@pytest.mark.soak
def test_every_byte_of_small_files_under_sanitizers(corpus):
    subprocess.run([SOURCE / "tools" / "sanitize", "build", "lance_damage_tool"], check=True)
    tool = SOURCE / "build" / "asan" / "tests" / "lance_damage_tool"
    seed = random.randrange(1 << 30)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda path: damage(tool, [path], 1, 500, seed), corpus))
    assert sum(readings for readings, _, _ in results) > 500_000
