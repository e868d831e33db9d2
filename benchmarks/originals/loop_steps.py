"""The whole training step of programs/loop_steps.cpp with Python Accelerate; reports seconds a step.

usage: loop_steps.py WARM_UP_STEPS STEPS
"""
import sys
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

import cv
import measure

MICRO_BATCHES, BATCH_SIZE, RATE, MAX_NORM = 2, 64, 1e-3, 1.0


def main(warm_up_steps, steps):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=MICRO_BATCHES)
    set_seed(42)
    total = warm_up_steps + steps
    net = cv.Net()
    adamw = torch.optim.AdamW(net.parameters(), lr=RATE)
    linear = LambdaLR(adamw, lambda step: max(0.0, 1 - step / total))
    data = DataLoader(TensorDataset(*cv.train_loader().dataset.tensors), batch_size=BATCH_SIZE, shuffle=True,
                      drop_last=True)
    model, optimizer, loader, scheduler = accelerator.prepare(net, adamw, data, linear)
    batches = cv.endless(loader)

    def step():
        while True:
            with accelerator.accumulate(model):
                images, labels = next(batches)
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), MAX_NORM)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                return

    seconds = []
    for _ in range(total):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    measure.report(step_seconds=seconds[warm_up_steps:])


main(*map(int, sys.argv[1:]))
