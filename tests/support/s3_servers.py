"""Real S3 servers as child processes on loopback, a client of each, and our own client's tool."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

from lake_server import BUILD, SOURCE
from redaction import declare

TOOL = BUILD / "tests" / "s3_tool"
DEPS = SOURCE / ".deps"
START_SECONDS = 60
ACCESS_KEY, SECRET_KEY = "testkey", "test/secret+key="
declare(SECRET_KEY)
BUCKET = "bucket"


def free_port(count=1):
    """The first of `count` ports in a row that nobody has, below those given out by the system."""
    for port in range(20000 + os.getpid() % 1000 * 10, 32000, 10):
        sockets = []
        try:
            for offset in [*range(count), *range(10000, 10000 + (count > 1) * count)]:
                sockets.append(socket.create_server(("127.0.0.1", port + offset)))
        except OSError:
            continue
        finally:
            for held in sockets:
                held.close()
        return port
    raise RuntimeError("no free ports")


class S3Server:
    """One server with one bucket; a context manager."""

    name = None

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = open(self.directory / "log", "wb")

    def start(self, arguments, port, ready, env=None):
        self.endpoint = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([str(word) for word in arguments], stdout=self.log,
                                        stderr=self.log, stdin=subprocess.DEVNULL,
                                        env={**os.environ, **(env or {})})
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(self.endpoint + ready, timeout=2):
                    break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} did not start: "
                                       + (self.directory / "log").read_text(errors="replace"))
                time.sleep(0.05)
        self.boto3().create_bucket(Bucket=BUCKET)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()
        for child in self.directory.iterdir():  # pytest would keep them for three sessions
            if child.is_dir():
                shutil.rmtree(child)

    def boto3(self, **config):
        import boto3
        import botocore.config
        return boto3.client(
            "s3", endpoint_url=self.endpoint, region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY,
            config=botocore.config.Config(s3={"addressing_style": "path"},
                                          retries={"max_attempts": 2}, **config))

    def empty(self):
        """Removes what is in the bucket, and what was going to be."""
        client = self.boto3()
        for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=BUCKET):
            for upload in page.get("Uploads", []):
                client.abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"],
                                              UploadId=upload["UploadId"])
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
            found = [{"Key": item["Key"]} for item in page.get("Contents", [])]
            if found:
                done = client.delete_objects(Bucket=BUCKET, Delete={"Objects": found})
                assert not done.get("Errors"), done["Errors"]

    def environment(self, **settings):
        env = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        env.update(S3_TOOL_ENDPOINT=self.endpoint, S3_TOOL_BUCKET=BUCKET,
                   AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY,
                   AWS_CONFIG_FILE="/nonexistent", AWS_SHARED_CREDENTIALS_FILE="/nonexistent",
                   no_proxy="127.0.0.1")
        env.update({key if key.startswith("AWS_") else f"S3_TOOL_{key}": str(value)
                    for key, value in settings.items()})
        return env

    def tool(self, *operations, **settings):
        """Runs operations, each a tuple of words, in one process; a line of each."""
        words = []
        for operation in operations:
            words += (["+"] if words else []) + [str(word) for word in operation]
        done = subprocess.run([str(TOOL), *words], env=self.environment(**settings),
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert SECRET_KEY not in done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def upload_in_parts(self, key, part_bytes, size):
        return upload_in_parts(self.environment(), key, part_bytes, size)


def upload_in_parts(environment, key, *numbers):
    """By the client's own ring of part buffers: status and message. The numbers are the bytes of a part,
    those of the object, and how many parts may be on their way (4)."""
    done = subprocess.run([str(BUILD / "tests" / "upload_parts_tool"), key, *map(str, numbers)], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


class VersityGW(S3Server):
    """The strict one: signatures, conditions and checksums as AWS has them."""

    name = "versitygw"

    def __init__(self, directory):
        super().__init__(directory)
        for name in ("root", "versions", "iam"):
            (self.directory / name).mkdir()
        port = free_port()
        self.start([DEPS / "versitygw" / "versitygw", "--port", f"127.0.0.1:{port}", "--health",
                    "/health", "--quiet", "--virtual-domain", f"localhost:{port}",
                    "--iam-dir", self.directory / "iam", "posix",
                    "--versioning-dir", (self.directory / "versions").resolve(),
                    self.directory / "root"], port, "/health",
                   {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY})


class SeaweedFS(S3Server):
    """The other one: lighter in what it checks, and with ideas of its own."""

    name = "weed"

    def __init__(self, directory):
        super().__init__(directory)
        (self.directory / "volumes").mkdir()
        identity = {"name": "test", "actions": ["Admin", "Read", "Write", "List", "Tagging"],
                    "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]}
        (self.directory / "s3.json").write_text(json.dumps({"identities": [identity]}))
        port = free_port(4)
        self.start([DEPS / "weed" / "weed", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
                    f"-dir={self.directory / 'volumes'}", f"-master.port={port + 1}",
                    f"-volume.port={port + 2}", "-filer", f"-filer.port={port + 3}", "-s3",
                    f"-s3.port={port}", f"-s3.config={self.directory / 's3.json'}",
                    f"-s3.domainName=localhost:{port}", "-s3.autoCreateBucket=false", "-s3.port.iceberg=0", "-s3.port.lance=0",
                    "-master.telemetry=false",
                    "-volume.max=100", "-master.volumeSizeLimitMB=1024"], port, "/status",
                   {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"})
