"""Trains the network of examples/cv on the ranks it is launched on, and reports on rank 0 how long blocks took.

usage: train_steps.py WARM_UP_STEPS BLOCKS STEPS_PER_BLOCK
"""
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

import cv
import measure


def main(*blocks):
    accelerator = Accelerator(cpu=True)
    set_seed(42)
    net = cv.Net()
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(net, adam, cv.train_loader())
    batches = cv.endless(loader)

    def train(steps):
        for _ in range(steps):
            images, labels = next(batches)
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()

    block_seconds = measure.block_seconds(train, *blocks)
    if accelerator.is_main_process:
        measure.report(block_seconds=block_seconds, ranks=accelerator.num_processes)
    accelerator.end_training()


main(*map(int, sys.argv[1:]))
