"""Trains, feeds and saves on a GPU as programs/gpu_steps.cpp does, and reports how long that took.

usage: gpu_steps.py WHAT NUMBER NUMBER NUMBER
WHAT: transformer, large, small, feed, checkpoint as there; transformer_compiled and small_compiled by torch.compile, the small
one in the mode reduce-overhead, which records CUDA graphs.
"""
import pathlib
import sys
import tempfile
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import measure
from language_model import Net

SIZES = {"transformer": (dict(vocabulary=26_112, width=768, heads=12, layers=12, causal=True), 8, 1024),
         "large": (dict(vocabulary=32_000, width=2560, heads=20, layers=31, causal=True), 4, 1024),
         "small": (dict(vocabulary=1_000, width=128, heads=4, layers=4, causal=True), 8, 64)}


def train(what, compiled, *blocks):
    sizes, rows, tokens = SIZES[what]
    accelerator = Accelerator(mixed_precision="bf16")
    set_seed(42)
    net = Net(**sizes).to(accelerator.device)
    weights = sum(parameter.numel() for parameter in net.parameters())
    model, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True))
    if compiled:
        model = torch.compile(model, mode="reduce-overhead" if what == "small" else "default")
    inputs = torch.randint(sizes["vocabulary"], (rows, tokens), device=accelerator.device)
    targets = torch.randint(sizes["vocabulary"], (rows * tokens,), device=accelerator.device)

    def step():
        loss = nn.functional.cross_entropy(model(inputs).view(-1, sizes["vocabulary"]), targets)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    def loop(steps):
        for _ in range(steps):
            step()
        torch.cuda.synchronize()

    block_seconds = measure.block_seconds(loop, *blocks)
    measure.report(block_seconds=block_seconds, loss=step().item(), weights=weights,
                   device_peak_mib=torch.cuda.max_memory_allocated() / 2**20)


def feed(epochs, workers, _):
    samples = 60_000
    images = TensorDataset(torch.randint(256, (samples, 3, 32, 32), dtype=torch.uint8), torch.randint(10, (samples,)))
    loader = Accelerator().prepare(DataLoader(images, batch_size=256, shuffle=True, num_workers=workers, pin_memory=True))
    seconds = []
    for _ in range(epochs):
        start = time.perf_counter()
        for batch, _ in loader:
            batch.sum()  # Something that needs the batch.
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    measure.report(epoch_seconds=seconds, samples=samples)


class Tensors(nn.Module):
    def __init__(self, mebibytes):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.arange(16 << 18, dtype=torch.float32))
                                        for _ in range(-(-mebibytes // 16)))


def checkpoint(mebibytes, saves, _):
    accelerator = Accelerator()
    accelerator.prepare(Tensors(mebibytes))
    stall_seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(saves):
            start = time.perf_counter()
            accelerator.save_state(pathlib.Path(folder) / "state")
            stall_seconds.append(time.perf_counter() - start)
    measure.report(stall_seconds=stall_seconds, save_seconds=stall_seconds)


def main(what, *numbers):
    if not torch.cuda.is_available():
        sys.exit("gpu_steps.py: no GPU that this torch can use")
    name, _, compiled = what.partition("_")
    work = {"feed": feed, "checkpoint": checkpoint}.get(name) or (lambda *blocks: train(name, bool(compiled), *blocks))
    work(*numbers)


main(sys.argv[1], *map(int, sys.argv[2:]))
