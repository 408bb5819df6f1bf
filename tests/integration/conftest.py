"""The real S3 servers that the tests of this folder share: each is started once, when it is first wanted."""

import contextlib
import functools
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from s3_servers import SeaweedFS, VersityGW  # noqa: E402


@pytest.fixture(scope="session")
def s3_servers(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        @functools.cache
        def start(kind):
            return stack.enter_context(kind(tmp_path_factory.mktemp(kind.name)))

        yield start


@pytest.fixture(scope="module")
def strict(s3_servers):
    server = s3_servers(VersityGW)
    yield server
    server.empty()


@pytest.fixture(scope="module", params=[VersityGW, SeaweedFS], ids=lambda kind: kind.name)
def s3(request, s3_servers):
    """What a test asks of one server it asks of the other."""
    server = s3_servers(request.param)
    yield server
    server.empty()
