"""Faults that tests install, and the log of all requests. Both may be used from many threads.

GET /_log answers the requests since the last call, to both addresses, as a list; GET /_log?keep=1 forgets none.
Each has method, path with query, headers, body (base64; of a PUT to the storage body_sha256 in its place),
body_length, address, status (null when nothing was answered), and fault (null or the action that was used).

POST /_fault {"match": REGEX, "times": N, "action": ACTION} changes the answers to the next N requests whose
"METHOD path?query" the expression is found in. DELETE /_fault forgets all faults. An action has one or more of:

  of_ranges: true      is for requests with a Range alone
  delay_s: X           waits before it handles the request
  drop: true           closes without handling the request and without an answer
  lose_answer: true    handles the request, then closes without the answer
  status, headers, body    answers this in place of handling the request
  redirect: URL        answers 302, or "status", to this address in place of handling the request
  corrupt_at: OFFSET   flips the bits of one byte of the body
  gzip: true           compresses the body
  etag: "..."          replaces ETag and X-Linked-Etag
  no_commit_header: true   leaves X-Repo-Commit out
  no_length: true      announces no length, also in X-Linked-Size, and ends the body by closing
  weak_etag: true      makes ETag and X-Linked-Etag weak
  endless: true        announces no length, and repeats the body until the client leaves
  trickle_s: X         sends one byte of the body every X seconds
  content_length: N    announces a wrong length, and closes after the body
  cut_after: N         sends all headers and N bytes of the body, then closes
  stall_after: N       sends all headers and N bytes of the body, then nothing until the client leaves
  reset: true          makes drop, lose_answer, cut_after and content_length close by RST, which may lose sent bytes
"""
import base64
import dataclasses
import gzip
import hashlib
import re
import threading

from messages import Response


class Faults:
    """A list of faults. The first that matches a request is used, until it was used `times` times."""

    def __init__(self):
        self._lock = threading.Lock()
        self._faults = []

    def install(self, match, action, times=1):
        with self._lock:
            self._faults.append([re.compile(match), action, times])

    def clear(self):
        with self._lock:
            self._faults.clear()

    def take(self, request):
        """Returns the action for this request, and counts it as used; {} if there is none."""
        line = f"{request.method} {request.target}"
        with self._lock:
            for fault in self._faults:
                is_meant = "range" in request.headers or not fault[1].get("of_ranges")
                if fault[2] > 0 and is_meant and fault[0].search(line):
                    fault[2] -= 1
                    return fault[1]
        return {}


def replacement(action):
    """Returns the answer that an action gives in place of handling the request; None if it gives none."""
    headers = dict(action.get("headers", {}))
    if "redirect" in action:
        return Response(action.get("status", 302), {**headers, "Location": action["redirect"]})
    if "status" in action:
        return Response(action["status"], headers, action.get("body", "").encode())
    return None


def changed(response, action):
    """Returns the answer with the content and headers that an action wants."""
    headers, body = dict(response.headers), response.body
    offset = action.get("corrupt_at")
    if offset is not None and offset < len(body):
        body = body[:offset] + bytes([body[offset] ^ 0xFF]) + body[offset + 1:]
    if action.get("gzip"):
        body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
    for name in ("ETag", "X-Linked-Etag"):
        if "etag" in action and name in headers:
            headers[name] = action["etag"]
        if "weak_etag" in action and name in headers:
            headers[name] = "W/" + headers[name]
    if action.get("no_length"):
        headers.pop("X-Linked-Size", None)
    if action.get("no_commit_header"):
        headers.pop("X-Repo-Commit", None)
    return dataclasses.replace(response, headers=headers, body=body)


class Log:
    """The requests in the order in which they arrived."""

    def __init__(self):
        self._lock = threading.Lock()
        self._entries = []

    def open(self, request, is_upload, action):
        """Adds a request without a status, and returns its entry for `close`.

        Of an upload to the storage it keeps SHA-256 and length, of any other request the body.
        """
        body = "" if is_upload else base64.b64encode(request.body).decode()
        entry = {"method": request.method, "path": request.target, "headers": request.headers,
                 "body": body, "body_length": len(request.body), "address": request.address,
                 "status": None, "fault": action or None}
        if is_upload:
            entry["body_sha256"] = hashlib.sha256(request.body).hexdigest()
        with self._lock:
            self._entries.append(entry)
        return entry

    def close(self, entry, status):
        with self._lock:
            entry["status"] = status

    def read(self, keep):
        """Returns copies of the entries, and forgets them unless `keep`. `status` is null while a request runs."""
        with self._lock:
            entries = [dict(entry) for entry in self._entries]
            if not keep:
                self._entries = []
            return entries
