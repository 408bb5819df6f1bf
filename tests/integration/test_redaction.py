"""No secret is in a log, a message or a file (SEC-3, OBJ-4, OBJ-7, OBJ-8): everything that programs and
servers print at the most verbose level, and leave behind, is searched for the secrets they were given:
whole, by halves, and in every spelling."""

import base64
import json
import os
import pathlib
import re
import secrets as dice
import subprocess
import sys

import pyarrow as pa
import pyarrow.flight as flight
import pytest

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "support"))
sys.path.insert(0, str(ROOT / "fault_s3"))
import flight_sql  # noqa: E402
from credential_services import Services, iso  # noqa: E402
from lake_server import BUILD, LAKE, LakeServer, clean_environment  # noqa: E402
from redaction import Search, declare, forms  # noqa: E402
from server import FaultServer  # noqa: E402

MIB = 1 << 20
OPERATIONS = ("get", "head", "put", "delete", "list", "create", "part", "complete", "abort")
LOUD = {"LAKE_LOG": "debug", "GRPC_VERBOSITY": "DEBUG"}


def secret(kind):
    """With the characters that encodings change."""
    return f"{kind}/+{dice.token_hex(16)}=~{dice.token_hex(8)}"


class Sts(Services):
    """Hands out one secret key and session token for ever."""

    secret_key, token, jwt = secret("web-key"), secret("web-token"), secret("jwt")

    def keys(self, source):
        return "WEBID", self.secret_key, self.token, iso(3600)


class World:
    """A Lake behind TLS with tenants, its stage in S3, and all that its programs say."""

    def __init__(self, directory):
        self.directory, self.secrets = directory, {}
        self.hidden, self.said = directory / "hidden", directory / "said"
        self.marks = directory / "marks"
        for made in (self.hidden, self.said, self.marks):
            made.mkdir()
        self.count = 0

    def hide(self, name, text, *parts):
        """A file that holds secrets, which is not searched."""
        path = self.hidden / name
        path.touch(mode=0o600)
        path.write_text(text)
        self.secrets.update({f"{name} {i}": part for i, part in enumerate(parts or (text,))})
        return path

    def note(self, what, *texts):
        self.count += 1
        for i, text in enumerate(texts):
            path = self.said / f"{self.count:04}-{what}-{i}"
            path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def run(self, *command, env=None, check=None, keep_output=True):
        """A program with ann's token and whatever `env` says; what it said is kept."""
        full = clean_environment({**self.base, **(env or {})})
        done = subprocess.run([str(word) for word in command], env=full, capture_output=True,
                              timeout=120, stdin=subprocess.DEVNULL)
        self.note(pathlib.Path(str(command[0])).name, done.stderr,
                  done.stdout if keep_output else b"")
        if check is not None:
            assert (done.returncode == 0) == check, done.stderr.decode()
        return done

    def lake(self, *words, **options):
        return self.run(LAKE, *words, "--addr", self.server.address, **options)


def make_tls(world):
    certificate, key = world.directory / "cert.pem", world.hidden / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=lake", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-out", certificate, "-keyout", key], check=True, capture_output=True)
    key.chmod(0o600)
    lines = key.read_text().splitlines()
    world.secrets.update({f"TLS key {i}": line for i, line in enumerate(lines[1:4])})
    return {"LAKE_TLS_CERT_FILE": certificate, "LAKE_TLS_KEY_FILE": key,
            "LAKE_METADATA_CA_FILE": certificate, "LAKE_CA_FILE": certificate}


def principals(tokens):
    return json.dumps({"principals": [
        {"token": token, "principal_id": name, "tenant_id": tenant, "role": role,
         "namespaces": ["*"]}
        for (name, tenant, role), token in tokens.items()]})


def make_auth(world):
    who = [("ann", "lab", "user"), ("bob", "arms", "user"), ("query", "ops", "query_service")]
    tokens = {key: secret("token") for key in who}
    files = {name: world.hide(name, token) for (name, _, _), token in tokens.items()}
    ring = {"active": dice.token_hex(32), "verification": [dice.token_hex(32)]}
    keys = world.hide("keys", json.dumps(ring), *[
        spelling for key in (ring["active"], *ring["verification"])
        for spelling in (key, bytes.fromhex(key))])
    return {"LAKE_AUTH_PRINCIPALS_FILE": world.hide("principals", principals(tokens),
                                                    *tokens.values()),
            "LAKE_METADATA_AUTH_TOKEN_FILE": files["query"], "LAKE_TOKEN_FILE": files["ann"],
            "LAKE_QUERY_TICKET_KEYS_FILE": keys}


def make_credentials(world, sts):
    """One set of AWS variables for each way to come by credentials."""
    given = {name: world.secrets.setdefault(name, secret(name))
             for name in ("env-key", "env-token", "file-key", "file-token")}
    world.secrets.update({"web key": sts.secret_key, "web token": sts.token})
    shared = world.hide("credentials", (
        f"[default]\naws_access_key_id = FILEID\naws_secret_access_key = {given['file-key']}\n"
        f"aws_session_token = {given['file-token']}\n"), given["file-key"])
    jwt = world.hide("jwt", sts.jwt)
    none = {"AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent"}
    return {
        "environment": {**none, "AWS_ACCESS_KEY_ID": "ENVID",
                        "AWS_SECRET_ACCESS_KEY": given["env-key"],
                        "AWS_SESSION_TOKEN": given["env-token"]},
        "profile": {**none, "AWS_SHARED_CREDENTIALS_FILE": shared},
        "web identity": {**none, "AWS_WEB_IDENTITY_TOKEN_FILE": jwt,
                         "AWS_ROLE_ARN": "arn:aws:iam::1:role/lake+x", "AWS_ENDPOINT_URL_STS": sts.url},
        "none": none}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("world"))
    with FaultServer({}) as world.s3, Sts() as sts:
        world.credentials = make_credentials(world, sts)
        world.common = {"AWS_EC2_METADATA_DISABLED": "true", "no_proxy": "127.0.0.1",
                        "AWS_ENDPOINT_URL_S3": world.s3.endpoint, **LOUD}
        tls, auth = make_tls(world), make_auth(world)
        declare(*world.secrets.values())
        world.settings = {**world.common, **tls, **auth, "LAKE_S3_BUCKET": "bucket"}
        world.base = {**world.common, "LAKE_CA_FILE": tls["LAKE_CA_FILE"],
                      "LAKE_TOKEN_FILE": auth["LAKE_TOKEN_FILE"],
                      "VIA_QUERY_CA": tls["LAKE_CA_FILE"],
                      "LAKE_UPLOAD_CHECKPOINT_DIR": world.marks,
                      **world.credentials["environment"]}
        env = {name: value for name, value in world.settings.items()
               if name not in ("LAKE_CA_FILE", "LAKE_TOKEN_FILE")}
        server = LakeServer(world.directory / "data", {**env, **world.credentials["environment"]})
        world.server = server
        try:
            use(world)
        finally:
            code = server.stop()
        assert code == 0, server.log_text()
        world.note("server", server.log_text())
        for key, (data, metadata) in world.s3.objects.items():
            world.note("object", key, data[:MIB], json.dumps(metadata))
        yield world


def use(world):
    """Everything a user does, well and badly."""
    small, large = world.directory / "small", world.directory / "large"
    small.write_bytes(os.urandom(100_000))
    large.write_bytes(bytes(65 * MIB))
    world.lake("table", "create", "lab.runs", "--column", "id:int64", "--column", "f:FILE",
               check=True)
    for source in ("environment", "profile", "web identity"):
        env = {**dict.fromkeys(world.credentials["environment"], ""), **world.credentials[source]}
        world.lake("put", "--into", "lab.runs", "--set", "id=1", "--file", f"f={small}", env=env,
                   check=True)
        world.lake("get", "SELECT f FROM lab.runs LIMIT 1", "-o", world.directory / "copy", env=env,
                   check=True)
    world.lake("cat", "SELECT f FROM lab.runs LIMIT 1", "--range", "0:99", check=True)
    world.lake("sql", "SELECT * FROM lab.runs", "--json", check=True)
    interrupted_work(world, small, large)
    capabilities(world, small)
    failures(world, small)
    wrong_callers(world, small)
    tickets(world)
    broken_files(world)


def interrupted_work(world, small, large):
    """Checkpoints and pending appends lie about while they are searched, and are finished then."""
    done = world.lake("put", large, env={"LAKE_FAULT": "client.upload.checkpoint:2:kill"})
    assert done.returncode == -9
    row = ("put", "--into", "lab.runs", "--set", "id=2", "--file", f"f={small}")
    done = world.lake(*row, env={"LAKE_FAULT": "client.append.answered:1:kill"})
    assert done.returncode == -9
    left = [path for path in world.marks.rglob("*") if path.is_file()]
    assert {path.suffix for path in left} >= {".upload", ".append"}
    for path in left:
        world.note("mark", path.name, path.read_bytes())
    world.lake("client", "pending", check=True)
    world.lake("client", "pending", "resume", "--all", check=True)
    world.lake("put", large, check=True)


def via_query(world, call, location, *numbers, token=None, **options):
    token = token or (world.hidden / "ann").read_text()
    env = {"VIA_QUERY_TOKEN": token, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
           "AWS_SESSION_TOKEN": ""}
    return world.run(BUILD / "tests" / "via_query_tool", world.server.address, call,
                     location["uri"], location["size_bytes"], location["sha256"], *numbers, env=env,
                     **options)


def capabilities(world, small):
    """What a presigned URL consists of is a secret as soon as it is made."""
    world.location = json.loads(world.lake("put", small, "--json", check=True).stdout)
    done = via_query(world, "presign", world.location, 60, check=True, keep_output=False)
    url = done.stdout.decode().split()[0]
    world.secrets["URL"] = url.partition("?")[2]
    world.secrets["signature"] = re.search("X-Amz-Signature=([0-9a-f]+)", url).group(1)
    assert "X-Amz-Security-Token=" in url
    done = via_query(world, "open", world.location, check=True)
    assert done.stdout == small.read_bytes()
    via_query(world, "range", world.location, 5, 9, check=True)
    for status in (301, 400, 403, 404):
        world.s3.rules[:] = [{"on": {"op": "get"}, "times": 99, "do": {"status": status, "echo": True}}]
        via_query(world, "open", world.location, check=False)
        via_query(world, "range", world.location, 5, 9, check=False)
    world.s3.rules.clear()
    for bad in ({**world.location, "uri": url}, {**world.location, "uri": "file:///etc/passwd"}):
        via_query(world, "open", bad, check=False, keep_output=bad["uri"] != url)


def failures(world, small):
    """Each step of storing and reading fails: here, and at a service that repeats what it was told."""
    into = ("put", "--into", "lab.runs", "--set", "id=3", "--file", f"f={small}")
    out = ("get", "SELECT f FROM lab.runs LIMIT 1", "-o", "-")
    for words in (into, out):
        for point in ("storage.s3_request", "client.append.begun", "client.append.written",
                      "client.append.renamed", "client.append.kept"):
            for nth in range(1, 20):
                done = world.lake(*words, env={"LAKE_FAULT": f"{point}:{nth}:error"})
                if done.returncode == 0:
                    break
            assert done.returncode == 0 and (nth > 1 or words is out), point
        for op in OPERATIONS if words is into else ("get", "head", "list"):
            for do in ({"status": 403, "echo": True}, {"status": 301, "echo": True},
                       {"status": 200, "echo": True}, {"status": 400, "body": "no XML"}):
                world.s3.rules[:] = [{"on": {"op": op}, "times": 99, "do": do}]
                world.lake(*words)
    world.s3.rules.clear()
    world.lake("client", "pending", "resume", "--all")


def wrong_callers(world, small):
    stranger = world.hide("stranger", secret("nobody"))
    bob = world.hidden / "bob"
    open_to_all = world.hide("open", secret("open"))
    open_to_all.chmod(0o644)
    for env in ({"LAKE_TOKEN_FILE": stranger}, {"LAKE_TOKEN_FILE": open_to_all},
                {"LAKE_TOKEN_FILE": "/nonexistent"}, {"LAKE_CA_FILE": world.hidden / "key.pem"},
                {"LAKE_TOKEN_FILE": world.hide("two lines", f"{secret('a')}\n{secret('b')}\n")},
                {"LAKE_CA_FILE": "/nonexistent"}, {"LAKE_CA_FILE": ""},
                world.credentials["none"] | {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
                {"AWS_SECRET_ACCESS_KEY": ""}):
        world.lake("put", small, env=env, check=False)
    world.lake("put", small, env={"LAKE_TOKEN_FILE": bob}, check=True)
    world.lake("sql", "SELECT no FROM nothing", check=False)
    via_query(world, "open", world.location, token=bob.read_text(), check=False)
    via_query(world, "open", world.location, token=stranger.read_text(), check=False)


def tickets(world):
    """A ticket is a capability too: neither it nor an error about it is repeated."""
    tls = {"tls_root_certs": (world.directory / "cert.pem").read_bytes()}
    token = (world.hidden / "ann").read_text()
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
    client = flight.connect(f"grpc+tls://{world.server.address}", **tls)
    info = flight_sql.info(client, "SELECT id FROM lab.runs", options)
    ticket = info.endpoints[0].ticket
    world.secrets["ticket"] = ticket.ticket
    assert client.do_get(ticket, options).read_all().num_rows > 0
    for damaged in (ticket.ticket[:-1] + bytes([ticket.ticket[-1] ^ 1]), ticket.ticket[:-9],
                    b"\x00" + ticket.ticket[1:]):
        with pytest.raises((flight.FlightError, pa.ArrowException)) as caught:
            client.do_get(flight.Ticket(damaged), options).read_all()
        world.note("flight", str(caught.value))
    client.close()


def broken_files(world):
    """Servers that do not start because of what is in a file of secrets, and say why."""
    env = {**world.settings, **world.credentials["environment"]}
    for variable in ("LAKE_AUTH_PRINCIPALS_FILE", "LAKE_QUERY_TICKET_KEYS_FILE",
                     "LAKE_METADATA_AUTH_TOKEN_FILE", "LAKE_TLS_KEY_FILE",
                     "AWS_SHARED_CREDENTIALS_FILE"):
        path = pathlib.Path(env[variable] if variable.startswith("LAKE") else
                            world.credentials["profile"][variable])
        for i, text in enumerate(damages(path.read_text())):
            broken = world.hidden / f"{path.name}.{i}"
            broken.touch(mode=0o600)
            broken.write_text(text)
            changed = {**env, variable: broken}
            if variable.startswith("AWS"):
                for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
                    changed[name] = ""
            world.run("timeout", "-s", "TERM", "1", LAKE, "up", "--data-dir",
                      world.directory / "other", "--listen", "127.0.0.1:0", env=changed)


def damages(text):
    """The same file, cut and misspelt."""
    yield text[:len(text) // 2]
    yield text[:-1] if not text.endswith("\n") else text[:-2]
    yield text.replace('"', "'")
    yield text.replace(":", "", 1).replace("=", "", 1)
    yield text.replace("token", "tokn", 1).replace("active", "actve", 1).replace("aws_", "", 2)
    yield text + text
    yield "[" + text + "]"
    yield json.dumps(text)


def found_in(world, *paths):
    return list(Search(world.secrets.values()).paths(*paths))


def test_nothing_that_programs_say_holds_a_secret(world):
    assert world.count > 200
    assert found_in(world, world.said) == []


def test_nothing_that_is_left_on_disks_holds_a_secret(world):
    assert any((world.directory / "data").iterdir())
    assert found_in(world, world.directory / "data", world.marks, world.directory / "copy") == []


def test_the_servers_spoke_at_the_most_verbose_level(world):
    levels = {message["level"] for message in world.server.log_messages()}
    assert "debug" in levels, levels


def test_the_services_did_see_the_secrets(world):
    """What was looked for is what went over the wire, from each source."""
    signers = {request["signer"] for request in world.s3.requests}
    assert {"ENVID", "FILEID", "WEBID"} <= signers
    tokens = {request["token"] for request in world.s3.requests}
    assert {world.secrets["env-token"], world.secrets["file-token"],
            world.secrets["web token"]} <= tokens


SAMPLE = "key/+0123456789abcdef~=<&\"ABCDEF"


@pytest.mark.parametrize("text", [
    SAMPLE, SAMPLE[:16], SAMPLE[16:], SAMPLE.encode().hex(), SAMPLE.encode().hex().upper(),
    "key%2F%2B0123456789abcdef~%3D%3C%26%22ABCDEF", "key%2f%2b0123456789abcdef~%3d%3c%26%22ABCDEF",
    json.dumps({"a": SAMPLE}), SAMPLE.replace("&", "&amp;").replace("<", "&lt;"),
    *[base64.b64encode(before + SAMPLE.encode() + b"!?").decode() for before in (b"", b"u", b"u:")],
    base64.urlsafe_b64encode(b"user:" + SAMPLE.encode()).decode(),
    "https://x/y?X-Amz-Signature=" + "ab" * 32, 'authorization: "Bearer abcdefgh"',
    "-----BEGIN RSA PRIVATE KEY-----"], ids=range(16))
def test_the_search_finds_what_is_planted(tmp_path, text):
    """As the suite runs it at its end."""
    known, logs = tmp_path / "known", tmp_path / "logs"
    (logs / "deep").mkdir(parents=True)
    log = logs / "deep" / "server.log"
    known.write_text(json.dumps(SAMPLE.encode().hex()) + "\n")
    command = [sys.executable, str(ROOT / "support" / "redaction.py"), str(known), str(logs)]
    log.write_text('{"message":"started"}\n' * 1000)
    assert subprocess.run(command, capture_output=True).returncode == 0
    log.write_text('{"message":"started"}\n' * 1000 + f'{{"message":"{text}"}}\n')
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "server.log" in done.stdout, done.stdout
    assert not any(form.decode() in done.stdout for _, form in forms(SAMPLE))
