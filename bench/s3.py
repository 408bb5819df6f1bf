"""Lake's objects in S3 beside what a user would take instead, on one server of this machine.

Every line is followed by one of CPU seconds per GiB (`…_cpu`, smaller is better). `…_floor` is the
slower of the least that must be done: plain curl, and sha256sum of the bytes.
"""
import os
import random
import resource
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "support"))
from s3_servers import ACCESS_KEY, BUCKET, SECRET_KEY, VersityGW  # noqa: E402

GIB = 1 << 30
SEEKS, SEEK_BYTES = 100, 65536


class Measured:
    """Seconds and CPU seconds of child processes; each call is one child."""

    def __init__(self, *command, env):
        self.command, self.env, self.seconds, self.cpu = command, env, [], []

    def __call__(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        done = subprocess.run(self.command, env=self.env, capture_output=True, text=True)
        took = time.perf_counter() - start
        assert done.returncode == 0, done.stderr
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.seconds.append(took)
        self.cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        self.stdout = done.stdout

    def median(self, values):
        return sorted(values)[len(values) // 2]


BOTO = """
import boto3, sys
s3 = boto3.client("s3", endpoint_url=sys.argv[1])
what, key, path = sys.argv[2:5]
if what == "up": s3.upload_file(path, "%(bucket)s", key)
else: s3.download_file("%(bucket)s", key, path)
""" % {"bucket": BUCKET}
S3FS = """
import s3fs, sys, random, time
fs = s3fs.S3FileSystem(endpoint_url=sys.argv[1])
what, key, path = sys.argv[2:5]
name = "%(bucket)s/" + key
if what == "up": fs.put(path, name)
elif what == "down": fs.get(name, path)
else:
    places = random.Random(9)
    with fs.open(name, "rb") as file:
        size = file.size
        for _ in range(%(seeks)d):
            file.seek(places.randrange(size - %(bytes)d))
            assert len(file.read(%(bytes)d)) == %(bytes)d
""" % {"bucket": BUCKET, "seeks": SEEKS, "bytes": SEEK_BYTES}


class Bench:
    def __init__(self, work, lake_class, program, line, runs):
        self.work, self.Lake, self.program, self.line, self.runs = \
            work, lake_class, program, line, runs
        self.path = os.path.join(work, "object.bin")
        self.size = int(os.environ.get("BENCH_S3_BYTES", GIB))
        with open(self.path, "wb") as out:
            for _ in range(self.size >> 24):
                out.write(random.randbytes(1 << 24))

    def environment(self, server):
        env = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        return {**env, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL_S3": server.endpoint,
                "AWS_EC2_METADATA_DISABLED": "true", "no_proxy": "127.0.0.1"}

    def report(self, name, ours, peers, floors=()):
        """One unmeasured run of each, then in turn."""
        everyone = [ours, *peers, *floors]
        for run in everyone:
            run()
        for run in everyone:
            run.seconds, run.cpu = [], []
        for _ in range(self.runs):
            for run in everyone:
                run()
        gib = self.size / GIB
        mine = ours.median(ours.seconds)
        best = min(peers, key=lambda peer: peer.median(peer.seconds))
        theirs = best.median(best.seconds)
        rate = self.size / 1e9
        self.line(name, rate / mine, rate / theirs, theirs / mine, "GB/s")
        cpu, peer_cpu = ours.median(ours.cpu) / gib, best.median(best.cpu) / gib
        self.line(name + "_cpu", cpu, peer_cpu, peer_cpu / cpu, "s/GiB")
        if floors:
            floor = max(run.median(run.seconds) for run in floors)
            self.line(name + "_floor", rate / mine, rate / floor, floor / mine, "GB/s")

    def run(self):
        with VersityGW(os.path.join(self.work, "s3")) as server:
            env = self.environment(server)
            lake_env = {**env, "LAKE_S3_BUCKET": BUCKET}
            with self.Lake(os.path.join(self.work, "data"), env=lake_env) as lake:
                self.measure(server, lake, env)

    def measure(self, server, lake, env):
        python, aws = sys.executable, os.path.join(os.path.dirname(sys.executable), "aws")
        copy = os.path.join(self.work, "copy")
        objects = self.program["objects"]

        def ours(*arguments):
            return Measured(objects, arguments[0], lake.address, *arguments[1:], env=env)

        def script(text, *arguments):
            return Measured(python, "-W", "ignore", "-c", text, server.endpoint, *arguments,
                            env=env)

        put = ours("put", self.path)
        self.report("s3_upload", put, [
            Measured(aws, "s3", "cp", "--quiet", self.path, f"s3://{BUCKET}/cli", env=env),
            script(BOTO, "up", "boto", self.path), script(S3FS, "up", "fs", self.path)])
        location = put.stdout.split()
        key = location[0].removeprefix(f"s3://{BUCKET}/")
        url = server.boto3().generate_presigned_url("get_object",
                                                    {"Bucket": BUCKET, "Key": key})
        self.report("s3_verified_read", ours("read", *location), [
            Measured(aws, "s3", "cp", "--quiet", f"s3://{BUCKET}/{key}", copy, env=env),
            script(BOTO, "down", key, copy), script(S3FS, "down", key, copy)],
            [Measured("curl", "-s", "-o", "/dev/null", url, env=env),
             Measured("sha256sum", self.path, env=env)])
        self.seek(ours("seek", *location, str(SEEKS), str(SEEK_BYTES)),
                  script(S3FS, "seek", key, "-"))

    def seek(self, mine, theirs):
        for _ in range(self.runs + 1):
            mine(), theirs()
        ours, peer = mine.median(mine.seconds[1:]), theirs.median(theirs.seconds[1:])
        self.line("s3_seek", SEEKS / ours, SEEKS / peer, peer / ours, "seeks/s")


def measure(work, lake_class, program, line, runs):
    Bench(work, lake_class, program, line, runs).run()
