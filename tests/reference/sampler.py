#!/usr/bin/env python3
"""Writes what PyTorch and Accelerate's samplers yield: randperm.txt, batch_sampler_shard.txt and
batch_sampler_shard_dynamic.txt beside this script. Usage: sampler.py [--seed N].

A sequence of batches is written as text, indices joined by "," and batches by ";", ranks by "|"; long
ones as the 64-bit FNV-1a hash of that text.
"""
import argparse
import itertools
import pathlib
import random

import torch
from accelerate.data_loader import BatchSamplerShard, SeedableRandomSampler
from torch.utils.data import BatchSampler

HERE = pathlib.Path(__file__).resolve().parent
SIZES = range(41)
BATCH_SIZES = (1, 2, 3, 4, 6)
RANKS = (1, 2, 3, 4)


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def text_of(batches):
    return ";".join(",".join(map(str, batch)) for batch in batches)


def write(name, header, rows):
    lines = [f"# {header}", *rows]
    (HERE / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{name}: {len(rows)} rows")


def randperm_rows(seed):
    """One sampler for each (size, seed), iterated for several epochs (RandomSampler refuses size 0)."""
    seeds = (0, 42, seed, 2**32 + seed, 2**63 - 3)
    for size, data_seed in itertools.product((1, 2, 10, 1000, 60000), seeds):
        sampler = SeedableRandomSampler(range(size), data_seed=data_seed)
        for epoch in range(3):
            order = ",".join(map(str, sampler))
            yield f"{size} {data_seed} {epoch} {order if size <= 10 else fnv1a(order)}"


def shard_row(size, batch_size, ranks, split, even, drop):
    key = f"{size} {batch_size} {ranks} {split:d} {even:d} {drop:d}"
    shards = []
    for rank in range(ranks):
        inner = BatchSampler(range(size), batch_size=batch_size, drop_last=drop)
        try:
            shards.append(BatchSamplerShard(inner, ranks, rank, split_batches=split, even_batches=even))
        except ValueError:
            return f"{key} refused"
    lengths = ",".join(str(len(shard)) for shard in shards)
    batches = [list(shard) for shard in shards]
    counts = ",".join(str(len(rank)) for rank in batches)
    return f"{key} {lengths} {counts} {fnv1a('|'.join(map(text_of, batches)))}"


class Batches(list):
    """Batches of any size, as a bucketing sampler makes them."""

    def __init__(self, batches, drop_last):
        super().__init__([list(batch) for batch in batches])
        self.drop_last = drop_last


def dynamic_inputs(seed):
    yield [[0, 1, 2], [3, 4], [5, 6, 7, 8], [9, 10, 11], [12, 13]]
    yield [[0], [1, 2], [3, 4, 5], [6], [7, 8], [9, 10, 11], [12, 13]]
    yield [[0, 1, 2]]
    yield []
    draw = random.Random(seed)
    for count in range(2, 14):
        yield [[draw.randrange(100) for _ in range(draw.randint(1, 5))] for _ in range(count)]


def dynamic_rows(seed):
    for batches, ranks, even, drop in itertools.product(
            list(dynamic_inputs(seed)), RANKS, (True, False), (True, False)):
        shards = [BatchSamplerShard(Batches(batches, drop), ranks, rank, even_batches=even)
                  for rank in range(ranks)]
        lengths = ",".join(str(len(shard)) for shard in shards)
        result = "|".join(text_of(shard) for shard in shards)
        yield f"{ranks} {even:d} {drop:d} {lengths} [{text_of(batches)}] [{result}]"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1234)
    seed = parser.parse_args().seed
    version = f"torch {torch.__version__.split('+')[0]}, seed {seed}"
    write("randperm.txt", f"{version}: size data_seed epoch order-or-hash", list(randperm_rows(seed)))
    grid = itertools.product(SIZES, BATCH_SIZES, RANKS, (False, True), (True, False), (False, True))
    write("batch_sampler_shard.txt",
          f"{version}: size batch_size ranks split even drop | len of each rank | batches of each rank | hash",
          [shard_row(*key) for key in grid])
    write("batch_sampler_shard_dynamic.txt",
          f"{version}: ranks even drop | len of each rank | [batches] | [batches of each rank]",
          list(dynamic_rows(seed)))


if __name__ == "__main__":
    main()
