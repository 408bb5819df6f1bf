"""Writers killed with SIGKILL at every step of a durable append, and at random moments: after
`lake client pending resume --all` each acknowledged row is there exactly once, no other row twice,
and nothing is pending (SDK-5). pylance, not Lake, reads the tables."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import lance
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from lake_server import LAKE, LakeServer, clean_environment  # noqa: E402

STEPS = {  # where the writer dies: whether its row must be there after resuming
    "client.append.begun": False,
    "client.append.written": False,
    "client.append.renamed": True,
    "client.append.kept": True,
    "client.append.answered": True,
    "client.append.settled": True,
}


class Writers:
    def __init__(self, server, tmp_path):
        self.server = server
        self.marks = tmp_path / "marks"
        self.env = {"LAKE_UPLOAD_CHECKPOINT_DIR": self.marks}
        server.run("table", "create", "crash.t", "--column", "id:int64!")

    def start(self, number, fault=None):
        env = clean_environment({**self.env, **({"LAKE_FAULT": fault} if fault else {})})
        return subprocess.Popen(
            [str(LAKE), "put", "--into", "crash.t", "--set", f"id={number}", "--data-dir",
             str(self.server.data_dir)], env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def pending(self):
        done = self.server.run("client", "pending", "--json", env=self.env)
        return json.loads(done.stdout)["pending"]

    def resume(self):
        done = self.server.run("client", "pending", "resume", "--all", "--json", env=self.env)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def rows(self):
        described = self.server.run("table", "describe", "crash.t", "--json")
        location = json.loads(described.stdout)["location"].removeprefix("file://")
        return sorted(lance.dataset(location).to_table()["id"].to_pylist())


def test_a_kill_at_every_step_loses_and_doubles_nothing(tmp_path):
    with LakeServer(tmp_path / "data") as server:
        writers = Writers(server, tmp_path)
        expected = []
        for number, (step, kept) in enumerate(STEPS.items()):
            writer = writers.start(number, f"{step}:1:kill")
            stderr = writer.communicate(timeout=60)[1]
            assert writer.returncode == -signal.SIGKILL, (step, stderr)
            assert len(writers.pending()) == (kept and step != "client.append.settled"), step
            writers.resume()
            expected += [number] if kept else []
            assert writers.rows() == expected, step
            assert list(writers.marks.iterdir()) == [], step


def test_one_append_is_sent_by_one_process(tmp_path):
    with LakeServer(tmp_path / "data") as server:
        writers = Writers(server, tmp_path)
        writer = writers.start(7, "client.append.kept:1:stop-3000")
        deadline = time.monotonic() + 30
        while not list(writers.marks.glob("*.append")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        pending = writers.pending()
        assert len(pending) == 1
        for verb in ("resume", "drop"):
            refused = server.run("client", "pending", verb, pending[0], "--json", check=False,
                                 env=writers.env)
            assert refused.returncode == 1
            assert json.loads(refused.stderr)["error"] == "FAILED_PRECONDITION", refused.stderr
        stderr = writer.communicate(timeout=60)[1]
        assert writer.returncode == 0, stderr
        assert writers.pending() == []
        assert writers.rows() == [7]


def test_each_append_that_is_not_resumed_is_named(tmp_path):
    with LakeServer(tmp_path / "data") as server:
        writers = Writers(server, tmp_path)
        for number in range(3):
            writers.start(number, "client.append.kept:1:kill").communicate(timeout=60)
        damaged = writers.pending()[:2]
        for name in damaged:
            with open(writers.marks / f"{name}.append", "r+b") as file:
                file.truncate(50)
        done = server.run("client", "pending", "resume", "--all", "--json", env=writers.env, check=False)
        assert done.returncode == 1 and done.stdout.count("\n") == 1
        said = [json.loads(line) for line in done.stderr.splitlines()]
        assert [error["error"] for error in said] == ["DATA_LOSS"] * 2
        assert [error["message"].split(":")[0] for error in said] == damaged
        assert writers.pending() == damaged and writers.rows() == [2]


def run_random_kills(tmp_path, rounds):
    seed = int(os.environ.get("LAKE_TEST_SEED", time.time_ns() % 10**6))
    print(f"LAKE_TEST_SEED={seed}")
    dice = random.Random(seed)
    acknowledged, killed = set(), 0
    with LakeServer(tmp_path / "data") as server:
        writers = Writers(server, tmp_path)
        for number in range(rounds):
            writer = writers.start(number)
            try:
                stderr = writer.communicate(timeout=dice.uniform(0.02, 0.25))[1]
                assert writer.returncode == 0, stderr
                acknowledged.add(number)
            except subprocess.TimeoutExpired:
                writer.kill()
                writer.communicate()
                killed += 1
            if dice.random() < 0.2:
                writers.resume()
        kept = {path.name for path in writers.marks.glob("*.append")} if killed else set()
        assert len(writers.resume()) == len(kept)
        rows = writers.rows()
        assert len(rows) == len(set(rows)), rows
        assert acknowledged <= set(rows) <= set(range(rounds))
        assert writers.pending() == [] and list(writers.marks.iterdir()) == []
        print(f"{killed} of {rounds} writers killed, {len(rows)} rows")


def test_kills_at_random_moments_lose_and_double_nothing(tmp_path):
    run_random_kills(tmp_path, 20)


@pytest.mark.soak
def test_a_thousand_kills_lose_and_double_nothing(tmp_path):
    run_random_kills(tmp_path, 1000)
