"""Measures Lake beside its peers, one tab-separated line a measure: name, ours, peer, ratio.

    measure.py [NAME]         all measures, or those whose name starts with NAME

Ours and the peer's runs alternate; each number is the median of five or more. A ratio above 1 means
that Lake is ahead. Absolute numbers depend on the machine: only the ratio means anything.
"""
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BUILD = os.environ["LAKE_BUILD_DIR"]
HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = int(os.environ.get("BENCH_RUNS", "5"))
THREADS = os.cpu_count()
PROGRAM = {name: os.path.join(BUILD, "bench", name)
           for name in ("statements", "doget", "serve_batches", "tables", "objects", "appends")}


def line(name, ours, peer, ratio, unit):
    print(f"{name}\t{ours:.4g} {unit}\t{peer:.4g} {unit}\t{ratio:.2f}", flush=True)


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def alternate(ours, peer, runs=RUNS):
    """The medians of both, run in turn after one unmeasured run of each."""
    ours(), peer()
    samples = ([], [])
    for _ in range(runs):
        samples[0].append(ours())
        samples[1].append(peer())
    return statistics.median(samples[0]), statistics.median(samples[1])


class Process:
    """A server that prints one line when it is ready."""

    def __init__(self, *command, env=None):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL, env={**os.environ, **(env or {})})
        self.ready = self.process.stdout.readline()
        assert self.ready, f"{command[0]} did not start"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Lake(Process):
    def __init__(self, data, env=None):
        super().__init__(os.path.join(BUILD, "lake"), "up", "--data-dir", data, "--listen",
                         "127.0.0.1:0", "--json", env={"LAKE_LOG": "warn", **(env or {})})
        self.address = json.loads(self.ready)["query"]

    def lake(self, *arguments):
        return output(os.path.join(BUILD, "lake"), "--addr", self.address, *arguments)


def python_server(script, *arguments):
    server = Process(sys.executable, "-W", "ignore", os.path.join(HERE, script), *arguments)
    server.address = f"127.0.0.1:{server.ready.strip()}"
    return server


def telemetry(rows, seed=7):
    """A table like a robot's log: an episode, a clock, joints that move smoothly, a few words."""
    random = np.random.default_rng(seed)
    columns = {
        "episode": pa.array(np.arange(rows) // 5000, pa.int32()),
        "step": pa.array(np.arange(rows) % 5000, pa.int32()),
        "time": pa.array(1_700_000_000_000_000 + np.arange(rows) * 20_000
                         + random.integers(-50, 50, rows), pa.timestamp("us")),
    }
    for joint in range(7):
        walk = np.cumsum(random.normal(0, 0.01, rows))
        columns[f"position_{joint}"] = pa.array(walk, pa.float32())
        columns[f"velocity_{joint}"] = pa.array(np.gradient(walk), pa.float32())
    columns["reward"] = pa.array(random.random(rows))
    columns["camera"] = pa.array(random.choice(["wrist", "front", "top"], rows))
    columns["contact"] = pa.array(random.random(rows) < 0.1)
    return pa.table(columns)


def write_ipc(table, path, batch_rows=65536):
    with pa.OSFile(path, "wb") as out, pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)


def measure_flight_doget(work):
    path = os.path.join(work, "doubles.arrow")
    random = np.random.default_rng(1)
    write_ipc(pa.table({f"c{i}": random.random(65536 * 8) for i in range(8)}), path)
    repeat = "40"
    with Process(PROGRAM["serve_batches"], path, repeat) as server, \
            python_server("pyarrow_server.py", path, repeat) as peer:
        server.address = f"127.0.0.1:{server.ready.strip()}"
        cpu = {server: [], peer: []}

        def run(which):
            before = which.cpu_seconds()
            seconds, size = map(float, output(PROGRAM["doget"], which.address, "all"))
            gigabytes = size / 1e9
            cpu[which].append((which.cpu_seconds() - before) / gigabytes)
            return gigabytes / seconds

        ours, theirs = alternate(lambda: run(server), lambda: run(peer), max(RUNS, 7))
        line("flight_doget", ours, theirs, ours / theirs, "GB/s")
        ours, theirs = (statistics.median(cpu[which][1:]) for which in (server, peer))
        line("flight_doget_cpu", ours, theirs, theirs / ours, "CPU s/GB")


def measure_telemetry(work):
    import lance
    table = telemetry(2_000_000)
    source = os.path.join(work, "telemetry.arrow")
    write_ipc(table, source)
    counter = iter(range(1000))

    def path(kind):
        return os.path.join(work, f"{kind}-{next(counter)}.lance")

    def write_ours():
        return float(output(PROGRAM["tables"], "write", path("ours"), source)[0])

    def write_peer():
        with pa.ipc.open_stream(source) as reader:
            start = time.perf_counter()
            lance.write_dataset(reader, path("peer"))
            return time.perf_counter() - start

    ours, theirs = alternate(write_ours, write_peer)
    line("telemetry_write", 2.0 / ours, 2.0 / theirs, theirs / ours, "M rows/s")

    mine, other = path("ours"), path("peer")
    output(PROGRAM["tables"], "write", mine, source)
    lance.write_dataset(table, other)

    def scan_ours(which):
        seconds, rows = output(PROGRAM["tables"], "scan", which, str(THREADS))
        assert int(rows) == table.num_rows, rows
        return float(seconds)

    def scan_peer(which):
        dataset = lance.dataset(which)
        start = time.perf_counter()
        rows = sum(batch.num_rows for batch in dataset.to_batches())
        assert rows == table.num_rows, rows
        return time.perf_counter() - start

    ours, theirs = alternate(lambda: scan_ours(mine), lambda: scan_peer(other))
    line("telemetry_scan", 2.0 / ours, 2.0 / theirs, theirs / ours, "M rows/s")
    ours, theirs = alternate(lambda: scan_ours(other), lambda: scan_peer(other))
    line("telemetry_scan_peer_file", 2.0 / ours, 2.0 / theirs, theirs / ours, "M rows/s")
    sizes = [sum(os.path.getsize(os.path.join(root, name)) for root, _, names in os.walk(which)
                 for name in names) / table.num_rows for which in (mine, other)]
    line("telemetry_bytes", *sizes, sizes[1] / sizes[0], "bytes/row")


def measure_verified_read(work):
    path = os.path.join(work, "object.bin")
    with open(path, "wb") as out:
        block = os.urandom(1 << 24)
        for _ in range(64):
            out.write(block)
    with Lake(os.path.join(work, "objects")) as lake:
        location = output(PROGRAM["objects"], "put", lake.address, path)
        stored = location[0].removeprefix("file://")

        def ours():
            seconds, size = map(float, output(PROGRAM["objects"], "read", lake.address, *location))
            return size / seconds / 1e9

        def peer():
            start = time.perf_counter()
            output("sha256sum", stored)
            return os.path.getsize(stored) / (time.perf_counter() - start) / 1e9

        ours_rate, peer_rate = alternate(ours, peer)
    line("verified_read", ours_rate, peer_rate, ours_rate / peer_rate, "GB/s")


def measure_small_statement(work):
    parquet = os.path.join(work, "frames.parquet")
    pq.write_table(telemetry(5000), parquet)
    many = {"LAKE_QUERY_MAX_CONCURRENT_PER_TENANT": "64", "LAKE_QUERY_QUEUE_TIMEOUT_MS": "5000"}
    sql = "SELECT episode, step, reward FROM robots.frames WHERE step < 10 ORDER BY step"
    with Lake(os.path.join(work, "small"), many) as lake, \
            python_server("standin.py", parquet) as peer:
        lake.lake("import", "robots.frames", parquet, "--create")
        for connections in (1, 16):
            def run(which, connections=connections):
                rate, _ = output(PROGRAM["statements"], which.address, sql, str(connections), "2")
                return float(rate)

            ours, theirs = alternate(lambda: run(lake), lambda: run(peer))
            line(f"small_statement_{connections}", ours, theirs, ours / theirs, "pairs/s")


def measure_append_single(work):
    import lance
    count = 1000
    counts = {}
    shim = os.path.join(BUILD, "bench", "fsync_count.so")

    def syncs(name, process=None):
        path = os.path.join(work, f"{name}.syncs")
        if process is not None:
            process.process.send_signal(signal.SIGUSR1)
            time.sleep(0.2)
        with open(path) as number:
            return int(number.read())

    peer_script = (
        "import sys, time, lance, pyarrow as pa\n"
        "path, count = sys.argv[1], int(sys.argv[2])\n"
        "schema = pa.schema([('id', pa.int64()), ('value', pa.float64())])\n"
        "lance.write_dataset(schema.empty_table(), path)\n"
        "start = time.perf_counter()\n"
        "for i in range(count):\n"
        "    lance.write_dataset(pa.table({'id': [i], 'value': [i / 2]}, schema), path,\n"
        "                        mode='append')\n"
        "print(time.perf_counter() - start)\n")
    numbers = iter(range(1000))
    env = {"LD_PRELOAD": shim, "FSYNC_COUNT_FILE": os.path.join(work, "ours.syncs")}
    with Lake(os.path.join(work, "appends"), env) as lake:
        def ours():
            table = f"bench.t{next(numbers)}"
            lake.lake("table", "create", table, "--column", "id:int64", "--column", "value:double")
            before = syncs("ours", lake)
            seconds = float(output(PROGRAM["appends"], lake.address, table, str(count))[0])
            counts["ours"] = (syncs("ours", lake) - before) / count
            return count / seconds

        def peer():
            result = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", peer_script,
                 os.path.join(work, f"peer-{next(numbers)}.lance"), str(count)],
                check=True, capture_output=True, text=True,
                env={**os.environ, "LD_PRELOAD": shim,
                     "FSYNC_COUNT_FILE": os.path.join(work, "peer.syncs")})
            counts["peer"] = syncs("peer") / count
            return count / float(result.stdout)

        rate, peer_rate = alternate(ours, peer, int(os.environ.get("BENCH_RUNS", "5")))
    line("append_single", rate, peer_rate, rate / peer_rate, "appends/s")
    line("append_single_fsyncs", counts["ours"], counts["peer"],
         counts["peer"] / max(counts["ours"], 1e-9), "fsyncs/append")


MEASURES = {
    "flight_doget": measure_flight_doget,
    "telemetry": measure_telemetry,
    "verified_read": measure_verified_read,
    "small_statement": measure_small_statement,
    "append_single": measure_append_single,
}


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [run for name, run in MEASURES.items()
              if name.startswith(wanted) or (wanted and wanted.startswith(name))]
    if not chosen:
        sys.exit(f"there is no measure {wanted}; there are: {', '.join(MEASURES)}")
    print("name\tours\tpeer\tratio", flush=True)
    for run in chosen:
        with tempfile.TemporaryDirectory(prefix="lake-bench.") as work:
            run(work)


main()
