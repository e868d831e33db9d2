"""Writes power_sgd_live.json: two ranks of PyTorch's DDP that train an LSTM and an attention layer with powerSGD_hook.

usage: power_sgd_live.py [OUTPUT]

Random factors fall to the matrices of a bucket in its order. After the first step DDP packs its buckets anew, in the
order in which gradients came; ours keep the reverse of the order of registration. Each model is trained twice: as DDP
is, and with a hook that hands powerSGD_hook the same bucket in our order. `weights` are those of the latter after the
last step, which the C++ test compares with ours; `moved` is how far they are from the first ones, at most; `apart` is
the largest difference between the two trainings; `order` has the places of the parameters, by registration, in the
bucket of DDP's last step.
"""
import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

RANKS, STEPS, RATE = 2, 12, 0.02
TOKENS, ROWS, WIDTH = 5, 3, 8


class Lstm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(WIDTH, 16, num_layers=2)
        self.head = torch.nn.Linear(16, WIDTH)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        key, value = self.key(x), self.value(x)  # Not in the order of registration, as in BERT.
        return self.out(torch.nn.functional.scaled_dot_product_attention(self.query(x), key, value))


MODELS = {"lstm": Lstm, "attention": Attention}


def waves(shape, phase):
    """Numbers that the C++ test computes too: in double, rounded to float."""
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(count, dtype=torch.float64) * 0.7 + phase).float().view(shape)


def make(name):
    model = MODELS[name]()
    with torch.no_grad():
        for which, parameter in enumerate(model.parameters()):
            parameter.copy_(waves(parameter.shape, which) * 0.3)
    return model


class InOrder:
    """A bucket of DDP with its gradients in another order."""

    def __init__(self, bucket, order):
        self._bucket = bucket
        gradients = bucket.gradients()
        self._originals = [gradients[i] for i in order]
        self._flat = torch.cat([gradient.flatten() for gradient in self._originals])

    def index(self):
        return self._bucket.index()

    def is_last(self):
        return self._bucket.is_last()

    def buffer(self):
        return self._flat

    def gradients(self):
        sizes = [gradient.numel() for gradient in self._originals]
        return [part.view(gradient.shape) for part, gradient in zip(self._flat.split(sizes), self._originals)]

    def put_back(self, reduced):
        self._flat.copy_(reduced)
        for gradient, part in zip(self._originals, self.gradients()):
            gradient.copy_(part)


def done(tensor):
    future = torch.futures.Future()
    future.set_result(tensor)
    return future


def train(name, rank, in_our_order):
    """Weights after the last step, and the order of the bucket there."""
    model = make(name)
    place = {id(parameter): i for i, parameter in enumerate(model.parameters())}
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    state = powerSGD_hook.PowerSGDState(dist.group.WORLD, start_powerSGD_iter=2, min_compression_rate=1)
    order = []

    def hook(state, bucket):
        order[:] = [place[id(parameter)] for parameter in bucket.parameters()]
        assert len(order) == len(place), "one bucket"
        if not in_our_order:
            return powerSGD_hook.powerSGD_hook(state, bucket)
        ours = InOrder(bucket, sorted(range(len(order)), key=lambda i: -order[i]))
        ours.put_back(powerSGD_hook.powerSGD_hook(state, ours).wait())
        return done(bucket.buffer())

    wrapped.register_comm_hook(state, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for step in range(STEPS):
        target = waves((TOKENS, ROWS, WIDTH), 3 * step + rank)
        (wrapped(waves((TOKENS, ROWS, WIDTH), step + 10 * rank)) - target).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return {key: value.detach().clone() for key, value in model.named_parameters()}, list(order)


def work(rank, port, output):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    golden = {"steps": STEPS, "rate": RATE, "models": {}}
    for name in MODELS:
        theirs, order = train(name, rank, in_our_order=False)
        weights, _ = train(name, rank, in_our_order=True)
        apart = max((theirs[key] - value).abs().max().item() for key, value in weights.items())
        start = dict(make(name).named_parameters())
        moved = max((start[key] - value).abs().max().item() for key, value in weights.items())
        golden["models"][name] = {"apart": apart, "moved": moved, "order": order,
                                  "weights": {key: value.flatten().tolist() for key, value in weights.items()}}
        if rank == 0:
            print(f"{name}: DDP's bucket holds {order}; in our order weights, which "
                  f"moved by up to {moved:.2g}, end up to {apart:.2g} apart")
    if rank == 0:
        pathlib.Path(output).write_text(json.dumps(golden) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_suffix(".json")
    mp.spawn(work, args=(29733, target), nprocs=RANKS)
