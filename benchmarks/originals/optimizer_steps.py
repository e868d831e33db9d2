"""Steps of PyTorch's optimizers in Python, as they come and with fused=True, in turns on parameters of their own.

Arguments as those of programs/optimizer_steps.cpp.
"""
import sys
import time

import torch

from measure import report

RATE = 1e-4
KINDS = ((torch.optim.AdamW, {}), (torch.optim.Adam, {}), (torch.optim.SGD, {"momentum": 0.9}),
         (torch.optim.Adagrad, {}))


def leaves(count, numel):
    torch.manual_seed(0)
    for _ in range(count):
        leaf = torch.randn(numel, requires_grad=True)
        leaf.grad = torch.randn(numel)
        yield leaf


def seconds_of(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main():
    which, count, thousands, warm_up, steps = map(int, sys.argv[1:])
    kind, settings = KINDS[which]
    optimizers = {name: kind(list(leaves(count, thousands * 1024)), lr=RATE, **settings, **options)
                  for name, options in (("default_seconds", {}), ("fused_seconds", {"fused": True}))}
    seconds = {name: [] for name in optimizers}
    for step in range(warm_up + steps):
        for name, optimizer in optimizers.items():
            taken = seconds_of(optimizer.step)
            if step >= warm_up:
                seconds[name].append(taken)
    report(**seconds)


main()
