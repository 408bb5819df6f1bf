"""Lake's objects in S3 beside what a user would take instead, on one server of this machine.

    s3_upload, s3_verified_read   1 GiB; beside the fastest of aws s3 cp, boto3's transfer manager, s3fs
    s3_seek                       100 random reads of 64 KiB in it, from a start without anything
                                  cached; beside s3fs as it comes, and told not to read ahead
    …_cpu                         CPU seconds of the client per GiB moved (of a seek: per 1,000)
    …_over_PEER                   the same beside each of the peers
    …_floor_PROGRAM               the same beside the least that must be done: plain curl, and sha256sum
    …_floor                       beside the slower of those
    s3_seek_bytes                 bytes that passed the server's port for each that was asked for

The peers read into memory or a pipe, as ours does, but s3fs, which is quicker into a file. Of those that
are Python modules the time begins after their import.
"""
import os
import random
import resource
import subprocess
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "support"))
from counting_proxy import CountingProxy  # noqa: E402
from s3_servers import ACCESS_KEY, BUCKET, SECRET_KEY, VersityGW  # noqa: E402

GIB = 1 << 30
SEEKS, SEEK_BYTES = 100, 65536


def median(values):
    return sorted(values)[len(values) // 2]


class Contender:
    """A program that is run again and again: its seconds and CPU seconds. One that prints a line of
    these two numbers after the word "took" is believed; others are measured from outside."""

    def __init__(self, name, *command, env):
        self.name, self.command, self.env = name, command, env
        self.forget()

    def forget(self):
        self.seconds, self.cpu = [], []

    def __call__(self, env=None):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        done = subprocess.run(self.command, env=env or self.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        took = time.perf_counter() - start
        assert done.returncode == 0, (self.name, done.stderr)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.stdout = done.stdout[:1000].decode(errors="replace")
        if self.stdout.startswith("took "):
            took, cpu = map(float, self.stdout.split()[1:3])
        self.seconds.append(took)
        self.cpu.append(cpu)


class ToNowhere(Contender):
    """What it writes to standard output is dropped by the system."""

    def __init__(self, name, *command, env):
        super().__init__(name, "sh", "-c", 'exec "$@" >/dev/null', "sh", *command, env=env)


TIMED = """
import os, sys, time
%s
endpoint, what, key, path = sys.argv[1:5]
start, cpu = time.perf_counter(), time.process_time()
%s
print("took", time.perf_counter() - start, time.process_time() - cpu)
"""
BOTO = TIMED % ("import boto3", """
class Nothing:
    at = 0
    def seek(self, offset, whence=0): self.at = offset
    def tell(self): return self.at
    def write(self, data): self.at += len(data); return len(data)
s3 = boto3.client("s3", endpoint_url=endpoint)
if what == "up": s3.upload_file(path, "%(bucket)s", key)
else: s3.download_fileobj("%(bucket)s", key, Nothing())
""" % {"bucket": BUCKET})
S3FS = TIMED % ("import random, s3fs", """
fs = s3fs.S3FileSystem(endpoint_url=endpoint)
name = "%(bucket)s/" + key
if what == "up": fs.put(path, name)
elif what == "get": fs.get(name, path)
elif what == "cat": fs.cat_file(name)
else:
    places = random.Random(9)
    with fs.open(name, "rb", cache_type="none" if what == "pick" else "readahead") as file:
        size = file.size
        for _ in range(%(seeks)d):
            file.seek(places.randrange(size - %(bytes)d))
            assert len(file.read(%(bytes)d)) == %(bytes)d
""" % {"bucket": BUCKET, "seeks": SEEKS, "bytes": SEEK_BYTES})


class Bench:
    def __init__(self, work, lake_class, program, line, runs):
        self.work, self.Lake, self.objects, self.line, self.runs = \
            work, lake_class, program["objects"], line, runs
        self.path = os.path.join(work, "object.bin")
        self.size = int(os.environ.get("BENCH_S3_BYTES", GIB))
        with open(self.path, "wb") as out:
            for _ in range(self.size >> 24):
                out.write(random.randbytes(1 << 24))

    def environment(self, endpoint):
        env = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        return {**env, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL_S3": endpoint,
                "AWS_EC2_METADATA_DISABLED": "true", "no_proxy": "127.0.0.1"}

    def compare(self, name, amount, unit, ours, peers, floors=()):
        """One unmeasured run of each, then in turn. `amount` is what one run moves, and in what its
        CPU seconds are counted."""
        everyone = [ours, *peers, *floors]
        for turn in range(self.runs + 1):
            for run in everyone:
                run()
                if turn == 0:
                    run.forget()
        rate = {run: amount / median(run.seconds) for run in everyone}

        def beside(suffix, other):
            self.line(name + suffix, rate[ours], rate[other], rate[ours] / rate[other], unit)

        best = max(peers, key=rate.get)
        beside("", best)
        cpu, its = median(ours.cpu), median(best.cpu)
        per = (SEEKS / 1000, "s/1000") if unit == "seeks/s" else (self.size / GIB, "s/GiB")
        self.line(name + "_cpu", cpu / per[0], its / per[0], its / max(cpu, 1e-6), per[1])
        for peer in peers[:len(peers) if len(peers) > 1 else 0]:
            beside("_over_" + peer.name, peer)
        for floor in floors:
            beside("_floor_" + floor.name, floor)
        if floors:
            beside("_floor", min(floors, key=rate.get))

    def run(self):
        with VersityGW(os.path.join(self.work, "s3")) as server:
            self.server, self.env = server, self.environment(server.endpoint)
            with self.Lake(os.path.join(self.work, "data"),
                           env={**self.env, "LAKE_S3_BUCKET": BUCKET}) as lake:
                self.measure(lake)

    def measure(self, lake):
        aws = os.path.join(os.path.dirname(sys.executable), "aws")
        signer = self.server.boto3(signature_version="s3v4",
                                   request_checksum_calculation="when_required")
        gigabytes = self.size / 1e9
        copy = os.path.join(self.work, "copy")  # s3fs fetches a file's parts side by side, into a file

        def ours(*arguments):
            return Contender("lake", self.objects, arguments[0], lake.address, *arguments[1:],
                             env=self.env)

        def script(name, text, *arguments):
            return Contender(name, sys.executable, "-W", "ignore", "-c", text,
                             self.server.endpoint, *arguments, env=self.env)

        def signed(method, key):
            return signer.generate_presigned_url(method, {"Bucket": BUCKET, "Key": key})

        digest = ToNowhere("sha256sum", "sha256sum", self.path, env=self.env)
        put = ours("put", self.path)
        self.compare("s3_upload", gigabytes, "GB/s", put, [
            Contender("aws", aws, "s3", "cp", "--quiet", self.path, f"s3://{BUCKET}/cli",
                      env=self.env),
            script("boto3", BOTO, "up", "boto", self.path),
            script("s3fs", S3FS, "up", "fs", self.path)],
            [ToNowhere("curl", "curl", "-sSf", "-T", self.path, signed("put_object", "curl"),
                       env=self.env), digest])
        location = put.stdout.split()
        key = location[0].removeprefix(f"s3://{BUCKET}/")
        self.compare("s3_verified_read", gigabytes, "GB/s", ours("read", *location), [
            ToNowhere("aws", aws, "s3", "cp", "--quiet", f"s3://{BUCKET}/{key}", "-",
                      env=self.env),
            script("boto3", BOTO, "down", key, "-"), script("s3fs_get", S3FS, "get", key, copy),
            script("s3fs_cat", S3FS, "cat", key, "-")],
            [Contender("curl", "curl", "-sSf", "-o", "/dev/null", signed("get_object", key),
                       env=self.env), digest])
        seek = ours("seek", *location, str(SEEKS), str(SEEK_BYTES))
        peer, tuned = script("s3fs", S3FS, "seek", key, "-"), \
            script("s3fs_uncached", S3FS, "pick", key, "-")
        self.compare("s3_seek", SEEKS, "seeks/s", seek, [peer, tuned])
        self.count_bytes(seek, peer)

    def count_bytes(self, *contenders):
        """What passes the server's port for each byte that was asked for."""
        counts = []
        with CountingProxy(urllib.parse.urlsplit(self.server.endpoint).netloc) as proxy:
            through = f"http://{proxy.address}"
            for run in contenders:
                proxy.count = 0
                run.command = [through if word == self.server.endpoint else word
                               for word in run.command]
                run(self.environment(through))
                counts.append(proxy.count / (SEEKS * SEEK_BYTES))
        self.line("s3_seek_bytes", counts[0], counts[1], counts[1] / counts[0], "bytes/byte")


def measure(work, lake_class, program, line, runs):
    Bench(work, lake_class, program, line, runs).run()
