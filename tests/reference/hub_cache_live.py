#!/usr/bin/env python3
"""Compares accelerate/transformers/hub/cache/cache.h with huggingface_hub and transformers. usage: hub_cache_live.py PROBE

PROBE is the program of tests/transformers/hub/probe. Python's own hf_hub_download fills caches from a server in this process, each
is then changed or damaged in one way, and both sides are asked for its folders and for files in them: all files with
ACCELERATE_TEST_EXTENDED=1, otherwise three in each folder, chosen by a new seed that is printed. An answer may differ only where we
refuse on purpose what Python takes; the last line counts those by reason. Exits 1 when an answer differs otherwise.
"""
import collections
import hashlib
import http.server
import importlib
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

EXTENDED = os.environ.get("ACCELERATE_TEST_EXTENDED") == "1"
os.environ["NO_PROXY"] = "127.0.0.1"
VARIABLES = ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME", "HF_HUB_OFFLINE",
             "TRANSFORMERS_OFFLINE"]
for variable in VARIABLES:
    if variable != "HOME":
        os.environ.pop(variable, None)

import huggingface_hub
from huggingface_hub import constants, errors, file_download
from huggingface_hub._tree_cache import TreeCacheEntry, write_tree_cache
from huggingface_hub.utils import validate_repo_id

huggingface_hub.utils.logging.set_verbosity_error()
huggingface_hub.utils.disable_progress_bars()

MAIN, NEXT, ABSENT = "a" * 40, "0123456789abcdef" * 2 + "01234567", "f" * 40
COMMITS = {"main": MAIN, "v2.0": NEXT, "refs/pr/1": NEXT, MAIN: MAIN, NEXT: NEXT}
FILES = {"config.json": b"{}", "onnx/model.json": b"[1]", "deep/er/x.bin": b"x"}
MODELS = [("org/name", "model"), ("bert-base-uncased", "model"), ("org/name", "dataset")]

NAMES = ["org/name", "bert-base-uncased", "org/none", "name", "org--name", "a/b/c", "", "-x", "org/name.git"]
REVISIONS = ["main", "v2.0", "refs/pr/1", "refs/pr", "refs", MAIN, NEXT, ABSENT, "none", "aaaaaaa", MAIN.upper(),
             "MAIN", "main/", "./main", "v2.0/x", "../refs/main", "/etc", "..", "odd"]
QUESTIONS = ["config.json", "onnx/model.json", "deep/er/x.bin", "none.json", "onnx", "onnx/none", "config.json/x",
             "./config.json", "../x", "a/../config.json", "/etc/passwd", "..\\x", "absent.json"]


class Probe:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, call, **arguments):
        self.process.stdin.write(json.dumps({"call": call, **arguments}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class Tally:
    """Counts the answers, and prints those that differ."""

    def __init__(self):
        self.equal, self.different, self.stricter = collections.Counter(), 0, collections.Counter()

    def count(self, what, same, reason, shown):
        if same:
            self.equal[what] += 1
        elif reason:
            self.stricter[reason] += 1
        else:
            self.different += 1
            print(f"{what} differs: {shown}", file=sys.stderr)


class Server(http.server.BaseHTTPRequestHandler):
    """The hub, as far as hf_hub_download needs it."""
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        before, after = self.path.split("/resolve/")
        revision, filename = (urllib.parse.unquote(part) for part in after.split("/", 1))
        commit, content = COMMITS[revision], FILES.get(filename)
        self.send_response(200 if content is not None else 404)
        self.send_header("X-Repo-Commit", commit)
        if content is None:
            self.send_header("X-Error-Code", "EntryNotFound")
        else:
            self.send_header("ETag", f'"{hashlib.sha1(content + before.encode()).hexdigest()}"')
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        return content

    def do_GET(self):
        self.wfile.write(self.do_HEAD() or b"")

    def log_message(self, *_):
        pass


def download(cache, address):
    """Fills `cache` as Python does."""
    for (name, kind), revision, filename in itertools.product(MODELS, ["main", "v2.0", "refs/pr/1"], FILES):
        huggingface_hub.hf_hub_download(name, filename, repo_type=kind, revision=revision, cache_dir=cache,
                                        endpoint=address)
    try:
        huggingface_hub.hf_hub_download("org/name", "absent.json", cache_dir=cache, endpoint=address)
    except errors.EntryNotFoundError:
        pass  # Leaves a file in .no_exist.


def listing(repository, *files):
    write_tree_cache(str(repository), MAIN, {name: TreeCacheEntry(size=1, blob_id="b") for name in files})


def ref_directory(repository):
    (repository / "refs/main").unlink()
    (repository / "refs/main").mkdir()


def repository_file(repository):
    shutil.rmtree(repository)
    repository.write_text("")


def link_loop(repository):
    (repository / "snapshots" / MAIN / "config.json").unlink()
    (repository / "snapshots" / MAIN / "config.json").symlink_to("config.json")


# What is done to the folder of the model org/name.
SHAPES = {
    "as downloaded": lambda r: None,
    "no blobs": lambda r: shutil.rmtree(r / "blobs"),
    "no refs": lambda r: shutil.rmtree(r / "refs"),
    "no snapshots": lambda r: shutil.rmtree(r / "snapshots"),
    "no repository": lambda r: shutil.rmtree(r),
    "no cache": lambda r: shutil.rmtree(r.parent),
    "no snapshot of main": lambda r: shutil.rmtree(r / "snapshots" / MAIN),
    "empty snapshot": lambda r: (shutil.rmtree(r / "snapshots" / MAIN), (r / "snapshots" / MAIN).mkdir()),
    "one file": lambda r: (r / "snapshots" / MAIN / "onnx/model.json").unlink(),
    "complete listing": lambda r: listing(r, *FILES),
    "incomplete listing": lambda r: listing(r, *FILES, "weights.bin"),
    "empty ref": lambda r: (r / "refs/main").write_text(""),
    "ref with newline": lambda r: (r / "refs/main").write_text(MAIN + "\n"),
    "short ref": lambda r: (r / "refs/main").write_text(MAIN[:7]),
    "ref to nothing": lambda r: (r / "refs/main").write_text(ABSENT),
    "ref in upper case": lambda r: (r / "refs/main").write_text(MAIN.upper()),
    "ref that climbs": lambda r: (r / "refs/main").write_text("../blobs"),
    "huge ref": lambda r: (r / "refs/main").write_text("a" * 100_000),
    "ref is a folder": ref_directory,
    "repository is a file": repository_file,
    "link to itself": link_loop,
    "snapshot of no commit": lambda r: shutil.copytree(r / "snapshots" / MAIN, r / "snapshots/odd", symlinks=True),
}


def python_folder(name, **where):
    try:
        return "value", huggingface_hub.snapshot_download(name, local_files_only=True, **where)
    except errors.IncompleteSnapshotError as error:
        return "value", error.snapshot_path  # The folder is there: find_file tells what is missing.
    except errors.HFValidationError:
        return "ConfigError", None
    except OSError:  # LocalEntryNotFoundError among others
        return "FileError", None


def python_file(name, filename, **where):
    try:
        found = huggingface_hub.try_to_load_from_cache(name, filename, **where)
        return "value", found if isinstance(found, str) else None
    except ValueError:  # HFValidationError among others
        return "ConfigError", None


def our(answer):
    return answer.get("error", "value"), answer.get("value")


def same_path(ours, theirs):
    if ours[1] is None or theirs[1] is None:
        return ours == theirs
    return os.path.normpath(ours[1]) == os.path.normpath(theirs[1])


def why_stricter(ours, revision, cache, folder):
    """The reason for which we refuse what Python takes; None when there is none."""
    if ours[0] == "ConfigError" and (".." in revision.split("/") or revision.startswith("/")):
        return "the revision leaves the repository"
    ref = cache / folder / "refs" / revision
    if ours[0] == "FileError" and ref.is_file() and not file_download.REGEX_COMMIT_HASH.fullmatch(ref.read_text()):
        return "the ref holds no commit"
    return None


def why_file_stricter(ours, theirs, folder, path, revision):
    if ours[0] == "FileError" and folder[0] == "FileError" and theirs == ("value", None):
        return "resolve_folder throws: no such folder"
    if ours[0] == "FileError" and path and any(p.is_symlink() and not p.exists() for p in (path, path.parent)):
        return "the file is a link to nothing"
    if ours[0] == "FileError" and revision == "odd":
        return "a snapshot's name is no commit"
    return None


def compare_repository(probe, tally, chance, cache, shape, name, kind):
    folder_name = "--".join([kind + "s", *name.split("/")])
    for revision in REVISIONS:
        where = {"revision": revision, "cache_dir": str(cache)}
        ours = our(probe.ask("resolve_folder", name=name, type=kind, **where))
        theirs = python_folder(name, repo_type=kind, **where)
        reason = why_stricter(ours, revision, cache, folder_name)
        tally.count("folder", same_path(ours, theirs), reason, (shape, name, kind, revision, ours, theirs))
        for filename in QUESTIONS if EXTENDED else chance.sample(QUESTIONS, 3):
            asked = (shape, name, kind, revision, filename)
            file_ours = our(probe.ask("find_file", name=name, type=kind, filename=filename, **where))
            file_theirs = python_file(name, filename, repo_type=kind, **where)
            path = pathlib.Path(ours[1], filename) if ours[1] else None
            file_reason = (why_stricter(file_ours, revision, cache, folder_name)
                           or why_file_stricter(file_ours, file_theirs, ours, path, revision))
            tally.count("file", same_path(file_ours, file_theirs), file_reason, (*asked, file_ours, file_theirs))


def compare_shapes(probe, tally, root, address):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}", flush=True)
    chance = random.Random(seed)
    download(root / "original", address)
    constants.HF_HUB_DISABLE_SYMLINKS = True
    download(root / "copies", address)
    constants.HF_HUB_DISABLE_SYMLINKS = False
    for shape, change in SHAPES.items():
        cache = root / shape
        shutil.copytree(root / "original", cache, symlinks=True)
        change(cache / "models--org--name")
        for name, kind in itertools.product(NAMES, ["model", "dataset"]):
            compare_repository(probe, tally, chance, cache, shape, name, kind)
    for name, kind in MODELS:
        compare_repository(probe, tally, chance, root / "copies", "copies", name, kind)


def compare_environment(probe, tally, rounds):
    chance = random.Random(1)
    paths = [None, None, None, "", "/a", "/a/", "~", "~/b", "~root/c", "~nobody_here/d", "$HOME/e", "${HOME}f", "x/~",
             "$HUB_LIVE/g", "$HUB_LIVE_NONE/h", "${HUB_LIVE}i$", "$$HUB_LIVE", "${}", "${HUB_LIVE", "$é", "rel//ative"]
    flags = [None, None, "", "0", "1", "on", "On", "YES", "true", "TRUE", "y", "t", "2", "off", " 1", "auto"]
    for _ in range(rounds):
        env = {name: chance.choice(flags if "OFFLINE" in name else paths) for name in VARIABLES}
        env["HUB_LIVE"] = chance.choice(["/live", "$HOME", "~", ""])
        for name, value in env.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
        importlib.reload(constants)
        for call, theirs in (("hub_cache_folder", constants.HF_HUB_CACHE), ("is_offline", constants.HF_HUB_OFFLINE)):
            ours = probe.ask(call, env=env).get("value")
            tally.count(call, ours == theirs, None, (env, ours, theirs))


def compare_ids(probe, tally, rounds):
    chance = random.Random(2)
    fixed = ["a" * 96, "a" * 97, "a" * 96 + "/" + "b" * 96, "a/" + "b" * 97, "café", "文件夹", "a\n", "\na", "a\x00", ""]
    for number in range(rounds):
        name = "".join(chance.choices("abZ09_-./", k=chance.randint(1, 9))) + chance.choice(["", "", "", ".git", "/g"])
        name = fixed[number] if number < len(fixed) else name
        try:
            validate_repo_id(name)
            theirs = True
        except errors.HFValidationError:
            theirs = False
        ours = probe.ask("is_repo_id", name=name).get("value")
        tally.count("is_repo_id", ours == theirs, None, (name, ours, theirs))


def compare_local_folders(probe, tally, root):
    """transformers' rule: a folder wins over a repository. Both sides run in `root`/work."""
    from transformers.utils.hub import cached_file
    (root / "work/org/name/onnx").mkdir(parents=True)
    (root / "work/org/name/config.json").write_text("local")
    (root / "work/bert-base-uncased").write_text("a file of this name")
    os.chdir(root / "work")
    local = Probe(probe.process.args[0])
    names = ["org/name", "./org", "org", str(root / "work/org/name"), "bert-base-uncased"]
    for name, filename in itertools.product(names, ["config.json", "none.json", "onnx", "name/config.json"]):
        theirs = cached_file(name, filename, cache_dir=str(root / "original"), local_files_only=True,
                             _raise_exceptions_for_missing_entries=False,
                             _raise_exceptions_for_connection_errors=False, _raise_exceptions_for_gated_repo=False)
        ours = our(local.ask("find_file", name=name, filename=filename, cache_dir=str(root / "original")))
        tally.count("local", same_path(ours, ("value", theirs)), None, (name, filename, ours, theirs))


def main():
    probe, tally = Probe(os.path.abspath(sys.argv[1])), Tally()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        compare_shapes(probe, tally, root, f"http://127.0.0.1:{server.server_port}")
        compare_ids(probe, tally, 3000)
        compare_local_folders(probe, tally, root)
        compare_environment(probe, tally, 1000)  # Last: it leaves the variables as they are.
        os.chdir("/")
    print(f"{sum(tally.equal.values())} equal {dict(tally.equal)}, {tally.different} differ, stricter on purpose: "
          f"{dict(tally.stricter)}")
    return 1 if tally.different else 0


if __name__ == "__main__":
    sys.exit(main())
