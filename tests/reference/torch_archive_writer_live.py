"""Reads with PyTorch and Transformers what `accelerate merge-weights --unsafe_serialization` writes.

usage: torch_archive_writer_live.py ACCELERATE [--seed N]
Random tensors of every type go into safetensors files, from there into pytorch_model.bin, and must come back from
torch.load (weights_only=True, mapped too) with the same types, shapes and bits.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors.torch import save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.float16, torch.bfloat16, torch.int32,
         torch.uint32, torch.float32, torch.complex64, torch.float64, torch.int64, torch.uint64, torch.float8_e4m3fn,
         torch.float8_e5m2]


def random_tensor(dtype, rng):
    shape = [rng.choice([0, 1, 2, 3, 17, 64]) for _ in range(rng.randrange(4))]
    width = torch.empty((), dtype=dtype).element_size()
    count = torch.Size(shape).numel()
    high = 2 if dtype == torch.bool else 256
    raw = torch.tensor([rng.randrange(high) for _ in range(count * width)], dtype=torch.uint8)
    return raw.view(dtype).reshape(shape)


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).tolist() if tensor.numel() else []


def load(folder):
    index = folder / "pytorch_model.bin.index.json"
    names = set(json.loads(index.read_text())["weight_map"].values()) if index.exists() else ["pytorch_model.bin"]
    for mapped in (False, True):
        yield {name: tensor for file in sorted(names)
               for name, tensor in torch.load(folder / file, weights_only=True, mmap=mapped).items()}


def check(program, folder, rng, limit):
    tensors = {f"layer.{i}.µ": random_tensor(dtype, rng) for i, dtype in enumerate(TYPES * 3)}
    source, out = folder / "in", folder / "out"
    source.mkdir()
    save_file(tensors, source / "model.safetensors")
    subprocess.run([program, "merge-weights", source, out, "--unsafe_serialization", "--max_shard_size", limit,
                    "--remove_checkpoint_dir"], check=True, stdout=subprocess.DEVNULL)
    compared = 0
    for found in load(out):
        assert found.keys() == tensors.keys(), found.keys() ^ tensors.keys()
        for name, tensor in tensors.items():
            got = found[name]
            assert (got.dtype, got.shape, got.stride()) == (tensor.dtype, tensor.shape, tensor.stride()), name
            assert bits(got) == bits(tensor), name
            compared += 1
    return compared


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("accelerate")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng, compared = random.Random(arguments.seed), 0
    for limit in ("10GB", "40KB", "1"):
        with tempfile.TemporaryDirectory() as folder:
            compared += check(arguments.accelerate, pathlib.Path(folder), rng, limit)
    assert compared == 2 * 3 * 3 * len(TYPES)
    print(f"{compared} tensors read back alike")


if __name__ == "__main__":
    main()
