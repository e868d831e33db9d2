#!/usr/bin/env python3
"""What a download does when things fail. usage: failures_live.py PROBE [--kills N] [--seed N]

PROBE is the program of tests/transformers/hub/probe/hub_client.cpp. Each row installs a fault in the server of tests/transformers/hub/server, downloads, and
says what must come of it: success, or an error of a kind whose text has the cure. After each row all that is visible in the cache is
whole, nothing shows a token, and a download without the fault succeeds. Exits 1 when a row fails.
"""
import argparse
import base64
import concurrent.futures
import hashlib
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
TOKEN = "hf_writer_secret"
REPO = "acme/model"
BIG = "model.safetensors"
RETRIES = {"max_retries": 3, "retry_wait_ms": 1}
ONCE = {"max_retries": 0, "retry_wait_ms": 1}


class Hub:
    """A server with one repository; ends with the script."""

    def __init__(self, root, files, *options):
        self.files = files
        for name, content in files.items():
            for repo in (REPO, "acme/gated-model", "acme/private-model"):
                path = root / "seed" / "models" / repo / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        self.process = subprocess.Popen(
            [sys.executable, HERE / "server" / "hub_server.py", "--until-eof", "--root", root / "root", "--seed", root / "seed",
             "--token", TOKEN, "hf_stranger_secret:other", "--storage-host", "127.0.0.2", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def ask(self, method, target, body=None):
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.url).netloc, timeout=10)
        connection.request(method, target, json.dumps(body) if body is not None else None, {"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse().read()
        connection.close()
        return answer

    def fault(self, match, times, **action):
        self.ask("POST", "/_fault", {"match": match, "times": times, "action": action})

    def log(self):
        return json.loads(self.ask("GET", "/_log"))

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


class Cache:
    """A cache of its own for one row, and what the probe said."""

    def __init__(self, probe, folder, hub):
        self.probe, self.folder, self.hub, self.output = probe, folder, hub, ""

    def environment(self, **variables):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_") and not name.lower().endswith("_proxy")}
        return clean | {"HF_HOME": str(self.folder), "HF_ENDPOINT": self.hub.url} | variables

    def words(self, **asked):
        asked = {"call": "hf_hub_download", "id": REPO, "file": BIG, "token": TOKEN} | asked
        return [self.probe, json.dumps(asked)]

    def run(self, variables=None, **asked):
        done = subprocess.run(self.words(**asked), env=self.environment(**(variables or {})), capture_output=True, text=True, timeout=60, check=False)
        self.output += done.stdout + done.stderr
        if done.returncode != 0:
            raise AssertionError(f"the probe ended with {done.returncode}: {done.stderr[-500:]}")
        return json.loads(done.stdout)

    def check_whole(self):
        """Links lead to contents that are what their names say, and have the content of the repository."""
        for path in (self.folder / "hub").glob("*--*/blobs/*"):
            if path.name.endswith(".incomplete"):
                continue
            content = path.read_bytes()
            names = {hashlib.sha256(content).hexdigest(), hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()}
            assert path.name in names, f"{path} is not whole"
        for path in (self.folder / "hub").glob("*--*/snapshots/*/**/*"):
            if path.is_dir():
                continue
            name = str(path.relative_to(path.parents[len(path.parts) - path.parts.index("snapshots") - 3]))
            assert path.read_bytes() == self.hub.files[name], f"{path} is not whole"
        for path in (self.folder / "hub").glob("*--*/refs/**/*"):
            assert path.is_dir() or re.fullmatch("[0-9a-f]{40}", path.read_text(encoding="ascii")), f"{path} is no commit"

    def check_secrets(self):
        assert "secret" not in self.output, f"a token is shown: {self.output}"
        assert "Signature=" not in self.output, f"a signature is shown: {self.output}"


def expect(answer, error=None, pattern=""):
    if error is None:
        assert "value" in answer, f"expected success, got {answer}"
    else:
        assert answer.get("error") == error, f"expected {error}, got {answer}"
        assert re.search(pattern, answer["message"]), f"expected /{pattern}/, got {answer['message']}"


RESOLVE = f"GET /{REPO}/resolve"
STORE = "GET /objects"
OK = (None, "")

# name: (faults [(match, times, action)], what the probe is asked beside, environment, expected)
ROWS = {
    "unknown token": ([], {"token": "hf_other_secret"}, {}, ("HubError", "401.*accelerate hub login")),
    "private without a token": ([], {"id": "acme/private-model", "token": ""}, {}, ("HubError", "40[14].*private.*accelerate hub login")),
    "gated": ([], {"id": "acme/gated-model", "token": "hf_stranger_secret"}, {}, ("HubError", "accept it on the repository's page")),
    "forbidden": ([("HEAD", 9, {"status": 403})], ONCE, {}, ("HubError", "403.*settings/tokens")),
    "no such repository": ([], {"id": "acme/none"}, {}, ("HubError", "404.*no repository with this name")),
    "no such revision": ([], {"revision": "v9"}, {}, ("HubError", "404.*no revision 'v9'")),
    "no such file": ([], {"file": "x/none.bin"}, {}, ("HubError", "404.*no file 'x/none.bin'")),
    "429 that goes away": ([("HEAD", 1, {"status": 429, "headers": {"Retry-After": "1"}})], RETRIES, {}, OK),
    "429 that stays": ([("HEAD", 9, {"status": 429})], RETRIES, {}, ("HubError", "429.*Wait some minutes")),
    "408": ([("HEAD", 2, {"status": 408})], RETRIES, {}, OK),
    "500": ([(STORE, 2, {"status": 500})], RETRIES, {}, OK),
    "502": ([(STORE, 3, {"status": 502})], RETRIES, {}, OK),
    "503 that stays": ([(STORE, 9, {"status": 503})], RETRIES, {}, ("HubError", "503.*Try again later")),
    "504 of the list": ([("tree", 2, {"status": 504})], RETRIES | {"call": "snapshot_download"}, {}, OK),
    "no answer": ([("HEAD", 2, {"drop": True})], RETRIES, {}, OK),
    "never an answer": ([("HEAD", 9, {"drop": True})], RETRIES, {}, ("NetworkError", "not in the cache, and the hub cannot be asked")),
    "reset in the middle": ([(STORE, 1, {"cut_after": 500_000, "reset": True})], RETRIES, {}, OK),
    "stalls": ([(STORE, 1, {"stall_after": 300_000})], RETRIES, {"HF_HUB_DOWNLOAD_TIMEOUT": "1"}, OK),
    "stalls always": ([("HEAD", 9, {"delay_s": 5})], ONCE, {"HF_HUB_DOWNLOAD_TIMEOUT": "1"}, ("NetworkError", "hub cannot be asked")),
    "slow": ([(STORE, 1, {"delay_s": 1.5})], ONCE, {"HF_HUB_DOWNLOAD_TIMEOUT": "5"}, OK),
    "wrong once": ([(STORE, 1, {"corrupt_at": 777})], ONCE, {}, OK),
    "wrong always": ([(STORE, 99, {"corrupt_at": 777})], RETRIES, {}, ("NetworkError", "has the checksum [0-9a-f]{64}; promised was")),
    "small file wrong always": ([(RESOLVE, 99, {"corrupt_at": 0})], RETRIES | {"file": "config.json"}, {}, ("NetworkError", "has the checksum [0-9a-f]{40}; promised was")),
    "longer than promised": ([(STORE, 99, {"status": 200, "body": "x" * 2_000_000})], RETRIES, {}, ("NetworkError", "more than the 1048576 bytes")),
    "longer once": ([(STORE, 1, {"status": 200, "body": "x" * 2_000_000})], ONCE, {}, OK),
    "a token said back": ([("HEAD", 9, {"status": 403, "headers": {"X-Error-Message": f"bad token {TOKEN}"}})], ONCE, {}, ("HubError", r"bad token \[token\]")),
    "a next page that is none": ([("tree", 1, {"status": 200, "headers": {"Link": '<ftp://x/next>; rel="next"'}, "body": "[]"})],
                                 ONCE | {"call": "snapshot_download"}, {}, ("NetworkError", "has an invalid link to the next page")),
    "a size that is none": ([("tree", 1, {"status": 200, "body": json.dumps([{"type": "file", "path": "x", "size": -1, "oid": "a" * 40}])})],
                            ONCE | {"call": "snapshot_download"}, {}, ("NetworkError", "has no size for 'x'")),
    "a length that lies": ([(STORE, 1, {"content_length": 2_000_000})], RETRIES, {}, OK),
    "packed unasked": ([(RESOLVE, 99, {"gzip": True})], ONCE | {"file": "config.json"}, {}, ("NetworkError", "compresses the content")),
    "no commit": ([("HEAD", 9, {"no_commit_header": True})], ONCE, {}, ("NetworkError", "no commit or no ETag")),
    "no hub at all": ([("HEAD", 9, {"status": 200, "body": "", "headers": {}})], ONCE, {}, ("NetworkError", "HF_ENDPOINT")),
    "redirects in a circle": ([("HEAD", 99, {"redirect": f"/{REPO}/resolve/main/{BIG}"})], ONCE, {}, ("NetworkError", "more than 20 redirects")),
    "whole without a length": ([("HEAD|resolve", 9, {"no_length": True})], ONCE | {"file": "config.json"}, {}, OK),
    "large and whole without a length": ([("HEAD|objects", 9, {"no_length": True})], ONCE, {}, OK),
    "cut once without a length": ([("HEAD", 9, {"no_length": True}), (RESOLVE, 1, {"no_length": True, "cut_after": 10})], ONCE | {"file": "config.json"}, {}, OK),
    "cut always without a length": ([("HEAD", 9, {"no_length": True}), (RESOLVE, 99, {"no_length": True, "cut_after": 10})], ONCE | {"file": "config.json"}, {},
                                    ("NetworkError", "has the checksum [0-9a-f]{40}; promised was.*cut after 10 bytes")),
    "large and cut without a length": ([("HEAD", 9, {"no_length": True}), (STORE, 99, {"no_length": True, "cut_after": 512_000})], ONCE, {},
                                       ("NetworkError", "has the checksum [0-9a-f]{64}; promised was.*cut after 512000 bytes")),
    "cut with a length in the answer alone": ([("HEAD", 9, {"no_length": True}), (RESOLVE, 1, {"cut_after": 10})], RETRIES | {"file": "config.json"}, {}, OK),
    "endless": ([("HEAD", 9, {"no_length": True}), (RESOLVE, 9, {"endless": True})], RETRIES | {"file": "config.json"}, {}, ("NetworkError", "does not say how long.*more than the [0-9]+ bytes")),
    "endless although a length was promised": ([(STORE, 9, {"endless": True})], ONCE, {}, ("NetworkError", "more than the 1048576 bytes")),
    "neither length nor checksum": ([("HEAD", 9, {"no_length": True, "etag": '"abc"'}), (RESOLVE, 9, {"no_length": True})], RETRIES | {"file": "config.json"}, {},
                                    ("NetworkError", "neither a length nor a checksum")),
    "a weak name is checked": ([("HEAD", 9, {"weak_etag": True}), (RESOLVE, 9, {"corrupt_at": 0})], ONCE | {"file": "config.json"}, {}, ("NetworkError", "has the checksum [0-9a-f]{40}")),
    "a range that was not asked for": ([(STORE, 1, {"status": 206, "headers": {"Content-Range": "bytes 5-9/1048576"}, "body": "01234"})], ONCE, {}, OK),
    "cut where no range is known": ([(STORE, 99, {"of_ranges": True, "status": 416}), (STORE, 2, {"cut_after": 100_000})], RETRIES, {}, OK),
    "cut where ranges are wrong": ([(STORE, 99, {"of_ranges": True, "status": 206, "headers": {"Content-Range": "bytes 0-9/1048576"}, "body": "0123456789"}),
                                    (STORE, 2, {"cut_after": 100_000})], RETRIES, {}, OK),
    "a range of another file": ([(STORE, 9, {"status": 206, "headers": {"Content-Range": "bytes 0-4/99"}, "body": "01234"})], ONCE, {}, ("NetworkError", "not all of the 1048576 bytes")),
    "a total below what came": ([("HEAD", 9, {"no_length": True}), (STORE, 1, {"no_length": True, "cut_after": 100_000, "reset": True}),
                                 (STORE, 99, {"status": 206, "headers": {"Content-Range": "bytes 100000-100009/50"}, "body": "0123456789"})], RETRIES, {},
                                ("NetworkError", "announces 50 bytes in all|a different range")),
    "shorter than promised": ([(STORE, 9, {"status": 200, "body": "x"})], ONCE, {}, ("NetworkError", "not all of the 1048576 bytes")),
    "headers without end": ([("HEAD", 9, {"status": 200, "headers": {f"X-{i}": "a" * 60_000 for i in range(4)}})], RETRIES, {}, ("NetworkError", "headers of the answer are longer")),
    "no content": ([(STORE, 9, {"status": 204})], RETRIES, {}, ("NetworkError", "answered 204")),
    "a byte now and then": ([(STORE, 9, {"trickle_s": 0.1})], ONCE, {"HF_HUB_DOWNLOAD_TIMEOUT": "1"}, ("NetworkError", "cannot fetch 'model.safetensors'")),
    "a list a byte now and then": ([("tree", 9, {"trickle_s": 0.1})], ONCE | {"call": "snapshot_download"}, {"HF_HUB_DOWNLOAD_TIMEOUT": "1"}, ("NetworkError", "hub cannot be asked")),
    "pages in a circle": ([("tree.*page=b", 99, {"status": 200, "headers": {"Link": f'</api/models/{REPO}/tree/x?page=a>; rel="next"'}, "body": "[]"}),
                           ("tree", 99, {"status": 200, "headers": {"Link": f'</api/models/{REPO}/tree/x?page=b>; rel="next"'}, "body": "[]"})],
                          ONCE | {"call": "snapshot_download"}, {}, ("NetworkError", "pages that lead in a circle")),
    "a file twice": ([("tree", 9, {"status": 200, "body": json.dumps([{"type": "file", "path": "x", "size": 1, "oid": "a" * 40}] * 2)})],
                     ONCE | {"call": "snapshot_download"}, {}, ("NetworkError", "has 'x' more than once")),
    "an entry that is none": ([("tree", 9, {"status": 200, "body": '[{"type": "directory"}, 7]'})], ONCE | {"call": "snapshot_download"}, {}, ("NetworkError", "not a JSON object")),
    "a list that is none": ([("tree", 9, {"status": 200, "body": "{}"})], ONCE | {"call": "snapshot_download"}, {}, ("NetworkError", "not a JSON array")),
}
for etag in ("../../evil", "a/b", ".hidden", "x" * 200, "a.incomplete"):
    ROWS[f"the name {etag[:20]}"] = ([("HEAD", 9, {"etag": f'"{etag}"'})], ONCE, {}, ("NetworkError", "cannot be a file's name"))
for path in (".", "a/.", "a//b", "../evil", "/etc/evil", "a/../../evil", "a\\..\\..\\evil", ""):
    entry = [{"type": "file", "path": path, "size": 1, "oid": "a" * 40}]
    ROWS[f"the path {path!r}"] = ([("tree", 9, {"status": 200, "body": json.dumps(entry)})], ONCE | {"call": "snapshot_download"}, {}, ("NetworkError", "is refused"))


def check_row(probe, home, files, name):
    faults, asked, variables, expected = ROWS[name]
    folder = home / hashlib.md5(name.encode()).hexdigest()
    hub = Hub(folder, files)
    try:
        cache = Cache(probe, folder / "home", hub)
        for match, times, action in faults:
            hub.fault(match, times, **action)
        expect(cache.run(variables, **asked), *expected)
        cache.check_whole()
        hub.ask("DELETE", "/_fault")
        expect(cache.run(call="snapshot_download"))
        cache.check_whole()
        left = list((folder / "home").glob("**/*.incomplete"))
        assert not left, f"left over: {left}"
        cache.check_secrets()
        for request in hub.log():
            where = request["address"].split(":")[0]
            assert where == "127.0.0.1" or "authorization" not in request["headers"], "the token went to the store"
    finally:
        hub.close()


def check_cuts(probe, home, files):
    """Cut short at every 64 KiB: one call goes on by itself; without retries the next call does."""
    hub = Hub(home, files)
    try:
        cache = Cache(probe, home / "home", hub)
        for place in range(0, len(files[BIG]), 65536):
            for retries in (RETRIES, ONCE):
                shutil.rmtree(cache.folder, ignore_errors=True)
                hub.log()
                hub.fault(STORE, 1, cut_after=place)
                answer = cache.run(**retries)
                if retries is ONCE:
                    expect(answer, "NetworkError", "cannot fetch 'model.safetensors'")
                    cache.check_whole()
                    answer = cache.run()
                expect(answer)
                cache.check_whole()
                ranges = [request["headers"].get("range") for request in hub.log() if request["path"].startswith("/objects")]
                assert ranges == [None, f"bytes={place}-" if place else None], f"cut at {place}: asked for {ranges}"
    finally:
        hub.close()


def check_parts(probe, home, files):
    """Parts that another call left: too long, of other content, whole."""
    hub = Hub(home, files)
    content = files[BIG]
    try:
        cache = Cache(probe, home / "home", hub)
        blob = cache.folder / "hub" / "models--acme--model" / "blobs" / hashlib.sha256(content).hexdigest()
        for part in (content + b"more", b"\0" * 1000, content, b"", b"\0" * len(content)):
            shutil.rmtree(cache.folder, ignore_errors=True)
            blob.parent.mkdir(parents=True)
            blob.with_name(blob.name + ".incomplete").write_bytes(part)
            expect(cache.run(**ONCE))
            cache.check_whole()
        # Another range than was asked for: begun anew.
        shutil.rmtree(cache.folder, ignore_errors=True)
        blob.parent.mkdir(parents=True)
        blob.with_name(blob.name + ".incomplete").write_bytes(content[:1000])
        hub.fault(STORE, 1, status=206, headers={"Content-Range": f"bytes 0-9/{len(content)}"}, body="0123456789")
        expect(cache.run(**ONCE))
        cache.check_whole()
        # A total below what came already: begun anew, instead of written beyond it.
        shutil.rmtree(cache.folder, ignore_errors=True)
        blob.parent.mkdir(parents=True)
        blob.with_name(blob.name + ".incomplete").write_bytes(content[:1000])
        hub.fault("HEAD", 1, no_length=True)
        hub.fault(STORE, 1, status=206, headers={"Content-Range": "bytes 1000-1009/50"}, body="0123456789")
        expect(cache.run(**ONCE))
        cache.check_whole()
        # A range that the server does not know, and one that it answers with all.
        for action in ({"status": 416}, {"status": 200, "body": base64.b64encode(b"x").decode()}):
            shutil.rmtree(cache.folder, ignore_errors=True)
            blob.parent.mkdir(parents=True)
            blob.with_name(blob.name + ".incomplete").write_bytes(content[:1000])
            hub.fault(STORE, 1, **action)
            expect(cache.run(**RETRIES))
            cache.check_whole()
        # A damaged content of the right size is replaced on demand, one of another size by itself.
        blob.write_bytes(b"\0" * len(content))
        expect(cache.run(force_download=True))
        cache.check_whole()
        blob.write_bytes(b"")
        expect(cache.run())
        cache.check_whole()
    finally:
        hub.close()


def check_kills(probe, home, files, kills, numbers):
    """Killed at random instants: all that is visible is whole, and the last call completes."""
    hub = Hub(home, files)
    try:
        cache = Cache(probe, home / "home", hub)
        for _ in range(kills):
            hub.fault("GET", 3, delay_s=0.05)
            process = subprocess.Popen(cache.words(call="snapshot_download"), env=cache.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(numbers.uniform(0, 0.15))
            process.kill()
            process.wait()
            cache.check_whole()
            if numbers.random() < 0.3:
                shutil.rmtree(cache.folder, ignore_errors=True)
        hub.ask("DELETE", "/_fault")
        expect(cache.run(call="snapshot_download"))
        cache.check_whole()
        found = {str(path.relative_to(next((cache.folder / "hub").glob("*/snapshots/*")))) for path in (cache.folder / "hub").glob("*/snapshots/*/**/*") if not path.is_dir()}
        assert found == set(files), f"{found} are there"
    finally:
        hub.close()


def check_long_list(probe, home, files):
    """A list of 30 MB, of which nothing is a file, takes little more memory than its text."""
    hub = Hub(home, files)
    try:
        cache = Cache(probe, home / "home", hub)
        hub.fault("tree", 1, status=200, body="[" + ",".join(['{"type":"directory","more":[{},[],{"a":[0]}]}'] * 700_000) + "]")
        process = subprocess.Popen(cache.words(call="list_repo_files", **ONCE), env=cache.environment(), stdout=subprocess.PIPE, text=True)
        answer = json.loads(process.stdout.read())
        process.stdout.close()
        kib = os.wait4(process.pid, 0)[2].ru_maxrss
        expect(answer)
        assert kib < 150 << 10, f"{kib} KiB"
    finally:
        hub.close()


def check_offline(probe, home, files):
    """Without the hub: what is in the cache, else a sentence."""
    hub = Hub(home, files)
    cache = Cache(probe, home / "home", hub)
    expect(cache.run(call="snapshot_download"))
    expect(cache.run(revision="v9"), "HubError", "no revision 'v9'")  # Believed, whatever is cached.
    hub.close()
    expect(cache.run(**ONCE))
    assert "uses the cached copy of" in cache.output, "no warning"
    expect(cache.run(call="snapshot_download", **ONCE))
    expect(cache.run(id="acme/other", **ONCE), "NetworkError", "not in the cache, and the hub cannot be asked")
    expect(cache.run(force_download=True, **ONCE), "NetworkError", "no answer from")
    for asked, variables in (({"local_files_only": True}, {}), ({}, {"HF_HUB_OFFLINE": "1"})):
        expect(cache.run(variables, **asked))
        expect(cache.run(variables, file="none", **asked), "FileError", "accelerate hub download acme/model")
        expect(cache.run(variables, id="acme/other", **asked), "FileError", "accelerate hub download acme/other")
    next((home / "home" / "hub").glob("*/snapshots/*/config.json")).unlink()
    expect(cache.run(call="snapshot_download", local_files_only=True), "FileError", "lacks 1 file.*config.json")
    cache.check_secrets()


def check_full_disk(probe, home, files):
    """A disk of half a MiB, mounted where nobody else sees it."""
    hub = Hub(home, files)
    try:
        disk = home / "disk"
        disk.mkdir()
        cache = Cache(probe, disk, hub)
        script = f'mount -t tmpfs -o size=512k none "{disk}" && "$0" "$1" && find "{disk}" -size +0 -type f'
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, *cache.words(**ONCE)], env=cache.environment(), capture_output=True, text=True, check=False)
        if "error" not in done.stdout:
            print(f"full disk: not tried, {done.stderr.strip()}")
            return
        answer = json.loads(done.stdout.splitlines()[0])
        expect(answer, "FileError", r"it needs 1048576 bytes and the disk has \d+ bytes")
    finally:
        hub.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probe")
    parser.add_argument("--kills", type=int, default=100 if os.environ.get("ACCELERATE_TEST_EXTENDED") else 5)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    numbers = random.Random(options.seed)
    files = {BIG: numbers.randbytes(1 << 20), "config.json": b'{"model_type": "bert"}\n', "empty.txt": b"", "deep/er/x.bin": numbers.randbytes(70_000)}
    with tempfile.TemporaryDirectory(prefix="failures_live_") as name:
        home = pathlib.Path(name)
        checks = {row: (lambda row=row: check_row(options.probe, home, files, row)) for row in ROWS}
        for check in (check_cuts, check_parts, check_long_list, check_offline, check_full_disk):
            checks[check.__doc__] = lambda check=check: check(options.probe, home / check.__name__, files)
        checks[check_kills.__doc__] = lambda: check_kills(options.probe, home / "kills", files, options.kills, numbers)
        for check in ("check_full_disk",):
            (home / check).mkdir()
        failed = 0
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            running = {pool.submit(check): name for name, check in checks.items()}
            for done in concurrent.futures.as_completed(running):
                if error := done.exception():
                    failed += 1
                    print(f"{running[done]}: {type(error).__name__}: {error}")
    print(f"{len(checks) - failed} of {len(checks)} as expected")
    sys.exit(1 if failed else 0)


main()
