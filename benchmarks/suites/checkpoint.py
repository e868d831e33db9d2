"""Saving and loading 1 GiB of fp32 in 64 tensors, one rank, one thread for copies, files in `TMPDIR`: a disk, not memory.

- **save_state** writes, checksums and syncs a whole checkpoint, names included; `dd` writes as many zeros in blocks of
  1 MiB and syncs them (`conv=fdatasync`), its start included. The two take turns, and the disk is idle before each.
- **Without a sync** `save_file` writes to the page cache, and so does ours until that turns out slow. Where the machine
  has not used its memory for long, the system takes seconds to find a GiB of it: minima are runs that found it ready.
- **Mapped**: until the tensors are there to be used; `load_file` of safetensors beside it. Pages are read at first use.
- **load_state** reads every byte for its checksum, and again into the model; the file is in the page cache.
- **The stall** of an asynchronous save is what the training waits for; one `memcpy` of the same tensors into memory that
  is already there beside it, in turns in one process. The first save of a process also has to get its memory.
- **Extra memory** of a synchronous save: VmHWM, reset before, less VmRSS before: all that is resident, of whatever kind;
  the page cache, which belongs to the system, is not.
"""
import os

from harness import Contender, Summary, alternate, run
from report import AtMost, Row, Times

TITLE = "Checkpoints: saving, loading, and what the training waits for"
PROGRAMS = ("checkpoint",)
ROUNDS = 4


def idle(work):
    """`work`, once what earlier ones left for the disk is on it."""
    def turn():
        os.sync()
        return work()
    return turn


def contenders(setting, mebibytes):
    ours, python = setting.program("checkpoint"), setting.venv / "bin" / "python"
    folder, zeros = setting.home, setting.home / "zeros"

    def dd():
        taken = run(setting, ["dd", "if=/dev/zero", f"of={zeros}", "bs=1M", f"count={mebibytes}", "conv=fdatasync"])
        zeros.unlink()
        return {"save_seconds": taken.seconds}

    def program(what):
        return lambda: run(setting, [ours, what, mebibytes, folder]).report()

    def original():
        return run(setting, [python, setting.original("checkpoint"), mebibytes, folder]).report()

    works = {"state": program("state"), "dd": dd, "tensors": program("tensors"), "Python": original,
             "load": program("load"), "asynchronous": program("asynchronous")}
    return [Contender(name, idle(work)) for name, work in works.items()]


def values(reports, key, scale=1e3):
    """All values of `key`, of reports that have one or a list of them."""
    found = (report[key] for report in reports)
    return Summary.of(value * scale for item in found for value in (item if isinstance(item, list) else [item]))


def measure(setting, say):
    samples = alternate(contenders(setting, 16 if setting.quick else 1024), setting.rounds, say)
    state, dd, tensors, original, load, background = samples.values()
    return [
        Row("save_state, synced, against dd", "ms", values(state, "save_seconds"), values(dd, "save_seconds"), Times(0.9)),
        Row("tensors without a sync, against save_file", "ms", values(tensors, "save_seconds"),
            values(original, "save_seconds"), Times(1.5)),
        Row("mapped, before first use, against load_file", "ms", values(load, "map_seconds"),
            values(original, "load_seconds"), AtMost(50)),
        Row("load_state, verified", "ms", values(load, "load_seconds")),
        Row("stall of an asynchronous save, against memcpy", "ms", values(background, "stall_seconds"),
            values(background, "copy_seconds"), Times(0.833)),
        Row("stall of the first one", "ms", values(background, "first_seconds")),
        Row("extra memory of a synchronous save", "MiB", values(state, "extra_kib", 1 / 1024), target=AtMost(64)),
    ]
