"""Servers that the interop tests share: one anonymous on loopback with tables of every type, one
that knows two tenants, one behind TLS. Each must end with 0 on SIGTERM."""

import hashlib
import json
import pathlib
import subprocess
import sys
import types

import pyarrow as pa
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import arrow_types  # noqa: E402
from lake_server import LakeServer  # noqa: E402


def write_arrow(path, table, batch_rows=None):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return path


def load(server, name, table, columns, directory, batch_rows=None, env=None):
    """Creates a table by the command line and imports `table` into it from an Arrow file."""
    arguments = [word for column in columns for word in ("--column", column)]
    server.run("table", "create", name, *arguments, env=env)
    path = write_arrow(directory / f"{name}.arrow", table, batch_rows)
    server.run("import", name, path, env=env)


@pytest.fixture(scope="session")
def typed():
    return arrow_types.make_table()


@pytest.fixture(scope="session")
def lake(tmp_path_factory, typed):
    """An anonymous server with lab.typed, lab.empty, lab.big, lab.files, and other.* empty."""
    directory = tmp_path_factory.mktemp("lake")
    with LakeServer(directory / "data") as server:
        load(server, "lab.typed", typed, arrow_types.column_arguments(), directory,
             arrow_types.ROWS // arrow_types.BATCHES)
        server.run("table", "create", "lab.empty", "--column", "id:int64!", "--column", "note:utf8")
        big = pa.table({"mib": pa.array([11, 20], pa.int64()),
                        "data": pa.array([b"\x5a" * (n << 20) for n in (11, 20)], pa.binary())})
        load(server, "lab.big", big, ["mib:int64", "data:binary"], directory)
        for name in ("t", "a_b", "axb"):
            server.run("table", "create", f"other.{name}", "--column", "id:int64")
        server.files = put_file(server, directory)
        yield server


def put_file(server, directory):
    """lab.files with one managed object and one null; what the object is."""
    server.run("table", "create", "lab.files", "--column", "id:int64!", "--column", "video:FILE")
    path = directory / "video.mp4"
    data = bytes(range(256)) * 4096
    path.write_bytes(data)
    server.run("put", "--into", "lab.files", "--set", "id=1", "--file", f"video={path}")
    server.run("put", "--into", "lab.files", "--set", "id=2")
    return types.SimpleNamespace(size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


# ---- who may ----------------------------------------------------------------------------------------

TOKENS = {
    "alice": ("acme", "user", ["acme"]),
    "bob": ("globex", "user", ["globex", "shared"]),
    "query": ("lake", "query_service", ["*"]),
    "root": ("lake", "admin", ["*"]),
}


def write_principals(directory):
    """The principals file and a token file for each; both readable by their owner only."""
    principals = []
    for name, (tenant, role, namespaces) in TOKENS.items():
        token = directory / f"{name}.token"
        token.touch(mode=0o600)
        token.write_text(f"{name}-token-7d1f0c2b9a")
        principals.append({"token": token.read_text(), "principal_id": name, "tenant_id": tenant,
                           "role": role, "namespaces": namespaces})
    path = directory / "principals.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps({"principals": principals}))
    return path


def token_of(server, name):
    return (server.secrets / f"{name}.token").read_text()


def auth_environment(secrets):
    return {"LAKE_AUTH_PRINCIPALS_FILE": write_principals(secrets),
            "LAKE_METADATA_AUTH_TOKEN_FILE": secrets / "query.token"}


def fill_tenants(server, env=None):
    """acme.t with three rows, globex.t with one."""
    for who, name, rows in (("alice", "acme.t", 3), ("bob", "globex.t", 1)):
        token = {**(env or {}), "LAKE_TOKEN_FILE": server.secrets / f"{who}.token"}
        table = pa.table({"id": pa.array(range(rows), pa.int64())})
        load(server, name, table, ["id:int64"], server.secrets, env=token)


@pytest.fixture(scope="session")
def tenants(tmp_path_factory):
    """A server that knows two tenants; `secrets` is the directory of their tokens."""
    directory = tmp_path_factory.mktemp("tenants")
    with LakeServer(directory / "data", auth_environment(directory)) as server:
        server.secrets = directory
        fill_tenants(server)
        yield server


# ---- TLS ---------------------------------------------------------------------------------------------


def make_certificate(directory, name):
    """A self-signed certificate for localhost and 127.0.0.1."""
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    try:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", f"/CN={name}", "-addext",
                        "subjectAltName=DNS:localhost,IP:127.0.0.1",
                        "-out", certificate, "-keyout", key], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.fail("the openssl command is missing: deps/fetch test brings it")
    key.chmod(0o600)
    return certificate, key


@pytest.fixture(scope="session")
def tls(tmp_path_factory):
    """A server with tokens behind TLS; `ca` is its certificate, `wrong_ca` another one."""
    directory = tmp_path_factory.mktemp("tls")
    certificate, key = make_certificate(directory, "lake")
    wrong, _ = make_certificate(directory, "other")
    env = {**auth_environment(directory), "LAKE_TLS_CERT_FILE": certificate,
           "LAKE_TLS_KEY_FILE": key, "LAKE_METADATA_CA_FILE": certificate}
    with LakeServer(directory / "data", env) as server:
        server.secrets, server.ca, server.wrong_ca = directory, certificate, wrong
        fill_tenants(server, {"LAKE_CA_FILE": certificate})
        yield server


@pytest.fixture
def fresh(tmp_path):
    """Starts servers of one test's own: fresh(env) -> LakeServer."""
    servers = []

    def start(env=None):
        server = LakeServer(tmp_path / f"data{len(servers)}", env)
        servers.append(server)
        return server

    yield start
    for server in servers:
        with server:
            pass
