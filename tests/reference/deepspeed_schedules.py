#!/usr/bin/env python3
"""Drives DeepSpeed's schedules and writes their rates and momenta, step by step.

usage: deepspeed_schedules.py [--seed N] > deepspeed_schedules.jsonl

Needs deepspeed. A line is one run: the schedule's name and options, the optimizer's rates before it, and for each
step the rates of the groups and the betas.
"""
import argparse
import contextlib
import json
import os
import random
import sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")
with contextlib.redirect_stdout(sys.stderr):
    import torch
    from deepspeed.runtime import lr_schedules


def options_of(rng, name):
    warmup = {"warmup_num_steps": rng.randint(1, 8), "warmup_type": rng.choice(["log", "linear"])}
    if name == "WarmupLR":
        return {**warmup, "warmup_min_lr": rng.choice([0.0, 1e-5])} | ({"warmup_max_lr": 2e-3} if rng.random() < 0.5 else {})
    if name == "WarmupDecayLR":
        return {**warmup, "total_num_steps": rng.randint(4, 20)} | ({"warmup_max_lr": 2e-3} if rng.random() < 0.5 else {})
    if name == "WarmupCosineLR":
        return {**warmup, "total_num_steps": rng.randint(4, 20), "warmup_min_ratio": rng.choice([0.0, 0.1]),
                "cos_min_ratio": rng.choice([0.0001, 0.2])}
    cycle = {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3, "cycle_first_step_size": rng.randint(1, 7),
             "cycle_first_stair_count": rng.choice([0, 0, 2, 3]), "decay_step_size": rng.choice([0, 2]),
             "decay_lr_rate": rng.choice([0.0, 0.5]), "decay_mom_rate": rng.choice([0.0, 0.01]),
             "cycle_momentum": rng.random() < 0.7, "cycle_min_mom": 0.7, "cycle_max_mom": 0.85}
    return cycle | ({"cycle_second_step_size": rng.randint(1, 7)} if rng.random() < 0.5 else {})


def run(rng, name):
    own = [1e-2, 3e-3]
    groups = [{"params": [torch.nn.Parameter(torch.ones(1))], "lr": lr} for lr in own]
    optimizer = torch.optim.AdamW(groups)
    options = options_of(rng, name)
    schedule = getattr(lr_schedules, name)(optimizer, **options)
    steps = []
    for _ in range(24):
        steps.append([*(float(group["lr"]) for group in optimizer.param_groups), *optimizer.param_groups[0]["betas"]])
        schedule.step()
    return {"name": name, "options": options, "own": own, "steps": steps}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    rng = random.Random(parser.parse_args().seed)
    for name in ["WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle"]:
        for _ in range(6):
            print(json.dumps(run(rng, name)))


if __name__ == "__main__":
    main()
