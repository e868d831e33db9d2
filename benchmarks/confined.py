"""Runs programs under a limit of memory and behind a slow disk: in control groups of their own, of version 1 or 2."""
import contextlib
import itertools
import os
import pathlib
import re
import threading
import time

ROOT = pathlib.Path("/sys/fs/cgroup")
SELF = pathlib.Path("/proc/self/cgroup")
NUMBER = itertools.count()
# A shell that joins the groups before it becomes the program, so that everything the program takes counts.
JOIN = 'while [ "$1" != -- ]; do echo $$ > "$1" || exit 1; shift; done; shift; exec "$@"'


class Unavailable(Exception):
    """Why there can be no group here, e.g. "needs root"."""


def parent_of_new(controller):
    """The folder in which a group with `controller` can be made, and the version of control groups that has it."""
    lines = [line.split(":", 2) for line in SELF.read_text(encoding="ascii").splitlines()]
    for _, controllers, path in lines:
        if controller in controllers.split(","):
            return ROOT / controllers / path.lstrip("/"), 1
    for number, _, path in lines:
        folder = ROOT / path.lstrip("/")
        if number == "0" and controller in read(folder / "cgroup.controllers").split():
            # Beside this process: a group that has processes gives its children no controllers.
            return folder if folder == ROOT else folder.parent, 2
    raise Unavailable(f"no control group has the controller {controller}")


def read(file):
    try:
        return file.read_text(encoding="ascii")
    except OSError:
        return ""


def device_of(folder):
    """The disk on which `folder` lies, as "major:minor": a partition has no limit of its own."""
    number = os.stat(folder).st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    block = pathlib.Path("/sys/dev/block") / name
    if not block.exists():
        raise Unavailable(f"{folder} lies on no disk of this machine, whose speed could be limited")
    return read(block.resolve().parent / "dev").strip() if (block / "partition").exists() else name


class Group:
    """A control group with one controller."""

    def __init__(self, controller, settings):
        parent, self.version = parent_of_new(controller)
        if self.version == 2 and controller not in read(parent / "cgroup.subtree_control").split():
            with contextlib.suppress(OSError):
                (parent / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")
        self.folder = parent / f"accelerate-{os.getpid()}-{next(NUMBER)}"
        try:
            self.folder.mkdir()
        except OSError as error:
            raise Unavailable(f"no control group can be made in {parent} ({error.strerror})") from error
        try:
            for file, value in settings[self.version].items():
                (self.folder / file).write_text(str(value), encoding="ascii")
        except OSError as error:
            self.close()
            raise Unavailable(f"the control group {self.folder} takes no limits ({error.strerror})") from error

    def value(self, *files):
        """What the first of `files` that is there says."""
        return next((text for text in (read(self.folder / file) for file in files) if text), "0")

    def close(self):
        for _ in range(100):  # The kernel may take a moment to forget the last process.
            with contextlib.suppress(OSError):
                self.folder.rmdir()
            if not self.folder.exists():
                return
            time.sleep(0.05)


class Memory(Group):
    """At most `limit_bytes`, without swap: what does not fit is written to its file, or the program is killed. No limit:
    counts alone."""

    def __init__(self, limit_bytes=None):
        limits = {1: {}, 2: {}} if limit_bytes is None else {
            1: {"memory.limit_in_bytes": limit_bytes, "memory.swappiness": 0},
            2: {"memory.max": limit_bytes, "memory.swap.max": 0}}
        super().__init__("memory", limits)
        self.held_bytes = 0  # The most so far that no file can take back: private and shared memory.
        self.ended = threading.Event()
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()

    def watch(self):
        while not self.ended.wait(0.05):
            found = dict(line.split() for line in self.value("memory.stat").splitlines() if " " in line)
            names = ("total_rss", "total_shmem") if self.version == 1 else ("anon", "shmem")
            self.held_bytes = max(self.held_bytes, sum(int(found.get(name, 0)) for name in names))

    def close(self):
        if hasattr(self, "ended"):  # Its limits were taken.
            self.ended.set()
            self.watcher.join()
        super().close()

    def peak_bytes(self):
        return int(self.value("memory.max_usage_in_bytes", "memory.peak"))

    def kills(self):
        found = re.search(r"^oom_kill (\d+)", self.value("memory.oom_control", "memory.events"), re.MULTILINE)
        return int(found.group(1)) if found else 0


class Disk(Group):
    """At most `bytes_per_second` read from the disk of `folder`, and as many written."""

    def __init__(self, folder, bytes_per_second):
        self.device = device_of(folder)
        limit = f"{self.device} {bytes_per_second}"
        super().__init__({1: "blkio", 2: "io"}[own_version()], {
            1: {f"blkio.throttle.{way}_bps_device": limit for way in ("read", "write")},
            2: {"io.max": f"{self.device} rbps={bytes_per_second} wbps={bytes_per_second}"}})

    def moved_bytes(self):
        """The bytes that the kernel has read and written there for the programs of this group."""
        text = self.value("blkio.throttle.io_service_bytes", "io.stat")
        found = [re.search(rf"^{self.device} .*?{word}[ =](\d+)", text, re.MULTILINE)
                 for word in (("Read", "Write") if self.version == 1 else ("rbytes", "wbytes"))]
        return [int(match.group(1)) if match else 0 for match in found]


def own_version():
    with contextlib.suppress(Unavailable):
        return parent_of_new("blkio")[1]
    return 2


@contextlib.contextmanager
def groups(*makers):
    """The groups that `makers` make, removed in the end. Throws Unavailable."""
    with contextlib.ExitStack() as stack:
        made = []
        for make in makers:
            made.append(make())
            stack.callback(made[-1].close)
        yield made


def command(words, *joined):
    """`words`, to be run in the groups `joined`."""
    return ["sh", "-c", JOIN, "confined", *(group.folder / "cgroup.procs" for group in joined), "--", *words]
