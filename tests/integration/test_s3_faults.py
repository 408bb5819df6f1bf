"""Our S3 store against the fault server: each scenario is a data file in tests/fault_s3/scenarios
that names what is asked, what goes wrong, and the typed error or the recovery."""

import hashlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "fault_s3"))
sys.path.insert(0, str(ROOT / "support"))
import server as fault_server  # noqa: E402
from lake_server import BUILD, LAKE, LakeServer, clean_environment  # noqa: E402
from redaction import assert_none, declare  # noqa: E402
from s3_servers import upload_in_parts  # noqa: E402

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


def scenarios(case=None):
    """Those that name this case first, or those without one of objects or tables."""
    def is_it(path):
        cases = fault_server.load(path).get("cases", [])
        return cases[:1] == [case] if case else not cases or cases[0][0] not in "LO"
    found = [path for path in SCENARIOS if is_it(path)]
    assert found, case
    return pytest.mark.parametrize("path", found, ids=lambda path: path.stem)


@scenarios()
def test_scenario(path, tmp_path):
    run_scenario(path, tmp_path)


@scenarios("L06")
def test_case_L06_a_removal_whose_answer_is_lost_is_repeated(path, tmp_path):
    run_scenario(path, tmp_path)


@scenarios("L08")
def test_case_L08_a_service_without_conditional_writes_is_found_out(path, tmp_path):
    run_scenario(path, tmp_path)


@scenarios("O01")
def test_case_O01_only_a_result_element_is_a_success(path, tmp_path):
    run_scenario(path, tmp_path)


@scenarios("O04")
def test_case_O04_parts_that_are_not_ours_complete_nothing(path, tmp_path):
    run_scenario(path, tmp_path)


@scenarios("O08")
def test_case_O08_an_empty_object_is_read_without_a_range(path, tmp_path):
    run_scenario(path, tmp_path)


@scenarios("O10")
def test_case_O10_the_clock_is_learnt_once_and_every_attempt_has_its_own_date(path, tmp_path):
    run_scenario(path, tmp_path)


@scenarios("O11")
def test_case_O11_slow_down_is_waited_for_within_a_budget(path, tmp_path):
    run_scenario(path, tmp_path)


@scenarios("O12")
def test_case_O12_damaged_bytes_are_not_given_out(path, tmp_path):
    run_scenario(path, tmp_path)


@scenarios("O13")
def test_case_O13_aborting_twice_is_aborting(path, tmp_path):
    run_scenario(path, tmp_path)


@scenarios("O14")
def test_case_O14_all_ranges_are_of_one_object_or_fail(path, tmp_path):
    run_scenario(path, tmp_path)


PART = 16


@pytest.mark.parametrize("more", [0, 1])
def test_case_O02_10000_parts_are_an_object_and_one_more_is_refused(more):
    with fault_server.FaultServer({}) as server:
        done = upload_in_parts(environment(server.endpoint, {}), "large", PART, PART * 10000 + more)
    sent = [int(r["part"]) for r in server.requests if r["op"] == "part"]
    # The refusal cancels the parts that are on their way.
    assert sorted(sent)[:9996] == list(range(1, 9997)) and max(sent) <= 10000
    assert len(sent) == 10000 or more
    assert server.uploads == {}
    if more:
        assert done.startswith("OUT_OF_RANGE an object has at most 10000 parts of 16 bytes"), done
        assert server.objects == {}
    else:
        assert done.startswith("OK"), done
        assert server.objects["large"][0] == (bytes(range(256)) * PART * 40)[:PART * 10000]


def test_case_O02_a_file_of_too_many_parts_is_refused_before_anything_is_sent(tmp_path):
    """625 GiB and a byte, without any on the disk."""
    source = tmp_path / "source"
    with fault_server.FaultServer({}) as server:
        env = {**environment(server.endpoint, {}), "AWS_ENDPOINT_URL_S3": server.endpoint}
        with LakeServer(tmp_path / "data", {**env, "LAKE_S3_BUCKET": "bucket"}) as lake:
            source.touch()
            os.truncate(source, 10000 * (64 << 20) + 1)
            before = len(server.requests)
            done = lake.run("put", source, check=False, env=env)
            assert done.returncode == 1, done
            assert "has 671088640001 bytes, an object has at most 671088640000" in done.stderr
            assert len(server.requests) == before


@pytest.mark.parametrize("known", [True, False])
def test_case_O14_a_stream_gives_out_what_has_come_only_of_a_version_that_is_known(known, tmp_path):
    """The range breaks off after 3,000,000 bytes and nothing of it comes any more: what was there
    was given out, unless another attempt could have been answered with another object."""
    size, sent = 10 << 20, 3_000_000
    version = fault_server.etag_of(fault_server.content("a", size)) if known else ""
    script = {"objects": {"a": size},
              "faults": [{"on": {"op": "get"}, "times": 1, "do": {"close_after": sent}},
                         {"on": {"op": "get"}, "do": {"status": 404, "code": "NoSuchKey"}}]}
    with fault_server.FaultServer(script) as server:
        line, = run_operations([["stream", "a", version, "0", str(size)]],
                               environment(server.endpoint, {}), tmp_path)
    assert line["status"] == "NOT_FOUND", line
    assert (1 << 20) <= line["size"] <= sent if known else line["size"] == 0
    data = fault_server.content("a", size)[:line["size"]]
    assert line["sha256"] == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("arguments, most", [((), 4), ((1,), 1), ((16,), 16)])
def test_so_many_parts_are_on_their_way_and_no_more(arguments, most):
    slow = {"on": {"op": "part"}, "do": {"delay_ms": 100}, "times": 1000}
    with fault_server.FaultServer({"faults": [slow]}) as server:
        done = upload_in_parts(environment(server.endpoint, {}), "large", 1024, 1024 * 2 * most + 1,
                               *arguments)
    assert done.startswith("OK"), done
    assert server.busiest["part"] == most


def run_scenario(path, tmp_path):
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


def test_a_server_that_never_answers_is_given_up_in_time(tmp_path):
    """It takes connections and says nothing: two attempts of the stall timeout, or the operation's."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = clean_environment({
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": SECRET, "no_proxy": "127.0.0.1",
            "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent"})
        for timeouts, seconds, said in (
                ({"LAKE_S3_STALL_TIMEOUT_MS": "1000"}, (2, 20), "no answer in time (LAKE_S3_STALL_"),
                ({"LAKE_S3_OPERATION_TIMEOUT_MS": "1500"}, (1.5, 20), "took longer than 1500 ms"),
                ({"LAKE_S3_STALL_TIMEOUT_MS": "soon"}, (0, 20), "whole number from 1000 to 3600000")):
            began = time.monotonic()
            done = subprocess.run([str(LAKE), "lance", "stat", "s3://bucket/x.lance"],
                                  env={**env, **timeouts}, capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and said in done.stderr, done.stderr
            assert seconds[0] <= time.monotonic() - began < seconds[1], timeouts
            assert_none([SECRET], done.stdout, done.stderr)
