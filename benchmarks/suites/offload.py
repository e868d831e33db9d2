"""Training with weights, gradients and optimizer state on disk. The model's states are four times a limit of memory: 96 blocks of
width 512 (two products of matrices, 2.1 million weights each), 64 rows, AdamW, one thread a rank.

- **Limit**: the program runs in a control group of 768 MiB without swap. Its peak reaches the limit, since the group also
  counts cached pages of files, which the kernel takes back. **Held** is what no file can take back: private and shared
  memory, looked at every 50 ms.
- **Slow disk**: a control group that reads at most 500 MB/s and writes at most 500 MB/s. The bound of a step is what it
  read by that speed, or what it wrote if that is more. Computing and the other direction then cost nothing. The kernel
  measures a little short, so that a step can be below the bound.
- **Bytes** are read and written ones together, per parameter and step, of all ranks. In fp32 a weight is read in
  forward (4), in backward (4) and in the step (4), and written (4). Its gradient is written (4) and read (4), its two
  moments are read (8) and written (8): 40 bytes. A weight that stays in memory saves 16.
- **Bytes in bf16**: the slice is read twice (4) and written (2), its fp32 master read and written (8), the rest as
  before: 38. A slice that stays in memory saves 6. These formulas are the bounds. The last two blocks of a forward
  are still there when backward begins, which saves a little more.
- **To the bit**: losses and a hash of all weights after the last step, beside the same program that keeps everything in
  memory.
- **Theirs** is DeepSpeed 0.19.8, ZeRO 3 on one rank, fp32. In memory: `DeepSpeedCPUAdam`. On disk: its NVMe offload of
  parameters and optimizer, with buffers as small as it takes, behind the same slow disk, without a limit of memory.
- **First steps** do not count: the disk need not read what nobody has written. Programs run one after the other.

DeepSpeed is optional, and has an environment of its own. It needs a C++ compiler and libaio-dev. Its first run compiles
operators for some minutes.

    python3 -m venv .cache/deepspeed
    .cache/deepspeed/bin/pip install torch==2.13.0 ninja setuptools wheel py-cpuinfo numpy
    DS_ACCELERATOR=cpu .cache/deepspeed/bin/pip install --no-build-isolation deepspeed==0.19.8
"""
import shutil

import confined
from harness import FOLDER, BenchmarkError, Contender, Summary, alternate, run
from report import Absent, AtMost, Row, Times, TimesBound

TITLE = "Offload to disk: a model four times as large as memory"
PROGRAMS = ("offload_steps",)
ROUNDS = 1
LIMIT = 768 << 20
SPEED = 500_000_000
SIZES, QUICK_SIZES = (96, 512, 64, 3), (4, 64, 8, 2)  # Blocks, width, rows, steps.
DEEPSPEED = FOLDER.parent / ".cache" / "deepspeed"
BUILD_SECONDS = 1500  # For DeepSpeed's operators.


class Trained:
    """What a program reported and what its control groups counted."""

    def __init__(self, report, memory):
        self.ranks = report["by_rank"]
        self.parameters = report["parameters"]
        self.held_mib, self.peak_mib, self.kills = memory.held_bytes / 2**20, memory.peak_bytes() / 2**20, memory.kills()

    def steps(self):
        """Of all ranks together, without the first."""
        for of_ranks in list(zip(*(rank["steps"] for rank in self.ranks)))[1:]:
            yield {key: max(step[key] for step in of_ranks) if key == "seconds" else sum(step[key] for step in of_ranks)
                   for key in of_ranks[0]}

    def results(self):
        return [(rank["hash"], [step["loss"] for step in rank["steps"]]) for rank in self.ranks]

    def bytes_per_parameter(self, read, written):
        return [(step[read] + step[written]) / self.parameters for step in self.steps()]


def train(setting, words, limit=None, speed=None, limit_seconds=None):
    """Runs `words`, with a folder on disk in place of the word DISK."""
    folder = setting.home / "offload"
    folder.mkdir(exist_ok=True)
    makers = [lambda: confined.Memory(limit), *([lambda: confined.Disk(folder, speed)] if speed else [])]
    try:
        with confined.groups(*makers) as groups:
            words = [folder if word == "DISK" else word for word in words]
            report = run(setting, confined.command(words, *groups), limit_seconds).report()
            return Trained(report, groups[0])
    except confined.Unavailable as error:
        raise BenchmarkError(f"The suite needs control groups: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ours(setting, place, kept_mib=0, ranks=1, half=False, **limits):
    sizes = QUICK_SIZES if setting.quick else SIZES
    program = [setting.program("offload_steps"), place, *sizes, kept_mib]
    flags = ("--mixed_precision", "bf16") if half else ()
    launch = [setting.accelerate, "launch", "--cpu", "--num_processes", ranks, *flags] if ranks > 1 or half else []
    return lambda: train(setting, [*launch, *program], **limits)


def theirs(setting, place, sizes=None, **limits):
    sizes = sizes or (QUICK_SIZES if setting.quick else SIZES)
    words = [DEEPSPEED / "bin" / "python", "-W", "ignore", setting.original("offload_steps"), place, *sizes]
    return lambda: train(setting, words, limit_seconds=BUILD_SECONDS, **limits)


def has_deepspeed():
    return (DEEPSPEED / "bin" / "python").exists()


def contenders(setting):
    slow = {"limit": LIMIT, "speed": SPEED}
    third = weights_of(setting) * 4 // 3 // 2**20
    yield Contender("slow", ours(setting, "DISK", **slow))
    yield Contender("slow third", ours(setting, "DISK", third + 1, **slow))
    yield Contender("slow bf16", ours(setting, "DISK", half=True, **slow))
    yield Contender("slow bf16 third", ours(setting, "DISK", third // 2 + 1, half=True, **slow))
    yield Contender("slow two ranks", ours(setting, "DISK", ranks=2, **slow))
    yield Contender("memory bf16", ours(setting, "memory", half=True))
    yield Contender("memory two ranks", ours(setting, "memory", ranks=2))
    if has_deepspeed():
        yield Contender("theirs memory", theirs(setting, "memory"))
        yield Contender("theirs slow", theirs(setting, "DISK", speed=SPEED))


def weights_of(setting):
    blocks, width, *_ = QUICK_SIZES if setting.quick else SIZES
    return blocks * (8 * width * width + 7 * width)


def seconds(trained):
    return Summary.of(step["seconds"] for one in trained for step in one.steps())


def bytes_moved(trained, by="kernel"):
    keys = ("kernel_read", "kernel_written") if by == "kernel" else ("read", "written")
    return Summary.of(value for one in trained for value in one.bytes_per_parameter(*keys))


def disk_seconds(trained):
    return min(max(step["kernel_read"], step["kernel_written"]) / SPEED for one in trained for step in one.steps())


def time_rows(found):
    for name, label in {"slow": "fp32", "slow third": "fp32, a third of the weights in memory", "slow bf16": "bf16",
                        "slow bf16 third": "bf16, a third of the slices in memory", "slow two ranks": "fp32, two ranks"}.items():
        other = found.get("theirs slow") if name == "slow" else None
        yield Row(f"step behind the slow disk: {label}", "s", seconds(found[name]), other and seconds(other),
                  TimesBound(1.2), bound=disk_seconds(found[name]))
    yield Row("step with states on this disk, beside in memory", "s", seconds(found["disk"]), seconds(found["memory"]))
    if "theirs memory" in found:
        yield Row("step in memory, beside DeepSpeedCPUAdam", "s", seconds(found["memory"]), seconds(found["theirs memory"]))


def byte_rows(found):
    for name, label, formula, target in [
            ("slow", "fp32", 40, TimesBound(1.02)), ("slow third", "fp32, a third of the weights in memory", 40 - 16 / 3, AtMost(36)),
            ("slow bf16", "bf16", 38, TimesBound(1.02)), ("slow bf16 third", "bf16, a third of the slices in memory", 36, TimesBound(1.02)),
            ("slow two ranks", "fp32, two ranks", 40, TimesBound(1.02))]:
        other = found.get("theirs slow") if name == "slow" else None
        yield Row(f"bytes, by the kernel: {label}", "B", bytes_moved(found[name]), other and bytes_moved(other), target,
                  bound=formula)
        yield Row(f"bytes, by the engine: {label}", "B", bytes_moved(found[name], "engine"), None, target, bound=formula)


def memory_rows(setting, found):
    def of(name, key):
        return Summary.of(getattr(one, key) for one in found[name])

    limited = [one for name, all_of in found.items() if name.startswith("slow") for one in all_of]
    limit, states = LIMIT / 2**20, weights_of(setting) * 16 / 2**20
    yield Row("limit of memory, beside the states of the model", "MiB", Summary(limit, limit), Summary(states, states), Times(4))
    yield Row("programs killed for memory", "", Summary.of([sum(one.kills for one in limited)]), None, AtMost(0))
    for name, label in {"slow": "fp32", "slow third": "fp32, a third of the weights in memory", "slow bf16": "bf16",
                        "slow two ranks": "fp32, two ranks"}.items():
        other = of("theirs slow", "held_mib") if name == "slow" and "theirs slow" in found else None
        yield Row(f"held at most: {label}", "MiB", of(name, "held_mib"), other, AtMost(limit))
    yield Row("peak of the group: fp32", "MiB", of("slow", "peak_mib"), None, AtMost(limit))
    yield Row("held at most: in memory", "MiB", of("memory", "held_mib"),
              of("theirs memory", "held_mib") if "theirs memory" in found else None)


def differing(found):
    """How many ranks have other losses or weights than in memory."""
    pairs = [("slow", "memory"), ("disk", "memory"), ("slow third", "memory"), ("slow bf16", "memory bf16"),
             ("slow bf16 third", "memory bf16"), ("slow two ranks", "memory two ranks")]
    return sum(mine != expected for name, reference in pairs for one in found[name]
               for mine, expected in zip(one.results(), found[reference][0].results(), strict=True))


def measure(setting, say):
    if has_deepspeed():
        say("DeepSpeed's operators are compiled")
        theirs(setting, "DISK", QUICK_SIZES)()
    found = alternate([Contender("disk", ours(setting, "DISK", limit=LIMIT)), Contender("memory", ours(setting, "memory"))],
                      2 * setting.rounds, say, warm_up=False)
    found |= alternate(list(contenders(setting)), setting.rounds, say, warm_up=False)
    count = differing(found)
    rows = [*time_rows(found), *byte_rows(found), *memory_rows(setting, found),
            Row("ranks whose losses or weights differ from those in memory by a bit", "", Summary(count, count), None, AtMost(0))]
    if "theirs slow" not in found:
        rows.append(Absent("DeepSpeed", f"there is no {DEEPSPEED.relative_to(FOLDER.parent)}"))
    return rows
