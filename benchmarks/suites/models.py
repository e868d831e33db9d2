"""MiniLM (6 layers, 384 wide, trained weights) with a new head of eight classes, on sayings of eight topics.

- Batches have 16 rows of at most 128 tokens, padded to the longest: 2.66 times the tokens that are there. Both sides get the same
  tensors, `input_ids`, `attention_mask` and `labels`. Python runs `AutoModelForSequenceClassification` as it comes: padding computed,
  its default attention, no compiling.
- A step is forward, backward and the loss as a number; no optimizer. **bf16** is under autocast. Without dropout the losses of both
  sides are compared, and a difference ends the run.
- **Opening** is `from_pretrained` until it returns, files in the page cache. Ours maps them.
- tools/fetch_models.py fetches MiniLM, benchmarks/make_batches.py makes the batches, of the Debian package fortunes.
"""
import subprocess

from harness import FOLDER, BenchmarkError, Contender, Summary, alternate, run
from report import AtMost, Row, Times
from suites.fsdp import has_fast_bf16
from suites.tokenizers import DATA

TITLE = "Models: ours and Transformers'"
PROGRAMS = ("model_steps",)
PACKAGES = ("transformers",)
ROUNDS = 3
MODEL = DATA / "minilm"


def prepare(setting, say):
    """Fetches the model and makes the batches; tells their file."""
    file = setting.home / "batches.safetensors"
    for script, *words in ([FOLDER.parent / "tools" / "fetch_models.py", DATA, "minilm"],
                           [FOLDER / "make_batches.py", MODEL / "tokenizer.json", file, "2" if setting.quick else "12"]):
        say(f"preparing by {script.name}")
        asked = subprocess.run([setting.venv / "bin" / "python", script, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if asked.returncode != 0:
            raise BenchmarkError(asked.stderr.strip() or f"{script.name} ended with {asked.returncode}")
    return file


def compared(setting, say, file, kind, dropout):
    words = [MODEL, file, kind, dropout]
    samples = alternate([Contender("ours", lambda: run(setting, [setting.program("model_steps"), *words]).report()),
                         Contender("theirs", lambda: run(setting, [setting.venv / "bin" / "python", setting.original("model_steps"), *words]).report())],
                        setting.rounds, say)
    losses = {report["loss"] for side in samples.values() for report in side}
    if dropout == "0" and max(losses) - min(losses) > (1e-4 if kind == "bfloat16" else 1e-6):
        raise BenchmarkError(f"the losses differ: {losses}")
    return samples


def row(what, samples, quantity, target=None):
    found = {side: Summary.of(quantity(report) for report in reports) for side, reports in samples.items()}
    return Row(what, "ms", found["ours"], found["theirs"], target)


def measure(setting, say):
    file, rows = prepare(setting, say), []
    kinds = {"float32": ("fp32", 2.7)} | ({"bfloat16": ("bf16", 2.2)} if has_fast_bf16() else {})
    for kind, (name, factor) in kinds.items():
        for dropout, of_config in (("0", "no dropout"), ("0.1", "dropout 0.1")):
            samples = compared(setting, say, file, kind, dropout)
            rows.append(row(f"a step, {name}, {of_config}", samples, lambda report: report["pass_seconds"] * 1e3 / report["batches"],
                            Times(factor) if dropout == "0" else None))
            if len(rows) == 1:
                opening = row("opening MiniLM", samples, lambda report: report["open_seconds"] * 1e3, AtMost(60))
    return rows + [opening]
