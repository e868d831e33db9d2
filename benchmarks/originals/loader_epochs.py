"""Goes through 60,000 images of 28×28 bytes in memory, shuffled, in batches of 64, and reports how long each epoch
took.

usage: loader_epochs.py EPOCHS WORKERS KIND    KIND: 0 DataLoader, 1 prepared by Accelerate, 2 whole batches by index
"""
import sys
import time

import torch
from accelerate import Accelerator
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

import measure

SAMPLES = 60_000
BATCH_SIZE = 64


class ByIndices(TensorDataset):
    """Gives a whole batch for a list of indices."""

    def __getitem__(self, indices):
        rows = torch.tensor(indices)
        return tuple(tensor.index_select(0, rows) for tensor in self.tensors)


def loader_of(workers, kind):
    images = (ByIndices if kind == 2 else TensorDataset)(
        torch.randint(256, (SAMPLES, 1, 28, 28), dtype=torch.uint8), torch.randint(10, (SAMPLES,)))
    if kind == 2:  # A list of indices is one "sample".
        sampler = BatchSampler(RandomSampler(images), batch_size=BATCH_SIZE, drop_last=False)
        return DataLoader(images, sampler=sampler, batch_size=None, num_workers=workers)
    loader = DataLoader(images, batch_size=BATCH_SIZE, shuffle=True, num_workers=workers)
    return Accelerator(cpu=True).prepare(loader) if kind == 1 else loader


def main(epochs, workers, kind):
    torch.manual_seed(42)
    loader = loader_of(workers, kind)
    seconds = []
    for _ in range(epochs):
        start = time.perf_counter()
        samples = sum(len(labels) for _, labels in loader)
        seconds.append(time.perf_counter() - start)
        assert samples == SAMPLES
    measure.report(epoch_seconds=seconds, samples=SAMPLES)


main(*map(int, sys.argv[1:]))
