"""Our S3 store against the fault server: each scenario is a data file in tests/fault_s3/scenarios
that names what is asked, what goes wrong, and the typed error or the recovery."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "fault_s3"))
sys.path.insert(0, str(ROOT / "support"))
import server as fault_server  # noqa: E402
from lake_server import BUILD  # noqa: E402
from redaction import assert_none, declare  # noqa: E402

SCENARIOS = sorted((ROOT / "fault_s3" / "scenarios").glob("*.json"))
TOOL = BUILD / "tests" / "s3_tool"
SECRET = "not+a/real=secret"
declare(SECRET)
KNOWN = {"status", "message", "content", "count"}


def environment(endpoint, scenario):
    env = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    env.update(S3_TOOL_ENDPOINT=endpoint, S3_TOOL_BUCKET="bucket", AWS_ACCESS_KEY_ID="AKIDTEST",
               AWS_SECRET_ACCESS_KEY=SECRET, AWS_CONFIG_FILE="/nonexistent",
               AWS_SHARED_CREDENTIALS_FILE="/nonexistent", no_proxy="127.0.0.1")
    env.update({f"S3_TOOL_{key}": str(value)
                for key, value in scenario.get("settings", {}).items()})
    env.update(scenario.get("environment", {}))
    return env


def argument(word, directory, key):
    """@file:SIZE becomes a file of the bytes that the server expects under `key`."""
    if not word.startswith("@file:"):
        return word
    size = int(word[6:])
    path = directory / f"{key.replace('/', '_')}.{size}"
    path.write_bytes(fault_server.content(key, size))
    return str(path)


def run_operations(operations, env, directory):
    """All in one process, but for those that need the ID of an upload before."""
    lines, group = [], []

    def flush():
        if group:
            done = subprocess.run([str(TOOL), *group], env=env, capture_output=True, text=True,
                                  timeout=60)
            assert done.returncode == 0, done.stderr
            assert_none([SECRET], done.stdout, done.stderr)
            lines.extend(json.loads(line) for line in done.stdout.splitlines())
            group.clear()

    for operation in operations:
        if "@id" in operation:
            flush()
            upload = next(line["id"] for line in lines if "id" in line)
            operation = [upload if word == "@id" else word for word in operation]
        group.extend((["+"] if group else []) +
                     [argument(word, directory, "".join(operation[1:2])) for word in operation])
    flush()
    return lines


def resolve_headers(script):
    """"@crc32c:KEY" in a header is the checksum of that object."""
    for rule in script.get("faults", []):
        headers = rule["do"].get("headers", {})
        for name, value in headers.items():
            if isinstance(value, str) and value.startswith("@crc32c:"):
                key = value[8:]
                headers[name] = fault_server.crc32c_text(
                    fault_server.content(key, script["objects"][key]))


def check_line(line, expected):
    assert line["status"] == expected["status"], line
    assert expected.get("message", "") in line["message"], line
    if "content" in expected:
        key, first, end = expected["content"]
        data = fault_server.content(key, end)[first:]
        assert (line["size"], line["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    if "count" in expected:
        name, count = expected["count"]
        assert len(line[name]) == count
    for name in set(expected) - KNOWN:
        assert line[name] == expected[name], (name, line)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path, tmp_path):
    scenario = fault_server.load(path)
    resolve_headers(scenario["server"])
    with fault_server.FaultServer(scenario["server"]) as server:
        begin = time.monotonic()
        lines = run_operations(scenario["run"], environment(server.endpoint, scenario), tmp_path)
        took_s = time.monotonic() - begin
    assert len(lines) == len(scenario["expect"]), lines
    for line, expected in zip(lines, scenario["expect"]):
        check_line(line, expected)
    check_requests(scenario, server.requests)
    for key, size in scenario.get("stored", {}).items():
        assert server.objects[key][0] == fault_server.content(key, size)
    if "stored" in scenario:
        assert set(server.objects) == set(scenario["stored"])
    assert took_s >= scenario.get("at_least_s", 0)
    assert took_s <= scenario.get("at_most_s", 60)


def check_requests(scenario, requests):
    for op, count in scenario.get("requests", {}).items():
        assert len([r for r in requests if r["op"] == op]) == count, requests
    assert len(requests) <= scenario.get("at_most_requests", 1000)
    if "second" in scenario:
        first, second = requests[0], requests[1]
        assert (second["if_match"] is not None) == scenario["second"]["if_match"]
        if "range" in scenario["second"]:
            assert second["range"] == scenario["second"]["range"]
        elif scenario["second"]["if_match"]:
            assert second["range"] != first["range"]
    if scenario.get("dates_differ"):
        refused = {r["date"] for r in requests if r["status"] == 403}
        accepted = {r["date"] for r in requests if r["status"] == 200}
        assert refused and accepted and not refused & accepted


def test_every_case_of_the_list_is_there():
    cases = {case for path in SCENARIOS for case in fault_server.load(path).get("cases", [])}
    assert cases >= {"O01", "O04", "O08", "O10", "O11", "O12", "O13", "O14", "L06", "L08", "M03"}
