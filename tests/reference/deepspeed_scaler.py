#!/usr/bin/env python3
"""Drives DeepSpeed's DynamicLossScaler and writes what its scale and hysteresis become, step by step.

usage: deepspeed_scaler.py [--seed N] > deepspeed_scaler.txt

Needs deepspeed. A line is one run: power window min_scale hysteresis consecutive | overflow:scale:hysteresis for
each step. DeepSpeed raises an exception when the least scale overflows; here it stays there, as the scaler does
with raise_error_at_min_scale=False.
"""
import argparse
import contextlib
import os
import random
import sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")
with contextlib.redirect_stdout(sys.stderr):
    from deepspeed.runtime.fp16 import loss_scaler

    loss_scaler.dist.get_rank = lambda: 1  # Rank 0 would print each overflow.
    loss_scaler.log_dist = lambda *args, **kwargs: None


def run(rng):
    power, window = rng.randint(2, 20), rng.randint(1, 5)
    min_scale, hysteresis = rng.choice([1, 2, 4]), rng.randint(1, 4)
    consecutive = rng.random() < 0.5
    scaler = loss_scaler.DynamicLossScaler(init_scale=2.0 ** power, scale_window=window, min_scale=min_scale,
                                           delayed_shift=hysteresis, consecutive_hysteresis=consecutive,
                                           raise_error_at_min_scale=False)
    steps = []
    for _ in range(40):
        overflow = rng.random() < 0.35
        scaler.update_scale(overflow)
        steps.append(f"{int(overflow)}:{float(scaler.cur_scale)!r}:{scaler.cur_hysteresis}")
    return f"{power} {window} {min_scale} {hysteresis} {int(consecutive)} | " + " ".join(steps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    rng = random.Random(parser.parse_args().seed)
    for _ in range(40):
        print(run(rng))


if __name__ == "__main__":
    main()
