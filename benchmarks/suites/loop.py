"""A whole training step on one process, one thread: two micro-batches of 64, clipping, a linear schedule, AdamW.

- **Against LibTorch alone**: both loops take turns in one process, step by step. Theirs is written by hand on the
  same tensors: a permutation, `index_select`, `clip_grad_norm_` of LibTorch, a rate set in the parameter groups,
  `torch::optim::AdamW`. Ours runs the fused kernel, which is part of what it is: the target is that everything
  around it costs no more than 2 %.
- **Against Python Accelerate**: the same step in Python (`TensorDataset`, `DataLoader`, `LambdaLR`), in a process of
  its own.
- **Transformer**: `torch::nn::TransformerEncoder` as it is, six layers of width 512 on 4 x 64 tokens, fp32, prepared, against
  forward, backward and `torch::optim::AdamW` of LibTorch, in turns in one process. The weights at the start are the same, and so are
  the first {losses} losses up to rounding, or the run ends. The target holds where oneDNN multiplies in ours.
"""
import machine
from harness import BenchmarkError, Contender, Summary, alternate, run
from report import Row, Share, Times

TITLE = "A whole training step: ours and the originals"
PROGRAMS = ("loop_steps", "interleaved_steps")
ROUNDS = 4
LOSSES, LARGEST_DIFFERENCE = 10, 1e-4  # Relative: AdamW makes much of small differences.
__doc__ = __doc__.format(losses=LOSSES)


def sizes(setting):
    """(warm-up steps, steps)"""
    return (2, 4) if setting.quick else (30, 150)


def pooled(reports, key):
    return Summary.of(value * 1e3 for report in reports for value in report[key])


def transformer_row(setting, say):
    command = [setting.program("interleaved_steps"), "transformer", *((1, 2) if setting.quick else (4, 30))]
    reports, = alternate([Contender("both transformers in turns", lambda: run(setting, command).report())], setting.rounds, say).values()
    for report in reports:
        for ours, theirs in list(zip(report["accelerated_losses"], report["plain_losses"], strict=True))[:LOSSES]:
            if abs(ours - theirs) > LARGEST_DIFFERENCE * abs(theirs):
                raise BenchmarkError(f"the losses of the transformer differ: {ours}, {theirs}")
    return Row("step of a transformer of torch::nn against LibTorch alone", "ms", pooled(reports, "accelerated_seconds"),
               pooled(reports, "plain_seconds"), Share(0.6) if machine.matrix_library(setting) == "onednn" else None)


def measure(setting, say):
    ours_command = [setting.program("loop_steps"), *sizes(setting)]
    theirs_command = [setting.venv / "bin" / "python", setting.original("loop_steps"), *sizes(setting)]
    ours, theirs = alternate([
        Contender("both C++ loops in turns", lambda: run(setting, ours_command).report()),
        Contender("Python Accelerate", lambda: run(setting, theirs_command).report())], setting.rounds, say).values()
    accelerated = pooled(ours, "accelerated_seconds")
    return [Row("step against LibTorch alone", "ms", accelerated, pooled(ours, "plain_seconds"),
                Times(0.98, medians_too=True)),
            Row("step against Python Accelerate", "ms", accelerated, pooled(theirs, "step_seconds"), None),
            transformer_row(setting, say)]
