"""Where the S3 store finds its credentials, and how it renews them. The services that hand them out
are played by a small HTTP server; the fault server records who signs."""

import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.parse

import pytest

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "fault_s3"))
sys.path.insert(0, str(ROOT / "support"))
from server import FaultServer  # noqa: E402
from credential_services import HUSH, Services  # noqa: E402
from lake_server import BUILD  # noqa: E402
from redaction import assert_none  # noqa: E402

TOOL = BUILD / "tests" / "s3_tool"
@pytest.fixture
def s3():
    with FaultServer({"objects": {"a": 10}}) as server:
        yield server


def run(s3, env, *words, tool=("stat", "a")):
    """The tool's lines; nothing of a secret is in them."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    clean.update(S3_TOOL_ENDPOINT=s3.endpoint, S3_TOOL_BUCKET="bucket", no_proxy="127.0.0.1",
                 AWS_CONFIG_FILE="/nonexistent", AWS_SHARED_CREDENTIALS_FILE="/nonexistent",
                 AWS_EC2_METADATA_DISABLED="true")
    clean.update({key: str(value) for key, value in env.items()})
    done = subprocess.run([str(TOOL), *tool, *words], env=clean, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    assert_none([HUSH, "jwt.+/=", "container-auth"], done.stderr,
                "" if "presign" in tool else done.stdout)
    return [json.loads(line) for line in done.stdout.splitlines()]


def signers(s3):
    return [request["signer"] for request in s3.requests]


def web_identity(tmp_path, services):
    (tmp_path / "jwt").write_text("jwt.+/=\n")
    return {"AWS_WEB_IDENTITY_TOKEN_FILE": tmp_path / "jwt",
            "AWS_ROLE_ARN": "arn:aws:iam::1:role/lake+x", "AWS_ENDPOINT_URL_STS": services.url}


def container(services):
    return {"AWS_CONTAINER_CREDENTIALS_FULL_URI": services.url + "/container",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "container-auth"}


def profiles(tmp_path):
    (tmp_path / "credentials").write_text(
        f"[default]\naws_access_key_id = DEFAULT\naws_secret_access_key = {HUSH}\n"
        f"[lab]\naws_access_key_id = LAB\naws_secret_access_key = {HUSH}\naws_session_token=t\n"
        f"[half]\naws_access_key_id = HALF\n")
    (tmp_path / "config").write_text(
        "[profile lab]\nregion = eu-west-7\n[profile sso]\nsso_session = x\n"
        f"[profile web]\nrole_arn = arn:aws:iam::1:role/lake+x\n"
        f"web_identity_token_file = {tmp_path / 'jwt'}\n")
    return {"AWS_SHARED_CREDENTIALS_FILE": tmp_path / "credentials",
            "AWS_CONFIG_FILE": tmp_path / "config"}


def test_environment_comes_first(s3, tmp_path):
    env = {"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": HUSH, "AWS_SESSION_TOKEN": "st"}
    assert run(s3, {**profiles(tmp_path), **env})[0]["status"] == "OK"
    assert signers(s3) == ["ENV"]
    assert s3.requests[0]["token"] == "st"
    line = run(s3, {"AWS_ACCESS_KEY_ID": "ENV"})[0]
    assert line["status"] == "UNAUTHENTICATED" and "only one is set" in line["message"]


def test_profiles_of_the_shared_files(s3, tmp_path):
    env = profiles(tmp_path)
    assert run(s3, env)[0]["status"] == "OK"
    assert run(s3, {**env, "AWS_PROFILE": "lab"})[0]["status"] == "OK"
    assert signers(s3) == ["DEFAULT", "LAB"]
    assert s3.requests[1]["region"] == "eu-west-7"
    for profile, message in (("none", "no AWS profile none"), ("half", "only one of"),
                             ("sso", "sso_session")):
        line = run(s3, {**env, "AWS_PROFILE": profile})[0]
        assert line["status"] in ("UNAUTHENTICATED", "UNIMPLEMENTED"), line
        assert message in line["message"]
    with Services() as services:
        web = web_identity(tmp_path, services)
        line = run(s3, {**env, "AWS_PROFILE": "web", "AWS_ENDPOINT_URL_STS": services.url})[0]
        assert line["status"] == "OK", line
    assert signers(s3)[-1] == "STS1" and web


def test_a_profile_that_is_asked_for_wins_over_the_environment(s3, tmp_path):
    env = {**profiles(tmp_path), "AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": HUSH}
    assert run(s3, {**env, "S3_TOOL_PROFILE": "lab"})[0]["status"] == "OK"
    assert signers(s3) == ["LAB"]


def test_web_identity(s3, tmp_path):
    with Services(failures=[500, 503]) as services:
        line = run(s3, web_identity(tmp_path, services))[0]
        assert line["status"] == "OK", line
    assert signers(s3) == ["STS1"] or signers(s3) == ["STS3"]
    assert s3.requests[0]["token"].startswith("token")
    with Services(failures=[403]) as services:
        line = run(s3, web_identity(tmp_path, services))[0]
        assert line["status"] == "UNAUTHENTICATED" and "STS" in line["message"], line
        line = run(s3, {**web_identity(tmp_path, services), "AWS_ROLE_ARN": ""})[0]
        assert line["status"] == "UNAUTHENTICATED" and "AWS_ROLE_ARN" in line["message"], line


def test_container_and_its_token_file(s3, tmp_path):
    with Services() as services:
        assert run(s3, container(services))[0]["status"] == "OK"
        (tmp_path / "token").write_text("container-auth\n")
        env = {**container(services), "AWS_CONTAINER_AUTHORIZATION_TOKEN": "wrong",
               "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": tmp_path / "token"}
        assert run(s3, env)[0]["status"] == "OK"
        env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = tmp_path / "none"
        assert run(s3, env)[0]["status"] == "UNAUTHENTICATED"
    assert signers(s3) == ["CONTAINER1", "CONTAINER2"]


@pytest.mark.parametrize("url", ["http://example.com/x", "http://127.0.0.1.example.com/x",
                                 "http://127.0.0.1@example.com/x",
                                 "http://127.0.0.1:1@example.com/x", "http://[::1", "ftp://127.0.0.1/x"])
def test_container_credentials_are_not_asked_for_in_the_open(s3, url):
    line = run(s3, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url})[0]
    assert line["status"] == "UNAUTHENTICATED", line
    assert "must be https" in line["message"]
    assert s3.requests == []


def test_instance(s3):
    with Services() as services:
        env = {"AWS_EC2_METADATA_DISABLED": "false",
               "AWS_EC2_METADATA_SERVICE_ENDPOINT": services.url + "/"}
        assert run(s3, env)[0]["status"] == "OK"
    assert signers(s3) == ["INSTANCE1"]


def test_credentials_are_fetched_once_and_again_ahead_of_their_end(s3):
    with Services(lives=[3600]) as services:
        run(s3, container(services), "+", "stat", "a", "+", "stat", "a")
        assert services.asked == ["CONTAINER"]
    with Services(lives=[200, 3600]) as services:  # less than five minutes: renewed when possible
        run(s3, container(services), "+", "stat", "a", "+", "sleep", "2500", "+", "stat", "a", "+",
            "stat", "a")
        assert services.asked == ["CONTAINER"] * 2
    assert signers(s3)[-4:] == ["CONTAINER1", "CONTAINER1", "CONTAINER2", "CONTAINER2"]


def test_a_renewal_that_fails_is_no_error_while_the_old_ones_live(s3):
    with Services(lives=[120]) as services:
        env = container(services)
        threading.Timer(1.0, lambda: services.failures.extend([404] * 9)).start()
        lines = run(s3, env, "+", "sleep", "2500", "+", "stat", "a")
        assert [line["status"] for line in lines] == ["OK", "OK", "OK"]
        assert services.asked == ["CONTAINER"] * 2
    assert signers(s3) == ["CONTAINER1", "CONTAINER1"]


def test_credentials_that_the_server_calls_expired_are_renewed_at_once():
    with FaultServer({"objects": {"a": 10}, "expired": ["token1"]}) as s3, Services() as services:
        assert [line["status"] for line in run(s3, container(services), "+", "stat", "a")] == \
            ["OK", "OK"]
        assert signers(s3) == ["CONTAINER1", "CONTAINER2", "CONTAINER2"]


def test_case_O07_a_presigned_url_lives_no_longer_than_its_signer(s3):
    with Services(lives=[600]) as services:
        line = run(s3, container(services), tool=("presign", "a", "3600"))[0]
    left = line["expires"] / 1000 - time.time()
    assert 500 < left <= 600
    expires = int(re.search(r"X-Amz-Expires=(\d+)", line["url"]).group(1))
    assert 500 < expires <= 600
    assert "X-Amz-Security-Token=token1" in line["url"]
    assert s3.requests == []


def test_case_O06_tokens_and_keys_with_special_characters(s3):
    env = {"AWS_ACCESS_KEY_ID": "AKID@x+y=", "AWS_SECRET_ACCESS_KEY": HUSH,
           "AWS_SESSION_TOKEN": "a+/=@ b"}
    line = run(s3, env, tool=("presign", "a", "60"))[0]
    query = urllib.parse.parse_qs(line["url"].split("?")[1])
    assert query["X-Amz-Security-Token"] == ["a+/=@ b"]
    assert query["X-Amz-Credential"][0].startswith("AKID@x+y=/")
