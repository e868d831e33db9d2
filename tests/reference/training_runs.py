#!/usr/bin/env python3
"""Trains a small network 100 steps in every combination of precision, accumulation, clipping and ranks.

usage: training_runs.py [--seed N] > training_runs.json

fp32 and bf16 run Hugging Face Accelerate; fp16, which it refuses on the CPU, runs torch.autocast with
torch.amp.GradScaler and DistributedDataParallel. Weights and data are sines of counters, so that C++ makes
the same without reading them. A run is: the mean loss of every step, over its micro-batches and ranks; the
first gradients after the reduction, unscaled and not yet clipped; the weights at the end.
"""
import argparse
import contextlib
import itertools
import json
import os
import socket
import sys
import tempfile

import torch
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

STEPS, BATCH, INPUTS, HIDDEN, CLASSES = 100, 4, 6, 8, 3
MAX_NORM, RATE = 0.25, 0.02


def waves(count, start, pace):
    return torch.sin(torch.arange(count, dtype=torch.float64) * pace + start).float()


class Net(torch.nn.Module):
    def __init__(self, seed):
        super().__init__()
        self.first = torch.nn.Linear(INPUTS, HIDDEN)
        self.second = torch.nn.Linear(HIDDEN, CLASSES)
        with torch.no_grad():
            for index, leaf in enumerate(self.parameters()):
                leaf.copy_(0.5 * waves(leaf.numel(), 0.3 * index + seed, 1.7).view(leaf.shape))

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def samples(count, seed):
    x = waves(count * INPUTS, 0.1 + seed, 0.37).view(count, INPUTS)
    return TensorDataset(x, (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long())


def flat(tensors):
    return [value for tensor in tensors for value in tensor.detach().reshape(-1).tolist()]


def mean_over_ranks(value, ranks):
    if ranks > 1:
        torch.distributed.all_reduce(value)
    return value.item() / ranks


class Record:
    def __init__(self, ranks):
        self.ranks, self.losses, self.first_gradients, self.pending = ranks, [], None, []

    def micro_batch(self, loss):
        self.pending.append(loss.detach().float())

    def gradients(self, net):
        if self.first_gradients is None:
            self.first_gradients = flat(leaf.grad for leaf in net.parameters())

    def step(self):
        self.losses.append(mean_over_ranks(torch.stack(self.pending).mean(), self.ranks))
        self.pending = []


def loss_of(scores, target):
    return torch.nn.functional.cross_entropy(scores, target)


def run_accelerate(precision, accumulation, clip, ranks, seed):
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState
    AcceleratorState._reset_state()
    GradientState._reset_state()
    accelerator = Accelerator(cpu=True, mixed_precision="no" if precision == "fp32" else precision,
                              gradient_accumulation_steps=accumulation)
    net = Net(seed)
    data = samples(STEPS * accumulation * BATCH * ranks, seed)
    model, optimizer, loader = accelerator.prepare(
        net, torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9), DataLoader(data, batch_size=BATCH))
    record = Record(ranks)
    for x, target in loader:
        with accelerator.accumulate(model):
            loss = loss_of(model(x), target)
            record.micro_batch(loss)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                record.gradients(net)
                if clip:
                    accelerator.clip_grad_norm_(model.parameters(), MAX_NORM)
                record.step()
            optimizer.step()
            optimizer.zero_grad()
    return net, record


def run_scaled(accumulation, clip, ranks, rank, seed):
    net = Net(seed)
    model = DistributedDataParallel(net) if ranks > 1 else net
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu")
    x, target = samples(STEPS * accumulation * BATCH * ranks, seed).tensors
    record = Record(ranks)
    for index in range(STEPS * accumulation):
        start = (index * ranks + rank) * BATCH
        due = (index + 1) % accumulation == 0
        with contextlib.nullcontext() if due or ranks == 1 else model.no_sync():
            with torch.autocast("cpu", torch.float16):
                scores = model(x[start:start + BATCH])
            loss = loss_of(scores.float(), target[start:start + BATCH])
            record.micro_batch(loss)
            scaler.scale(loss / accumulation).backward()
        if due:
            scaler.unscale_(optimizer)
            record.gradients(net)
            if clip:
                torch.nn.utils.clip_grad_norm_(net.parameters(), MAX_NORM)
            record.step()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return net, record


def run_all(rank, ranks, seed, port, path):
    torch.set_num_threads(1)
    if ranks > 1:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks),
                          MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        torch.distributed.init_process_group("gloo")
    runs = []
    for precision, accumulation, clip in itertools.product(("fp32", "bf16", "fp16"), (1, 2, 4), (False, True)):
        if precision == "fp16":
            net, record = run_scaled(accumulation, clip, ranks, rank, seed)
        else:
            net, record = run_accelerate(precision, accumulation, clip, ranks, seed)
        runs.append({"precision": precision, "accumulation": accumulation, "clip": clip, "ranks": ranks,
                     "losses": record.losses, "first_gradients": record.first_gradients,
                     "weights": flat(net.parameters())})
    if rank == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(runs, file)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def rounded(run):
    return {key: [float(f"{x:.9g}") for x in value] if isinstance(value, list) else value
            for key, value in run.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for ranks in (1, 2):
            path = os.path.join(folder, str(ranks))
            torch.multiprocessing.spawn(run_all, (ranks, seed, free_port(), path), nprocs=ranks)
            with open(path, encoding="utf-8") as file:
                runs += json.load(file)
    lines = ",\n".join(json.dumps(rounded(run)) for run in runs)
    sys.stdout.write(f'{{"seed": {seed}, "runs": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
