"""Training on one NVIDIA GPU, in bf16 under autocast, with clipping and a fused AdamW on both sides.

- **Transformer**: 125 million weights, 12 layers of width 768, 8 rows of 1,024 tokens. **Large transformer**: 2.6 billion weights, 31
  layers of width 2,560, 4 rows of 1,024 tokens; 16 bytes a weight, so for devices of 70 GiB and more. Both are modules of
  LibTorch and of PyTorch that add a bias within the product (`torch::linear`; `torch::nn::Linear` of C++ would add it in a pass of
  its own). MFU is the share of the device's dense bf16 peak that 6 operations a token and weight (of the embedding
  none), and attention's, come to; only for devices whose peak the suite knows.
- **BERT-base, GPT-2**: our models and those of Transformers, opened from the same folder of random weights, with dropout 0.1. BERT has a
  head of eight classes, 32 rows of 16 to 127 tokens, padded to 128: 1.65 times the tokens that are there, which only theirs computes.
  GPT-2 has 8 rows of 1,024 tokens. The losses before training agree, or the row is absent.
- **Trainer**: a model of MiniLM's shape (6 layers, 384 wide), random weights, fine-tuned on sayings of eight topics as in the suite
  `trainer`, in batches of 16, by both Trainers in turns.
- **Small model**: a million weights, 4 layers of width 128, 8 x 64 tokens. The GPU waits for launches: what is measured
  is the CPU. **Recorded**: forward, backward, clipping and optimizer replayed as a CUDA graph (`GraphedStep`).
- **torch.compile**: the forward and backward of theirs, in the mode `reduce-overhead`, which records
  CUDA graphs. Its row is absent where it does not run: it compiles C, and so wants a compiler and Python's headers.
- **Feed**: an epoch of 60,000 images of 3 x 32 x 32 bytes, shuffled, in batches of 256, two workers, page-locked, each
  batch summed on the GPU. The start of workers is in it: threads here, processes there. **Training on images**: a small
  convolutional net on the same batches of our loader, or on one batch that stays on the GPU, an epoch of each in turn.
- **Checkpoint stall**: how long `save_state` keeps the training from going on, with 1 GiB of fp32 on the GPU; ours saves
  in the background, theirs cannot.
- **Memory** is the most that LibTorch's allocator had handed out on the GPU.
- Programs run in turns; each warms up by itself.
"""
import dataclasses
import functools
import pathlib

from harness import BenchmarkError, Contender, Summary, alternate, run
from report import Absent, Row, Times
from suites import trainer

TITLE = "Training on a GPU: ours and Python Accelerate"
PROGRAMS = ("gpu_steps", "gpu_models", "trainer_steps")
PACKAGES = ("transformers",)
ROUNDS = 3
LAUNCHES = False  # One process: the launcher need not be built.
ANY_TORCH = True  # Both sides use the same LibTorch, the one that the machine has.
DENSE_BF16_PEAK = {"H100 80GB HBM3": 989e12, "H200": 989e12, "A100": 312e12, "L40S": 362e12, "RTX 4090": 165e12}
SHAPES = {"transformer": (26_112, 768, 12, 8), "large": (32_000, 2560, 31, 4)}  # Vocabulary, width, layers, rows: programs/gpu_steps.cpp.
ROW_TOKENS = 1024
LARGE_GIB = 70
TURNS = 5
FED_EPOCHS = 10
LIMIT_SECONDS = 150  # Compiling takes a minute.
TEXTS = pathlib.Path("/usr/share/games/fortunes")


@functools.cache  # Asking takes as long as importing torch.
def device(setting):
    """The name of the GPU that the originals see, and its memory in GiB. Throws BenchmarkError if there is none."""
    code = "import torch; p = torch.cuda.get_device_properties(0); print(p.name, p.total_memory >> 30, sep='|')"
    try:
        name, _, gib = run(setting, [setting.venv / "bin" / "python", "-c", code]).output.splitlines()[-1].partition("|")
    except BenchmarkError as error:
        raise BenchmarkError(f"There is no GPU here that the torch of {setting.venv} can use.") from error
    return name, int(gib or 0)


def facts(setting):
    name, gib = device(setting)
    return [("GPU", f"{name}, {gib} GiB")]


def flops_a_step(what, weights):
    # Forward and backward; attention's two products, of which a causal mask needs half. An embedding is looked up.
    vocabulary, width, layers, rows = SHAPES[what]
    return rows * ROW_TOKENS * (6 * (weights - vocabulary * width) + 6 * layers * width * ROW_TOKENS)


def speed(setting, what, report, milliseconds):
    rate = f"{SHAPES[what][3] * ROW_TOKENS / milliseconds * 1e3:,.0f} tokens a second"
    peak = next((value for name, value in DENSE_BF16_PEAK.items() if name in device(setting)[0]), None)
    return rate + (f", MFU {flops_a_step(what, report['weights']) / (milliseconds / 1e3) / peak:.0%}" if peak else "")


class Sides:
    """Contenders of both sides by what they measure, and their reports once they ran."""

    def __init__(self, setting):
        self.setting, self.contenders, self.timed = setting, [], {}

    def add(self, name, program, *words, blocks=None, sides=("ours", "theirs")):
        setting, self.timed[name] = self.setting, blocks
        commands = {"ours": [setting.program(program)], "theirs": [setting.venv / "bin" / "python", setting.original(program)]}
        for side in sides:
            command = [*commands[side], *words, *(blocks or ())]
            self.contenders.append(Contender(f"{side} {name}", functools.partial(self.report_of, command)))

    def report_of(self, command):
        """Its report, or why it failed: a GPU may be lent for minutes, in which the others run."""
        try:
            return run(self.setting, command, LIMIT_SECONDS).report()
        except BenchmarkError as error:
            return error

    def run(self, say):
        self.samples = alternate(self.contenders, self.setting.rounds, say, warm_up=False)

    def reports(self, side, name):
        """Throws what one of them failed with."""
        for report in self.samples[f"{side} {name}"]:
            if isinstance(report, BenchmarkError):
                raise report
        return self.samples[f"{side} {name}"]

    def step(self, side, name):
        """Milliseconds a step."""
        return Summary.of(value * 1e3 / self.timed[name][-1]
                          for report in self.reports(side, name) for value in report["block_seconds"])

    def steps(self, name):
        return self.step("ours", name), self.step("theirs", name)

    def pooled(self, name, key, first=0, sides=("ours", "theirs")):
        """Milliseconds of all reports, without the `first` of each."""
        return [Summary.of(value * 1e3 for report in self.reports(side, name) for value in report[key][first:])
                for side in sides]

    def memory(self, name):
        return [Summary.of(report["device_peak_mib"] for report in self.reports(side, name)) for side in ("ours", "theirs")]

    def check_losses(self, name):
        losses = [report["first_loss"] for side in ("ours", "theirs") for report in self.reports(side, name)]
        if max(losses) - min(losses) > 1e-2 * abs(losses[0]):
            raise BenchmarkError(f"the losses of {name} differ: {losses}")


def make_models(setting, say):
    """Folders of models with random weights, by name."""
    say("making models")
    run(setting, [setting.venv / "bin" / "python", setting.original("gpu_models"), "--make", setting.home, trainer.MODEL])
    return {name: setting.home / name for name in ("bert", "gpt2", "minilm")}


def row(what, make):
    """What `make` gives, or that it is absent and why."""
    try:
        return make()
    except BenchmarkError as error:
        return Absent(what, str(error).splitlines()[-1][:160])


def trainer_row(setting, say, folder, what, *flags):
    if not (trainer.MODEL / "tokenizer.json").exists() or not TEXTS.is_dir():
        return Absent(what, f"{trainer.MODEL} (tools/fetch_models.py) or {TEXTS} (package fortunes) is missing")
    turns = dataclasses.replace(setting, rounds=1 if setting.quick else TURNS)  # Starting takes longer than a turn.
    return trainer.Suite(turns, say, folder, on_cpu=False).step_row(what, Times(2), *trainer.IN_ORDER, *flags)


def measure(setting, say):
    middle, fast, large = ((1, 1, 1), (4, 1, 2), (1, 1, 1)) if setting.quick else ((10, 4, 10), (50, 5, 200), (4, 3, 4))
    epochs, mib, saves = (1, 64, 2) if setting.quick else (3, 1024, 4)
    folders, sides = make_models(setting, say), Sides(setting)
    is_large = device(setting)[1] >= LARGE_GIB
    sides.add("transformer", "gpu_steps", "transformer", blocks=middle)
    for name in ("bert", "gpt2"):
        sides.add(name, "gpu_models", folders[name], blocks=middle)
    sides.add("small", "gpu_steps", "small", blocks=fast)
    sides.add("graphed", "gpu_steps", "graphed", blocks=fast, sides=("ours",))
    sides.add("feed", "gpu_steps", "feed", epochs, 2, 0)
    sides.add("fed", "gpu_steps", "fed", FED_EPOCHS if not setting.quick else 1, 2, 0, sides=("ours",))
    sides.add("checkpoint", "gpu_steps", "checkpoint", mib, saves, 0)
    if is_large:
        sides.add("large", "gpu_steps", "large", blocks=large)
    sides.add("small_compiled", "gpu_steps", "small_compiled", blocks=fast, sides=("theirs",))
    sides.run(say)

    def steps(what, name, target, against=None):
        return row(what, lambda: Row(what, "ms", sides.step("ours", name), sides.step("theirs", against or name), target))

    def speed_of(name):
        return row(name, lambda: Row(f"{name}: {speed(setting, name, sides.reports('ours', name)[0], sides.step('ours', name).median)}",
                                     "ms", sides.step("ours", name)))

    def memory(name):
        what = f"memory of {name}"
        return row(what, lambda: Row(what, "MiB", *sides.memory(name)))

    def checked(name, what):
        def make():
            sides.check_losses(name)
            return Row(what, "ms", *sides.steps(name), Times(1))
        return row(what, make)

    def pooled(what, name, key, first=0):
        return row(what, lambda: Row(what, "ms", *sides.pooled(name, key, first)))

    def feeding(what):
        return row(what, lambda: Row(what, "ms", *(sides.pooled("fed", key, sides=("ours",))[0] for key in ("fed_seconds", "unfed_seconds")),
                                     Times(0.95)))

    rows = [
        steps("transformer against Python's eager", "transformer", Times(1)), speed_of("transformer"), memory("transformer"),
        *([steps("large transformer", "large", Times(1)), speed_of("large"), memory("large")] if is_large
          else [Absent("large transformer", f"the device has less than {LARGE_GIB} GiB")]),
        checked("bert", "BERT-base"), memory("bert"), checked("gpt2", "GPT-2"), memory("gpt2"),
        steps("small model against Python's eager", "small", Times(1.5)),
        steps("small model, recorded, against Python's eager", "graphed", Times(3), "small"),
        steps("small model, recorded, against torch.compile", "graphed", Times(1), "small_compiled"),
        pooled("feed of an epoch", "feed", "epoch_seconds"),
        feeding("an epoch of training on images, ours, against ours with one batch all along"),
        # The first save also takes the memory that later ones copy to.
        pooled("checkpoint stall", "checkpoint", "stall_seconds", first=1)]
    for what, flags in (("a step of the Trainer, bf16", ["--bf16"]), ("a step of the Trainer, fp32", [])):
        rows.append(row(what, lambda: trainer_row(setting, say, folders["minilm"], what, *flags)))
    return rows
