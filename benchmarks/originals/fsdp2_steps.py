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

VOCABULARY, WIDTH, HEADS, LAYERS, BATCH_SIZE, TOKENS = 8000, 512, 8, 6, 4, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        rows, tokens, _ = x.shape
        heads = self.qkv(self.attention_norm(x)).view(rows, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(*heads)
        x = x + self.out(attended.transpose(1, 2).reshape(rows, tokens, WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.norm_2(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, x):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


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
