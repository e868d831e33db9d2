#!/usr/bin/env python3
"""Steps of torch.optim.Muon for the C++ tests to repeat. usage: muon_live.py FOLDER [--seed N]

FOLDER/cases.json lists the cases: options, dtype, the rate of each step, and the options that state_dict() saves.
FOLDER/<number>.safetensors has, of every parameter k of a case, "k.before", "k.gradient.<step>" (absent where there is
none), "k.after" and "k.momentum_buffer".

Left out is bf16 without nesterov: torch.optim.Muon then divides its momentum buffer by a norm, because it takes the
buffer itself for a copy in bf16.
"""
import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file

STEPS = 6
SHAPES = ((4, 6), (6, 4), (5, 5), (1, 7), (7, 1), (64, 48), (96, 130), (131, 33), (200, 257))
DTYPES = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16}
CASES = [
    {},
    {"lr": 0.02, "weight_decay": 0.0},
    {"lr": 0.02, "adjust_lr_fn": "original", "momentum": 0.3},
    {"lr": 0.02, "adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.5},
    {"lr": 0.02, "nesterov": False},
    {"lr": 0.02, "momentum": 0.0},
    {"lr": 0.02, "ns_steps": 0},
    {"lr": 0.02, "ns_steps": 9, "ns_coefficients": [2.0, -1.5, 0.5]},
    {"lr": 0.02, "eps": 5000.0},
]


def run(options, dtype, special):
    leaves = [torch.randn(shape).to(DTYPES[dtype]).requires_grad_() for shape in SHAPES]
    tensors = {f"{k}.before": leaf.detach().clone() for k, leaf in enumerate(leaves)}
    keywords = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    optimizer = torch.optim.Muon(leaves, **keywords)
    rates = []
    for step in range(STEPS):
        for k, leaf in enumerate(leaves):
            absent = special == "gaps" and (k == 3 or (k == 6 and step % 2 == 0))
            leaf.grad = None if absent else (torch.randn(leaf.shape) * 10 ** (k % 3 - 1)).to(leaf.dtype)
            if special == "gaps" and k == 1:
                leaf.grad.zero_()
            if leaf.grad is not None:
                tensors[f"{k}.gradient.{step}"] = leaf.grad.clone()
        for group in optimizer.param_groups:
            group["lr"] *= 0.9 if special == "schedule" else 1
            rates.append(group["lr"])
        optimizer.step()
    for k, leaf in enumerate(leaves):
        tensors[f"{k}.after"] = leaf.detach().clone()
        if leaf in optimizer.state:
            tensors[f"{k}.momentum_buffer"] = optimizer.state[leaf]["momentum_buffer"].contiguous()
    group = {key: value for key, value in optimizer.state_dict()["param_groups"][0].items() if key != "params"}
    return {"options": options, "dtype": dtype, "special": special, "rates": rates, "saved": group}, tensors


def cases():
    for options in CASES:
        for dtype in DTYPES:
            if dtype != "bf16" or options.get("nesterov", True):
                yield options, dtype, "none"
    yield CASES[2], "fp32", "gaps"
    yield CASES[3], "fp32", "schedule"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1234)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    rows = []
    for number, case in enumerate(cases()):
        row, tensors = run(*case)
        save_file(tensors, arguments.folder / f"{number}.safetensors")
        rows.append(row)
    (arguments.folder / "cases.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
