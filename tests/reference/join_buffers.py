"""Writes join_buffers.json: the buffers that PyTorch's DDP leaves on each rank after Join, with a BatchNorm.

usage: join_buffers.py [OUTPUT]

Three ranks with different numbers of batches, `steps`; a row holds the running means and counts of all ranks at the
end. The rank whose buffers count stays the same in each case: docs/ddp.md says what differs when it runs out. Inputs are waves(step + 10 * rank), which the C++ test computes too.
"""
import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.join import Join

RANKS, ROWS, WIDTH = 3, 4, 2
CASES = [([2, 3, 3], True), ([3, 1, 3], True), ([0, 1, 2], True), ([2, 2, 2], True),
         ([2, 3, 3], False), ([1, 2, 2], False)]


def waves(phase):
    numbers = torch.arange(ROWS * WIDTH, dtype=torch.float64) * 0.7 + phase
    return torch.sin(numbers).float().view(ROWS, WIDTH)


def train(rank, steps, broadcast_buffers):
    """This rank's running mean and count."""
    norm = torch.nn.BatchNorm1d(WIDTH)
    model = torch.nn.parallel.DistributedDataParallel(norm, broadcast_buffers=broadcast_buffers)
    optimizer = torch.optim.SGD(norm.parameters(), lr=0.1)
    with Join([model]):
        for step in range(steps[rank]):
            model(waves(step + 10 * rank)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return [*norm.running_mean.tolist(), norm.num_batches_tracked.item()]


def work(rank, port, output):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    rows = []
    for steps, broadcast_buffers in CASES:
        ranks = [None] * RANKS
        dist.all_gather_object(ranks, train(rank, steps, broadcast_buffers))
        rows.append({"steps": steps, "broadcast_buffers": broadcast_buffers, "ranks": ranks})
    if rank == 0:
        pathlib.Path(output).write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_suffix(".json")
    mp.spawn(work, args=(29735, target), nprocs=RANKS)
