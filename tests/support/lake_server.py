"""`lake up` as a child process, and the command line beside it."""

import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from pylance_check import check_tables

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("LAKE_BUILD_DIR") or SOURCE / "build" / "release")
LAKE = BUILD / "lake"
START_SECONDS = 60
STOP_SECONDS = 60


def clean_environment(extra=None):
    """The caller's environment without its own Lake settings, plus `extra`."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("LAKE_")}
    env.update({key: str(value) for key, value in (extra or {}).items()})
    return env


class LakeServer:
    """One running `lake up` on a data directory; a context manager that checks how it ends."""

    def __init__(self, data_dir, env=None, listen="127.0.0.1:0"):
        if not LAKE.exists():
            raise RuntimeError(f"{LAKE} is missing: build it with `make`, or name the build's "
                               "directory by LAKE_BUILD_DIR")
        self.data_dir = pathlib.Path(data_dir)
        self.env = clean_environment(env)
        # The suite keeps all logs until its end, where they are searched for secrets.
        self.log = tempfile.NamedTemporaryFile(prefix="lake-up-", suffix=".log", delete=False,
                                               dir=os.environ.get("LAKE_TEST_LOGS"))
        self.process = subprocess.Popen(
            [str(LAKE), "up", "--data-dir", str(data_dir), "--listen", listen, "--json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, env=self.env)
        ready, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"lake up did not start (exit {self.process.returncode}):\n"
                               + self.log_text())
        self.address = json.loads(line)["query"]

    @property
    def pid(self):
        return self.process.pid

    def log_text(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def log_messages(self):
        return [json.loads(line) for line in self.log_text().splitlines() if line.startswith("{")]

    def status(self, field):
        """A number of /proc/PID/status: VmRSS (KiB), Threads."""
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1])
        raise KeyError(field)

    @staticmethod
    def is_sanitized():
        """Freed memory waits in the sanitizer's quarantine: what is resident says little."""
        return b"__asan_init" in LAKE.read_bytes()

    def descriptor_count(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def run(self, *arguments, check=True, env=None):
        """`lake ARGUMENTS… --data-dir …`: finds the server by its data directory."""
        done = subprocess.run([str(LAKE), *map(str, arguments), "--data-dir", str(self.data_dir)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120, env=clean_environment(env))
        if "LAKE_TEST_LOGS" in os.environ:
            with open(pathlib.Path(os.environ["LAKE_TEST_LOGS"]) / "commands.log", "a") as out:
                out.write(done.stderr)
        if check and done.returncode != 0:
            raise RuntimeError(f"lake {' '.join(map(str, arguments))} ended with "
                               f"{done.returncode}: {done.stderr}")
        return done

    def stop(self):
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"lake up did not end within {STOP_SECONDS} s of SIGTERM:\n"
                               + self.log_text()) from None
        finally:
            self.process.stdout.close()
            self.log.close()
        return code

    def check_with_pylance(self):
        """pylance reads every table that is here, and Lake still reads it afterwards."""
        for namespace, table, version, rows, names in check_tables(self.data_dir):
            described = self.run("table", "describe", f"{namespace}.{table}", "--json", check=False)
            if described.returncode != 0:
                continue  # dropped meanwhile, or hidden from this caller
            info = json.loads(described.stdout)
            if info["version"] != version:
                continue  # somebody else wrote since
            assert [column["name"] for column in info["columns"]] == names, (table, names)
            quoted = f'"{namespace}"."{table}"'
            counted = self.run("sql", f"SELECT count(*) AS n FROM {quoted}", "--json")
            assert json.loads(counted.stdout) == [{"n": rows}], (table, rows, counted.stdout)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            if kind is None and self.process.poll() is None:
                self.check_with_pylance()
        finally:
            code = self.stop()
        if code != 0 and kind is None:
            raise AssertionError(f"lake up ended with {code}:\n" + self.log_text())
        if "LAKE_TEST_LOGS" not in os.environ:
            os.unlink(self.log.name)
