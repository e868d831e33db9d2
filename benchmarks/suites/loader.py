"""Reading 60,000 images of 28×28 bytes (the shape of Fashion-MNIST) with their labels from memory: batches of 64,
shuffled anew every epoch, the loop does nothing.

- Nanoseconds a sample, over whole epochs, the permutation and the start of workers included.
- **DataLoader** is `torch.utils.data.DataLoader(TensorDataset(…), batch_size=64, shuffle=True)`; the target is five
  times the speed of its best, which is that without workers. **Prepared** is the same through Python Accelerate.
- **Whole batches by index** spares the Python loader its samples and its collating: a `BatchSampler` for a sampler,
  and a dataset that answers 64 indices with one `index_select` a tensor. Few write it so.
- Ours prepared is a loader that `Accelerator::prepare` returned, for one process.
"""
from harness import Contender, Summary, alternate, run
from report import Row, Times

TITLE = "Reading batches: ours and the originals"
PROGRAMS = ("loader_epochs",)
ROUNDS = 6
PLAIN, PREPARED, BY_INDEX = 0, 1, 2


def epochs(setting):
    return 2 if setting.quick else 5


def nanoseconds(setting, command):
    """A run: nanoseconds a sample, of each of its epochs."""
    def sample():
        report = run(setting, command).report()
        return [seconds * 1e9 / report["samples"] for seconds in report["epoch_seconds"]]
    return sample


def contenders(setting, workers):
    def ours(prepared):
        return nanoseconds(setting, [setting.program("loader_epochs"), epochs(setting), workers, prepared])

    def theirs(kind):
        return nanoseconds(setting, [setting.venv / "bin" / "python", setting.original("loader_epochs"),
                                     epochs(setting), workers, kind])
    return [Contender("ours", ours(0)), Contender("ours prepared", ours(1)), Contender("theirs", theirs(PLAIN)),
            Contender("theirs prepared", theirs(PREPARED)), Contender("theirs by index", theirs(BY_INDEX))]


def rows(setting, workers, say):
    samples = alternate(contenders(setting, workers), setting.rounds, say)
    seen = {name: Summary.of(value for run in runs for value in run) for name, runs in samples.items()}
    how = f"{workers} workers" if workers else "no workers"
    target = None if workers else Times(5)
    return [Row(f"a sample, DataLoader, {how}", "ns", seen["ours"], seen["theirs"], target),
            Row(f"a sample, prepared, {how}", "ns", seen["ours prepared"], seen["theirs prepared"], target),
            Row(f"a sample, whole batches by index, {how}", "ns", seen["ours"], seen["theirs by index"])]


def measure(setting, say):
    return [row for workers in (0, 2) for row in rows(setting, workers, say)]
