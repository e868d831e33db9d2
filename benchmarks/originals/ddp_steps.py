"""Trains the model of programs/sharded_steps.cpp by Python Accelerate under DDP, gradients over Gloo.

usage: ddp_steps.py WARM_UP_STEPS BLOCKS STEPS_PER_BLOCK
"""
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn

import measure
from language_model import Net

VOCABULARY, BATCH_SIZE, TOKENS = 8000, 4, 64


def main(*blocks):
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    set_seed(42)
    net = Net()
    model, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True))
    torch.manual_seed(100 + accelerator.process_index)
    tokens = torch.randint(VOCABULARY, (BATCH_SIZE, TOKENS))
    targets = torch.randint(VOCABULARY, (BATCH_SIZE * TOKENS,))

    def train(steps):
        for _ in range(steps):
            loss = nn.functional.cross_entropy(model(tokens).view(-1, VOCABULARY), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            loss.item()

    block_seconds = measure.block_seconds(train, *blocks)
    if accelerator.is_main_process:
        measure.report(block_seconds=block_seconds, ranks=accelerator.num_processes)
    accelerator.end_training()


main(*map(int, sys.argv[1:]))
