"""A small S3 server that misbehaves as it is told, for tests of clients.

Objects live in memory. A script is a list of rules, each {"on": {...}, "do": {...}, "times": n,
"skip": n}. `on` picks requests by any of: "op" (get, head, put, delete, list, create, part,
complete, abort, parts, uploads), "key", "part". `do` holds any of:

    delay_ms        wait before answering
    status, code    answer so, with an S3 error body, instead of doing anything
    headers         more headers of the answer; a null value removes one
    after           do what was asked first, then answer as told (an answer that is lost)
    body            this body with the status
    echo            an error body with the status, which repeats the request's URL and headers
    reset_after     send so many bytes of the body, then reset the connection
    close_after     send so many bytes of the body, then close it
    silent          close the connection without an answer
    stall_after     send so many bytes of the body, then nothing for `stall_ms`
    content_range   what the header says
    shift           give the range from so many bytes further on, with headers as asked
    shorten         leave out so many bytes at the end, with a Content-Length that fits
    lengthen        say that the body is so many bytes longer, and send them
    flip            change the byte at this position of the body
    whole           ignore Range
    replace         before answering, replace the object by other bytes of this size
    replay          answer as the last request of this operation was answered
    truncate_xml    cut the XML body after so many bytes

Of the server itself: "clock_s" (its clock is so far ahead), "expired" (session tokens that have
expired), "page" (most keys or parts of a listing's page), "empty_pages" (so many pages of a listing
without keys first), "region" (requests signed for another are told so), "etags" (false: none),
"lists_repeats" (a part that was sent twice is listed twice).
"""

import base64
import calendar
import collections
import email.utils
import hashlib
import http.server
import json
import re
import socket
import struct
import threading
import time
import urllib.parse
import uuid
from xml.sax.saxutils import escape

MAX_SKEW_S = 900


def content(key, size):
    """The bytes of an object of a script: known from its key and size."""
    seed = hashlib.sha256(key.encode()).digest()
    return (seed * (size // len(seed) + 1))[:size]


def etag_of(data):
    return '"%s"' % hashlib.md5(data).hexdigest()


class Reply:
    def __init__(self, status=200, body=b"", headers=None):
        self.status, self.body, self.headers = status, body, dict(headers or {})


def error(status, code, **headers):
    body = (f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code>'
            f"<Message>the fault server says {code}</Message></Error>")
    return Reply(status, body.encode(), {key.replace("_", "-"): value
                                         for key, value in headers.items()})


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        now = time.time() + self.server.script.get("clock_s", 0)
        return email.utils.formatdate(now, usegmt=True)

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    # ---- what is asked ----

    def parse(self):
        path, _, query = self.path.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        parts = urllib.parse.unquote(path).split("/", 2)
        self.key = parts[2] if len(parts) > 2 else ""
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length)
        if self.headers.get("x-amz-content-sha256", "").startswith("STREAMING-"):
            self.body = self.dechunk(self.body)

    @staticmethod
    def dechunk(body):
        out = b""
        while body:
            head, _, body = body.partition(b"\r\n")
            size = int(head.split(b";")[0], 16)
            out, body = out + body[:size], body[size + 2:]
        return out

    def operation(self):
        method, query = self.command, self.query
        if not self.key:
            return "uploads" if "uploads" in query else "list"
        if "uploads" in query:
            return "create"
        if "uploadId" in query:
            return {"PUT": "part", "POST": "complete", "DELETE": "abort", "GET": "parts"}[method]
        return {"GET": "get", "HEAD": "head", "PUT": "put", "DELETE": "delete"}[method]

    # ---- who asks ----

    def refuse_signature(self):
        script = self.server.script
        authorization = self.headers.get("Authorization", "")
        if "X-Amz-Signature" in self.query:
            authorization = "AWS4-HMAC-SHA256 Credential=" + self.query.get("X-Amz-Credential", "")
        match = re.match(r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/([^/]+)/s3/aws4_request",
                         authorization)
        self.signer, self.region = match.groups() if match else (None, None)
        if not match:
            return error(403, "AccessDenied")
        now = time.time() + script.get("clock_s", 0)
        date = self.headers["x-amz-date"] or self.query.get("X-Amz-Date", "")
        then = time.strptime(date + "UTC", "%Y%m%dT%H%M%SZ%Z")
        if abs(now - calendar.timegm(then)) > MAX_SKEW_S:
            return error(403, "RequestTimeTooSkewed")
        if self.headers.get("x-amz-security-token") in script.get("expired", []):
            return error(400, "ExpiredToken")
        if script.get("region", self.region) != self.region:
            return error(301, "PermanentRedirect", x_amz_bucket_region=script["region"])
        return None

    # ---- what is answered ----

    def answer(self):
        with self.server.lock:
            return getattr(self, "on_" + self.op)()

    def object_headers(self, data, meta):
        headers = {"Last-Modified": email.utils.formatdate(1_700_000_000, usegmt=True), **meta}
        if self.server.script.get("etags", True):
            headers["ETag"] = meta.get("ETag", etag_of(data))
        return headers

    def on_get(self):
        found = self.server.objects.get(self.key)
        if found is None:
            return error(404, "NoSuchKey")
        data, meta = found
        headers = self.object_headers(data, meta)
        wanted = self.headers.get("If-Match")
        if wanted is not None and wanted != headers.get("ETag"):
            return error(412, "PreconditionFailed")
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not span or self.faults.get("whole"):
            return Reply(200, data, headers)
        first, last = int(span.group(1)), min(int(span.group(2)), len(data) - 1)
        if first >= len(data):
            return error(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        shift = self.faults.get("shift", 0)
        return Reply(206, data[first + shift:last + 1 + shift], headers)

    def on_head(self):
        reply = self.on_get()
        if reply.status >= 400:
            reply.body = b""
        return reply

    def metadata(self):
        return {name.lower(): value for name, value in self.headers.items()
                if name.lower().startswith("x-amz-meta-")}

    def on_put(self):
        if self.headers.get("If-None-Match") == "*" and self.key in self.server.objects:
            return error(412, "PreconditionFailed")
        given = self.headers.get("x-amz-checksum-crc32c")
        if given is not None and given != crc32c_text(self.body):
            return error(400, "BadDigest")
        self.server.objects[self.key] = (self.body, self.metadata())
        return Reply(200, b"", {"ETag": etag_of(self.body)})

    def on_delete(self):
        self.server.objects.pop(self.key, None)
        return Reply(204)

    def on_list(self):
        script, query = self.server.script, self.query
        limit = min(int(query.get("max-keys", 1000)), script.get("page", 1000))
        after = query.get("continuation-token", query.get("start-after", ""))
        empty, _, after = after.rpartition("|") if "|" in after else ("0", "", after)
        keys = sorted((key for key in self.server.objects
                       if key.startswith(query.get("prefix", "")) and key > after),
                      key=lambda key: key.encode())
        token = None
        if int(empty or 0) < script.get("empty_pages", 0):
            token, keys = f"{int(empty or 0) + 1}|{after}", []
        elif len(keys) > limit:
            keys = keys[:limit]
            token = f"{script.get('empty_pages', 0)}|{keys[-1]}"
        quote = urllib.parse.quote_plus if query.get("encoding-type") == "url" else escape
        contents = "".join(
            f"<Contents><Key>{quote(key, safe='/') if quote is not escape else escape(key)}</Key>"
            f"<LastModified>2026-01-02T03:04:05.000Z</LastModified>"
            f"<Size>{len(self.server.objects[key][0])}</Size></Contents>" for key in keys)
        encoding = "<EncodingType>url</EncodingType>" if quote is not escape else ""
        more = f"<NextContinuationToken>{escape(token)}</NextContinuationToken>" if token else ""
        return self.xml("ListBucketResult", f"<IsTruncated>{str(token is not None).lower()}"
                        f"</IsTruncated>{encoding}{contents}{more}")

    @staticmethod
    def xml(root, inside):
        return Reply(200, (f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="http://s3'
                           f'.amazonaws.com/doc/2006-03-01/">{inside}</{root}>').encode())

    def on_create(self):
        upload = uuid.uuid4().hex
        self.server.uploads[upload] = (self.key, {}, self.metadata())
        return self.xml("InitiateMultipartUploadResult",
                        f"<Key>{escape(self.key)}</Key><UploadId>{upload}</UploadId>")

    def upload(self):
        found = self.server.uploads.get(self.query["uploadId"])
        return found if found is not None and found[0] == self.key else None

    def on_part(self):
        found = self.upload()
        if found is None:
            return error(404, "NoSuchUpload")
        number = int(self.query["partNumber"])
        found[1][number] = self.body
        self.server.sent[self.query["uploadId"], number] += 1
        return Reply(200, b"", {"ETag": etag_of(self.body)})

    def on_parts(self):
        found = self.upload()
        if found is None:
            return error(404, "NoSuchUpload")
        limit = min(int(self.query.get("max-parts", 1000)), self.server.script.get("page", 1000))
        after = int(self.query.get("part-number-marker", 0))
        numbers = sorted(number for number in found[1] if number > after)
        more = len(numbers) > limit
        numbers = numbers[:limit]
        if self.server.script.get("lists_repeats"):
            numbers = [n for n in numbers for _ in range(self.server.sent[self.query["uploadId"], n])]
        parts = "".join(f"<Part><PartNumber>{n}</PartNumber><Size>{len(found[1][n])}</Size>"
                        f"<ETag>{escape(etag_of(found[1][n]))}</ETag></Part>" for n in numbers)
        marker = f"<NextPartNumberMarker>{numbers[-1]}</NextPartNumberMarker>" if more else ""
        return self.xml("ListPartsResult",
                        f"{parts}<IsTruncated>{str(more).lower()}</IsTruncated>{marker}")

    def on_uploads(self):
        limit = min(int(self.query.get("max-uploads", 1000)), self.server.script.get("page", 1000))
        after = (self.query.get("key-marker", ""), self.query.get("upload-id-marker", ""))
        prefix = self.query.get("prefix", "")
        found = sorted((key, upload) for upload, (key, _, _) in self.server.uploads.items()
                       if key.startswith(prefix) and (key, upload) > after)
        more = len(found) > limit
        found = found[:limit]
        uploads = "".join(
            f"<Upload><Key>{urllib.parse.quote_plus(key, safe='/')}</Key><UploadId>{upload}"
            "</UploadId><Initiated>2026-01-02T03:04:05.000Z</Initiated></Upload>"
            for key, upload in found)
        marker = (f"<NextKeyMarker>{urllib.parse.quote_plus(found[-1][0], safe='/')}"
                  f"</NextKeyMarker><NextUploadIdMarker>{found[-1][1]}</NextUploadIdMarker>"
                  if more else "")
        return self.xml("ListMultipartUploadsResult", f"<EncodingType>url</EncodingType>{uploads}"
                        f"<IsTruncated>{str(more).lower()}</IsTruncated>{marker}")

    def on_complete(self):
        found = self.upload()
        if found is None:
            return error(404, "NoSuchUpload")
        if self.headers.get("If-None-Match") == "*" and self.key in self.server.objects:
            return error(412, "PreconditionFailed")
        wanted = re.findall(rb"<PartNumber>(\d+)</PartNumber><ETag>(.*?)</ETag>", self.body)
        numbers = [int(number) for number, _ in wanted]
        if not numbers or any(etag_of(found[1].get(n, b"?")) != etag.decode()
                              for n, (_, etag) in zip(numbers, wanted)):
            return error(400, "InvalidPart")
        data = b"".join(found[1][n] for n in numbers)
        digest = hashlib.md5(b"".join(hashlib.md5(found[1][n]).digest() for n in numbers))
        tag = f'"{digest.hexdigest()}-{len(numbers)}"'
        self.server.objects[self.key] = (data, {**found[2], "ETag": tag})
        del self.server.uploads[self.query["uploadId"]]
        return self.xml("CompleteMultipartUploadResult", f"<ETag>{escape(tag)}</ETag>")

    def on_abort(self):
        if self.upload() is None:
            return error(404, "NoSuchUpload")
        del self.server.uploads[self.query["uploadId"]]
        return Reply(204)

    # ---- how it is answered ----

    def respond(self):
        self.parse()
        self.op = self.operation()
        self.faults = self.server.next_faults(self.op, self.key, self.query.get("partNumber"))
        faults = self.faults
        with self.server.lock:
            self.server.busy[self.op] += 1
            self.server.busiest[self.op] = max(self.server.busiest[self.op], self.server.busy[self.op])
        time.sleep(faults.get("delay_ms", 0) / 1000)
        with self.server.lock:
            self.server.busy[self.op] -= 1
        if "replace" in faults:
            with self.server.lock:
                data = bytes(b ^ 0xFF for b in content(self.key, faults["replace"]))
                self.server.objects[self.key] = (data, {})
        reply = self.refuse_signature()
        if reply is None and faults.get("replay"):
            reply = self.server.last.get(self.op)
        elif reply is None:
            told = "status" in faults
            done = self.answer() if not told or faults.get("after") else None
            reply = self.told_reply() if told else done
        self.server.note(self, reply)
        self.server.last[self.op] = reply
        self.send(reply)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = respond

    def told_reply(self):
        if self.faults.get("echo"):
            said = escape(f"{self.command} {self.path}\n{self.headers}")
            return Reply(self.faults["status"], (
                f"<Error><Code>SignatureDoesNotMatch</Code><Message>no: {said}</Message>"
                f"<CanonicalRequest>{said}</CanonicalRequest></Error>").encode())
        if "body" in self.faults:
            return Reply(self.faults["status"], self.faults["body"].encode())
        return error(self.faults["status"], self.faults.get("code", "InternalError"))

    def send(self, reply):
        faults = self.faults
        if faults.get("silent"):
            self.hang_up(reset=False)
            return
        body = bytearray(reply.body)
        headers = {"Content-Length": str(len(body)), **reply.headers}
        if "flip" in faults:
            body[faults["flip"]] ^= 1
        if "shorten" in faults:
            body = body[:len(body) - faults["shorten"]]
            headers["Content-Length"] = str(len(body))
        if "lengthen" in faults:
            body += b"x" * faults["lengthen"]
            headers["Content-Length"] = str(len(body))
        if "truncate_xml" in faults:
            body = body[:faults["truncate_xml"]]
            headers["Content-Length"] = str(len(body))
        if "content_range" in faults:
            headers["Content-Range"] = faults["content_range"]
        headers.update(faults.get("headers", {}))
        self.send_response(reply.status)
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        stops = [faults[name] for name in ("reset_after", "close_after", "stall_after")
                 if name in faults]
        self.wfile.write(bytes(body[:stops[0]] if stops else body))
        if "stall_after" in faults:
            time.sleep(faults.get("stall_ms", 5000) / 1000)
        if stops:
            self.hang_up(reset="reset_after" in faults)

    def hang_up(self, reset):
        if reset:
            time.sleep(0.02)  # what was sent arrives first
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                       struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()


def _make_crc32c():
    table = []
    for i in range(256):
        for _ in range(8):
            i = (i >> 1) ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)

    def text(data):
        crc = 0xFFFFFFFF
        for byte in data:
            crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
        return base64.b64encode(struct.pack(">I", crc ^ 0xFFFFFFFF)).decode()
    return text


crc32c_text = _make_crc32c()


class FaultServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, script):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = script
        self.lock = threading.Lock()
        self.objects = {key: (content(key, size), {})
                        for key, size in script.get("objects", {}).items()}
        self.uploads, self.last, self.requests = {}, {}, []
        self.sent = collections.Counter()
        self.busy, self.busiest = collections.Counter(), collections.Counter()  # while delayed
        self.rules = [dict(rule) for rule in script.get("faults", [])]
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})

    def handle_error(self, request, address):
        pass  # the client ends connections as it likes

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.thread.join()
        self.server_close()

    def next_faults(self, op, key, part):
        with self.lock:
            for rule in self.rules:
                on = rule.get("on", {})
                if on.get("op", op) != op or on.get("key", key) != key:
                    continue
                if "part" in on and str(on["part"]) != part:
                    continue
                if rule.get("skip", 0) > 0:
                    rule["skip"] -= 1
                    continue
                if rule.get("times", 1) == 0:
                    continue
                rule["times"] = rule.get("times", 1) - 1
                return rule["do"]
        return {}

    def note(self, handler, reply):
        with self.lock:
            self.requests.append({
                "op": handler.op, "key": handler.key, "status": reply.status,
                "date": handler.headers.get("x-amz-date"),
                "if_match": handler.headers.get("If-Match"),
                "range": handler.headers.get("Range"),
                "token": handler.headers.get("x-amz-security-token"),
                "signer": handler.signer, "region": handler.region,
                "part": handler.query.get("partNumber"),
                "url_signature": handler.query.get("X-Amz-Signature")})


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)
