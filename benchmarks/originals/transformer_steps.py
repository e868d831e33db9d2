"""Trains a stack of transformer encoder layers on the ranks it is launched on, as programs/transformer_steps.cpp.

usage: transformer_steps.py WARM_UP_STEPS BLOCKS STEPS_PER_BLOCK
"""
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn

import measure

WIDTH, HEADS, LAYERS, TOKENS, BATCH_SIZE = 512, 8, 6, 64, 4


def main(*blocks):
    accelerator = Accelerator(cpu=True)
    set_seed(42)
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, HEADS, dropout=0.0), LAYERS)
    model, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=1e-4))
    tokens, targets = torch.randn(TOKENS, BATCH_SIZE, WIDTH), torch.randn(TOKENS, BATCH_SIZE, WIDTH)

    def train(steps):
        for _ in range(steps):
            accelerator.backward(nn.functional.mse_loss(model(tokens), targets))
            optimizer.step()
            optimizer.zero_grad()

    block_seconds = measure.block_seconds(train, *blocks)
    if accelerator.is_main_process:
        measure.report(block_seconds=block_seconds, ranks=accelerator.num_processes)
    accelerator.end_training()


main(*map(int, sys.argv[1:]))
