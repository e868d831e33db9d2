#!/usr/bin/env python3
"""Measures the backend `accelerate` of Python's torch.distributed against Gloo, in turns in the same ranks, and prints a table.

usage: torchrun --nproc-per-node 2 benchmarks/python_backend.py [--quick]

Needs the package accelerate-cpp-torch. A step of training is forward, backward and SGD of 12 transformer layers of width 1024, 151
million weights, one sequence of 16 tokens a rank; one thread a rank.
"""
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import accelerate_cpp_torch  # noqa: F401

QUICK = "--quick" in sys.argv
ROUNDS = 2 if QUICK else 12
CALLS = {4: 200, 4 * 1024: 20, 64 * 1024: 3}  # In a round, by KiB.
WIDTH, HEADS, LAYERS, TOKENS = (64, 4, 2, 16) if QUICK else (1024, 16, 12, 16)


def in_turns(ours, theirs, calls):
    """Seconds of a call in each round, of both."""
    seconds = ([], [])
    for _ in range(ROUNDS + 1):
        for taken, call in zip(seconds, (ours, theirs)):
            dist.barrier()
            start = time.perf_counter()
            for _ in range(calls):
                call()
            taken.append((time.perf_counter() - start) / calls)
    return [taken[1:] for taken in seconds]  # The first round warms up.


def all_reduce(kib, gloo):
    tensor = torch.zeros(kib * 1024 // 4)
    return in_turns(lambda: dist.all_reduce(tensor), lambda: dist.all_reduce(tensor, group=gloo), CALLS[kib])


def step_over(group):
    torch.manual_seed(0)
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0), LAYERS, enable_nested_tensor=False)
    model = nn.parallel.DistributedDataParallel(net, process_group=group)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    tokens, targets = torch.randn(TOKENS, 1, WIDTH), torch.randn(TOKENS, 1, WIDTH)

    def step():
        nn.functional.mse_loss(model(tokens), targets).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def row(what, ours, theirs, unit, scale):
    values = [f"{function(taken) * scale:.3g}" for taken in (ours, theirs) for function in (min, statistics.median)]
    ratios = [f"{function(theirs) / function(ours):.2f}×" for function in (min, statistics.median)]
    if dist.get_rank() == 0:
        print("| " + " | ".join([what, unit, *values, *ratios]) + " |", flush=True)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("accelerate")
    gloo = dist.new_group(backend="gloo")
    if dist.get_rank() == 0:
        print("| | unit | ours min | ours median | Gloo min | Gloo median | Gloo ÷ ours | of medians |\n|---|---|---|---|---|---|---|---|")
    for kib, name, unit, scale in ((4, "4 KiB", "µs", 1e6), (4 * 1024, "4 MiB", "ms", 1e3), (64 * 1024, "64 MiB", "ms", 1e3)):
        row(f"all_reduce, {name}", *all_reduce(kib, gloo), unit, scale)
    row("DDP step", *in_turns(step_over(None), step_over(gloo), 1), "ms", 1e3)
    dist.destroy_process_group()


main()
