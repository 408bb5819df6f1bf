"""Looks for secrets where none may be: logs, messages, files.

    redaction.py SECRETS PATH…     ends with 1, and says where, when one of the secrets that tests
                                   declared into the file SECRETS is in a file at or below a PATH

A secret is looked for as it is, and percent-encoded, in base64 at every alignment, in hexadecimal,
escaped as in JSON and XML; a long one also by its halves. Signatures of presigned URLs, bearer tokens
and private keys are found by their looks as well.
"""

import base64
import html
import json
import os
import pathlib
import re
import sys
import urllib.parse

LONG = 24  # a half of so many bytes is no chance hit
MAX_FILE_BYTES = 1 << 28
LOOKS = [rb"X-Amz-Signature(=|%3D)[0-9a-fA-F]{16}", rb"(?i)authorization\W{1,8}bearer [\w.~+/-]{4}",
         rb"(?i)x-amz-security-token(=|%3D|: ?)[\w/+%-]{8}", rb"AWS4-HMAC-SHA256 Credential=",
         rb"BEGIN [A-Z ]*PRIVATE KEY"]


def declare(*secrets):
    """These are searched for at the end of the suite, too."""
    path = os.environ.get("LAKE_TEST_SECRETS")
    if path:
        with open(path, "a", encoding="utf-8") as out:
            out.writelines(json.dumps(as_bytes(secret).hex()) + "\n" for secret in secrets)
    return secrets


def as_bytes(secret):
    return secret if isinstance(secret, bytes) else str(secret).encode()


def base64_forms(data):
    """What `data` becomes within a longer base64 text, without the letters that its neighbours share."""
    for before in range(3):
        text = base64.b64encode(bytes(before) + data)
        start = -(-before * 8 // 6)
        yield text[start:(before + len(data)) * 8 // 6]


def percent_forms(data):
    for safe in ("", "/", "/=", "/+=:@"):
        yield urllib.parse.quote_from_bytes(data, safe=safe).encode()
    yield urllib.parse.quote_plus(data).encode()


def forms(secret):
    """Every spelling, by its name. Those in hexadecimal and percent signs are in lower case."""
    whole = as_bytes(secret)
    parts = {"": whole}
    if len(whole) >= LONG:
        parts.update({"first half of ": whole[:len(whole) // 2],
                      "second half of ": whole[len(whole) // 2:]})
    for which, data in parts.items():
        yield which + "raw", data
        yield which + "hexadecimal", data.hex().encode()
        for text in percent_forms(data):
            yield which + "percent-encoded", text.lower()
        for text in base64_forms(data):
            yield which + "base64", text
            yield which + "base64", text.replace(b"+", b"-").replace(b"/", b"_")
        readable = data.decode("utf-8", "replace")
        yield which + "JSON", json.dumps(readable)[1:-1].encode()
        yield which + "JSON", json.dumps(readable)[1:-1].replace("/", "\\/").encode()
        yield which + "XML", html.escape(readable).encode()


class Search:
    def __init__(self, secrets):
        found = {(name, text) for secret in secrets for name, text in forms(secret)}
        self.exact = [pair for pair in found if "hex" not in pair[0] and "percent" not in pair[0]]
        self.lower = [pair for pair in found if "hex" in pair[0] or "percent" in pair[0]]

    def data(self, data, where):
        """What is found, in words that do not repeat it."""
        data = as_bytes(data)
        lower = data.lower()
        for pairs, within in ((self.exact, data), (self.lower, lower)):
            for name, text in pairs:
                at = within.find(text)
                if at >= 0:
                    yield f"{where}: a secret ({name}, {len(text)} bytes) at {at}"
        for look in LOOKS:
            match = re.search(look, data)
            if match:
                yield f"{where}: looks like a secret at {match.start()} ({look.decode()})"

    def paths(self, *paths):
        for root in map(pathlib.Path, paths):
            files = [root] if root.is_file() else sorted(root.rglob("*"))
            for path in files:
                yield from self.data(str(path), f"the name {path}")
                if path.is_file() and not path.is_symlink() and path.stat().st_size <= MAX_FILE_BYTES:
                    yield from self.data(path.read_bytes(), path)


def assert_none(secrets, *texts):
    search = Search(secrets)
    found = [line for text in texts for line in search.data(text, "output")]
    assert found == [], found


def main():
    secrets = pathlib.Path(sys.argv[1])
    declared = {json.loads(line) for line in secrets.read_text().splitlines()} \
        if secrets.exists() else set()
    paths = sys.argv[2:]
    found = list(Search(map(bytes.fromhex, declared)).paths(*paths))
    for line in found:
        print(line)
    files = sum(path.is_file() for root in paths for path in [pathlib.Path(root),
                                                              *pathlib.Path(root).rglob("*")])
    print(f"{len(declared)} secrets looked for in {files} files: {len(found)} found")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
