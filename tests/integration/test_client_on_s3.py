"""liblake's own limits and promises (SDK-3 to SDK-5) with tables and objects in S3: unit tests of the
client that look at nothing but what the client gives, run again on each of the two servers."""

import re
import subprocess

import pytest

from lake_server import BUILD, clean_environment
from s3_servers import BUCKET
from test_s3_lake import settings


@pytest.mark.parametrize("name", ["identity", "insert", "batches", "pending"])
def test_what_holds_on_a_disk_holds_in_s3(s3, name):
    done = subprocess.run([str(BUILD / f"test_client_{name}")], capture_output=True, text=True,
                          env=clean_environment(settings(s3, "unit")), timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"PASSED  \] (\d+) test", done.stdout + done.stderr).group(1)) >= 4
    assert s3.boto3().list_objects_v2(Bucket=BUCKET, Prefix="unit/")["KeyCount"] > 0
    s3.empty()
