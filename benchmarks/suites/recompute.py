"""Gradient checkpointing of a transformer: eight blocks of width 384 on 8 x 128 tokens, fp32, one thread, dropout 0.1.

- **Time**: forward and backward. In each program the plain model, the one that keeps the inputs of blocks alone, and the
  one that also keeps products, take turns step by step. The bound is 2 x forward + backward of our plain model, by
  minima: what recomputing costs if it costs nothing besides the second forward. A block's last product is not computed
  again, since no gradient needs it, so a step may be below the bound.
- **Against Python**: `torch.utils.checkpoint` without reentrance, and its selective contexts; programs take turns. The
  row of the plain model says how much of that is matrix products and LibTorch alone.
- **Memory**: how much the peak of a process's resident memory grows over some steps, after a step on one of the eight rows.
"""
from harness import Contender, Summary, alternate, run
from report import Row, Times, TimesBound

TITLE = "Gradient checkpointing: time and memory beside torch.utils.checkpoint"
PROGRAMS = ("recompute_steps",)
ROUNDS = 3
KINDS = {"plain": "plain", "everything": "keeping inputs of blocks", "products": "keeping products too"}


def commands(setting, kind):
    words = [kind, *((1, 2) if setting.quick else (3, 12))]
    return {"ours": [setting.program("recompute_steps"), *words],
            "theirs": [setting.venv / "bin" / "python", setting.original("recompute_steps"), *words]}


def reports(setting, kind, say):
    samples = alternate([Contender(f"{kind}, {name}", lambda command=command: run(setting, command).report())
                         for name, command in commands(setting, kind).items()], setting.rounds, say)
    return list(samples.values())


def milliseconds(reports_of_one, key):
    return Summary.of(value * 1e3 for report in reports_of_one for value in report[key])


def growth(reports_of_one):
    """MiB"""
    return Summary.of((report["peak_kib"] - report["before_kib"]) / 1024 for report in reports_of_one)


def time_rows(setting, say):
    ours, theirs = reports(setting, "turns", say)
    forward, step = milliseconds(ours, "plain_forward_seconds").minimum, milliseconds(ours, "plain_seconds").minimum
    for kind, label in KINDS.items():
        bound, target = (None, None) if kind == "plain" else (forward + step, TimesBound(1.05))
        yield Row(f"step, {label}", "ms", milliseconds(ours, f"{kind}_seconds"), milliseconds(theirs, f"{kind}_seconds"),
                  target or Times(1), bound=bound)


def memory_rows(setting, say):
    for kind, label in KINDS.items():
        ours, theirs = reports(setting, kind, say)
        yield Row(f"peak of memory, {label}", "MiB", growth(ours), growth(theirs))


def measure(setting, say):
    return [*time_rows(setting, say), *memory_rows(setting, say)]
