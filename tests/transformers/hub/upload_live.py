#!/usr/bin/env python3
"""Compares the uploads of accelerate/transformers/hub/upload.h with huggingface_hub's. usage: upload_live.py PROBE [--seed N]

PROBE is the program of tests/transformers/hub/probe/hub_client.cpp. It does each step against one server, and Python's client
does the same step against another. Both must send the same requests, get the same outcome, and leave the same
repositories: files, Git's ids of the folders, titles of commits. The PUTs of different files may come in any order.
What we do otherwise on purpose is in DIFFERENCES; the last line counts how often each was met. Random folders depend
on the seed, which is printed. Exits 1 when anything else differs.
"""
import argparse
import base64
import collections
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import urllib.parse
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "server"))
from fixture import Add, Delete, call, errors, files_below, huggingface_hub, sha256, start_server

PART_BYTES = 4096
WRITER, READER = "hf_writer", "hf_reader"
# What we send otherwise than Python, and why that is as good.
DIFFERENCES = {
    "batch": "we ask the store once for a content at two paths, and not for what the repository has at its path",
    "no batch": "so there may be nothing left to ask the store",
    "card twice": "Python's upload_folder has README.md checked twice",
    "card elsewhere": "Python's upload_folder has a README.md checked that does not go to the root, where alone it is a card",
    "completion token": "our completion request, which goes to the hub, carries the token",
    "order of a folder": "Python sorts a folder by parts of the paths, we sort by bytes",
    "newest commit": "Python's upload_folder and create_commit ask for the newest commit with other options",
}


class Hub:
    """A server of its own, in a new folder under `root`."""

    def __init__(self, root, *options):
        self.root = pathlib.Path(root)
        self.process, self.url = start_server(
            "--root", self.root, "--token", WRITER, f"{READER}:read", "hf_stranger:other", "--part-size",
            str(PART_BYTES), "--storage-host", "127.0.0.2", *options)
        self.address = urllib.parse.urlsplit(self.url).netloc

    def call(self, method, target, body=None):
        return call(method, target, body, {"Authorization": f"Bearer {WRITER}"}, self.address)

    def get(self, target):
        status, _, body = self.call("GET", target)
        return json.loads(body) if status == 200 else status

    def log(self, keep=False):
        return self.get("/_log" + ("?keep=1" if keep else ""))

    def fault(self, match, times=1, **action):
        self.call("POST", "/_fault", {"match": match, "times": times, "action": action})

    def forget_faults(self):
        self.call("DELETE", "/_fault")

    def head(self, name, kind="model", revision="main"):
        info = self.get(f"/api/{kind}s/{name}/revision/{urllib.parse.quote(revision, safe='')}")
        return info["sha"] if isinstance(info, dict) else None

    def mirror(self, name, kind="model"):
        """The files at the head of main, without the first commit's .gitattributes."""
        files = files_below(self.root / f"{kind}s" / name)
        files.pop(".gitattributes", None)
        return files

    def trees(self, name, kind="model"):
        """Git's ids, sizes and titles of the last commits of everything at each branch and pull request."""
        refs = self.get(f"/api/{kind}s/{name}/refs?include_prs=1")
        if not isinstance(refs, dict):
            return refs
        names = [ref["name"] for ref in refs["branches"]] + [ref["ref"] for ref in refs.get("pullRequests", [])]
        return {ref: self.entries(name, kind, ref) for ref in names}

    def entries(self, name, kind, ref):
        target = f"/api/{kind}s/{name}/tree/{urllib.parse.quote(ref, safe='')}?recursive=true&expand=true"
        found = []
        while target:
            _, headers, body = self.call("GET", target)
            found += [{**entry, "lastCommit": (entry.get("lastCommit") or {}).get("title")}
                      for entry in json.loads(body)]
            link = re.search(r'<([^>]+)>; rel="next"', headers.get("Link") or "")
            target = link and link[1].removeprefix(self.url)
        return found


class Tally:
    """Counts the comparisons, and prints those that fail."""

    def __init__(self):
        self.equal, self.met, self.different = collections.Counter(), collections.Counter(), 0

    def check(self, what, ours, theirs, shown):
        if ours == theirs:
            self.equal[what] += 1
        else:
            self.different += 1
            print(f"{shown}: {what} differ\n  ours   {cut(ours)}\n  python {cut(theirs)}", file=sys.stderr)


def cut(value, most=1500):
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= most else f"{text[:most]}… ({len(text)})"


def ask(program, hub, **asked):
    """Our answer: {"value": …} or {"error": …}."""
    asked = {"endpoint": hub.url, "token": WRITER, "retry_wait_ms": 1, "max_retries": 2, "show_progress": False, **asked}
    done = subprocess.run([program, json.dumps(asked)], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        return {"error": f"exit code {done.returncode}", "message": done.stderr[-500:]}
    return json.loads(done.stdout)


def python_operations(operations):
    for one in operations:
        if "delete" in one:
            yield Delete(one["delete"])
        else:
            yield Add(one["add"], one["text"].encode() if "text" in one else one["path"])


def python_call(api, asked):
    where = {"repo_type": asked.get("type", "model")}
    if asked["call"] == "create_repo":
        return str(api.create_repo(asked["id"], private=asked.get("private"), exist_ok=asked.get("exist_ok", False),
                                   **where))
    where.update(revision=asked.get("revision"), create_pr=asked.get("create_pr"), parent_commit=asked.get("parent"),
                 commit_message=asked.get("message", ""), commit_description=asked.get("description"))
    if asked["call"] == "create_commit":
        info = api.create_commit(asked["id"], list(python_operations(asked["operations"])), **where)
    else:
        info = api.upload_folder(repo_id=asked["id"], folder_path=asked["folder"], allow_patterns=asked.get("allow"),
                                 path_in_repo=asked.get("path_in_repo"), ignore_patterns=asked.get("ignore"),
                                 delete_patterns=asked.get("delete"), **where)
    return {"commit_url": info.commit_url, "oid": info.oid, "pr_url": info.pr_url or ""}


def python_answer(hub, asked):
    """Python's answer in the form of ours."""
    api = huggingface_hub.HfApi(endpoint=hub.url, token=asked.get("token", WRITER))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {"value": python_call(api, asked)}
    except errors.HfHubHTTPError as error:
        return {"error": "HubError", "status": error.response.status_code}
    except ValueError:
        return {"error": "ConfigError"}


def outcome(answer):
    """The part of an answer that both sides have."""
    if "error" in answer:
        return {key: answer[key] for key in ("error", "status") if key in answer}
    value = answer["value"]
    return {key: text for key, text in value.items() if key != "is_new"} if isinstance(value, dict) else value


def body_of(entry):
    """The body of a request: lines of JSON, JSON, or what the log has of a PUT."""
    if "body_sha256" in entry:
        return [entry["body_sha256"], entry["body_length"]]
    text = base64.b64decode(entry["body"]).decode()
    if entry["headers"].get("content-type", "").endswith("ndjson"):
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text) if text else None


def request_of(hub, entry, owners):
    """A request as it is compared, and the content that it is about if it is one of several at once."""
    path = re.sub(r"&?X-Amz-(Signature|Expires)=[0-9a-f]+", "", entry["path"]).rstrip("?")
    body, headers = body_of(entry), entry["headers"]
    upload = re.search(r"/parts/(\w+)/|uploadId=(\w+)", path)
    owner = owners.get(upload[1] or upload[2]) if upload else None
    if path.startswith("/objects/"):
        owner = path.removeprefix("/objects/")
    elif path.endswith("/verify"):
        owner = body["oid"]
    path = path.replace(upload[1] or upload[2], "UPLOAD") if upload else path
    where = "hub" if entry["address"] == hub.address else "storage"
    return {"method": entry["method"], "path": path, "where": where, "body": body, "status": entry["status"],
            "type": headers.get("content-type"), "token": headers.get("authorization")}, owner


def upload_owners(log):
    """Which content each multi-part upload is of, from the completion requests."""
    owners = {}
    for entry in log:
        if upload := re.search(r"complete_multipart\?uploadId=(\w+)", entry["path"]):
            owners[upload[1]] = body_of(entry)["oid"]
    return owners


def requests_of(hub, log):
    """All requests; those about different large files, which run at once, sorted by file."""
    owners, requests, at_once = upload_owners(log), [], []
    for entry in log:
        request, owner = request_of(hub, entry, owners)
        if owner:
            at_once.append((owner, request))
        else:
            requests += [one for _, one in sorted(at_once, key=lambda pair: pair[0])] + [request]
            at_once = []
    return requests + [one for _, one in sorted(at_once, key=lambda pair: pair[0])]


def is_to(request, ending):
    return request["path"].partition("?")[0].endswith(ending)


def without_repeated_card(ours, requests, tally):
    cards = [request for request in requests if is_to(request, "/validate-yaml")]
    if cards and not any(is_to(request, "/validate-yaml") for request in ours):
        tally.met["card elsewhere"] += 1
        return [request for request in requests if request not in cards]
    if len(cards) != 2 or cards[0] != cards[1]:
        return requests
    tally.met["card twice"] += 1
    at = requests.index(cards[0])
    return requests[:at] + requests[at + 1:]


def with_our_batch(ours, theirs, tally):
    """Takes out of Python's question to the store what we leave out on purpose: what is asked twice or unchanged."""
    our_batches = [request for request in ours if is_to(request, "/batch")]
    wanted = {one["oid"] for batch in our_batches for one in batch["body"]["objects"]}
    sent = {line["value"]["oid"] for request in ours if "/commit/" in request["path"]
            for line in request["body"] if line["key"] == "lfsFile"}
    result = []
    for request in theirs:
        if is_to(request, "/batch"):
            objects = {one["oid"]: one for one in request["body"]["objects"]}
            # What the commit needs must be asked for, so it stays and shows as a difference.
            left = [one for oid, one in objects.items() if oid in wanted or oid in sent]
            if len(left) != len(request["body"]["objects"]):
                tally.met["batch" if left else "no batch"] += 1
                request = {**request, "body": {**request["body"], "objects": left}}
                if not left:
                    continue
        result.append(request)
    return result


def without_repeats(requests, tally):
    """Takes out what is sent to the store a second time for the same content."""
    result = []
    for request in requests:
        is_of_content = request["path"].startswith(("/objects/", "/parts/")) or is_to(request, "/verify") or "complete_multipart" in request["path"]
        if is_of_content and request in result:
            tally.met["batch"] += 1
        else:
            result.append(request)
    return result


def without_completion_token(requests, tally):
    for request in requests:
        if request["path"].startswith("/api/complete_multipart") and request["token"]:
            request["token"] = None
            tally.met["completion token"] += 1
    return requests


def without_query_of_newest(ours, theirs, tally):
    """Both ask for the newest commit when nothing has changed; Python's question may have a query."""
    for one, other in zip(ours, theirs):
        if "/revision/" in one["path"] and other["path"].partition("?")[0] == one["path"] != other["path"]:
            other["path"] = one["path"]
            tally.met["newest commit"] += 1


def in_order_of_paths(requests):
    """Sorts the files of preupload and commit requests by path."""
    for request in requests:
        if "/preupload/" in request["path"]:
            request["body"]["files"].sort(key=lambda file: file["path"])
        elif "/commit/" in request["path"]:
            request["body"][1:] = sorted(request["body"][1:], key=lambda line: (line["key"], line["value"]["path"]))
        elif is_to(request, "/batch"):
            request["body"]["objects"].sort(key=lambda one: one["oid"])
    return requests


class Comparison:
    """Does steps by both clients, each against its own hub."""

    def __init__(self, program, root):
        self.program, self.tally, self.root = program, Tally(), root
        self.ours, self.theirs = Hub(root / "ours"), Hub(root / "theirs")
        self.commits = {self.ours: {}, self.theirs: {}}

    def named(self, hub, value):
        """`value` with the addresses of `hub` and its commits replaced by names that both hubs share."""
        text = json.dumps(value, sort_keys=True).replace(hub.url, "HUB")
        for commit, name in self.commits[hub].items():
            text = text.replace(commit, name)
        return json.loads(text)

    def note_head(self, hub, asked, answer):
        names = self.commits[hub]
        value = answer.get("value")
        commits = [value["oid"]] if isinstance(value, dict) else []
        for commit in [*commits, hub.head(asked["id"], asked.get("type", "model"))]:
            if commit:
                names.setdefault(commit, f"commit {len(names)}")

    def step(self, shown, ends_with=None, **asked):
        """One call of both; `ends_with` is how its outcome must begin: a type of error, or "value"."""
        answers, logs = {}, {}
        for hub, do in ((self.ours, lambda hub, asked: ask(self.program, hub, **asked)), (self.theirs, python_answer)):
            parent = asked.get("parent")
            there = {**asked, "parent": hub.head(asked["id"])} if parent == "HEAD" else asked
            hub.log()
            answers[hub] = do(hub, there)
            logs[hub] = requests_of(hub, hub.log())
            self.note_head(hub, asked, answers[hub])
        self.compare(shown, asked, answers, logs)
        first = answers[self.ours].get("error", "value")
        if ends_with:
            self.tally.check("endings", first, ends_with, shown)
        return answers[self.ours]

    def compare(self, shown, asked, answers, logs):
        ours, theirs = logs[self.ours], logs[self.theirs]
        theirs = with_our_batch(ours, without_repeated_card(ours, without_repeats(theirs, self.tally), self.tally), self.tally)
        ours = without_completion_token(ours, self.tally)
        without_query_of_newest(ours, theirs, self.tally)
        if asked["call"] == "upload_folder":
            before = json.dumps([ours, theirs])
            ours, theirs = in_order_of_paths(ours), in_order_of_paths(theirs)
            self.tally.met["order of a folder"] += json.dumps([ours, theirs]) != before
        ours, theirs = self.named(self.ours, ours), self.named(self.theirs, theirs)
        self.tally.check("numbers of requests", [one["path"] for one in ours], [one["path"] for one in theirs], shown)
        for one, other in zip(ours, theirs):
            for field in one:
                self.tally.check(f"{field} of requests", one[field], other[field], f"{shown}, {one['path']}")
        self.tally.check("outcomes", self.named(self.ours, outcome(answers[self.ours])),
                         self.named(self.theirs, outcome(answers[self.theirs])), shown)

    def compare_repository(self, shown, name, kind="model"):
        self.tally.check("files", {path: sha256(content) for path, content in self.ours.mirror(name, kind).items()},
                         {path: sha256(content) for path, content in self.theirs.mirror(name, kind).items()}, shown)
        self.tally.check("trees", self.ours.trees(name, kind), self.theirs.trees(name, kind), shown)


def content(size, seed=0):
    return random.Random(seed * 1_000_003 + size).randbytes(size)


def compare_create(both):
    for kind in ("model", "dataset"):
        for private in (None, False, True):
            name = f"acme/{kind}-{private}".lower()
            options = {} if private is None else {"private": private}
            both.step(f"create {name}", "value", call="create_repo", id=name, type=kind, **options)
            both.step(f"create {name} again", "HubError", call="create_repo", id=name, type=kind, **options)
            both.step(f"create {name}, exist_ok", "value", call="create_repo", id=name, type=kind, exist_ok=True,
                      **options)
    for name in ("nobodys", "tester/mine"):
        both.step(f"create {name}", "value", call="create_repo", id=name)
    for token, ending in ((READER, "value"), ("hf_wrong", "HubError")):
        both.step(f"create as {token}, exist_ok", ending, call="create_repo", id="acme/model-none", exist_ok=True,
                  token=token)
    both.step("create as reader", "HubError", call="create_repo", id="acme/new", token=READER, exist_ok=True)
    for name in ("-bad", "a/b/c", "x.git"):
        both.step(f"create {name}", "ConfigError", call="create_repo", id=name)


def new_repository(both, name, kind="model"):
    both.step(f"create {name}", "value", call="create_repo", id=name, type=kind)
    return {"call": "create_commit", "id": name, "type": kind, "message": "change"}


def compare_commits(both, folder):
    """Commits of each kind of file and operation, one after the other in one repository."""
    commit = new_repository(both, "acme/commits")
    for size in (0, 1, 511, 512, 513, PART_BYTES, PART_BYTES + 1, 5 * PART_BYTES + 7):
        (folder / f"{size}.bin").write_bytes(content(size))
    large = [{"add": f"large/{size}.bin", "path": str(folder / f"{size}.bin")}
             for size in (0, 1, PART_BYTES, PART_BYTES + 1, 5 * PART_BYTES + 7)]
    texts = [{"add": f"small/{size}.txt", "path": str(folder / f"{size}.bin")} for size in (0, 1, 511, 512, 513)]
    odd = ["é 漢.txt", "a b.txt", "100%.txt", "a#b?.txt", "q\"uote'.txt", "+&=;@.txt", "😀/deep/er/x.json", "%41.bin"]
    for shown, operations in {
        "small files": texts,
        "text and nothing": [{"add": "note.txt", "text": "é\n漢\u0001"}, {"add": "empty.txt", "text": ""}],
        "large files": large,
        "large files again": large,
        "a text by LFS": [{"add": "text.bin", "text": "abc" * 3000}],
        "one content at two paths": [{"add": path, "path": str(folder / "513.bin")} for path in ("one.bin", "two.bin")],
        "odd names": [{"add": name, "text": name} for name in odd],
        "odd names again": [{"add": name, "text": name} for name in odd],
        "a changed file of several": [*texts[:3], {"add": "small/1.txt.new", "text": "new"}],
        "deleted file": [{"delete": "note.txt"}],
        "deleted folder": [{"delete": "small/"}],
        "deleted odd names": [{"delete": odd[0]}, {"delete": "😀/"}],
        "deleted and added": [{"delete": "large/"}, large[1], large[2], {"add": "large/new.txt", "text": "n"}],
        "deleted last": [{"add": "x.txt", "text": "x"}, {"delete": "empty.txt"}],
    }.items():
        both.step(shown, "value", **commit, operations=operations)
        both.compare_repository(shown, "acme/commits")
    for shown, operation in {"delete what is not there": {"delete": "none.txt"}, "delete a folder that is none":
                             {"delete": "none/"}, "a file where a folder is": {"add": "large", "text": "x"}}.items():
        both.step(shown, "HubError", **commit, operations=[operation])
    for path in ("../x", "a/../x", ".git/x", "a/.git", ".cache/x", "."):
        both.step(f"add at {path}", "ConfigError", **commit, operations=[{"add": path, "text": "x"}])
    both.step("a folder as file", None, **commit, operations=[{"add": "x/y.txt", "text": "x"}])
    both.compare_repository("after refusals", "acme/commits")


def compare_options(both, folder):
    commit = new_repository(both, "acme/options")
    one = [{"add": "a.txt", "text": "1"}]
    add = [{"add": f"{name}.txt", "text": name} for name in "abcdefg"]
    both.step("description", "value", **{**commit, "message": "title é"}, description="two\nlines", operations=one)
    both.step("right parent", "value", **commit, parent="HEAD", operations=add[1:2])
    both.step("wrong parent", "HubError", **commit, parent="f" * 40, operations=add[2:3])
    both.step("short parent", "HubError", **commit, parent="ffffffff", operations=add[2:3])
    both.step("parent that is none", "ConfigError", **commit, parent="main", operations=add[2:3])
    both.step("no message", "ConfigError", **{**commit, "message": ""}, operations=add[2:3])
    for hub in (both.ours, both.theirs):
        hub.call("POST", "/api/models/acme/options/branch/dev", {})
        hub.call("POST", f"/api/models/acme/options/branch/{urllib.parse.quote('a/b é', safe='')}", {})
    both.step("branch", "value", **commit, revision="dev", operations=add[2:3])
    both.step("branch with a slash", None, **commit, revision="a/b é", operations=add[6:7])
    both.step("no branch", "HubError", **commit, revision="none", operations=add[3:4])
    both.step("pull request", "value", **commit, create_pr=True, operations=add[3:4], description="why")
    both.step("into the pull request", "value", **commit, revision="refs/pr/1", operations=add[4:5])
    (folder / "pr.bin").write_bytes(content(600))
    both.step("pull request with a large file", "value", **commit, create_pr=True,
              operations=[{"add": "pr.bin", "path": str(folder / "pr.bin")}])
    both.step("as reader", "HubError", **commit, token=READER, operations=add[5:6])
    both.step("as nobody", "HubError", **commit, token="hf_wrong", operations=add[5:6])
    both.step("no repository", "HubError", **{**commit, "id": "acme/none"}, operations=add[5:6])
    both.compare_repository("options", "acme/options")
    both.step("dataset", "value", **new_repository(both, "acme/data", "dataset"), operations=add[:2])
    both.compare_repository("dataset", "acme/data", "dataset")


def compare_ignored(both, folder):
    commit = new_repository(both, "acme/ignored")
    (folder / "ignored.bin").write_bytes(content(700))
    files = [{"add": "a.log", "text": "log"}, {"add": "b.txt", "text": "b"},
             {"add": "tmp/ignored.bin", "path": str(folder / "ignored.bin")}]
    both.step(".gitignore", "value", **commit, operations=[*files, {"add": ".gitignore", "text": "*.log\ntmp/\n"}])
    # Where all files are ignored Python makes an empty commit, and we make none.
    both.step(".gitignore that is there", "value", **commit, operations=[*files, {"add": "c.txt", "text": "c"}])
    both.compare_repository(".gitignore", "acme/ignored")


def compare_cards(both):
    commit = new_repository(both, "acme/cards")
    for shown, text, ending in (("card without metadata", "# x\n", "value"),
                                ("valid card", "---\nlicense: mit\n---\n# é\n", "value"),
                                ("invalid card", "---\nlicense: 1.0\n---\n", "ConfigError")):
        both.step(shown, ending, **commit, operations=[{"add": "README.md", "text": text}, {"add": "a", "text": shown}])
    both.step("card in a folder", "value", **commit, operations=[
        {"add": "sub/README.md", "text": "---\nlicense: 1.0\n---\n"}])
    both.compare_repository("cards", "acme/cards")


def compare_many(both):
    commit = new_repository(both, "acme/many")
    operations = [{"add": f"f/{number:04}.txt", "text": str(number)} for number in range(600)]
    both.step("600 files", "value", **commit, operations=operations)
    both.step("600 files again", "value", **commit, operations=operations)
    operations[300]["text"] = "changed"
    both.step("one of 600 files", "value", **commit, operations=operations)
    lines = [request["body"] for request in requests_of(both.ours, both.ours.log(keep=True)) if "/commit/" in request["path"]]
    both.tally.check("lines of the commit", lines, [], "the log was not read")
    both.compare_repository("600 files", "acme/many")


def write_folder(chance, folder, count):
    """Random files; a few are by LFS, in one or many parts, a few are empty, a few are left out by rule."""
    names = ["a", "b", "c-d", "é", "x y", ".hidden", "100%", "#1", "weights", "漢"]
    endings = [".txt", ".json", ".bin", ".safetensors", "", ".TXT", ".py"]
    for _ in range(count):
        depth = chance.randint(0, 3)
        path = folder.joinpath(*chance.choices(names, k=depth), chance.choice(names) + chance.choice(endings))
        if not path.exists() and not any(above.is_file() for above in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content(chance.choice([0, 1, 300, 513, 3000, 4096, 9000, 20000]), chance.randint(0, 3)))
    for path in (".git/config", "a/.git/x", ".cache/huggingface/x", "b/.cache/huggingface/d/x"):
        if chance.random() < 0.3 and not any(above.is_file() for above in (folder / path).parents):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("left out")


def change_folder(chance, folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "README.md")
    for path in chance.sample(files, min(3, len(files))):
        if chance.random() < 0.3:
            path.unlink()
        else:
            path.write_bytes(content(chance.choice([0, 7, 5000]), 9))


PATTERNS = ["*.txt", "*.bin", "a/", "*/b*", "[!a]*", "?", "*é*", "*", "weights.*", "x y/*", "c-d/**", "*.[jp]*"]


def compare_folders(both, folder, chance, rounds):
    for number in range(rounds):
        name, files = f"acme/folder{number}", folder / f"folder{number}"
        files.mkdir()
        write_folder(chance, files, chance.randint(1, 25))
        if number % 3 == 0:
            (files / "README.md").write_text("---\nlicense: mit\n---\n")
        upload = {**new_repository(both, name), "call": "upload_folder", "folder": str(files)}
        upload["path_in_repo"] = chance.choice(["", "", "sub", "sub/deep/", "é x", "./"[:1] if False else "100%"])
        both.step(f"{name} whole", None, **upload)
        both.step(f"{name} again", None, **upload)
        for turn in range(3):
            change_folder(chance, files)
            some = {key: chance.sample(PATTERNS, chance.randint(1, 2))
                    for key in ("allow", "ignore", "delete") if chance.random() < 0.5}
            both.step(f"{name} change {turn} {some}", None, **upload, **some)
            both.compare_repository(f"{name} change {turn}", name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--rounds", type=int, default=8, help="how many random folders")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name).resolve()
        both = Comparison(os.path.abspath(options.probe), root)
        folder = root / "files"
        folder.mkdir()
        compare_create(both)
        compare_commits(both, folder)
        compare_options(both, folder)
        compare_ignored(both, folder)
        compare_cards(both)
        compare_many(both)
        compare_folders(both, folder, random.Random(options.seed), options.rounds)
    tally = both.tally
    print(f"{sum(tally.equal.values())} equal {dict(tally.equal)}, {tally.different} differ, otherwise on purpose: "
          f"{dict(tally.met)}")
    return 1 if tally.different else 0


if __name__ == "__main__":
    sys.exit(main())
