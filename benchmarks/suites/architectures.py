"""Every architecture at MiniLM's size (6 layers, 384 wide, 30,522 words, random weights, no dropout), one thread, fp32.

- Encoders classify a row, decoders and encoder-decoders predict words. Ours and theirs open the same files and compute the same batches,
  and a loss or a generated token that differs ends the run. Python runs as it comes: padding computed, its default attention.
- **Padded**: 16 sayings of at most 128 tokens a batch, padded to the longest, as the suite `models` has them. **Whole**: the tokens of the
  same batches in rows of 128, without padding.
- A step is forward, backward and the loss as a number; no optimizer.
- **A token** is one of 48 that `generate()` appends to a prompt of eight, one row, the likeliest each time, with a cache on both sides.
"""
import subprocess

from harness import FOLDER, BenchmarkError, Summary, alternate
from report import Row, Times
from suites.models import ours, prepare, theirs

TITLE = "Architectures: ours and Transformers'"
PROGRAMS = ("architecture_steps",)
PACKAGES = ("transformers",)
ROUNDS = 3
ENCODERS = ["bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert", "modernbert", "deberta-v2", "albert", "mpnet"]
DECODERS = ["gpt2", "llama", "mistral", "qwen2", "qwen3", "smollm3", "olmo2", "granite", "phi3", "gemma2", "gemma3_text"]
HEADS = {kind: "sequence_classification" for kind in ENCODERS} | {kind: "causal_lm" for kind in DECODERS} | {"t5": "seq2seq_lm", "bart": "seq2seq_lm"}


def make_model(setting, kind, head):
    folder = setting.home / kind
    asked = subprocess.run([setting.venv / "bin" / "python", FOLDER / "make_model.py", folder, kind, head], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        raise BenchmarkError(asked.stderr.strip())
    return folder


def check_equal(kind, samples):
    reports = [report for side in samples.values() for report in side]
    for name in ("padded", "whole"):
        losses = [report[name]["loss"] for report in reports]
        if max(losses) - min(losses) > 1e-4 * max(losses):
            raise BenchmarkError(f"{kind}: the losses differ: {set(losses)}")
    if len({str(report.get("ids")) for report in reports}) != 1:
        raise BenchmarkError(f"{kind}: the generated tokens differ")


def rows_of(setting, say, kind, file):
    head = HEADS[kind]
    tokens = 0 if head == "sequence_classification" else 5 if setting.quick else 48
    words = make_model(setting, kind, head), head, file, tokens
    samples = alternate([ours(setting, "architecture_steps", *words), theirs(setting, "architecture_steps", *words)], setting.rounds, say,
                        warm_up=False)
    check_equal(kind, samples)

    def row(what, quantity, target):
        return Row(f"{kind}, {what}", "ms", *(Summary.of(quantity(report) * 1e3 for report in side) for side in samples.values()), target)
    rows = [row("padded", lambda report: report["padded"]["step_seconds"], Times(2.2)),
            row("whole", lambda report: report["whole"]["step_seconds"], Times(1.15))]
    return rows + ([row("a token", lambda report: report["token_seconds"], Times(1.5))] if tokens else [])


def measure(setting, say):
    file = prepare(setting, say)
    return [row for kind in HEADS for row in rows_of(setting, say, kind, file)]
