"""A whole training step on one process, one thread: two micro-batches of 64, clipping, a linear schedule, AdamW.

- **Against LibTorch alone**: both loops take turns in one process, step by step. Theirs is written by hand on the
  same tensors: a permutation, `index_select`, `clip_grad_norm_` of LibTorch, a rate set in the parameter groups,
  `torch::optim::AdamW`. Ours runs the fused kernel, which is part of what it is: the target is that everything
  around it costs no more than 2 %.
- **Against Python Accelerate**: the same step in Python (`TensorDataset`, `DataLoader`, `LambdaLR`), in a process of
  its own.
"""
from harness import Contender, Summary, alternate, run
from report import Row, Times

TITLE = "A whole training step: ours and the originals"
PROGRAMS = ("loop_steps",)
ROUNDS = 4


def sizes(setting):
    """(warm-up steps, steps)"""
    return (2, 4) if setting.quick else (30, 150)


def pooled(reports, key):
    return Summary.of(value * 1e3 for report in reports for value in report[key])


def measure(setting, say):
    ours_command = [setting.program("loop_steps"), *sizes(setting)]
    theirs_command = [setting.venv / "bin" / "python", setting.original("loop_steps"), *sizes(setting)]
    ours, theirs = alternate([
        Contender("both C++ loops in turns", lambda: run(setting, ours_command).report()),
        Contender("Python Accelerate", lambda: run(setting, theirs_command).report())], setting.rounds, say).values()
    accelerated = pooled(ours, "accelerated_seconds")
    return [Row("step against LibTorch alone", "ms", accelerated, pooled(ours, "plain_seconds"),
                Times(0.98, medians_too=True)),
            Row("step against Python Accelerate", "ms", accelerated, pooled(theirs, "step_seconds"), None)]
