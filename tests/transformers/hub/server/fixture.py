"""Starts the server with seeded repositories, and gives tests its address and Python's client of the hub."""
import atexit
import hashlib
import http.client
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

SERVER = pathlib.Path(__file__).resolve().parent / "hub_server.py"
TOKEN, READER, STRANGER = "hf_writer", "hf_reader", "hf_stranger"
PART_BYTES = 1000
FOLDER = tempfile.TemporaryDirectory(prefix="hub_server_test_")
ROOT, SEED = pathlib.Path(FOLDER.name, "root"), pathlib.Path(FOLDER.name, "seed")
SMALL = bytes(range(200))
LARGE = bytes(index * index % 251 for index in range(2 * PART_BYTES + 345))


def write_seed():
    files = {"models/acme/seeded/config.json": b"{}\n", "models/acme/seeded/model.safetensors": LARGE,
             "models/acme/gated-model/config.json": b"{}\n", "models/acme/private-model/config.json": b"{}\n",
             "models/lonely/config.json": b'{"lonely": true}\n', "datasets/acme/rows/data/train.parquet": SMALL}
    for name, content in files.items():
        (SEED / name).parent.mkdir(parents=True, exist_ok=True)
        (SEED / name).write_bytes(content)


def start_server(*options):
    """Starts a server, which ends with this script, and returns it with its address."""
    process = subprocess.Popen([sys.executable, SERVER, "--until-eof", *options], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(process.kill)
    return process, process.stdout.readline().strip()


write_seed()
PROCESS, URL = start_server("--root", ROOT, "--seed", SEED, "--token", TOKEN, f"{READER}:read", f"{STRANGER}:other",
                            "--page-size", "3", "--part-size", str(PART_BYTES), "--storage-host", "127.0.0.2")
HUB = urllib.parse.urlsplit(URL).netloc
PREFIXES = ("HF_", "HUGGING_FACE_")
for variable in [name for name in os.environ if name.startswith(PREFIXES) or name.lower().endswith("_proxy")]:
    del os.environ[variable]
os.environ.update(HF_HUB_DISABLE_XET="1", HF_ENDPOINT=URL, HF_HOME=str(pathlib.Path(FOLDER.name, "home")),
                  HF_HUB_DISABLE_PROGRESS_BARS="1", HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DOWNLOAD_TIMEOUT="2")

import huggingface_hub  # noqa: E402, the client reads the environment when it is imported
from huggingface_hub import CommitOperationAdd as Add, CommitOperationDelete as Delete  # noqa: E402
from huggingface_hub import errors  # noqa: E402

huggingface_hub.logging.set_verbosity_error()


def call(method, target, body=None, headers=None, address=HUB):
    """Returns status, headers and body of one request, which asks with the writer's token unless headers are given."""
    headers = {"Authorization": f"Bearer {TOKEN}"} if headers is None else headers
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request(method, target, json.dumps(body) if isinstance(body, dict) else body, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def log():
    return json.loads(call("GET", "/_log")[2])


def install(match, times=1, **action):
    call("POST", "/_fault", {"match": match, "times": times, "action": action})


def files_below(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in pathlib.Path(folder).rglob("*") if path.is_file()}


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class HubTest(unittest.TestCase):
    """Gives each test an empty log, no faults, a client, a scratch folder, and a repository on demand."""

    def setUp(self):
        call("DELETE", "/_fault")
        log()
        self.api = huggingface_hub.HfApi(token=TOKEN)
        scratch = tempfile.TemporaryDirectory(dir=FOLDER.name)
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def new_repository(self, **options):
        name = f"acme/{self._testMethodName}".replace("_", "-").lower()
        self.api.create_repo(name, **options)
        return name

    def commit(self, name, *operations, **options):
        return self.api.create_commit(name, operations, commit_message="test", **options)

    def mirror(self, name, kind="models"):
        files = files_below(ROOT / kind / name)
        self.assertIn("*.safetensors filter=lfs", files.pop(".gitattributes").decode())
        return files

    def download(self, name, filename, **options):
        options = {"token": TOKEN, "cache_dir": self.scratch / "cache", **options}
        return pathlib.Path(huggingface_hub.hf_hub_download(name, filename, **options)).read_bytes()

    def snapshot(self, name, **options):
        folder = huggingface_hub.snapshot_download(name, token=TOKEN, local_dir=self.scratch / "snapshot", **options)
        return {path: content for path, content in files_below(folder).items() if not path.startswith(".cache/")}

    def assert_status(self, status, error_type, function, *arguments, **options):
        with self.assertRaises(error_type) as caught:
            function(*arguments, **options)
        self.assertEqual(caught.exception.response.status_code, status)
        return caught.exception
