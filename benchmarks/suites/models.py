"""MiniLM (6 layers, 384 wide, trained weights) with a new head of eight classes, on sayings of eight topics.

- Batches have 16 rows of at most 128 tokens, padded to the longest: 2.66 times the tokens that are there. Both sides get the same
  tensors, `input_ids`, `attention_mask` and `labels`. Python runs `AutoModelForSequenceClassification` as it comes: padding computed,
  its default attention, no compiling.
- A step is forward, backward and the loss as a number; no optimizer. **bf16** is under autocast. Without dropout the losses of both
  sides are compared, and a difference ends the run.
- **A token** is one of 100 that SmolLM2-135M (fp32 safetensors) goes on with behind a prompt of 16, one row, the likeliest each time, by
  `generate()` with a cache on both sides. The texts are equal, or the run ends. What reading 538 MB of weights takes bounds it.
- **Opening** is `from_pretrained` until it returns, files in the page cache: then a forward may begin. Ours maps them.
- tools/fetch_models.py fetches MiniLM and SmolLM2, benchmarks/make_batches.py makes the batches, of the Debian package fortunes.
"""
import subprocess

from harness import FOLDER, BenchmarkError, Contender, Summary, alternate, run
from report import AtMost, Row, Times
from suites.fsdp import has_fast_bf16
from suites.tokenizers import DATA

TITLE = "Models: ours and Transformers'"
PROGRAMS = ("model_steps", "generate_tokens")
PACKAGES = ("transformers",)
ROUNDS = 3
MODEL = DATA / "minilm"


def prepare(setting, say):
    """Fetches the model and makes the batches; tells their file."""
    file = setting.home / "batches.safetensors"
    for script, *words in ([FOLDER.parent / "tools" / "fetch_models.py", DATA, "minilm", "smollm2"],
                           [FOLDER / "make_batches.py", MODEL / "tokenizer.json", file, "2" if setting.quick else "12"]):
        say(f"preparing by {script.name}")
        asked = subprocess.run([setting.venv / "bin" / "python", script, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if asked.returncode != 0:
            raise BenchmarkError(asked.stderr.strip() or f"{script.name} ended with {asked.returncode}")
    return file


def both(setting, say, name, *words):
    return alternate([Contender("ours", lambda: run(setting, [setting.program(name), *words]).report()),
                      Contender("theirs", lambda: run(setting, [setting.venv / "bin" / "python", setting.original(name), *words]).report())],
                     setting.rounds, say)


def generated(setting, say):
    samples = both(setting, say, "generate_tokens", DATA / "smollm2", 5 if setting.quick else 100)
    if len({report["checksum"] for side in samples.values() for report in side}) != 1:
        raise BenchmarkError("the generated texts differ")
    return samples


def compared(setting, say, file, kind, dropout):
    samples = both(setting, say, "model_steps", MODEL, file, kind, dropout)
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
    samples = generated(setting, say)
    return rows + [row("a token of SmolLM2, fp32", samples, lambda report: report["token_seconds"] * 1e3, Times(1.5)), opening,
                   row("opening SmolLM2", samples, lambda report: report["open_seconds"] * 1e3, AtMost(150))]
