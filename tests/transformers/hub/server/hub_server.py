#!/usr/bin/env python3
"""Serves the Hugging Face hub's HTTP protocol on the loopback, for tests of clients.

usage: hub_server.py --root DIR [--token TOKEN[:ROLE]] [--seed DIR] [--page-size N] [--part-size BYTES]
                     [--storage-host HOST] [--until-eof]

Prints its address as the first line, and serves until it is killed. Another address serves the LFS storage.
Nobody may write without one of the tokens. Roles: write (the default), read, and other: a stranger's token.

The head of main of each repository lies in DIR/models/owner/name or DIR/datasets/owner/name, each LFS object in
DIR/objects. Tests read the log of requests at GET /_log, and install faults with POST /_fault: see faults.py.
"""
import argparse
import http.server
import os
import select
import socket
import struct
import sys
import threading
import time
import traceback
import uuid

from faults import Faults, Log, changed, replacement
from messages import HubError, Request, json_response
from repositories import Store
from routes import ROLES, Hub
from storage import Storage


class Listener(http.server.ThreadingHTTPServer):
    """One listening address. `serve` answers a request; `control` does so for paths that begin with /_."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host, is_storage):
        super().__init__((host, 0), Handler)
        self.is_storage = is_storage
        self.address = f"{host}:{self.server_port}"
        self.base = f"http://{self.address}"
        self.site = None

    def handle_error(self, request, client_address):
        """Keeps quiet about clients that left; reports anything else."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Site:
    """Both listeners with what they share. Requests are handled one at a time; waiting happens outside."""

    def __init__(self, options):
        self.hub_listener = Listener("127.0.0.1", is_storage=False)
        self.storage_listener = Listener(options.storage_host, is_storage=True)
        self.faults, self.log = Faults(), Log()
        self._lock = threading.Lock()
        store = Store(options.root)
        self._storage = Storage(store, self.storage_listener.base, options.part_size)
        self._hub = Hub(store, self._storage, self.hub_listener.base, dict(options.token))
        self._hub.page_size = options.page_size
        if options.seed:
            store.seed(options.seed)
        for listener in (self.hub_listener, self.storage_listener):
            listener.site = self
            threading.Thread(target=listener.serve_forever, daemon=True).start()

    def handle(self, request, is_storage):
        """Returns the answer to a request, refusals and failures of this server included."""
        try:
            with self._lock:
                return (self._storage if is_storage else self._hub).handle(request)
        except HubError as error:
            return error.response(as_text=is_storage or "/resolve/" in request.path)
        except Exception:  # a test has to see it, and the server has to live on
            traceback.print_exc()
            return json_response({"error": "Internal Server Error"}, 500)

    def control(self, request):
        """Answers GET /_log, POST /_fault and DELETE /_fault, which are neither logged nor faulted."""
        if (request.method, request.path) == ("GET", "/_log"):
            return json_response(self.log.read(keep=request.query.get("keep") == "1"))
        if (request.method, request.path) == ("DELETE", "/_fault"):
            self.faults.clear()
            return json_response({})
        if (request.method, request.path) == ("POST", "/_fault"):
            fault = request.json()
            self.faults.install(fault["match"], fault["action"], fault.get("times", 1))
            return json_response({})
        return json_response({"error": "no such control"}, 404)


class Handler(http.server.BaseHTTPRequestHandler):
    """Reads requests from a connection, and sends answers as the faults want them."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def _serve(self):
        site, request = self.server.site, self._request()
        if request.path.startswith("/_") and not self.server.is_storage:
            return self._send(site.control(request), {})
        action = site.faults.take(request)
        is_upload = self.server.is_storage and request.method == "PUT"
        entry = site.log.open(request, is_upload, action)
        time.sleep(action.get("delay_s", 0))
        if action.get("drop"):
            return self._close(action)
        response = replacement(action) or site.handle(request, self.server.is_storage)
        site.log.close(entry, response.status)
        if action.get("lose_answer"):
            return self._close(action)
        self._send(changed(response, action), action)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve

    def _request(self):
        headers = {name.lower(): value for name, value in self.headers.items()}
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = self._chunked_body()
        else:
            body = self.rfile.read(int(headers.get("content-length", 0)))
        return Request(self.command, self.path, headers, body, self.server.address)

    def _chunked_body(self):
        body = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def _send(self, response, action):
        length = action.get("content_length", len(response.body))
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        if {"no_length", "endless"} & action.keys():
            self.close_connection = True
        elif not any(name.lower() == "content-length" for name in response.headers):
            self.send_header("Content-Length", str(length))
        self.send_header("X-Request-Id", f"Root=1-{uuid.uuid4()}")
        self.end_headers()
        if self.command != "HEAD":
            self._send_body(response.body, action)
        self.wfile.flush()

    def _send_body(self, body, action):
        """Sends the body, or the begin of it that a fault lets through."""
        body = body[:action.get("cut_after", action.get("stall_after"))]
        while "endless" in action:  # Until the client leaves, which is an error here.
            self.wfile.write(body * (1 + 65536 // len(body)))
        for byte in body if "trickle_s" in action else b"":
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(action["trickle_s"])
        if "trickle_s" not in action:
            self.wfile.write(body)
        self.wfile.flush()
        if "stall_after" in action:
            select.select([self.connection], [], [])  # readable once the client has left
        if {"cut_after", "stall_after", "content_length"} & action.keys():
            self._close(action)

    def _close(self, action):
        """Closes the connection; with the action's "reset" by RST, which the client sees as a failure at once."""
        self.close_connection = True
        if action.get("reset"):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())  # close() would wait for the files made of the socket

    def log_message(self, *arguments):
        """Says nothing: GET /_log tells what was asked."""


def parse_token(text):
    token, _, role = text.partition(":")
    if role not in ("", *ROLES):
        raise argparse.ArgumentTypeError(f"unknown role {role!r}")
    return token, role or "write"


def parse_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--token", type=parse_token, action="extend", nargs="+", default=[])
    parser.add_argument("--seed")
    parser.add_argument("--page-size", type=int, default=1000)
    parser.add_argument("--part-size", type=int, default=16 * 1024 * 1024)
    parser.add_argument("--storage-host", default="127.0.0.1")
    parser.add_argument("--until-eof", action="store_true")
    return parser.parse_args()


def main():
    options = parse_options()
    site = Site(options)
    print(site.hub_listener.base, flush=True)
    if options.until_eof:
        while os.read(sys.stdin.fileno(), 4096):
            pass
    else:
        threading.Event().wait()


if __name__ == "__main__":
    main()
