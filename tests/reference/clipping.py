#!/usr/bin/env python3
"""Writes clipping.txt: what torch.nn.utils.clip_grad_norm_ and clip_grad_value_ do to gradients that a formula makes.

A row: function, dtypes, sizes, what is special, seed, norm type, bound | dtype and value of the norm | values of the
clipped gradients, all of short ones, else every STRIDE-th. Numbers are hexadecimal, so that none is rounded.

Usage: clipping.py [--seed N] [OUTPUT]
"""
import argparse
import itertools
import math
import pathlib

import torch

STRIDE = 199
DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZES = ("1", "5,3,0", "1000,7,64", "4099,33")
NORM_TYPES = (2.0, 1.0, 0.5, 3.0, math.inf, -math.inf, -1.0)
BOUNDS = (0.0, 0.5, 10.0, 1e9)
MIXTURES = ("fp32,fp64", "bf16,fp32", "fp64,bf16,fp32")


def gradient(seed, number, size, dtype, special):
    """Multiples of 1/64 up to 1001/64, exact in fp32, then rounded to `dtype`; and one special value."""
    values = [((k * 7919 + number * 104729 + seed) % 2003 - 1001) / 64 for k in range(size)]
    if number == 0 and size and special not in ("none", "zero"):
        values[0] = float(special)
    result = torch.tensor(values, dtype=torch.float64).to(dtype)
    return torch.zeros_like(result) if special == "zero" else result


def parameters(dtypes, sizes, special, seed):
    for number, size in enumerate(sizes):
        dtype = DTYPES[dtypes[number % len(dtypes)]]
        leaf = torch.zeros(size, dtype=dtype, requires_grad=True)
        leaf.grad = gradient(seed, number, size, dtype, special)
        yield leaf


def row(function, dtypes, sizes, special, seed, norm_type, bound):
    numbers = [int(size) for size in sizes.split(",")]
    leaves = list(parameters(dtypes.split(","), numbers, special, seed))
    norm = "none none"
    if function == "norm":
        total = torch.nn.utils.clip_grad_norm_(leaves, bound, norm_type)
        norm = f"{next(name for name, dtype in DTYPES.items() if dtype is total.dtype)} {total.item().hex()}"
    else:
        torch.nn.utils.clip_grad_value_(leaves, bound)
    values = " ".join(value.hex() for leaf in leaves
                      for value in leaf.grad[::1 if leaf.numel() <= 8 else STRIDE].tolist())
    return f"{function} {dtypes} {sizes} {special} {seed} {norm_type.hex()} {bound.hex()} | {norm} | {values}"


def rows(seed):
    for dtypes, sizes, norm_type in itertools.product(DTYPES, SIZES, NORM_TYPES):
        if (norm_type < 0 or math.isinf(norm_type)) and "0" in sizes.split(","):
            continue  # the original refuses empty gradients
        for bound in BOUNDS:
            if dtypes == "fp16" and bound == 0 and norm_type < 0:
                continue  # the norm may be 0, and the original makes NaN of 0 / 0
            yield row("norm", dtypes, sizes, "none", seed, norm_type, bound)
    for special, norm_type in itertools.product(("nan", "inf", "-inf", "zero"), NORM_TYPES):
        yield row("norm", "fp32", "5,3", special, seed, norm_type, 1.0)
    for dtypes, norm_type in itertools.product(MIXTURES, (2.0, math.inf, 1.0)):
        yield row("norm", dtypes, "7,64,33", "none", seed, norm_type, 1.5)
    for dtypes, special, bound in itertools.product((*DTYPES, *MIXTURES), ("none", "nan", "inf", "-inf"),
                                                    (0.0, 0.1, 5.0, 1000.0)):
        yield row("value", dtypes, "5,3,64", special, seed, 2.0, bound)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("output", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent / "clipping.txt")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = list(rows(options.seed))
    options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} rows")


if __name__ == "__main__":
    main()
