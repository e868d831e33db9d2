#!/usr/bin/env python3
"""Drives torch.amp.GradScaler and writes what its scale and growth tracker become, step by step.

usage: grad_scaler.py [--seed N] > grad_scaler.txt

A line is one run: init_scale growth backoff interval | overflow:scale:tracker for each step. On the CPU the
scaler's device is "cpu", whose kernels are those that C++ calls.
"""
import argparse
import random

import torch


def run(rng):
    init = 2.0 ** rng.randint(0, 20)
    growth = rng.choice([1.5, 2.0, 3.0])
    backoff = rng.choice([0.25, 0.5, 0.75])
    interval = rng.randint(1, 5)
    scaler = torch.amp.GradScaler("cpu", init_scale=init, growth_factor=growth, backoff_factor=backoff,
                                  growth_interval=interval)
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    steps = []
    for _ in range(24):
        overflow = rng.random() < 0.25
        optimizer.zero_grad()
        loss = (weight * (float("inf") if overflow else 1.0)).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        steps.append(f"{int(overflow)}:{scaler.get_scale()!r}:{scaler._growth_tracker.item()}")
    return f"{init!r} {growth!r} {backoff!r} {interval} | " + " ".join(steps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    rng = random.Random(parser.parse_args().seed)
    for _ in range(40):
        print(run(rng))


if __name__ == "__main__":
    main()
