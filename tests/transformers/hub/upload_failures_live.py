#!/usr/bin/env python3
"""What an upload does when things fail. usage: upload_failures_live.py PROBE

PROBE is the program of tests/transformers/hub/probe/hub_client.cpp, the server that of tests/transformers/hub/server. Each row installs a fault at a route of the
protocol, uploads, and says what must come of it; afterwards the repository has what it should have, in as many commits as it should.
Exits 1 when a row fails.
"""
import concurrent.futures
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import http.client

HERE = pathlib.Path(__file__).resolve().parent
TOKEN = "hf_writer_secret"
REPO = "acme/up"
PART = 65536
SMALL, ONE_PART, PARTS = b'{"a": 1}\n', random.Random(1).randbytes(60_000), random.Random(2).randbytes(200_000)
FILES = {"config.json": SMALL, "one.safetensors": ONE_PART, "sub/parts.safetensors": PARTS}


class Hub:
    def __init__(self, root, *options):
        self.root = root
        self.process = subprocess.Popen(
            [sys.executable, HERE / "server" / "hub_server.py", "--until-eof", "--root", root / "root", "--token", TOKEN, "hf_reader_secret:read",
             "--storage-host", "127.0.0.2", "--part-size", str(PART), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def ask(self, method, target, body=None):
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.url).netloc, timeout=10)
        connection.request(method, target, json.dumps(body) if body is not None else None, {"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse().read()
        connection.close()
        return json.loads(answer or b"null")

    def fault(self, match, times, **action):
        self.ask("POST", "/_fault", {"match": match, "times": times, "action": action})

    def files(self):
        """What the repository has, without what it was made with."""
        folder = self.root / "root" / "models" / REPO
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".gitattributes"}

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


class Uploader:
    """A folder to upload, and what the probe said."""

    def __init__(self, probe, home):
        self.probe, self.home, self.folder, self.output = probe, home, home / "files", ""
        for name, content in FILES.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.hub = Hub(home)
        assert "value" in self.run(call="create_repo")
        self.hub.ask("GET", "/_log")

    def words(self, **asked):
        return [self.probe, json.dumps({"call": "upload_folder", "id": REPO, "folder": str(self.folder), "token": TOKEN, "endpoint": self.hub.url,
                                        "max_retries": 3, "retry_wait_ms": 1, "message": "change"} | asked)]

    def environment(self):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_") and not name.lower().endswith("_proxy")}
        return clean | {"HF_HOME": str(self.home)}

    def run(self, **asked):
        done = subprocess.run(self.words(**asked), env=self.environment(), capture_output=True, text=True, timeout=60, check=False)
        self.output += done.stdout + done.stderr
        if done.returncode != 0:
            raise AssertionError(f"the probe ended with {done.returncode}: {done.stderr[-500:]}")
        return json.loads(done.stdout)

    def log(self, pattern):
        return [request for request in self.hub.ask("GET", "/_log?keep=1") if re.search(pattern, f"{request['method']} {request['path']}")]


def expect(answer, error=None, pattern=""):
    if error is None:
        assert "value" in answer, f"expected success, got {answer}"
    else:
        assert answer.get("error") == error, f"expected {error}, got {answer}"
        assert re.search(pattern, answer["message"], re.S), f"expected /{pattern}/, got {answer['message']}"


PREUPLOAD, BATCH, PUT, PART_PUT = "POST /api/models/acme/up/preupload", "POST /acme/up.git/info/lfs", "PUT /objects", "PUT /parts"
COMPLETE, VERIFY, COMMIT = "POST /api/complete_multipart", "POST /acme/up.git/info/lfs/objects/verify", "POST /api/models/acme/up/commit"
BATCH_ONLY = "POST /acme/up.git/info/lfs/objects/batch"
ROWS = {}
for route in (PREUPLOAD, BATCH_ONLY, PUT, PART_PUT, COMPLETE, VERIFY, COMMIT):
    ROWS[f"503 at {route}"] = ([(route, 2, {"status": 503})], None, "")
    ROWS[f"no answer at {route}"] = ([(route, 1, {"lose_answer": True})], None, "")
    ROWS[f"dropped at {route}"] = ([(route, 1, {"drop": True})], None, "")
    ROWS[f"403 at {route}"] = ([(route, 9, {"status": 403})], "NetworkError" if route in (PUT, PART_PUT, COMPLETE, VERIFY) else "HubError", "403.*settings/tokens")
ROWS["429 at the commit"] = ([(COMMIT, 1, {"status": 429, "headers": {"Retry-After": "1"}})], None, "")
ROWS["500 at the commit that stays"] = ([(COMMIT, 9, {"status": 500})], "HubError", "500.*Try again later")
ROWS["412 at the commit"] = ([(COMMIT, 9, {"status": 412})], "HubError", "412.*Another commit came first")
for name, answer in {"no commit": "{}", "half a commit": '{"commitOid": "aa', "a word as commit": '{"commitOid": "main"}'}.items():
    ROWS[f"the answer to the commit has {name}"] = ([(COMMIT, 9, {"status": 200, "body": answer})], "NetworkError", "names no commit: check at")
for name, answer in {
    "no JSON": "x", "a list": "[]", "nothing": "", "no objects": "{}", "objects that are none": '{"objects": [1]}', "no object": '{"objects": []}', "another object": '{"objects": [{"oid": "f", "size": 1, "actions": {}}]}',
}.items():
    ROWS[f"the store answers {name}"] = ([(BATCH_ONLY, 9, {"status": 200, "body": answer})], "NetworkError", "store of large files")
for name, action in {
    "an address of the disk": {"upload": {"href": "file:///etc/passwd"}}, "an address with a user": {"upload": {"href": "http://u:p@127.0.0.1/"}},
    "no parts": {"upload": {"href": "http://127.0.0.1:1/", "header": {"chunk_size": "10"}}}, "parts of no bytes": {"upload": {"href": "http://127.0.0.1:1/", "header": {"chunk_size": "0"}}},
    "upload that is a text": {"upload": "x"}, "upload that is null": {"upload": None}, "no address": {"upload": {}}, "a number as address": {"upload": {"href": 1}},
    "no upload": {}, "actions that are a text": "x", "a verify that is a text": {"upload": {"href": "http://127.0.0.1:1/"}, "verify": "x"},
    "a verify on the disk": {"upload": {"href": "http://127.0.0.1:1/"}, "verify": {"href": "file:///x"}},
    "a size of parts that is a word": {"upload": {"href": "http://127.0.0.1:1/", "header": {"chunk_size": "many"}}},
    "a part on the disk": {"upload": {"href": "http://127.0.0.1:1/", "header": {"chunk_size": str(1 << 20), "1": "file:///etc/passwd"}}},
    "negative parts": {"upload": {"href": "http://127.0.0.1:1/", "header": {"chunk_size": -5, "1": "http://127.0.0.1:1/"}}},
}.items():
    ROWS[f"the store answers {name}"] = (name, action)


def check_row(probe, home, name):
    up = Uploader(probe, home)
    try:
        row = ROWS[name]
        if isinstance(row[0], str):  # The answer needs the checksums of the files.
            import hashlib
            objects = [{"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "actions": row[1]} for content in (ONE_PART, PARTS)]
            row = ([(BATCH_ONLY, 9, {"status": 200, "body": json.dumps({"objects": objects})})], "NetworkError", "store of large files")
        faults, error, pattern = row
        for match, times, action in faults:
            up.hub.fault(match, times, **action)
        started = time.monotonic()
        expect(up.run(), error, pattern)
        answered = [request for request in up.log(COMMIT) if request["status"] == 200]
        assert len(answered) <= 1, f"a commit that was answered was sent {len(answered)} times"
        assert error is None or time.monotonic() - started < 5, "it took long to say no"
        if error:
            assert not up.hub.files(), "a commit was made in spite of the error"
            up.hub.ask("DELETE", "/_fault")
            expect(up.run())
        assert up.hub.files() == FILES, "the repository has something else"
        made = [request for request in up.log(COMMIT) if (request["status"] == 200 and "status" not in (request.get("fault") or {})) or (request.get("fault") or {}).get("lose_answer")]
        assert len(made) == 1, f"{len(made)} commits were made"
        assert "secret" not in up.output, "a token is shown"
        for request in up.log(""):
            assert request["address"].startswith("127.0.0.1:") or "authorization" not in request["headers"], "the token went to the store"
        assert up.run()["value"]["is_new"] is False, "an unchanged folder was committed"
    finally:
        up.hub.close()


def check_parts(probe, home):
    """A part fails and only that part is sent again."""
    up = Uploader(probe, home)
    try:
        up.hub.fault(r"PUT /parts/\w+/2", 2, status=500)
        expect(up.run())
        sent = sorted(re.search(r"/parts/\w+/(\d+)", request["path"])[1] for request in up.log(PART_PUT))
        assert sent == ["1", "2", "2", "2", "3", "4"], sent
    finally:
        up.hub.close()


def check_deletions(probe, home):
    """Deletions whose commit is made unheard are not made twice."""
    up = Uploader(probe, home)
    try:
        expect(up.run())
        for operations in ([{"delete": "config.json"}], [{"delete": "sub/"}, {"add": "sub/new.txt", "text": "n"}], [{"delete": "sub/"}],
                           [{"delete": "one.safetensors"}, {"add": "x.txt", "text": "x"}]):
            up.hub.ask("GET", "/_log")
            up.hub.fault(COMMIT, 1, lose_answer=True)
            expect(up.run(call="create_commit", operations=operations))
            assert len(up.log(COMMIT)) == 1, operations
        assert up.hub.files() == {"x.txt": b"x"}, up.hub.files()
        up.hub.fault(COMMIT, 1, drop=True)  # Not made: sent again.
        expect(up.run(call="create_commit", operations=[{"delete": "x.txt"}]))
        assert not up.hub.files()
    finally:
        up.hub.close()


def check_links(probe, home):
    """A link that leads back up is an error, a broken one is left out."""
    up = Uploader(probe, home)
    try:
        (up.folder / "broken").symlink_to("nowhere")
        expect(up.run())
        (up.folder / "sub" / "up").symlink_to("..")
        expect(up.run(), "FileError", "link lead|levels of symbolic links")
    finally:
        up.hub.close()


def check_kill(probe, home):
    """Killed amid six large files; the next call sends those that are missing."""
    up = Uploader(probe, home)
    try:
        for i in range(6):
            (up.folder / f"{i}.safetensors").write_bytes(random.Random(10 + i).randbytes(50_000))
        up.hub.fault(PUT, 99, delay_s=0.15)
        process = subprocess.Popen(up.words(max_workers=1), env=up.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(up.log(PUT)) < 3:
            time.sleep(0.02)
        process.kill()
        process.wait()
        up.hub.ask("DELETE", "/_fault")
        time.sleep(0.3)
        stored = {request["path"].partition("?")[0] for request in up.log(PUT) if request["status"] == 200}
        up.hub.ask("GET", "/_log")
        expect(up.run())
        again = {request["path"].partition("?")[0] for request in up.log(PUT)}
        assert len(stored) >= 2 and not stored & again, f"sent again: {stored & again}"
        assert set(up.hub.files()) == set(FILES) | {f"{i}.safetensors" for i in range(6)}
    finally:
        up.hub.close()


def check_changes(probe, home):
    """A file that grows while others are sent is an error, and no commit is made."""
    up = Uploader(probe, home)
    try:
        up.hub.fault(PUT, 9, delay_s=0.6)
        process = subprocess.Popen(up.words(), env=up.environment(), stdout=subprocess.PIPE, text=True)
        while not up.log(BATCH_ONLY):
            time.sleep(0.02)
        with open(up.folder / "one.safetensors", "ab") as file:
            file.write(b"more")
        expect(json.loads(process.communicate(timeout=60)[0]), "FileError", "it changed while it was uploaded")
        assert not up.hub.files()
    finally:
        up.hub.close()


def check_background(probe, home):
    """Uploads in the background come one after the other; what has not changed makes no commit."""
    up = Uploader(probe, home)
    try:
        answer = up.run(times=3)["value"]
        assert [one["is_new"] for one in answer] == [True, False, False], answer
        assert len({one["oid"] for one in answer}) == 1, answer
    finally:
        up.hub.close()


def check_text(probe, home):
    """What cannot go into JSON is a typed error."""
    up = Uploader(probe, home)
    try:
        (up.folder / "README.md").write_bytes(b"---\nlicense: mit\n---\n\xff\xfe")
        expect(up.run(), "ConfigError", "UTF-8")
        os.remove(up.folder / "README.md")
        for path in ("../x", ".git/x", "a//b", ""):
            expect(up.run(call="create_commit", operations=[{"add": path, "text": "x"}]), "ConfigError")
        twice = [{"add": "x", "text": "1"}, {"add": "x", "text": "2"}]
        expect(up.run(call="create_commit", operations=twice), "ConfigError", "two operations on 'x'")
        expect(up.run(token="hf_reader_secret"), "HubError", "403")
        expect(up.run(folder=str(home / "none")), "FileError")
    finally:
        up.hub.close()


def main(probe):
    with tempfile.TemporaryDirectory(prefix="upload_failures_live_") as name:
        home = pathlib.Path(name)
        checks = {row: (lambda place, row=row: check_row(probe, place, row)) for row in ROWS}
        for check in (check_parts, check_deletions, check_links, check_kill, check_changes, check_background, check_text):
            checks[check.__doc__] = lambda place, check=check: check(probe, place)
        failed = 0
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            running = {pool.submit(check, home / str(number)): what for number, (what, check) in enumerate(checks.items())}
            for done in concurrent.futures.as_completed(running):
                if error := done.exception():
                    failed += 1
                    print(f"{running[done]}: {type(error).__name__}: {error}")
    print(f"{len(checks) - failed} of {len(checks)} as expected")
    sys.exit(1 if failed else 0)


main(sys.argv[1])
