#!/usr/bin/env python3
"""Compares accelerate/transformers/hub/cache/cache_scan.h with huggingface_hub. usage: cache_scan_live.py PROBE [--seed N] [--caches N]

PROBE is the program of tests/transformers/hub/probe/cache_scan.cpp. Random caches, damaged ones too, are scanned by both sides. Then
each side plans and makes the same removal, in a copy of its own, and the copies must hold the same afterwards. We may
differ only where we say so: spaces and kernels are left out, and what lies outside a repository, or behind a link,
stays. The seed is printed. Exits 1 at the first difference.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile

import huggingface_hub
from huggingface_hub import scan_cache_dir
from huggingface_hub.utils import _shared_blobs

huggingface_hub.utils.logging.set_verbosity_error()

TYPES = ["models", "models", "models", "datasets", "datasets", "spaces", "kernels"]
IDS = ["name", "org--name", "org--other", "Org--Name", "a--b--c", "x.y_z-1"]
FILES = ["config.json", "model.safetensors", "onnx/model.onnx", "deep/er/x.bin", ".hidden", "caf\u00e9 \u6f22.txt"]
DAMAGE = ["broken link", "ref to nothing", "ref with line end", "file in snapshots", "no snapshots", "refs is a file", "stray file",
          "bad name", "loop", "empty repository", "moved repository", "moved blobs", "outside link", "link to a link",
          "own file", "empty snapshot", "link to a folder", "helpers", "no marker", "bad manifest", "no manifest", "moved refs",
          "linked snapshot", "ref is a broken link", "odd commit"]


class Builder:
    """Fills a cache as Python's downloads do, then damages it."""

    def __init__(self, rng, root):
        self.rng, self.cache, self.elsewhere = rng, root / "hub", root / "elsewhere"
        self.done = []
        self.cache.mkdir()
        self.elsewhere.mkdir()

    def hexadecimal(self, digits):
        return "".join(self.rng.choice("0123456789abcdef") for _ in range(digits))

    def write(self, path, text=None):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * self.rng.randint(0, 5000) if text is None else text)
        moment = self.rng.randint(10**18, 2 * 10**18)
        os.utime(path, ns=(moment + self.rng.randint(0, 10**15), moment))
        return path

    def link(self, path, target):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink() and not path.exists():
            path.symlink_to(target if isinstance(target, str) else os.path.relpath(target, path.parent))

    def build(self):
        self.commits = [self.hexadecimal(40) for _ in range(3)]
        self.hashes = [self.hexadecimal(64) for _ in range(2)]
        self.shares = self.rng.random() < 0.5
        if self.shares:
            self.write(self.cache / "blobs" / _shared_blobs.SHARED_BLOBS_MARKER_NAME, "1\n")
            for value in self.hashes:
                self.write(_shared_blobs.shared_blob_path(self.cache, value))
        names = {f"{self.rng.choice(TYPES)}--{self.rng.choice(IDS)}" for _ in range(self.rng.randint(0, 5))}
        self.repos = [self.cache / name for name in sorted(names)]
        for repo in self.repos:
            self.add_repo(repo)
        if self.rng.random() < 0.6:
            for _ in range(self.rng.randint(1, 3)):
                self.damage(self.rng.choice(DAMAGE))

    def add_repo(self, repo):
        blobs = [repo / "blobs" / self.hexadecimal(40) for _ in range(self.rng.randint(1, 5))]
        for blob in blobs:
            if self.shares and self.rng.random() < 0.4:
                self.add_shared_link(blob)
            else:
                self.write(blob)
        for number in range(self.rng.randint(1, 4)):
            commit = self.commits[0] if number == 0 and self.rng.random() < 0.2 else self.hexadecimal(40)
            self.add_revision(repo, commit, blobs)
        if self.rng.random() < 0.3:
            self.write(repo / "blobs" / "etag.incomplete")
        self.write(self.cache / ".locks" / repo.name / "etag.lock", "")

    def add_shared_link(self, blob):
        value = self.rng.choice(self.hashes)
        self.link(blob, _shared_blobs.shared_blob_path(self.cache, value))
        if self.rng.random() < 0.95:
            with open(_shared_blobs.shared_blob_manifest_path(self.cache, value), "a") as file:
                file.write(f"{blob.relative_to(self.cache)}\n")

    def add_revision(self, repo, commit, blobs):
        for name in self.rng.sample(FILES, self.rng.randint(1, len(FILES))):
            self.link(repo / "snapshots" / commit / name, self.rng.choice(blobs))
        for ref in self.rng.sample(["main", "v1.0", "refs/pr/1", "a/b/c"], self.rng.choice([0, 1, 1, 2])):
            self.write(repo / "refs" / ref, commit)
        self.write(repo / "trees" / f"{commit}.json", "{}")
        self.write(repo / ".no_exist" / commit / "none.json", "")

    def damage(self, kind):
        repo = self.rng.choice(self.repos) if self.repos else self.cache / "models--made"
        snapshots = repo / "snapshots"
        revisions = sorted(snapshots.iterdir()) if snapshots.is_dir() else []
        revision = self.rng.choice(revisions) if revisions else snapshots / self.hexadecimal(40)
        if not os.path.lexists(repo):
            repo.mkdir()
        if repo.is_symlink() or (revision.exists() and not revision.is_dir()):
            return
        self.done.append(kind)
        try:
            self.apply(kind, repo, revision)
        except (FileExistsError, NotADirectoryError):
            pass  # An earlier damage is in the way.

    def apply(self, kind, repo, revision):
        if kind == "broken link":
            self.link(revision / "broken", "../../blobs/none")
        elif kind == "ref to nothing":
            self.write_ref(repo, self.hexadecimal(40))
        elif kind == "ref with line end":
            self.write_ref(repo, revision.name + "\n")
        elif kind == "file in snapshots":
            self.write(repo / "snapshots" / "file")
        elif kind == "no snapshots":
            shutil.rmtree(repo / "snapshots", ignore_errors=True)
        elif kind == "refs is a file":
            self.replace(repo / "refs")
        elif kind == "stray file":
            self.write(self.cache / self.rng.choice(["version.txt", ".DS_Store", "CACHEDIR.TAG", "models--file"]))
        elif kind == "bad name":
            self.write(self.cache / self.rng.choice(["models", "model--x", "Models--x", "x--y", "--"]) / "snapshots" / "x" / "f")
        elif kind == "loop":
            self.link(revision / "loop", "loop")
        elif kind == "empty repository":
            (self.cache / "models--empty" / "snapshots").mkdir(parents=True, exist_ok=True)
        elif kind == "empty snapshot":
            (repo / "snapshots" / self.hexadecimal(40) / "folder").mkdir(parents=True)
        elif kind == "outside link":
            self.link(revision / "outside", str(self.write(self.elsewhere / self.hexadecimal(8))))
        elif kind == "link to a link":
            others = [path for path in (repo / "snapshots").glob("*/*") if path.is_symlink()]
            self.link(revision / "again", self.rng.choice(sorted(others)) if others else "../../blobs")
        elif kind == "own file":
            self.write(revision / "sub" / "own.txt")
        elif kind == "link to a folder":
            self.link(revision / "folder", str(self.elsewhere))
        elif kind == "helpers":
            for folder in [repo / "refs", repo / "snapshots"]:
                if not folder.is_file() and not folder.is_symlink():
                    self.write(folder / ".DS_Store")
        elif kind == "odd commit":
            self.write(repo / "snapshots" / "not-a-commit" / "x")
        else:
            self.apply_links(kind, repo, revision)

    def apply_links(self, kind, repo, revision):
        if kind.startswith("moved"):
            path = {"moved repository": repo, "moved blobs": repo / "blobs", "moved refs": repo / "refs"}[kind]
            if path.is_dir() and not path.is_symlink():
                target = self.elsewhere / self.hexadecimal(8)
                path.rename(target)
                path.symlink_to(target)
        elif kind == "linked snapshot" and revision.is_dir() and not revision.is_symlink():
            target = self.elsewhere / self.hexadecimal(8)
            self.write(target / "sub" / "file")
            shutil.rmtree(revision)
            revision.symlink_to(target)
        elif kind == "ref is a broken link":
            self.link(repo / "refs" / "broken", "none")
        elif kind == "no marker":
            (self.cache / "blobs" / _shared_blobs.SHARED_BLOBS_MARKER_NAME).unlink(missing_ok=True)
        elif kind in ("bad manifest", "no manifest"):
            for manifest in (self.cache / "blobs").glob("*/*.refs"):
                manifest.unlink()
                if kind == "bad manifest":
                    manifest.write_bytes(b"\xff\xfe\n")

    def write_ref(self, repo, text):
        if not (repo / "refs").is_file():
            self.write(repo / "refs" / "odd", text)

    def replace(self, path):
        if path.is_symlink():
            path.unlink()
        shutil.rmtree(path, ignore_errors=True)
        self.write(path, "")


class Probe:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, call, cache, what=()):
        self.process.stdin.write(json.dumps({"call": call, "cache": str(cache), "what": list(what)}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "value" not in answer:
            raise SystemExit(f"{call} {what} refused: {answer}")
        return answer["value"]


def is_ours(repo):
    return repo.repo_type in ("model", "dataset")


def blobs_of(revisions):
    return {file.blob_path: file.size_on_disk for revision in revisions for file in revision.files}


def python_scan(cache, info):
    """What scan_cache_dir says, as the probe says it. Spaces and kernels become faults."""
    repos = [repo for repo in info.repos if is_ours(repo)]
    store = _shared_blobs.shared_blobs_dir(cache)
    marked = _shared_blobs.is_shared_blobs_dir(store)
    blobs = {path for repo in repos for path in blobs_of(repo.revisions)
             if not marked or _shared_blobs.shared_blob_target(path, cache) is None}
    size = info.size_on_disk
    if len(repos) != len(info.repos):
        size = sum(path.stat().st_size for path in blobs | _shared_blobs.shared_store_blob_paths(cache))
    return {"size": size, "faults": len(info.warnings) + len(info.repos) - len(repos),
            "repos": [repo_of(repo) for repo in sorted(repos, key=lambda repo: repo.repo_path)],
            "incomplete": {str(file.file_path): file.size_on_disk for file in info.incomplete_files}}


def repo_of(repo):
    revisions = sorted(repo.revisions, key=lambda revision: os.fsencode(revision.commit_hash))
    return {"id": repo.cache_id, "path": str(repo.repo_path), "files": repo.nb_files, "size": repo.size_on_disk,
            "accessed": int(repo.last_accessed), "modified": int(repo.last_modified),
            "revisions": [revision_of(revision) for revision in revisions]}


def revision_of(revision):
    return {"commit": revision.commit_hash, "refs": sorted(revision.refs), "snapshot": str(revision.snapshot_path),
            "files": revision.nb_files, "size": revision.size_on_disk, "modified": int(revision.last_modified),
            "blobs": {str(path): size for path, size in blobs_of([revision]).items()}}


def rounded(scan):
    for repo in scan["repos"]:
        for part in [repo, *repo["revisions"]]:
            for key in ("accessed", "modified"):
                if key in part:
                    part[key] = int(part[key])  # Both know nanoseconds, and round them otherwise.
    return {**scan, "faults": len(scan["faults"])}


def behind_link(path):
    return os.path.realpath(path.parent) != str(path.parent)


def stays(repo, revision, path, whole):
    """Whether we keep on purpose a blob that Python removes or counts."""
    roots = [repo.repo_path] if whole else [repo.repo_path / "blobs", revision.snapshot_path]
    return behind_link(path) or not any(root in path.parents for root in roots)


def choose(rng, info):
    """Random revisions as {repo: revisions}, and how to name them to us."""
    repos = sorted((repo for repo in info.repos if is_ours(repo) and repo.revisions), key=lambda repo: repo.repo_path)
    commits = collections.Counter(revision.commit_hash for repo in info.repos for revision in repo.revisions)
    chosen, what = {}, []
    for repo in rng.sample(repos, rng.randint(0, min(3, len(repos)))):
        revisions = sorted(repo.revisions, key=lambda revision: revision.commit_hash)
        # Python takes any one of the repositories that have a commit.
        if any(commits[revision.commit_hash] > 1 for revision in revisions):
            continue
        if rng.random() < 0.3:
            what.append(repo.cache_id)
        else:
            revisions = rng.sample(revisions, rng.randint(1, len(revisions)))
            what += [named(rng, repo, revision.commit_hash) for revision in revisions]
        chosen[repo] = revisions
    return chosen, what


def named(rng, repo, commit):
    kind = rng.randrange(3)
    return f"{repo.cache_id}@{commit}" if kind == 0 else commit if kind == 1 or len(commit) < 40 else commit[:12].upper()


def expected_freed(info, chosen, cache):
    """Python's number, less the blobs that stay; the strategy is that of the rest."""
    strategy = info.delete_revisions(*[revision.commit_hash for revisions in chosen.values() for revision in revisions])
    kept, unlinked = set(), {}
    for repo, revisions in chosen.items():
        whole = len(revisions) == len(repo.revisions)
        removed = [r for r in revisions if whole or not refuses(repo, r)]
        used = set(blobs_of([r for r in repo.revisions if r not in removed]))
        for revision in revisions:
            for path, size in blobs_of([revision]).items():
                if revision not in removed or stays(repo, revision, path, whole):
                    kept.add(path)
                elif path not in used:
                    unlinked[path] = size
    if not kept:
        return strategy.expected_freed_size, strategy
    return huggingface_hub.utils._cache_manager._expected_freed_size(unlinked, cache), None


def refuses(repo, revision):
    """Whether we keep a revision on purpose: a link lies on the way to it or to its refs."""
    return any(behind_link(path) for path in [revision.snapshot_path, *(repo.repo_path / "refs" / ref for ref in revision.refs)])


def tree_of(folder, hidden):
    """What is in the folder. `hidden` paths are what only we remove, or only Python writes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not hidden(name):
            found[name] = os.readlink(path) if path.is_symlink() else path.is_dir() or path.read_bytes()
    return found


def only_ours(name):
    return (name.startswith(".locks") or "/trees/" in name or "/.no_exist/" in name
            or (name.startswith("blobs/") and name.endswith((".refs", ".lock"))))


# What must come up; caches are made until it has, at most five times as many as were asked for.
RARE = ("removals", "damaged", "kept something")


def check(ours, theirs, subject):
    if ours != theirs:
        raise SystemExit(f"{subject} differs\nours:   {ours}\ntheirs: {theirs}")


def compare_removal(rng, probe, info, cache, counts):
    chosen, what = choose(rng, info)
    plan = probe.ask("plan", cache, what)
    freed, strategy = expected_freed(info, chosen, cache)
    check(plan["freed"], freed, f"freed bytes of {what}")
    before = tree_of(cache.parent / "elsewhere", lambda name: False)
    if strategy is None or plan["faults"]:
        counts["kept something"] += 1
        probe.ask("remove", cache, what)
    else:
        for kind in ("refs", "snapshots", "repos", "blobs"):
            check(plan[kind], sorted(map(str, getattr(strategy, kind)), key=lambda path: pathlib.Path(path).parts), f"{kind} of {what}")
        saved = cache.parent / "saved"
        subprocess.run(["cp", "-a", cache, saved], check=True)
        probe.ask("remove", cache, what)
        ours = tree_of(cache, only_ours)
        for folder in cache.iterdir():
            shutil.rmtree(folder) if folder.is_dir() and not folder.is_symlink() else folder.unlink()
        subprocess.run(["cp", "-aT", saved, cache], check=True)
        strategy.execute()
        check(ours, tree_of(cache, only_ours), f"the cache after the removal of {what}")
        counts["removals"] += bool(what)
    check(before, tree_of(cache.parent / "elsewhere", lambda name: False), "what lies elsewhere")


def compare(rng, probe, root, counts):
    builder = Builder(rng, root)
    builder.build()
    cache = builder.cache
    ours = rounded(probe.ask("scan", cache))
    try:
        info = scan_cache_dir(cache)
    except (OSError, UnicodeError) as error:  # Of a broken link, which Python does not expect there.
        counts[f"Python fails with {type(error).__name__}"] += 1
        return
    finally:
        builder.done and counts.update({"damaged": 1})
    check(ours, python_scan(cache, info), f"the scan after {builder.done}")
    compare_removal(rng, probe, info, cache, counts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--caches", type=int, default=300)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    probe, counts = Probe(options.probe), collections.Counter()
    for number in range(5 * options.caches):
        if number >= options.caches and all(counts[kind] for kind in RARE):
            break
        rng = random.Random(options.seed * 1_000_003 + number)
        with tempfile.TemporaryDirectory() as folder:
            try:
                compare(rng, probe, pathlib.Path(folder).resolve(), counts)
            except BaseException:
                print(f"cache {number}")
                raise
    print(f"{number} caches scanned alike; {dict(counts)}")
    if not all(counts[kind] for kind in RARE):
        raise SystemExit("the caches were too much alike: some case never came up")


if __name__ == "__main__":
    main()
