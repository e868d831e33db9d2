"""Repositories in memory, with the ids that git would give, mirrored as plain files under a folder."""
import base64
import collections
import dataclasses
import datetime
import fnmatch
import functools
import hashlib
import itertools
import pathlib

from messages import HubError

# Extensions that the .gitattributes of a new repository on the hub sends to LFS.
LFS_EXTENSIONS = """7z arrow bin bz2 ckpt ftz gguf gz h5 joblib mlmodel model msgpack npy npz onnx ot parquet pb pickle
pkl pt pth rar safetensors tar tflite tgz wasm xz zip zst""".split()
LARGEST_REGULAR_BYTES = 10 * 1024 * 1024
NOTHING_TO_DELETE = "A file with this name doesn't exist"


def git_id(kind, content):
    """Returns the SHA-1 by which git names an object of `kind`: blob, tree or commit."""
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content).hexdigest()


@dataclasses.dataclass(frozen=True)
class Entry:
    """A file of a commit. `content` is None for a file in LFS, `sha256` is None for any other."""

    size: int
    blob_id: str
    content: bytes | None = None
    sha256: str | None = None
    pointer_size: int = 0

    @property
    def etag(self):
        return self.sha256 or self.blob_id


def regular_entry(content):
    return Entry(len(content), git_id("blob", content), content)


def lfs_entry(sha256, size):
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()
    return Entry(size, git_id("blob", pointer), None, sha256, len(pointer))


@dataclasses.dataclass(frozen=True)
class Commit:
    id: str
    files: dict  # from path to Entry
    parent: "Commit | None"
    title: str
    date: str  # ISO 8601, UTC

    @functools.cached_property
    def folders(self):
        """The git tree id of each folder; "" is the root."""
        return folder_ids(self.files)

    def last_change(self, path):
        """Returns the commit that gave the file or folder at `path` its present content."""
        commit = self
        while commit.parent and _below(commit.files, path) == _below(commit.parent.files, path):
            commit = commit.parent
        return commit


NUMBERS = itertools.count()


def make_commit(files, parent, title, description=""):
    """Returns the commit, with the id that git computes from tree, parent, author and message."""
    now = datetime.datetime.now(datetime.timezone.utc)
    # A number each: two commits of one second that say the same have ids of their own.
    person = f"tester {next(NUMBERS)} <tester@example.com> {int(now.timestamp())} +0000"
    lines = [f"tree {folder_ids(files)['']}"] + ([f"parent {parent.id}"] if parent else [])
    message = title + (f"\n\n{description}" if description else "")
    text = "\n".join([*lines, f"author {person}", f"committer {person}", "", message, ""])
    date = now.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return Commit(git_id("commit", text.encode()), files, parent, title, date)


def parent_folder(path):
    return path.rpartition("/")[0]


def folders_above(path):
    """Returns the folders that hold `path`, outermost first, without the root."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def folder_ids(files):
    """Returns the git tree id of each folder of `files`; "" is the root."""
    members = {"": {}}
    for path, entry in files.items():
        for folder in folders_above(path):
            members.setdefault(folder, {})
        members[parent_folder(path)][path] = (b"100644", entry.blob_id)
    ids = {}
    for folder in sorted(members, key=lambda name: len(name and name.split("/")), reverse=True):
        ids[folder] = git_id("tree", _tree_content(members[folder]))
        if folder:
            members[parent_folder(folder)][folder] = (b"40000", ids[folder])
    return ids


def _tree_content(members):
    def order(item):
        return item[0] + ("/" if item[1][0] == b"40000" else "")

    return b"".join(mode + b" " + path.rpartition("/")[2].encode() + b"\0" + bytes.fromhex(id_)
                    for path, (mode, id_) in sorted(members.items(), key=order))


def _below(files, path):
    """Returns the entry at `path` and all entries of the folder `path`."""
    return {name: entry for name, entry in files.items()
            if name == path or name.startswith(path + "/")}


class Repository:
    """A repository: commits by id, and branches, tags and pull requests as names of commits."""

    def __init__(self, kind, name, private):
        self.kind, self.name = kind, name  # "model" or "dataset"; with or without an owner
        base = name.rpartition("/")[2]
        self.private = private or base.startswith("private-")
        self.gated = base.startswith("gated-")
        self.commits, self.branches, self.tags, self.pulls = {}, {}, {}, {}

    def find(self, revision):
        """Returns the commit of a branch, tag, pull request or id; None if there is none."""
        for refs in (self.branches, self.tags, self.pulls):
            if revision in refs:
                return refs[revision]
        return self.branches.get(revision.removeprefix("refs/heads/")) or self.commits.get(revision)

    def add(self, ref, commit):
        """Adds the commit, and lets the branch or pull request `ref` point to it."""
        self.commits[commit.id] = commit
        (self.pulls if ref.startswith("refs/pr/") else self.branches)[ref] = commit

    def open_pull(self):
        """Returns the name of a new pull request; it exists once a commit is added to it."""
        return f"refs/pr/{len(self.pulls) + 1}"


def upload_mode(path, size):
    """Returns how the hub wants a file: "lfs" or "regular"."""
    by_name = path.rpartition(".")[2].lower() in LFS_EXTENSIONS and "." in path
    return "lfs" if by_name or size > LARGEST_REGULAR_BYTES else "regular"


def is_ignored(path, gitignore):
    """Returns whether the patterns of a .gitignore leave `path` out; the last that fits decides."""
    ignored = False
    for line in gitignore.splitlines():
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        if _fits(path, pattern.lstrip("!")):
            ignored = not pattern.startswith("!")
    return ignored


def _fits(path, pattern):
    candidates = folders_above(path) + ([] if pattern.endswith("/") else [path])
    pattern = pattern.rstrip("/")
    if "/" in pattern:
        return any(fnmatch.fnmatchcase(name, pattern.lstrip("/")) for name in candidates)
    return any(fnmatch.fnmatchcase(name.rpartition("/")[2], pattern) for name in candidates)


class Store:
    """All repositories and LFS objects, and their copies on the disk under `root`. Not thread-safe."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.objects = self.root / "objects"
        self.objects.mkdir(parents=True, exist_ok=True)
        self.repositories = {}

    def create(self, kind, name, private=False, files=None):
        """Returns the new repository. Without `files` its first commit is as on the hub: .gitattributes."""
        repository = self.repositories[kind, name] = Repository(kind, name, private)
        self._folder(repository).mkdir(parents=True, exist_ok=True)
        if files is None:
            lines = "".join(f"*.{name} filter=lfs diff=lfs merge=lfs -text\n" for name in LFS_EXTENSIONS)
            files = {".gitattributes": regular_entry(lines.encode())}
        self.add(repository, "main", make_commit(files, None, "initial commit"))
        return repository

    def add(self, repository, ref, commit):
        """Adds the commit to a branch or pull request, and renews the mirror when it is main."""
        before = repository.branches.get("main")
        repository.add(ref, commit)
        if ref == "main":
            self._mirror(self._folder(repository), before.files if before else {}, commit.files)

    def commit(self, repository, ref, parent, lines):
        """Returns the commit that `lines`, the objects of an ndjson body, make from `parent`."""
        header = next((line["value"] for line in lines if line["key"] == "header"), None)
        if not header or not header.get("summary"):
            raise HubError(400, "A commit needs a header with a summary")
        files = dict(parent.files)
        for line in lines:
            if line["key"] != "header":
                self._apply(files, line["key"], line["value"])
        _check_no_file_is_a_folder(files)
        commit = make_commit(files, parent, header["summary"], header.get("description", ""))
        self.add(repository, ref, commit)
        return commit

    def content(self, entry):
        return entry.content if entry.sha256 is None else self.read_object(entry.sha256)

    def has_object(self, sha256):
        return (self.objects / sha256).is_file()

    def read_object(self, sha256):
        return (self.objects / sha256).read_bytes()

    def write_object(self, content):
        """Stores an object, and returns its SHA-256."""
        sha256 = hashlib.sha256(content).hexdigest()
        (self.objects / sha256).write_bytes(content)
        return sha256

    def seed(self, folder):
        """Creates the repositories that lie in folder/{models,datasets}/owner/name, one commit each.

        A folder that holds files where an owner is expected is a repository without an owner.
        """
        for kind in ("model", "dataset"):
            top = pathlib.Path(folder, kind + "s")
            for outer in _folders_in(top):
                whole = any(path.is_file() for path in outer.iterdir())
                for path in [outer] if whole else _folders_in(outer):
                    self.create(kind, path.relative_to(top).as_posix(), files=self._entries(path))

    def _entries(self, folder):
        files = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                content, name = path.read_bytes(), path.relative_to(folder).as_posix()
                lfs = content and upload_mode(name, len(content)) == "lfs"
                files[name] = (lfs_entry(self.write_object(content), len(content)) if lfs
                               else regular_entry(content))
        return files

    def _apply(self, files, key, value):
        """Changes `files` by one operation of a commit."""
        path = value.get("path", "")
        if any(part in ("", ".", "..", ".git") for part in path.rstrip("/").split("/")):
            raise HubError(400, f"Invalid path: {path!r}")
        if key == "file":
            files[path] = regular_entry(_decoded(value))
        elif key == "lfsFile":
            files[path] = self._checked_lfs_entry(value)
        elif key == "deletedFile":
            if files.pop(path, None) is None:
                raise HubError(404, NOTHING_TO_DELETE, "EntryNotFound")
        elif key == "deletedFolder":
            _delete_folder(files, path.rstrip("/"))
        else:
            raise HubError(400, f"Invalid operation: {key!r}")

    def _checked_lfs_entry(self, value):
        sha256 = value.get("oid", "")
        if value.get("algo") != "sha256" or not sha256 or not self.has_object(sha256):
            raise HubError(400, "Your push was rejected because an LFS pointer pointed to a file that does not exist.")
        size = (self.objects / sha256).stat().st_size
        if value.get("size", size) != size:
            raise HubError(400, f"The size of {sha256} is {size}, not {value['size']}")
        return lfs_entry(sha256, size)

    def _folder(self, repository):
        return self.root / (repository.kind + "s") / repository.name

    def _mirror(self, folder, before, after):
        """Makes the files of `folder`, which are as in `before`, as in `after`."""
        for path in before.keys() - after.keys():
            (folder / path).unlink()
            for above in reversed(folders_above(path)):
                if (folder / above).is_dir() and not any((folder / above).iterdir()):
                    (folder / above).rmdir()
        for path, entry in after.items():
            if before.get(path) != entry:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(self.content(entry))


def _folders_in(folder):
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _decoded(value):
    if value.get("encoding") != "base64":
        return value.get("content", "").encode()
    try:
        content = base64.b64decode(value["content"], validate=True)
    except (KeyError, ValueError) as error:
        raise HubError(400, f"Invalid base64 of {value['path']}: {error}") from None
    if len(content) > LARGEST_REGULAR_BYTES:
        raise HubError(400, "Your push was rejected because it contains files larger than 10 MiB.")
    return content


def _delete_folder(files, folder):
    inside = [name for name in files if name.startswith(folder + "/")]
    if not inside:
        raise HubError(404, NOTHING_TO_DELETE, "EntryNotFound")
    for name in inside:
        del files[name]


def _check_no_file_is_a_folder(files):
    clashes = collections.Counter(folder for path in files for folder in folders_above(path))
    for path in files:
        if path in clashes:
            raise HubError(400, f"{path!r} cannot be both a file and a folder")
