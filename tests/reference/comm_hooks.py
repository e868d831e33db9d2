"""Writes comm_hooks.txt: what PyTorch's DDP communication hooks make of the same gradients on two ranks.

usage: comm_hooks.py [OUTPUT]

One block a case: "case NAME key=value … shapes=2x3,4", then one line a step with the bucket of rank 0 after the
hook (both ranks have the same). The gradients of rank r in step s are gradient(r, s, numel), computed in double and
rounded to float; the C++ test computes the same.
"""
import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

STEPS = 4
RANKS = 2
SHAPES = [(6, 10), (10,), (4, 2, 3), (6, 10), (2, 2), (15, 4)]


def gradient(rank, step, numel):
    i = torch.arange(numel, dtype=torch.float64)
    return (torch.sin(0.37 * i * (1 + 0.1 * step) + rank) + torch.cos(0.011 * i * i + 2 * step)).float()


class Bucket:
    """What a hook sees of a bucket."""

    def __init__(self, index, is_last, flat, shapes):
        self._index, self._is_last, self._flat, self._shapes = index, is_last, flat, shapes

    def index(self):
        return self._index

    def is_last(self):
        return self._is_last

    def buffer(self):
        return self._flat

    def set_buffer(self, flat):
        self._flat = flat

    def gradients(self):
        views, offset = [], 0
        for shape in self._shapes:
            numel = torch.Size(shape).numel()
            views.append(self._flat[offset : offset + numel].view(shape))
            offset += numel
        return views


def power(kind="power_sgd", wrapper="no", **options):
    return {"kind": kind, "wrapper": wrapper, "options": {"start_powerSGD_iter": 2, **options}}


CASES = {
    "fp16": {"kind": "fp16", "wrapper": "no", "options": {}},
    "bf16": {"kind": "bf16", "wrapper": "no", "options": {}},
    "rank1": power(),
    "rank2": power(matrix_approximation_rank=2),
    "rank3_qr": power(matrix_approximation_rank=3, random_seed=7),
    "rank5_qr": power(matrix_approximation_rank=5, min_compression_rate=0.5),
    "epsilon": power(matrix_approximation_rank=2, orthogonalization_epsilon=1e-6),
    "no_error_feedback": power(use_error_feedback=False),
    "no_warm_start": power(warm_start=False, matrix_approximation_rank=2, random_seed=123456),
    "neither": power(warm_start=False, use_error_feedback=False, start_powerSGD_iter=0),
    "same_shape_in_one_batch": power(matrix_approximation_rank=2, batch_tensors_with_same_shape=True),
    "rate10": power(min_compression_rate=10),
    "fp16_wrapper": power(wrapper="fp16", matrix_approximation_rank=2),
    "bf16_wrapper": power(wrapper="bf16"),
    "batched1": power("batched_power_sgd"),
    "batched4": power("batched_power_sgd", matrix_approximation_rank=4, start_powerSGD_iter=2),
    "batched_cold": power("batched_power_sgd", warm_start=False, use_error_feedback=False, start_powerSGD_iter=1),
}


def hook_of(case):
    hook = {"fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook,
            "power_sgd": powerSGD_hook.powerSGD_hook,
            "batched_power_sgd": powerSGD_hook.batched_powerSGD_hook}[case["kind"]]
    wrap = {"no": lambda h: h, "fp16": default_hooks.fp16_compress_wrapper,
            "bf16": default_hooks.bf16_compress_wrapper}[case["wrapper"]]
    is_power = "power" in case["kind"]
    return wrap(hook), powerSGD_hook.PowerSGDState(dist.group.WORLD, **case["options"]) if is_power else None


def accept_matrices():
    """The batched hook of PyTorch 2.13 hands a matrix to a function that asserts a batch of them, and fails."""
    original = powerSGD_hook._orthogonalize
    powerSGD_hook._orthogonalize = lambda m, epsilon=0: original(m if m.dim() == 3 else m.unsqueeze(0), epsilon)


def steps_of(case, rank):
    hook, state = hook_of(case)
    numels = [torch.Size(shape).numel() for shape in SHAPES]
    for step in range(STEPS):
        buckets = []
        for index, shapes in enumerate((SHAPES[:4], SHAPES[4:])):
            numel = sum(numels[:4]) if index == 0 else sum(numels[4:])
            flat = gradient(rank, step + 10 * index, numel)
            bucket = Bucket(index, index == 1, flat, shapes)
            flat.copy_(hook(state, bucket).wait().float())
            buckets.append(flat)
        yield torch.cat(buckets)


def work(rank, port, output):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    accept_matrices()
    lines = []
    for name, case in CASES.items():
        settings = {"kind": case["kind"], "wrapper": case["wrapper"], **case["options"]}
        lines.append("case " + name + "".join(f" {k}={v}" for k, v in settings.items()))
        for flat in steps_of(case, rank):
            lines.append(" ".join(f"{v:.9g}" for v in flat.tolist()))
    if rank == 0:
        shapes = ",".join("x".join(map(str, s)) for s in SHAPES)
        pathlib.Path(output).write_text(f"shapes {shapes} steps {STEPS}\n" + "\n".join(lines) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_suffix(".txt")
    mp.spawn(work, args=(29731, target), nprocs=RANKS)
