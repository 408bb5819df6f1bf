"""Measures Lake beside its peers, one tab-separated line a measure: name, ours, peer, ratio.

    measure.py [NAME]         all measures, or those whose name starts with NAME

Ours and the peer's runs alternate; each number is the median of five or more. A ratio above 1 means
that Lake is ahead. Absolute numbers depend on the machine: only the ratio means anything.
"""
import itertools
import json
import os
import shutil
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
           for name in ("statements", "doget", "serve_batches", "tables", "objects", "appends",
                        "takes", "aggregate")}


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
        """Of all its threads, also those that have ended; to the nanosecond, not to the tick."""
        return time.clock_gettime(~self.process.pid << 3 | 2)


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
    """A table like a robot's log: an episode, a clock that trembles, joints that move smoothly under
    the noise of their sensors, a reward that falls with the episode, a few words.

    For scale, in bytes a row: pylance 65 by default, Parquet 62 with Zstandard and 38 when each
    column's encoding is chosen by hand as well."""
    random = np.random.default_rng(seed)
    clock = np.arange(rows)
    columns = {
        "episode": pa.array(clock // 5000, pa.int32()),
        "step": pa.array(clock % 5000, pa.int32()),
        "time": pa.array(1_700_000_000_000_000 + clock * 20_000
                         + random.integers(-50, 50, rows), pa.timestamp("us")),
    }
    for joint in range(7):
        rate = 0.02 * random.uniform(0.5, 2)
        for name, wave, noise in (("position", np.sin, 3e-4), ("velocity", np.cos, 1e-3)):
            smooth = wave(clock * rate) * random.uniform(0.5, 2)
            columns[f"{name}_{joint}"] = pa.array(smooth + random.normal(0, noise, rows),
                                                  pa.float32())
    columns["reward"] = pa.array(np.round(np.exp(-(clock % 5000) / 1000), 3))
    columns["camera"] = pa.array(random.choice(["wrist", "front", "top"], rows))
    columns["contact"] = pa.array(random.random(rows) < 0.1)
    return pa.table(columns)


def floats(rows, seed=3):
    random = np.random.default_rng(seed)
    columns = {f"f{i}": pa.array(random.standard_normal(rows, np.float32)) for i in range(8)}
    columns["id"] = pa.array(random.integers(0, 1 << 62, rows))
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


class DuckdbWithLance:
    """The other reader of Lance: DuckDB with its extension, on as many threads."""

    def __init__(self):
        import duckdb
        import duckdb_extension_lance
        folder = os.path.join(os.path.dirname(duckdb_extension_lance.__file__), "extensions",
                              f"v{duckdb.__version__}", "lance.duckdb_extension")
        self.connection = duckdb.connect(config={"threads": THREADS})
        self.connection.execute(f"LOAD '{folder}'")

    def run(self, sql):
        """Seconds, and how many rows came as Arrow batches."""
        start = time.perf_counter()
        batches = self.connection.execute(sql).fetch_record_batch(65536)
        rows = sum(batch.num_rows for batch in batches)
        return time.perf_counter() - start, rows


class LanceTables:
    """One table written by Lake and by pylance in turn, and scanned in turn. What is read is
    compared with the faster of pylance and DuckDB's extension, both on pylance's file."""

    def __init__(self, work, name, table):
        self.work, self.name, self.table = work, name, table
        self.million = table.num_rows / 1e6
        self.source = os.path.join(work, f"{name}.arrow")
        self.numbers = iter(range(1000))
        self.duckdb = DuckdbWithLance()
        write_ipc(table, self.source, 32768)

    def path(self, kind):
        return os.path.join(self.work, f"{self.name}-{kind}-{next(self.numbers)}.lance")

    def write_ours(self, profile, path=None):
        path = path or self.path(profile)
        seconds = float(output(PROGRAM["tables"], "write", path, self.source, profile)[0])
        return path, seconds

    def write_peer(self, schema=None):
        import lance
        path = self.path("pylance")
        with pa.ipc.open_stream(self.source) as reader:
            batches = reader if schema is None else pa.RecordBatchReader.from_batches(
                schema, (batch.cast(schema) for batch in reader))
            start = time.perf_counter()
            lance.write_dataset(batches, path)
            return path, time.perf_counter() - start

    def scan_ours(self, path):
        seconds, rows = output(PROGRAM["tables"], "scan", path, str(THREADS))
        assert int(rows) == self.table.num_rows, rows
        return float(seconds)

    def scan_peer(self, path):
        import lance
        dataset = lance.dataset(path)
        start = time.perf_counter()
        rows = sum(batch.num_rows for batch in dataset.to_batches())
        assert rows == self.table.num_rows, rows
        seconds = time.perf_counter() - start
        other_seconds, rows = self.duckdb.run(f"FROM '{path}'")
        assert rows == self.table.num_rows, rows
        return min(seconds, other_seconds)

    def scans(self, name, mine, other):
        ours, theirs = alternate(lambda: self.scan_ours(mine), lambda: self.scan_peer(other))
        line(name, self.million / ours, self.million / theirs, theirs / ours, "M rows/s")

    def bytes_a_row(self, path):
        return sum(os.path.getsize(os.path.join(root, name)) for root, _, names in os.walk(path)
                   for name in names) / self.table.num_rows

    def sizes(self, name, mine, other):
        ours, theirs = self.bytes_a_row(mine), self.bytes_a_row(other)
        line(name, ours, theirs, theirs / ours, "bytes/row")


def measure_telemetry(work):
    tables = LanceTables(work, "telemetry", telemetry(5_000_000))

    def timed(write):
        path, seconds = write()
        shutil.rmtree(path)
        return seconds

    for profile in ("fast", "balanced", "small"):
        ours, theirs = alternate(lambda profile=profile: timed(lambda: tables.write_ours(profile)),
                                 lambda: timed(tables.write_peer))
        suffix = "" if profile == "fast" else f"_{profile}"
        line(f"telemetry_write{suffix}", tables.million / ours, tables.million / theirs,
             theirs / ours, "M rows/s")

    asked = {"lance-encoding:compression": "zstd", "lance-encoding:bss": "on"}
    schema = pa.schema([
        field.with_metadata(asked) if pa.types.is_floating(field.type) else field
        for field in tables.table.schema])
    peer, peer_split = tables.write_peer()[0], tables.write_peer(schema)[0]
    for profile in ("fast", "balanced", "small"):
        mine = tables.write_ours(profile)[0]
        tables.scans(f"telemetry_scan_{profile}", mine, peer)
        tables.sizes(f"telemetry_bytes_{profile}", mine, peer)
        if profile != "fast":
            tables.scans(f"telemetry_scan_{profile}_zstd", mine, peer_split)
            tables.sizes(f"telemetry_bytes_{profile}_zstd", mine, peer_split)
        if profile != "balanced":
            shutil.rmtree(mine)
    tables.scans("telemetry_scan_peer_file", peer, peer)


def texts(rows, seed=5):
    """Strings as robots' logs have them: sentences, documents, names of files, lines of a log."""
    random = np.random.default_rng(seed)
    words = np.array("the a red blue green block cup pick up put down place on left table shelf arm "
                     "robot gripper open close move slowly camera wrist lift stack drawer".split())
    noise = random.standard_normal((rows, 3))
    return pa.table({
        "sentence": [" ".join(some) for some in words[random.integers(0, len(words), (rows, 9))]],
        "document": [json.dumps({"step": i, "pose": [round(x, 3) for x in pose], "ok": pose[0] > 0})
                     for i, pose in enumerate(noise.tolist())],
        "file": [f"s3://bucket/robot-{i % 7}/episode_{i // 500:06d}/frame_{i % 500:04d}.jpg"
                 for i in range(rows)],
        "log": [f"T12:{i // 60 % 60:02d}:{i % 60:02d}Z INFO joint {i % 7} torque={x:.2f} Nm"
                for i, x in enumerate(noise[:, 1].tolist())],
    })


def measure_texts(work):
    tables = LanceTables(work, "texts", texts(1_000_000))
    peer, mine = tables.write_peer()[0], tables.write_ours("balanced")[0]
    tables.scans("texts_scan_balanced", mine, peer)
    tables.sizes("texts_bytes_balanced", mine, peer)


def measure_filter(work):
    """The filtered column and the time of the rows that pass: without an index one episode of a
    thousand, whose rows lie together, and one row of a hundred, which lie everywhere; with the same
    BTree ten rows of all."""
    import lance
    tables = LanceTables(work, "telemetry", telemetry(5_000_000))
    mine, other = tables.write_ours("balanced")[0], tables.write_peer()[0]
    high, highest = np.quantile(tables.table["velocity_3"].to_numpy(), (0.99, 1 - 2e-6)).tolist()
    for name, column, sign, value in (("filter_clustered", "episode", "=", 617),
                                      ("filter_unclustered", "velocity_3", ">", high),
                                      ("filter_btree", "velocity_3", ">", highest)):
        if name == "filter_btree":
            for path in (mine, other):
                lance.dataset(path).create_scalar_index(column, "BTREE")

        def ours(column=column, sign=sign, value=value):
            seconds, rows = output(PROGRAM["tables"], "scan", mine, str(THREADS), column, sign,
                                   repr(value), "time")
            found.add(int(rows))
            return float(seconds) * 1e3

        def peer(column=column, sign=sign, value=value):
            dataset = lance.dataset(other)
            start = time.perf_counter()
            rows = dataset.to_table(columns=[column, "time"],
                                    filter=f"{column} {sign} {value!r}")
            found.add(rows.num_rows)
            seconds = time.perf_counter() - start
            other_seconds, rows = tables.duckdb.run(
                f"SELECT {column}, time FROM '{other}' WHERE {column} {sign} {value!r}")
            found.add(rows)
            return min(seconds, other_seconds) * 1e3

        found = set()
        mine_ms, other_ms = alternate(ours, peer)
        assert len(found) == 1, found
        line(name, mine_ms, other_ms, other_ms / mine_ms, "ms")


def measure_sql_aggregate(work):
    """Groups of telemetry: Lake's engine against DuckDB with the extension, both in process. The
    extension has more threads than there are processors, so when other programs run, too, only what
    both take of the processors means anything."""
    tables = LanceTables(work, "telemetry", telemetry(5_000_000))
    mine, other = tables.write_ours("balanced")[0], tables.write_peer()[0]
    sql = ("SELECT episode, count(*), sum(reward), avg(velocity_3), max(position_1) "
           "FROM {} GROUP BY episode")
    cpu_ms = ([], [])

    def ours():
        ms, used_ms, rows = output(PROGRAM["aggregate"], mine, sql.format("t"), "3")
        assert int(rows) == 1000, rows
        cpu_ms[0].append(float(used_ms))
        return float(ms)

    def peer():
        started = time.process_time()
        samples = [tables.duckdb.run(sql.format(f"'{other}'")) for _ in range(3)]
        cpu_ms[1].append((time.process_time() - started) * 1e3 / 3)
        assert {rows for _, rows in samples} == {1000}, samples
        return statistics.mean(seconds for seconds, _ in samples) * 1e3

    mine_ms, other_ms = alternate(ours, peer)
    line("sql_aggregate", mine_ms, other_ms, other_ms / mine_ms, "ms")
    mine_ms, other_ms = (statistics.median(samples[1:]) for samples in cpu_ms)
    line("sql_aggregate_cpu", mine_ms, other_ms, other_ms / mine_ms, "CPU ms")


def measure_take(work):
    """Random rows, all columns, of the files that each writes by default."""
    import lance
    tables = LanceTables(work, "telemetry", telemetry(5_000_000))
    mine, other = tables.write_ours("balanced")[0], tables.write_peer()[0]
    dataset = lance.dataset(other)
    random = np.random.default_rng(5)
    for rows, count in ((1000, 5), (1, 100)):
        def ours(rows=rows, count=count):
            return float(output(PROGRAM["takes"], mine, str(rows), str(count))[0])

        def peer(rows=rows, count=count):
            chosen = [random.integers(0, tables.table.num_rows, rows).tolist()
                      for _ in range(count)]
            start = time.perf_counter()
            for offsets in chosen:
                assert dataset.take(offsets).num_rows == rows
            return count / (time.perf_counter() - start)

        ours_rate, peer_rate = alternate(ours, peer)
        line(f"take_{rows}", ours_rate, peer_rate, ours_rate / peer_rate, "takes/s")


def measure_floats(work):
    tables = LanceTables(work, "floats", floats(10_000_000))
    tables.scans("floats_scan", tables.write_ours("balanced")[0], tables.write_peer()[0])


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
    columns = "SELECT episode, step, reward FROM robots.frames"
    statements = {
        "small_statement": f"{columns} WHERE step < 10 ORDER BY step",
        "small_statement_distinct": f"{columns} WHERE step >= {{}} AND step < {{}} + 10 ORDER BY step",
    }
    with Lake(os.path.join(work, "small"), many) as lake, \
            python_server("standin.py", parquet) as peer:
        lake.lake("import", "robots.frames", parquet, "--create")
        for name, connections in itertools.product(statements, (1, 16)):
            def run(which, sql=statements[name], connections=connections):
                rate, _ = output(PROGRAM["statements"], which.address, sql, str(connections), "2")
                return float(rate)

            ours, theirs = alternate(lambda: run(lake), lambda: run(peer))
            line(f"{name}_{connections}", ours, theirs, ours / theirs, "pairs/s")


PEER_APPENDS = """
import sys, time, lance, pyarrow as pa
path, count = sys.argv[1], int(sys.argv[2])
schema = pa.schema([('id', pa.int64()), ('value', pa.float64())])
lance.write_dataset(schema.empty_table(), path)
start = last = time.perf_counter()
for i in range(count):
    if i == count - 100:
        last = time.perf_counter()
    lance.write_dataset(pa.table({'id': [i], 'value': [i / 2]}, schema), path, mode='append')
    if i == 99:
        first = time.perf_counter() - start
end = time.perf_counter()
print(end - start, first, end - last)
"""


def our_appends(lake, table, count):
    """The seconds of all, of the first hundred and of the last hundred."""
    lake.lake("table", "create", table, "--column", "id:int64", "--column", "value:double")
    return list(map(float, output(PROGRAM["appends"], lake.address, table, str(count))))


def peer_appends(path, count, env=None):
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", PEER_APPENDS, path, str(count)],
                            check=True, capture_output=True, text=True,
                            env={**os.environ, **(env or {})})
    return list(map(float, result.stdout.split()))


def measure_append_single(work):
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

    numbers = iter(range(1000))
    env = {"LD_PRELOAD": shim, "FSYNC_COUNT_FILE": os.path.join(work, "ours.syncs")}
    with Lake(os.path.join(work, "appends"), env) as lake:
        def ours():
            before = syncs("ours", lake)
            seconds = our_appends(lake, f"bench.t{next(numbers)}", count)[0]
            counts["ours"] = (syncs("ours", lake) - before) / count
            return count / seconds

        def peer():
            path = os.path.join(work, f"peer-{next(numbers)}.lance")
            seconds = peer_appends(path, count, {"LD_PRELOAD": shim, "FSYNC_COUNT_FILE":
                                                 os.path.join(work, "peer.syncs")})[0]
            counts["peer"] = syncs("peer") / count
            return count / seconds

        rate, peer_rate = alternate(ours, peer, int(os.environ.get("BENCH_RUNS", "5")))
    line("append_single", rate, peer_rate, rate / peer_rate, "appends/s")
    line("append_single_fsyncs", counts["ours"], counts["peer"],
         counts["peer"] / max(counts["ours"], 1e-9), "fsyncs/append")


def measure_append_growth(work):
    """How many times as fast the first hundred of 5,000 appends are as the last hundred, which
    should not be more than 1.5: for append_growth the last column is the reverse of ours, so that
    more is better there too, and 0.67 is enough. The peer grows for all it takes, so it runs once.
    """
    count = 5000
    runs = []
    with Lake(os.path.join(work, "growth")) as lake:
        our_appends(lake, "bench.warm", 200)
        peer_appends(os.path.join(work, "warm.lance"), 200)
        for i in range(int(os.environ.get("BENCH_RUNS", "3"))):
            runs.append(our_appends(lake, f"bench.t{i}", count))
    peer = peer_appends(os.path.join(work, "peer.lance"), count)
    growth = statistics.median(last / first for _, first, last in runs)
    line("append_growth", growth, peer[2] / peer[1], 1 / growth, "x")


def measure_s3(work):
    import s3  # only here: it needs the S3 server and its clients
    s3.measure(work, Lake, PROGRAM, line, RUNS)


MEASURES = {
    "flight_doget": measure_flight_doget,
    "telemetry": measure_telemetry,
    "texts": measure_texts,
    "filter": measure_filter,
    "take": measure_take,
    "sql_aggregate": measure_sql_aggregate,
    "floats": measure_floats,
    "verified_read": measure_verified_read,
    "s3_": measure_s3,
    "small_statement": measure_small_statement,
    "append_single": measure_append_single,
    "append_growth": measure_append_growth,
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
