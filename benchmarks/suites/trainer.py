"""Fine-tuning MiniLM (6 layers, 384 wide, trained weights, a new head) on sayings of eight topics by the Trainer of each side.

- 3,640 rows of at most 128 tokens for training, 910 for testing; batches of 16, padded to the longest row. The program and the original
  take the same flags. AdamW, a linear schedule and clipping are the Trainer's defaults, dropout is the model's 0.1.
- **A step** is all that the Trainer does for it: the batch, forward, backward, clipping, AdamW, the schedule, callbacks. Both trainings
  are there at once and take turns: one trains {steps} steps while the other waits. Minimum and median are over turns. In one process each
  side has as many threads as LibTorch chooses; of two processes each has what its launcher gives it.
- Rows come in one order on both sides, which both report by the tokens of each turn; a difference ends the run. **By length** each side
  groups rows itself. Padding is a turn's tokens with padding, divided by those without.
- **bf16** is under autocast on both sides. **Compiled** is Python's `torch_compile=True` against ours as it is. **Without padding** is a
  BERT in Python that takes the tokens of a batch as one row (originals/unpadded_bert.py); the suite `models` says why this one.
- **Two processes**: ours shards (FULL_SHARD, a unit for each layer), theirs replicates by DDP over Gloo, for PyTorch's Trainer has no FSDP on
  a CPU. Sixteen rows a process.
- **Memory** is the greatest sum of the proportional set sizes of all ranks, looked at every 50 ms while thirty steps train; a round is a
  training of each side. Nothing else of either side runs then, so that no page is shared between them.
- **First losses**: both begin with the same weights, head included, without dropout, and log each of {losses} steps.
- tools/fetch_models.py fetches MiniLM; the texts are those of the Debian package fortunes.
"""
import contextlib
import dataclasses
import json
import os
import select
import subprocess
import tempfile
import time

from harness import FOLDER, BenchmarkError, Summary, run, stop, tail
from report import Absent, AtMost, Row, Share
from suites.fsdp import has_fast_bf16
from suites.tokenizers import DATA

TITLE = "Fine-tuning by the Trainer: ours and Transformers'"
PROGRAMS = ("trainer_steps",)
PACKAGES = ("transformers",)
ROUNDS = 3
MODEL = DATA / "minilm"
TURN_LIMIT_SECONDS, RUN_LIMIT_SECONDS, END_LIMIT_SECONDS = 900, 7200, 30  # Compiling takes minutes, a whole run of Python about nine.
FLAGS = ("--per_device_train_batch_size", 16, "--save_strategy", "no", "--report_to", "none")
IN_ORDER = ("--train_sampling_strategy", "sequential")
BY_LENGTH = ("--train_sampling_strategy", "group_by_length")
SHARDED = ("--use_fsdp", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP", "--fsdp_transformer_layer_cls_to_wrap", "BertLayer",
           "--fsdp_sync_module_states", "true")
STEPS, QUICK_STEPS = (10, 60), (1, 2)  # Steps to warm up, steps a turn.
AGAINST = ("", ", against theirs without padding", ", against theirs compiled")
MEMORY_STEPS, LOSSES = 30, 50
__doc__ = __doc__.format(steps=STEPS[1], losses=LOSSES)


class Training:
    """A training in slices: it waits for a line before each, and answers with a line of JSON when it has trained."""

    def __init__(self, setting, command):
        self.words = [str(word) for word in command]
        self.log, self.pending = tempfile.TemporaryFile(), b""
        self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        env=setting.environment(), start_new_session=True)

    def __enter__(self):
        try:
            self.ready = self.answer()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(END_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            stop(self.process)
        self.process.stdout.close()
        self.log.close()

    def begin(self):
        """Lets it train a slice."""
        try:
            self.process.stdin.write(b"go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.failed("ended early") from None

    def has_said(self, seconds):
        """Whether it says something within so many seconds."""
        return b"\n" in self.pending or bool(select.select([self.process.stdout], [], [], seconds)[0])

    def answer(self):
        """Its next line of JSON. Throws BenchmarkError when it ends or takes longer than TURN_LIMIT_SECONDS."""
        deadline = time.monotonic() + TURN_LIMIT_SECONDS
        while True:
            line, ended, rest = self.pending.partition(b"\n")
            if ended:
                self.pending = rest
                if line.startswith(b'{"'):
                    return json.loads(line)
                continue
            if not self.has_said(max(0, deadline - time.monotonic())):
                raise self.failed(f"took longer than {TURN_LIMIT_SECONDS} s")
            found = os.read(self.process.stdout.fileno(), 1 << 16)
            if not found:
                raise self.failed("ended early")
            self.pending += found

    def train(self):
        self.begin()
        return self.answer()

    def failed(self, how):
        self.log.seek(0)
        return BenchmarkError(f"`{' '.join(self.words)}` {how}; it printed:\n{tail(self.log.read().decode(errors='replace'))}")


@dataclasses.dataclass(frozen=True)
class Side:
    """How a side is started, on one process or on two."""
    name: str
    setting: object
    on_cpu: bool = True

    def command(self, model, *words, ranks=1):
        start, flags = self.start(ranks), ["--model", model, "--output_dir", self.setting.home / self.name, *FLAGS, *(["--use_cpu"] if self.on_cpu else [])]
        # Of threads the launchers and LibTorch decide.
        return ["env", "-u", "OMP_NUM_THREADS", f"TORCHINDUCTOR_CACHE_DIR={self.setting.home / 'inductor'}", *start, *flags, *words]

    def start(self, ranks):
        setting = self.setting
        if self.name == "theirs":
            original = setting.original("trainer_steps")
            return setting.torchrun(ranks, original) if ranks > 1 else [setting.venv / "bin" / "python", original]
        program = setting.program("trainer_steps")
        return [setting.accelerate, "launch", "--num_processes", ranks, *SHARDED, program] if ranks > 1 else [program]


@dataclasses.dataclass(frozen=True)
class Suite:
    setting: object
    say: object
    start: object  # A folder with the weights that both sides begin with.
    on_cpu: bool = True

    @property
    def steps(self):
        return QUICK_STEPS if self.setting.quick else STEPS

    def sides(self):
        return [Side(name, self.setting, self.on_cpu) for name in ("ours", "theirs")]

    def sliced(self, side, words, slices, steps, ranks):
        """A training of a side that waits for its first turn."""
        self.say(f"{side.name} warms up")
        return Training(self.setting, side.command(self.start, *words, "--logging_strategy", "no", "--warm_up_steps", self.steps[0],
                                                   "--slices", slices, "--slice_steps", steps, ranks=ranks))

    def turns(self, words, theirs_too=(), ranks=1):
        """What both report of each turn, by name. `theirs_too`: flags of theirs alone."""
        with contextlib.ExitStack() as running:
            trainings = {side.name: running.enter_context(self.sliced(
                side, [*words, *(theirs_too if side.name == "theirs" else ())], self.setting.rounds, self.steps[1], ranks))
                for side in self.sides()}
            samples = {name: [] for name in trainings}
            for number in range(1, self.setting.rounds + 1):
                for name, training in trainings.items():
                    self.say(f"turn {number} of {self.setting.rounds}: {name}")
                    samples[name].append(training.train())
            agree("rows", [training.ready for training in trainings.values()])
        return samples

    def step_row(self, what, target, *words, theirs_too=(), ranks=1):
        samples = self.turns(words, theirs_too, ranks)
        if IN_ORDER[1] in words:
            for pair in zip(*samples.values()):
                agree("real_tokens", pair)
                agree("padded_tokens", pair)
        else:
            what += ", padding " + " and ".join(f"{padding(reports):.2f}×" for reports in samples.values())
        found = [Summary.of(report["slice_seconds"] * 1e3 / self.steps[1] for report in reports) for reports in samples.values()]
        return Row(what, "ms", *found, target)

    def compiled_row(self, what, target, *words):
        try:
            return self.step_row(what, target, *IN_ORDER, *words, theirs_too=("--torch_compile",))
        except BenchmarkError as error:
            if "torch_compile" not in str(error):  # Ours failed, or they trained different rows.
                raise
            return Absent(what, "torch.compile does not work on this machine")

    def rows_of(self, name, padded, unpadded, compiled, *words):
        """Rows of a step in a type, with their targets: against theirs as it comes, without padding, compiled."""
        if name == "bf16" and not has_fast_bf16():
            return [Absent(f"a step, bf16{against}", "this CPU has no AVX512-BF16") for against in AGAINST]
        as_it_comes, without_padding, by_compiler = (f"a step, {name}{against}" for against in AGAINST)
        return [self.step_row(as_it_comes, padded, *IN_ORDER, *words),
                self.step_row(without_padding, unpadded, *IN_ORDER, *words, theirs_too=("--unpadded",)),
                self.compiled_row(by_compiler, compiled, *words)]

    def peak_mib(self, side, ranks):
        """The greatest memory of all ranks of a side together while it trains and nobody else does."""
        steps = self.steps[1] if self.setting.quick else MEMORY_STEPS
        with self.sliced(side, IN_ORDER, 1, steps, ranks) as training:
            self.say(f"memory of {side.name}")
            training.begin()
            peak = proportional_mib(training.ready["pids"])
            while not training.has_said(0.05):
                peak = max(peak, proportional_mib(training.ready["pids"]))
            training.answer()
        return peak

    def memory_row(self, what, ranks):
        peaks = [[self.peak_mib(side, ranks) for side in self.sides()] for _ in range(self.setting.rounds)]
        return Row(what, "MiB", *(Summary.of(of_side) for of_side in zip(*peaks)), Share(0.5))

    def runs(self, model, *words):
        """The reports of whole runs of both sides, one each, with their time."""
        reports = []
        for side in self.sides():
            self.say(f"a run of {side.name}")
            finished = run(self.setting, side.command(model, *words), RUN_LIMIT_SECONDS)
            reports.append(finished.report() | {"run_seconds": finished.seconds})
        agree("rows", reports)
        return reports

    def losses_row(self):
        steps = self.steps[1] if self.setting.quick else LOSSES
        ours, theirs = self.runs(self.start, *IN_ORDER, "--dropout", 0, "--max_steps", steps, "--logging_steps", 1)
        pairs = list(zip(ours["losses"], theirs["losses"], strict=True))
        largest = Summary.of([max(abs(one - other) for one, other in pairs) * 1e6])
        return Row(f"largest difference of the first {len(pairs)} losses", "millionths", largest, None, AtMost(1000))


def agree(key, reports):
    """Throws BenchmarkError unless all reports have one value of `key`."""
    if len({json.dumps(report[key]) for report in reports}) != 1:
        raise BenchmarkError(f"the two sides differ in {key}: {', '.join(str(report[key]) for report in reports)}")


def padding(reports):
    return sum(report["padded_tokens"] for report in reports) / sum(report["real_tokens"] for report in reports)


def proportional_mib(pids):
    """The memory of some processes; what several have mapped is divided by their number."""
    kib = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            kib += next((int(line.split()[1]) for line in file if line.startswith("Pss:")), 0)
    return kib / 1024


def prepare(setting, say):
    """Fetches the model, gives it a head, and tells the folder of the outcome."""
    start, python = setting.home / "start", setting.venv / "bin" / "python"
    for script, *words in ([FOLDER.parent / "tools" / "fetch_models.py", DATA, "minilm"],
                           [setting.original("trainer_steps"), "--model", MODEL, "--output_dir", setting.home / "theirs", "--save_to", start]):
        say(f"preparing by {script.name}")
        # With the caller's environment: pip may need its proxies.
        asked = subprocess.run([python, script, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if asked.returncode != 0:
            raise BenchmarkError(tail(asked.stderr.strip()) if asked.stderr.strip() else f"{script.name} ended with {asked.returncode}")
    return start


def measure(setting, say):
    suite = Suite(setting, say, prepare(setting, say))
    return [*suite.rows_of("fp32", Share(0.18), Share(0.45), Share(1)),
            *suite.rows_of("bf16", Share(0.27), None, None, "--bf16"),
            suite.step_row("a step, fp32, by length", None, *BY_LENGTH),
            suite.step_row("a step on two processes, our FSDP against their DDP", None, *IN_ORDER, ranks=2),
            suite.memory_row("memory of one process", 1),
            suite.memory_row("memory of two processes, our FSDP against their DDP", 2),
            suite.losses_row()]
