"""A snapshot of 1 GiB, four files of random bytes, from Debian's nginx on loopback into an empty cache.

- The call is `snapshot_download` until it returns, Python's without importing it and without Xet, which a plain server has not. Both
  sides ask the same server for the same files, eight at once, in turns. Each starts with an empty cache on the same disk, and what
  the one before wrote is on the disk first.
- Ours computes the SHA-256 of every file and compares it with what the hub promised. Python compares sizes.
- Where nginx is not installed its package is fetched by `apt-get download` and unpacked into `.cache/nginx`; nothing is installed.
"""
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import time

from harness import FOLDER, BenchmarkError, Contender, Summary, alternate, free_port, run
from report import AtMost, Row, Times

TITLE = "The hub: downloads, ours and huggingface_hub's"
PROGRAMS = ("hub_snapshot",)
ROUNDS = 5
CACHE = FOLDER.parent / ".cache" / "nginx"
REPO = "org/big"
COMMIT = "1" * 40
FILES = 4

CONFIGURATION = """
{user}worker_processes 2; daemon off; pid {home}/pid; error_log {home}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off; sendfile on; sendfile_max_chunk 1m; default_type application/octet-stream;
  client_body_temp_path {home}/t1; proxy_temp_path {home}/t2; fastcgi_temp_path {home}/t3; uwsgi_temp_path {home}/t4; scgi_temp_path {home}/t5;
  server {{
    listen 127.0.0.1:{port};
    location = /api/models/{repo}/revision/main {{ alias {home}/info.json; }}
    location = /api/models/{repo}/tree/{commit} {{ alias {home}/tree.json; }}
    {files}
  }}
}}
"""
FILE = """location = /{repo}/resolve/{commit}/{name} {{
      alias {home}/{name}; etag off; add_header ETag '"{sha256}"'; add_header X-Repo-Commit {commit};
    }}"""


def nginx(setting):
    """The program: of the originals' environment, installed, or fetched."""
    found = shutil.which("nginx", path=f"{setting.venv / 'bin'}:{os.environ.get('PATH', '')}:/usr/sbin")
    unpacked = CACHE / "usr" / "sbin" / "nginx"
    if found or unpacked.exists():
        return found or unpacked
    CACHE.mkdir(parents=True, exist_ok=True)
    for command in (["apt-get", "download", "nginx"], ["sh", "-c", "dpkg -x nginx_*.deb ."]):
        if subprocess.run(command, cwd=CACHE, capture_output=True, check=False).returncode != 0:
            break
    if not unpacked.exists():
        raise BenchmarkError("nginx is missing: `apt-get install nginx`")
    return unpacked


def make_files(home, size):
    """Writes the files and what the hub would say of them; returns nginx's part for them."""
    tree, parts = [], []
    for number in range(1, FILES + 1):
        name = f"model-{number:05}-of-{FILES:05}.safetensors"
        content = os.urandom(size)
        (home / name).write_bytes(content)
        sha256 = hashlib.sha256(content).hexdigest()
        tree.append({"type": "file", "path": name, "size": size, "oid": f"{number:040x}",
                     "lfs": {"oid": sha256, "size": size, "pointerSize": 134}})
        parts.append(FILE.format(repo=REPO, commit=COMMIT, home=home, name=name, sha256=sha256))
    (home / "tree.json").write_text(json.dumps(tree), encoding="utf-8")
    (home / "info.json").write_text(json.dumps({"id": REPO, "sha": COMMIT, "siblings": [], "tags": [], "private": False}), encoding="utf-8")
    return "\n    ".join(parts)


@contextlib.contextmanager
def served(setting, home, size):
    """nginx while the block lasts; gives its address."""
    port = free_port()
    files = make_files(home, size)
    # As root nginx would read by another user, who may not look into the folder.
    user = "user root;\n" if os.geteuid() == 0 else ""
    (home / "nginx.conf").write_text(CONFIGURATION.format(home=home, port=port, repo=REPO, commit=COMMIT, files=files, user=user), encoding="utf-8")
    with open(home / "log", "wb") as log:
        server = subprocess.Popen([nginx(setting), "-p", home, "-c", home / "nginx.conf"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        for _ in range(100):
            if (home / "pid").exists() or server.poll() is not None:
                break
            time.sleep(0.05)
        if server.poll() is not None:
            raise BenchmarkError(f"nginx ended: {(home / 'log').read_text(errors='replace')}")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


@dataclasses.dataclass(frozen=True)
class AtEndpoint:
    """A setting whose programs ask another hub."""
    inner: object
    endpoint: str

    @property
    def samples(self):
        return self.inner.samples

    def environment(self):
        return self.inner.environment() | {"HF_ENDPOINT": self.endpoint}


def fetched(setting, command, cache):
    """One fetch into an empty cache."""
    shutil.rmtree(cache, ignore_errors=True)
    os.sync()
    try:
        return run(setting, [*command, REPO, cache]).report()
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def measure(setting, say):
    home = pathlib.Path(setting.home) / "hub"
    home.mkdir()
    cache = home / "cache"
    say("makes 1 GiB of random bytes")
    with served(setting, home, (1 << 20) if setting.quick else (256 << 20)) as endpoint:
        there = AtEndpoint(setting, endpoint)
        samples = alternate([Contender("ours", lambda: fetched(there, [setting.program("hub_snapshot")], cache)),
                             Contender("theirs", lambda: fetched(there, [setting.venv / "bin" / "python", setting.original("hub_snapshot")], cache))],
                            setting.rounds, say)

    def row(what, unit, quantity, target):
        found = {side: Summary.of(quantity(report) for report in reports) for side, reports in samples.items()}
        return Row(what, unit, found["ours"], found["theirs"], target)

    return [row("a snapshot of 1 GiB, the call", "s", lambda report: report["call_seconds"], Times(1 / 0.67)),
            row("most memory of the process", "MiB", lambda report: report["peak_kib"] / 1024, AtMost(64))]
