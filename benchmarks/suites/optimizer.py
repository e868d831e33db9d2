"""Steps of prepared optimizers on one thread: fp32, 16 Mi parameters in one tensor or in 16, or 200 tensors of 4,096.

- **Against torch::optim**: the prepared optimizer and the same one of LibTorch take turns in one process, step by
  step, each on parameters of its own. There is no `Accelerator`, whose heap (accelerate/base/heap.h) would speed
  up the temporaries of the plain step too. SGD has a momentum of 0.9; the others have LibTorch's settings.
- **Against Python**: `torch.optim` as it comes, and with `fused=True`, which runs the same kernels; programs take
  turns. What is left there is what a step costs around its kernels, which shows in small tensors.
- torch::optim makes temporaries as large as the parameters. Most of its time goes into their pages, which glibc
  returns and fetches again in nearly every step; the rare step that keeps them is its minimum, the median is what a
  training pays. `MALLOC_TRIM_THRESHOLD_` and `MALLOC_MMAP_THRESHOLD_` make every step such a one.
"""
from harness import Contender, Summary, alternate, run
from report import Row, Times

TITLE = "Optimizer steps: prepared, of torch::optim, and of Python"
PROGRAMS = ("optimizer_steps",)
ROUNDS = 5

NAMES = ("AdamW", "Adam", "SGD", "Adagrad")
ONE, BIG, SMALL = (1, 16 * 1024), (16, 1024), (200, 4)  # tensors, thousands of numbers in each
LABELS = {ONE: "one tensor of 16 Mi", BIG: "16 of 1 Mi", SMALL: "200 of 4,096"}
AGAINST_PYTHON = (("as it comes", "default_seconds"), ("fused=True", "fused_seconds"))


def words(setting, which, size):
    count, thousands = (2, 1) if setting.quick else size
    warm_up, steps = (1, 2) if setting.quick else (20, 200) if size is SMALL else (3, 12)
    return which, count, thousands, warm_up, steps


def reports(setting, which, size, say, python):
    """Reports of our program and, if asked, of theirs, in turns."""
    arguments = words(setting, which, size)
    programs = {"ours": [setting.program("optimizer_steps")]}
    if python:
        programs["theirs"] = [setting.venv / "bin" / "python", setting.original("optimizer_steps")]
    samples = alternate([Contender(f"{NAMES[which]}, {name}", lambda command=command: run(setting, [*command, *arguments])
                                   .report()) for name, command in programs.items()], setting.rounds, say)
    return list(samples.values())


def milliseconds(reports_of_one, key):
    return Summary.of(value * 1e3 for report in reports_of_one for value in report[key])


def rows(setting, which, size, say, target=None, python=False):
    ours, *theirs = reports(setting, which, size, say, python)
    name = f"{NAMES[which]}, {LABELS[size]}"
    mine = milliseconds(ours, "accelerated_seconds")
    yield Row(f"{name}, against torch::optim", "ms", mine, milliseconds(ours, "plain_seconds"), target)
    for label, key in AGAINST_PYTHON if theirs else ():
        yield Row(f"{name}, against Python {label}", "ms", mine, milliseconds(theirs[0], key))


def measure(setting, say):
    table = [*rows(setting, 0, ONE, say, Times(5)), *rows(setting, 0, BIG, say, Times(5), python=True)]
    for which in range(1, len(NAMES)):
        table += rows(setting, which, BIG, say)
    return table + list(rows(setting, 0, SMALL, say, python=True))
