"""Training the convolutional network of examples/cv on Fashion-MNIST: batch 32, Adam, one thread a rank.

- **Step against LibTorch alone**: both loops take turns in one process, step by step, with a network each and the
  same initial weights; a step fetches its batch too. Theirs is the plain LibTorch loop. Minimum and median are over
  all steps, and the target holds for both. In one process the plain loop too gains from the heap that an
  `Accelerator` keeps (accelerate/base/heap.h): what remains is the overhead of the calls.
- **Step against Python Accelerate**: milliseconds a step, over blocks of steps, because ranks that wait for each
  other borrow time from neighbouring steps. Ours under `accelerate launch`, theirs under `torchrun`, over Gloo, with
  the same network, optimizer and images (`TensorDataset`, `DataLoader(batch_size=32, shuffle=True)`).
- **Memory**: of rank 0 of two after the last step; resident is VmRSS, peak is VmHWM, which includes unpacking the
  images.
"""
from harness import Contender, Summary, alternate, run
from report import Row, Times

TITLE = "Training a convolutional network: ours and the originals"
PROGRAMS = ("train_steps", "interleaved_steps")
ROUNDS = 6


def sizes(setting):
    """(warm-up steps, blocks, steps a block)"""
    return (5, 2, 5) if setting.quick else (50, 20, 25)


def reported(setting, command):
    return lambda: run(setting, command()).report()


def pooled(reports, key, scale=1.0):
    """All values of the lists called `key`, of every run."""
    return Summary.of(value * scale for report in reports for value in report[key])


def against_libtorch(setting, say):
    """A row: one rank against the plain loop, interleaved."""
    warm_up, blocks, steps = sizes(setting)
    command = [setting.program("interleaved_steps"), "images", warm_up, blocks * steps]
    reports, = alternate([Contender("both loops in turns", reported(setting, lambda: command))], setting.rounds,
                         say).values()
    return Row("step on 1 rank against LibTorch alone", "ms", pooled(reports, "accelerated_seconds", 1e3),
               pooled(reports, "plain_seconds", 1e3), Times(0.98, medians_too=True))


def against_python(setting, ranks, say):
    """Reports of ours and theirs on `ranks` ranks."""
    program, original = setting.program("train_steps"), setting.original("train_steps")
    samples = alternate([
        Contender(f"ours on {ranks}",
                  reported(setting, lambda: setting.launch(ranks, program, *sizes(setting)))),
        Contender(f"theirs on {ranks}",
                  reported(setting, lambda: setting.torchrun(ranks, original, *sizes(setting))))],
        setting.rounds, say)
    return samples.values()


def steps_row(setting, ranks, ours, theirs, target):
    scale = 1e3 / sizes(setting)[2]
    return Row(f"step on {ranks} rank{'s' if ranks > 1 else ''} against Python Accelerate", "ms",
               pooled(ours, "block_seconds", scale), pooled(theirs, "block_seconds", scale), target)


def memory_row(what, key, ours, theirs):
    megabytes = [Summary.of(report[key] * 1024 / 1e6 for report in reports) for reports in (ours, theirs)]
    return Row(f"{what} memory of a rank while training", "MB", *megabytes, Times(2))


def measure(setting, say):
    one = against_python(setting, 1, say)
    two = against_python(setting, 2, say)
    return [against_libtorch(setting, say), steps_row(setting, 1, *one, None), steps_row(setting, 2, *two, Times(1.1)),
            memory_row("resident", "resident_kib", *two), memory_row("peak", "peak_kib", *two)]
