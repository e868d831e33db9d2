#!/usr/bin/env python3
"""Writes what Accelerate's prepared loaders yield over a map-style dataset: loader.txt (the grid) and
loader_two_ranks.txt (a few cases, written out) beside this script. Usage: loader.py [--seed N].

Every rank's loader comes from `prepare_data_loader` and is iterated for two epochs; the notation is that
of sampler.py, epochs are joined by "/".
"""
import argparse
import itertools

import torch
from accelerate.data_loader import prepare_data_loader
from accelerate.state import GradientState, PartialState
from torch.utils.data import DataLoader

from sampler import BATCH_SIZES, SIZES, fnv1a, text_of, write

RANKS = (1, 2, 3)
EPOCHS = 2


def prepared(size, batch_size, ranks, rank, options):
    # RandomSampler refuses an empty dataset; without shuffle there is nothing to compare either.
    loader = DataLoader(range(size), batch_size=batch_size, shuffle=options["shuffle"],
                        drop_last=options["drop"])
    return prepare_data_loader(loader, num_processes=ranks, process_index=rank, put_on_device=False,
                               split_batches=options["split"], even_batches=options["even"],
                               use_seedable_sampler=True, data_seed=options["seed"])


def iterate(loader):
    """The batches of one epoch, the remainder, and whether the end was announced at the last batch only."""
    state = GradientState()
    batches, ends, remainder = [], [], "none"
    for batch in loader:
        batches.append(batch.tolist())
        ends.append(state.end_of_dataloader)
        remainder = state.remainder
    assert ends == [False] * (len(ends) - 1) + [True] * bool(ends)
    return batches, remainder


def observe(size, batch_size, ranks, options):
    """(len, total batch size, remainder, epochs) of each rank."""
    seen = []
    for rank in range(ranks):
        loader = prepared(size, batch_size, ranks, rank, options)
        epochs = [iterate(loader) for _ in range(EPOCHS)]
        seen.append((len(loader), loader.total_batch_size, epochs[0][1], [batches for batches, _ in epochs]))
    return seen


def grid_row(size, batch_size, ranks, options):
    key = f"{size} {batch_size} {ranks} " + " ".join(f"{options[k]:d}" for k in ("split", "even", "drop", "shuffle"))
    try:
        seen = observe(size, batch_size, ranks, options)
    except ValueError:
        return f"{key} refused"
    counts = ",".join(str(len(epochs[0])) for _, _, _, epochs in seen)
    remainders = ",".join(str(remainder) for _, _, remainder, _ in seen)
    text = "|".join("/".join(map(text_of, epochs)) for _, _, _, epochs in seen)
    lengths = ",".join(str(length) for length, _, _, _ in seen)
    return f"{key} {lengths} {counts} {seen[0][1]} {remainders} {fnv1a(text)}"


def grid_rows(seed):
    for size, batch_size, ranks, split, even, drop in itertools.product(
            SIZES, BATCH_SIZES, RANKS, (False, True), (True, False), (False, True)):
        for shuffle in (False, True) if size in (1, 2, 7, 22, 31, 40) else (False,):
            options = {"split": split, "even": even, "drop": drop, "shuffle": shuffle, "seed": seed}
            yield grid_row(size, batch_size, ranks, options)


def two_rank_rows():
    cases = {"default": {}, "even_batches=false": {"even": False}, "split_batches": {"split": True},
             "drop_last": {"drop": True}}
    for size, (name, changes) in itertools.product((22, 21, 20, 24, 2), cases.items()):
        options = {"split": False, "even": True, "drop": False, "shuffle": False, "seed": 0} | changes
        seen = observe(size, 4, 2, options)
        yield f"{size} {name} {seen[0][2]} [" + "|".join(text_of(epochs[0]) for *_, epochs in seen) + "]"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1234)
    seed = parser.parse_args().seed
    PartialState(cpu=True)
    version = f"torch {torch.__version__.split('+')[0]}, seed {seed}"
    write("loader_two_ranks.txt", f"{version}: batch size 4: size case remainder [batches of rank 0|rank 1]",
          list(two_rank_rows()))
    write("loader.txt",
          f"{version}: size batch_size ranks split even drop shuffle | len of each rank | batches of each rank"
          " | total batch size | remainder of each rank | hash", list(grid_rows(seed)))


if __name__ == "__main__":
    main()
