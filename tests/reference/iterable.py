#!/usr/bin/env python3
"""Writes what Accelerate's prepared loaders yield over an iterable dataset that every rank reads for
itself: iterable.txt; what is left of loaders after skip_first_batches: skip.txt; and orders drawn by one
generator epoch after epoch: random_sampler.txt; all beside this script. Usage: iterable.py [--seed N].

Notation as in loader.py: indices joined by ",", batches by ";", epochs by "/", ranks by "|", hashed.
"""
import argparse
import itertools

import torch
from accelerate.data_loader import prepare_data_loader, skip_first_batches
from accelerate.state import PartialState
from torch.utils.data import DataLoader, IterableDataset

from sampler import BATCH_SIZES, RANKS, SIZES, fnv1a, text_of, write


class Counting(IterableDataset):
    """0 … size - 1 in every epoch."""

    def __init__(self, size):
        self.size = size

    def __iter__(self):
        return iter(range(self.size))


class Epochs(Counting):
    """Knows its epoch: sample i of epoch e is i + 100 e."""

    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        return iter(range(100 * self.epoch, 100 * self.epoch + self.size))


class Drawn(Counting):
    """Draws its order from a generator."""

    def __init__(self, size):
        super().__init__(size)
        self.generator = torch.Generator()

    def __iter__(self):
        return iter(torch.randperm(self.size, generator=self.generator).tolist())


KINDS = {"counting": Counting, "epochs": Epochs, "drawn": Drawn}


def prepared(dataset, batch_size, ranks, rank, split, drop, **options):
    loader = DataLoader(dataset, batch_size=batch_size, drop_last=drop)
    return prepare_data_loader(loader, num_processes=ranks, process_index=rank, put_on_device=False,
                               split_batches=split, dispatch_batches=False, **options)


def passes(loader, count):
    return "/".join(text_of(batch.tolist() for batch in loader) for _ in range(count))


def stream_row(kind, size, batch_size, ranks, split, drop):
    key = f"{kind} {size} {batch_size} {ranks} {split:d} {drop:d}"
    if split and batch_size % ranks:
        return f"{key} refused"  # Upstream lets a batch size of 1 through, and then yields nothing.
    text = "|".join(passes(prepared(KINDS[kind](size), batch_size, ranks, rank, split, drop), 2)
                    for rank in range(ranks))
    return f"{key} {fnv1a(text)} {text.split('/')[0] if size <= 10 and ranks == 2 else '-'}"


def stream_rows():
    for kind, sizes in (("counting", SIZES), ("epochs", (0, 1, 9, 22)), ("drawn", (1, 9, 22))):
        # Upstream leaves the generator alone where one process reads the whole stream.
        ranks = RANKS[1:] if kind == "drawn" else RANKS
        for key in itertools.product(sizes, BATCH_SIZES, ranks, (False, True), (False, True)):
            yield stream_row(kind, *key)


def skip_row(kind, size, batch_size, ranks, skip):
    """The epoch that is resumed, then the next one of the whole loader."""
    texts = []
    for rank in range(ranks):
        dataset = range(size) if kind == "map" else Epochs(size)
        loader = prepared(dataset, batch_size, ranks, rank, False, False)
        rest = passes(skip_first_batches(loader, skip), 1)
        texts.append(rest)
    return f"{kind} {size} {batch_size} {ranks} {skip} [{'|'.join(texts)}]"


def random_sampler_row(size, batch_size, ranks, seed):
    texts = []
    for rank in range(ranks):
        loader = DataLoader(range(size), batch_size=batch_size, shuffle=True,
                            generator=torch.Generator().manual_seed(seed))
        loader = prepare_data_loader(loader, num_processes=ranks, process_index=rank, put_on_device=False,
                                     use_seedable_sampler=False)
        texts.append(passes(loader, 4))
    return f"{size} {batch_size} {ranks} {seed} {fnv1a('|'.join(texts))}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1234)
    seed = parser.parse_args().seed
    PartialState(cpu=True)
    version = f"torch {torch.__version__.split('+')[0]}, seed {seed}"
    write("iterable.txt", f"{version}: kind size batch_size ranks split drop hash-of-two-epochs first-epoch-or-dash",
          list(stream_rows()))
    keys = itertools.product(("map", "iterable"), (0, 1, 7, 16, 22), (1, 3, 4), (1, 2, 3), (0, 1, 2, 9))
    write("skip.txt", f"{version}: kind size batch_size ranks skipped [batches of each rank]",
          [skip_row(*key) for key in keys])
    write("random_sampler.txt", f"{version}: size batch_size ranks seed hash-of-four-epochs",
          [random_sampler_row(*key) for key in itertools.product((1, 2, 7, 22, 40), (1, 4), (2, 3), (0, seed))])


if __name__ == "__main__":
    main()
