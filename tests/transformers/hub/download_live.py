#!/usr/bin/env python3
"""Compares downloads with huggingface_hub's. usage: download_live.py PROBE [--seed N]

PROBE is the program of tests/transformers/hub/probe/hub_client.cpp. Both clients download the same from olah, a server of the hub's protocol over
local Git repositories, and from the server of tests/transformers/hub/server; the caches must be equal: files, links, contents, refs, lists of files.
Each then opens the other's without a network. Programs of both languages fill one cache at once. Patterns are asked of both. Random
repositories depend on the seed, which is printed. Exits 1 when anything differs, 77 where olah or git is missing.
"""
import argparse
import hashlib
import importlib.util
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TOKEN = "hf_writer"
PYTHON = """
import json, sys
import huggingface_hub as hub
hub.logging.set_verbosity_error()
for asked in json.loads(sys.argv[1]):
    call = getattr(hub, asked.pop("call"))
    try:
        print(json.dumps({"value": str(call(**asked))}))
    except Exception as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}))
"""
NAMES = ("config.json", "model.safetensors", "a b.txt", "deep/er/file.bin", "empty.txt", "sub/empty", "percent%20.txt", "plus+and&.txt", "hash#1.txt",
         "question?.txt", "quo'te.txt", "equals=.txt", "tilde~.txt", "brackets[1].txt", "ünïcode/名.txt", "comma,semi;.txt")


def git(folder, *words, **variables):
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "a"), ("EMAIL", "a@b"))}
    done = subprocess.run(["git", "-C", folder, *words], env=os.environ | who | variables, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def random_files(numbers, names):
    return {name: b"" if "empty" in name else numbers.randbytes(numbers.choice([1, 20, 3000, 200_000])) for name in names}


def pointer(content):
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (hashlib.sha256(content).hexdigest().encode(), len(content))


def make_git(folder, numbers, names):
    """A repository with two commits, a tag, a branch, and a large file in the store of LFS."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    large = numbers.randbytes(300_000)
    sha256 = hashlib.sha256(large).hexdigest()
    write(folder / ".git" / "lfs" / "objects" / sha256[:2] / sha256[2:4], {sha256: large})
    commits = []
    for _ in range(2):
        write(folder, random_files(numbers, names) | {"large.bin": pointer(large), "README.md": b"---\nlicense: mit\n---\n# x\n"})
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", "change")
        commits.append(git(folder, "rev-parse", "HEAD"))
        if len(commits) == 1:
            git(folder, "tag", "v1")
            git(folder, "branch", "old")
    return commits


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(url, process):
    for _ in range(200):
        try:
            urllib.request.urlopen(url, timeout=5).read()
            return
        except OSError as error:
            if getattr(error, "code", None) or process.poll() is not None:
                return
            time.sleep(0.1)


def start_olah(home):
    port = free_port()
    (home / "olah.toml").write_text(
        f'[basic]\nhost = "127.0.0.1"\nport = {port}\nrepos-path = "{home}/olah"\nmirrors-path = ["{home}/mirrors"]\n'
        f'mirror-netloc = "127.0.0.1:{port}"\nmirror-lfs-netloc = "127.0.0.1:{port}"\n[accessibility]\noffline = true\n', encoding="utf-8")
    with open(home / "olah.log", "wb") as log:
        process = subprocess.Popen([pathlib.Path(sys.executable).parent / "olah-cli", "--config", home / "olah.toml", "--log-path", home / "logs"],
                                   cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | {"HOME": str(home)})
    url = f"http://127.0.0.1:{port}"
    wait_for(url + "/", process)
    return process, url


def start_own(home):
    process = subprocess.Popen([sys.executable, HERE / "server" / "hub_server.py", "--until-eof", "--root", home / "root", "--seed", home / "seed",
                                "--token", TOKEN, "--page-size", "3", "--storage-host", "127.0.0.2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


class Compared:
    """Counts what is equal, and tells what is not."""

    def __init__(self, probe):
        self.probe, self.equal, self.differ = probe, 0, 0

    def environment(self, endpoint, home, **variables):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_") and not name.lower().endswith("_proxy")}
        return clean | {"HF_HOME": str(home), "HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                        "HF_HUB_DISABLE_TELEMETRY": "1", "HF_TOKEN": TOKEN} | variables

    def words(self, side, asked):
        if side == "ours":
            return [self.probe, json.dumps({"id" if key == "repo_id" else {"filename": "file", "repo_type": "type", "allow_patterns": "allow",
                                                                          "ignore_patterns": "ignore"}.get(key, key): value for key, value in asked.items()})]
        return [sys.executable, "-c", PYTHON, json.dumps([asked])]

    def run(self, side, endpoint, home, calls, **variables):
        """The answers to all calls: of ours a program a call, of Python one program, which takes long to start."""
        commands = [self.words(side, asked) for asked in calls] if side == "ours" else [[sys.executable, "-c", PYTHON, json.dumps(calls)]]
        answers = []
        for words in commands:
            done = subprocess.run(words, env=self.environment(endpoint, home, **variables), capture_output=True, text=True, timeout=120, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"{words} ended with {done.returncode}: {done.stderr[-800:]}")
            answers += [json.loads(line) for line in done.stdout.splitlines()]
        return answers

    def check(self, what, ours, theirs):
        if ours == theirs:
            self.equal += 1
            return
        self.differ += 1
        print(f"{what} differs\n  ours   {str(ours)[:600]}\n  theirs {str(theirs)[:600]}")


def picture(cache):
    """All that is in a cache: where links lead, what files hold. Locks are left out, and the text of the tag for backup programs."""
    found = {}
    for path in sorted(cache.rglob("*")):
        name = str(path.relative_to(cache))
        if name.startswith(".locks") or path.is_dir() and not path.is_symlink():
            continue
        if path.is_symlink():
            found[name] = "-> " + os.readlink(path)
        elif path.suffix == ".json" and path.parent.name == "trees":
            found[name] = json.loads(path.read_text(encoding="utf-8"))
        else:
            found[name] = "" if name == "CACHEDIR.TAG" else hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def relative(answer, home):
    return answer["value"].removeprefix(str(home)) if "value" in answer else answer["error"]


def compare_calls(compared, endpoint, home, calls):
    """Both clients make the calls, each in a cache of its own; then each opens the other's offline."""
    homes = {side: home / side for side in ("ours", "theirs")}
    answers = {side: compared.run(side, endpoint, where, calls) for side, where in homes.items()}
    for asked, ours, theirs in zip(calls, answers["ours"], answers["theirs"], strict=True):
        if "error" in theirs:
            compared.check(f"{asked} fails", "error" in ours, True)
        else:
            compared.check(f"{asked}: the path", relative(ours, homes["ours"]), relative(theirs, homes["theirs"]))
    pictures = {side: picture(where / "hub") for side, where in homes.items()}
    for name in sorted(pictures["ours"].keys() | pictures["theirs"].keys()):
        compared.check(f"{endpoint} cache: {name}", pictures["ours"].get(name), pictures["theirs"].get(name))
    crossed = {side: compared.run(side, "http://127.0.0.1:9", homes[other], calls, HF_HUB_OFFLINE="1")
               for side, other in (("ours", "theirs"), ("theirs", "ours"))}
    for asked, ours, theirs in zip(calls, crossed["ours"], crossed["theirs"], strict=True):
        if "error" in theirs:
            compared.check(f"{asked} offline fails", "error" in ours, True)
        else:
            compared.check(f"{asked} offline", relative(ours, homes["theirs"]), relative(theirs, homes["ours"]))


def calls_of(repo, names, revisions, **more):
    calls = [{"call": "snapshot_download", "repo_id": repo, "revision": revision} | more for revision in revisions]
    calls += [{"call": "hf_hub_download", "repo_id": repo, "filename": name, "revision": revisions[0]} | more for name in names]
    calls.append({"call": "hf_hub_download", "repo_id": repo, "filename": "none.txt", "revision": revisions[0]} | more)
    calls.append({"call": "snapshot_download", "repo_id": repo, "revision": "no-such"} | more)
    return calls


def against_olah(compared, home, numbers):
    plain = [name for name in NAMES if name.isascii() and "?" not in name and "#" not in name]  # olah itself fails at the others.
    commits = make_git(home / "mirrors" / "models" / "org" / "model", numbers, plain)
    make_git(home / "mirrors" / "datasets" / "org" / "rows", numbers, plain[:4])
    process, url = start_olah(home)
    try:
        # What Python's client cannot get from olah tells nothing of ours.
        calls = calls_of("org/model", plain[:6], ["main", "v1", "old", commits[0]]) + calls_of("org/rows", plain[:2], ["main"], repo_type="dataset")
        compare_calls(compared, url, home / "olah-homes", calls)
    finally:
        process.terminate()
        process.wait(20)


def against_own(compared, home, numbers):
    write(home / "seed" / "models" / "acme" / "model", random_files(numbers, NAMES))
    write(home / "seed" / "models" / "lonely", random_files(numbers, NAMES[:3]))
    write(home / "seed" / "datasets" / "acme" / "rows", random_files(numbers, NAMES[:5]))
    write(home / "seed" / "models" / "acme" / "private-model", random_files(numbers, NAMES[:2]))
    process, url = start_own(home)
    try:
        calls = calls_of("acme/model", NAMES, ["main"]) + calls_of("lonely", NAMES[:1], ["main"]) + calls_of("acme/private-model", [], ["main"])
        calls += calls_of("acme/rows", NAMES[:2], ["main"], repo_type="dataset")
        compare_calls(compared, url, home / "own-homes", calls)
        some = [{"call": "snapshot_download", "repo_id": "acme/model", "allow_patterns": ["*.txt", "deep/"], "ignore_patterns": ["*e*"]},
                {"call": "snapshot_download", "repo_id": "acme/model", "allow_patterns": ["brackets[[]1].txt"]}]
        compare_calls(compared, url, home / "some-homes", some)
        at_once(compared, url, home, 4)
    finally:
        process.stdin.close()
        process.wait(20)


def at_once(compared, url, home, rounds):
    """Eight programs of both languages fill one cache."""
    want = None
    for number in range(rounds):
        where = home / f"together-{number}"
        asked = {"call": "snapshot_download", "repo_id": "acme/model"}
        running = [subprocess.Popen(compared.words(side, asked), env=compared.environment(url, where), stdout=subprocess.PIPE, text=True)
                   for side in ("ours", "theirs") * 4]
        answers = [json.loads(process.communicate(timeout=120)[0]) for process in running]
        compared.check("eight programs: failures", [answer for answer in answers if "error" in answer], [])
        want = want or picture(home / "own-homes" / "ours" / "hub")
        want = {name: content for name, content in want.items() if name.startswith("models--acme--model/") and ".no_exist" not in name}
        found = {name: content for name, content in picture(where / "hub").items() if name.startswith("models--acme--model/")}
        compared.check("eight programs: the cache", found, want)
        shutil.rmtree(where)


def compare_patterns(compared, numbers):
    from huggingface_hub.utils import filter_repo_objects
    letters = "ab/.*?[]!-\\é"
    for _ in range(200):
        text, *patterns = ("".join(numbers.choices(letters, k=numbers.randrange(1, 7))) for _ in range(4))
        asked = {"allow": patterns[:2] if numbers.random() < 0.8 else [], "ignore": patterns[2:] if numbers.random() < 0.3 else []}
        theirs = bool(list(filter_repo_objects([text], allow_patterns=asked["allow"] or None, ignore_patterns=asked["ignore"] or None)))
        done = subprocess.run([compared.probe, json.dumps({"call": "matches", "text": text} | asked)], capture_output=True, text=True, check=True)
        compared.check(f"{text} by {asked}", json.loads(done.stdout)["value"], theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probe")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    if not importlib.util.find_spec("olah") or not shutil.which("git"):
        print("skipped: olah or git is missing; scripts/setup installs them")
        sys.exit(77)
    numbers, compared = random.Random(options.seed), Compared(options.probe)
    with tempfile.TemporaryDirectory(prefix="download_live_") as name:
        home = pathlib.Path(name)
        compare_patterns(compared, numbers)
        against_own(compared, home, numbers)
        against_olah(compared, home, numbers)
    print(f"{compared.equal} equal, {compared.differ} differ")
    sys.exit(1 if compared.differ or compared.equal < 440 else 0)


main()
