"""safetensors in Python: saves as many MiB of fp32 in tensors of 16 MiB, then loads them, in a folder of the caller's.

Arguments: MiB, the folder.
"""
import pathlib
import sys
import time

import torch
from safetensors.torch import load_file, save_file

from measure import report

TENSOR_MIB = 16


def seconds_of(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main():
    mebibytes, folder = int(sys.argv[1]), sys.argv[2]
    file = pathlib.Path(folder) / "theirs.safetensors"
    tensors = {f"weight_{i}": torch.arange(TENSOR_MIB << 18, dtype=torch.float32)
               for i in range(-(-mebibytes // TENSOR_MIB))}
    save_seconds = seconds_of(lambda: save_file(tensors, file, metadata={"format": "pt"}))
    load_seconds = [seconds_of(lambda: load_file(file)) for _ in range(5)]
    file.unlink()
    report(save_seconds=save_seconds, load_seconds=load_seconds)


main()
