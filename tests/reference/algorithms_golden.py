#!/usr/bin/env python3
"""Writes algorithms_golden.json: what optimizers of Python make of parameters in 20 steps on gradients of a formula.

Adafactor is Transformers', Lion is bitsandbytes' of 32 bits, ScheduleFreeAdamW is AdamWScheduleFree of the package
schedulefree, SGD, Adagrad, RMSprop and AdamW are PyTorch's.

A row: class, its options, dtype, seed, what is special, and after 20 steps all values of all parameters one after the
other; of ScheduleFreeAdamW also the values for evaluation. Numbers have 9 digits, which tell all of fp32 apart.
Specials: "schedule" multiplies the rate of step t by 1 - t / 40; "gaps" leaves parameters without a gradient and gives
one zeros; "modes" evaluates after some steps.

Needs torch, transformers, bitsandbytes and schedulefree: `pip install bitsandbytes schedulefree` in an environment
that has the first two. Usage: algorithms_golden.py [--seed N] [OUTPUT]
"""
import argparse
import json
import pathlib

import torch

STEPS = 20
SHAPES = ((), (5,), (4, 6), (2, 3, 2, 3), (1, 7))
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
EVALUATIONS = (0, 4, 5, 13)

FIXED = {"lr": 0.02, "scale_parameter": False, "relative_step": False}
CASES = {
    "Adafactor": [
        FIXED,
        {**FIXED, "beta1": 0.9},
        {**FIXED, "weight_decay": 0.1, "clip_threshold": 0.5},
        {**FIXED, "decay_rate": -0.5, "eps": [1e-8, 0.01]},
        {**FIXED, "scale_parameter": True, "weight_decay": 0.05},
        {**FIXED, "scale_parameter": True, "eps": [1e-30, 10.0]},
        {},
        {"warmup_init": True},
        {"scale_parameter": False, "beta1": 0.5, "weight_decay": 0.1},
        {"warmup_init": True, "scale_parameter": False, "beta1": 0.0},
    ],
    "Lion": [
        {"lr": 0.01},
        {"lr": 0.01, "weight_decay": 0.1},
        {"lr": 0.003, "betas": [0.95, 0.98], "weight_decay": 0.5},
        {"lr": 0.02, "betas": [0.0, 0.0]},
    ],
    "ScheduleFreeAdamW": [
        {"lr": 0.02},
        {"lr": 0.02, "weight_decay": 0.1},
        {"lr": 0.02, "betas": [0.8, 0.9], "warmup_steps": 7},
        {"lr": 0.02, "r": 1.5, "weight_lr_power": 1.0, "warmup_steps": 3, "weight_decay": 0.01},
        {"lr": 0.02, "eps": 0.1, "weight_lr_power": 0.0},
    ],
    "SGD": [{"lr": 0.01}, {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
            {"lr": 0.01, "momentum": 0.9, "dampening": 0.5}],
    "Adagrad": [{"lr": 0.05}, {"lr": 0.05, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}],
    "RMSprop": [{"lr": 0.01}, {"lr": 0.01, "momentum": 0.9, "centered": True}, {"lr": 0.01, "weight_decay": 0.1, "alpha": 0.9}],
    "AdamW": [{"lr": 0.01}, {"lr": 0.01, "betas": [0.8, 0.95], "weight_decay": 0.1}, {"lr": 0.01, "amsgrad": True, "eps": 1e-3}],
}
NEW = ("Adafactor", "Lion", "ScheduleFreeAdamW")


def class_of(name):
    if name == "Adafactor":
        from transformers.optimization import Adafactor
        return Adafactor
    if name == "Lion":
        from bitsandbytes.optim import Lion32bit
        return Lion32bit
    if name == "ScheduleFreeAdamW":
        from schedulefree import AdamWScheduleFree
        return AdamWScheduleFree
    return getattr(torch.optim, name)


def numbers(count, function, dtype, shape):
    return torch.tensor([function(k) for k in range(count)], dtype=torch.float64).reshape(shape).to(dtype)


def leaf(seed, index, dtype):
    shape = SHAPES[index]
    count = torch.Size(shape).numel()
    values = numbers(count, lambda k: ((k * 5741 + index * 86028 + seed * 97) % 1009 - 504) / 256, dtype, shape)
    return values.requires_grad_()


def gradient(seed, index, step, special, dtype):
    if special == "gaps" and (index == 3 or (index == 2 and step % 3 == 0)):
        return None
    shape = SHAPES[index]
    count = torch.Size(shape).numel()
    if special == "gaps" and index == 1:
        return torch.zeros(shape, dtype=dtype)
    return numbers(count, lambda k: ((k * 7919 + index * 104729 + step * 15485863 + seed * 31337) % 2003 - 1001) / 64, dtype, shape)


def values_of(leaves):
    return [float(f"{value:.9g}") for p in leaves for value in p.detach().double().flatten().tolist()]


def run(name, options, dtype, seed, special):
    leaves = [leaf(seed, index, DTYPES[dtype]) for index in range(len(SHAPES))]
    keywords = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    optimizer = class_of(name)(leaves, **keywords)
    modal = name == "ScheduleFreeAdamW"
    for step in range(STEPS):
        for index, p in enumerate(leaves):
            p.grad = gradient(seed, index, step, special, DTYPES[dtype])
        if special == "schedule":
            for group in optimizer.param_groups:
                group["lr"] = options["lr"] * (1 - step / 40)
        if modal:
            optimizer.train()
        optimizer.step()
        if modal and special == "modes" and step in EVALUATIONS:
            optimizer.eval()
    row = {"class": name, "options": options, "dtype": dtype, "seed": seed, "special": special, "values": values_of(leaves)}
    if modal:
        optimizer.eval()
        row["evaluation"] = values_of(leaves)
    return row


def rows(seed):
    for name, cases in CASES.items():
        for number, options in enumerate(cases):
            yield run(name, options, "fp32", seed + number, "none")
            if name in NEW:
                yield run(name, options, "fp32", seed + number + 100, "gaps")
        with_rate = cases[-1] if name == "Adagrad" else cases[2]
        yield run(name, with_rate, "fp32", seed + 200, "schedule")
        if name in NEW:
            yield run(name, with_rate, "bf16", seed + 300, "none")
            yield run(name, with_rate, "fp16", seed + 301, "none")
        if name == "ScheduleFreeAdamW":
            yield run(name, with_rate, "fp32", seed + 400, "modes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("output", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    lines = ",\n".join(json.dumps(row) for row in rows(arguments.seed))
    arguments.output.write_text(f'{{"rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
