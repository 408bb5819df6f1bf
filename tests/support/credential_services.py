"""The services that hand out AWS credentials, played by a small HTTP server."""

import http.server
import json
import threading
import time
import urllib.parse

from redaction import declare

HUSH = "hush/secret+"  # what every secret key begins with
declare(HUSH)


def iso(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


class Services(http.server.ThreadingHTTPServer):
    """STS, a container's and an instance's credentials service at one address."""

    daemon_threads = True
    jwt = "jwt.+/="  # the web identity's token that STS wants

    def __init__(self, lives=(3600,), failures=()):
        super().__init__(("127.0.0.1", 0), Service)
        self.lives, self.failures, self.asked = list(lives), list(failures), []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.thread.join()
        self.server_close()

    def keys(self, source):
        count = len([name for name in self.asked if name == source])
        life = self.lives[min(count, len(self.lives)) - 1]
        return f"{source}{count}", HUSH + source, f"token{count}", iso(life)


class Service(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def fail(self, source):
        self.server.asked.append(source)
        if not self.server.failures:
            return False
        self.reply(self.server.failures.pop(0), "{}")
        return True

    def as_json(self, source):
        if self.fail(source):
            return
        key, secret, token, expires = self.server.keys(source)
        self.reply(200, json.dumps({"Code": "Success", "AccessKeyId": key, "Token": token,
                                    "SecretAccessKey": secret, "Expiration": expires}))

    def do_GET(self):
        if self.path == "/container":
            good = self.headers.get("Authorization") == "container-auth"
            return self.as_json("CONTAINER") if good else self.reply(401, "no")
        if self.headers.get("X-aws-ec2-metadata-token") != "imds":
            return self.reply(401, "no")
        if self.path == "/latest/meta-data/iam/security-credentials/":
            return self.reply(200, "the-role\n")
        if self.path == "/latest/meta-data/iam/security-credentials/the-role":
            return self.as_json("INSTANCE")
        return self.reply(404, "")

    def do_PUT(self):
        self.reply(200 if self.path == "/latest/api/token" and
                   self.headers.get("X-aws-ec2-metadata-token-ttl-seconds") else 400, "imds")

    def do_POST(self):
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        wanted = {"Action": ["AssumeRoleWithWebIdentity"], "Version": ["2011-06-15"],
                  "RoleArn": ["arn:aws:iam::1:role/lake+x"], "WebIdentityToken": [self.server.jwt]}
        if any(form.get(name) != value for name, value in wanted.items()):
            return self.reply(400, "<ErrorResponse/>")
        if self.fail("STS"):
            return None
        key, secret, token, expires = self.server.keys("STS")
        return self.reply(200, (
            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
            f"<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>"
            f"<SessionToken>{token}</SessionToken><Expiration>{expires}</Expiration></Credentials>"
            "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"))
