"""From the command to a group that works: the launcher's own time, the first collective, memory.

- **Launcher overhead**: a program that does nothing, launched, less the same program started directly; minimum less
  minimum, median less median. Theirs is `accelerate launch` for one process and `torchrun` for two (upstream's
  launcher starts a single process on the CPU).
- **First collective**: from just before the command is started until rank 0 has the sum of a tensor over two ranks.
  Theirs is `torchrun` with Python Accelerate. The row below it has Python Accelerate under our launcher in the
  place of ours.
- **Memory**: of rank 0 right after that first collective; resident is VmRSS, peak is VmHWM, both with the pages of
  the libraries that are mapped and touched. **Bound** is a C++ program that links LibTorch alone and makes one tensor:
  LibTorch fills its table of operators when it is loaded, and no process that uses it takes less.
"""
from harness import Contender, Summary, alternate, run
from report import AtMost, Row, Times

TITLE = "Launching: ours and the Python originals"
PROGRAMS = ("no_op", "first_collective", "one_tensor")
ROUNDS = 10
PER_TURN = 10  # Runs of what takes milliseconds, in each turn.


def timed(setting, command):
    """Milliseconds from start to end. `command` is a function, for some need a port of their own in each run."""
    return lambda: run(setting, command()).seconds * 1e3


def until_first_collective(setting, command):
    def sample():
        finished = run(setting, command())
        report = finished.report()
        return {"ms": (report["finished_ns"] - finished.started_ns) / 1e6} | memory(report)
    return sample


def memory(report):
    """Megabytes."""
    return {key: report[f"{key}_kib"] * 1024 / 1e6 for key in ("resident", "peak")}


def overhead(setting, ranks, theirs, say):
    """A row: what the launcher adds to a program that does nothing."""
    no_op = setting.program("no_op")
    samples = alternate([
        Contender("directly", timed(setting, lambda: [no_op]), PER_TURN),
        Contender("our launcher", timed(setting, lambda: setting.launch(ranks, no_op)), PER_TURN),
        Contender("their launcher", timed(setting, theirs))], setting.rounds, say)
    directly, ours, theirs = (Summary.of(values) for values in samples.values())
    title = f"launcher overhead, {ranks} process{'es' if ranks > 1 else ''}"
    return Row(title, "ms", ours - directly, theirs - directly, AtMost(30))


def overheads(setting, say):
    no_op = setting.program("no_op")
    alone = [setting.venv / "bin" / "accelerate", "launch", "--num_processes", 1, "--num_machines", 1, "--cpu",
             "--mixed_precision", "no", "--dynamo_backend", "no", "--no_python", no_op]
    return [overhead(setting, 1, lambda: alone, say),
            overhead(setting, 2, lambda: setting.torchrun(2, "--no-python", no_op), say)]


def first_collective(setting, say):
    """Rows: time to the first collective, and memory after it."""
    program, original = setting.program("first_collective"), setting.original("first_collective")
    samples = alternate([
        Contender("ours", until_first_collective(setting, lambda: setting.launch(2, program))),
        Contender("theirs", until_first_collective(setting, lambda: setting.torchrun(2, original))),
        Contender("theirs under our launcher",
                  until_first_collective(setting, lambda: setting.launch(2, original))),
        Contender("floor", lambda: memory(run(setting, [setting.program("one_tensor")]).report()))], setting.rounds, say)

    def row(what, unit, key, target, ours="ours"):
        return Row(what, unit, *(Summary.of(sample[key] for sample in samples[name]) for name in (ours, "theirs")),
                   target, min(sample[key] for sample in samples["floor"]) if unit == "MB" else None)
    return [row("launch to first collective, 2 ranks", "ms", "ms", Times(6)),
            row("Python Accelerate under our launcher", "ms", "ms", None, "theirs under our launcher"),
            row("resident memory of a rank at start", "MB", "resident", Times(2)),
            row("peak memory of a rank at start", "MB", "peak", Times(2))]


def measure(setting, say):
    return [*overheads(setting, say), *first_collective(setting, say)]
