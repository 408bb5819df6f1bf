"""The built wheel, installed into an environment of its own, and servers for it.

The packages of .deps/venv stand in for what pip would fetch; the package itself is only in the new
environment, so that the tests see what a user gets. The tests themselves are run there: see run."""

import pathlib
import random
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from lake_server import LakeServer  # noqa: E402
from s3_servers import ACCESS_KEY, BUCKET, SECRET_KEY, SeaweedFS, VersityGW  # noqa: E402

import lake  # noqa: E402


@pytest.fixture(scope="session", params=[VersityGW, SeaweedFS], ids=lambda kind: kind.name)
def s3(request, tmp_path_factory):
    with request.param(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def server(s3, tmp_path_factory):
    """Tables and objects in S3; this process has the credentials for them."""
    credentials = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                   "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
                   "AWS_EC2_METADATA_DISABLED": "true", "no_proxy": "127.0.0.1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in credentials.items():
            patch.setenv(name, value)
        settings = {**credentials, "AWS_ENDPOINT_URL_S3": s3.endpoint, "LAKE_S3_BUCKET": BUCKET,
                    "LAKE_TABLE_PREFIX": "tables", "LAKE_MANAGED_OBJECT_PREFIX": "objects"}
        with LakeServer(tmp_path_factory.mktemp("lake") / "data", settings) as running:
            yield running


@pytest.fixture
def client(server):
    with lake.connect(server.address) as opened:
        yield opened


@pytest.fixture(scope="session")
def noise():
    return random.Random(7).randbytes((9 << 20) + 5)
