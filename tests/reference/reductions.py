#!/usr/bin/env python3
"""Writes reductions.json: what Accelerator.reduce of Python Accelerate gives two ranks, for every reduction and dtype.

A row: reduction, dtype, scale, what both ranks get for own_values(); null where Python raises. Python applies `scale`
on TPUs only, to the result; so does this script, and raises where an integer result would lose its fraction. dtypes
that Gloo of torch does not have are absent.

Usage: reductions.py [OUTPUT]
"""
import json
import os
import pathlib
import socket
import sys

import torch
import torch.multiprocessing

DTYPES = ("bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
          "complex128")
SCALES = (1.0, 2.0, 0.5)


def own_values(rank, dtype):
    return torch.tensor([rank, 1, 2 + 2 * rank, 3]).to(dtype)


def scaled(result, scale):
    if scale == 1.0:
        return result
    if result.dtype == torch.bool or (not result.dtype.is_floating_point and not result.dtype.is_complex
                                      and scale != int(scale)):
        raise RuntimeError("the dtype has no such multiple")
    return (result * scale).to(result.dtype)


def row(accelerator, reduction, name, scale):
    try:
        value = {"nested": [(own_values(accelerator.process_index, getattr(torch, name)),)]}
        got = accelerator.reduce(value, reduction=reduction, scale=scale)["nested"][0][0]
        values = torch.view_as_real(scaled(got, scale).to(torch.complex128)).flatten().tolist()
    except RuntimeError as error:
        if "Invalid scalar type" in str(error):
            raise
        values = None
    return {"reduction": reduction, "dtype": name, "scale": scale, "values": values}


def rank_main(rank, port, output):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), ACCELERATE_USE_CPU="true")
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    rows = [row(accelerator, reduction, name, scale)
            for reduction in ("sum", "mean", "max") for name in DTYPES for scale in SCALES
            if not (reduction == "max" and name.startswith("complex"))]
    if rank == 0:
        pathlib.Path(output).write_text("[\n" + ",\n".join(json.dumps(one) for one in rows) + "\n]\n")


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        chosen = free.getsockname()[1]
    to = sys.argv[1] if len(sys.argv) > 1 else str(pathlib.Path(__file__).with_name("reductions.json"))
    torch.multiprocessing.spawn(rank_main, (chosen, to), nprocs=2)
