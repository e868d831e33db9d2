"""Training on one NVIDIA GPU, in bf16, with clipping and a fused AdamW on both sides.

- **Transformer**: 125 million weights, 12 layers of width 768, 8 rows of 1,024 tokens. MFU is the share of the device's
  dense bf16 peak that 6 operations a token and weight (of the embedding none), and attention's, come to; only for devices
  whose peak the suite knows.
- **Small model**: a million weights, 4 layers of width 128, 8 x 64 tokens. The GPU waits for launches: what is measured
  is the CPU. **Recorded**: forward, backward, clipping and optimizer replayed as a CUDA graph (`GraphedStep`).
- **torch.compile**: the forward and backward of theirs, for the small model in the mode `reduce-overhead`, which records
  CUDA graphs. Its rows are absent where it does not run: it compiles C, and so wants a compiler and Python's headers.
- **Feed**: an epoch of 60,000 images of 3 x 32 x 32 bytes, shuffled, in batches of 256, two workers, page-locked, each
  batch summed on the GPU. The start of workers is in it: threads here, processes there.
- **Checkpoint stall**: how long `save_state` keeps the training from going on, with 1 GiB of fp32 on the GPU; ours saves
  in the background, theirs cannot.
- **Memory** is the most that LibTorch's allocator had handed out on the GPU.
"""
import functools

from harness import BenchmarkError, Contender, Summary, alternate, run
from report import Absent, Row, Times

TITLE = "Training on a GPU: ours and Python Accelerate"
PROGRAMS = ("gpu_steps",)
ROUNDS = 3
LAUNCHES = False  # One process: the launcher need not be built.
ANY_TORCH = True  # Both sides use the same LibTorch, the one that the machine has.
DENSE_BF16_PEAK = {"H100 80GB HBM3": 989e12, "H200": 989e12, "A100": 312e12, "L40S": 362e12, "RTX 4090": 165e12}
VOCABULARY, WIDTH, LAYERS, ROW_TOKENS = 26_112, 768, 12, 1024  # As in programs/gpu_steps.cpp.
TOKENS = 8 * ROW_TOKENS
COMPILE_SECONDS = 600


@functools.cache  # Asking takes as long as importing torch.
def device(setting):
    """The name of the GPU that the originals see. Throws BenchmarkError if there is none."""
    code = "import torch; print(torch.cuda.get_device_name())"
    try:
        return run(setting, [setting.venv / "bin" / "python", "-c", code]).output.splitlines()[-1]
    except BenchmarkError as error:
        raise BenchmarkError(f"There is no GPU here that the torch of {setting.venv} can use.") from error


def facts(setting):
    return [("GPU", device(setting))]


def flops_a_step(weights):
    # Forward and backward; attention's two products, of which a causal mask needs half. An embedding is looked up.
    return TOKENS * (6 * (weights - VOCABULARY * WIDTH) + 6 * LAYERS * WIDTH * ROW_TOKENS)


def measure(setting, say):
    timed, fast = ((1, 1, 1), (4, 1, 2)) if setting.quick else ((10, 4, 10), (50, 5, 200))
    epochs, mib, saves = (1, 64, 2) if setting.quick else (3, 1024, 4)
    program, python = setting.program("gpu_steps"), [setting.venv / "bin" / "python", setting.original("gpu_steps")]

    def ours(what, *numbers):
        return Contender(f"ours {what}", lambda: run(setting, [program, what, *numbers]).report())

    def theirs(what, *numbers):
        return Contender(f"theirs {what}", lambda: run(setting, [*python, what, *numbers], COMPILE_SECONDS).report())

    compiled, absent = [theirs("transformer_compiled", *timed), theirs("small_compiled", *fast)], None
    try:
        say("torch.compile: does it run?")
        theirs("small_compiled", 1, 1, 1).run()
    except BenchmarkError as error:
        compiled, absent = [], str(error).splitlines()[-1][:120]
    reports = alternate([
        ours("transformer", *timed), theirs("transformer", *timed), ours("small", *fast), ours("graphed", *fast),
        theirs("small", *fast), *compiled,
        ours("feed", epochs, 2, 0), theirs("feed", epochs, 2, 0),
        ours("checkpoint", mib, saves, 0), theirs("checkpoint", mib, saves, 0)], setting.rounds, say)

    def step(name, blocks):
        return Summary.of(value * 1e3 / blocks[-1] for report in reports[name] for value in report["block_seconds"])

    def pooled(name, key, scale, first=0):
        return Summary.of(value * scale for report in reports[name] for value in report[key][first:])

    def memory(name):
        return Summary.of(report["device_peak_mib"] for report in reports[name])

    large, weights = step("ours transformer", timed), reports["ours transformer"][0]["weights"]
    rate = f"{TOKENS / large.median * 1e3:,.0f} tokens a second"
    peak = next((value for name, value in DENSE_BF16_PEAK.items() if name in device(setting)), None)
    if peak:
        rate += f", MFU {flops_a_step(weights) / (large.median / 1e3) / peak:.0%}"
    return [
        Row(f"transformer ({rate}) against Python's eager", "ms", large, step("theirs transformer", timed), Times(1)),
        Absent("transformer against torch.compile", absent) if absent else
        Row("transformer against torch.compile", "ms", large, step("theirs transformer_compiled", timed)),
        Row("memory of the transformer", "MiB", memory("ours transformer"), memory("theirs transformer")),
        Row("small model against Python's eager", "ms", step("ours small", fast), step("theirs small", fast), Times(1.5)),
        Row("small model, recorded, against Python's eager", "ms", step("ours graphed", fast),
            step("theirs small", fast), Times(3)),
        Absent("small model, recorded, against torch.compile", absent) if absent else
        Row("small model, recorded, against torch.compile", "ms", step("ours graphed", fast),
            step("theirs small_compiled", fast), Times(1)),
        Row("feed of an epoch", "ms", pooled("ours feed", "epoch_seconds", 1e3),
            pooled("theirs feed", "epoch_seconds", 1e3)),
        # The first save also takes the memory that later ones copy to.
        Row("checkpoint stall", "ms", pooled("ours checkpoint", "stall_seconds", 1e3, first=1),
            pooled("theirs checkpoint", "stall_seconds", 1e3, first=1))]
