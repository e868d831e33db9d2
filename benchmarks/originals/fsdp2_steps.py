"""Trains the model of programs/sharded_steps.cpp by PyTorch's FSDP 2 over Gloo, which Python Accelerate does not offer
on the CPU.

usage: fsdp2_steps.py WARM_UP_STEPS BLOCKS STEPS_PER_BLOCK
SHARDED_STEPS_BF16=1: in bf16, gradients reduced in fp32.
"""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import measure
from language_model import Net

VOCABULARY, BATCH_SIZE, TOKENS = 8000, 4, 64


def proportional_mib():
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024


def main(*blocks):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(42)
    net = Net()
    bf16 = os.environ.get("SHARDED_STEPS_BF16") == "1"
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if bf16 else \
        MixedPrecisionPolicy()
    for block in net.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(net, mp_policy=policy)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    torch.manual_seed(100 + dist.get_rank())
    tokens = torch.randint(VOCABULARY, (BATCH_SIZE, TOKENS))
    targets = torch.randint(VOCABULARY, (BATCH_SIZE * TOKENS,))
    mib = 0.0

    def train(steps):
        nonlocal mib
        for step in range(steps):
            loss = nn.functional.cross_entropy(net(tokens).float().view(-1, VOCABULARY), targets)
            loss.backward()
            if step + 1 == steps:
                mib = max(mib, proportional_mib())
            optimizer.step()
            optimizer.zero_grad()

    block_seconds = measure.block_seconds(train, *blocks)
    together = torch.tensor([mib])
    dist.all_reduce(together)
    if dist.get_rank() == 0:
        measure.report(block_seconds=block_seconds, ranks=dist.get_world_size(), proportional_mib=together.item())
    dist.destroy_process_group()


main(*map(int, sys.argv[1:]))
