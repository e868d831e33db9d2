"""MiniLM (6 layers, 384 wide, trained weights) with a new head of eight classes, on sayings of eight topics.

- Batches have 16 rows of at most 128 tokens, padded to the longest: 2.66 times the tokens that are there. Both sides get the same
  tensors, `input_ids`, `attention_mask` and `labels`. Python runs `AutoModelForSequenceClassification` as it comes: padding computed,
  its default attention, no compiling.
- **Without padding** is what a careful user of Python writes (originals/unpadded_bert.py): the tokens of a batch in one row, attention for
  each of its rows. Transformers' own way, `DataCollatorWithFlattening`, needs FlashAttention, which has no kernels for a CPU. Of what
  computes the same batches this is the fastest: nested tensors, and padding for attention alone, take longer. Rows sorted by length are
  other batches; on an AMD EPYC of family 26 they took 1.1 times as long in fp32 and 0.96 times in bf16.
- **Compiled** is theirs as it comes, padded, by `torch.compile(model, dynamic=True)` after a pass over all batches.
- **Bound** is what the step's products of matrices take alone, one after the other, by the library that multiplies in ours
  (programs/products_bound.h): no step with these products is faster. Attention is computed in one kernel and is not in it.
- A step is forward, backward and the loss as a number; no optimizer. **bf16** is under autocast. Without dropout the losses of both
  sides are compared, and a difference ends the run.
- **A token** is one of 100 that SmolLM2-135M (fp32 safetensors) goes on with behind a prompt of 16, one row, the likeliest each time, by
  `generate()` with a cache on both sides. The texts are equal, or the run ends. What reading 538 MB of weights takes bounds it.
- **Opening** is `from_pretrained` until it returns, files in the page cache: then a forward may begin. Ours maps them.
- tools/fetch_models.py fetches MiniLM and SmolLM2, benchmarks/make_batches.py makes the batches, of the Debian package fortunes.
"""
import subprocess

from harness import FOLDER, BenchmarkError, Contender, Summary, alternate, run
from report import Absent, AtMost, Both, Row, Times, TimesBound
from suites.fsdp import has_fast_bf16
from suites.tokenizers import DATA

TITLE = "Models: ours and Transformers'"
PROGRAMS = ("model_steps", "generate_tokens")
PACKAGES = ("transformers",)
ROUNDS = 3
MODEL = DATA / "minilm"
THEIR_LIMIT_SECONDS = 900  # Compiling takes minutes.
KINDS = {"float32": "fp32", "bfloat16": "bf16"}
TARGETS = {("float32", "0", 1): Both(Times(2.7), TimesBound(1.1)), ("float32", "0", 2): TimesBound(1.25),
           ("bfloat16", "0", 1): Times(2.2), ("bfloat16", "0.1", 1): TimesBound(1.5)}  # By type, dropout and threads.


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


def ours(setting, name, *words, threads=1):
    return Contender("ours", lambda: run(setting, [*environment(setting, threads), setting.program(name), *words]).report())


def theirs(setting, name, *words, threads=1, called="theirs"):
    command = [*environment(setting, threads), setting.venv / "bin" / "python", setting.original(name), *words]
    return Contender(called, lambda: run(setting, command, THEIR_LIMIT_SECONDS).report())


def environment(setting, threads):
    return "env", f"OMP_NUM_THREADS={threads}", f"TORCHINDUCTOR_CACHE_DIR={setting.home / 'inductor'}"


def generated(setting, say):
    words = DATA / "smollm2", 5 if setting.quick else 100
    samples = alternate([ours(setting, "generate_tokens", *words), theirs(setting, "generate_tokens", *words)], setting.rounds, say)
    if len({report["checksum"] for side in samples.values() for report in side}) != 1:
        raise BenchmarkError("the generated texts differ")
    return samples


def check_losses(samples, kind):
    losses = {report["loss"] for side in samples.values() for report in side}
    if max(losses) - min(losses) > (1e-4 if kind == "bfloat16" else 1e-6):
        raise BenchmarkError(f"the losses differ: {losses}")


def milliseconds(reports, quantity):
    return Summary.of(quantity(report) * 1e3 for report in reports)


def step(reports):
    return milliseconds(reports, lambda report: report["pass_seconds"] / report["batches"])


def step_rows(setting, say, file, kind, dropout, threads):
    """Two rows, against theirs with and without padding, and the samples."""
    words = MODEL, file, kind, dropout
    samples = alternate([ours(setting, "model_steps", *words, threads=threads),
                         *(theirs(setting, "model_steps", *words, how, threads=threads, called=how) for how in ("padded", "unpadded"))],
                        setting.rounds, say)
    if dropout == "0":
        check_losses(samples, kind)
    products = milliseconds(samples["ours"], lambda report: report["products_seconds"] / report["batches"])
    target, found = TARGETS.get((kind, dropout, threads)), {name: step(reports) for name, reports in samples.items()}
    what = f"a step, {KINDS[kind]}, {'no dropout' if dropout == '0' else f'dropout {dropout}'}, {threads} thread{'s' if threads > 1 else ''}"
    return [Row(what, "ms", found["ours"], found["padded"], target, products.minimum),
            Row(f"{what}, against theirs without padding", "ms", found["ours"], found["unpadded"])], samples


def compiled_row(setting, say, file, kind):
    """Without warming up: to compile takes minutes, and each program warms up by itself."""
    what, words = f"a step, {KINDS[kind]}, no dropout, 1 thread, against theirs compiled", (MODEL, file, kind, "0")
    try:
        samples = alternate([ours(setting, "model_steps", *words), theirs(setting, "model_steps", *words, "compiled")], setting.rounds, say,
                            warm_up=False)
    except BenchmarkError as error:
        if "compiled" not in str(error):  # Ours failed.
            raise
        return Absent(what, f"torch.compile does not work on this machine: {str(error).splitlines()[-1][:160]}")
    check_losses(samples, kind)
    return Row(what, "ms", *(step(reports) for reports in samples.values()))


def row(what, samples, key, target):
    return Row(what, "ms", *(milliseconds(reports, lambda report: report[key]) for reports in samples.values()), target)


def measure(setting, say):
    file, rows = prepare(setting, say), []
    for kind in KINDS if has_fast_bf16() else ["float32"]:
        for threads in (1, 2):
            for dropout in ("0", "0.1"):
                found, samples = step_rows(setting, say, file, kind, dropout, threads)
                rows += found
                if (threads, dropout) == (1, "0"):
                    rows.append(compiled_row(setting, say, file, kind))
    opened = {name: samples[name] for name in ("ours", "padded")}
    generations = generated(setting, say)
    return rows + [row("a token of SmolLM2, fp32", generations, "token_seconds", Times(1.5)),
                   row("opening MiniLM", opened, "open_seconds", AtMost(60)),
                   row("opening SmolLM2", generations, "open_seconds", AtMost(150))]
