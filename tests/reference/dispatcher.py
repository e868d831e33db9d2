#!/usr/bin/env python3
"""Writes what Accelerate's DataLoaderDispatcher gives two processes, in real runs over Gloo:
dispatcher.txt beside this script. Usage: dispatcher.py [--seed N] (nothing here is random).

A row has the batches of both ranks (notation of sampler.py, ranks joined by "|"), hashed, and the
remainder at the last batch; end_of_dataloader is checked to be set with the last batch and not before.
"""
import argparse
import itertools
import os
import socket

import torch
import torch.multiprocessing
from accelerate.data_loader import prepare_data_loader, skip_first_batches
from accelerate.state import GradientState, PartialState
from accelerate.utils import gather_object
from torch.utils.data import DataLoader

from iterable import Counting
from sampler import fnv1a, text_of, write

RANKS = 2
SIZES = tuple(range(1, 25))
BATCH_SIZES = (1, 2, 3, 4, 6)


def iterate(loader):
    state = GradientState()
    batches, ends, remainder = [], [], "none"
    for batch in loader:
        batches.append(batch.tolist())
        ends.append(state.end_of_dataloader)
        remainder = state.remainder
    assert ends == [False] * (len(ends) - 1) + [True] * bool(ends), ends
    return text_of(batches), remainder


def observe(kind, size, batch_size, split, drop, skip):
    dataset = range(size) if kind == "map" else Counting(size)
    loader = DataLoader(dataset, batch_size=batch_size, drop_last=drop)
    loader = prepare_data_loader(loader, device=torch.device("cpu"), put_on_device=True, split_batches=split,
                                 dispatch_batches=True)
    return iterate(skip_first_batches(loader, skip) if skip else loader)


def row(kind, size, batch_size, split, drop, skip):
    key = f"{kind} {size} {batch_size} {split:d} {drop:d} {skip}"
    if split and batch_size % RANKS:
        return f"{key} refused"
    if drop and size < batch_size * (1 if split else RANKS):
        return f"{key} nothing"  # Upstream raises where there is no whole step.
    seen = gather_object([observe(kind, size, batch_size, split, drop, skip)])
    text = "|".join(batches for batches, _ in seen)
    assert seen[0][1] == seen[1][1], (key, seen)
    return f"{key} {seen[0][1]} {fnv1a(text)} {text if batch_size == 4 else '-'}"


def rows():
    for key in itertools.product(("map", "iterable"), SIZES, BATCH_SIZES, (False, True), (False, True)):
        yield row(*key, 0)
    # A map-style dispatcher skips batches of the inner loader upstream, a part of a step; ours skips steps.
    for key in itertools.product(("iterable",), (1, 8, 21, 22), (1, 4), (False, True), (False,), (1, 2)):
        yield row(*key)


def run(rank, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1")
    state = PartialState(cpu=True)
    seen = list(rows())
    if state.is_main_process:
        version = f"torch {torch.__version__.split('+')[0]}"
        write("dispatcher.txt", f"{version}: kind size batch_size split drop skipped remainder hash text-or-dash",
              seen)
    state.destroy_process_group()


def main():
    argparse.ArgumentParser().parse_known_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(run, (port,), nprocs=RANKS)


if __name__ == "__main__":
    main()
